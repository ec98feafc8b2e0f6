//! What the proxy sees of its origins: how long they take, and how often they fail.
//!
//! Latencies are counted in buckets, each 19 % wider than the one before, so that a percentile costs one counter a request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets for each doubling.
const BUCKETS_PER_DOUBLING: usize = 4;
/// How many doublings of a microsecond are distinguished: the last is over two minutes.
const DOUBLINGS: usize = 28;
const BUCKETS: usize = BUCKETS_PER_DOUBLING * DOUBLINGS;

/// What was seen since it was last asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observations {
    /// Requests that got a head of an answer, or an error of the origin.
    pub requests: u64,
    /// How many of them were errors: a status from 500, or no answer.
    pub errors: u64,
    /// The time from sending to the head that 95 % of the answers stayed within; `None` without answers.
    pub latency_p95: Option<Duration>,
    /// Requests at the origins now.
    pub in_flight: usize,
}

/// Counts what is seen.
#[derive(Debug)]
pub(super) struct Observer {
    latencies: [AtomicU64; BUCKETS],
    errors: AtomicU64,
    unanswered: AtomicU64,
}

impl Default for Observer {
    fn default() -> Self {
        Self {
            latencies: [const { AtomicU64::new(0) }; BUCKETS],
            errors: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
        }
    }
}

impl Observer {
    /// A response began, `latency` after its request was sent.
    pub(super) fn record_response(&self, latency: Duration, is_error: bool) {
        self.latencies[bucket_of(latency)].fetch_add(1, Ordering::Relaxed);
        if is_error {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// There was no response.
    pub(super) fn record_failure(&self) {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    /// What was seen since this was last called.
    pub(super) fn take(&self, in_flight: usize) -> Observations {
        let counts: Vec<u64> =
            self.latencies.iter().map(|bucket| bucket.swap(0, Ordering::Relaxed)).collect();
        let unanswered = self.unanswered.swap(0, Ordering::Relaxed);
        let answered: u64 = counts.iter().sum();
        Observations {
            requests: answered + unanswered,
            errors: self.errors.swap(0, Ordering::Relaxed) + unanswered,
            latency_p95: percentile(&counts, answered),
            in_flight,
        }
    }
}

/// The upper end of the bucket that holds the 95th of a hundred latencies.
fn percentile(counts: &[u64], answered: u64) -> Option<Duration> {
    if answered == 0 {
        return None;
    }
    let rank = (answered * 95).div_ceil(100);
    let mut seen = 0;
    let bucket = counts.iter().position(|count| {
        seen += count;
        seen >= rank
    })?;
    Some(end_of(bucket))
}

fn bucket_of(latency: Duration) -> usize {
    let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX).max(1);
    let doublings = micros.ilog2() as usize;
    // The two bits below the highest say where within the doubling it is.
    let within =
        if doublings >= 2 { (micros >> (doublings - 2)) & 3 } else { (micros << (2 - doublings)) & 3 };
    (doublings * BUCKETS_PER_DOUBLING + usize::try_from(within).unwrap_or(0)).min(BUCKETS - 1)
}

fn end_of(bucket: usize) -> Duration {
    let doublings = bucket / BUCKETS_PER_DOUBLING;
    let within = u64::try_from(bucket % BUCKETS_PER_DOUBLING).unwrap_or(0);
    Duration::from_micros(((5 + within) << doublings) / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_within_its_bucket_and_the_bucket_is_narrow() {
        for micros in [1, 2, 3, 4, 7, 100, 999, 1_000, 12_345, 1_000_000, 59_999_999] {
            let latency = Duration::from_micros(micros);
            let end = end_of(bucket_of(latency));
            assert!(
                end >= latency && end <= latency * 5 / 4 + Duration::from_micros(1),
                "{latency:?} {end:?}"
            );
        }
        assert_eq!(bucket_of(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn observations_are_returned_once() {
        let observer = Observer::default();
        for _ in 0..95 {
            observer.record_response(Duration::from_millis(10), false);
        }
        for _ in 0..5 {
            observer.record_response(Duration::from_secs(1), true);
        }
        observer.record_failure();
        let seen = observer.take(3);
        assert_eq!((seen.requests, seen.errors, seen.in_flight), (101, 6, 3));
        let p95 = seen.latency_p95.unwrap();
        assert!(p95 >= Duration::from_millis(10) && p95 < Duration::from_millis(13), "{p95:?}");
        assert_eq!(
            observer.take(0),
            Observations { requests: 0, errors: 0, latency_p95: None, in_flight: 0 }
        );
    }
}
