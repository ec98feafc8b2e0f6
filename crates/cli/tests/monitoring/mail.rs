//! A server that takes mail and keeps it.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long one attempt to wake the accepting thread may take; then the next one is made.
const WAKE_TIMEOUT: Duration = Duration::from_millis(100);

/// The server, on a port of loopback. It ends when it is dropped.
pub(crate) struct MailServer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    letters: Vec<String>,
    connections: Vec<TcpStream>,
    is_closed: bool,
}

impl MailServer {
    #[track_caller]
    pub(crate) fn open() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port of loopback is free");
        let address = listener.local_addr().expect("a listener has an address");
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let accepting = thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let shared = Arc::clone(&shared);
                {
                    let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    if state.is_closed {
                        return;
                    }
                    state.connections.extend(stream.try_clone());
                }
                // An error is a client that has gone.
                thread::spawn(move || take(stream, &shared).ok());
            }
        });
        Self { address, state, accepting: Some(accepting) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was sent so far, each letter with its head.
    pub(crate) fn letters(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).letters.clone()
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let connections = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.is_closed = true;
            std::mem::take(&mut state.connections)
        };
        for connection in connections {
            let _closed = connection.shutdown(Shutdown::Both);
        }
        if let Some(accepting) = self.accepting.take() {
            // A thread that waits in `accept` sees the end only with the next connection.
            while !accepting.is_finished() {
                let _woken = TcpStream::connect_timeout(&self.address, WAKE_TIMEOUT);
                thread::yield_now();
            }
            let _ended = accepting.join();
        }
    }
}

/// One conversation: whoever it is, whatever they send is taken.
fn take(stream: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    stream.write_all(b"220 mail.example.com ready\r\n")?;
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let word = line.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        match word.as_str() {
            "EHLO" => stream.write_all(b"250-mail.example.com\r\n250 AUTH PLAIN\r\n")?,
            "AUTH" => stream.write_all(b"235 welcome\r\n")?,
            "DATA" => {
                stream.write_all(b"354 go on\r\n")?;
                let letter = letter(&mut reader)?;
                state.lock().unwrap_or_else(PoisonError::into_inner).letters.push(letter);
                stream.write_all(b"250 taken\r\n")?;
            }
            "QUIT" => return stream.write_all(b"221 bye\r\n"),
            _ => stream.write_all(b"250 fine\r\n")?,
        }
    }
}

/// Everything up to a line with a lone dot.
fn letter(reader: &mut impl BufRead) -> io::Result<String> {
    let mut letter = String::new();
    loop {
        let start = letter.len();
        if reader.read_line(&mut letter)? == 0 || letter[start..].trim_end() == "." {
            letter.truncate(start);
            return Ok(letter);
        }
    }
}
