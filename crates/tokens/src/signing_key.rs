//! A key pair that signs passes, and its public half as a JWK.
//!
//! The private half stays inside the parsed key of aws-lc-rs: parsing an RSA key costs a tenth of a signature, so it happens
//! once. It leaves this module only sealed, by [`crate::key_ring`].

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use anteroom_core::ids::UnixMillis;
use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use jsonwebtoken::DecodingKey;
use serde::{Deserialize, Serialize};
use serde_json::json;
use zeroize::Zeroizing;

use crate::base64url;
use crate::random;

/// The longest key id that is accepted, in characters.
pub const KID_MAX_LENGTH: usize = 128;

/// How passes are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum SigningAlgorithm {
    /// RSA of 2048 bits, PKCS #1 v1.5, SHA-256: what AWS's waiting room used and every JWT library knows.
    #[default]
    #[serde(rename = "RS256")]
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    #[serde(rename = "ES256")]
    Es256,
    /// Ed25519. Signs about 70 times as fast as RS256.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

impl SigningAlgorithm {
    /// All of them, the default first.
    pub const ALL: [Self; 3] = [Self::Rs256, Self::Es256, Self::EdDsa];

    /// The name that JOSE gives it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }

    /// Whether signing the same claims again gives the same bytes. Where it does not, the signatures must be kept, because a
    /// repeated claim promises the very same pass.
    pub const fn is_deterministic(self) -> bool {
        match self {
            Self::Rs256 | Self::EdDsa => true,
            Self::Es256 => false,
        }
    }

    /// The length of a signature, in bytes.
    pub const fn signature_length(self) -> usize {
        match self {
            Self::Rs256 => 256,
            Self::Es256 | Self::EdDsa => 64,
        }
    }
}

impl fmt::Display for SigningAlgorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A name that is none of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown signing algorithm; known are RS256, ES256 and EdDSA")]
pub struct UnknownAlgorithm;

impl FromStr for SigningAlgorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == text).ok_or(UnknownAlgorithm)
    }
}

/// Why there is no key. Says nothing about its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The library could not make one.
    #[error("a {0} key could not be generated")]
    Generation(SigningAlgorithm),
    /// Not a key of this kind.
    #[error("this is not a PKCS #8 private key for {0}")]
    NotAKey(SigningAlgorithm),
    /// The key id cannot be written into a token.
    #[error("a key id is 1 to {KID_MAX_LENGTH} characters out of A-Z, a-z, 0-9, '_', '.' and '-'")]
    InvalidKid,
}

/// A key pair with its times. Cheap to clone: the private half is shared.
#[derive(Clone)]
pub struct SigningKey {
    kid: Arc<str>,
    created: UnixMillis,
    active_from: UnixMillis,
    retired_at: Option<UnixMillis>,
    pair: Arc<KeyPair>,
    verification_key: Arc<DecodingKey>,
}

/// The parsed private halves.
enum KeyPair {
    Rs256(RsaKeyPair),
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
}

impl SigningKey {
    /// A new key that signs from `active_from` on. RSA takes tens to hundreds of milliseconds: not on a runtime's thread.
    pub fn generate(
        algorithm: SigningAlgorithm,
        created: UnixMillis,
        active_from: UnixMillis,
    ) -> Result<Self, KeyError> {
        let pair = KeyPair::generate(algorithm).map_err(|Unspecified| KeyError::Generation(algorithm))?;
        let kid: Arc<str> = random::uuid_v4().simple().to_string().into();
        Ok(Self::with_pair(kid, pair, created, active_from))
    }

