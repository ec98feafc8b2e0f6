//! Messages to send, and what receivers make of them.

use anteroom_core::{EventKind, RoomId, UnixMillis};
use anteroom_events::EventMessage;
use serde_json::{Value, json};

/// A moment with a fraction.
const AT: u64 = 1_700_000_000_500;

/// Messages of one room, numbered from `first` on: kinds of AWS and of ours, with all fields and with few, and text of all scripts.
pub(crate) fn messages(first: u64, count: u64) -> Vec<EventMessage> {
    (first..first + count).map(message).collect()
}

/// One of them.
pub(crate) fn message(number: u64) -> EventMessage {
    let (kind, data) = match number % 4 {
        0 => (EventKind::RoomOpened, json!({ "by": "Ana \"the admin\" Åström 王 🎟" })),
        1 => (EventKind::TokenGenerated, json!({ "event_id": "shop.eu" })),
        2 => (
            EventKind::SessionBegun,
            json!({ "position": number, "nested": { "list": [1, 2.5, null, true] } }),
        ),
        _ => (
            EventKind::AutomaticServingCounterIncrease,
            json!({
                "previous_serving_counter_position": 1,
                "increment_by": 2,
                "current_serving_counter_position": 3,
            }),
        ),
    };
    let is_of_visitor = matches!(kind, EventKind::TokenGenerated | EventKind::SessionBegun);
    EventMessage {
        id: format!("018bcfe5-{number:04}").into(),
        number,
        kind,
        room: Some(RoomId::parse("shop.eu").unwrap()),
        at: UnixMillis(AT + number * 1000),
        subject: is_of_visitor.then(|| format!("visit-{number}")),
        data,
        request_id: is_of_visitor.then(|| format!("request-{number}")),
    }
}

/// One that concerns no room.
pub(crate) fn message_of_server(number: u64) -> EventMessage {
    EventMessage {
        room: None,
        kind: EventKind::KeyCreated,
        data: json!({ "name": "new" }),
        ..message(number * 4)
    }
}

/// The `time` of an event as a number, because libraries write it in different ways.
pub(crate) fn with_time_as_number(mut event: Value) -> Value {
    let text = event["time"].as_str().unwrap_or_else(|| panic!("a time in {event}"));
    let moment: jiff::Timestamp = text.parse().unwrap();
    event["time"] = moment.as_millisecond().into();
    event
}

/// A message as a receiver of CloudEvents reads it.
pub(crate) fn cloud_event(message: &EventMessage, with_request_ids: bool) -> Value {
    with_time_as_number(message.to_json(with_request_ids))
}
