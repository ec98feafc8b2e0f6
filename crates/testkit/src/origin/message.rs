//! Requests as an origin receives them, and everything that is wrong with one.

use std::io;

use super::OriginConnection;

/// A request that an origin has received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// Over which connection.
    pub connection: usize,
    /// GET, POST and so on.
    pub method: String,
    /// What stands behind it.
    pub target: String,
    /// `HTTP/1.1`.
    pub version: String,
    /// Names as they were sent, and values, in order.
    pub headers: Vec<(String, String)>,
    /// The body with its transfer coding undone.
    pub body: Vec<u8>,
    /// What came after a chunked body.
    pub trailers: Vec<(String, String)>,
}

impl ReceivedRequest {
    /// The value of the first header field of that name, in any case of letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }

    /// The values of all header fields of that name.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    }

    /// Reads a head, its empty line included. Returns also what is wrong with it.
    pub(super) fn parse(connection: usize, head: &[u8]) -> (Self, Vec<String>) {
        let mut faults = vec![];
        let text = String::from_utf8_lossy(head).into_owned();
        let text = text.strip_suffix("\r\n\r\n").unwrap_or(&text);
        let mut lines = text.split("\r\n");
        let request_line = lines.next().unwrap_or_default();
        let words: Vec<&str> = request_line.split(' ').collect();
        let (method, target, version) = match words[..] {
            [method, target, version] if is_token(method) && !target.is_empty() && version == "HTTP/1.1" => {
                (method, target, version)
            }
            _ => {
                faults.push(format!("not a request line: {request_line:?}"));
                ("", "", "")
            }
        };
        if !target.starts_with('/') && (target, method) != ("*", "OPTIONS") {
            faults.push(format!("not a path: {target:?}"));
        }
        let mut headers = vec![];
        for line in lines {
            match line.split_once(':') {
                Some((name, value)) if is_token(name) => {
                    headers.push((name.to_owned(), value.trim().to_owned()));
                }
                _ => faults.push(format!("not a header field: {line:?}")),
            }
        }
        if text.replace("\r\n", "").contains(['\r', '\n', '\0']) {
            faults.push(format!("bare CR, LF or NUL in {text:?}"));
        }
        let request = Self {
            connection,
            method: method.to_owned(),
            target: target.to_owned(),
            version: version.to_owned(),
            headers,
            body: vec![],
            trailers: vec![],
        };
        faults.extend(request.ambiguities());
        (request, faults)
    }

    /// What two servers could read differently.
    fn ambiguities(&self) -> Vec<String> {
        let mut faults = vec![];
        let hosts = self.all("host");
        if hosts.len() != 1 || hosts[0].is_empty() || hosts[0].contains([' ', ',', '/', '@']) {
            faults.push(format!("hosts {hosts:?}"));
        }
        let (lengths, codings) = (self.all("content-length"), self.all("transfer-encoding"));
        if lengths.len() + codings.len() > 1 {
            faults.push(format!("lengths {lengths:?} and transfer codings {codings:?}"));
        }
        if lengths.iter().any(|length| length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()))
        {
            faults.push(format!("lengths {lengths:?}"));
        }
        if codings.iter().any(|coding| *coding != "chunked") {
            faults.push(format!("transfer codings {codings:?}"));
        }
        faults
    }

    /// Reads the body that the head announces.
    pub(super) fn read_body(&mut self, connection: &mut OriginConnection) -> io::Result<()> {
        if self.header("transfer-encoding").is_some() {
            return self.read_chunks(connection);
        }
        if let Some(length) = self.header("content-length").and_then(|length| length.parse().ok()) {
            self.body = connection.read_bytes(length)?;
        }
        Ok(())
    }

    fn read_chunks(&mut self, connection: &mut OriginConnection) -> io::Result<()> {
        loop {
            let line = connection.read_line()?;
            let size = usize::from_str_radix(&line, 16)
                .map_err(|_| io::Error::other(format!("not the size of a chunk: {line:?}")))?;
            if size == 0 {
                break;
            }
            self.body.extend(connection.read_bytes(size)?);
            if !connection.read_line()?.is_empty() {
                return Err(io::Error::other("a chunk is longer than it says"));
            }
        }
        loop {
            let line = connection.read_line()?;
            let Some((name, value)) = line.split_once(':') else { return Ok(()) };
            self.trailers.push((name.to_owned(), value.trim().to_owned()));
        }
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