    /// A key that was made outside Anteroom, in PKCS #8.
    pub fn import(
        kid: &str,
        algorithm: SigningAlgorithm,
        pkcs8: &[u8],
        created: UnixMillis,
        active_from: UnixMillis,
    ) -> Result<Self, KeyError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        if kid.is_empty() || kid.len() > KID_MAX_LENGTH || !kid.bytes().all(allowed) {
            return Err(KeyError::InvalidKid);
        }
        let pair = KeyPair::parse(algorithm, pkcs8).ok_or(KeyError::NotAKey(algorithm))?;
        Ok(Self::with_pair(kid.into(), pair, created, active_from))
    }

    fn with_pair(kid: Arc<str>, pair: KeyPair, created: UnixMillis, active_from: UnixMillis) -> Self {
        let verification_key = Arc::new(pair.verification_key());
        Self { kid, created, active_from, retired_at: None, pair: Arc::new(pair), verification_key }
    }

    /// The key's name in tokens and JWKs: for generated keys, the 32 hexadecimal digits of a random UUID.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// What it signs with.
    pub fn algorithm(&self) -> SigningAlgorithm {
        match *self.pair {
            KeyPair::Rs256(_) => SigningAlgorithm::Rs256,
            KeyPair::Es256(_) => SigningAlgorithm::Es256,
            KeyPair::EdDsa(_) => SigningAlgorithm::EdDsa,
        }
    }

    /// When it was made.
    pub fn created(&self) -> UnixMillis {
        self.created
    }

    /// From when on it signs. Until then it is only published, so that verifiers know it in time.
    pub fn active_from(&self) -> UnixMillis {
        self.active_from
    }

    /// When it is no longer published, because everything it signed has expired. Nothing while it has no successor.
    pub fn retired_at(&self) -> Option<UnixMillis> {
        self.retired_at
    }

    /// Whether verifiers may still meet its signatures.
    pub fn is_published(&self, now: UnixMillis) -> bool {
        self.retired_at.is_none_or(|retired_at| now < retired_at)
    }

    /// The public half. For RSA exactly the five members that AWS's `/public_key` had.
    pub fn public_jwk(&self) -> serde_json::Value {
        let (alg, kid) = (self.algorithm().name(), self.kid());
        match &*self.pair {
            KeyPair::Rs256(pair) => {
                let n = base64url::encode(pair.public_key().modulus().big_endian_without_leading_zero());
                let e = base64url::encode(pair.public_key().exponent().big_endian_without_leading_zero());
                json!({"kty": "RSA", "alg": alg, "kid": kid, "n": n, "e": e})
            }
            KeyPair::Es256(pair) => {
                // An uncompressed point: the byte 4, then 32 bytes each of x and y.
                let point = pair.public_key().as_ref();
                let (x, y) = (base64url::encode(&point[1..33]), base64url::encode(&point[33..65]));
                json!({"kty": "EC", "crv": "P-256", "x": x, "y": y, "alg": alg, "kid": kid})
            }
            KeyPair::EdDsa(pair) => {
                let x = base64url::encode(pair.public_key());
                json!({"kty": "OKP", "crv": "Ed25519", "x": x, "alg": alg, "kid": kid})
            }
        }
    }

    /// The public half for verifying: made once, because tokens are verified more often than keys change.
    pub(crate) fn verification_key(&self) -> &DecodingKey {
        &self.verification_key
    }

    /// The signature over `message`, in the form JWS wants.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Unspecified> {
        match &*self.pair {
            KeyPair::Rs256(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature)?;
                Ok(signature)
            }
            KeyPair::Es256(pair) => Ok(pair.sign(&SystemRandom::new(), message)?.as_ref().to_vec()),
            KeyPair::EdDsa(pair) => Ok(pair.try_sign(message)?.as_ref().to_vec()),
        }
    }

    /// The private half in PKCS #8, for nobody but the key ring, which seals it at once.
    pub(crate) fn to_pkcs8(&self) -> Result<Zeroizing<Vec<u8>>, Unspecified> {
        let bytes = match &*self.pair {
            KeyPair::Rs256(pair) => pair.as_der()?.as_ref().to_vec(),
            KeyPair::Es256(pair) => pair.to_pkcs8v1()?.as_ref().to_vec(),
            KeyPair::EdDsa(pair) => pair.to_pkcs8v1()?.as_ref().to_vec(),
        };
        Ok(Zeroizing::new(bytes))
    }

    /// The same key, to be forgotten at `retired_at`.
    pub(crate) fn with_retirement(&self, retired_at: Option<UnixMillis>) -> Self {
        Self { retired_at, ..self.clone() }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SigningKey")
            .field("kid", &self.kid)
            .field("algorithm", &self.algorithm())
            .field("active_from", &self.active_from)
            .field("retired_at", &self.retired_at)
            .finish_non_exhaustive()
    }
}

impl KeyPair {
    /// The raw public halves, which for the curves is what the library calls DER.
    fn verification_key(&self) -> DecodingKey {
        match self {
            Self::Rs256(pair) => DecodingKey::from_rsa_raw_components(
                pair.public_key().modulus().big_endian_without_leading_zero(),
                pair.public_key().exponent().big_endian_without_leading_zero(),
            ),
            Self::Es256(pair) => DecodingKey::from_ec_der(pair.public_key().as_ref()),
            Self::EdDsa(pair) => DecodingKey::from_ed_der(pair.public_key().as_ref()),
        }
    }

