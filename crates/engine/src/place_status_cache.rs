//! The status of served tickets, cached for a second, so that repeated questions about one ticket cost its room, and the
//! store behind it, one inspection a second. A refusal is cached like any answer. Those who ask while an inspection is under way
//! share its result.
//!
//! *Invariant:* after an operation of this node on a place, or on all places of a room, was answered, every later
//! question sees its effect: the cached status is dropped, and an inspection that was under way meanwhile is not cached.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use anteroom_core::{Operation, PlaceStatus, Refusal, SessionKey, Ticket, UnixMillis};
use tokio::sync::watch;

use crate::EngineError;

/// How long a status is fresh.
const FRESH_MILLIS: u64 = 1_000;
/// How many a room caches. Beyond it, it drops all of them, which costs some an inspection.
const ENTRIES_MAX: usize = 4_096;

/// The answer of a room about a place.
pub(super) type PlaceResult = Result<PlaceStatus, Refusal>;

/// What an inspection came to, for those who wait for it.
pub(super) type Outcome = Option<Result<PlaceStatus, EngineError>>;

/// The cached statuses of one room.
#[derive(Default)]
pub(super) struct PlaceStatusCache(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    by_key: HashMap<SessionKey, Inspection>,
    /// Inspections begun so far.
    begun: u64,
}

/// The last inspection of a place. Another copy of its ticket may have another status, and is inspected anew.
struct Inspection {
    ticket: Ticket,
    number: u64,
    at: UnixMillis,
    /// Whether the board showed an offer.
    is_offered: bool,
    /// Nothing while it is under way.
    result: Option<PlaceResult>,
    /// Closed when its caller has given up.
    outcome: watch::Receiver<Outcome>,
}

/// What is known of a place.
#[derive(Debug)]
pub(super) enum Lookup {
    /// The room answered this a moment ago.
    Hit(PlaceResult),
    /// Somebody else is asking the room.
    UnderWay(watch::Receiver<Outcome>),
    /// The room is asked, and this is the number of that inspection, and who waits for it.
    Miss(u64, watch::Sender<Outcome>),
}

/// Which places an operation changes, so that their cached status is outdated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Invalidation {
    None,
    One(SessionKey),
    All,
}

impl Invalidation {
    pub(super) fn of(operation: &Operation) -> Self {
        match operation {
            Operation::Inspect { .. }
            | Operation::Tick
            | Operation::Join { .. }
            | Operation::Show { .. }
            | Operation::Exits { .. }
            | Operation::Report(_)
            | Operation::ForgetReporter { .. }
            | Operation::Alarms { .. } => Self::None,
            other => other.session_key().map_or(Self::All, Self::One),
        }
    }
}

impl PlaceStatusCache {
    /// What is known of a place. If nothing is, the caller inspects it, and caches the result by [`Self::insert`]. An
    /// offer that has come to the board since, or gone from it, causes an inspection too: no turn waits for the cache.
    pub(super) fn look_up(&self, ticket: &Ticket, is_offered: bool, now: UnixMillis) -> Lookup {
        let mut entries = self.lock();
        if let Some(inspection) = entries.by_key.get(&key_of(ticket))
            && (inspection.ticket, inspection.is_offered) == (*ticket, is_offered)
            && inspection.at <= now
            && now.since(inspection.at) < FRESH_MILLIS
        {
            match &inspection.result {
                Some(result) => return Lookup::Hit(result.clone()),
                None if inspection.outcome.has_changed().is_ok() => {
                    return Lookup::UnderWay(inspection.outcome.clone());
                }
                None => {}
            }
        }
        if entries.by_key.len() >= ENTRIES_MAX {
            entries.by_key.clear();
        }
        entries.begun += 1;
        let number = entries.begun;
        let (sender, outcome) = watch::channel(None);
        let inspection = Inspection { ticket: *ticket, number, at: now, is_offered, result: None, outcome };
        entries.by_key.insert(key_of(ticket), inspection);
        Lookup::Miss(number, sender)
    }

    /// Caches the result of an inspection, unless the place was changed since it began.
    pub(super) fn insert(&self, ticket: &Ticket, number: u64, result: &PlaceResult) {
        if let Some(inspection) =
            self.lock().by_key.get_mut(&key_of(ticket)).filter(|inspection| inspection.number == number)
        {
            inspection.result = Some(result.clone());
        }
    }

    fn invalidate(&self, invalidation: Invalidation) {
        match invalidation {
            Invalidation::None => {}
            Invalidation::One(key) => drop(self.lock().by_key.remove(&key)),
            Invalidation::All => self.lock().by_key.clear(),
        }
    }

    /// Drops what an operation changes when the operation ends, also when its caller is cancelled.
    pub(super) const fn invalidate_on_drop(&self, invalidation: Invalidation) -> InvalidateOnDrop<'_> {
        InvalidateOnDrop { cache: self, invalidation }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Invalidates when it is dropped.
pub(super) struct InvalidateOnDrop<'room> {
    cache: &'room PlaceStatusCache,
    invalidation: Invalidation,
}

impl Drop for InvalidateOnDrop<'_> {
    fn drop(&mut self) {
        self.cache.invalidate(self.invalidation);
    }
}

const fn key_of(ticket: &Ticket) -> SessionKey {
    SessionKey { generation: ticket.generation, position: ticket.position }
}

