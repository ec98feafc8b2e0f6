//! "Keyboard only; axe-core finds no violation in light and dark", in a real browser; and windows at 400 %, little motion, and a voice
//! that does not chatter. That no policy blocks anything is looked at when each browser of each test ends.

use anteroom_testkit::{Chromium, Key, Scheme, axe_core, require_chromium, wait_until};
use serde_json::json;

use crate::page_checks::{
    NARROW, WIDE, assert_everybody_can_use_it, assert_everybody_can_use_it_in, assert_everything_has_room,
    assert_focus_is_seen, assert_nothing_is_cut_off, assert_targets_are_large_enough, has_focus,
    open_preview, situations, tab_to,
};
use crate::scene::{
    ENTER, HOME, LEAVE, LEAVE_CONFIRM, MOVE, MOVE_DIALOG, SAFE_SHOP, SPOKEN, Scene, TAKE, TIMEOUT, ahead,
    position, situation, wait_for_ahead, wait_for_event_source, wait_for_situation, wait_until_inside,
};

/// Whatever an operator may put on a page, none of it short.
const BRANDED: &str = "auto_enter = false\npage_heading = \"Donaudampfschifffahrtsgesellschaft: Night of the Long Horns\"\n\
    page_color = \"#ffe600\"\nnotice = \"Doors open at eight. See www.a-theatre-with-a-rather-long-name.example/tickets.\"";

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
    wait_until("the page asks", TIMEOUT, || browser.shows(LEAVE_CONFIRM));
    assert_everybody_can_use_it(&browser, &axe_core, "asked whether to leave");
    browser.reload();
    wait_for_situation(&browser, "waiting");
    browser.press(MOVE);
    wait_until("the dialog is open", TIMEOUT, || browser.shows(&format!("{MOVE_DIALOG} svg")));
    assert_everybody_can_use_it(&browser, &axe_core, "moving");
    browser.keys(&[Key::Escape]);
    wait_until("the dialog is closed", TIMEOUT, || !browser.shows(MOVE_DIALOG));
    scene.change(&json!({ "state": "paused" }));
    wait_until("the page says that the line is paused", TIMEOUT, || {
        browser.attribute("html", "data-phase").as_deref() == Some("paused")
    });
    assert_everybody_can_use_it(&browser, &axe_core, "paused");
    scene.change(&json!({ "state": "open" }));
    scene.advance(31);
    wait_for_situation(&browser, "turn");
    wait_until("the button is there", TIMEOUT, || browser.shows(ENTER));
    assert_everybody_can_use_it(&browser, &axe_core, "at the turn");
    scene.set("queue_position_expiry_period", &json!(1));
    wait_for_situation(&browser, "gone");
    assert_everybody_can_use_it(&browser, &axe_core, "gone");
    scene.change(&json!({ "state": "closed" }));
    browser.go(&scene.shop("/"));
    wait_for_situation(&browser, "closed");
    assert_everybody_can_use_it(&browser, &axe_core, "closed");
}

/// Those above are as the script leaves them; these are all that the server writes, in both directions.
#[test]
fn axe_core_finds_no_violation_on_any_page_in_either_direction() {
    if !require_chromium() {
        return;
    }
    let Some(axe_core) = axe_core() else { return };
    let scene = Scene::by_hand(BRANDED);
    let browser = Chromium::open();
    for situation in situations(&scene) {
        for (language, look) in [("en", (Scheme::Light, WIDE)), ("ar", (Scheme::Dark, NARROW))] {
            open_preview(&scene, &browser, &situation, language);
            let what = format!("{situation} in {language}");
            assert_everybody_can_use_it_in(&browser, &axe_core, &what, look);
        }
    }
}

#[test]
fn at_400_percent_nothing_is_cut_off_and_every_target_can_be_hit() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand(BRANDED);
    let browser = Chromium::open();
    browser.resize(NARROW.0, NARROW.1, false);
    let mut targets = 0;
    for situation in situations(&scene) {
        for language in ["en", "de", "ar"] {
            let what = format!("{situation} in {language}");
            open_preview(&scene, &browser, &situation, language);
            assert_nothing_is_cut_off(&browser, &what);
            targets += assert_targets_are_large_enough(&browser, &what);
            assert_everything_has_room(&browser, &what);
        }
    }
    assert!(targets > 60, "only {targets} targets were found");
    // The same looks find what is wrong.
    let is_found = |look: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(look)).is_err();
    browser.run("document.querySelector('.lead').style.cssText = 'width: 330px'", &[]);
    assert!(is_found(&|| assert_nothing_is_cut_off(&browser, "too wide")));
    browser.run("document.querySelector('.lead').style.cssText = 'width: 20px; overflow: hidden; white-space: nowrap'", &[]);
    assert!(is_found(&|| assert_nothing_is_cut_off(&browser, "cut")));
    browser.run("document.querySelector('.button').style.cssText = 'min-height: 0; height: 23px'", &[]);
    assert!(is_found(&|| _ = assert_targets_are_large_enough(&browser, "too small")));
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
    wait_until("the cues are offered", TIMEOUT, || browser.shows("label[for=\"cue-sound\"]"));
    tab_to(&browser, "#cue-sound");
    browser.keys(&[Key::Space]);
    let is_on = || browser.run("return document.querySelector('#cue-sound').checked", &[]) == true;
    assert!(is_on());
    tab_to(&browser, MOVE);
    browser.keys(&[Key::Enter]);
    wait_until("the dialog is open", TIMEOUT, || browser.shows(&format!("{MOVE_DIALOG} svg")));
    let within = format!("return document.activeElement.closest('{MOVE_DIALOG}') !== null");
    assert_eq!(browser.run(&within, &[]), true, "the dialog has the focus");
    let copy = format!("{MOVE_DIALOG} [data-anteroom~=copy]");
    tab_to(&browser, &copy);
    browser.keys(&[Key::Enter]);
    wait_until("it says that the link is copied", TIMEOUT, || {
        browser.text(&copy).as_deref() == Some("Copied")
    });
    let heard = browser.attribute(&copy, "aria-live");
    assert_eq!(heard.as_deref(), Some("polite"), "and not only to those who see it");
    browser.keys(&[Key::Escape]);
    wait_until("the dialog is closed", TIMEOUT, || !browser.shows(MOVE_DIALOG));
    assert_eq!(browser.focused(), "a#move", "the focus is back where it was");
    tab_to(&browser, LEAVE);
    browser.keys(&[Key::Enter]);
    wait_until("the page asks", TIMEOUT, || browser.shows(LEAVE_CONFIRM));
    // A choice outlives a reload; a question does not.
    browser.reload();
    wait_for_situation(&browser, "waiting");
    wait_until("the choice is remembered", TIMEOUT, is_on);
    assert_eq!(position(&browser), Some(4));
    tab_to(&browser, LEAVE);
    browser.keys(&[Key::Enter]);
    tab_to(&browser, LEAVE_CONFIRM);
    browser.keys(&[Key::Enter]);
    wait_for_situation(&browser, "left");
    tab_to(&browser, HOME);
    browser.keys(&[Key::Enter]);
    wait_for_situation(&browser, "waiting");
}

