//! What holds for every page: axe-core finds nothing, nothing is cut off in the narrowest window, whatever can be
//! pressed is large enough to be hit, and the keyboard gets everywhere. And every page at once, as the server previews them.

use anteroom_testkit::{Chromium, Key, Reply, Scheme};
use serde_json::{Value, json};

use crate::scene::{self, Scene};

/// The narrowest window that must do: 1,280 by 1,024 pixels at 400 %.
pub(crate) const NARROW: (u32, u32) = (320, 256);
/// A usual one.
pub(crate) const WIDE: (u32, u32) = (1_280, 800);
/// How large whatever can be pressed is at least, both ways, in pixels of the style sheet (WCAG 2.2, 2.5.8).
const TARGET_MIN_PIXELS: u32 = 24;
/// How often Tab is pressed at most to reach anything.
const TABS_MAX: usize = 20;

/// Elements that do not hold their own content, or stand out of the window. What is for the voice alone is cut off on purpose, and a
/// field of one line scrolls.
const CUT_OFF: &str = "const width = document.documentElement.clientWidth; \
    const isSeen = it => it.checkVisibility({ visibilityProperty: true }) && !it.closest('#spoken, svg'); \
    const isCut = it => it.clientWidth > 0 && it.scrollWidth > it.clientWidth + 1 && !it.matches('input'); \
    const isClipped = it => getComputedStyle(it).overflowY === 'hidden' && it.scrollHeight > it.clientHeight + 1; \
    const isOut = it => { const box = it.getBoundingClientRect(); return box.left < -1 || box.right > width + 1 }; \
    return [...document.querySelectorAll('body, body *')].filter(it => isSeen(it) && (isCut(it) || isClipped(it) || isOut(it))) \
    .map(it => `${it.outerHTML.slice(0, 120)}: ${it.scrollWidth} in ${it.clientWidth}`)";
/// How many elements can be pressed, and those of them that are too small.
const TARGETS: &str = "const all = [...document.querySelectorAll('a[href], button, summary, input, select, textarea, [role=switch]')] \
    .filter(it => it.type !== 'hidden' && it.checkVisibility({ visibilityProperty: true })); \
    const isSmall = it => { const { width, height } = it.getBoundingClientRect(); return Math.min(width, height) < arguments[0] }; \
    return [all.length, all.filter(isSmall).map(it => it.outerHTML.slice(0, 120))]";
/// Shows all that a page can ever show, at once, and with a large figure.
const REVEAL: &str = "for (const it of document.querySelectorAll('[hidden]')) it.hidden = false; \
    for (const it of document.querySelectorAll('details')) it.open = true; \
    for (const it of document.querySelectorAll('#ahead')) { it.textContent = '1,234,567'; it.classList.add('long') } \
    for (const it of document.querySelectorAll('dialog [data-anteroom=link]')) it.value = location.href.repeat(5)";
const OPEN_DIALOG: &str =
    "const dialog = document.querySelector('dialog'); dialog?.showModal(); return dialog !== null";

/// The page as it is shown where no scripts run: what stands there for them is a part of it.
const AS_SHOWN: &str = "const page = document.documentElement.cloneNode(true); \
    for (const it of page.querySelectorAll('script, meta[http-equiv]')) it.remove(); \
    for (const it of page.querySelectorAll('noscript')) it.replaceWith(...it.childNodes); \
    return ['<!doctype html>' + page.outerHTML, document.querySelector('main').innerText.trim()]";

/// Looks at the page as it is: in light and wide, in dark and narrow.
#[track_caller]
pub(crate) fn assert_everybody_can_use_it(browser: &Chromium, axe_core: &str, what: &str) {
    for (scheme, window) in [(Scheme::Light, WIDE), (Scheme::Dark, NARROW)] {
        assert_everybody_can_use_it_in(browser, axe_core, what, (scheme, window));
    }
    browser.resize(WIDE.0, WIDE.1, false);
    browser.assert_no_faults();
}

/// Looks at the page as it is, in these colours and a window of this size.
#[track_caller]
pub(crate) fn assert_everybody_can_use_it_in(
    browser: &Chromium,
    axe_core: &str,
    what: &str,
    (scheme, (width, height)): (Scheme, (u32, u32)),
) {
    browser.prefer(scheme, true);
    browser.resize(width, height, false);
    let what = format!("{what}, {}, {width} pixels wide", scheme.name());
    assert_eq!(browser.violations(axe_core), "", "{what}");
    assert_eq!(browser.run("return document.querySelectorAll('h1').length", &[]), 1, "{what}");
    assert_nothing_is_cut_off(browser, &what);
    assert_targets_are_large_enough(browser, &what);
}

/// Everything is within the window and within its own box; nothing scrolls sideways.
#[track_caller]
pub(crate) fn assert_nothing_is_cut_off(browser: &Chromium, what: &str) {
    assert_eq!(browser.sideways_pixels(), 0, "{what} scrolls sideways");
    assert_eq!(browser.run(CUT_OFF, &[]), json!([]), "{what} is cut off");
}

