//! Rates as people write them: `500/s`, `30000/min`.

use std::fmt;
use std::str::FromStr;

/// The highest rate that can be asked for, a second. Far beyond one machine; a guard against slips of the finger.
const RATE_MAX_PER_SECOND: f64 = 1_000_000.0;

/// How many a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rate {
    per_second: f64,
}

impl Rate {
    /// How many a second.
    pub(super) fn per_second(self) -> f64 {
        self.per_second
    }

    /// The same in a world that runs `time_scale` times as fast.
    pub(super) fn scaled(self, time_scale: f64) -> Self {
        Self { per_second: self.per_second * time_scale }
    }

    /// How many are due after so many seconds: whole ones, so that small steps add up to exactly what is due.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "neither is negative, and a float beyond 2^64 stays at the end of the range"
    )]
    pub(super) fn due_after(self, seconds: f64) -> u64 {
        (self.per_second * seconds).floor() as u64
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((count, unit)) = text.split_once('/') else {
            return Err(format!("it has no unit; write {text}/s, or {text}/min"));
        };
        let seconds = match unit.trim() {
            "s" | "sec" | "second" => 1.0,
            "min" | "m" | "minute" => 60.0,
            "h" | "hour" => 3600.0,
            other => return Err(format!("`{other}` is not a unit; write 500/s, 30000/min or 1800000/h")),
        };
        let count: f64 = count
            .trim()
            .replace(['_', ','], "")
            .parse()
            .map_err(|_| format!("`{count}` is not a number; write for example 500/s or 30000/min"))?;
        let per_second = count / seconds;
        // Not `<= 0.0`: what is not a number is refused as well.
        if !(per_second > 0.0 && per_second <= RATE_MAX_PER_SECOND) {
            return Err(format!("a rate is above zero and at most {RATE_MAX_PER_SECOND}/s"));
        }
        Ok(Self { per_second })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whole numbers read best: 500/s, but 1000/min instead of 16.67/s.
        let per_minute = self.per_second * 60.0;
        let whole = |value: f64| (value - value.round()).abs() < 1e-6;
        if whole(self.per_second) {
            write!(formatter, "{}/s", thousands(self.per_second))
        } else if whole(per_minute) {
            write!(formatter, "{}/min", thousands(per_minute))
        } else {
            write!(formatter, "{:.2}/s", self.per_second)
        }
    }
}

/// 12,345.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is above zero and below 2^64"
)]
fn thousands(number: f64) -> String {
    super::report::thousands(number.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Rate {
        text.parse().unwrap()
    }

    #[test]
    fn rates_are_read_in_every_unit_and_written_in_the_one_that_reads_best() {
        assert_eq!(parse("500/s"), parse("30000/min"));
        assert_eq!(parse("500 / s"), parse("1_800_000/h"));
        let written = ["500/s", "1000/min", "0.5/s"].map(|text| parse(text).to_string());
        assert_eq!(written, ["500/s", "1,000/min", "30/min"]);
        assert_eq!(parse("1000/min").scaled(10.0).to_string(), "10,000/min");
    }

    #[test]
    fn what_is_no_rate_is_refused_with_what_to_write() {
        for (text, part) in [
            ("500", "500/s"),
            ("500/day", "30000/min"),
            ("many/s", "30000/min"),
            ("0/s", "above zero"),
            ("-1/s", "above zero"),
            ("NaN/s", "above zero"),
            ("inf/s", "at most"),
            ("1e9/s", "at most"),
            ("", "no unit"),
        ] {
            let refused = text.parse::<Rate>().unwrap_err();
            assert!(refused.contains(part), "{text}: {refused}");
        }
    }

    #[test]
    fn small_steps_add_up_to_what_is_due() {
        let rate = parse("1000/min");
        let mut told = 0;
        for tenth in 0..=600_u32 {
            let due = rate.due_after(f64::from(tenth) / 10.0);
            assert!(due - told <= 2, "a step at {tenth} is not small: {told} -> {due}");
            told = due;
        }
        assert_eq!(told, 1000);
    }
}
