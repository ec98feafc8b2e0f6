//! "Three nodes, one Redis, 300 connections joining, claiming and leaving through all of them: no duplicate, no gap, order kept
//! between answered and later-sent joins, capacity never exceeded, all boards agree."

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{
    Crowd, Nodes, Prng, assert_order_is_kept, assert_unique, aws, full, require_redis, wait_until,
};
use serde_json::{Value, json};

use crate::pair::figure;
use crate::support::BINARY;

/// How many nodes share the store.
const NODES: usize = 3;
/// How many may be inside at once.
const CAPACITY: usize = 12;
/// How long a crowd may take to get so far.
const TIMEOUT: Duration = Duration::from_mins(3);
/// The rooms: one that keeps a capacity, in which an offer that is not claimed lapses, and one that is moved by hand.
const ROOMS: &str = "signing_algorithm = \"EdDSA\"\n\
    [[room]]\nid = \"Hall\"\ninlet = \"max-size\"\ntotal_active_users = 12\nqueue_position_expiry_period = 3\n\
    [[room]]\nid = \"Hand\"\n";

/// Connections at a time, and visits each.
fn size() -> (u64, usize) {
    if full() { (300, 10) } else { (60, 5) }
}

fn three_nodes(redis: &RedisProcess) -> Nodes {
    Nodes::start(BINARY, ROOMS, &vec![redis.url(); NODES])
}

/// Everybody is gone, and all nodes show the same: everything adds up.
#[track_caller]
fn assert_adds_up(nodes: &Nodes) -> Value {
    let is_quiet = |room: &Value| ["waiting", "active", "offers"].iter().all(|name| figure(room, name) == 0);
    let room = nodes.agreed_when("Hall", is_quiet);
    let ended: usize = ["claimed", "lapsed", "left"].iter().map(|name| figure(&room, name)).sum();
    assert_eq!(figure(&room, "joined"), ended, "{room}");
    assert_eq!(figure(&room, "claimed"), figure(&room, "completed"), "{room}");
    assert_eq!(room["generations"].as_array().map(Vec::len), Some(1), "nothing was lost: {room}");
    room
}

#[test]
fn through_three_nodes_no_position_is_repeated_or_left_out_the_order_is_kept_and_nobody_is_inside_too_many() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let nodes = three_nodes(&redis);
    let (connections, visits) = size();
    let crowd = Crowd::before(nodes.all(), "Hall", connections);
    let expected = usize::try_from(connections).expect("a small number") * visits;
    let tally = crowd.come(visits, || {});
    assert_eq!(tally.joins.len(), expected);
    assert_unique(&tally.joins);
    assert_order_is_kept(&tally.joins);
    let highest = tally.joins.iter().map(|join| join.place.position).max();
    assert_eq!(highest, u64::try_from(expected).ok(), "no position is left out");
    assert_eq!(tally.unavailable, 0, "nothing was wrong with the store");
    assert_eq!(tally.unknown_tickets, 0, "each node knows every ticket");
    assert_eq!(tally.unserved_claims, 0, "what one node offers can be claimed at each");
    assert!(crowd.most_inside() <= CAPACITY, "{} were inside", crowd.most_inside());
    assert!(crowd.most_inside() > CAPACITY / 2, "only {} were inside at once", crowd.most_inside());
    let room = assert_adds_up(&nodes);
    assert_eq!(figure(&room, "joined"), tally.joins.len());
    assert_eq!(figure(&room, "claimed"), tally.admitted);
    assert_eq!((figure(&room, "left"), figure(&room, "lapsed")), (tally.left, tally.lapsed));
}

