//! The pass: three signed tokens (access, refresh, id) that differ in nothing but `token_use`, and `enter_by` in the access token.
//!
//! Written exactly as AWS's waiting room wrote them: compact JSON, keys in alphabetical order in header and payload, `aud`
//! one text. A pass is a function of key and claims alone, so a repeated claim gets the same bytes: by signing again where
//! the algorithm is deterministic, by [`TokenSet::assemble`] from kept [`Signatures`] where it is not.

use std::fmt;

use anteroom_core::ids::{Position, RequestId, RoomId};
use jsonwebtoken::Validation;
use serde::{Deserialize, Serialize};

use crate::base64url;
use crate::request_id;
use crate::signing_key::SigningKey;

/// What a pass says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PassClaims {
    /// `aud`: the room.
    pub audience: RoomId,
    /// `sub`: whose pass it is.
    pub subject: RequestId,
    /// `iss`: the room's issuer.
    pub issuer: String,
    /// `queue_position`.
    pub queue_position: Position,
    /// `iat` and `nbf`, in seconds since 1970.
    pub issued_at_seconds: u64,
    /// `exp`, in seconds since 1970.
    pub expires_at_seconds: u64,
    /// `enter_by` of the access token, in seconds since 1970: a first use after it is to be refused. Told where the room gives
    /// slots away on the origin's word.
    pub enter_by_seconds: Option<u64>,
}

/// The tokens as the visitor receives them. Their holder is let in, so they are never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSet {
    /// Shown to the origin.
    pub access_token: String,
    /// Exchanged for a new access token.
    pub refresh_token: String,
    /// For OpenID Connect clients.
    pub id_token: String,
}

/// The three signatures of a token set: all there is to keep of a pass whose claims are kept anyway.
#[derive(Clone, PartialEq, Eq)]
pub struct Signatures {
    access: Vec<u8>,
    refresh: Vec<u8>,
    id: Vec<u8>,
}

/// A pass as it comes from signing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedPass {
    /// For the visitor.
    pub tokens: TokenSet,
    /// To keep, if the algorithm is not deterministic.
    pub signatures: Signatures,
}

/// The library refused to sign. Not seen in practice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a pass could not be signed")]
pub struct SigningFailed;

/// Signs `claims` three times: about 2 ms with RS256. On a server, go through [`crate::Signer`].
pub fn sign(key: &SigningKey, claims: &PassClaims) -> Result<SignedPass, SigningFailed> {
    let messages = Messages::new(key, claims);
    let sign = |message: &str| key.sign(message.as_bytes()).map_err(|_| SigningFailed);
    let signatures = Signatures {
        access: sign(&messages.access)?,
        refresh: sign(&messages.refresh)?,
        id: sign(&messages.id)?,
    };
    Ok(SignedPass { tokens: messages.with(&signatures), signatures })
}

/// Signs the access token alone, for a caller that returns nothing else. The other two are empty.
pub(crate) fn sign_access(key: &SigningKey, claims: &PassClaims) -> Result<SignedPass, SigningFailed> {
    let messages = Messages::new(key, claims);
    let access = key.sign(messages.access.as_bytes()).map_err(|_| SigningFailed)?;
    let signatures = Signatures { access, refresh: vec![], id: vec![] };
    let access_token = messages.with(&signatures).access_token;
    let tokens = TokenSet { access_token, refresh_token: String::new(), id_token: String::new() };
    Ok(SignedPass { tokens, signatures })
}

impl TokenSet {
    /// The tokens that had these signatures when `key` signed `claims`. Costs no signing and checks nothing.
    pub fn assemble(key: &SigningKey, claims: &PassClaims, signatures: &Signatures) -> Self {
        Messages::new(key, claims).with(signatures)
    }
}

/// The name of the key that a token says it was signed with. Nothing is checked.
pub fn key_id(token: &str) -> Option<String> {
    if token.len() > TOKEN_MAX_LENGTH {
        return None;
    }
    jsonwebtoken::decode_header(token).ok()?.kid
}

/// Whose refresh token this is, if `key` signed it for `audience` and it has not run out.
pub fn open_refresh_token(key: &SigningKey, audience: &RoomId, token: &str) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct Claims {
        sub: String,
        token_use: String,
    }
    if token.len() > TOKEN_MAX_LENGTH {
        return None;
    }
    let mut validation = Validation::new(key.algorithm().name().parse().ok()?);
    validation.set_audience(&[audience.as_str()]);
    validation.leeway = 0;
    let claims = jsonwebtoken::decode::<Claims>(token, key.verification_key(), &validation).ok()?.claims;
    request_id::parse(&claims.sub).filter(|_| claims.token_use == "refresh")
}

impl fmt::Debug for TokenSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TokenSet(hidden)")
    }
}

/// The longest token that is looked at, in bytes: an issuer of 512 characters and an RSA signature fit four times over.
pub(crate) const TOKEN_MAX_LENGTH: usize = 4_096;

