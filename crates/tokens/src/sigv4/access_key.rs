//! Key pairs of AWS clients: an access key id that names the pair, and a secret that both sides must know.
//!
//! Unlike a Bearer key, the secret cannot be kept as a digest, because checking a signature takes the secret itself. So the store
//! holds it sealed by AES-256-GCM under a key of its own, derived from the first master secret.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};

use super::SigV4Error;
use crate::random;
use crate::sealed_secret::{self, OpenError};
use crate::secret::{Label, MasterSecrets};

/// The longest access key id, in characters: AWS's own limit.
pub const ACCESS_KEY_ID_MAX_CHARACTERS: usize = 128;

/// The longest secret access key, in characters.
pub const SECRET_ACCESS_KEY_MAX_CHARACTERS: usize = 128;

/// What generated ids begin with: recognisable, and never one of AWS's (`AKIA`, `ASIA`) by more than chance.
const GENERATED_ID_PREFIX: &str = "AK";

/// How many random characters, of 5 bits each, follow the prefix.
const GENERATED_ID_RANDOM_CHARACTERS: usize = 18;

/// How many random bytes a generated secret is made of: 40 characters, as many as AWS's have.
const GENERATED_SECRET_BYTES: usize = 30;

/// The name of a key pair. Not a secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccessKeyId(String);

impl AccessKeyId {
    /// A new random id of 20 characters.
    pub fn generate() -> Self {
        const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
        let drawn = random::bytes::<GENERATED_ID_RANDOM_CHARACTERS>();
        let characters = drawn.map(|byte| char::from(ALPHABET[usize::from(byte % 32)]));
        Self(GENERATED_ID_PREFIX.chars().chain(characters).collect())
    }

