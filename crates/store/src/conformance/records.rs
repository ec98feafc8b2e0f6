//! Events, audit records and values: in the same transaction as what they tell of, and bounded.

use std::collections::BTreeSet;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use anteroom_core::{Event, EventKind, Operation, Position, RequestId, SessionKey, Standstill, UnixMillis};

use super::caller::Caller;
use crate::clock::Stopwatch;
use crate::contract::{
    AUDIT_MAX, AuditRecord, Cursor, Deletion, DeletionOutcome, DroppedEvents, EventId, NodeId, Store,
    StoredEvent, VISITOR_EVENTS_MAX,
};

/// How many records the bounds are tested with at a time.
const RECORDS_PER_COMMIT: u64 = 20_000;

pub(super) async fn events_and_audit_come_with_their_commit(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    assert_eq!(store.events(0, 10).await.unwrap(), []);
    let session = caller.admit(60).await;
    let before = store.events(0, 10).await.unwrap();
    let kinds: Vec<EventKind> = before.iter().map(|(_, stored)| stored.event.kind()).collect();
    assert_eq!(kinds, [EventKind::TokenGenerated, EventKind::SessionBegun]);
    let (mut commit, _) = caller.prepare(&[Operation::Advance { by: 1 }]).await;
    commit.audit = vec![caller.audit_record("first"), caller.audit_record("second")];
    commit.effects.events = vec![
        Event::AutomaticServingCounterIncrease { previous: 1, current: 2 },
        Event::InletHeld { reason: Standstill::QueueAll },
    ];
    let mut stale = commit.clone();
    caller.commit(&commit).await;
    let begun = StoredEvent {
        id: before[0].1.id,
        at: caller.now,
        room: Some(caller.id.clone()),
        event: Event::TokenGenerated { request_id: session.request_id, visit: session.key },
    };
    assert_eq!(before[0], (1, begun));
    let expected: Vec<(u64, StoredEvent)> = before.into_iter().chain((3..).zip(commit.events())).collect();
    assert_eq!(expected.len(), 4, "of both classes, numbered together");
    let ids: BTreeSet<String> = expected.iter().map(|(_, stored)| stored.id.to_string()).collect();
    assert_eq!(ids.len(), 4, "each has an id of its own");
    let newest_first = vec![(2, caller.audit_record("second")), (1, caller.audit_record("first"))];
    assert_eq!(store.events(0, 10).await.unwrap(), expected);
    assert_eq!(store.audit(None, None, 10).await.unwrap(), newest_first);
    // What conflicts leaves neither behind.
    stale.number += 1;
    caller.number += 1;
    caller.commit_in_vain(&stale).await;
    assert_eq!(store.events(0, 10).await.unwrap(), expected);
    assert_eq!(store.audit(None, None, 10).await.unwrap(), newest_first);
    for cut in 1..=4 {
        assert_eq!(store.events(0, cut).await.unwrap(), expected[..cut]);
        assert_eq!(store.events(cut as u64, 10).await.unwrap(), expected[cut..]);
    }
    assert_eq!(store.events(u64::MAX, 10).await.unwrap(), []);
    assert_eq!(store.audit(None, None, 1).await.unwrap(), newest_first[..1]);
}

/// An event that comes with no commit.
fn event_of_no_room(number: u64) -> StoredEvent {
    let id = EventId { node: 9, version: 0, number, index: 0 };
    let event = Event::AlarmChanged { name: "Load".into(), fires: number % 2 == 1, summary: "busy".into() };
    StoredEvent { id, at: UnixMillis(number), room: None, event }
}

pub(super) async fn events_come_with_values_with_deletions_and_alone(store: Arc<dyn Store>) {
    let caller = Caller::open(&store, "room").await;
    let [alone, with_value, with_deletion, in_vain] = [1, 2, 3, 4].map(event_of_no_room);
    store.append_events(slice::from_ref(&alone)).await.unwrap();
    assert!(store.replace_value_and_tell("v", None, b"1", None, slice::from_ref(&with_value)).await.unwrap());
    let conflicting = [in_vain];
    assert!(!store.replace_value_and_tell("v", None, b"2", None, &conflicting).await.unwrap());
    let deletion = |expected| Deletion {
        room: caller.id.clone(),
        expected,
        audit: None,
        events: vec![with_deletion.clone()],
    };
    let wrong_version = store.delete_room(&deletion(caller.room.version + 1)).await.unwrap();
    assert_eq!(wrong_version, DeletionOutcome::Conflict);
    assert_eq!(store.delete_room(&deletion(caller.room.version)).await.unwrap(), DeletionOutcome::Done);
    // Events of several places have the order of their moments, and one of them may be read a moment later.
    let events: Vec<StoredEvent> =
        store.events(0, 10).await.unwrap().into_iter().map(|(_, stored)| stored).collect();
    assert_eq!(events, [alone, with_value, with_deletion]);
    assert_eq!(store.outbox().await.unwrap().last, 3);
}

