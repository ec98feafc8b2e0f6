//! What follows an upgrade: bytes of another protocol, both ways, until one side ends.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::pool::Lease;
use super::transport::Transport;
use super::wait_timeout::WaitTimeout;

/// How much is read at once in each direction.
const BUFFER_BYTES: usize = 16 * 1024;

/// An upgraded connection. It holds its connection to the origin, and counts as in flight, until it has run.
#[derive(Debug)]
pub struct Tunnel {
    client: OnUpgrade,
    origin: Transport,
    /// What the origin sent right behind its answer.
    first: Bytes,
    lease: Lease,
    idle_timeout: Duration,
}

/// How a tunnel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelEnd {
    /// One of the two sides closed it, or was gone.
    Closed,
    /// Nothing moved for too long.
    Idle,
    /// The server closes.
    Closing,
}

impl Tunnel {
    pub(super) fn new(
        client: OnUpgrade,
        origin: Transport,
        first: Bytes,
        lease: Lease,
        idle_timeout: Duration,
    ) -> Self {
        Self { client, origin, first, lease, idle_timeout }
    }

    /// Copies both ways until one side ends, or `until` does. The response must have been returned to the client's connection,
    /// which is what hands over its end.
    pub async fn run(self, until: impl Future<Output = ()>) -> TunnelEnd {
        let Self { client, origin, first, lease, idle_timeout } = self;
        let _lease = lease;
        let copying = async {
            let mut client = TokioIo::new(client.await.map_err(io::Error::other)?);
            client.write_all(&first).await?;
            let mut origin = IdleTimeout { inner: origin, timeout: WaitTimeout::new(idle_timeout) };
            tokio::io::copy_bidirectional_with_sizes(&mut client, &mut origin, BUFFER_BYTES, BUFFER_BYTES)
                .await
        };
        tokio::select! {
            biased;
            () = pin!(until) => TunnelEnd::Closing,
            copied = copying => match copied {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => TunnelEnd::Idle,
                _ => TunnelEnd::Closed,
            },
        }
    }
}

/// The origin's end, which fails with a time-out when nothing has moved over it for too long, in either direction.
struct IdleTimeout {
    inner: Transport,
    timeout: WaitTimeout,
}

impl IdleTimeout {
    fn note_progress(&mut self) {
        self.timeout.begin(Duration::ZERO);
    }
}

impl AsyncRead for IdleTimeout {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_read(context, buffer);
        if polled.is_ready() {
            this.note_progress();
            return polled;
        }
        this.timeout.poll_over(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for IdleTimeout {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_write(context, bytes);
        if polled.is_ready() {
            this.note_progress();
        }
        polled
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }
}
