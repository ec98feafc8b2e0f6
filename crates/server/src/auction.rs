//! POST `/auction`: rooms where each round's free slots go to the earliest of those who show up.
//!
//! # The path of a check-in
//! ticket → a claim, which finds an earlier pass, an open win or a spare slot → else a seat at the room's table ([`table`]), if
//! there is one free or somebody later has one; who loses his seat, or finds none, is told 429 at once → the connection stays open
//! until the round closes ([`rounds`]), and whoever hangs up is not there → winners claim and get their pass, the others 429.
//!
//! A winner whose connection broke asks again, and the claim finds his pass or his win, which stays open for a round.
//! `/claim` and `/generate_token` check in too ([`note_presence`]), without waiting.
//!
//! *Invariant:* a node remembers of a round no more people than it can have winners.
//! *Invariant:* nobody is held for longer than a round and [`SETTLE_PATIENCE`], nor for longer than [`HOLD_MAX`].

mod rounds;
mod table;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anteroom_core::auction::COLLECTING_MILLIS;
use anteroom_core::estimate::next_poll_seconds;
use anteroom_core::{Board, SessionKey, Standing, Ticket, UnixMillis};
use anteroom_store::engine::Actor;
use axum::body::Body;
use axum::extract::State;
use http::{HeaderValue, Request, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use utoipa::ToSchema;

use self::rounds::Rounds;
pub(crate) use self::table::RoundTable;
use self::table::{Entrance, Manner, Presence, Word};
use crate::answer::{self, Answered, Caching};
use crate::app::{App, RoomView};
use crate::error::ApiError;
use crate::idempotency::{self, KeyDigest};
use crate::native::{self, Shown};
use crate::openapi::schemas::{Jwt, RoomName, TicketText, WebAddressText};
use crate::passes::{self, Overrides};
use crate::problem::Problem;
use crate::request::{Parameters, read_optional_json};

/// How long after a round's end its winners must be known.
const SETTLE_PATIENCE: Duration = Duration::from_secs(5);
/// How long a connection is held at most: proxies, and HTTP/2 connections without traffic, end not much later. Whoever comes to a
/// longer round is told when to come back.
const HOLD_MAX: Duration = Duration::from_mins(1);
/// Winners who claim at once; fewer than a room's queue takes, because others call too.
const CLAIMS_MAX: usize = 4_096;
/// Winners whose passes are signed at once; fewer than the signers' queue takes.
const SIGNINGS_MAX: usize = 512;

/// Everything that the auctions of all rooms share.
pub(crate) struct Auctions {
    counts: Arc<Counts>,
    claims: Semaphore,
    signings: Semaphore,
    closing: watch::Sender<bool>,
    /// One for each room to whose rounds somebody comes. Each ends when the server closes.
    tasks: Mutex<JoinSet<()>>,
}

/// What auctions came to so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Rounds settled.
    pub(crate) rounds: AtomicU64,
    /// Winners.
    pub(crate) winners: AtomicU64,
    /// Visitors told to come back later.
    pub(crate) told_to_return: AtomicU64,
}

impl Auctions {
    pub(crate) fn new() -> Self {
        Self {
            counts: Arc::default(),
            claims: Semaphore::new(CLAIMS_MAX),
            signings: Semaphore::new(SIGNINGS_MAX),
            closing: watch::Sender::new(false),
            tasks: Mutex::default(),
        }
    }

    /// What it came to so far.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Everybody who waits is told to come back, and so is whoever comes later.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// The one place where tasks of auctions begin. Each watches `closing`, and the set ends with the server.
    fn close_rounds_of(&self, app: &App, room: &RoomView) {
        let rounds = Rounds {
            engine: Arc::clone(&app.engine),
            room: Arc::clone(&room.handle),
            table: Arc::clone(&room.round_table),
            counts: Arc::clone(&self.counts),
        };
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(rounds.run(self.closing.subscribe()));
    }
}

/// Who comes to an auction.
#[derive(Deserialize, Default, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuctionBody {
    /// The ticket, where it is not shown in `Authorization`. Whoever has none takes a place.
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
    parameters: Parameters,
    request: Request<Body>,
) -> Result<Answered, ApiError> {
    let key = idempotency::key_of(request.headers())?;
    let in_header = native::shown_text(request.headers()).map(str::to_owned);
    // Somebody who shows something unreadable has a ticket, and must not get a second one.
    if in_header.is_none() && request.headers().contains_key(header::AUTHORIZATION) {
        return Err(native::ticket_missing());
    }
    let body: AuctionBody = read_optional_json(request).await?;
    let room = native::the_same_room(parameters.one("room")?.map(str::to_owned), body.room)?;
    match in_header.or(body.queue_token) {
        Some(text) => check_in(&app, native::open(&app, room.as_deref(), &text).await?).await,
        None => join(&app, native::named_room(&app, room.as_deref())?, key).await,
    }
}

