//! The sales that the documents speak of: 500 slots, visits of five minutes, half of the visitors absent when their turn comes.

use anteroom_core::settings::{Bounded, Seconds};
use anteroom_core::{Discipline, InletKind, Settings};

use super::origin::Origin;
use super::sale::{MINUTE, OriginReports, Scenario};

/// How many visitors the origin has slots for.
pub(crate) const SLOTS: u64 = 500;
/// The most an adaptive room would let in; the origin meets the target with [`SLOTS`].
pub(crate) const CEILING: u64 = 1000;
/// The least it lets in.
pub(crate) const FLOOR: u64 = 20;
/// Before that, the room is still filling, and its speed is not yet the one it will have.
pub(crate) const WARM_UP_MILLIS: u64 = 30 * MINUTE;
/// Joins are judged until then.
pub(crate) const DOORS_CLOSE_MILLIS: u64 = 150 * MINUTE;

/// How a room is run.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) name: &'static str,
    pub(crate) settings: Settings,
    pub(crate) origin_reports: OriginReports,
    /// How many positions it passes in a minute: as many join, so that the line stays as long as it is.
    pub(crate) positions_per_minute: u64,
}

pub(crate) fn max_size(name: &'static str, claim_window_seconds: u64, positions_per_minute: u64) -> Setup {
    let settings = Settings {
        inlet: InletKind::MaxSize,
        total_active_users: Some(SLOTS),
        queue_position_expiry_period: Seconds::new(claim_window_seconds),
        ..Settings::default()
    };
    Setup { name, settings, origin_reports: OriginReports::Names, positions_per_minute }
}

/// Five-second rounds, on the origin's word alone.
pub(crate) fn auction_by_reports() -> Setup {
    let settings = Settings {
        discipline: Discipline::Auction,
        round_seconds: Bounded::new(5).unwrap(),
        ..Settings::default()
    };
    Setup {
        name: "auction, the origin reports free slots",
        settings,
        origin_reports: OriginReports::Slots,
        positions_per_minute: 194,
    }
}

/// Five-second rounds over a capacity that the room keeps.
pub(crate) fn auction_by_capacity() -> Setup {
    let settings = Settings {
        discipline: Discipline::Auction,
        inlet: InletKind::MaxSize,
        total_active_users: Some(SLOTS),
        round_seconds: Bounded::new(5).unwrap(),
        ..Settings::default()
    };
    Setup {
        name: "auction over `max-size`",
        settings,
        origin_reports: OriginReports::Names,
        positions_per_minute: 194,
    }
}

pub(crate) fn adaptive() -> Setup {
    let settings = Settings {
        inlet: InletKind::Adaptive,
        total_active_users: Some(CEILING),
        adaptive_floor: FLOOR,
        ..Settings::default()
    };
    Setup {
        name: "`adaptive`, claim window 120 s",
        settings,
        origin_reports: OriginReports::Health,
        positions_per_minute: 192,
    }
}

/// So many people in steps of so many seconds.
pub(crate) fn stepped(inlet: InletKind, people: u64, seconds: u64) -> Setup {
    let settings = Settings {
        inlet,
        increment_by: Bounded::new(people).unwrap(),
        window_size: (inlet == InletKind::Window).then(|| Bounded::new(people).unwrap()),
        interval_seconds: Seconds::new(seconds).unwrap(),
        ..Settings::default()
    };
    Setup {
        name: "by the clock",
        settings,
        origin_reports: OriginReports::Names,
        positions_per_minute: people * 60 / seconds,
    }
}

impl Setup {
    /// A sale where those who join wait for about so many minutes.
    pub(crate) fn with_a_line_of(&self, minutes: u64, seed: u64) -> Scenario {
        Scenario {
            settings: self.settings.clone(),
            origin: Origin::with_slots(SLOTS),
            origin_reports: self.origin_reports,
            // The first fill the room, and those among them who are absent make way for as many again.
            crowd: 2 * SLOTS + self.positions_per_minute * minutes,
            arrival_spacing_millis: MINUTE / self.positions_per_minute,
            absent_percent: 50,
            warm_up_millis: WARM_UP_MILLIS,
            doors_close_millis: DOORS_CLOSE_MILLIS,
            stops: false,
            changes: Vec::new(),
            seed,
        }
    }
}
