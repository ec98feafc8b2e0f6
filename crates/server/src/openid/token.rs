//! `/token`: tokens for a code, and for a refresh token (RFC 6749, sections 4.1.3 and 6). The answer to every mistake is JSON that no
//! cache keeps.

use std::sync::Arc;

use anteroom_admission::openid::{OpenIdClient, OpenIdTokens};
use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use http::header::{self, HeaderValue};
use http::{Request, StatusCode};
use serde_json::json;

use crate::app::{App, ServedRoom};
use crate::http::error::{ApiError, NO_CACHE};
use crate::http::request::read_body;
use crate::http::response::{self, ApiResponse, Caching};
use crate::openid::client_authentication::{CredentialsError, credentials};
use crate::openid::counters::{Endpoint, SERVED};
use crate::openid::error_code::{INVALID_CLIENT, INVALID_REQUEST, INVALID_SCOPE, UNSUPPORTED_GRANT_TYPE};
use crate::openid::parameters::FormParameters;
use crate::openid::{OpenIdRoom, is_form, openid_error, refused};

/// What a client is asked to prove itself by.
const BASIC: HeaderValue = HeaderValue::from_static("Basic realm=\"anteroom\", charset=\"UTF-8\"");

/// POST `/token`.
pub(crate) async fn exchange(
    State(app): State<Arc<App>>,
    room: Result<OpenIdRoom, ApiError>,
    request: Request<Body>,
) -> ApiResponse {
    let room = match room {
        Ok(OpenIdRoom(room)) => room,
        Err(error) => return error.into_response(),
    };
    match answer(&app, &room, request).await {
        Ok(tokens) => {
            app.metrics.openid.count(Endpoint::Token, SERVED);
            token_response(&tokens)
        }
        Err(error) => {
            let code = error.oauth_code();
            app.metrics.openid.count(Endpoint::Token, code);
            tracing::debug!(room = room.handle.id().as_str(), error = code, "openid token request refused");
            error.into_response()
        }
    }
}

async fn answer(app: &App, room: &Arc<ServedRoom>, request: Request<Body>) -> Result<OpenIdTokens, ApiError> {
    let headers = request.headers().clone();
    let body = read_body(request).await?;
    if !is_form(&headers) {
        return Err(refused(INVALID_REQUEST, "The request is not a form"));
    }
    let form = std::str::from_utf8(&body).ok().and_then(|form| FormParameters::read([form]).ok());
    let form = form.ok_or_else(|| refused(INVALID_REQUEST, "The form cannot be read"))?;
    if form.has_repeated() {
        return Err(refused(INVALID_REQUEST, "A parameter is given twice"));
    }
    let client = authenticate(app, room, &headers, &form)?;
    let needed = |name: &str, text| form.one(name).ok_or_else(|| refused(INVALID_REQUEST, text));
    let admission = &app.admission;
    let tokens = match needed("grant_type", "grant_type is missing")? {
        "authorization_code" => {
            let code = needed("code", "code is missing")?;
            let redirect_uri = needed("redirect_uri", "redirect_uri is missing")?;
            let verifier = form.one("code_verifier");
            admission.redeem_openid_code(&room.view, &client, code, redirect_uri, verifier).await
        }
        "refresh_token" => {
            let token = needed("refresh_token", "refresh_token is missing")?;
            if let Some(granted) = admission.openid_scope_of(&room.view, &client, token) {
                check_scope(form.one("scope").unwrap_or_default(), granted)?;
            }
            admission.refresh_openid(&room.view, &client, token).await
        }
        _ => {
            let text = "The grant types are authorization_code and refresh_token";
            return Err(refused(UNSUPPORTED_GRANT_TYPE, text));
        }
    };
    tokens.map_err(openid_error)
}

/// New tokens are for what was granted, or for less (RFC 6749, section 6). The refresh token stays good.
fn check_scope(asked: &str, granted: &str) -> Result<(), ApiError> {
    let is_granted = |scope: &str| granted.split(' ').any(|granted| granted == scope);
    if asked.split(' ').filter(|scope| !scope.is_empty()).all(is_granted) {
        Ok(())
    } else {
        Err(refused(INVALID_SCOPE, "The login was granted less than this scope"))
    }
}

/// The client that asks, if it has proved itself.
fn authenticate(
    app: &App,
    room: &ServedRoom,
    headers: &http::HeaderMap,
    form: &FormParameters,
) -> Result<Arc<OpenIdClient>, ApiError> {
    let unknown = || {
        let text = "The client is not known, or has not proved itself";
        ApiError::oauth(StatusCode::UNAUTHORIZED, INVALID_CLIENT, text)
            .with_header(header::WWW_AUTHENTICATE, BASIC)
    };
    let shown = credentials(headers, form).map_err(|error| match error {
        CredentialsError::Ambiguous => {
            refused(INVALID_REQUEST, "The client proves itself in more than one way")
        }
        CredentialsError::Missing | CredentialsError::Unreadable => unknown(),
    })?;
    let client = app.admission.openid_clients.find(room.handle.id(), &shown.client_id).ok_or_else(unknown)?;
    let now = app.now();
    let is_proved = if shown.secrets.is_empty() {
        client.is_public
    } else {
        !client.is_public & shown.has_secret(|secret| client.accepts_secret(secret, now))
    };
    if is_proved { Ok(client) } else { Err(unknown()) }
}

fn token_response(tokens: &OpenIdTokens) -> ApiResponse {
    let mut body = json!({
        "access_token": tokens.access_token,
        "token_type": "Bearer",
        "expires_in": tokens.expires_in,
        "id_token": tokens.id_token,
        "scope": tokens.scope,
    });
    if let Some(token) = &tokens.refresh_token {
        body["refresh_token"] = token.as_str().into();
    }
    let mut response = response::json(StatusCode::OK, Caching::Never, &body);
    response.headers_mut().insert(header::PRAGMA, NO_CACHE);
    response
}
