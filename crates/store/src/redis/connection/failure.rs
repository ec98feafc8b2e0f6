//! What an error of a server, or of the connection to it, means for the caller.

use redis::{ErrorKind, RedisError, ServerError};

use super::super::command::Intent;
use crate::contract::StoreError;

/// Codes with which a server says that it did nothing and may do it later.
const NOT_NOW: [&str; 17] = [
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "EXECABORT",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOMASTERLINK",
    "NOREPLICAS",
    "NOSCRIPT",
    "NOTREADY",
    "OOM",
    "READONLY",
    "TRYAGAIN",
    "UNBLOCKED",
    "UNKILLABLE",
];

/// What a server answered instead of doing it. Our scripts check everything before they write, so then nothing has happened.
pub(super) fn to_store_error(error: &ServerError) -> StoreError {
    let text = format!("{} {}", error.code(), error.details().unwrap_or_default());
    if NOT_NOW.contains(&error.code()) || text.contains("max number of clients") {
        StoreError::Transient(text)
    } else {
        StoreError::Permanent(text)
    }
}

/// There was no answer, after the request had been sent.
pub(super) fn unanswered(error: &RedisError, intent: Intent) -> StoreError {
    match intent {
        Intent::Read => StoreError::Transient(error.to_string()),
        Intent::Write => StoreError::Ambiguous(error.to_string()),
    }
}

/// There is no connection. Nothing was asked.
pub(super) fn not_connected(error: &RedisError) -> StoreError {
    let text = error.to_string();
    let is_hopeless = match error.kind() {
        ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig => true,
        ErrorKind::Server(_) | ErrorKind::Extension => {
            ["WRONGPASS", "NOAUTH", "NOPERM"].iter().any(|code| text.contains(code))
        }
        _ => false,
    };
    // A server that is still loading, or has no place left, says so at login.
    let says_later =
        ["LOADING", "MASTERDOWN", "max number of clients"].iter().any(|words| text.contains(words));
    if is_hopeless && !says_later { StoreError::Permanent(text) } else { StoreError::Transient(text) }
}
