//! The `OpenID` clients of a room, for admins: made, listed, rotated, deleted. A secret is shown once, in the answer that made it.

use std::sync::Arc;

use anteroom_admission::openid::clients::{ClientError, ClientTerms, FieldProblem, OpenIdClient};
use anteroom_core::settings::DURATION_MAX_SECONDS;
use anteroom_core::{RoomId, UnixMillis};
use axum::body::Body;
use axum::extract::State;
use http::{Request, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::Principal;
use crate::app::{App, to_the_end};
use crate::http::error::{ApiError, sentence};
use crate::http::problem::Problem;
use crate::http::request::{Path, WholeNumber, read_json, read_optional_json};
use crate::http::response::{self, ApiResponse, Caching};
use crate::http::timestamp::rfc3339;
use crate::openapi::schemas::{ClientId, Moment, RedirectAddress, WebAddressText};

type Shared = State<Arc<App>>;
type Outcome = Result<ApiResponse, ApiError>;

impl From<ClientError> for ApiError {
    fn from(error: ClientError) -> Self {
        let text = error.to_string();
        match error {
            ClientError::Field(FieldProblem { .. }) => Self::bad_request(text),
            ClientError::IdTaken => Self::problem(Problem::NameTaken, sentence(&text)),
            ClientError::Unknown => Self::problem(Problem::UnknownName, sentence(&text)),
            ClientError::TooMany
            | ClientError::TooMuch
            | ClientError::FromFile
            | ClientError::Public
            | ClientError::NoPreviousSecret => Self::problem(Problem::Conflict, sentence(&text)),
            ClientError::Value(error) => error.into(),
            ClientError::Engine(error) => error.into(),
        }
    }
}

/// A client to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WantedClient)]
pub(crate) struct NewClientBody {
    /// Its `client_id`; the room's name if not said.
    #[schema(value_type = Option<ClientId>)]
    id: Option<String>,
    /// What visitors are shown; the id if not said.
    #[schema(
        max_length = 100,
        pattern = r"^[^\x00-\x1F\x7F-\x9F]*[^\x00-\x20\x7F-\xA0][^\x00-\x1F\x7F-\x9F]*$"
    )]
    name: Option<String>,
    /// Where it gets visitors back, character by character; only the port of a loopback address is free.
    #[schema(value_type = Vec<RedirectAddress>, min_items = 1, max_items = 20)]
    redirect_addresses: Vec<String>,
    /// Whether it runs where no secret can be kept: it has none, and must use PKCE.
    #[serde(default)]
    public: bool,
    /// How long its access tokens live at most; never longer than the visit.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 31_536_000)]
    access_token_seconds: Option<WholeNumber>,
    /// How long its ID tokens live at most.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 31_536_000)]
    id_token_seconds: Option<WholeNumber>,
    /// The page of the site at which a login begins: `https://`, or of the visitor's own machine.
    #[schema(value_type = Option<WebAddressText>)]
    login_address: Option<String>,
}

impl NewClientBody {
    fn into_terms(self) -> ClientTerms {
        // What is below zero is out of range, as zero is.
        let seconds = |given: Option<WholeNumber>| {
            given.map(|WholeNumber(seconds)| u64::try_from(seconds).unwrap_or_default())
        };
        ClientTerms {
            id: self.id,
            name: self.name,
            redirect_addresses: self.redirect_addresses,
            is_public: self.public,
            access_token_seconds: seconds(self.access_token_seconds),
            id_token_seconds: seconds(self.id_token_seconds),
            login_address: self.login_address,
        }
    }
}

/// How a secret is replaced.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SecretRotation)]
pub(crate) struct RotationBody {
    /// When the secret before stops working, in seconds from now; 0 is at once. If not said, it works until the next rotation.
    #[schema(value_type = Option<i64>, minimum = 0, maximum = 31_536_000)]
    previous_expires_in_seconds: Option<WholeNumber>,
}

/// Every client of a room.
#[derive(Serialize, ToSchema)]
#[schema(as = Clients)]
pub(crate) struct ClientsView {
    /// In the order in which they were made.
    pub(crate) clients: Vec<ClientView>,
}

/// A client, without its secrets.
#[derive(Serialize, ToSchema)]
#[schema(as = Client)]
pub(crate) struct ClientView {
    /// Its `client_id`.
    #[schema(value_type = ClientId)]
    pub(crate) id: String,
    /// What visitors are shown.
    pub(crate) name: String,
    /// Where it gets visitors back.
    #[schema(value_type = Vec<RedirectAddress>)]
    pub(crate) redirect_addresses: Vec<String>,
    /// Whether it has no secret, and must use PKCE.
    pub(crate) public: bool,
    /// How long its access tokens live at most; null where only the visit's end counts.
    #[schema(required)]
    pub(crate) access_token_seconds: Option<u64>,
    /// How long its ID tokens live at most.
    #[schema(required)]
    pub(crate) id_token_seconds: Option<u64>,
    /// The page of the site at which a login begins.
    #[schema(value_type = Option<WebAddressText>, required)]
    pub(crate) login_address: Option<String>,
    /// When it was made.
    #[schema(value_type = Moment)]
    pub(crate) created_at: String,
    /// Whether the configuration file has it; then it is changed there.
    pub(crate) from_file: bool,
    /// The secrets that work, without what they are; the newest first.
    pub(crate) secrets: Vec<SecretView>,
}

