//! The paths that a room protects, compared as loosely as servers do: `/CHECKOUT` is Express's and ASP.NET's `/checkout`,
//! `/checkout.json` is Rails's, `/checkout;a=1` is Java's, `/checkout.` and `/checkout::$DATA` are those of a server on Windows.

use std::collections::HashMap;
use std::sync::LazyLock;

use anteroom_core::Settings;
use anteroom_core::settings::PathPrefix;

use super::path_readings::{PathReadings, decoded};

/// Letters that some servers take for others: with an accent and without, wide and narrow. Pairs of a letter and its plain form.
static PLAIN_FORMS: LazyLock<HashMap<char, char>> = LazyLock::new(|| {
    let pairs = include_str!("folding.txt").split_whitespace();
    pairs.filter_map(|pair| pair.chars().next().zip(pair.chars().nth(1))).collect()
});

/// The paths of one room.
#[derive(Debug)]
pub(crate) struct ProtectedPaths {
    prefixes: Vec<ProtectedPrefix>,
    is_exact: bool,
}

#[derive(Debug)]
struct ProtectedPrefix {
    /// As the operator wrote it.
    written: PathPrefix,
    /// Without escapes.
    decoded: Option<PathPrefix>,
    /// In the form in which readings are compared, without a slash at its end.
    folded: String,
}

impl ProtectedPaths {
    pub(crate) fn of(settings: &Settings) -> Self {
        let prefix = |written: &PathPrefix| {
            let decoded = decoded(written.as_str());
            ProtectedPrefix {
                folded: fold(&decoded).trim_end_matches('/').to_owned(),
                decoded: (decoded != written.as_str()).then(|| PathPrefix::of_decoded(decoded)),
                written: written.clone(),
            }
        };
        let prefixes = settings.paths.as_slice().iter().map(prefix).collect();
        Self { prefixes, is_exact: settings.paths_exact }
    }

    /// How much of a reading the room names; `None` if it is none of its paths. A room without paths has all of them.
    pub(crate) fn longest_match(&self, reading: &str) -> Option<usize> {
        if self.prefixes.is_empty() {
            return Some(0);
        }
        let folded = (!self.is_exact && needs_folding(reading)).then(|| fold(reading));
        let covers = |prefix: &&ProtectedPrefix| {
            prefix.written.covers(reading)
                || prefix.decoded.as_ref().is_some_and(|decoded| decoded.covers(reading))
                || !self.is_exact && covers_loosely(&prefix.folded, folded.as_deref().unwrap_or(reading))
        };
        self.prefixes.iter().filter(covers).map(|prefix| prefix.written.as_str().len()).max()
    }

    /// How much of a path the room names, by the reading that fits best.
    pub(crate) fn best_match(&self, readings: &PathReadings<'_>) -> Option<usize> {
        readings.iter().filter_map(|reading| self.longest_match(reading)).max()
    }
}

/// Whether a path begins with a prefix and then ends, or goes on with anything but a letter, a digit, `-`, `_` or `~`.
fn covers_loosely(prefix: &str, path: &str) -> bool {
    let Some(begin) = path.get(..prefix.len()) else { return false };
    let continues = |next: char| next.is_alphanumeric() || matches!(next, '-' | '_' | '~');
    begin.eq_ignore_ascii_case(prefix) && !path[prefix.len()..].chars().next().is_some_and(continues)
}

/// Whether folding changes more than the case of ASCII letters.
fn needs_folding(path: &str) -> bool {
    let bytes = path.as_bytes();
    !path.is_ascii()
        || bytes.contains(&b':')
        || bytes.windows(2).any(|pair| matches!(pair, [b'.' | b' ', b'/']))
}

/// A path without the differences that some server does not see: case, accents, width, and what a file system of Windows drops at the
/// end of a name.
fn fold(path: &str) -> String {
    let mut folded = String::with_capacity(path.len());
    for (index, part) in path.split('/').enumerate() {
        if index > 0 {
            folded.push('/');
        }
        let name = match part {
            "." | ".." => part,
            // A stream of a file on Windows: `name::$DATA`, `name:$i30:$INDEX_ALLOCATION`.
            part => {
                let end = part.find("::").into_iter().chain(part.find(":$")).min();
                part[..end.unwrap_or(part.len())].trim_end_matches(['.', ' '])
            }
        };
        folded.extend(name.chars().flat_map(fold_character));
    }
    folded
}

