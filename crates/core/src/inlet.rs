//! What moves the frontier by itself. Each inlet is one arm here: what it does when time passes, and how far it may settle.
//!
//! An inlet never sees HTTP, a store or a clock. A new one (periodic, window, adaptive) adds its kind to
//! [`crate::settings::InletKind`], its due steps to [`due_steps`] and, if it keeps a capacity, its budget to [`settle_budget`].

use crate::effects::Effects;
use crate::ids::UnixMillis;
use crate::room::Room;
use crate::settings::InletKind;

/// Part of every tick: takes the steps of the timetable that are due at `now`.
pub(crate) fn due_steps(room: &mut Room, now: UnixMillis, effects: &mut Effects) {
    match room.settings.inlet {
        // Neither has a timetable: one waits for the operator, the other for a free slot.
        InletKind::Manual | InletKind::MaxSize => {
            let _ = (now, effects);
        }
    }
}

/// Part of every settle: how many more offers the inlet allows right now.
fn settle_budget(room: &Room) -> u64 {
    match room.settings.inlet {
        InletKind::Manual => 0,
        InletKind::MaxSize => room.settings.total_active_users.unwrap_or(0).saturating_sub(room.held()),
    }
}

/// The end of every operation: positions the frontier has already passed become offers once they are joined, then an inlet
/// with a budget moves the frontier over as many live positions, oldest generation first, never beyond the last join.
pub(crate) fn settle(room: &mut Room, now: UnixMillis, effects: &mut Effects) {
    make_offers(room, now, effects);
    if !room.state.admits() || room.inlet_rests {
        return;
    }
    let mut budget = settle_budget(room);
    for segment in &mut room.segments {
        if budget == 0 {
            break;
        }
        let from = segment.serving.max(segment.floor);
        let (serving, found) = segment.taken.nth_live_after(from, segment.joined, budget);
        if found > 0 {
            segment.serving = serving;
            effects.changed = true;
        }
        budget -= found;
    }
    make_offers(room, now, effects);
}

/// Turns what is both joined and served into offers.
pub(crate) fn make_offers(room: &mut Room, now: UnixMillis, effects: &mut Effects) -> u64 {
    let offers = room.segments.iter_mut().map(|segment| segment.offer(now, effects)).sum();
    room.pace.record(now, offers);
    offers
}
