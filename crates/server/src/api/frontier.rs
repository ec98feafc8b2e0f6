//! What moves a room's frontier, as it is presented: to operators everything, to visitors what concerns them.
//!
//! *Boundary:* names of keys, of alarms and of reporters, and what the protected site says about itself, are for operators only.

use std::collections::BTreeMap;

use anteroom_core::{
    Adaptive, Adjustment, Auction, Board, Forecast, FrontierMove, MovedBy, Standstill, UnixMillis,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::capacity;
use crate::http::timestamp::rfc3339;
use crate::openapi::schemas::{AdjustmentName, Moment, MovedByName, StandstillName};

/// When the frontier moves next by the clock, where the clock alone decides. A timetable that is held, or has nobody to move for,
/// goes on without anything happening: its next step says nothing.
pub(crate) fn next_move_at(board: &Board) -> Option<UnixMillis> {
    match board.standstill {
        None | Some(Standstill::RateSpent) => board.next_step_at,
        Some(Standstill::BeforeStart) => Some(UnixMillis(board.settings.start_time.saturating_mul(1000))),
        Some(_) => None,
    }
}

/// A move of the frontier, for everybody.
#[derive(Debug, Serialize, ToSchema, Hash)]
#[schema(as = BoardMove)]
pub(crate) struct PublicMove {
    /// Who moved it.
    #[schema(value_type = MovedByName)]
    pub(crate) by: &'static str,
    /// When.
    #[schema(value_type = Moment)]
    pub(crate) at: String,
}

impl PublicMove {
    pub(crate) fn of(moved: &FrontierMove) -> Self {
        Self { by: moved.by.as_str(), at: rfc3339(moved.at) }
    }
}

/// The open round of an auction, for everybody.
#[derive(Debug, Serialize, ToSchema, Hash)]
#[schema(as = BoardRound)]
pub(crate) struct PublicRound {
    /// When it closes.
    #[schema(value_type = Moment)]
    pub(crate) closes_at: String,
    /// How many slots it gives away.
    pub(crate) free: u64,
}

impl PublicRound {
    pub(crate) fn of(board: &Board) -> Option<Self> {
        let auction = board.auction.as_deref().filter(|_| board.standstill.is_none())?;
        Some(Self { closes_at: rfc3339(auction.round), free: auction.free })
    }
}

/// What moves a room's frontier, for operators.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Frontier)]
pub(crate) struct FrontierView {
    /// How many may be inside now, where the inlet has a capacity; null where it has none.
    #[schema(required)]
    pub(crate) capacity: Option<u64>,
    /// How many more new users this step lets in, where `new_users_per_minute` is set; else null.
    #[schema(required)]
    pub(crate) rate_budget: Option<u64>,
    /// The last move of the frontier; null if it has not moved in this line.
    #[schema(required)]
    pub(crate) last_move: Option<MoveView>,
    /// How often the frontier was moved, by whom.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub(crate) moves: BTreeMap<&'static str, u64>,
    /// Steps of the timetable that were due and not taken. They are gone, not saved up.
    pub(crate) steps_missed: u64,
    /// When the next step of the timetable is due, or the round closes; null if there is no timetable.
    #[schema(value_type = Option<Moment>, required)]
    pub(crate) next_step_at: Option<String>,
    /// Why the frontier stands still; null if it moves, or will at the next step or round.
    #[schema(value_type = Option<StandstillName>, required)]
    pub(crate) standstill: Option<&'static str>,
    /// Who paused or closed the room, or moved its frontier back: the name of a key, or the server itself.
    #[schema(required)]
    pub(crate) stopped_by: Option<String>,
    /// Since when.
    #[schema(value_type = Option<Moment>, required)]
    pub(crate) stopped_since: Option<String>,
    /// Those of the room's alarms that fire.
    pub(crate) firing: Vec<String>,
    /// Where the adaptive law stands, in an adaptive room; else null.
    #[schema(required)]
    pub(crate) adaptive: Option<AdaptiveView>,
    /// What the site reports; more is at `/rooms/{id}/capacity`.
    pub(crate) reports: ReportsView,
    /// The auction, in a room that holds one; else null.
    #[schema(required)]
    pub(crate) auction: Option<AuctionView>,
    /// How good the estimates of the wait were.
    pub(crate) estimates: EstimatesView,
}

/// A move of the frontier.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RoomMove)]
pub(crate) struct MoveView {
    /// Who moved it.
    #[schema(value_type = MovedByName)]
    pub(crate) by: &'static str,
    /// When.
    #[schema(value_type = Moment)]
    pub(crate) at: String,
    /// The serving counter before.
    pub(crate) from: u64,
    /// And after.
    pub(crate) to: u64,
}

/// Where the adaptive law stands.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RoomAdaptive)]
pub(crate) struct AdaptiveView {
    /// How many may be inside now.
    pub(crate) capacity: u64,
    /// When that was last looked at.
    #[schema(value_type = Moment)]
    pub(crate) adjusted_at: String,
    /// What came of it.
    #[schema(value_type = AdjustmentName)]
    pub(crate) adjustment: &'static str,
}

/// What the site reports, in short.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RoomReports)]
pub(crate) struct ReportsView {
    /// Reporters that are heard.
    pub(crate) heard: u64,
    /// Reporters that have been silent for too long, and count as having nothing free.
    pub(crate) silent: u64,
    /// The sum of what those that are heard say is free; null if nobody has ever reported it.
    #[schema(required)]
    pub(crate) free_reported: Option<u64>,
    /// Passes that the site may not have seen yet when it counted.
    pub(crate) passes_in_flight: u64,
    /// What is left to give away; null if nobody has ever reported.
    #[schema(required)]
    pub(crate) free: Option<u64>,
}

/// The auction of a room.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RoomAuction)]
pub(crate) struct AuctionView {
    /// When the open round closes.
    #[schema(value_type = Moment)]
    pub(crate) closes_at: String,
    /// How many slots it gives away, as of its beginning, less those given on the spot.
    pub(crate) free: u64,
    /// How many of these the next who come get on the spot.
    pub(crate) spare: u64,
    /// Wins that were not claimed yet.
    pub(crate) wins: u64,
    /// Winners a round, a moving average; null before the first round.
    #[schema(required, minimum = 0)]
    pub(crate) average_winners: Option<f64>,
}

/// How good the estimates of the wait were.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RoomEstimates)]
pub(crate) struct EstimatesView {
    /// How many were compared with the wait as it was.
    pub(crate) checked: u64,
    /// Of these, those where the wait was no longer than the 90th percentile told.
    pub(crate) within_p90: u64,
    /// The wait as it was over what was foretold, the median of the last ones: 1 is exact; null while nothing is known.
    #[schema(required, minimum = 0)]
    pub(crate) median_quotient: Option<f64>,
}

impl FrontierView {
    /// All that a board says of it, as of the board's own moment.
    pub(crate) fn of(board: &Board) -> Self {
        Self {
            capacity: board.capacity,
            rate_budget: board.rate_budget,
            last_move: board.last_move.as_ref().map(|moved| MoveView {
                by: moved.by.as_str(),
                at: rfc3339(moved.at),
                from: moved.from,
                to: moved.to,
            }),
            moves: MovedBy::ALL.into_iter().map(|by| (by.as_str(), board.moves[by as usize])).collect(),
            steps_missed: board.steps_missed,
            next_step_at: board.next_step_at.map(rfc3339),
            standstill: board.standstill.map(Standstill::as_str),
            stopped_by: board.stopped_by.clone(),
            stopped_since: stopped_since(board).map(rfc3339),
            firing: board.firing.clone(),
            adaptive: board.adaptive.as_ref().map(AdaptiveView::of),
            reports: ReportsView::of(board),
            auction: board.auction.as_deref().map(AuctionView::of),
            estimates: EstimatesView::of(&board.forecast),
        }
    }
}

/// Since when an operator's word holds the frontier.
fn stopped_since(board: &Board) -> Option<UnixMillis> {
    let moved_back = board.last_move.filter(|moved| board.inlet_rests && moved.by == MovedBy::Hand);
    board.halted_since.or(moved_back.map(|moved| moved.at))
}

impl AdaptiveView {
    fn of(adaptive: &Adaptive) -> Self {
        Self {
            capacity: adaptive.capacity,
            adjusted_at: rfc3339(adaptive.adjusted_at),
            adjustment: Adjustment::as_str(adaptive.adjustment),
        }
    }
}

impl ReportsView {
    pub(crate) fn of(board: &Board) -> Self {
        let (now, round_millis) = (board.clock, board.settings.round_millis());
        let all = &board.reports.reporters;
        let silent = all.iter().filter(|reporter| reporter.is_silent(now, round_millis)).count() as u64;
        let figures = capacity::figures(board, now);
        Self {
            heard: all.len() as u64 - silent,
            silent,
            free_reported: figures.free_reported,
            passes_in_flight: figures.passes_in_flight,
            free: figures.free,
        }
    }
}

impl AuctionView {
    fn of(auction: &Auction) -> Self {
        Self {
            closes_at: rfc3339(auction.round),
            free: auction.free,
            spare: auction.spare,
            wins: auction.wins.len() as u64,
            average_winners: auction.average_thousandths.map(from_thousandths),
        }
    }
}

impl EstimatesView {
    fn of(forecast: &Forecast) -> Self {
        Self {
            checked: forecast.checked,
            within_p90: forecast.within_p90,
            median_quotient: forecast
                .median_quotient_thousandths()
                .map(|thousandths| from_thousandths(u64::from(thousandths))),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people, bounded far below 2^53")]
pub(crate) fn from_thousandths(thousandths: u64) -> f64 {
    thousandths as f64 / 1000.0
}
