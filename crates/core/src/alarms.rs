//! Alarms: what fires now, told from outside ([`OutsideAlarms`]) or counted here ([`OwnAlarms`]).
//!
//! An alarm has a name and either fires or is OK. A room names those that pause its inlet; a name that nobody ever heard of
//! counts as OK, because a misspelt name must not stop a sale (it is shown as unknown). What a room does about a firing alarm is
//! its own rule; this is only the record of who fires. Time comes in as an argument, as everywhere here.

mod outside;
mod own;

use crate::ids::UnixMillis;

pub use outside::{
    ALARM_TEXT_MAX_BYTES, ALARMS_MAX, ALERTS_MAX, AlarmsFull, Alert, FINGERPRINT_MAX_BYTES,
    NotificationOutcome, OutsideAlarm, OutsideAlarms,
};
pub use own::{
    MINUTE_SECONDS, OPERATIONS, OwnAlarm, OwnAlarms, PREFIX_DEFAULT, PREFIX_MAX_LENGTH, RESOURCES, Totals,
    is_prefix, resource_names,
};

/// Every alarm there is.
#[derive(Debug, Clone)]
pub struct AlarmBook {
    /// Those that others told us of.
    pub outside: OutsideAlarms,
    /// Those that are counted here.
    pub own: OwnAlarms,
}

impl AlarmBook {
    /// Whether the alarm of this name fires; `None` if nobody ever heard of it, which counts as OK.
    pub fn fires(&self, name: &str, now: UnixMillis) -> Option<bool> {
        match self.own.get(name) {
            Some(own) => Some(own.fires()),
            None => self.outside.get(name).map(|alarm| alarm.fires(now)),
        }
    }

    /// The names of all that fire, in order.
    pub fn firing(&self, now: UnixMillis) -> Vec<String> {
        let outside = self.outside.iter().filter(|alarm| alarm.fires(now)).map(|alarm| &alarm.name);
        let own = self.own.iter().filter(|alarm| alarm.fires()).map(|alarm| &alarm.name);
        let mut names: Vec<String> = outside.chain(own).cloned().collect();
        names.sort_unstable();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_nobody_heard_of_is_unknown_and_fires_not() {
        let book = AlarmBook { outside: OutsideAlarms::default(), own: OwnAlarms::new("Anteroom", |_| 0) };
        assert_eq!(book.fires("HighLoad", UnixMillis(0)), None);
        assert_eq!(book.fires("Anteroom-Public-5xx-Alarm", UnixMillis(0)), Some(false));
        assert!(book.firing(UnixMillis(0)).is_empty());
    }
}
