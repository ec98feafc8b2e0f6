//! Rooms: loaded, committed, joined, deleted.

use std::collections::BTreeSet;
use std::time::Duration;

use anteroom_core::taken_positions::Chunk;
use anteroom_core::{EventClass, Generation, MAX_POSITION, Room, RoomId, Session, SessionStatus};
use redis::Value;

use super::command::{COMMIT, Command, CommandTimeout, DELETE, Intent, JOIN, KEEP_ANSWER, LOAD, NOTE_NAME};
use super::keys::{KeyScope, Keys};
use super::reply::{Parts, digits_of, lineage_of, read, strange};
use super::traces::trace_of;
use super::{ContentResult, Inner};
use crate::codec;
use crate::contract::{
    ANSWERS_MAX, AnswerKey, Commit, CommitOutcome, Deletion, DeletionOutcome, JoinBatch, JoinOutcome, NodeId,
    SESSION_RETENTION_MILLIS, Snapshot, StoreError, StoredEvent, Trace,
};

/// A pending event of a room, or of the server.
const ROOM_EVENT: &str = "e";
/// And an event of a visitor.
const VISITOR_EVENT: &str = "v";
/// A pending audit record.
pub(super) const AUDIT: &str = "a";
/// Stands before every answer that is kept.
const ANSWER_MARK: u8 = 1;
/// What scripts answer when a restore has frozen what was asked for.
const FROZEN: i64 = 2;

/// What a script that writes to a room answered.
enum WriteReply {
    Done { joined: u64 },
    Conflict(Option<Box<Snapshot>>),
}

impl Inner {
    /// All rooms there are. A name is noted before its room is made, so the names are more than the rooms.
    pub(super) async fn rooms(&self, keys: &Keys) -> ContentResult<Vec<RoomId>> {
        let names = self.names(keys).await?;
        let exists =
            |name: &RoomId| Command::plain(&KeyScope::from(name), "HEXISTS").arg(keys.room(name)).arg("v");
        let commands: Vec<Command> = names.iter().map(exists).collect();
        let there = self.connections.all(&commands, Intent::Read, CommandTimeout::Short).await?;
        let mut rooms = vec![];
        for (name, there) in names.into_iter().zip(there) {
            if read::<bool>(there)? {
                rooms.push(name);
            }
        }
        Ok(self.is_up_to_date(keys).await?.then_some(rooms))
    }

    /// Every name that was noted, sorted.
    pub(super) async fn names(&self, keys: &Keys) -> Result<Vec<RoomId>, StoreError> {
        let command = Command::plain(&KeyScope::Store, "ZRANGE").arg(keys.names()).arg(0).arg(-1);
        let names: BTreeSet<String> = read(self.connections.one(command, Intent::Read).await?)?;
        Ok(names.iter().filter_map(|name| RoomId::parse(name).ok()).collect())
    }

    pub(super) async fn load(
        &self,
        keys: &Keys,
        id: &RoomId,
        node: NodeId,
    ) -> ContentResult<Option<Snapshot>> {
        let command = self.load_command(keys, id, node, false);
        let mut parts = Parts::of(self.connections.one(command, Intent::Read).await?)?;
        match parts.next_value()? {
            Value::Int(FROZEN) => Ok(None),
            reply => {
                let snapshot = self.snapshot_of(id, Parts::of(reply)?)?;
                let is_believed = snapshot.is_some() || self.is_up_to_date(keys).await?;
                Ok(is_believed.then_some(snapshot))
            }
        }
    }

    pub(super) fn load_command(&self, keys: &Keys, id: &RoomId, node: NodeId, also_frozen: bool) -> Command {
        let command = Command::script(&id.into(), &LOAD).key(keys.room(id)).key(keys.taken_positions(id));
        command.key(keys.node(id, node)).arg(self.may_ask()).arg(u8::from(also_frozen))
    }

    /// A snapshot as scripts tell it; `None` without a room.
    pub(super) fn snapshot_of(&self, id: &RoomId, mut parts: Parts) -> Result<Option<Snapshot>, StoreError> {
        let _conflict: i64 = parts.next()?;
        if parts.is_empty() {
            return Ok(None);
        }
        let (lineage, stored): (String, String) = (parts.next()?, parts.next()?);
        let last: String = parts.next()?;
        let joined: u64 = parts.next()?;
        let state: Vec<u8> = parts.next()?;
        let taken = parts.rest().map(read).collect::<Result<Vec<Vec<u8>>, StoreError>>()?;
        let room = room_of(&self.open_record(&state, "room")?, joined, &taken)?;
        self.note_seen(id, room.epoch, joined);
        let is_continuous = lineage == stored;
        Ok(Some(Snapshot {
            room,
            last_number: last.parse().ok(),
            lineage: lineage_of(&lineage)?,
            is_continuous,
        }))
    }

