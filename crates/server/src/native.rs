//! Our own API for visitors: join, status, claim, leave, refresh, and the room's figures.
//!
//! A ticket is shown in `Authorization`, with or without `Bearer `, in either of its written forms: the ticket token, which
//! names its room, or the request id. A waiting ticket is answered from the board alone; one within the frontier costs one
//! look-up in its room, remembered for a second.

use std::sync::Arc;

use anteroom_core::estimate::next_poll_seconds;
use anteroom_core::{
    Answer, Board, Mover, Operation, Place, Refusal, RequestId, RoomState, Session, SessionKey, Standing,
    Ticket,
};
use anteroom_store::EngineError;
use anteroom_store::engine::Actor;
use anteroom_tokens::{Code, request_id, ticket_token};
use axum::body::Body;
use axum::extract::State;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::answer::{self, Answered, Caching};
use crate::app::{App, RoomView};
use crate::auction;
use crate::error::ApiError;
use crate::hot;
use crate::idempotency;
use crate::openapi::schemas::{
    Generation, Jwt, RequestIdText, RoomName, TicketStatus, TicketText, TokenType, WebAddressText,
};
use crate::passes::{self, Overrides, Pass};
use crate::prepared::Prepared;
use crate::problem::Problem;
use crate::request::{Parameters, Path, parse_json, read_body, read_optional_json};
use crate::tickets::Proof;

type Shared = State<Arc<App>>;
type Outcome = Result<Answered, ApiError>;

/// A ticket, and where it stands.
// The order of the fields is the order in which they are told.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Ticket)]
pub(crate) struct TicketAnswer<'room> {
    /// The ticket token: shown in `Authorization` from now on.
    #[schema(value_type = Jwt)]
    pub(crate) ticket: String,
    /// The same ticket in its short form, as the AWS calls take it.
    #[schema(value_type = RequestIdText)]
    pub(crate) request_id: String,
    /// The room whose line it is in.
    #[schema(value_type = RoomName)]
    pub(crate) room: &'room str,
    /// Which line of the room: a reset begins a new one.
    #[schema(value_type = Generation)]
    pub(crate) generation: u64,
    /// Its number in line: 1, 2, 3, … in order of arrival.
    pub(crate) position: u64,
    /// The last position that is being served.
    pub(crate) serving: u64,
    /// How many people stand before it.
    pub(crate) people_ahead: u64,
    /// Where it stands.
    #[schema(value_type = TicketStatus)]
    pub(crate) status: &'static str,
    /// How long it will probably wait; null while that is not known.
    #[schema(required)]
    pub(crate) estimated_wait_seconds: Option<u64>,
    /// How long it will wait at most in nine cases of ten; null while that is not known.
    #[schema(required)]
    pub(crate) estimated_wait_p90_seconds: Option<u64>,
    /// When to ask again.
    pub(crate) next_poll_seconds: u64,
    /// Told while the place may be claimed: how long that stays so; null if for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub(crate) claim_expires_in_seconds: Option<ClaimExpiry>,
    /// Told only while the server has lost its store: how many seconds ago all this was known to be so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stale_seconds: Option<u64>,
}

/// How long an offer still stands; null if for ever.
#[derive(Debug, Serialize)]
pub(crate) struct ClaimExpiry(pub(crate) Option<u64>);

/// A pass: what the protected site lets its holder in with.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Pass)]
pub(crate) struct PassAnswer {
    /// Shown to the protected site, which checks it against `/.well-known/jwks.json`.
    #[schema(value_type = Jwt)]
    pub(crate) access_token: String,
    /// Exchanged at `/refresh` for a new access token.
    #[schema(value_type = Jwt)]
    pub(crate) refresh_token: String,
    /// Who was let in, for clients that log people in.
    #[schema(value_type = Jwt)]
    pub(crate) id_token: String,
    /// How the access token is shown.
    #[schema(value_type = TokenType)]
    pub(crate) token_type: &'static str,
    /// For how many more seconds it is valid.
    pub(crate) expires_in: u64,
    /// Where to go with it, if the room says so.
    #[schema(value_type = Option<WebAddressText>, required)]
    pub(crate) backend_uri: Option<String>,
}

/// A ticket with its pass.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AdmittedTicket)]
pub(crate) struct AdmittedAnswer<'room> {
    #[serde(flatten)]
    pub(crate) ticket: TicketAnswer<'room>,
    #[serde(flatten)]
    pub(crate) pass: PassAnswer,
}

