//! Where a room's state lives.
//!
//! [`contract`] says what every store promises; [`memory`], [`embedded`] and [`redis`] keep it; the conformance suite runs the same scenarios
//! over each. The engine (`anteroom-engine`) is the only user of a store that changes rooms: it owns a room's queue of
//! operations, applies the rules of `core` to them and commits the result.

mod answers;
pub mod backup;
pub mod buckets;
pub mod clock;
pub mod codec;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;

pub mod contract;
mod cursor;
pub mod embedded;
mod lease;

pub mod memory;
pub mod redis;
pub mod seal;
pub mod stored_value;

pub use backup::BackupStream;
pub use backup::restore::RestoreError;
pub use clock::{Clock, ManualClock, SystemClock};
pub use contract::{AuditRecord, Cursor, EventId, NodeId, OutboxState, Store, StoreError, StoredEvent};
pub use embedded::EmbeddedStore;

pub use memory::MemoryStore;
pub use redis::RedisStore;
pub use seal::Seal;
