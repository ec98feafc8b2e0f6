//! Joins that may be repeated: the same `Idempotency-Key` within two minutes gets the same place, so that a client whose
//! connection broke can ask again without standing in line twice.
//!
//! What keys got is remembered by `anteroom_gateway::repeatable`; here is how a key is shown.

pub(crate) use anteroom_gateway::repeatable::{JoinKey as KeyDigest, RepeatableJoins};
use anteroom_tokens::api_key::ApiKeyDigest;
use http::HeaderMap;

use crate::error::ApiError;

/// Bounds of a key's length: 128 random bits take at least 16 characters, and nobody needs more than 128.
pub(crate) const KEY_LENGTHS: std::ops::RangeInclusive<usize> = 16..=128;
const HEADER: &str = "idempotency-key";

/// The key of a request, if it has one.
pub(crate) fn key_of(headers: &HeaderMap) -> Result<Option<KeyDigest>, ApiError> {
    let mut values = headers.get_all(HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()));
    match text {
        Some(text) if values.next().is_none() && KEY_LENGTHS.contains(&text.len()) => {
            Ok(Some(ApiKeyDigest::of(text).to_bytes()))
        }
        _ => Err(ApiError::bad_request(
            "Idempotency-Key must be given once, with 16 to 128 visible characters; a random UUID is a good one",
        )),
    }
}
