//! Our own accept loop: from a listening socket to requests, with a limit on everything a stranger can hold.
//!
//! `axum::serve` has neither a header time-out nor a connection cap, so a handful of slow clients could fill it. Here a
//! connection is accepted or refused ([`serve`]), served as HTTP/1.1 or HTTP/2 ([`connection`]), closed when nothing moves
//! on it (`traffic`), over a socket that frees its slot when it closes ([`transport`]), and on shutdown drained, then cut. A
//! handler that holds its connection for long may take the socket out of hyper ([`takeout`]).
//!
//! *Invariant:* `open` counts sockets that exist, those taken out included. Its slot travels with the socket, so no path can
//! leak or double it.

pub mod client_slots;
pub mod connection;
mod heads;
pub mod takeout;
mod traffic;
pub mod transport;

use std::convert::Infallible;
use std::io::{ErrorKind, Read, Write};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anteroom_gateway::identify::Peer;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::Service;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tracing::{debug, info, warn};

use crate::http::tls::Certificates;
use crate::ops::shutdown::Shutdown;
use client_slots::{ClientSlot, ClientSlots};
use transport::Transport;

/// How long a client may take to send a request's header.
pub const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may idle between two requests: longer than the minute for which nginx and most load balancers keep
/// theirs to us. Then an HTTP/1 connection is closed and an HTTP/2 client asked to go; what it still has in flight goes on, but
/// once it takes nothing for [`WRITE_STALL_TIMEOUT`] it is closed.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// How many connections one listener holds at once, unless the caller derives a figure from the descriptor limit.
pub const MAX_CONNECTIONS: u64 = 8192;
/// Request line and header fields together; the same as nginx allows by default.
pub const MAX_HEADER_BYTES: usize = 32 * 1024;
/// Fields in one header. hyper parses this many on its stack; any other figure costs an allocation a request.
pub const MAX_HEADERS: usize = 100;
/// How long a TLS handshake may take.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long requests in flight may take to finish once a shutdown was asked for.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take none of the bytes we have for it before the connection is closed.
pub const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long one response of an HTTP/2 connection may stand still, on either side, before the connection is closed. A
/// stream of events has to send something more often than this.
pub const RESPONSE_STALL_TIMEOUT: Duration = Duration::from_mins(2);

/// How long a client may leave a response of an HTTP/2 connection untouched, with no window for its first byte, before the connection is
/// closed. Meanwhile the response is held here as a whole.
pub const UNTAKEN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait before the next accept when the last one failed for want of descriptors or memory.
const ACCEPT_BACK_OFF: Duration = Duration::from_millis(50);
/// How long cut connections get to let go of their sockets. They only have to be dropped, so this is ample.
const CUT_GRACE: Duration = Duration::from_secs(1);
/// How many refused connections may linger until their client has read the refusal; the rest are closed at once.
const REFUSED_LINGER_MAX: u64 = 64;
/// How long each of them may.
const REFUSED_LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// How much each of them may still send.
const REFUSED_DISCARD_MAX_BYTES: usize = 64 * 1024;
/// The whole answer to a connection over the cap.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-type: application/json\r\naccess-control-allow-origin: *\r\ncontent-length: 33\r\n\r\n\
    {\"error\":\"Too many connections\"}\n";

/// What one listener allows.
#[derive(Debug, Clone)]
pub struct Limits {
    /// See [`HEADER_READ_TIMEOUT`].
    pub header_read_timeout: Duration,
    /// See [`IDLE_TIMEOUT`].
    pub idle_timeout: Duration,
    /// See [`MAX_CONNECTIONS`].
    pub max_connections: u64,
    /// See [`MAX_HEADER_BYTES`].
    pub max_header_bytes: usize,
    /// See [`MAX_HEADERS`].
    pub max_headers: usize,
    /// See [`TLS_HANDSHAKE_TIMEOUT`].
    pub tls_handshake_timeout: Duration,
    /// See [`DRAIN_TIMEOUT`].
    pub drain_timeout: Duration,
    /// See [`WRITE_STALL_TIMEOUT`].
    pub write_stall_timeout: Duration,
    /// See [`RESPONSE_STALL_TIMEOUT`].
    pub response_stall_timeout: Duration,
    /// See [`UNTAKEN_TIMEOUT`].
    pub untaken_timeout: Duration,
    /// How many connections one client holds; `None`: as many as there are.
    pub clients: Option<Arc<ClientSlots>>,
    /// The paths whose handlers may take a clear HTTP/1.1 socket out of hyper; see [`takeout`].
    pub takeout_paths: &'static [&'static str],
    /// Whether clients without TLS speak HTTP/2 from their first byte, as gRPC does, and nothing else.
    pub is_http2_in_clear: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_read_timeout: HEADER_READ_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            max_connections: MAX_CONNECTIONS,
            max_header_bytes: MAX_HEADER_BYTES,
            max_headers: MAX_HEADERS,
            tls_handshake_timeout: TLS_HANDSHAKE_TIMEOUT,
            drain_timeout: DRAIN_TIMEOUT,
            write_stall_timeout: WRITE_STALL_TIMEOUT,
            response_stall_timeout: RESPONSE_STALL_TIMEOUT,
            untaken_timeout: UNTAKEN_TIMEOUT,
            clients: None,
            takeout_paths: &[],
            is_http2_in_clear: false,
        }
    }
}

