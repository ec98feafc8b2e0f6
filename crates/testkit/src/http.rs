//! A small blocking HTTP/1.1 client. [`Client`] behaves; [`Wire`] is one bare connection for clients that do not.
//!
//! Nothing is retried: a test that kills servers must know of every request whether it was answered.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;
use std::{fmt, io};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use socket2::{Domain, Socket, Type};

use crate::wait::now;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer may take unless a test says otherwise.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest line of an answer's head, in bytes.
const HEAD_LINE_MAX_BYTES: u64 = 64 * 1024;

/// A response as received.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Names as they were sent, and values, in order.
    pub headers: Vec<(String, String)>,
    /// The body with its transfer coding undone.
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of the first header of that name, in any case of letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.as_str())
    }

    /// Whether the comma-separated header `name` has the element `element`, in any case of letters.
    pub fn header_lists(&self, name: &str, element: &str) -> bool {
        let values = self.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let mut elements = values.flat_map(|(_, value)| value.split(','));
        elements.any(|listed| listed.trim().eq_ignore_ascii_case(element))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("the body is not JSON ({error}): {self:?}"),
        }
    }

    /// The text of `{"error": text}`, or the detail of a problem; a panic when the body is anything else.
    #[track_caller]
    pub fn error(&self) -> String {
        let json = self.json();
        let field =
            if self.header("Content-Type") == Some("application/problem+json") { "detail" } else { "error" };
        match json.get(field).and_then(Value::as_str) {
            Some(text) if !text.is_empty() => text.to_owned(),
            _ => panic!("expected an error text: {self:?}"),
        }
    }
}

impl Answer {
    /// The name of the problem it reports; empty when it is none.
    pub fn problem(&self) -> String {
        let json: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let address = json.get("type").and_then(Value::as_str).unwrap_or_default();
        address.split_once('#').map_or_else(String::new, |(_, slug)| slug.to_owned())
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:?} {}", self.status, self.headers, self.text())
    }
}

/// A request to be sent by a [`Client`].
#[derive(Debug, Clone)]
pub struct Request {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Request {
    /// A request without body.
    pub fn new(method: &str, target: &str) -> Self {
        Self { method: method.to_owned(), target: target.to_owned(), headers: Vec::new(), body: None }
    }

    /// A POST of a JSON value.
    pub fn post_json(target: &str, body: &Value) -> Self {
        Self::new("POST", target).header("Content-Type", "application/json").body(body.to_string())
    }

    /// Adds a header. A `Host` takes the place of the address that the client asks.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Gives it a body, sent with its Content-Length.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    fn encode(&self, host: SocketAddr, bearer: Option<&str>) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        let mut add = |name: &str, value: &str| {
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        };
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("Host")) {
            add("Host", &host.to_string());
        }
        for (name, value) in &self.headers {
            add(name, value);
        }
        if let Some(key) = bearer {
            add("Authorization", &format!("Bearer {key}"));
        }
        if let Some(body) = &self.body {
            add("Content-Length", &body.len().to_string());
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }
}

/// A well-behaved client with one kept-alive connection, made when first needed.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    /// Where its connections come from, if the system does not choose.
    source: Option<IpAddr>,
    bearer: Option<String>,
    read_timeout: Duration,
    wire: Option<Wire>,
}

