use std::collections::BTreeSet;

use anteroom_testkit::{Chromium, require_chromium};
use serde_json::{Value, json};

use super::*;
use crate::languages::{FILES, Language};
use crate::numbers::number;

/// Names of messages, each with the lines it is made of.
fn messages(source: &str) -> BTreeMap<&str, String> {
    let mut messages: BTreeMap<&str, String> = BTreeMap::new();
    let mut current = None;
    for line in source.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with(|first: char| first.is_ascii_lowercase()) {
            let (name, rest) = line.split_once(" =").expect("a message begins with its name");
            assert!(messages.insert(name, rest.to_owned()).is_none(), "{name} stands twice");
            current = Some(name);
        } else if let Some(name) = current {
            messages.get_mut(name).unwrap().push_str(line);
        }
    }
    messages
}

/// The words that follow a sign: `$count`, `[few]`.
fn following(text: &str, sign: char) -> BTreeSet<&str> {
    let parts = text.split(sign).skip(1);
    parts
        .map(|part| &part[..part.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(part.len())])
        .collect()
}

#[test]
fn every_language_says_everything_that_english_says_with_the_same_figures() {
    let english = messages(FILES[0].1);
    assert!(english.len() > 70, "{}", english.len());
    for &(tag, source) in FILES {
        let messages = messages(source);
        let names: BTreeSet<&str> = messages.keys().copied().collect();
        assert_eq!(names, english.keys().copied().collect(), "{tag}");
        for (name, text) in &messages {
            let arguments = following(text, '$');
            let expected = following(&english[name], '$');
            // A language without plurals need not choose by the number.
            let missing: Vec<_> = expected.difference(&arguments).filter(|name| **name != "count").collect();
            assert!(
                missing.is_empty() && arguments.is_subset(&expected),
                "{tag} {name}: {arguments:?}, not {expected:?}"
            );
        }
    }
}

#[test]
fn every_plural_of_a_language_is_written() {
    for &(tag, source) in FILES {
        let needed: BTreeSet<&str> = Plurals::of(tag).samples().into_keys().collect();
        for (name, text) in messages(source) {
            let variants = following(&text, '[');
            if following(&text, '$').contains("count") {
                assert!(needed.is_subset(&variants), "{tag} {name}: {variants:?}, not {needed:?}");
                assert!(text.contains("*["), "{tag} {name} has no variant for the rest");
            } else {
                assert!(variants.is_empty(), "{tag} {name}");
            }
        }
    }
}

#[test]
fn nothing_is_left_untranslated_or_empty() {
    let english = Language::from_tag("en").unwrap();
    for language in Language::all().iter().skip(1) {
        let same =
            language.texts.all().filter(|(name, pattern)| english.texts.pattern(name) == *pattern).count();
        assert!(same <= 3, "{} has {same} messages in English", language.tag);
        for (name, pattern) in language.texts.all() {
            let texts: Vec<&String> = match pattern {
                Pattern::Plain(text) => vec![text],
                Pattern::Counted(patterns) => patterns.values().collect(),
            };
            assert!(texts.iter().all(|text| !text.trim().is_empty()), "{} {name}", language.tag);
        }
    }
}

#[test]
fn plurals_are_those_of_the_language() {
    for (tag, expected) in [
        ("en", vec![(0, "other"), (1, "one"), (2, "other"), (101, "other")]),
        (
            "pl",
            vec![
                (1, "one"),
                (2, "few"),
                (5, "many"),
                (12, "many"),
                (22, "few"),
                (112, "many"),
                (1_000_004, "few"),
            ],
        ),
        ("ar", vec![(0, "zero"), (1, "one"), (2, "two"), (3, "few"), (11, "many"), (100, "other")]),
        (
            "ar",
            vec![(101, "other"), (102, "other"), (105, "few"), (150, "many"), (200, "other"), (1_003, "few")],
        ),
        (
            "ro",
            vec![
                (1, "one"),
                (2, "few"),
                (20, "other"),
                (101, "few"),
                (102, "few"),
                (119, "few"),
                (120, "other"),
            ],
        ),
        ("uk", vec![(1, "one"), (21, "one"), (11, "many"), (3, "few")]),
        ("ja", vec![(0, "other"), (1, "other")]),
    ] {
        let plurals = Plurals::of(tag);
        for (count, category) in expected {
            assert_eq!(plurals.category(count), category, "{tag} {count}");
        }
    }
}

