//! POST `/auction`: rooms where each round's free slots go to the earliest of those who show up. The rounds themselves are
//! `anteroom_admission::auction`; here is what a client is answered.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anteroom_admission::auction::{CheckIn, HOLD_MAX, Manner, RoundOutcome, may_get_in};
use anteroom_admission::idempotent_joins::JoinKey;
use anteroom_admission::{AdmissionError, PresentedTicket, RoomView};
use anteroom_core::estimate::next_poll_seconds;
use anteroom_core::{Board, Standing, Ticket, UnixMillis};
use anteroom_gateway::identify::Peer;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use http::{HeaderValue, Request, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::api::idempotency;
use crate::api::ticket_request;
use crate::api::visitors::refuse_where_pages_join;
use crate::app::App;
use crate::http::error::ApiError;
use crate::http::problem::Problem;
use crate::http::request::{Parameters, read_optional_json};
use crate::http::response::{self, ApiResponse, Caching};
use crate::openapi::schemas::{Jwt, RoomName, TicketText, WebAddressText};

/// Who comes to an auction.
#[derive(Deserialize, Default, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuctionBody {
    /// The ticket, where it is not shown in `Authorization`. A client without one takes a place.
    #[schema(value_type = Option<TicketText>)]
    queue_token: Option<String>,
    /// The room; the default room if it is not named. A ticket token names its own.
    #[schema(value_type = Option<RoomName>)]
    room: Option<String>,
}

/// A slot.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuctionPass)]
pub(crate) struct WonAnswer {
    /// Shown to the protected site, which checks it against `/.well-known/jwks.json`, and refuses a first use after `enter_by`.
    #[schema(value_type = Jwt)]
    pub(crate) access_token: String,
    /// Where to go with it, if the room says so.
    #[schema(value_type = Option<WebAddressText>, required)]
    pub(crate) backend_uri: Option<String>,
}

/// A place in line.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuctionTicket)]
pub(crate) struct QueuedAnswer {
    /// The ticket: shown at each check-in from now on.
    #[schema(value_type = Jwt)]
    pub(crate) queue_token: String,
    /// How long it will probably wait; null while that is not known.
    #[schema(required)]
    pub(crate) estimated_wait_seconds: Option<u64>,
}

/// POST `/auction`: with a ticket a check-in, without one a place in line.
pub(crate) async fn auction(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
    parameters: Parameters,
    request: Request<Body>,
) -> Result<ApiResponse, ApiError> {
    let key = idempotency::key_of(request.headers())?;
    let client = app.client_address(&peer, request.headers());
    let in_header = ticket_request::presented_text(request.headers()).map(str::to_owned);
    // Somebody who shows something unreadable has a ticket, and must not get a second one.
    if in_header.is_none() && request.headers().contains_key(header::AUTHORIZATION) {
        return Err(ticket_request::ticket_missing());
    }
    let body: AuctionBody = read_optional_json(request).await?;
    let room = ticket_request::the_same_room(parameters.one("room")?.map(str::to_owned), body.room)?;
    match in_header.or(body.queue_token) {
        Some(text) => check_in(&app, app.admission.open_ticket(room.as_deref(), &text).await?).await,
        None => join(&app, app.admission.named_room(room.as_deref())?, (key, client)).await,
    }
}

/// A place in line, or a slot where one is spare.
async fn join(
    app: &App,
    room: Arc<RoomView>,
    (key, client): (Option<JoinKey>, IpAddr),
) -> Result<ApiResponse, ApiError> {
    if room.handle.with_board(|board| board.auction.is_none()) {
        return Err(AdmissionError::NoAuction.into());
    }
    refuse_where_pages_join(app, &room)?;
    let ticket = room.join(key, client, app.now()).await?;
    let presented = PresentedTicket::of_new(room, ticket);
    if may_get_in(&presented.board, &ticket, app.now()) {
        match admit(app, &presented).await {
            Err(error) if error.is(Problem::NotServed) || error.is(Problem::Unavailable) => {}
            admitted => return admitted,
        }
    }
    // The place is taken, so its ticket must be answered: a client without one would join again.
    let (_, estimated_wait_seconds) = prospects(&presented.room.handle.board(), &ticket, app.now());
    let body = QueuedAnswer { queue_token: presented.token(), estimated_wait_seconds };
    Ok(response::serialized(StatusCode::OK, Caching::Never, &body))
}

/// A check-in, held until the round closes.
async fn check_in(app: &App, presented: PresentedTicket) -> Result<ApiResponse, ApiError> {
    if presented.board.auction.is_none() {
        return Err(AdmissionError::NoAuction.into());
    }
    match admit(app, &presented).await {
        Err(error) if error.is(Problem::NotServed) => {}
        admitted => return admitted,
    }
    let (word, moment) = match app.admission.check_in(&presented.room, &presented.ticket, Manner::Waits) {
        CheckIn::Seated(presence, word) => {
            let word = app.admission.wait_for_round(&presented.room, presence, word).await?;
            (word, RefusalMoment::AfterAWait)
        }
        CheckIn::NoSeat(word) => (word, RefusalMoment::AtOnce),
        CheckIn::Counted => (RoundOutcome::OthersWereEarlier, RefusalMoment::AtOnce),
    };
    let text = match word {
        RoundOutcome::Won => match admit(app, &presented).await {
            // The room was paused in this very moment.
            Err(error) if error.is(Problem::NotServed) => "The slot is gone again; your place is kept",
            admitted => return admitted,
        },
        RoundOutcome::OthersWereEarlier => "No slot for you in this round; your place is kept",
        RoundOutcome::NotOverYet => {
            let text = "The round is still open: come again before it closes";
            return Err(come_back(app, &presented, text, RefusalMoment::StillOpen));
        }
        RoundOutcome::TakenOver => "Another connection has come with this ticket, and waits in its place",
        RoundOutcome::NotPossible(AdmissionError::RoomPaused) => "The room is paused; your place is kept",
        RoundOutcome::NotPossible(error) => return Err(error.into()),
    };
    Err(come_back(app, &presented, text, moment))
}

