//! A store in front of another, for tests. Each call passes one function, where it can be blocked, fail before or after it is
//! carried out, or be retried.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anteroom_core::{Generation, RequestId, RoomId, Session, SessionKey, UnixMillis};
use async_trait::async_trait;
use tokio::sync::{RwLock, RwLockWriteGuard, mpsc};

use crate::backup::BackupStream;
use crate::backup::restore::{Restore, RestoreError};
use crate::clock::{Clock, Stopwatch};
use crate::contract::{
    AnswerKey, AuditRecord, Commit, CommitOutcome, Cursor, Deletion, DeletionOutcome, JoinBatch, JoinOutcome,
    Lineage, NodeId, Notification, OutboxState, PollAnswer, Snapshot, Store, StoreError, StoredEvent, Trace,
};

/// How long a call is retried.
const RETRY_TIMEOUT: Duration = Duration::from_mins(3);
/// Time between two tries.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// What happens to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteFault {
    /// Nothing: it is carried out and answered.
    None,
    /// It fails before it is carried out. The caller gets an ambiguous error.
    LostRequest,
    /// It fails after it is carried out. The caller gets an ambiguous error.
    LostAnswer,
    /// The caller panics.
    Panic,
}

/// What a call does, as far as a test tells calls apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// A commit, a join, a deletion or a restore.
    Write,
    /// [`Store::load`].
    Load,
    /// [`Store::next_session_end`].
    NextSessionEnd,
    /// [`Store::session`] or [`Store::sessions`].
    Session,
    /// Any other call.
    Other,
}

/// A store in front of another that injects faults into its calls, or retries them.
pub struct FaultInjectingStore<Inner> {
    inner: Inner,
    writes: RwLock<()>,
    loads: RwLock<()>,
    next_fault: Mutex<Box<dyn FnMut() -> WriteFault + Send>>,
    retries: bool,
    /// Whether no write is confirmed.
    unconfirmed: AtomicBool,
    /// Reads of the session of this position panic; 0: none does.
    deadly_position: AtomicU64,
    calls: [AtomicU64; 5],
}

impl<Inner: Store> FaultInjectingStore<Inner> {
    /// One that does nothing to any call yet.
    pub fn new(inner: Inner) -> Self {
        Self {
            inner,
            writes: RwLock::default(),
            loads: RwLock::default(),
            next_fault: Mutex::new(Box::new(|| WriteFault::None)),
            retries: false,
            unconfirmed: AtomicBool::new(false),
            deadly_position: AtomicU64::new(0),
            calls: Default::default(),
        }
    }

    /// The same, where each write but a restore meets the fault that this returns for it.
    #[must_use]
    pub fn with_write_faults(self, next_fault: impl FnMut() -> WriteFault + Send + 'static) -> Self {
        Self { next_fault: Mutex::new(Box::new(next_fault)), ..self }
    }

    /// The same, where each call but a backup and a restore is retried after a transient error, and after an ambiguous one where
    /// it can be found out whether the write happened. So scenarios can be run while connections break.
    #[must_use]
    pub fn with_retries(self) -> Self {
        Self { retries: true, ..self }
    }

