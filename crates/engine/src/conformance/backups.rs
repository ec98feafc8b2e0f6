//! Backups: one moment, whole or refused, and nothing is handed out again after a restore.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anteroom_core::{
    Answer, EventKind, EventKinds, Generation, Operation, Outcome, Recognition, Refusal, RoomId, RoomState,
    Session, SessionKey, Settings, Ticket, UnixMillis,
};
use anteroom_store::backup::reader::BackupError;
use anteroom_store::backup::restore::RestoreError;
use anteroom_store::clock::SystemClock;
use anteroom_store::conformance::backups::{SOME_TIME, read, verify};
use anteroom_store::conformance::caller::{Caller, NODE, OTHER_NODE, claim};
use anteroom_store::contract::{AuditRecord, Store, StoredEvent};
use anteroom_store::memory::MemoryStore;
use tokio::task::JoinSet;

use super::engines::{make_room, operate_with_retries};
use crate::{Actor, Engine, EngineError, EventInterest, RestoreRequest, Restored, RoomHandle};

const TASKS: u64 = 8;

fn operator() -> Actor {
    Actor::Operator("suite".into())
}

async fn start(store: &Arc<dyn Store>) -> Arc<Engine> {
    Engine::start(store.clone(), Arc::new(SystemClock), NODE).await.unwrap()
}

async fn backup_of(store: &Arc<dyn Store>) -> Vec<u8> {
    read(store.backup(SOME_TIME).await.unwrap()).await
}

pub(super) async fn restore(engine: &Arc<Engine>, bytes: &[u8]) -> Result<Restored, RestoreError> {
    let request = RestoreRequest {
        source: Box::new(Cursor::new(bytes.to_vec())),
        accept_values: Box::new(|_| Ok(())),
        incarnation: Box::new(|| 7),
        actor: operator(),
    };
    engine.restore(request).await
}

async fn admit(room: &RoomHandle) -> Session {
    operate_with_retries(room, Operation::Advance { by: 1 }).await;
    let ticket = room.join().await.unwrap();
    match operate_with_retries(room, claim(ticket, None)).await {
        Answer::Claimed { session, begun: true } => session,
        other => panic!("{other:?}"),
    }
}

pub(super) async fn a_backup_taken_under_load_is_one_moment(store: Arc<dyn Store>) {
    let engine = start(&store).await;
    let room = make_room(&engine).await;
    let mut before = vec![];
    for _ in 0..20 {
        before.push(admit(&room).await);
    }
    let waiting = room.join().await.unwrap();
    let enough = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (room, enough) = (room.clone(), enough.clone());
        tasks.spawn(async move {
            let mut tickets = vec![];
            while !enough.load(Ordering::SeqCst) {
                let ticket = room.join().await.unwrap();
                operate_with_retries(&room, Operation::Advance { by: 1 }).await;
                // An earlier ticket may have taken the slot.
                let _ = room.operate(claim(ticket, None), Actor::Visitor).await;
                tickets.push(ticket);
            }
            tickets
        });
    }
    let bytes = read(engine.backup().await.unwrap()).await;
    let another = read(engine.backup().await.unwrap()).await;
    enough.store(true, Ordering::SeqCst);
    let later: Vec<Ticket> = tasks.join_all().await.into_iter().flatten().collect();
    assert!(verify(&another).unwrap().sessions() >= verify(&bytes).unwrap().sessions());
    let sessions = verify(&bytes).unwrap().sessions();
    let restored = restore(&engine, &bytes).await.unwrap();
    assert_eq!((restored.rooms, restored.sessions), (1, sessions));
    // Room and sessions are of the same moment: as many are active as the room has counted.
    let room = engine.room("room").unwrap();
    let stored = store.load(room.id(), NODE).await.unwrap().unwrap().room;
    stored.assert_sound();
    assert_eq!(stored.counts().claimed, sessions);
    let generations: Vec<Generation> = stored.segments.iter().map(|segment| segment.generation).collect();
    let active =
        store.sessions_ended(room.id(), &generations, UnixMillis(u64::MAX), 1_000_000).await.unwrap();
    assert_eq!(active.len() as u64, stored.counts().live_sessions());
    // What was answered before the backup is there, to the byte.
    for session in &before {
        let ticket = Ticket { position: session.key.position, ..waiting };
        let again = operate_with_retries(&room, claim(ticket, None)).await;
        assert_eq!(again, Answer::Claimed { session: session.clone(), begun: false });
    }
    // What was issued after it still has its place, and nobody who comes now is before it.
    let newcomer = room.join().await.unwrap();
    let (board, now) = (room.board(), engine.now());
    for ticket in later.iter().chain([&waiting]) {
        assert_eq!(board.recognise(ticket, now), Recognition::Ours);
        assert!(ticket.generation < newcomer.generation);
    }
    assert!(engine.is_ready());
    engine.stop().await;
}

