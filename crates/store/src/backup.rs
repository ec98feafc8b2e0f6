//! Backups: the whole content of a store as one stream of bytes that every store can write and read.
//!
//! # The format
//! Numbers are little-endian.
//!
//! ```text
//! header    16 bytes "ANTEROOM BACKUP\n", format version (u32), when it was taken (u64, milliseconds since 1970)
//! records   kind (u8), length (u32), so many bytes
//! trailer   a record of kind 255: how many records there were of each kind (seven u64), SHA-256 of every byte before
//! ```
//!
//! Records come in this order, each kind sorted by its key, none twice: values, traces of deleted rooms, rooms (each followed by its
//! chunks of taken bits and its sessions), events, audit records. Rooms, sessions, events and audit records are written as
//! [`crate::codec`] writes them, each with a format version of its own, so that a newer program reads what an older one wrote.
//!
//! *Reading* is in [`reader`]: a backup is verified as a whole before anybody relies on any of it. What becomes of it in a
//! store that is not empty is in [`restore`].

pub mod reader;
pub mod restore;
mod sound;
#[cfg(test)]
pub(crate) use sound::unsound;

use std::collections::VecDeque;

use anteroom_core::taken_positions::Chunk;
use anteroom_core::{Generation, Room, RoomId, Session, UnixMillis};
use aws_lc_rs::digest;
use tokio::sync::mpsc;

use crate::codec;
use crate::contract::{AuditRecord, StoreError, StoredEvent, Trace};

/// The first bytes of every backup.
pub const MAGIC: &[u8; 16] = b"ANTEROOM BACKUP\n";
/// What this program writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;
/// The longest record, in bytes.
pub const RECORD_MAX_BYTES: usize = 16 << 20;
/// About how many bytes are sent at a time.
const PIECE_BYTES: usize = 64 << 10;
/// How many pieces may wait for the reader.
const PIECES_MAX: usize = 4;
const DIGEST_BYTES: usize = 32;
/// Kind and length.
const FRAME_BYTES: usize = 5;
const HEADER_BYTES: usize = 28;
const KINDS: usize = 7;
const TRAILER_KIND: u8 = 255;

/// What a record is; its number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Value = 1,
    Trace = 2,
    Room = 3,
    Chunk = 4,
    Session = 5,
    Event = 6,
    Audit = 7,
}

impl Kind {
    const ALL: [Self; KINDS] =
        [Self::Value, Self::Trace, Self::Room, Self::Chunk, Self::Session, Self::Event, Self::Audit];

    const fn index(self) -> usize {
        self as usize - 1
    }
}

/// One record as it was read.
#[derive(Debug)]
enum Record {
    Value {
        name: String,
        bytes: Vec<u8>,
    },
    /// The empty name stands for all names without a trace of their own.
    Trace {
        name: String,
        trace: Trace,
    },
    Room {
        id: RoomId,
        room: Box<Room>,
    },
    Chunk {
        generation: Generation,
        index: u64,
        chunk: Box<Chunk>,
    },
    Session(Box<Session>),
    Event {
        number: u64,
        event: StoredEvent,
    },
    Audit {
        number: u64,
        record: AuditRecord,
    },
}

/// Writes a backup piece by piece into whatever takes the pieces.
pub(crate) struct BackupWriter<Sink> {
    piece: Vec<u8>,
    digest: digest::Context,
    counts: [u64; KINDS],
    sink: Sink,
}

