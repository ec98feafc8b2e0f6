//! The verdict on one request: in, wait, or no.
//!
//! Somebody inside is known by his cookie alone. Somebody in line is let in when the frontier has reached him, by the very
//! request that asks. Somebody new is let in on the spot while there is room, and else gets a place, but not before his cookie has come
//! back once: a client that keeps no cookies could not hold a place, and must not stand in anybody's way.

use std::sync::Arc;

use anteroom_core::session::STAY_GRACE_MILLIS;
use anteroom_core::settings::QueueingMethod;
use anteroom_core::{
    Answer, Board, Claim, Operation, Recognition, Refusal, RoomState, SessionStatus, Standing, Standstill,
    Ticket, UnixMillis,
};
use anteroom_store::EngineError;
use anteroom_store::engine::Actor;
use anteroom_tokens::cookie::CookieContent;

use crate::account::Verdict;
use crate::classify::Kind;
use crate::cookies::ARRIVED_MAX_AGE_SECONDS;
use crate::reject::Rejection;
use crate::rooms::Rule;
use crate::visit::{Due, key_of};
use crate::wait::Wait;

/// How long somebody may take to come back with the cookie he was let in with.
pub(crate) const PROVISIONAL_MILLIS: u64 = 30_000;
/// Marks the ticket of somebody who was let in while the store was lost: it stands in no line.
const LOSS_LANE: u8 = 15;

/// What is to be done with a request.
#[derive(Debug)]
pub(crate) enum Judgement {
    /// Pass it on.
    Proxy(Entry),
    /// Show the line, with this cookie.
    Wait(Wait, Option<CookieContent>),
    /// Refuse it.
    Reject(Rejection),
}

/// A request that is passed on.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) verdict: Verdict,
    /// The visit it belongs to.
    pub(crate) inside: Option<Inside>,
    /// A cookie that is new.
    pub(crate) cookie: Option<CookieContent>,
}

impl Entry {
    pub(crate) const fn without_visit(verdict: Verdict) -> Self {
        Self { verdict, inside: None, cookie: None }
    }
}

/// A visitor inside, by what his cookie says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inside {
    pub(crate) ticket: Ticket,
    pub(crate) admitted_at: UnixMillis,
    pub(crate) ends_at: UnixMillis,
    /// Whether his cookie has never come back before.
    pub(crate) is_provisional: bool,
    pub(crate) due: Due,
}

/// What a pass made for this room would say, should the visitor ever ask for one.
#[derive(Debug, Clone)]
pub struct PassTerms {
    /// `iss`.
    pub issuer: String,
    /// The key that would sign it.
    pub key_id: String,
}

/// What a verdict is based on.
pub(crate) struct Case<'request> {
    pub(crate) rule: &'request Rule,
    pub(crate) kind: Kind,
    pub(crate) cookie: Option<CookieContent>,
    pub(crate) now: UnixMillis,
    /// Whether the store has not answered for a while.
    pub(crate) store_is_lost: bool,
    pub(crate) terms: &'request (dyn Fn(&Board) -> PassTerms + Send + Sync),
}

/// The verdict.
pub(crate) async fn judge(case: &Case<'_>) -> Judgement {
    let settings = &case.rule.settings;
    if settings.queueing_method == QueueingMethod::Passthrough {
        return Judgement::Proxy(Entry::without_visit(Verdict::PassedThrough));
    }
    let board = case.rule.room.handle.board();
    match case.cookie {
        Some(CookieContent::Admitted { ticket, admitted_at, ends_at, provisional }) => {
            let inside =
                Inside { ticket, admitted_at, ends_at, is_provisional: provisional, due: Due::Nothing };
            match case.inside(&board, inside) {
                Some(entry) => Judgement::Proxy(entry),
                // His visit is over, and his cookie did come back.
                None => case.newcomer(&board, true).await,
            }
        }
        Some(CookieContent::Waiting { ticket }) => case.in_line(ticket).await,
        Some(CookieContent::Arrived { at, .. }) => {
            let is_recent = case.now.since(at) <= ARRIVED_MAX_AGE_SECONDS * 1000;
            case.newcomer(&board, is_recent).await
        }
        None => case.newcomer(&board, false).await,
    }
}

