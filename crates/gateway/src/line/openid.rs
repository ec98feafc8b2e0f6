//! The waiting page at `/authorize`: a visitor logs in to a site by OpenID, which here means to wait until their turn has come.
//!
//! What the site asked for stands in the address of the page and nowhere else, so it survives a reload, a second tab and a
//! restart; the place is in the cookie of the room, as at `/wait/{room}`. The caller reads the request and writes the
//! answer for the site (`OpenIdLogin::answer`); here is decided where the visitor stands.
//!
//! *Invariant:* a silent request (`prompt=none`) takes no place and is never answered by a page. It claims a place only where the visitor
//! themselves has been sent here: any site can have their browser fetch this address unseen, with the cookie.

use anteroom_admission::AdmissionError;
use anteroom_core::settings::QueueingMethod;
use anteroom_core::{RoomId, RoomState, Ticket};
use anteroom_pages::{Page, Situation};
use anteroom_tokens::cookie::CookieContent;
use http::{Request, Response, StatusCode};

use crate::body::GatewayBody;
use crate::classify::Kind;
use crate::line::elsewhere::{ElsewhereVisitor, OwnPage, Progress, wait_after};
use crate::line::query::escape;
use crate::line::see_other;
use crate::line::wait::{OpenIdPage, Wait, Waiter, WayIn};

/// The page, below the address of its room.
const LOGIN: &str = "/authorize";
/// As what such visitors are counted among those handed over.
const HAND_OFF: &str = "openid";

/// Which part of a login a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenIdStep {
    /// The page.
    Page,
    /// Its button: to come in at the turn, or to confirm.
    Enter,
    /// Its button for another place.
    Join,
    /// Its button for giving the place up.
    Leave,
}

/// How a login ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenIdEnd {
    /// The visitor is inside.
    Inside {
        /// By this ticket.
        ticket: Ticket,
        /// Since when, or when they last confirmed it.
        auth_time_seconds: u64,
    },
    /// Only a page could go on.
    LoginRequired,
    /// The visitor gave up, or the room takes nobody.
    AccessDenied,
    /// Not at the moment.
    TemporarilyUnavailable,
}

/// Whom a silent login is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedVisitor {
    /// Anybody.
    Anyone,
    /// The holder of this place, whichever copy of the ticket they have.
    HolderOf(Ticket),
    /// Somebody who is not known here.
    Stranger,
}

impl ExpectedVisitor {
    fn is(self, ticket: &Ticket) -> bool {
        match self {
            Self::Anyone => true,
            Self::HolderOf(expected) => {
                (expected.generation, expected.position) == (ticket.generation, ticket.position)
            }
            Self::Stranger => false,
        }
    }
}

/// A login, as far as the line is concerned.
pub struct OpenIdLogin<'request> {
    /// Which part of it this request is.
    pub step: OpenIdStep,
    /// The authorization request, as a query.
    pub query: &'request str,
    /// The client that asks.
    pub client_id: &'request str,
    /// The name of its site.
    pub site: &'request str,
    /// Which languages the site prefers, parted by spaces.
    pub languages: Option<&'request str>,
    /// Whether no page may be shown.
    pub is_silent: bool,
    /// Whom it is for, if it is silent.
    pub expected_visitor: ExpectedVisitor,
    /// Whether a visitor who is inside already has to confirm.
    pub asks_again: bool,
    /// The same for one who came in more than so many seconds ago.
    pub max_age_seconds: Option<u64>,
    /// The address that the visitor is sent on to, with the answer for the site.
    pub answer: &'request (dyn Fn(OpenIdEnd) -> String + Send + Sync),
}

impl OpenIdLogin<'_> {
    /// The page, on every host.
    pub(crate) fn address(&self, room: &RoomId) -> String {
        self.call(room, "")
    }

    fn call(&self, room: &RoomId, call: &str) -> String {
        format!("/.anteroom/rooms/{room}{LOGIN}{call}?{}", self.query)
    }

    fn page(&self, room: &RoomId) -> OpenIdPage<'_> {
        OpenIdPage {
            site: self.site,
            enter: self.call(room, "/enter"),
            join: self.call(room, "/join"),
            leave: self.call(room, "/leave"),
            moved: format!("/.anteroom/rooms/{room}/authorize/moved?client_id={}", escape(self.client_id)),
        }
    }

    /// Whether a visitor who came in then has to confirm it.
    fn wants_confirmation(&self, is_new: bool, began_at_seconds: u64, now_seconds: u64) -> bool {
        let is_older_than = |seconds: u64| now_seconds.saturating_sub(began_at_seconds) > seconds;
        !is_new && (self.asks_again || self.max_age_seconds.is_some_and(is_older_than))
    }
}

