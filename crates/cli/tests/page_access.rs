//! "Keyboard only; axe-core finds no violation in light and dark; no CSP violation", in a real browser; and narrow windows, little
//! motion, and a voice that does not chatter.

mod page_support;

use anteroom_testkit::{Chromium, Key, Scheme, axe_core, require_chromium, wait_until};
use page_support::{
    ENTER, LEAVE, LEAVE_CONFIRM, MOVE, MOVE_DIALOG, PATIENCE, SAFE_SHOP, SPOKEN, Scene, position,
    wait_for_ahead, wait_for_situation,
};
use serde_json::json;

/// The narrowest window that must do: 1,280 pixels at 400 %.
const NARROW: u32 = 320;

/// Looks at the page as it is: in light and wide, in dark and narrow.
#[track_caller]
fn assert_everybody_can_use_it(browser: &Chromium, axe_core: &str, what: &str) {
    for (scheme, width) in [(Scheme::Light, 1_280), (Scheme::Dark, NARROW)] {
        browser.prefer(scheme, true);
        browser.resize(width, 800, width == NARROW);
        let violations = browser.violations(axe_core);
        assert_eq!(violations, "", "{what}, {}, {width} pixels wide", scheme.name());
        assert_eq!(browser.sideways_pixels(), 0, "{what}, {width} pixels wide");
    }
    browser.resize(1_280, 800, false);
    assert_eq!(browser.run("return document.querySelectorAll('h1').length", &[]), 1, "{what}");
    browser.assert_no_faults();
}

#[test]
fn axe_core_finds_no_violation_in_light_and_dark() {
    if !require_chromium() {
        return;
    }
    let Some(axe_core) = axe_core() else { return };
    let more = "auto_enter = false\nenable_queue_position_expiry = true\nqueue_position_expiry_period = 600\n\
        notice = \"Doors open at eight.\"\npage_heading = \"The Sample Theatre\"\npage_color = \"#ffe600\"";
    let scene = Scene::by_hand(more);
    scene.crowd(30);
    let browser = Chromium::open();
    scene.wait_in_line(&browser, "/");
    assert_everybody_can_use_it(&browser, &axe_core, "waiting");
    browser.press(LEAVE);
    wait_until("he is asked", PATIENCE, || browser.shows(LEAVE_CONFIRM));
    assert_everybody_can_use_it(&browser, &axe_core, "asked whether to leave");
    browser.reload();
    wait_for_situation(&browser, "waiting");
    browser.press(MOVE);
    wait_until("the dialog is open", PATIENCE, || browser.shows(&format!("{MOVE_DIALOG} svg")));
    assert_everybody_can_use_it(&browser, &axe_core, "moving");
    browser.keys(&[Key::Escape]);
    wait_until("the dialog is closed", PATIENCE, || !browser.shows(MOVE_DIALOG));
    scene.change(&json!({ "state": "paused" }));
    wait_until("the page says that the line is paused", PATIENCE, || {
        browser.attribute("html", "data-phase").as_deref() == Some("paused")
    });
    assert_everybody_can_use_it(&browser, &axe_core, "paused");
    scene.change(&json!({ "state": "open" }));
    scene.advance(31);
    wait_for_situation(&browser, "turn");
    wait_until("the button is there", PATIENCE, || browser.shows(ENTER));
    assert_everybody_can_use_it(&browser, &axe_core, "at the turn");
    scene.set("queue_position_expiry_period", &json!(1));
    wait_for_situation(&browser, "gone");
    assert_everybody_can_use_it(&browser, &axe_core, "gone");
    scene.change(&json!({ "state": "closed" }));
    browser.go(&scene.shop("/"));
    wait_for_situation(&browser, "closed");
    assert_everybody_can_use_it(&browser, &axe_core, "closed");
}

/// Presses Tab until the element of this selector has the focus; each stop on the way must be seen.
#[track_caller]
fn tab_to(browser: &Chromium, selector: &str) {
    let is_there = "return document.activeElement === document.querySelector(arguments[0])";
    let is_seen = "const it = document.activeElement; if (it === document.body) return true; \
        const seen = getComputedStyle(it), box = it.getBoundingClientRect(); \
        return it.matches(':focus-visible') && box.width > 0 && \
        ((seen.outlineStyle !== 'none' && parseFloat(seen.outlineWidth) >= 2) || seen.boxShadow !== 'none')";
    for _ in 0..20 {
        browser.keys(&[Key::Tab]);
        assert_eq!(browser.run(is_seen, &[]), true, "the focus is seen on {}", browser.focused());
        if browser.run(is_there, &[json!(selector)]) == true {
            return;
        }
    }
    panic!("{selector} cannot be reached by Tab");
}

