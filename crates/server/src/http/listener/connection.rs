//! One connection, from its first byte to its last: TLS if asked for, then HTTP/1.1 or HTTP/2, ended by whichever comes
//! first of the client, a time-out, the drain and the cut.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use anteroom_store::clock::Stopwatch;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::heads::{HeaderTimeout, SharedStage, track_stage};
use super::takeout::{Offering, Takeout};
use super::traffic::{Traffic, Verdict, Watched};
use super::transport::Transport;
use super::{Connections, Limits, MAX_HEADERS, Phase};
use crate::http::tls::ALPN_HTTP2;

/// The smallest read buffer hyper accepts.
const HTTP1_BUFFER_MIN_BYTES: usize = 8 * 1024;
/// Requests one HTTP/2 client may have in flight.
const HTTP2_MAX_CONCURRENT_STREAMS: u32 = 100;
/// Body bytes one HTTP/2 stream may send ahead of being read.
const HTTP2_STREAM_WINDOW_BYTES: u32 = 64 * 1024;
/// The same for all streams of a connection: what one client can make us hold.
const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 512 * 1024;
/// Answer bytes buffered for one HTTP/2 stream.
const HTTP2_SEND_BUFFER_MAX_BYTES: usize = 64 * 1024;
/// Streams a client may open and reset before they were even looked at ("rapid reset"), until it is sent away.
const HTTP2_PENDING_RESETS_MAX: usize = 20;
/// Streams we may reset because of the client's errors, until it is sent away.
const HTTP2_ERROR_RESETS_MAX: usize = 256;
/// How often a quiet HTTP/2 connection is asked whether it still lives.
const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(20);
/// How long it may take to say so.
const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(10);

/// What a connection knows about its listener.
pub(super) struct Context {
    pub(super) name: &'static str,
    pub(super) peer: SocketAddr,
    pub(super) limits: Arc<Limits>,
    pub(super) counters: Arc<Connections>,
    pub(super) phase: watch::Receiver<Phase>,
}

/// Serves HTTP/1.1 on a bare socket, until a handler takes it if not to its end; or HTTP/2, where the listener is for that.
pub(super) async fn serve_clear_text<S, B>(context: Context, mut transport: Transport, service: S)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if context.limits.is_http2_in_clear {
        return serve_http2(context, transport, service).await;
    }
    let paths = context.limits.takeout_paths;
    let takeout = (!paths.is_empty()).then(Takeout::default);
    transport.set_takeout(takeout.clone());
    let service = Offering { inner: service, paths, takeout: takeout.clone() };
    serve_http1(context, transport, service, takeout.as_ref()).await;
    if let Some(takeout) = takeout {
        takeout.hand_over();
    }
}

/// Shakes hands within the time-out, then serves what the client chose by ALPN.
pub(super) async fn serve_tls<S, B>(
    mut context: Context,
    transport: Transport,
    config: Arc<ServerConfig>,
    service: S,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let handshake = TlsAcceptor::from(config).accept(transport);
    let shaken = tokio::select! {
        biased;
        shaken = tokio::time::timeout(context.limits.tls_handshake_timeout, handshake) => shaken,
        // A client without a request yet has nothing to finish.
        _ = context.phase.changed() => return,
    };
    let stream = match shaken {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            context.counters.handshake_failures.fetch_add(1, Ordering::Relaxed);
            debug!(listener = context.name, peer = %context.peer, %error, "TLS handshake failed");
            return;
        }
        Err(_elapsed) => {
            context.counters.handshake_failures.fetch_add(1, Ordering::Relaxed);
            debug!(listener = context.name, peer = %context.peer, "TLS handshake timed out");
            return;
        }
    };
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(ALPN_HTTP2);
    if is_http2 {
        serve_http2(context, stream, service).await;
    } else {
        serve_http1(context, stream, service, None).await;
    }
}

async fn serve_http1<IO, S, B>(context: Context, io: IO, service: S, takeout: Option<&Takeout>)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let limits = &context.limits;
    // Idle connections are a comfort that a full house cannot afford.
    let is_crowded = context.counters.open() > limits.max_connections / 2;
    let idle_timeout =
        if is_crowded { limits.idle_timeout.min(limits.header_read_timeout) } else { limits.idle_timeout };
    let stage = SharedStage::default();
    let io = HeaderTimeout::new(io, stage.clone(), limits.header_read_timeout);
    let service = track_stage(service, stage);
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        // Runs from the moment a request may begin, so it closes idle connections. A header that has begun gets less time.
        .header_read_timeout(idle_timeout)
        .keep_alive(true)
        .half_close(false)
        .max_header_size(limits.max_header_bytes)
        .max_buf_size(limits.max_header_bytes.max(HTTP1_BUFFER_MIN_BYTES));
    if limits.max_headers != MAX_HEADERS {
        builder.max_headers(limits.max_headers);
    }
    // Upgrades stay possible. hyper's own way to get the socket back would rule them out.
    let connection = builder.serve_connection(TokioIo::new(io), service).with_upgrades();
    drive(context, connection, None, takeout).await;
}

