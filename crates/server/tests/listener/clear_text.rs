//! The clear-text listener against real sockets: what a well-behaved client gets, and what the others do not.

use std::time::Duration;

use anteroom_server::listener::{Limits, MAX_HEADERS};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Server, eventually, within_deadline};

/// Longer than any test's deadline: what ends before was not ended by this.
const NEVER: Duration = Duration::from_mins(10);
/// Short enough to wait for, long enough not to hit a client that is merely scheduled late.
const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_connection_carries_many_requests_and_is_counted_once() {
    let server = Server::start(Limits::default(), None).await;
    let mut client = server.connect().await;
    for _ in 0..3 {
        let answer = client.get("/").await;
        assert_eq!((answer.status(), answer.body.as_str()), ("200", "hello"));
    }
    assert_eq!((server.counters.accepted(), server.counters.open()), (1, 1));

    drop(client);
    eventually("the slot is free", || server.counters.open() == 0).await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = Server::start(Limits::default(), None).await;
    let mut client = server.connect().await;
    client.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET /other HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert_eq!(client.read_answer().await.unwrap().body, "hello");
    assert_eq!(client.read_answer().await.unwrap().body, "another");
}

#[tokio::test]
async fn a_client_that_sends_nothing_is_closed() {
    let limits = Limits { header_read_timeout: SHORT, ..Limits::default() };
    let server = Server::start(limits, None).await;
    let mut client = server.connect().await;
    client.read_to_close().await;
    eventually("the slot is free", || server.counters.open() == 0).await;
    assert_eq!(server.calls.started(), 0);
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_last_answer() {
    let limits = Limits { idle_timeout: SHORT, ..Limits::default() };
    let server = Server::start(limits, None).await;
    let mut client = server.connect().await;
    assert_eq!(client.get("/").await.status(), "200");
    client.read_to_close().await;
    eventually("the slot is free", || server.counters.open() == 0).await;
}

#[tokio::test]
async fn a_connection_may_idle_for_longer_than_a_header_may_take() {
    let limits = Limits { header_read_timeout: SHORT, ..Limits::default() };
    let server = Server::start(limits, None).await;
    let mut client = server.connect().await;
    for _ in 0..2 {
        assert_eq!(client.get("/").await.status(), "200");
        // Several header time-outs pass on another connection, measured by the server itself.
        for _ in 0..3 {
            server.connect().await.read_to_close().await;
        }
    }
    assert_eq!(client.get("/").await.status(), "200", "still open");
    // The next header has no more time than the first.
    client.send(b"GET / HTTP/1.1\r\nx: ").await;
    assert!(client.read_to_close().await.is_empty());
    eventually("the slot is free", || server.counters.open() == 0).await;
    assert_eq!(server.calls.started(), 3);
}

#[tokio::test]
async fn in_a_crowd_a_connection_may_idle_no_longer_than_a_header_may_take() {
    let limits = Limits { header_read_timeout: SHORT, max_connections: 3, ..Limits::default() };
    let server = Server::start(limits, None).await;
    let mut early = server.connect().await;
    assert_eq!(early.get("/").await.status(), "200");
    let mut late = server.connect().await;
    assert_eq!(late.get("/").await.status(), "200");
    late.read_to_close().await;
    assert_eq!(early.get("/").await.status(), "200", "the one that came first may stay");
}

#[tokio::test]
async fn a_tunnel_may_be_silent_for_longer_than_a_header_may_take() {
    let limits = Limits { header_read_timeout: SHORT, idle_timeout: SHORT, ..Limits::default() };
    let server = Server::start(limits, None).await;
    let mut client = server.connect().await;
    client.send(b"GET /tunnel HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n").await;
    assert_eq!(client.read_answer().await.unwrap().status(), "101");
    for word in ["one", "two"] {
        client.send(word.as_bytes()).await;
        let mut echo = [0; 3];
        within_deadline(client.0.read_exact(&mut echo)).await.unwrap();
        assert_eq!(echo, word.as_bytes());
        for _ in 0..2 {
            server.connect().await.read_to_close().await;
        }
    }
}

#[tokio::test]
async fn a_header_that_dribbles_in_is_closed_although_it_moves() {
    let limits = Limits { header_read_timeout: SHORT, ..Limits::default() };
    let server = Server::start(limits, None).await;
    let mut client = server.connect().await;
    client.send(b"GET / HTTP/1.1\r\nx: ").await;
    let mut ticks = tokio::time::interval(SHORT / 10);
    within_deadline(async {
        loop {
            ticks.tick().await;
            if server.counters.accepted() == 1 && server.counters.open() == 0 {
                break;
            }
            let _ = client.0.write_all(b"x").await;
        }
    })
    .await;
    assert_eq!(server.calls.started(), 0);
}

#[tokio::test]
async fn a_slow_answer_is_not_a_slow_header() {
    let limits = Limits { header_read_timeout: Duration::from_millis(50), ..Limits::default() };
    let server = Server::start(limits, None).await;
    let mut client = server.connect().await;
    client.send(b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n").await;
    eventually("the request arrived", || server.calls.started() == 1).await;
    // Several header time-outs pass on another connection, measured by the server itself.
    for _ in 0..3 {
        server.connect().await.read_to_close().await;
    }
    server.calls.finish_one();
    assert_eq!(client.read_answer().await.unwrap().body, "finished");
}

#[tokio::test]
async fn an_oversized_header_is_refused_before_the_service_sees_it() {
    let limits = Limits { max_header_bytes: 16 * 1024, ..Limits::default() };
    let server = Server::start(limits, None).await;
    let header = |bytes: usize| format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "y".repeat(bytes));

    assert_eq!(
        {
            let mut client = server.connect().await;
            client.send(header(15 * 1024).as_bytes()).await;
            client.read_answer().await.unwrap().status().to_owned()
        },
        "200",
        "just below the limit"
    );
    let calls_before = server.calls.started();

    for bytes in [17 * 1024, 1024 * 1024] {
        let mut client = server.connect().await;
        // The server may close while we are still sending.
        let _ = client.0.write_all(header(bytes).as_bytes()).await;
        let answer = client.read_to_close().await;
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 431 "),
            "{:?}",
            String::from_utf8_lossy(&answer)
        );
    }
    let mut client = server.connect().await;
    client.send(header(16 * 1024).as_bytes()).await;
    assert_eq!(client.read_answer().await.unwrap().status(), "431", "sent whole, a little over");
    assert_eq!(server.calls.started(), calls_before);
    eventually("the slots are free", || server.counters.open() == 0).await;
}

