//! What a visitor's browser carries for the gateway: sealed, so that the visitor can neither read nor edit it, and complete, so
//! that the gateway knows from the cookie alone who stands where and until when.
//!
//! A cookie is a sealed message (`sealed_message.rs`) in base64url, under a key that only cookies of this room have. So one of
//! another room, and a ticket or a token put into a cookie's place, cannot be opened. The text inside, numbers with their most
//! significant byte first:
//!
//! | byte 0 | then |
//! |---|---|
//! | 0, arrived | when, in milliseconds since 1970 (8 bytes); a random number (8) |
//! | 1, waiting | the ticket, its 122 bits as in a request id (16); how many were ahead when the place was taken (8; missing in cookies of earlier versions) |
//! | 2, admitted | the ticket (16); when it was admitted (8); when the stay ends (8), both in milliseconds since 1970 |
//!
//! The kind 3 was once given to visits of half a minute, and is not used again.
//!
//! *Boundary:* whether a ticket is of a live line, and whether a stay is over, is decided by the caller: there is no clock here.

use std::fmt;

use anteroom_core::ids::{RoomId, Ticket, UnixMillis};

use crate::secret::{DerivedKey, Label, MasterSecrets};
use crate::{base64url, request_id, sealed_message};

/// The longest text that is looked at, in bytes. The longest cookie of ours has 88.
pub const COOKIE_MAX_LENGTH: usize = 128;

const ARRIVED: u8 = 0;
const WAITING: u8 = 1;
const ADMITTED: u8 = 2;

/// The longest text inside: the kind, a ticket and two moments.
const TEXT_MAX_BYTES: usize = 1 + 16 + 8 + 8;

/// Seals and opens the cookies of one room's visitors.
pub struct VisitorCookies {
    /// Never empty; the first one seals.
    keys: Vec<DerivedKey>,
}

/// What a cookie says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CookieContent {
    /// The browser has been told to come back. A client that returns this keeps cookies, and may take a place in line.
    Arrived {
        /// When it was told so.
        at: UnixMillis,
        /// Random, so that what is brought twice can be recognised.
        nonce: u64,
    },
    /// The visitor stands in line.
    Waiting {
        /// The place.
        ticket: Ticket,
        /// How many were ahead of it when it was taken; 0 where that is not known.
        people_ahead_at_first: u64,
    },
    /// The visitor is inside.
    Admitted {
        /// The place the visitor was admitted from.
        ticket: Ticket,
        /// When that was.
        admitted_at: UnixMillis,
        /// From when on this cookie is worth nothing.
        ends_at: UnixMillis,
    },
}

impl VisitorCookies {
    /// The cookies of `room` under `secrets`.
    pub fn new(secrets: &MasterSecrets, room: &RoomId) -> Self {
        Self { keys: secrets.opening_keys(Label::VisitorCookie(room)).collect() }
    }

    /// The cookie's value. Never the same twice.
    pub fn seal(&self, content: &CookieContent) -> String {
        base64url::encode(sealed_message::seal(&self.keys[0], &encode_content(content)))
    }

    /// What a cookie's value says, if one of the secrets sealed it for this room.
    pub fn open(&self, value: &str) -> Option<CookieContent> {
        if value.len() > COOKIE_MAX_LENGTH {
            return None;
        }
        read(&sealed_message::open(&self.keys, &base64url::decode(value)?)?)
    }
}

impl fmt::Debug for VisitorCookies {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "VisitorCookies({} keys, hidden)", self.keys.len())
    }
}

fn encode_content(content: &CookieContent) -> Vec<u8> {
    let mut text = Vec::with_capacity(TEXT_MAX_BYTES);
    match content {
        CookieContent::Arrived { at, nonce } => {
            text.push(ARRIVED);
            text.extend_from_slice(&at.0.to_be_bytes());
            text.extend_from_slice(&nonce.to_be_bytes());
        }
        CookieContent::Waiting { ticket, people_ahead_at_first } => {
            text.push(WAITING);
            text.extend_from_slice(&request_id::pack(ticket).to_be_bytes());
            text.extend_from_slice(&people_ahead_at_first.to_be_bytes());
        }
        CookieContent::Admitted { ticket, admitted_at, ends_at } => {
            text.push(ADMITTED);
            text.extend_from_slice(&request_id::pack(ticket).to_be_bytes());
            text.extend_from_slice(&admitted_at.0.to_be_bytes());
            text.extend_from_slice(&ends_at.0.to_be_bytes());
        }
    }
    text
}

