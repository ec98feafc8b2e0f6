//! What an operator decides about the connection to the origins.

use std::time::Duration;

use http::uri::PathAndQuery;
use rustls::RootCertStore;

/// How a group of origins is spoken to.
#[derive(Debug, Clone)]
pub struct ProxySettings {
    /// How long a connection may take to come about, name look-up and TLS included.
    pub connect_timeout: Duration,
    /// How long an origin may think: from the last byte of the request to the head of the response.
    pub response_timeout: Duration,
    /// How long a body may stand still, in either direction, on either side.
    pub stall_timeout: Duration,
    /// How long a connection is kept without use. It should be shorter than what the origin keeps its own, or requests meet
    /// connections that are just being closed.
    pub idle_timeout: Duration,
    /// How long an upgraded connection may be silent in both directions.
    pub tunnel_idle_timeout: Duration,
    /// How many connections one origin gets at most.
    pub connections_max: usize,
    /// How much of them, and of `uploads_max`, requests without a visit hold at most, in percent.
    pub without_visit_percent: usize,
    /// How many of the connections the requests of one visit hold at most.
    pub connections_per_visit_max: usize,
    /// How long a request waits for one of them to become free.
    pub connection_wait: Duration,
    /// How many bodies may be under way from clients at once.
    pub uploads_max: usize,
    /// How many of one client.
    pub uploads_per_client_max: usize,
    /// The least that a client must send of its body, in bytes a second.
    pub upload_rate_min: u64,
    /// How long a client may take for its whole body.
    pub upload_timeout: Duration,
    /// Whether origins are spoken to in HTTP/2.
    pub http2: Http2ToOrigin,
    /// What origins learn about the client.
    pub forwarded: ForwardedPolicy,
    /// How origins are asked for their health; `None` takes all of them for healthy.
    pub health: Option<HealthCheck>,
    /// Whether origins see the host name that the client asked for, or their own.
    pub preserve_host: bool,
    /// Whose certificates origins with https may show.
    pub trust: OriginTrust,
}

impl Default for ProxySettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            response_timeout: Duration::from_mins(1),
            stall_timeout: Duration::from_mins(1),
            // Node and Apache close after five seconds by default.
            idle_timeout: Duration::from_secs(4),
            tunnel_idle_timeout: Duration::from_mins(10),
            connections_max: 256,
            without_visit_percent: 50,
            connections_per_visit_max: 32,
            connection_wait: Duration::from_secs(5),
            uploads_max: 1024,
            uploads_per_client_max: 32,
            upload_rate_min: 1024,
            upload_timeout: Duration::from_hours(1),
            http2: Http2ToOrigin::Never,
            forwarded: ForwardedPolicy::Replace,
            health: None,
            preserve_host: true,
            trust: OriginTrust::System,
        }
    }
}

impl ProxySettings {
    /// How many of so many requests without a visit may hold; one at least.
    pub(super) fn share_without_visit(&self, of: usize) -> usize {
        (of.saturating_mul(self.without_visit_percent) / 100).max(1)
    }
}

/// Whether origins are spoken to in HTTP/2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Http2ToOrigin {
    /// Always HTTP/1.1.
    Never,
    /// HTTP/2 where TLS is spoken and the origin chooses it, else HTTP/1.1.
    Auto,
    /// HTTP/2, in clear text too. Nothing can be upgraded then, so no `WebSocket` passes.
    Always,
}

/// What becomes of `Forwarded` and `X-Forwarded-*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardedPolicy {
    /// What the client says of itself is dropped; origins read what we have seen.
    Replace,
    /// The fields of the request are kept, and ours are added: for a trusted proxy before us.
    Append,
    /// Origins get no such field.
    Remove,
}

/// How origins are asked for their health.
#[derive(Debug, Clone)]
pub struct HealthCheck {
    /// What is asked for; a status from 200 to 399 is a healthy answer.
    pub path: PathAndQuery,
    /// How long from one question to the next.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// After how many bad answers in a row an origin gets no more requests.
    pub failures: u32,
    /// After how many good ones it gets them again.
    pub successes: u32,
}

impl HealthCheck {
    /// Asks for `path` every five seconds, believes three bad answers and two good ones.
    pub fn new(path: PathAndQuery) -> Self {
        Self {
            path,
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
            failures: 3,
            successes: 2,
        }
    }
}

/// Whose certificates origins with https may show.
#[derive(Debug, Clone)]
pub enum OriginTrust {
    /// Those the system trusts.
    System,
    /// Those of these authorities.
    Roots(RootCertStore),
}
