//! "Join, wait, advance, enter; reload, restart of the server and a closed tab keep the place; two tabs share it", in a real
//! browser.

use anteroom_testkit::{Chromium, axe_core, require_chromium, wait_until};
use serde_json::json;

use crate::page_checks::assert_everybody_can_use_it;
use crate::scene::{
    ENTER, HOME, JOIN, LEAVE, LEAVE_CONFIRM, REMAINING, SAFE_SHOP, SHOP, Scene, TIMEOUT, ahead, digits,
    is_inside, is_marked, mark, position, situation, wait_for_ahead, wait_for_situation, wait_until_inside,
};

#[test]
fn join_wait_advance_enter() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand("");
    scene.crowd(30);
    let browser = Chromium::open();
    scene.wait_in_line(&browser, "/start?a=b");
    assert_eq!((position(&browser), ahead(&browser)), (Some(31), Some(30)));
    assert_eq!(browser.address(), scene.shop("/start?a=b"), "the address stays the requested one");
    mark(&browser);
    let title = browser.title();
    scene.advance(10);
    wait_for_ahead(&browser, 20);
    scene.set("notice", &json!("Doors open at eight."));
    wait_until("the notice is there", TIMEOUT, || {
        browser.text("#notice").is_some_and(|notice| notice.contains("Doors open at eight."))
    });
    scene.advance(19);
    wait_for_ahead(&browser, 1);
    assert!(is_marked(&browser), "all of this came live");
    assert_ne!(browser.title(), title, "a tab in the background tells how far it is");
    scene.advance(1);
    wait_until("the visitor is next", TIMEOUT, || ahead(&browser).is_none_or(|ahead| ahead == 0));
    assert_eq!(scene.site.requests(), 0);
    scene.advance(1);
    wait_until_inside(&browser, "/start?a=b");
    assert_eq!(scene.figure("claimed"), 1);
}

#[test]
fn with_auto_enter_off_a_button_lets_in() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand(
        "auto_enter = false\nenable_queue_position_expiry = true\nqueue_position_expiry_period = 600",
    );
    scene.crowd(2);
    let browser = Chromium::open();
    scene.wait_in_line(&browser, "/start");
    assert!(!browser.shows(ENTER));
    let title = browser.title();
    mark(&browser);
    scene.advance(3);
    wait_for_situation(&browser, "turn");
    wait_until("the button is there", TIMEOUT, || browser.shows(ENTER));
    assert!(is_marked(&browser));
    assert_ne!(browser.title(), title);
    wait_until("the button has the focus", TIMEOUT, || browser.focused().starts_with("button"));
    // The page says how long the place is held; that it runs down is in `script.rs`.
    let remaining = browser.text(REMAINING).expect("it is shown how long");
    assert!(
        ["9", "10"]
            .iter()
            .any(|minutes| remaining == format!("Your place is held for another {minutes} minutes.")),
        "{remaining}"
    );
    // A reload at the turn is still the turn.
    browser.reload();
    wait_for_situation(&browser, "turn");
    assert_eq!(
        (scene.figure("claimed"), scene.site.requests()),
        (0, 0),
        "nobody is let in who does not press it"
    );
    browser.press(ENTER);
    wait_until_inside(&browser, "/start");
    assert_eq!(scene.figure("claimed"), 1);
}

#[test]
fn reload_restart_of_the_server_and_a_closed_tab_keep_the_place() {
    if !require_chromium() {
        return;
    }
    let mut scene = Scene::by_hand("");
    scene.crowd(4);
    let browser = Chromium::open();
    scene.wait_in_line(&browser, "/");
    assert_eq!(position(&browser), Some(5));
    browser.reload();
    wait_for_situation(&browser, "waiting");
    assert_eq!(position(&browser), Some(5), "a reload");
    let first = browser.tab();
    let second = browser.open_tab();
    browser.switch_to(&first);
    browser.close_tab(&second);
    scene.crowd(3);
    scene.wait_in_line(&browser, "/");
    assert_eq!(position(&browser), Some(5), "a closed tab");
    mark(&browser);
    scene.restart();
    scene.advance(2);
    wait_for_ahead(&browser, 2);
    assert_eq!(position(&browser), Some(5), "a restart");
    assert!(is_marked(&browser), "the page has gone on by itself");
    assert_eq!(scene.figure("joined"), 8, "no place was taken twice");
    scene.advance(3);
    wait_until_inside(&browser, "/");
}

#[test]
fn two_tabs_share_the_place_and_both_get_in() {
    if !require_chromium() {
        return;
    }
    let browser = Chromium::open();
    let home = browser.tab();
    // Where the browser trusts the host, tabs share one live stream; elsewhere each has its own.
    for host in [SHOP, SAFE_SHOP] {
        let scene = Scene::by_hand("");
        scene.crowd(3);
        let first = browser.open_tab();
        browser.go(&scene.at(host, "/one"));
        wait_for_situation(&browser, "waiting");
        let second = browser.open_tab();
        browser.go(&scene.at(host, "/two"));
        wait_for_situation(&browser, "waiting");
        assert_eq!((position(&browser), scene.figure("joined")), (Some(4), 4), "{host}");
        scene.advance(2);
        wait_for_ahead(&browser, 1);
        browser.switch_to(&first);
        wait_for_ahead(&browser, 1);
        scene.advance(2);
        wait_until("the first tab is in", TIMEOUT, || is_inside(&browser, "/one"));
        browser.switch_to(&second);
        wait_until("the second tab is in", TIMEOUT, || is_inside(&browser, "/two"));
        assert_eq!(scene.figure("claimed"), 1, "as one visit at {host}");
        browser.close_tab(&first);
        browser.close_tab(&home);
        browser.assert_no_faults();
    }
}

