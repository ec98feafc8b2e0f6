//! What happens in a room and around it, as others are told of it.
//!
//! Events of a room are written with the change that they tell of. There are two classes: those of the *room*, which are few and
//! are always kept, and those of *visitors*, which come as often as visitors do and are kept only where somebody asked for them.

use std::fmt;

use crate::ids::{Generation, RequestId, UnixMillis};
use crate::room::{Room, RoomState};
use crate::session::{Outcome, SessionKey};
use crate::settings::VisitorEvents;
use crate::standstill::Standstill;

mod announcements;

pub use self::announcements::{Announced, CHANGE_PAUSE_MILLIS, Condition, METRICS_PERIOD_MILLIS};
pub(crate) use self::announcements::{next_due, next_metrics_due, tick};

/// How often a kind of event comes, and so how long and whether it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventClass {
    /// As often as rooms and the server change: always kept.
    Room,
    /// As often as visitors come and go, or once a minute for each room: kept where a destination, or a setting of the room, asks for it.
    Visitor,
}

impl EventClass {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Room, Self::Visitor];

    /// The word for it in metrics and documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Room => "room",
            Self::Visitor => "visitor",
        }
    }
}

macro_rules! kinds {
    ($( $(#[doc = $meaning:literal])+ $name:ident = $text:literal, $class:ident; )+) => {
        /// The kinds of events. The text of each is its CloudEvents `type`; those of Virtual Waiting Room on AWS have its names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventKind { $( $(#[doc = $meaning])+ $name, )+ }

        impl EventKind {
            /// Every kind, in the order of the reference.
            pub const ALL: &[Self] = &[ $( Self::$name, )+ ];

            /// Its name everywhere.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$name => $text, )+ }
            }

            /// How often it comes.
            pub const fn class(self) -> EventClass {
                match self { $( Self::$name => EventClass::$class, )+ }
            }

            /// What it tells, for the reference.
            pub const fn meaning(self) -> &'static str {
                match self { $( Self::$name => concat!($($meaning),+), )+ }
            }
        }
    };
}

kinds! {
    /// A ticket was claimed for the first time, and its pass was issued.
    TokenGenerated = "token_generated", Visitor;
    /// A visit was ended by name: completed or abandoned.
    SessionUpdated = "session_updated", Visitor;
    /// Offers lapsed, and the serving counter moved on by as many positions.
    AutomaticServingCounterIncrease = "automatic_serving_counter_incr", Visitor;
    /// The figures of a room, once a minute where `enable_events_generation` is set.
    WaitingRoomMetrics = "waiting_room_metrics", Visitor;
    /// A room was made.
    RoomCreated = "room.created", Room;
    /// A room was set open: visitors join and are admitted.
    RoomOpened = "room.opened", Room;
    /// A room was paused: visitors join, nobody is admitted.
    RoomPaused = "room.paused", Room;
    /// A room was set draining: visitors are admitted, nobody joins.
    RoomDraining = "room.draining", Room;
    /// A room was closed: nobody joins, nobody is admitted.
    RoomClosed = "room.closed", Room;
    /// A room was reset: its line is over, and every ticket so far is unknown.
    RoomReset = "room.reset", Room;
    /// A room was deleted.
    RoomDeleted = "room.deleted", Room;
    /// Settings of a room were changed.
    RoomSettingsChanged = "room.settings_changed", Room;
    /// Something holds an automatic inlet: nobody is let in until it ends.
    InletHeld = "inlet.held", Room;
    /// Nothing holds the inlet any more.
    InletReleased = "inlet.released", Room;
    /// As many are inside, or have an offer, as the capacity allows.
    CapacityReached = "capacity.reached", Room;
    /// There are free slots again.
    CapacityFree = "capacity.free", Room;
    /// Nobody waits any more.
    LineEmpty = "line.empty", Room;
    /// The room made up for what its store had lost, and goes on with a new line.
    LineMended = "line.mended", Room;
    /// Offers were not claimed in time; one event for each stretch of offers that were made together.
    OffersLapsed = "offers.lapsed", Visitor;
    /// A visit began.
    SessionBegun = "session.begun", Visitor;
    /// A visit ended.
    SessionEnded = "session.ended", Visitor;
    /// An alarm began to fire.
    AlarmFired = "alarm.fired", Room;
    /// An alarm is OK again.
    AlarmResolved = "alarm.resolved", Room;
    /// An API key was made.
    KeyCreated = "key.created", Room;
    /// An API key was revoked.
    KeyRevoked = "key.revoked", Room;
    /// The store could not be reached. Written when it could be again, because there was nowhere to write it.
    StoreLost = "store.lost", Room;
    /// The store can be reached again.
    StoreRecovered = "store.recovered", Room;
    /// A destination is behind by so much that events may be dropped before it has them.
    DestinationLagging = "destination.lagging", Room;
    /// A destination was disabled because its receiver wants no more events.
    DestinationDisabled = "destination.disabled", Room;
    /// A destination is being tried. Sent to it alone, and kept nowhere.
    DestinationTest = "destination.test", Room;
}

