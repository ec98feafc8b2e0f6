//! Power loss under load: what was acknowledged survives, and nothing is handed out twice.
//!
//! The database lives on a disk of the test's own. It keeps what was written since the last sync aside; when the power goes, a
//! random part of that survives, in random order and some of it torn. Engines drive the store until that happens, again and
//! again on what is left, and a ledger outside compares what was acknowledged with what is found.
//!
//! `ANTEROOM_TEST_FULL=1` plays many more seeds; every failure names its seed.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

mod disk;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use anteroom_core::settings::VisitorEvents;
use anteroom_core::{
    Answer, Claim, Event, Operation, Outcome, RequestId, Room, RoomId, RoomState, Session, SessionKey,
    Settings, Ticket, UnixMillis,
};
use anteroom_engine::{Actor, Engine, EngineError, RoomHandle};
use anteroom_store::backup::reader::VerifiedBackup;
use anteroom_store::backup::restore::{Restore, RestoreError, ReturningRoom};
use anteroom_store::embedded::OpenError;
use anteroom_store::{EmbeddedStore, NodeId, Store, SystemClock};
use disk::{Disk, Random};
use redb::Database;
use tokio::task::JoinSet;

const SEEDS: u64 = 40;
const SEEDS_FULL: u64 = 1_500;
const CRASHES_PER_SEED: u64 = 5;
/// The power goes after at most so many calls of the disk.
const FUSE_MAX: u64 = 700;
/// The same for a life that is to end while the database is being opened or repaired.
const FUSE_WHILE_OPENING_MAX: u64 = 60;
const TASKS: u64 = 4;
const ROOMS: [&str; 2] = ["one", "two"];
const CACHE_BYTES: usize = 1 << 20;

/// The answers that visitors and operators of one room have got.
#[derive(Default)]
struct Ledger {
    created: bool,
    joined: BTreeSet<Ticketed>,
    tickets: Vec<Ticket>,
    sessions: BTreeMap<SessionKey, Session>,
    /// Sessions whose end was asked for without an answer.
    perhaps_ended: BTreeSet<SessionKey>,
    left: Vec<Ticket>,
    serving: u64,
}

type Ticketed = (anteroom_core::Generation, u64);
type Ledgers = Arc<Mutex<BTreeMap<&'static str, Ledger>>>;

fn with_ledger<T>(ledgers: &Ledgers, room: &'static str, work: impl FnOnce(&mut Ledger) -> T) -> T {
    work(ledgers.lock().unwrap_or_else(PoisonError::into_inner).entry(room).or_default())
}

fn open(disk: &Disk) -> Result<EmbeddedStore, OpenError> {
    let disk = disk.clone();
    EmbeddedStore::open_with(
        Box::new(move || Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(disk.clone())),
        Arc::new(SystemClock),
    )
}

/// Everything the room takes, at random, until the power goes.
async fn work_until_power_goes(
    room: Arc<RoomHandle>,
    name: &'static str,
    ledgers: Ledgers,
    mut random: Random,
) {
    loop {
        let choice = random.below(100);
        let ticket = with_ledger(&ledgers, name, |ledger| {
            let count = ledger.tickets.len();
            (count > 0).then(|| ledger.tickets[random.index(count)])
        });
        let done = match (choice, ticket) {
            (0..45, _) | (_, None) => room.join().await.map(|ticket| {
                with_ledger(&ledgers, name, |ledger| {
                    let place = (ticket.generation, ticket.position.get());
                    assert!(ledger.joined.insert(place), "{place:?} was acknowledged twice");
                    ledger.tickets.push(ticket);
                });
            }),
            (45..60, _) => {
                let by = 1 + i64::try_from(random.below(4)).unwrap();
                let advanced = room.operate(Operation::Advance { by }, Actor::Operator("test".into())).await;
                advanced.map(|answer| {
                    let Answer::Advanced { serving } = answer else { panic!("{answer:?}") };
                    with_ledger(&ledgers, name, |ledger| {
                        ledger.serving = ledger.serving.max(serving);
                    });
                })
            }
            (60..85, Some(ticket)) => claim(&room, name, &ledgers, ticket).await,
            (85..95, Some(ticket)) => close(&room, name, &ledgers, ticket, &mut random).await,
            (_, Some(ticket)) => match room.operate(Operation::Leave { ticket }, Actor::Visitor).await {
                // Leaving with a session ends it.
                Ok(Answer::Session(session)) => {
                    with_ledger(&ledgers, name, |ledger| {
                        ledger.sessions.insert(session.key, session);
                    });
                    Ok(())
                }
                Ok(_) => {
                    with_ledger(&ledgers, name, |ledger| ledger.left.push(ticket));
                    Ok(())
                }
                Err(error) => {
                    with_ledger(&ledgers, name, |ledger| ledger.perhaps_ended.insert(key(&ticket)));
                    Err(error)
                }
            },
        };
        match done {
            Ok(()) | Err(EngineError::Refused(_)) => {}
            Err(_) => return,
        }
    }
}

