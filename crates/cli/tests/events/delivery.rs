//! At least once and in order: a receiver that misbehaves in every way, nodes that are killed, cursors that move.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{
    Client, Nodes, Server, SetOnDrop, full, native, now, pause, require_redis, wait_for, wait_until,
};
use serde_json::{Value, json};

use crate::receiver::{Answer, Receiver, assert_all_in_order, id_of};
use crate::support::BINARY;

/// How long a test may wait for something to arrive.
const TIMEOUT: Duration = Duration::from_mins(5);
const ROOMS: [&str; 4] = ["Hall", "Yard", "Gate", "Door"];
/// `EdDSA`, so that signing is not what takes the time.
const CONFIG: &str = "destinations_private_allowed = [\"127.0.0.0/8\"]\nsigning_algorithm = \"EdDSA\"\n";

/// Four rooms that let everybody in at once.
pub(crate) fn config() -> String {
    let room = |name: &&str| {
        format!(
            "[[room]]\nid = \"{name}\"\ninlet = \"max-size\"\ntotal_active_users = 1000000\nvalidity_period = 86400\n"
        )
    };
    format!("{CONFIG}{}", ROOMS.iter().map(room).collect::<String>())
}

#[track_caller]
pub(crate) fn make_webhook(operator: &mut Client, name: &str, url: &str, more: &Value) {
    let mut body = json!({
        "name": name, "kind": "webhook", "url": url, "types": ["*"], "backoff_max_seconds": 1,
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        body[field] = value.clone();
    }
    let answer = operator.post("/destinations", &body).expect("the private listener answers");
    assert_eq!(answer.status, 201, "{answer:?}");
}

/// Everything in the outbox behind a number, as `/events` tells it.
#[track_caller]
pub(crate) fn written(operator: &mut Client, after: u64) -> Vec<Value> {
    let answer = operator.get(&format!("/events?follow=false&after={after}")).expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    let events = answer.text();
    let data = events.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).expect("an event is JSON")).collect()
}

fn status(operator: &mut Client, name: &str) -> Value {
    operator.get(&format!("/destinations/{name}")).map_or(Value::Null, |answer| answer.json())
}

/// Joins visitors until so many have got in: each writes two events.
fn let_in(addresses: impl Fn(usize) -> Client + Sync, count: usize) {
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        for (thread, room) in ROOMS.into_iter().enumerate() {
            let (done, addresses) = (&done, &addresses);
            scope.spawn(move || {
                let mut client = addresses(thread);
                while done.load(Ordering::SeqCst) < count {
                    match native::join(&mut client, room) {
                        Ok(answer) if answer.status == 200 => {
                            done.fetch_add(1, Ordering::SeqCst);
                        }
                        // Killed in between; it is there again in a moment.
                        _ => {
                            pause();
                            client = addresses(thread);
                        }
                    }
                }
            });
        }
    });
}

/// Every way in which a receiver can misbehave.
fn misbehaviour() -> Vec<Answer> {
    let mut plan = vec![
        Answer::Take,
        Answer::TakeAfter(Duration::from_millis(30)),
        Answer::Refuse(500),
        Answer::TakeAndClose,
        Answer::RetryAfter,
        Answer::Take,
        Answer::Redirect,
        Answer::Close,
        Answer::Refuse(429),
        Answer::Hang,
    ];
    plan.extend([Answer::Take; 10]);
    plan
}

/// How many events a test sends.
fn events() -> usize {
    if full() { 100_000 } else { 4_000 }
}

#[test]
fn every_event_arrives_in_order_although_the_receiver_misbehaves_and_the_node_is_killed_ten_times() {
    let receiver = Receiver::start();
    receiver.plan(&misbehaviour());
    let mut server = Server::builder(BINARY).config(config()).start().unwrap();
    let mut operator = server.operator();
    make_webhook(&mut operator, "hook", &receiver.url(), &json!({"batch_max": 100, "timeout_seconds": 1}));
    let begin = written(&mut operator, 0).len() as u64;
    let over = AtomicBool::new(false);
    let address = std::sync::Mutex::new(server.public());
    thread::scope(|scope| {
        let end = SetOnDrop(&over);
        let joining = scope.spawn(|| let_in(|_| Client::new(*address.lock().unwrap()), events() / 2));
        for kill in 1..=10 {
            let wanted = events() * kill / 12;
            wait_until("more has arrived", TIMEOUT, || receiver.distinct() >= wanted);
            server.kill_nine().unwrap();
            server.restart().unwrap();
            *address.lock().unwrap() = server.public();
        }
        joining.join().unwrap();
        drop(end);
    });
    let mut operator = server.operator();
    let written = written(&mut operator, begin);
    assert!(written.len() >= events(), "{} were written", written.len());
    wait_until("everything has arrived", TIMEOUT, || {
        status(&mut server.operator(), "hook")["status"]["lag_events"] == 0
    });
    let repeats = assert_all_in_order(&written, &receiver.arrivals());
    assert!(repeats > 0, "a kill in the middle of a delivery leaves repeats");
    println!("{} events, {repeats} arrived more than once, after 10 kills", written.len());
    assert_eq!(receiver.followed_redirects(), 0);
}

