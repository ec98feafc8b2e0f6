//! `/authorize`: where a site sends its visitors to log in.
//!
//! *Invariant:* nobody is redirected to an address that the client has not registered. A request whose client or redirect address is
//! not known ends in a page; every other mistake is told to the client, with `state` and `iss` (RFC 9207).

use std::sync::Arc;

use anteroom_admission::openid::{CodeRequest, OpenIdClient};
use anteroom_engine::EngineError;
use anteroom_gateway::identify::Peer;
use anteroom_gateway::{ExpectedVisitor, GatewayBody, OpenIdEnd, OpenIdLogin, OpenIdStep};
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{self, HeaderValue};
use http::{Request, Response, StatusCode};

use crate::app::{App, ServedRoom};
use crate::http::error::ApiError;
use crate::http::request::read_body;
use crate::http::response::ApiResponse;
use crate::openid::authorization_request::{
    AUTHORIZE_QUERY_MAX_BYTES, AuthorizationRequest, RequestError, STATE_MAX_BYTES,
};
use crate::openid::counters::{Endpoint, REFUSED_BY_PAGE, SERVED};
use crate::openid::error_code::{ACCESS_DENIED, LOGIN_REQUIRED, SERVER_ERROR, TEMPORARILY_UNAVAILABLE};
use crate::openid::parameters::FormParameters;
use crate::openid::redirect::with_parameters;
use crate::openid::{OpenIdRoom, is_form};

/// No page of any site shows a page of a login in a frame.
const FRAMES_NONE: &str = "frame-ancestors 'none'";

type Shared = State<Arc<App>>;
type Found = Result<OpenIdRoom, ApiError>;

/// GET `/authorize`.
pub(crate) async fn page(
    State(app): Shared,
    Extension(peer): Extension<Peer>,
    room: Found,
    request: Request<Body>,
) -> ApiResponse {
    answer(&app, &peer, room, request, OpenIdStep::Page).await
}

/// POST `/rooms/{id}/authorize/enter`: the button, at the turn or to confirm.
pub(crate) async fn enter(
    State(app): Shared,
    Extension(peer): Extension<Peer>,
    room: Found,
    request: Request<Body>,
) -> ApiResponse {
    answer(&app, &peer, room, request, OpenIdStep::Enter).await
}

/// POST `/rooms/{id}/authorize/join`: another place.
pub(crate) async fn join(
    State(app): Shared,
    Extension(peer): Extension<Peer>,
    room: Found,
    request: Request<Body>,
) -> ApiResponse {
    answer(&app, &peer, room, request, OpenIdStep::Join).await
}

/// POST `/rooms/{id}/authorize/leave`: gives the place up.
pub(crate) async fn leave(
    State(app): Shared,
    Extension(peer): Extension<Peer>,
    room: Found,
    request: Request<Body>,
) -> ApiResponse {
    answer(&app, &peer, room, request, OpenIdStep::Leave).await
}

/// POST `/authorize`: the same request as a form. The browser is told to fetch the page, so that a visitor can wait at it.
pub(crate) async fn posted(
    State(app): Shared,
    room: Found,
    request: Request<Body>,
) -> Result<ApiResponse, ApiError> {
    let (parts, body) = request.into_parts();
    let call = AuthorizeCall { app: &app, request: Request::from_parts(parts.clone(), ()) };
    let Ok(OpenIdRoom(room)) = room else { return Ok(call.refuse(None, NO_ROOM)) };
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let is_form = is_form(&parts.headers);
    let body = read_body(Request::from_parts(parts, body)).await?;
    if !is_form {
        return Ok(call.refuse(Some(&room), (StatusCode::BAD_REQUEST, "The request is not a form")));
    }
    let form = std::str::from_utf8(&body).unwrap_or("%ff");
    let parameters = match FormParameters::read([query.as_str(), form]) {
        Ok(parameters) => parameters,
        Err(error) => return Ok(call.refuse(Some(&room), (StatusCode::BAD_REQUEST, error.text()))),
    };
    let query = parameters.to_query();
    if query.len() > AUTHORIZE_QUERY_MAX_BYTES {
        return Ok(call.refuse(Some(&room), TOO_LONG));
    }
    if let Err(refusal) = call.asking_client(&room, &parameters) {
        return Ok(call.refuse(Some(&room), refusal));
    }
    Ok(see_other(&format!("/.anteroom/rooms/{}/authorize?{query}", room.handle.id())))
}

