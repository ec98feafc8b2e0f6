//! "At least three languages, one right-to-left", in a real browser: the page speaks the visitor's, the server and the script
//! write alike, and who speaks another gets English.

mod page_support;

use anteroom_testkit::{Chromium, require_chromium};
use page_support::{LEAVE, Scene, situation, wait_for_ahead, wait_for_situation};

/// How many are ahead, one after the other: every plural form of Polish and of Arabic is among them.
const AHEAD: [u64; 9] = [1_234, 112, 25, 22, 11, 5, 3, 2, 1];

/// What the page writes where it counts: its title and the estimate.
fn counted(browser: &Chromium) -> (String, String) {
    (browser.title(), browser.text("#ahead").unwrap_or_default())
}

/// A text without its digits, and without what stands between them.
fn words(text: &str) -> String {
    text.chars().filter(|&letter| letter.is_alphabetic()).collect()
}

#[test]
fn the_page_speaks_the_language_of_its_visitor_and_counts_in_it() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand("");
    let people = i64::try_from(AHEAD[0]).expect("a small number");
    scene.crowd(usize::try_from(people).expect("a small number"));
    let browser = Chromium::open();
    scene.wait_in_line(&browser, "/");
    let english = (browser.text("h1"), browser.text(LEAVE));
    let languages = [("de", "ltr"), ("pl", "ltr"), ("ar", "rtl")];
    let mut seen = vec![vec![]; languages.len()];
    for (index, &ahead) in AHEAD.iter().enumerate() {
        if index > 0 {
            scene.advance(i64::try_from(AHEAD[index - 1] - ahead).expect("a small number"));
        }
        for (&(language, direction), seen) in languages.iter().zip(&mut seen) {
            browser.speak(language);
            browser.reload();
            wait_for_ahead(&browser, ahead);
            assert_eq!(browser.attribute("html", "lang").as_deref(), Some(language));
            assert_eq!(browser.attribute("html", "dir").as_deref(), Some(direction));
            assert_eq!(browser.style("main", "direction"), direction);
            let written = (browser.text("h1"), browser.text(LEAVE));
            assert!(written.0.is_some() && written != english, "{language}: {written:?}");
            seen.push(counted(&browser));
        }
    }
    for ((language, _), seen) in languages.iter().zip(&seen) {
        println!("{language}: {seen:?}");
    }
    let grouped = |index: usize| seen[index][0].1.clone();
    assert_eq!(
        (grouped(0).as_str(), grouped(2).as_str()),
        ("1.234", "1,234"),
        "numbers are written as people write them"
    );
    browser.assert_no_faults();
}

#[test]
fn script_and_server_write_every_plural_alike() {
    if !require_chromium() {
        return;
    }
    for language in ["pl", "ar", "de"] {
        let scene = Scene::by_hand("page_heading = \"Hall\"");
        scene.crowd(112);
        let browser = Chromium::builder().language(language).open();
        scene.wait_in_line(&browser, "/");
        let (mut ahead, mut forms) = (112, vec![]);
        for next in [101, 25, 22, 11, 5, 3, 2, 1] {
            scene.advance(ahead - next);
            ahead = next;
            let expected = u64::try_from(next).expect("a small number");
            wait_for_ahead(&browser, expected);
            let by_script = counted(&browser);
            browser.set_scripts(false);
            browser.reload();
            assert_eq!(counted(&browser), by_script, "the server writes it like the script");
            browser.set_scripts(true);
            browser.reload();
            forms.push(words(&by_script.0));
        }
        forms.sort();
        forms.dedup();
        // Polish: one, few, many. Arabic: one, two, few, many, other. German: one, other.
        let expected = match language {
            "pl" => 3,
            "ar" => 5,
            _ => 2,
        };
        assert_eq!(forms.len(), expected, "{language}: {forms:?}");
        browser.assert_no_faults();
    }
}

#[test]
fn a_page_from_right_to_left_is_laid_out_so() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand("");
    scene.crowd(1_234);
    let browser = Chromium::builder().language("ar").open();
    scene.wait_in_line(&browser, "/");
    // The switch stands behind its words: on the other side than in English.
    let side = "const row = document.querySelector('#cue-sound').closest('label').getBoundingClientRect(), \
        it = document.querySelector('#cue-sound').getBoundingClientRect(); \
        return (it.left + it.right) / 2 > (row.left + row.right) / 2 ? 'right' : 'left'";
    assert_eq!(browser.run(side, &[]), "left");
    browser.resize(320, 640, true);
    assert_eq!(browser.sideways_pixels(), 0);
    browser.speak("en");
    browser.reload();
    wait_for_situation(&browser, "waiting");
    assert_eq!(browser.run(side, &[]), "right");
}

#[test]
fn who_speaks_an_unknown_language_reads_english_and_the_next_best_counts() {
    if !require_chromium() {
        return;
    }
    let scene = Scene::by_hand("");
    scene.crowd(1);
    let browser = Chromium::builder().language("mi").open();
    scene.wait_in_line(&browser, "/");
    let language = || browser.attribute("html", "lang");
    assert_eq!(language().as_deref(), Some("en"));
    for (asked, expected) in
        [("mi,de;q=0.5", "de"), ("de-AT,en;q=0.9", "de"), ("tlh,pl-PL;q=0.3,en;q=0.2", "pl")]
    {
        browser.speak(asked);
        browser.reload();
        wait_for_situation(&browser, "waiting");
        assert_eq!(language().as_deref(), Some(expected), "{asked}");
    }
    assert_eq!(situation(&browser), "waiting");
}
