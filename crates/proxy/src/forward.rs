//! The path of one request: prepared, sent, retried where that is safe, and answered.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Extensions, Method, Request, Response, StatusCode, Version, request};
use hyper::body::{Body, Incoming};
use hyper::client::conn::TrySendError;
use hyper::ext::ReasonPhrase;
use hyper::upgrade::OnUpgrade;
use tracing::debug;

use super::body::{ProxyBody, finish_in_background};
use super::client_paced::ClientPaced;
use super::error::{ProxyError, ResponseFault};
use super::headers::{
    apply_http1_framing, apply_http2_framing, prepare_request, prepare_response, remove_framing,
};
use super::observations::Observer;
use super::origins::Origins;
use super::outgoing::{BoxError, Outgoing, Upload};
use super::pool::{Channel, Lease, Origin, Wish};
use super::settings::{Http2ToOrigin, ProxySettings};
use super::tunnel::Tunnel;
use super::wait_timeout::WaitTimeout;

/// Who asked us, and how.
#[derive(Debug, Clone, Copy)]
pub struct Hop {
    /// The client's address, as far as we know it.
    pub client: IpAddr,
    /// Whether it speaks TLS.
    pub is_tls: bool,
    /// The visit that the request belongs to, if it is that of a visitor who is inside.
    pub visit: Option<VisitTag>,
}

/// Tells one visit from all others that come through this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VisitTag(pub u128);

/// The response of an origin.
#[derive(Debug)]
pub struct ForwardedResponse {
    /// What the client gets.
    pub response: Response<ProxyBody>,
    /// After an upgrade: what has to run for as long as the connection lasts.
    pub tunnel: Option<Tunnel>,
}

/// Sends a request to one of the origins and returns the answer as soon as its head is there. `extra` are header fields that
/// the origin gets on top.
///
/// Dropping the returned future, or the body of the answer, ends the exchange with the origin.
pub async fn forward<B>(
    origins: &Arc<Origins>,
    request: Request<B>,
    hop: &Hop,
    extra: &HeaderMap,
) -> Result<ForwardedResponse, ProxyError>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let forwarded = try_forward(origins, request, hop, extra).await;
    if let Err(error) = &forwarded
        && error.is_of_origin()
    {
        origins.log_failure(error);
    }
    forwarded
}

async fn try_forward<B>(
    origins: &Origins,
    request: Request<B>,
    hop: &Hop,
    extra: &HeaderMap,
) -> Result<ForwardedResponse, ProxyError>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (mut parts, body) = request.into_parts();
    let body = Outgoing::new(body);
    let settings = origins.settings();
    let upgrade = prepare_request(&mut parts, body.is_empty(), hop, extra, settings)?;
    let on_upgrade = parts.extensions.remove::<OnUpgrade>();
    parts.extensions = Extensions::new();
    // Without the client's end there is nothing to connect a tunnel to, and over HTTP/2 nothing to connect it with.
    let can_upgrade = on_upgrade.is_some() && settings.http2 != Http2ToOrigin::Always;
    let upgrade = upgrade.filter(|_| can_upgrade);
    let exchange = Exchange { settings, upgrade, visit: hop.visit };
    let body = body.gather(hop, origins.uploads(), settings).await?;

    let first = origins.choose(None);
    let wish = if exchange.upgrade.is_some() { Wish::NewHttp1 } else { Wish::Any };
    let is_repeatable = body.is_empty() && is_idempotent(&parts.method);
    let copy = is_repeatable.then(|| parts.clone());
    let response = match exchange.attempt(first, wish, parts, body).await {
        Ok(response) => response,
        Err(failure) => {
            let (error, retry) = failure.into_retry(copy);
            let second = origins.choose(Some(first));
            match retry {
                // A connection that the only origin did not give a moment ago will not be there now either.
                Some(retry) if !(is_without_connection(&error) && Arc::ptr_eq(first, second)) => {
                    debug!(%error, "retrying the request");
                    let wish = if wish == Wish::Any { Wish::New } else { wish };
                    let (parts, body) = retry;
                    exchange.attempt(second, wish, parts, body).await.map_err(|failure| failure.error)?
                }
                _ => return Err(error),
            }
        }
    };
    exchange.pass_on(response, on_upgrade).await
}

