//! How many connections to an origin each visit has, and which of its requests wait because it has its share.
//!
//! *Invariant:* nothing is kept of a visit that holds nothing. One that has requests parked has its full share.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use super::VisitTag;

/// What every visit has. `Parked` is a request that waits.
#[derive(Debug)]
pub(super) struct VisitShares<Parked> {
    visits: HashMap<VisitTag, Share<Parked>>,
    /// All parked requests.
    parked: usize,
}

#[derive(Debug)]
struct Share<Parked> {
    count: usize,
    parked: VecDeque<Parked>,
}

impl<Parked> Default for VisitShares<Parked> {
    fn default() -> Self {
        Self { visits: HashMap::new(), parked: 0 }
    }
}

impl<Parked> VisitShares<Parked> {
    /// One more for a visit, unless it has `max`.
    pub(super) fn take(&mut self, visit: VisitTag, max: usize) -> bool {
        let share = self.visits.entry(visit).or_insert_with(|| Share { count: 0, parked: VecDeque::new() });
        let has_room = share.count < max;
        share.count += usize::from(has_room);
        has_room
    }

    /// Has a request wait until its visit gives one back; `false` for a visit that has nothing to give back.
    pub(super) fn park(&mut self, visit: VisitTag, request: Parked) -> bool {
        let Some(share) = self.visits.get_mut(&visit) else { return false };
        share.parked.push_back(request);
        self.parked += 1;
        true
    }

    /// One less for a visit. The request that waited longest for it and still does takes it over.
    pub(super) fn give_back(
        &mut self,
        visit: VisitTag,
        still_waits: impl Fn(&Parked) -> bool,
    ) -> Option<Parked> {
        let Entry::Occupied(mut entry) = self.visits.entry(visit) else { return None };
        let share = entry.get_mut();
        while let Some(next) = share.parked.pop_front() {
            self.parked -= 1;
            if still_waits(&next) {
                return Some(next);
            }
        }
        share.count -= 1;
        if share.count == 0 {
            entry.remove();
        }
        None
    }

    /// Whether requests of this visit wait for others of it.
    pub(super) fn has_parked(&self, visit: VisitTag) -> bool {
        self.parked > 0 && self.visits.get(&visit).is_some_and(|share| !share.parked.is_empty())
    }

    /// How many requests wait so.
    pub(super) const fn parked(&self) -> usize {
        self.parked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: VisitTag = VisitTag(1);
    const OTHER: VisitTag = VisitTag(2);

    #[test]
    fn a_visit_has_its_share_and_its_other_requests_wait_in_order() {
        let mut shares = VisitShares::default();
        assert!(shares.take(ONE, 2) && shares.take(ONE, 2) && !shares.take(ONE, 2));
        assert!(shares.take(OTHER, 2), "another visit has a share of its own");
        assert!(shares.park(ONE, 'a') && shares.park(ONE, 'b') && shares.park(ONE, 'c'));
        assert!(shares.has_parked(ONE) && !shares.has_parked(OTHER));
        assert_eq!(shares.give_back(ONE, |&request| request != 'a'), Some('b'), "the first has given up");
        assert_eq!((shares.give_back(ONE, |_| true), shares.parked()), (Some('c'), 0));
        assert!(!shares.take(ONE, 2), "what was parked took the places over");
        assert_eq!((shares.give_back(ONE, |_| true), shares.give_back(ONE, |_| true)), (None, None));
        assert!(shares.take(ONE, 1));
    }

    #[test]
    fn nothing_is_kept_of_a_visit_that_holds_nothing() {
        let mut shares: VisitShares<()> = VisitShares::default();
        assert!(shares.take(ONE, 1));
        assert_eq!(shares.give_back(ONE, |()| true), None);
        assert!(shares.visits.is_empty() && !shares.park(ONE, ()));
    }
}
