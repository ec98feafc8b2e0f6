//! The store is lost: reads go on and say so, changes are refused, and everything comes back by itself.

use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{
    ChaosProxy, Direction, Fault, Mode, Request, Server, require_redis, wait_for, wait_until,
};
use serde_json::json;

use crate::pair::{TIMEOUT, node};
use crate::support::watch::Watcher;

const LOST: Mode = Mode::Always(Fault::BlackHole(Direction::Both));

/// A node whose way to the Redis can be cut.
fn behind_a_proxy(stale_reads_max_seconds: u64) -> Option<(RedisProcess, ChaosProxy, Server)> {
    if !require_redis() {
        return None;
    }
    let redis = RedisProcess::start();
    let proxy = ChaosProxy::before(redis.port());
    let limit = stale_reads_max_seconds.to_string();
    let builder = node(&redis.url_through(proxy.port())).env("ANTEROOM_STALE_READS_MAX_SECONDS", limit);
    let server = builder.start().expect("the node starts");
    Some((redis, proxy, server))
}

fn is_stale(server: &Server) -> bool {
    let answer = server.visitor().get("/serving_num?event_id=Sample").expect("an answer");
    answer.header("Anteroom-Stale").is_some()
}

#[test]
fn reads_go_on_marked_and_nothing_else_does() {
    let Some((_redis, proxy, server)) = behind_a_proxy(300) else { return };
    let mut line = server.line("Sample");
    let id = line.join();
    let mut visitor = server.visitor();
    let fresh = visitor.get("/serving_num?event_id=Sample").expect("an answer");
    let tag = fresh.header("ETag").expect("a tag").to_owned();
    assert_eq!(
        (fresh.header("Cache-Control"), fresh.header("Anteroom-Stale")),
        (Some("public, max-age=1"), None)
    );
    let mut watcher = Watcher::open(&server, "Sample");
    assert_eq!(watcher.next_raw().board()["waiting"], 1);

    proxy.set(LOST);
    wait_until("reads are marked", TIMEOUT, || is_stale(&server));
    let conditional = Request::new("GET", "/serving_num?event_id=Sample").header("If-None-Match", &tag);
    let stale = visitor.send(&conditional).expect("an answer");
    assert_eq!(
        (stale.status, stale.text().as_str()),
        (200, "{\"serving_counter\":0}"),
        "no 304 hides the mark"
    );
    assert_eq!((stale.header("Cache-Control"), stale.header("ETag")), (Some("no-store"), None), "{stale:?}");
    let status = Request::new("GET", "/status").header("Authorization", &id);
    for request in [
        Request::new("GET", "/rooms/Sample"),
        Request::new("GET", &format!("/queue_num?event_id=Sample&request_id={id}")),
        Request::new("GET", "/waiting_num?event_id=Sample"),
        status.clone(),
    ] {
        let answer = visitor.send(&request).expect("an answer");
        let age: u64 = answer.header("Anteroom-Stale").expect("a mark").parse().expect("whole seconds");
        assert!(answer.status == 200 && age >= 2, "{request:?}: {answer:?}");
        assert_eq!(answer.header("Cache-Control"), Some("no-store"), "{request:?}");
    }
    let response = visitor.send(&status).expect("an answer").json();
    assert!(response["stale_seconds"].as_u64().is_some_and(|age| age >= 2), "{response}");
    assert_eq!((&response["status"], &response["position"]), (&json!("waiting"), &json!(1)), "{response}");
    let board = visitor.get("/rooms/Sample").expect("an answer").json();
    assert!(board["stale_seconds"].as_u64().is_some_and(|age| age >= 2), "{board}");
    let stale = wait_for("the stream says so", TIMEOUT, || {
        Some(watcher.next_raw()).filter(|event| event.field("event") == Some("stale"))
    });
    assert!(
        stale.field("data").is_some_and(|data| data.starts_with("{\"room\":\"Sample\",\"stale_seconds\":"))
    );

    let slow_client = || server.visitor().with_read_timeout(TIMEOUT);
    for (target, body) in [
        ("/join", json!({})),
        ("/assign_queue_num", json!({"event_id": "Sample"})),
        ("/generate_token", json!({"event_id": "Sample", "request_id": id})),
        ("/claim", json!({"ticket": id})),
        ("/leave", json!({"ticket": id})),
    ] {
        let answer = slow_client().post(target, &body).expect("an answer");
        assert_eq!(answer.status, 503, "{target}: {answer:?}");
        assert!(answer.header("Retry-After").is_some(), "{target}: {answer:?}");
    }
    let mut operator = server.operator();
    let unready = operator.get("/readyz").expect("an answer");
    assert_eq!(unready.status, 503);
    assert!(unready.error().starts_with("The store has not answered for "), "{unready:?}");
    assert_eq!(operator.get("/livez").expect("an answer").status, 200);

    proxy.set(Mode::Pass);
    wait_until("reads are fresh again", TIMEOUT, || !is_stale(&server));
    wait_until("the node is ready again", TIMEOUT, || {
        operator.get("/readyz").is_ok_and(|ready| ready.status == 200)
    });
    wait_for("the stream says so", TIMEOUT, || {
        let event = watcher.next_raw();
        let over = event.field("data").is_some_and(|data| data.ends_with("\"stale_seconds\":0}"));
        (event.field("event") == Some("stale") && over).then_some(())
    });
    let later = wait_for("joins work again", TIMEOUT, || {
        let answer = slow_client().post("/join", &json!({})).expect("an answer");
        (answer.status == 200).then(|| answer.json())
    });
    assert!(later["stale_seconds"].is_null(), "{later}");
}

#[test]
fn after_a_bounded_time_there_are_no_reads() {
    let Some((_redis, proxy, server)) = behind_a_proxy(5) else { return };
    let id = server.line("Sample").join();
    proxy.set(Mode::Refuse);
    let mut visitor = server.visitor();
    wait_until("reads are refused", TIMEOUT, || {
        let answer = visitor.get("/rooms/Sample").expect("an answer");
        assert!(answer.status == 200 || answer.header("Retry-After").is_some(), "{answer:?}");
        answer.status == 503
    });
    for target in ["/serving_num?event_id=Sample", "/watch?room=Sample"] {
        let answer = server.visitor().get(target).expect("an answer");
        assert_eq!(answer.status, 503, "{target}: {answer:?}");
    }
    let status = Request::new("GET", "/status").header("Authorization", &id);
    let refused = visitor.send(&status).expect("an answer");
    assert!(refused.error().starts_with("The store has not answered for "), "{refused:?}");
    assert_eq!(visitor.get("/.well-known/jwks.json").expect("an answer").status, 200, "passes stay valid");
    proxy.set(Mode::Pass);
    wait_until("everything is back", TIMEOUT, || {
        visitor
            .send(&status)
            .is_ok_and(|answer| answer.status == 200 && answer.header("Anteroom-Stale").is_none())
    });
}