/// A ticket that was shown, opened.
pub(crate) struct Shown {
    pub(crate) room: Arc<RoomView>,
    pub(crate) ticket: Ticket,
    pub(crate) request_id: RequestId,
    pub(crate) board: Arc<Board>,
    /// The ticket token, if that was the form it was shown in.
    token: Option<String>,
}

impl Shown {
    /// A ticket that was just taken.
    pub(crate) fn of_new(room: Arc<RoomView>, ticket: Ticket) -> Self {
        let request_id = room.request_ids.seal(&ticket);
        let board = room.handle.board();
        Self { room, ticket, request_id, board, token: None }
    }

    /// The ticket token.
    pub(crate) fn written(&self) -> String {
        let sealed = || self.room.ticket_tokens.seal(&self.ticket, self.request_id);
        self.token.clone().unwrap_or_else(sealed)
    }

    /// What to tell of it, given its status.
    fn answer(&self, app: &App, status: Status) -> TicketAnswer<'_> {
        let Self { room, ticket, request_id, board, .. } = self;
        let now = app.now();
        let people_ahead = match board.standing(ticket, now) {
            Standing::Waiting { people_ahead } => people_ahead,
            Standing::Offered { .. } | Standing::Passed | Standing::Settled => 0,
        };
        let waiting = matches!(status, Status::Waiting);
        let wait = if waiting { board.wait(ticket, people_ahead, now) } else { None };
        let estimated_wait_seconds = wait.map(|wait| wait.p50_seconds);
        let serving = board.segments.iter().find(|segment| segment.generation == ticket.generation);
        TicketAnswer {
            ticket: self.written(),
            request_id: request_id::format(*request_id),
            room: room.handle.id().as_str(),
            generation: ticket.generation.number(),
            position: ticket.position.get(),
            serving: serving.map_or(board.serving, |segment| segment.serving),
            people_ahead,
            status: status.as_str(),
            estimated_wait_seconds,
            estimated_wait_p90_seconds: wait.map(|wait| wait.p90_seconds),
            next_poll_seconds: next_poll_seconds(people_ahead, estimated_wait_seconds, ticket.position.get()),
            claim_expires_in_seconds: match status {
                Status::Active { remaining_millis } => {
                    Some(ClaimExpiry(remaining_millis.map(|remaining| remaining.div_ceil(1000))))
                }
                _ => None,
            },
            stale_seconds: app.freshness().stale_seconds(),
        }
    }

    /// The board after something was done.
    fn look_again(&mut self) {
        self.board = self.room.handle.board();
    }
}

/// Where a ticket stands, as its holder is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Waiting,
    Active { remaining_millis: Option<u64> },
    Admitted,
    Expired,
    Closed,
}

impl Status {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Active { .. } => "active",
            Self::Admitted => "admitted",
            Self::Expired => "expired",
            Self::Closed => "closed",
        }
    }
}

/// The status of a ticket, if the board alone can tell.
fn status_from_board(app: &App, shown: &Shown) -> Option<Status> {
    match shown.board.standing(&shown.ticket, app.now()) {
        Standing::Waiting { .. } if shown.board.state == RoomState::Closed => Some(Status::Closed),
        Standing::Waiting { .. } => Some(Status::Waiting),
        Standing::Offered { .. } | Standing::Passed | Standing::Settled => None,
    }
}

/// The status of a ticket within the frontier, from its room, at most once a second.
async fn status_from_room(app: &App, shown: &Shown) -> Result<Status, ApiError> {
    let place = shown.room.handle.place(shown.ticket, app.now()).await?;
    Ok(status_of(&place, shown, app))
}

fn status_of(place: &Place, shown: &Shown, app: &App) -> Status {
    let closed = shown.board.state == RoomState::Closed;
    match place {
        Place::Waiting | Place::Offered if closed => Status::Closed,
        Place::Waiting => Status::Waiting,
        Place::Offered => match shown.board.standing(&shown.ticket, app.now()) {
            Standing::Offered { remaining_millis } => Status::Active { remaining_millis },
            // A win that was not claimed is over, and its holder waits on.
            _ if shown.board.auction.is_some() => Status::Waiting,
            // The window has run out since; the room will say so in a moment.
            _ => Status::Expired,
        },
        Place::Claimed(session) if is_alive(session, app) => Status::Admitted,
        Place::Claimed(_) | Place::Gone => Status::Expired,
    }
}

