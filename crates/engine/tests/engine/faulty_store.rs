//! The engine over a store that blocks, lies about what happened, or runs out of positions.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anteroom_core::{
    Answer, Board, Claim, Effects, InletKind, MAX_POSITION, Operation, Outcome, Refusal, RequestId, Room,
    RoomId, RoomState, Settings, Ticket, UnixMillis,
};
use anteroom_engine::{
    Actor, Engine, EngineError, OPERATORS_RESERVE, ROOM_QUEUE_MAX, RestoreRequest, RoomHandle,
};
use anteroom_store::clock::Stopwatch;
use anteroom_store::conformance::fault_injection::{CallKind, FaultInjectingStore, WriteFault};
use anteroom_store::contract::{Commit, CommitOutcome, Lineage};
use anteroom_store::{
    Clock, EmbeddedStore, ManualClock, MemoryStore, NodeId, RestoreError, Store, StoreError, SystemClock,
};
use tokio::task::JoinSet;
use tokio::time::timeout;

const NODE: NodeId = NodeId(1);
const TIMEOUT: Duration = Duration::from_secs(20);

/// A store in memory that tests can block.
fn faultless() -> Arc<FaultInjectingStore<MemoryStore>> {
    Arc::new(FaultInjectingStore::new(MemoryStore::default()))
}

/// One whose writes meet these faults.
fn faulty(next_fault: impl FnMut() -> WriteFault + Send + 'static) -> Arc<FaultInjectingStore<MemoryStore>> {
    Arc::new(FaultInjectingStore::new(MemoryStore::default()).with_write_faults(next_fault))
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
        stay_millis: None,
        prefix: None,
    })
}

