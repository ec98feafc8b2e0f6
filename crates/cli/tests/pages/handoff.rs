//! "Hand-off across two hosts in each mode; moved to another device, the old one says so", in real browsers.

use anteroom_testkit::{Chromium, Reply, Scheme, axe_core, require_chromium, wait_until};
use serde_json::json;

use crate::page_checks::{assert_everybody_can_use_it, open_as_shown};
use crate::scene::{
    ENTER, MOVE, MOVE_DIALOG, SHOP, Scene, TAKE, TIMEOUT, WAIT, ahead, position, situation,
    wait_for_situation, wait_until_inside,
};

/// A room that protects no host of ours: its shop is on another host, and sends its visitors to `/wait/Hall`.
fn scene(host: &str, more: &str) -> Scene {
    // The site's port is known once it is open, so the address that visitors may return to is set afterwards.
    let scene = Scene::configured(&format!("[[room]]\nid = \"Hall\"\n{more}\n"));
    let listed = format!("http://{host}:{}/tickets", scene.site.port());
    scene.set("return_addresses", &json!([listed]));
    scene
}

/// The way from the shop to our page, back to a page of the shop.
fn detour(scene: &Scene, from: &str, back: &str) -> String {
    let back = back.replace('%', "%25").replace('&', "%26").replace('#', "%23").replace('+', "%2B");
    scene.at(from, &format!("/wait/Hall?return={back}"))
}

fn shop_page(scene: &Scene, host: &str) -> String {
    format!("http://{host}:{}/tickets/front?row=3&seat=7", scene.site.port())
}

fn parameter<'a>(target: &'a str, name: &str) -> Option<&'a str> {
    let query = target.split_once('?')?.1;
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

#[test]
fn by_query_the_site_exchanges_a_code_once() {
    if !require_chromium() {
        return;
    }
    let scene = scene(SHOP, "handoff = \"query\"");
    scene.crowd(3);
    let browser = Chromium::open();
    browser.go(&detour(&scene, WAIT, &shop_page(&scene, SHOP)));
    wait_for_situation(&browser, "waiting");
    assert_eq!((position(&browser), ahead(&browser)), (Some(4), Some(3)));
    scene.advance(2);
    wait_until("the page moves", TIMEOUT, || ahead(&browser) == Some(1));
    scene.advance(2);
    wait_until("the visitor is at the shop", TIMEOUT, || {
        browser.address().starts_with(&shop_page(&scene, SHOP))
    });
    let seen = scene.site.last_seen("/tickets/front");
    assert!(seen.target.contains("row=3&seat=7"), "{}", seen.target);
    let code = parameter(&seen.target, "anteroom_code").expect("a code").to_owned();
    let claim = || scene.server.visitor().post("/claim", &json!({ "code": code })).expect("an answer");
    let claimed = claim();
    assert_eq!(claimed.status, 200, "{claimed:?}");
    assert!(claimed.json()["access_token"].is_string(), "{claimed:?}");
    let again = claim();
    assert!((400..500).contains(&again.status), "a code works once: {again:?}");
    assert_eq!(scene.figure("claimed"), 1);
    assert_eq!(browser.cookie("anteroom_pass_Hall"), None);
}

#[test]
fn by_cookie_both_hosts_share_the_pass() {
    if !require_chromium() {
        return;
    }
    let (ours, theirs) = ("wait.example.test", "shop.example.test");
    let scene = scene(theirs, "handoff = \"cookie\"\nhandoff_domain = \"example.test\"");
    scene.crowd(1);
    let browser = Chromium::open();
    browser.go(&detour(&scene, ours, &shop_page(&scene, theirs)));
    wait_for_situation(&browser, "waiting");
    scene.advance(2);
    wait_until("the visitor is at the shop", TIMEOUT, || browser.address() == shop_page(&scene, theirs));
    let seen = scene.site.last_seen("/tickets/front");
    let cookies = seen.header("cookie").unwrap_or_default().to_owned();
    let pass = cookies.split("; ").find_map(|cookie| cookie.strip_prefix("anteroom_pass_Hall="));
    let pass = pass.unwrap_or_else(|| panic!("no pass among {cookies}"));
    assert_eq!(pass.split('.').count(), 3, "a JWT: {pass}");
    assert_eq!(browser.run("return document.cookie", &[]), "", "scripts of the shop do not see it");
}

