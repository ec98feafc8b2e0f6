//! A room's published figures, as every reader sees them. Reads come from here, not from the store.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::auction::Auction;
use crate::forecast::{Estimator, Forecast, Wait};
use crate::ids::{Generation, Ticket, UnixMillis};
use crate::inlet::FrontierMove;
use crate::moves::{MovedPlaces, Mover};
use crate::operation::key_of;
use crate::prefixes::{DeferredPlaces, VisitsByPrefix};
use crate::reports::Reports;
use crate::room::{Room, RoomState};
use crate::segment::{Counts, Step, step_of};
use crate::session::Departed;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::standstill::Standstill;

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
    /// The frontier; in an auction, the highest winner.
    pub serving: u64,
    /// Everything up to it is settled.
    pub floor: u64,
    /// Open stretches of offers.
    pub steps: Arc<VecDeque<Step>>,
}

/// What a room shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Board {
    /// The commit it shows.
    pub version: u64,
    /// The latest moment the room has seen.
    pub clock: UnixMillis,
    /// What it showed before it was set right.
    pub clock_before_setting: UnixMillis,
    /// Whether it joins and admits.
    pub state: RoomState,
    /// The serving counter.
    pub serving: u64,
    /// People who have joined and neither claimed, left nor lapsed.
    pub waiting: u64,
    /// Visitors inside.
    pub active: u64,
    /// Those of them whose sessions the store has lost.
    pub phantoms: u64,
    /// Offers that were made on a side of the store that was lost, and stand.
    pub offers_recalled: u64,
    /// Tickets of unknown lines opened after this one are honoured.
    pub honours_after: Option<Generation>,
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
    pub pace: Arc<crate::estimate::Pace>,
    /// How good the estimates were.
    pub forecast: Arc<Forecast>,
    /// How many may be inside now, for an inlet with a capacity.
    pub capacity: Option<u64>,
    /// How many more new users this step of the timetable lets in, where there is a rate.
    pub rate_budget: Option<u64>,
    /// Where the adaptive law stands.
    pub adaptive: Option<crate::adaptive::Adaptive>,
    /// What the origin reports.
    pub reports: Arc<Reports>,
    /// The auction.
    pub auction: Option<Arc<Auction>>,
    /// Visits that were ended by name a moment ago, oldest first: their cookies are worth nothing any more.
    pub departed: Arc<VecDeque<Departed>>,
    /// Places that have moved to another device, and their newest copies.
    pub moved: MovedPlaces,
    /// Visits inside, by the address prefix that they come from.
    pub visits_by_prefix: Arc<VisitsByPrefix>,
    /// Places whose visitors wait because their address prefix has its share of the slots.
    pub deferred: Arc<DeferredPlaces>,
    /// Those of its alarms that fire.
    pub firing: Vec<String>,
    /// Who paused or closed the room, or moved its frontier back.
    pub stopped_by: Option<String>,
    /// The last move of the frontier.
    pub last_move: Option<FrontierMove>,
    /// Moves of the frontier so far.
    pub moves: [u64; crate::inlet::MovedBy::ALL.len()],
    /// Steps of the timetable that were not taken.
    pub steps_missed: u64,
    /// When the frontier moves next by the clock: the next step, or the end of the round.
    pub next_step_at: Option<UnixMillis>,
    /// Why the frontier stands still; `None` if it moves, or will at the next step.
    pub standstill: Option<Standstill>,
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
    /// The rounds of an auction have passed it: it was claimed or left, or still waits, before everybody else.
    Passed,
    /// It was settled: claimed, left or lapsed.
    Settled,
}

impl Board {
    /// What `room` shows now. Whatever is larger than a few numbers is shared with the room, so a join copies none of it.
    pub fn of(room: &Room) -> Self {
        Self {
            version: room.version,
            clock: room.clock,
            clock_before_setting: room.clock_before_setting,
            state: room.state,
            serving: room.serving(),
            waiting: room.waiting(),
            active: room.active(),
            phantoms: room.losses.phantoms,
            offers_recalled: room.losses.offers_recalled,
            honours_after: room.losses.honours_after,
            offers: room.offers(),
            live_sessions: room.counts().live_sessions(),
            counts: room.counts(),
            offers_by_hand: room.offers_by_hand,
            inlet_rests: room.inlet_rests,
            halted_since: room.halted_since,
            settings: room.settings.share(),
            segments: room
                .segments
                .iter()
                .map(|segment| BoardSegment {
                    generation: segment.generation,
                    base: segment.base,
                    joined: segment.joined,
                    serving: segment.serving.max(segment.won),
                    floor: segment.floor,
                    steps: segment.steps.share(),
                })
                .collect(),
            pace: room.pace.share(),
            forecast: room.forecast.share(),
            capacity: room.capacity(),
            rate_budget: room.settings.new_users_per_minute.map(|_| room.rate_budget),
            adaptive: room.adaptive,
            reports: room.reports.share(),
            auction: room.auction.as_ref().map(Shared::share),
            departed: room.departed.share(),
            moved: Arc::clone(&room.moved),
            visits_by_prefix: room.visits_by_prefix.share(),
            deferred: room.deferred.share(),
            firing: room.firing_alarms().map(str::to_owned).collect(),
            stopped_by: room.stopped_by.clone(),
            last_move: room.last_move,
            moves: room.moves,
            steps_missed: room.steps_missed,
            next_step_at: room.auction.as_ref().map(|auction| auction.round).or(room.next_step_at),
            standstill: Standstill::of(room, room.clock),
        }
    }

