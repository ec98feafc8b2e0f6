//! Real Redis processes for tests: one, a primary with replicas, a Cluster, or a pair watched by Sentinels.
//!
//! Every process listens on 127.0.0.1 only, on ports that stay its own over restarts, in a temporary directory. It ends
//! at the latest when its value is dropped, also by a panic, and by its own process id: a Redis that the system runs is
//! never touched. So none of these values belongs into a `static`, which is never dropped.
//!
//! Calls block. In a `#[tokio::test]` on one thread that stops everything else meanwhile, so a test that runs its own
//! tasks beside them takes the multi-threaded runtime.
//!
//! `ANTEROOM_TEST_REDIS_SERVER` names another program than `redis-server`, such as `valkey-server`.

mod cluster;
mod process;
mod replication;
mod sentinel;
mod settings;
mod wire;

pub use cluster::RedisCluster;
pub use process::RedisProcess;
pub use sentinel::Sentinels;
pub use settings::{AppendOnly, RedisBuilder};
pub use wire::{Connection, Reply};