/// The inverse of [`encode_content`]; nothing for a kind that only a newer server knows, or a length that is not its own.
fn read(text: &[u8]) -> Option<CookieContent> {
    let (&kind, rest) = text.split_first()?;
    match kind {
        ARRIVED => {
            let (at, nonce) = rest.split_first_chunk()?;
            Some(CookieContent::Arrived {
                at: UnixMillis(u64::from_be_bytes(*at)),
                nonce: u64::from_be_bytes(nonce.try_into().ok()?),
            })
        }
        WAITING => {
            let (ticket, ahead) = rest.split_first_chunk()?;
            let people_ahead_at_first =
                if ahead.is_empty() { 0 } else { u64::from_be_bytes(ahead.try_into().ok()?) };
            Some(CookieContent::Waiting { ticket: ticket_of(*ticket)?, people_ahead_at_first })
        }
        ADMITTED => {
            let (ticket, moments) = rest.split_first_chunk()?;
            let (admitted_at, ends_at) = moments.split_first_chunk()?;
            Some(CookieContent::Admitted {
                ticket: ticket_of(*ticket)?,
                admitted_at: UnixMillis(u64::from_be_bytes(*admitted_at)),
                ends_at: UnixMillis(u64::from_be_bytes(ends_at.try_into().ok()?)),
            })
        }
        _ => None,
    }
}

