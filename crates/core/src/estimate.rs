//! A simple estimate of the wait: the distance to the frontier over the frontier's recent speed.

use std::collections::VecDeque;

use crate::ids::UnixMillis;

/// How many samples of the speed are kept.
pub const SAMPLES_MAX: usize = 32;
/// Samples closer together than this count as one.
pub const SAMPLE_SPACING_MILLIS: u64 = 1_000;
/// How far back the speed is looked at.
pub const SAMPLE_AGE_MAX_MILLIS: u64 = 600_000;
/// How far back [`Pace::recent_per_minute_tenths`] looks.
pub const RECENT_MILLIS: u64 = 300_000;
/// Over no less than this: what came within seconds came within a minute.
const RECENT_MIN_MILLIS: u64 = 60_000;

/// How many offers had been made by when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub at: UnixMillis,
    /// Offers made in this room up to then.
    pub offers_made: u64,
}

/// The recent speed of a room's frontier, in offers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pace {
    /// Offers ever made.
    pub offers_made: u64,
    /// Oldest first.
    pub samples: VecDeque<Sample>,
    /// Offers made up to the last sample that was forgotten for its age; 0 if none was.
    pub offers_before: u64,
}

impl Pace {
    pub(crate) fn record(&mut self, now: UnixMillis, offers: u64) {
        if offers == 0 {
            return;
        }
        self.offers_made += offers;
        let sample = Sample { at: now, offers_made: self.offers_made };
        match self.samples.back_mut() {
            Some(last) if now.since(last.at) < SAMPLE_SPACING_MILLIS => last.offers_made = self.offers_made,
            _ => self.samples.push_back(sample),
        }
        while let Some(first) = self.samples.pop_front_if(|first| now.since(first.at) > SAMPLE_AGE_MAX_MILLIS)
        {
            self.offers_before = first.offers_made;
        }
        if self.samples.len() > SAMPLES_MAX {
            self.forget_closest();
        }
    }

    /// Forgets the sample whose neighbours lie closest together, so that the rest still reach back.
    fn forget_closest(&mut self) {
        let gap = |index: usize| self.samples[index + 1].at.since(self.samples[index - 1].at);
        if let Some(index) = (1..self.samples.len() - 1).min_by_key(|&index| gap(index)) {
            self.samples.remove(index);
        }
    }

    /// Milliseconds until `people_ahead` more offers have been made, or `None` while no speed is known.
    ///
    /// The time since the last offer counts as time without offers, so the estimate grows while the frontier stands still.
    pub fn wait_millis(&self, people_ahead: u64, now: UnixMillis) -> Option<u64> {
        let (made, elapsed) = self.speed(now)?;
        let millis = u128::from(people_ahead) * u128::from(elapsed) / u128::from(made);
        Some(u64::try_from(millis).unwrap_or(u64::MAX))
    }

    /// Offers a minute, in tenths and rounded, or `None` while no speed is known.
    pub fn offers_per_minute_tenths(&self, now: UnixMillis) -> Option<u64> {
        let (made, elapsed) = self.speed(now)?;
        let tenths = (u128::from(made) * 600_000 + u128::from(elapsed) / 2) / u128::from(elapsed);
        Some(u64::try_from(tenths).unwrap_or(u64::MAX))
    }

    /// Offers a minute of the last minutes, in tenths and rounded. Unlike the speed it counts a burst, which then is that many in one
    /// minute.
    pub fn recent_per_minute_tenths(&self, now: UnixMillis) -> u64 {
        let is_before = |sample: &&Sample| now.since(sample.at) >= RECENT_MILLIS;
        let before = self.samples.iter().take_while(is_before).last();
        let (made_before, elapsed) = match (before, self.samples.front()) {
            (Some(before), _) => (before.offers_made, RECENT_MILLIS),
            (None, Some(_)) if self.offers_before > 0 => (self.offers_before, RECENT_MILLIS),
            (None, Some(first)) => (0, now.since(first.at).clamp(RECENT_MIN_MILLIS, RECENT_MILLIS)),
            (None, None) => return 0,
        };
        let made = u128::from(self.offers_made - made_before);
        let tenths = (made * 600_000 + u128::from(elapsed) / 2) / u128::from(elapsed);
        u64::try_from(tenths).unwrap_or(u64::MAX)
    }

    /// Offers made since the first sample, and in how many milliseconds; neither is 0.
    pub(crate) fn speed(&self, now: UnixMillis) -> Option<(u64, u64)> {
        let first = self.samples.front()?;
        let made = self.offers_made - first.offers_made;
        let elapsed = now.since(first.at);
        (made > 0 && elapsed > 0).then_some((made, elapsed))
    }
}

/// The shortest time between two looks at the line that a client is asked to keep.
pub const POLL_MIN_SECONDS: u64 = 2;
/// The longest.
pub const POLL_MAX_SECONDS: u64 = 60;
/// So many looks are expected until the turn comes.
const POLLS_PER_WAIT: u64 = 20;
/// People who are asked to look a second later each, while no speed is known.
const PEOPLE_PER_POLL_SECOND: u64 = 100;

