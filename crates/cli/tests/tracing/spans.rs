//! What is exported of requests, and what origins learn of it.

use std::time::Duration;

use anteroom_testkit::{Asking, Browser, Request, ReservedPort, SeenRequest, Server, Site};

use crate::collector::{Collector, Exported};
use crate::support::BINARY;

const TIMEOUT: Duration = Duration::from_mins(1);
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";
const STATE: &str = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7";
const BAGGAGE: &str = "userId=alice";

/// A site, and a server before it that exports to this address, soon.
fn stand(endpoint: &str) -> (Server, Site) {
    let site = Site::open();
    let config = format!(
        "origin = \"{}\"\notlp_endpoint = \"{endpoint}\"\n[[room]]\nid = \"Hall\"\ninlet = \"max-size\"\n\
         total_active_users = 1\njoin = \"open\"\n",
        site.url()
    );
    let server = Server::builder(BINARY).memory().config(config).env("OTEL_BSP_SCHEDULE_DELAY", "50");
    (server.start().expect("the server starts"), site)
}

/// A visitor who is inside.
fn inside(server: &Server) -> Browser {
    let mut browser = Browser::new(server.public());
    browser.enter("/", Asking::Every(Duration::from_millis(50)), TIMEOUT);
    browser
}

/// A request that belongs to a trace, sampled or not.
fn traced(path: &str, flags: &str) -> Request {
    Request::new("GET", path)
        .header("traceparent", &format!("00-{TRACE}-{CALLER}-{flags}"))
        .header("tracestate", STATE)
        .header("baggage", BAGGAGE)
}

/// Trace, span and flags that the site was told.
#[track_caller]
fn told(seen: &SeenRequest) -> (String, String, String) {
    let parent = seen.header("traceparent").unwrap_or_else(|| panic!("no traceparent: {seen:?}"));
    let parts: Vec<&str> = parent.split('-').collect();
    let [version, trace, span, flags] = parts[..] else { panic!("{parent}") };
    assert_eq!(version, "00", "{parent}");
    (trace.to_owned(), span.to_owned(), flags.to_owned())
}

fn names(phases: &[Exported]) -> Vec<&str> {
    phases.iter().map(|phase| phase.name.as_str()).collect()
}

#[test]
fn a_request_goes_on_as_part_of_its_trace_and_its_phases_are_exported() {
    let collector = Collector::open();
    let (server, site) = stand(&collector.url());
    let mut browser = inside(&server);
    assert!(browser.send(traced("/tickets?secret=of-the-visitor", "01")).is_from_site());

    let (request, phases) = collector.request("the request of a trace", |span| span.parent == CALLER);
    assert_eq!(
        (request.trace.as_str(), request.name.as_str(), request.service.as_str()),
        (TRACE, "GET", "anteroom")
    );
    assert_eq!(
        ["http.response.status_code", "anteroom.room", "anteroom.listener"].map(|key| request.attribute(key)),
        ["200", "Hall", "public"]
    );
    let expected = [
        "check",
        "strip prefix",
        "CDN secret",
        "gateway",
        "identify",
        "classify",
        "limit",
        "verdict",
        "proxy",
        "account",
    ];
    assert_eq!(names(&phases), expected);

    let seen = site.last_seen("/tickets");
    let proxy = phases.iter().find(|phase| phase.name == "proxy").expect("it was passed on");
    assert_eq!(
        told(&seen),
        (TRACE.to_owned(), proxy.id.clone(), "01".to_owned()),
        "the site's spans are below ours"
    );
    assert_eq!((seen.header("tracestate"), seen.header("baggage")), (Some(STATE), Some(BAGGAGE)));

    let sent = String::from_utf8_lossy(&collector.bytes()).into_owned();
    for content in ["of-the-visitor", "/tickets", "alice", "anteroom-Hall"] {
        assert!(!sent.contains(content), "{content} was exported");
    }
}

