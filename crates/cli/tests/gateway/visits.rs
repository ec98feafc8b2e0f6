//! How long a visit lasts: renewed by requests, up to a limit, or not at all; and connections that were upgraded, which keep
//! their visit alive and end with it.
//!
//! Nothing here depends on how fast the machine is: somebody who is turned away must have been silent for as long as a visit lasts
//! without a request, or the limit must have been reached.

use std::time::{Duration, Instant};

use anteroom_testkit::{Browser, SetCookie, Wire, full, now, pause, wait_until};

use crate::stand::{COOKIE, SOON, Stand, TIMEOUT, assert_not_inside};

const SESSION: Duration = Duration::from_secs(4);
/// Clocks of tests and servers tell whole seconds here and there.
const ROUNDING: Duration = Duration::from_secs(1);
/// How long a socket may take to answer.
const ECHO_MAX: Duration = Duration::from_secs(30);

/// What became of somebody who asked again and again.
struct Stayed {
    /// When the first answer of the site was there.
    since: Instant,
    /// When the last request that the site answered was sent.
    last_in: Instant,
    /// When the visitor was turned away, if that happened.
    out: Option<Instant>,
    /// How often the cookie was set.
    cookies_set: usize,
}

/// Asks again and again, without a pause to speak of, for so long or until turned away.
fn keep_asking(browser: &mut Browser, for_as_long_as: Duration) -> Stayed {
    let since = now();
    let mut stayed = Stayed { since, last_in: since, out: None, cookies_set: 0 };
    while since.elapsed() < for_as_long_as {
        let sent = now();
        let answer = browser.fetch("/asks");
        if !answer.is_from_site() {
            assert_not_inside(&answer);
            stayed.out = Some(now());
            break;
        }
        stayed.last_in = sent;
        stayed.cookies_set += answer.set_cookies().iter().filter(|cookie| cookie.name == COOKIE).count();
        for _ in 0..10 {
            pause();
        }
    }
    stayed
}

#[test]
fn requests_keep_a_visit_alive_and_silence_ends_it() {
    let stand = Stand::open(1, "session_duration = 4");
    let mut browser = stand.inside();
    let visit = stand.site.last_seen("/confirmed").visit();
    let stayed = keep_asking(&mut browser, SESSION * 3);
    if let Some(out) = stayed.out {
        assert!(
            out.duration_since(stayed.last_in) + ROUNDING >= SESSION,
            "turned away although the visit was renewed"
        );
        return;
    }
    assert_eq!(stand.site.last_seen("/asks").visit(), visit, "one visit all the time");
    assert!(stayed.cookies_set >= 3, "renewed {} times", stayed.cookies_set);
    let asked = stand.site.request_log().iter().filter(|seen| seen.path() == "/asks").count();
    assert!(stayed.cookies_set * 2 < asked, "sealed anew {} times in {asked} answers", stayed.cookies_set);
    assert_eq!(stand.figure("active"), 1);
    let value = browser.cookies.get(COOKIE).map(str::to_owned);
    stand.wait_for_figure("expired", 1);
    assert!(stayed.last_in.elapsed() >= SESSION, "the slot was free while the cookie worked");
    if let Some(value) = value {
        browser.cookies.put(COOKIE, &value);
    }
    assert_not_inside(&browser.fetch("/silent"));
}

/// A visitor let in while a slot was free once lost it half a minute later, if one page was all they had asked for.
#[test]
fn a_visitor_who_reads_one_page_for_90_seconds_keeps_the_visit() {
    const READING: Duration = Duration::from_secs(90);
    let stand = Stand::open(1, "");
    let mut browser = stand.browser();
    let mut cookies = vec![];
    let mut target = "/article".to_owned();
    let page = loop {
        let answer = browser.open_once(&target);
        cookies.extend(answer.set_cookies().into_iter().filter(|cookie| cookie.name == COOKIE));
        match answer.header("Location") {
            Some(location) => target = location.to_owned(),
            None => break answer,
        }
    };
    assert!(page.is_from_site(), "{page:?}");
    // The last one set is the one of the visit.
    let age = cookies.last().and_then(SetCookie::max_age_seconds).expect("a cookie with an age");
    assert!(age >= READING.as_secs(), "the browser is told to forget the visit after {age} seconds");
    let visit = stand.site.last_seen("/article").visit().expect("a visit");
    if full() {
        let began = now();
        while began.elapsed() < READING {
            assert_eq!(stand.figure("active"), 1, "the slot is free after {:?}", began.elapsed());
            pause();
        }
    }
    assert!(browser.fetch("/next").is_from_site());
    assert_eq!(stand.site.last_seen("/next").visit(), Some(visit));
}

#[test]
fn nobody_stays_longer_than_session_max() {
    const MAX: Duration = Duration::from_secs(8);
    let stand = Stand::open(1, "session_duration = 4\nsession_max = 8");
    let mut browser = stand.browser();
    let sent = now();
    browser.enter("/", SOON, TIMEOUT);
    let stayed = keep_asking(&mut browser, TIMEOUT);
    let out = stayed.out.expect("the visitor is turned away in the end");
    assert!(
        stayed.last_in < stayed.since + MAX + ROUNDING,
        "in after {:?}",
        stayed.last_in.duration_since(stayed.since)
    );
    let was_silent = out.duration_since(stayed.last_in) >= SESSION;
    assert!(was_silent || out + ROUNDING >= sent + MAX, "turned away after {:?}", out.duration_since(sent));
}

