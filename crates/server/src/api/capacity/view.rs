//! What the calls about capacity answer.

use anteroom_core::{Board, Reporter, RoomId, UnixMillis};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::timestamp::rfc3339;
use crate::openapi::schemas::{Moment, ReporterName, RoomName, StandstillName, VisitId};

/// What became of a report, or of a message.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum CapacityAnswer {
    /// Of a report.
    Report(ReportAnswer),
    /// Of a message that visits are over.
    Visits(VisitsAnswer),
}

/// What became of a report, and what is free now.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ReportTaken)]
pub(crate) struct ReportAnswer {
    /// `taken`: it counts. `late`: a later one of the same reporter had arrived before, so it was ignored.
    #[schema(pattern = "^(taken|late)$")]
    pub(crate) reported: &'static str,
    #[serde(flatten)]
    pub(crate) figures: CapacityFigures,
}

/// What became of a message that visits are over.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = VisitsEnded)]
pub(crate) struct VisitsAnswer {
    /// How many of the visits without a name were counted: never more than are inside.
    pub(crate) exited: u64,
    /// Those that are now completed.
    #[schema(value_type = Vec<VisitId>)]
    pub(crate) completed: Vec<String>,
    /// Those that are now abandoned.
    #[schema(value_type = Vec<VisitId>)]
    pub(crate) abandoned: Vec<String>,
    /// Those that are not of this room, or have no visit.
    #[schema(value_type = Vec<VisitId>)]
    pub(crate) unknown: Vec<String>,
    /// Those whose visit had been ended by name before. Nothing was counted twice.
    #[schema(value_type = Vec<VisitId>)]
    pub(crate) already_ended: Vec<String>,
}

/// What the reports leave.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CapacityNow)]
pub(crate) struct CapacityFigures {
    /// The sum of what the reporters that are heard say is free; null if nobody has ever reported it.
    #[schema(required)]
    pub(crate) free_reported: Option<u64>,
    /// Passes that the site may not have seen yet when it counted.
    pub(crate) passes_in_flight: u64,
    /// Places that may be claimed now, and each of which will take a slot.
    pub(crate) offers: u64,
    /// What is left to give away: what was reported, less the passes in flight, less the offers; null if nobody has ever reported.
    #[schema(required)]
    pub(crate) free: Option<u64>,
    /// How many may be inside, where the inlet has a capacity; null where it has none.
    #[schema(required)]
    pub(crate) capacity: Option<u64>,
    /// Visitors who count as being inside.
    pub(crate) active: u64,
    /// Why the frontier stands still; null if it moves, or will at the next step or round.
    #[schema(value_type = Option<StandstillName>, required)]
    pub(crate) standstill: Option<&'static str>,
}

/// What a board's reports leave at a moment.
pub(crate) fn figures(board: &Board, now: UnixMillis) -> CapacityFigures {
    let (reports, settings) = (&board.reports, &board.settings);
    let on_their_way = reports.passes_in_flight(settings, now);
    let reports_free = reports.reporters.iter().any(|reporter| reporter.last.free.is_some());
    let heard = reports.reporters.iter().filter(|reporter| !reporter.is_silent(now, settings.round_millis()));
    let free_reported = heard.filter_map(|reporter| reporter.last.free).fold(0, u64::saturating_add);
    CapacityFigures {
        free_reported: reports_free.then_some(free_reported),
        passes_in_flight: if reports_free { on_their_way } else { 0 },
        offers: board.offers,
        free: reports.free(settings, now).map(|free| free.saturating_sub(board.offers)),
        capacity: board.capacity,
        active: board.active,
        standstill: board.standstill.map(anteroom_core::Standstill::as_str),
    }
}

/// Who reports, and what that leaves.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Capacity)]
pub(crate) struct CapacityView {
    /// The room.
    #[schema(value_type = RoomName)]
    pub(crate) room: String,
    #[serde(flatten)]
    pub(crate) figures: CapacityFigures,
    /// Passes issued so far, in all lines of the room.
    pub(crate) passes_issued: u64,
    /// Of these, those that the site has seen.
    pub(crate) passes_entered: u64,
    /// Of these, those that can no longer be used for the first time.
    pub(crate) passes_never_used: u64,
    /// After how many seconds without a report a reporter counts as having nothing free.
    pub(crate) silent_after_seconds: u64,
    /// By name.
    pub(crate) reporters: Vec<ReporterView>,
}

/// A reporter, and the last it said.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Reporter)]
pub(crate) struct ReporterView {
    /// Its name.
    #[schema(value_type = ReporterName)]
    pub(crate) reporter: String,
    /// When its last report arrived.
    #[schema(value_type = Moment)]
    pub(crate) heard_at: String,
    /// How many seconds ago that was.
    pub(crate) age_seconds: u64,
    /// Whether that is too long ago, so that it counts as having nothing free.
    pub(crate) silent: bool,
    /// Its number.
    #[schema(required)]
    pub(crate) sequence: Option<u64>,
    /// How many more visitors it can take.
    #[schema(required)]
    pub(crate) free: Option<u64>,
    /// Passes it has seen for the first time, since it began to count.
    #[schema(required)]
    pub(crate) entered: Option<u64>,
    /// The 95th percentile of its latency, in milliseconds.
    #[schema(required)]
    pub(crate) latency_p95_ms: Option<u64>,
    /// The share of its requests that failed.
    #[schema(required, minimum = 0, maximum = 1)]
    pub(crate) error_rate: Option<f64>,
    /// Requests it works on.
    #[schema(required)]
    pub(crate) in_flight: Option<u64>,
}

impl ReporterView {
    fn of(reporter: &Reporter, now: UnixMillis, round_millis: u64) -> Self {
        let last = &reporter.last;
        Self {
            reporter: last.reporter.clone(),
            heard_at: rfc3339(reporter.heard_at),
            age_seconds: now.since(reporter.heard_at) / 1000,
            silent: reporter.is_silent(now, round_millis),
            sequence: last.sequence,
            free: last.free,
            entered: last.entered,
            latency_p95_ms: last.latency_p95_millis,
            error_rate: last.errors_per_million.map(|millionths| f64::from(millionths) / 1_000_000.0),
            in_flight: last.in_flight,
        }
    }
}

impl CapacityView {
    pub(super) fn of(room: &RoomId, board: &Board, now: UnixMillis) -> Self {
        let (reports, round_millis) = (&board.reports, board.settings.round_millis());
        let views = reports.reporters.iter().map(|reporter| ReporterView::of(reporter, now, round_millis));
        Self {
            room: room.as_str().to_owned(),
            figures: figures(board, now),
            passes_issued: reports.issued,
            passes_entered: reports.entered,
            passes_never_used: reports.unused,
            silent_after_seconds: anteroom_core::reports::SILENT_ROUNDS * round_millis / 1000,
            reporters: views.collect(),
        }
    }
}
