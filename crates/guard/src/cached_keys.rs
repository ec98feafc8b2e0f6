//! The key set as it was fetched last, and when it is fetched again.
//!
//! *Invariant:* at most one fetch is in flight, and two begin no closer than the interval, whatever tokens come.
//! *Invariant:* a token whose key is cached and not too old never waits for a fetch.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Clock;
use crate::fetch::{FetchError, FetchKeys, KEY_SET_MAX_BYTES};
use crate::key_set::KeySet;
use crate::refusal::Refusal;

/// How old the key set may get before it is fetched again, unless told otherwise: as long as the server lets it be cached.
pub const REFRESH_AFTER: Duration = Duration::from_mins(5);
/// How old the key set may get while it cannot be fetched, unless told otherwise.
pub const STALE_MAX: Duration = Duration::from_hours(1);
/// How far apart two fetches begin at least, unless told otherwise.
pub const FETCH_INTERVAL: Duration = Duration::from_secs(5);
/// The same where no token can be verified without it.
pub const RETRY_WITHOUT_KEYS: Duration = Duration::from_secs(1);
/// How long a fetch may take, unless told otherwise.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// How many requests wait for a fetch; more are refused at once.
pub const KEYS_WAITING_MAX: usize = 1_024;

/// When the key set is fetched, and how long it is good.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) refresh_after: Duration,
    pub(crate) stale_max: Duration,
    pub(crate) fetch_interval: Duration,
    pub(crate) fetch_timeout: Duration,
}

/// What is known of the keys: for a health check or a metric.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyStatus {
    /// How many keys are cached.
    pub keys: usize,
    /// How long ago they were fetched; nothing if they never were.
    pub age: Option<Duration>,
    /// Whether tokens can be verified with them.
    pub usable: bool,
    /// Why the last fetch failed, if it did.
    pub last_error: Option<FetchError>,
}

/// The cache. Cheap to clone: all clones are one.
#[derive(Clone)]
pub(crate) struct CachedKeys(Arc<Shared>);

struct Shared {
    fetcher: Box<dyn FetchKeys>,
    clock: Arc<dyn Clock>,
    timing: Timing,
    fetched: RwLock<Option<Arc<FetchedKeys>>>,
    fetches: Mutex<Fetches>,
    waiting: AtomicUsize,
}

/// A key set and when it came.
pub(crate) struct FetchedKeys {
    pub(crate) keys: KeySet,
    fetched_at: Duration,
}

/// What is known of fetches.
#[derive(Default)]
struct Fetches {
    /// Says `true` when the fetch has ended; nothing is in flight without it.
    in_flight: Option<watch::Receiver<bool>>,
    began_at: Option<Duration>,
    last_error: Option<FetchError>,
}

impl CachedKeys {
    pub(crate) fn new(fetcher: Box<dyn FetchKeys>, clock: Arc<dyn Clock>, timing: Timing) -> Self {
        Self(Arc::new(Shared {
            fetcher,
            clock,
            timing,
            fetched: RwLock::default(),
            fetches: Mutex::default(),
            waiting: AtomicUsize::new(0),
        }))
    }

    /// A key set that has this key.
    pub(crate) async fn with_key(&self, kid: &str) -> Result<Arc<FetchedKeys>, Refusal> {
        let now = self.0.clock.elapsed();
        let usable = self.usable(now);
        if let Some(fetched) = usable.as_ref().filter(|fetched| fetched.keys.get(kid).is_some()) {
            if now.saturating_sub(fetched.fetched_at) >= self.0.timing.refresh_after {
                // Nobody waits for it.
                drop(self.begin_fetch(now, true));
            }
            return Ok(Arc::clone(fetched));
        }
        let outcome = match self.begin_fetch(now, usable.is_some()) {
            Ok(in_flight) => self.wait_for(in_flight).await,
            // The set is as new as the interval allows, and does not have the key.
            Err(FetchError::TooSoon) if self.last_error().is_none() => Ok(()),
            Err(error) => Err(error),
        };
        match (self.usable(self.0.clock.elapsed()), outcome) {
            (Some(fetched), _) if fetched.keys.get(kid).is_some() => Ok(fetched),
            (Some(_), Ok(())) => Err(Refusal::UnknownKey),
            _ => Err(Refusal::KeysUnavailable),
        }
    }

    /// Fetches the set, or waits for the fetch that is in flight. A set that is as new as the interval allows is good.
    pub(crate) async fn fetch(&self) -> Result<(), FetchError> {
        let now = self.0.clock.elapsed();
        let has_keys = self.usable(now).is_some();
        match self.begin_fetch(now, has_keys) {
            Ok(in_flight) => self.wait_for(in_flight).await,
            Err(FetchError::TooSoon) if has_keys && self.last_error().is_none() => Ok(()),
            Err(error) => Err(self.last_error().unwrap_or(error)),
        }
    }

