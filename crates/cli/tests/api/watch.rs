//! `GET /watch` in clear text: the board as server-sent events, the same bytes to everybody, as clients see them.

use anteroom_testkit::{Request, Server, now, wait_until};
use serde_json::json;

use crate::support::BINARY;
use crate::support::metrics::{metric, wait_for_metric};
use crate::support::watch::{DEADLINE, Watcher, connect, streams};

fn start(config: &str) -> Server {
    let config = format!("{config}\n[[room]]\nid = \"Hall\"\n[[room]]\nid = \"Other\"\n");
    Server::builder(BINARY).config(config).memory().start().expect("the server starts")
}

#[test]
fn the_present_board_comes_first_and_every_change_after_it() {
    let server = start("");
    let mut line = server.line("Hall");
    line.join_many(3);
    let mut watcher = Watcher::open(&server, "Hall");
    let date = watcher.head.lines().find(|line| line.starts_with("date: ")).expect("a date").to_owned();
    assert_eq!(
        watcher.head,
        format!(
            "http/1.1 200 ok\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\n\
             access-control-allow-origin: *\r\nx-accel-buffering: no\r\nconnection: close\r\n{date}\r\n\r\n"
        )
    );
    assert!((2_000..=8_000).contains(&watcher.retry), "{}", watcher.retry);
    let first = watcher.next_board();
    assert_eq!(first.lines.len(), 3, "{first:?}");
    let figures = server.visitor().get("/rooms/Hall").unwrap();
    assert_eq!(first.field("data"), Some(figures.text().as_str()), "the same bytes as GET /rooms/Hall");
    let board = first.board();
    assert_eq!((&board["room"], &board["joined"], &board["waiting"]), (&"Hall".into(), &3.into(), &3.into()));

    line.advance(2);
    let second = watcher.board_with("serving", 2);
    assert_ne!(first.id(), second.id());
    line.join();
    let third = watcher.board_with("joined", 4);
    assert_ne!(second.id(), third.id(), "who only joins makes an id too");
    assert_eq!(metric(&server, &streams("taken")), 1);
    assert_eq!(metric(&server, &streams("tls")), 0);
    assert!(metric(&server, "anteroom_watch_pushes_total") >= 2);
    assert!(metric(&server, "anteroom_watch_push_seconds_count") >= 2);
    let counted = "anteroom_requests_total{listener=\"public\",route=\"/watch\",status=\"200\"}";
    assert_eq!(metric(&server, counted), 1);
}

#[test]
fn all_watchers_of_a_room_get_the_same_bytes_and_none_of_another_room() {
    let server = start("watch_interval_milliseconds = 10");
    let mut watchers =
        [Watcher::open(&server, "Hall"), Watcher::open_with(&server, "/.anteroom/watch?room=%48all", "")];
    let mut stranger = Watcher::open(&server, "Other");
    let mut line = server.line("Hall");
    for watcher in &mut watchers {
        watcher.board_with("serving", 0);
    }
    for serving in 1..=5 {
        line.advance(1);
        let [one, other] = watchers.each_mut().map(|watcher| watcher.board_with("serving", serving));
        assert_eq!(one, other);
    }
    server.line("Other").advance(7);
    let boards = [stranger.next_board(), stranger.next_board()].map(|event| event.board()["serving"].clone());
    assert_eq!(boards, [0, 7], "nothing of the other room came in between");
}

#[test]
fn who_comes_back_with_the_present_edition_is_told_only_what_is_new() {
    let server = start("watch_interval_milliseconds = 10");
    let mut line = server.line("Hall");
    line.join();
    let id = Watcher::open(&server, "Hall").next_board().id();
    let mut known = Watcher::open_with(&server, "/watch?room=Hall", &format!("Last-Event-ID: {id}\r\n"));
    assert!(known.next_raw().is_keep_alive(), "nothing has changed");
    line.advance(1);
    let event = known.next_board();
    assert_eq!(event.board()["serving"], 1);
    // Boards are absolute, so whatever else a client knows, the present one is all it needs.
    for outdated in [
        id.as_str(),
        "0",
        "",
        "99999999-9",
        "nonsense of some length, which is no edition of ours at all, is it",
    ] {
        let header = format!("Last-Event-ID: {outdated}\r\n");
        let mut watcher = Watcher::open_with(&server, "/watch?room=Hall", &header);
        assert_eq!(watcher.next_raw(), event, "{outdated:?}");
    }
}

