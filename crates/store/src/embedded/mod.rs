//! The embedded store: one redb file, one writer thread.
//!
//! Requests of all rooms queue up for the writer. It takes what is there, puts it into one transaction, syncs once, and only
//! then answers: no caller is answered before its write is durable, and a hundred writers pay for one fsync.
//!
//! A commit that fails is answered as ambiguous, because nobody can know what reached the disk; the database is opened again
//! from disk. If that fails too, or the next commit does, the store is not ready and says so, until one works again.

mod backup;
mod creation;
mod outbox;
mod restore;
mod schema;
mod tables;
mod transaction;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anteroom_core::{Generation, RequestId, RoomId, Session, SessionKey, UnixMillis};
use async_trait::async_trait;
use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::answers::Answers;
use crate::backup::BackupStream;
use crate::backup::restore::{Restore, RestoreError};
use crate::clock::Clock;
use crate::codec;
use crate::contract::{
    AnswerKey, AuditRecord, Commit, CommitOutcome, Cursor, Deletion, DeletionOutcome, JoinBatch, JoinOutcome,
    Lineage, NodeId, Notification, OutboxState, PollAnswer, RoomPoll, Snapshot, Store, StoreError,
    StoredEvent, Trace,
};
use crate::lease::Leases;
use backup::{BACKUPS_MAX, Backup};
use outbox::OutboxChange;
pub use schema::SCHEMA_VERSION;
use schema::{FirstOpen, SCHEMA_VALUE, open_database};
use tables::{
    AUDIT, BY_END, CHUNKS, ENDING, LAST, LINES, ROOM_NUMBERS, ROOMS, RoomNumber, SESSIONS, TRACES, VALUES,
    read_trace, session_row_key,
};
use transaction::{EncodedCommit, EncodedEvent};
use writer::{Request, ValueNotes, Writer};

/// The file inside the data directory.
pub const FILE_NAME: &str = "anteroom.redb";
/// How many requests may wait for the writer.
pub const WRITER_QUEUE_MAX: usize = 4096;
/// How much of the file is kept in memory.
pub const CACHE_MAX_BYTES: usize = 64 << 20;
/// So many sessions are read on the thread of the caller; more on one that may block.
const SESSIONS_READ_AT_ONCE: usize = 16;
/// What a disk has acknowledged it keeps, so there is one history.
const LINEAGE: Lineage = Lineage(0);

/// Something went wrong inside the database.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Database(#[from] redb::Error),
    #[error(transparent)]
    Corrupt(#[from] codec::Corrupt),
    /// The reader of a backup could not go on.
    #[error(transparent)]
    Other(#[from] StoreError),
}

macro_rules! failures {
    ($($kind:ty),+) => { $( impl From<$kind> for Failure {
        fn from(error: $kind) -> Self { Self::Database(error.into()) }
    } )+ };
}
failures!(redb::TableError, redb::StorageError, redb::TransactionError, redb::CommitError);

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Database(error) => Self::Transient(error.to_string()),
            Failure::Corrupt(error) => Self::Permanent(error.to_string()),
            Failure::Other(error) => error,
        }
    }
}

/// Why the database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory cannot be made.
    #[error("cannot create the data directory {}: {reason}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: std::io::Error,
    },
    /// The file cannot be made in it.
    #[error("cannot create the database in {}: {reason}", path.display())]
    Create {
        /// In which directory.
        path: PathBuf,
        /// Why.
        reason: std::io::Error,
    },
    /// Another process has it.
    #[error("the database is in use by another process")]
    InUse,
    /// A newer program wrote it.
    #[error(
        "the database was written by a newer version (schema {found}, this program knows {SCHEMA_VERSION}); use that version"
    )]
    Newer {
        /// Its schema version.
        found: u32,
    },
    /// Anything else.
    #[error("cannot open the database: {0}")]
    Other(String),
}

type Opener = dyn Fn() -> Result<Database, redb::DatabaseError> + Send + Sync;
type SharedDatabase = Arc<RwLock<Option<Arc<Database>>>>;

/// A store in one file.
pub struct EmbeddedStore {
    database: SharedDatabase,
    requests: Option<mpsc::Sender<Request>>,
    ready: Arc<AtomicBool>,
    writer: Option<std::thread::JoinHandle<()>>,
    reopenings: watch::Receiver<u64>,
    backups: Arc<Semaphore>,
    leases: Leases<RoomId>,
    works: Leases<String>,
    /// How often everything was replaced; raised by the writer.
    restores: Arc<AtomicU64>,
    answers: Answers,
    values_replaced: AtomicU64,
    names_changed: AtomicU64,
}