#[tokio::test]
async fn too_many_header_fields_are_refused() {
    for max_headers in [MAX_HEADERS, 10] {
        let server = Server::start(Limits { max_headers, ..Limits::default() }, None).await;
        for (fields, expected) in [(max_headers, "200"), (max_headers + 1, "431")] {
            let mut client = server.connect().await;
            client.send(format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(fields)).as_bytes()).await;
            assert_eq!(client.read_answer().await.unwrap().status(), expected, "{fields} of {max_headers}");
        }
    }
}

#[tokio::test]
async fn over_the_cap_a_client_is_told_to_come_back_and_a_free_slot_lets_it_in() {
    let server = Server::start(Limits { max_connections: 2, ..Limits::default() }, None).await;
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    assert_eq!(first.get("/").await.status(), "200");
    assert_eq!(second.get("/").await.status(), "200");

    let mut third = server.connect().await;
    let refused = third.get("/").await;
    assert_eq!(refused.status(), "503");
    assert!(refused.head.contains("\r\nretry-after: 1\r\n"), "{}", refused.head);
    assert!(refused.head.contains("\r\nconnection: close\r\n"), "{}", refused.head);
    assert!(third.read_to_close().await.is_empty(), "closed after the answer");
    assert_eq!((server.counters.open(), server.counters.accepted(), server.counters.refused()), (2, 2, 1));
    assert_eq!(server.counters.max(), 2);
    assert_eq!(first.get("/").await.status(), "200", "those inside notice nothing");

    drop(second);
    eventually("a slot is free", || server.counters.open() == 1).await;
    assert_eq!(server.connect().await.get("/").await.status(), "200");
}

