//! What was seen of the frontier (the serving counter), condensed: for each value, when it was last still true and first
//! already true.
//!
//! The frontier only rises. A reading asked at `a` and answered at `b` with value `v` says: at `a` it was at most `v`, at `b`
//! at least `v`. So for a value it is enough to keep the latest `a` and the earliest `b`, however many readings there are.

use std::collections::BTreeMap;
use std::time::Duration;

use super::moment::Moment;

/// All readings of a run.
#[derive(Debug, Default)]
pub(super) struct Frontier {
    seen: BTreeMap<u64, FrontierValue>,
}

#[derive(Debug, Clone, Copy)]
struct FrontierValue {
    /// The latest question that was answered with this value. None for values that were told unasked: nobody knows how
    /// long they were under way.
    last_asked: Option<Moment>,
    /// When this value was first heard of.
    first_answered: Moment,
}

impl Frontier {
    /// A question asked and answered.
    pub(super) fn record_polled(&mut self, serving: u64, asked: Moment, answered: Moment) {
        let seen = self.entry(serving, answered);
        seen.last_asked = seen.last_asked.max(Some(asked));
    }

    /// A value told unasked, by a live stream.
    pub(super) fn record_streamed(&mut self, serving: u64, heard: Moment) {
        self.entry(serving, heard);
    }

    fn entry(&mut self, serving: u64, answered: Moment) -> &mut FrontierValue {
        let seen =
            self.seen.entry(serving).or_insert(FrontierValue { last_asked: None, first_answered: answered });
        seen.first_answered = seen.first_answered.min(answered);
        seen
    }

    /// The highest value seen.
    pub(super) fn highest(&self) -> Option<u64> {
        self.seen.keys().next_back().copied()
    }

    /// How many different values were seen.
    pub(super) fn values(&self) -> u64 {
        self.seen.len() as u64
    }

    /// Proofs that it went back: a value heard of, and a lower one as the answer to a question asked afterwards. Each
    /// as (higher value, lower value). A figure may be `lag` old when it is told.
    pub(super) fn steps_back(&self, lag: Duration) -> Vec<(u64, u64)> {
        let mut earliest_above: Option<(u64, Moment)> = None;
        let mut found = Vec::new();
        for (&serving, seen) in self.seen.iter().rev() {
            if let (Some((higher, answered)), Some(asked)) = (earliest_above, seen.last_asked)
                && asked > answered.after(lag)
            {
                found.push((higher, serving));
            }
            if earliest_above.is_none_or(|(_, answered)| seen.first_answered < answered) {
                earliest_above = Some((serving, seen.first_answered));
            }
        }
        found
    }

    /// For each value, the latest moment at which the frontier was provably still at or below it, in order of values.
    pub(super) fn still_at_most(&self) -> Vec<(u64, Moment)> {
        let mut latest = Moment::default();
        let mut bounds = Vec::with_capacity(self.seen.len());
        for (&serving, seen) in &self.seen {
            if let Some(asked) = seen.last_asked {
                latest = latest.max(asked);
                bounds.push((serving, latest));
            }
        }
        bounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(microseconds: u64) -> Moment {
        Moment::from_microseconds(microseconds)
    }

    #[test]
    fn overlapping_readings_prove_no_step_back_and_later_ones_do() {
        let mut frontier = Frontier::default();
        frontier.record_polled(5, at(10), at(20));
        // Asked before the answer above was there: it may have been overtaken.
        frontier.record_polled(3, at(19), at(30));
        frontier.record_streamed(1, at(40));
        assert_eq!(frontier.steps_back(Duration::ZERO), []);
        frontier.record_polled(4, at(21), at(25));
        assert_eq!(frontier.steps_back(Duration::ZERO), [(5, 4)]);
        assert_eq!(frontier.steps_back(Duration::from_micros(1)), []);
        assert_eq!((frontier.highest(), frontier.values()), (Some(5), 4));
    }

    #[test]
    fn the_bound_on_a_value_holds_for_the_values_above_it() {
        let mut frontier = Frontier::default();
        frontier.record_polled(3, at(50), at(51));
        frontier.record_polled(3, at(10), at(12));
        frontier.record_polled(7, at(40), at(41));
        frontier.record_streamed(9, at(60));
        assert_eq!(frontier.still_at_most(), [(3, at(50)), (7, at(50))]);
    }
}
