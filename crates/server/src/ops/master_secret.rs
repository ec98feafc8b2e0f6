//! Whether the master secret of this server is the one its store was made with.

use std::collections::BTreeMap;

use anteroom_store::Store;
use anteroom_tokens::secret::MasterSecrets;
use anyhow::bail;

use crate::run::Hinted;

const CHECK_VALUE: &str = "secret-check";
/// How often the value is tried again when another node changed it in between.
const ATTEMPTS_MAX: u32 = 8;

/// Whether a backup was taken with one of this server's master secrets.
pub(crate) fn accept(values: &BTreeMap<String, Vec<u8>>, secrets: &MasterSecrets) -> Result<(), String> {
    let check = values.get(CHECK_VALUE).ok_or("The backup holds no check value of a master secret")?;
    secrets.index_of_check_value(check).ok_or(
        "The backup was taken with another master secret; give this server that one too, in its list of secrets",
    )?;
    Ok(())
}

/// Whether something in the store was sealed with a master secret.
pub(crate) async fn is_made_with_one(store: &dyn Store) -> anyhow::Result<bool> {
    Ok(store.value(CHECK_VALUE).await?.is_some())
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
    match stored.as_deref().map(|stored| secrets.index_of_check_value(stored)) {
        Some(Some(0)) => Ok(Compared::First),
        None | Some(Some(_)) => Ok(Compared::Other { stored }),
        Some(None) => Err(Hinted {
            what: "the master secret is not the one this store was made with".into(),
            hint: "give that one too: of a list the first seals, and all of them open".into(),
        }
        .into()),
    }
}
