//! What one request does inside the writer's transaction.

use std::borrow::Borrow;
use std::ops::RangeInclusive;

use anteroom_core::{
    EventClass, Generation, RequestId, RoomId, Session, SessionKey, SessionStatus, UnixMillis,
};
use redb::{ReadableTable, Table, TableDefinition, WriteTransaction};

use super::tables::{
    AUDIT, BY_END, CHUNKS, CLOSED_LINES, ENDING, LAST, LINES, ROOM_NUMBERS, ROOMS, RoomNumber, SESSIONS,
    TRACES, VALUES, end_key, leave_trace, line, read_trace, session_row_key,
};
use super::{Failure, LINEAGE, outbox, read_snapshot};
use crate::codec;
use crate::contract::{
    AUDIT_MAX, AuditRecord, Commit, CommitOutcome, Cursor, Deletion, DeletionOutcome, JoinBatch, JoinOutcome,
    NodeId, OwnJoins, SESSION_RETENTION_MILLIS, Snapshot, StoredEvent, Trace,
};

/// How many records of closed lines and of retained sessions one round of housekeeping deletes.
pub(super) const HOUSEKEEPING_ROWS_MAX: usize = 512;

/// A commit as bytes, so that the writer thread does no more than it must, and the room itself stays with its owner.
pub(super) struct EncodedCommit {
    name: RoomId,
    node: NodeId,
    number: u64,
    expected: Option<u64>,
    /// Whether it was computed from a room of this very history.
    fits: bool,
    joins: OwnJoins,
    trace: Trace,
    epoch: u64,
    version: u64,
    room: Vec<u8>,
    sessions: Vec<EncodedSession>,
    chunks: Vec<(Generation, u64, Option<[u8; 512]>)>,
    closed: Vec<Generation>,
    events: Vec<EncodedEvent>,
    audit: Vec<Vec<u8>>,
}

/// An event as bytes, and what class it is of.
pub(super) struct EncodedEvent {
    pub(super) class: EventClass,
    pub(super) bytes: Vec<u8>,
}

impl EncodedEvent {
    pub(super) fn of(event: &StoredEvent) -> Self {
        Self { class: event.event.kind().class(), bytes: codec::encode_event(event) }
    }
}

struct EncodedSession {
    key: SessionKey,
    ends_at: UnixMillis,
    active: bool,
    request_id: RequestId,
    bytes: Vec<u8>,
}

impl EncodedCommit {
    pub(super) fn new(commit: &Commit) -> Self {
        let (next, effects) = (&commit.next, &commit.effects);
        let chunk = |&(generation, index): &(Generation, u64)| {
            let segment = next.segments.iter().find(|segment| segment.generation == generation);
            let chunk = segment.and_then(|segment| segment.taken.chunk(index));
            (generation, index, chunk.map(codec::encode_chunk))
        };
        let session = |session: &Session| EncodedSession {
            key: session.key,
            ends_at: session.ends_at(),
            active: session.status == SessionStatus::Active,
            request_id: session.request_id,
            bytes: codec::encode_session(session),
        };
        Self {
            name: commit.room.clone(),
            node: commit.node,
            number: commit.number,
            expected: commit.expected,
            fits: commit.expected.is_none() || commit.lineage == LINEAGE,
            joins: commit.own_joins(),
            trace: Trace::of(next),
            epoch: next.epoch,
            version: next.version,
            room: codec::encode_room(next),
            sessions: effects.sessions.iter().map(session).collect(),
            chunks: effects.touched_chunks.iter().map(chunk).collect(),
            closed: effects.closed_generations.clone(),
            events: commit.events().map(|event| EncodedEvent::of(&event)).collect(),
            audit: commit.audit.iter().map(codec::encode_audit).collect(),
        }
    }
}

fn number_of(transaction: &WriteTransaction, room: &RoomId) -> Result<Option<RoomNumber>, Failure> {
    Ok(transaction.open_table(ROOM_NUMBERS)?.get(room.as_str())?.map(|number| number.value()))
}

/// The number of a room that is made now; `None` if it is not later than the deleted one of its name.
fn number_for_new(
    transaction: &WriteTransaction,
    commit: &EncodedCommit,
) -> Result<Option<RoomNumber>, Failure> {
    let name = commit.name.as_str();
    let mut traces = transaction.open_table(TRACES)?;
    if read_trace(&traces, name)?.is_some_and(|trace| !trace.precedes(&commit.trace)) {
        return Ok(None);
    }
    traces.remove(name)?;
    let mut numbers = transaction.open_table(ROOM_NUMBERS)?;
    let closed = transaction.open_table(CLOSED_LINES)?;
    let mut highest = closed.last()?.map_or(0, |(line, _)| line.value().0);
    for entry in numbers.iter()? {
        highest = highest.max(entry?.1.value());
    }
    numbers.insert(name, highest + 1)?;
    Ok(Some(highest + 1))
}