fn key(ticket: &Ticket) -> SessionKey {
    SessionKey { generation: ticket.generation, position: ticket.position }
}

async fn claim(
    room: &RoomHandle,
    name: &'static str,
    ledgers: &Ledgers,
    ticket: Ticket,
) -> Result<(), EngineError> {
    let claim = Operation::Claim(Claim {
        ticket,
        request_id: RequestId(u128::from(ticket.position.get()).to_be_bytes()),
        issuer: format!("https://{name}.example"),
        validity_seconds: Some(10_000 + ticket.position.get()),
        key_id: "key".into(),
        stay_millis: None,
        prefix: None,
    });
    let answer = room.operate(claim, Actor::Visitor).await?;
    let Answer::Claimed { session, .. } = answer else { panic!("{answer:?}") };
    with_ledger(ledgers, name, |ledger| {
        let before = ledger.sessions.get(&session.key);
        if let Some(before) = before {
            assert!(same_but_status(before, &session), "{before:?} became {session:?}");
        } else {
            ledger.sessions.insert(session.key, session);
        }
    });
    Ok(())
}

async fn close(
    room: &RoomHandle,
    name: &'static str,
    ledgers: &Ledgers,
    ticket: Ticket,
    random: &mut Random,
) -> Result<(), EngineError> {
    let outcome = if random.chance(50) { Outcome::Completed } else { Outcome::Abandoned };
    let key = key(&ticket);
    match room.operate(Operation::Close { key, outcome }, Actor::Operator("test".into())).await {
        Ok(Answer::Session(session)) => {
            with_ledger(ledgers, name, |ledger| {
                ledger.sessions.insert(key, session);
            });
            Ok(())
        }
        Ok(other) => panic!("{other:?}"),
        Err(error) => {
            with_ledger(ledgers, name, |ledger| ledger.perhaps_ended.insert(key));
            Err(error)
        }
    }
}

fn same_but_status(one: &Session, other: &Session) -> bool {
    let status = one.status;
    *one == Session { status, ..other.clone() }
}

/// One life of the machine: open, work, lose power. Returns whether the database was opened.
async fn live_until_power_goes(disk: &Disk, ledgers: &Ledgers, random: &mut Random, life: u64) -> bool {
    let store = match open(disk) {
        Ok(store) => Arc::new(store),
        Err(error) => {
            assert!(disk.lost_power(), "it must open while there is power: {error}");
            return false;
        }
    };
    let engine = Engine::start(store.clone(), Arc::new(SystemClock), NodeId(u128::from(life) + 1)).await;
    let Ok(engine) = engine else {
        assert!(disk.lost_power());
        return true;
    };
    let mut tasks = JoinSet::new();
    for name in ROOMS {
        let id = RoomId::parse(name).unwrap();
        let made = engine.create_room(id, settings(), RoomState::Open, 1, Actor::System("test")).await;
        let Ok((room, _)) = made else {
            break;
        };
        with_ledger(ledgers, name, |ledger| ledger.created = true);
        for _ in 0..TASKS {
            let random = Random(random.next());
            tasks.spawn(work_until_power_goes(room.clone(), name, ledgers.clone(), random));
        }
    }
    tasks.join_all().await;
    assert!(disk.lost_power(), "nothing else makes the store fail");
    engine.stop().await;
    true
}

