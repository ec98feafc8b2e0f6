//! The path of a request, for both listeners: a list of named phases and two tables of routes.
//!
//! accept (`listener`) → strip the prefix → hot read (`hot`) → preflight → identify (the key, on the private listener) →
//! route (the tables below) → account (count the answer, allow it to be read across origins).

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anteroom_store::engine::Actor;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use serde_json::json;
use tower::ServiceExt;

use crate::answer::{self, AnswerBody, Answered, AwsError, Caching, mark_cross_origin, mark_json};
use crate::app::App;
use crate::aws::{self, Operator};
use crate::{hot, metrics, watch};

/// Every public route also answers under this prefix, so that it works on a protected host.
pub(crate) const PREFIX: &str = "/.anteroom";
const JOIN_PATH: &str = "/assign_queue_num";
const READ: &str = "GET,HEAD,OPTIONS";
const WRITE: &str = "POST,OPTIONS";

/// One path: the methods it has, and who answers.
type Route = (&'static str, &'static str, fn() -> MethodRouter<Arc<App>>);

#[rustfmt::skip]
const PUBLIC_ROUTES: &[Route] = &[
    ("/assign_queue_num",      WRITE, MethodRouter::new),                  // a place in line (always answered by `hot`)
    ("/queue_num",             READ,  || get(aws::queue_num)),           // its number (usually answered by `hot`)
    ("/serving_num",           READ,  || get(aws::serving_num)),         // the frontier (usually answered by `hot`)
    ("/waiting_num",           READ,  || get(aws::waiting_num)),         // how many wait (likewise)
    ("/generate_token",        WRITE, || post(aws::generate_token)),     // the pass
    ("/queue_pos_expiry",      READ,  || get(aws::queue_pos_expiry)),    // how long an offer stands
    ("/public_key",            READ,  || get(aws::public_key)),          // the key that signs now
    ("/.well-known/jwks.json", READ,  || get(aws::jwks)),                // every key a pass may be signed with
    ("/watch",                 READ,  || get(watch::watch)),             // the board as it changes
];

#[rustfmt::skip]
const PRIVATE_ROUTES: &[Route] = &[
    ("/generate_token",            WRITE, || post(aws::generate_token_private)),    // a pass, with overrides
    ("/increment_serving_counter", WRITE, || post(aws::increment_serving_counter)), // the operator's hand
    ("/num_active_tokens",         READ,  || get(aws::num_active_tokens)),          // visitors inside
    ("/expired_tokens",            READ,  || get(aws::expired_tokens)),             // passes that ran out
    ("/update_session",            WRITE, || post(aws::update_session)),            // a visit is over
    ("/reset_initial_state",       WRITE, || post(aws::reset_initial_state)),       // a new line
    ("/metrics",                   READ,  || get(metrics_text)),                    // for Prometheus
    ("/livez",                     READ,  || get(live)),                            // the process answers
    ("/readyz",                    READ,  || get(ready)),                           // the store and every room work
];

/// Paths of the private listener that need no key.
const OPEN_PATHS: &[&str] = &["/livez", "/readyz"];

/// Which listener a service stands behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listener {
    Public,
    Private,
}

impl Listener {
    const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
        }
    }

    const fn routes(self) -> &'static [Route] {
        match self {
            Self::Public => PUBLIC_ROUTES,
            Self::Private => PRIVATE_ROUTES,
        }
    }
}

/// What a listener's connections call for every request.
#[derive(Clone)]
pub(crate) struct Service {
    app: Arc<App>,
    listener: Listener,
    router: Router,
}

impl Service {
    pub(crate) fn new(app: Arc<App>, listener: Listener) -> Self {
        let mut router = Router::new();
        for (path, _, answer) in listener.routes() {
            router = router.route(path, answer());
        }
        let router = router.fallback(not_found).with_state(Arc::clone(&app));
        Self { app, listener, router }
    }

