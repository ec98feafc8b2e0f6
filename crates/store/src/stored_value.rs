//! A value of the store that this node also has in memory. It is read as a whole, and replaced as a whole and only if nobody else
//! did so meanwhile.

use std::sync::Arc;

use crate::contract::{AuditRecord, Store, StoreError, StoredEvent};
use arc_swap::ArcSwap;

/// How often the value is tried again when another node changed it in between.
const ATTEMPTS_MAX: u32 = 8;

/// What a value holds.
pub trait StoredContent: Default + Send + Sync + 'static {
    /// The value's name in the store.
    const NAME: &'static str;

    /// As it is written; `None` if that cannot be read.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;

    /// As it is to be written.
    fn to_bytes(&self) -> Vec<u8>;
}

/// Why a value was not read or replaced.
#[derive(Debug, thiserror::Error)]
pub enum StoredValueError {
    /// What is stored cannot be read.
    #[error("the value {0} of the store cannot be read")]
    Unreadable(&'static str),
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The value, in memory as in the store.
pub struct StoredValue<Content> {
    store: Arc<dyn Store>,
    content: ArcSwap<Content>,
    /// Held from reading the stored value until the one in memory is the same, so that no older one replaces a newer one.
    changing: tokio::sync::Mutex<()>,
}

impl<Content: StoredContent> StoredValue<Content> {
    /// Reads it; the default where the store has none.
    pub async fn open(store: Arc<dyn Store>) -> Result<Self, StoredValueError> {
        let value = Self { store, content: ArcSwap::default(), changing: tokio::sync::Mutex::default() };
        value.reload().await?;
        Ok(value)
    }

    /// Reads it again, for a store that was restored or changed by another node.
    pub async fn reload(&self) -> Result<(), StoredValueError> {
        let _one_at_a_time = self.changing.lock().await;
        let (content, _) = self.read().await?;
        self.content.store(Arc::new(content));
        Ok(())
    }

    /// The content as this node knows it.
    pub fn get(&self) -> Arc<Content> {
        self.content.load_full()
    }

    /// The store that has it.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Changes it; durable when this returns, with its audit record. `change` may be called again with what another node has made of it
    /// meanwhile. A change that changes nothing is not written, and leaves no record.
    pub async fn replace<Outcome, Error: From<StoredValueError>>(
        &self,
        audit: &AuditRecord,
        change: impl Fn(&mut Content) -> Result<Outcome, Error>,
    ) -> Result<Outcome, Error> {
        self.replace_and_tell(audit, &[], change).await
    }

    /// The same, and writes events with it.
    pub async fn replace_and_tell<Outcome, Error: From<StoredValueError>>(
        &self,
        audit: &AuditRecord,
        events: &[StoredEvent],
        change: impl Fn(&mut Content) -> Result<Outcome, Error>,
    ) -> Result<Outcome, Error> {
        let _one_at_a_time = self.changing.lock().await;
        for _ in 0..ATTEMPTS_MAX {
            let (mut content, before) = self.read().await?;
            let as_read = content.to_bytes();
            let outcome = change(&mut content)?;
            let after = content.to_bytes();
            let is_replaced = as_read == after
                || self
                    .store
                    .replace_value_and_tell(Content::NAME, before.as_deref(), &after, Some(audit), events)
                    .await
                    .map_err(StoredValueError::from)?;
            if is_replaced {
                self.content.store(Arc::new(content));
                return Ok(outcome);
            }
        }
        let why = format!("the value {} keeps changing", Content::NAME);
        Err(StoredValueError::from(StoreError::Transient(why)).into())
    }

    async fn read(&self) -> Result<(Content, Option<Vec<u8>>), StoredValueError> {
        let Some(bytes) = self.store.value(Content::NAME).await? else {
            return Ok((Content::default(), None));
        };
        Ok((Content::from_bytes(&bytes).ok_or(StoredValueError::Unreadable(Content::NAME))?, Some(bytes)))
    }
}
