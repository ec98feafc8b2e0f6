//! Codes and refresh tokens of the OpenID provider: sealed messages in base64url, each kind under a key of its own. The text inside,
//! numbers with their most significant byte first; names with their length in the byte before:
//!
//! | | |
//! |---|---|
//! | code | issued at (8 bytes, milliseconds since 1970), grant (8), time of the login (8, seconds), ticket (16, as in a request id), SHA-256 of the redirect address (32), flags (1), the code challenge (32, if flag 1), the room, the client, the nonce (the rest, if flag 2) |
//! | refresh token | grant (8), time of the login (8), sequence (4), ticket (16), subject (16), flags (1), the room, the client |
//!
//! Flag 4: the client asked for offline access. No other flag is known.

use std::fmt;

use anteroom_core::ids::{RoomId, Ticket, UnixMillis};

use super::subject::OpenIdSubject;
use crate::secret::{DerivedKey, Label, MasterSecrets};
use crate::{base64url, random, request_id, sealed_message};

/// How long a client may take to exchange the code that a visitor brings.
pub const OPENID_CODE_SECONDS: u64 = 60;
/// The longest nonce of a client, in bytes. A code with a longer one is not opened.
pub const NONCE_MAX_BYTES: usize = 512;
/// The longest text that is looked at, in bytes: the longest code has 1,033.
pub const SEALED_MAX_LENGTH: usize = 1_040;

const FLAG_CHALLENGE: u8 = 1;
const FLAG_NONCE: u8 = 2;
const FLAG_OFFLINE_ACCESS: u8 = 4;

/// What a code says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenIdCode {
    /// The room of the ticket.
    pub room: RoomId,
    /// The client that may exchange it.
    pub client_id: String,
    /// Whose.
    pub ticket: Ticket,
    /// When it was made.
    pub issued_at: UnixMillis,
    /// What the session will know by it: random.
    pub grant: u64,
    /// When the visitor was let in, in seconds since 1970.
    pub auth_time_seconds: u64,
    /// SHA-256 of the redirect address it was sent to.
    pub redirect_digest: [u8; 32],
    /// SHA-256 of the verifier that the client must know, if it gave one (RFC 7636).
    pub code_challenge: Option<[u8; 32]>,
    /// What the client wants to find in the ID token.
    pub nonce: Option<String>,
    /// Whether it asked for the scope `offline_access`.
    pub offline_access: bool,
}

/// What a refresh token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenIdRefreshToken {
    /// The room of the ticket.
    pub room: RoomId,
    /// The client that may exchange it.
    pub client_id: String,
    /// Whose.
    pub ticket: Ticket,
    /// By which grant.
    pub grant: u64,
    /// How often it was exchanged before.
    pub sequence: u32,
    /// The visitor, as the client knows them: the same for as long as the grant lives, also while master secrets change.
    pub subject: OpenIdSubject,
    /// When the visitor was let in, in seconds since 1970.
    pub auth_time_seconds: u64,
    /// Whether the client asked for the scope `offline_access`.
    pub offline_access: bool,
}

/// Seals and opens both.
pub struct OpenIdSeals {
    /// Never empty; the first one seals.
    codes: Vec<DerivedKey>,
    refresh_tokens: Vec<DerivedKey>,
}

impl OpenIdSeals {
    /// Seals under the first of `secrets`; all of them open.
    pub fn new(secrets: &MasterSecrets) -> Self {
        let keys = |label| secrets.opening_keys(label).collect();
        Self { codes: keys(Label::OpenIdCode), refresh_tokens: keys(Label::OpenIdRefreshToken) }
    }

    /// A number for a new grant.
    pub fn new_grant() -> u64 {
        u64::from_be_bytes(random::bytes())
    }

