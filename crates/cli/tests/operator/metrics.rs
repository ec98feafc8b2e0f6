//! `/metrics`: every line of it is read by the rules of `OpenMetrics` 1.0, and what happened is found in the figures.

use std::collections::BTreeMap;

use anteroom_testkit::{Client, Line, Request, Server};
use serde_json::json;

use crate::support::BINARY;

/// Every sample by its whole name, labels included, as it is written.
type Samples = BTreeMap<String, f64>;

/// Reads an exposition strictly: what is not allowed panics with its line.
fn read(text: &str) -> Samples {
    let mut samples = Samples::new();
    let mut types: BTreeMap<String, String> = BTreeMap::new();
    let mut family = String::new();
    assert!(text.ends_with("# EOF\n"), "the end is marked:\n{text}");
    let body = text.strip_suffix("# EOF\n").unwrap_or_default();
    for line in body.lines() {
        if let Some(metadata) = line.strip_prefix("# ") {
            let words: Vec<&str> = metadata.splitn(3, ' ').collect();
            let [kind, name, rest] = words[..] else { panic!("unfinished: {line}") };
            assert!(is_name(name), "{line}");
            // A family's lines stand together, so its name never comes back after another one.
            assert!(family == name || !types.contains_key(name), "{name} is interrupted: {line}");
            name.clone_into(&mut family);
            match kind {
                "HELP" => assert!(!rest.is_empty(), "{line}"),
                "UNIT" => assert!(name.ends_with(&format!("_{rest}")), "{line}"),
                "TYPE" => {
                    assert!(["counter", "gauge", "histogram", "info", "unknown"].contains(&rest), "{line}");
                    assert!(types.insert(name.to_owned(), rest.to_owned()).is_none(), "typed twice: {line}");
                }
                _ => panic!("no such metadata: {line}"),
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
        let name = series.split('{').next().unwrap_or_default();
        let suffixes: &[&str] = match types.get(&family).map(String::as_str) {
            Some("counter") => &["_total", "_created"],
            Some("gauge") => &[""],
            Some("histogram") => &["_bucket", "_count", "_sum", "_created"],
            other => panic!("a sample of type {other:?}: {line}"),
        };
        let suffix = name.strip_prefix(family.as_str());
        assert!(suffix.is_some_and(|suffix| suffixes.contains(&suffix)), "not of {family}: {line}");
        if let Some(labels) = series.strip_prefix(name).filter(|labels| !labels.is_empty()) {
            let inner = labels.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            read_labels(inner.unwrap_or_else(|| panic!("unbalanced: {line}")), line);
        }
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("not a number: {line}"));
        assert!(value.is_finite() && value >= 0.0, "{line}");
        assert!(samples.insert(series.to_owned(), value).is_none(), "twice: {line}");
    }
    samples
}

fn read_labels(labels: &str, line: &str) {
    let mut rest = labels;
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("no label: {line}"));
        assert!(is_name(name) && !name.contains(':'), "{line}");
        // No label of ours can hold a character that needs an escape.
        let (value, after) = after.split_once('"').unwrap_or_else(|| panic!("an open label: {line}"));
        assert!(!value.contains(['\\', '\n']), "{line}");
        rest = after.strip_prefix(',').unwrap_or(after);
        assert!(after.is_empty() || after.len() > rest.len(), "no comma between labels: {line}");
    }
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
    !name.is_empty() && !name.as_bytes()[0].is_ascii_digit() && name.bytes().all(allowed)
}

fn samples(operator: &mut Client) -> Samples {
    let answer = operator.get("/metrics").expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    let expected = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(answer.header("Content-Type"), Some(expected));
    read(&answer.text())
}

/// The name of the series that counts requests so answered.
fn requests(listener: &str, route: &str, status: u16) -> String {
    format!("anteroom_requests_total{{listener=\"{listener}\",route=\"{route}\",status=\"{status}\"}}")
}

#[track_caller]
fn assert_shows(samples: &Samples, expected: &[(&str, f64)]) {
    for (name, value) in expected {
        let found = samples.get(*name).unwrap_or_else(|| panic!("no {name} in {samples:#?}"));
        assert!((found - value).abs() < 0.5, "{name} is {found}, not {value}");
    }
}

