//! The body of a request, in flight to an origin.
//!
//! Most requests have none, and those cost nothing here. A small one is there as a whole before an origin hears of it, so a client that
//! sends it slowly holds no connection. A larger one is read from the client as it goes out, and is watched meanwhile: to know whom we
//! wait for when it stands still, and whose fault it is when it breaks off.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use anteroom_store::clock::Stopwatch;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, SizeHint};

use super::error::ProxyError;
use super::forward::Hop;
use super::headers::cleanse_trailers;
use super::settings::ProxySettings;
use super::uploads::{UploadPace, UploadSlot, UploadSlots};

/// How much of a body is gathered before an origin hears of it.
const GATHERED_MAX_BYTES: usize = 64 * 1024;
/// How long a body is gathered. After that it goes out as it comes: a client may want to hear something before it sends the rest.
const GATHERING_TIME: Duration = Duration::from_secs(2);

/// Any error.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request, in flight to an origin.
pub(super) enum Outgoing {
    /// There is none.
    Empty,
    /// All of it is here.
    Whole { data: Option<Bytes>, trailers: Option<HeaderMap> },
    /// It is read from the client as it goes out.
    Streamed(Box<Streamed>),
}

/// A body that is read from the client as it goes out.
pub(super) struct Streamed {
    /// What was gathered.
    gathered: BytesMut,
    body: UnsyncBoxBody<Bytes, BoxError>,
    upload: Arc<Upload>,
    /// From the moment on at which the client had to be waited for.
    pace: Option<UploadPace>,
    slot: Option<UploadSlot>,
}

/// The client sends its body too slowly.
#[derive(Debug, thiserror::Error)]
#[error("the client sends its body too slowly")]
struct TooSlow;

/// How far a body is.
#[derive(Debug, Default)]
pub(super) struct Upload {
    /// Frames that were taken from the client, and the bytes in them.
    frames: AtomicU64,
    bytes: AtomicU64,
    /// Whether the origin has taken all there was and waits for the client.
    is_client_awaited: AtomicBool,
    /// Whether the client broke it off.
    is_broken: AtomicBool,
    /// Whether the client was too slow.
    is_too_slow: AtomicBool,
    /// Whether the origin has begun to answer. From then on the client may have reasons to send nothing.
    is_answered: AtomicBool,
    /// Whether it is over: read to its end, broken off, or no longer wanted.
    is_over: AtomicBool,
}

impl Upload {
    pub(super) fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn is_too_slow(&self) -> bool {
        self.is_too_slow.load(Ordering::Relaxed)
    }

    pub(super) fn note_answered(&self) {
        self.is_answered.store(true, Ordering::Relaxed);
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
        Self::Streamed(Box::new(Streamed {
            gathered: BytesMut::new(),
            body: body.map_err(Into::into).boxed_unsync(),
            upload: Arc::default(),
            pace: None,
            slot: None,
        }))
    }

    /// Reads a small body as a whole, and the beginning of any other. A client that has to be waited for needs a slot.
    pub(super) async fn gather(
        self,
        hop: &Hop,
        slots: &Arc<UploadSlots>,
        settings: &ProxySettings,
    ) -> Result<Self, ProxyError> {
        let Self::Streamed(mut streamed) = self else { return Ok(self) };
        let gathering = Stopwatch::start();
        loop {
            let at_once = poll_fn(|context| Poll::Ready(streamed.poll_client(context))).await;
            let frame = match at_once {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    if streamed.slot.is_none() {
                        streamed.slot = Some(slots.take(hop)?);
                        streamed.pace = Some(UploadPace::new(settings));
                    }
                    // Without a byte there is nothing to lease a connection for.
                    let is_begun = !streamed.gathered.is_empty();
                    let next = poll_fn(|context| streamed.poll_client(context));
                    let left = GATHERING_TIME.saturating_sub(gathering.elapsed());
                    let goes_out = is_begun && left <= settings.stall_timeout;
                    let wait = if goes_out { left } else { settings.stall_timeout };
                    match tokio::time::timeout(wait, next).await {
                        Ok(frame) => frame,
                        Err(_) if goes_out => return Ok(Self::Streamed(streamed)),
                        Err(_) => return Err(ProxyError::ClientStalled),
                    }
                }
            };
            match frame {
                None => return Ok(streamed.take_whole(None)),
                Some(Err(_)) if streamed.upload.is_too_slow() => return Err(ProxyError::ClientStalled),
                Some(Err(_)) => return Err(ProxyError::ClientBroke),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if streamed.gathered.is_empty() && streamed.body.is_end_stream() => {
                        return Ok(Self::Whole { data: Some(data), trailers: None });
                    }
                    Ok(data) => streamed.gathered.extend_from_slice(&data),
                    Err(frame) => return Ok(streamed.take_whole(frame.into_trailers().ok())),
                },
            }
            if streamed.body.is_end_stream() {
                return Ok(streamed.take_whole(None));
            }
            if streamed.gathered.len() >= GATHERED_MAX_BYTES {
                return Ok(Self::Streamed(streamed));
            }
        }
    }

    /// How far it is, if it is not here yet.
    pub(super) fn upload(&self) -> Option<Arc<Upload>> {
        match self {
            Self::Empty | Self::Whole { .. } => None,
            Self::Streamed(streamed) => Some(Arc::clone(&streamed.upload)),
        }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }
}

