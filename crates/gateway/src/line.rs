//! Calls about the line itself, on the protected host: join it, leave it, ask where one stands. The cookie says who asks.

use anteroom_core::{Answer, Operation, Place, Recognition, Standing, Ticket};
use anteroom_store::EngineError;
use anteroom_store::engine::Actor;
use anteroom_tokens::cookie::CookieContent;
use anteroom_tokens::random;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};

use crate::body::GatewayBody;
use crate::classify::{Kind, wants_page};
use crate::cookies::{self, CookieKind};
use crate::page::{self, Page};
use crate::path::{LINE_PATH, set_cookie};
use crate::place::host_of;
use crate::reject::{self, Rejection};
use crate::verdict::{self, Case, Judgement};
use crate::visit::key_of;
use crate::wait::{self, Shown};

/// Where somebody goes who named no address of this site.
const HOME: &str = "/";

/// How a call that takes a place ends.
pub(crate) const JOIN: &str = "/join";
const LEAVE: &str = "/leave";
/// What browsers say about where a request comes from.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A call, and who makes it.
pub(crate) struct Called<'request> {
    pub(crate) case: Case<'request>,
    pub(crate) is_tls: bool,
}

/// The room that a call names.
pub(crate) fn room_named(query: Option<&str>) -> Option<&str> {
    query?.split('&').find_map(|pair| pair.strip_prefix("room="))
}

/// Whether a page of another site has the browser send this: it could throw its readers out of a line.
fn is_from_another_site<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    if headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "cross-site") {
        return true;
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let authority =
        origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
    let host = authority.map(|authority| match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => host,
        _ => authority,
    });
    !host.is_some_and(|host| host.eq_ignore_ascii_case(host_of(request)))
}

/// The answer to a call. `POST …/join`, `POST …/leave`, `GET …`.
pub(crate) async fn answer<B>(mut called: Called<'_>, request: &Request<B>) -> Response<GatewayBody> {
    let page = wants_page(request.headers());
    let refused = |status, text| reject::answer(&Rejection::Line(status, text), page, None);
    let call = request.uri().path().strip_prefix(LINE_PATH).unwrap_or_default();
    if request.method() == Method::POST && is_from_another_site(request) {
        return refused(StatusCode::FORBIDDEN, "This can only be asked for by a page of this very site");
    }
    match (call, request.method()) {
        (JOIN, &Method::POST) => called.join(request, page).await,
        (LEAVE, &Method::POST) => called.leave(page).await,
        ("", &Method::GET | &Method::HEAD) => called.ask(request, page).await,
        (JOIN | LEAVE, _) => {
            with_allow(refused(StatusCode::METHOD_NOT_ALLOWED, "This call takes POST only"), "POST")
        }
        ("", _) => {
            with_allow(refused(StatusCode::METHOD_NOT_ALLOWED, "This call takes GET only"), "GET, HEAD")
        }
        _ => refused(StatusCode::NOT_FOUND, "There is nothing at this path"),
    }
}

fn with_allow(mut response: Response<GatewayBody>, methods: &'static str) -> Response<GatewayBody> {
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    response
}

