//! The timeout for a request's header, separate from the time its connection may idle.
//!
//! A header has to come quickly, or a few slow clients would hold every slot. A connection between two requests had better stay
//! open for longer than the proxy before us keeps it: one that we close just as the proxy sends a request on it is a request
//! lost. hyper has a single time-out for both, so hyper's is the longer one, and the socket ([`HeaderTimeout`]) gives up on a header
//! that has begun and does not come to its end. The service says whether one has ([`track_stage`]), and also says so where a
//! response is a connection's last.

use std::convert::Infallible;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::service::{Service, service_fn};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// What one HTTP/1 connection is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Stage {
    /// A header is awaited: the connection's first, or one of which something has come.
    Header,
    /// A request is being answered.
    Response,
    /// The last response is complete and nothing has come since.
    Idle,
    /// The connection carries requests no longer.
    Tunnel,
}

impl Stage {
    /// In the order of their numbers.
    const ALL: [Self; 4] = [Self::Header, Self::Response, Self::Idle, Self::Tunnel];
}

/// The stage of a connection as its socket and its service share it. The same task polls both, so nothing here can race.
#[derive(Debug, Clone)]
pub(super) struct SharedStage(Arc<AtomicU8>);

impl Default for SharedStage {
    fn default() -> Self {
        Self(Arc::new(AtomicU8::new(Stage::Header as u8)))
    }
}

impl SharedStage {
    fn get(&self) -> Stage {
        Stage::ALL[usize::from(self.0.load(Ordering::Relaxed))]
    }

    fn set(&self, stage: Stage) {
        self.0.store(stage as u8, Ordering::Relaxed);
    }
}

/// Ends a request when the last of its response is handed to hyper, or when it is given up.
struct ResponseGuard(SharedStage);

impl Drop for ResponseGuard {
    fn drop(&mut self) {
        if self.0.get() == Stage::Response {
            self.0.set(Stage::Idle);
        }
    }
}

/// The service, setting `stage` when a request begins and when its response is complete.
pub(super) fn track_stage<S, B>(
    service: S,
    stage: SharedStage,
) -> impl Service<
    Request<Incoming>,
    Response = Response<impl Body<Data = Bytes, Error = B::Error> + Send + 'static>,
    Error = Infallible,
    Future: Send + 'static,
> + Send
+ 'static
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
{
    service_fn(move |request| {
        stage.set(Stage::Response);
        let guard = ResponseGuard(stage.clone());
        let response = service.call(request);
        async move {
            let mut response = response.await?;
            match response.status() {
                StatusCode::SWITCHING_PROTOCOLS => guard.0.set(Stage::Tunnel),
                // hyper closes a connection on which a body was not read to its end. Without this header the client
                // would send its next request on it.
                StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
                    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                _ => {}
            }
            // Changes no error: it is the way to have something dropped together with the body.
            Ok::<_, Infallible>(response.map(|body| {
                body.map_err(move |error| {
                    let _until_the_end = &guard;
                    error
                })
            }))
        }
    })
}

/// A connection's bytes, with a time-out for headers that have begun.
#[derive(Debug)]
pub(super) struct HeaderTimeout<IO> {
    io: IO,
    stage: SharedStage,
    timeout: Duration,
    /// Runs from the first time that more of a header had to be waited for.
    overdue: Option<Pin<Box<Sleep>>>,
}

impl<IO> HeaderTimeout<IO> {
    pub(super) fn new(io: IO, stage: SharedStage, timeout: Duration) -> Self {
        Self { io, stage, timeout, overdue: None }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for HeaderTimeout<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let filled = buffer.filled().len();
        let result = Pin::new(&mut this.io).poll_read(context, buffer);
        let begins = this.stage.get() == Stage::Idle && buffer.filled().len() > filled;
        if begins {
            this.stage.set(Stage::Header);
        }
        if begins || this.stage.get() != Stage::Header {
            this.overdue = None;
        }
        if result.is_ready() || this.stage.get() != Stage::Header {
            return result;
        }
        let overdue = this.overdue.get_or_insert_with(|| Box::pin(tokio::time::sleep(this.timeout)));
        overdue.as_mut().poll(context).map(|()| Err(ErrorKind::TimedOut.into()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for HeaderTimeout<IO> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(context)
    }
}
