//! How rooms, sessions, events and audit records are written as bytes: little-endian, fixed order, a version first.
//!
//! Settings are written as pairs of name and value, so that one added later reads as its default from older bytes.

use std::collections::VecDeque;

use anteroom_core::estimate::{Pace, Sample};
use anteroom_core::settings::FIELDS;
use anteroom_core::taken_positions::Chunk;
use anteroom_core::{
    Counts, Generation, Position, RequestId, Room, RoomId, RoomState, Segment, Session, SessionKey,
    SessionStatus, Settings, Step, Ticket, UnixMillis, Value,
};

pub(crate) use events::{decode_event, encode_event};

use crate::contract::AuditRecord;

mod clockwork;
mod events;
mod grants;
mod losses;
mod moves;
mod prefixes;
mod stays;

const FORMAT: u8 = 1;
/// Rooms got a clockwork: inlets, reports, auctions, alarms. Those of the first format are still read.
const ROOM_FORMAT_WITH_CLOCKWORK: u8 = 2;
/// And they make up for what a store has lost. Those without are still read.
const ROOM_FORMAT_WITH_LOSSES: u8 = 3;
/// And they show visits that were ended a moment ago. Those without are still read.
const ROOM_FORMAT_WITH_DEPARTED: u8 = 4;
/// And they know which places have moved to another device. Those without are still read.
const ROOM_FORMAT_WITH_MOVES: u8 = 5;
/// And who moved them. Those without are still read.
const ROOM_FORMAT_WITH_MOVERS: u8 = 6;
/// And where visits come from, what their clock showed before it was set right, and how many offers are older than those that
/// their speed is computed from. Those without are still read.
const ROOM_FORMAT_WITH_PREFIXES: u8 = 7;
/// And what was last announced of them. Those without are still read.
const ROOM_FORMAT: u8 = 8;
/// Sessions may have a time until which their pass must be used. Those of the first format are still read.
const SESSION_FORMAT_WITH_ENTER_BY: u8 = 2;
/// And a stay, where a cookie goes with them. Those without are still read.
const SESSION_FORMAT_WITH_STAY: u8 = 3;
/// And the copy of the ticket, and the newest code that was redeemed. Those without are still read.
const SESSION_FORMAT_WITH_COPY: u8 = 4;
/// And where the visitor comes from. Those without are still read.
const SESSION_FORMAT_WITH_PREFIX: u8 = 5;
/// And where the visitor has logged in with the visit. Those without are still read.
const SESSION_FORMAT: u8 = 6;
/// Audit records got a detail, and may be of no room. Those of the first format are still read.
const AUDIT_FORMAT: u8 = 2;

/// The bytes are not what this version of the program writes.
#[derive(Debug, Clone, thiserror::Error)]
#[error("stored {0} cannot be read")]
pub struct Corrupt(pub(crate) &'static str);

#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    fn new() -> Self {
        Self(vec![FORMAT])
    }
    fn byte(&mut self, value: u8) {
        self.0.push(value);
    }
    pub(crate) fn number(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.number(value.len() as u64);
        self.0.extend_from_slice(value);
    }
    pub(crate) fn generation(&mut self, generation: Generation) {
        self.number(u64::from(generation.opened));
        self.byte(generation.incarnation);
    }
}

pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], what: &'static str) -> Result<Self, Corrupt> {
        let mut reader = Self { rest: bytes, what };
        if reader.byte()? == FORMAT { Ok(reader) } else { Err(Corrupt(what)) }
    }
    /// Of bytes of any version up to `newest`, and which it is.
    fn versioned(bytes: &'a [u8], what: &'static str, newest: u8) -> Result<(Self, u8), Corrupt> {
        let mut reader = Self { rest: bytes, what };
        let format = reader.byte()?;
        if (1..=newest).contains(&format) { Ok((reader, format)) } else { Err(Corrupt(what)) }
    }
    /// Of bytes without a version of their own.
    pub(crate) fn bare(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }
    /// Checks that everything was read.
    pub(crate) fn end(self) -> Result<(), Corrupt> {
        if self.rest.is_empty() { Ok(()) } else { Err(Corrupt(self.what)) }
    }
    fn take(&mut self, length: usize) -> Result<&'a [u8], Corrupt> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Corrupt(self.what))?;
        self.rest = rest;
        Ok(taken)
    }
    fn byte(&mut self) -> Result<u8, Corrupt> {
        Ok(self.take(1)?[0])
    }
    pub(crate) fn number(&mut self) -> Result<u64, Corrupt> {
        let bytes = self.take(8)?.try_into().map_err(|_| Corrupt(self.what))?;
        Ok(u64::from_le_bytes(bytes))
    }
    fn length(&mut self) -> Result<usize, Corrupt> {
        let length = usize::try_from(self.number()?).map_err(|_| Corrupt(self.what))?;
        if length > self.rest.len() { Err(Corrupt(self.what)) } else { Ok(length) }
    }
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Corrupt> {
        let length = self.length()?;
        self.take(length)
    }
    pub(crate) fn text(&mut self) -> Result<String, Corrupt> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| Corrupt(self.what))
    }
    pub(crate) fn generation(&mut self) -> Result<Generation, Corrupt> {
        let opened = u32::try_from(self.number()?).map_err(|_| Corrupt(self.what))?;
        Ok(Generation { opened, incarnation: self.byte()? })
    }
    pub(crate) fn room_id(&mut self) -> Result<RoomId, Corrupt> {
        RoomId::parse(&self.text()?).map_err(|_| Corrupt(self.what))
    }
}

