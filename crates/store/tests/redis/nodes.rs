//! What several nodes need of a server: confirmations, notifications, one clock, and scripts that are there wherever
//! they are called.

use std::sync::Arc;
use std::time::Duration;

use anteroom_core::{Operation, Position, RoomId, SessionKey};
use anteroom_store::contract::{
    Deletion, DeletionOutcome, JoinOutcome, Notification, Store, StoreError, TRACES_MAX,
};
use anteroom_store::redis::{RedisOptions, RedisStore, Replicas};
use anteroom_testkit::redis::{RedisCluster, RedisProcess, Sentinels};
use anteroom_testkit::{ChaosProxy, Direction, Fault, Mode, require_redis};

use crate::support::{NODE, OTHER_NODE, TIMEOUT, Writer, is_transient, open, options, wait_until};

const LEASE: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_confirmed_when_a_replica_has_it() {
    if !require_redis() {
        return;
    }
    let (primary, replica) = (RedisProcess::start(), RedisProcess::start());
    let store = Arc::new(open(&primary.url()).await);
    let mut writer = Writer::make(store.clone(), "room").await;
    store.confirm(&writer.id, writer.lineage).await.unwrap();
    let link = ChaosProxy::before(primary.port());
    replica.replica_of(link.port());
    replica.wait_until_in_sync(&primary);
    // A primary gives itself another replication id when its first replica comes, though nothing is lost then.
    writer.mend().await;
    wait_until("the replica is noticed", || async {
        primary.command(&["EXISTS", "anteroom:{store}:replicas"]).integer() == 1
    })
    .await;
    writer.join(1).await;
    let confirmed: Vec<_> = {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let (store, id, lineage) = (store.clone(), writer.id.clone(), writer.lineage);
            tasks.spawn(async move { store.confirm(&id, lineage).await });
        }
        tasks.join_all().await
    };
    assert!(confirmed.iter().all(Result::is_ok), "{confirmed:?}");
    // Nothing is confirmed that no replica can receive; a caller that does not wait for it goes on.
    link.set(Mode::Always(Fault::BlackHole(Direction::Both)));
    writer.join(1).await;
    let unconfirmed = store.confirm(&writer.id, writer.lineage).await;
    assert!(
        matches!(&unconfirmed, Err(StoreError::Transient(why)) if why == "not replicated yet"),
        "{unconfirmed:?}"
    );
    // A store opened later, when no replica is connected, knows that there were some; unless configured otherwise.
    replica.kill();
    let late = open(&primary.url()).await;
    assert!(is_transient(&late.confirm(&writer.id, writer.lineage).await));
    let careless = RedisOptions { replicas: Replicas::Exactly(0), ..options(&primary.url()) };
    RedisStore::open(&careless).await.unwrap().confirm(&writer.id, writer.lineage).await.unwrap();
    let strict = RedisOptions { replicas: Replicas::Exactly(1), ..options(&RedisProcess::start().url()) };
    assert!(RedisStore::open(&strict).await.is_err(), "its server is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_to_a_lost_primary_is_not_confirmed_by_the_next_one() {
    if !require_redis() {
        return;
    }
    let servers = [0, 1, 2].map(|_| RedisProcess::start());
    let [primary, replica, second] = &servers;
    let proxy = ChaosProxy::before(primary.port());
    replica.replica_of(primary.port());
    second.replica_of(replica.port());
    second.wait_until_in_sync(replica);
    let options =
        RedisOptions { replicas: Replicas::Exactly(1), ..options(&primary.url_through(proxy.port())) };
    let store = Arc::new(RedisStore::open(&options).await.unwrap());
    let mut writer = Writer::make(store.clone(), "room").await;
    replica.wait_until_in_sync(primary);
    store.confirm(&writer.id, writer.lineage).await.unwrap();
    writer.join(1).await;
    replica.promote();
    second.wait_until_in_sync(replica);
    proxy.forward_to(replica.port());
    proxy.reset_connections();
    wait_until("the next primary says that it is another one", || async {
        matches!(store.confirm(&writer.id, writer.lineage).await, Err(StoreError::Transient(why)) if why.contains("the primary changed"))
    })
    .await;
    // A node that has taken note of the new lineage is confirmed under it.
    let snapshot = writer.snapshot().await;
    assert_ne!(snapshot.lineage, writer.lineage);
    store.confirm(&writer.id, snapshot.lineage).await.unwrap();
}

