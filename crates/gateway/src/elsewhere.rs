//! The waiting page for sites elsewhere, `/wait/{room}`: a site that has no gateway before it sends its visitors here, and gets them
//! back with a pass when their turn has come.
//!
//! *Invariant:* nobody is sent to an address that the room does not list.

use anteroom_core::settings::{HandOff, ReturnAddress, WebAddress};
use anteroom_core::{RoomId, Settings, Ticket};
use anteroom_pages::{Handoff, Page, Situation};
use anteroom_tokens::codes::Code;
use anteroom_tokens::cookie::CookieContent;
use anteroom_tokens::random;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};

use crate::body::GatewayBody;
use crate::classify::Kind;
use crate::cookies::CookieKind;
use crate::desk::{Claimed, HandedPass, PassDesk};
use crate::line::{self, Called, see_other};
use crate::path::set_cookie;
use crate::query::{escaped, has_parameter, parameter};
use crate::reject::Rejection;
use crate::verdict::{self, Judgement};
use crate::wait::{self, Shown, Wait, Waiter, WayIn};

/// The cookie that the sites of one domain share.
const PASS_COOKIE: &str = "anteroom_pass";
/// The parameter in which a site gets a one-time code.
const CODE: &str = "anteroom_code";
const RETURN: &str = "return";

/// Where the visitors of a room begin whose site is elsewhere.
pub(crate) fn wait_path(room: &RoomId) -> String {
    format!("/.anteroom/wait/{room}")
}

/// A visitor who waits for a site elsewhere.
pub(crate) struct Elsewhere<'request> {
    pub(crate) called: Called<'request>,
    pub(crate) desk: &'request dyn PassDesk,
}

/// Where a visitor is sent on to.
#[derive(Debug, PartialEq, Eq)]
enum Destination {
    /// There.
    To(String),
    /// Nowhere: the room names no address.
    Nowhere,
    /// To an address that the room does not list.
    NotListed,
}

impl Destination {
    fn of(settings: &Settings, query: Option<&str>) -> Self {
        if !has_parameter(query, RETURN) {
            let backend = settings.backend_uri.as_ref().map(|uri| uri.as_str().to_owned());
            let first = || settings.return_addresses.as_slice().first().map(ToString::to_string);
            return backend.or_else(first).map_or(Self::Nowhere, Self::To);
        }
        match parameter(query, RETURN).filter(|address| is_listed(settings, address)) {
            Some(address) => Self::To(address),
            None => Self::NotListed,
        }
    }
}

/// Whether the room lets visitors be sent there.
fn is_listed(settings: &Settings, address: &str) -> bool {
    let backend = settings.backend_uri.as_ref().map(WebAddress::as_str);
    let below_backend = backend.and_then(ReturnAddress::parse).is_some_and(|backend| backend.covers(address));
    let listed = settings.return_addresses.as_slice().iter().any(|listed| listed.covers(address));
    // A header takes it as it is: the room's own address was checked when it was set.
    let is_backend = backend == Some(address) && address.bytes().all(|byte| byte.is_ascii_graphic());
    is_backend || below_backend || listed
}

/// Scheme, host and port of an address.
fn site_of(address: &str) -> Option<String> {
    let bare = address.split(['?', '#']).next()?;
    ReturnAddress::parse(bare).map(|parsed| parsed.site().to_owned())
}

