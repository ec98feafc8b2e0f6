//! Logging in by waiting, in real browsers: the waiting page names the site, is there for everybody, and the answer that the site
//! asked for comes back whole, however the visitor got through.

use anteroom_testkit::{Chromium, Key, Scheme, axe_core, require_chromium, wait_until};
use serde_json::json;

use crate::page_checks::{
    NARROW, WIDE, assert_everybody_can_use_it, assert_everybody_can_use_it_in, assert_everything_has_room,
    has_focus, tab_to,
};
use crate::scene::{
    ENTER, JOIN, LEAVE, LEAVE_CONFIRM, MOVE, MOVE_DIALOG, Scene, TAKE, TIMEOUT, WAIT, ahead, is_marked, mark,
    position, situation, wait_for_ahead, wait_for_situation,
};

/// What the site is called that visitors log in to.
const SITE: &str = "The shop of Ada & Grace";
/// Where the page names it.
const SITE_NAME: &str = "#site";
/// A usual phone.
const PHONE: (u32, u32) = (390, 844);
/// A state that survives only where nothing is decoded twice or cut off.
const STATE: &str = "a%2Fb%2B%26state%3Dc%20%C3%A9";

/// A room without a site of its own, and a client of it: the site of the scene.
fn scene(more: &str) -> Scene {
    let scene = Scene::configured(&format!("[[room]]\nid = \"Hall\"\njoin = \"open\"\n{more}\n"));
    let client = json!({
        "id": "shop",
        "name": SITE,
        "redirect_addresses": [callback(&scene)],
        "login_address": format!("{}/login", scene.site.url()),
    });
    let made = scene.server.operator().post("/rooms/Hall/clients", &client).expect("an answer");
    assert_eq!(made.status, 201, "{made:?}");
    scene
}

fn callback(scene: &Scene) -> String {
    format!("{}/callback", scene.site.url())
}

/// Where the site sends its visitors, with more parameters.
fn login(scene: &Scene, more: &str) -> String {
    let back = callback(scene).replace(':', "%3A").replace('/', "%2F");
    let asked = format!("response_type=code&client_id=shop&scope=openid&redirect_uri={back}&nonce=n{more}");
    scene.at(WAIT, &format!("/rooms/Hall/authorize?{asked}"))
}

fn parameter<'a>(address: &'a str, name: &str) -> Option<&'a str> {
    address.split_once('?')?.1.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// Waits until the browser is at the site with an answer to the login that had this state; gives its address.
#[track_caller]
fn wait_for_answer(scene: &Scene, browser: &Chromium, state: &str) -> String {
    wait_until("the visitor is at the site", TIMEOUT, || browser.address().starts_with(&callback(scene)));
    let address = browser.address();
    let decoded =
        "return new URLSearchParams(location.search).get('state') === decodeURIComponent(arguments[0])";
    assert_eq!(browser.run(decoded, &[json!(state)]), true, "{address}");
    assert!(parameter(&address, "iss").is_some_and(|issuer| !issuer.is_empty()), "{address}");
    address
}

