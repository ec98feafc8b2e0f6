//! The way of visitors: in, waiting, in at the turn, and out.

use std::time::Duration;

use anteroom_testkit::{Browser, Chromium, DOOR, Wire, require_chromium, wait_until};
use serde_json::json;

use crate::fronts::Front;
use crate::stand::{COOKIE, Stand, TIMEOUT, enter, keep_asking};

/// A short visit.
pub(crate) const SESSION: Duration = Duration::from_secs(4);
/// More than fits into the buffers on the way.
const LARGE_BODY: usize = 100_000;

/// One visitor after the other, with what matters most of each scenario below.
pub(crate) fn walk(front: Front) {
    let Some(stand) = Stand::open(front) else { return };
    let arrived = stand.browser().open_once("/page?a=b");
    let location = arrived.header("Location").unwrap_or_default();
    assert_eq!((arrived.status, location.starts_with(DOOR)), (303, true), "{arrived:?}");
    let mut first = stand.inside();
    let seen = stand.site.last_seen("/confirmed");
    assert_eq!(seen.header("Anteroom-Room"), Some("shop"), "{seen:?}");
    assert_eq!(stand.site.last_seen("/").visit(), seen.visit(), "one visit");
    assert!(seen.visit().is_some(), "{seen:?}");
    assert!(first.fetch("/data?a=b").is_from_site());
    assert_eq!(stand.site.last_seen("/data").target, "/data?a=b");

    let (mut second, page) = stand.in_line();
    assert_eq!(page.shown_people_ahead(), Some(0), "{page:?}");
    stand.assert_refused(&second.copy().post("/buy", "what=this"));
    stand.assert_refused(&stand.browser().fetch("/data"));
    assert_eq!(second.open("/").shown_position(), page.shown_position(), "the place is kept");

    stand.end_visit(&mut first);
    enter(&mut second, "/shop?for=me");
    assert!(second.post("/buy", "what=this").is_from_site());
    assert_eq!(stand.site.last_seen("/buy").body, b"what=this");
    assert_ne!(stand.site.last_seen("/buy").visit(), seen.visit());
    stand.assert_refused(&first.fetch("/again"));
    assert!(!stand.site.request_log().iter().any(|seen| seen.path() == "/again"));
}

pub(crate) fn the_waiting_page_is_live_in_a_browser(front: Front) {
    if !require_chromium() {
        return;
    }
    let Some(stand) = Stand::open(front) else { return };
    let mut first = stand.inside();
    let (mut second, _) = stand.in_line();
    let third = Chromium::open();
    third.go(&stand.url("/start?a=b"));
    let situation = || third.attribute("html", "data-situation").unwrap_or_default();
    let ahead = || third.text("#ahead").unwrap_or_default();
    wait_until("the third visitor waits", TIMEOUT, || situation() == "waiting");
    assert_eq!(third.address(), stand.url("/start?a=b"), "the address stays the requested one");
    assert_eq!(ahead(), "1");
    assert!(third.text("#position").is_some_and(|position| !position.is_empty()));
    let source = || third.attribute("html", "data-live").unwrap_or_default();
    wait_until("the page hears by a stream", TIMEOUT, || source() == "stream");
    third.run("window.markOfTest = true", &[]);
    stand.set("total_active_users", &json!(2));
    wait_until("the third visitor is next", TIMEOUT, || ahead() == "0" || ahead().is_empty());
    assert_eq!(third.run("return window.markOfTest === true", &[]), true, "it came live");
    enter(&mut second, "/");
    stand.end_visit(&mut first);
    wait_until("the third visitor is inside by themselves", TIMEOUT, || {
        third.text("p").is_some_and(|text| text == "GET /start?a=b")
    });
}

pub(crate) fn a_post_while_waiting_is_refused_and_said_to_be(front: Front) {
    let Some(stand) = Stand::open(front) else { return };
    let mut first = stand.inside();
    let (mut second, page) = stand.in_line();
    let body = "x".repeat(LARGE_BODY);
    // Each over a connection of its own, which may end before the whole body was read.
    let answers = [
        second.copy().post("/buy", "what=this"),
        second.copy().post("/buy", &body),
        stand.browser().post("/buy", ""),
    ];
    for answer in answers {
        stand.assert_refused(&answer);
        assert_eq!(answer.header("Location"), None, "no redirect makes a GET of it: {answer:?}");
    }
    assert!(!stand.site.request_log().iter().any(|seen| seen.path() == "/buy"));
    assert_eq!(second.open("/").shown_position(), page.shown_position(), "the place is kept");
    stand.end_visit(&mut first);
    enter(&mut second, "/");
    assert!(second.post("/buy", &body).is_from_site());
    assert_eq!(stand.site.last_seen("/buy").body.len(), LARGE_BODY);
}

