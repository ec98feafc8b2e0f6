//! Answers: how every response of our own API is built, so that CORS, caching and errors look the same everywhere.

use std::pin::Pin;
use std::task::{Context, Poll};

use anteroom_core::Refusal;
use anteroom_store::{EngineError, StoreError};
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use serde_json::{Value, json};

/// What CORS lets a browser send, AWS's list and the header its newer clients add.
pub(crate) const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static(
    "Content-Type,X-Amz-Date,Authorization,X-Api-Key,X-Amz-Security-Token,X-Amz-Content-Sha256,If-None-Match",
);
/// How long a browser may remember a preflight.
pub(crate) const PREFLIGHT_MAX_AGE_SECONDS: HeaderValue = HeaderValue::from_static("600");
/// When a client that was turned away should come back.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");

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
            Self::Keys => "public, max-age=300",
            Self::Never => "no-store",
        })
    }
}

/// The body of an answer: our own bytes without a box around them, or whatever a router made.
pub(crate) enum AnswerBody {
    /// Bytes that are all there.
    Whole(Full<Bytes>),
    /// From the router.
    Routed(axum::body::Body),
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(context).map_err(|never| match never {}),
            Self::Routed(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Routed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Routed(body) => body.size_hint(),
        }
    }
}

/// An answer of our own API.
pub(crate) type Answered = Response<axum::body::Body>;

/// A JSON answer.
pub(crate) fn json(status: StatusCode, caching: Caching, body: &Value) -> Answered {
    let mut response = Response::new(axum::body::Body::from(body.to_string()));
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

/// Lets any page read the answer. No answer depends on a cookie, so nothing is given away by it.
pub(crate) fn mark_cross_origin(headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
}

/// An answer to a preflight for a path with these methods.
pub(crate) fn preflight(methods: &'static str) -> Answered {
    let mut response = Response::new(axum::body::Body::empty());
    let headers = response.headers_mut();
    mark_cross_origin(headers);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_MAX_AGE_SECONDS);
    headers.insert(header::ALLOW, HeaderValue::from_static(methods));
    response
}

/// An error on an AWS path: a status and one sentence.
#[derive(Debug)]
pub(crate) struct AwsError {
    status: StatusCode,
    text: String,
    header: Option<(HeaderName, HeaderValue)>,
}

impl AwsError {
    /// An error that says `text`.
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), header: None }
    }

    /// With one more header.
    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.header = Some((name, value));
        self
    }

    pub(crate) fn bad_request(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// We cannot do it now; it is worth asking again in a second.
    pub(crate) fn unavailable(text: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text).with_header(header::RETRY_AFTER, RETRY_AFTER_SECONDS)
    }

    pub(crate) fn into_answer(self) -> Answered {
        let mut response = json(self.status, Caching::Never, &json!({"error": self.text}));
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

impl axum::response::IntoResponse for AwsError {
    fn into_response(self) -> Answered {
        self.into_answer()
    }
}

/// What AWS's clients read where the rules refuse; the one place that decides.
impl From<Refusal> for AwsError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotJoinable(state) => Self::new(
                StatusCode::CONFLICT,
                format!("The waiting room is {} and takes nobody in", state.as_str()),
            ),
            Refusal::LineFull(_) | Refusal::SegmentsFull => Self::unavailable("The line is full"),
            Refusal::UnknownTicket => Self::new(StatusCode::NOT_FOUND, "Invalid request ID"),
            Refusal::NotServed => Self::new(StatusCode::ACCEPTED, "Request ID not being served yet"),
            Refusal::Gone => Self::new(StatusCode::GONE, "Queue position has expired"),
            Refusal::RoomClosed => Self::new(StatusCode::GONE, "The waiting room is closed"),
            Refusal::UnknownSession | Refusal::AlreadyEnded => {
                Self::new(StatusCode::NOT_FOUND, "Request ID doesn't exist or status already set.")
            }
            Refusal::Changed => Self::new(StatusCode::CONFLICT, "The waiting room was changed meanwhile"),
            Refusal::CounterOverflow | Refusal::Settings(_) => Self::bad_request(refusal.to_string()),
        }
    }
}

impl From<EngineError> for AwsError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Refused(refusal) => refusal.into(),
            EngineError::Overloaded => Self::unavailable("Too many requests are waiting; try again shortly"),
            EngineError::RoomDeleted => Self::bad_request("Invalid event ID"),
            EngineError::Restoring => Self::unavailable("A backup is being restored; try again shortly"),
            EngineError::Stopped => Self::unavailable("The server is shutting down"),
            EngineError::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for AwsError {
    fn from(error: StoreError) -> Self {
        // What the store says is for the log; the engine has written it there.
        Self::unavailable(match error {
            StoreError::Ambiguous(_) => "It is not known whether this was done; look before you ask again",
            StoreError::Transient(_) | StoreError::Permanent(_) => {
                "The store is not available; try again shortly"
            }
        })
    }
}
