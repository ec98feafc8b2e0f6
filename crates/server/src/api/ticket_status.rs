//! Where a ticket stands, as its holder and operators read it. A waiting ticket is answered from the board alone; one within the
//! frontier costs one look-up in its room, remembered for a second.

use anteroom_admission::{AdmissionError, PresentedTicket};
use anteroom_core::{PlaceStatus, RoomState, Standing};

use crate::app::App;

/// Where a ticket stands, as its holder is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TicketState {
    Waiting,
    Active { remaining_millis: Option<u64> },
    Admitted,
    Expired,
    Closed,
}

impl TicketState {
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
pub(crate) fn state_from_board(app: &App, presented: &PresentedTicket) -> Option<TicketState> {
    match presented.board.standing(&presented.ticket, app.now()) {
        Standing::Waiting { .. } if presented.board.state == RoomState::Closed => Some(TicketState::Closed),
        Standing::Waiting { .. } => Some(TicketState::Waiting),
        Standing::Offered { .. } | Standing::Passed | Standing::Settled => None,
    }
}

/// The status of a ticket within the frontier, from its room, at most once a second.
pub(crate) async fn state_from_room(
    app: &App,
    presented: &PresentedTicket,
) -> Result<TicketState, AdmissionError> {
    let place = presented.room.handle.place_status(presented.ticket, app.now()).await?;
    Ok(state_of(&place, presented, app))
}

fn state_of(place: &PlaceStatus, presented: &PresentedTicket, app: &App) -> TicketState {
    let closed = presented.board.state == RoomState::Closed;
    match place {
        PlaceStatus::Waiting | PlaceStatus::Offered if closed => TicketState::Closed,
        PlaceStatus::Waiting => TicketState::Waiting,
        PlaceStatus::Offered => match presented.board.standing(&presented.ticket, app.now()) {
            Standing::Offered { remaining_millis } => TicketState::Active { remaining_millis },
            // A win that was not claimed is over, and its holder waits on.
            _ if presented.board.auction.is_some() => TicketState::Waiting,
            // The window has run out since; the room will say so in a moment.
            _ => TicketState::Expired,
        },
        PlaceStatus::Claimed(session) if session.is_alive(app.now()) => TicketState::Admitted,
        PlaceStatus::Claimed(_) | PlaceStatus::Gone => TicketState::Expired,
    }
}

/// The state of a ticket, from the board where that suffices.
pub(crate) async fn ticket_state(
    app: &App,
    presented: &PresentedTicket,
) -> Result<TicketState, AdmissionError> {
    match state_from_board(app, presented) {
        Some(state) => Ok(state),
        None => state_from_room(app, presented).await,
    }
}
