//! The verdict on one request: in, wait, or no.
//!
//! A visitor inside is known by their cookie alone. A visitor in line is let in when the frontier has reached them, by
//! the very request that asks. A newcomer holds nothing before their cookie has come back once: a client that keeps no
//! cookies could hold neither a place nor a visit, and must not hold up others. So a newcomer who opens a page is
//! redirected through `/.anteroom/enter` (`line/door.rs`), where the cookie has to be.

pub(crate) mod cookies;
pub(crate) mod loss_mode;
pub(crate) mod visits;

use std::net::IpAddr;
use std::sync::Arc;

use anteroom_admission::idempotent_joins::JoinKey;
use anteroom_admission::{Admission, AdmissionError, ClaimRequest, ClaimTerms};
use anteroom_core::session::STAY_GRACE_MILLIS;
use anteroom_core::settings::QueueingMethod;
use anteroom_core::{
    Board, PlaceStatus, Position, Recognition, Refusal, RoomState, SessionKey, SessionStatus, Standing,
    Ticket, UnixMillis,
};
use anteroom_engine::EngineError;
use anteroom_store::contract::SESSION_RETENTION_MILLIS;
use anteroom_tokens::cookie::CookieContent;
use anteroom_tokens::random;

use crate::account::Verdict;
use crate::classify::Kind;
use crate::classify::rooms::Rule;
use crate::line::wait::{self, Wait, Waiter};
use crate::reject::Rejection;
use crate::verdict::cookies::{ARRIVED_MAX_AGE_SECONDS, CookieKind};
use crate::verdict::visits::{LastAnswer, Touch, key_of};

/// Marks the ticket of a visitor let in while the store was lost: it stands in no line.
pub(crate) const LOSS_LANE: u8 = 15;

/// What is to be done with a request.
#[derive(Debug)]
pub(crate) enum Judgement {
    /// Pass it on.
    Proxy(Entry),
    /// Show the line, with this cookie.
    Wait(Wait, Option<CookieContent>),
    /// Nothing before this cookie has come back.
    Arrive(CookieContent),
    /// Refuse it.
    Reject(Rejection),
}

/// A request that is passed on.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) verdict: Verdict,
    /// The visit it belongs to.
    pub(crate) inside: Option<InsideVisitor>,
    /// A cookie that is new.
    pub(crate) cookie: Option<(CookieKind, CookieContent)>,
    /// When a visit without a slot is over.
    pub(crate) ends_at: Option<UnixMillis>,
}

impl Entry {
    pub(crate) const fn without_visit(verdict: Verdict) -> Self {
        Self { verdict, inside: None, cookie: None, ends_at: None }
    }
}

/// A visitor inside, by what their cookie says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InsideVisitor {
    pub(crate) ticket: Ticket,
    pub(crate) admitted_at: UnixMillis,
    pub(crate) ends_at: UnixMillis,
}

/// What lets a visitor enter whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryTrigger {
    /// By any request, unless the room wants a button to be pressed.
    Request,
    /// The button was pressed.
    Button,
    /// Not here: another part claims for the visitor, and no cookie admits here.
    HandOff,
    /// The same, and the visitor has pressed the button. It takes no place: that is charged where the page is opened.
    HandOffButton,
    /// Nothing: the response could not carry the cookie of a new visit. One that has begun goes on.
    Never,
}

impl EntryTrigger {
    /// Whether another part claims for the visitor.
    const fn is_hand_off(self) -> bool {
        matches!(self, Self::HandOff | Self::HandOffButton)
    }
}

/// What a verdict is based on.
pub(crate) struct Case<'request> {
    pub(crate) rule: &'request Rule,
    pub(crate) kind: Kind,
    pub(crate) entry_trigger: EntryTrigger,
    /// The cookie of a place or a visit.
    pub(crate) cookie: Option<CookieContent>,
    /// The cookie of a visitor let in while the store was lost.
    pub(crate) loss_cookie: Option<CookieContent>,
    /// Where the visitor comes from.
    pub(crate) client: IpAddr,
    pub(crate) now: UnixMillis,
    /// Whether the store has not answered for a while.
    pub(crate) store_is_lost: bool,
    pub(crate) admission: &'request Admission,
}