/// Compares what is found with what was acknowledged.
async fn check(image: Vec<u8>, ledgers: &Ledgers) {
    let store = open(&Disk::new(image, None)).expect("what is left must open");
    let rooms = store.rooms().await.unwrap();
    let (mut events_expected, mut begun_expected) = (0, 0);
    for name in ROOMS {
        let id = RoomId::parse(name).unwrap();
        let created = with_ledger(ledgers, name, |ledger| ledger.created);
        assert!(rooms.contains(&id) || !created, "{name} is lost");
        let Some(snapshot) = store.load(&id, NodeId(0)).await.unwrap() else {
            continue;
        };
        let room = snapshot.room;
        room.assert_sound();
        let segment = room.newest();
        let generations = [segment.generation];
        let end_of_time = UnixMillis(u64::MAX);
        let active = store.sessions_ended(&id, &generations, end_of_time, usize::MAX).await.unwrap();
        let passes = store.expired_passes(&id, &generations, end_of_time).await.unwrap();
        let counts = room.counts();
        assert_eq!(passes.len() as u64, counts.claimed, "a session for each claim");
        assert_eq!(active.len() as u64, counts.live_sessions());
        let frontier = segment.joined.min(segment.serving);
        assert_eq!(room.offers(), segment.taken.live_between(segment.floor, frontier));
        begun_expected += counts.claimed;
        events_expected += counts.claimed + counts.completed + counts.abandoned;
        let (sessions, perhaps_ended) = with_ledger(ledgers, name, |ledger| {
            for place in &ledger.joined {
                assert_eq!(place.0, segment.generation);
                assert!(place.1 <= segment.joined, "{place:?} is not covered");
            }
            for ticket in &ledger.left {
                let position = ticket.position.get();
                assert!(position <= segment.floor || segment.taken.contains(position));
            }
            assert!(segment.serving >= ledger.serving, "the frontier fell back");
            (ledger.sessions.clone(), ledger.perhaps_ended.clone())
        });
        for (key, acknowledged) in sessions {
            let stored = store.session(&id, key).await.unwrap().expect("its session");
            let position = key.position.get();
            assert!(position <= segment.floor || segment.taken.contains(position));
            if perhaps_ended.contains(&key) {
                assert!(same_but_status(&stored, &acknowledged));
            } else {
                assert_eq!(stored, acknowledged);
            }
        }
    }
    let events = store.events(0, usize::MAX).await.unwrap();
    let of_visits = events.iter().filter(|(_, stored)| {
        matches!(stored.event, Event::TokenGenerated { .. } | Event::SessionUpdated { .. })
    });
    assert_eq!(of_visits.count() as u64, events_expected, "each change with its event, or neither");
    let begun = events.iter().filter(|(_, stored)| matches!(stored.event, Event::TokenGenerated { .. }));
    assert_eq!(begun.count() as u64, begun_expected);
}

/// With every event, so that it can be seen whether each came with its change.
fn settings() -> Settings {
    Settings { visitor_events: VisitorEvents::Always, ..Settings::default() }
}

/// Names the seed when something fails.
struct SeedInPanic(u64);

impl Drop for SeedInPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

#[test]
fn what_was_acknowledged_survives_power_loss() {
    let full = std::env::var_os("ANTEROOM_TEST_FULL").is_some_and(|value| value == "1");
    let first_seed =
        std::env::var("ANTEROOM_TEST_SEED").ok().map(|seed| seed.parse::<u64>().expect("a seed is a number"));
    let seeds = match first_seed {
        Some(seed) => seed..seed + 1,
        None => 0..if full { SEEDS_FULL } else { SEEDS },
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (mut lives, mut syncs, mut joins, mut claims) = (0, 0, 0, 0);
    for seed in seeds {
        let _named = SeedInPanic(seed);
        let mut random = Random(seed);
        let ledgers = Ledgers::default();
        let mut image = vec![];
        let mut made = false;
        for life in 0..CRASHES_PER_SEED {
            let fuse_max = if random.chance(30) { FUSE_WHILE_OPENING_MAX } else { FUSE_MAX };
            let fuse = 1 + random.below(fuse_max);
            let disk = Disk::new(image, Some(fuse));
            let worked = runtime.block_on(live_until_power_goes(&disk, &ledgers, &mut random, life));
            lives += u64::from(worked);
            made |= worked;
            syncs += disk.syncs();
            // A database interrupted while it was being made has no name yet, and is made anew.
            image = if made { disk.surviving_image(&mut random) } else { vec![] };
            runtime.block_on(check(image.clone(), &ledgers));
        }
        for name in ROOMS {
            with_ledger(&ledgers, name, |ledger| {
                joins += ledger.joined.len();
                claims += ledger.sessions.len();
            });
        }
    }
    println!("{lives} lives, {syncs} syncs, {joins} joins, {claims} claims");
    if first_seed.is_none() {
        assert!(lives > SEEDS && joins > 1_000 && claims > 100, "the test must get to work");
    }
}

/// The whole content of a store, reduced to what differs between before and after.
async fn content_of(store: &EmbeddedStore) -> (Option<Vec<u8>>, u64, usize, usize) {
    let id = RoomId::parse(ROOMS[0]).unwrap();
    let room = store.load(&id, NodeId(0)).await.unwrap().unwrap().room;
    room.assert_sound();
    let generations: Vec<_> = room.segments.iter().map(|segment| segment.generation).collect();
    let passes = store.expired_passes(&id, &generations, UnixMillis(u64::MAX)).await.unwrap();
    assert_eq!(passes.len() as u64, room.counts().claimed);
    let value = store.value("which").await.unwrap();
    (value, room.newest().joined, passes.len(), store.rooms().await.unwrap().len())
}

async fn restore_into(store: &EmbeddedStore, bytes: Vec<u8>) -> Result<(), RestoreError> {
    let backup = VerifiedBackup::verify(Box::new(std::io::Cursor::new(bytes))).unwrap();
    let revise = Box::new(|returning: ReturningRoom<'_>| {
        Ok((Room { version: 1_000, ..returning.room }, anteroom_core::Effects::default()))
    });
    store.restore(Restore { backup, revise, audit: None, node: NodeId(0) }).await
}

