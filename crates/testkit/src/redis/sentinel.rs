//! A primary and a replica, watched by three Sentinels that replace a primary which two of them miss.

use std::time::Duration;

use crate::redis::process::RedisProcess;
use crate::redis::settings::{Kind, RedisBuilder};
use crate::redis::wire::Reply;
use crate::wait::{wait_for, wait_until};

/// The name under which the Sentinels know the primary.
const PRIMARY_NAME: &str = "mymaster";
/// How many Sentinels there are.
const SENTINEL_COUNT: usize = 3;
/// How many of them must miss the primary.
const QUORUM: usize = 2;
/// How long the primary is silent before a Sentinel misses it.
const DOWN_AFTER_MS: u32 = 500;
/// How long a failover may take; one that did not come about is tried again after twice that.
const FAILOVER_TIMEOUT_MS: u32 = 3_000;
/// How long the Sentinels may take to agree. They look for an unknown role every ten seconds only.
const AGREEMENT_DEADLINE: Duration = Duration::from_mins(2);

/// Two servers and three Sentinels.
#[derive(Debug)]
pub struct Sentinels {
    // The Sentinels end first, so that they do not begin to repair what is being taken down.
    sentinels: Vec<RedisProcess>,
    servers: [RedisProcess; 2],
}

impl Sentinels {
    /// Servers that keep nothing on disk, the first one the primary.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&RedisProcess::builder())
    }

    /// Servers with these settings, in clear text; the Sentinels ask for no password.
    #[track_caller]
    pub fn start_with(setup: &RedisBuilder) -> Self {
        assert!(!setup.has_tls, "Sentinels and their servers speak clear text");
        let servers = [setup.clone().start(), setup.clone().start()];
        let [primary, replica] = &servers;
        replica.replica_of(primary.port());
        // A Sentinel that finds the replica at its first look does not have to wait for its second.
        replica.wait_until_in_sync(primary);
        let sentinel = RedisProcess::builder().kind(Kind::Sentinel(configuration(setup, primary.port())));
        let sentinels = (0..SENTINEL_COUNT).map(|_| sentinel.clone().start()).collect();
        let sentinels = Self { sentinels, servers };
        sentinels.wait_until_whole();
        sentinels
    }

    /// Where a client finds the primary: `redis+sentinel://` with the three Sentinels and the name of the primary. A
    /// password in it is the servers'.
    pub fn url(&self) -> String {
        let addresses = self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port()));
        let addresses = addresses.collect::<Vec<_>>().join(",");
        format!("redis+sentinel://{}{addresses}/{PRIMARY_NAME}", self.servers[0].access())
    }

    /// Both servers, whether they run or not; the first was the primary when all began.
    pub fn servers(&self) -> &[RedisProcess; 2] {
        &self.servers
    }

    /// The three Sentinels, whether they run or not.
    pub fn sentinels(&self) -> &[RedisProcess] {
        &self.sentinels
    }

    /// The primary, as all running Sentinels agree and it says itself.
    #[track_caller]
    pub fn primary(&self) -> &RedisProcess {
        wait_for("the Sentinels agree on a primary", AGREEMENT_DEADLINE, || self.agreed_primary())
    }

    /// The other server, whether it runs or not.
    #[track_caller]
    pub fn replica(&self) -> &RedisProcess {
        self.other_than(self.primary())
    }

    /// Kills the primary and waits until all Sentinels agree on the other one. Returns the process that was killed.
    #[track_caller]
    pub fn kill_primary(&self) -> &RedisProcess {
        let killed = self.primary();
        killed.kill();
        self.wait_until_taken_over(killed);
        killed
    }

    /// Has the Sentinels replace a healthy primary (`SENTINEL FAILOVER`) and waits until all agree on the other one.
    /// Returns the former primary, which takes itself for one for some more seconds.
    #[track_caller]
    pub fn fail_over(&self) -> &RedisProcess {
        let former = self.primary();
        let leader = self.sentinels.iter().find(|sentinel| sentinel.is_running()).expect("a Sentinel runs");
        wait_until("another server has taken over", AGREEMENT_DEADLINE, || {
            if named_by(leader) == Some(former.port()) {
                // It refuses while it is at it, or has no replica to its liking yet, and it may give up.
                let _refused = leader.try_command(&["SENTINEL", "FAILOVER", PRIMARY_NAME]);
            }
            self.agreed_primary().is_some_and(|primary| primary.port() != former.port())
        });
        former
    }

    /// Waits until all running Sentinels agree on another primary than `former`: after that was killed or paused.
    #[track_caller]
    pub fn wait_until_taken_over(&self, former: &RedisProcess) {
        wait_until("another server has taken over", AGREEMENT_DEADLINE, || {
            self.agreed_primary().is_some_and(|primary| primary.port() != former.port())
        });
    }

    /// Waits until both servers and all Sentinels run, know each other, and the replica has what the primary has. After
    /// a failover this takes up to 20 seconds, because a Sentinel gives a former primary time to understand by itself.
    #[track_caller]
    pub fn wait_until_whole(&self) {
        wait_until("the Sentinels know everybody", AGREEMENT_DEADLINE, || {
            self.sentinels.iter().all(|sentinel| {
                let known = |name: &str| seen_by(sentinel, name);
                known("num-other-sentinels") == Some((SENTINEL_COUNT - 1).to_string())
                    && known("num-slaves") == Some("1".to_owned())
                    && known("flags") == Some("master".to_owned())
            })
        });
        let primary = self.primary();
        let replica = self.other_than(primary);
        wait_until("the other server is a replica", AGREEMENT_DEADLINE, || !is_primary(replica));
        replica.wait_until_in_sync(primary);
    }

    fn other_than(&self, one: &RedisProcess) -> &RedisProcess {
        let [first, second] = &self.servers;
        if first.port() == one.port() { second } else { first }
    }

    /// The server that every running Sentinel calls the primary, if it runs and agrees.
    fn agreed_primary(&self) -> Option<&RedisProcess> {
        let mut named = self.sentinels.iter().filter(|sentinel| sentinel.is_running()).map(named_by);
        let first = named.next()??;
        if !named.all(|port| port == Some(first)) {
            return None;
        }
        let primary = self.servers.iter().find(|server| server.port() == first)?;
        (primary.is_running() && is_primary(primary)).then_some(primary)
    }
}

