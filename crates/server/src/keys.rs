//! The signing keys of this store: loaded, made or rotated at start, and told apart by their `kid`.

use std::sync::Arc;

use anteroom_core::UnixMillis;
use anteroom_core::settings::DURATION_MAX_SECONDS;
use anteroom_store::Store;
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
    ring: ArcSwap<KeyRing>,
}

impl Keys {
    pub(crate) fn current(&self, now: UnixMillis) -> Arc<SigningKey> {
        Arc::clone(self.ring.load().current(now))
    }

    pub(crate) fn by_kid(&self, kid: &str) -> Option<Arc<SigningKey>> {
        self.ring.load().by_kid(kid).cloned()
    }

    pub(crate) fn jwks(&self, now: UnixMillis) -> serde_json::Value {
        self.ring.load().jwks(now)
    }

    /// Opens the store's ring, or makes one. A ring whose newest key is of another algorithm than configured gets a new key,
    /// which is announced first and signs later.
    pub(crate) async fn open(
        store: &dyn Store,
        secrets: &MasterSecrets,
        algorithm: SigningAlgorithm,
        now: UnixMillis,
    ) -> anyhow::Result<Self> {
        check_secrets(store, secrets).await?;
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
                return Ok(Self { ring: ArcSwap::from_pointee(ring) });
            }
        }
        bail!("the signing keys in the store keep changing; is another node starting over and over?")
    }
}

/// RSA keys take a while to make, so not on a runtime thread.
async fn make_ring(algorithm: SigningAlgorithm, now: UnixMillis) -> anyhow::Result<KeyRing> {
    Ok(tokio::task::spawn_blocking(move || KeyRing::new(algorithm, now)).await??)
}

async fn rotated_if_needed(
    mut ring: KeyRing,
    algorithm: SigningAlgorithm,
    now: UnixMillis,
) -> anyhow::Result<KeyRing> {
    let newest = ring.keys().max_by_key(|key| key.active_from()).map(|key| key.algorithm());
    if newest == Some(algorithm) {
        return Ok(ring);
    }
    tracing::info!(%algorithm, "announcing a signing key of the configured algorithm; it signs in ten minutes");
    Ok(tokio::task::spawn_blocking(move || ring.rotate(algorithm, now, OVERLAP_MILLIS).map(|_| ring))
        .await??)
}

/// A node with another master secret would hand out tickets nobody else can open, so it does not start.
async fn check_secrets(store: &dyn Store, secrets: &MasterSecrets) -> anyhow::Result<()> {
    for _ in 0..ATTEMPTS_MAX {
        let stored = store.value(CHECK_VALUE).await?;
        let first = secrets.check_value();
        match stored.as_deref().map(|stored| secrets.matching(stored)) {
            Some(Some(0)) => return Ok(()),
            Some(None) => {
                return Err(Hinted {
                    what: "the master secret is not the one this store was made with".into(),
                    hint: "give that one too: of a list the first seals, and all of them open".into(),
                }
                .into());
            }
            None | Some(Some(_)) => {
                if store.replace_value(CHECK_VALUE, stored.as_deref(), &first, None).await? {
                    return Ok(());
                }
            }
        }
    }
    bail!("the check value of the master secret keeps changing; are nodes with different secrets starting?")
}
