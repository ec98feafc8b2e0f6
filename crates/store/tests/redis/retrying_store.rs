//! A store that retries after a write that did not happen, and after an ambiguous write where a retry is harmless, as a
//! careful caller does. With it the one list of scenarios can be run while connections break.

use std::sync::Arc;
use std::time::Duration;

use anteroom_core::{Generation, RequestId, RoomId, Session, SessionKey, UnixMillis};
use anteroom_store::backup::restore::Restore;
use anteroom_store::contract::{
    AnswerKey, AuditRecord, Commit, CommitOutcome, Deletion, DeletionOutcome, JoinBatch, JoinOutcome,
    Lineage, NodeId, Notification, PollAnswer, Snapshot, Store, StoreError, StoredEvent, Trace,
};
use anteroom_store::redis::RedisStore;
use anteroom_store::{BackupStream, Clock, RestoreError};
use anteroom_testkit as wait;
use async_trait::async_trait;
use tokio::sync::mpsc;

/// How long it asks again.
const RETRY_TIMEOUT: Duration = Duration::from_mins(3);
/// How long it waits in between.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct RetryingStore(pub(crate) Arc<RedisStore>);

/// Asks until there is an answer. Whatever may have happened is harmless to ask for again.
macro_rules! retry {
    ($question:expr) => {{
        let started = wait::now();
        loop {
            match $question.await {
                Err(StoreError::Transient(_) | StoreError::Ambiguous(_))
                    if started.elapsed() < RETRY_TIMEOUT =>
                {
                    tokio::time::sleep(PAUSE).await;
                }
                answered => break answered,
            }
        }
    }};
}

#[async_trait]
impl Store for RetryingStore {
    async fn rooms(&self) -> Result<Vec<RoomId>, StoreError> {
        retry!(self.0.rooms())
    }

    async fn load(&self, room: &RoomId, node: NodeId) -> Result<Option<Snapshot>, StoreError> {
        retry!(self.0.load(room, node))
    }

    async fn commit(&self, commit: &Commit) -> Result<CommitOutcome, StoreError> {
        retry!(self.0.commit(commit))
    }

    async fn delete_room(&self, deletion: &Deletion) -> Result<DeletionOutcome, StoreError> {
        let started = wait::now();
        loop {
            match self.0.delete_room(deletion).await {
                Err(StoreError::Transient(_)) if started.elapsed() < RETRY_TIMEOUT => {}
                Err(StoreError::Ambiguous(_)) if started.elapsed() < RETRY_TIMEOUT => {
                    let is_there = self.load(&deletion.room, NodeId(0)).await?.is_some();
                    let trace = self.trace(&deletion.room).await?;
                    if !is_there && trace.is_some_and(|trace| trace.version == deletion.expected) {
                        return Ok(DeletionOutcome::Done);
                    }
                }
                answered => return answered,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn trace(&self, room: &RoomId) -> Result<Option<Trace>, StoreError> {
        retry!(self.0.trace(room))
    }

    async fn join(&self, batch: &JoinBatch) -> Result<JoinOutcome, StoreError> {
        retry!(self.0.join(batch))
    }

    async fn sessions(&self, room: &RoomId, keys: &[SessionKey]) -> Result<Vec<Option<Session>>, StoreError> {
        retry!(self.0.sessions(room, keys))
    }

    async fn session(&self, room: &RoomId, key: SessionKey) -> Result<Option<Session>, StoreError> {
        retry!(self.0.session(room, key))
    }

    async fn sessions_ended(
        &self,
        room: &RoomId,
        generations: &[Generation],
        until: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError> {
        retry!(self.0.sessions_ended(room, generations, until, limit))
    }

    async fn next_session_end(
        &self,
        room: &RoomId,
        generations: &[Generation],
    ) -> Result<Option<UnixMillis>, StoreError> {
        retry!(self.0.next_session_end(room, generations))
    }

    async fn expired_passes(
        &self,
        room: &RoomId,
        generations: &[Generation],
        before: UnixMillis,
    ) -> Result<Vec<RequestId>, StoreError> {
        retry!(self.0.expired_passes(room, generations, before))
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<(u64, StoredEvent)>, StoreError> {
        retry!(self.0.events(after, limit))
    }

    async fn audit(
        &self,
        before: Option<u64>,
        room: Option<&RoomId>,
        limit: usize,
    ) -> Result<Vec<(u64, AuditRecord)>, StoreError> {
        retry!(self.0.audit(before, room, limit))
    }

    async fn value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        retry!(self.0.value(name))
    }

    async fn replace_value(
        &self,
        name: &str,
        expected: Option<&[u8]>,
        new: &[u8],
        audit: Option<&AuditRecord>,
    ) -> Result<bool, StoreError> {
        let started = wait::now();
        loop {
            match self.0.replace_value(name, expected, new, audit).await {
                Err(StoreError::Transient(_)) if started.elapsed() < RETRY_TIMEOUT => {}
                Err(StoreError::Ambiguous(_)) if started.elapsed() < RETRY_TIMEOUT => {
                    let present = self.value(name).await?;
                    if present.as_deref() == Some(new) {
                        return Ok(true);
                    }
                    if present.as_deref() != expected {
                        return Ok(false);
                    }
                }
                answered => return answered,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn backup(&self, taken_at: UnixMillis) -> Result<BackupStream, StoreError> {
        self.0.backup(taken_at).await
    }

    async fn restore(&self, restore: Restore) -> Result<(), RestoreError> {
        self.0.restore(restore).await
    }

    async fn poll(&self, rooms: &[RoomId], node: NodeId, lease: Duration) -> Result<PollAnswer, StoreError> {
        retry!(self.0.poll(rooms, node, lease))
    }

    async fn keep_answer(
        &self,
        room: &RoomId,
        key: AnswerKey,
        answer: &[u8],
        kept: Duration,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let started = wait::now();
        let mut may_be_ours = false;
        loop {
            match self.0.keep_answer(room, key, answer, kept).await {
                Err(StoreError::Transient(_)) if started.elapsed() < RETRY_TIMEOUT => {}
                Err(StoreError::Ambiguous(_)) if started.elapsed() < RETRY_TIMEOUT => may_be_ours = true,
                Ok(Some(before)) if may_be_ours && before == answer => return Ok(None),
                answered => return answered,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn kept_answer(&self, room: &RoomId, key: &AnswerKey) -> Result<Option<Vec<u8>>, StoreError> {
        retry!(self.0.kept_answer(room, key))
    }

    async fn confirm(&self, room: &RoomId, lineage: Lineage) -> Result<(), StoreError> {
        retry!(self.0.confirm(room, lineage))
    }

    fn subscribe(&self) -> mpsc::Receiver<Notification> {
        self.0.subscribe()
    }

    fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.0.clock()
    }

    fn is_ready(&self) -> bool {
        true
    }
}
