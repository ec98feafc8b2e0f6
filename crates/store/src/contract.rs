//! What every store promises, in words and as a trait. The store remembers and compares; it never decides.
//!
//! # The contract
//!
//! * **Snapshots.** [`Store::load`] returns the room as the last commit left it, with the number of joins as of now.
//! * **Conditional commits.** [`Store::commit`] writes the new room, its sessions, its chunks of taken bits, its events and its
//!   audit record in one transaction, if and only if the stored version is the expected one. Otherwise it writes nothing and
//!   returns the newer snapshot; the caller applies the same operations to that and tries again.
//! * **Joins commute.** [`Store::join`] adds to the number of joins without looking at the version, only at the *epoch*: an
//!   epoch ends whenever a join would mean something else (another state, another line). A commit adds its own joins to what
//!   is stored, so that joins of other nodes in between are kept; it answers with the total. Where that cannot be (a commit
//!   that opens a new line has counted the old one, or the positions do not suffice for both), the commit conflicts.
//! * **A deleted room never comes back.** [`Store::delete_room`] ends a room at the expected version. What it leaves behind is a
//!   [`Trace`]; a commit that makes a room under its name must be later in generation, version and epoch, or it conflicts. So no
//!   ticket, commit or join that was meant for the old room fits the new one.
//! * **Nothing is done twice.** Every commit and join names its node and number. Asking again with the same number answers
//!   as the first time and changes nothing; an older number conflicts; a snapshot tells which number of a node it contains.
//! * **Durable before answered.** When a call returns `Ok`, what it wrote survives whatever the store claims to survive.
//! * **Errors are data.** *Transient*: nothing happened, try later. *Ambiguous*: it may have happened; load, look, and never
//!   retry blindly. *Permanent*: this store will not work again without an operator.
//! * **Backups are whole.** [`Store::backup`] is one consistent view; [`Store::restore`] takes all of one or leaves everything as
//!   it was.
//! * **Order.** Calls of one caller that awaits each are seen in that order by everybody.
//! * **Lineages.** A store that may have lost something it had acknowledged (after a failover, or back from a disk that was not
//!   synchronous) goes on under another [`Lineage`]. Commits and joins name the lineage they were computed under; under another one
//!   they conflict. A room that was last committed under an earlier one is not *continuous*: it takes nothing but a commit that
//!   *mends* it, for which the caller has considered what may be missing. Making a room names no lineage.
//! * **No room goes without a trace.** One that is neither there nor has a trace was not deleted: the store has lost it.
//! * **Leases save work, no more.** [`Store::poll`] gives a room's lease to one node at a time. Nothing relies on it:
//!   a holder that slept through its lease finds its commits in conflict.

use anteroom_core::{
    Effects, Event, EventClass, Generation, MAX_POSITION, RequestId, Room, RoomId, Session, SessionKey,
    UnixMillis,
};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

use crate::backup::BackupStream;
use crate::backup::restore::{Restore, RestoreError};
use crate::clock::Clock;
pub use crate::cursor::Cursor;

/// How long a session stays readable after its end. After that its ticket answers "gone", never with a second pass.
pub const SESSION_RETENTION_MILLIS: u64 = 24 * 3600 * 1000;
/// How many events of rooms and of the server the outbox keeps, the newest.
pub const ROOM_EVENTS_MAX: u64 = 100_000;
/// How many events of visitors it keeps beside them, the newest.
pub const VISITOR_EVENTS_MAX: u64 = 500_000;
/// How many audit records are kept.
pub const AUDIT_MAX: u64 = 100_000;
/// Longest text of one field of an audit record, in bytes.
pub const AUDIT_TEXT_MAX_BYTES: usize = 1_024;
/// How many names of deleted rooms have a trace of their own. Beyond it names share one, which is later than each of theirs.
pub const TRACES_MAX: u64 = 10_000;

/// How many answers to repeatable calls are kept for a room; beyond it the oldest go first.
pub const ANSWERS_MAX: usize = 65_536;

/// What a repeatable call is known by: a digest of what its caller chose.
pub type AnswerKey = [u8; 32];

/// One running server: a UUID made at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeId(pub u128);

/// An unbroken history of a store: whatever was acknowledged under it is still there under it. Opaque; compared, never ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Lineage(pub u128);

/// Why a store did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Nothing happened; it may work later.
    #[error("the store is not available: {0}")]
    Transient(String),
    /// It may or may not have happened.
    #[error("the store did not say whether it happened: {0}")]
    Ambiguous(String),
    /// It will not work without an operator.
    #[error("the store does not work: {0}")]
    Permanent(String),
}

