//! The clock of a run: every time in it is a number of microseconds since the run began.

use std::time::Duration;

use anteroom_store::clock::Stopwatch;

/// A point in time of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Moment(u64);

impl Moment {
    /// So many microseconds after the beginning.
    #[cfg(test)]
    pub(super) fn from_microseconds(microseconds: u64) -> Self {
        Self(microseconds)
    }

    /// The beginning.
    #[cfg(test)]
    pub(super) const fn at_start() -> Self {
        Self(0)
    }

    /// So many seconds after the beginning.
    pub(super) fn from_seconds(seconds: f64) -> Self {
        Self::default().after(Duration::from_secs_f64(seconds))
    }

    /// Microseconds since the beginning.
    pub(super) fn microseconds(self) -> u64 {
        self.0
    }

    /// Seconds since the beginning.
    pub(super) fn seconds(self) -> f64 {
        Duration::from_micros(self.0).as_secs_f64()
    }

    /// This much later.
    pub(super) fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }

    /// Microseconds since `earlier`; none when that was later.
    pub(super) fn microseconds_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Tells the time of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunClock(Stopwatch);

impl RunClock {
    /// The run begins.
    pub(super) fn start() -> Self {
        Self(Stopwatch::start())
    }

    /// The present moment.
    pub(super) fn now(&self) -> Moment {
        Moment::default().after(self.0.elapsed())
    }

    /// Waits until a moment; not at all when it has passed.
    pub(super) async fn sleep_until(&self, moment: Moment) {
        let wait_microseconds = moment.microseconds_since(self.now());
        if wait_microseconds > 0 {
            tokio::time::sleep(Duration::from_micros(wait_microseconds)).await;
        }
    }
}