impl Client {
    /// A client of the server at `address`.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, source: None, bearer: None, read_timeout: READ_TIMEOUT, wire: None }
    }

    /// Connects from this address, such as another one of loopback.
    #[must_use]
    pub fn with_source(mut self, source: IpAddr) -> Self {
        self.source = Some(source);
        self
    }

    /// Sends `Authorization: Bearer key` with every request.
    #[must_use]
    pub fn with_bearer(mut self, key: &str) -> Self {
        self.bearer = Some(key.to_owned());
        self
    }

    /// How long an answer may take.
    #[must_use]
    pub fn with_read_timeout(mut self, read_timeout: Duration) -> Self {
        self.read_timeout = read_timeout;
        self
    }

    /// The same client with a connection of its own.
    #[must_use]
    pub fn another(&self) -> Self {
        Self {
            address: self.address,
            source: self.source,
            bearer: self.bearer.clone(),
            read_timeout: self.read_timeout,
            wire: None,
        }
    }

    /// The server's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// GET.
    pub fn get(&mut self, target: &str) -> anyhow::Result<Answer> {
        self.send(&Request::new("GET", target))
    }

    /// POST of a JSON value.
    pub fn post(&mut self, target: &str, body: &Value) -> anyhow::Result<Answer> {
        self.send(&Request::post_json(target, body))
    }

    /// Sends a request once and reads its answer. An error says that there was none, not that nothing happened.
    pub fn send(&mut self, request: &Request) -> anyhow::Result<Answer> {
        let mut wire = match self.wire.take().filter(Wire::is_quiet) {
            Some(kept) => kept,
            None => self.connect()?,
        };
        let what = || format!("{} {}", request.method, request.target);
        let written = wire.write(&request.encode(self.address, self.bearer.as_deref()));
        // A server may answer and close before it has read everything: what it says then is its answer.
        let was_cut = matches!(&written, Err(error) if error.kind() == ErrorKind::BrokenPipe);
        if !was_cut {
            written.with_context(what)?;
        }
        let (answer, reusable) = wire
            .read_message(request.method == "HEAD")
            .with_context(what)?
            .with_context(|| format!("{}: closed without an answer", what()))?;
        self.wire = (reusable && !was_cut).then_some(wire);
        Ok(answer)
    }

    /// Sends bytes as they are over a connection of their own. None: closed without an answer. An error: neither answered
    /// nor closed in time, or the answer is not HTTP.
    pub fn send_raw(&self, bytes: &[u8]) -> anyhow::Result<Option<Answer>> {
        let mut wire = self.connect()?;
        // The server may well have answered and closed before it has read everything.
        let _written = wire.write(bytes);
        wire.read_answer()
    }

    fn connect(&self) -> anyhow::Result<Wire> {
        match self.source {
            Some(source) => Wire::connect_from(source, self.address, self.read_timeout),
            None => Wire::connect(self.address, self.read_timeout),
        }
    }
}

/// One connection, byte by byte.
#[derive(Debug)]
pub struct Wire {
    reader: BufReader<TcpStream>,
}

