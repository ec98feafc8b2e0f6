//! The report of a run as a value. JSON is its literal form; `text` and `html` are two readings of it.

pub(super) mod html;
mod plot;
pub(super) mod text;

use std::collections::BTreeMap;

use anteroom_core::UnixMillis;
use jiff::Timestamp;
use serde::Serialize;

use super::arguments::{Plan, Scenario};
use super::checks::{self, Check, Verdict};
use super::drive::{End, RunResult};
use super::kendall::tau_b;
use super::ledger::{self, ClosedLedger, Latencies};
use super::moment::Moment;
use super::record::{Outcome, Record};
use super::rounds;

/// From this lag of the arrival clock on (99th percentile), the figures say more about the generator than about the server.
const LAG_OVERLOADED_MILLISECONDS: f64 = 100.0;
/// How many visitors are drawn in the plot of places.
const PLACES_MAX: usize = 1_500;

/// Everything about a run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Who wrote this, in which version.
    pub(super) tool: String,
    pub(super) started_at: String,
    pub(super) verdict: &'static str,
    pub(super) ended_by: &'static str,
    /// The generator could not keep its own pace: the latencies are partly its own.
    pub(super) generator_overloaded: bool,
    pub(super) duration_seconds: f64,
    pub(super) plan: PlanReport,
    pub(super) visitors: Visitors,
    pub(super) per_second: PerSecond,
    pub(super) arrival_lag: Spread,
    /// From the answer to the join until the pass was there.
    pub(super) wait: Spread,
    /// From the operator's step until the visitor saw that the place is served; only where this run moved the line.
    pub(super) served_until_seen: Option<Spread>,
    pub(super) order: Order,
    pub(super) steps: Vec<StepReport>,
    pub(super) first_failure: Option<String>,
    pub(super) checks: Vec<CheckReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) seconds: Vec<SecondReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) places: Vec<PlaceReport>,
}

/// What was asked for, as the clock saw it.
#[derive(Debug, Serialize)]
pub(super) struct PlanReport {
    pub(super) scenario: &'static str,
    pub(super) target: String,
    pub(super) room: String,
    pub(super) clients: u64,
    pub(super) arrivals: String,
    pub(super) let_out: Option<String>,
    pub(super) time_scale: f64,
    pub(super) poll_seconds: f64,
    pub(super) waiting_num_share: f64,
    pub(super) leave_share: f64,
    pub(super) early_share: f64,
    pub(super) again_share: f64,
    pub(super) connections: u64,
    pub(super) deadline_seconds: u64,
    pub(super) seed: u64,
}

/// How the visits ended.
#[derive(Debug, Default, Serialize)]
pub(super) struct Visitors {
    pub(super) arrived: u64,
    pub(super) admitted: u64,
    pub(super) left: u64,
    pub(super) refused: u64,
    pub(super) gave_up: u64,
    pub(super) unfinished: u64,
    /// Claims before their time that were refused, as they should be.
    pub(super) early_claims_refused: u64,
    pub(super) refused_by_name: BTreeMap<String, u64>,
}

/// What went through, on average.
#[derive(Debug, Serialize)]
pub(super) struct PerSecond {
    /// Over the time in which people arrived.
    pub(super) arrivals: f64,
    /// Over the time in which people were admitted.
    pub(super) admissions: f64,
    /// Over the whole run.
    pub(super) answers: f64,
}

/// Percentiles, in milliseconds.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Spread {
    pub(super) count: u64,
    pub(super) p50_ms: f64,
    pub(super) p90_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) p999_ms: f64,
    pub(super) max_ms: f64,
}

/// Kendall's tau-b of two orders; null when there is nothing to compare.
#[derive(Debug, Serialize)]
pub(super) struct Order {
    pub(super) position_vs_arrival: Option<f64>,
    pub(super) admission_vs_position: Option<f64>,
    pub(super) admission_vs_arrival: Option<f64>,
}

/// One step.
#[derive(Debug, Serialize)]
pub(super) struct StepReport {
    pub(super) step: &'static str,
    #[serde(flatten)]
    pub(super) spread: Spread,
    pub(super) busy: u64,
    pub(super) failed: u64,
    pub(super) unexpected: u64,
}

/// One check.
#[derive(Debug, Serialize)]
pub(super) struct CheckReport {
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    pub(super) verdict: &'static str,
    pub(super) judged: u64,
    pub(super) offences: u64,
    pub(super) first_offender: Option<String>,
    pub(super) note: Option<String>,
}

/// One second of the run: totals at its end, and latencies within it.
#[derive(Debug, Serialize)]
pub(super) struct SecondReport {
    pub(super) at_seconds: f64,
    pub(super) arrived: u64,
    pub(super) waiting: u64,
    pub(super) serving: u64,
    pub(super) admitted: u64,
    pub(super) answers: u64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
}