pub(crate) fn the_site_ends_a_visit(front: Front) {
    let Some(stand) = Stand::open(front) else { return };
    let mut first = stand.inside();
    let mut thief = first.copy();
    stand.end_visit(&mut first);
    stand.wait_for_figure("active", 0);
    stand.assert_refused(&thief.fetch("/after"));
    stand.assert_refused(&first.fetch("/after"));
    assert!(!stand.site.request_log().iter().any(|seen| seen.path() == "/after"));
    // The slot is free for the next.
    stand.inside();
}

pub(crate) fn a_page_that_only_fetches_stays_inside(front: Front) {
    let Some(stand) = Stand::open(front) else { return };
    stand.set("session_duration", &json!(SESSION.as_secs()));
    let mut browser = stand.inside();
    let visit = stand.site.last_seen("/confirmed").visit();
    let asked = keep_asking(&mut browser, SESSION * 5 / 2, SESSION);
    if asked.was_out {
        return;
    }
    assert_eq!(stand.site.last_seen("/asks").visit(), visit, "one visit all the time");
    assert!(asked.cookies_set >= 2, "the cookie was renewed {} times", asked.cookies_set);
    assert_eq!(stand.figure("active"), 1);
    // And silence ends it, also for a browser that has kept the cookie.
    let value = browser.cookies.get(COOKIE).map(str::to_owned);
    stand.wait_for_figure("active", 0);
    if let Some(value) = value {
        browser.cookies.put(COOKIE, &value);
    }
    stand.assert_refused(&browser.fetch("/silent"));
}

/// A request for a WebSocket, as a browser sends it.
fn socket(stand: &Stand, browser: &Browser) -> (Wire, u16) {
    let cookies = browser.cookies.header().map_or(String::new(), |cookies| format!("Cookie: {cookies}\r\n"));
    let mut wire = Wire::connect(stand.address, TIMEOUT).expect("it connects");
    let upgrade = format!(
        "GET /socket HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-Fetch-Mode: websocket\r\n{cookies}\r\n",
        stand.address
    );
    wire.write(upgrade.as_bytes()).expect("it is sent");
    let answer = wire.read_answer().expect("an answer").expect("an answer");
    (wire, answer.status)
}

/// Whether the site sends back what it is sent.
fn echoes(wire: &mut Wire) -> bool {
    // Written as a response, so that the client's own parser can read it back.
    let sent = wire.write(b"HTTP/1.1 299 Echo\r\nContent-Length: 0\r\n\r\n");
    sent.is_ok() && matches!(wire.read_answer(), Ok(Some(answer)) if answer.status == 299)
}

pub(crate) fn a_websocket_is_for_those_inside(front: Front) {
    let Some(stand) = Stand::open(front) else { return };
    let first = stand.inside();
    let (second, _) = stand.in_line();
    let (mut wire, status) = socket(&stand, &first);
    assert_eq!(status, 101);
    for _ in 0..3 {
        assert!(echoes(&mut wire));
    }
    assert_eq!(stand.site.last_seen("/socket").visit(), stand.site.last_seen("/confirmed").visit());
    let requests = stand.site.requests();
    let (_wire, status) = socket(&stand, &second);
    assert_eq!(status, stand.front.waiting_status());
    let (_wire, status) = socket(&stand, &stand.browser());
    assert_eq!(status, stand.front.refusal_status());
    assert_eq!(stand.site.requests(), requests);
    assert!(echoes(&mut wire), "the open one goes on");
}

pub(crate) fn a_stop_and_a_start_of_anteroom_keep_visits_and_places(front: Front) {
    let Some(mut stand) = Stand::open(front) else { return };
    let mut first = stand.inside();
    let visit = stand.site.last_seen("/confirmed").visit();
    let (mut second, page) = stand.in_line();
    stand.server.terminate().expect("it ends");
    let requests = stand.site.requests();
    if front != Front::Gateway {
        for browser in [&mut first, &mut second, &mut stand.browser()] {
            let closed = browser.open("/closed");
            assert!(!closed.is_from_site() && closed.status >= 500, "{closed:?}");
            assert!(browser.post("/closed", "").status >= 500);
            assert!(browser.open("/.anteroom/line").status >= 500);
        }
        assert_eq!(stand.site.requests(), requests);
    }
    stand.server.restart().expect("it starts again");
    wait_until("the visit goes on", TIMEOUT, || {
        first.try_open("/after").is_ok_and(|answer| answer.is_from_site())
    });
    assert_eq!(stand.site.last_seen("/after").visit(), visit);
    let again = second.open("/");
    stand.assert_waits(&again);
    assert_eq!(again.shown_position(), page.shown_position());
    stand.end_visit(&mut first);
    enter(&mut second, "/");
}
