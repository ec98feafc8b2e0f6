//! "Failover with real processes, link cut, replica promoted under load, old primary still answering for a while: every position
//! ever acknowledged is unique; tickets from both sides stay valid and are served in order; the frontier does not move back; a
//! max-size room ends at full capacity."

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anteroom_testkit::native::{self, LinePlace};
use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{
    ChaosProxy, Direction, Fault, JoinRecord, Line, Mode, Nodes, Request, SetOnDrop, assert_unique, full,
    now, require_redis, wait_until,
};
use serde_json::{Value, json};

use crate::support::BINARY;
use crate::support::frontier::watch_the_frontier;
use crate::support::joiners::keep_joining;
use crate::support::service::serve_everybody;

/// How long a state may take.
const TIMEOUT: Duration = Duration::from_mins(1);
/// How long both primaries answer.
const SPLIT: Duration = Duration::from_secs(2);
/// How many visitors join through each node at a time.
const JOINERS: usize = 3;
/// Joins that each side acknowledges in each part of the story.
const JOINS_EACH_PART: usize = 20;
/// The room with a capacity, and one that is moved by hand.
const ROOMS: &str = "signing_algorithm = \"EdDSA\"\n\
    [[room]]\nid = \"Hall\"\ninlet = \"max-size\"\ntotal_active_users = 10\nqueue_position_expiry_period = 900\n\
    [[room]]\nid = \"Hand\"\n";
const CAPACITY: u64 = 10;

/// A primary, its replica behind a link that can be cut, and nodes that each have their own way to either.
struct Scene {
    nodes: Nodes,
    ways: Vec<ChaosProxy>,
    link: ChaosProxy,
    primary: RedisProcess,
    replica: RedisProcess,
    /// What the replica has to be followed by once it is a primary: a store that had replicas confirms no pass without one.
    spare: RedisProcess,
    /// Joins acknowledged by each node.
    acknowledged: Vec<AtomicUsize>,
}

impl Scene {
    fn start() -> Self {
        let (primary, replica) = (RedisProcess::start(), RedisProcess::start());
        let link = ChaosProxy::before(primary.port());
        replica.replica_of(link.port());
        replica.wait_until_in_sync(&primary);
        let count = if full() { 3 } else { 2 };
        let ways: Vec<_> = (0..count).map(|_| ChaosProxy::before(primary.port())).collect();
        let urls: Vec<_> = ways.iter().map(|way| primary.url_through(way.port())).collect();
        let nodes = Nodes::start(BINARY, ROOMS, &urls);
        let acknowledged = (0..count).map(|_| AtomicUsize::new(0)).collect();
        Self { nodes, ways, link, primary, replica, spare: RedisProcess::start(), acknowledged }
    }

    fn line(&self, node: usize, room: &str) -> Line {
        self.nodes.all()[node].line(room)
    }

    fn board(&self, node: usize) -> Value {
        native::board(&mut self.nodes.all()[node].visitor(), "Hall").expect("an answer").json()
    }

    /// The way of this node leads to the replica from now on.
    fn switch(&self, node: usize) {
        self.ways[node].forward_to(self.replica.port());
        self.ways[node].reset_connections();
    }

    /// Waits until these nodes have acknowledged more joins.
    #[track_caller]
    fn wait_for_joins(&self, nodes: &[usize]) {
        let counts = || nodes.iter().map(|node| self.acknowledged[*node].load(Ordering::SeqCst));
        let before: Vec<usize> = counts().collect();
        wait_until("joins go on", TIMEOUT, || {
            counts().zip(&before).all(|(now, before)| now >= before + JOINS_EACH_PART)
        });
    }
}

/// No pass leaves a primary that no replica hears.
#[track_caller]
fn assert_no_pass(line: &mut Line, id: &str) {
    let answer = line.claim(id);
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.header("Retry-After").is_some(), "{answer:?}");
}

