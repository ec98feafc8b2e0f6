//! Answers: how every response of our own API is built, so that CORS, caching and errors look the same everywhere.

use std::pin::Pin;
use std::task::{Context, Poll};

use anteroom_gateway::GatewayBody;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use serde_json::Value;

/// What CORS lets a browser send, AWS's list and the header its newer clients add.
pub(crate) const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static(
    "Content-Type,X-Amz-Date,Authorization,X-Api-Key,X-Amz-Security-Token,X-Amz-Content-Sha256,If-None-Match,If-Match,Idempotency-Key,Last-Event-ID",
);
/// What a page may read beside the body.
const EXPOSED_HEADERS: HeaderValue =
    HeaderValue::from_static("ETag,Retry-After,Allow,WWW-Authenticate,Anteroom-Stale");
/// The same for an answer that says what is left of a client's budget.
pub(crate) const EXPOSED_WITH_LIMITS: HeaderValue = HeaderValue::from_static(
    "ETag,Retry-After,Allow,WWW-Authenticate,Anteroom-Stale,RateLimit,RateLimit-Policy,\
     X-RateLimit-Limit,X-RateLimit-Remaining,X-RateLimit-Reset",
);
/// How long a browser may remember a preflight.
pub(crate) const PREFLIGHT_MAX_AGE_SECONDS: HeaderValue = HeaderValue::from_static("600");

/// How long caches may keep keys, in seconds.
const KEYS_MAX_AGE_SECONDS: u64 = 300;
const KEYS_CACHED: &str = "public, max-age=300";

/// How long an answer may be kept by caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caching {
    /// Figures of a room: the same for everybody, for a second.
    Board,
    /// Keys: the same for everybody, for five minutes.
    Keys,
    /// Anything about one visitor, and every error.
    Never,
}

impl Caching {
    const fn header(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Board => "public, max-age=1",
            Self::Keys => KEYS_CACHED,
            Self::Never => "no-store",
        })
    }
}

/// The body of an answer: our own bytes without a box around them, or whatever a router made.
pub(crate) enum ResponseBody {
    /// Bytes that are all there.
    Whole(Full<Bytes>),
    /// From the router.
    Routed(axum::body::Body),
    /// From the gateway.
    Gateway(GatewayBody),
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(context).map_err(|never| match never {}),
            Self::Routed(body) => Pin::new(body).poll_frame(context),
            Self::Gateway(body) => Pin::new(body).poll_frame(context).map_err(axum::Error::new),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Routed(body) => body.is_end_stream(),
            Self::Gateway(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Routed(body) => body.size_hint(),
            Self::Gateway(body) => body.size_hint(),
        }
    }
}

/// An answer of our own API.
pub(crate) type ApiResponse = Response<axum::body::Body>;

/// A JSON answer.
pub(crate) fn json(status: StatusCode, caching: Caching, body: &Value) -> ApiResponse {
    let mut response = Response::new(axum::body::Body::from(body.to_string()));
    *response.status_mut() = status;
    mark_json(response.headers_mut(), caching);
    response
}

/// A JSON answer from a structure whose fields have their order.
pub(crate) fn serialized(status: StatusCode, caching: Caching, body: &impl serde::Serialize) -> ApiResponse {
    let bytes = serde_json::to_vec(body).expect("our own structures can be written as JSON");
    let mut response = Response::new(axum::body::Body::from(bytes));
    *response.status_mut() = status;
    mark_json(response.headers_mut(), caching);
    response
}

/// The headers of every JSON answer.
pub(crate) fn mark_json(headers: &mut HeaderMap, caching: Caching) {
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, caching.header());
    mark_cross_origin(headers);
}

/// Lets caches keep keys for no longer than so many seconds, after which they change.
pub(crate) fn limit_max_age(headers: &mut HeaderMap, seconds: u64) {
    if seconds < KEYS_MAX_AGE_SECONDS {
        let value = HeaderValue::try_from(format!("public, max-age={seconds}")).expect("digits fit a header");
        headers.insert(header::CACHE_CONTROL, value);
    }
}

/// Lets any page read the answer. No answer depends on a cookie, so nothing is given away by it.
pub(crate) fn mark_cross_origin(headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
}

/// Keeps the answer from pages of other sites.
pub(crate) fn unmark_cross_origin(headers: &mut HeaderMap) {
    for name in [
        header::ACCESS_CONTROL_ALLOW_ORIGIN,
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        header::ACCESS_CONTROL_ALLOW_METHODS,
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        header::ACCESS_CONTROL_MAX_AGE,
    ] {
        headers.remove(name);
    }
}

/// An answer to a preflight for a path with these methods.
pub(crate) fn preflight(methods: &HeaderValue) -> ApiResponse {
    let mut response = Response::new(axum::body::Body::empty());
    let headers = response.headers_mut();
    mark_cross_origin(headers);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods.clone());
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_MAX_AGE_SECONDS);
    headers.insert(header::ALLOW, methods.clone());
    response
}
