//! What visitors are answered about a ticket.

use anteroom_admission::{Pass, PresentedTicket};
use anteroom_core::Standing;
use anteroom_core::estimate::next_poll_seconds;
use anteroom_tokens::request_id;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::ticket_status::TicketState;
use crate::app::App;
use crate::openapi::schemas::{
    Generation, Jwt, RequestIdText, RoomName, TicketStatus, TokenType, WebAddressText,
};

/// A ticket, and where it stands.
// The order of the fields is the order in which they are told.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Ticket)]
pub(crate) struct TicketAnswer<'room> {
    /// The ticket token: shown in `Authorization` from now on.
    #[schema(value_type = Jwt)]
    pub(crate) ticket: String,
    /// The same once more, told by `/join` alone: the name that clients know who come from services where a ticket is called a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Jwt>)]
    pub(crate) token: Option<String>,
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

impl TicketAnswer<'_> {
    /// As `/join` tells it.
    pub(crate) fn of_join(mut self) -> Self {
        self.token = Some(self.ticket.clone());
        self
    }
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

impl AdmittedAnswer<'_> {
    /// As `/join` tells it.
    pub(crate) fn of_join(self) -> Self {
        Self { ticket: self.ticket.of_join(), ..self }
    }
}

/// What a ticket's holder is answered, given its state.
pub(crate) fn ticket_answer<'ticket>(
    app: &App,
    presented: &'ticket PresentedTicket,
    state: TicketState,
) -> TicketAnswer<'ticket> {
    let PresentedTicket { room, ticket, request_id, board, .. } = presented;
    let now = app.now();
    let people_ahead = match board.standing(ticket, now) {
        Standing::Waiting { people_ahead } => people_ahead,
        Standing::Offered { .. } | Standing::Passed | Standing::Settled => 0,
    };
    let is_waiting = matches!(state, TicketState::Waiting);
    let wait = if is_waiting { board.wait(ticket, people_ahead, now) } else { None };
    let estimated_wait_seconds = wait.map(|wait| wait.p50_seconds);
    let serving = board.segments.iter().find(|segment| segment.generation == ticket.generation);
    TicketAnswer {
        ticket: presented.token(),
        token: None,
        request_id: request_id::format(*request_id),
        room: room.handle.id().as_str(),
        generation: ticket.generation.number(),
        position: ticket.position.get(),
        serving: serving.map_or(board.serving, |segment| segment.serving),
        people_ahead,
        status: state.as_str(),
        estimated_wait_seconds,
        estimated_wait_p90_seconds: wait.map(|wait| wait.p90_seconds),
        next_poll_seconds: next_poll_seconds(people_ahead, estimated_wait_seconds, ticket.position.get()),
        claim_expires_in_seconds: match state {
            TicketState::Active { remaining_millis } => {
                Some(ClaimExpiry(remaining_millis.map(|remaining| remaining.div_ceil(1000))))
            }
            _ => None,
        },
        stale_seconds: app.freshness().stale_seconds(),
    }
}

/// The answer to a ticket that was admitted.
pub(crate) fn admitted_answer<'ticket>(
    app: &App,
    presented: &'ticket PresentedTicket,
    pass: Pass,
) -> AdmittedAnswer<'ticket> {
    let backend_uri = presented.board.settings.backend_uri.as_ref().map(|uri| uri.as_str().to_owned());
    AdmittedAnswer {
        ticket: ticket_answer(app, presented, TicketState::Admitted),
        pass: PassAnswer {
            access_token: pass.tokens.access_token,
            refresh_token: pass.tokens.refresh_token,
            id_token: pass.tokens.id_token,
            token_type: "Bearer",
            expires_in: pass.expires_in,
            backend_uri,
        },
    }
}
