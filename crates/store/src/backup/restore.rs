//! What a verified backup becomes in a store, whichever it is.
//!
//! The content of the store is replaced, in one transaction, with three exceptions, because some things must never be taken back:
//! the store still knows how far each line had come and which rooms it had, so that no position, version or epoch is used
//! again; numbers of events go on rising; and the audit keeps what it has beyond the backup's.
//!
//! The store decides nothing about rooms. What becomes of each is up to [`Revise`], which knows the rules.

use std::collections::{BTreeMap, BTreeSet};

use anteroom_core::{Effects, Generation, Refusal, Room, RoomId, Session};

use super::reader::{BackupError, Item, VerifiedBackup};
use crate::contract::{AuditRecord, Cursor, EventId, NodeId, StoreError, StoredEvent, Trace};

/// Why a backup was not restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// It cannot be: nothing was changed.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The caller does not accept its values: nothing was changed.
    #[error("{0}")]
    Refused(String),
    /// The rules do not take one of its rooms: nothing was changed.
    #[error("the room {room} cannot be restored: {refusal}")]
    Room {
        /// Which room.
        room: RoomId,
        /// Why not.
        refusal: Refusal,
    },
    /// Another one is being restored: nothing was changed.
    #[error("another backup is being restored")]
    Busy,
    /// The server is going down: nothing was changed.
    #[error("the server is shutting down")]
    Stopped,
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A backup to restore.
pub struct Restore {
    /// The backup.
    pub backup: VerifiedBackup,
    /// What becomes of its rooms.
    pub revise: Revise,
    /// By whom, for the audit.
    pub audit: Option<AuditRecord>,
    /// The node that restores: with the versions that rooms get, it names the events that come with it.
    pub node: NodeId,
}

/// Decides what a room of a backup becomes, and what is to be written with it. Its chunks are written as a whole.
pub type Revise = Box<dyn FnMut(ReturningRoom<'_>) -> Result<(Room, Effects), Refusal> + Send>;

/// A room of a backup, to be written to a store that may know more.
#[derive(Debug)]
pub struct ReturningRoom<'a> {
    /// Its name.
    pub id: &'a RoomId,
    /// As the backup has it.
    pub room: Room,
    /// The lines of the room that the store has under that name, oldest first; none if there is no such room.
    pub known: &'a [KnownLine],
    /// What it must be later than, so that nothing meant for what was here before fits it.
    pub later_than: Option<Trace>,
}

/// How far a line has come in the store that a backup is restored to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownLine {
    /// Which line.
    pub generation: Generation,
    /// The position before its first.
    pub base: u64,
    /// The last position handed out.
    pub joined: u64,
}

/// What a store knows and must not forget when its content is replaced.
#[derive(Debug, Default)]
pub(crate) struct HighWaterMarks {
    rooms: BTreeMap<RoomId, Vec<KnownLine>>,
    /// By name; the empty one stands for all that have none of their own.
    traces: BTreeMap<String, Trace>,
    /// The number of the last event.
    pub(crate) last_event: u64,
}

impl HighWaterMarks {
    /// A room that is there; with the present number of joins.
    pub(crate) fn note_room(&mut self, id: RoomId, room: &Room) {
        let lines = room.segments.iter().map(|segment| KnownLine {
            generation: segment.generation,
            base: segment.base,
            joined: segment.joined,
        });
        self.note_trace(id.as_str(), Trace::of(room));
        self.rooms.insert(id, lines.collect());
    }

    pub(crate) fn note_trace(&mut self, name: &str, trace: Trace) {
        let known = self.traces.get(name).map_or(trace, |known| known.merge(trace));
        self.traces.insert(name.to_owned(), known);
    }

    fn later_than(&self, room: &RoomId) -> Option<Trace> {
        let of_name = self.traces.get(room.as_str()).copied();
        of_name.into_iter().chain(self.traces.get("").copied()).reduce(Trace::merge)
    }
}

/// Takes the content of a backup. Whatever it had is gone when it is asked for the first time, and it forgets everything again if
/// anything fails.
pub(crate) trait Target {
    fn value(&mut self, name: &str, bytes: &[u8]) -> Result<(), StoreError>;
    fn room(&mut self, id: &RoomId, room: &Room, closed: &[Generation]) -> Result<(), StoreError>;
    /// A session of the last room.
    fn session(&mut self, session: &Session) -> Result<(), StoreError>;
    fn event(&mut self, number: u64, event: &StoredEvent) -> Result<(), StoreError>;
    fn audit(&mut self, number: u64, record: &AuditRecord) -> Result<(), StoreError>;
    fn trace(&mut self, name: &str, trace: Trace) -> Result<(), StoreError>;
}

/// Puts the content of a backup into a target.
pub(crate) fn replay(
    backup: &mut VerifiedBackup,
    mut known: HighWaterMarks,
    (revise, node): (&mut Revise, NodeId),
    target: &mut impl Target,
) -> Result<(), RestoreError> {
    let backup_last = backup.last_event();
    let shift = known.last_event.saturating_sub(backup_last);
    let mut last_event = known.last_event.max(backup.last_event());
    let (mut restored, mut events) = (BTreeSet::new(), vec![]);
    let mut items = backup.items()?;
    while let Some(item) = items.next()? {
        match item {
            Item::Value { name, bytes } if Cursor::is_value_name(&name) => {
                // What had been dealt with then must not be dealt with again, and nothing is behind the last event there is.
                let cursor =
                    Cursor::from_bytes(&bytes).map_err(|error| StoreError::Permanent(error.to_string()))?;
                target.value(&name, &cursor.at_most(backup_last).shifted(shift).to_bytes())?;
            }
            Item::Value { name, bytes } => target.value(&name, &bytes)?,
            Item::Trace { name, trace } => known.note_trace(&name, trace),
            Item::Room { id, room } => {
                let lines = known.rooms.get(&id).map_or(&[][..], Vec::as_slice);
                let later_than = known.later_than(&id);
                let returning = ReturningRoom { id: &id, room: *room, known: lines, later_than };
                let revised = revise(returning);
                let (room, effects) =
                    revised.map_err(|refusal| RestoreError::Room { room: id.clone(), refusal })?;
                target.room(&id, &room, &effects.closed_generations)?;
                let event = |(index, event)| {
                    let id_of_event = EventId { node: node.0, version: room.version, number: 0, index };
                    StoredEvent { id: id_of_event, at: room.clock, room: Some(id.clone()), event }
                };
                events.extend((0..).zip(effects.events).map(event));
                restored.insert(id);
            }
            Item::Session(session) => target.session(&session)?,
            Item::Event { number, event } => target.event(number + shift, &event)?,
            Item::Audit { number, record } => target.audit(number, &record)?,
        }
    }
    for event in events {
        last_event += 1;
        target.event(last_event, &event)?;
    }
    for (name, trace) in known.traces {
        if !restored.contains(name.as_str()) {
            target.trace(&name, trace)?;
        }
    }
    Ok(())
}