    /// Blocks writes until the guard is dropped. Those that have begun end first.
    pub async fn block_writes(&self) -> RwLockWriteGuard<'_, ()> {
        self.writes.write().await
    }

    /// Blocks loads until the guard is dropped.
    pub async fn block_loads(&self) -> RwLockWriteGuard<'_, ()> {
        self.loads.write().await
    }

    /// From now on no write is confirmed, or each is again.
    pub fn set_unconfirmed(&self, unconfirmed: bool) {
        self.unconfirmed.store(unconfirmed, Ordering::SeqCst);
    }

    /// From now on, a read of the session of this position panics; with 0 none does.
    pub fn set_deadly_position(&self, position: u64) {
        self.deadly_position.store(position, Ordering::SeqCst);
    }

    /// How many calls of a kind have begun, blocked ones included.
    pub fn calls(&self, kind: CallKind) -> u64 {
        self.calls[kind as usize].load(Ordering::SeqCst)
    }

    fn count(&self, kind: CallKind) {
        self.calls[kind as usize].fetch_add(1, Ordering::SeqCst);
    }

    /// One call that can be retried without further questions: it reads, or its number makes a repetition harmless.
    async fn call<T, Calling>(
        &self,
        kind: CallKind,
        call: impl Fn() -> Calling + Send + Sync,
    ) -> Result<T, StoreError>
    where
        T: Send,
        Calling: Future<Output = Result<T, StoreError>> + Send,
    {
        self.call_or_find(kind, call, || async { Ok(None) }).await
    }

    /// One call. Before a retry after an ambiguous error, `find` says what became of it, if that can be known.
    async fn call_or_find<T, Calling, Finding>(
        &self,
        kind: CallKind,
        call: impl Fn() -> Calling + Send + Sync,
        find: impl Fn() -> Finding + Send + Sync,
    ) -> Result<T, StoreError>
    where
        T: Send,
        Calling: Future<Output = Result<T, StoreError>> + Send,
        Finding: Future<Output = Result<Option<T>, StoreError>> + Send,
    {
        let started = Stopwatch::start();
        loop {
            let result = self.try_once(kind, call()).await;
            if !self.retries || started.elapsed() >= RETRY_TIMEOUT {
                return result;
            }
            match result {
                Err(StoreError::Transient(_)) => {}
                Err(StoreError::Ambiguous(_)) => {
                    if let Some(found) = find().await? {
                        return Ok(found);
                    }
                }
                settled => return settled,
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    async fn try_once<T>(
        &self,
        kind: CallKind,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.count(kind);
        let lost = || StoreError::Ambiguous("the connection was lost".into());
        match kind {
            CallKind::NextSessionEnd | CallKind::Session | CallKind::Other => call.await,
            CallKind::Load => {
                let _open = self.loads.read().await;
                call.await
            }
            CallKind::Write => {
                let _open = self.writes.read().await;
                let fault = (self.next_fault.lock().unwrap_or_else(PoisonError::into_inner))();
                match fault {
                    WriteFault::None => call.await,
                    WriteFault::LostRequest => Err(lost()),
                    WriteFault::LostAnswer => call.await.and_then(|_| Err(lost())),
                    WriteFault::Panic => panic!("this fault is part of the test"),
                }
            }
        }
    }
}

#[async_trait]
impl<Inner: Store> Store for FaultInjectingStore<Inner> {
    async fn rooms(&self) -> Result<Vec<RoomId>, StoreError> {
        self.call(CallKind::Other, || self.inner.rooms()).await
    }

    async fn load(&self, room: &RoomId, node: NodeId) -> Result<Option<Snapshot>, StoreError> {
        self.call(CallKind::Load, || self.inner.load(room, node)).await
    }

    async fn commit(&self, commit: &Commit) -> Result<CommitOutcome, StoreError> {
        self.call(CallKind::Write, || self.inner.commit(commit)).await
    }

    async fn delete_room(&self, deletion: &Deletion) -> Result<DeletionOutcome, StoreError> {
        let find = || async {
            let is_there = self.load(&deletion.room, NodeId(0)).await?.is_some();
            let trace = self.trace(&deletion.room).await?;
            let is_done = !is_there && trace.is_some_and(|trace| trace.version == deletion.expected);
            Ok(is_done.then_some(DeletionOutcome::Done))
        };
        self.call_or_find(CallKind::Write, || self.inner.delete_room(deletion), find).await
    }

    async fn trace(&self, room: &RoomId) -> Result<Option<Trace>, StoreError> {
        self.call(CallKind::Other, || self.inner.trace(room)).await
    }

    async fn join(&self, batch: &JoinBatch) -> Result<JoinOutcome, StoreError> {
        self.call(CallKind::Write, || self.inner.join(batch)).await
    }

    async fn sessions(&self, room: &RoomId, keys: &[SessionKey]) -> Result<Vec<Option<Session>>, StoreError> {
        let deadly = self.deadly_position.load(Ordering::SeqCst);
        assert!(keys.iter().all(|key| key.position.get() != deadly), "this fault is part of the test");
        self.call(CallKind::Session, || self.inner.sessions(room, keys)).await
    }

    async fn session(&self, room: &RoomId, key: SessionKey) -> Result<Option<Session>, StoreError> {
        self.call(CallKind::Session, || self.inner.session(room, key)).await
    }

    async fn sessions_ended(
        &self,
        room: &RoomId,
        generations: &[Generation],
        until: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError> {
        self.call(CallKind::Other, || self.inner.sessions_ended(room, generations, until, limit)).await
    }

    async fn next_session_end(
        &self,
        room: &RoomId,
        generations: &[Generation],
    ) -> Result<Option<UnixMillis>, StoreError> {
        self.call(CallKind::NextSessionEnd, || self.inner.next_session_end(room, generations)).await
    }

    async fn expired_passes(
        &self,
        room: &RoomId,
        generations: &[Generation],
        before: UnixMillis,
    ) -> Result<Vec<RequestId>, StoreError> {
        self.call(CallKind::Other, || self.inner.expired_passes(room, generations, before)).await
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<(u64, StoredEvent)>, StoreError> {
        self.call(CallKind::Other, || self.inner.events(after, limit)).await
    }

    async fn audit(
        &self,
        before: Option<u64>,
        room: Option<&RoomId>,
        limit: usize,
    ) -> Result<Vec<(u64, AuditRecord)>, StoreError> {
        self.call(CallKind::Other, || self.inner.audit(before, room, limit)).await
    }

    async fn value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.call(CallKind::Other, || self.inner.value(name)).await
    }

    async fn outbox(&self) -> Result<OutboxState, StoreError> {
        self.call(CallKind::Other, || self.inner.outbox()).await
    }

    async fn append_events(&self, events: &[StoredEvent]) -> Result<(), StoreError> {
        self.call(CallKind::Other, || self.inner.append_events(events)).await
    }

    async fn drop_events(&self, through: u64) -> Result<(), StoreError> {
        self.call(CallKind::Other, || self.inner.drop_events(through)).await
    }

    async fn hold_work(&self, work: &str, node: NodeId, lease: Duration) -> Result<bool, StoreError> {
        self.call(CallKind::Other, || self.inner.hold_work(work, node, lease)).await
    }

    async fn cursor(&self, name: &str) -> Result<Option<Cursor>, StoreError> {
        self.call(CallKind::Other, || self.inner.cursor(name)).await
    }

    async fn save_cursor(
        &self,
        name: &str,
        node: NodeId,
        history: u64,
        cursor: &Cursor,
    ) -> Result<bool, StoreError> {
        self.call(CallKind::Other, || self.inner.save_cursor(name, node, history, cursor)).await
    }

    async fn delete_cursor(&self, name: &str) -> Result<(), StoreError> {
        self.call(CallKind::Other, || self.inner.delete_cursor(name)).await
    }

    async fn replace_value_and_tell(
        &self,
        name: &str,
        expected: Option<&[u8]>,
        new: &[u8],
        audit: Option<&AuditRecord>,
        events: &[StoredEvent],
    ) -> Result<bool, StoreError> {
        let find = || async {
            let present = self.value(name).await?;
            Ok(match present.as_deref() {
                present if present == Some(new) => Some(true),
                present if present != expected => Some(false),
                _ => None,
            })
        };
        let replace = || self.inner.replace_value_and_tell(name, expected, new, audit, events);
        self.call_or_find(CallKind::Other, replace, find).await
    }

    async fn backup(&self, taken_at: UnixMillis) -> Result<BackupStream, StoreError> {
        self.inner.backup(taken_at).await
    }

    async fn restore(&self, restore: Restore) -> Result<(), RestoreError> {
        self.count(CallKind::Write);
        let _open = self.writes.read().await;
        self.inner.restore(restore).await
    }

    async fn poll(&self, rooms: &[RoomId], node: NodeId, lease: Duration) -> Result<PollAnswer, StoreError> {
        self.call(CallKind::Other, || self.inner.poll(rooms, node, lease)).await
    }

    async fn keep_answer(
        &self,
        room: &RoomId,
        key: AnswerKey,
        answer: &[u8],
        kept: Duration,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        // After an ambiguous try the answer that is kept may be this one.
        let may_be_ours = AtomicBool::new(false);
        let note = || async {
            may_be_ours.store(true, Ordering::SeqCst);
            Ok(None)
        };
        let keep = || self.inner.keep_answer(room, key, answer, kept);
        let before = self.call_or_find(CallKind::Other, keep, note).await?;
        let is_ours = may_be_ours.into_inner() && before.as_deref() == Some(answer);
        Ok(before.filter(|_| !is_ours))
    }

    async fn kept_answer(&self, room: &RoomId, key: &AnswerKey) -> Result<Option<Vec<u8>>, StoreError> {
        self.call(CallKind::Other, || self.inner.kept_answer(room, key)).await
    }

    async fn confirm(&self, room: &RoomId, lineage: Lineage) -> Result<(), StoreError> {
        if self.unconfirmed.load(Ordering::SeqCst) {
            return Err(StoreError::Transient("not replicated yet".into()));
        }
        self.call(CallKind::Other, || self.inner.confirm(room, lineage)).await
    }

    fn subscribe(&self) -> mpsc::Receiver<Notification> {
        self.inner.subscribe()
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.inner.clock()
    }

    fn is_ready(&self) -> bool {
        self.retries || self.inner.is_ready()
    }
}
