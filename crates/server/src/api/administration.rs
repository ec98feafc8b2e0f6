//! For admins: API keys, signing keys, and the record of who changed what.

use std::sync::Arc;

use anteroom_admission::signing_keys::{KeyStatus, SigningKeysError};
use anteroom_core::settings::DURATION_MAX_SECONDS;
use anteroom_core::{EventKind, RoomId, UnixMillis};
use anteroom_store::AuditRecord;
use anteroom_tokens::key_ring::KeyRingError;
use axum::body::Body;
use axum::extract::State;
use http::{Request, StatusCode};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use utoipa::ToSchema;

use crate::access::api_keys::{ApiKey, CreatedKey, KeyError, KeyKind, NewKey};
use crate::access::{Principal, Role};
use crate::app::App;
use crate::http::error::ApiError;
use crate::http::problem::Problem;
use crate::http::request::{Parameters, Path, WholeNumber, read_json};
use crate::http::response::{self, ApiResponse, Caching};
use crate::http::timestamp::rfc3339;
use crate::openapi::schemas::{KeyKindName, KeyName, RoleName};

type Shared = State<Arc<App>>;
type Outcome = Result<ApiResponse, ApiError>;

/// How many records one page of the audit has by default.
pub(crate) const AUDIT_PAGE: usize = 100;
/// How many it may have.
pub(crate) const AUDIT_PAGE_MAX: usize = 1_000;

/// What every rotation comes with: nobody here knows how the sites verify.
pub(crate) const ROTATION_WARNING: &str = "a verifier that keeps one key and does not look at `kid`, such as the authorizer of AWS's solution, \
    refuses the passes of the new key until it fetches /public_key again: start it anew at that moment";

impl From<KeyError> for ApiError {
    fn from(error: KeyError) -> Self {
        let text = error.to_string();
        match error {
            KeyError::BadName => Self::bad_request(text),
            KeyError::NameTaken => Self::problem(Problem::NameTaken, text),
            KeyError::Unknown => Self::problem(Problem::UnknownName, text),
            KeyError::LastAdmin | KeyError::TooMany => Self::problem(Problem::Conflict, text),
            KeyError::Unreadable | KeyError::Sealing => Self::unavailable(text),
            KeyError::Store(error) => error.into(),
        }
    }
}

fn ok(body: &Json) -> ApiResponse {
    response::json(StatusCode::OK, Caching::Never, body)
}

/// GET `/keys`: every key, without what would let anybody use it.
pub(crate) async fn list_keys(State(app): Shared) -> ApiResponse {
    let keys = app.access.keys.all();
    let keys: Vec<Json> = keys.0.iter().map(|key| described(key, app.now())).collect();
    ok(&json!({"keys": keys}))
}

fn described(key: &ApiKey, now: UnixMillis) -> Json {
    json!({
        "name": key.name,
        "role": key.role.as_str(),
        "kind": key.kind().as_str(),
        "access_key_id": key.access_key_id(),
        "created_at": rfc3339(key.created_at),
        "expires_at": key.expires_at.map(rfc3339),
        "expired": key.has_expired(now),
    })
}

/// A key to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WantedKey)]
pub(crate) struct NewKeyBody {
    /// How it is called in lists and in the audit.
    #[schema(value_type = KeyName)]
    name: String,
    /// What it may do.
    #[schema(value_type = RoleName)]
    role: String,
    /// What it is made of; `bearer` if not said.
    #[schema(value_type = Option<KeyKindName>)]
    kind: Option<String>,
    /// When it stops working, in seconds from now; never if not said.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 31_536_000)]
    expires_in_seconds: Option<WholeNumber>,
}

/// POST `/keys`: a new key, shown this once.
pub(crate) async fn create_key(State(app): Shared, principal: Principal, request: Request<Body>) -> Outcome {
    let body: NewKeyBody = read_json(request).await?;
    let bad = |text: &str| ApiError::bad_request(text);
    let role = Role::parse(&body.role)
        .ok_or_else(|| bad("`role` must be \"viewer\", \"origin\", \"operator\" or \"admin\""))?;
    let kind = body.kind.as_deref().map_or(Some(KeyKind::Bearer), KeyKind::parse);
    let kind = kind.ok_or_else(|| bad("`kind` must be \"bearer\" or \"sigv4\""))?;
    let seconds = body.expires_in_seconds.map(|WholeNumber(seconds)| {
        let seconds = u64::try_from(seconds).ok().filter(|n| (1..=DURATION_MAX_SECONDS).contains(n));
        seconds.ok_or_else(|| bad(&format!("`expires_in_seconds` must be 1 to {DURATION_MAX_SECONDS}")))
    });
    let now = app.now();
    let expires_at = seconds.transpose()?.map(|seconds| now.plus(seconds * 1000));
    let new = NewKey { name: body.name, role, kind, expires_at };
    let tell = |event| app.engine.event_now(None, event);
    let (key, created) = app.access.keys.create(new, &principal.name, now, tell).await?;
    app.engine.outbox().note_kind(EventKind::KeyCreated);
    let mut told = described(&key, now);
    match created {
        CreatedKey::Bearer(key) => told["key"] = key.into(),
        CreatedKey::Pair { secret_access_key, .. } => told["secret_access_key"] = secret_access_key.into(),
    }
    Ok(response::json(StatusCode::CREATED, Caching::Never, &told))
}

