//! The two bodies of `POST /rooms/{id}/capacity`, and everything that can be wrong with them.

use anteroom_core::Report;
use anteroom_core::reports::is_reporter_name;
use serde::Deserialize;
use serde_json::Value as Json;
use utoipa::ToSchema;

use crate::http::error::ApiError;
use crate::openapi::schemas::{
    CountOrDigits, ErrorRate, LatencyMillis, ReportedCount, ReporterName, VisitId,
};

/// The largest number a report may name: what every JSON library reads back exactly.
pub(crate) const REPORTED_MAX: u64 = (1 << 53) - 1;
/// How many digits a number that is given as a text may have.
const DIGITS_MAX: usize = 15;
/// The longest latency a report may name, in milliseconds: a day.
pub(crate) const LATENCY_MAX_MILLIS: u64 = 86_400_000;
/// How many visits each list of a message may name.
pub(crate) const NAMED_MAX: usize = 1_000;
/// Who reports if nobody is named.
const DEFAULT_REPORTER: &str = "origin";

/// Either a report (`free` and what goes with it), or a message that visits are over (`exited`, `completed`, `abandoned`).
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CapacityMessage)]
pub(crate) struct CapacityBody {
    /// Who reports: one process of the site. `origin` if it is not given.
    #[schema(value_type = Option<ReporterName>)]
    reporter: Option<Json>,
    /// Rises with each report of this reporter; one that is not above the last is late and ignored.
    #[schema(value_type = Option<ReportedCount>)]
    sequence: Option<Json>,
    /// How many more visitors the reporter can take: all of them, not how many more than last time.
    #[schema(value_type = Option<ReportedCount>)]
    free: Option<Json>,
    /// Passes that the reporter has seen for the first time, since it began to count; taken together with `free`.
    #[schema(value_type = Option<ReportedCount>)]
    entered: Option<Json>,
    /// The 95th percentile of its latency, in milliseconds.
    #[schema(value_type = Option<LatencyMillis>)]
    latency_p95_ms: Option<Json>,
    /// The share of requests that failed.
    #[schema(value_type = Option<ErrorRate>)]
    error_rate: Option<Json>,
    /// Requests it works on.
    #[schema(value_type = Option<ReportedCount>)]
    in_flight: Option<Json>,
    /// How many visits are over, those named here included.
    #[schema(value_type = Option<CountOrDigits>)]
    exited: Option<Json>,
    /// Tickets whose visit was completed.
    #[schema(value_type = Option<Vec<VisitId>>, max_items = 1000)]
    completed: Option<Json>,
    /// Tickets whose visit was abandoned.
    #[schema(value_type = Option<Vec<VisitId>>, max_items = 1000)]
    abandoned: Option<Json>,
}

/// A body, read: a report, or visits that are over.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CapacityMessage {
    Report(Report),
    Visits(Visits),
}

/// Visits that are over.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Visits {
    pub(super) exited: Option<u64>,
    pub(super) completed: Vec<String>,
    pub(super) abandoned: Vec<String>,
}

