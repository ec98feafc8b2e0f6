//! A backup of a store in Redis, taken while it goes on working.
//!
//! Each room, with its chunks and sessions, is of one moment: one script reads all of it. Values are of one moment, too. The
//! moments of two rooms may differ, as nobody can look at several servers at once; events and audit come last, so whatever a
//! room of the backup tells of is in them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anteroom_core::{Generation, Room, RoomId, Session, UnixMillis};
use tokio::sync::mpsc;

use super::command::{Command, CommandTimeout, Intent};
use super::keys::{KeyScope, Keys};
use super::persistence::persist;
use super::reply::{Parts, read, strange};
use super::{Inner, tasks};
use crate::backup::{BackupStream, BackupWriter, Piece};
use crate::codec;
use crate::contract::{Cursor, NodeId, StoreError};

/// How often a room is read again because it opened a line meanwhile.
const ATTEMPTS_MAX: u32 = 100;
/// Nobody: a node that never writes.
pub(super) const NOBODY: NodeId = NodeId(0);

/// One room as of one moment.
pub(super) struct WholeRoom {
    pub(super) room: Room,
    pub(super) sessions: Vec<Session>,
}

type Pieces = mpsc::Sender<Result<Piece, StoreError>>;
type Sink = Box<dyn FnMut(Piece) -> Result<(), StoreError> + Send>;
type PieceBuffer = Arc<Mutex<Vec<Piece>>>;

impl Inner {
    pub(super) fn backup(self: &Arc<Self>, taken_at: UnixMillis) -> BackupStream {
        let (pieces, stream) = BackupStream::new();
        let inner = self.clone();
        drop(tasks::spawn(async move {
            if let Err(error) = inner.write_backup(taken_at, &pieces).await {
                tracing::warn!(%error, "backup failed");
                // The reader may have gone away.
                let _ = pieces.send(Err(error)).await;
            }
        }));
        stream
    }

    async fn write_backup(&self, taken_at: UnixMillis, pieces: &Pieces) -> Result<(), StoreError> {
        let replaced = || StoreError::Transient("the content of the store was replaced meanwhile".into());
        let keys = self.keys.load_full();
        let mut output = Output::begin(taken_at, pieces);
        let command = Command::plain(&KeyScope::Store, "HGETALL").arg(keys.values());
        let values: BTreeMap<String, Vec<u8>> =
            read(persist!(self.connections.one(command.clone(), Intent::Read))?)?;
        for (name, bytes) in &values {
            if Cursor::is_value_name(name) {
                // Another store may seal with another key, or not at all.
                output.writer.value(name, &self.open_record(bytes, "cursor")?)?;
            } else {
                output.writer.value(name, bytes)?;
            }
        }
        let names = persist!(self.names(&keys))?;
        for (name, trace) in self.traces(&keys, &names).await? {
            output.writer.trace(&name, trace)?;
        }
        for id in &names {
            let Some(WholeRoom { room, sessions }) = self.whole_room(&keys, id).await? else {
                continue;
            };
            output.writer.room(id.as_str(), &codec::encode_room(&room))?;
            for segment in &room.segments {
                for (index, chunk) in segment.taken.chunks() {
                    output.writer.chunk(segment.generation, index, &codec::encode_chunk(chunk))?;
                }
            }
            for session in &sessions {
                output.writer.session(&codec::encode_session(session))?;
            }
            output.send().await?;
        }
        for (number, event) in persist!(self.events(&keys, 0, usize::MAX))?.ok_or_else(replaced)? {
            output.writer.event(number, &codec::encode_event(&event))?;
        }
        let mut audit = persist!(self.audit(&keys, None, None, usize::MAX))?.ok_or_else(replaced)?;
        audit.reverse();
        for (number, record) in audit {
            output.writer.audit(number, &codec::encode_audit(&record))?;
        }
        output.finish().await
    }

    /// Everything of a room, as of one moment; frozen or not.
    pub(super) async fn whole_room(&self, keys: &Keys, id: &RoomId) -> Result<Option<WholeRoom>, StoreError> {
        let mut lines: Vec<Generation> = vec![];
        for _ in 0..ATTEMPTS_MAX {
            let mut command = self.load_command(keys, id, NOBODY, true);
            for &line in &lines {
                command = command.key(keys.sessions(id, line));
            }
            let command = [command];
            let mut answers = persist!(self.connections.all(&command, Intent::Read, CommandTimeout::Long))?;
            let mut parts = Parts::of(answers.pop().ok_or_else(strange)?)?;
            let Some(snapshot) = self.snapshot_of(id, Parts::of(parts.next_value()?)?)? else {
                return Ok(None);
            };
            let room = snapshot.room;
            let present: Vec<Generation> = room.segments.iter().map(|segment| segment.generation).collect();
            if present == lines {
                let mut sessions = vec![];
                for line in parts.rest() {
                    for sealed in read::<Vec<Vec<u8>>>(line)? {
                        sessions.push(self.session_of(&sealed)?);
                    }
                }
                sessions.sort_by_key(|session| session.key);
                return Ok(Some(WholeRoom { room, sessions }));
            }
            lines = present;
        }
        Err(StoreError::Transient("a room opens lines faster than it can be read".into()))
    }
}

/// A backup in flight: pieces are kept until they can be sent.
struct Output<'a> {
    writer: BackupWriter<Sink>,
    written: PieceBuffer,
    pieces: &'a Pieces,
}

impl<'a> Output<'a> {
    fn begin(taken_at: UnixMillis, pieces: &'a Pieces) -> Self {
        let written = PieceBuffer::default();
        let kept = written.clone();
        let sink = Box::new(move |piece| {
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(piece);
            Ok(())
        });
        Self { writer: BackupWriter::begin(taken_at, sink), written, pieces }
    }

    async fn send(&mut self) -> Result<(), StoreError> {
        send(&self.written, self.pieces).await
    }

    async fn finish(self) -> Result<(), StoreError> {
        let Self { writer, written, pieces } = self;
        writer.finish()?;
        send(&written, pieces).await
    }
}

async fn send(written: &PieceBuffer, pieces: &Pieces) -> Result<(), StoreError> {
    let written = std::mem::take(&mut *written.lock().unwrap_or_else(PoisonError::into_inner));
    for piece in written {
        let gone = |_| StoreError::Transient("nobody reads the backup any more".into());
        pieces.send(Ok(piece)).await.map_err(gone)?;
    }
    Ok(())
}
