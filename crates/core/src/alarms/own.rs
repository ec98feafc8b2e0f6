//! Alarms that this server counts itself, so that they work without Prometheus.
//!
//! Each watches one counter: answers of 400 to 499 and of 500 and above of each listener; errors and refusals of each operation;
//! seconds for which the clock was held. It
//! fires while more than its threshold was counted within the last minute, so it is OK again after one minute that did not exceed it,
//! which with the threshold 0 is one quiet minute. Names have one form, `PREFIX-RESOURCE-Alarm`, such as `Anteroom-Public-4xx-Alarm`
//! and `Anteroom-join-Errors-Alarm`: the prefix is enough to find them all.

use std::collections::VecDeque;

use crate::ids::UnixMillis;

/// The time in which counts add up, in seconds.
pub const MINUTE_SECONDS: usize = 60;
/// What the names begin with if nobody says.
pub const PREFIX_DEFAULT: &str = "Anteroom";
/// The longest beginning of a name, in characters.
pub const PREFIX_MAX_LENGTH: usize = 32;
/// The operations that are watched: those that a client requests. They are called as [`crate::Operation::name`] has it.
pub const OPERATIONS: [&str; 12] = [
    "join", "claim", "leave", "inspect", "close", "exits", "report", "advance", "change", "reset", "move",
    "redeem",
];
/// What is watched of listeners.
const LISTENERS: [&str; 4] = ["Public-4xx", "Public-5xx", "Private-4xx", "Private-5xx"];
/// What is watched of the clock: the seconds for which it was held because its source had jumped.
const CLOCK: &str = "Clock-Jump";
/// How many own alarms there are.
pub const RESOURCES: usize = LISTENERS.len() + 2 * OPERATIONS.len() + 1;

/// What has been counted since the start, in the order of [`resource_names`].
pub type Totals = [u64; RESOURCES];

/// The middle of each alarm's name, by which its threshold is set: those of listeners, then errors and refusals of each operation, then
/// that of the clock.
pub fn resource_names() -> impl Iterator<Item = String> {
    let operations =
        OPERATIONS.iter().flat_map(|name| ["Errors", "Refusals"].map(|what| format!("{name}-{what}")));
    LISTENERS.into_iter().map(str::to_owned).chain(operations).chain([CLOCK.to_owned()])
}

/// Whether names can begin so: `[A-Za-z0-9_.-]{1,32}`.
pub fn is_prefix(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=PREFIX_MAX_LENGTH).contains(&text.len()) && text.bytes().all(allowed)
}

/// One of them.
#[derive(Debug, Clone)]
pub struct OwnAlarm {
    /// Its name.
    pub name: String,
    /// It fires above this.
    pub threshold: u64,
    /// Since when it has fired, or been OK; `None` if it has been OK since the start.
    pub since: Option<UnixMillis>,
    fires: bool,
    /// What was counted in each of the last seconds, newest last.
    seconds: VecDeque<u64>,
    /// Their sum.
    count: u64,
}

impl OwnAlarm {
    /// Whether it fires.
    pub const fn fires(&self) -> bool {
        self.fires
    }

    /// What was counted within the last minute.
    pub const fn count(&self) -> u64 {
        self.count
    }

    fn evaluate(&mut self, now: UnixMillis, seconds_passed: usize, counted: u64) {
        for _ in 0..seconds_passed {
            if self.seconds.len() == MINUTE_SECONDS {
                self.count -= self.seconds.pop_front().unwrap_or(0);
            }
            self.seconds.push_back(0);
        }
        if let Some(newest) = self.seconds.back_mut() {
            // A sum beyond 64 bits cannot be told from the largest, and must not overflow.
            let counted = counted.min(u64::MAX - self.count);
            *newest += counted;
            self.count += counted;
        }
        let fires = self.count > self.threshold;
        if fires != self.fires {
            self.fires = fires;
            self.since = Some(now);
        }
    }
}