#[test]
fn many_changes_make_few_events_and_the_last_state_always_arrives() {
    const CHANGES: i64 = 300;
    let server = start("watch_interval_milliseconds = 200");
    let mut watcher = Watcher::open(&server, "Hall");
    assert_eq!(watcher.next_board().board()["serving"], 0);
    let mut line = server.line("Hall");
    let started = now();
    for _ in 0..CHANGES {
        line.advance(1);
    }
    let mut boards = Vec::new();
    while boards.last() != Some(&CHANGES) {
        boards.push(watcher.next_board().board()["serving"].as_i64().unwrap());
    }
    let most = started.elapsed().as_millis() / 200 + 2;
    assert!(boards.len() as u128 <= most, "{boards:?} in {:?}", started.elapsed());
    assert!(boards.is_sorted(), "{boards:?}");
}

#[test]
fn a_quiet_stream_gets_keep_alives_and_stays_open() {
    let server = start("watch_keep_alive_seconds = 1\nheader_read_timeout_seconds = 1");
    let mut watchers: Vec<Watcher> = (0..20).map(|_| Watcher::open(&server, "Hall")).collect();
    for watcher in &mut watchers {
        watcher.next_board();
        for _ in 0..3 {
            assert!(watcher.next_raw().is_keep_alive());
        }
    }
    assert_eq!(metric(&server, &streams("taken")), 20);
    // Counted when a whole slice has been sent, which is after the client has read its own.
    wait_until("the keep-alives are counted", DEADLINE, || {
        metric(&server, "anteroom_watch_keep_alives_total") >= 60
    });
    server.line("Hall").advance(1);
    for watcher in &mut watchers {
        watcher.board_with("serving", 1);
    }
}

#[test]
fn a_client_that_leaves_frees_its_place() {
    let server = start("");
    let mut watchers: Vec<Watcher> = (0..30).map(|_| Watcher::open(&server, "Hall")).collect();
    for watcher in &mut watchers {
        watcher.next_board();
    }
    assert_eq!(metric(&server, &streams("taken")), 30);
    let stayed = watchers.split_off(20);
    drop(watchers);
    wait_for_metric(&server, &streams("taken"), |open| open == 10);
    wait_for_metric(&server, "anteroom_public_connections_open", |open| open == 10);
    server.line("Hall").advance(1);
    for mut watcher in stayed {
        watcher.board_with("serving", 1);
    }
    assert_eq!(metric(&server, "anteroom_watch_slow_readers_total"), 0, "leaving is not being slow");
}

#[test]
fn streams_leave_connections_for_everybody_else() {
    let server = start("max_connections = 20");
    let mut watchers: Vec<Watcher> = (0..19).map(|_| Watcher::open(&server, "Hall")).collect();
    for watcher in &mut watchers {
        watcher.next_board();
    }
    let mut visitor = server.visitor();
    let refused = visitor.get("/watch?room=Hall").unwrap();
    assert_eq!((refused.status, refused.header("Retry-After")), (503, Some("1")), "{refused:?}");
    assert_eq!(visitor.get("/rooms/Hall").unwrap().status, 200, "on the same connection");
    drop(visitor);
    // Its connection is free once the server has seen that it is gone.
    wait_until("a connection is free", DEADLINE, || {
        let joined = server.visitor().post("/join", &json!({"room": "Hall"}));
        joined.is_ok_and(|joined| joined.status == 200)
    });
    for watcher in &mut watchers {
        watcher.board_with("joined", 1);
    }
}

#[test]
fn what_is_not_a_good_request_is_answered_before_anything_is_taken_out() {
    let server = start("");
    let mut visitor = server.visitor();
    let get = |target: &str, accept: &str| Request::new("GET", target).header("Accept", accept);
    for (request, status) in [
        (get("/watch", "*/*"), 404),
        (get("/watch?room=", "*/*"), 404),
        (get("/watch?room=Nowhere", "text/event-stream"), 404),
        (get("/watch?room=hall", "text/event-stream"), 404),
        (get("/watch?room=Hall&room=Hall", "*/*"), 400),
        (get("/watch?room=Hall", "text/html"), 406),
        (get("/watch?room=Hall", "text/event-stream;q=0, */*"), 406),
        (Request::new("POST", "/watch?room=Hall"), 405),
        (Request::new("DELETE", "/watch?room=Hall"), 405),
        (Request::new("OPTIONS", "/watch?room=Hall"), 200),
        (get("/watch/?room=Hall", "*/*"), 404),
    ] {
        let answer = visitor.send(&request).expect("an answer on the same connection");
        assert_eq!(answer.status, status, "{request:?}: {answer:?}");
    }
    let head = visitor.send(&Request::new("HEAD", "/watch?room=Hall")).unwrap();
    assert_eq!((head.status, head.header("Content-Type")), (200, Some("text/event-stream")), "{head:?}");
    assert_eq!(visitor.get("/rooms/Hall").unwrap().status, 200, "HEAD takes nothing out");
    assert_eq!(
        server.operator().get("/watch?room=Hall").unwrap().status,
        404,
        "the private listener has none"
    );
    assert_eq!(metric(&server, &streams("taken")), 0);
    assert_eq!(metric(&server, "anteroom_public_connections_open"), 1);
}

