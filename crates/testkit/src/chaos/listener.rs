//! Where clients connect: a thread that accepts, until the port is to be closed.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::connection::{self, Shared};
use crate::wait::pause;

/// How long one attempt to wake the accepting thread may take; then the next one is made.
const WAKE_TIMEOUT: Duration = Duration::from_millis(100);

/// An open port. It is closed when this is dropped.
#[derive(Debug)]
pub(super) struct Listener {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    #[track_caller]
    pub(super) fn open(port: u16, shared: Arc<Shared>) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = TcpListener::bind(address)
            .unwrap_or_else(|error| panic!("the proxy cannot listen on {address}: {error}"));
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let thread = thread::spawn(move || accept(&listener, &ends, &shared));
        Self { address, is_over, thread: Some(thread) }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let Some(thread) = self.thread.take() else {
            return;
        };
        // A thread that waits in `accept` sees the flag only with the next connection.
        while !thread.is_finished() {
            let _woken = TcpStream::connect_timeout(&self.address, WAKE_TIMEOUT);
            thread::yield_now();
        }
        let _ended = thread.join();
    }
}

fn accept(listener: &TcpListener, is_over: &AtomicBool, shared: &Arc<Shared>) {
    loop {
        let accepted = listener.accept();
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        match accepted {
            Ok((client, _)) => {
                let number = shared.counts.connections.fetch_add(1, Ordering::Relaxed) + 1;
                let shared = Arc::clone(shared);
                // The server may take its time to accept; the next client does not wait for that.
                thread::spawn(move || connection::serve(&shared, client, number));
            }
            // The limit on open files is reached, or the client has gone again.
            Err(_) => pause(),
        }
    }
}
