//! Which server has which keys, found out from Sentinels or from the nodes of a cluster.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::Value;
use tokio::task::JoinSet;

use super::super::address::{Address, Kind, RedisUrl};
use super::super::command::CommandTimeout;
use super::super::options::RedisCertificates;
use super::failure;
use super::link::{Connector, Link};
use crate::contract::StoreError;

/// How long the other Sentinels have when one has answered.
const SENTINEL_TIMEOUT: Duration = Duration::from_millis(300);

/// One primary.
#[derive(Clone)]
pub(in super::super) struct Shard {
    pub(super) link: Arc<Link>,
    /// Whether those who know say that it has replicas.
    pub(in super::super) has_replicas: bool,
}

impl Shard {
    pub(in super::super) fn address(&self) -> &Address {
        &self.link.address
    }
}

/// Every primary, and which slots it has.
pub(in super::super) struct Topology {
    pub(in super::super) shards: Vec<Shard>,
    /// First slot, last slot, index of the shard; empty where one has everything.
    slots: Vec<(u16, u16, usize)>,
}

impl Topology {
    /// Whether keys are divided among slots, so that no script may touch those of several.
    pub(in super::super) const fn has_slots(&self) -> bool {
        !self.slots.is_empty()
    }

    pub(in super::super) fn index_of(&self, slot: u16) -> Option<usize> {
        if self.slots.is_empty() {
            return (!self.shards.is_empty()).then_some(0);
        }
        let range = self.slots.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
        range.map(|&(_, _, index)| index)
    }

    /// A slot of each shard.
    pub(super) fn first_slots(&self) -> Vec<u16> {
        let first_of = |index: usize| {
            self.slots.iter().find(|(_, _, of)| *of == index).map_or(0, |(first, _, _)| *first)
        };
        (0..self.shards.len()).map(first_of).collect()
    }

    pub(super) fn shard_of(&self, slot: u16) -> Option<&Shard> {
        self.index_of(slot).and_then(|index| self.shards.get(index))
    }
}

/// Finds out who the primaries are.
pub(super) struct Resolver {
    url: RedisUrl,
    pub(super) connector: Arc<Connector>,
    /// Links to all servers known, so that a new look at them makes no new connections.
    links: Mutex<HashMap<Address, Arc<Link>>>,
    sentinels: Vec<Arc<Link>>,
    /// Whom of a cluster to ask next.
    turn: Mutex<usize>,
}

impl Resolver {
    pub(super) fn new(url: RedisUrl, certificates: &RedisCertificates) -> Self {
        let connector = |login, login_if_asked, database| {
            let certificates = certificates.clone();
            Arc::new(Connector { with_tls: url.with_tls, login, login_if_asked, database, certificates })
        };
        // Sentinels without a login of their own may have that of the servers.
        let of_servers = Some(url.login.clone()).filter(|_| url.sentinel_login.password.is_none());
        let to_sentinels = connector(url.sentinel_login.clone(), of_servers, 0);
        let sentinels = match url.kind {
            Kind::Sentinel { .. } => url.addresses.clone(),
            Kind::Single | Kind::Cluster => vec![],
        };
        let sentinels =
            sentinels.into_iter().map(|address| Arc::new(Link::new(to_sentinels.clone(), address))).collect();
        let connector = connector(url.login.clone(), None, url.database);
        Self { url, connector, links: Mutex::default(), sentinels, turn: Mutex::new(0) }
    }

    /// Whether primaries may change.
    pub(super) fn may_change(&self) -> bool {
        self.url.kind != Kind::Single
    }

