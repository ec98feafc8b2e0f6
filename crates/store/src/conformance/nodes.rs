//! What nodes that share a store need beside rooms: leases, a look at what others did, lineages.

use std::sync::Arc;
use std::time::Duration;

use anteroom_core::{Operation, RoomId};

use super::caller::{Caller, NODE, OTHER_NODE};
use crate::contract::{
    Commit, CommitOutcome, Deletion, DeletionOutcome, JoinBatch, JoinOutcome, Lineage, RoomPoll, Store,
};

/// Longer than a scenario takes.
const LONG_LEASE: Duration = Duration::from_mins(10);
/// Runs out while a scenario waits.
const SHORT_LEASE: Duration = Duration::from_millis(50);

async fn poll_at(caller: &Caller, lease: Duration) -> Option<RoomPoll> {
    let rooms = [caller.id.clone()];
    caller.store.poll(&rooms, caller.node, lease).await.unwrap().rooms.remove(0)
}

pub(super) async fn a_poll_shows_how_far_rooms_have_come(store: Arc<dyn Store>) {
    let mut first = Caller::open(&store, "first").await;
    let second = Caller::open(&store, "second").await;
    first.perform(Operation::Advance { by: 3 }).await;
    first.join(5).await;
    let names = [&first, &second].map(|caller| caller.id.clone());
    let missing = RoomId::parse("missing").unwrap();
    let asked = [names[0].clone(), missing, names[1].clone()];
    let polls = store.poll(&asked, NODE, LONG_LEASE).await.unwrap().rooms;
    let [Some(one), None, Some(other)] = polls[..] else { panic!("{polls:?}") };
    assert_eq!((one.version, one.joined), (first.room.version, 5));
    assert_eq!((other.version, other.joined), (1, 0));
    for (poll, caller) in [(one, &first), (other, &second)] {
        let snapshot = caller.snapshot().await;
        assert_eq!(poll.generation, snapshot.room.newest().generation);
        assert_eq!((poll.lineage, poll.is_continuous), (snapshot.lineage, true));
        assert!(snapshot.is_continuous);
    }
    assert!(store.poll(&[], NODE, LONG_LEASE).await.unwrap().rooms.is_empty());
}

pub(super) async fn a_lease_belongs_to_one_node_until_it_runs_out(store: Arc<dyn Store>) {
    let one = Caller::open(&store, "room").await;
    let other = one.on_another_node();
    assert!(poll_at(&one, LONG_LEASE).await.unwrap().holds_lease);
    assert!(!poll_at(&other, LONG_LEASE).await.unwrap().holds_lease);
    assert!(poll_at(&one, SHORT_LEASE).await.unwrap().holds_lease, "its owner may change how long it is");
    // Nobody extends it, so it runs out.
    while !poll_at(&other, LONG_LEASE).await.unwrap().holds_lease {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!poll_at(&one, LONG_LEASE).await.unwrap().holds_lease, "it does not come back to life");
}

pub(super) async fn what_was_computed_under_another_lineage_conflicts(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let elsewhere = Lineage(caller.lineage.0.wrapping_add(12_345));
    let (commit, _) = caller.prepare(&[Operation::Advance { by: 1 }]).await;
    let strange = Commit { lineage: elsewhere, ..commit.clone() };
    let newer = caller.commit_in_vain(&strange).await.unwrap();
    assert_eq!((newer.lineage, newer.room.version), (caller.lineage, caller.room.version));
    let mending = Commit { mends: true, ..strange };
    assert!(caller.commit_in_vain(&mending).await.is_some(), "nobody mends under a lineage that is over");
    let batch = caller.batch(1);
    let strange = JoinBatch { lineage: elsewhere, ..batch.clone() };
    let outcome = store.join(&strange).await.unwrap();
    assert!(matches!(outcome, JoinOutcome::Conflict(Some(_))), "{outcome:?}");
    assert_eq!(caller.snapshot().await.room.newest().joined, 0);
    caller.number += 1;
    let again = Commit { number: caller.number, ..commit };
    caller.commit(&again).await;
}

pub(super) async fn numbers_tell_that_values_and_names_have_changed(store: Arc<dyn Store>) {
    let numbers = async || {
        let polls = store.poll(&[], OTHER_NODE, LONG_LEASE).await.unwrap();
        (polls.values, polls.names)
    };
    let before = numbers().await;
    assert_eq!(numbers().await, before, "nothing has happened");
    let caller = Caller::open(&store, "room").await;
    let made = numbers().await;
    assert_ne!(made.1, before.1);
    assert!(store.replace_value("ring", None, b"one", None).await.unwrap());
    let replaced = numbers().await;
    assert_ne!(replaced.0, made.0);
    let deletion =
        Deletion { room: caller.id.clone(), expected: caller.room.version, audit: None, events: vec![] };
    assert_eq!(store.delete_room(&deletion).await.unwrap(), DeletionOutcome::Done);
    assert_ne!(numbers().await.1, replaced.1);
}

pub(super) async fn what_is_confirmed_can_be_read(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let session = caller.admit(60).await;
    store.confirm(&caller.id, caller.lineage).await.unwrap();
    assert_eq!(caller.session(session.key).await, Some(session));
}

pub(super) async fn a_room_made_again_takes_nothing_of_before(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let late = caller.batch(1);
    let deletion =
        Deletion { room: caller.id.clone(), expected: caller.room.version, audit: None, events: vec![] };
    assert_eq!(store.delete_room(&deletion).await.unwrap(), DeletionOutcome::Done);
    let poll = poll_at(&caller, LONG_LEASE).await;
    assert_eq!(poll, None, "a room that is not there has no lease");
    let outcome = store.join(&late).await.unwrap();
    assert!(matches!(outcome, JoinOutcome::Conflict(None)), "{outcome:?}");
    let creation = caller.creation();
    let outcome = store.commit(&creation).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Conflict(None)), "{outcome:?}");
}

pub(super) async fn an_answer_is_kept_once_for_its_room_and_its_time(store: Arc<dyn Store>) {
    let [one, other] = ["one", "other"].map(|name| RoomId::parse(name).unwrap());
    let (key, long) = ([7; 32], Duration::from_mins(10));
    assert_eq!(store.kept_answer(&one, &key).await.unwrap(), None);
    assert_eq!(store.keep_answer(&one, key, b"first", long).await.unwrap(), None);
    assert_eq!(store.keep_answer(&one, key, b"second", long).await.unwrap(), Some(b"first".to_vec()));
    assert_eq!(store.kept_answer(&one, &key).await.unwrap(), Some(b"first".to_vec()));
    assert_eq!(store.kept_answer(&one, &[8; 32]).await.unwrap(), None);
    assert_eq!(store.keep_answer(&other, key, b"another", long).await.unwrap(), None);
    let brief = Duration::from_millis(50);
    assert_eq!(store.keep_answer(&one, [9; 32], b"brief", brief).await.unwrap(), None);
    while store.kept_answer(&one, &[9; 32]).await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(store.keep_answer(&one, [9; 32], b"again", long).await.unwrap(), None);
}
