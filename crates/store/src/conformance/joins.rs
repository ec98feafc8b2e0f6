//! Joins commute: no version, but an epoch, a number, and never the same position twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use anteroom_core::{MAX_POSITION, Operation, RoomId, RoomState, Settings};
use tokio::task::JoinSet;

use super::caller::Caller;
use crate::contract::{JoinBatch, JoinOutcome, NodeId, Store};

pub(super) async fn joins_do_not_look_at_the_version(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let mut other = caller.on_another_node();
    caller.perform(Operation::Advance { by: 2 }).await;
    assert_eq!(other.join(3).await, 1, "its room is one version behind");
    caller.perform(Operation::Advance { by: 2 }).await;
    assert_eq!(other.join(2).await, 4);
    let stored = caller.snapshot().await.room;
    assert_eq!((stored.newest().joined, stored.serving()), (5, 4));
    assert_eq!(stored.version, caller.room.version, "a join is no new version");
}

pub(super) async fn a_join_of_an_ended_epoch_conflicts_and_writes_nothing(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let mut other = caller.on_another_node();
    for ending in [
        Operation::reconfigure(Settings::default(), Some(RoomState::Closed)),
        Operation::reconfigure(Settings::default(), Some(RoomState::Open)),
        Operation::Reset { incarnation: 2 },
        Operation::OpenSegment { incarnation: 3 },
    ] {
        caller.perform(ending.clone()).await;
        let late = other.batch(3);
        match store.join(&late).await.unwrap() {
            JoinOutcome::Conflict(Some(newer)) => {
                assert_eq!(newer.room, caller.room, "{ending:?}");
                other.room = newer.room;
            }
            outcome => panic!("{outcome:?} after {ending:?}"),
        }
        assert_eq!(caller.snapshot().await.room, caller.room, "{ending:?}");
        assert_eq!(other.snapshot().await.last_number, None);
    }
    assert_eq!(other.join(3).await, 1, "the newer epoch is its own now");
    let nowhere = JoinBatch { room: RoomId::parse("nowhere").unwrap(), ..other.batch(1) };
    let outcome = store.join(&nowhere).await.unwrap();
    assert!(matches!(outcome, JoinOutcome::Conflict(None)), "{outcome:?}");
}

pub(super) async fn a_join_beyond_the_last_position_is_refused(store: Arc<dyn Store>) {
    let mut caller = Caller::open_near_the_end(&store, "room", 3).await;
    for too_many in [4, MAX_POSITION, u64::MAX] {
        let batch = caller.batch(too_many);
        match store.join(&batch).await.unwrap() {
            JoinOutcome::Conflict(Some(newer)) => assert_eq!(newer.room, caller.room),
            outcome => panic!("{outcome:?}"),
        }
    }
    assert_eq!(caller.join(3).await, MAX_POSITION - 2);
    let batch = caller.batch(1);
    let outcome = store.join(&batch).await.unwrap();
    assert!(matches!(outcome, JoinOutcome::Conflict(Some(_))), "{outcome:?}");
    assert_eq!(caller.snapshot().await.room.newest().joined, MAX_POSITION);
}

pub(super) async fn a_repeated_join_answers_the_same_and_changes_nothing(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let mut other = caller.on_another_node();
    caller.join(2).await;
    let batch = caller.batch(5);
    for joined_by_others in 0..3 {
        let outcome = store.join(&batch).await.unwrap();
        assert!(matches!(outcome, JoinOutcome::Joined { first: 3 }), "{outcome:?}");
        let stored = caller.snapshot().await;
        assert_eq!(stored.room.newest().joined, 7 + joined_by_others);
        assert_eq!(stored.last_number, Some(batch.number));
        other.join(1).await;
    }
    caller.join(1).await;
    let outcome = store.join(&batch).await.unwrap();
    assert!(matches!(outcome, JoinOutcome::Conflict(Some(_))), "an older number: {outcome:?}");
}

pub(super) async fn concurrent_joins_leave_no_gap_and_no_duplicate(store: Arc<dyn Store>) {
    const NODES: u64 = 8;
    const BATCHES: u64 = 40;
    let caller = Caller::open(&store, "room").await;
    let mut tasks = JoinSet::new();
    for node in 0..NODES {
        let mut caller = Caller { node: NodeId(100 + u128::from(node)), number: 0, ..caller.clone() };
        tasks.spawn(async move {
            let mut positions = vec![];
            for batch in 0..BATCHES {
                let count = 1 + (node + batch) % 4;
                let first = caller.join(count).await;
                assert!(positions.last().is_none_or(|&last| last < first), "one caller's joins are in order");
                positions.extend(first..first + count);
            }
            positions
        });
    }
    let positions: Vec<u64> = tasks.join_all().await.into_iter().flatten().collect();
    let distinct: BTreeSet<u64> = positions.iter().copied().collect();
    let last = positions.len() as u64;
    assert_eq!(distinct.len(), positions.len(), "no position twice");
    assert_eq!((distinct.first(), distinct.last()), (Some(&1), Some(&last)), "no gap");
    assert_eq!(caller.snapshot().await.room.newest().joined, last);
}
