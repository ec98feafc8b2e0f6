//! Calls about the line itself, on every host and for every room: join it, leave it, come in, ask where one stands, take one's place
//! to another device (`move_place`). The cookie says who asks.

pub(crate) mod door;
pub(crate) mod elsewhere;
pub(crate) mod hand_off;
pub(crate) mod move_place;
pub(crate) mod openid;
pub(crate) mod page;
pub(crate) mod query;
pub(crate) mod wait;

use anteroom_core::{Operation, PlaceStatus, Recognition, Refusal, Standing};
use anteroom_engine::{Actor, EngineError};
use anteroom_pages::{Page, Situation};
use anteroom_tokens::codes::Codes;
use anteroom_tokens::cookie::CookieContent;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use serde_json::json;

use self::page::Reader;
use self::wait::{Wait, WaitView, Waiter, WayIn};
use crate::account::figures::Figures;
use crate::body::GatewayBody;
use crate::classify::Kind;
use crate::classify::request_target::host_of;
use crate::gateway::set_cookie;
use crate::limiter::Class;
use crate::line::query::return_path;
use crate::reject::{self, Branding, Rejection};
use crate::verdict::cookies::{self, CookieKind};
use crate::verdict::visits::key_of;
use crate::verdict::{self, Case, EntryTrigger, Judgement};
use anteroom_admission::Proof;

/// Where a visitor goes that named no address of this site.
const HOME: &str = "/";

const JOIN: &str = "/join";
const LEAVE: &str = "/leave";
const ENTER: &str = "/enter";
const MOVE: &str = "/move";
const TAKE: &str = "/take";
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// What browsers say about where a request comes from.
pub(crate) const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A call, and who makes it.
pub(crate) struct LineCall<'request> {
    pub(crate) case: Case<'request>,
    pub(crate) is_tls: bool,
    pub(crate) reader: Reader<'request>,
    pub(crate) codes: &'request Codes,
    pub(crate) figures: &'request Figures,
    /// The public listener as visitors reach it, if that is configured.
    pub(crate) public_url: Option<&'request str>,
}

/// What a path says after the prefix of our own paths and `/line`; nothing if it is about no line.
pub(crate) fn call_of(path: &str) -> Option<&str> {
    let path = path.strip_prefix("/.anteroom").unwrap_or(path);
    path.strip_prefix("/line").filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The budget that a call is charged to beside that of its site; none for those that take, give and change nothing.
pub fn line_call_class<B>(request: &Request<B>) -> Option<Class> {
    match (call_of(request.uri().path())?, request.method()) {
        (JOIN, &Method::POST) => Some(Class::Join),
        (ENTER | LEAVE, &Method::POST) => Some(Class::Claim),
        // A link to another device is a picture that is drawn each time.
        (TAKE, &Method::POST) | (MOVE, _) => Some(Class::Move),
        _ => None,
    }
}

/// Whether a page of another site has the browser send this: it could throw its readers out of a line.
pub(crate) fn is_from_another_site<B>(request: &Request<B>, public_url: Option<&str>) -> bool {
    let headers = request.headers();
    // Browsers say it themselves, and scripts cannot forge it: this also holds behind a proxy that names another host.
    match headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes) {
        Some(b"same-origin") => return false,
        Some(b"cross-site") => return true,
        _ => {}
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let host = origin.to_str().ok().and_then(host_of_url);
    let is_ours = |host: &str| {
        host.eq_ignore_ascii_case(host_of(request))
            || public_url.and_then(host_of_url).is_some_and(|public| host.eq_ignore_ascii_case(public))
    };
    !host.is_some_and(is_ours)
}

/// The host that a URL names, without its port.
fn host_of_url(url: &str) -> Option<&str> {
    let authority = url.split_once("://")?.1.split('/').next()?;
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => Some(host),
        _ => Some(authority),
    }
}