    /// The route a path belongs to.
    fn route(&self, path: &str) -> Option<&'static Route> {
        self.listener.routes().iter().find(|(route, _, _)| *route == path)
    }

    /// Everything but the hot reads.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Answered> + Send + 'static {
        let service = self.clone();
        async move {
            let mut request = request.map(Body::new);
            let route = service.route(request.uri().path());
            let Some((path, methods, _)) = route else {
                let answered =
                    service.identify(&mut request).map_or_else(AwsError::into_answer, |()| nowhere());
                return service.account("unknown", answered);
            };
            if request.method() == Method::OPTIONS {
                return service.account(path, answer::preflight(methods));
            }
            if let Err(refused) = service.identify(&mut request) {
                return service.account(path, refused.into_answer());
            }
            if !allows(methods, request.method()) {
                return service.account(path, wrong_method(methods));
            }
            let answered = service.router.clone().oneshot(request).await;
            service.account(path, answered.unwrap_or_else(|never| match never {}))
        }
    }

    /// The short way of a join: no router, no boxes around bodies.
    async fn join(self, request: Request<Incoming>) -> Response<AnswerBody> {
        match hot::assign_queue_num(&self.app, request).await {
            Ok(answered) => {
                self.app.metrics.answered(self.listener.name(), JOIN_PATH, answered.status().as_u16());
                answered.map(AnswerBody::Whole)
            }
            Err(error) => self.account(JOIN_PATH, error.into_answer()).map(AnswerBody::Routed),
        }
    }

    /// Who asks: on the private listener a key is needed for everything but the health checks.
    fn identify(&self, request: &mut Request<Body>) -> Result<(), AwsError> {
        let path = request.uri().path();
        let open = OPEN_PATHS.contains(&path) || (self.app.metrics_open && path == "/metrics");
        if self.listener == Listener::Public || open {
            return Ok(());
        }
        let known = bearer(request).is_some_and(|key| {
            // Every digest is compared, so that the time taken says nothing about which one matched.
            self.app.admin_keys.iter().fold(false, |known, digest| known | digest.matches(key))
        });
        if !known {
            let error =
                AwsError::new(StatusCode::UNAUTHORIZED, "A valid API key is needed: Authorization: Bearer …");
            return Err(error.with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        }
        request.extensions_mut().insert(Operator(Actor::Operator("admin".into())));
        Ok(())
    }

    /// Counts the answer, and lets any page read it.
    fn account(&self, route: &'static str, mut answered: Answered) -> Answered {
        let status = answered.status();
        self.app.metrics.answered(self.listener.name(), route, status.as_u16());
        tracing::debug!(listener = self.listener.name(), route, status = status.as_u16(), "answered");
        mark_cross_origin(answered.headers_mut());
        answered
    }
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, mut request: Request<Incoming>) -> Answering {
        if self.listener == Listener::Public {
            strip_prefix(&mut request);
            if let Some(answered) = hot::answer(&self.app, &request) {
                return Answering::Ready(Some(answered));
            }
            if request.method() == Method::POST && request.uri().path() == JOIN_PATH {
                return Answering::Making(Box::pin(self.clone().join(request)));
            }
        }
        let routed = self.answer(request);
        Answering::Making(Box::pin(async { routed.await.map(AnswerBody::Routed) }))
    }
}

/// An answer that is there, or one that is being made.
pub(crate) enum Answering {
    Ready(Option<Response<Full<Bytes>>>),
    Making(Pin<Box<dyn Future<Output = Response<AnswerBody>> + Send>>),
}

impl Future for Answering {
    type Output = Result<Response<AnswerBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Ready(answered) => {
                let answered = answered.take().expect("a future is not polled after it is ready");
                Poll::Ready(Ok(answered.map(AnswerBody::Whole)))
            }
            Self::Making(future) => future.as_mut().poll(context).map(Ok),
        }
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
    let mut parts = http::uri::Parts::default();
    parts.path_and_query = PathAndQuery::from_maybe_shared(Bytes::from(path_and_query)).ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}

fn allows(methods: &str, method: &Method) -> bool {
    methods.split(',').any(|allowed| allowed == method.as_str())
}

/// The key of `Authorization: Bearer …`.
fn bearer<B>(request: &Request<B>) -> Option<&str> {
    let value = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

fn nowhere() -> Answered {
    AwsError::new(StatusCode::NOT_FOUND, "There is nothing at this path").into_answer()
}

fn wrong_method(methods: &'static str) -> Answered {
    let error = AwsError::new(StatusCode::METHOD_NOT_ALLOWED, format!("This path answers to {methods}"));
    error.with_header(header::ALLOW, HeaderValue::from_static(methods)).into_answer()
}

async fn not_found() -> Answered {
    nowhere()
}

/// GET `/livez`.
async fn live() -> Answered {
    answer::json(StatusCode::OK, Caching::Never, &json!({"status": "live"}))
}

/// GET `/readyz`.
async fn ready(State(app): State<Arc<App>>) -> Answered {
    if app.engine.is_ready() {
        return answer::json(StatusCode::OK, Caching::Never, &json!({"status": "ready"}));
    }
    AwsError::unavailable("The store, or one of the rooms, does not work").into_answer()
}

/// GET `/metrics`.
async fn metrics_text(State(app): State<Arc<App>>) -> Answered {
    let Ok(text) = metrics::render(&app) else {
        return AwsError::unavailable("The metrics could not be written").into_answer();
    };
    let mut response = Response::new(Body::from(text));
    mark_json(response.headers_mut(), Caching::Never);
    let text = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    response
}