/// A secret, without what it is.
#[derive(Serialize, ToSchema)]
#[schema(as = ClientSecret)]
pub(crate) struct SecretView {
    /// When it was made.
    #[schema(value_type = Moment)]
    pub(crate) created_at: String,
    /// When it stops working; null if that is not set.
    #[schema(value_type = Option<Moment>, required)]
    pub(crate) expires_at: Option<String>,
}

/// A client with its new secret, which is shown this once.
#[derive(Serialize, ToSchema)]
#[schema(as = NewClient)]
pub(crate) struct NewClientView {
    #[serde(flatten)]
    pub(crate) client: ClientView,
    /// Its new secret; a public client has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) secret: Option<String>,
}

impl ClientView {
    fn of(client: &OpenIdClient, now: UnixMillis) -> Self {
        let secrets = client.secrets(now).map(|secret| SecretView {
            created_at: rfc3339(secret.created_at),
            expires_at: secret.ends_at.map(rfc3339),
        });
        Self {
            id: client.id.clone(),
            name: client.name.clone(),
            redirect_addresses: client.redirect_addresses.clone(),
            public: client.is_public,
            access_token_seconds: client.access_token_seconds,
            id_token_seconds: client.id_token_seconds,
            login_address: client.login_address.clone(),
            created_at: rfc3339(client.created_at),
            from_file: client.is_from_file,
            secrets: secrets.collect(),
        }
    }
}

fn room_id(app: &App, name: &str) -> Result<RoomId, ApiError> {
    Ok(app.named_room(Some(name))?.handle.id().clone())
}

fn created(client: &OpenIdClient, secret: Option<String>, now: UnixMillis) -> ApiResponse {
    let body = NewClientView { client: ClientView::of(client, now), secret };
    response::serialized(StatusCode::CREATED, Caching::Never, &body)
}

fn no_content() -> ApiResponse {
    let mut response = ApiResponse::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// GET `/rooms/{id}/clients`.
pub(crate) async fn list(State(app): Shared, Path(id): Path<String>) -> Outcome {
    let room = room_id(&app, &id)?;
    let clients = app.admission.openid_clients.of_room(&room);
    let clients = clients.iter().map(|client| ClientView::of(client, app.now())).collect();
    Ok(response::serialized(StatusCode::OK, Caching::Never, &ClientsView { clients }))
}

/// GET `/rooms/{id}/clients/{client}`.
pub(crate) async fn show(State(app): Shared, Path((id, client)): Path<(String, String)>) -> Outcome {
    let room = room_id(&app, &id)?;
    let client = app.admission.openid_clients.find(&room, &client).ok_or(ClientError::Unknown)?;
    Ok(response::serialized(StatusCode::OK, Caching::Never, &ClientView::of(&client, app.now())))
}

/// POST `/rooms/{id}/clients`: a new client, its secret shown this once.
pub(crate) async fn create(
    State(app): Shared,
    Path(id): Path<String>,
    principal: Principal,
    request: Request<Body>,
) -> Outcome {
    let body: NewClientBody = read_json(request).await?;
    let room = room_id(&app, &id)?;
    to_the_end(async move {
        let (terms, now) = (body.into_terms(), app.now());
        let (client, secret) =
            app.admission.openid_clients.create(&room, terms, &principal.name, now).await?;
        Ok(created(&client, secret, now))
    })
    .await
}

/// POST `/rooms/{id}/clients/{client}/secrets`: a new secret, shown this once. The one before goes on for as long as is said.
pub(crate) async fn rotate_secret(
    State(app): Shared,
    Path((id, client)): Path<(String, String)>,
    principal: Principal,
    request: Request<Body>,
) -> Outcome {
    let body: RotationBody = read_optional_json(request).await?;
    let now = app.now();
    let previous_ends_at = body.previous_expires_in_seconds.map(|WholeNumber(seconds)| {
        let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds <= DURATION_MAX_SECONDS);
        let seconds = seconds.ok_or_else(|| {
            let why = format!("`previous_expires_in_seconds` must be 0 to {DURATION_MAX_SECONDS}");
            ApiError::bad_request(why)
        })?;
        Ok::<_, ApiError>(now.plus(seconds * 1000))
    });
    let previous_ends_at = previous_ends_at.transpose()?;
    let room = room_id(&app, &id)?;
    to_the_end(async move {
        let named = (&room, client.as_str());
        let rotated =
            app.admission.openid_clients.rotate_secret(named, previous_ends_at, &principal.name, now);
        let (client, secret) = rotated.await?;
        Ok(created(&client, Some(secret), now))
    })
    .await
}

/// DELETE `/rooms/{id}/clients/{client}/secrets/previous`: only the newest secret works from then on.
pub(crate) async fn revoke_previous_secret(
    State(app): Shared,
    Path((id, client)): Path<(String, String)>,
    principal: Principal,
) -> Outcome {
    let room = room_id(&app, &id)?;
    to_the_end(async move {
        let named = (&room, client.as_str());
        let now = app.now();
        app.admission.openid_clients.revoke_previous_secret(named, &principal.name, now).await?;
        Ok(no_content())
    })
    .await
}

/// DELETE `/rooms/{id}/clients/{client}`: nobody logs in by it any more.
pub(crate) async fn delete(
    State(app): Shared,
    Path((id, client)): Path<(String, String)>,
    principal: Principal,
) -> Outcome {
    let room = room_id(&app, &id)?;
    to_the_end(async move {
        let named = (&room, client.as_str());
        app.admission.openid_clients.delete(named, &principal.name, app.now()).await?;
        Ok(no_content())
    })
    .await
}
