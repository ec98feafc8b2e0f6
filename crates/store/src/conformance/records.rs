//! Events, audit records and values: in the same transaction as what they tell of, and bounded.

use std::sync::Arc;

use anteroom_core::{Event, Operation, RequestId};

use super::caller::Caller;
use crate::contract::{AUDIT_MAX, OUTBOX_MAX, Store, StoredEvent};

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
    let newest_first = vec![caller.audit_record("second"), caller.audit_record("first")];
    assert_eq!(store.events(0, 10).await.unwrap(), expected);
    assert_eq!(store.audit(10).await.unwrap(), newest_first);
    // What conflicts leaves neither behind.
    stale.number += 1;
    caller.number += 1;
    caller.commit_in_vain(&stale).await;
    assert_eq!(store.events(0, 10).await.unwrap(), expected);
    assert_eq!(store.audit(10).await.unwrap(), newest_first);
    assert_eq!(store.events(0, 1).await.unwrap(), expected[..1]);
    assert_eq!(store.events(1, 10).await.unwrap(), expected[1..]);
    assert_eq!(store.events(2, 10).await.unwrap(), []);
    assert_eq!(store.events(u64::MAX, 10).await.unwrap(), []);
    assert_eq!(store.audit(1).await.unwrap(), newest_first[..1]);
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
    let audit = store.audit(more_than_kept).await.unwrap();
    assert_eq!(audit.len() as u64, AUDIT_MAX);
    assert_eq!(audit[0].action, written.to_string());
    let oldest = audit.last().unwrap();
    assert_eq!(oldest.action, (written - AUDIT_MAX + 1).to_string());
}

pub(super) async fn values_are_compared_and_set(store: Arc<dyn Store>) {
    assert_eq!(store.value("ring").await.unwrap(), None);
    assert!(!store.replace_value("ring", Some(b"x"), b"new").await.unwrap());
    assert_eq!(store.value("ring").await.unwrap(), None);
    assert!(store.replace_value("ring", None, b"one").await.unwrap());
    assert!(!store.replace_value("ring", None, b"two").await.unwrap());
    assert_eq!(store.value("ring").await.unwrap().as_deref(), Some(b"one".as_slice()));
    assert!(store.replace_value("ring", Some(b"one"), b"").await.unwrap());
    assert_eq!(store.value("ring").await.unwrap().as_deref(), Some(b"".as_slice()));
    assert!(store.replace_value("other", None, b"\0\xff").await.unwrap());
    assert!(!store.replace_value("ring", None, b"two").await.unwrap(), "empty is not missing");
    // Of many who try at once, one succeeds.
    let mut tasks = tokio::task::JoinSet::new();
    for contender in 0..16u8 {
        let store = store.clone();
        tasks.spawn(async move { store.replace_value("ring", Some(b""), &[contender]).await.unwrap() });
    }
    let winners = tasks.join_all().await.into_iter().filter(|&won| won).count();
    assert_eq!(winners, 1);
}