    /// What a script that writes answered; `None` if a restore has frozen the room.
    fn read_write_reply(&self, id: &RoomId, answer: Value) -> ContentResult<WriteReply> {
        let Value::Array(parts) = &answer else { return Err(strange()) };
        match parts.first() {
            Some(Value::Int(FROZEN)) => return Ok(None),
            Some(Value::Int(1)) => {}
            _ => {
                let newer = self.snapshot_of(id, Parts::of(answer)?)?;
                return Ok(Some(WriteReply::Conflict(newer.map(Box::new))));
            }
        }
        let mut parts = Parts::of(answer)?;
        let (_done, joined): (i64, u64) = (parts.next()?, parts.next()?);
        Ok(Some(WriteReply::Done { joined }))
    }

    pub(super) async fn commit(&self, keys: &Keys, commit: &Commit) -> ContentResult<CommitOutcome> {
        let id = &commit.room;
        let shared = if commit.expected.is_none() {
            let Some(shared) = self.note_name(keys, id).await? else { return Ok(None) };
            shared
        } else {
            None
        };
        let command = self.commit_command(keys, commit, shared);
        let written = self.read_write_reply(id, self.connections.one(command, Intent::Write).await?)?;
        let Some(written) = written else {
            return Ok(None);
        };
        if matches!(written, WriteReply::Conflict(None)) && !self.is_up_to_date(keys).await? {
            return Ok(None);
        }
        if commit.expected.is_none() && matches!(written, WriteReply::Done { .. }) {
            self.tell_names(keys).await;
        }
        Ok(Some(match written {
            WriteReply::Done { joined } => {
                self.note_seen(id, commit.next.epoch, joined);
                CommitOutcome::Done { joined }
            }
            WriteReply::Conflict(newer) => CommitOutcome::Conflict(newer),
        }))
    }

    /// Notes the name of a room that is about to be made; answers with the trace that all names share.
    async fn note_name(&self, keys: &Keys, id: &RoomId) -> ContentResult<Option<Trace>> {
        let command =
            Command::script(&KeyScope::Store, &NOTE_NAME).key(keys.content_number()).key(keys.restoring());
        let command = command.key(keys.names()).key(keys.shared_trace()).arg(keys.content()).arg(id.as_str());
        let mut parts = Parts::of(self.connections.one(command, Intent::Read).await?)?;
        if parts.next::<i64>()? == FROZEN {
            return Ok(None);
        }
        Ok(Some(trace_of([parts.next()?, parts.next()?, parts.next()?])))
    }

    /// Tells everybody that a room was made or deleted. It has happened, so what fails here is found out later.
    async fn tell_names(&self, keys: &Keys) {
        let store = KeyScope::Store;
        let changed = Command::plain(&store, "HINCRBY").arg(keys.numbers()).arg("names").arg(1);
        let published = Command::plain(&store, "SPUBLISH").arg(keys.notifications(&store)).arg("names");
        if let Err(error) =
            self.connections.all(&[changed, published], Intent::Read, CommandTimeout::Short).await
        {
            tracing::debug!(%error, "notifying other nodes of a created or deleted room failed");
        }
    }

    pub(super) async fn join(&self, keys: &Keys, batch: &JoinBatch) -> ContentResult<JoinOutcome> {
        let id = &batch.room;
        let command = Command::script(&id.into(), &JOIN).key(keys.room(id)).key(keys.taken_positions(id));
        let mut command =
            command.key(keys.node(id, batch.node)).arg(self.may_ask()).arg(batch.number).arg(batch.epoch);
        command.push(digits_of(batch.lineage));
        command.push(batch.count);
        command.push(MAX_POSITION);
        self.push_seen(&mut command, id);
        let Some(written) = self.read_write_reply(id, self.connections.one(command, Intent::Write).await?)?
        else {
            return Ok(None);
        };
        if matches!(written, WriteReply::Conflict(None)) && !self.is_up_to_date(keys).await? {
            return Ok(None);
        }
        Ok(Some(match written {
            WriteReply::Done { joined } => {
                self.note_seen(id, batch.epoch, joined);
                JoinOutcome::Joined { first: joined + 1 - batch.count }
            }
            WriteReply::Conflict(newer) => JoinOutcome::Conflict(newer),
        }))
    }

