//! The server's time, so that all nodes go by one clock. Between two looks it runs on by the machine's; it never goes back. Looks at
//! a clock that has jumped count for nothing, until it is back.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anteroom_core::UnixMillis;

use crate::clock::{CLOCK_JUMP_MILLIS, Clock, Stopwatch};

/// Of so many looks the quickest counts.
const LOOKS: usize = 16;

/// The clock of a store.
pub(super) struct StoreClock {
    since_start: Stopwatch,
    looks: Mutex<VecDeque<Look>>,
    /// The latest time it has returned, in milliseconds since 1970.
    latest_millis: AtomicU64,
    /// How far the server's clock is ahead of (or behind) what is shown, in milliseconds; 0 while it is followed.
    off_by: AtomicI64,
}

/// A look at the server's clock.
#[derive(Clone, Copy)]
struct Look {
    /// How long it took to get the answer.
    took: Duration,
    /// What the server's clock showed when our stopwatch was at 0, in milliseconds since 1970.
    at_start: u64,
}

impl StoreClock {
    pub(super) fn new() -> Self {
        Self {
            since_start: Stopwatch::start(),
            looks: Mutex::default(),
            latest_millis: AtomicU64::new(0),
            off_by: AtomicI64::new(0),
        }
    }

    /// The server's clock showed this in an answer that took so long.
    pub(super) fn note(&self, server_millis: u64, took: Duration) {
        // The server looked at some time in between; nobody knows when.
        let looked = self.since_start.elapsed().saturating_sub(took / 2);
        let look = Look { took, at_start: server_millis.saturating_sub(millis(looked)) };
        let known = self.at_start();
        let off_by = if known == 0 { 0 } else { i128::from(look.at_start) - i128::from(known) };
        let has_jumped = off_by.unsigned_abs() > u128::from(CLOCK_JUMP_MILLIS);
        let off_by = if has_jumped { i64::try_from(off_by).unwrap_or(i64::MAX) } else { 0 };
        match (self.off_by.swap(off_by, Ordering::AcqRel), off_by) {
            (0, 0) => {}
            (0, _) => {
                tracing::error!(
                    off_by_seconds = off_by / 1000,
                    "redis clock jumped, holding the time; set it right, or restart the nodes to accept it"
                );
            }
            (_, 0) => tracing::warn!("redis clock is back, following it again"),
            _ => {}
        }
        if has_jumped {
            return;
        }
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.push_back(look);
        if looks.len() > LOOKS {
            looks.pop_front();
        }
    }

    fn at_start(&self) -> u64 {
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.iter().min_by_key(|look| look.took).map_or(0, |look| look.at_start)
    }
}

impl Clock for StoreClock {
    fn now(&self) -> UnixMillis {
        let now = self.at_start() + millis(self.since_start.elapsed());
        UnixMillis(self.latest_millis.fetch_max(now, Ordering::AcqRel).max(now))
    }

    fn off_by_millis(&self) -> i64 {
        self.off_by.load(Ordering::Acquire)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_look_counts_and_time_never_goes_back() {
        let clock = StoreClock::new();
        clock.note(1_800_000_000_000, Duration::from_millis(1));
        let first = clock.now();
        assert!((1_800_000_000_000..1_800_000_060_000).contains(&first.0), "{first:?}");
        // A slow answer from a server that is said to be an hour ahead counts for nothing.
        clock.note(1_800_003_600_000, Duration::from_millis(900));
        assert!(clock.now().0 < 1_800_000_060_000);
        // Once all looks say that it is earlier, the clock stands still and does not go back.
        for _ in 0..LOOKS {
            clock.note(1_800_000_000_000 - CLOCK_JUMP_MILLIS / 2, Duration::from_millis(1));
        }
        let later = clock.now();
        assert!(later >= first && later.0 < 1_800_000_060_000, "{later:?}");
        assert_eq!(clock.off_by_millis(), 0);
    }

    #[test]
    fn a_server_whose_clock_jumps_by_a_day_is_not_followed_until_it_is_back() {
        const DAY: u64 = 86_400_000;
        let clock = StoreClock::new();
        clock.note(1_800_000_000_000, Duration::from_millis(1));
        for jumped in [1_800_000_000_000 + DAY, 1_800_000_000_000 - DAY] {
            (0..2 * LOOKS).for_each(|_| clock.note(jumped, Duration::from_millis(1)));
            assert!((1_800_000_000_000..1_800_000_060_000).contains(&clock.now().0), "{:?}", clock.now());
            assert!(clock.off_by_millis().unsigned_abs().abs_diff(DAY) < CLOCK_JUMP_MILLIS);
            clock.note(1_800_000_000_000, Duration::from_millis(1));
            assert_eq!(clock.off_by_millis(), 0);
        }
    }
}