/// Counts of a listener's connections since the start, and what it was started with. Each may be read at any time.
#[derive(Debug, Default)]
pub struct Connections {
    open: AtomicU64,
    max: AtomicU64,
    certificates: OnceLock<Arc<Certificates>>,
    accepted: AtomicU64,
    refused: AtomicU64,
    refused_of_client: AtomicU64,
    refused_lingering: AtomicU64,
    handshake_failures: AtomicU64,
    accept_errors: AtomicU64,
    cut: AtomicU64,
}

impl Connections {
    /// Sockets open now, those in a TLS handshake included, refused ones not.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// How many may be open at once; 0 while nobody listens.
    pub fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// The certificates, where the listener speaks TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.get().map(|certificates| &**certificates)
    }

    /// Connections that got a slot.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Connections turned away because every slot was taken.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Connections turned away because their client held as many as it may.
    pub fn refused_of_client(&self) -> u64 {
        self.refused_of_client.load(Ordering::Relaxed)
    }

    /// TLS handshakes that failed or took too long.
    pub fn handshake_failures(&self) -> u64 {
        self.handshake_failures.load(Ordering::Relaxed)
    }

    /// Failed accepts: the client gave up first, or the process ran out of descriptors.
    pub fn accept_errors(&self) -> u64 {
        self.accept_errors.load(Ordering::Relaxed)
    }

    /// Connections closed with a request in flight because the drain took too long.
    pub fn cut(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }

    /// Takes a slot, unless `max_connections` are taken. Atomic, so that several loops may share the count.
    pub(crate) fn take_slot(self: &Arc<Self>, max_connections: u64) -> Option<Slot> {
        let more = |open: u64| (open < max_connections).then_some(open + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        self.accepted.fetch_add(1, Ordering::Relaxed);
        Some(Slot { connections: Arc::clone(self), client: None })
    }
}

/// One of a listener's slots, and of its client's. Given back when dropped.
#[derive(Debug)]
pub struct Slot {
    connections: Arc<Connections>,
    client: Option<ClientSlot>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        drop(self.client.take());
        self.connections.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How a listener ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServeReport {
    /// The listener's name.
    pub name: &'static str,
    /// Connections that were open when the shutdown was asked for, those taken out of hyper included.
    pub open_at_shutdown: u64,
    /// How many of them had to be cut.
    pub cut: u64,
}

/// The listener's phase, from running to ended. Every connection watches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Serve.
    Running,
    /// Finish what was begun, take nothing new.
    Draining,
    /// Drop everything.
    Cut,
}