    /// The code as it travels in the redirect address.
    pub fn seal_code(&self, code: &OpenIdCode) -> String {
        let mut text = code.issued_at.0.to_be_bytes().to_vec();
        text.extend_from_slice(&code.grant.to_be_bytes());
        text.extend_from_slice(&code.auth_time_seconds.to_be_bytes());
        text.extend_from_slice(&request_id::pack(&code.ticket).to_be_bytes());
        text.extend_from_slice(&code.redirect_digest);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        text.push(
            flag(code.code_challenge.is_some(), FLAG_CHALLENGE)
                | flag(code.nonce.is_some(), FLAG_NONCE)
                | flag(code.offline_access, FLAG_OFFLINE_ACCESS),
        );
        text.extend_from_slice(code.code_challenge.as_ref().map_or(&[], <[u8; 32]>::as_slice));
        push_name(&mut text, code.room.as_str());
        push_name(&mut text, &code.client_id);
        text.extend_from_slice(code.nonce.as_deref().unwrap_or_default().as_bytes());
        base64url::encode(sealed_message::seal(&self.codes[0], &text))
    }

    /// What a code says, if it is one and not too old.
    pub fn open_code(&self, text: &str, now: UnixMillis) -> Option<OpenIdCode> {
        let text = open(&self.codes, text)?;
        let mut reader = Reader(&text);
        let issued_at = UnixMillis(u64::from_be_bytes(reader.take()?));
        // Nodes' clocks differ: one that is a little ahead of ours is new, not wrong.
        if now.since(issued_at) >= OPENID_CODE_SECONDS * 1000 {
            return None;
        }
        let grant = u64::from_be_bytes(reader.take()?);
        let auth_time_seconds = u64::from_be_bytes(reader.take()?);
        let ticket = reader.ticket()?;
        let redirect_digest = reader.take()?;
        let flags = reader.flags(FLAG_CHALLENGE | FLAG_NONCE | FLAG_OFFLINE_ACCESS)?;
        let code_challenge = if flags & FLAG_CHALLENGE == 0 { None } else { Some(reader.take()?) };
        let room = RoomId::parse(reader.name()?).ok()?;
        let client_id = reader.name()?.to_owned();
        let nonce = std::str::from_utf8(reader.0).ok()?;
        let has_nonce = flags & FLAG_NONCE != 0;
        if nonce.len() > NONCE_MAX_BYTES || (!has_nonce && !nonce.is_empty()) {
            return None;
        }
        Some(OpenIdCode {
            room,
            client_id,
            ticket,
            issued_at,
            grant,
            auth_time_seconds,
            redirect_digest,
            code_challenge,
            nonce: has_nonce.then(|| nonce.to_owned()),
            offline_access: flags & FLAG_OFFLINE_ACCESS != 0,
        })
    }

    /// The refresh token as its client receives it.
    pub fn seal_refresh_token(&self, token: &OpenIdRefreshToken) -> String {
        let mut text = token.grant.to_be_bytes().to_vec();
        text.extend_from_slice(&token.auth_time_seconds.to_be_bytes());
        text.extend_from_slice(&token.sequence.to_be_bytes());
        text.extend_from_slice(&request_id::pack(&token.ticket).to_be_bytes());
        text.extend_from_slice(&token.subject.0);
        text.push(if token.offline_access { FLAG_OFFLINE_ACCESS } else { 0 });
        push_name(&mut text, token.room.as_str());
        push_name(&mut text, &token.client_id);
        base64url::encode(sealed_message::seal(&self.refresh_tokens[0], &text))
    }

    /// What a refresh token says, if it is one. That it still is good, the session knows.
    pub fn open_refresh_token(&self, text: &str) -> Option<OpenIdRefreshToken> {
        let text = open(&self.refresh_tokens, text)?;
        let mut reader = Reader(&text);
        let grant = u64::from_be_bytes(reader.take()?);
        let auth_time_seconds = u64::from_be_bytes(reader.take()?);
        let sequence = u32::from_be_bytes(reader.take()?);
        let ticket = reader.ticket()?;
        let subject = OpenIdSubject(reader.take()?);
        let flags = reader.flags(FLAG_OFFLINE_ACCESS)?;
        let room = RoomId::parse(reader.name()?).ok()?;
        let client_id = reader.name()?.to_owned();
        let offline_access = flags & FLAG_OFFLINE_ACCESS != 0;
        let token = OpenIdRefreshToken {
            room,
            client_id,
            ticket,
            grant,
            sequence,
            subject,
            auth_time_seconds,
            offline_access,
        };
        reader.0.is_empty().then_some(token)
    }
}

