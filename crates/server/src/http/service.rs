//! The path of a request, for both listeners, as named phases. [`PHASES`] has them in order. `ARCHITECTURE.md` tells the same, and the
//! code marks where each begins (`// phase:`); a test compares them.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anteroom_gateway::ExpectedRefusal;
use anteroom_gateway::identify::{Peer, identify};
use anteroom_gateway::limiter::{Class, Decision, Quota, RequestDescriptor};
use anteroom_gateway::trace::{self, Trace};
use axum::body::Body;
use axum::extract::State;
use axum::middleware::Next;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;

use crate::access::{Authenticator, Principal};
use crate::api::checks::{self, Asked};
use crate::api::waiting_pages::ForOwnPages;
use crate::app::App;
use crate::http::aws_addresses::AddressMistake;
use crate::http::error::{ApiError, Style};
use crate::http::fast_path::{self, FastPath, PendingResponse};
use crate::http::problem::Problem;
use crate::http::rate_limits;
use crate::http::request::{BodyMax, read_body_within};
use crate::http::response::{self, ApiResponse, ResponseBody, mark_cross_origin, unmark_cross_origin};
use crate::http::router::{PathMatch, Router, UNKNOWN, allowed_methods, row_of};
use crate::http::routes::{Access, BodyLimit, Listener, PREFIX, Route};
use crate::http::staleness::{self, Freshness};

/// The phases of a request to our own API, in order, each with where it is.
pub const PHASES: [(&str, &str); 12] = [
    ("accept", "`listener`: a free slot, TLS, the head within its time limit"),
    ("check", "a verdict that another proxy asks for is the gateway's, whatever the host"),
    ("strip prefix", "`/.anteroom/join` becomes `/join`, unless the request is for a protected site"),
    ("CDN secret", "where `origin_secret_header` is set"),
    ("gateway", "a request for a protected site is the gateway's (`anteroom_gateway`)"),
    ("match", "`router`: the path is matched once, and its row found"),
    ("identify and limit", "`rate_limits`: the budget that the row names"),
    ("fast path", "`fast_path`: reads and joins whose row has one"),
    ("authenticate", "`access`: the key or signature, on the private listener"),
    ("authorize", "the permission and body limit of the row"),
    ("handler", "`api`"),
    ("account", "errors in the row's style, counted, readable across origins"),
];

/// The services of a listener's connections.
pub(crate) struct Services {
    app: Arc<App>,
    listener: Listener,
    router: Arc<Router>,
}

/// What one connection calls for every request.
#[derive(Clone)]
pub(crate) struct Service {
    app: Arc<App>,
    listener: Listener,
    router: Arc<Router>,
    peer: Peer,
}

impl Services {
    pub(crate) fn new(app: Arc<App>, listener: Listener) -> Self {
        let router = Arc::new(Router::new(&app, listener));
        Self { app, listener, router }
    }

    /// For a connection from this peer.
    pub(crate) fn of(&self, peer: Peer) -> Service {
        let (app, router) = (Arc::clone(&self.app), Arc::clone(&self.router));
        Service { app, listener: self.listener, router, peer }
    }
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn call(&self, mut request: Request<Incoming>) -> ResponseFuture {
        trace::begin(self.listener.name(), &mut request);
        if self.listener == Listener::Private {
            trace::mark(&mut request, "match");
            let found = self.router.find(request.uri().path());
            return self.dispatch(&found, request);
        }
        // phase: check
        trace::mark(&mut request, "check");
        match self.app.check_proxies.admit(&request, &self.peer) {
            Asked::NoVerdict => {}
            Asked::Verdict => return self.by_check(request),
            Asked::WithoutPermission => return self.refuse_early(request, checks::not_for_you()),
        }
        let is_for_a_site = self.app.gateway.covers(&request);
        // phase: strip prefix
        trace::mark(&mut request, "strip prefix");
        if !is_for_a_site {
            strip_prefix(&mut request);
        }
        // phase: CDN secret
        trace::mark(&mut request, "CDN secret");
        if let Some(expected) = &self.app.origin_secret
            && !expected.is_shown_by(request.headers())
        {
            let text = "This address answers to its CDN only";
            return self.refuse_early(request, ApiError::problem(Problem::Forbidden, text));
        }
        // phase: gateway
        trace::mark(&mut request, "gateway");
        if is_for_a_site {
            return self.by_gateway(request);
        }
        if let Some(below) = self.router.path_below_stage(request.uri().path()).map(str::to_owned) {
            replace_path(&mut request, &below);
        }
        // phase: match
        trace::mark(&mut request, "match");
        let found = self.router.find(request.uri().path());
        // A method without a row is refused without touching anything, like a read.
        let class = self.router.routes(&found).row(request.method()).map_or(Class::Read, |row| row.class);
        // Most reads end here: nothing else has to be known about them.
        if !self.app.limiter.concerns(class) {
            return self.within_limits(&found, request);
        }
        self.limit(class, found, request)
    }
}

