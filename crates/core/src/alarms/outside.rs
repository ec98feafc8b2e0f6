//! Alarms that others tell us of, in the terms of Prometheus' Alertmanager.
//!
//! One *alarm* is one alert name. Behind it stand *alerts*, one for each set of labels (each instance, say), told apart by their
//! fingerprint; the alarm fires while any of them does. A firing alert that is told to end at some moment is over then. The record
//! is bounded: the alarm that has been OK and without a notification for longest makes room for a new one, and what fires is never
//! dropped.

use std::collections::BTreeMap;

use crate::ids::UnixMillis;
use crate::settings::is_alarm_name;

/// How many names of alarms are kept.
pub const ALARMS_MAX: usize = 1_024;
/// How many alerts, of all names, may fire at once.
pub const ALERTS_MAX: usize = 8_192;
/// Longest summary, and longest text of labels, in bytes.
pub const ALARM_TEXT_MAX_BYTES: usize = 256;
/// Longest fingerprint, in bytes.
pub const FINGERPRINT_MAX_BYTES: usize = 64;

/// One alert of a notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// The name of its alarm.
    pub name: String,
    /// Tells it from other alerts of that name.
    pub fingerprint: String,
    /// Whether the sender says that it fires.
    pub fires: bool,
    /// When it ends, or has ended, if the sender says so.
    pub ends_at: Option<UnixMillis>,
    /// What it means, for people.
    pub summary: String,
    /// Its labels, for people.
    pub labels: String,
}

/// An alarm as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsideAlarm {
    /// Its name.
    pub name: String,
    /// The alerts that fire, by fingerprint, each with the moment it ends if that was told.
    pub alerts: BTreeMap<String, Option<UnixMillis>>,
    /// Since when it has fired, or been OK, as far as we were told.
    pub since: UnixMillis,
    /// When it was last told of.
    pub last_heard: UnixMillis,
    /// What it means, as last told.
    pub summary: String,
    /// The labels last told.
    pub labels: String,
}

impl OutsideAlarm {
    /// Whether it fires.
    pub fn fires(&self, now: UnixMillis) -> bool {
        self.alerts.values().any(|ends_at| ends_at.is_none_or(|end| end > now))
    }

    /// Since when it has been as it is.
    pub fn since(&self, now: UnixMillis) -> UnixMillis {
        match self.alerts.values().flatten().max() {
            Some(&end) if !self.fires(now) => end,
            _ => self.since,
        }
    }

    /// Whether nobody has told of it for longer than this. A firing alarm goes on firing all the same: silence is no all-clear.
    pub fn is_stale(&self, now: UnixMillis, stale_millis: u64) -> bool {
        now.since(self.last_heard) > stale_millis
    }

    /// The alerts that fire now.
    pub fn firing_alerts(&self, now: UnixMillis) -> impl Iterator<Item = &str> {
        let fires = move |ends_at: &Option<UnixMillis>| ends_at.is_none_or(|end| end > now);
        self.alerts
            .iter()
            .filter(move |(_, ends_at)| fires(ends_at))
            .map(|(fingerprint, _)| fingerprint.as_str())
    }

    fn settle(&mut self, now: UnixMillis) {
        self.since = self.since(now);
        self.alerts.retain(|_, ends_at| ends_at.is_none_or(|end| end > now));
    }
}

/// What became of a notification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotificationOutcome {
    /// Alerts that fire.
    pub firing: u64,
    /// Alerts that do not.
    pub resolved: u64,
    /// Alerts without a name that a room could use, or with the name of an own alarm.
    pub ignored: u64,
    /// Alarms that fire now and did not before.
    pub began: Vec<String>,
    /// Alarms that fired before and do not now.
    pub ended: Vec<String>,
}

impl NotificationOutcome {
    /// All alerts of the notification.
    pub const fn alerts_received(&self) -> u64 {
        self.firing + self.resolved + self.ignored
    }
}

/// A notification that is refused, because what fires already fills the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AlarmsFull {
    /// See [`ALARMS_MAX`].
    #[error("{ALARMS_MAX} alarms fire already, and no more can be kept")]
    Names,
    /// See [`ALERTS_MAX`].
    #[error("{ALERTS_MAX} alerts fire already, and no more can be kept")]
    Alerts,
}

/// The alarms that others told us of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutsideAlarms(BTreeMap<String, OutsideAlarm>);

