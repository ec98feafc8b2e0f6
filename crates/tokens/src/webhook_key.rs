//! Keys that webhooks are signed with, by [Standard Webhooks](https://www.standardwebhooks.com) 1.0.
//!
//! Signed is `id.timestamp.body`, so a receiver knows that the body is ours and when it was sent; an old request that somebody sends again
//! has an old timestamp. A shared secret (HMAC-SHA256) both sides know; of a key pair (Ed25519) the receiver knows the public half only, and so
//! cannot sign for us.

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::engine::{DecodePaddingMode, general_purpose::STANDARD};
use secrecy::SecretString;
use std::fmt;
use zeroize::Zeroizing;

use crate::random;
use crate::sealed_secret::{self, OpenError};
use crate::secret::{Label, MasterSecrets};

/// The shortest shared secret, in bytes.
pub const SHARED_SECRET_MIN_BYTES: usize = 24;
/// The longest shared secret, in bytes.
pub const SHARED_SECRET_MAX_BYTES: usize = 64;
/// How many random bytes a generated shared secret has.
const GENERATED_SECRET_BYTES: usize = 32;
/// The size of an Ed25519 seed.
const SEED_BYTES: usize = 32;
/// What a shared secret begins with, so that people and scanners recognise it.
const SHARED_SECRET_PREFIX: &str = "whsec_";
/// What a public key begins with.
const PUBLIC_KEY_PREFIX: &str = "whpk_";
/// The first byte of a key below its seal: which algorithm it is for.
const HMAC_SHA256_TAG: u8 = 1;
/// See [`HMAC_SHA256_TAG`].
const ED25519_TAG: u8 = 2;
/// Base64 with or without its padding: people lose the `=` at the end when they copy.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// How webhooks are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WebhookAlgorithm {
    /// HMAC-SHA256 with a shared secret: `v1`.
    HmacSha256,
    /// Ed25519 with a key pair: `v1a`.
    Ed25519,
}

impl WebhookAlgorithm {
    /// Both, the default first.
    pub const ALL: [Self; 2] = [Self::HmacSha256, Self::Ed25519];

    /// Its name in settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HmacSha256 => "hmac-sha256",
            Self::Ed25519 => "ed25519",
        }
    }

    /// The algorithm of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == text)
    }
}

impl fmt::Display for WebhookAlgorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Why there is no key. Says nothing about its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WebhookKeyError {
    /// Something else, or a public key.
    #[error("a webhook secret begins with {SHARED_SECRET_PREFIX}")]
    Prefix,
    /// Not base64.
    #[error("what follows {SHARED_SECRET_PREFIX} in a webhook secret is base64")]
    Base64,
    /// Too short to be safe, or too long for receivers.
    #[error(
        "a webhook secret has {SHARED_SECRET_MIN_BYTES} to {SHARED_SECRET_MAX_BYTES} bytes before base64, but this one has {0}"
    )]
    Length(usize),
    /// The library would not encrypt it.
    #[error("the webhook key could not be sealed")]
    Sealing,
    /// These bytes are not a sealed key.
    #[error("the stored webhook key is not readable; it is damaged, or was written by a newer server")]
    Malformed,
    /// None of the master secrets opens it, or somebody changed it or put it under another destination.
    #[error("the stored webhook key was sealed with another master secret, or was tampered with")]
    Refused,
}

/// A key that webhooks are signed with. Wiped from memory when dropped.
pub struct WebhookKey(Secret);

/// What must not be shown.
enum Secret {
    HmacSha256(Zeroizing<Vec<u8>>),
    Ed25519(Zeroizing<[u8; SEED_BYTES]>),
}

impl WebhookKey {
    /// A new random key.
    pub fn generate(algorithm: WebhookAlgorithm) -> Self {
        Self(match algorithm {
            WebhookAlgorithm::HmacSha256 => {
                let drawn = Zeroizing::new(random::bytes::<GENERATED_SECRET_BYTES>());
                Secret::HmacSha256(Zeroizing::new(drawn.to_vec()))
            }
            WebhookAlgorithm::Ed25519 => Secret::Ed25519(Zeroizing::new(random::bytes())),
        })
    }

