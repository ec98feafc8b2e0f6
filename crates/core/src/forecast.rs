//! How long a visitor will wait, as a median and as a time that nine of ten do not exceed.
//!
//! *By the clock:* where the timetable is known (periodic, window), it is the estimate, both times.
//!
//! *By the speed* (all others; in an auction rounded up to the end of a round): the median is `distance / speed`, where speed is
//! the positions that the frontier has passed within the last ten minutes over the time that took. That wait is uncertain in two
//! ways, and both shrink with the number of people counted: those who will be let in until then, and those by whom the speed was
//! measured. With D and M of them, and `c` the spread that absent people add,
//!
//! ```text
//! p90    = median * (1 + width * spread)          a = share of no-shows
//! spread = sqrt(c * (1/D + 1/M))                  x = share of the slots' time lost to offers that lapse
//! c      = 2 (1 - x)^2 / (1 - a) + x^2 / a - 1
//! ```
//!
//! `c` is the variance of the time that one position takes of a slot, over its mean squared: a visit that ends at random, or the
//! claim window of a visitor who does not come. In an auction an absent visitor takes no time, so x is 0: c is then 1 if everybody
//! shows up, and 3 if half do. Where the capacity itself moves (adaptive) x is left at 0 too, which allows for that.
//!
//! *Learning:* `width` begins with 1.28, as for a normal distribution. Every so often the room notes what it would tell the last
//! in line, and a visitor nearer to the front. When the frontier gets there, a note that was exceeded widens by nine parts and one
//! that was kept narrows by one: at rest when one in ten is exceeded. So the room corrects itself where visits, bursts or the
//! operator are not as the formula thinks. Quotients of what it took and what the median said are kept as a measure of the
//! estimate, and go into nothing else: a correction learned before a change of speed would be wrong after it.

use std::collections::VecDeque;

use crate::auction::Auction;
use crate::estimate::Pace;
use crate::ids::{Generation, UnixMillis};
use crate::room::Room;
use crate::settings::{InletKind, Settings};

/// How many notes wait to be checked.
pub const NOTES_MAX: usize = 32;
/// How many quotients are remembered.
pub const QUOTIENTS_MAX: usize = 32;
/// Added to both sides of a quotient, so that short waits do not make wild ones.
const SMOOTHING_MILLIS: u64 = 5_000;
/// What the width begins with: nine of ten draws of a normal distribution lie below so many thousandths of its spread.
const WIDTH_NORMAL_THOUSANDTHS: u32 = 1_282;
/// The least the width is narrowed to.
pub const WIDTH_MIN_THOUSANDTHS: u32 = 600;
/// The most it is widened to.
pub const WIDTH_MAX_THOUSANDTHS: u32 = 6_000;
/// One part of an adjustment of the width.
const WIDTH_PART_THOUSANDTHS: u32 = 1;
/// So many people are taken to have been called before anybody was, half of whom did not come.
const NO_SHOW_PRIOR: u64 = 16;
const MILLION: u128 = 1_000_000;
/// Bounds of the share of no-shows: neither does everybody come, nor nobody.
const ABSENT_MIN_MILLIONTHS: u128 = 1_000;
const ABSENT_MAX_MILLIONTHS: u128 = 980_000;
/// The most time that is taken to be lost to offers nobody claims.
const LOST_MAX_MILLIONTHS: u128 = 950_000;
/// The least spread of the time that one position takes.
const SPREAD_MIN_MILLIONTHS: u128 = 1_000_000;
/// More people than this do not make anything more certain.
const COUNTED_MAX: u64 = 1 << 40;
/// How much nearer to the front than the last in line every second note is.
const NEAR_NOTE: u64 = 8;
/// Time between two notes, at least.
const NOTE_SPACING_MIN_MILLIS: u64 = 1_000;

/// How long a visitor will wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// Half of the people wait no longer.
    pub p50_seconds: u64,
    /// Nine of ten wait no longer.
    pub p90_seconds: u64,
}

/// What was foretold for a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    /// Its line.
    pub generation: Generation,
    /// The position.
    pub position: u64,
    /// When it was foretold.
    pub made_at: UnixMillis,
    /// What was told as the median, in milliseconds.
    pub p50_millis: u64,
    /// What was told as the 90th percentile, in milliseconds.
    pub p90_millis: u64,
}

/// What a room has learned about its own estimates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    /// To be checked.
    pub notes: VecDeque<Note>,
    /// How long it took, in thousandths of what the median said; oldest first.
    pub quotients: VecDeque<u32>,
    /// How many spreads the 90th percentile lies above the median, in thousandths.
    pub width_thousandths: u32,
    /// Notes checked.
    pub checked: u64,
    /// Of these, those where it took no longer than the 90th percentile told.
    pub within_p90: u64,
    /// When the next note may be made.
    pub next_note_at: UnixMillis,
}

