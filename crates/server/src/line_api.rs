//! The calls by which pages go on, for hosts that no gateway stands before: the line as its visitors see it, the waiting page for
//! sites elsewhere, and the script of pages. The gateway answers them (`anteroom_gateway`); passes and rounds are ours ([`Desk`]).

use std::sync::{Arc, Weak};

use anteroom_core::{RoomId, Ticket};
use anteroom_gateway::client::Peer;
use anteroom_gateway::{Claimed, GatewayBody, HandedPass, PassDesk};
use anteroom_store::engine::Actor;
use async_trait::async_trait;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Request, Response, Uri};

use crate::answer::Answered;
use crate::app::App;
use crate::auction;
use crate::error::ApiError;
use crate::passes::{self, Overrides};
use crate::problem::Problem;
use crate::request::{Parameters, Path};

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
) -> Result<Answered, ApiError> {
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
) -> Result<Answered, ApiError> {
    refuse_what_is_given_twice(&parameters)?;
    Ok(own(app.gateway.answer_elsewhere(&without_body(request), &peer, &room).await))
}

/// Nobody could say which of two addresses or codes was meant.
fn refuse_what_is_given_twice(parameters: &Parameters) -> Result<(), ApiError> {
    for name in ["return", "code"] {
        parameters.one(name)?;
    }
    Ok(())
}

/// GET `/page.js`: what pages do in a browser.
pub(crate) async fn script(State(app): Shared, uri: Uri, headers: HeaderMap) -> Answered {
    app.pages.script(uri.query(), &headers).map(Body::from)
}

/// Nothing of the body is read: forms of these pages have none.
fn without_body(request: Request<Body>) -> Request<()> {
    let (parts, _) = request.into_parts();
    Request::from_parts(parts, ())
}

fn own(response: Response<GatewayBody>) -> Answered {
    let mut answered = response.map(Body::new);
    answered.extensions_mut().insert(ForOwnPages);
    let headers = answered.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answered
}

/// Where the gateway gets passes.
pub(crate) struct Desk(pub(crate) Weak<App>);

#[async_trait]
impl PassDesk for Desk {
    async fn claim(&self, room: &RoomId, ticket: Ticket, wants_pass: bool) -> Claimed {
        let Some(app) = self.0.upgrade() else { return Claimed::Unavailable };
        let Some(room) = app.room(room.as_str()) else { return Claimed::Over };
        let request_id = room.request_ids.seal(&ticket);
        let begun =
            passes::begin(&app, &room, ticket, request_id, Overrides::default(), Actor::Visitor).await;
        let passed = match begun {
            // A visit by cookie may outlive its pass, which then lets nobody in.
            Ok(begun) if begun.expires_in == 0 => return Claimed::Over,
            Ok(_) if !wants_pass => return Claimed::Begun,
            Ok(begun) => passes::sign_begun(&app, &room, begun).await,
            Err(error) => Err(error),
        };
        match passed {
            Ok(pass) => Claimed::Pass(Box::new(HandedPass {
                access_token: pass.tokens.access_token,
                refresh_token: pass.tokens.refresh_token,
                id_token: pass.tokens.id_token,
                expires_in: pass.expires_in,
            })),
            Err(error) if error.is(Problem::NotServed) || error.is(Problem::NoSlot) => Claimed::NotServed,
            Err(error) if error.is(Problem::Moved) => Claimed::Moved,
            Err(error) if error.is(Problem::RoomClosed) => Claimed::Closed,
            Err(error) if error.is(Problem::Unavailable) => Claimed::Unavailable,
            Err(_) => Claimed::Over,
        }
    }

    fn note_presence(&self, room: &RoomId, ticket: &Ticket) {
        if let Some(app) = self.0.upgrade()
            && let Some(room) = app.room(room.as_str())
        {
            auction::note_presence(&app, &room, ticket);
        }
    }
}
