//! The door, `GET /.anteroom/enter?return=PATH`: a newcomer who opens a page is redirected here with a cookie, and back.
//!
//! *Invariant:* nothing is taken before the cookie has come back, and a client that does not bring it is redirected
//! nowhere: it reads that cookies are needed. So there is no loop.

use std::fmt::Write;

use anteroom_core::RoomId;
use anteroom_pages::{Page, Situation};
use anteroom_tokens::cookie::CookieContent;
use http::header::{self, HeaderValue};
use http::{Request, Response, StatusCode};

use super::{HOME, LineCall, see_other};
use crate::account::Verdict;
use crate::body::GatewayBody;
use crate::classify::Kind;
use crate::gateway::{renewed_cookie, set_cookie};
use crate::line::page::path_and_query;
use crate::line::query::{ADDRESS_MAX_BYTES, escape, return_path};
use crate::line::wait::Wait;
use crate::reject::{ExpectedRefusal, Rejection};
use crate::verdict::cookies::CookieKind;
use crate::verdict::{self, Judgement};

/// Where it is, on every protected host.
pub(crate) const DOOR_PATH: &str = "/.anteroom/enter";
/// The longest address that is carried through the door, in bytes as written there: of a longer one the query is left
/// out. Pages repeat no longer ones either, and proxies refuse much longer request targets.
const RETURN_MAX_BYTES: usize = ADDRESS_MAX_BYTES;

/// Whether a request is at the door.
pub(crate) fn is_door(path: &str) -> bool {
    path == DOOR_PATH
}

/// The address that a request at the door goes on to.
pub(crate) fn destination(query: Option<&str>) -> String {
    return_path(query).unwrap_or_else(|| HOME.to_owned())
}

/// Redirects a newcomer through the door, to come back to this address. The browser keeps the fragment.
pub(crate) fn redirect(address: &str) -> Response<GatewayBody> {
    pass_on(&door_address(address))
}

/// The same for a request for a page.
pub(crate) fn redirect_newcomer<B>(request: &Request<B>) -> Response<GatewayBody> {
    redirect(&path_and_query(request))
}

/// The same for a request that another proxy passes on. It says which room the visitor stands before, because the host need not.
pub(crate) fn redirect_into<B>(room: &RoomId, request: &Request<B>) -> Response<GatewayBody> {
    pass_on(&format!("{}&room={room}", door_address(&path_and_query(request))))
}

/// A redirect that keeps what the browser tells the site about where its visitor comes from.
pub(crate) fn pass_on(address: &str) -> Response<GatewayBody> {
    let mut response = see_other(address);
    let headers = response.headers_mut();
    headers.remove(header::REFERRER_POLICY);
    headers.insert(header::VARY, HeaderValue::from_static("Cookie"));
    response
}

fn door_address(address: &str) -> String {
    let path = address.split('?').next().unwrap_or(HOME);
    let mut candidates = [address, path].into_iter().map(|address| escape(&plain(address)));
    let address = candidates.find(|address| address.len() <= RETURN_MAX_BYTES);
    format!("{DOOR_PATH}?return={}", address.as_deref().unwrap_or(HOME))
}

/// The same address, with those bytes escaped that a return address must not have.
fn plain(address: &str) -> String {
    let mut plain = String::with_capacity(address.len());
    for byte in address.bytes() {
        if byte.is_ascii_graphic() && byte != b'\\' {
            plain.push(char::from(byte));
        } else {
            write!(plain, "%{byte:02X}").expect("a String takes everything");
        }
    }
    plain
}