#[test]
fn by_post_the_browser_posts_the_pass() {
    if !require_chromium() {
        return;
    }
    let scene = scene(SHOP, "handoff = \"post\"");
    scene.crowd(1);
    scene
        .site
        .answer("/tickets/front", Reply::new(200).header("Content-Type", "text/html").body("<p>Welcome"));
    let browser = Chromium::open();
    browser.go(&detour(&scene, WAIT, &shop_page(&scene, SHOP)));
    wait_for_situation(&browser, "waiting");
    scene.advance(2);
    wait_until("the visitor is at the shop", TIMEOUT, || browser.text("p").as_deref() == Some("Welcome"));
    let seen = scene.site.last_seen("/tickets/front");
    let body = String::from_utf8(seen.body.clone()).expect("a form");
    assert_eq!(seen.method, "POST", "{body}");
    for field in
        ["access_token=", "refresh_token=", "id_token=", "token_type=Bearer", "expires_in=", "room=Hall"]
    {
        assert!(body.split('&').any(|pair| pair.starts_with(field)), "no {field}: {body}");
    }
    assert!(!browser.address().contains("token"), "nothing of it is in an address");
}

#[test]
fn without_scripts_and_without_auto_enter_a_button_hands_over() {
    if !require_chromium() {
        return;
    }
    let axe_core = axe_core();
    for mode in ["query", "post"] {
        let scene = scene(SHOP, &format!("auto_enter = false\nhandoff = \"{mode}\""));
        scene.crowd(1);
        let browsers = [Chromium::open(), Chromium::builder().without_scripts().open()];
        for (browser, has_scripts) in browsers.iter().zip([true, false]) {
            browser.go(&detour(&scene, WAIT, &shop_page(&scene, SHOP)));
            wait_for_situation(browser, "waiting");
            let requests = scene.site.requests();
            scene.advance(2);
            if !has_scripts {
                // The page would do so by itself within ten seconds, as `fallback.rs` sees.
                browser.reload();
            }
            wait_for_situation(browser, "turn");
            wait_until("the button is there", TIMEOUT, || browser.shows(ENTER));
            assert_eq!(scene.site.requests(), requests);
            browser.press(ENTER);
            wait_until("the visitor goes on", TIMEOUT, || {
                if !has_scripts && browser.shows("#handoff button") {
                    if let Some(axe_core) = &axe_core {
                        let looking = open_as_shown(&scene, browser);
                        assert_everybody_can_use_it(&looking, axe_core, "handed over by a button");
                    }
                    browser.press("#handoff button");
                }
                browser.address().starts_with(&shop_page(&scene, SHOP))
            });
        }
    }
}

#[test]
fn an_address_that_is_not_listed_is_refused_at_once() {
    if !require_chromium() {
        return;
    }
    let scene = scene(SHOP, "");
    let browser = Chromium::open();
    let evil = format!("http://evil.test:{}/tickets", scene.site.port());
    let beside = format!("http://{SHOP}:{}/elsewhere", scene.site.port());
    for address in [evil.as_str(), beside.as_str(), "javascript:alert(1)", "//evil.test/"] {
        browser.go(&detour(&scene, WAIT, address));
        assert_eq!(situation(&browser), "refused", "{address}");
        assert_eq!(scene.figure("joined"), 0, "{address}");
        browser.assert_no_faults();
    }
    if let Some(axe_core) = axe_core() {
        browser.prefer(Scheme::Dark, false);
        assert_eq!(browser.violations(&axe_core), "");
    }
    assert_eq!(scene.site.requests(), 0);
}

#[test]
fn a_place_moves_to_another_device_and_the_old_one_says_so() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand("");
    scene.crowd(5);
    let (old, new) = (Chromium::open(), Chromium::builder().window(390, 844).language("de").open());
    scene.wait_in_line(&old, "/start");
    old.press(MOVE);
    wait_until("there is a picture to scan", TIMEOUT, || old.shows(&format!("{MOVE_DIALOG} svg")));
    let link = "return document.querySelector(arguments[0] + ' input').value";
    let link = old.run(link, &[json!(MOVE_DIALOG)]);
    let link = link.as_str().expect("a link").to_owned();
    new.go(&link);
    assert_eq!(situation(&new), "move-in");
    assert_eq!(position(&old), Some(6), "looking at the link moves nothing");
    let axe_core = axe_core();
    if let Some(axe_core) = &axe_core {
        assert_everybody_can_use_it(&new, axe_core, "asked whether to take the place");
    }
    new.press(TAKE);
    wait_for_situation(&new, "waiting");
    assert_eq!((position(&new), ahead(&new), scene.figure("joined")), (Some(6), Some(5), 6));
    // The old device asks at once when it is taken up again.
    old.set_offline(true);
    old.set_offline(false);
    wait_for_situation(&old, "moved");
    if let Some(axe_core) = &axe_core {
        assert_everybody_can_use_it(&old, axe_core, "moved");
    }
    // The link has done its work.
    let third = Chromium::open();
    third.go(&link);
    if situation(&third) == "move-in" {
        third.press(TAKE);
    }
    wait_for_situation(&third, "move-failed");
    scene.advance(6);
    wait_until_inside(&new, "/start");
    old.reload();
    assert_eq!((situation(&old).as_str(), scene.figure("claimed")), ("moved", 1));
}
