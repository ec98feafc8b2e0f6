//! A Redis that was emptied while no node ran, and one that is new: which tickets from before count, and for how much.

use std::thread;

use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{Answer, Request, Server, native, require_redis, unix_seconds, wait_until};
use serde_json::json;

use crate::pair::{TIMEOUT, call, node};

const HALL: &str = "[[room]]\nid = \"Hall\"\ninlet = \"max-size\"\ntotal_active_users = 1\n";

/// The ticket of a new place in the room.
fn ticket(server: &Server) -> String {
    let joined = native::join(&mut server.visitor(), "Hall").expect("an answer");
    assert_eq!(joined.status, 200, "{joined:?}");
    joined.json()["ticket"].as_str().expect("a ticket").to_owned()
}

fn status(server: &Server, ticket: &str) -> Answer {
    let request = Request::new("GET", "/status").header("Authorization", &format!("Bearer {ticket}"));
    server.visitor().with_read_timeout(TIMEOUT).send(&request).expect("an answer")
}

/// Lines are told apart by the second in which they were opened: the next one is opened in a later second.
fn pass_a_second() {
    let second = unix_seconds();
    wait_until("the next second", TIMEOUT, || unix_seconds() > second);
}

#[test]
fn in_an_emptied_store_those_with_older_tickets_are_heard_before_newcomers() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let mut before = node(&redis.url()).config(HALL).start().expect("the node starts");
    let tickets: Vec<String> = (0..3).map(|_| ticket(&before)).collect();
    before.terminate().expect("it ends");
    redis.kill();
    pass_a_second();
    redis.start_again();
    let after = node(&redis.url())
        .config(HALL)
        .env("ANTEROOM_STORE_RECOVERY_SECONDS", "120")
        .start()
        .expect("the node starts");
    let newcomer = native::join(&mut after.visitor(), "Hall").expect("an answer").json();
    assert_eq!(
        newcomer["status"], "waiting",
        "there is a free slot, and others may have been there before: {newcomer}"
    );
    // Nobody is let in while the line is learned, and those from before are in front.
    for (index, ticket) in tickets.iter().enumerate().skip(1).rev() {
        let status = status(&after, ticket);
        assert_eq!((status.status, &status.json()["position"]), (200, &json!(index + 1)), "{status:?}");
    }
    let room = after.operator().get("/rooms/Hall").expect("an answer").json();
    assert_eq!(room["standstill"], "recovering", "{room}");
    assert_eq!(room["figures"]["waiting"], 3, "{room}");
}

#[test]
fn a_ticket_whose_room_was_lost_is_told_to_come_again_and_counts_when_the_room_is_made_again() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let mut before = node(&redis.url()).start().expect("the node starts");
    let settings = json!({"settings": {"inlet": "max-size", "total_active_users": 1}});
    call(&mut before.operator(), "PUT", "/rooms/Hall", &settings, 201);
    let (_admitted, waiting) = (ticket(&before), ticket(&before));
    before.terminate().expect("it ends");
    redis.kill();
    pass_a_second();
    redis.start_again();
    let after = node(&redis.url()).start().expect("the node starts");
    let lost = status(&after, &waiting);
    assert_eq!((lost.status, lost.problem().as_str()), (503, "unavailable"), "{lost:?}");
    assert!(lost.header("Retry-After").is_some(), "{lost:?}");
    call(&mut after.operator(), "PUT", "/rooms/Hall", &settings, 201);
    wait_until("the ticket counts again", TIMEOUT, || status(&after, &waiting).status == 200);
    // A room that an operator deletes is gone, and so are its tickets.
    let deleted = after.operator().send(&Request::new("DELETE", "/rooms/Hall")).expect("an answer");
    assert_eq!(deleted.status, 204, "{deleted:?}");
    assert_eq!(status(&after, &waiting).status, 404);
}

#[test]
fn eight_nodes_at_once_on_a_new_store_give_an_old_ticket_one_place_and_no_more() {
    if !require_redis() {
        return;
    }
    let old = RedisProcess::start();
    let seller = node(&old.url()).config(HALL).start().expect("the node starts");
    let first = ticket(&seller);
    seller.line("Hall").join_many(5_000);
    let last = ticket(&seller);
    pass_a_second();
    let redis = RedisProcess::start();
    let nodes: Vec<Server> = thread::scope(|scope| {
        let starting: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| node(&redis.url()).config(HALL).start().expect("the node starts")))
            .collect();
        starting.into_iter().map(|node| node.join().expect("it has started")).collect()
    });
    // The same ticket through all of them, at the same time.
    thread::scope(|scope| {
        for node in &nodes {
            let last = &last;
            scope.spawn(move || wait_until("it is known", TIMEOUT, || status(node, last).status == 200));
        }
    });
    for node in &nodes {
        let far = status(node, &first);
        assert_eq!((far.status, far.problem().as_str()), (503, "unavailable"), "{far:?}");
        wait_until("the nodes agree", TIMEOUT, || {
            let room = node.operator().get("/rooms/Hall").expect("an answer").json();
            room["figures"]["waiting"] == 1
        });
    }
    // A newcomer stands behind it.
    let newcomer = native::join(&mut nodes[7].visitor(), "Hall").expect("an answer").json();
    assert_eq!(newcomer["status"], "waiting", "{newcomer}");
}
