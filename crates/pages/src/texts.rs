//! The words of one language, resolved once into plain patterns, so that writing a page needs neither a lock nor Fluent.
//!
//! A message with a number becomes one pattern for each plural category of its language, with `{n}` where the number goes. The
//! script gets the same patterns ([`Texts::pattern`]) and picks among them by `Intl.PluralRules`.

use std::collections::BTreeMap;

use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::{FluentArgs, FluentResource, FluentValue};
use intl_pluralrules::{PluralCategory, PluralRuleType, PluralRules};
use serde::Serialize;
use unic_langid::LanguageIdentifier;

/// Where the number goes in a pattern.
const NUMBER: &str = "{n}";
/// Where the time of day goes in a pattern.
const TIME: &str = "{time}";
/// Numbers whose plural categories are all those of a language's whole numbers.
const SAMPLES: std::ops::RangeInclusive<u64> = 0..=200;
/// Numbers that a message may say something of its own about: "You are next".
const EXACT_MAX: u64 = 2;

/// What a language says, by the names of the messages.
pub(crate) struct Texts {
    messages: BTreeMap<String, Pattern>,
    rules: PluralRules,
}

/// A message before its number is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum Pattern {
    /// The same for every number, or without one.
    Plain(String),
    /// One for each plural category (`one`, `few`, … `other`), and for single numbers (`0`).
    Counted(BTreeMap<String, String>),
}

impl Texts {
    /// Reads a file of words. It is part of this program, so a mistake in it is a mistake of ours, which a test finds.
    pub(crate) fn read(tag: &str, source: &str) -> Self {
        let language: LanguageIdentifier = tag.parse().expect("tags of languages are well-formed");
        let rules = PluralRules::create(language.clone(), PluralRuleType::CARDINAL)
            .expect("every language here has plural rules");
        let resource = FluentResource::try_new(source.to_owned())
            .unwrap_or_else(|(_, errors)| panic!("languages/{tag}.ftl: {errors:?}"));
        let names: Vec<String> = names_in(source).map(str::to_owned).collect();
        let mut bundle = FluentBundle::new_concurrent(vec![language]);
        // Numbers and times are the only things put in, and both stand rightly in either direction.
        bundle.set_use_isolating(false);
        bundle.add_resource(resource).unwrap_or_else(|errors| panic!("languages/{tag}.ftl: {errors:?}"));
        let messages = names
            .into_iter()
            .map(|name| {
                let pattern = resolve(&bundle, &rules, &name);
                (name, pattern)
            })
            .collect();
        Self { messages, rules }
    }

    /// A message without a number.
    pub(crate) fn text(&self, name: &str) -> &str {
        match self.pattern(name) {
            Pattern::Plain(text) => text,
            Pattern::Counted(patterns) => &patterns["other"],
        }
    }

    /// A message with a number: `count` chooses the plural, `shown` stands in its place.
    pub(crate) fn counted(&self, name: &str, count: u64, shown: &str) -> String {
        let pattern = match self.pattern(name) {
            Pattern::Plain(text) => text,
            Pattern::Counted(patterns) => patterns
                .get(&count.to_string())
                .or_else(|| patterns.get(category(&self.rules, count)))
                .unwrap_or_else(|| &patterns["other"]),
        };
        pattern.replace(NUMBER, shown)
    }

    /// A message with a time of day.
    pub(crate) fn timed(&self, name: &str, time: &str) -> String {
        self.text(name).replace(TIME, time)
    }

    /// A message before its number is known.
    pub(crate) fn pattern(&self, name: &str) -> &Pattern {
        // The tests compare every language with English, and write every page in every language.
        self.messages.get(name).unwrap_or_else(|| panic!("no message {name}"))
    }

    /// All messages.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Pattern)> {
        self.messages.iter().map(|(name, pattern)| (name.as_str(), pattern))
    }
}

/// The names of the messages of a file.
pub(crate) fn names_in(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| {
        let (name, _) = line.split_once(" =")?;
        name.starts_with(|first: char| first.is_ascii_lowercase()).then_some(name)
    })
}

fn resolve(bundle: &FluentBundle<FluentResource>, rules: &PluralRules, name: &str) -> Pattern {
    let with = |count: u64| {
        let mut arguments = FluentArgs::new();
        arguments.set("count", FluentValue::from(count));
        arguments.set("n", NUMBER);
        arguments.set("time", TIME);
        let message = bundle.get_message(name).and_then(|message| message.value());
        let pattern = message.unwrap_or_else(|| panic!("the message {name} says nothing"));
        let mut errors = vec![];
        let text = bundle.format_pattern(pattern, Some(&arguments), &mut errors).into_owned();
        assert!(errors.is_empty(), "the message {name}: {errors:?}");
        text
    };
    // The last sample of a category is one that no message says something of its own about.
    let mut patterns: BTreeMap<String, String> = SAMPLES
        .map(|count| (category(rules, count).to_owned(), count))
        .collect::<BTreeMap<_, _>>()
        .into_iter()
        .map(|(category, count)| (category, with(count)))
        .collect();
    for count in 0..=EXACT_MAX {
        let text = with(count);
        if patterns.get(category(rules, count)) != Some(&text) {
            patterns.insert(count.to_string(), text);
        }
    }
    let first = patterns["other"].clone();
    if patterns.values().all(|pattern| *pattern == first) {
        Pattern::Plain(first)
    } else {
        Pattern::Counted(patterns)
    }
}

fn category(rules: &PluralRules, count: u64) -> &'static str {
    match rules.select(count) {
        Ok(PluralCategory::ZERO) => "zero",
        Ok(PluralCategory::ONE) => "one",
        Ok(PluralCategory::TWO) => "two",
        Ok(PluralCategory::FEW) => "few",
        Ok(PluralCategory::MANY) => "many",
        Ok(PluralCategory::OTHER) | Err(_) => "other",
    }
}

#[cfg(test)]
pub(crate) fn categories(tag: &str) -> std::collections::BTreeSet<&'static str> {
    let language: LanguageIdentifier = tag.parse().unwrap();
    let rules = PluralRules::create(language, PluralRuleType::CARDINAL).unwrap();
    SAMPLES.map(|count| category(&rules, count)).collect()
}
