//! The languages that pages are written in, and which of them a visitor reads.
//!
//! The words are in `languages/*.ftl`. What a language is beside its words (direction, how it writes numbers) stands in one table
//! here, as `Intl` in browsers has it, so that the script writes as this crate does.

use std::sync::LazyLock;

use crate::numbers::Grouping;
use crate::texts::Texts;

/// Languages of an `Accept-Language` that are looked at.
const ACCEPTED_MAX: usize = 32;

/// One language, with its words.
pub(crate) struct Language {
    /// Its tag, as `lang` and `Content-Language` have it.
    pub(crate) tag: &'static str,
    /// `ltr` or `rtl`.
    pub(crate) direction: &'static str,
    /// How it sets thousands apart.
    pub(crate) grouping: Grouping,
    /// What it says.
    pub(crate) texts: Texts,
}

/// All languages, read at the first use.
static LANGUAGES: LazyLock<Vec<Language>> = LazyLock::new(|| {
    FILES
        .iter()
        .map(|&(tag, source)| {
            let (direction, grouping) = conventions_of(tag);
            Language { tag, direction, grouping, texts: Texts::read(tag, source) }
        })
        .collect()
});

impl Language {
    /// All of them; English is the first.
    pub(crate) fn all() -> &'static [Language] {
        &LANGUAGES
    }

    /// What everything is written in that nobody asked for in another language.
    pub(crate) fn english() -> &'static Language {
        &LANGUAGES[0]
    }

    /// The language of that tag, or of the tag it begins with: `de-AT` is `de`.
    pub(crate) fn from_tag(tag: &str) -> Option<&'static Language> {
        let base = tag.split(['-', '_']).next().unwrap_or(tag);
        // What browsers still call by its old code.
        let base = if base.eq_ignore_ascii_case("iw") { "he" } else { base };
        LANGUAGES.iter().find(|language| language.tag.eq_ignore_ascii_case(base))
    }

    /// The one that a visitor reads best, by `Accept-Language`; English if there is none.
    pub(crate) fn from_accept_language(header: &str) -> &'static Language {
        let mut best: Option<(&'static Language, u16)> = None;
        for range in header.split(',').take(ACCEPTED_MAX) {
            let mut parts = range.split(';');
            let tag = parts.next().unwrap_or_default().trim();
            let Some(weight) = weight(parts) else { continue };
            let language = if tag == "*" { Some(Self::english()) } else { Self::from_tag(tag) };
            let is_better = best.is_none_or(|(_, so_far)| weight > so_far);
            if let Some(language) = language
                && weight > 0
                && is_better
            {
                best = Some((language, weight));
            }
        }
        best.map_or(Self::english(), |(language, _)| language)
    }
}

/// The `q` of a language, in thousandths; `None` if it cannot be read.
fn weight<'header>(mut parameters: impl Iterator<Item = &'header str>) -> Option<u16> {
    let Some(parameter) = parameters.next() else { return Some(1_000) };
    let value = parameter.trim().strip_prefix("q=").or_else(|| parameter.trim().strip_prefix("Q="))?.trim();
    let (whole, decimals) = value.split_once('.').unwrap_or((value, ""));
    let is_number = |text: &str| text.len() <= 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !matches!(whole, "0" | "1") || !is_number(decimals) {
        return None;
    }
    let thousandths: u16 = format!("{decimals:0<3}").parse().ok()?;
    Some((whole.parse::<u16>().ok()? * 1_000 + thousandths).min(1_000))
}

/// Direction, and how thousands are set apart, of every language that there are or may be words for.
fn conventions_of(tag: &str) -> (&'static str, Grouping) {
    const NO_BREAK_SPACE: &str = "\u{a0}";
    const NARROW_NO_BREAK_SPACE: &str = "\u{202f}";
    let grouping = |separator, from_digits| Grouping { separator, from_digits, is_indian: false };
    let direction = if matches!(tag, "ar" | "he") { "rtl" } else { "ltr" };
    let grouping = match tag {
        "de" | "nl" | "pt" | "ro" | "tr" => grouping(".", 4),
        "es" | "it" => grouping(".", 5),
        "fr" => grouping(NARROW_NO_BREAK_SPACE, 4),
        "cs" | "sv" | "uk" => grouping(NO_BREAK_SPACE, 4),
        "pl" => grouping(NO_BREAK_SPACE, 5),
        "hi" => Grouping { is_indian: true, ..grouping(",", 4) },
        _ => grouping(",", 4),
    };
    (direction, grouping)
}

/// The words of every language, English first.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("en", include_str!("../languages/en.ftl")),
    ("ar", include_str!("../languages/ar.ftl")),
    ("cs", include_str!("../languages/cs.ftl")),
    ("de", include_str!("../languages/de.ftl")),
    ("es", include_str!("../languages/es.ftl")),
    ("fr", include_str!("../languages/fr.ftl")),
    ("he", include_str!("../languages/he.ftl")),
    ("hi", include_str!("../languages/hi.ftl")),
    ("it", include_str!("../languages/it.ftl")),
    ("ja", include_str!("../languages/ja.ftl")),
    ("ko", include_str!("../languages/ko.ftl")),
    ("nl", include_str!("../languages/nl.ftl")),
    ("pl", include_str!("../languages/pl.ftl")),
    ("pt", include_str!("../languages/pt.ftl")),
    ("ro", include_str!("../languages/ro.ftl")),
    ("sv", include_str!("../languages/sv.ftl")),
    ("tr", include_str!("../languages/tr.ftl")),
    ("uk", include_str!("../languages/uk.ftl")),
    ("zh", include_str!("../languages/zh.ftl")),
];

#[cfg(test)]
mod tests;
