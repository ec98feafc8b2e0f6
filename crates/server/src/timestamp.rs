//! Times as the API writes them: RFC 3339 in UTC with milliseconds.

use anteroom_core::UnixMillis;
use jiff::Timestamp;

/// The latest time that has four digits for its year; what lies beyond is written as this.
const LATEST_MILLIS: i64 = 253_402_300_799_999;

/// `2026-11-16T20:00:00.000Z`.
pub(crate) fn rfc3339(time: UnixMillis) -> String {
    let millis = i64::try_from(time.0).unwrap_or(LATEST_MILLIS).min(LATEST_MILLIS);
    let timestamp = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{timestamp:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_of_milliseconds_and_always_utc() {
        assert_eq!(rfc3339(UnixMillis(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(UnixMillis(1_794_859_200_007)), "2026-11-16T20:00:00.007Z");
        assert_eq!(rfc3339(UnixMillis(u64::MAX)), "9999-12-31T23:59:59.999Z");
    }
}