    /// An id as a client sends it: letters, digits and underscores. Whether there is such a key is another question.
    pub fn parse(text: &str) -> Result<Self, SigV4Error> {
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if plain && (1..=ACCESS_KEY_ID_MAX_CHARACTERS).contains(&text.len()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(SigV4Error::AccessKeyId)
        }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccessKeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Why a secret access key could not be read, sealed or opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretAccessKeyError {
    /// Not the text of a key.
    #[error("a secret access key has 1 to {SECRET_ACCESS_KEY_MAX_CHARACTERS} visible ASCII characters")]
    Text,
    /// The library would not encrypt it.
    #[error("the secret access key could not be sealed")]
    Sealing,
    /// These bytes are not a sealed secret.
    #[error("the stored secret access key is not readable; it is damaged, or was written by a newer server")]
    Malformed,
    /// None of the master secrets opens it, or somebody changed it or its surroundings.
    #[error("the stored secret access key was sealed with another master secret, or was tampered with")]
    Refused,
}

/// The secret half of a key pair. Wiped from memory when dropped.
#[derive(Clone)]
pub struct SecretAccessKey(SecretString);

impl SecretAccessKey {
    /// A new random secret of 40 characters.
    pub fn generate() -> Self {
        Self(SecretString::from(random::text(GENERATED_SECRET_BYTES)))
    }

    /// A secret as its owner typed it.
    pub fn parse(text: &str) -> Result<Self, SecretAccessKeyError> {
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if visible && (1..=SECRET_ACCESS_KEY_MAX_CHARACTERS).contains(&text.len()) {
            Ok(Self(SecretString::from(text)))
        } else {
            Err(SecretAccessKeyError::Text)
        }
    }

    /// The secret itself, to be shown once to the operator who made it.
    pub fn reveal(&self) -> &str {
        self.0.expose_secret()
    }

    /// The secret as the store keeps it. It opens only together with the same `associated_data`, so that nobody who can
    /// write to the store can put it under another name.
    pub fn seal(
        &self,
        secrets: &MasterSecrets,
        associated_data: &[u8],
    ) -> Result<Vec<u8>, SecretAccessKeyError> {
        let key = secrets.sealing_key(Label::SecretAccessKeysAtRest);
        sealed_secret::seal(&key, associated_data, self.reveal().as_bytes())
            .map_err(|_| SecretAccessKeyError::Sealing)
    }

    /// The secret that was sealed with one of `secrets` and the same `associated_data`.
    pub fn open(
        secrets: &MasterSecrets,
        associated_data: &[u8],
        sealed: &[u8],
    ) -> Result<Self, SecretAccessKeyError> {
        let keys = secrets.opening_keys(Label::SecretAccessKeysAtRest);
        let text = sealed_secret::open(keys, associated_data, sealed).map_err(|error| match error {
            OpenError::Malformed => SecretAccessKeyError::Malformed,
            OpenError::Refused => SecretAccessKeyError::Refused,
        })?;
        let text = std::str::from_utf8(&text).map_err(|_| SecretAccessKeyError::Malformed)?;
        Self::parse(text).map_err(|_| SecretAccessKeyError::Malformed)
    }
}

impl fmt::Debug for SecretAccessKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretAccessKey(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NEW: &str = "a-new-secret-for-tests-0123456789abcdef";
    const OLD: &str = "an-old-secret-for-tests-0123456789abcdef";

    fn secrets(text: &str) -> MasterSecrets {
        MasterSecrets::parse(text).unwrap()
    }

    #[test]
    fn generated_pairs_look_like_those_of_aws_and_never_repeat() {
        let (id, secret) = (AccessKeyId::generate(), SecretAccessKey::generate());
        assert_eq!(id.as_str().len(), 20);
        assert!(id.as_str().starts_with("AK"));
        assert!(id.as_str().bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7')), "{id}");
        assert_eq!(secret.reveal().len(), 40);
        assert_eq!(AccessKeyId::parse(id.as_str()).unwrap(), id);
        assert_eq!(SecretAccessKey::parse(secret.reveal()).unwrap().reveal(), secret.reveal());
        assert_ne!(AccessKeyId::generate(), id);
        assert_ne!(SecretAccessKey::generate().reveal(), secret.reveal());
    }

    #[test]
    fn misshapen_ids_and_secrets_are_refused() {
        for text in ["", "a b", "a/b", "a,b", "é", "a\n", &"A".repeat(129)] {
            assert_eq!(AccessKeyId::parse(text), Err(SigV4Error::AccessKeyId), "{text:?}");
        }
        assert!(AccessKeyId::parse(&"A".repeat(128)).is_ok());
        for text in ["", "a b", "a\n", "é", &"A".repeat(129)] {
            assert_eq!(SecretAccessKey::parse(text).unwrap_err(), SecretAccessKeyError::Text, "{text:?}");
        }
    }

    #[test]
    fn a_sealed_secret_opens_with_any_secret_of_the_list_and_its_own_surroundings_only() {
        let secret = SecretAccessKey::generate();
        let sealed = secret.seal(&secrets(OLD), b"the name").unwrap();
        let rotated = secrets(&format!("{NEW},{OLD}"));
        let opened = SecretAccessKey::open(&rotated, b"the name", &sealed).unwrap();
        assert_eq!(opened.reveal(), secret.reveal());
        for (master, name) in [(NEW, "the name"), (OLD, "another name"), (OLD, "")] {
            let refused = SecretAccessKey::open(&secrets(master), name.as_bytes(), &sealed).unwrap_err();
            assert_eq!(refused, SecretAccessKeyError::Refused, "{name}");
        }
        assert_ne!(sealed, secret.seal(&secrets(OLD), b"the name").unwrap(), "a nonce never repeats");
        let part = &secret.reveal().as_bytes()[..8];
        assert!(!sealed.windows(part.len()).any(|window| window == part));
    }

    #[test]
    fn what_is_no_sealed_secret_is_refused() {
        let sealed = SecretAccessKey::generate().seal(&secrets(NEW), b"").unwrap();
        let mut newer = sealed.clone();
        newer[0] = 2;
        for bytes in [&[][..], &sealed[..1], &sealed[..12], &newer] {
            let refused = SecretAccessKey::open(&secrets(NEW), b"", bytes).unwrap_err();
            assert_eq!(refused, SecretAccessKeyError::Malformed);
        }
    }

    #[test]
    fn debug_output_holds_no_secret() {
        assert_eq!(format!("{:?}", SecretAccessKey::generate()), "SecretAccessKey(hidden)");
    }

    proptest! {
        #[test]
        fn a_sealed_secret_with_a_changed_byte_is_refused(index: prop::sample::Index, mask in 1_u8..) {
            let mut sealed = SecretAccessKey::generate().seal(&secrets(NEW), b"name").unwrap();
            let place = index.index(sealed.len());
            sealed[place] ^= mask;
            prop_assert!(SecretAccessKey::open(&secrets(NEW), b"name", &sealed).is_err());
        }

        #[test]
        fn arbitrary_bytes_are_no_sealed_secret(bytes: Vec<u8>) {
            prop_assert!(SecretAccessKey::open(&secrets(NEW), b"name", &bytes).is_err());
        }
    }
}
