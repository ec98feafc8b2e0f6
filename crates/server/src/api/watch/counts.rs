//! Counts of the live streams since the start, for `/metrics`.

use std::sync::atomic::{AtomicU64, Ordering};

use anteroom_store::clock::Stopwatch;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use std::sync::Arc;

/// The first bucket of a push's time, in seconds; each further one is twice as large.
const PUSH_SECONDS_FIRST_BUCKET: f64 = 0.001;
/// How many buckets: up to 16 seconds.
const PUSH_SECONDS_BUCKETS: u16 = 15;

/// How a stream is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Its socket was taken out of hyper: clear HTTP/1.1.
    Taken,
    /// It is a body in hyper: everything over TLS.
    Tls,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Taken, Self::Tls];

    /// Its name in `/metrics`.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Tls => "tls",
        }
    }
}

/// All figures of the live stream. Each may be read at any time.
#[derive(Debug)]
pub(crate) struct Counts {
    taken: AtomicU64,
    tls: AtomicU64,
    /// Boards sent, each to each client, the first ones included.
    pub(crate) events: AtomicU64,
    /// Comments sent so that a quiet stream is not taken for a broken one.
    pub(crate) keep_alives: AtomicU64,
    /// Streams ended because their client did not take what it was sent.
    pub(crate) slow_readers: AtomicU64,
    /// Boards sent to all who watch a room.
    pub(crate) pushes: AtomicU64,
    /// From the beginning of a push until the last taken-out stream had it.
    pub(crate) push_seconds: Histogram,
}

impl Counts {
    pub(super) fn new() -> Self {
        let buckets = exponential_buckets(PUSH_SECONDS_FIRST_BUCKET, 2.0, PUSH_SECONDS_BUCKETS);
        Self {
            taken: AtomicU64::new(0),
            tls: AtomicU64::new(0),
            events: AtomicU64::new(0),
            keep_alives: AtomicU64::new(0),
            slow_readers: AtomicU64::new(0),
            pushes: AtomicU64::new(0),
            push_seconds: Histogram::new(buckets),
        }
    }

    /// Streams of this kind that are open now.
    pub(crate) fn open(&self, kind: Kind) -> u64 {
        self.gauge(kind).load(Ordering::Relaxed)
    }

    /// One more of this kind, unless there are `max` already.
    pub(super) fn enter(&self, kind: Kind, max: u64) -> bool {
        let more = |open: u64| (open < max).then_some(open + 1);
        self.gauge(kind).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    pub(super) fn leave(&self, kind: Kind) {
        self.gauge(kind).fetch_sub(1, Ordering::Relaxed);
    }

    fn gauge(&self, kind: Kind) -> &AtomicU64 {
        match kind {
            Kind::Taken => &self.taken,
            Kind::Tls => &self.tls,
        }
    }
}

pub(super) fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// Runs from the beginning of a push; every hub that has still clients to tell holds it. Recorded when the last lets go of it.
pub(super) struct PushClock {
    running: Stopwatch,
    counts: Arc<Counts>,
}

impl PushClock {
    pub(super) fn start(counts: &Arc<Counts>) -> Arc<Self> {
        Arc::new(Self { running: Stopwatch::start(), counts: Arc::clone(counts) })
    }
}

impl Drop for PushClock {
    fn drop(&mut self) {
        self.counts.push_seconds.observe(self.running.elapsed().as_secs_f64());
    }
}
