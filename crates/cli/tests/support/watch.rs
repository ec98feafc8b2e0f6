//! A client of `/watch` that sees every byte, for the tests of the live stream.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anteroom_testkit::{Server, now};
use serde_json::Value;

/// How long anything may take before a test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// One event, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// The lines without the empty one at the end.
    pub(crate) lines: Vec<String>,
}

impl Event {
    /// The value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}: ");
        self.lines.iter().find_map(|line| line.strip_prefix(&prefix))
    }

    /// Whether it only says that the stream lives, and says so to scripts of browsers too.
    pub(crate) fn is_keep_alive(&self) -> bool {
        self.field("event") == Some("alive") && self.field("data").is_some_and(|data| !data.is_empty())
    }

    /// The data of a board.
    #[track_caller]
    pub(crate) fn board(&self) -> Value {
        assert_eq!(self.field("event"), Some("board"), "{self:?}");
        let data = self.field("data").unwrap_or_else(|| panic!("no data: {self:?}"));
        serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"))
    }

    #[track_caller]
    pub(crate) fn id(&self) -> String {
        self.field("id").unwrap_or_else(|| panic!("no id: {self:?}")).to_owned()
    }
}

/// An open stream.
pub(crate) struct Watcher {
    reader: BufReader<TcpStream>,
    /// Status line and header, in small letters.
    pub(crate) head: String,
    /// The hint that came before everything else.
    pub(crate) retry: u64,
}

impl Watcher {
    /// Opens a stream and reads its head and its hint.
    #[track_caller]
    pub(crate) fn open(server: &Server, room: &str) -> Self {
        Self::open_with(server, &format!("/watch?room={room}"), "")
    }

    /// The same with a target and more header lines, each with its end.
    #[track_caller]
    pub(crate) fn open_with(server: &Server, target: &str, headers: &str) -> Self {
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        let mut watcher = Self::send(connect(server.public()), request.as_bytes());
        assert!(watcher.head.starts_with("http/1.1 200 ok\r\n"), "{}", watcher.head);
        watcher.read_retry();
        watcher
    }

    /// Sends a request as it is and reads the head of its answer.
    #[track_caller]
    pub(crate) fn send(mut stream: TcpStream, request: &[u8]) -> Self {
        stream.write_all(request).expect("the request can be sent");
        let mut watcher = Self { reader: BufReader::new(stream), head: String::new(), retry: 0 };
        watcher.read_head();
        watcher
    }

    #[track_caller]
    pub(crate) fn read_head(&mut self) {
        self.head.clear();
        while !self.head.ends_with("\r\n\r\n") {
            let read = self.reader.read_line(&mut self.head).expect("a head");
            assert_ne!(read, 0, "closed within the head: {:?}", self.head);
        }
        self.head.make_ascii_lowercase();
    }

    #[track_caller]
    pub(crate) fn read_retry(&mut self) {
        let hint = self.next_raw();
        let retry = hint.field("retry").unwrap_or_else(|| panic!("no retry hint but {hint:?}"));
        self.retry = retry.parse().expect("milliseconds");
    }

    /// The next event.
    #[track_caller]
    pub(crate) fn next_raw(&mut self) -> Event {
        self.try_next().unwrap_or_else(|| panic!("the stream has ended"))
    }

    /// The next event, or `None` at the end of the stream.
    #[track_caller]
    pub(crate) fn try_next(&mut self) -> Option<Event> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            match self.reader.read_line(&mut line) {
                Ok(0) => return None,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                read => read.unwrap_or_else(|error| panic!("nothing came in time: {error}; {lines:?}")),
            };
            if line == "\n" {
                return Some(Event { lines });
            }
            lines.push(line.trim_end_matches('\n').to_owned());
        }
    }

    /// The next board, keep-alives passed over.
    #[track_caller]
    pub(crate) fn next_board(&mut self) -> Event {
        loop {
            let event = self.next_raw();
            if !event.is_keep_alive() {
                event.board();
                return event;
            }
        }
    }

    /// The first board that shows what is looked for.
    #[track_caller]
    pub(crate) fn board_with(&mut self, field: &str, value: impl Into<Value>) -> Event {
        let value = value.into();
        let started = now();
        loop {
            let event = self.next_board();
            if event.board()[field] == value {
                return event;
            }
            assert!(started.elapsed() < DEADLINE, "{field} is never {value} but {event:?}");
        }
    }

    /// Reads to the end of the stream, which must come in time.
    #[track_caller]
    pub(crate) fn read_to_end(&mut self) -> String {
        let mut bytes = Vec::new();
        match self.reader.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("the stream does not end: {error}"),
        }
        String::from_utf8(bytes).expect("text")
    }

    /// The body of an answer that came before the stream.
    #[track_caller]
    pub(crate) fn read_exactly(&mut self, length: usize) -> String {
        let mut bytes = vec![0; length];
        self.reader.read_exact(&mut bytes).expect("a whole body");
        String::from_utf8(bytes).expect("text")
    }

    /// Sends something that nobody asked for.
    pub(crate) fn chatter(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }
}

/// A connection that gives up after the deadline.
#[track_caller]
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server accepts");
    stream.set_read_timeout(Some(DEADLINE)).expect("a time-out can be set");
    stream.set_write_timeout(Some(DEADLINE)).expect("a time-out can be set");
    stream.set_nodelay(true).expect("an option can be set");
    stream
}

/// How many streams of a kind are open.
pub(crate) fn streams(kind: &str) -> String {
    format!("anteroom_watch_connections{{kind=\"{kind}\"}}")
}
