//! How long somebody will wait, as a median and as a time that nine of ten do not exceed.
//!
//! *Basis:* where the timetable is known (periodic, window), the timetable. In an auction, the distance to the highest position
//! released in the last round over the moving average of winners a round. Else the distance to the frontier over its speed.
//!
//! *Learning:* every so often the room notes what the basis says of the last in line, and when the frontier gets there, how long
//! it took. The quotients of the last [`QUOTIENTS_MAX`] such notes, of which the median and the 90th percentile are applied to
//! the basis, make up for everything the basis does not know: absent people, bursts, drift. They are also the measure of how
//! good the estimate is.

use std::collections::VecDeque;

use crate::auction::Auction;
use crate::estimate::Pace;
use crate::ids::{Generation, UnixMillis};
use crate::room::Room;
use crate::session::SessionKey;
use crate::settings::{InletKind, Settings};

/// How many notes wait to be checked.
pub const NOTES_MAX: usize = 32;
/// How many quotients are remembered.
pub const QUOTIENTS_MAX: usize = 64;
/// Below that many quotients, the prior is used.
const QUOTIENTS_MIN: usize = 8;
/// Added to both sides of a quotient, so that short waits do not make wild ones.
const SMOOTHING_MILLIS: u64 = 5_000;
/// The 90th percentile while nothing is known, in thousandths of the basis.
const PRIOR_P90_THOUSANDTHS: u32 = 1_500;
/// Time between two notes, at least.
const NOTE_SPACING_MIN_MILLIS: u64 = 1_000;

/// How long somebody will wait.
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
    /// What the basis said, in milliseconds.
    pub basis_millis: u64,
    /// What was told as the 90th percentile, in milliseconds.
    pub p90_millis: u64,
}

/// What a room has learned about its own estimates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Forecast {
    /// To be checked.
    pub notes: VecDeque<Note>,
    /// How long it took, in thousandths of what the basis said; oldest first.
    pub quotients: VecDeque<u32>,
    /// Notes checked.
    pub checked: u64,
    /// Of these, those where it took no longer than the 90th percentile told.
    pub within_p90: u64,
    /// When the next note may be made.
    pub next_note_at: UnixMillis,
}

impl Forecast {
    /// A quantile of the quotients, in thousandths.
    fn quotient(&self, percent: usize, prior: u32) -> u32 {
        if self.quotients.len() < QUOTIENTS_MIN {
            return prior;
        }
        let mut sorted: Vec<u32> = self.quotients.iter().copied().collect();
        sorted.sort_unstable();
        sorted[((sorted.len() * percent).div_ceil(100)).clamp(1, sorted.len()) - 1]
    }

    /// By how much the median was off of late, in thousandths: 1000 is exact.
    pub fn median_quotient_thousandths(&self) -> Option<u32> {
        (!self.quotients.is_empty()).then(|| self.quotient(50, 1000))
    }

    fn waits_millis(&self, basis: Basis) -> (u64, u64) {
        if basis.is_timetable {
            return (basis.millis, basis.millis);
        }
        let apply = |thousandths: u32| {
            let smoothed = u128::from(basis.millis) + u128::from(SMOOTHING_MILLIS);
            let millis = smoothed * u128::from(thousandths) / 1000;
            u64::try_from(millis).unwrap_or(u64::MAX).saturating_sub(SMOOTHING_MILLIS)
        };
        let median = apply(self.quotient(50, 1000));
        (median, apply(self.quotient(90, PRIOR_P90_THOUSANDTHS)).max(median))
    }

    fn check(&mut self, now: UnixMillis, note: &Note) {
        let took = now.since(note.made_at);
        let smoothed = |millis: u64| u128::from(millis) + u128::from(SMOOTHING_MILLIS);
        let thousandths = smoothed(took) * 1000 / smoothed(note.basis_millis);
        self.quotients.push_back(u32::try_from(thousandths).unwrap_or(u32::MAX));
        if self.quotients.len() > QUOTIENTS_MAX {
            self.quotients.pop_front();
        }
        self.checked += 1;
        self.within_p90 += u64::from(took <= note.p90_millis);
    }

    /// After a reset: what was learned stays, what was foretold is void.
    pub(crate) fn forget_notes(&mut self) {
        self.notes.clear();
        self.next_note_at = UnixMillis(0);
    }
}

/// What the basis says.
#[derive(Clone, Copy)]
struct Basis {
    millis: u64,
    /// Whether it is a timetable, which needs no learning.
    is_timetable: bool,
}

/// All that an estimate is made of.
pub(crate) struct Estimator<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) next_step_at: Option<UnixMillis>,
    pub(crate) pace: &'a Pace,
    pub(crate) auction: Option<&'a Auction>,
    pub(crate) forecast: &'a Forecast,
    /// Whether something holds the inlet, for nobody knows how long.
    pub(crate) is_held: bool,
}

