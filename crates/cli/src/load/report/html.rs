//! The report as one page for a browser: no script, nothing fetched, light and dark, readable on a phone.

use std::fmt::Write;

use super::plot::{
    Frame, HEIGHT, HEIGHT_LOWER, HEIGHT_UPPER, Row, Scale, Series, Shape, duration, over_time, short, spreads,
};
use super::{CheckReport, Report, StepReport, thousands};

/// The look of the page. The colours of the series are told apart by brightness as well.
const STYLE: &str = include_str!("style.css");

/// The page.
pub(in super::super) fn render(report: &Report) -> String {
    let plan = &report.plan;
    let mut page = Page(String::new());
    page.add("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.add("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.add(&format!(
        "<title>Load report: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escape(&plan.room)
    ));
    head(&mut page, report);
    figures(&mut page, report);
    page.add("<div class=\"plots\">\n");
    plots(&mut page, report);
    page.add("</div>\n");
    checks(&mut page, &report.checks);
    steps(&mut page, report);
    details(&mut page, report);
    page.add("</main>\n</body>\n</html>\n");
    page.0
}

struct Page(String);

impl Page {
    fn add(&mut self, text: &str) {
        self.0.write_str(text).expect("writing into a string does not fail");
    }
}

/// Text from outside as text, whatever it contains.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn head(page: &mut Page, report: &Report) {
    let plan = &report.plan;
    let (mark, said) = if report.is_green() {
        ("✓", "all checks green".to_owned())
    } else {
        ("✗", format!("red: {}", report.red_checks()))
    };
    page.add(&format!(
        "<header>\n<h1>Load report</h1>\n<p class=\"verdict {}\">{mark} {}</p>\n</header>\n",
        report.verdict,
        escape(&said)
    ));
    let let_out = plan.let_out.as_ref().map(|rate| format!(", let out at {rate}")).unwrap_or_default();
    let scale = if (plan.time_scale - 1.0).abs() < f64::EPSILON {
        String::new()
    } else {
        format!(", time × {}", plan.time_scale)
    };
    page.add(&format!(
        "<p class=\"lead\">{} visitors in room <b>{}</b>, scenario {}, arriving at {}{let_out}{scale}. {}, {:.0} s.</p>\n",
        thousands(plan.clients),
        escape(&plan.room),
        plan.scenario,
        plan.arrivals,
        report.started_at.get(..16).unwrap_or_default().replace('T', " ") + " UTC",
        report.duration_seconds
    ));
    if report.generator_overloaded {
        page.add("<p class=\"warning\">Generator overloaded: it could not send visitors out in time, so the latencies are partly its own. Give it another machine, or a lower rate.</p>\n");
    }
}

/// The figures most people look for.
fn figures(page: &mut Page, report: &Report) {
    let visitors = &report.visitors;
    let rates = &report.per_second;
    let tau = report.order.position_vs_arrival.map_or_else(|| "–".to_owned(), |tau| format!("{tau:.4}"));
    let tiles = [
        ("admitted", thousands(visitors.admitted), format!("of {} who arrived", thousands(visitors.arrived))),
        ("answers", format!("{}/s", short(rates.answers.round())), "all steps together".to_owned()),
        ("let in", format!("{:.0}/s", rates.admissions), format!("arriving at {:.0}/s", rates.arrivals)),
        (
            "waited",
            duration(report.wait.p50_ms),
            format!("median; 99 % within {}", duration(report.wait.p99_ms)),
        ),
        ("order", tau, "Kendall's tau, place against arrival".to_owned()),
        (
            "too early",
            thousands(visitors.early_claims_refused),
            "claims before their turn, refused".to_owned(),
        ),
    ];
    page.add("<dl class=\"tiles\">\n");
    for (name, value, note) in tiles {
        page.add(&format!("<div><dt>{name}</dt><dd>{value}<small>{note}</small></dd></div>\n"));
    }
    page.add("</dl>\n");
}

fn plots(page: &mut Page, report: &Report) {
    figure(
        page,
        "People over time",
        &[("arrived", "arrived"), ("waiting", "in line"), ("admitted", "admitted")],
        &people(report),
    );
    figure(
        page,
        "Place in line against time",
        &[("arrived", "joined"), ("admitted", "admitted")],
        &places(report),
    );
    figure(
        page,
        "Latency by step, from when it was due",
        &[("p50", "p50"), ("p90", "p90"), ("p99", "p99"), ("p999", "p99.9"), ("max", "max")],
        &latencies(&report.steps),
    );
    let both = format!(
        "{}\n<p class=\"sub\">Answers a second</p>\n{}",
        latency_over_time(report),
        answers_over_time(report)
    );
    figure(page, "Latency over time, all steps", &[("arrived", "p50"), ("late", "p99")], &both);
}

