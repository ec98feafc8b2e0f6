//! The way out of hyper: a handler takes its connection's socket, and hyper's connection with all its buffers is dropped.
//!
//! A stream that is held for hours needs none of the 12 KB that hyper keeps for the next request. So a request for one of
//! [`super::Limits::takeout_paths`] in clear HTTP/1.1 finds a [`Takeout`] among its extensions. [`Takeout::take`] asks for the
//! socket and never resolves; the connection's task sees the wish as soon as hyper has nothing more to do
//! ([`super::connection`]), drops hyper's connection, whose [`super::transport::Transport`] leaves the socket here, and hands it
//! on. Bytes that hyper has read ahead are lost with it: the new owner of a socket answers with `connection: close`.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Request;
use hyper::body::Incoming;
use hyper::service::Service;
use tokio::net::TcpStream;

use super::Slot;

/// A client's socket and its slot among the listener's connections, which is free again when this is dropped.
#[derive(Debug)]
pub struct Socket {
    /// The bare stream.
    pub stream: TcpStream,
    /// Counts as an open connection.
    pub slot: Slot,
}

type Receiver = Box<dyn FnOnce(Socket) + Send>;

/// One connection's way out.
#[derive(Clone, Default)]
pub struct Takeout(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Read after every look at hyper's connection, so it is no lock.
    wanted: AtomicBool,
    exchange: Mutex<Exchange>,
}

#[derive(Default)]
struct Exchange {
    receiver: Option<Receiver>,
    socket: Option<Socket>,
}

impl Takeout {
    /// Asks for the socket. The caller is dropped together with hyper's connection; then `receive` gets the socket, unless the
    /// client has not yet taken an earlier answer: then the connection is closed.
    pub async fn take(self, receive: impl FnOnce(Socket) + Send + 'static) -> Infallible {
        self.exchange().receiver = Some(Box::new(receive));
        self.0.wanted.store(true, Ordering::Relaxed);
        std::future::pending().await
    }

    /// Whether a handler asked for the socket.
    pub(super) fn is_wanted(&self) -> bool {
        self.0.wanted.load(Ordering::Relaxed)
    }

    /// Leaves the socket for the handler that asked for it.
    pub(super) fn leave(&self, socket: Socket) {
        self.exchange().socket = Some(socket);
    }

    /// Hands the socket to the handler that asked for it. Called when hyper's connection is gone.
    pub(super) fn hand_over(&self) {
        let exchange = std::mem::take(&mut *self.exchange());
        if let (Some(receive), Some(socket)) = (exchange.receiver, exchange.socket) {
            receive(socket);
        }
    }

    /// No invariant spans two statements, so a panic elsewhere leaves nothing half done.
    fn exchange(&self) -> MutexGuard<'_, Exchange> {
        self.0.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Takeout {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Takeout").field("wanted", &self.is_wanted()).finish_non_exhaustive()
    }
}

/// A listener's service that offers its connection's socket to the requests that may want it.
pub(super) struct Offering<S> {
    pub(super) inner: S,
    pub(super) paths: &'static [&'static str],
    pub(super) takeout: Option<Takeout>,
}

impl<S: Service<Request<Incoming>>> Service<Request<Incoming>> for Offering<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, mut request: Request<Incoming>) -> S::Future {
        if let Some(takeout) = &self.takeout
            && self.paths.contains(&request.uri().path())
        {
            request.extensions_mut().insert(takeout.clone());
        }
        self.inner.call(request)
    }
}
