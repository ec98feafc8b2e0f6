//! Primaries and replicas: who follows whom, and whether a replica has what its primary has.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::redis::process::RedisProcess;
use crate::redis::wire::Reply;
use crate::wait::wait_until;

/// How long a replica may take to catch up, over a link that works.
const SYNC_DEADLINE: Duration = Duration::from_mins(1);

impl RedisProcess {
    /// Follows the primary on this port from now on, which may be the port of a proxy before it.
    #[track_caller]
    pub fn replica_of(&self, port: u16) {
        self.command(&["REPLICAOF", "127.0.0.1", &port.to_string()]).no_error();
    }

    /// Becomes a primary with what it has at this moment, whatever its former primary goes on to do.
    #[track_caller]
    pub fn promote(&self) {
        self.command(&["REPLICAOF", "NO", "ONE"]).no_error();
        assert!(self.is_primary(), "promoted, but still a replica");
    }

    /// Whether it considers itself a primary; several may do so at once.
    #[track_caller]
    pub fn is_primary(&self) -> bool {
        self.command(&["ROLE"]).no_error().array()[0].text() == "master"
    }

    /// A section of `INFO`, by name.
    #[track_caller]
    pub fn information(&self, section: &str) -> BTreeMap<String, String> {
        self.try_information(section).unwrap_or_else(|| panic!("no INFO {section}:\n{}", self.log()))
    }

    /// Waits until this replica has everything that `primary` has received so far, and the primary knows that, so that
    /// `WAIT` counts it. Both go by offsets within one history: a link may be up long before anything is replicated over
    /// it.
    #[track_caller]
    pub fn wait_until_in_sync(&self, primary: &Self) {
        let goal = offset(&primary.information("replication")["master_repl_offset"]);
        let what = format!("the replica on port {} has offset {goal} of its primary", self.port());
        wait_until(&what, SYNC_DEADLINE, || {
            // A replica may refuse everything while it loads what it received.
            let Some(own) = self.try_information("replication") else {
                return false;
            };
            // A primary begins its history with its first replica, so it is asked again each time.
            let of_primary = primary.information("replication");
            own.get("slave_repl_offset").is_some_and(|reached| offset(reached) >= goal)
                && own["master_replid"] == of_primary["master_replid"]
                && acknowledged(&of_primary, self.port()).is_some_and(|acknowledged| acknowledged >= goal)
        });
    }

    fn try_information(&self, section: &str) -> Option<BTreeMap<String, String>> {
        let Ok(Reply::Bulk(text)) = self.try_command(&["INFO", section]) else {
            return None;
        };
        let text = String::from_utf8_lossy(&text).into_owned();
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        Some(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}

/// The offset that the replica on `port` has acknowledged to a primary, by that primary's information.
fn acknowledged(primary: &BTreeMap<String, String>, port: u16) -> Option<u64> {
    // Such as slave0:ip=127.0.0.1,port=10001,state=online,offset=42,lag=0
    let replicas = primary.iter().filter(|(name, _)| name.starts_with("slave")).map(|(_, value)| value);
    let online = replicas.filter(|replica| replica.contains(&format!(",port={port},state=online,")));
    let mut offsets =
        online.filter_map(|replica| replica.split(',').find_map(|field| field.strip_prefix("offset=")));
    offsets.next().map(offset)
}

#[track_caller]
fn offset(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("not an offset: {text:?}"))
}