impl Wire {
    /// Connects; every read gives up after `read_timeout`.
    pub fn connect(address: SocketAddr, read_timeout: Duration) -> anyhow::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
            .with_context(|| format!("connecting to {address}"))?;
        Self::over(stream, read_timeout)
    }

    /// The same from a given address of this machine.
    pub fn connect_from(source: IpAddr, address: SocketAddr, read_timeout: Duration) -> anyhow::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((source, 0)).into()).with_context(|| format!("binding {source}"))?;
        let connected = socket.connect_timeout(&address.into(), CONNECT_TIMEOUT);
        connected.with_context(|| format!("connecting to {address} from {source}"))?;
        Self::over(socket.into(), read_timeout)
    }

    fn over(stream: TcpStream, read_timeout: Duration) -> anyhow::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(read_timeout))?;
        stream.set_write_timeout(Some(read_timeout))?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    /// Writes bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// Says that nothing more will be written, while still reading.
    pub fn finish_writing(&mut self) -> io::Result<()> {
        self.reader.get_mut().shutdown(Shutdown::Write)
    }

    /// Reads one answer; an interim one (100 Continue) counts. None: closed before the first byte of it.
    pub fn read_answer(&mut self) -> anyhow::Result<Option<Answer>> {
        Ok(self.read_message(false)?.map(|(answer, _)| answer))
    }

    /// Reads and drops everything until the peer closes; false when it has not within `deadline`.
    pub fn closed_within(&mut self, deadline: Duration) -> bool {
        let started = now();
        let mut dropped = [0; 4096];
        loop {
            let Some(left) = deadline.checked_sub(started.elapsed()).filter(|left| !left.is_zero()) else {
                return false;
            };
            if self.reader.get_ref().set_read_timeout(Some(left)).is_err() {
                return true;
            }
            match self.reader.read(&mut dropped) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if is_timeout(&error) => return false,
                Err(_) => return true,
            }
        }
    }

    /// Whether the kept connection is still open and nothing unasked has arrived on it.
    fn is_quiet(&self) -> bool {
        let stream = self.reader.get_ref();
        let looked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
        let still_open = matches!(looked, Err(error) if error.kind() == ErrorKind::WouldBlock);
        still_open && self.reader.buffer().is_empty() && stream.set_nonblocking(false).is_ok()
    }

    /// The answer, and whether the connection can carry another request.
    fn read_message(&mut self, answers_head: bool) -> anyhow::Result<Option<(Answer, bool)>> {
        let Some(status_line) = self.read_line()? else {
            return Ok(None);
        };
        let mut words = status_line.splitn(3, ' ');
        let version = words.next().unwrap_or_default();
        ensure!(version.starts_with("HTTP/1."), "not an HTTP/1 answer: {status_line:?}");
        let status = words.next().and_then(|word| word.parse().ok());
        let status: u16 = status.with_context(|| format!("no status code in {status_line:?}"))?;
        let mut headers = Vec::new();
        loop {
            let line = self.read_line()?.context("closed in the middle of an answer's head")?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').with_context(|| format!("not a header: {line:?}"))?;
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let mut answer = Answer { status, headers, body: Vec::new() };
        let bodyless = answers_head || status < 200 || status == 204 || status == 304;
        let delimited = bodyless || self.read_body(&mut answer)?;
        let reusable = delimited && version == "HTTP/1.1" && !answer.header_lists("Connection", "close");
        Ok(Some((answer, reusable)))
    }

    /// Reads the body as the head announces it; false when it ended with the connection.
    fn read_body(&mut self, answer: &mut Answer) -> anyhow::Result<bool> {
        if answer.header_lists("Transfer-Encoding", "chunked") {
            answer.body = self.read_chunks()?;
            return Ok(true);
        }
        let Some(length) = answer.header("Content-Length") else {
            self.reader.read_to_end(&mut answer.body).context("a body that ends with the connection")?;
            return Ok(false);
        };
        let length: usize = length.parse().with_context(|| format!("Content-Length {length:?}"))?;
        answer.body = vec![0; length];
        self.reader.read_exact(&mut answer.body).context("the body is shorter than its Content-Length")?;
        Ok(true)
    }

    fn read_chunks(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.read_line()?.context("closed before a chunk")?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).with_context(|| format!("chunk size {line:?}"))?;
            let start = body.len();
            body.resize(start + size, 0);
            self.reader.read_exact(&mut body[start..]).context("closed within a chunk")?;
            let end = self.read_line()?.context("closed after a chunk")?;
            ensure!(end.is_empty(), "a chunk or the trailer ends with {end:?}");
            if size == 0 {
                return Ok(body);
            }
        }
    }

    /// A line without its end; None when the peer closed before the first byte of it.
    fn read_line(&mut self) -> anyhow::Result<Option<String>> {
        let mut line = Vec::new();
        match (&mut self.reader).take(HEAD_LINE_MAX_BYTES).read_until(b'\n', &mut line) {
            Ok(_) => {}
            Err(error) if is_timeout(&error) => bail!("neither answered nor closed in time"),
            Err(_) if line.is_empty() => return Ok(None),
            Err(error) => return Err(error).context("closed in the middle of a line"),
        }
        if line.is_empty() {
            return Ok(None);
        }
        ensure!(line.ends_with(b"\n"), "an unfinished line: {:?}", String::from_utf8_lossy(&line));
        let line = String::from_utf8(line).context("a head that is not text")?;
        Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()))
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests;