#[test]
fn the_page_names_the_site_and_is_there_for_everybody() {
    if !require_chromium() {
        return;
    }
    let scene = scene("");
    scene.crowd(3);
    let browser = Chromium::open();
    browser.go(&login(&scene, &format!("&state={STATE}")));
    wait_for_situation(&browser, "waiting");
    assert_eq!((position(&browser), ahead(&browser)), (Some(4), Some(3)));
    let named = browser.text(SITE_NAME).expect("the site is named");
    assert!(named.contains(SITE), "{named}");
    if let Some(axe_core) = axe_core() {
        for look in
            [(Scheme::Light, WIDE), (Scheme::Dark, WIDE), (Scheme::Light, PHONE), (Scheme::Dark, PHONE)]
        {
            assert_everybody_can_use_it_in(&browser, &axe_core, "waiting to log in", look);
        }
        assert_everybody_can_use_it_in(&browser, &axe_core, "waiting to log in", (Scheme::Light, NARROW));
        browser.resize(WIDE.0, WIDE.1, false);
    }
    // It follows the line live, and goes to the site by itself.
    mark(&browser);
    scene.advance(2);
    wait_for_ahead(&browser, 1);
    assert!(is_marked(&browser), "nothing was loaded anew");
    scene.advance(2);
    let address = wait_for_answer(&scene, &browser, STATE);
    assert!(parameter(&address, "code").is_some() && parameter(&address, "error").is_none(), "{address}");
    assert_eq!(scene.figure("claimed"), 1);
    // A visitor who comes back is inside, and sees no page.
    browser.go(&login(&scene, "&state=again"));
    let again = wait_for_answer(&scene, &browser, "again");
    assert_ne!(parameter(&again, "code"), parameter(&address, "code"));
    assert_eq!((scene.figure("claimed"), scene.figure("joined")), (1, 4));
    // The last: it shows everything at once.
    let narrow = Chromium::builder().window(NARROW.0, NARROW.1).open();
    narrow.go(&login(&scene, "&state=narrow"));
    wait_for_situation(&narrow, "waiting");
    narrow.resize(NARROW.0, NARROW.1, false);
    assert_everything_has_room(&narrow, "waiting to log in, narrow");
}

#[test]
fn by_keyboard_alone_a_visitor_leaves_and_logs_in() {
    if !require_chromium() {
        return;
    }
    let scene =
        scene("auto_enter = false\nenable_queue_position_expiry = true\nqueue_position_expiry_period = 600");
    scene.crowd(1);
    let browser = Chromium::open();
    browser.go(&login(&scene, "&state=left"));
    wait_for_situation(&browser, "waiting");
    tab_to(&browser, LEAVE);
    browser.keys(&[Key::Enter]);
    tab_to(&browser, LEAVE_CONFIRM);
    browser.keys(&[Key::Enter]);
    // The site learns that they do not come.
    let address = wait_for_answer(&scene, &browser, "left");
    assert_eq!(parameter(&address, "error"), Some("access_denied"), "{address}");
    assert_eq!((parameter(&address, "code"), scene.figure("left")), (None, 1), "{address}");

    browser.go(&login(&scene, "&state=entered"));
    wait_for_situation(&browser, "waiting");
    assert_eq!(position(&browser), Some(3), "a new place, at the end");
    scene.advance(3);
    wait_for_situation(&browser, "turn");
    wait_until("the button has the focus", TIMEOUT, || has_focus(&browser, ENTER));
    if let Some(axe_core) = axe_core() {
        assert_everybody_can_use_it(&browser, &axe_core, "the turn to log in");
    }
    assert_eq!(scene.figure("claimed"), 0, "nobody is let in who does not press it");
    tab_to(&browser, ENTER);
    browser.keys(&[Key::Enter]);
    let address = wait_for_answer(&scene, &browser, "entered");
    assert!(parameter(&address, "code").is_some(), "{address}");
    assert_eq!(scene.figure("claimed"), 1);
}

#[test]
fn each_tab_gets_the_answer_to_its_own_login() {
    if !require_chromium() {
        return;
    }
    let scene = scene("");
    scene.crowd(2);
    let browser = Chromium::open();
    browser.go(&login(&scene, "&state=first"));
    wait_for_situation(&browser, "waiting");
    let first = browser.tab();
    let second = browser.open_tab();
    browser.go(&login(&scene, "&state=second"));
    wait_for_situation(&browser, "waiting");
    assert_eq!((position(&browser), scene.figure("joined")), (Some(3), 3), "they share the place");
    browser.reload();
    wait_for_situation(&browser, "waiting");
    assert_eq!(position(&browser), Some(3), "a reload");
    scene.advance(3);
    let codes = [(&first, "first"), (&second, "second")].map(|(tab, state)| {
        browser.switch_to(tab);
        let address = wait_for_answer(&scene, &browser, state);
        parameter(&address, "code").unwrap_or_else(|| panic!("no code: {address}")).to_owned()
    });
    assert_ne!(codes[0], codes[1]);
    assert_eq!(scene.figure("claimed"), 1, "as one visit");
}