impl<'a> Estimator<'a> {
    fn of(room: &'a Room) -> Self {
        Self {
            settings: &room.settings,
            next_step_at: room.next_step_at,
            pace: &room.pace,
            auction: room.auction.as_ref(),
            forecast: &room.forecast,
            is_held: false,
        }
    }

    /// How long whoever has so many people before him will wait; `None` while that is not known.
    pub(crate) fn wait(&self, people_ahead: u64, key: SessionKey, now: UnixMillis) -> Option<Wait> {
        let basis = self.basis(people_ahead.saturating_add(1), key, now)?;
        let (p50, p90) = self.forecast.waits_millis(basis);
        Some(Wait { p50_seconds: p50.div_ceil(1000), p90_seconds: p90.div_ceil(1000) })
    }

    fn basis(&self, distance: u64, key: SessionKey, now: UnixMillis) -> Option<Basis> {
        if self.is_held {
            return None;
        }
        if let Some(auction) = self.auction {
            return self.by_rounds(auction, distance, key, now);
        }
        let per_step = match self.settings.inlet {
            InletKind::Periodic if !self.settings.incr_svc_on_queue_position_expiry => {
                Some(self.settings.increment_by.get())
            }
            InletKind::Window => self.settings.window_size.map(crate::settings::People::get),
            _ => None,
        };
        match per_step {
            Some(per_step) => self.by_timetable(distance, per_step, now),
            None => {
                let millis = self.pace.wait_millis(distance, now)?;
                Some(Basis { millis, is_timetable: false })
            }
        }
    }

    fn by_timetable(&self, distance: u64, per_step: u64, now: UnixMillis) -> Option<Basis> {
        let interval = self.settings.step_interval_millis()?;
        let next = self.next_step_at?;
        // A board may be older than the last step that was not taken.
        let late = now.since(next);
        let next = if late > 0 { next.plus((late / interval + 1) * interval) } else { next };
        let steps = distance.div_ceil(per_step).max(1);
        let at = next.plus((steps - 1).saturating_mul(interval));
        let in_time = self.settings.end_time == 0 || at.seconds() < self.settings.end_time;
        in_time.then_some(Basis { millis: at.since(now), is_timetable: true })
    }

    fn by_rounds(&self, auction: &Auction, distance: u64, key: SessionKey, now: UnixMillis) -> Option<Basis> {
        let average = auction.average_thousandths.filter(|&average| average > 0)?;
        let last = auction.last_winner.filter(|last| last.generation == key.generation);
        let distance =
            last.map_or(distance, |last| key.position.get().saturating_sub(last.position.get()).max(1));
        let rounds = (u128::from(distance) * 1000).div_ceil(u128::from(average));
        let millis = rounds.saturating_sub(1) * u128::from(self.settings.round_millis());
        let millis = u64::try_from(millis).unwrap_or(u64::MAX).saturating_add(auction.round.since(now));
        Some(Basis { millis, is_timetable: false })
    }
}

/// The frontier has moved: checks the notes it has reached, and makes another one of whoever is last in line.
pub(crate) fn frontier_moved(room: &mut Room, now: UnixMillis) {
    check_reached(room, now);
    if now < room.forecast.next_note_at || room.forecast.notes.len() >= NOTES_MAX {
        return;
    }
    let newest = room.newest();
    let (generation, last) = (newest.generation, newest.joined);
    let frontier = newest.frontier();
    let Some(position) = crate::ids::Position::new(last).filter(|_| last > frontier) else { return };
    // Somebody half-way is heard of sooner, while little is known.
    let near = room.forecast.quotients.len() < QUOTIENTS_MIN && room.forecast.notes.len() % 2 == 1;
    let target = if near { frontier + (last - frontier).div_ceil(8) } else { last };
    let position = crate::ids::Position::new(target).unwrap_or(position);
    let older: u64 = room.segments.iter().rev().skip(1).map(crate::Segment::beyond_frontier).sum();
    let distance = older + (target - frontier);
    let estimator = Estimator::of(room);
    let Some(basis) = estimator.basis(distance, SessionKey { generation, position }, now) else { return };
    let (_, p90_millis) = estimator.forecast.waits_millis(basis);
    let basis_millis = basis.millis;
    room.forecast.notes.push_back(Note {
        generation,
        position: target,
        made_at: now,
        basis_millis,
        p90_millis,
    });
    let spacing = (basis_millis / NOTES_MAX as u64).max(NOTE_SPACING_MIN_MILLIS);
    room.forecast.next_note_at = now.plus(spacing);
}

fn check_reached(room: &mut Room, now: UnixMillis) {
    let mut notes = std::mem::take(&mut room.forecast.notes);
    notes.retain(|note| {
        let segment = room.segments.iter().find(|segment| segment.generation == note.generation);
        let reached = segment.is_some_and(|segment| segment.frontier() >= note.position);
        if reached {
            room.forecast.check(now, note);
        }
        segment.is_some() && !reached
    });
    room.forecast.notes = notes;
}
