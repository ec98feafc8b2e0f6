//! The ticket token: a ticket's other written form, a JWT for clients that want to read their own position.
//!
//! HS256 under a key of the room's own. `aud` is the room, `sub` the position in decimal, `jti` the request id, `iat` the
//! time of entry. There is no `exp`: a place in line ends when the line says so, not when a clock does.
//!
//! Tokens are written and checked here byte for byte, because a hundred thousand people poll with them: a token of ours begins
//! with our header exactly as we write it, so there is nothing to interpret before its signature is checked. Tests have them
//! checked by `jsonwebtoken` as well, so that a mistake on one side is found by the other.

use std::fmt;

use anteroom_core::ids::{Position, RequestId, RoomId, Ticket};
use aws_lc_rs::hmac;
use serde::{Deserialize, Serialize};

use crate::base64url;
use crate::request_id::{self, RequestIds};
use crate::secret::{Label, MasterSecrets};

/// The longest text that is looked at, in bytes. The longest token of ours, with a room id of 64 characters, has 292.
pub const TOKEN_MAX_LENGTH: usize = 512;

/// The same for [`audience`], which reads passes too: their signatures are longer, and so may be their issuer.
const AUDIENCE_TOKEN_MAX_LENGTH: usize = 4_096;

/// The header of every ticket token, `{"alg":"HS256","typ":"JWT"}`, as it stands there. What a token's own header says is compared
/// with it, never obeyed.
const ENCODED_HEADER: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";

/// Seals tickets of one room into ticket tokens, and checks them.
pub struct TicketTokens {
    room: RoomId,
    sealing_key: hmac::Key,
    /// One per master secret.
    opening_keys: Vec<hmac::Key>,
}

/// What an authentic ticket token says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TicketClaims {
    /// `jti`.
    pub request_id: RequestId,
    /// `sub`.
    pub position: Position,
    /// `iat`, in seconds since 1970.
    pub entry_time: u64,
}

/// The payload, its keys in alphabetical order.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload<Text> {
    aud: Text,
    iat: u64,
    jti: Text,
    sub: Text,
}

impl TicketTokens {
    /// The tokens of `room` under `secrets`.
    pub fn new(secrets: &MasterSecrets, room: &RoomId) -> Self {
        let label = Label::TicketToken(room);
        let key = |bytes: &[u8]| hmac::Key::new(hmac::HMAC_SHA256, bytes);
        Self {
            room: room.clone(),
            sealing_key: key(&*secrets.sealing_key(label)),
            opening_keys: secrets.opening_keys(label).map(|bytes| key(&*bytes)).collect(),
        }
    }

    /// The token of `ticket`, whose request id is `request_id`.
    pub fn seal(&self, ticket: &Ticket, request_id: RequestId) -> String {
        let mut request_id_text = [0; request_id::TEXT_LENGTH];
        let payload = Payload {
            aud: self.room.as_str(),
            iat: ticket.entry_time(),
            jti: request_id::write_into(request_id, &mut request_id_text),
            sub: &ticket.position.to_string(),
        };
        let payload = serde_json::to_vec(&payload).expect("texts and numbers can always be written as JSON");
        let mut token = String::with_capacity(TOKEN_MAX_LENGTH);
        token.push_str(ENCODED_HEADER);
        token.push('.');
        base64url::encode_onto(&mut token, payload);
        let signature = hmac::sign(&self.sealing_key, token.as_bytes());
        token.push('.');
        base64url::encode_onto(&mut token, signature);
        token
    }

    /// What `token` says, if one of the secrets signed it for this room.
    pub fn open(&self, token: &str) -> Option<TicketClaims> {
        if token.len() > TOKEN_MAX_LENGTH {
            return None;
        }
        let (message, signature) = token.rsplit_once('.')?;
        let payload = message.strip_prefix(ENCODED_HEADER)?.strip_prefix('.')?;
        let signature = base64url::decode(signature)?;
        let is_of = |key: &hmac::Key| hmac::verify(key, message.as_bytes(), &signature).is_ok();
        if !self.opening_keys.iter().any(is_of) {
            return None;
        }
        let payload = base64url::decode(payload)?;
        let payload: Payload<&str> = serde_json::from_slice(&payload).ok()?;
        if payload.aud != self.room.as_str() {
            return None;
        }
        Some(TicketClaims {
            request_id: request_id::parse(payload.jti)?,
            position: Position::new(payload.sub.parse().ok()?)?,
            entry_time: payload.iat,
        })
    }