impl CapacityBody {
    pub(super) fn into_message(self) -> Result<CapacityMessage, ApiError> {
        let of_report = [
            ("reporter", &self.reporter),
            ("sequence", &self.sequence),
            ("free", &self.free),
            ("entered", &self.entered),
            ("latency_p95_ms", &self.latency_p95_ms),
            ("error_rate", &self.error_rate),
            ("in_flight", &self.in_flight),
        ];
        let of_message =
            [("exited", &self.exited), ("completed", &self.completed), ("abandoned", &self.abandoned)];
        let first = |fields: &[(&'static str, &Option<Json>)]| {
            fields.iter().find(|(_, value)| value.is_some()).map(|(name, _)| *name)
        };
        match (first(&of_report), first(&of_message)) {
            (Some(one), Some(other)) => Err(ApiError::bad_request(format!(
                "`{one}` belongs to a capacity report and `{other}` to a message that visits are over: send two requests"
            ))),
            (None, Some(_)) => self.visits().map(CapacityMessage::Visits),
            (_, None) => self.report().map(CapacityMessage::Report),
        }
    }

    fn report(&self) -> Result<Report, ApiError> {
        let report = Report {
            reporter: match &self.reporter {
                None => DEFAULT_REPORTER.to_owned(),
                Some(Json::String(name)) if is_reporter_name(name) => name.clone(),
                Some(_) => return Err(must_be("reporter", "1 to 64 visible characters without spaces")),
            },
            sequence: count("sequence", self.sequence.as_ref())?,
            free: count("free", self.free.as_ref())?,
            entered: count("entered", self.entered.as_ref())?,
            latency_p95_millis: latency(self.latency_p95_ms.as_ref())?,
            errors_per_million: error_rate(self.error_rate.as_ref())?,
            in_flight: count("in_flight", self.in_flight.as_ref())?,
        };
        let says_something = report.free.is_some()
            || report.latency_p95_millis.is_some()
            || report.errors_per_million.is_some()
            || report.in_flight.is_some();
        if says_something {
            return Ok(report);
        }
        let needed = "A report needs `free`, or at least `latency_p95_ms`, `error_rate` or `in_flight`; a message that visits are over \
                      needs `exited`, `completed` or `abandoned`";
        Err(ApiError::bad_request(needed))
    }

    fn visits(&self) -> Result<Visits, ApiError> {
        let exited = match &self.exited {
            Some(Json::String(digits)) => {
                let all_digits =
                    digits.len() <= DIGITS_MAX && digits.bytes().all(|byte| byte.is_ascii_digit());
                let number = digits.parse().ok().filter(|_: &u64| all_digits);
                Some(number.ok_or_else(|| must_be("exited", COUNT))?)
            }
            other => count("exited", other.as_ref())?,
        };
        Ok(Visits {
            exited,
            completed: ids("completed", self.completed.as_ref())?,
            abandoned: ids("abandoned", self.abandoned.as_ref())?,
        })
    }
}

const COUNT: &str = "a whole number from 0 to 9007199254740991";

fn must_be(name: &str, expected: &str) -> ApiError {
    ApiError::bad_request(format!("`{name}` must be {expected}"))
}

fn count(name: &str, value: Option<&Json>) -> Result<Option<u64>, ApiError> {
    let Some(value) = value else { return Ok(None) };
    let whole = value.as_u64().or_else(|| {
        let number =
            value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..=9e15).contains(number))?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the filter lets whole numbers through that fit exactly"
        )]
        Some(number as u64)
    });
    let whole = whole.filter(|&number| number <= REPORTED_MAX);
    whole.map(Some).ok_or_else(|| must_be(name, COUNT))
}

fn latency(value: Option<&Json>) -> Result<Option<u64>, ApiError> {
    let Some(value) = value else { return Ok(None) };
    let limit = 0.0..=86_400_000.0;
    let millis = value.as_f64().filter(|millis| limit.contains(millis));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within a day, and rounded up so that nothing looks faster than it is"
    )]
    let millis = millis.map(|millis| millis.ceil() as u64).filter(|&millis| millis <= LATENCY_MAX_MILLIS);
    millis.map(Some).ok_or_else(|| must_be("latency_p95_ms", "a number of milliseconds from 0 to 86400000"))
}

fn error_rate(value: Option<&Json>) -> Result<Option<u32>, ApiError> {
    let Some(value) = value else { return Ok(None) };
    let share = value.as_f64().filter(|share| (0.0..=1.0).contains(share));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of at most one is a million at most"
    )]
    let millionths = share.map(|share| (share * 1_000_000.0).round() as u32);
    millionths
        .map(Some)
        .ok_or_else(|| must_be("error_rate", "a number from 0 (none failed) to 1 (all failed)"))
}