#[test]
fn without_renewal_a_visit_lasts_session_duration_and_no_longer() {
    let stand = Stand::open(1, "session_duration = 4\ndisable_session_renewal = true");
    // Admitted immediately.
    let began = now();
    let mut browser = stand.inside();
    let stayed = keep_asking(&mut browser, TIMEOUT);
    let out = stayed.out.expect("the visitor is turned away in the end");
    assert!(
        stayed.last_in < stayed.since + SESSION,
        "in after {:?}",
        stayed.last_in.duration_since(stayed.since)
    );
    assert!(out + ROUNDING >= began + SESSION, "turned away after {:?}", out.duration_since(began));
    // Let in from the line.
    stand.wait_for_figure("active", 0);
    let first = stand.inside();
    let (mut waiting, _) = stand.in_line();
    drop(first);
    waiting.enter("/", SOON, TIMEOUT);
    let entered = now();
    let stayed = keep_asking(&mut waiting, TIMEOUT);
    assert!(stayed.out.is_some());
    assert!(stayed.last_in < entered + SESSION, "in after {:?}", stayed.last_in.duration_since(entered));
}

/// An upgraded connection of somebody inside.
fn socket(stand: &Stand, browser: &Browser) -> Wire {
    let cookies = browser.cookies.header().expect("a cookie");
    let mut wire = Wire::connect(stand.server.public(), ECHO_MAX).expect("it connects");
    let upgrade = format!(
        "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nCookie: {cookies}\r\n\r\n"
    );
    wire.write(upgrade.as_bytes()).expect("it is sent");
    let answer = wire.read_answer().expect("an answer").expect("an answer");
    assert_eq!((answer.status, answer.header("Upgrade")), (101, Some("websocket")), "{answer:?}");
    wire
}

/// Whether the site sends back what it is sent.
fn echoes(wire: &mut Wire) -> bool {
    // Written as a response, so that the client's own parser can read it back.
    let sent = wire.write(b"HTTP/1.1 299 Echo\r\nContent-Length: 0\r\n\r\n");
    sent.is_ok() && matches!(wire.read_answer(), Ok(Some(answer)) if answer.status == 299)
}

#[test]
fn an_upgraded_connection_keeps_its_visit_alive_and_ends_with_it() {
    let stand = Stand::open(1, "session_duration = 2");
    let mut browser = stand.inside();
    let mut wire = socket(&stand, &browser);
    let opened = now();
    let visit = stand.site.last_seen("/socket").visit();
    assert_eq!(stand.site.last_seen("/confirmed").visit(), visit);
    // Longer than a visit lasts with its grace, without a request.
    while opened.elapsed() < Duration::from_secs(10) {
        assert!(echoes(&mut wire), "closed after {:?}", opened.elapsed());
    }
    assert_eq!((stand.figure("active"), stand.figure("expired")), (1, 0));
    // The connection is what kept the visit: it ends with it.
    drop(wire);
    stand.wait_for_figure("active", 0);
    browser.enter("/", SOON, TIMEOUT);
    let mut wire = socket(&stand, &browser);
    assert!(echoes(&mut wire));
    assert!(browser.open("/complete").is_from_site());
    assert!(wire.closed_within(TIMEOUT), "the visit is over");
    stand.wait_for_figure("active", 0);
}

#[test]
fn an_upgraded_connection_is_closed_at_session_max_and_by_leaving() {
    const MAX: Duration = Duration::from_secs(6);
    let stand = Stand::open(1, "session_duration = 2\nsession_max = 6");
    let browser = stand.inside();
    let entered = now();
    let mut wire = socket(&stand, &browser);
    while echoes(&mut wire) {
        pause();
        assert!(entered.elapsed() < TIMEOUT, "it is never closed");
    }
    stand.wait_for_figure("active", 0);
    assert!(entered.elapsed() + ROUNDING * 2 >= MAX, "closed after {:?}", entered.elapsed());

    let mut browser = stand.inside();
    let mut wire = socket(&stand, &browser);
    assert!(echoes(&mut wire));
    assert_eq!(browser.post("/.anteroom/line/leave", "").status, 200);
    assert!(wire.closed_within(TIMEOUT), "the visitor has left");
}

#[test]
fn an_upgraded_connection_without_a_visit_is_refused() {
    let stand = Stand::open(1, "");
    let mut wire = Wire::connect(stand.server.public(), ECHO_MAX).expect("it connects");
    let upgrade = "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    wire.write(upgrade.as_bytes()).expect("it is sent");
    let answer = wire.read_answer().expect("an answer").expect("an answer");
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(stand.site.requests(), 0);
    wait_until("nothing is carried", TIMEOUT, || stand.figure("active") == 0);
}
