//! Opening a store: is the server fit for it, does it tell its lineage, which content counts; and what goes on in the background.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Atomically};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::address::Kind;
use super::command::{Command, CommandTimeout, Intent, STORE};
use super::connection::Connections;
use super::keys::{KeyScope, Keys};
use super::notifications::Subscriptions;
use super::reply::read;
use super::values::random_mark;
use super::{Inner, Ordering, RedisOptions, RedisStore, Replicas, StoreClock, Tasks};
use crate::clock::Stopwatch;
use crate::contract::{Lineage, StoreError};

/// The oldest version that has everything we use: sharded channels, and streams whose entries are numbered within a moment.
const VERSION_MIN: (u32, u32) = (7, 0);
/// How often the servers are looked at without being asked to.
const WATCH_PAUSE: Duration = Duration::from_secs(2);
/// The same after a failure.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);
/// How often the server's clock is looked at before anybody goes by it.
const LOOKS_AT_CLOCK: usize = 3;

pub(super) async fn open(options: &RedisOptions) -> Result<RedisStore, StoreError> {
    options.check()?;
    // Fails only where one is installed already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let connections = Arc::new(Connections::open(options).await?);
    let may_ask_info = check_servers(&connections).await?;
    let keys = Keys::new(&options.prefix, 0);
    let may_ask_lineage = may_ask_info && may_ask_in_scripts(&connections, &keys).await?;
    if !may_ask_lineage {
        let why = "the user of the Redis store may not use INFO in scripts, so a failover cannot be told from a pause";
        if options.ordering == Ordering::Strict {
            return Err(StoreError::Permanent(format!(
                "{why}; permit it (ACL +info) or do without strict ordering"
            )));
        }
        tracing::warn!("{why}: positions are unique across one only as far as some node has seen them");
    }
    let inner = Arc::new(Inner {
        is_cluster: options.url.kind == Kind::Cluster,
        keys: ArcSwap::from_pointee(keys),
        seal: options.seal.clone(),
        may_ask_lineage,
        clock: Arc::new(StoreClock::new()),
        subscriptions: Arc::new(Subscriptions::default()),
        confirmations: super::ConfirmationQueues::default(),
        replicas: options.replicas,
        replicas_seen: AtomicBool::new(false),
        replicas_noted: AtomicBool::new(false),
        mark: std::sync::Mutex::default(),
        remembered: std::sync::Mutex::default(),
        seen: std::sync::Mutex::default(),
        collecting: tokio::sync::Mutex::new(()),
        connections,
    });
    inner.begin().await?;
    if let Err(error) = inner.look_for_replicas(may_ask_info).await {
        tracing::debug!(%error, "reading the replicas failed, retrying later");
    }
    let mut tasks = Tasks::default();
    tasks.start(watch(inner.clone(), may_ask_info));
    tasks.start(super::notifications::listen(inner.clone()));
    Ok(RedisStore { inner, _tasks: tasks })
}

impl Inner {
    /// Marks the store, or finds its mark, and the content that counts.
    async fn begin(&self) -> Result<(), StoreError> {
        let keys = self.keys.load_full();
        let mark = self.mark_it(&keys, &random_mark()).await?;
        *self.mark.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = mark;
        for _ in 0..LOOKS_AT_CLOCK {
            let watch = Stopwatch::start();
            let state = self.connections.one(self.store_command(&keys), Intent::Read).await?;
            let state = Self::store_state(state)?;
            self.clock.note(state.now_millis, watch.elapsed());
            if state.content != self.keys.load().content() {
                self.keys.store(Arc::new(keys.of_content(state.content)));
            }
        }
        let command = Command::plain(&KeyScope::Store, "EXISTS").arg(keys.replicas());
        if read(self.connections.one(command, Intent::Read).await?)? {
            self.replicas_seen.store(true, Atomically::Relaxed);
            self.replicas_noted.store(true, Atomically::Relaxed);
        }
        Ok(())
    }

