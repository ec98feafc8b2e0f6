//! Verifies webhooks of Anteroom: call `events_of` from the handler of your web framework, and answer 401 to an `Err`.
//!
//! ```toml
//! http = "1"
//! serde_json = "1"
//! standardwebhooks = "1"
//! ```

use http::HeaderMap;
use serde_json::Value;
use standardwebhooks::{Webhook, WebhookError};

/// The events of a request: one, or those of a batch. An error unless it was signed with `secret` (`whsec_…`) within the last five
/// minutes. Then drop those whose `source` and `id` you have handled before.
pub fn events_of(secret: &str, headers: &HeaderMap, body: &[u8]) -> Result<Vec<Value>, WebhookError> {
    Webhook::new(secret)?.verify(body, headers)?;
    let parsed = serde_json::from_slice(body).map_err(|_| WebhookError::InvalidPayload)?;
    Ok(match parsed {
        Value::Array(events) => events,
        event => vec![event],
    })
}