/// Waits for a state without a clock of its own; fails when it does not come.
async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let watch = Stopwatch::start();
    while !reached() {
        assert!(watch.elapsed() < TIMEOUT, "{what} did not come");
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
    let store = faultless();
    let (engine, room) = engine_on(store.clone(), Arc::new(SystemClock)).await;
    let closed = store.block_writes().await;
    let begun = store.calls(CallKind::Write);
    let mut tasks = JoinSet::new();
    let spawn_join = |tasks: &mut JoinSet<_>| {
        let room = room.clone();
        tasks.spawn(async move { room.join().await });
    };
    spawn_join(&mut tasks);
    until("the owner's write", || store.calls(CallKind::Write) > begun).await;
    let visitors = ROOM_QUEUE_MAX - OPERATORS_RESERVE;
    for _ in 0..visitors {
        spawn_join(&mut tasks);
    }
    until("a queue full of visitors", || room.queue_length() == visitors).await;
    let refused = room.join().await.unwrap_err();
    assert!(matches!(refused, EngineError::Overloaded), "{refused}");
    // The rest is the operators', until they have filled it too.
    let mut operators = JoinSet::new();
    for _ in 0..OPERATORS_RESERVE {
        let room = room.clone();
        operators.spawn(async move { operate(&room, Operation::Exits { count: 0 }).await });
    }
    until("a queue full of operators", || room.queue_length() == ROOM_QUEUE_MAX).await;
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
    let store = faulty(move || {
        write += 1;
        match write.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61 {
            0 if write > 1 => WriteFault::LostRequest,
            1 | 2 if write > 1 => WriteFault::LostAnswer,
            _ => WriteFault::None,
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
    let store = faultless();
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
    let asked = store.calls(CallKind::NextSessionEnd);
    room.operate(Operation::Tick, Actor::Visitor).await.unwrap();
    // Where the end lay there is nothing to sweep, so the next end must be looked up, once.
    until("the look-up of the next end", || store.calls(CallKind::NextSessionEnd) > asked).await;
    for _ in 0..20 {
        room.operate(Operation::Tick, Actor::Visitor).await.unwrap();
    }
    assert_eq!(store.calls(CallKind::NextSessionEnd), asked + 1);
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_shared_store_an_ended_visit_holds_its_slot_until_all_nodes_show_it() {
    for (store, spread_millis) in [(MemoryStore::default(), 0), (MemoryStore::shared(), 2_000)] {
        let clock = Arc::new(ManualClock::at(UnixMillis(1_800_000_000_000)));
        let (engine, room) = engine_on(Arc::new(store), clock.clone()).await;
        operate(&room, Operation::Advance { by: 1 }).await.unwrap();
        let ticket = room.join().await.unwrap();
        let Operation::Claim(asked) = claim(ticket) else { unreachable!() };
        let with_a_stay = Operation::Claim(Claim { stay_millis: Some(305_000), ..asked });
        let Ok(Answer::Claimed { session, .. }) = operate(&room, with_a_stay).await else {
            panic!("the ticket is served")
        };
        let (key, outcome) = (session.key, Outcome::Completed);
        let Ok(Answer::Session(ended)) = operate(&room, Operation::Close { key, outcome }).await else {
            panic!("the visitor is inside")
        };
        assert_eq!((ended.outcome(), ended.ends_at()), (Some(outcome), clock.now().plus(spread_millis)));
        let board = room.board();
        assert_eq!((board.departed[0].key, board.active), (key, u64::from(spread_millis > 0)));
        clock.advance(spread_millis);
        room.operate(Operation::Tick, Actor::Visitor).await.unwrap();
        let board = room.board();
        assert_eq!((board.active, board.counts.completed, board.counts.expired), (0, 1, 0));
        engine.stop().await;
    }
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
        lineage: Lineage::default(),
        mends: false,
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

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_counts_as_ambiguous_once_its_time_is_over() {
    let store = faultless();
    let (engine, room) = engine_on(store.clone(), Arc::new(SystemClock)).await;
    let closed = store.block_writes().await;
    let mut join = pin!(room.join());
    let early = timeout(Duration::from_secs(9), &mut join).await;
    assert!(early.is_err(), "it has ten seconds");
    let late = timeout(Duration::from_secs(2), join).await.expect("and no more");
    assert!(matches!(late, Err(EngineError::Store(StoreError::Ambiguous(_)))), "{late:?}");
    assert!(!engine.is_ready(), "the room's last turn failed");
    drop(closed);
    assert_eq!(room.join().await.unwrap().position.get(), 1, "this one was lost");
    assert!(engine.is_ready());
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn stopping_leaves_a_room_behind_that_does_not_come_to_its_end() {
    let store = faultless();
    let (engine, room) = engine_on(store.clone(), Arc::new(SystemClock)).await;
    let _no_write = store.block_writes().await;
    let _no_load = store.block_loads().await;
    let mut join = pin!(room.join());
    assert!(timeout(Duration::from_millis(1), &mut join).await.is_err());
    let mut stop = pin!(engine.stop());
    assert!(timeout(Duration::from_secs(9), &mut stop).await.is_err(), "it waits for ten seconds");
    timeout(Duration::from_secs(2), stop).await.expect("and no longer");
    assert!(matches!(join.await, Err(EngineError::Store(StoreError::Ambiguous(_)))));
    assert!(matches!(room.join().await, Err(EngineError::Stopped)));
}

async fn backup_of(engine: &Engine) -> Vec<u8> {
    let (mut stream, mut bytes) = (engine.backup().await.unwrap(), vec![]);
    while let Some(piece) = stream.next().await {
        bytes.extend(piece.unwrap());
    }
    bytes
}

fn restore_of(bytes: &[u8]) -> RestoreRequest {
    RestoreRequest {
        source: Box::new(Cursor::new(bytes.to_vec())),
        accept_values: Box::new(|_| Ok(())),
        incarnation: Box::new(|| 9),
        actor: Actor::Operator("test".into()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_panics_in_a_write_goes_on_from_the_store() {
    let deadly = Arc::new(AtomicBool::new(false));
    let fault = deadly.clone();
    let store =
        faulty(
            move || if fault.swap(false, Ordering::SeqCst) { WriteFault::Panic } else { WriteFault::None },
        );
    let (engine, room) = engine_on(store.clone(), Arc::new(SystemClock)).await;
    let ticket = room.join().await.unwrap();
    deadly.store(true, Ordering::SeqCst);
    let lost = room.join().await;
    assert!(matches!(lost, Err(EngineError::Store(StoreError::Ambiguous(_)))), "{lost:?}");
    // The same handle, and the same line.
    let next = room.join().await.unwrap();
    assert_eq!((next.generation, next.position.get()), (ticket.generation, ticket.position.get() + 1));
    assert!(engine.is_ready());
    assert_eq!(engine.counters().panics.load(Ordering::Relaxed), 1);
    engine.stop().await;
}

/// Each claim of a turn once read its session by a call of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_of_claims_reads_all_its_sessions_at_once() {
    const CLAIMS: usize = 1_000;
    let store = faultless();
    let (engine, room) = engine_on(store.clone(), Arc::new(SystemClock)).await;
    let mut tickets = vec![];
    for _ in 0..CLAIMS {
        tickets.push(room.join().await.unwrap());
    }
    operate(&room, Operation::Advance { by: i64::try_from(CLAIMS).unwrap() }).await.unwrap();
    // All of them queue up behind a write, and are taken in one turn.
    let closed = store.block_writes().await;
    let mut claims = JoinSet::new();
    let writes = store.calls(CallKind::Write);
    for (index, &ticket) in tickets.iter().enumerate() {
        let room = room.clone();
        claims.spawn(async move { operate(&room, claim(ticket)).await });
        if index == 0 {
            until("the first is being written", || store.calls(CallKind::Write) > writes).await;
        }
    }
    until("all others wait", || room.queue_length() == CLAIMS - 1).await;
    let reads = store.calls(CallKind::Session);
    drop(closed);
    while let Some(claimed) = claims.join_next().await {
        let answer = claimed.unwrap();
        assert!(matches!(answer, Ok(Answer::Claimed { begun: true, .. })), "{answer:?}");
    }
    assert_eq!(store.calls(CallKind::Session), reads + 1, "one for the turn");
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_request_that_made_an_owner_panic_is_refused_and_the_others_of_its_turn_are_done() {
    let store = faultless();
    let (engine, room) = engine_on(store.clone(), Arc::new(SystemClock)).await;
    let mut tickets = vec![];
    for _ in 0..9 {
        tickets.push(room.join().await.unwrap());
    }
    operate(&room, Operation::Advance { by: 9 }).await.unwrap();
    let deadly = tickets[5];
    store.set_deadly_position(deadly.position.get());
    // All of them queue up behind a write, and are taken in one turn.
    let closed = store.block_writes().await;
    let mut claims = JoinSet::new();
    let (first, blocked) = (room.clone(), tickets[0]);
    let writes = store.calls(CallKind::Write);
    claims.spawn(async move { (blocked, operate(&first, claim(blocked)).await) });
    until("the first is being written", || store.calls(CallKind::Write) > writes).await;
    for &ticket in &tickets[1..] {
        let room = room.clone();
        claims.spawn(async move { (ticket, operate(&room, claim(ticket)).await) });
    }
    until("all others wait", || room.queue_length() == tickets.len() - 1).await;
    drop(closed);
    while let Some(claimed) = claims.join_next().await {
        let (ticket, answer) = claimed.unwrap();
        if ticket == deadly {
            assert!(matches!(answer, Err(EngineError::Panicked)), "{answer:?}");
        } else {
            assert!(matches!(answer, Ok(Answer::Claimed { begun: true, .. })), "{ticket:?}: {answer:?}");
        }
    }
    assert!(engine.counters().panics.load(Ordering::Relaxed) > 1, "in halves");
    // Nothing of it was done, and it can be once the mistake is mended.
    store.set_deadly_position(0);
    let claimed = operate(&room, claim(deadly)).await;
    assert!(matches!(claimed, Ok(Answer::Claimed { begun: true, .. })), "{claimed:?}");
    assert_eq!(room.board().active, 9);
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bad_room_does_not_make_the_node_unready() {
    let store = faultless();
    let (engine, room) = engine_on(store.clone(), Arc::new(SystemClock)).await;
    let (settings, actor) = (Settings::default(), Actor::System("test"));
    let other = RoomId::parse("other").unwrap();
    let (other, _) = engine.create_room(other, settings, RoomState::Open, 1, actor).await.unwrap();
    let ticket = room.join().await.unwrap();
    operate(&room, Operation::Advance { by: 1 }).await.unwrap();
    store.set_deadly_position(1);
    assert!(matches!(operate(&room, claim(ticket)).await, Err(EngineError::Panicked)));
    assert!(engine.is_ready());
    other.join().await.unwrap();
    store.set_deadly_position(0);
    room.join().await.unwrap();
    assert_eq!(engine.counters().rooms_failing.load(Ordering::Relaxed), 0);
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_room_is_no_dead_owner_and_leaves_none_behind() {
    let (engine, _) = engine_on(Arc::new(MemoryStore::default()), Arc::new(SystemClock)).await;
    for _ in 0..200 {
        let (settings, actor) = (Settings::default(), Actor::System("test"));
        let made = engine.create_room(room_id(), settings, RoomState::Open, 1, actor.clone()).await.unwrap();
        assert!(engine.delete_room(&room_id(), actor, None).await.unwrap());
        assert!(made.0.is_deleted() && engine.is_ready());
    }
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_during_a_restore_is_told_to_come_back() {
    let store = faultless();
    let (engine, room) = engine_on(store.clone(), Arc::new(SystemClock)).await;
    let ticket = room.join().await.unwrap();
    let bytes = backup_of(&engine).await;
    let closed = store.block_writes().await;
    let begun = store.calls(CallKind::Write);
    let mut restores = JoinSet::new();
    let (restoring, request) = (engine.clone(), restore_of(&bytes));
    restores.spawn(async move { restoring.restore(request).await });
    until("the restore", || store.calls(CallKind::Write) > begun).await;
    assert!(room.is_replaced() && !engine.is_ready());
    assert!(matches!(room.join().await, Err(EngineError::Restoring)));
    assert!(matches!(operate(&room, Operation::Advance { by: 1 }).await, Err(EngineError::Restoring)));
    let (settings, actor) = (Settings::default(), Actor::System("test"));
    let made = engine.create_room(RoomId::parse("x").unwrap(), settings, RoomState::Open, 1, actor.clone());
    assert!(matches!(made.await, Err(EngineError::Restoring)));
    assert!(matches!(engine.delete_room(&room_id(), actor, None).await, Err(EngineError::Restoring)));
    assert!(matches!(engine.restore(restore_of(&bytes)).await, Err(RestoreError::Busy)));
    assert_eq!(room.board().waiting, 1, "figures can still be read");
    drop(closed);
    assert_eq!(restores.join_next().await.unwrap().unwrap().unwrap().rooms, 1);
    let replacement = engine.room("room").unwrap();
    assert!(!Arc::ptr_eq(&replacement, &room) && engine.is_ready());
    assert!(replacement.join().await.unwrap().generation > ticket.generation);
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_comes_to_its_end_without_its_caller_and_before_the_engine_stops() {
    let store = faultless();
    let (engine, room) = engine_on(store.clone(), Arc::new(SystemClock)).await;
    let bytes = backup_of(&engine).await;
    for stops in [false, true] {
        let closed = store.block_writes().await;
        let begun = store.calls(CallKind::Write);
        let mut restores = JoinSet::new();
        let (restoring, request) = (engine.clone(), restore_of(&bytes));
        restores.spawn(async move { restoring.restore(request).await });
        until("the restore", || store.calls(CallKind::Write) > begun).await;
        restores.shutdown().await;
        if stops {
            let mut stop = pin!(engine.stop());
            assert!(
                timeout(Duration::from_millis(1), &mut stop).await.is_err(),
                "there is something to wait for"
            );
            drop(closed);
            stop.await;
            assert!(engine.rooms().is_empty());
        } else {
            drop(closed);
            until("the end of the restore", || engine.is_ready()).await;
            assert_eq!(engine.room("room").unwrap().join().await.unwrap().position.get(), 1);
        }
    }
    let stored = store.load(room.id(), NODE).await.unwrap().unwrap().room;
    assert_eq!(stored.segments.len(), 3, "the backup's, the one of the first restore, that of the second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redeemed_code_is_answered_when_the_store_has_confirmed_it() {
    let store = Arc::new(FaultInjectingStore::new(MemoryStore::shared()));
    let (engine, room) = engine_on(store.clone(), Arc::new(SystemClock)).await;
    let ticket = room.join().await.unwrap();
    operate(&room, Operation::Advance { by: 1 }).await.unwrap();
    let Ok(Answer::Claimed { session, .. }) = operate(&room, claim(ticket)).await else {
        panic!("it is served")
    };
    let redeem = |millis: u64| Operation::Redeem { key: session.key, issued_at: UnixMillis(millis) };
    store.set_unconfirmed(true);
    let unconfirmed = operate(&room, redeem(session.issued_at_seconds * 1000 + 1)).await;
    assert!(matches!(unconfirmed, Err(EngineError::Store(StoreError::Transient(_)))), "{unconfirmed:?}");
    store.set_unconfirmed(false);
    let confirmed = operate(&room, redeem(session.issued_at_seconds * 1000 + 2)).await;
    assert!(matches!(confirmed, Ok(Answer::Session(_))), "{confirmed:?}");
    engine.stop().await;
}

/// A login and a refresh, too: what was given for them must not be given again after a failover.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_and_its_refresh_are_answered_when_the_store_has_confirmed_them() {
    let store = Arc::new(FaultInjectingStore::new(MemoryStore::shared()));
    let (engine, room) = engine_on(store.clone(), Arc::new(SystemClock)).await;
    let ticket = room.join().await.unwrap();
    operate(&room, Operation::Advance { by: 1 }).await.unwrap();
    let Ok(Answer::Claimed { session, .. }) = operate(&room, claim(ticket)).await else {
        panic!("it is served")
    };
    let key = session.key;
    let issued_at = UnixMillis(session.issued_at_seconds * 1000);
    let login = |grant| Operation::Grant { key, grant, client: 77, issued_at };
    let refresh = |sequence| Operation::Refresh { key, grant: 2, sequence };
    for (first, second) in [(login(1), login(2)), (refresh(0), refresh(1))] {
        store.set_unconfirmed(true);
        let unconfirmed = operate(&room, first).await;
        assert!(matches!(unconfirmed, Err(EngineError::Store(StoreError::Transient(_)))), "{unconfirmed:?}");
        store.set_unconfirmed(false);
        let confirmed = operate(&room, second).await;
        assert!(matches!(confirmed, Ok(Answer::Session(_))), "{confirmed:?}");
    }
    let again = operate(&room, login(1)).await;
    assert!(matches!(again, Ok(Answer::GrantReused)), "it was written all the same: {again:?}");
    engine.stop().await;
}
