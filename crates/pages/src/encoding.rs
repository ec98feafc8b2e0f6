//! A page as an answer: what browsers and caches are told about it, and fewer bytes for those who can read them.

use std::cell::RefCell;
use std::io::Write;

use bytes::Bytes;
use flate2::write::GzEncoder;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, StatusCode};

use crate::languages::Language;

/// What decides over the content of an answer: the address is shared with the site, and with programs.
const VARY: HeaderValue = HeaderValue::from_static("Accept, Accept-Language, Accept-Encoding, Cookie");

/// Other sites do not learn where the visitor has been.
const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");

/// The answer.
pub(crate) fn html_response(
    status: StatusCode,
    html: String,
    language: &Language,
    nonce: &str,
    request_headers: &HeaderMap,
) -> Response<Bytes> {
    let is_zipped = accepts_gzip(request_headers);
    let body = if is_zipped { gzip_quickly(html.as_bytes()).into() } else { Bytes::from(html) };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    let policy = HeaderValue::try_from(policy(nonce)).expect("a nonce is base64url");
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    headers.insert(header::REFERRER_POLICY, SAME_ORIGIN);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::VARY, VARY);
    headers.insert(header::CONTENT_LANGUAGE, HeaderValue::from_static(language.tag));
    if is_zipped {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// A page that posts to another site names this one there: sites refuse a form that comes from nowhere.
pub(crate) fn send_origin_as_referrer(response: &mut Response<Bytes>) {
    response.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("strict-origin"));
}

/// A page that is only looked at, on the operators' own host: nothing in it runs, and nothing can be sent from it.
pub(crate) fn sandbox(response: &mut Response<Bytes>, nonce: &str) {
    let policy = format!("{}; sandbox", policy(nonce));
    let policy = HeaderValue::try_from(policy).expect("a nonce is base64url");
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
}

/// What the page may do: run and show what carries the nonce of this very answer, and speak with this host.
///
/// Forms may lead anywhere, because browsers hold the redirects that follow a form to this list too: who has come in by a button
/// is sent on to the site, and where that redirects to (its other host, its login) is not known here. That holds for the form of a
/// hand-off too, although its address is known: a list of that address alone would stop the visitor at the site's first redirect.
pub(crate) fn policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; \
         img-src 'self' data:; form-action 'self' https: http:; base-uri 'none'; frame-ancestors 'self'"
    )
}

/// Whether the client reads gzip.
pub(crate) fn accepts_gzip(request_headers: &HeaderMap) -> bool {
    let lists =
        request_headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|coding| {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = parameters.trim().strip_prefix("q=").is_some_and(|weight| {
            weight.trim().trim_start_matches('0').trim_start_matches('.').trim_start_matches('0').is_empty()
        });
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

/// The bytes of a page, compressed quickly.
fn gzip_quickly(plain: &[u8]) -> Vec<u8> {
    /// Magic number, deflate, no flags, no time, no special level, no operating system.
    const BEGIN: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    /// The smallest pages among the levels that cost about as much time as the fastest.
    const LEVEL: Compression = Compression::new(3);
    /// What is not compressed needs 5 bytes for each 32 KiB, and 8 at the end.
    const SPARE: usize = 64;
    thread_local! {
        // Making its tables takes longer than compressing a page with them.
        static COMPRESSOR: RefCell<Compress> = RefCell::new(Compress::new(LEVEL, false));
    }
    let mut zipped = Vec::with_capacity(BEGIN.len() + plain.len() + plain.len() / 1_000 + SPARE);
    zipped.extend_from_slice(&BEGIN);
    let status = COMPRESSOR.with_borrow_mut(|compressor| {
        compressor.reset();
        compressor.compress_vec(plain, &mut zipped, FlushCompress::Finish)
    });
    if !matches!(status, Ok(Status::StreamEnd)) {
        return gzip(plain, LEVEL);
    }
    let mut sum = Crc::new();
    sum.update(plain);
    zipped.extend_from_slice(&sum.sum().to_le_bytes());
    zipped.extend_from_slice(&sum.amount().to_le_bytes());
    zipped
}

/// The bytes, compressed.
pub(crate) fn gzip(plain: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 2), level);
    encoder.write_all(plain).expect("a vector takes everything");
    encoder.finish().expect("a vector takes everything")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn the_policy_lets_nothing_in_by_itself() {
        let policy = policy("abc");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("default-src 'none'") && policy.contains("base-uri 'none'"), "{policy}");
        for kind in ["script-src", "style-src"] {
            assert!(policy.contains(&format!("{kind} 'nonce-abc';")), "{policy}");
        }
    }

    #[test]
    fn gzip_goes_and_comes_back() {
        let repeated = "In line. ".repeat(5_000);
        let random = anteroom_tokens::random::text(100_000);
        for text in ["", "a", &repeated, &random, &repeated] {
            for zipped in [gzip(text.as_bytes(), Compression::best()), gzip_quickly(text.as_bytes())] {
                assert!(zipped.len() <= text.len() + text.len() / 100 + 64);
                let mut back = String::new();
                flate2::read::GzDecoder::new(&zipped[..]).read_to_string(&mut back).unwrap();
                assert_eq!(back, text);
            }
        }
        assert!(gzip_quickly(repeated.as_bytes()).len() < repeated.len() / 50);
    }

    #[test]
    fn only_who_reads_gzip_gets_it() {
        for (value, reads) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("br", false),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("gzip;q=0.001", true),
            ("", false),
        ] {
            let request_headers =
                HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(value))]);
            assert_eq!(accepts_gzip(&request_headers), reads, "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
