//! The buckets of limits in Redis: nodes that share one share every client's budget, exactly.
//!
//! A decision is one call of `scripts/take.lua` for all buckets of a request, over a connection that many decisions share; what arrives
//! together travels together. Buckets are spread over all slots of a cluster, where no script may touch several: there each slot is
//! asked in the same moment, and what some gave is put back if others refused. Buckets have nothing to do with the content of a store, so they may be in a Redis of
//! their own, and neither backups nor restores know of them.
//!
//! Nothing here waits for a server that is gone: [`Buckets::probe`] is what makes connections and follows changes of primaries.

use std::sync::Arc;

use anteroom_core::bucket::{Limit, TakeResult};
use arc_swap::ArcSwapOption;
use async_trait::async_trait;

use super::command::{Command, CommandTimeout, Intent, TAKE};
use super::connection::Connections;
use super::options::RedisOptions;
use super::reply::{Parts, strange};
use super::slot::slot_of_tag;
#[cfg(any(test, feature = "conformance"))]
use crate::buckets::BucketKey;
use crate::buckets::{BucketCharge, Buckets, BucketsError};
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
        let charge = BucketCharge { key: key.clone(), limit: *limit, cost };
        let results = self.take_all_at(&[charge], now_micros).await?;
        results.first().copied().ok_or_else(|| strange().into())
    }

    /// The same for several buckets.
    #[cfg(any(test, feature = "conformance"))]
    pub async fn take_all_at(
        &self,
        charges: &[BucketCharge],
        now_micros: u64,
    ) -> Result<Vec<TakeResult>, BucketsError> {
        self.ask(charges, &now_micros.to_string()).await
    }

    /// Takes out of all buckets or none, at this moment; an empty one is that of the server.
    async fn ask(&self, charges: &[BucketCharge], moment: &str) -> Result<Vec<TakeResult>, BucketsError> {
        let not_yet = || BucketsError::Unavailable("not connected yet".into());
        let connections = self.connections.load_full().ok_or_else(not_yet)?;
        if charges.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<String> = charges.iter().map(|charge| charge.key.to_string()).collect();
        let mut groups = groups_by_slot(&keys);
        if groups.len() == 1 || !connections.topology().has_slots() {
            let (slot, _) = groups.swap_remove(0);
            let command = take(slot, moment, keys.iter().zip(charges));
            let mut parts = Parts::of(connections.quick(command).await?)?;
            return Ok(charges.iter().map(|_| read_taken(&mut parts)).collect::<Result<_, _>>()?);
        }
        Ok(ask_slots(&connections, charges, &keys, &groups, moment).await?)
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

/// Which of the keys are at which slot. The first group has the first key.
fn groups_by_slot(keys: &[String]) -> Vec<(u16, Vec<usize>)> {
    let mut groups: Vec<(u16, Vec<usize>)> = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        let slot = slot_of_tag(key.as_bytes());
        match groups.iter_mut().find(|(of, _)| *of == slot) {
            Some((_, group)) => group.push(index),
            None => groups.push((slot, vec![index])),
        }
    }
    groups
}

/// Asks every slot at the same moment. Where one refuses, what the others gave is put back: within one more exchange others of the same
/// networks may find less than there is, and nobody finds more.
async fn ask_slots(
    connections: &Connections,
    charges: &[BucketCharge],
    keys: &[String],
    groups: &[(u16, Vec<usize>)],
    moment: &str,
) -> Result<Vec<TakeResult>, StoreError> {
    let pair = |index: &usize| (&keys[*index], &charges[*index]);
    let commands: Vec<Command> =
        groups.iter().map(|(slot, group)| take(*slot, moment, group.iter().map(pair))).collect();
    let answers = connections.all(&commands, Intent::Write, CommandTimeout::Short).await?;
    let mut results: Vec<Option<TakeResult>> = vec![None; charges.len()];
    let mut given = Vec::new();
    for ((slot, group), answer) in groups.iter().zip(answers) {
        let mut parts = Parts::of(answer)?;
        for index in group {
            results[*index] = Some(read_taken(&mut parts)?);
        }
        if group.iter().all(|index| results[*index].is_some_and(|result| result.allowed)) {
            given.push((*slot, group));
        }
    }
    if given.len() < groups.len() && !given.is_empty() {
        let back: Vec<Command> =
            given.iter().map(|(slot, group)| put_back(*slot, moment, group.iter().map(pair))).collect();
        let answers = connections.all(&back, Intent::Write, CommandTimeout::Short).await?;
        for ((_, group), answer) in given.iter().zip(answers) {
            let mut parts = Parts::of(answer)?;
            for index in *group {
                results[*index] = Some(read_taken(&mut parts)?);
            }
        }
    }
    results.into_iter().map(|result| result.ok_or_else(strange)).collect()
}

/// The call for buckets at one slot.
fn take<'a>(
    slot: u16,
    moment: &str,
    charges: impl Iterator<Item = (&'a String, &'a BucketCharge)>,
) -> Command {
    charges.fold(Command::script_at_slot(slot, &TAKE).arg(moment), |command, (key, charge)| {
        with_limit(command.key(key), &charge.limit).arg(charge.cost)
    })
}

/// The call that puts tokens back.
fn put_back<'a>(
    slot: u16,
    moment: &str,
    charges: impl Iterator<Item = (&'a String, &'a BucketCharge)>,
) -> Command {
    charges.fold(Command::script_at_slot(slot, &TAKE).arg(moment), |command, (key, charge)| {
        with_limit(command.key(key), &charge.limit).arg(format!("-{}", charge.cost))
    })
}

fn with_limit(command: Command, limit: &Limit) -> Command {
    command.arg(limit.tokens()).arg(limit.micros()).arg(limit.burst())
}

fn read_taken(parts: &mut Parts) -> Result<TakeResult, StoreError> {
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
        let slot = slot_of_tag(key.as_bytes());
        let shard = topology.index_of(slot);
        if let Some(found) = shard.and_then(|index| found.get_mut(index)).filter(|found| !**found) {
            *found = true;
            let command = Command::script_at_slot(slot, &TAKE).arg("").key(&key);
            probes.push(with_limit(command, &limit).arg(1));
        }
    }
    probes
}

#[async_trait]
impl Buckets for RedisBuckets {
    async fn take_all(&self, charges: &[BucketCharge]) -> Result<Vec<TakeResult>, BucketsError> {
        self.ask(charges, "").await
    }

    fn take_all_at_once(&self, _charges: &[BucketCharge]) -> Option<Vec<TakeResult>> {
        None
    }

    async fn probe(&self) -> Result<(), BucketsError> {
        let connections = self.connect().await?;
        connections.refresh().await;
        connections.all(&probes(&connections), Intent::Read, CommandTimeout::Short).await?;
        Ok(())
    }
}