/// The story up to the moment at which all nodes talk to the promoted replica. Returns how far the room that is moved by hand was
/// acknowledged to have come.
fn split_and_come_together(scene: &Scene, offered: &[String]) -> i64 {
    let last = scene.ways.len() - 1;
    let all: Vec<usize> = (0..=last).collect();
    scene.wait_for_joins(&all);
    for id in &offered[..5] {
        assert_eq!(scene.line(0, "Hall").claim(id).status, 200);
    }
    scene.link.set(Mode::Always(Fault::BlackHole(Direction::Both)));
    // From here on the replica hears nothing: whatever is joined, claimed and moved is known to the nodes only.
    scene.wait_for_joins(&all);
    assert_no_pass(&mut scene.line(0, "Hall"), &offered[5]);
    assert_no_pass(&mut scene.line(last, "Hall"), &offered[6]);
    scene.line(0, "Hand").advance(2);
    scene.replica.promote();
    scene.spare.replica_of(scene.replica.port());
    for node in 0..last {
        scene.switch(node);
    }
    let began = now();
    // The last node stays on the old primary.
    wait_until("the others have a new line", TIMEOUT, || {
        scene.board(0)["generations"].as_array().is_some_and(|lines| lines.len() == 2)
    });
    scene.wait_for_joins(&all);
    assert!(scene.primary.is_primary() && scene.replica.is_primary(), "two primaries answer");
    assert_no_pass(&mut scene.line(last, "Hall"), &offered[7]);
    let promised = scene.line(last, "Hand").advance(3);
    wait_until("the other side gives the pass", TIMEOUT, || {
        scene.line(0, "Hall").claim(&offered[5]).status == 200
    });
    wait_until("both sides have answered for a while", TIMEOUT, || began.elapsed() >= SPLIT);
    scene.switch(last);
    scene.wait_for_joins(&all);
    promised
}

#[test]
fn after_a_split_every_position_is_unique_both_sides_tickets_are_served_in_order_and_no_slot_is_lost() {
    if !require_redis() {
        return;
    }
    let scene = Scene::start();
    scene.line(0, "Hand").join_many(20);
    // The AWS call takes a place without claiming it: ten offers.
    let offered = scene.line(0, "Hall").join_many(10);
    let (joins_over, over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let end = [SetOnDrop(&joins_over), SetOnDrop(&over)];
        for server in scene.nodes.all() {
            scope.spawn(|| watch_the_frontier(server.public(), "Hall", &over));
            scope.spawn(|| watch_the_frontier(server.public(), "Hand", &over));
        }
        let joining = |node: usize| {
            let (address, count) = (scene.nodes.all()[node].public(), &scene.acknowledged[node]);
            let joins_over = &joins_over;
            scope.spawn(move || (node, keep_joining(address, "Hall", joins_over, count)))
        };
        let nodes = 0..scene.ways.len();
        let joiners: Vec<_> = nodes.flat_map(|node| [node; JOINERS]).map(joining).collect();
        let promised = split_and_come_together(&scene, &offered);
        let [joins_end, _end] = end;
        drop(joins_end);
        let joins_by_node: Vec<(usize, Vec<JoinRecord>)> =
            joiners.into_iter().map(|joiner| joiner.join().expect("nobody panics")).collect();
        assert_both_sides_are_honoured(&scene, &offered, promised, &joins_by_node);
    });
}

