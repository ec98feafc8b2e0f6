//! The keys that sign passes: the one in use, those that are announced, and those whose signatures are still out there.
//!
//! The life of a key: made and *published* at once; *signing* from [`KEY_ANNOUNCE_MS`] later, when every verifier that caches
//! the JWKS has fetched it; when a newer key takes over, *verifying* (and repeating its own passes) for an overlap as long as
//! the longest pass lives; then forgotten.
//!
//! In the store the ring is JSON in which each private half is sealed by AES-256-GCM under a key derived from the first master
//! secret. The rest of the entry (key id, algorithm, times) is authenticated with it, so that nobody who can write to the
//! store can swap two keys, or prolong the life of one.

use std::fmt;
use std::sync::Arc;

use anteroom_core::ids::UnixMillis;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};
use serde_json::json;
use zeroize::Zeroizing;

use crate::base64url;
use crate::random;
use crate::secret::{DerivedKey, Label, MasterSecrets};
use crate::signing_key::{KeyError, SigningAlgorithm, SigningKey};

/// How long a new key is published before it signs, in milliseconds: twice the 300 s for which key sets may be cached.
pub const KEY_ANNOUNCE_MS: u64 = 600_000;

/// The most keys a ring can hold. Every one of them is sent with every JWKS.
pub const KEYS_MAX: usize = 16;

/// The layout of a sealed ring.
const SEALED_RING_VERSION: u32 = 1;

/// All keys, oldest first.
#[derive(Clone)]
pub struct KeyRing {
    /// Never empty; in order of `active_from`.
    keys: Vec<Arc<SigningKey>>,
}

/// Why a ring could not be changed, sealed or opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyRingError {
    /// There is no new key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Rotated too often within one overlap.
    #[error("the key ring already holds {KEYS_MAX} keys; rotate again when the oldest have retired")]
    Full,
    /// The library would not write or encrypt a key.
    #[error("signing key {kid} could not be sealed")]
    Sealing {
        /// The key.
        kid: String,
    },
    /// These bytes are not a sealed ring.
    #[error("the stored key ring is not readable; it is damaged, or was written by a newer server")]
    Malformed,
    /// None of the master secrets opens it, or somebody changed it.
    #[error("signing key {kid} in the store was sealed with another master secret, or was tampered with")]
    Refused {
        /// The key.
        kid: String,
    },
}

impl KeyRing {
    /// A ring with one new key that signs at once: there is nobody yet to announce it to.
    pub fn new(algorithm: SigningAlgorithm, now: UnixMillis) -> Result<Self, KeyRingError> {
        Ok(Self::with_key(SigningKey::generate(algorithm, now, now)?))
    }

    /// A ring with one key that exists already.
    pub fn with_key(key: SigningKey) -> Self {
        Self { keys: vec![Arc::new(key)] }
    }

    /// The key that signs at `now`: the newest that is active.
    pub fn current(&self, now: UnixMillis) -> &Arc<SigningKey> {
        let active = self.keys.iter().rev().find(|key| key.active_from() <= now);
        // A clock behind the one that made the ring finds no active key. The oldest is the one the others use.
        active.unwrap_or(&self.keys[0])
    }

    /// The key of this name, announced and retired ones included.
    pub fn by_kid(&self, kid: &str) -> Option<&Arc<SigningKey>> {
        self.keys.iter().find(|key| key.kid() == kid)
    }

