//! The connections to one origin: unused ones, those in use, and the requests that wait for one.
//!
//! An unused HTTP/1 connection is a value on a stack; the one used last is used next, so that the others grow old and
//! are closed. An HTTP/2 connection is shared and has a task of its own. A request that finds neither may open one, up
//! to a number, and else waits in order of arrival until a connection is given back.
//!
//! *Invariant:* `open` counts connections that exist or are being opened, except tunnels; it is never above the settings' `connections_max`.
//! *Invariant:* every [`Lease`] is given back by being dropped, whatever happened to the exchange, so nothing is counted in
//! flight for longer than it is.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anteroom_store::clock::Stopwatch;
use hyper::client::conn::http2;
use tokio::sync::oneshot;

use super::error::ProxyError;
use super::http1::Http1;
use super::observations::Observer;
use super::outgoing::Outgoing;
use super::settings::{Http2ToOrigin, ProxySettings};
use super::{OriginAddress, connect};

/// How many requests one HTTP/2 connection carries at once. The origin may allow fewer; the rest then wait within hyper.
const STREAMS_MAX: usize = 100;
/// How many requests may wait for a connection to one origin.
const WAITERS_MAX: usize = 8192;

/// One origin: where it is, how it is, and the connections to it.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) address: OriginAddress,
    pub(super) connector: connect::Connector,
    pub(super) connections_max: usize,
    pub(super) connection_wait: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) in_flight: AtomicUsize,
    pub(super) is_healthy: AtomicBool,
    /// Until when it is avoided because it could not be reached, in milliseconds since `started`.
    pub(super) avoided_until_millis: AtomicU64,
    pub(super) started: Stopwatch,
    pub(super) observer: Arc<Observer>,
    stock: Mutex<Stock>,
}

/// What is there to be had.
#[derive(Debug, Default)]
struct Stock {
    idle: Vec<IdleConnection>,
    shared: Vec<SharedConnection>,
    open: usize,
    /// How many of them are being opened.
    opening: usize,
    waiters: VecDeque<Waiter>,
    /// Whether the last connection turned out to speak HTTP/2, or any will, so that one more carries many.
    speaks_http2: bool,
    next_shared: u64,
}

#[derive(Debug)]
struct IdleConnection {
    http1: Box<Http1>,
    since: Stopwatch,
}

/// An HTTP/2 connection.
#[derive(Debug)]
struct SharedConnection {
    number: u64,
    sender: http2::SendRequest<Outgoing>,
    streams: usize,
    /// When the last stream ended, or the first began.
    since: Stopwatch,
}

#[derive(Debug)]
struct Waiter {
    needs_http1: bool,
    hand_over: oneshot::Sender<Grant>,
}

/// What a request may use.
#[derive(Debug)]
enum Grant {
    Idle(Box<Http1>),
    Stream(u64, http2::SendRequest<Outgoing>),
    Open,
}

/// What there is for a request that asks for a connection.
enum Supply {
    /// It can go on.
    AtOnce(Grant),
    /// It waits for what comes over the channel.
    Queued(oneshot::Receiver<Grant>),
    /// Too many wait already.
    QueueFull,
}

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// Any connection.
    Any,
    /// A new connection, because an old one has just failed.
    New,
    /// HTTP/1, because it wants to upgrade; a new connection, so that what is sent after the upgrade has nothing before it.
    NewHttp1,
}

/// The right to one exchange with an origin.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) origin: Arc<Origin>,
    pub(super) channel: Channel,
}

/// How the exchange is done.
#[derive(Debug)]
pub(super) enum Channel {
    Http1(Box<Http1>),
    Http2 {
        number: u64,
        sender: http2::SendRequest<Outgoing>,
    },
    /// The connection was taken out and is still open, as a tunnel.
    Taken,
    /// The connection is being opened.
    Opening,
    /// There is none any more.
    Gone,
}

impl Origin {
    pub(super) fn new(
        address: OriginAddress,
        connector: connect::Connector,
        settings: &ProxySettings,
        observer: Arc<Observer>,
    ) -> Self {
        Self {
            address,
            connector,
            connections_max: settings.connections_max.max(1),
            connection_wait: settings.connection_wait,
            idle_timeout: settings.idle_timeout,
            in_flight: AtomicUsize::new(0),
            is_healthy: AtomicBool::new(true),
            avoided_until_millis: AtomicU64::new(0),
            started: Stopwatch::start(),
            observer,
            stock: Mutex::new(Stock {
                speaks_http2: settings.http2 == Http2ToOrigin::Always,
                ..Stock::default()
            }),
        }
    }