/// `token_use` of what is shown to the origin.
const ACCESS: &str = "access";

/// How long signatures may be, in bytes: of ES256 and `EdDSA`, and of RS256.
const SIGNATURE_LENGTHS: [usize; 2] = [64, 256];

impl Signatures {
    /// Of tokens whose signatures nobody keeps.
    pub(crate) fn none() -> Self {
        Self { access: vec![], refresh: vec![], id: vec![] }
    }

    /// The signatures one after the other; they are equally long.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&*self.access, &*self.refresh, &*self.id].concat()
    }

    /// The inverse of [`Signatures::to_bytes`]; nothing if these bytes cannot be three signatures.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let length = SIGNATURE_LENGTHS.into_iter().find(|length| bytes.len() == 3 * length)?;
        let part = |index: usize| bytes[index * length..][..length].to_vec();
        Some(Self { access: part(0), refresh: part(1), id: part(2) })
    }
}

impl fmt::Debug for Signatures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Signatures(hidden)")
    }
}

/// The three texts that are signed: header and payload of each token.
struct Messages {
    access: String,
    refresh: String,
    id: String,
}

/// The header, its keys in alphabetical order.
#[derive(Serialize)]
pub(crate) struct Header<'text> {
    pub(crate) alg: &'text str,
    pub(crate) kid: &'text str,
    pub(crate) typ: &'text str,
}

/// The payload, its keys in alphabetical order.
#[derive(Serialize)]
struct Payload<'text> {
    aud: &'text str,
    #[serde(skip_serializing_if = "Option::is_none")]
    enter_by: Option<u64>,
    exp: u64,
    iat: u64,
    iss: &'text str,
    nbf: u64,
    queue_position: u64,
    sub: &'text str,
    token_use: &'text str,
}

impl Messages {
    fn new(key: &SigningKey, claims: &PassClaims) -> Self {
        let header = to_json(&Header { alg: key.algorithm().name(), kid: key.kid(), typ: "JWT" });
        let mut subject = [0; request_id::TEXT_LENGTH];
        let subject = request_id::write_into(claims.subject, &mut subject);
        let message = |token_use: &str| {
            let payload = to_json(&Payload {
                aud: claims.audience.as_str(),
                enter_by: claims.enter_by_seconds.filter(|_| token_use == ACCESS),
                exp: claims.expires_at_seconds,
                iat: claims.issued_at_seconds,
                iss: &claims.issuer,
                nbf: claims.issued_at_seconds,
                queue_position: claims.queue_position.get(),
                sub: subject,
                token_use,
            });
            let mut message = base64url::encode(&header);
            message.push('.');
            base64url::encode_onto(&mut message, payload);
            message
        };
        Self { access: message(ACCESS), refresh: message("refresh"), id: message("id") }
    }

    fn with(self, signatures: &Signatures) -> TokenSet {
        let token = |mut message: String, signature: &[u8]| {
            message.push('.');
            base64url::encode_onto(&mut message, signature);
            message
        };
        TokenSet {
            access_token: token(self.access, &signatures.access),
            refresh_token: token(self.refresh, &signatures.refresh),
            id_token: token(self.id, &signatures.id),
        }
    }
}

pub(crate) fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts and numbers can always be written as JSON")
}

#[cfg(test)]
mod tests {
    use anteroom_core::ids::UnixMillis;
    use jsonwebtoken::jwk::Jwk;
    use jsonwebtoken::{Algorithm, DecodingKey};
    use serde_json::{Value, json};

    use super::*;
    use crate::signing_key::SigningAlgorithm;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

    fn key(algorithm: SigningAlgorithm) -> SigningKey {
        SigningKey::generate(algorithm, NOW, NOW).unwrap()
    }

    fn claims() -> PassClaims {
        PassClaims {
            audience: RoomId::parse("Sample").unwrap(),
            subject: request_id::parse("0123abcd-ef01-8234-9678-9abcdef01234").unwrap(),
            issuer: "https://example.test/\"quoted\"".into(),
            queue_position: Position::new(42).unwrap(),
            issued_at_seconds: 1_800_000_000,
            expires_at_seconds: 1_800_003_600,
            enter_by_seconds: None,
        }
    }

    /// What a verifier with nothing but the JWK reads in the token; the time is not checked.
    fn verify_with_jwk(token: &str, jwk: &Value) -> Result<Value, jsonwebtoken::errors::Error> {
        let jwk: Jwk = serde_json::from_value(jwk.clone()).unwrap();
        let algorithm: Algorithm = jwk.common.key_algorithm.unwrap().to_string().parse().unwrap();
        let mut validation = Validation::new(algorithm);
        validation.validate_exp = false;
        validation.set_audience(&["Sample"]);
        validation.set_issuer(&["https://example.test/\"quoted\""]);
        let data = jsonwebtoken::decode::<Value>(token, &DecodingKey::from_jwk(&jwk)?, &validation)?;
        assert_eq!(data.header.kid, jwk.common.key_id);
        Ok(data.claims)
    }

