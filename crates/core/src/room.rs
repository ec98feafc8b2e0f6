//! A room as a value: its clock, settings, state and line. What may happen to it is in [`crate::apply`].

use std::collections::{BTreeMap, VecDeque};

use crate::adaptive::Adaptive;
use crate::auction::Auction;
use crate::estimate::Pace;
use crate::events::{self, Announced};
use crate::forecast::Forecast;
use crate::ids::{Generation, MAX_POSITION, UnixMillis};
use crate::inlet::{self, FrontierMove, MovedBy};
use crate::losses::{self, Losses};
use crate::moves::{MOVED_MAX, MovedPlaces};
use crate::prefixes::{self, DEFERRED_MAX, DeferredPlaces, VisitsByPrefix};
use crate::reports::Reports;
use crate::segment::{Counts, Segment};
use crate::session::{DEPARTED_MAX, Departed, Session, SessionStatus};
use crate::settings::{InletKind, Settings};
use crate::shared::Shared;

/// How many generations of tickets a room honours at once.
pub const SEGMENTS_MAX: usize = 4;

/// Whether visitors may join, and whether they are admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RoomState {
    /// Joins and admits.
    #[default]
    Open,
    /// Joins, admits nobody.
    Paused,
    /// Admits, no joins.
    Draining,
    /// Neither; waiting visitors are told.
    Closed,
}

impl RoomState {
    /// Every state, for messages and references.
    pub const ALL: [Self; 4] = [Self::Open, Self::Paused, Self::Draining, Self::Closed];

    /// The name used everywhere.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Paused => "paused",
            Self::Draining => "draining",
            Self::Closed => "closed",
        }
    }

    /// The state of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether new visitors may join.
    pub const fn takes_joins(self) -> bool {
        matches!(self, Self::Open | Self::Paused)
    }

    /// Whether offers are made and claimed. While they are not, claim clocks stand still.
    pub const fn admits(self) -> bool {
        matches!(self, Self::Open | Self::Draining)
    }
}

/// One protected event or site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// The latest moment it has seen. It never goes back, whatever the machine's clock does.
    pub clock: UnixMillis,
    /// What the clock showed before it was set right, if it ever was: tickets from then are still those of this room.
    pub clock_before_setting: UnixMillis,
    /// Raised by every commit that changes anything but the number of joins.
    pub version: u64,
    /// Raised whenever a join would mean something else: another state, another line. Joins that name an older one are refused.
    pub epoch: u64,
    /// What the operator set.
    pub settings: Shared<Settings>,
    /// Whether it joins and admits.
    pub state: RoomState,
    /// Since when it admits nobody; claim clocks stand still from then on.
    pub halted_since: Option<UnixMillis>,
    /// The frontier was moved back by hand over an automatic inlet, which rests until the room is set open again.
    pub inlet_rests: bool,
    /// The line, oldest generation first; never empty.
    pub segments: VecDeque<Segment>,
    /// What happened in generations that are no longer kept.
    pub past: Counts,
    /// Exits reported without a name that no named end has paid off yet.
    pub exit_credits: u64,
    /// Offers made by hand over an automatic inlet: granted by an operator's word, not by the rules.
    pub offers_by_hand: u64,
    /// How fast the frontier has moved.
    pub pace: Shared<Pace>,
    /// How good the estimates were.
    pub forecast: Shared<Forecast>,
    /// When the next step of the timetable is due.
    pub next_step_at: Option<UnixMillis>,
    /// Steps of the timetable that were not taken: they are gone.
    pub steps_missed: u64,
    /// When the windows began that may claim, oldest first.
    pub windows: VecDeque<UnixMillis>,
    /// How many more new users this step of the timetable lets in, where there is a rate.
    pub rate_budget: u64,
    /// Where the adaptive law stands, in an adaptive room.
    pub adaptive: Option<Adaptive>,
    /// What the origin reports.
    pub reports: Shared<Reports>,
    /// The auction, in a room that holds one.
    pub auction: Option<Shared<Auction>>,
    /// What its store lost.
    pub losses: Losses,
    /// Visits that were ended by name a moment ago, oldest first; at most [`DEPARTED_MAX`](crate::session::DEPARTED_MAX).
    pub departed: Shared<VecDeque<Departed>>,
    /// Places that have moved to another device; at most [`MOVED_MAX`].
    pub moved: MovedPlaces,
    /// Visits inside, by the address prefix that they come from.
    pub visits_by_prefix: Shared<VisitsByPrefix>,
    /// Places whose visitors wait because their address prefix has its share; at most [`DEFERRED_MAX`].
    pub deferred: Shared<DeferredPlaces>,
    /// The alarms that fire, as last told.
    pub firing: Vec<String>,
    /// What was last announced of its condition.
    pub announced: Announced,
    /// Who paused or closed the room, or moved its frontier back.
    pub stopped_by: Option<String>,
    /// The last move of the frontier.
    pub last_move: Option<FrontierMove>,
    /// Moves of the frontier so far, by [`MovedBy`].
    pub moves: [u64; MovedBy::ALL.len()],
}