/// A room without its chunks of taken bits, which are records of their own.
pub fn encode_room(room: &Room) -> Vec<u8> {
    let mut writer = Writer(vec![ROOM_FORMAT]);
    writer.number(room.clock.0);
    writer.number(room.version);
    writer.number(room.epoch);
    writer.byte(room.state as u8);
    writer.number(room.halted_since.map_or(u64::MAX, |since| since.0));
    writer.byte(u8::from(room.inlet_rests));
    writer.number(room.exit_credits);
    writer.number(room.offers_by_hand);
    encode_counts(&mut writer, &room.past);
    writer.number(room.pace.offers_made);
    writer.number(room.pace.samples.len() as u64);
    for sample in &room.pace.samples {
        writer.number(sample.at.0);
        writer.number(sample.offers_made);
    }
    encode_settings(&mut writer, &room.settings);
    writer.number(room.segments.len() as u64);
    for segment in &room.segments {
        encode_segment(&mut writer, segment);
    }
    clockwork::encode(&mut writer, room);
    losses::encode(&mut writer, room);
    stays::encode_departed(&mut writer, room);
    moves::encode(&mut writer, room);
    writer.number(room.clock_before_setting.0);
    writer.number(room.pace.offers_before);
    prefixes::encode(&mut writer, room);
    events::encode_announced(&mut writer, &room.announced);
    writer.0
}

fn encode_counts(writer: &mut Writer, counts: &Counts) {
    let Counts { claimed, completed, abandoned, expired, lapsed, left } = *counts;
    for count in [claimed, completed, abandoned, expired, lapsed, left] {
        writer.number(count);
    }
}

fn encode_settings(writer: &mut Writer, settings: &Settings) {
    writer.number(FIELDS.len() as u64);
    for field in FIELDS {
        writer.bytes(field.name.as_bytes());
        match (field.get)(settings) {
            Value::None => writer.byte(0),
            Value::Flag(flag) => {
                writer.byte(1);
                writer.byte(u8::from(flag));
            }
            Value::Number(number) => {
                writer.byte(2);
                writer.number(number.cast_unsigned());
            }
            Value::Text(text) => {
                writer.byte(3);
                writer.bytes(text.as_bytes());
            }
            Value::List(texts) => {
                writer.byte(4);
                writer.number(texts.len() as u64);
                for text in texts {
                    writer.bytes(text.as_bytes());
                }
            }
        }
    }
}

fn encode_segment(writer: &mut Writer, segment: &Segment) {
    writer.generation(segment.generation);
    for number in [segment.base, segment.joined, segment.serving, segment.floor] {
        writer.number(number);
    }
    encode_counts(writer, &segment.counts);
    writer.number(segment.steps.len() as u64);
    for step in segment.steps.iter() {
        writer.number(step.up_to);
        writer.number(step.at.0);
        writer.number(step.open);
    }
}

