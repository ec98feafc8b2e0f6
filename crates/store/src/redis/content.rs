//! The content that a restore writes, as commands.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anteroom_core::{EventClass, Generation, Room, RoomId, Session, SessionStatus};
use tokio::sync::mpsc;

use super::command::{Command, PUT, PUT_RECORD, PUT_ROOM, SHARE_TRACE};
use super::keys::{KeyScope, Keys};
use super::rooms::chunk_field;
use super::values::StoreState;
use crate::backup::restore::Target;
use crate::codec;
use crate::contract::{AUDIT_MAX, AuditRecord, Cursor, StoreError, StoredEvent, Trace, events_max};
use crate::seal::Seal;

/// How many commands go at a time.
const BATCH: usize = 500;

/// Names, and the lines of the rooms that have one: where keys of a content may be.
pub(super) type Lines = Arc<Mutex<BTreeMap<RoomId, Vec<Generation>>>>;

/// The room whose sessions come now. It comes last itself: once it is there, nothing of it is written by a restore any more.
struct RoomInTheMaking {
    id: RoomId,
    closed: Vec<Generation>,
    last: Command,
}

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
    room: Option<RoomInTheMaking>,
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
        let command = self.of_store("ZADD", self.keys.names()).arg(self.now_seconds);
        self.put(command.arg(id.as_str()))
    }

    /// A command of the whole store, unless it is too late.
    fn of_store(&self, name: &str, key: String) -> Command {
        let command = Command::script(&KeyScope::Store, &PUT).key(self.keys.content_number()).key(key);
        command.arg(self.keys.content()).arg(name)
    }

    /// A command of a room, unless it is too late.
    fn of_room(&self, id: &RoomId, name: &str, key: String) -> Command {
        Command::script(&id.into(), &PUT).key(self.keys.room(id)).key(key).arg("v").arg(name)
    }

    fn put_record(&mut self, key: String, number: u64, plain: &[u8]) -> Result<(), StoreError> {
        let command = Command::script(&KeyScope::Store, &PUT_RECORD).key(self.keys.content_number()).key(key);
        let sealed = self.seal.seal(plain);
        self.put(command.arg(self.keys.content()).arg(number).arg(sealed))
    }

    /// The room whose sessions have all come.
    fn put_room(&mut self) -> Result<(), StoreError> {
        self.room.take().map_or(Ok(()), |room| self.put(room.last))
    }

    /// Writes the numbers that go on rising, and drops what is more than is kept.
    pub(super) fn finish(mut self) -> Result<(), StoreError> {
        self.put_room()?;
        let mut numbers = self.of_store("HSET", self.keys.numbers());
        let changed = [("values", self.values_changed), ("names", self.names_changed)];
        for (name, number) in
            [("events", self.last_event), ("audit", self.last_audit)].into_iter().chain(changed)
        {
            numbers = numbers.arg(name).arg(number);
        }
        self.put(numbers)?;
        let events = EventClass::ALL.map(|class| (self.keys.events_of(class), events_max(class)));
        for (stream, limit) in events.into_iter().chain([(self.keys.audit(), AUDIT_MAX)]) {
            self.put(
                Command::plain(&KeyScope::Store, "XTRIM").arg(stream).arg("MAXLEN").arg("=").arg(limit),
            )?;
        }
        self.send()
    }
}

impl Target for Content {
    fn value(&mut self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let sealed = Cursor::is_value_name(name).then(|| self.seal.seal(bytes));
        let bytes = sealed.as_deref().unwrap_or(bytes);
        self.put(self.of_store("HSET", self.keys.values()).arg(name).arg(bytes))
    }

    fn room(&mut self, id: &RoomId, room: &Room, closed: &[Generation]) -> Result<(), StoreError> {
        self.put_room()?;
        self.note_name(id, room.segments.iter().map(|segment| segment.generation).collect())?;
        for segment in room.segments.iter().filter(|segment| !closed.contains(&segment.generation)) {
            for (index, chunk) in segment.taken.chunks() {
                let command = self.of_room(id, "HSET", self.keys.taken_positions(id));
                let command = command.arg(&chunk_field(segment.generation, index)[..]);
                self.put(command.arg(&codec::encode_chunk(chunk)[..]))?;
            }
        }
        let newest = room.newest();
        let last = Command::script(&id.into(), &PUT_ROOM).key(self.keys.room(id)).arg(self.may_ask);
        let last = last.arg(room.version).arg(room.epoch).arg(newest.generation.number()).arg(newest.joined);
        let last = last.arg(self.seal.seal(&codec::encode_room(room)));
        self.room = Some(RoomInTheMaking { id: id.clone(), closed: closed.to_vec(), last });
        Ok(())
    }

    fn session(&mut self, session: &Session) -> Result<(), StoreError> {
        let generation = session.key.generation;
        let room = self.room.as_ref().filter(|room| !room.closed.contains(&generation));
        let Some(id) = room.map(|room| room.id.clone()) else {
            return Ok(());
        };
        let position = session.key.position.get().to_be_bytes();
        let sealed = self.seal.seal(&codec::encode_session(session));
        let command = self.of_room(&id, "HSET", self.keys.sessions(&id, generation));
        self.put(command.arg(&position[..]).arg(sealed))?;
        let mut indexes = vec![self.keys.ended(&id, generation)];
        if session.status == SessionStatus::Active {
            indexes.push(self.keys.ending(&id, generation));
        }
        for index in indexes {
            self.put(self.of_room(&id, "ZADD", index).arg(session.ends_at().0).arg(&position[..]))?;
        }
        Ok(())
    }

    fn event(&mut self, number: u64, event: &StoredEvent) -> Result<(), StoreError> {
        self.last_event = self.last_event.max(number);
        let stream = self.keys.events_of(event.event.kind().class());
        self.put_record(stream, number, &codec::encode_event(event))
    }

    fn audit(&mut self, number: u64, record: &AuditRecord) -> Result<(), StoreError> {
        self.last_audit = self.last_audit.max(number);
        self.put_record(self.keys.audit(), number, &codec::encode_audit(record))
    }

    fn trace(&mut self, name: &str, trace: Trace) -> Result<(), StoreError> {
        // The later of both counts, whenever it comes.
        let (scope, key) = match RoomId::parse(name) {
            Ok(id) => {
                self.note_name(&id, vec![])?;
                (KeyScope::from(&id), self.keys.trace(&id))
            }
            Err(_) => (KeyScope::Store, self.keys.shared_trace()),
        };
        let command = Command::script(&scope, &SHARE_TRACE).key(key).arg(trace.generation.number());
        self.put(command.arg(trace.version).arg(trace.epoch))
    }
}
