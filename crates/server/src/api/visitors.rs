//! Our own API for visitors: join, status, claim, move, leave, refresh, and the room's figures.
//!
//! A ticket is presented in `Authorization`, with or without `Bearer `, in either of its written forms: the ticket token, which
//! names its room, or the request id.

pub(crate) mod answers;

use std::net::IpAddr;
use std::sync::Arc;

use anteroom_admission::idempotent_joins::JoinKey;
use anteroom_admission::{AdmissionError, ClaimRequest, Pass, PresentedTicket, RoomView, auction};
use anteroom_core::{Answer, Mover, Operation};
use anteroom_engine::Actor;
use anteroom_gateway::identify::Peer;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use http::{HeaderMap, Request, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use self::answers::{admitted_answer, ticket_answer};
use crate::api::idempotency;
use crate::api::ticket_request::{
    TicketBody, named_in, presented_anywhere, presented_in, presented_text, the_same_room, ticket_missing,
};
use crate::api::ticket_status::{TicketState, state_from_board, state_from_room, ticket_state};
use crate::app::App;
use crate::http::error::ApiError;
use crate::http::fast_path;
use crate::http::prepared::Prepared;
use crate::http::problem::Problem;
use crate::http::request::{Parameters, Path, parse_json, read_body, read_optional_json};
use crate::http::response::{self, ApiResponse, Caching};
use crate::openapi::schemas::{Jwt, RoomName};

type Shared = State<Arc<App>>;
type Outcome = Result<ApiResponse, ApiError>;

/// Which line to join.
#[derive(Deserialize, Default, ToSchema)]
pub(crate) struct RoomBody {
    /// The room; the default room if it is not named.
    #[schema(value_type = Option<RoomName>)]
    room: Option<String>,
}

/// POST `/join`: a place in line, durable when this is answered; where it is served at once, with its pass unless `join_claims` is off.
pub(crate) async fn join(
    State(app): Shared,
    Extension(peer): Extension<Peer>,
    parameters: Parameters,
    request: Request<Body>,
) -> Outcome {
    let key = idempotency::key_of(request.headers())?;
    let client = app.client_address(&peer, request.headers());
    let queried = parameters.one("room")?.map(str::to_owned);
    let body = read_body(request).await?;
    join_with(&app, queried, &body, (key, client)).await
}

/// The same, once the request has been read.
pub(crate) async fn join_with(
    app: &App,
    queried: Option<String>,
    body: &[u8],
    (key, client): (Option<JoinKey>, IpAddr),
) -> Outcome {
    let in_body = if body.trim_ascii().is_empty() { None } else { parse_json::<RoomBody>(body)?.room };
    let room = app.admission.named_room(the_same_room(queried, in_body)?.as_deref())?;
    refuse_where_pages_join(app, &room)?;
    let ticket = room.join(key, client, app.now()).await?;
    let mut presented = PresentedTicket::of_new(room, ticket);
    let waiting = state_from_board(app, &presented);
    let claims = presented.board.settings.join_claims;
    let gets_in = || claims && auction::may_get_in(&presented.board, &ticket, app.now());
    if let Some(state) = waiting.filter(|_| !gets_in()) {
        return Ok(ok(&ticket_answer(app, &presented, state).of_join()));
    }
    match if claims { Some(claim_presented(app, &mut presented).await) } else { None } {
        Some(Ok(pass)) => return Ok(ok(&admitted_answer(app, &presented, pass).of_join())),
        // Its holder polls, and claims when they read that they may.
        None => {}
        // Between the join and the claim the room was paused, or the frontier was moved back. Or the pass could not be made now: the
        // place is taken, so its ticket must be answered, because a client without one would join again. `/claim` makes the pass.
        Some(Err(error)) if error.is_not_served() || error.is_unavailable() => presented.refresh_board(),
        Some(Err(error)) => return Err(error.into()),
    }
    let state = state_from_room(app, &presented).await;
    let state = state.unwrap_or(TicketState::Active { remaining_millis: None });
    Ok(ok(&ticket_answer(app, &presented, state).of_join()))
}

/// Refuses a join by the API in a room where visitors join by opening a page.
pub(crate) fn refuse_where_pages_join(app: &App, room: &RoomView) -> Result<(), ApiError> {
    let Some(way) = app.gateway.way_to_join(room) else { return Ok(()) };
    let text =
        format!("In this room a place is taken by opening a page in a browser that keeps cookies, by {way}");
    Err(ApiError::problem(Problem::JoinByPage, text))
}

/// Refuses a claim by the API in a room where visitors come in by opening a page: a pass would hold a slot for longer than
/// the visit.
pub(crate) fn refuse_where_pages_enter(app: &App, room: &RoomView) -> Result<(), ApiError> {
    if app.gateway.enters_by_page(room) {
        let text = "In this room visitors come in by opening a page, and by no pass";
        return Err(ApiError::problem(Problem::JoinByPage, text));
    }
    Ok(())
}

/// Claims the place of a ticket that is served.
async fn claim_presented(app: &App, presented: &mut PresentedTicket) -> Result<Pass, AdmissionError> {
    let PresentedTicket { room, ticket, request_id, .. } = &*presented;
    let claim = app.admission.claim(room, ClaimRequest::of_visitor(*ticket, *request_id));
    let pass = claim.await?;
    presented.refresh_board();
    Ok(pass)
}

fn ok(body: &impl Serialize) -> ApiResponse {
    response::serialized(StatusCode::OK, Caching::Never, body)
}

/// GET `/status`, when its fast path does not apply.
pub(crate) async fn status(State(app): Shared, parameters: Parameters, headers: HeaderMap) -> Outcome {
    let text = presented_text(&headers).ok_or_else(ticket_missing)?;
    let presented = app.admission.open_ticket(parameters.one("room")?, text).await?;
    let state = ticket_state(&app, &presented).await?;
    Ok(ok(&ticket_answer(&app, &presented, state)))
}

/// What `/status` tells, if the board alone can.
pub(crate) fn status_from_board(app: &App, room: Option<&str>, text: &str) -> Option<Vec<u8>> {
    let presented = app.admission.open_known_ticket(room, text)?;
    let state = state_from_board(app, &presented)?;
    serde_json::to_vec(&ticket_answer(app, &presented, state)).ok()
}

/// Who claims: the holder of a ticket, or a site to which a visitor brought a code.
#[derive(Deserialize, Default, ToSchema)]
pub(crate) struct ClaimBody {
    /// The code that came with a visitor from `/wait/{room}`, good once and for a minute. No ticket is needed then. Name the `room` with it:
    /// a code of another room is refused then.
    #[schema(value_type = Option<String>, max_length = 256)]
    code: Option<String>,
    #[serde(flatten)]
    ticket: TicketBody,
}

enum Claimant {
    Ticket(PresentedTicket),
    Code { code: String, room: Option<String> },
}

async fn claimant(app: &App, parameters: &Parameters, request: Request<Body>) -> Result<Claimant, ApiError> {
    let in_header = presented_text(request.headers()).map(str::to_owned);
    let body: ClaimBody = read_optional_json(request).await?;
    match body.code {
        Some(code) => {
            let queried = parameters.one("room")?.map(str::to_owned);
            Ok(Claimant::Code { code, room: the_same_room(queried, body.ticket.room)? })
        }
        None => presented_in(app, parameters, in_header, body.ticket).await.map(Claimant::Ticket),
    }
}

/// POST `/claim`: an offer becomes a pass, the same on every call.
pub(crate) async fn claim(State(app): Shared, parameters: Parameters, request: Request<Body>) -> Outcome {
    let mut presented = match claimant(&app, &parameters, request).await? {
        Claimant::Ticket(presented) => presented,
        Claimant::Code { code, room } => {
            let (presented, pass) = app.admission.redeem(&code, room.as_deref()).await?;
            app.gateway.note_code_exchanged(presented.room.handle.id());
            return Ok(ok(&admitted_answer(&app, &presented, pass)));
        }
    };
    refuse_where_pages_enter(&app, &presented.room)?;
    let claimed = claim_presented(&app, &mut presented).await;
    if claimed.as_ref().is_err_and(AdmissionError::is_not_served) {
        app.admission.note_presence(&presented.room, &presented.ticket);
    }
    let pass = claimed?;
    Ok(ok(&admitted_answer(&app, &presented, pass)))
}

/// POST `/move`: the place goes on under a new ticket, for another device. The old one is worth nothing any more, except that a
/// repeated call with the same `Idempotency-Key` gets the same new one again.
pub(crate) async fn move_place(
    State(app): Shared,
    parameters: Parameters,
    request: Request<Body>,
) -> Outcome {
    let by = idempotency::key_of(request.headers())?.map_or(Mover::UNNAMED, |key| Mover::of_digest(&key));
    let in_header = presented_text(request.headers()).map(str::to_owned);
    let (room, text) = named_in(&parameters, in_header, read_optional_json(request).await?)?;
    // Whether the place has moved, and by whom, is for the room to say.
    let presented = app.admission.find_ticket(room.as_deref(), &text).await?;
    let operation = Operation::Move { ticket: presented.ticket, by };
    let answer = presented.room.handle.operate(operation, Actor::Visitor).await?;
    let Answer::Moved { ticket, is_repeated } = answer else {
        return Err(ApiError::unavailable("The room did not answer"));
    };
    if !is_repeated {
        app.gateway.note_moved(presented.room.handle.id());
    }
    let presented = PresentedTicket::of_new(presented.room, ticket);
    let state = ticket_state(&app, &presented).await?;
    Ok(ok(&ticket_answer(&app, &presented, state)))
}

/// POST `/leave`: gives the place up, or ends the visit.
pub(crate) async fn leave(State(app): Shared, parameters: Parameters, request: Request<Body>) -> Outcome {
    let presented = presented_anywhere(&app, &parameters, request).await?;
    let leave = Operation::Leave { ticket: presented.ticket };
    presented.room.handle.operate(leave, Actor::Visitor).await?;
    Ok(ok(&json!({"status": "left"})))
}

/// The pass to renew.
#[derive(Deserialize, ToSchema)]
pub(crate) struct RefreshBody {
    /// The refresh token of the pass.
    #[schema(value_type = Jwt)]
    refresh_token: String,
}

/// POST `/refresh`: a new access token for the refresh token, while the session lives.
pub(crate) async fn refresh(State(app): Shared, request: Request<Body>) -> Outcome {
    let body: RefreshBody = parse_json(&read_body(request).await?)?;
    let refreshed = app.admission.refresh(&body.refresh_token).await?;
    Ok(ok(&json!({
        "access_token": refreshed.access_token,
        "token_type": "Bearer",
        "expires_in": refreshed.expires_in,
    })))
}

/// GET `/rooms/{id}` on the public listener, when its fast path does not apply.
pub(crate) async fn figures(State(app): Shared, Path(id): Path<String>, headers: HeaderMap) -> Outcome {
    let room = app.named_room(Some(&id))?;
    match app.freshness().stale_seconds() {
        None => Ok(fast_path::figure(&room, &headers, Prepared::figures).map(Body::new)),
        Some(seconds) => {
            let mut answer = ApiResponse::new(Body::from(room.prepared().stale_figures(seconds)));
            response::mark_json(answer.headers_mut(), Caching::Never);
            Ok(answer)
        }
    }
}
