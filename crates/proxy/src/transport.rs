//! The bytes of one connection to an origin, in clear text or over TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Whether any byte has been received since the last reset: what decides whether a request may be sent again.
#[derive(Debug, Clone, Default)]
pub(super) struct ReceivedFlag(Arc<AtomicBool>);

impl ReceivedFlag {
    /// From now on nothing has been received.
    pub(super) fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether something has been received.
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection to an origin.
#[derive(Debug)]
pub(super) struct Transport {
    socket: Socket,
    received: ReceivedFlag,
}

#[derive(Debug)]
enum Socket {
    Clear(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    pub(super) fn clear(stream: TcpStream) -> Self {
        Self { socket: Socket::Clear(stream), received: ReceivedFlag::default() }
    }

    pub(super) fn tls(stream: TlsStream<TcpStream>) -> Self {
        Self { socket: Socket::Tls(Box::new(stream)), received: ReceivedFlag::default() }
    }

    /// Whether both sides agreed on HTTP/2 by ALPN.
    pub(super) fn agreed_on_http2(&self) -> bool {
        match &self.socket {
            Socket::Clear(_) => false,
            Socket::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }

    pub(super) fn received_flag(&self) -> ReceivedFlag {
        self.received.clone()
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = match &mut this.socket {
            Socket::Clear(stream) => Pin::new(stream).poll_read(context, buffer),
            Socket::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, buffer),
        };
        if buffer.filled().len() > before {
            this.received.0.store(true, Ordering::Relaxed);
        }
        read
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().socket {
            Socket::Clear(stream) => Pin::new(stream).poll_write(context, bytes),
            Socket::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().socket {
            Socket::Clear(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Socket::Tls(stream) => Pin::new(stream.as_mut()).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.socket {
            Socket::Clear(stream) => stream.is_write_vectored(),
            Socket::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            Socket::Clear(stream) => Pin::new(stream).poll_flush(context),
            Socket::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            Socket::Clear(stream) => Pin::new(stream).poll_shutdown(context),
            Socket::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
        }
    }
}
