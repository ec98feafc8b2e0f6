//! The waiting page for sites without a gateway, `/wait/{room}`: such a site sends its visitors here, and gets them back
//! with a pass when their turn has come.
//!
//! *Invariant:* no visitor is sent to an address that the room does not list.

use anteroom_admission::{AdmissionError, Pass};
use anteroom_core::settings::{HandOff, ReturnAddress, WebAddress};
use anteroom_core::{RoomId, Settings, Ticket};
use anteroom_pages::{Handoff, Page, Situation};
use anteroom_tokens::codes::Code;
use http::header::{self, HeaderValue};
use http::{Request, Response, StatusCode};

use crate::body::GatewayBody;
use crate::line::elsewhere::{ElsewhereVisitor, OwnPage, Progress, wait_after};
use crate::line::query::{decode, escape, has_parameter, parameter};
use crate::line::see_other;
use crate::line::wait::{Wait, Waiter, WayIn};

/// How the cookie begins that the sites of one domain share; the room follows, because several rooms may hand over to one domain. All
/// letters of a room's name may stand in that of a cookie.
const PASS_COOKIE: &str = "anteroom_pass_";
/// The parameter in which a site gets a one-time code.
const CODE: &str = "anteroom_code";
const RETURN: &str = "return";

/// Where the visitors of a room begin whose site has no gateway.
pub(crate) fn wait_path(room: &RoomId) -> String {
    format!("/.anteroom/wait/{room}")
}

/// A visitor who waits for a site without a gateway.
pub(crate) struct HandOffVisitor<'request>(pub(crate) ElsewhereVisitor<'request>);

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

/// An address with our code and no other, before what only the browser reads. Names are compared as the site will read
/// them, however they are written: a foreign code in front of ours would let the visitor in as another one.
fn with_parameter(address: &str, code: &str) -> String {
    let (address, fragment) = address.split_at(address.find('#').unwrap_or(address.len()));
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let is_ours = |pair: &&str| {
        let name = pair.split('=').next().and_then(decode);
        name.is_some_and(|name| name.eq_ignore_ascii_case(CODE))
    };
    let mut pairs: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty() && !is_ours(pair)).collect();
    let own = format!("{CODE}={code}");
    pairs.push(&own);
    format!("{path}?{}{fragment}", pairs.join("&"))
}

