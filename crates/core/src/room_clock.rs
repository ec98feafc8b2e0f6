//! A room whose clock has seen a future that has not come: set right by an operator, without losing a place.
//!
//! A room's clock never goes back by itself, whatever the machine's does, so that nothing happens twice. If the machine's clock
//! was ahead once, everything with a time stands still until that moment comes. [`set_right`] takes the room back to the machine's
//! clock. Every moment that the room remembers goes back by as much, so all of it is as long ago, or as far away, as it was.
//!
//! What has ended stays ended. Passes that were issued meanwhile carry their times with them, and hold their slots until those.

use crate::auction::Auction;
use crate::effects::Effects;
use crate::ids::UnixMillis;
use crate::operation::Answer;
use crate::room::Room;

/// Takes the clock of a room back to `now`. A room that is not ahead of it stays as it is.
pub(crate) fn set_right(room: &mut Room, now: UnixMillis, effects: &mut Effects) -> Answer {
    let before = room.clock;
    let ahead = before.since(now);
    if ahead == 0 {
        return Answer::ClockSet { before, clock: before };
    }
    let earlier = |moment: UnixMillis| UnixMillis(moment.0.saturating_sub(ahead));
    let go_back = |moment: &mut UnixMillis| *moment = earlier(*moment);
    room.clock = now;
    room.clock_before_setting = room.clock_before_setting.max(before);
    room.halted_since = room.halted_since.map(earlier);
    room.next_step_at = room.next_step_at.map(earlier);
    room.windows.iter_mut().for_each(go_back);
    room.segments
        .iter_mut()
        .flat_map(|segment| segment.steps.iter_mut())
        .for_each(|step| go_back(&mut step.at));
    room.pace.samples.iter_mut().for_each(|sample| go_back(&mut sample.at));
    room.forecast.forget_notes();
    room.reports.shift_back(ahead);
    for offered_at in room.deferred.values_mut().filter_map(|place| place.offered_at.as_mut()) {
        go_back(offered_at);
    }
    room.departed.iter_mut().for_each(|departed| go_back(&mut departed.at));
    go_back(&mut room.losses.phantoms_end_at);
    go_back(&mut room.losses.learning_until);
    if let Some(adaptive) = &mut room.adaptive {
        go_back(&mut adaptive.adjusted_at);
    }
    if let Some(last_move) = &mut room.last_move {
        go_back(&mut last_move.at);
    }
    // Rounds are named by moments of the clock on the wall: the open one runs out, and the next is on the grid again.
    if let Some(auction) = &mut room.auction {
        let auction: &mut Auction = auction;
        auction.collected = None;
        [&mut auction.round, &mut auction.settled, &mut auction.won_at].into_iter().for_each(go_back);
    }
    // So is the timetable of a start time.
    if room.settings.start_time > 0 {
        crate::inlet::begin_timetable(room, now);
    }
    effects.changed = true;
    Answer::ClockSet { before, clock: now }
}