impl Case<'_> {
    /// Passes a request of somebody inside, if he is.
    fn inside(&self, board: &Board, inside: Inside) -> Option<Entry> {
        let (room, Inside { ticket, ends_at, .. }) = (&self.rule.room, inside);
        if self.now >= ends_at {
            return None;
        }
        if ticket.lane == LOSS_LANE {
            let is_of_this_line =
                board.segments.iter().any(|segment| segment.generation == ticket.generation);
            return is_of_this_line.then(|| Entry::without_visit(Verdict::LetInByLossMode));
        }
        // A cookie that is newer than the board is of a line that this node has not heard of yet; a reset makes it foreign.
        if board.recognise(&ticket, self.now) == Recognition::Foreign {
            return None;
        }
        room.visits.follow(board, self.now);
        if room.visits.is_dead(key_of(&ticket)) {
            return None;
        }
        let due = room.visits.note(key_of(&ticket), self.now, self.session_millis());
        Some(Entry { verdict: Verdict::Session, inside: Some(Inside { due, ..inside }), cookie: None })
    }

    fn session_millis(&self) -> u64 {
        self.rule.settings.session_duration.get() * 1000
    }

    /// Somebody who holds a ticket.
    async fn in_line(&self, ticket: Ticket) -> Judgement {
        let room = &self.rule.room;
        let proof = crate::tickets::Proof::Signed;
        let board =
            match crate::tickets::recognise(&room.handle, &room.refreshes, ticket, proof, self.now).await {
                Ok(Some(board)) => board,
                // The line was reset: he stands in none, and his cookie did come back.
                Ok(None) => return self.newcomer(&room.handle.board(), true).await,
                Err(_) if self.kind == Kind::SubResource => return not_inside(self.kind),
                Err(_) => return self.without_store(&room.handle.board(), Some(ticket)),
            };
        match board.standing(&ticket, self.now) {
            _ if self.kind == Kind::SubResource => not_inside(self.kind),
            Standing::Waiting { .. } => self.keeps_waiting(ticket),
            Standing::Offered { .. } | Standing::Passed | Standing::Settled => {
                self.enter(ticket, false).await
            }
        }
    }

    fn keeps_waiting(&self, ticket: Ticket) -> Judgement {
        if self.kind == Kind::Change {
            return not_inside(self.kind);
        }
        Judgement::Wait(Wait::InLine(ticket), Some(CookieContent::Waiting { ticket }))
    }

    /// Somebody who stands in no line. He gets a place if his cookie has come back; else he is let in while there is room.
    async fn newcomer(&self, board: &Arc<Board>, cookie_came_back: bool) -> Judgement {
        if self.kind != Kind::Navigation {
            return not_inside(self.kind);
        }
        if self.rule.settings.queueing_method == QueueingMethod::Reject {
            return Judgement::Reject(Rejection::TurnedAway);
        }
        if !board.state.takes_joins() {
            return Judgement::Reject(Rejection::Closed);
        }
        if self.store_is_lost {
            return self.without_store(board, None);
        }
        if cookie_came_back {
            return match self.rule.room.handle.join().await {
                Ok(ticket) => self.just_joined(ticket, false).await,
                Err(error) => self.not_joined(board, &error),
            };
        }
        let room = &self.rule.room;
        let Some(_permit) = room.spot.try_take(free_slots(board)) else {
            let [nonce] = [u64::from_le_bytes(anteroom_tokens::random::bytes())];
            let arrived = CookieContent::Arrived { at: self.now, nonce };
            return Judgement::Wait(Wait::Arriving, Some(arrived));
        };
        match room.handle.join().await {
            Ok(ticket) => self.just_joined(ticket, true).await,
            Err(error) => self.not_joined(board, &error),
        }
    }

    /// A place was taken: it is entered at once where it is served already.
    pub(crate) async fn just_joined(&self, ticket: Ticket, is_provisional: bool) -> Judgement {
        let standing = self.rule.room.handle.with_board(|board| board.standing(&ticket, self.now));
        match standing {
            Standing::Offered { .. } => self.enter(ticket, is_provisional).await,
            _ => self.keeps_waiting(ticket),
        }
    }

    fn not_joined(&self, board: &Arc<Board>, error: &EngineError) -> Judgement {
        match error {
            EngineError::Refused(Refusal::NotJoinable(_) | Refusal::RoomClosed) => {
                Judgement::Reject(Rejection::Closed)
            }
            EngineError::Store(_) => self.without_store(board, None),
            _ => Judgement::Wait(Wait::Held(None), None),
        }
    }

    /// Claims a place and lets its holder in.
    async fn enter(&self, ticket: Ticket, is_provisional: bool) -> Judgement {
        let room = &self.rule.room;
        let board = room.handle.board();
        if self.store_is_lost {
            return self.without_store(&board, Some(ticket));
        }
        let lasts_millis = if is_provisional { PROVISIONAL_MILLIS } else { self.session_millis() };
        let PassTerms { issuer, key_id } = (self.terms)(&board);
        let claim = Claim {
            ticket,
            request_id: room.request_ids.seal(&ticket),
            issuer,
            validity_seconds: None,
            key_id,
            stay_millis: Some(lasts_millis + STAY_GRACE_MILLIS),
        };
        let session = match room.handle.operate(Operation::Claim(claim), Actor::Visitor).await {
            Ok(Answer::Claimed { session, .. }) => session,
            Err(EngineError::Refused(Refusal::NotServed)) => return self.keeps_waiting(ticket),
            Err(EngineError::Refused(Refusal::RoomClosed)) => return Judgement::Reject(Rejection::Closed),
            Err(EngineError::Refused(_)) | Ok(_) => return self.gone(),
            Err(EngineError::Store(_)) => return self.without_store(&board, Some(ticket)),
            Err(_) => return Judgement::Wait(Wait::Held(Some(ticket)), None),
        };
        room.loss.over();
        let ends_at = UnixMillis(session.ends_at().0.saturating_sub(STAY_GRACE_MILLIS));
        let is_over = session.status != SessionStatus::Active || ends_at <= self.now;
        if is_over || room.visits.is_dead(session.key) {
            // A visit of this ticket that is over. Whoever wants in again stands in line again.
            return self.gone();
        }
        let admitted_at = UnixMillis(session.issued_at_seconds * 1000);
        room.visits.begun(session.key, self.now, ends_at, is_provisional);
        let inside = Inside { ticket, admitted_at, ends_at, is_provisional, due: Due::Nothing };
        let cookie = CookieContent::Admitted { ticket, admitted_at, ends_at, provisional: is_provisional };
        Judgement::Proxy(Entry { verdict: Verdict::Admitted, inside: Some(inside), cookie: Some(cookie) })
    }

    /// The place is gone. The cookie that says so lets the next visit take another one.
    fn gone(&self) -> Judgement {
        match self.kind {
            Kind::Navigation | Kind::Read => {
                Judgement::Wait(Wait::Gone, Some(CookieContent::Arrived { at: self.now, nonce: 0 }))
            }
            Kind::SubResource | Kind::Change => not_inside(self.kind),
        }
    }

    /// The store is lost, so nobody can be given anything: what the room does about newcomers then.
    fn without_store(&self, board: &Arc<Board>, ticket: Option<Ticket>) -> Judgement {
        if self.kind == Kind::Change || self.kind == Kind::SubResource {
            return not_inside(self.kind);
        }
        let newest = board.segments.last();
        if board.state == RoomState::Open
            && self.rule.room.loss.lets_in(board, self.now)
            && let Some((generation, position)) =
                newest.and_then(|newest| Some((newest.generation, anteroom_core::Position::new(1)?)))
        {
            let ticket = Ticket { lane: LOSS_LANE, generation, position, entered: 0, copy: 0 };
            let ends_at = self.now.plus(self.session_millis());
            let cookie =
                CookieContent::Admitted { ticket, admitted_at: self.now, ends_at, provisional: false };
            let entry = Entry { verdict: Verdict::LetInByLossMode, inside: None, cookie: Some(cookie) };
            return Judgement::Proxy(entry);
        }
        Judgement::Wait(Wait::Held(ticket), ticket.map(|ticket| CookieContent::Waiting { ticket }))
    }
}

const fn not_inside(kind: Kind) -> Judgement {
    Judgement::Reject(Rejection::NotInside { is_change: matches!(kind, Kind::Change) })
}

/// How many people who join now would be served at once.
fn free_slots(board: &Board) -> u64 {
    let moves_for_newcomers =
        matches!(board.standstill, None | Some(Standstill::NobodyWaiting | Standstill::ByHandOnly));
    let somebody_waits = board.waiting > board.offers;
    if somebody_waits || board.settings.is_auction() || !board.state.admits() || !moves_for_newcomers {
        return 0;
    }
    match board.capacity {
        Some(capacity) => {
            let free = capacity.saturating_sub(board.active + board.offers);
            free.min(board.rate_budget.unwrap_or(u64::MAX))
        }
        // Without a capacity, what the frontier has run ahead of the line is free.
        None => board.segments.last().map_or(0, |newest| newest.serving.saturating_sub(newest.joined)),
    }
}
