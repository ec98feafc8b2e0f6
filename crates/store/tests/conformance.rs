//! The one list of scenarios over the stores of this crate.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::sync::Arc;

use anteroom_core::{RequestId, Room, RoomId, Session, UnixMillis};
use anteroom_store::conformance::{SCENARIOS, run_all};
use anteroom_store::{AuditRecord, EmbeddedStore, MemoryStore, NodeId, Store, StoredEvent, SystemClock};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_memory_store_keeps_the_contract() {
    run_all(|| async { Arc::new(MemoryStore::default()) as Arc<dyn Store> }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_memory_store_that_engines_share_keeps_the_contract() {
    run_all(|| async { Arc::new(MemoryStore::shared()) as Arc<dyn Store> }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_embedded_store_keeps_the_contract() {
    let directory = tempfile::tempdir().unwrap();
    let (directory, number) = (directory.path(), std::sync::atomic::AtomicUsize::new(0));
    run_all(|| async {
        let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let store = EmbeddedStore::open(&directory.join(number.to_string()), Arc::new(SystemClock)).unwrap();
        Arc::new(store) as Arc<dyn Store>
    })
    .await;
    assert_eq!(
        number.load(std::sync::atomic::Ordering::Relaxed),
        SCENARIOS.len(),
        "every scenario ran over a store of its own"
    );
}

/// Everything that can be read from a store.
#[derive(Debug, PartialEq)]
struct Told {
    rooms: Vec<(RoomId, Room, Vec<Session>, Vec<RequestId>)>,
    events: Vec<(u64, StoredEvent)>,
    audit: Vec<(u64, AuditRecord)>,
    values: Vec<Option<Vec<u8>>>,
}

async fn told_by(store: &dyn Store) -> Told {
    let mut rooms = vec![];
    for id in store.rooms().await.unwrap() {
        let room = store.load(&id, NodeId(1)).await.unwrap().unwrap().room;
        let generations: Vec<_> = room.segments.iter().map(|segment| segment.generation).collect();
        let end_of_time = UnixMillis(u64::MAX);
        let active = store.sessions_ended(&id, &generations, end_of_time, 100_000).await.unwrap();
        let passes = store.expired_passes(&id, &generations, end_of_time).await.unwrap();
        rooms.push((id, room, active, passes));
    }
    let mut values = vec![];
    for name in ["ring", "other", "missing"] {
        values.push(store.value(name).await.unwrap());
    }
    Told {
        rooms,
        events: store.events(0, 1_000_000).await.unwrap(),
        audit: store.audit(None, None, 1_000_000).await.unwrap(),
        values,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_embedded_store_tells_the_same_after_closing_and_reopening() {
    for (name, scenario) in SCENARIOS {
        let directory = tempfile::tempdir().unwrap();
        let open = || Arc::new(EmbeddedStore::open(directory.path(), Arc::new(SystemClock)).unwrap());
        let store = open();
        scenario(store.clone()).await;
        let before = told_by(&*store).await;
        drop(Arc::into_inner(store).unwrap_or_else(|| panic!("{name} let go of its store")));
        let after = told_by(&*open()).await;
        assert!(before == after, "{name}: {before:?} became {after:?}");
    }
}