/// What everybody was told holds.
fn assert_both_sides_are_honoured(
    scene: &Scene,
    offered: &[String],
    promised: i64,
    joins_by_node: &[(usize, Vec<JoinRecord>)],
) {
    let joins = || joins_by_node.iter().flat_map(|(_, joins)| joins);
    assert_unique(joins());
    let older = joins().map(|join| join.place.generation).min().expect("somebody joined");
    let first_of_new = joins().filter(|join| join.place.generation > older).map(|join| join.answered).min();
    let first_of_new = first_of_new.expect("somebody joined the new line");
    let stays_behind = scene.ways.len() - 1;
    let mut of_last_node =
        joins_by_node.iter().filter(|(node, _)| *node == stays_behind).flat_map(|(_, joins)| joins);
    assert!(
        of_last_node.any(|join| join.place.generation == older && join.sent > first_of_new),
        "both primaries handed out places at the same time"
    );
    let hand = scene.nodes.agreed("Hand");
    assert!(hand["figures"]["serving"].as_i64() >= Some(promised), "{promised} was promised: {hand}");
    for server in scene.nodes.all() {
        let mut client = server.visitor();
        let ids = joins().map(|join| join.place.ticket.as_str()).chain(offered.iter().map(String::as_str));
        for ticket in ids {
            let answer = native::status(&mut client, "Hall", ticket).expect("an answer");
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    }
    let figure = |room: &Value, name: &str| room["figures"][name].as_u64().expect("a figure");
    let hall = scene.nodes.agreed_when("Hall", |room| {
        figure(room, "active") + figure(room, "offers") == CAPACITY && figure(room, "waiting") > CAPACITY
    });
    assert_eq!(hall["generations"].as_array().map(Vec::len), Some(2), "one failover, one new line: {hall}");
    let places: Vec<LinePlace> = joins().map(|join| join.place.clone()).collect();
    drain(scene, offered, &places);
}

/// Everybody is served, in order.
fn drain(scene: &Scene, offered: &[String], places: &[LinePlace]) {
    let mut line = scene.line(0, "Hall");
    for id in offered {
        let answer = line.claim(id);
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    // Places whose holders were told nothing, because the answer was lost, must lapse some time.
    let settings = json!({ "settings": { "queue_position_expiry_period": 20, "total_active_users": 40 } });
    let change = Request::new("PATCH", "/rooms/Hall").body(settings.to_string());
    assert_eq!(line.operator.send(&change).expect("an answer").status, 200);
    for id in offered {
        assert_eq!(line.close(id, 1).status, 200);
    }
    serve_everybody(scene.nodes.all(), "Hall", places);
}

/// The new primary has heard of a place, and not of its move: the nodes have.
#[test]
fn a_place_that_had_moved_is_not_back_on_its_old_device_after_a_failover() {
    if !require_redis() {
        return;
    }
    let scene = Scene::start();
    let servers = scene.nodes.all();
    let joined = servers[0].visitor().post("/join", &json!({ "room": "Hand" })).expect("an answer").json();
    let old = joined["ticket"].as_str().expect("a ticket");
    scene.replica.wait_until_in_sync(&scene.primary);
    scene.link.set(Mode::Always(Fault::BlackHole(Direction::Both)));
    let request = Request::new("POST", "/move").header("Authorization", old);
    let request = request.header("Idempotency-Key", "0123456789abcdef-telephone");
    let moved = servers[0].visitor().send(&request).expect("an answer");
    assert_eq!(moved.status, 200, "{moved:?}");
    let status = |node: usize, ticket: &str| {
        native::status(&mut servers[node].visitor(), "Hand", ticket).expect("an answer").status
    };
    let nodes = 0..servers.len();
    wait_until("all nodes have seen it", TIMEOUT, || nodes.clone().all(|node| status(node, old) == 410));
    scene.replica.promote();
    scene.spare.replica_of(scene.replica.port());
    nodes.clone().for_each(|node| scene.switch(node));
    scene
        .nodes
        .agreed_when("Hand", |room| room["generations"].as_array().is_some_and(|lines| lines.len() == 2));
    for node in nodes {
        assert_eq!(status(node, old), 410, "the new primary was told what it had not heard");
        let again = servers[node].visitor().send(&request).expect("an answer");
        assert_eq!(again.json()["request_id"], moved.json()["request_id"], "{again:?}");
        assert_eq!(status(node, again.json()["ticket"].as_str().expect("a ticket")), 200);
    }
}

/// A side whose nodes are lost together with its primary: only the visitors themselves know of their places.
#[test]
fn tickets_that_no_node_remembers_are_honoured_when_they_are_shown_and_served_first() {
    if !require_redis() {
        return;
    }
    let mut scene = Scene::start();
    let last = scene.ways.len() - 1;
    let offered = scene.line(0, "Hall").join_many(10);
    scene.replica.wait_until_in_sync(&scene.primary);
    scene.link.set(Mode::Always(Fault::BlackHole(Direction::Both)));
    scene.replica.promote();
    scene.spare.replica_of(scene.replica.port());
    for node in 0..last {
        scene.switch(node);
    }
    wait_until("the others have a new line", TIMEOUT, || {
        scene.board(0)["generations"].as_array().is_some_and(|lines| lines.len() == 2)
    });
    let join = |node: usize| {
        let answer = native::join(&mut scene.nodes.all()[node].visitor(), "Hall").expect("an answer");
        LinePlace::of(&answer)
    };
    let of_the_lost_side: Vec<LinePlace> = (0..15).map(|_| join(last)).collect();
    let of_the_other: Vec<LinePlace> = (0..5).map(|_| join(0)).collect();
    assert!(of_the_lost_side.iter().max() < of_the_other.iter().min(), "two lines, the older one first");
    scene.nodes.all_mut()[last].kill_nine().expect("the node dies");
    scene.primary.kill();

    let mut client = scene.nodes.all()[0].visitor();
    for place in of_the_lost_side.iter().rev() {
        let response = native::status(&mut client, "Hall", &place.request_id).expect("an answer");
        assert_eq!(&LinePlace::of(&response), place, "everybody has the place of their response");
    }
    // A pass leaves only when it is replicated.
    scene.spare.wait_until_in_sync(&scene.replica);
    let mut line = scene.line(0, "Hall");
    for id in &offered {
        assert_eq!(line.claim(id).status, 200);
        assert_eq!(line.close(id, 1).status, 200);
    }
    let places = [of_the_lost_side, of_the_other].concat();
    serve_everybody(&scene.nodes.all()[..last], "Hall", &places);
}
