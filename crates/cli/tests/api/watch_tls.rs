//! `GET /watch` over TLS, by HTTP/1.1 and HTTP/2: the same events from a body in hyper, capped and counted.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the way to fail")]

use std::path::Path;

use anteroom_testkit::{Server, now};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::task::JoinSet;

use crate::support::BINARY;
use crate::support::metrics::{metric, wait_for_metric};
use crate::support::tls::{Identity, connect};
use crate::support::watch::{DEADLINE, streams};

const PROTOCOLS: [(&str, Version); 2] = [("http/1.1", Version::HTTP_11), ("h2", Version::HTTP_2)];

/// A server with TLS for visitors and clear text for its operator, and the certificate to trust.
fn start(directory: &Path, config: &str) -> (Server, Identity) {
    let identity = Identity::new();
    identity.install(directory, "public");
    let tls = Identity::settings(directory, "public");
    let config = format!("{tls}{config}\n[[room]]\nid = \"Hall\"\n");
    let server = Server::builder(BINARY).config(config).memory().start().expect("the server starts");
    (server, identity)
}

/// One answer over a TLS connection of its own, which ends with it.
struct Stream {
    response: Response<Incoming>,
    read: String,
    _connection: JoinSet<()>,
}

impl Stream {
    async fn open(server: &Server, identity: &Identity, protocol: &str) -> Self {
        let stream = connect(server.public(), &identity.trusted(protocol)).await.unwrap();
        let io = TokioIo::new(stream);
        let request = Request::get("https://localhost/watch?room=Hall").header("Host", "localhost");
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let mut connections = JoinSet::new();
        let response = if protocol == "h2" {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
            connections.spawn(async move { drop(connection.await) });
            sender.send_request(request).await.unwrap()
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            connections.spawn(async move { drop(connection.await) });
            sender.send_request(request).await.unwrap()
        };
        Self { response, read: String::new(), _connection: connections }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name).and_then(|value| value.to_str().ok())
    }

    /// Reads until a text has come.
    async fn read_until(&mut self, text: &str) {
        let started = now();
        while !self.read.contains(text) {
            let frame = tokio::time::timeout(DEADLINE, self.response.frame()).await;
            let frame = frame.unwrap_or_else(|_| panic!("{text} did not come but {}", self.read));
            let frame = frame.unwrap_or_else(|| panic!("the stream has ended: {}", self.read)).unwrap();
            self.read.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
            assert!(started.elapsed() < DEADLINE, "{text} did not come but {}", self.read);
        }
    }

    /// Reads to the end, which must be a proper one.
    async fn read_to_end(mut self) -> String {
        while let Some(frame) = tokio::time::timeout(DEADLINE, self.response.frame()).await.expect("in time")
        {
            let data = frame.expect("an answer that is complete").into_data().unwrap_or_default();
            self.read.push_str(std::str::from_utf8(&data).unwrap());
        }
        self.read
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_protocols_carry_the_same_events_and_keep_alives() {
    let directory = tempfile::tempdir().unwrap();
    let config =
        "watch_interval_milliseconds = 10\nwatch_keep_alive_seconds = 1\nheader_read_timeout_seconds = 1";
    let (server, identity) = start(directory.path(), config);
    let mut operator = server.operator();
    let mut advance = || {
        let body = serde_json::json!({"event_id": "Hall", "increment_by": 1});
        assert_eq!(operator.post("/increment_serving_counter", &body).unwrap().status, 200);
    };
    let mut texts = Vec::new();
    let mut open = Vec::new();
    for (protocol, version) in PROTOCOLS {
        let mut stream = Stream::open(&server, &identity, protocol).await;
        assert_eq!((stream.response.status().as_u16(), stream.response.version()), (200, version));
        assert_eq!(stream.header("content-type"), Some("text/event-stream"));
        assert_eq!(stream.header("cache-control"), Some("no-store"));
        assert_eq!(stream.header("access-control-allow-origin"), Some("*"));
        assert_eq!(stream.header("x-accel-buffering"), Some("no"));
        assert_eq!(stream.header("connection"), None);
        stream.read_until("\"serving\":0").await;
        assert!(
            stream.read.starts_with("retry: ") && stream.read.contains("\n\nevent: board\nid: "),
            "{}",
            stream.read
        );
        open.push(stream);
    }
    assert_eq!((metric(&server, &streams("tls")), metric(&server, &streams("taken"))), (2, 0));
    for serving in 1..=3 {
        advance();
        for stream in &mut open {
            stream.read_until(&format!("\"serving\":{serving},")).await;
        }
    }
    for mut stream in open {
        // Longer than a client without a request may be quiet.
        for _ in 0..3 {
            let before = stream.read.matches("event: alive\ndata: 1\n\n").count();
            while stream.read.matches("event: alive\ndata: 1\n\n").count() == before {
                let length = stream.read.len();
                let frame = tokio::time::timeout(DEADLINE, stream.response.frame())
                    .await
                    .expect("a keep-alive in time");
                let data = frame.expect("an open stream").unwrap().into_data().unwrap();
                stream.read.push_str(std::str::from_utf8(&data).unwrap());
                assert!(stream.read.len() > length);
            }
        }
        let boards = stream.read.split("\n\n").filter(|event| event.starts_with("event: board"));
        texts.push(boards.map(str::to_owned).collect::<Vec<_>>());
    }
    assert_eq!(texts[0], texts[1], "the same bytes");
    wait_for_metric(&server, &streams("tls"), |open| open == 0);
    assert_eq!(metric(&server, "anteroom_watch_slow_readers_total"), 0, "leaving is not being slow");
}

#[tokio::test(flavor = "multi_thread")]
async fn over_the_cap_a_stream_is_refused_until_one_ends() {
    let directory = tempfile::tempdir().unwrap();
    let (server, identity) = start(directory.path(), "watch_tls_max = 2");
    let mut first = Stream::open(&server, &identity, "h2").await;
    let mut second = Stream::open(&server, &identity, "http/1.1").await;
    first.read_until("event: board").await;
    second.read_until("event: board").await;
    for (protocol, _) in PROTOCOLS {
        let refused = Stream::open(&server, &identity, protocol).await;
        assert_eq!(refused.response.status().as_u16(), 503);
        assert_eq!(refused.header("retry-after"), Some("1"));
        let text = refused.read_to_end().await;
        assert!(text.contains("Too many live streams"), "{text}");
    }
    drop(first);
    wait_for_metric(&server, &streams("tls"), |open| open == 1);
    Stream::open(&server, &identity, "h2").await.read_until("event: board").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_ends_streams_properly_and_waits_for_none() {
    let directory = tempfile::tempdir().unwrap();
    let (mut server, identity) = start(directory.path(), "drain_timeout_seconds = 3600");
    let mut streams = Vec::new();
    for (protocol, _) in PROTOCOLS {
        let mut stream = Stream::open(&server, &identity, protocol).await;
        stream.read_until("event: board").await;
        streams.push(stream);
    }
    server.signal("TERM").unwrap();
    for stream in streams {
        let text = stream.read_to_end().await;
        assert!(text.ends_with("}\n\n"), "{text}");
    }
    let ended = server.wait_for_end().unwrap();
    assert!(ended.status.success() && ended.stderr.contains("cut=0"), "{}", ended.stderr);
}
