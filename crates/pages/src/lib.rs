//! What visitors see: the waiting page and its sisters, in their language, complete without JavaScript.
//!
//! Whoever answers a visitor says what the page tells ([`Page`]); which words, colours and bytes that makes is decided here, by the
//! visitor's preferences ([`Pages::respond`]). Nothing is fetched from elsewhere, and nothing here knows how a line works.
//!
//! The way of a page: [`Page`] → the language he reads (`languages.rs`) → words (`writing.rs`, with `texts.rs` and `numbers.rs`),
//! colours (`look.rs`) and the script's data (`data.rs`) → HTML, by the built-in template or the operator's → bytes and header fields
//! (`encoding.rs`).

mod data;
mod encoding;
mod languages;
mod look;
mod numbers;
mod page;
mod qr;
mod sample;
mod script;
mod texts;
mod writing;

use askama::Template;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};

pub use page::{Handoff, Live, Page, Place, Situation};
pub use qr::qr_svg;
pub use sample::sample;

use crate::languages::Language;
use crate::writing::Written;

/// Where the page's script is, on every host.
pub const SCRIPT_PATH: &str = "/.anteroom/page.js";
/// Bytes of randomness in a nonce.
const NONCE_LENGTH: usize = 16;

/// Writes pages.
#[derive(Debug, Default)]
pub struct Pages {}

impl Pages {
    /// The page as an answer, in the visitor's language and encoding, with its policy and nothing for caches to keep.
    pub fn respond(&self, status: StatusCode, page: &Page<'_>, asked: &HeaderMap) -> Response<Bytes> {
        let accepted = asked.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        let language = Language::accepted(accepted.unwrap_or_default());
        let nonce = anteroom_tokens::random::text(NONCE_LENGTH);
        let html = built_in(&Written::new(page, language, &nonce));
        encoding::answer(status, html, language, &nonce, asked)
    }

    /// The page's script; `query` is that of its address.
    pub fn script(&self, query: Option<&str>, asked: &HeaderMap) -> Response<Bytes> {
        script::respond(query, asked)
    }
}

/// The built-in page.
fn built_in(written: &Written<'_>) -> String {
    written.render().expect("a String takes everything")
}
