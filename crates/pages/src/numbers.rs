//! Numbers, waits and times as a language writes them; the script does the same by `Intl`.

use anteroom_core::UnixMillis;

use crate::languages::Language;

/// From how many minutes on a wait is told in hours.
const HOURS_FROM_MINUTES: u64 = 120;

/// How thousands are set apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grouping {
    /// What stands between them.
    pub(crate) separator: &'static str,
    /// From how many digits on: 4, or 5 where 1234 is written without.
    pub(crate) from_digits: usize,
    /// Whether only the last group has three digits, and the others two: 12,34,567.
    pub(crate) is_indian: bool,
}

/// A number.
pub(crate) fn number(language: &Language, number: u64) -> String {
    let digits = number.to_string();
    let grouping = &language.grouping;
    if digits.len() < grouping.from_digits {
        return digits;
    }
    let size = if grouping.is_indian { 2 } else { 3 };
    let mut written = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.char_indices() {
        let left = digits.len() - index;
        if index > 0 && left >= 3 && (left - 3).is_multiple_of(size) {
            written.push_str(grouping.separator);
        }
        written.push(digit);
    }
    written
}

/// A wait as a range in words: "About 4–7 minutes".
pub(crate) fn wait(language: &Language, likely: Option<u64>, at_most: Option<u64>) -> String {
    let Some(likely) = likely else {
        return language.texts.text("wait-unknown").to_owned();
    };
    let at_most = at_most.unwrap_or(likely).max(likely);
    if at_most < 60 {
        return language.texts.text("wait-less-than-a-minute").to_owned();
    }
    let minutes = at_most.div_ceil(60);
    let (name, from, to) = if minutes < HOURS_FROM_MINUTES {
        ("wait-minutes", (likely / 60).max(1), minutes)
    } else {
        ("wait-hours", (likely / 3_600).max(1), at_most.div_ceil(3_600))
    };
    let shown = if from == to {
        number(language, to)
    } else {
        format!("{}–{}", number(language, from), number(language, to))
    };
    language.texts.text_with_count(name, to, &shown)
}

/// A moment as machines read it: `2026-11-16T13:01:01Z`.
pub(crate) fn timestamp(at: UnixMillis) -> String {
    let seconds = i64::try_from(at.seconds()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX).to_string()
}

/// The time of day in UTC, because the visitor's time zone is not known here.
pub(crate) fn time_of_day(language: &Language, at: UnixMillis) -> String {
    let of_day = at.seconds() % 86_400;
    let time = format!("{:02}:{:02}:{:02} UTC", of_day / 3_600, of_day / 60 % 60, of_day % 60);
    // Among words from right to left it would be turned round, unless it is set apart.
    if language.direction == "rtl" { format!("\u{2066}{time}\u{2069}") } else { time }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn language(tag: &str) -> &'static Language {
        Language::from_tag(tag).unwrap()
    }

    /// As `Intl.NumberFormat` of Chromium writes them.
    #[test]
    fn numbers_are_written_as_browsers_write_them() {
        for (tag, thousand, million) in [
            ("en", "1,234", "1,234,567"),
            ("de", "1.234", "1.234.567"),
            ("es", "1234", "1.234.567"),
            ("fr", "1\u{202f}234", "1\u{202f}234\u{202f}567"),
            ("pl", "1234", "1\u{a0}234\u{a0}567"),
            ("cs", "1\u{a0}234", "1\u{a0}234\u{a0}567"),
            ("ar", "1,234", "1,234,567"),
            ("hi", "1,234", "12,34,567"),
        ] {
            assert_eq!(number(language(tag), 1_234), thousand, "{tag}");
            assert_eq!(number(language(tag), 1_234_567), million, "{tag}");
            assert_eq!(number(language(tag), 123), "123", "{tag}");
        }
        assert_eq!(number(language("pl"), 12_345), "12\u{a0}345");
        assert_eq!(number(language("hi"), 123_456_789), "12,34,56,789");
        assert_eq!(number(language("en"), 0), "0");
    }

    #[test]
    fn waits_are_ranges() {
        let english = |likely, at_most| wait(language("en"), likely, at_most);
        assert_eq!(english(None, None), "Not known yet");
        assert_eq!(english(Some(0), Some(59)), "Less than a minute");
        assert_eq!(english(Some(10), Some(60)), "About 1 minute");
        assert_eq!(english(Some(30), Some(61)), "About 1–2 minutes");
        assert_eq!(english(Some(270), Some(420)), "About 4–7 minutes");
        assert_eq!(english(Some(300), None), "About 5 minutes");
        assert_eq!(english(Some(300), Some(100)), "About 5 minutes", "never a range that goes back");
        assert_eq!(english(Some(3_000), Some(7_100)), "About 50–119 minutes");
        assert_eq!(english(Some(5_000), Some(9_000)), "About 1–3 hours");
        assert!(english(Some(u64::MAX), Some(u64::MAX)).contains("hours"));
    }

    #[test]
    fn moments_are_written_for_machines_and_for_people() {
        let moment = UnixMillis(1_794_860_130_500);
        assert_eq!(timestamp(moment), "2026-11-16T20:15:30Z");
        assert_eq!(time_of_day(language("en"), moment), "20:15:30 UTC");
        assert_eq!(time_of_day(language("he"), moment), "\u{2066}20:15:30 UTC\u{2069}");
        assert!(timestamp(UnixMillis(u64::MAX)).starts_with("9999-"));
    }
}
