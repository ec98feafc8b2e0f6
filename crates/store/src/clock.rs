//! The one clock. Everything else takes time as an argument.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anteroom_core::UnixMillis;

/// Where `now` comes from.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since 1970.
    fn now(&self) -> UnixMillis;

    /// How far its source has jumped ahead of (or behind) what it shows, in milliseconds; 0 while it is followed.
    fn off_by_millis(&self) -> i64 {
        0
    }
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one clock")]
    fn now(&self) -> UnixMillis {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        UnixMillis(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }
}

/// How far a clock may be from where it should be before that counts as a jump.
pub const CLOCK_JUMP_MILLIS: u64 = 60_000;

/// A clock that holds when its source jumps: by more than [`CLOCK_JUMP_MILLIS`] within the time that a stopwatch has measured. It
/// then goes on by the stopwatch, until the source is back. So a machine whose clock is a day ahead ends no session.
///
/// A correction by less is followed. A restart takes the source as it is, so that is how an operator accepts a jump.
pub struct SteadyClock<C> {
    source: C,
    since_start: Stopwatch,
    /// What the source showed when the stopwatch was at 0, as far as it has been followed; in milliseconds since 1970.
    at_start: AtomicU64,
    /// How far the source is ahead of (or behind) what is shown, in milliseconds; 0 while it is followed.
    off_by: AtomicI64,
}

impl<C: Clock> SteadyClock<C> {
    /// Follows `source` from what it shows now.
    pub fn new(source: C) -> Self {
        let since_start = Stopwatch::start();
        let at_start = AtomicU64::new(source.now().0);
        Self { source, since_start, at_start, off_by: AtomicI64::new(0) }
    }
}

impl<C: Clock> Clock for SteadyClock<C> {
    fn now(&self) -> UnixMillis {
        let shown = self.source.now().0;
        let elapsed = u64::try_from(self.since_start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let expected = self.at_start.load(Ordering::Acquire).saturating_add(elapsed);
        if shown.abs_diff(expected) <= CLOCK_JUMP_MILLIS {
            if shown != expected {
                self.at_start.store(shown.saturating_sub(elapsed), Ordering::Release);
            }
            if self.off_by.swap(0, Ordering::AcqRel) != 0 {
                tracing::warn!("machine clock is back, following it again");
            }
            return UnixMillis(shown);
        }
        let off_by = i64::try_from(i128::from(shown) - i128::from(expected)).unwrap_or(i64::MAX);
        if self.off_by.swap(off_by, Ordering::AcqRel) == 0 {
            tracing::error!(
                off_by_seconds = off_by / 1000,
                "machine clock jumped, holding the time; set it right, or restart to accept it"
            );
        }
        UnixMillis(expected)
    }

    fn off_by_millis(&self) -> i64 {
        self.off_by.load(Ordering::Acquire)
    }
}

/// A clock that moves only by [`Self::advance`]; for tests and simulations.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that shows `now`.
    pub fn at(now: UnixMillis) -> Self {
        Self(AtomicU64::new(now.0))
    }

    /// Moves it forward.
    pub fn advance(&self, milliseconds: u64) {
        self.0.fetch_add(milliseconds, Ordering::SeqCst);
    }

    /// Moves it back.
    pub fn go_back(&self, milliseconds: u64) {
        self.0.fetch_sub(milliseconds, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(self.0.load(Ordering::SeqCst))
    }
}

/// Measures how long something takes.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts it.
    #[expect(clippy::disallowed_methods, reason = "this is the one clock")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const DAY: u64 = 86_400_000;
    const START: u64 = 1_800_000_000_000;

    impl Clock for Arc<ManualClock> {
        fn now(&self) -> UnixMillis {
            self.as_ref().now()
        }
    }

    #[test]
    fn a_clock_that_jumps_by_a_day_is_held_until_it_is_back() {
        let source = Arc::new(ManualClock::at(UnixMillis(START)));
        let clock = SteadyClock::new(Arc::clone(&source));
        // The stopwatch runs meanwhile, but not for a minute.
        let is_near = |now: UnixMillis, expected: u64| now.0.abs_diff(expected) < CLOCK_JUMP_MILLIS;
        source.advance(CLOCK_JUMP_MILLIS / 2);
        assert_eq!(clock.now(), UnixMillis(START + CLOCK_JUMP_MILLIS / 2), "a correction is followed");
        source.advance(DAY);
        for _ in 0..3 {
            assert!(is_near(clock.now(), START + CLOCK_JUMP_MILLIS / 2), "{:?}", clock.now());
        }
        let off_by = u64::try_from(clock.off_by_millis()).expect("ahead");
        assert!(off_by.abs_diff(DAY) < CLOCK_JUMP_MILLIS, "{off_by}");
        source.go_back(DAY);
        assert_eq!(clock.now(), UnixMillis(START + CLOCK_JUMP_MILLIS / 2));
        assert_eq!(clock.off_by_millis(), 0);
        // Back by a day is a jump too.
        source.go_back(DAY);
        assert!(is_near(clock.now(), START + CLOCK_JUMP_MILLIS / 2) && clock.off_by_millis() < 0);
    }
}
