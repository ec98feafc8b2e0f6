//! Two nodes on a real Redis Cluster of six processes: rooms on different shards, and a primary that is killed and replaced.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anteroom_testkit::redis::RedisCluster;
use anteroom_testkit::{
    Crowd, Nodes, SetOnDrop, Tally, assert_order_is_kept, assert_unique, full, native, pause, require_redis,
    wait_until,
};
use serde_json::Value;

use crate::pair::figure;
use crate::support::BINARY;

const NODES: usize = 2;
/// How long a state may take.
const TIMEOUT: Duration = Duration::from_mins(2);
/// How many may be inside each room.
const CAPACITY: usize = 6;
/// Passes and offers are short-lived, so that those which a failover has cut loose end within this test.
const SETTINGS: &str = "inlet = \"max-size\"\ntotal_active_users = 6\nqueue_position_expiry_period = 5\n\
    validity_period = 15\n";

/// Where everything of a room is.
fn key_of(room: &str) -> String {
    format!("{{r/{room}}}")
}

/// A room on each of the shards.
fn rooms_on_different_shards(cluster: &RedisCluster) -> Vec<String> {
    let mut rooms: Vec<(u16, String)> = (0..100)
        .map(|number| format!("Room-{number}"))
        .map(|room| (cluster.primary_of(&key_of(&room)).port(), room))
        .collect();
    rooms.sort();
    rooms.dedup_by_key(|(port, _)| *port);
    assert_eq!(rooms.len(), 3, "there is a room for each shard: {rooms:?}");
    rooms.into_iter().map(|(_, room)| room).collect()
}

fn is_quiet(room: &Value) -> bool {
    ["waiting", "active", "offers"].iter().all(|name| figure(room, name) == 0)
}

/// Has a crowd come to each room at the same time, until each has had enough joins, twice: before and after something happens.
fn crowd_out(nodes: &Nodes, rooms: &[String], happens: impl FnOnce()) -> Vec<(Tally, usize)> {
    let crowds: Vec<Crowd> = rooms.iter().map(|room| Crowd::before(nodes.all(), room, 12)).collect();
    let enough = if full() { 500 } else { 50 };
    let wait_for_joins = |more: usize| {
        let goals: Vec<usize> = crowds.iter().map(|crowd| crowd.acknowledged() + more).collect();
        wait_until("joins go on in each room", TIMEOUT, || {
            crowds.iter().zip(&goals).all(|(crowd, goal)| crowd.acknowledged() >= *goal)
        });
    };
    let over = AtomicBool::new(false);
    let come = |crowd: &Crowd| {
        crowd.come_until(|| {
            while !over.load(Ordering::SeqCst) {
                pause();
            }
        })
    };
    let tallies: Vec<Tally> = thread::scope(|scope| {
        let end = SetOnDrop(&over);
        let coming: Vec<_> = crowds.iter().map(|crowd| scope.spawn(|| come(crowd))).collect();
        wait_for_joins(enough);
        happens();
        wait_for_joins(enough);
        drop(end);
        coming.into_iter().map(|crowd| crowd.join().expect("a crowd does not panic")).collect()
    });
    tallies.into_iter().zip(crowds.iter().map(Crowd::most_inside)).collect()
}

#[test]
fn rooms_on_every_shard_keep_their_promises_and_so_does_one_whose_primary_is_replaced() {
    if !require_redis() {
        return;
    }
    let cluster = RedisCluster::start();
    let rooms = rooms_on_different_shards(&cluster);
    let tables = rooms.iter().map(|room| format!("[[room]]\nid = \"{room}\"\n{SETTINGS}"));
    let config = "signing_algorithm = \"EdDSA\"\n".to_owned() + &tables.collect::<String>();
    let nodes = Nodes::start(BINARY, &config, &vec![cluster.url(); NODES]);
    let tally = crowd_out(&nodes, &rooms, || {
        // It comes back as the replica of its successor, which confirms no pass without one.
        cluster.kill_primary_of(&key_of(&rooms[0])).start_again();
    });
    for (room, (tally, most_inside)) in rooms.iter().zip(&tally) {
        assert_unique(&tally.joins);
        assert_order_is_kept(&tally.joins);
        assert!(*most_inside <= CAPACITY, "{most_inside} were inside {room}");
        let board = nodes.agreed_when(room, is_quiet);
        let lines = board["generations"].as_array().map_or(0, Vec::len);
        assert_eq!(lines, if *room == rooms[0] { 2 } else { 1 }, "only what has failed begins anew: {board}");
        for server in nodes.all() {
            let mut client = server.visitor();
            for join in &tally.joins {
                let answer = native::status(&mut client, room, &join.place.ticket).expect("an answer");
                assert_eq!(answer.status, 200, "{answer:?}");
            }
        }
    }
    for server in nodes.all() {
        assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
    }
}
