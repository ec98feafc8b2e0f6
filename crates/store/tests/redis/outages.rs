//! A server that is away: every call fails, at once and with the right kind of error; it recovers by itself.

use std::sync::Arc;
use std::time::Duration;

use anteroom_core::Operation;
use anteroom_store::contract::{CommitOutcome, JoinOutcome, Store, StoreError};
use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{ChaosProxy, Direction, Fault, Mode, now, require_redis};

use crate::support::{NODE, Writer, is_transient, open, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_waits_for_a_server_that_is_gone() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let proxy = ChaosProxy::before(redis.port());
    let store = Arc::new(open(&redis.url_through(proxy.port())).await);
    let mut writer = Writer::make(store.clone(), "room").await;
    writer.join(1).await;
    assert!(store.is_ready());
    for mode in [Mode::Refuse, Mode::Always(Fault::BlackHole(Direction::Both)), Mode::Always(Fault::Reset)] {
        proxy.set(mode);
        wait_until("it is noticed", || async {
            store.load(&writer.id, NODE).await.is_err() && !store.is_ready()
        })
        .await;
        // Did each of these wait for an answer that does not come, it would take half an hour.
        let started = now();
        for _ in 0..300 {
            assert!(is_transient(&store.load(&writer.id, NODE).await));
            let joined = writer.try_join(1).await;
            assert!(joined.is_err(), "{joined:?}");
        }
        assert!(started.elapsed() < Duration::from_mins(1), "{:?}", started.elapsed());
        proxy.set(Mode::Pass);
        wait_until("it is back", || async { store.load(&writer.id, NODE).await.is_ok() && store.is_ready() })
            .await;
    }
    let joined = writer.snapshot().await.room.newest().joined;
    assert_eq!(writer.join(1).await, joined + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_write_whose_answer_is_lost_is_ambiguous_and_asking_again_tells() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let proxy = ChaosProxy::before(redis.port());
    let store = Arc::new(open(&redis.url_through(proxy.port())).await);
    let mut writer = Writer::make(store.clone(), "room").await;
    for lost in [Fault::CutAfterSending, Fault::BlackHole(Direction::ToClient)] {
        let joined = writer.snapshot().await.room.newest().joined;
        let batch = writer.batch(3);
        let commit = writer.prepare(&Operation::Advance { by: 1 });
        // Others that go by in the background may meet the fault instead.
        proxy.set(Mode::Always(lost));
        let outcome = store.join(&batch).await;
        assert!(matches!(outcome, Err(StoreError::Ambiguous(_))), "{lost:?} {outcome:?}");
        proxy.set(Mode::Pass);
        wait_until("it is back", || async { store.load(&writer.id, NODE).await.is_ok() }).await;
        let outcome = store.join(&batch).await.unwrap();
        assert!(matches!(outcome, JoinOutcome::Joined { first } if first == joined + 1), "{outcome:?}");
        assert_eq!(writer.snapshot().await.room.newest().joined, joined + 3, "it happened once");
        proxy.set(Mode::Always(lost));
        let outcome = store.commit(&commit).await;
        assert!(matches!(outcome, Err(StoreError::Ambiguous(_))), "{lost:?} {outcome:?}");
        proxy.set(Mode::Pass);
        wait_until("it is back", || async { store.load(&writer.id, NODE).await.is_ok() }).await;
        let outcome = store.commit(&commit).await.unwrap();
        assert!(matches!(outcome, CommitOutcome::Done { .. }), "{outcome:?}");
        writer.take_over().await;
        assert_eq!(writer.room.version, commit.next.version);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_refuses_has_done_nothing() {
    if !require_redis() {
        return;
    }
    let (primary, redis) = (RedisProcess::start(), RedisProcess::start());
    let store = Arc::new(open(&redis.url()).await);
    let mut writer = Writer::make(store.clone(), "room").await;
    writer.join(1).await;
    redis.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).no_error();
    let refused = writer.try_join(1).await;
    assert!(
        matches!(&refused, Err(StoreError::Transient(why)) if why.starts_with("NOREPLICAS")),
        "{refused:?}"
    );
    // A look is good all the same, but nobody gets a lease.
    let polls = store.poll(&[writer.id.clone()], NODE, Duration::from_secs(1)).await.unwrap();
    assert!(!polls.rooms[0].unwrap().holds_lease);
    redis.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]).no_error();
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]).no_error();
    let refused = writer.try_join(1).await;
    assert!(matches!(&refused, Err(StoreError::Transient(why)) if why.starts_with("OOM")), "{refused:?}");
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]).no_error();
    assert_eq!(writer.join(1).await, 2, "nothing had happened");
    // One that follows another primary from now on is none itself: neither writes nor looks are answered by it.
    redis.replica_of(primary.port());
    assert!(is_transient(&writer.try_join(1).await));
    assert!(is_transient(&store.load(&writer.id, NODE).await));
    assert!(!store.is_ready());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_store_leaves_no_connection_behind() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let clients = || redis.command(&["CLIENT", "LIST"]).text().lines().count();
    let alone = clients();
    let store = Arc::new(open(&redis.url()).await);
    let notifications = store.subscribe();
    let mut writer = Writer::make(store.clone(), "room").await;
    writer.join(1).await;
    store.confirm(&writer.id, writer.lineage).await.unwrap();
    wait_until("it has subscribed", || async { clients() > alone + 1 }).await;
    drop((store, writer, notifications));
    wait_until("everything is closed", || async { clients() == alone }).await;
}
