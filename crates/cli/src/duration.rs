//! Durations as people write them: `90`, `90s`, `15m`, `12h`, `30d`, `2w`.

use std::time::Duration;

/// The units, with how many seconds each has.
const UNITS: [(char, u64); 5] = [('s', 1), ('m', 60), ('h', 3600), ('d', 24 * 3600), ('w', 7 * 24 * 3600)];

/// Reads a duration; a number without a unit is seconds. Nothing lasts no time at all.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let expected =
        || "expected a whole number above 0 and a unit, such as 90s, 15m, 12h, 30d or 2w".to_owned();
    let (number, unit_seconds) =
        match UNITS.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(*unit)?, *seconds))) {
            Some(found) => found,
            None => (text, 1),
        };
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(expected());
    }
    let number: u64 = number.parse().map_err(|_| expected())?;
    let seconds = number.checked_mul(unit_seconds).filter(|seconds| *seconds > 0).ok_or_else(expected)?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_understood_and_nothing_else() {
        for (text, seconds) in
            [("90", 90), ("90s", 90), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000), ("2w", 1_209_600)]
        {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in [
            "",
            "s",
            "0",
            "0d",
            "-1",
            "+1",
            "1.5h",
            "1 d",
            "5y",
            "d5",
            "99999999999999999999",
            "18446744073709551615w",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