impl Streamed {
    /// The next frame from the client, which must not be too slow.
    fn poll_client(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let upload = &self.upload;
        upload.is_client_awaited.store(polled.is_pending(), Ordering::Relaxed);
        match polled {
            Poll::Pending => {
                let is_answered = upload.is_answered.load(Ordering::Relaxed);
                let pace = self.pace.as_mut().filter(|_| !is_answered);
                if !pace.is_some_and(|pace| pace.poll_too_slow(context).is_ready()) {
                    return Poll::Pending;
                }
                upload.is_too_slow.store(true, Ordering::Relaxed);
                Poll::Ready(Some(Err(TooSlow.into())))
            }
            Poll::Ready(Some(Ok(frame))) => {
                let length = frame.data_ref().map_or(0, Bytes::len);
                upload.frames.fetch_add(1, Ordering::Relaxed);
                upload.bytes.fetch_add(length as u64, Ordering::Relaxed);
                if let Some(pace) = &mut self.pace {
                    pace.note_received(length);
                }
                Poll::Ready(Some(Ok(cleanse_trailers(frame))))
            }
            Poll::Ready(Some(Err(error))) => {
                upload.is_broken.store(true, Ordering::Relaxed);
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => {
                upload.is_over.store(true, Ordering::Relaxed);
                self.slot = None;
                Poll::Ready(None)
            }
        }
    }

    /// What was gathered, as all there is.
    fn take_whole(&mut self, trailers: Option<HeaderMap>) -> Outgoing {
        let data = self.gathered.split().freeze();
        Outgoing::Whole { data: Some(data).filter(|data| !data.is_empty()), trailers }
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => formatter.write_str("Empty"),
            Self::Whole { .. } => formatter.write_str("Whole"),
            Self::Streamed(streamed) => formatter.debug_tuple("Streamed").field(&streamed.upload).finish(),
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
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Whole { data, trailers } => {
                let next = data.take().map(Frame::data).or_else(|| trailers.take().map(Frame::trailers));
                Poll::Ready(next.map(Ok))
            }
            Self::Streamed(streamed) if !streamed.gathered.is_empty() => {
                Poll::Ready(Some(Ok(Frame::data(streamed.gathered.split().freeze()))))
            }
            Self::Streamed(streamed) => streamed.poll_client(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Whole { data, trailers } => data.is_none() && trailers.is_none(),
            Self::Streamed(streamed) => streamed.gathered.is_empty() && streamed.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Whole { data, .. } => {
                SizeHint::with_exact(data.as_ref().map_or(0, |data| data.len() as u64))
            }
            Self::Streamed(streamed) => {
                let gathered = streamed.gathered.len() as u64;
                match streamed.body.size_hint().exact() {
                    Some(rest) => SizeHint::with_exact(rest + gathered),
                    None => SizeHint::new(),
                }
            }
        }
    }
}

impl Drop for Streamed {
    fn drop(&mut self) {
        self.upload.is_over.store(true, Ordering::Relaxed);
    }
}
