//! A room whose queue is full: visitors get 503 at once, with a time to come back, and nobody who was queued is lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{Server, require_redis};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::support::BINARY;
use crate::support::metrics::metric;
use crate::support::tls::{Identity, connect};

/// More than a room's queue holds (16,384, the last 1,024 of them for operators).
const JOINS: usize = 18_000;
/// How many requests one connection carries at once.
const STREAMS: usize = 100;
/// How long everything may take: many times what it needs.
const TIMEOUT: Duration = Duration::from_mins(2);
const OVERLOADED: &str = "Too many requests are waiting; try again shortly";

/// A join's response: status, `Retry-After`, body.
type Response = (u16, Option<String>, Value);

async fn open(server: &Server, config: &Arc<ClientConfig>) -> (SendRequest<Full<Bytes>>, JoinSet<()>) {
    let stream = connect(server.public(), config).await.expect("TLS");
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = handshake.await.expect("HTTP/2");
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { drop(connection.await) });
    (sender, tasks)
}

async fn join(mut sender: SendRequest<Full<Bytes>>) -> Response {
    let request = hyper::Request::post("https://localhost/join").body(Full::from(r#"{"room":"Hall"}"#));
    let response = sender.send_request(request.expect("a request")).await.expect("a response");
    let status = response.status().as_u16();
    let retry_after = response.headers().get("retry-after");
    let retry_after = retry_after.map(|value| value.to_str().expect("text").to_owned());
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (status, retry_after, serde_json::from_slice(&body).expect("JSON"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_is_answered_with_503_at_once_and_loses_nobody() {
    if !require_redis() {
        return;
    }
    let (redis, directory, identity) = (RedisProcess::start(), tempfile::tempdir().unwrap(), Identity::new());
    identity.install(directory.path(), "public");
    let config = format!("{}[[room]]\nid = \"Hall\"\n", Identity::settings(directory.path(), "public"));
    let server = Server::builder(BINARY).env("ANTEROOM_STORE_URL", redis.url()).config(config);
    let server = server.start().expect("the server starts");
    let trust = identity.trusted("h2");
    let mut connections = Vec::new();
    for _ in 0..JOINS.div_ceil(STREAMS) {
        connections.push(open(&server, &trust).await);
    }

    // While the store hangs, the room's owner waits for its write and everything else queues up.
    redis.pause();
    let answered = Arc::new(AtomicUsize::new(0));
    let (refused, mut first_refusal) = watch::channel(None);
    let mut joins = JoinSet::new();
    for (sender, _) in &connections {
        for _ in 0..STREAMS {
            let (sender, answered, refused) = (sender.clone(), Arc::clone(&answered), refused.clone());
            joins.spawn(async move {
                let response = join(sender).await;
                let before = answered.fetch_add(1, Ordering::SeqCst);
                if response.2["detail"] == OVERLOADED {
                    refused.send_if_modified(|first| {
                        first.is_none() && {
                            *first = Some(before);
                            true
                        }
                    });
                }
                response
            });
        }
    }
    let refusal = tokio::time::timeout(TIMEOUT, first_refusal.wait_for(Option::is_some)).await;
    let before = refusal.expect("a refusal in time").expect("the senders live").expect("a refusal");
    assert_eq!(before, 0, "it is the first answer of all: those before it are still queued");
    redis.resume();

    let responses = tokio::time::timeout(TIMEOUT, joins.join_all()).await.expect("every join is answered");
    assert_eq!(responses.len(), JOINS);
    let mut positions = BTreeSet::new();
    let mut refusals = 0;
    for (status, retry_after, body) in &responses {
        match status {
            200 => assert!(positions.insert(body["position"].as_u64()), "twice: {body}"),
            503 if body["detail"] == OVERLOADED => {
                refusals += 1;
                assert!(
                    retry_after.as_deref().is_some_and(|seconds| seconds.parse::<u64>().is_ok()),
                    "{body}"
                );
            }
            _ => panic!("{status}: {body}"),
        }
    }
    assert_eq!(positions.len() + refusals, JOINS);
    assert!(positions.len() >= 15_360, "the queue holds {} joins", positions.len());
    assert_eq!(metric(&server, "anteroom_overloads_total"), refusals as u64);
    let room = server.operator().get("/rooms/Hall").expect("an answer").json();
    assert_eq!(room["figures"]["joined"], json!(positions.len()), "nobody who was refused has a place");
}