/// Methods that do no more when done twice than when done once.
fn is_idempotent(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE)
}

fn is_without_connection(error: &ProxyError) -> bool {
    matches!(error, ProxyError::Connect { .. } | ProxyError::ConnectTimeout { .. } | ProxyError::Busy { .. })
}

/// What stays the same over all attempts at a request.
struct Exchange<'a> {
    settings: &'a ProxySettings,
    upgrade: Option<HeaderValue>,
    visit: Option<VisitTag>,
}

/// An answer, and the connection that it comes over.
struct OriginResponse {
    response: Response<Incoming>,
    lease: Lease,
    upload: Option<Arc<Upload>>,
    paced: Option<ClientPaced>,
}

/// A failed attempt.
struct Failure {
    error: ProxyError,
    remainder: Remainder,
}

impl Failure {
    /// What may be sent again: a request of which nothing was sent, or the copy of one that may be repeated and had no answer.
    fn into_retry(self, copy: Option<request::Parts>) -> (ProxyError, Option<(request::Parts, Outgoing)>) {
        let retry = match self.remainder {
            Remainder::Unsent(unsent) => Some(*unsent),
            Remainder::NoResponse => copy.map(|parts| (parts, Outgoing::Empty)),
            Remainder::Nothing => None,
        };
        (self.error, retry)
    }

    /// The failure that a missing response means.
    fn of(origin: &Origin, no_response: NoResponse, has_received: bool, upload: Option<&Upload>) -> Self {
        let name = origin.address.to_string();
        let (error, remainder) = match no_response {
            NoResponse::TimedOut => (timeout_error(name, upload), Remainder::Nothing),
            NoResponse::Evicted => (ProxyError::ClientStalled, Remainder::Nothing),
            NoResponse::Ended(mut ended) => {
                let unsent = ended.take_message();
                let broken = ProxyError::Broken { origin: name, source: ended.into_error() };
                match unsent {
                    Some(request) => {
                        let (mut parts, body) = request.into_parts();
                        remove_framing(&mut parts);
                        (broken, Remainder::Unsent(Box::new((parts, body))))
                    }
                    None if upload.is_some_and(Upload::is_too_slow) => {
                        (ProxyError::ClientStalled, Remainder::Nothing)
                    }
                    None if upload.is_some_and(Upload::is_broken) => {
                        (ProxyError::ClientBroke, Remainder::Nothing)
                    }
                    None if has_received => (broken, Remainder::Nothing),
                    None => (broken, Remainder::NoResponse),
                }
            }
        };
        Self { error, remainder }
    }
}

/// The error of an exchange that took too long, by whom it waited for.
fn timeout_error(origin: String, upload: Option<&Upload>) -> ProxyError {
    match upload {
        Some(upload) if !upload.is_over() && upload.is_client_awaited() => ProxyError::ClientStalled,
        Some(upload) if !upload.is_over() => ProxyError::OriginStalled { origin },
        _ => ProxyError::ResponseTimeout { origin },
    }
}

/// What is left of a request after an attempt.
enum Remainder {
    /// All of it; nothing was sent.
    Unsent(Box<(request::Parts, Outgoing)>),
    /// Something may have been sent, nothing was answered.
    NoResponse,
    /// Nothing can be said.
    Nothing,
}

/// Whether an origin could not do what it is there for. That it does not know a method, or a version, is the client's mistake.
fn is_failure(status: StatusCode) -> bool {
    status.is_server_error()
        && !matches!(status, StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED)
}

