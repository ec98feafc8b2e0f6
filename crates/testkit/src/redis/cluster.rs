//! A Redis Cluster of six processes: three primaries with a third of the slots each, and a replica for each of them.

use std::time::{Duration, Instant};

use crate::redis::process::RedisProcess;
use crate::redis::settings::{Kind, RedisBuilder};
use crate::redis::wire::Reply;
use crate::wait::{now, wait_for, wait_until};

/// How many primaries there are, and as many replicas.
const PRIMARY_COUNT: usize = 3;
/// How many slots there are, by the specification.
const SLOT_COUNT: usize = 16_384;
/// How long a node is silent before others take it for failed. Short for tests, long enough for a machine that builds.
const NODE_TIMEOUT_MS: u32 = 2_000;
/// How long a replica tries to take over on demand, by Redis' own rule (5 seconds), and a little more.
const MANUAL_FAILOVER_TIMEOUT: Duration = Duration::from_secs(6);
/// How long the nodes may take to agree.
const AGREEMENT_DEADLINE: Duration = Duration::from_mins(2);

/// A cluster of six processes. It is whole when it is started; what a test kills, it may start again.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisProcess>,
}

/// A range of slots, the port of the primary that serves them and those of its replicas.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Shard {
    first: i64,
    last: i64,
    primary: u16,
    replicas: Vec<u16>,
}

