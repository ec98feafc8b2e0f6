//! Auctions: each round's free slots go to the earliest of those who check in.
//!
//! # The path of a check-in
//! ticket → a claim, which finds an earlier pass, an open win or a spare slot → else a seat at the room's table (`table`), if there is one
//! free or a later ticket has one (after the end of the round that the board shows, a seat at the next, whose slots are not counted
//! yet); a ticket without a seat is refused at once → the connection stays open until the round closes
//! (`rounds`), and a client that hangs up is not present → winners claim and get their pass, the others are refused.
//!
//! A winner whose connection broke asks again, and the claim finds the pass or the win, which stays open for a round.
//! `/claim` and `/generate_token` check in too ([`Admission::note_presence`]), without waiting.
//!
//! *Invariant:* a node remembers of a round no more tickets than it can have winners.
//! *Invariant:* no client is held for longer than a round and [`SETTLE_TIMEOUT`], nor for longer than [`HOLD_MAX`].

mod rounds;
mod table;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anteroom_core::auction::COLLECTING_MILLIS;
use anteroom_core::{Board, SessionKey, Standing, Ticket, UnixMillis};
use anteroom_engine::EngineError;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot, watch};
use tokio::task::JoinSet;

use self::rounds::Rounds;
pub use self::table::{CheckIn, Manner, Presence, RoundOutcome, RoundTable};
use crate::{Admission, AdmissionError, ClaimRequest, Pass, PresentedTicket, RoomView};

/// How long after a round's end its settlement is waited for.
pub const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest that a check-in is held, whatever the round's length: proxies and clients cut longer waits.
pub const HOLD_MAX: Duration = Duration::from_mins(1);
/// Winners who claim at once; fewer than a room's queue takes, because others call too.
const CLAIMS_MAX: usize = 4_096;
/// Winners whose passes are signed at once; fewer than the signers' queue takes.
const SIGNINGS_MAX: usize = 512;

/// Everything that the auctions of all rooms share.
pub struct Auctions {
    counts: Arc<AuctionCounts>,
    claims: Semaphore,
    signings: Semaphore,
    closing: watch::Sender<bool>,
    /// One for each room whose round has check-ins. Each ends when the server closes.
    tasks: Mutex<JoinSet<()>>,
}

/// What auctions came to so far.
#[derive(Debug, Default)]
pub struct AuctionCounts {
    /// Rounds settled.
    pub rounds: AtomicU64,
    /// Winners.
    pub winners: AtomicU64,
    /// Check-ins refused with a time to return.
    pub refused_until_later: AtomicU64,
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

    /// What they came to so far.
    pub fn counts(&self) -> &AuctionCounts {
        &self.counts
    }

    /// Ends every round: clients that wait, and those that come later, are refused with a time to come back.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }
}

/// Whether a claim is worth trying: a slot is spare, or the frontier has passed the ticket, which may then have a pass already.
pub fn may_get_in(board: &Board, ticket: &Ticket, now: UnixMillis) -> bool {
    let spare = board.auction.as_ref().is_some_and(|auction| auction.spare > 0);
    spare || !matches!(board.standing(ticket, now), Standing::Waiting { .. })
}

impl Admission {
    /// Takes a seat at the open round, and sees that a task closes it.
    pub fn check_in(&self, room: &RoomView, ticket: &Ticket, manner: Manner) -> CheckIn {
        let key = SessionKey { generation: ticket.generation, position: ticket.position };
        let (check_in, must_start) = room.round_table.check_in(&room.handle, key, manner, self.now());
        if must_start {
            self.close_rounds_of(room);
        }
        check_in
    }

    /// A ticket asked to be let in before its turn had come. In an auction its holder counts as present until the round's end, so that a
    /// client that comes back every round wins and claims.
    pub fn note_presence(&self, room: &RoomView, ticket: &Ticket) {
        if room.handle.with_board(|board| board.auction.is_some()) {
            drop(self.check_in(room, ticket, Manner::ComesBack));
        }
    }

    /// Waits for the outcome of a seat; a client that hangs up drops the presence, and with it the seat.
    pub async fn wait_for_round(
        &self,
        room: &RoomView,
        presence: Presence,
        outcome: oneshot::Receiver<RoundOutcome>,
    ) -> Result<RoundOutcome, AdmissionError> {
        let (round, round_millis) = room.handle.with_board(|board| {
            (board.auction.as_ref().map(|auction| auction.round), board.settings.round_millis())
        });
        let now = self.now();
        // Where the last round has closed and is not settled yet, the seat is one of the next.
        let left = match round.map(|round| round.since(now)) {
            Some(0) => round_millis.saturating_add(COLLECTING_MILLIS),
            left => left.unwrap_or(0).min(round_millis),
        };
        let left = Duration::from_millis(left);
        let timeout = (left + SETTLE_TIMEOUT).min(HOLD_MAX);
        let outcome = tokio::time::timeout(timeout, outcome).await;
        drop(presence);
        match outcome {
            Err(_) if timeout < left => Ok(RoundOutcome::NotOverYet),
            Ok(Ok(outcome)) => Ok(outcome),
            Err(_) | Ok(Err(_)) => Err(AdmissionError::RoundNotSettled),
        }
    }

    /// Claims, and signs the pass. Many winners claim at once, so each step is bounded; claims go ahead of signatures, because a
    /// win ends with the next round, and a session does not.
    pub async fn claim_win(&self, presented: &PresentedTicket) -> Result<Pass, AdmissionError> {
        let PresentedTicket { room, ticket, request_id, .. } = presented;
        let claiming = permit(&self.auctions.claims).await?;
        let unsigned = self.begin(room, ClaimRequest::of_visitor(*ticket, *request_id)).await;
        drop(claiming);
        let unsigned = unsigned?;
        let _signing = permit(&self.auctions.signings).await?;
        self.sign(room, unsigned).await
    }

    /// The one place where tasks of auctions begin. Each watches `closing`, and the set ends with the server.
    fn close_rounds_of(&self, room: &RoomView) {
        let rounds = Rounds {
            engine: Arc::clone(&self.engine),
            room: Arc::clone(&room.handle),
            table: Arc::clone(&room.round_table),
            counts: Arc::clone(&self.auctions.counts),
        };
        let mut tasks = self.auctions.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(rounds.run(self.auctions.closing.subscribe()));
    }
}

async fn permit(semaphore: &Semaphore) -> Result<SemaphorePermit<'_>, AdmissionError> {
    semaphore.acquire().await.map_err(|_| EngineError::Stopped.into())
}
