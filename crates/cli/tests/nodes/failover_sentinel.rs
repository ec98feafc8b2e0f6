//! "Same with Sentinel": a primary that is killed, and one that is paused and comes back, replaced under load.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anteroom_testkit::redis::{RedisProcess, Sentinels};
use anteroom_testkit::{
    Crowd, Nodes, SetOnDrop, Tally, assert_order_is_kept, assert_unique, full, native, require_redis,
    wait_until,
};

use crate::pair::figure;
use crate::support::BINARY;
use crate::support::frontier::watch_the_frontier;

const NODES: usize = 3;
/// How long a state may take.
const TIMEOUT: Duration = Duration::from_mins(2);
/// Passes and offers are short-lived, so that those which a failover has cut loose end within this test.
const ROOMS: &str = "signing_algorithm = \"EdDSA\"\n[[room]]\nid = \"Hall\"\ninlet = \"max-size\"\n\
    total_active_users = 12\nqueue_position_expiry_period = 5\nvalidity_period = 15\n";
const CAPACITY: usize = 12;

/// Joins between two turns of the story.
fn some_joins() -> usize {
    if full() { 1_000 } else { 100 }
}

/// Three nodes and a crowd, whose primary is replaced in the middle. The new one needs a replica before it gives passes again: a
/// store that had replicas confirms none without one.
fn replace_the_primary(sentinels: &Sentinels, replace: impl FnOnce(&RedisProcess, &Crowd)) -> (Nodes, Tally) {
    let nodes = Nodes::start(BINARY, ROOMS, &vec![sentinels.url(); NODES]);
    let crowd = Crowd::before(nodes.all(), "Hall", if full() { 100 } else { 40 });
    let over = AtomicBool::new(false);
    let tally = thread::scope(|scope| {
        let _end = SetOnDrop(&over);
        for server in nodes.all() {
            scope.spawn(|| watch_the_frontier(server.public(), "Hall", &over));
        }
        crowd.come_until(|| {
            wait_for_joins(&crowd);
            replace(sentinels.primary(), &crowd);
            wait_for_joins(&crowd);
        })
    });
    assert!(crowd.most_inside() <= CAPACITY, "{} were inside", crowd.most_inside());
    assert_unique(&tally.joins);
    let lines = |joins: &[anteroom_testkit::JoinRecord]| {
        let mut lines: Vec<u64> = joins.iter().map(|join| join.place.generation).collect();
        lines.sort_unstable();
        lines.dedup();
        lines.len()
    };
    assert!(lines(&tally.joins) >= 2, "a failover opens a new line");
    for server in nodes.all() {
        let mut client = server.visitor();
        for join in &tally.joins {
            let answer = native::status(&mut client, "Hall", &join.place.ticket).expect("an answer");
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
    }
    (nodes, tally)
}

#[track_caller]
fn wait_for_joins(crowd: &Crowd) {
    let enough = crowd.acknowledged() + some_joins();
    wait_until("joins go on", TIMEOUT, || crowd.acknowledged() >= enough);
}

/// When everybody has gone, the room is whole: it holds as many as it may, and not fewer.
#[track_caller]
fn assert_ends_at_full_capacity(nodes: &Nodes) {
    nodes.agreed_when("Hall", |room| {
        ["waiting", "active", "offers"].iter().all(|name| figure(room, name) == 0)
    });
    let mut line = nodes.all()[0].line("Hall");
    line.join_many(2 * CAPACITY);
    nodes.agreed_when("Hall", |room| {
        figure(room, "active") + figure(room, "offers") == CAPACITY && figure(room, "waiting") == 2 * CAPACITY
    });
}

#[test]
fn a_killed_primary_is_replaced_under_load_and_no_position_order_or_slot_is_lost() {
    if !require_redis() {
        return;
    }
    let sentinels = Sentinels::start();
    let spare = RedisProcess::start();
    let (nodes, tally) = replace_the_primary(&sentinels, |_, _| {
        sentinels.kill_primary();
        spare.replica_of(sentinels.primary().port());
    });
    assert_order_is_kept(&tally.joins);
    assert_ends_at_full_capacity(&nodes);
}

#[test]
fn a_paused_primary_that_comes_back_after_it_was_replaced_repeats_no_position() {
    if !require_redis() {
        return;
    }
    let sentinels = Sentinels::start();
    let spare = RedisProcess::start();
    let (nodes, _) = replace_the_primary(&sentinels, |primary, crowd| {
        primary.pause();
        sentinels.wait_until_taken_over(primary);
        spare.replica_of(sentinels.primary().port());
        wait_for_joins(crowd);
        // It takes itself for the primary until a Sentinel tells it otherwise, and finds what was sent to it meanwhile.
        primary.resume();
    });
    assert_ends_at_full_capacity(&nodes);
}