#[test]
fn by_keyboard_alone_one_takes_a_place_to_another_device_and_enters() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand("auto_enter = false");
    scene.crowd(2);
    let (old, new) = (Chromium::open(), Chromium::open());
    scene.wait_in_line(&old, "/start");
    tab_to(&old, MOVE);
    old.keys(&[Key::Enter]);
    wait_until("the dialog is open", TIMEOUT, || old.shows(&format!("{MOVE_DIALOG} svg")));
    let link = old.run("return document.querySelector(arguments[0] + ' input').value", &[json!(MOVE_DIALOG)]);
    new.go(link.as_str().expect("a link"));
    assert_eq!(situation(&new), "move-in");
    tab_to(&new, TAKE);
    new.keys(&[Key::Enter]);
    wait_for_situation(&new, "waiting");
    assert_eq!((position(&new), ahead(&new)), (Some(3), Some(2)));
    wait_for_event_source(&new, "stream");
    scene.advance(3);
    wait_for_situation(&new, "turn");
    // The button has the focus at the turn.
    wait_until("the button has the focus", TIMEOUT, || has_focus(&new, ENTER));
    assert_focus_is_seen(&new);
    assert_eq!((scene.figure("claimed"), scene.site.requests()), (0, 0));
    new.keys(&[Key::Enter]);
    wait_until_inside(&new, "/start");
    assert_eq!(scene.figure("claimed"), 1);
}

#[test]
fn visitors_who_asked_for_it_are_notified_at_the_turn() {
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
    wait_until("the cues are offered", TIMEOUT, || browser.shows("label[for=\"cue-notification\"]"));
    browser.press("#cue-notification");
    browser.press("#cue-sound");
    let is_on = "return ['#cue-sound', '#cue-notification'].every(it => document.querySelector(it).checked)";
    wait_until("both are on", TIMEOUT, || browser.run(is_on, &[]) == true);
    let notified = |expected: &[&str]| {
        wait_until(&format!("the notifications are {expected:?}"), TIMEOUT, || {
            browser.run("return notifiedInTest", &[]) == json!(expected)
        });
    };
    let title = browser.title();
    notified(&[&title]);
    scene.advance(4);
    wait_for_situation(&browser, "turn");
    assert_eq!(browser.title(), "● It is your turn");
    notified(&[&title, "It is your turn"]);
}

#[test]
fn with_reduced_motion_nothing_moves() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand("");
    scene.crowd(30);
    let browser = Chromium::open();
    let moving = || {
        let moving = "return document.getAnimations().filter(it => it.playState === 'running' && \
            it.effect.getComputedTiming().duration > 10).map(it => it.animationName || it.transitionProperty)";
        browser.run(moving, &[])
    };
    // Where motion is welcome there is some, which this look finds.
    browser.prefer(Scheme::Light, false);
    scene.wait_in_line(&browser, "/");
    wait_until("something moves", TIMEOUT, || {
        browser.reload();
        wait_for_event_source(&browser, "stream");
        moving().as_array().is_some_and(|moving| !moving.is_empty())
    });
    browser.prefer(Scheme::Light, true);
    browser.reload();
    wait_for_event_source(&browser, "stream");
    assert_eq!(moving(), json!([]));
    scene.advance(12);
    wait_for_ahead(&browser, 18);
    for _ in 0..10 {
        assert_eq!(moving(), json!([]));
    }
    browser.press("#cue-sound");
    assert_eq!(moving(), json!([]), "a switch does not slide");
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
    wait_until("half the way is worth a word", TIMEOUT, || heard() > in_small_steps);
    let before = heard();
    scene.advance(19);
    wait_for_situation(&browser, "turn");
    wait_until("the turn is worth a word", TIMEOUT, || heard() > before);
    assert!(heard() <= 5, "{:?}", browser.run("return heardInTest", &[]));
}
