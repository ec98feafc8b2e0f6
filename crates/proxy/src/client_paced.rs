//! Exchanges that last as long as their client likes: a body that comes slowly, an answer that is read slowly. They may hold their
//! connections as long as nobody else needs one. When a request finds none free, the exchange whose client has been idle for the
//! longest, or has fallen behind the furthest, gives up its connection.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anteroom_store::clock::Stopwatch;
use hyper::body::Incoming;

use super::VisitTag;
use super::pool::Lease;

/// How long a client must have been idle, or how far it must have fallen behind [`RATE_BYTES_PER_SECOND`], for its exchange to be given up.
/// A request that has to wait is served within a second.
const IDLE_MIN: Duration = Duration::from_millis(500);
/// After a search that found no idle client, so long nobody searches: thousands may wait while an origin is slow.
const SEARCH_PAUSE: Duration = Duration::from_millis(50);
/// A client that moves this much never falls behind.
const RATE_BYTES_PER_SECOND: u64 = 16 * 1024;

/// The exchanges of one origin that are paced by their clients.
#[derive(Debug, Default)]
pub(super) struct ClientPacedExchanges {
    next: AtomicU64,
    evicted: AtomicU64,
    all: Mutex<HashMap<u64, Arc<PacedState>>>,
    /// Since the last search that found nothing, among all, among those without a visit, and among those of any one visit.
    vain_searches: [Mutex<Option<Stopwatch>>; 3],
}

/// Which exchanges may be given up for a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Among {
    /// All of them.
    All,
    /// Those without a visit.
    WithoutVisit,
    /// Those of its own visit.
    Visit(VisitTag),
}

impl Among {
    fn includes(self, visit: Option<VisitTag>) -> bool {
        match self {
            Self::All => true,
            Self::WithoutVisit => visit.is_none(),
            Self::Visit(own) => visit == Some(own),
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::All => 0,
            Self::WithoutVisit => 1,
            Self::Visit(_) => 2,
        }
    }
}

impl ClientPacedExchanges {
    pub(super) fn enter(self: &Arc<Self>, visit: Option<VisitTag>) -> ClientPaced {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        let state = Arc::new(PacedState { visit, ..PacedState::default() });
        lock(&self.all).insert(key, Arc::clone(&state));
        ClientPaced { exchanges: Arc::clone(self), key, state }
    }

    /// Gives up the exchange whose client has been idle for the longest among these; `false` if none is.
    pub(super) fn evict_idlest(&self, among: Among) -> bool {
        let vain_search = &self.vain_searches[among.index()];
        if lock(vain_search).is_some_and(|search| search.elapsed() < SEARCH_PAUSE) {
            return false;
        }
        let idlest = {
            let all = lock(&self.all);
            let candidates = all.values().filter(|state| among.includes(state.visit));
            let idle = candidates.filter_map(|state| Some((state.idle()?, Arc::clone(state))));
            idle.filter(|(idle, _)| *idle >= IDLE_MIN).max_by_key(|(idle, _)| *idle)
        };
        if let Some((_, state)) = idlest {
            self.evicted.fetch_add(1, Ordering::Relaxed);
            state.evict();
            return true;
        }
        *lock(vain_search) = Some(Stopwatch::start());
        false
    }

    /// How many were given up.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }
}

/// One of them. Ends when dropped.
#[derive(Debug)]
pub(super) struct ClientPaced {
    exchanges: Arc<ClientPacedExchanges>,
    key: u64,
    state: Arc<PacedState>,
}

#[derive(Debug, Default)]
struct PacedState {
    visit: Option<VisitTag>,
    pace: Mutex<Pace>,
    is_evicted: AtomicBool,
    /// Who learns that it was given up.
    waker: Mutex<Option<Waker>>,
    /// What holds the connection, where nobody polls until the client reads.
    held: Mutex<Option<(Incoming, Option<Lease>)>>,
}

#[derive(Debug, Default)]
struct Pace {
    /// Since when the client has to do the next thing; `None` while it is the origin's turn.
    awaited: Option<Stopwatch>,
    /// For how long it had to do so before.
    awaited_before: Duration,
    bytes: u64,
}

impl Pace {
    fn end_wait(&mut self) {
        self.awaited_before += self.awaited.take().map_or(Duration::ZERO, |awaited| awaited.elapsed());
    }
}

impl PacedState {
    /// How long the client has been idle, or how far it is behind.
    fn idle(&self) -> Option<Duration> {
        if self.is_evicted.load(Ordering::Relaxed) {
            return None;
        }
        let pace = lock(&self.pace);
        let idle = pace.awaited?.elapsed();
        let allowed = Duration::from_millis(pace.bytes.saturating_mul(1000) / RATE_BYTES_PER_SECOND);
        Some(idle.max((pace.awaited_before + idle).saturating_sub(allowed)))
    }

    fn evict(&self) {
        self.is_evicted.store(true, Ordering::Release);
        let held = lock(&self.held).take();
        if let Some((_, Some(mut lease))) = held {
            lease.discard();
        }
        let waker = lock(&self.waker).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl ClientPaced {
    /// The client has moved so many bytes, and has to do the next thing again.
    pub(super) fn note_moved(&self, bytes: u64) {
        let mut pace = lock(&self.state.pace);
        pace.end_wait();
        pace.bytes += bytes;
        pace.awaited = Some(Stopwatch::start());
    }

    /// The client has to do the next thing.
    pub(super) fn await_client(&self) {
        lock(&self.state.pace).awaited.get_or_insert_with(Stopwatch::start);
    }

    /// The origin has to do the next thing.
    pub(super) fn await_origin(&self) {
        lock(&self.state.pace).end_wait();
    }

    /// Ready when it was given up.
    pub(super) fn poll_evicted(&self, context: &Context<'_>) -> Poll<()> {
        if self.state.is_evicted.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        let mut waker = lock(&self.state.waker);
        if !waker.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
        drop(waker);
        // It may have been given up just before the waker was there.
        if self.state.is_evicted.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// What holds the connection; `None` inside once it was given up.
    pub(super) fn held(&self) -> MutexGuard<'_, Option<(Incoming, Option<Lease>)>> {
        lock(&self.state.held)
    }
}

impl Drop for ClientPaced {
    fn drop(&mut self) {
        lock(&self.exchanges.all).remove(&self.key);
    }
}

/// Nothing within panics half-way through a change, so a poisoned lock guards sound content.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