    pub(crate) fn status(&self) -> KeyStatus {
        let now = self.0.clock.elapsed();
        let fetched = self.fetched();
        KeyStatus {
            keys: fetched.as_ref().map_or(0, |fetched| fetched.keys.len()),
            age: fetched.map(|fetched| now.saturating_sub(fetched.fetched_at)),
            usable: self.usable(now).is_some(),
            last_error: self.last_error(),
        }
    }

    fn fetched(&self) -> Option<Arc<FetchedKeys>> {
        self.0.fetched.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The cached set, if it is not too old.
    fn usable(&self, now: Duration) -> Option<Arc<FetchedKeys>> {
        self.fetched().filter(|fetched| now.saturating_sub(fetched.fetched_at) <= self.0.timing.stale_max)
    }

    fn last_error(&self) -> Option<FetchError> {
        self.fetches().last_error.clone()
    }

    fn fetches(&self) -> MutexGuard<'_, Fetches> {
        self.0.fetches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fetch that is in flight, or a new one unless the last began too short a time ago.
    fn begin_fetch(&self, now: Duration, has_keys: bool) -> Result<watch::Receiver<bool>, FetchError> {
        let timing = &self.0.timing;
        let interval =
            if has_keys { timing.fetch_interval } else { timing.fetch_interval.min(RETRY_WITHOUT_KEYS) };
        let mut fetches = self.fetches();
        if let Some(in_flight) = &fetches.in_flight {
            return Ok(in_flight.clone());
        }
        if fetches.began_at.is_some_and(|began_at| now.saturating_sub(began_at) < interval) {
            return Err(FetchError::TooSoon);
        }
        // A task of its own, so that the fetch goes on where the request that began it is given up.
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| FetchError::NoRuntime)?;
        let (ended, in_flight) = watch::channel(false);
        fetches.in_flight = Some(in_flight.clone());
        fetches.began_at = Some(now);
        drop(fetches);
        let fetch = FetchInFlight { cache: self.clone(), ended, outcome: Err(FetchError::NoRuntime) };
        runtime.spawn(fetch.run());
        Ok(in_flight)
    }

    async fn wait_for(&self, mut in_flight: watch::Receiver<bool>) -> Result<(), FetchError> {
        let _place = WaitingPlace::take(&self.0.waiting).ok_or(FetchError::TooSoon)?;
        // An error says that the fetch has ended, too.
        let _ = in_flight.wait_for(|ended| *ended).await;
        self.last_error().map_or(Ok(()), Err)
    }

    async fn fetch_now(&self) -> Result<KeySet, FetchError> {
        let timeout = self.0.timing.fetch_timeout;
        let fetching = tokio::time::timeout(timeout, self.0.fetcher.fetch());
        let bytes = fetching.await.map_err(|_| FetchError::TimedOut(timeout))?;
        let bytes = bytes.map_err(|error| match error.downcast::<FetchError>() {
            Ok(error) => *error,
            Err(error) => FetchError::Failed(with_sources(&*error)),
        })?;
        if bytes.len() > KEY_SET_MAX_BYTES {
            return Err(FetchError::TooLarge);
        }
        KeySet::parse(&bytes)
    }
}

/// The fetch in flight. However it ends (also by a panic of the fetcher, or with its runtime), those who wait are told.
struct FetchInFlight {
    cache: CachedKeys,
    ended: watch::Sender<bool>,
    outcome: Result<KeySet, FetchError>,
}

impl FetchInFlight {
    async fn run(mut self) {
        self.outcome = self.cache.fetch_now().await;
    }
}

impl Drop for FetchInFlight {
    fn drop(&mut self) {
        let shared = &self.cache.0;
        let outcome = std::mem::replace(&mut self.outcome, Err(FetchError::NoRuntime));
        let error = match outcome {
            Ok(keys) => {
                let fetched = Arc::new(FetchedKeys { keys, fetched_at: shared.clock.elapsed() });
                *shared.fetched.write().unwrap_or_else(PoisonError::into_inner) = Some(fetched);
                None
            }
            Err(error) => {
                tracing::warn!(%error, "key set fetch failed, verifying with cached keys");
                Some(error)
            }
        };
        let mut fetches = self.cache.fetches();
        fetches.last_error = error;
        fetches.in_flight = None;
        drop(fetches);
        self.ended.send_replace(true);
    }
}

/// A place among those who wait.
struct WaitingPlace<'count>(&'count AtomicUsize);

impl<'count> WaitingPlace<'count> {
    fn take(count: &'count AtomicUsize) -> Option<Self> {
        let place = Self(count);
        (count.fetch_add(1, Ordering::Relaxed) < KEYS_WAITING_MAX).then_some(place)
    }
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An error with what caused it: a client's own text often says only that it failed.
fn with_sources(error: &(dyn std::error::Error + 'static)) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}