impl<Sink, Failure> BackupWriter<Sink>
where
    Sink: FnMut(Piece) -> Result<(), Failure>,
    Failure: From<StoreError>,
{
    pub(crate) fn begin(taken_at: UnixMillis, sink: Sink) -> Self {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        piece.extend_from_slice(MAGIC);
        piece.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        piece.extend_from_slice(&taken_at.0.to_le_bytes());
        Self { piece, digest: digest::Context::new(&digest::SHA256), counts: [0; KINDS], sink }
    }

    pub(crate) fn value(&mut self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let mut writer = codec::Writer::default();
        writer.bytes(name.as_bytes());
        writer.bytes(bytes);
        self.record(Kind::Value, &writer.0)
    }

    /// A trace of the room of that name, or with an empty name the shared one.
    pub(crate) fn trace(&mut self, name: &str, trace: Trace) -> Result<(), Failure> {
        let mut writer = codec::Writer::default();
        writer.bytes(name.as_bytes());
        writer.generation(trace.generation);
        writer.number(trace.version);
        writer.number(trace.epoch);
        self.record(Kind::Trace, &writer.0)
    }

    /// A room, as [`codec::encode_room`] wrote it. Its chunks and its sessions come next.
    pub(crate) fn room(&mut self, name: &str, encoded: &[u8]) -> Result<(), Failure> {
        let mut writer = codec::Writer::default();
        writer.bytes(name.as_bytes());
        writer.bytes(encoded);
        self.record(Kind::Room, &writer.0)
    }

    pub(crate) fn chunk(
        &mut self,
        generation: Generation,
        index: u64,
        encoded: &[u8; 512],
    ) -> Result<(), Failure> {
        let mut writer = codec::Writer::default();
        writer.generation(generation);
        writer.number(index);
        writer.bytes(encoded);
        self.record(Kind::Chunk, &writer.0)
    }

    pub(crate) fn session(&mut self, encoded: &[u8]) -> Result<(), Failure> {
        self.record(Kind::Session, encoded)
    }

    pub(crate) fn event(&mut self, number: u64, encoded: &[u8]) -> Result<(), Failure> {
        self.write_numbered(Kind::Event, number, encoded)
    }

    pub(crate) fn audit(&mut self, number: u64, encoded: &[u8]) -> Result<(), Failure> {
        self.write_numbered(Kind::Audit, number, encoded)
    }

    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let counts: Vec<u8> = self.counts.iter().flat_map(|count| count.to_le_bytes()).collect();
        self.frame(TRAILER_KIND, counts.len() + DIGEST_BYTES)?;
        self.piece.extend_from_slice(&counts);
        self.digest.update(&self.piece);
        self.piece.extend_from_slice(self.digest.finish().as_ref());
        (self.sink)(Piece::Last(self.piece))
    }

    fn write_numbered(&mut self, kind: Kind, number: u64, encoded: &[u8]) -> Result<(), Failure> {
        let mut writer = codec::Writer::default();
        writer.number(number);
        writer.bytes(encoded);
        self.record(kind, &writer.0)
    }

    fn record(&mut self, kind: Kind, payload: &[u8]) -> Result<(), Failure> {
        if self.piece.len() + FRAME_BYTES + payload.len() > PIECE_BYTES {
            let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
            self.digest.update(&piece);
            (self.sink)(Piece::More(piece))?;
        }
        self.counts[kind.index()] += 1;
        self.frame(kind as u8, payload.len())?;
        self.piece.extend_from_slice(payload);
        Ok(())
    }

    fn frame(&mut self, kind: u8, length: usize) -> Result<(), Failure> {
        let fits = u32::try_from(length).ok().filter(|_| length <= RECORD_MAX_BYTES);
        let length = fits.ok_or_else(|| {
            StoreError::Permanent(format!("a record of {length} bytes is too long for a backup"))
        })?;
        self.piece.push(kind);
        self.piece.extend_from_slice(&length.to_le_bytes());
        Ok(())
    }
}

/// Some bytes of a backup.
#[derive(Debug)]
pub(crate) enum Piece {
    More(Vec<u8>),
    Last(Vec<u8>),
}

/// A backup in flight, taken while the server runs. A slow reader holds it up, but nothing else.
#[derive(Debug)]
pub struct BackupStream {
    /// What is there already.
    ready: VecDeque<Piece>,
    pieces: mpsc::Receiver<Result<Piece, StoreError>>,
    ended: bool,
}

impl BackupStream {
    /// A stream, and where its pieces are put in.
    pub(crate) fn new() -> (mpsc::Sender<Result<Piece, StoreError>>, Self) {
        let (sender, pieces) = mpsc::channel(PIECES_MAX);
        (sender, Self { ready: VecDeque::new(), pieces, ended: false })
    }

    /// A backup that is there as a whole.
    pub(crate) fn of(pieces: Vec<Piece>) -> Self {
        let (_, stream) = Self::new();
        Self { ready: pieces.into(), ..stream }
    }

    /// The next bytes. `None` is the end of a whole backup; one that breaks off ends with an error.
    pub async fn next(&mut self) -> Option<Result<Vec<u8>, StoreError>> {
        if self.ended {
            return None;
        }
        let broken_off = || Err(StoreError::Transient("the backup broke off".into()));
        let piece = match self.ready.pop_front() {
            Some(piece) => Ok(piece),
            None => self.pieces.recv().await.unwrap_or_else(broken_off),
        };
        match piece {
            Ok(Piece::More(piece)) => Some(Ok(piece)),
            Ok(Piece::Last(piece)) => {
                self.ended = true;
                Some(Ok(piece))
            }
            Err(error) => {
                self.ended = true;
                Some(Err(error))
            }
        }
    }
}
