//! What moves on one HTTP/2 connection, and for whom its responses wait.
//!
//! hyper's HTTP/2 has no time-out for the first request, between two requests, or for a client that opens no window for
//! its responses; pings answered by such a client would keep its slot taken for ever. So every request is entered here
//! ([`Watched`]) together with the moment its response last moved, and [`Traffic::verdict`] says what that makes of the
//! connection. hyper asks a body for its next frame only once the client has room for the one before, which is how a
//! response that waits for its client is told from one that waits for us. The first frame it asks for at once.

use std::collections::HashMap;
use std::convert::Infallible;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use anteroom_store::clock::Stopwatch;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::Service;
use tokio::sync::Notify;

use super::Limits;

/// The most of a body that is handed to hyper at once. It keeps what it was handed until the client has taken it all, so
/// a larger piece would hide for too long whether the client takes anything.
const PIECE_MAX_BYTES: usize = 16 * 1024;

/// How many requests of a new connection are worked on, or have a response of which the client has taken nothing, at once. Each response
/// that the client takes allows one more, so a client that takes its responses is soon bounded by its streams alone. Other requests wait
/// before they are looked at.
const UNTAKEN_MAX_AT_FIRST: usize = 16;
/// How long a request waits for others that are worked on. Longer only for responses that the client does not take.
const WORK_WAIT: Duration = Duration::from_secs(1);

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
pub(super) struct Traffic {
    state: Mutex<State>,
    /// The client has begun to take a response, or a request has ended.
    progress: Notify,
}

#[derive(Debug)]
struct State {
    /// How many there were; the next one's key.
    requests: u64,
    /// Since the last request began or a response moved; before the first one, since the connection began.
    last_move: Stopwatch,
    /// Since the client last took something of a response; before that, since the connection began.
    last_taken: Stopwatch,
    /// How many responses it has begun to take, those included that were over with their first piece.
    responses_taken: usize,
    in_flight: HashMap<u64, InFlight>,
}

#[derive(Debug)]
struct InFlight {
    last_move: Stopwatch,
    /// Who has to do the next thing: the client, by taking what there is for it, or we.
    waits_for_client: bool,
    stage: Stage,
}

/// How far a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It waits until the client takes more of what there is for it.
    Queued,
    /// It is worked on.
    Working,
    /// There is a response, of which the client has taken nothing as far as we know.
    Untaken,
    /// The client has begun to take the response.
    Taken,
}

impl Traffic {
    pub(super) fn new() -> Self {
        let now = Stopwatch::start();
        let state = State {
            requests: 0,
            last_move: now,
            last_taken: now,
            responses_taken: 0,
            in_flight: HashMap::new(),
        };
        Self { state: Mutex::new(state), progress: Notify::new() }
    }