fn is_alive(session: &Session, app: &App) -> bool {
    session.is_alive(app.now())
}

/// What `Authorization` shows, with or without `Bearer `.
pub(crate) fn shown_text(headers: &HeaderMap) -> Option<&str> {
    let value = crate::access::authorization(headers)?.trim();
    match value.split_once(' ') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => Some(rest.trim()),
        Some(_) => None,
        None => Some(value),
    }
}

/// A shown ticket whose room's present board knows it, and whose place has not moved; no waiting. Everything else goes the careful way.
pub(crate) fn open_known(app: &App, room: Option<&str>, text: &str) -> Option<Shown> {
    find_known(app, room, text).filter(|shown| !shown.board.is_moved(&shown.ticket))
}

/// The same, wherever its place has moved to.
fn find_known(app: &App, room: Option<&str>, text: &str) -> Option<Shown> {
    let now = app.now();
    if text.contains('.') {
        let named = ticket_token::audience(text)?;
        let room = app.room(&named).filter(|_| room.is_none_or(|room| room == named))?;
        let board = room.handle.board();
        let ours = |ticket: &Ticket| board.recognise(ticket, now) == anteroom_core::Recognition::Ours;
        let (request_id, ticket) = room.ticket_tokens.open_ticket(text, &room.request_ids, ours)?;
        return Some(Shown { room, ticket, request_id, board, token: Some(text.to_owned()) });
    }
    let room = app.room_or_default(room)?;
    let request_id = request_id::parse(text)?;
    let board = room.handle.board();
    let ticket = room
        .request_ids
        .open(request_id, |ticket| board.recognise(ticket, now) == anteroom_core::Recognition::Ours)?;
    Some(Shown { room, ticket, request_id, board, token: None })
}

/// A shown ticket, also one that is newer than this node's board. One whose place has moved to another device is refused.
pub(crate) async fn open(app: &App, room: Option<&str>, text: &str) -> Result<Shown, ApiError> {
    let shown = find(app, room, text).await?;
    if shown.board.is_moved(&shown.ticket) {
        return Err(Refusal::Moved.into());
    }
    Ok(shown)
}

/// The same, wherever its place has moved to.
async fn find(app: &App, room: Option<&str>, text: &str) -> Result<Shown, ApiError> {
    if let Some(shown) = find_known(app, room, text) {
        return Ok(shown);
    }
    let unknown = || ApiError::problem(Problem::UnknownTicket, "The ticket is not of this room's line");
    let (room, request_id, token) = if text.contains('.') {
        let named = ticket_token::audience(text).filter(|named| room.is_none_or(|room| room == named));
        let room = named.and_then(|named| app.room(&named)).ok_or_else(unknown)?;
        let claims = room.ticket_tokens.open(text).ok_or_else(unknown)?;
        (room, claims.request_id, Some(text.to_owned()))
    } else {
        let room = named_room(app, room)?;
        (room, request_id::parse(text).ok_or_else(unknown)?, None)
    };
    let proof = if token.is_some() { Proof::Signed } else { Proof::Deciphered };
    let (ticket, board) = room.find(request_id, proof, app.now()).await?.ok_or_else(unknown)?;
    Ok(Shown { room, ticket, request_id, board, token })
}

/// The room of that name, or the default room.
pub(crate) fn named_room(app: &App, name: Option<&str>) -> Result<Arc<RoomView>, ApiError> {
    app.room_or_default(name).ok_or_else(|| {
        let text = match name {
            Some(_) => "There is no room of this name",
            None => "The request names no room, and there is no default room",
        };
        ApiError::problem(Problem::UnknownRoom, text)
    })
}

/// Which line to join.
#[derive(Deserialize, Default, ToSchema)]
pub(crate) struct RoomBody {
    /// The room; the default room if it is not named.
    #[schema(value_type = Option<RoomName>)]
    room: Option<String>,
}

/// POST `/join`: a place in line, durable when this is answered; where it is served at once, with its pass.
pub(crate) async fn join(State(app): Shared, parameters: Parameters, request: Request<Body>) -> Outcome {
    let key = idempotency::key_of(request.headers())?;
    let queried = parameters.one("room")?.map(str::to_owned);
    let body = read_body(request).await?;
    join_with(&app, queried, &body, key).await
}

