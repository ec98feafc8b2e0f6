//! `/userInfo`: what an access token says of its visitor, as long as the visit lasts (OpenID Connect Core, section 5.3; RFC 6750).

use std::sync::Arc;

use anteroom_admission::openid::OpenIdError;
use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode};

use crate::app::{App, ServedRoom};
use crate::http::error::ApiError;
use crate::http::problem::Problem;
use crate::http::request::read_body;
use crate::http::response::{self, ApiResponse, Caching};
use crate::openid::counters::{Endpoint, SERVED};
use crate::openid::error_code::{INVALID_REQUEST, INVALID_TOKEN};
use crate::openid::parameters::FormParameters;
use crate::openid::{OpenIdRoom, is_form, refused};

const BEARER: HeaderValue = HeaderValue::from_static("Bearer realm=\"anteroom\"");
const BEARER_INVALID_TOKEN: HeaderValue = HeaderValue::from_static(
    "Bearer realm=\"anteroom\", error=\"invalid_token\", error_description=\"The token is not good, or its visit is over\"",
);
const BEARER_INVALID_REQUEST: HeaderValue = HeaderValue::from_static(
    "Bearer realm=\"anteroom\", error=\"invalid_request\", error_description=\"The token is sent in more than one way\"",
);

/// GET and POST `/userInfo`.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    room: Result<OpenIdRoom, ApiError>,
    request: Request<Body>,
) -> ApiResponse {
    let room = match room {
        Ok(OpenIdRoom(room)) => room,
        Err(error) => return error.into_response(),
    };
    match answer(&app, &room, request).await {
        Ok(response) => {
            app.metrics.openid.count(Endpoint::UserInfo, SERVED);
            response
        }
        Err(error) => {
            let code = error.oauth_code();
            app.metrics.openid.count(Endpoint::UserInfo, code);
            let challenge = match code {
                INVALID_TOKEN => Some(BEARER_INVALID_TOKEN),
                INVALID_REQUEST => Some(BEARER_INVALID_REQUEST),
                _ => None,
            };
            let error = match challenge {
                Some(challenge) if !error.has_header() => {
                    error.with_header(header::WWW_AUTHENTICATE, challenge)
                }
                _ => error,
            };
            error.into_response()
        }
    }
}

async fn answer(app: &App, room: &Arc<ServedRoom>, request: Request<Body>) -> Result<ApiResponse, ApiError> {
    let token = bearer(request).await?.ok_or_else(|| {
        // Nothing was sent, so nothing is wrong with it (RFC 6750, section 3.1).
        let text = "The access token is missing: send it as Authorization: Bearer TOKEN";
        ApiError::oauth(StatusCode::UNAUTHORIZED, INVALID_TOKEN, text)
            .with_header(header::WWW_AUTHENTICATE, BEARER)
    })?;
    let claims = app.admission.openid_user_info(&room.view, &token).await.map_err(token_error)?;
    Ok(response::serialized(StatusCode::OK, Caching::Never, &claims))
}

/// Why a token says nothing. There is no grant here that could be invalid: whatever is wrong is so with the token, unless we cannot tell
/// now (RFC 6750, section 3.1).
fn token_error(error: OpenIdError) -> ApiError {
    let invalid = |text| ApiError::oauth(StatusCode::UNAUTHORIZED, INVALID_TOKEN, text);
    match error {
        OpenIdError::InvalidToken(text)
        | OpenIdError::InvalidGrant(text)
        | OpenIdError::InvalidRequest(text) => invalid(text),
        OpenIdError::Admission(error) => {
            let error = ApiError::from(error);
            if error.is(Problem::Unavailable) {
                error
            } else {
                invalid("The token is not good in this room any more")
            }
        }
    }
}

/// The token of the header, or of the form. That of a query stands in logs, and is not looked at.
async fn bearer(request: Request<Body>) -> Result<Option<String>, ApiError> {
    let in_header = in_header(request.headers())?;
    if request.method() != Method::POST {
        return Ok(in_header);
    }
    let is_form = is_form(request.headers());
    let body = read_body(request).await?;
    if !is_form {
        return Ok(in_header);
    }
    let form = std::str::from_utf8(&body).ok().and_then(|form| FormParameters::read([form]).ok());
    let form = form.ok_or_else(|| refused(INVALID_REQUEST, "The form cannot be read"))?;
    let posted = form.one("access_token").map(str::to_owned);
    if form.is_repeated("access_token") || in_header.is_some() && posted.is_some() {
        return Err(refused(INVALID_REQUEST, "The token is sent in more than one way"));
    }
    Ok(in_header.or(posted))
}

fn in_header(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut authorizations = headers.get_all(header::AUTHORIZATION).iter();
    let Some(authorization) = authorizations.next() else { return Ok(None) };
    if authorizations.next().is_some() {
        return Err(refused(INVALID_REQUEST, "The token is sent in more than one way"));
    }
    let text = authorization.to_str().unwrap_or_default();
    let token = text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    Ok(token.map(|(_, token)| token.trim().to_owned()).filter(|token| !token.is_empty()))
}

#[cfg(test)]
mod tests {
    use anteroom_admission::AdmissionError;
    use anteroom_core::Refusal;
    use anteroom_engine::EngineError;

    use super::*;

    fn answer_to(error: OpenIdError) -> (StatusCode, &'static str) {
        let error = token_error(error);
        let code = error.oauth_code();
        (error.into_response().status(), code)
    }

    #[test]
    fn whatever_is_wrong_is_so_with_the_token_unless_we_cannot_tell() {
        let refused = |refusal| OpenIdError::Admission(EngineError::Refused(refusal).into());
        for error in [
            OpenIdError::InvalidToken("x"),
            OpenIdError::InvalidGrant("x"),
            OpenIdError::InvalidRequest("x"),
            refused(Refusal::Moved),
            refused(Refusal::UnknownSession),
            OpenIdError::Admission(AdmissionError::VisitOver),
        ] {
            assert_eq!(answer_to(error.clone()), (StatusCode::UNAUTHORIZED, INVALID_TOKEN), "{error:?}");
        }
        let lost = OpenIdError::Admission(EngineError::Overloaded.into());
        assert_eq!(answer_to(lost), (StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable"));
    }
}