/// One visitor of the sample: the place, when it was given, and when the visitor was admitted.
#[derive(Debug, Serialize)]
pub(super) struct PlaceReport {
    pub(super) position: u64,
    pub(super) joined_seconds: f64,
    pub(super) admitted_seconds: f64,
}

impl Report {
    /// Judges a run and puts everything together.
    pub(super) fn new(
        plan: &Plan,
        target: &str,
        started_at: UnixMillis,
        driven: &RunResult,
        closed: &ClosedLedger,
    ) -> Self {
        let mut checks = checks::all(&driven.records, closed, driven.let_out.as_ref(), plan.figures_lag);
        if plan.scenario == Scenario::Auction {
            checks.extend(rounds::checks(&driven.records, driven.auction.as_ref()));
        }
        let green = checks::is_green(&checks) && driven.end == End::Finished;
        let arrival_lag = spread(&lags(&driven.records));
        Self {
            tool: format!("anteroom load {}", env!("CARGO_PKG_VERSION")),
            started_at: rfc_3339(started_at),
            verdict: if green { "green" } else { "red" },
            ended_by: driven.end.as_str(),
            generator_overloaded: arrival_lag.p99_ms > LAG_OVERLOADED_MILLISECONDS,
            duration_seconds: driven.duration.seconds(),
            plan: plan_report(plan, target),
            visitors: visitors(&driven.records, closed),
            per_second: per_second(driven, closed),
            arrival_lag,
            wait: spread(&waits(&driven.records)),
            served_until_seen: served_until_seen(driven).as_ref().map(spread),
            order: order(&driven.records),
            steps: steps(closed),
            first_failure: closed.first_failure.clone(),
            checks: checks.into_iter().map(check_report).collect(),
            seconds: seconds(driven),
            places: places(&driven.records),
        }
    }

    /// Whether every check is green and everybody finished in time.
    pub(super) fn is_green(&self) -> bool {
        self.verdict == "green"
    }

    /// The names of the checks that are red, with their counts, and why the run ended if that is the reason.
    pub(super) fn red_checks(&self) -> String {
        let red = self.checks.iter().filter(|check| check.verdict == "red");
        let mut reasons: Vec<String> =
            red.map(|check| format!("{} ({} offend)", check.name, check.offences)).collect();
        if self.ended_by != End::Finished.as_str() {
            reasons.push(format!("ended by {}", self.ended_by));
        }
        reasons.join(", ")
    }

    /// The report as JSON.
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report is made of numbers and text")
    }

    /// The report without what changes from second to second.
    pub(super) fn without_series(self) -> Self {
        Self { seconds: Vec::new(), places: Vec::new(), ..self }
    }
}

fn plan_report(plan: &Plan, target: &str) -> PlanReport {
    PlanReport {
        scenario: plan.scenario.name(),
        target: target.to_owned(),
        room: plan.room.clone(),
        clients: plan.clients,
        arrivals: plan.arrivals.to_string(),
        let_out: plan.let_out.map(|rate| rate.to_string()),
        time_scale: plan.time_scale,
        poll_seconds: plan.poll.as_secs_f64(),
        waiting_num_share: plan.waiting_num_share,
        leave_share: plan.leave_share,
        early_share: plan.early_share,
        again_share: plan.again_share,
        connections: plan.connections,
        deadline_seconds: plan.deadline.as_secs(),
        seed: plan.seed,
    }
}

fn visitors(records: &[Record], closed: &ClosedLedger) -> Visitors {
    let mut visitors = Visitors { refused_by_name: closed.refused.clone(), ..Visitors::default() };
    for record in records {
        visitors.arrived += u64::from(record.set_out.is_some());
        visitors.early_claims_refused += u64::from(record.early_claims_refused);
        let count = match record.outcome {
            Outcome::Admitted => &mut visitors.admitted,
            Outcome::Left => &mut visitors.left,
            Outcome::Refused(_) => &mut visitors.refused,
            Outcome::GaveUp(_) => &mut visitors.gave_up,
            Outcome::Unfinished => &mut visitors.unfinished,
        };
        *count += 1;
    }
    visitors
}

#[expect(clippy::cast_precision_loss, reason = "rates for people to read")]
fn per_second(driven: &RunResult, closed: &ClosedLedger) -> PerSecond {
    let rate_of = |moments: Vec<Moment>| {
        let (Some(first), Some(last)) = (moments.iter().min(), moments.iter().max()) else { return 0.0 };
        let seconds = last.seconds() - first.seconds();
        if seconds > 0.0 { (moments.len() - 1) as f64 / seconds } else { 0.0 }
    };
    let answers: u64 = closed.tallies.iter().map(|(_, tally)| tally.latencies.len()).sum();
    PerSecond {
        arrivals: rate_of(driven.records.iter().filter_map(|record| record.set_out).collect()),
        admissions: rate_of(driven.records.iter().filter_map(|record| record.admitted).collect()),
        answers: answers as f64 / driven.duration.seconds().max(f64::EPSILON),
    }
}