/// A room as the store has it.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The room.
    pub room: Room,
    /// The number of the last commit or join of the asking node that it contains.
    pub last_number: Option<u64>,
    /// The store's lineage now.
    pub lineage: Lineage,
    /// Whether the room was last committed under that lineage. Otherwise something may be missing.
    pub is_continuous: bool,
}

/// Who asked for a change, for the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// When.
    pub at: UnixMillis,
    /// In which room; `None` for what concerns the whole server.
    pub room: Option<RoomId>,
    /// Who, e.g. the name of an API key.
    pub actor: String,
    /// What, in words.
    pub action: String,
    /// What else there is to say.
    pub detail: Option<String>,
}

impl AuditRecord {
    /// A record whose texts are cut at [`AUDIT_TEXT_MAX_BYTES`].
    pub fn new(at: UnixMillis, room: Option<RoomId>, actor: &str, action: &str) -> Self {
        Self { at, room, actor: truncate(actor), action: truncate(action), detail: None }
    }

    /// The same with something more to say, cut likewise.
    #[must_use]
    pub fn with_detail(self, detail: &str) -> Self {
        Self { detail: Some(truncate(detail)), ..self }
    }
}

fn truncate(text: &str) -> String {
    const CUT: &str = "...";
    if text.len() <= AUDIT_TEXT_MAX_BYTES {
        return text.to_owned();
    }
    let kept = &text[..text.floor_char_boundary(AUDIT_TEXT_MAX_BYTES - CUT.len())];
    format!("{kept}{CUT}")
}

/// What an event is known by, within its room or the server: the write that it came with, and its place in that write. Where a
/// write is done again, or collected twice, its events have the same ids again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EventId {
    /// The node that wrote it; 0 for events of an older program, which had no ids.
    pub node: u128,
    /// The version that the room got by that write; 0 where it came with no write of a room.
    pub version: u64,
    /// The number of the write among the node's, since the room was loaded.
    pub number: u64,
    /// Its place among the events of that write.
    pub index: u32,
}

impl std::fmt::Display for EventId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:032x}-{}-{}-{}", self.node, self.version, self.number, self.index)
    }
}

/// An event as the outbox keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// What it is known by.
    pub id: EventId,
    /// When it happened.
    pub at: UnixMillis,
    /// In which room; `None` for what concerns the whole server.
    pub room: Option<RoomId>,
    /// What happened.
    pub event: Event,
}

/// How many events of a class are kept.
pub const fn events_max(class: EventClass) -> u64 {
    match class {
        EventClass::Room => ROOM_EVENTS_MAX,
        EventClass::Visitor => VISITOR_EVENTS_MAX,
    }
}

/// Events of one class that are not kept any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DroppedEvents {
    /// All up to this number are gone.
    pub through: u64,
    /// How many that were.
    pub count: u64,
}

/// How far the outbox has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutboxState {
    /// The number of the last event.
    pub last: u64,
    /// What is gone of the events of rooms.
    pub room: DroppedEvents,
    /// What is gone of the events of visitors.
    pub visitor: DroppedEvents,
    /// Another one: the store has been emptied since, and numbers begin anew.
    pub incarnation: u64,
    /// Another one: numbers may have been taken back, by a failover or a restore. What a reader remembers by itself is worth nothing;
    /// its cursor is as the store has it.
    pub history: u64,
}

impl OutboxState {
    /// What is gone of a class.
    pub const fn dropped(&self, class: EventClass) -> DroppedEvents {
        match class {
            EventClass::Room => self.room,
            EventClass::Visitor => self.visitor,
        }
    }

    pub(crate) const fn dropped_mut(&mut self, class: EventClass) -> &mut DroppedEvents {
        match class {
            EventClass::Room => &mut self.room,
            EventClass::Visitor => &mut self.visitor,
        }
    }
}

/// A change of one room.
#[derive(Debug, Clone)]
pub struct Commit {
    /// Which room.
    pub room: RoomId,
    /// Whose commit.
    pub node: NodeId,
    /// Its number among the node's commits and joins; rising.
    pub number: u64,
    /// The version it was computed from; `None` if the room must not exist yet.
    pub expected: Option<u64>,
    /// The lineage it was computed under; not looked at where the room must not exist yet.
    pub lineage: Lineage,
    /// Whether it takes account of what may be missing from a room that is not continuous.
    pub mends: bool,
    /// Whether `next` has a newest generation that the store does not know yet.
    pub opens_line: bool,
    /// The last position handed out in the newest generation of the room it was computed from.
    pub joined_before: u64,
    /// The room as it should be.
    pub next: Room,
    /// What to write with it.
    pub effects: Effects,
    /// Changes by people, for the audit.
    pub audit: Vec<AuditRecord>,
}

