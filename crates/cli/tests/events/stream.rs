//! GET `/events` and `anteroom events`.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use anteroom_testkit::{Client, Request, Server, native, wait_until};
use serde_json::{Value, json};

use crate::delivery::{config, make_webhook, written};
use crate::receiver::Receiver;
use crate::support::BINARY;

const TIMEOUT: Duration = Duration::from_mins(1);

/// A stream of events, read as it comes.
struct Stream(BufReader<TcpStream>);

impl Stream {
    fn open(server: &Server, query: &str, last_event_id: Option<&str>) -> Self {
        let mut stream = TcpStream::connect(server.private()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let resume = last_event_id.map_or(String::new(), |id| format!("Last-Event-ID: {id}\r\n"));
        let key = server.admin_key();
        write!(
            stream,
            "GET /events{query} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n{resume}\r\n"
        )
        .unwrap();
        let mut stream = Self(BufReader::new(stream));
        let head = stream.line();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        stream
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line within a minute");
        line.trim_end().to_owned()
    }

    /// The next event: its id and what it says.
    fn next(&mut self) -> (String, Value) {
        let mut id = String::new();
        loop {
            let line = self.line();
            if let Some(number) = line.strip_prefix("id: ") {
                number.clone_into(&mut id);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return (id, serde_json::from_str(data).unwrap());
            }
        }
    }
}

fn set_state(operator: &mut Client, room: &str, state: &str) {
    let request = Request::new("PATCH", &format!("/rooms/{room}"))
        .header("Content-Type", "application/json")
        .body(json!({"state": state}).to_string());
    assert_eq!(operator.send(&request).unwrap().status, 200);
}

#[test]
fn a_stream_goes_on_where_it_was_also_after_a_kill() {
    let mut server = Server::builder(BINARY).config(config()).start().unwrap();
    let mut stream = Stream::open(&server, "", None);
    set_state(&mut server.operator(), "Hall", "paused");
    let (id, event) = stream.next();
    assert_eq!(
        (event["type"].as_str(), event["source"].as_str()),
        (Some("room.paused"), Some("/rooms/Hall"))
    );
    server.kill_nine().unwrap();
    server.restart().unwrap();
    set_state(&mut server.operator(), "Hall", "open");
    set_state(&mut server.operator(), "Yard", "draining");
    let mut stream = Stream::open(&server, "?types=room.*", Some(&id));
    let kinds = [stream.next().1["type"].clone(), stream.next().1["type"].clone()];
    assert_eq!(kinds, [json!("room.opened"), json!("room.draining")]);
}

#[test]
fn a_stream_has_the_rooms_and_kinds_it_asks_for_and_bad_questions_are_refused() {
    let server = Server::builder(BINARY).config(config()).start().unwrap();
    let mut operator = server.operator();
    for room in ["Hall", "Yard"] {
        set_state(&mut operator, room, "paused");
        set_state(&mut operator, room, "open");
    }
    let get =
        |operator: &mut Client, query: &str| operator.get(&format!("/events?follow=false{query}")).unwrap();
    let shown = get(&mut operator, "&room=Yard&types=room.paused").text();
    assert_eq!(shown.lines().filter(|line| line.starts_with("data: ")).count(), 1, "{shown}");
    for query in [
        "&room=a b",
        "&types=nothing",
        "&after=x",
        "&since=yesterday",
        "&after=1&since=2026-01-01T00:00:00Z",
        "&follow=maybe",
    ] {
        let query = query.replace(' ', "%20");
        assert_eq!(get(&mut operator, &query).status, 400, "{query}");
    }
    assert!(
        get(&mut operator, "&since=2100-01-01T00:00:00Z")
            .text()
            .lines()
            .all(|line| !line.starts_with("data"))
    );
}

#[test]
fn request_ids_are_for_operators_and_for_destinations_that_ask_for_them() {
    let (asks, does_not) = (Receiver::start(), Receiver::start());
    let server = Server::builder(BINARY).config(config()).start().unwrap();
    let mut operator = server.operator();
    make_webhook(&mut operator, "asks", &asks.url(), &json!({"with_request_ids": true}));
    make_webhook(&mut operator, "does-not", &does_not.url(), &json!({}));
    let joined = native::join(&mut server.visitor(), "Hall").unwrap().json();
    let request_id = joined["request_id"].as_str().unwrap().to_owned();
    let has_both = |receiver: &Receiver| {
        receiver.arrivals().iter().filter(|one| one.event["source"] == "/rooms/Hall").count() >= 2
    };
    wait_until("both have it", TIMEOUT, || has_both(&asks) && has_both(&does_not));
    let said =
        |receiver: &Receiver| receiver.arrivals().iter().map(|one| one.event.to_string()).collect::<String>();
    assert_eq!(said(&asks).matches(&request_id).count(), 1, "AWS's own event carries it, ours does not");
    assert!(!said(&does_not).contains(&request_id));
    assert!(written(&mut operator, 0).iter().any(|event| event["data"]["request_id"] == request_id.as_str()));
    let key = operator.post("/keys", &json!({"name": "looks", "role": "viewer"})).unwrap().json();
    let mut viewer = Client::new(server.private()).with_bearer(key["key"].as_str().unwrap());
    let seen = written(&mut viewer, 0);
    assert!(seen.iter().any(|event| event["type"] == "token_generated" && event["subject"].is_string()));
    assert!(seen.iter().all(|event| !event.to_string().contains(&request_id)));
    let key = operator.post("/keys", &json!({"name": "site", "role": "origin"})).unwrap().json();
    let mut origin = Client::new(server.private()).with_bearer(key["key"].as_str().unwrap());
    assert_eq!(origin.get("/events?follow=false").unwrap().status, 403);
}

#[test]
fn an_outbox_that_nobody_reads_has_no_events_of_visitors() {
    let server = Server::builder(BINARY).config(config()).start().unwrap();
    assert_eq!(native::join(&mut server.visitor(), "Hall").unwrap().status, 200);
    let kinds: Vec<Value> =
        written(&mut server.operator(), 0).iter().map(|event| event["type"].clone()).collect();
    assert!(
        !kinds.contains(&json!("session.begun")) && !kinds.contains(&json!("token_generated")),
        "{kinds:?}"
    );
    assert!(kinds.contains(&json!("room.created")), "{kinds:?}");
}

#[test]
fn the_command_prints_events_as_lines_and_as_json_and_follows() {
    let server = Server::builder(BINARY).config(config()).start().unwrap();
    set_state(&mut server.operator(), "Hall", "paused");
    let command = |arguments: &[&str]| {
        let mut command = Command::new(BINARY);
        command.args(["events", "--url", &format!("http://{}", server.private())]).args(arguments);
        command.env("ANTEROOM_ADMIN_KEY", server.admin_key()).stdin(Stdio::null());
        command
    };
    let output = command(&["--room", "Hall", "--types", "room.paused"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && text.contains("  Hall  room.paused  by=environment  state=paused"),
        "{text}"
    );
    let output = command(&["--types", "room.paused", "--format", "json"]).output().unwrap();
    let event: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(event["specversion"], "1.0");
    let output = command(&["--types", "rom.paused"]).output().unwrap();
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("rom.paused"));
    let mut following = command(&["--follow", "--types", "room.*"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    // It may not be there yet when the state changes, so it changes until a line comes.
    let changing = std::thread::spawn({
        let mut operator = server.operator();
        move || {
            for turn in 0.. {
                let state = if turn % 2 == 0 { "draining" } else { "open" };
                let request = Request::new("PATCH", "/rooms/Yard")
                    .header("Content-Type", "application/json")
                    .body(json!({"state": state}).to_string());
                if operator.send(&request).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    });
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("  Yard  room."), "{line}");
    following.kill().unwrap();
    following.wait().unwrap();
    drop(server);
    changing.join().unwrap();
}
