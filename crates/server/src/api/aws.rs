//! The AWS API: thirteen calls, answered as clients of Virtual Waiting Room on AWS expect them.
//!
//! Always by `event_id`, never by a default room. Checks come in the order of the contract; a refused call changes nothing.

use std::net::IpAddr;
use std::sync::Arc;

use anteroom_admission::idempotent_joins::JoinKey;
use anteroom_admission::{AdmissionError, ClaimRequest, ClaimTerms, Pass, Proof};
use anteroom_core::settings::{DURATION_MAX_SECONDS, ISSUER_MAX_LENGTH, is_issuer};
use anteroom_core::{
    Answer, Operation, Outcome, RequestId, RoomState, SessionKey, Standing, Ticket, UnixMillis,
};
use anteroom_engine::Actor;
use anteroom_gateway::identify::Peer;
use anteroom_store::StoreError;
use anteroom_tokens::{OpenIdSubject, random, request_id};
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::access::Principal;
use crate::api::idempotency;
use crate::api::visitors::{refuse_where_pages_enter, refuse_where_pages_join};
use crate::app::{App, ServedRoom};
use crate::http::error::ApiError;
use crate::http::fast_path;
use crate::http::prepared::Prepared;
use crate::http::request::{Parameters, WholeNumber, parse_json, read_body, read_json};
use crate::http::response::{ApiResponse, Caching, json, limit_max_age, mark_json};
use crate::openapi::schemas::{IssuerText, RequestIdOrSubject, RequestIdText, RoomName};

type Shared = State<Arc<App>>;
type Outcomes = Result<ApiResponse, ApiError>;

const INVALID_EVENT: &str = "Invalid event ID";
const INVALID_EVENT_OR_REQUEST: &str = "Invalid event or request ID";
const INVALID_REQUEST: &str = "Invalid request ID";

fn ok(caching: Caching, body: &serde_json::Value) -> ApiResponse {
    json(StatusCode::OK, caching, body)
}

fn room(app: &App, event_id: &str, refusal: &str) -> Result<Arc<ServedRoom>, ApiError> {
    app.room(event_id).ok_or_else(|| ApiError::bad_request(refusal))
}

/// The room of a query whose only parameter is the event.
fn queried_room(app: &App, parameters: &Parameters) -> Result<Arc<ServedRoom>, ApiError> {
    room(app, parameters.one("event_id")?.unwrap_or_default(), INVALID_EVENT)
}

/// Room and well-formed request id, or the 400 that AWS gives for either.
fn room_and_id(
    app: &App,
    event_id: &str,
    request_id: &str,
) -> Result<(Arc<ServedRoom>, RequestId), ApiError> {
    let room = room(app, event_id, INVALID_EVENT_OR_REQUEST)?;
    let id = request_id::parse(request_id).ok_or_else(|| ApiError::bad_request(INVALID_EVENT_OR_REQUEST))?;
    Ok((room, id))
}

fn queried_room_and_id(app: &App, parameters: &Parameters) -> Result<(Arc<ServedRoom>, RequestId), ApiError> {
    let event_id = parameters.one("event_id")?.unwrap_or_default();
    let request_id = parameters.one("request_id")?.unwrap_or_default();
    room_and_id(app, event_id, request_id)
}

/// Which line to join.
#[derive(Deserialize, ToSchema)]
pub(crate) struct EventBody {
    /// The room.
    #[schema(value_type = RoomName)]
    event_id: String,
}

/// POST `/assign_queue_num`: a place in line. It is durable, and its number is there, when this is answered.
pub(crate) async fn assign_queue_num(
    State(app): Shared,
    Extension(peer): Extension<Peer>,
    request: Request<Body>,
) -> Outcomes {
    let key = idempotency::key_of(request.headers())?;
    let client = app.client_address(&peer, request.headers());
    let body = read_body(request).await?;
    let mut answer = ApiResponse::new(Body::from(assigned(&app, &body, key, client).await?));
    mark_json(answer.headers_mut(), Caching::Never);
    Ok(answer)
}

/// What it answers, once the request has been read.
pub(crate) async fn assigned(
    app: &App,
    body: &[u8],
    key: Option<JoinKey>,
    client: IpAddr,
) -> Result<Bytes, ApiError> {
    let body: EventBody = parse_json(body)?;
    let room = room(app, &body.event_id, INVALID_EVENT)?;
    refuse_where_pages_join(app, &room.view)?;
    let ticket = room.join(key, client, app.now()).await?;
    let mut text = [0; request_id::TEXT_LENGTH];
    let id = request_id::write_into(room.request_ids.seal(&ticket), &mut text);
    Ok(Bytes::from(format!("{{\"api_request_id\":\"{id}\"}}")))
}

