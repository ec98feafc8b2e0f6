//! Leases of rooms among nodes that live in one process: for stores that only one process has.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anteroom_core::RoomId;

use crate::clock::Stopwatch;
use crate::contract::NodeId;

/// Who has the lease of each room, since when, and for how long.
#[derive(Default)]
pub(crate) struct Leases(Mutex<HashMap<RoomId, (NodeId, Stopwatch, Duration)>>);

impl Leases {
    /// Takes or extends a room's lease for a node; returns whether the node has it now.
    pub(crate) fn take(&self, room: &RoomId, node: NodeId, lease: Duration) -> bool {
        let mut leases = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = leases
            .get(room)
            .is_none_or(|(holder, since, granted)| *holder == node || since.elapsed() >= *granted);
        if is_free {
            leases.insert(room.clone(), (node, Stopwatch::start(), lease));
        }
        is_free
    }
}
