//! Who joins, seen from this node: joins by address prefix, and joins that were refused, by reason.
//!
//! It decides nothing. An operator looks at it to tell a rush from one client with many cookie jars.
//!
//! *Bounded:* the prefixes are counted by a sketch of [`COUNTERS`] counters ("space-saving"): where all are in use, a new prefix
//! takes over the smallest one with its count. So of `n` joins every prefix with more than `n / COUNTERS` of them is listed, and none
//! is listed with fewer than it had. Counts are of the last 10 to 20 minutes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anteroom_core::{AddressPrefix, Refusal, UnixMillis};
use anteroom_engine::EngineError;

use crate::error::AdmissionError;

/// How many prefixes are counted at once.
const COUNTERS: usize = 256;
/// How many are shown.
pub const PREFIXES_SHOWN: usize = 20;
/// After so long what was counted is the period before; what came before that is forgotten.
const PERIOD_MILLIS: u64 = 600_000;

/// Why a join was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinRefusal {
    /// The client has used up a budget.
    Limited,
    /// More arrive in a second than the room takes.
    ManyArriving,
    /// The room is not open, or the line is full.
    NotJoinable,
    /// The place has moved to another device.
    Moved,
    /// The store, or the room, could not do it.
    Unavailable,
}

impl JoinRefusal {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Limited, Self::ManyArriving, Self::NotJoinable, Self::Moved, Self::Unavailable];

    /// Its name in metrics and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Limited => "limited",
            Self::ManyArriving => "many-arriving",
            Self::NotJoinable => "not-joinable",
            Self::Moved => "moved",
            Self::Unavailable => "unavailable",
        }
    }

    fn of(error: &AdmissionError) -> Self {
        match error {
            AdmissionError::ManyArriving { .. } => Self::ManyArriving,
            AdmissionError::Engine(EngineError::Refused(Refusal::Moved)) => Self::Moved,
            AdmissionError::Engine(EngineError::Refused(_)) => Self::NotJoinable,
            _ => Self::Unavailable,
        }
    }
}

/// A prefix, and how many joins it had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixJoins {
    /// The prefix.
    pub prefix: AddressPrefix,
    /// How many joins it had at most.
    pub joins: u64,
    /// By how many that may be too many.
    pub error: u64,
}

/// What a node has seen of those who want to join one room.
#[derive(Debug, Default)]
pub struct Arrivals {
    joins: Mutex<Periods>,
    refusals: [AtomicU64; JoinRefusal::ALL.len()],
}

impl Arrivals {
    /// How a join ended.
    pub(crate) fn note<T>(&self, client: IpAddr, now: UnixMillis, result: &Result<T, AdmissionError>) {
        match result {
            Ok(_) => self.periods(now).present.count(AddressPrefix::of_client(client)),
            Err(error) => self.note_refusal(JoinRefusal::of(error)),
        }
    }

