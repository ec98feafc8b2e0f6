//! "At least three languages, one right-to-left", in a real browser: the page speaks the visitor's, the server and the script
//! write alike, and who speaks another gets English.

use anteroom_testkit::{Chromium, axe_core, require_chromium};

use crate::page_checks::assert_everybody_can_use_it;
use crate::scene::{LEAVE, Scene, situation, wait_for_ahead, wait_for_situation};

/// What the page says in one language. The sentences are written out here, so that a file of words in which they got mixed up, or a
/// plural that was chosen wrongly, is found.
struct Spoken {
    language: &'static str,
    direction: &'static str,
    title: &'static str,
    leave: &'static str,
    /// How many are ahead, as the tab says it, for each of [`AHEAD`].
    ahead: [&'static str; AHEAD.len()],
    /// The first of them as a figure.
    figure: &'static str,
}

/// How many are ahead, one after the other: every plural form of Polish and of Arabic is among them.
const AHEAD: [u64; 10] = [1_234, 112, 100, 22, 11, 5, 3, 2, 1, 0];
const SPOKEN: [Spoken; 4] = [
    Spoken {
        language: "de",
        direction: "ltr",
        title: "Sie sind in der Warteschlange",
        leave: "Warteschlange verlassen",
        ahead: [
            "1.234 Personen vor Ihnen",
            "112 Personen vor Ihnen",
            "100 Personen vor Ihnen",
            "22 Personen vor Ihnen",
            "11 Personen vor Ihnen",
            "5 Personen vor Ihnen",
            "3 Personen vor Ihnen",
            "2 Personen vor Ihnen",
            "1 Person vor Ihnen",
            "Sie sind als Nächstes dran",
        ],
        figure: "1.234",
    },
    Spoken {
        language: "pl",
        direction: "ltr",
        title: "Jesteś w kolejce",
        leave: "Opuść kolejkę",
        ahead: [
            "1234 osoby przed Tobą",
            "112 osób przed Tobą",
            "100 osób przed Tobą",
            "22 osoby przed Tobą",
            "11 osób przed Tobą",
            "5 osób przed Tobą",
            "3 osoby przed Tobą",
            "2 osoby przed Tobą",
            "1 osoba przed Tobą",
            "Jesteś następną osobą w kolejce",
        ],
        figure: "1234",
    },
    Spoken {
        language: "ar",
        direction: "rtl",
        title: "أنت في طابور الانتظار",
        leave: "مغادرة الطابور",
        ahead: [
            "أمامك 1,234 شخصًا",
            "أمامك 112 شخصًا",
            "أمامك 100 شخص",
            "أمامك 22 شخصًا",
            "أمامك 11 شخصًا",
            "أمامك 5 أشخاص",
            "أمامك 3 أشخاص",
            "أمامك شخصان",
            "أمامك شخص واحد",
            "دورك هو التالي",
        ],
        figure: "1,234",
    },
    Spoken {
        language: "ja",
        direction: "ltr",
        title: "順番待ち中です",
        leave: "順番待ちをやめる",
        ahead: [
            "お客様の前に1,234人お待ちです",
            "お客様の前に112人お待ちです",
            "お客様の前に100人お待ちです",
            "お客様の前に22人お待ちです",
            "お客様の前に11人お待ちです",
            "お客様の前に5人お待ちです",
            "お客様の前に3人お待ちです",
            "お客様の前に2人お待ちです",
            "お客様の前に1人お待ちです",
            "次がお客様の順番です",
        ],
        figure: "1,234",
    },
];

/// What the page writes where it counts: its title and the figure.
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
    let scene = Scene::by_hand("page_heading = \"Hall\"");
    scene.crowd(usize::try_from(AHEAD[0]).expect("a small number"));
    let browser = Chromium::open();
    scene.wait_in_line(&browser, "/");
    for (index, &ahead) in AHEAD.iter().enumerate() {
        if index > 0 {
            scene.advance(i64::try_from(AHEAD[index - 1] - ahead).expect("a small number"));
        }
        for spoken in &SPOKEN {
            let language = spoken.language;
            browser.speak(language);
            browser.reload();
            wait_for_ahead(&browser, ahead);
            assert_eq!(browser.attribute("html", "lang").as_deref(), Some(language));
            assert_eq!(browser.attribute("html", "dir").as_deref(), Some(spoken.direction));
            assert_eq!(browser.style("main", "direction"), spoken.direction);
            assert_eq!(browser.title(), format!("{} · Hall", spoken.ahead[index]), "{language}");
            assert_eq!(browser.text(LEAVE).as_deref(), Some(spoken.leave), "{language}");
            if index == 0 {
                assert_eq!(browser.text("h1").as_deref(), Some(spoken.title), "{language}");
                assert_eq!(browser.text("#ahead").as_deref(), Some(spoken.figure), "{language}");
            }
        }
    }
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
    if let Some(axe_core) = axe_core() {
        assert_everybody_can_use_it(&browser, &axe_core, "waiting in Arabic");
    }
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
