//! Rooms as text: a table of all, one in full, and what a change changed.

use anteroom_core::settings::FIELDS;
use anteroom_core::{RoomId, Settings, Value as Setting};
use anteroom_server::Permission;
use hyper::header::HeaderValue;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::arrivals;
use super::frontier::Frontier;
use crate::connection::{Answer, Call, Operator, nearest};
use crate::failure::{self, Exit, Failure};
use crate::output::{self, Format, aligned, cell, plain, table};

/// The figures in the order in which a visitor meets them.
const FIGURES: [&str; 14] = [
    "serving",
    "joined",
    "waiting",
    "offers",
    "active",
    "live_sessions",
    "claimed",
    "completed",
    "abandoned",
    "expired",
    "lapsed",
    "left",
    "offers_by_hand",
    "inlet_rests",
];
/// What the list shows of each room.
const LISTED_FIGURES: [&str; 5] = ["serving", "joined", "waiting", "offers", "active"];
/// What is shown of each generation of tickets.
const GENERATION_FIGURES: [&str; 5] = ["generation", "base", "joined", "serving", "floor"];

/// A room as the private API shows it.
#[derive(Debug, Deserialize)]
pub(super) struct Room {
    pub(super) id: String,
    pub(super) state: String,
    pub(super) settings: Map<String, Value>,
    pub(super) figures: Map<String, Value>,
    generations: Vec<Map<String, Value>>,
    version: u64,
    updated_at: String,
    #[serde(flatten)]
    frontier: Frontier,
}

#[derive(Debug, Deserialize)]
struct Rooms {
    rooms: Vec<Room>,
}

/// Prints all rooms.
pub(super) async fn list(operator: Operator) -> anyhow::Result<()> {
    let answer = all(&operator).await?;
    if operator.format == Format::Json {
        return output::data(&answer.text);
    }
    let Rooms { rooms } = read(&operator, &answer)?;
    let rows: Vec<Vec<String>> = rooms
        .iter()
        .map(|room| {
            let inlet = room.settings.get("inlet").map_or_else(|| "-".to_owned(), cell);
            let figures =
                LISTED_FIGURES.map(|name| cell(&room.figures.get(name).cloned().unwrap_or_default()));
            [room.id.clone(), room.state.clone(), inlet].into_iter().chain(figures).collect()
        })
        .collect();
    output::data(&table(
        &["ROOM", "STATE", "INLET", "SERVING", "JOINED", "WAITING", "OFFERS", "ACTIVE"],
        &rows,
    ))
}

/// Prints one room.
pub(super) async fn show(operator: Operator, id: &RoomId, etag_alone: bool) -> anyhow::Result<()> {
    let answer = fetch(&operator, id).await?;
    let etag = answer.etag.as_ref().map(etag_text).unwrap_or_default();
    if etag_alone {
        return output::data(&etag);
    }
    if operator.format == Format::Json {
        return output::data(&answer.text);
    }
    let arrivals = arrivals::to_text_if_known(&operator, id).await?;
    output::data(&format!("{}{arrivals}", to_text(&read(&operator, &answer)?, &etag)))
}

async fn all(operator: &Operator) -> anyhow::Result<Answer> {
    operator.call(Call::get("/rooms", Permission::Read)).await
}

/// The answer that holds one room.
pub(crate) async fn fetch(operator: &Operator, id: &RoomId) -> anyhow::Result<Answer> {
    let called = operator.call(Call::get(format!("/rooms/{id}"), Permission::Read)).await;
    named(operator, id, called).await
}

/// Understands an answer.
pub(super) fn read<T: for<'de> Deserialize<'de>>(operator: &Operator, answer: &Answer) -> anyhow::Result<T> {
    serde_json::from_value(answer.json.clone())
        .map_err(|error| operator.not_our_server(&format!("it answered something else ({error})")).into())
}

