//! What moves on one HTTP/2 connection, and for whom its responses wait.
//!
//! hyper's HTTP/2 has no time-out for the first request, between two requests, or for a client that opens no window for
//! its responses; pings answered by such a client would keep its slot taken for ever. So every request is entered here
//! ([`Watched`]) together with the moment its response last moved, and [`Traffic::verdict`] says what that makes of the
//! connection. hyper asks a body for its next frame only once the client has room for the one before, which is how a
//! response that waits for its client is told from one that waits for us.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use anteroom_store::clock::Stopwatch;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::Service;

use super::Limits;

/// The most of a body that is handed to hyper at once. It keeps what it was handed until the client has taken it all, so
/// a larger piece would hide for too long whether the client takes anything.
const PIECE_MAX_BYTES: usize = 16 * 1024;

/// What is to be done with a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing; look again after this long.
    Wait(Duration),
    /// It is idle: ask the client to go, and let what is in flight go on.
    AskToGo,
    /// Close it, for this reason.
    Close(&'static str),
}

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct Traffic(Mutex<State>);

#[derive(Debug)]
struct State {
    /// How many there were; the next one's key.
    requests: u64,
    /// Since the last request began or a response moved; before the first one, since the connection began.
    last_move: Stopwatch,
    in_flight: HashMap<u64, InFlight>,
}

#[derive(Debug)]
struct InFlight {
    last_move: Stopwatch,
    /// Who has to do the next thing: the client, by taking what there is for it, or we.
    waits_for_client: bool,
}

impl Traffic {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State { requests: 0, last_move: Stopwatch::start(), in_flight: HashMap::new() }))
    }

    /// How long after a connection's begin it has to be judged for the first time: nothing can be overdue before.
    pub(super) fn first_look(limits: &Limits) -> Duration {
        limits.header_read_timeout.min(limits.idle_timeout).min(limits.response_stall_timeout)
    }

    /// Judges the connection; `asked_to_go` runs since [`Verdict::AskToGo`] was followed.
    pub(super) fn verdict(&self, limits: &Limits, asked_to_go: Option<Stopwatch>) -> Verdict {
        let state = self.state();
        let quiet = state.last_move.elapsed();
        if state.requests == 0 {
            return match limits.header_read_timeout.checked_sub(quiet) {
                None | Some(Duration::ZERO) => Verdict::Close("no request came"),
                Some(rest) => Verdict::Wait(rest.min(Self::first_look(limits))),
            };
        }
        // A response that begins after this look cannot stand still too long before the next one.
        let mut wait = limits.response_stall_timeout;
        for response in state.in_flight.values() {
            match limits.response_stall_timeout.checked_sub(response.last_move.elapsed()) {
                None | Some(Duration::ZERO) => return Verdict::Close("a response stood still"),
                Some(rest) => wait = wait.min(rest),
            }
        }
        let Some(asked_to_go) = asked_to_go else {
            return match limits.idle_timeout.checked_sub(quiet) {
                None | Some(Duration::ZERO) => Verdict::AskToGo,
                Some(rest) => Verdict::Wait(wait.min(rest)),
            };
        };
        let last_deadline = limits.write_stall_timeout;
        if state.in_flight.values().any(|response| !response.waits_for_client) {
            return Verdict::Wait(wait.min(last_deadline));
        }
        match last_deadline.checked_sub(quiet.min(asked_to_go.elapsed())) {
            None | Some(Duration::ZERO) => Verdict::Close("the client was asked to go and takes nothing"),
            Some(rest) => Verdict::Wait(wait.min(rest)),
        }
    }

    fn enter(self: &Arc<Self>) -> Ticket {
        let mut state = self.state();
        let now = Stopwatch::start();
        let key = state.requests;
        state.requests += 1;
        state.last_move = now;
        state.in_flight.insert(key, InFlight { last_move: now, waits_for_client: false });
        Ticket { traffic: Arc::clone(self), key }
    }

    /// No invariant spans two statements, so a panic elsewhere leaves nothing half done.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request's entry. Travels from the request to its response's body and ends with it.
#[derive(Debug)]
struct Ticket {
    traffic: Arc<Traffic>,
    key: u64,
}

impl Ticket {
    /// The response got one step further, and the client is to take it.
    fn moved(&self) {
        let mut state = self.traffic.state();
        let now = Stopwatch::start();
        state.last_move = now;
        state.in_flight.insert(self.key, InFlight { last_move: now, waits_for_client: true });
    }

    /// The client has taken what there was, and we have nothing more yet.
    fn waits_for_us(&self) {
        if let Some(response) = self.traffic.state().in_flight.get_mut(&self.key) {
            response.waits_for_client = false;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.traffic.state().in_flight.remove(&self.key);
    }
}

/// A listener's service, with its requests entered.
pub(super) struct Watched<S> {
    pub(super) inner: S,
    pub(super) traffic: Arc<Traffic>,
}

impl<S, B> Service<Request<Incoming>> for Watched<S>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<WatchedBody<B>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let ticket = self.traffic.enter();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = answer.await?;
            ticket.moved();
            Ok(response.map(|body| WatchedBody { inner: Box::pin(body), rest: Bytes::new(), ticket }))
        })
    }
}

/// A response's body, handed on in small pieces.
pub(super) struct WatchedBody<B> {
    inner: Pin<Box<B>>,
    /// What is left of the last frame.
    rest: Bytes,
    ticket: Ticket,
}

impl<B: Body<Data = Bytes>> Body for WatchedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            match this.inner.as_mut().poll_frame(context) {
                Poll::Pending => {
                    this.ticket.waits_for_us();
                    return Poll::Pending;
                }
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(other) => {
                        this.ticket.moved();
                        return Poll::Ready(Some(Ok(other)));
                    }
                },
                ended @ Poll::Ready(_) => return ended,
            }
        }
        this.ticket.moved();
        let piece = this.rest.split_to(this.rest.len().min(PIECE_MAX_BYTES));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let inner = self.inner.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}
