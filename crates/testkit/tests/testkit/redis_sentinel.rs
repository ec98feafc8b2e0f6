//! What other tests take for granted about the kit's Sentinels.

use anteroom_testkit::redis::{RedisProcess, Sentinels};
use anteroom_testkit::require_redis;

#[test]
fn a_killed_primary_is_replaced_and_comes_back_as_a_replica() {
    if !require_redis() {
        return;
    }
    let setup = RedisProcess::builder().password("open123");
    let sentinels = Sentinels::start_with(&setup);
    let ports: Vec<String> =
        sentinels.sentinels().iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
    assert_eq!(sentinels.url(), format!("redis+sentinel://:open123@{}/mymaster", ports.join(",")));
    let primary = sentinels.primary();
    primary.command(&["SET", "key", "value"]).no_error();
    sentinels.replica().wait_until_in_sync(primary);

    let killed = sentinels.kill_primary();
    assert_eq!(killed.port(), primary.port());
    assert_ne!(sentinels.primary().port(), killed.port());
    assert_eq!(sentinels.primary().command(&["GET", "key"]).text(), "value");
    killed.start_again();
    sentinels.wait_until_whole();
    assert!(!killed.is_primary());
    assert_eq!(killed.command(&["GET", "key"]).text(), "value");
}

#[test]
fn a_healthy_primary_is_replaced_on_demand_and_a_paused_one_when_it_is_missed() {
    if !require_redis() {
        return;
    }
    let sentinels = Sentinels::start();
    let former = sentinels.fail_over();
    let promoted = sentinels.primary();
    assert_ne!(promoted.port(), former.port());
    sentinels.wait_until_whole();
    assert_eq!(sentinels.primary().port(), promoted.port());

    promoted.pause();
    sentinels.wait_until_taken_over(promoted);
    assert_eq!(sentinels.primary().port(), former.port());
    promoted.resume();
    sentinels.wait_until_whole();
    assert_eq!(sentinels.replica().port(), promoted.port());
}
