//! The name by which a client of the OpenID provider knows a visitor: the ticket without its copy, enciphered by one block of AES-256
//! under a key of room and client, in base64url.
//!
//! So it stays the same when the place moves to another device, nothing is stored for it, and who has it holds neither the request
//! id nor a place: that is what it protects. Each client has its own, but two of one room can still join what they know of a visitor,
//! because both are told the same `queue_position`. Like a request id it has no tag: [`OpenIdSubjects::open`]
//! demands a judge that knows the room's lines, and six bits that no ticket fills must be zero besides.

use std::fmt;

use aes::Aes256;
use aes::cipher::{BlockCipherDecrypt as _, BlockCipherEncrypt as _, KeyInit as _};
use anteroom_core::ids::{RoomId, Ticket};

use crate::secret::{Label, MasterSecrets};
use crate::{base64url, request_id};

/// The written length of a subject.
pub const SUBJECT_TEXT_LENGTH: usize = 22;

/// `sub` of a visitor, for one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpenIdSubject(pub [u8; 16]);

impl OpenIdSubject {
    /// The subject that is written so; only its one spelling is accepted.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != SUBJECT_TEXT_LENGTH {
            return None;
        }
        base64url::decode(text)?.try_into().ok().map(Self)
    }
}

impl fmt::Display for OpenIdSubject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&base64url::encode(self.0))
    }
}

/// The subjects of one client in one room.
pub struct OpenIdSubjects {
    /// One per master secret; the first one seals.
    ciphers: Vec<Aes256>,
}

impl OpenIdSubjects {
    /// Those of `client_id` in `room` under `secrets`.
    pub fn new(secrets: &MasterSecrets, room: &RoomId, client_id: &str) -> Self {
        let keys = secrets.opening_keys(Label::OpenIdSubject(room, client_id));
        Self { ciphers: keys.map(|key| Aes256::new((&*key).into())).collect() }
    }

    /// The subject of a ticket, whatever device it is on.
    pub fn seal(&self, ticket: &Ticket) -> OpenIdSubject {
        let mut block = request_id::pack(&Ticket { copy: 0, ..*ticket }).to_be_bytes();
        self.ciphers[0].encrypt_block((&mut block).into());
        OpenIdSubject(block)
    }

    /// The ticket of a subject, its copy aside, if `accept` finds it plausible under one of the secrets. `accept` keeps forgeries out:
    /// it must at least compare the generation with the room's live ones and the position with the number of joins.
    pub fn open(&self, subject: OpenIdSubject, accept: impl Fn(&Ticket) -> bool) -> Option<Ticket> {
        self.ciphers.iter().find_map(|cipher| {
            let mut block = subject.0;
            cipher.decrypt_block((&mut block).into());
            request_id::unpack(u128::from_be_bytes(block)).filter(|ticket| ticket.copy == 0 && accept(ticket))
        })
    }
}

impl fmt::Debug for OpenIdSubjects {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "OpenIdSubjects({} keys, hidden)", self.ciphers.len())
    }
}

#[cfg(test)]
mod tests {
    use anteroom_core::ids::{Generation, Position};

    use super::*;

    const NEW: &str = "a-new-secret-for-tests-0123456789abcdef";
    const OLD: &str = "an-old-secret-for-tests-0123456789abcdef";

    fn subjects(secrets: &str, room: &str, client_id: &str) -> OpenIdSubjects {
        OpenIdSubjects::new(&MasterSecrets::parse(secrets).unwrap(), &RoomId::parse(room).unwrap(), client_id)
    }

    fn ticket(number: u64) -> Ticket {
        Ticket {
            lane: 0,
            generation: Generation { opened: 90_000_000, incarnation: 77 },
            position: Position::new(number).unwrap(),
            entered: 1_234,
            copy: 0,
        }
    }

    fn plausible(candidate: &Ticket) -> bool {
        candidate.generation == ticket(1).generation
            && candidate.position.get() <= 10_000_000
            && candidate.entered <= 86_400
    }

    #[test]
    fn a_subject_is_that_of_a_place_a_room_and_a_client() {
        let shop = subjects(NEW, "Sample", "shop");
        let subject = shop.seal(&ticket(7));
        assert_eq!(shop.open(subject, plausible), Some(ticket(7)));
        assert_eq!(subject, shop.seal(&Ticket { copy: 9, ..ticket(7) }), "on another device");
        assert_ne!(subject, shop.seal(&ticket(8)));
        for other in [
            subjects(NEW, "Sample", "blog"),
            subjects(NEW, "sample", "shop"),
            subjects(OLD, "Sample", "shop"),
        ] {
            assert_ne!(other.seal(&ticket(7)), subject);
            assert_eq!(other.open(subject, plausible), None);
        }
        // A room and a client cannot be cut elsewhere: no name holds a zero byte.
        assert_ne!(subjects(NEW, "a", "bc").seal(&ticket(7)), subjects(NEW, "ab", "c").seal(&ticket(7)));
    }

    #[test]
    fn a_subject_is_read_in_its_one_spelling() {
        let subject = subjects(NEW, "Sample", "shop").seal(&ticket(7));
        let text = subject.to_string();
        assert_eq!((text.len(), OpenIdSubject::parse(&text)), (SUBJECT_TEXT_LENGTH, Some(subject)));
        let mut other_spelling = text.clone();
        let last = other_spelling.pop().unwrap();
        other_spelling.push(char::from(last as u8 + 1));
        for wrong in ["", "a", &text[1..], &format!("{text}A"), &other_spelling, "!!!!!!!!!!!!!!!!!!!!!!"] {
            assert_eq!(OpenIdSubject::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn each_of_the_128_single_bit_flips_is_refused() {
        let subjects = subjects(NEW, "Sample", "shop");
        for number in [1, 2, 1_000, 9_999_999] {
            let subject = subjects.seal(&ticket(number));
            for bit in 0..128 {
                let edited = OpenIdSubject((u128::from_be_bytes(subject.0) ^ 1 << bit).to_be_bytes());
                assert_eq!(subjects.open(edited, plausible), None, "bit {bit} of the subject of {number}");
            }
        }
    }

    #[test]
    fn every_secret_of_the_list_opens_and_the_first_one_seals() {
        let (old, rotating) =
            (subjects(OLD, "Sample", "shop"), subjects(&format!("{NEW},{OLD}"), "Sample", "shop"));
        assert_eq!(rotating.open(old.seal(&ticket(7)), plausible), Some(ticket(7)));
        assert_eq!(rotating.seal(&ticket(7)), subjects(NEW, "Sample", "shop").seal(&ticket(7)));
        assert_eq!(old.open(rotating.seal(&ticket(7)), plausible), None);
        assert_eq!(format!("{rotating:?}"), "OpenIdSubjects(2 keys, hidden)");
    }
}
