//! Sessions: found by key, by end, and gone when their time or their line is over.

use std::sync::Arc;
use std::time::Duration;

use anteroom_core::session::REFRESH_GRACE_MILLIS;
use anteroom_core::settings::Seconds;
use anteroom_core::{
    Answer, Claim, Grant, InletKind, Mover, Operation, Outcome, PrefixTag, Session, SessionStatus, Settings,
    Ticket, UnixMillis,
};

use super::caller::{Caller, HOUR_MILLIS, claim};
use crate::clock::{Clock, Stopwatch, SystemClock};
use crate::contract::{SESSION_RETENTION_MILLIS, Store};

/// How late a store may delete what nobody is to see any more.
const DELETED_WITHIN: Duration = Duration::from_secs(20);

fn keys(sessions: &[Session]) -> Vec<anteroom_core::SessionKey> {
    sessions.iter().map(|session| session.key).collect()
}

pub(super) async fn sessions_come_by_end_within_limit_and_generations(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let late = caller.admit(300).await;
    let middle = caller.admit(200).await;
    let twin = caller.admit(200).await;
    let first_generation = caller.generations();
    caller.perform(Operation::OpenSegment { incarnation: 4 }).await;
    let early = caller.admit(100).await;
    let latest = caller.admit(400).await;
    let second_generation = [*caller.generations().last().unwrap()];
    let far = UnixMillis(u64::MAX);
    let all = [&early, &middle, &twin, &late, &latest].map(|session| session.key);
    assert_eq!(keys(&caller.ended(far, 10).await), all);
    assert_eq!(keys(&caller.ended(far, 2).await), all[..2], "the earliest ends first");
    assert_eq!(caller.ended(far, 0).await, []);
    let exactly = caller.ended(middle.ends_at(), 10).await;
    assert_eq!(exactly, [early.clone(), middle.clone(), twin], "the end itself counts");
    let before = UnixMillis(middle.ends_at().0 - 1);
    assert_eq!(keys(&caller.ended(before, 10).await), [early.key]);
    let of_first = store.sessions_ended(&caller.id, &first_generation, far, 10).await.unwrap();
    assert_eq!(keys(&of_first), all[1..4]);
    let of_second = store.next_session_end(&caller.id, &second_generation).await.unwrap();
    assert_eq!(of_second, Some(early.ends_at()));
    assert_eq!(caller.next_end().await, Some(early.ends_at()));
    let of_none = store.next_session_end(&caller.id, &[]).await.unwrap();
    assert_eq!(of_none, None);
    caller.close(early.key, Outcome::Completed).await;
    assert_eq!(caller.next_end().await, Some(middle.ends_at()));
}

pub(super) async fn an_ended_session_leaves_the_index_but_stays_listed(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let (completed, expired) = (caller.admit(100).await, caller.admit(50).await);
    let far = UnixMillis(u64::MAX);
    let mut passes = vec![completed.request_id, expired.request_id];
    passes.sort();
    assert_eq!(caller.expired(far).await, passes, "active ones are listed too");
    caller.close(completed.key, Outcome::Completed).await;
    assert_eq!(keys(&caller.ended(far, 10).await), [expired.key]);
    caller.now = expired.ends_at();
    caller.sweep().await;
    assert_eq!(caller.ended(far, 10).await, []);
    assert_eq!(caller.next_end().await, None);
    let stored = caller.session(expired.key).await.unwrap();
    assert_eq!(stored.status, SessionStatus::Expired);
    let relabelled = caller.close(expired.key, Outcome::Abandoned).await;
    assert_eq!(relabelled.status, SessionStatus::Ended(Outcome::Abandoned));
    assert_eq!(caller.session(expired.key).await, Some(relabelled));
    assert_eq!(caller.expired(far).await, passes);
    assert_eq!(caller.ended(far, 10).await, []);
    assert_eq!(caller.snapshot().await.room, caller.room);
}

pub(super) async fn a_stay_moves_its_session_in_the_index_both_ways(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    caller.spread_millis = 2_000;
    let (moved, fixed) = (caller.admit_for(30_000).await, caller.admit_for(60_000).await);
    let far = UnixMillis(u64::MAX);
    assert_eq!(keys(&caller.ended(far, 10).await), [moved.key, fixed.key]);

    let longer = caller.touch(moved.key, 90_000).await;
    assert_eq!(longer.ends_at().since(moved.ends_at()), 60_000);
    assert_eq!(caller.session(moved.key).await.as_ref(), Some(&longer));
    assert_eq!(caller.ended(moved.ends_at(), 10).await, [], "its first end is nobody's any more");
    assert_eq!(caller.next_end().await, Some(fixed.ends_at()));
    assert_eq!(caller.ended(far, 10).await, [fixed.clone(), longer.clone()]);
    assert_eq!(caller.expired(longer.ends_at()).await, [fixed.request_id]);

    let shorter = caller.close(moved.key, Outcome::Completed).await;
    assert_eq!((shorter.status, shorter.ends_at()), (SessionStatus::Active, caller.now.plus(2_000)));
    assert_eq!(caller.next_end().await, Some(shorter.ends_at()));
    assert_eq!(keys(&caller.ended(far, 10).await), [moved.key, fixed.key], "each of them once");
    assert_eq!(caller.expired(shorter.ends_at().plus(1)).await, [moved.request_id]);

    caller.now = shorter.ends_at();
    caller.sweep().await;
    let ended = caller.session(moved.key).await.unwrap();
    assert_eq!(ended.status, SessionStatus::Ended(Outcome::Completed));
    assert_eq!(keys(&caller.ended(far, 10).await), [fixed.key]);
    let mut passes = vec![moved.request_id, fixed.request_id];
    passes.sort();
    assert_eq!(caller.expired(far).await, passes, "each of them once");
    assert_eq!(caller.snapshot().await.room, caller.room);
}

