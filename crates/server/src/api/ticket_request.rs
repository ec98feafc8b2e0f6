//! How a call carries its ticket: in `Authorization`, with or without `Bearer `, or in the body; and the room it names.

use anteroom_admission::PresentedTicket;
use axum::body::Body;
use http::{HeaderMap, HeaderValue, Request, header};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::http::error::ApiError;
use crate::http::problem::Problem;
use crate::http::request::{Parameters, read_optional_json};
use crate::openapi::schemas::{RoomName, TicketText};

/// The ticket in `Authorization`, with or without `Bearer `.
pub(crate) fn presented_text(headers: &HeaderMap) -> Option<&str> {
    let value = crate::access::authorization(headers)?.trim();
    match value.split_once(' ') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => Some(rest.trim()),
        Some(_) => None,
        None => Some(value),
    }
}

pub(crate) fn ticket_missing() -> ApiError {
    let text = "Show the ticket: Authorization: Bearer TICKET, or \"ticket\" in the body";
    let error = ApiError::problem(Problem::TicketMissing, text);
    error.with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
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

/// A ticket that is not shown in `Authorization`.
#[derive(Deserialize, Default, ToSchema)]
pub(crate) struct TicketBody {
    /// The ticket token, or the request id.
    #[schema(value_type = Option<TicketText>)]
    pub(crate) ticket: Option<String>,
    /// The room of a request id, where it is not the default room. A ticket token names its own.
    #[schema(value_type = Option<RoomName>)]
    pub(crate) room: Option<String>,
}

/// The ticket of a call that may carry it in `Authorization` or in its body.
pub(crate) async fn presented_anywhere(
    app: &App,
    parameters: &Parameters,
    request: Request<Body>,
) -> Result<PresentedTicket, ApiError> {
    let in_header = presented_text(request.headers()).map(str::to_owned);
    let body: TicketBody = read_optional_json(request).await?;
    presented_in(app, parameters, in_header, body).await
}

pub(crate) async fn presented_in(
    app: &App,
    parameters: &Parameters,
    in_header: Option<String>,
    body: TicketBody,
) -> Result<PresentedTicket, ApiError> {
    let (room, text) = named_in(parameters, in_header, body)?;
    Ok(app.admission.open_ticket(room.as_deref(), &text).await?)
}

/// The room, if one is named, and the ticket as it is written.
pub(crate) fn named_in(
    parameters: &Parameters,
    in_header: Option<String>,
    body: TicketBody,
) -> Result<(Option<String>, String), ApiError> {
    let text = in_header.or(body.ticket).ok_or_else(ticket_missing)?;
    Ok((the_same_room(parameters.one("room")?.map(str::to_owned), body.room)?, text))
}