pub(super) async fn outbox_and_audit_are_bounded(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let visit =
        SessionKey { generation: caller.room.newest().generation, position: Position::new(1).unwrap() };
    let of_visitor = |number: u64| Event::TokenGenerated {
        request_id: RequestId(u128::from(number).to_be_bytes()),
        visit,
    };
    // One event of a room, then many of visitors: these push out none of the others.
    let (mut commit, _) = caller.prepare(&[Operation::Advance { by: 1 }]).await;
    commit.effects.events = vec![Event::RoomCreated];
    caller.commit(&commit).await;
    let mut written = 1;
    while written <= VISITOR_EVENTS_MAX.max(AUDIT_MAX) + RECORDS_PER_COMMIT {
        let (mut commit, _) = caller.prepare(&[Operation::Advance { by: 1 }]).await;
        let numbers = written + 1..=written + RECORDS_PER_COMMIT;
        commit.effects.events = numbers.clone().map(of_visitor).collect();
        commit.audit = numbers.map(|number| caller.audit_record(&number.to_string())).collect();
        caller.commit(&commit).await;
        written += RECORDS_PER_COMMIT;
        // As a poll has it done, where records are numbered later than they are written.
        assert_eq!(store.outbox().await.unwrap().last, written);
    }
    let more_than_kept = usize::try_from(2 * VISITOR_EVENTS_MAX).unwrap();
    let events = store.events(0, more_than_kept).await.unwrap();
    assert_eq!(events.len() as u64, VISITOR_EVENTS_MAX + 1);
    assert_eq!((events[0].0, &events[0].1.event), (1, &Event::RoomCreated));
    let first = written - VISITOR_EVENTS_MAX + 1;
    for (number, (stored_number, stored)) in (first..).zip(&events[1..]) {
        assert_eq!((*stored_number, &stored.event), (number, &of_visitor(number)));
    }
    assert_eq!(events.last().unwrap().0, written);
    let outbox = store.outbox().await.unwrap();
    assert_eq!(outbox.visitor, DroppedEvents { through: first - 1, count: first - 2 });
    assert_eq!((outbox.room, outbox.last), (DroppedEvents::default(), written));
    let audit = store.audit(None, None, more_than_kept).await.unwrap();
    assert_eq!(audit.len() as u64, AUDIT_MAX);
    assert_eq!((audit[0].0, audit[0].1.action.as_str()), (written - 1, written.to_string().as_str()));
    let (_, oldest) = audit.last().unwrap();
    assert_eq!(oldest.action, (written - AUDIT_MAX + 1).to_string());
}

pub(super) async fn old_events_are_dropped_and_counted_and_numbers_go_on(store: Arc<dyn Store>) {
    let events: Vec<StoredEvent> = (1..=6).map(event_of_no_room).collect();
    store.append_events(&events).await.unwrap();
    assert_eq!(store.events(0, 10).await.unwrap().len(), 6);
    store.drop_events(0).await.unwrap();
    assert_eq!(store.outbox().await.unwrap().room, DroppedEvents::default());
    store.drop_events(4).await.unwrap();
    let kept: Vec<u64> = store.events(0, 10).await.unwrap().into_iter().map(|(number, _)| number).collect();
    assert_eq!(kept, [5, 6]);
    assert_eq!(store.outbox().await.unwrap().room, DroppedEvents { through: 4, count: 4 });
    store.drop_events(100).await.unwrap();
    assert_eq!(store.outbox().await.unwrap().room.count, 6);
    store.append_events(&[event_of_no_room(7)]).await.unwrap();
    let kept: Vec<u64> = store.events(0, 10).await.unwrap().into_iter().map(|(number, _)| number).collect();
    assert_eq!(kept, [7], "a number is never given twice");
}