impl Default for Forecast {
    fn default() -> Self {
        Self {
            notes: VecDeque::new(),
            quotients: VecDeque::new(),
            width_thousandths: WIDTH_NORMAL_THOUSANDTHS,
            checked: 0,
            within_p90: 0,
            next_note_at: UnixMillis(0),
        }
    }
}

impl Forecast {
    /// By how much the median was off of late, in thousandths: 1000 is exact.
    pub fn median_quotient_thousandths(&self) -> Option<u32> {
        let mut sorted: Vec<u32> = self.quotients.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }

    fn check(&mut self, now: UnixMillis, note: &Note) {
        let took = now.since(note.made_at);
        let smoothed = |millis: u64| u128::from(millis) + u128::from(SMOOTHING_MILLIS);
        let thousandths = smoothed(took) * 1000 / smoothed(note.p50_millis);
        self.quotients.push_back(u32::try_from(thousandths).unwrap_or(u32::MAX));
        if self.quotients.len() > QUOTIENTS_MAX {
            self.quotients.pop_front();
        }
        self.checked += 1;
        let kept = took <= note.p90_millis;
        self.within_p90 += u64::from(kept);
        let width = if kept {
            self.width_thousandths.saturating_sub(WIDTH_PART_THOUSANDTHS)
        } else {
            self.width_thousandths.saturating_add(9 * WIDTH_PART_THOUSANDTHS)
        };
        self.width_thousandths = width.clamp(WIDTH_MIN_THOUSANDTHS, WIDTH_MAX_THOUSANDTHS);
    }

    /// After a reset: what was learned stays, what was foretold is void.
    pub(crate) fn forget_notes(&mut self) {
        self.notes.clear();
        self.next_note_at = UnixMillis(0);
    }
}

/// Both times, in milliseconds.
#[derive(Clone, Copy)]
struct Estimate {
    p50_millis: u64,
    p90_millis: u64,
}

/// All that an estimate is made of.
pub(crate) struct Estimator<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) next_step_at: Option<UnixMillis>,
    pub(crate) pace: &'a Pace,
    pub(crate) auction: Option<&'a Auction>,
    pub(crate) forecast: &'a Forecast,
    /// Offers exchanged for a pass.
    pub(crate) claimed: u64,
    /// Offers still open.
    pub(crate) offers: u64,
    /// Whether something holds the inlet, for nobody knows how long.
    pub(crate) is_held: bool,
}

impl<'a> Estimator<'a> {
    fn of(room: &'a Room) -> Self {
        Self {
            settings: &room.settings,
            next_step_at: room.next_step_at,
            pace: &room.pace,
            auction: room.auction.as_deref(),
            forecast: &room.forecast,
            claimed: room.counts().claimed,
            offers: room.offers(),
            is_held: false,
        }
    }

    /// How long a visitor with so many people ahead will wait; `None` while that is not known.
    pub(crate) fn wait(&self, people_ahead: u64, now: UnixMillis) -> Option<Wait> {
        let estimate = self.estimate(people_ahead.saturating_add(1), now)?;
        Some(Wait {
            p50_seconds: estimate.p50_millis.div_ceil(1000),
            p90_seconds: estimate.p90_millis.div_ceil(1000),
        })
    }

    fn estimate(&self, distance: u64, now: UnixMillis) -> Option<Estimate> {
        if self.is_held {
            return None;
        }
        let per_step = match self.settings.inlet {
            _ if self.auction.is_some() => None,
            InletKind::Periodic if !self.settings.incr_svc_on_queue_position_expiry => {
                Some(self.settings.increment_by.get())
            }
            InletKind::Window => self.settings.window_size.map(crate::settings::People::get),
            _ => None,
        };
        match per_step {
            Some(per_step) => self.by_timetable(distance, per_step, now),
            None => self.by_speed(distance, now),
        }
    }

    fn by_speed(&self, distance: u64, now: UnixMillis) -> Option<Estimate> {
        let round = self.settings.round_millis();
        // The frontier of an auction moves when a round closes: what has passed of the open one is no standstill.
        let last_move =
            self.auction.map_or(now, |auction| UnixMillis(auction.round.0.saturating_sub(round)).min(now));
        let (counted, elapsed) = self.pace.speed(last_move)?;
        // Beyond what a number holds it is cut off, before anything is multiplied with it.
        let median =
            (u128::from(distance) * u128::from(elapsed) / u128::from(counted)).min(u128::from(u64::MAX));
        let spread_millionths = u128::from(self.spread_millionths(distance, (counted, elapsed)));
        let width = u128::from(self.forecast.width_thousandths);
        let late = median * spread_millionths / 1_000_000 * width / 1000;
        let at_a_move = |millis: u128| {
            let millis = u64::try_from(millis).unwrap_or(u64::MAX);
            self.auction.map_or(millis, |auction| {
                let later_rounds = millis.div_ceil(round).saturating_sub(1);
                auction.round.since(now).saturating_add(later_rounds.saturating_mul(round))
            })
        };
        Some(Estimate { p50_millis: at_a_move(median), p90_millis: at_a_move(median + late) })
    }