impl EventKind {
    /// The kind of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text)
    }

    /// Whether it is one of the four of Virtual Waiting Room on AWS, whose names and details are fixed.
    pub const fn is_of_aws(self) -> bool {
        matches!(
            self,
            Self::TokenGenerated
                | Self::SessionUpdated
                | Self::AutomaticServingCounterIncrease
                | Self::WaitingRoomMetrics
        )
    }

    /// Whether it tells of an alarm.
    pub const fn is_alarm(self) -> bool {
        matches!(self, Self::AlarmFired | Self::AlarmResolved)
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A set of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventKinds(u64);

impl EventKinds {
    /// No kind.
    pub const NONE: Self = Self(0);

    /// Every kind.
    pub fn all() -> Self {
        EventKind::ALL.iter().copied().collect()
    }

    /// Whether it has that kind.
    pub const fn contains(self, kind: EventKind) -> bool {
        self.0 & (1 << kind as u64) != 0
    }

    /// Those of either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The kinds in it, in the order of the reference.
    pub fn iter(self) -> impl Iterator<Item = EventKind> {
        EventKind::ALL.iter().copied().filter(move |&kind| self.contains(kind))
    }
}

impl FromIterator<EventKind> for EventKinds {
    fn from_iter<Kinds: IntoIterator<Item = EventKind>>(kinds: Kinds) -> Self {
        Self(kinds.into_iter().fold(0, |set, kind| set | 1 << kind as u64))
    }
}

/// How a visit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndCause {
    /// By name.
    Ended(Outcome),
    /// Its time was over.
    Expired,
}

impl EndCause {
    /// The word used in events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ended(outcome) => outcome.as_str(),
            Self::Expired => "expired",
        }
    }
}

/// The figures that Virtual Waiting Room on AWS tells every minute, under its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomFigures {
    /// Visitors inside.
    pub num_active_tokens: u64,
    /// Passes issued so far.
    pub total_num_tokens: u64,
    /// Positions handed out so far.
    pub queue_counter: u64,
    /// The serving counter.
    pub serving_number: u64,
    /// Visits completed.
    pub completed_sessions: u64,
    /// Visits abandoned.
    pub abandoned_sessions: u64,
}

impl RoomFigures {
    /// Those of a room as it is.
    pub fn of(room: &Room) -> Self {
        let counts = room.counts();
        Self {
            num_active_tokens: room.active(),
            total_num_tokens: counts.claimed,
            queue_counter: room.newest().joined,
            serving_number: room.serving(),
            completed_sessions: counts.completed,
            abandoned_sessions: counts.abandoned,
        }
    }
}

