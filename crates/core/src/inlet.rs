//! What moves the frontier by itself: when time passes, and how far it may settle.
//!
//! An inlet never sees HTTP, a store or a clock. Those with a timetable step at moments `interval_seconds` apart; a step that is
//! not taken when it is due (the room paused, an alarm firing, outside its time, no node running) is gone and never caught up. A
//! step that moves the frontier late moves the timetable: two such steps are never closer than an interval.
//! Those with a capacity settle: after every operation, free slots become offers.

use crate::apply::advance_within_line;
use crate::auction;
use crate::effects::Effects;
use crate::ids::UnixMillis;
use crate::operation::SERVING_MAX;
use crate::prefixes;
use crate::room::Room;
use crate::settings::{InletKind, Settings};
use crate::standstill::Standstill;

/// A step is taken this late at least, whatever the interval. Beyond that, and beyond half the interval, it is gone.
const STEP_LATE_MILLIS: u64 = 1_000;

/// Who moved the frontier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MovedBy {
    /// The operator.
    Hand,
    /// A periodic step.
    Periodic,
    /// A free slot of a max-size room.
    MaxSize,
    /// A window.
    Window,
    /// A free slot of an adaptive room.
    Adaptive,
    /// Offers that lapsed, where the room moves on over them.
    Lapse,
    /// A round of the auction.
    Auction,
}

impl MovedBy {
    /// Every one, in the order stores write them.
    pub const ALL: [Self; 7] =
        [Self::Hand, Self::Periodic, Self::MaxSize, Self::Window, Self::Adaptive, Self::Lapse, Self::Auction];

    /// The word used everywhere.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hand => "hand",
            Self::Periodic => "periodic",
            Self::MaxSize => "max-size",
            Self::Window => "window",
            Self::Adaptive => "adaptive",
            Self::Lapse => "lapse",
            Self::Auction => "auction",
        }
    }
}

/// A move of the frontier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrontierMove {
    /// Who moved it.
    pub by: MovedBy,
    /// When.
    pub at: UnixMillis,
    /// The serving counter before.
    pub from: u64,
    /// And after.
    pub to: u64,
}

/// Remembers a move, if there was one.
pub(crate) fn note_move(room: &mut Room, by: MovedBy, now: UnixMillis, from: u64) {
    let to = room.serving();
    if to != from {
        room.last_move = Some(FrontierMove { by, at: now, from, to });
        room.moves[by as usize] += 1;
    }
}

/// Part of every tick: takes the step of the timetable that is due at `now`, if one is.
pub(crate) fn due_steps(room: &mut Room, now: UnixMillis, effects: &mut Effects) {
    let held = room.held();
    if let Some(adaptive) = &mut room.adaptive
        && room.halted_since.is_none()
    {
        effects.changed |= adaptive.adjust(now, &room.settings, held);
    }
    let Some(interval) = room.settings.step_interval_millis() else {
        room.next_step_at = None;
        return;
    };
    let Some(due) = room.next_step_at else {
        begin_timetable(room, now);
        effects.changed = true;
        return;
    };
    if now < due {
        return;
    }
    let slot = UnixMillis(due.0 + (now.0 - due.0) / interval * interval);
    room.next_step_at = Some(slot.plus(interval));
    room.steps_missed += (slot.0 - due.0) / interval;
    // Where nothing was due to be taken, the timetable need not be written: every later reader computes the same.
    if now.since(slot) > (interval / 2).max(STEP_LATE_MILLIS) || Standstill::held(room, slot).is_some() {
        room.steps_missed += 1;
        return;
    }
    let before = positions_served(room);
    take_step(room, now, slot, effects);
    if positions_served(room) != before {
        room.next_step_at = Some(now.plus(interval));
    }
}

/// How far the frontier has come in all lines together.
fn positions_served(room: &Room) -> u128 {
    room.segments.iter().map(|segment| u128::from(segment.serving)).sum()
}

