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
    for Departed { key, at } in &room.departed {
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
