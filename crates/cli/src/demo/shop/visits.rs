//! The shop's own count of its visitors, independent of what the server counts: by the name that the gateway gives each visit.
//!
//! *Invariant:* never more than hold a place. A visitor who has not been seen for a while may have lost the place, so is not counted any
//! more, a little too soon rather than too late; the next request counts the visitor again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anteroom_store::clock::Stopwatch;

use super::super::SESSION_SECONDS;

/// After this long without a request the shop takes a visitor for gone. The server frees a place at the end of the session at the
/// earliest, counted from one of the visitor's last requests; so the shop lets go a little before.
const GONE_AFTER: Duration = Duration::from_secs(SESSION_SECONDS - 20);
/// How often those who are gone are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The most visits that are remembered.
const VISITS_MAX: usize = 100_000;

/// Who is there.
#[derive(Debug)]
pub(super) struct Visits {
    clock: Stopwatch,
    known: Mutex<KnownVisits>,
}

#[derive(Debug, Default)]
struct KnownVisits {
    visits: HashMap<String, Visit>,
    inside: u64,
    most_inside: u64,
    bought: u64,
    swept_at: Duration,
}

/// A visit. One that is over is remembered for a while: a late request of it is no new visit.
#[derive(Debug, Clone, Copy)]
struct Visit {
    last_seen: Duration,
    is_over: bool,
}

impl Visits {
    pub(super) fn new() -> Self {
        Self { clock: Stopwatch::start(), known: Mutex::default() }
    }

    /// Visitors inside now.
    pub(super) fn inside(&self) -> u64 {
        let now = self.clock.elapsed();
        let mut known = self.known();
        known.sweep(now);
        known.inside
    }

    /// Visitors inside at once, at most.
    pub(super) fn most_inside(&self) -> u64 {
        self.known().most_inside
    }

    /// Things sold at the counter.
    pub(super) fn bought(&self) -> u64 {
        self.known().bought
    }

    pub(super) fn bought_one(&self) {
        self.known().bought += 1;
    }

    /// A request of this visit has come.
    pub(super) fn record_request(&self, visit: &str) {
        let now = self.clock.elapsed();
        let mut known = self.known();
        known.sweep(now);
        if let Some(found) = known.visits.get_mut(visit) {
            found.last_seen = now;
        } else if known.visits.len() < VISITS_MAX {
            known.visits.insert(visit.to_owned(), Visit { last_seen: now, is_over: false });
            known.inside += 1;
            known.most_inside = known.most_inside.max(known.inside);
        }
    }

    /// The visit is over by the shop's own word.
    pub(super) fn record_end(&self, visit: &str) {
        let mut known = self.known();
        let Some(found) = known.visits.get_mut(visit) else { return };
        if !std::mem::replace(&mut found.is_over, true) {
            known.inside -= 1;
        }
    }

    fn known(&self) -> MutexGuard<'_, KnownVisits> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownVisits {
    /// Forgets who has not been seen for long.
    fn sweep(&mut self, now: Duration) {
        if now.saturating_sub(self.swept_at) < SWEEP_INTERVAL {
            return;
        }
        self.swept_at = now;
        let inside = &mut self.inside;
        self.visits.retain(|_, visit| {
            let stays = now.saturating_sub(visit.last_seen) < GONE_AFTER;
            if !stays && !visit.is_over {
                *inside -= 1;
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_are_counted_once_and_end_once() {
        let visits = Visits::new();
        for visit in ["a", "b", "a"] {
            visits.record_request(visit);
        }
        assert_eq!((visits.inside(), visits.most_inside()), (2, 2));
        for visit in ["a", "a", "unknown"] {
            visits.record_end(visit);
        }
        visits.record_request("a");
        visits.record_request("c");
        assert_eq!((visits.inside(), visits.most_inside()), (2, 2), "a late request is no new visit");
    }

    #[test]
    fn who_is_not_seen_for_long_is_gone() {
        let mut known = KnownVisits { inside: 1, ..KnownVisits::default() };
        let visit = |is_over| Visit { last_seen: Duration::ZERO, is_over };
        known.visits.extend([("a".to_owned(), visit(false)), ("b".to_owned(), visit(true))]);
        known.sweep(GONE_AFTER.saturating_sub(SWEEP_INTERVAL));
        assert_eq!((known.inside, known.visits.len()), (1, 2));
        known.sweep(GONE_AFTER);
        assert_eq!((known.inside, known.visits.len()), (0, 0));
    }
}
