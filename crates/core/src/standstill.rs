//! Why the frontier stands still: the one answer that the board, the rules and the metrics share.

use crate::ids::UnixMillis;
use crate::room::Room;
use crate::settings::InletKind;

/// Why nobody is let in by itself at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standstill {
    /// The operator paused the room, or closed it.
    Paused,
    /// The operator has everybody wait.
    QueueAll,
    /// The frontier was moved back by hand; the inlet rests until the room is set open.
    MovedBack,
    /// The store was lost, and those who stood in front may not have shown their tickets yet.
    Recovering,
    /// One of the room's alarms fires.
    Alarm,
    /// Its time has not come.
    BeforeStart,
    /// Its time is over.
    AfterEnd,
    /// Only the operator moves it.
    ByHandOnly,
    /// The line is empty.
    NobodyWaiting,
    /// Nobody reports free slots.
    NoReport,
    /// The origin reports that no slot is free, or that those free are taken by passes in flight.
    NoneFree,
    /// As many are inside, or have an offer, as the capacity allows.
    AtCapacity,
    /// This minute's new users have been let in.
    RateSpent,
}

impl Standstill {
    /// Every one, for references and metrics.
    pub const ALL: [Self; 13] = [
        Self::Paused,
        Self::QueueAll,
        Self::MovedBack,
        Self::Recovering,
        Self::Alarm,
        Self::BeforeStart,
        Self::AfterEnd,
        Self::ByHandOnly,
        Self::NobodyWaiting,
        Self::NoReport,
        Self::NoneFree,
        Self::AtCapacity,
        Self::RateSpent,
    ];

    /// Whether nobody is let in until an operator or a clock acts, however many slots are free; nobody knows how long that takes.
    pub const fn is_held(self) -> bool {
        match self {
            Self::Paused
            | Self::QueueAll
            | Self::MovedBack
            | Self::Recovering
            | Self::Alarm
            | Self::AfterEnd => true,
            Self::BeforeStart
            | Self::ByHandOnly
            | Self::NobodyWaiting
            | Self::NoReport
            | Self::NoneFree
            | Self::AtCapacity
            | Self::RateSpent => false,
        }
    }

    /// The word used everywhere.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::QueueAll => "queue-all",
            Self::MovedBack => "moved-back",
            Self::Recovering => "recovering",
            Self::Alarm => "alarm",
            Self::BeforeStart => "before-start",
            Self::AfterEnd => "after-end",
            Self::ByHandOnly => "by-hand-only",
            Self::NobodyWaiting => "nobody-waiting",
            Self::NoReport => "no-report",
            Self::NoneFree => "none-free",
            Self::AtCapacity => "at-capacity",
            Self::RateSpent => "rate-spent",
        }
    }

    /// What holds an automatic inlet, whatever it would do.
    pub(crate) fn held(room: &Room, at: UnixMillis) -> Option<Self> {
        let settings = &room.settings;
        if !room.state.admits() {
            Some(Self::Paused)
        } else if settings.queue_all {
            Some(Self::QueueAll)
        } else if room.inlet_rests {
            Some(Self::MovedBack)
        } else if at < room.losses.learning_until {
            Some(Self::Recovering)
        } else if room.firing_alarms().next().is_some() {
            Some(Self::Alarm)
        } else if at.seconds() < settings.start_time {
            Some(Self::BeforeStart)
        } else if settings.end_time != 0 && at.seconds() >= settings.end_time {
            Some(Self::AfterEnd)
        } else {
            None
        }
    }

    /// Why the frontier of `room` stands still at `now`; `None` if it moves, or will at the next step or round.
    pub fn of(room: &Room, now: UnixMillis) -> Option<Self> {
        let settings = &room.settings;
        if !room.state.admits() {
            return Some(Self::Paused);
        }
        if settings.queue_all {
            return Some(Self::QueueAll);
        }
        if settings.inlet == InletKind::Manual && !settings.is_auction() {
            return Some(Self::ByHandOnly);
        }
        if let Some(held) = Self::held(room, now) {
            return Some(held);
        }
        if room.waiting() == room.offers() {
            return Some(Self::NobodyWaiting);
        }
        if !settings.inlet.is_capped() && !settings.is_auction() {
            return None;
        }
        match room.reports.free(settings, now) {
            None if room.capacity().is_none() => return Some(Self::NoReport),
            Some(_) if !room.reports.has_live_reporter(settings, now) => return Some(Self::NoReport),
            Some(free) if free <= room.offers() => return Some(Self::NoneFree),
            _ => {}
        }
        if room.capacity().is_some_and(|capacity| room.held() >= capacity) {
            return Some(Self::AtCapacity);
        }
        (settings.new_users_per_minute.is_some() && room.rate_budget == 0).then_some(Self::RateSpent)
    }
}