/// Accepts connections until a shutdown is asked for, then drains them.
///
/// `services` makes the service of each connection, which answers its requests and never fails. It knows the peer from the
/// start, so that no request has to carry it.
/// With `tls`, each client chooses HTTP/2 or HTTP/1.1 by ALPN; without, the listener speaks HTTP/1.1 in clear text.
///
/// If the returned future is dropped instead of awaited to its end, its connections are cut.
pub async fn serve<F, S, B>(
    name: &'static str,
    listener: TcpListener,
    tls: Option<Arc<Certificates>>,
    limits: Limits,
    counters: Arc<Connections>,
    services: F,
    shutdown: Shutdown,
) -> ServeReport
where
    F: Fn(Peer) -> S,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    counters.max.store(limits.max_connections, Ordering::Relaxed);
    if let Some(certificates) = &tls {
        // A listener is served once.
        let _first = counters.certificates.set(Arc::clone(certificates));
    }
    let (phases, _) = watch::channel(Phase::Running);
    let limits = Arc::new(limits);
    let mut shutdown_requested = pin!(shutdown.requested());
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown_requested.as_mut() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                counters.accept_errors.fetch_add(1, Ordering::Relaxed);
                if is_about_one_connection(&error) {
                    debug!(listener = name, %error, "client closed the connection before it was accepted");
                } else {
                    warn!(listener = name, %error, "accept failed, retrying shortly");
                    tokio::time::sleep(ACCEPT_BACK_OFF).await;
                }
                continue;
            }
        };
        let client = limits.clients.as_ref().map(|clients| clients.take(peer.ip()).ok_or(()));
        let Ok(client) = client.transpose() else {
            counters.refused_of_client.fetch_add(1, Ordering::Relaxed);
            if tls.is_none() {
                refuse(stream, &counters);
            }
            continue;
        };
        let Some(mut slot) = counters.take_slot(limits.max_connections) else {
            counters.refused.fetch_add(1, Ordering::Relaxed);
            if tls.is_none() {
                refuse(stream, &counters);
            }
            continue;
        };
        slot.client = client;
        // A response is written whole, so waiting for more to send would only delay it. Failure means a broken socket.
        let _ = stream.set_nodelay(true);
        let transport = Transport::new(stream, slot, limits.write_stall_timeout);
        let context = connection::Context {
            name,
            peer,
            limits: Arc::clone(&limits),
            counters: Arc::clone(&counters),
            phase: phases.subscribe(),
        };
        let service = services(Peer { address: peer, is_tls: tls.is_some() });
        match &tls {
            None => spawn_connection(connection::serve_clear_text(context, transport, service)),
            Some(certificates) => {
                let config = certificates.server_config();
                spawn_connection(connection::serve_tls(context, transport, config, service));
            }
        }
    }
    drop(listener);
    drain(name, phases, &limits, &counters).await
}

/// Lets requests in flight finish, up to the drain timeout, then closes what is left. Sockets that were taken out are
/// not waited for: their new owner closes them.
async fn drain(
    name: &'static str,
    phases: watch::Sender<Phase>,
    limits: &Limits,
    counters: &Connections,
) -> ServeReport {
    let open_at_shutdown = counters.open();
    info!(listener = name, connections = open_at_shutdown, "draining connections");
    phases.send_replace(Phase::Draining);
    // Every connection holds one receiver until it ends.
    let mut cut = 0;
    if tokio::time::timeout(limits.drain_timeout, phases.closed()).await.is_err() {
        cut = phases.receiver_count() as u64;
        counters.cut.fetch_add(cut, Ordering::Relaxed);
        warn!(listener = name, connections = cut, "drain timed out, closing remaining connections");
        phases.send_replace(Phase::Cut);
        if tokio::time::timeout(CUT_GRACE, phases.closed()).await.is_err() {
            warn!(
                listener = name,
                connections = phases.receiver_count(),
                "connections still busy after being closed"
            );
        }
    }
    ServeReport { name, open_at_shutdown, cut }
}

/// Whether an accept failed because of the connection it would have returned, so that the next may work at once.
fn is_about_one_connection(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused
    )
}

/// Tells a client that the house is full. Never waits: the answer fits an empty socket buffer, or it is not given.
fn refuse(stream: TcpStream, counters: &Arc<Connections>) {
    // The blocking handle of the same non-blocking socket: tokio's would first wait to hear that it is writable.
    let Ok(mut socket) = stream.into_std() else { return };
    if socket.write(REFUSAL).is_err() || socket.shutdown(std::net::Shutdown::Write).is_err() {
        return;
    }
    // A socket closed with unread bytes sends a reset, which may overtake the answer. So a few stay open for a moment and
    // swallow what the client sends; under a flood the rest read what is already there and take the risk.
    let more = |lingering: u64| (lingering < REFUSED_LINGER_MAX).then_some(lingering + 1);
    let room = counters.refused_lingering.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    if room.is_err() {
        let _ = socket.read(&mut [0; 4096]);
        return;
    }
    let lingering = Lingering(Arc::clone(counters));
    let Ok(stream) = TcpStream::from_std(socket) else {
        return;
    };
    spawn_connection(async move {
        let _lingering = lingering;
        let _ = tokio::time::timeout(REFUSED_LINGER_TIMEOUT, discard(stream)).await;
    });
}

/// One of the refused connections that may linger.
struct Lingering(Arc<Connections>);

impl Drop for Lingering {
    fn drop(&mut self) {
        self.0.refused_lingering.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads until the client closes, up to a bound.
async fn discard(stream: TcpStream) {
    let mut discarded = 0;
    let mut buffer = [0; 1024];
    while discarded < REFUSED_DISCARD_MAX_BYTES {
        if stream.readable().await.is_err() {
            return;
        }
        match stream.try_read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => discarded += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// The one place where connection tasks begin. Each watches the listener's phase (or has a short time-out of its own),
/// so none outlives the drain.
#[expect(clippy::disallowed_methods, reason = "this is the named helper for connections the ban asks for")]
fn spawn_connection(connection: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(connection);
}
