//! Events of the outbox, and what was last announced of a room, as bytes.

use anteroom_core::events::{Announced, Condition, EndCause, RoomFigures};
use anteroom_core::{
    Event, EventKind, Outcome, Position, RequestId, RoomId, RoomState, SessionKey, Standstill, UnixMillis,
};

use super::{Corrupt, Reader, Writer, decode_request_id};
use crate::contract::{EventId, StoredEvent};

/// Events got an id, may be of no room, and there are more kinds. Those of the first format are still read.
const EVENT_FORMAT: u8 = 2;
const WHAT: &str = "event";
const CORRUPT: Corrupt = Corrupt(WHAT);

/// A number in as few bytes as it takes: seven bits each, the lowest first.
fn write_short(writer: &mut Writer, mut number: u64) {
    while number >= 0x80 {
        writer.byte(u8::try_from(number & 0x7f).unwrap_or_default() | 0x80);
        number >>= 7;
    }
    writer.byte(u8::try_from(number).unwrap_or_default());
}

fn read_short(reader: &mut Reader<'_>) -> Result<u64, Corrupt> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = reader.byte()?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return Err(CORRUPT);
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(CORRUPT)
}

fn write_text(writer: &mut Writer, text: &str) {
    write_short(writer, text.len() as u64);
    writer.0.extend_from_slice(text.as_bytes());
}

fn read_str<'a>(reader: &mut Reader<'a>) -> Result<&'a str, Corrupt> {
    let length = usize::try_from(read_short(reader)?).map_err(|_| CORRUPT)?;
    std::str::from_utf8(reader.take(length)?).map_err(|_| CORRUPT)
}

fn read_text(reader: &mut Reader<'_>) -> Result<String, Corrupt> {
    read_str(reader).map(str::to_owned)
}

fn write_optional(writer: &mut Writer, text: Option<&str>) {
    writer.byte(u8::from(text.is_some()));
    if let Some(text) = text {
        write_text(writer, text);
    }
}

fn read_optional(reader: &mut Reader<'_>) -> Result<Option<String>, Corrupt> {
    Ok(if reader.byte()? == 1 { Some(read_text(reader)?) } else { None })
}

fn write_visit(writer: &mut Writer, visit: SessionKey) {
    writer.generation(visit.generation);
    write_short(writer, visit.position.get());
}

fn read_visit(reader: &mut Reader<'_>) -> Result<SessionKey, Corrupt> {
    let generation = reader.generation()?;
    Ok(SessionKey { generation, position: Position::new(read_short(reader)?).ok_or(CORRUPT)? })
}

fn read_request_id(reader: &mut Reader<'_>) -> Result<RequestId, Corrupt> {
    Ok(RequestId(reader.take(16)?.try_into().map_err(|_| CORRUPT)?))
}

fn write_standstill(writer: &mut Writer, reason: Standstill) {
    write_text(writer, reason.as_str());
}

fn read_standstill(reader: &mut Reader<'_>) -> Result<Standstill, Corrupt> {
    let text = read_str(reader)?;
    Standstill::ALL.into_iter().find(|reason| reason.as_str() == text).ok_or(CORRUPT)
}

fn write_node(writer: &mut Writer, node: u128) {
    writer.0.extend_from_slice(&node.to_le_bytes());
}

fn read_node(reader: &mut Reader<'_>) -> Result<u128, Corrupt> {
    Ok(u128::from_le_bytes(reader.take(16)?.try_into().map_err(|_| CORRUPT)?))
}

/// An event of the outbox. Its kind is written by its name, so that kinds may be sorted anew.
pub(crate) fn encode_event(stored: &StoredEvent) -> Vec<u8> {
    let mut writer = Writer(Vec::with_capacity(96));
    writer.byte(EVENT_FORMAT);
    write_node(&mut writer, stored.id.node);
    write_short(&mut writer, stored.id.version);
    write_short(&mut writer, stored.id.number);
    write_short(&mut writer, u64::from(stored.id.index));
    write_short(&mut writer, stored.at.0);
    // No room has the empty name.
    write_text(&mut writer, stored.room.as_ref().map_or("", RoomId::as_str));
    write_text(&mut writer, stored.event.kind().as_str());
    encode_content(&mut writer, &stored.event);
    writer.0
}

