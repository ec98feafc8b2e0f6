//! The model's reading of the adaptive law, as its table in `docs/` has it.

use anteroom_core::{Report, Settings, UnixMillis};

#[derive(Debug, Clone)]
pub(crate) struct AdaptiveModel {
    pub(crate) capacity: u64,
    looked_at: UnixMillis,
    /// The reports since then.
    heard: Vec<(Option<u64>, Option<u32>)>,
}

impl AdaptiveModel {
    pub(crate) fn begin(settings: &Settings, now: UnixMillis) -> Self {
        Self { capacity: settings.adaptive_floor, looked_at: now, heard: vec![] }
    }

    pub(crate) fn hear(&mut self, report: &Report) {
        self.heard.push((report.latency_p95_millis, report.errors_per_million));
    }

    pub(crate) fn shift_back(&mut self, millis: u64) {
        self.looked_at = UnixMillis(self.looked_at.0.saturating_sub(millis));
    }

    /// Between floor and ceiling; the ceiling counts where they contradict each other.
    pub(crate) fn keep_within_bounds(&mut self, settings: &Settings) {
        let ceiling = settings.total_active_users.unwrap_or(0);
        self.capacity = self.capacity.max(settings.adaptive_floor).min(ceiling);
    }

    /// Once a round; the worst report counts.
    pub(crate) fn tick(&mut self, now: UnixMillis, settings: &Settings, held: u64) {
        if now.0 < self.looked_at.0 + settings.round_seconds.get() * 1000 {
            return;
        }
        self.looked_at = now;
        let heard = std::mem::take(&mut self.heard);
        let latency = heard.iter().filter_map(|(latency, _)| *latency).max();
        let errors = heard.iter().filter_map(|(_, errors)| *errors).max();
        if latency.is_some() || errors.is_some() {
            self.follow(latency.unwrap_or(0), u64::from(errors.unwrap_or(0)), settings, held);
        }
        self.keep_within_bounds(settings);
    }

    fn follow(&mut self, latency: u64, errors_per_million: u64, settings: &Settings, held: u64) {
        let target = settings.target_latency_ms.get();
        let ceiling = settings.total_active_users.unwrap_or(0);
        let has_errors = errors_per_million > settings.target_errors_per_thousand.get() * 1000;
        if has_errors || latency > target {
            let tenths = if has_errors || latency >= 2 * target { 7 } else { 9 };
            let is_draining = held > self.capacity;
            if !is_draining && self.capacity > settings.adaptive_floor {
                self.capacity = self.capacity.min(held) * tenths / 10;
            }
            return;
        }
        let is_near = 10 * latency > 9 * target;
        let is_in_use = 8 * held >= 7 * self.capacity;
        if is_near || !is_in_use || self.capacity >= ceiling {
            return;
        }
        let part = if 10 * latency > 7 * target { 128 } else { 32 };
        self.capacity += (ceiling / part).max(1);
    }
}