    /// How uncertain the time is that `distance` people take, as a share of it, if the speed was measured by so many in that time.
    fn spread_millionths(&self, distance: u64, (counted, elapsed): (u64, u64)) -> u64 {
        let passed = self.pace.offers_made.saturating_sub(self.offers) + NO_SHOW_PRIOR;
        let came = (self.claimed + NO_SHOW_PRIOR / 2).min(passed);
        let absent = millionths(passed - came, passed).clamp(ABSENT_MIN_MILLIONTHS, ABSENT_MAX_MILLIONTHS);
        let lost = self.lost_millionths(absent, counted, elapsed);
        let kept = MILLION - lost;
        let of_one = (2 * kept * kept / (MILLION - absent) + lost * lost / absent).saturating_sub(MILLION);
        let of_one = of_one.max(SPREAD_MIN_MILLIONTHS);
        let (one, other) = (u128::from(distance.min(COUNTED_MAX)), u128::from(counted.min(COUNTED_MAX)));
        let variance = of_one * MILLION * (one + other) / (one * other).max(1);
        u64::try_from(variance.isqrt()).unwrap_or(u64::MAX)
    }

    /// The share of the slots' time that is lost to offers nobody claims, where that can be known.
    fn lost_millionths(&self, absent: u128, counted: u64, elapsed: u64) -> u128 {
        let (Some(capacity), Some(window)) = (self.settings.capacity(), self.settings.claim_window_millis())
        else {
            return 0;
        };
        if self.auction.is_some() || self.settings.inlet != InletKind::MaxSize {
            return 0;
        }
        let slots_called = millionths(counted, elapsed).saturating_mul(u128::from(window));
        let lost = (slots_called / u128::from(capacity.max(1))).saturating_mul(absent) / MILLION;
        lost.min(LOST_MAX_MILLIONTHS)
    }

    fn by_timetable(&self, distance: u64, per_step: u64, now: UnixMillis) -> Option<Estimate> {
        let interval = self.settings.step_interval_millis()?;
        let next = self.next_step_at?;
        // A board may be older than the last step that was not taken.
        let late = now.since(next);
        let next = if late > 0 { next.plus((late / interval + 1) * interval) } else { next };
        let steps = distance.div_ceil(per_step).max(1);
        let at = next.plus((steps - 1).saturating_mul(interval));
        let in_time = self.settings.end_time == 0 || at.seconds() < self.settings.end_time;
        let millis = at.since(now);
        in_time.then_some(Estimate { p50_millis: millis, p90_millis: millis })
    }
}

fn millionths(part: u64, whole: u64) -> u128 {
    u128::from(part) * MILLION / u128::from(whole.max(1))
}

/// The frontier has moved: checks the notes it has reached, and makes another one for the last in line.
pub(crate) fn on_frontier_move(room: &mut Room, now: UnixMillis) {
    check_reached(room, now);
    if now < room.forecast.next_note_at || room.forecast.notes.len() >= NOTES_MAX {
        return;
    }
    let newest = room.newest();
    let (generation, last, frontier) = (newest.generation, newest.joined, newest.frontier());
    if last <= frontier {
        return;
    }
    // A note near the front is checked sooner; one of the last in line is what visitors who join now are told.
    let notes_made = room.forecast.checked + room.forecast.notes.len() as u64;
    let near = if notes_made.is_multiple_of(2) { NEAR_NOTE } else { 1 };
    let position = frontier + (last - frontier).div_ceil(near);
    let older: u64 = room.segments.iter().rev().skip(1).map(crate::Segment::beyond_frontier).sum();
    let estimator = Estimator::of(room);
    let Some(to_last) = estimator.estimate(older + (last - frontier), now) else { return };
    let Some(told) = estimator.estimate(older + (position - frontier), now) else { return };
    let Estimate { p50_millis, p90_millis } = told;
    room.forecast.notes.push_back(Note { generation, position, made_at: now, p50_millis, p90_millis });
    let spacing = (to_last.p50_millis / (NOTES_MAX as u64 / 2)).max(NOTE_SPACING_MIN_MILLIS);
    room.forecast.next_note_at = now.plus(spacing);
}

