//! The node's hold on its rooms: one owner task per room takes what has queued up, applies the rules, commits once, publishes
//! the board, and only then answers.
//!
//! # The path of an operation
//! queue → `Owner::turn` in `owner` (tick, joins, operations, by `anteroom_core::apply`) → one [`Store::commit`] or [`Store::join`] →
//! board published → answers. On a conflict the same operations are applied to the newer room. On an ambiguous failure a
//! shared store is asked again with the same number; where that decides nothing, the room is reloaded and the callers
//! learn that the outcome is unknown. On shared stores `peer_watch` follows what other nodes do.

mod actor;
mod audit;
mod backoff;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod counters;
mod engine;
mod error;
mod handle;
mod local_history;
mod operation_failures;
mod outbox;
mod owner;
mod place_status_cache;

pub use actor::Actor;
pub use counters::EngineCounters;
pub use engine::Engine;
pub use engine::peer_watch::{LEASE, POLL_PERIOD};
pub use engine::restore::{AcceptValues, RestoreRequest, Restored};
pub use error::EngineError;
pub use handle::{RoomHandle, SettingsAndState};
pub use operation_failures::OperationFailures;
pub use outbox::{EventInterest, Outbox};

/// How many operations may wait for a room. Beyond it callers are refused at once.
pub const ROOM_QUEUE_MAX: usize = 16_384;
/// How many places of that queue visitors cannot fill, so that operators and the origin can always act.
pub const OPERATORS_RESERVE: usize = 1_024;
/// How many operations share one commit.
pub const TURN_OPERATIONS_MAX: usize = 4_096;
/// How many ended sessions one turn sweeps. The rest still counts as active, which is safe.
pub const SWEEP_MAX: usize = 1_024;
/// How often a turn is computed anew after a conflict before its callers have to retry.
pub const CONFLICTS_MAX: u32 = 16;
