//! Errors of the API: what went wrong as data, written out in the style of the path it happened on.
//!
//! A handler returns an [`ApiError`]; the last phase of a request renders it, as a problem on our own paths and as
//! `{"error": …}` on AWS's. What the rules refuse gets its status here, in one exhaustive match, for both styles.

use anteroom_admission::AdmissionError;
use anteroom_core::Refusal;
use anteroom_engine::EngineError;
use anteroom_store::StoreError;
use anteroom_store::stored_value::StoredValueError;
use anteroom_tokens::signer::SignError;
use axum::body::Body;
use axum::response::IntoResponse;
use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::http::problem::Problem;
use crate::http::response::{self, ApiResponse, Caching};

/// When a client that was turned away should come back.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");
/// For caches that know no other header.
pub(crate) const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// How errors of a path are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// `{"error": "…"}`, as AWS's clients expect.
    Aws,
    /// RFC 9457.
    Problem,
    /// RFC 9457; a browser beyond its budget gets a page.
    Page,
    /// RFC 6749, section 5.2: `{"error": "…", "error_description": "…"}`.
    OAuth,
}

/// Something that did not work, and how to say so. Boxed, because every answer that works would carry its size.
#[derive(Debug, Clone)]
pub(crate) struct ApiError(Box<ErrorContent>);

#[derive(Debug, Clone)]
struct ErrorContent {
    problem: Problem,
    text: String,
    /// What AWS's clients read where that differs.
    aws: Option<(StatusCode, &'static str)>,
    /// What OAuth calls it, where that says more than its status.
    oauth: Option<&'static str>,
    header: Option<(HeaderName, HeaderValue)>,
    /// What a problem tells beside its text.
    member: Option<(&'static str, Value)>,
}

impl ApiError {
    /// A problem, with what it was this time.
    pub(crate) fn problem(problem: Problem, text: impl Into<String>) -> Self {
        let (text, oauth) = (text.into(), None);
        Self(Box::new(ErrorContent { problem, text, aws: None, oauth, header: None, member: None }))
    }

    /// An error of an OAuth path.
    pub(crate) fn oauth(status: StatusCode, code: &'static str, text: &'static str) -> Self {
        let mut error = Self::problem(Problem::of_status(status), text);
        error.0.oauth = Some(code);
        error
    }

    /// The same as an error that OAuth answers with status 400.
    pub(crate) fn with_oauth_code(mut self, code: &'static str) -> Self {
        self.0.problem = Problem::BadRequest;
        self.0.oauth = Some(code);
        self
    }

    /// What OAuth calls it.
    pub(crate) fn oauth_code(&self) -> &'static str {
        self.0.oauth.unwrap_or(match self.0.problem {
            Problem::Unavailable | Problem::QuotaExceeded | Problem::ManyArriving => {
                "temporarily_unavailable"
            }
            _ => "invalid_request",
        })
    }

    /// An error of an AWS path. Also used where AWS answers 202 with an error.
    pub(crate) fn aws(status: StatusCode, text: &'static str) -> Self {
        Self::problem(Problem::of_status(status), text).with_aws(status, text)
    }

    pub(crate) fn bad_request(text: impl Into<String>) -> Self {
        Self::problem(Problem::BadRequest, text)
    }

    /// We cannot do it now; it is worth asking again in a second.
    pub(crate) fn unavailable(text: impl Into<String>) -> Self {
        Self::problem(Problem::Unavailable, text).with_header(header::RETRY_AFTER, RETRY_AFTER_SECONDS)
    }

    /// With one more header.
    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.header = Some((name, value));
        self
    }

    /// With one more member in the problem.
    pub(crate) fn with_member(mut self, name: &'static str, value: Value) -> Self {
        self.0.member = Some((name, value));
        self
    }

    /// With another status and text for AWS's clients.
    pub(crate) fn with_aws(mut self, status: StatusCode, text: &'static str) -> Self {
        self.0.aws = Some((status, text));
        self
    }

    /// Whether it has a header of its own.
    pub(crate) fn has_header(&self) -> bool {
        self.0.header.is_some()
    }

    /// Whether it is of this kind.
    pub(crate) fn is(&self, problem: Problem) -> bool {
        self.0.problem == problem
    }

