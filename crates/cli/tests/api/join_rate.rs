//! The ceiling of joins a second, over HTTP.

use anteroom_testkit::{Answer, Client, Request, wait_until};
use serde_json::json;

use crate::limiter_support::{TIMEOUT, join, server_with_room};
use crate::support::metrics::metric;

/// More than join within a second of any machine, where one may.
const TRIES: usize = 200;

fn join_with_key(client: &mut Client, key: &str) -> Answer {
    let request = Request::post_json("/join", &json!({ "room": "Hall" })).header("Idempotency-Key", key);
    client.send(&request).expect("an answer")
}

#[test]
fn more_joins_than_a_room_takes_in_a_second_are_told_that_many_arrive_and_when_to_come_back() {
    let server = server_with_room("join_rate_max = 1").memory().start().unwrap();
    let mut client = server.visitor();
    let kept = join_with_key(&mut client, "a-key-that-has-a-place");
    assert_eq!(kept.status, 200, "{kept:?}");
    let refused = (0..TRIES).map(|_| join(&mut client, "203.0.113.7")).find(|joined| joined.status != 200);
    let refused = refused.expect("the ceiling holds");
    assert_eq!(refused.status, 429, "{refused:?}");
    assert!(refused.json()["type"].as_str().unwrap().ends_with("#many-arriving"), "{refused:?}");
    let seconds: u64 = refused.header("Retry-After").expect("when to come back").parse().unwrap();
    assert!((1..=30).contains(&seconds));
    // A client that has a place gets it again, whatever the rate.
    for _ in 0..5 {
        assert_eq!(join_with_key(&mut client, "a-key-that-has-a-place").json(), kept.json());
    }
    wait_until("a later second", TIMEOUT, || join(&mut client, "203.0.113.7").status == 200);
    assert!(metric(&server, "anteroom_room_join_refusals_total{room=\"Hall\",reason=\"many-arriving\"}") > 0);
    let aws = (0..TRIES).map(|_| {
        let request = Request::post_json("/assign_queue_num", &json!({ "event_id": "Hall" }));
        client.send(&request.header("X-Forwarded-For", "203.0.113.7")).expect("an answer")
    });
    let refused = aws.into_iter().find(|joined| joined.status != 200).expect("the ceiling holds");
    assert_eq!((refused.status, refused.header("Retry-After").is_some()), (429, true), "{refused:?}");
    assert!(refused.json()["error"].is_string(), "{refused:?}");
}

#[test]
fn a_network_that_floods_leaves_others_their_share_of_the_joins() {
    let server = server_with_room("join_rate_max = 4").memory().start().unwrap();
    let (mut flood, mut other) = (server.visitor(), server.visitor());
    // The flood uses up each second from its beginning, and after the first one no more than its share of it.
    let joined = std::cell::Cell::new(0);
    wait_until("another network joins, again and again", TIMEOUT, || {
        for number in 0..20 {
            join(&mut flood, &format!("203.0.113.{number}"));
        }
        joined.set(joined.get() + u32::from(join(&mut other, "198.51.100.7").status == 200));
        joined.get() >= 4
    });
}
