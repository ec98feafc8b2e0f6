//! How a place in line moves to another device: under a new ticket with the same position, whose `copy` is one higher. From then on
//! the older ticket is worth nothing.
//!
//! *Invariant:* a repeated move by the same mover is idempotent, on any node and after any restart. The first answer can be lost, and
//! then nobody would hold the newer ticket; so the room remembers who moved a place.
//!
//! A place that never moved costs nothing; the room remembers those that did until everything up to them is settled, also when their
//! holder gave them up: the older device is told the truth all the while. (A claim takes the copy over into the session.) A store
//! keeps them beside the bits of taken positions, a few together, so a commit carries those that it changes. There is a limit to how
//! many they are, because every node has them in memory; beyond it places stay where they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::effects::Effects;
use crate::ids::{COPY_MAX, Position, Ticket};
use crate::operation::{Answer, Refusal, key_of};
use crate::room::Room;
use crate::session::{Session, SessionKey};
use crate::taken_positions::moves_chunk_of;

/// How many places that have moved a room remembers at once.
pub const MOVED_MAX: usize = 65_536;

/// Who moves a place: the beginning of a digest of a secret that only the mover holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mover(pub u64);

impl Mover {
    /// A mover without such a secret: a repeated move is refused.
    pub const UNNAMED: Self = Self(0);

    /// The holder of the secret that this is a digest of.
    pub fn of_digest(digest: &[u8; 32]) -> Self {
        let (first, _) = digest.split_at(8);
        Self(first.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)).max(1))
    }
}

/// Where a place has moved to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MoveRecord {
    /// The newest copy of its ticket.
    pub copy: u8,
    /// Who has it.
    pub by: Mover,
}

/// The places that have moved and are not settled yet.
pub type MovedPlaces = Arc<BTreeMap<SessionKey, MoveRecord>>;

/// Whether a ticket is an older copy of a place that has moved.
pub(crate) fn is_moved(moved: &MovedPlaces, ticket: &Ticket) -> bool {
    moved.get(&key_of(ticket)).is_some_and(|newest| ticket.copy < newest.copy)
}

/// Whether the newest move of this place was made with this ticket by this mover.
pub(crate) fn is_moved_by(moved: &MovedPlaces, ticket: &Ticket, by: Mover) -> bool {
    let newest = moved.get(&key_of(ticket));
    by != Mover::UNNAMED && newest.is_some_and(|newest| newest.copy == ticket.copy + 1 && newest.by == by)
}

/// Refuses a ticket whose place has moved, before or after it was claimed.
pub(crate) fn refuse_older(room: &Room, ticket: &Ticket, session: Option<&Session>) -> Result<(), Refusal> {
    let is_older = session.is_some_and(|session| ticket.copy < session.copy);
    if is_older || is_moved(&room.moved, ticket) { Err(Refusal::Moved) } else { Ok(()) }
}

/// Part of every tick: what is settled need not be remembered. That need not be written, because every later reader of the room
/// computes the same.
pub(crate) fn tick(room: &mut Room) {
    while let Some((&key, _)) = room.moved.first_key_value() {
        let segment = room.segments.iter().find(|segment| segment.generation == key.generation);
        // A deferred place is open, although the floor may have passed it.
        let is_open = |floor| key.position.get() > floor || room.deferred.contains_key(&key);
        if segment.is_some_and(|segment| is_open(segment.floor)) {
            return;
        }
        Arc::make_mut(&mut room.moved).remove(&key);
    }
}

/// A place is claimed: from now on its session knows the copy.
pub(crate) fn forget_claimed(room: &mut Room, key: SessionKey, effects: &mut Effects) {
    if !room.moved.contains_key(&key) {
        return;
    }
    Arc::make_mut(&mut room.moved).remove(&key);
    let position = key.position.get();
    if room.segment_mut(key.generation).is_some_and(|segment| segment.taken.forget_move(position)) {
        effects.touched_chunks.insert((key.generation, moves_chunk_of(position)));
    }
}