impl HandOffVisitor<'_> {
    /// The answer: the line, or at the turn the way on.
    pub(crate) async fn answer<B>(mut self, request: &Request<B>) -> Response<GatewayBody> {
        if let Some(refusal) = self.0.refuse_other_sites(request) {
            return refusal;
        }
        let query = request.uri().query();
        let address = match Destination::of(&self.0.call.case.rule.settings, query) {
            Destination::To(address) => Some(address),
            Destination::Nowhere => None,
            Destination::NotListed => {
                let text =
                    "The room does not list this return address; its operator can add it to return_addresses";
                return self.0.call.refuse(StatusCode::BAD_REQUEST, text);
            }
        };
        let (own, enter) = (self.own_address(query, ""), self.own_address(query, "/enter"));
        let page = OwnPage { address: &own, way_in: WayIn::HandOff { enter: &enter } };
        match self.0.proceed(request, &page).await {
            Progress::Waits(response) => response,
            Progress::InsideWithoutPlace => self.inside_page(),
            Progress::Inside(ticket) => match self.hand_over(Waiter::new(ticket), address.as_deref()).await {
                Ok(response) => response,
                // The visit has outlived its pass: there is nothing to hand over, and nothing to take from the visitor.
                Err(Wait::Gone) => self.inside_page(),
                Err(wait) => self.0.respond_waiting(wait, None, &page),
            },
            Progress::Turn(waiter) => match self.hand_over(waiter, address.as_deref()).await {
                Ok(mut response) => {
                    // With this cookie a visitor who comes back is handed over again, and can end the visit.
                    self.0.set_place_cookie(&mut response, &waiter.cookie());
                    response
                }
                Err(wait) => self.0.respond_waiting(wait, Some(waiter.cookie()), &page),
            },
        }
    }

    fn inside_page(&self) -> Response<GatewayBody> {
        self.0.call.reader.page(StatusCode::OK, &self.page(Situation::Inside))
    }

    /// This very page, or a call below it, with the same return address.
    fn own_address(&self, query: Option<&str>, suffix: &str) -> String {
        let path = wait_path(self.0.call.case.rule.room.handle.id());
        match parameter(query, RETURN) {
            Some(address) => format!("{path}{suffix}?{RETURN}={}", escape(&address)),
            None => format!("{path}{suffix}"),
        }
    }

    /// Claims the pass and hands it over, as the room says.
    async fn hand_over(&self, waiter: Waiter, address: Option<&str>) -> Result<Response<GatewayBody>, Wait> {
        let case = &self.0.call.case;
        let room = case.rule.room.handle.id();
        let handoff = case.rule.settings.handoff;
        // A site that gets a code gets the pass for it, from /claim.
        let wants_pass = address.is_some() && handoff != HandOff::Query;
        let pass = match self.claim(waiter.ticket, wants_pass).await {
            Ok(pass) => pass,
            Err(error) => return Err(wait_after(&error, waiter)),
        };
        let Some(address) = address else {
            return Ok(self.0.call.reader.page(StatusCode::OK, &self.page(Situation::Inside)));
        };
        self.0.call.figures.count_hand_off(room.as_str(), handoff.as_str());
        Ok(match (handoff, pass) {
            (HandOff::Cookie, Some(pass)) => self.with_cookie(address, &pass),
            (HandOff::Post, Some(pass)) => self.with_form(address, pass),
            (HandOff::Query, _) | (_, None) => see_other(&self.with_code(address, waiter.ticket)),
        })
    }

    /// Claims a place that is served. Its pass is the same on every call, and only signed where it is wanted.
    async fn claim(&self, ticket: Ticket, wants_pass: bool) -> Result<Option<Pass>, AdmissionError> {
        let session = self.0.begin(ticket).await?;
        if !wants_pass {
            return Ok(None);
        }
        let case = &self.0.call.case;
        case.admission.sign(&case.rule.room, session).await.map(Some)
    }

    fn page(&self, situation: Situation) -> Page<'_> {
        let rule = self.0.call.case.rule;
        Page {
            situation,
            settings: Some(&rule.settings),
            room: Some(rule.room.handle.id().as_str()),
            ..Page::default()
        }
    }

    /// The address with a one-time code.
    fn with_code(&self, address: &str, ticket: Ticket) -> String {
        let case = &self.0.call.case;
        let room = case.rule.room.handle.id().clone();
        let code = self.0.call.codes.seal_hand_off(&Code { room, ticket, issued_at: case.now });
        with_parameter(address, &code)
    }

    /// The pass as a cookie of the domain that both hosts share.
    fn with_cookie(&self, address: &str, pass: &Pass) -> Response<GatewayBody> {
        let mut response = see_other(address);
        let Some(domain) = &self.0.call.case.rule.settings.handoff_domain else {
            let text = "The room names no handoff_domain";
            return self.0.call.refuse(StatusCode::SERVICE_UNAVAILABLE, text);
        };
        let secure = if self.0.call.is_tls { "; Secure" } else { "" };
        let cookie = format!(
            "{PASS_COOKIE}{}={}; Domain={}; Path=/; Max-Age={}; HttpOnly; SameSite=Lax{secure}",
            self.0.call.case.rule.room.handle.id(),
            pass.tokens.access_token,
            domain.as_str(),
            pass.expires_in,
        );
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
        response
    }

    /// A form that the browser posts.
    fn with_form(&self, address: &str, pass: Pass) -> Response<GatewayBody> {
        let fields = vec![
            ("access_token", pass.tokens.access_token),
            ("refresh_token", pass.tokens.refresh_token),
            ("id_token", pass.tokens.id_token),
            ("token_type", "Bearer".to_owned()),
            ("expires_in", pass.expires_in.to_string()),
            ("room", self.0.call.case.rule.room.handle.id().as_str().to_owned()),
        ];
        let handoff = Some(Handoff { address: address.to_owned(), fields });
        self.0.call.reader.page(StatusCode::OK, &Page { handoff, ..self.page(Situation::HandOff) })
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
        Destination::of(settings, Some(&format!("a=1&return={}", escape(address))))
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
    fn an_address_gets_one_code_before_its_fragment() {
        assert_eq!(with_parameter("https://a/b", "X"), "https://a/b?anteroom_code=X");
        assert_eq!(with_parameter("https://a/b?c=1#d?e", "X"), "https://a/b?c=1&anteroom_code=X#d?e");
        for name in ["anteroom_code", "%61nteroom_code", "anteroom%5Fcode", "%41nteroom_Code"] {
            for pair in [format!("{name}=OLD"), name.to_owned()] {
                let address = with_parameter(&format!("https://a/?{pair}&c=1&{pair}"), "X");
                assert_eq!(address, "https://a/?c=1&anteroom_code=X", "{pair}");
            }
        }
        // Another name, and one that cannot be read, are the site's.
        let others = "https://a/?anteroom_codes=1&%zz=2&anteroom_code%zz=3";
        assert_eq!(with_parameter(others, "X"), format!("{others}&anteroom_code=X"));
    }

    #[test]
    fn without_a_return_address_the_rooms_own_one_is_used() {
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
}