fn encode_content(writer: &mut Writer, event: &Event) {
    match event {
        Event::TokenGenerated { request_id, visit } => {
            writer.0.extend_from_slice(&request_id.0);
            write_visit(writer, *visit);
        }
        Event::SessionUpdated { request_id, visit, outcome } => {
            writer.0.extend_from_slice(&request_id.0);
            write_visit(writer, *visit);
            writer.byte(u8::from(*outcome == Outcome::Completed));
        }
        Event::AutomaticServingCounterIncrease { previous, current } => {
            write_short(writer, *previous);
            write_short(writer, *current);
        }
        Event::WaitingRoomMetrics(figures) => {
            for number in numbers_of(figures) {
                write_short(writer, number);
            }
        }
        Event::RoomCreated => {}
        Event::StateChanged { by, .. } => write_optional(writer, by.as_deref()),
        Event::RoomReset { before, generation, waiting, active, by } => {
            writer.generation(*before);
            writer.generation(*generation);
            write_short(writer, *waiting);
            write_short(writer, *active);
            write_optional(writer, by.as_deref());
        }
        Event::RoomDeleted { by } => write_text(writer, by),
        Event::SettingsChanged { names, by } => {
            write_short(writer, names.len() as u64);
            for name in names {
                write_text(writer, name);
            }
            write_optional(writer, by.as_deref());
        }
        Event::InletHeld { reason } | Event::InletReleased { reason } => write_standstill(writer, *reason),
        Event::CapacityReached { capacity, held, waiting } => {
            for number in [capacity, held, waiting] {
                write_short(writer, *number);
            }
        }
        Event::CapacityFree { capacity, held } => {
            write_short(writer, *capacity);
            write_short(writer, *held);
        }
        Event::LineEmpty { joined } => write_short(writer, *joined),
        Event::LineMended { generation, sessions_lost } => {
            writer.generation(*generation);
            writer.byte(u8::from(*sessions_lost));
        }
        Event::OffersLapsed { generation, up_to, count } => {
            writer.generation(*generation);
            write_short(writer, *up_to);
            write_short(writer, *count);
        }
        Event::SessionBegun { visit } => write_visit(writer, *visit),
        Event::SessionEnded { visit, cause } => {
            write_visit(writer, *visit);
            write_text(writer, cause.as_str());
        }
        Event::AlarmChanged { name, summary, .. } => {
            write_text(writer, name);
            write_text(writer, summary);
        }
        Event::KeyChanged { name, role, by, .. } => {
            for text in [name, role, by] {
                write_text(writer, text);
            }
        }
        Event::StoreLost { node } => write_node(writer, *node),
        Event::StoreRecovered { node, lost_at } => {
            write_node(writer, *node);
            write_short(writer, lost_at.0);
        }
        Event::DestinationLagging { name, behind } => {
            write_text(writer, name);
            write_short(writer, *behind);
        }
        Event::DestinationDisabled { name, reason } => {
            write_text(writer, name);
            write_text(writer, reason);
        }
        Event::DestinationTest { name } => write_text(writer, name),
    }
}

const fn numbers_of(figures: &RoomFigures) -> [u64; 6] {
    let RoomFigures {
        num_active_tokens,
        total_num_tokens,
        queue_counter,
        serving_number,
        completed_sessions,
        abandoned_sessions,
    } = *figures;
    [
        num_active_tokens,
        total_num_tokens,
        queue_counter,
        serving_number,
        completed_sessions,
        abandoned_sessions,
    ]
}

