//! What the engine counts for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::OperationFailures;

/// What the engine has done so far; read by metrics.
#[derive(Debug, Default)]
pub struct EngineCounters {
    /// Commits and joins written.
    pub commits: AtomicU64,
    /// Microseconds spent waiting for them.
    pub commit_micros: AtomicU64,
    /// Visitors joined.
    pub joins: AtomicU64,
    /// Sessions begun.
    pub sessions_begun: AtomicU64,
    /// Places of served tickets that rooms were asked for.
    pub place_looks: AtomicU64,
    /// Conflicts met.
    pub conflicts: AtomicU64,
    /// Commits that failed or whose outcome is unknown.
    pub failures: AtomicU64,
    /// Turns that panicked.
    pub panics: AtomicU64,
    /// Rooms whose last turn failed.
    pub rooms_failing: AtomicU64,
    /// Operations refused because the queue was full.
    pub overloads: AtomicU64,
    /// What went wrong, by operation.
    pub operation_failures: OperationFailures,
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
