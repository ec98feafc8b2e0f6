//! The report for a terminal.

use std::fmt::Write;

use super::{CheckReport, Report, Spread, StepReport};

/// Headings of the table of steps, right-aligned but for the first.
const HEADINGS: [&str; 8] = ["step", "answers", "errors", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms"];

/// The whole report, for people.
pub(in super::super) fn render(report: &Report) -> String {
    let mut out = String::new();
    let visitors = &report.visitors;
    let plan = &report.plan;
    let mut line = |text: String| writeln!(out, "{text}").expect("writing into a string does not fail");
    line(format!(
        "{} visitors ({}), arrivals {}{}{}, seed {}: {:.1} s, ended by {}",
        plan.clients,
        plan.scenario,
        plan.arrivals,
        plan.let_out.as_ref().map(|rate| format!(", let out {rate}")).unwrap_or_default(),
        scale_note(plan.time_scale),
        plan.seed,
        report.duration_seconds,
        report.ended_by
    ));
    line(format!(
        "arrived {}, admitted {}, left {}, refused {}, gave up {}, unfinished {}",
        visitors.arrived,
        visitors.admitted,
        visitors.left,
        visitors.refused,
        visitors.gave_up,
        visitors.unfinished
    ));
    for (name, count) in &visitors.refused_by_name {
        line(format!("  refused: {name}: {count}"));
    }
    let rates = &report.per_second;
    line(format!(
        "arrivals {:.1}/s, admissions {:.1}/s, answers {:.0}/s",
        rates.arrivals, rates.admissions, rates.answers
    ));
    line(format!("waited {}", wait_text(&report.wait)));
    if let Some(seen) = &report.served_until_seen {
        line(format!("served until seen {}", wait_text(seen)));
    }
    line(String::new());
    for row in table(&report.steps) {
        line(row);
    }
    if let Some(failure) = &report.first_failure {
        line(format!("first request without an answer: {failure}"));
    }
    line(String::new());
    let tau = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |tau| format!("{tau:.4}"));
    line(format!(
        "order (Kendall's tau-b, 1 is the same order): position vs arrival {}, admission vs position {}, admission vs arrival {}",
        tau(report.order.position_vs_arrival),
        tau(report.order.admission_vs_position),
        tau(report.order.admission_vs_arrival)
    ));
    let lag = &report.arrival_lag;
    line(format!(
        "arrival clock behind by p99 {:.1} ms, max {:.1} ms{}",
        lag.p99_ms,
        lag.max_ms,
        if report.generator_overloaded { ": GENERATOR OVERLOADED, latencies are partly its own" } else { "" }
    ));
    line(String::new());
    for check in &report.checks {
        line(check_text(check));
    }
    line(format!("verdict: {}", report.verdict));
    out
}

fn scale_note(time_scale: f64) -> String {
    if (time_scale - 1.0).abs() < f64::EPSILON { String::new() } else { format!(" (time x {time_scale})") }
}

fn wait_text(spread: &Spread) -> String {
    let seconds = |milliseconds: f64| milliseconds / 1000.0;
    format!(
        "p50 {:.2} s, p90 {:.2} s, p99 {:.2} s, max {:.2} s",
        seconds(spread.p50_ms),
        seconds(spread.p90_ms),
        seconds(spread.p99_ms),
        seconds(spread.max_ms)
    )
}

/// The table of steps, a string a row.
fn table(steps: &[StepReport]) -> Vec<String> {
    let cells = |step: &StepReport| {
        let spread = &step.spread;
        let mut cells = vec![
            step.step.to_owned(),
            spread.count.to_string(),
            (step.busy + step.failed + step.unexpected).to_string(),
        ];
        let times = [spread.p50_ms, spread.p90_ms, spread.p99_ms, spread.p999_ms, spread.max_ms];
        cells.extend(times.map(|milliseconds| format!("{milliseconds:.2}")));
        cells
    };
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    rows.extend(steps.iter().map(cells));
    let widths: Vec<usize> = (0..HEADINGS.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default())
        .collect();
    rows.iter()
        .map(|row| {
            let padded = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            padded.collect::<Vec<_>>().join("  ")
        })
        .collect()
}

fn check_text(check: &CheckReport) -> String {
    let result = match (&check.note, &check.first_offender) {
        (Some(note), _) => note.clone(),
        (None, Some(first)) => format!("{} of {}; first: {first}", check.offences, check.judged),
        (None, None) => format!("{} looked at", check.judged),
    };
    format!("{:<11} {:<26} {result}", check.verdict, check.name)
}
