//! One connection to one server, made anew when it breaks: by one attempt at a time, after a back-off. Meanwhile every
//! request fails at once, so that no caller waits for a server that is gone.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, PushInfo, PushKind,
    RedisConnectionInfo, RedisError,
};
use tokio::sync::watch;

use super::super::address::{Address, Login};
use super::super::command::CommandTimeout;
use super::super::options::RedisCertificates;
use super::super::tasks;
use super::failure;
use crate::clock::Stopwatch;
use crate::contract::StoreError;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause after the first failure, doubled with each one.
const PAUSE_MIN: Duration = Duration::from_millis(25);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How connections are made: the same for all servers of a store.
pub(in super::super) struct Connector {
    pub(super) with_tls: bool,
    pub(super) login: Login,
    /// For servers that let nobody in without one; others refuse those who log in.
    pub(super) login_if_asked: Option<Login>,
    pub(super) database: u32,
    pub(super) certificates: RedisCertificates,
}

/// A connection, and whether it still is one.
#[derive(Clone)]
pub(in super::super) struct Open {
    pub(in super::super) connection: MultiplexedConnection,
    is_broken: Arc<AtomicBool>,
}

impl Open {
    /// Nobody is to use it any more.
    pub(in super::super) fn give_up(&self) {
        self.is_broken.store(true, Ordering::Release);
    }

    pub(in super::super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }
}

impl Connector {
    /// Connects and logs in; `pushed` gets what the server says unasked.
    pub(in super::super) async fn connect(
        &self,
        address: &Address,
        pushed: impl Fn(PushInfo) + Clone + Send + Sync + 'static,
    ) -> Result<Open, RedisError> {
        match (self.log_in(address, &self.login, pushed.clone()).await, &self.login_if_asked) {
            (Err(error), Some(login)) if error.to_string().contains("NOAUTH") => {
                self.log_in(address, login, pushed).await
            }
            (connected, _) => connected,
        }
    }

    async fn log_in(
        &self,
        address: &Address,
        login: &Login,
        pushed: impl Fn(PushInfo) + Send + Sync + 'static,
    ) -> Result<Open, RedisError> {
        let client = self.client(address, login)?;
        let is_broken = Arc::new(AtomicBool::new(false));
        let noticed = is_broken.clone();
        let push = move |info: PushInfo| {
            if info.kind == PushKind::Disconnection {
                noticed.store(true, Ordering::Release);
            }
            pushed(info);
            Ok::<(), ()>(())
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(CommandTimeout::Short.limit()))
            .set_push_sender(push);
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let connection = match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(connected) => connected?,
            Err(_) => return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        };
        Ok(Open { connection, is_broken })
    }

    fn client(&self, address: &Address, login: &Login) -> Result<Client, RedisError> {
        let Address { host, port } = address.clone();
        let place = if self.with_tls {
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
        } else {
            ConnectionAddr::Tcp(host, port)
        };
        let mut settings = RedisConnectionInfo::default()
            .set_skip_set_lib_name()
            .set_protocol(ProtocolVersion::RESP3)
            .set_db(i64::from(self.database));
        if let Some(user) = &login.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = login.password() {
            settings = settings.set_password(password);
        }
        let info = place.into_connection_info()?;
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let info = info.set_redis_settings(settings).set_tcp_settings(tcp);
        if self.with_tls {
            Client::build_with_tls(info, self.certificates.material())
        } else {
            Client::open(info)
        }
    }
}

/// A connection that is made when it is needed.
pub(super) struct Link {
    connector: Arc<Connector>,
    pub(super) address: Address,
    state: Mutex<State>,
    /// How many attempts have come to their end.
    attempts: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    open: Option<Open>,
    is_connecting: bool,
    /// How often in a row it did not succeed, and what was said last.
    failures: u32,
    last: Option<StoreError>,
    /// Nobody tries before this is over.
    pause: Option<(Stopwatch, Duration)>,
}

impl Link {
    pub(super) fn new(connector: Arc<Connector>, address: Address) -> Self {
        Self { connector, address, state: Mutex::default(), attempts: watch::channel(0).0 }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, or why there is none.
    pub(super) async fn open(self: &Arc<Self>) -> Result<Open, StoreError> {
        let mut attempts = {
            let mut state = self.state();
            if let Some(open) = state.open.clone().filter(|open| !open.is_broken()) {
                return Ok(open);
            }
            state.open = None;
            if !state.is_connecting {
                let rests = state.pause.is_some_and(|(since, pause)| since.elapsed() < pause);
                if rests {
                    return Err(state.why_not());
                }
                state.is_connecting = true;
                drop(tasks::spawn(self.clone().attempt()));
            }
            // Only the first request after a success waits for an immediate reconnect.
            if state.failures > 0 {
                return Err(state.why_not());
            }
            self.attempts.subscribe()
        };
        // The attempt has a time limit of its own.
        let _ = attempts.changed().await;
        let state = self.state();
        state.open.clone().filter(|open| !open.is_broken()).ok_or_else(|| state.why_not())
    }

    async fn attempt(self: Arc<Self>) {
        let made = self.connector.connect(&self.address, |_| {}).await;
        {
            let mut state = self.state();
            state.is_connecting = false;
            match made {
                Ok(open) => {
                    if state.failures > 0 {
                        tracing::info!(server = %self.address, "reconnected to redis");
                    }
                    *state = State { open: Some(open), ..State::default() };
                }
                Err(error) => {
                    if state.failures == 0 {
                        tracing::warn!(server = %self.address, %error, "connecting to redis failed");
                    }
                    state.pause = Some((Stopwatch::start(), pause_after(state.failures)));
                    state.failures = state.failures.saturating_add(1);
                    state.last = Some(failure::not_connected(&error));
                }
            }
        }
        self.attempts.send_modify(|attempts| *attempts += 1);
    }
}

impl State {
    fn why_not(&self) -> StoreError {
        self.last.clone().unwrap_or_else(|| StoreError::Transient("not connected".into()))
    }
}

/// How long to rest: twice as long after each failure, and never quite as long as others do.
fn pause_after(failures: u32) -> Duration {
    let pause = PAUSE_MIN.saturating_mul(1 << failures.min(10)).min(PAUSE_MAX);
    // A fresh hasher has random keys; pauses need no better randomness.
    let share = u32::try_from(RandomState::new().hash_one(failures) % 512).unwrap_or_default();
    pause * (512 + share) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit_and_differ() {
        for (failures, longest) in [(0, 25), (1, 50), (3, 200), (7, 2_000), (u32::MAX, 2_000)] {
            let longest = Duration::from_millis(longest);
            let pauses: Vec<Duration> = (0..32).map(|_| pause_after(failures)).collect();
            assert!(
                pauses.iter().all(|pause| (longest / 2..=longest).contains(pause)),
                "{failures}: {pauses:?}"
            );
            assert!(pauses.iter().any(|pause| pause != &pauses[0]), "everybody would come at the same time");
        }
    }
}
