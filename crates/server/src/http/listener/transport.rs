//! A client's socket as hyper sees it: holds the connection's slot, gives up on a client that takes nothing, and on the end of
//! hyper's connection leaves the socket to a handler that asked for it ([`super::takeout`]).

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::Slot;
use super::takeout::{Socket, Takeout};

/// One client's socket.
#[derive(Debug)]
pub struct Transport {
    /// There until this is dropped.
    socket: Option<Socket>,
    /// Runs only while the client takes nothing. hyper has no time-out for writing, so without this a client that sends
    /// requests and never reads would hold its slot for ever.
    stall: Option<Pin<Box<Sleep>>>,
    write_stall_timeout: Duration,
    takeout: Option<Takeout>,
}

impl Transport {
    /// Wraps a socket that was given a slot.
    pub fn new(stream: TcpStream, slot: Slot, write_stall_timeout: Duration) -> Self {
        Self { socket: Some(Socket { stream, slot }), stall: None, write_stall_timeout, takeout: None }
    }

    /// Gives the socket a way out.
    pub(super) fn set_takeout(&mut self, takeout: Option<Takeout>) {
        self.takeout = takeout;
    }

    fn stream(&mut self) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.socket.as_mut().expect("the socket is there until the drop").stream)
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

impl Drop for Transport {
    fn drop(&mut self) {
        // A write that stands still means that hyper had more to send: without it the stream would begin in the middle.
        let (Some(takeout), Some(socket), None) = (&self.takeout, self.socket.take(), &self.stall) else {
            return;
        };
        if takeout.is_wanted() {
            takeout.leave(socket);
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.get_mut().stream().poll_read(context, buffer)
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = this.stream().poll_write(context, bytes);
        this.bounded(context, result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = this.stream().poll_write_vectored(context, slices);
        this.bounded(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.as_ref().is_some_and(|socket| socket.stream.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream().poll_shutdown(context)
    }
}