pub(super) fn commit(
    transaction: &WriteTransaction,
    commit: &EncodedCommit,
) -> Result<CommitOutcome, Failure> {
    let existing = number_of(transaction, &commit.name)?;
    let (last, stored) = match existing {
        Some(number) => {
            let (last, lines) = (transaction.open_table(LAST)?, transaction.open_table(LINES)?);
            let last = last.get((number, commit.node.0))?.map(|last| last.value());
            (last, lines.get(number)?.map(|line| line.value()))
        }
        None => (None, None),
    };
    if let Some((_, joined)) = last.filter(|&(done, _)| done == commit.number) {
        return Ok(CommitOutcome::Done { joined });
    }
    let in_turn = commit.fits
        && last.is_none_or(|(done, _)| done < commit.number)
        && stored.map(|(_, _, version)| version) == commit.expected;
    let joined = commit.joins.joined_after(stored.map(|(joined, _, _)| joined));
    let Some(joined) = joined.filter(|_| in_turn) else {
        let snapshot = existing.map(|number| snapshot(transaction, number, commit.node)).transpose()?;
        return Ok(CommitOutcome::Conflict(snapshot.flatten().map(Box::new)));
    };
    let number = match existing {
        Some(number) => Some(number),
        None => number_for_new(transaction, commit)?,
    };
    let Some(number) = number else {
        return Ok(CommitOutcome::Conflict(None));
    };
    transaction.open_table(ROOMS)?.insert(number, commit.room.as_slice())?;
    transaction.open_table(LINES)?.insert(number, (joined, commit.epoch, commit.version))?;
    transaction.open_table(LAST)?.insert((number, commit.node.0), (commit.number, joined))?;
    write_sessions(transaction, number, &commit.sessions)?;
    write_chunks(transaction, number, &commit.chunks)?;
    close_lines(transaction, number, &commit.closed)?;
    outbox::append(transaction, &commit.events)?;
    append(transaction, AUDIT, &commit.audit, AUDIT_MAX)?;
    Ok(CommitOutcome::Done { joined })
}

/// Frees the name and takes away what makes it a room; its lines are deleted little by little, like all that are closed.
pub(super) fn delete_room(
    transaction: &WriteTransaction,
    deletion: &Deletion,
) -> Result<DeletionOutcome, Failure> {
    let name = deletion.room.as_str();
    let Some(number) = number_of(transaction, &deletion.room)? else {
        return Ok(DeletionOutcome::Conflict);
    };
    let mut lines = transaction.open_table(LINES)?;
    let mut rooms = transaction.open_table(ROOMS)?;
    let version = lines.get(number)?.map(|line| line.value().2);
    let room = rooms.get(number)?.map(|bytes| codec::decode_room(bytes.value())).transpose()?;
    let Some(room) = room.filter(|_| version == Some(deletion.expected)) else {
        return Ok(DeletionOutcome::Conflict);
    };
    leave_trace(&mut transaction.open_table(TRACES)?, name, Trace::of(&room))?;
    lines.remove(number)?;
    rooms.remove(number)?;
    transaction.open_table(ROOM_NUMBERS)?.remove(name)?;
    transaction.open_table(LAST)?.retain_in((number, 0)..=(number, u128::MAX), |_, _| false)?;
    let generations: Vec<Generation> = room.segments.iter().map(|segment| segment.generation).collect();
    close_lines(transaction, number, &generations)?;
    note_audit(transaction, deletion.audit.as_ref())?;
    let events: Vec<EncodedEvent> = deletion.events.iter().map(EncodedEvent::of).collect();
    outbox::append(transaction, &events)?;
    Ok(DeletionOutcome::Done)
}

/// The room as it is, for a caller whose version is outdated.
fn snapshot(
    transaction: &WriteTransaction,
    number: RoomNumber,
    node: NodeId,
) -> Result<Option<Snapshot>, Failure> {
    let rooms = transaction.open_table(ROOMS)?;
    let lines = transaction.open_table(LINES)?;
    let last = transaction.open_table(LAST)?;
    let chunks = transaction.open_table(CHUNKS)?;
    read_snapshot(&rooms, &lines, &last, &chunks, number, node)
}

