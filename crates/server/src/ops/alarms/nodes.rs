//! Own alarms across the nodes of a shared store.
//!
//! Each node counts for itself what it answers. Which of its alarms fire it tells the others by a value of the store: its name,
//! the alarms, and until when that holds. It says so again while they fire, and takes it back when they do not; what a node
//! that is gone has said runs out by itself. An alarm fires if it does on any node.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anteroom_core::UnixMillis;
use anteroom_store::{NodeId, Store, StoreError};
use serde::{Deserialize, Serialize};

const NODES_VALUE: &str = "own-alarms";
/// How long the alarms of a node count after it has written them. Long enough for a store that is lost for a moment, short
/// enough for a node that is gone for good.
const VALID_MILLIS: u64 = 15_000;
/// How long before that end a node writes them again.
const RENEWAL_MILLIS: u64 = 10_000;
/// The most nodes whose alarms are stored.
const NODES_MAX: usize = 1_000;
/// How often the value is tried again when another node changed it in between.
const ATTEMPTS_MAX: u32 = 8;

/// The alarms that fire on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct NodeAlarms {
    until: u64,
    firing: Vec<String>,
}

/// The alarms of all nodes, by the nodes' names.
type AlarmsByNode = BTreeMap<String, NodeAlarms>;

/// What fires on the nodes of a shared store.
pub(super) struct Nodes {
    own_name: String,
    by_node: Mutex<AlarmsByNode>,
}

impl Nodes {
    pub(super) fn new(node: NodeId) -> Self {
        Self { own_name: format!("{:032x}", node.0), by_node: Mutex::default() }
    }

    /// Whether an alarm fires on another node.
    pub(super) fn fires_on_another_node(&self, name: &str, now: UnixMillis) -> bool {
        self.by_node().iter().any(|(node, alarms)| {
            *node != self.own_name
                && alarms.until > now.0
                && alarms.firing.iter().any(|firing| firing == name)
        })
    }

    /// Reads the alarms of all nodes.
    pub(super) async fn reload(&self, store: &dyn Store) -> Result<(), StoreError> {
        let stored = store.value(NODES_VALUE).await?;
        *self.by_node() = read(stored.as_deref());
        Ok(())
    }

    /// Has the others know what fires here, if they do not.
    pub(super) async fn tell(
        &self,
        store: &dyn Store,
        firing: &[String],
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        // Goes by what was read last, so that as a rule nothing is asked.
        if revise(&self.by_node(), &self.own_name, firing, now).is_none() {
            return Ok(());
        }
        for _ in 0..ATTEMPTS_MAX {
            let stored = store.value(NODES_VALUE).await?;
            let present = read(stored.as_deref());
            let Some(next) = revise(&present, &self.own_name, firing, now) else {
                *self.by_node() = present;
                return Ok(());
            };
            let bytes = serde_json::to_vec(&next).expect("our own structures can be written as JSON");
            if store.replace_value(NODES_VALUE, stored.as_deref(), &bytes, None).await? {
                *self.by_node() = next;
                return Ok(());
            }
        }
        Err(StoreError::Transient("the alarms of the nodes keep changing".into()))
    }

    /// The map is replaced as a whole, so a panic elsewhere leaves nothing half done.
    fn by_node(&self) -> MutexGuard<'_, AlarmsByNode> {
        self.by_node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The map with this node's alarms in it; `None` if they are there already, and for long enough.
fn revise(
    by_node: &AlarmsByNode,
    own_name: &str,
    firing: &[String],
    now: UnixMillis,
) -> Option<AlarmsByNode> {
    let own = by_node.get(own_name);
    let is_current = match own {
        None => firing.is_empty(),
        Some(own) => own.firing == firing && own.until > now.0 + RENEWAL_MILLIS,
    };
    if is_current {
        return None;
    }
    let mut next: AlarmsByNode = by_node
        .iter()
        .filter(|(_, alarms)| alarms.until > now.0)
        .map(|(node, alarms)| (node.clone(), alarms.clone()))
        .collect();
    next.remove(own_name);
    if !firing.is_empty() && next.len() < NODES_MAX {
        next.insert(
            own_name.to_owned(),
            NodeAlarms { until: now.plus(VALID_MILLIS).0, firing: firing.to_vec() },
        );
    }
    (next != *by_node).then_some(next)
}

/// A stored value that cannot be read counts as no alarms. A node whose alarm fires writes it again.
fn read(stored: Option<&[u8]>) -> AlarmsByNode {
    stored.and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use anteroom_store::MemoryStore;

    use super::*;

    const NOW: UnixMillis = UnixMillis(1_000_000);

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[tokio::test]
    async fn what_fires_on_one_node_is_known_on_the_others_until_it_ends() {
        let store = MemoryStore::default();
        let (one, other) = (Nodes::new(NodeId(1)), Nodes::new(NodeId(2)));
        one.tell(&store, &names(&["A"]), NOW).await.unwrap();
        assert!(!one.fires_on_another_node("A", NOW), "it fires here");
        assert!(!other.fires_on_another_node("A", NOW), "not read yet");
        other.reload(&store).await.unwrap();
        assert!(other.fires_on_another_node("A", NOW) && !other.fires_on_another_node("B", NOW));
        other.tell(&store, &names(&["B"]), NOW).await.unwrap();
        one.reload(&store).await.unwrap();
        assert!(one.fires_on_another_node("B", NOW), "a node replaces only its own alarms");
        one.tell(&store, &[], NOW).await.unwrap();
        other.reload(&store).await.unwrap();
        assert!(!other.fires_on_another_node("A", NOW));
    }

    #[tokio::test]
    async fn the_alarms_of_a_node_that_is_gone_expire_and_are_removed() {
        let store = MemoryStore::default();
        let (gone, alive) = (Nodes::new(NodeId(1)), Nodes::new(NodeId(2)));
        gone.tell(&store, &names(&["A"]), NOW).await.unwrap();
        alive.reload(&store).await.unwrap();
        let later = NOW.plus(VALID_MILLIS);
        assert!(
            alive.fires_on_another_node("A", UnixMillis(later.0 - 1))
                && !alive.fires_on_another_node("A", later)
        );
        alive.tell(&store, &names(&["B"]), later).await.unwrap();
        assert_eq!(alive.by_node().keys().collect::<Vec<_>>(), [&alive.own_name]);
    }

    #[test]
    fn a_nodes_alarms_are_renewed_before_they_expire_and_not_every_second() {
        let firing = names(&["A"]);
        let said = revise(&AlarmsByNode::new(), "n", &firing, NOW).expect("something new");
        for seconds in 0..5 {
            assert_eq!(revise(&said, "n", &firing, NOW.plus(seconds * 1_000)), None);
        }
        let again = revise(&said, "n", &firing, NOW.plus(5_000)).expect("time to say it again");
        assert_eq!(again["n"].until, NOW.0 + 5_000 + VALID_MILLIS);
        assert!(revise(&said, "n", &names(&["A", "B"]), NOW).is_some());
        assert_eq!(revise(&said, "n", &[], NOW), Some(AlarmsByNode::new()));
        assert_eq!(revise(&AlarmsByNode::new(), "n", &[], NOW), None);
    }

    #[test]
    fn a_value_that_cannot_be_read_holds_no_alarms() {
        assert_eq!(read(Some(b"nonsense")), AlarmsByNode::new());
        assert_eq!(read(None), AlarmsByNode::new());
    }
}