/// Whether a path without our prefix is that of a login's page.
pub(crate) fn is_login(path: &str) -> bool {
    path == LOGIN || path.starts_with("/rooms/") && path.ends_with(LOGIN)
}

/// A visitor who logs in.
pub(crate) struct OpenIdVisitor<'request> {
    pub(crate) visitor: ElsewhereVisitor<'request>,
    pub(crate) login: &'request OpenIdLogin<'request>,
}

impl OpenIdVisitor<'_> {
    /// The answer: the line, or at the turn the way back to the site.
    pub(crate) async fn answer<B>(mut self, request: &Request<B>) -> Response<GatewayBody> {
        if let Some(refusal) = self.visitor.refuse_other_sites(request) {
            return refusal;
        }
        let room = self.visitor.call.case.rule.room.handle.id().clone();
        let (own, calls) = (self.login.address(&room), self.login.page(&room));
        let page = OwnPage { address: &own, way_in: WayIn::OpenId(&calls) };
        match self.login.step {
            OpenIdStep::Leave => return self.leave(&page).await,
            OpenIdStep::Join => return self.join(&page).await,
            OpenIdStep::Page if self.login.is_silent => return self.answer_silently(request).await,
            OpenIdStep::Page | OpenIdStep::Enter => {}
        }
        match self.visitor.proceed(request, &page).await {
            Progress::Waits(response) => response,
            Progress::InsideWithoutPlace => self.end(OpenIdEnd::TemporarilyUnavailable),
            Progress::Inside(ticket) => match self.go_on(ticket, &calls).await {
                Ok(response) => response,
                // The visit has outlived its pass, and a site would get tokens that are too old.
                Err(Wait::Gone) => self.end(OpenIdEnd::AccessDenied),
                Err(wait) => self.visitor.respond_waiting(wait, None, &page),
            },
            Progress::Turn(waiter) => match self.go_on(waiter.ticket, &calls).await {
                Ok(mut response) => {
                    // With this cookie a visitor who comes back goes on at once.
                    self.visitor.set_place_cookie(&mut response, &waiter.cookie());
                    response
                }
                Err(wait) => self.visitor.respond_waiting(wait, Some(waiter.cookie()), &page),
            },
        }
    }

    /// Sends the visitor back to the site.
    fn end(&self, end: OpenIdEnd) -> Response<GatewayBody> {
        see_other(&(self.login.answer)(end))
    }

    /// Claims the place, and sends the visitor back with a code; or asks whether they are still there.
    async fn go_on(&self, ticket: Ticket, calls: &OpenIdPage<'_>) -> Result<Response<GatewayBody>, Wait> {
        let session =
            self.visitor.begin(ticket).await.map_err(|error| wait_after(&error, Waiter::new(ticket)))?;
        let now_seconds = self.visitor.call.case.now.seconds();
        let began_at_seconds = session.began_at_seconds();
        if self.visitor.is_button {
            return Ok(self.send_back(ticket, now_seconds));
        }
        if self.login.wants_confirmation(session.is_new(), began_at_seconds, now_seconds) {
            return Ok(self.ask_to_confirm(calls));
        }
        Ok(self.send_back(ticket, began_at_seconds))
    }

    fn send_back(&self, ticket: Ticket, auth_time_seconds: u64) -> Response<GatewayBody> {
        let call = &self.visitor.call;
        call.figures.count_hand_off(call.case.rule.room.handle.id().as_str(), HAND_OFF);
        self.end(OpenIdEnd::Inside { ticket, auth_time_seconds })
    }

    fn ask_to_confirm(&self, calls: &OpenIdPage<'_>) -> Response<GatewayBody> {
        let rule = self.visitor.call.case.rule;
        let page = Page {
            situation: Situation::Confirm,
            settings: Some(&rule.settings),
            room: Some(rule.room.handle.id().as_str()),
            site: Some(self.login.site),
            confirm: Some(calls.enter.clone()),
            ..Page::default()
        };
        self.visitor.call.reader.page(StatusCode::OK, &page)
    }

    /// Gives the place up. The site is told that the visitor does not come.
    async fn leave(&self, page: &OwnPage<'_>) -> Response<GatewayBody> {
        let call = &self.visitor.call;
        let mut response = match call.give_up_place().await {
            Ok(true) => self.visitor.wait_response(Wait::Moved, page),
            Ok(false) => self.end(OpenIdEnd::AccessDenied),
            Err(refusal) => return refusal,
        };
        call.forget_cookies(&mut response);
        response
    }

    /// Lets the page take another place, where the one of the cookie is over.
    async fn join(&self, page: &OwnPage<'_>) -> Response<GatewayBody> {
        let mut response = see_other(page.address);
        if !self.has_place().await {
            self.visitor.set_place_cookie(&mut response, &self.visitor.call.case.new_arrival());
        }
        response
    }

    async fn has_place(&self) -> bool {
        let call = &self.visitor.call;
        match call.case.cookie {
            Some(CookieContent::Waiting { ticket, people_ahead_at_first }) => {
                let wait = call.standing(Waiter { ticket, people_ahead_at_first }).await;
                !matches!(wait, Wait::Gone | Wait::Moved)
            }
            Some(CookieContent::Admitted { .. }) => {
                call.case.visitor_inside(&call.case.rule.room.handle.board()).await.is_some()
            }
            Some(CookieContent::Arrived { .. }) | None => false,
        }
    }

    /// The answer where no page may be shown, and nothing is taken.
    async fn answer_silently<B>(&self, request: &Request<B>) -> Response<GatewayBody> {
        let ticket = match self.silent_ticket().await {
            Ok(ticket) if self.login.expected_visitor.is(&ticket) => ticket,
            Ok(_) => return self.end(OpenIdEnd::LoginRequired),
            Err(end) => return self.end(end),
        };
        if self.visitor.charge(request).await.is_some() {
            return self.end(OpenIdEnd::TemporarilyUnavailable);
        }
        let session = match self.visitor.begin(ticket).await {
            Ok(session) => session,
            Err(error) => return self.end(end_after(&error, ticket)),
        };
        let (now_seconds, began) = (self.visitor.call.case.now.seconds(), session.began_at_seconds());
        if self.login.wants_confirmation(session.is_new(), began, now_seconds) {
            return self.end(OpenIdEnd::LoginRequired);
        }
        self.send_back(ticket, began)
    }

    /// The ticket of a visitor who is inside, or who opens this address at their turn in a room that lets them in without a button. A frame,
    /// an image or a `HEAD` claims nothing: any site can have a browser ask for those.
    async fn silent_ticket(&self) -> Result<Ticket, OpenIdEnd> {
        let call = &self.visitor.call;
        let case = &call.case;
        let board = case.rule.room.handle.board();
        let takes_nobody =
            case.rule.settings.queueing_method == QueueingMethod::Reject || board.state == RoomState::Closed;
        let outside = if takes_nobody { OpenIdEnd::AccessDenied } else { OpenIdEnd::LoginRequired };
        match case.cookie {
            Some(CookieContent::Waiting { ticket, people_ahead_at_first }) => {
                match call.standing(Waiter { ticket, people_ahead_at_first }).await {
                    Wait::Turn(waiter) if case.kind == Kind::Navigation && case.rule.settings.auto_enter => {
                        Ok(waiter.ticket)
                    }
                    Wait::Turn(waiter) => match call.has_claimed(&waiter.ticket).await {
                        Ok(true) => Ok(waiter.ticket),
                        Ok(false) => Err(outside),
                        Err(_) => Err(OpenIdEnd::TemporarilyUnavailable),
                    },
                    Wait::Held(_) => Err(OpenIdEnd::TemporarilyUnavailable),
                    _ => Err(outside),
                }
            }
            Some(CookieContent::Admitted { .. }) => {
                case.visitor_inside(&board).await.map(|inside| inside.ticket).ok_or(outside)
            }
            Some(CookieContent::Arrived { .. }) | None => Err(outside),
        }
    }
}

/// How a silent login ends whose claim failed.
fn end_after(error: &AdmissionError, ticket: Ticket) -> OpenIdEnd {
    match wait_after(error, Waiter::new(ticket)) {
        Wait::Closed => OpenIdEnd::AccessDenied,
        Wait::Held(_) => OpenIdEnd::TemporarilyUnavailable,
        _ => OpenIdEnd::LoginRequired,
    }
}