/// The verdict.
pub(crate) async fn judge(case: &Case<'_>) -> Judgement {
    let settings = &case.rule.settings;
    if settings.queueing_method == QueueingMethod::Passthrough && !case.entry_trigger.is_hand_off() {
        return Judgement::Proxy(Entry::without_visit(Verdict::PassedThrough));
    }
    let board = case.rule.room.handle.board();
    match case.cookie {
        Some(CookieContent::Admitted { .. }) => match case.visitor_inside(&board).await {
            Some(inside) => {
                let entry = Entry::without_visit(Verdict::Session);
                Judgement::Proxy(Entry { inside: Some(inside), ..entry })
            }
            // The visit is over.
            None => case.judge_newcomer(&board).await,
        },
        Some(CookieContent::Waiting { ticket, people_ahead_at_first }) => {
            case.judge_in_line(&board, Waiter { ticket, people_ahead_at_first }).await
        }
        Some(CookieContent::Arrived { .. }) | None => case.judge_newcomer(&board).await,
    }
}

impl Case<'_> {
    /// The visitor, if inside.
    pub(crate) async fn visitor_inside(&self, board: &Board) -> Option<InsideVisitor> {
        let Some(CookieContent::Admitted { ticket, admitted_at, ends_at }) = self.cookie else {
            return None;
        };
        let (room, key) = (&self.rule.room, key_of(&ticket));
        // A cookie that is newer than the board is of a line that this node has not heard of yet; a reset makes it foreign.
        if ticket.lane == LOSS_LANE || board.recognise(&ticket, self.now) == Recognition::Foreign {
            return None;
        }
        room.visits.follow(board, self.now);
        if room.visits.is_revoked(key) || !self.goes_on(key, admitted_at).await {
            return None;
        }
        let inside = InsideVisitor { ticket, admitted_at, ends_at };
        if self.now < ends_at || room.visits.ends_at(key).is_some_and(|ends_at| self.now < ends_at) {
            return Some(inside);
        }
        // Overdue by the cookie. The store may have extended the visit without a new cookie: a connection that was
        // upgraded does so, or a response was lost.
        let latest = admitted_at.plus((self.rule.settings.session_max.get() + 1) * 1000);
        if self.store_is_lost || self.now >= latest {
            return None;
        }
        let session_millis = self.session_millis();
        room.touch_detached(key, Touch { now: self.now, session_millis }).await;
        room.visits.ends_at(key).is_some_and(|ends_at| self.now < ends_at).then_some(inside)
    }

    /// Whether a visit whose cookie is good goes on. One that this node has not heard of may have ended long ago, on another node or before
    /// a restart: the store is asked before the request is passed on.
    async fn goes_on(&self, key: SessionKey, admitted_at: UnixMillis) -> bool {
        let room = &self.rule.room;
        if self.store_is_lost {
            return true;
        }
        let mut last_answer = room.visits.last_answer(key);
        if last_answer == LastAnswer::Nothing {
            let touch = Touch { now: self.now, session_millis: self.session_millis() };
            room.touch_at_first_sight(key, touch).await;
            if room.visits.is_revoked(key) {
                return false;
            }
            last_answer = room.visits.last_answer(key);
        }
        // A visit that was ended is forgotten by the store a day later, at the earliest.
        let may_be_forgotten = self.now.since(admitted_at) >= SESSION_RETENTION_MILLIS;
        !(may_be_forgotten && last_answer == LastAnswer::Unknown)
    }

    /// Whether the visitor would take a place, if this is a navigation: they have none, are not inside as far as can be
    /// seen without the store, and their cookie has come back.
    pub(crate) fn would_join(&self) -> bool {
        let is_ours = |ticket: &Ticket| {
            self.rule.room.handle.with_board(|board| board.recognise(ticket, self.now))
                != Recognition::Foreign
        };
        let holds = match &self.cookie {
            // A visitor whose visit is over takes another place.
            Some(CookieContent::Waiting { ticket, .. }) => {
                is_ours(ticket) && !self.rule.room.visits.is_revoked(key_of(ticket))
            }
            Some(CookieContent::Admitted { ticket, ends_at, .. }) => {
                let (visits, key) = (&self.rule.room.visits, key_of(ticket));
                let ends_at = visits.ends_at(key).map_or(*ends_at, |extended| extended.max(*ends_at));
                self.now < ends_at && is_ours(ticket) && !visits.is_revoked(key)
            }
            Some(CookieContent::Arrived { .. }) | None => false,
        };
        self.kind == Kind::Navigation && !holds && self.join_key().is_some()
    }

    /// How long a slot is held without a request.
    pub(crate) fn stay_millis(&self) -> u64 {
        self.session_millis() + STAY_GRACE_MILLIS
    }

    fn session_millis(&self) -> u64 {
        self.rule.settings.session_duration.get() * 1000
    }

    /// A visitor let in while the store was lost.
    fn inside_by_loss_mode(&self, board: &Board) -> Option<Judgement> {
        let Some(CookieContent::Admitted { ticket, ends_at, .. }) = self.loss_cookie else { return None };
        let is_of_this_line = board.segments.iter().any(|segment| segment.generation == ticket.generation);
        let is_inside = ticket.lane == LOSS_LANE && self.now < ends_at && is_of_this_line;
        let entry = Entry { ends_at: Some(ends_at), ..Entry::without_visit(Verdict::LetInByLossMode) };
        is_inside.then_some(Judgement::Proxy(entry))
    }

    /// A visitor who holds a ticket.
    async fn judge_in_line(&self, board: &Arc<Board>, waiter: Waiter) -> Judgement {
        let (room, ticket) = (&self.rule.room, waiter.ticket);
        let board = if self.store_is_lost {
            Arc::clone(board)
        } else {
            let proof = anteroom_admission::Proof::Signed;
            match anteroom_admission::recognise(&room.handle, &room.refreshes, ticket, proof, self.now).await
            {
                Ok(Some(board)) => board,
                // The line was reset: the visitor stands in none.
                Ok(None) => return self.judge_newcomer(&room.handle.board()).await,
                Err(_) => return self.without_store(board, Some(waiter)),
            }
        };
        if board.is_moved(&ticket) {
            return self.place_moved();
        }
        // The board does not show places that were given up before they were served.
        if room.visits.is_revoked(key_of(&ticket)) {
            return self.after_visit(&board).await;
        }
        match board.standing(&ticket, self.now) {
            Standing::Offered { .. } | Standing::Passed | Standing::Settled
                if self.kind != Kind::SubResource && !self.store_is_lost =>
            {
                self.judge_served(waiter).await
            }
            // In an auction a slot may be spare: the first who asks has it.
            Standing::Waiting { .. }
                if self.kind == Kind::Navigation
                    && !self.store_is_lost
                    && board.auction.as_ref().is_some_and(|auction| auction.spare > 0) =>
            {
                self.enter(waiter).await
            }
            _ => match self.inside_by_loss_mode(&board) {
                Some(inside) => inside,
                None if self.store_is_lost => self.without_store(&board, Some(waiter)),
                None => self.keep_waiting(waiter),
            },
        }
    }

    /// A visitor whom the frontier has reached: they come in, or learn that they may.
    async fn judge_served(&self, waiter: Waiter) -> Judgement {
        let claims = match self.entry_trigger {
            EntryTrigger::Request => self.rule.settings.auto_enter,
            EntryTrigger::Button => true,
            EntryTrigger::HandOff | EntryTrigger::HandOffButton | EntryTrigger::Never => false,
        };
        if claims {
            return self.enter(waiter).await;
        }
        let (room, ticket) = (&self.rule.room, waiter.ticket);
        match room.handle.place_status(ticket, self.now).await {
            Ok(PlaceStatus::Offered) => self.offer_entry(waiter),
            Ok(PlaceStatus::Waiting) => self.keep_waiting(waiter),
            // The visitor has come in before, by another window or by a pass.
            Ok(PlaceStatus::Claimed(session)) if session.is_alive(self.now) => {
                if self.entry_trigger.is_hand_off() {
                    self.offer_entry(waiter)
                } else {
                    self.enter(waiter).await
                }
            }
            Ok(PlaceStatus::Claimed(_)) => self.after_visit(&room.handle.board()).await,
            Err(EngineError::Refused(Refusal::Moved)) => self.place_moved(),
            Ok(PlaceStatus::Gone) | Err(EngineError::Refused(_)) => self.place_gone(),
            Err(_) => self.without_store(&room.handle.board(), Some(waiter)),
        }
    }

    /// The visit is over, and the visitor comes again. A site without a gateway sends visitors here whenever they have
    /// no pass, so they stand in line again.
    async fn after_visit(&self, board: &Arc<Board>) -> Judgement {
        let comes_again = self.entry_trigger.is_hand_off() && self.kind == Kind::Navigation;
        if comes_again { self.judge_newcomer(board).await } else { self.place_gone() }
    }

    /// It is the visitor's turn, and the response says so.
    fn offer_entry(&self, waiter: Waiter) -> Judgement {
        match self.kind {
            Kind::Change | Kind::SubResource => not_inside(self.kind),
            Kind::Navigation | Kind::Read => Judgement::Wait(Wait::Turn(waiter), Some(waiter.cookie())),
        }
    }

    fn keep_waiting(&self, waiter: Waiter) -> Judgement {
        match self.kind {
            Kind::Change | Kind::SubResource => not_inside(self.kind),
            Kind::Navigation | Kind::Read => {
                let waiter =
                    self.rule.room.handle.with_board(|board| waiter.with_people_ahead(board, self.now));
                Judgement::Wait(Wait::InLine(waiter), Some(waiter.cookie()))
            }
        }
    }

    /// The place is on another device. The cookie stays, so that every later request gets the same response.
    fn place_moved(&self) -> Judgement {
        match self.kind {
            Kind::Navigation | Kind::Read => Judgement::Wait(Wait::Moved, None),
            Kind::SubResource | Kind::Change => not_inside(self.kind),
        }
    }

    /// What the cookie of a visitor without a place proves: that they keep cookies, and which place they took by it
    /// before.
    fn join_key(&self) -> Option<JoinKey> {
        let mut key = JoinKey::default();
        let (tag, first, second) = match self.cookie? {
            CookieContent::Arrived { at, nonce } => {
                let is_recent = self.now.since(at) < ARRIVED_MAX_AGE_SECONDS * 1000;
                (1, is_recent.then_some(nonce)?, at.0)
            }
            CookieContent::Waiting { ticket, .. } | CookieContent::Admitted { ticket, .. } => {
                (2, ticket.generation.number(), ticket.position.get())
            }
        };
        key[0] = tag;
        key[8..16].copy_from_slice(&first.to_be_bytes());
        key[16..24].copy_from_slice(&second.to_be_bytes());
        Some(key)
    }

    /// A visitor who stands in no line. They get a place if their cookie has come back, and come in by it at once while
    /// there is room.
    async fn judge_newcomer(&self, board: &Arc<Board>) -> Judgement {
        if let Some(inside) = self.inside_by_loss_mode(board) {
            return inside;
        }
        if self.kind != Kind::Navigation || self.entry_trigger == EntryTrigger::HandOffButton {
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
        let Some(key) = self.join_key() else { return Judgement::Arrive(self.new_arrival()) };
        match self.rule.room.join(Some(key), self.client, self.now).await {
            Ok(ticket) => self.after_join(ticket).await,
            Err(AdmissionError::Engine(EngineError::Refused(Refusal::Moved))) => self.place_moved(),
            Err(error) => self.join_failed(board, &error),
        }
    }

    /// What a client that keeps cookies brings back. It is good for one place.
    pub(crate) fn new_arrival(&self) -> CookieContent {
        CookieContent::Arrived { at: self.now, nonce: u64::from_le_bytes(random::bytes()) }
    }

    /// A place was taken by a visitor who keeps cookies: it is entered at once where it is served already.
    async fn after_join(&self, ticket: Ticket) -> Judgement {
        let standing = self.rule.room.handle.with_board(|board| board.standing(&ticket, self.now));
        match standing {
            Standing::Waiting { .. } => self.keep_waiting(Waiter::new(ticket)),
            _ => self.enter(Waiter::new(ticket)).await,
        }
    }

    fn join_failed(&self, board: &Arc<Board>, error: &AdmissionError) -> Judgement {
        match error {
            AdmissionError::Engine(EngineError::Refused(Refusal::NotJoinable(_) | Refusal::RoomClosed)) => {
                Judgement::Reject(Rejection::Closed)
            }
            AdmissionError::ManyArriving { retry_after_seconds } => {
                Judgement::Wait(Wait::ManyArriving { retry_after_seconds: *retry_after_seconds }, None)
            }
            _ => self.without_store(board, None),
        }
    }

    /// Claims a place and lets its holder in.
    async fn enter(&self, waiter: Waiter) -> Judgement {
        if self.entry_trigger.is_hand_off() {
            return self.offer_entry(waiter);
        }
        let ticket = waiter.ticket;
        let room = &self.rule.room;
        let board = room.handle.board();
        let request_id = room.request_ids.seal(&ticket);
        let stay_millis = Some(self.stay_millis());
        let prefix = room.prefix_tags.tag(self.client);
        let terms = ClaimTerms { stay_millis, prefix, ..ClaimTerms::default() };
        let request = ClaimRequest { terms, ..ClaimRequest::of_visitor(ticket, request_id) };
        let claim = self.admission.claim_session(room, request);
        let session = match claim.await {
            Ok((session, _)) => session,
            Err(AdmissionError::Engine(EngineError::Refused(Refusal::NotServed))) => {
                return self.keep_waiting(waiter);
            }
            Err(AdmissionError::Engine(EngineError::Refused(Refusal::Moved))) => return self.place_moved(),
            Err(AdmissionError::Engine(EngineError::Refused(Refusal::RoomClosed))) => {
                return Judgement::Reject(Rejection::Closed);
            }
            Err(AdmissionError::Engine(EngineError::Refused(_)) | AdmissionError::NotAnswered) => {
                return self.place_gone();
            }
            Err(_) => return self.without_store(&board, Some(waiter)),
        };
        let ends_at = UnixMillis(session.ends_at().0.saturating_sub(STAY_GRACE_MILLIS));
        let is_over = session.status != SessionStatus::Active || session.outcome().is_some();
        if is_over || ends_at <= self.now || room.visits.is_revoked(session.key) {
            // A visit of this ticket that is over. To get in again, the visitor stands in line again.
            return self.place_gone();
        }
        let admitted_at = UnixMillis(session.issued_at_seconds * 1000);
        room.visits.begin(session.key, self.now, ends_at);
        let inside = InsideVisitor { ticket, admitted_at, ends_at };
        let cookie = CookieContent::Admitted { ticket, admitted_at, ends_at };
        let entry = Entry::without_visit(Verdict::Admitted);
        Judgement::Proxy(Entry { inside: Some(inside), cookie: Some((CookieKind::Place, cookie)), ..entry })
    }

    /// The place is gone. The cookie that says so lets the next visit take another one.
    fn place_gone(&self) -> Judgement {
        match self.kind {
            Kind::Navigation | Kind::Read => Judgement::Wait(Wait::Gone, Some(self.new_arrival())),
            Kind::SubResource | Kind::Change => not_inside(self.kind),
        }
    }

    /// Nothing can be written. If that is because the store is lost, the room decides about newcomers; places in line
    /// stay with their holders.
    fn without_store(&self, board: &Arc<Board>, waiter: Option<Waiter>) -> Judgement {
        if self.kind == Kind::Change || self.kind == Kind::SubResource {
            return not_inside(self.kind);
        }
        let people_ahead = waiter.map(|waiter| wait::people_ahead(board, &waiter.ticket, self.now));
        let newest = board.segments.last().map(|newest| newest.generation);
        if self.store_is_lost
            && !self.entry_trigger.is_hand_off()
            && self.entry_trigger != EntryTrigger::Never
            && board.state == RoomState::Open
            && self.rule.room.loss.lets_in(board, people_ahead, self.now)
            && let (Some(generation), Some(position)) = (newest, Position::new(1))
        {
            let ticket = Ticket { lane: LOSS_LANE, generation, position, entered: 0, copy: 0 };
            let (admitted_at, ends_at) = (self.now, self.now.plus(self.session_millis()));
            let cookie = CookieContent::Admitted { ticket, admitted_at, ends_at };
            return Judgement::Proxy(Entry {
                cookie: Some((CookieKind::Loss, cookie)),
                ends_at: Some(ends_at),
                ..Entry::without_visit(Verdict::LetInByLossMode)
            });
        }
        Judgement::Wait(Wait::Held(waiter), waiter.map(Waiter::cookie))
    }
}

const fn not_inside(kind: Kind) -> Judgement {
    Judgement::Reject(Rejection::NotInside { is_change: matches!(kind, Kind::Change) })
}
