//! The data model of the embedded store. Everything it keeps is one of these tables.

use anteroom_core::{Generation, SessionKey, UnixMillis};
use redb::{ReadableTable, ReadableTableMetadata, TableDefinition};

use super::Failure;
use crate::contract::{TRACES_MAX, Trace};

/// A room's number, so that the keys of its records are short and of fixed width. It is not used again while records of a
/// deleted room wait for their deletion.
pub(super) type RoomNumber = u32;
/// (room, generation opened, incarnation, position).
pub(super) type SessionRowKey = (RoomNumber, u32, u8, u64);
/// (room, generation opened, incarnation, end in milliseconds, position).
pub(super) type EndKey = (RoomNumber, u32, u8, u64, u64);
/// (room, generation opened, incarnation, chunk).
pub(super) type ChunkKey = (RoomNumber, u32, u8, u64);
/// (room, node).
pub(super) type NodeKey = (RoomNumber, u128);
/// (generation opened, incarnation, version, epoch).
pub(super) type StoredTrace = (u32, u8, u64, u64);
/// (room, generation opened, incarnation).
pub(super) type Line = (RoomNumber, u32, u8);

/// Values of the whole store: schema version, check value of the secrets, key ring, hashes.
pub(super) const VALUES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("values");
/// Room id to its number.
pub(super) const ROOM_NUMBERS: TableDefinition<'_, &str, RoomNumber> = TableDefinition::new("room_numbers");
/// A room as its last commit left it, without its chunks.
pub(super) const ROOMS: TableDefinition<'_, RoomNumber, &[u8]> = TableDefinition::new("rooms");
/// What joins and commits compare: last position handed out, epoch, version.
pub(super) const LINES: TableDefinition<'_, RoomNumber, (u64, u64, u64)> = TableDefinition::new("lines");
/// Last commit or join of each node in a room: its number, and the last position handed out by it. Emptied when a process opens
/// the file, because its nodes are all it will hear of.
pub(super) const LAST: TableDefinition<'_, NodeKey, (u64, u64)> = TableDefinition::new("last");
/// What is remembered of deleted rooms by their names: generation opened, incarnation, version, epoch. The name that no room can
/// have, the empty one, stands for all that have no trace of their own any more.
pub(super) const TRACES: TableDefinition<'_, &str, StoredTrace> = TableDefinition::new("traces");
/// Chunks of taken bits.
pub(super) const CHUNKS: TableDefinition<'_, ChunkKey, &[u8; 512]> = TableDefinition::new("chunks");
/// Sessions.
pub(super) const SESSIONS: TableDefinition<'_, SessionRowKey, &[u8]> = TableDefinition::new("sessions");
/// Active sessions by their end: what the tick sweeps.
pub(super) const ENDING: TableDefinition<'_, EndKey, ()> = TableDefinition::new("ending");
/// All retained sessions by their end, with their request id: what `expired_tokens` lists and retention deletes.
pub(super) const BY_END: TableDefinition<'_, EndKey, &[u8; 16]> = TableDefinition::new("by_end");
/// Lines closed for good, whose records are deleted little by little.
pub(super) const CLOSED_LINES: TableDefinition<'_, Line, ()> = TableDefinition::new("closed_lines");
/// Events of rooms and of the server, by a number that rises over all events.
pub(super) const OUTBOX: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("outbox");
/// Events of visitors, by a number that rises over all events.
pub(super) const VISITOR_EVENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("visitor_events");
/// How far the outbox has come: see the names below.
pub(super) const OUTBOX_NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("outbox_numbers");
/// Who changed what, by a rising number.
pub(super) const AUDIT: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("audit");

/// The name under which names without a trace of their own share one.
const SHARED_TRACE: &str = "";

pub(super) const fn trace_of((opened, incarnation, version, epoch): StoredTrace) -> Trace {
    Trace { generation: Generation { opened, incarnation }, version, epoch }
}

/// What a room of that name must be later than.
pub(super) fn read_trace(
    traces: &impl ReadableTable<&'static str, StoredTrace>,
    name: &str,
) -> Result<Option<Trace>, Failure> {
    let mut found: Option<Trace> = None;
    for name in [name, SHARED_TRACE] {
        if let Some(stored) = traces.get(name)? {
            let trace = trace_of(stored.value());
            found = Some(found.map_or(trace, |found| found.merge(trace)));
        }
    }
    Ok(found)
}

/// Remembers a trace; with too many of them, the first gives up its own for the shared one.
pub(super) fn leave_trace(
    traces: &mut redb::Table<'_, &'static str, StoredTrace>,
    name: &str,
    trace: Trace,
) -> Result<(), Failure> {
    let value =
        |trace: Trace| (trace.generation.opened, trace.generation.incarnation, trace.version, trace.epoch);
    traces.insert(name, value(trace))?;
    if traces.len()? <= TRACES_MAX {
        return Ok(());
    }
    let surplus = traces.range("-"..)?.next().transpose()?.map(|(name, _)| name.value().to_owned());
    if let Some(surplus) = surplus
        && let Some(shared) = read_trace(traces, &surplus)?
    {
        traces.insert(SHARED_TRACE, value(shared))?;
        traces.remove(surplus.as_str())?;
    }
    Ok(())
}

pub(super) fn session_row_key(room: RoomNumber, key: SessionKey) -> SessionRowKey {
    (room, key.generation.opened, key.generation.incarnation, key.position.get())
}

pub(super) fn end_key(room: RoomNumber, end: UnixMillis, key: SessionKey) -> EndKey {
    (room, key.generation.opened, key.generation.incarnation, end.0, key.position.get())
}

pub(super) fn line(room: RoomNumber, generation: Generation) -> Line {
    (room, generation.opened, generation.incarnation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_a_trace_of_their_own_share_one_that_is_later_than_each() {
        let database =
            redb::Builder::new().create_with_backend(redb::backends::InMemoryBackend::new()).unwrap();
        let transaction = database.begin_write().unwrap();
        let mut traces = transaction.open_table(TRACES).unwrap();
        let trace = |number: u64| Trace {
            generation: Generation { opened: u32::try_from(number).unwrap(), incarnation: 1 },
            version: 3 * number,
            epoch: 1_000_000 - number,
        };
        let name = |number: u64| format!("-room-{number:06}");
        for number in 0..TRACES_MAX + 3 {
            leave_trace(&mut traces, &name(number), trace(number)).unwrap();
            assert!(traces.len().unwrap() <= TRACES_MAX + 1, "their own, and the shared one");
        }
        // Three have given theirs up.
        let shared = trace(0).merge(trace(2));
        assert_eq!(read_trace(&traces, "never-deleted").unwrap(), Some(shared));
        assert_eq!(read_trace(&traces, &name(2)).unwrap(), Some(shared));
        assert_eq!(read_trace(&traces, &name(9)).unwrap(), Some(trace(9).merge(shared)));
    }
}
