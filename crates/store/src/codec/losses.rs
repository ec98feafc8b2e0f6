//! What a room must make up for after its store has lost something, and a round's check-ins, as bytes.

use anteroom_core::auction::CollectedAttendance;
use anteroom_core::{Losses, Position, Room, SessionKey, UnixMillis};

use super::{Corrupt, Reader, Writer};

pub(super) fn encode(writer: &mut Writer, room: &Room) {
    let Losses { phantoms, phantoms_end_at, honours_after, offers_recalled, learning_until } = &room.losses;
    writer.number(*phantoms);
    writer.number(*offers_recalled);
    writer.number(phantoms_end_at.0);
    writer.number(learning_until.0);
    writer.byte(u8::from(honours_after.is_some()));
    if let Some(after) = honours_after {
        writer.generation(*after);
    }
    for segment in &room.segments {
        writer.number(segment.recalled);
    }
    let collected = room.auction.as_ref().and_then(|auction| auction.collected.as_ref());
    writer.byte(u8::from(collected.is_some()));
    if let Some(CollectedAttendance { present, turned_away }) = collected {
        writer.byte(u8::from(*turned_away));
        writer.number(present.len() as u64);
        for key in present {
            writer.generation(key.generation);
            writer.number(key.position.get());
        }
    }
}

pub(super) fn decode(reader: &mut Reader<'_>, room: &mut Room) -> Result<(), Corrupt> {
    room.losses.phantoms = reader.number()?;
    room.losses.offers_recalled = reader.number()?;
    room.losses.phantoms_end_at = UnixMillis(reader.number()?);
    room.losses.learning_until = UnixMillis(reader.number()?);
    room.losses.honours_after = if reader.byte()? == 1 { Some(reader.generation()?) } else { None };
    for segment in &mut room.segments {
        segment.recalled = reader.number()?;
    }
    if reader.byte()? == 1 {
        let turned_away = reader.byte()? == 1;
        let present = (0..reader.length()?)
            .map(|_| {
                let generation = reader.generation()?;
                let position = Position::new(reader.number()?).ok_or(Corrupt("room"))?;
                Ok(SessionKey { generation, position })
            })
            .collect::<Result<_, Corrupt>>()?;
        let auction = room.auction.as_mut().ok_or(Corrupt("room"))?;
        auction.collected = Some(CollectedAttendance { present, turned_away });
    }
    Ok(())
}