    /// The ticket itself: the token is authentic, its request id opens to a ticket that `accept` finds plausible, and the
    /// two say the same.
    pub fn open_ticket(
        &self,
        token: &str,
        request_ids: &RequestIds,
        accept: impl Fn(&Ticket) -> bool,
    ) -> Option<(RequestId, Ticket)> {
        let claims = self.open(token)?;
        let ticket =
            request_ids.open(claims.request_id, |ticket| claims.describe(ticket) && accept(ticket))?;
        Some((claims.request_id, ticket))
    }
}

/// The room a token says it is of. Nothing is checked: it only tells with whose key to check.
pub fn audience(token: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Audience {
        aud: String,
    }
    let (_, rest) = token.split_once('.').filter(|_| token.len() <= AUDIENCE_TOKEN_MAX_LENGTH)?;
    let (payload, _) = rest.split_once('.')?;
    serde_json::from_slice::<Audience>(&base64url::decode(payload)?).ok().map(|payload| payload.aud)
}

impl TicketClaims {
    /// Whether position and time of entry are those of `ticket`.
    pub fn describe(&self, ticket: &Ticket) -> bool {
        self.position == ticket.position && self.entry_time == ticket.entry_time()
    }
}

impl fmt::Debug for TicketTokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TicketTokens({}, {} keys, hidden)", self.room, self.opening_keys.len())
    }
}

#[cfg(test)]
mod tests {
    use anteroom_core::ids::{Generation, MAX_ENTERED_SECONDS, MAX_POSITION};
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;
    const NEW: &str = "a-new-secret-for-tests-0123456789abcdef";
    const OLD: &str = "an-old-secret-for-tests-0123456789abcdef";

    fn secrets(text: &str) -> MasterSecrets {
        MasterSecrets::parse(text).unwrap()
    }

    fn tokens(secret: &str, room: &str) -> TicketTokens {
        TicketTokens::new(&secrets(secret), &RoomId::parse(room).unwrap())
    }