/// GET `/rooms/{id}/authorize/moved`: where a device goes on that has taken a place. The request of the site is in the other browser; so
/// the login begins anew here, with the place.
pub(crate) async fn moved(State(app): Shared, room: Found, request: Request<Body>) -> ApiResponse {
    let call = AuthorizeCall { app: &app, request: without_body(request) };
    let Ok(OpenIdRoom(room)) = room else { return call.refuse(None, NO_ROOM) };
    let parameters = FormParameters::read(call.request.uri().query());
    let client_id = parameters.as_ref().ok().and_then(|parameters| parameters.one("client_id"));
    let client = client_id.and_then(|id| app.admission.openid_clients.find(room.handle.id(), id));
    let Some(client) = client else { return call.refuse(Some(&room), NO_CLIENT) };
    match &client.login_address {
        Some(address) => {
            let issuer = app.admission.openid_issuer(&room.view);
            see_other(&with_parameters(address, &[("iss", &issuer)]))
        }
        None => guarded_page(app.gateway.moved_openid_page(&call.request, room.handle.id(), &client.name)),
    }
}

/// What a page says with its status.
type Refusal = (StatusCode, &'static str);

const NO_ROOM: Refusal = (StatusCode::NOT_FOUND, "There is no room of this name, or no default room");
const NO_CLIENT: Refusal = (StatusCode::BAD_REQUEST, "This room has no client of this client_id");
const TWICE: Refusal = (StatusCode::BAD_REQUEST, "client_id or redirect_uri is given twice");
const NO_ADDRESS: Refusal = (StatusCode::BAD_REQUEST, "redirect_uri is missing");
const OTHER_ADDRESS: Refusal = (
    StatusCode::BAD_REQUEST,
    "redirect_uri is none of the addresses of this client; they are compared character by character",
);
const TOO_LONG: Refusal = (StatusCode::BAD_REQUEST, "The request is too long");
const STATE_TOO_LONG: Refusal = (StatusCode::BAD_REQUEST, "state is longer than 4096 bytes");

async fn answer(
    app: &Arc<App>,
    peer: &Peer,
    room: Found,
    request: Request<Body>,
    step: OpenIdStep,
) -> ApiResponse {
    let call = AuthorizeCall { app, request: without_body(request) };
    let Ok(OpenIdRoom(room)) = room else { return call.refuse(None, NO_ROOM) };
    let parameters = match call.parameters() {
        Ok(parameters) => parameters,
        Err(refusal) => return call.refuse(Some(&room), refusal),
    };
    let asking_client = match call.asking_client(&room, &parameters) {
        Ok(asking_client) => asking_client,
        Err(refusal) => return call.refuse(Some(&room), refusal),
    };
    let login = match AuthorizationRequest::read(&parameters, asking_client.client.is_public) {
        Ok(login) => login,
        Err(error) => return see_other(&asking_client.error(&error)),
    };
    let Ok(expected_visitor) = asking_client.expected_visitor(&login).await else {
        return see_other(&asking_client.end(&login, OpenIdEnd::TemporarilyUnavailable));
    };
    let answer = |end| asking_client.end(&login, end);
    let query = parameters.to_query();
    let login = OpenIdLogin {
        step,
        query: &query,
        client_id: &asking_client.client.id,
        site: &asking_client.client.name,
        languages: login.ui_locales.as_deref(),
        is_silent: login.is_silent,
        expected_visitor,
        asks_again: login.asks_again,
        max_age_seconds: login.max_age_seconds,
        answer: &answer,
    };
    let mut response =
        guarded_page(app.gateway.answer_openid(&call.request, peer, room.handle.id(), &login).await);
    let_buttons_say_whose_they_are(&mut response);
    let_buttons_lead_to(&asking_client.redirect_uri, &mut response);
    response
}

/// A request at `/authorize`.
struct AuthorizeCall<'app> {
    app: &'app Arc<App>,
    request: Request<()>,
}