fn take_step(room: &mut Room, now: UnixMillis, slot: UnixMillis, effects: &mut Effects) {
    let before = room.serving();
    match room.settings.inlet {
        InletKind::Manual => {}
        InletKind::Periodic => {
            step_by_increment(room);
            note_move(room, MovedBy::Periodic, now, before);
        }
        InletKind::Window => {
            if step_by_window(room, now, effects) {
                note_move(room, MovedBy::Window, now, before);
            }
        }
        InletKind::MaxSize | InletKind::Adaptive => {
            // Written when it lets a visitor in, with the timetable as it is then: an idle room writes nothing.
            room.rate_budget = rate_share(&room.settings, slot);
            return;
        }
    }
    effects.changed |= room.serving() != before;
}

/// A quiet night must not save up a burst: without `run_ahead` the frontier stays within one step of the last join.
fn step_by_increment(room: &mut Room) {
    let increment = room.settings.increment_by.get();
    let run_ahead = room.settings.run_ahead;
    let left_over = advance_within_line(room, increment);
    let newest = room.newest_mut();
    let limit = if run_ahead { SERVING_MAX } else { newest.joined.saturating_add(increment) };
    newest.serving = newest.serving.saturating_add(left_over).min(limit.max(newest.serving));
}

/// The next window, unless nobody waits. It holds those who are there, perhaps fewer than its size.
///
/// What may claim is decided by positions: the last `active_windows` x `window_size` of them. So windows that were not full end
/// nobody's turn. Positions that an operator moved the frontier over stay for as many windows as any other.
fn step_by_window(room: &mut Room, now: UnixMillis, effects: &mut Effects) -> bool {
    let size = room.settings.window_size.map_or(0, crate::settings::People::get);
    // Those who have left do not wait: a window for nobody would only end an older one.
    let somebody_waits = room
        .segments
        .iter()
        .any(|segment| segment.taken.live_between(segment.serving.max(segment.floor), segment.joined) > 0);
    if !somebody_waits {
        return false;
    }
    advance_within_line(room, size);
    let active = usize::try_from(room.settings.active_windows.get()).unwrap_or(usize::MAX);
    room.windows.push_back(now);
    while room.windows.len() > active {
        room.windows.pop_front();
    }
    if room.windows.len() == active
        && let Some(&oldest) = room.windows.front()
    {
        let mut kept = size.saturating_mul(room.settings.active_windows.get());
        for segment in room.segments.iter_mut().rev() {
            let last = segment.serving.min(segment.joined).max(segment.base);
            let kept_here = kept.min(last - segment.base);
            segment.lapse_through(last - kept_here, oldest, effects);
            kept -= kept_here;
        }
    }
    true
}

/// How many of a minute's new users belong to the step at `slot`: the shares of any minute's steps add up to the minute.
fn rate_share(settings: &Settings, slot: UnixMillis) -> u64 {
    let Some(rate) = settings.new_users_per_minute else { return 0 };
    let interval = settings.interval_seconds.get() * 1000;
    let number = u128::from(slot.0 / interval);
    let by = |steps: u128| u128::from(rate.get()) * steps * u128::from(interval) / 60_000;
    u64::try_from(by(number + 1) - by(number)).unwrap_or(u64::MAX)
}

/// Sets the first step: at the start time, on its grid once that has passed, or an interval from now.
pub(crate) fn begin_timetable(room: &mut Room, now: UnixMillis) {
    let Some(interval) = room.settings.step_interval_millis() else {
        room.next_step_at = None;
        return;
    };
    let start = UnixMillis(room.settings.start_time.saturating_mul(1000));
    room.next_step_at = Some(if start > now {
        start
    } else if start.0 > 0 {
        UnixMillis(start.0 + ((now.0 - start.0) / interval + 1) * interval)
    } else {
        now.plus(interval)
    });
    room.rate_budget = if start > now { 0 } else { rate_share(&room.settings, now) };
}