pub(super) async fn where_visits_come_from_and_who_waits_for_it_are_remembered(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let settings = Settings { inlet: InletKind::MaxSize, total_active_users: Some(4), ..Settings::default() };
    caller.perform(Operation::reconfigure(settings, None)).await;
    caller.perform(Operation::Join { count: 9 }).await;
    let first = caller.room.newest().joined - 8;
    let prefix = PrefixTag::new(7);
    let claim_from_there = |ticket| match claim(ticket, None) {
        Operation::Claim(claim) => Operation::Claim(Claim { prefix, ..claim }),
        other => other,
    };
    for position in [first, first + 1] {
        let claim = claim_from_there(caller.ticket(position));
        let Answer::Claimed { session, begun: true } = caller.perform(claim).await else {
            panic!("no visit")
        };
        assert_eq!(caller.session(session.key).await.unwrap().prefix, prefix);
    }
    let beyond_share = claim_from_there(caller.ticket(first + 2));
    assert_eq!(caller.perform(beyond_share).await, Answer::Deferred);
    let stored = caller.snapshot().await.room;
    assert_eq!((stored.deferred.len(), stored.visits_by_prefix.values().sum::<u64>()), (1, 2));
    assert_eq!(stored, caller.room);
}

pub(super) async fn a_stay_that_was_prolonged_outlives_its_first_end_by_more_than_the_retention(
    store: Arc<dyn Store>,
) {
    let real_now = SystemClock.now();
    let long_ago = UnixMillis(real_now.0 - SESSION_RETENTION_MILLIS - 2 * HOUR_MILLIS);
    let mut caller = Caller::open_at(&store, "room", long_ago).await;
    let settings =
        Settings { session_max: Seconds::new(7 * 86_400).unwrap(), ..(*caller.room.settings).clone() };
    caller.perform(Operation::reconfigure(settings, None)).await;
    let (gone, stays) = (caller.admit_for(30_000).await, caller.admit_for(30_000).await);
    caller.close(gone.key, Outcome::Completed).await;
    let stays = caller.touch(stays.key, 3 * 86_400_000).await;
    caller.now = real_now;
    let watch = Stopwatch::start();
    while caller.session(gone.key).await.is_some() {
        assert!(watch.elapsed() < DELETED_WITHIN, "an old session is deleted in time");
        commit_unchanged(&mut caller).await;
    }
    assert_eq!(caller.session(stays.key).await, Some(stays.clone()), "the visitor is still inside");
    assert_eq!(caller.next_end().await, Some(stays.ends_at()));
}

pub(super) async fn a_place_that_moved_and_a_code_that_was_redeemed_are_remembered(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    caller.perform(Operation::Join { count: 2 }).await;
    let old = caller.ticket(2);
    let moved = caller.perform(Operation::Move { ticket: old, by: Mover(7) }).await;
    let new = Ticket { copy: 1, ..old };
    assert_eq!(moved, Answer::Moved { ticket: new, is_repeated: false });
    let stored = store.load(&caller.id, caller.node).await.unwrap().unwrap();
    let board = anteroom_core::Board::of(&stored.room);
    assert!(board.is_moved(&old) && !board.is_moved(&new));
    // Any later reader of the room gives its mover the same answer: another node, or this one after a restart.
    assert!(board.is_moved_by(&old, Mover(7)) && !board.is_moved_by(&old, Mover(8)));
    caller.room = stored.room;
    let again = caller.perform(Operation::Move { ticket: old, by: Mover(7) }).await;
    assert_eq!(again, Answer::Moved { ticket: new, is_repeated: true });
    caller.perform(Operation::Advance { by: 2 }).await;
    let claimed = caller.perform(claim(new, None)).await;
    let Answer::Claimed { session, begun: true } = claimed else { panic!("{claimed:?}") };
    let issued_at = caller.now.plus(1);
    caller.perform(Operation::Redeem { key: session.key, issued_at }).await;
    let stored = store.load(&caller.id, caller.node).await.unwrap().unwrap();
    assert!(stored.room.moved.is_empty(), "the session knows it from now on");
    let kept = store.session(&caller.id, session.key).await.unwrap().unwrap();
    assert_eq!((kept.copy, kept.redeemed_at), (1, issued_at));
}