#[test]
fn every_line_is_openmetrics_and_the_figures_tell_what_happened() {
    let config =
        "[[room]]\nid = \"Hall\"\n[[room]]\nid = \"a.b-c_9\"\ninlet = \"max-size\"\ntotal_active_users = 7\n";
    let server = Server::builder(BINARY).config(config).memory().start().unwrap();
    let (mut hall, mut small) = (server.line("Hall"), server.line("a.b-c_9"));
    let at_first = samples(&mut hall.operator);
    assert_shows(&at_first, &[("anteroom_joins_total", 0.0), ("anteroom_room_waiting{room=\"Hall\"}", 0.0)]);

    let ids = hall.join_many(4);
    small.join();
    hall.advance(2);
    let tokens = hall.tokens(&ids[0]);
    assert_eq!(hall.tokens(&ids[0]), tokens);
    assert_eq!(hall.claim(&ids[3]).status, 202);
    assert_eq!(hall.close(&ids[0], 1).status, 200);
    assert_eq!(hall.public.get("/nothing/of/the/kind").unwrap().status, 404);
    let figures = samples(&mut hall.operator);
    assert_shows(
        &figures,
        &[
            ("anteroom_joins_total", 5.0),
            ("anteroom_sessions_begun_total", 1.0),
            ("anteroom_passes_signed_total", 1.0),
            ("anteroom_room_waiting{room=\"Hall\"}", 3.0),
            ("anteroom_room_serving{room=\"Hall\"}", 2.0),
            ("anteroom_room_active{room=\"Hall\"}", 0.0),
            ("anteroom_room_offers{room=\"Hall\"}", 1.0),
            ("anteroom_room_completed{room=\"Hall\"}", 1.0),
            ("anteroom_room_serving{room=\"a.b-c_9\"}", 1.0),
            ("anteroom_room_capacity{room=\"a.b-c_9\"}", 7.0),
        ],
    );
    let counted = [
        (requests("public", "/assign_queue_num", 200), 5.0),
        (requests("public", "/generate_token", 200), 2.0),
        (requests("public", "/generate_token", 202), 1.0),
        // The path that was asked for is a stranger's text, and one series for each would be endless.
        (requests("public", "unknown", 404), 1.0),
        (requests("private", "/increment_serving_counter", 200), 1.0),
        (requests("private", "/update_session", 200), 1.0),
        (requests("private", "/metrics", 200), 1.0),
    ];
    let counted: Vec<(&str, f64)> = counted.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_shows(&figures, &counted);
    assert!(!figures.keys().any(|name| ids.iter().any(|id| name.contains(id.as_str()))));
}

#[test]
fn what_moves_a_frontier_and_what_holds_it_is_in_the_figures() {
    let config = "[[room]]\nid = \"Hall\"\ninlet = \"adaptive\"\nadaptive_floor = 3\ntotal_active_users = 9\nround_seconds = 3600\n\
                  enter_by_seconds = 3600\nnew_users_per_minute = 120\ninterval_seconds = 60\n[[room]]\nid = \"Fair\"\ndiscipline = \"auction\"\n\
                  round_seconds = 3600\n";
    let server = Server::builder(BINARY).config(config).memory().start().unwrap();
    let mut hall = server.line("Hall");
    let report = json!({"reporter": "web-1", "free": 8, "latency_p95_ms": 20});
    for room in ["Hall", "Fair"] {
        let path = format!("/rooms/{room}/capacity");
        assert_eq!(hall.operator.post(&path, &report).unwrap().status, 200);
    }
    let ids = hall.join_many(5);
    hall.tokens(&ids[0]);
    let room = hall.operator.get("/rooms/Hall").unwrap().json();
    let figures = samples(&mut hall.operator);
    assert_shows(
        &figures,
        &[
            ("anteroom_room_capacity{room=\"Hall\"}", 3.0),
            ("anteroom_room_adaptive_capacity{room=\"Hall\"}", 3.0),
            ("anteroom_room_adaptive_adjustment{room=\"Hall\",adjustment=\"no-samples\"}", 1.0),
            ("anteroom_room_adaptive_adjustment{room=\"Hall\",adjustment=\"raised\"}", 0.0),
            ("anteroom_room_rate_budget{room=\"Hall\"}", 117.0),
            ("anteroom_room_frontier_moves_total{room=\"Hall\",by=\"adaptive\"}", 3.0),
            ("anteroom_room_frontier_moves_total{room=\"Hall\",by=\"hand\"}", 0.0),
            ("anteroom_room_steps_missed_total{room=\"Hall\"}", 0.0),
            ("anteroom_room_standstill{room=\"Hall\",reason=\"at-capacity\"}", 1.0),
            ("anteroom_room_standstill{room=\"Hall\",reason=\"no-report\"}", 0.0),
            ("anteroom_room_standstill{room=\"Fair\",reason=\"nobody-waiting\"}", 1.0),
            ("anteroom_room_reporters_heard{room=\"Hall\"}", 1.0),
            ("anteroom_room_reporters_silent{room=\"Hall\"}", 0.0),
            ("anteroom_room_free_reported{room=\"Hall\"}", 8.0),
            ("anteroom_room_passes_in_flight{room=\"Hall\"}", 1.0),
            // Eight, less the pass on its way, less two offers.
            ("anteroom_room_free{room=\"Hall\"}", 5.0),
            ("anteroom_room_alarms_firing{room=\"Hall\"}", 0.0),
            ("anteroom_room_auction_free{room=\"Hall\"}", 0.0),
            ("anteroom_room_auction_wins{room=\"Fair\"}", 0.0),
            ("anteroom_room_auction_spare{room=\"Fair\"}", 0.0),
            ("anteroom_room_estimates_checked_total{room=\"Hall\"}", 0.0),
            ("anteroom_room_estimates_within_p90_total{room=\"Hall\"}", 0.0),
        ],
    );
    // The same words as the API has.
    assert_eq!(room["moves"]["adaptive"], 3);
    let reasons = figures.keys().filter(|name| name.starts_with("anteroom_room_standstill{room=\"Hall\""));
    let holding: Vec<f64> = reasons.map(|name| figures[name]).filter(|value| *value > 0.0).collect();
    assert_eq!(holding.len(), 1, "one reason at a time");
    // Of a room that has no adaptive law there is nothing to say.
    assert!(!figures.keys().any(|name| name.starts_with("anteroom_room_adaptive") && name.contains("Fair")));
}

