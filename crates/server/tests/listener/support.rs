//! What the listener's tests share: a server on a port of its own, a service whose slow answers wait for the test, and
//! a client that sees every byte.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the way to fail")]
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anteroom_server::listener::{Connections, Limits, ServeReport, serve};
use anteroom_server::shutdown::{self, Trigger};
use anteroom_server::tls::Certificates;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// How long anything may take before a test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);
/// More than the socket buffers of both ends take.
pub(crate) const BIG_BODY_BYTES: usize = 64 * 1024 * 1024;

/// A running listener.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) counters: Arc<Connections>,
    pub(crate) calls: Arc<Calls>,
    pub(crate) trigger: Trigger,
    pub(crate) task: JoinHandle<ServeReport>,
}

/// What the service has seen, and what holds its slow answers back.
pub(crate) struct Calls {
    started: AtomicU64,
    may_finish: Semaphore,
}

impl Calls {
    /// Requests that have reached the service.
    pub(crate) fn started(&self) -> u64 {
        self.started.load(Ordering::SeqCst)
    }

    /// Lets one slow answer go.
    pub(crate) fn finish_one(&self) {
        self.may_finish.add_permits(1);
    }
}

impl Server {
    pub(crate) async fn start(limits: Limits, tls: Option<Arc<Certificates>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::start_on(listener, limits, tls)
    }

    pub(crate) fn start_on(listener: TcpListener, limits: Limits, tls: Option<Arc<Certificates>>) -> Self {
        let address = listener.local_addr().unwrap();
        let counters = Arc::new(Connections::default());
        let calls = Arc::new(Calls { started: AtomicU64::new(0), may_finish: Semaphore::new(0) });
        let big = Bytes::from(vec![b'x'; BIG_BODY_BYTES]);
        let service = {
            let calls = Arc::clone(&calls);
            service_fn(move |request| answer(Arc::clone(&calls), big.clone(), request))
        };
        let (trigger, shutdown) = shutdown::channel();
        let serving = serve(
            "test",
            listener,
            tls,
            limits,
            Arc::clone(&counters),
            move |_peer| service.clone(),
            shutdown,
        );
        Self { address, counters, calls, trigger, task: spawn(serving) }
    }

    pub(crate) async fn connect(&self) -> Client<TcpStream> {
        Client(TcpStream::connect(self.address).await.unwrap())
    }

    /// Asks for a shutdown and waits for the report.
    pub(crate) async fn stop(self) -> ServeReport {
        self.trigger.pull();
        within_deadline(self.task).await.unwrap()
    }
}

async fn answer(
    calls: Arc<Calls>,
    big: Bytes,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    calls.started.fetch_add(1, Ordering::SeqCst);
    let body = match request.uri().path() {
        "/slow" => {
            calls.may_finish.acquire().await.unwrap().forget();
            Bytes::from("finished")
        }
        "/other" => Bytes::from("another"),
        "/big" => big,
        "/tunnel" => {
            spawn(echo(hyper::upgrade::on(request)));
            let switching =
                Response::builder().status(101).header("connection", "upgrade").header("upgrade", "echo");
            return Ok(switching.body(Full::default()).unwrap());
        }
        "/panic" => panic!("a handler's panic, on purpose"),
        _ => Bytes::from("hello"),
    };
    Ok(Response::new(Full::new(body)))
}

/// Sends back what comes.
async fn echo(upgrade: OnUpgrade) {
    let (mut from, mut to) = tokio::io::split(TokioIo::new(upgrade.await.unwrap()));
    let _ = tokio::io::copy(&mut from, &mut to).await;
}

/// An HTTP/1.1 client that hides nothing.
pub(crate) struct Client<IO>(pub(crate) IO);

/// Status line and header as they came, and the body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Client<IO> {
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        within_deadline(self.0.write_all(bytes)).await.unwrap();
        within_deadline(self.0.flush()).await.unwrap();
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").as_bytes()).await;
        self.read_answer().await.expect("an answer")
    }

    /// The next answer; `None` if the connection closes first.
    pub(crate) async fn read_answer(&mut self) -> Option<Answer> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(within_deadline(self.0.read_u8()).await.ok()?);
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        within_deadline(self.0.read_exact(&mut body)).await.ok()?;
        Some(Answer { head, body: String::from_utf8(body).unwrap() })
    }

    /// Everything until the server closes; a reset counts as closing.
    pub(crate) async fn read_to_close(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = within_deadline(self.0.read_to_end(&mut bytes)).await;
        bytes
    }
}

/// Fails the test instead of hanging.
pub(crate) async fn within_deadline<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(DEADLINE, future).await.expect("within the deadline")
}

/// Waits for a state.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    let reached = tokio::time::timeout(DEADLINE, async {
        while !condition() {
            ticks.tick().await;
        }
    });
    assert!(reached.await.is_ok(), "never: {what}");
}

#[expect(clippy::disallowed_methods, reason = "tests have no shutdown that must know their tasks")]
pub(crate) fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(future)
}
