//! API keys of operators. Only a digest is kept, so that reading the store or the memory of a node does not give a key away.
//!
//! One round of SHA-256 suffices because keys are not passwords: a generated one has 256 random bits, and nobody tries those
//! out.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};

use crate::random;

/// What generated keys begin with, so that scanners for leaked secrets can recognise them.
const GENERATED_KEY_PREFIX: &str = "ar_";

/// How many random bytes a generated key is made of.
const GENERATED_KEY_BYTES: usize = 32;

/// The digest of an API key.
#[derive(Clone)]
pub struct ApiKeyDigest([u8; 32]);

/// A new random API key, to be shown once and then forgotten. It says what it is for: `ar_admin_…`.
pub fn generate(role: &str) -> String {
    format!("{GENERATED_KEY_PREFIX}{role}_{}", random::text(GENERATED_KEY_BYTES))
}

impl ApiKeyDigest {
    /// The digest of `key`.
    pub fn of(key: &str) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, key.as_bytes()).as_ref());
        Self(bytes)
    }

    /// Whether this is the digest of `key`; takes the same time whatever the answer.
    pub fn matches(&self, key: &str) -> bool {
        self.equals(&Self::of(key))
    }

    /// Whether both are digests of one key; takes the same time whatever the answer.
    pub fn equals(&self, other: &Self) -> bool {
        verify_slices_are_equal(&self.0, &other.0).is_ok()
    }

    /// As kept in the store.
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0
    }

    /// As read from the store.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for ApiKeyDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ApiKeyDigest(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_matches_its_key_and_no_other() {
        let key = generate("admin");
        let digest = ApiKeyDigest::from_bytes(ApiKeyDigest::of(&key).to_bytes());
        assert!(digest.matches(&key));
        for other in [generate("admin"), String::new(), format!("{key} "), key[..key.len() - 1].to_owned()] {
            assert!(!digest.matches(&other));
        }
    }

    #[test]
    fn generated_keys_are_recognisable_and_never_the_same() {
        let key = generate("admin");
        assert!(key.starts_with("ar_admin_"));
        assert_eq!(key.len(), "ar_admin_".len() + 43);
        assert_ne!(key, generate("admin"));
    }

    #[test]
    fn a_digest_is_plain_sha_256() {
        let expected = "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0";
        assert_eq!(crate::base64url::encode(ApiKeyDigest::of("abc").to_bytes()), expected);
    }

    #[test]
    fn debug_output_holds_no_digest() {
        assert_eq!(format!("{:?}", ApiKeyDigest::of("abc")), "ApiKeyDigest(hidden)");
    }
}