/// DELETE `/keys/{name}`: the key stops working at once.
pub(crate) async fn revoke_key(
    State(app): Shared,
    principal: Principal,
    Path(name): Path<String>,
) -> Outcome {
    let tell = |event| app.engine.event_now(None, event);
    app.access.keys.revoke(&name, &principal.name, app.now(), tell).await?;
    app.engine.outbox().note_kind(EventKind::KeyRevoked);
    let mut response = ApiResponse::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// GET `/signing_keys`: the keys that sign passes, without their private halves.
pub(crate) async fn list_signing_keys(State(app): Shared) -> ApiResponse {
    let keys: Vec<Json> = app.admission.keys.statuses(app.now()).iter().map(signing_key).collect();
    ok(&json!({"keys": keys}))
}

fn signing_key(key: &KeyStatus) -> Json {
    json!({
        "kid": key.kid,
        "algorithm": key.algorithm,
        "status": key.status,
        "active_from": rfc3339(key.active_from),
    })
}

/// POST `/signing_keys`: announces a new key, which signs once every verifier has had time to fetch it.
pub(crate) async fn rotate_signing_key(State(app): Shared, principal: Principal) -> Outcome {
    let rotated = app.admission.keys.rotate(&app.engine, &principal.name).await.map_err(|error| {
        if let SigningKeysError::Ring(full @ KeyRingError::Full) = &error {
            return ApiError::problem(Problem::Conflict, full.to_string());
        }
        tracing::warn!(%error, "rotating the signing key failed");
        ApiError::unavailable("The key could not be rotated; see the log")
    })?;
    let mut told = signing_key(&rotated);
    told["warning"] = ROTATION_WARNING.into();
    told["later_in_rooms"] = later_rooms(&app, rotated.active_from);
    Ok(response::json(StatusCode::CREATED, Caching::Never, &told))
}

/// Rooms whose passes a new key signs later than others, and when.
fn later_rooms(app: &App, active_from: UnixMillis) -> Json {
    let rooms = app.admission.rooms.all();
    let later = rooms.iter().filter_map(|room| {
        let overlap = room.handle.with_board(|board| board.settings.key_overlap_seconds.get());
        (overlap > 0)
            .then(|| (room.handle.id().to_string(), rfc3339(active_from.plus(overlap * 1000)).into()))
    });
    Json::Object(later.collect())
}

/// GET `/audit`: who changed what, newest first.
pub(crate) async fn audit(State(app): Shared, parameters: Parameters) -> Outcome {
    let limit = match parameters.one("limit")? {
        None => AUDIT_PAGE,
        Some(text) => {
            text.parse().ok().filter(|limit| (1..=AUDIT_PAGE_MAX).contains(limit)).ok_or_else(|| {
                ApiError::bad_request(format!("`limit` must be a whole number from 1 to {AUDIT_PAGE_MAX}"))
            })?
        }
    };
    let before = match parameters.one("before")? {
        None => None,
        Some(text) => {
            Some(text.parse().map_err(|_| ApiError::bad_request("`before` must be the number of a record"))?)
        }
    };
    let room = match parameters.one("room")? {
        None => None,
        Some(name) => {
            Some(RoomId::parse(name).map_err(|_| ApiError::bad_request("`room` is not a room's name"))?)
        }
    };
    let records = app.engine.store().audit(before, room.as_ref(), limit).await?;
    let next_before = if records.len() == limit { records.last().map(|(number, _)| *number) } else { None };
    let records: Vec<Json> = records.iter().map(|(number, record)| audit_record(*number, record)).collect();
    Ok(ok(&json!({"records": records, "next_before": next_before})))
}

fn audit_record(number: u64, record: &AuditRecord) -> Json {
    json!({
        "number": number,
        "at": rfc3339(record.at),
        "actor": record.actor,
        "action": record.action,
        "room": record.room.as_ref().map(RoomId::as_str),
        "detail": record.detail,
    })
}
