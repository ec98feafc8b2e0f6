//! The script of the pages: one file, made ready once, kept by browsers for as long as its content stays the same.

use std::sync::LazyLock;

use bytes::Bytes;
use flate2::{Compression, Crc};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, StatusCode};

use crate::SCRIPT_PATH;
use crate::encoding::{accepts_gzip, gzip};

/// A year: as long as caches keep anything.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// What was asked for without its version, or with another one, may change.
const REVALIDATED: HeaderValue = HeaderValue::from_static("public, no-cache");

static SCRIPT: LazyLock<Script> = LazyLock::new(Script::new);

struct Script {
    plain: Bytes,
    compressed: Bytes,
    /// Of the content: `v` in its address, and the `ETag`.
    version: String,
    address: String,
}

impl Script {
    fn new() -> Self {
        let plain = without_comments(include_str!("../assets/page.js"));
        let mut sum = Crc::new();
        sum.update(plain.as_bytes());
        let version = format!("{:08x}", sum.sum());
        let compressed = gzip(plain.as_bytes(), Compression::best()).into();
        let address = format!("{SCRIPT_PATH}?v={version}");
        Self { plain: plain.into(), compressed, version, address }
    }
}

/// Where pages find the script.
pub(crate) fn address() -> &'static str {
    &SCRIPT.address
}

/// The script as an answer.
pub(crate) fn respond(query: Option<&str>, request_headers: &HeaderMap) -> Response<Bytes> {
    let script = &*SCRIPT;
    let is_zipped = accepts_gzip(request_headers);
    let tag = format!("\"{}{}\"", script.version, if is_zipped { "-gzip" } else { "" });
    let is_this = query.is_some_and(|query| {
        query.split('&').any(|pair| pair.strip_prefix("v=") == Some(script.version.as_str()))
    });
    let is_known = request_headers.get_all(header::IF_NONE_MATCH).iter().any(|value| {
        value.to_str().is_ok_and(|tags| {
            tags.split(',').any(|known| known.trim().trim_start_matches("W/") == tag || known.trim() == "*")
        })
    });
    let mut response = Response::new(match (is_known, is_zipped) {
        (true, _) => Bytes::new(),
        (false, true) => script.compressed.clone(),
        (false, false) => script.plain.clone(),
    });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/javascript; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, if is_this { IMMUTABLE } else { REVALIDATED });
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    let tag = HeaderValue::try_from(tag).expect("hexadecimal digits can stand in a header");
    headers.insert(header::ETAG, tag);
    if is_zipped && !is_known {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// The script without its indentation and without lines that are nothing but a comment. Nothing else is taken away, because
/// telling comments from code within a line takes a parser; a test sees to it that no text of several lines is harmed.
fn without_comments(source: &str) -> String {
    let kept = source.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    kept.fold(String::with_capacity(source.len()), |mut script, line| {
        script.push_str(line);
        script.push('\n');
        script
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|&(name, value)| (header::HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    #[test]
    fn the_version_it_is_asked_for_by_is_kept_forever() {
        let (_, query) = address().split_once('?').unwrap();
        let answer = respond(Some(query), &request_headers(&[("accept-encoding", "gzip, br")]));
        assert_eq!(answer.headers()[header::CACHE_CONTROL], IMMUTABLE);
        assert_eq!(answer.headers()[header::CONTENT_ENCODING], "gzip");
        let other = respond(Some("v=00000000"), &request_headers(&[]));
        assert_eq!(other.headers()[header::CACHE_CONTROL], REVALIDATED);
        assert!(other.headers().get(header::CONTENT_ENCODING).is_none());
        assert!(other.body().starts_with(b"\"use strict\"") || other.body().starts_with(b"(() => {"));
    }

    #[test]
    fn a_browser_that_has_it_is_told_so() {
        let first = respond(None, &request_headers(&[]));
        let mut again = HeaderMap::new();
        again.insert(header::IF_NONE_MATCH, first.headers()[header::ETAG].clone());
        let answer = respond(None, &again);
        assert_eq!((answer.status(), answer.body().len()), (StatusCode::NOT_MODIFIED, 0));
        assert_eq!(
            respond(None, &request_headers(&[("if-none-match", "\"other\"")])).status(),
            StatusCode::OK
        );
    }

    #[test]
    fn no_text_of_the_script_spans_lines() {
        let source = include_str!("../assets/page.js");
        for line in source.lines().filter(|line| !line.trim().starts_with("//")) {
            assert!(line.matches('`').count() % 2 == 0, "{line}");
            assert!(!line.contains("/*") && !line.ends_with('\\'), "{line}");
        }
    }
}
