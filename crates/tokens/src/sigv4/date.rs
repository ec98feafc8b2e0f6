//! The date of a signed request, as `x-amz-date` writes it (`20150830T123600Z`) or as an ordinary `date` header does
//! (`Sun, 30 Aug 2015 12:36:00 GMT`). What is signed is always the first form.

use anteroom_core::ids::UnixMillis;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// `now` as `x-amz-date` writes it. Moments beyond the year 9999 are written as the last one before it.
pub fn timestamp(now: UnixMillis) -> String {
    let milliseconds = i64::try_from(now.0).unwrap_or(i64::MAX);
    let moment = Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::MAX);
    moment.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// The moment an `x-amz-date` header means.
pub(super) fn parse_timestamp(value: &[u8]) -> Option<UnixMillis> {
    if value.len() != 16 || value[8] != b'T' || value[15] != b'Z' {
        return None;
    }
    let month = number(&value[4..6])?;
    moment([&value[0..4], &value[6..8], &value[9..11], &value[11..13], &value[13..15]], month)
}

/// The moment a `date` header means, in either form. Boto's signer writes Greenwich as `-0000`.
pub(super) fn parse_date_header(value: &[u8]) -> Option<UnixMillis> {
    // The name of the day says nothing that the date does not.
    let [_, _, _, b',', b' ', rest @ ..] = value else { return parse_timestamp(value) };
    if rest.len() < 21 || !matches!(&rest[20..], b" GMT" | b" UTC" | b" +0000" | b" -0000") {
        return None;
    }
    let separators = [(2, b' '), (6, b' '), (11, b' '), (14, b':'), (17, b':')];
    if separators.iter().any(|(place, separator)| rest[*place] != *separator) {
        return None;
    }
    let month = 1 + MONTHS.iter().position(|name| **name == rest[3..6])?;
    moment(
        [&rest[7..11], &rest[0..2], &rest[12..14], &rest[15..17], &rest[18..20]],
        i16::try_from(month).ok()?,
    )
}

/// Whether these eight digits are a day of the calendar.
pub(super) fn is_day(text: &str) -> bool {
    text.len() == 8 && parse_timestamp(format!("{text}T000000Z").as_bytes()).is_some()
}

/// The moment of a year, day, hour, minute and second, given as digits, if the calendar has it and it is not before 1970.
fn moment(digits: [&[u8]; 5], month: i16) -> Option<UnixMillis> {
    let [year, ..] = digits.map(number);
    let [_, day, hour, minute, second] = digits.map(small_number);
    let month = i8::try_from(month).ok()?;
    let civil = DateTime::new(year?, month, day?, hour?, minute?, second?, 0).ok()?;
    let moment = Offset::UTC.to_timestamp(civil).ok()?;
    u64::try_from(moment.as_millisecond()).ok().map(UnixMillis)
}

/// The value of at most four digits.
fn number(digits: &[u8]) -> Option<i16> {
    let add = |sum: i16, digit: &u8| digit.is_ascii_digit().then(|| sum * 10 + i16::from(digit - b'0'));
    digits.iter().try_fold(0, add)
}

fn small_number(digits: &[u8]) -> Option<i8> {
    number(digits).and_then(|number| i8::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AUGUST: UnixMillis = UnixMillis(1_440_938_160_000);
    /// The last one that the library knows: 30 December 9999, 22:00, so that it is in 9999 in every zone.
    const LAST_SECOND: u64 = 253_402_207_200;

    #[test]
    fn both_forms_of_a_date_are_read() {
        assert_eq!(parse_timestamp(b"20150830T123600Z"), Some(AUGUST));
        for text in [
            "20150830T123600Z",
            "Sun, 30 Aug 2015 12:36:00 GMT",
            "Sun, 30 Aug 2015 12:36:00 UTC",
            "Sun, 30 Aug 2015 12:36:00 +0000",
            "Sun, 30 Aug 2015 12:36:00 -0000",
        ] {
            assert_eq!(parse_date_header(text.as_bytes()), Some(AUGUST), "{text}");
        }
        assert_eq!(timestamp(AUGUST), "20150830T123600Z");
        assert_eq!(timestamp(UnixMillis(0)), "19700101T000000Z");
        assert_eq!(timestamp(UnixMillis(LAST_SECOND * 1000)), "99991230T220000Z");
        assert_eq!(timestamp(UnixMillis(u64::MAX)), "99991230T220000Z");
        assert_eq!(parse_timestamp(b"99991231T000000Z"), None);
        assert_eq!(parse_timestamp(b"20240229T235959Z"), Some(UnixMillis(1_709_251_199_000)));
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "20150830",
            "20150830T123600",
            "20150830T123600z",
            "20150830 123600Z",
            "2015083OT123600Z",
            "+0150830T123600Z",
            "20150230T123600Z",
            "20150229T123600Z",
            "20150431T123600Z",
            "20151330T123600Z",
            "20150030T123600Z",
            "20150800T123600Z",
            "20150830T243600Z",
            "20150830T126000Z",
            "20150830T123660Z",
            "19691231T235959Z",
            "20150830T123600Z,20150830T123600Z",
            "Sun, 30 Aug 2015 12:36:00 CET",
            "Sun, 30 Aug 2015 12:36:00 +0100",
            "Sun, 30 aug 2015 12:36:00 GMT",
            "Sun, 30 Feb 2015 12:36:00 GMT",
            "Sun, 30 Aug 2015 12-36-00 GMT",
            "Sun, 30 Aug 2015 12:36:00",
            "Sun, ",
            "2015-08-30T12:36:00Z",
        ] {
            assert_eq!(parse_date_header(text.as_bytes()), None, "{text}");
            assert_eq!(parse_timestamp(text.as_bytes()), None, "{text}");
        }
        assert!(is_day("20150830") && !is_day("20150231") && !is_day("2015083") && !is_day("2015083T"));
    }

    proptest! {
        #[test]
        fn every_second_until_the_end_of_9999_is_written_and_read_back(seconds in 0_u64..=LAST_SECOND) {
            let moment = UnixMillis(seconds * 1000);
            prop_assert_eq!(parse_timestamp(timestamp(moment).as_bytes()), Some(moment));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, now: u64) {
            parse_date_header(&bytes);
            parse_timestamp(&bytes);
            timestamp(UnixMillis(now));
        }
    }
}
