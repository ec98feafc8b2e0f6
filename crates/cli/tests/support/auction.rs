//! What the tests of auctions share: a room that holds one, and figures to wait for.

use std::time::Duration;

use anteroom_testkit::{Request, Server, jwt, unix_seconds, wait_until};
use serde_json::Value;

use crate::support::metrics::metric;

/// How long a state may take, several rounds included.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(2);

/// A room that holds auctions for so many slots.
pub(crate) fn hall(id: &str, slots: u64, round_seconds: u64) -> String {
    format!(
        "[[room]]\nid = \"{id}\"\ninlet = \"max-size\"\ntotal_active_users = {slots}\ndiscipline = \"auction\"\n\
         round_seconds = {round_seconds}\nbackend_uri = \"https://shop.example.com/\"\n"
    )
}

/// How many are present at the open round.
pub(crate) fn present(server: &Server, room: &str) -> u64 {
    metric(server, &format!("anteroom_auction_present{{room=\"{room}\"}}"))
}

/// How many rounds were settled.
pub(crate) fn rounds(server: &Server) -> u64 {
    metric(server, "anteroom_auction_rounds_total")
}

/// Whose pass it is.
pub(crate) fn subject(access_token: &str) -> String {
    jwt::claims(access_token)["sub"].as_str().expect("a subject").to_owned()
}

/// Waits for the beginning of the next round: rounds of so many seconds close on a grid since 1970.
pub(crate) fn next_round(round_seconds: u64) {
    let round = unix_seconds() / round_seconds;
    wait_until("the next round begins", TIMEOUT, || unix_seconds() / round_seconds > round);
}

/// What the origin of a room reports.
#[track_caller]
pub(crate) fn report(server: &Server, room: &str, body: &Value) {
    let request = Request::new("POST", &format!("/rooms/{room}/capacity")).body(body.to_string());
    let answer = server.operator().send(&request).expect("an answer");
    assert!(answer.status < 300, "{answer:?}");
}
