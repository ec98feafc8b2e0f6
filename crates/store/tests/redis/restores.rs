//! Restores as other nodes meet them. Two stores stand for two processes: they share nothing but the server.

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use anteroom_core::{Effects, Operation};
use anteroom_store::backup::reader::VerifiedBackup;
use anteroom_store::backup::restore::{Restore, ReturningRoom};
use anteroom_store::contract::{CommitOutcome, JoinOutcome, NodeId, Store, StoreError};
use anteroom_store::{BackupStream, RestoreError};
use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::require_redis;

use crate::support::{NODE, OTHER_NODE, Writer, is_transient, open, wait_until};

async fn read(mut stream: BackupStream) -> Vec<u8> {
    let mut bytes = vec![];
    while let Some(piece) = stream.next().await {
        bytes.extend(piece.unwrap());
    }
    bytes
}

/// A backup of a store as it is; rooms come back as they were, only later than anything there is.
async fn restore_of(store: &dyn Store, refuse: bool) -> Restore {
    let bytes = read(store.backup(anteroom_core::UnixMillis(1)).await.unwrap()).await;
    let backup = VerifiedBackup::verify(Box::new(Cursor::new(bytes))).unwrap();
    let revise = Box::new(move |returning: ReturningRoom<'_>| {
        if refuse && returning.id.as_str() == "two" {
            return Err(anteroom_core::Refusal::SegmentsFull);
        }
        let (mut room, before) = (returning.room, returning.later_than.unwrap());
        room.version = before.version + 1;
        room.epoch = before.epoch + 1;
        Ok((room, Effects::default()))
    });
    Restore { backup, revise, audit: None, node: NodeId(0) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn another_node_goes_on_with_what_was_restored() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let [one, other] = [Arc::new(open(&redis.url()).await), Arc::new(open(&redis.url()).await)];
    let mut here = Writer::make(one.clone(), "one").await;
    here.join(5).await;
    assert!(one.replace_value("ring", None, b"old", None).await.unwrap());
    let restore = restore_of(&*one, false).await;
    let mut there = Writer { store: other.clone(), node: OTHER_NODE, number: 0, ..here.clone() };
    assert_eq!(there.join(1).await, 6);
    let late = Writer::make(other.clone(), "late").await;
    assert!(other.replace_value("ring", Some(b"old"), b"new", None).await.unwrap());
    let names = other.poll(&[], NODE, Duration::from_secs(1)).await.unwrap().names;
    one.restore(restore).await.unwrap();
    // Whatever the other one asks for first, it finds what counts now.
    let outcome = there.try_join(1).await.unwrap();
    let JoinOutcome::Conflict(Some(newer)) = outcome else { panic!("{outcome:?}") };
    assert_eq!((newer.room.newest().joined, newer.is_continuous), (5, true));
    assert!(newer.room.version > there.room.version && newer.room.epoch > there.room.epoch);
    assert_ne!(other.poll(&[], NODE, Duration::from_secs(1)).await.unwrap().names, names);
    assert_eq!(other.value("ring").await.unwrap().as_deref(), Some(b"old".as_slice()));
    assert!(other.load(&late.id, NODE).await.unwrap().is_none());
    assert!(other.trace(&late.id).await.unwrap().is_some(), "it went with the restore, it was not lost");
    there.take_over().await;
    assert_eq!(there.join(1).await, 6);
    there.perform(&Operation::Advance { by: 1 }).await;
    // Nothing of before stays but what tells those who sleep that it is over.
    wait_until("the old content is gone", || async {
        let keys = redis.command(&["KEYS", "anteroom:0:*"]);
        let mut keys: Vec<String> = keys.array().iter().map(|key| key.text()).collect();
        keys.retain(|key| !key.contains(":node:"));
        keys.sort();
        keys == ["anteroom:0:{r/late}:room", "anteroom:0:{r/one}:room"]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_question_alone_finds_what_was_restored() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let one = Arc::new(open(&redis.url()).await);
    let mut here = Writer::make(one.clone(), "one").await;
    here.join(5).await;
    assert!(one.replace_value("ring", None, b"old", None).await.unwrap());
    for round in 0..6 {
        let other = Arc::new(open(&redis.url()).await);
        let mut there =
            Writer { store: other.clone(), node: OTHER_NODE, number: 100 * (round + 1), ..here.clone() };
        there.take_over().await;
        let restore = restore_of(&*one, false).await;
        one.restore(restore).await.unwrap();
        match round {
            0 => assert_eq!(other.load(&here.id, NODE).await.unwrap().unwrap().room.newest().joined, 5),
            1 => assert_eq!(other.value("ring").await.unwrap().as_deref(), Some(b"old".as_slice())),
            2 => assert!(other.replace_value("ring", Some(b"old"), b"old", None).await.unwrap()),
            3 => assert_eq!(other.rooms().await.unwrap(), [here.id.clone()]),
            4 => {
                let commit = there.prepare(&Operation::Advance { by: 1 });
                let outcome = other.commit(&commit).await.unwrap();
                assert!(matches!(outcome, CommitOutcome::Conflict(Some(_))), "{outcome:?}");
            }
            _ => assert!(
                other.poll(&[here.id.clone()], NODE, Duration::from_secs(1)).await.unwrap().rooms[0]
                    .is_some()
            ),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restore_that_fails_changes_nothing() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let [one, other] = [Arc::new(open(&redis.url()).await), Arc::new(open(&redis.url()).await)];
    let mut rooms = vec![];
    for name in ["one", "two"] {
        let mut writer = Writer::make(one.clone(), name).await;
        writer.join(2).await;
        rooms.push(writer);
    }
    let keys = || {
        let keys = redis.command(&["KEYS", "*"]);
        let mut keys: Vec<String> = keys.array().iter().map(|key| key.text()).collect();
        keys.sort();
        keys
    };
    let before = keys();
    let restore = restore_of(&*one, true).await;
    let refused = one.restore(restore).await;
    assert!(matches!(refused, Err(RestoreError::Room { .. })), "{refused:?}");
    assert_eq!(keys(), before, "not even keys that nobody reads");
    for writer in &mut rooms {
        assert_eq!(writer.join(1).await, 3);
        let mut there = Writer { store: other.clone(), node: OTHER_NODE, number: 0, ..writer.clone() };
        assert_eq!(there.join(1).await, 4);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restore_that_died_lets_go_of_what_it_froze() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let one = Arc::new(open(&redis.url()).await);
    let second = Writer::make(one.clone(), "second").await;
    let mut writer = Writer::make(one.clone(), "room").await;
    writer.join(1).await;
    // As a process leaves it that is killed in the middle: it holds the store, and has frozen the room.
    redis.command(&["SET", "anteroom:{store}:restoring", "token"]).no_error();
    redis.command(&["HSET", "anteroom:0:{r/room}:room", "f", "token"]).no_error();
    redis.command(&["HSET", "anteroom:0:{r/second}:room", "f", "token"]).no_error();
    let batch = writer.batch(1);
    assert!(is_transient(&one.join(&batch).await));
    assert!(is_transient(&one.poll(&[writer.id.clone()], NODE, Duration::from_secs(1)).await));
    assert!(is_transient(&one.replace_value("ring", None, b"new", None).await));
    let busy = one.restore(restore_of_nothing().await).await;
    assert!(matches!(busy, Err(RestoreError::Busy)), "{busy:?}");
    // Nobody extends it, so it runs out.
    redis.command(&["DEL", "anteroom:{store}:restoring"]).no_error();
    let both = one.poll(&[second.id.clone(), writer.id.clone()], NODE, Duration::from_secs(1)).await.unwrap();
    assert!(both.rooms.iter().all(Option::is_some));
    let outcome = one.join(&batch).await.unwrap();
    assert!(matches!(outcome, JoinOutcome::Joined { first: 2 }), "{outcome:?}");
    assert!(one.replace_value("ring", None, b"new", None).await.unwrap());
    assert!(!matches!(one.load(&writer.id, NODE).await, Err(StoreError::Transient(_))));
}

async fn restore_of_nothing() -> Restore {
    let redis = RedisProcess::start();
    restore_of(&open(&redis.url()).await, false).await
}