impl EmbeddedStore {
    /// Opens or creates the store in a directory.
    pub fn open(directory: &Path, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        creation::private_directory(directory)
            .map_err(|reason| OpenError::Directory { path: directory.to_owned(), reason })?;
        let unique = format!("{}-{}", std::process::id(), clock.now().0);
        creation::create_if_missing(directory, &unique)
            .map_err(|reason| OpenError::Create { path: directory.to_owned(), reason })?;
        let file = directory.join(FILE_NAME);
        Self::open_with(
            Box::new(move || Database::builder().set_cache_size(CACHE_MAX_BYTES).open(&file)),
            clock,
        )
    }

    /// Opens the store by a function that opens its database, which is called again after a failed commit. That the database
    /// comes into being whole or not at all is the function's business.
    pub fn open_with(
        opener: Box<dyn Fn() -> Result<Database, redb::DatabaseError> + Send + Sync>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        let database = open_database(&*opener, FirstOpen::Yes)?;
        let database: SharedDatabase = Arc::new(RwLock::new(Some(Arc::new(database))));
        let ready = Arc::new(AtomicBool::new(true));
        let (requests, queue) = mpsc::channel(WRITER_QUEUE_MAX);
        let restores = Arc::new(AtomicU64::new(0));
        let (reopened, reopenings) = watch::channel(0);
        let writer = Writer {
            database: database.clone(),
            opener,
            queue,
            ready: ready.clone(),
            clock,
            reopened,
            restores: Arc::clone(&restores),
        };
        let writer = std::thread::Builder::new()
            .name("anteroom-writer".into())
            .spawn(move || writer.run())
            .map_err(|error| OpenError::Other(error.to_string()))?;
        let backups = Arc::new(Semaphore::new(BACKUPS_MAX));
        Ok(Self {
            database,
            requests: Some(requests),
            ready,
            writer: Some(writer),
            reopenings,
            backups,
            leases: Leases::default(),
            works: Leases::default(),
            restores,
            answers: Answers::default(),
            values_replaced: AtomicU64::new(0),
            names_changed: AtomicU64::new(0),
        })
    }

    fn database(&self) -> Result<Arc<Database>, StoreError> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner).clone();
        database.ok_or_else(|| {
            // Lost by a failure. The writer opens it again; a full queue already holds a request that does so.
            let _ = self.requests.as_ref().map(|requests| requests.try_send(Request::Reopen));
            StoreError::Transient("the database is not open".into())
        })
    }

    fn read<T>(&self, work: impl FnOnce(&ReadTransaction) -> Result<T, Failure>) -> Result<T, StoreError> {
        let database = self.database()?;
        let transaction = database.begin_read().map_err(Failure::from)?;
        Ok(work(&transaction)?)
    }

    async fn ask<T, E: From<StoreError>>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, E>>) -> Request,
    ) -> Result<T, E> {
        let (answer, answered) = oneshot::channel();
        let requests =
            self.requests.as_ref().ok_or_else(|| StoreError::Permanent("the store is closed".into()))?;
        requests.try_send(request(answer)).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => StoreError::Transient("the writer's queue is full".into()),
            mpsc::error::TrySendError::Closed(_) => StoreError::Permanent("the writer has ended".into()),
        })?;
        answered.await.unwrap_or_else(|_| Err(StoreError::Ambiguous("the writer has ended".into()).into()))
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        // Closing the queue ends the writer once it has answered what it holds.
        self.requests = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// A room as its tables have it.
fn read_snapshot(
    rooms: &impl ReadableTable<RoomNumber, &'static [u8]>,
    lines: &impl ReadableTable<RoomNumber, (u64, u64, u64)>,
    last: &impl ReadableTable<tables::NodeKey, (u64, u64)>,
    chunks: &impl ReadableTable<tables::ChunkKey, &'static [u8; 512]>,
    number: RoomNumber,
    node: NodeId,
) -> Result<Option<Snapshot>, Failure> {
    let Some(bytes) = rooms.get(number)? else {
        return Ok(None);
    };
    let mut room = codec::decode_room(bytes.value())?;
    if let Some(line) = lines.get(number)? {
        room.segments.back_mut().expect("a decoded room has a segment").joined = line.value().0;
    }
    for segment in &mut room.segments {
        let Generation { opened, incarnation } = segment.generation;
        let range = (number, opened, incarnation, 0)..=(number, opened, incarnation, u64::MAX);
        for entry in chunks.range(range)? {
            let (place, bytes) = entry?;
            segment.taken.restore(place.value().3, codec::decode_chunk(bytes.value()));
        }
    }
    room.restore_moves();
    let last_number = last.get((number, node.0))?.map(|last| last.value().0);
    Ok(Some(Snapshot { room, last_number, lineage: LINEAGE, is_continuous: true }))
}

