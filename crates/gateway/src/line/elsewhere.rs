//! Visitors of sites elsewhere, who wait here and go on there at their turn: by the waiting page for sites without a gateway
//! (`hand_off`), or by OpenID (`openid`).
//!
//! The cookie has to come back before a place is taken; programs take none by asking; a frame of another page shows nothing.

use anteroom_admission::{AdmissionError, ClaimRequest, ClaimTerms, UnsignedSession};
use anteroom_core::{Refusal, Ticket};
use anteroom_engine::EngineError;
use anteroom_tokens::cookie::CookieContent;
use http::{Method, Request, Response, StatusCode};

use crate::body::GatewayBody;
use crate::classify::Kind;
use crate::gateway::Gateway;
use crate::gateway::set_cookie;
use crate::identify::Client;
use crate::limiter::Class;
use crate::line::wait::{self, Wait, WaitView, Waiter, WayIn};
use crate::line::{self, LineCall, see_other};
use crate::reject::Rejection;
use crate::verdict::cookies::CookieKind;
use crate::verdict::{self, EntryTrigger, Judgement};

/// A visitor who waits for a site elsewhere.
pub(crate) struct ElsewhereVisitor<'request> {
    pub(crate) call: LineCall<'request>,
    pub(crate) gateway: &'request Gateway,
    pub(crate) client: &'request Client,
    /// Whether the visitor has pressed the button.
    pub(crate) is_button: bool,
}

/// The page that the visitor waits at.
#[derive(Clone, Copy)]
pub(crate) struct OwnPage<'request> {
    /// Its path and query.
    pub(crate) address: &'request str,
    pub(crate) way_in: WayIn<'request>,
}

/// How far a visitor has come.
pub(crate) enum Progress {
    /// They wait, or cannot come in: the response says why.
    Waits(Response<GatewayBody>),
    /// They come in now, and have been charged for it.
    Turn(Waiter),
    /// They are inside already, by the gateway before the same room, and have been charged.
    Inside(Ticket),
    /// They are inside by no place: the store is lost.
    InsideWithoutPlace,
}