impl Service {
    /// What is for a site that the gateway stands before.
    fn by_gateway(&self, request: Request<Incoming>) -> ResponseFuture {
        let (gateway, peer) = (Arc::clone(&self.app.gateway), self.peer);
        ResponseFuture::Pending(Box::pin(async move {
            gateway.answer(request, peer).await.map(ResponseBody::Gateway)
        }))
    }

    /// Refuses a request before its row is known.
    fn refuse_early(&self, mut request: Request<Incoming>, error: ApiError) -> ResponseFuture {
        let mut refused = error.render(Style::Problem, &self.app.public_url);
        mark_cross_origin(refused.headers_mut());
        self.app.metrics.count_response(self.listener.name(), UNKNOWN, refused.status().as_u16());
        trace::take(&mut request).end(refused.status());
        ResponseFuture::Routed(Some(refused))
    }

    /// The verdict on a request that another proxy passes on.
    fn by_check(&self, mut request: Request<Incoming>) -> ResponseFuture {
        let trace = trace::take(&mut request);
        let (gateway, peer) = (Arc::clone(&self.app.gateway), self.peer);
        // Nothing of a body is read: the proxy keeps it for the site.
        let (parts, _) = request.into_parts();
        let check = Request::from_parts(parts, ());
        ResponseFuture::Pending(Box::pin(async move {
            let response = gateway.answer_check(check, &peer).await.map(ResponseBody::Gateway);
            trace.end(response.status());
            response
        }))
    }

    /// Asks the limiter, then goes on.
    fn limit(&self, class: Class, found: PathMatch, mut request: Request<Incoming>) -> ResponseFuture {
        // phase: identify and limit
        trace::mark(&mut request, "identify and limit");
        let app = &self.app;
        let client = identify(&self.peer, request.headers(), &app.identification);
        let decided = app.limiter.decide_at_once(&request_descriptor(class, &request), &client);
        if let Some(decision) = decided {
            return self.after_limit(decision, &found, request);
        }
        let service = self.clone();
        ResponseFuture::Pending(Box::pin(async move {
            let decision = service.app.limiter.decide(&request_descriptor(class, &request), &client).await;
            service.after_limit(decision, &found, request).await.unwrap_or_else(|never| match never {})
        }))
    }

    fn after_limit(
        &self,
        decision: Decision,
        found: &PathMatch,
        mut request: Request<Incoming>,
    ) -> ResponseFuture {
        match decision {
            Decision::Unlimited | Decision::FailedOpen => self.within_limits(found, request),
            Decision::Allowed(quota) => self.within_limits(found, request).with_rate_limit_headers(quota),
            Decision::Refused(quota) => {
                let routes = self.router.routes(found);
                let refused = rate_limits::refused(&self.app, routes, &request, &quota);
                trace::take(&mut request).end(refused.status());
                ResponseFuture::Routed(Some(refused))
            }
        }
    }

    fn within_limits(&self, found: &PathMatch, mut request: Request<Incoming>) -> ResponseFuture {
        // phase: fast path
        trace::mark(&mut request, "fast path");
        let row = self.router.routes(found).row(request.method());
        match row.and_then(|row| row.fast) {
            Some(FastPath::Read(read)) => {
                let parameter = found.first_parameter(request.uri().path());
                match fast_path::read(&self.app, read, &request, parameter) {
                    Some(response) => {
                        trace::take(&mut request).end(response.status());
                        ResponseFuture::Ready(Some(response))
                    }
                    None => self.dispatch(found, request),
                }
            }
            Some(FastPath::Join(join)) => {
                let trace = trace::shared(&request);
                match join(&self.app, &self.peer, request) {
                    Ok(pending) => ResponseFuture::Pending(trace.until_answered(pending)),
                    Err(request) => self.dispatch(found, request),
                }
            }
            None => self.dispatch(found, request),
        }
    }

    /// Everything that has no fast path. Only here the request carries its peer along: the fast paths would pay for it.
    fn dispatch(&self, found: &PathMatch, mut request: Request<Incoming>) -> ResponseFuture {
        request.extensions_mut().insert(self.peer);
        let response = self.router.dispatch(found, request.map(Body::new));
        ResponseFuture::Pending(Box::pin(async move { response.await.map(ResponseBody::Routed) }))
    }
}

/// A response that is there, or one that is being made.
pub(crate) enum ResponseFuture {
    Ready(Option<Response<Full<Bytes>>>),
    Routed(Option<ApiResponse>),
    Pending(PendingResponse),
}

