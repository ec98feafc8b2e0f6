//! The embedded store when things go wrong: failing disks, other owners, newer files, and what is to be deleted.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anteroom_core::{
    Answer, Board, Claim, Operation, RequestId, RoomId, RoomState, SessionKey, Settings, Ticket, UnixMillis,
};
use anteroom_engine::{Actor, Engine, EngineError, RoomHandle};
use anteroom_store::backup::reader::VerifiedBackup;
use anteroom_store::clock::Stopwatch;
use anteroom_store::embedded::{FILE_NAME, OpenError, SCHEMA_VERSION};
use anteroom_store::{AuditRecord, EmbeddedStore, ManualClock, NodeId, Store, StoreError, SystemClock};
use redb::{Database, ReadableDatabase, ReadableTableMetadata, StorageBackend, TableDefinition, TableHandle};
use tokio::task::JoinSet;

/// A disk that keeps everything but fails on demand.
#[derive(Clone, Default)]
struct FailingDisk {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// The call of a write, a sync or a change of length that fails, counted down; 0 is "none".
    fails_after: Arc<AtomicU64>,
    /// Whether every call fails from the next one on.
    broken: Arc<std::sync::atomic::AtomicBool>,
    failures: Arc<AtomicU64>,
}

impl std::fmt::Debug for FailingDisk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("FailingDisk")
    }
}

impl FailingDisk {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, writes: bool) -> io::Result<()> {
        let due = writes
            && self.fails_after.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                == Ok(1);
        if due || self.broken.load(Ordering::SeqCst) {
            self.failures.fetch_add(1, Ordering::SeqCst);
            return Err(io::Error::other("the disk failed"));
        }
        Ok(())
    }

    fn open(&self) -> Result<EmbeddedStore, OpenError> {
        let disk = self.clone();
        EmbeddedStore::open_with(
            Box::new(move || Database::builder().create_with_backend(disk.clone())),
            Arc::new(SystemClock),
        )
    }
}

