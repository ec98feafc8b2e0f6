//! `enter_by`: until when a visit has to begin, in rooms whose site reports its capacity.
//!
//! The waiting room subtracts a pass from the free slots that the site reports, until the pass is known to have entered or can
//! no longer enter. So a *first* use after `enter_by` has to be refused; every later use is good until `exp`. A token does not
//! say which use it is, so somebody has to remember which visits have begun.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

/// How many visits that have begun are remembered, unless told otherwise.
pub const ENTERED_VISITS_MAX: usize = 100_000;

/// How a first use after `enter_by` is found. It matters only for passes that have the claim.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum EnterBy {
    /// This guard remembers the visits that it has seen ([`ENTERED_VISITS_MAX`]). For a site of one process, or one that sends a
    /// visitor to the same process each time: another process has not seen the visit begin, and refuses it after `enter_by`.
    ///
    /// Nobody is turned away by a restart: passes issued before it are let in late, too.
    #[default]
    Remembered,
    /// The processes of the site remember together.
    Shared(Arc<dyn EnteredVisits>),
    /// The site refuses late first uses by itself, by [`Pass::enter_by_seconds`](crate::Pass::enter_by_seconds).
    Unchecked,
}

/// A visit of which a pass was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Visit<'pass> {
    /// The room.
    pub room: &'pass str,
    /// The request id: with the room, the name of the visit. A renewed access token has the same.
    pub subject: &'pass str,
    /// When this token was issued; the first one of a visit before `enter_by`, a renewed one at any time.
    pub issued_at_seconds: u64,
    /// Until when, this second included, the visit has to begin.
    pub enter_by_seconds: u64,
    /// How long it has to be remembered.
    pub expires_at_seconds: u64,
    /// The time now.
    pub now_seconds: u64,
}

impl Visit<'_> {
    /// Whether a first use is refused. A pass is good until its second is over; no leeway is added, because the waiting room
    /// gives the slot away.
    pub fn is_late(&self) -> bool {
        self.now_seconds > self.enter_by_seconds
    }
}

/// Remembers which visits have begun.
pub trait EnteredVisits: Send + Sync + 'static {
    /// Whether a visit may go on. One that is not late is remembered, until its pass expires, and may; a late one may if it is
    /// remembered.
    ///
    /// Where the memory cannot be asked, `true` is the better answer: at worst a visitor is let in late, where `false` would
    /// turn away everybody inside.
    fn enter<'visit>(
        &'visit self,
        visit: Visit<'visit>,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + 'visit>>;
}

/// The memory of one guard.
pub(crate) struct VisitMemory {
    visits_max: usize,
    known: Mutex<Known>,
}

struct Known {
    /// Until when each visit is remembered, by room and subject. Neither has a slash.
    visits: HashMap<String, u64>,
    /// What began up to this second may have been forgotten.
    complete_after_seconds: u64,
}

impl VisitMemory {
    /// Remembers visits from `now_seconds` on.
    pub(crate) fn new(now_seconds: u64, visits_max: usize) -> Self {
        let known = Known { visits: HashMap::new(), complete_after_seconds: now_seconds };
        Self { visits_max, known: Mutex::new(known) }
    }

    /// As [`EnteredVisits::enter`] says. A visit that could have begun before the memory did may go on.
    pub(crate) fn enter(&self, visit: Visit<'_>) -> bool {
        let name = format!("{}/{}", visit.room, visit.subject);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(expires_at_seconds) = known.visits.get_mut(&name) {
            // A renewed pass keeps its visit for longer.
            *expires_at_seconds = visit.expires_at_seconds.max(*expires_at_seconds);
            return true;
        }
        let first_issue = visit.issued_at_seconds.min(visit.enter_by_seconds);
        if visit.is_late() && first_issue > known.complete_after_seconds {
            return false;
        }
        if known.visits.len() >= self.visits_max {
            known.visits.retain(|_, expires_at_seconds| *expires_at_seconds > visit.now_seconds);
        }
        if known.visits.len() >= self.visits_max {
            tracing::warn!(
                visits = self.visits_max,
                "too many visits to remember, late first uses are let in"
            );
            known.visits.clear();
            known.complete_after_seconds = visit.now_seconds;
        }
        known.visits.insert(name, visit.expires_at_seconds);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(subject: &str, issued_at_seconds: u64, now_seconds: u64) -> Visit<'_> {
        Visit {
            room: "Sale",
            subject,
            issued_at_seconds,
            enter_by_seconds: issued_at_seconds + 30,
            expires_at_seconds: issued_at_seconds + 3_600,
            now_seconds,
        }
    }