/// The answer to a call: `GET …`, `POST …/join`, `POST …/leave`, `POST …/enter`, `GET …/move`, `GET …/take`, `POST …/take`.
pub(crate) async fn answer<B>(mut call: LineCall<'_>, request: &Request<B>) -> Response<GatewayBody> {
    let name = call_of(request.uri().path()).unwrap_or_default();
    if request.method() == Method::POST && is_from_another_site(request, call.public_url) {
        return call.refuse(StatusCode::FORBIDDEN, "This can only be asked for by a page of this very site");
    }
    match (name, request.method()) {
        (JOIN, &Method::POST) => call.join(request).await,
        (LEAVE, &Method::POST) => call.leave(request).await,
        (ENTER, &Method::POST) => call.enter(request).await,
        ("", &Method::GET | &Method::HEAD) => call.show_standing(request).await,
        (MOVE, &Method::GET | &Method::HEAD) => call.move_out(request).await,
        (TAKE, &Method::GET | &Method::HEAD) => call.ask_to_move_in(request).await,
        (TAKE, &Method::POST) => call.move_in(request).await,
        (JOIN | LEAVE | ENTER, _) => call.not_allowed("This call takes POST only", "POST"),
        ("" | MOVE, _) => call.not_allowed("This call takes GET only", "GET, HEAD"),
        (TAKE, _) => call.not_allowed("This call takes GET and POST", "GET, HEAD, POST"),
        _ => call.refuse(StatusCode::NOT_FOUND, "There is nothing at this path"),
    }
}