    /// A join was refused before the room was asked.
    pub fn note_refusal(&self, reason: JoinRefusal) {
        self.refusals[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many joins were refused for a reason.
    pub fn refusals(&self, reason: JoinRefusal) -> u64 {
        self.refusals[reason as usize].load(Ordering::Relaxed)
    }

    /// The prefixes with the most joins, those first.
    pub fn most_joins(&self, now: UnixMillis) -> Vec<PrefixJoins> {
        let periods = self.periods(now);
        let mut listed: HashMap<AddressPrefix, PrefixJoins> = HashMap::new();
        for counted in periods.present.counters.iter().chain(&periods.before.counters) {
            let nothing = PrefixJoins { prefix: counted.prefix, joins: 0, error: 0 };
            let sum = listed.entry(counted.prefix).or_insert(nothing);
            sum.joins += counted.joins;
            sum.error += counted.error;
        }
        drop(periods);
        let mut listed: Vec<PrefixJoins> = listed.into_values().collect();
        listed.sort_unstable_by_key(|counted| {
            (std::cmp::Reverse(counted.joins - counted.error), counted.prefix)
        });
        listed.truncate(PREFIXES_SHOWN);
        listed
    }

    /// Nothing can be half done in there, so a panic elsewhere leaves it usable.
    fn periods(&self, now: UnixMillis) -> std::sync::MutexGuard<'_, Periods> {
        let mut periods = self.joins.lock().unwrap_or_else(PoisonError::into_inner);
        periods.advance(now.0 / PERIOD_MILLIS);
        periods
    }
}

#[derive(Debug, Default)]
struct Periods {
    number: u64,
    present: Sketch,
    before: Sketch,
}

impl Periods {
    fn advance(&mut self, number: u64) {
        // A clock that went back stays in its period.
        if number <= self.number {
            return;
        }
        let ended = std::mem::take(&mut self.present);
        self.before = if number == self.number + 1 { ended } else { Sketch::default() };
        self.number = number;
    }
}

#[derive(Debug, Default)]
struct Sketch {
    counters: Vec<PrefixJoins>,
    places: HashMap<AddressPrefix, usize>,
}

impl Sketch {
    fn count(&mut self, prefix: AddressPrefix) {
        if let Some(&place) = self.places.get(&prefix) {
            self.counters[place].joins += 1;
        } else if self.counters.len() < COUNTERS {
            self.places.insert(prefix, self.counters.len());
            self.counters.push(PrefixJoins { prefix, joins: 1, error: 0 });
        } else if let Some((place, smallest)) =
            self.counters.iter_mut().enumerate().min_by_key(|(_, counted)| counted.joins)
        {
            self.places.remove(&smallest.prefix);
            *smallest = PrefixJoins { prefix, joins: smallest.joins + 1, error: smallest.joins };
            self.places.insert(prefix, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(0x0b00_0000 + number))
    }

    fn join(arrivals: &Arrivals, client: IpAddr, now: UnixMillis) {
        arrivals.note(client, now, &Ok(()));
    }

    #[test]
    fn a_prefix_with_many_joins_is_listed_first_among_a_hundred_thousand_others() {
        let arrivals = Arrivals::default();
        let noisy = "2001:db8:1:2::77".parse().unwrap();
        for number in 0..100_000 {
            join(&arrivals, address(number), NOW);
            if number % 50 == 0 {
                join(&arrivals, noisy, NOW);
            }
        }
        let listed = arrivals.most_joins(NOW);
        assert_eq!(listed.len(), PREFIXES_SHOWN);
        assert_eq!(listed[0].prefix.to_string(), "2001:db8:1:2::/64");
        assert!(listed[0].joins >= 2_000 && listed[0].joins - listed[0].error <= 2_000, "{:?}", listed[0]);
        let periods = arrivals.joins.lock().unwrap();
        assert_eq!((periods.present.counters.len(), periods.present.places.len()), (COUNTERS, COUNTERS));
    }

    #[test]
    fn few_prefixes_are_counted_exactly_in_order_and_forgotten_after_two_periods() {
        let arrivals = Arrivals::default();
        for number in 1..=30 {
            (0..number).for_each(|_| join(&arrivals, address(number), NOW));
        }
        let counts = |now| -> Vec<u64> {
            arrivals.most_joins(now).iter().map(|counted| counted.joins - counted.error).collect()
        };
        assert_eq!(counts(NOW), (11..=30).rev().collect::<Vec<u64>>());
        let later = NOW.plus(PERIOD_MILLIS);
        join(&arrivals, address(30), later);
        assert_eq!(counts(later)[..2], [31, 29], "the period before still counts");
        assert_eq!(counts(later.plus(PERIOD_MILLIS)), [1]);
        assert!(counts(later.plus(3 * PERIOD_MILLIS)).is_empty());
    }

    #[test]
    fn refusals_are_counted_by_reason_and_take_no_place_in_the_list() {
        let arrivals = Arrivals::default();
        let refused = |error: AdmissionError| arrivals.note::<()>(address(1), NOW, &Err(error));
        refused(AdmissionError::ManyArriving { retry_after_seconds: 1 });
        refused(Refusal::Moved.into());
        refused(EngineError::Overloaded.into());
        refused(EngineError::Overloaded.into());
        arrivals.note_refusal(JoinRefusal::Limited);
        let counts = JoinRefusal::ALL.map(|reason| (reason.as_str(), arrivals.refusals(reason)));
        assert_eq!(
            counts,
            [("limited", 1), ("many-arriving", 1), ("not-joinable", 0), ("moved", 1), ("unavailable", 2)]
        );
        assert!(arrivals.most_joins(NOW).is_empty());
    }
}
