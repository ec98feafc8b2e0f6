//! What time it is. A test brings a clock of its own.

use std::time::{Duration, Instant, SystemTime};

/// Two readings: what the times in a pass are compared with, and what the age of the keys is measured by.
pub trait Clock: Send + Sync + 'static {
    /// Seconds since 1970.
    fn unix_seconds(&self) -> u64;

    /// Time since any fixed moment. Never goes back, also where the machine's clock is set.
    fn elapsed(&self) -> Duration;
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// Counts [`Clock::elapsed`] from now on.
    #[expect(clippy::disallowed_methods, reason = "this is the one clock of this crate")]
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one clock of this crate")]
    fn unix_seconds(&self) -> u64 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}