#[test]
fn by_keyboard_alone_one_switches_cues_moves_and_leaves() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand("");
    scene.crowd(3);
    let browser = Chromium::open();
    scene.wait_in_line(&browser, "/");
    wait_until("the cues are offered", PATIENCE, || browser.shows("label[for=\"cue-sound\"]"));
    tab_to(&browser, "#cue-sound");
    browser.keys(&[Key::Space]);
    let is_on = || browser.run("return document.querySelector('#cue-sound').checked", &[]) == true;
    assert!(is_on());
    tab_to(&browser, MOVE);
    browser.keys(&[Key::Enter]);
    wait_until("the dialog is open", PATIENCE, || browser.shows(&format!("{MOVE_DIALOG} svg")));
    let within = format!("return document.activeElement.closest('{MOVE_DIALOG}') !== null");
    assert_eq!(browser.run(&within, &[]), true, "the dialog has the focus");
    browser.keys(&[Key::Escape]);
    wait_until("the dialog is closed", PATIENCE, || !browser.shows(MOVE_DIALOG));
    assert_eq!(browser.focused(), "a#move", "the focus is back where it was");
    tab_to(&browser, LEAVE);
    browser.keys(&[Key::Enter]);
    wait_until("he is asked", PATIENCE, || browser.shows(LEAVE_CONFIRM));
    // A choice outlives a reload; a question does not.
    browser.reload();
    wait_for_situation(&browser, "waiting");
    wait_until("the choice is remembered", PATIENCE, is_on);
    assert_eq!(position(&browser), Some(4));
    tab_to(&browser, LEAVE);
    browser.keys(&[Key::Enter]);
    tab_to(&browser, LEAVE_CONFIRM);
    browser.keys(&[Key::Enter]);
    wait_for_situation(&browser, "left");
    tab_to(&browser, page_support::HOME);
    browser.keys(&[Key::Enter]);
    wait_for_situation(&browser, "waiting");
    browser.assert_no_faults();
}

#[test]
fn whoever_asked_for_it_is_notified_at_the_turn() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand("auto_enter = false");
    scene.crowd(3);
    let browser = Chromium::open();
    let address = scene.at(SAFE_SHOP, "/");
    let permission = json!({ "origin": address.trim_end_matches('/'), "permissions": ["notifications"] });
    browser.devtools("Browser.grantPermissions", &permission);
    browser.go(&address);
    wait_for_situation(&browser, "waiting");
    let record = "window.notifiedInTest = []; const Real = Notification; \
        window.Notification = class extends Real { constructor(title, more) { super(title, more); notifiedInTest.push(title) } }";
    browser.run(record, &[]);
    wait_until("the cues are offered", PATIENCE, || browser.shows("label[for=\"cue-notification\"]"));
    browser.press("#cue-notification");
    browser.press("#cue-sound");
    let is_on = "return ['#cue-sound', '#cue-notification'].every(it => document.querySelector(it).checked)";
    wait_until("both are on", PATIENCE, || browser.run(is_on, &[]) == true);
    let notified = |expected: &[&str]| {
        wait_until(&format!("the notifications are {expected:?}"), PATIENCE, || {
            browser.run("return notifiedInTest", &[]) == json!(expected)
        });
    };
    let title = browser.title();
    notified(&[&title]);
    scene.advance(4);
    wait_for_situation(&browser, "turn");
    assert_eq!(browser.title(), "● It is your turn");
    notified(&[&title, "It is your turn"]);
    browser.assert_no_faults();
}

#[test]
fn with_reduced_motion_nothing_moves() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand("");
    scene.crowd(30);
    let browser = Chromium::open();
    browser.prefer(Scheme::Light, true);
    scene.wait_in_line(&browser, "/");
    let moving = "return document.getAnimations().filter(it => it.playState === 'running' && \
        it.effect.getComputedTiming().duration > 10).map(it => it.animationName || it.transitionProperty)";
    let mut looks = 0;
    scene.advance(12);
    wait_for_ahead(&browser, 18);
    wait_until("some looks were taken", PATIENCE, || {
        assert_eq!(browser.run(moving, &[]), json!([]));
        looks += 1;
        looks >= 10
    });
}

#[test]
fn the_voice_speaks_at_milestones_only() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand("auto_enter = false");
    scene.crowd(40);
    let browser = Chromium::open();
    scene.wait_in_line(&browser, "/");
    let role = browser.attribute(SPOKEN, "role");
    assert!(
        role.as_deref() == Some("status")
            || browser.attribute(SPOKEN, "aria-live").as_deref() == Some("polite")
    );
    assert_eq!(
        browser.run(
            "return document.querySelectorAll('[aria-live=assertive],[role=alert],[role=timer]').length",
            &[]
        ),
        0
    );
    let others = format!(
        "return [...document.querySelectorAll('[aria-live],[role=status]')].filter(it => it.matches('{SPOKEN}') === false).length"
    );
    assert_eq!(browser.run(&others, &[]), 0, "there is one voice");
    let listen = format!(
        "window.heardInTest = []; const voice = document.querySelector('{SPOKEN}'); \
         const hear = () => voice.textContent.trim() && heardInTest.push(voice.textContent.trim()); \
         hear(); new MutationObserver(hear).observe(voice, {{ childList: true, characterData: true, subtree: true }})"
    );
    browser.run(&listen, &[]);
    let heard = || browser.run("return heardInTest", &[]).as_array().map_or(0, Vec::len);
    // Ten moves of one, none of which is worth a word.
    for step in 1..=10 {
        scene.advance(1);
        wait_for_ahead(&browser, 40 - step);
    }
    let in_small_steps = heard();
    assert!(in_small_steps <= 1, "{:?}", browser.run("return heardInTest", &[]));
    scene.advance(12);
    wait_for_ahead(&browser, 18);
    wait_until("half the way is worth a word", PATIENCE, || heard() > in_small_steps);
    let before = heard();
    scene.advance(19);
    wait_for_situation(&browser, "turn");
    wait_until("the turn is worth a word", PATIENCE, || heard() > before);
    assert!(heard() <= 5, "{:?}", browser.run("return heardInTest", &[]));
}
