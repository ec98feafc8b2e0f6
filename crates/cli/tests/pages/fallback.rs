//! "No-JavaScript path; SSE cut falls back to polling", in a real browser; and what a page does without network, and while the
//! store is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{
    ChaosProxy, Chromium, Key, Mode, Server, SetOnDrop, Site, axe_core, pause, require_chromium,
    require_redis, wait_until,
};
use serde_json::json;

use crate::page_checks::{assert_everybody_can_use_it, open_as_shown, tab_to};
use crate::scene::{
    CONNECTION, ENTER, HOME, LEAVE, LEAVE_CONFIRM, MOVE, MOVE_DIALOG, Scene, TIMEOUT, ahead, is_inside,
    is_marked, mark, position, room_by_hand, situation, wait_for_ahead, wait_for_event_source,
    wait_for_situation, wait_until_inside,
};
use crate::support::BINARY;

#[test]
fn without_scripts_the_page_refreshes_leaves_and_lets_in() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand("");
    scene.crowd(5);
    let browser = Chromium::builder().without_scripts().open();
    scene.wait_in_line(&browser, "/start");
    assert_eq!((position(&browser), ahead(&browser)), (Some(6), Some(5)));
    scene.advance(2);
    wait_for_ahead(&browser, 3);
    assert!(!browser.shows("#cue-sound"), "what cannot work is not offered");
    let axe_core = axe_core();
    if let Some(axe_core) = &axe_core {
        let looking = open_as_shown(&scene, &browser);
        assert_everybody_can_use_it(&looking, axe_core, "waiting without scripts");
    }
    assert!(!browser.shows(LEAVE_CONFIRM));
    browser.press(LEAVE);
    browser.press(LEAVE_CONFIRM);
    wait_for_situation(&browser, "left");
    assert_eq!(scene.figure("left"), 1);
    browser.press(HOME);
    wait_for_situation(&browser, "waiting");
    assert_eq!(position(&browser), Some(7));
    scene.advance(5);
    wait_until_inside(&browser, "/start");
    assert_eq!(scene.figure("claimed"), 1);
}

#[test]
fn without_scripts_and_auto_enter_the_button_lets_in() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand("auto_enter = false");
    scene.crowd(1);
    let browser = Chromium::builder().without_scripts().open();
    scene.wait_in_line(&browser, "/start");
    scene.advance(2);
    wait_for_situation(&browser, "turn");
    assert_eq!(scene.site.requests(), 0);
    // By keyboard, which without scripts has no help.
    tab_to(&browser, ENTER);
    browser.keys(&[Key::Enter]);
    wait_until_inside(&browser, "/start");
}

#[test]
fn a_cut_stream_falls_back_to_polling_and_comes_back() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand("");
    scene.crowd(20);
    let browser = Chromium::open();
    scene.wait_in_line(&browser, "/");
    wait_for_event_source(&browser, "stream");
    mark(&browser);
    // As a proxy in between does that knows no live streams.
    browser.devtools("Network.enable", &json!({}));
    browser.devtools("Network.setBlockedURLs", &json!({ "urls": ["*/.anteroom/watch*"] }));
    scene.way.reset_connections();
    wait_for_event_source(&browser, "poll");
    scene.advance(7);
    wait_for_ahead(&browser, 13);
    assert!(!browser.shows(CONNECTION), "by polling the page is connected");
    browser.devtools("Network.setBlockedURLs", &json!({ "urls": [] }));
    wait_for_event_source(&browser, "stream");
    scene.advance(3);
    wait_for_ahead(&browser, 10);
    assert!(is_marked(&browser), "without a reload");
    assert_eq!(scene.figure("joined"), 21);
}

/// The budget of those who ask for their place: so many seconds until there is enough for one question, of which each costs all.
const PAUSE_SECONDS: u32 = 3;
const ASKING_IS_LIMITED: &str = "limits_exempt = \"none\"\n\
    [[limit]]\nname = \"ask\"\npaths = [\"/.anteroom/line\"]\n\
    requests = 100\nper_seconds = 3\nburst = 100\ncost = 100\n\
    [[limit]]\nname = \"ask\"\npaths = [\"/rooms\"]\ncost = 1\n";
/// How many pauses are looked at, over all browsers.
const PAUSES: usize = 12;
/// The designed spread of a named pause is two fifths of it, here 1.2 s. With so many pauses the second longest and the shortest are
/// nearer to each other than this once in a million runs, and noise does not make it.
const SPREAD_MIN_MILLISECONDS: f64 = 200.0;
/// How late a timer may be.
const LATE_MILLISECONDS: f64 = 500.0;

/// When the page has asked for its place and was refused: the beginning and the end of each question, in milliseconds.
#[track_caller]
fn refused_questions(browser: &Chromium) -> Vec<(f64, f64)> {
    let script = "return performance.getEntriesByType('resource') \
        .filter(one => new URL(one.name).pathname === '/.anteroom/line' && one.responseStatus === 429) \
        .map(one => [one.startTime, one.responseEnd])";
    let asked = browser.run(script, &[]);
    let moment = |value: &serde_json::Value| value.as_f64().expect("a moment");
    asked.as_array().expect("a list").iter().map(|one| (moment(&one[0]), moment(&one[1]))).collect()
}

