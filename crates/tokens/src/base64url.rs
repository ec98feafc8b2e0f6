//! Base64 with the URL alphabet and no padding, as JOSE writes it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The text for `bytes`.
pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Appends the text for `bytes` to `text`.
pub(crate) fn encode_onto(text: &mut String, bytes: impl AsRef<[u8]>) {
    URL_SAFE_NO_PAD.encode_string(bytes, text);
}

/// The bytes of `text`; only the one canonical spelling is accepted.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
