//! What the OpenID provider seals and signs: [`sealed`] has codes and refresh tokens, which nobody but this server reads;
//! [`subject`] the name by which a client knows a visitor; [`token_pair`] the access token and the ID token, signed by the same keys as
//! passes.
//!
//! *Boundary:* that a code is good once, and a refresh token until the next, is the business of the session (`core`).

pub mod sealed;
pub mod subject;
pub mod token_pair;

use aws_lc_rs::digest;

/// SHA-256: of a redirect address in a code, and of a code verifier (RFC 7636, `S256`).
pub fn sha256(text: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
    bytes
}
