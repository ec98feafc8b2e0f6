//! The OpenID provider: any software that knows OpenID Connect stands behind a line without code. Logging in means taking a place and
//! waiting until it is served.
//!
//! The path of a login: `authorize` reads the request (`parameters`, `authorization_request`) and hands the visitor to the gateway
//! (`anteroom_gateway::OpenIdLogin`), which shows the waiting page at that very address, claims the place at the turn, and
//! sends the visitor back with the code that `authorize` makes. The site exchanges it at `token` (`client_authentication`), and
//! asks `user_info`. What is inside codes and tokens is `anteroom_admission`'s.
//!
//! The code flow only, and no request is stored: all of it stands in the address of the page
//! ([ADR 48](docs/adr/0048-openid-provider.md)).

pub(crate) mod authorization_request;
pub(crate) mod authorize;
pub(crate) mod client_authentication;
pub(crate) mod counters;
pub(crate) mod discovery;
pub(crate) mod parameters;
pub(crate) mod redirect;
pub(crate) mod token;
pub(crate) mod user_info;

use std::sync::Arc;

use anteroom_admission::AdmissionError;
use anteroom_admission::openid::OpenIdError;
use axum::extract::FromRequestParts;
use http::{HeaderMap, StatusCode, header};

use crate::app::{App, ServedRoom};
use crate::http::error::ApiError;
use crate::http::problem::Problem;
use crate::http::request::{FromPathParameters, Path};

/// The errors of RFC 6749, RFC 6750 and OpenID Connect that are answered.
pub(crate) mod error_code {
    pub(crate) const INVALID_REQUEST: &str = "invalid_request";
    pub(crate) const INVALID_CLIENT: &str = "invalid_client";
    pub(crate) const INVALID_GRANT: &str = "invalid_grant";
    pub(crate) const INVALID_SCOPE: &str = "invalid_scope";
    pub(crate) const INVALID_TOKEN: &str = "invalid_token";
    pub(crate) const UNSUPPORTED_GRANT_TYPE: &str = "unsupported_grant_type";
    pub(crate) const UNSUPPORTED_RESPONSE_TYPE: &str = "unsupported_response_type";
    pub(crate) const REQUEST_NOT_SUPPORTED: &str = "request_not_supported";
    pub(crate) const REQUEST_URI_NOT_SUPPORTED: &str = "request_uri_not_supported";
    pub(crate) const REGISTRATION_NOT_SUPPORTED: &str = "registration_not_supported";
    pub(crate) const LOGIN_REQUIRED: &str = "login_required";
    pub(crate) const ACCESS_DENIED: &str = "access_denied";
    pub(crate) const TEMPORARILY_UNAVAILABLE: &str = "temporarily_unavailable";
    pub(crate) const SERVER_ERROR: &str = "server_error";
}

/// The room of a call: the one that its path names, or the default room.
pub(crate) struct OpenIdRoom(pub(crate) Arc<ServedRoom>);

/// The room that a path names, if it names one.
struct NamedRoom(Option<String>);

impl FromPathParameters for NamedRoom {
    fn read(parameters: Vec<String>) -> Option<Self> {
        let mut parameters = parameters.into_iter();
        let room = parameters.next();
        parameters.next().is_none().then_some(Self(room))
    }
}

impl FromRequestParts<Arc<App>> for OpenIdRoom {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut http::request::Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let Path(NamedRoom(name)) = Path::from_request_parts(parts, app).await?;
        app.named_room(name.as_deref()).map(Self)
    }
}

/// Whether the body is a form, as its type says.
fn is_form(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = content_type.unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

/// An error that is told to a client as RFC 6749 has it.
fn refused(code: &'static str, text: &'static str) -> ApiError {
    ApiError::oauth(StatusCode::BAD_REQUEST, code, text)
}

/// Why a code or a token was not taken, as its bearer is told.
fn openid_error(error: OpenIdError) -> ApiError {
    match error {
        OpenIdError::InvalidGrant(text) => refused(error_code::INVALID_GRANT, text),
        OpenIdError::InvalidRequest(text) => refused(error_code::INVALID_REQUEST, text),
        OpenIdError::InvalidToken(text) => {
            ApiError::oauth(StatusCode::UNAUTHORIZED, error_code::INVALID_TOKEN, text)
        }
        OpenIdError::Admission(error) => admission_error(error),
    }
}

/// What a room refuses is the grant's fault; what it cannot do now is not.
fn admission_error(error: AdmissionError) -> ApiError {
    let error = ApiError::from(error);
    if error.is(Problem::Unavailable) { error } else { error.with_oauth_code(error_code::INVALID_GRANT) }
}