    /// Looks for replicas; once there were any, writes are not confirmed without them.
    async fn look_for_replicas(&self, may_ask_info: bool) -> Result<(), StoreError> {
        if self.replicas != Replicas::Auto || self.replicas_noted.load(Atomically::Relaxed) {
            return Ok(());
        }
        let mut seen = self.replicas_seen.load(Atomically::Relaxed);
        seen |= self.connections.topology().shards.iter().any(|shard| shard.has_replicas);
        if may_ask_info && !seen {
            let info = |slot| Command::at_slot(slot, "INFO").arg("replication");
            let commands: Vec<Command> = self.connections.slots().into_iter().map(info).collect();
            for info in self.connections.all(&commands, Intent::Read, CommandTimeout::Short).await? {
                let info: String = read(info)?;
                seen |= field_of(&info, "connected_slaves").is_some_and(|number| number != "0");
            }
        }
        if seen {
            if !self.replicas_seen.swap(true, Atomically::Relaxed) {
                tracing::info!("redis has replicas, passes wait for replication");
            }
            let command = Command::plain(&KeyScope::Store, "SET").arg(self.keys.load().replicas()).arg(1);
            self.connections.one(command, Intent::Read).await?;
            self.replicas_noted.store(true, Atomically::Relaxed);
        }
        Ok(())
    }
}

/// Keeps looking at the servers: who the primaries are, whether they answer, whether they have replicas.
async fn watch(inner: Arc<Inner>, may_ask_info: bool) {
    loop {
        inner.connections.refresh().await;
        let command = Command::plain(&KeyScope::Store, "PING");
        let answered = inner.connections.one(command, Intent::Read).await;
        let looked = inner.look_for_replicas(may_ask_info).await;
        if let Err(error) = answered.map(|_| ()).and(looked) {
            tracing::debug!(%error, "checking the store failed");
            tokio::time::sleep(FAILURE_PAUSE).await;
        }
        tokio::select! {
            () = tokio::time::sleep(WATCH_PAUSE) => {}
            () = inner.connections.wait_for_failure() => tokio::time::sleep(FAILURE_PAUSE).await,
        }
    }
}

/// Whether every server is new enough and throws nothing away; returns whether they may be asked for that.
async fn check_servers(connections: &Connections) -> Result<bool, StoreError> {
    for slot in connections.slots() {
        let command = Command::at_slot(slot, "INFO").arg("everything");
        let info: String = match connections.one(command, Intent::Read).await {
            Ok(info) => read(info)?,
            Err(StoreError::Permanent(why)) if is_forbidden(&why) => {
                tracing::warn!(
                    "the user of the Redis store may not use INFO: its version and eviction policy are not checked"
                );
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let version = field_of(&info, "redis_version").unwrap_or_default();
        let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
        if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < VERSION_MIN {
            return Err(StoreError::Permanent(format!(
                "the server is Redis {version}; Anteroom needs Redis 7.0 or later, or Valkey"
            )));
        }
        let limit = field_of(&info, "maxmemory").unwrap_or("0");
        let policy = field_of(&info, "maxmemory_policy").unwrap_or("noeviction");
        if limit != "0" && policy != "noeviction" {
            return Err(StoreError::Permanent(format!(
                "the server throws data away when its memory is full (maxmemory-policy {policy}); set maxmemory-policy noeviction"
            )));
        }
    }
    Ok(true)
}

/// Whether scripts may ask for the replication id.
async fn may_ask_in_scripts(connections: &Connections, keys: &Keys) -> Result<bool, StoreError> {
    let command = Command::script(&KeyScope::Store, &STORE).key(keys.content_number()).key(keys.mark());
    let command = command.key(keys.numbers()).key(keys.restoring()).arg(1);
    match connections.one(command, Intent::Read).await {
        Ok(_) => Ok(true),
        Err(StoreError::Permanent(why)) if is_forbidden(&why) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_forbidden(why: &str) -> bool {
    why.contains("NOPERM") || why.contains("can't run this command")
}

/// A field of what INFO tells.
pub(super) fn field_of<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_end)
}

/// The lineage of a server, from what `INFO replication` tells; none if it is not a primary.
pub(super) fn lineage_from_info(info: &str) -> Option<Lineage> {
    let digits = field_of(info, "master_replid").filter(|_| field_of(info, "role") == Some("master"))?;
    u128::from_str_radix(digits.get(..32)?, 16).ok().map(Lineage)
}