    /// Takes a connection, opens one, or waits for one.
    pub(super) async fn lease(self: &Arc<Self>, wish: Wish) -> Result<Lease, ProxyError> {
        let grant = match self.ask(wish) {
            Supply::AtOnce(grant) => grant,
            Supply::Queued(receiver) => self.wait(receiver).await?,
            Supply::QueueFull => return Err(self.busy()),
        };
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let lease = |channel| Lease { origin: Arc::clone(self), channel };
        match grant {
            Grant::Idle(http1) => Ok(lease(Channel::Http1(http1))),
            Grant::Stream(number, sender) => Ok(lease(Channel::Http2 { number, sender })),
            Grant::Open => {
                let mut lease = lease(Channel::Opening);
                let needs_http1 = wish == Wish::NewHttp1;
                let connected = connect::open(self, needs_http1).await?;
                lease.fill(connected);
                Ok(lease)
            }
        }
    }

    /// What is there at once, or the channel it will come over.
    fn ask(self: &Arc<Self>, wish: Wish) -> Supply {
        let mut outdated = vec![];
        let mut stock = self.lock();
        if wish == Wish::Any {
            // The last is the youngest: where it is too old, all are.
            if let Some(idle) = stock.idle.pop() {
                if idle.since.elapsed() < self.idle_timeout {
                    return Supply::AtOnce(Grant::Idle(idle.http1));
                }
                stock.open -= 1 + stock.idle.len();
                outdated.push(idle);
                outdated.append(&mut stock.idle);
            }
            if let Some(grant) = stock.take_stream() {
                return Supply::AtOnce(grant);
            }
        }
        let is_one_coming = wish == Wish::Any
            && stock.speaks_http2
            && stock.opening > 0
            && stock.waiters.len() < stock.opening * STREAMS_MAX;
        if !is_one_coming {
            if stock.open >= self.connections_max && wish != Wish::Any {
                // An unused connection makes room for a new one.
                if let Some(idle) = stock.idle.pop() {
                    stock.open -= 1;
                    outdated.push(idle);
                }
            }
            if stock.open < self.connections_max {
                stock.open += 1;
                stock.opening += 1;
                return Supply::AtOnce(Grant::Open);
            }
        }
        if stock.waiters.len() >= WAITERS_MAX {
            return Supply::QueueFull;
        }
        let (hand_over, receiver) = oneshot::channel();
        stock.waiters.push_back(Waiter { needs_http1: wish == Wish::NewHttp1, hand_over });
        // Closed outside of the lock.
        drop(stock);
        drop(outdated);
        Supply::Queued(receiver)
    }

    async fn wait(self: &Arc<Self>, receiver: oneshot::Receiver<Grant>) -> Result<Grant, ProxyError> {
        let mut queued = QueuedRequest { origin: self, receiver };
        match tokio::time::timeout(self.connection_wait, &mut queued.receiver).await {
            Ok(Ok(grant)) => Ok(grant),
            _ => Err(self.busy()),
        }
    }

    /// Closes connections that are unused for long.
    pub(super) fn close_outdated(&self) {
        let mut stock = self.lock();
        let outdated_count =
            stock.idle.iter().take_while(|idle| idle.since.elapsed() >= self.idle_timeout).count();
        let outdated: Vec<IdleConnection> = stock.idle.drain(..outdated_count).collect();
        stock.open -= outdated.len();
        let is_outdated = |shared: &mut SharedConnection| {
            shared.streams == 0 && shared.since.elapsed() >= self.idle_timeout
        };
        let outdated_shared: Vec<SharedConnection> = stock.shared.extract_if(.., is_outdated).collect();
        stock.open -= outdated_shared.len();
        drop(stock);
    }

    /// Connections that exist or are being opened.
    pub(super) fn connections(&self) -> usize {
        self.lock().open
    }

    /// An HTTP/2 connection has ended.
    pub(super) fn forget_shared(&self, number: u64) {
        let mut stock = self.lock();
        let before = stock.shared.len();
        stock.shared.retain(|shared| shared.number != number);
        stock.open -= before - stock.shared.len();
        stock.serve_waiters(self.connections_max);
    }

    fn busy(&self) -> ProxyError {
        ProxyError::Busy { origin: self.address.to_string() }
    }

    fn lock(&self) -> MutexGuard<'_, Stock> {
        // Nothing within panics half-way through a change, so a poisoned lock guards sound content.
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes back a grant that will not be used.
    fn take_back(&self, grant: Grant) {
        let mut stock = self.lock();
        match grant {
            Grant::Idle(http1) => stock.idle.push(IdleConnection { http1, since: Stopwatch::start() }),
            Grant::Stream(number, _) => stock.end_stream(number),
            Grant::Open => {
                stock.open -= 1;
                stock.opening -= 1;
            }
        }
        stock.serve_waiters(self.connections_max);
    }
}