pub(super) async fn a_cursor_is_saved_by_the_node_that_has_the_work(store: Arc<dyn Store>) {
    let (one, other, lease) = (NodeId(1), NodeId(2), Duration::from_millis(300));
    let cursor = |position| Cursor { position, note: b"note".to_vec(), ..Cursor::default() };
    let history = store.outbox().await.unwrap().history;
    assert_eq!(store.cursor("hook").await.unwrap(), None);
    assert!(!store.save_cursor("hook", one, history, &cursor(1)).await.unwrap(), "nobody has the work");
    assert!(store.hold_work("hook", one, lease).await.unwrap());
    assert!(!store.hold_work("hook", other, lease).await.unwrap());
    assert!(store.hold_work("another", other, lease).await.unwrap(), "each work is held by itself");
    let before = store.poll(&[], one, lease).await.unwrap().values;
    assert!(store.save_cursor("hook", one, history, &cursor(7)).await.unwrap());
    assert!(!store.save_cursor("hook", other, history, &cursor(9)).await.unwrap());
    assert!(!store.save_cursor("hook", one, history ^ 1, &cursor(9)).await.unwrap(), "of another history");
    assert_eq!(store.cursor("hook").await.unwrap(), Some(cursor(7)));
    assert_eq!(store.poll(&[], one, lease).await.unwrap().values, before, "nobody is notified");
    // When its holder says nothing any more, another node goes on, and the first one cannot save any more.
    let deadline = Stopwatch::start();
    while !store.hold_work("hook", other, lease).await.unwrap() {
        assert!(deadline.elapsed() < Duration::from_secs(20), "the lease does not end");
        tokio::task::yield_now().await;
    }
    assert!(!store.save_cursor("hook", one, history, &cursor(8)).await.unwrap());
    assert!(store.save_cursor("hook", other, history, &cursor(9)).await.unwrap());
    assert_eq!(store.cursor("hook").await.unwrap(), Some(cursor(9)));
    store.delete_cursor("hook").await.unwrap();
    assert_eq!(store.cursor("hook").await.unwrap(), None);
}

pub(super) async fn values_are_compared_and_set(store: Arc<dyn Store>) {
    assert_eq!(store.value("ring").await.unwrap(), None);
    assert!(!store.replace_value("ring", Some(b"x"), b"new", None).await.unwrap());
    assert_eq!(store.value("ring").await.unwrap(), None);
    assert!(store.replace_value("ring", None, b"one", None).await.unwrap());
    assert!(!store.replace_value("ring", None, b"two", None).await.unwrap());
    assert_eq!(store.value("ring").await.unwrap().as_deref(), Some(b"one".as_slice()));
    assert!(store.replace_value("ring", Some(b"one"), b"", None).await.unwrap());
    assert_eq!(store.value("ring").await.unwrap().as_deref(), Some(b"".as_slice()));
    assert!(store.replace_value("other", None, b"\0\xff", None).await.unwrap());
    assert!(!store.replace_value("ring", None, b"two", None).await.unwrap(), "empty is not missing");
    // Of many who try at once, one succeeds.
    let mut tasks = tokio::task::JoinSet::new();
    for contender in 0..16u8 {
        let store = store.clone();
        tasks.spawn(async move { store.replace_value("ring", Some(b""), &[contender], None).await.unwrap() });
    }
    let winners = tasks.join_all().await.into_iter().filter(|&won| won).count();
    assert_eq!(winners, 1);
}

pub(super) async fn the_audit_is_read_page_by_page(store: Arc<dyn Store>) {
    let mut one = Caller::open(&store, "one").await;
    let mut two = Caller::open(&store, "two").await;
    let mut expected = vec![];
    for number in 1..=20u64 {
        let caller = if number % 3 == 0 { &mut two } else { &mut one };
        let (mut commit, _) = caller.prepare(&[Operation::Advance { by: 1 }]).await;
        let record = caller.audit_record(&number.to_string()).with_detail("by hand");
        commit.audit = vec![record.clone()];
        caller.commit(&commit).await;
        expected.insert(0, (number, record));
    }
    // What a value's record tells is of the whole store, and is there only if the value was replaced.
    let of_none = AuditRecord::new(one.now, None, "somebody", "key made");
    assert!(!store.replace_value("keys", Some(b"x"), b"one", Some(&of_none)).await.unwrap());
    assert!(store.replace_value("keys", None, b"one", Some(&of_none)).await.unwrap());
    expected.insert(0, (21, of_none));
    let mut paged: Vec<(u64, AuditRecord)> = vec![];
    loop {
        let page = store.audit(paged.last().map(|(number, _)| *number), None, 6).await.unwrap();
        assert!(page.len() <= 6);
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, expected);
    for (caller, count) in [(&one, 14), (&two, 6)] {
        let of_room: Vec<_> =
            expected.iter().filter(|(_, record)| record.room.as_ref() == Some(&caller.id)).cloned().collect();
        assert_eq!(of_room.len(), count);
        assert_eq!(store.audit(None, Some(&caller.id), 100).await.unwrap(), of_room);
        let after_three = store.audit(Some(of_room[2].0), Some(&caller.id), 2).await.unwrap();
        assert_eq!(after_three, of_room[3..5]);
    }
    assert_eq!(store.audit(Some(1), None, 10).await.unwrap(), []);
    assert_eq!(store.audit(Some(0), None, 10).await.unwrap(), []);
    assert_eq!(store.audit(None, None, 0).await.unwrap(), []);
}
