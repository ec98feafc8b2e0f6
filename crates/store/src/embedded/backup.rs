//! A backup of the embedded store: one read transaction on a thread of its own, sent piece by piece to the reader.
//!
//! While it runs, the file keeps every page that the transaction can see. So a reader who takes nothing for a while loses it, and a
//! database that has to be opened again does not wait for it.

use std::sync::Arc;
use std::time::Duration;

use anteroom_core::{Generation, UnixMillis};
use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use super::tables::{
    AUDIT, CHUNKS, LINES, ROOM_NUMBERS, ROOMS, RoomNumber, SESSIONS, TRACES, VALUES, trace_of,
};
use super::{Failure, SCHEMA_VALUE, outbox};
use crate::backup::{BackupWriter, Piece};
use crate::codec;
use crate::contract::StoreError;

/// How many backups may be taken at a time.
pub(super) const BACKUPS_MAX: usize = 2;
/// How long the reader of a backup may take nothing of it.
const STALL_TIMEOUT: Duration = Duration::from_mins(1);

/// Everything a backup in progress holds on to.
pub(super) struct Backup {
    pub(super) database: Arc<Database>,
    pub(super) pieces: mpsc::Sender<Result<Piece, StoreError>>,
    /// Changes when the database must be let go of.
    pub(super) reopenings: watch::Receiver<u64>,
    pub(super) runtime: Handle,
    pub(super) permit: OwnedSemaphorePermit,
}

impl Backup {
    /// Takes it. This blocks.
    pub(super) fn run(self, taken_at: UnixMillis) {
        let Self { database, pieces, mut reopenings, runtime, permit } = self;
        let mut last = None;
        let mut hand_over = |piece| match piece {
            Piece::More(_) => runtime.block_on(send(&pieces, &mut reopenings, piece)),
            Piece::Last(_) => {
                last = Some(Ok(piece));
                Ok(())
            }
        };
        let taken = match database.begin_read() {
            Ok(transaction) => write(&transaction, taken_at, &mut hand_over),
            Err(error) => Err(Failure::from(error).into()),
        };
        // A task that waits for the file to be free does not wait for the reader, and a reader that has read everything
        // finds it free.
        drop((database, permit));
        if let Err(error) = taken {
            tracing::warn!(%error, "backup failed");
            last = Some(Err(error));
        }
        if let Some(last) = last {
            // The reader may have gone away, or stand still.
            let _ = runtime.block_on(tokio::time::timeout(STALL_TIMEOUT, pieces.send(last)));
        }
    }
}

/// Sends a piece as soon as there is room for it, or says why that makes no sense any more.
async fn send(
    pieces: &mpsc::Sender<Result<Piece, StoreError>>,
    reopenings: &mut watch::Receiver<u64>,
    piece: Piece,
) -> Result<(), StoreError> {
    let broken_off = |why: &str| Err(StoreError::Transient(format!("the backup broke off: {why}")));
    tokio::select! {
        biased;
        _ = reopenings.changed() => broken_off("the database is being opened again"),
        sent = pieces.send(Ok(piece)) => match sent {
            Ok(()) => Ok(()),
            Err(_) => broken_off("nobody reads it any more"),
        },
        () = tokio::time::sleep(STALL_TIMEOUT) => broken_off("its reader is too slow"),
    }
}

type Output<'a> = BackupWriter<&'a mut dyn FnMut(Piece) -> Result<(), StoreError>>;

fn write(
    transaction: &ReadTransaction,
    taken_at: UnixMillis,
    hand_over: &mut dyn FnMut(Piece) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut output = BackupWriter::begin(taken_at, hand_over);
    write_all(transaction, &mut output).map_err(StoreError::from)?;
    output.finish()
}

fn write_all(transaction: &ReadTransaction, output: &mut Output<'_>) -> Result<(), Failure> {
    for entry in transaction.open_table(VALUES)?.iter()? {
        let (name, bytes) = entry?;
        // How this file is laid out is its own business.
        if name.value() != SCHEMA_VALUE {
            output.value(name.value(), bytes.value())?;
        }
    }
    for entry in transaction.open_table(TRACES)?.iter()? {
        let (name, trace) = entry?;
        output.trace(name.value(), trace_of(trace.value()))?;
    }
    for entry in transaction.open_table(ROOM_NUMBERS)?.iter()? {
        let (name, number) = entry?;
        write_room(transaction, output, name.value(), number.value())?;
    }
    for entry in outbox::read(transaction, 0)? {
        let (number, bytes) = entry?;
        output.event(number, &bytes)?;
    }
    for entry in transaction.open_table(AUDIT)?.iter()? {
        let (number, bytes) = entry?;
        output.audit(number.value(), bytes.value())?;
    }
    Ok(())
}

fn write_room(
    transaction: &ReadTransaction,
    output: &mut Output<'_>,
    name: &str,
    number: RoomNumber,
) -> Result<(), Failure> {
    let Some(bytes) = transaction.open_table(ROOMS)?.get(number)? else {
        return Ok(());
    };
    let mut room = codec::decode_room(bytes.value())?;
    if let (Some(line), Some(newest)) =
        (transaction.open_table(LINES)?.get(number)?, room.segments.back_mut())
    {
        newest.joined = line.value().0;
    }
    output.room(name, &codec::encode_room(&room))?;
    let (chunks, sessions) = (transaction.open_table(CHUNKS)?, transaction.open_table(SESSIONS)?);
    // Records of lines that are closed for good wait for their deletion; nobody can ask for them.
    let lines = || room.segments.iter().map(|segment| segment.generation);
    for generation in lines() {
        let Generation { opened, incarnation } = generation;
        let places = (number, opened, incarnation, 0)..=(number, opened, incarnation, u64::MAX);
        for entry in chunks.range(places)? {
            let (place, chunk) = entry?;
            output.chunk(generation, place.value().3, chunk.value())?;
        }
    }
    for Generation { opened, incarnation } in lines() {
        let places = (number, opened, incarnation, 0)..=(number, opened, incarnation, u64::MAX);
        for entry in sessions.range(places)? {
            output.session(entry?.1.value())?;
        }
    }
    Ok(())
}