    /// How long after a connection's begin it has to be judged for the first time: nothing can be overdue before.
    pub(super) fn first_look(limits: &Limits) -> Duration {
        limits
            .header_read_timeout
            .min(limits.idle_timeout)
            .min(limits.response_stall_timeout)
            .min(limits.untaken_timeout)
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
        let mut wait = limits.response_stall_timeout.min(limits.untaken_timeout);
        for response in state.in_flight.values() {
            let still = response.last_move.elapsed();
            match limits.response_stall_timeout.checked_sub(still) {
                None | Some(Duration::ZERO) => return Verdict::Close("a response stood still"),
                Some(rest) => wait = wait.min(rest),
            }
            if response.stage != Stage::Untaken {
                continue;
            }
            // A slow client may be busy with another response.
            match limits.untaken_timeout.checked_sub(still.min(state.last_taken.elapsed())) {
                None | Some(Duration::ZERO) => return Verdict::Close("the client takes no response"),
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
        state
            .in_flight
            .insert(key, InFlight { last_move: now, waits_for_client: false, stage: Stage::Queued });
        Ticket { traffic: Arc::clone(self), key }
    }

    /// No invariant spans two statements, so a panic elsewhere leaves nothing half done.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request's entry. Travels from the request to its response's body and ends with it.
#[derive(Debug)]
struct Ticket {
    traffic: Arc<Traffic>,
    key: u64,
}

impl Ticket {
    /// Waits until the client has taken something of most of the responses that there are for it.
    async fn wait_for_client(&self) {
        let waiting = Stopwatch::start();
        loop {
            let mut progress = std::pin::pin!(self.traffic.progress.notified());
            progress.as_mut().enable();
            if self.begin_work(waiting.elapsed() >= WORK_WAIT) {
                return;
            }
            // Without progress the count is looked at again all the same.
            let _ = tokio::time::timeout(WORK_WAIT, progress).await;
        }
    }

    /// Whether the request may be worked on now. `ignores_work`: whether others that are worked on do not count.
    fn begin_work(&self, ignores_work: bool) -> bool {
        let mut state = self.traffic.state();
        let is_counted = |stage| stage == Stage::Untaken || stage == Stage::Working && !ignores_work;
        let count = state.in_flight.values().filter(|request| is_counted(request.stage)).count();
        let is_allowed = count < UNTAKEN_MAX_AT_FIRST.saturating_add(state.responses_taken);
        if is_allowed && let Some(request) = state.in_flight.get_mut(&self.key) {
            request.stage = Stage::Working;
        }
        is_allowed
    }

    /// There is a response, and the client is to take it.
    fn answered(&self) {
        let mut state = self.traffic.state();
        let now = Stopwatch::start();
        state.last_move = now;
        state
            .in_flight
            .insert(self.key, InFlight { last_move: now, waits_for_client: true, stage: Stage::Untaken });
    }

    /// The response got one step further, and the client is to take more.
    fn moved(&self) {
        let mut state = self.traffic.state();
        let now = Stopwatch::start();
        state.last_move = now;
        if let Some(request) = state.in_flight.get_mut(&self.key) {
            request.last_move = now;
            request.waits_for_client = true;
        }
    }

    /// The client has room for more than what it was given.
    fn taken(&self) {
        let mut state = self.traffic.state();
        state.last_taken = Stopwatch::start();
        let Some(request) = state.in_flight.get_mut(&self.key) else { return };
        if request.stage != Stage::Taken {
            request.stage = Stage::Taken;
            state.responses_taken = state.responses_taken.saturating_add(1);
            drop(state);
            self.traffic.progress.notify_waiters();
        }
    }

    /// The client has taken what there was, and we have nothing more yet.
    fn waits_for_us(&self) {
        if let Some(request) = self.traffic.state().in_flight.get_mut(&self.key) {
            request.waits_for_client = false;
            if request.stage == Stage::Untaken {
                // Nothing of it is here.
                request.stage = Stage::Working;
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.traffic.state();
        let Some(ended) = state.in_flight.remove(&self.key) else { return };
        if ended.stage == Stage::Untaken {
            state.responses_taken = state.responses_taken.saturating_add(1);
        }
        drop(state);
        if ended.stage != Stage::Taken {
            self.traffic.progress.notify_waiters();
        }
    }
}

/// A listener's service, with its requests entered.
pub(super) struct Watched<S> {
    pub(super) inner: S,
    pub(super) traffic: Arc<Traffic>,
}

impl<S, B> Service<Request<Incoming>> for Watched<S>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<WatchedBody<B>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let ticket = self.traffic.enter();
        let inner = self.inner.clone();
        Box::pin(async move {
            // A response that the client has no window for is held here as a whole, so there are few of them.
            ticket.wait_for_client().await;
            let response = inner.call(request).await?;
            ticket.answered();
            let watched =
                |body| WatchedBody { inner: Box::pin(body), rest: Bytes::new(), is_piece_out: false, ticket };
            Ok(response.map(watched))
        })
    }
}

/// A response's body, handed on in small pieces.
pub(super) struct WatchedBody<B> {
    inner: Pin<Box<B>>,
    /// What is left of the last frame.
    rest: Bytes,
    /// Whether the client was given something since the last look.
    is_piece_out: bool,
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
        if mem::take(&mut this.is_piece_out) {
            this.ticket.taken();
        }
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
        this.is_piece_out = true;
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