#[test]
fn a_message_is_written_with_its_number() {
    let say = |tag: &str, count: u64| {
        let language = Language::from_tag(tag).unwrap();
        language.texts.text_with_count("people-ahead-of-you", count, &number(language, count))
    };
    assert_eq!(say("en", 0), "You are next");
    assert_eq!(say("en", 1), "1 person ahead of you");
    assert_eq!(say("en", 1_284), "1,284 people ahead of you");
    assert_ne!(say("pl", 2).replace('2', ""), say("pl", 5).replace('5', ""));
    assert_eq!(say("pl", 22).replace("22", "2"), say("pl", 2));
    assert_ne!(say("ar", 2), say("ar", 3).replace('3', "2"));
}

/// What a browser knows of a language: its plural categories, those of these numbers, and how it writes them.
const INTL: &str = "const [tag, counts] = arguments, plurals = new Intl.PluralRules(tag); \
    const numbers = new Intl.NumberFormat(tag + '-u-nu-latn'), { locale, pluralCategories } = plurals.resolvedOptions(); \
    return { locale, categories: pluralCategories, chosen: counts.map(count => plurals.select(count)), \
    written: counts.map(count => numbers.format(count)) }";

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|text| text.as_str().expect("a text")).collect()
}

/// As `counted` of `assets/page.js` does.
fn by_script<'pattern>(pattern: &'pattern Pattern, count: u64, category: &str) -> &'pattern str {
    match pattern {
        Pattern::Plain(text) => text,
        Pattern::Counted(patterns) => patterns
            .get(&count.to_string())
            .or_else(|| patterns.get(category))
            .unwrap_or_else(|| &patterns["other"]),
    }
}

#[test]
fn a_browser_counts_and_writes_numbers_in_every_language_as_we_do() {
    if !require_chromium() {
        return;
    }
    let browser = Chromium::open();
    let large = [9_999, 10_000, 12_345, 100_000, 100_001, 999_999, 1_234_567, 12_345_678];
    let counts: Vec<u64> = (0..=1_300).chain(large).collect();
    let mut differences = vec![];
    for (language, &(tag, source)) in Language::all().iter().zip(FILES) {
        let intl = browser.run(INTL, &[json!(tag), json!(counts)]);
        assert_eq!((language.tag, &intl["locale"]), (tag, &json!(tag)), "the browser knows the language");
        let known: BTreeSet<&str> = strings(&intl["categories"]).into_iter().collect();
        let chosen = strings(&intl["chosen"]);
        let needed: BTreeSet<&str> = chosen.iter().copied().collect();
        for (name, text) in messages(source).iter().filter(|(_, text)| following(text, '$').contains("count"))
        {
            let variants = following(text, '[');
            let written: BTreeSet<&str> =
                variants.into_iter().filter(|variant| variant.parse::<u64>().is_err()).collect();
            assert!(needed.is_subset(&written), "{tag} {name} lacks one of {needed:?}: {written:?}");
            // The rules that we read words with still have a form of Hebrew that browsers have given up; below it must say the same.
            let given_up = if tag == "he" { BTreeSet::from(["many"]) } else { BTreeSet::new() };
            let more: Vec<&&str> =
                written.difference(&known).filter(|more| !given_up.contains(*more)).collect();
            assert!(more.is_empty(), "{tag} {name} has {more:?}, which are not among {known:?}");
        }
        for ((&count, category), written) in counts.iter().zip(&chosen).zip(strings(&intl["written"])) {
            if number(language, count) != written {
                differences.push(format!("{tag}: {} here, {written} there", number(language, count)));
            }
            for (name, pattern) in language.texts.all() {
                let (by_server, by_script) = (
                    language.texts.text_with_count(name, count, NUMBER),
                    by_script(pattern, count, category),
                );
                if by_server != by_script {
                    differences
                        .push(format!("{tag} {name} {count}: {by_server:?} here, {by_script:?} there"));
                }
            }
        }
    }
    assert!(
        differences.is_empty(),
        "{} differences: {:#?}",
        differences.len(),
        &differences[..differences.len().min(40)]
    );
}
