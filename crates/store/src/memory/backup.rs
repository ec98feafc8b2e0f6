//! Backup and restore of the store that forgets. A backup is encoded while the lock is held, so it is in memory as a whole.

use anteroom_core::{Generation, Room, RoomId, Session, UnixMillis};

use super::{State, StoredRoom, surplus};
use crate::backup::restore::{HighWaterMarks, Restore, RestoreError, Target, replay};
use crate::backup::{BackupWriter, Piece};
use crate::codec;
use crate::contract::{AUDIT_MAX, AuditRecord, StoreError, StoredEvent, Trace};

pub(super) fn write(state: &State, taken_at: UnixMillis) -> Result<Vec<Piece>, StoreError> {
    let mut pieces = vec![];
    let mut output = BackupWriter::begin(taken_at, |piece| {
        pieces.push(piece);
        Ok::<(), StoreError>(())
    });
    for (name, bytes) in &state.values {
        output.value(name, bytes)?;
    }
    if let Some(shared) = state.shared_trace {
        output.trace("", shared)?;
    }
    for (name, &trace) in &state.traces {
        output.trace(name.as_str(), trace)?;
    }
    for (name, stored) in &state.rooms {
        output.room(name.as_str(), &codec::encode_room(&stored.room))?;
        for segment in &stored.room.segments {
            for (index, chunk) in segment.taken.chunks() {
                output.chunk(segment.generation, index, &codec::encode_chunk(chunk))?;
            }
        }
        for session in stored.sessions.values() {
            output.session(&codec::encode_session(session))?;
        }
    }
    for (number, event) in &state.events {
        output.event(*number, &codec::encode_event(event))?;
    }
    for (number, record) in &state.audit {
        output.audit(*number, &codec::encode_audit(record))?;
    }
    output.finish()?;
    Ok(pieces)
}

/// The state that a backup makes of the present one.
pub(super) fn restore_state(present: &State, restore: Restore) -> Result<State, RestoreError> {
    let Restore { mut backup, mut revise, audit, node } = restore;
    let mut known = HighWaterMarks::default();
    known.last_event = present.outbox.last;
    for (id, stored) in &present.rooms {
        known.note_room(id.clone(), &stored.room);
    }
    let shared = present.shared_trace.map(|trace| ("", trace));
    let named = present.traces.iter().map(|(name, trace)| (name.as_str(), *trace));
    for (name, trace) in named.chain(shared) {
        known.note_trace(name, trace);
    }
    let state = State {
        lineage: present.lineage,
        values_replaced: present.values_replaced + 1,
        names_changed: present.names_changed + 1,
        ..State::default()
    };
    let mut content = Content { state, room: None, closed: vec![] };
    content.state.outbox.last = known.last_event;
    content.state.outbox.history = present.outbox.history + 1;
    replay(&mut backup, known, (&mut revise, node), &mut content)?;
    let mut state = content.state;
    let newer = present.audit.iter().filter(|(number, _)| *number > backup.last_audit());
    state.audit.extend(newer.cloned());
    state.next_audit = state.audit.back().map_or(0, |(number, _)| *number);
    state.note_audit(audit);
    state.audit.drain(..surplus(state.audit.len(), AUDIT_MAX));
    Ok(state)
}

/// A state in the making, and the room whose sessions come now.
struct Content {
    state: State,
    room: Option<RoomId>,
    closed: Vec<Generation>,
}

impl Target for Content {
    fn value(&mut self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.state.values.insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn room(&mut self, id: &RoomId, room: &Room, closed: &[Generation]) -> Result<(), StoreError> {
        self.state.rooms.insert(id.clone(), StoredRoom::new(room.clone(), self.state.lineage));
        (self.room, self.closed) = (Some(id.clone()), closed.to_vec());
        Ok(())
    }

    fn session(&mut self, session: &Session) -> Result<(), StoreError> {
        let room = self.room.as_ref().and_then(|room| self.state.rooms.get_mut(room));
        if let Some(room) = room.filter(|_| !self.closed.contains(&session.key.generation)) {
            room.write_session(session);
        }
        Ok(())
    }

    fn event(&mut self, number: u64, event: &StoredEvent) -> Result<(), StoreError> {
        self.state.keep_event(number, event.clone());
        self.state.outbox.last = self.state.outbox.last.max(number);
        Ok(())
    }

    fn audit(&mut self, number: u64, record: &AuditRecord) -> Result<(), StoreError> {
        self.state.audit.push_back((number, record.clone()));
        Ok(())
    }

    fn trace(&mut self, name: &str, trace: Trace) -> Result<(), StoreError> {
        match RoomId::parse(name) {
            Ok(name) => self.state.leave_trace(name, trace),
            Err(_) => self.state.shared_trace = Some(trace),
        }
        Ok(())
    }
}
