//! The way to a Redis, the same whether it is one server, one behind Sentinels, or a cluster.
//!
//! Commands go to the server that has their keys, over one connection that many share. Nothing is ever sent twice
//! unless the server said that it had not done it: that it does not know the script, or that another server has the
//! keys.

mod failure;
mod link;
mod topology;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use redis::{Pipeline, ServerErrorKind, Value};
use tokio::task::JoinSet;

use super::address::Address;
use super::command::{Command, CommandTimeout, Intent};
use super::options::RedisOptions;
use link::Link;
pub(super) use link::{Connector, Open};
use topology::Resolver;
pub(super) use topology::Topology;

use crate::clock::Stopwatch;
use crate::contract::StoreError;

/// How often a command follows its keys to another server.
const REDIRECTIONS_MAX: u32 = 5;
/// How soon after the last time those who know are asked again who the primaries are.
const REFRESH_PAUSE: Duration = Duration::from_millis(200);
/// After this long without an answer nobody knows whether the store works.
const CONTACT_MAX: Duration = Duration::from_secs(6);

/// Every connection of a store.
pub(super) struct Connections {
    resolver: Resolver,
    topology: ArcSwap<Topology>,
    refreshing: tokio::sync::Mutex<Stopwatch>,
    calls: AtomicU64,
    since_start: Stopwatch,
    /// When the last answer arrived, in milliseconds since the start.
    last_answer: AtomicU64,
    failed_since: AtomicBool,
    /// Notified when something fails.
    failure: tokio::sync::Notify,
}

/// A connection for what must not stand in the way of others.
pub(super) struct Lane {
    pub(super) address: Address,
    link: Arc<Link>,
}

impl Lane {
    /// Sends what may be sent again, and waits for all answers; the first refusal counts for all.
    pub(super) async fn exchange(&self, pipeline: Pipeline) -> Result<Vec<Value>, StoreError> {
        let values = exchange(self.link.clone(), pipeline, Intent::Read, CommandTimeout::Short).await?;
        let refusal = values.iter().find_map(|value| match value {
            Value::ServerError(error) => Some(failure::to_store_error(error)),
            _ => None,
        });
        refusal.map_or(Ok(values), Err)
    }
}

/// One command in flight.
struct Pending {
    /// Its place among the answers.
    index: usize,
    /// Where a server said that its keys are, and whether it is to be asked in spite of not having them.
    redirected: Option<(Address, bool)>,
}

/// Commands for one server.
type Group = (Arc<Link>, Vec<Pending>);

