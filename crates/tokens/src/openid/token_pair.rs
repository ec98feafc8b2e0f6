//! The access token and the ID token that a code is exchanged for.
//!
//! Written as passes are: compact JSON, keys in alphabetical order. The access token's audience is the room, so that a site that
//! verifies passes verifies it too; the ID token's is the client. Both have the same subject. A client may have the room's name, so
//! that an audience alone tells them not apart: their types do (RFC 9068), and `token_use`.

use std::fmt;

use anteroom_core::ids::{Position, RoomId};
use aws_lc_rs::digest;
use jsonwebtoken::{TokenData, Validation};
use serde::{Deserialize, Serialize};

use super::subject::OpenIdSubject;
use crate::base64url;
use crate::pass::{Header, SigningFailed, TOKEN_MAX_LENGTH, to_json};
use crate::signing_key::{SigningAlgorithm, SigningKey};

/// What the two tokens say.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpenIdClaims {
    /// `aud` of the access token.
    pub room: RoomId,
    /// `client_id` of the access token, `aud` of the ID token.
    pub client_id: String,
    /// `sub`.
    pub subject: OpenIdSubject,
    /// `iss`.
    pub issuer: String,
    /// `queue_position`.
    pub queue_position: Position,
    /// `grant` of the access token.
    pub grant: u64,
    /// `iat` and `nbf`, in seconds since 1970.
    pub issued_at_seconds: u64,
    /// `exp` of the access token, in seconds since 1970.
    pub access_expires_at_seconds: u64,
    /// `exp` of the ID token, in seconds since 1970.
    pub id_expires_at_seconds: u64,
    /// `auth_time` of the ID token: when the visitor was let in, in seconds since 1970.
    pub auth_time_seconds: u64,
    /// `nonce` of the ID token.
    pub nonce: Option<String>,
    /// `enter_by` of the access token, as in a pass.
    pub enter_by_seconds: Option<u64>,
}

/// The two tokens. Their holder is let in, so they are never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct OpenIdTokenPair {
    /// For userInfo, and for sites that verify passes.
    pub access_token: String,
    /// For the client.
    pub id_token: String,
}

impl fmt::Debug for OpenIdTokenPair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OpenIdTokenPair(hidden)")
    }
}

/// What a genuine access token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenIdAccess {
    /// The client it was given to.
    pub client_id: String,
    /// The visitor, as that client knows them.
    pub subject: OpenIdSubject,
    /// By which grant.
    pub grant: u64,
    /// The place in line.
    pub queue_position: u64,
    /// When it was signed, in seconds since 1970.
    pub issued_at_seconds: u64,
    /// Until when it is good, in seconds since 1970.
    pub expires_at_seconds: u64,
}

/// The payload of the access token, its keys in alphabetical order.
#[derive(Serialize)]
struct AccessPayload<'text> {
    aud: &'text str,
    client_id: &'text str,
    #[serde(skip_serializing_if = "Option::is_none")]
    enter_by: Option<u64>,
    exp: u64,
    grant: String,
    iat: u64,
    iss: &'text str,
    nbf: u64,
    queue_position: u64,
    sub: String,
    token_use: &'text str,
}

/// The payload of the ID token, its keys in alphabetical order.
#[derive(Serialize)]
struct IdPayload<'text> {
    at_hash: String,
    aud: &'text str,
    auth_time: u64,
    exp: u64,
    iat: u64,
    iss: &'text str,
    nbf: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<&'text str>,
    queue_position: u64,
    sub: String,
    token_use: &'text str,
}

const ACCESS: &str = "access";
/// `typ` of access tokens (RFC 9068), which no ID token has and no pass.
const ACCESS_TYPE: &str = "at+jwt";