impl Room {
    /// A new room with an empty line, opened at `now`.
    pub fn open(settings: impl Into<Shared<Settings>>, now: UnixMillis, incarnation: u8) -> Self {
        let generation = Generation::following(None, now, incarnation);
        let before = Settings::default();
        let mut room = Self {
            clock: now,
            clock_before_setting: UnixMillis(0),
            version: 0,
            epoch: 0,
            settings: settings.into(),
            state: RoomState::Open,
            halted_since: None,
            inlet_rests: false,
            segments: VecDeque::from([Segment::open(generation, 0)]),
            past: Counts::default(),
            exit_credits: 0,
            offers_by_hand: 0,
            pace: Shared::default(),
            forecast: Shared::default(),
            next_step_at: None,
            steps_missed: 0,
            windows: VecDeque::new(),
            rate_budget: 0,
            adaptive: None,
            reports: Shared::default(),
            auction: None,
            losses: Losses::default(),
            departed: Shared::default(),
            moved: MovedPlaces::default(),
            visits_by_prefix: Shared::default(),
            deferred: Shared::default(),
            firing: Vec::new(),
            announced: Announced::default(),
            stopped_by: None,
            last_move: None,
            moves: [0; MovedBy::ALL.len()],
        };
        inlet::on_reconfigure(&mut room, now, &before);
        room
    }

    /// How many may be inside now, for an inlet with a capacity.
    pub fn capacity(&self) -> Option<u64> {
        match (self.settings.inlet, &self.adaptive) {
            (InletKind::Adaptive, Some(adaptive)) => Some(adaptive.capacity),
            _ => self.settings.capacity(),
        }
    }

    /// Until when a pass issued now may be used for the first time: limited where slots are given away on the origin's word.
    pub(crate) fn enter_by_seconds(&self, now: UnixMillis) -> Option<u64> {
        let limited = self.settings.is_auction() || self.reports.free(&self.settings, now).is_some();
        limited.then(|| now.seconds() + self.settings.enter_by_seconds.get())
    }

    /// Those of its alarms that fire.
    pub fn firing_alarms(&self) -> impl Iterator<Item = &str> {
        let names = self.settings.alarms.as_slice().iter();
        names.filter(|name| self.firing.contains(name)).map(String::as_str)
    }

    /// Whether these are its settings and its state.
    pub fn is_configured(&self, settings: &Settings, state: RoomState) -> bool {
        *self.settings == *settings && self.state == state
    }

    /// The generation that joins go to.
    pub fn newest(&self) -> &Segment {
        self.segments.back().expect("a room always has a segment")
    }

    pub(crate) fn newest_mut(&mut self) -> &mut Segment {
        self.segments.back_mut().expect("a room always has a segment")
    }

    /// How many more people the newest generation can take.
    pub fn places_left(&self) -> u64 {
        MAX_POSITION - self.newest().joined
    }

    /// All counts, of kept and of forgotten generations.
    pub fn counts(&self) -> Counts {
        let mut counts = self.past;
        for segment in &self.segments {
            counts.add(&segment.counts);
        }
        counts
    }

    /// Visitors inside: sessions begun and not ended, less the exits reported without a name, and those whose sessions were lost.
    pub fn active(&self) -> u64 {
        self.counts().live_sessions() - self.exit_credits + self.losses.phantoms
    }