impl Exchange<'_> {
    /// Notes how the origin fares, by requests of visitors who are inside: what is observed decides how many more are let in, and
    /// must not be in the hands of those who are not.
    fn observe(&self, origin: &Origin, note: impl FnOnce(&Observer)) {
        if self.visit.is_some() {
            note(&origin.observer);
        }
    }

    /// Sends a request to one origin and waits for the head of the answer.
    async fn attempt(
        &self,
        origin: &Arc<Origin>,
        wish: Wish,
        mut parts: request::Parts,
        body: Outgoing,
    ) -> Result<OriginResponse, Failure> {
        let mut lease = match origin.lease(wish, self.visit).await {
            Ok(lease) => lease,
            Err(error) => {
                // That all connections are in use says nothing about the origin.
                if !matches!(error, ProxyError::Busy { .. }) {
                    self.observe(origin, Observer::record_failure);
                }
                // Those without a visit, or those of one, may have used up their share alone, which says nothing to others.
                let is_share = matches!(error, ProxyError::Busy { .. })
                    && (self.visit.is_none() || origin.has_connections_left());
                if is_without_connection(&error) && !is_share {
                    origin.avoid();
                }
                return Err(Failure { error, remainder: Remainder::Unsent(Box::new((parts, body))) });
            }
        };
        if !self.settings.preserve_host || !parts.headers.contains_key(header::HOST) {
            parts.headers.insert(header::HOST, origin.address.host_value());
        }
        let upload = body.upload();
        let paced = upload.as_ref().map(|_| origin.client_paced.enter(self.visit));
        let sent = match &mut lease.channel {
            Channel::Http1(http1) => {
                apply_http1_framing(&mut parts.headers, body.is_empty(), self.upgrade.as_ref());
                let mut answer = pin!(http1.send(Request::from_parts(parts, body)));
                let mut wait =
                    Wait::begin(&mut http1.timeout, upload.as_deref(), paced.as_ref(), self.settings);
                poll_fn(|context| {
                    let polled = http1.drive_for(context, |context| answer.as_mut().poll(context));
                    wait.poll_or_time_out(&mut http1.timeout, context, polled)
                })
                .await
                .map(|response| (response, http1.timeout.waited()))
                .map_err(|no_response| (no_response, http1.received.is_set()))
            }
            Channel::Http2 { sender, .. } => {
                apply_http2_framing(&mut parts, origin.address.is_tls());
                let mut answer = pin!(sender.try_send_request(Request::from_parts(parts, body)));
                let mut timeout =
                    WaitTimeout::new(self.settings.response_timeout.min(self.settings.stall_timeout));
                let mut wait = Wait::begin(&mut timeout, upload.as_deref(), paced.as_ref(), self.settings);
                poll_fn(|context| {
                    let polled = answer.as_mut().poll(context);
                    wait.poll_or_time_out(&mut timeout, context, polled)
                })
                .await
                .map(|response| (response, timeout.waited()))
                .map_err(|no_response| (no_response, false))
            }
            Channel::Taken | Channel::Opening | Channel::Gone => {
                unreachable!("a lease begins with a connection")
            }
        };
        match sent {
            Ok((response, latency)) => {
                let is_error = is_failure(response.status());
                self.observe(origin, |observer| observer.record_response(latency, is_error));
                if let Some(upload) = &upload {
                    upload.note_answered();
                }
                Ok(OriginResponse { response, lease, upload, paced })
            }
            Err((no_response, has_received)) => {
                // How far the body was is asked before the connection, and the body with it, is let go.
                let failure = Failure::of(origin, no_response, has_received, upload.as_deref());
                lease.discard();
                if failure.error.is_of_origin() && !matches!(failure.remainder, Remainder::Unsent(..)) {
                    self.observe(origin, Observer::record_failure);
                }
                Err(failure)
            }
        }
    }

    /// From the origin's answer to what the client gets.
    async fn pass_on(
        &self,
        response: OriginResponse,
        on_upgrade: Option<OnUpgrade>,
    ) -> Result<ForwardedResponse, ProxyError> {
        let OriginResponse { response, mut lease, upload, paced } = response;
        let (mut parts, incoming) = response.into_parts();
        if let Channel::Http1(http1) = &mut lease.channel
            && parts.version == Version::HTTP_10
        {
            http1.retire();
        }
        // The client gets our version of HTTP, whatever the origin's is.
        parts.version = Version::HTTP_11;
        if !parts.extensions.is_empty() {
            let reason = parts.extensions.remove::<ReasonPhrase>();
            parts.extensions = Extensions::new();
            if let Some(reason) = reason {
                parts.extensions.insert(reason);
            }
        }
        let refuse = |lease: &mut Lease, fault: ResponseFault| {
            lease.discard();
            ProxyError::Response { origin: lease.origin.address.to_string(), fault }
        };
        match prepare_response(&mut parts, self.upgrade.as_ref()) {
            Err(fault) => Err(refuse(&mut lease, fault)),
            Ok(true) => {
                let taken = match &mut lease.channel {
                    Channel::Http1(http1) => poll_fn(|context| http1.poll_take(context)).await,
                    _ => None,
                };
                let (Some((transport, first)), Some(on_upgrade)) = (taken, on_upgrade) else {
                    return Err(refuse(&mut lease, ResponseFault::UnaskedUpgrade));
                };
                lease.take_out();
                let idle_timeout = self.settings.tunnel_idle_timeout;
                let tunnel = Tunnel::new(on_upgrade, transport, first, lease, idle_timeout);
                Ok(ForwardedResponse {
                    response: Response::from_parts(parts, ProxyBody::empty()),
                    tunnel: Some(tunnel),
                })
            }
            Ok(false) => {
                let body = match upload {
                    // An HTTP/2 connection has a task of its own, which sends the rest.
                    Some(upload) if !upload.is_over() && matches!(lease.channel, Channel::Http1(_)) => {
                        let body = ProxyBody::streamed(incoming, &lease, self.settings);
                        finish_in_background(lease, upload, paced, self.settings);
                        body
                    }
                    _ => {
                        let mut pieces = Some((incoming, lease));
                        poll_fn(|context| {
                            let (incoming, lease) = pieces.take().expect("ready at the first poll");
                            Poll::Ready(ProxyBody::begin(incoming, lease, self.settings, context))
                        })
                        .await
                    }
                };
                Ok(ForwardedResponse { response: Response::from_parts(parts, body), tunnel: None })
            }
        }
    }
}

