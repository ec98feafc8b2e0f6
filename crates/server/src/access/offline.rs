//! What an operator may do to a store while its server is stopped.

use std::sync::Arc;

use anteroom_store::{Clock, EventId, Store, StoredEvent, SystemClock};
use anteroom_tokens::random;

use crate::access::api_keys::{ApiKeys, CreatedKey, NewKey};
use crate::config::{Loaded, StoreUrl};
use crate::ops::master_secret;
use crate::ops::stores::{self, master_secrets, shared_secrets};

/// Opens the store that the configuration names, for reading. What several nodes share is sealed, so there the master
/// secret must be the right one.
pub async fn look(loaded: &Loaded) -> anyhow::Result<Arc<dyn Store>> {
    let store = stores::open(&loaded.config, &loaded.secrets).await?.store;
    if let StoreUrl::Redis(_) = loaded.config.store_url {
        master_secret::compare_secrets(&*store, &shared_secrets(&loaded.config, &loaded.secrets)?).await?;
    }
    Ok(store)
}

/// Makes an API key in the store that the configuration names: the way back in for an operator who has lost every key.
pub async fn create_key(loaded: &Loaded, new: NewKey) -> anyhow::Result<CreatedKey> {
    let store = stores::open(&loaded.config, &loaded.secrets).await?.store;
    let secrets = Arc::new(master_secrets(&loaded.config, &loaded.secrets, &*store).await?);
    // A key sealed under another secret would be of no use to the server.
    master_secret::check_secrets(&*store, &secrets).await?;
    let now = store.clock().map_or_else(|| SystemClock.now(), |clock| clock.now());
    let keys = ApiKeys::open(store, secrets, None).await?;
    let id = EventId { node: random::uuid_v4().as_u128(), version: 0, number: 1, index: 0 };
    let tell = |event| StoredEvent { id, at: now, room: None, event };
    let (_, created) = keys.create(new, "offline", now, tell).await?;
    Ok(created)
}
