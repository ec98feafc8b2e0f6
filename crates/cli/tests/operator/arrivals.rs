//! An operator sees who joins: the address prefixes with the most joins, and why others were refused.

use anteroom_testkit::{Request, Server};
use serde_json::json;

use crate::support::BINARY;
use crate::support::metrics::metric;
use crate::support::operator::Operator;

const CONFIG: &str = "trusted_proxies = \"127.0.0.1\"\n\
    [[room]]\nid = \"Hall\"\njoin_rate_max = 1000\n[[room]]\nid = \"Small\"\njoin_rate_max = 1\n";

fn join(server: &Server, room: &str, address: &str) -> u16 {
    let request = Request::post_json("/join", &json!({ "room": room })).header("X-Forwarded-For", address);
    server.visitor().send(&request).expect("an answer").status
}

#[test]
fn the_prefixes_with_the_most_joins_are_listed_and_refusals_are_counted_by_reason() {
    let server = Server::builder(BINARY).memory().config(CONFIG).start().expect("the server starts");
    let operator = Operator::of(&server);
    let nobody = operator.done(&["room", "show", "Hall"]);
    assert!(nobody.contains("nobody has joined on this node"), "{nobody}");
    for (address, count) in
        [("203.0.113.7", 3), ("2001:db8:1:2::9", 2), ("2001:db8:1:2::a", 3), ("198.51.100.1", 1)]
    {
        for _ in 0..count {
            assert_eq!(join(&server, "Hall", address), 200);
        }
    }
    let seen = server.operator().get("/rooms/Hall/arrivals").expect("an answer").json();
    let prefixes = json!([
        {"prefix": "2001:db8:1:2::/64", "joins": 5, "joins_error": 0, "visits": 0},
        {"prefix": "203.0.113.7/32", "joins": 3, "joins_error": 0, "visits": 0},
        {"prefix": "198.51.100.1/32", "joins": 1, "joins_error": 0, "visits": 0},
    ]);
    assert_eq!(seen["prefixes"], prefixes, "{seen}");
    let shown = operator.done(&["room", "show", "Hall"]);
    assert!(
        shown.contains("2001:db8:1:2::/64      5       0\n203.0.113.7/32         3       0\n"),
        "{shown}"
    );
    assert!(shown.ends_with(&operator.done(&["room", "arrivals", "Hall"])), "{shown}");
    assert_eq!(operator.json(&["room", "arrivals", "Hall"])["prefixes"], prefixes);
    assert_eq!(metric(&server, "anteroom_room_joins_by_prefix{room=\"Hall\",rank=\"1\"}"), 5);
    // A second takes one; of six within it at most two join.
    let refused = (0..6).filter(|_| join(&server, "Small", "203.0.113.7") == 429).count() as u64;
    assert!(refused > 0);
    let counted = "anteroom_room_join_refusals_total{room=\"Small\",reason=\"many-arriving\"}";
    assert_eq!(metric(&server, counted), refused);
    let unknown = server.operator().get("/rooms/Nowhere/arrivals").expect("an answer");
    assert_eq!((unknown.status, unknown.problem().as_str()), (404, "unknown-room"));
}
