//! The calls by which pages go on, for hosts that no gateway stands before: the line as its visitors see it, the waiting page for
//! sites elsewhere, and the script of pages. The gateway answers them (`anteroom_gateway`).

use std::sync::Arc;

use anteroom_gateway::GatewayBody;
use anteroom_gateway::identify::Peer;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Request, Response, Uri};

use crate::app::App;
use crate::http::error::ApiError;
use crate::http::request::{Parameters, Path};
use crate::http::response::ApiResponse;

type Shared = State<Arc<App>>;

/// Marks an answer that is for pages of its own host only: it depends on a cookie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForOwnPages;

/// `/line` and everything below it.
pub(crate) async fn line(
    State(app): Shared,
    Extension(peer): Extension<Peer>,
    parameters: Parameters,
    request: Request<Body>,
) -> Result<ApiResponse, ApiError> {
    refuse_what_is_given_twice(&parameters)?;
    let room = app.room_or_default(parameters.one("room")?).map(|room| room.handle.id().clone());
    let request = without_body(request);
    Ok(own(app.gateway.answer_about_line(&request, &peer, room.as_ref()).await))
}

/// GET `/wait/{room}`: the waiting page for a site elsewhere. POST `/wait/{room}/enter`: its button.
pub(crate) async fn wait(
    State(app): Shared,
    Extension(peer): Extension<Peer>,
    Path(room): Path<String>,
    parameters: Parameters,
    request: Request<Body>,
) -> Result<ApiResponse, ApiError> {
    refuse_what_is_given_twice(&parameters)?;
    Ok(own(app.gateway.answer_hand_off(&without_body(request), &peer, &room).await))
}

/// Nobody could say which of two addresses or codes was meant.
fn refuse_what_is_given_twice(parameters: &Parameters) -> Result<(), ApiError> {
    for name in ["return", "code"] {
        parameters.one(name)?;
    }
    Ok(())
}

/// GET `/page.js`: what pages do in a browser.
pub(crate) async fn script(State(app): Shared, uri: Uri, headers: HeaderMap) -> ApiResponse {
    app.pages.script(uri.query(), &headers).map(Body::from)
}

/// Nothing of the body is read: forms of these pages have none.
fn without_body(request: Request<Body>) -> Request<()> {
    let (parts, _) = request.into_parts();
    Request::from_parts(parts, ())
}

fn own(response: Response<GatewayBody>) -> ApiResponse {
    let mut answered = response.map(Body::new);
    answered.extensions_mut().insert(ForOwnPages);
    let headers = answered.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answered
}
