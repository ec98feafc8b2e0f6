//! Rooms that are changed, deleted and made again while they are used.

use std::sync::Arc;

use anteroom_core::settings::Seconds;
use anteroom_core::{
    Answer, Operation, Recognition, Reconfigure, Refusal, RoomId, RoomState, Settings, Ticket, UnixMillis,
};
use anteroom_store::clock::SystemClock;
use anteroom_store::conformance::caller::{Caller, NODE, OTHER_NODE, claim};
use anteroom_store::contract::{CommitOutcome, Deletion, DeletionOutcome, JoinOutcome, Store};
use tokio::task::JoinSet;

use super::engines::{make_room, operate_with_retries};
use crate::{Actor, Engine, EngineError, RoomHandle};

const TASKS: u64 = 12;

fn operator() -> Actor {
    Actor::Operator("suite".into())
}

async fn start(store: &Arc<dyn Store>) -> (Arc<Engine>, Arc<RoomHandle>) {
    let engine = Engine::start(store.clone(), Arc::new(SystemClock), NODE).await.unwrap();
    let room = make_room(&engine).await;
    (engine, room)
}

/// Joins and is admitted; returns the ticket.
async fn admit(room: &RoomHandle) -> Ticket {
    operate_with_retries(room, Operation::Advance { by: 1 }).await;
    let ticket = room.join().await.unwrap();
    let claimed = operate_with_retries(room, claim(ticket, None)).await;
    assert!(matches!(claimed, Answer::Claimed { begun: true, .. }), "{claimed:?}");
    ticket
}

