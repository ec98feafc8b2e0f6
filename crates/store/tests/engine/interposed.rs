//! A store that does to its writes what a test wants: holds them up, loses them or their answers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anteroom_core::{Generation, RequestId, RoomId, Session, SessionKey, UnixMillis};
use anteroom_store::backup::restore::{Restore, RestoreError};
use anteroom_store::contract::{
    AnswerKey, Commit, CommitOutcome, Deletion, DeletionOutcome, JoinBatch, JoinOutcome, Lineage,
    Notification, PollAnswer, Snapshot, Trace,
};
use anteroom_store::{AuditRecord, BackupStream, Clock, MemoryStore, NodeId, Store, StoreError, StoredEvent};
use async_trait::async_trait;
use tokio::sync::{Semaphore, mpsc};

/// A store in front of another that does to its writes what a test wants.
pub(crate) struct Interposed {
    pub(crate) inner: MemoryStore,
    /// Each write takes one and gives it back.
    pub(crate) gate: Semaphore,
    pub(crate) writes_begun: AtomicU64,
    pub(crate) next_ends_asked: AtomicU64,
    /// Each look at a room takes one and gives it back.
    pub(crate) loads: Semaphore,
    pub(crate) fault: Mutex<Box<dyn FnMut() -> Fault + Send>>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    None,
    /// Nothing is written, and there is no answer.
    LostRequest,
    /// It is written, and there is no answer.
    LostAnswer,
    /// The writer panics.
    Panic,
}

impl Interposed {
    pub(crate) fn new(fault: impl FnMut() -> Fault + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::default(),
            gate: Semaphore::new(1),
            writes_begun: AtomicU64::new(0),
            next_ends_asked: AtomicU64::new(0),
            loads: Semaphore::new(1),
            fault: Mutex::new(Box::new(fault)),
        })
    }

    async fn write<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.writes_begun.fetch_add(1, Ordering::SeqCst);
        let _passed = self.gate.acquire().await.unwrap();
        let fault = (self.fault.lock().unwrap_or_else(PoisonError::into_inner))();
        let lost = || StoreError::Ambiguous("the connection was lost".into());
        match fault {
            Fault::None => work.await,
            Fault::LostRequest => Err(lost()),
            Fault::Panic => panic!("this fault is part of the test"),
            Fault::LostAnswer => {
                work.await?;
                Err(lost())
            }
        }
    }
}

#[async_trait]
impl Store for Interposed {
    async fn rooms(&self) -> Result<Vec<RoomId>, StoreError> {
        self.inner.rooms().await
    }
    async fn load(&self, room: &RoomId, node: NodeId) -> Result<Option<Snapshot>, StoreError> {
        let _passed = self.loads.acquire().await.unwrap();
        self.inner.load(room, node).await
    }
    async fn commit(&self, commit: &Commit) -> Result<CommitOutcome, StoreError> {
        self.write(self.inner.commit(commit)).await
    }
    async fn delete_room(&self, deletion: &Deletion) -> Result<DeletionOutcome, StoreError> {
        self.write(self.inner.delete_room(deletion)).await
    }
    async fn trace(&self, room: &RoomId) -> Result<Option<Trace>, StoreError> {
        self.inner.trace(room).await
    }
    async fn join(&self, batch: &JoinBatch) -> Result<JoinOutcome, StoreError> {
        self.write(self.inner.join(batch)).await
    }
    async fn session(&self, room: &RoomId, key: SessionKey) -> Result<Option<Session>, StoreError> {
        self.inner.session(room, key).await
    }
    async fn sessions_ended(
        &self,
        room: &RoomId,
        generations: &[Generation],
        until: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError> {
        self.inner.sessions_ended(room, generations, until, limit).await
    }
    async fn next_session_end(
        &self,
        room: &RoomId,
        generations: &[Generation],
    ) -> Result<Option<UnixMillis>, StoreError> {
        self.next_ends_asked.fetch_add(1, Ordering::SeqCst);
        self.inner.next_session_end(room, generations).await
    }
    async fn expired_passes(
        &self,
        room: &RoomId,
        generations: &[Generation],
        before: UnixMillis,
    ) -> Result<Vec<RequestId>, StoreError> {
        self.inner.expired_passes(room, generations, before).await
    }
    async fn events(&self, after: u64, limit: usize) -> Result<Vec<(u64, StoredEvent)>, StoreError> {
        self.inner.events(after, limit).await
    }
    async fn audit(
        &self,
        before: Option<u64>,
        room: Option<&RoomId>,
        limit: usize,
    ) -> Result<Vec<(u64, AuditRecord)>, StoreError> {
        self.inner.audit(before, room, limit).await
    }
    async fn value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.value(name).await
    }
    async fn replace_value(
        &self,
        name: &str,
        expected: Option<&[u8]>,
        new: &[u8],
        audit: Option<&AuditRecord>,
    ) -> Result<bool, StoreError> {
        self.inner.replace_value(name, expected, new, audit).await
    }
    async fn backup(&self, taken_at: UnixMillis) -> Result<BackupStream, StoreError> {
        self.inner.backup(taken_at).await
    }
    async fn restore(&self, restore: Restore) -> Result<(), RestoreError> {
        self.writes_begun.fetch_add(1, Ordering::SeqCst);
        let _passed = self.gate.acquire().await.unwrap();
        self.inner.restore(restore).await
    }
    async fn poll(&self, rooms: &[RoomId], node: NodeId, lease: Duration) -> Result<PollAnswer, StoreError> {
        self.inner.poll(rooms, node, lease).await
    }
    async fn keep_answer(
        &self,
        room: &RoomId,
        key: AnswerKey,
        answer: &[u8],
        kept: Duration,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.keep_answer(room, key, answer, kept).await
    }
    async fn kept_answer(&self, room: &RoomId, key: &AnswerKey) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.kept_answer(room, key).await
    }
    async fn confirm(&self, room: &RoomId, lineage: Lineage) -> Result<(), StoreError> {
        self.inner.confirm(room, lineage).await
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
        self.inner.is_ready()
    }
}
