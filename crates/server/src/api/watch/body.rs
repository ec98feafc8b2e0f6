//! A stream that stays in hyper, because its bytes have to go through TLS: a body that waits for frames.
//!
//! Nothing is queued for it. hyper asks for the next frame when the client has room for it, and then gets the newest. A client
//! that takes nothing is closed by the listener like any other: over HTTP/1.1 after `WRITE_STALL_TIMEOUT`, over HTTP/2 after
//! `RESPONSE_STALL_TIMEOUT`.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anteroom_store::clock::Stopwatch;
use bytes::Bytes;
use hyper::body::{Body, Frame as BodyFrame};
use tokio::sync::watch;

use super::counts::{Counts, add};
use super::feed::{ALIVE, Frame, Watching};
use super::wheel::{Tick, is_quiet};
use crate::http::listener::client_slots::ClientSlot;

/// What the body waits for.
pub(super) struct Source {
    /// What is sent at once: the stream's beginning.
    pub(super) first: Option<Bytes>,
    /// The frame that the beginning showed.
    pub(super) sequence: u64,
    pub(super) frames: watch::Receiver<Arc<Frame>>,
    pub(super) bell: watch::Receiver<Tick>,
    pub(super) last_sent: Tick,
    pub(super) counts: Arc<Counts>,
    pub(super) _watching: Watching,
    pub(super) _client: Option<ClientSlot>,
}

impl Source {
    /// The next bytes, or nothing more.
    async fn next(mut self) -> Option<(Self, Bytes)> {
        if let Some(first) = self.first.take() {
            add(&self.counts.events, 1);
            return Some((self, first));
        }
        loop {
            let frame = Arc::clone(&self.frames.borrow_and_update());
            if frame.sequence > self.sequence {
                self.sequence = frame.sequence;
                if frame.last && frame.bytes.is_empty() {
                    return None;
                }
                self.last_sent = *self.bell.borrow();
                add(&self.counts.events, 1);
                return Some((self, frame.bytes.clone()));
            }
            if frame.last {
                return None;
            }
            let tick = tokio::select! {
                changed = self.frames.changed() => {
                    changed.ok()?;
                    continue;
                }
                rung = self.bell.changed() => {
                    rung.ok()?;
                    *self.bell.borrow_and_update()
                }
            };
            if is_quiet(tick, self.last_sent) {
                self.last_sent = tick;
                add(&self.counts.keep_alives, 1);
                return Some((self, ALIVE));
            }
        }
    }
}

type Next = Pin<Box<dyn Future<Output = Option<(Source, Bytes)>> + Send>>;

/// The body of one stream.
pub(super) struct WatchBody {
    /// Nothing after the end.
    next: Option<Next>,
    /// Since hyper last asked. While it can send, it asks whenever the wheel turns.
    asked: Stopwatch,
    /// After this long without asking, the client cannot have taken what it was sent.
    keep_alive: Duration,
    counts: Arc<Counts>,
}

impl WatchBody {
    pub(super) fn new(source: Source, keep_alive: Duration) -> Self {
        let counts = Arc::clone(&source.counts);
        Self { next: Some(Box::pin(source.next())), asked: Stopwatch::start(), keep_alive, counts }
    }
}

impl Body for WatchBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        this.asked = Stopwatch::start();
        let Some(next) = &mut this.next else {
            return Poll::Ready(None);
        };
        match next.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => {
                this.next = None;
                Poll::Ready(None)
            }
            Poll::Ready(Some((source, bytes))) => {
                this.next = Some(Box::pin(source.next()));
                Poll::Ready(Some(Ok(BodyFrame::data(bytes))))
            }
        }
    }
}

impl Drop for WatchBody {
    fn drop(&mut self) {
        if self.next.is_some() && self.asked.elapsed() > self.keep_alive {
            add(&self.counts.slow_readers, 1);
        }
    }
}
