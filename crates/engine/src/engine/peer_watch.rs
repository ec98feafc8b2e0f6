//! Follows what other nodes do to a shared store: polls all rooms four times a second, and at once on a notification.
//!
//! A room that another node has taken further is read again by its owner, so that every node's board follows. The poll
//! also takes and extends leases: the holder of a room's lease runs its clockwork. Notifications only make it faster;
//! what they miss, the next poll shows.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anteroom_core::RoomId;
use anteroom_store::contract::{Notification, RoomPoll};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::{ENDED_ERA, Engine};
use crate::EngineError;
use crate::handle::{Request, RoomHandle};

/// Time between two polls of all rooms.
pub const POLL_PERIOD: Duration = Duration::from_millis(250);
/// How long a lease lasts unless it is extended: several polls may fail before another node takes over.
pub const LEASE: Duration = Duration::from_secs(2);
/// Notifications within this time are answered by one poll.
const NOTIFICATION_SPACING: Duration = Duration::from_millis(10);
/// How often the list of rooms is read without a notification, in polls.
const NAMES_PERIOD_POLLS: u32 = 40;

/// Runs until the engine ends.
pub(super) async fn run(engine: Weak<Engine>, mut notifications: mpsc::Receiver<Notification>) {
    let mut clock = tokio::time::interval(POLL_PERIOD);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut last, mut polls, mut notifications_end) = (LastPoll::default(), 0u32, false);
    loop {
        let mut named = BTreeSet::new();
        let everything;
        tokio::select! {
            _ = clock.tick() => everything = true,
            first = notifications.recv(), if !notifications_end => {
                let Some(first) = first else {
                    notifications_end = true;
                    continue;
                };
                everything = gather(first, &mut notifications, &mut named).await;
            }
        }
        let Some(engine) = engine.upgrade() else { return };
        if *engine.era.borrow() == ENDED_ERA {
            return;
        }
        if everything {
            polls = polls.wrapping_add(1);
        }
        engine.poll_peers(&mut last, (!everything).then_some(&named), polls % NAMES_PERIOD_POLLS == 0).await;
    }
}

/// Takes the notifications that follow closely; returns whether they concern more than single rooms.
async fn gather(
    first: Notification,
    notifications: &mut mpsc::Receiver<Notification>,
    named: &mut BTreeSet<RoomId>,
) -> bool {
    let mut everything = note(first, named);
    let gathering = async {
        while let Some(next) = notifications.recv().await {
            everything |= note(next, named);
        }
    };
    // It ends with the time, or with the last notification.
    let _ = tokio::time::timeout(NOTIFICATION_SPACING, gathering).await;
    everything
}

fn note(notification: Notification, named: &mut BTreeSet<RoomId>) -> bool {
    match notification {
        Notification::Room(room) => {
            named.insert(room);
            false
        }
        Notification::Names | Notification::Values => true,
    }
}

/// What the last poll showed beside rooms.
#[derive(Default)]
struct LastPoll {
    values: Option<u64>,
    names: Option<u64>,
}

impl Engine {
    /// Polls these rooms, or all.
    async fn poll_peers(&self, last: &mut LastPoll, only: Option<&BTreeSet<RoomId>>, read_names: bool) {
        let mut handles = self.rooms.all();
        handles.retain(|handle| only.is_none_or(|only| only.contains(handle.id())));
        let ids: Vec<RoomId> = handles.iter().map(|handle| handle.id().clone()).collect();
        let seen = match self.store.poll(&ids, self.node, LEASE).await {
            Ok(seen) => seen,
            Err(error) => {
                tracing::debug!(%error, "store poll failed, serving stale boards");
                return;
            }
        };
        self.contact.note();
        let mut any_is_newer = false;
        for (handle, poll) in handles.iter().zip(&seen.rooms) {
            any_is_newer |= show_owner(handle, poll.as_ref());
        }
        let names_changed = last.names.replace(seen.names) != Some(seen.names);
        if (names_changed || read_names) && self.own_new_rooms().await.is_err() {
            // Asked again at the next poll.
            last.names = None;
        }
        if last.values.replace(seen.values).is_some_and(|before| before != seen.values) {
            self.values.send_modify(|number| *number += 1);
            any_is_newer = true;
        }
        if any_is_newer || names_changed {
            self.outbox.note_growth();
        }
    }

    /// Takes hold of rooms that other nodes have made.
    async fn own_new_rooms(&self) -> Result<(), EngineError> {
        let _one_at_a_time = self.change_rooms().await?;
        Ok(self.own_all().await?)
    }
}

/// Tells a room's owner what the poll showed, if its board does not show it yet; says whether another node has changed the room.
fn show_owner(handle: &Arc<RoomHandle>, poll: Option<&RoomPoll>) -> bool {
    let held_before = handle.note_lease(poll.is_some_and(|poll| poll.holds_lease));
    let gained_lease = handle.holds_lease() && !held_before;
    let is_newer = poll.is_none_or(|poll| handle.is_behind(poll));
    if is_newer || gained_lease {
        // A full queue holds requests for which the owner reads the store anyway.
        let _ = handle.tell(Request::Poll { poll: poll.copied(), answer: None });
    }
    is_newer
}
