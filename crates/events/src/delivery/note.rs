//! What is remembered of a destination beside its cursor: how it fares, and its dead letters. Saved with the cursor.

use anteroom_core::{EventKind, RoomId, UnixMillis};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::EventMessage;
use crate::status::DeadLetter;

/// How many dead letters a destination keeps. With more, what fails is retried without end, and nothing is dropped.
pub(super) const DEAD_LETTERS_MAX: usize = 200;

/// What is remembered of a destination.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Note {
    /// The last replay that was done.
    pub(super) replay: u64,
    /// The last command about dead letters that was done.
    pub(super) dead_letter_command: u64,
    /// How many events have been delivered.
    pub(super) delivered: u64,
    pub(super) last_delivered_at: Option<u64>,
    pub(super) failing_since: Option<u64>,
    pub(super) last_error: Option<String>,
    pub(super) next_attempt_at: Option<u64>,
    /// When the oldest event happened that waits.
    pub(super) oldest_at: Option<u64>,
    /// How many events were dropped from the outbox before they were delivered, at most.
    pub(super) missed: u64,
    /// How many events of each class had been dropped when that was looked at last.
    pub(super) dropped: [u64; 2],
    /// Whether it was told that the destination is lagging.
    pub(super) is_lagging: bool,
    /// The node that delivers.
    pub(super) node: String,
    pub(super) dead_letters: Vec<StoredDeadLetter>,
}

/// An event that was given up, as it is kept: whole, because the outbox may have dropped it long since.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredDeadLetter {
    id: String,
    pub(super) number: u64,
    kind: String,
    room: Option<String>,
    at: u64,
    subject: Option<String>,
    data: Value,
    request_id: Option<String>,
    failed_at: u64,
    attempts: u32,
    reason: String,
}

impl StoredDeadLetter {
    pub(super) fn of(
        message: &EventMessage,
        (failed_at, attempts): (UnixMillis, u32),
        reason: &str,
        with_request_id: bool,
    ) -> Self {
        Self {
            id: message.id.to_string(),
            number: message.number,
            kind: message.kind.as_str().to_owned(),
            room: message.room.as_ref().map(|room| room.as_str().to_owned()),
            at: message.at.0,
            subject: message.subject.clone(),
            data: message.data.clone(),
            request_id: message.request_id.clone().filter(|_| with_request_id),
            failed_at: failed_at.0,
            attempts,
            reason: reason.to_owned(),
        }
    }

    /// Whether it is this event.
    pub(super) fn is_of(&self, message: &EventMessage) -> bool {
        *self.id == *message.id && self.room.as_deref() == message.room.as_ref().map(RoomId::as_str)
    }

    /// The event again; none if a newer program wrote it, of a kind that this one does not know.
    pub(super) fn message(&self) -> Option<EventMessage> {
        Some(EventMessage {
            id: self.id.as_str().into(),
            number: self.number,
            kind: EventKind::parse(&self.kind)?,
            room: self.room.as_deref().map(RoomId::parse).transpose().ok()?,
            at: UnixMillis(self.at),
            subject: self.subject.clone(),
            data: self.data.clone(),
            request_id: self.request_id.clone(),
        })
    }

    /// As operators see it: without the request id.
    pub(super) fn shown(&self) -> Option<DeadLetter> {
        Some(DeadLetter {
            event: self.message()?.to_json(false),
            number: self.number,
            failed_at: UnixMillis(self.failed_at),
            attempts: self.attempts,
            reason: self.reason.clone(),
        })
    }
}

impl Note {
    /// As a cursor has it; what cannot be read is as if nothing had been remembered.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}
