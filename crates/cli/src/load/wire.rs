//! The visitors' way to the server: a bounded number of kept-alive sockets, and a stopwatch on every question.
//!
//! A question's latency counts from the moment it was due, not from when a socket was free for it: a generator that falls
//! behind must not make the server look fast (coordinated omission). Only the resolution of timers is forgiven: a question sent
//! within [`TIMER_RESOLUTION`] of its due time is on time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::{Method, StatusCode};
use tokio::sync::Semaphore;

use crate::http_client::{ClientError, HttpClient, ReplyStream};

use super::ledger::{Ledger, Step};
use super::moment::{Moment, RunClock};

/// How exact a timer is: tokio's rings up to a millisecond after its time, and the task must then be given a thread.
const TIMER_RESOLUTION: Duration = Duration::from_millis(2);

/// One question to the server, ready to be asked as often as needed.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) step: Step,
    pub(super) method: Method,
    pub(super) path_and_query: Arc<str>,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
}

impl Call {
    /// A question without body.
    pub(super) fn get(step: Step, path_and_query: impl Into<Arc<str>>) -> Self {
        Self {
            step,
            method: Method::GET,
            path_and_query: path_and_query.into(),
            headers: HeaderMap::new(),
            body: None,
        }
    }

    /// A JSON value for the server.
    pub(super) fn post(step: Step, path: impl Into<Arc<str>>, json: &serde_json::Value) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self {
            step,
            method: Method::POST,
            path_and_query: path.into(),
            headers,
            body: Some(Bytes::from(json.to_string())),
        }
    }
}

/// A question with its answer.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) sent: Moment,
    pub(super) answered: Moment,
    pub(super) status: u16,
    /// What the server asks for, when it is busy.
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Bytes,
}

impl Exchange {
    /// Whether the server says that it has too much to do. It always says how long to wait, or it is no proper answer.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.status, 429 | 503) && self.retry_after.is_some()
    }

    /// The body as JSON; null when it is none.
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The visitors' sockets.
pub(super) struct Wire {
    client: HttpClient,
    sockets: Semaphore,
    clock: RunClock,
    ledger: Arc<Ledger>,
}

impl Wire {
    /// At most `connections` questions at a time.
    pub(super) fn new(client: HttpClient, connections: u64, clock: RunClock, ledger: Arc<Ledger>) -> Self {
        let permits =
            usize::try_from(connections).unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS);
        Self { client, sockets: Semaphore::new(permits), clock, ledger }
    }

    /// Asks once, at `due` or as soon as possible after it, and writes down how long the answer took.
    pub(super) async fn ask(&self, call: &Call, due: Moment) -> Result<Exchange, ClientError> {
        let due = self.wait_until(due).await;
        let _socket = self.sockets.acquire().await.expect("the semaphore is never closed");
        let sent = self.clock.now();
        let reply = self
            .client
            .request(call.method.clone(), &call.path_and_query, call.headers.clone(), call.body.clone())
            .await;
        let answered = self.clock.now();
        match reply {
            Ok(reply) => {
                let retry_after = retry_after(&reply.headers);
                let exchange =
                    Exchange { sent, answered, status: reply.status.as_u16(), retry_after, body: reply.body };
                if exchange.is_busy() {
                    self.ledger.record_busy(call.step);
                } else {
                    self.ledger.record_answer(call.step, answered.microseconds_since(due));
                }
                Ok(exchange)
            }
            Err(error) => {
                self.ledger.record_failure(call.step, &error);
                Err(error)
            }
        }
    }

    /// Waits, and says from when on the time counts.
    async fn wait_until(&self, due: Moment) -> Moment {
        self.clock.sleep_until(due).await;
        let now = self.clock.now();
        if now <= due.after(TIMER_RESOLUTION) { now } else { due }
    }

    /// Opens a live stream over a socket of its own.
    pub(super) async fn open(&self, call: &Call, due: Moment) -> Result<ReplyStream, ClientError> {
        let due = self.wait_until(due).await;
        let opened =
            self.client.stream(call.method.clone(), &call.path_and_query, call.headers.clone()).await;
        match &opened {
            Ok(stream) if stream.status == StatusCode::OK => {
                self.ledger.record_answer(call.step, self.clock.now().microseconds_since(due));
            }
            Ok(stream) if retry_after(&stream.headers).is_some() => self.ledger.record_busy(call.step),
            Ok(stream) => self.ledger.record_unexpected(call.step, stream.status.as_u16(), &[]),
            Err(error) => self.ledger.record_failure(call.step, error),
        }
        opened
    }
}

/// `Retry-After` in seconds; the other form, a date, is not used by the server.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}
