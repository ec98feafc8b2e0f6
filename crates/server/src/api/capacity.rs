//! Capacity reports: what the protected site says about itself, who has said what, and the message by which a max-size inlet hears
//! that visits are over.
//!
//! `POST /rooms/{id}/capacity` takes two kinds of body. A *report* says how much more the site can take, absolutely; why that is so
//! is in `core::reports`. A *message* says which visits are over. Every field is looked at before anything happens, so a
//! body that is wrong in one place changes nothing.

mod body;
mod view;

use std::sync::Arc;

use anteroom_admission::Proof;
use anteroom_core::{Answer, Operation, Outcome, Refusal, ReportOutcome, SessionKey};
use anteroom_engine::EngineError;
use anteroom_tokens::request_id;
use axum::body::Body;
use axum::extract::State;
use http::{Request, StatusCode};

pub(crate) use self::body::{CapacityBody, LATENCY_MAX_MILLIS, REPORTED_MAX};
use self::body::{CapacityMessage, Visits};
pub(crate) use self::view::{
    CapacityAnswer, CapacityFigures, CapacityView, ReportAnswer, ReporterView, VisitsAnswer, figures,
};
use crate::access::Principal;
use crate::app::{App, ServedRoom};
use crate::http::error::ApiError;
use crate::http::request::{Path, read_json};
use crate::http::response::{self, ApiResponse, Caching};

type Shared = State<Arc<App>>;
type Outcomes = Result<ApiResponse, ApiError>;

/// GET `/rooms/{id}/capacity`: who reports, and what that leaves.
pub(crate) async fn show(State(app): Shared, Path(id): Path<String>) -> Outcomes {
    let room = app.named_room(Some(&id))?;
    let board = room.handle.board();
    let now = app.now().max(board.clock);
    Ok(response::serialized(StatusCode::OK, Caching::Never, &CapacityView::of(room.handle.id(), &board, now)))
}

/// POST `/rooms/{id}/capacity`.
pub(crate) async fn post(
    State(app): Shared,
    Path(id): Path<String>,
    principal: Principal,
    request: Request<Body>,
) -> Outcomes {
    let body: CapacityBody = read_json(request).await?;
    let message = body.into_message()?;
    let room = app.named_room(Some(&id))?;
    let response = match message {
        CapacityMessage::Report(report) => {
            let answered = room.handle.operate(Operation::Report(report), principal.actor()).await?;
            let reported = if answered == Answer::Reported(ReportOutcome::Late) { "late" } else { "taken" };
            let board = room.handle.board();
            let figures = figures(&board, app.now().max(board.clock));
            CapacityAnswer::Report(ReportAnswer { reported, figures })
        }
        CapacityMessage::Visits(visits) => {
            CapacityAnswer::Visits(end_visits(&app, &room, &principal, visits).await?)
        }
    };
    Ok(response::serialized(StatusCode::OK, Caching::Never, &response))
}

/// Ends visits, with and without names. Those without come first: the names of a message are among its number, and a visit
/// that is named later pays off one that was only counted.
async fn end_visits(
    app: &App,
    room: &ServedRoom,
    principal: &Principal,
    visits: Visits,
) -> Result<VisitsAnswer, ApiError> {
    let mut told = VisitsAnswer::default();
    let mut operations = vec![];
    let mut named = vec![];
    operations.extend(visits.exited.map(|count| Operation::Exits { count }));
    let outcomes =
        [(visits.completed, Outcome::Completed), (visits.abandoned, Outcome::Abandoned)].into_iter();
    for (id, outcome) in outcomes.flat_map(|(ids, outcome)| ids.into_iter().map(move |id| (id, outcome))) {
        let ticket = match request_id::parse(&id) {
            Some(parsed) => room.open(parsed, Proof::Deciphered, app.now()).await?,
            None => None,
        };
        let Some((ticket, _)) = ticket else {
            told.unknown.push(id);
            continue;
        };
        let key = SessionKey { generation: ticket.generation, position: ticket.position };
        operations.push(Operation::Close { key, outcome });
        named.push((id, outcome));
    }
    if operations.is_empty() {
        return Ok(told);
    }
    let mut results = room.handle.operate_all(operations, &principal.actor()).await?.into_iter();
    if visits.exited.is_some()
        && let Some(Answer::Exited { counted }) = results.next().transpose()?
    {
        told.exited = counted;
    }
    for ((id, outcome), result) in named.into_iter().zip(results) {
        match result {
            Ok(_) if outcome == Outcome::Completed => told.completed.push(id),
            Ok(_) => told.abandoned.push(id),
            Err(EngineError::Refused(Refusal::AlreadyEnded)) => told.already_ended.push(id),
            Err(EngineError::Refused(_)) => told.unknown.push(id),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(told)
}

/// DELETE `/rooms/{id}/capacity/{reporter}`: what it said last counts no more.
pub(crate) async fn forget(
    State(app): Shared,
    Path((id, reporter)): Path<(String, String)>,
    principal: Principal,
) -> Outcomes {
    let room = app.named_room(Some(&id))?;
    room.handle.operate(Operation::ForgetReporter { reporter }, principal.actor()).await?;
    let mut response = ApiResponse::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}