async fn next_of(notifications: &mut tokio::sync::mpsc::Receiver<Notification>, wanted: &Notification) {
    let found = async { while notifications.recv().await.expect("the store is there") != *wanted {} };
    tokio::time::timeout(TIMEOUT, found).await.unwrap_or_else(|_| panic!("no {wanted:?}"));
}

async fn are_told_what_others_do(url: &str) {
    let [one, other] = [Arc::new(open(url).await), Arc::new(open(url).await)];
    let mut notifications = other.subscribe();
    // Subscribing takes a moment, and earlier notifications are lost; so something is done again until one arrives.
    let made = async {
        for number in 0.. {
            assert!(one.replace_value(&format!("value-{number}"), None, b"", None).await.unwrap());
            if tokio::time::timeout(Duration::from_millis(200), notifications.recv()).await.is_ok() {
                break;
            }
        }
    };
    tokio::time::timeout(TIMEOUT, made).await.unwrap();
    let mut rooms = vec![];
    for name in ["one", "two", "three", "four"] {
        rooms.push(Writer::make(one.clone(), name).await);
        next_of(&mut notifications, &Notification::Names).await;
    }
    let ids: Vec<_> = rooms.iter().map(|writer| writer.id.clone()).collect();
    other.poll(&ids, OTHER_NODE, LEASE).await.unwrap();
    for writer in &mut rooms {
        let told = Notification::Room(writer.id.clone());
        let told = next_of(&mut notifications, &told);
        tokio::pin!(told);
        while tokio::time::timeout(Duration::from_millis(200), &mut told).await.is_err() {
            writer.perform(&Operation::Advance { by: 1 }).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_are_told_what_others_do() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    are_told_what_others_do(&redis.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications_resume_after_the_connection_was_lost() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let proxy = ChaosProxy::before(redis.port());
    let [one, other] = [open(&redis.url()).await, open(&redis.url_through(proxy.port())).await];
    let mut notifications = other.subscribe();
    for round in 0..3 {
        let told = async {
            for number in 0.. {
                let name = format!("round-{round}-{number}");
                assert!(one.replace_value(&name, None, b"", None).await.unwrap());
                if tokio::time::timeout(Duration::from_millis(100), notifications.recv()).await.is_ok() {
                    break;
                }
            }
        };
        tokio::time::timeout(TIMEOUT, told).await.unwrap();
        proxy.reset_connections();
        while notifications.try_recv().is_ok() {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_go_by_the_clock_of_the_server() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let stores = [open(&redis.url()).await, open(&redis.url()).await];
    let server_millis = || {
        let told = redis.command(&["TIME"]);
        let [seconds, micros] = [0, 1].map(|part| told.array()[part].integer().unsigned_abs());
        seconds * 1_000 + micros / 1_000
    };
    let mut last = 0;
    for round in 0..50 {
        for store in &stores {
            let clock = store.clock().unwrap();
            let (before, told, after) = (server_millis(), clock.now().0, server_millis());
            // The answer that was quickest may still have taken a while on a busy machine.
            assert!(told + 500 >= before && told <= after + 500, "{before} {told} {after}");
            assert!(clock.now().0 >= told && told + 1_000 > last);
            last = told;
            if round % 10 == 0 {
                store.poll(&[], NODE, LEASE).await.unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_has_forgotten_the_scripts_gets_them_again() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let store = Arc::new(open(&redis.url()).await);
    let mut writer = Writer::make(store.clone(), "room").await;
    for _ in 0..3 {
        redis.command(&["SCRIPT", "FLUSH"]).no_error();
        let before = store.calls();
        writer.join(1).await;
        assert_eq!(store.calls() - before, 2, "once in vain, once with the text");
        redis.command(&["SCRIPT", "FLUSH"]).no_error();
        writer.perform(&Operation::Advance { by: 1 }).await;
        redis.command(&["SCRIPT", "FLUSH"]).no_error();
        assert!(store.poll(&[writer.id.clone()], NODE, LEASE).await.unwrap().rooms[0].is_some());
    }
    writer.join(1).await;
    writer.perform(&Operation::Advance { by: 1 }).await;
    let before = store.calls();
    writer.join(1).await;
    writer.perform(&Operation::Advance { by: 1 }).await;
    store.poll(&[writer.id.clone()], NODE, LEASE).await.unwrap();
    assert!(store.calls() - before <= 4, "one call each, and one look in the background at most");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failover_by_sentinels_is_followed() {
    if !require_redis() {
        return;
    }
    let sentinels = Sentinels::start();
    let store = Arc::new(open(&sentinels.url()).await);
    let mut writer = Writer::make(store.clone(), "room").await;
    writer.join(3).await;
    wait_until("it is confirmed", || async { store.confirm(&writer.id, writer.lineage).await.is_ok() }).await;
    let before = writer.lineage;
    // The former primary is well and goes on to answer: only the Sentinels know better.
    sentinels.fail_over();
    wait_until("the new primary is asked", || async {
        store
            .load(&writer.id, NODE)
            .await
            .is_ok_and(|snapshot| snapshot.is_some_and(|snapshot| snapshot.lineage != before))
    })
    .await;
    assert_eq!(writer.snapshot().await.room.newest().joined, 3);
    sentinels.wait_until_whole();
    let before = writer.snapshot().await.lineage;
    sentinels.kill_primary();
    wait_until("the next one is asked", || async {
        store
            .load(&writer.id, NODE)
            .await
            .is_ok_and(|snapshot| snapshot.is_some_and(|snapshot| snapshot.lineage != before))
    })
    .await;
    let outcome = writer.try_join(1).await.unwrap();
    assert!(matches!(outcome, JoinOutcome::Conflict(Some(_))), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failover_in_a_cluster_is_followed_and_concerns_its_shard_only() {
    if !require_redis() {
        return;
    }
    let cluster = RedisCluster::start();
    are_told_what_others_do(&cluster.url()).await;
    let store = Arc::new(open(&cluster.url()).await);
    let mut writers = vec![];
    for name in ["a", "b", "c", "d", "e", "f"] {
        let mut writer = Writer::make(store.clone(), name).await;
        writer.join(2).await;
        store.confirm(&writer.id, writer.lineage).await.unwrap();
        writers.push(writer);
    }
    let key = |writer: &Writer| format!("anteroom:0:{{r/{}}}:room", writer.id);
    let hit = cluster.primary_of(&key(&writers[0])).port();
    let is_hit: Vec<bool> =
        writers.iter().map(|writer| cluster.primary_of(&key(writer)).port() == hit).collect();
    assert!(is_hit.contains(&false), "all rooms are on one server");
    cluster.kill_primary_of(&key(&writers[0]));
    for (writer, is_hit) in writers.iter_mut().zip(is_hit) {
        wait_until("the room is there", || async {
            store.load(&writer.id, NODE).await.is_ok_and(|found| found.is_some())
        })
        .await;
        let snapshot = writer.snapshot().await;
        assert_eq!(
            (snapshot.lineage != writer.lineage, snapshot.is_continuous),
            (is_hit, !is_hit),
            "{}",
            writer.id
        );
        assert_eq!(snapshot.room.newest().joined, 2, "confirmed, so it is there");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_room_is_found_where_its_slot_has_moved_to() {
    if !require_redis() {
        return;
    }
    let cluster = RedisCluster::start();
    let store = Arc::new(open(&cluster.url()).await);
    let mut writer = Writer::make(store.clone(), "room").await;
    writer.join(4).await;
    let key = "anteroom:0:{r/room}:room";
    let from = cluster.primary_of(key);
    let to = cluster.nodes().iter().find(|node| node.is_primary() && node.port() != from.port()).unwrap();
    let slot = from.command(&["CLUSTER", "KEYSLOT", key]).text();
    let [from_id, to_id] = [from, to].map(|node| node.command(&["CLUSTER", "MYID"]).text());
    to.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]).no_error();
    from.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]).no_error();
    let keys = from.command(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]);
    for moved in keys.array() {
        let port = to.port().to_string();
        from.command(&["MIGRATE", "127.0.0.1", &port, &moved.text(), "0", "5000"]).no_error();
    }
    // Half-way: what is one key is asked for where it has gone; what is several keys has to wait.
    let missing =
        SessionKey { generation: writer.room.newest().generation, position: Position::new(1).unwrap() };
    assert_eq!(store.session(&writer.id, missing).await.unwrap(), None);
    let half_way = writer.try_join(1).await;
    assert!(half_way.as_ref().is_ok() || is_transient(&half_way), "{half_way:?}");
    for node in [to, from] {
        node.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).no_error();
    }
    let snapshot = writer.snapshot().await;
    assert!(snapshot.room.newest().joined >= 4);
    assert_ne!(snapshot.lineage, writer.lineage, "another server, another history");
    writer.mend().await;
    writer.join(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_deleted_rooms_than_are_kept_share_one_trace() {
    const MORE: u64 = 50;
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let store = Arc::new(open(&redis.url()).await);
    let mut connection = redis.connect().unwrap();
    for number in 0..TRACES_MAX + MORE {
        let (name, trace) = (format!("gone-{number}"), format!("anteroom:0:{{r/gone-{number}}}:trace"));
        let numbers = [7_000 + number, 10 + number, 100 + number].map(|number| number.to_string());
        connection.send(&["ZADD", "anteroom:0:{store}:names", &number.to_string(), &name]).unwrap();
        connection.send(&["HSET", &trace, "g", &numbers[0], "v", &numbers[1], "e", &numbers[2]]).unwrap();
    }
    for _ in 0..2 * (TRACES_MAX + MORE) {
        connection.receive().unwrap().no_error();
    }
    let oldest = RoomId::parse("gone-0").unwrap();
    assert_eq!(store.trace(&oldest).await.unwrap().unwrap().version, 10);
    let writer = Writer::make(store.clone(), "room").await;
    let deletion =
        Deletion { room: writer.id.clone(), expected: writer.room.version, audit: None, events: vec![] };
    assert_eq!(store.delete_room(&deletion).await.unwrap(), DeletionOutcome::Done);
    // Its own trace, and those that are not the oldest, are as they were; the others are said to be later than they were.
    assert_eq!(store.trace(&writer.id).await.unwrap().unwrap().generation, writer.room.newest().generation);
    assert_eq!(redis.command(&["EXISTS", "anteroom:0:{r/gone-0}:trace"]).integer(), 0);
    let shared = store.trace(&oldest).await.unwrap().unwrap();
    assert!(shared.version > 10 + MORE && shared.epoch > 100 + MORE, "{shared:?}");
    let newest = RoomId::parse(&format!("gone-{}", TRACES_MAX + MORE - 1)).unwrap();
    assert_eq!(store.trace(&newest).await.unwrap().unwrap().version, 10 + TRACES_MAX + MORE - 1);
    let names = redis.command(&["ZCARD", "anteroom:0:{store}:names"]).integer().unsigned_abs();
    assert!(names <= TRACES_MAX, "{names}");
}