fn check_reached(room: &mut Room, now: UnixMillis) {
    let segments = &room.segments;
    let segment_of = |note: &Note| segments.iter().find(|segment| segment.generation == note.generation);
    let is_reached =
        |note: &Note| segment_of(note).is_some_and(|segment| segment.frontier() >= note.position);
    let is_over = |note: &Note| segment_of(note).is_none() || is_reached(note);
    if !room.forecast.notes.iter().any(is_over) {
        return;
    }
    let forecast = &mut *room.forecast;
    let mut notes = std::mem::take(&mut forecast.notes);
    notes.retain(|note| {
        if is_reached(note) {
            forecast.check(now, note);
        }
        !is_over(note)
    });
    forecast.notes = notes;
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: UnixMillis = UnixMillis(1_000_000_000);

    /// Two positions a second for ten minutes, half of which came.
    fn pace() -> Pace {
        let mut pace = Pace::default();
        for second in 0..=600 {
            pace.record(START.plus(second * 1000), 2);
        }
        pace
    }

    fn estimator<'a>(settings: &'a Settings, pace: &'a Pace, forecast: &'a Forecast) -> Estimator<'a> {
        let claimed = pace.offers_made / 2;
        Estimator {
            settings,
            next_step_at: None,
            pace,
            auction: None,
            forecast,
            claimed,
            offers: 0,
            is_held: false,
        }
    }

    fn now() -> UnixMillis {
        START.plus(600_000)
    }

    #[test]
    fn the_p90_lies_above_the_median_by_the_spread_of_those_ahead_and_those_counted() {
        let (settings, pace, forecast) = (Settings::default(), pace(), Forecast::default());
        let wait = estimator(&settings, &pace, &forecast).wait(1199, now()).unwrap();
        assert_eq!(wait.p50_seconds, 600, "two a second");
        // Half are absent, so c = 3; D and M are 1200: 600 * (1 + 1.282 * sqrt(3 * 2 / 1200)) = 654.4
        assert_eq!(wait.p90_seconds, 655);
        let next = estimator(&settings, &pace, &forecast).wait(0, now()).unwrap();
        assert_eq!((next.p50_seconds, next.p90_seconds), (1, 2), "one person is as uncertain as can be");
        let held = Estimator { is_held: true, ..estimator(&settings, &pace, &forecast) };
        assert_eq!(held.wait(0, now()), None);
    }

    #[test]
    fn lapses_of_a_known_length_make_the_wait_more_certain() {
        let settings =
            Settings { inlet: InletKind::MaxSize, total_active_users: Some(420), ..Settings::default() };
        let (pace, forecast) = (pace(), Forecast::default());
        let wait = estimator(&settings, &pace, &forecast).wait(1199, now()).unwrap();
        // 210 seconds of slot time a position, 60 of them lost: x = 2/7, c = 1.204: 600 * (1 + 1.282 * sqrt(1.204 * 2 / 1200))
        assert_eq!(wait.p90_seconds, 635);
    }

    #[test]
    fn no_figures_are_too_large_or_too_small() {
        let (settings, forecast) = (Settings::default(), Forecast::default());
        let mut pace = Pace::default();
        pace.record(UnixMillis(0), 1);
        pace.record(UnixMillis(1_000), 1);
        for people in [0, 1, u64::MAX - 1, u64::MAX] {
            for at in [UnixMillis(1_000), UnixMillis(u64::MAX)] {
                let wait = estimator(&settings, &pace, &forecast).wait(people, at).unwrap();
                assert!(wait.p90_seconds >= wait.p50_seconds);
            }
        }
    }

    #[test]
    fn the_width_rests_where_one_note_in_ten_is_exceeded() {
        let mut forecast = Forecast::default();
        let note = Note {
            generation: Generation { opened: 1, incarnation: 1 },
            position: 1,
            made_at: START,
            p50_millis: 1000,
            p90_millis: 2000,
        };
        let check = |forecast: &mut Forecast, took: u64, times: usize| {
            (0..times).for_each(|_| forecast.check(START.plus(took), &note));
        };
        check(&mut forecast, 2001, 10);
        check(&mut forecast, 2000, 90);
        assert_eq!(forecast.width_thousandths, WIDTH_NORMAL_THOUSANDTHS);
        assert_eq!((forecast.checked, forecast.within_p90), (100, 90));
        check(&mut forecast, 9000, 10_000);
        assert_eq!(forecast.width_thousandths, WIDTH_MAX_THOUSANDTHS);
        check(&mut forecast, 0, 10_000);
        assert_eq!(forecast.width_thousandths, WIDTH_MIN_THOUSANDTHS);
        assert_eq!(forecast.quotients.len(), QUOTIENTS_MAX);
    }
}
