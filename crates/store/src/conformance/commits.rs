//! Conditional commits: all or nothing, once, and never over a concurrent one.

use std::sync::Arc;

use anteroom_core::settings::{AlarmNames, Notice, People, Seconds, WebAddress};
use anteroom_core::{InletKind, MAX_POSITION, Operation, Outcome, RoomId, RoomState, Settings};

use super::caller::{Caller, NODE, OTHER_NODE, claim};
use crate::contract::{CommitOutcome, Store};

pub(super) async fn a_snapshot_reads_back_exactly(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    assert_eq!(caller.snapshot().await.room, caller.room, "an empty room");
    caller.perform(Operation::Join { count: 20_000 }).await;
    caller.perform(Operation::Advance { by: 13_000 }).await;
    caller.now = caller.now.plus(2_000);
    let mut sessions = vec![];
    // Both sides of the edges of chunks, and chunks that are dropped again once everything in them is settled.
    for position in [2, 4_096, 4_097, 8_192, 12_289, 13_000] {
        let ticket = caller.ticket(position);
        caller.perform(claim(ticket, Some(position))).await;
        let key = claim(ticket, None).session_key().unwrap();
        sessions.push(caller.session(key).await.unwrap());
    }
    for position in [1, 3, 16_385, 20_000] {
        let ticket = caller.ticket(position);
        caller.perform(Operation::Leave { ticket }).await;
    }
    caller.close(sessions[1].key, Outcome::Abandoned).await;
    caller.perform(Operation::Exits { count: 2 }).await;
    assert_eq!(caller.snapshot().await.room, caller.room, "a busy room");
    let settings = Settings {
        inlet: InletKind::MaxSize,
        total_active_users: Some(77),
        validity_period: Seconds::new(61).unwrap(),
        enable_queue_position_expiry: true,
        queue_position_expiry_period: Seconds::new(86),
        incr_svc_on_queue_position_expiry: true,
        issuer: Some("https://other.example".into()),
        backend_uri: WebAddress::parse("https://shop.example/enter"),
        disable_session_renewal: true,
        alarms: AlarmNames::new(vec!["Checkout slow".into(), "5xx".into()]).unwrap(),
        new_users_per_minute: People::new(600),
        interval_seconds: Seconds::new(7).unwrap(),
        notice: Notice::new("Back at eight"),
        ..Settings::default()
    };
    caller.perform(Operation::reconfigure(settings.clone(), None)).await;
    caller.perform(Operation::Advance { by: -1 }).await;
    caller.perform(Operation::Advance { by: 3 }).await;
    caller.perform(Operation::reconfigure(settings.clone(), Some(RoomState::Paused))).await;
    assert!(caller.room.inlet_rests && caller.room.halted_since.is_some() && caller.room.exit_credits > 0);
    assert_eq!(caller.snapshot().await.room, caller.room, "every setting changed");
    caller.perform(Operation::OpenSegment { incarnation: 9 }).await;
    caller.perform(Operation::Join { count: 3 }).await;
    assert_eq!(caller.snapshot().await.room, caller.room, "two generations");
    // After the whole claim window everything lapses: the chunks below the floor are gone, the others stay.
    caller.perform(Operation::reconfigure(settings, Some(RoomState::Draining))).await;
    caller.now = caller.now.plus(87_000);
    caller.perform(Operation::Tick).await;
    let chunks: Vec<u64> = caller.room.segments[0].taken.chunks().map(|(index, _)| index).collect();
    assert_eq!(chunks, [3, 4]);
    assert_eq!(caller.snapshot().await.room, caller.room, "after a lapse");
    for session in &sessions {
        let stored = caller.session(session.key).await.unwrap();
        if session.key == sessions[1].key {
            assert_eq!(stored.issued_at_seconds, session.issued_at_seconds);
        } else {
            assert_eq!(&stored, session);
        }
    }
    assert_eq!(store.rooms().await.unwrap(), [caller.id.clone()]);
}

pub(super) async fn a_stale_version_conflicts_and_writes_nothing(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let mut slower = caller.on_another_node();
    caller.perform(Operation::Join { count: 5 }).await;
    caller.perform(Operation::Advance { by: 2 }).await;
    let (late, _) = slower.prepare(&[Operation::Join { count: 7 }, Operation::Advance { by: 7 }]).await;
    let newer = slower.commit_in_vain(&late).await.unwrap();
    assert_eq!(newer.room, caller.room);
    assert_eq!(newer.last_number, None, "the slower node has written nothing yet");
    assert_eq!(caller.snapshot().await.room, caller.room);
    // Applied again to the newer room, the same operations succeed.
    slower.room = newer.room;
    slower.perform(Operation::Advance { by: 7 }).await;
    assert_eq!(caller.snapshot().await.room.serving(), 9);
}

pub(super) async fn a_room_is_made_once(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    caller.perform(Operation::Join { count: 5 }).await;
    let mut other = caller.on_another_node();
    let again = other.creation();
    let newer = other.commit_in_vain(&again).await.unwrap();
    assert_eq!(newer.room, caller.room);
    let mut nowhere = caller.on_another_node();
    nowhere.id = RoomId::parse("nowhere").unwrap();
    let (commit, _) = nowhere.prepare(&[Operation::Advance { by: 1 }]).await;
    assert!(nowhere.commit_in_vain(&commit).await.is_none());
    assert!(store.load(&nowhere.id, NODE).await.unwrap().is_none());
    assert_eq!(store.rooms().await.unwrap(), [caller.id.clone()]);
}

