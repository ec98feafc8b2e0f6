//! A JSON Schema of every kind of event, as `docs/api/events/` has them.

use anteroom_core::EventKind;
use serde_json::{Value, json};

/// The dialect that they are written in.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of the CloudEvents of one kind.
pub fn schema_of(kind: EventKind) -> Value {
    let mut data = serde_json::to_value(crate::data::schema_of(kind)).unwrap_or_default();
    // What is said of the type is said of the event already.
    if let Some(fields) = data.as_object_mut() {
        fields.remove("description");
    }
    let sources = if is_of_server(kind) { "^/server$" } else { "^/rooms/[A-Za-z0-9_.-]{1,64}$" };
    json!({
        "$schema": DIALECT,
        "title": kind.as_str(),
        "description": kind.meaning().trim(),
        "type": "object",
        "required": ["specversion", "id", "source", "type", "time", "sequence", "datacontenttype", "data"],
        "properties": {
            "specversion": { "const": "1.0" },
            "id": { "type": "string", "description": "Unique within its source, and the same in every attempt." },
            "source": { "type": "string", "pattern": sources },
            "type": { "const": kind.as_str() },
            "time": { "type": "string", "format": "date-time" },
            "subject": { "type": "string", "description": "The visit, by the name that origins know it by." },
            "sequence": {
                "type": "string",
                "pattern": "^[0-9]{20}$",
                "description": "Rises in the order in which changes were committed.",
            },
            "datacontenttype": { "const": "application/json" },
            "data": data,
        },
    })
}

/// Whether events of a kind concern no room.
pub const fn is_of_server(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::AlarmFired
            | EventKind::AlarmResolved
            | EventKind::KeyCreated
            | EventKind::KeyRevoked
            | EventKind::StoreLost
            | EventKind::StoreRecovered
            | EventKind::DestinationLagging
            | EventKind::DestinationDisabled
            | EventKind::DestinationTest
    )
}