#[test]
fn a_node_killed_in_the_middle_takes_nothing_with_it_and_takes_part_again_after_its_start() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let mut nodes = three_nodes(&redis);
    let (connections, visits) = size();
    let crowd = Crowd::before(nodes.all(), "Hall", connections);
    let expected = usize::try_from(connections).expect("a small number") * visits;
    let tally = crowd.come(visits, || {
        for (round, victim) in [0, 2].into_iter().enumerate() {
            let enough = expected * (round + 1) / 4;
            wait_until("the room is busy", TIMEOUT, || crowd.acknowledged() >= enough);
            let server = &mut nodes.all_mut()[victim];
            server.kill_nine().expect("the node dies");
            server.restart().expect("the node starts again");
            crowd.node_moved(victim, server);
        }
    });
    assert_eq!(tally.joins.len(), expected);
    assert_unique(&tally.joins);
    assert_order_is_kept(&tally.joins);
    assert_eq!(tally.unknown_tickets, 0, "each node knows every ticket");
    assert!(crowd.most_inside() <= CAPACITY, "{} were inside", crowd.most_inside());
    let room = assert_adds_up(&nodes);
    // A join whose answer died with its node is a place too; other gaps there are none.
    let (joined, known) = (figure(&room, "joined"), tally.joins.len());
    assert!((known..=known + tally.unknown_joins).contains(&joined), "{joined} joined, {known} know");
    assert!(figure(&room, "claimed") >= tally.admitted);
    for server in nodes.all() {
        assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
    }
}

#[test]
fn the_aws_calls_give_the_same_answers_through_each_node() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let nodes = three_nodes(&redis);
    let (each_node, advances) = (if full() { 400 } else { 40 }, 10);
    let ids: BTreeSet<String> = thread::scope(|scope| {
        let joining = |node: usize| {
            let mut lines: Vec<_> = nodes.all().iter().map(|server| server.line("Hand")).collect();
            let mut prng = Prng::from_seed(u64::try_from(node).expect("a small number"));
            let joined = move || {
                let mut before = 0;
                let join = |_| {
                    // Joined here, asked for there: a ticket is known everywhere when it is answered.
                    let id = lines[node].join();
                    let position = lines[prng.below(NODES)].position(&id);
                    assert!(position > before, "{position} after {before}");
                    before = position;
                    id
                };
                let ids: Vec<String> = (0..each_node).map(join).collect();
                for _ in 0..advances {
                    lines[node].advance(1);
                }
                ids
            };
            scope.spawn(joined)
        };
        let joining: Vec<_> = (0..NODES).map(joining).collect();
        joining.into_iter().flat_map(|joined| joined.join().expect("nobody panics")).collect()
    });
    assert_eq!(ids.len(), NODES * each_node);
    let mut lines: Vec<_> = nodes.all().iter().map(|server| server.line("Hand")).collect();
    let positions: BTreeSet<i64> = ids.iter().map(|id| lines[0].position(id)).collect();
    assert_eq!(positions.len(), ids.len(), "no position twice");
    assert_eq!(positions.last(), i64::try_from(ids.len()).ok().as_ref(), "and none left out");
    let room = nodes.agreed("Hand");
    assert_eq!(figure(&room, "serving"), NODES * advances, "each move counts once: {room}");
    let waiting = i64::try_from(ids.len()).expect("a small number");
    assert!(lines.iter_mut().all(|line| line.waiting() == waiting));

    let served = |line: &mut anteroom_testkit::Line, id: &String| line.position(id) <= line.serving();
    let (first, last) =
        (ids.iter().find(|id| served(&mut lines[1], id)), ids.iter().find(|id| !served(&mut lines[1], id)));
    let (first, last) = (first.expect("somebody is served"), last.expect("somebody waits"));
    let passes: Vec<_> = lines.iter_mut().map(|line| line.tokens(first)).collect();
    assert!(passes.iter().all(|pass| *pass == passes[0]), "the same pass through each node, byte for byte");
    assert!(lines.iter_mut().all(|line| line.claim(last).status == 202));
    assert_eq!(lines[2].close(first, 1).status, 200);
    assert_eq!(lines[0].close(first, 1).status, 404, "a visit ends once");
    assert_eq!(lines[1].reset().status, 200);
    nodes.agreed_when("Hand", |room| figure(room, "joined") == 0);
    for line in &mut lines {
        assert_eq!(aws::queue_num(&mut line.public, "Hand", last).expect("an answer").status, 400);
    }
    let body = json!({ "event_id": "Hand", "increment_by": 1 });
    assert_eq!(lines[0].operator.post("/increment_serving_counter", &body).expect("an answer").status, 200);
}