/// Everything a backup has, but what a restore adds to it.
async fn content(store: &Arc<dyn Store>, audited: usize) -> String {
    let mut rooms = vec![];
    for id in store.rooms().await.unwrap() {
        let mut room = store.load(&id, NODE).await.unwrap().unwrap().room;
        // Empty lines are what restores open.
        room.segments.retain(|segment| segment.joined > segment.base);
        (room.version, room.epoch, room.clock) = (0, 0, UnixMillis(0));
        let generations: Vec<Generation> = room.segments.iter().map(|segment| segment.generation).collect();
        let far = UnixMillis(u64::MAX);
        let active = store.sessions_ended(&id, &generations, far, 1_000).await.unwrap();
        let mut passes = store.expired_passes(&id, &generations, far).await.unwrap();
        passes.sort();
        rooms.push((id, room, active, passes));
    }
    let mut audit = store.audit(None, None, 1_000).await.unwrap();
    audit.reverse();
    audit.truncate(audited);
    let values = [store.value("ring").await.unwrap(), store.value("other").await.unwrap()];
    format!("{:?}", (rooms, store.events(0, 1_000).await.unwrap(), audit, values))
}

pub(super) async fn a_backup_moves_to_another_store_and_back(store: Arc<dyn Store>) {
    let mut busy = Caller::open(&store, "busy").await;
    busy.perform(Operation::Join { count: 9_000 }).await;
    busy.perform(Operation::Advance { by: 8_000 }).await;
    for position in [2, 4_096, 4_097, 7_999] {
        let ticket = busy.ticket(position);
        busy.perform(claim(ticket, Some(600))).await;
    }
    let ticket = busy.ticket(8_500);
    busy.perform(Operation::Leave { ticket }).await;
    let key = SessionKey { position: busy.ticket(2).position, generation: ticket.generation };
    busy.close(key, Outcome::Completed).await;
    busy.perform(Operation::OpenSegment { incarnation: 3 }).await;
    busy.perform(Operation::Join { count: 3 }).await;
    let (mut commit, _) = busy.prepare(&[Operation::Exits { count: 1 }]).await;
    commit.audit = vec![busy.audit_record("first").with_detail("more"), busy.audit_record("second")];
    busy.commit(&commit).await;
    // Joins on the side count too.
    busy.join(5).await;
    let empty = Caller::open(&store, "empty").await;
    let record = AuditRecord::new(empty.now, None, "somebody", "third");
    assert!(store.replace_value("ring", None, b"\0ring\xff", Some(&record)).await.unwrap());
    assert!(store.replace_value("other", None, b"", None).await.unwrap());
    let bytes = backup_of(&store).await;
    let verified = verify(&bytes).unwrap();
    assert_eq!((verified.rooms(), verified.sessions(), verified.taken_at()), (2, 4, SOME_TIME));
    assert_eq!(verified.values()["ring"], b"\0ring\xff");
    assert_eq!(backup_of(&store).await, bytes, "nothing has changed, so neither has the backup");
    let other: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let other_engine = start(&other).await;
    restore(&other_engine, &bytes).await.unwrap();
    assert_eq!(content(&other, 3).await, content(&store, 3).await);
    other_engine.stop().await;
    let moved = backup_of(&other).await;
    let engine = start(&store).await;
    restore(&engine, &moved).await.unwrap();
    engine.stop().await;
    assert_eq!(content(&other, 3).await, content(&store, 3).await);
}

