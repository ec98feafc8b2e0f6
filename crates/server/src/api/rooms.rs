//! Rooms at run time, for operators: list, show, make, change, delete, and what a ticket says.
//!
//! A room's `ETag` is made of its settings and state, so it changes when an operator changes something and not with
//! every visitor. A change is applied to the settings it was computed from: after a concurrent change it is computed
//! anew, or refused where the caller asked for that with If-Match.

use std::sync::Arc;

use anteroom_admission::{PresentedTicket, Proof};
use anteroom_core::settings::{FIELDS, PLANNED};
use anteroom_core::{
    Answer as CoreAnswer, Board, Operation, Reconfigure, Refusal, RoomId, RoomState, Session, SessionKey,
    SessionStatus, Settings, Standing, UnixMillis, Value,
};
use anteroom_engine::EngineError;
use anteroom_tokens::{random, request_id};
use axum::body::Body;
use axum::extract::State;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use utoipa::ToSchema;

use crate::access::Principal;
use crate::api::frontier::FrontierView;
use crate::api::ticket_status::ticket_state;
use crate::app::{App, ServedRoom, to_the_end};
use crate::http::error::ApiError;
use crate::http::problem::Problem;
use crate::http::request::{Path, read_optional_json};
use crate::http::response::{self, ApiResponse, Caching};
use crate::http::timestamp::rfc3339;
use crate::openapi::schemas::{Moment, RoomStateName, WantedSettings};
use crate::ops::page_templates;

type Shared = State<Arc<App>>;
type Outcome = Result<ApiResponse, ApiError>;

/// How often a change is computed anew after concurrent changes.
const ATTEMPTS_MAX: u32 = 8;

/// What an operator set: all that an `ETag` stands for.
type Configured = (Settings, RoomState);

/// What an operator wants; without a state, the present one stays.
type Wanted = (Settings, Option<RoomState>);

fn configured(board: &Board) -> Configured {
    (Settings::clone(&board.settings), board.state)
}

/// GET `/rooms`.
pub(crate) async fn list(State(app): Shared) -> ApiResponse {
    let rooms: Vec<Json> =
        app.engine.rooms().iter().map(|room| described(room.id(), &room.board())).collect();
    response::json(StatusCode::OK, Caching::Never, &json!({"rooms": rooms}))
}

/// GET `/rooms/{id}`.
pub(crate) async fn show(State(app): Shared, Path(id): Path<String>) -> Outcome {
    let room = app.named_room(Some(&id))?;
    // No 304 on If-None-Match: the tag stands for what an operator set, and the figures beside it change all the time.
    Ok(room_response(StatusCode::OK, room.handle.id(), &room.handle.board()))
}

/// What a room shall be like.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WantedRoom)]
pub(crate) struct ChangeBody {
    /// What the room shall do.
    #[schema(value_type = Option<RoomStateName>)]
    state: Option<String>,
    /// Settings by name.
    #[serde(default)]
    #[schema(value_type = WantedSettings)]
    settings: Map<String, Json>,
}

impl ChangeBody {
    /// The settings that it asks for, starting from given ones, and the state, if it names one. Null sets a setting back to its
    /// default.
    fn applied_to(&self, mut settings: Settings) -> Result<Wanted, ApiError> {
        let defaults = Settings::default();
        for (name, value) in &self.settings {
            let field = FIELDS.iter().find(|field| field.name == name);
            let field = field.ok_or_else(|| ApiError::bad_request(unknown_setting(name)))?;
            let value = match value {
                Json::Null => (field.get)(&defaults),
                Json::Bool(flag) => Value::Flag(*flag),
                Json::String(text) => Value::Text(text.clone()),
                Json::Number(number) if number.is_i64() => Value::Number(number.as_i64().unwrap_or_default()),
                other => {
                    let refused = || ApiError::bad_request(format!("`{name}` must be {}", field.expected));
                    Value::List(texts_of(other).ok_or_else(refused)?)
                }
            };
            settings.set(name, &value).map_err(Refusal::from)?;
        }
        settings.check().map_err(Refusal::from)?;
        let state = self.state.as_deref().map(|name| {
            RoomState::parse(name).ok_or_else(|| {
                ApiError::bad_request("`state` must be \"open\", \"paused\", \"draining\" or \"closed\"")
            })
        });
        Ok((settings, state.transpose()?))
    }
}