/// The room that [`encode_room`] wrote; its chunks are to be restored separately.
pub fn decode_room(bytes: &[u8]) -> Result<Room, Corrupt> {
    let (mut reader, format) = Reader::versioned(bytes, "room", ROOM_FORMAT)?;
    let clock = UnixMillis(reader.number()?);
    let version = reader.number()?;
    let epoch = reader.number()?;
    let state = *RoomState::ALL.get(usize::from(reader.byte()?)).ok_or(Corrupt("room"))?;
    let halted_since = Some(reader.number()?).filter(|&since| since != u64::MAX).map(UnixMillis);
    let inlet_rests = reader.byte()? == 1;
    let exit_credits = reader.number()?;
    let offers_by_hand = reader.number()?;
    let past = decode_counts(&mut reader)?;
    let offers_made = reader.number()?;
    let samples = (0..reader.length()?)
        .map(|_| Ok(Sample { at: UnixMillis(reader.number()?), offers_made: reader.number()? }))
        .collect::<Result<_, Corrupt>>()?;
    let settings = decode_settings(&mut reader)?;
    let segments =
        (0..reader.length()?).map(|_| decode_segment(&mut reader)).collect::<Result<VecDeque<_>, _>>()?;
    if segments.is_empty() {
        return Err(Corrupt("room"));
    }
    let mut room = Room {
        clock,
        version,
        epoch,
        state,
        halted_since,
        inlet_rests,
        segments,
        past,
        exit_credits,
        offers_by_hand,
        pace: Pace { offers_made, samples, offers_before: 0 }.into(),
        ..Room::open(settings, clock, 0)
    };
    if format >= ROOM_FORMAT_WITH_CLOCKWORK {
        clockwork::decode(&mut reader, &mut room)?;
    }
    if format >= ROOM_FORMAT_WITH_LOSSES {
        losses::decode(&mut reader, &mut room)?;
    }
    if format >= ROOM_FORMAT_WITH_DEPARTED {
        stays::decode_departed(&mut reader, &mut room)?;
    }
    if format >= ROOM_FORMAT_WITH_MOVES {
        moves::decode(&mut reader, &mut room, format >= ROOM_FORMAT_WITH_MOVERS)?;
    }
    if format >= ROOM_FORMAT_WITH_PREFIXES {
        room.clock_before_setting = UnixMillis(reader.number()?);
        room.pace.offers_before = reader.number()?;
        prefixes::decode(&mut reader, &mut room)?;
    }
    if format >= ROOM_FORMAT {
        room.announced = events::decode_announced(&mut reader)?;
    }
    reader.end()?;
    Ok(room)
}

fn decode_counts(reader: &mut Reader<'_>) -> Result<Counts, Corrupt> {
    Ok(Counts {
        claimed: reader.number()?,
        completed: reader.number()?,
        abandoned: reader.number()?,
        expired: reader.number()?,
        lapsed: reader.number()?,
        left: reader.number()?,
    })
}

fn decode_settings(reader: &mut Reader<'_>) -> Result<Settings, Corrupt> {
    let mut settings = Settings::default();
    for _ in 0..reader.length()? {
        let name = reader.text()?;
        let value = match reader.byte()? {
            0 => Value::None,
            1 => Value::Flag(reader.byte()? == 1),
            2 => Value::Number(reader.number()?.cast_signed()),
            3 => Value::Text(reader.text()?),
            4 => Value::List((0..reader.length()?).map(|_| reader.text()).collect::<Result<_, _>>()?),
            _ => return Err(Corrupt("setting")),
        };
        settings.set(&name, &value).map_err(|_| Corrupt("setting"))?;
    }
    Ok(settings)
}

fn decode_segment(reader: &mut Reader<'_>) -> Result<Segment, Corrupt> {
    let generation = reader.generation()?;
    let [base, joined, serving, floor] =
        [reader.number()?, reader.number()?, reader.number()?, reader.number()?];
    let counts = decode_counts(reader)?;
    let steps = (0..reader.length()?)
        .map(|_| {
            let [up_to, at, open] = [reader.number()?, reader.number()?, reader.number()?];
            Ok(Step { up_to, at: UnixMillis(at), open })
        })
        .collect::<Result<VecDeque<_>, Corrupt>>()?;
    let steps = steps.into();
    Ok(Segment { joined, serving, floor, steps, counts, ..Segment::open(generation, base) })
}

