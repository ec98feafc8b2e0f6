//! "Every request ends in exactly one counted verdict": a mixed load, with clients that go away in the middle, adds up to the number
//! of requests that were sent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anteroom_testkit::{NAVIGATION, Prng, Reply, Request, Wire, full, pause, wait_until};
use serde_json::json;

use crate::stand::{Stand, TIMEOUT};

const ANSWER_MAX: Duration = Duration::from_mins(1);

/// Each verdict by itself: what was sent, and as what it is counted.
#[test]
fn each_kind_of_request_is_counted_by_its_verdict() {
    let stand = Stand::configured(
        "origin = \"ORIGIN\"\n[[room]]\nid = \"Hall\"\npaths = [\"/hall\"]\ninlet = \"max-size\"\ntotal_active_users = 1\n\
         bypass = [\"path:/hall/static\"]\n",
    );
    let mut expected = stand.verdicts();
    assert_eq!(expected.values().sum::<u64>(), 0, "{expected:?}");
    let mut check = |verdict: &str, what: &str| {
        *expected.entry(verdict.to_owned()).or_default() += 1;
        wait_until(&format!("{what} is counted as {verdict}"), TIMEOUT, || stand.verdicts() == expected);
    };
    let mut inside = stand.browser();
    assert!(inside.open("/hall").is_from_site());
    check("admitted", "somebody who is let in");
    assert!(inside.open("/hall").is_from_site());
    check("session", "somebody inside");
    let mut waiting = stand.browser();
    waiting.open("/hall");
    check("arrived", "somebody new");
    waiting.open("/hall");
    check("waiting", "somebody in line");
    stand.browser().fetch("/hall");
    check("not_inside", "a program");
    stand.browser().open("/hall/static/a");
    check("bypassed", "what passes by");
    stand.browser().open("/elsewhere");
    check("unprotected", "what belongs to no room");
    waiting.send(Request::new("GET", "/.anteroom/line?room=Hall"));
    check("line", "a call about the line");
    stand.change(&json!({"state": "closed"}));
    stand.browser().open("/hall");
    check("closed", "a closed room");
    stand.change(&json!({"state": "open", "settings": {"queueing_method": "passthrough"}}));
    stand.browser().open("/hall");
    check("passed_through", "everybody");
}

/// What one of many clients does, and how many requests it has sent.
fn mixed(stand: &Stand, seed: u64, rounds: usize, sent: &AtomicU64, hung_up: &AtomicU64) {
    let mut prng = Prng::from_seed_and_stream(seed, 7);
    let mut browser = stand.browser().with_read_timeout(ANSWER_MAX);
    let count = || {
        sent.fetch_add(1, Ordering::SeqCst);
    };
    for _ in 0..rounds {
        count();
        match prng.below(12) {
            0 => drop(browser.post("/hall/buy", "a=b")),
            1 => drop(browser.load("/hall/image", "image")),
            2 => drop(browser.fetch("/hall/static/data")),
            3 => drop(browser.send(Request::new("HEAD", "/hall"))),
            4 => drop(browser.open("/elsewhere")),
            5 => drop(browser.send(Request::new("GET", "/.anteroom/line"))),
            6 => drop(browser.post("/.anteroom/line/join", "")),
            7 => drop(browser.open("/complete")),
            8 => drop(browser.open("/hall/broken")),
            9 => {
                // A client that does not wait for its response.
                let mut wire = Wire::connect(stand.server.public(), ANSWER_MAX).expect("it connects");
                let headers: Vec<String> =
                    NAVIGATION.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                let headers = headers.concat();
                let cookies = browser
                    .cookies
                    .header()
                    .map_or(String::new(), |cookies| format!("Cookie: {cookies}\r\n"));
                let request = format!("GET /hall/slow HTTP/1.1\r\nHost: a\r\n{headers}{cookies}\r\n");
                wire.write(request.as_bytes()).expect("it is sent");
                for _ in 0..prng.below(4) {
                    pause();
                }
                wire.finish_writing().ok();
                drop(wire);
                hung_up.fetch_add(1, Ordering::SeqCst);
            }
            10 => {
                browser.cookies.clear();
                drop(browser.open("/hall"));
            }
            _ => drop(browser.open("/hall")),
        }
    }
}

#[test]
fn a_mixed_load_with_aborts_adds_up() {
    let (clients, rounds) = if full() { (64, 60) } else { (16, 40) };
    let stand = Stand::configured(
        "origin = \"ORIGIN\"\n[[room]]\nid = \"Hall\"\npaths = [\"/hall\", \"/complete\"]\ninlet = \"max-size\"\n\
         total_active_users = 6\nbypass = [\"path:/hall/static\"]\n",
    );
    stand.site.answer("/hall/slow", Reply::new(200).body("late").after(Duration::from_millis(20)));
    // A command beside an error, and a status that has no body.
    stand.site.answer("/hall/broken", Reply::new(500).header("Anteroom-Session", "abandon"));
    stand.site.answer("/hall/image", Reply::new(204));
    let (sent, hung_up) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for seed in 0..clients {
            let (stand, sent, hung_up) = (&stand, &sent, &hung_up);
            scope.spawn(move || mixed(stand, seed, rounds, sent, hung_up));
        }
    });
    let (expected, hung_up) = (sent.load(Ordering::SeqCst), hung_up.load(Ordering::SeqCst));
    let counted = || stand.verdicts().values().sum::<u64>();
    // Of a client that hung up at once, the server may never have read the request.
    wait_until("everything else is counted", TIMEOUT, || counted() + hung_up >= expected);
    let message = format!("{expected} were sent, {hung_up} hung up; counted: {:?}", stand.verdicts());
    assert!(counted() <= expected, "{message}");
    let verdicts = stand.verdicts();
    for verdict in ["session", "admitted", "bypassed", "unprotected", "not_inside", "line"] {
        assert!(verdicts.get(verdict).is_some_and(|count| *count > 0), "{verdict} is missing: {verdicts:?}");
    }
    assert!(!stand.server.stderr().contains("panicked"));
}