impl Elsewhere<'_> {
    /// The answer: the line, or at the turn the way on. `is_button`: the visitor has pressed it.
    pub(crate) async fn answer<B>(mut self, request: &Request<B>, is_button: bool) -> Response<GatewayBody> {
        if request.method() == Method::POST && line::is_from_another_site(request) {
            let text = "This can only be asked for by a page of this very site";
            return self.called.refused(StatusCode::FORBIDDEN, text);
        }
        let query = request.uri().query();
        let address = match Destination::of(&self.called.case.rule.settings, query) {
            Destination::To(address) => Some(address),
            Destination::Nowhere => None,
            Destination::NotListed => {
                let text =
                    "The room does not list this return address; its operator can add it to return_addresses";
                return self.called.refused(StatusCode::BAD_REQUEST, text);
            }
        };
        if is_button {
            self.called.case.kind = Kind::Navigation;
            // Whoever presses the button without a place has lost his cookie; he begins anew.
            if !matches!(self.called.case.cookie, Some(CookieContent::Waiting { .. })) {
                return see_other(&self.own_address(query, ""));
            }
        }
        let (wait, mut cookie) = match verdict::judge(&self.called.case).await {
            Judgement::Reject(rejection) => return self.called.rejected(&rejection),
            Judgement::Proxy(_) => return self.called.rejected(&Rejection::TurnedAway),
            Judgement::Wait(wait, cookie) => (wait, cookie),
        };
        self.note_presence(wait);
        let claims = is_button || self.called.case.rule.settings.auto_enter;
        let wait = match wait {
            Wait::Turn(waiter) if claims && self.called.case.kind == Kind::Navigation => {
                match self.handed_over(waiter, address.as_deref()).await {
                    Ok(response) => return response,
                    Err(wait) => wait,
                }
            }
            other => other,
        };
        if matches!(wait, Wait::Gone) {
            // The cookie that says so lets the next visit take another place.
            let nonce = u64::from_le_bytes(random::bytes());
            cookie = Some(CookieContent::Arrived { at: self.called.case.now, nonce });
        }
        let mut response = self.shown(wait, query, address.as_deref());
        if let Some(cookie) = cookie {
            let called = &self.called;
            let cookie = (CookieKind::Place, &cookie);
            set_cookie(called.case.rule, &mut response, cookie, called.is_tls, called.case.now);
        }
        response
    }

    /// In an auction, whoever opens the page counts as present.
    fn note_presence(&self, wait: Wait) {
        let case = &self.called.case;
        if let Wait::InLine(Waiter { ticket, .. }) = wait
            && case.kind == Kind::Navigation
            && case.rule.settings.is_auction()
        {
            self.desk.note_presence(case.rule.room.handle.id(), &ticket);
        }
    }

    /// This very page, or a call below it, with the same return address.
    fn own_address(&self, query: Option<&str>, call: &str) -> String {
        let path = wait_path(self.called.case.rule.room.handle.id());
        match parameter(query, RETURN) {
            Some(address) => format!("{path}{call}?{RETURN}={}", escaped(&address)),
            None => format!("{path}{call}"),
        }
    }

    fn shown(&self, wait: Wait, query: Option<&str>, address: Option<&str>) -> Response<GatewayBody> {
        let called = &self.called;
        let room = &called.case.rule.room;
        let (own, enter) = (self.own_address(query, ""), self.own_address(query, "/enter"));
        let board = room.handle.board();
        let site = address.and_then(site_of);
        let shown = Shown {
            room,
            board: &board,
            now: called.case.now,
            reader: &called.reader,
            address: &own,
            way_in: WayIn::HandOff { enter: &enter, site: site.as_deref() },
        };
        wait::answer(wait, &shown)
    }

    /// Claims the pass and hands it over, as the room says.
    async fn handed_over(
        &self,
        waiter: Waiter,
        address: Option<&str>,
    ) -> Result<Response<GatewayBody>, Wait> {
        let case = &self.called.case;
        let room = case.rule.room.handle.id();
        let pass = match self.desk.claim(room, waiter.ticket).await {
            Claimed::Pass(pass) => pass,
            Claimed::NotServed => return Err(Wait::InLine(waiter)),
            Claimed::Over => return Err(Wait::Gone),
            Claimed::Moved => return Err(Wait::Moved),
            Claimed::Closed => return Err(Wait::Closed),
            Claimed::Unavailable => return Err(Wait::Held(Some(waiter))),
        };
        let Some(address) = address else {
            return Ok(self.called.reader.page(StatusCode::OK, &self.page(Situation::Inside)));
        };
        let handoff = case.rule.settings.handoff;
        self.called.figures.handed_off(room.as_str(), handoff.as_str());
        let response = match handoff {
            HandOff::Query => see_other(&self.with_code(address, waiter.ticket)),
            HandOff::Cookie => self.with_cookie(address, &pass),
            HandOff::Post => self.with_form(address, *pass),
        };
        Ok(response)
    }

    fn page(&self, situation: Situation) -> Page<'_> {
        let rule = self.called.case.rule;
        Page {
            situation,
            settings: Some(&rule.settings),
            room: Some(rule.room.handle.id().as_str()),
            ..Page::default()
        }
    }

    /// The address with a one-time code, before what only the browser reads.
    fn with_code(&self, address: &str, ticket: Ticket) -> String {
        let case = &self.called.case;
        let room = case.rule.room.handle.id().clone();
        let code = self.called.codes.seal_hand_off(&Code { room, ticket, issued_at: case.now });
        let (address, fragment) = address.split_at(address.find('#').unwrap_or(address.len()));
        let separator = if address.contains('?') { '&' } else { '?' };
        format!("{address}{separator}{CODE}={code}{fragment}")
    }

    /// The pass as a cookie of the domain that both hosts share.
    fn with_cookie(&self, address: &str, pass: &HandedPass) -> Response<GatewayBody> {
        let mut response = see_other(address);
        let Some(domain) = &self.called.case.rule.settings.handoff_domain else {
            let text = "The room names no handoff_domain";
            return self.called.refused(StatusCode::SERVICE_UNAVAILABLE, text);
        };
        let secure = if self.called.is_tls { "; Secure" } else { "" };
        let cookie = format!(
            "{PASS_COOKIE}={}; Domain={}; Path=/; Max-Age={}; HttpOnly; SameSite=Lax{secure}",
            pass.access_token,
            domain.as_str(),
            pass.expires_in,
        );
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
        response
    }

    /// A form that the browser posts.
    fn with_form(&self, address: &str, pass: HandedPass) -> Response<GatewayBody> {
        let fields = vec![
            ("access_token", pass.access_token),
            ("refresh_token", pass.refresh_token),
            ("id_token", pass.id_token),
            ("token_type", "Bearer".to_owned()),
            ("expires_in", pass.expires_in.to_string()),
            ("room", self.called.case.rule.room.handle.id().as_str().to_owned()),
        ];
        let handoff = Some(Handoff { address: address.to_owned(), fields });
        self.called.reader.page(StatusCode::OK, &Page { handoff, ..self.page(Situation::HandOff) })
    }
}

