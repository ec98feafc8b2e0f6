//! The connections to one origin: unused ones, those in use, and the requests that wait for one.
//!
//! An unused HTTP/1 connection is a value on a stack; the one used last is used next, so that the others grow old and
//! are closed. An HTTP/2 connection is shared and has a task of its own. A request that finds neither may open one, up
//! to a number, and else waits in order of arrival until a connection is given back. Requests without a visit get a part of
//! them, and wait apart; those of one visit get a smaller part, so that a visitor never waits behind another one's crowd. A
//! request that has to wait takes the connection of an exchange whose client is idle.
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

use super::client_paced::{Among, ClientPacedExchanges};
use super::error::ProxyError;
use super::http1::Http1;
use super::observations::Observer;
use super::outgoing::Outgoing;
use super::settings::{Http2ToOrigin, ProxySettings};
use super::visit_shares::VisitShares;
use super::{OriginAddress, VisitTag, connect};

/// How many requests one HTTP/2 connection carries at once. The origin may allow fewer; the rest then wait within hyper.
const STREAMS_MAX: usize = 100;
/// How many requests may wait for a connection to one origin.
const WAITERS_MAX: usize = 8192;
/// How long after one exchange was given up for a request another one is.
const EVICTION_PAUSE: Duration = Duration::from_millis(500);
/// How often a request that waits looks for an exchange whose client is idle.
const EVICTION_PERIOD: Duration = Duration::from_millis(100);

/// One origin: where it is, how it is, and the connections to it.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) address: OriginAddress,
    pub(super) connector: connect::Connector,
    limits: StockLimits,
    pub(super) connection_wait: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) in_flight: AtomicUsize,
    pub(super) is_healthy: AtomicBool,
    /// Until when it is avoided because it could not be reached, in milliseconds since `started`.
    pub(super) avoided_until_millis: AtomicU64,
    pub(super) started: Stopwatch,
    pub(super) observer: Arc<Observer>,
    /// Exchanges that last as long as their clients like.
    pub(super) client_paced: Arc<ClientPacedExchanges>,
    stock: Mutex<Stock>,
}

/// How much may be given out.
#[derive(Debug, Clone, Copy)]
struct StockLimits {
    connections: usize,
    /// How many of them requests without a visit hold at most.
    without_visit: usize,
    /// How many those of one visit do.
    per_visit: usize,
}

