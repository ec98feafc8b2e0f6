//! The verdict on a request that another proxy passes on. The same phases as for a request of our own, and the same
//! verdict; only what follows differs, because we do not see the answer of the site.
//!
//! *Invariant:* nobody comes in by an answer that lets a request pass: proxies lose its cookies. A visitor whose turn
//! has come is redirected, and the cookie travels with the redirect, which is a refusal to the proxy.
//!
//! *Invariant:* a refusal is never a 2xx, which proxies take for permission, nor a 5xx, which some of them are told to
//! take for it.

use std::sync::Arc;

use anteroom_core::UnixMillis;
use anteroom_proxy::RequestFault;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};

use super::forwarding::visit_headers;
use super::{Gateway, refuse, show_wait, with_cookie};
use crate::account::{Account, Verdict};
use crate::body::GatewayBody;
use crate::check::{CheckPath, Described, Dialect, described};
use crate::classify::path_readings::PathReadings;
use crate::classify::rooms::Rule;
use crate::classify::{self, Kind};
use crate::gateway::renewed_cookie;
use crate::identify::{self, Client, Peer};
use crate::limiter::Class;
use crate::line::door;
use crate::line::page::{self, Reader, path_and_query};
use crate::reject::{ExpectedRefusal, Rejection};
use crate::verdict::cookies::CookieKind;
use crate::verdict::visits::key_of;
use crate::verdict::{Case, Entry, EntryTrigger, InsideVisitor, Judgement};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// How soon a client repeats a request that would be let in by now.
const REPEAT_AFTER_SECONDS: u64 = 1;
/// How soon a client asks again that was told no time.
const RETRY_AFTER_SECONDS: u64 = 5;

/// What a proxy is told.
#[derive(Debug)]
pub enum CheckAnswer {
    /// The request may pass.
    Allow(Allowance),
    /// This is the response to it.
    Refuse(Box<Response<GatewayBody>>),
}

/// What goes along with a request that may pass.
#[derive(Debug, Default)]
pub struct Allowance {
    /// For the origin.
    pub to_origin: HeaderMap,
    /// For the visitor's browser, where the proxy can hand it on.
    pub cookie: Option<HeaderValue>,
}

impl Allowance {
    /// As the response of a check over HTTP.
    fn into_response(self) -> Response<GatewayBody> {
        let mut response = Response::new(GatewayBody::of(""));
        let headers = response.headers_mut();
        *headers = self.to_origin;
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(cookie) = self.cookie {
            headers.insert(header::SET_COOKIE, cookie);
        }
        response
    }
}

/// A request that another proxy passes on, and whose it is.
struct Checked<'request> {
    dialect: Dialect,
    rule: &'request Arc<Rule>,
    request: &'request Request<()>,
    client: &'request Client,
    is_tls: bool,
    now: UnixMillis,
}

impl Gateway {
    /// The response to a check over HTTP. Its path is one ([`crate::is_check`]), and its sender may ask.
    pub async fn answer_check(&self, mut check: Request<()>, peer: &Peer) -> Response<GatewayBody> {
        let uri = check.uri().clone();
        let Some(path) = CheckPath::parse(uri.path()) else {
            return self.refuse_without_room(&check, &Rejection::Misdirected);
        };
        let client = identify::identify_behind(peer, check.headers(), &self.identification);
        if !check.headers().contains_key(FORWARDED_FOR) && self.addressless_checks.may_log(self.engine.now())
        {
            tracing::warn!(
                dialect = path.dialect.as_str(),
                "check without X-Forwarded-For, all visitors behind this proxy count as one client"
            );
        }
        let request = match described(path, &mut check) {
            Ok(request) => request,
            Err(fault) => {
                if self.faulty_checks.may_log(self.engine.now()) {
                    tracing::warn!(dialect = path.dialect.as_str(), %fault, "check cannot be understood, refusing the request");
                }
                self.figures.count_check(path.dialect, false);
                return self.misconfigured(path.dialect, &check, fault.to_string());
            }
        };
        match self.check(path.dialect, path.room, request, &client, peer.is_tls).await {
            CheckAnswer::Allow(allowance) => allowance.into_response(),
            CheckAnswer::Refuse(response) => *response,
        }
    }

    /// The verdict on a request that another proxy passes on.
    pub async fn check(
        &self,
        dialect: Dialect,
        room: &str,
        request: Described,
        client: &Client,
        is_tls: bool,
    ) -> CheckAnswer {
        let answer = self.decide_check(dialect, room, request, client, is_tls).await;
        self.figures.count_check(dialect, matches!(answer, CheckAnswer::Allow(_)));
        answer
    }

