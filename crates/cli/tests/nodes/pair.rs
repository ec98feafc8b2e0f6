//! What the tests of several nodes share: the real binary, several times, on one real Redis.

use std::time::Duration;

use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{Answer, Builder, Client, Request, Server, wait_until};
use serde_json::Value;

use crate::support::BINARY;

/// How long something may take to reach another node. Generous: what is tested is that it does, not how fast.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// A node on the store of this URL.
pub(crate) fn node(url: &str) -> Builder {
    Server::builder(BINARY).env("ANTEROOM_STORE_URL", url)
}

/// Two nodes with the same configuration file.
#[track_caller]
pub(crate) fn two_nodes(redis: &RedisProcess, config: &str) -> [Server; 2] {
    [(); 2].map(|()| node(&redis.url()).config(config).start().expect("the node starts"))
}

/// Asks a node until the answer is as it should be.
#[track_caller]
pub(crate) fn eventually(what: &str, client: &mut Client, target: &str, fits: impl Fn(&Answer) -> bool) {
    wait_until(what, TIMEOUT, || client.get(target).is_ok_and(|answer| fits(&answer)));
}

/// Sends a request with a JSON body, and expects this status.
#[track_caller]
pub(crate) fn call(client: &mut Client, method: &str, target: &str, body: &Value, status: u16) -> Answer {
    let request = Request::new(method, target).body(body.to_string());
    let answer = client.send(&request).expect("an answer");
    assert_eq!(answer.status, status, "{method} {target}: {answer:?}");
    answer
}

/// A figure of a room as its operator sees it.
#[track_caller]
pub(crate) fn figure(room: &Value, name: &str) -> usize {
    let figure = room["figures"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {room}"));
    usize::try_from(figure).expect("a count of this test")
}
