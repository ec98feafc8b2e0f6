//! Spans of the phases of a request, for whoever traces it beyond this server.
//!
//! Without the feature `otlp` all of this is nothing: an empty type and empty functions. With it, and as long as nobody exports spans
//! (no `otlp_endpoint`), a request costs one look at whether somebody does.
//!
//! A request carries its [`Trace`] among its extensions from the listener to where it is answered; each phase begins with a mark
//! there. What a span says of a request is its method, route, room, status and phases, and nothing that came from the client: neither
//! path nor query nor a header ([ADR 12](../../../docs/adr/0012-logs-hold-no-request-content.md)).

#[cfg(feature = "otlp")]
pub use exported::{TARGET, Trace};
#[cfg(not(feature = "otlp"))]
pub use nothing::Trace;

use std::pin::Pin;

use http::{Request, Response};

/// Begins the trace of a request, as a part of the one that its client tells of.
#[inline]
pub fn begin<B>(listener: &'static str, request: &mut Request<B>) {
    Trace::begin(listener, request);
}

/// A phase of the request begins, and the one before it ends.
#[inline]
pub fn mark<B>(request: &mut Request<B>, phase: &'static str) {
    Trace::with(request, |trace| trace.mark(phase));
}

/// The trace of a request, for who answers it.
#[inline]
pub fn take<B>(request: &mut Request<B>) -> Trace {
    Trace::take(request)
}

/// The trace of a request that goes on, for who waits for its answer elsewhere.
#[inline]
pub fn shared<B>(request: &Request<B>) -> Trace {
    Trace::shared(request)
}

/// A response that is being made.
type Pending<B> = Pin<Box<dyn Future<Output = Response<B>> + Send>>;

#[cfg(not(feature = "otlp"))]
mod nothing {
    use http::{HeaderMap, Request, StatusCode};

    use super::Pending;

    /// The spans of one request: none.
    #[derive(Debug, Clone, Copy)]
    pub struct Trace;

    impl Trace {
        pub(super) const fn begin<B>(_listener: &'static str, _request: &mut Request<B>) {}

        pub(super) fn with<B>(_request: &mut Request<B>, _change: impl FnOnce(&mut Self)) {}

        pub(super) const fn take<B>(_request: &mut Request<B>) -> Self {
            Self
        }

        pub(super) const fn shared<B>(_request: &Request<B>) -> Self {
            Self
        }

        /// Ends when this response is there.
        pub fn until_answered<B>(self, pending: Pending<B>) -> Pending<B> {
            pending
        }

        /// A phase begins, and the one before it ends.
        pub const fn mark(&mut self, _phase: &'static str) {}

        /// Tells an origin of the present phase, so that its spans become children of it.
        pub const fn pass_on(&self, _headers: &mut HeaderMap) {}

        /// Which route of the API it was for.
        pub const fn set_route(&self, _route: &'static str) {}

        /// Which room it was for.
        pub const fn set_room(&self, _room: &str) {}

        /// The request is answered.
        pub const fn end(&self, _status: StatusCode) {}
    }
}

#[cfg(feature = "otlp")]
mod exported {
    use http::{HeaderMap, Request, StatusCode};
    use opentelemetry::global;
    use opentelemetry_http::{HeaderExtractor, HeaderInjector};
    use tracing::field::Empty;
    use tracing::{Span, info_span};
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    use super::Pending;

    /// The target of our spans. Logs do not show it, so that a line of the log is the same with and without spans.
    pub const TARGET: &str = "otlp";

    /// The spans of one request; none while nobody exports them.
    #[derive(Debug, Clone, Default)]
    pub struct Trace {
        request: Option<Span>,
        /// The present phase. It ends when the next one takes its place.
        phase: Option<Span>,
    }

    impl Trace {
        pub(super) fn begin<B>(listener: &'static str, request: &mut Request<B>) {
            let span = info_span!(
                target: TARGET,
                parent: None,
                "request",
                otel.name = method(request),
                otel.kind = "server",
                otel.status_code = Empty,
                http.request.method = method(request),
                http.route = Empty,
                http.response.status_code = Empty,
                anteroom.listener = listener,
                anteroom.room = Empty,
            );
            if span.is_disabled() {
                return;
            }
            let parent = global::get_text_map_propagator(|propagator| {
                propagator.extract(&HeaderExtractor(request.headers()))
            });
            // It has just been made, so nothing is too late.
            let _set = span.set_parent(parent);
            request.extensions_mut().insert(Self { request: Some(span), phase: None });
        }

        pub(super) fn with<B>(request: &mut Request<B>, change: impl FnOnce(&mut Self)) {
            if let Some(trace) = request.extensions_mut().get_mut() {
                change(trace);
            }
        }

        pub(super) fn take<B>(request: &mut Request<B>) -> Self {
            request.extensions_mut().remove().unwrap_or_default()
        }

        pub(super) fn shared<B>(request: &Request<B>) -> Self {
            request.extensions().get().cloned().unwrap_or_default()
        }

        /// Ends when this response is there.
        pub fn until_answered<B: 'static>(self, pending: Pending<B>) -> Pending<B> {
            if self.request.is_none() {
                return pending;
            }
            Box::pin(async move {
                let response = pending.await;
                self.end(response.status());
                response
            })
        }

        /// A phase begins, and the one before it ends.
        pub fn mark(&mut self, phase: &'static str) {
            let Some(request) = &self.request else { return };
            // Ends first, so that phases do not overlap.
            self.phase = None;
            self.phase = Some(info_span!(target: TARGET, parent: request, "phase", otel.name = phase));
        }

        /// Tells an origin of the present phase, so that its spans become children of it.
        pub fn pass_on(&self, headers: &mut HeaderMap) {
            let Some(span) = self.phase.as_ref().or(self.request.as_ref()) else { return };
            let context = span.context();
            global::get_text_map_propagator(|propagator| {
                propagator.inject_context(&context, &mut HeaderInjector(headers));
            });
        }

        /// Which route of the API it was for.
        pub fn set_route(&self, route: &'static str) {
            self.record(|span| span.record("http.route", route));
        }

        /// Which room it was for.
        pub fn set_room(&self, room: &str) {
            self.record(|span| span.record("anteroom.room", room));
        }

        /// The request is answered.
        pub fn end(&self, status: StatusCode) {
            self.record(|span| {
                if status.is_server_error() {
                    span.record("otel.status_code", "ERROR");
                }
                span.record("http.response.status_code", status.as_u16())
            });
        }

        fn record(&self, record: impl FnOnce(&Span) -> &Span) {
            if let Some(request) = &self.request {
                record(request);
            }
        }
    }

    /// The method, or a word for all that a client has made up: the names of spans must be few.
    fn method<B>(request: &Request<B>) -> &'static str {
        const METHODS: [&str; 9] =
            ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
        METHODS.into_iter().find(|method| request.method() == method).unwrap_or("HTTP")
    }
}