    /// Whether a ticket is an older copy of a place that has moved to another device.
    pub fn is_moved(&self, ticket: &Ticket) -> bool {
        crate::moves::is_moved(&self.moved, ticket)
    }

    /// Whether this mover took the place to another device with this very ticket: a repeated request gets the new one again.
    pub fn is_moved_by(&self, ticket: &Ticket, by: Mover) -> bool {
        crate::moves::is_moved_by(&self.moved, ticket, by)
    }

    /// Whether a decoded ticket can be one of this room's. What is not `Ours` is worth nothing.
    pub fn recognise(&self, ticket: &Ticket, now: UnixMillis) -> Recognition {
        // The room's own clock never goes back by itself, whatever the machine's does, and a line may have opened ahead of both.
        let clock = self.clock.max(self.clock_before_setting);
        let latest = now.seconds().max(clock.seconds()).max(ticket.generation.opened_unix_seconds());
        let entry_plausible = ticket.entry_time() <= latest + CLOCK_SKEW_MAX_SECONDS;
        if ticket.lane != 0 || !entry_plausible {
            return Recognition::Foreign;
        }
        let position = ticket.position.get();
        match self.segment(ticket.generation) {
            Some(segment) if position <= segment.base => {
                if self.honours(ticket.generation, now) {
                    Recognition::Newer
                } else {
                    Recognition::Foreign
                }
            }
            Some(segment) if position <= segment.joined => Recognition::Ours,
            Some(_) => Recognition::Newer,
            None if self.segments.last().is_some_and(|last| ticket.generation > last.generation) => {
                Recognition::Newer
            }
            None if self.honours(ticket.generation, now) => Recognition::Newer,
            None => Recognition::Foreign,
        }
    }

    /// Whether an unknown line, or the beginning of a known one, may have been lost.
    fn honours(&self, generation: Generation, now: UnixMillis) -> bool {
        let newest = self.segments.last().map(|last| last.generation);
        newest.is_some_and(|newest| {
            crate::losses::is_honoured(self.honours_after, newest, generation, now.max(self.clock))
        })
    }

    /// Where a recognised ticket stands at `now`.
    pub fn standing(&self, ticket: &Ticket, now: UnixMillis) -> Standing {
        let position = ticket.position.get();
        let Some(segment) = self.segment(ticket.generation) else {
            return Standing::Settled;
        };
        if let Some(place) = self.deferred.get(&key_of(ticket)) {
            return match place.offered_at.filter(|_| self.state.admits()) {
                Some(offered_at) => {
                    let window = self.settings.claim_window_millis();
                    let remaining_millis =
                        window.map(|window| self.remaining_millis(offered_at, window, now));
                    Standing::Offered { remaining_millis }
                }
                None => Standing::Waiting { people_ahead: 0 },
            };
        }
        if position <= segment.floor {
            return Standing::Settled;
        }
        let Some(step) = step_of(&segment.steps, segment.floor, position) else {
            if let Some(auction) = &self.auction {
                if auction.wins.contains(&key_of(ticket)) {
                    let remaining_millis = Some(auction.wins_end_at().since(now).max(1));
                    return Standing::Offered { remaining_millis };
                }
                if position <= segment.serving {
                    return Standing::Passed;
                }
            }
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

    /// How long a waiting ticket with that many people before it will wait; `None` while that is not known.
    pub fn wait(&self, ticket: &Ticket, people_ahead: u64, now: UnixMillis) -> Option<Wait> {
        self.segment(ticket.generation)?;
        self.wait_behind(people_ahead, now)
    }

    /// How long somebody will wait who joins now.
    pub fn wait_of_newcomer(&self, now: UnixMillis) -> Option<Wait> {
        let last = self.segments.last()?;
        self.wait_behind(self.people_ahead(last, last.joined + 1), now)
    }

    fn wait_behind(&self, people_ahead: u64, now: UnixMillis) -> Option<Wait> {
        let held = self.standstill.is_some_and(Standstill::is_held);
        let estimator = Estimator {
            settings: &self.settings,
            next_step_at: self.next_step_at,
            pace: &self.pace,
            auction: self.auction.as_deref(),
            forecast: &self.forecast,
            claimed: self.counts.claimed,
            offers: self.offers,
            is_held: held,
        };
        estimator.wait(people_ahead, now)
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
