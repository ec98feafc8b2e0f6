//! How many bodies may be on their way from clients at once, and how slowly they may come.
//!
//! A body that is there as a whole costs nothing. Any other holds a slot until it is over: so many for all clients, a part of them for
//! requests without a visit, and a few for one client. A client that sends less than the least rate, or takes longer than a body may
//! take, is refused.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use anteroom_store::clock::Stopwatch;
use tokio::time::Sleep;

use super::client_prefix::ClientCounts;
use super::error::ProxyError;
use super::forward::Hop;
use super::settings::ProxySettings;

/// For how long a client may send nothing at all, over the whole body, before the least rate counts.
pub(super) const UPLOAD_GRACE: Duration = Duration::from_secs(10);

/// The slots of one group of origins.
#[derive(Debug)]
pub(super) struct UploadSlots {
    total_max: usize,
    without_visit_max: usize,
    per_client_max: usize,
    refused: AtomicU64,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    without_visit: usize,
    by_client: ClientCounts,
}

impl UploadSlots {
    pub(super) fn new(settings: &ProxySettings) -> Arc<Self> {
        Arc::new(Self {
            total_max: settings.uploads_max,
            without_visit_max: settings.share_without_visit(settings.uploads_max),
            per_client_max: settings.uploads_per_client_max,
            refused: AtomicU64::new(0),
            taken: Mutex::default(),
        })
    }

    /// A slot for a body of this client, unless too many are taken.
    pub(super) fn take(self: &Arc<Self>, hop: &Hop) -> Result<UploadSlot, ProxyError> {
        let mut taken = self.taken();
        let is_full = taken.total >= self.total_max
            || hop.visit.is_none() && taken.without_visit >= self.without_visit_max;
        let refusal = if is_full {
            Some(ProxyError::UploadsFull)
        } else if taken.by_client.take(hop.client, self.per_client_max) {
            None
        } else {
            Some(ProxyError::UploadsOfClient)
        };
        if let Some(refusal) = refusal {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(refusal);
        }
        taken.total += 1;
        taken.without_visit += usize::from(hop.visit.is_none());
        Ok(UploadSlot { slots: Arc::clone(self), client: hop.client, has_visit: hop.visit.is_some() })
    }

    /// How many are taken.
    pub(super) fn count(&self) -> usize {
        self.taken().total
    }

    /// How many bodies found none.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One slot, given back when dropped.
#[derive(Debug)]
pub(super) struct UploadSlot {
    slots: Arc<UploadSlots>,
    client: IpAddr,
    has_visit: bool,
}

impl Drop for UploadSlot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken();
        taken.total -= 1;
        taken.without_visit -= usize::from(!self.has_visit);
        taken.by_client.give_back(self.client);
    }
}

/// How fast a client sends its body. Only the time in which we wait for the client counts against the rate.
#[derive(Debug)]
pub(super) struct UploadPace {
    rate_min: u64,
    time_max: Duration,
    begun: Stopwatch,
    bytes: u64,
    waited: Duration,
    waiting: Option<Stopwatch>,
    /// Rings when the client may be too slow, or before.
    timer: Pin<Box<Sleep>>,
}

impl UploadPace {
    pub(super) fn new(settings: &ProxySettings) -> Self {
        Self {
            rate_min: settings.upload_rate_min.max(1),
            time_max: settings.upload_timeout,
            begun: Stopwatch::start(),
            bytes: 0,
            waited: Duration::ZERO,
            waiting: None,
            timer: Box::pin(tokio::time::sleep(UPLOAD_GRACE.min(settings.upload_timeout))),
        }
    }

    /// The client has sent something.
    pub(super) fn note_received(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.waited += self.waiting.take().map_or(Duration::ZERO, |waiting| waiting.elapsed());
    }

    /// Ready when the client, which is awaited, is too slow.
    pub(super) fn poll_too_slow(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let waiting = *self.waiting.get_or_insert_with(Stopwatch::start);
        while self.timer.as_mut().poll(context).is_ready() {
            let allowed =
                UPLOAD_GRACE + Duration::from_millis(self.bytes.saturating_mul(1000) / self.rate_min);
            let by_rate = allowed.saturating_sub(self.waited + waiting.elapsed());
            let left = by_rate.min(self.time_max.saturating_sub(self.begun.elapsed()));
            if left.is_zero() {
                return Poll::Ready(());
            }
            self.timer.set(tokio::time::sleep(left));
        }
        Poll::Pending
    }
}
