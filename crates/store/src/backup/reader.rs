//! Reading a backup: first as a whole, to know that it is one, then record by record.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Seek};

use anteroom_core::{Generation, Room, RoomId, Session, UnixMillis};
use aws_lc_rs::digest;

use super::sound::{SessionBudget, unsound, unsound_trace};
use super::{
    DIGEST_BYTES, FORMAT_VERSION, FRAME_BYTES, HEADER_BYTES, KINDS, Kind, MAGIC, RECORD_MAX_BYTES, Record,
    TRAILER_KIND,
};
use crate::codec::{self, Corrupt};
use crate::contract::{AuditRecord, StoredEvent, Trace};

/// How many bytes are read at a time.
const READ_BYTES: usize = 64 << 10;
/// How many bytes all values together may have: they are kept in memory until the caller has decided about them.
pub const VALUES_MAX_BYTES: usize = 64 << 20;
/// The largest number of an event or an audit record: what follows it must have numbers too.
const NUMBER_MAX: u64 = 1 << 60;

/// Why a backup cannot be restored. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// It could not be read.
    #[error("the backup cannot be read: {0}")]
    Unreadable(io::Error),
    /// It does not begin like one.
    #[error("this is not a backup")]
    NotABackup,
    /// A newer program wrote it.
    #[error(
        "the backup was written by a newer version (format {found}, this program knows {FORMAT_VERSION}); use that version"
    )]
    Newer {
        /// Its format version.
        found: u32,
    },
    /// It ends too early.
    #[error("the backup breaks off after {0} bytes")]
    Truncated(u64),
    /// There is something behind its end.
    #[error("the backup goes on behind its end")]
    TooLong,
    /// A record makes no sense.
    #[error("the backup is damaged at byte {at}: {what}")]
    Damaged {
        /// Where the record begins.
        at: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The bytes are not those that were written.
    #[error("the backup is damaged: its checksum is not that of its bytes")]
    Checksum,
    /// A room contradicts itself.
    #[error("the room {room} in the backup contradicts itself: {what}")]
    Unsound {
        /// Which room.
        room: RoomId,
        /// In which respect.
        what: &'static str,
    },
}

/// Where a backup is read from, twice: a temporary file, or bytes in memory.
pub trait BackupSource: Read + Seek + Send {}

impl<T: Read + Seek + Send> BackupSource for T {}

/// A backup that was read through once and is whole and sound.
pub struct VerifiedBackup {
    source: Box<dyn BackupSource>,
    taken_at: UnixMillis,
    values: BTreeMap<String, Vec<u8>>,
    counts: [u64; KINDS],
    last_event: u64,
    last_audit: u64,
}

impl std::fmt::Debug for VerifiedBackup {
    /// Without the values: some of them are secrets under seal.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("VerifiedBackup");
        shown.field("taken_at", &self.taken_at).field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl VerifiedBackup {
    /// Reads a backup from its beginning to its end. This blocks.
    pub fn verify(mut source: Box<dyn BackupSource>) -> Result<Self, BackupError> {
        let (mut values, mut values_bytes) = (BTreeMap::new(), 0);
        let (mut last_event, mut last_audit) = (0, 0);
        let mut items = Items::open(&mut *source)?;
        let mut budget = SessionBudget::default();
        let mut current = None;
        while let Some(item) = items.next()? {
            match item {
                Item::Value { name, bytes } => {
                    values_bytes += name.len() + bytes.len();
                    if values_bytes > VALUES_MAX_BYTES {
                        return Err(items.damaged("there are too many values"));
                    }
                    values.insert(name, bytes);
                }
                Item::Trace { .. } => {}
                Item::Room { id, room } => {
                    if let Some(what) = unsound(&room) {
                        return Err(BackupError::Unsound { room: id, what });
                    }
                    budget = SessionBudget::of(&room);
                    current = Some(id);
                }
                Item::Session(session) => {
                    if let (Some(what), Some(room)) = (budget.spend(&session), &current) {
                        return Err(BackupError::Unsound { room: room.clone(), what });
                    }
                }
                Item::Event { number, .. } => last_event = number,
                Item::Audit { number, .. } => last_audit = number,
            }
        }
        let (taken_at, counts) = (items.records.taken_at, items.records.counts);
        Ok(Self { source, taken_at, values, counts, last_event, last_audit })
    }

    /// When it was taken.
    pub const fn taken_at(&self) -> UnixMillis {
        self.taken_at
    }

    /// The values of the whole store: key ring, check value, hashes.
    pub const fn values(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.values
    }

    /// How many rooms it has.
    pub const fn rooms(&self) -> u64 {
        self.counts[Kind::Room.index()]
    }

    /// How many sessions it has.
    pub const fn sessions(&self) -> u64 {
        self.counts[Kind::Session.index()]
    }

    pub(super) const fn last_event(&self) -> u64 {
        self.last_event
    }

    pub(crate) const fn last_audit(&self) -> u64 {
        self.last_audit
    }

    /// Reads it again from its beginning. What has changed since the first time is found out at the end at the latest.
    pub(super) fn items(&mut self) -> Result<Items<'_>, BackupError> {
        Items::open(&mut *self.source)
    }
}

