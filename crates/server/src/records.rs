//! Stand-in until the store's audited writes are merged.
use anteroom_core::{RoomId, UnixMillis};
use anteroom_store::{Store, StoreError};

pub(crate) struct AuditRecord {
    pub(crate) at: UnixMillis,
    pub(crate) room: Option<RoomId>,
    pub(crate) actor: String,
    pub(crate) action: String,
    pub(crate) detail: Option<String>,
}

pub(crate) async fn replace_value(
    store: &dyn Store,
    name: &str,
    expected: Option<&[u8]>,
    new: &[u8],
    _audit: Option<&AuditRecord>,
) -> Result<bool, StoreError> {
    store.replace_value(name, expected, new).await
}

pub(crate) async fn audit(
    store: &dyn Store,
    before: Option<u64>,
    room: Option<&RoomId>,
    limit: usize,
) -> Result<Vec<(u64, AuditRecord)>, StoreError> {
    let _ = (before, room);
    let records = store.audit(limit).await?;
    Ok(records
        .into_iter()
        .map(|r| {
            (0, AuditRecord { at: r.at, room: Some(r.room), actor: r.actor, action: r.action, detail: None })
        })
        .collect())
}
