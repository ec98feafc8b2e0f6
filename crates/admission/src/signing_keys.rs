//! The signing keys of this store: loaded, made or rotated at start, and identified by their `kid`.

use std::collections::BTreeMap;
use std::sync::Arc;

use anteroom_core::UnixMillis;
use anteroom_core::settings::{DURATION_MAX_SECONDS, KEY_OVERLAP_MAX_SECONDS};
use anteroom_engine::Engine;
use anteroom_store::{AuditRecord, Store, StoreError};
use anteroom_tokens::key_ring::{KeyRing, KeyRingError};
use anteroom_tokens::secret::MasterSecrets;
use anteroom_tokens::signing_key::{SigningAlgorithm, SigningKey};
use arc_swap::ArcSwap;

/// Why there are no signing keys.
#[derive(Debug, thiserror::Error)]
pub enum SigningKeysError {
    /// The store could not be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store has none.
    #[error("the store has no signing keys")]
    Missing,
    /// Other nodes replace them all the time.
    #[error("the signing keys in the store keep changing; is another node starting over and over?")]
    KeepChanging,
    /// They belong to another master secret.
    #[error("the signing keys in the store cannot be opened with this master secret: {0}")]
    CannotBeOpened(#[source] KeyRingError),
    /// A key could not be made or sealed.
    #[error(transparent)]
    Ring(#[from] KeyRingError),
    /// The thread that makes keys ended.
    #[error("a signing key could not be made: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

const RING_VALUE: &str = "key-ring";
/// How long a key verifies after its successor took over: as long as the longest pass may live that a room signed with it last.
const OVERLAP_MILLIS: u64 = (DURATION_MAX_SECONDS + KEY_OVERLAP_MAX_SECONDS) * 1000;
/// How often a value is tried again when another node changed it in between.
const ATTEMPTS_MAX: u32 = 8;

/// The key ring, shared by every handler.
pub struct SigningKeys {
    loaded: ArcSwap<LoadedRing>,
    secrets: Arc<MasterSecrets>,
    algorithm: SigningAlgorithm,
    /// Held from reading the stored ring until the one in memory is the same.
    changing: tokio::sync::Mutex<()>,
}

/// A ring, and how it lies in the store.
struct LoadedRing {
    ring: KeyRing,
    stored: Vec<u8>,
}

/// A signing key as operators see it.
pub struct KeyStatus {
    /// What tokens name it by.
    pub kid: String,
    /// What it signs with.
    pub algorithm: &'static str,
    /// `announced`, `current` or `retired`.
    pub status: &'static str,
    /// From when on it signs.
    pub active_from: UnixMillis,
}

impl KeyStatus {
    fn of(key: &SigningKey, current: &SigningKey, now: UnixMillis) -> Self {
        let status = if key.kid() == current.kid() {
            "current"
        } else if key.active_from() > now {
            "announced"
        } else {
            "retired"
        };
        let (kid, algorithm) = (key.kid().to_owned(), key.algorithm().name());
        Self { kid, algorithm, status, active_from: key.active_from() }
    }
}

impl SigningKeys {
    /// The key that signs at this moment.
    pub fn current(&self, now: UnixMillis) -> Arc<SigningKey> {
        Arc::clone(self.loaded.load().ring.current(now))
    }

    /// When the key that signs now is followed by another, if one is announced.
    pub fn next_takeover(&self, now: UnixMillis) -> Option<UnixMillis> {
        let loaded = self.loaded.load();
        let current = loaded.ring.current(now);
        let later = loaded.ring.keys().filter(|key| key.active_from() > now && key.kid() != current.kid());
        later.map(|key| key.active_from()).min()
    }

    /// The key of that name, also one that signs no more.
    pub fn by_kid(&self, kid: &str) -> Option<Arc<SigningKey>> {
        self.loaded.load().ring.by_kid(kid).cloned()
    }

    /// The keys that a pass may be signed with, for sites that verify passes.
    pub fn jwks(&self, now: UnixMillis) -> serde_json::Value {
        self.loaded.load().ring.jwks(now)
    }

    /// Every key that is still published, in the order in which they sign.
    pub fn statuses(&self, now: UnixMillis) -> Vec<KeyStatus> {
        let loaded = self.loaded.load();
        let ring = &loaded.ring;
        let current = ring.current(now);
        let mut keys: Vec<_> = ring
            .keys()
            .filter(|key| key.is_published(now))
            .map(|key| KeyStatus::of(key, current, now))
            .collect();
        keys.sort_by_key(|key| key.active_from);
        keys
    }

    /// Announces a new key of the configured algorithm.
    pub async fn rotate(&self, engine: &Engine, actor: &str) -> Result<KeyStatus, SigningKeysError> {
        let (store, now) = (engine.store(), engine.now());
        let _one_at_a_time = self.changing.lock().await;
        for _ in 0..ATTEMPTS_MAX {
            let stored = store.value(RING_VALUE).await?.ok_or(SigningKeysError::Missing)?;
            let ring = rotate_ring(KeyRing::open(&self.secrets, &stored)?, self.algorithm, now).await?;
            let sealed = ring.seal(&self.secrets)?;
            let audit = AuditRecord {
                at: now,
                room: None,
                actor: actor.to_owned(),
                action: "rotate signing key".into(),
                detail: None,
            };
            if store.replace_value(RING_VALUE, Some(&stored), &sealed, Some(&audit)).await? {
                let newest = ring.keys().max_by_key(|key| key.active_from()).cloned();
                let newest = newest.ok_or(SigningKeysError::Missing)?;
                let status = KeyStatus::of(&newest, ring.current(now), now);
                self.loaded.store(Arc::new(LoadedRing { ring, stored: sealed }));
                return Ok(status);
            }
        }
        Err(SigningKeysError::KeepChanging)
    }

    /// Reads the ring again, for a store that was restored or changed by another node.
    pub async fn reload(&self, store: &dyn Store) -> Result<(), SigningKeysError> {
        let _one_at_a_time = self.changing.lock().await;
        let stored = store.value(RING_VALUE).await?.ok_or(SigningKeysError::Missing)?;
        // Opening takes a while, and most of the time it is the same.
        if self.loaded.load().stored != stored {
            let ring = KeyRing::open(&self.secrets, &stored)?;
            self.loaded.store(Arc::new(LoadedRing { ring, stored }));
        }
        Ok(())
    }

    /// Opens the store's ring, or makes one; the secrets have been checked by the server. A ring whose newest key is of another algorithm than configured gets a new key,
    /// which is announced first and signs later.
    pub async fn open(
        store: &dyn Store,
        secrets: &Arc<MasterSecrets>,
        algorithm: SigningAlgorithm,
        now: UnixMillis,
    ) -> Result<Self, SigningKeysError> {
        for _ in 0..ATTEMPTS_MAX {
            let stored = store.value(RING_VALUE).await?;
            let ring = match &stored {
                None => make_ring(algorithm, now).await?,
                Some(sealed) => {
                    let ring = KeyRing::open(secrets, sealed).map_err(SigningKeysError::CannotBeOpened)?;
                    rotate_if_needed(ring, algorithm, now).await?
                }
            };
            // Sealed anew at every start, so that it lies under the first secret of the list.
            let sealed = ring.seal(secrets)?;
            if store.replace_value(RING_VALUE, stored.as_deref(), &sealed, None).await? {
                let loaded = ArcSwap::from_pointee(LoadedRing { ring, stored: sealed });
                let changing = tokio::sync::Mutex::default();
                return Ok(Self { loaded, secrets: Arc::clone(secrets), algorithm, changing });
            }
        }
        Err(SigningKeysError::KeepChanging)
    }
}

/// Whether the signing keys of a backup can be opened with this server's master secrets.
pub fn accept(values: &BTreeMap<String, Vec<u8>>, secrets: &MasterSecrets) -> Result<(), String> {
    let ring = values.get(RING_VALUE).ok_or("The backup holds no signing keys")?;
    KeyRing::open(secrets, ring)
        .map_err(|error| format!("The signing keys of the backup cannot be opened: {error}"))?;
    Ok(())
}

/// RSA keys take a while to make, so not on a runtime thread.
async fn make_ring(algorithm: SigningAlgorithm, now: UnixMillis) -> Result<KeyRing, SigningKeysError> {
    Ok(tokio::task::spawn_blocking(move || KeyRing::new(algorithm, now)).await??)
}

async fn rotate_if_needed(
    ring: KeyRing,
    algorithm: SigningAlgorithm,
    now: UnixMillis,
) -> Result<KeyRing, SigningKeysError> {
    let newest = ring.keys().max_by_key(|key| key.active_from()).map(|key| key.algorithm());
    if newest == Some(algorithm) {
        return Ok(ring);
    }
    tracing::info!(%algorithm, "signing key of the configured algorithm announced, it signs in ten minutes");
    rotate_ring(ring, algorithm, now).await
}

async fn rotate_ring(
    mut ring: KeyRing,
    algorithm: SigningAlgorithm,
    now: UnixMillis,
) -> Result<KeyRing, SigningKeysError> {
    let rotation =
        tokio::task::spawn_blocking(move || ring.rotate(algorithm, now, OVERLAP_MILLIS).map(|_| ring));
    Ok(rotation.await??)
}