/// A record with what belongs to it.
#[derive(Debug)]
pub(super) enum Item {
    Value {
        name: String,
        bytes: Vec<u8>,
    },
    Trace {
        name: String,
        trace: Trace,
    },
    /// With its chunks. Its sessions come next.
    Room {
        id: RoomId,
        room: Box<Room>,
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

/// The records of a backup, rooms put together.
pub(super) struct Items<'a> {
    records: Records<'a>,
    /// The room whose chunks are being read.
    unfinished: Option<(RoomId, Box<Room>)>,
    /// What was read behind it.
    held: Option<Record>,
}

impl<'a> Items<'a> {
    fn open(source: &'a mut dyn BackupSource) -> Result<Self, BackupError> {
        Ok(Self { records: Records::open(source)?, unfinished: None, held: None })
    }

    fn damaged(&self, what: &'static str) -> BackupError {
        BackupError::Damaged { at: self.records.record_at, what }
    }

    pub(super) fn next(&mut self) -> Result<Option<Item>, BackupError> {
        loop {
            let record = match self.held.take() {
                Some(held) => Some(held),
                None => self.records.next()?,
            };
            match record {
                Some(Record::Chunk { generation, index, chunk }) => {
                    let unfinished = self.unfinished.as_mut().map(|(_, room)| room);
                    let segment = unfinished.and_then(|room| {
                        room.segments.iter_mut().find(|segment| segment.generation == generation)
                    });
                    match segment {
                        Some(segment) => segment.taken.restore(index, *chunk),
                        None => return Err(self.damaged("a chunk of no line")),
                    }
                }
                other => {
                    if let Some((id, mut room)) = self.unfinished.take() {
                        self.held = other;
                        room.restore_moves();
                        return Ok(Some(Item::Room { id, room }));
                    }
                    match other {
                        Some(Record::Room { id, room }) => self.unfinished = Some((id, room)),
                        other => return Ok(other.and_then(Item::of)),
                    }
                }
            }
        }
    }
}

impl Item {
    fn of(record: Record) -> Option<Self> {
        Some(match record {
            Record::Value { name, bytes } => Self::Value { name, bytes },
            Record::Trace { name, trace } => Self::Trace { name, trace },
            Record::Room { id, room } => Self::Room { id, room },
            Record::Session(session) => Self::Session(session),
            Record::Event { number, event } => Self::Event { number, event },
            Record::Audit { number, record } => Self::Audit { number, record },
            Record::Chunk { .. } => return None,
        })
    }
}

/// Where a record stands among all: order, name, order within it, generation, number. Each is greater than the one before.
type RecordOrder = (u8, String, u8, (u32, u8), u64);

/// The bare records of a backup, in order, up to a trailer that fits them.
struct Records<'a> {
    source: BufReader<&'a mut dyn BackupSource>,
    digest: digest::Context,
    taken_at: UnixMillis,
    counts: [u64; KINDS],
    read: u64,
    record_at: u64,
    order: Option<RecordOrder>,
    room: Option<RoomId>,
    ended: bool,
}