impl fmt::Debug for OpenIdSeals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "OpenIdSeals({} keys, hidden)", self.codes.len())
    }
}

fn open(keys: &[DerivedKey], text: &str) -> Option<Vec<u8>> {
    if text.len() > SEALED_MAX_LENGTH {
        return None;
    }
    sealed_message::open(keys, &base64url::decode(text)?)
}

fn push_name(text: &mut Vec<u8>, name: &str) {
    let length = u8::try_from(name.len()).expect("rooms and clients have names of at most 64 characters");
    text.push(length);
    text.extend_from_slice(name.as_bytes());
}

struct Reader<'text>(&'text [u8]);

impl<'text> Reader<'text> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn flags(&mut self, known: u8) -> Option<u8> {
        let [flags] = self.take()?;
        (flags & !known == 0).then_some(flags)
    }

    fn ticket(&mut self) -> Option<Ticket> {
        request_id::unpack(u128::from_be_bytes(self.take()?))
    }

    fn name(&mut self) -> Option<&'text str> {
        let [length] = self.take()?;
        let (name, rest) = self.0.split_at_checked(usize::from(length))?;
        self.0 = rest;
        std::str::from_utf8(name).ok()
    }
}

#[cfg(test)]
mod tests {
    use anteroom_core::ids::{Generation, Position};

    use super::*;

    const NEW: &str = "a-new-secret-for-tests-0123456789abcdef";
    const OLD: &str = "an-old-secret-for-tests-0123456789abcdef";
    const NOW: UnixMillis = UnixMillis(1_800_000_000_123);

    fn seals(secrets: &str) -> OpenIdSeals {
        OpenIdSeals::new(&MasterSecrets::parse(secrets).unwrap())
    }

    fn ticket() -> Ticket {
        let generation = Generation { opened: 90_000_000, incarnation: 77 };
        Ticket { lane: 0, generation, position: Position::new(4_711).unwrap(), entered: 12, copy: 3 }
    }

    fn longest_code() -> OpenIdCode {
        OpenIdCode {
            room: RoomId::parse(&"R".repeat(64)).unwrap(),
            client_id: "c".repeat(64),
            ticket: ticket(),
            issued_at: NOW,
            grant: u64::MAX,
            auth_time_seconds: NOW.seconds() - 5,
            redirect_digest: sha256_of_address(),
            code_challenge: Some([7; 32]),
            nonce: Some("n".repeat(NONCE_MAX_BYTES)),
            offline_access: true,
        }
    }

    fn sha256_of_address() -> [u8; 32] {
        crate::openid::sha256("https://shop.example/callback")
    }

    fn refresh_token() -> OpenIdRefreshToken {
        OpenIdRefreshToken {
            room: RoomId::parse(&"R".repeat(64)).unwrap(),
            client_id: "c".repeat(64),
            ticket: ticket(),
            grant: 42,
            sequence: u32::MAX,
            subject: OpenIdSubject([9; 16]),
            auth_time_seconds: NOW.seconds(),
            offline_access: true,
        }
    }

    #[test]
    fn a_code_says_what_was_sealed_until_it_is_too_old() {
        let seals = seals(NEW);
        let bare = OpenIdCode { code_challenge: None, nonce: None, offline_access: false, ..longest_code() };
        let empty_nonce = OpenIdCode { nonce: Some(String::new()), ..bare.clone() };
        for code in [longest_code(), bare, empty_nonce] {
            let text = seals.seal_code(&code);
            assert!(text.len() <= SEALED_MAX_LENGTH, "{}", text.len());
            let last = NOW.plus(OPENID_CODE_SECONDS * 1000 - 1);
            assert_eq!(seals.open_code(&text, last), Some(code.clone()));
            assert_eq!(seals.open_code(&text, last.plus(1)), None);
            assert_eq!(seals.open_code(&text, UnixMillis(NOW.0 - 5)), Some(code), "of a node that is ahead");
        }
    }

