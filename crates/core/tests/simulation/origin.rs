//! The protected site: who is inside in truth, and what it reports of itself.
//!
//! Latency follows load as in the simplest queue: `BASE / (1 - load)`, where load is the number inside over `strength`, within
//! a limit after which requests time out. What it cannot do in time fails.

use super::random::Random;

/// Latency of an idle origin.
const BASE_LATENCY_MILLIS: u64 = 100;
/// Whatever takes longer fails.
const TIMEOUT_MILLIS: u64 = 5_000;

/// A site with limited strength.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// How many it has slots for; it reports what is left of them.
    pub(crate) slots: u64,
    /// How many would saturate it.
    pub(crate) strength: u64,
    /// Failures whatever the load, in a million requests.
    pub(crate) failing_per_million: u32,
    /// In truth.
    pub(crate) inside: u64,
    /// Passes seen for the first time.
    pub(crate) entered: u64,
    /// The most that were ever inside.
    pub(crate) most_inside: u64,
}

impl Origin {
    pub(crate) const fn with_slots(slots: u64) -> Self {
        Self { slots, strength: slots * 5 / 4, failing_per_million: 0, inside: 0, entered: 0, most_inside: 0 }
    }

    pub(crate) fn enter(&mut self) {
        self.inside += 1;
        self.entered += 1;
        self.most_inside = self.most_inside.max(self.inside);
    }

    pub(crate) const fn depart(&mut self) {
        self.inside -= 1;
    }

    /// Without the noise of measuring.
    pub(crate) fn latency_millis(&self) -> u64 {
        let left = self.strength.saturating_sub(self.inside);
        (BASE_LATENCY_MILLIS * self.strength).checked_div(left).unwrap_or(TIMEOUT_MILLIS).min(TIMEOUT_MILLIS)
    }

    /// A measurement, which is off by up to a twentieth.
    pub(crate) fn measured_latency_millis(&self, random: &mut Random) -> u64 {
        self.latency_millis() * random.between(950, 1050) / 1000
    }

    /// Failed requests in a million.
    pub(crate) fn errors_per_million(&self) -> u32 {
        let too_many = self.inside.saturating_sub(self.strength);
        let timed_out = (too_many * 1_000_000).checked_div(self.inside).unwrap_or(0);
        u32::try_from(timed_out).unwrap().max(self.failing_per_million)
    }
}