/// Sessions in the order asked for.
fn read_sessions(
    transaction: &ReadTransaction,
    room: &RoomId,
    keys: &[SessionKey],
) -> Result<Vec<Option<Session>>, Failure> {
    let Some(number) = number_of(transaction, room)? else {
        return Ok(vec![None; keys.len()]);
    };
    let sessions = transaction.open_table(SESSIONS)?;
    let read = |&key: &SessionKey| {
        let stored = sessions.get(session_row_key(number, key))?;
        Ok(stored.map(|bytes| codec::decode_session(bytes.value())).transpose()?)
    };
    keys.iter().map(read).collect()
}

fn number_of(transaction: &ReadTransaction, room: &RoomId) -> Result<Option<RoomNumber>, Failure> {
    Ok(transaction.open_table(ROOM_NUMBERS)?.get(room.as_str())?.map(|number| number.value()))
}

/// The places of one generation in an index by end, up to and including `until`.
fn ends_until(
    room: RoomNumber,
    generation: Generation,
    until: u64,
) -> std::ops::RangeInclusive<tables::EndKey> {
    let Generation { opened, incarnation } = generation;
    (room, opened, incarnation, 0, 0)..=(room, opened, incarnation, until, u64::MAX)
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn rooms(&self) -> Result<Vec<RoomId>, StoreError> {
        self.read(|transaction| {
            let numbers = transaction.open_table(ROOM_NUMBERS)?;
            let mut rooms = vec![];
            for entry in numbers.iter()? {
                rooms.extend(RoomId::parse(entry?.0.value()).ok());
            }
            Ok(rooms)
        })
    }

    async fn load(&self, room: &RoomId, node: NodeId) -> Result<Option<Snapshot>, StoreError> {
        self.read(|transaction| {
            let Some(number) = number_of(transaction, room)? else {
                return Ok(None);
            };
            let rooms = transaction.open_table(ROOMS)?;
            let lines = transaction.open_table(LINES)?;
            let last = transaction.open_table(LAST)?;
            let chunks = transaction.open_table(CHUNKS)?;
            read_snapshot(&rooms, &lines, &last, &chunks, number, node)
        })
    }

    async fn commit(&self, commit: &Commit) -> Result<CommitOutcome, StoreError> {
        let encoded = Box::new(EncodedCommit::new(commit));
        let outcome = self.ask(|answer| Request::Commit { encoded, answer }).await;
        self.names_changed.fetch_add(u64::from(commit.expected.is_none()), Ordering::Relaxed);
        outcome
    }

    async fn delete_room(&self, deletion: &Deletion) -> Result<DeletionOutcome, StoreError> {
        let deletion = Box::new(deletion.clone());
        let outcome = self.ask(|answer| Request::Delete { deletion, answer }).await;
        self.names_changed.fetch_add(1, Ordering::Relaxed);
        outcome
    }

    async fn trace(&self, room: &RoomId) -> Result<Option<Trace>, StoreError> {
        self.read(|transaction| read_trace(&transaction.open_table(TRACES)?, room.as_str()))
    }

    async fn join(&self, batch: &JoinBatch) -> Result<JoinOutcome, StoreError> {
        let batch = batch.clone();
        self.ask(|answer| Request::Join { batch, answer }).await
    }

    /// A turn of a room reads thousands of them: in one transaction, and on no thread that others wait for.
    async fn sessions(&self, room: &RoomId, keys: &[SessionKey]) -> Result<Vec<Option<Session>>, StoreError> {
        if keys.len() <= SESSIONS_READ_AT_ONCE {
            return self.read(|transaction| read_sessions(transaction, room, keys));
        }
        let (database, room, keys) = (self.database()?, room.clone(), keys.to_vec());
        let reading = tokio::task::spawn_blocking(move || -> Result<_, StoreError> {
            let transaction = database.begin_read().map_err(Failure::from)?;
            Ok(read_sessions(&transaction, &room, &keys)?)
        });
        reading.await.map_err(|_| StoreError::Transient("the sessions were not read".into()))?
    }

    async fn session(&self, room: &RoomId, key: SessionKey) -> Result<Option<Session>, StoreError> {
        let found = self.read(|transaction| read_sessions(transaction, room, &[key]))?;
        Ok(found.into_iter().next().flatten())
    }

    async fn sessions_ended(
        &self,
        room: &RoomId,
        generations: &[Generation],
        until: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError> {
        self.read(|transaction| {
            let Some(number) = number_of(transaction, room)? else {
                return Ok(vec![]);
            };
            let ending = transaction.open_table(ENDING)?;
            let sessions = transaction.open_table(SESSIONS)?;
            let mut places = vec![];
            for &generation in generations {
                for entry in ending.range(ends_until(number, generation, until.0))?.take(limit) {
                    places.push(entry?.0.value());
                }
            }
            // The index is in order within a generation; the earliest end of all comes first.
            places
                .sort_by_key(|&(_, opened, incarnation, end, position)| (end, opened, incarnation, position));
            let mut ended = vec![];
            for (room, opened, incarnation, _, position) in places.into_iter().take(limit) {
                if let Some(bytes) = sessions.get((room, opened, incarnation, position))? {
                    ended.push(codec::decode_session(bytes.value())?);
                }
            }
            Ok(ended)
        })
    }

    async fn next_session_end(
        &self,
        room: &RoomId,
        generations: &[Generation],
    ) -> Result<Option<UnixMillis>, StoreError> {
        self.read(|transaction| {
            let Some(number) = number_of(transaction, room)? else {
                return Ok(None);
            };
            let ending = transaction.open_table(ENDING)?;
            let mut next: Option<UnixMillis> = None;
            for &generation in generations {
                if let Some(entry) = ending.range(ends_until(number, generation, u64::MAX))?.next() {
                    let end = UnixMillis(entry?.0.value().3);
                    next = Some(next.map_or(end, |next| next.min(end)));
                }
            }
            Ok(next)
        })
    }

    async fn expired_passes(
        &self,
        room: &RoomId,
        generations: &[Generation],
        before: UnixMillis,
    ) -> Result<Vec<RequestId>, StoreError> {
        let Some(until) = before.0.checked_sub(1) else {
            return Ok(vec![]);
        };
        self.read(|transaction| {
            let Some(number) = number_of(transaction, room)? else {
                return Ok(vec![]);
            };
            let by_end = transaction.open_table(BY_END)?;
            let mut expired = vec![];
            for &generation in generations {
                for entry in by_end.range(ends_until(number, generation, until))? {
                    expired.push(RequestId(*entry?.1.value()));
                }
            }
            Ok(expired)
        })
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<(u64, StoredEvent)>, StoreError> {
        self.read(|transaction| {
            let mut events = vec![];
            for entry in outbox::read(transaction, after)?.take(limit) {
                let (number, bytes) = entry?;
                events.push((number, codec::decode_event(number, &bytes)?));
            }
            Ok(events)
        })
    }

    async fn outbox(&self) -> Result<OutboxState, StoreError> {
        let mut state = self.read(outbox::state)?;
        state.history = self.restores.load(Ordering::Acquire);
        Ok(state)
    }

    async fn append_events(&self, events: &[StoredEvent]) -> Result<(), StoreError> {
        let change = OutboxChange::Append(events.iter().map(EncodedEvent::of).collect());
        self.ask(|answer| Request::Outbox { change: Box::new(change), answer }).await
    }

    async fn drop_events(&self, through: u64) -> Result<(), StoreError> {
        self.ask(|answer| Request::Outbox { change: Box::new(OutboxChange::Drop { through }), answer }).await
    }

    /// One process has the file, so all of its work is this node's, and of several in one process that of the first that asks.
    async fn hold_work(&self, work: &str, node: NodeId, lease: Duration) -> Result<bool, StoreError> {
        Ok(self.works.take(&work.to_owned(), node, lease))
    }

    async fn save_cursor(
        &self,
        name: &str,
        node: NodeId,
        history: u64,
        cursor: &Cursor,
    ) -> Result<bool, StoreError> {
        if !self.works.is_held(&name.to_owned(), node) || self.restores.load(Ordering::Acquire) != history {
            return Ok(false);
        }
        // A restore may be done before it is this one's turn.
        let guard = Some((Arc::clone(&self.restores), history));
        let change = OutboxChange::SetCursor { name: name.to_owned(), bytes: Some(cursor.to_bytes()), guard };
        self.ask(|answer| Request::Outbox { change: Box::new(change), answer }).await?;
        Ok(self.restores.load(Ordering::Acquire) == history)
    }

    async fn delete_cursor(&self, name: &str) -> Result<(), StoreError> {
        let change = OutboxChange::SetCursor { name: name.to_owned(), bytes: None, guard: None };
        self.ask(|answer| Request::Outbox { change: Box::new(change), answer }).await
    }

    async fn audit(
        &self,
        before: Option<u64>,
        room: Option<&RoomId>,
        limit: usize,
    ) -> Result<Vec<(u64, AuditRecord)>, StoreError> {
        self.read(|transaction| {
            let audit = transaction.open_table(AUDIT)?;
            let mut earlier = audit.range(..before.unwrap_or(u64::MAX))?.rev();
            let mut records = vec![];
            while records.len() < limit
                && let Some(entry) = earlier.next()
            {
                let (number, bytes) = entry?;
                let record = codec::decode_audit(bytes.value())?;
                if room.is_none() || record.room.as_ref() == room {
                    records.push((number.value(), record));
                }
            }
            Ok(records)
        })
    }

    async fn value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|transaction| {
            Ok(transaction.open_table(VALUES)?.get(name)?.map(|bytes| bytes.value().to_vec()))
        })
    }

    async fn replace_value_and_tell(
        &self,
        name: &str,
        expected: Option<&[u8]>,
        new: &[u8],
        audit: Option<&AuditRecord>,
        events: &[StoredEvent],
    ) -> Result<bool, StoreError> {
        let (name, expected, new) = (name.to_owned(), expected.map(<[u8]>::to_vec), new.to_vec());
        let events = events.iter().map(EncodedEvent::of).collect();
        let notes = Box::new(ValueNotes { audit: audit.cloned(), events });
        let request = |answer| Request::ReplaceValue { name, expected, new, notes, answer };
        let outcome = self.ask(request).await;
        self.values_replaced.fetch_add(1, Ordering::Relaxed);
        outcome
    }

    async fn backup(&self, taken_at: UnixMillis) -> Result<BackupStream, StoreError> {
        let busy = |_| StoreError::Transient(format!("{BACKUPS_MAX} backups are being taken already"));
        let permit = self.backups.clone().try_acquire_owned().map_err(busy)?;
        let mut reopenings = self.reopenings.clone();
        // Before the database is taken, so that no reopening after it is missed.
        reopenings.mark_unchanged();
        let database = self.database()?;
        let (pieces, stream) = BackupStream::new();
        let runtime = tokio::runtime::Handle::current();
        let backup = Backup { database, pieces, reopenings, runtime, permit };
        tokio::task::spawn_blocking(move || backup.run(taken_at));
        Ok(stream)
    }

    async fn restore(&self, restore: Restore) -> Result<(), RestoreError> {
        let restore = Box::new(restore);
        let outcome = self.ask(|answer| Request::Restore { restore, answer }).await;
        self.names_changed.fetch_add(1, Ordering::Relaxed);
        self.values_replaced.fetch_add(1, Ordering::Relaxed);
        outcome
    }

    async fn poll(&self, rooms: &[RoomId], node: NodeId, lease: Duration) -> Result<PollAnswer, StoreError> {
        let mut polls = vec![];
        for id in rooms {
            let snapshot = self.load(id, node).await?;
            polls.push(snapshot.map(|Snapshot { room, lineage, is_continuous, .. }| RoomPoll {
                generation: room.newest().generation,
                version: room.version,
                joined: room.newest().joined,
                lineage,
                is_continuous,
                holds_lease: self.leases.take(id, node, lease),
            }));
        }
        let [values, names] =
            [&self.values_replaced, &self.names_changed].map(|counter| counter.load(Ordering::Relaxed));
        Ok(PollAnswer { rooms: polls, values, names })
    }

    async fn keep_answer(
        &self,
        room: &RoomId,
        key: AnswerKey,
        answer: &[u8],
        kept: Duration,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.answers.keep(room, key, answer, kept))
    }

    async fn kept_answer(&self, room: &RoomId, key: &AnswerKey) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.answers.find(room, key))
    }

    /// One process has the file, so nobody else does anything.
    fn subscribe(&self) -> mpsc::Receiver<Notification> {
        mpsc::channel(1).1
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn is_ready(&self) -> bool {
        let writer_lives = self.writer.as_ref().is_some_and(|writer| !writer.is_finished());
        writer_lives && self.ready.load(Ordering::Relaxed)
    }
}
