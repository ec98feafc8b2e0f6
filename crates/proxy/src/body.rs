//! The body of an origin's response, in flight to the client.
//!
//! A small one is there together with its head, and its connection is free again before the client has read a byte. Any other
//! is read as the client takes it, so a stream of any length costs one buffer.

use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::client_paced::ClientPaced;
use super::connect::spawn_connection;
use super::forward::note_pace;
use super::headers::cleanse_trailers;
use super::outgoing::Upload;
use super::pool::{Channel, Lease};
use super::settings::ProxySettings;
use super::wait_timeout::WaitTimeout;

/// The body of an origin's answer.
pub struct ProxyBody(State);

/// Why a body broke off.
#[derive(Debug, thiserror::Error)]
pub enum ProxyBodyError {
    /// The origin's connection ended, or what it sent was malformed.
    #[error("the origin's answer broke off: {0}")]
    Broken(#[from] hyper::Error),
    /// The origin sent nothing for too long.
    #[error("the origin's answer stood still for too long")]
    Stalled,
    /// The client took it so slowly that another request got its connection.
    #[error("the client took the answer too slowly while others waited for its connection")]
    Evicted,
}

enum State {
    /// All that is left of it.
    Whole(Option<Bytes>),
    Streamed(Box<BodyStream>),
}

/// A body that is still being read.
struct BodyStream {
    /// What was read before the client asked for it.
    first: Option<Bytes>,
    /// Has the rest, and the connection where it is driven from here.
    paced: ClientPaced,
    /// Where it is not.
    timeout: Option<WaitTimeout>,
    is_waiting: bool,
    stall_timeout: Duration,
}

impl ProxyBody {
    /// None.
    pub fn empty() -> Self {
        Self(State::Whole(None))
    }

    /// Reads what is already there. If that is all, the connection is given back.
    pub(super) fn begin(
        mut incoming: Incoming,
        lease: Lease,
        settings: &ProxySettings,
        context: &mut Context<'_>,
    ) -> Self {
        if incoming.is_end_stream() {
            return Self::empty();
        }
        if incoming.size_hint().exact().is_some()
            && let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut incoming).poll_frame(context)
        {
            // A body whose length is known has no trailers before its data.
            let first = frame.into_data().unwrap_or_default();
            if incoming.is_end_stream() {
                return Self(State::Whole(Some(first)));
            }
            let paced = lease.origin.client_paced.enter(lease.visit);
            let mut streamed = BodyStream::new(incoming, Some(lease), paced, settings);
            streamed.paced.note_moved(first.len() as u64);
            streamed.first = Some(first);
            return Self(State::Streamed(streamed));
        }
        let paced = lease.origin.client_paced.enter(lease.visit);
        Self(State::Streamed(BodyStream::new(incoming, Some(lease), paced, settings)))
    }

    /// Reads the body from a connection that another task drives.
    pub(super) fn streamed(incoming: Incoming, lease: &Lease, settings: &ProxySettings) -> Self {
        Self(State::Streamed(BodyStream::new(
            incoming,
            None,
            lease.origin.client_paced.enter(lease.visit),
            settings,
        )))
    }
}

impl BodyStream {
    fn new(
        incoming: Incoming,
        lease: Option<Lease>,
        paced: ClientPaced,
        settings: &ProxySettings,
    ) -> Box<Self> {
        let is_driven_here = lease.as_ref().is_some_and(|lease| matches!(lease.channel, Channel::Http1(_)));
        *paced.held() = Some((incoming, lease));
        // A client without a window for it does not even ask.
        paced.await_client();
        Box::new(Self {
            first: None,
            paced,
            timeout: (!is_driven_here).then(|| WaitTimeout::new(settings.stall_timeout)),
            is_waiting: false,
            stall_timeout: settings.stall_timeout,
        })
    }

    fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ProxyBodyError>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let mut held = self.paced.held();
        let Some((incoming, lease)) = &mut *held else {
            return Poll::Ready(Some(Err(ProxyBodyError::Evicted)));
        };
        let mut polled = Pin::new(&mut *incoming).poll_frame(context);
        let http1 = match lease {
            Some(Lease { channel: Channel::Http1(http1), .. }) => Some(http1),
            _ => None,
        };
        let timeout = match http1 {
            Some(http1) => {
                if polled.is_pending() {
                    polled = http1.drive_for(context, |context| Pin::new(&mut *incoming).poll_frame(context));
                }
                Some(&mut http1.timeout)
            }
            None => self.timeout.as_mut(),
        };
        match polled {
            Poll::Ready(Some(Ok(frame))) => {
                self.is_waiting = false;
                self.paced.note_moved(frame.data_ref().map_or(0, Bytes::len) as u64);
                Poll::Ready(Some(Ok(cleanse_trailers(frame))))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                self.paced.await_origin();
                let Some(timeout) = timeout else { return Poll::Pending };
                if !mem::replace(&mut self.is_waiting, true) {
                    timeout.begin(self.stall_timeout);
                }
                timeout.poll_over(context).map(|()| Some(Err(ProxyBodyError::Stalled)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_over = |held: &(Incoming, Option<Lease>)| held.0.is_end_stream();
        self.first.is_none() && self.paced.held().as_ref().is_some_and(is_over)
    }

    /// The last of it was read. One more turn lets the connection see that it is over, so that it can be used again.
    fn finish(&mut self, context: &mut Context<'_>) {
        if let Some((_, Some(Lease { channel: Channel::Http1(http1), .. }))) = &mut *self.paced.held()
            && !http1.is_ready()
        {
            http1.drive(context);
        }
    }

    fn exact_size(&self) -> Option<u64> {
        let first = self.first.as_ref().map_or(0, |first| first.len() as u64);
        let held = self.paced.held();
        held.as_ref().and_then(|(incoming, _)| incoming.size_hint().exact()).map(|rest| rest + first)
    }
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = ProxyBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ProxyBodyError>>> {
        let state = &mut self.get_mut().0;
        match state {
            State::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            State::Streamed(streamed) => {
                let polled = streamed.poll_frame(context);
                let is_over = match &polled {
                    Poll::Pending => false,
                    Poll::Ready(Some(Ok(_))) => streamed.is_end_stream(),
                    Poll::Ready(_) => true,
                };
                if is_over {
                    streamed.finish(context);
                    *state = State::Whole(None);
                }
                polled
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            State::Whole(bytes) => bytes.is_none(),
            State::Streamed(streamed) => streamed.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            State::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            State::Streamed(streamed) => {
                streamed.exact_size().map_or_else(SizeHint::new, SizeHint::with_exact)
            }
        }
    }
}

impl fmt::Debug for ProxyBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.0 {
            State::Whole(_) => "whole",
            State::Streamed(_) => "streamed",
        };
        formatter.debug_tuple("ProxyBody").field(&state).finish()
    }
}

/// Drives a connection whose response began before its request was over. The client may read the response only after it
/// has sent everything, so the rest of the request must not wait until the client reads.
pub(super) fn finish_in_background(
    mut lease: Lease,
    upload: Arc<Upload>,
    paced: Option<ClientPaced>,
    settings: &ProxySettings,
) {
    let stall_timeout = settings.stall_timeout;
    spawn_connection(async move {
        let Channel::Http1(http1) = &mut lease.channel else { return };
        http1.timeout.begin(stall_timeout);
        let mut frames_seen = upload.frames();
        let mut bytes_seen = upload.bytes();
        let mut was_over = false;
        poll_fn(|context| {
            if http1.poll_over(context).is_ready() {
                return Poll::Ready(());
            }
            if let Some(paced) = &paced {
                note_pace(&upload, paced, &mut bytes_seen);
                if paced.poll_evicted(context).is_ready() {
                    return Poll::Ready(());
                }
            }
            let frames = upload.frames();
            if frames != frames_seen {
                frames_seen = frames;
                http1.timeout.begin(stall_timeout);
            }
            // Once all is sent, the timeout of the reader of the response applies.
            was_over = was_over || upload.is_over();
            if was_over { Poll::Pending } else { http1.timeout.poll_over(context) }
        })
        .await;
    });
}