    /// A shared secret as an operator brings it: `whsec_` and base64.
    pub fn from_shared_secret(text: &str) -> Result<Self, WebhookKeyError> {
        let encoded = text.strip_prefix(SHARED_SECRET_PREFIX).ok_or(WebhookKeyError::Prefix)?;
        let bytes =
            LENIENT_BASE64.decode(encoded).map(Zeroizing::new).map_err(|_| WebhookKeyError::Base64)?;
        if !(SHARED_SECRET_MIN_BYTES..=SHARED_SECRET_MAX_BYTES).contains(&bytes.len()) {
            return Err(WebhookKeyError::Length(bytes.len()));
        }
        Ok(Self(Secret::HmacSha256(bytes)))
    }

    /// What it signs with.
    pub fn algorithm(&self) -> WebhookAlgorithm {
        match self.0 {
            Secret::HmacSha256(_) => WebhookAlgorithm::HmacSha256,
            Secret::Ed25519(_) => WebhookAlgorithm::Ed25519,
        }
    }

    /// The shared secret as the receiver needs it, to be shown once. None for a key pair, whose private half nobody else needs.
    pub fn shared_secret(&self) -> Option<SecretString> {
        match &self.0 {
            Secret::HmacSha256(bytes) => {
                let mut text = String::with_capacity(SHARED_SECRET_PREFIX.len() + bytes.len() * 4 / 3 + 4);
                text.push_str(SHARED_SECRET_PREFIX);
                STANDARD.encode_string(&**bytes, &mut text);
                Some(SecretString::from(text))
            }
            Secret::Ed25519(_) => None,
        }
    }

    /// The public key as the receiver needs it. None for a shared secret.
    pub fn public_key(&self) -> Option<String> {
        match &self.0 {
            Secret::HmacSha256(_) => None,
            Secret::Ed25519(seed) => {
                Some(format!("{PUBLIC_KEY_PREFIX}{}", STANDARD.encode(key_pair(seed).public_key())))
            }
        }
    }

    /// One signature, with the version that says how it was made.
    pub fn sign(&self, id: &str, timestamp_seconds: u64, body: &[u8]) -> String {
        let mut text = format!("{id}.{timestamp_seconds}.").into_bytes();
        text.extend_from_slice(body);
        match &self.0 {
            Secret::HmacSha256(bytes) => {
                let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, bytes), &text);
                format!("v1,{}", STANDARD.encode(signature))
            }
            Secret::Ed25519(seed) => format!("v1a,{}", STANDARD.encode(key_pair(seed).sign(&text))),
        }
    }

    /// The key as the store keeps it. It opens only for the destination of this name.
    pub fn seal(&self, secrets: &MasterSecrets, destination_name: &str) -> Result<Vec<u8>, WebhookKeyError> {
        let (tag, bytes): (u8, &[u8]) = match &self.0 {
            Secret::HmacSha256(bytes) => (HMAC_SHA256_TAG, bytes),
            Secret::Ed25519(seed) => (ED25519_TAG, &**seed),
        };
        let mut text = Zeroizing::new(Vec::with_capacity(1 + bytes.len()));
        text.push(tag);
        text.extend_from_slice(bytes);
        sealed_secret::seal(
            &secrets.sealing_key(Label::WebhookKeysAtRest),
            destination_name.as_bytes(),
            &text,
        )
        .map_err(|_| WebhookKeyError::Sealing)
    }

    /// The key that was sealed with one of `secrets` for the destination of this name.
    pub fn open(
        secrets: &MasterSecrets,
        destination_name: &str,
        sealed: &[u8],
    ) -> Result<Self, WebhookKeyError> {
        let keys = secrets.opening_keys(Label::WebhookKeysAtRest);
        let text =
            sealed_secret::open(keys, destination_name.as_bytes(), sealed).map_err(|error| match error {
                OpenError::Malformed => WebhookKeyError::Malformed,
                OpenError::Refused => WebhookKeyError::Refused,
            })?;
        match text.split_first() {
            Some((&HMAC_SHA256_TAG, bytes)) => Ok(Self(Secret::HmacSha256(Zeroizing::new(bytes.to_vec())))),
            Some((&ED25519_TAG, bytes)) => {
                let mut seed = Zeroizing::new([0; SEED_BYTES]);
                if bytes.len() != SEED_BYTES {
                    return Err(WebhookKeyError::Malformed);
                }
                seed.copy_from_slice(bytes);
                Ok(Self(Secret::Ed25519(seed)))
            }
            _ => Err(WebhookKeyError::Malformed),
        }
    }
}

