//! How good the estimates were that visitors were told when they joined.

use super::sale::{MINUTE, Played, START, Visitor};

/// Estimates and what came of them, of everybody who joined within a time and was let in.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    pub(crate) judged: u64,
    /// Who had to wait and was told nothing.
    pub(crate) untold: u64,
    pub(crate) within_p50: u64,
    pub(crate) within_p90: u64,
    waited_millis: u64,
    told_p90_millis: u64,
}

impl Figures {
    /// Of those who joined from one moment after the opening to another.
    pub(crate) fn of(played: &Played, from_millis: u64, to_millis: u64) -> Self {
        let mut figures = Self::default();
        let joined = START.plus(from_millis)..START.plus(to_millis);
        for visitor in played.visitors.iter().filter(|one| joined.contains(&one.joined_at)) {
            figures.judge(visitor);
        }
        figures
    }

    fn judge(&mut self, visitor: &Visitor) {
        let Some(admitted_at) = visitor.admitted_at else { return };
        let waited = admitted_at.since(visitor.joined_at);
        let Some(told) = visitor.told else {
            self.untold += u64::from(waited > 0);
            return;
        };
        self.judged += 1;
        self.within_p50 += u64::from(waited <= told.p50_seconds * 1000);
        self.within_p90 += u64::from(waited <= told.p90_seconds * 1000);
        self.waited_millis += waited;
        self.told_p90_millis += told.p90_seconds * 1000;
    }

    pub(crate) const fn add(&mut self, other: &Self) {
        self.judged += other.judged;
        self.untold += other.untold;
        self.within_p50 += other.within_p50;
        self.within_p90 += other.within_p90;
        self.waited_millis += other.waited_millis;
        self.told_p90_millis += other.told_p90_millis;
    }

    /// Who waited no longer than the median told, in thousandths.
    pub(crate) const fn p50_thousandths(&self) -> u64 {
        self.within_p50 * 1000 / self.judged
    }

    /// Who waited no longer than the 90th percentile told, in thousandths.
    pub(crate) const fn p90_thousandths(&self) -> u64 {
        self.within_p90 * 1000 / self.judged
    }

    /// How much longer the 90th percentile told was than the wait, on the whole, in thousandths.
    pub(crate) const fn p90_over_wait_thousandths(&self) -> u64 {
        self.told_p90_millis * 1000 / self.waited_millis
    }

    pub(crate) const fn wait_minutes(&self) -> u64 {
        self.waited_millis / self.judged / MINUTE
    }
}

/// A share in thousandths, as a percentage with one digit.
pub(crate) fn percent(thousandths: u64) -> String {
    format!("{}.{} %", thousandths / 10, thousandths % 10)
}
