//! Destinations as people read them.

use anteroom_server::Permission;
use serde_json::Value;

use super::{call_for, path};
use crate::connection::{Answer, Call, Operator};
use crate::output::{self, Format, aligned, cell, plain, table};

/// The state, and why.
pub(super) fn state(destination: &Value) -> String {
    let status = &destination["status"];
    let is_failing = destination["state"] == "active" && !status["failing_since"].is_null();
    if is_failing { "failing".to_owned() } else { cell(&destination["state"]) }
}

/// Where it is.
pub(super) fn place(destination: &Value) -> String {
    match destination["kind"].as_str() {
        Some("eventbridge") => format!("{} in {}", cell(&destination["bus"]), cell(&destination["region"])),
        Some("file") => {
            format!("{} of {} bytes", cell(&destination["files_max"]), cell(&destination["size_max_bytes"]))
        }
        _ => cell(&destination["url"]),
    }
}

/// Prints everything about a destination, one line each.
pub(super) async fn show(operator: Operator, name: &str) -> anyhow::Result<()> {
    let answer = call_for(&operator, name, Call::get(path(name), Permission::Read)).await?;
    if operator.format == Format::Json {
        return output::data(&answer.text);
    }
    let Some(fields) = answer.json.as_object() else {
        return Err(operator.not_our_server("it answered without a destination").into());
    };
    let mut lines = vec![];
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("status", Value::Object(status)) => {
                lines.extend(status.iter().map(|(key, value)| (format!("status.{key}"), plain(value))));
            }
            ("secrets", Value::Array(secrets)) => {
                lines.extend(secrets.iter().map(|one| ("secret".to_owned(), secret(one))));
            }
            (_, Value::Array(texts)) => {
                let texts: Vec<String> = texts.iter().map(plain).collect();
                let all =
                    if key == "rooms" && texts.is_empty() { "(all)".to_owned() } else { texts.join(" ") };
                lines.push((key.clone(), all));
            }
            _ => lines.push((key.clone(), plain(value))),
        }
    }
    output::data(&aligned(&lines))
}

/// A secret without what it is.
fn secret(secret: &Value) -> String {
    let what = secret["algorithm"].as_str().unwrap_or("to be let in");
    let made = format!("{what}, of {}", cell(&secret["created_at"]));
    let until = secret["expires_at"].as_str().map_or_else(String::new, |end| format!(", until {end}"));
    let public = secret["public_key"].as_str().map_or_else(String::new, |key| format!(", {key}"));
    made + &until + &public
}

/// Prints dead letters, a row each.
pub(super) fn dead_letters(operator: &Operator, answer: &Answer) -> anyhow::Result<()> {
    if operator.format == Format::Json {
        return output::data(&answer.text);
    }
    let Some(letters) = answer.json["dead_letters"].as_array() else {
        return Err(operator.not_our_server("it answered without a list of dead letters").into());
    };
    let row = |letter: &Value| {
        vec![
            cell(&letter["number"]),
            cell(&letter["event"]["type"]),
            cell(&letter["failed_at"]),
            cell(&letter["attempts"]),
            cell(&letter["event"]["id"]),
            cell(&letter["reason"]),
        ]
    };
    let head = ["NUMBER", "TYPE", "GIVEN UP", "ATTEMPTS", "ID", "REASON"];
    output::data(&table(&head, &letters.iter().map(row).collect::<Vec<_>>()))
}
