//! Changes of a room, and what they changed.

use anteroom_core::{RoomId, RoomState};
use anteroom_server::Permission;
use hyper::Method;
use hyper::header::{HeaderValue, IF_MATCH, IF_NONE_MATCH};
use serde_json::{Map, Value, json};

use super::assignment::Assignment;
use super::view::{self, Room};
use crate::connection::{Answer, Call, Operator};
use crate::failure::{self, Exit, Failure};
use crate::output::{self, Format, talk};

/// How often a change is tried while others change the same room.
const ATTEMPTS_MAX: u32 = 5;

/// What shall be different.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) assignments: Vec<Assignment>,
    pub(super) state: Option<RoomState>,
    /// Only while the room has this entity tag.
    pub(super) if_match: Option<String>,
}

impl Change {
    fn body(&self) -> Value {
        let mut body = Map::new();
        if let Some(state) = self.state {
            body.insert("state".to_owned(), state.as_str().into());
        }
        let settings: Map<String, Value> = self
            .assignments
            .iter()
            .map(|assignment| (assignment.name.clone(), assignment.value.clone()))
            .collect();
        if !settings.is_empty() {
            body.insert("settings".to_owned(), settings.into());
        }
        body.into()
    }
}

/// Makes a room, and leaves one alone that is there already.
pub(super) async fn create(operator: Operator, id: &RoomId, change: Change) -> anyhow::Result<()> {
    let call = Call::new(Method::PUT, format!("/rooms/{id}"), Permission::Operate)
        .body(change.body())
        .condition(IF_NONE_MATCH, HeaderValue::from_static("*"));
    let answer = operator.call(call).await.map_err(|error| {
        if failure::kind(&error) != Some(Exit::Conflict) {
            return error;
        }
        let hint = format!("change it with `anteroom room set {id} NAME=VALUE`");
        Failure::new(Exit::Conflict, format!("there is a room {id} already")).hint(hint).into()
    })?;
    print(&operator, &answer, &[format!("room {id} created")])
}

/// Changes settings and state, and prints what was different before.
pub(super) async fn change(operator: Operator, id: &RoomId, change: Change) -> anyhow::Result<()> {
    let (before, answer) = patch(&operator, id, &change).await?;
    let after: Room = view::read(&operator, &answer)?;
    let mut lines = view::differences(&before, &after);
    let rests = |room: &Room| room.figures.get("inlet_rests").is_some_and(is_set);
    if rests(&before) && !rests(&after) {
        lines.push("the inlet goes on".to_owned());
    }
    if lines.is_empty() {
        talk(&format!("room {id}: nothing changed, it is so already"));
    }
    let lines: Vec<String> = lines.into_iter().map(|line| format!("room {id}: {line}")).collect();
    print(&operator, &answer, &lines)
}

/// The room as it was, and the answer with the room as it is.
///
/// The change is made on the condition that the room still is as it was read, so that "old -> new" is true. Where the operator did
/// not ask for a condition, a conflict is retried: the room is read again.
async fn patch(operator: &Operator, id: &RoomId, change: &Change) -> anyhow::Result<(Room, Answer)> {
    let mut attempts_left = ATTEMPTS_MAX;
    loop {
        attempts_left -= 1;
        let read = view::fetch(operator, id).await?;
        let before = view::read(operator, &read)?;
        let mut call =
            Call::new(Method::PATCH, format!("/rooms/{id}"), Permission::Operate).body(change.body());
        let asked = change.if_match.as_deref().map(entity_tag).transpose()?;
        if let Some(etag) = asked.or(read.etag) {
            call = call.condition(IF_MATCH, etag);
        }
        match operator.call(call).await {
            Err(error)
                if failure::kind(&error) == Some(Exit::Conflict)
                    && change.if_match.is_none()
                    && attempts_left > 0 => {}
            Err(error) => return Err(error),
            Ok(answer) => return Ok((before, answer)),
        }
    }
}

fn is_set(value: &Value) -> bool {
    value.as_bool().unwrap_or(value.as_u64().is_some_and(|number| number > 0))
}

/// An entity tag as it goes into a header; shells eat its quotes.
fn entity_tag(text: &str) -> anyhow::Result<HeaderValue> {
    let quoted = text == "*" || text.ends_with('"');
    let text = if quoted { text.to_owned() } else { format!("\"{text}\"") };
    let wrong = || Failure::new(Exit::CommandLine, format!("{text} is not an entity tag"));
    let hint = "`anteroom room show ROOM --etag` prints the present one";
    HeaderValue::from_str(&text).map_err(|_| wrong().hint(hint).into())
}

/// Moves the serving counter.
pub(super) async fn advance(operator: Operator, id: &RoomId, by: i64) -> anyhow::Result<()> {
    let body = json!({ "event_id": id.as_str(), "increment_by": by });
    let called = operator.call(Call::post("/increment_serving_counter", Permission::Operate, body)).await;
    let answer = view::named(&operator, id, called).await?;
    let serving = output::cell(&answer.json["serving_num"]);
    print(&operator, &answer, &[format!("room {id}: serving is now {serving}")])
}

/// Begins the line anew.
pub(super) async fn reset(operator: Operator, id: &RoomId) -> anyhow::Result<()> {
    let body = json!({ "event_id": id.as_str() });
    let called = operator.call(Call::post("/reset_initial_state", Permission::Operate, body)).await;
    let answer = view::named(&operator, id, called).await?;
    print(&operator, &answer, &[format!("room {id}: a new line has begun")])
}

/// Takes the room's clock back to the server's.
pub(super) async fn set_clock(operator: Operator, id: &RoomId) -> anyhow::Result<()> {
    let call = Call::new(Method::POST, format!("/rooms/{id}/clock"), Permission::Operate);
    let called = operator.call(call).await;
    let answer = view::named(&operator, id, called).await?;
    let set: Value = serde_json::from_str(&answer.text)?;
    let line = match (&set["before"], &set["clock"]) {
        (before, clock) if before == clock => format!("room {id}: the clock is right, nothing changed"),
        (before, clock) => format!("room {id}: clock {} -> {}", text_of(before), text_of(clock)),
    };
    print(&operator, &answer, &[line])
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Deletes a room.
pub(super) async fn delete(operator: Operator, id: &RoomId, if_match: Option<String>) -> anyhow::Result<()> {
    let mut call = Call::new(Method::DELETE, format!("/rooms/{id}"), Permission::Operate);
    if let Some(etag) = if_match.as_deref() {
        call = call.condition(IF_MATCH, entity_tag(etag)?);
    }
    let called = operator.call(call).await;
    view::named(&operator, id, called).await?;
    if operator.format == Format::Json {
        return output::data(&json!({ "deleted": id.as_str() }).to_string());
    }
    output::data(&format!("room {id} deleted"))
}

/// What happened: the server's answer to programs, lines to people.
fn print(operator: &Operator, answer: &Answer, lines: &[String]) -> anyhow::Result<()> {
    match operator.format {
        Format::Json => output::data(&answer.text),
        Format::Text if lines.is_empty() => Ok(()),
        Format::Text => output::data(&lines.join("\n")),
    }
}