fn write_sessions(
    transaction: &WriteTransaction,
    number: RoomNumber,
    written: &[EncodedSession],
) -> Result<(), Failure> {
    if written.is_empty() {
        return Ok(());
    }
    let mut sessions = transaction.open_table(SESSIONS)?;
    let mut ending = transaction.open_table(ENDING)?;
    let mut by_end = transaction.open_table(BY_END)?;
    for session in written {
        let end = end_key(number, session.ends_at, session.key);
        let before = sessions.insert(session_row_key(number, session.key), session.bytes.as_slice())?;
        let before = before.map(|bytes| codec::decode_session(bytes.value())).transpose()?;
        // A stay that was prolonged, or cut short, has another place in both indexes.
        if let Some(old_end) = before.map(|before| before.ends_at()).filter(|&old| old != session.ends_at) {
            let old = end_key(number, old_end, session.key);
            by_end.remove(old)?;
            ending.remove(old)?;
        }
        by_end.insert(end, &session.request_id.0)?;
        if session.active {
            ending.insert(end, ())?;
        } else {
            ending.remove(end)?;
        }
    }
    Ok(())
}

fn write_chunks(
    transaction: &WriteTransaction,
    number: RoomNumber,
    written: &[(Generation, u64, Option<[u8; 512]>)],
) -> Result<(), Failure> {
    if written.is_empty() {
        return Ok(());
    }
    let mut chunks = transaction.open_table(CHUNKS)?;
    for (generation, index, chunk) in written {
        let place = (number, generation.opened, generation.incarnation, *index);
        match chunk {
            Some(chunk) => drop(chunks.insert(place, chunk)?),
            None => drop(chunks.remove(place)?),
        }
    }
    Ok(())
}

fn close_lines(
    transaction: &WriteTransaction,
    number: RoomNumber,
    generations: &[Generation],
) -> Result<(), Failure> {
    if generations.is_empty() {
        return Ok(());
    }
    let mut closed = transaction.open_table(CLOSED_LINES)?;
    for &generation in generations {
        closed.insert(line(number, generation), ())?;
    }
    Ok(())
}

pub(super) fn note_audit(
    transaction: &WriteTransaction,
    record: Option<&AuditRecord>,
) -> Result<(), Failure> {
    let record: Vec<Vec<u8>> = record.into_iter().map(codec::encode_audit).collect();
    append(transaction, AUDIT, &record, AUDIT_MAX)
}

/// Adds records under the next numbers and drops the oldest beyond `limit`.
fn append(
    transaction: &WriteTransaction,
    table: TableDefinition<'_, u64, &'static [u8]>,
    records: &[Vec<u8>],
    limit: u64,
) -> Result<(), Failure> {
    if records.is_empty() {
        return Ok(());
    }
    let mut table = transaction.open_table(table)?;
    for record in records {
        let number = table.last()?.map_or(0, |(last, _)| last.value()) + 1;
        table.insert(number, record.as_slice())?;
        let oldest = table.first()?.map_or(number, |(first, _)| first.value());
        if number - oldest >= limit {
            table.remove(oldest)?;
        }
    }
    Ok(())
}

pub(super) fn join(transaction: &WriteTransaction, batch: &JoinBatch) -> Result<JoinOutcome, Failure> {
    let Some(number) = number_of(transaction, &batch.room)? else {
        return Ok(JoinOutcome::Conflict(None));
    };
    let mut last = transaction.open_table(LAST)?;
    let before = last.get((number, batch.node.0))?.map(|last| last.value());
    if let Some((_, joined)) = before.filter(|&(done, _)| done == batch.number) {
        return Ok(JoinOutcome::Joined { first: joined + 1 - batch.count });
    }
    let mut lines = transaction.open_table(LINES)?;
    let stored = lines.get(number)?.map(|line| line.value());
    let fits = |&(joined, epoch, _): &(u64, u64, u64)| {
        before.is_none_or(|(done, _)| done < batch.number)
            && (epoch, LINEAGE) == (batch.epoch, batch.lineage)
            && joined.saturating_add(batch.count) <= anteroom_core::MAX_POSITION
    };
    let Some((joined, epoch, version)) = stored.filter(fits) else {
        drop((lines, last));
        return Ok(JoinOutcome::Conflict(snapshot(transaction, number, batch.node)?.map(Box::new)));
    };
    lines.insert(number, (joined + batch.count, epoch, version))?;
    last.insert((number, batch.node.0), (batch.number, joined + batch.count))?;
    Ok(JoinOutcome::Joined { first: joined + 1 })
}