fn ticket_of(bytes: [u8; 16]) -> Option<Ticket> {
    request_id::unpack(u128::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use anteroom_core::ids::{Generation, MAX_ENTERED_SECONDS, MAX_POSITION, Position};
    use proptest::prelude::*;

    use super::*;

    const NEW: &str = "a-new-secret-for-tests-0123456789abcdef";
    const OLD: &str = "an-old-secret-for-tests-0123456789abcdef";

    fn cookies(secrets: &str, room: &str) -> VisitorCookies {
        VisitorCookies::new(&MasterSecrets::parse(secrets).unwrap(), &RoomId::parse(room).unwrap())
    }

    fn ticket() -> Ticket {
        Ticket {
            lane: 0,
            generation: Generation { opened: 90_000_000, incarnation: 77 },
            position: Position::new(4_711).unwrap(),
            entered: 1_234,
            copy: 0,
        }
    }

    fn one_of_each() -> [CookieContent; 3] {
        let (admitted_at, ends_at) = (UnixMillis(1_800_000_000_123), UnixMillis(1_800_000_300_123));
        [
            CookieContent::Arrived { at: UnixMillis(1_800_000_000_123), nonce: 42 },
            CookieContent::Waiting { ticket: ticket(), people_ahead_at_first: 1_234 },
            CookieContent::Admitted { ticket: ticket(), admitted_at, ends_at },
        ]
    }

    #[test]
    fn what_was_sealed_under_any_secret_of_the_list_opens_and_nothing_else_does() {
        let (old, new) = (cookies(OLD, "Sample"), cookies(NEW, "Sample"));
        let rotating = cookies(&format!("{NEW},{OLD}"), "Sample");
        for content in one_of_each() {
            let value = old.seal(&content);
            assert_eq!(old.open(&value), Some(content));
            assert_eq!(rotating.open(&value), Some(content));
            assert_eq!(new.open(&value), None, "its secret was dropped");
            assert_eq!(new.open(&rotating.seal(&content)), Some(content), "the first one seals");
            assert_eq!(cookies(OLD, "sample").open(&value), None, "another room's");
        }
    }

    #[test]
    fn a_value_is_never_the_same_and_fits_into_any_cookie() {
        let cookies = cookies(NEW, "Sample");
        for content in one_of_each() {
            let (first, second) = (cookies.seal(&content), cookies.seal(&content));
            assert_ne!(first, second);
            assert!(first.len() <= 88, "{first}");
            assert!(first.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')));
        }
    }

    #[test]
    fn each_single_bit_flip_and_every_truncation_and_extension_is_refused() {
        let cookies = cookies(NEW, "Sample");
        for content in one_of_each() {
            let value = cookies.seal(&content);
            let message = base64url::decode(&value).unwrap();
            for bit in 0..message.len() * 8 {
                let mut edited = message.clone();
                edited[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(cookies.open(&base64url::encode(edited)), None, "bit {bit} of {content:?}");
            }
            for length in 0..value.len() {
                assert_eq!(cookies.open(&value[..length]), None, "{length} characters of {content:?}");
            }
            for length in 0..message.len() {
                assert_eq!(cookies.open(&base64url::encode(&message[..length])), None, "{length} bytes");
            }
            for more in ["A", "AA", "AAAA", "=", " "] {
                assert_eq!(cookies.open(&format!("{value}{more}")), None, "{more:?} behind {content:?}");
            }
        }
    }

    #[test]
    fn a_sealed_text_of_an_unknown_kind_or_a_wrong_length_says_nothing() {
        let cookies = cookies(NEW, "Sample");
        let seal = |text: &[u8]| base64url::encode(sealed_message::seal(&cookies.keys[0], text));
        for content in one_of_each() {
            let text = encode_content(&content);
            assert_eq!(cookies.open(&seal(&text)), Some(content));
            assert_eq!(cookies.open(&seal(&text[..text.len() - 1])), None);
            assert_eq!(cookies.open(&seal(&[&text[..], &[0]].concat())), None);
        }
        assert_eq!(cookies.open(&seal(&[])), None);
        assert_eq!(cookies.open(&seal(&[4; 33])), None, "a kind of a later version");
        assert_eq!(cookies.open(&seal(&[&[WAITING][..], &[0; 16]].concat())), None, "no format, no position");
    }

    #[test]
    fn a_place_from_before_cookies_told_how_many_were_ahead_stays_a_place() {
        let cookies = cookies(NEW, "Sample");
        let text = [&[WAITING][..], &request_id::pack(&ticket()).to_be_bytes()].concat();
        let value = base64url::encode(sealed_message::seal(&cookies.keys[0], &text));
        let expected = CookieContent::Waiting { ticket: ticket(), people_ahead_at_first: 0 };
        assert_eq!(cookies.open(&value), Some(expected));
    }

    #[test]
    fn debug_output_holds_no_secret() {
        let shown = format!("{:?}", cookies(&format!("{NEW},{OLD}"), "Sample"));
        assert_eq!(shown, "VisitorCookies(2 keys, hidden)");
    }

    /// The gateway opens one for every request it lets through, so this is printed; a test never fails on speed.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "what is measured here is real time")]
    fn what_opening_costs_is_printed() {
        const ROUNDS: u32 = 2_000;
        let cookies = cookies(NEW, "Sample");
        let value = cookies.seal(&one_of_each()[2]);
        let begun = std::time::Instant::now();
        for _ in 0..ROUNDS {
            assert!(cookies.open(std::hint::black_box(&value)).is_some());
        }
        eprintln!("opening a visitor's cookie: {:?} each, over {ROUNDS}", begun.elapsed() / ROUNDS);
    }

    fn any_ticket() -> impl Strategy<Value = Ticket> {
        let number = prop_oneof![Just(1), Just(MAX_POSITION), 1..=MAX_POSITION];
        let entered = prop_oneof![Just(0), Just(MAX_ENTERED_SECONDS), 0..=MAX_ENTERED_SECONDS];
        (0_u8..16, any::<u32>(), any::<u8>(), number, entered, 0_u8..16).prop_map(
            |(lane, opened, incarnation, number, entered, copy)| Ticket {
                lane,
                generation: Generation { opened, incarnation },
                position: Position::new(number).unwrap(),
                entered,
                copy,
            },
        )
    }

    fn any_content() -> impl Strategy<Value = CookieContent> {
        prop_oneof![
            any::<(u64, u64)>().prop_map(|(at, nonce)| CookieContent::Arrived { at: UnixMillis(at), nonce }),
            (any_ticket(), any::<u64>()).prop_map(|(ticket, people_ahead_at_first)| {
                CookieContent::Waiting { ticket, people_ahead_at_first }
            }),
            (any_ticket(), any::<(u64, u64)>()).prop_map(|(ticket, (admitted, ends))| {
                CookieContent::Admitted {
                    ticket,
                    admitted_at: UnixMillis(admitted),
                    ends_at: UnixMillis(ends),
                }
            }),
        ]
    }

    proptest! {
        #[test]
        fn every_content_comes_back(content in any_content()) {
            let cookies = cookies(NEW, "Sample");
            prop_assert_eq!(cookies.open(&cookies.seal(&content)), Some(content));
        }

        #[test]
        fn no_text_opens_by_chance(text in "[A-Za-z0-9_-]{0,140}") {
            prop_assert_eq!(cookies(NEW, "Sample").open(&text), None);
        }

        #[test]
        fn opening_any_text_never_panics(text in "\\PC{0,140}") {
            prop_assert_eq!(cookies(NEW, "Sample").open(&text), None);
        }
    }
}