impl StorageBackend for FailingDisk {
    fn len(&self) -> io::Result<u64> {
        self.check(false)?;
        Ok(self.bytes().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.check(false)?;
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        out.copy_from_slice(&self.bytes()[offset..offset + out.len()]);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.check(true)?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        self.bytes().resize(length, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check(true)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check(true)?;
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        self.bytes()[offset..offset + data.len()].copy_from_slice(data);
        Ok(())
    }
}

fn room_id() -> RoomId {
    RoomId::parse("room").unwrap()
}

async fn engine_on(store: Arc<dyn Store>) -> (Arc<Engine>, Arc<RoomHandle>) {
    let engine = Engine::start(store, Arc::new(SystemClock), NodeId(1)).await.unwrap();
    let room = engine
        .create_room(room_id(), Settings::default(), RoomState::Open, 1, Actor::System("test"))
        .await
        .unwrap()
        .0;
    (engine, room)
}

async fn advance(room: &RoomHandle, by: i64) -> Result<Answer, EngineError> {
    room.operate(Operation::Advance { by }, Actor::Operator("test".into())).await
}

async fn claim(room: &RoomHandle, ticket: Ticket) -> Result<Answer, EngineError> {
    let claim = Claim {
        ticket,
        request_id: RequestId(u128::from(ticket.position.get()).to_be_bytes()),
        issuer: "https://issuer.example".into(),
        validity_seconds: None,
        key_id: "key".into(),
        stay_millis: None,
        prefix: None,
    };
    room.operate(Operation::Claim(claim), Actor::Visitor).await
}

/// The board is what a fresh load shows, but for the time that has passed since the last commit.
fn assert_shows(room: &RoomHandle, stored: &anteroom_core::Room) {
    let board = room.board();
    assert_eq!(*board, Board { clock: board.clock, ..Board::of(stored) });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_commit_is_ambiguous_and_the_store_goes_on() {
    let disk = FailingDisk::default();
    let store = Arc::new(disk.open().unwrap());
    let (engine, room) = engine_on(store.clone()).await;
    let mut positions = BTreeSet::new();
    let (mut serving, mut ambiguous) = (0, 0);
    for nth_call in 1..=40 {
        disk.fails_after.store(nth_call, Ordering::SeqCst);
        let mut failed = false;
        // A commit has fewer calls than this loop turns, so the failure comes within it.
        for turn in 0.. {
            assert!(turn < 100, "call {nth_call} never failed");
            match room.join().await {
                Ok(ticket) => assert!(positions.insert(ticket.position.get()), "handed out twice"),
                Err(EngineError::Store(StoreError::Ambiguous(_))) => {
                    failed = true;
                    ambiguous += 1;
                }
                Err(EngineError::Store(StoreError::Transient(_))) => failed = true,
                Err(error) => panic!("{error}"),
            }
            match advance(&room, 1).await {
                Ok(Answer::Advanced { serving: now }) => {
                    assert!(now > serving, "the frontier fell back");
                    serving = now;
                }
                Err(EngineError::Store(StoreError::Ambiguous(_))) => {
                    failed = true;
                    ambiguous += 1;
                }
                Err(EngineError::Store(StoreError::Transient(_))) => failed = true,
                other => panic!("{other:?}"),
            }
            if failed || disk.fails_after.load(Ordering::SeqCst) == 0 {
                break;
            }
        }
        assert!(store.is_ready());
        let ticket = room.join().await.expect("the database is open again");
        assert!(positions.insert(ticket.position.get()));
        assert!(positions.last() == Some(&ticket.position.get()), "in order of arrival");
    }
    assert!(ambiguous > 10, "most of these calls belong to a commit");
    let stored = store.load(room.id(), NodeId(1)).await.unwrap().unwrap().room;
    assert!(stored.newest().joined >= *positions.last().unwrap());
    assert!(stored.serving() >= serving);
    assert_shows(&room, &stored);
    engine.stop().await;
    // The disk has what the store answered.
    drop((engine, store));
    let reopened = disk.open().unwrap();
    let found = reopened.load(room.id(), NodeId(1)).await.unwrap().unwrap().room;
    assert_eq!(found, stored);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_failure_makes_the_store_not_ready_and_says_why() {
    let disk = FailingDisk::default();
    let store = Arc::new(disk.open().unwrap());
    let (engine, room) = engine_on(store.clone()).await;
    let ticket = room.join().await.unwrap();
    let board = room.board();
    assert!(store.is_ready());
    disk.broken.store(true, Ordering::SeqCst);
    let first = room.join().await.unwrap_err();
    assert!(
        matches!(first, EngineError::Store(StoreError::Ambiguous(_) | StoreError::Transient(_))),
        "{first}"
    );
    assert!(!store.is_ready());
    let sentence = "the store is not available: the database";
    let said = |error: &dyn std::fmt::Display| assert!(error.to_string().starts_with(sentence), "{error}");
    said(&room.join().await.unwrap_err());
    said(&advance(&room, 1).await.unwrap_err());
    said(&store.rooms().await.unwrap_err());
    said(&store.replace_value("name", None, b"value", None).await.unwrap_err());
    assert_eq!(room.board(), board, "reads go on from the last board");
    // Once the disk works again, so does the store, by itself.
    disk.broken.store(false, Ordering::SeqCst);
    let deadline = Duration::from_secs(30);
    let back = tokio::time::timeout(deadline, async {
        loop {
            match room.join().await {
                Ok(ticket) => break ticket,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    });
    assert!(back.await.expect("the store comes back").position > ticket.position);
    assert!(store.is_ready());
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_of_a_backup_holds_up_nobody_and_loses_it_when_the_database_is_opened_again() {
    let disk = FailingDisk::default();
    let store = Arc::new(disk.open().unwrap());
    let (engine, room) = engine_on(store.clone()).await;
    // More than may wait for a reader.
    let long = vec![7; 50_000];
    for name in 0..40 {
        assert!(store.replace_value(&format!("value-{name}"), None, &long, None).await.unwrap());
    }
    let mut slow = store.backup(UnixMillis(1)).await.unwrap();
    let first = slow.next().await.unwrap().unwrap();
    assert!(first.starts_with(b"ANTEROOM BACKUP"));
    let second = store.backup(UnixMillis(2)).await.unwrap();
    let third = store.backup(UnixMillis(3)).await.unwrap_err().to_string();
    assert_eq!(third, "the store is not available: 2 backups are being taken already");
    room.join().await.unwrap();
    disk.fails_after.store(1, Ordering::SeqCst);
    let failed = room.join().await.unwrap_err();
    assert!(matches!(failed, EngineError::Store(_)), "{failed}");
    room.join().await.expect("the database is open again");
    let mut stream = slow;
    let broken_off = loop {
        match stream.next().await.expect("an error before the end") {
            Ok(_) => {}
            Err(error) => break error.to_string(),
        }
    };
    assert!(broken_off.ends_with("the database is being opened again"), "{broken_off}");
    assert!(stream.next().await.is_none());
    // A reader that goes away frees its place for the next.
    drop(second);
    let watch = Stopwatch::start();
    let mut whole = loop {
        match store.backup(UnixMillis(4)).await {
            Ok(stream) => break stream,
            Err(_) => assert!(watch.elapsed() < Duration::from_secs(20), "no place is given back"),
        }
        tokio::task::yield_now().await;
    };
    let mut bytes = vec![];
    while let Some(piece) = whole.next().await {
        bytes.extend(piece.unwrap());
    }
    let verified = VerifiedBackup::verify(Box::new(io::Cursor::new(bytes))).unwrap();
    assert_eq!((verified.values().len(), verified.rooms()), (40, 1));
    engine.stop().await;
}

#[tokio::test]
async fn a_database_of_the_first_version_is_migrated() {
    const VALUES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("values");
    const AUDIT: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("audit");
    let directory = tempfile::tempdir().unwrap();
    let open = || EmbeddedStore::open(directory.path(), Arc::new(SystemClock)).unwrap();
    let (engine, room) = engine_on(Arc::new(open())).await;
    let ticket = room.join().await.unwrap();
    engine.stop().await;
    drop((engine, room));
    // What the first version wrote: no traces, and audit records without detail.
    let database = Database::open(directory.path().join(FILE_NAME)).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(VALUES).unwrap().insert("schema", 1u32.to_le_bytes().as_slice()).unwrap();
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let at = 1_800_000_000_000_u64.to_le_bytes();
    let record = [&[1], at.as_slice(), &text("room"), &text("somebody"), &text("reset")].concat();
    transaction.open_table(AUDIT).unwrap().insert(1, record.as_slice()).unwrap();
    transaction.delete_table(TableDefinition::<&str, (u32, u8, u64, u64)>::new("traces")).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let store = open();
    let schema = store.value("schema").await.unwrap();
    assert_eq!(schema.as_deref(), Some(SCHEMA_VERSION.to_le_bytes().as_slice()));
    let record = AuditRecord::new(UnixMillis(1_800_000_000_000), Some(room_id()), "somebody", "reset");
    assert_eq!(store.audit(None, None, 10).await.unwrap(), [(1, record)]);
    assert_eq!(store.trace(&room_id()).await.unwrap(), None);
    let (engine, room) = engine_on(Arc::new(store)).await;
    assert!(room.join().await.unwrap().position > ticket.position);
    engine.stop().await;
}

/// How many rows each table of a closed database has, those without rows left out.
fn rows(directory: &std::path::Path) -> Vec<(String, u64)> {
    let database = Database::open(directory.join(FILE_NAME)).unwrap();
    let transaction = database.begin_read().unwrap();
    let mut rows = vec![];
    for table in transaction.list_tables().unwrap() {
        let name = table.name().to_owned();
        let length = transaction.open_untyped_table(table).unwrap().len().unwrap();
        if length > 0 {
            rows.push((name, length));
        }
    }
    rows.sort();
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn housekeeping_deletes_the_records_of_closed_lines_little_by_little() {
    const VISITORS: u64 = 700;
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(UnixMillis(1_800_000_000_000)));
    let open = || Arc::new(EmbeddedStore::open(directory.path(), clock.clone()).unwrap());
    let start = |store| Engine::start(store, clock.clone(), NodeId(1));
    let engine = start(open()).await.unwrap();
    let room = engine
        .create_room(room_id(), Settings::default(), RoomState::Open, 1, Actor::System("test"))
        .await
        .unwrap()
        .0;
    advance(&room, i64::try_from(VISITORS).unwrap() + 1).await.unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..VISITORS {
        let room = room.clone();
        tasks.spawn(async move {
            let ticket = room.join().await.unwrap();
            // One of them stays away, so that the bits of the others are needed.
            if ticket.position.get() > 1 {
                claim(&room, ticket).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    let reset = Operation::Reset { incarnation: 2 };
    room.operate(reset, Actor::Operator("test".into())).await.unwrap();
    advance(&room, 1).await.unwrap();
    let ticket = room.join().await.unwrap();
    claim(&room, ticket).await.unwrap();
    engine.stop().await;
    drop((engine, room));
    let old_rows = |rows: &[(String, u64)]| -> u64 {
        let of_lines = ["by_end", "chunks", "closed_lines", "ending", "sessions"];
        rows.iter().filter(|(name, _)| of_lines.contains(&name.as_str())).map(|&(_, count)| count).sum()
    };
    let mut before = old_rows(&rows(directory.path()));
    assert!(before > 3 * VISITORS - 600, "hardly anything is deleted at once: {before}");
    for round in 0.. {
        assert!(round < 20, "{before} rows are left");
        clock.advance(1_000);
        let engine = start(open()).await.unwrap();
        let room = engine.room("room").unwrap();
        advance(&room, 1).await.unwrap();
        engine.stop().await;
        drop((engine, room));
        let after = old_rows(&rows(directory.path()));
        assert!(after < before && before - after <= 600, "{before} became {after}");
        before = after;
        // The one session of the new line: its record, its end twice, and its bit.
        if before == 4 {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_of_a_deleted_room_is_nobody_elses_and_goes_little_by_little() {
    const VISITORS: u64 = 600;
    let directory = tempfile::tempdir().unwrap();
    // The clock stands still, so that every line opens in the same second.
    let clock = Arc::new(ManualClock::at(UnixMillis(1_800_000_000_000)));
    let open = || Arc::new(EmbeddedStore::open(directory.path(), clock.clone()).unwrap());
    let engine = Engine::start(open(), clock.clone(), NodeId(1)).await.unwrap();
    let actor = || Actor::System("test");
    let make = async |name: &str| {
        let id = RoomId::parse(name).unwrap();
        engine.create_room(id, Settings::default(), RoomState::Open, 1, actor()).await.unwrap().0
    };
    let room = make("room").await;
    advance(&room, i64::try_from(VISITORS).unwrap()).await.unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..VISITORS {
        let room = room.clone();
        tasks.spawn(async move {
            let ticket = room.join().await.unwrap();
            claim(&room, ticket).await.unwrap();
            ticket
        });
    }
    let tickets = tasks.join_all().await;
    assert!(engine.delete_room(room.id(), actor(), None).await.unwrap());
    // One of another name has the very same generation, and none of those sessions.
    let young = make("young").await;
    let generation = young.board().segments[0].generation;
    assert_eq!(generation, tickets[0].generation);
    for ticket in &tickets {
        let key = SessionKey { generation, position: ticket.position };
        assert_eq!(engine.store().session(young.id(), key).await.unwrap(), None);
    }
    let generations = [generation];
    let far = UnixMillis(u64::MAX);
    assert_eq!(engine.store().expired_passes(young.id(), &generations, far).await.unwrap(), []);
    for _ in 0..20 {
        clock.advance(1_000);
        advance(&young, 1).await.unwrap();
    }
    engine.stop().await;
    drop((engine, room, young));
    let left = rows(directory.path());
    let of_rooms = ["by_end", "chunks", "closed_lines", "ending", "sessions"];
    let left: Vec<_> = left.into_iter().filter(|(name, _)| of_rooms.contains(&name.as_str())).collect();
    assert_eq!(left, []);
}