impl<'app> AuthorizeCall<'app> {
    /// The parameters of the query. It may be longer as the page's buttons post it than as it came, and is then refused now and not after
    /// the wait.
    fn parameters(&self) -> Result<FormParameters, Refusal> {
        let query = self.request.uri().query().unwrap_or_default();
        if query.len() > AUTHORIZE_QUERY_MAX_BYTES {
            return Err(TOO_LONG);
        }
        let parameters =
            FormParameters::read([query]).map_err(|error| (StatusCode::BAD_REQUEST, error.text()))?;
        let is_too_long = parameters.to_query().len() > AUTHORIZE_QUERY_MAX_BYTES;
        if is_too_long { Err(TOO_LONG) } else { Ok(parameters) }
    }

    /// Who asks, as far as it takes to know where to answer.
    fn asking_client(
        &self,
        room: &Arc<ServedRoom>,
        parameters: &FormParameters,
    ) -> Result<AskingClient<'app>, Refusal> {
        if parameters.is_repeated("client_id") || parameters.is_repeated("redirect_uri") {
            return Err(TWICE);
        }
        let client = parameters.one("client_id");
        let client = client.and_then(|id| self.app.admission.openid_clients.find(room.handle.id(), id));
        let client = client.ok_or(NO_CLIENT)?;
        let redirect_uri = parameters.one("redirect_uri").ok_or(NO_ADDRESS)?.to_owned();
        if !client.accepts_redirect(&redirect_uri) {
            return Err(OTHER_ADDRESS);
        }
        if parameters.first("state").is_some_and(|state| state.len() > STATE_MAX_BYTES) {
            return Err(STATE_TOO_LONG);
        }
        let state = parameters.one("state").map(str::to_owned);
        Ok(AskingClient { app: self.app, room: Arc::clone(room), client, redirect_uri, state })
    }

    /// The page for a visitor who is sent nowhere.
    fn refuse(&self, room: Option<&Arc<ServedRoom>>, (status, text): Refusal) -> ApiResponse {
        self.app.metrics.openid.count(Endpoint::Authorize, REFUSED_BY_PAGE);
        let room = room.map(|room| room.handle.id());
        guarded_page(self.app.gateway.refuse_openid(&self.request, room, status, text))
    }
}

/// The client that asks, and where it is answered.
struct AskingClient<'app> {
    app: &'app Arc<App>,
    room: Arc<ServedRoom>,
    client: Arc<OpenIdClient>,
    redirect_uri: String,
    state: Option<String>,
}

impl AskingClient<'_> {
    fn address(&self, parameters: &[(&str, &str)]) -> String {
        let issuer = self.app.admission.openid_issuer(&self.room.view);
        let state = self.state.as_deref().map(|state| ("state", state));
        let mut all = parameters.to_vec();
        all.extend(state);
        all.push(("iss", &issuer));
        with_parameters(&self.redirect_uri, &all)
    }

    fn error(&self, error: &RequestError) -> String {
        self.app.metrics.openid.count(Endpoint::Authorize, error.code);
        tracing::debug!(
            room = self.room.handle.id().as_str(),
            error = error.code,
            "openid login ended with an error"
        );
        self.address(&[("error", error.code), ("error_description", error.text)])
    }

    /// The address that a login ends at.
    fn end(&self, login: &AuthorizationRequest, end: OpenIdEnd) -> String {
        let error = |code, text| self.error(&RequestError { code, text });
        match end {
            OpenIdEnd::Inside { ticket, auth_time_seconds } => {
                self.app.metrics.openid.count(Endpoint::Authorize, SERVED);
                let code = self.app.admission.openid_code(
                    &self.room.view,
                    CodeRequest {
                        client: &self.client,
                        ticket,
                        redirect_uri: &self.redirect_uri,
                        code_challenge: login.code_challenge,
                        nonce: login.nonce.as_deref(),
                        auth_time_seconds,
                        offline_access: login.offline_access,
                    },
                );
                self.address(&[("code", &code)])
            }
            OpenIdEnd::LoginRequired => {
                error(LOGIN_REQUIRED, "The visitor is not inside, or not the one of the id_token_hint")
            }
            OpenIdEnd::AccessDenied => {
                error(ACCESS_DENIED, "The visitor has left the line, or the room lets nobody in")
            }
            OpenIdEnd::TemporarilyUnavailable => {
                error(TEMPORARILY_UNAVAILABLE, "The line cannot be reached just now")
            }
        }
    }

    /// Whom a silent login is for, by a token that the client got before. It only narrows, so its signature does not matter.
    ///
    /// A login with a page takes any visitor: a site that always sends its last token would else refuse its visitors each time
    /// that they have waited again, because another place is another subject.
    async fn expected_visitor(&self, login: &AuthorizationRequest) -> Result<ExpectedVisitor, EngineError> {
        let Some(hint) = login.id_token_hint.as_deref().filter(|_| login.is_silent) else {
            return Ok(ExpectedVisitor::Anyone);
        };
        let Some(subject) = subject_of(hint) else { return Ok(ExpectedVisitor::Stranger) };
        let found = self.app.admission.find_subject(&self.room.view, &subject).await?;
        Ok(found.map_or(ExpectedVisitor::Stranger, ExpectedVisitor::HolderOf))
    }
}

