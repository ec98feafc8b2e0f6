//! An origin that a test writes the part for: bare TCP, so that it can misbehave, and every byte that reaches it is kept.
//!
//! What it reads it reads as strictly as the grammar allows. Where two servers could read a message differently, it is a
//! fault, and [`Origin::faults`] has it: a proxy that lets one through has failed.

mod message;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::SockRef;

pub use message::ReceivedRequest;

/// How long it waits for bytes before it gives up.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How much it reads at once.
const READ_BYTES: usize = 64 * 1024;

/// An origin. It ends when it is dropped; connections that are still open end with their peers.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    open: AtomicUsize,
    open_most: AtomicUsize,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    /// What each connection received, in the order they were accepted.
    bytes: Vec<Vec<u8>>,
    requests: Vec<ReceivedRequest>,
    faults: Vec<String>,
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Origin {
    /// An origin whose connections each play `part`. An error of the part ends its connection, and nothing else.
    pub fn playing<P>(part: P) -> Self
    where
        P: Fn(&mut OriginConnection) -> io::Result<()> + Send + Sync + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port for an origin");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared::default());
        let accepting = thread::spawn({
            let shared = Arc::clone(&shared);
            let part = Arc::new(part);
            move || accept(&listener, &shared, &part)
        });
        Self { address, shared, accepting: Some(accepting) }
    }

    /// An origin that answers every request with these bytes.
    pub fn answering(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::playing(move |connection| {
            while connection.read_request()?.is_some() {
                connection.write(&bytes)?;
            }
            Ok(())
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many connections it has accepted.
    pub fn connections(&self) -> usize {
        self.shared.log().bytes.len()
    }

    /// How many are open now.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// How many were open at once at most.
    pub fn open_most(&self) -> usize {
        self.shared.open_most.load(Ordering::SeqCst)
    }

    /// The requests it has read, in the order they were complete.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.shared.log().requests.clone()
    }

    /// Everything that a connection has received, byte by byte.
    pub fn bytes_of(&self, connection: usize) -> Vec<u8> {
        self.shared.log().bytes.get(connection).cloned().unwrap_or_default()
    }

    /// What it has received that could be read in more than one way.
    pub fn faults(&self) -> Vec<String> {
        self.shared.log().faults.clone()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes the accept.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn accept<P>(listener: &TcpListener, shared: &Arc<Shared>, part: &Arc<P>)
where
    P: Fn(&mut OriginConnection) -> io::Result<()> + Send + Sync + 'static,
{
    for stream in listener.incoming() {
        if shared.is_over.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let (shared, part) = (Arc::clone(shared), Arc::clone(part));
        let number = {
            let mut log = shared.log();
            log.bytes.push(vec![]);
            log.bytes.len() - 1
        };
        thread::spawn(move || {
            let open = shared.open.fetch_add(1, Ordering::SeqCst) + 1;
            shared.open_most.fetch_max(open, Ordering::SeqCst);
            if let Ok(mut connection) = OriginConnection::new(number, stream, Arc::clone(&shared)) {
                // A part that fails has lost its peer; the test checks the result.
                let _ = part(&mut connection);
            }
            shared.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

/// One connection of an origin.
#[derive(Debug)]
pub struct OriginConnection {
    /// Which one it is, counted from 0.
    pub number: usize,
    stream: TcpStream,
    /// What was read and not yet used.
    unread: Vec<u8>,
    shared: Arc<Shared>,
    keeps_bytes: bool,
}

impl OriginConnection {
    fn new(number: usize, stream: TcpStream, shared: Arc<Shared>) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_write_timeout(Some(READ_TIMEOUT))?;
        Ok(Self { number, stream, unread: vec![], shared, keeps_bytes: true })
    }

    /// Reads a whole request. `None`: closed before its first byte.
    pub fn read_request(&mut self) -> io::Result<Option<ReceivedRequest>> {
        let Some(mut request) = self.read_head()? else { return Ok(None) };
        request.read_body(self)?;
        self.shared.log().requests.push(request.clone());
        Ok(Some(request))
    }

    /// Reads the head of a request, which is not yet counted as one.
    pub fn read_head(&mut self) -> io::Result<Option<ReceivedRequest>> {
        let end = loop {
            if let Some(end) = find(&self.unread, b"\r\n\r\n") {
                break end + 4;
            }
            if self.fill()? == 0 {
                if self.unread.is_empty() {
                    return Ok(None);
                }
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let head: Vec<u8> = self.unread.drain(..end).collect();
        let (request, faults) = ReceivedRequest::parse(self.number, &head);
        self.shared.log().faults.extend(faults);
        Ok(Some(request))
    }

    /// Reads exactly as many bytes.
    pub fn read_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.unread.len() < count {
            if self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.unread.drain(..count).collect())
    }

    /// Reads a line that ends as it should, and returns it without its end.
    pub fn read_line(&mut self) -> io::Result<String> {
        let end = loop {
            if let Some(end) = find(&self.unread, b"\r\n") {
                break end;
            }
            if self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let line: Vec<u8> = self.unread.drain(..end + 2).take(end).collect();
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// Reads what comes next, whatever it is; empty at the end.
    pub fn read_some(&mut self) -> io::Result<Vec<u8>> {
        if self.unread.is_empty() {
            self.fill()?;
        }
        Ok(std::mem::take(&mut self.unread))
    }

    /// From now on what it receives is not kept: for streams that would not fit into memory.
    pub fn keep_nothing(&mut self) {
        self.keeps_bytes = false;
    }

    /// Writes bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Writes bytes one at a time.
    pub fn write_slowly(&mut self, bytes: &[u8]) -> io::Result<()> {
        for byte in bytes {
            self.stream.write_all(&[*byte])?;
            thread::yield_now();
        }
        Ok(())
    }

    /// Says that nothing more will be written.
    pub fn finish_writing(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    /// Ends the connection with a reset, as soon as the part is over: its result is what the part returns.
    pub fn reset(&mut self) -> io::Result<()> {
        SockRef::from(&self.stream).set_linger(Some(Duration::ZERO))?;
        Err(io::ErrorKind::ConnectionReset.into())
    }

    fn fill(&mut self) -> io::Result<usize> {
        let start = self.unread.len();
        self.unread.resize(start + READ_BYTES, 0);
        let read = self.stream.read(&mut self.unread[start..]);
        self.unread.truncate(start + *read.as_ref().unwrap_or(&0));
        if self.keeps_bytes {
            self.shared.log().bytes[self.number].extend_from_slice(&self.unread[start..]);
        }
        read
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests;