/// The event that [`encode_event`] wrote, or an older program: what that wrote has no id of its own and names no visit.
pub(crate) fn decode_event(outbox_number: u64, bytes: &[u8]) -> Result<StoredEvent, Corrupt> {
    let mut reader = Reader::bare(bytes, WHAT);
    if reader.byte()? != EVENT_FORMAT {
        return decode_first_format(outbox_number, bytes);
    }
    let node = read_node(&mut reader)?;
    let version = read_short(&mut reader)?;
    let number = read_short(&mut reader)?;
    let index = u32::try_from(read_short(&mut reader)?).map_err(|_| CORRUPT)?;
    let at = UnixMillis(read_short(&mut reader)?);
    let room = match read_str(&mut reader)? {
        "" => None,
        name => Some(RoomId::parse(name).map_err(|_| CORRUPT)?),
    };
    let kind = EventKind::parse(read_str(&mut reader)?).ok_or(CORRUPT)?;
    let event = decode_content(&mut reader, kind)?;
    reader.end()?;
    Ok(StoredEvent { id: EventId { node, version, number, index }, at, room, event })
}

fn decode_content(reader: &mut Reader<'_>, kind: EventKind) -> Result<Event, Corrupt> {
    let state = |state, by| Event::StateChanged { state, by };
    Ok(match kind {
        EventKind::TokenGenerated => {
            Event::TokenGenerated { request_id: read_request_id(reader)?, visit: read_visit(reader)? }
        }
        EventKind::SessionUpdated => Event::SessionUpdated {
            request_id: read_request_id(reader)?,
            visit: read_visit(reader)?,
            outcome: if reader.byte()? == 1 { Outcome::Completed } else { Outcome::Abandoned },
        },
        EventKind::AutomaticServingCounterIncrease => Event::AutomaticServingCounterIncrease {
            previous: read_short(reader)?,
            current: read_short(reader)?,
        },
        EventKind::WaitingRoomMetrics => Event::WaitingRoomMetrics(RoomFigures {
            num_active_tokens: read_short(reader)?,
            total_num_tokens: read_short(reader)?,
            queue_counter: read_short(reader)?,
            serving_number: read_short(reader)?,
            completed_sessions: read_short(reader)?,
            abandoned_sessions: read_short(reader)?,
        }),
        EventKind::RoomCreated => Event::RoomCreated,
        EventKind::RoomOpened => state(RoomState::Open, read_optional(reader)?),
        EventKind::RoomPaused => state(RoomState::Paused, read_optional(reader)?),
        EventKind::RoomDraining => state(RoomState::Draining, read_optional(reader)?),
        EventKind::RoomClosed => state(RoomState::Closed, read_optional(reader)?),
        EventKind::RoomReset => Event::RoomReset {
            before: reader.generation()?,
            generation: reader.generation()?,
            waiting: read_short(reader)?,
            active: read_short(reader)?,
            by: read_optional(reader)?,
        },
        EventKind::RoomDeleted => Event::RoomDeleted { by: read_text(reader)? },
        EventKind::RoomSettingsChanged => {
            let count = read_short(reader)?;
            let mut names = vec![];
            for _ in 0..count {
                names.push(read_text(reader)?);
            }
            Event::SettingsChanged { names, by: read_optional(reader)? }
        }
        EventKind::InletHeld => Event::InletHeld { reason: read_standstill(reader)? },
        EventKind::InletReleased => Event::InletReleased { reason: read_standstill(reader)? },
        EventKind::CapacityReached => Event::CapacityReached {
            capacity: read_short(reader)?,
            held: read_short(reader)?,
            waiting: read_short(reader)?,
        },
        EventKind::CapacityFree => {
            Event::CapacityFree { capacity: read_short(reader)?, held: read_short(reader)? }
        }
        EventKind::LineEmpty => Event::LineEmpty { joined: read_short(reader)? },
        EventKind::LineMended => {
            Event::LineMended { generation: reader.generation()?, sessions_lost: reader.byte()? == 1 }
        }
        EventKind::OffersLapsed => Event::OffersLapsed {
            generation: reader.generation()?,
            up_to: read_short(reader)?,
            count: read_short(reader)?,
        },
        EventKind::SessionBegun => Event::SessionBegun { visit: read_visit(reader)? },
        EventKind::SessionEnded => {
            Event::SessionEnded { visit: read_visit(reader)?, cause: read_cause(reader)? }
        }
        EventKind::AlarmFired | EventKind::AlarmResolved => Event::AlarmChanged {
            name: read_text(reader)?,
            summary: read_text(reader)?,
            fires: kind == EventKind::AlarmFired,
        },
        EventKind::KeyCreated | EventKind::KeyRevoked => Event::KeyChanged {
            name: read_text(reader)?,
            role: read_text(reader)?,
            by: read_text(reader)?,
            revoked: kind == EventKind::KeyRevoked,
        },
        EventKind::StoreLost => Event::StoreLost { node: read_node(reader)? },
        EventKind::StoreRecovered => {
            Event::StoreRecovered { node: read_node(reader)?, lost_at: UnixMillis(read_short(reader)?) }
        }
        EventKind::DestinationLagging => {
            Event::DestinationLagging { name: read_text(reader)?, behind: read_short(reader)? }
        }
        EventKind::DestinationDisabled => {
            Event::DestinationDisabled { name: read_text(reader)?, reason: read_text(reader)? }
        }
        EventKind::DestinationTest => Event::DestinationTest { name: read_text(reader)? },
    })
}