#[test]
fn odd_clients_get_a_stream_all_the_same() {
    let server = start("watch_interval_milliseconds = 10");
    let open = |request: &str| {
        let mut watcher = Watcher::send(connect(server.public()), request.as_bytes());
        assert!(watcher.head.starts_with("http/1.1 200 ok\r\n"), "{}", watcher.head);
        watcher.read_retry();
        watcher.next_board();
        watcher
    };
    let mut watchers = [
        open("GET /watch?room=Hall HTTP/1.0\r\n\r\n"),
        open("GET /watch?room=Hall HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"),
        // What is pipelined behind a stream is not answered: the stream ends with its connection, and says so.
        open("GET /watch?room=Hall HTTP/1.1\r\nHost: a\r\n\r\nGET /rooms/Hall HTTP/1.1\r\nHost: a\r\n\r\n"),
        open("GET http://a/watch?room=Hall HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n"),
    ];
    // An answer that is pipelined before it comes whole.
    let request =
        "GET /rooms/Hall HTTP/1.1\r\nHost: a\r\n\r\nGET /watch?room=Hall HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut behind = Watcher::send(connect(server.public()), request.as_bytes());
    let length = behind.head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let body = behind.read_exactly(length.parse().unwrap());
    assert!(body.starts_with("{\"room\":\"Hall\""), "{body}");
    behind.read_head();
    behind.read_retry();
    behind.next_board();

    server.line("Hall").advance(1);
    for watcher in watchers.iter_mut().chain([&mut behind]) {
        watcher.board_with("serving", 1);
    }
    // A client that does not stop talking has not understood.
    let talker = &mut watchers[0];
    wait_until("the talker is cut off", DEADLINE, || talker.chatter(&[b'x'; 4_096]).is_err());
    wait_for_metric(&server, &streams("taken"), |open| open == 4);
}

#[test]
fn what_an_operator_does_to_a_room_shows_on_its_stream() {
    let server = start("watch_interval_milliseconds = 10");
    let (mut hall, mut other) = (Watcher::open(&server, "Hall"), Watcher::open(&server, "Other"));
    assert_eq!(hall.next_board().board()["state"], "open");
    other.next_board();
    let mut operator = server.operator();
    for state in ["paused", "closed"] {
        let body = serde_json::json!({"state": state}).to_string();
        let change =
            Request::new("PATCH", "/rooms/Hall").header("Content-Type", "application/json").body(body);
        assert_eq!(operator.send(&change).unwrap().status, 200);
        hall.board_with("state", state);
    }
    assert_eq!(operator.send(&Request::new("DELETE", "/rooms/Hall")).unwrap().status, 204);
    assert_eq!(hall.read_to_end(), "event: gone\ndata: {\"room\":\"Hall\"}\n\n");
    assert_eq!(
        server.visitor().get("/watch?room=Hall").unwrap().status,
        404,
        "who comes back is told to stay away"
    );
    wait_for_metric(&server, &streams("taken"), |open| open == 1);

    // A room of the same name is another room, with a stream of its own.
    let make = Request::new("PUT", "/rooms/Hall").header("Content-Type", "application/json").body("{}");
    assert_eq!(operator.send(&make).unwrap().status, 201);
    let mut again = Watcher::open(&server, "Hall");
    assert_eq!(again.next_board().board()["serving"], 0);
    server.line("Hall").advance(3);
    again.board_with("serving", 3);
    server.line("Other").advance(1);
    other.board_with("serving", 1);
}

#[test]
fn a_shutdown_closes_streams_at_once_and_waits_for_none() {
    let mut server = start("drain_timeout_seconds = 3600");
    let mut watchers: Vec<Watcher> = (0..20).map(|_| Watcher::open(&server, "Hall")).collect();
    for watcher in &mut watchers {
        watcher.next_board();
    }
    let ended = server.terminate().expect("it ends without waiting for the drain's time-out");
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(ended.stderr.contains("draining") && ended.stderr.contains("connections=20"), "{}", ended.stderr);
    assert!(ended.stderr.contains("cut=0"), "{}", ended.stderr);
    let mut moments: Vec<u64> = watchers.iter().map(|watcher| watcher.retry).collect();
    for mut watcher in watchers {
        assert_eq!(watcher.read_to_end(), "");
    }
    moments.sort_unstable();
    moments.dedup();
    assert!(moments.len() > 10, "they come back at different moments: {moments:?}");
}
