//! HTTP/1.1 as far as an honest site behind a gateway needs it.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::TcpStream;

use super::{Reply, SERVED_BY, SeenRequest};

/// The answer that opens an echo. The last field answers to the key that RFC 6455 has as its example, `dGhlIHNhbXBsZSBub25jZQ==`.
pub(super) const SWITCHING: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
      Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
/// The longest line of a head, in bytes.
const LINE_MAX_BYTES: u64 = 64 * 1024;

/// Reads a request; `None` when the connection has ended before one.
pub(super) fn read(reader: &mut BufReader<TcpStream>) -> io::Result<Option<SeenRequest>> {
    let Some(line) = read_line(reader)? else { return Ok(None) };
    let mut words = line.splitn(3, ' ').map(str::to_owned);
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(bad(&line));
    };
    let mut headers = vec![];
    loop {
        let line = read_line(reader)?.ok_or(ErrorKind::UnexpectedEof)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| bad(&line))?;
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut seen = SeenRequest { method, target, headers, body: vec![] };
    let is_chunked =
        seen.header("Transfer-Encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"));
    if is_chunked {
        seen.body = read_chunks(reader)?;
    } else if let Some(length) = seen.header("Content-Length") {
        let length = length.parse().map_err(|_| bad(length))?;
        seen.body = vec![0; length];
        reader.read_exact(&mut seen.body)?;
    }
    Ok(Some(seen))
}

/// A body up to this size goes out in one piece with its head.
const COPIED_MAX_BYTES: usize = 16 * 1024;

/// Sends an answer. Its body is not copied: hundreds of large ones may be in flight at once.
pub(super) fn send(to: &mut impl Write, reply: &Reply, is_head: bool) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Site\r\n{}: {}\r\n", reply.status, SERVED_BY.0, SERVED_BY.1);
    for (name, value) in &reply.headers {
        // Writing into a text does not fail.
        let _written = write!(head, "{name}: {value}\r\n");
    }
    let is_bodyless = reply.status == 204 || reply.status == 304;
    if !is_bodyless {
        let _written = write!(head, "Content-Length: {}\r\n", reply.body.len());
    }
    head.push_str("\r\n");
    let body = if is_bodyless || is_head { &[][..] } else { &reply.body };
    if body.len() > COPIED_MAX_BYTES {
        to.write_all(head.as_bytes())?;
        return to.write_all(body);
    }
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    to.write_all(&bytes)
}

fn read_chunks(reader: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
    let mut body = vec![];
    loop {
        let line = read_line(reader)?.ok_or(ErrorKind::UnexpectedEof)?;
        let size = usize::from_str_radix(line.trim(), 16).map_err(|_| bad(&line))?;
        let start = body.len();
        body.resize(start + size, 0);
        reader.read_exact(&mut body[start..])?;
        // The end of the chunk, or of the trailers, which are passed over.
        while read_line(reader)?.is_some_and(|line| size == 0 && !line.is_empty()) {}
        if size == 0 {
            return Ok(body);
        }
    }
}

/// A line without its end; `None` when there is none any more.
fn read_line(reader: &mut BufReader<TcpStream>) -> io::Result<Option<String>> {
    let mut line = String::new();
    reader.take(LINE_MAX_BYTES).read_line(&mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()))
}

fn bad(text: &str) -> Error {
    Error::new(ErrorKind::InvalidData, text.to_owned())
}