fn ids(name: &str, value: Option<&Json>) -> Result<Vec<String>, ApiError> {
    let Some(value) = value else { return Ok(vec![]) };
    let texts = value.as_array().filter(|items| items.len() <= NAMED_MAX).and_then(|items| {
        items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
    });
    texts.ok_or_else(|| must_be(name, "a list of up to 1000 request ids"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(body: &Json) -> Result<CapacityMessage, String> {
        let body: CapacityBody = serde_json::from_value(body.clone()).map_err(|error| error.to_string())?;
        body.into_message().map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn a_report_needs_nothing_but_free() {
        let report = Report { reporter: "origin".into(), free: Some(7), ..Report::default() };
        assert_eq!(message(&json!({"free": 7})), Ok(CapacityMessage::Report(report.clone())));
        assert_eq!(message(&json!({"free": 7.0, "entered": null})), Ok(CapacityMessage::Report(report)));
        let whole = json!({"reporter": "web-1", "sequence": 3, "free": 0, "entered": 9, "latency_p95_ms": 12.1,
            "error_rate": 0.0125, "in_flight": 4});
        let expected = Report {
            reporter: "web-1".into(),
            sequence: Some(3),
            free: Some(0),
            entered: Some(9),
            latency_p95_millis: Some(13),
            errors_per_million: Some(12_500),
            in_flight: Some(4),
        };
        assert_eq!(message(&whole), Ok(CapacityMessage::Report(expected)));
        for without_free in [json!({"latency_p95_ms": 1}), json!({"error_rate": 0}), json!({"in_flight": 0})]
        {
            assert!(matches!(message(&without_free), Ok(CapacityMessage::Report(_))), "{without_free}");
        }
    }

    #[test]
    fn exits_are_numbers_or_digits() {
        let visits =
            |exited| Ok(CapacityMessage::Visits(Visits { exited: Some(exited), ..Visits::default() }));
        assert_eq!(message(&json!({"exited": 5})), visits(5));
        assert_eq!(message(&json!({"exited": "5"})), visits(5));
        assert_eq!(message(&json!({"exited": "0"})), visits(0));
        let named = Visits { exited: None, completed: vec!["a".into()], abandoned: vec!["b".into()] };
        assert_eq!(
            message(&json!({"completed": ["a"], "abandoned": ["b"]})),
            Ok(CapacityMessage::Visits(named))
        );
    }

    #[test]
    fn whatever_is_wrong_is_named() {
        let too_many: Vec<String> = (0..=NAMED_MAX).map(|number| number.to_string()).collect();
        for (body, named) in [
            (json!({}), "`free`"),
            (json!({"reporter": "web-1"}), "`free`"),
            (json!({"entered": 3}), "`free`"),
            (json!({"free": -1}), "`free`"),
            (json!({"free": 1.5}), "`free`"),
            (json!({"free": "7"}), "`free`"),
            (json!({"free": 9_007_199_254_740_992_u64}), "`free`"),
            (json!({"free": 1e16}), "`free`"),
            (json!({"free": true}), "`free`"),
            (json!({"free": 1, "sequence": -1}), "`sequence`"),
            (json!({"free": 1, "entered": []}), "`entered`"),
            (json!({"free": 1, "in_flight": "x"}), "`in_flight`"),
            (json!({"free": 1, "latency_p95_ms": -0.5}), "`latency_p95_ms`"),
            (json!({"free": 1, "latency_p95_ms": 1e300}), "`latency_p95_ms`"),
            (json!({"free": 1, "error_rate": 1.001}), "`error_rate`"),
            (json!({"free": 1, "error_rate": "NaN"}), "`error_rate`"),
            (json!({"free": 1, "reporter": ""}), "`reporter`"),
            (json!({"free": 1, "reporter": "a b"}), "`reporter`"),
            (json!({"free": 1, "reporter": "x".repeat(65)}), "`reporter`"),
            (json!({"free": 1, "reporter": 3}), "`reporter`"),
            (json!({"free": 1, "fee": 1}), "`fee`"),
            (json!({"free": 1, "exited": 1}), "`exited`"),
            (json!({"reporter": "a", "completed": []}), "`completed`"),
            (json!({"exited": -1}), "`exited`"),
            (json!({"exited": "-1"}), "`exited`"),
            (json!({"exited": ""}), "`exited`"),
            (json!({"exited": " 1"}), "`exited`"),
            (json!({"exited": "99999999999999999999999"}), "`exited`"),
            (json!({"completed": "a"}), "`completed`"),
            (json!({"completed": ["a", 1]}), "`completed`"),
            (json!({"abandoned": too_many}), "`abandoned`"),
        ] {
            let refused = message(&body).expect_err(&body.to_string());
            assert!(refused.contains(named), "{body}: {refused}");
        }
    }
}
