//! What the audit keeps of a change: who, what, where, when, in bounded words.

use anteroom_core::{Operation, Room, RoomId, UnixMillis};

use super::Actor;
use crate::contract::AuditRecord;

/// Longest text of one field of an audit record, in bytes.
pub const AUDIT_TEXT_MAX_BYTES: usize = 1_024;

/// The record of an operation that `room` is about to meet; `None` for a visitor about his own place.
pub(super) fn record_of(
    actor: &Actor,
    operation: &Operation,
    id: &RoomId,
    room: &Room,
    at: UnixMillis,
) -> Option<AuditRecord> {
    actor.name()?;
    let action = match operation {
        Operation::Advance { by } => format!("advance by {by}"),
        Operation::Reconfigure(change) => change.describe(room),
        other => other.name().to_owned(),
    };
    record(actor, id, action, at)
}

/// The record of something done to a room; `None` for a visitor about his own place.
pub(super) fn record(actor: &Actor, room: &RoomId, action: String, at: UnixMillis) -> Option<AuditRecord> {
    let actor = actor.name()?.to_owned();
    Some(AuditRecord { at, room: room.clone(), actor: bounded(actor), action: bounded(action) })
}

fn bounded(mut text: String) -> String {
    const CUT: &str = "...";
    if text.len() > AUDIT_TEXT_MAX_BYTES {
        text.truncate(text.floor_char_boundary(AUDIT_TEXT_MAX_BYTES - CUT.len()));
        text.push_str(CUT);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_between_characters() {
        let long = "ä".repeat(AUDIT_TEXT_MAX_BYTES);
        let cut = bounded(long);
        assert!(cut.len() <= AUDIT_TEXT_MAX_BYTES && cut.ends_with("ä..."), "{}", cut.len());
        assert_eq!(bounded("short".into()), "short");
    }
}