impl ResponseFuture {
    /// With what is left of the client's budgets.
    fn with_rate_limit_headers(self, quota: Quota) -> Self {
        use rate_limits::with_rate_limit_headers as add;
        match self {
            Self::Ready(response) => Self::Ready(response.map(|response| add(response, &quota))),
            Self::Routed(response) => Self::Routed(response.map(|response| add(response, &quota))),
            Self::Pending(pending) => Self::Pending(Box::pin(async move { add(pending.await, &quota) })),
        }
    }
}

/// A request as the limiter sees it.
fn request_descriptor<B>(class: Class, request: &Request<B>) -> RequestDescriptor<'_> {
    RequestDescriptor { class, method: request.method(), path: request.uri().path() }
}

impl Future for ResponseFuture {
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        const TWICE: &str = "a future is not polled after it is ready";
        match self.get_mut() {
            Self::Ready(response) => Poll::Ready(Ok(response.take().expect(TWICE).map(ResponseBody::Whole))),
            Self::Routed(response) => {
                Poll::Ready(Ok(response.take().expect(TWICE).map(ResponseBody::Routed)))
            }
            Self::Pending(future) => future.as_mut().poll(context).map(Ok),
        }
    }
}

/// The phases around the handlers of one path.
pub(crate) struct Phases {
    app: Arc<App>,
    listener: Listener,
    path: &'static str,
    rows: Vec<&'static Route>,
    /// What `Allow` says.
    methods: HeaderValue,
}

impl Phases {
    pub(crate) fn new(
        app: Arc<App>,
        listener: Listener,
        path: &'static str,
        rows: Vec<&'static Route>,
    ) -> Self {
        let methods = allowed_methods(&rows);
        Self { app, listener, path, rows, methods }
    }

    /// From a request to its response, or to the reason why there is none.
    async fn handle(
        &self,
        row: Option<&Route>,
        request: Request<Body>,
        next: Next,
        trace: &mut Trace,
    ) -> Result<ApiResponse, ApiError> {
        if let Some(mistake) = self.address_mistake(&request) {
            return Err(ApiError::problem(Problem::NotFound, mistake.text));
        }
        // phase: authenticate
        trace.mark("authenticate");
        let request = self.authenticate(row, request).await?;
        // phase: authorize
        trace.mark("authorize");
        let request = self.authorize(row, request)?;
        // phase: handler
        trace.mark("handler");
        Ok(next.run(request).await)
    }

    /// What is wrong with the address of a request that leads nowhere.
    fn address_mistake<B>(&self, request: &Request<B>) -> Option<AddressMistake> {
        if self.rows.is_empty() { AddressMistake::of(self.listener, request.uri().path()) } else { None }
    }

    /// Whether pages of other origins may not read an answer. AWS's control panel takes whatever it can read for success, and API
    /// Gateway let it read neither that a key is wrong nor that an address is.
    fn is_hidden_from_pages(&self, status: StatusCode, mistake: Option<AddressMistake>) -> bool {
        let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let is_aws = self.rows.first().is_some_and(|row| row.errors == Style::Aws);
        let is_astray = mistake.is_some_and(|mistake| mistake.means_aws_call);
        self.listener == Listener::Private && (is_astray || is_refused && is_aws)
    }

    /// Everything around the handlers.
    pub(crate) async fn run(
        State(phases): State<Arc<Self>>,
        mut request: Request<Body>,
        next: Next,
    ) -> ApiResponse {
        let mut trace = trace::take(&mut request);
        trace.set_route(phases.path);
        let method = request.method();
        let row = row_of(&phases.rows, method);
        let preflight = method == Method::OPTIONS && !phases.rows.is_empty();
        let mistake = phases.address_mistake(&request);
        let answered = if preflight {
            response::preflight(&phases.methods)
        } else {
            let handled = phases.handle(row, request, next, &mut trace).await;
            handled.unwrap_or_else(axum::response::IntoResponse::into_response)
        };
        // phase: account
        trace.mark("account");
        let mut answered = phases.account(row, answered);
        if phases.is_hidden_from_pages(answered.status(), mistake) {
            unmark_cross_origin(answered.headers_mut());
        }
        trace.end(answered.status());
        answered
    }

