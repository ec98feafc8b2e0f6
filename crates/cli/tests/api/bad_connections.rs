//! "Slow headers, half-open connections: … a closed connection, … nothing changed": connections that say too little or
//! nothing are closed in time, and the server goes on answering everybody else meanwhile and afterwards.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anteroom_testkit::{Client, Server, Wire, aws, full, now, pause, wait_until};
use socket2::{Domain, Socket, Type};

use crate::support::BINARY;
use crate::support::metrics::{metric, wait_for_metric};

/// The server is told to wait one second; the rest is for a busy machine.
const CLOSED_WITHIN: Duration = Duration::from_secs(15);
const CONFIG: &str = "
    header_read_timeout_seconds = 1
    [[room]]
    id = \"Sample\"
";

fn start(config: &str) -> Server {
    Server::builder(BINARY).config(config).memory().start().expect("the server starts")
}

fn connect(server: &Server) -> Wire {
    Wire::connect(server.public(), CLOSED_WITHIN).expect("the server accepts")
}

#[test]
fn a_connection_that_says_nothing_is_closed() {
    let server = start(CONFIG);
    let mut silent: Vec<Wire> = (0..20).map(|_| connect(&server)).collect();
    let mut line = server.line("Sample");
    line.join();
    for wire in &mut silent {
        assert!(wire.closed_within(CLOSED_WITHIN));
    }
    let mut private = Wire::connect(server.private(), CLOSED_WITHIN).unwrap();
    assert!(private.closed_within(CLOSED_WITHIN), "the private listener too");
    assert_eq!((line.serving(), line.waiting()), (0, 1));
}

#[test]
fn a_connection_between_two_requests_is_kept_for_as_long_as_configured() {
    let ask = |wire: &mut Wire| {
        wire.write(b"GET /serving_num?event_id=Sample HTTP/1.1\r\nHost: x\r\n\r\n").expect("it is open");
        let answer = wire.read_answer().expect("an answer in time");
        assert_eq!(answer.map(|answer| answer.status), Some(200));
    };
    let server = start(CONFIG);
    let mut kept = connect(&server);
    ask(&mut kept);
    // Longer than a header may take, twice, by the server's own measure.
    for _ in 0..2 {
        assert!(connect(&server).closed_within(CLOSED_WITHIN));
    }
    ask(&mut kept);
    let hasty = start(&format!("idle_timeout_seconds = 1\n{CONFIG}"));
    let mut kept = connect(&hasty);
    ask(&mut kept);
    assert!(kept.closed_within(CLOSED_WITHIN));
}