/// The configuration of a Sentinel; the other servers it finds by itself.
fn configuration(setup: &RedisBuilder, primary: u16) -> String {
    let access = setup
        .password
        .as_ref()
        .map_or_else(String::new, |password| format!("sentinel auth-pass {PRIMARY_NAME} {password}\n"));
    format!(
        "sentinel monitor {PRIMARY_NAME} 127.0.0.1 {primary} {QUORUM}\n\
         sentinel down-after-milliseconds {PRIMARY_NAME} {DOWN_AFTER_MS}\n\
         sentinel failover-timeout {PRIMARY_NAME} {FAILOVER_TIMEOUT_MS}\n{access}"
    )
}

/// The port of the primary as a Sentinel tells it to clients.
fn named_by(sentinel: &RedisProcess) -> Option<u16> {
    let Ok(Reply::Array(address)) =
        sentinel.try_command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", PRIMARY_NAME])
    else {
        return None;
    };
    u16::try_from(address[1].integer()).ok()
}

/// A field of the primary as a Sentinel sees it.
fn seen_by(sentinel: &RedisProcess, name: &str) -> Option<String> {
    let Ok(Reply::Array(fields)) = sentinel.try_command(&["SENTINEL", "MASTER", PRIMARY_NAME]) else {
        return None;
    };
    let mut pairs = fields.chunks_exact(2).map(|pair| (pair[0].text(), pair[1].text()));
    pairs.find_map(|(known, value)| (known == name).then_some(value))
}

/// Whether it runs and takes itself for a primary.
fn is_primary(server: &RedisProcess) -> bool {
    matches!(server.try_command(&["ROLE"]), Ok(Reply::Array(role)) if role[0].text() == "master")
}
