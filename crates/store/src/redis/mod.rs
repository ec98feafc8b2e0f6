//! The store in Redis or Valkey: several nodes share it. It remembers and compares; no rule of admission is in a script.
//!
//! *Path of a commit:* [`rooms`] writes it as one script call for the keys of one room ([`keys`]); [`connection`] sends it to the server
//! that has them, once; the script (`scripts/commit.lua`) compares number, lineage, version and trace, and writes all or nothing. Where it
//! conflicts, its answer is the newer snapshot.
//!
//! *Contents.* All keys carry the number of a content. A restore freezes the rooms of the present content, writes the
//! next one beside it, and switches. A node that meets a frozen room, or finds nothing where something was, looks up
//! which content counts.

mod address;
mod backup;
mod buckets;
mod clock;
mod command;
mod confirm;
mod connection;
mod content;
mod keys;
mod notifications;
mod open;
mod options;
mod persistence;
mod poll;
mod records;
mod reply;
mod restore;
mod rooms;
mod sessions;
mod slot;
mod tasks;
mod traces;
mod values;

use std::collections::{BTreeMap, HashMap};
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering as Atomically};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anteroom_core::{Generation, RequestId, RoomId, Session, SessionKey, UnixMillis};
use arc_swap::ArcSwap;
use async_trait::async_trait;
use tokio::sync::mpsc;

pub use self::address::{RedisUrl, RedisUrlError};
pub use self::buckets::RedisBuckets;
pub use self::options::{DEFAULT_PREFIX, Guarantee, Ordering, RedisCertificates, RedisOptions, Replicas};

use self::clock::StoreClock;
use self::command::{Command, CommandTimeout, Intent, THAW};
use self::confirm::ConfirmationQueues;
use self::connection::Connections;
use self::keys::{KeyScope, Keys};
use self::notifications::Subscriptions;
use self::tasks::Tasks;
use crate::backup::BackupStream;
use crate::backup::restore::{Restore, RestoreError};
use crate::clock::Clock;
use crate::contract::{
    AnswerKey, AuditRecord, Commit, CommitOutcome, Cursor, Deletion, DeletionOutcome, JoinBatch, JoinOutcome,
    Lineage, NodeId, Notification, OutboxState, PollAnswer, Snapshot, Store, StoreError, StoredEvent, Trace,
};
use crate::seal::Seal;

/// What was asked of one content; `None` if that content does not count any more, or is being replaced.
type ContentResult<T> = Result<Option<T>, StoreError>;

/// How often something is asked again because the content was another.
const CONTENTS_MAX: u32 = 3;

/// A store that several nodes share.
pub struct RedisStore {
    inner: Arc<Inner>,
    _tasks: Tasks,
}

struct Inner {
    connections: Arc<Connections>,
    keys: ArcSwap<Keys>,
    seal: Arc<dyn Seal>,
    is_cluster: bool,
    /// Whether the server lets us ask for its replication id.
    may_ask_lineage: bool,
    clock: Arc<StoreClock>,
    subscriptions: Arc<Subscriptions>,
    confirmations: ConfirmationQueues,
    replicas: Replicas,
    /// Whether there ever were replicas.
    replicas_seen: AtomicBool,
    /// Whether that is noted in the store, for nodes that open it later.
    replicas_noted: AtomicBool,
    /// What tells that the store has not been emptied.
    mark: Mutex<String>,
    /// Values as last read or written.
    remembered: Mutex<BTreeMap<String, Vec<u8>>>,
    /// How far lines have come, by room and epoch; needed where no lineage protects them.
    seen: Mutex<HashMap<RoomId, (u64, u64)>>,
    collecting: tokio::sync::Mutex<()>,
}

/// Asks something of the content that counts, and again if it was another meanwhile.
macro_rules! in_content {
    ($store:expr, $rooms:expr, $keys:ident => $question:expr) => {{
        let mut tries = 0;
        loop {
            let $keys = $store.inner.keys.load_full();
            if let Some(answer) = $question.await? {
                break answer;
            }
            tries += 1;
            $store.inner.look_up_content(&$keys, $rooms, tries).await?;
        }
    }};
}

impl RedisStore {
    /// Connects, finds out whether the server is fit for it, and which content counts.
    pub async fn open(options: &RedisOptions) -> Result<Self, StoreError> {
        open::open(options).await
    }

    /// See [`OutboxState::history`].
    async fn outbox_history(&self) -> Result<u64, StoreError> {
        Ok(in_content!(self, &[], keys => self.inner.outbox_history(&keys)))
    }

    /// How many times something was sent to a server.
    pub fn calls(&self) -> u64 {
        self.inner.connections.calls()
    }

    /// What uniqueness of positions across a failover rests on.
    pub fn guarantee(&self) -> Guarantee {
        if self.inner.may_ask_lineage { Guarantee::Full } else { Guarantee::Downgraded }
    }
}

