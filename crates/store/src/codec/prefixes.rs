//! Where visits come from, and the places that wait because of it, as bytes.

use anteroom_core::prefixes::{DEFERRED_MAX, DeferredPlace, PrefixTag};
use anteroom_core::{Position, Room, SessionKey, UnixMillis};

use super::{Corrupt, Reader, Writer};

/// Written where there is no tag.
const NO_TAG: u16 = u16::MAX;

pub(super) fn encode_tag(writer: &mut Writer, tag: Option<PrefixTag>) {
    writer.0.extend_from_slice(&tag.map_or(NO_TAG, PrefixTag::get).to_le_bytes());
}

pub(super) fn decode_tag(reader: &mut Reader<'_>) -> Result<Option<PrefixTag>, Corrupt> {
    let number = u16::from_le_bytes([reader.byte()?, reader.byte()?]);
    if number == NO_TAG {
        return Ok(None);
    }
    PrefixTag::new(number).map(Some).ok_or(Corrupt("address prefix"))
}

/// A number in as few bytes as it takes, and how many these are: this is written with every commit.
fn encode_short(writer: &mut Writer, number: u64) {
    let bytes = number.to_le_bytes();
    let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    writer.byte(u8::try_from(length).unwrap_or_default());
    writer.0.extend_from_slice(&bytes[..length]);
}

fn decode_short(reader: &mut Reader<'_>) -> Result<u64, Corrupt> {
    let mut bytes = [0; 8];
    let length = usize::from(reader.byte()?);
    bytes.get_mut(..length).ok_or(Corrupt("room"))?.copy_from_slice(reader.take(length)?);
    Ok(u64::from_le_bytes(bytes))
}

/// Visits by prefix; then the deferred places of each line, each by its distance from the one before.
pub(super) fn encode(writer: &mut Writer, room: &Room) {
    writer.number(room.visits_by_prefix.len() as u64);
    for (tag, visits) in room.visits_by_prefix.iter() {
        encode_tag(writer, Some(*tag));
        encode_short(writer, *visits);
    }
    let places: Vec<_> = room.deferred.iter().collect();
    let lines: Vec<_> = places.chunk_by(|(one, _), (next, _)| one.generation == next.generation).collect();
    writer.number(lines.len() as u64);
    for line in lines {
        writer.generation(line[0].0.generation);
        writer.number(line.len() as u64);
        let mut before = 0;
        for (key, place) in line {
            encode_short(writer, key.position.get() - before);
            encode_tag(writer, Some(place.prefix));
            // No room was open at the beginning of time.
            encode_short(writer, place.offered_at.map_or(0, |at| at.0));
            before = key.position.get();
        }
    }
}

pub(super) fn decode(reader: &mut Reader<'_>, room: &mut Room) -> Result<(), Corrupt> {
    let corrupt = || Corrupt("room");
    for _ in 0..reader.length()? {
        let tag = decode_tag(reader)?.ok_or_else(corrupt)?;
        room.visits_by_prefix.insert(tag, decode_short(reader)?);
    }
    for _ in 0..reader.length()? {
        let generation = reader.generation()?;
        let mut before = 0_u64;
        for _ in 0..reader.length()? {
            let position = before.checked_add(decode_short(reader)?).ok_or_else(corrupt)?;
            let key = SessionKey { generation, position: Position::new(position).ok_or_else(corrupt)? };
            let prefix = decode_tag(reader)?.ok_or_else(corrupt)?;
            let offered_at = Some(decode_short(reader)?).filter(|at| *at != 0).map(UnixMillis);
            room.deferred.insert(key, DeferredPlace { prefix, offered_at });
            if room.deferred.len() > DEFERRED_MAX {
                return Err(corrupt());
            }
            before = position;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use anteroom_core::Settings;

    use super::*;
    use crate::codec::{decode_room, decode_session, encode_room, encode_session};

    /// Written by the last program that did not know where visits come from.
    const ROOM: &[u8] = include_bytes!("before_prefixes/room.bytes");
    const SESSION: &[u8] = include_bytes!("before_prefixes/session.bytes");

    #[test]
    fn what_was_written_before_prefixes_were_known_is_read_and_written_anew() {
        assert_eq!((ROOM[0], SESSION[0]), (6, 4));
        let room = decode_room(ROOM).unwrap();
        assert_eq!((room.visits_by_prefix.len(), room.deferred.len()), (0, 0));
        assert_eq!(room.settings.visits_per_prefix_share.get(), 25);
        let again = encode_room(&room);
        assert_eq!((again[0], decode_room(&again).unwrap()), (8, room));
        let session = decode_session(SESSION).unwrap();
        assert_eq!(session.prefix, None);
        let again = encode_session(&session);
        assert_eq!((again[0], decode_session(&again).unwrap()), (6, session));
    }

    #[test]
    fn prefixes_and_deferred_places_read_back_as_they_were_written_and_no_more_than_fit() {
        let mut room = Room::open(Settings::default(), UnixMillis(1_800_000_000_000), 3);
        let key = |position: u64| SessionKey {
            generation: Room::open(Settings::default(), UnixMillis(1_800_000_000_000), 3).newest().generation,
            position: Position::new(position).unwrap(),
        };
        for (tag, visits) in [(0, 1), (7, 300), (1_023, u64::MAX >> 8)] {
            room.visits_by_prefix.insert(PrefixTag::new(tag).unwrap(), visits);
        }
        let place = |offered_at| DeferredPlace { prefix: PrefixTag::new(7).unwrap(), offered_at };
        room.deferred.insert(key(1), place(None));
        room.deferred.insert(key(2), place(Some(UnixMillis(1_800_000_000_007))));
        room.deferred.insert(key(70_000), place(None));
        let mut older = key(9);
        older.generation.opened -= 1;
        room.deferred.insert(older, place(None));
        let bytes = encode_room(&room);
        assert_eq!(decode_room(&bytes).unwrap(), room);
        for length in 0..bytes.len() {
            assert!(decode_room(&bytes[..length]).is_err(), "cut at {length}");
        }
        for position in 1..=DEFERRED_MAX as u64 + 1 {
            room.deferred.insert(key(position), place(None));
        }
        assert!(decode_room(&encode_room(&room)).is_err());
        let mut session = decode_session(SESSION).unwrap();
        session.prefix = PrefixTag::new(1_023);
        let mut bytes = encode_session(&session);
        assert_eq!(decode_session(&bytes).unwrap(), session);
        let last = bytes.len() - 1;
        bytes[last] = 9;
        assert!(decode_session(&bytes).is_err(), "no such tag");
    }
}
