//! The date of a signed request, as `x-amz-date` writes it (`20150830T123600Z`) or as an ordinary `date` header does
//! (`Sun, 30 Aug 2015 12:36:00 GMT`). What is signed is always the first form.

use anteroom_core::ids::UnixMillis;

const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

const SECONDS_PER_DAY: u64 = 86_400;

/// The days from 1 March of the year 0, where the calendar arithmetic begins, to 1970.
const DAYS_BEFORE_1970: u64 = 719_468;

/// The days of 400 years.
const DAYS_PER_ERA: u64 = 146_097;

/// `now` as `x-amz-date` writes it.
pub fn timestamp(now: UnixMillis) -> String {
    let (days, seconds) = (now.seconds() / SECONDS_PER_DAY, now.seconds() % SECONDS_PER_DAY);
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// The moment an `x-amz-date` header means.
pub(super) fn parse_timestamp(value: &[u8]) -> Option<UnixMillis> {
    if value.len() != 16 || value[8] != b'T' || value[15] != b'Z' {
        return None;
    }
    let date = (number(&value[0..4])?, number(&value[4..6])?, number(&value[6..8])?);
    moment(date, (number(&value[9..11])?, number(&value[11..13])?, number(&value[13..15])?))
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
    let month = MONTHS.iter().position(|name| **name == rest[3..6])?;
    let date = (number(&rest[7..11])?, u64::try_from(month).ok()? + 1, number(&rest[0..2])?);
    moment(date, (number(&rest[12..14])?, number(&rest[15..17])?, number(&rest[18..20])?))
}

/// Whether these eight digits are a day of the calendar.
pub(super) fn is_day(text: &str) -> bool {
    text.len() == 8 && parse_timestamp(format!("{text}T000000Z").as_bytes()).is_some()
}

fn number(digits: &[u8]) -> Option<u64> {
    let add = |sum: u64, digit: &u8| digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0'));
    digits.iter().try_fold(0, add)
}

fn moment(date: (u64, u64, u64), (hour, minute, second): (u64, u64, u64)) -> Option<UnixMillis> {
    let (year, month, day) = date;
    let in_range = year >= 1970 && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !in_range || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = days_from_civil(year, month, day);
    // There is no 30 February: it comes back as another day.
    if civil_from_days(days) != date {
        return None;
    }
    Some(UnixMillis((days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second) * 1000))
}

/// The days since 1970 of a date in the Gregorian calendar. Years are counted from March, so that the leap day is the last.
fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - DAYS_BEFORE_1970
}

/// The year, month and day so many days after 1 January 1970.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_BEFORE_1970;
    let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year_of_era;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AUGUST: UnixMillis = UnixMillis(1_440_938_160_000);

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
        fn every_second_of_four_digit_years_is_written_and_read_back(seconds in 0_u64..253_402_300_800) {
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