/// A chunk of taken bits.
pub fn encode_chunk(chunk: &Chunk) -> [u8; 512] {
    let mut bytes = [0; 512];
    for (word, slot) in chunk.iter().zip(bytes.chunks_exact_mut(8)) {
        slot.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The chunk that [`encode_chunk`] wrote.
pub fn decode_chunk(bytes: &[u8; 512]) -> Chunk {
    let mut chunk = [0; 64];
    for (word, slot) in chunk.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(slot.try_into().unwrap_or_default());
    }
    chunk
}

/// A session.
pub fn encode_session(session: &Session) -> Vec<u8> {
    let mut writer = Writer(vec![SESSION_FORMAT]);
    writer.generation(session.key.generation);
    writer.number(session.key.position.get());
    writer.bytes(&session.request_id.0);
    writer.number(session.offered_at.0);
    writer.number(session.issued_at_seconds);
    writer.number(session.expires_at_seconds);
    writer.bytes(session.issuer.as_bytes());
    writer.bytes(session.key_id.as_bytes());
    writer.byte(match session.status {
        SessionStatus::Active => 0,
        SessionStatus::Ended(outcome) => stays::number_of(outcome),
        SessionStatus::Expired => 3,
    });
    writer.bytes(&session.signatures);
    writer.number(session.enter_by_seconds.unwrap_or(u64::MAX));
    stays::encode(&mut writer, session.stay);
    writer.byte(session.copy);
    writer.number(session.redeemed_at.0);
    prefixes::encode_tag(&mut writer, session.prefix);
    grants::encode(&mut writer, &session.grants);
    writer.0
}

/// The session that [`encode_session`] wrote.
pub fn decode_session(bytes: &[u8]) -> Result<Session, Corrupt> {
    let (mut reader, format) = Reader::versioned(bytes, "session", SESSION_FORMAT)?;
    let generation = reader.generation()?;
    let position = Position::new(reader.number()?).ok_or(Corrupt("session"))?;
    let session = Session {
        key: SessionKey { generation, position },
        request_id: decode_request_id(&mut reader)?,
        offered_at: UnixMillis(reader.number()?),
        issued_at_seconds: reader.number()?,
        expires_at_seconds: reader.number()?,
        issuer: reader.text()?,
        key_id: reader.text()?,
        status: match reader.byte()? {
            0 => SessionStatus::Active,
            3 => SessionStatus::Expired,
            number => SessionStatus::Ended(stays::outcome_of(number).ok_or(Corrupt("session"))?),
        },
        signatures: reader.bytes()?.to_vec(),
        enter_by_seconds: if format >= SESSION_FORMAT_WITH_ENTER_BY {
            Some(reader.number()?).filter(|&seconds| seconds != u64::MAX)
        } else {
            None
        },
        stay: if format >= SESSION_FORMAT_WITH_STAY { stays::decode(&mut reader)? } else { None },
        copy: if format >= SESSION_FORMAT_WITH_COPY { moves::decode_copy(&mut reader)? } else { 0 },
        redeemed_at: UnixMillis(if format >= SESSION_FORMAT_WITH_COPY { reader.number()? } else { 0 }),
        prefix: if format >= SESSION_FORMAT_WITH_PREFIX { prefixes::decode_tag(&mut reader)? } else { None },
        grants: if format >= SESSION_FORMAT { grants::decode(&mut reader)? } else { vec![] },
    };
    Ok(session)
}

fn decode_request_id(reader: &mut Reader<'_>) -> Result<RequestId, Corrupt> {
    reader.bytes()?.try_into().map(RequestId).map_err(|_| Corrupt("request id"))
}

/// A ticket, for those who repeat a call.
pub fn encode_ticket(ticket: &Ticket) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.generation(ticket.generation);
    writer.number(ticket.position.get());
    writer.number(u64::from(ticket.entered));
    writer.byte(ticket.lane);
    writer.byte(ticket.copy);
    writer.0
}

/// The ticket that [`encode_ticket`] wrote.
pub fn decode_ticket(bytes: &[u8]) -> Option<Ticket> {
    let mut reader = Reader::new(bytes, "ticket").ok()?;
    let generation = reader.generation().ok()?;
    let position = Position::new(reader.number().ok()?)?;
    let entered = u32::try_from(reader.number().ok()?).ok()?;
    let (lane, copy) = (reader.byte().ok()?, reader.byte().ok()?);
    Some(Ticket { lane, generation, position, entered, copy })
}

/// An audit record.
pub fn encode_audit(record: &AuditRecord) -> Vec<u8> {
    let mut writer = Writer(vec![AUDIT_FORMAT]);
    writer.number(record.at.0);
    // No room has the empty name.
    writer.bytes(record.room.as_ref().map_or("", RoomId::as_str).as_bytes());
    writer.bytes(record.actor.as_bytes());
    writer.bytes(record.action.as_bytes());
    writer.byte(u8::from(record.detail.is_some()));
    writer.bytes(record.detail.as_deref().unwrap_or_default().as_bytes());
    writer.0
}

