//! An origin that speaks HTTP/2 and TLS: hyper's server, which echoes.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, Version};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::support::spawn;

/// Which protocols a site offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offers {
    /// In clear text whatever the client begins with.
    Clear,
    /// Over TLS, HTTP/2 preferred.
    Both,
    /// Over TLS, HTTP/1.1 only.
    Http1,
}

/// An origin that echoes. It ends when it is dropped.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) counts: Arc<Counts>,
    /// What a client must trust.
    pub(crate) roots: RootCertStore,
    offers: Offers,
    runtime: Option<Runtime>,
}

/// What a site has seen.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) connections: AtomicUsize,
    pub(crate) http2: AtomicUsize,
    pub(crate) http1: AtomicUsize,
    pub(crate) in_flight: AtomicUsize,
    pub(crate) in_flight_most: AtomicUsize,
}

impl Site {
    pub(crate) fn start(offers: Offers) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let made =
            rcgen::generate_simple_self_signed(["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        config.alpn_protocols = match offers {
            Offers::Both => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            _ => vec![b"http/1.1".to_vec()],
        };
        let tls = (offers != Offers::Clear).then(|| TlsAcceptor::from(Arc::new(config)));
        let counts = Arc::new(Counts::default());
        runtime.spawn(accept(listener, tls, Arc::clone(&counts)));
        Self { address, counts, roots, offers, runtime: Some(runtime) }
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.offers == Offers::Clear { "http" } else { "https" };
        format!("{scheme}://{}", self.address)
    }

    /// Ends every connection.
    pub(crate) fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Counts {
    pub(crate) fn get(&self, which: impl Fn(&Self) -> &AtomicUsize) -> usize {
        which(self).load(Ordering::SeqCst)
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, counts: Arc<Counts>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        counts.connections.fetch_add(1, Ordering::SeqCst);
        let (tls, counts) = (tls.clone(), Arc::clone(&counts));
        spawn(async move {
            match tls {
                None => serve(stream, counts).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, counts).await;
                    }
                }
            }
        });
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, counts: Arc<Counts>) {
    let service = service_fn(move |request| std::future::ready(Ok::<_, Infallible>(echo(request, &counts))));
    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    let _ = server.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
}

/// Sends back what came: the body as it comes, and the interesting header fields. `/upgrade` switches to an echo of bytes.
fn echo(mut request: Request<Incoming>, counts: &Arc<Counts>) -> Response<Echo> {
    let version = if request.version() == Version::HTTP_2 { &counts.http2 } else { &counts.http1 };
    version.fetch_add(1, Ordering::SeqCst);
    let seen = HeaderValue::from_str(&format!("{:?}", request.version())).unwrap();
    let host = request.uri().authority().map(ToString::to_string);
    let host = host.or_else(|| Some(request.headers().get("host")?.to_str().ok()?.to_owned()));
    let path = request.uri().path_and_query().unwrap().as_str().to_owned();
    if path == "/upgrade" && request.headers().contains_key("upgrade") {
        let upgraded = hyper::upgrade::on(&mut request);
        spawn(async move {
            let mut both = TokioIo::new(upgraded.await.unwrap());
            both.write_all(b"switched").await.unwrap();
            let (mut reading, mut writing) = tokio::io::split(both);
            let _ = tokio::io::copy(&mut reading, &mut writing).await;
        });
        let mut response = Response::new(Echo { body: None, is_trailed: false, counts: None });
        *response.status_mut() = http::StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert("upgrade", HeaderValue::from_static("echo"));
        response.headers_mut().insert("connection", HeaderValue::from_static("upgrade"));
        return response;
    }
    let cookies: Vec<&[u8]> = request.headers().get_all("cookie").iter().map(HeaderValue::as_bytes).collect();
    let cookies = HeaderValue::from_bytes(&cookies.join(&b" | "[..])).unwrap();
    let in_flight = counts.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
    counts.in_flight_most.fetch_max(in_flight, Ordering::SeqCst);
    let mut response = Response::new(Echo {
        body: Some(request.into_body()),
        is_trailed: false,
        counts: Some(Arc::clone(counts)),
    });
    response.headers_mut().insert("x-version", seen);
    response.headers_mut().insert("x-host", HeaderValue::from_str(&host.unwrap_or_default()).unwrap());
    response.headers_mut().insert("x-path", HeaderValue::from_str(&path).unwrap());
    response.headers_mut().insert("x-cookies", cookies);
    response.headers_mut().insert("trailer", HeaderValue::from_static("x-trailer"));
    response
}

/// A body on its way back, and a trailer behind it.
pub(crate) struct Echo {
    body: Option<Incoming>,
    is_trailed: bool,
    counts: Option<Arc<Counts>>,
}

impl Drop for Echo {
    fn drop(&mut self) {
        if let Some(counts) = &self.counts {
            counts.in_flight.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Body for Echo {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(body) = &mut self.body {
            match std::task::ready!(Pin::new(body).poll_frame(context)) {
                Some(Ok(frame)) if frame.is_data() => return Poll::Ready(Some(Ok(frame))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                _ => {}
            }
        }
        if self.is_trailed || self.body.is_none() {
            return Poll::Ready(None);
        }
        self.is_trailed = true;
        let mut trailers = HeaderMap::new();
        trailers.insert("x-trailer", HeaderValue::from_static("after"));
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_none()
    }
}