    #[test]
    fn a_code_with_a_longer_nonce_is_not_opened() {
        let seals = seals(NEW);
        for length in [NONCE_MAX_BYTES + 1, 10_000] {
            let code = OpenIdCode { nonce: Some("n".repeat(length)), ..longest_code() };
            assert_eq!(seals.open_code(&seals.seal_code(&code), NOW), None, "{length}");
        }
    }

    #[test]
    fn a_refresh_token_says_what_was_sealed() {
        let seals = seals(NEW);
        for offline_access in [false, true] {
            let token = OpenIdRefreshToken { offline_access, ..refresh_token() };
            let text = seals.seal_refresh_token(&token);
            assert!(text.len() <= 300, "{}", text.len());
            assert_eq!(seals.open_refresh_token(&text), Some(token));
        }
    }

    #[test]
    fn neither_kind_passes_for_the_other_nor_one_that_was_changed() {
        let seals = seals(NEW);
        let (code, token) = (seals.seal_code(&longest_code()), seals.seal_refresh_token(&refresh_token()));
        assert_eq!(seals.open_code(&token, NOW), None);
        assert_eq!(seals.open_refresh_token(&code), None);
        for (text, is_code) in [(&code, true), (&token, false)] {
            let opens = |text: &str| {
                if is_code {
                    seals.open_code(text, NOW).is_some()
                } else {
                    seals.open_refresh_token(text).is_some()
                }
            };
            assert!(opens(text));
            let message = base64url::decode(text).unwrap();
            for bit in 0..message.len() * 8 {
                let mut edited = message.clone();
                edited[bit / 8] ^= 1 << (bit % 8);
                assert!(!opens(&base64url::encode(edited)), "bit {bit}");
            }
            for length in 0..text.len() {
                assert!(!opens(&text[..length]), "cut at {length}");
            }
        }
    }

    #[test]
    fn texts_that_no_sealing_makes_are_refused_where_a_key_is_known() {
        let seals = seals(NEW);
        let open_text = |text: &[u8]| {
            seals.open_code(&base64url::encode(sealed_message::seal(&seals.codes[0], text)), NOW)
        };
        let sealed = base64url::decode(&seals.seal_code(&longest_code())).unwrap();
        let text = sealed_message::open(&seals.codes, &sealed).unwrap();
        assert!(open_text(&text).is_some());
        let mut unknown_flag = text.clone();
        unknown_flag[8 * 3 + 16 + 32] |= 8;
        assert_eq!(open_text(&unknown_flag), None);
        let mut no_nonce = text.clone();
        no_nonce[8 * 3 + 16 + 32] &= !FLAG_NONCE;
        assert_eq!(open_text(&no_nonce), None, "bytes behind the last field");
        for length in 0..text.len() - NONCE_MAX_BYTES {
            assert_eq!(open_text(&text[..length]), None, "cut at {length}");
        }
    }

    #[test]
    fn every_secret_of_the_list_opens_and_the_first_one_seals() {
        let (old, rotating) = (seals(OLD), seals(&format!("{NEW},{OLD}")));
        assert_eq!(rotating.open_code(&old.seal_code(&longest_code()), NOW), Some(longest_code()));
        assert_eq!(old.open_code(&rotating.seal_code(&longest_code()), NOW), None);
        let token = old.seal_refresh_token(&refresh_token());
        assert_eq!(rotating.open_refresh_token(&token), Some(refresh_token()));
        assert_eq!(format!("{rotating:?}"), "OpenIdSeals(2 keys, hidden)");
    }
}