impl Commit {
    /// The joins it adds to the newest generation.
    pub fn joins(&self) -> u64 {
        let newest = self.next.newest();
        newest.joined - if self.opens_line { newest.base } else { self.joined_before }
    }

    /// Its events, as the outbox keeps them.
    pub fn events(&self) -> impl Iterator<Item = StoredEvent> {
        (0..).zip(&self.effects.events).map(|(index, event)| StoredEvent {
            id: EventId { node: self.node.0, version: self.next.version, number: self.number, index },
            at: self.next.clock,
            room: Some(self.room.clone()),
            event: event.clone(),
        })
    }

    pub(crate) fn own_joins(&self) -> OwnJoins {
        OwnJoins {
            opens_line: self.opens_line,
            base: self.next.newest().base,
            joined_before: self.joined_before,
            count: self.joins(),
        }
    }
}

/// What a commit has to do with joins: enough to decide whether it fits beside those of other nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnJoins {
    pub(crate) opens_line: bool,
    pub(crate) base: u64,
    pub(crate) joined_before: u64,
    pub(crate) count: u64,
}

impl OwnJoins {
    /// The last position handed out after the commit, given the last one `stored` (`None` without a room); `None` if the commit
    /// cannot stand beside the joins in between.
    pub(crate) fn joined_after(self, stored: Option<u64>) -> Option<u64> {
        match stored {
            Some(stored) if self.opens_line && stored != self.joined_before => None,
            Some(stored) if !self.opens_line => stored.checked_add(self.count),
            _ => self.base.checked_add(self.count),
        }
        .filter(|&joined| joined <= MAX_POSITION)
    }
}

/// What became of a commit.
#[derive(Debug, Clone)]
pub enum CommitOutcome {
    /// Written.
    Done {
        /// The last position handed out in the newest generation: other nodes may have joined visitors in between.
        joined: u64,
    },
    /// Another commit was faster; nothing was written.
    Conflict(Option<Box<Snapshot>>),
}

/// A room to delete, with everything of it.
#[derive(Debug, Clone)]
pub struct Deletion {
    /// Which room.
    pub room: RoomId,
    /// The version it was decided on.
    pub expected: u64,
    /// By whom, for the audit.
    pub audit: Option<AuditRecord>,
    /// What to tell of it.
    pub events: Vec<StoredEvent>,
}

/// What became of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionOutcome {
    /// Deleted; the name is free.
    Done,
    /// The room has another version, or there is none; nothing was written.
    Conflict,
}

/// What is remembered of a deleted room, so that one made again under its name can never be taken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    /// Its newest generation.
    pub generation: Generation,
    /// Its last version.
    pub version: u64,
    /// Its last epoch.
    pub epoch: u64,
}

impl Trace {
    pub(crate) fn of(room: &Room) -> Self {
        Self { generation: room.newest().generation, version: room.version, epoch: room.epoch }
    }

    /// Whether the other is later in every respect.
    pub(crate) fn precedes(&self, other: &Self) -> bool {
        self.generation < other.generation && self.version < other.version && self.epoch < other.epoch
    }

    /// The later of both in each respect.
    pub(crate) fn merge(self, other: Self) -> Self {
        Self {
            generation: self.generation.max(other.generation),
            version: self.version.max(other.version),
            epoch: self.epoch.max(other.epoch),
        }
    }
}

/// Visitors to add to a room's newest generation.
#[derive(Debug, Clone)]
pub struct JoinBatch {
    /// Which room.
    pub room: RoomId,
    /// Whose batch.
    pub node: NodeId,
    /// Its number among the node's commits and joins; rising.
    pub number: u64,
    /// The epoch it was meant for.
    pub epoch: u64,
    /// The lineage it was meant for.
    pub lineage: Lineage,
    /// How many visitors; the caller has made sure that the generation can take them.
    pub count: u64,
}

/// What became of a batch of joins.
#[derive(Debug, Clone)]
pub enum JoinOutcome {
    /// Written; the batch has the positions from `first` on.
    Joined {
        /// The first position.
        first: u64,
    },
    /// The epoch is over (or the positions have run out); nothing was written.
    Conflict(Option<Box<Snapshot>>),
}