/// GET `/queue_num`: the number of a place, read from the id itself.
pub(crate) async fn queue_num(State(app): Shared, parameters: Parameters) -> Outcomes {
    let (room, id) = queried_room_and_id(&app, &parameters)?;
    // 202 would make clients poll for ever for a place that will never exist.
    let (ticket, _) = room
        .open(id, Proof::Deciphered, app.now())
        .await?
        .ok_or_else(|| ApiError::bad_request(INVALID_EVENT_OR_REQUEST))?;
    let mut answer = ApiResponse::new(Body::from(queue_num_body(&room, &ticket)));
    mark_json(answer.headers_mut(), Caching::Never);
    Ok(answer)
}

/// What `/queue_num` says of a ticket.
pub(crate) fn queue_num_body(room: &ServedRoom, ticket: &Ticket) -> String {
    // A room id needs no escaping: its pattern allows no character that would.
    format!(
        "{{\"queue_number\":{},\"entry_time\":{},\"event_id\":\"{}\",\"status\":1}}",
        ticket.position,
        ticket.entry_time(),
        room.handle.id()
    )
}

/// GET `/serving_num`, when its fast path does not apply.
pub(crate) async fn serving_num(State(app): Shared, parameters: Parameters, headers: HeaderMap) -> Outcomes {
    Ok(fast_path::figure(&*queried_room(&app, &parameters)?, &headers, Prepared::serving_num).map(Body::new))
}

/// GET `/waiting_num`, likewise.
pub(crate) async fn waiting_num(State(app): Shared, parameters: Parameters, headers: HeaderMap) -> Outcomes {
    Ok(fast_path::figure(&*queried_room(&app, &parameters)?, &headers, Prepared::waiting_num).map(Body::new))
}

/// GET `/public_key`: the key that signs the room's passes now. Those who ask may keep it for long, so it is neither the one that will sign
/// later, with which nothing is signed yet, nor the one before, with which nothing is signed any more.
pub(crate) async fn public_key(State(app): Shared, parameters: Parameters) -> Outcomes {
    let event_id = parameters.one("event_id")?.unwrap_or_default();
    let room = app.room(event_id).ok_or_else(|| ApiError::aws(StatusCode::NOT_FOUND, INVALID_EVENT))?;
    let mut answer = ok(Caching::Keys, &app.admission.signing_key(&room).public_jwk());
    if let Some(takeover) = app.admission.next_signing_key_from(&room) {
        limit_max_age(answer.headers_mut(), takeover.since(app.now()) / 1000);
    }
    Ok(answer)
}

/// GET `/.well-known/jwks.json`: every key that a valid pass may be signed with.
pub(crate) async fn jwks(State(app): Shared) -> ApiResponse {
    ok(Caching::Keys, &app.admission.keys.jwks(app.now()))
}

/// GET `/queue_pos_expiry`: how long an offer still stands.
pub(crate) async fn queue_pos_expiry(State(app): Shared, parameters: Parameters) -> Outcomes {
    let (room, id) = queried_room_and_id(&app, &parameters)?;
    let now = app.now();
    let window = room.handle.with_board(|board| board.settings.claim_window_millis());
    let Some(window) = window else {
        return Err(ApiError::aws(StatusCode::ACCEPTED, "Queue position expiration not enabled"));
    };
    let unknown = || ApiError::aws(StatusCode::NOT_FOUND, INVALID_REQUEST);
    let (ticket, board) = room.open(id, Proof::Deciphered, now).await?.ok_or_else(unknown)?;
    let session = app.engine.store().session(room.handle.id(), session_key(&ticket));
    let remaining_millis = match board.standing(&ticket, now) {
        // Only a place that was claimed outlives the closing of its room.
        Standing::Waiting { .. } | Standing::Offered { .. } if board.state == RoomState::Closed => {
            return Err(anteroom_core::Refusal::RoomClosed.into());
        }
        Standing::Waiting { .. } => {
            return Err(ApiError::aws(StatusCode::ACCEPTED, "Request ID not being served yet"));
        }
        Standing::Offered { remaining_millis } => remaining_millis.unwrap_or(window),
        // A claimed place keeps its own clock, whatever became of its neighbours.
        passed @ (Standing::Settled | Standing::Passed) => match session.await? {
            Some(session) => board.remaining_millis(session.offered_at, window, now),
            // An auction passes over those who are absent, and takes them back when they come.
            None if passed == Standing::Passed => {
                return Err(ApiError::aws(StatusCode::ACCEPTED, "Request ID not being served yet"));
            }
            None => 0,
        },
    };
    if remaining_millis == 0 {
        return Err(ApiError::aws(StatusCode::GONE, "Queue position has expired"));
    }
    Ok(ok(Caching::Never, &json!({"expires_in": remaining_millis.div_ceil(1000)})))
}

fn session_key(ticket: &Ticket) -> SessionKey {
    SessionKey { generation: ticket.generation, position: ticket.position }
}