#[test]
fn two_nodes_on_one_redis_hand_the_cursor_over_and_nothing_is_skipped() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let receiver = Receiver::start();
    receiver.plan(&misbehaviour());
    let urls = [redis.url(), redis.url()];
    let mut nodes = Nodes::start(BINARY, &config(), &urls);
    let mut operator = nodes.all()[0].operator();
    make_webhook(&mut operator, "hook", &receiver.url(), &json!({"batch_max": 100, "timeout_seconds": 1}));
    wait_until("the other node knows it, too", TIMEOUT, || {
        nodes.all()[1].operator().get("/destinations/hook").is_ok_and(|answer| answer.status == 200)
    });
    // Joins on the other node ask for events from the moment on in which it knows the destination.
    let begin = written(&mut operator, 0).len() as u64;
    let addresses: Vec<_> = nodes.all().iter().map(|server| std::sync::Mutex::new(server.public())).collect();
    let mut deliverers = BTreeSet::new();
    thread::scope(|scope| {
        let addresses = &addresses;
        let joining = scope.spawn(move || {
            let_in(|thread| Client::new(*addresses[thread % 2].lock().unwrap()), events() / 2);
        });
        for kill in 1..=10 {
            let wanted = events() * kill / 12;
            wait_until("more has arrived", TIMEOUT, || receiver.distinct() >= wanted);
            let node = status(&mut nodes.all()[0].operator(), "hook")["status"]["node"].clone();
            deliverers.insert(node.to_string());
            // Whichever delivers: it is one of the two.
            let victim = &mut nodes.all_mut()[kill % 2];
            victim.kill_nine().unwrap();
            victim.restart().unwrap();
            *addresses[kill % 2].lock().unwrap() = victim.public();
        }
        joining.join().unwrap();
    });
    let mut operator = nodes.all()[0].operator();
    let written = written(&mut operator, begin);
    assert!(written.len() >= events(), "{} were written", written.len());
    wait_until("everything has arrived", TIMEOUT, || receiver.distinct() >= written.len());
    let repeats = assert_all_in_order(&written, &receiver.arrivals());
    assert!(deliverers.len() > 1, "the work never moved: {deliverers:?}");
    println!("{} events, {repeats} arrived more than once, {} deliverers", written.len(), deliverers.len());
}

#[test]
fn five_hundred_events_a_second_to_a_receiver_50_ms_away_lag_less_than_5_s() {
    let seconds = if full() { 30 } else { 6 };
    let receiver = Receiver::start();
    receiver.plan(&[Answer::TakeAfter(Duration::from_millis(50))]);
    let server = Server::builder(BINARY).config(config()).start().unwrap();
    let mut operator = server.operator();
    make_webhook(&mut operator, "hook", &receiver.url(), &json!({"batch_max": 100}));
    let before = written(&mut operator, 0).len();
    let began = now();
    let mut visitor = server.visitor();
    let mut joins = 0u32;
    // Each join writes two events.
    while began.elapsed() < Duration::from_secs(seconds) {
        assert_eq!(native::join(&mut visitor, "Hall").unwrap().status, 200);
        joins += 1;
        let due = Duration::from_millis(4) * joins;
        thread::sleep(due.saturating_sub(began.elapsed()));
    }
    let total = 2 * joins as usize;
    wait_until("everything has arrived", TIMEOUT, || receiver.arrived() >= total);
    let lag = began.elapsed().saturating_sub(Duration::from_secs(seconds));
    assert!(lag < Duration::from_secs(5), "the last one came {lag:?} after the last join");
    let rate = total as u64 / seconds;
    let written = written(&mut operator, before as u64);
    let arrivals = receiver.arrivals();
    assert_all_in_order(&written, &arrivals);
    // Each event was written before its join was answered, so it is late by no more than this.
    let latest = arrivals.iter().enumerate().map(|(index, arrival)| {
        let joined_at = began + Duration::from_millis(4) * u32::try_from(index / 2).unwrap();
        arrival.at.saturating_duration_since(joined_at)
    });
    let latest = latest.max().unwrap();
    assert!(latest < Duration::from_secs(5), "an event came {latest:?} late");
    println!("{rate} events a second, at most {latest:?} late, the last one {lag:?} after the last join");
}

