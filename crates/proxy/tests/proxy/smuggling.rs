//! Requests and answers that two servers could read differently. None may reach the origin, or the client, as it came.

use crate::support::{DEADLINE, Front};
use anteroom_proxy::ProxySettings;
use anteroom_testkit::{Client, Origin, Wire};

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn front(origin: &Origin) -> Front {
    Front::before(origin.address(), ProxySettings::default())
}

/// Sends bytes and reads one answer. Returns its status, 0 where the connection was closed without one, and the targets that
/// the origin has seen, which has found no fault.
#[track_caller]
fn attempt(bytes: &[u8]) -> (u16, Vec<String>) {
    let origin = Origin::answering(HELLO);
    let front = front(&origin);
    let mut wire = Wire::connect(front.address, DEADLINE).unwrap();
    // It may be refused before all of it was read.
    let _ = wire.write(bytes);
    let answer = wire.read_answer().unwrap();
    front.comes_to_rest();
    let (faults, shown) = (origin.faults(), String::from_utf8_lossy(bytes).into_owned());
    assert!(faults.is_empty(), "{shown:?} reached the origin as {faults:?}");
    // What the origin holds must be whole requests and nothing behind them.
    let targets: Vec<String> = origin.requests().into_iter().map(|request| request.target).collect();
    let received: usize = (0..origin.connections())
        .map(|number| String::from_utf8_lossy(&origin.bytes_of(number)).matches("HTTP/1.1\r\n").count())
        .sum();
    assert_eq!(received, targets.len(), "{shown:?}");
    (answer.map_or(0, |answer| answer.status), targets)
}

/// Whatever it is answered, nothing of it reaches the origin.
#[track_caller]
fn is_refused(head: &str) {
    let (status, targets) = attempt(head.as_bytes());
    assert!(targets.is_empty(), "{head:?} reached the origin as {targets:?}");
    assert!(status == 0 || (400..500).contains(&status), "{head:?} was answered {status}");
}

#[test]
fn a_length_and_a_transfer_coding_together_hide_no_second_request() {
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    // Read by its length, the second request is part of the body; read by its coding, it follows.
    for head in [
        "POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /first HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 60\r\n\r\n",
        "POST /first HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n",
    ] {
        let origin = Origin::answering(HELLO);
        let front = front(&origin);
        let mut wire = Wire::connect(front.address, DEADLINE).unwrap();
        wire.write(format!("{head}0\r\n\r\n{smuggled}").as_bytes()).unwrap();
        assert_eq!(wire.read_answer().unwrap().unwrap().status, 200, "{head:?}");
        // hyper goes by the coding and closes afterwards, so the rest is no request.
        assert!(wire.read_answer().unwrap().is_none(), "{head:?}");
        let targets: Vec<String> = origin.requests().into_iter().map(|request| request.target).collect();
        assert_eq!((targets, origin.faults()), (vec!["/first".to_owned()], vec![]), "{head:?}");
    }
}

