//! The signing keys of this store: loaded, made or rotated at start, and told apart by their `kid`.

use std::collections::BTreeMap;
use std::sync::Arc;

use anteroom_core::UnixMillis;
use anteroom_core::settings::DURATION_MAX_SECONDS;
use anteroom_store::{AuditRecord, Engine, Store};
use anteroom_tokens::key_ring::KeyRing;
use anteroom_tokens::secret::MasterSecrets;
use anteroom_tokens::signing_key::{SigningAlgorithm, SigningKey};
use anyhow::{Context, bail};
use arc_swap::ArcSwap;

use crate::run::Hinted;

const RING_VALUE: &str = "key-ring";
const CHECK_VALUE: &str = "secret-check";
/// How long a retired key can still sign a pass again: as long as the longest pass may live.
const OVERLAP_MILLIS: u64 = DURATION_MAX_SECONDS * 1000;
/// How often a value is tried again when another node changed it in between.
const ATTEMPTS_MAX: u32 = 8;

/// The key ring, shared by every handler.
pub(crate) struct Keys {
    known: ArcSwap<Known>,
    secrets: Arc<MasterSecrets>,
    algorithm: SigningAlgorithm,
    /// Held from reading the stored ring until the one in memory is the same.
    changing: tokio::sync::Mutex<()>,
}

/// A ring, and how it lies in the store.
struct Known {
    ring: KeyRing,
    stored: Vec<u8>,
}

/// A signing key as operators see it.
pub(crate) struct KeyStatus {
    pub(crate) kid: String,
    pub(crate) algorithm: &'static str,
    /// `announced`, `current` or `retired`.
    pub(crate) status: &'static str,
    pub(crate) active_from: UnixMillis,
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

impl Keys {
    pub(crate) fn current(&self, now: UnixMillis) -> Arc<SigningKey> {
        Arc::clone(self.known.load().ring.current(now))
    }

    pub(crate) fn by_kid(&self, kid: &str) -> Option<Arc<SigningKey>> {
        self.known.load().ring.by_kid(kid).cloned()
    }

    pub(crate) fn jwks(&self, now: UnixMillis) -> serde_json::Value {
        self.known.load().ring.jwks(now)
    }

    /// Every key that is still published, in the order in which they sign.
    pub(crate) fn described(&self, now: UnixMillis) -> Vec<KeyStatus> {
        let known = self.known.load();
        let ring = &known.ring;
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
    pub(crate) async fn rotate(&self, engine: &Engine, actor: &str) -> anyhow::Result<KeyStatus> {
        let (store, now) = (engine.store(), engine.now());
        let _one_at_a_time = self.changing.lock().await;
        for _ in 0..ATTEMPTS_MAX {
            let stored = store.value(RING_VALUE).await?.context("the store has no signing keys")?;
            let ring = rotated(KeyRing::open(&self.secrets, &stored)?, self.algorithm, now).await?;
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
                let newest = newest.context("a ring is never empty")?;
                let status = KeyStatus::of(&newest, ring.current(now), now);
                self.known.store(Arc::new(Known { ring, stored: sealed }));
                return Ok(status);
            }
        }
        bail!("the signing keys in the store keep changing")
    }

    /// Reads the ring again, for a store that was restored or changed by another node.
    pub(crate) async fn reload(&self, store: &dyn Store) -> anyhow::Result<()> {
        let _one_at_a_time = self.changing.lock().await;
        let stored = store.value(RING_VALUE).await?.context("the store has no signing keys")?;
        // Opening takes a while, and most of the time it is the same.
        if self.known.load().stored != stored {
            let ring = KeyRing::open(&self.secrets, &stored)?;
            self.known.store(Arc::new(Known { ring, stored }));
        }
        Ok(())
    }