fn read_cause(reader: &mut Reader<'_>) -> Result<EndCause, Corrupt> {
    let causes =
        [EndCause::Expired, EndCause::Ended(Outcome::Completed), EndCause::Ended(Outcome::Abandoned)];
    let text = read_str(reader)?;
    causes.into_iter().find(|cause| cause.as_str() == text).ok_or(CORRUPT)
}

/// What stands in place of a visit in events of the first format, which named none.
fn unknown_visit() -> SessionKey {
    let generation = anteroom_core::Generation { opened: 0, incarnation: 0 };
    SessionKey { generation, position: Position::new(1).expect("positions begin at 1") }
}

fn decode_first_format(outbox_number: u64, bytes: &[u8]) -> Result<StoredEvent, Corrupt> {
    let mut reader = Reader::new(bytes, WHAT)?;
    let at = UnixMillis(reader.number()?);
    let room = Some(reader.room_id()?);
    let visit = unknown_visit();
    let event = match reader.byte()? {
        0 => Event::TokenGenerated { request_id: decode_request_id(&mut reader)?, visit },
        kind @ (1 | 2) => Event::SessionUpdated {
            request_id: decode_request_id(&mut reader)?,
            visit,
            outcome: if kind == 1 { Outcome::Completed } else { Outcome::Abandoned },
        },
        3 => Event::AutomaticServingCounterIncrease { previous: reader.number()?, current: reader.number()? },
        _ => return Err(CORRUPT),
    };
    reader.end()?;
    Ok(StoredEvent { id: EventId { number: outbox_number, ..EventId::default() }, at, room, event })
}

pub(super) fn encode_announced(writer: &mut Writer, announced: &Announced) {
    write_optional(writer, announced.held_by.map(Standstill::as_str));
    for condition in [announced.at_capacity, announced.has_line] {
        writer.byte(u8::from(condition.holds));
        write_short(writer, condition.since.0);
    }
    write_short(writer, announced.metrics_due.0);
}

pub(super) fn decode_announced(reader: &mut Reader<'_>) -> Result<Announced, Corrupt> {
    let held_by = if reader.byte()? == 1 { Some(read_standstill(reader)?) } else { None };
    let mut conditions = [Condition::default(); 2];
    for condition in &mut conditions {
        *condition = Condition { holds: reader.byte()? == 1, since: UnixMillis(read_short(reader)?) };
    }
    let [at_capacity, has_line] = conditions;
    Ok(Announced { held_by, at_capacity, has_line, metrics_due: UnixMillis(read_short(reader)?) })
}

#[cfg(test)]
mod tests;
