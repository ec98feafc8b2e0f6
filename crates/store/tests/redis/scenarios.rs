//! The one list of scenarios of this crate, over one Redis, over a cluster, and while a proxy breaks connections.

use std::sync::Arc;

use anteroom_store::Store;
use anteroom_store::conformance::fault_injection::FaultInjectingStore;
use anteroom_store::conformance::stores::{RedisStores, run_all_over_redis};
use anteroom_store::conformance::{SCENARIOS, run_all};
use anteroom_testkit::redis::{RedisCluster, RedisProcess};
use anteroom_testkit::{ChaosProxy, Mode, Odds, full, require_redis};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_redis_keeps_the_contract() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    run_all_over_redis(SCENARIOS, &redis.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cluster_keeps_the_contract() {
    if !require_redis() {
        return;
    }
    let cluster = RedisCluster::start();
    run_all_over_redis(SCENARIOS, &cluster.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redis_behind_broken_connections_keeps_the_contract() {
    if !require_redis() {
        return;
    }
    let is_full = full();
    let redis = RedisProcess::start();
    let proxy = ChaosProxy::before(redis.port());
    let stores = RedisStores::at(&redis.url_through(proxy.port()));
    for seed in 0..if is_full { 5 } else { 1 } {
        let make = || async {
            proxy.set(Mode::Pass);
            let store = stores.open().await;
            proxy.set(Mode::Random(Odds::of_broken_connections(1_000 * seed + stores.opened(), is_full)));
            Arc::new(FaultInjectingStore::new(store).with_retries()) as Arc<dyn Store>
        };
        run_all(SCENARIOS, make).await;
    }
    let counts = proxy.counts();
    println!("{counts:?}");
    assert!(counts.faults() > 10, "nothing was disturbed: {counts:?}");
}