pub(super) async fn a_broken_backup_is_refused_and_changes_nothing(store: Arc<dyn Store>) {
    let engine = start(&store).await;
    let room = make_room(&engine).await;
    let session = admit(&room).await;
    assert!(store.replace_value("ring", None, b"ring", None).await.unwrap());
    let whole = backup_of(&store).await;
    verify(&whole).unwrap();
    for length in 0..whole.len() {
        let refused = verify(&whole[..length]).unwrap_err();
        assert!(
            matches!(refused, BackupError::Truncated(_) | BackupError::NotABackup),
            "{length}: {refused}"
        );
    }
    for place in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[place] ^= 1 << (place % 8);
        assert!(verify(&flipped).is_err(), "a flipped bit in byte {place} goes unnoticed");
    }
    let mut longer = whole.clone();
    longer.push(0);
    assert!(matches!(verify(&longer), Err(BackupError::TooLong)));
    let mut newer = whole.clone();
    newer[16] = 2;
    let said = verify(&newer).unwrap_err().to_string();
    assert!(said.starts_with("the backup was written by a newer version (format 2, this program knows 1)"));
    // The engine refuses before anything happens: the handles go on as if nothing had been.
    let before = backup_of(&store).await;
    for broken in [&whole[..whole.len() - 1], b"PK\x03\x04 something else", b"", &longer, &newer] {
        let refused = restore(&engine, broken).await;
        assert!(matches!(refused, Err(RestoreError::Backup(_))), "{refused:?}");
        assert!(!room.is_replaced() && engine.is_ready());
    }
    assert_eq!(backup_of(&store).await, before);
    assert_eq!(room.join().await.unwrap().generation, session.key.generation);
    engine.stop().await;
}

pub(super) async fn values_decide_before_anything_changes(store: Arc<dyn Store>) {
    let engine = start(&store).await;
    let room = make_room(&engine).await;
    assert!(store.replace_value("check", None, b"theirs", None).await.unwrap());
    let bytes = backup_of(&store).await;
    assert!(store.replace_value("check", Some(b"theirs"), b"ours", None).await.unwrap());
    let ticket = room.join().await.unwrap();
    let request = |source: Vec<u8>| RestoreRequest {
        source: Box::new(Cursor::new(source)),
        accept_values: Box::new(|values| match values.get("check").map(Vec::as_slice) {
            Some(b"ours") => Ok(()),
            other => Err(format!("the secrets are others: {other:?}")),
        }),
        incarnation: Box::new(|| 7),
        actor: operator(),
    };
    let before = backup_of(&store).await;
    let refused = engine.restore(request(bytes)).await;
    assert!(
        matches!(&refused, Err(RestoreError::Refused(why)) if why.starts_with("the secrets are others")),
        "{refused:?}"
    );
    assert_eq!(backup_of(&store).await, before);
    assert_eq!(room.join().await.unwrap().position.get(), ticket.position.get() + 1);
    engine.restore(request(before)).await.unwrap();
    assert_eq!(store.value("check").await.unwrap().as_deref(), Some(b"ours".as_slice()));
    engine.stop().await;
}

pub(super) async fn no_position_is_handed_out_twice_across_restores(store: Arc<dyn Store>) {
    let engine = start(&store).await;
    make_room(&engine).await;
    let mut backups = vec![backup_of(&store).await];
    let mut handed_out: BTreeSet<(Generation, u64)> = BTreeSet::new();
    for round in 0..24u8 {
        let room = match engine.room("room") {
            Some(room) => room,
            None => make_room(&engine).await,
        };
        let mut latest = handed_out.last().copied();
        for _ in 0..3 {
            let ticket = room.join().await.unwrap();
            let place = (ticket.generation, ticket.position.get());
            assert!(handed_out.insert(place), "handed out twice in round {round}: {place:?}");
            assert!(latest.is_none_or(|latest| latest < place), "in order of arrival, round {round}");
            latest = Some(place);
        }
        match round % 6 {
            0 => backups.push(backup_of(&store).await),
            1 | 4 => {
                // What was taken before, the newest or an older one; a line that has been closed since then may come back.
                let bytes = &backups[usize::from(round / 2) % backups.len()];
                restore(&engine, bytes).await.unwrap();
            }
            2 => drop(operate_with_retries(&room, Operation::Reset { incarnation: 7 }).await),
            3 => assert!(engine.delete_room(room.id(), operator(), None).await.unwrap()),
            _ => {}
        }
    }
    engine.stop().await;
}