/// When a check-in is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RefusalMoment {
    /// Before the round is over.
    AtOnce,
    /// When it was over, or when somebody earlier came.
    AfterAWait,
    /// While it is still open and the connection has been held for as long as any: the client must be back before it closes.
    StillOpen,
}

/// Claims, and signs the pass.
async fn admit(app: &App, presented: &PresentedTicket) -> Result<ApiResponse, ApiError> {
    let pass = app.admission.claim_win(presented).await?;
    let backend_uri = presented.room.handle.with_board(|board| board.settings.backend_uri.clone());
    let body = WonAnswer {
        access_token: pass.tokens.access_token,
        backend_uri: backend_uri.map(|uri| uri.as_str().to_owned()),
    };
    Ok(response::serialized(StatusCode::OK, Caching::Never, &body))
}

/// How many are ahead of a ticket, and how long it will probably wait.
fn prospects(board: &Board, ticket: &Ticket, now: UnixMillis) -> (u64, Option<u64>) {
    let people_ahead = match board.standing(ticket, now) {
        Standing::Waiting { people_ahead } => people_ahead,
        Standing::Offered { .. } | Standing::Passed | Standing::Settled => 0,
    };
    (people_ahead, board.wait(ticket, people_ahead, now).map(|wait| wait.p50_seconds))
}

/// 429, with the estimate and when to return.
fn come_back(app: &App, presented: &PresentedTicket, text: &str, moment: RefusalMoment) -> ApiError {
    app.admission.auctions.counts().refused_until_later.fetch_add(1, Ordering::Relaxed);
    let (board, now) = (presented.room.handle.board(), app.now());
    let (people_ahead, wait_seconds) = prospects(&board, &presented.ticket, now);
    let position = presented.ticket.position.get();
    let left = board.auction.as_ref().map_or(0, |auction| auction.round.since(now).div_ceil(1000));
    let seconds = Return {
        round_seconds: board.settings.round_seconds.get(),
        left_seconds: left,
        wait_seconds,
        poll_seconds: next_poll_seconds(people_ahead, wait_seconds, position),
        position,
        moment,
    }
    .after_seconds();
    ApiError::problem(Problem::NoSlot, text)
        .with_header(header::RETRY_AFTER, HeaderValue::from(seconds))
        .with_member("estimated_wait_seconds", json!(wait_seconds))
}

/// When to check in again: not before the next round begins, later the longer the wait will be, and not all in the same moment.
struct Return {
    round_seconds: u64,
    /// Until the open round closes.
    left_seconds: u64,
    wait_seconds: Option<u64>,
    poll_seconds: u64,
    position: u64,
    moment: RefusalMoment,
}

impl Return {
    fn after_seconds(&self) -> u64 {
        if self.moment == RefusalMoment::StillOpen {
            return self.left_seconds.saturating_sub(HOLD_MAX.as_secs() / 2).max(1);
        }
        // At the end of a round the next one has just begun; before, it begins when this one ends.
        let has_just_begun = self.left_seconds.saturating_mul(10) >= self.round_seconds.saturating_mul(9);
        let begins =
            if self.moment == RefusalMoment::AfterAWait && has_just_begun { 0 } else { self.left_seconds };
        let spread = self.position.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (self.round_seconds / 2).max(1);
        let soonest = (begins + spread).max(1);
        // A ticket that may win the next round must not be sent past it.
        let is_near = self.wait_seconds.is_some_and(|wait| wait <= self.round_seconds.saturating_mul(2));
        if is_near { soonest } else { soonest.max(self.poll_seconds) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Return = Return {
        round_seconds: 10,
        left_seconds: 10,
        wait_seconds: Some(10),
        poll_seconds: 2,
        position: 7,
        moment: RefusalMoment::AfterAWait,
    };

    #[test]
    fn a_client_held_long_enough_is_back_before_the_round_closes() {
        for left_seconds in [1, 40, 61, 3_540] {
            let after =
                Return { round_seconds: 3_600, left_seconds, moment: RefusalMoment::StillOpen, ..NEAR }
                    .after_seconds();
            assert!(after >= 1 && after <= left_seconds, "{after} of {left_seconds}");
        }
    }

    #[test]
    fn a_client_that_lost_a_round_is_back_in_time_for_the_next() {
        for position in 1..100 {
            assert!((1..5).contains(&Return { position, ..NEAR }.after_seconds()), "{position}");
            let at_once =
                Return { position, left_seconds: 6, moment: RefusalMoment::AtOnce, ..NEAR }.after_seconds();
            assert!((6..11).contains(&at_once), "in the first half of the next round: {at_once}");
        }
        let times: std::collections::BTreeSet<u64> =
            (1..100).map(|position| Return { position, ..NEAR }.after_seconds()).collect();
        assert!(times.len() > 2, "not all in the same moment: {times:?}");
    }

    #[test]
    fn a_client_far_from_the_front_comes_later() {
        let far = Return { wait_seconds: Some(900), poll_seconds: 45, ..NEAR };
        assert_eq!(far.after_seconds(), 45);
        let unknown = Return { wait_seconds: None, poll_seconds: 60, ..NEAR };
        assert_eq!(unknown.after_seconds(), 60);
    }
}