    /// Whether these records of sessions are newer than this room: it does not count the claim of one of them yet, or its end by
    /// time. Where several nodes write, a record can be read after the room that it belongs to.
    pub fn is_behind<'a>(&self, sessions: impl IntoIterator<Item = &'a Session>) -> bool {
        let mut expired: BTreeMap<Generation, u64> = BTreeMap::new();
        for session in sessions {
            let generation = session.key.generation;
            let Some(segment) = self.segments.iter().find(|segment| segment.generation == generation) else {
                // Of a line that was closed, or is not open yet.
                if generation > self.newest().generation {
                    return true;
                }
                continue;
            };
            let position = session.key.position.get();
            if position > segment.floor && !segment.taken.contains(position) {
                return true;
            }
            let seen = expired.entry(generation).or_default();
            *seen += u64::from(session.status == SessionStatus::Expired);
            if *seen > segment.counts.expired {
                return true;
            }
        }
        false
    }

    /// Unclaimed offers.
    pub fn offers(&self) -> u64 {
        let wins = self.auction.as_ref().map_or(0, |auction| auction.wins.len() as u64);
        self.segments.iter().map(Segment::offers).sum::<u64>() + wins + prefixes::offers(self)
    }

    /// What counts against the capacity.
    pub fn held(&self) -> u64 {
        self.active() + self.offers()
    }

    /// People who neither claimed, nor left, nor let their offer lapse.
    pub fn waiting(&self) -> u64 {
        self.segments.iter().map(Segment::waiting).sum()
    }

    /// The frontier as one number: that of the newest generation it has reached.
    pub fn serving(&self) -> u64 {
        let shown = |segment: &Segment| segment.serving.max(segment.won);
        let reached = self.segments.iter().rev().find(|segment| shown(segment) > segment.base);
        shown(reached.or(self.segments.front()).expect("a room always has a segment"))
    }

    /// When the rules next have something to do without being asked, ends of sessions aside.
    pub fn next_due(&self) -> Option<UnixMillis> {
        let settings = &self.settings;
        let [start, end] =
            [settings.start_time, settings.end_time].map(|seconds| UnixMillis(seconds.saturating_mul(1000)));
        let wins = self.auction.as_ref().filter(|auction| !auction.wins.is_empty());
        let admitting = [
            self.next_lapse(),
            self.next_step_at,
            self.adaptive.map(|adaptive| adaptive.next_at(settings)),
            Some(start).filter(|&start| start > self.clock),
            // Nothing happens then, but from then on the board must say so.
            Some(end).filter(|&end| end > self.clock),
        ];
        let admitting = admitting.into_iter().flatten().filter(|_| self.halted_since.is_none());
        // Wins end with their round and reporters fall silent, whether the room admits or not.
        let wins_end = wins.map(|auction| auction.round.plus(settings.round_millis()));
        let collected = self.auction.as_deref().and_then(Auction::settles_at);
        let reports = self.reports.next_silence(settings, self.clock);
        let losses = losses::next_due(&self.losses);
        let announced = [events::next_due(self), events::next_metrics_due(self)].into_iter().flatten();
        admitting.chain(wins_end).chain(collected).chain(reports).chain(losses).chain(announced).min()
    }

    fn next_lapse(&self) -> Option<UnixMillis> {
        let window = self.settings.claim_window_millis()?;
        let oldest = self.segments.iter().filter_map(|segment| segment.steps.front()).map(|step| step.at);
        let deferred = self.deferred.values().filter_map(|place| place.offered_at);
        oldest.chain(deferred).map(|at| at.plus(window)).min()
    }

    pub(crate) fn segment_mut(&mut self, generation: Generation) -> Option<&mut Segment> {
        self.segments.iter_mut().find(|segment| segment.generation == generation)
    }

    /// What must hold of any room at any time; called after every operation, in release builds too.
    pub fn assert_sound(&self) {
        assert!(!self.segments.is_empty() && self.segments.len() <= SEGMENTS_MAX, "segments are bounded");
        for segment in &self.segments {
            assert!(
                segment.base <= segment.floor && segment.floor <= segment.joined,
                "floor within the line"
            );
            assert!(segment.joined <= MAX_POSITION, "positions are bounded");
            let settled = segment.counts.claimed + segment.counts.lapsed + segment.counts.left;
            assert!(settled <= segment.joined - segment.base, "waiting is never negative");
        }
        assert!(self.departed.len() <= DEPARTED_MAX, "ended visits are shown up to a limit");
        assert!(self.deferred.len() <= DEFERRED_MAX, "deferred places are bounded");
        assert!(self.moved.len() <= MOVED_MAX, "places that moved are remembered up to a limit");
        assert!(self.exit_credits <= self.counts().live_sessions(), "nobody leaves who was not there");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Board, Operation, Reads, Standstill, apply};

    #[test]
    fn a_reset_takes_reports_and_the_adaptive_law_out_of_a_future_that_the_clock_once_saw() {
        let now = UnixMillis(1_800_000_000_000);
        let settings =
            Settings { inlet: InletKind::Adaptive, total_active_users: Some(5), ..Settings::default() };
        let report = crate::Report { reporter: "web".into(), free: Some(5), ..crate::Report::default() };
        let future = now.plus(86_400_000);
        let room = Room::open(settings, now, 1);
        let room = apply(room, future, &Operation::Report(report), Reads::default()).room;
        let room = apply(room, now, &Operation::Reset { incarnation: 2 }, Reads::default()).room;
        assert_eq!((room.clock, room.reports.reporters[0].heard_at), (now, now));
        assert!(room.adaptive.unwrap().adjusted_at <= now);
        let silent_at = room.next_due().unwrap();
        assert!(silent_at <= now.plus(30_001), "the reporter falls silent like any other: {silent_at:?}");
    }

    #[test]
    fn the_end_of_its_time_is_due_although_nothing_happens_then() {
        let now = UnixMillis(1_800_000_000_000);
        let settings = Settings {
            inlet: InletKind::MaxSize,
            total_active_users: Some(0),
            end_time: now.seconds() + 5,
            ..Settings::default()
        };
        let room = Room::open(settings, now, 1);
        let room = apply(room, now, &Operation::Join { count: 1 }, Reads::default()).room;
        assert_eq!(Board::of(&room).standstill, Some(Standstill::AtCapacity));
        assert_eq!(room.next_due(), Some(now.plus(5_000)));
        let room = apply(room, now.plus(5_000), &Operation::Tick, Reads::default()).room;
        assert_eq!((Board::of(&room).standstill, room.next_due()), (Some(Standstill::AfterEnd), None));
    }
}
