//! As much of the Redis protocol (RESP2) as a test needs to look into a server, without a client library that would
//! reconnect, retry or hide anything.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

/// How long an answer may take: longer than the blocking commands that tests send, shorter than a test's timeout.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// The longest line of the protocol, which is an error message at most.
const LINE_MAX_BYTES: u64 = 64 * 1024;
/// The longest text a server may announce, as Redis limits it itself.
const BULK_MAX_BYTES: usize = 512 * 1024 * 1024;

/// What a Redis server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// `OK`, `PONG` and the like.
    Status(String),
    /// An error, with its code as the first word.
    Error(String),
    /// A number.
    Integer(i64),
    /// A value.
    Bulk(Vec<u8>),
    /// There is no such thing.
    Nil,
    /// Several answers.
    Array(Vec<Reply>),
}

impl Reply {
    /// The text of a status, a value or a number; anything else is a panic.
    #[track_caller]
    pub fn text(&self) -> String {
        match self {
            Self::Status(text) => text.clone(),
            Self::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Integer(number) => number.to_string(),
            other => panic!("Redis answered with {other:?} where a text was expected"),
        }
    }

    /// The number, also one that was sent as a text; anything else is a panic.
    #[track_caller]
    pub fn integer(&self) -> i64 {
        let text = self.text();
        text.parse().unwrap_or_else(|_| panic!("Redis answered with {text:?} where a number was expected"))
    }

    /// The elements of a list; anything else is a panic.
    #[track_caller]
    pub fn array(&self) -> &[Self] {
        match self {
            Self::Array(elements) => elements,
            other => panic!("Redis answered with {other:?} where a list was expected"),
        }
    }

    /// Whether it is an error whose code is this one, such as `NOREPLICAS`.
    pub fn is_error(&self, code: &str) -> bool {
        matches!(self, Self::Error(message) if message.split_whitespace().next() == Some(code))
    }

    /// Itself, unless it is an error: that is a panic.
    #[track_caller]
    pub fn no_error(&self) -> &Self {
        assert!(!matches!(self, Self::Error(_)), "Redis refused: {self:?}");
        self
    }
}

/// One connection, on which requests are answered in their order. `WAIT` and `SUBSCRIBE` belong to a connection, so tests
/// of these open one; for everything else there is [`RedisProcess::command`](crate::redis::RedisProcess::command).
#[derive(Debug)]
pub struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    /// Connects to a port of 127.0.0.1, of a server or of a proxy before one.
    pub fn open(port: u16) -> anyhow::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true).context("setting TCP_NODELAY")?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).context("setting the time-out")?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT)).context("setting the time-out")?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    /// Gives up on an answer after another time than the usual one.
    pub fn set_answer_timeout(&self, timeout: Duration) {
        self.reader.get_ref().set_read_timeout(Some(timeout)).expect("a time-out above zero can be set");
    }

    /// Sends a command and reads its answer. An error here means that there was no answer: whether the command was
    /// carried out is unknown.
    pub fn command<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> anyhow::Result<Reply> {
        self.send(arguments)?;
        self.receive()
    }

    /// Sends a command without waiting for its answer.
    pub fn send<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> anyhow::Result<()> {
        let mut request = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments.iter().map(AsRef::as_ref) {
            request.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            request.extend_from_slice(argument);
            request.extend_from_slice(b"\r\n");
        }
        self.reader.get_mut().write_all(&request).context("sending a command")
    }

    /// Reads the next answer, or the next message of a subscription.
    pub fn receive(&mut self) -> anyhow::Result<Reply> {
        let line = self.read_line()?;
        let (kind, rest) = line.split_at_checked(1).context("an empty line in place of an answer")?;
        Ok(match kind {
            "+" => Reply::Status(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Integer(rest.parse().with_context(|| format!("the number {rest:?}"))?),
            "$" => match announced(rest)? {
                Some(length) => Reply::Bulk(self.read_bulk(length)?),
                None => Reply::Nil,
            },
            "*" => match announced(rest)? {
                Some(length) => Reply::Array((0..length).map(|_| self.receive()).collect::<Result<_, _>>()?),
                None => Reply::Nil,
            },
            _ => bail!("this is no answer of Redis: {line:?}"),
        })
    }

    fn read_bulk(&mut self, length: usize) -> anyhow::Result<Vec<u8>> {
        ensure!(length <= BULK_MAX_BYTES, "a text of {length} bytes was announced");
        let mut bytes = vec![0; length];
        self.reader.read_exact(&mut bytes).context("reading a text")?;
        let end = self.read_line()?;
        ensure!(end.is_empty(), "a text goes on after its length: {end:?}");
        Ok(bytes)
    }

    fn read_line(&mut self) -> anyhow::Result<String> {
        let mut line = Vec::new();
        (&mut self.reader).take(LINE_MAX_BYTES).read_until(b'\n', &mut line).context("reading an answer")?;
        ensure!(line.ends_with(b"\r\n"), "closed in the middle of an answer: {line:?}");
        line.truncate(line.len() - 2);
        String::from_utf8(line).context("an answer that is not text")
    }
}

/// A length, or None for the "-1" that stands for nothing.
fn announced(text: &str) -> anyhow::Result<Option<usize>> {
    if text == "-1" {
        return Ok(None);
    }
    text.parse().map(Some).with_context(|| format!("the length {text:?}"))
}