#[test]
fn without_scripts_the_page_leads_to_the_site_all_the_same() {
    if !require_chromium() {
        return;
    }
    let scene = scene("");
    scene.crowd(1);
    let browser = Chromium::builder().without_scripts().open();
    browser.go(&login(&scene, &format!("&state={STATE}")));
    wait_for_situation(&browser, "waiting");
    scene.advance(2);
    browser.reload();
    wait_for_answer(&scene, &browser, STATE);
}

#[test]
fn a_silent_login_shows_no_page_and_takes_no_place() {
    if !require_chromium() {
        return;
    }
    let scene = scene("");
    scene.crowd(1);
    let browser = Chromium::open();
    browser.go(&login(&scene, "&state=silent&prompt=none"));
    let address = wait_for_answer(&scene, &browser, "silent");
    assert_eq!(parameter(&address, "error"), Some("login_required"), "{address}");
    assert_eq!(scene.figure("joined"), 1);
}

#[test]
fn a_login_that_may_lead_nowhere_says_so_on_a_page() {
    if !require_chromium() {
        return;
    }
    let scene = scene("");
    let browser = Chromium::open();
    let right = login(&scene, "&state=x");
    for wrong in [
        right.replace("client_id=shop", "client_id=shoq"),
        right.replace("%2Fcallback", "%2Fcallback%2Fx"),
        right.replace("%2Fcallback", "%2FCallback"),
        format!("{right}&redirect_uri=https%3A%2F%2Fevil.test%2F"),
    ] {
        browser.go(&wrong);
        assert_eq!(situation(&browser), "refused", "{wrong}");
        assert!(browser.address().starts_with(&scene.at(WAIT, "/")), "{wrong}");
        if let Some(axe_core) = axe_core() {
            assert_everybody_can_use_it(&browser, &axe_core, "a login that is refused");
        }
    }
    assert_eq!((scene.figure("joined"), scene.site.requests()), (0, 0));
}

#[test]
fn a_place_moves_to_another_device_where_the_login_begins_anew() {
    if !require_chromium() {
        return;
    }
    let scene = scene("");
    scene.crowd(2);
    let (old, new) = (Chromium::open(), Chromium::builder().window(PHONE.0, PHONE.1).open());
    old.go(&login(&scene, "&state=old"));
    wait_for_situation(&old, "waiting");
    old.press(MOVE);
    wait_until("there is a picture to scan", TIMEOUT, || old.shows(&format!("{MOVE_DIALOG} svg")));
    let link = old.run("return document.querySelector(arguments[0] + ' input').value", &[json!(MOVE_DIALOG)]);
    new.go(link.as_str().expect("a link"));
    wait_for_situation(&new, "move-in");
    new.press(TAKE);
    // The site begins a login of its own there, in which the place counts.
    wait_until("the device is at the site", TIMEOUT, || {
        new.address().starts_with(&format!("{}/login?iss=", scene.site.url()))
    });
    new.go(&login(&scene, "&state=new"));
    wait_for_situation(&new, "waiting");
    assert_eq!((position(&new), scene.figure("joined")), (Some(3), 3));
    scene.advance(3);
    wait_for_answer(&scene, &new, "new");
    old.reload();
    wait_for_situation(&old, "moved");
}

#[test]
fn a_room_that_has_closed_offers_no_place() {
    if !require_chromium() {
        return;
    }
    let scene = scene("");
    scene.crowd(1);
    let browser = Chromium::open();
    scene.change(&json!({ "state": "closed" }));
    browser.go(&login(&scene, "&state=closed"));
    wait_for_situation(&browser, "closed");
    assert!(!browser.shows(JOIN));
    if let Some(axe_core) = axe_core() {
        assert_everybody_can_use_it(&browser, &axe_core, "a login to a room that has closed");
    }
    // It opens again: the same address leads on.
    scene.change(&json!({ "state": "open" }));
    browser.reload();
    wait_for_situation(&browser, "waiting");
    scene.advance(2);
    wait_for_answer(&scene, &browser, "closed");
}