/// When a client should look again: the later, the further it is from the front. Neighbours are told different times, by up
/// to a quarter, so that they do not all come at once.
pub fn next_poll_seconds(people_ahead: u64, wait_seconds: Option<u64>, position: u64) -> u64 {
    let even = wait_seconds.map_or(people_ahead / PEOPLE_PER_POLL_SECOND, |wait| wait / POLLS_PER_WAIT);
    let even = even.clamp(POLL_MIN_SECONDS, POLL_MAX_SECONDS);
    let spread = even / 4 + 1;
    even + position.wrapping_mul(0x9E37_79B9_7F4A_7C15) % spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_while_nothing_is_known_then_distance_over_speed() {
        let mut pace = Pace::default();
        assert_eq!(pace.wait_millis(10, UnixMillis(0)), None);
        pace.record(UnixMillis(10_000), 100);
        assert_eq!(pace.wait_millis(10, UnixMillis(60_000)), None, "one burst has no speed");
        pace.record(UnixMillis(20_000), 50);
        assert_eq!(pace.wait_millis(100, UnixMillis(20_000)), Some(20000), "5 a second");
        assert_eq!(pace.wait_millis(100, UnixMillis(30_000)), Some(40000), "standing still makes it longer");
        assert_eq!(pace.wait_millis(0, UnixMillis(30_000)), Some(0));
        assert_eq!(pace.wait_millis(u64::MAX, UnixMillis(u64::MAX)), Some(u64::MAX));
    }

    #[test]
    fn polls_grow_rarer_with_the_distance_and_differ_between_neighbours() {
        assert!((POLL_MIN_SECONDS..=POLL_MIN_SECONDS + 1).contains(&next_poll_seconds(0, Some(0), 7)));
        assert!(next_poll_seconds(1_000_000, None, 1) >= POLL_MAX_SECONDS);
        assert!(next_poll_seconds(10, Some(400), 1) >= 20);
        let times: std::collections::BTreeSet<u64> =
            (0..100).map(|position| next_poll_seconds(10, Some(800), position)).collect();
        assert!(times.len() > 5, "{times:?}");
        assert!(times.iter().all(|seconds| (40..=50).contains(seconds)), "{times:?}");
    }

    #[test]
    fn the_speed_is_told_a_minute_in_tenths() {
        let mut pace = Pace::default();
        assert_eq!(pace.offers_per_minute_tenths(UnixMillis(0)), None);
        pace.record(UnixMillis(10_000), 100);
        assert_eq!(pace.offers_per_minute_tenths(UnixMillis(60_000)), None, "one burst has no speed");
        pace.record(UnixMillis(20_000), 50);
        assert_eq!(pace.offers_per_minute_tenths(UnixMillis(20_000)), Some(3_000), "5 a second");
        assert_eq!(pace.offers_per_minute_tenths(UnixMillis(100_000)), Some(333), "50 in 90 seconds");
        assert_eq!(pace.offers_per_minute_tenths(UnixMillis(u64::MAX)), Some(0));
    }

    #[test]
    fn a_burst_counts_among_the_offers_of_the_last_minutes_and_what_was_long_ago_does_not() {
        let mut pace = Pace::default();
        assert_eq!(pace.recent_per_minute_tenths(UnixMillis(0)), 0);
        pace.record(UnixMillis(1_000), 12);
        assert_eq!(pace.recent_per_minute_tenths(UnixMillis(6_000)), 120, "twelve within a minute");
        assert_eq!(pace.recent_per_minute_tenths(UnixMillis(121_000)), 60, "twelve in two");
        assert_eq!(pace.recent_per_minute_tenths(UnixMillis(301_000)), 0, "five minutes ago");
        // A thousand yesterday, and twelve now.
        let day = 86_400_000;
        pace.record(UnixMillis(2_000), 988);
        pace.record(UnixMillis(day), 12);
        assert_eq!(
            pace.recent_per_minute_tenths(UnixMillis(day)),
            24,
            "twelve in five minutes, and nobody else"
        );
        assert_eq!(pace.speed(UnixMillis(day + 1_000)), None, "one burst has no speed");
        // A steady stream.
        for second in 1..=1_200 {
            pace.record(UnixMillis(day + second * 1_000), 2);
        }
        let tenths = pace.recent_per_minute_tenths(UnixMillis(day + 1_200_000));
        assert!((1_200..=1_300).contains(&tenths), "{tenths}");
        assert!(pace.samples.len() <= SAMPLES_MAX);
    }

    #[test]
    fn samples_stay_bounded() {
        let mut pace = Pace::default();
        for second in 0..10_000 {
            pace.record(UnixMillis(second * 1_500), 1);
        }
        assert!(pace.samples.len() <= SAMPLES_MAX);
        assert_eq!(pace.offers_made, 10_000);
    }
}
