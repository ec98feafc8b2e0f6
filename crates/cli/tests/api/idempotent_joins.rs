//! "10,000 lost connections in the middle of `/join` with an Idempotency-Key, retried: one place each."

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use anteroom_testkit::{Client, Request, Server, full, now};
use serde_json::{Value, json};

use crate::support::BINARY;

const THREADS: usize = 16;

fn start() -> Server {
    Server::builder(BINARY).start().expect("the server starts")
}

fn joined(server: &Server) -> u64 {
    server.operator().get("/rooms/Sample").expect("an answer as it should be").json()["figures"]["joined"]
        .as_u64()
        .expect("an answer as it should be")
}

fn join(client: &mut Client, key: &str) -> Value {
    let request = Request::post_json("/join", &json!({"room": "Sample"})).header("Idempotency-Key", key);
    let answer = client.send(&request).expect("an answer as it should be");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Sends a join and loses the connection: before it is complete, just after it was sent, or with the response in flight.
fn lose(address: SocketAddr, key: &str, how: usize) {
    let body = r#"{"room":"Sample"}"#;
    let request = format!(
        "POST /join HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).expect("an answer as it should be");
    let sent = if how == 0 { request.len() - 5 } else { request.len() };
    stream.write_all(&request.as_bytes()[..sent]).expect("an answer as it should be");
    if how == 2 {
        // One byte of the answer shows that it was made; the rest is lost.
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("an answer as it should be");
        stream.read_exact(&mut [0]).expect("an answer as it should be");
    }
    // The server may have closed first.
    let _ = stream.shutdown(Shutdown::Both);
}

#[test]
fn ten_thousand_lost_joins_retried_get_one_place_each() {
    let server = start();
    let keys = if full() { 10_000 } else { 1_000 };
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (public, mut client) = (server.public(), server.visitor());
            thread::spawn(move || {
                let mut positions = vec![];
                for number in (thread..keys).step_by(THREADS) {
                    let key = format!("key-of-visitor-{number:08}");
                    lose(public, &key, number % 3);
                    let first = join(&mut client, &key);
                    let again = join(&mut client, &key);
                    assert_eq!(first["request_id"], again["request_id"]);
                    assert_eq!(first["ticket"], again["ticket"]);
                    positions.push(first["position"].as_u64().expect("an answer as it should be"));
                }
                positions
            })
        })
        .collect();
    let positions: Vec<u64> =
        threads.into_iter().flat_map(|thread| thread.join().expect("an answer as it should be")).collect();
    assert_eq!(positions.len(), keys);
    let distinct: BTreeSet<u64> = positions.iter().copied().collect();
    assert_eq!(distinct.len(), keys, "no two visitors share a place");
    assert_eq!(joined(&server), keys as u64, "and nobody got a second one");
}

#[test]
fn the_aws_call_remembers_keys_too_and_rooms_do_not_share_them() {
    let server = Server::builder(BINARY)
        .config("[[room]]\nid = \"Sample\"\n[[room]]\nid = \"Other\"\n")
        .start()
        .expect("the server starts");
    let mut client = server.visitor();
    let mut assign = |room: &str, key: &str| {
        let request = Request::post_json("/assign_queue_num", &json!({"event_id": room}));
        let answer = client.send(&request.header("Idempotency-Key", key)).expect("an answer as it should be");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["api_request_id"].as_str().expect("an answer as it should be").to_owned()
    };
    let first = assign("Sample", "0123456789abcdef");
    assert_eq!(first, assign("Sample", "0123456789abcdef"));
    assert_ne!(first, assign("Sample", "0123456789abcdeF"));
    assert_ne!(first, assign("Other", "0123456789abcdef"));
    assert_eq!(joined(&server), 2);
}

#[test]
fn keys_that_are_no_keys_are_refused_and_take_no_place() {
    let server = start();
    let mut client = server.visitor();
    for (path, body) in [("/join", json!({})), ("/assign_queue_num", json!({"event_id": "Sample"}))] {
        for key in ["", "short", "fifteen-letters", "with a space in it", &"x".repeat(129), "ünïcödé-ünïcödé"]
        {
            let request = Request::post_json(path, &body).header("Idempotency-Key", key);
            let answer = client.send(&request).expect("an answer as it should be");
            assert_eq!(answer.status, 400, "{path} {key:?}: {answer:?}");
        }
        let twice = Request::post_json(path, &body)
            .header("Idempotency-Key", "0123456789abcdef")
            .header("Idempotency-Key", "0123456789abcdef");
        assert_eq!(client.send(&twice).expect("an answer as it should be").status, 400, "{path}");
    }
    assert_eq!(joined(&server), 0);
}

#[test]
fn a_key_from_before_a_reset_gets_a_place_in_the_new_line() {
    let server = start();
    let mut client = server.visitor();
    let key = "a-key-from-before-the-reset";
    let before = join(&mut client, key);
    server.line("Sample").reset();
    let after = join(&mut client, key);
    assert_ne!(before["request_id"], after["request_id"]);
    assert_eq!(after["position"], 1);
    assert_eq!(after, join(&mut client, key));
}

#[test]
fn a_key_is_remembered_for_its_two_minutes_however_many_others_join() {
    /// More than 546 a second for two minutes.
    const OTHERS: usize = 66_000;
    let server = Server::builder(BINARY).memory().start().expect("the server starts");
    let mut client = server.visitor();
    let began = now();
    let oldest = join(&mut client, "the-oldest-key-of-all");
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let mut client = server.visitor();
            scope.spawn(move || {
                for number in (thread..OTHERS).step_by(THREADS) {
                    join(&mut client, &format!("key-of-visitor-{number:08}"));
                }
            });
        }
    });
    let again = join(&mut client, "the-oldest-key-of-all");
    // On a machine on which that took two minutes, there is nothing to see.
    if began.elapsed() < Duration::from_secs(110) {
        assert_eq!(again, oldest);
        assert_eq!(joined(&server), OTHERS as u64 + 1);
    }
}
