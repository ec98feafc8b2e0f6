//! Moments as our answers write them.

use anteroom_core::UnixMillis;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

/// RFC 3339 in UTC with milliseconds, as in `2026-11-16T20:00:00.000Z`: how JSON has it.
pub(crate) fn rfc3339(at: UnixMillis) -> String {
    format!("{:.3}", timestamp(at))
}

/// A moment that somebody wrote in RFC 3339, with any offset; none before 1970.
pub(crate) fn parse_moment(text: &str) -> Option<UnixMillis> {
    let moment: Timestamp = text.parse().ok()?;
    u64::try_from(moment.as_millisecond()).ok().map(UnixMillis)
}

/// As HTTP's `Date` has it, in whole seconds.
pub(crate) fn http_date(at: UnixMillis) -> String {
    let printed = DateTimePrinter::new().timestamp_to_rfc9110_string(&timestamp(at));
    printed.expect("every moment that jiff knows has a year of four digits or less")
}

/// Moments beyond the year 9999, which only a broken clock shows, are written as the last one before it.
fn timestamp(at: UnixMillis) -> Timestamp {
    i64::try_from(at.0)
        .ok()
        .and_then(|millis| Timestamp::from_millisecond(millis).ok())
        .unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_in_utc_with_fixed_places() {
        assert_eq!(rfc3339(UnixMillis(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(UnixMillis(1_794_859_200_000)), "2026-11-16T20:00:00.000Z");
        assert_eq!(rfc3339(UnixMillis(1_794_859_200_007)), "2026-11-16T20:00:00.007Z");
        assert_eq!(http_date(UnixMillis(1_794_859_200_999)), "Mon, 16 Nov 2026 20:00:00 GMT");
    }

    #[test]
    fn a_clock_beyond_all_calendars_is_written_all_the_same() {
        assert_eq!(rfc3339(UnixMillis(u64::MAX)), rfc3339(UnixMillis(i64::MAX as u64)));
        assert!(rfc3339(UnixMillis(u64::MAX)).starts_with("9999-12-30T"));
        assert!(
            http_date(UnixMillis(u64::MAX)).ends_with(" 9999 22:00:00 GMT"),
            "{}",
            http_date(UnixMillis(u64::MAX))
        );
    }
}