/// Something that happened in a room, or around all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// See [`EventKind::TokenGenerated`].
    TokenGenerated {
        /// Whose.
        request_id: RequestId,
        /// The visit that began.
        visit: SessionKey,
    },
    /// See [`EventKind::SessionUpdated`].
    SessionUpdated {
        /// Whose.
        request_id: RequestId,
        /// The visit that ended.
        visit: SessionKey,
        /// How.
        outcome: Outcome,
    },
    /// See [`EventKind::AutomaticServingCounterIncrease`].
    AutomaticServingCounterIncrease {
        /// Frontier before.
        previous: u64,
        /// Frontier after.
        current: u64,
    },
    /// See [`EventKind::WaitingRoomMetrics`].
    WaitingRoomMetrics(RoomFigures),
    /// See [`EventKind::RoomCreated`].
    RoomCreated,
    /// The room has another state; see [`EventKind::RoomOpened`] and the others.
    StateChanged {
        /// The state now.
        state: RoomState,
        /// Who changed it, where that is known.
        by: Option<String>,
    },
    /// See [`EventKind::RoomReset`].
    RoomReset {
        /// The line that is over.
        before: Generation,
        /// The line that begins.
        generation: Generation,
        /// How many waited.
        waiting: u64,
        /// How many were inside.
        active: u64,
        /// Who did it, where that is known.
        by: Option<String>,
    },
    /// See [`EventKind::RoomDeleted`].
    RoomDeleted {
        /// Who did it.
        by: String,
    },
    /// See [`EventKind::RoomSettingsChanged`].
    SettingsChanged {
        /// The names of the settings that differ; what they are now is for the API to say.
        names: Vec<String>,
        /// Who changed them, where that is known.
        by: Option<String>,
    },
    /// See [`EventKind::InletHeld`].
    InletHeld {
        /// What holds it.
        reason: Standstill,
    },
    /// See [`EventKind::InletReleased`].
    InletReleased {
        /// What held it.
        reason: Standstill,
    },
    /// See [`EventKind::CapacityReached`].
    CapacityReached {
        /// The capacity.
        capacity: u64,
        /// How many are inside or have an offer.
        held: u64,
        /// How many wait.
        waiting: u64,
    },
    /// See [`EventKind::CapacityFree`].
    CapacityFree {
        /// The capacity.
        capacity: u64,
        /// How many are inside or have an offer.
        held: u64,
    },
    /// See [`EventKind::LineEmpty`].
    LineEmpty {
        /// How many have joined so far.
        joined: u64,
    },
    /// See [`EventKind::LineMended`].
    LineMended {
        /// The line that begins.
        generation: Generation,
        /// Whether the store had lost the records of visits, too.
        sessions_lost: bool,
    },
    /// See [`EventKind::OffersLapsed`].
    OffersLapsed {
        /// The line.
        generation: Generation,
        /// The last position of the stretch.
        up_to: u64,
        /// How many were not claimed.
        count: u64,
    },
    /// See [`EventKind::SessionBegun`].
    SessionBegun {
        /// Which visit.
        visit: SessionKey,
    },
    /// See [`EventKind::SessionEnded`].
    SessionEnded {
        /// Which visit.
        visit: SessionKey,
        /// How.
        cause: EndCause,
    },
    /// See [`EventKind::AlarmFired`] and [`EventKind::AlarmResolved`].
    AlarmChanged {
        /// Its name.
        name: String,
        /// Whether it fires now.
        fires: bool,
        /// What whoever reported it says of it.
        summary: String,
    },
    /// See [`EventKind::KeyCreated`] and [`EventKind::KeyRevoked`].
    KeyChanged {
        /// Its name.
        name: String,
        /// What it may do.
        role: String,
        /// Whether it was revoked.
        revoked: bool,
        /// Who did it.
        by: String,
    },
    /// See [`EventKind::StoreLost`].
    StoreLost {
        /// The node that could not reach it.
        node: u128,
    },
    /// See [`EventKind::StoreRecovered`].
    StoreRecovered {
        /// The node that could not reach it.
        node: u128,
        /// Since when.
        lost_at: UnixMillis,
    },
    /// See [`EventKind::DestinationLagging`].
    DestinationLagging {
        /// Its name.
        name: String,
        /// How many events it is behind at most.
        behind: u64,
    },
    /// See [`EventKind::DestinationDisabled`].
    DestinationDisabled {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// See [`EventKind::DestinationTest`].
    DestinationTest {
        /// Its name.
        name: String,
    },
}