/// Remembers a move, and has it written.
fn remember(room: &mut Room, key: SessionKey, moved: MoveRecord, effects: &mut Effects) {
    Arc::make_mut(&mut room.moved).insert(key, moved);
    let position = key.position.get();
    if let Some(segment) = room.segment_mut(key.generation) {
        segment.taken.note_move(position, moved.copy, moved.by.0);
        effects.touched_chunks.insert((key.generation, moves_chunk_of(position)));
    }
}

impl Room {
    /// Takes in the moves that a store has kept beside the bits of its lines; to be called when these have been read.
    pub fn restore_moves(&mut self) {
        let kept: Vec<(SessionKey, MoveRecord)> = self
            .segments
            .iter()
            .flat_map(|segment| {
                segment.taken.moves().filter_map(|(position, copy, by)| {
                    let key =
                        SessionKey { generation: segment.generation, position: Position::new(position)? };
                    let is_open = position > segment.floor || self.deferred.contains_key(&key);
                    is_open.then_some((key, MoveRecord { copy, by: Mover(by) }))
                })
            })
            .collect();
        if !kept.is_empty() {
            Arc::make_mut(&mut self.moved).extend(kept);
        }
    }

    /// The moves that are not kept there: those of a room that was written before they were.
    pub fn moves_beside_the_lines(&self) -> impl Iterator<Item = (&SessionKey, &MoveRecord)> {
        self.moved.iter().filter(move |(key, _)| {
            let segment = self.segments.iter().find(|segment| segment.generation == key.generation);
            segment.is_none_or(|segment| segment.taken.moved(key.position.get()).is_none())
        })
    }
}