/// The record that [`encode_audit`] wrote.
pub fn decode_audit(bytes: &[u8]) -> Result<AuditRecord, Corrupt> {
    let mut reader = Reader::bare(bytes, "audit record");
    let format = reader.byte()?;
    if format != FORMAT && format != AUDIT_FORMAT {
        return Err(Corrupt("audit record"));
    }
    let at = UnixMillis(reader.number()?);
    let room = match reader.text()?.as_str() {
        "" => None,
        name => Some(RoomId::parse(name).map_err(|_| Corrupt("audit record"))?),
    };
    let (actor, action) = (reader.text()?, reader.text()?);
    let has_detail = format == AUDIT_FORMAT && reader.byte()? == 1;
    let detail = if has_detail { Some(reader.text()?) } else { None };
    Ok(AuditRecord { at, room, actor, action, detail })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anteroom_core::settings::Seconds;
    use anteroom_core::{InletKind, Operation, Reads, apply};

    fn lively_room() -> Room {
        let settings = Settings {
            inlet: InletKind::MaxSize,
            total_active_users: Some(4),
            queue_position_expiry_period: Seconds::new(7),
            issuer: Some("https://shop.example".into()),
            ..Settings::default()
        };
        let mut room = Room::open(settings.clone(), UnixMillis(1_800_000_000_000), 3);
        for (step, operation) in [
            Operation::Join { count: 9 },
            Operation::Advance { by: 2 },
            Operation::Exits { count: 1 },
            Operation::reconfigure(settings, Some(RoomState::Paused)),
            Operation::OpenSegment { incarnation: 8 },
            Operation::Join { count: 5 },
        ]
        .iter()
        .enumerate()
        {
            let now = UnixMillis(1_800_000_000_000 + step as u64 * 1_500);
            room = apply(room, now, operation, Reads::default()).room;
        }
        room
    }

    #[test]
    fn a_room_reads_back_as_it_was_written() {
        let room = lively_room();
        assert_eq!(decode_room(&encode_room(&room)).unwrap(), room);
    }

    #[test]
    fn every_cut_and_every_changed_format_is_refused_not_misread() {
        let bytes = encode_room(&lively_room());
        for length in 0..bytes.len() {
            assert!(decode_room(&bytes[..length]).is_err(), "cut at {length}");
        }
        let mut other = bytes.clone();
        other[0] = 99;
        assert!(decode_room(&other).is_err());
    }

    /// Written by the last program that knew the first format only.
    const FIRST_ROOM: &[u8] = include_bytes!("codec/first_format/room.bytes");
    const FIRST_SESSION: &[u8] = include_bytes!("codec/first_format/session.bytes");

    #[test]
    fn a_room_of_the_first_format_is_read_and_goes_on() {
        assert_eq!(FIRST_ROOM[0], 1);
        let room = decode_room(FIRST_ROOM).unwrap();
        let today = lively_room();
        assert_eq!((&room.settings, room.state, room.clock), (&today.settings, today.state, today.clock));
        assert_eq!((&room.segments, &room.pace), (&today.segments, &today.pace));
        assert_eq!(
            (room.counts(), room.halted_since, room.epoch),
            (today.counts(), today.halted_since, today.epoch)
        );
        // What it knew nothing of is as it begins.
        assert_eq!((room.last_move, room.moves, room.stopped_by.as_ref()), (None, [0; 7], None));
        assert!(*room.reports == anteroom_core::Reports::default() && room.auction.is_none());
        assert_eq!(crate::backup::unsound(&room), None);
        let again = encode_room(&room);
        assert_eq!((again[0], decode_room(&again).unwrap()), (ROOM_FORMAT, room.clone()));
        let settings = (*room.settings).clone();
        let opened = Operation::reconfigure(settings, Some(RoomState::Open));
        let applied = apply(room.clone(), room.clock.plus(1_000), &opened, Reads::default());
        assert!(applied.answer.is_ok());
    }

    #[test]
    fn a_session_of_the_first_format_is_read() {
        assert_eq!(FIRST_SESSION[0], 1);
        let session = decode_session(FIRST_SESSION).unwrap();
        assert_eq!((session.enter_by_seconds, session.key.position.get()), (None, 2));
        assert_eq!((session.expires_at_seconds, session.status), (1_800_003_601, SessionStatus::Active));
        assert_eq!(
            (session.issuer.as_str(), session.signatures.as_slice()),
            ("https://shop.example", &[1, 2, 3][..])
        );
        assert_eq!(decode_session(&encode_session(&session)).unwrap(), session);
        for length in 0..FIRST_SESSION.len() {
            assert!(decode_session(&FIRST_SESSION[..length]).is_err(), "cut at {length}");
        }
    }
}
