//! The path of a request, for both listeners, as named phases:
//!
//! accept (`listener`) → the CDN's secret → the gateway, if the request is for a site it stands before (`anteroom_gateway`) → strip
//! the prefix → identify and limit (`limits`) → hot (`hot`) → route (axum, by the tables in `routes`) →
//! preflight → identify (`access`) → permit → the handler → account (write errors in the path's style, count, allow
//! reading across origins).

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anteroom_gateway::ExpectedRefusal;
use anteroom_gateway::identify::{Peer, identify};
use anteroom_gateway::limiter::{Asked, Class, Decision, Quota};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::MethodRouter;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use tower::ServiceExt;

use crate::access::{Doorkeeper, Principal};
use crate::api::waiting_pages::ForOwnPages;
use crate::app::App;
use crate::http::error::{ApiError, Style};
use crate::http::fast_path;
use crate::http::problem::Problem;
use crate::http::rate_limits;
use crate::http::request::{BodyMax, read_body_within};
use crate::http::response::{self, AnswerBody, Answered, mark_cross_origin};
use crate::http::routes::{Access, BodyLimit, Listener, PREFIX, Route};
use crate::http::staleness::{self, Freshness};

/// The route under which requests for unknown paths are counted.
pub(crate) const UNKNOWN: &str = "unknown";

/// The services of a listener's connections.
pub(crate) struct Services {
    app: Arc<App>,
    listener: Listener,
    router: Router,
}

/// What one connection calls for every request.
#[derive(Clone)]
pub(crate) struct Service {
    app: Arc<App>,
    listener: Listener,
    router: Router,
    peer: Peer,
}

impl Services {
    pub(crate) fn new(app: Arc<App>, listener: Listener) -> Self {
        let mut router = Router::new();
        let mut paths: Vec<&'static str> = vec![];
        for route in listener.routes() {
            if !paths.contains(&route.path) {
                paths.push(route.path);
            }
        }
        for path in paths {
            let rows: Vec<&'static Route> =
                listener.routes().iter().filter(|route| route.path == path).collect();
            let mut methods = MethodRouter::new();
            for row in &rows {
                methods = methods.merge((row.answer)());
            }
            let phases = Arc::new(Phases::new(Arc::clone(&app), listener, path, rows));
            // The phases refuse a method without a row before this could be asked.
            let methods = methods.fallback(async || ApiError::problem(Problem::MethodNotAllowed, ""));
            router = router.route(path, methods.layer(from_fn_with_state(phases, Phases::run)));
        }
        let phases = Arc::new(Phases::new(Arc::clone(&app), listener, UNKNOWN, vec![]));
        let nowhere = async || ApiError::problem(Problem::NotFound, "There is nothing at this path");
        let nowhere = axum::routing::any(nowhere).layer(from_fn_with_state(phases, Phases::run));
        let router = router.fallback_service(nowhere.with_state::<()>(())).with_state(Arc::clone(&app));
        Self { app, listener, router }
    }

    /// For a connection from this peer.
    pub(crate) fn of(&self, peer: Peer) -> Service {
        Service { app: Arc::clone(&self.app), listener: self.listener, router: self.router.clone(), peer }
    }
}

impl Service {
    /// What is for a site that the gateway stands before.
    fn by_gateway(&self, request: Request<Incoming>) -> Answering {
        let (gateway, peer) = (Arc::clone(&self.app.gateway), self.peer);
        Answering::Making(Box::pin(
            async move { gateway.answer(request, peer).await.map(AnswerBody::Gateway) },
        ))
    }

    /// Finds out whether the client is within its budgets, then goes on.
    fn limited(&self, class: Class, request: Request<Incoming>) -> Answering {
        let app = &self.app;
        let client = identify(&self.peer, request.headers(), &app.identification);
        let decided = app.limiter.decide_at_once(&asked(class, &request), &client);
        if let Some(decision) = decided {
            return self.decided(decision, request);
        }
        let service = self.clone();
        Answering::Making(Box::pin(async move {
            let decision = service.app.limiter.decide(&asked(class, &request), &client).await;
            service.decided(decision, request).await.unwrap_or_else(|never| match never {})
        }))
    }

    fn decided(&self, decision: Decision, request: Request<Incoming>) -> Answering {
        match decision {
            Decision::Unlimited | Decision::FailedOpen => self.within_limits(request),
            Decision::Allowed(quota) => self.within_limits(request).marked(quota),
            Decision::Refused(quota) => {
                Answering::Routed(Some(rate_limits::refused(&self.app, &request, &quota)))
            }
        }
    }

    fn within_limits(&self, request: Request<Incoming>) -> Answering {
        if let Some(answered) = fast_path::answer(&self.app, &request) {
            return Answering::Ready(Some(answered));
        }
        match fast_path::join(&self.app, request) {
            Ok(joining) => Answering::Making(joining),
            Err(request) => self.routed(request),
        }
    }