    pub(super) async fn delete_room(
        &self,
        keys: &Keys,
        deletion: &Deletion,
    ) -> ContentResult<DeletionOutcome> {
        let id = &deletion.room;
        let Some(snapshot) = self.load(keys, id, NodeId(0)).await? else { return Ok(None) };
        let Some(room) =
            snapshot.map(|snapshot| snapshot.room).filter(|room| room.version == deletion.expected)
        else {
            return Ok(Some(DeletionOutcome::Conflict));
        };
        let scope = KeyScope::from(id);
        let mut command =
            Command::script(&scope, &DELETE).key(keys.room(id)).key(keys.trace(id)).key(keys.records(&scope));
        for key in keys_of_room(keys, id, &room) {
            command = command.key(key);
        }
        command = command.arg(deletion.expected).arg(keys.notifications(&scope));
        if let Some(record) = &deletion.audit {
            command = command.arg(AUDIT).arg(self.seal_record(&codec::encode_audit(record)));
        }
        command = self.with_events(command, &deletion.events);
        let mut parts = Parts::of(self.connections.one(command, Intent::Write).await?)?;
        match parts.next::<i64>()? {
            FROZEN => Ok(None),
            1 => {
                self.tell_names(keys).await;
                self.bound_traces(keys).await;
                Ok(Some(DeletionOutcome::Done))
            }
            _ => Ok(Some(DeletionOutcome::Conflict)),
        }
    }

    /// Looks for a kept answer, and keeps this one if there is none.
    pub(super) async fn keep_answer(
        &self,
        keys: &Keys,
        room: &RoomId,
        key: &AnswerKey,
        new: Option<(&[u8], Duration)>,
    ) -> ContentResult<Option<Vec<u8>>> {
        let command = Command::script(&room.into(), &KEEP_ANSWER).key(&keys.answers(room)[..]).arg(&key[..]);
        // Sealed or not, an answer that is kept is never empty: a mark stands before it.
        let (answer, kept) = new.map_or((vec![], Duration::ZERO), |(answer, kept)| {
            (self.seal_record(&[&[ANSWER_MARK], answer].concat()), kept)
        });
        let millis = u64::try_from(kept.as_millis()).unwrap_or(u64::MAX).max(1);
        let command = command.arg(answer).arg(millis).arg(ANSWERS_MAX);
        let before: Option<Vec<u8>> = read(self.connections.one(command, Intent::Write).await?)?;
        let Some(before) = before else {
            return Ok(Some(None));
        };
        let before = self.open_record(&before, "answer")?;
        Ok(Some(before.strip_prefix(&[ANSWER_MARK]).map(<[u8]>::to_vec)))
    }

    fn commit_command(&self, keys: &Keys, commit: &Commit, shared: Option<Trace>) -> Command {
        let id = &commit.room;
        let scope = KeyScope::from(id);
        let (newest, closed) = (commit.next.newest(), &commit.effects.closed_generations);
        let of_sessions = commit.effects.sessions.iter().map(|session| session.key.generation);
        let all = commit.next.segments.iter().map(|segment| segment.generation).chain(of_sessions);
        let lines: BTreeSet<Generation> = all.filter(|generation| !closed.contains(generation)).collect();
        let lines: Vec<Generation> = lines.into_iter().collect();
        let mut command = Command::script(&scope, &COMMIT).key(keys.room(id)).key(keys.taken_positions(id));
        command = command.key(keys.node(id, commit.node)).key(keys.records(&scope)).key(keys.trace(id));
        for &generation in &lines {
            command = command.key(&keys.line(id, generation)[..]);
        }
        command = command.arg(self.may_ask()).arg(commit.number);
        command = command.arg(commit.expected.map_or_else(String::new, |version| version.to_string()));
        command = command
            .arg(digits_of(commit.lineage))
            .arg(u8::from(commit.mends))
            .arg(u8::from(commit.opens_line));
        command = command.arg(newest.base).arg(commit.joined_before).arg(commit.joins()).arg(MAX_POSITION);
        command = command.arg(commit.next.version).arg(commit.next.epoch).arg(newest.generation.number());
        command = command.arg(self.seal_record(&codec::encode_room(&commit.next)));
        command = command.arg(commit.next.clock.0.saturating_sub(SESSION_RETENTION_MILLIS));
        command = match shared {
            Some(trace) => command.arg(trace.generation.number()).arg(trace.version).arg(trace.epoch),
            None => command.arg("").arg("").arg(""),
        };
        self.push_seen(&mut command, id);
        command = command.arg(keys.notifications(&scope)).arg("room");
        self.push_sessions(&mut command, commit, &lines);
        push_chunks(&mut command, keys, commit);
        self.push_records(&mut command, commit);
        command
    }