async fn serve_http2<IO, S, B>(context: Context, io: IO, service: S)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let limits = &context.limits;
    // hyper spawns one task a stream by this executor. Each ends with its connection, so the drain knows them all.
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(HTTP2_MAX_CONCURRENT_STREAMS)
        .max_header_list_size(u32::try_from(limits.max_header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(HTTP2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(HTTP2_CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(HTTP2_SEND_BUFFER_MAX_BYTES)
        .max_pending_accept_reset_streams(HTTP2_PENDING_RESETS_MAX)
        .max_local_error_reset_streams(HTTP2_ERROR_RESETS_MAX)
        .keep_alive_interval(HTTP2_PING_INTERVAL)
        .keep_alive_timeout(HTTP2_PING_TIMEOUT);
    let traffic = Arc::new(Traffic::new());
    let service = Watched { inner: service, traffic: Arc::clone(&traffic) };
    let connection = builder.serve_connection(TokioIo::new(io), service);
    drive(context, connection, Some(traffic), None).await;
}

/// Polls a connection until either side ends it, or until a handler wants its socket. Without `traffic`, the protocol's
/// own timeouts find idle clients.
async fn drive<C: Drainable>(
    mut context: Context,
    connection: C,
    mut traffic: Option<Arc<Traffic>>,
    takeout: Option<&Takeout>,
) {
    let mut connection = pin!(connection);
    let mut asked_to_go = None;
    let mut check = pin!(tokio::time::sleep(Traffic::first_look(&context.limits)));
    loop {
        tokio::select! {
            biased;
            ended = ended_or_wanted(connection.as_mut(), takeout) => {
                if let Some(Err(error)) = ended {
                    debug!(listener = context.name, peer = %context.peer, %error, "connection ended");
                }
                return;
            }
            changed = context.phase.changed() => {
                let phase = *context.phase.borrow_and_update();
                // Nobody left to announce phases: the listener itself was dropped.
                if changed.is_err() || phase == Phase::Cut {
                    return;
                }
                if phase == Phase::Draining {
                    connection.as_mut().drain();
                    // From here on the drain's own time-out ends what does not end by itself.
                    traffic = None;
                }
            }
            () = check.as_mut(), if traffic.is_some() => {
                let Some(traffic) = &traffic else { continue };
                match traffic.verdict(&context.limits, asked_to_go) {
                    Verdict::Wait(rest) => check.set(tokio::time::sleep(rest)),
                    Verdict::AskToGo => {
                        connection.as_mut().drain();
                        asked_to_go = Some(Stopwatch::start());
                        check.set(tokio::time::sleep(context.limits.write_stall_timeout));
                    }
                    Verdict::Close(reason) => {
                        debug!(listener = context.name, peer = %context.peer, reason, "connection closed");
                        return;
                    }
                }
            }
        }
    }
}

/// How the connection ended, or `None` once a handler wants its socket.
async fn ended_or_wanted<C: Drainable>(
    mut connection: Pin<&mut C>,
    takeout: Option<&Takeout>,
) -> Option<hyper::Result<()>> {
    std::future::poll_fn(|context| match connection.as_mut().poll(context) {
        Poll::Ready(ended) => Poll::Ready(Some(ended)),
        // Handlers run inside this very poll, so a wish is never older than it.
        Poll::Pending if takeout.is_some_and(Takeout::is_wanted) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// A connection of hyper's that can be asked to finish what it began and end. (hyper-util has such a trait, but not for
/// an HTTP/1 connection with upgrades.)
trait Drainable: Future<Output = hyper::Result<()>> {
    fn drain(self: Pin<&mut Self>);
}

impl<IO, S, B> Drainable for http1::UpgradeableConnection<IO, S>
where
    IO: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn drain(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<IO, S, B> Drainable for http2::Connection<IO, S, TokioExecutor>
where
    IO: hyper::rt::Read + hyper::rt::Write + Unpin + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S::Future: Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn drain(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}
