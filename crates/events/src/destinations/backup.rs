//! Whether a server can take on the destinations of a backup.

use std::collections::{BTreeMap, BTreeSet};

use anteroom_store::stored_value::StoredContent as _;

use super::{DESTINATIONS_MAX, Table};

/// Judges the destinations among the values of a backup. Their addresses are not judged: what this server's settings do not allow is
/// refused when it is sent to, and an operator can then see and mend it.
pub fn accept(values: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
    let Some(bytes) = values.get(Table::NAME) else { return Ok(()) };
    let table = Table::from_bytes(bytes).ok_or("The destinations of events of the backup cannot be read")?;
    let names: BTreeSet<&str> = table.0.iter().map(|entry| entry.destination.name.as_str()).collect();
    if table.check_bounds().is_err() || names.len() != table.0.len() {
        return Err(format!(
            "The backup has more than {DESTINATIONS_MAX} destinations of events, or one twice"
        ));
    }
    Ok(())
}