#[test]
fn a_server_that_names_a_pause_gets_it_and_not_from_everybody_at_once() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::configured(&format!("{ASKING_IS_LIMITED}{}", room_by_hand("ORIGIN", "")));
    scene.crowd(3);
    let browsers = [Chromium::open(), Chromium::open()];
    for browser in &browsers {
        scene.wait_in_line(browser, "/");
        wait_for_event_source(browser, "stream");
        mark(browser);
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Somebody at the same address asks for other things all the time, so that what a question costs is never there.
        let mut neighbour = scene.server.visitor();
        let mut use_up = move || while neighbour.get("/rooms/Hall").expect("an answer").status == 200 {};
        use_up();
        let over = &over;
        scope.spawn(move || {
            while !over.load(Ordering::SeqCst) {
                use_up();
                pause();
            }
        });
        let _end = SetOnDrop(over);
        for browser in &browsers {
            browser.run("performance.clearResourceTimings()", &[]);
        }
        // The line has come to both, which their pages have to ask about; and ever more events are a reason to ask at once.
        scene.advance(5);
        wait_until("all pauses are over", TIMEOUT, || {
            scene.advance(1);
            browsers.iter().all(|browser| refused_questions(browser).len() > PAUSES / browsers.len())
        });
    });
    let mut pauses: Vec<f64> = vec![];
    for browser in &browsers {
        assert!(is_marked(browser) && situation(browser) == "waiting", "nobody was let in or sent away");
        let asked = refused_questions(browser);
        pauses.extend(asked.windows(2).take(PAUSES / browsers.len()).map(|pair| pair[1].0 - pair[0].1));
    }
    println!("pauses of {PAUSE_SECONDS} seconds: {pauses:.0?}");
    let named = f64::from(PAUSE_SECONDS) * 1_000.0;
    pauses.sort_by(f64::total_cmp);
    assert!(pauses[0] >= named - 5.0, "a pause was cut short: {pauses:?}");
    // Two of them may be late because the machine is busy.
    assert!(pauses[PAUSES - 3] <= named * 1.4 + LATE_MILLISECONDS, "far longer than named: {pauses:?}");
    assert!(pauses[PAUSES - 2] - pauses[0] >= SPREAD_MIN_MILLISECONDS, "in step: {pauses:?}");
}

#[test]
fn without_network_the_page_says_so_and_goes_on_later() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand("");
    scene.crowd(20);
    let browser = Chromium::open();
    scene.wait_in_line(&browser, "/");
    wait_for_event_source(&browser, "stream");
    mark(&browser);
    // The device loses its network, and knows.
    browser.set_offline(true);
    wait_until("it says so", TIMEOUT, || browser.shows(CONNECTION));
    assert_eq!(
        (situation(&browser).as_str(), ahead(&browser)),
        ("waiting", Some(20)),
        "the place stays in sight"
    );
    scene.advance(4);
    browser.set_offline(false);
    wait_for_ahead(&browser, 16);
    wait_until("the line is gone", TIMEOUT, || !browser.shows(CONNECTION));
    // The server is gone, which the device cannot know.
    scene.way.set(Mode::Refuse);
    wait_until("it says so again", TIMEOUT, || browser.shows(CONNECTION));
    assert_eq!((situation(&browser).as_str(), ahead(&browser)), ("waiting", Some(16)));
    scene.way.set(Mode::Pass);
    scene.advance(4);
    wait_for_ahead(&browser, 12);
    wait_until("the line is gone again", TIMEOUT, || !browser.shows(CONNECTION));
    assert!(is_marked(&browser), "never an error page, never a reload");
    // The turn comes while nothing can be reached.
    scene.way.set(Mode::Refuse);
    scene.advance(13);
    wait_until("it says so once more", TIMEOUT, || browser.shows(CONNECTION));
    assert!(!is_inside(&browser, "/") && situation(&browser) == "waiting");
    scene.way.set(Mode::Pass);
    wait_until_inside(&browser, "/");
}

#[test]
fn while_the_store_is_lost_places_are_safe_and_newcomers_are_asked_to_wait() {
    if !require_chromium() || !require_redis() {
        return;
    }
    let (redis, site) = (RedisProcess::start(), Site::open());
    let to_store = ChaosProxy::before(redis.port());
    let config = room_by_hand(&site.url(), "");
    let server = Server::builder(BINARY).config(config);
    let server = server.env("ANTEROOM_STORE_URL", redis.url_through(to_store.port()));
    let server = server.start().expect("the server starts");
    let way = ChaosProxy::before(server.public().port());
    let scene = Scene { server, site, way };
    scene.crowd(3);
    let browser = Chromium::open();
    scene.wait_in_line(&browser, "/");
    to_store.set(Mode::Refuse);
    wait_for_situation(&browser, "held");
    assert_eq!(position(&browser), Some(4), "the place stays in sight");
    let axe_core = axe_core();
    if let Some(axe_core) = &axe_core {
        assert_everybody_can_use_it(&browser, axe_core, "held with a place");
    }
    // No link is to be had now, and none is shown.
    browser.press(MOVE);
    let asked = "return performance.getEntriesByType('resource').filter(one => one.name.includes('/line/move')).length";
    wait_until("it was asked for", TIMEOUT, || browser.run(asked, &[]).as_u64() > Some(0));
    assert!(!browser.shows(MOVE_DIALOG) && situation(&browser) == "held");
    let newcomer = Chromium::open();
    newcomer.go(&scene.shop("/"));
    wait_for_situation(&newcomer, "held");
    assert_eq!(position(&newcomer), None);
    if let Some(axe_core) = &axe_core {
        assert_everybody_can_use_it(&newcomer, axe_core, "held without a place");
    }
    to_store.set(Mode::Pass);
    wait_for_situation(&browser, "waiting");
    assert_eq!(position(&browser), Some(4));
    wait_for_situation(&newcomer, "waiting");
    wait_until("the line moves again", TIMEOUT, || {
        scene.line().advance(4);
        is_inside(&browser, "/")
    });
}