    /// Opens the store's ring, or makes one; the secrets have been checked ([`check_secrets`]). A ring whose newest key is of another algorithm than configured gets a new key,
    /// which is announced first and signs later.
    pub(crate) async fn open(
        store: &dyn Store,
        secrets: &Arc<MasterSecrets>,
        algorithm: SigningAlgorithm,
        now: UnixMillis,
    ) -> anyhow::Result<Self> {
        for _ in 0..ATTEMPTS_MAX {
            let stored = store.value(RING_VALUE).await?;
            let ring = match &stored {
                None => make_ring(algorithm, now).await?,
                Some(sealed) => {
                    let ring = KeyRing::open(secrets, sealed)
                        .context("the signing keys in the store cannot be opened with this master secret")?;
                    rotated_if_needed(ring, algorithm, now).await?
                }
            };
            // Sealed anew at every start, so that it lies under the first secret of the list.
            let sealed = ring.seal(secrets)?;
            if store.replace_value(RING_VALUE, stored.as_deref(), &sealed, None).await? {
                let known = ArcSwap::from_pointee(Known { ring, stored: sealed });
                let changing = tokio::sync::Mutex::default();
                return Ok(Self { known, secrets: Arc::clone(secrets), algorithm, changing });
            }
        }
        bail!("the signing keys in the store keep changing; is another node starting over and over?")
    }
}

/// Whether the values of a backup fit this server's master secrets.
pub(crate) fn accept(values: &BTreeMap<String, Vec<u8>>, secrets: &MasterSecrets) -> Result<(), String> {
    let check = values.get(CHECK_VALUE).ok_or("The backup holds no check value of a master secret")?;
    secrets.matching(check).ok_or(
        "The backup was taken with another master secret; give this server that one too, in its list of secrets",
    )?;
    let ring = values.get(RING_VALUE).ok_or("The backup holds no signing keys")?;
    KeyRing::open(secrets, ring)
        .map_err(|error| format!("The signing keys of the backup cannot be opened: {error}"))?;
    Ok(())
}

/// RSA keys take a while to make, so not on a runtime thread.
async fn make_ring(algorithm: SigningAlgorithm, now: UnixMillis) -> anyhow::Result<KeyRing> {
    Ok(tokio::task::spawn_blocking(move || KeyRing::new(algorithm, now)).await??)
}

async fn rotated_if_needed(
    ring: KeyRing,
    algorithm: SigningAlgorithm,
    now: UnixMillis,
) -> anyhow::Result<KeyRing> {
    let newest = ring.keys().max_by_key(|key| key.active_from()).map(|key| key.algorithm());
    if newest == Some(algorithm) {
        return Ok(ring);
    }
    tracing::info!(%algorithm, "announcing a signing key of the configured algorithm; it signs in ten minutes");
    rotated(ring, algorithm, now).await
}

async fn rotated(mut ring: KeyRing, algorithm: SigningAlgorithm, now: UnixMillis) -> anyhow::Result<KeyRing> {
    let rotating =
        tokio::task::spawn_blocking(move || ring.rotate(algorithm, now, OVERLAP_MILLIS).map(|_| ring));
    Ok(rotating.await??)
}

/// A node with another master secret would hand out tickets nobody else can open, so it does not start. Otherwise its first
/// secret is the one that counts from now on.
pub(crate) async fn check_secrets(store: &dyn Store, secrets: &MasterSecrets) -> anyhow::Result<()> {
    for _ in 0..ATTEMPTS_MAX {
        match compare_secrets(store, secrets).await? {
            Compared::First => return Ok(()),
            Compared::Other { stored } => {
                let first = secrets.check_value();
                if store.replace_value(CHECK_VALUE, stored.as_deref(), &first, None).await? {
                    return Ok(());
                }
            }
        }
    }
    bail!("the check value of the master secret keeps changing; are nodes with different secrets starting?")
}

/// How the secrets of this server stand to the store's.
pub(crate) enum Compared {
    /// The first of the list is the one that sealed last.
    First,
    /// Another one of the list is, or the store knows of none yet.
    Other { stored: Option<Vec<u8>> },
}

/// Compares the secrets with what the store knows of its own; fails where none of them fits.
pub(crate) async fn compare_secrets(store: &dyn Store, secrets: &MasterSecrets) -> anyhow::Result<Compared> {
    let stored = store.value(CHECK_VALUE).await?;
    match stored.as_deref().map(|stored| secrets.matching(stored)) {
        Some(Some(0)) => Ok(Compared::First),
        None | Some(Some(_)) => Ok(Compared::Other { stored }),
        Some(None) => Err(Hinted {
            what: "the master secret is not the one this store was made with".into(),
            hint: "give that one too: of a list the first seals, and all of them open".into(),
        }
        .into()),
    }
}