pub(super) fn replace_value(
    transaction: &WriteTransaction,
    name: &str,
    expected: Option<&[u8]>,
    new: &[u8],
    audit: Option<&AuditRecord>,
    events: &[EncodedEvent],
) -> Result<bool, Failure> {
    let mut values = transaction.open_table(VALUES)?;
    let unchanged = values.get(name)?.as_ref().map(redb::AccessGuard::value) == expected;
    if unchanged {
        values.insert(name, new)?;
        note_audit(transaction, audit)?;
        outbox::append(transaction, events)?;
    }
    Ok(unchanged)
}

/// Saves a cursor, or forgets it.
pub(super) fn set_cursor(
    transaction: &WriteTransaction,
    name: &str,
    cursor: Option<&[u8]>,
) -> Result<(), Failure> {
    let mut values = transaction.open_table(VALUES)?;
    match cursor {
        Some(cursor) => drop(values.insert(Cursor::value_name(name).as_str(), cursor)?),
        None => drop(values.remove(Cursor::value_name(name).as_str())?),
    }
    Ok(())
}

/// Deletes at most [`HOUSEKEEPING_ROWS_MAX`] records nobody can ask for any more; returns how many.
pub(super) fn housekeep(transaction: &WriteTransaction, now: UnixMillis) -> Result<usize, Failure> {
    let limit = now.0.saturating_sub(SESSION_RETENTION_MILLIS);
    let mut deleted = delete_closed_lines(transaction)?;
    deleted += delete_old_sessions(transaction, limit, HOUSEKEEPING_ROWS_MAX.saturating_sub(deleted))?;
    Ok(deleted)
}

fn delete_closed_lines(transaction: &WriteTransaction) -> Result<usize, Failure> {
    let mut closed = transaction.open_table(CLOSED_LINES)?;
    let Some(line) = closed.first()?.map(|(line, _)| line.value()) else {
        return Ok(0);
    };
    let (room, opened, incarnation) = line;
    let places = (room, opened, incarnation, 0)..=(room, opened, incarnation, u64::MAX);
    let ends = (room, opened, incarnation, 0, 0)..=(room, opened, incarnation, u64::MAX, u64::MAX);
    let mut rows = HOUSEKEEPING_ROWS_MAX;
    rows -= delete_range(&mut transaction.open_table(SESSIONS)?, places.clone(), rows)?;
    rows -= delete_range(&mut transaction.open_table(CHUNKS)?, places, rows)?;
    rows -= delete_range(&mut transaction.open_table(ENDING)?, ends.clone(), rows)?;
    rows -= delete_range(&mut transaction.open_table(BY_END)?, ends, rows)?;
    if rows > 0 {
        closed.remove(line)?;
    }
    Ok(HOUSEKEEPING_ROWS_MAX - rows)
}

fn delete_range<'k, K, V, P>(
    table: &mut Table<'_, K, V>,
    range: RangeInclusive<P>,
    rows: usize,
) -> Result<usize, Failure>
where
    K: redb::Key + 'static,
    V: redb::Value + 'static,
    P: Borrow<K::SelfType<'k>> + 'k,
{
    let mut deleted = 0;
    for entry in table.extract_from_if(range, |_, _| true)?.take(rows) {
        entry?;
        deleted += 1;
    }
    Ok(deleted)
}

/// Deletes sessions whose pass ended before `limit` milliseconds. One that still counts as active is left to the tick.
fn delete_old_sessions(transaction: &WriteTransaction, limit: u64, rows: usize) -> Result<usize, Failure> {
    let mut sessions = transaction.open_table(SESSIONS)?;
    let mut by_end = transaction.open_table(BY_END)?;
    let rooms = transaction.open_table(ROOMS)?;
    let mut deleted = 0;
    for room in rooms.iter()? {
        let (number, bytes) = room?;
        let number = number.value();
        for segment in &codec::decode_room(bytes.value())?.segments {
            let Generation { opened, incarnation } = segment.generation;
            let range = (number, opened, incarnation, 0, 0)..(number, opened, incarnation, limit, 0);
            let old = by_end.range(range)?.take(rows - deleted);
            let old: Vec<_> =
                old.map(|entry| entry.map(|(place, _)| place.value())).collect::<Result<_, _>>()?;
            for place in old {
                let (_, _, _, _, position) = place;
                let session_row_key = (number, opened, incarnation, position);
                let stored = sessions.get(session_row_key)?.map(|bytes| codec::decode_session(bytes.value()));
                let stored: Option<Session> = stored.transpose()?;
                if stored.is_none_or(|session| session.status != SessionStatus::Active) {
                    sessions.remove(session_row_key)?;
                    by_end.remove(place)?;
                    deleted += 1;
                }
            }
        }
    }
    Ok(deleted)
}
