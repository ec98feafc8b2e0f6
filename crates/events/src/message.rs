//! An event as others read it: one CloudEvents 1.0 envelope for every kind, in structured mode.

use std::borrow::Cow;
use std::sync::Arc;

use anteroom_core::{Event, EventKind, RoomId, UnixMillis};
use anteroom_store::StoredEvent;
use serde::Serialize;
use serde_json::Value;

use crate::data::{data_of, request_id_text};

/// The version of CloudEvents.
const SPEC_VERSION: &str = "1.0";
/// Where events come from that concern no room.
const SERVER_SOURCE: &str = "/server";

/// An event, ready to be sent. The same event has the same id in every attempt, on every node, and after a failover.
#[derive(Debug, Clone, PartialEq)]
pub struct EventMessage {
    /// Unique over all sources.
    pub id: Arc<str>,
    /// Its number in the outbox: rising in the order in which changes were committed.
    pub number: u64,
    /// What happened.
    pub kind: EventKind,
    /// In which room; `None` for what concerns the whole server.
    pub room: Option<RoomId>,
    /// When.
    pub at: UnixMillis,
    /// The visit that it tells of, by the name that origins know it by.
    pub subject: Option<String>,
    /// What else there is to say, without what only destinations get that ask for request ids.
    pub data: Value,
    /// The ticket of the visitor, which is as good as their place: for destinations that ask for it.
    pub request_id: Option<String>,
}

/// The id of an event. It is unique over all rooms, because receivers compare it without looking at the source.
pub(crate) fn id_of(stored: &StoredEvent) -> String {
    let room = stored.room.as_ref().map_or("", RoomId::as_str);
    // FNV-1a
    let mix = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let room = room.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    format!("{}-{room:016x}", stored.id)
}

/// The envelope as it is written.
#[derive(Serialize)]
struct Envelope<'a> {
    specversion: &'static str,
    id: &'a str,
    source: String,
    r#type: &'static str,
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    /// Sorts as a string, per source, as the extension `sequence` asks for.
    sequence: String,
    datacontenttype: &'static str,
    data: &'a Value,
}

impl EventMessage {
    /// An event of the outbox, ready to be sent.
    pub fn of(number: u64, stored: &StoredEvent) -> Self {
        let request_id = match &stored.event {
            Event::TokenGenerated { request_id, .. } | Event::SessionUpdated { request_id, .. } => {
                Some(request_id_text(request_id))
            }
            _ => None,
        };
        // An older program did not say of which visit it told.
        let visit = stored.event.visit().filter(|_| stored.id.node != 0);
        Self {
            id: id_of(stored).into(),
            number,
            kind: stored.event.kind(),
            room: stored.room.clone(),
            at: stored.at,
            subject: visit.map(|visit| visit.to_string()),
            data: data_of(stored.room.as_ref(), &stored.event),
            request_id,
        }
    }

    /// Where it comes from, as CloudEvents has it: the room, or the server.
    pub fn source(&self) -> String {
        self.room
            .as_ref()
            .map_or_else(|| SERVER_SOURCE.to_owned(), |room| format!("/rooms/{}", room.as_str()))
    }

    /// The moment in RFC 3339.
    pub fn time(&self) -> String {
        let millis = i64::try_from(self.at.0).unwrap_or(i64::MAX);
        jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX).to_string()
    }

    /// The number as text that sorts like the number.
    pub fn sequence(&self) -> String {
        format!("{:020}", self.number)
    }

    /// The data; with the request id where the receiver asked for it and the event has one.
    pub fn data(&self, with_request_ids: bool) -> Value {
        let mut data = self.data.clone();
        if let (true, Some(request_id), Value::Object(fields)) =
            (with_request_ids, &self.request_id, &mut data)
        {
            fields.insert("request_id".into(), request_id.as_str().into());
        }
        data
    }

    /// The CloudEvent in structured mode, as JSON.
    pub fn to_json(&self, with_request_ids: bool) -> Value {
        self.in_envelope(with_request_ids, |envelope| {
            serde_json::to_value(envelope).expect("an envelope can be written as JSON")
        })
    }

    /// The same as text, added to what is there.
    pub fn write_json(&self, with_request_ids: bool, text: &mut Vec<u8>) {
        self.in_envelope(with_request_ids, |envelope| {
            serde_json::to_writer(text, envelope).expect("an envelope can be written as JSON");
        });
    }

    fn in_envelope<T>(&self, with_request_ids: bool, write: impl FnOnce(&Envelope<'_>) -> T) -> T {
        let data = if with_request_ids && self.request_id.is_some() {
            Cow::Owned(self.data(true))
        } else {
            Cow::Borrowed(&self.data)
        };
        write(&Envelope {
            specversion: SPEC_VERSION,
            id: &self.id,
            source: self.source(),
            r#type: self.kind.as_str(),
            time: self.time(),
            subject: self.subject.as_deref(),
            sequence: self.sequence(),
            datacontenttype: "application/json",
            data: &data,
        })
    }
}