impl Connections {
    /// Finds out who the primaries are.
    pub(super) async fn open(options: &RedisOptions) -> Result<Self, StoreError> {
        let resolver = Resolver::new(options.url.clone(), &options.certificates);
        let topology = resolver.resolve(None).await?;
        Ok(Self {
            resolver,
            topology: ArcSwap::from_pointee(topology),
            refreshing: tokio::sync::Mutex::new(Stopwatch::start()),
            calls: AtomicU64::new(0),
            since_start: Stopwatch::start(),
            last_answer: AtomicU64::new(0),
            failed_since: AtomicBool::new(false),
            failure: tokio::sync::Notify::new(),
        })
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(super) fn note_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the last question was answered, not long ago.
    pub(super) fn is_ready(&self) -> bool {
        let last = Duration::from_millis(self.last_answer.load(Ordering::Relaxed));
        !self.failed_since.load(Ordering::Relaxed)
            && self.since_start.elapsed().saturating_sub(last) < CONTACT_MAX
    }

    pub(super) fn topology(&self) -> Arc<Topology> {
        self.topology.load_full()
    }

    pub(super) fn connector(&self) -> &Arc<Connector> {
        &self.resolver.connector
    }

    /// Asks again who the primaries are, unless another task just did.
    pub(super) async fn refresh(&self) {
        if !self.resolver.may_change() {
            return;
        }
        let Ok(mut last) = self.refreshing.try_lock() else {
            return;
        };
        if last.elapsed() < REFRESH_PAUSE {
            return;
        }
        match self.resolver.resolve(Some(&self.topology())).await {
            Ok(topology) => self.adopt(topology),
            Err(error) => tracing::debug!(%error, "reading the redis topology failed"),
        }
        *last = Stopwatch::start();
    }

    fn adopt(&self, topology: Topology) {
        let names = |topology: &Topology| -> Vec<Address> {
            topology.shards.iter().map(|shard| shard.address().clone()).collect()
        };
        let (before, after) = (names(&self.topology()), names(&topology));
        if before != after {
            tracing::info!(?before, ?after, "redis primaries changed");
        }
        self.topology.store(Arc::new(topology));
    }

    /// A connection of its own to the server that has this slot.
    pub(super) fn lane_of(&self, slot: u16) -> Result<Lane, StoreError> {
        let topology = self.topology();
        let shard = topology.shard_of(slot);
        let address =
            shard.ok_or_else(|| StoreError::Transient("no server has these keys".into()))?.address().clone();
        let link = Arc::new(Link::new(self.connector().clone(), address.clone()));
        Ok(Lane { address, link })
    }

    /// A slot of each server, to ask every one of them.
    pub(super) fn slots(&self) -> Vec<u16> {
        self.topology().first_slots()
    }

    /// Sends one command.
    pub(super) async fn one(&self, command: Command, intent: Intent) -> Result<Value, StoreError> {
        let mut answers = self.all(&[command], intent, CommandTimeout::Short).await?;
        answers.pop().ok_or_else(|| StoreError::Permanent("no answer".into()))
    }

    /// Sends one script, which may have happened if no answer comes. What hardly ever goes wrong is left to [`Self::all`]: a server that
    /// does not know the script, or has not got the key, has done nothing.
    pub(super) async fn quick(&self, command: Command) -> Result<Value, StoreError> {
        let topology = self.topology.load();
        let nobody = || StoreError::Transient("no server has these keys".into());
        let link = topology.shard_of(command.slot).ok_or_else(nobody)?.link.clone();
        drop(topology);
        let mut open = link.open().await?;
        self.note_call();
        match open.connection.send_packed_command(&command.to_cmd(false)).await {
            Ok(Value::ServerError(error)) => match error.kind() {
                Some(ServerErrorKind::NoScript | ServerErrorKind::Moved | ServerErrorKind::Ask) => {
                    self.one(command, Intent::Write).await
                }
                kind => {
                    if kind == Some(ServerErrorKind::ReadOnly) {
                        open.give_up();
                    }
                    Err(self.note_refusal(&error))
                }
            },
            Ok(answer) => Ok(answer),
            Err(error) => {
                open.give_up();
                self.notify_failure();
                Err(failure::unanswered(&error, Intent::Write))
            }
        }
    }

    /// Sends all of them at once, each to the server that has its keys. Where one of several fails, others may have happened.
    pub(super) async fn all(
        &self,
        commands: &[Command],
        intent: Intent,
        timeout: CommandTimeout,
    ) -> Result<Vec<Value>, StoreError> {
        let mut answers = vec![Value::Nil; commands.len()];
        let mut pending: Vec<Pending> =
            (0..commands.len()).map(|index| Pending { index, redirected: None }).collect();
        let mut with_text = false;
        for _ in 0..=REDIRECTIONS_MAX {
            let groups = self.group(commands, pending)?;
            pending = vec![];
            let mut is_elsewhere = false;
            for (group, answered) in self.send(groups, commands, with_text, intent, timeout).await? {
                for (mut command, answer) in group.into_iter().zip(answered) {
                    let Value::ServerError(error) = answer else {
                        answers[command.index] = answer;
                        continue;
                    };
                    command.redirected = None;
                    match error.kind() {
                        Some(ServerErrorKind::NoScript) if !with_text => {}
                        Some(kind @ (ServerErrorKind::Moved | ServerErrorKind::Ask)) => {
                            is_elsewhere |= kind == ServerErrorKind::Moved;
                            let asking = kind == ServerErrorKind::Ask;
                            command.redirected = target_of(error.details()).map(|address| (address, asking));
                        }
                        _ => return Err(self.note_refusal(&error)),
                    }
                    pending.push(command);
                }
            }
            if pending.is_empty() {
                return Ok(answers);
            }
            with_text |= pending.iter().any(|command| command.redirected.is_none());
            if is_elsewhere {
                self.refresh().await;
            }
        }
        Err(StoreError::Transient("the keys are moving from server to server".into()))
    }

    fn note_refusal(&self, error: &redis::ServerError) -> StoreError {
        let refused = failure::to_store_error(error);
        if matches!(refused, StoreError::Transient(_)) {
            self.notify_failure();
        }
        refused
    }

    fn notify_failure(&self) {
        self.failed_since.store(true, Ordering::Relaxed);
        self.failure.notify_one();
    }

    /// Returns when something has failed.
    pub(super) async fn wait_for_failure(&self) {
        self.failure.notified().await;
    }

    /// Which commands go to which server.
    fn group(&self, commands: &[Command], pending: Vec<Pending>) -> Result<Vec<Group>, StoreError> {
        let topology = self.topology();
        let mut groups: HashMap<Address, Group> = HashMap::new();
        for command in pending {
            let link = if let Some((address, _)) = &command.redirected {
                self.resolver.link_to(address)
            } else {
                let shard = topology.shard_of(commands[command.index].slot);
                let nobody = || StoreError::Transient("no server has these keys".into());
                shard.ok_or_else(nobody)?.link.clone()
            };
            groups.entry(link.address.clone()).or_insert_with(|| (link, vec![])).1.push(command);
        }
        Ok(groups.into_values().collect())
    }

    async fn send(
        &self,
        groups: Vec<Group>,
        commands: &[Command],
        with_text: bool,
        intent: Intent,
        timeout: CommandTimeout,
    ) -> Result<Vec<(Vec<Pending>, Vec<Value>)>, StoreError> {
        let mut sent = JoinSet::new();
        let mut answered = vec![];
        let is_alone = groups.len() == 1;
        for (link, group) in groups {
            let mut pipeline = Pipeline::with_capacity(group.len());
            for command in &group {
                if matches!(command.redirected, Some((_, true))) {
                    pipeline.cmd("ASKING");
                }
                commands[command.index].put_into(&mut pipeline, with_text);
            }
            self.note_call();
            let asked = exchange(link, pipeline, intent, timeout);
            if is_alone {
                answered.push((group, asked.await));
            } else {
                sent.spawn(async move { (group, asked.await) });
            }
        }
        while let Some(result) = sent.join_next().await {
            answered.push(result.map_err(|_| StoreError::Ambiguous("a call was cut short".into()))?);
        }
        let mut good = vec![];
        for (group, result) in answered {
            match result {
                Ok(mut values) => {
                    // What is said to ASKING itself is of no interest.
                    let mut asking = group.iter().flat_map(|command| match command.redirected {
                        Some((_, true)) => &[false, true][..],
                        _ => &[true][..],
                    });
                    values.retain(|_| *asking.next().unwrap_or(&true));
                    good.push((group, values));
                }
                Err(error) => {
                    self.notify_failure();
                    return Err(error);
                }
            }
        }
        let now = u64::try_from(self.since_start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_answer.store(now, Ordering::Relaxed);
        self.failed_since.store(false, Ordering::Relaxed);
        Ok(good)
    }
}

/// Sends a pipeline over a link and waits for the answers.
async fn exchange(
    link: Arc<Link>,
    pipeline: Pipeline,
    intent: Intent,
    timeout: CommandTimeout,
) -> Result<Vec<Value>, StoreError> {
    let mut open = link.open().await?;
    open.connection.set_response_timeout(timeout.limit());
    match open.connection.send_packed_commands(&pipeline, 0, pipeline.len()).await {
        Ok(values) => {
            // A primary that is one no longer: the next request finds out anew where to go.
            if values.iter().any(is_demoted) {
                open.give_up();
            }
            Ok(values)
        }
        Err(error) => {
            open.give_up();
            Err(failure::unanswered(&error, intent))
        }
    }
}

fn is_demoted(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::ReadOnly))
}

/// The address in "3999 127.0.0.1:6381".
fn target_of(details: Option<&str>) -> Option<Address> {
    let (_, address) = details?.split_once(' ')?;
    let (host, port) = address.rsplit_once(':')?;
    let host = host.trim_matches(['[', ']']);
    (!host.is_empty()).then_some(Address { host: host.to_owned(), port: port.parse().ok()? })
}
