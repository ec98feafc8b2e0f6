//! What each kind of event says: one type a kind, from which the JSON and its schema are made.
//!
//! The four kinds of Virtual Waiting Room on AWS say what they said there, name by name and type by type.

use anteroom_core::events::RoomFigures;
use anteroom_core::{Event, EventKind, RequestId, RoomId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

/// Makes the types, and the schema of each kind.
macro_rules! data {
    ($( $(#[doc = $meaning:literal])+ $name:ident for $($kind:ident),+ { $( $(#[doc = $field_meaning:literal])+ $(#[$attribute:meta])* $field:ident: $type:ty, )* } )+) => {
        $(
            $(#[doc = $meaning])+
            #[derive(Serialize, ToSchema)]
            #[expect(clippy::allow_attributes, reason = "only some of these types have such fields")]
            #[allow(clippy::struct_field_names, reason = "fields have the names that AWS gave them")]
            struct $name { $( $(#[doc = $field_meaning])+ $(#[$attribute])* $field: $type, )* }
        )+

        /// What the data of a kind are like.
        pub(crate) fn schema_of(kind: EventKind) -> RefOr<Schema> {
            match kind { $( $(EventKind::$kind)|+ => <$name as utoipa::PartialSchema>::schema(), )+ }
        }
    };
}

data! {
    /// A ticket was claimed for the first time.
    TokenGenerated for TokenGenerated {
        /// The room.
        event_id: String,
        /// The ticket; only for destinations with `with_request_ids`.
        #[serde(skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    }
    /// A visit was ended by name.
    SessionUpdated for SessionUpdated {
        /// The room.
        event_id: String,
        /// The ticket; only for destinations with `with_request_ids`.
        #[serde(skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        /// `completed` or `abandoned`.
        status: &'static str,
    }
    /// Offers lapsed, and the serving counter moved on.
    ServingCounterIncrease for AutomaticServingCounterIncrease {
        /// The serving counter before.
        previous_serving_counter_position: u64,
        /// By how much it rose.
        increment_by: u64,
        /// The serving counter now.
        current_serving_counter_position: u64,
    }
    /// The figures of a room. All but the first are text, as they were on AWS.
    WaitingRoomMetrics for WaitingRoomMetrics {
        /// The room.
        event_id: String,
        /// Visitors inside.
        num_active_tokens: u64,
        /// Passes issued so far.
        total_num_tokens: String,
        /// Positions handed out so far.
        queue_counter: String,
        /// The serving counter.
        serving_number: String,
        /// Visits completed.
        completed_sessions: String,
        /// Visits abandoned.
        abandoned_sessions: String,
    }
    /// Nothing beyond the envelope.
    Nothing for RoomCreated {
    }
    /// The state that a room has now.
    StateChanged for RoomOpened, RoomPaused, RoomDraining, RoomClosed {
        /// `open`, `paused`, `draining` or `closed`.
        state: &'static str,
        /// Whose key, or what part of the server, did it.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    }
    /// A line that is over.
    RoomReset for RoomReset {
        /// The generation of the line that is over.
        previous_generation: u64,
        /// The generation of the line that begins.
        generation: u64,
        /// How many waited.
        waiting: u64,
        /// How many were inside.
        active: u64,
        /// Whose key did it.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    }
    /// Who did it.
    RoomDeleted for RoomDeleted {
        /// Whose key, or what part of the server, did it.
        by: String,
    }
    /// Which settings differ.
    SettingsChanged for RoomSettingsChanged {
        /// Their names.
        settings: Vec<String>,
        /// Whose key, or what part of the server, did it.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    }
    /// What holds, or held, the inlet.
    InletHold for InletHeld, InletReleased {
        /// One of the reasons that the board gives for a standstill.
        reason: &'static str,
    }
    /// How full the room is.
    CapacityReached for CapacityReached {
        /// The capacity.
        capacity: u64,
        /// How many are inside or have an offer.
        held: u64,
        /// How many wait.
        waiting: u64,
    }
    /// How full the room is.
    CapacityFree for CapacityFree {
        /// The capacity.
        capacity: u64,
        /// How many are inside or have an offer.
        held: u64,
    }
    /// How many the line has served.
    LineEmpty for LineEmpty {
        /// The last position handed out.
        joined: u64,
    }
    /// The line that begins after a loss.
    LineMended for LineMended {
        /// Its generation.
        generation: u64,
        /// Whether the store had lost the records of visits, too.
        sessions_lost: bool,
    }
    /// Offers that were made together and not claimed.
    OffersLapsed for OffersLapsed {
        /// The generation of the line.
        generation: u64,
        /// The last position of the stretch.
        up_to: u64,
        /// How many were not claimed.
        count: u64,
    }
    /// The visit; it is also the envelope's `subject`.
    SessionBegun for SessionBegun {
        /// The name by which origins know it.
        visit: String,
    }
    /// The visit; it is also the envelope's `subject`.
    SessionEnded for SessionEnded {
        /// The name by which origins know it.
        visit: String,
        /// `completed`, `abandoned` or `expired`.
        cause: &'static str,
    }
    /// An alarm.
    Alarm for AlarmFired, AlarmResolved {
        /// Its name.
        alarm: String,
        /// What was reported with it.
        summary: String,
    }
    /// An API key.
    Key for KeyCreated, KeyRevoked {
        /// Its name.
        key: String,
        /// What it may do.
        role: String,
        /// Whose key did it.
        by: String,
    }
    /// The node that could not reach the store.
    StoreLost for StoreLost {
        /// Its id.
        node: String,
    }
    /// The node that can reach it again.
    StoreRecovered for StoreRecovered {
        /// Its id.
        node: String,
        /// Since when it could not, in milliseconds since 1970.
        lost_at: u64,
    }
    /// A destination that is behind.
    DestinationLagging for DestinationLagging {
        /// Its name.
        destination: String,
        /// How many events it is behind, at most.
        behind: u64,
    }
    /// A destination that gets no more events.
    DestinationDisabled for DestinationDisabled {
        /// Its name.
        destination: String,
        /// Why.
        reason: String,
    }
    /// A destination that is being tried.
    DestinationTest for DestinationTest {
        /// Its name.
        destination: String,
    }
}

/// A ticket as clients know it.
pub(crate) fn request_id_text(request_id: &RequestId) -> String {
    uuid::Uuid::from_bytes(request_id.0).hyphenated().to_string()
}

/// The data of an event, without what only destinations get that ask for request ids.
pub(crate) fn data_of(room: Option<&RoomId>, event: &Event) -> Value {
    let event_id = || room.map_or(String::new(), |room| room.as_str().to_owned());
    let written = match event {
        Event::TokenGenerated { .. } => json(TokenGenerated { event_id: event_id(), request_id: None }),
        Event::SessionUpdated { outcome, .. } => {
            json(SessionUpdated { event_id: event_id(), request_id: None, status: outcome.as_str() })
        }
        Event::AutomaticServingCounterIncrease { previous, current } => json(ServingCounterIncrease {
            previous_serving_counter_position: *previous,
            increment_by: current.saturating_sub(*previous),
            current_serving_counter_position: *current,
        }),
        Event::WaitingRoomMetrics(figures) => metrics(event_id(), figures),
        Event::RoomCreated => json(Nothing {}),
        Event::StateChanged { state, by } => json(StateChanged { state: state.as_str(), by: by.clone() }),
        Event::RoomReset { before, generation, waiting, active, by } => json(RoomReset {
            previous_generation: before.number(),
            generation: generation.number(),
            waiting: *waiting,
            active: *active,
            by: by.clone(),
        }),
        Event::RoomDeleted { by } => json(RoomDeleted { by: by.clone() }),
        Event::SettingsChanged { names, by } => {
            json(SettingsChanged { settings: names.clone(), by: by.clone() })
        }
        Event::InletHeld { reason } | Event::InletReleased { reason } => {
            json(InletHold { reason: reason.as_str() })
        }
        Event::CapacityReached { capacity, held, waiting } => {
            json(CapacityReached { capacity: *capacity, held: *held, waiting: *waiting })
        }
        Event::CapacityFree { capacity, held } => json(CapacityFree { capacity: *capacity, held: *held }),
        Event::LineEmpty { joined } => json(LineEmpty { joined: *joined }),
        Event::LineMended { generation, sessions_lost } => {
            json(LineMended { generation: generation.number(), sessions_lost: *sessions_lost })
        }
        Event::OffersLapsed { generation, up_to, count } => {
            json(OffersLapsed { generation: generation.number(), up_to: *up_to, count: *count })
        }
        Event::SessionBegun { visit } => json(SessionBegun { visit: visit.to_string() }),
        Event::SessionEnded { visit, cause } => {
            json(SessionEnded { visit: visit.to_string(), cause: cause.as_str() })
        }
        Event::AlarmChanged { name, summary, .. } => {
            json(Alarm { alarm: name.clone(), summary: summary.clone() })
        }
        Event::KeyChanged { name, role, by, .. } => {
            json(Key { key: name.clone(), role: role.clone(), by: by.clone() })
        }
        Event::StoreLost { node } => json(StoreLost { node: node_text(*node) }),
        Event::StoreRecovered { node, lost_at } => {
            json(StoreRecovered { node: node_text(*node), lost_at: lost_at.0 })
        }
        Event::DestinationLagging { name, behind } => {
            json(DestinationLagging { destination: name.clone(), behind: *behind })
        }
        Event::DestinationDisabled { name, reason } => {
            json(DestinationDisabled { destination: name.clone(), reason: reason.clone() })
        }
        Event::DestinationTest { name } => json(DestinationTest { destination: name.clone() }),
    };
    written.unwrap_or_default()
}

fn metrics(event_id: String, figures: &RoomFigures) -> Result<Value, serde_json::Error> {
    json(WaitingRoomMetrics {
        event_id,
        num_active_tokens: figures.num_active_tokens,
        total_num_tokens: figures.total_num_tokens.to_string(),
        queue_counter: figures.queue_counter.to_string(),
        serving_number: figures.serving_number.to_string(),
        completed_sessions: figures.completed_sessions.to_string(),
        abandoned_sessions: figures.abandoned_sessions.to_string(),
    })
}

fn json(data: impl Serialize) -> Result<Value, serde_json::Error> {
    serde_json::to_value(data)
}

fn node_text(node: u128) -> String {
    uuid::Uuid::from_u128(node).hyphenated().to_string()
}

#[cfg(test)]
mod tests {
    use anteroom_core::{Generation, Outcome, Position, SessionKey, UnixMillis};
    use anteroom_store::{EventId, StoredEvent};
    use serde_json::json;

    use super::*;
    use crate::message::EventMessage;

    /// What the four events of Virtual Waiting Room on AWS said, field by field: text and numbers as they were there.
    #[test]
    fn details_of_aws_are_those_of_aws() {
        let request_id = RequestId([7; 16]);
        let text = "07070707-0707-0707-0707-070707070707";
        let generation = Generation { opened: 9, incarnation: 1 };
        let visit = SessionKey { generation, position: Position::new(3).unwrap() };
        let figures = RoomFigures {
            num_active_tokens: 4,
            total_num_tokens: 5,
            queue_counter: 6,
            serving_number: 7,
            completed_sessions: 1,
            abandoned_sessions: 0,
        };
        let cases = [
            (Event::TokenGenerated { request_id, visit }, json!({"event_id": "Hall", "request_id": text})),
            (
                Event::SessionUpdated { request_id, visit, outcome: Outcome::Completed },
                json!({"event_id": "Hall", "request_id": text, "status": "completed"}),
            ),
            (
                Event::AutomaticServingCounterIncrease { previous: 10, current: 14 },
                json!({
                    "previous_serving_counter_position": 10, "increment_by": 4,
                    "current_serving_counter_position": 14,
                }),
            ),
            (
                Event::WaitingRoomMetrics(figures),
                json!({
                    "event_id": "Hall", "num_active_tokens": 4, "total_num_tokens": "5", "queue_counter": "6",
                    "serving_number": "7", "completed_sessions": "1", "abandoned_sessions": "0",
                }),
            ),
        ];
        for (event, detail) in cases {
            assert!(event.kind().is_of_aws());
            let id = EventId { node: 1, version: 2, number: 3, index: 0 };
            let room = Some(RoomId::parse("Hall").unwrap());
            let stored = StoredEvent { id, at: UnixMillis(0), room, event };
            let message = EventMessage::of(1, &stored);
            assert_eq!(message.data(true), detail);
            assert!(!message.to_json(false).to_string().contains(text), "only where it is asked for");
        }
    }

    /// The same write of two rooms, as far as numbers go, is two events.
    #[test]
    fn ids_of_two_rooms_differ() {
        let id = EventId { node: 1, version: 1, number: 1, index: 0 };
        let of_room = |room: Option<&str>| {
            let room = room.map(|room| RoomId::parse(room).unwrap());
            EventMessage::of(1, &StoredEvent { id, at: UnixMillis(0), room, event: Event::RoomCreated }).id
        };
        assert_eq!(of_room(Some("Hall")), of_room(Some("Hall")));
        assert_ne!(of_room(Some("Hall")), of_room(Some("Yard")));
        assert_ne!(of_room(Some("Hall")), of_room(None));
    }
}