pub(super) async fn logins_are_remembered_with_their_session(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let session = caller.admit_for(100_000).await;
    let (key, issued_at) = (session.key, caller.now);
    for grant in 1..=3 {
        caller.perform(Operation::Grant { key, grant, client: 77, issued_at }).await;
    }
    let refreshed_at = caller.now;
    caller.perform(Operation::Refresh { key, grant: 2, sequence: 0 }).await;
    assert_eq!(
        caller.perform(Operation::Grant { key, grant: 1, client: 77, issued_at }).await,
        Answer::GrantReused
    );
    let kept = store.session(&caller.id, key).await.unwrap().unwrap();
    let expected = [
        Grant { is_revoked: true, ..Grant::new(1, 77, issued_at) },
        Grant { refresh_sequence: 1, refreshed_at, ..Grant::new(2, 77, issued_at) },
        Grant::new(3, 77, issued_at),
    ];
    assert_eq!(kept.grants, expected);
    assert_eq!(caller.next_end().await, Some(session.ends_at()), "a login makes no visit longer");
    // Another node, whose snapshot of the room is the same, sees that a token was used.
    let mut other = caller.on_another_node();
    other.now = refreshed_at.plus(REFRESH_GRACE_MILLIS);
    let reused = other.perform(Operation::Refresh { key, grant: 2, sequence: 0 }).await;
    assert_eq!(reused, Answer::GrantReused);
    let kept = store.session(&caller.id, key).await.unwrap().unwrap();
    assert_eq!((kept.outcome(), kept.grants[1].is_revoked), (Some(Outcome::Abandoned), true));
}

pub(super) async fn expired_passes_are_strictly_before(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let session = caller.admit(100).await;
    let end = session.ends_at();
    assert_eq!(caller.expired(end).await, []);
    assert_eq!(caller.expired(end.plus(1)).await, [session.request_id]);
    assert_eq!(caller.expired(UnixMillis(0)).await, []);
    let of_no_generation = store.expired_passes(&caller.id, &[], end.plus(1)).await.unwrap();
    assert_eq!(of_no_generation, []);
}

pub(super) async fn a_reset_makes_sessions_invisible(store: Arc<dyn Store>) {
    let mut caller = Caller::open(&store, "room").await;
    let before = caller.admit(100).await;
    caller.perform(Operation::Reset { incarnation: 7 }).await;
    let after = caller.admit(200).await;
    assert_eq!((before.key.position, after.key.position), (after.key.position, before.key.position));
    let far = UnixMillis(u64::MAX);
    assert_eq!(keys(&caller.ended(far, 10).await), [after.key]);
    assert_eq!(caller.expired(far).await, [after.request_id]);
    assert_eq!(caller.next_end().await, Some(after.ends_at()));
    assert_eq!(caller.session(after.key).await, Some(after));
    assert_eq!(caller.snapshot().await.room, caller.room);
    let watch = Stopwatch::start();
    while caller.session(before.key).await.is_some() {
        assert!(watch.elapsed() < DELETED_WITHIN, "a closed line is deleted in time");
        commit_unchanged(&mut caller).await;
    }
}

pub(super) async fn sessions_are_kept_for_the_retention_and_no_longer(store: Arc<dyn Store>) {
    let real_now = SystemClock.now();
    let long_ago = UnixMillis(real_now.0 - SESSION_RETENTION_MILLIS - 2 * HOUR_MILLIS);
    let mut caller = Caller::open_at(&store, "room", long_ago).await;
    let hour = HOUR_MILLIS / 1000;
    let (old, old_and_active) = (caller.admit(hour).await, caller.admit(hour).await);
    caller.close(old.key, Outcome::Completed).await;
    let kept = caller.admit(3 * hour).await;
    caller.now = real_now;
    let watch = Stopwatch::start();
    while caller.session(old.key).await.is_some() {
        assert!(watch.elapsed() < DELETED_WITHIN, "an old session is deleted in time");
        commit_unchanged(&mut caller).await;
    }
    // One that nobody has swept yet must not vanish, or it would count as active for ever.
    assert_eq!(keys(&caller.ended(real_now, 10).await), [old_and_active.key, kept.key]);
    caller.sweep().await;
    assert_eq!(caller.room.active(), 0);
    let watch = Stopwatch::start();
    while caller.session(old_and_active.key).await.is_some() {
        assert!(watch.elapsed() < DELETED_WITHIN, "a swept session is deleted in time");
        commit_unchanged(&mut caller).await;
    }
    let stored = caller.session(kept.key).await.unwrap();
    assert_eq!(stored.status, SessionStatus::Expired);
    assert_eq!(caller.expired(real_now).await, [kept.request_id]);
}

/// Writes something, because a store may delete along with other writes only.
async fn commit_unchanged(caller: &mut Caller) {
    caller.perform(Operation::Advance { by: 1 }).await;
    tokio::task::yield_now().await;
}
