//! What other tests take for granted about the kit's Redis Cluster.

use anteroom_testkit::redis::{RedisCluster, RedisProcess, Reply};
use anteroom_testkit::require_redis;

#[test]
fn slots_are_served_by_three_primaries_and_taken_over_when_one_is_killed() {
    if !require_redis() {
        return;
    }
    let cluster = RedisCluster::start_with(&RedisProcess::builder().password("open123"));
    let ports: Vec<String> =
        cluster.nodes()[..3].iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    assert_eq!(cluster.url(), format!("redis+cluster://:open123@{}", ports.join(",")));
    assert_eq!(cluster.nodes().iter().filter(|node| node.is_primary()).count(), 3);

    // Keys with one hash tag live together, keys with different ones need not.
    let primary = cluster.primary_of("{a}:1");
    assert_eq!(cluster.primary_of("{a}:2").port(), primary.port());
    let mut owners: Vec<u16> =
        ["{a}", "{b}", "{c}", "{d}", "{e}"].map(|key| cluster.primary_of(key).port()).to_vec();
    owners.sort_unstable();
    owners.dedup();
    assert_eq!(owners.len(), 3);
    primary.command(&["SET", "{a}:1", "value"]).no_error();
    let other = cluster.nodes()[..3].iter().find(|node| node.port() != primary.port()).unwrap();
    assert!(other.command(&["GET", "{a}:1"]).is_error("MOVED"));

    cluster.replica_for("{a}").wait_until_in_sync(primary);
    let heir = cluster.replica_for("{a}").port();
    let killed = cluster.kill_primary_of("{a}");
    assert!(!killed.is_started());
    let promoted = cluster.primary_of("{a}");
    assert_eq!(promoted.port(), heir);
    assert_eq!(promoted.command(&["GET", "{a}:1"]).text(), "value");

    // It comes back as a replica, and can be given its place again.
    killed.start_again();
    cluster.wait_until_whole();
    assert_eq!(cluster.replica_for("{a}").port(), killed.port());
    assert_eq!(cluster.fail_over("{a}").port(), heir);
    assert_eq!(cluster.primary_of("{a}").port(), killed.port());
    assert_eq!(killed.command(&["GET", "{a}:1"]).text(), "value");
}

#[test]
fn a_paused_primary_is_replaced_and_yields_when_it_wakes() {
    if !require_redis() {
        return;
    }
    let cluster = RedisCluster::start();
    let paused = cluster.primary_of("{a}");
    paused.pause();
    cluster.wait_until_taken_over(paused, "{a}");
    let promoted = cluster.primary_of("{a}");
    assert_ne!(promoted.port(), paused.port());
    assert_eq!(promoted.command(&["INCR", "{a}"]), Reply::Integer(1));
    paused.resume();
    cluster.wait_until_whole();
    assert_eq!(cluster.replica_for("{a}").port(), paused.port());
}