/// What is there to be had.
#[derive(Debug, Default)]
struct Stock {
    idle: Vec<IdleConnection>,
    shared: Vec<SharedConnection>,
    open: usize,
    /// How many of them are being opened.
    opening: usize,
    /// How many leases are those of requests without a visit.
    without_visit: usize,
    waiters: VecDeque<Waiter>,
    /// Those without a visit, who come after the others.
    waiters_without_visit: VecDeque<Waiter>,
    /// What each visit holds or waits for among `waiters`, and its requests beyond that.
    visits: VisitShares<Waiter>,
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
    visit: Option<VisitTag>,
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

/// What there is too little of for a request.
enum Shortage {
    /// Connections.
    Connections,
    /// The part of them that requests without a visit get.
    Share,
    /// The part that its visit gets.
    Visit(VisitTag),
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
    pub(super) visit: Option<VisitTag>,
    /// Whether it is one of the leases of its visit, or of those without one; a tunnel is not.
    is_counted: bool,
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
            limits: StockLimits {
                connections: settings.connections_max.max(1),
                without_visit: settings.share_without_visit(settings.connections_max),
                per_visit: settings.connections_per_visit_max.max(1),
            },
            connection_wait: settings.connection_wait,
            idle_timeout: settings.idle_timeout,
            in_flight: AtomicUsize::new(0),
            is_healthy: AtomicBool::new(true),
            avoided_until_millis: AtomicU64::new(0),
            started: Stopwatch::start(),
            observer,
            client_paced: Arc::default(),
            stock: Mutex::new(Stock {
                speaks_http2: settings.http2 == Http2ToOrigin::Always,
                ..Stock::default()
            }),
        }
    }

    /// Takes a connection, opens one, or waits for one.
    pub(super) async fn lease(
        self: &Arc<Self>,
        wish: Wish,
        visit: Option<VisitTag>,
    ) -> Result<Lease, ProxyError> {
        let grant = match self.ask(wish, visit) {
            Supply::AtOnce(grant) => grant,
            Supply::Queued(receiver) => self.wait(receiver, visit).await?,
            Supply::QueueFull => return Err(self.busy()),
        };
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let lease = |channel| Lease { origin: Arc::clone(self), channel, visit, is_counted: true };
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
    fn ask(self: &Arc<Self>, wish: Wish, visit: Option<VisitTag>) -> Supply {
        let mut outdated = vec![];
        let mut stock = self.lock();
        let may_take = stock.count_lease(self.limits, visit);
        if may_take && wish == Wish::Any {
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
            && stock.waiter_count() < stock.opening * STREAMS_MAX;
        if may_take && !is_one_coming {
            if stock.open >= self.limits.connections && wish != Wish::Any {
                // An unused connection makes room for a new one.
                if let Some(idle) = stock.idle.pop() {
                    stock.open -= 1;
                    outdated.push(idle);
                }
            }
            if stock.open < self.limits.connections {
                stock.open += 1;
                stock.opening += 1;
                return Supply::AtOnce(Grant::Open);
            }
        }
        let (hand_over, receiver) = oneshot::channel();
        let waiter = Waiter { needs_http1: wish == Wish::NewHttp1, visit, hand_over };
        let is_queued = stock.queue(waiter, may_take);
        // Closed outside of the lock.
        drop(stock);
        drop(outdated);
        if is_queued { Supply::Queued(receiver) } else { Supply::QueueFull }
    }

    /// Waits for a connection. One that an idle client holds is taken away, also if the client becomes idle only now.
    async fn wait(
        self: &Arc<Self>,
        receiver: oneshot::Receiver<Grant>,
        visit: Option<VisitTag>,
    ) -> Result<Grant, ProxyError> {
        let mut queued = QueuedRequest { origin: self, receiver, visit };
        let waiting = Stopwatch::start();
        let mut evicted: Option<Stopwatch> = None;
        loop {
            let left = self.connection_wait.saturating_sub(waiting.elapsed());
            if left.is_zero() {
                return Err(self.busy());
            }
            // What was given up for this request may take a moment to come, and a second one would be given up for nothing.
            let is_one_coming = evicted.is_some_and(|evicted| evicted.elapsed() < EVICTION_PAUSE);
            let among = self.shortage(visit).filter(|_| !is_one_coming).map(|shortage| match shortage {
                Shortage::Connections => Among::All,
                Shortage::Share => Among::WithoutVisit,
                Shortage::Visit(visit) => Among::Visit(visit),
            });
            if among.is_some_and(|among| self.client_paced.evict_idlest(among)) {
                evicted = Some(Stopwatch::start());
            }
            match tokio::time::timeout(left.min(EVICTION_PERIOD), &mut queued.receiver).await {
                Ok(Ok(grant)) => return Ok(grant),
                Ok(Err(_)) => return Err(self.busy()),
                Err(_) => {}
            }
        }
    }

    /// What a request that waits is short of; `None` if a connection for it is being opened.
    fn shortage(&self, visit: Option<VisitTag>) -> Option<Shortage> {
        let stock = self.lock();
        match visit {
            None if stock.without_visit >= self.limits.without_visit(&stock) => return Some(Shortage::Share),
            Some(visit) if stock.visits.has_parked(visit) => return Some(Shortage::Visit(visit)),
            _ => {}
        }
        (stock.open >= self.limits.connections).then_some(Shortage::Connections)
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

    /// Whether another connection may be opened.
    pub(super) fn has_connections_left(&self) -> bool {
        self.connections() < self.limits.connections
    }

    /// How many requests wait for a connection.
    pub(super) fn waiting(&self) -> usize {
        self.lock().waiter_count()
    }

    /// An HTTP/2 connection has ended.
    pub(super) fn forget_shared(&self, number: u64) {
        let mut stock = self.lock();
        let before = stock.shared.len();
        stock.shared.retain(|shared| shared.number != number);
        stock.open -= before - stock.shared.len();
        stock.serve_waiters(self.limits);
    }

    fn busy(&self) -> ProxyError {
        ProxyError::Busy { origin: self.address.to_string() }
    }

    fn lock(&self) -> MutexGuard<'_, Stock> {
        // Nothing within panics half-way through a change, so a poisoned lock guards sound content.
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes back a grant that will not be used.
    fn take_back(&self, grant: Grant, visit: Option<VisitTag>) {
        let mut stock = self.lock();
        stock.give_back_lease(visit);
        match grant {
            Grant::Idle(http1) => stock.idle.push(IdleConnection { http1, since: Stopwatch::start() }),
            Grant::Stream(number, _) => stock.end_stream(number),
            Grant::Open => {
                stock.open -= 1;
                stock.opening -= 1;
            }
        }
        stock.serve_waiters(self.limits);
    }
}

/// A request that waits. A grant that arrives at the very moment of its cancellation goes back.
struct QueuedRequest<'a> {
    origin: &'a Arc<Origin>,
    receiver: oneshot::Receiver<Grant>,
    visit: Option<VisitTag>,
}

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        self.receiver.close();
        if let Ok(grant) = self.receiver.try_recv() {
            self.origin.take_back(grant, self.visit);
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

    fn waiter_count(&self) -> usize {
        self.waiters.len() + self.waiters_without_visit.len() + self.visits.parked()
    }

    /// Counts one more lease for a visit, or for those without one, unless they have their share.
    fn count_lease(&mut self, limits: StockLimits, visit: Option<VisitTag>) -> bool {
        if let Some(visit) = visit {
            return self.visits.take(visit, limits.per_visit(self));
        }
        let may_take = self.without_visit < limits.without_visit(self);
        self.without_visit += usize::from(may_take);
        may_take
    }

    /// One lease less. A request of the same visit that had to wait for it stands in the queue from now on.
    fn give_back_lease(&mut self, visit: Option<VisitTag>) {
        match visit {
            Some(visit) => {
                let next = self.visits.give_back(visit, |waiter| !waiter.hand_over.is_closed());
                self.waiters.extend(next);
            }
            None => self.without_visit -= 1,
        }
    }

    /// Has a request wait, `is_counted` if its lease is counted already; `false` if too many wait.
    fn queue(&mut self, waiter: Waiter, is_counted: bool) -> bool {
        let waiters = match waiter.visit {
            Some(visit) if !is_counted => {
                return self.visits.parked() < WAITERS_MAX && self.visits.park(visit, waiter);
            }
            Some(_) => &mut self.waiters,
            None => &mut self.waiters_without_visit,
        };
        let visit = waiter.visit;
        let has_room = waiters.len() < WAITERS_MAX;
        if has_room {
            waiters.push_back(waiter);
        }
        // A request of a visit keeps its part while it waits; one without a visit takes it when it goes on.
        if is_counted && !(has_room && visit.is_some()) {
            self.give_back_lease(visit);
        }
        has_room
    }

    /// Hands what there is to those who wait: those with a visit, then those without, the first first.
    fn serve_waiters(&mut self, limits: StockLimits) {
        while let Some((needs_http1, has_visit)) = self.next_waiter(limits) {
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
                    } else if self.open < limits.connections {
                        self.open += 1;
                        self.opening += 1;
                        Grant::Open
                    } else {
                        return;
                    }
                }
            };
            let waiters = if has_visit { &mut self.waiters } else { &mut self.waiters_without_visit };
            let Some(waiter) = waiters.pop_front() else { return };
            self.without_visit += usize::from(!has_visit);
            if let Err(grant) = waiter.hand_over.send(grant) {
                self.give_back_lease(waiter.visit);
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

    /// Who is next: whether it needs HTTP/1, and whether it has a visit.
    fn next_waiter(&mut self, limits: StockLimits) -> Option<(bool, bool)> {
        while let Some(cancelled) = self.waiters.pop_front_if(|waiter| waiter.hand_over.is_closed()) {
            self.give_back_lease(cancelled.visit);
        }
        if let Some(waiter) = self.waiters.front() {
            return Some((waiter.needs_http1, true));
        }
        while self.waiters_without_visit.pop_front_if(|waiter| waiter.hand_over.is_closed()).is_some() {}
        let may_take = self.without_visit < limits.without_visit(self);
        let waiter = self.waiters_without_visit.front().filter(|_| may_take)?;
        Some((waiter.needs_http1, false))
    }
}

impl StockLimits {
    /// How many leases requests without a visit hold at most. An HTTP/2 connection carries many.
    fn without_visit(self, stock: &Stock) -> usize {
        if stock.speaks_http2 { self.without_visit * STREAMS_MAX } else { self.without_visit }
    }

    /// How many those of one visit hold at most.
    fn per_visit(self, stock: &Stock) -> usize {
        if stock.speaks_http2 { self.per_visit * STREAMS_MAX } else { self.per_visit }
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
        if mem::take(&mut self.is_counted) {
            stock.give_back_lease(self.visit);
        }
        stock.serve_waiters(self.origin.limits);
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
                stock.serve_waiters(self.origin.limits);
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
        if self.is_counted {
            stock.give_back_lease(self.visit);
        }
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
        if stock.waiter_count() > 0 {
            stock.serve_waiters(origin.limits);
        }
        // Closed outside of the lock.
        drop(stock);
        drop(ended);
    }
}
