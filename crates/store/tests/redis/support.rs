//! What these tests share: opening stores, rooms to write to, and waiting for a state.

use std::sync::Arc;
use std::time::Duration;

use anteroom_core::{Effects, Operation, Reads, Room, RoomId, Settings, apply};
pub(crate) use anteroom_store::conformance::stores::redis_options as options;
use anteroom_store::contract::{
    Commit, CommitOutcome, JoinBatch, JoinOutcome, Lineage, NodeId, Snapshot, Store, StoreError,
};
use anteroom_store::redis::RedisStore;
use anteroom_store::{Clock, SystemClock};
use anteroom_testkit as wait;

pub(crate) const NODE: NodeId = NodeId(0xa1);
pub(crate) const OTHER_NODE: NodeId = NodeId(0xb2);
/// How long a state may take to come.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) async fn open(url: &str) -> RedisStore {
    RedisStore::open(&options(url)).await.unwrap()
}

/// Looks until something holds, without stopping what else goes on.
pub(crate) async fn wait_until<Looking: Future<Output = bool>>(
    what: &str,
    mut look: impl FnMut() -> Looking,
) {
    let started = wait::now();
    while !look().await {
        assert!(started.elapsed() < TIMEOUT, "waited {TIMEOUT:?} in vain until {what}");
        tokio::time::sleep(wait::POLL_INTERVAL).await;
    }
}

pub(crate) fn is_transient<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Transient(_)))
}

/// One node with one room, which writes and gets the result.
#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) id: RoomId,
    pub(crate) node: NodeId,
    pub(crate) number: u64,
    pub(crate) room: Room,
    pub(crate) lineage: Lineage,
}

impl Writer {
    /// Makes a room.
    pub(crate) async fn make(store: Arc<dyn Store>, name: &str) -> Self {
        let mut room = Room::open(Settings::default(), SystemClock.now(), 1);
        room.version = 1;
        let id = RoomId::parse(name).unwrap();
        let mut writer = Self { store, id, node: NODE, number: 0, room, lineage: Lineage::default() };
        let (joined_before, next) = (writer.room.newest().joined, writer.room.clone());
        let creation = Commit {
            expected: None,
            opens_line: true,
            joined_before,
            ..writer.commit_of(next, Effects::default())
        };
        let outcome = writer.store.commit(&creation).await.unwrap();
        assert!(matches!(outcome, CommitOutcome::Done { .. }), "{outcome:?}");
        writer.take_over().await;
        writer
    }

    fn commit_of(&mut self, next: Room, effects: Effects) -> Commit {
        self.number += 1;
        Commit {
            room: self.id.clone(),
            node: self.node,
            number: self.number,
            expected: Some(self.room.version),
            lineage: self.lineage,
            mends: false,
            opens_line: next.newest().generation != self.room.newest().generation,
            joined_before: self.room.newest().joined,
            next,
            effects,
            audit: vec![],
        }
    }

    /// The next commit of this operation.
    pub(crate) fn prepare(&mut self, operation: &Operation) -> Commit {
        let applied = apply(self.room.clone(), SystemClock.now(), operation, Reads::default());
        applied.answer.unwrap();
        let mut next = applied.room;
        next.version = self.room.version + 1;
        self.commit_of(next, applied.effects)
    }

    pub(crate) async fn snapshot(&self) -> Snapshot {
        self.store.load(&self.id, self.node).await.unwrap().unwrap()
    }

    /// Goes on from what the store has.
    pub(crate) async fn take_over(&mut self) {
        let snapshot = self.snapshot().await;
        (self.room, self.lineage) = (snapshot.room, snapshot.lineage);
    }

    /// Commits something that must be written.
    pub(crate) async fn perform(&mut self, operation: &Operation) {
        let commit = self.prepare(operation);
        let outcome = self.store.commit(&commit).await.unwrap();
        let CommitOutcome::Done { joined } = outcome else { panic!("{outcome:?}") };
        self.room = commit.next;
        self.room.segments.back_mut().unwrap().joined = joined;
    }

    /// Goes on under the lineage of now, whatever may be missing.
    pub(crate) async fn mend(&mut self) {
        self.take_over().await;
        let mending = Commit { mends: true, ..self.prepare(&Operation::Tick) };
        let outcome = self.store.commit(&mending).await.unwrap();
        assert!(matches!(outcome, CommitOutcome::Done { .. }), "{outcome:?}");
        self.take_over().await;
    }

    pub(crate) fn batch(&mut self, count: u64) -> JoinBatch {
        self.number += 1;
        JoinBatch {
            room: self.id.clone(),
            node: self.node,
            number: self.number,
            epoch: self.room.epoch,
            lineage: self.lineage,
            count,
        }
    }

    /// Joins, or says why not.
    pub(crate) async fn try_join(&mut self, count: u64) -> Result<JoinOutcome, StoreError> {
        let batch = self.batch(count);
        self.store.join(&batch).await
    }

    /// Joins; returns the first position.
    pub(crate) async fn join(&mut self, count: u64) -> u64 {
        let outcome = self.try_join(count).await.unwrap();
        let JoinOutcome::Joined { first } = outcome else { panic!("{outcome:?}") };
        first
    }
}
