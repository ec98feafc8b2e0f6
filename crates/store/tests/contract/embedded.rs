//! How an embedded store is opened, and when it is not; how the sessions of a whole turn are read from it.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use anteroom_core::{Generation, Operation, Position, RoomId, SessionKey, UnixMillis};
use anteroom_store::conformance::caller::Caller;
use anteroom_store::embedded::{FILE_NAME, OpenError, SCHEMA_VERSION};
use anteroom_store::{EmbeddedStore, Store, SystemClock};

#[tokio::test]
async fn a_newer_schema_is_refused_with_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let open = || EmbeddedStore::open(directory.path(), Arc::new(SystemClock));
    let store = open().unwrap();
    let (known, newer) = (SCHEMA_VERSION.to_le_bytes(), (SCHEMA_VERSION + 1).to_le_bytes());
    assert!(store.replace_value("schema", Some(&known), &newer, None).await.unwrap());
    drop(store);
    let refused = open().err().unwrap();
    assert_eq!(
        refused.to_string(),
        "the database was written by a newer version (schema 4, this program knows 3); use that version"
    );
    assert!(matches!(refused, OpenError::Newer { found: 4 }));
}

#[tokio::test]
async fn a_database_has_one_owner_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let open = || EmbeddedStore::open(directory.path(), Arc::new(SystemClock));
    let store = open().unwrap();
    assert!(matches!(open(), Err(OpenError::InUse)));
    assert!(store.replace_value("name", None, b"value", None).await.unwrap());
    drop(store);
    let value = open().unwrap().value("name").await.unwrap();
    assert_eq!(value.as_deref(), Some(b"value".as_slice()));
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let refused = EmbeddedStore::open(&file.join("data"), Arc::new(SystemClock));
    let refused = refused.err().unwrap().to_string();
    assert!(refused.starts_with("cannot create the data directory"), "{refused}");
}

#[test]
fn an_unfinished_file_is_no_obstacle() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(format!("{FILE_NAME}.new-1-1")), b"torn").unwrap();
    drop(EmbeddedStore::open(directory.path(), Arc::new(SystemClock)).unwrap());
    EmbeddedStore::open(directory.path(), Arc::new(SystemClock)).unwrap();
}

/// A turn of 4,096 claims once read as many transactions, one after the other, on a thread that all other rooms wait for.
#[test]
fn the_sessions_of_a_whole_turn_are_read_on_no_thread_that_others_wait_for() {
    let directory = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(directory.path(), Arc::new(SystemClock)).unwrap();
    let generation = Generation::following(None, UnixMillis(1_800_000_000_000), 1);
    let key = |position| SessionKey { generation, position: Position::new(position).unwrap() };
    let keys: Vec<SessionKey> = (1..=4_096).map(key).collect();
    let room = RoomId::parse("room").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        // The only thread that may block is busy.
        let (release, released) = std::sync::mpsc::sync_channel::<()>(1);
        let busy = tokio::task::spawn_blocking(move || released.recv());
        let mut reading = pin!(store.sessions(&room, &keys));
        let first_poll = std::future::poll_fn(|context| Poll::Ready(reading.as_mut().poll(context))).await;
        assert!(first_poll.is_pending(), "it was read by the thread that asked");
        // A few take less time than a change of threads.
        assert_eq!(store.sessions(&room, &keys[..3]).await.unwrap(), vec![None; 3]);
        release.send(()).unwrap();
        busy.await.unwrap().unwrap();
        assert_eq!(reading.await.unwrap(), vec![None; keys.len()]);
    });
}

/// Sessions that change together are read together, because one transaction reads them all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sessions_of_a_turn_are_those_of_one_moment() {
    const STAY_MILLIS: u64 = 60_000;
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> =
        Arc::new(EmbeddedStore::open(directory.path(), Arc::new(SystemClock)).unwrap());
    let mut caller = Caller::open(&store, "room").await;
    let mut keys = vec![];
    for _ in 0..64 {
        keys.push(caller.admit_for(STAY_MILLIS).await.key);
    }
    let room = RoomId::parse("room").unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    #[expect(clippy::disallowed_methods, reason = "a test joins the one task that it spawns")]
    let reader = tokio::spawn({
        let (store, keys, is_over) = (Arc::clone(&store), keys.clone(), Arc::clone(&is_over));
        async move {
            let mut moments = BTreeSet::new();
            while !is_over.load(Ordering::SeqCst) {
                let sessions = store.sessions(&room, &keys).await.unwrap();
                let ends: BTreeSet<UnixMillis> =
                    sessions.iter().map(|session| session.as_ref().unwrap().ends_at()).collect();
                assert_eq!(ends.len(), 1, "some from before a commit and some from after it");
                moments.extend(ends);
            }
            moments.len()
        }
    });
    for number in 1..=100 {
        let touch = |&key: &SessionKey| Operation::Touch { key, stay_millis: STAY_MILLIS + number };
        let touches: Vec<Operation> = keys.iter().map(touch).collect();
        let (commit, answers) = caller.prepare(&touches).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        caller.commit(&commit).await;
    }
    is_over.store(true, Ordering::SeqCst);
    assert!(reader.await.unwrap() > 1, "it read meanwhile");
}
