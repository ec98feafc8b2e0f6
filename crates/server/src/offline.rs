//! What an operator may do to a store while its server is stopped.

use std::sync::Arc;

use anteroom_store::Clock;
use anteroom_store::clock::SystemClock;

use crate::api_keys::{ApiKeys, CreatedKey, NewKey};
use crate::config::Loaded;
use crate::keys;
use crate::run::{master_secrets, open_store};

/// Makes an API key in the store that the configuration names: the way back in for somebody who has lost every key.
pub async fn create_key(loaded: &Loaded, new: NewKey) -> anyhow::Result<CreatedKey> {
    let store = open_store(&loaded.config.store_url)?;
    let secrets = Arc::new(master_secrets(&loaded.config, &loaded.secrets)?);
    // A key sealed under another secret would be of no use to the server.
    keys::check_secrets(&*store, &secrets).await?;
    let keys = ApiKeys::open(store, secrets, None).await?;
    let (_, created) = keys.create(new, "offline", SystemClock.now()).await?;
    Ok(created)
}
