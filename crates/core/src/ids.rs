//! The nouns of a line as types: parsed once at the edge, then trusted.
//!
//! A [`Ticket`] is a place in a room's line with nothing but its own numbers in it. How it is written down (a request id, a
//! JWT) is the business of the `tokens` crate; whether it is honoured is the business of [`crate::Room`].

use std::borrow::Borrow;
use std::fmt;

/// How many bits of a request id each field of a ticket may fill. Together they are the 122 free bits of a UUID.
pub mod width {
    /// Layout of the remaining fields.
    pub const FORMAT_BITS: u32 = 4;
    /// Priority lane; 0 today.
    pub const LANE_BITS: u32 = 4;
    /// Seconds between [`super::GENERATION_EPOCH_UNIX_SECONDS`] and the opening of the line.
    pub const GENERATION_BITS: u32 = 32;
    /// Tells lines apart that were opened in the same second by different stores.
    pub const INCARNATION_BITS: u32 = 8;
    /// The position.
    pub const NUMBER_BITS: u32 = 40;
    /// Seconds between the opening of the line and the join.
    pub const ENTERED_BITS: u32 = 30;
    /// How often the ticket has moved to another device.
    pub const COPY_BITS: u32 = 4;
}

/// 2024-01-01T00:00:00Z: generations count seconds from here.
pub const GENERATION_EPOCH_UNIX_SECONDS: u64 = 1_704_067_200;

/// The largest position a line can hold. The join after it opens a new generation.
pub const MAX_POSITION: u64 = (1 << width::NUMBER_BITS) - 1;

/// The largest `entered` a ticket can carry: 34 years after its line opened.
pub const MAX_ENTERED_SECONDS: u32 = (1 << width::ENTERED_BITS) - 1;

/// The longest room id, in characters (all of them ASCII).
pub const ROOM_ID_MAX_LENGTH: usize = 64;

/// The name of a room, AWS's event id: `[A-Za-z0-9_.-]{1,64}`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoomId(Box<str>);

/// Why a text is not a room id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a room id is 1 to {ROOM_ID_MAX_LENGTH} characters out of A-Z, a-z, 0-9, '_', '.' and '-'")]
pub struct InvalidRoomId;

impl RoomId {
    /// Checks `text` against the pattern above.
    pub fn parse(text: &str) -> Result<Self, InvalidRoomId> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        if text.is_empty() || text.len() > ROOM_ID_MAX_LENGTH || !text.bytes().all(allowed) {
            return Err(InvalidRoomId);
        }
        Ok(Self(text.into()))
    }

    /// The id as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for RoomId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RoomId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for RoomId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RoomId({})", self.0)
    }
}

/// Milliseconds since 1970. The only kind of time the rules know; it always comes in as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// The whole second this moment lies in.
    pub const fn seconds(self) -> u64 {
        self.0 / 1000
    }

    /// The moment `milliseconds` later; stops at the end of time instead of wrapping.
    #[must_use]
    pub const fn plus(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_add(milliseconds))
    }

    /// The moment `milliseconds` earlier; stops at the beginning of time.
    #[must_use]
    pub const fn minus(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_sub(milliseconds))
    }

    /// How many milliseconds lie between `earlier` and this moment; 0 if it is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A place in line: 1, 2, 3, … up to [`MAX_POSITION`], in order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// A position if `number` is within 1 and [`MAX_POSITION`].
    pub const fn new(number: u64) -> Option<Self> {
        if number >= 1 && number <= MAX_POSITION { Some(Self(number)) } else { None }
    }

    /// The number itself.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Which line a ticket stands in: when it was opened, and which of the lines opened in that second.
///
/// Ordered by time of opening, so that of two lines the older one is the smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation {
    /// Seconds since [`GENERATION_EPOCH_UNIX_SECONDS`].
    pub opened: u32,
    /// Random; keeps lines of different stores apart.
    pub incarnation: u8,
}

impl Generation {
    /// The generation of a line opened at `now`, later than every line before it.
    pub fn following(previous: Option<Self>, now: UnixMillis, incarnation: u8) -> Self {
        let since_epoch = now.seconds().saturating_sub(GENERATION_EPOCH_UNIX_SECONDS);
        let by_clock = u32::try_from(since_epoch).unwrap_or(u32::MAX);
        let opened = previous.map_or(by_clock, |last| by_clock.max(last.opened.saturating_add(1)));
        Self { opened, incarnation }
    }

    /// Both parts as one number, in the same order as generations: how APIs write it.
    pub const fn number(self) -> u64 {
        ((self.opened as u64) << u8::BITS) | self.incarnation as u64
    }

    /// The generation that is written as this number.
    pub const fn from_number(number: u64) -> Option<Self> {
        let opened = number >> u8::BITS;
        if opened > u32::MAX as u64 {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the upper part was compared, the lower one is what is left"
        )]
        Some(Self { opened: opened as u32, incarnation: number as u8 })
    }

    /// The moment the line was opened, in seconds since 1970.
    pub const fn opened_unix_seconds(self) -> u64 {
        GENERATION_EPOCH_UNIX_SECONDS + self.opened as u64
    }
}

/// How often a place can move to another device.
pub const COPY_MAX: u8 = (1 << width::COPY_BITS) - 1;

/// One visitor's place in one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// Priority lane, below 16; 0 today.
    pub lane: u8,
    /// The line.
    pub generation: Generation,
    /// The place.
    pub position: Position,
    /// Seconds between the opening of the line and the join; at most [`MAX_ENTERED_SECONDS`].
    pub entered: u32,
    /// How often it has moved to another device; at most [`COPY_MAX`].
    pub copy: u8,
}

impl Ticket {
    /// When the visitor joined, in seconds since 1970.
    pub const fn entry_time(&self) -> u64 {
        self.generation.opened_unix_seconds() + self.entered as u64
    }
}

/// A ticket's public form: the 16 bytes of a UUID. Opaque here; sealed and opened by the `tokens` crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub [u8; 16]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_fill_a_uuid_exactly() {
        use width::*;
        let sum = FORMAT_BITS
            + LANE_BITS
            + GENERATION_BITS
            + INCARNATION_BITS
            + NUMBER_BITS
            + ENTERED_BITS
            + COPY_BITS;
        assert_eq!(sum, 122);
    }

    #[test]
    fn room_ids_are_checked_not_rewritten() {
        for good in ["Sample", "a", "A-b_c.9", &"x".repeat(64)] {
            assert_eq!(RoomId::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "a b", "a&b", "<b>", "ä", "a/b", "a\0", &"x".repeat(65)] {
            assert_eq!(RoomId::parse(bad), Err(InvalidRoomId), "{bad:?}");
        }
    }

    #[test]
    fn positions_end_where_the_request_id_ends() {
        assert_eq!(Position::new(0), None);
        assert!(Position::new(1).is_some());
        assert!(Position::new(MAX_POSITION).is_some());
        assert_eq!(Position::new(MAX_POSITION + 1), None);
    }

    #[test]
    fn a_new_generation_is_always_later_than_the_last() {
        let now = UnixMillis((GENERATION_EPOCH_UNIX_SECONDS + 50) * 1000);
        let first = Generation::following(None, now, 7);
        assert_eq!(first.opened, 50);
        let second = Generation::following(Some(first), now, 0);
        assert!(second > first);
        let clock_went_back = Generation::following(Some(second), UnixMillis(0), 0);
        assert!(clock_went_back > second);
    }
}