/// Whatever can be pressed can be hit; says how many there are.
#[track_caller]
pub(crate) fn assert_targets_are_large_enough(browser: &Chromium, what: &str) -> u64 {
    let targets = browser.run(TARGETS, &[json!(TARGET_MIN_PIXELS)]);
    assert_eq!(targets[1], json!([]), "{what} has targets below {TARGET_MIN_PIXELS} pixels");
    targets[0].as_u64().expect("a count")
}

/// Shows all that the page can ever show, in the page and then in its dialog, and looks whether it has room.
#[track_caller]
pub(crate) fn assert_everything_has_room(browser: &Chromium, what: &str) {
    browser.run(REVEAL, &[]);
    assert_nothing_is_cut_off(browser, &format!("{what}, all of it"));
    assert_targets_are_large_enough(browser, &format!("{what}, all of it"));
    if browser.run(OPEN_DIALOG, &[]) == true {
        assert_nothing_is_cut_off(browser, &format!("{what}, with its dialog"));
    }
}

/// The names of all pages that there are, as the server lists them.
#[track_caller]
pub(crate) fn situations(scene: &Scene) -> Vec<String> {
    let refused = preview(scene, &json!({ "situation": "none" }));
    assert_eq!(refused.status, 400, "{refused:?}");
    let listed = refused.json()["detail"].as_str().expect("what is wrong").to_owned();
    let (_, names) = listed.split_once("one of ").expect("the names");
    let names: Vec<String> = names.trim_end_matches('.').split(", ").map(str::to_owned).collect();
    assert!(names.len() >= 20, "{names:?}");
    names
}

/// Opens a page with sample figures, in that language and under the policy that visitors get it with.
#[track_caller]
pub(crate) fn open_preview(scene: &Scene, browser: &Chromium, situation: &str, language: &str) {
    let response = preview(scene, &json!({ "situation": situation, "language": language }));
    assert_eq!(response.status, 200, "{response:?}");
    let policy = response.header("Content-Security-Policy").expect("a policy");
    // The seal, which only previews have, would keep axe-core out too.
    let policy = policy.strip_suffix("; sandbox").expect("a seal").to_owned();
    let reply = Reply::new(200).header("Content-Type", "text/html; charset=utf-8");
    scene
        .site
        .answer("/preview", reply.header("Content-Security-Policy", &policy).body(response.body.clone()));
    browser.go(&format!("{}/preview", scene.site.url()));
    assert_eq!(scene::situation(browser), situation);
    assert_eq!(browser.attribute("html", "lang").as_deref(), Some(language));
}

/// Another browser with the page as a browser without scripts shows it now: such a one cannot run axe-core either.
#[track_caller]
pub(crate) fn open_as_shown(scene: &Scene, browser: &Chromium) -> Chromium {
    let response = browser.run(AS_SHOWN, &[]);
    let reply = Reply::new(200).header("Content-Type", "text/html; charset=utf-8");
    scene.site.answer("/as-shown", reply.body(response[0].as_str().expect("a page")));
    let looking = Chromium::open();
    looking.go(&format!("{}/as-shown", scene.site.url()));
    assert_eq!(looking.text("main").as_deref(), response[1].as_str());
    looking
}

fn preview(scene: &Scene, body: &Value) -> anteroom_testkit::Answer {
    scene.server.operator().post("/rooms/Hall/preview", body).expect("an answer")
}

/// Presses Tab until the element of this selector has the focus; the focus must be visible at each stop.
#[track_caller]
pub(crate) fn tab_to(browser: &Chromium, selector: &str) {
    for _ in 0..TABS_MAX {
        browser.keys(&[Key::Tab]);
        assert_focus_is_seen(browser);
        if has_focus(browser, selector) {
            return;
        }
    }
    panic!("{selector} cannot be reached by Tab");
}

/// Whether the first element of this selector has the focus.
#[track_caller]
pub(crate) fn has_focus(browser: &Chromium, selector: &str) -> bool {
    let is_there = "return document.activeElement === document.querySelector(arguments[0])";
    browser.run(is_there, &[json!(selector)]) == true
}

/// The focus is visible for those who use the keyboard.
#[track_caller]
pub(crate) fn assert_focus_is_seen(browser: &Chromium) {
    let is_seen = "const it = document.activeElement; if (it === document.body) return true; \
        const seen = getComputedStyle(it), box = it.getBoundingClientRect(); \
        return it.matches(':focus-visible') && box.width > 0 && \
        ((seen.outlineStyle !== 'none' && parseFloat(seen.outlineWidth) >= 2) || seen.boxShadow !== 'none')";
    assert_eq!(browser.run(is_seen, &[]), true, "the focus is seen on {}", browser.focused());
}