/// How far behind their time visitors set out.
fn lags(records: &[Record]) -> Latencies {
    between(records, |record| Some(record.due), |record| record.set_out)
}

fn waits(records: &[Record]) -> Latencies {
    between(records, |record| record.answered, |record| record.admitted)
}

fn served_until_seen(driven: &RunResult) -> Option<Latencies> {
    let done = driven.let_out.as_ref().filter(|done| done.alone)?;
    let served = |record: &Record| {
        let served = done.served_at(record.place?.position)?;
        // A visitor whose place was already served had nothing to wait for.
        Some(served).filter(|served| Some(*served) >= record.answered)
    };
    Some(between(&driven.records, served, |record| record.seen_served))
}

fn between(
    records: &[Record],
    from: impl Fn(&Record) -> Option<Moment>,
    until: impl Fn(&Record) -> Option<Moment>,
) -> Latencies {
    let mut histogram = ledger::latencies();
    for record in records {
        if let (Some(from), Some(until)) = (from(record), until(record)) {
            histogram.saturating_record(until.microseconds_since(from));
        }
    }
    histogram
}

fn spread(histogram: &Latencies) -> Spread {
    let at = |quantile| milliseconds(histogram.value_at_quantile(quantile));
    Spread {
        count: histogram.len(),
        p50_ms: at(0.5),
        p90_ms: at(0.9),
        p99_ms: at(0.99),
        p999_ms: at(0.999),
        max_ms: milliseconds(histogram.max()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of at most an hour")]
fn milliseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1000.0
}

fn order(records: &[Record]) -> Order {
    let arrival = |record: &Record| record.sent.map(Moment::microseconds);
    let position = |record: &Record| record.place.map(|place| place.position);
    let admission = |record: &Record| record.admitted.map(Moment::microseconds);
    Order {
        position_vs_arrival: tau_of(records, arrival, position),
        admission_vs_position: tau_of(records, position, admission),
        admission_vs_arrival: tau_of(records, arrival, admission),
    }
}

fn tau_of(
    records: &[Record],
    first: impl Fn(&Record) -> Option<u64>,
    second: impl Fn(&Record) -> Option<u64>,
) -> Option<f64> {
    let pairs: Vec<(u64, u64)> =
        records.iter().filter_map(|record| Some((first(record)?, second(record)?))).collect();
    tau_b(&pairs)
}

fn steps(closed: &ClosedLedger) -> Vec<StepReport> {
    let used = closed.tallies.iter().filter(|(_, tally)| tally.is_used());
    used.map(|(step, tally)| StepReport {
        step: step.name(),
        spread: spread(&tally.latencies),
        busy: tally.busy,
        failed: tally.failed,
        unexpected: tally.unexpected,
    })
    .collect()
}

fn check_report(check: Check) -> CheckReport {
    let (verdict, note) = match check.verdict {
        Verdict::Green => ("green", None),
        Verdict::Red => ("red", None),
        Verdict::NotJudged(why) => ("not judged", Some(why)),
    };
    CheckReport {
        name: check.name,
        meaning: check.meaning,
        verdict,
        judged: check.judged,
        offences: check.offences,
        first_offender: check.first_offender,
        note,
    }
}

fn seconds(driven: &RunResult) -> Vec<SecondReport> {
    let report = |sample: &super::drive::Sample| SecondReport {
        at_seconds: sample.at.seconds(),
        arrived: sample.figures.arrived,
        waiting: sample.figures.arrived.saturating_sub(sample.figures.ended),
        serving: sample.figures.serving,
        admitted: sample.figures.admitted,
        answers: sample.second.answers,
        p50_ms: milliseconds(sample.second.p50_microseconds),
        p99_ms: milliseconds(sample.second.p99_microseconds),
        max_ms: milliseconds(sample.second.max_microseconds),
    };
    driven.samples.iter().map(report).collect()
}

/// Every so-many-th visitor who was admitted.
fn places(records: &[Record]) -> Vec<PlaceReport> {
    let admitted: Vec<PlaceReport> = records
        .iter()
        .filter_map(|record| {
            Some(PlaceReport {
                position: record.place?.position,
                joined_seconds: record.answered?.seconds(),
                admitted_seconds: record.admitted?.seconds(),
            })
        })
        .collect();
    let every = admitted.len().div_ceil(PLACES_MAX).max(1);
    admitted.into_iter().step_by(every).collect()
}

/// 12,345.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A time as the API writes it: UTC with milliseconds.
fn rfc_3339(time: UnixMillis) -> String {
    let milliseconds = i64::try_from(time.0).unwrap_or(i64::MAX);
    let timestamp = Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::MAX);
    format!("{timestamp:.3}")
}

#[cfg(test)]
mod tests;