impl LineCall<'_> {
    pub(crate) fn refuse(&self, status: StatusCode, text: &'static str) -> Response<GatewayBody> {
        self.reject(&Rejection::Line(status, text))
    }

    pub(crate) fn reject(&self, rejection: &Rejection) -> Response<GatewayBody> {
        let rule = self.case.rule;
        let branding = Branding { room: rule.room.handle.id(), settings: &rule.settings };
        reject::answer(rejection, &self.reader, Some(branding))
    }

    fn not_allowed(&self, text: &'static str, methods: &'static str) -> Response<GatewayBody> {
        let mut response = self.refuse(StatusCode::METHOD_NOT_ALLOWED, text);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
        response
    }

    /// Where a browser goes on to: what it named, or where this room's visitors begin.
    pub(crate) fn address<B>(&self, request: &Request<B>) -> String {
        return_path(request.uri().query()).unwrap_or_else(|| self.home())
    }

    fn home(&self) -> String {
        let rule = self.case.rule;
        if rule.is_protected { HOME.to_owned() } else { hand_off::wait_path(rule.room.handle.id()) }
    }

    /// Takes a place, or finds the one that the cookie has. A form is sent on to where its visitor wanted to go.
    async fn join<B>(&mut self, request: &Request<B>) -> Response<GatewayBody> {
        self.case.kind = Kind::Navigation;
        // Where programs may join, a client that asks for a place by name gets one also without a cookie that came back.
        if self.case.cookie.is_none() && !self.case.rule.joins_by_page() {
            self.case.cookie = Some(self.case.new_arrival());
        }
        let mut judgement = verdict::judge(&self.case).await;
        // A visitor who has moved their place to another device gets another one here. Only the verdict knows: a board
        // forgets.
        if matches!(judgement, Judgement::Wait(Wait::Moved, _)) {
            self.case.cookie = Some(self.case.new_arrival());
            judgement = verdict::judge(&self.case).await;
        }
        self.respond_to(request, judgement)
    }

    /// Enters, if it is the visitor's turn.
    async fn enter<B>(&mut self, request: &Request<B>) -> Response<GatewayBody> {
        if !self.case.rule.is_protected {
            let text = "The site of this room is elsewhere: come in by /.anteroom/wait/ROOM";
            return self.refuse(StatusCode::CONFLICT, text);
        }
        if !matches!(self.case.cookie, Some(CookieContent::Waiting { .. } | CookieContent::Admitted { .. })) {
            return self.refuse(StatusCode::CONFLICT, "You have no place in this line");
        }
        self.case.kind = Kind::Navigation;
        self.case.entry_trigger = EntryTrigger::Button;
        let judgement = match verdict::judge(&self.case).await {
            // The page that the visitor is redirected to says so.
            Judgement::Wait(Wait::Gone, _) if self.reader.wants_page => Judgement::Wait(Wait::Gone, None),
            other => other,
        };
        self.respond_to(request, judgement)
    }

    /// The verdict on a call. A form redirects to the page that the visitor wanted, which shows the result.
    fn respond_to<B>(&self, request: &Request<B>, judgement: Judgement) -> Response<GatewayBody> {
        let (mut response, cookie) = match judgement {
            Judgement::Reject(rejection) => return self.reject(&rejection),
            Judgement::Proxy(entry) => (self.admitted_response(request), entry.cookie),
            // A form goes on through the door; a program repeats its call with the cookie.
            Judgement::Arrive(arrived) => {
                let response = if self.reader.wants_page && self.case.rule.is_protected {
                    door::redirect(&self.address(request))
                } else {
                    self.wait_response(Wait::Arriving, request)
                };
                (response, Some((CookieKind::Place, arrived)))
            }
            Judgement::Wait(wait, cookie) => {
                let response = if self.reader.wants_page {
                    self.admitted_response(request)
                } else {
                    self.wait_response(wait, request)
                };
                (response, cookie.map(|cookie| (CookieKind::Place, cookie)))
            }
        };
        if let Some((kind, cookie)) = cookie {
            set_cookie(self.case.rule, &mut response, (kind, &cookie), self.is_tls, self.case.now);
        }
        response
    }

    /// Gives the place up, or ends the visit.
    async fn leave<B>(&self, request: &Request<B>) -> Response<GatewayBody> {
        let room = &self.case.rule.room;
        let has_moved = match self.give_up_place().await {
            Ok(has_moved) => has_moved,
            Err(refusal) => return refusal,
        };
        let mut response = if has_moved {
            self.wait_response(Wait::Moved, request)
        } else if self.reader.wants_page {
            let settings = &*self.case.rule.settings;
            let page = Page {
                situation: Situation::Left,
                settings: Some(settings),
                room: Some(room.handle.id().as_str()),
                home: Some(self.address(request)),
                ..Page::default()
            };
            self.reader.page(StatusCode::OK, &page)
        } else {
            page::json(StatusCode::OK, JSON, &json!({ "room": room.handle.id().as_str(), "status": "left" }))
        };
        self.forget_cookies(&mut response);
        response
    }

    /// Gives up the place or the visit that the cookie names, and says whether it had moved: then it belongs to the other
    /// device. Or the response that says why nothing was done.
    pub(crate) async fn give_up_place(&self) -> Result<bool, Response<GatewayBody>> {
        let room = &self.case.rule.room;
        let Some(CookieContent::Waiting { ticket, .. } | CookieContent::Admitted { ticket, .. }) =
            self.case.cookie
        else {
            return Ok(false);
        };
        let result = room.handle.operate(Operation::Leave { ticket }, Actor::Visitor).await;
        let has_moved = matches!(result, Err(EngineError::Refused(Refusal::Moved)));
        match result {
            // Leaving twice is idempotent.
            Ok(_) | Err(EngineError::Refused(_)) => {}
            Err(_) => {
                let text = "The line cannot be reached just now; you still have your place";
                return Err(self.refuse(StatusCode::SERVICE_UNAVAILABLE, text));
            }
        }
        if !has_moved {
            let session_millis = self.case.rule.settings.session_duration.get() * 1000;
            room.visits.revoke(key_of(&ticket), self.case.now, session_millis);
        }
        Ok(has_moved)
    }

    /// The browser has no place any more.
    pub(crate) fn forget_cookies(&self, response: &mut Response<GatewayBody>) {
        let room = &self.case.rule.room;
        for kind in [CookieKind::Place, CookieKind::Loss] {
            cookies::attach(response.headers_mut(), room.cookie_names.clear(kind, self.is_tls));
        }
    }

    /// Where the holder of the cookie stands. Nothing is taken or entered by asking: a page that has lost its place,
    /// because it was given up or its turn was missed in another tab, leads its reader here, where they can ask for
    /// another.
    pub(crate) async fn show_standing<B>(&self, request: &Request<B>) -> Response<GatewayBody> {
        let (room, now) = (&self.case.rule.room, self.case.now);
        let status = match self.case.cookie {
            Some(CookieContent::Waiting { ticket, people_ahead_at_first }) => {
                let wait = self.standing(Waiter { ticket, people_ahead_at_first }).await;
                return self.wait_response(wait, request);
            }
            Some(CookieContent::Admitted { ticket, ends_at, .. })
                if ends_at > now && !room.visits.is_revoked(key_of(&ticket)) =>
            {
                "admitted"
            }
            Some(CookieContent::Admitted { .. }) => "expired",
            Some(CookieContent::Arrived { .. }) => "arriving",
            None => "none",
        };
        if self.reader.wants_page {
            return if status == "admitted" {
                self.admitted_response(request)
            } else {
                self.wait_response(Wait::Gone, request)
            };
        }
        page::json(StatusCode::OK, JSON, &json!({ "room": room.handle.id().as_str(), "status": status }))
    }

    /// Whether a place is still there; one that the store has lost is brought back. Within the frontier only the room knows; while it
    /// does not answer, the place counts as kept.
    pub(crate) async fn standing(&self, waiter: Waiter) -> Wait {
        let (room, now, ticket) = (&self.case.rule.room, self.case.now, waiter.ticket);
        let board = if self.case.store_is_lost {
            room.handle.board()
        } else {
            match anteroom_admission::recognise(&room.handle, &room.refreshes, ticket, Proof::Signed, now)
                .await
            {
                Ok(Some(board)) => board,
                Ok(None) => return Wait::Gone,
                Err(_) => return Wait::Held(Some(waiter)),
            }
        };
        if board.is_moved(&ticket) {
            return Wait::Moved;
        }
        if board.recognise(&ticket, now) == Recognition::Foreign || room.visits.is_revoked(key_of(&ticket)) {
            return Wait::Gone;
        }
        if self.case.store_is_lost {
            return Wait::Held(Some(waiter));
        }
        if matches!(board.standing(&ticket, now), Standing::Waiting { .. }) {
            return Wait::InLine(waiter);
        }
        match room.handle.place_status(ticket, now).await {
            Ok(PlaceStatus::Gone) => Wait::Gone,
            Ok(PlaceStatus::Claimed(session)) if !session.is_alive(now) => Wait::Gone,
            Ok(PlaceStatus::Claimed(_) | PlaceStatus::Offered) => Wait::Turn(waiter),
            Err(EngineError::Refused(Refusal::Moved)) => Wait::Moved,
            _ => Wait::InLine(waiter),
        }
    }

    pub(crate) fn wait_response<B>(&self, wait: Wait, request: &Request<B>) -> Response<GatewayBody> {
        let rule = self.case.rule;
        let board = rule.room.handle.board();
        let address = self.address(request);
        let way_in = if rule.is_protected { WayIn::Gateway } else { WayIn::OtherSite };
        let view = WaitView {
            room: &rule.room,
            board: &board,
            now: self.case.now,
            reader: &self.reader,
            address: &address,
            way_in,
        };
        wait::answer(wait, &view)
    }

    /// Redirects a browser to where it wanted to go; a program learns that it is inside.
    fn admitted_response<B>(&self, request: &Request<B>) -> Response<GatewayBody> {
        if self.reader.wants_page {
            see_other(&self.address(request))
        } else {
            page::json(StatusCode::OK, JSON, &json!({ "status": "admitted" }))
        }
    }
}

/// Redirects a browser.
pub(crate) fn see_other(address: &str) -> Response<GatewayBody> {
    let mut response = Response::new(GatewayBody::of(""));
    *response.status_mut() = StatusCode::SEE_OTHER;
    let location = HeaderValue::try_from(address).unwrap_or(HeaderValue::from_static(HOME));
    response.headers_mut().insert(header::LOCATION, location);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
