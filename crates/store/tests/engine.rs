//! The engine over a store that blocks, lies about what happened, or runs out of positions.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anteroom_core::{
    Answer, Board, Claim, Effects, Generation, InletKind, MAX_POSITION, Operation, Outcome, Refusal,
    RequestId, Room, RoomId, RoomState, Session, SessionKey, Settings, Ticket, UnixMillis,
};
use anteroom_store::backup::restore::{Restore, RestoreError};
use anteroom_store::clock::Stopwatch;
use anteroom_store::contract::{
    Commit, CommitOutcome, Deletion, DeletionOutcome, JoinBatch, JoinOutcome, Snapshot, Trace,
};
use anteroom_store::engine::{OPERATORS_RESERVE, ROOM_QUEUE_MAX};
use anteroom_store::{
    Actor, AuditRecord, BackupStream, Clock, EmbeddedStore, Engine, EngineError, ManualClock, MemoryStore,
    NodeId, RoomHandle, Store, StoreError, StoredEvent, SystemClock,
};
use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const NODE: NodeId = NodeId(1);
const PATIENCE: Duration = Duration::from_secs(20);

/// A store in front of another that does to its writes what a test wants.
struct Interposed {
    inner: MemoryStore,
    /// Each write takes one and gives it back.
    gate: Semaphore,
    writes_begun: AtomicU64,
    next_ends_asked: AtomicU64,
    fault: Mutex<Box<dyn FnMut() -> Fault + Send>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Nothing is written, and nobody is told so.
    LostRequest,
    /// It is written, and nobody is told so.
    LostAnswer,
}

impl Interposed {
    fn new(fault: impl FnMut() -> Fault + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::default(),
            gate: Semaphore::new(1),
            writes_begun: AtomicU64::new(0),
            next_ends_asked: AtomicU64::new(0),
            fault: Mutex::new(Box::new(fault)),
        })
    }

    async fn write<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.writes_begun.fetch_add(1, Ordering::SeqCst);
        let _passed = self.gate.acquire().await.unwrap();
        let fault = (self.fault.lock().unwrap_or_else(PoisonError::into_inner))();
        let lost = || StoreError::Ambiguous("the connection was lost".into());
        match fault {
            Fault::None => work.await,
            Fault::LostRequest => Err(lost()),
            Fault::LostAnswer => {
                work.await?;
                Err(lost())
            }
        }
    }
}

#[async_trait]
impl Store for Interposed {
    async fn rooms(&self) -> Result<Vec<RoomId>, StoreError> {
        self.inner.rooms().await
    }
    async fn load(&self, room: &RoomId, node: NodeId) -> Result<Option<Snapshot>, StoreError> {
        self.inner.load(room, node).await
    }
    async fn commit(&self, commit: &Commit) -> Result<CommitOutcome, StoreError> {
        self.write(self.inner.commit(commit)).await
    }
    async fn delete_room(&self, deletion: &Deletion) -> Result<DeletionOutcome, StoreError> {
        self.write(self.inner.delete_room(deletion)).await
    }
    async fn trace(&self, room: &RoomId) -> Result<Option<Trace>, StoreError> {
        self.inner.trace(room).await
    }
    async fn join(&self, batch: &JoinBatch) -> Result<JoinOutcome, StoreError> {
        self.write(self.inner.join(batch)).await
    }
    async fn session(&self, room: &RoomId, key: SessionKey) -> Result<Option<Session>, StoreError> {
        self.inner.session(room, key).await
    }
    async fn sessions_ended(
        &self,
        room: &RoomId,
        generations: &[Generation],
        until: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError> {
        self.inner.sessions_ended(room, generations, until, limit).await
    }
    async fn next_session_end(
        &self,
        room: &RoomId,
        generations: &[Generation],
    ) -> Result<Option<UnixMillis>, StoreError> {
        self.next_ends_asked.fetch_add(1, Ordering::SeqCst);
        self.inner.next_session_end(room, generations).await
    }
    async fn expired_passes(
        &self,
        room: &RoomId,
        generations: &[Generation],
        before: UnixMillis,
    ) -> Result<Vec<RequestId>, StoreError> {
        self.inner.expired_passes(room, generations, before).await
    }
    async fn events(&self, after: u64, limit: usize) -> Result<Vec<(u64, StoredEvent)>, StoreError> {
        self.inner.events(after, limit).await
    }
    async fn audit(
        &self,
        before: Option<u64>,
        room: Option<&RoomId>,
        limit: usize,
    ) -> Result<Vec<(u64, AuditRecord)>, StoreError> {
        self.inner.audit(before, room, limit).await
    }
    async fn value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.value(name).await
    }
    async fn replace_value(
        &self,
        name: &str,
        expected: Option<&[u8]>,
        new: &[u8],
        audit: Option<&AuditRecord>,
    ) -> Result<bool, StoreError> {
        self.inner.replace_value(name, expected, new, audit).await
    }
    async fn backup(&self, taken_at: UnixMillis) -> Result<BackupStream, StoreError> {
        self.inner.backup(taken_at).await
    }
    async fn restore(&self, restore: Restore) -> Result<(), RestoreError> {
        self.inner.restore(restore).await
    }
    fn is_ready(&self) -> bool {
        self.inner.is_ready()
    }
}

