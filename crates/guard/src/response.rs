//! What a refused request is answered with: 401 and a challenge, the way to the waiting page, or 503.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode, Uri};

use crate::guard::Guard;
use crate::refusal::Refusal;
use crate::token_place::TokenPlace;

/// When a client may try again whose pass could not be verified, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");
/// The parameter that carries the one-time code of a room with `handoff = "query"`.
const CODE: &str = "anteroom_code";
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Where visitors without a pass are sent, and where they come back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingPage {
    site: String,
    room: Option<String>,
    address: Option<String>,
    returns_to: Option<String>,
}

impl WaitingPage {
    /// The page `/.anteroom/wait/{room}` of the guard's first room. Visitors come back to the page that they asked for, below
    /// `site`, the site's own public address (`https://shop.example.com`). It has to be among the room's `return_addresses`.
    ///
    /// It is named here, because the `Host` of a request is what a client says. Where a router takes a prefix off the path
    /// before this layer sees it, the prefix belongs to `site`.
    pub fn of_room(site: impl Into<String>) -> Self {
        Self { site: site.into(), room: None, address: None, returns_to: None }
    }

    /// The page of another room than the guard's first.
    #[must_use]
    pub fn room(self, room: impl Into<String>) -> Self {
        Self { room: Some(room.into()), ..self }
    }

    /// The page at another address: everything before `?return=`.
    #[must_use]
    pub fn address(self, address: impl Into<String>) -> Self {
        Self { address: Some(address.into()), ..self }
    }

    /// Visitors come back to this address, whatever page they asked for.
    #[must_use]
    pub fn return_to(self, address: impl Into<String>) -> Self {
        Self { returns_to: Some(address.into()), ..self }
    }

    /// The address for a visitor who asked for this page.
    fn location(&self, guard: &Guard, uri: &Uri) -> Option<HeaderValue> {
        let of_room = || {
            let room = self.room.as_deref().unwrap_or_else(|| guard.first_room());
            format!("{}/.anteroom/wait/{room}", guard.public_url())
        };
        let page = self.address.clone().unwrap_or_else(of_room);
        let asked_for = || {
            let query = query_without_tokens(guard, uri);
            format!("{}{}{query}", self.site.trim_end_matches('/'), uri.path())
        };
        let back = self.returns_to.clone().unwrap_or_else(asked_for);
        HeaderValue::try_from(format!("{page}?return={}", percent_encode(&back))).ok()
    }
}

impl Guard {
    /// The answer to a request that was refused.
    ///
    /// With a waiting page, a visitor who opens a page is redirected there (303), if waiting helps
    /// ([`Refusal::is_cured_by_waiting`]). Everything else gets 401 with `WWW-Authenticate`, or 503 with `Retry-After` where
    /// the keys are unavailable. Nothing of it may be cached.
    pub fn response<Body>(
        &self,
        refusal: Refusal,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        waiting_page: Option<&WaitingPage>,
    ) -> Response<Body>
    where
        Body: From<Bytes>,
    {
        let may_redirect = refusal.is_cured_by_waiting() && is_navigation(method, headers);
        let location = waiting_page.filter(|_| may_redirect).and_then(|page| page.location(self, uri));
        let mut response = match location {
            Some(location) => {
                let mut response = Response::new(Body::from(Bytes::new()));
                *response.status_mut() = StatusCode::SEE_OTHER;
                response.headers_mut().insert(header::LOCATION, location);
                response
            }
            None => self.problem(refusal),
        };
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    fn problem<Body: From<Bytes>>(&self, refusal: Refusal) -> Response<Body> {
        let status =
            if refusal.is_temporary() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::UNAUTHORIZED };
        // No reason has a character that JSON or a quoted text would have to escape.
        let title = status.canonical_reason().unwrap_or_default();
        let body =
            format!(r#"{{"title":"{title}","status":{},"detail":"{refusal}"}}"#, status.as_u16()) + "\n";
        let mut response = Response::new(Body::from(Bytes::from(body)));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if refusal.is_temporary() {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        } else if let Ok(challenge) = HeaderValue::try_from(self.challenge(refusal)) {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }

    /// RFC 6750: without a token no error is named.
    fn challenge(&self, refusal: Refusal) -> String {
        let realm = self.first_room();
        match refusal {
            Refusal::Missing => format!("Bearer realm=\"{realm}\""),
            _ => {
                format!("Bearer realm=\"{realm}\", error=\"invalid_token\", error_description=\"{refusal}\"")
            }
        }
    }
}

/// Whether a person opens a page. A script that is redirected to another host would fail without knowing why, and what was
/// posted would be lost; in a frame the waiting page is refused.
fn is_navigation(method: &Method, headers: &HeaderMap) -> bool {
    let says = |name: &HeaderName| headers.get(name).map(HeaderValue::as_bytes);
    let asks_for_html = || {
        let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut kinds = accepted.flat_map(|value| value.split(',')).map(|kind| kind.split(';').next());
        kinds.any(|kind| kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/html")))
    };
    *method == Method::GET
        && match (says(&SEC_FETCH_MODE), says(&SEC_FETCH_DEST)) {
            (Some(b"navigate"), Some(b"document") | None) => true,
            (None, None) => asks_for_html(),
            _ => false,
        }
}

/// The query of the page that was asked for, with its question mark. A token or a used code in it would come back as it is.
fn query_without_tokens(guard: &Guard, uri: &Uri) -> String {
    let is_secret = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default();
        let names_token =
            |place: &TokenPlace| matches!(place, TokenPlace::Query(parameter) if parameter == name);
        name == CODE || guard.places().iter().any(names_token)
    };
    let kept: Vec<&str> =
        uri.query().unwrap_or_default().split('&').filter(|pair| !is_secret(pair)).collect();
    match kept.join("&") {
        kept if kept.is_empty() => kept,
        kept => format!("?{kept}"),
    }
}

/// Everything but RFC 3986's unreserved characters.
fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
            encoded.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    encoded
}
