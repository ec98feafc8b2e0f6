//! What the audit keeps of a change to a room: who, what, where, when.

use anteroom_core::{InletKind, Operation, Room, RoomId, UnixMillis};
use anteroom_store::contract::AuditRecord;

use crate::Actor;

/// The record of an operation that `room` is about to meet; `None` for visitors about their own places, and for what
/// programs report every few seconds, which would leave no room for what people did.
pub(super) fn record_of(
    actor: &Actor,
    operation: &Operation,
    id: &RoomId,
    room: &Room,
    at: UnixMillis,
) -> Option<AuditRecord> {
    actor.name()?;
    let action = match operation {
        Operation::Report(_) | Operation::SettleRound { .. } => return None,
        Operation::Advance { by } if room.settings.inlet != InletKind::Manual => {
            format!("advance by {by} beside the inlet {}", room.settings.inlet.as_str())
        }
        Operation::Advance { by } => format!("advance by {by}"),
        Operation::Reconfigure(change) => change.describe(room),
        Operation::ForgetReporter { reporter } => format!("forget-reporter {reporter}"),
        Operation::Alarms { firing } if firing.is_empty() => "alarms: none fires".to_owned(),
        Operation::Alarms { firing } => format!("alarms: {} fires", firing.join(", ")),
        other => other.name().to_owned(),
    };
    record(actor, id, &action, at)
}

/// The record of something done to a room; `None` for visitors about their own places.
pub(super) fn record(actor: &Actor, room: &RoomId, action: &str, at: UnixMillis) -> Option<AuditRecord> {
    Some(AuditRecord::new(at, Some(room.clone()), actor.name()?, action))
}
