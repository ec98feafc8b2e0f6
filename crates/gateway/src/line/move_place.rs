//! Taking a place to another device: a sealed link, opened there. The page behind the link asks first, because programs
//! that preview links open them too; the place moves when the visitor confirms, and from then on the old device sees
//! that it has moved.
//!
//! The response to a confirmation can be lost. So the question comes with a cookie that identifies the browser: a
//! repeated confirmation, or opening the link again, returns the same place (`anteroom_core::moves`).

use anteroom_core::{Answer, Mover, Operation, PlaceStatus, Recognition, Refusal, Standing, Ticket};
use anteroom_engine::{Actor, EngineError};
use anteroom_pages::{Page, Situation, qr_svg};
use anteroom_tokens::api_key::ApiKeyDigest;
use anteroom_tokens::codes::{Code, MOVE_SECONDS};
use anteroom_tokens::cookie::CookieContent;
use anteroom_tokens::random;
use http::header;
use http::{Request, Response, StatusCode};
use serde_json::json;

use crate::LINE_PATH;
use crate::body::GatewayBody;
use crate::classify::request_target::host_of;
use crate::gateway::{cookie_of, set_cookie};
use crate::line::page;
use crate::line::query::{escape, parameter, return_path};
use crate::line::wait::{Wait, Waiter};
use crate::line::{JSON, LineCall, see_other};
use crate::verdict::cookies::{self, CookieKind};
use crate::verdict::visits::key_of;

/// The parameter that holds the code.
const CODE: &str = "code";
/// The longest link that says where to go on. A longer one would be a code that no camera reads, and much work to draw.
const LINK_MAX_BYTES: usize = 500;
const INSIDE: &str = "You are inside already: leave first";
const NOT_KNOWN: &str = "The line cannot be reached just now, and it is not known whether the place has come here. \
                         Open the link again: it tells, and takes the place if it has not";