impl OutsideAlarms {
    /// The alarms of an earlier record; those beyond [`ALARMS_MAX`] are left out.
    pub fn of(alarms: impl IntoIterator<Item = OutsideAlarm>) -> Self {
        Self(alarms.into_iter().take(ALARMS_MAX).map(|alarm| (alarm.name.clone(), alarm)).collect())
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &OutsideAlarm> {
        self.0.values()
    }

    /// The alarm of a name.
    pub fn get(&self, name: &str) -> Option<&OutsideAlarm> {
        self.0.get(name)
    }

    /// Takes a notification in; `reserved` are the names of own alarms, of which nobody else can tell. A refused notification may
    /// leave part of itself behind, so the caller keeps the record as it was.
    pub fn receive(
        &mut self,
        now: UnixMillis,
        alerts: Vec<Alert>,
        reserved: impl Fn(&str) -> bool,
    ) -> Result<NotificationOutcome, AlarmsFull> {
        let firing_before: Vec<String> = self.firing(now);
        for alarm in self.0.values_mut() {
            alarm.settle(now);
        }
        let mut outcome = NotificationOutcome::default();
        for alert in alerts {
            let fires = alert.fires && alert.ends_at.is_none_or(|end| end > now);
            if !is_alarm_name(&alert.name)
                || reserved(&alert.name)
                || !self.make_room_for(&alert.name, fires)?
            {
                outcome.ignored += 1;
                continue;
            }
            if fires {
                outcome.firing += 1;
            } else {
                outcome.resolved += 1;
            }
            self.record_alert(now, alert, fires);
        }
        if self.0.values().map(|alarm| alarm.alerts.len()).sum::<usize>() > ALERTS_MAX {
            return Err(AlarmsFull::Alerts);
        }
        let firing_after = self.firing(now);
        let beyond = |of: &[String], other: &[String]| {
            of.iter().filter(|name| !other.contains(name)).cloned().collect::<Vec<_>>()
        };
        outcome.began = beyond(&firing_after, &firing_before);
        outcome.ended = beyond(&firing_before, &firing_after);
        Ok(outcome)
    }

    fn firing(&self, now: UnixMillis) -> Vec<String> {
        self.iter().filter(|alarm| alarm.fires(now)).map(|alarm| alarm.name.clone()).collect()
    }

    /// Whether an alarm can be taken in, after the oldest one that is OK was let go of if need be. One that is not known and does
    /// not fire says nothing worth a refusal.
    fn make_room_for(&mut self, name: &str, fires: bool) -> Result<bool, AlarmsFull> {
        if self.0.contains_key(name) || self.0.len() < ALARMS_MAX {
            return Ok(true);
        }
        let quiet = self.0.values().filter(|alarm| alarm.alerts.is_empty());
        match quiet.min_by_key(|alarm| alarm.last_heard).map(|alarm| alarm.name.clone()) {
            Some(oldest) => {
                self.0.remove(&oldest);
                Ok(true)
            }
            None if fires => Err(AlarmsFull::Names),
            None => Ok(false),
        }
    }

    fn record_alert(&mut self, now: UnixMillis, alert: Alert, fires: bool) {
        let alarm = self.0.entry(alert.name.clone()).or_insert_with(|| OutsideAlarm {
            name: alert.name,
            alerts: BTreeMap::new(),
            since: now,
            last_heard: now,
            summary: String::new(),
            labels: String::new(),
        });
        let was_firing = !alarm.alerts.is_empty();
        if fires {
            alarm.alerts.insert(alert.fingerprint, alert.ends_at);
        } else {
            alarm.alerts.remove(&alert.fingerprint);
        }
        if was_firing == alarm.alerts.is_empty() {
            alarm.since = now;
        }
        alarm.last_heard = now;
        // The words of an alert that is over must not hide those of one that still fires.
        if fires || alarm.alerts.is_empty() {
            alarm.summary = truncate(alert.summary);
            alarm.labels = truncate(alert.labels);
        }
    }
}

fn truncate(mut text: String) -> String {
    const CUT: &str = "...";
    if text.len() > ALARM_TEXT_MAX_BYTES {
        text.truncate(text.floor_char_boundary(ALARM_TEXT_MAX_BYTES - CUT.len()));
        text.push_str(CUT);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const HOUR_MILLIS: u64 = 3_600_000;

    fn alert(name: &str, fingerprint: &str, fires: bool) -> Alert {
        Alert {
            name: name.into(),
            fingerprint: fingerprint.into(),
            fires,
            ends_at: None,
            summary: format!("{name} of {fingerprint}"),
            labels: String::new(),
        }
    }

    fn at(seconds: u64) -> UnixMillis {
        UnixMillis(seconds * 1000)
    }

    fn receive(alarms: &mut OutsideAlarms, seconds: u64, alerts: Vec<Alert>) -> NotificationOutcome {
        alarms.receive(at(seconds), alerts, |_| false).unwrap()
    }

    #[test]
    fn an_alarm_fires_while_any_of_its_alerts_does() {
        let mut alarms = OutsideAlarms::default();
        let both = vec![alert("HighLoad", "a", true), alert("HighLoad", "b", true)];
        let outcome = receive(&mut alarms, 1, both);
        assert_eq!((outcome.alerts_received(), outcome.firing, outcome.began.len()), (2, 2, 1));
        let outcome = receive(&mut alarms, 2, vec![alert("HighLoad", "a", false)]);
        assert_eq!((outcome.resolved, outcome.ended.len()), (1, 0), "b still fires");
        assert!(alarms.get("HighLoad").unwrap().fires(at(2)));
        assert_eq!(alarms.get("HighLoad").unwrap().summary, "HighLoad of b");
        let outcome = receive(&mut alarms, 3, vec![alert("HighLoad", "b", false)]);
        assert_eq!(outcome.ended, ["HighLoad"]);
        let alarm = alarms.get("HighLoad").unwrap();
        assert!(!alarm.fires(at(3)));
        assert_eq!((alarm.since, alarm.last_heard), (at(3), at(3)));
    }

    #[test]
    fn a_repetition_moves_last_heard_and_not_since() {
        let mut alarms = OutsideAlarms::default();
        receive(&mut alarms, 1, vec![alert("HighLoad", "a", true)]);
        let outcome = receive(&mut alarms, 300, vec![alert("HighLoad", "a", true)]);
        assert!(outcome.began.is_empty());
        let alarm = alarms.get("HighLoad").unwrap();
        assert_eq!((alarm.since, alarm.last_heard), (at(1), at(300)));
    }

    #[test]
    fn one_notification_can_say_that_some_fire_and_some_do_not() {
        let mut alarms = OutsideAlarms::default();
        let outcome = receive(&mut alarms, 1, vec![alert("One", "a", true), alert("Two", "b", false)]);
        assert_eq!((outcome.firing, outcome.resolved, outcome.ignored), (1, 1, 0));
        assert!(alarms.get("One").unwrap().fires(at(1)));
        assert!(!alarms.get("Two").unwrap().fires(at(1)), "known, and OK");
    }

    #[test]
    fn an_alert_whose_end_is_past_is_over_whatever_its_status_says() {
        let mut alarms = OutsideAlarms::default();
        let past = Alert { ends_at: Some(at(5)), ..alert("Past", "a", true) };
        let future = Alert { ends_at: Some(at(20)), ..alert("Future", "a", true) };
        let outcome = receive(&mut alarms, 10, vec![past, future]);
        assert_eq!((outcome.firing, outcome.resolved), (1, 1));
        let future = alarms.get("Future").unwrap();
        assert!(future.fires(at(19)) && !future.fires(at(20)), "it ends when it was told to");
        assert_eq!((future.since(at(19)), future.since(at(30))), (at(10), at(20)));
        let outcome = receive(&mut alarms, 30, vec![alert("Future", "a", true)]);
        assert_eq!(outcome.began, ["Future"], "it fires anew");
        assert_eq!(alarms.get("Future").unwrap().since(at(30)), at(30));
    }

    #[test]
    fn a_silent_alarm_is_stale_and_goes_on_firing() {
        let mut alarms = OutsideAlarms::default();
        receive(&mut alarms, 0, vec![alert("HighLoad", "a", true)]);
        let alarm = alarms.get("HighLoad").unwrap();
        assert!(!alarm.is_stale(UnixMillis(5 * HOUR_MILLIS), 5 * HOUR_MILLIS));
        let later = UnixMillis(5 * HOUR_MILLIS + 1);
        assert!(alarm.is_stale(later, 5 * HOUR_MILLIS) && alarm.fires(later));
    }

    #[test]
    fn names_no_room_can_use_and_names_of_our_own_are_ignored() {
        let mut alarms = OutsideAlarms::default();
        let alerts = vec![alert("", "a", true), alert("two\nlines", "b", true), alert("Own", "c", true)];
        let outcome = alarms.receive(at(1), alerts, |name| name == "Own").unwrap();
        assert_eq!((outcome.ignored, outcome.alerts_received()), (3, 3));
        assert_eq!(alarms.iter().count(), 0);
    }

    #[test]
    fn texts_are_cut() {
        let mut alarms = OutsideAlarms::default();
        let long = Alert { summary: "ä".repeat(500), labels: "x".repeat(500), ..alert("Long", "a", true) };
        receive(&mut alarms, 1, vec![long]);
        let alarm = alarms.get("Long").unwrap();
        assert!(alarm.summary.len() <= ALARM_TEXT_MAX_BYTES && alarm.summary.ends_with("ä..."));
        assert_eq!(alarm.labels.len(), ALARM_TEXT_MAX_BYTES);
    }

    #[test]
    fn the_alarm_that_was_quiet_for_longest_makes_room_and_what_fires_stays() {
        let mut alarms = OutsideAlarms::default();
        receive(&mut alarms, 1, vec![alert("quiet-old", "a", false)]);
        receive(&mut alarms, 2, vec![alert("quiet-new", "a", false)]);
        let rest = ALARMS_MAX - 2;
        let many = (0..rest).map(|number| alert(&format!("n{number}"), "a", true)).collect();
        receive(&mut alarms, 3, many);
        receive(&mut alarms, 4, vec![alert("one-more", "a", true)]);
        assert!(alarms.get("quiet-old").is_none() && alarms.get("quiet-new").is_some());
        receive(&mut alarms, 5, vec![alert("and-another", "a", true)]);
        let refused = alarms.receive(at(6), vec![alert("too-many", "a", true)], |_| false);
        assert_eq!(refused, Err(AlarmsFull::Names));
        let outcome = receive(&mut alarms, 7, vec![alert("never-heard-of", "a", false)]);
        assert_eq!(outcome.ignored, 1);
        assert_eq!(alarms.iter().count(), ALARMS_MAX);
    }

    #[test]
    fn the_number_of_firing_alerts_is_bounded() {
        let mut alarms = OutsideAlarms::default();
        let many = |count: usize| (0..count).map(|number| alert("Many", &number.to_string(), true)).collect();
        assert_eq!(alarms.clone().receive(at(1), many(ALERTS_MAX + 1), |_| false), Err(AlarmsFull::Alerts));
        assert!(alarms.receive(at(1), many(ALERTS_MAX), |_| false).is_ok());
    }

    /// What happens in a story: an alert is told of, or time passes.
    fn told() -> impl Strategy<Value = (u64, usize, usize, bool, Option<u64>)> {
        (0_u64..40, 0_usize..4, 0_usize..3, any::<bool>(), prop::option::of(0_u64..60))
    }

    proptest! {
        /// Against a model that keeps every word ever said and reads the last one about each alert.
        #[test]
        fn what_fires_is_what_was_last_said_of_each_alert(story in prop::collection::vec(told(), 1..60)) {
            let mut alarms = OutsideAlarms::default();
            let mut said: Vec<(String, String, bool, Option<UnixMillis>, UnixMillis)> = vec![];
            let mut now = 1_000;
            for (pause, name, fingerprint, fires, ends_in) in story {
                now += pause;
                let ends_at = ends_in.map(|seconds| at(now + seconds));
                let (name, fingerprint) = (format!("alarm-{name}"), format!("{fingerprint}"));
                let told = Alert { ends_at, ..alert(&name, &fingerprint, fires) };
                let outcome = receive(&mut alarms, now, vec![told]);
                prop_assert_eq!(outcome.alerts_received(), 1);
                said.push((name, fingerprint, fires, ends_at, at(now)));
                for later in [now, now + 10, now + 100] {
                    let mut firing = BTreeSet::new();
                    for (index, (name, fingerprint, fires, ends_at, _)) in said.iter().enumerate() {
                        let newer = said[index + 1..].iter().any(|(n, f, ..)| (n, f) == (name, fingerprint));
                        if !newer && *fires && ends_at.is_none_or(|end| end > at(later)) {
                            firing.insert(name.as_str());
                        }
                    }
                    let found: BTreeSet<&str> =
                        alarms.iter().filter(|alarm| alarm.fires(at(later))).map(|alarm| alarm.name.as_str()).collect();
                    prop_assert_eq!(found, firing);
                }
                for alarm in alarms.iter() {
                    let last = said.iter().rev().find(|(name, ..)| *name == alarm.name).map(|entry| entry.4);
                    prop_assert_eq!(Some(alarm.last_heard), last);
                    prop_assert!(alarm.since <= at(now));
                    prop_assert_eq!(alarm.firing_alerts(at(now)).next().is_some(), alarm.fires(at(now)));
                }
            }
        }
    }
}