fn figure(page: &mut Page, title: &str, legend: &[(&str, &str)], svg: &str) {
    page.add(&format!("<figure>\n<figcaption>{title}<span class=\"legend\">"));
    for (class, name) in legend {
        page.add(&format!("<span><i class=\"{class}\"></i>{name}</span>"));
    }
    page.add(&format!("</span></figcaption>\n{svg}\n</figure>\n"));
}

#[expect(clippy::cast_precision_loss, reason = "counts of people on a plot")]
fn people(report: &Report) -> String {
    let series = |class, shape, value: fn(&super::SecondReport) -> u64| {
        let points = report.seconds.iter().map(|second| (second.at_seconds, value(second) as f64));
        Series { class, shape, points: std::iter::once((0.0, 0.0)).chain(points).collect() }
    };
    let drawn = [
        series("waiting", Shape::Area, |second| second.waiting),
        series("arrived", Shape::Line, |second| second.arrived),
        series("admitted", Shape::Line, |second| second.admitted),
    ];
    let most = Scale::linear(report.seconds.iter().map(|second| second.arrived as f64));
    let told = "people arrived, in line and admitted over time";
    over_time(&frame(report, told, HEIGHT, most, short), &drawn)
}

#[expect(clippy::cast_precision_loss, reason = "places on a plot")]
fn places(report: &Report) -> String {
    let series = |class, time: fn(&super::PlaceReport) -> f64| {
        let points = report.places.iter().map(|place| (time(place), place.position as f64)).collect();
        Series { class, shape: Shape::Dots, points }
    };
    let drawn =
        [series("admitted", |place| place.admitted_seconds), series("arrived", |place| place.joined_seconds)];
    let most = Scale::linear(report.places.iter().map(|place| place.position as f64));
    let told = "place in line against the time of joining and of admission";
    over_time(&frame(report, told, HEIGHT, most, short), &drawn)
}

fn latencies(steps: &[StepReport]) -> String {
    let rows: Vec<Row> = steps
        .iter()
        .filter(|step| step.spread.count > 0)
        .map(|step| {
            let spread = &step.spread;
            let marks = vec![
                (spread.p50_ms, "p50"),
                (spread.p90_ms, "p90"),
                (spread.p99_ms, "p99"),
                (spread.p999_ms, "p999"),
            ];
            Row { name: step.step.to_owned(), marks, most: spread.max_ms }
        })
        .collect();
    spreads("latency percentiles of each step", duration, &rows)
}

fn latency_over_time(report: &Report) -> String {
    // A second without answers has no latency; it must not drag the line to the ground.
    let answered = || report.seconds.iter().filter(|second| second.answers > 0);
    let series = |class, value: fn(&super::SecondReport) -> f64| {
        let points = answered().map(|second| (second.at_seconds, value(second))).collect();
        Series { class, shape: Shape::Line, points }
    };
    let drawn = [series("arrived", |second| second.p50_ms), series("late", |second| second.p99_ms)];
    let values: Vec<f64> = answered().flat_map(|second| [second.p50_ms, second.p99_ms]).collect();
    let scale = Scale::logarithmic(values.into_iter());
    let told = "median and 99th percentile of latency over time";
    over_time(&frame(report, told, HEIGHT_UPPER, scale, duration), &drawn)
}

#[expect(clippy::cast_precision_loss, reason = "counts on a plot")]
fn answers_over_time(report: &Report) -> String {
    // The last second is a broken one.
    let whole = report.seconds.len().saturating_sub(1).max(1);
    let seconds = report.seconds.get(..whole).unwrap_or_default();
    let points: Vec<(f64, f64)> =
        seconds.iter().map(|second| (second.at_seconds, second.answers as f64)).collect();
    let most = Scale::linear(points.iter().map(|point| point.1));
    let drawn = [Series { class: "waiting", shape: Shape::Area, points }];
    over_time(&frame(report, "answers a second over time", HEIGHT_LOWER, most, short), &drawn)
}