pub(super) async fn rooms_come_back_and_go_with_a_restore(store: Arc<dyn Store>) {
    let engine = start(&store).await;
    let make = |name: &'static str| {
        let (engine, id) = (engine.clone(), RoomId::parse(name).unwrap());
        async move { engine.create_room(id, Settings::default(), RoomState::Open, 1, operator()).await.unwrap().0 }
    };
    let (kept, deleted) = (make("kept").await, make("deleted").await);
    let sessions = [admit(&kept).await, admit(&deleted).await];
    let bytes = backup_of(&store).await;
    assert!(engine.delete_room(deleted.id(), operator(), None).await.unwrap());
    let young = make("young").await;
    let stray = young.join().await.unwrap();
    let mut changes = kept.changes();
    restore(&engine, &bytes).await.unwrap();
    while changes.changed().await.is_ok() {}
    let names: Vec<String> = engine.rooms().iter().map(|room| room.id().to_string()).collect();
    assert_eq!(names, ["deleted", "kept"]);
    // Handles of before are ended, each for its reason.
    assert!(kept.is_replaced() && !kept.is_deleted());
    assert!(matches!(kept.join().await, Err(EngineError::Restoring)));
    assert!(young.is_deleted() && matches!(young.join().await, Err(EngineError::RoomDeleted)));
    for (name, session) in ["kept", "deleted"].into_iter().zip(&sessions) {
        let room = engine.room(name).unwrap();
        assert_eq!(store.session(room.id(), session.key).await.unwrap().as_ref(), Some(session));
        assert!(room.join().await.unwrap().generation > session.key.generation);
    }
    // The young one left a trace, so that its tickets are unknown in another of its name.
    let again = make("young").await;
    assert!(again.join().await.unwrap().generation > stray.generation);
    let refused = again.operate(claim(stray, None), Actor::Visitor).await;
    assert!(matches!(refused, Err(EngineError::Refused(Refusal::UnknownTicket))), "{refused:?}");
    // A node that did not know of the restore finds out by its next conflict.
    let other_engine = Engine::start(store.clone(), Arc::new(SystemClock), OTHER_NODE).await.unwrap();
    let other = other_engine.room("kept").unwrap();
    other.join().await.unwrap();
    let bytes = backup_of(&store).await;
    let mut last = engine.room("kept").unwrap().join().await.unwrap();
    restore(&engine, &bytes).await.unwrap();
    for room in [other.clone(), engine.room("kept").unwrap(), other] {
        let next = room.join().await.unwrap();
        assert!((next.generation, next.position) > (last.generation, last.position));
        last = next;
    }
    engine.stop().await;
    other_engine.stop().await;
}

pub(super) async fn numbers_rise_and_the_audit_stays_across_a_restore(store: Arc<dyn Store>) {
    let engine = start(&store).await;
    let every_kind = EventInterest { rooms: BTreeSet::new(), kinds: EventKinds::all() };
    engine.outbox().set_interests(vec![every_kind]);
    let room = make_room(&engine).await;
    admit(&room).await;
    let bytes = backup_of(&store).await;
    let kept = store.events(0, 100).await.unwrap();
    let in_backup: Vec<(u64, AuditRecord)> = store.audit(None, None, 100).await.unwrap();
    for _ in 0..3 {
        admit(&room).await;
    }
    let audited = store.audit(None, None, 100).await.unwrap();
    let (last_event, _) = store.events(0, 100).await.unwrap().pop().unwrap();
    restore(&engine, &bytes).await.unwrap();
    let mut after = store.audit(None, None, 100).await.unwrap();
    let (number, restored) = after.remove(0);
    assert_eq!((restored.actor.as_str(), restored.action.as_str()), ("suite", "restore"));
    assert_eq!((restored.room, number), (None, audited[0].0 + 1));
    assert_eq!(after, audited, "a restore loses no trace");
    assert!(audited.len() > in_backup.len());
    let events: Vec<(u64, StoredEvent)> = store.events(0, 100).await.unwrap();
    let ids = |events: &[(u64, StoredEvent)]| events.iter().map(|(_, stored)| stored.id).collect::<Vec<_>>();
    assert_eq!(ids(&events), ids(&kept), "those of the backup");
    assert!(events.last().is_some_and(|(number, _)| *number == last_event), "behind what was there before");
    let room = engine.room("room").unwrap();
    // Three tickets issued after the backup come first.
    operate_with_retries(&room, Operation::Advance { by: 3 }).await;
    admit(&room).await;
    let next = store.events(last_event, 100).await.unwrap();
    let begun = next.iter().filter(|(_, stored)| stored.event.kind() == EventKind::SessionBegun);
    assert_eq!(begun.count(), 1, "a reader that had read up to {last_event} gets the next one");
    let before: BTreeSet<String> = events.iter().map(|(_, stored)| stored.id.to_string()).collect();
    assert!(next.iter().all(|(_, stored)| !before.contains(&stored.id.to_string())), "no id comes twice");
    engine.stop().await;
}
