//! Where served tickets stood a moment ago, so that asking for one again and again costs its room, and the store behind it, one look a
//! second. A refusal is remembered like any answer.
//!
//! *Invariant:* whatever this node does to a place, or to all places of a room, is seen by whoever asks after it was answered: what is
//! remembered of it is forgotten, and a look that was under way meanwhile is not remembered.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use anteroom_core::{Operation, Place, Refusal, SessionKey, Ticket, UnixMillis};

/// How long an answer is remembered.
const REMEMBERED_MILLIS: u64 = 1_000;
/// How many a room remembers. Beyond it, it forgets all of them, which costs some a look.
const PLACES_MAX: usize = 4_096;

/// What a room said of a place.
pub(super) type Said = Result<Place, Refusal>;

/// The places of one room.
#[derive(Default)]
pub(super) struct RecentPlaces(Mutex<Recent>);

#[derive(Default)]
struct Recent {
    places: HashMap<SessionKey, Look>,
    /// Looks begun so far.
    begun: u64,
}

/// The last look at a place. Another copy of its ticket may be told something else, and looks anew.
struct Look {
    ticket: Ticket,
    number: u64,
    at: UnixMillis,
    /// Whether the board showed an offer.
    is_offered: bool,
    /// Nothing while it is under way.
    said: Option<Said>,
}

/// What is known of a place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The room said this a moment ago.
    Said(Said),
    /// Nothing: the room is asked, and this is the number of that look.
    Nothing(u64),
}

/// Which places an operation changes in a way that whoever looked before would not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touched {
    None,
    One(SessionKey),
    All,
}

impl Touched {
    pub(super) fn by(operation: &Operation) -> Self {
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

impl RecentPlaces {
    /// What is known of a place. If nothing is, whoever asked looks, and tells by [`Self::remember`] what he was told. An offer that
    /// has come to the board since, or gone from it, makes him look too: no turn waits for what is remembered.
    pub(super) fn ask(&self, ticket: &Ticket, is_offered: bool, now: UnixMillis) -> Known {
        let mut recent = self.lock();
        if let Some(look) = recent.places.get(&key_of(ticket))
            && let Some(said) = &look.said
            && (look.ticket, look.is_offered) == (*ticket, is_offered)
            && look.at <= now
            && now.since(look.at) < REMEMBERED_MILLIS
        {
            return Known::Said(said.clone());
        }
        if recent.places.len() >= PLACES_MAX {
            recent.places.clear();
        }
        recent.begun += 1;
        let number = recent.begun;
        let look = Look { ticket: *ticket, number, at: now, is_offered, said: None };
        recent.places.insert(key_of(ticket), look);
        Known::Nothing(number)
    }

    /// Remembers what a look was told, unless something happened to the place since it began.
    pub(super) fn remember(&self, ticket: &Ticket, number: u64, said: &Said) {
        if let Some(look) = self.lock().places.get_mut(&key_of(ticket)).filter(|look| look.number == number) {
            look.said = Some(said.clone());
        }
    }

    fn forget(&self, touched: Touched) {
        match touched {
            Touched::None => {}
            Touched::One(key) => drop(self.lock().places.remove(&key)),
            Touched::All => self.lock().places.clear(),
        }
    }

    /// Forgets what an operation changes when it is over, also for somebody who did not wait for its end.
    pub(super) const fn forgetting(&self, touched: Touched) -> Forgetting<'_> {
        Forgetting { places: self, touched }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Recent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets when it is dropped.
pub(super) struct Forgetting<'room> {
    places: &'room RecentPlaces,
    touched: Touched,
}

impl Drop for Forgetting<'_> {
    fn drop(&mut self) {
        self.places.forget(self.touched);
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

    fn look(places: &RecentPlaces, ticket: &Ticket, at: UnixMillis) -> u64 {
        match places.ask(ticket, true, at) {
            Known::Nothing(number) => number,
            Known::Said(said) => panic!("{said:?} is remembered"),
        }
    }

    #[test]
    fn an_answer_is_remembered_for_a_second_and_a_refusal_too() {
        let places = RecentPlaces::default();
        for (position, said) in [(1, Ok(Place::Offered)), (2, Err(Refusal::Moved))] {
            let ticket = ticket(position);
            places.remember(&ticket, look(&places, &ticket, NOW), &said);
            assert_eq!(places.ask(&ticket, true, NOW.plus(999)), Known::Said(said));
            look(&places, &ticket, NOW.plus(1_000));
        }
        // A clock that was set back does not make it last.
        let early = ticket(3);
        places.remember(&early, look(&places, &early, NOW), &Ok(Place::Offered));
        look(&places, &early, UnixMillis(NOW.0 - 1));
    }

    #[test]
    fn no_turn_waits_for_what_is_remembered() {
        let (places, ticket) = (RecentPlaces::default(), ticket(1));
        for (said, is_offered) in [(Place::Waiting, false), (Place::Offered, true), (Place::Gone, false)] {
            let Known::Nothing(number) = places.ask(&ticket, is_offered, NOW) else {
                panic!("the board has changed");
            };
            places.remember(&ticket, number, &Ok(said.clone()));
            assert_eq!(places.ask(&ticket, is_offered, NOW), Known::Said(Ok(said)));
        }
    }

    #[test]
    fn another_copy_of_a_ticket_is_told_nothing_of_it() {
        let (places, old) = (RecentPlaces::default(), ticket(1));
        places.remember(&old, look(&places, &old, NOW), &Ok(Place::Offered));
        look(&places, &Ticket { copy: 1, ..old }, NOW);
    }

    #[test]
    fn what_happens_to_a_place_is_seen_at_once() {
        let (places, own, other) = (RecentPlaces::default(), ticket(1), ticket(2));
        for ticket in [&own, &other] {
            places.remember(ticket, look(&places, ticket, NOW), &Ok(Place::Offered));
        }
        drop(places.forgetting(Touched::by(&Operation::Leave { ticket: own })));
        // A look that began before something else happened is not remembered either.
        let number = look(&places, &own, NOW);
        drop(places.forgetting(Touched::by(&Operation::Move { ticket: own, by: Mover::UNNAMED })));
        places.remember(&own, number, &Ok(Place::Offered));
        look(&places, &own, NOW);
        assert_eq!(places.ask(&other, true, NOW), Known::Said(Ok(Place::Offered)));
        drop(places.forgetting(Touched::by(&Operation::Tick)));
        assert_eq!(places.ask(&other, true, NOW), Known::Said(Ok(Place::Offered)));
        drop(places.forgetting(Touched::by(&Operation::Advance { by: -1 })));
        look(&places, &other, NOW);
    }

    #[test]
    fn no_more_are_remembered_than_there_is_room_for() {
        let places = RecentPlaces::default();
        for position in 1..=3 * PLACES_MAX as u64 {
            places.ask(&ticket(position), true, NOW);
        }
        assert!(places.lock().places.len() <= PLACES_MAX);
    }
}