impl ElsewhereVisitor<'_> {
    /// The refusal of a request that a page of another site has the browser send.
    pub(crate) fn refuse_other_sites<B>(&self, request: &Request<B>) -> Option<Response<GatewayBody>> {
        let is_foreign =
            request.method() == Method::POST && line::is_from_another_site(request, self.call.public_url);
        let text = "This can only be asked for by a page of this very site";
        is_foreign.then(|| self.call.refuse(StatusCode::FORBIDDEN, text))
    }

    /// Takes a place for the visitor, or finds the one they have, and says whether they come in by it now.
    pub(crate) async fn proceed<B>(&mut self, request: &Request<B>, page: &OwnPage<'_>) -> Progress {
        // In a frame of another page the visitor's cookie would be another, or none; and prefetches take no place.
        if self.call.case.kind == Kind::SubResource {
            let text = "This page has to be opened in a window of its own";
            return Progress::Waits(self.call.refuse(StatusCode::FORBIDDEN, text));
        }
        if self.is_button {
            self.call.case.kind = Kind::Navigation;
            self.call.case.entry_trigger = EntryTrigger::HandOffButton;
            // A visitor who presses the button without a place has lost their cookie, and begins anew.
            let is_known = matches!(
                self.call.case.cookie,
                Some(CookieContent::Waiting { .. } | CookieContent::Admitted { .. })
            );
            if !is_known {
                return Progress::Waits(see_other(page.address));
            }
        }
        // Programs take no place by asking, and get a response that says they have none.
        let has_place = matches!(self.call.case.cookie, Some(CookieContent::Waiting { .. }));
        if self.call.case.kind != Kind::Navigation && !has_place {
            return Progress::Waits(self.call.show_standing(request).await);
        }
        let (wait, cookie) = match verdict::judge(&self.call.case).await {
            // The visit is over, or the line was reset: the page takes another place, and is charged for it.
            Judgement::Reject(Rejection::NotInside { .. }) if self.is_button => {
                return Progress::Waits(see_other(page.address));
            }
            // The line was reset. The client is a program, and takes no place by asking.
            Judgement::Reject(Rejection::NotInside { .. }) => {
                return Progress::Waits(self.call.show_standing(request).await);
            }
            Judgement::Reject(rejection) => return Progress::Waits(self.call.reject(&rejection)),
            Judgement::Proxy(entry) => {
                if let Some(rejection) = self.charge(request).await {
                    return Progress::Waits(self.call.reject(&rejection));
                }
                return match entry.inside {
                    Some(inside) => Progress::Inside(inside.ticket),
                    None => Progress::InsideWithoutPlace,
                };
            }
            Judgement::Arrive(arrived) => (Wait::Arriving, Some(arrived)),
            Judgement::Wait(wait, cookie) => (wait, cookie),
        };
        self.note_presence(wait);
        match wait {
            Wait::Turn(waiter)
                if self.call.case.kind == Kind::Navigation && self.goes_on_now(&waiter, page).await =>
            {
                match self.charge(request).await {
                    Some(rejection) => Progress::Waits(self.call.reject(&rejection)),
                    None => Progress::Turn(waiter),
                }
            }
            other => Progress::Waits(self.respond_waiting(other, cookie, page)),
        }
    }

    /// Whether a visitor whose turn it is needs no button, or has pressed it. One who logs in and is inside already has pressed it
    /// before: at the first of several sites.
    async fn goes_on_now(&self, waiter: &Waiter, page: &OwnPage<'_>) -> bool {
        self.is_button
            || self.call.case.rule.settings.auto_enter
            || matches!(page.way_in, WayIn::OpenId(_))
                && self.call.has_claimed(&waiter.ticket).await.unwrap_or(false)
    }

    /// Why the visitor does not go on. A visitor who pressed the button is redirected to the page, where they can ask
    /// again, and gets their cookie there.
    pub(crate) fn respond_waiting(
        &self,
        wait: Wait,
        cookie: Option<CookieContent>,
        page: &OwnPage<'_>,
    ) -> Response<GatewayBody> {
        if self.is_button && self.call.reader.wants_page {
            return see_other(page.address);
        }
        let mut response = self.wait_response(wait, page);
        let cookie = if matches!(wait, Wait::Gone) {
            // The cookie that says so lets the next visit take another place.
            Some(self.call.case.new_arrival())
        } else {
            cookie
        };
        if let Some(cookie) = cookie {
            self.set_place_cookie(&mut response, &cookie);
        }
        response
    }

    pub(crate) fn wait_response(&self, wait: Wait, page: &OwnPage<'_>) -> Response<GatewayBody> {
        let call = &self.call;
        let room = &call.case.rule.room;
        let board = room.handle.board();
        let view = WaitView {
            room,
            board: &board,
            now: call.case.now,
            reader: &call.reader,
            address: page.address,
            way_in: page.way_in,
        };
        wait::answer(wait, &view)
    }

    pub(crate) fn set_place_cookie(&self, response: &mut Response<GatewayBody>, cookie: &CookieContent) {
        let call = &self.call;
        let cookie = (CookieKind::Place, cookie);
        set_cookie(call.case.rule, response, cookie, call.is_tls, call.case.now);
    }

    /// Going in by opening the page is charged like any claim; the button has been, as a call of its own.
    pub(crate) async fn charge<B>(&self, request: &Request<B>) -> Option<Rejection> {
        if self.is_button { None } else { self.gateway.charge(Class::Claim, request, self.client).await }
    }

    /// In an auction, a visitor who opens the page counts as present.
    fn note_presence(&self, wait: Wait) {
        let case = &self.call.case;
        if let Wait::InLine(Waiter { ticket, .. }) = wait
            && case.kind == Kind::Navigation
            && case.rule.settings.is_auction()
        {
            case.admission.note_presence(&case.rule.room, &ticket);
        }
    }

    /// Claims a place that is served, or finds the visit of an earlier claim.
    pub(crate) async fn begin(&self, ticket: Ticket) -> Result<UnsignedSession, AdmissionError> {
        let (admission, room) = (self.call.case.admission, &self.call.case.rule.room);
        let request_id = room.request_ids.seal(&ticket);
        let prefix = room.prefix_tags.tag(self.client.address);
        // Where the gateway stands before the site, the visit lasts as long as one that came in through it: a pass that nobody
        // uses must not hold a slot for its whole validity.
        let stay_millis = self.call.case.rule.is_protected.then(|| self.call.case.stay_millis());
        let terms = ClaimTerms { prefix, stay_millis, ..ClaimTerms::default() };
        let request = ClaimRequest { terms, ..ClaimRequest::of_visitor(ticket, request_id) };
        let session = admission.begin(room, request).await?;
        // A visit by cookie may outlive its pass, which then admits no visitor.
        if session.expires_in == 0 {
            return Err(AdmissionError::VisitOver);
        }
        Ok(session)
    }
}

/// Why a visitor whose claim failed waits on.
pub(crate) fn wait_after(error: &AdmissionError, waiter: Waiter) -> Wait {
    match error {
        AdmissionError::RoomPaused | AdmissionError::Engine(EngineError::Refused(Refusal::NotServed)) => {
            Wait::InLine(waiter)
        }
        AdmissionError::Engine(EngineError::Refused(Refusal::Moved)) => Wait::Moved,
        AdmissionError::Engine(EngineError::Refused(Refusal::RoomClosed)) => Wait::Closed,
        error if error.is_unavailable() => Wait::Held(Some(waiter)),
        _ => Wait::Gone,
    }
}