#[test]
fn power_loss_in_a_restore_leaves_all_of_it_or_nothing() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (image, backup, before) = runtime.block_on(prepare_for_restore());
    let (mut old, mut new) = (0, 0);
    for seed in 0..SEEDS {
        let _named = SeedInPanic(seed);
        let mut random = Random(seed);
        let disk = Disk::new(image.clone(), Some(1 + random.below(FUSE_MAX)));
        let acknowledged = runtime.block_on(async {
            match open(&disk) {
                Ok(store) => restore_into(&store, backup.clone()).await.is_ok(),
                Err(_) => false,
            }
        });
        let left = disk.surviving_image(&mut random);
        let after = runtime.block_on(async { content_of(&open(&Disk::new(left, None)).unwrap()).await });
        if after == before {
            assert!(!acknowledged, "it was restored, and then it was not");
            old += 1;
        } else {
            assert_eq!(after, (Some(b"backup".to_vec()), 4, 3, 1));
            new += 1;
        }
    }
    assert!(old > 0 && new > 0, "{old} as before, {new} restored");
}

/// A disk with content, a backup of earlier content, and a summary of the present content.
async fn prepare_for_restore() -> (Vec<u8>, Vec<u8>, (Option<Vec<u8>>, u64, usize, usize)) {
    let disk = Disk::new(vec![], None);
    let store = Arc::new(open(&disk).unwrap());
    let engine = Engine::start(store.clone(), Arc::new(SystemClock), NodeId(1)).await.unwrap();
    let make = |name: &'static str| {
        let (engine, id) = (engine.clone(), RoomId::parse(name).unwrap());
        async move {
            let actor = Actor::System("test");
            engine.create_room(id, settings(), RoomState::Open, 1, actor).await.unwrap().0
        }
    };
    let admit = async |room: &RoomHandle| {
        room.operate(Operation::Advance { by: 1 }, Actor::Visitor).await.unwrap();
        let ticket = room.join().await.unwrap();
        let claim = Claim {
            ticket,
            request_id: RequestId(u128::from(ticket.position.get()).to_be_bytes()),
            issuer: "https://issuer.example".into(),
            validity_seconds: None,
            key_id: "key".into(),
            stay_millis: None,
            prefix: None,
        };
        room.operate(Operation::Claim(claim), Actor::Visitor).await.unwrap();
    };
    let room = make(ROOMS[0]).await;
    for _ in 0..3 {
        admit(&room).await;
    }
    room.join().await.unwrap();
    assert!(store.replace_value("which", None, b"backup", None).await.unwrap());
    let (mut stream, mut backup) = (engine.backup().await.unwrap(), vec![]);
    while let Some(piece) = stream.next().await {
        backup.extend(piece.unwrap());
    }
    make(ROOMS[1]).await;
    assert!(store.replace_value("which", Some(b"backup"), b"present", None).await.unwrap());
    room.operate(Operation::Reset { incarnation: 2 }, Actor::Visitor).await.unwrap();
    for _ in 0..40 {
        admit(&room).await;
    }
    engine.stop().await;
    let before = content_of(&store).await;
    assert_eq!(before, (Some(b"present".to_vec()), 40, 40, 2));
    drop((room, engine));
    drop(Arc::into_inner(store).unwrap());
    (disk.surviving_image(&mut Random(0)), backup, before)
}