    fn request_ids(secret: &str, room: &str) -> RequestIds {
        RequestIds::new(&secrets(secret), &RoomId::parse(room).unwrap())
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

    fn sealed(number: u64) -> String {
        tokens(NEW, "Sample").seal(&ticket(number), request_ids(NEW, "Sample").seal(&ticket(number)))
    }

    /// A token over `header` and `payload`, rightly signed with the room's real key.
    fn signed_with_the_real_key(header: &str, payload: &str) -> String {
        let message = format!("{}.{}", base64url::encode(header), base64url::encode(payload));
        let signature = hmac::sign(&tokens(NEW, "Sample").sealing_key, message.as_bytes());
        format!("{message}.{}", base64url::encode(signature))
    }

    #[test]
    fn a_token_opens_to_the_ticket_it_was_made_from() {
        let (tokens, ids) = (tokens(NEW, "Sample"), request_ids(NEW, "Sample"));
        for number in [1, 7, MAX_POSITION] {
            let token = sealed(number);
            let claims = tokens.open(&token).unwrap();
            assert!(claims.describe(&ticket(number)));
            assert_eq!(claims.entry_time, 1_704_067_200 + 90_000_000 + 1_234);
            let opened = tokens.open_ticket(&token, &ids, |_| true);
            assert_eq!(opened, Some((ids.seal(&ticket(number)), ticket(number))));
            assert_eq!(tokens.open_ticket(&token, &ids, |_| false), None);
        }
    }

    /// A stranger's library, with nothing but the key, reads what we wrote.
    #[test]
    fn tokens_are_json_web_tokens_to_anybody_who_has_the_key() {
        use jsonwebtoken::{Algorithm, DecodingKey, Validation};
        let room = RoomId::parse("Sample").unwrap();
        let secrets = secrets(NEW);
        let key = secrets.sealing_key(Label::TicketToken(&room));
        let mut validation = Validation::new(Algorithm::HS256);
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.set_audience(&["Sample"]);
        let token =
            TicketTokens::new(&secrets, &room).seal(&ticket(7), request_ids(NEW, "Sample").seal(&ticket(7)));
        let read =
            jsonwebtoken::decode::<serde_json::Value>(&token, &DecodingKey::from_secret(&*key), &validation);
        assert_eq!(read.unwrap().claims["sub"], "7");
    }

    #[test]
    fn the_longest_token_is_within_the_limit() {
        let room = "x".repeat(anteroom_core::ids::ROOM_ID_MAX_LENGTH);
        let last = Ticket {
            lane: 15,
            generation: Generation { opened: u32::MAX, incarnation: 255 },
            position: Position::new(MAX_POSITION).unwrap(),
            entered: MAX_ENTERED_SECONDS,
            copy: 15,
        };
        let token = tokens(NEW, &room).seal(&last, request_ids(NEW, &room).seal(&last));
        assert_eq!(token.len(), 292);
        assert!(tokens(NEW, &room).open(&token).is_some());
    }

    #[test]
    fn claims_are_exactly_audience_entry_request_id_and_position() {
        let token = sealed(7);
        let parts: Vec<&str> = token.split('.').collect();
        assert_eq!(base64url::decode(parts[0]).unwrap(), HEADER.as_bytes());
        let id = request_id::format(request_ids(NEW, "Sample").seal(&ticket(7)));
        let expected = format!(r#"{{"aud":"Sample","iat":1794068434,"jti":"{id}","sub":"7"}}"#);
        assert_eq!(String::from_utf8(base64url::decode(parts[1]).unwrap()).unwrap(), expected);
    }

    #[test]
    fn tokens_of_another_room_or_another_secret_are_refused() {
        assert!(tokens(NEW, "Sample").open(&sealed(7)).is_some());
        assert_eq!(tokens(NEW, "Other").open(&sealed(7)), None);
        assert_eq!(tokens(OLD, "Sample").open(&sealed(7)), None);
    }

    #[test]
    fn a_token_that_names_another_room_is_refused_even_with_this_rooms_key() {
        let id = request_id::format(request_ids(NEW, "Sample").seal(&ticket(7)));
        let payload = |aud: &str| format!(r#"{{"aud":{aud},"iat":1794068434,"jti":"{id}","sub":"7"}}"#);
        let tokens = tokens(NEW, "Sample");
        assert!(tokens.open(&signed_with_the_real_key(HEADER, &payload("\"Sample\""))).is_some());
        for audience in ["\"Other\"", "[\"Sample\"]", "null", "7"] {
            assert_eq!(
                tokens.open(&signed_with_the_real_key(HEADER, &payload(audience))),
                None,
                "{audience}"
            );
        }
    }

    #[test]
    fn claims_that_are_missing_or_of_the_wrong_shape_are_refused() {
        let tokens = tokens(NEW, "Sample");
        for payload in [
            "",
            "null",
            "[]",
            "{}",
            r#"{"aud":"Sample","iat":1,"sub":"7"}"#,
            r#"{"aud":"Sample","iat":1,"jti":"0123abcd-ef01-8234-9678-9abcdef01234"}"#,
            r#"{"aud":"Sample","iat":1,"jti":"0123abcd-ef01-8234-9678-9abcdef01234","sub":7}"#,
            r#"{"aud":"Sample","iat":1,"jti":"0123abcd-ef01-8234-9678-9abcdef01234","sub":"0"}"#,
            r#"{"aud":"Sample","iat":1,"jti":"0123abcd-ef01-8234-9678-9abcdef01234","sub":"-7"}"#,
            r#"{"aud":"Sample","iat":1,"jti":"0123abcd-ef01-8234-9678-9abcdef01234","sub":"1099511627776"}"#,
            r#"{"aud":"Sample","iat":-1,"jti":"0123abcd-ef01-8234-9678-9abcdef01234","sub":"7"}"#,
            r#"{"aud":"Sample","iat":1,"jti":"not a request id","sub":"7"}"#,
            r#"{"iat":1,"jti":"0123abcd-ef01-8234-9678-9abcdef01234","sub":"7"}"#,
        ] {
            assert_eq!(tokens.open(&signed_with_the_real_key(HEADER, payload)), None, "{payload}");
        }
    }

    #[test]
    fn the_algorithm_is_never_taken_from_the_token() {
        let tokens = tokens(NEW, "Sample");
        let token = sealed(7);
        let payload = base64url::decode(token.split('.').nth(1).unwrap()).unwrap();
        let payload = String::from_utf8(payload).unwrap();
        assert!(tokens.open(&signed_with_the_real_key(HEADER, &payload)).is_some());
        for algorithm in ["none", "None", "HS384", "HS512", "RS256", "ES256", "EdDSA", "hs256", ""] {
            let header = format!(r#"{{"alg":"{algorithm}","typ":"JWT"}}"#);
            assert_eq!(tokens.open(&signed_with_the_real_key(&header, &payload)), None, "{algorithm}");
            let unsigned = format!("{}.{}.", base64url::encode(&header), base64url::encode(&payload));
            assert_eq!(tokens.open(&unsigned), None, "{algorithm} without a signature");
        }
        assert_eq!(tokens.open(&signed_with_the_real_key(r#"{"typ":"JWT"}"#, &payload)), None);
    }

    #[test]
    fn a_token_whose_request_id_belongs_to_another_ticket_is_refused() {
        let (tokens, ids) = (tokens(NEW, "Sample"), request_ids(NEW, "Sample"));
        let mixed = tokens.seal(&ticket(1), ids.seal(&ticket(1_000)));
        assert_eq!(tokens.open_ticket(&mixed, &ids, |_| true), None);
    }

    #[test]
    fn tokens_sealed_before_a_rotation_are_opened_after_it() {
        let before = tokens(OLD, "Sample").seal(&ticket(7), request_ids(OLD, "Sample").seal(&ticket(7)));
        let list = format!("{NEW},{OLD}");
        let rotated = tokens(&list, "Sample");
        let ids = request_ids(&list, "Sample");
        assert_eq!(rotated.open_ticket(&before, &ids, |_| true).map(|(_, ticket)| ticket), Some(ticket(7)));
        assert_eq!(rotated.seal(&ticket(7), ids.seal(&ticket(7))), sealed(7), "the first secret seals");
        assert_eq!(tokens(NEW, "Sample").open(&before), None, "the old secret is gone");
    }

    #[test]
    fn every_truncation_and_extension_is_refused() {
        let (tokens, token) = (tokens(NEW, "Sample"), sealed(7));
        for length in 0..token.len() {
            assert_eq!(tokens.open(&token[..length]), None, "{length}");
        }
        for extended in [format!("{token}A"), format!("{token}="), format!("{token}."), format!(" {token}")] {
            assert_eq!(tokens.open(&extended), None, "{extended}");
        }
        assert_eq!(tokens.open(&"a".repeat(10_000)), None);
    }

    #[test]
    fn every_single_bit_flip_is_refused() {
        let (tokens, token) = (tokens(NEW, "Sample"), sealed(7));
        for index in 0..token.len() * 8 {
            let mut edited = token.clone().into_bytes();
            edited[index / 8] ^= 1 << (index % 8);
            // What is no longer UTF-8 cannot reach us: `open` takes a text.
            if let Ok(edited) = String::from_utf8(edited) {
                assert_eq!(tokens.open(&edited), None, "bit {index}: {edited}");
            }
        }
    }

    proptest! {
        #[test]
        fn edited_tokens_are_refused(
            number in 1..=MAX_POSITION,
            edits in prop::collection::vec((any::<prop::sample::Index>(), 0x20_u8..0x7f), 1..8),
        ) {
            let token = sealed(number);
            let mut edited = token.clone().into_bytes();
            for (index, character) in edits {
                let place = index.index(edited.len());
                edited[place] = character;
            }
            let edited = String::from_utf8(edited).unwrap();
            prop_assume!(edited != token);
            prop_assert_eq!(tokens(NEW, "Sample").open(&edited), None);
        }

        #[test]
        fn opening_any_text_never_panics(text in "\\PC{0,80}(\\.\\PC{0,80}){0,3}") {
            prop_assert_eq!(tokens(NEW, "Sample").open(&text), None);
        }
    }

    #[test]
    fn debug_output_holds_no_key() {
        let shown = format!("{:?}", tokens(NEW, "Sample"));
        assert_eq!(shown, "TicketTokens(Sample, 1 keys, hidden)");
    }
}