    /// All keys, oldest first.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Arc<SigningKey>> {
        self.keys.iter()
    }

    /// The public halves of all keys that verifiers may meet, announced ones included.
    pub fn jwks(&self, now: UnixMillis) -> serde_json::Value {
        let published = self.keys.iter().filter(|key| key.is_published(now));
        json!({"keys": published.map(|key| key.public_jwk()).collect::<Vec<_>>()})
    }

    /// Adds a new key that signs from [`KEY_ANNOUNCE_MS`] after `now`. The others retire `overlap_ms` after that, which must
    /// be at least the longest validity of a pass. Generating an RSA key takes time: not on a runtime's thread.
    pub fn rotate(
        &mut self,
        algorithm: SigningAlgorithm,
        now: UnixMillis,
        overlap_ms: u64,
    ) -> Result<Arc<SigningKey>, KeyRingError> {
        self.prune(now);
        if self.keys.len() >= KEYS_MAX {
            return Err(KeyRingError::Full);
        }
        // After a step of the clock, too, the newest key must be the one that takes over last.
        let last = self.keys.iter().map(|key| key.active_from()).max().unwrap_or_default();
        let active_from = now.plus(KEY_ANNOUNCE_MS).max(last);
        let key = Arc::new(SigningKey::generate(algorithm, now, active_from)?);
        let retired_at = active_from.plus(overlap_ms);
        for old in self.keys.iter_mut().filter(|old| old.retired_at().is_none()) {
            *old = Arc::new(old.with_retirement(Some(retired_at)));
        }
        self.keys.push(Arc::clone(&key));
        Ok(key)
    }

    /// Forgets the keys past their retirement, and says how many. The signing key stays, whatever the clock says.
    pub fn prune(&mut self, now: UnixMillis) -> usize {
        let current = Arc::clone(self.current(now));
        let before = self.keys.len();
        self.keys.retain(|key| key.is_published(now) || Arc::ptr_eq(key, &current));
        before - self.keys.len()
    }

    /// The ring as the store keeps it.
    pub fn seal(&self, secrets: &MasterSecrets) -> Result<Vec<u8>, KeyRingError> {
        let sealing_key = aead_key(&secrets.sealing_key(Label::SigningKeysAtRest));
        let keys = self.keys.iter().map(|key| SealedKey::seal(key, &sealing_key));
        let ring = SealedRing { version: SEALED_RING_VERSION, keys: keys.collect::<Result<_, _>>()? };
        Ok(serde_json::to_vec(&ring).expect("texts and numbers can always be written as JSON"))
    }

    /// The ring that was sealed with one of `secrets`.
    pub fn open(secrets: &MasterSecrets, sealed: &[u8]) -> Result<Self, KeyRingError> {
        let ring: SealedRing = serde_json::from_slice(sealed).map_err(|_| KeyRingError::Malformed)?;
        if ring.version != SEALED_RING_VERSION || !(1..=KEYS_MAX).contains(&ring.keys.len()) {
            return Err(KeyRingError::Malformed);
        }
        let opening_keys: Vec<LessSafeKey> =
            secrets.opening_keys(Label::SigningKeysAtRest).map(|key| aead_key(&key)).collect();
        let keys = ring.keys.iter().map(|key| key.open(&opening_keys).map(Arc::new));
        let mut keys = keys.collect::<Result<Vec<_>, _>>()?;
        keys.sort_by_key(|key| key.active_from());
        Ok(Self { keys })
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("KeyRing").field(&self.keys).finish()
    }
}

/// What the store holds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SealedRing {
    version: u32,
    keys: Vec<SealedKey>,
}

/// One key in it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SealedKey {
    description: Description,
    /// 12 random bytes in base64url.
    nonce: String,
    /// The private half in PKCS #8, sealed, with its tag, in base64url.
    sealed_private_key: String,
}

/// What may be read without a secret but not changed: its JSON is the associated data of the seal.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    kid: String,
    algorithm: SigningAlgorithm,
    created: u64,
    active_from: u64,
    retired_at: Option<u64>,
}

impl SealedKey {
    fn seal(key: &SigningKey, sealing_key: &LessSafeKey) -> Result<Self, KeyRingError> {
        let description = Description {
            kid: key.kid().to_owned(),
            algorithm: key.algorithm(),
            created: key.created().0,
            active_from: key.active_from().0,
            retired_at: key.retired_at().map(|at| at.0),
        };
        let nonce = random::bytes::<NONCE_LEN>();
        let sealed = key.to_pkcs8().and_then(|mut private_key| {
            // Room for the tag, so that the vector does not move and leave a copy of the key behind.
            private_key.reserve_exact(AES_256_GCM.tag_len());
            let nonce = Nonce::assume_unique_for_key(nonce);
            sealing_key.seal_in_place_append_tag(nonce, description.associated_data(), &mut *private_key)?;
            Ok(private_key)
        });
        match sealed {
            Ok(sealed) => Ok(Self {
                description,
                nonce: base64url::encode(nonce),
                sealed_private_key: base64url::encode(&*sealed),
            }),
            Err(_) => Err(KeyRingError::Sealing { kid: description.kid }),
        }
    }

    fn open(&self, opening_keys: &[LessSafeKey]) -> Result<SigningKey, KeyRingError> {
        let description = &self.description;
        let nonce = base64url::decode(&self.nonce).and_then(|nonce| <[u8; NONCE_LEN]>::try_from(nonce).ok());
        let sealed = base64url::decode(&self.sealed_private_key);
        let (Some(nonce), Some(sealed)) = (nonce, sealed) else {
            return Err(KeyRingError::Malformed);
        };
        let refused = || KeyRingError::Refused { kid: description.kid.clone() };
        let private_key = opening_keys.iter().find_map(|opening_key| {
            let mut buffer = Zeroizing::new(sealed.clone());
            let nonce = Nonce::assume_unique_for_key(nonce);
            let length =
                opening_key.open_in_place(nonce, description.associated_data(), &mut buffer).ok()?.len();
            buffer.truncate(length);
            Some(buffer)
        });
        let key = SigningKey::import(
            &description.kid,
            description.algorithm,
            &private_key.ok_or_else(refused)?,
            UnixMillis(description.created),
            UnixMillis(description.active_from),
        )?;
        Ok(key.with_retirement(description.retired_at.map(UnixMillis)))
    }
}

