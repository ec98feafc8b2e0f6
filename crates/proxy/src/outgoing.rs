//! The body of a request, in flight to an origin.
//!
//! Most requests have none, and those cost nothing here. One that has a body is watched while it goes: to know whom we wait for
//! when it stands still, and whose fault it is when it breaks off.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, SizeHint};

use super::headers::cleanse_trailers;

/// Any error.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request, in flight to an origin.
pub(super) enum Outgoing {
    /// There is none.
    Empty,
    /// It is read from the client as it goes out.
    Streamed { body: UnsyncBoxBody<Bytes, BoxError>, upload: Arc<Upload> },
}

/// How far a body is.
#[derive(Debug, Default)]
pub(super) struct Upload {
    /// Frames that were taken from the client.
    frames: AtomicU64,
    /// Whether the origin has taken all there was and waits for the client.
    is_client_awaited: AtomicBool,
    /// Whether the client broke it off.
    is_broken: AtomicBool,
    /// Whether it is over: read to its end, broken off, or no longer wanted.
    is_over: AtomicBool,
}

impl Upload {
    pub(super) fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    pub(super) fn is_client_awaited(&self) -> bool {
        self.is_client_awaited.load(Ordering::Relaxed)
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

impl Outgoing {
    /// The body of a client's request.
    pub(super) fn new<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        if body.is_end_stream() {
            return Self::Empty;
        }
        Self::Streamed { body: body.map_err(Into::into).boxed_unsync(), upload: Arc::default() }
    }

    /// How far it is, if there is one.
    pub(super) fn upload(&self) -> Option<Arc<Upload>> {
        match self {
            Self::Empty => None,
            Self::Streamed { upload, .. } => Some(Arc::clone(upload)),
        }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => formatter.write_str("Empty"),
            Self::Streamed { upload, .. } => formatter.debug_tuple("Streamed").field(upload).finish(),
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self::Streamed { body, upload } = self.get_mut() else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        upload.is_client_awaited.store(polled.is_pending(), Ordering::Relaxed);
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(frame))) => {
                upload.frames.fetch_add(1, Ordering::Relaxed);
                Poll::Ready(Some(Ok(cleanse_trailers(frame))))
            }
            Poll::Ready(Some(Err(error))) => {
                upload.is_broken.store(true, Ordering::Relaxed);
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => {
                upload.is_over.store(true, Ordering::Relaxed);
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Streamed { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Streamed { body, .. } => body.size_hint(),
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if let Self::Streamed { upload, .. } = self {
            upload.is_over.store(true, Ordering::Relaxed);
        }
    }
}
