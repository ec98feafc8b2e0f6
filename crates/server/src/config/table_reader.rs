//! A table of an array of tables, taken apart key by key, with the line of each.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::SETTINGS;
use super::problems::{Hint, Origin, Place, Problem, nearest};
use super::source::{Source, shown_toml};

/// Takes a table apart.
pub(super) struct TableReader<'r, 's, 'a> {
    pub(super) source: &'r mut Source<'s>,
    pub(super) table: &'r DeTable<'a>,
    /// Where the table begins.
    pub(super) place: Place,
    lines: BTreeMap<String, usize>,
    pub(super) problems: Vec<Problem>,
}

impl<'r, 's, 'a> TableReader<'r, 's, 'a> {
    pub(super) fn new(source: &'r mut Source<'s>, place: Place, table: &'r DeTable<'a>) -> Self {
        let line = |key: &Spanned<DeString<'_>>| source.place(&key.span()).line;
        let lines = table.iter().map(|(key, _)| (key.get_ref().to_string(), line(key))).collect();
        Self { source, table, place, lines, problems: vec![] }
    }

    pub(super) fn place_of(&self, key: &str) -> Place {
        let line = self.lines.get(key).copied().unwrap_or(self.place.line);
        Place { line, ..self.place.clone() }
    }

    pub(super) fn origin(&self, key: &str) -> Origin {
        Origin::Key { place: self.place_of(key), name: key.to_owned() }
    }

    pub(super) fn refuse(&mut self, key: &str, explanation: String) {
        let value = self.table.get(key).map_or_else(
            || "(not given)".to_owned(),
            |value| shown_toml(value.get_ref(), self.source.text(), &value.span()),
        );
        self.problems.push(Problem::Value { origin: self.origin(key), value, explanation });
    }

    /// Refuses keys that mean nothing. `secrets` are those that somebody might put a secret under, and what to do instead; `refusal` says
    /// what is wrong with a key that has its meaning elsewhere; `inside` is the problem of a server setting.
    pub(super) fn refuse_unknown_keys(
        &mut self,
        known: &[&'static str],
        (secrets, instead): (&[&str], &str),
        refusal: impl Fn(&str) -> Option<String>,
        inside: impl Fn(Place, String) -> Problem,
    ) {
        let keys: Vec<String> = self.lines.keys().cloned().collect();
        for key in keys.iter().filter(|key| !known.contains(&key.as_str())) {
            let place = self.place_of(key);
            if secrets.contains(&key.as_str()) {
                self.problems.push(Problem::Value {
                    origin: self.origin(key),
                    value: "(not repeated)".to_owned(),
                    explanation: instead.to_owned(),
                });
            } else if let Some(explanation) = refusal(key) {
                self.refuse(key, explanation);
            } else if SETTINGS.iter().any(|setting| setting.name == key) {
                self.problems.push(inside(place, key.clone()));
            } else {
                let hint = Hint(nearest(key, known.iter().copied()).map(str::to_owned));
                self.problems.push(Problem::UnknownKey { place, key: key.clone(), hint });
            }
        }
    }

    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        let text = self.table.get(key)?.get_ref().as_str().map(str::to_owned);
        if text.is_none() {
            self.refuse(key, "must be a text".to_owned());
        }
        text
    }

    pub(super) fn texts(&mut self, key: &str) -> Option<Vec<String>> {
        let texts = match self.table.get(key)?.get_ref() {
            DeValue::Array(items) => {
                items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect()
            }
            _ => None,
        };
        if texts.is_none() {
            self.refuse(key, "must be a list of texts".to_owned());
        }
        texts
    }

    pub(super) fn flag(&mut self, key: &str) -> Option<bool> {
        if let DeValue::Boolean(flag) = self.table.get(key)?.get_ref() {
            return Some(*flag);
        }
        self.refuse(key, "must be true or false".to_owned());
        None
    }

    /// A whole number, such as `a whole number of seconds`.
    pub(super) fn number(&mut self, key: &str, what: &str) -> Option<u64> {
        let value = self.table.get(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(number) => {
                u64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
            }
            _ => None,
        };
        if number.is_none() {
            self.refuse(key, format!("must be {what}"));
        }
        number
    }
}