#[test]
fn a_head_that_stops_half_way_is_closed() {
    let server = start(CONFIG);
    let heads =
        ["G", "GET /serving_num?event_id=Sample", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: x\r\nX: "];
    let mut wires = heads.map(|head| {
        let mut wire = connect(&server);
        wire.write(head.as_bytes()).expect("the first bytes can be sent");
        wire
    });
    for (wire, head) in wires.iter_mut().zip(heads) {
        assert!(wire.closed_within(CLOSED_WITHIN), "{head:?}");
    }
    assert_eq!(server.line("Sample").waiting(), 0);
}

#[test]
fn a_head_that_trickles_in_is_cut_off_although_it_never_pauses() {
    let server = start(CONFIG);
    let mut wire = connect(&server);
    wire.write(b"GET /serving_num?event_id=Sample HTTP/1.1\r\nHost: x\r\nX: ").unwrap();
    let started = now();
    // A byte every poll interval, for ever: the timeout is for the whole head, not between two bytes.
    wait_until("a trickling head is cut off", CLOSED_WITHIN, || wire.write(b"x").is_err());
    assert!(started.elapsed() > Duration::from_millis(900), "closed after {:?}", started.elapsed());
}

#[test]
fn a_peer_that_stops_writing_in_the_middle_is_let_go() {
    let server = start(CONFIG);
    let pieces = [
        "",
        "GET /serving_num?event_id=Sample HTTP/1.1\r\nHo",
        "POST /assign_queue_num HTTP/1.1\r\nHost: x\r\nContent-Length: 24\r\n\r\n{\"event_id\": \"Pati",
        "POST /assign_queue_num HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n18\r\n{\"event_id\": \"Pati",
    ];
    for piece in pieces {
        let mut wire = connect(&server);
        wire.write(piece.as_bytes()).unwrap();
        wire.finish_writing().unwrap();
        let answer = wire.read_answer().unwrap_or_else(|error| panic!("{piece:?}: {error:#}"));
        assert!(
            answer.as_ref().is_none_or(|answer| (400..500).contains(&answer.status)),
            "{piece:?}: {answer:?}"
        );
        assert!(wire.closed_within(CLOSED_WITHIN), "{piece:?}");
    }
    let mut line = server.line("Sample");
    assert_eq!(line.waiting(), 0, "an unfinished join is no join");
    let first = line.join();
    assert_eq!(line.position(&first), 1);
}

#[test]
fn a_body_that_stops_half_way_is_closed() {
    let server = start(CONFIG);
    let mut wire = connect(&server);
    wire.write(b"POST /assign_queue_num HTTP/1.1\r\nHost: x\r\nContent-Length: 24\r\n\r\n{\"event_id\": ")
        .unwrap();
    // Answered 408 or just closed, but not held for ever.
    assert!(wire.closed_within(Duration::from_secs(40)));
    assert_eq!(server.line("Sample").waiting(), 0);
}

#[test]
fn peers_that_vanish_with_a_request_under_way_do_no_harm() {
    let server = start(CONFIG);
    for _ in 0..50 {
        let mut wire = connect(&server);
        wire.write(b"GET /serving_num?event_id=Sample HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        drop(wire);
    }
    let mut line = server.line("Sample");
    line.join();
    assert_eq!(line.waiting(), 1);
    assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
}

#[test]
fn more_silent_connections_than_the_cap_allows_do_not_lock_visitors_out() {
    let server = start(&format!("max_connections = 4\n{CONFIG}"));
    let silent: Vec<Wire> = (0..20).map(|_| connect(&server)).collect();
    wait_until("a visitor gets through", CLOSED_WITHIN, || {
        let mut visitor = Client::new(server.public()).with_read_timeout(CLOSED_WITHIN);
        let answer = aws::serving_num(&mut visitor, "Sample");
        pause();
        answer.is_ok_and(|answer| answer.status == 200)
    });
    drop(silent);
    let mut line = server.line("Sample");
    line.join();
    assert_eq!(line.waiting(), 1);
}

/// A connection from this address of the machine.
fn connect_from(server: &Server, source: [u8; 4]) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((source, 0)).into()).expect("an address of this machine");
    socket.connect(&server.public().into()).expect("the server accepts");
    TcpStream::from(socket)
}

#[test]
fn one_address_with_many_connections_leaves_the_others_theirs() {
    // As many connections as there are, and some more.
    let (connections, slots) = if full() { (10_000, 9_000) } else { (450, 400) };
    rlimit::increase_nofile_limit(u64::MAX).expect("the limit can be read");
    let config = format!(
        "max_connections = {slots}\nlimits_exempt = \"none\"\nheader_read_timeout_seconds = 300\n\
         idle_timeout_seconds = 300\n[[room]]\nid = \"Hall\"\n"
    );
    let server = Server::builder(BINARY).config(config).memory().start().unwrap();
    let held: Vec<TcpStream> = (0..connections).map(|_| connect_from(&server, [127, 0, 0, 9])).collect();
    let refused = "anteroom_public_connections_refused_of_client_total";
    let share = slots / 4;
    wait_for_metric(&server, refused, |refused| refused == connections - share);
    // Three others, each with as many as the first one has.
    let others: Vec<TcpStream> = (0..share * 3 - 1)
        .map(|number| connect_from(&server, [127, 0, 1, u8::try_from(1 + number % 3).expect("few")]))
        .collect();
    let open = "anteroom_public_connections_open";
    wait_for_metric(&server, open, |open| open == share * 4 - 1);
    assert_eq!(server.visitor().get("/rooms/Hall").expect("an answer").status, 200, "the last slot");
    assert_eq!(metric(&server, refused), connections - share, "nobody else was refused");
    drop(held);
    wait_for_metric(&server, open, |open| open < share * 3);
    let mut again = connect_from(&server, [127, 0, 0, 9]);
    again.write_all(b"GET /rooms/Hall HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("a request");
    let mut answer = String::new();
    again.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(others);
}
