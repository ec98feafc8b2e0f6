//! What the protected site says about its capacity: who reports, and reporting by hand.

use anteroom_core::RoomId;
use anteroom_server::Permission;
use clap::Args;
use hyper::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::view;
use crate::connection::{Call, Operator};
use crate::failure::{self, Exit, Failure};
use crate::output::{self, Format, aligned, cell, count, table};

/// What is shown of each reporter.
const REPORTER_FIGURES: [&str; 9] = [
    "reporter",
    "age_seconds",
    "silent",
    "sequence",
    "free",
    "entered",
    "latency_p95_ms",
    "error_rate",
    "in_flight",
];
/// The figures in the order in which one follows from the other.
const FIGURES: [&str; 7] =
    ["free_reported", "passes_in_flight", "offers", "free", "capacity", "active", "standstill"];
const OF_A_REPORT: [&str; 7] =
    ["reporter", "sequence", "free", "entered", "latency_p95_ms", "error_rate", "in_flight"];

/// What the site says: how much it can take, or that visits are over.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("said").required(true).multiple(true)
    .args(["free", "latency_p95_ms", "error_rate", "in_flight", "exited", "completed", "abandoned"]))]
pub(super) struct ReportArguments {
    /// How many more visitors it can take: all of them, not how many more than last time
    #[arg(long, value_name = "N")]
    free: Option<u64>,
    /// Who reports: one process of the site [default: origin]
    #[arg(long, value_name = "NAME")]
    reporter: Option<String>,
    /// The number of the report; one that is not above the last is ignored
    #[arg(long, value_name = "N")]
    sequence: Option<u64>,
    /// Passes it has seen for the first time, since it began to count
    #[arg(long, value_name = "N")]
    entered: Option<u64>,
    /// The 95th percentile of its latency, in milliseconds
    #[arg(long, value_name = "MS")]
    latency_p95_ms: Option<f64>,
    /// The share of requests that failed, from 0 to 1
    #[arg(long, value_name = "SHARE")]
    error_rate: Option<f64>,
    /// Requests it works on
    #[arg(long, value_name = "N")]
    in_flight: Option<u64>,
    /// So many visits are over
    #[arg(long, value_name = "N", conflicts_with_all = OF_A_REPORT)]
    exited: Option<u64>,
    /// The visit of this request id was completed; can be repeated
    #[arg(long, value_name = "ID", conflicts_with_all = OF_A_REPORT)]
    completed: Vec<String>,
    /// The visit of this request id was abandoned; can be repeated
    #[arg(long, value_name = "ID", conflicts_with_all = OF_A_REPORT)]
    abandoned: Vec<String>,
}

impl ReportArguments {
    fn body(&self) -> Value {
        let list = |ids: &[String]| if ids.is_empty() { Value::Null } else { json!(ids) };
        let body = json!({
            "reporter": self.reporter,
            "sequence": self.sequence,
            "free": self.free,
            "entered": self.entered,
            "latency_p95_ms": self.latency_p95_ms,
            "error_rate": self.error_rate,
            "in_flight": self.in_flight,
            "exited": self.exited,
            "completed": list(&self.completed),
            "abandoned": list(&self.abandoned),
        });
        let said = body.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        said.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>().into()
    }
}

#[derive(Debug, Deserialize)]
struct Capacity {
    room: String,
    reporters: Vec<Map<String, Value>>,
    silent_after_seconds: u64,
    #[serde(flatten)]
    figures: Map<String, Value>,
}

/// Prints who reports, and what that leaves.
pub(super) async fn show(operator: Operator, id: &RoomId) -> anyhow::Result<()> {
    let called = operator.call(Call::get(format!("/rooms/{id}/capacity"), Permission::Read)).await;
    let answer = view::named(&operator, id, called).await?;
    if operator.format == Format::Json {
        return output::data(&answer.text);
    }
    let capacity: Capacity = view::read(&operator, &answer)?;
    let figures: Vec<(String, String)> = std::iter::once(("room".to_owned(), capacity.room))
        .chain(FIGURES.map(|name| (name.to_owned(), figure_text(&capacity.figures, name))))
        .collect();
    let rows: Vec<Vec<String>> = capacity
        .reporters
        .iter()
        .map(|reporter| REPORTER_FIGURES.map(|name| figure_text(reporter, name)).to_vec())
        .collect();
    let head = ["REPORTER", "AGE", "SILENT", "SEQUENCE", "FREE", "ENTERED", "P95 MS", "ERRORS", "IN FLIGHT"];
    let silence = format!("silent after {}", count(capacity.silent_after_seconds, "second"));
    output::data(&format!("{}\nreporters ({silence})\n{}", aligned(&figures), table(&head, &rows)))
}

fn figure_text(figures: &Map<String, Value>, name: &str) -> String {
    figures.get(name).map_or_else(|| "-".to_owned(), cell)
}

/// Says what the site would say.
pub(super) async fn report(operator: Operator, id: &RoomId, said: &ReportArguments) -> anyhow::Result<()> {
    let path = format!("/rooms/{id}/capacity");
    let called = operator.call(Call::post(path, Permission::ReportVisits, said.body())).await;
    let answer = view::named(&operator, id, called).await?;
    if operator.format == Format::Json {
        return output::data(&answer.text);
    }
    let told = |name: &str| cell(&answer.json[name]);
    let text = if answer.json["reported"].is_string() {
        format!(
            "room {id}: the report was {}; {} free, {} passes in flight, {} offers",
            if answer.json["reported"] == "late" { "late and is ignored" } else { "taken" },
            told("free"),
            told("passes_in_flight"),
            told("offers"),
        )
    } else {
        let number = |name: &str| answer.json[name].as_array().map_or(0, Vec::len);
        let mut text = format!(
            "room {id}: {} exits counted, {} completed, {} abandoned",
            told("exited"),
            number("completed"),
            number("abandoned")
        );
        for (name, meaning) in [("unknown", "unknown"), ("already_ended", "ended before")] {
            for request_id in answer.json[name].as_array().into_iter().flatten() {
                text = format!("{text}\n{meaning}: {}", output::plain(request_id));
            }
        }
        text
    };
    output::data(&text)
}

/// Forgets a reporter.
pub(super) async fn forget(operator: Operator, id: &RoomId, reporter: &str) -> anyhow::Result<()> {
    // A room that is there answers for its reporters; one that is not has none.
    view::fetch(&operator, id).await?;
    let path = format!("/rooms/{id}/capacity/{}", path_segment(reporter));
    let called = operator.call(Call::new(Method::DELETE, path, Permission::Operate)).await;
    called.map_err(|error| {
        if failure::kind(&error) != Some(Exit::NotFound) {
            return error;
        }
        let failure = Failure::new(Exit::NotFound, format!("room {id} has no reporter {reporter}"));
        failure.hint(format!("`anteroom room capacity {id}` lists them")).into()
    })?;
    if operator.format == Format::Json {
        return output::data(&json!({ "forgotten": reporter }).to_string());
    }
    output::data(&format!("room {id}: reporter {reporter} forgotten"))
}

/// A name as one segment of a path.
fn path_segment(text: &str) -> String {
    let segment = text.bytes().map(|byte| {
        let plain = byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        if plain { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    });
    segment.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_within_its_segment() {
        assert_eq!(path_segment("web-1.b"), "web-1.b");
        assert_eq!(path_segment("a/../b?c%"), "a%2F..%2Fb%3Fc%25");
    }
}