#[cfg(test)]
mod tests {
    use anteroom_core::settings::Value;

    use super::*;

    fn settings() -> Settings {
        let mut settings = Settings::default();
        let list =
            Value::List(vec!["https://shop.example/tickets".into(), "https://other.example:8443".into()]);
        settings.set("return_addresses", &list).unwrap();
        settings
    }

    fn destination(settings: &Settings, address: &str) -> Destination {
        Destination::of(settings, Some(&format!("a=1&return={}", escaped(address))))
    }

    #[test]
    fn visitors_are_sent_to_listed_addresses_and_nowhere_else() {
        let settings = settings();
        for good in ["https://shop.example/tickets/7?seat=2#top", "https://other.example:8443/x"] {
            assert_eq!(destination(&settings, good), Destination::To(good.to_owned()));
        }
        for evil in [
            "",
            "/",
            "https://evil.example",
            "https://shop.example",
            "https://shop.example.evil.example/tickets",
            "https://shop.example@evil.example/tickets",
            "https://shop.example/tickets/../admin",
            "https://shop.example/tickets\r\nSet-Cookie: a=b",
            "javascript:alert(1)",
            "//shop.example/tickets",
        ] {
            assert_eq!(destination(&settings, evil), Destination::NotListed, "{evil}");
        }
        assert_eq!(Destination::of(&settings, Some("return=%zz")), Destination::NotListed);
        assert_eq!(Destination::of(&settings, Some("return")), Destination::NotListed);
    }

    #[test]
    fn whoever_names_nothing_goes_to_the_rooms_own_address() {
        let listed = "https://shop.example/tickets".to_owned();
        assert_eq!(Destination::of(&settings(), None), Destination::To(listed));
        assert_eq!(Destination::of(&Settings::default(), None), Destination::Nowhere);
        let mut backend = settings();
        backend.set("backend_uri", &Value::Text("https://site.example/enter?a=1".into())).unwrap();
        let own = "https://site.example/enter?a=1".to_owned();
        assert_eq!(Destination::of(&backend, None), Destination::To(own.clone()));
        assert_eq!(destination(&backend, &own), Destination::To(own));
        assert_eq!(destination(&backend, "https://site.example/other"), Destination::NotListed);
    }

    #[test]
    fn the_site_of_an_address_is_its_origin() {
        assert_eq!(site_of("https://Shop.example:8443/a?b#c").as_deref(), Some("https://shop.example:8443"));
        assert_eq!(site_of("/a"), None);
    }
}