fn frame(report: &Report, told: &'static str, height: f64, up: Scale, up_label: fn(f64) -> String) -> Frame {
    let last = report.seconds.last().map_or(report.duration_seconds, |second| second.at_seconds);
    Frame { told, height, across: Scale::linear_to(last), up, up_label }
}

fn checks(page: &mut Page, checks: &[CheckReport]) {
    page.add("<h2>Checks</h2>\n<ul class=\"checks\">\n");
    for check in checks {
        let mark = match check.verdict {
            "green" => "✓",
            "red" => "✗",
            _ => "–",
        };
        let result = match (&check.note, check.offences) {
            (Some(note), _) => format!("not judged: {note}"),
            (None, 0) => format!("{} looked at", thousands(check.judged)),
            (None, offences) => format!("{} of {} offend", thousands(offences), thousands(check.judged)),
        };
        let class = check.verdict.replace(' ', "-");
        page.add(&format!(
            "<li class=\"{class}\"><b>{mark} {}</b> <span>{}</span> <em>{}</em>",
            check.name,
            check.meaning,
            escape(&result)
        ));
        if let Some(first) = &check.first_offender {
            page.add(&format!("<code>{}</code>", escape(first)));
        }
        page.add("</li>\n");
    }
    page.add("</ul>\n");
}

fn steps(page: &mut Page, report: &Report) {
    page.add("<h2>Steps</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>step</th><th>answers</th><th>errors</th>");
    page.add("<th>p50</th><th>p90</th><th>p99</th><th>p99.9</th><th>max</th></tr></thead>\n<tbody>\n");
    for step in &report.steps {
        let spread = &step.spread;
        let errors = step.busy + step.failed + step.unexpected;
        page.add(&format!(
            "<tr><th>{}</th><td>{}</td><td>{}</td>",
            step.step,
            thousands(spread.count),
            thousands(errors)
        ));
        for milliseconds in [spread.p50_ms, spread.p90_ms, spread.p99_ms, spread.p999_ms, spread.max_ms] {
            page.add(&format!("<td>{}</td>", duration(milliseconds)));
        }
        page.add("</tr>\n");
    }
    page.add("</tbody>\n</table></div>\n");
    page.add("<p class=\"note\">Times count from when a question was due, so a generator that falls behind cannot flatter the server. Errors are answers that said “busy”, questions without an answer, and unexpected answers.</p>\n");
    if let Some(failure) = &report.first_failure {
        page.add(&format!(
            "<p class=\"note\">First question without an answer: <code>{}</code></p>\n",
            escape(failure)
        ));
    }
}

fn details(page: &mut Page, report: &Report) {
    let plan = &report.plan;
    let tau = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |tau| format!("{tau:.4}"));
    let lag = &report.arrival_lag;
    let mut rows = vec![
        ("target", plan.target.clone()),
        ("ended by", report.ended_by.to_owned()),
        ("looks at the line", format!("every {:.2} s ± 20 %", plan.poll_seconds)),
        ("sockets shared by visitors", format!("at most {}", thousands(plan.connections))),
        ("seed", plan.seed.to_string()),
        ("tau, place against arrival", tau(report.order.position_vs_arrival)),
        ("tau, admission against place", tau(report.order.admission_vs_position)),
        ("tau, admission against arrival", tau(report.order.admission_vs_arrival)),
        ("arrival clock behind", format!("p99 {}, max {}", duration(lag.p99_ms), duration(lag.max_ms))),
    ];
    if let Some(seen) = &report.served_until_seen {
        rows.push((
            "served until seen",
            format!("p50 {}, p99 {}", duration(seen.p50_ms), duration(seen.p99_ms)),
        ));
    }
    let visitors = &report.visitors;
    rows.push((
        "ended",
        format!(
            "admitted {}, left {}, refused {}, gave up {}, unfinished {}",
            visitors.admitted, visitors.left, visitors.refused, visitors.gave_up, visitors.unfinished
        ),
    ));
    for (name, count) in &visitors.refused_by_name {
        rows.push(("refused", format!("{name}: {count}")));
    }
    page.add("<h2>Details</h2>\n<dl class=\"details\">\n");
    for (name, value) in rows {
        page.add(&format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", escape(&value)));
    }
    page.add(&format!("</dl>\n<footer>{}, {}</footer>\n", escape(&report.tool), report.started_at));
}