/// How far a room has come, as a poll shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomPoll {
    /// Its newest generation.
    pub generation: Generation,
    /// Its version.
    pub version: u64,
    /// The last position handed out in its newest generation.
    pub joined: u64,
    /// The store's lineage now.
    pub lineage: Lineage,
    /// Whether the room was last committed under it.
    pub is_continuous: bool,
    /// Whether the asking node has the room's lease now.
    pub holds_lease: bool,
}

/// The answer to a poll: everything that other nodes may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollAnswer {
    /// The rooms asked for, in that order; `None` where there is none.
    pub rooms: Vec<Option<RoomPoll>>,
    /// Another number than last time whenever a value was replaced.
    pub values: u64,
    /// Another number than last time whenever a room was made or deleted.
    pub names: u64,
}

/// What another node has done. A notification may come twice, late, or never: only a poll is reliable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notification {
    /// A commit to this room.
    Room(RoomId),
    /// A room was made or deleted.
    Names,
    /// A value was replaced.
    Values,
}

/// How many notifications wait for a subscriber. Beyond it they are lost.
pub const NOTIFICATIONS_MAX: usize = 1_024;

/// Where state lives.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The rooms there are.
    async fn rooms(&self) -> Result<Vec<RoomId>, StoreError>;

    /// A room, and what of `node` it contains.
    async fn load(&self, room: &RoomId, node: NodeId) -> Result<Option<Snapshot>, StoreError>;

    /// Writes a change if its version is still the expected one.
    async fn commit(&self, commit: &Commit) -> Result<CommitOutcome, StoreError>;

    /// Deletes a room if its version is still the expected one. Nothing of it can be read from then on, and its name is free.
    async fn delete_room(&self, deletion: &Deletion) -> Result<DeletionOutcome, StoreError>;

    /// What a room made under this name must be later than. A commit that makes one which is not, conflicts.
    async fn trace(&self, room: &RoomId) -> Result<Option<Trace>, StoreError>;

    /// Adds visitors if the epoch is still the given one.
    async fn join(&self, batch: &JoinBatch) -> Result<JoinOutcome, StoreError>;

    /// Several sessions, in the order asked for.
    async fn sessions(&self, room: &RoomId, keys: &[SessionKey]) -> Result<Vec<Option<Session>>, StoreError> {
        let mut sessions = Vec::with_capacity(keys.len());
        for &key in keys {
            sessions.push(self.session(room, key).await?);
        }
        Ok(sessions)
    }

    /// One session.
    async fn session(&self, room: &RoomId, key: SessionKey) -> Result<Option<Session>, StoreError>;

    /// Active sessions of these generations that end at or before `until`, earliest end first, at most `limit`.
    async fn sessions_ended(
        &self,
        room: &RoomId,
        generations: &[Generation],
        until: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError>;

    /// When the next active session of these generations ends.
    async fn next_session_end(
        &self,
        room: &RoomId,
        generations: &[Generation],
    ) -> Result<Option<UnixMillis>, StoreError>;

    /// Request ids of retained sessions of these generations, whatever became of them, whose pass ended before `before`.
    async fn expired_passes(
        &self,
        room: &RoomId,
        generations: &[Generation],
        before: UnixMillis,
    ) -> Result<Vec<RequestId>, StoreError>;

    /// Events of the outbox after `after` (0: from the oldest kept), with their rising numbers, at most `limit`. Whoever continues
    /// behind the last number that was read misses none, except what [`Store::outbox`] says is gone.
    async fn events(&self, after: u64, limit: usize) -> Result<Vec<(u64, StoredEvent)>, StoreError>;

    /// How far the outbox has come, and what is gone of it.
    async fn outbox(&self) -> Result<OutboxState, StoreError>;

    /// Writes events that come with no other write.
    async fn append_events(&self, events: &[StoredEvent]) -> Result<(), StoreError>;

    /// Drops the events up to a number, because they are old.
    async fn drop_events(&self, through: u64) -> Result<(), StoreError>;

    /// Takes a work that one node does at a time, or goes on with it, for that long; says whether this node has it. Like a room's
    /// lease it saves work: what must not be done by two is guarded by [`Store::save_cursor`].
    async fn hold_work(&self, work: &str, node: NodeId, lease: Duration) -> Result<bool, StoreError>;

    /// The cursor of that name, if one was saved.
    async fn cursor(&self, name: &str) -> Result<Option<Cursor>, StoreError> {
        let bytes = self.value(&Cursor::value_name(name)).await?;
        let read = |bytes: Vec<u8>| Cursor::from_bytes(&bytes);
        bytes.map(read).transpose().map_err(|error| StoreError::Permanent(error.to_string()))
    }

    /// Saves a cursor if this node has the work of its name and the outbox still has that history; says whether it did. Nobody is
    /// notified.
    async fn save_cursor(
        &self,
        name: &str,
        node: NodeId,
        history: u64,
        cursor: &Cursor,
    ) -> Result<bool, StoreError>;

    /// Forgets a cursor.
    async fn delete_cursor(&self, name: &str) -> Result<(), StoreError>;

    /// Audit records with their rising numbers, newest first, at most `limit`: those with a number below `before`, and of `room`
    /// where one is given. To find those of one room it may look at every record there is.
    async fn audit(
        &self,
        before: Option<u64>,
        room: Option<&RoomId>,
        limit: usize,
    ) -> Result<Vec<(u64, AuditRecord)>, StoreError>;

    /// A value that belongs to the whole store: key ring, check value, hashes.
    async fn value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Replaces such a value if it still is `expected`, and keeps the audit record with it; returns whether it did.
    async fn replace_value(
        &self,
        name: &str,
        expected: Option<&[u8]>,
        new: &[u8],
        audit: Option<&AuditRecord>,
    ) -> Result<bool, StoreError> {
        self.replace_value_and_tell(name, expected, new, audit, &[]).await
    }

    /// The same, and writes events with it.
    async fn replace_value_and_tell(
        &self,
        name: &str,
        expected: Option<&[u8]>,
        new: &[u8],
        audit: Option<&AuditRecord>,
        events: &[StoredEvent],
    ) -> Result<bool, StoreError>;

    /// Everything it has, as of one moment, while it goes on working. `taken_at` is that moment as the backup will tell it.
    async fn backup(&self, taken_at: UnixMillis) -> Result<BackupStream, StoreError>;

    /// Replaces everything it has, all or nothing; see [`crate::backup::restore`] for what it must not forget.
    async fn restore(&self, restore: Restore) -> Result<(), RestoreError>;

    /// Reads how far all these rooms have come at once, and takes or extends the lease of each for `node`, for that
    /// long. A holder keeps its lease while it extends it; no other node gets it before it has run out. A room that is
    /// not there has no lease.
    async fn poll(&self, rooms: &[RoomId], node: NodeId, lease: Duration) -> Result<PollAnswer, StoreError>;

    /// Keeps the answer to a repeatable call for that long, unless one is kept under its key already: then that is returned, and
    /// stays. Nothing relies on it beyond that: it may be forgotten early, and it is in no backup.
    async fn keep_answer(
        &self,
        room: &RoomId,
        key: AnswerKey,
        answer: &[u8],
        kept: Duration,
    ) -> Result<Option<Vec<u8>>, StoreError>;

    /// The answer that is kept under a key.
    async fn kept_answer(&self, room: &RoomId, key: &AnswerKey) -> Result<Option<Vec<u8>>, StoreError>;

    /// Returns when what was written to this room under this lineage so far would survive whatever the store claims to
    /// survive, including the loss of the machine that answered. Where that is not known in time: transient, and it may
    /// be asked again. A store that one process has makes everything safe before it answers.
    async fn confirm(&self, _room: &RoomId, _lineage: Lineage) -> Result<(), StoreError> {
        Ok(())
    }

    /// Delivers notifications of what other nodes do, from now on, as well as it can.
    fn subscribe(&self) -> mpsc::Receiver<Notification>;

    /// Whether other nodes may change what is here.
    fn is_shared(&self) -> bool;

    /// The clock that all nodes on this store go by; `None`: the machine's.
    fn clock(&self) -> Option<Arc<dyn Clock>> {
        None
    }

    /// Whether it works, as far as it knows without being asked to do something.
    fn is_ready(&self) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_between_characters() {
        let long = "ä".repeat(AUDIT_TEXT_MAX_BYTES);
        let record = AuditRecord::new(UnixMillis(0), None, "short", &long).with_detail(&long);
        assert_eq!(record.actor, "short");
        for cut in [record.action, record.detail.unwrap()] {
            assert!(cut.len() <= AUDIT_TEXT_MAX_BYTES && cut.ends_with("ä..."), "{}", cut.len());
        }
    }
}
