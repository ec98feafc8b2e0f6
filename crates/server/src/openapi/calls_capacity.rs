//! Calls of the protected site about how much it can take, and what is known of that.

use serde_json::{Value as Json, json};

use super::call::Call;
use super::calls_private::of_room;
use super::schemas::ReporterName;
use super::{MOMENT, REQUEST_ID};
use crate::api::capacity::{
    CapacityAnswer, CapacityBody, CapacityFigures, CapacityView, ReportAnswer, ReporterView, VisitsAnswer,
};
use crate::http::problem::Problem;

const fn figures() -> CapacityFigures {
    CapacityFigures {
        free_reported: Some(12),
        passes_in_flight: 3,
        offers: 2,
        free: Some(7),
        capacity: Some(100),
        active: 81,
        standstill: None,
    }
}

pub(crate) fn show_capacity() -> Call {
    let reporter = ReporterView {
        reporter: "web-1".to_owned(),
        heard_at: MOMENT.to_owned(),
        age_seconds: 4,
        silent: false,
        sequence: Some(17),
        free: Some(12),
        entered: Some(2044),
        latency_p95_ms: Some(180),
        error_rate: Some(0.002),
        in_flight: Some(31),
    };
    let example = CapacityView {
        room: "Sample".to_owned(),
        figures: figures(),
        passes_issued: 2060,
        passes_entered: 2044,
        passes_never_used: 13,
        silent_after_seconds: 30,
        reporters: vec![reporter],
    };
    of_room(
        "showCapacity",
        "Who reports capacity, and what that leaves",
        "Every reporter with the last it said.",
    )
    .json(200, "The reports.", &example)
    .problems(&[Problem::UnknownRoom])
}

pub(crate) fn report_capacity() -> Call {
    let report = CapacityAnswer::Report(ReportAnswer { reported: "taken", figures: figures() });
    let visits = CapacityAnswer::Visits(VisitsAnswer {
        exited: 2,
        completed: vec![REQUEST_ID.to_owned()],
        ..VisitsAnswer::default()
    });
    let value = |answer: &CapacityAnswer| -> Json {
        serde_json::to_value(answer).expect("our own structures can be written as JSON")
    };
    of_room(
        "reportCapacity",
        "The site says how much it can take, or that visits are over",
        "A **report** is absolute: so many more can come. It needs only `free`; or, of a site that is watched but not counted, one of \
         `latency_p95_ms`, `error_rate` and `in_flight`. Send one every few seconds; a reporter silent for three rounds (`round_seconds`) counts as \
         full. A **message** (`exited`, `completed`, `abandoned`) ends visits, and frees their slots: ids that are not known are told back, the \
         rest is applied. A body is one or the other.",
    )
    .body::<CapacityBody>(json!({"reporter": "web-1", "sequence": 17, "free": 12, "entered": 2044, "latency_p95_ms": 180}))
    .json_like::<CapacityAnswer>(200, "What became of it.", vec![("report", value(&report)), ("visits", value(&visits))])
    .problems(&[Problem::UnknownRoom, Problem::Conflict])
}

pub(crate) fn forget_reporter() -> Call {
    of_room(
        "forgetReporter",
        "Forgets a reporter",
        "What it said last counts no more. For a process of the site that is gone for good; one that merely fell silent counts as full by itself.",
    )
    .path::<ReporterName>("reporter", "Its name.", "web-1")
    .empty(204, "It is forgotten.")
    .problems(&[Problem::UnknownRoom, Problem::UnknownName])
}