    async fn decide_check(
        &self,
        dialect: Dialect,
        room: &str,
        request: Described,
        client: &Client,
        is_tls: bool,
    ) -> CheckAnswer {
        let Some(request) = request.into_request() else {
            let malformed = Rejection::Origin(RequestFault::TargetAmbiguous.into());
            let response = self.refuse_without_room(&Request::new(()), &malformed);
            return refusal(dialect, response);
        };
        let Some(rule) = self.rooms.by_name(room) else {
            let text = "There is no room of the name that this check asks for".to_owned();
            return CheckAnswer::Refuse(Box::new(self.misconfigured(dialect, &request, text)));
        };
        if !rule.is_protected {
            let text = "The room stands before no site: set its hosts, so that visitors come in at it";
            return CheckAnswer::Refuse(Box::new(self.misconfigured(dialect, &request, text.to_owned())));
        }
        let checked = Checked {
            dialect,
            rule: &rule,
            request: &request,
            client,
            is_tls: is_tls || self.public_is_tls,
            now: self.engine.now(),
        };
        self.judge_check(&checked).await
    }

    async fn judge_check(&self, checked: &Checked<'_>) -> CheckAnswer {
        let Checked { dialect, rule, request, client, is_tls, now } = *checked;
        let mut account = Account::open(&rule.room.verdicts);
        let reader = || Reader::of(&self.writer, request);
        let path = PathReadings::of(request.uri().path());
        // What nginx shows after a 401 is asked for apart, and charged then.
        if dialect != Dialect::Nginx
            && let Some(rejection) = self.charge(Class::Gateway, request, client).await
        {
            return refusal(dialect, refuse(&rejection, &reader(), Some(rule), &mut account));
        }
        if self.rooms.is_ambiguous_in(rule, &path) {
            let ambiguous = Rejection::Origin(RequestFault::TargetAmbiguous.into());
            return refusal(dialect, refuse(&ambiguous, &reader(), Some(rule), &mut account));
        }
        if !rule.protects(&path) {
            if self.is_over_budget_at_nginx(checked).await {
                account.settle(Verdict::SentToPage);
                return refusal(dialect, Response::new(GatewayBody::of("")));
            }
            account.settle(Verdict::Unprotected);
            return checked.pass(Allowance::default(), &mut account);
        }
        let kind = classify::kind(request);
        let (kind, entry_trigger) = match (dialect, kind) {
            (Dialect::Nginx, Kind::Navigation) => (Kind::Read, EntryTrigger::Never),
            (_, Kind::Navigation) => (Kind::Navigation, EntryTrigger::Request),
            (_, other) => (other, EntryTrigger::Never),
        };
        let case = self.case(rule, kind, request.headers(), client, (is_tls, now));
        let case = Case { entry_trigger, ..case };
        let response = match self.judge(&case, request, &path, client).await {
            Judgement::Proxy(entry) => {
                if self.is_over_budget_at_nginx(checked).await {
                    account.settle(Verdict::SentToPage);
                    return refusal(dialect, Response::new(GatewayBody::of("")));
                }
                return self.admit_checked(checked, kind, entry, &mut account).await;
            }
            _ if dialect == Dialect::Nginx => {
                account.settle(Verdict::SentToPage);
                Response::new(GatewayBody::of(""))
            }
            Judgement::Wait(wait, cookie) => {
                account.settle(wait.verdict());
                show_wait((wait, cookie), rule, request, &reader(), (is_tls, now))
            }
            Judgement::Arrive(arrived) => {
                account.settle(Verdict::Arrived);
                checked.through_the_door(CookieKind::Place, &arrived)
            }
            Judgement::Reject(rejection) => refuse(&rejection, &reader(), Some(rule), &mut account),
        };
        refusal(dialect, response)
    }

    /// nginx asks for the page of a refusal apart, and that is charged; so its first question is charged where it permits.
    async fn is_over_budget_at_nginx(&self, checked: &Checked<'_>) -> bool {
        let Checked { dialect, request, client, .. } = *checked;
        dialect == Dialect::Nginx && self.charge(Class::Gateway, request, client).await.is_some()
    }

