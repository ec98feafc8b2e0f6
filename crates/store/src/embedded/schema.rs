//! The version of the file's layout: set when it is made, raised by a newer program, and a reason to refuse for an older one.

use redb::{Database, ReadableTable, WriteTransaction};

use super::tables::{
    AUDIT, BY_END, CHUNKS, CLOSED_LINES, ENDING, LAST, LINES, OUTBOX, ROOM_NUMBERS, ROOMS, SESSIONS, TRACES,
    VALUES, VISITOR_EVENTS,
};
use super::{Failure, OpenError, Opener, outbox};

/// What this program writes. A newer program migrates older files; an older program refuses newer ones.
pub const SCHEMA_VERSION: u32 = 3;
/// The value that holds it.
pub(super) const SCHEMA_VALUE: &str = "schema";

/// Whether a process opens the file for the first time, or again after a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstOpen {
    Yes,
    No,
}

/// Opens the database, makes its tables, and checks or sets its schema version.
pub(super) fn open_database(opener: &Opener, first_open: FirstOpen) -> Result<Database, OpenError> {
    let database = opener().map_err(|error| match error {
        redb::DatabaseError::DatabaseAlreadyOpen => OpenError::InUse,
        other => OpenError::Other(other.to_string()),
    })?;
    let other = |failure: Failure| OpenError::Other(failure.to_string());
    let transaction = database.begin_write().map_err(|error| other(error.into()))?;
    let found = prepare_tables(&transaction).map_err(other)?;
    if found > SCHEMA_VERSION {
        return Err(OpenError::Newer { found });
    }
    if first_open == FirstOpen::Yes {
        forget_nodes(&transaction).map_err(other)?;
    }
    transaction.commit().map_err(|error| other(error.into()))?;
    Ok(database)
}

/// Makes every table, so that readers need not care whether one exists; returns the schema version of the file.
fn prepare_tables(transaction: &WriteTransaction) -> Result<u32, Failure> {
    let mut values = transaction.open_table(VALUES)?;
    let found =
        values.get(SCHEMA_VALUE)?.map(|bytes| bytes.value().try_into().map_or(u32::MAX, u32::from_le_bytes));
    // What a newer version wrote may have tables of other kinds: not touched, so that it is refused for the right reason.
    if let Some(newer) = found.filter(|&found| found > SCHEMA_VERSION) {
        return Ok(newer);
    }
    // Version 3 has events of visitors beside the others, and numbers them together.
    outbox::prepare(transaction)?;
    // Version 2 has traces of deleted rooms, and audit records that the first could not read but that read the first's. So there
    // is nothing to rewrite but the number itself.
    if found != Some(SCHEMA_VERSION) {
        values.insert(SCHEMA_VALUE, SCHEMA_VERSION.to_le_bytes().as_slice())?;
    }
    transaction.open_table(ROOM_NUMBERS)?;
    transaction.open_table(ROOMS)?;
    transaction.open_table(LINES)?;
    transaction.open_table(LAST)?;
    transaction.open_table(TRACES)?;
    transaction.open_table(CHUNKS)?;
    transaction.open_table(SESSIONS)?;
    transaction.open_table(ENDING)?;
    transaction.open_table(BY_END)?;
    transaction.open_table(CLOSED_LINES)?;
    transaction.open_table(OUTBOX)?;
    transaction.open_table(VISITOR_EVENTS)?;
    transaction.open_table(AUDIT)?;
    Ok(found.unwrap_or(SCHEMA_VERSION))
}

fn forget_nodes(transaction: &WriteTransaction) -> Result<(), Failure> {
    Ok(transaction.open_table(LAST)?.retain(|_, _| false)?)
}
