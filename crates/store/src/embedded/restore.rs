//! A restore of the embedded store: everything is replaced inside one write transaction.

use anteroom_core::{Generation, Room, RoomId, Session, SessionStatus};
use redb::{ReadableTable, ReadableTableMetadata, Table, TableHandle, WriteTransaction};

use super::outbox::{self, Outbox};
use super::tables::{
    AUDIT, BY_END, CHUNKS, CLOSED_LINES, ChunkKey, ENDING, EndKey, LAST, LINES, Line, OUTBOX, OUTBOX_NUMBERS,
    ROOM_NUMBERS, ROOMS, RoomNumber, SESSIONS, SessionRowKey, StoredTrace, TRACES, VALUES, VISITOR_EVENTS,
    end_key, leave_trace, line, session_row_key, trace_of,
};
use super::transaction::EncodedEvent;
use super::{Failure, SCHEMA_VALUE, transaction};
use crate::backup::restore::{HighWaterMarks, Restore, RestoreError, Target, replay};
use crate::codec;
use crate::contract::{AUDIT_MAX, AuditRecord, StoreError, StoredEvent, Trace};

/// Replaces everything. If it fails, the transaction must not be committed.
pub(super) fn restore(transaction: &WriteTransaction, restore: Restore) -> Result<(), RestoreError> {
    let Restore { mut backup, mut revise, audit, node } = restore;
    let known = read_high_water_marks(transaction).map_err(StoreError::from)?;
    clear(transaction, backup.last_audit()).map_err(StoreError::from)?;
    let mut content = Content::open(transaction).map_err(StoreError::from)?;
    content.outbox.begin_behind(known.last_event);
    replay(&mut backup, known, (&mut revise, node), &mut content)?;
    content.finish().map_err(StoreError::from)?;
    Ok(transaction::note_audit(transaction, audit.as_ref()).map_err(StoreError::from)?)
}

fn read_high_water_marks(transaction: &WriteTransaction) -> Result<HighWaterMarks, Failure> {
    let mut known = HighWaterMarks::default();
    let (rooms, lines) = (transaction.open_table(ROOMS)?, transaction.open_table(LINES)?);
    for entry in transaction.open_table(ROOM_NUMBERS)?.iter()? {
        let (name, number) = entry?;
        let (Ok(id), Some(bytes)) = (RoomId::parse(name.value()), rooms.get(number.value())?) else {
            continue;
        };
        let mut room = codec::decode_room(bytes.value())?;
        if let (Some(line), Some(newest)) = (lines.get(number.value())?, room.segments.back_mut()) {
            newest.joined = line.value().0;
        }
        known.note_room(id, &room);
    }
    for entry in transaction.open_table(TRACES)?.iter()? {
        let (name, trace) = entry?;
        known.note_trace(name.value(), trace_of(trace.value()));
    }
    known.last_event = outbox::state_in(transaction)?.last;
    Ok(known)
}

/// Empties every table, but keeps how the file is laid out and the audit beyond the backup's.
fn clear(transaction: &WriteTransaction, last_audit: u64) -> Result<(), Failure> {
    for emptied in [
        ROOM_NUMBERS.name(),
        ROOMS.name(),
        LINES.name(),
        LAST.name(),
        TRACES.name(),
        CHUNKS.name(),
        SESSIONS.name(),
        ENDING.name(),
        BY_END.name(),
        CLOSED_LINES.name(),
        OUTBOX.name(),
        VISITOR_EVENTS.name(),
        OUTBOX_NUMBERS.name(),
    ] {
        let table = transaction.list_tables()?.find(|table| table.name() == emptied);
        if let Some(table) = table {
            transaction.delete_table(table)?;
        }
    }
    transaction.open_table(LAST)?;
    transaction.open_table(VALUES)?.retain(|name, _| name == SCHEMA_VALUE)?;
    transaction.open_table(AUDIT)?.retain_in(..=last_audit, |_, _| false)?;
    Ok(())
}

