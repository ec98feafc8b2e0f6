//! The content that a restore writes, as commands.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anteroom_core::{Generation, Room, RoomId, Session, SessionStatus};
use tokio::sync::mpsc;

use super::command::{Command, PUT_RECORD, PUT_ROOM};
use super::keys::{Keys, Place};
use super::rooms::chunk_field;
use super::values::StoreState;
use crate::backup::restore::Target;
use crate::codec;
use crate::contract::{AUDIT_MAX, AuditRecord, OUTBOX_MAX, StoreError, StoredEvent, Trace};
use crate::seal::Seal;

/// How many commands go at a time.
const BATCH: usize = 500;

/// Names, and the lines of the rooms that have one: where keys of a content may be.
pub(super) type Lines = Arc<Mutex<BTreeMap<RoomId, Vec<Generation>>>>;

/// A content in the making. Used on a thread that may block.
pub(super) struct Content {
    keys: Keys,
    seal: Arc<dyn Seal>,
    may_ask: u8,
    now_seconds: u64,
    values_changed: u64,
    names_changed: u64,
    batch: Vec<Command>,
    batches: mpsc::Sender<Vec<Command>>,
    room: Option<RoomId>,
    closed: Vec<Generation>,
    lines: Lines,
    last_event: u64,
    last_audit: u64,
}

impl Content {
    pub(super) fn new(
        keys: Keys,
        seal: Arc<dyn Seal>,
        may_ask: u8,
        before: &StoreState,
        last_event: u64,
        lines: Lines,
        batches: mpsc::Sender<Vec<Command>>,
    ) -> Self {
        Self {
            keys,
            seal,
            may_ask,
            now_seconds: before.now_millis / 1_000,
            values_changed: before.values + 1,
            names_changed: before.names + 1,
            batch: vec![],
            batches,
            room: None,
            closed: vec![],
            lines,
            last_event,
            last_audit: 0,
        }
    }

    pub(super) fn last_audit(&self) -> u64 {
        self.last_audit
    }

    fn put(&mut self, command: Command) -> Result<(), StoreError> {
        self.batch.push(command);
        if self.batch.len() >= BATCH { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), StoreError> {
        let nobody = |_| StoreError::Transient("the restored content could not be written".into());
        self.batches.blocking_send(std::mem::take(&mut self.batch)).map_err(nobody)
    }

    fn note_name(&mut self, id: &RoomId, lines: Vec<Generation>) -> Result<(), StoreError> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), lines);
        let command = Command::plain(&Place::Store, "ZADD").arg(self.keys.names()).arg(self.now_seconds);
        self.put(command.arg(id.as_str()))
    }

    /// Writes the numbers that go on rising, and drops what is more than is kept.
    pub(super) fn finish(mut self) -> Result<(), StoreError> {
        let store = Place::Store;
        let mut numbers = Command::plain(&store, "HSET").arg(self.keys.numbers());
        let changed = [("values", self.values_changed), ("names", self.names_changed)];
        for (name, number) in
            [("events", self.last_event), ("audit", self.last_audit)].into_iter().chain(changed)
        {
            numbers = numbers.arg(name).arg(number);
        }
        self.put(numbers)?;
        for (stream, limit) in [(self.keys.events(), OUTBOX_MAX), (self.keys.audit(), AUDIT_MAX)] {
            self.put(Command::plain(&store, "XTRIM").arg(stream).arg("MAXLEN").arg("=").arg(limit))?;
        }
        self.send()
    }
}

impl Target for Content {
    fn value(&mut self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.put(Command::plain(&Place::Store, "HSET").arg(self.keys.values()).arg(name).arg(bytes))
    }

    fn room(&mut self, id: &RoomId, room: &Room, closed: &[Generation]) -> Result<(), StoreError> {
        let (newest, place) = (room.newest(), Place::from(id));
        let command = Command::script(&place, &PUT_ROOM).key(self.keys.room(id)).arg(self.may_ask);
        let command =
            command.arg(room.version).arg(room.epoch).arg(newest.generation.number()).arg(newest.joined);
        let sealed = self.seal.seal(&codec::encode_room(room));
        self.note_name(id, room.segments.iter().map(|segment| segment.generation).collect())?;
        self.put(command.arg(sealed))?;
        for segment in room.segments.iter().filter(|segment| !closed.contains(&segment.generation)) {
            for (index, chunk) in segment.taken.chunks() {
                let command = Command::plain(&place, "HSET").arg(self.keys.taken(id));
                let command = command.arg(&chunk_field(segment.generation, index)[..]);
                self.put(command.arg(&codec::encode_chunk(chunk)[..]))?;
            }
        }
        (self.room, self.closed) = (Some(id.clone()), closed.to_vec());
        Ok(())
    }

    fn session(&mut self, session: &Session) -> Result<(), StoreError> {
        let generation = session.key.generation;
        let Some(id) = self.room.clone().filter(|_| !self.closed.contains(&generation)) else {
            return Ok(());
        };
        let (place, position) = (Place::from(&id), session.key.position.get().to_be_bytes());
        let command =
            Command::plain(&place, "HSET").arg(self.keys.sessions(&id, generation)).arg(&position[..]);
        let sealed = self.seal.seal(&codec::encode_session(session));
        self.put(command.arg(sealed))?;
        let mut indexes = vec![self.keys.ended(&id, generation)];
        if session.status == SessionStatus::Active {
            indexes.push(self.keys.ending(&id, generation));
        }
        for index in indexes {
            self.put(Command::plain(&place, "ZADD").arg(index).arg(session.ends_at().0).arg(&position[..]))?;
        }
        Ok(())
    }

    fn event(&mut self, number: u64, event: &StoredEvent) -> Result<(), StoreError> {
        self.last_event = self.last_event.max(number);
        let sealed = self.seal.seal(&codec::encode_event(event));
        let command = Command::script(&Place::Store, &PUT_RECORD).key(self.keys.events());
        self.put(command.arg(number).arg(sealed))
    }

    fn audit(&mut self, number: u64, record: &AuditRecord) -> Result<(), StoreError> {
        self.last_audit = self.last_audit.max(number);
        let sealed = self.seal.seal(&codec::encode_audit(record));
        let command = Command::script(&Place::Store, &PUT_RECORD).key(self.keys.audit());
        self.put(command.arg(number).arg(sealed))
    }

    fn trace(&mut self, name: &str, trace: Trace) -> Result<(), StoreError> {
        let (place, key) = match RoomId::parse(name) {
            Ok(id) => {
                self.note_name(&id, vec![])?;
                (Place::from(&id), self.keys.trace(&id))
            }
            Err(_) => (Place::Store, self.keys.shared_trace()),
        };
        let command = Command::plain(&place, "HSET").arg(key).arg("g").arg(trace.generation.number());
        self.put(command.arg("v").arg(trace.version).arg("e").arg(trace.epoch))
    }
}
