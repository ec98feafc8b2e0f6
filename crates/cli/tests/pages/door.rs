//! The door in a real browser: with and without scripts, in a frame, with cookies blocked, and by a link with a query and a
//! fragment.

use anteroom_testkit::{Chromium, Reply, axe_core, require_chromium, wait_until};

use crate::page_checks::assert_everybody_can_use_it;
use crate::scene::{
    HOME, SAFE_SHOP, SHOP, Scene, TIMEOUT, position, situation, wait_for_situation, wait_until_inside,
};

/// A room with so many slots, and a page without a room at `/embed` that has the shop in a frame.
fn scene(slots: u64) -> Scene {
    let slots = format!("total_active_users = {slots}");
    Scene::by_hand(&format!("inlet = \"max-size\"\n{slots}\nbypass = [\"path:/embed\"]"))
}

/// The address of the page after its host, with the fragment that only the browser knows.
const SHOWS_FRAGMENT: &str = "return location.pathname + location.search + location.hash";

#[test]
fn with_a_free_slot_a_link_with_query_and_fragment_leads_to_the_page() {
    if !require_chromium() {
        return;
    }
    let path = "/cart?item=a%20b&c=/d?e#row-7";
    for browser in [Chromium::open(), Chromium::builder().without_scripts().open()] {
        let scene = scene(1);
        browser.go(&scene.shop(path));
        wait_until_inside(&browser, "/cart?item=a%20b&c=/d?e");
        assert_eq!(browser.address(), scene.shop(path), "as it was asked for");
        assert_eq!(browser.run(SHOWS_FRAGMENT, &[]), path);
        assert_eq!((scene.figure("active"), scene.figure("joined")), (1, 1));
        // A reload and another page belong to the same visit.
        browser.reload();
        browser.go(&scene.shop("/next"));
        wait_until_inside(&browser, "/next");
        assert_eq!(scene.site.visits().len(), 1);
    }
}

#[test]
fn without_a_free_slot_the_line_is_shown_at_the_address_that_was_asked_for() {
    if !require_chromium() {
        return;
    }
    let path = "/cart?item=a%20b#row-7";
    for browser in [Chromium::open(), Chromium::builder().without_scripts().open()] {
        let scene = scene(0);
        browser.go(&scene.shop(path));
        wait_for_situation(&browser, "waiting");
        assert_eq!((browser.address(), position(&browser)), (scene.shop(path), Some(1)));
        browser.reload();
        wait_for_situation(&browser, "waiting");
        assert_eq!((position(&browser), scene.figure("joined")), (Some(1), 1));
        scene.set("total_active_users", &serde_json::json!(1));
        wait_until_inside(&browser, "/cart?item=a%20b");
    }
}

#[test]
fn with_cookies_blocked_the_page_says_so_and_nothing_goes_in_a_circle() {
    if !require_chromium() {
        return;
    }
    for has_scripts in [true, false] {
        let builder = Chromium::builder().without_cookies().recording_network();
        let browser = if has_scripts { builder } else { builder.without_scripts() }.open();
        let scene = scene(1);
        browser.go(&scene.shop("/cart?a=1"));
        assert_eq!(situation(&browser), "cookies-needed");
        if let Some(axe_core) = axe_core().filter(|_| has_scripts) {
            assert_everybody_can_use_it(&browser, &axe_core, "cookies needed");
        }
        let loaded = || browser.loaded().iter().filter(|one| one.url.contains(SHOP)).count();
        loaded();
        browser.press(HOME);
        wait_for_situation(&browser, "cookies-needed");
        assert!(loaded() < 10, "the page is loaded again and again");
        assert_eq!((scene.figure("joined"), scene.site.requests()), (0, 0));
    }
}

#[test]
fn in_a_frame_of_the_site_itself_the_door_works_and_in_one_of_another_site_nothing_is_taken() {
    if !require_chromium() {
        return;
    }
    let shown =
        "return document.querySelector('iframe').contentDocument?.querySelector('p')?.textContent ?? ''";
    let told =
        "return document.querySelector('iframe').contentDocument?.documentElement.dataset.situation ?? ''";
    let frame =
        |address: &str| format!("<!doctype html><title>Embed</title><iframe src=\"{address}\"></iframe>");
    // Browsers say what they fetch only where they trust the host.
    for host in [SHOP, SAFE_SHOP] {
        let scene = scene(1);
        let page = Reply::new(200).header("Content-Type", "text/html").body(frame("/inner?x=1"));
        scene.site.answer("/embed", page);
        let foreign = Chromium::builder().expecting_faults().open();
        foreign.go(&format!("data:text/html,{}", frame(&scene.at(host, "/inner"))));
        wait_until("the frame is answered", TIMEOUT, || {
            foreign.run("return document.readyState", &[]) == "complete"
        });
        assert_eq!((scene.figure("joined"), scene.figure("active")), (0, 0), "{host}");
        let first = Chromium::open();
        first.go(&scene.at(host, "/embed"));
        wait_until("the site is in the frame", TIMEOUT, || first.run(shown, &[]) == "GET /inner?x=1");
        assert_eq!((scene.figure("joined"), scene.figure("active")), (1, 1), "{host}");
        let second = Chromium::open();
        second.go(&scene.at(host, "/embed"));
        wait_until("the line is in the frame", TIMEOUT, || second.run(told, &[]) == "waiting");
        assert_eq!((scene.figure("joined"), scene.figure("waiting")), (2, 1), "{host}");
    }
}
