//! POST `/rooms/{id}/visits/{visit}`: what the header `Anteroom-Session` says at the gateway, for sites whose answers pass us by.

use std::sync::Arc;

use anteroom_core::{Operation, Outcome, Refusal, SessionKey};
use anteroom_tokens::OpenIdSubject;
use axum::body::Body;
use axum::extract::State;
use http::{Request, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::Principal;
use crate::app::App;
use crate::http::error::ApiError;
use crate::http::request::{Path, read_json};
use crate::http::response::{self, ApiResponse, Caching};

/// What the site says of a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum VisitCommand {
    /// The visitor has done what they came for.
    Complete,
    /// The visitor has given up.
    Abandon,
    /// The visitor is to be inside no longer. It counts as abandoned.
    Revoke,
}

impl VisitCommand {
    const fn outcome(self) -> Outcome {
        match self {
            Self::Complete => Outcome::Completed,
            Self::Abandon | Self::Revoke => Outcome::Abandoned,
        }
    }
}

/// What becomes of a visit.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct VisitBody {
    /// What the site says.
    command: VisitCommand,
}

/// A visit that is over.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VisitAnswer {
    /// The room.
    #[schema(example = "shop")]
    pub(crate) room: String,
    /// The visit.
    #[schema(example = "23295488005-17")]
    pub(crate) visit: String,
    /// How it ended: `completed` or `abandoned`.
    #[schema(example = "completed")]
    pub(crate) status: &'static str,
}

/// POST `/rooms/{id}/visits/{visit}`; the visit by its name, or by the subject that an OpenID client knows its visitor by. The slot is
/// free when every node has been shown that the visit is over.
pub(crate) async fn end(
    State(app): State<Arc<App>>,
    Path((id, visit)): Path<(String, String)>,
    principal: Principal,
    request: Request<Body>,
) -> Result<ApiResponse, ApiError> {
    let body: VisitBody = read_json(request).await?;
    let named = visit.parse::<SessionKey>().ok();
    if named.is_none() && OpenIdSubject::parse(&visit).is_none() {
        return Err(ApiError::bad_request(
            "A visit is named as the header Anteroom-Visit names it, two numbers with a hyphen between them, or by the subject that \
             an OpenID client knows its visitor by",
        ));
    }
    let room = app.named_room(Some(&id))?;
    let key = if let Some(key) = named {
        key
    } else {
        let ticket = app.admission.find_subject(&room, &visit).await?;
        let ticket = ticket.ok_or(ApiError::from(Refusal::UnknownSession))?;
        SessionKey { generation: ticket.generation, position: ticket.position }
    };
    let outcome = body.command.outcome();
    room.handle.operate(Operation::Close { key, outcome }, principal.actor()).await?;
    let answer = VisitAnswer {
        room: room.handle.id().to_string(),
        visit: key.to_string(),
        status: if outcome == Outcome::Completed { "completed" } else { "abandoned" },
    };
    Ok(response::serialized(StatusCode::OK, Caching::Never, &answer))
}
