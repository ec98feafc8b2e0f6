//! Events come from rooms on any server, through any node, and get their numbers in one place: each once, and none behind a later one
//! that was read already.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anteroom_core::{Event, Generation, Operation, Position, RequestId, SessionKey};
use anteroom_store::contract::{Commit, CommitOutcome, Store};
use anteroom_testkit::redis::{RedisCluster, RedisProcess};
use anteroom_testkit::require_redis;

use crate::support::{Writer, open};

const ROOMS: u64 = 4;
const COMMITS: u64 = 60;
const EVENTS_PER_COMMIT: u64 = 3;

/// An event that tells its room and its place there; those of rooms and of visitors take turns.
fn event_of(room: u64, place: u64) -> Event {
    let id = room << 32 | place;
    if place.is_multiple_of(2) {
        return Event::LineEmpty { joined: id };
    }
    let generation = Generation { opened: 1, incarnation: 1 };
    let visit = SessionKey { generation, position: Position::new(id).unwrap() };
    Event::TokenGenerated { request_id: RequestId([0; 16]), visit }
}

/// The room and the place that an event tells.
fn id_of(event: &Event) -> u64 {
    match event {
        Event::LineEmpty { joined } => *joined,
        Event::TokenGenerated { visit, .. } => visit.position.get(),
        other => panic!("{other:?}"),
    }
}

/// Writes events that tell their room and order.
async fn write(mut writer: Writer, room: u64) {
    for commit in 0..COMMITS {
        let mut next = writer.prepare(&Operation::Advance { by: 1 });
        let event = |number: u64| event_of(room, commit * EVENTS_PER_COMMIT + number + 1);
        next.effects.events = (0..EVENTS_PER_COMMIT).map(event).collect();
        let outcome = writer.store.commit(&Commit { audit: vec![], ..next.clone() }).await.unwrap();
        assert!(matches!(outcome, CommitOutcome::Done { .. }), "{outcome:?}");
        writer.room = next.next;
    }
}

/// Reads behind the last one it has seen, a few at a time, until everything is written and read.
async fn read(store: Arc<dyn Store>, is_over: Arc<AtomicBool>) -> Vec<(u64, Event)> {
    let mut seen: Vec<(u64, Event)> = vec![];
    loop {
        let was_over = is_over.load(Ordering::SeqCst);
        let after = seen.last().map_or(0, |(number, _)| *number);
        let events = store.events(after, 7).await.unwrap();
        if events.is_empty() && was_over {
            return seen;
        }
        for (number, stored) in events {
            assert!(seen.last().is_none_or(|(last, _)| *last < number), "numbers rise");
            seen.push((number, stored.event));
        }
    }
}

async fn every_reader_reads_everything_once_and_in_order(url: &str) {
    let stores = [Arc::new(open(url).await), Arc::new(open(url).await)];
    let is_over = Arc::new(AtomicBool::new(false));
    let (mut writers, mut readers) = (tokio::task::JoinSet::new(), tokio::task::JoinSet::new());
    for room in 0..ROOMS {
        let store = stores[usize::try_from(room).unwrap() % 2].clone();
        let writer = Writer::make(store, &format!("room-{room}")).await;
        writers.spawn(write(writer, room));
    }
    for store in &stores {
        readers.spawn(read(store.clone(), is_over.clone()));
    }
    writers.join_all().await;
    is_over.store(true, Ordering::SeqCst);
    let read = readers.join_all().await;
    assert_eq!(read[0], read[1], "every node reads the same");
    let total = ROOMS * COMMITS * EVENTS_PER_COMMIT;
    assert_eq!(read[0].len() as u64, total);
    let numbers: BTreeSet<u64> = read[0].iter().map(|(number, _)| *number).collect();
    assert_eq!((numbers.first(), numbers.last()), (Some(&1), Some(&total)), "no number is left out");
    let mut last_of_room = vec![None; usize::try_from(ROOMS).unwrap()];
    for (_, event) in &read[0] {
        let id = id_of(event);
        let room = usize::try_from(id >> 32).unwrap();
        assert!(last_of_room[room] < Some(id), "those of one room are in order");
        last_of_room[room] = Some(id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_event_is_missed_or_told_twice() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    every_reader_reads_everything_once_and_in_order(&redis.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_event_of_a_cluster_is_missed_or_told_twice() {
    if !require_redis() {
        return;
    }
    let cluster = RedisCluster::start();
    every_reader_reads_everything_once_and_in_order(&cluster.url()).await;
}