impl Event {
    /// Its kind.
    pub const fn kind(&self) -> EventKind {
        match self {
            Self::TokenGenerated { .. } => EventKind::TokenGenerated,
            Self::SessionUpdated { .. } => EventKind::SessionUpdated,
            Self::AutomaticServingCounterIncrease { .. } => EventKind::AutomaticServingCounterIncrease,
            Self::WaitingRoomMetrics(_) => EventKind::WaitingRoomMetrics,
            Self::RoomCreated => EventKind::RoomCreated,
            Self::StateChanged { state: RoomState::Open, .. } => EventKind::RoomOpened,
            Self::StateChanged { state: RoomState::Paused, .. } => EventKind::RoomPaused,
            Self::StateChanged { state: RoomState::Draining, .. } => EventKind::RoomDraining,
            Self::StateChanged { state: RoomState::Closed, .. } => EventKind::RoomClosed,
            Self::RoomReset { .. } => EventKind::RoomReset,
            Self::RoomDeleted { .. } => EventKind::RoomDeleted,
            Self::SettingsChanged { .. } => EventKind::RoomSettingsChanged,
            Self::InletHeld { .. } => EventKind::InletHeld,
            Self::InletReleased { .. } => EventKind::InletReleased,
            Self::CapacityReached { .. } => EventKind::CapacityReached,
            Self::CapacityFree { .. } => EventKind::CapacityFree,
            Self::LineEmpty { .. } => EventKind::LineEmpty,
            Self::LineMended { .. } => EventKind::LineMended,
            Self::OffersLapsed { .. } => EventKind::OffersLapsed,
            Self::SessionBegun { .. } => EventKind::SessionBegun,
            Self::SessionEnded { .. } => EventKind::SessionEnded,
            Self::AlarmChanged { fires: true, .. } => EventKind::AlarmFired,
            Self::AlarmChanged { fires: false, .. } => EventKind::AlarmResolved,
            Self::KeyChanged { revoked: false, .. } => EventKind::KeyCreated,
            Self::KeyChanged { revoked: true, .. } => EventKind::KeyRevoked,
            Self::StoreLost { .. } => EventKind::StoreLost,
            Self::StoreRecovered { .. } => EventKind::StoreRecovered,
            Self::DestinationLagging { .. } => EventKind::DestinationLagging,
            Self::DestinationDisabled { .. } => EventKind::DestinationDisabled,
            Self::DestinationTest { .. } => EventKind::DestinationTest,
        }
    }

    /// The visit that it tells of.
    pub const fn visit(&self) -> Option<SessionKey> {
        match self {
            Self::TokenGenerated { visit, .. }
            | Self::SessionUpdated { visit, .. }
            | Self::SessionBegun { visit }
            | Self::SessionEnded { visit, .. } => Some(*visit),
            _ => None,
        }
    }

    /// Whether it is to be kept, where destinations ask for `wanted`.
    pub fn is_kept(&self, setting: VisitorEvents, wanted: EventKinds) -> bool {
        match (self.kind().class(), setting) {
            // Figures are told only where the room's own setting asks for them.
            _ if self.kind() == EventKind::WaitingRoomMetrics => true,
            (EventClass::Room, _) | (EventClass::Visitor, VisitorEvents::Always) => true,
            (EventClass::Visitor, VisitorEvents::Never) => false,
            (EventClass::Visitor, VisitorEvents::Auto) => wanted.contains(self.kind()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_by_its_name_and_names_are_unique() {
        for &kind in EventKind::ALL {
            assert_eq!(EventKind::parse(kind.as_str()), Some(kind));
            assert!(!kind.meaning().is_empty());
        }
        assert_eq!(EventKind::parse("room"), None);
        assert!(EventKind::ALL.len() <= 64, "a set of kinds is 64 bits");
    }

    #[test]
    fn a_set_has_what_was_put_into_it() {
        let set: EventKinds =
            [EventKind::TokenGenerated, EventKind::DestinationDisabled].into_iter().collect();
        assert!(set.contains(EventKind::TokenGenerated) && set.contains(EventKind::DestinationDisabled));
        assert!(
            !set.contains(EventKind::RoomOpened) && !EventKinds::NONE.contains(EventKind::TokenGenerated)
        );
        assert_eq!(set.union(EventKinds::all()), EventKinds::all());
        assert_eq!(set.iter().count(), 2);
    }

    #[test]
    fn events_of_visitors_are_kept_where_they_are_asked_for_and_those_of_rooms_always() {
        let visit = SessionKey {
            generation: Generation { opened: 1, incarnation: 1 },
            position: crate::Position::new(1).expect("positions begin at 1"),
        };
        let (of_visitor, of_room) = (Event::SessionBegun { visit }, Event::RoomCreated);
        let wanted: EventKinds = [EventKind::SessionBegun].into_iter().collect();
        for (setting, asked, kept) in [
            (VisitorEvents::Auto, EventKinds::NONE, false),
            (VisitorEvents::Auto, wanted, true),
            (VisitorEvents::Always, EventKinds::NONE, true),
            (VisitorEvents::Never, wanted, false),
        ] {
            assert_eq!(of_visitor.is_kept(setting, asked), kept);
            assert!(of_room.is_kept(setting, asked));
        }
    }
}