    /// Everything that has no shorter way. Only here the request carries its peer along: the shorter ways would pay for it.
    fn routed(&self, mut request: Request<Incoming>) -> Answering {
        request.extensions_mut().insert(self.peer);
        let router = self.router.clone();
        Answering::Making(Box::pin(async move {
            let answered =
                router.oneshot(request.map(Body::new)).await.unwrap_or_else(|never| match never {});
            answered.map(AnswerBody::Routed)
        }))
    }
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, mut request: Request<Incoming>) -> Answering {
        if self.listener == Listener::Private {
            return self.routed(request);
        }
        let is_for_a_site = self.app.gateway.covers(&request);
        if !is_for_a_site {
            strip_prefix(&mut request);
        }
        if let Some(expected) = &self.app.origin_secret
            && !expected.is_shown_by(request.headers())
        {
            let error = ApiError::problem(Problem::Forbidden, "This address answers to its CDN only");
            let mut refused = error.render(Style::Problem, &self.app.public_url);
            mark_cross_origin(refused.headers_mut());
            self.app.metrics.answered(self.listener.name(), UNKNOWN, refused.status().as_u16());
            return Answering::Routed(Some(refused));
        }
        if is_for_a_site {
            return self.by_gateway(request);
        }
        let class = rate_limits::class_of(request.method(), request.uri().path());
        // Most reads end here: nothing else has to be known about them.
        if !self.app.limiter.concerns(class) {
            return self.within_limits(request);
        }
        self.limited(class, request)
    }
}

/// An answer that is there, or one that is being made.
pub(crate) enum Answering {
    Ready(Option<Response<Full<Bytes>>>),
    Routed(Option<Answered>),
    Making(Pin<Box<dyn Future<Output = Response<AnswerBody>> + Send>>),
}

impl Answering {
    /// With what is left of the client's budgets.
    fn marked(self, quota: Quota) -> Self {
        match self {
            Self::Ready(answered) => {
                Self::Ready(answered.map(|answered| rate_limits::marked(answered, &quota)))
            }
            Self::Routed(answered) => {
                Self::Routed(answered.map(|answered| rate_limits::marked(answered, &quota)))
            }
            Self::Making(making) => {
                Self::Making(Box::pin(async move { rate_limits::marked(making.await, &quota) }))
            }
        }
    }
}

/// A request as the limiter sees it.
fn asked<B>(class: Class, request: &Request<B>) -> Asked<'_> {
    Asked { class, method: request.method(), path: request.uri().path() }
}

impl Future for Answering {
    type Output = Result<Response<AnswerBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        const TWICE: &str = "a future is not polled after it is ready";
        match self.get_mut() {
            Self::Ready(answered) => Poll::Ready(Ok(answered.take().expect(TWICE).map(AnswerBody::Whole))),
            Self::Routed(answered) => Poll::Ready(Ok(answered.take().expect(TWICE).map(AnswerBody::Routed))),
            Self::Making(future) => future.as_mut().poll(context).map(Ok),
        }
    }
}

/// The phases around the handlers of one path.
struct Phases {
    app: Arc<App>,
    listener: Listener,
    path: &'static str,
    rows: Vec<&'static Route>,
    /// What `Allow` says.
    methods: HeaderValue,
}

impl Phases {
    fn new(app: Arc<App>, listener: Listener, path: &'static str, rows: Vec<&'static Route>) -> Self {
        let mut methods: Vec<&str> = rows.iter().map(|row| row.method.as_str()).collect();
        if methods.contains(&"GET") {
            methods.push("HEAD");
        }
        methods.push("OPTIONS");
        let methods = HeaderValue::try_from(methods.join(",")).expect("names of methods");
        Self { app, listener, path, rows, methods }
    }

    async fn run(State(phases): State<Arc<Self>>, request: Request<Body>, next: Next) -> Answered {
        let method = request.method();
        let row = phases.rows.iter().find(|row| match row.method.as_str() {
            "GET" => matches!(*method, Method::GET | Method::HEAD),
            other => method.as_str() == other,
        });
        let preflight = method == Method::OPTIONS && !phases.rows.is_empty();
        let answered = if preflight {
            response::preflight(&phases.methods)
        } else {
            match phases.admit(row.copied(), request).await {
                Ok(request) => next.run(request).await,
                Err(error) => axum::response::IntoResponse::into_response(error),
            }
        };
        phases.account(row.copied(), answered)
    }

    /// Identifies the caller, and lets the request pass if the row permits it.
    async fn admit(&self, row: Option<&Route>, request: Request<Body>) -> Result<Request<Body>, ApiError> {
        let limit = match row.map_or(BodyLimit::Nothing, |row| row.body) {
            BodyLimit::Nothing | BodyLimit::Streamed(_) => 0,
            BodyLimit::Configured => self.app.request_body_max_bytes,
            BodyLimit::Fixed(limit) => limit,
        };
        let mut request = self.identify(row, request).await?;
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
    async fn identify(&self, row: Option<&Route>, request: Request<Body>) -> Result<Request<Body>, ApiError> {
        let open = match row.map(|row| row.access) {
            Some(Access::Open) => true,
            Some(Access::OpenIfConfigured(_)) => self.app.metrics_open,
            Some(Access::Needs(_)) | None => self.listener == Listener::Public,
        };
        if open {
            return Ok(request);
        }
        let (mut parts, body) = request.into_parts();
        let (principal, body) = if Doorkeeper::is_signed(&parts.headers) {
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
    fn account(&self, row: Option<&Route>, mut answered: Answered) -> Answered {
        let mut waits = false;
        if let Some(error) = answered.extensions_mut().remove::<ApiError>() {
            waits = error.is(Problem::NotServed) || error.is(Problem::NoSlot);
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
            metrics.answered(listener, self.path, status.as_u16());
        }
        tracing::debug!(
            listener = self.listener.name(),
            route = self.path,
            status = status.as_u16(),
            "answered"
        );
        if !is_for_own_pages {
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
    let Some(path) = uri.path().strip_prefix(PREFIX).filter(|rest| rest.starts_with('/')) else {
        return;
    };
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
