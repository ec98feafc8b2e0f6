//! How an owner goes on from what the store has: another node's room, a room that has lost something, or none at all.
//!
//! *Continuous:* the store has all it ever acknowledged. Its room is taken as it is.
//!
//! *Interrupted:* something may be missing. The first owner to find that mends the room by what it remembers; those who come later
//! add what they remember beyond that. Until it is mended nothing else can be written, so no position is handed out twice.
//!
//! *Gone without a trace:* the store was emptied. The owner makes the room again from what it had, with a new line.

use std::collections::BTreeSet;

use anteroom_core::{Effects, Operation, Reads, Room, apply};
use anteroom_store::contract::{Commit, CommitOutcome, Lineage, RoomPoll, Snapshot, StoreError};

use super::{Owner, TurnError, in_time};

/// What an owner has to do before anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Nothing.
    None,
    /// To tell what it remembers.
    Recall,
    /// To mend the room.
    Mend,
}

impl Owner {
    /// Goes on from what the store has.
    pub(crate) fn adopt(&mut self, snapshot: Snapshot) {
        // A store that was emptied and filled again counts on under the same lineage, but from further back.
        let known_version = self.room.as_ref().or(self.fallback.as_ref()).map_or(0, |room| room.version);
        let other_history = self.lineage != snapshot.lineage || snapshot.room.version < known_version;
        self.duty = match (snapshot.is_continuous, self.duty) {
            (false, _) => Duty::Mend,
            (true, Duty::None) if !other_history => Duty::None,
            (true, _) => Duty::Recall,
        };
        self.lineage = snapshot.lineage;
        self.next_number = self.next_number.max(snapshot.last_number.unwrap_or(0) + 1);
        self.fallback = None;
        self.next_end_is_known = false;
        self.room = Some(snapshot.room);
    }

    /// A whole history in which a line that this node has seen does not exist yet is that of a server which was
    /// replaced: a node that goes on from it would be left behind.
    pub(super) fn refuse_stale_history(&self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let is_past = snapshot.is_continuous
            && snapshot.lineage != self.lineage
            && self.history.newest().is_some_and(|newest| newest > snapshot.room.newest().generation);
        if is_past {
            return Err(StoreError::Transient("a server that was replaced still answers".into()));
        }
        Ok(())
    }

    /// What has to be done to the room first, if anything has.
    pub(super) fn first_operation(&mut self) -> Option<Operation> {
        let room = self.room.as_ref()?;
        match self.duty {
            Duty::None => None,
            Duty::Mend => {
                let incarnation = self.backoff.byte();
                tracing::warn!(room = %self.id, "store may have lost writes, opening a new line");
                Some(Operation::Mend(self.history.mend(incarnation, false)))
            }
            Duty::Recall => {
                let (lines, moved) = (self.history.lines_beyond(room), self.history.moves_beyond(room));
                if lines.is_empty() && moved.is_empty() {
                    self.duty = Duty::None;
                    return None;
                }
                tracing::warn!(room = %self.id, lines = lines.len(), moved = moved.len(), "restoring to the room what the store has lost");
                Some(Operation::Recall { lines, moved })
            }
        }
    }

    /// Takes in what a poll showed; returns whether the room must be read again.
    pub(super) fn must_load_after(&mut self, poll: Option<&RoomPoll>) -> bool {
        let (Some(poll), Some(room)) = (poll, self.room.as_mut()) else { return true };
        if poll.lineage != self.lineage || !poll.is_continuous {
            return true;
        }
        if poll.generation != room.newest().generation {
            return poll.version >= room.version || poll.generation > room.newest().generation;
        }
        if poll.version != room.version {
            return poll.version > room.version;
        }
        if let Some(newest) = room.segments.back_mut() {
            newest.joined = newest.joined.max(poll.joined);
        }
        false
    }

    pub(super) async fn load(&mut self) -> Result<(), TurnError> {
        match self.store.load(&self.id, self.node).await? {
            Some(snapshot) => {
                self.refuse_stale_history(&snapshot)?;
                self.adopt(snapshot);
            }
            None if self.store.is_shared() && self.store.trace(&self.id).await?.is_none() => {
                self.make_again().await?;
            }
            None => return Err(TurnError::Gone),
        }
        if self.acts_by_itself() {
            self.refresh_next_session_end().await?;
        }
        Ok(())
    }

    /// Makes a room that the store has lost again from what this node has of it.
    async fn make_again(&mut self) -> Result<(), TurnError> {
        let Some(room) = self.room.take().or_else(|| self.fallback.take()) else {
            return Err(TurnError::Gone);
        };
        let (next, effects) = self.restore_lost(room.clone());
        let number = self.next_number;
        self.next_number += 1;
        let commit = Commit {
            room: self.id.clone(),
            node: self.node,
            number,
            expected: None,
            lineage: Lineage::default(),
            mends: true,
            opens_line: true,
            joined_before: next.newest().joined,
            next,
            effects,
            audit: vec![],
        };
        self.has_begun_write = true;
        let outcome = in_time(self.store.commit(&commit)).await;
        self.fallback = Some(room);
        match outcome? {
            CommitOutcome::Done { .. } => {
                tracing::warn!(room = %self.id, "store had lost the room, created it again");
            }
            CommitOutcome::Conflict(Some(theirs)) => {
                self.duty = Duty::Recall;
                self.adopt(*theirs);
                return Ok(());
            }
            CommitOutcome::Conflict(None) => return Err(TurnError::Gone),
        }
        let written = self.store.load(&self.id, self.node).await?;
        let lost_again = || StoreError::Transient("the store loses what was written".into());
        self.adopt(written.ok_or_else(lost_again)?);
        Ok(())
    }

    /// The room as it is given back: with everything this node knows of it, but without sessions, and with a new line.
    fn restore_lost(&mut self, room: Room) -> (Room, Effects) {
        let mend = Operation::Mend(self.history.mend(self.backoff.byte(), true));
        let applied = apply(room, self.clock.now(), &mend, Reads::default());
        let mut room = applied.room;
        room.version += 1;
        let chunks = |segment: &anteroom_core::Segment| {
            let generation = segment.generation;
            segment.taken.chunks().map(move |(index, _)| (generation, index)).collect::<Vec<_>>()
        };
        let touched_chunks: BTreeSet<_> = room.segments.iter().flat_map(chunks).collect();
        (room, Effects { changed: true, touched_chunks, ..Effects::default() })
    }
}
