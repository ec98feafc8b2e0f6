//! What the contract is for: engines that share a store, lose nothing and answer only what is durable and shown.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anteroom_core::{Answer, Claim, InletKind, Operation, PrefixTag, RoomId, RoomState, Settings, Ticket};
use anteroom_store::clock::SystemClock;
use anteroom_store::conformance::caller::claim;
use anteroom_store::contract::{NodeId, Store, StoreError};
use tokio::task::JoinSet;

use crate::{Actor, Engine, EngineError, RoomHandle};

const ENGINES: u64 = 3;
const TASKS: u64 = 12;
const ROUNDS: u64 = 12;

async fn engines(store: &Arc<dyn Store>) -> Vec<(Arc<Engine>, Arc<RoomHandle>)> {
    let mut engines = vec![];
    for node in 0..ENGINES {
        let engine =
            Engine::start(store.clone(), Arc::new(SystemClock), NodeId(u128::from(node) + 1)).await.unwrap();
        let room = make_room(&engine).await;
        engines.push((engine, room));
    }
    engines
}

pub(super) async fn make_room(engine: &Arc<Engine>) -> Arc<RoomHandle> {
    let id = RoomId::parse("room").unwrap();
    let actor = Actor::Operator("suite".into());
    engine.create_room(id, Settings::default(), RoomState::Open, 1, actor).await.unwrap().0
}

/// Does it however often other nodes are faster; anything else fails.
pub(super) async fn operate_with_retries(room: &RoomHandle, operation: Operation) -> Answer {
    loop {
        match room.operate(operation.clone(), Actor::Operator("suite".into())).await {
            Ok(answer) => return answer,
            Err(EngineError::Store(StoreError::Transient(_))) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn join_with_retries(room: &RoomHandle) -> Ticket {
    loop {
        match room.join().await {
            Ok(ticket) => return ticket,
            Err(EngineError::Store(StoreError::Transient(_))) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn stop(engines: Vec<(Arc<Engine>, Arc<RoomHandle>)>) {
    for (engine, _) in engines {
        engine.stop().await;
    }
}

pub(super) async fn joins_through_several_engines_keep_their_order(store: Arc<dyn Store>) {
    let engines = engines(&store).await;
    let highest_answered = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (_, room) = engines[usize::try_from(task % ENGINES).unwrap()].clone();
        let highest_answered = highest_answered.clone();
        tasks.spawn(async move {
            let mut positions = vec![];
            for _ in 0..ROUNDS {
                let answered_before = highest_answered.load(Ordering::SeqCst);
                let ticket = room.join().await.unwrap();
                let position = ticket.position.get();
                assert!(position > answered_before, "sent after {answered_before} was answered");
                highest_answered.fetch_max(position, Ordering::SeqCst);
                positions.push(position);
            }
            positions
        });
    }
    let positions: BTreeSet<u64> = tasks.join_all().await.into_iter().flatten().collect();
    assert!(positions.into_iter().eq(1..=TASKS * ROUNDS), "no gap and no duplicate");
    stop(engines).await;
}

pub(super) async fn conflicting_commits_are_applied_again_and_nothing_is_lost(store: Arc<dyn Store>) {
    let engines = engines(&store).await;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (_, room) = engines[usize::try_from(task % ENGINES).unwrap()].clone();
        tasks.spawn(async move {
            let mut tickets = vec![];
            for _ in 0..ROUNDS {
                // One position is offered for each join, so every ticket is served by the time of its claim or soon after.
                operate_with_retries(&room, Operation::Advance { by: 1 }).await;
                tickets.push(join_with_retries(&room).await);
            }
            tickets
        });
    }
    let tickets: Vec<Ticket> = tasks.join_all().await.into_iter().flatten().collect();
    let total = TASKS * ROUNDS;
    let positions: BTreeSet<u64> = tickets.iter().map(|ticket| ticket.position.get()).collect();
    assert!(positions.into_iter().eq(1..=total));
    // Boards of other nodes lag until their next commit; after this one each knows the whole line.
    for (_, room) in &engines {
        operate_with_retries(room, Operation::Advance { by: 1 }).await;
    }
    let mut tasks = JoinSet::new();
    for ticket in tickets {
        for (_, room) in &engines {
            let room = room.clone();
            tasks.spawn(async move {
                match operate_with_retries(&room, claim(ticket, None)).await {
                    Answer::Claimed { session, begun } => (session, begun),
                    other => panic!("{other:?}"),
                }
            });
        }
    }
    let claims = tasks.join_all().await;
    let begun = claims.iter().filter(|(_, begun)| *begun).count() as u64;
    assert_eq!(begun, total, "one of the claims of each ticket begins its session");
    for (session, _) in &claims {
        let stored = store.session(engines[0].1.id(), session.key).await.unwrap();
        assert_eq!(stored.as_ref(), Some(session), "all of them get the same");
    }
    let stored = store.load(engines[0].1.id(), NodeId(1)).await.unwrap().unwrap().room;
    assert_eq!(stored.serving(), total + ENGINES);
    assert_eq!((stored.counts().claimed, stored.active()), (total, total));
    assert_eq!((stored.waiting(), stored.offers()), (0, 0));
    stored.assert_sound();
    let audited = store
        .audit(None, None, 100_000)
        .await
        .unwrap()
        .into_iter()
        .filter(|(_, record)| record.action == "advance by 1")
        .count() as u64;
    assert_eq!(audited, total + ENGINES, "each is audited once");
    stop(engines).await;
}

/// The share of an address prefix is decided by the operation that begins the session: however many nodes are asked at once, no
/// claim goes by a count of before another one.
pub(super) async fn claims_at_once_get_one_prefix_no_more_than_its_share(store: Arc<dyn Store>) {
    let engines = engines(&store).await;
    let settings = Settings { inlet: InletKind::MaxSize, total_active_users: Some(8), ..Settings::default() };
    operate_with_retries(&engines[0].1, Operation::reconfigure(settings.clone(), None)).await;
    let mut tickets = vec![];
    for _ in 0..20 {
        tickets.push(join_with_retries(&engines[0].1).await);
    }
    // Boards of other nodes lag until their next commit; after this one each knows the whole line.
    for (_, room) in &engines {
        operate_with_retries(room, Operation::reconfigure(settings.clone(), None)).await;
    }
    let claim_from = |ticket: Ticket, prefix: u16| match claim(ticket, None) {
        Operation::Claim(claim) => {
            Operation::Claim(Claim { prefix: PrefixTag::new(prefix), stay_millis: Some(300_000), ..claim })
        }
        other => panic!("{other:?}"),
    };
    let mut tasks = JoinSet::new();
    for (number, ticket) in tickets[..8].iter().enumerate() {
        let (room, operation) = (engines[number % engines.len()].1.clone(), claim_from(*ticket, 7));
        tasks.spawn(async move {
            loop {
                match room.operate(operation.clone(), Actor::Visitor).await {
                    Ok(Answer::Claimed { begun, .. }) => return begun,
                    Ok(Answer::Deferred) => return false,
                    Err(EngineError::Store(StoreError::Transient(_))) => {}
                    other => panic!("{other:?}"),
                }
            }
        });
    }
    let begun = tasks.join_all().await.into_iter().filter(|begun| *begun).count();
    assert_eq!(begun, 2, "a quarter of the capacity, while others wait");
    let stored = store.load(engines[0].1.id(), NodeId(1)).await.unwrap().unwrap().room;
    let visits: Vec<u64> = stored.visits_by_prefix.values().copied().collect();
    assert_eq!((visits, stored.deferred.len(), stored.active()), (vec![2], 6, 2));
    assert_eq!(stored.offers(), 6, "the slots went on to those behind");
    stop(engines).await;
}

pub(super) async fn the_board_shows_what_was_answered(store: Arc<dyn Store>) {
    let engines = engines(&store).await;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (_, room) = engines[usize::try_from(task % ENGINES).unwrap()].clone();
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let ticket = join_with_retries(&room).await;
                let joined = room.with_board(|board| board.segments.last().unwrap().joined);
                assert!(joined >= ticket.position.get());
                let Answer::Advanced { serving } =
                    operate_with_retries(&room, Operation::Advance { by: 1 }).await
                else {
                    panic!("an advance answers where the frontier is")
                };
                assert!(room.board().serving >= serving);
            }
        });
    }
    tasks.join_all().await;
    stop(engines).await;
}