#[test]
fn two_tabs_agree_when_one_of_them_takes_another_place() {
    if !require_chromium() {
        return;
    }
    let browser = Chromium::open();
    let scene = Scene::by_hand("");
    scene.crowd(3);
    scene.wait_in_line(&browser, "/one");
    let first = browser.tab();
    let second = browser.open_tab();
    scene.wait_in_line(&browser, "/two");
    assert_eq!(position(&browser), Some(4));
    scene.crowd(5);
    browser.press(LEAVE);
    browser.press(LEAVE_CONFIRM);
    wait_for_situation(&browser, "left");
    browser.press(HOME);
    wait_for_situation(&browser, "waiting");
    assert_eq!((position(&browser), ahead(&browser)), (Some(10), Some(9)));
    browser.switch_to(&first);
    // As when it is taken up again.
    browser.run("document.dispatchEvent(new Event('visibilitychange'))", &[]);
    wait_until("the first tab shows the place of both", TIMEOUT, || {
        (position(&browser), ahead(&browser)) == (Some(10), Some(9))
    });
    // A reset makes a new line, in which both stand once.
    assert_eq!(scene.line().reset().status, 200);
    for tab in [&second, &first] {
        browser.switch_to(tab);
        wait_until("it shows the new line", TIMEOUT, || {
            (position(&browser), ahead(&browser)) == (Some(1), Some(0))
        });
    }
    assert_eq!(scene.figure("joined"), 1);
    scene.advance(1);
    wait_until_inside(&browser, "/one");
}

#[test]
fn who_leaves_by_one_tab_is_not_put_in_line_again_by_another() {
    if !require_chromium() {
        return;
    }
    let browser = Chromium::open();
    let scene = Scene::by_hand("");
    scene.crowd(3);
    scene.wait_in_line(&browser, "/one?a=b");
    let first = browser.tab();
    browser.open_tab();
    scene.wait_in_line(&browser, "/two");
    browser.press(LEAVE);
    browser.press(LEAVE_CONFIRM);
    wait_for_situation(&browser, "left");
    browser.switch_to(&first);
    browser.run("document.dispatchEvent(new Event('visibilitychange'))", &[]);
    wait_for_situation(&browser, "gone");
    browser.reload();
    wait_for_situation(&browser, "gone");
    assert_eq!(scene.figure("joined"), 4, "nobody was put in line again");
    // By asking for it the visitor is, and gets to the requested page.
    browser.press(JOIN);
    wait_for_situation(&browser, "waiting");
    assert_eq!((position(&browser), scene.figure("joined")), (Some(5), 5));
    scene.advance(5);
    wait_until_inside(&browser, "/one?a=b");
}

#[test]
fn in_an_auction_the_page_checks_in_by_itself() {
    if !require_chromium() {
        return;
    }
    let auction = "inlet = \"max-size\"\ntotal_active_users = 1\ndiscipline = \"auction\"\nround_seconds = 1";
    let scene = Scene::by_hand(auction);
    let inside = Chromium::open();
    inside.go(&scene.shop("/"));
    wait_until_inside(&inside, "/");
    let browser = Chromium::open();
    scene.wait_in_line(&browser, "/start");
    mark(&browser);
    wait_until("somebody has come to a round", TIMEOUT, || {
        let calls = "return performance.getEntriesByType('resource').filter(one => one.name.includes('/auction')).length";
        browser.run(calls, &[]).as_u64() > Some(0)
    });
    assert!(is_marked(&browser), "nothing was loaded anew");
    inside.run("fetch('/.anteroom/line/leave?room=Hall', { method: 'POST' })", &[]);
    wait_until_inside(&browser, "/start");
    assert_eq!(scene.figure("claimed"), 2);
}

#[test]
fn leaving_asks_once() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand("");
    scene.crowd(2);
    let browser = Chromium::open();
    scene.wait_in_line(&browser, "/");
    assert!(!browser.shows(LEAVE_CONFIRM));
    browser.press(LEAVE);
    wait_until("the page asks", TIMEOUT, || browser.shows(LEAVE_CONFIRM));
    assert_eq!((situation(&browser).as_str(), scene.figure("left")), ("waiting", 0));
    browser.press(LEAVE_CONFIRM);
    wait_for_situation(&browser, "left");
    assert_eq!(scene.figure("left"), 1);
    if let Some(axe_core) = axe_core() {
        assert_everybody_can_use_it(&browser, &axe_core, "left");
    }
    // The end of the line is open.
    browser.press(HOME);
    wait_for_situation(&browser, "waiting");
    assert_eq!(position(&browser), Some(4));
}

#[test]
fn the_place_shown_never_gets_worse_while_others_come_and_go() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand("");
    scene.crowd(40);
    let browser = Chromium::open();
    scene.wait_in_line(&browser, "/");
    let watch = "window.shownToTest = []; const look = () => shownToTest.push(document.querySelector('#ahead').textContent); \
        look(); new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true })";
    browser.run(watch, &[]);
    for step in [3, 7, 1, 12, 5] {
        let before = ahead(&browser).expect("a number is shown");
        scene.crowd(6);
        scene.advance(step);
        wait_until("the page has moved", TIMEOUT, || ahead(&browser) < Some(before));
    }
    wait_for_ahead(&browser, 12);
    let shown = browser.run("return shownToTest", &[]);
    let shown: Vec<u64> = shown
        .as_array()
        .expect("a list")
        .iter()
        .map(|shown| digits(shown.as_str().unwrap_or_default()).expect("a number"))
        .collect();
    assert!(shown.len() >= 5 && shown.is_sorted_by(|one, next| one >= next), "{shown:?}");
}
