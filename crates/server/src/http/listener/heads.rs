//! The timeout for a request's header, separate from the time its connection may idle.
//!
//! A header has to come quickly, or a few slow clients would hold every slot. A connection between two requests had better stay
//! open for longer than the proxy before us keeps it: one that we close just as the proxy sends a request on it is a request
//! lost. hyper has a single time-out for both, so hyper's is the longer one, and the socket ([`HeadsInTime`]) gives up on a header
//! that has begun and does not come to its end. Whether one has is told by the service ([`noted`]), which also says so where an
//! answer is a connection's last.

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

/// A header is awaited: the connection's first, or one of which something has come.
const HEADER: u8 = 0;
/// A request is being answered.
const ANSWER: u8 = 1;
/// The last answer is complete and nothing has come since.
const QUIET: u8 = 2;
/// The connection carries requests no longer.
const TUNNEL: u8 = 3;

/// What one HTTP/1 connection is at. Socket and service are polled by the same task, so nothing here can race.
#[derive(Debug, Clone, Default)]
pub(super) struct Stage(Arc<AtomicU8>);

impl Stage {
    fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, stage: u8) {
        self.0.store(stage, Ordering::Relaxed);
    }
}

/// Ends a request when the last of its answer is handed to hyper, or when it is given up.
struct Answering(Stage);

impl Drop for Answering {
    fn drop(&mut self) {
        if self.0.get() == ANSWER {
            self.0.set(QUIET);
        }
    }
}

/// The service, telling `stage` when a request begins and when its answer is complete.
pub(super) fn noted<S, B>(
    service: S,
    stage: Stage,
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
        stage.set(ANSWER);
        let answering = Answering(stage.clone());
        let answer = service.call(request);
        async move {
            let mut response = answer.await?;
            match response.status() {
                StatusCode::SWITCHING_PROTOCOLS => answering.0.set(TUNNEL),
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
                    let _until_the_end = &answering;
                    error
                })
            }))
        }
    })
}

/// A connection's bytes, with a time-out for headers that have begun.
#[derive(Debug)]
pub(super) struct HeadsInTime<IO> {
    io: IO,
    stage: Stage,
    timeout: Duration,
    /// Runs from the first time that more of a header had to be waited for.
    overdue: Option<Pin<Box<Sleep>>>,
}

impl<IO> HeadsInTime<IO> {
    pub(super) fn new(io: IO, stage: Stage, timeout: Duration) -> Self {
        Self { io, stage, timeout, overdue: None }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for HeadsInTime<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let filled = buffer.filled().len();
        let result = Pin::new(&mut this.io).poll_read(context, buffer);
        let begins = this.stage.get() == QUIET && buffer.filled().len() > filled;
        if begins {
            this.stage.set(HEADER);
        }
        if begins || this.stage.get() != HEADER {
            this.overdue = None;
        }
        if result.is_ready() || this.stage.get() != HEADER {
            return result;
        }
        let overdue = this.overdue.get_or_insert_with(|| Box::pin(tokio::time::sleep(this.timeout)));
        overdue.as_mut().poll(context).map(|()| Err(ErrorKind::TimedOut.into()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for HeadsInTime<IO> {
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