#[test]
fn a_receiver_that_is_gone_for_a_while_gets_everything_and_the_destination_says_what_is_wrong() {
    let receiver = Receiver::start();
    receiver.plan(&[Answer::Refuse(500)]);
    let server = Server::builder(BINARY).config(config()).start().unwrap();
    let mut operator = server.operator();
    make_webhook(&mut operator, "hook", &receiver.url(), &json!({}));
    let patch = json!({"state": "paused"});
    let request = anteroom_testkit::Request::new("PATCH", "/rooms/Hall")
        .header("Content-Type", "application/json")
        .body(patch.to_string());
    assert_eq!(operator.send(&request).unwrap().status, 200);
    let failing = wait_for("it says what is wrong", TIMEOUT, || {
        let shown = status(&mut operator, "hook")["status"].clone();
        shown["last_error"].is_string().then_some(shown)
    });
    assert!(failing["last_error"].as_str().unwrap().contains("500"), "{failing}");
    assert!(failing["lag_events"].as_u64().unwrap() > 0, "{failing}");
    let metrics = operator.get("/metrics").unwrap().text();
    assert!(
        metrics.contains("anteroom_destination_deliveries_total{destination=\"hook\",outcome=\"failed\"}")
    );
    receiver.plan(&[Answer::Take]);
    wait_until("it has arrived", TIMEOUT, || {
        receiver.arrivals().iter().any(|arrival| arrival.event["type"] == "room.paused")
    });
    wait_until("nothing is wrong any more", TIMEOUT, || {
        let shown = status(&mut operator, "hook")["status"].clone();
        shown["last_error"].is_null() && shown["lag_events"] == 0
    });
    let paused =
        receiver.arrivals().into_iter().find(|arrival| arrival.event["type"] == "room.paused").unwrap();
    assert_eq!(paused.event["source"], "/rooms/Hall");
    assert_eq!(paused.event["data"], json!({"state": "paused", "by": "environment"}));
}

#[test]
fn a_restore_takes_cursors_back_and_nothing_that_was_written_since_is_lost() {
    let receiver = Receiver::start();
    let server = Server::builder(BINARY).config(config()).start().unwrap();
    let mut operator = server.operator();
    make_webhook(&mut operator, "hook", &receiver.url(), &json!({}));
    let mut visitor = server.visitor();
    for _ in 0..5 {
        assert_eq!(native::join(&mut visitor, "Hall").unwrap().status, 200);
    }
    wait_until("ten have arrived", TIMEOUT, || receiver.distinct() >= 10);
    wait_until("the cursor is saved", TIMEOUT, || status(&mut operator, "hook")["status"]["lag_events"] == 0);
    let backup = operator.get("/backup").unwrap();
    assert_eq!(backup.status, 200);
    for _ in 0..5 {
        assert_eq!(native::join(&mut visitor, "Yard").unwrap().status, 200);
    }
    wait_until("twenty have arrived", TIMEOUT, || receiver.distinct() >= 20);
    let restore = anteroom_testkit::Request::new("POST", "/restore")
        .header("Content-Type", "application/octet-stream")
        .body(backup.body.clone());
    let restored = operator.another().with_bearer(server.admin_key()).send(&restore).unwrap();
    assert_eq!(restored.status, 200, "{restored:?}");
    let before = receiver.distinct();
    for _ in 0..5 {
        assert_eq!(native::join(&mut server.visitor(), "Gate").unwrap().status, 200);
    }
    let of_gate = || {
        let ids: BTreeSet<_> = receiver
            .arrivals()
            .iter()
            .filter(|arrival| arrival.event["source"] == "/rooms/Gate")
            .map(|arrival| id_of(&arrival.event))
            .collect();
        ids.len()
    };
    wait_until("what comes after the restore arrives", TIMEOUT, || of_gate() >= 10);
    assert!(receiver.distinct() >= before + 10, "no id was given twice");
}

#[test]
fn a_destination_at_a_private_address_is_refused_unless_listed_also_by_name_and_by_redirect() {
    let receiver = Receiver::start();
    let port = receiver.url();
    let port = port.rsplit(':').next().unwrap().trim_end_matches("/hook");
    let server = Server::builder(BINARY).start().unwrap();
    let mut operator = server.operator();
    for address in ["127.0.0.1", "10.0.0.5", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254"] {
        let body = json!({"name": "a", "kind": "webhook", "url": format!("https://{address}:{port}/hook")});
        let answer = operator.post("/destinations", &body).unwrap();
        assert!((400..500).contains(&answer.status), "{address}: {answer:?}");
    }
    // A name, and a number that only a resolver reads as an address, say nothing before they are resolved: then they are refused.
    for (index, host) in ["localhost", "0x7f000001", "2130706433", "017700000001"].iter().enumerate() {
        let name = format!("name-{index}");
        let url = format!("https://{host}:{port}/hook");
        let body = json!({"name": name, "kind": "webhook", "url": url, "types": ["*"]});
        let answer = operator.post("/destinations", &body).unwrap();
        if answer.status == 201 {
            let test = operator.post(&format!("/destinations/{name}/test"), &json!({})).unwrap();
            assert_eq!(test.json()["delivered"], false, "{host}: {test:?}");
            let is_a_name = *host == "localhost";
            assert!(!is_a_name || test.text().contains("not listed"), "{host}: {test:?}");
        }
    }
    assert_eq!((receiver.arrived(), receiver.followed_redirects()), (0, 0));
}
