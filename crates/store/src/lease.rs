//! Leases of rooms, and of works, among nodes that live in one process: for stores that only one process has.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Stopwatch;
use crate::contract::NodeId;

/// Who has each lease, since when, and for how long.
pub(crate) struct Leases<Key>(Mutex<HashMap<Key, (NodeId, Stopwatch, Duration)>>);

impl<Key> Default for Leases<Key> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<Key: Clone + Eq + Hash> Leases<Key> {
    /// Takes or extends a lease for a node; returns whether the node has it now.
    pub(crate) fn take(&self, key: &Key, node: NodeId, lease: Duration) -> bool {
        let mut leases = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = leases
            .get(key)
            .is_none_or(|(holder, since, granted)| *holder == node || since.elapsed() >= *granted);
        if is_free {
            leases.insert(key.clone(), (node, Stopwatch::start(), lease));
        }
        is_free
    }

    /// Whether a node took a lease last, even where it has run out since: nobody else has taken it then.
    pub(crate) fn is_held(&self, key: &Key, node: NodeId) -> bool {
        let leases = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        leases.get(key).is_some_and(|(holder, ..)| *holder == node)
    }
}