pub(super) async fn a_commit_adds_its_joins_to_those_in_between(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let mut other = caller.on_another_node();
    let (commit, _) = caller.prepare(&[Operation::Join { count: 3 }, Operation::Advance { by: 1 }]).await;
    assert_eq!(other.join(4).await, 1);
    assert_eq!(caller.commit(&commit).await, 7, "its own stand behind the others");
    assert_eq!(other.join(1).await, 8);
    let (nothing_joined, _) = caller.prepare(&[Operation::Advance { by: 1 }]).await;
    assert_eq!(caller.commit(&nothing_joined).await, 8);
    let stored = caller.snapshot().await.room;
    assert_eq!(stored, caller.room);
    assert_eq!((stored.newest().joined, stored.serving()), (8, 2));
}

pub(super) async fn a_commit_that_opens_a_line_conflicts_with_joins_in_between(store: Arc<dyn Store>) {
    for (name, opening) in
        [("behind", Operation::OpenSegment { incarnation: 2 }), ("anew", Operation::Reset { incarnation: 2 })]
    {
        let mut caller = Caller::open(&store, name).await;
        let mut other = caller.on_another_node();
        let (stale, _) = caller.prepare(std::slice::from_ref(&opening)).await;
        other.join(4).await;
        let newer = caller.commit_in_vain(&stale).await.unwrap();
        assert_eq!(newer.room.newest().joined, 4, "{name}");
        caller.room = newer.room;
        let (fresh, _) = caller.prepare(&[opening, Operation::Join { count: 2 }]).await;
        assert_eq!(caller.commit(&fresh).await, 2, "{name}");
        let stored = caller.snapshot().await.room;
        assert_eq!(stored, caller.room, "{name}");
        let kept = stored.segments.iter().map(|segment| segment.joined).sum::<u64>();
        assert_eq!(kept, if name == "behind" { 6 } else { 2 });
    }
}

pub(super) async fn a_commit_never_passes_the_last_position(store: Arc<dyn Store>) {
    let mut caller = Caller::open_near_the_end(&store, "room", 3).await;
    let mut other = caller.on_another_node();
    let (commit, _) = caller.prepare(&[Operation::Join { count: 2 }, Operation::Advance { by: 1 }]).await;
    other.join(2).await;
    let newer = caller.commit_in_vain(&commit).await.unwrap();
    assert_eq!(newer.room.newest().joined, MAX_POSITION - 1);
    caller.room = newer.room;
    caller.perform(Operation::Join { count: caller.room.places_left() }).await;
    assert_eq!(caller.snapshot().await.room.newest().joined, MAX_POSITION);
}

pub(super) async fn a_repeated_commit_answers_the_same_and_changes_nothing(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let mut other = caller.on_another_node();
    let (mut commit, _) = caller.prepare(&[Operation::Join { count: 3 }, Operation::Advance { by: 1 }]).await;
    commit.audit.push(caller.audit_record("once"));
    assert_eq!(caller.commit(&commit).await, 3);
    assert_eq!(caller.commit(&commit).await, 3);
    // Also when another node has written meanwhile.
    other.room = caller.room.clone();
    other.join(2).await;
    other.perform(Operation::Advance { by: 1 }).await;
    let before = other.snapshot().await.room;
    let repeated = store.commit(&commit).await.unwrap();
    assert!(matches!(repeated, CommitOutcome::Done { joined: 3 }), "{repeated:?}");
    assert_eq!(other.snapshot().await.room, before);
    assert_eq!(store.audit(None, None, 10).await.unwrap().len(), 1);
    // An older number than the last one is no repetition: nothing is known of it any more.
    caller.room = before.clone();
    caller.perform(Operation::Advance { by: 1 }).await;
    let newer = caller.commit_in_vain(&commit).await.unwrap();
    assert_eq!(newer.room, caller.room);
}

pub(super) async fn a_snapshot_tells_the_last_number_of_each_node(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let mut other = caller.on_another_node();
    assert_eq!(caller.snapshot().await.last_number, Some(1));
    assert_eq!(other.snapshot().await.last_number, None);
    caller.perform(Operation::Advance { by: 1 }).await;
    other.number = 40;
    other.join(1).await;
    assert_eq!(caller.snapshot().await.last_number, Some(2));
    assert_eq!(other.snapshot().await.last_number, Some(41));
    // A conflict writes nothing, not even its number; its snapshot tells the asking node's own.
    other.room.version = 0;
    let (stale, _) = other.prepare(&[Operation::Advance { by: 1 }]).await;
    assert_eq!(other.commit_in_vain(&stale).await.unwrap().last_number, Some(41));
    assert_eq!(store.load(&other.id, OTHER_NODE).await.unwrap().unwrap().last_number, Some(41));
}

pub(super) async fn rooms_are_independent(store: Arc<dyn Store>) {
    let mut one = Caller::open(&store, "one").await;
    let mut two = Caller::open(&store, "two").await;
    one.perform(Operation::Join { count: 5 }).await;
    two.perform(Operation::Join { count: 2 }).await;
    let session = one.admit(60).await;
    assert_eq!(two.session(session.key).await, None);
    assert_eq!(two.next_end().await, None);
    assert_eq!(two.join(1).await, 3);
    two.room = two.snapshot().await.room;
    two.perform(Operation::Reset { incarnation: 3 }).await;
    assert_eq!(one.snapshot().await.room, one.room);
    assert_eq!(two.snapshot().await.room, two.room);
    assert_eq!(one.session(session.key).await, Some(session));
    let mut rooms = store.rooms().await.unwrap();
    rooms.sort();
    assert_eq!(rooms, [one.id.clone(), two.id.clone()]);
}
