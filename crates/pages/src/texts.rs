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
/// Where the name of a site goes in a pattern.
const SITE: &str = "{site}";
/// Numbers whose plural categories are all those of a language's whole numbers.
const SAMPLES: std::ops::RangeInclusive<u64> = 0..=100;
/// Numbers that a message may say something of its own about: "You are next".
const EXACT_MAX: u64 = 2;

/// What a language says, by the names of the messages.
pub(crate) struct Texts {
    messages: BTreeMap<String, Pattern>,
    plurals: Plurals,
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
        let plurals = Plurals::of(tag);
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
                let pattern = resolve(&bundle, &plurals, &name);
                (name, pattern)
            })
            .collect();
        Self { messages, plurals }
    }

    /// A message without a number.
    pub(crate) fn text(&self, name: &str) -> &str {
        match self.pattern(name) {
            Pattern::Plain(text) => text,
            Pattern::Counted(patterns) => &patterns["other"],
        }
    }

    /// A message with a number: `count` chooses the plural, `shown` stands in its place.
    pub(crate) fn text_with_count(&self, name: &str, count: u64, shown: &str) -> String {
        let pattern = match self.pattern(name) {
            Pattern::Plain(text) => text,
            Pattern::Counted(patterns) => patterns
                .get(&count.to_string())
                .or_else(|| patterns.get(self.plurals.category(count)))
                .unwrap_or_else(|| &patterns["other"]),
        };
        pattern.replace(NUMBER, shown)
    }

    /// A message with a time of day.
    pub(crate) fn text_with_time(&self, name: &str, time: &str) -> String {
        self.text(name).replace(TIME, time)
    }

    /// A message with the name of a site, which stands rightly in either direction.
    pub(crate) fn text_with_site(&self, name: &str, site: &str) -> String {
        self.text(name).replace(SITE, &format!("\u{2068}{site}\u{2069}"))
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

fn resolve(bundle: &FluentBundle<FluentResource>, plurals: &Plurals, name: &str) -> Pattern {
    let with = |count: FluentValue<'_>| {
        let mut arguments = FluentArgs::new();
        arguments.set("count", count);
        arguments.set("n", NUMBER);
        arguments.set("time", TIME);
        arguments.set("site", SITE);
        let message = bundle.get_message(name).and_then(|message| message.value());
        let pattern = message.unwrap_or_else(|| panic!("the message {name} says nothing"));
        let mut errors = vec![];
        let text = bundle.format_pattern(pattern, Some(&arguments), &mut errors).into_owned();
        assert!(errors.is_empty(), "the message {name}: {errors:?}");
        text
    };
    let samples = plurals.samples().into_iter();
    let mut patterns: BTreeMap<String, String> =
        samples.map(|(category, count)| (category.to_owned(), with(count.into()))).collect();
    for count in 0..=EXACT_MAX {
        let text = with(count.into());
        if patterns.get(plurals.category(count)) != Some(&text) {
            patterns.insert(count.to_string(), text);
        }
    }
    // In Polish and Ukrainian no whole number is `other`; a browser that knows other rules may still ask for it.
    let other = patterns.entry("other".to_owned()).or_insert_with(|| with(1.5.into())).clone();
    if patterns.values().all(|pattern| *pattern == other) {
        Pattern::Plain(other)
    } else {
        Pattern::Counted(patterns)
    }
}

/// Which plural category a number has in a language.
struct Plurals {
    rules: PluralRules,
    /// Whether `intl_pluralrules` 7 knows this language's rules only up to a hundred, where they begin anew.
    begins_anew_at_hundred: bool,
}

impl Plurals {
    fn of(tag: &str) -> Self {
        let language: LanguageIdentifier = tag.parse().expect("tags of languages are well-formed");
        let rules = PluralRules::create(language, PluralRuleType::CARDINAL)
            .expect("every language here has plural rules");
        Self { rules, begins_anew_at_hundred: matches!(tag, "ar" | "ro") }
    }

    fn category(&self, count: u64) -> &'static str {
        let mut like = count;
        if self.begins_anew_at_hundred && count > 100 {
            // 101 and 102 are like 100, not like 1 and 2; in Romanian they are like 103.
            like = match count % 100 {
                rest @ 3.. => rest,
                1 | 2 if matches!(self.rules.get_locale().language.as_str(), "ro") => 2,
                _ => 100,
            };
        }
        match self.rules.select(like) {
            Ok(PluralCategory::ZERO) => "zero",
            Ok(PluralCategory::ONE) => "one",
            Ok(PluralCategory::TWO) => "two",
            Ok(PluralCategory::FEW) => "few",
            Ok(PluralCategory::MANY) => "many",
            Ok(PluralCategory::OTHER) | Err(_) => "other",
        }
    }

    /// The categories of whole numbers, each with a number of it: the last sample, which no message says something of its own about.
    fn samples(&self) -> BTreeMap<&'static str, u64> {
        SAMPLES.map(|count| (self.category(count), count)).collect()
    }
}

#[cfg(test)]
mod tests;
