//! "Joining over many connections while the process is killed with `kill -9` and restarted, ten times over: no position
//! twice, none acknowledged lost, order kept."

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anteroom_testkit::{Client, Server, SetOnDrop, aws, full, now, pause, wait_until};

use crate::support::BINARY;

const EVENT: &str = "Sample";
/// How long a round may take until enough visitors have joined.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A join that was answered with 200.
#[derive(Debug)]
struct Acknowledged {
    request_id: String,
    sent: Instant,
    answered: Instant,
}

/// What the killer and the visitors share.
struct Scene {
    address: Mutex<SocketAddr>,
    acknowledged: AtomicUsize,
    over: AtomicBool,
}

impl Scene {
    fn address(&self) -> SocketAddr {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Joins again and again, over a new connection whenever the server has gone, and remembers what was acknowledged.
fn keep_joining(scene: &Scene) -> Vec<Acknowledged> {
    let mut acknowledged = Vec::new();
    let mut client = Client::new(scene.address());
    while !scene.over.load(Ordering::SeqCst) {
        let sent = now();
        let Ok(answer) = aws::assign_queue_num(&mut client, EVENT) else {
            // Killed before or after the write, nobody knows: this visitor has been promised nothing.
            pause();
            client = Client::new(scene.address());
            continue;
        };
        let answered = now();
        assert_eq!(answer.status, 200, "{answer:?}");
        let request_id = answer.json()["api_request_id"].as_str().expect("a request id").to_owned();
        acknowledged.push(Acknowledged { request_id, sent, answered });
        scene.acknowledged.fetch_add(1, Ordering::SeqCst);
    }
    acknowledged
}

#[test]
fn joining_while_killed_and_restarted_repeats_no_position_loses_none_acknowledged_and_keeps_the_order() {
    let (rounds, connections, joins_each_round) = if full() { (10, 64, 2000) } else { (4, 16, 300) };
    let mut server = Server::builder(BINARY).start().unwrap();
    let scene = Scene {
        address: Mutex::new(server.public()),
        acknowledged: AtomicUsize::new(0),
        over: AtomicBool::new(false),
    };
    let mut admitted: Vec<(String, [String; 3])> = Vec::new();
    let joins: Vec<Acknowledged> = thread::scope(|scope| {
        let visitors: Vec<_> = (0..connections).map(|_| scope.spawn(|| keep_joining(&scene))).collect();
        let end = SetOnDrop(&scene.over);
        for round in 1..=rounds {
            // What an operator and a visitor were told before the kill must hold after it.
            let mut line = server.line(EVENT);
            let mine = line.join();
            let position = line.position(&mine);
            let serving = line.serving();
            let serving = line.advance(position - serving);
            admitted.push((mine.clone(), line.tokens(&mine)));
            let enough = scene.acknowledged.load(Ordering::SeqCst) + joins_each_round;
            wait_until(&format!("round {round} has enough joins"), TIMEOUT, || {
                scene.acknowledged.load(Ordering::SeqCst) >= enough
            });
            server.kill_nine().expect("the server dies");
            server.restart().expect("the server starts again on what the kill left behind");
            *scene.address.lock().unwrap_or_else(PoisonError::into_inner) = server.public();
            let mut line = server.line(EVENT);
            assert_eq!(line.serving(), serving, "the frontier after kill {round}");
            for (id, tokens) in &admitted {
                assert_eq!(&line.tokens(id), tokens, "a pass after kill {round}");
            }
            assert_eq!(line.active(), round);
        }
        let enough = scene.acknowledged.load(Ordering::SeqCst) + joins_each_round;
        wait_until("joins go on after the last kill", TIMEOUT, || {
            scene.acknowledged.load(Ordering::SeqCst) >= enough
        });
        drop(end);
        visitors.into_iter().flat_map(|handle| handle.join().expect("a visitor does not panic")).collect()
    });
    assert!(joins.len() >= joins_each_round * usize::try_from(rounds).unwrap());

    let mut line = server.line(EVENT);
    let mut owners: BTreeMap<i64, &str> = BTreeMap::new();
    let mut placed: Vec<(i64, &Acknowledged)> = Vec::with_capacity(joins.len());
    for join in &joins {
        // Anything but 200 would be an acknowledged place that was lost.
        let position = line.position(&join.request_id);
        let taken = owners.insert(position, &join.request_id);
        assert_eq!(taken, None, "position {position} belongs to two");
        placed.push((position, join));
    }
    for (id, _) in &admitted {
        let position = line.position(id);
        assert_eq!(owners.insert(position, id), None, "position {position} belongs to two");
    }
    let known = i64::try_from(owners.len()).unwrap();
    let highest = owners.last_key_value().map_or(0, |(position, _)| *position);
    let still_waiting = line.waiting();
    assert!(highest >= known);
    // Joins whose answer the kill swallowed are places too, so there may be more than were acknowledged, never fewer.
    let passes = i64::try_from(admitted.len()).unwrap();
    assert!(still_waiting >= known - passes, "{still_waiting} wait, {known} are known");
    assert_order_is_kept(placed);
}

/// A join answered before another was sent has the smaller position.
fn assert_order_is_kept(mut placed: Vec<(i64, &Acknowledged)>) {
    placed.sort_by_key(|(_, join)| join.answered);
    let mut highest = 0;
    let highest_up_to: Vec<i64> = placed
        .iter()
        .map(|(position, _)| {
            highest = highest.max(*position);
            highest
        })
        .collect();
    let mut compared = 0;
    for (position, join) in &placed {
        let answered_before = placed.partition_point(|(_, other)| other.answered < join.sent);
        if let Some(before) = answered_before.checked_sub(1).map(|last| highest_up_to[last]) {
            assert!(before < *position, "{before} was answered before {position} was asked for");
            compared += 1;
        }
    }
    assert!(compared > placed.len() / 2, "only {compared} of {} joins had a predecessor", placed.len());
}
