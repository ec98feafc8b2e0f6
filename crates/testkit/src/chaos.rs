//! A TCP proxy that disturbs what goes through it: delays it, swallows it, resets it, or lets the request through and
//! loses the answer. It knows no protocol, so it stands before Redis as well as before HTTP.
//!
//! What arrives in one read is a *piece*; a piece from client to server is taken for a request. That is true of clients
//! that write a request at once, and where it is not, a fault only strikes a little earlier.
//!
//! A connection that has lost bytes never carries any again: it is reset when the mode is changed. So nobody
//! reads a stream with a hole in it, which no network could produce.

mod connection;
mod faults;
mod listener;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::ports::ReservedPort;
use crate::wait::wait_until;
use connection::{Connection, Shared};
use listener::Listener;

pub use connection::Counts;
pub use faults::{Direction, Fault, Mode, Odds};

/// How long connections may take to close.
const CLOSE_DEADLINE: Duration = Duration::from_secs(30);

/// A proxy on 127.0.0.1 before one port of 127.0.0.1. It ends, with all its connections, when it is dropped.
#[derive(Debug)]
pub struct ChaosProxy {
    listener: Mutex<Option<Listener>>,
    shared: Arc<Shared>,
    port: ReservedPort,
}

impl ChaosProxy {
    /// A proxy that passes everything on to this port.
    #[track_caller]
    pub fn before(port: u16) -> Self {
        let own = ReservedPort::take();
        let shared = Arc::new(Shared::new(on_loopback(port)));
        let listener = Listener::open(own.number(), Arc::clone(&shared));
        Self { listener: Mutex::new(Some(listener)), shared, port: own }
    }

    /// The number of its own port, which stays the same over every mode.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Its own address.
    pub fn address(&self) -> SocketAddr {
        on_loopback(self.port())
    }

    /// What it does from now on. When this returns, connections that the new mode does not tolerate are closed, and so
    /// are those that have lost something in the old one; what was held is delivered, and what was still to happen to
    /// the answer of an earlier request does not happen.
    #[track_caller]
    pub fn set(&self, mode: Mode) {
        let (refuses, ends_all) =
            (matches!(mode, Mode::Refuse), matches!(mode, Mode::Refuse | Mode::Always(Fault::Reset)));
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.set_mode(mode);
        if refuses {
            *listener = None;
        }
        self.reset_where(|connection| {
            connection.forget_plans();
            ends_all || connection.is_spoilt()
        });
        if !refuses && listener.is_none() {
            *listener = Some(Listener::open(self.port(), Arc::clone(&self.shared)));
        }
    }

    /// Resets every open connection, once; new ones are treated as the mode says.
    #[track_caller]
    pub fn reset_connections(&self) {
        self.reset_where(|_| true);
    }

    /// Sends connections made from now on to another port, as an address does that moves to another machine. Those that
    /// are open stay where they are.
    pub fn forward_to(&self, port: u16) {
        self.shared.state().upstream = on_loopback(port);
    }

    /// How much has gone through it and happened to it so far.
    pub fn counts(&self) -> Counts {
        self.shared.counts.read()
    }

    /// How many connections are open.
    pub fn open_connections(&self) -> usize {
        self.connections().iter().filter(|connection| connection.strong_count() > 0).count()
    }

    fn connections(&self) -> Vec<Weak<Connection>> {
        self.shared.state().connections.clone()
    }

    /// Resets the connections of which this is true, and waits until they are closed.
    #[track_caller]
    fn reset_where(&self, is_meant: impl Fn(&Connection) -> bool) {
        let mut meant = self.connections();
        meant.retain(|connection| {
            let Some(connection) = connection.upgrade().filter(|connection| is_meant(connection)) else {
                return false;
            };
            if connection.reset() {
                self.shared.counts.resets.fetch_add(1, Ordering::Relaxed);
            }
            true
        });
        // Their threads may be waiting for the end of a delay.
        self.shared.wake();
        wait_until("the proxy's connections are closed", CLOSE_DEADLINE, || {
            meant.iter().all(|connection| connection.strong_count() == 0)
        });
    }
}

impl Drop for ChaosProxy {
    fn drop(&mut self) {
        // As `set(Refuse)`, without its wait, which could panic while a failed test is already panicking.
        self.shared.set_mode(Mode::Refuse);
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = None;
        for connection in self.connections().iter().filter_map(Weak::upgrade) {
            connection.reset();
        }
        self.shared.wake();
    }
}

fn on_loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}
