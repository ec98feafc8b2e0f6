//! How long a visitor stays whom a cookie lets in, and the visits that were ended a moment ago, as bytes.

use anteroom_core::session::DEPARTED_MAX;
use anteroom_core::{Departed, Outcome, Position, Room, SessionKey, Stay, UnixMillis};

use super::{Corrupt, Reader, Writer};

/// The number of an end by name; 0 is none.
pub(super) const fn number_of(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Completed => 1,
        Outcome::Abandoned => 2,
    }
}

pub(super) const fn outcome_of(number: u8) -> Option<Outcome> {
    match number {
        1 => Some(Outcome::Completed),
        2 => Some(Outcome::Abandoned),
        _ => None,
    }
}

pub(super) fn encode(writer: &mut Writer, stay: Option<Stay>) {
    writer.byte(u8::from(stay.is_some()));
    if let Some(Stay { until, ending }) = stay {
        writer.number(until.0);
        writer.byte(ending.map_or(0, number_of));
    }
}

pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Option<Stay>, Corrupt> {
    match reader.byte()? {
        0 => Ok(None),
        1 => {
            let until = UnixMillis(reader.number()?);
            let ending = match reader.byte()? {
                0 => None,
                number => Some(outcome_of(number).ok_or(Corrupt("session"))?),
            };
            Ok(Some(Stay { until, ending }))
        }
        _ => Err(Corrupt("session")),
    }
}

pub(super) fn encode_departed(writer: &mut Writer, room: &Room) {
    writer.number(room.departed.len() as u64);
    for Departed { key, at } in room.departed.iter() {
        writer.generation(key.generation);
        writer.number(key.position.get());
        writer.number(at.0);
    }
}

pub(super) fn decode_departed(reader: &mut Reader<'_>, room: &mut Room) -> Result<(), Corrupt> {
    let length = reader.length()?;
    if length > DEPARTED_MAX {
        return Err(Corrupt("room"));
    }
    for _ in 0..length {
        let generation = reader.generation()?;
        let position = Position::new(reader.number()?).ok_or(Corrupt("room"))?;
        let at = UnixMillis(reader.number()?);
        room.departed.push_back(Departed { key: SessionKey { generation, position }, at });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use anteroom_core::session::DEPARTED_MAX;
    use anteroom_core::{RoomState, Session, SessionStatus, Settings};

    use super::*;
    use crate::codec::{decode_room, decode_session, encode_room, encode_session};

    /// Written by the last program that knew no stays.
    const ROOM: &[u8] = include_bytes!("before_stays/room.bytes");
    const SESSION: &[u8] = include_bytes!("before_stays/session.bytes");

    fn key(position: u64) -> SessionKey {
        let room = Room::open(Settings::default(), UnixMillis(1_800_000_000_000), 3);
        SessionKey { generation: room.newest().generation, position: Position::new(position).unwrap() }
    }

    #[test]
    fn a_room_from_before_there_were_stays_is_read_and_written_anew() {
        assert_eq!(ROOM[0], 3);
        let room = decode_room(ROOM).unwrap();
        assert_eq!((room.state, room.newest().joined, room.segments.len()), (RoomState::Paused, 5, 2));
        assert_eq!((room.departed.len(), room.settings.session_duration.get()), (0, 300));
        assert_eq!(crate::backup::unsound(&room), None);
        let again = encode_room(&room);
        assert_eq!((again[0], decode_room(&again).unwrap()), (8, room));
        for length in 0..ROOM.len() {
            assert!(decode_room(&ROOM[..length]).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn a_session_from_before_there_were_stays_is_read_and_written_anew() {
        assert_eq!(SESSION[0], 2);
        let session = decode_session(SESSION).unwrap();
        assert_eq!((session.stay, session.enter_by_seconds), (None, Some(1_800_000_031)));
        assert_eq!(session.status, SessionStatus::Ended(Outcome::Abandoned));
        assert_eq!((session.ends_at().seconds(), session.key), (1_800_003_601, key(2)));
        let again = encode_session(&session);
        assert_eq!((again[0], decode_session(&again).unwrap()), (6, session));
        for length in 0..SESSION.len() {
            assert!(decode_session(&SESSION[..length]).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn a_stay_reads_back_as_it_was_written() {
        let plain = decode_session(SESSION).unwrap();
        let until = UnixMillis(1_800_000_300_123);
        for ending in [None, Some(Outcome::Completed), Some(Outcome::Abandoned)] {
            let stay = Some(Stay { until, ending });
            let session = Session { stay, status: SessionStatus::Active, ..plain.clone() };
            let bytes = encode_session(&session);
            assert_eq!(decode_session(&bytes).unwrap(), session);
            for length in 0..bytes.len() {
                assert!(decode_session(&bytes[..length]).is_err(), "cut at {length}");
            }
            let mut damaged = bytes;
            // Behind it stand the copy, the moment of a code, the prefix and the number of logins.
            let ending = damaged.len() - 13;
            damaged[ending] = 9;
            assert!(decode_session(&damaged).is_err(), "no such outcome");
        }
    }

    #[test]
    fn a_room_keeps_the_ended_visits_that_it_shows_and_no_more_than_fit() {
        let mut room = decode_room(ROOM).unwrap();
        *room.departed = (1..=3).map(|position| Departed { key: key(position), at: room.clock }).collect();
        let bytes = encode_room(&room);
        assert_eq!(decode_room(&bytes).unwrap(), room);
        for length in 0..bytes.len() {
            assert!(decode_room(&bytes[..length]).is_err(), "cut at {length}");
        }
        let shown = Departed { key: key(1), at: room.clock };
        *room.departed = std::iter::repeat_n(shown, DEPARTED_MAX).collect();
        assert_eq!(decode_room(&encode_room(&room)).unwrap(), room);
        room.departed.push_back(shown);
        assert!(decode_room(&encode_room(&room)).is_err());
    }
}
