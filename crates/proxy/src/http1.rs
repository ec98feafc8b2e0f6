//! One HTTP/1 connection to an origin, driven by the request that waits for its response.

use std::fmt;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use hyper_util::rt::TokioIo;

use super::outgoing::Outgoing;
use super::transport::{ReceivedFlag, Transport};
use super::wait_timeout::WaitTimeout;

type Connection = http1::Connection<TokioIo<Transport>, Outgoing>;

/// One HTTP/1 connection to an origin.
pub(super) struct Http1 {
    sender: http1::SendRequest<Outgoing>,
    /// `None` once it has ended and was let go of.
    connection: Option<Connection>,
    is_ended: bool,
    is_retired: bool,
    pub(super) timeout: WaitTimeout,
    pub(super) received: ReceivedFlag,
}

impl fmt::Debug for Http1 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Http1").field("is_ready", &self.is_ready()).finish_non_exhaustive()
    }
}

impl Http1 {
    /// Begins to speak HTTP/1 over a transport. `shortest_wait` is the shortest time-out there will be.
    pub(super) async fn begin(transport: Transport, shortest_wait: Duration) -> hyper::Result<Box<Self>> {
        let received = transport.received_flag();
        let (sender, connection) = http1::handshake(TokioIo::new(transport)).await?;
        Ok(Box::new(Self {
            sender,
            connection: Some(connection),
            is_ended: false,
            is_retired: false,
            timeout: WaitTimeout::new(shortest_wait),
            received,
        }))
    }

    /// Whether both messages of the last exchange are over and the next may begin.
    pub(super) fn is_ready(&self) -> bool {
        !self.is_ended && !self.is_retired && self.sender.is_ready()
    }

    /// This exchange is its last. hyper would speak HTTP/1.0 to an origin that did so once, and leave out bodies of unknown
    /// length.
    pub(super) fn retire(&mut self) {
        self.is_retired = true;
    }

    /// Sends a request. The returned future has the answer, but it is [`Http1::drive`] that brings it.
    pub(super) fn send(
        &mut self,
        request: Request<Outgoing>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Outgoing>>>> + use<> {
        self.received.reset();
        self.sender.try_send_request(request)
    }

    /// Reads and writes what can be read and written.
    pub(super) fn drive(&mut self, context: &mut Context<'_>) {
        if !self.is_ended
            && let Some(connection) = &mut self.connection
        {
            // Its error, if there is one, goes to the waiter for the response or the body.
            self.is_ended = connection.poll_without_shutdown(context).is_ready();
        }
    }

    /// Drives until `outcome` has a result: asks it again as long as that may help.
    pub(super) fn drive_for<T>(
        &mut self,
        context: &mut Context<'_>,
        mut outcome: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.drive(context);
        let polled = outcome(context);
        if polled.is_pending() && self.is_ended && self.connection.take().is_some() {
            // A request that was not begun comes back when the connection is dropped, and a body then breaks off.
            return outcome(context);
        }
        polled
    }

    /// Ready when the exchange is over, in both directions.
    pub(super) fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.drive(context);
        if self.is_ended { Poll::Ready(()) } else { self.sender.poll_ready(context).map(|_| ()) }
    }

    /// After an upgrade: the transport, and what the origin has already sent over it.
    pub(super) fn poll_take(&mut self, context: &mut Context<'_>) -> Poll<Option<(Transport, Bytes)>> {
        self.drive(context);
        if !self.is_ended {
            return Poll::Pending;
        }
        let parts = self.connection.take().map(Connection::into_parts);
        Poll::Ready(parts.map(|parts| (parts.io.into_inner(), parts.read_buf)))
    }
}
