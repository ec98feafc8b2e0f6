//! The buckets of limits in Redis: nodes that share one share every client's budget, exactly.
//!
//! A decision is one call of `scripts/take.lua`, over a connection that many decisions share; what arrives together travels together.
//! Buckets are spread over all servers of a cluster. They have nothing to do with the content of a store, so they may be in a Redis of
//! their own, and neither backups nor restores know of them.
//!
//! Nothing here waits for a server that is gone: [`Buckets::probe`] is what makes connections and follows changes of primaries.

use std::sync::Arc;

use anteroom_core::bucket::{Limit, TakeResult};
use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use redis::Value;

use super::command::{Command, CommandTimeout, Intent, TAKE};
use super::connection::Connections;
use super::options::RedisOptions;
use super::reply::{Parts, strange};
use super::slot::slot_of_tag;
use crate::buckets::{BucketKey, Buckets, BucketsError};
use crate::contract::StoreError;

/// How many keys are tried until each server has one to be probed with.
const PROBE_KEYS_MAX: u32 = 100_000;

/// Buckets in a Redis.
pub struct RedisBuckets {
    options: RedisOptions,
    connections: ArcSwapOption<Connections>,
    connecting: tokio::sync::Mutex<()>,
}

impl RedisBuckets {
    /// Buckets in this Redis. Nobody is asked anything yet; that begins with the first [`Buckets::probe`].
    pub fn new(options: &RedisOptions) -> Self {
        // Fails only where one is installed already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let connections = ArcSwapOption::empty();
        Self { options: options.clone(), connections, connecting: tokio::sync::Mutex::default() }
    }

    /// How many times something was sent to a server.
    pub fn calls(&self) -> u64 {
        self.connections.load().as_ref().map_or(0, |connections| connections.calls())
    }

    /// Takes at a moment that the caller names in place of the server's, so that tests can compare with the rule.
    #[cfg(any(test, feature = "conformance"))]
    pub async fn take_at(
        &self,
        key: &BucketKey,
        limit: &Limit,
        cost: u64,
        now_micros: u64,
    ) -> Result<TakeResult, BucketsError> {
        self.ask(take(&key.to_string(), limit, cost).arg(now_micros)).await
    }

    async fn ask(&self, command: Command) -> Result<TakeResult, BucketsError> {
        let connections = self.connections.load_full();
        let not_yet = || BucketsError::Unavailable("not connected yet".into());
        let answer = connections.ok_or_else(not_yet)?.quick(command).await?;
        Ok(read_taken(answer)?)
    }

    /// The connections, made if there are none yet.
    async fn connect(&self) -> Result<Arc<Connections>, StoreError> {
        let _only_one = self.connecting.lock().await;
        if let Some(connections) = self.connections.load_full() {
            return Ok(connections);
        }
        let connections = Arc::new(Connections::open(&self.options).await?);
        self.connections.store(Some(connections.clone()));
        Ok(connections)
    }
}

/// The call without its last argument, the moment.
fn take(key: &str, limit: &Limit, cost: u64) -> Command {
    let command = Command::script_at_slot(slot_of_tag(key.as_bytes()), &TAKE).key(key);
    command.arg(limit.tokens()).arg(limit.micros()).arg(limit.burst()).arg(cost)
}

fn read_taken(answer: Value) -> Result<TakeResult, StoreError> {
    let mut parts = Parts::of(answer)?;
    let allowed = parts.next::<u64>()? == 1;
    let remaining = parts.next()?;
    let retry_after_micros = match parts.next::<i64>()? {
        -1 => None,
        micros => Some(u64::try_from(micros).map_err(|_| strange())?),
    };
    Ok(TakeResult {
        allowed,
        remaining,
        retry_after_micros,
        full_at_micros: parts.next()?,
        now_micros: parts.next()?,
    })
}

/// For each server a call that takes a token out of a bucket there, which is full again within a moment. Less would not do: a server
/// that may not write, or may not run scripts, answers to everything else.
fn probes(connections: &Connections) -> Vec<Command> {
    let topology = connections.topology();
    let mut found = vec![false; topology.shards.len()];
    let mut probes = vec![];
    let Ok(limit) = Limit::new(1_000_000, 1, 1_000_000) else { return probes };
    for number in 0..PROBE_KEYS_MAX {
        if probes.len() == found.len() {
            break;
        }
        let key = format!("rate_limit:probe:{number}");
        let shard = topology.index_of(slot_of_tag(key.as_bytes()));
        if let Some(found) = shard.and_then(|index| found.get_mut(index)).filter(|found| !**found) {
            *found = true;
            probes.push(take(&key, &limit, 1).arg(""));
        }
    }
    probes
}

#[async_trait]
impl Buckets for RedisBuckets {
    async fn take(&self, key: &BucketKey, limit: &Limit, cost: u64) -> Result<TakeResult, BucketsError> {
        self.ask(take(&key.to_string(), limit, cost).arg("")).await
    }

    fn take_at_once(&self, _key: &BucketKey, _limit: &Limit, _cost: u64) -> Option<TakeResult> {
        None
    }

    async fn probe(&self) -> Result<(), BucketsError> {
        let connections = self.connect().await?;
        connections.refresh().await;
        connections.all(&probes(&connections), Intent::Read, CommandTimeout::Short).await?;
        Ok(())
    }
}
