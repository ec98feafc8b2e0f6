//! A gateway that does nothing but forward, on a port of its own, in this process; and what tests of it share.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anteroom_proxy::{Hop, OriginAddress, Origins, ProxyBody, ProxySettings, VisitTag, forward};
use anteroom_testkit::wait_until;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// How long a test waits for something that must happen.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);
/// A time-out that a test waits for.
pub(crate) const SHORT: Duration = Duration::from_millis(200);

/// A gateway that does nothing but forward. It ends when it is dropped.
pub(crate) struct Front {
    /// Where it listens; HTTP/1.1 and HTTP/2 with prior knowledge.
    pub(crate) address: SocketAddr,
    pub(crate) origins: Arc<Origins>,
    runtime: Option<Runtime>,
}

impl Front {
    /// Before one origin in clear text, with settings of its own.
    pub(crate) fn before(origin: SocketAddr, settings: ProxySettings) -> Self {
        Self::before_all(&[format!("http://{origin}")], settings)
    }

    /// Before several origins.
    pub(crate) fn before_all(origins: &[String], settings: ProxySettings) -> Self {
        let addresses: Vec<OriginAddress> = origins.iter().map(|origin| origin.parse().unwrap()).collect();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let origins = Origins::new(addresses, settings).unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(Arc::clone(&origins).watch_health());
        runtime.spawn(accept(listener, Arc::clone(&origins)));
        Self { address, origins, runtime: Some(runtime) }
    }

    /// Sends bytes over a connection of their own and returns everything that comes back until it is closed.
    pub(crate) fn exchange(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect();
        // The other side may answer and close before it has read everything.
        let _ = stream.write_all(bytes.as_ref());
        let mut answer = vec![];
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// A bare connection.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    /// Waits until nothing is in flight: that it always comes to this is part of what every test shows.
    #[track_caller]
    pub(crate) fn comes_to_rest(&self) {
        wait_until("nothing is in flight", DEADLINE, || self.origins.view().in_flight == 0);
    }

    /// Runs something asynchronous.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.as_ref().unwrap().block_on(work)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A task that the runtime ends when it is dropped.
#[expect(clippy::disallowed_methods, reason = "tests have no shutdown that must know their tasks")]
pub(crate) fn spawn<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(future)
}

async fn accept(listener: TcpListener, origins: Arc<Origins>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let origins = Arc::clone(&origins);
        let service = service_fn(move |request| answer(Arc::clone(&origins), request));
        spawn(async move {
            let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
        });
    }
}

/// A request with this field is that of a client who is not inside.
pub(crate) const WITHOUT_VISIT: &str = "without-visit";
/// Whose visit all others belong to.
pub(crate) const VISIT: VisitTag = VisitTag(7);

async fn answer(
    origins: Arc<Origins>,
    request: Request<Incoming>,
) -> Result<Response<Either<ProxyBody, Full<Bytes>>>, Infallible> {
    let visit = (!request.headers().contains_key(WITHOUT_VISIT)).then_some(VISIT);
    let hop = Hop { client: IpAddr::from([192, 0, 2, 7]), is_tls: false, visit };
    let mut extra = HeaderMap::new();
    extra.insert("anteroom-visit", "ours".parse().unwrap());
    match forward(&origins, request, &hop, &extra).await {
        Ok(forwarded) => {
            if let Some(tunnel) = forwarded.tunnel {
                spawn(tunnel.run(std::future::pending()));
            }
            Ok(forwarded.response.map(Either::Left))
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let mut response = Response::new(Either::Right(Full::from(error.sentence())));
            *response.status_mut() = error.status();
            response.headers_mut().insert("proxy-error", error.kind().parse().unwrap());
            Ok(response)
        }
    }
}

/// Reads until what was read ends so.
#[track_caller]
pub(crate) fn read_until(stream: &mut impl Read, end: &str) -> String {
    let mut read = vec![];
    let mut buffer = [0; 4096];
    while !read.ends_with(end.as_bytes()) {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "closed after {:?}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8_lossy(&read).into_owned()
}