pub(super) async fn a_change_with_a_stale_expectation_changes_nothing(store: Arc<dyn Store>) {
    let (engine, room) = start(&store).await;
    let seen = (Settings::default(), RoomState::Open);
    // Of many writers that have seen the same, one succeeds, and what it wrote stays.
    let mut tasks = JoinSet::new();
    for task in 1..=TASKS {
        let (room, expected) = (room.clone(), Some(seen.clone()));
        let settings = Settings { validity_period: Seconds::new(task).unwrap(), ..Settings::default() };
        let state = Some(RoomState::Paused);
        tasks.spawn(async move {
            let change = Reconfigure { expected, settings, state };
            (task, room.operate(Operation::Reconfigure(Box::new(change)), operator()).await)
        });
    }
    let mut winners = vec![];
    for (task, answer) in tasks.join_all().await {
        match answer {
            Ok(_) => winners.push(task),
            Err(EngineError::Refused(Refusal::Changed)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(winners.len(), 1, "{winners:?}");
    let stored = store.load(room.id(), NODE).await.unwrap().unwrap().room;
    assert_eq!((stored.settings.validity_period.get(), stored.state), (winners[0], RoomState::Paused));
    assert_eq!(*room.board().settings, *stored.settings);
    let expected = format!("change: validity_period 3600 -> {}, state open -> paused", winners[0]);
    let actions: Vec<String> = store
        .audit(None, Some(room.id()), 10)
        .await
        .unwrap()
        .into_iter()
        .map(|(_, record)| record.action)
        .collect();
    assert_eq!(actions, [expected, "create room".into()], "what was refused is not audited");
    engine.stop().await;
}

pub(super) async fn a_deleted_room_is_gone_and_its_name_is_free(store: Arc<dyn Store>) {
    let (engine, room) = start(&store).await;
    let other = engine
        .create_room(RoomId::parse("other").unwrap(), Settings::default(), RoomState::Open, 1, operator())
        .await
        .unwrap()
        .0;
    let (ticket, kept) = (admit(&room).await, admit(&other).await);
    let (key, kept_key) = (claim(ticket, None), claim(kept, None));
    let (key, kept_key) = (key.session_key().unwrap(), kept_key.session_key().unwrap());
    let generations = [ticket.generation];
    let mut changes = room.changes();
    assert!(!room.is_deleted());
    assert!(engine.delete_room(room.id(), operator(), None).await.unwrap());
    assert!(room.is_deleted() && engine.room("room").is_none() && engine.is_ready());
    while changes.changed().await.is_ok() {}
    let far = UnixMillis(u64::MAX);
    assert_eq!(store.rooms().await.unwrap(), [other.id().clone()]);
    assert!(store.load(room.id(), NODE).await.unwrap().is_none());
    assert_eq!(store.session(room.id(), key).await.unwrap(), None);
    assert_eq!(store.sessions_ended(room.id(), &generations, far, 10).await.unwrap(), []);
    assert_eq!(store.next_session_end(room.id(), &generations).await.unwrap(), None);
    assert_eq!(store.expired_passes(room.id(), &generations, far).await.unwrap(), []);
    assert!(matches!(room.join().await, Err(EngineError::RoomDeleted)));
    let refused = room.operate(Operation::Tick, Actor::Visitor).await;
    assert!(matches!(refused, Err(EngineError::RoomDeleted)));
    // A second time there is nothing to delete, and the other room has noticed nothing.
    assert!(!engine.delete_room(room.id(), operator(), None).await.unwrap());
    assert!(store.session(other.id(), kept_key).await.unwrap().is_some());
    admit(&other).await;
    let (_, newest) = store.audit(None, Some(room.id()), 1).await.unwrap().remove(0);
    assert_eq!((newest.actor.as_str(), newest.action.as_str()), ("suite", "delete room"));
    engine.stop().await;
}

pub(super) async fn a_room_made_again_is_another_room(store: Arc<dyn Store>) {
    let engine = Engine::start(store.clone(), Arc::new(SystemClock), NODE).await.unwrap();
    let mut old: Vec<Ticket> = vec![];
    // All within the same second or two, and with the same incarnation.
    for _ in 0..5 {
        let room = make_room(&engine).await;
        for ticket in &old {
            let now = engine.now();
            assert_eq!(room.board().recognise(ticket, now), Recognition::Foreign);
            let refused = room.operate(claim(*ticket, None), Actor::Visitor).await;
            assert!(matches!(refused, Err(EngineError::Refused(Refusal::UnknownTicket))), "{refused:?}");
        }
        let ticket = admit(&room).await;
        assert_eq!(ticket.position.get(), 1, "the new line begins at its beginning");
        assert!(old.iter().all(|older| older.generation < ticket.generation));
        old.push(ticket);
        assert_eq!(room.board().live_sessions, 1);
        assert!(engine.delete_room(room.id(), operator(), None).await.unwrap());
    }
    engine.stop().await;
    // To a caller of the bare store the same: what was meant for the old room does not fit the new one.
    let mut caller = Caller::open(&store, "bare").await;
    let mut stale = caller.on_another_node();
    let (late_commit, _) = stale.prepare(&[Operation::Advance { by: 1 }]).await;
    let late_join = stale.batch(3);
    let creation = caller.creation();
    let deletion =
        Deletion { room: caller.id.clone(), expected: caller.room.version, audit: None, events: vec![] };
    assert_eq!(store.delete_room(&deletion).await.unwrap(), DeletionOutcome::Done);
    assert_eq!(store.delete_room(&deletion).await.unwrap(), DeletionOutcome::Conflict);
    let trace = store.trace(&caller.id).await.unwrap().unwrap();
    assert_eq!((trace.generation, trace.version), (caller.room.newest().generation, caller.room.version));
    assert!(caller.commit_in_vain(&creation).await.is_none(), "it is not later than the deleted one");
    caller.room.version = trace.version + 1;
    caller.room.epoch = trace.epoch + 1;
    caller.room.segments[0].generation.opened += 1;
    let later = caller.creation();
    caller.commit(&later).await;
    let conflict = store.commit(&late_commit).await.unwrap();
    assert!(matches!(conflict, CommitOutcome::Conflict(Some(_))), "{conflict:?}");
    let conflict = store.join(&late_join).await.unwrap();
    assert!(matches!(conflict, JoinOutcome::Conflict(Some(_))), "{conflict:?}");
    assert_eq!(caller.snapshot().await.room, caller.room);
}

pub(super) async fn a_deletion_with_a_stale_expectation_deletes_nothing(store: Arc<dyn Store>) {
    let (engine, room) = start(&store).await;
    let seen = (Settings::default(), RoomState::Open);
    let paused = Operation::reconfigure(Settings::default(), Some(RoomState::Paused));
    operate_with_retries(&room, paused).await;
    let refused = engine.delete_room(room.id(), operator(), Some(seen)).await;
    assert!(matches!(refused, Err(EngineError::Refused(Refusal::Changed))), "{refused:?}");
    assert!(!room.is_deleted() && engine.room("room").is_some());
    assert_eq!(room.join().await.unwrap().position.get(), 1);
    let seen = (Settings::default(), RoomState::Paused);
    assert!(engine.delete_room(room.id(), operator(), Some(seen)).await.unwrap());
    engine.stop().await;
}

pub(super) async fn what_is_queued_behind_a_deletion_is_refused(store: Arc<dyn Store>) {
    let (engine, room) = start(&store).await;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (engine, room) = (engine.clone(), room.clone());
        tasks.spawn(async move {
            let (mut joined, mut refused) = (0, 0);
            while refused == 0 {
                match room.join().await {
                    Ok(ticket) => {
                        joined += 1;
                        assert!(ticket.position.get() > 0);
                    }
                    Err(EngineError::RoomDeleted) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
                if task == 0 && joined == 10 && refused == 0 {
                    assert!(engine.delete_room(room.id(), operator(), None).await.unwrap());
                }
            }
            joined
        });
    }
    assert!(tasks.join_all().await.into_iter().sum::<u64>() >= 10);
    let again = make_room(&engine).await;
    assert_eq!(again.join().await.unwrap().position.get(), 1);
    assert!(!Arc::ptr_eq(&again, &room));
    engine.stop().await;
}

pub(super) async fn another_node_sees_that_a_room_was_deleted(store: Arc<dyn Store>) {
    let (engine, room) = start(&store).await;
    let other_engine = Engine::start(store.clone(), Arc::new(SystemClock), OTHER_NODE).await.unwrap();
    let other = other_engine.room("room").unwrap();
    other.join().await.unwrap();
    assert!(engine.delete_room(room.id(), operator(), None).await.unwrap());
    assert!(matches!(other.join().await, Err(EngineError::RoomDeleted)));
    assert!(other.is_deleted() && other_engine.room("room").is_none() && other_engine.is_ready());
    let again = make_room(&other_engine).await;
    assert_eq!(again.join().await.unwrap().position.get(), 1);
    engine.stop().await;
    other_engine.stop().await;
}