/// A place that waits, or is offered, goes to another device. A repeated move by the same mover is idempotent.
pub(crate) fn move_place(
    room: &mut Room,
    ticket: &Ticket,
    by: Mover,
    session: Option<&Session>,
    effects: &mut Effects,
) -> Result<Answer, Refusal> {
    let is_repeated = is_moved_by(&room.moved, ticket, by);
    if !is_repeated {
        refuse_older(room, ticket, session)?;
    }
    let key = key_of(ticket);
    let segment = room.segments.iter().find(|segment| segment.generation == key.generation);
    let segment = segment.ok_or(Refusal::UnknownTicket)?;
    let position = key.position.get();
    if position <= segment.base || position > segment.joined {
        return Err(Refusal::UnknownTicket);
    }
    if session.is_some() || room.deferred.contains_key(&key) {
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
    if !is_repeated {
        remember(room, key, MoveRecord { copy: ticket.copy, by }, effects);
        effects.changed = true;
    }
    Ok(Answer::Moved { ticket, is_repeated })
}

/// Which of these moves a room has forgotten: of places that may still be claimed by an older copy.
pub fn forgotten(room: &Room, seen: &MovedPlaces) -> Vec<(SessionKey, MoveRecord)> {
    let is_open = |key: &SessionKey| {
        let segment = room.segments.iter().find(|segment| segment.generation == key.generation);
        let position = key.position.get();
        segment.is_some_and(|segment| {
            position > segment.floor && position <= segment.joined && !segment.taken.contains(position)
        })
    };
    let is_newer = |key: &SessionKey, moved: &MoveRecord| {
        moved.copy <= COPY_MAX && room.moved.get(key).is_none_or(|known| known.copy < moved.copy)
    };
    let entries = seen.iter().map(|(&key, &moved)| (key, moved));
    entries.filter(|(key, moved)| is_newer(key, moved) && is_open(key)).collect()
}

/// Adds the moves that a node remembers and the room has forgotten. The highest copy counts, because nobody has a ticket that was never
/// made.
pub(crate) fn recall(room: &mut Room, seen: &MovedPlaces, effects: &mut Effects) -> bool {
    let forgotten = forgotten(room, seen);
    let mut has_changed = false;
    for (key, newest) in forgotten {
        if room.moved.len() < MOVED_MAX || room.moved.contains_key(&key) {
            remember(room, key, newest, effects);
            has_changed = true;
        }
    }
    has_changed
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
            prefix: None,
        })
    }

    const PHONE: Mover = Mover(11);
    const TABLET: Mover = Mover(12);

    fn move_operation(ticket: Ticket) -> Operation {
        Operation::Move { ticket, by: PHONE }
    }

    fn move_ticket(room: &mut Room, ticket: Ticket) -> Ticket {
        match perform(room, &move_operation(ticket), None) {
            Ok(Answer::Moved { ticket, is_repeated: false }) => ticket,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn after_a_move_only_the_new_copy_counts() {
        let (mut room, old) = room_with_three();
        let new = move_ticket(&mut room, old);
        assert_eq!(new, Ticket { copy: 1, ..old });
        let board = Board::of(&room);
        assert!(board.is_moved(&old) && !board.is_moved(&new));
        let other = Ticket { position: Position::new(3).unwrap(), ..old };
        assert!(!board.is_moved(&other), "a neighbour's place has not moved");
        for operation in [
            claim(old),
            Operation::Leave { ticket: old },
            Operation::Inspect { ticket: old },
            Operation::Move { ticket: old, by: TABLET },
            Operation::Move { ticket: old, by: Mover::UNNAMED },
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
        let moved_inside = perform(&mut room, &move_operation(new), Some(session));
        assert_eq!(moved_inside, Err(Refusal::NotMovable), "who is inside holds no place any more");
    }

    #[test]
    fn a_place_moves_fifteen_times_and_no_more_than_so_many_places_are_remembered() {
        let (mut room, mut ticket) = room_with_three();
        for _ in 0..COPY_MAX {
            ticket = move_ticket(&mut room, ticket);
        }
        assert_eq!(perform(&mut room, &move_operation(ticket), None), Err(Refusal::NotMovable));
        perform(&mut room, &Operation::Join { count: MOVED_MAX as u64 + 100 }, None).unwrap();
        let at = |position| Ticket { position: Position::new(position).unwrap(), copy: 0, ..ticket };
        let generation = ticket.generation;
        let many = (3..=MOVED_MAX as u64 + 1).map(|position| {
            let key = SessionKey { generation, position: Position::new(position).unwrap() };
            (key, MoveRecord { copy: 1, by: PHONE })
        });
        let recall = Operation::Recall { lines: vec![], moved: Arc::new(many.collect()) };
        perform(&mut room, &recall, None).unwrap();
        assert_eq!(room.moved.len(), MOVED_MAX);
        let one_more = move_operation(at(MOVED_MAX as u64 + 50));
        assert_eq!(perform(&mut room, &one_more, None), Err(Refusal::NotMovable));
        room.assert_sound();
        move_ticket(&mut room, Ticket { copy: 1, ..at(3) });
    }

    #[test]
    fn a_move_is_written_with_its_own_commit_and_with_no_other() {
        let (mut room, ticket) = room_with_three();
        let moved = apply(room.clone(), NOW, &move_operation(ticket), Reads::default());
        let chunk = (ticket.generation, moves_chunk_of(2));
        assert_eq!(moved.effects.touched_chunks, [chunk].into());
        assert_eq!(
            moved.room.moves_beside_the_lines().count(),
            0,
            "nothing of it is in the room's own record"
        );
        room = moved.room;
        let Ok(Answer::Moved { ticket: new, .. }) = perform(&mut room, &move_operation(ticket), None) else {
            panic!("the same again")
        };
        let advanced = apply(room.clone(), NOW, &Operation::Advance { by: 3 }, Reads::default());
        assert!(advanced.effects.touched_chunks.is_empty());
        // What a store reads back is what was there.
        let mut read = advanced.room.clone();
        read.moved = MovedPlaces::default();
        read.restore_moves();
        assert_eq!(read, advanced.room);
        let claimed = apply(advanced.room, NOW, &claim(new), Reads::default());
        assert!(claimed.effects.touched_chunks.contains(&chunk));
        assert!(claimed.room.newest().taken.chunk(chunk.1).is_none(), "and the record goes with the claim");
    }

    #[test]
    fn what_is_settled_is_forgotten() {
        let (mut room, ticket) = room_with_three();
        let ticket = move_ticket(&mut room, ticket);
        perform(&mut room, &Operation::Advance { by: 3 }, None).unwrap();
        let first = Ticket { position: Position::new(1).unwrap(), copy: 0, ..ticket };
        perform(&mut room, &Operation::Leave { ticket: first }, None).unwrap();
        perform(&mut room, &Operation::Leave { ticket }, None).unwrap();
        let old = Ticket { copy: 0, ..ticket };
        assert_eq!(perform(&mut room, &Operation::Leave { ticket: old }, None), Err(Refusal::Moved));
        let last = Ticket { position: Position::new(3).unwrap(), copy: 0, ..ticket };
        move_ticket(&mut room, last);
        let lapsed = NOW.plus(3_600_000);
        let room = apply(room, lapsed, &Operation::Tick, Reads::default()).room;
        assert!(room.newest().floor >= 3 && room.moved.is_empty());
        let room = apply(room, lapsed, &Operation::Reset { incarnation: 9 }, Reads::default()).room;
        assert!(room.moved.is_empty());
    }

    #[test]
    fn a_repeated_move_is_idempotent_for_its_mover_alone() {
        let (mut room, old) = room_with_three();
        let new = move_ticket(&mut room, old);
        let known = room.clone();
        for _ in 0..3 {
            let again = perform(&mut room, &move_operation(old), None);
            assert_eq!(again, Ok(Answer::Moved { ticket: new, is_repeated: true }));
        }
        assert_eq!(room.moved, known.moved, "asking again moves nothing further");
        let applied = apply(room.clone(), NOW, &move_operation(old), Reads::default());
        assert!(!applied.effects.changed, "and there is nothing to write");
        // From there it moves on, and the holder in between has it no more.
        let Ok(Answer::Moved { ticket: newest, .. }) =
            perform(&mut room, &Operation::Move { ticket: new, by: TABLET }, None)
        else {
            panic!("it moves on")
        };
        assert_eq!(perform(&mut room, &move_operation(old), None), Err(Refusal::Moved));
        assert_eq!(perform(&mut room, &move_operation(new), None), Err(Refusal::Moved));
        // What is given up cannot be moved, however often that was asked for before.
        perform(&mut room, &Operation::Leave { ticket: newest }, None).unwrap();
        let again = perform(&mut room, &Operation::Move { ticket: new, by: TABLET }, None);
        assert_eq!(again, Err(Refusal::Gone));
    }

    #[test]
    fn an_unnamed_mover_is_answered_once() {
        let (mut room, old) = room_with_three();
        let unnamed = Operation::Move { ticket: old, by: Mover::UNNAMED };
        assert!(matches!(perform(&mut room, &unnamed, None), Ok(Answer::Moved { is_repeated: false, .. })));
        assert_eq!(perform(&mut room, &unnamed, None), Err(Refusal::Moved));
        assert_ne!(Mover::of_digest(&[0; 32]), Mover::UNNAMED);
        let mut digest = [0; 32];
        (digest[6], digest[7], digest[8]) = (1, 2, 3);
        assert_eq!(Mover::of_digest(&digest), Mover(0x102));
    }

    #[test]
    fn the_old_device_is_told_the_truth_also_when_the_new_one_has_left() {
        let (mut room, old) = room_with_three();
        let new = move_ticket(&mut room, old);
        perform(&mut room, &Operation::Leave { ticket: new }, None).unwrap();
        perform(&mut room, &Operation::Tick, None).unwrap();
        assert!(Board::of(&room).is_moved(&old), "the turn of this position has not come yet");
        assert_eq!(perform(&mut room, &Operation::Inspect { ticket: old }, None), Err(Refusal::Moved));
        assert_eq!(perform(&mut room, &Operation::Leave { ticket: new }, None), Err(Refusal::Gone));
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
