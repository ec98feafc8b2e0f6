//! How a place in line moves to another device: under a new ticket with the same position, whose `copy` is one higher. From then on
//! the older ticket is worth nothing.
//!
//! A place that never moved costs nothing; the room remembers those that did for as long as they wait (a claim takes the copy over into
//! the session). They travel with every commit, so there is a limit to how many they are; beyond it places stay where they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ids::{COPY_MAX, Ticket};
use crate::operation::{Answer, Refusal, key_of};
use crate::room::Room;
use crate::session::{Session, SessionKey};

/// How many places that have moved a room remembers at once.
pub const MOVED_MAX: usize = 1_024;

/// The newest copy of each place that has moved and still waits.
pub type MovedPlaces = Arc<BTreeMap<SessionKey, u8>>;

/// Whether a ticket is an older copy of a place that has moved.
pub(crate) fn is_moved(moved: &MovedPlaces, ticket: &Ticket) -> bool {
    moved.get(&key_of(ticket)).is_some_and(|&newest| ticket.copy < newest)
}

/// Refuses a ticket whose place has moved, before or after it was claimed.
pub(crate) fn refuse_older(room: &Room, ticket: &Ticket, session: Option<&Session>) -> Result<(), Refusal> {
    let is_older = session.is_some_and(|session| ticket.copy < session.copy);
    if is_older || is_moved(&room.moved, ticket) { Err(Refusal::Moved) } else { Ok(()) }
}

/// Part of every tick: what is settled need not be remembered. That need not be written, because whoever reads the room later
/// comes to the same.
pub(crate) fn tick(room: &mut Room) {
    while let Some((&key, _)) = room.moved.first_key_value() {
        let segment = room.segments.iter().find(|segment| segment.generation == key.generation);
        if segment.is_some_and(|segment| key.position.get() > segment.floor) {
            return;
        }
        Arc::make_mut(&mut room.moved).remove(&key);
    }
}

/// A place is claimed or given up: its session knows the copy, or nobody can use it any more.
pub(crate) fn settle(room: &mut Room, key: SessionKey) {
    if room.moved.contains_key(&key) {
        Arc::make_mut(&mut room.moved).remove(&key);
    }
}

/// A place that waits, or is offered, goes to another device.
pub(crate) fn change(room: &mut Room, ticket: &Ticket, session: Option<&Session>) -> Result<Answer, Refusal> {
    let key = key_of(ticket);
    let segment = room.segments.iter().find(|segment| segment.generation == key.generation);
    let segment = segment.ok_or(Refusal::UnknownTicket)?;
    let position = key.position.get();
    if position <= segment.base || position > segment.joined {
        return Err(Refusal::UnknownTicket);
    }
    if session.is_some() {
        return Err(Refusal::NotMovable);
    }
    if position <= segment.floor || segment.taken.contains(position) {
        return Err(Refusal::Gone);
    }
    let is_full = room.moved.len() >= MOVED_MAX && !room.moved.contains_key(&key);
    if ticket.copy >= COPY_MAX || is_full {
        return Err(Refusal::NotMovable);
    }
    let ticket = Ticket { copy: ticket.copy + 1, ..*ticket };
    Arc::make_mut(&mut room.moved).insert(key, ticket.copy);
    Ok(Answer::Moved { ticket })
}

#[cfg(test)]
mod tests {
    use crate::{
        Board, Claim, Operation, Position, Reads, RequestId, Settings, UnixMillis, apply, session::Outcome,
    };

    use super::*;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

    fn room_with_three() -> (Room, Ticket) {
        let room = Room::open(Settings::default(), NOW, 3);
        let room = apply(room, NOW, &Operation::Join { count: 3 }, Reads::default()).room;
        let generation = room.newest().generation;
        (room, Ticket { lane: 0, generation, position: Position::new(2).unwrap(), entered: 0, copy: 0 })
    }

    fn perform(room: &mut Room, operation: &Operation, session: Option<Session>) -> Result<Answer, Refusal> {
        let applied = apply(room.clone(), NOW, operation, Reads { session, ..Reads::default() });
        *room = applied.room;
        applied.answer
    }

    fn claim(ticket: Ticket) -> Operation {
        Operation::Claim(Claim {
            ticket,
            request_id: RequestId([7; 16]),
            issuer: "https://a.example".into(),
            validity_seconds: None,
            key_id: "key".into(),
            stay_millis: None,
        })
    }