/// A list of nothing but texts.
fn texts_of(value: &Json) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

fn unknown_setting(name: &str) -> String {
    let shown = crate::config::displayed(name);
    if PLANNED.iter().any(|planned| planned.name == name) {
        return format!("The setting {shown} is planned, but this version does not have it yet");
    }
    match crate::config::nearest(name, FIELDS.iter().map(|field| field.name)) {
        Some(near) => format!("There is no setting {shown}; did you mean `{near}`?"),
        None => format!("There is no setting {shown}"),
    }
}

/// PUT `/rooms/{id}`: makes the room, or replaces everything an operator set.
pub(crate) async fn create_or_replace(
    State(app): Shared,
    Path(id): Path<String>,
    principal: Principal,
    request: Request<Body>,
) -> Outcome {
    let preconditions = Preconditions::of(request.headers());
    let change: ChangeBody = read_optional_json(request).await?;
    let (settings, state) = change.applied_to(Settings::default())?;
    let present = app.room(&id).map(|room| room.handle.board());
    check_template(&app, present.as_ref().map(|board| &*board.settings), &settings)?;
    let state = state.unwrap_or(RoomState::Open);
    let wanted = |_: Settings| Ok((settings.clone(), Some(state)));
    if let Some(room) = app.room(&id) {
        return replace(&app, &room, &preconditions, &principal, wanted).await;
    }
    let name = RoomId::parse(&id).map_err(|_| {
        ApiError::bad_request("A room's name has 1 to 64 letters, digits, dots, hyphens or underscores")
    })?;
    preconditions.check(None)?;
    let [incarnation] = random::bytes::<1>();
    let (making, actor, wanted_settings) = (Arc::clone(&app), principal.actor(), settings.clone());
    let actor_name = principal.name.clone();
    let created = to_the_end(async move {
        making.admission.openid_clients.clear_for_new_room(&making.engine, &name, &actor_name).await?;
        let made = making.engine.create_room(name, wanted_settings, state, incarnation, actor).await;
        making.follow_rooms();
        Ok(made?.1)
    });
    let created = created.await?;
    let room = app.named_room(Some(&id))?;
    if created {
        app.alarms.tell(&room.handle, app.now()).await;
        return Ok(room_response(StatusCode::CREATED, room.handle.id(), &room.handle.board()));
    }
    // Another caller made it in between.
    replace(&app, &room, &preconditions, &principal, wanted).await
}

/// PATCH `/rooms/{id}`: changes what is given and nothing else.
pub(crate) async fn change(
    State(app): Shared,
    Path(id): Path<String>,
    principal: Principal,
    request: Request<Body>,
) -> Outcome {
    let preconditions = Preconditions::of(request.headers());
    let change: ChangeBody = read_optional_json(request).await?;
    let room = app.named_room(Some(&id))?;
    replace(&app, &room, &preconditions, &principal, |present| change.applied_to(present)).await
}

