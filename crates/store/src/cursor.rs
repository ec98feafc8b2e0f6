//! How far a reader of the outbox has come: kept as a value of the store, so that backups have it, but written without anybody
//! being notified.

use std::collections::BTreeMap;

use crate::codec::{Corrupt, Reader, Writer};

/// What the names of values begin with that are cursors.
const PREFIX: &str = "cursor/";
const FORMAT: u8 = 1;
const WHAT: &str = "cursor";

/// How far a reader has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cursor {
    /// Everything up to this number of the outbox has been dealt with, except what is behind.
    pub position: u64,
    /// The queues that are behind: of each, everything up to its own number has been dealt with.
    pub behind: BTreeMap<String, u64>,
    /// The incarnation of the outbox that it is of; [`Self::RESTORED`] where a backup brought it here.
    pub incarnation: u64,
    /// What the reader remembers beside; the store does not look into it.
    pub note: Vec<u8>,
}

impl Cursor {
    /// The incarnation of a cursor that came with a backup: it is of the outbox that came with it.
    pub const RESTORED: u64 = u64::MAX;

    /// The name of the value that has the cursor of that name.
    pub fn value_name(name: &str) -> String {
        format!("{PREFIX}{name}")
    }

    /// Whether a value of that name is a cursor.
    pub(crate) fn is_value_name(name: &str) -> bool {
        name.starts_with(PREFIX)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer(vec![FORMAT]);
        writer.number(self.position);
        writer.number(self.behind.len() as u64);
        for (queue, number) in &self.behind {
            writer.bytes(queue.as_bytes());
            writer.number(*number);
        }
        writer.number(self.incarnation);
        writer.bytes(&self.note);
        writer.0
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Corrupt> {
        let (&format, rest) = bytes.split_first().ok_or(Corrupt(WHAT))?;
        if format != FORMAT {
            return Err(Corrupt(WHAT));
        }
        let mut reader = Reader::bare(rest, WHAT);
        let position = reader.number()?;
        let mut behind = BTreeMap::new();
        for _ in 0..reader.number()? {
            let queue = reader.text()?;
            behind.insert(queue, reader.number()?);
        }
        let incarnation = reader.number()?;
        let note = reader.bytes()?.to_vec();
        reader.end()?;
        Ok(Self { position, behind, incarnation, note })
    }

    /// The same, but nowhere beyond the last event there is.
    pub(crate) fn at_most(mut self, last: u64) -> Self {
        self.position = self.position.min(last);
        self.behind.values_mut().for_each(|number| *number = (*number).min(last));
        self
    }

    /// The same where every event of the outbox has got a number that is higher by so much.
    pub(crate) fn shifted(mut self, shift: u64) -> Self {
        self.incarnation = Self::RESTORED;
        self.position += shift;
        self.behind.values_mut().for_each(|number| *number += shift);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_as_it_was_written_and_every_cut_is_refused() {
        let behind = BTreeMap::from([("room".to_owned(), 9), ("server".to_owned(), u64::MAX)]);
        let cursor = Cursor { position: 7, behind, incarnation: 3, note: b"{}".to_vec() };
        let bytes = cursor.to_bytes();
        assert_eq!(Cursor::from_bytes(&bytes).unwrap(), cursor);
        for length in 0..bytes.len() {
            assert!(Cursor::from_bytes(&bytes[..length]).is_err(), "cut at {length}");
        }
        assert!(Cursor::from_bytes(&[&[2], &bytes[1..]].concat()).is_err());
    }
}
