//! The report of a small made-up run, in all three forms.

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use serde_json::Value;

use super::super::arguments::Arguments;
use super::super::drive::Sample;
use super::super::ledger::{Ledger, Step};
use super::super::operator::FrontierSteps;
use super::super::record::PlaceInLine;
use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

fn plan() -> Plan {
    let words = "load --room <Sale> --clients 4 --arrivals 2/s --let-out 60/min --seed 9".split(' ');
    Line::parse_from(words).arguments.plan(1024).unwrap()
}

fn at(milliseconds: u64) -> Moment {
    Moment::from_microseconds(milliseconds * 1000)
}

/// Four visitors, the last of whom was refused with words that must not become HTML.
fn sample_report() -> Report {
    let ledger = Arc::new(Ledger::new());
    let mut records = Vec::new();
    for index in 0..4 {
        let mut record = Record::new(index, at(index * 500));
        record.set_out = Some(at(index * 500 + 1));
        record.sent = record.set_out;
        record.answered = Some(at(index * 500 + 11));
        record.place = Some(PlaceInLine { generation: 0, position: index + 1 });
        record.outcome = Outcome::Refused("410 <b>gone</b>".to_owned());
        if index < 3 {
            record.seen_served = Some(at(index * 1000 + 1500));
            record.admitted = Some(at(index * 1000 + 1600));
            record.outcome = Outcome::Admitted;
        }
        ledger.record_arrival();
        ledger.record_answer(Step::AssignQueueNum, 1_000);
        ledger.record_end(&record.outcome);
        records.push(record);
    }
    let sample = Sample { at: at(4000), figures: ledger.figures(), second: ledger.take_second() };
    let steps = (0..3).map(|index| (at(index * 1000 + 1400), index + 1)).collect();
    let driven = RunResult {
        records,
        samples: vec![sample],
        let_out: Some(FrontierSteps { start: 0, steps, alone: true }),
        auction: None,
        end: End::Finished,
        duration: at(4000),
    };
    Report::new(&plan(), "http://127.0.0.1:1", UnixMillis(1_763_323_200_123), &driven, &ledger.close())
}

/// The keys of an object and of what is in it, as paths.
fn keys(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                found.push(format!("{path}{name}"));
                keys(inner, &format!("{path}{name}."), found);
            }
        }
        Value::Array(items) => {
            if let Some(first) = items.first() {
                keys(first, path, found);
            }
        }
        _ => {}
    }
}

#[test]
fn the_keys_of_the_json_report_are_these() {
    let report: Value = serde_json::from_str(&sample_report().to_json()).unwrap();
    let mut found = Vec::new();
    keys(&report, "", &mut found);
    found.sort_unstable();
    let expected = "arrival_lag arrival_lag.count arrival_lag.max_ms arrival_lag.p50_ms arrival_lag.p90_ms \
        arrival_lag.p999_ms arrival_lag.p99_ms checks checks.first_offender checks.judged checks.meaning checks.name \
        checks.note checks.offences checks.verdict duration_seconds ended_by first_failure generator_overloaded order \
        order.admission_vs_arrival order.admission_vs_position order.position_vs_arrival per_second per_second.admissions per_second.answers per_second.arrivals places \
        places.admitted_seconds places.joined_seconds places.position plan plan.again_share plan.arrivals plan.clients \
        plan.connections plan.deadline_seconds plan.early_share plan.leave_share plan.let_out plan.poll_seconds \
        plan.room plan.scenario plan.seed plan.target plan.time_scale plan.waiting_num_share seconds seconds.admitted \
        seconds.answers seconds.arrived seconds.at_seconds seconds.max_ms seconds.p50_ms seconds.p99_ms seconds.serving \
        seconds.waiting served_until_seen served_until_seen.count served_until_seen.max_ms served_until_seen.p50_ms \
        served_until_seen.p90_ms served_until_seen.p999_ms served_until_seen.p99_ms started_at steps steps.busy \
        steps.count steps.failed steps.max_ms steps.p50_ms steps.p90_ms steps.p999_ms steps.p99_ms steps.step \
        steps.unexpected tool verdict visitors visitors.admitted visitors.arrived visitors.early_claims_refused \
        visitors.gave_up visitors.left visitors.refused visitors.refused_by_name visitors.refused_by_name.410 <b>gone</b> \
        visitors.unfinished wait wait.count wait.max_ms wait.p50_ms wait.p90_ms wait.p999_ms wait.p99_ms";
    assert_eq!(found.join(" "), expected.split_whitespace().collect::<Vec<_>>().join(" "));
    assert_eq!(report["started_at"], "2025-11-16T20:00:00.123Z");
    assert_eq!(report["verdict"], "green");
    assert!(!sample_report().without_series().to_json().contains("at_seconds"));
}

