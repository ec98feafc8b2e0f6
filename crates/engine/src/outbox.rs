//! The outbox as this node sees it: which events of visitors somebody asked for, how many were written, and that there may be more.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use anteroom_core::{Event, EventKind, EventKinds, RoomId};
use anteroom_store::{EventId, NodeId, StoreError, StoredEvent};
use arc_swap::ArcSwap;
use tokio::sync::watch;

/// What one reader of the outbox asks for.
#[derive(Debug, Clone)]
pub struct EventInterest {
    /// In these rooms; none means all.
    pub rooms: BTreeSet<RoomId>,
    /// These kinds.
    pub kinds: EventKinds,
}

/// The outbox as this node sees it.
pub struct Outbox {
    interests: ArcSwap<Vec<EventInterest>>,
    written: [AtomicU64; EventKind::ALL.len()],
    /// Rises whenever there may be more events than before.
    growth: watch::Sender<u64>,
    next_number: AtomicU64,
}

impl Default for Outbox {
    fn default() -> Self {
        Self {
            interests: ArcSwap::default(),
            written: [const { AtomicU64::new(0) }; EventKind::ALL.len()],
            growth: watch::Sender::default(),
            next_number: AtomicU64::new(1),
        }
    }
}

impl Outbox {
    /// From now on these events of visitors are asked for, and no others.
    pub fn set_interests(&self, interests: Vec<EventInterest>) {
        self.interests.store(interests.into());
    }

    /// The kinds that are asked for in a room.
    pub(crate) fn wanted(&self, room: &RoomId) -> EventKinds {
        let interests = self.interests.load();
        let of_room = interests.iter().filter(|asked| asked.rooms.is_empty() || asked.rooms.contains(room));
        of_room.fold(EventKinds::NONE, |all, asked| all.union(asked.kinds))
    }

    /// How many events of a kind this node has written.
    pub fn written(&self, kind: EventKind) -> u64 {
        self.written[kind as usize].load(Ordering::Relaxed)
    }

    /// Tells, by a rising number, that there may be more events.
    pub fn growth(&self) -> watch::Receiver<u64> {
        self.growth.subscribe()
    }

    /// Counts what was written.
    pub(crate) fn note_written<'a>(&self, events: impl IntoIterator<Item = &'a Event>) {
        let mut any = false;
        for event in events {
            self.written[event.kind() as usize].fetch_add(1, Ordering::Relaxed);
            any = true;
        }
        if any {
            self.note_growth();
        }
    }

    /// Counts one event that was written with something else.
    pub fn note_kind(&self, kind: EventKind) {
        self.written[kind as usize].fetch_add(1, Ordering::Relaxed);
        self.note_growth();
    }

    /// Another node may have written some.
    pub(crate) fn note_growth(&self) {
        self.growth.send_modify(|number| *number = number.wrapping_add(1));
    }

    /// The id of an event that comes with no commit of a room.
    pub(crate) fn next_id(&self, node: NodeId) -> EventId {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        EventId { node: node.0, version: 0, number, index: 0 }
    }
}

impl crate::Engine {
    /// The outbox as this node sees it.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// An event of the server, or of a room, that comes with no commit of a room; to be written now.
    pub fn event_now(&self, room: Option<RoomId>, event: Event) -> StoredEvent {
        StoredEvent { id: self.outbox.next_id(self.node()), at: self.now(), room, event }
    }

    /// Writes events that come with no other write.
    pub async fn append_events(&self, events: &[StoredEvent]) -> Result<(), StoreError> {
        if events.is_empty() {
            return Ok(());
        }
        self.store().append_events(events).await?;
        self.note_events(events);
        Ok(())
    }

    /// Counts events that were written with something else.
    pub fn note_events(&self, events: &[StoredEvent]) {
        self.outbox.note_written(events.iter().map(|stored| &stored.event));
    }
}
