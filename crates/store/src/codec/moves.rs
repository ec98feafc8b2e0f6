//! Places that have moved to another device, and the codes by which passes were handed over, as bytes.

use std::sync::Arc;

use anteroom_core::ids::COPY_MAX;
use anteroom_core::moves::MOVED_MAX;
use anteroom_core::{MoveRecord, Mover, Position, Room, SessionKey};

use super::{Corrupt, Reader, Writer};

/// Moves are kept beside the bits of their lines, and not here; except those that were read from here.
pub(super) fn encode(writer: &mut Writer, room: &Room) {
    writer.number(room.moves_beside_the_lines().count() as u64);
    for (key, moved) in room.moves_beside_the_lines() {
        writer.generation(key.generation);
        writer.number(key.position.get());
        writer.byte(moved.copy);
        writer.number(moved.by.0);
    }
}

/// Rooms of an earlier format do not say who moved a place: nobody can ask for the answer to that again.
pub(super) fn decode(reader: &mut Reader<'_>, room: &mut Room, has_movers: bool) -> Result<(), Corrupt> {
    let length = reader.length()?;
    if length > MOVED_MAX {
        return Err(Corrupt("room"));
    }
    let moved = (0..length).map(|_| {
        let generation = reader.generation()?;
        let position = Position::new(reader.number()?).ok_or(Corrupt("room"))?;
        let copy = decode_copy(reader)?;
        let by = if has_movers { Mover(reader.number()?) } else { Mover::UNNAMED };
        Ok((SessionKey { generation, position }, MoveRecord { copy, by }))
    });
    room.moved = Arc::new(moved.collect::<Result<_, Corrupt>>()?);
    Ok(())
}

pub(super) fn decode_copy(reader: &mut Reader<'_>) -> Result<u8, Corrupt> {
    let copy = reader.byte()?;
    if copy <= COPY_MAX { Ok(copy) } else { Err(Corrupt("copy of a ticket")) }
}

#[cfg(test)]
mod tests {
    use anteroom_core::{
        Operation, Reads, RequestId, Session, SessionStatus, Settings, Ticket, UnixMillis, apply,
    };

    use super::*;
    use crate::codec::{decode_room, decode_session, encode_room, encode_session};

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
    /// Behind the moves stand two numbers of newer formats, the visits by prefix and the deferred places: none of either.
    const NEWER_BYTES: usize = 32 + 6;
    /// Behind the code of a session stand where its visitor comes from, and how many logins it has: none.
    const NEWER_SESSION_BYTES: usize = 3;

    fn room() -> Room {
        Room::open(Settings::default(), NOW, 3)
    }

    fn key(position: u64) -> SessionKey {
        SessionKey { generation: room().newest().generation, position: Position::new(position).unwrap() }
    }

    fn moved(copy: u8, by: u64) -> MoveRecord {
        MoveRecord { copy, by: Mover(by) }
    }

    fn session() -> Session {
        Session {
            key: key(2),
            request_id: RequestId([9; 16]),
            offered_at: NOW,
            issued_at_seconds: NOW.seconds(),
            expires_at_seconds: NOW.seconds() + 60,
            issuer: "https://a.example".into(),
            key_id: "key".into(),
            status: SessionStatus::Active,
            signatures: vec![],
            enter_by_seconds: None,
            stay: None,
            copy: 0,
            redeemed_at: UnixMillis(0),
            prefix: None,
            grants: vec![],
        }
    }

    #[test]
    fn places_that_moved_read_back_and_no_more_than_fit() {
        let mut room = room();
        room.moved =
            Arc::new((1..=3).map(|position| (key(position), moved(2, u64::MAX - position))).collect());
        let bytes = encode_room(&room);
        assert_eq!(decode_room(&bytes).unwrap(), room);
        for length in 0..bytes.len() {
            assert!(decode_room(&bytes[..length]).is_err(), "cut at {length}");
        }
        let mut damaged = bytes;
        // Behind the last entry is what the clock showed once, a count of offers, and where visits come from.
        let copy = damaged.len() - NEWER_BYTES - 9;
        damaged[copy] = COPY_MAX + 1;
        assert!(decode_room(&damaged).is_err(), "no ticket has that copy");
        room.moved =
            Arc::new((1..=MOVED_MAX as u64 + 1).map(|position| (key(position), moved(1, 5))).collect());
        assert!(decode_room(&encode_room(&room)).is_err());
    }

