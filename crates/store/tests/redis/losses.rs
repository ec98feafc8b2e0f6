//! What a store may have lost, and how it is noticed.

use std::sync::Arc;

use anteroom_core::{Operation, RoomId};
use anteroom_store::contract::{Commit, CommitOutcome, JoinOutcome, Store};
use anteroom_store::redis::Guarantee;
use anteroom_testkit::redis::{AppendOnly, RedisProcess};
use anteroom_testkit::{ChaosProxy, Direction, Fault, Mode, require_redis};

use crate::support::{NODE, Writer, is_transient, open, options, wait_until};

/// Everything that must be refused under another lineage, and what mends it.
async fn is_another_lineage_until_it_is_mended(writer: &mut Writer) {
    let before = writer.lineage;
    let snapshot = writer.snapshot().await;
    assert_ne!(snapshot.lineage, before, "the store goes on under another lineage");
    assert!(!snapshot.is_continuous);
    let poll = writer
        .store
        .poll(std::slice::from_ref(&writer.id), NODE, std::time::Duration::from_secs(1))
        .await
        .unwrap();
    let poll = poll.rooms[0].unwrap();
    assert_eq!((poll.lineage, poll.is_continuous), (snapshot.lineage, false));
    let advance = Operation::Advance { by: 1 };
    let late = writer.prepare(&advance);
    let outcome = writer.store.commit(&late).await.unwrap();
    assert!(matches!(&outcome, CommitOutcome::Conflict(Some(newer)) if !newer.is_continuous), "{outcome:?}");
    let outcome = writer.try_join(1).await.unwrap();
    assert!(matches!(&outcome, JoinOutcome::Conflict(Some(newer)) if !newer.is_continuous), "{outcome:?}");
    // A node that knows the new lineage must not go on as if nothing had been lost, either.
    writer.take_over().await;
    let outcome = writer.try_join(1).await.unwrap();
    assert!(matches!(outcome, JoinOutcome::Conflict(Some(_))), "{outcome:?}");
    let careless = writer.prepare(&advance);
    let outcome = writer.store.commit(&careless).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Conflict(Some(_))), "{outcome:?}");
    let mending = Commit { mends: true, ..writer.prepare(&advance) };
    let outcome = writer.store.commit(&mending).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Done { .. }), "{outcome:?}");
    writer.take_over().await;
    assert!(writer.snapshot().await.is_continuous);
    writer.join(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_replica_goes_on_under_another_lineage() {
    if !require_redis() {
        return;
    }
    let (primary, replica) = (RedisProcess::start(), RedisProcess::start());
    let proxy = ChaosProxy::before(primary.port());
    let link = ChaosProxy::before(primary.port());
    replica.replica_of(link.port());
    // Its first replica gives a primary another lineage, which is not what is meant here.
    replica.wait_until_in_sync(&primary);
    let store = Arc::new(open(&primary.url_through(proxy.port())).await);
    let mut writer = Writer::make(store, "room").await;
    assert_eq!(writer.join(5).await, 1);
    replica.wait_until_in_sync(&primary);
    // From here on the replica hears nothing, and the primary goes on: these positions are lost.
    link.set(Mode::Always(Fault::BlackHole(Direction::Both)));
    assert_eq!(writer.join(7).await, 6);
    replica.promote();
    proxy.forward_to(replica.port());
    proxy.reset_connections();
    wait_until("the promoted one is asked", || async {
        writer
            .store
            .load(&writer.id, NODE)
            .await
            .is_ok_and(|snapshot| snapshot.unwrap().room.newest().joined == 5)
    })
    .await;
    is_another_lineage_until_it_is_mended(&mut writer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_with_a_file_goes_on_under_another_lineage() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::builder().append_only(AppendOnly::Always).start();
    let store = Arc::new(open(&redis.url()).await);
    let mut writer = Writer::make(store.clone(), "room").await;
    writer.join(5).await;
    redis.kill();
    wait_until("it is noticed", || async {
        is_transient(&store.load(&writer.id, NODE).await) && !store.is_ready()
    })
    .await;
    redis.start_again();
    wait_until("it is back", || async { store.load(&writer.id, NODE).await.is_ok() && store.is_ready() })
        .await;
    assert_eq!(writer.snapshot().await.room.newest().joined, 5);
    is_another_lineage_until_it_is_mended(&mut writer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_store_gets_its_values_back_and_its_rooms_are_lost_without_a_trace() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let store = Arc::new(open(&redis.url()).await);
    let other = open(&redis.url()).await;
    let mut writer = Writer::make(store.clone(), "room").await;
    writer.join(2).await;
    assert!(store.replace_value("ring", None, b"keys", None).await.unwrap());
    assert!(store.replace_value("both", None, b"first", None).await.unwrap());
    assert!(other.replace_value("both", Some(b"first"), b"second", None).await.unwrap());
    let names = store.poll(&[], NODE, std::time::Duration::from_secs(1)).await.unwrap().names;
    redis.command(&["FLUSHALL"]);
    assert_eq!(
        other.value("both").await.unwrap().as_deref(),
        Some(b"second".as_slice()),
        "written back by the first node that asks"
    );
    let polls = store.poll(&[writer.id.clone()], NODE, std::time::Duration::from_secs(1)).await.unwrap();
    assert_eq!(polls.rooms, [None]);
    assert_ne!(polls.names, names);
    assert_eq!(store.value("ring").await.unwrap().as_deref(), Some(b"keys".as_slice()));
    assert_eq!(
        store.value("both").await.unwrap().as_deref(),
        Some(b"second".as_slice()),
        "what is there stays"
    );
    assert!(store.load(&writer.id, NODE).await.unwrap().is_none());
    assert_eq!(store.trace(&writer.id).await.unwrap(), None, "it was not deleted, so it was lost");
    let again = Writer::make(store, "room").await;
    assert_eq!(again.snapshot().await.room.newest().joined, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_lineage_is_told_no_node_falls_behind_what_it_has_seen() {
    if !require_redis() {
        return;
    }
    let rules = "~* &* +@all -info";
    let [primary, replica] = [0, 1].map(|_| RedisProcess::builder().user("node", "secret", rules).start());
    let proxy = ChaosProxy::before(primary.port());
    let link = ChaosProxy::before(primary.port());
    replica.replica_of(link.port());
    let url = primary.url_as("node").replace(&format!(":{}", primary.port()), &format!(":{}", proxy.port()));
    let store = anteroom_store::RedisStore::open(&options(&url)).await.unwrap();
    assert_eq!(store.guarantee(), Guarantee::Downgraded);
    let store = Arc::new(store);
    let mut writer = Writer::make(store.clone(), "room").await;
    writer.join(5).await;
    replica.wait_until_in_sync(&primary);
    link.set(Mode::Always(Fault::BlackHole(Direction::Both)));
    assert_eq!(writer.join(7).await, 6);
    replica.promote();
    proxy.forward_to(replica.port());
    proxy.reset_connections();
    wait_until("the promoted one is asked", || async {
        let room: RoomId = writer.id.clone();
        store.load(&room, NODE).await.is_ok_and(|snapshot| snapshot.unwrap().room.newest().joined == 5)
    })
    .await;
    assert_eq!(writer.join(1).await, 13, "behind every position that this node has answered");
    writer.perform(&Operation::Join { count: 2 }).await;
    assert_eq!(writer.snapshot().await.room.newest().joined, 15);
}