/// A place in line, or a slot where one is spare.
async fn join(app: &App, room: Arc<RoomView>, key: Option<KeyDigest>) -> Result<Answered, ApiError> {
    if room.handle.with_board(|board| board.auction.is_none()) {
        return Err(table::no_auction());
    }
    let ticket = room.join(key, app.now()).await?;
    let shown = Shown::of_new(room, ticket);
    if may_get_in(&shown.board, &ticket, app.now()) {
        match admit(app, &shown).await {
            Err(error) if error.is(Problem::NotServed) || error.is(Problem::Unavailable) => {}
            admitted => return admitted,
        }
    }
    // The place is taken, so its ticket must be told: whoever got none would come again and take another.
    let (_, estimated_wait_seconds) = prospects(&shown.room.handle.board(), &ticket, app.now());
    let body = QueuedAnswer { queue_token: shown.written(), estimated_wait_seconds };
    Ok(answer::serialized(StatusCode::OK, Caching::Never, &body))
}

/// Whether a claim is worth trying: a slot is spare, or the frontier has passed the ticket, which may then have a pass already.
pub(crate) fn may_get_in(board: &Board, ticket: &Ticket, now: UnixMillis) -> bool {
    let spare = board.auction.as_ref().is_some_and(|auction| auction.spare > 0);
    spare || !matches!(board.standing(ticket, now), Standing::Waiting { .. })
}

/// A check-in, held until the round closes.
async fn check_in(app: &App, shown: Shown) -> Result<Answered, ApiError> {
    if shown.board.auction.is_none() {
        return Err(table::no_auction());
    }
    match admit(app, &shown).await {
        Err(error) if error.is(Problem::NotServed) => {}
        admitted => return admitted,
    }
    let (word, told) = match enter(app, &shown.room, &shown.ticket, Manner::Waits) {
        Entrance::Seated(presence, word) => (wait(app, &shown, presence, word).await?, Told::AfterAWait),
        Entrance::NoSeat(word) => (word, Told::AtOnce),
        Entrance::Noted => (Word::OthersWereEarlier, Told::AtOnce),
    };
    let text = match word {
        Word::Won => match admit(app, &shown).await {
            // The room was paused in this very moment.
            Err(error) if error.is(Problem::NotServed) => "The slot is gone again; your place is kept",
            admitted => return admitted,
        },
        Word::OthersWereEarlier => "No slot for you in this round; your place is kept",
        Word::NotOverYet => {
            let text = "The round is still open: come again before it closes";
            return Err(come_back(app, &shown, text, Told::StillOpen));
        }
        Word::TakenOver => "Another connection has come with this ticket, and waits in its place",
        Word::NotPossible(error) if error.is(Problem::NoSlot) => "The room is paused; your place is kept",
        Word::NotPossible(error) => return Err(error),
    };
    Err(come_back(app, &shown, text, told))
}

/// When somebody is told that he has not won.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Before the round is over.
    AtOnce,
    /// When it was over, or when somebody earlier came.
    AfterAWait,
    /// While it is still open and he has been held for as long as anybody is: he must be back before it closes.
    StillOpen,
}

/// Waits for the word on a seat; who hangs up drops the presence, and with it the seat.
async fn wait(
    app: &App,
    shown: &Shown,
    presence: Presence,
    word: tokio::sync::oneshot::Receiver<Word>,
) -> Result<Word, ApiError> {
    let not_settled = || ApiError::unavailable("The round was not settled in time; ask again");
    let (round, round_millis) = shown.room.handle.with_board(|board| {
        (board.auction.as_ref().map(|auction| auction.round), board.settings.round_millis())
    });
    let now = app.now();
    // Where the last round has closed and is not settled yet, the seat is one of the next.
    let left = match round.map(|round| round.since(now)) {
        Some(0) => round_millis.saturating_add(COLLECTING_MILLIS),
        left => left.unwrap_or(0).min(round_millis),
    };
    let left = Duration::from_millis(left);
    let patience = (left + SETTLE_PATIENCE).min(HOLD_MAX);
    let heard = tokio::time::timeout(patience, word).await;
    drop(presence);
    match heard {
        Err(_) if patience < left => Ok(Word::NotOverYet),
        heard => heard.map_err(|_| not_settled())?.map_err(|_| not_settled()),
    }
}

