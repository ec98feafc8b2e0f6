//! Where events go, for operators: destinations made, changed, paused, tried and replayed. A secret is in no answer but the one that
//! makes it.

use std::sync::Arc;

use anteroom_core::UnixMillis;
use anteroom_core::settings::DURATION_MAX_SECONDS;
use anteroom_events::destinations::{OVERLAP_SECONDS, SecretRotation, ShownKey};
use anteroom_events::{DeliveryControl as _, Destination, DestinationError, DestinationTerms, ReplayFrom};
use anteroom_tokens::WebhookAlgorithm;
use axum::body::Body;
use axum::extract::State;
use http::{Request, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

mod views;

pub(crate) use self::views::{
    CommandView, DeadLetterView, DeadLettersView, DestinationSecretView, DestinationStatusView,
    DestinationTestView, DestinationView, DestinationsView, NewDestinationView, ReplayView,
};
use crate::access::Principal;
use crate::app::{App, to_the_end};
use crate::http::error::{ApiError, sentence};
use crate::http::problem::Problem;
use crate::http::request::{Parameters, Path, WholeNumber, read_json, read_optional_json};
use crate::http::response::{self, ApiResponse, Caching};
use crate::http::timestamp::parse_moment;
use crate::openapi::schemas::{
    DestinationKindName, DestinationName, EventTypePattern, MomentOrSeconds, RetryScheduleName, RoomName,
    WebhookAlgorithmName,
};

type Shared = State<Arc<App>>;
type Outcome = Result<ApiResponse, ApiError>;

/// How many dead letters an answer has, unless asked for otherwise.
pub(crate) const DEAD_LETTERS_PAGE: u64 = 100;
/// How many it has at most.
pub(crate) const DEAD_LETTERS_PAGE_MAX: u64 = 1_000;

impl From<DestinationError> for ApiError {
    fn from(error: DestinationError) -> Self {
        let text = error.to_string();
        match error {
            DestinationError::Field(_) => Self::bad_request(text),
            DestinationError::NameTaken => Self::problem(Problem::NameTaken, sentence(&text)),
            DestinationError::Unknown => Self::problem(Problem::UnknownName, sentence(&text)),
            DestinationError::TooMany
            | DestinationError::TooMuch
            | DestinationError::FromFile
            | DestinationError::Disabled
            | DestinationError::NoSecret
            | DestinationError::NoPreviousSecret => Self::problem(Problem::Conflict, sentence(&text)),
            DestinationError::Sealing => Self::unavailable(sentence(&text)),
            DestinationError::Value(error) => error.into(),
        }
    }
}

/// The two bodies that say what a destination is like: one that makes it, and one that changes it. The fields are written once.
macro_rules! bodies {
    ($( $(#[$attribute:meta])* $name:ident: $kind:ty, )+) => {
        /// What a destination is like. What is not said stays as it is.
        #[derive(Default, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        #[schema(as = DestinationChange)]
        pub(crate) struct DestinationBody { $( $(#[$attribute])* $name: $kind, )+ }

        /// A destination to be made. What is not said is at its default.
        #[derive(Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        #[schema(as = WantedDestination)]
        pub(crate) struct NewDestinationBody {
            /// Its name.
            #[schema(value_type = DestinationName)]
            name: String,
            /// What takes the events.
            #[schema(value_type = DestinationKindName)]
            kind: String,
            /// How webhooks are signed.
            #[schema(value_type = Option<WebhookAlgorithmName>)]
            algorithm: Option<String>,
            /// What we show to be let in: the secret of the access key of an event bus, or what a NATS server asks for (a token,
            /// `USER:PASSWORD`, or the content of a credentials file). Of a webhook, its own
            /// secret (`whsec_…`), if we are not to make one.
            #[schema(value_type = Option<String>, max_length = 16_384)]
            secret: Option<GivenSecret>,
            $( $(#[$attribute])* $name: $kind, )+
        }

        impl NewDestinationBody {
            /// Its name, its secret, and what it is like.
            fn into_parts(self) -> (String, Option<GivenSecret>, DestinationTerms) {
                let body = DestinationBody { $( $name: self.$name, )+ };
                let (kind, algorithm) = (Some(self.kind), self.algorithm);
                (self.name, self.secret, DestinationTerms { kind, algorithm, ..body.into_terms() })
            }
        }
    };
}

bodies! {
    /// Where a webhook (`https://`) or a NATS server (`tls://`) is; in clear text (`http://`, `nats://`) only in a network that
    /// `destinations_private_allowed` lists. Viewers see it.
    #[schema(max_length = 2048)]
    url: Option<String>,
    /// How many events one request to a webhook has at most. With 1 a request is one `CloudEvent`, with more it is always a batch.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 100, default = 1)]
    batch_max: Option<WholeNumber>,
    /// The region of an event bus of AWS.
    #[schema(max_length = 32)]
    region: Option<String>,
    /// Its name or ARN.
    #[schema(max_length = 512, default = "default")]
    bus: Option<String>,
    /// Where it is asked, if not at AWS's address of the region.
    #[schema(max_length = 2048)]
    endpoint: Option<String>,
    /// The id of the access key that requests to it are signed with.
    #[schema(min_length = 16, max_length = 128)]
    access_key_id: Option<String>,
    /// What subjects of NATS begin with: `PREFIX.ROOM.TYPE`.
    #[schema(max_length = 128, default = "anteroom")]
    subject_prefix: Option<String>,
    /// How large a file becomes before it is rotated.
    #[schema(value_type = Option<i64>, minimum = 65_536, maximum = 1_099_511_627_776i64, default = 104_857_600)]
    size_max_bytes: Option<WholeNumber>,
    /// How many rotated files are kept.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 1000, default = 10)]
    files_max: Option<WholeNumber>,
    /// How long an attempt may take; not of files.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 30, default = 15)]
    timeout_seconds: Option<WholeNumber>,
    /// The rooms whose events it gets. None: all, and what concerns no room.
    #[schema(value_type = Option<Vec<RoomName>>, max_items = 256)]
    rooms: Option<Vec<String>>,
    /// The kinds of events that it gets. When not said: `default`, and of an event bus `aws`.
    #[schema(value_type = Option<Vec<EventTypePattern>>, min_items = 1, max_items = 64)]
    types: Option<Vec<String>>,
    /// Whether it gets the request ids of visitors, each of which is as good as the place. When not said: only an event bus does.
    with_request_ids: Option<bool>,
    /// How long it is left alone after an attempt that failed. `exponential`: twice as long after each, up to `backoff_max_seconds`.
    /// `standard`: 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h, as Standard Webhooks recommends.
    #[schema(value_type = Option<RetryScheduleName>)]
    schedule: Option<String>,
    /// The longest pause between two attempts; of `exponential` only.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 86_400, default = 60)]
    backoff_max_seconds: Option<WholeNumber>,
    /// How long after an event it is tried again; then it is a dead letter.
    #[schema(value_type = Option<i64>, minimum = 60, maximum = 2_592_000, default = 259_200)]
    give_up_after_seconds: Option<WholeNumber>,
}

/// How the secret of a destination is replaced.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DestinationSecretRotation)]
pub(crate) struct SecretBody {
    /// The new secret. A webhook gets a new key, if none is given; others need one.
    #[schema(value_type = Option<String>, max_length = 16_384)]
    secret: Option<GivenSecret>,
    /// How the new key of a webhook signs; as the one before, if not said.
    #[schema(value_type = Option<WebhookAlgorithmName>)]
    algorithm: Option<String>,
    /// The id that belongs to the new secret of an event bus; as before, if not said.
    #[schema(min_length = 16, max_length = 128)]
    access_key_id: Option<String>,
    /// How long the key before goes on signing beside the new one; 0 is not at all.
    #[schema(value_type = Option<i64>, minimum = 0, maximum = 31_536_000, default = 86_400)]
    previous_expires_in_seconds: Option<WholeNumber>,
}

/// From where events are sent again: exactly one of these.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WantedReplay)]
pub(crate) struct ReplayBody {
    /// The events behind this number of the outbox.
    #[schema(value_type = Option<i64>, minimum = 0)]
    after: Option<WholeNumber>,
    /// The events from this moment on: RFC 3339, or seconds since 1970.
    #[schema(value_type = Option<MomentOrSeconds>)]
    since: Option<GivenMoment>,
    /// This event, and those behind it.
    #[schema(max_length = 256)]
    event_id: Option<String>,
}

/// A secret on its way in, which nothing prints.
pub(crate) struct GivenSecret(SecretString);

impl<'de> Deserialize<'de> for GivenSecret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The reason does not quote what was given.
        let text = String::deserialize(deserializer)
            .map_err(|_| serde::de::Error::custom("a secret must be a text"))?;
        Ok(Self(SecretString::from(text)))
    }
}

/// A moment as callers may write it.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum GivenMoment {
    Seconds(WholeNumber),
    Text(String),
}

impl GivenMoment {
    fn moment(&self) -> Option<UnixMillis> {
        match self {
            Self::Seconds(WholeNumber(seconds)) => {
                u64::try_from(*seconds).ok()?.checked_mul(1000).map(UnixMillis)
            }
            Self::Text(text) => parse_moment(text),
        }
    }
}

impl DestinationBody {
    fn into_terms(self) -> DestinationTerms {
        // What is below zero is out of range, as zero is.
        let number = |given: Option<WholeNumber>| {
            given.map(|WholeNumber(number)| u64::try_from(number).unwrap_or_default())
        };
        DestinationTerms {
            kind: None,
            url: self.url,
            batch_max: number(self.batch_max),
            algorithm: None,
            region: self.region,
            bus: self.bus,
            endpoint: self.endpoint,
            access_key_id: self.access_key_id,
            subject_prefix: self.subject_prefix,
            size_max_bytes: number(self.size_max_bytes),
            files_max: number(self.files_max),
            timeout_seconds: number(self.timeout_seconds),
            rooms: self.rooms,
            types: self.types,
            with_request_ids: self.with_request_ids,
            schedule: self.schedule,
            backoff_max_seconds: number(self.backoff_max_seconds),
            give_up_after_seconds: number(self.give_up_after_seconds),
        }
    }
}

/// A destination as it is now.
async fn view(app: &App, destination: &Destination) -> Result<DestinationView, ApiError> {
    let status = app.deliveries.status(&destination.name).await?;
    let now = app.now();
    Ok(DestinationView::of(destination, &app.destinations.secrets(&destination.name, now), &status))
}

async fn shown(app: &App, destination: &Destination) -> Outcome {
    Ok(response::serialized(StatusCode::OK, Caching::Never, &view(app, destination).await?))
}

async fn shown_with_key(app: &App, destination: &Destination, key: Option<ShownKey>) -> Outcome {
    let mut body =
        NewDestinationView { destination: view(app, destination).await?, secret: None, public_key: None };
    match &key {
        Some(ShownKey::Shared(secret)) => body.secret = Some(secret.expose_secret().to_owned()),
        Some(ShownKey::Public(key)) => body.public_key = Some(key.clone()),
        None => {}
    }
    Ok(response::serialized(StatusCode::CREATED, Caching::Never, &body))
}

fn accepted(body: &impl Serialize) -> ApiResponse {
    response::serialized(StatusCode::ACCEPTED, Caching::Never, body)
}

fn find(app: &App, name: &str) -> Result<Arc<Destination>, ApiError> {
    Ok(app.destinations.find(name).ok_or(DestinationError::Unknown)?)
}

/// GET `/destinations`.
pub(crate) async fn list(State(app): Shared) -> Outcome {
    let mut destinations = vec![];
    for destination in app.destinations.list() {
        destinations.push(view(&app, &destination).await?);
    }
    Ok(response::serialized(StatusCode::OK, Caching::Never, &DestinationsView { destinations }))
}

/// GET `/destinations/{name}`.
pub(crate) async fn show(State(app): Shared, Path(name): Path<String>) -> Outcome {
    shown(&app, &*find(&app, &name)?).await
}

/// POST `/destinations`: a new destination; a key that was made for it is shown this once.
pub(crate) async fn create(State(app): Shared, principal: Principal, request: Request<Body>) -> Outcome {
    let body: NewDestinationBody = read_json(request).await?;
    let (name, secret, terms) = body.into_parts();
    to_the_end(async move {
        let secret = secret.as_ref().map(|GivenSecret(secret)| secret);
        let now = app.now();
        let (destination, key) = app.destinations.create(&name, &terms, secret, &principal.name, now).await?;
        shown_with_key(&app, &destination, key).await
    })
    .await
}

/// PATCH `/destinations/{name}`: changes what is said; the rest stays.
pub(crate) async fn change(
    State(app): Shared,
    Path(name): Path<String>,
    principal: Principal,
    request: Request<Body>,
) -> Outcome {
    let body: DestinationBody = read_json(request).await?;
    to_the_end(async move {
        let terms = body.into_terms();
        let changed = app.destinations.change(&name, &terms, &principal.name, app.now()).await?;
        shown(&app, &changed).await
    })
    .await
}

/// DELETE `/destinations/{name}`: what waits for it is nobody's any more.
pub(crate) async fn delete(State(app): Shared, Path(name): Path<String>, principal: Principal) -> Outcome {
    to_the_end(async move {
        app.destinations.delete(&name, &principal.name, app.now()).await?;
        Ok(no_content())
    })
    .await
}

/// POST `/destinations/{name}/pause`: its events wait.
pub(crate) async fn pause(State(app): Shared, Path(name): Path<String>, principal: Principal) -> Outcome {
    to_the_end(async move {
        let paused = app.destinations.pause(&name, &principal.name, app.now()).await?;
        shown(&app, &paused).await
    })
    .await
}

/// POST `/destinations/{name}/resume`: it gets what waits, also one that was disabled.
pub(crate) async fn resume(State(app): Shared, Path(name): Path<String>, principal: Principal) -> Outcome {
    to_the_end(async move {
        let resumed = app.destinations.resume(&name, &principal.name, app.now()).await?;
        shown(&app, &resumed).await
    })
    .await
}

/// POST `/destinations/{name}/test`: one event that says it is a test, apart from all others.
pub(crate) async fn test(State(app): Shared, Path(name): Path<String>, principal: Principal) -> Outcome {
    let destination = find(&app, &name)?;
    tracing::info!(actor = principal.name, destination = name, "testing a destination");
    let outcome = app.deliveries.test(&destination.name).await;
    Ok(response::serialized(StatusCode::OK, Caching::Never, &DestinationTestView::of(&outcome)))
}

/// POST `/destinations/{name}/replay`: events that it has, or missed, once more.
pub(crate) async fn replay(
    State(app): Shared,
    Path(name): Path<String>,
    principal: Principal,
    request: Request<Body>,
) -> Outcome {
    let body: ReplayBody = read_json(request).await?;
    find(&app, &name)?;
    let from = body.replay_from()?;
    let Some(after) = app.deliveries.resolve_replay(from).await? else {
        let text = "There is no such event in the outbox; GET /events shows what is kept";
        return Err(ApiError::bad_request(text));
    };
    to_the_end(async move {
        let replay = app.destinations.replay(&name, after, &principal.name, app.now()).await?;
        Ok(accepted(&ReplayView { number: replay.number, after: replay.after }))
    })
    .await
}

/// POST `/destinations/{name}/secret`: a new secret. A key that was made is shown this once; the one before goes on for a while.
pub(crate) async fn rotate_secret(
    State(app): Shared,
    Path(name): Path<String>,
    principal: Principal,
    request: Request<Body>,
) -> Outcome {
    let body: SecretBody = read_optional_json(request).await?;
    let now = app.now();
    let rotation = body.into_rotation(now)?;
    to_the_end(async move {
        let (destination, key) =
            app.destinations.rotate_secret(&name, &rotation, &principal.name, now).await?;
        shown_with_key(&app, &destination, key).await
    })
    .await
}

/// DELETE `/destinations/{name}/secrets/previous`: only the newest key signs from then on.
pub(crate) async fn revoke_previous_secret(
    State(app): Shared,
    Path(name): Path<String>,
    principal: Principal,
) -> Outcome {
    to_the_end(async move {
        app.destinations.revoke_previous_secret(&name, &principal.name, app.now()).await?;
        Ok(no_content())
    })
    .await
}

/// GET `/destinations/{name}/dead-letters`: what was given up, the oldest first.
pub(crate) async fn list_dead_letters(
    State(app): Shared,
    Path(name): Path<String>,
    parameters: Parameters,
) -> Outcome {
    let limit = match parameters.one("limit")? {
        None => DEAD_LETTERS_PAGE,
        Some(text) => {
            let limit = text.parse().ok().filter(|limit| (1..=DEAD_LETTERS_PAGE_MAX).contains(limit));
            limit.ok_or_else(|| {
                ApiError::bad_request(format!("`limit` must be 1 to {DEAD_LETTERS_PAGE_MAX}"))
            })?
        }
    };
    let destination = find(&app, &name)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let letters = app.deliveries.dead_letters(&destination.name, limit).await?;
    let dead_letters = letters.into_iter().map(DeadLetterView::of).collect();
    Ok(response::serialized(StatusCode::OK, Caching::Never, &DeadLettersView { dead_letters }))
}

/// POST `/destinations/{name}/dead-letters`: sends them all again, before anything else.
pub(crate) async fn replay_dead_letters(
    State(app): Shared,
    Path(name): Path<String>,
    principal: Principal,
) -> Outcome {
    to_the_end(async move {
        let command = app.destinations.replay_dead_letters(&name, &principal.name, app.now()).await?;
        Ok(accepted(&CommandView { number: command.number }))
    })
    .await
}

/// DELETE `/destinations/{name}/dead-letters`: drops them all.
pub(crate) async fn drop_dead_letters(
    State(app): Shared,
    Path(name): Path<String>,
    principal: Principal,
) -> Outcome {
    to_the_end(async move {
        let command = app.destinations.drop_dead_letters(&name, &principal.name, app.now()).await?;
        Ok(accepted(&CommandView { number: command.number }))
    })
    .await
}

impl ReplayBody {
    fn replay_from(&self) -> Result<ReplayFrom, ApiError> {
        match (self.after, &self.since, &self.event_id) {
            (Some(WholeNumber(after)), None, None) => {
                let after = u64::try_from(after)
                    .map_err(|_| ApiError::bad_request("`after` must not be below zero"))?;
                Ok(ReplayFrom::After(after))
            }
            (None, Some(since), None) => {
                let text = "`since` must be a moment in RFC 3339, such as 2026-11-16T20:00:00Z, or in seconds since 1970";
                Ok(ReplayFrom::Since(since.moment().ok_or_else(|| ApiError::bad_request(text))?))
            }
            (None, None, Some(id)) => Ok(ReplayFrom::EventId(id.clone())),
            _ => Err(ApiError::bad_request("exactly one of `after`, `since` and `event_id` must be given")),
        }
    }
}

impl SecretBody {
    fn into_rotation(self, now: UnixMillis) -> Result<SecretRotation, ApiError> {
        let overlap = match self.previous_expires_in_seconds {
            None => OVERLAP_SECONDS,
            Some(WholeNumber(seconds)) => {
                let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds <= DURATION_MAX_SECONDS);
                seconds.ok_or_else(|| {
                    let why = format!("`previous_expires_in_seconds` must be 0 to {DURATION_MAX_SECONDS}");
                    ApiError::bad_request(why)
                })?
            }
        };
        let algorithm = self.algorithm.as_deref().map(|name| {
            let names = WebhookAlgorithm::ALL.map(WebhookAlgorithm::as_str).join(" or ");
            let why = || ApiError::bad_request(format!("`algorithm` must be {names}"));
            WebhookAlgorithm::parse(name).ok_or_else(why)
        });
        Ok(SecretRotation {
            secret: self.secret.map(|GivenSecret(secret)| secret),
            algorithm: algorithm.transpose()?,
            access_key_id: self.access_key_id,
            previous_ends_at: Some(now.plus(overlap * 1000)),
        })
    }
}

fn no_content() -> ApiResponse {
    let mut response = ApiResponse::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