/// The subject of an ID token; its signature is not looked at.
fn subject_of(id_token: &str) -> Option<String> {
    let payload = URL_SAFE_NO_PAD.decode(id_token.split('.').nth(1)?).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&payload).ok()?;
    claims["sub"].as_str().map(str::to_owned)
}

/// A redirect as RFC 9700 wants it: 303, so that nothing is posted on.
fn see_other(address: &str) -> ApiResponse {
    let Ok(location) = HeaderValue::try_from(address) else {
        // Addresses are checked when they are registered, and everything that is added to them is escaped.
        let error =
            ApiError::oauth(StatusCode::INTERNAL_SERVER_ERROR, SERVER_ERROR, "This address cannot be sent");
        return axum::response::IntoResponse::into_response(error);
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(header::LOCATION, location);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    guarded(response)
}

fn guarded_page(response: Response<GatewayBody>) -> ApiResponse {
    guarded(response.map(Body::new))
}

/// Keeps what stands in the address of a login from other sites, and its page out of their frames.
pub(crate) fn guarded(mut response: ApiResponse) -> ApiResponse {
    let is_redirect = response.status() == StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // A silent login is answered in a hidden frame of the site, by a redirect.
    if !is_redirect {
        let policy = headers.get(header::CONTENT_SECURITY_POLICY).and_then(|policy| policy.to_str().ok());
        let policy = policy.map_or_else(
            || FRAMES_NONE.to_owned(),
            |policy| policy.replace("frame-ancestors 'self'", FRAMES_NONE),
        );
        if let Ok(policy) = HeaderValue::try_from(policy) {
            headers.insert(header::CONTENT_SECURITY_POLICY, policy);
        }
        headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    }
    response
}

/// With `no-referrer` a browser posts the buttons of a page with `Origin: null`, and one that says no `Sec-Fetch-Site` (every browser
/// in clear, old ones always) would be refused as another site's. Other sites learn of the address by this policy as little.
fn let_buttons_say_whose_they_are(response: &mut ApiResponse) {
    if response.status() != StatusCode::SEE_OTHER {
        response.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    }
}

/// Browsers hold the redirect that follows a button to the page's policy, which names the schemes of the web only; an app has its own.
fn let_buttons_lead_to(address: &str, response: &mut ApiResponse) {
    const WEB: &str = "form-action 'self' https: http:";
    let scheme = address.split(':').next().unwrap_or_default();
    let headers = response.headers_mut();
    let policy = headers.get(header::CONTENT_SECURITY_POLICY).and_then(|policy| policy.to_str().ok());
    let policy = policy.map(|policy| policy.replace(WEB, &format!("{WEB} {scheme}:")));
    if !matches!(scheme, "https" | "http")
        && let Some(policy) = policy.and_then(|policy| HeaderValue::try_from(policy).ok())
    {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
}

fn without_body(request: Request<Body>) -> Request<()> {
    let (parts, _) = request.into_parts();
    Request::from_parts(parts, ())
}