impl LineCall<'_> {
    /// The link that takes the place to another device.
    pub(crate) async fn move_out<B>(&self, request: &Request<B>) -> Response<GatewayBody> {
        let Some(CookieContent::Waiting { ticket, people_ahead_at_first }) = self.case.cookie else {
            return self.refuse(StatusCode::CONFLICT, "You have no place in this line to take elsewhere");
        };
        let waiter = Waiter { ticket, people_ahead_at_first };
        match self.standing(waiter).await {
            Wait::InLine(_) => {}
            // A visitor who has come in holds no place any more.
            Wait::Turn(waiter) => match self.has_claimed(&ticket).await {
                Ok(false) => {}
                Ok(true) => return self.refuse(StatusCode::CONFLICT, INSIDE),
                Err(_) => return self.wait_response(Wait::Held(Some(waiter)), request),
            },
            Wait::Gone if !self.reader.wants_page => {
                return self.refuse(StatusCode::GONE, "Your place is gone: take another one");
            }
            other => return self.wait_response(other, request),
        }
        let Some(link) = self.link(request, ticket) else {
            return self
                .refuse(StatusCode::BAD_REQUEST, "The request names no host that a link could lead to");
        };
        if !self.reader.wants_page {
            let body = json!({ "url": link, "qr": qr_svg(&link), "expires_in_seconds": MOVE_SECONDS });
            return page::json(StatusCode::OK, JSON, &body);
        }
        let page = Page {
            situation: Situation::MoveOut,
            link: Some((link, MOVE_SECONDS)),
            home: Some(self.address(request)),
            ..self.page()
        };
        self.reader.page(StatusCode::OK, &page)
    }

    fn page(&self) -> Page<'_> {
        let rule = self.case.rule;
        Page { settings: Some(&rule.settings), room: Some(rule.room.handle.id().as_str()), ..Page::default() }
    }

    /// A link to the host that visitors of this room come to: the other device's cookie will be of it.
    fn link<B>(&self, request: &Request<B>, ticket: Ticket) -> Option<String> {
        let room = self.case.rule.room.handle.id();
        let code = self.codes.seal_move(&Code { room: room.clone(), ticket, issued_at: self.case.now });
        let site = self.site(request)?;
        let link = format!("{site}{LINE_PATH}/take?room={room}&{CODE}={code}");
        let going_on = return_path(request.uri().query())
            .map(|address| format!("{link}&return={}", escape(&address)))
            .filter(|going_on| going_on.len() <= LINK_MAX_BYTES);
        Some(going_on.unwrap_or(link))
    }

    /// This very host, where the room names it. Else the public address, if there is one: a proxy before us may name another host than
    /// visitors do.
    fn site<B>(&self, request: &Request<B>) -> Option<String> {
        let rule = self.case.rule;
        let is_named = rule.is_protected && rule.names(host_of(request));
        if let Some(url) = self.public_url.filter(|_| !is_named) {
            return Some(url.trim_end_matches('/').to_owned());
        }
        let authority = match request.uri().authority() {
            Some(authority) => authority.as_str(),
            None => request.headers().get(header::HOST)?.to_str().ok()?,
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(&byte);
        let scheme = if self.is_tls { "https" } else { "http" };
        let is_host = !authority.is_empty() && authority.bytes().all(is_plain);
        is_host.then(|| format!("{scheme}://{authority}"))
    }

    /// The ticket of the link, if it still works as far as can be seen: it is unused, or was used by this very browser.
    fn ticket_of_link<B>(&self, request: &Request<B>) -> Option<Ticket> {
        let room = &self.case.rule.room;
        let code = self.codes.open_move(&parameter(request.uri().query(), CODE)?, self.case.now)?;
        let by = self.mover(request);
        let is_good = code.room == *room.handle.id()
            && room.handle.with_board(|board| {
                (!board.is_moved(&code.ticket) || board.is_moved_by(&code.ticket, by))
                    && board.recognise(&code.ticket, self.case.now) != Recognition::Foreign
            });
        is_good.then_some(code.ticket)
    }

    /// What this browser was given with the question.
    fn nonce<B>(&self, request: &Request<B>) -> Option<u64> {
        match cookie_of(self.case.rule, request.headers(), CookieKind::Move, self.is_tls) {
            Some(CookieContent::Arrived { nonce, .. }) => Some(nonce),
            _ => None,
        }
    }

    /// Who takes the place: the browser that has been asked, by this link. One that keeps no cookies is answered once.
    fn mover<B>(&self, request: &Request<B>) -> Mover {
        match (self.nonce(request), parameter(request.uri().query(), CODE)) {
            (Some(nonce), Some(code)) => {
                Mover::of_digest(&ApiKeyDigest::of(&format!("{nonce:016x} {code}")).to_bytes())
            }
            _ => Mover::UNNAMED,
        }
    }

    /// Sets a cookie by which this browser is recognised for as long as any link can work.
    fn remember_browser<B>(&self, request: &Request<B>, response: &mut Response<GatewayBody>) {
        let nonce = self.nonce(request).unwrap_or_else(|| u64::from_le_bytes(random::bytes()));
        let room = &self.case.rule.room;
        let value = room.cookies.seal(&CookieContent::Arrived { at: self.case.now, nonce });
        let cookie = room.cookie_names.set(CookieKind::Move, self.is_tls, &value, MOVE_SECONDS);
        cookies::attach(response.headers_mut(), cookie);
    }

    /// Asks the visitor who opened the link whether the place shall move to this device.
    pub(crate) async fn ask_to_move_in<B>(&self, request: &Request<B>) -> Response<GatewayBody> {
        if self.has_moved_here(request) {
            return see_other(&self.address(request));
        }
        let Some(ticket) = self.ticket_of_link(request) else { return self.move_failed(request) };
        let (room, by) = (&self.case.rule.room, self.mover(request));
        if room.handle.with_board(|board| board.is_moved_by(&ticket, by)) {
            // The visitor has confirmed before; our response was lost.
            return self.move_in(request).await;
        }
        match self.standing(Waiter::new(ticket)).await {
            Wait::InLine(_) | Wait::Turn(_) | Wait::Held(_) => {}
            _ => return self.move_failed(request),
        }
        let mut response = self.move_in_question(request, &ticket);
        self.remember_browser(request, &mut response);
        response
    }

    fn move_in_question<B>(&self, request: &Request<B>, ticket: &Ticket) -> Response<GatewayBody> {
        let query = request.uri().query().unwrap_or_default();
        if !self.reader.wants_page {
            let room = self.case.rule.room.handle.id();
            let body =
                json!({ "room": room.as_str(), "status": "movable", "position": ticket.position.get() });
            return page::json(StatusCode::OK, JSON, &body);
        }
        let page = Page {
            situation: Situation::MoveIn,
            move_in: Some(format!("{LINE_PATH}/take?{query}")),
            gives_up_place: self.own_place_beside(ticket).is_some_and(|own| self.still_waits(&own)),
            ..self.page()
        };
        self.reader.page(StatusCode::OK, &page)
    }

    /// Whether this browser has the place of the link already: it asked twice.
    fn has_moved_here<B>(&self, request: &Request<B>) -> bool {
        let Some(CookieContent::Waiting { ticket: held, .. } | CookieContent::Admitted { ticket: held, .. }) =
            self.case.cookie
        else {
            return false;
        };
        let code = parameter(request.uri().query(), CODE)
            .and_then(|code| self.codes.open_move(&code, self.case.now));
        code.is_some_and(|Code { room, ticket, .. }| {
            room == *self.case.rule.room.handle.id()
                && (held.generation, held.position) == (ticket.generation, ticket.position)
                && held.copy > ticket.copy
        })
    }

    /// Takes the place to this browser.
    pub(crate) async fn move_in<B>(&self, request: &Request<B>) -> Response<GatewayBody> {
        if self.has_moved_here(request) {
            return self.moved_response(request, None);
        }
        let Some(ticket) = self.ticket_of_link(request) else { return self.move_failed(request) };
        let room = &self.case.rule.room;
        match self.is_inside().await {
            Ok(false) => {}
            Ok(true) => return self.refuse(StatusCode::CONFLICT, INSIDE),
            Err(_) => return self.refuse(StatusCode::SERVICE_UNAVAILABLE, NOT_KNOWN),
        }
        let operation = Operation::Move { ticket, by: self.mover(request) };
        match room.handle.operate(operation, Actor::Visitor).await {
            Ok(Answer::Moved { ticket, is_repeated }) => {
                if !is_repeated {
                    self.figures.count_move(room.handle.id().as_str());
                }
                self.leave_own_place(&ticket).await;
                self.moved_response(request, Some(ticket))
            }
            Err(EngineError::Refused(Refusal::NotMovable)) => {
                self.refuse(StatusCode::CONFLICT, "This place cannot be taken to another device any more")
            }
            Ok(_) | Err(EngineError::Refused(_)) => self.move_failed(request),
            Err(_) => self.refuse(StatusCode::SERVICE_UNAVAILABLE, NOT_KNOWN),
        }
    }

    /// Whether the visitor is inside: by the gateway, or by a place whose pass was handed over to a site without a
    /// gateway. Taking another place would end their visit.
    async fn is_inside(&self) -> Result<bool, EngineError> {
        match self.case.cookie {
            Some(CookieContent::Admitted { .. }) => {
                let board = self.case.rule.room.handle.board();
                Ok(self.case.visitor_inside(&board).await.is_some())
            }
            Some(CookieContent::Waiting { ticket, .. }) => self.has_claimed(&ticket).await,
            Some(CookieContent::Arrived { .. }) | None => Ok(false),
        }
    }

    /// Whether a place was exchanged for a visit that lasts. Only the room knows that of a place within the frontier.
    pub(crate) async fn has_claimed(&self, ticket: &Ticket) -> Result<bool, EngineError> {
        let (room, now) = (&self.case.rule.room, self.case.now);
        let may_have = room.handle.with_board(|board| {
            !board.is_moved(ticket)
                && board.recognise(ticket, now) != Recognition::Foreign
                && !matches!(board.standing(ticket, now), Standing::Waiting { .. })
        });
        if !may_have || room.visits.is_revoked(key_of(ticket)) {
            return Ok(false);
        }
        match room.handle.place_status(*ticket, now).await {
            Ok(PlaceStatus::Claimed(session)) => Ok(session.is_alive(now)),
            Ok(_) | Err(EngineError::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A visitor who has taken another place gives up the one that this browser had: no other client could. If that
    /// fails it lapses.
    async fn leave_own_place(&self, taken: &Ticket) {
        if let Some(own) = self.own_place_beside(taken) {
            let leave = Operation::Leave { ticket: own };
            let _ = self.case.rule.room.handle.operate(leave, Actor::Visitor).await;
        }
    }

    /// Whether a place may still be worth something, as far as the board knows.
    fn still_waits(&self, ticket: &Ticket) -> bool {
        let (room, now) = (&self.case.rule.room, self.case.now);
        let is_known = room.handle.with_board(|board| {
            !board.is_moved(ticket)
                && board.recognise(ticket, now) != Recognition::Foreign
                && board.standing(ticket, now) != Standing::Settled
        });
        is_known && !room.visits.is_revoked(key_of(ticket))
    }

    /// Another place than this one, which this browser holds.
    fn own_place_beside(&self, taken: &Ticket) -> Option<Ticket> {
        let Some(CookieContent::Waiting { ticket: own, .. }) = self.case.cookie else { return None };
        (key_of(&own) != key_of(taken)).then_some(own)
    }

    fn moved_response<B>(&self, request: &Request<B>, new: Option<Ticket>) -> Response<GatewayBody> {
        let room = &self.case.rule.room;
        let waiter = match (new, self.case.cookie) {
            (Some(ticket), _) => Some(
                room.handle.with_board(|board| Waiter::new(ticket).with_people_ahead(board, self.case.now)),
            ),
            (None, Some(CookieContent::Waiting { ticket, people_ahead_at_first })) => {
                Some(Waiter { ticket, people_ahead_at_first })
            }
            _ => None,
        };
        let mut response = match waiter {
            Some(waiter) if !self.reader.wants_page => self.wait_response(Wait::InLine(waiter), request),
            _ => see_other(&self.address(request)),
        };
        if let Some(waiter) = waiter {
            let cookie = (CookieKind::Place, &waiter.cookie());
            set_cookie(self.case.rule, &mut response, cookie, self.is_tls, self.case.now);
        }
        response
    }

    /// The link was used, or is too old, or the place is gone.
    fn move_failed<B>(&self, request: &Request<B>) -> Response<GatewayBody> {
        if !self.reader.wants_page {
            return self.refuse(StatusCode::GONE, "This link was used before, or is too old");
        }
        let page =
            Page { situation: Situation::MoveFailed, home: Some(self.address(request)), ..self.page() };
        self.reader.page(StatusCode::GONE, &page)
    }
}
