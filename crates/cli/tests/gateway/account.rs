//! "Every request ends in exactly one counted verdict": a mixed load, with clients that go away in the middle, adds up to the number
//! of requests that were sent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anteroom_testkit::{Browser, NAVIGATION, Prng, Reply, Request, Wire, full, pause, wait_until};
use serde_json::json;

use crate::stand::{Stand, TIMEOUT, verdicts_of};

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
    let door = "/.anteroom/enter?return=/hall";
    let mut inside = stand.browser();
    inside.open_once("/hall");
    check("arrived", "somebody new");
    inside.open_once(door);
    check("admitted", "somebody who is let in");
    assert!(inside.open_once("/hall").is_from_site());
    check("session", "somebody inside");
    let mut waiting = stand.browser();
    waiting.open_once("/hall");
    check("arrived", "somebody new");
    waiting.open_once(door);
    check("waiting", "somebody in line at the door");
    waiting.open_once("/hall");
    check("waiting", "somebody in line");
    stand.browser().open_once(door);
    check("arrived", "somebody without a cookie");
    stand.browser().open_once("/.anteroom/enter?return=/elsewhere");
    check("line", "the door of what belongs to no room");
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

/// How many requests were sent whose clients hung up: at once, and after the site had got them.
#[derive(Default)]
struct Aborts {
    at_once: AtomicU64,
    at_the_site: AtomicU64,
}

/// Hangs up before the response: at once, so that the server may never have read the request, or when it is at the site.
fn hang_up(stand: &Stand, browser: &Browser, pauses: usize, aborts: &Aborts) {
    let mut wire = Wire::connect(stand.server.public(), ANSWER_MAX).expect("it connects");
    let headers: Vec<String> =
        NAVIGATION.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let cookies = browser.cookies.header().map_or(String::new(), |cookies| format!("Cookie: {cookies}\r\n"));
    let mut send = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n{}{cookies}\r\n", headers.concat());
        wire.write(request.as_bytes()).expect("it is sent");
    };
    if pauses == 0 {
        let path = format!("/slow/{}", aborts.at_the_site.fetch_add(1, Ordering::SeqCst));
        stand.site.hold(&path);
        send(&path);
        stand.site.wait_for_request(&path);
        drop(wire);
        stand.site.let_go(&path);
    } else {
        aborts.at_once.fetch_add(1, Ordering::SeqCst);
        send("/gone");
        for _ in 1..pauses {
            pause();
        }
        wire.finish_writing().ok();
    }
}

/// What one of many clients does, and how many requests it has sent and seen answered.
fn mixed(stand: &Stand, seed: u64, rounds: usize, answered: &AtomicU64, aborts: &Aborts) {
    let mut prng = Prng::from_seed_and_stream(seed, 7);
    let mut browser = stand.browser().with_read_timeout(ANSWER_MAX);
    for _ in 0..rounds {
        let kind = prng.below(12);
        if kind != 9 {
            answered.fetch_add(1, Ordering::SeqCst);
        }
        match kind {
            0 => drop(browser.post("/hall/buy", "a=b")),
            1 => drop(browser.load("/hall/image", "image")),
            2 => drop(browser.fetch("/hall/static/data")),
            3 => drop(browser.send(Request::new("HEAD", "/hall"))),
            4 => drop(browser.open_once("/elsewhere")),
            5 => drop(browser.send(Request::new("GET", "/.anteroom/line"))),
            6 => drop(browser.post("/.anteroom/line/join", "")),
            7 => drop(browser.open_once("/complete")),
            8 => drop(browser.open_once("/hall/broken")),
            9 => hang_up(stand, &browser, prng.below(4), aborts),
            10 => {
                browser.cookies.clear();
                drop(browser.open_once("/hall"));
            }
            _ => drop(browser.open_once("/hall")),
        }
    }
}

#[test]
fn a_mixed_load_with_aborts_adds_up() {
    let (clients, rounds) = if full() { (64, 60) } else { (16, 40) };
    // Clients that hang up do so in rooms of their own, so that everything else must add up exactly.
    let stand = Stand::configured(
        "origin = \"ORIGIN\"\n[[room]]\nid = \"Hall\"\npaths = [\"/hall\", \"/complete\"]\ninlet = \"max-size\"\n\
         total_active_users = 6\nbypass = [\"path:/hall/static\"]\n\
         [[room]]\nid = \"Slow\"\npaths = [\"/slow\"]\nqueueing_method = \"passthrough\"\n\
         [[room]]\nid = \"Gone\"\npaths = [\"/gone\"]\n",
    );
    // A command beside an error, and a status that has no body.
    stand.site.answer("/hall/broken", Reply::new(500).header("Anteroom-Session", "abandon"));
    stand.site.answer("/hall/image", Reply::new(204));
    let (answered, aborts) = (AtomicU64::new(0), Aborts::default());
    thread::scope(|scope| {
        for seed in 0..clients {
            let (stand, answered, aborts) = (&stand, &answered, &aborts);
            scope.spawn(move || mixed(stand, seed, rounds, answered, aborts));
        }
    });
    let [at_once, at_the_site] = [aborts.at_once, aborts.at_the_site].map(AtomicU64::into_inner);
    assert!(at_once > 0 && at_the_site > 0, "{at_once} {at_the_site}");
    let count = |room: &str| verdicts_of(&stand.server, room).values().sum::<u64>();
    let total = || stand.verdicts().values().sum::<u64>();
    let exact = answered.into_inner() + at_the_site;
    wait_until("everything that was read is counted", TIMEOUT, || total() - count("Gone") >= exact);
    assert_eq!(total() - count("Gone"), exact, "each request has one verdict: {:?}", stand.verdicts());
    assert_eq!(count("Slow"), at_the_site, "also one whose client has gone");
    // Of a client that hung up at once, the server may never have read the request.
    assert!(count("Gone") <= at_once, "{} of {at_once}", count("Gone"));
    let verdicts = stand.verdicts();
    for verdict in ["session", "admitted", "bypassed", "unprotected", "not_inside", "line"] {
        assert!(verdicts.get(verdict).is_some_and(|count| *count > 0), "{verdict} is missing: {verdicts:?}");
    }
    assert!(!stand.server.stderr().contains("panicked"));
}
