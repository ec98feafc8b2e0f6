//! What an operation leaves behind beside the new room: records to write, and events for the outbox.

use std::collections::BTreeSet;

use crate::events::Event;
use crate::ids::Generation;
use crate::session::Session;

/// Everything the store must write together with the new room, in one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effects {
    /// Whether anything but the room's clock and the number of joins differs from before. Joins alone need no versioned
    /// commit, because they commute.
    pub changed: bool,
    /// Sessions that began or changed, each as it is now.
    pub sessions: Vec<Session>,
    /// Chunks of taken bits that changed: write them if the room still has them, delete them if not.
    pub touched_chunks: BTreeSet<(Generation, u64)>,
    /// Lines that are closed for good; their sessions and chunks may be deleted.
    pub closed_generations: Vec<Generation>,
    /// What happened, oldest first. The store writes it to its outbox.
    pub events: Vec<Event>,
}

impl Effects {
    /// Adds what a later operation of the same commit left behind.
    pub fn absorb(&mut self, later: Self) {
        self.changed |= later.changed;
        self.sessions.extend(later.sessions);
        self.touched_chunks.extend(later.touched_chunks);
        self.closed_generations.extend(later.closed_generations);
        self.events.extend(later.events);
    }
}