/// All of them.
#[derive(Debug, Clone)]
pub struct OwnAlarms {
    alarms: Vec<OwnAlarm>,
    last_totals: Totals,
    last_second: Option<u64>,
}

impl OwnAlarms {
    /// The alarms of a server whose names begin with `prefix`; `threshold` is asked for each resource.
    pub fn new(prefix: &str, threshold: impl Fn(&str) -> u64) -> Self {
        let alarm = |resource: String| OwnAlarm {
            name: format!("{prefix}-{resource}-Alarm"),
            threshold: threshold(&resource),
            since: None,
            fires: false,
            seconds: VecDeque::with_capacity(MINUTE_SECONDS),
            count: 0,
        };
        Self { alarms: resource_names().map(alarm).collect(), last_totals: [0; RESOURCES], last_second: None }
    }

    /// All of them, in the order of [`resource_names`].
    pub fn iter(&self) -> impl Iterator<Item = &OwnAlarm> {
        self.alarms.iter()
    }

    /// The alarm of a name.
    pub fn get(&self, name: &str) -> Option<&OwnAlarm> {
        self.alarms.iter().find(|alarm| alarm.name == name)
    }

    /// Takes in what has been counted so far; to be called about once a second. A clock that went back makes no minute longer.
    pub fn evaluate(&mut self, now: UnixMillis, totals: &Totals) {
        let second = now.seconds();
        let passed = self.last_second.map_or(1, |last| second.saturating_sub(last));
        let passed = usize::try_from(passed).unwrap_or(MINUTE_SECONDS).min(MINUTE_SECONDS);
        self.last_second = Some(second);
        for ((alarm, total), last) in self.alarms.iter_mut().zip(totals).zip(&mut self.last_totals) {
            alarm.evaluate(now, passed, total.saturating_sub(*last));
            *last = *total;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::settings::is_alarm_name;

    const NAME: &str = "Anteroom-Public-4xx-Alarm";

    fn at(seconds: u64) -> UnixMillis {
        UnixMillis(seconds * 1000)
    }

    fn totals(public_4xx: u64) -> Totals {
        let mut totals = [0; RESOURCES];
        totals[0] = public_4xx;
        totals
    }

    fn fires(alarms: &OwnAlarms) -> bool {
        alarms.get(NAME).unwrap().fires()
    }

    #[test]
    fn names_have_one_form_and_no_two_are_the_same() {
        let alarms = OwnAlarms::new("Shop", |_| 0);
        let names: BTreeSet<&str> = alarms.iter().map(|alarm| alarm.name.as_str()).collect();
        assert_eq!(names.len(), RESOURCES);
        assert!(
            names
                .iter()
                .all(|name| is_alarm_name(name) && name.starts_with("Shop-") && name.ends_with("-Alarm"))
        );
        for name in [
            "Shop-Public-4xx-Alarm",
            "Shop-Private-5xx-Alarm",
            "Shop-join-Errors-Alarm",
            "Shop-claim-Refusals-Alarm",
        ] {
            assert!(names.contains(name), "{name}");
        }
        let longest = OwnAlarms::new(&"x".repeat(PREFIX_MAX_LENGTH), |_| 0);
        assert!(longest.iter().all(|alarm| is_alarm_name(&alarm.name)));
    }

    #[test]
    fn one_event_fires_at_once_and_one_quiet_minute_clears() {
        let mut alarms = OwnAlarms::new(PREFIX_DEFAULT, |_| 0);
        alarms.evaluate(at(1_000), &totals(0));
        assert!(!fires(&alarms) && alarms.get(NAME).unwrap().since.is_none());
        alarms.evaluate(at(1_001), &totals(1));
        assert!(fires(&alarms), "more than zero");
        for second in 1_002..1_061 {
            alarms.evaluate(at(second), &totals(1));
            assert!(fires(&alarms), "the minute is not over after {} s", second - 1_001);
        }
        alarms.evaluate(at(1_061), &totals(1));
        assert!(!fires(&alarms), "a quiet minute");
        assert_eq!(alarms.get(NAME).unwrap().since, Some(at(1_061)));
    }

    #[test]
    fn an_event_within_the_minute_begins_it_anew() {
        let mut alarms = OwnAlarms::new(PREFIX_DEFAULT, |_| 0);
        alarms.evaluate(at(0), &totals(1));
        alarms.evaluate(at(59), &totals(2));
        alarms.evaluate(at(118), &totals(2));
        assert!(fires(&alarms));
        assert_eq!(alarms.get(NAME).unwrap().since, Some(at(0)), "it never stopped");
        alarms.evaluate(at(119), &totals(2));
        assert!(!fires(&alarms));
    }

    #[test]
    fn a_threshold_must_be_exceeded() {
        let mut alarms =
            OwnAlarms::new(PREFIX_DEFAULT, |resource| if resource == "Public-4xx" { 10 } else { 0 });
        alarms.evaluate(at(0), &totals(10));
        assert!(!fires(&alarms));
        alarms.evaluate(at(59), &totals(11));
        assert!(fires(&alarms) && alarms.get(NAME).unwrap().count() == 11);
        alarms.evaluate(at(60), &totals(11));
        assert!(!fires(&alarms) && alarms.get(NAME).unwrap().count() == 1);
    }

    #[test]
    fn each_counter_has_an_alarm_of_its_own() {
        for (index, resource) in resource_names().enumerate() {
            let mut alarms = OwnAlarms::new(PREFIX_DEFAULT, |_| 0);
            let mut totals = [0; RESOURCES];
            totals[index] = 1;
            alarms.evaluate(at(0), &totals);
            let firing: Vec<&str> =
                alarms.iter().filter(|alarm| alarm.fires()).map(|alarm| alarm.name.as_str()).collect();
            assert_eq!(firing, [format!("Anteroom-{resource}-Alarm")]);
        }
    }

    #[test]
    fn a_clock_that_steps_keeps_no_alarm_for_ever() {
        let mut alarms = OwnAlarms::new(PREFIX_DEFAULT, |_| 0);
        alarms.evaluate(at(100_000), &totals(1));
        alarms.evaluate(at(10), &totals(1));
        assert!(fires(&alarms));
        alarms.evaluate(at(69), &totals(1));
        assert!(fires(&alarms));
        alarms.evaluate(at(70), &totals(1));
        assert!(!fires(&alarms), "a minute by the clock as it is now");
        alarms.evaluate(at(71), &totals(2));
        alarms.evaluate(at(1_000_000), &totals(2));
        assert!(!fires(&alarms));
        alarms.evaluate(UnixMillis(u64::MAX), &totals(u64::MAX));
        alarms.evaluate(UnixMillis(u64::MAX), &totals(u64::MAX));
        assert!(fires(&alarms));
    }

    proptest! {
        /// Against a list of everything that was ever counted.
        #[test]
        fn it_fires_while_the_last_sixty_seconds_exceed_the_threshold(
            threshold in 0_u64..5,
            story in prop::collection::vec((0_u64..90, 0_u64..4), 1..80),
        ) {
            let mut alarms = OwnAlarms::new(PREFIX_DEFAULT, |_| threshold);
            let (mut now, mut total) = (5_000, 0);
            let mut events: Vec<(u64, u64)> = vec![];
            for (pause, counted) in story {
                now += pause;
                total += counted;
                events.push((now, counted));
                alarms.evaluate(at(now), &totals(total));
                let within: u64 =
                    events.iter().filter(|(second, _)| now - second < MINUTE_SECONDS as u64).map(|(_, count)| count).sum();
                let alarm = alarms.get(NAME).unwrap();
                prop_assert_eq!(alarm.count(), within);
                prop_assert_eq!(alarm.fires(), within > threshold);
            }
        }
    }
}
