//! Calls about the line itself, on the protected host: join it, leave it, ask where one stands. The cookie says who asks.

use anteroom_core::Operation;
use anteroom_store::EngineError;
use anteroom_store::engine::Actor;
use anteroom_tokens::cookie::CookieContent;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};

use anteroom_core::UnixMillis;

use crate::body::GatewayBody;
use crate::classify::{Kind, wants_page};
use crate::cookies;
use crate::page::{self, Page};
use crate::path::{Gateway, LINE_PATH, set_cookie};
use crate::reject::{self, Rejection};
use crate::rooms::Rule;
use crate::verdict::Judgement;
use crate::visit::key_of;
use crate::wait::{self, Shown};

/// Where somebody goes who named no address of this site.
const HOME: &str = "/";

/// A call, and who makes it.
pub(crate) struct Called<'request> {
    pub(crate) rule: &'request Rule,
    pub(crate) cookie: Option<CookieContent>,
    pub(crate) now: UnixMillis,
    pub(crate) is_tls: bool,
    pub(crate) gateway: &'request Gateway,
}

/// The answer to a call. `POST …/join`, `POST …/leave`, `GET …`.
pub(crate) async fn answer<B>(called: &Called<'_>, request: &Request<B>) -> Response<GatewayBody> {
    let page = wants_page(request.headers());
    let refused = |status, text| reject::answer(&Rejection::Line(status, text), page, None);
    let call = request.uri().path().strip_prefix(LINE_PATH).unwrap_or_default();
    match (call, request.method()) {
        ("/join", &Method::POST) => called.join(request, page).await,
        ("/leave", &Method::POST) => called.leave(page).await,
        ("", &Method::GET | &Method::HEAD) => called.ask(request, page).await,
        ("/join" | "/leave", _) => {
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
    async fn join<B>(&self, request: &Request<B>, page: bool) -> Response<GatewayBody> {
        // Whoever asks for a place by name is somebody who can keep it: he gets one also without a cookie that came back.
        let cookie = match self.cookie {
            held @ Some(CookieContent::Waiting { .. } | CookieContent::Admitted { .. }) => held,
            _ => Some(CookieContent::Arrived { at: self.now, nonce: 0 }),
        };
        let judgement = self.gateway.judge(self.rule, Kind::Navigation, cookie, self.now).await;
        let address = return_address(request.uri().query());
        match judgement {
            Judgement::Reject(rejection) => reject::answer(&rejection, page, None),
            Judgement::Proxy(entry) => {
                let mut response = sent_on(address, page);
                if let Some(cookie) = entry.cookie {
                    set_cookie(self.rule, &mut response, &cookie, self.is_tls, self.now);
                }
                response
            }
            Judgement::Wait(wait, cookie) => {
                let mut response =
                    if page { sent_on(address, page) } else { self.shown(&wait, request, false) };
                if let Some(cookie) = cookie {
                    set_cookie(self.rule, &mut response, &cookie, self.is_tls, self.now);
                }
                response
            }
        }
    }

    /// Gives the place up, or ends the visit.
    async fn leave(&self, page: bool) -> Response<GatewayBody> {
        let ticket = match self.cookie {
            Some(CookieContent::Waiting { ticket } | CookieContent::Admitted { ticket, .. }) => Some(ticket),
            Some(CookieContent::Arrived { .. }) | None => None,
        };
        if let Some(ticket) = ticket {
            let left = self.rule.room.handle.operate(Operation::Leave { ticket }, Actor::Visitor).await;
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
            let session_millis = self.rule.settings.session_duration.get() * 1000;
            self.rule.room.visits.bury(key_of(&ticket), self.now, session_millis);
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
                &serde_json::json!({ "room": self.rule.room.handle.id().as_str(), "status": "left" }),
            )
        };
        let cleared = self.rule.room.cookie_names.clear(self.is_tls);
        cookies::attach(response.headers_mut(), cleared);
        response
    }

    /// Where the holder of the cookie stands. Nothing is taken or entered by asking.
    async fn ask<B>(&self, request: &Request<B>, page: bool) -> Response<GatewayBody> {
        let status = match self.cookie {
            Some(CookieContent::Waiting { ticket }) => {
                return self.shown(&wait::Wait::InLine(ticket), request, page);
            }
            Some(CookieContent::Admitted { ticket, ends_at, .. })
                if ends_at > self.now && !self.rule.room.visits.is_dead(key_of(&ticket)) =>
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
            &serde_json::json!({ "room": self.rule.room.handle.id().as_str(), "status": status }),
        )
    }

    fn shown<B>(&self, wait: &wait::Wait, request: &Request<B>, wants_page: bool) -> Response<GatewayBody> {
        let board = self.rule.room.handle.board();
        let address = return_address(request.uri().query()).unwrap_or_else(|| HOME.to_owned());
        let shown =
            Shown { room: &self.rule.room, board: &board, now: self.now, wants_page, address: &address };
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