pub(super) async fn a_room_made_twice_at_once_has_one_owner(store: Arc<dyn Store>) {
    let engine = Engine::start(store.clone(), Arc::new(SystemClock), NodeId(1)).await.unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let engine = engine.clone();
        tasks.spawn(async move {
            let room = make_room(&engine).await;
            let mut positions = vec![];
            for _ in 0..ROUNDS {
                positions.push(room.join().await.unwrap().position.get());
            }
            positions
        });
    }
    let positions: BTreeSet<u64> = tasks.join_all().await.into_iter().flatten().collect();
    assert!(positions.into_iter().eq(1..=TASKS * ROUNDS));
    engine.stop().await;
}

pub(super) async fn stopping_answers_what_is_queued_and_refuses_the_rest(store: Arc<dyn Store>) {
    let engine = Engine::start(store.clone(), Arc::new(SystemClock), NodeId(1)).await.unwrap();
    let room = make_room(&engine).await;
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let room = room.clone();
        tasks.spawn(async move { room.join().await });
    }
    // The handle is still held here; stopping does not wait for it.
    engine.stop().await;
    let mut joined = 0;
    for answer in tasks.join_all().await {
        match answer {
            Ok(_) => joined += 1,
            Err(EngineError::Stopped) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(matches!(room.join().await, Err(EngineError::Stopped)));
    let stored = store.load(room.id(), NodeId(1)).await.unwrap().unwrap().room;
    assert_eq!(stored.newest().joined, joined);
}