impl RedisCluster {
    /// A cluster that keeps nothing on disk.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&RedisProcess::builder())
    }

    /// A cluster whose six processes have these settings. They speak clear text.
    #[track_caller]
    pub fn start_with(setup: &RedisBuilder) -> Self {
        assert!(!setup.has_tls, "the nodes of a cluster speak clear text");
        // A replica is elected however long it has not heard of its primary, because there is no other one.
        let setup = setup
            .clone()
            .kind(Kind::ClusterNode)
            .setting("cluster-node-timeout", &NODE_TIMEOUT_MS.to_string())
            .setting("cluster-replica-validity-factor", "0");
        let nodes = (0..2 * PRIMARY_COUNT).map(|_| setup.clone().start()).collect();
        let cluster = Self { nodes };
        cluster.form();
        cluster
    }

    /// Where a client finds it: `redis+cluster://` with three of the nodes.
    pub fn url(&self) -> String {
        let seeds = self.nodes[..PRIMARY_COUNT].iter().map(|node| format!("127.0.0.1:{}", node.port()));
        format!("redis+cluster://{}{}", self.nodes[0].access(), seeds.collect::<Vec<_>>().join(","))
    }

    /// All six processes, whether they run or not.
    pub fn nodes(&self) -> &[RedisProcess] {
        &self.nodes
    }

    /// The process that serves the slot of this key, as all running nodes agree.
    #[track_caller]
    pub fn primary_of(&self, key: &str) -> &RedisProcess {
        let slot = self.slot_of(key);
        let found = || self.agreed_shards()?.into_iter().find(|shard| shard.has(slot));
        let shard = wait_for("the nodes agree who has the slot", AGREEMENT_DEADLINE, found);
        self.node(shard.primary)
    }

    /// The running replica of the primary that serves this key.
    #[track_caller]
    pub fn replica_for(&self, key: &str) -> &RedisProcess {
        let primary = self.primary_of(key);
        let follows = |node: &&RedisProcess| match node.try_command(&["ROLE"]) {
            Ok(Reply::Array(role)) => {
                role[0].text() == "slave" && role[2].integer() == i64::from(primary.port())
            }
            _ => false,
        };
        wait_for("the primary has a replica", AGREEMENT_DEADLINE, || self.running().find(follows))
    }

    /// Kills the primary that serves this key, and waits until its replica has taken over in the eyes of every running
    /// node. Returns the process that was killed.
    #[track_caller]
    pub fn kill_primary_of(&self, key: &str) -> &RedisProcess {
        let killed = self.primary_of(key);
        killed.kill();
        self.wait_until_taken_over(killed, key);
        killed
    }

    /// Lets the replica take over, without loss, from the primary that serves this key (`CLUSTER FAILOVER`), and waits
    /// until every running node knows. Returns the former primary.
    #[track_caller]
    pub fn fail_over(&self, key: &str) -> &RedisProcess {
        let (former, replica) = (self.primary_of(key), self.replica_for(key));
        replica.wait_until_in_sync(former);
        let mut asked = None;
        wait_until("the replica has taken over", AGREEMENT_DEADLINE, || {
            if asked.is_none_or(|asked: Instant| asked.elapsed() > MANUAL_FAILOVER_TIMEOUT) {
                // An attempt in which the primary did not join was given up; one who has taken over refuses another.
                let _refused = replica.try_command(&["CLUSTER", "FAILOVER"]);
                asked = Some(now());
            }
            self.is_taken_over(former, key)
        });
        former
    }

    /// Waits until the slot of this key is served by another process than `former`, in the eyes of every running node:
    /// after `former` was killed, paused or overruled.
    #[track_caller]
    pub fn wait_until_taken_over(&self, former: &RedisProcess, key: &str) {
        let what = "another node has taken over";
        wait_until(what, AGREEMENT_DEADLINE, || self.is_taken_over(former, key));
    }

    /// Waits until all six processes are a cluster in which each primary has a replica with everything it has.
    #[track_caller]
    pub fn wait_until_whole(&self) {
        let shards = wait_for("all nodes know each other", AGREEMENT_DEADLINE, || {
            let everybody = self.nodes.len().to_string();
            let mut known = self.nodes.iter().map(|node| cluster_information(node, "cluster_known_nodes"));
            let shards =
                known.all(|known| known.as_ref() == Some(&everybody)).then(|| self.agreed_shards())?;
            shards.filter(|shards| shards.iter().all(|shard| !shard.replicas.is_empty()))
        });
        for shard in shards {
            let primary = self.node(shard.primary);
            shard.replicas.iter().for_each(|replica| self.node(*replica).wait_until_in_sync(primary));
        }
    }

    /// Makes a cluster of six processes that do not know each other.
    #[track_caller]
    fn form(&self) {
        let (primaries, replicas) = self.nodes.split_at(PRIMARY_COUNT);
        for (index, node) in primaries.iter().enumerate() {
            let first = index * SLOT_COUNT / PRIMARY_COUNT;
            let last = (index + 1) * SLOT_COUNT / PRIMARY_COUNT - 1;
            node.command(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]).no_error();
        }
        for (index, node) in self.nodes.iter().enumerate() {
            // With an epoch of its own each, nobody has to settle first whose is the higher one.
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]).no_error();
        }
        for node in &self.nodes[1..] {
            let port = node.port().to_string();
            self.nodes[0].command(&["CLUSTER", "MEET", "127.0.0.1", &port]).no_error();
        }
        for (primary, replica) in primaries.iter().zip(replicas) {
            let primary = primary.command(&["CLUSTER", "MYID"]).text();
            wait_until("a replica has heard of its primary", AGREEMENT_DEADLINE, || {
                replica.command(&["CLUSTER", "REPLICATE", &primary]) == Reply::Status("OK".to_owned())
            });
        }
        self.wait_until_whole();
    }

    /// Whether every running node knows that another process than `former` serves this key.
    #[track_caller]
    fn is_taken_over(&self, former: &RedisProcess, key: &str) -> bool {
        let slot = self.slot_of(key);
        let shards = self.agreed_shards().unwrap_or_default();
        shards.iter().any(|shard| shard.has(slot) && shard.primary != former.port())
    }

    fn running(&self) -> impl Iterator<Item = &RedisProcess> {
        self.nodes.iter().filter(|node| node.is_running())
    }

    #[track_caller]
    fn node(&self, port: u16) -> &RedisProcess {
        self.nodes.iter().find(|node| node.port() == port).expect("the port is one of this cluster's")
    }

    #[track_caller]
    fn slot_of(&self, key: &str) -> i64 {
        let node = self.running().next().expect("a node runs");
        node.command(&["CLUSTER", "KEYSLOT", key]).integer()
    }

    /// Who serves which slots, once every running node says the same and that all is well.
    fn agreed_shards(&self) -> Option<Vec<Shard>> {
        let mut views = self.running().map(|node| {
            let is_well = cluster_information(node, "cluster_state")? == "ok";
            is_well.then(|| shards_as_seen_by(node)).flatten()
        });
        let first = views.next()??;
        views.all(|view| view.as_ref() == Some(&first)).then_some(first)
    }
}

impl Shard {
    fn has(&self, slot: i64) -> bool {
        (self.first..=self.last).contains(&slot)
    }
}

/// The answer of `CLUSTER SLOTS`: first slot, last slot, the primary and its healthy replicas, each as address, port and
/// more.
fn shards_as_seen_by(node: &RedisProcess) -> Option<Vec<Shard>> {
    let Ok(Reply::Array(ranges)) = node.try_command(&["CLUSTER", "SLOTS"]) else {
        return None;
    };
    let shards = ranges.iter().map(|range| {
        let range = range.array();
        let port = |node: &Reply| u16::try_from(node.array()[1].integer()).expect("a port has 16 bits");
        let mut replicas: Vec<u16> = range[3..].iter().map(port).collect();
        replicas.sort_unstable();
        Shard { first: range[0].integer(), last: range[1].integer(), primary: port(&range[2]), replicas }
    });
    let mut shards: Vec<Shard> = shards.collect();
    shards.sort_unstable();
    Some(shards)
}

/// A field of `CLUSTER INFO`.
fn cluster_information(node: &RedisProcess, field: &str) -> Option<String> {
    let Ok(Reply::Bulk(text)) = node.try_command(&["CLUSTER", "INFO"]) else {
        return None;
    };
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut values = text.lines().filter_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    values.next().map(str::to_owned)
}