    fn generate(algorithm: SigningAlgorithm) -> Result<Self, Unspecified> {
        Ok(match algorithm {
            SigningAlgorithm::Rs256 => Self::Rs256(RsaKeyPair::generate(KeySize::Rsa2048)?),
            SigningAlgorithm::Es256 => Self::Es256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?),
            SigningAlgorithm::EdDsa => Self::EdDsa(Ed25519KeyPair::generate()?),
        })
    }

    fn parse(algorithm: SigningAlgorithm, pkcs8: &[u8]) -> Option<Self> {
        Some(match algorithm {
            SigningAlgorithm::Rs256 => {
                // Other sizes are secure too, but their signatures would not have the one length we keep and read back.
                let pair = RsaKeyPair::from_pkcs8(pkcs8).ok()?;
                let has_the_one_size = pair.public_modulus_len() == algorithm.signature_length();
                Self::Rs256(has_the_one_size.then_some(pair)?)
            }
            SigningAlgorithm::Es256 => {
                Self::Es256(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8).ok()?)
            }
            SigningAlgorithm::EdDsa => Self::EdDsa(Ed25519KeyPair::from_pkcs8(pkcs8).ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

    fn generated(algorithm: SigningAlgorithm) -> SigningKey {
        SigningKey::generate(algorithm, NOW, NOW).unwrap()
    }

    #[test]
    fn algorithms_are_read_and_written_by_their_jose_names() {
        for algorithm in SigningAlgorithm::ALL {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
            assert_eq!(serde_json::to_value(algorithm).unwrap(), algorithm.name());
        }
        assert_eq!(SigningAlgorithm::default(), SigningAlgorithm::Rs256);
        for unknown in ["", "none", "rs256", "HS256", "RS512"] {
            assert_eq!(unknown.parse::<SigningAlgorithm>(), Err(UnknownAlgorithm), "{unknown}");
        }
    }

    #[test]
    fn a_kid_is_32_hexadecimal_digits_and_never_the_same() {
        let (first, second) = (generated(SigningAlgorithm::EdDsa), generated(SigningAlgorithm::EdDsa));
        assert_eq!(first.kid().len(), 32);
        assert!(first.kid().bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)));
        assert_ne!(first.kid(), second.kid());
    }

    #[test]
    fn jwks_have_exactly_their_members() {
        let members = |algorithm| {
            let jwk = generated(algorithm).public_jwk();
            jwk.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(members(SigningAlgorithm::Rs256), "alg e kid kty n");
        assert_eq!(members(SigningAlgorithm::Es256), "alg crv kid kty x y");
        assert_eq!(members(SigningAlgorithm::EdDsa), "alg crv kid kty x");
    }

    #[test]
    fn a_private_half_written_and_read_again_is_the_same_key() {
        for algorithm in SigningAlgorithm::ALL {
            let key = generated(algorithm);
            let pkcs8 = key.to_pkcs8().unwrap();
            let again = SigningKey::import(key.kid(), algorithm, &pkcs8, NOW, NOW).unwrap();
            assert_eq!(again.public_jwk(), key.public_jwk());
            assert_eq!(key.sign(b"message").unwrap().len(), algorithm.signature_length());
            for other in SigningAlgorithm::ALL.into_iter().filter(|other| *other != algorithm) {
                let mistaken = SigningKey::import(key.kid(), other, &pkcs8, NOW, NOW);
                assert_eq!(mistaken.unwrap_err(), KeyError::NotAKey(other));
            }
        }
    }

    /// It verifies the same as the JWK that verifiers fetch, and is made once for all clones of a key.
    #[test]
    fn a_key_keeps_the_half_that_verifies() {
        for algorithm in SigningAlgorithm::ALL {
            let key = generated(algorithm);
            let jwk = serde_json::from_value(key.public_jwk()).unwrap();
            let of_jwk = DecodingKey::from_jwk(&jwk).unwrap();
            let message = "header.payload";
            let signature = base64url::encode(key.sign(message.as_bytes()).unwrap());
            let name = algorithm.name().parse().unwrap();
            for verification_key in [key.verification_key(), &of_jwk] {
                let verify = |signature: &str, message: &str| {
                    jsonwebtoken::crypto::verify(signature, message.as_bytes(), verification_key, name)
                };
                assert_eq!(verify(&signature, message).ok(), Some(true), "{algorithm}");
                assert_ne!(verify(&signature, "header.other").ok(), Some(true), "{algorithm}");
            }
            let later = key.clone().with_retirement(Some(NOW));
            assert!(std::ptr::eq(key.verification_key(), later.verification_key()));
        }
    }

    #[test]
    fn only_the_algorithms_said_to_be_deterministic_are() {
        for algorithm in SigningAlgorithm::ALL {
            let key = generated(algorithm);
            let same = key.sign(b"message").unwrap() == key.sign(b"message").unwrap();
            assert_eq!(same, algorithm.is_deterministic(), "{algorithm}");
        }
    }

    #[test]
    fn key_ids_that_do_not_fit_into_a_token_are_refused() {
        let pkcs8 = generated(SigningAlgorithm::EdDsa).to_pkcs8().unwrap();
        let import =
            |kid: &str| SigningKey::import(kid, SigningAlgorithm::EdDsa, &pkcs8, NOW, NOW).map(|_| ());
        assert_eq!(import("2026-11_a.b"), Ok(()));
        for bad in ["", "a b", "a\"b", "ä", &"x".repeat(KID_MAX_LENGTH + 1)] {
            assert_eq!(import(bad), Err(KeyError::InvalidKid), "{bad:?}");
        }
    }

    #[test]
    fn debug_output_holds_no_private_key() {
        for algorithm in SigningAlgorithm::ALL {
            let key = generated(algorithm);
            let shown = format!("{key:?}");
            let expected = format!(
                "SigningKey {{ kid: \"{}\", algorithm: {algorithm:?}, active_from: UnixMillis({}), retired_at: None, .. }}",
                key.kid(),
                NOW.0
            );
            assert_eq!(shown, expected);
        }
    }
}