#[test]
fn reads_are_counted_alike_on_the_short_way_and_on_the_careful_one() {
    let server = Server::builder(BINARY).memory().start().unwrap();
    let mut line = server.line("Sample");
    let id = line.join();
    let figure = |line: &mut Line, target: &str, etag: &str| {
        line.public.send(&Request::new("GET", target).header("If-None-Match", etag)).expect("an answer")
    };
    for path in ["serving_num", "waiting_num"] {
        // An escaped name is not worth a short way.
        for target in [format!("/{path}?event_id=Sample"), format!("/{path}?event_id=%53ample")] {
            let first = figure(&mut line, &target, "\"none\"");
            let etag = first.header("ETag").expect("figures have an ETag").to_owned();
            assert_eq!((first.status, figure(&mut line, &target, &etag).status), (200, 304), "{target}");
        }
        assert_eq!(line.public.get(&format!("/{path}?event_id=Other")).unwrap().status, 400);
    }
    for event in ["Sample", "%53ample"] {
        let place = line.public.get(&format!("/queue_num?event_id={event}&request_id={id}")).unwrap();
        assert_eq!(place.status, 200);
    }
    let figures = samples(&mut line.operator);
    for (route, status, count) in [
        ("/serving_num", 200, 2.0),
        ("/serving_num", 304, 2.0),
        ("/serving_num", 400, 1.0),
        ("/waiting_num", 200, 2.0),
        ("/waiting_num", 304, 2.0),
        ("/waiting_num", 400, 1.0),
        ("/queue_num", 200, 2.0),
    ] {
        assert_shows(&figures, &[(requests("public", route, status).as_str(), count)]);
    }
}

#[test]
fn metrics_open_opens_the_metrics_and_nothing_else() {
    let server = Server::builder(BINARY).config("metrics_open = true\n").memory().start().unwrap();
    let mut line = server.line("Sample");
    line.join();
    let mut anonymous = Client::new(server.private());
    assert_shows(&samples(&mut anonymous), &[("anteroom_joins_total", 1.0)]);
    let mut mistaken = Client::new(server.private()).with_bearer("a-wrong-key-is-no-worse-than-none");
    assert_shows(&samples(&mut mistaken), &[("anteroom_joins_total", 1.0)]);
    for path in ["/num_active_tokens?event_id=Sample", "/expired_tokens?event_id=Sample", "/metrics/", "/"] {
        assert_eq!(anonymous.get(path).unwrap().status, 401, "{path}");
    }
    assert_eq!(server.visitor().get("/metrics").unwrap().status, 404, "the public listener has none");
}
