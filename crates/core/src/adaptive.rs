//! The adaptive inlet: a capacity that follows how the origin fares.
//!
//! *The law*, once a round, from the reports that arrived since the last one (the worst of them counts):
//!
//! | what the origin reports | the capacity |
//! |---|---|
//! | nothing | stays |
//! | errors above the target, or latency of twice the target or more | x 7/10 |
//! | latency above the target | x 9/10 |
//! | latency above 9/10 of the target | stays |
//! | all well, but less than 7/8 of the capacity in use | stays: nothing was learned about more |
//! | latency above 7/10 of the target | + 1/128 of the most allowed |
//! | all well | + 1/32 of the most allowed |
//!
//! It begins at the floor, stays between `adaptive_floor` and `total_active_users`, and a decrease starts from what is really
//! in use. While more are inside than the capacity allows, it is not lowered again: the last decrease has not shown its effect
//! yet, and lowering on would only overshoot downwards.

use crate::ids::UnixMillis;
use crate::reports::Report;
use crate::settings::Settings;

/// The capacity is raised by one in so many of the most allowed.
const STEP: u64 = 32;
/// And by one in so many where the target is close: a whole step would jump over it.
const SMALL_STEP: u64 = 128;

/// Why the capacity is what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Adjustment {
    /// No fresh report of latency or errors.
    #[default]
    NoSamples,
    /// Raised.
    Raised,
    /// As high as it may be.
    AtCeiling,
    /// All well, but the capacity is not in use.
    NotUsed,
    /// Latency is close to the target.
    NearTarget,
    /// Lowered because of latency.
    LoweredByLatency,
    /// Lowered because of errors.
    LoweredByErrors,
    /// Too slow or failing, but the last decrease has not taken effect yet, or the floor is reached.
    Draining,
}

impl Adjustment {
    /// Every one, in the order stores write them.
    pub const ALL: [Self; 8] = [
        Self::NoSamples,
        Self::Raised,
        Self::AtCeiling,
        Self::NotUsed,
        Self::NearTarget,
        Self::LoweredByLatency,
        Self::LoweredByErrors,
        Self::Draining,
    ];

    /// The word used everywhere.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSamples => "no-samples",
            Self::Raised => "raised",
            Self::AtCeiling => "at-ceiling",
            Self::NotUsed => "not-used",
            Self::NearTarget => "near-target",
            Self::LoweredByLatency => "lowered-by-latency",
            Self::LoweredByErrors => "lowered-by-errors",
            Self::Draining => "draining",
        }
    }
}

/// Where the law stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adaptive {
    /// How many may be inside now.
    pub capacity: u64,
    /// When it was last looked at.
    pub adjusted_at: UnixMillis,
    /// What came of that.
    pub adjustment: Adjustment,
    /// The worst latency reported since, in milliseconds.
    pub worst_latency_millis: Option<u64>,
    /// The worst share of failed requests reported since, in a million.
    pub worst_errors_per_million: Option<u32>,
}

impl Adaptive {
    pub(crate) fn begin(settings: &Settings, now: UnixMillis) -> Self {
        Self {
            capacity: settings.adaptive_floor,
            adjusted_at: now,
            adjustment: Adjustment::NoSamples,
            worst_latency_millis: None,
            worst_errors_per_million: None,
        }
    }

    /// Remembers the worst: one good report at the end of a bad round must not hide it.
    pub(crate) fn observe(&mut self, report: &Report) {
        self.worst_latency_millis = self.worst_latency_millis.max(report.latency_p95_millis);
        self.worst_errors_per_million = self.worst_errors_per_million.max(report.errors_per_million);
    }

    /// Keeps the capacity within bounds that may have changed.
    pub(crate) fn clamp(&mut self, settings: &Settings) {
        let most = settings.total_active_users.unwrap_or(0);
        self.capacity = self.capacity.clamp(settings.adaptive_floor.min(most), most);
    }

    pub(crate) fn next_at(&self, settings: &Settings) -> UnixMillis {
        self.adjusted_at.plus(settings.round_millis())
    }

    /// One adjustment, if it is time; returns whether anything is different.
    pub(crate) fn adjust(&mut self, now: UnixMillis, settings: &Settings, held: u64) -> bool {
        if now < self.next_at(settings) {
            return false;
        }
        let before = (self.capacity, self.adjustment);
        let (latency, errors) = (self.worst_latency_millis.take(), self.worst_errors_per_million.take());
        let heard = latency.is_some() || errors.is_some();
        self.adjustment = if heard {
            self.follow(latency.unwrap_or(0), u64::from(errors.unwrap_or(0)), settings, held)
        } else {
            Adjustment::NoSamples
        };
        self.clamp(settings);
        self.adjusted_at = now;
        // What was heard counts once: that it did is written even where nothing came of it.
        heard || before != (self.capacity, self.adjustment)
    }

    fn follow(&mut self, latency: u64, errors: u64, settings: &Settings, held: u64) -> Adjustment {
        let target = settings.target_latency_ms.get();
        if errors > settings.target_errors_per_thousand.get() * 1000 {
            return self.lower(7, Adjustment::LoweredByErrors, settings, held);
        }
        if latency >= target * 2 {
            return self.lower(7, Adjustment::LoweredByLatency, settings, held);
        }
        if latency > target {
            return self.lower(9, Adjustment::LoweredByLatency, settings, held);
        }
        if latency * 10 > target * 9 {
            return Adjustment::NearTarget;
        }
        let most = settings.total_active_users.unwrap_or(0);
        if self.capacity >= most {
            return Adjustment::AtCeiling;
        }
        if u128::from(held) * 8 < u128::from(self.capacity) * 7 {
            return Adjustment::NotUsed;
        }
        // What was granted last shows its whole effect only when the absent among them have made way for others.
        let is_close = latency * 10 > target * 7;
        let step = most / if is_close { SMALL_STEP } else { STEP };
        self.capacity = self.capacity.saturating_add(step.max(1));
        Adjustment::Raised
    }

    fn lower(&mut self, tenths: u64, why: Adjustment, settings: &Settings, held: u64) -> Adjustment {
        if held > self.capacity || self.capacity <= settings.adaptive_floor {
            return Adjustment::Draining;
        }
        let lowered = u128::from(self.capacity.min(held)) * u128::from(tenths) / 10;
        self.capacity = u64::try_from(lowered).unwrap_or(u64::MAX);
        why
    }
}
