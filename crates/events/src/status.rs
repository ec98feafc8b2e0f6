//! What the delivery of events tells operators of a destination, and what they can ask of it.

use std::time::Duration;

use anteroom_core::UnixMillis;
use anteroom_store::StoreError;
use async_trait::async_trait;
use serde_json::Value;

use crate::transport::SendFailure;

/// How a destination fares.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DestinationStatus {
    /// How many events wait for it.
    pub lag_events: u64,
    /// How long the oldest of them has waited.
    pub lag_seconds: u64,
    /// How many it has got.
    pub delivered: u64,
    /// When it last got one.
    pub last_delivered_at: Option<UnixMillis>,
    /// Since when no attempt has succeeded.
    pub failing_since: Option<UnixMillis>,
    /// What went wrong with the last attempt, if it failed.
    pub last_error: Option<String>,
    /// When it is tried again.
    pub next_attempt_at: Option<UnixMillis>,
    /// How many dead letters it has.
    pub dead_letters: u64,
    /// How many events were dropped from the outbox before it had them, at most.
    pub missed: u64,
    /// Whether it gets nothing because it is full of dead letters.
    pub is_blocked: bool,
    /// The node that delivers to it.
    pub node: Option<String>,
    /// The number of the outbox up to which it has everything.
    pub position: u64,
}

/// An event that was given up.
#[derive(Debug, Clone, PartialEq)]
pub struct DeadLetter {
    /// As the destination would have got it.
    pub event: Value,
    /// Its number in the outbox.
    pub number: u64,
    /// When it was given up.
    pub failed_at: UnixMillis,
    /// How often it was tried.
    pub attempts: u32,
    /// What went wrong last.
    pub reason: String,
}

/// From where a replay goes, as operators say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayFrom {
    /// The events behind that number of the outbox.
    After(u64),
    /// The events from that moment on.
    Since(UnixMillis),
    /// The event of that id, and those behind it.
    EventId(String),
}

/// What handlers ask of the delivery of events.
#[async_trait]
pub trait DeliveryControl: Send + Sync + 'static {
    /// How a destination fares; all zero where nothing is known of it.
    async fn status(&self, name: &str) -> Result<DestinationStatus, StoreError>;

    /// Sends a destination an event that says it is a test, apart from all others, and says how long that took.
    async fn test(&self, name: &str) -> Result<Duration, SendFailure>;

    /// Dead letters of a destination, the oldest first.
    async fn dead_letters(&self, name: &str, limit: usize) -> Result<Vec<DeadLetter>, StoreError>;

    /// The number of the outbox behind which a replay begins; none if there is no such event.
    async fn resolve_replay(&self, from: ReplayFrom) -> Result<Option<u64>, StoreError>;
}

/// A control for a server that delivers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoDelivery;

#[async_trait]
impl DeliveryControl for NoDelivery {
    async fn status(&self, _name: &str) -> Result<DestinationStatus, StoreError> {
        Ok(DestinationStatus::default())
    }

    async fn test(&self, _name: &str) -> Result<Duration, SendFailure> {
        Err(SendFailure::new("this server delivers no events"))
    }

    async fn dead_letters(&self, _name: &str, _limit: usize) -> Result<Vec<DeadLetter>, StoreError> {
        Ok(vec![])
    }

    async fn resolve_replay(&self, from: ReplayFrom) -> Result<Option<u64>, StoreError> {
        Ok(match from {
            ReplayFrom::After(number) => Some(number),
            ReplayFrom::Since(_) | ReplayFrom::EventId(_) => None,
        })
    }
}
