//! Visitors who go on joining through one node, whatever becomes of the store.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anteroom_testkit::{Client, JoinRecord, native, now, pause};

/// Pauses between two joins of one visitor: the story is about what is lost, not about how fast it was.
const PAUSES: usize = 10;

/// Joins through one node until the test is over; what was acknowledged is counted at once and returned in the end. Every join is
/// answered in time, with a place or with 503 and a word when to come back.
pub(crate) fn keep_joining(
    node: SocketAddr,
    room: &str,
    is_over: &AtomicBool,
    acknowledged: &AtomicUsize,
) -> Vec<JoinRecord> {
    let (mut client, mut joins) = (Client::new(node), Vec::new());
    while !is_over.load(Ordering::SeqCst) {
        let sent = now();
        let answer = native::join(&mut client, room).expect("a join is answered, whatever happens");
        match answer.status {
            200 => {
                let place = native::LinePlace::of(&answer);
                joins.push(JoinRecord { place, sent, answered: now() });
                acknowledged.fetch_add(1, Ordering::SeqCst);
            }
            503 => assert!(answer.header("Retry-After").is_some(), "{answer:?}"),
            _ => panic!("a join was answered with {answer:?}"),
        }
        for _ in 0..PAUSES {
            pause();
        }
    }
    joins
}