/// A request that waits. A grant that arrives at the very moment of its cancellation goes back.
struct QueuedRequest<'a> {
    origin: &'a Arc<Origin>,
    receiver: oneshot::Receiver<Grant>,
}

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        self.receiver.close();
        if let Ok(grant) = self.receiver.try_recv() {
            self.origin.take_back(grant);
        }
    }
}

impl Stock {
    /// A stream of an HTTP/2 connection that has one left.
    fn take_stream(&mut self) -> Option<Grant> {
        let shared = self
            .shared
            .iter_mut()
            .filter(|shared| shared.streams < STREAMS_MAX && !shared.sender.is_closed())
            .min_by_key(|shared| shared.streams)?;
        shared.streams += 1;
        Some(Grant::Stream(shared.number, shared.sender.clone()))
    }

    fn end_stream(&mut self, number: u64) {
        if let Some(shared) = self.shared.iter_mut().find(|shared| shared.number == number) {
            shared.streams -= 1;
            shared.since = Stopwatch::start();
        }
    }

    /// Hands what there is to those who wait, the first first.
    fn serve_waiters(&mut self, connections_max: usize) {
        while let Some(waiter) = self.waiters.front() {
            if waiter.hand_over.is_closed() {
                self.waiters.pop_front();
                continue;
            }
            let needs_http1 = waiter.needs_http1;
            let grant = match self.idle.pop() {
                Some(idle) if !needs_http1 => Grant::Idle(idle.http1),
                Some(_) => {
                    // The unused connection made room for a new one.
                    self.opening += 1;
                    Grant::Open
                }
                None => {
                    if let Some(grant) = (!needs_http1).then(|| self.take_stream()).flatten() {
                        grant
                    } else if self.open < connections_max {
                        self.open += 1;
                        self.opening += 1;
                        Grant::Open
                    } else {
                        return;
                    }
                }
            };
            let Some(waiter) = self.waiters.pop_front() else { return };
            if let Err(grant) = waiter.hand_over.send(grant) {
                match grant {
                    Grant::Idle(http1) => self.idle.push(IdleConnection { http1, since: Stopwatch::start() }),
                    Grant::Stream(number, _) => self.end_stream(number),
                    Grant::Open => {
                        self.open -= 1;
                        self.opening -= 1;
                    }
                }
            }
        }
    }
}

impl Lease {
    /// Makes sure that the connection is not used again.
    pub(super) fn discard(&mut self) {
        if let Channel::Http1(_) = &self.channel {
            self.channel = Channel::Gone;
        }
    }

    /// The connection is a tunnel from now on: it lasts for as long as a visitor likes, so it takes no place away from requests.
    pub(super) fn take_out(&mut self) {
        self.channel = Channel::Taken;
        let mut stock = self.origin.lock();
        stock.open -= 1;
        stock.serve_waiters(self.origin.connections_max);
    }

    /// The connection that was being opened is there.
    fn fill(&mut self, connected: connect::Connected) {
        let mut stock = self.origin.lock();
        stock.opening -= 1;
        match connected {
            connect::Connected::Http1(http1) => {
                stock.speaks_http2 = false;
                self.channel = Channel::Http1(http1);
            }
            connect::Connected::Http2 { sender, driver } => {
                stock.speaks_http2 = true;
                let number = stock.next_shared;
                stock.next_shared += 1;
                stock.shared.push(SharedConnection {
                    number,
                    sender: sender.clone(),
                    streams: 1,
                    since: Stopwatch::start(),
                });
                self.channel = Channel::Http2 { number, sender };
                stock.serve_waiters(self.origin.connections_max);
                drop(stock);
                // Only a weak hold: the connection ends when its origin is no longer wanted.
                let origin = Arc::downgrade(&self.origin);
                connect::spawn_connection(async move {
                    driver.await;
                    if let Some(origin) = origin.upgrade() {
                        origin.forget_shared(number);
                    }
                });
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let origin = &self.origin;
        origin.in_flight.fetch_sub(1, Ordering::Relaxed);
        let channel = mem::replace(&mut self.channel, Channel::Gone);
        let mut ended = None;
        let mut stock = origin.lock();
        match channel {
            Channel::Http1(http1) if http1.is_ready() => {
                stock.idle.push(IdleConnection { http1, since: Stopwatch::start() });
            }
            Channel::Http1(http1) => {
                stock.open -= 1;
                ended = Some(http1);
            }
            Channel::Http2 { number, .. } => stock.end_stream(number),
            Channel::Opening => {
                stock.open -= 1;
                stock.opening -= 1;
            }
            Channel::Gone => stock.open -= 1,
            Channel::Taken => {}
        }
        if !stock.waiters.is_empty() {
            stock.serve_waiters(origin.connections_max);
        }
        // Closed outside of the lock.
        drop(stock);
        drop(ended);
    }
}
