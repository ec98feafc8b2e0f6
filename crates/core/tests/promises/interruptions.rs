//! A store that goes back to what it was, or to nothing, and what the nodes remember then.

use std::collections::HashMap;

use anteroom_core::losses::MARGIN_MIN;
use anteroom_core::{
    Board, Line, Losses, Mend, MovedPlaces, Operation, Room, Segment, Session, SessionKey, Ticket, UnixMillis,
};

use super::model::Model;
use super::play::{Play, key_of};
use super::stays::Stays;

/// How many moments a store can go back.
const MOMENTS_MAX: usize = 10;

/// Everything as it was once.
pub(crate) struct Moment {
    room: Room,
    sessions: HashMap<SessionKey, Session>,
    tickets: Vec<Ticket>,
    model: Model,
    stays: Stays,
}

/// What a node remembers of a room.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) lines: Vec<Line>,
    pub(crate) moved: MovedPlaces,
}

/// What a node remembers that has just seen a room, and whose claims are all confirmed.
fn memory_of(room: &Room) -> Memory {
    let line = |segment: &Segment| Line {
        generation: segment.generation,
        base: segment.base,
        joined: segment.joined,
        serving: segment.serving.max(segment.won),
        floor: segment.floor,
        claimed: segment.counts.claimed,
        inside: segment.counts.live_sessions(),
    };
    Memory { lines: room.segments.iter().map(line).collect(), moved: MovedPlaces::clone(&room.moved) }
}

impl Play {
    pub(crate) fn remember_moment(&mut self) {
        self.moments.push(Moment {
            room: self.room.clone(),
            sessions: self.sessions.clone(),
            tickets: self.tickets.clone(),
            model: self.model.clone(),
            stays: self.stays.clone(),
        });
        let surplus = self.moments.len().saturating_sub(MOMENTS_MAX);
        self.moments.drain(..surplus);
    }

    fn mend(&mut self, memory: Memory, sessions_lost: bool) -> Operation {
        self.incarnation += 1;
        let Memory { lines, moved } = memory;
        let oldest = lines.first().map(|line| line.generation);
        let incarnation = self.incarnation;
        Operation::Mend(Mend { incarnation, margin: MARGIN_MIN, lines, oldest, sessions_lost, moved })
    }

    /// The store goes back by so many steps. Another node remembers everything, the one that mends all but the last steps.
    pub(crate) fn lose(&mut self, steps: usize, forgotten: usize) -> Operation {
        let back_to = self.moments.len().saturating_sub(steps + 1);
        let seen = self.moments.len().saturating_sub(forgotten + 1).max(back_to);
        self.memory = memory_of(&self.room);
        let seen_room = self.moments.get(seen).map_or(&self.room, |moment| &moment.room).clone();
        self.remembered = Some(Board::of(&seen_room));
        if seen + 1 < self.moments.len() {
            self.ordered_from = self.handed_out.len();
        }
        // Visitors keep their tickets, whatever a store does.
        for ticket in self.moments.iter().skip(back_to).rev().flat_map(|moment| moment.tickets.clone()) {
            if let Err(place) = self.tickets.binary_search_by_key(&key_of(&ticket), key_of) {
                self.tickets.insert(place, ticket);
            }
        }
        if back_to < self.moments.len() {
            let Moment { room, sessions, model, mut stays, .. } = self.moments.swap_remove(back_to);
            stays.spread_millis = self.stays.spread_millis;
            (self.room, self.sessions, self.model, self.stays) = (room, sessions, model, stays);
        }
        self.moments.clear();
        self.mend(memory_of(&seen_room), false)
    }

    /// The store is empty. The node that gives the room back has it as it was.
    pub(crate) fn empty_store(&mut self) -> Operation {
        self.memory = memory_of(&self.room);
        self.sessions.clear();
        self.moments.clear();
        let memory = memory_of(&self.room);
        self.mend(memory, true)
    }

    /// The store is empty, and a room of the same name is made in it: visitors may hold tickets of the one that was lost.
    pub(crate) fn make_anew(&mut self) {
        self.memory = memory_of(&self.room);
        self.incarnation += 1;
        let settings = self.model.settings.clone();
        self.room = Room::open(settings.clone(), self.now, self.incarnation);
        self.room.losses = Losses::of_a_room_that_may_have_been_lost(UnixMillis(0));
        self.model = Model::new(settings, self.now, self.room.newest().generation);
        self.model.losses.honours_after = self.room.losses.honours_after;
        let spread_millis = std::mem::take(&mut self.stays).spread_millis;
        self.stays.spread_millis = spread_millis;
        self.sessions.clear();
        self.moments.clear();
        self.shown.clear();
        self.ordered_from = self.handed_out.len();
    }
}