/// Where a room was not found, says which there are.
pub(super) async fn named(
    operator: &Operator,
    id: &RoomId,
    called: anyhow::Result<Answer>,
) -> anyhow::Result<Answer> {
    match called {
        Err(error) if failure::kind(&error) == Some(Exit::NotFound) => {
            let failure = Failure::new(Exit::NotFound, format!("there is no room {id}"));
            // A key that may not list rooms still gets the answer that this one is not there.
            let rooms = names(operator).await.unwrap_or_default();
            let rooms: Vec<&str> = rooms.iter().map(String::as_str).collect();
            Err(failure.maybe_hint(nearest(id.as_str(), &rooms)).into())
        }
        other => other,
    }
}

/// The names of all rooms.
pub(crate) async fn names(operator: &Operator) -> anyhow::Result<Vec<String>> {
    let answer = all(operator).await?;
    let rooms = answer.json["rooms"].as_array();
    let ids = rooms.into_iter().flatten().filter_map(|room| room["id"].as_str());
    Ok(ids.map(str::to_owned).collect())
}

/// An entity tag without its quotes, which a shell would eat.
fn etag_text(etag: &HeaderValue) -> String {
    etag.to_str().unwrap_or_default().trim_matches('"').to_owned()
}

fn to_text(room: &Room, etag: &str) -> String {
    let head = [
        ("room", room.id.clone()),
        ("state", room.state.clone()),
        ("etag", etag.to_owned()),
        ("version", room.version.to_string()),
        ("updated_at", room.updated_at.clone()),
    ];
    let head = aligned(&head.map(|(name, value)| (name.to_owned(), value)));
    let settings: Vec<(String, String)> = ordered(&room.settings, FIELDS.iter().map(|field| field.name))
        .into_iter()
        .map(|(name, value)| {
            (format!("{} {name}", if is_default(name, value) { ' ' } else { '*' }), plain(value))
        })
        .collect();
    let figures: Vec<(&String, String)> =
        ordered(&room.figures, FIGURES).into_iter().map(|(name, value)| (name, cell(value))).collect();
    let width = figures.iter().map(|(_, value)| value.len()).max().unwrap_or(0);
    let figures: Vec<(String, String)> =
        figures.into_iter().map(|(name, value)| (format!("  {name}"), format!("{value:>width$}"))).collect();
    let generations: Vec<Vec<String>> = room
        .generations
        .iter()
        .map(|generation| {
            GENERATION_FIGURES.map(|name| cell(&generation.get(name).cloned().unwrap_or_default())).to_vec()
        })
        .collect();
    let generations = table(&["GENERATION", "BASE", "JOINED", "SERVING", "FLOOR"], &generations);
    format!(
        "{head}\n{}\nsettings (* differs from the default)\n{}\nfigures\n{}\n{generations}",
        room.frontier.to_text(),
        aligned(&settings),
        aligned(&figures)
    )
}

/// The entries in the order we know them by, then those that only a newer server knows.
fn ordered(
    entries: &Map<String, Value>,
    known: impl IntoIterator<Item = &'static str>,
) -> Vec<(&String, &Value)> {
    let known: Vec<&str> = known.into_iter().collect();
    let first = known.iter().filter_map(|name| entries.get_key_value(*name));
    let rest = entries.iter().filter(|(name, _)| !known.contains(&name.as_str()));
    first.chain(rest).collect()
}

/// Whether a setting is at its default; one that we do not know is, as far as we know.
fn is_default(name: &str, value: &Value) -> bool {
    let Some(field) = FIELDS.iter().find(|field| field.name == name) else { return true };
    let default = match (field.get)(&Settings::default()) {
        Setting::None => Value::Null,
        Setting::Flag(flag) => flag.into(),
        Setting::Number(number) => number.into(),
        Setting::Text(text) => text.into(),
        Setting::List(texts) => texts.into(),
    };
    *value == default
}

/// What differs between a room before a change and after it, one line each, in the order of the reference.
pub(super) fn differences(before: &Room, after: &Room) -> Vec<String> {
    let mut lines = vec![];
    if before.state != after.state {
        lines.push(format!("state: {} -> {}", before.state, after.state));
    }
    for (name, value) in ordered(&after.settings, FIELDS.iter().map(|field| field.name)) {
        let old = before.settings.get(name).unwrap_or(&Value::Null);
        if old != value {
            lines.push(format!("{name}: {} -> {}", plain(old), plain(value)));
        }
    }
    lines
}