#[cfg(test)]
mod tests {
    use anteroom_core::{Generation, Mover, Position};

    use super::*;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

    fn ticket(position: u64) -> Ticket {
        let generation = Generation { opened: 7, incarnation: 1 };
        Ticket { lane: 0, generation, position: Position::new(position).unwrap(), entered: 0, copy: 0 }
    }

    fn begin(cache: &PlaceStatusCache, ticket: &Ticket, at: UnixMillis) -> u64 {
        match cache.look_up(ticket, true, at) {
            Lookup::Miss(number, _) => number,
            other => panic!("{other:?}"),
        }
    }

    fn cached(cache: &PlaceStatusCache, ticket: &Ticket, is_offered: bool, at: UnixMillis) -> PlaceResult {
        match cache.look_up(ticket, is_offered, at) {
            Lookup::Hit(result) => result,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn those_who_ask_while_an_inspection_is_under_way_share_it() {
        let (cache, ticket) = (PlaceStatusCache::default(), ticket(1));
        let Lookup::Miss(number, sender) = cache.look_up(&ticket, true, NOW) else {
            panic!("nothing is known yet")
        };
        let under_way = |at| matches!(cache.look_up(&ticket, true, at), Lookup::UnderWay(_));
        assert!((0..100).all(|_| under_way(NOW)), "nobody else asks the room");
        cache.insert(&ticket, number, &Ok(PlaceStatus::Offered));
        assert_eq!(cached(&cache, &ticket, true, NOW), Ok(PlaceStatus::Offered));
        drop(sender);
        // One whose caller has given up is no reason to wait, and neither is one that takes too long.
        begin(&cache, &ticket, NOW.plus(1_000));
        let held = cache.look_up(&ticket, true, NOW.plus(1_000));
        assert!(matches!(held, Lookup::Miss(..)) && under_way(NOW.plus(1_999)));
        begin(&cache, &ticket, NOW.plus(2_000));
    }

    #[test]
    fn an_answer_is_cached_for_a_second_and_a_refusal_too() {
        let cache = PlaceStatusCache::default();
        for (position, result) in [(1, Ok(PlaceStatus::Offered)), (2, Err(Refusal::Moved))] {
            let ticket = ticket(position);
            cache.insert(&ticket, begin(&cache, &ticket, NOW), &result);
            assert_eq!(cached(&cache, &ticket, true, NOW.plus(999)), result);
            begin(&cache, &ticket, NOW.plus(1_000));
        }
        // A clock that was set back does not make it last.
        let early = ticket(3);
        cache.insert(&early, begin(&cache, &early, NOW), &Ok(PlaceStatus::Offered));
        begin(&cache, &early, UnixMillis(NOW.0 - 1));
    }

    #[test]
    fn no_turn_waits_for_what_is_cached() {
        let (cache, ticket) = (PlaceStatusCache::default(), ticket(1));
        for (result, is_offered) in
            [(PlaceStatus::Waiting, false), (PlaceStatus::Offered, true), (PlaceStatus::Gone, false)]
        {
            let Lookup::Miss(number, _) = cache.look_up(&ticket, is_offered, NOW) else {
                panic!("the board has changed");
            };
            cache.insert(&ticket, number, &Ok(result.clone()));
            assert_eq!(cached(&cache, &ticket, is_offered, NOW), Ok(result));
        }
    }

    #[test]
    fn another_copy_of_a_ticket_gets_nothing_of_it() {
        let (cache, old) = (PlaceStatusCache::default(), ticket(1));
        cache.insert(&old, begin(&cache, &old, NOW), &Ok(PlaceStatus::Offered));
        begin(&cache, &Ticket { copy: 1, ..old }, NOW);
    }

    #[test]
    fn what_happens_to_a_place_is_seen_at_once() {
        let (cache, own, other) = (PlaceStatusCache::default(), ticket(1), ticket(2));
        for ticket in [&own, &other] {
            cache.insert(ticket, begin(&cache, ticket, NOW), &Ok(PlaceStatus::Offered));
        }
        drop(cache.invalidate_on_drop(Invalidation::of(&Operation::Leave { ticket: own })));
        // An inspection that began before something else happened is not cached either.
        let number = begin(&cache, &own, NOW);
        drop(
            cache.invalidate_on_drop(Invalidation::of(&Operation::Move { ticket: own, by: Mover::UNNAMED })),
        );
        cache.insert(&own, number, &Ok(PlaceStatus::Offered));
        begin(&cache, &own, NOW);
        assert_eq!(cached(&cache, &other, true, NOW), Ok(PlaceStatus::Offered));
        drop(cache.invalidate_on_drop(Invalidation::of(&Operation::Tick)));
        assert_eq!(cached(&cache, &other, true, NOW), Ok(PlaceStatus::Offered));
        drop(cache.invalidate_on_drop(Invalidation::of(&Operation::Advance { by: -1 })));
        begin(&cache, &other, NOW);
    }

    #[test]
    fn no_more_are_cached_than_there_is_room_for() {
        let cache = PlaceStatusCache::default();
        for position in 1..=3 * ENTRIES_MAX as u64 {
            cache.look_up(&ticket(position), true, NOW);
        }
        assert!(cache.lock().by_key.len() <= ENTRIES_MAX);
    }
}