/// Why there is no response.
enum NoResponse {
    /// It took too long.
    TimedOut,
    /// Its client was idle, and another request needed the connection.
    Evicted,
    /// The connection ended.
    Ended(Box<TrySendError<Request<Outgoing>>>),
}

/// Waiting for a head: as long as the body moves, it may take its time.
struct Wait<'a> {
    upload: Option<(&'a Upload, &'a ClientPaced)>,
    settings: &'a ProxySettings,
    frames_seen: u64,
    bytes_seen: u64,
    was_over: bool,
}

impl<'a> Wait<'a> {
    fn begin(
        timeout: &mut WaitTimeout,
        upload: Option<&'a Upload>,
        paced: Option<&'a ClientPaced>,
        settings: &'a ProxySettings,
    ) -> Self {
        let upload = upload.zip(paced);
        let was_over = upload.is_none();
        timeout.begin(if was_over { settings.response_timeout } else { settings.stall_timeout });
        let bytes_seen = upload.map_or(0, |(upload, _)| upload.bytes());
        Self { upload, settings, frames_seen: 0, bytes_seen, was_over }
    }

    fn poll_or_time_out(
        &mut self,
        timeout: &mut WaitTimeout,
        context: &mut Context<'_>,
        polled: Poll<Result<Response<Incoming>, TrySendError<Request<Outgoing>>>>,
    ) -> Poll<Result<Response<Incoming>, NoResponse>> {
        if let Poll::Ready(ended) = polled {
            return Poll::Ready(ended.map_err(|ended| NoResponse::Ended(Box::new(ended))));
        }
        if let Some((upload, paced)) = self.upload
            && !self.was_over
        {
            let frames = upload.frames();
            self.was_over = upload.is_over();
            if self.was_over {
                timeout.begin(self.settings.response_timeout);
            } else if frames != self.frames_seen {
                self.frames_seen = frames;
                timeout.begin(self.settings.stall_timeout);
            }
            note_pace(upload, paced, &mut self.bytes_seen);
            if paced.poll_evicted(context).is_ready() {
                return Poll::Ready(Err(NoResponse::Evicted));
            }
        }
        timeout.poll_over(context).map(|()| Err(NoResponse::TimedOut))
    }
}

/// Notes what a client has sent since the last look, and who has to do the next thing.
pub(super) fn note_pace(upload: &Upload, paced: &ClientPaced, bytes_seen: &mut u64) {
    let bytes = upload.bytes();
    if bytes > *bytes_seen {
        paced.note_moved(bytes - *bytes_seen);
        *bytes_seen = bytes;
    }
    if upload.is_client_awaited() && !upload.is_over() {
        paced.await_client();
    } else {
        paced.await_origin();
    }
}
