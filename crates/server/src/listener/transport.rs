//! A client's socket as hyper sees it: holds the connection's slot, and gives up on a client that takes nothing.
//!
//! This is the seam for taking sockets out of hyper. A later issue moves `/watch` streams of clear HTTP/1.1 to tasks of
//! their own once the request is parsed, to save hyper's buffers: the stream then sits behind a shared handle here, and
//! [`super::connection::serve_clear_text`] takes it and drops hyper's connection. The slot travels along in either case.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::Slot;

/// One client's socket.
#[derive(Debug)]
pub struct Transport {
    stream: TcpStream,
    /// Runs only while the client takes nothing. hyper has no time-out for writing, so without this a client that sends
    /// requests and never reads would hold its slot for ever.
    stall: Option<Pin<Box<Sleep>>>,
    write_stall_timeout: Duration,
    /// Freed with the socket, wherever the socket ends up: in hyper, in an upgrade, or taken out.
    _slot: Slot,
}

impl Transport {
    /// Wraps a socket that was given a slot.
    pub fn new(stream: TcpStream, slot: Slot, write_stall_timeout: Duration) -> Self {
        Self { stream, stall: None, write_stall_timeout, _slot: slot }
    }

    /// Passes a write's result on, unless the client has taken nothing for too long.
    fn bounded<T>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.stall = None;
            return result;
        }
        let timeout = self.write_stall_timeout;
        let stall = self.stall.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        match stall.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Poll::Ready(Err(ErrorKind::TimedOut.into())),
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.bounded(context, result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.bounded(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
