//! Why an operation was not done.

use anteroom_core::Refusal;
use anteroom_store::StoreError;

/// Why an operation was not done.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// The rules refuse it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Too many are waiting.
    #[error("too many operations are waiting")]
    Overloaded,
    /// The room was deleted.
    #[error("the room was deleted")]
    RoomDeleted,
    /// Everything is being replaced.
    #[error("a backup is being restored; try again in a moment")]
    Restoring,
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The room stopped at a mistake of ours, and was read from the store again. Nothing was done.
    #[error("the room could not do this")]
    Panicked,
    /// The server is going down.
    #[error("the server is shutting down")]
    Stopped,
}