/// After a change of settings: whatever the new ones need begins, and what they do not need ends.
pub(crate) fn on_reconfigure(room: &mut Room, now: UnixMillis, before: &Settings) {
    let timetable =
        |settings: &Settings| (settings.inlet, settings.step_interval_millis(), settings.start_time);
    if timetable(before) != timetable(&room.settings) || room.settings.step_interval_millis().is_none() {
        begin_timetable(room, now);
    } else if before.new_users_per_minute != room.settings.new_users_per_minute {
        room.rate_budget = room.rate_budget.min(rate_share(&room.settings, now));
    }
    if room.settings.inlet != InletKind::Window {
        room.windows.clear();
    }
    if room.settings.inlet == InletKind::Adaptive {
        let adaptive =
            room.adaptive.get_or_insert_with(|| crate::adaptive::Adaptive::begin(&room.settings, now));
        adaptive.clamp(&room.settings);
    } else {
        room.adaptive = None;
    }
}

/// How many more visitors may be let in right now.
pub(crate) fn free_slots(room: &Room, now: UnixMillis) -> u64 {
    if Standstill::held(room, now).is_some() {
        return 0;
    }
    let by_capacity = room.capacity().map(|capacity| capacity.saturating_sub(room.held()));
    let by_reports = room.reports.free(&room.settings, now).map(|free| free.saturating_sub(room.offers()));
    let free = match (by_capacity, by_reports) {
        (Some(one), Some(other)) => one.min(other),
        (one, other) => one.or(other).unwrap_or(0),
    };
    if room.settings.new_users_per_minute.is_some() { free.min(room.rate_budget) } else { free }
}

pub(crate) fn spend_rate(room: &mut Room, offers: u64) {
    if room.settings.new_users_per_minute.is_some() {
        room.rate_budget = room.rate_budget.saturating_sub(offers);
    }
}

/// The end of every operation: positions the frontier has already passed become offers once they are joined, then an inlet
/// with a capacity moves the frontier over as many live positions as slots are free, oldest generation first, never beyond the
/// last join.
pub(crate) fn settle(room: &mut Room, now: UnixMillis, effects: &mut Effects) {
    make_offers(room, now, effects);
    prefixes::offer_again(room, now, effects);
    if room.settings.is_auction() {
        auction::tick(room, now, effects);
        return;
    }
    if !room.settings.inlet.is_capped() {
        return;
    }
    let before = room.serving();
    let free = free_slots(room, now);
    let mut budget = free;
    for index in 0..room.segments.len() {
        if budget == 0 {
            break;
        }
        let segment = &mut room.segments[index];
        let from = segment.serving.max(segment.floor);
        let (serving, found) = segment.taken.nth_live_after(from, segment.joined, budget);
        if found > 0 {
            segment.serving = serving;
            effects.changed = true;
            // The frontier is one: it leaves nothing behind in older generations, where nobody is left to be served.
            for older in room.segments.iter_mut().take(index) {
                older.serving = older.serving.max(older.joined);
            }
        }
        budget -= found;
    }
    spend_rate(room, free - budget);
    let by = if room.settings.inlet == InletKind::Adaptive { MovedBy::Adaptive } else { MovedBy::MaxSize };
    note_move(room, by, now, before);
    make_offers(room, now, effects);
}

/// Turns what is both joined and served into offers.
pub(crate) fn make_offers(room: &mut Room, now: UnixMillis, effects: &mut Effects) -> u64 {
    let covered = |room: &Room| room.segments.iter().map(crate::Segment::covered).sum::<u64>();
    let before = covered(room);
    let offers = room.segments.iter_mut().map(|segment| segment.offer(now, effects)).sum();
    let passed = covered(room).saturating_sub(before);
    if passed > 0 {
        room.pace.record(now, passed);
        crate::forecast::on_frontier_move(room, now);
    }
    offers
}