    /// 18 addresses could once use up all the moves that a room remembers, and each commit carried all of them.
    #[test]
    fn thousands_of_moves_leave_the_record_of_the_room_as_small_as_none() {
        const MOVES: u64 = 4_000;
        let mut room = apply(room(), NOW, &Operation::Join { count: MOVES }, Reads::default()).room;
        let size_without_moves = encode_room(&room).len();
        for position in 1..=MOVES {
            let ticket = Ticket {
                lane: 0,
                generation: key(position).generation,
                position: key(position).position,
                entered: 0,
                copy: 0,
            };
            let applied =
                apply(room, NOW, &Operation::Move { ticket, by: Mover(position) }, Reads::default());
            assert!(applied.answer.is_ok(), "{position}: {:?}", applied.answer);
            assert_eq!(
                applied.effects.touched_chunks.len(),
                1,
                "{position}: of the moves, only those beside it"
            );
            room = applied.room;
        }
        assert_eq!(room.moved.len() as u64, MOVES);
        assert_eq!(encode_room(&room).len(), size_without_moves);
    }

    #[test]
    fn what_was_written_before_places_moved_is_read_and_written_anew() {
        let mut older = encode_room(&room());
        older.truncate(older.len() - NEWER_BYTES - 8);
        older[0] = 4;
        let read = decode_room(&older).unwrap();
        assert_eq!(read, room());
        assert_eq!(encode_room(&read)[0], 8);
        let mut older = encode_session(&session());
        older.truncate(older.len() - NEWER_SESSION_BYTES - 9);
        older[0] = 3;
        let read = decode_session(&older).unwrap();
        assert_eq!(read, session());
        assert_eq!(encode_session(&read)[0], 6);
    }

    #[test]
    fn what_was_written_before_movers_were_known_is_read() {
        let mut room = room();
        room.moved = Arc::new((1..=3).map(|position| (key(position), moved(2, 77))).collect());
        let bytes = encode_room(&room);
        let (bytes, _) = bytes.split_at(bytes.len() - NEWER_BYTES);
        // An entry is a line, a position, a copy and the mover; the last eight bytes are new.
        let (head, entries) = bytes.split_at(bytes.len() - 3 * 26);
        let mut older = head.to_vec();
        older[0] = 5;
        for entry in entries.chunks_exact(26) {
            older.extend_from_slice(&entry[..18]);
        }
        let read = decode_room(&older).unwrap();
        let unnamed = MoveRecord { copy: 2, by: Mover::UNNAMED };
        assert_eq!(read.moved, Arc::new((1..=3).map(|position| (key(position), unnamed)).collect()));
        assert_eq!(encode_room(&read)[0], 8);
        for length in 0..older.len() {
            assert!(decode_room(&older[..length]).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn what_was_written_before_clocks_could_be_set_is_read() {
        let mut set = Room { clock_before_setting: NOW.plus(86_400_000), ..room() };
        set.pace.offers_before = 3;
        let bytes = encode_room(&set);
        assert_eq!(decode_room(&bytes).unwrap(), set);
        let mut older = bytes[..bytes.len() - NEWER_BYTES].to_vec();
        older[0] = 6;
        assert_eq!(decode_room(&older).unwrap(), room());
    }

    #[test]
    fn a_session_keeps_its_copy_and_its_newest_code() {
        let session = Session { copy: COPY_MAX, redeemed_at: NOW.plus(7), ..session() };
        let bytes = encode_session(&session);
        assert_eq!(decode_session(&bytes).unwrap(), session);
        for length in 0..bytes.len() {
            assert!(decode_session(&bytes[..length]).is_err(), "cut at {length}");
        }
    }
}