    /// The answer, in the style of its path.
    pub(crate) fn render(self, style: Style, public_url: &str) -> ApiResponse {
        let code = self.oauth_code();
        let ErrorContent { problem, text, aws, header, member, .. } = *self.0;
        let mut response = match style {
            Style::Aws => {
                let (status, text) = aws.unwrap_or((problem.status(), &text));
                response::json(status, Caching::Never, &json!({"error": text}))
            }
            Style::OAuth => {
                let body = json!({"error": code, "error_description": oauth_text(&text)});
                let mut response = response::json(problem.status(), Caching::Never, &body);
                response.headers_mut().insert(header::PRAGMA, NO_CACHE);
                response
            }
            Style::Problem | Style::Page => {
                let status = problem.status();
                let mut body = json!({
                    "type": problem.address(public_url),
                    "title": problem.title(),
                    "status": status.as_u16(),
                    "detail": text,
                });
                if let Some((name, value)) = member {
                    body[name] = value;
                }
                let mut response = response::json(status, Caching::Never, &body);
                response.headers_mut().insert(header::CONTENT_TYPE, PROBLEM_JSON);
                response
            }
        };
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// Carries the error to the last phase, which knows the path's style and writes it out.
impl IntoResponse for ApiError {
    fn into_response(self) -> ApiResponse {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.0.problem.status();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let text = sentence(&refusal.to_string());
        match refusal {
            Refusal::NotJoinable(state) => {
                let text = format!("The waiting room is {} and takes nobody in", state.as_str());
                Self::problem(Problem::NotJoinable, text)
            }
            Refusal::LineFull(_) | Refusal::SegmentsFull => Self::unavailable("The line is full"),
            Refusal::LineNotLearned => Self::unavailable("The line of this ticket is being learned again"),
            Refusal::UnknownTicket => Self::problem(Problem::UnknownTicket, text)
                .with_aws(StatusCode::NOT_FOUND, "Invalid request ID"),
            Refusal::NotServed => Self::problem(Problem::NotServed, text)
                .with_aws(StatusCode::ACCEPTED, "Request ID not being served yet"),
            Refusal::Gone => Self::problem(Problem::PlaceGone, text)
                .with_aws(StatusCode::GONE, "Queue position has expired"),
            Refusal::Moved => Self::problem(Problem::Moved, text)
                .with_aws(StatusCode::GONE, "Queue position has moved to another device"),
            Refusal::CodeUsed => Self::problem(Problem::CodeUsed, text),
            Refusal::RoomClosed => Self::problem(Problem::RoomClosed, text)
                .with_aws(StatusCode::GONE, "The waiting room is closed"),
            Refusal::UnknownSession | Refusal::AlreadyEnded | Refusal::UnknownGrant => {
                Self::problem(Problem::SessionEnded, text)
                    .with_aws(StatusCode::NOT_FOUND, "Request ID doesn't exist or status already set.")
            }
            Refusal::Changed => Self::problem(Problem::Changed, text),
            Refusal::NoAuction
            | Refusal::NotMovable
            | Refusal::NotThisRound
            | Refusal::MovedByRounds
            | Refusal::TooManyReporters
            | Refusal::TooManyGrants
            | Refusal::JustRefreshed => Self::problem(Problem::Conflict, text),
            Refusal::UnknownReporter => Self::problem(Problem::UnknownName, text),
            Refusal::CounterOverflow | Refusal::Settings(_) => Self::bad_request(refusal.to_string()),
        }
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Refused(refusal) => refusal.into(),
            EngineError::Overloaded => Self::unavailable("Too many requests are waiting; try again shortly"),
            EngineError::RoomDeleted => Self::problem(Problem::UnknownRoom, "The room was deleted")
                .with_aws(StatusCode::BAD_REQUEST, "Invalid event ID"),
            EngineError::Restoring => Self::unavailable("A backup is being restored; try again shortly"),
            EngineError::Panicked => Self::unavailable("The room could not do this. Nothing was done"),
            EngineError::Stopped => Self::unavailable("The server is shutting down"),
            EngineError::Store(error) => error.into(),
        }
    }
}

impl From<AdmissionError> for ApiError {
    fn from(error: AdmissionError) -> Self {
        let text = sentence(&error.to_string());
        match error {
            AdmissionError::Engine(error) => error.into(),
            AdmissionError::UnknownRoom | AdmissionError::NoDefaultRoom => {
                Self::problem(Problem::UnknownRoom, text)
            }
            AdmissionError::ManyArriving { retry_after_seconds } => {
                Self::problem(Problem::ManyArriving, text)
                    .with_header(header::RETRY_AFTER, HeaderValue::from(retry_after_seconds))
            }
            AdmissionError::UnknownTicket | AdmissionError::UnknownRefreshToken => {
                Self::problem(Problem::UnknownTicket, text)
            }
            AdmissionError::RoomLost => {
                Self::unavailable("The room of this ticket was lost with its store, and is not there yet")
            }
            AdmissionError::UnknownCode => Self::problem(Problem::CodeUsed, text),
            AdmissionError::RenewalDisabled => Self::problem(Problem::Conflict, text),
            AdmissionError::VisitOver => Self::problem(Problem::SessionEnded, text)
                .with_aws(StatusCode::GONE, "Token corresponding to request id has expired"),
            AdmissionError::NoAuction => Self::problem(
                Problem::Conflict,
                "This room holds no auction: take a place with /join, and exchange it with /claim when its turn has come",
            ),
            AdmissionError::RoomPaused => {
                Self::problem(Problem::NoSlot, "The room is paused; your place is kept")
            }
            AdmissionError::Signing(SignError::Overloaded) => {
                Self::unavailable("Too many passes are being signed; try again shortly")
            }
            AdmissionError::Signing(SignError::Failed) => {
                Self::unavailable("The pass could not be signed; try again")
            }
            AdmissionError::RoundNotSettled | AdmissionError::NotAnswered | AdmissionError::PassNotKept => {
                Self::unavailable(text)
            }
        }
    }
}

impl From<StoreError> for ApiError {
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

impl From<StoredValueError> for ApiError {
    fn from(error: StoredValueError) -> Self {
        match error {
            StoredValueError::Store(error) => error.into(),
            StoredValueError::Unreadable(_) => Self::unavailable("What the store has of this cannot be read"),
        }
    }
}

/// A text in the characters that an `error_description` may have.
fn oauth_text(text: &str) -> String {
    let allowed = |character: char| matches!(character, ' ' | '!' | '#'..='[' | ']'..='~');
    text.chars().map(|character| if allowed(character) { character } else { '\'' }).collect()
}

/// A clause of the rules as a sentence's beginning.
pub(crate) fn sentence(clause: &str) -> String {
    let mut characters = clause.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
