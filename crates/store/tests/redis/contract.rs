//! The one list of scenarios, unchanged: over one Redis, over a cluster, and while a proxy disturbs every connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anteroom_store::Store;
use anteroom_store::conformance::run_all;
use anteroom_store::redis::{RedisOptions, RedisStore};
use anteroom_testkit::redis::{RedisCluster, RedisProcess};
use anteroom_testkit::{ChaosProxy, Direction, Fault, Mode, Odds, full, require_redis};

use crate::retrying_store::RetryingStore;
use crate::support::options;

/// Another prefix for each store, so that scenarios see nothing of each other.
fn own_prefix(url: &str, number: &AtomicU64) -> RedisOptions {
    let number = number.fetch_add(1, Ordering::Relaxed);
    RedisOptions { prefix: format!("scenario-{number}"), ..options(url) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_redis_keeps_the_contract() {
    if !require_redis() {
        return;
    }
    let (redis, number) = (RedisProcess::start(), AtomicU64::new(0));
    let url = redis.url();
    run_all(|| async {
        Arc::new(RedisStore::open(&own_prefix(&url, &number)).await.unwrap()) as Arc<dyn Store>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cluster_keeps_the_contract() {
    if !require_redis() {
        return;
    }
    let (cluster, number) = (RedisCluster::start(), AtomicU64::new(0));
    let url = cluster.url();
    run_all(|| async {
        Arc::new(RedisStore::open(&own_prefix(&url, &number)).await.unwrap()) as Arc<dyn Store>
    })
    .await;
}

/// One piece of a request in so many meets each fault. Large requests have many pieces, so that more of them would let none
/// through; answers that never come cost seconds each, so there are fewer of them.
fn odds(seed: u64, is_full: bool) -> Odds {
    let (often, seldom) = if is_full { (100, 1_500) } else { (150, 3_000) };
    Odds::seeded(seed)
        .one_in(often, Fault::CutAfterSending)
        .one_in(often, Fault::Reset)
        .one_in(often, Fault::Delay(Direction::Both, Duration::from_millis(30)))
        .one_in(seldom, Fault::BlackHole(Direction::ToServer))
        .one_in(seldom, Fault::BlackHole(Direction::ToClient))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redis_behind_broken_connections_keeps_the_contract() {
    if !require_redis() {
        return;
    }
    let is_full = full();
    let (redis, number) = (RedisProcess::start(), AtomicU64::new(0));
    let proxy = ChaosProxy::before(redis.port());
    let url = redis.url_through(proxy.port());
    for seed in 0..if is_full { 5 } else { 1 } {
        let make = || async {
            proxy.set(Mode::Pass);
            let store = RedisStore::open(&own_prefix(&url, &number)).await.unwrap();
            let number = number.load(Ordering::Relaxed);
            proxy.set(Mode::Random(odds(1_000 * seed + number, is_full)));
            Arc::new(RetryingStore(Arc::new(store))) as Arc<dyn Store>
        };
        run_all(make).await;
    }
    let counts = proxy.counts();
    println!("{counts:?}");
    assert!(counts.faults() > 20, "nothing was disturbed: {counts:?}");
}