/// Signs `claims` twice. On a server, go through [`crate::Signer`].
pub fn sign(key: &SigningKey, claims: &OpenIdClaims) -> Result<OpenIdTokenPair, SigningFailed> {
    let access = AccessPayload {
        aud: claims.room.as_str(),
        client_id: &claims.client_id,
        enter_by: claims.enter_by_seconds,
        exp: claims.access_expires_at_seconds,
        grant: grant_text(claims.grant),
        iat: claims.issued_at_seconds,
        iss: &claims.issuer,
        nbf: claims.issued_at_seconds,
        queue_position: claims.queue_position.get(),
        sub: claims.subject.to_string(),
        token_use: ACCESS,
    };
    let access_token = signed(key, ACCESS_TYPE, &access)?;
    let id = IdPayload {
        at_hash: access_token_hash(key.algorithm(), &access_token),
        aud: &claims.client_id,
        auth_time: claims.auth_time_seconds,
        exp: claims.id_expires_at_seconds,
        iat: claims.issued_at_seconds,
        iss: &claims.issuer,
        nbf: claims.issued_at_seconds,
        nonce: claims.nonce.as_deref(),
        queue_position: claims.queue_position.get(),
        sub: claims.subject.to_string(),
        token_use: "id",
    };
    Ok(OpenIdTokenPair { id_token: signed(key, "JWT", &id)?, access_token })
}

/// What an access token says, if `key` signed it for that room and issuer. Whether it has run out, and whether its grant is good, the
/// caller decides. The algorithm is the key's, whatever the token says.
pub fn open_access_token(key: &SigningKey, room: &RoomId, issuer: &str, token: &str) -> Option<OpenIdAccess> {
    #[derive(Deserialize)]
    struct Claims {
        aud: String,
        client_id: String,
        exp: u64,
        grant: String,
        iat: u64,
        iss: String,
        queue_position: u64,
        sub: String,
        token_use: String,
    }
    if token.len() > TOKEN_MAX_LENGTH {
        return None;
    }
    let mut validation = Validation::new(key.algorithm().name().parse().ok()?);
    // The clock is the caller's, and the audience and issuer are compared below, where their absence is noticed.
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    let TokenData { header, claims, .. } =
        jsonwebtoken::decode::<Claims>(token, key.verification_key(), &validation).ok()?;
    let is_access = header.typ.as_deref() == Some(ACCESS_TYPE) && claims.token_use == ACCESS;
    let is_meant = is_access && claims.aud == room.as_str() && claims.iss == issuer;
    if !is_meant {
        return None;
    }
    Some(OpenIdAccess {
        subject: OpenIdSubject::parse(&claims.sub)?,
        grant: parse_grant(&claims.grant)?,
        client_id: claims.client_id,
        queue_position: claims.queue_position,
        issued_at_seconds: claims.iat,
        expires_at_seconds: claims.exp,
    })
}

fn grant_text(grant: u64) -> String {
    format!("{grant:016x}")
}

fn parse_grant(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok().filter(|grant| grant_text(*grant) == text)
}

/// `at_hash`: the left half of the hash that goes with the algorithm (OpenID Connect Core, 3.1.3.6). Ed25519 hashes with SHA-512.
fn access_token_hash(algorithm: SigningAlgorithm, access_token: &str) -> String {
    let algorithm = match algorithm {
        SigningAlgorithm::Rs256 | SigningAlgorithm::Es256 => &digest::SHA256,
        SigningAlgorithm::EdDsa => &digest::SHA512,
    };
    let hash = digest::digest(algorithm, access_token.as_bytes());
    let hash = hash.as_ref();
    base64url::encode(&hash[..hash.len() / 2])
}

fn signed(key: &SigningKey, typ: &str, payload: &impl Serialize) -> Result<String, SigningFailed> {
    let header = Header { alg: key.algorithm().name(), kid: key.kid(), typ };
    let mut token = base64url::encode(to_json(&header));
    token.push('.');
    base64url::encode_onto(&mut token, to_json(payload));
    let signature = key.sign(token.as_bytes()).map_err(|_| SigningFailed)?;
    token.push('.');
    base64url::encode_onto(&mut token, signature);
    Ok(token)
}

#[cfg(test)]
mod tests {
    use anteroom_core::ids::UnixMillis;
    use serde_json::Value;

    use super::*;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
    const ISSUER: &str = "https://wait.example/rooms/Sample";

    fn key(algorithm: SigningAlgorithm) -> SigningKey {
        SigningKey::generate(algorithm, NOW, NOW).unwrap()
    }

    fn room(name: &str) -> RoomId {
        RoomId::parse(name).unwrap()
    }

