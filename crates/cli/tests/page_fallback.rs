//! "No-JavaScript path; SSE cut falls back to polling", in a real browser; and what a page does without network, and while the
//! store is lost.

mod page_support;

use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{
    ChaosProxy, Chromium, Mode, Server, Site, require_chromium, require_redis, wait_for, wait_until,
};
use page_support::{
    BINARY, CONNECTION, HOME, LEAVE, LEAVE_CONFIRM, MOVE, MOVE_DIALOG, PATIENCE, Scene, ahead, is_inside,
    is_marked, mark, position, room_by_hand, situation, wait_for_ahead, wait_for_situation,
    wait_until_inside, wait_until_it_hears_by,
};
use serde_json::json;

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
    browser.assert_no_faults();
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
    browser.press(page_support::ENTER);
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
    wait_until_it_hears_by(&browser, "stream");
    mark(&browser);
    // As a proxy between us and him does that knows no live streams.
    browser.devtools("Network.enable", &json!({}));
    browser.devtools("Network.setBlockedURLs", &json!({ "urls": ["*/.anteroom/watch*"] }));
    scene.way.reset_connections();
    wait_until_it_hears_by(&browser, "poll");
    scene.advance(7);
    wait_for_ahead(&browser, 13);
    assert!(!browser.shows(CONNECTION), "by polling he is connected");
    browser.devtools("Network.setBlockedURLs", &json!({ "urls": [] }));
    wait_until_it_hears_by(&browser, "stream");
    scene.advance(3);
    wait_for_ahead(&browser, 10);
    assert!(is_marked(&browser), "without a reload");
    assert_eq!(scene.figure("joined"), 21);
    browser.assert_no_faults();
}

#[test]
fn a_server_that_names_a_pause_gets_it_and_not_from_everybody_at_once() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand("");
    scene.crowd(3);
    let browser = Chromium::open();
    scene.wait_in_line(&browser, "/");
    wait_until_it_hears_by(&browser, "stream");
    // From now on every question is refused for a while, and the stream brings news that would be a reason to ask.
    let refuse = "window.askedInTest = []; window.fetch = async () => { askedInTest.push(performance.now()); \
        return new Response('{}', { status: 429, headers: { 'retry-after': '3' } }) }";
    browser.run(refuse, &[]);
    scene.advance(4);
    let mut asked: Vec<f64> = vec![];
    while asked.len() < 4 {
        asked = wait_for("it has asked once more", PATIENCE, || {
            let now = browser.run("return askedInTest", &[]);
            let now: Vec<f64> = now.as_array()?.iter().filter_map(serde_json::Value::as_f64).collect();
            (now.len() > asked.len()).then_some(now)
        });
        scene.advance(1);
    }
    let pauses: Vec<f64> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.iter().all(|&pause| pause >= 2_990.0), "{pauses:?}");
    assert!(pauses.iter().any(|&pause| (pause - pauses[0]).abs() > 10.0), "not in step: {pauses:?}");
}

#[test]
fn without_network_the_page_says_so_calmly_and_goes_on_later() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand("");
    scene.crowd(20);
    let browser = Chromium::open();
    scene.wait_in_line(&browser, "/");
    wait_until_it_hears_by(&browser, "stream");
    mark(&browser);
    // The device loses its network, and knows.
    browser.set_offline(true);
    wait_until("it says so", PATIENCE, || browser.shows(CONNECTION));
    assert_eq!(
        (situation(&browser).as_str(), ahead(&browser)),
        ("waiting", Some(20)),
        "his place stays in sight"
    );
    scene.advance(4);
    browser.set_offline(false);
    wait_for_ahead(&browser, 16);
    wait_until("the line is gone", PATIENCE, || !browser.shows(CONNECTION));
    // The server is gone, which the device cannot know.
    scene.way.set(Mode::Refuse);
    wait_until("it says so again", PATIENCE, || browser.shows(CONNECTION));
    assert_eq!((situation(&browser).as_str(), ahead(&browser)), ("waiting", Some(16)));
    scene.way.set(Mode::Pass);
    scene.advance(4);
    wait_for_ahead(&browser, 12);
    wait_until("the line is gone again", PATIENCE, || !browser.shows(CONNECTION));
    assert!(is_marked(&browser), "never an error page, never a reload");
    // His turn comes while nothing can be reached.
    scene.way.set(Mode::Refuse);
    scene.advance(13);
    wait_until("it says so once more", PATIENCE, || browser.shows(CONNECTION));
    assert!(!is_inside(&browser, "/") && situation(&browser) == "waiting");
    scene.way.set(Mode::Pass);
    wait_until_inside(&browser, "/");
}

#[test]
fn while_the_store_is_lost_places_are_safe_and_newcomers_are_asked_for_patience() {
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
    assert_eq!(position(&browser), Some(4), "his place stays in sight");
    // No link is to be had now, and none is shown.
    browser.press(MOVE);
    let asked = "return performance.getEntriesByType('resource').filter(one => one.name.includes('/line/move')).length";
    wait_until("it was asked for", PATIENCE, || browser.run(asked, &[]).as_u64() > Some(0));
    assert!(!browser.shows(MOVE_DIALOG) && situation(&browser) == "held");
    let newcomer = Chromium::open();
    newcomer.go(&scene.shop("/"));
    wait_for_situation(&newcomer, "held");
    assert_eq!(position(&newcomer), None);
    to_store.set(Mode::Pass);
    wait_for_situation(&browser, "waiting");
    assert_eq!(position(&browser), Some(4));
    wait_for_situation(&newcomer, "waiting");
    wait_until("the line moves again", PATIENCE, || {
        scene.line().advance(4);
        is_inside(&browser, "/")
    });
    newcomer.assert_no_faults();
    browser.assert_no_faults();
}
