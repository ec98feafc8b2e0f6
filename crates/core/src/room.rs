//! A room as a value: its clock, settings, state and line. What may happen to it is in [`crate::apply`].

use std::collections::VecDeque;

use crate::estimate::Pace;
use crate::ids::{Generation, MAX_POSITION, UnixMillis};
use crate::segment::{Counts, Segment};
use crate::settings::Settings;

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
    /// Raised by every commit that changes anything but the number of joins.
    pub version: u64,
    /// Raised whenever a join would mean something else: another state, another line. Joins that name an older one are refused.
    pub epoch: u64,
    /// What the operator set.
    pub settings: Settings,
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
    /// How fast offers have been made.
    pub pace: Pace,
}

impl Room {
    /// A new room with an empty line, opened at `now`.
    pub fn open(settings: Settings, now: UnixMillis, incarnation: u8) -> Self {
        let generation = Generation::following(None, now, incarnation);
        Self {
            clock: now,
            version: 0,
            epoch: 0,
            settings,
            state: RoomState::Open,
            halted_since: None,
            inlet_rests: false,
            segments: VecDeque::from([Segment::open(generation, 0)]),
            past: Counts::default(),
            exit_credits: 0,
            offers_by_hand: 0,
            pace: Pace::default(),
        }
    }

    /// Whether these are its settings and its state.
    pub fn is_configured(&self, settings: &Settings, state: RoomState) -> bool {
        self.settings == *settings && self.state == state
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

    /// Visitors inside: sessions begun and not ended, less the exits reported without a name.
    pub fn active(&self) -> u64 {
        self.counts().live_sessions() - self.exit_credits
    }

    /// Unclaimed offers.
    pub fn offers(&self) -> u64 {
        self.segments.iter().map(Segment::offers).sum()
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
        let reached = self.segments.iter().rev().find(|segment| segment.serving > segment.base);
        reached.or(self.segments.front()).expect("a room always has a segment").serving
    }

    /// When the rules next have something to do without being asked, ends of sessions aside.
    pub fn next_due(&self) -> Option<UnixMillis> {
        let window = self.settings.claim_window_millis().filter(|_| self.halted_since.is_none())?;
        self.segments
            .iter()
            .filter_map(|segment| segment.steps.front())
            .map(|step| step.at.plus(window))
            .min()
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
        assert!(self.exit_credits <= self.counts().live_sessions(), "nobody leaves who was not there");
    }
}
