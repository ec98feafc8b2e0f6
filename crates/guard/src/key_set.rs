//! The published keys, read from a JWK set (RFC 7517).
//!
//! *Invariant:* the algorithm belongs to the key. A token that names another one is refused before anything is computed.

use std::collections::HashMap;

use jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

use crate::fetch::FetchError;
use crate::refusal::Refusal;

/// Keys by their `kid`. Never empty.
pub(crate) struct KeySet(HashMap<String, VerifyingKey>);

/// A public key and the one algorithm that it is used with.
pub(crate) struct VerifyingKey {
    algorithm: Algorithm,
    key: DecodingKey,
}

/// The outer form. Each key is read by itself, so that one of an unknown kind does not spoil the others.
#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

impl KeySet {
    /// Reads a JWK set. Keys that cannot verify passes are left out; of two with the same `kid` the first counts.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, FetchError> {
        let document: Document = serde_json::from_slice(json).map_err(|_| FetchError::NotAKeySet)?;
        let mut keys = HashMap::new();
        for (kid, key) in document.keys.into_iter().filter_map(VerifyingKey::named) {
            keys.entry(kid).or_insert(key);
        }
        if keys.is_empty() { Err(FetchError::NoUsableKey) } else { Ok(Self(keys)) }
    }

    pub(crate) fn get(&self, kid: &str) -> Option<&VerifyingKey> {
        self.0.get(kid)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl VerifyingKey {
    /// The key and its `kid`, if it is one that passes can be signed with.
    fn named(json: Value) -> Option<(String, Self)> {
        let jwk: Jwk = serde_json::from_value(json).ok()?;
        let is_for_signatures = match &jwk.common.public_key_use {
            None | Some(PublicKeyUse::Signature) => true,
            Some(_) => false,
        };
        let verifies = |operations: &Vec<KeyOperations>| operations.contains(&KeyOperations::Verify);
        if !is_for_signatures || !jwk.common.key_operations.as_ref().is_none_or(verifies) {
            return None;
        }
        // What the key is made for decides; what the set calls its algorithm must be the same.
        let (algorithm, name) = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
            AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P256 => {
                (Algorithm::ES256, KeyAlgorithm::ES256)
            }
            AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
                (Algorithm::EdDSA, KeyAlgorithm::EdDSA)
            }
            _ => return None,
        };
        if jwk.common.key_algorithm.is_some_and(|named| named != name) {
            return None;
        }
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        Some((jwk.common.key_id?, Self { algorithm, key }))
    }

    /// Whether a token that calls its algorithm `alg` has this key's signature.
    pub(crate) fn verify(&self, alg: &str, signed: &[u8], signature: &Vec<u8>) -> Result<(), Refusal> {
        let name = match self.algorithm {
            Algorithm::RS256 => "RS256",
            Algorithm::ES256 => "ES256",
            _ => "EdDSA",
        };
        if alg != name {
            return Err(Refusal::WrongAlgorithm);
        }
        // The provider is named, because the process-wide one panics where another crate switches a second one on.
        let verifier = (DEFAULT_PROVIDER.verifier_factory)(&self.algorithm, &self.key);
        let verifier = verifier.map_err(|_| Refusal::WrongSignature)?;
        verifier.verify(signed, signature).map_err(|_| Refusal::WrongSignature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED25519: &str =
        r#"{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;

    fn parse(keys: &[&str]) -> Result<KeySet, FetchError> {
        KeySet::parse(format!("{{\"keys\":[{}]}}", keys.join(",")).as_bytes())
    }

    #[test]
    fn keys_that_cannot_verify_passes_are_left_out() {
        let with = |member: &str| ED25519.replace('{', &format!("{{{member},"));
        for useless in [
            with(r#""use":"enc""#),
            with(r#""key_ops":["sign"]"#),
            with(r#""alg":"HS256""#),
            with(r#""alg":"RS256""#),
            ED25519.replace(r#""kid":"a","#, ""),
            ED25519.replace("Ed25519", "P-256"),
            r#"{"kty":"oct","kid":"a","k":"c2VjcmV0"}"#.to_owned(),
            r#"{"kty":"EC","crv":"P-384","kid":"a","x":"AA","y":"AA"}"#.to_owned(),
            r#"{"kty":"RSA","alg":"RS512","kid":"a","n":"AA","e":"AQAB"}"#.to_owned(),
            r#"{"kty":"RSA","alg":"HS256","kid":"a","n":"AA","e":"AQAB"}"#.to_owned(),
            r#"{"kty":"new","kid":"a"}"#.to_owned(),
            "7".to_owned(),
        ] {
            assert_eq!(parse(&[&useless]).err(), Some(FetchError::NoUsableKey), "{useless}");
            let beside_a_good_one = parse(&[&useless, &ED25519.replace("\"a\"", "\"b\"")]).unwrap();
            assert!(beside_a_good_one.get("b").is_some() && beside_a_good_one.len() == 1, "{useless}");
        }
        for good in [ED25519.to_owned(), with(r#""alg":"EdDSA","use":"sig","key_ops":["verify"]"#)] {
            assert!(parse(&[&good]).is_ok_and(|keys| keys.get("a").is_some()), "{good}");
        }
    }

    #[test]
    fn what_is_no_key_set_is_refused() {
        for garbage in ["", "null", "[]", "{}", "<html>", "{\"keys\":{}}", "{\"keys\":[]}x"] {
            assert_eq!(KeySet::parse(garbage.as_bytes()).err(), Some(FetchError::NotAKeySet), "{garbage}");
        }
        assert_eq!(parse(&[]).err(), Some(FetchError::NoUsableKey));
    }

    #[test]
    fn of_two_keys_with_one_name_the_first_counts() {
        let rsa = r#"{"kty":"RSA","kid":"a","n":"AA","e":"AQAB"}"#;
        let keys = parse(&[ED25519, rsa]).unwrap();
        assert_eq!((keys.len(), keys.get("a").unwrap().algorithm), (1, Algorithm::EdDSA));
    }
}