#[test]
fn figures_are_those_of_the_run() {
    let report = sample_report();
    assert_eq!((report.visitors.arrived, report.visitors.admitted, report.visitors.refused), (4, 3, 1));
    assert_eq!(report.order.position_vs_arrival, Some(1.0));
    assert!((report.per_second.arrivals - 2.0).abs() < 0.01, "{:?}", report.per_second);
    assert!((report.per_second.admissions - 1.0).abs() < 0.01, "{:?}", report.per_second);
    assert!((report.arrival_lag.max_ms - 1.0).abs() < 0.01 && !report.generator_overloaded);
    let seen = report.served_until_seen.unwrap();
    assert!(seen.count == 3 && (seen.p50_ms - 100.0).abs() < 1.0, "{seen:?}");
    assert!((report.wait.max_ms - 2589.0).abs() < 3.0, "{:?}", report.wait);
}

#[test]
fn the_text_has_a_table_and_every_check() {
    let report = sample_report();
    let text = text::render(&report);
    let row = text.lines().find(|line| line.starts_with("assign_queue_num")).unwrap();
    assert_eq!(row.split_whitespace().skip(1).take(3).collect::<Vec<_>>(), ["4", "0", "1.00"]);
    assert!(report.checks.iter().all(|check| text.contains(check.name)), "{text}");
    assert!(text.ends_with("verdict: green\n"), "{text}");
}

#[test]
fn the_page_fetches_nothing_runs_nothing_and_shows_text_as_text() {
    let page = html::render(&sample_report());
    for forbidden in ["<script", "<b>gone", "<Sale>", "href=", "src=", "url(", "@import", "NaN", "inf"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert_eq!(page.matches("<svg").count(), 5);
    assert!(page.contains("410 &lt;b&gt;gone&lt;/b&gt;: 1"));
    // The only address in it is the name of SVG's vocabulary, and the target.
    let addresses = page.matches("http").count();
    assert_eq!(
        addresses,
        page.matches("http://www.w3.org/2000/svg").count() + page.matches("http://127.0.0.1:1").count()
    );
}

#[test]
fn an_empty_run_has_a_report_too() {
    let ledger = Ledger::new();
    let driven = RunResult {
        records: Vec::new(),
        samples: Vec::new(),
        let_out: None,
        auction: None,
        end: End::Deadline,
        duration: Moment::default().after(Duration::from_millis(5)),
    };
    let report = Report::new(&plan(), "http://127.0.0.1:1", UnixMillis(0), &driven, &ledger.close());
    assert!(!report.is_green() && report.red_checks().contains("deadline"));
    let page = html::render(&report);
    assert!(page.contains("<svg") && !page.contains("NaN"));
    assert!(text::render(&report).contains("verdict: red"));
}

#[test]
fn times_are_written_as_the_api_writes_them() {
    for (milliseconds, text) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (1_798_761_599_000, "2026-12-31T23:59:59.000Z"),
    ] {
        assert_eq!(rfc_3339(UnixMillis(milliseconds)), text);
    }
}