    fn push_sessions(&self, command: &mut Command, commit: &Commit, lines: &[Generation]) {
        let line_of =
            |session: &Session| lines.iter().position(|generation| *generation == session.key.generation);
        let sessions =
            commit.effects.sessions.iter().filter_map(|session| Some((line_of(session)? + 1, session)));
        let sessions: Vec<(usize, &Session)> = sessions.collect();
        command.push(sessions.len());
        for (line, session) in sessions {
            command.push(line);
            command.push(&session.key.position.get().to_be_bytes()[..]);
            command.push(self.seal_record(&codec::encode_session(session)));
            command.push(session.ends_at().0);
            command.push(u8::from(session.status == SessionStatus::Active));
        }
    }

    fn push_records(&self, command: &mut Command, commit: &Commit) {
        command.push(commit.effects.events.len() + commit.audit.len());
        for event in commit.events() {
            command.push(kind_of(&event));
            command.push(self.seal_record(&codec::encode_event(&event)));
        }
        for record in &commit.audit {
            command.push(AUDIT);
            command.push(self.seal_record(&codec::encode_audit(record)));
        }
    }
}

/// The kind of record that an event is.
pub(super) const fn kind_of(event: &StoredEvent) -> &'static str {
    match event.event.kind().class() {
        EventClass::Room => ROOM_EVENT,
        EventClass::Visitor => VISITOR_EVENT,
    }
}

/// Keys of a room beside its own hash, but those that go by themselves and what outlives it.
fn keys_of_room(keys: &Keys, id: &RoomId, room: &Room) -> Vec<String> {
    let lines = room.segments.iter().flat_map(|segment| keys.line(id, segment.generation));
    [keys.taken_positions(id), keys.lease(id)].into_iter().chain(keys.answers(id)).chain(lines).collect()
}

/// Chunks that changed, and what is to go with lines that are closed.
fn push_chunks(command: &mut Command, keys: &Keys, commit: &Commit) {
    let (id, closed) = (&commit.room, &commit.effects.closed_generations);
    let touched = commit.effects.touched_chunks.iter().filter(|(generation, _)| !closed.contains(generation));
    let touched: Vec<_> = touched.collect();
    command.push(touched.len());
    for &&(generation, index) in &touched {
        let segment = commit.next.segments.iter().find(|segment| segment.generation == generation);
        let chunk = segment.and_then(|segment| segment.taken.chunk(index)).map(codec::encode_chunk);
        command.push(&chunk_field(generation, index)[..]);
        command.push(chunk.as_ref().map_or(&[][..], |chunk| &chunk[..]));
    }
    command.push(closed.len());
    for generation in closed {
        command.push(&generation.number().to_be_bytes()[..]);
    }
    command.push(closed.len() * 3);
    for &generation in closed {
        command.push(&keys.line(id, generation)[..]);
    }
}

pub(super) fn generation_of(number: u64) -> Option<Generation> {
    let [.., incarnation] = number.to_be_bytes();
    Some(Generation { opened: u32::try_from(number >> 8).ok()?, incarnation })
}

pub(super) fn chunk_field(generation: Generation, index: u64) -> [u8; 16] {
    let mut field = [0; 16];
    field[..8].copy_from_slice(&generation.number().to_be_bytes());
    field[8..].copy_from_slice(&index.to_be_bytes());
    field
}

/// A room from its parts: the bytes of the last commit, the joins since, and its chunks with their fields.
fn room_of(state: &[u8], joined: u64, taken: &[Vec<u8>]) -> Result<Room, StoreError> {
    let damaged = || StoreError::Permanent("a stored room cannot be read".into());
    let mut room = codec::decode_room(state).map_err(|_| damaged())?;
    room.segments.back_mut().ok_or_else(damaged)?.joined = joined;
    for pair in taken.chunks_exact(2) {
        let (generation, index) = pair[0].split_at_checked(8).ok_or_else(damaged)?;
        let number = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).ok();
        let generation = number(generation).and_then(generation_of).ok_or_else(damaged)?;
        let index = number(index).ok_or_else(damaged)?;
        let bits: &[u8; 512] = pair[1].as_slice().try_into().map_err(|_| damaged())?;
        let chunk: Chunk = codec::decode_chunk(bits);
        if let Some(segment) = room.segments.iter_mut().find(|segment| segment.generation == generation) {
            segment.taken.restore(index, chunk);
        }
    }
    room.restore_moves();
    Ok(room)
}