impl Description {
    fn associated_data(&self) -> Aad<Vec<u8>> {
        Aad::from(serde_json::to_vec(self).expect("texts and numbers can always be written as JSON"))
    }
}

fn aead_key(key: &DerivedKey) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &**key).expect("an AES-256 key has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NEW: &str = "a-new-secret-for-tests-0123456789abcdef";
    const OLD: &str = "an-old-secret-for-tests-0123456789abcdef";
    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
    const OVERLAP_MS: u64 = 3_600_000;

    fn secrets(text: &str) -> MasterSecrets {
        MasterSecrets::parse(text).unwrap()
    }

    fn ring() -> KeyRing {
        KeyRing::new(SigningAlgorithm::EdDsa, NOW).unwrap()
    }

    fn published(ring: &KeyRing, now: UnixMillis) -> Vec<String> {
        let jwks = ring.jwks(now);
        let keys = jwks["keys"].as_array().unwrap().iter();
        keys.map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_new_ring_signs_at_once() {
        let ring = ring();
        assert_eq!(published(&ring, NOW), [ring.current(NOW).kid()]);
        assert_eq!(ring.by_kid(ring.current(NOW).kid()).unwrap().kid(), ring.current(NOW).kid());
        assert!(ring.by_kid("unknown").is_none());
    }

    #[test]
    fn a_clock_that_is_behind_still_finds_a_key() {
        let ring = ring();
        assert_eq!(ring.current(UnixMillis(0)).kid(), ring.current(NOW).kid());
    }

    #[test]
    fn a_rotated_key_is_announced_then_signs_and_the_old_one_overlaps_then_retires() {
        let mut ring = ring();
        let old = ring.current(NOW).kid().to_owned();
        let new = ring.rotate(SigningAlgorithm::Es256, NOW, OVERLAP_MS).unwrap().kid().to_owned();

        let active = NOW.plus(KEY_ANNOUNCE_MS);
        let last_moment_before = UnixMillis(active.0 - 1);
        assert_eq!(published(&ring, NOW), [&*old, &*new], "published at once");
        assert_eq!(ring.current(last_moment_before).kid(), old, "but not signing yet");
        assert_eq!(ring.current(active).kid(), new);
        assert_eq!(ring.current(active).algorithm(), SigningAlgorithm::Es256);

        let retired = active.plus(OVERLAP_MS);
        let last_moment_before = UnixMillis(retired.0 - 1);
        assert_eq!(ring.prune(last_moment_before), 0);
        assert_eq!(published(&ring, last_moment_before), [&*old, &*new]);
        assert!(ring.by_kid(&old).is_some(), "still signs repeated claims");
        assert_eq!(published(&ring, retired), [&*new]);
        assert_eq!(ring.prune(retired), 1);
        assert!(ring.by_kid(&old).is_none());
        assert_eq!(ring.current(retired).kid(), new);
    }

    #[test]
    fn the_key_that_signs_is_never_retired() {
        let mut ring = ring();
        let first = ring.current(NOW).kid().to_owned();
        let second = ring.rotate(SigningAlgorithm::EdDsa, NOW, OVERLAP_MS).unwrap().kid().to_owned();
        let third =
            ring.rotate(SigningAlgorithm::EdDsa, NOW.plus(1_000), OVERLAP_MS).unwrap().kid().to_owned();
        // Second by second through the whole rotation: the signing key is published, and only later keys take over.
        let mut seen = vec![];
        for second_of_rotation in 0..10_000 {
            let now = NOW.plus(second_of_rotation * 1_000);
            let current = ring.current(now).kid().to_owned();
            assert!(published(&ring, now).contains(&current));
            if seen.last() != Some(&current) {
                seen.push(current);
            }
        }
        assert_eq!(seen, [first, second, third]);
    }

    #[test]
    fn rotating_after_the_clock_went_back_still_ends_with_the_newest_key() {
        let mut ring = ring();
        ring.rotate(SigningAlgorithm::EdDsa, NOW, OVERLAP_MS).unwrap();
        let newest =
            ring.rotate(SigningAlgorithm::EdDsa, UnixMillis(NOW.0 - 86_400_000), OVERLAP_MS).unwrap();
        assert_eq!(ring.current(NOW.plus(KEY_ANNOUNCE_MS)).kid(), newest.kid());
    }

    #[test]
    fn a_ring_has_a_limit_and_room_again_when_keys_retire() {
        let mut ring = ring();
        for _ in 1..KEYS_MAX {
            ring.rotate(SigningAlgorithm::EdDsa, NOW, OVERLAP_MS).unwrap();
        }
        assert_eq!(ring.rotate(SigningAlgorithm::EdDsa, NOW, OVERLAP_MS).unwrap_err(), KeyRingError::Full);
        assert_eq!(ring.keys().len(), KEYS_MAX);
        let later = NOW.plus(KEY_ANNOUNCE_MS + OVERLAP_MS);
        assert!(ring.rotate(SigningAlgorithm::EdDsa, later, OVERLAP_MS).is_ok());
        assert_eq!(ring.keys().len(), 2);
    }

    #[test]
    fn a_sealed_ring_opens_to_the_same_keys_and_holds_no_private_half() {
        for algorithm in SigningAlgorithm::ALL {
            let mut ring = KeyRing::new(algorithm, NOW).unwrap();
            ring.rotate(algorithm, NOW, OVERLAP_MS).unwrap();
            let sealed = ring.seal(&secrets(NEW)).unwrap();
            let opened = KeyRing::open(&secrets(NEW), &sealed).unwrap();
            assert_eq!(opened.jwks(NOW), ring.jwks(NOW));
            assert_eq!(format!("{opened:?}"), format!("{ring:?}"), "times and names");
            let text = String::from_utf8(sealed).unwrap();
            for key in ring.keys() {
                let private_key = base64url::encode(&*key.to_pkcs8().unwrap());
                assert!(!text.contains(&private_key[..40]) && !text.contains(&private_key[32..64]));
            }
        }
    }

    #[test]
    fn a_ring_is_opened_by_any_secret_of_the_list_and_by_no_other() {
        let ring = ring();
        let sealed = ring.seal(&secrets(OLD)).unwrap();
        assert!(KeyRing::open(&secrets(&format!("{NEW},{OLD}")), &sealed).is_ok());
        let kid = ring.current(NOW).kid().to_owned();
        assert_eq!(KeyRing::open(&secrets(NEW), &sealed).unwrap_err(), KeyRingError::Refused { kid });
    }

    #[test]
    fn every_changed_part_of_an_entry_is_refused() {
        let mut ring = ring();
        ring.rotate(SigningAlgorithm::EdDsa, NOW, OVERLAP_MS).unwrap();
        let sealed: serde_json::Value = serde_json::from_slice(&ring.seal(&secrets(NEW)).unwrap()).unwrap();
        let open =
            |value: &serde_json::Value| KeyRing::open(&secrets(NEW), &serde_json::to_vec(value).unwrap());
        assert!(open(&sealed).is_ok());
        let edits: [(&str, serde_json::Value); 5] = [
            ("kid", json!("0123456789abcdef0123456789abcdef")),
            ("algorithm", json!("RS256")),
            ("created", json!(1)),
            ("active_from", json!(1)),
            ("retired_at", json!(null)),
        ];
        for (member, value) in edits {
            let mut changed = sealed.clone();
            changed["keys"][0]["description"][member] = value;
            assert!(matches!(open(&changed), Err(KeyRingError::Refused { .. })), "{member}");
        }
        for member in ["nonce", "sealed_private_key"] {
            let mut swapped = sealed.clone();
            swapped["keys"][0][member] = sealed["keys"][1][member].clone();
            assert!(matches!(open(&swapped), Err(KeyRingError::Refused { .. })), "{member}");
        }
        for (member, value) in [("version", json!(2)), ("keys", json!([])), ("more", json!(1))] {
            let mut changed = sealed.clone();
            changed[member] = value;
            assert_eq!(open(&changed).unwrap_err(), KeyRingError::Malformed, "{member}");
        }
        assert_eq!(KeyRing::open(&secrets(NEW), b"").unwrap_err(), KeyRingError::Malformed);
    }

    #[test]
    fn sealing_twice_never_repeats_a_nonce() {
        let (ring, secrets) = (ring(), secrets(NEW));
        assert_ne!(ring.seal(&secrets).unwrap(), ring.seal(&secrets).unwrap());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_ring_with_a_changed_byte_is_refused(index: prop::sample::Index, mask in 1_u8..) {
            let mut sealed = ring().seal(&secrets(NEW)).unwrap();
            let place = index.index(sealed.len());
            sealed[place] ^= mask;
            prop_assert!(KeyRing::open(&secrets(NEW), &sealed).is_err());
        }
    }
}