    /// A visitor who is inside, or comes in: touched, and renewed by what reaches the browser.
    async fn admit_checked(
        &self,
        checked: &Checked<'_>,
        kind: Kind,
        entry: Entry,
        account: &mut Account<'_>,
    ) -> CheckAnswer {
        let Checked { rule, is_tls, now, .. } = *checked;
        account.settle(entry.verdict);
        let session_millis = rule.settings.session_duration.get() * 1000;
        let may_redirect = |inside: &InsideVisitor| {
            rule.room.visits.may_redirect(key_of(&inside.ticket), now, session_millis)
        };
        // A browser that does not keep the cookie of its visit is let in by that of its place, and not redirected in a circle.
        if kind == Kind::Navigation
            && let Some((which, cookie)) = &entry.cookie
            && entry.inside.as_ref().is_none_or(may_redirect)
        {
            return refusal(checked.dialect, checked.through_the_door(*which, cookie));
        }
        self.touch(rule, &entry, now).await;
        let renewed = || Some((CookieKind::Place, renewed_cookie(rule, entry.inside.as_ref()?)?));
        let cookie = entry.cookie.or_else(renewed);
        // The proxy has not handed on what came with earlier permissions.
        if kind == Kind::Navigation
            && let Some((which, cookie)) = &cookie
            && entry.inside.as_ref().is_some_and(|inside| inside.ends_at <= now && may_redirect(inside))
        {
            return refusal(checked.dialect, checked.through_the_door(*which, cookie));
        }
        let cookie = cookie.map(|(which, cookie)| {
            let mut carrier = Response::new(GatewayBody::of(""));
            super::set_cookie(rule, &mut carrier, (which, &cookie), is_tls, now);
            carrier.headers_mut().remove(header::SET_COOKIE)
        });
        let to_origin = visit_headers(rule, entry.inside.as_ref());
        checked.pass(Allowance { to_origin, cookie: cookie.flatten() }, account)
    }

    /// The operator of a proxy has made a mistake: nothing passes, and the response says what is wrong.
    fn misconfigured<B>(
        &self,
        dialect: Dialect,
        request: &Request<B>,
        text: String,
    ) -> Response<GatewayBody> {
        let refused = Rejection::Check(text);
        let mut response = self.refuse_without_room(request, &refused);
        if dialect == Dialect::Nginx {
            // nginx knows no other refusal without a page.
            *response.status_mut() = StatusCode::FORBIDDEN;
        }
        response
    }
}

impl Checked<'_> {
    /// The request may pass. Where the page was asked for, the visitor has come in meanwhile.
    fn pass(&self, allowance: Allowance, account: &mut Account<'_>) -> CheckAnswer {
        if self.dialect != Dialect::NginxPage {
            return CheckAnswer::Allow(allowance);
        }
        let response =
            if self.request.method() == Method::GET && classify::kind(self.request) == Kind::Navigation {
                account.settle(Verdict::SentToPage);
                door::pass_on(&path_and_query(self.request))
            } else {
                account.settle(Verdict::SentToPage);
                repeat_the_request()
            };
        refusal(self.dialect, response)
    }

    /// Redirects a visitor through the door with a cookie. One of a visit that stands in no line goes back at once.
    fn through_the_door(
        &self,
        which: CookieKind,
        cookie: &anteroom_tokens::cookie::CookieContent,
    ) -> Response<GatewayBody> {
        let response = if which == CookieKind::Loss {
            door::pass_on(&path_and_query(self.request))
        } else {
            door::redirect_into(self.rule.room.handle.id(), self.request)
        };
        with_cookie(response, self.rule, (which, cookie), (self.is_tls, self.now))
    }
}

/// For what is no navigation: it was refused a moment ago, and would pass now.
fn repeat_the_request() -> Response<GatewayBody> {
    let body = serde_json::json!({
        "type": "about:blank",
        "title": "Try again",
        "status": 429,
        "detail": "You are inside by now, and this request was not passed on: repeat it.",
    });
    let kind = HeaderValue::from_static("application/problem+json");
    let mut response = page::json(StatusCode::TOO_MANY_REQUESTS, kind, &body);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(REPEAT_AFTER_SECONDS));
    response.extensions_mut().insert(ExpectedRefusal);
    response
}

/// A response as proxies take it for a refusal.
fn refusal(dialect: Dialect, mut response: Response<GatewayBody>) -> CheckAnswer {
    let status = response.status();
    if dialect == Dialect::Nginx {
        response = Response::new(GatewayBody::of(""));
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    } else if status.is_success() || status.is_server_error() {
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        let headers = response.headers_mut();
        if !headers.contains_key(header::RETRY_AFTER) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
        }
    }
    keep_one_cookie(response.headers_mut());
    CheckAnswer::Refuse(Box::new(response))
}

/// nginx hands on one cookie only, and a newer one breaks two.
fn keep_one_cookie(headers: &mut HeaderMap) {
    let mut values = headers.get_all(header::SET_COOKIE).iter();
    let (first, more) = (values.next().cloned(), values.next().is_some());
    if let Some(first) = first.filter(|_| more) {
        headers.insert(header::SET_COOKIE, first);
    }
}