/// The same, once the request has been read.
pub(crate) async fn join_with(
    app: &App,
    queried: Option<String>,
    body: &[u8],
    key: Option<idempotency::KeyDigest>,
) -> Outcome {
    let in_body = if body.trim_ascii().is_empty() { None } else { parse_json::<RoomBody>(body)?.room };
    let room = named_room(app, the_same_room(queried, in_body)?.as_deref())?;
    let ticket = room.join(key, app.now()).await?;
    let shown = Shown::of_new(room, ticket);
    let waits = status_from_board(app, &shown);
    if let Some(status) = waits.filter(|_| !auction::may_get_in(&shown.board, &ticket, app.now())) {
        return Ok(told(&shown.answer(app, status)));
    }
    let room = Arc::clone(&shown.room);
    let shown = match admit(app, shown).await {
        Ok(Ok(admitted)) => return Ok(admitted),
        // Between the join and the claim the room was paused, or somebody moved the frontier back.
        Ok(Err(shown)) => shown,
        // The place is taken, so its ticket must be told: whoever got none would come again and take another. The pass that
        // could not be made now is made by `/claim`.
        Err(error) if error.is(Problem::Unavailable) => Shown::of_new(room, ticket),
        Err(error) => return Err(error),
    };
    let status = status_from_room(app, &shown).await.unwrap_or(Status::Active { remaining_millis: None });
    Ok(told(&shown.answer(app, status)))
}

/// The room that is named in the query, in the body, or in both alike.
pub(crate) fn the_same_room(
    queried: Option<String>,
    in_body: Option<String>,
) -> Result<Option<String>, ApiError> {
    match (&queried, &in_body) {
        (Some(queried), Some(in_body)) if queried != in_body => {
            Err(ApiError::bad_request("room in the query and in the body differ"))
        }
        _ => Ok(in_body.or(queried)),
    }
}

/// Claims a place that is served; gives the ticket back if it is not any more.
async fn admit(app: &App, mut shown: Shown) -> Result<Result<Answered, Shown>, ApiError> {
    let Shown { room, ticket, request_id, .. } = &shown;
    let claimed = passes::claim(app, room, *ticket, *request_id, Overrides::default(), Actor::Visitor).await;
    match claimed {
        Ok(pass) => {
            shown.look_again();
            Ok(Ok(admitted(app, &shown, pass)))
        }
        Err(error) if error.is(Problem::NotServed) => {
            shown.look_again();
            Ok(Err(shown))
        }
        Err(error) => Err(error),
    }
}

fn admitted(app: &App, shown: &Shown, pass: Pass) -> Answered {
    let backend_uri = shown.board.settings.backend_uri.as_ref().map(|uri| uri.as_str().to_owned());
    let body = AdmittedAnswer {
        ticket: shown.answer(app, Status::Admitted),
        pass: PassAnswer {
            access_token: pass.tokens.access_token,
            refresh_token: pass.tokens.refresh_token,
            id_token: pass.tokens.id_token,
            token_type: "Bearer",
            expires_in: pass.expires_in,
            backend_uri,
        },
    };
    told(&body)
}

fn told(body: &impl Serialize) -> Answered {
    answer::serialized(StatusCode::OK, Caching::Never, body)
}

/// GET `/status`, when the short way in `hot` could not be taken.
pub(crate) async fn status(State(app): Shared, parameters: Parameters, headers: HeaderMap) -> Outcome {
    let text = shown_text(&headers).ok_or_else(ticket_missing)?;
    let shown = open(&app, parameters.one("room")?, text).await?;
    let status = match status_from_board(&app, &shown) {
        Some(status) => status,
        None => status_from_room(&app, &shown).await?,
    };
    Ok(told(&shown.answer(&app, status)))
}

/// What `/status` tells, if the board alone can.
pub(crate) fn status_at_once(app: &App, room: Option<&str>, text: &str) -> Option<Vec<u8>> {
    let shown = open_known(app, room, text)?;
    let status = status_from_board(app, &shown)?;
    serde_json::to_vec(&shown.answer(app, status)).ok()
}