    #[test]
    fn passes_of_all_algorithms_are_verified_from_the_jwk_alone() {
        for algorithm in SigningAlgorithm::ALL {
            let (key, stranger) = (key(algorithm), key(algorithm));
            let tokens = sign(&key, &claims()).unwrap().tokens;
            let uses = [
                ("access", &tokens.access_token),
                ("refresh", &tokens.refresh_token),
                ("id", &tokens.id_token),
            ];
            for (token_use, token) in uses {
                let expected = json!({
                    "aud": "Sample", "exp": 1_800_003_600, "iat": 1_800_000_000, "iss": "https://example.test/\"quoted\"",
                    "nbf": 1_800_000_000, "queue_position": 42, "sub": "0123abcd-ef01-8234-9678-9abcdef01234",
                    "token_use": token_use,
                });
                assert_eq!(verify_with_jwk(token, &key.public_jwk()).unwrap(), expected, "{algorithm}");
                assert!(verify_with_jwk(token, &stranger.public_jwk()).is_err(), "{algorithm}");
            }
        }
    }

    #[test]
    fn an_edited_pass_is_refused() {
        let key = key(SigningAlgorithm::EdDsa);
        let token = sign(&key, &claims()).unwrap().tokens.access_token;
        let [header, payload, signature] = token.split('.').collect::<Vec<_>>()[..] else {
            panic!("{token}")
        };
        let payload = String::from_utf8(base64url::decode(payload).unwrap()).unwrap();
        let promoted = payload.replace("\"queue_position\":42", "\"queue_position\":1");
        assert_ne!(promoted, payload);
        let edited = format!("{header}.{}.{signature}", base64url::encode(promoted));
        assert!(verify_with_jwk(&token, &key.public_jwk()).is_ok());
        assert!(verify_with_jwk(&edited, &key.public_jwk()).is_err());
    }

    #[test]
    fn json_is_compact_and_its_keys_are_sorted() {
        let key = key(SigningAlgorithm::EdDsa);
        let token = sign(&key, &claims()).unwrap().tokens.access_token;
        let parts: Vec<String> = token
            .split('.')
            .take(2)
            .map(|part| String::from_utf8(base64url::decode(part).unwrap()).unwrap())
            .collect();
        assert_eq!(parts[0], format!(r#"{{"alg":"EdDSA","kid":"{}","typ":"JWT"}}"#, key.kid()));
        assert_eq!(
            parts[1],
            r#"{"aud":"Sample","exp":1800003600,"iat":1800000000,"iss":"https://example.test/\"quoted\"","nbf":1800000000,"queue_position":42,"sub":"0123abcd-ef01-8234-9678-9abcdef01234","token_use":"access"}"#
        );
    }

    #[test]
    fn the_access_token_alone_says_until_when_it_may_be_used_first() {
        let key = key(SigningAlgorithm::EdDsa);
        let tokens =
            sign(&key, &PassClaims { enter_by_seconds: Some(1_800_000_030), ..claims() }).unwrap().tokens;
        let payload = |token: &str| {
            String::from_utf8(base64url::decode(token.split('.').nth(1).unwrap()).unwrap()).unwrap()
        };
        let access = payload(&tokens.access_token);
        assert!(access.starts_with(r#"{"aud":"Sample","enter_by":1800000030,"exp":"#), "{access}");
        for other in [&tokens.refresh_token, &tokens.id_token] {
            assert!(!payload(other).contains("enter_by"));
        }
    }

    #[test]
    fn kept_signatures_give_back_the_very_same_tokens() {
        for algorithm in SigningAlgorithm::ALL {
            let key = key(algorithm);
            let signed = sign(&key, &claims()).unwrap();
            let kept = Signatures::from_bytes(&signed.signatures.to_bytes()).unwrap();
            assert!(TokenSet::assemble(&key, &claims(), &kept) == signed.tokens, "{algorithm}");
            let signed_again = sign(&key, &claims()).unwrap();
            assert_eq!(signed_again.tokens == signed.tokens, algorithm.is_deterministic(), "{algorithm}");
        }
    }

    #[test]
    fn bytes_that_are_not_three_signatures_are_refused() {
        for algorithm in SigningAlgorithm::ALL {
            assert!(SIGNATURE_LENGTHS.contains(&algorithm.signature_length()));
        }
        for length in [0, 1, 63, 64, 191, 193, 767, 769] {
            assert!(Signatures::from_bytes(&vec![0; length]).is_none(), "{length}");
        }
    }

    #[test]
    fn debug_output_holds_no_token() {
        let signed = sign(&key(SigningAlgorithm::EdDsa), &claims()).unwrap();
        let expected = "SignedPass { tokens: TokenSet(hidden), signatures: Signatures(hidden) }";
        assert_eq!(format!("{signed:?}"), expected);
    }
}