    pub(super) fn link_to(&self, address: &Address) -> Arc<Link> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Link::new(self.connector.clone(), address.clone()));
        links.entry(address.clone()).or_insert_with(new).clone()
    }

    fn keep_only(&self, topology: &Topology) {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|address, _| {
            self.url.addresses.contains(address)
                || topology.shards.iter().any(|shard| shard.address() == address)
        });
    }

    pub(super) async fn resolve(&self, present: Option<&Topology>) -> Result<Topology, StoreError> {
        let topology = match &self.url.kind {
            Kind::Single => {
                let link = self.link_to(&self.url.addresses[0]);
                Topology { shards: vec![Shard { link, has_replicas: false }], slots: vec![] }
            }
            Kind::Sentinel { master } => self.ask_sentinels(master).await?,
            Kind::Cluster => self.ask_cluster(present).await?,
        };
        self.keep_only(&topology);
        Ok(topology)
    }

    /// Asks all of them at once; the one that has heard of the latest failover is right.
    async fn ask_sentinels(&self, master: &str) -> Result<Topology, StoreError> {
        let mut asked = JoinSet::new();
        for sentinel in &self.sentinels {
            let mut command = redis::cmd("SENTINEL");
            command.arg("MASTER").arg(master);
            asked.spawn(ask(sentinel.clone(), command));
        }
        let mut best: Option<(u64, Shard)> = None;
        let mut last = StoreError::Transient("no Sentinel answers".into());
        loop {
            // Once one has answered, the others are not waited for as long as an unreachable one would take.
            let timeout = if best.is_some() { SENTINEL_TIMEOUT } else { CommandTimeout::Long.limit() };
            let Ok(Some(answered)) = tokio::time::timeout(timeout, asked.join_next()).await else {
                break;
            };
            match answered.unwrap_or_else(|_| Err(StoreError::Transient("no answer".into()))) {
                Ok(answer) => {
                    if let Some((epoch, address, replicas)) = master_of(answer)
                        && best.as_ref().is_none_or(|(known, _)| *known < epoch)
                    {
                        best =
                            Some((epoch, Shard { link: self.link_to(&address), has_replicas: replicas > 0 }));
                    }
                }
                Err(error) => last = error,
            }
        }
        let (_, shard) = best.ok_or(last)?;
        Ok(Topology { shards: vec![shard], slots: vec![] })
    }

    /// Asks one node after the other, beginning with another one each time.
    async fn ask_cluster(&self, present: Option<&Topology>) -> Result<Topology, StoreError> {
        let known = present.map_or(&[][..], |topology| &topology.shards);
        let mut nodes: Vec<Address> = known.iter().map(|shard| shard.address().clone()).collect();
        nodes.extend(self.url.addresses.iter().cloned());
        let turn = {
            let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            *turn = turn.wrapping_add(1);
            *turn % nodes.len()
        };
        nodes.rotate_left(turn);
        let mut last = StoreError::Transient("no node of the cluster answers".into());
        for node in nodes {
            let mut command = redis::cmd("CLUSTER");
            command.arg("SLOTS");
            match ask(self.link_to(&node), command).await {
                Ok(answer) => match self.slots_of(&node, answer) {
                    Some(topology) => return Ok(topology),
                    None => last = StoreError::Transient(format!("{node} knows of no slots")),
                },
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn slots_of(&self, asked: &Address, answer: Value) -> Option<Topology> {
        let mut topology = Topology { shards: vec![], slots: vec![] };
        for range in parts(answer)? {
            let mut range = parts(range)?.into_iter();
            let [first, last] = [range.next()?, range.next()?];
            let [first, last] = [redis::from_redis_value(first).ok()?, redis::from_redis_value(last).ok()?];
            let mut primary = parts(range.next()?)?.into_iter();
            // An empty host means: the one that was asked.
            let host: Option<String> = redis::from_redis_value(primary.next()?).ok()?;
            let host =
                host.filter(|host| !host.is_empty() && host != "?").unwrap_or_else(|| asked.host.clone());
            let address = Address { host, port: redis::from_redis_value(primary.next()?).ok()? };
            let has_replicas = range.next().is_some();
            let known = topology.shards.iter().position(|shard| *shard.address() == address);
            let index = known.unwrap_or_else(|| {
                topology.shards.push(Shard { link: self.link_to(&address), has_replicas });
                topology.shards.len() - 1
            });
            topology.slots.push((first, last, index));
        }
        (!topology.shards.is_empty()).then_some(topology)
    }
}

async fn ask(link: Arc<Link>, command: redis::Cmd) -> Result<Value, StoreError> {
    let mut open = link.open().await?;
    match open.connection.send_packed_command(&command).await {
        Ok(Value::ServerError(error)) => Err(failure::to_store_error(&error)),
        Ok(value) => Ok(value),
        Err(error) => {
            open.give_up();
            Err(StoreError::Transient(error.to_string()))
        }
    }
}

fn parts(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(parts) => Some(parts),
        _ => None,
    }
}

/// Epoch of the configuration, address of the master, and how many replicas it has.
fn master_of(answer: Value) -> Option<(u64, Address, u64)> {
    let fields: HashMap<String, String> = redis::from_redis_value(answer).ok()?;
    let number = |name: &str| fields.get(name).and_then(|text| text.parse::<u64>().ok());
    let port = u16::try_from(number("port")?).ok()?;
    let address = Address { host: fields.get("ip")?.clone(), port };
    Some((number("config-epoch").unwrap_or(0), address, number("num-slaves").unwrap_or(0)))
}