/// Whose place becomes a pass.
#[derive(Deserialize, ToSchema)]
pub(crate) struct ClaimBody {
    /// The room.
    #[schema(value_type = RoomName)]
    event_id: String,
    /// The ticket.
    #[schema(value_type = RequestIdText)]
    request_id: String,
}

/// POST `/generate_token` on the public listener: an offer becomes a pass, the same on every call.
pub(crate) async fn generate_token(State(app): Shared, request: Request<Body>) -> Outcomes {
    let body: ClaimBody = read_json(request).await?;
    let (room, _) = room_and_id(&app, &body.event_id, &body.request_id)?;
    refuse_where_pages_enter(&app, &room.view)?;
    claim(&app, &body, ClaimTerms::default(), Actor::Visitor).await
}

async fn claim(app: &App, body: &ClaimBody, terms: ClaimTerms, actor: Actor) -> Outcomes {
    let (room, id) = room_and_id(app, &body.event_id, &body.request_id)?;
    let unknown = || ApiError::aws(StatusCode::NOT_FOUND, INVALID_REQUEST);
    let (ticket, _) = room.open(id, Proof::Deciphered, app.now()).await?.ok_or_else(unknown)?;
    let is_visitor = actor == Actor::Visitor;
    let claimed = app.admission.claim(&room, ClaimRequest { ticket, request_id: id, terms, actor }).await;
    if is_visitor && claimed.as_ref().is_err_and(AdmissionError::is_not_served) {
        app.admission.note_presence(&room, &ticket);
    }
    let Pass { tokens, expires_in } = claimed?;
    Ok(ok(
        Caching::Never,
        &json!({
            "access_token": tokens.access_token,
            "refresh_token": tokens.refresh_token,
            "id_token": tokens.id_token,
            "token_type": "Bearer",
            "expires_in": expires_in,
        }),
    ))
}

/// Whose place becomes a pass, and which.
#[derive(Deserialize, ToSchema)]
pub(crate) struct PrivateClaimBody {
    #[serde(flatten)]
    claim: ClaimBody,
    /// `iss` of the pass instead of the room's, if it does not exist yet.
    #[schema(value_type = Option<IssuerText>)]
    issuer: Option<String>,
    /// How many seconds it is valid instead of the room's `validity_period`, if it does not exist yet.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 31_536_000)]
    validity_period: Option<WholeNumber>,
}

/// POST `/generate_token` on the private listener: may set issuer and validity of a pass that does not exist yet.
pub(crate) async fn generate_token_private(
    State(app): Shared,
    principal: Principal,
    request: Request<Body>,
) -> Outcomes {
    let body = read_body(request).await?;
    let body: PrivateClaimBody = parse_json(&body)?;
    if body.issuer.as_deref().is_some_and(|issuer| !is_issuer(issuer)) {
        let text = format!("issuer must be 1 to {ISSUER_MAX_LENGTH} visible characters without spaces");
        return Err(ApiError::bad_request(text));
    }
    let validity_seconds = body.validity_period.map(|WholeNumber(seconds)| {
        let seconds =
            u64::try_from(seconds).ok().filter(|seconds| (1..=DURATION_MAX_SECONDS).contains(seconds));
        seconds.ok_or_else(|| {
            ApiError::bad_request(format!("validity_period must be 1 to {DURATION_MAX_SECONDS} seconds"))
        })
    });
    let overrides = ClaimTerms {
        issuer: body.issuer,
        validity_seconds: validity_seconds.transpose()?,
        stay_millis: None,
        prefix: None,
    };
    claim(&app, &body.claim, overrides, principal.actor()).await
}

/// How far the counter moves.
#[derive(Deserialize, ToSchema)]
pub(crate) struct IncrementBody {
    /// The room.
    #[schema(value_type = RoomName)]
    event_id: String,
    /// By how many positions; negative moves it back, at most to the beginning of the line.
    #[schema(value_type = i64)]
    increment_by: WholeNumber,
}

/// POST `/increment_serving_counter`: the operator's hand on the frontier, either way, never below the beginning.
pub(crate) async fn increment_serving_counter(
    State(app): Shared,
    principal: Principal,
    request: Request<Body>,
) -> Outcomes {
    let body: IncrementBody = read_json(request).await?;
    let room = room(&app, &body.event_id, INVALID_EVENT)?;
    let answer =
        room.handle.operate(Operation::Advance { by: body.increment_by.0 }, principal.actor()).await?;
    let Answer::Advanced { serving } = answer else {
        return Err(ApiError::unavailable("The counter did not answer"));
    };
    if body.increment_by.0 > 0 {
        room.note_advance_by_hand(&principal.name);
    }
    Ok(ok(Caching::Never, &json!({"serving_num": serving})))
}