/// All tables at once, and the room whose records come now.
struct Content<'a> {
    values: Table<'a, &'static str, &'static [u8]>,
    numbers: Table<'a, &'static str, RoomNumber>,
    rooms: Table<'a, RoomNumber, &'static [u8]>,
    lines: Table<'a, RoomNumber, (u64, u64, u64)>,
    traces: Table<'a, &'static str, StoredTrace>,
    chunks: Table<'a, ChunkKey, &'static [u8; 512]>,
    sessions: Table<'a, SessionRowKey, &'static [u8]>,
    ending: Table<'a, EndKey, ()>,
    by_end: Table<'a, EndKey, &'static [u8; 16]>,
    closed: Table<'a, Line, ()>,
    outbox: Outbox<'a>,
    audit: Table<'a, u64, &'static [u8]>,
    number: RoomNumber,
}

impl<'a> Content<'a> {
    fn open(transaction: &'a WriteTransaction) -> Result<Self, Failure> {
        Ok(Self {
            values: transaction.open_table(VALUES)?,
            numbers: transaction.open_table(ROOM_NUMBERS)?,
            rooms: transaction.open_table(ROOMS)?,
            lines: transaction.open_table(LINES)?,
            traces: transaction.open_table(TRACES)?,
            chunks: transaction.open_table(CHUNKS)?,
            sessions: transaction.open_table(SESSIONS)?,
            ending: transaction.open_table(ENDING)?,
            by_end: transaction.open_table(BY_END)?,
            closed: transaction.open_table(CLOSED_LINES)?,
            outbox: Outbox::open(transaction)?,
            audit: transaction.open_table(AUDIT)?,
            number: 0,
        })
    }

    /// Drops the oldest events and audit records beyond their limits.
    fn finish(mut self) -> Result<(), Failure> {
        while self.audit.len()? > AUDIT_MAX {
            self.audit.pop_first()?;
        }
        self.outbox.finish()
    }

    fn write_room(&mut self, id: &RoomId, room: &Room, closed: &[Generation]) -> Result<(), Failure> {
        self.number += 1;
        let number = self.number;
        self.numbers.insert(id.as_str(), number)?;
        self.rooms.insert(number, codec::encode_room(room).as_slice())?;
        self.lines.insert(number, (room.newest().joined, room.epoch, room.version))?;
        for segment in &room.segments {
            let Generation { opened, incarnation } = segment.generation;
            for (index, chunk) in segment.taken.chunks() {
                let place = (number, opened, incarnation, index);
                self.chunks.insert(place, &codec::encode_chunk(chunk))?;
            }
        }
        for &generation in closed {
            self.closed.insert(line(number, generation), ())?;
        }
        Ok(())
    }

    fn write_session(&mut self, session: &Session) -> Result<(), Failure> {
        let end = end_key(self.number, session.ends_at(), session.key);
        let bytes = codec::encode_session(session);
        self.sessions.insert(session_row_key(self.number, session.key), bytes.as_slice())?;
        self.by_end.insert(end, &session.request_id.0)?;
        if session.status == SessionStatus::Active {
            self.ending.insert(end, ())?;
        }
        Ok(())
    }
}

impl Target for Content<'_> {
    fn value(&mut self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        // A backup of another store may use the name; here it says how the file is laid out.
        if name != SCHEMA_VALUE {
            self.values.insert(name, bytes).map_err(Failure::from)?;
        }
        Ok(())
    }

    fn room(&mut self, id: &RoomId, room: &Room, closed: &[Generation]) -> Result<(), StoreError> {
        Ok(self.write_room(id, room, closed)?)
    }

    fn session(&mut self, session: &Session) -> Result<(), StoreError> {
        Ok(self.write_session(session)?)
    }

    fn event(&mut self, number: u64, event: &StoredEvent) -> Result<(), StoreError> {
        Ok(self.outbox.insert(number, &EncodedEvent::of(event))?)
    }

    fn audit(&mut self, number: u64, record: &AuditRecord) -> Result<(), StoreError> {
        self.audit.insert(number, codec::encode_audit(record).as_slice()).map_err(Failure::from)?;
        Ok(())
    }

    fn trace(&mut self, name: &str, trace: Trace) -> Result<(), StoreError> {
        Ok(leave_trace(&mut self.traces, name, trace)?)
    }
}