pub(crate) fn ticket_missing() -> ApiError {
    let text = "Show the ticket: Authorization: Bearer TICKET, or \"ticket\" in the body";
    let error = ApiError::problem(Problem::TicketMissing, text);
    error.with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}

/// A ticket that is not shown in `Authorization`.
#[derive(Deserialize, Default, ToSchema)]
pub(crate) struct TicketBody {
    /// The ticket token, or the request id.
    #[schema(value_type = Option<TicketText>)]
    ticket: Option<String>,
    /// The room of a request id, where it is not the default room. A ticket token names its own.
    #[schema(value_type = Option<RoomName>)]
    room: Option<String>,
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
    Ticket(Shown),
    Code { code: String, room: Option<String> },
}

async fn claimant(app: &App, parameters: &Parameters, request: Request<Body>) -> Result<Claimant, ApiError> {
    let in_header = shown_text(request.headers()).map(str::to_owned);
    let body: ClaimBody = read_optional_json(request).await?;
    match body.code {
        Some(code) => {
            let queried = parameters.one("room")?.map(str::to_owned);
            Ok(Claimant::Code { code, room: the_same_room(queried, body.ticket.room)? })
        }
        None => shown_in(app, parameters, in_header, body.ticket).await.map(Claimant::Ticket),
    }
}

/// The pass that a code stands for, for the first who brings it. Whoever names his room gets nothing for a code of another.
///
/// The code is used up last, when the pass is there: while passes cannot be signed it stays good, and its visitor is not lost. Whoever
/// brings a used one costs a look, and no signature.
async fn by_code(app: &App, code: &str, wanted: Option<&str>) -> Outcome {
    let no_good = || ApiError::problem(Problem::CodeUsed, "The code is too old, or not one of ours");
    let code = app.codes.open_hand_off(code, app.now());
    let code = code.filter(|code| wanted.is_none_or(|wanted| wanted == code.room.as_str()));
    let Code { room, ticket, issued_at } = code.ok_or_else(no_good)?;
    let room = app.room(room.as_str()).ok_or_else(no_good)?;
    let used = |session: &Session| issued_at <= session.redeemed_at;
    if matches!(room.handle.place(ticket, app.now()).await?, Place::Claimed(session) if used(&session)) {
        return Err(Refusal::CodeUsed.into());
    }
    let key = SessionKey { generation: ticket.generation, position: ticket.position };
    let shown = Shown::of_new(Arc::clone(&room), ticket);
    let pass = exchanged(
        async { admit(app, shown).await?.map_err(|_| no_good()) },
        room.handle.operate(Operation::Redeem { key, issued_at }, Actor::Visitor),
    )
    .await?;
    app.gateway.note_code_exchanged(room.handle.id());
    Ok(pass)
}

/// What is made, once it is there and the code for it could be used up.
async fn exchanged<Made>(
    making: impl Future<Output = Result<Made, ApiError>>,
    use_up: impl Future<Output = Result<Answer, EngineError>>,
) -> Result<Made, ApiError> {
    let pass = making.await?;
    use_up.await?;
    Ok(pass)
}

/// The ticket of a call that may carry it in `Authorization` or in its body.
async fn shown_anywhere(
    app: &App,
    parameters: &Parameters,
    request: Request<Body>,
) -> Result<Shown, ApiError> {
    let in_header = shown_text(request.headers()).map(str::to_owned);
    let body: TicketBody = read_optional_json(request).await?;
    shown_in(app, parameters, in_header, body).await
}

async fn shown_in(
    app: &App,
    parameters: &Parameters,
    in_header: Option<String>,
    body: TicketBody,
) -> Result<Shown, ApiError> {
    let (room, text) = named_in(parameters, in_header, body)?;
    open(app, room.as_deref(), &text).await
}

/// The room, if one is named, and the ticket as it is written.
fn named_in(
    parameters: &Parameters,
    in_header: Option<String>,
    body: TicketBody,
) -> Result<(Option<String>, String), ApiError> {
    let text = in_header.or(body.ticket).ok_or_else(ticket_missing)?;
    Ok((the_same_room(parameters.one("room")?.map(str::to_owned), body.room)?, text))
}

/// POST `/claim`: an offer becomes a pass, the same on every call.
pub(crate) async fn claim(State(app): Shared, parameters: Parameters, request: Request<Body>) -> Outcome {
    let shown = match claimant(&app, &parameters, request).await? {
        Claimant::Ticket(shown) => shown,
        Claimant::Code { code, room } => return by_code(&app, &code, room.as_deref()).await,
    };
    admit(&app, shown).await?.map_err(|shown| {
        auction::note_presence(&app, &shown.room, &shown.ticket);
        Refusal::NotServed.into()
    })
}