#[test]
fn calls_of_the_api_have_their_phases_and_begin_a_trace_of_their_own() {
    let collector = Collector::open();
    let (server, _site) = stand(&collector.url());
    let mut api = server.visitor();
    let joined = api.send(&Request::post_json("/.anteroom/join", &serde_json::json!({"room": "Hall"})));
    assert_eq!(joined.expect("an answer").status, 200);
    let (join, phases) = collector.request("a join", |span| {
        span.attribute("anteroom.listener") == "public" && span.attribute("http.request.method") == "POST"
    });
    assert_eq!((join.parent.as_str(), join.attribute("http.response.status_code")), ("", "200"));
    assert_eq!(names(&phases).last(), Some(&"fast path"), "{phases:#?}");

    assert_eq!(server.operator().get("/rooms/Hall").expect("an answer").status, 200);
    let (call, phases) =
        collector.request("an operator's call", |span| span.attribute("http.route") == "/rooms/{id}");
    assert_eq!(names(&phases), ["match", "authenticate", "authorize", "handler", "account"]);
    assert_ne!(call.trace, join.trace);
}

#[test]
fn what_is_not_sampled_is_not_exported_and_its_context_goes_on() {
    let collector = Collector::open();
    let (server, site) = stand(&collector.url());
    let mut browser = inside(&server);
    assert!(browser.send(traced("/quiet", "00")).is_from_site());
    let seen = site.last_seen("/quiet");
    let (trace, _, flags) = told(&seen);
    assert_eq!((trace.as_str(), flags.as_str(), seen.header("tracestate")), (TRACE, "00", Some(STATE)));
    // One that comes later is exported, so the one before it would have been.
    assert!(browser.send(Request::new("HEAD", "/loud")).is_from_site());
    collector.request("a later request", |span| span.name == "HEAD");
    assert!(collector.spans().iter().all(|span| span.trace != TRACE));
    let (trace, ..) = told(&site.last_seen("/loud"));
    assert_ne!(trace, TRACE, "a request without a trace begins one");
}

#[test]
fn a_server_that_ends_sends_what_it_has_left() {
    let collector = Collector::open();
    let (mut server, _site) = stand(&collector.url());
    // From the next start on it would send after an hour.
    server.set_env("OTEL_BSP_SCHEDULE_DELAY", "3600000");
    server.restart().expect("it starts again");
    let mut browser = inside(&server);
    assert!(browser.send(traced("/tickets", "01")).is_from_site());
    assert!(collector.spans().iter().all(|span| span.trace != TRACE));
    let ended = server.terminate().expect("it ends");
    assert!(ended.status.success(), "{}", ended.stderr);
    collector.request("the request of a trace", |span| span.parent == CALLER);
}

#[test]
fn without_a_collector_visitors_are_served_all_the_same() {
    let nobody = ReservedPort::take();
    let (mut server, site) = stand(&format!("http://127.0.0.1:{}", nobody.number()));
    let mut browser = inside(&server);
    for _ in 0..100 {
        assert!(browser.send(traced("/tickets", "01")).is_from_site());
    }
    assert_eq!(told(&site.last_seen("/tickets")).0, TRACE);
    let ended = server.terminate().expect("it ends");
    assert!(ended.status.success() && !ended.stderr.contains("panicked"), "{}", ended.stderr);
}

#[test]
fn nothing_is_touched_and_nothing_made_up_while_no_collector_is_named() {
    let site = Site::open();
    let config = format!(
        "origin = \"{}\"\n[[room]]\nid = \"Hall\"\ninlet = \"max-size\"\ntotal_active_users = 1\n",
        site.url()
    );
    let server = Server::builder(BINARY).memory().config(config).start().expect("the server starts");
    let mut browser = inside(&server);
    assert!(browser.send(traced("/tickets", "01")).is_from_site());
    assert_eq!(told(&site.last_seen("/tickets")), (TRACE.to_owned(), CALLER.to_owned(), "01".to_owned()));
    assert!(browser.send(Request::new("GET", "/plain")).is_from_site());
    assert_eq!(site.last_seen("/plain").header("traceparent"), None);
}