    #[test]
    fn a_first_use_is_refused_when_the_second_of_enter_by_is_over_and_a_later_one_is_not() {
        let memory = VisitMemory::new(1_000, 10);
        assert!(memory.enter(visit("in-time", 2_000, 2_030)));
        assert!(!memory.enter(visit("late", 2_000, 2_031)));
        assert!(memory.enter(visit("in-time", 2_000, 5_000)));
        assert!(!memory.enter(visit("late", 2_000, 5_000)));
        assert!(!memory.enter(Visit { room: "Vip", ..visit("in-time", 2_000, 5_000) }));
    }

    #[test]
    fn a_renewed_token_goes_on_with_the_visit_and_begins_none() {
        let memory = VisitMemory::new(1_000, 10);
        assert!(memory.enter(visit("inside", 2_000, 2_010)));
        let renewed = |subject| Visit { enter_by_seconds: 2_030, ..visit(subject, 3_000, 3_001) };
        assert!(memory.enter(renewed("inside")));
        assert!(!memory.enter(renewed("late")));
    }

    /// Its entry once ended with its first pass, and a full memory then forgot somebody inside.
    #[test]
    fn a_renewed_visit_is_remembered_until_its_renewed_pass_expires() {
        let memory = VisitMemory::new(1_000, 2);
        assert!(memory.enter(visit("inside", 2_000, 2_010)));
        let renewed = |now_seconds| Visit { enter_by_seconds: 2_030, ..visit("inside", 5_000, now_seconds) };
        assert!(memory.enter(renewed(5_001)));
        assert!(memory.enter(visit("short", 2_100, 2_110)));
        assert!(memory.enter(visit("other", 6_000, 6_001)), "the place of what has expired is taken");
        assert!(memory.enter(renewed(6_010)), "somebody inside is not turned away");
    }

    #[test]
    fn a_restart_turns_nobody_away_who_may_be_inside() {
        let memory = VisitMemory::new(3_000, 10);
        assert!(memory.enter(visit("issued-before", 2_900, 3_500)));
        assert!(memory.enter(visit("issued-in-that-second", 3_000, 3_500)));
        let renewed_afterwards = Visit { enter_by_seconds: 2_930, ..visit("renewed", 3_200, 3_500) };
        assert!(memory.enter(renewed_afterwards));
        assert!(!memory.enter(visit("issued-after", 3_001, 3_500)));
    }

    #[test]
    fn a_full_memory_forgets_what_has_expired_and_else_lets_everybody_in_as_after_a_restart() {
        let memory = VisitMemory::new(1_000, 2);
        assert!(memory.enter(visit("a", 2_000, 2_000)) && memory.enter(visit("b", 2_100, 2_100)));
        // The pass of `a` has expired.
        assert!(memory.enter(visit("c", 5_600, 5_600)));
        assert!(memory.enter(visit("b", 2_100, 5_600)), "it is still remembered");
        assert!(memory.enter(visit("d", 5_650, 5_650)));
        assert!(memory.enter(visit("e", 5_660, 5_660)));
        assert!(memory.enter(visit("c", 5_600, 5_690)), "forgotten, and let in all the same");
        assert!(!memory.enter(visit("late", 5_691, 5_722)), "what was issued afterwards is refused again");
    }
}