    fn claims() -> OpenIdClaims {
        OpenIdClaims {
            room: room("Sample"),
            client_id: "shop".into(),
            subject: OpenIdSubject([7; 16]),
            issuer: ISSUER.into(),
            queue_position: Position::new(42).unwrap(),
            grant: 0xab,
            issued_at_seconds: 1_800_000_000,
            access_expires_at_seconds: 1_800_003_600,
            id_expires_at_seconds: 1_800_000_300,
            auth_time_seconds: 1_799_999_990,
            nonce: Some("n\"1".into()),
            enter_by_seconds: None,
        }
    }

    fn payload(token: &str) -> String {
        let payload = token.split('.').nth(1).unwrap();
        String::from_utf8(base64url::decode(payload).unwrap()).unwrap()
    }

    #[test]
    fn json_is_compact_and_its_keys_are_sorted() {
        let key = key(SigningAlgorithm::EdDsa);
        let pair = sign(&key, &claims()).unwrap();
        assert_eq!(
            payload(&pair.access_token),
            r#"{"aud":"Sample","client_id":"shop","exp":1800003600,"grant":"00000000000000ab","iat":1800000000,"iss":"https://wait.example/rooms/Sample","nbf":1800000000,"queue_position":42,"sub":"BwcHBwcHBwcHBwcHBwcHBw","token_use":"access"}"#
        );
        let hash = access_token_hash(SigningAlgorithm::EdDsa, &pair.access_token);
        assert_eq!(
            payload(&pair.id_token),
            format!(
                r#"{{"at_hash":"{hash}","aud":"shop","auth_time":1799999990,"exp":1800000300,"iat":1800000000,"iss":"https://wait.example/rooms/Sample","nbf":1800000000,"nonce":"n\"1","queue_position":42,"sub":"BwcHBwcHBwcHBwcHBwcHBw","token_use":"id"}}"#
            )
        );
        let bare = OpenIdClaims { nonce: None, enter_by_seconds: Some(1_800_000_030), ..claims() };
        let bare = sign(&key, &bare).unwrap();
        assert!(!payload(&bare.id_token).contains("nonce"));
        assert!(payload(&bare.access_token).contains(r#""enter_by":1800000030,"exp""#));
        assert!(!payload(&bare.id_token).contains("enter_by"));
    }

    #[test]
    fn the_hash_of_an_access_token_is_as_long_as_its_algorithm_wants() {
        for (algorithm, bytes) in
            [(SigningAlgorithm::Rs256, 16), (SigningAlgorithm::Es256, 16), (SigningAlgorithm::EdDsa, 32)]
        {
            let hash = access_token_hash(algorithm, "text");
            assert_eq!(base64url::decode(&hash).unwrap().len(), bytes);
        }
        // The example of OpenID Connect Core 1.0, A.3 and A.4.
        let example =
            access_token_hash(SigningAlgorithm::Rs256, "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y");
        assert_eq!(example, "77QmUPtjPfzWtF2AnpK9RQ");
    }

    #[test]
    fn access_tokens_of_all_algorithms_are_opened_by_their_key_alone() {
        for algorithm in SigningAlgorithm::ALL {
            let (key, stranger) = (key(algorithm), key(algorithm));
            let pair = sign(&key, &claims()).unwrap();
            let open = |key, token: &str| open_access_token(key, &room("Sample"), ISSUER, token);
            let access = open(&key, &pair.access_token).unwrap();
            assert_eq!((access.client_id.as_str(), access.subject), ("shop", claims().subject));
            assert_eq!((access.grant, access.queue_position), (0xab, 42));
            assert_eq!(access.expires_at_seconds, 1_800_003_600);
            assert_eq!(open(&stranger, &pair.access_token), None);
            assert_eq!(open(&key, &pair.id_token), None, "not for userInfo");
            assert_eq!(open_access_token(&key, &room("sample"), ISSUER, &pair.access_token), None);
            let other_issuer = "https://wait.example/rooms/Sample/";
            assert_eq!(open_access_token(&key, &room("Sample"), other_issuer, &pair.access_token), None);
        }
    }

    /// A client may be named as its room is, and then only this tells its ID tokens from access tokens, and these from passes.
    #[test]
    fn access_tokens_have_a_type_of_their_own_which_opening_requires() {
        let key = key(SigningAlgorithm::EdDsa);
        let pair = sign(&key, &OpenIdClaims { client_id: "Sample".into(), ..claims() }).unwrap();
        let header_of = |token: &str| {
            let header = base64url::decode(token.split('.').next().unwrap()).unwrap();
            serde_json::from_slice::<Value>(&header).unwrap()
        };
        assert_eq!(header_of(&pair.access_token)["typ"], "at+jwt");
        assert_eq!(header_of(&pair.id_token)["typ"], "JWT");
        let open = |token: &str| open_access_token(&key, &room("Sample"), ISSUER, token);
        assert!(open(&pair.access_token).is_some());
        assert_eq!(open(&pair.id_token), None);
        let payload: Value = serde_json::from_str(&payload(&pair.access_token)).unwrap();
        assert!(open(&signed(&key, "at+jwt", &payload).unwrap()).is_some());
        for typ in ["JWT", "", "AT+JWT", "application/at+jwt"] {
            assert_eq!(open(&signed(&key, typ, &payload).unwrap()), None, "{typ}");
        }
    }

    #[test]
    fn the_algorithm_of_a_token_is_that_of_its_key() {
        let (rsa, eddsa) = (key(SigningAlgorithm::Rs256), key(SigningAlgorithm::EdDsa));
        let token = sign(&rsa, &claims()).unwrap().access_token;
        let [_, body, signature] = token.split('.').collect::<Vec<_>>()[..] else { panic!("{token}") };
        for algorithm in ["none", "HS256", "RS512", "PS256", "ES256", "EdDSA", "rs256"] {
            let header = format!(r#"{{"alg":"{algorithm}","kid":"{}","typ":"at+jwt"}}"#, rsa.kid());
            let header = base64url::encode(header);
            for signature in [signature, ""] {
                let forged = format!("{header}.{body}.{signature}");
                assert_eq!(open_access_token(&rsa, &room("Sample"), ISSUER, &forged), None, "{algorithm}");
            }
        }
        // An HMAC under the public half, which everybody knows.
        let public: Value = rsa.public_jwk();
        let header = base64url::encode(format!(r#"{{"alg":"HS256","kid":"{}","typ":"at+jwt"}}"#, rsa.kid()));
        let message = format!("{header}.{body}");
        let secret = aws_lc_rs::hmac::Key::new(
            aws_lc_rs::hmac::HMAC_SHA256,
            &base64url::decode(public["n"].as_str().unwrap()).unwrap(),
        );
        let tag = base64url::encode(aws_lc_rs::hmac::sign(&secret, message.as_bytes()));
        assert_eq!(open_access_token(&rsa, &room("Sample"), ISSUER, &format!("{message}.{tag}")), None);
        assert_eq!(open_access_token(&eddsa, &room("Sample"), ISSUER, &token), None);
    }

    #[test]
    fn an_edited_token_is_refused() {
        let key = key(SigningAlgorithm::Es256);
        let token = sign(&key, &claims()).unwrap().access_token;
        let [header, body, signature] = token.split('.').collect::<Vec<_>>()[..] else { panic!("{token}") };
        let body = String::from_utf8(base64url::decode(body).unwrap()).unwrap();
        let promoted = body.replace("\"queue_position\":42", "\"queue_position\":1");
        assert_ne!(promoted, body);
        let edited = format!("{header}.{}.{signature}", base64url::encode(promoted));
        assert_eq!(open_access_token(&key, &room("Sample"), ISSUER, &edited), None);
        for text in ["", ".", "..", "a.b.c", &"x".repeat(TOKEN_MAX_LENGTH + 1)] {
            assert_eq!(open_access_token(&key, &room("Sample"), ISSUER, text), None);
        }
    }

    #[test]
    fn a_grant_is_read_in_its_one_spelling() {
        for grant in [0, 1, u64::MAX] {
            assert_eq!(parse_grant(&grant_text(grant)), Some(grant));
        }
        for text in ["", "1", "+000000000000001", "00000000000000AB", "0000000000000000a"] {
            assert_eq!(parse_grant(text), None, "{text}");
        }
    }

    #[test]
    fn debug_output_holds_no_token() {
        let pair = sign(&key(SigningAlgorithm::EdDsa), &claims()).unwrap();
        assert_eq!(format!("{pair:?}"), "OpenIdTokenPair(hidden)");
    }
}
