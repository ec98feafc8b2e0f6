//! The stores that scenarios are run over, each empty and of its own.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anteroom_core::{RequestId, Room, RoomId, Session, UnixMillis};

use super::{NamedScenario, run_all};
use crate::clock::SystemClock;
use crate::contract::{AuditRecord, NodeId, Store, StoredEvent};
use crate::embedded::EmbeddedStore;
use crate::memory::MemoryStore;
use crate::redis::{RedisOptions, RedisStore, RedisUrl};
use crate::seal::Seal;

/// How tests open a store in Redis: with a seal that only tests use.
pub fn redis_options(url: &str) -> RedisOptions {
    RedisOptions { seal: Arc::new(Reversed), ..RedisOptions::new(RedisUrl::parse(url).unwrap()) }
}

/// A seal for tests only: anybody can undo it, but nothing reads as it was, and other bytes are refused.
struct Reversed;

impl Seal for Reversed {
    fn seal(&self, plain: &[u8]) -> Vec<u8> {
        b"~".iter().copied().chain(plain.iter().rev().map(|byte| byte ^ 0x55)).collect()
    }

    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        Some(sealed.strip_prefix(b"~")?.iter().rev().map(|byte| byte ^ 0x55).collect())
    }
}

/// Empty stores in one Redis, each under another prefix.
pub struct RedisStores {
    url: String,
    opened: AtomicU64,
}

impl RedisStores {
    /// Stores at this address.
    pub fn at(url: &str) -> Self {
        Self { url: url.to_owned(), opened: AtomicU64::new(0) }
    }

    /// The next one.
    pub async fn open(&self) -> RedisStore {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let options = RedisOptions { prefix: format!("scenario-{number}"), ..redis_options(&self.url) };
        RedisStore::open(&options).await.unwrap()
    }

    /// How many were opened so far.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }
}

/// Plays scenarios over stores in the Redis at this address.
pub async fn run_all_over_redis(scenarios: &[NamedScenario], url: &str) {
    let stores = RedisStores::at(url);
    run_all(scenarios, || async { Arc::new(stores.open().await) as Arc<dyn Store> }).await;
}

/// Plays scenarios over stores in memory.
pub async fn run_all_over_memory(scenarios: &[NamedScenario]) {
    run_all(scenarios, || async { Arc::new(MemoryStore::default()) as Arc<dyn Store> }).await;
}

/// Plays scenarios over stores in memory that engines share.
pub async fn run_all_over_shared_memory(scenarios: &[NamedScenario]) {
    run_all(scenarios, || async { Arc::new(MemoryStore::shared()) as Arc<dyn Store> }).await;
}

fn open_embedded(directory: &Path) -> Arc<EmbeddedStore> {
    Arc::new(EmbeddedStore::open(directory, Arc::new(SystemClock)).unwrap())
}

/// Plays scenarios over embedded stores below a directory.
pub async fn run_all_over_embedded(scenarios: &[NamedScenario], directory: &Path) {
    let opened = AtomicU64::new(0);
    run_all(scenarios, || async {
        let number = opened.fetch_add(1, Ordering::Relaxed);
        open_embedded(&directory.join(number.to_string())) as Arc<dyn Store>
    })
    .await;
    assert_eq!(opened.into_inner(), scenarios.len() as u64, "every scenario ran over a store of its own");
}

/// Plays scenarios over embedded stores below a directory. After each, the store must have the same content when it is closed
/// and opened again.
pub async fn run_all_and_reopen(scenarios: &[NamedScenario], directory: &Path) {
    for (name, scenario) in scenarios {
        let directory = directory.join(name);
        let store = open_embedded(&directory);
        scenario(store.clone()).await;
        let before = Content::of(&*store).await;
        drop(Arc::into_inner(store).unwrap_or_else(|| panic!("{name} let go of its store")));
        let after = Content::of(&*open_embedded(&directory)).await;
        assert!(before == after, "{name}: {before:?} became {after:?}");
    }
}

/// Everything that can be read from a store.
#[derive(Debug, PartialEq)]
struct Content {
    rooms: Vec<(RoomId, Room, Vec<Session>, Vec<RequestId>)>,
    events: Vec<(u64, StoredEvent)>,
    audit: Vec<(u64, AuditRecord)>,
    values: Vec<Option<Vec<u8>>>,
}

impl Content {
    async fn of(store: &dyn Store) -> Self {
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
        Self {
            rooms,
            events: store.events(0, 1_000_000).await.unwrap(),
            audit: store.audit(None, None, 1_000_000).await.unwrap(),
            values,
        }
    }
}