impl Called<'_> {
    /// Takes a place, or finds the one that the cookie has. A form is sent on to where its visitor wanted to go.
    async fn join<B>(&mut self, request: &Request<B>, page: bool) -> Response<GatewayBody> {
        // Whoever asks for a place by name is somebody who can keep it: he gets one also without a cookie that came back.
        if self.case.cookie.is_none() {
            let nonce = u64::from_le_bytes(random::bytes());
            self.case.cookie = Some(CookieContent::Arrived { at: self.case.now, nonce });
        }
        self.case.kind = Kind::Navigation;
        let judgement = verdict::judge(&self.case).await;
        let address = return_address(request.uri().query());
        let (mut response, cookie) = match judgement {
            Judgement::Reject(rejection) => return reject::answer(&rejection, page, None),
            Judgement::Proxy(entry) => (sent_on(address, page), entry.cookie),
            Judgement::Wait(wait, cookie) => {
                let shown = if page { sent_on(address, page) } else { self.shown(&wait, request, false) };
                (shown, cookie.map(|cookie| (CookieKind::Place, cookie)))
            }
        };
        if let Some((kind, cookie)) = cookie {
            set_cookie(self.case.rule, &mut response, (kind, &cookie), self.is_tls, self.case.now);
        }
        response
    }

    /// Gives the place up, or ends the visit.
    async fn leave(&self, page: bool) -> Response<GatewayBody> {
        let room = &self.case.rule.room;
        let ticket = match self.case.cookie {
            Some(CookieContent::Waiting { ticket } | CookieContent::Admitted { ticket, .. }) => Some(ticket),
            Some(CookieContent::Arrived { .. }) | None => None,
        };
        if let Some(ticket) = ticket {
            let left = room.handle.operate(Operation::Leave { ticket }, Actor::Visitor).await;
            match left {
                // Whoever has left before has left.
                Ok(_) | Err(EngineError::Refused(_)) => {}
                Err(_) => {
                    let text = "The line cannot be reached just now; you still have your place";
                    return reject::answer(
                        &Rejection::Line(StatusCode::SERVICE_UNAVAILABLE, text),
                        page,
                        None,
                    );
                }
            }
            let session_millis = self.case.rule.settings.session_duration.get() * 1000;
            room.visits.bury(key_of(&ticket), self.case.now, session_millis);
        }
        let mut response = if page {
            let lead =
                "Your place has gone to the next in line. You can come back at any time, at the end of it.";
            let link = Some((HOME.to_owned(), "Back to the site"));
            page::answer(
                StatusCode::OK,
                &Page { title: "You have left the line", lead, link, ..Page::default() },
            )
        } else {
            page::json(
                StatusCode::OK,
                HeaderValue::from_static("application/json"),
                &serde_json::json!({ "room": room.handle.id().as_str(), "status": "left" }),
            )
        };
        for kind in [CookieKind::Place, CookieKind::Loss] {
            cookies::attach(response.headers_mut(), room.cookie_names.clear(kind, self.is_tls));
        }
        response
    }

    /// Where the holder of the cookie stands. Nothing is taken or entered by asking.
    async fn ask<B>(&self, request: &Request<B>, page: bool) -> Response<GatewayBody> {
        let (room, now) = (&self.case.rule.room, self.case.now);
        let status = match self.case.cookie {
            Some(CookieContent::Waiting { ticket }) => {
                let wait = self.standing(ticket).await;
                return self.shown(&wait, request, page);
            }
            Some(CookieContent::Admitted { ticket, ends_at, .. })
                if ends_at > now && !room.visits.is_dead(key_of(&ticket)) =>
            {
                "admitted"
            }
            Some(CookieContent::Admitted { .. }) => "expired",
            Some(CookieContent::Arrived { .. }) => "arriving",
            None => "none",
        };
        page::json(
            StatusCode::OK,
            HeaderValue::from_static("application/json"),
            &serde_json::json!({ "room": room.handle.id().as_str(), "status": status }),
        )
    }

    /// Whether a place is still there. Within the frontier only the room knows; while it does not answer, the place counts as kept.
    async fn standing(&self, ticket: Ticket) -> wait::Wait {
        let (room, now) = (&self.case.rule.room, self.case.now);
        if room.visits.is_dead(key_of(&ticket)) {
            return wait::Wait::Gone;
        }
        let (is_foreign, is_waiting) = room.handle.with_board(|board| {
            let is_foreign = board.recognise(&ticket, now) == Recognition::Foreign;
            (is_foreign, matches!(board.standing(&ticket, now), Standing::Waiting { .. }))
        });
        if is_foreign {
            return wait::Wait::Gone;
        }
        if is_waiting || self.case.store_is_lost {
            return wait::Wait::InLine(ticket);
        }
        match room.handle.operate(Operation::Inspect { ticket }, Actor::Visitor).await {
            Ok(Answer::Place(Place::Gone)) => wait::Wait::Gone,
            Ok(Answer::Place(Place::Claimed(session))) if !session.is_alive(now) => wait::Wait::Gone,
            _ => wait::Wait::InLine(ticket),
        }
    }

    fn shown<B>(&self, wait: &wait::Wait, request: &Request<B>, wants_page: bool) -> Response<GatewayBody> {
        let room = &self.case.rule.room;
        let board = room.handle.board();
        let address = return_address(request.uri().query()).unwrap_or_else(|| HOME.to_owned());
        let shown = Shown { room, board: &board, now: self.case.now, wants_page, address: &address };
        wait::answer(wait, &shown)
    }
}

/// Sends a browser on; tells a program that it is in.
fn sent_on(address: Option<String>, page: bool) -> Response<GatewayBody> {
    if !page {
        let body = serde_json::json!({ "status": "admitted" });
        return page::json(StatusCode::OK, HeaderValue::from_static("application/json"), &body);
    }
    let mut response = Response::new(GatewayBody::of(""));
    *response.status_mut() = StatusCode::SEE_OTHER;
    let address = address.unwrap_or_else(|| HOME.to_owned());
    let location = HeaderValue::try_from(address).unwrap_or(HeaderValue::from_static(HOME));
    response.headers_mut().insert(header::LOCATION, location);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The address that a call names to go on to: a path of this very site, and nothing that a browser could read as another.
fn return_address(query: Option<&str>) -> Option<String> {
    let value = query?.split('&').find_map(|pair| pair.strip_prefix("return="))?;
    let mut bytes = vec![];
    let mut rest = value.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            bytes.push(byte);
        }
    }
    let address = String::from_utf8(bytes).ok()?;
    let is_plain = address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    (address.starts_with('/') && !address.starts_with("//") && is_plain).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_to_another_site() {
        let to = |query: &str| return_address(Some(query));
        assert_eq!(to("room=Hall&return=/cart%3Fa%3D1").as_deref(), Some("/cart?a=1"));
        for evil in [
            "//evil.example",
            "/%5Cevil.example",
            "https://evil.example",
            "/%0d%0aSet-Cookie:a",
            "/a%2",
            "%2F%2Fevil.example",
        ] {
            assert_eq!(to(&format!("return={evil}")), None, "{evil}");
        }
    }
}