impl LineCall<'_> {
    /// The response at the door, and as which it counts. A visitor whose cookie is there gets a place, comes in by it
    /// if a slot is free, and is redirected to the page that they wanted, which shows what became of it.
    pub(crate) async fn answer_at_door<B>(&self, request: &Request<B>) -> (Response<GatewayBody>, Verdict) {
        let address = destination(request.uri().query());
        let (cookie, verdict) = match verdict::judge(&self.case).await {
            Judgement::Proxy(entry) => {
                let renewed =
                    || Some((CookieKind::Place, renewed_cookie(self.case.rule, entry.inside.as_ref()?)?));
                (entry.cookie.or_else(renewed), entry.verdict)
            }
            // The page that the visitor is redirected to says so, and asks before another place is taken.
            Judgement::Wait(Wait::Gone, _) => (None, Verdict::Waiting),
            Judgement::Wait(wait, cookie) => {
                (cookie.map(|cookie| (CookieKind::Place, cookie)), wait.verdict())
            }
            // The page says the same, and asks again by itself.
            Judgement::Reject(rejection @ (Rejection::Closed | Rejection::TurnedAway)) => {
                (None, rejection.verdict())
            }
            Judgement::Reject(rejection) => return (self.reject(&rejection), rejection.verdict()),
            Judgement::Arrive(arrived) => {
                let mut response = self.cookies_needed(address);
                self.set_arrival(&mut response, &arrived);
                return (response, Verdict::Arrived);
            }
        };
        // A program that has a place would be told nothing by a redirect.
        let mut response = if self.case.kind == Kind::Navigation || self.reader.wants_page {
            pass_on(&address)
        } else {
            self.show_standing(request).await
        };
        if let Some((kind, cookie)) = cookie {
            set_cookie(self.case.rule, &mut response, (kind, &cookie), self.is_tls, self.case.now);
        }
        (response, verdict)
    }

    /// The response to a client that has used up its budget for joins. The page that it is redirected to says so, and asks
    /// again by itself, however long that takes: by then the cookie may be too old for the door.
    pub(crate) fn limited_at_door<B>(&self, request: &Request<B>) -> Response<GatewayBody> {
        let mut response = pass_on(&destination(request.uri().query()));
        self.set_arrival(&mut response, &self.case.new_arrival());
        response
    }

    fn set_arrival(&self, response: &mut Response<GatewayBody>, arrived: &CookieContent) {
        let cookie = (CookieKind::Place, arrived);
        set_cookie(self.case.rule, response, cookie, self.is_tls, self.case.now);
    }

    /// The cookie has not come back: the page says that it is needed, with a link to try again.
    fn cookies_needed(&self, address: String) -> Response<GatewayBody> {
        let rule = self.case.rule;
        let page = Page {
            situation: Situation::CookiesNeeded,
            settings: Some(&rule.settings),
            room: Some(rule.room.handle.id().as_str()),
            home: Some(address),
            ..Page::default()
        };
        let mut response = self.reader.page(StatusCode::FORBIDDEN, &page);
        response.extensions_mut().insert(ExpectedRefusal);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comes_back_to(address: &str) -> String {
        let door = door_address(address);
        let (path, query) = door.split_once('?').unwrap();
        assert!(is_door(path), "{door}");
        destination(Some(query))
    }

    #[test]
    fn the_address_comes_back_through_the_door() {
        for address in ["/", "/cart?a=1&b=%20%26&c=/x?y#", "/a+b;c=d?return=/x", "/.anteroom/enter?return=/"]
        {
            assert_eq!(comes_back_to(address), address);
        }
        assert_eq!(comes_back_to("/caf\u{e9}?\u{e9}"), "/caf%C3%A9?%C3%A9");
        assert_eq!(comes_back_to("/a\\b"), "/a%5Cb");
        assert_eq!(comes_back_to(&format!("/cart?{}", "a".repeat(RETURN_MAX_BYTES))), "/cart");
        assert_eq!(comes_back_to(&format!("/{}", "a".repeat(RETURN_MAX_BYTES))), "/");
    }

    #[test]
    fn the_door_leads_to_no_other_site() {
        for evil in
            ["return=//evil.example", "return=https://evil.example", "return=/%5Cevil.example", "x=1", ""]
        {
            assert_eq!(destination(Some(evil)), "/", "{evil}");
        }
        assert_eq!(destination(None), "/");
    }
}