async fn replace(
    app: &App,
    room: &ServedRoom,
    preconditions: &Preconditions,
    principal: &Principal,
    wanted: impl Fn(Settings) -> Result<Wanted, ApiError>,
) -> Outcome {
    let _one_at_a_time = room.changing.lock().await;
    for _ in 0..ATTEMPTS_MAX {
        let present = configured(&room.handle.board());
        preconditions.check(Some(&present))?;
        let (settings, state) = wanted(present.0.clone())?;
        check_template(app, Some(&present.0), &settings)?;
        app.alarms.tell_beforehand(&room.handle, settings.alarms.as_slice(), app.now()).await;
        let reconfigure = Reconfigure { expected: Some(present), settings, state };
        let operation = Operation::Reconfigure(Box::new(reconfigure));
        match room.handle.operate(operation, principal.actor()).await {
            Ok(_) => {
                app.alarms.tell(&room.handle, app.now()).await;
                return Ok(room_response(StatusCode::OK, room.handle.id(), &room.handle.board()));
            }
            // If-Match is checked again against what is there now.
            Err(EngineError::Refused(Refusal::Changed)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ApiError::unavailable("The room keeps changing; try again shortly"))
}

/// A room is only set to a template that is there and can write every page.
fn check_template(app: &App, present: Option<&Settings>, wanted: &Settings) -> Result<(), ApiError> {
    if present.is_some_and(|present| present.page_template == wanted.page_template) {
        return Ok(());
    }
    page_templates::check(&app.pages, wanted).map_err(ApiError::bad_request)
}

/// DELETE `/rooms/{id}`.
pub(crate) async fn delete(
    State(app): Shared,
    Path(id): Path<String>,
    principal: Principal,
    headers: HeaderMap,
) -> Outcome {
    let preconditions = Preconditions::of(&headers);
    for _ in 0..ATTEMPTS_MAX {
        let room = app.named_room(Some(&id))?;
        let present = configured(&room.handle.board());
        preconditions.check(Some(&present))?;
        let expected = preconditions.if_match.is_some().then_some(present);
        let (deleting, actor, id) = (Arc::clone(&app), principal.actor(), room.handle.id().clone());
        let actor_name = principal.name.clone();
        let deleted = to_the_end(async move {
            let deleted = deleting.engine.delete_room(&id, actor, expected).await;
            deleting.follow_rooms();
            if deleted.is_ok() {
                delete_clients(&deleting, &id, &actor_name).await;
            }
            Ok(deleted)
        });
        match deleted.await? {
            Ok(_) => {
                let mut response = ApiResponse::new(Body::empty());
                *response.status_mut() = StatusCode::NO_CONTENT;
                return Ok(response);
            }
            Err(EngineError::Refused(Refusal::Changed)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ApiError::unavailable("The room keeps changing; try again shortly"))
}

/// Deletes the clients of a deleted room. Where that fails they are of no use, and are deleted when a room is made under its name.
async fn delete_clients(app: &App, room: &RoomId, actor: &str) {
    if let Err(error) = app.admission.openid_clients.delete_of_room(room, actor, app.now()).await {
        tracing::warn!(%room, %error, "deleting the clients of a deleted room failed, deleting them when the room is made again");
    }
}

/// A room's clock, after it was set right.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RoomClock)]
pub(crate) struct ClockAnswer {
    /// What it showed.
    #[schema(value_type = Moment)]
    pub(crate) before: String,
    /// What it shows.
    #[schema(value_type = Moment)]
    pub(crate) clock: String,
}

/// POST `/rooms/{id}/clock`: takes the room's clock back to the machine's.
pub(crate) async fn set_clock(State(app): Shared, Path(id): Path<String>, principal: Principal) -> Outcome {
    let room = app.named_room(Some(&id))?;
    let answer = room.handle.operate(Operation::SetClock, principal.actor()).await?;
    let CoreAnswer::ClockSet { before, clock } = answer else {
        unreachable!("setting the clock was answered by {answer:?}")
    };
    let body = ClockAnswer { before: rfc3339(before), clock: rfc3339(clock) };
    Ok(response::serialized(StatusCode::OK, Caching::Never, &body))
}

/// What a caller expects of the room that it changes.
struct Preconditions {
    if_match: Option<String>,
    if_none_match: Option<String>,
}

impl Preconditions {
    fn of(headers: &HeaderMap) -> Self {
        let text =
            |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("").to_owned());
        Self { if_match: text(header::IF_MATCH), if_none_match: text(header::IF_NONE_MATCH) }
    }

    /// Whether they hold for what is there, or for a room that is not.
    fn check(&self, present: Option<&Configured>) -> Result<(), ApiError> {
        let tag = present.map(etag);
        let lists = |tags: &str| {
            tags.split(',').map(str::trim).any(|wanted| match &tag {
                Some(tag) => wanted == "*" || wanted == tag,
                None => false,
            })
        };
        if self.if_match.as_deref().is_some_and(|tags| !lists(tags)) {
            let text = match tag {
                Some(_) => "The room is not as If-Match says: somebody changed it meanwhile",
                None => "If-Match was given, but there is no such room",
            };
            return Err(ApiError::problem(Problem::Changed, text));
        }
        if self.if_none_match.as_deref().is_some_and(lists) {
            return Err(ApiError::problem(Problem::Changed, "There is such a room already"));
        }
        Ok(())
    }
}

/// The tag of what an operator set.
fn etag((settings, state): &Configured) -> String {
    let mut text = state.as_str().to_owned();
    for field in FIELDS {
        use std::fmt::Write;
        write!(text, "\n{}={}", field.name, (field.get)(settings)).expect("a String takes everything");
    }
    let digest = anteroom_tokens::api_key::ApiKeyDigest::of(&text).to_bytes();
    let mut tag = String::from("\"");
    for byte in &digest[..12] {
        use std::fmt::Write;
        write!(tag, "{byte:02x}").expect("a String takes everything");
    }
    tag.push('"');
    tag
}

fn room_response(status: StatusCode, id: &RoomId, board: &Board) -> ApiResponse {
    let mut response = response::json(status, Caching::Never, &described(id, board));
    if let Ok(tag) = HeaderValue::try_from(etag(&configured(board))) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// A room as operators see it.
fn described(id: &RoomId, board: &Board) -> Json {
    let settings: Map<String, Json> = FIELDS
        .iter()
        .map(|field| {
            let value = match (field.get)(&board.settings) {
                Value::None => Json::Null,
                Value::Flag(flag) => flag.into(),
                Value::Number(number) => number.into(),
                Value::Text(text) => text.into(),
                Value::List(texts) => texts.into(),
            };
            (field.name.to_owned(), value)
        })
        .collect();
    let counts = &board.counts;
    let generations: Vec<Json> = board
        .segments
        .iter()
        .map(|segment| {
            json!({
                "generation": segment.generation.number(),
                "base": segment.base,
                "joined": segment.joined,
                "serving": segment.serving,
                "floor": segment.floor,
            })
        })
        .collect();
    let mut described = json!({
        "id": id.as_str(),
        "state": board.state.as_str(),
        "settings": settings,
        "figures": {
            "serving": board.serving,
            "joined": board.segments.last().map_or(0, |segment| segment.joined),
            "waiting": board.waiting,
            "active": board.active,
            "offers": board.offers,
            "live_sessions": board.live_sessions,
            "claimed": counts.claimed,
            "completed": counts.completed,
            "abandoned": counts.abandoned,
            "expired": counts.expired,
            "lapsed": counts.lapsed,
            "left": counts.left,
            "offers_by_hand": board.offers_by_hand,
            "inlet_rests": board.inlet_rests,
        },
        "generations": generations,
        "version": board.version,
        "updated_at": rfc3339(board.clock),
    });
    let frontier =
        serde_json::to_value(FrontierView::of(board)).expect("our own structures can be written as JSON");
    if let (Json::Object(described), Json::Object(frontier)) = (&mut described, frontier) {
        described.extend(frontier);
    }
    described
}

/// GET `/rooms/{id}/tickets/{request_id}`: what an id says, and where its ticket stands.
pub(crate) async fn ticket(State(app): Shared, Path((id, ticket_id)): Path<(String, String)>) -> Outcome {
    let room = app.named_room(Some(&id))?;
    let unknown = || ApiError::problem(Problem::UnknownTicket, "The id is not of this room's line");
    let request_id = request_id::parse(&ticket_id).ok_or_else(unknown)?;
    let now = app.now();
    let (ticket, board) = room.open(request_id, Proof::Deciphered, now).await?.ok_or_else(unknown)?;
    let key = SessionKey { generation: ticket.generation, position: ticket.position };
    let session = app.engine.store().session(room.handle.id(), key).await?;
    let presented =
        PresentedTicket::of_opened(Arc::clone(&room.view), ticket, request_id, Arc::clone(&board));
    let status = ticket_state(&app, &presented).await?;
    let people_ahead = match board.standing(&ticket, now) {
        Standing::Waiting { people_ahead } => Some(people_ahead),
        Standing::Offered { .. } | Standing::Passed | Standing::Settled => None,
    };
    let body = json!({
        "request_id": request_id::format(request_id),
        "room": room.handle.id().as_str(),
        "generation": ticket.generation.number(),
        "position": ticket.position.get(),
        "lane": ticket.lane,
        "copy": ticket.copy,
        "entered_at": rfc3339(UnixMillis(ticket.entry_time() * 1000)),
        "status": status.as_str(),
        "people_ahead": people_ahead,
        "session": session.as_ref().map(described_session),
    });
    Ok(response::json(StatusCode::OK, Caching::Never, &body))
}

fn described_session(session: &Session) -> Json {
    let status = match session.outcome() {
        Some(outcome) => outcome.as_str(),
        None if session.status == SessionStatus::Expired => "expired",
        None => "active",
    };
    json!({
        "status": status,
        "issued_at": rfc3339(UnixMillis(session.issued_at_seconds * 1000)),
        "expires_at": rfc3339(session.ends_at()),
        "issuer": session.issuer,
        "key_id": session.key_id,
    })
}
