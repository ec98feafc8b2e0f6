//! The load: keep-alive connections on one thread, each sending the next request when the last answer is complete.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request as bytes.
#[derive(Clone)]
pub(crate) struct Requests(Rc<[u8]>);

impl Requests {
    pub(crate) fn get(target: &str) -> Self {
        Self(format!("GET {target} HTTP/1.1\r\nhost: bench\r\n\r\n").into_bytes().into())
    }

    /// With a ticket.
    pub(crate) fn get_with(target: &str, ticket: &str) -> Self {
        let text = format!("GET {target} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {ticket}\r\n\r\n");
        Self(text.into_bytes().into())
    }

    /// With more header fields, each with its end.
    pub(crate) fn with_head(target: &str, head: &str) -> Self {
        Self(format!("GET {target} HTTP/1.1\r\nhost: bench\r\n{head}\r\n").into_bytes().into())
    }

    /// As a proxy passes on what this client asks.
    pub(crate) fn get_for(target: &str, client: &str) -> Self {
        let text = format!("GET {target} HTTP/1.1\r\nhost: bench\r\nx-forwarded-for: {client}\r\n\r\n");
        Self(text.into_bytes().into())
    }

    pub(crate) fn post(target: &str, body: &str) -> Self {
        let length = body.len();
        let text = format!(
            "POST {target} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        Self(text.into_bytes().into())
    }
}

/// One connection and what it has read.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(8192) })
    }

    /// Sends a request and reads its answer; returns status and where the body begins in the buffer.
    pub(crate) async fn call(&mut self, request: &Requests) -> Result<(u16, usize)> {
        self.stream.write_all(&request.0).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the server closed the connection");
            }
            let Some(head_end) = find(&self.buffer, b"\r\n\r\n") else { continue };
            let head = std::str::from_utf8(&self.buffer[..head_end])?;
            let length = content_length(head);
            if self.buffer.len() >= head_end + 4 + length {
                let status = head.get(9..12).unwrap_or_default().parse()?;
                return Ok((status, head_end + 4));
            }
        }
    }

    /// Head and body of the last answer.
    pub(crate) fn last(&self, body_at: usize) -> Result<(&str, &str)> {
        Ok((std::str::from_utf8(&self.buffer[..body_at])?, std::str::from_utf8(&self.buffer[body_at..])?))
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn content_length(head: &str) -> usize {
    let line =
        head.lines().find(|line| line.len() > 15 && line[..15].eq_ignore_ascii_case("content-length:"));
    line.and_then(|line| line[15..].trim().parse().ok()).unwrap_or(0)
}

pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, work)
}

/// Requests a second over `connections` connections, each taking the given requests in turn from a place of its own.
pub(crate) fn run_load(
    address: SocketAddr,
    requests: &[Requests],
    connections: usize,
    time: Duration,
) -> Result<f64> {
    block_on(async {
        let answered = Rc::new(Cell::new(0u64));
        let started = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..connections {
            let (requests, answered) = (requests.to_vec(), Rc::clone(&answered));
            tasks.spawn_local(async move {
                let mut connection = Connection::open(address).await?;
                let mut next = number * requests.len() / connections;
                while started.elapsed() < time {
                    next = (next + 1) % requests.len();
                    let (status, _) = connection.call(&requests[next]).await?;
                    if status != 200 {
                        bail!("status {status}");
                    }
                    answered.set(answered.get() + 1);
                }
                Ok(())
            });
        }
        while let Some(finished) = tasks.join_next().await {
            finished??;
        }
        Ok(answered.get() as f64 / started.elapsed().as_secs_f64())
    })
}

/// So many requests a second over `connections` connections, whatever answers take; how long each answer took, in milliseconds.
pub(crate) fn run_paced(
    address: SocketAddr,
    requests: &[Requests],
    connections: usize,
    rate: f64,
    time: Duration,
) -> Result<Vec<f64>> {
    block_on(async {
        let latencies = Rc::new(RefCell::new(vec![]));
        let between = Duration::from_secs_f64(connections as f64 / rate);
        let started = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..connections {
            let (requests, latencies) = (requests.to_vec(), Rc::clone(&latencies));
            tasks.spawn_local(async move {
                let mut connection = Connection::open(address).await?;
                let mut next = number * requests.len() / connections;
                // One after the other, and not all at the same moment.
                let mut due = started + between.mul_f64(number as f64 / connections as f64);
                while started.elapsed() < time {
                    tokio::time::sleep_until(due.into()).await;
                    due += between;
                    next = (next + 1) % requests.len();
                    let sent = Instant::now();
                    let (status, _) = connection.call(&requests[next]).await?;
                    if status != 200 {
                        bail!("status {status}");
                    }
                    latencies.borrow_mut().push(sent.elapsed().as_secs_f64() * 1_000.0);
                }
                Ok(())
            });
        }
        while let Some(finished) = tasks.join_next().await {
            finished??;
        }
        Ok(latencies.take())
    })
}

/// Sends each request once over `connections` connections; requests a second.
pub(crate) fn run_each(
    address: SocketAddr,
    connections: usize,
    requests: impl Iterator<Item = Requests> + 'static,
) -> Result<f64> {
    block_on(async {
        let requests = Rc::new(RefCell::new(requests));
        let answered = Rc::new(Cell::new(0u64));
        let started = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..connections {
            let (requests, answered) = (Rc::clone(&requests), Rc::clone(&answered));
            tasks.spawn_local(async move {
                let mut connection = Connection::open(address).await?;
                loop {
                    let Some(request) = requests.borrow_mut().next() else {
                        return Ok::<_, anyhow::Error>(());
                    };
                    let (status, _) = connection.call(&request).await?;
                    if status != 200 {
                        bail!("status {status}");
                    }
                    answered.set(answered.get() + 1);
                }
            });
        }
        while let Some(finished) = tasks.join_next().await {
            finished??;
        }
        Ok(answered.get() as f64 / started.elapsed().as_secs_f64())
    })
}