impl<'a> Records<'a> {
    fn open(source: &'a mut dyn BackupSource) -> Result<Self, BackupError> {
        source.rewind().map_err(BackupError::Unreadable)?;
        let mut records = Self {
            source: BufReader::with_capacity(READ_BYTES, source),
            digest: digest::Context::new(&digest::SHA256),
            taken_at: UnixMillis(0),
            counts: [0; KINDS],
            read: 0,
            record_at: 0,
            order: None,
            room: None,
            ended: false,
        };
        let mut header = [0; HEADER_BYTES];
        records.read_exact(&mut header).map_err(|error| match error {
            BackupError::Truncated(_) => BackupError::NotABackup,
            other => other,
        })?;
        let (magic, rest) = header.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(BackupError::NotABackup);
        }
        let (version, taken_at) = rest.split_at(4);
        let version = version.try_into().map_or(0, u32::from_le_bytes);
        if version > FORMAT_VERSION {
            return Err(BackupError::Newer { found: version });
        }
        if version == 0 {
            return Err(BackupError::NotABackup);
        }
        records.taken_at = UnixMillis(taken_at.try_into().map_or(0, u64::from_le_bytes));
        Ok(records)
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> Result<(), BackupError> {
        self.source.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => BackupError::Truncated(self.read),
            _ => BackupError::Unreadable(error),
        })?;
        self.read += bytes.len() as u64;
        self.digest.update(bytes);
        Ok(())
    }

    fn damaged(&self, what: &'static str) -> BackupError {
        BackupError::Damaged { at: self.record_at, what }
    }

    fn next(&mut self) -> Result<Option<Record>, BackupError> {
        if self.ended {
            return Ok(None);
        }
        self.record_at = self.read;
        let mut frame = [0; FRAME_BYTES];
        self.read_exact(&mut frame)?;
        let [kind, length @ ..] = frame;
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if kind == TRAILER_KIND {
            self.check_trailer(length)?;
            self.ended = true;
            return Ok(None);
        }
        let Some(kind) = Kind::ALL.into_iter().find(|known| *known as u8 == kind) else {
            return Err(self.damaged("a record of an unknown kind"));
        };
        if length > RECORD_MAX_BYTES {
            return Err(self.damaged("a record that is too long"));
        }
        let mut payload = vec![0; length];
        self.read_exact(&mut payload)?;
        self.counts[kind.index()] += 1;
        let record = decode(kind, &payload).map_err(|Corrupt(what)| self.damaged(what))?;
        self.check_order(&record)?;
        Ok(Some(record))
    }

    fn check_trailer(&mut self, length: usize) -> Result<(), BackupError> {
        let mut counts = [0; 8 * KINDS];
        if length != counts.len() + DIGEST_BYTES {
            return Err(self.damaged("a trailer of another length"));
        }
        self.read_exact(&mut counts)?;
        let computed = self.digest.clone().finish();
        let mut written = [0; DIGEST_BYTES];
        self.read_exact(&mut written)?;
        if computed.as_ref() != written {
            return Err(BackupError::Checksum);
        }
        let counted: Vec<u8> = self.counts.iter().flat_map(|count| count.to_le_bytes()).collect();
        if counted != counts {
            return Err(self.damaged("there are not as many records as it says"));
        }
        let mut behind = [0; 1];
        match self.source.read(&mut behind) {
            Ok(0) => Ok(()),
            Ok(_) => Err(BackupError::TooLong),
            Err(error) => Err(BackupError::Unreadable(error)),
        }
    }

    fn check_order(&mut self, record: &Record) -> Result<(), BackupError> {
        const NONE: (u32, u8) = (0, 0);
        let written = |generation: Generation| (generation.opened, generation.incarnation);
        if let Record::Room { id, .. } = record {
            self.room = Some(id.clone());
        }
        let room = || self.room.as_ref().map_or(String::new(), |room| room.as_str().to_owned());
        let order = match record {
            Record::Value { name, .. } => (1, name.clone(), 0, NONE, 0),
            Record::Trace { name, .. } => (2, name.clone(), 0, NONE, 0),
            Record::Room { .. } => (3, room(), 0, NONE, 0),
            Record::Chunk { generation, index, .. } => (3, room(), 1, written(*generation), *index),
            Record::Session(session) => {
                (3, room(), 2, written(session.key.generation), session.key.position.get())
            }
            Record::Event { number, .. } => (4, String::new(), 0, NONE, *number),
            Record::Audit { number, .. } => (5, String::new(), 0, NONE, *number),
        };
        if order.0 == 3 && self.room.is_none() {
            return Err(self.damaged("a record of no room"));
        }
        if order.4 > NUMBER_MAX {
            return Err(self.damaged("a number that is too large"));
        }
        if self.order.as_ref().is_some_and(|before| *before >= order) {
            return Err(self.damaged("a record out of order"));
        }
        self.order = Some(order);
        Ok(())
    }
}

fn decode(kind: Kind, payload: &[u8]) -> Result<Record, Corrupt> {
    let mut reader = codec::Reader::bare(payload, "a record that cannot be read");
    let record = match kind {
        Kind::Value => Record::Value { name: reader.text()?, bytes: reader.bytes()?.to_vec() },
        Kind::Trace => {
            let name = reader.text()?;
            if !name.is_empty() && RoomId::parse(&name).is_err() {
                return Err(Corrupt("a trace of no room"));
            }
            let (generation, version, epoch) = (reader.generation()?, reader.number()?, reader.number()?);
            let trace = Trace { generation, version, epoch };
            if unsound_trace(&trace) {
                return Err(Corrupt("a trace that nothing can follow"));
            }
            Record::Trace { name, trace }
        }
        Kind::Room => {
            let id = reader.room_id()?;
            Record::Room { id, room: Box::new(codec::decode_room(reader.bytes()?)?) }
        }
        Kind::Chunk => {
            let (generation, index) = (reader.generation()?, reader.number()?);
            let bytes = reader.bytes()?.try_into().map_err(|_| Corrupt("a chunk of another length"))?;
            Record::Chunk { generation, index, chunk: Box::new(codec::decode_chunk(bytes)) }
        }
        Kind::Session => return Ok(Record::Session(Box::new(codec::decode_session(payload)?))),
        Kind::Event => {
            let number = reader.number()?;
            Record::Event { number, event: codec::decode_event(number, reader.bytes()?)? }
        }
        Kind::Audit => {
            Record::Audit { number: reader.number()?, record: codec::decode_audit(reader.bytes()?)? }
        }
    };
    reader.end()?;
    Ok(record)
}