/// GET `/num_active_tokens`: sessions that neither ended nor ran out.
pub(crate) async fn num_active_tokens(State(app): Shared, parameters: Parameters) -> Outcomes {
    let event_id = parameters.one("event_id")?.unwrap_or_default();
    let room = app.room(event_id).ok_or_else(|| ApiError::aws(StatusCode::NOT_FOUND, INVALID_EVENT))?;
    let active = room.handle.with_board(|board| board.live_sessions);
    Ok(ok(Caching::Never, &json!({"active_tokens": active})))
}

/// GET `/expired_tokens`: ids whose pass has run out, from the index by end.
pub(crate) async fn expired_tokens(State(app): Shared, parameters: Parameters) -> Outcomes {
    let room = queried_room(&app, &parameters)?;
    let board = room.handle.board();
    let generations: Vec<_> = board.segments.iter().map(|segment| segment.generation).collect();
    let before = UnixMillis(app.now().seconds() * 1000);
    // The list may be long, so it is read and written out where a wait hurts nobody.
    let runtime = tokio::runtime::Handle::current();
    let written = tokio::task::spawn_blocking(move || {
        let expired =
            runtime.block_on(app.engine.store().expired_passes(room.handle.id(), &generations, before))?;
        let ids: Vec<String> =
            expired.into_iter().map(|id| format!("\"{}\"", request_id::format(id))).collect();
        Ok::<_, StoreError>(format!("[{}]", ids.join(",")))
    });
    let text = written.await.map_err(|_| ApiError::unavailable("The list could not be made"))??;
    let mut answer = ApiResponse::new(Body::from(text));
    mark_json(answer.headers_mut(), Caching::Never);
    Ok(answer)
}

/// Whose visit is over, and how it ended.
#[derive(Deserialize, ToSchema)]
pub(crate) struct UpdateBody {
    /// The room.
    #[schema(value_type = RoomName)]
    event_id: String,
    /// The ticket of the visitor, or the subject (`sub`) that a client of the OpenID provider knows them by.
    #[schema(value_type = RequestIdOrSubject)]
    request_id: String,
    /// 1: completed; -1: abandoned.
    #[schema(value_type = crate::openapi::schemas::VisitOutcome)]
    status: WholeNumber,
}

/// POST `/update_session`: a visit is over.
pub(crate) async fn update_session(
    State(app): Shared,
    principal: Principal,
    request: Request<Body>,
) -> Outcomes {
    let body: UpdateBody = read_json(request).await?;
    let room = room(&app, &body.event_id, INVALID_EVENT_OR_REQUEST)?;
    let id = request_id::parse(&body.request_id);
    if id.is_none() && OpenIdSubject::parse(&body.request_id).is_none() {
        return Err(ApiError::bad_request(INVALID_EVENT_OR_REQUEST));
    }
    let outcome = match body.status.0 {
        1 => Outcome::Completed,
        -1 => Outcome::Abandoned,
        _ => {
            return Err(ApiError::bad_request("status must be 1 (completed) or -1 (abandoned)"));
        }
    };
    let unknown = || ApiError::from(anteroom_core::Refusal::UnknownSession);
    let ticket = match id {
        Some(id) => room.open(id, Proof::Deciphered, app.now()).await?.map(|(ticket, _)| ticket),
        None => app.admission.find_subject(&room, &body.request_id).await?,
    };
    let key = session_key(&ticket.ok_or_else(unknown)?);
    room.handle.operate(Operation::Close { key, outcome }, principal.actor()).await?;
    Ok(ok(Caching::Never, &json!({})))
}

/// Which line is thrown away.
#[derive(Deserialize, ToSchema)]
pub(crate) struct ResetBody {
    /// The room, if the query does not name it.
    #[schema(value_type = Option<RoomName>)]
    event_id: Option<String>,
}

/// POST `/reset_initial_state`: a new line, at once and as a whole. The event comes in the body or in the query.
pub(crate) async fn reset_initial_state(
    State(app): Shared,
    principal: Principal,
    parameters: Parameters,
    request: Request<Body>,
) -> Outcomes {
    let queried = parameters.one("event_id")?.map(str::to_owned);
    let body = read_body(request).await?;
    let in_body = if body.trim_ascii().is_empty() { None } else { parse_json::<ResetBody>(&body)?.event_id };
    if let (Some(queried), Some(in_body)) = (&queried, &in_body)
        && queried != in_body
    {
        return Err(ApiError::bad_request("event_id in the query and in the body differ"));
    }
    let event_id = in_body.or(queried).unwrap_or_default();
    let room = room(&app, &event_id, INVALID_EVENT)?;
    let [incarnation] = random::bytes::<1>();
    room.handle.operate(Operation::Reset { incarnation }, principal.actor()).await?;
    Ok(ok(Caching::Never, &json!({"message": "Counters reset. DynamoDB table recreated."})))
}
