//! Messages of every shape, both ways: bodies, heads without bodies, interim answers, trailers, and header fields.

use std::io::Write;
use std::sync::{Mutex, mpsc};

use crate::support::{DEADLINE, Front, read_until};
use anteroom_proxy::{ForwardedPolicy, ProxySettings};
use anteroom_testkit::{Client, Origin, Request, Wire, wait_until};

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn front(origin: &Origin) -> Front {
    Front::before(origin.address(), ProxySettings::default())
}

#[test]
fn one_connection_serves_request_after_request() {
    let origin = Origin::answering(HELLO);
    let front = front(&origin);
    let mut client = Client::new(front.address);
    for number in 0..50 {
        let answer = client.get(&format!("/{number}?a=b")).unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    }
    let targets: Vec<String> = origin.requests().into_iter().map(|request| request.target).collect();
    assert_eq!(targets, (0..50).map(|number| format!("/{number}?a=b")).collect::<Vec<_>>());
    assert_eq!(origin.connections(), 1);
    front.comes_to_rest();
    let seen = front.origins.take_observations();
    assert_eq!((seen.requests, seen.errors), (50, 0));
}

#[test]
fn every_size_of_body_arrives_whole_in_both_directions_and_both_framings() {
    // What comes in goes back, framed in the other way.
    let origin = Origin::playing(|connection| {
        while let Some(request) = connection.read_request()? {
            let body = &request.body;
            if request.header("content-length").is_some() {
                connection.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
                for (number, chunk) in body.chunks(1000).enumerate() {
                    let extension = if number == 0 { ";extension=1" } else { "" };
                    connection.write(format!("{:x}{extension}\r\n", chunk.len()).as_bytes())?;
                    connection.write(chunk)?;
                    connection.write(b"\r\n")?;
                }
                connection.write(b"0\r\n\r\n")?;
            } else {
                connection
                    .write(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()).as_bytes())?;
                connection.write(body)?;
            }
        }
        Ok(())
    });
    let front = front(&origin);
    for size in [1, 1_023, 8_192, 65_536, 300_000, 5_000_000] {
        let body: Vec<u8> = (0..size).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let mut wire = Wire::connect(front.address, DEADLINE).unwrap();
        wire.write(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n").as_bytes())
            .unwrap();
        wire.write(&body).unwrap();
        let answer = wire.read_answer().unwrap().unwrap();
        assert_eq!(answer.body, body, "{size} with a length");
        assert!(answer.header_lists("transfer-encoding", "chunked"));
        wire.write(b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        for chunk in body.chunks(7_000) {
            wire.write(format!("{:x}\r\n", chunk.len()).as_bytes()).unwrap();
            wire.write(chunk).unwrap();
            wire.write(b"\r\n").unwrap();
        }
        wire.write(b"0\r\n\r\n").unwrap();
        let answer = wire.read_answer().unwrap().unwrap();
        assert_eq!(answer.body, body, "{size} in chunks");
        assert_eq!(answer.header("content-length"), Some(size.to_string().as_str()));
    }
    assert_eq!((origin.faults(), origin.connections()), (vec![], 1));
    front.comes_to_rest();
}

#[test]
fn a_get_with_a_chunked_body_keeps_it() {
    let origin = Origin::answering(HELLO);
    let front = front(&origin);
    let answer = front.exchange(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!((origin.requests()[0].body.as_slice(), origin.faults()), (&b"abc"[..], vec![]));
}

#[test]
fn a_post_without_a_body_says_so() {
    let origin = Origin::answering(HELLO);
    let front = front(&origin);
    front.exchange("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(origin.requests()[0].header("content-length"), Some("0"));
}

#[test]
fn a_body_reaches_the_origin_before_it_is_complete_and_an_answer_the_client() {
    let (told, heard) = mpsc::sync_channel(1);
    let (go_on, may_go_on) = mpsc::sync_channel(1);
    let may_go_on = Mutex::new(may_go_on);
    let origin = Origin::playing(move |connection| {
        connection.read_head()?;
        connection.read_line()?;
        told.send(connection.read_bytes(5)?).unwrap();
        connection.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nearly\r\n")?;
        may_go_on.lock().unwrap().recv().unwrap();
        connection.write(b"4\r\nlate\r\n0\r\n\r\n")?;
        while !connection.read_some()?.is_empty() {}
        Ok(())
    });
    let front = front(&origin);
    let mut stream = front.connect();
    stream
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        .unwrap();
    assert_eq!(heard.recv_timeout(DEADLINE).unwrap(), b"first");
    read_until(&mut stream, "early\r\n");
    // The answer has begun, the request goes on.
    stream.write_all(b"6\r\nsecond\r\n0\r\n\r\n").unwrap();
    go_on.send(()).unwrap();
    read_until(&mut stream, "late\r\n0\r\n\r\n");
    wait_until("the rest has arrived", DEADLINE, || {
        origin.bytes_of(0).ends_with(b"6\r\nsecond\r\n0\r\n\r\n")
    });
    front.comes_to_rest();
}

#[test]
fn an_answer_that_comes_before_the_body_is_sent_does_not_stop_the_body() {
    const SIZE: usize = 8_000_000;
    let origin = Origin::playing(|connection| {
        let request = connection.read_head()?.expect("a request");
        connection.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")?;
        assert_eq!(request.header("content-length"), Some(SIZE.to_string().as_str()));
        connection.keep_nothing();
        connection.read_bytes(SIZE)?;
        // Only now may the next request come.
        connection.read_request()?;
        connection.write(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbye")
    });
    let front = front(&origin);
    // It writes everything before it reads anything.
    let mut wire = Wire::connect(front.address, DEADLINE).unwrap();
    wire.write(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {SIZE}\r\n\r\n").as_bytes()).unwrap();
    wire.write(&vec![b'x'; SIZE]).unwrap();
    assert_eq!(wire.read_answer().unwrap().unwrap().body, b"hello");
    front.comes_to_rest();
    assert_eq!(Client::new(front.address).get("/").unwrap().text(), "bye");
    assert_eq!(origin.connections(), 1);
}

#[test]
fn slow_bodies_arrive_byte_by_byte() {
    let origin = Origin::playing(|connection| {
        while let Some(request) = connection.read_request()? {
            connection.write_slowly(b"HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n")?;
            connection.write_slowly(&request.body)?;
        }
        Ok(())
    });
    let front = front(&origin);
    let mut wire = Wire::connect(front.address, DEADLINE).unwrap();
    let body = [b'y'; 300];
    for byte in b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300\r\n\r\n".iter().chain(&body) {
        wire.write(&[*byte]).unwrap();
    }
    assert_eq!(wire.read_answer().unwrap().unwrap().body, body);
    front.comes_to_rest();
}

#[test]
fn a_body_that_the_client_breaks_off_ends_the_connection_to_the_origin() {
    let (told, heard) = mpsc::sync_channel(1);
    let origin = Origin::playing(move |connection| {
        connection.read_head()?;
        let ended = connection.read_bytes(1_000);
        told.send(ended.is_err()).unwrap();
        Ok(())
    });
    let front = front(&origin);
    let mut stream = front.connect();
    stream.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nsome").unwrap();
    wait_until("the origin has some", DEADLINE, || origin.bytes_of(0).ends_with(b"some"));
    drop(stream);
    assert!(heard.recv_timeout(DEADLINE).unwrap(), "the origin must not take it for complete");
    front.comes_to_rest();
    assert_eq!(front.origins.view().connections, 0);
}

#[test]
fn an_answer_that_the_client_does_not_read_to_its_end_ends_the_connection_to_the_origin() {
    let (told, heard) = mpsc::sync_channel(1);
    let origin = Origin::playing(move |connection| {
        connection.read_request()?;
        connection.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n")?;
        let chunk = [&b"10000\r\n"[..], &vec![b'z'; 65_536], b"\r\n"].concat();
        while connection.write(&chunk).is_ok() {}
        told.send(()).unwrap();
        Ok(())
    });
    let front = front(&origin);
    let mut stream = front.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    wait_until("it is in flight", DEADLINE, || front.origins.view().in_flight == 1);
    let mut some = [0; 100];
    std::io::Read::read_exact(&mut stream, &mut some).unwrap();
    drop(stream);
    heard.recv_timeout(DEADLINE).unwrap();
    front.comes_to_rest();
    assert_eq!(front.origins.view().connections, 0);
}

#[test]
fn an_answer_that_the_origin_breaks_off_is_not_complete_for_the_client() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly some",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nonly some\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\nonly some",
    ] {
        let origin = Origin::playing(move |connection| {
            connection.read_request()?;
            connection.write(answer.as_bytes())
        });
        let front = front(&origin);
        let mut wire = Wire::connect(front.address, DEADLINE).unwrap();
        wire.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert!(!matches!(wire.read_answer(), Ok(Some(_))), "{answer:?}");
        front.comes_to_rest();
        assert_eq!((origin.connections(), front.origins.view().connections), (1, 0), "nothing is sent again");
    }
}

#[test]
fn answers_without_a_body_have_none_whatever_they_say() {
    let origin = Origin::playing(|connection| {
        while let Some(request) = connection.read_request()? {
            let answer: &[u8] = match request.target.as_str() {
                "/204" => b"HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n",
                "/304" => b"HTTP/1.1 304 Not Modified\r\nETag: \"e\"\r\nContent-Length: 7\r\n\r\n",
                "/chunked" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                _ => b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
            };
            connection.write(answer)?;
        }
        Ok(())
    });
    let front = front(&origin);
    let mut client = Client::new(front.address);
    let answer = client.send(&Request::new("HEAD", "/")).unwrap();
    assert_eq!((answer.status, answer.header("content-length")), (200, Some("7")), "{answer:?}");
    let answer = client.send(&Request::new("HEAD", "/chunked")).unwrap();
    assert_eq!((answer.status, answer.header("content-length")), (200, None), "{answer:?}");
    let answer = client.get("/204").unwrap();
    assert_eq!((answer.status, answer.header("content-length")), (204, None), "{answer:?}");
    let answer = client.get("/304").unwrap();
    assert_eq!((answer.status, answer.header("etag")), (304, Some("\"e\"")), "{answer:?}");
    assert_eq!(client.send(&Request::new("HEAD", "/")).unwrap().status, 200);
    assert_eq!(origin.connections(), 1);
}

#[test]
fn interim_answers_stay_between_us_and_the_origin() {
    let origin = Origin::answering(format!(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n{HELLO}"
    ));
    let front = front(&origin);
    let answer = front.exchange("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("hello"), "{answer}");
    assert!(!answer.contains("Link"));
}

#[test]
fn a_client_that_waits_for_100_gets_it_and_the_origin_gets_the_body() {
    let origin = Origin::answering(HELLO);
    let front = front(&origin);
    let mut wire = Wire::connect(front.address, DEADLINE).unwrap();
    wire.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n").unwrap();
    assert_eq!(wire.read_answer().unwrap().unwrap().status, 100);
    wire.write(b"abc").unwrap();
    assert_eq!(wire.read_answer().unwrap().unwrap().status, 200);
    let request = &origin.requests()[0];
    assert_eq!((request.body.as_slice(), request.header("expect")), (&b"abc"[..], None));
}

#[test]
fn no_100_is_given_for_a_request_that_is_refused() {
    let origin = Origin::answering(HELLO);
    let front = front(&origin);
    let answer = front.exchange("POST / HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(origin.connections(), 0);
}

#[test]
fn trailers_pass_in_both_directions_but_not_those_that_mean_something_else() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nTrailer: Sum, Content-Length, Set-Cookie\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nabc\r\n0\r\nSum: 3\r\nContent-Length: 7\r\nSet-Cookie: a=b\r\n\r\n",
    );
    let front = front(&origin);
    let answer = front.exchange(
        "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close\r\nTrailer: Digest, Host, Anteroom-Visit\r\n\
         Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nDigest: d\r\nHost: evil\r\nAnteroom-Visit: forged\r\n\r\n",
    );
    assert!(answer.to_ascii_lowercase().ends_with("0\r\nsum: 3\r\n\r\n"), "{answer}");
    let request = &origin.requests()[0];
    assert_eq!(request.trailers, [("digest".to_owned(), "d".to_owned())]);
    assert_eq!((request.header("te"), request.header("connection")), (Some("trailers"), Some("te")));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = Origin::playing(|connection| {
        while let Some(request) = connection.read_request()? {
            let name = &request.target;
            connection.write(
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len()).as_bytes(),
            )?;
        }
        Ok(())
    });
    let front = front(&origin);
    let mut wire = Wire::connect(front.address, DEADLINE).unwrap();
    let requests: String = (0..20)
        .map(|number| format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"))
        .collect::<Vec<_>>()
        .concat();
    wire.write(requests.as_bytes()).unwrap();
    for number in 0..20 {
        assert_eq!(wire.read_answer().unwrap().unwrap().text(), format!("/{number}"));
    }
    assert_eq!((origin.faults(), origin.connections()), (vec![], 1));
}

#[test]
fn fields_of_one_connection_do_not_leave_it() {
    let origin = Origin::answering(
        "HTTP/1.1 200 Fine With Me\r\nContent-Length: 0\r\nConnection: keep-alive, X-Origin-Hop\r\nX-Origin-Hop: 1\r\n\
         Keep-Alive: timeout=5\r\nUpgrade: h2c\r\nProxy-Connection: a\r\nX-End: 2\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n\r\n",
    );
    let front = front(&origin);
    let answer = front.exchange(
        "GET /a HTTP/1.1\r\nHost: shop.example:81\r\nConnection: close, X-Hop, Content-Length, Host\r\nX-Hop: 1\r\n\
         Keep-Alive: 3\r\nProxy-Connection: a\r\nProxy-Authorization: b\r\nProxy: http://evil\r\nTE: gzip\r\n\
         Upgrade: h2c\r\nHTTP2-Settings: AAA\r\nX-End: 2\r\nAnteroom-Visit: forged\r\nanteroom_visit: forged\r\n\
         X_Forwarded_For: 1.2.3.4\r\napi_key: k\r\nCookie: a=b\r\nCookie: c=d\r\n\r\n",
    );
    let request = &origin.requests()[0];
    let names: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
    for gone in [
        "connection",
        "x-hop",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "proxy",
        "te",
        "upgrade",
        "http2-settings",
        "anteroom_visit",
        "x_forwarded_for",
    ] {
        assert!(!names.contains(&gone), "{gone} in {names:?}");
    }
    assert_eq!((request.header("x-end"), request.header("api_key")), (Some("2"), Some("k")));
    assert_eq!(request.all("anteroom-visit"), ["ours"]);
    assert_eq!(request.all("cookie"), ["a=b; c=d"]);
    assert_eq!(request.header("host"), Some("shop.example:81"));
    assert!(answer.starts_with("HTTP/1.1 200 Fine With Me\r\n"), "{answer}");
    let lower = answer.to_ascii_lowercase();
    for gone in ["x-origin-hop", "keep-alive", "upgrade", "proxy-connection"] {
        assert!(!lower.contains(gone), "{gone} in {answer}");
    }
    assert_eq!((lower.matches("set-cookie").count(), lower.matches("x-end: 2").count()), (2, 1));
}

#[test]
fn origins_get_forwarded_fields_as_the_policy_says() {
    let asked = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nX-Forwarded-For: 10.1.1.1\r\nX-Forwarded-Proto: gopher\r\n\
        Forwarded: for=10.1.1.1\r\nX-Real-IP: 10.1.1.1\r\nX-Forwarded-Prefix: /p\r\nVia: 1.0 other\r\nCDN-Loop: other\r\n\r\n";
    let told = |policy| {
        let origin = Origin::answering(HELLO);
        let settings = ProxySettings { forwarded: policy, ..ProxySettings::default() };
        Front::before(origin.address(), settings).exchange(asked);
        let request = origin.requests().remove(0);
        assert_eq!(
            (request.all("cdn-loop"), request.all("via")),
            (vec!["other, anteroom"], vec!["1.0 other"])
        );
        [
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-forwarded-host",
            "forwarded",
            "x-real-ip",
            "x-forwarded-prefix",
        ]
        .map(|name| request.all(name).join(" | "))
    };
    assert_eq!(
        told(ForwardedPolicy::Replace),
        ["192.0.2.7", "http", "a.example", "for=192.0.2.7;proto=http;host=\"a.example\"", "", ""]
    );
    assert_eq!(
        told(ForwardedPolicy::Append),
        [
            "10.1.1.1, 192.0.2.7",
            "gopher, http",
            "a.example",
            "for=10.1.1.1, for=192.0.2.7;proto=http;host=\"a.example\"",
            "10.1.1.1",
            "/p"
        ]
    );
    assert_eq!(told(ForwardedPolicy::Remove), ["", "", "", "", "", ""]);
}

#[test]
fn the_host_is_the_clients_or_the_origins() {
    let origin = Origin::answering(HELLO);
    let settings = ProxySettings { preserve_host: false, ..ProxySettings::default() };
    let front = Front::before(origin.address(), settings);
    front.exchange("GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
    // HTTP/1.0 needs no host; the origin gets one all the same.
    front.exchange("GET / HTTP/1.0\r\n\r\n");
    let hosts: Vec<String> =
        origin.requests().iter().map(|request| request.all("host").join(" | ")).collect();
    assert_eq!(hosts, [origin.address().to_string(), origin.address().to_string()]);
    assert_eq!(origin.requests()[0].header("x-forwarded-host"), Some("a.example"));
    assert_eq!(origin.faults(), Vec::<String>::new());
}

#[test]
fn origins_of_the_oldest_kind_are_understood() {
    let origin = Origin::playing(|connection| {
        let request = connection.read_request()?.expect("a request");
        let extra =
            if request.target == "/keep" { "Connection: keep-alive\r\nContent-Length: 5\r\n" } else { "" };
        connection.write(format!("HTTP/1.0 200 OK\r\n{extra}\r\nhello").as_bytes())?;
        if request.target == "/keep" { connection.read_request().map(|_| ()) } else { Ok(()) }
    });
    let front = front(&origin);
    let mut client = Client::new(front.address);
    assert_eq!(client.get("/").unwrap().text(), "hello");
    assert_eq!(client.get("/keep").unwrap().text(), "hello");
    // It could be used again, but the next request might have a body that HTTP/1.0 cannot carry.
    let chunked = "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
    let answer = front.exchange(format!("PUT / HTTP/1.1\r\nHost: a\r\n{chunked}"));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let last = origin.requests().pop().unwrap();
    assert_eq!(
        (last.version.as_str(), last.body.as_slice(), origin.connections()),
        ("HTTP/1.1", &b"ab"[..], 3)
    );
}

#[test]
fn clients_of_the_oldest_kind_are_served() {
    let origin =
        Origin::answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    let front = front(&origin);
    let answer = front.exchange("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.0 200") && answer.ends_with("\r\n\r\nhello"), "{answer}");
    assert_eq!(origin.requests()[0].version, "HTTP/1.1");
}