fn room_id() -> RoomId {
    RoomId::parse("room").unwrap()
}

async fn engine_on(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> (Arc<Engine>, Arc<RoomHandle>) {
    let engine = Engine::start(store, clock, NODE).await.unwrap();
    let actor = Actor::System("test");
    let made = engine.create_room(room_id(), Settings::default(), RoomState::Open, 1, actor).await.unwrap();
    (engine, made.0)
}

async fn operate(room: &RoomHandle, operation: Operation) -> Result<Answer, EngineError> {
    room.operate(operation, Actor::Operator("test".into())).await
}

fn claim(ticket: Ticket) -> Operation {
    Operation::Claim(Claim {
        ticket,
        request_id: RequestId(u128::from(ticket.position.get()).to_be_bytes()),
        issuer: "https://issuer.example".into(),
        validity_seconds: None,
        key_id: "key".into(),
    })
}

/// Waits for a state without a clock of its own; fails when it does not come.
async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let watch = Stopwatch::start();
    while !reached() {
        assert!(watch.elapsed() < PATIENCE, "{what} did not come");
        tokio::task::yield_now().await;
    }
}

/// The board is what a fresh load shows, but for the time that has passed since the last commit.
fn assert_shows(room: &RoomHandle, stored: &Room) {
    let board = room.board();
    assert_eq!(*board, Board { clock: board.clock, ..Board::of(stored) });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_refuses_at_once_and_loses_nothing() {
    let store = Interposed::new(|| Fault::None);
    let (engine, room) = engine_on(store.clone(), Arc::new(SystemClock)).await;
    let closed = store.gate.acquire().await.unwrap();
    let begun = store.writes_begun.load(Ordering::SeqCst);
    let mut tasks = JoinSet::new();
    let spawn_join = |tasks: &mut JoinSet<_>| {
        let room = room.clone();
        tasks.spawn(async move { room.join().await });
    };
    spawn_join(&mut tasks);
    until("the owner's write", || store.writes_begun.load(Ordering::SeqCst) > begun).await;
    let visitors = ROOM_QUEUE_MAX - OPERATORS_RESERVE;
    for _ in 0..visitors {
        spawn_join(&mut tasks);
    }
    until("a queue full of visitors", || room.queued() == visitors).await;
    let refused = room.join().await.unwrap_err();
    assert!(matches!(refused, EngineError::Overloaded), "{refused}");
    // The rest is the operators', until they have filled it too.
    let mut operators = JoinSet::new();
    for _ in 0..OPERATORS_RESERVE {
        let room = room.clone();
        operators.spawn(async move { operate(&room, Operation::Exits { count: 0 }).await });
    }
    until("a queue full of operators", || room.queued() == ROOM_QUEUE_MAX).await;
    let refused = operate(&room, Operation::Advance { by: 1 }).await.unwrap_err();
    assert!(matches!(refused, EngineError::Overloaded), "{refused}");
    assert_eq!(engine.counters().overloads.load(Ordering::Relaxed), 2);
    drop(closed);
    assert!(operators.join_all().await.iter().all(Result::is_ok));
    let answers = tasks.join_all().await;
    let positions: BTreeSet<u64> = answers.into_iter().map(|answer| answer.unwrap().position.get()).collect();
    assert!(positions.into_iter().eq(1..=visitors as u64 + 1));
    let stored = store.load(&room_id(), NODE).await.unwrap().unwrap().room;
    assert_eq!(stored.newest().joined, visitors as u64 + 1);
    assert_eq!(stored.serving(), 0, "the refused advance did not happen");
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ambiguous_store_never_makes_the_engine_hand_out_a_position_twice() {
    // Every third write or so is lost one way or the other, in a fixed but uneven pattern.
    let mut write = 0u64;
    let store = Interposed::new(move || {
        write += 1;
        match write.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61 {
            0 if write > 1 => Fault::LostRequest,
            1 | 2 if write > 1 => Fault::LostAnswer,
            _ => Fault::None,
        }
    });
    let (engine, room) = engine_on(store.clone(), Arc::new(SystemClock)).await;
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let room = room.clone();
        tasks.spawn(async move {
            let (mut tickets, mut ambiguous, mut serving) = (vec![], 0, 0);
            for _ in 0..60 {
                match room.join().await {
                    Ok(ticket) => tickets.push(ticket),
                    Err(EngineError::Store(StoreError::Ambiguous(_))) => ambiguous += 1,
                    Err(error) => panic!("{error}"),
                }
                match operate(&room, Operation::Advance { by: 1 }).await {
                    Ok(Answer::Advanced { serving: now }) => {
                        assert!(now > serving, "the frontier fell back");
                        serving = now;
                    }
                    Err(EngineError::Store(StoreError::Ambiguous(_))) => ambiguous += 1,
                    other => panic!("{other:?}"),
                }
            }
            (tickets, ambiguous)
        });
    }
    let (mut positions, mut ambiguous) = (BTreeSet::new(), 0);
    for (tickets, failed) in tasks.join_all().await {
        ambiguous += failed;
        for ticket in tickets {
            assert!(positions.insert(ticket.position), "handed out twice");
        }
    }
    assert!(ambiguous > 20 && positions.len() > 20, "{ambiguous} failed, {} did not", positions.len());
    let stored = store.load(&room_id(), NODE).await.unwrap().unwrap().room;
    assert_shows(&room, &stored);
    assert!(stored.newest().joined >= positions.last().unwrap().get());
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_does_not_turn_in_circles_over_a_session_ended_by_name() {
    let store = Interposed::new(|| Fault::None);
    let clock = Arc::new(ManualClock::at(UnixMillis(1_800_000_000_000)));
    let (engine, room) = engine_on(store.clone(), clock.clone()).await;
    operate(&room, Operation::Advance { by: 1 }).await.unwrap();
    let ticket = room.join().await.unwrap();
    let Ok(Answer::Claimed { session, .. }) = operate(&room, claim(ticket)).await else {
        panic!("the ticket is served")
    };
    let (key, outcome) = (session.key, Outcome::Completed);
    operate(&room, Operation::Close { key, outcome }).await.unwrap();
    clock.advance(session.ends_at().since(clock.now()));
    let asked = store.next_ends_asked.load(Ordering::SeqCst);
    room.operate(Operation::Tick, Actor::Visitor).await.unwrap();
    // Where the end lay there is nothing to sweep, so the next end must be looked up, once.
    until("the look-up of the next end", || store.next_ends_asked.load(Ordering::SeqCst) > asked).await;
    for _ in 0..20 {
        room.operate(Operation::Tick, Actor::Visitor).await.unwrap();
    }
    assert_eq!(store.next_ends_asked.load(Ordering::SeqCst), asked + 1);
    engine.stop().await;
}

#[tokio::test]
async fn closing_a_session_behind_a_reset_is_refused_and_the_room_lives_on() {
    let directory = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(directory.path(), Arc::new(SystemClock)).unwrap();
    let (engine, room) = engine_on(Arc::new(store), Arc::new(SystemClock)).await;
    operate(&room, Operation::Advance { by: 1 }).await.unwrap();
    let ticket = room.join().await.unwrap();
    let Ok(Answer::Claimed { session, .. }) = operate(&room, claim(ticket)).await else {
        panic!("the ticket is served")
    };
    // Both wait for the same turn, the reset first; the record is still on disk.
    let (key, outcome) = (session.key, Outcome::Completed);
    let (reset, closed, left) = tokio::join!(
        operate(&room, Operation::Reset { incarnation: 9 }),
        operate(&room, Operation::Close { key, outcome }),
        operate(&room, Operation::Leave { ticket }),
    );
    assert!(matches!(reset, Ok(Answer::LineOpened(_))));
    assert!(matches!(closed, Err(EngineError::Refused(Refusal::UnknownSession))));
    assert!(matches!(left, Err(EngineError::Refused(Refusal::UnknownTicket))));
    assert_eq!(room.join().await.unwrap().position.get(), 1);
    assert_eq!(room.board().live_sessions, 0);
    engine.stop().await;
}

/// A store with a room whose line has two places left.
async fn two_before_the_end(store: &dyn Store, settings: Settings) {
    let mut room = Room::open(settings, SystemClock.now(), 1);
    room.version = 1;
    let end = MAX_POSITION - 2;
    let segment = room.segments.back_mut().unwrap();
    (segment.base, segment.joined, segment.serving, segment.floor) = (end, end, end, end);
    let commit = Commit {
        room: room_id(),
        node: NodeId(0),
        number: 1,
        expected: None,
        opens_line: true,
        joined_before: end,
        next: room,
        effects: Effects::default(),
        audit: vec![],
    };
    let made = store.commit(&commit).await.unwrap();
    assert!(matches!(made, CommitOutcome::Done { joined } if joined == end));
}

async fn five_join_over_the_edge(store: Arc<dyn Store>, settings: Settings) -> (Arc<Engine>, [Ticket; 5]) {
    two_before_the_end(&*store, settings).await;
    let engine = Engine::start(store, Arc::new(SystemClock), NODE).await.unwrap();
    let room = engine.room("room").unwrap();
    let joined = tokio::join!(room.join(), room.join(), room.join(), room.join(), room.join());
    let tickets = [joined.0, joined.1, joined.2, joined.3, joined.4].map(Result::unwrap);
    let places = tickets.map(|ticket| ticket.position.get());
    assert_eq!(places, [MAX_POSITION - 1, MAX_POSITION, 1, 2, 3]);
    let (old, new) = (tickets[0].generation, tickets[4].generation);
    assert!(old < new);
    assert_eq!(tickets.map(|ticket| ticket.generation), [old, old, new, new, new]);
    (engine, tickets)
}

#[tokio::test]
async fn a_line_that_ends_goes_on_in_a_new_generation_behind_it() {
    let directory = tempfile::tempdir().unwrap();
    let embedded = EmbeddedStore::open(directory.path(), Arc::new(SystemClock)).unwrap();
    let both: [Arc<dyn Store>; 2] = [Arc::new(MemoryStore::default()), Arc::new(embedded)];
    for store in both {
        let (engine, tickets) = five_join_over_the_edge(store.clone(), Settings::default()).await;
        let room = engine.room("room").unwrap();
        let served = async |ticket| match operate(&room, claim(ticket)).await {
            Ok(Answer::Claimed { .. }) => true,
            Err(EngineError::Refused(Refusal::NotServed)) => false,
            other => panic!("{other:?}"),
        };
        // Each step of the frontier serves the next in order of arrival, across the edge.
        for (index, &ticket) in tickets.iter().enumerate() {
            assert!(!served(ticket).await);
            operate(&room, Operation::Advance { by: 1 }).await.unwrap();
            assert!(served(ticket).await);
            let waiting = tickets.len() - index - 1;
            assert_eq!(room.board().waiting, waiting as u64);
        }
        assert_eq!(room.join().await.unwrap().position.get(), 4);
        let stored = store.load(&room_id(), NODE).await.unwrap().unwrap().room;
        assert_shows(&room, &stored);
        stored.assert_sound();
        engine.stop().await;
    }
}

#[tokio::test]
async fn a_capacity_is_kept_across_the_edge_of_a_line() {
    let settings = Settings { inlet: InletKind::MaxSize, total_active_users: Some(3), ..Settings::default() };
    let (engine, tickets) = five_join_over_the_edge(Arc::new(MemoryStore::default()), settings).await;
    let room = engine.room("room").unwrap();
    let mut keys = vec![];
    for ticket in &tickets[..3] {
        let Ok(Answer::Claimed { session, begun: true }) = operate(&room, claim(*ticket)).await else {
            panic!("the three earliest are offered a place")
        };
        keys.push(session.key);
    }
    for ticket in &tickets[3..] {
        let refused = operate(&room, claim(*ticket)).await;
        assert!(matches!(refused, Err(EngineError::Refused(Refusal::NotServed))));
    }
    let (key, outcome) = (keys[0], Outcome::Completed);
    operate(&room, Operation::Close { key, outcome }).await.unwrap();
    assert!(operate(&room, claim(tickets[3])).await.is_ok());
    assert_eq!(room.board().active, 3);
    engine.stop().await;
}