#[tokio::test]
async fn a_flood_over_the_cap_does_not_stop_those_inside() {
    const FLOOD: usize = 300;
    let server = Server::start(Limits { max_connections: 1, ..Limits::default() }, None).await;
    let mut inside = server.connect().await;
    assert_eq!(inside.get("/").await.status(), "200");
    let mut flood = Vec::new();
    for _ in 0..FLOOD {
        flood.push(server.connect().await);
    }
    eventually("all were refused", || server.counters.refused() == FLOOD as u64).await;
    assert_eq!(inside.get("/").await.status(), "200");
    assert_eq!(server.counters.open(), 1);
    for mut client in flood {
        assert!(client.read_to_close().await.starts_with(b"HTTP/1.1 503 "));
    }
}

#[tokio::test]
async fn a_client_that_never_reads_is_closed() {
    let limits = Limits { write_stall_timeout: SHORT, ..Limits::default() };
    let server = Server::start(limits, None).await;
    let mut client = server.connect().await;
    client.send(b"GET /big HTTP/1.1\r\nhost: a\r\n\r\n").await;
    eventually("the request arrived", || server.calls.started() == 1).await;
    eventually("the slot is free", || server.counters.open() == 0).await;
}

#[tokio::test]
async fn a_panic_in_the_service_costs_its_connection_only() {
    let server = Server::start(Limits { max_connections: 1, ..Limits::default() }, None).await;
    let mut client = server.connect().await;
    client.send(b"GET /panic HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(client.read_to_close().await.is_empty());
    eventually("the slot is free", || server.counters.open() == 0).await;
    assert_eq!(server.connect().await.get("/").await.status(), "200");
}

#[tokio::test]
async fn a_drain_lets_requests_finish_closes_idle_connections_and_takes_no_new_ones() {
    let server =
        Server::start(Limits { header_read_timeout: NEVER, drain_timeout: NEVER, ..Limits::default() }, None)
            .await;
    let mut silent = server.connect().await;
    let mut idle = server.connect().await;
    assert_eq!(idle.get("/").await.status(), "200");
    let mut busy = server.connect().await;
    busy.send(b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n").await;
    eventually("the request arrived", || server.calls.started() == 2).await;
    eventually("all three are open", || server.counters.open() == 3).await;

    server.trigger.pull();
    assert!(idle.read_to_close().await.is_empty());
    assert!(silent.read_to_close().await.is_empty());
    eventually("only the busy one is left", || server.counters.open() == 1).await;
    assert!(TcpStream::connect(server.address).await.is_err(), "nobody listens any more");
    assert!(!server.task.is_finished());

    server.calls.finish_one();
    let answer = busy.read_answer().await.unwrap();
    assert_eq!((answer.status(), answer.body.as_str()), ("200", "finished"));
    assert!(answer.head.contains("\r\nconnection: close\r\n"), "{}", answer.head);
    let report = within_deadline(server.task).await.unwrap();
    assert_eq!((report.name, report.open_at_shutdown, report.cut), ("test", 3, 0));
    assert_eq!(server.counters.open(), 0);
}

#[tokio::test]
async fn what_outlasts_the_drain_is_cut_and_reported() {
    let server = Server::start(Limits { drain_timeout: SHORT, ..Limits::default() }, None).await;
    let mut busy = server.connect().await;
    busy.send(b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n").await;
    eventually("the request arrived", || server.calls.started() == 1).await;
    let counters = server.counters.clone();
    let report = server.stop().await;
    assert_eq!((report.open_at_shutdown, report.cut), (1, 1));
    assert_eq!((counters.cut(), counters.open()), (1, 0));
    assert!(busy.read_to_close().await.is_empty());
}

#[tokio::test]
async fn a_listener_that_is_dropped_takes_its_connections_along() {
    let server = Server::start(Limits { header_read_timeout: NEVER, ..Limits::default() }, None).await;
    let mut client = server.connect().await;
    assert_eq!(client.get("/").await.status(), "200");
    server.task.abort();
    assert!(client.read_to_close().await.is_empty());
    eventually("the slot is free", || server.counters.open() == 0).await;
}
