//! The circuit breaker: while a shared store does not answer, or not in time, no request waits for it.
//!
//! It opens at the first error, or when many decisions in a row took longer than their budget. One decision after another may
//! be late when the machine is busy, so one is not enough. Only a probe closes it, which runs beside the traffic: no visitor is
//! sent ahead to try.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::sync::Notify;

/// How many decisions in a row may be late.
const LATE_IN_A_ROW_MAX: u32 = 32;

/// Whether the store is asked.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    is_open: AtomicBool,
    late_in_a_row: AtomicU32,
    opened: Notify,
}

impl Breaker {
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// The store answered in time.
    pub(super) fn note_answer(&self) {
        // Read first: a cache line that is only read stays in every core's cache.
        if self.late_in_a_row.load(Ordering::Relaxed) != 0 {
            self.late_in_a_row.store(0, Ordering::Relaxed);
        }
    }

    /// The store answered with an error.
    pub(super) fn note_failure(&self, error: &dyn std::fmt::Display) {
        if self.open() {
            tracing::warn!(%error, "rate limit store failed, deciding without it until it answers");
        }
    }

    /// The store did not answer within the budget.
    pub(super) fn note_late(&self) {
        let late = self.late_in_a_row.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if late >= LATE_IN_A_ROW_MAX && self.open() {
            tracing::warn!("rate limit store is slow, deciding without it until it answers in time");
        }
    }

    /// Whether this opened it.
    fn open(&self) -> bool {
        let was_open = self.is_open.swap(true, Ordering::Relaxed);
        if !was_open {
            self.opened.notify_one();
        }
        !was_open
    }

    /// The store answers again, and in time.
    pub(super) fn close(&self) {
        self.late_in_a_row.store(0, Ordering::Relaxed);
        if self.is_open.swap(false, Ordering::Relaxed) {
            tracing::info!("rate limit store answers again");
        }
    }

    /// Waits until it is open.
    pub(super) async fn wait_until_open(&self) {
        while !self.is_open() {
            self.opened.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_error_opens_it_and_one_late_answer_does_not() {
        let breaker = Breaker::default();
        for _ in 0..3 {
            for _ in 1..LATE_IN_A_ROW_MAX {
                breaker.note_late();
            }
            assert!(!breaker.is_open());
            breaker.note_answer();
        }
        for _ in 0..LATE_IN_A_ROW_MAX {
            breaker.note_late();
        }
        assert!(breaker.is_open());
        breaker.close();
        breaker.note_late();
        assert!(!breaker.is_open(), "what was before it closed does not count");
        breaker.note_failure(&"gone");
        assert!(breaker.is_open());
    }
}
