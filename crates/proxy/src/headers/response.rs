//! Answers: which may be passed on, and without what.

use http::header::{self, HeaderValue};
use http::{StatusCode, response};

use super::remove_hop_by_hop;
use crate::error::ResponseFault;

/// Checks an answer and removes what does not concern the client. `asked` is the upgrade that was asked for.
///
/// Returns whether the origin switches protocols.
pub(crate) fn prepare_response(
    parts: &mut response::Parts,
    asked: Option<&HeaderValue>,
) -> Result<bool, ResponseFault> {
    let headers = &mut parts.headers;
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        let chosen = headers.get(header::UPGRADE).cloned();
        let chosen = chosen.filter(|chosen| asked.is_some_and(|asked| is_one_of(chosen, asked)));
        let chosen = chosen.ok_or(ResponseFault::UnaskedUpgrade)?;
        remove_hop_by_hop(headers);
        headers.remove(header::CONTENT_LENGTH);
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, chosen);
        return Ok(true);
    }
    if headers.contains_key(header::TRANSFER_ENCODING) {
        if headers.contains_key(header::CONTENT_LENGTH) {
            return Err(ResponseFault::Length);
        }
        let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
        let is_chunked =
            codings.next().is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
        if !is_chunked || codings.next().is_some() {
            return Err(ResponseFault::TransferCoding);
        }
    }
    if let Some(length) = headers.get(header::CONTENT_LENGTH) {
        let is_list = length.as_bytes().contains(&b',');
        if is_list || headers.get_all(header::CONTENT_LENGTH).iter().nth(1).is_some() {
            return Err(ResponseFault::Length);
        }
        if parts.status == StatusCode::NO_CONTENT {
            headers.remove(header::CONTENT_LENGTH);
        }
    }
    remove_hop_by_hop(headers);
    Ok(false)
}

/// Whether the protocol that an origin chose is one of those that were asked for.
fn is_one_of(chosen: &HeaderValue, asked: &HeaderValue) -> bool {
    let chosen = chosen.as_bytes().trim_ascii();
    asked.as_bytes().split(|byte| *byte == b',').any(|name| name.trim_ascii().eq_ignore_ascii_case(chosen))
}
