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
/// How long a node's word holds. Long enough for a store that is lost for a moment, short enough for a node that is gone for good.
const VALID_MILLIS: u64 = 15_000;
/// How long before its end it is said again.
const RENEWAL_MILLIS: u64 = 10_000;
/// The most nodes whose word is kept.
const NODES_MAX: usize = 1_000;
/// How often the value is tried again when another node changed it in between.
const ATTEMPTS_MAX: u32 = 8;

/// What one node says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Word {
    until: u64,
    firing: Vec<String>,
}

/// What all of them say, by their names.
type Words = BTreeMap<String, Word>;

/// What fires on the nodes of a shared store.
pub(super) struct Nodes {
    own_name: String,
    words: Mutex<Words>,
}

impl Nodes {
    pub(super) fn new(node: NodeId) -> Self {
        Self { own_name: format!("{:032x}", node.0), words: Mutex::default() }
    }

    /// Whether an alarm fires on another node.
    pub(super) fn fires_elsewhere(&self, name: &str, now: UnixMillis) -> bool {
        self.words().iter().any(|(node, word)| {
            *node != self.own_name && word.until > now.0 && word.firing.iter().any(|firing| firing == name)
        })
    }

    /// Reads what the nodes say.
    pub(super) async fn reload(&self, store: &dyn Store) -> Result<(), StoreError> {
        let stored = store.value(NODES_VALUE).await?;
        *self.words() = read(stored.as_deref());
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
        if revised(&self.words(), &self.own_name, firing, now).is_none() {
            return Ok(());
        }
        for _ in 0..ATTEMPTS_MAX {
            let stored = store.value(NODES_VALUE).await?;
            let present = read(stored.as_deref());
            let Some(next) = revised(&present, &self.own_name, firing, now) else {
                *self.words() = present;
                return Ok(());
            };
            let bytes = serde_json::to_vec(&next).expect("our own structures can be written as JSON");
            if store.replace_value(NODES_VALUE, stored.as_deref(), &bytes, None).await? {
                *self.words() = next;
                return Ok(());
            }
        }
        Err(StoreError::Transient("the alarms of the nodes keep changing".into()))
    }

    /// The words are replaced as a whole, so a panic elsewhere leaves nothing half done.
    fn words(&self) -> MutexGuard<'_, Words> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The words with this node's in it; `None` if they say it already, and for long enough.
fn revised(words: &Words, own_name: &str, firing: &[String], now: UnixMillis) -> Option<Words> {
    let own = words.get(own_name);
    let is_said = match own {
        None => firing.is_empty(),
        Some(own) => own.firing == firing && own.until > now.0 + RENEWAL_MILLIS,
    };
    if is_said {
        return None;
    }
    let mut next: Words = words
        .iter()
        .filter(|(_, word)| word.until > now.0)
        .map(|(node, word)| (node.clone(), word.clone()))
        .collect();
    next.remove(own_name);
    if !firing.is_empty() && next.len() < NODES_MAX {
        next.insert(own_name.to_owned(), Word { until: now.plus(VALID_MILLIS).0, firing: firing.to_vec() });
    }
    (next != *words).then_some(next)
}

/// A stored value that cannot be read counts as no alarms. A node whose alarm fires writes it again.
fn read(stored: Option<&[u8]>) -> Words {
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
        assert!(!one.fires_elsewhere("A", NOW), "it fires here");
        assert!(!other.fires_elsewhere("A", NOW), "not read yet");
        other.reload(&store).await.unwrap();
        assert!(other.fires_elsewhere("A", NOW) && !other.fires_elsewhere("B", NOW));
        other.tell(&store, &names(&["B"]), NOW).await.unwrap();
        one.reload(&store).await.unwrap();
        assert!(one.fires_elsewhere("B", NOW), "one word does not replace the other");
        one.tell(&store, &[], NOW).await.unwrap();
        other.reload(&store).await.unwrap();
        assert!(!other.fires_elsewhere("A", NOW));
    }

    #[tokio::test]
    async fn the_word_of_a_node_that_is_gone_runs_out_and_is_cleared_away() {
        let store = MemoryStore::default();
        let (gone, alive) = (Nodes::new(NodeId(1)), Nodes::new(NodeId(2)));
        gone.tell(&store, &names(&["A"]), NOW).await.unwrap();
        alive.reload(&store).await.unwrap();
        let later = NOW.plus(VALID_MILLIS);
        assert!(alive.fires_elsewhere("A", UnixMillis(later.0 - 1)) && !alive.fires_elsewhere("A", later));
        alive.tell(&store, &names(&["B"]), later).await.unwrap();
        assert_eq!(alive.words().keys().collect::<Vec<_>>(), [&alive.own_name]);
    }

    #[test]
    fn a_word_is_said_again_before_it_runs_out_and_not_every_second() {
        let firing = names(&["A"]);
        let said = revised(&Words::new(), "n", &firing, NOW).expect("something new");
        for seconds in 0..5 {
            assert_eq!(revised(&said, "n", &firing, NOW.plus(seconds * 1_000)), None);
        }
        let again = revised(&said, "n", &firing, NOW.plus(5_000)).expect("time to say it again");
        assert_eq!(again["n"].until, NOW.0 + 5_000 + VALID_MILLIS);
        assert!(revised(&said, "n", &names(&["A", "B"]), NOW).is_some());
        assert_eq!(revised(&said, "n", &[], NOW), Some(Words::new()));
        assert_eq!(revised(&Words::new(), "n", &[], NOW), None);
    }

    #[test]
    fn what_cannot_be_read_is_nobodys_word() {
        assert_eq!(read(Some(b"nonsense")), Words::new());
        assert_eq!(read(None), Words::new());
    }
}