impl fmt::Debug for WebhookKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "WebhookKey({}, hidden)", self.algorithm())
    }
}

/// The value of `webhook-signature`: one signature by each key, the newest key first. During a rotation receivers accept whichever they
/// can check.
pub fn signature_header<'key>(
    keys: impl IntoIterator<Item = &'key WebhookKey>,
    id: &str,
    timestamp_seconds: u64,
    body: &[u8],
) -> String {
    let signatures = keys.into_iter().map(|key| key.sign(id, timestamp_seconds, body));
    signatures.collect::<Vec<_>>().join(" ")
}

fn key_pair(seed: &[u8; SEED_BYTES]) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(seed).expect("any 32 bytes are the seed of an Ed25519 key")
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
    use proptest::prelude::*;
    use secrecy::ExposeSecret as _;

    use super::*;

    const NEW: &str = "a-new-secret-for-tests-0123456789abcdef";
    const OLD: &str = "an-old-secret-for-tests-0123456789abcdef";
    /// The example of the specification and of its reference libraries.
    const EXAMPLE_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const EXAMPLE_ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const EXAMPLE_TIMESTAMP: u64 = 1_614_265_330;
    const EXAMPLE_BODY: &[u8] = br#"{"test": 2432232314}"#;
    const EXAMPLE_SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn secrets(text: &str) -> MasterSecrets {
        MasterSecrets::parse(text).unwrap()
    }

    fn sign_example(key: &WebhookKey) -> String {
        key.sign(EXAMPLE_ID, EXAMPLE_TIMESTAMP, EXAMPLE_BODY)
    }

    #[test]
    fn the_example_of_the_specification_is_signed_as_it_says() {
        let key = WebhookKey::from_shared_secret(EXAMPLE_SECRET).unwrap();
        assert_eq!(sign_example(&key), EXAMPLE_SIGNATURE);
        assert_eq!(key.shared_secret().unwrap().expose_secret(), EXAMPLE_SECRET);
        assert_eq!(key.public_key(), None);
    }

    #[test]
    fn a_key_pair_signs_what_its_public_key_checks() {
        let key = WebhookKey::generate(WebhookAlgorithm::Ed25519);
        let public = key.public_key().unwrap();
        let public = STANDARD.decode(public.strip_prefix("whpk_").unwrap()).unwrap();
        assert_eq!(public.len(), 32);
        let signature = sign_example(&key);
        let signature = STANDARD.decode(signature.strip_prefix("v1a,").unwrap()).unwrap();
        let text = [EXAMPLE_ID.as_bytes(), b".1614265330.", EXAMPLE_BODY].concat();
        UnparsedPublicKey::new(&ED25519, public).verify(&text, &signature).unwrap();
        assert!(key.shared_secret().is_none());
    }

    #[test]
    fn generated_keys_never_repeat_and_are_read_again() {
        let key = WebhookKey::generate(WebhookAlgorithm::HmacSha256);
        let text = key.shared_secret().unwrap();
        let read = WebhookKey::from_shared_secret(text.expose_secret()).unwrap();
        assert_eq!(sign_example(&read), sign_example(&key));
        for algorithm in WebhookAlgorithm::ALL {
            assert_eq!(WebhookAlgorithm::parse(algorithm.as_str()), Some(algorithm));
            assert_ne!(
                sign_example(&WebhookKey::generate(algorithm)),
                sign_example(&WebhookKey::generate(algorithm))
            );
        }
    }

    #[test]
    fn misshapen_shared_secrets_are_refused() {
        let of_length = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        for (text, expected) in [
            (String::new(), WebhookKeyError::Prefix),
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into(), WebhookKeyError::Prefix),
            ("whpk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into(), WebhookKeyError::Prefix),
            ("whsec_MfKQ9r8GKYqr TwjUPD8ILPZIo2LaLaSw".into(), WebhookKeyError::Base64),
            ("whsec_MfKQ9r8GKYqr-wjUPD8ILPZIo2LaLaSw".into(), WebhookKeyError::Base64),
            ("whsec_".into(), WebhookKeyError::Length(0)),
            (of_length(23), WebhookKeyError::Length(23)),
            (of_length(65), WebhookKeyError::Length(65)),
        ] {
            assert_eq!(WebhookKey::from_shared_secret(&text).unwrap_err(), expected, "{text}");
        }
        for bytes in [24, 25, 32, 64] {
            let text = of_length(bytes);
            assert!(WebhookKey::from_shared_secret(&text).is_ok());
            assert!(WebhookKey::from_shared_secret(text.trim_end_matches('=')).is_ok(), "without padding");
        }
    }

    #[test]
    fn during_a_rotation_every_key_signs_the_newest_first() {
        let old = WebhookKey::from_shared_secret(EXAMPLE_SECRET).unwrap();
        let new = WebhookKey::generate(WebhookAlgorithm::Ed25519);
        let header = signature_header([&new, &old], EXAMPLE_ID, EXAMPLE_TIMESTAMP, EXAMPLE_BODY);
        assert_eq!(header, format!("{} {EXAMPLE_SIGNATURE}", sign_example(&new)));
    }

    #[test]
    fn a_key_opens_with_any_master_secret_of_the_list_for_its_own_destination_only() {
        for algorithm in WebhookAlgorithm::ALL {
            let key = WebhookKey::generate(algorithm);
            let sealed = key.seal(&secrets(OLD), "shop").unwrap();
            let rotating = secrets(&format!("{NEW},{OLD}"));
            let opened = WebhookKey::open(&rotating, "shop", &sealed).unwrap();
            assert_eq!(opened.algorithm(), algorithm);
            assert_eq!(sign_example(&opened), sign_example(&key));
            for (master, name) in [(NEW, "shop"), (OLD, "another"), (OLD, "")] {
                let refused = WebhookKey::open(&secrets(master), name, &sealed).unwrap_err();
                assert_eq!(refused, WebhookKeyError::Refused, "{name}");
            }
            assert_ne!(sealed, key.seal(&secrets(OLD), "shop").unwrap(), "a nonce never repeats");
        }
    }

    #[test]
    fn what_is_no_sealed_key_is_refused() {
        let sealed = WebhookKey::generate(WebhookAlgorithm::Ed25519).seal(&secrets(NEW), "shop").unwrap();
        let mut newer = sealed.clone();
        newer[0] = 2;
        let sealing_key = secrets(NEW).sealing_key(Label::WebhookKeysAtRest);
        let of_an_unknown_kind = sealed_secret::seal(&sealing_key, b"shop", &[3; 33]).unwrap();
        let short = sealed_secret::seal(&sealing_key, b"shop", &[ED25519_TAG; 32]).unwrap();
        for bytes in [&[][..], &sealed[..1], &sealed[..12], &newer, &of_an_unknown_kind, &short] {
            let refused = WebhookKey::open(&secrets(NEW), "shop", bytes).unwrap_err();
            assert_eq!(refused, WebhookKeyError::Malformed);
        }
    }

    #[test]
    fn debug_output_holds_no_secret() {
        let key = WebhookKey::from_shared_secret(EXAMPLE_SECRET).unwrap();
        assert_eq!(format!("{key:?}"), "WebhookKey(hmac-sha256, hidden)");
        assert_eq!(format!("{:?}", key.shared_secret()), "Some(SecretBox<str>([REDACTED]))");
    }

    proptest! {
        #[test]
        fn a_sealed_key_with_a_changed_byte_is_refused(index: prop::sample::Index, mask in 1_u8..) {
            let mut sealed = WebhookKey::generate(WebhookAlgorithm::HmacSha256).seal(&secrets(NEW), "shop").unwrap();
            let place = index.index(sealed.len());
            sealed[place] ^= mask;
            prop_assert!(WebhookKey::open(&secrets(NEW), "shop", &sealed).is_err());
        }

        #[test]
        fn arbitrary_bytes_are_no_sealed_key(bytes: Vec<u8>) {
            prop_assert!(WebhookKey::open(&secrets(NEW), "shop", &bytes).is_err());
        }
    }
}
