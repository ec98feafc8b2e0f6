//! What was last announced of a room's condition: so each change of it is told once, by whichever node commits it.
//!
//! What holds the inlet is told at once. Capacity and line can change with every visitor, so each of them is told again only after
//! [`CHANGE_PAUSE_MILLIS`]; what is told then is how it is then.

use super::{Event, RoomFigures};
use crate::effects::Effects;
use crate::ids::UnixMillis;
use crate::room::Room;
use crate::settings::InletKind;
use crate::standstill::Standstill;

/// How long capacity, or line, must have been announced before it is announced again.
pub const CHANGE_PAUSE_MILLIS: u64 = 10_000;
/// How often a room's figures are told, where that is asked for.
pub const METRICS_PERIOD_MILLIS: u64 = 60_000;

/// A condition that may change with every visitor, as last announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Condition {
    /// Whether it holds.
    pub holds: bool,
    /// When that was announced.
    pub since: UnixMillis,
}

impl Condition {
    /// Notes how it is, and says whether that is to be announced now.
    fn changes_to(&mut self, holds: bool, now: UnixMillis) -> bool {
        // A clock that was set back leaves a moment that has not come.
        let is_settled = self.since > now || self.since.plus(CHANGE_PAUSE_MILLIS) <= now;
        let changes = self.holds != holds && is_settled;
        if changes {
            *self = Self { holds, since: now };
        }
        changes
    }

    /// When it is to be announced, if it is not as it was announced.
    fn due(self, holds: bool, now: UnixMillis) -> Option<UnixMillis> {
        (self.holds != holds).then(|| self.since.min(now).plus(CHANGE_PAUSE_MILLIS))
    }
}

/// What was last announced of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Announced {
    /// What held the inlet.
    pub held_by: Option<Standstill>,
    /// Whether there was no free slot.
    pub at_capacity: Condition,
    /// Whether somebody waited.
    pub has_line: Condition,
    /// When the room's figures are told next; 0 where they are not.
    pub metrics_due: UnixMillis,
}

/// What holds an automatic inlet, beyond what the room's state says by itself.
fn held_by(room: &Room, now: UnixMillis) -> Option<Standstill> {
    if room.settings.inlet == InletKind::Manual && !room.settings.is_auction() {
        return None;
    }
    Standstill::held(room, now).filter(|&reason| reason != Standstill::Paused)
}

fn is_at_capacity(room: &Room) -> bool {
    room.capacity().is_some_and(|capacity| room.held() >= capacity)
}

/// Whether people wait who have no offer.
fn has_line(room: &Room) -> bool {
    room.waiting() > room.offers()
}

/// Tells what is not as it was last announced.
pub(crate) fn tick(room: &mut Room, now: UnixMillis, effects: &mut Effects) {
    let mut announced = room.announced;
    let mut events = vec![];
    let held = held_by(room, now);
    if announced.held_by != held {
        events.extend(announced.held_by.map(|reason| Event::InletReleased { reason }));
        events.extend(held.map(|reason| Event::InletHeld { reason }));
        announced.held_by = held;
    }
    let at_capacity = is_at_capacity(room);
    if announced.at_capacity.changes_to(at_capacity, now) {
        let (capacity, held, waiting) = (room.capacity().unwrap_or(0), room.held(), room.waiting());
        events.push(if at_capacity {
            Event::CapacityReached { capacity, held, waiting }
        } else {
            Event::CapacityFree { capacity, held }
        });
    }
    let has_line = has_line(room);
    if announced.has_line.changes_to(has_line, now) && !has_line {
        events.push(Event::LineEmpty { joined: room.newest().joined });
    }
    tell_figures(room, now, &mut announced, &mut events);
    if room.announced != announced {
        room.announced = announced;
        effects.changed = true;
    }
    effects.events.append(&mut events);
}

/// The figures of a minute that nobody was there to tell are not caught up.
fn tell_figures(room: &Room, now: UnixMillis, announced: &mut Announced, events: &mut Vec<Event>) {
    let is_on = room.settings.enable_events_generation;
    let is_due = is_on && announced.metrics_due != UnixMillis(0) && announced.metrics_due <= now;
    if is_due {
        events.push(Event::WaitingRoomMetrics(RoomFigures::of(room)));
    }
    let is_out_of_reach = announced.metrics_due > now.plus(METRICS_PERIOD_MILLIS);
    if is_on != (announced.metrics_due != UnixMillis(0)) || is_due || is_out_of_reach {
        let next_minute = (now.0 / METRICS_PERIOD_MILLIS + 1) * METRICS_PERIOD_MILLIS;
        announced.metrics_due = UnixMillis(if is_on { next_minute } else { 0 });
    }
}

/// When capacity or line is to be announced.
pub(crate) fn next_due(room: &Room) -> Option<UnixMillis> {
    let at_capacity = room.announced.at_capacity.due(is_at_capacity(room), room.clock);
    at_capacity.into_iter().chain(room.announced.has_line.due(has_line(room), room.clock)).min()
}

/// When the room's figures are told next.
pub(crate) fn next_metrics_due(room: &Room) -> Option<UnixMillis> {
    Some(room.announced.metrics_due).filter(|&due| due != UnixMillis(0))
}

#[cfg(test)]
mod tests;