/// POST `/move`: the place goes on under a new ticket, for another device. The old one is worth nothing any more, except that whoever
/// shows it with the same `Idempotency-Key` gets the same new one again.
pub(crate) async fn move_place(
    State(app): Shared,
    parameters: Parameters,
    request: Request<Body>,
) -> Outcome {
    let by = idempotency::key_of(request.headers())?.map_or(Mover::UNNAMED, |key| Mover::of_digest(&key));
    let in_header = shown_text(request.headers()).map(str::to_owned);
    let (room, text) = named_in(&parameters, in_header, read_optional_json(request).await?)?;
    // Whether the place has moved, and by whom, is for the room to say.
    let shown = find(&app, room.as_deref(), &text).await?;
    let operation = Operation::Move { ticket: shown.ticket, by };
    let answer = shown.room.handle.operate(operation, Actor::Visitor).await?;
    let Answer::Moved { ticket, is_repeated } = answer else {
        return Err(ApiError::unavailable("The room did not answer"));
    };
    if !is_repeated {
        app.gateway.note_moved(shown.room.handle.id());
    }
    let shown = Shown::of_new(shown.room, ticket);
    let status = match status_from_board(&app, &shown) {
        Some(status) => status,
        None => status_from_room(&app, &shown).await?,
    };
    Ok(told(&shown.answer(&app, status)))
}

/// POST `/leave`: gives the place up, or ends the visit.
pub(crate) async fn leave(State(app): Shared, parameters: Parameters, request: Request<Body>) -> Outcome {
    let shown = shown_anywhere(&app, &parameters, request).await?;
    let leave = Operation::Leave { ticket: shown.ticket };
    shown.room.handle.operate(leave, Actor::Visitor).await?;
    Ok(told(&json!({"status": "left"})))
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
    let refreshed = passes::refresh(&app, &body.refresh_token).await?;
    Ok(told(&json!({
        "access_token": refreshed.access_token,
        "token_type": "Bearer",
        "expires_in": refreshed.expires_in,
    })))
}

/// GET `/rooms/{id}` on the public listener, when the short way in `hot` could not be taken.
pub(crate) async fn figures(State(app): Shared, Path(id): Path<String>, headers: HeaderMap) -> Outcome {
    let room = named_room(&app, Some(&id))?;
    match app.freshness().stale_seconds() {
        None => Ok(hot::figure(&room, &headers, Prepared::figures).map(Body::new)),
        Some(seconds) => {
            let mut answer = Answered::new(Body::from(room.prepared().stale_figures(seconds)));
            answer::mark_json(answer.headers_mut(), Caching::Never);
            Ok(answer)
        }
    }
}

/// The same status as its holder would be told, for an operator who looks a ticket up.
pub(crate) async fn status_for_operators(
    app: &App,
    room: &Arc<RoomView>,
    ticket: Ticket,
    request_id: RequestId,
    board: Arc<Board>,
) -> Result<Status, ApiError> {
    let shown = Shown { room: Arc::clone(room), ticket, request_id, board, token: None };
    match status_from_board(app, &shown) {
        Some(status) => Ok(status),
        None => status_from_room(app, &shown).await,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_code_is_used_up_when_its_pass_is_there_and_not_before() {
        let is_used_up = Cell::new(false);
        let use_up = async || {
            is_used_up.set(true);
            Ok(Answer::Done)
        };
        let overloaded = async { Err::<(), _>(ApiError::unavailable("Too many passes are being signed")) };
        assert!(exchanged(overloaded, use_up()).await.is_err_and(|error| error.is(Problem::Unavailable)));
        assert!(!is_used_up.get(), "it can be brought again");
        assert!(exchanged(async { Ok(7) }, use_up()).await.is_ok_and(|made| made == 7) && is_used_up.get());
        let used_before = async { Err(EngineError::Refused(Refusal::CodeUsed)) };
        let refused = exchanged(async { Ok(7) }, used_before).await;
        assert!(refused.is_err_and(|error| error.is(Problem::CodeUsed)), "no pass leaves for it");
    }
}