    /// Lets the request pass if the row permits it to this caller.
    fn authorize(&self, row: Option<&Route>, mut request: Request<Body>) -> Result<Request<Body>, ApiError> {
        let limit = match row.map_or(BodyLimit::Nothing, |row| row.body) {
            BodyLimit::Nothing | BodyLimit::Streamed(_) => 0,
            BodyLimit::Configured => self.app.request_body_max_bytes,
            BodyLimit::Fixed(limit) => limit,
        };
        let Some(row) = row else {
            if self.rows.is_empty() {
                return Ok(request);
            }
            let methods = self.methods.to_str().unwrap_or_default();
            let error =
                ApiError::problem(Problem::MethodNotAllowed, format!("This path answers to {methods}"));
            return Err(error.with_header(header::ALLOW, self.methods.clone()));
        };
        if let Access::Needs(permission) | Access::OpenIfConfigured(permission) = row.access
            && let Some(principal) = request.extensions().get::<Principal>()
            && !principal.role.may(permission)
        {
            let (name, role) = (&principal.name, principal.role.as_str());
            let roles = permission.roles();
            let text = format!("The key {name:?} has the role {role}; this needs one of {roles}");
            return Err(ApiError::problem(Problem::Forbidden, text));
        }
        if row.is_from_board {
            self.app.refuse_what_is_too_old()?;
            // A stale response is marked as such, whatever its reader has seen before.
            if self.app.freshness() != Freshness::Fresh {
                request.headers_mut().remove(header::IF_NONE_MATCH);
            }
        }
        request.extensions_mut().insert(BodyMax(limit));
        Ok(request)
    }

    /// On the private listener a key or a signature is needed for everything that is not open.
    async fn authenticate(
        &self,
        row: Option<&Route>,
        request: Request<Body>,
    ) -> Result<Request<Body>, ApiError> {
        let open = match row.map(|row| row.access) {
            Some(Access::Open) => true,
            Some(Access::OpenIfConfigured(_)) => self.app.metrics_open,
            Some(Access::Needs(_)) | None => self.listener == Listener::Public,
        };
        if open {
            return Ok(request);
        }
        let (mut parts, body) = request.into_parts();
        let (principal, body) = if Authenticator::is_signed(&parts.headers) {
            // A signature covers the body, so the body is read before it is known who sent it; never more than any other
            // call may send, also where the route itself would take a stream.
            let body = read_body_within(body, self.app.request_body_max_bytes).await?;
            let principal = self.app.access.identify(&parts, &body, self.app.now())?;
            (principal, Body::from(body))
        } else {
            (self.app.access.identify(&parts, &[], self.app.now())?, body)
        };
        parts.extensions.insert(principal);
        Ok(Request::from_parts(parts, body))
    }

    /// Writes an error in the path's style, counts the answer, and lets any page read it.
    fn account(&self, row: Option<&Route>, mut answered: ApiResponse) -> ApiResponse {
        let mut waits = false;
        if let Some(error) = answered.extensions_mut().remove::<ApiError>() {
            waits =
                error.is(Problem::NotServed) || error.is(Problem::NoSlot) || error.is(Problem::ManyArriving);
            let style = row.or(self.rows.first().copied()).map_or(Style::Problem, |row| row.errors);
            answered = error.render(style, &self.app.public_url);
        }
        let status = answered.status();
        let (metrics, listener) = (&self.app.metrics, self.listener.name());
        let is_for_own_pages = answered.extensions_mut().remove::<ForOwnPages>().is_some();
        // Expected refusals (waiting, by a status that the operator chose) do not count as failures.
        let is_expected = answered.extensions_mut().remove::<ExpectedRefusal>().is_some();
        if waits || is_expected {
            metrics.count_expected_refusal(listener, self.path, status.as_u16());
        } else {
            metrics.count_response(listener, self.path, status.as_u16());
        }
        tracing::debug!(
            listener = self.listener.name(),
            route = self.path,
            status = status.as_u16(),
            "answered"
        );
        if self.rows.iter().any(|row| !row.is_for_other_sites) {
            unmark_cross_origin(answered.headers_mut());
        } else if !is_for_own_pages {
            mark_cross_origin(answered.headers_mut());
        }
        if row.is_some_and(|row| row.is_from_board) {
            let freshness = self.app.freshness();
            staleness::mark(answered.headers_mut(), freshness);
            // An operator's tag stands for settings, a visitor's for figures that are not to be taken for the newest.
            if freshness != Freshness::Fresh && self.listener == Listener::Public {
                answered.headers_mut().remove(header::ETAG);
            }
        }
        answered
    }
}

/// `/.anteroom/queue_num?…` becomes `/queue_num?…`.
fn strip_prefix<B>(request: &mut Request<B>) {
    let uri = request.uri();
    let path = uri.path().strip_prefix(PREFIX).filter(|rest| rest.starts_with('/')).map(str::to_owned);
    if let Some(path) = path {
        replace_path(request, &path);
    }
}

/// The same request for another path.
fn replace_path<B>(request: &mut Request<B>, path: &str) {
    let uri = request.uri();
    let path_and_query = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    // Over HTTP/2 the host stands nowhere else.
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = PathAndQuery::from_maybe_shared(Bytes::from(path_and_query)).ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}