/// Takes a seat, and sees that somebody closes the round.
fn enter(app: &App, room: &RoomView, ticket: &Ticket, manner: Manner) -> Entrance {
    let key = SessionKey { generation: ticket.generation, position: ticket.position };
    let (entrance, must_start) = room.round_table.enter(&room.handle, key, manner);
    if must_start {
        app.auctions.close_rounds_of(app, room);
    }
    entrance
}

/// Somebody asked for a pass before the turn had come. In an auction he counts as present until the round's end, so that
/// whoever comes back every round wins and claims.
pub(crate) fn note_presence(app: &App, room: &RoomView, ticket: &Ticket) {
    if room.handle.with_board(|board| board.auction.is_some()) {
        drop(enter(app, room, ticket, Manner::ComesBack));
    }
}

/// Claims, and signs the pass. Many winners claim at once, so each step is bounded; claims go ahead of signatures, because a
/// win ends with the next round, and a session does not.
async fn admit(app: &App, shown: &Shown) -> Result<Answered, ApiError> {
    let Shown { room, ticket, request_id, .. } = shown;
    let claiming = permit(&app.auctions.claims).await?;
    let begun = passes::begin(app, room, *ticket, *request_id, Overrides::default(), Actor::Visitor).await;
    drop(claiming);
    let begun = begun?;
    let _signing = permit(&app.auctions.signings).await?;
    let pass = passes::sign_begun(app, room, begun).await?;
    let backend_uri = room.handle.with_board(|board| board.settings.backend_uri.clone());
    let body = WonAnswer {
        access_token: pass.tokens.access_token,
        backend_uri: backend_uri.map(|uri| uri.as_str().to_owned()),
    };
    Ok(answer::serialized(StatusCode::OK, Caching::Never, &body))
}

async fn permit(semaphore: &Semaphore) -> Result<tokio::sync::SemaphorePermit<'_>, ApiError> {
    semaphore.acquire().await.map_err(|_| ApiError::unavailable("The server is shutting down"))
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
fn come_back(app: &App, shown: &Shown, text: &str, told: Told) -> ApiError {
    app.auctions.counts.told_to_return.fetch_add(1, Ordering::Relaxed);
    let (board, now) = (shown.room.handle.board(), app.now());
    let (people_ahead, wait_seconds) = prospects(&board, &shown.ticket, now);
    let position = shown.ticket.position.get();
    let left = board.auction.as_ref().map_or(0, |auction| auction.round.since(now).div_ceil(1000));
    let seconds = Return {
        round_seconds: board.settings.round_seconds.get(),
        left_seconds: left,
        wait_seconds,
        poll_seconds: next_poll_seconds(people_ahead, wait_seconds, position),
        position,
        told,
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
    told: Told,
}

impl Return {
    fn after_seconds(&self) -> u64 {
        if self.told == Told::StillOpen {
            return self.left_seconds.saturating_sub(HOLD_MAX.as_secs() / 2).max(1);
        }
        // Told at the end of a round, the next one has just begun; told before, it begins when this one ends.
        let has_just_begun = self.left_seconds.saturating_mul(10) >= self.round_seconds.saturating_mul(9);
        let begins = if self.told == Told::AfterAWait && has_just_begun { 0 } else { self.left_seconds };
        let spread = self.position.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (self.round_seconds / 2).max(1);
        let soonest = (begins + spread).max(1);
        // Whoever may win the next round must not be sent past it.
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
        told: Told::AfterAWait,
    };

    #[test]
    fn whoever_was_held_long_enough_is_back_before_the_round_closes() {
        for left_seconds in [1, 40, 61, 3_540] {
            let after =
                Return { round_seconds: 3_600, left_seconds, told: Told::StillOpen, ..NEAR }.after_seconds();
            assert!(after >= 1 && after <= left_seconds, "{after} of {left_seconds}");
        }
    }

    #[test]
    fn whoever_lost_a_round_is_back_in_time_for_the_next() {
        for position in 1..100 {
            assert!((1..5).contains(&Return { position, ..NEAR }.after_seconds()), "{position}");
            let at_once = Return { position, left_seconds: 6, told: Told::AtOnce, ..NEAR }.after_seconds();
            assert!((6..11).contains(&at_once), "in the first half of the next round: {at_once}");
        }
        let times: std::collections::BTreeSet<u64> =
            (1..100).map(|position| Return { position, ..NEAR }.after_seconds()).collect();
        assert!(times.len() > 2, "not all in the same moment: {times:?}");
    }

    #[test]
    fn whoever_is_far_from_the_front_comes_later() {
        let far = Return { wait_seconds: Some(900), poll_seconds: 45, ..NEAR };
        assert_eq!(far.after_seconds(), 45);
        let unknown = Return { wait_seconds: None, poll_seconds: 60, ..NEAR };
        assert_eq!(unknown.after_seconds(), 60);
    }
}