    fn moved(room: &mut Room, ticket: Ticket) -> Ticket {
        match perform(room, &Operation::Move { ticket }, None) {
            Ok(Answer::Moved { ticket }) => ticket,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn after_a_move_only_the_new_copy_counts() {
        let (mut room, old) = room_with_three();
        let new = moved(&mut room, old);
        assert_eq!(new, Ticket { copy: 1, ..old });
        let board = Board::of(&room);
        assert!(board.is_moved(&old) && !board.is_moved(&new));
        let other = Ticket { position: Position::new(3).unwrap(), ..old };
        assert!(!board.is_moved(&other), "a neighbour's place has not moved");
        for operation in [
            claim(old),
            Operation::Leave { ticket: old },
            Operation::Inspect { ticket: old },
            Operation::Move { ticket: old },
        ] {
            assert_eq!(perform(&mut room, &operation, None), Err(Refusal::Moved), "{operation:?}");
        }
        assert_eq!(room.waiting(), 3, "nobody has left by it");
        perform(&mut room, &Operation::Advance { by: 2 }, None).unwrap();
        let Ok(Answer::Claimed { session, begun: true }) = perform(&mut room, &claim(new), None) else {
            panic!("the new copy is served");
        };
        assert_eq!((session.copy, room.moved.len()), (1, 0), "the session knows it from now on");
        assert_eq!(perform(&mut room, &claim(old), Some(session.clone())), Err(Refusal::Moved));
        let again = perform(&mut room, &claim(new), Some(session.clone()));
        assert_eq!(again, Ok(Answer::Claimed { session: session.clone(), begun: false }));
        let moved_inside = perform(&mut room, &Operation::Move { ticket: new }, Some(session));
        assert_eq!(moved_inside, Err(Refusal::NotMovable), "who is inside holds no place any more");
    }

    #[test]
    fn a_place_moves_fifteen_times_and_no_more_than_so_many_places_are_remembered() {
        let (mut room, mut ticket) = room_with_three();
        for _ in 0..COPY_MAX {
            ticket = moved(&mut room, ticket);
        }
        assert_eq!(perform(&mut room, &Operation::Move { ticket }, None), Err(Refusal::NotMovable));
        perform(&mut room, &Operation::Join { count: 5_000 }, None).unwrap();
        let at = |position| Ticket { position: Position::new(position).unwrap(), copy: 0, ..ticket };
        for position in 3..=MOVED_MAX as u64 + 1 {
            moved(&mut room, at(position));
        }
        let one_more = Operation::Move { ticket: at(4_999) };
        assert_eq!(perform(&mut room, &one_more, None), Err(Refusal::NotMovable));
        room.assert_sound();
        moved(&mut room, Ticket { copy: 1, ..at(3) });
    }

    #[test]
    fn what_is_settled_is_forgotten() {
        let (mut room, ticket) = room_with_three();
        let ticket = moved(&mut room, ticket);
        perform(&mut room, &Operation::Advance { by: 3 }, None).unwrap();
        let first = Ticket { position: Position::new(1).unwrap(), copy: 0, ..ticket };
        perform(&mut room, &Operation::Leave { ticket: first }, None).unwrap();
        perform(&mut room, &Operation::Leave { ticket }, None).unwrap();
        assert!(room.moved.is_empty(), "whoever left has no place that could have moved");
        let old = Ticket { copy: 0, ..ticket };
        assert_eq!(perform(&mut room, &Operation::Leave { ticket: old }, None), Err(Refusal::Gone));
        let last = Ticket { position: Position::new(3).unwrap(), copy: 0, ..ticket };
        moved(&mut room, last);
        let lapsed = NOW.plus(3_600_000);
        let room = apply(room, lapsed, &Operation::Tick, Reads::default()).room;
        assert!(room.newest().floor >= 3 && room.moved.is_empty());
        let room = apply(room, lapsed, &Operation::Reset { incarnation: 9 }, Reads::default()).room;
        assert!(room.moved.is_empty());
    }

    #[test]
    fn a_code_is_redeemed_once_and_none_that_is_older() {
        let (mut room, ticket) = room_with_three();
        perform(&mut room, &Operation::Advance { by: 3 }, None).unwrap();
        let Ok(Answer::Claimed { session, .. }) = perform(&mut room, &claim(ticket), None) else {
            panic!("served")
        };
        let redeem = |millis| Operation::Redeem { key: session.key, issued_at: UnixMillis(millis) };
        let Ok(Answer::Session(redeemed)) = perform(&mut room, &redeem(NOW.0 + 5), Some(session.clone()))
        else {
            panic!("the first time")
        };
        for (millis, fits) in [(NOW.0 + 5, false), (NOW.0 + 4, false), (NOW.0 + 6, true)] {
            let answer = perform(&mut room, &redeem(millis), Some(redeemed.clone()));
            assert_eq!(answer.is_ok(), fits, "{millis}: {answer:?}");
        }
        let Ok(Answer::Session(ended)) = perform(
            &mut room,
            &Operation::Close { key: session.key, outcome: Outcome::Completed },
            Some(session.clone()),
        ) else {
            panic!("it is inside")
        };
        assert_eq!(perform(&mut room, &redeem(NOW.0 + 9), Some(ended)), Err(Refusal::AlreadyEnded));
        assert_eq!(perform(&mut room, &redeem(NOW.0 + 9), None), Err(Refusal::UnknownSession));
    }
}
