//! New connections to an origin: name look-up, TCP, TLS, and which version of HTTP is spoken.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anteroom_store::clock::Stopwatch;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::error::ProxyError;
use super::http1::Http1;
use super::outgoing::Outgoing;
use super::pool::Origin;
use super::settings::{Http2ToOrigin, ProxySettings};
use super::transport::Transport;
use super::{OriginAddress, OriginsError};

/// How often an HTTP/2 connection is asked whether it still lives.
const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(20);
/// How long it may take to say so.
const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(10);
/// How many addresses of a name are tried.
const ADDRESSES_MAX: usize = 8;

/// How connections to one origin are made.
pub(super) struct Connector {
    tls: Option<Tls>,
    http2: Http2ToOrigin,
    connect_timeout: Duration,
    shortest_wait: Duration,
}

struct Tls {
    name: ServerName<'static>,
    /// Offers what the settings want.
    usual: Arc<ClientConfig>,
    /// Offers HTTP/1.1 only.
    http1_only: Arc<ClientConfig>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connector").field("is_tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

/// A new connection.
pub(super) enum Connected {
    Http1(Box<Http1>),
    Http2 { sender: http2::SendRequest<Outgoing>, driver: Pin<Box<dyn Future<Output = ()> + Send>> },
}

impl Connector {
    /// For one origin. `tls` is what all origins of a group share.
    pub(super) fn new(
        address: &OriginAddress,
        settings: &ProxySettings,
        tls: Option<&ClientConfig>,
    ) -> Result<Self, OriginsError> {
        let tls = match tls {
            Some(config) if address.is_tls() => {
                let name = match address.ip() {
                    Some(ip) => ServerName::from(ip),
                    None => ServerName::try_from(address.host().to_owned())
                        .map_err(|_| OriginsError::Name(address.host().to_owned()))?,
                };
                let mut usual = config.clone();
                usual.alpn_protocols = match settings.http2 {
                    Http2ToOrigin::Never => vec![b"http/1.1".to_vec()],
                    Http2ToOrigin::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
                    Http2ToOrigin::Always => vec![b"h2".to_vec()],
                };
                let mut http1_only = config.clone();
                http1_only.alpn_protocols = vec![b"http/1.1".to_vec()];
                Some(Tls { name, usual: Arc::new(usual), http1_only: Arc::new(http1_only) })
            }
            _ => None,
        };
        Ok(Self {
            tls,
            http2: settings.http2,
            connect_timeout: settings.connect_timeout,
            shortest_wait: settings.response_timeout.min(settings.stall_timeout),
        })
    }
}

/// Opens a connection within the time that is allowed.
pub(super) async fn open(origin: &Origin, needs_http1: bool) -> Result<Connected, ProxyError> {
    let connector = &origin.connector;
    match tokio::time::timeout(connector.connect_timeout, connect(origin, needs_http1)).await {
        Ok(Ok(connected)) => Ok(connected),
        Ok(Err(source)) if source.kind() == io::ErrorKind::TimedOut => {
            Err(ProxyError::ConnectTimeout { origin: origin.address.to_string() })
        }
        Ok(Err(source)) => Err(ProxyError::Connect { origin: origin.address.to_string(), source }),
        Err(_) => Err(ProxyError::ConnectTimeout { origin: origin.address.to_string() }),
    }
}

async fn connect(origin: &Origin, needs_http1: bool) -> io::Result<Connected> {
    let connector = &origin.connector;
    let stream = reach(&origin.address, connector.connect_timeout).await?;
    // A request is written whole, so waiting for more to send would only delay it.
    stream.set_nodelay(true)?;
    let transport = match &connector.tls {
        None => Transport::clear(stream),
        Some(tls) => {
            let config = if needs_http1 { &tls.http1_only } else { &tls.usual };
            let connecting = TlsConnector::from(Arc::clone(config)).connect(tls.name.clone(), stream);
            Transport::tls(connecting.await?)
        }
    };
    let is_http2 = match connector.http2 {
        _ if connector.tls.is_some() => transport.agreed_on_http2(),
        Http2ToOrigin::Always => !needs_http1,
        Http2ToOrigin::Never | Http2ToOrigin::Auto => false,
    };
    if !is_http2 {
        return Http1::begin(transport, connector.shortest_wait)
            .await
            .map(Connected::Http1)
            .map_err(io::Error::other);
    }
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .adaptive_window(true)
        .keep_alive_interval(HTTP2_PING_INTERVAL)
        .keep_alive_timeout(HTTP2_PING_TIMEOUT)
        .handshake(TokioIo::new(transport))
        .await
        .map_err(io::Error::other)?;
    let driver = Box::pin(async move {
        // Its errors reach those whose requests it carried.
        let _ = connection.await;
    });
    Ok(Connected::Http2 { sender, driver })
}

/// Tries the addresses of a host in turn. Each gets its share of the time, so that an unreachable one leaves some for
/// the next.
async fn reach(address: &OriginAddress, allowed: Duration) -> io::Result<TcpStream> {
    if let Some(ip) = address.ip() {
        return TcpStream::connect((ip, address.port())).await;
    }
    let waiting = Stopwatch::start();
    let found = tokio::net::lookup_host((address.host(), address.port())).await?;
    let found: Vec<SocketAddr> = found.take(ADDRESSES_MAX).collect();
    let mut last_error = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (tried, candidate) in found.iter().enumerate() {
        let left = u32::try_from(found.len() - tried).unwrap_or(1);
        let share = allowed.saturating_sub(waiting.elapsed()) / left;
        match tokio::time::timeout(share, TcpStream::connect(candidate)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last_error = error,
            Err(_) => last_error = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last_error)
}

/// The one place where tasks of connections to origins begin. Each ends with its connection.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the named helper for connections to origins that the ban asks for"
)]
pub(super) fn spawn_connection(connection: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(connection);
}