impl Inner {
    fn may_ask(&self) -> u8 {
        u8::from(self.may_ask_lineage)
    }

    fn seal_record(&self, plain: &[u8]) -> Vec<u8> {
        self.seal.seal(plain)
    }

    fn open_record(&self, sealed: &[u8], what: &str) -> Result<Vec<u8>, StoreError> {
        let unreadable = || StoreError::Permanent(format!("a stored {what} was sealed with other secrets"));
        self.seal.open(sealed).ok_or_else(unreadable)
    }

    fn mark(&self) -> String {
        self.mark.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn move_to(&self, content: u64) {
        tracing::warn!(content, "store content was replaced by a restore");
        self.keys.store(Arc::new(self.keys.load().of_content(content)));
        // What was remembered of the other one must never come back.
        self.remember_only(BTreeMap::new());
    }

    /// Whether something that is not there may be believed not to be: another content may count.
    async fn is_up_to_date(&self, keys: &Keys) -> Result<bool, StoreError> {
        let state = self.connections.one(self.store_command(keys), Intent::Read).await?;
        self.take_note(keys, &Self::store_state(state)?).await
    }

    /// What was asked for is frozen, or another content counts: finds out which, so that it can be asked again.
    async fn look_up_content(&self, keys: &Keys, rooms: &[RoomId], tries: u32) -> Result<(), StoreError> {
        let frozen =
            |room: &RoomId| Command::plain(&KeyScope::from(room), "HGET").arg(keys.room(room)).arg("f");
        let commands: Vec<Command> = rooms.iter().map(frozen).collect();
        let tokens = self.connections.all(&commands, Intent::Read, CommandTimeout::Short).await?;
        // Only after the tokens: a restore that is over by now does not freeze anything any more.
        let state = self.connections.one(self.store_command(keys), Intent::Read).await?;
        let state = Self::store_state(state)?;
        let is_as_before = self.take_note(keys, &state).await?;
        if tries >= CONTENTS_MAX || (is_as_before && !state.restoring.is_empty()) {
            return Err(StoreError::Transient("a backup is being restored".into()));
        }
        let mut thawing = vec![];
        for (room, token) in rooms.iter().zip(tokens) {
            if let Some(token) = reply::read::<Option<String>>(token)?.filter(|_| is_as_before) {
                tracing::warn!(room = room.as_str(), "restore was interrupted, unfreezing the room");
                thawing.push(Command::script(&room.into(), &THAW).key(keys.room(room)).arg(token));
            }
        }
        self.connections.all(&thawing, Intent::Read, CommandTimeout::Short).await?;
        Ok(())
    }

    fn clock_seconds(&self) -> u64 {
        self.clock.now().0 / 1_000
    }

    fn note_seen(&self, room: &RoomId, epoch: u64, joined: u64) {
        if self.may_ask_lineage {
            return;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = seen.entry(room.clone()).or_insert((epoch, joined));
        *known = (*known).max((epoch, joined));
    }

    /// How far a script must not fall behind.
    fn push_seen(&self, command: &mut Command, room: &RoomId) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(room).copied();
        match seen {
            Some((epoch, joined)) => {
                command.push(epoch);
                command.push(joined);
            }
            None => command.push(&["", ""]),
        }
    }

    fn needs_replicas(&self) -> u32 {
        match self.replicas {
            Replicas::Exactly(number) => number,
            Replicas::Auto => u32::from(self.replicas_seen.load(Atomically::Relaxed)),
        }
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn rooms(&self) -> Result<Vec<RoomId>, StoreError> {
        Ok(in_content!(self, &[], keys => self.inner.rooms(&keys)))
    }

    async fn load(&self, room: &RoomId, node: NodeId) -> Result<Option<Snapshot>, StoreError> {
        Ok(in_content!(self, slice::from_ref(room), keys => self.inner.load(&keys, room, node)))
    }

    async fn commit(&self, commit: &Commit) -> Result<CommitOutcome, StoreError> {
        Ok(in_content!(self, slice::from_ref(&commit.room), keys => self.inner.commit(&keys, commit)))
    }

    async fn delete_room(&self, deletion: &Deletion) -> Result<DeletionOutcome, StoreError> {
        Ok(
            in_content!(self, slice::from_ref(&deletion.room), keys => self.inner.delete_room(&keys, deletion)),
        )
    }

    async fn trace(&self, room: &RoomId) -> Result<Option<Trace>, StoreError> {
        Ok(in_content!(self, &[], keys => self.inner.trace(&keys, room)))
    }

    async fn join(&self, batch: &JoinBatch) -> Result<JoinOutcome, StoreError> {
        Ok(in_content!(self, slice::from_ref(&batch.room), keys => self.inner.join(&keys, batch)))
    }

    async fn sessions(&self, room: &RoomId, keys: &[SessionKey]) -> Result<Vec<Option<Session>>, StoreError> {
        let wanted = keys;
        Ok(in_content!(self, &[], keys => self.inner.sessions(&keys, room, wanted)))
    }

    async fn session(&self, room: &RoomId, key: SessionKey) -> Result<Option<Session>, StoreError> {
        Ok(self.sessions(room, &[key]).await?.pop().flatten())
    }

    async fn sessions_ended(
        &self,
        room: &RoomId,
        generations: &[Generation],
        until: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError> {
        Ok(in_content!(self, &[], keys => self.inner.sessions_ended(&keys, room, generations, until, limit)))
    }

    async fn next_session_end(
        &self,
        room: &RoomId,
        generations: &[Generation],
    ) -> Result<Option<UnixMillis>, StoreError> {
        Ok(in_content!(self, &[], keys => self.inner.next_session_end(&keys, room, generations)))
    }

    async fn expired_passes(
        &self,
        room: &RoomId,
        generations: &[Generation],
        before: UnixMillis,
    ) -> Result<Vec<RequestId>, StoreError> {
        Ok(in_content!(self, &[], keys => self.inner.expired_passes(&keys, room, generations, before)))
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<(u64, StoredEvent)>, StoreError> {
        Ok(in_content!(self, &[], keys => self.inner.events(&keys, after, limit)))
    }

    async fn audit(
        &self,
        before: Option<u64>,
        room: Option<&RoomId>,
        limit: usize,
    ) -> Result<Vec<(u64, AuditRecord)>, StoreError> {
        Ok(in_content!(self, &[], keys => self.inner.audit(&keys, before, room, limit)))
    }

    async fn value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(in_content!(self, &[], keys => self.inner.value(&keys, name)))
    }

    async fn outbox(&self) -> Result<OutboxState, StoreError> {
        Ok(in_content!(self, &[], keys => self.inner.outbox(&keys)))
    }

    async fn append_events(&self, events: &[StoredEvent]) -> Result<(), StoreError> {
        in_content!(self, &[], keys => self.inner.append_events(&keys, events));
        Ok(())
    }

    async fn drop_events(&self, through: u64) -> Result<(), StoreError> {
        in_content!(self, &[], keys => self.inner.drop_events(&keys, through));
        Ok(())
    }

    async fn hold_work(&self, work: &str, node: NodeId, lease: Duration) -> Result<bool, StoreError> {
        self.inner.hold_work(&self.inner.keys.load_full(), work, node, lease).await
    }

    async fn cursor(&self, name: &str) -> Result<Option<Cursor>, StoreError> {
        let sealed = self.value(&Cursor::value_name(name)).await?;
        sealed.map(|sealed| self.inner.open_cursor(&sealed)).transpose()
    }

    async fn save_cursor(
        &self,
        name: &str,
        node: NodeId,
        history: u64,
        cursor: &Cursor,
    ) -> Result<bool, StoreError> {
        if self.outbox_history().await? != history {
            return Ok(false);
        }
        Ok(in_content!(self, &[], keys => self.inner.save_cursor(&keys, name, node, cursor)))
    }

    async fn delete_cursor(&self, name: &str) -> Result<(), StoreError> {
        self.inner.delete_cursor(&self.inner.keys.load_full(), name).await
    }

    async fn replace_value_and_tell(
        &self,
        name: &str,
        expected: Option<&[u8]>,
        new: &[u8],
        audit: Option<&AuditRecord>,
        events: &[StoredEvent],
    ) -> Result<bool, StoreError> {
        Ok(
            in_content!(self, &[], keys => self.inner.replace_value(&keys, name, (expected, new), audit, events)),
        )
    }

    async fn backup(&self, taken_at: UnixMillis) -> Result<BackupStream, StoreError> {
        Ok(self.inner.backup(taken_at))
    }

    async fn restore(&self, restore: Restore) -> Result<(), RestoreError> {
        self.inner.restore(restore).await
    }

    async fn poll(&self, rooms: &[RoomId], node: NodeId, lease: Duration) -> Result<PollAnswer, StoreError> {
        Ok(in_content!(self, rooms, keys => self.inner.poll(&keys, rooms, node, lease)))
    }

    async fn keep_answer(
        &self,
        room: &RoomId,
        key: AnswerKey,
        answer: &[u8],
        kept: Duration,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(in_content!(self, &[], keys => self.inner.keep_answer(&keys, room, &key, Some((answer, kept)))))
    }

    async fn kept_answer(&self, room: &RoomId, key: &AnswerKey) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(in_content!(self, &[], keys => self.inner.keep_answer(&keys, room, key, None)))
    }

    async fn confirm(&self, room: &RoomId, lineage: Lineage) -> Result<(), StoreError> {
        self.inner.confirm(room, lineage).await
    }

    fn subscribe(&self) -> mpsc::Receiver<Notification> {
        self.inner.subscriptions.subscribe()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        Some(self.inner.clock.clone())
    }

    fn is_ready(&self) -> bool {
        self.inner.connections.is_ready()
    }
}