#[test]
fn malformed_lengths_and_codings_are_refused() {
    for framing in [
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 6",
        "Content-Length: 5, 5",
        "Content-Length: +5",
        "Content-Length: -5",
        "Content-Length: 0x5",
        "Content-Length: 5 5",
        "Content-Length: ",
        "Content-Length: 99999999999999999999999",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: \x0bchunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding\t: chunked",
        "Content-Length : 5",
        " Content-Length: 5",
    ] {
        is_refused(&format!("POST /a HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\nhello"));
    }
    is_refused("POST /a HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
}

#[test]
fn a_length_said_twice_the_same_reaches_the_origin_once() {
    let (status, targets) =
        attempt(b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!((status, targets), (200, vec!["/a".to_owned()]));
}

#[test]
fn malformed_chunks_never_complete_a_request() {
    for chunks in [
        "5\nhello\n0\n\n",
        "5\r\nhello\n0\r\n\r\n",
        "5 \x0b\r\nhello\r\n0\r\n\r\n",
        "5;\n\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "\r\nhello\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "6\r\nhello\r\n0\r\n\r\n",
        "4\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nBad Trailer: a\r\n\r\n",
        "5\r\nhello\r\n0\r\n",
    ] {
        let head = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
        let (status, targets) = attempt_broken(&format!("{head}{chunks}{smuggled}"));
        assert!(targets.is_empty(), "{chunks:?}: {targets:?}");
        assert!(status == 0 || (400..500).contains(&status), "{chunks:?} was answered {status}");
    }
}

/// As [`attempt`], for requests whose head is right and passed on, and whose body then breaks, or never ends.
#[track_caller]
fn attempt_broken(text: &str) -> (u16, Vec<String>) {
    let origin = Origin::answering(HELLO);
    let front = front(&origin);
    let mut wire = Wire::connect(front.address, DEADLINE).unwrap();
    let _ = wire.write(text.as_bytes());
    let _ = wire.finish_writing();
    let answer = wire.read_answer().unwrap();
    front.comes_to_rest();
    assert!(origin.faults().is_empty(), "{:?}", origin.faults());
    let targets = origin.requests().into_iter().map(|request| request.target).collect();
    (answer.map_or(0, |answer| answer.status), targets)
}

#[test]
fn lines_that_end_or_go_on_in_an_unusual_way_do_not_reach_the_origin_so() {
    for head in [
        // Folded lines.
        "GET /a HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
        "GET /a HTTP/1.1\r\n Host: a\r\n\r\n",
        // Bare CR, NUL and other control characters.
        "GET /a HTTP/1.1\r\nHost: a\r\nX: a\rContent-Length: 5\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nX: a\x7fb\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nX\x01: a\r\n\r\n",
        "GET /a\x01b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a\0 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a\tHTTP/1.1\r\nHost: a\r\n\r\n",
        "G\x01T /a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a HTTP/1.1 \r\nHost: a\r\n\r\n",
        "GET /a HTTP/1.2\r\nHost: a\r\n\r\n",
        "GET /a HTTP/2.0\r\nHost: a\r\n\r\n",
        "GET /a\r\n\r\n",
    ] {
        is_refused(head);
    }
    // hyper takes a bare LF for the end of a line, as the standard allows; the origin gets both characters.
    let (status, targets) = attempt(b"GET /a HTTP/1.1\nHost: a\nX: b\n\n");
    assert_eq!((status, targets), (200, vec!["/a".to_owned()]));
}

#[test]
fn hosts_are_one_and_well_formed() {
    for head in [
        "GET /a HTTP/1.1\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost:\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a, b\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: user@a\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a:port\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a:\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a:123456\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: [::1\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: [zz]\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: [::1]x\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\"b\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: ä\r\n\r\n",
    ] {
        is_refused(head);
    }
    for host in
        ["a", "a.example", "A.Example:8080", "127.0.0.1:80", "[::1]", "[::1]:80", "under_score.example"]
    {
        let (status, targets) = attempt(format!("GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        assert_eq!((status, targets), (200, vec!["/a".to_owned()]), "{host}");
    }
}

#[test]
fn a_target_that_is_a_url_must_name_the_same_host_and_becomes_a_path() {
    for head in [
        "GET http://b/a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://a:81/a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://user@a/a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET ftp://a/a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET @evil/a HTTP/1.1\r\nHost: a\r\n\r\n",
        "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n",
        "CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n",
        "TRACE /a HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        is_refused(head);
    }
    for (line, target) in [
        ("GET http://a/b?c=d", "/b?c=d"),
        ("GET http://A", "/"),
        ("GET http://a?c", "/?c"),
        ("GET //evil/a", "//evil/a"),
        ("OPTIONS *", "*"),
        ("OPTIONS /a", "/a"),
    ] {
        let (status, targets) = attempt(format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        assert_eq!((status, targets), (200, vec![target.to_owned()]), "{line}");
    }
}

#[test]
fn what_is_sent_behind_a_wish_to_upgrade_is_no_request_of_the_origins() {
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\nX: smuggled\r\n\r\n";
    for head in [
        // An origin that does not upgrade, and bytes that were sent as if it had.
        "GET /first HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        // Other versions of HTTP, in which requests would pass unseen.
        "GET /first HTTP/1.1\r\nHost: a\r\nConnection: upgrade, http2-settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAA\r\n\r\n",
        // With a body.
        "POST /first HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n\r\nhello",
    ] {
        let origin = Origin::answering(HELLO);
        let front = front(&origin);
        let mut wire = Wire::connect(front.address, DEADLINE).unwrap();
        wire.write(format!("{head}{smuggled}").as_bytes()).unwrap();
        assert_eq!(wire.read_answer().unwrap().unwrap().status, 200, "{head:?}");
        // The second is a request like any other: it came through us, and says so.
        assert_eq!(wire.read_answer().unwrap().unwrap().status, 200, "{head:?}");
        let requests = origin.requests();
        assert_eq!((requests.len(), origin.faults()), (2, vec![]), "{head:?}");
        assert!(requests.iter().all(|request| request.header("cdn-loop") == Some("anteroom")), "{head:?}");
        let is_websocket = requests[0].method == "GET" && head.contains("websocket");
        assert_eq!(requests[0].header("upgrade").is_some(), is_websocket, "{head:?}");
    }
}

#[test]
fn an_answer_that_switches_protocols_without_being_asked_is_refused() {
    for asked in ["", "Connection: upgrade\r\nUpgrade: websocket\r\n"] {
        let origin = Origin::answering(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        );
        let front = front(&origin);
        let answer = front.exchange(format!("GET / HTTP/1.1\r\nHost: a\r\n{asked}\r\nGET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        assert_eq!(answer.matches("HTTP/1.1 502").count(), 2, "{answer}");
        assert!(!answer.contains("evil"));
        front.comes_to_rest();
        assert_eq!(front.origins.view().connections, 0);
    }
}

#[test]
fn answers_that_could_be_read_in_two_ways_are_refused_and_their_connections_not_used_again() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nX: a\r\n folded\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b=c\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
        "nonsense\r\n\r\n",
        "\0\0\0\0",
    ] {
        let origin = Origin::answering(answer);
        let front = front(&origin);
        let told = Client::new(front.address).get("/").unwrap();
        assert_eq!(told.status, 502, "{answer:?}");
        front.comes_to_rest();
        let view = front.origins.view();
        assert_eq!((view.connections, origin.requests().len()), (0, 1), "{answer:?}");
    }
}

#[test]
fn a_second_response_behind_the_first_reaches_no_client() {
    // Who could make an origin answer twice would have the second answer given to the next client.
    let origin = Origin::answering(format!("{HELLO}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"));
    let front = front(&origin);
    let mut client = Client::new(front.address);
    for _ in 0..10 {
        let answer = client.get("/").unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    }
    assert_eq!(origin.requests().len(), 10);
}

#[test]
fn a_request_that_goes_in_a_circle_is_stopped() {
    let passed = ["anteroom"; 8].join(", ");
    is_refused(&format!("GET /a HTTP/1.1\r\nHost: a\r\nCDN-Loop: {passed}\r\n\r\n"));
}
