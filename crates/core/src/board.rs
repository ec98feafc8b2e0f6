//! A room's published figures, as every reader sees them. Reads come from here, not from the store.

use std::sync::Arc;

use crate::ids::{Generation, Ticket, UnixMillis};
use crate::room::{Room, RoomState};
use crate::segment::{Counts, Step, step_of};
use crate::settings::Settings;

/// How far a ticket's time of entry may lie ahead of this node's clock.
pub const CLOCK_SKEW_MAX_SECONDS: u64 = 60;

/// One generation as readers need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoardSegment {
    /// Which tickets stand in it.
    pub generation: Generation,
    /// The position before its first.
    pub base: u64,
    /// The last position handed out.
    pub joined: u64,
    /// The frontier.
    pub serving: u64,
    /// Everything up to it is settled.
    pub floor: u64,
    /// Open stretches of offers.
    pub steps: Arc<[Step]>,
}

/// What a room shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Board {
    /// The commit it shows.
    pub version: u64,
    /// The latest moment the room has seen.
    pub clock: UnixMillis,
    /// Whether it joins and admits.
    pub state: RoomState,
    /// The serving counter.
    pub serving: u64,
    /// People who have joined and neither claimed, left nor lapsed.
    pub waiting: u64,
    /// Visitors inside.
    pub active: u64,
    /// Unclaimed offers.
    pub offers: u64,
    /// Sessions not ended by name or by time.
    pub live_sessions: u64,
    /// All counts.
    pub counts: Counts,
    /// Offers made by hand over an automatic inlet.
    pub offers_by_hand: u64,
    /// Whether an automatic inlet rests after a move back by hand.
    pub inlet_rests: bool,
    /// Since when claim clocks stand still.
    pub halted_since: Option<UnixMillis>,
    /// What the operator set.
    pub settings: Arc<Settings>,
    /// The line, oldest generation first.
    pub segments: Vec<BoardSegment>,
    /// How fast the line moves.
    pub pace: crate::estimate::Pace,
}

/// Whether a ticket belongs to the line a board shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recognition {
    /// It does.
    Ours,
    /// It is newer than the board: ask the store before refusing it.
    Newer,
    /// It does not.
    Foreign,
}

/// Where a recognised ticket stands, as far as the board knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The frontier has not reached it (or the room admits nobody).
    Waiting {
        /// How many positions are before it.
        people_ahead: u64,
    },
    /// It is an offer, unless its holder has claimed or left.
    Offered {
        /// Milliseconds until it lapses; `None` if never.
        remaining_millis: Option<u64>,
    },
    /// It was settled: claimed, left or lapsed.
    Settled,
}

impl Board {
    /// What `room` shows now.
    pub fn of(room: &Room) -> Self {
        Self {
            version: room.version,
            clock: room.clock,
            state: room.state,
            serving: room.serving(),
            waiting: room.waiting(),
            active: room.active(),
            offers: room.offers(),
            live_sessions: room.counts().live_sessions(),
            counts: room.counts(),
            offers_by_hand: room.offers_by_hand,
            inlet_rests: room.inlet_rests,
            halted_since: room.halted_since,
            settings: Arc::new(room.settings.clone()),
            segments: room
                .segments
                .iter()
                .map(|segment| BoardSegment {
                    generation: segment.generation,
                    base: segment.base,
                    joined: segment.joined,
                    serving: segment.serving,
                    floor: segment.floor,
                    steps: segment.steps.iter().copied().collect(),
                })
                .collect(),
            pace: room.pace.clone(),
        }
    }

    /// Whether a decoded ticket can be one of this room's. What is not `Ours` is worth nothing.
    pub fn recognise(&self, ticket: &Ticket, now: UnixMillis) -> Recognition {
        // The room's own clock never goes back, whatever the machine's does, and a line may have opened ahead of both.
        let latest = now.seconds().max(self.clock.seconds()).max(ticket.generation.opened_unix_seconds());
        let entry_plausible = ticket.entry_time() <= latest + CLOCK_SKEW_MAX_SECONDS;
        if ticket.lane != 0 || ticket.copy != 0 || !entry_plausible {
            return Recognition::Foreign;
        }
        let position = ticket.position.get();
        match self.segment(ticket.generation) {
            Some(segment) if position <= segment.base => Recognition::Foreign,
            Some(segment) if position <= segment.joined => Recognition::Ours,
            Some(_) => Recognition::Newer,
            None if self.segments.last().is_some_and(|last| ticket.generation > last.generation) => {
                Recognition::Newer
            }
            None => Recognition::Foreign,
        }
    }

    /// Where a recognised ticket stands at `now`.
    pub fn standing(&self, ticket: &Ticket, now: UnixMillis) -> Standing {
        let position = ticket.position.get();
        let Some(segment) = self.segment(ticket.generation) else {
            return Standing::Settled;
        };
        if position <= segment.floor {
            return Standing::Settled;
        }
        let Some(step) = step_of(&segment.steps, segment.floor, position) else {
            return Standing::Waiting { people_ahead: self.people_ahead(segment, position) };
        };
        let remaining_millis =
            self.settings.claim_window_millis().map(|window| self.remaining_millis(step.at, window, now));
        if remaining_millis == Some(0) { Standing::Settled } else { Standing::Offered { remaining_millis } }
    }

    /// What is left of a claim window that began at `at`.
    pub fn remaining_millis(&self, at: UnixMillis, window: u64, now: UnixMillis) -> u64 {
        // While the room is halted the clock stands; an offer made since then has its whole window.
        let clock = self.halted_since.unwrap_or(now).max(at);
        at.plus(window).since(clock)
    }

    /// Seconds a visitor with that many people before him should expect to wait; `None` while nothing is known.
    pub fn wait_seconds(&self, people_ahead: u64, now: UnixMillis) -> Option<u64> {
        self.pace.wait_seconds(people_ahead + 1, now)
    }

    fn people_ahead(&self, segment: &BoardSegment, position: u64) -> u64 {
        let older = self.segments.iter().take_while(|other| other.generation < segment.generation);
        let before: u64 =
            older.map(|other| other.joined.saturating_sub(other.serving.max(other.floor))).sum();
        before + (position - 1).saturating_sub(segment.serving.max(segment.floor))
    }

    fn segment(&self, generation: Generation) -> Option<&BoardSegment> {
        self.segments.iter().find(|segment| segment.generation == generation)
    }
}
