//! A group of origins that serve the same site, and which of them gets the next request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anteroom_store::clock::Stopwatch;
use rustls::{ClientConfig, RootCertStore};
use tracing::warn;

use super::OriginAddress;
use super::connect::Connector;
use super::error::ProxyError;
use super::health;
use super::observations::{Observations, Observer};
use super::pool::Origin;
use super::settings::{OriginTrust, ProxySettings};
use super::uploads::UploadSlots;

/// How long an origin that could not be reached gets no requests while there are others.
const AVOIDED_FOR: Duration = Duration::from_secs(2);

/// How often a failure of an origin is logged.
const LOGGED_EVERY: Duration = Duration::from_secs(1);

/// A group of origins that serve the same site.
#[derive(Debug)]
pub struct Origins {
    all: Vec<Arc<Origin>>,
    settings: ProxySettings,
    observer: Arc<Observer>,
    uploads: Arc<UploadSlots>,
    /// Where the search for the least loaded one begins, so that equals take turns.
    turn: AtomicUsize,
    started: Stopwatch,
    /// When a failure may be logged again, in milliseconds since `started`.
    silent_until_millis: AtomicU64,
}

/// Why a group of origins cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginsError {
    /// There is none.
    #[error("there is no origin; name one as http://host:port")]
    Empty,
    /// A host that no certificate could name.
    #[error("{0:?} is not a host name that a certificate could have")]
    Name(String),
    /// The system's certificates cannot be read.
    #[error("no certificate authority of this system could be read; origins with https need one")]
    Trust,
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}

/// How a group of origins is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OriginView {
    /// Requests at the origins now, tunnels included.
    pub in_flight: usize,
    /// Requests that wait for a connection to them.
    pub waiting: usize,
    /// Connections to them.
    pub connections: usize,
    /// How many origins are healthy.
    pub healthy: usize,
    /// How many there are.
    pub total: usize,
    /// Bodies under way from clients.
    pub uploads: usize,
    /// How many bodies were refused because too many were under way, since the start.
    pub uploads_refused: u64,
    /// How many exchanges with idle clients were given up for others, since the start.
    pub evicted: u64,
}

impl Origins {
    /// A group of origins.
    pub fn new(addresses: Vec<OriginAddress>, settings: ProxySettings) -> Result<Arc<Self>, OriginsError> {
        if addresses.is_empty() {
            return Err(OriginsError::Empty);
        }
        let tls =
            addresses.iter().any(OriginAddress::is_tls).then(|| tls_config(&settings.trust)).transpose()?;
        let observer = Arc::new(Observer::default());
        let mut origins = Vec::with_capacity(addresses.len());
        for address in addresses {
            let connector = Connector::new(&address, &settings, tls.as_ref())?;
            origins.push(Arc::new(Origin::new(address, connector, &settings, Arc::clone(&observer))));
        }
        Ok(Arc::new(Self {
            all: origins,
            uploads: UploadSlots::new(&settings),
            settings,
            observer,
            turn: AtomicUsize::new(0),
            started: Stopwatch::start(),
            silent_until_millis: AtomicU64::new(0),
        }))
    }

    /// Asks the origins for their health as the settings say, and closes connections that are unused for long. Runs until
    /// it is dropped.
    pub async fn watch_health(self: Arc<Self>) {
        health::watch(&self.all, self.settings.health.as_ref()).await;
    }

    /// How they are.
    pub fn view(&self) -> OriginView {
        OriginView {
            in_flight: self.in_flight(),
            waiting: self.all.iter().map(|origin| origin.waiting()).sum(),
            connections: self.all.iter().map(|origin| origin.connections()).sum(),
            healthy: self.all.iter().filter(|origin| origin.is_healthy()).count(),
            total: self.all.len(),
            uploads: self.uploads.count(),
            uploads_refused: self.uploads.refused(),
            evicted: self.all.iter().map(|origin| origin.client_paced.evicted()).sum(),
        }
    }

    pub(super) fn uploads(&self) -> &Arc<UploadSlots> {
        &self.uploads
    }

    /// What was seen of them since this was last called.
    pub fn take_observations(&self) -> Observations {
        self.observer.take(self.in_flight())
    }

    pub(super) fn settings(&self) -> &ProxySettings {
        &self.settings
    }

    /// The origin with the fewest requests, if possible a healthy one that could be reached lately, and not the one that has
    /// just failed. Where all are ill, they are tried all the same: an answer of theirs is better than none, and a wrong path of
    /// the health check must not shut the site.
    pub(super) fn choose(&self, failed: Option<&Arc<Origin>>) -> &Arc<Origin> {
        let [only] = &self.all[..] else {
            let count = self.all.len();
            let start = self.turn.fetch_add(1, Ordering::Relaxed);
            let candidates = (0..count).map(|step| &self.all[start.wrapping_add(step) % count]);
            let chosen = candidates.min_by_key(|origin| {
                (
                    failed.is_some_and(|failed| Arc::ptr_eq(failed, origin)),
                    !origin.is_healthy(),
                    origin.is_avoided(),
                    origin.in_flight.load(Ordering::Relaxed),
                )
            });
            return chosen.expect("a group of origins is not empty");
        };
        only
    }

    /// Logs why a request got no answer, unless another was logged just now: while an origin is down, every request says the same.
    pub(super) fn log_failure(&self, error: &ProxyError) {
        let now = millis_of(self.started.elapsed());
        let silent_until = self.silent_until_millis.load(Ordering::Relaxed);
        let next = now + millis_of(LOGGED_EVERY);
        let is_mine = now >= silent_until
            && self
                .silent_until_millis
                .compare_exchange(silent_until, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_mine {
            warn!(%error, "request got no response from its origin");
        }
    }

    fn in_flight(&self) -> usize {
        self.all.iter().map(|origin| origin.in_flight.load(Ordering::Relaxed)).sum()
    }
}

impl Origin {
    pub(super) fn is_healthy(&self) -> bool {
        self.is_healthy.load(Ordering::Relaxed)
    }

    /// It could not be reached; for a while others are preferred.
    pub(super) fn avoid(&self) {
        self.avoided_until_millis.store(self.millis() + millis_of(AVOIDED_FOR), Ordering::Relaxed);
    }

    fn is_avoided(&self) -> bool {
        self.millis() < self.avoided_until_millis.load(Ordering::Relaxed)
    }

    fn millis(&self) -> u64 {
        millis_of(self.started.elapsed())
    }
}

fn millis_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How TLS is spoken to origins.
fn tls_config(trust: &OriginTrust) -> Result<ClientConfig, OriginsError> {
    let roots = match trust {
        OriginTrust::Roots(roots) => roots.clone(),
        OriginTrust::System => {
            let mut roots = RootCertStore::empty();
            // Some systems carry certificates that cannot be parsed; the rest are as good as ever.
            let (_, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(OriginsError::Trust);
            }
            roots
        }
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| OriginsError::Tls(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