fn fold_character(character: char) -> impl Iterator<Item = char> {
    let is_mark = matches!(character, '\u{300}'..='\u{36f}' | '\u{3099}' | '\u{309a}');
    let plain = PLAIN_FORMS.get(&character).copied().unwrap_or(character);
    let lower = plain.to_uppercase().flat_map(char::to_lowercase);
    let syllable = u32::from(character).checked_sub(HANGUL_FIRST).filter(|index| *index < HANGUL_COUNT);
    let jamo = syllable.into_iter().flat_map(hangul_letters);
    lower.filter(move |_| !is_mark && syllable.is_none()).chain(jamo)
}

/// Where the syllables of Hangul begin, and how many there are.
const HANGUL_FIRST: u32 = 0xac00;
const HANGUL_COUNT: u32 = 19 * 21 * 28;

/// The letters of a syllable of Hangul, which some systems write apart.
fn hangul_letters(index: u32) -> impl Iterator<Item = char> {
    let (first, middle, last) = (index / (21 * 28), index / 28 % 21, index % 28);
    let letters = [Some(0x1100 + first), Some(0x1161 + middle), (last > 0).then_some(0x11a7 + last)];
    letters.into_iter().flatten().filter_map(char::from_u32)
}

#[cfg(test)]
mod tests {
    use anteroom_core::settings::Value;

    use super::*;

    fn paths(texts: &[&str], is_exact: bool) -> ProtectedPaths {
        let mut settings = Settings::default();
        let texts = texts.iter().map(|&text| text.to_owned()).collect();
        settings.set("paths", &Value::List(texts)).unwrap();
        settings.set("paths_exact", &Value::Flag(is_exact)).unwrap();
        ProtectedPaths::of(&settings)
    }

    fn covers(paths: &ProtectedPaths, raw: &str) -> bool {
        paths.best_match(&PathReadings::of(raw)).is_some()
    }

    #[test]
    fn a_path_is_protected_in_any_case_and_with_any_ending() {
        let (loose, exact) = (paths(&["/shop/ticket"], false), paths(&["/shop/ticket"], true));
        for path in [
            "/SHOP/Ticket",
            "/shop/ticket.json",
            "/shop/ticket.",
            "/shop/ticket%20",
            "/shop/ticket::$DATA",
            "/shop/ticket,a",
            "/shop./ticket",
            "/shop%20/ticket",
            "/shop/tıcket",
            "/shop/ticKet",
            "/ſhop/ticket",
            "/%ef%bd%93hop/ticket",
            "/%uff53hop/ticket",
            "/shop/ticket%e2%80%8b",
        ] {
            assert!(covers(&loose, path), "{path}");
            assert!(!covers(&exact, path), "{path} is another path where paths are exact");
        }
        for path in
            ["/shop/tickets", "/shop/ticket-2", "/shop/ticket_2", "/shop", "/shop/tick", "/x/shop/ticket"]
        {
            assert!(!covers(&loose, path) && !covers(&exact, path), "{path}");
        }
        for path in ["/shop/ticket", "/shop/ticket/1", "/shop/ticket;a=1", "/shop//ticket", "/shop/%74icket"]
        {
            assert!(covers(&loose, path) && covers(&exact, path), "{path}");
        }
    }

    #[test]
    fn a_letter_with_an_accent_is_the_same_in_one_piece_and_in_two() {
        let paths = paths(&["/caf%C3%A9", "/%ED%91%9C", "/%D1%87%D0%B0%D0%B9"], false);
        for path in [
            "/caf%C3%A9",
            "/cafe%CC%81",
            "/CAF%C3%89",
            "/café",
            "/caf%E9",
            "/표",
            "/%E1%84%91%E1%85%AD",
            "/чай",
            "/ЧАИ%CC%86",
        ] {
            assert!(covers(&paths, path), "{path}");
        }
        assert!(!covers(&paths, "/cafes") && !covers(&paths, "/чайка"));
    }

    #[test]
    fn a_slash_at_the_end_of_a_path_says_nothing_unless_paths_are_exact() {
        assert!(covers(&paths(&["/shop/"], false), "/shop"));
        assert!(!covers(&paths(&["/shop/"], true), "/shop"));
        assert!(covers(&paths(&["/"], false), "/anything") && covers(&paths(&["/"], true), "/anything"));
        assert_eq!(paths(&[], false).longest_match("/anything"), Some(0));
    }
}
