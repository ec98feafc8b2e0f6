//! Joins that may be repeated: the same `Idempotency-Key` within two minutes gets the same place, so that a client whose
//! connection broke can ask again without standing in line twice.
//!
//! What keys got is remembered by `anteroom_admission::idempotent_joins`; here is how a request carries its key.

use anteroom_admission::idempotent_joins::JoinKey;
use anteroom_tokens::api_key::ApiKeyDigest;
use http::HeaderMap;

use crate::http::error::ApiError;

/// Bounds of a key's length: 128 random bits take at least 16 characters, and nobody needs more than 128.
pub(crate) const KEY_LENGTHS: std::ops::RangeInclusive<usize> = 16..=128;
const HEADER: &str = "idempotency-key";

/// The key of a request, if it has one.
pub(crate) fn key_of(headers: &HeaderMap) -> Result<Option<JoinKey>, ApiError> {
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
