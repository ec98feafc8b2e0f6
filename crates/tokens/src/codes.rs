//! Codes that travel in addresses: one hands an admitted visitor over to a site on another host, the other takes a place in line to
//! another device. Both are sealed messages in base64url, each kind under a key of its own. The text inside, numbers with their most
//! significant byte first:
//!
//! | bytes 0 to 7 | bytes 8 to 23 | then |
//! |---|---|---|
//! | when it was made, in milliseconds since 1970 | the ticket, its 122 bits as in a request id | the room's name |
//!
//! *Boundary:* a code is good for a short time; that it is good once is the room's business.

use std::fmt;

use anteroom_core::ids::{RoomId, Ticket, UnixMillis};

use crate::secret::{DerivedKey, Label, MasterSecrets};
use crate::{base64url, request_id, sealed_message};

/// How long a site may take to exchange the code that a visitor brings.
pub const HAND_OFF_SECONDS: u64 = 60;
/// How long a visitor may take to open the link on the other device.
pub const MOVE_SECONDS: u64 = 600;
/// The longest text that is looked at, in bytes: a room's name has at most 64.
pub const CODE_MAX_LENGTH: usize = 256;

/// Seals and opens codes of both kinds.
pub struct Codes {
    /// Never empty; the first one seals.
    hand_off: Vec<DerivedKey>,
    move_out: Vec<DerivedKey>,
}

/// What a code says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// The room of the ticket.
    pub room: RoomId,
    /// Whose.
    pub ticket: Ticket,
    /// When it was made.
    pub issued_at: UnixMillis,
}

impl Codes {
    /// Codes under `secrets`.
    pub fn new(secrets: &MasterSecrets) -> Self {
        let keys = |label| secrets.opening_keys(label).collect();
        Self { hand_off: keys(Label::HandOffCode), move_out: keys(Label::MoveCode) }
    }

    /// Hands a visitor over.
    pub fn seal_hand_off(&self, code: &Code) -> String {
        seal(&self.hand_off, code)
    }

    /// Takes a place to another device.
    pub fn seal_move(&self, code: &Code) -> String {
        seal(&self.move_out, code)
    }

    /// What a code for a hand-over says, if it is one and not too old.
    pub fn open_hand_off(&self, text: &str, now: UnixMillis) -> Option<Code> {
        open(&self.hand_off, text, now, HAND_OFF_SECONDS)
    }

    /// What a code for another device says, if it is one and not too old.
    pub fn open_move(&self, text: &str, now: UnixMillis) -> Option<Code> {
        open(&self.move_out, text, now, MOVE_SECONDS)
    }
}

impl fmt::Debug for Codes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Codes({} keys, hidden)", self.hand_off.len())
    }
}

fn seal(keys: &[DerivedKey], code: &Code) -> String {
    let mut text = code.issued_at.0.to_be_bytes().to_vec();
    text.extend_from_slice(&request_id::pack(&code.ticket).to_be_bytes());
    text.extend_from_slice(code.room.as_str().as_bytes());
    base64url::encode(sealed_message::seal(&keys[0], &text))
}

fn open(keys: &[DerivedKey], text: &str, now: UnixMillis, lasts_seconds: u64) -> Option<Code> {
    if text.len() > CODE_MAX_LENGTH {
        return None;
    }
    let text = sealed_message::open(keys, &base64url::decode(text)?)?;
    let (issued_at, rest) = text.split_first_chunk()?;
    let (ticket, room) = rest.split_first_chunk()?;
    let issued_at = UnixMillis(u64::from_be_bytes(*issued_at));
    // Nodes' clocks differ: one that is a little ahead of ours is new, not wrong.
    if now.since(issued_at) >= lasts_seconds * 1000 {
        return None;
    }
    let room = RoomId::parse(std::str::from_utf8(room).ok()?).ok()?;
    Some(Code { room, ticket: request_id::unpack(u128::from_be_bytes(*ticket))?, issued_at })
}

#[cfg(test)]
mod tests {
    use anteroom_core::ids::{Generation, Position};

    use super::*;

    const NEW: &str = "a-new-secret-for-tests-0123456789abcdef";
    const OLD: &str = "an-old-secret-for-tests-0123456789abcdef";
    const NOW: UnixMillis = UnixMillis(1_800_000_000_123);

    fn codes(secrets: &str) -> Codes {
        Codes::new(&MasterSecrets::parse(secrets).unwrap())
    }

    fn code() -> Code {
        let generation = Generation { opened: 90_000_000, incarnation: 77 };
        let ticket =
            Ticket { lane: 0, generation, position: Position::new(4_711).unwrap(), entered: 12, copy: 3 };
        Code { room: RoomId::parse(&"R".repeat(64)).unwrap(), ticket, issued_at: NOW }
    }

    #[test]
    fn a_code_says_what_was_sealed_until_it_is_too_old() {
        let codes = codes(NEW);
        let (hand_off, moved) = (codes.seal_hand_off(&code()), codes.seal_move(&code()));
        assert!(hand_off.len() <= CODE_MAX_LENGTH, "{hand_off}");
        let last = NOW.plus(HAND_OFF_SECONDS * 1000 - 1);
        assert_eq!(codes.open_hand_off(&hand_off, last), Some(code()));
        assert_eq!(codes.open_hand_off(&hand_off, last.plus(1)), None);
        let last = NOW.plus(MOVE_SECONDS * 1000 - 1);
        assert_eq!(codes.open_move(&moved, last), Some(code()));
        assert_eq!(codes.open_move(&moved, last.plus(1)), None);
        assert_eq!(codes.open_move(&moved, UnixMillis(NOW.0 - 5)), Some(code()), "of a node that is ahead");
    }

    #[test]
    fn neither_kind_passes_for_the_other_nor_one_that_was_changed() {
        let codes = codes(NEW);
        let (hand_off, moved) = (codes.seal_hand_off(&code()), codes.seal_move(&code()));
        assert_eq!(codes.open_move(&hand_off, NOW), None);
        assert_eq!(codes.open_hand_off(&moved, NOW), None);
        let message = base64url::decode(&hand_off).unwrap();
        for bit in 0..message.len() * 8 {
            let mut edited = message.clone();
            edited[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(codes.open_hand_off(&base64url::encode(edited), NOW), None, "bit {bit}");
        }
        for length in 0..hand_off.len() {
            assert_eq!(codes.open_hand_off(&hand_off[..length], NOW), None, "cut at {length}");
        }
    }

    #[test]
    fn every_secret_of_the_list_opens_and_the_first_one_seals() {
        let (old, rotating) = (codes(OLD), codes(&format!("{NEW},{OLD}")));
        assert_eq!(rotating.open_move(&old.seal_move(&code()), NOW), Some(code()));
        assert_eq!(old.open_move(&rotating.seal_move(&code()), NOW), None);
        assert_eq!(format!("{rotating:?}"), "Codes(2 keys, hidden)");
    }
}
