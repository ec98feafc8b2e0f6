//! Events, audit records and values: in the same transaction as what they tell of, and bounded.

use std::sync::Arc;

use anteroom_core::{Event, Operation, RequestId};

use super::caller::Caller;
use crate::contract::{AUDIT_MAX, AuditRecord, OUTBOX_MAX, Store, StoredEvent};

/// How many records the bounds are tested with at a time.
const RECORDS_PER_COMMIT: u64 = 20_000;

pub(super) async fn events_and_audit_come_with_their_commit(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    assert_eq!(store.events(0, 10).await.unwrap(), []);
    let session = caller.admit(60).await;
    let (mut commit, _) = caller.prepare(&[Operation::Advance { by: 1 }]).await;
    commit.audit = vec![caller.audit_record("first"), caller.audit_record("second")];
    commit.effects.events = vec![Event::AutomaticServingCounterIncrease { previous: 1, current: 2 }];
    let mut stale = commit.clone();
    caller.commit(&commit).await;
    let begun = StoredEvent {
        at: caller.now,
        room: caller.id.clone(),
        event: Event::TokenGenerated { request_id: session.request_id },
    };
    let moved = StoredEvent { event: commit.effects.events[0].clone(), ..begun.clone() };
    let expected = vec![(1, begun), (2, moved)];
    let newest_first = vec![(2, caller.audit_record("second")), (1, caller.audit_record("first"))];
    assert_eq!(store.events(0, 10).await.unwrap(), expected);
    assert_eq!(store.audit(None, None, 10).await.unwrap(), newest_first);
    // What conflicts leaves neither behind.
    stale.number += 1;
    caller.number += 1;
    caller.commit_in_vain(&stale).await;
    assert_eq!(store.events(0, 10).await.unwrap(), expected);
    assert_eq!(store.audit(None, None, 10).await.unwrap(), newest_first);
    assert_eq!(store.events(0, 1).await.unwrap(), expected[..1]);
    assert_eq!(store.events(1, 10).await.unwrap(), expected[1..]);
    assert_eq!(store.events(2, 10).await.unwrap(), []);
    assert_eq!(store.events(u64::MAX, 10).await.unwrap(), []);
    assert_eq!(store.audit(None, None, 1).await.unwrap(), newest_first[..1]);
}

pub(super) async fn outbox_and_audit_are_bounded(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let event =
        |number: u64| Event::TokenGenerated { request_id: RequestId(u128::from(number).to_be_bytes()) };
    let mut written = 0;
    while written <= OUTBOX_MAX.max(AUDIT_MAX) {
        let (mut commit, _) = caller.prepare(&[Operation::Advance { by: 1 }]).await;
        let numbers = written + 1..=written + RECORDS_PER_COMMIT;
        commit.effects.events = numbers.clone().map(event).collect();
        commit.audit = numbers.map(|number| caller.audit_record(&number.to_string())).collect();
        caller.commit(&commit).await;
        written += RECORDS_PER_COMMIT;
    }
    let more_than_kept = usize::try_from(2 * OUTBOX_MAX).unwrap();
    let events = store.events(0, more_than_kept).await.unwrap();
    assert_eq!(events.len() as u64, OUTBOX_MAX);
    let mut number = written - OUTBOX_MAX;
    for (stored_number, stored) in events {
        number += 1;
        assert_eq!((stored_number, stored.event), (number, event(number)));
    }
    assert_eq!(number, written);
    let audit = store.audit(None, None, more_than_kept).await.unwrap();
    assert_eq!(audit.len() as u64, AUDIT_MAX);
    assert_eq!((audit[0].0, audit[0].1.action.as_str()), (written, written.to_string().as_str()));
    let (_, oldest) = audit.last().unwrap();
    assert_eq!(oldest.action, (written - AUDIT_MAX + 1).to_string());
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
