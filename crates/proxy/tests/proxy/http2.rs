//! HTTP/2 from clients and to origins, and TLS to origins.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use crate::site::{Offers, Site};
use crate::support::{DEADLINE, Front, spawn};
use anteroom_proxy::{HealthCheck, Http2ToOrigin, OriginTrust, ProxySettings};
use anteroom_testkit::{Client, Origin, Request as TestRequest, wait_until};
use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::RootCertStore;
use tokio::net::TcpStream;

/// Speaks HTTP/2 to the front.
async fn http2<B>(address: SocketAddr) -> http2::SendRequest<B>
where
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + Unpin + 'static,
{
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    spawn(connection);
    sender
}

fn get(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("http://shop.example{path}")).body(Empty::new()).unwrap()
}

async fn read(response: Response<Incoming>) -> (Bytes, Option<http::HeaderMap>) {
    let collected = response.into_body().collect().await.unwrap();
    let trailers = collected.trailers().cloned();
    (collected.to_bytes(), trailers)
}

fn over_http2(http2: Http2ToOrigin, roots: &RootCertStore) -> ProxySettings {
    ProxySettings { http2, trust: OriginTrust::Roots(roots.clone()), ..ProxySettings::default() }
}

#[test]
fn many_streams_of_one_client_share_few_connections_to_an_origin() {
    let origin = Origin::playing(|connection| {
        while let Some(request) = connection.read_request()? {
            let name = format!("{} {}", request.target, request.header("host").unwrap_or_default());
            connection.write(
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len()).as_bytes(),
            )?;
        }
        Ok(())
    });
    let settings =
        ProxySettings { connections_max: 10, connection_wait: DEADLINE, ..ProxySettings::default() };
    let front = Front::before(origin.address(), settings);
    front.block_on(async {
        let sender = http2(front.address).await;
        let asked: Vec<_> = (0..1_000)
            .map(|number| {
                let mut sender = sender.clone();
                spawn(async move {
                    let response = sender.send_request(get(&format!("/{number}"))).await.unwrap();
                    assert_eq!((response.status().as_u16(), response.version()), (200, Version::HTTP_2));
                    assert_eq!(read(response).await.0, format!("/{number} shop.example"));
                })
            })
            .collect();
        for task in asked {
            task.await.unwrap();
        }
    });
    assert_eq!((origin.requests().len(), origin.faults()), (1_000, vec![]));
    assert!(origin.open_most() <= 10);
    front.comes_to_rest();
}

#[test]
fn a_stream_that_the_client_cancels_ends_at_the_origin() {
    let origin = Origin::playing(|connection| {
        connection.read_request()?;
        connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")?;
        connection.read_request().map(|_| ())
    });
    let front = Front::before(origin.address(), ProxySettings::default());
    front.block_on(async {
        let mut sender = http2(front.address).await;
        let mut response = sender.send_request(get("/")).await.unwrap();
        response.frame().await.unwrap().unwrap();
        drop(response);
        // Another that is cancelled while it waits for its head.
        let waiting = sender.send_request(get("/never"));
        drop(waiting);
    });
    front.comes_to_rest();
    wait_until("the origin's end is closed", DEADLINE, || origin.open() == 0);
}

#[test]
fn cookies_that_http2_has_split_are_one_to_the_origin() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let front = Front::before(origin.address(), ProxySettings::default());
    front.block_on(async {
        let mut request = get("/");
        for cookie in ["a=b", "c=d", "e=f"] {
            request.headers_mut().append("cookie", cookie.parse().unwrap());
        }
        http2(front.address).await.send_request(request).await.unwrap();
    });
    let request = &origin.requests()[0];
    assert_eq!(request.all("cookie"), ["a=b; c=d; e=f"]);
    assert_eq!(
        (request.header("cdn-loop"), request.header("host")),
        (Some("anteroom"), Some("shop.example"))
    );
}

#[test]
fn bodies_and_trailers_pass_from_http2_to_http2() {
    let site = Site::start(Offers::Clear);
    let front = Front::before_all(&[site.url()], over_http2(Http2ToOrigin::Always, &site.roots));
    front.block_on(async {
        let body = Bytes::from(vec![b'x'; 3_000_000]);
        let request = Request::post("http://shop.example/a?b").body(Full::new(body.clone())).unwrap();
        let response = http2(front.address).await.send_request(request).await.unwrap();
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("x-version"), "HTTP/2.0");
        assert_eq!((header("x-host"), header("x-path")), ("shop.example".to_owned(), "/a?b".to_owned()));
        let (read, trailers) = read(response).await;
        assert_eq!(read.len(), body.len());
        assert_eq!(trailers.unwrap()["x-trailer"], "after");
    });
    front.comes_to_rest();
}

#[test]
fn one_http2_connection_carries_many_requests_of_http1_clients() {
    let site = Site::start(Offers::Clear);
    let front = Front::before_all(&[site.url()], over_http2(Http2ToOrigin::Always, &site.roots));
    let address = front.address;
    let clients: Vec<_> = (0..20)
        .map(|_| {
            std::thread::spawn(move || {
                let mut client = Client::new(address);
                for number in 0..20 {
                    let body = format!("body {number}");
                    let answer = client.send(&TestRequest::new("POST", "/").body(body.as_str())).unwrap();
                    assert_eq!((answer.status, answer.text()), (200, body));
                }
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    assert_eq!(
        (site.counts.get(|counts| &counts.http2), site.counts.get(|counts| &counts.connections)),
        (400, 1)
    );
    front.comes_to_rest();
}

#[test]
fn an_http2_connection_that_ended_is_replaced() {
    let mut site = Site::start(Offers::Clear);
    let front = Front::before_all(&[site.url()], over_http2(Http2ToOrigin::Always, &site.roots));
    let mut client = Client::new(front.address);
    assert_eq!(client.get("/").unwrap().status, 200);
    site.stop();
    wait_until("its end was noticed", DEADLINE, || front.origins.view().connections == 0);
    assert_eq!(client.get("/").unwrap().status, 502);
}

#[test]
fn unused_http2_connections_are_closed_too() {
    let site = Site::start(Offers::Clear);
    let settings = ProxySettings {
        idle_timeout: Duration::from_millis(100),
        ..over_http2(Http2ToOrigin::Always, &site.roots)
    };
    let front = Front::before_all(&[site.url()], settings);
    assert_eq!(Client::new(front.address).get("/").unwrap().status, 200);
    wait_until("it is closed", DEADLINE, || front.origins.view().connections == 0);
    assert_eq!(Client::new(front.address).get("/").unwrap().status, 200);
    assert_eq!(site.counts.get(|counts| &counts.connections), 2);
}

#[test]
fn over_tls_the_protocol_is_what_both_sides_want() {
    for (offers, http2, expected) in [
        (Offers::Both, Http2ToOrigin::Never, "HTTP/1.1"),
        (Offers::Both, Http2ToOrigin::Auto, "HTTP/2.0"),
        (Offers::Both, Http2ToOrigin::Always, "HTTP/2.0"),
        (Offers::Http1, Http2ToOrigin::Auto, "HTTP/1.1"),
        (Offers::Http1, Http2ToOrigin::Never, "HTTP/1.1"),
    ] {
        let site = Site::start(offers);
        let front = Front::before_all(&[site.url()], over_http2(http2, &site.roots));
        let mut client = Client::new(front.address);
        for _ in 0..3 {
            let body = vec![b'y'; 100_000];
            let answer = client.send(&TestRequest::new("POST", "/").body(body.clone())).unwrap();
            assert_eq!(
                (answer.status, answer.header("x-version")),
                (200, Some(expected)),
                "{offers:?} {http2:?}"
            );
            assert_eq!(answer.body, body);
        }
        assert_eq!(site.counts.get(|counts| &counts.connections), 1);
        front.comes_to_rest();
    }
}

#[test]
fn an_origin_whose_certificate_is_not_trusted_gets_no_request() {
    let (site, other) = (Site::start(Offers::Both), Site::start(Offers::Both));
    let front = Front::before_all(&[site.url()], over_http2(Http2ToOrigin::Auto, &other.roots));
    let answer = Client::new(front.address).get("/").unwrap();
    assert_eq!((answer.status, answer.header("proxy-error")), (502, Some("connect")));
    assert_eq!(site.counts.get(|counts| &counts.http1) + site.counts.get(|counts| &counts.http2), 0);
}

#[test]
fn an_upgrade_goes_over_http1_even_where_http2_is_spoken() {
    let site = Site::start(Offers::Both);
    let front = Front::before_all(&[site.url()], over_http2(Http2ToOrigin::Auto, &site.roots));
    assert_eq!(Client::new(front.address).get("/").unwrap().header("x-version"), Some("HTTP/2.0"));
    let mut stream = front.connect();
    stream
        .write_all(b"GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
        .unwrap();
    assert!(crate::support::read_until(&mut stream, "switched").starts_with("HTTP/1.1 101"));
    stream.write_all(b"ping").unwrap();
    crate::support::read_until(&mut stream, "ping");
    drop(stream);
    front.comes_to_rest();
}

#[test]
fn origins_that_speak_http2_are_asked_for_their_health_in_it() {
    let site = Site::start(Offers::Both);
    let check =
        HealthCheck { interval: Duration::from_millis(10), ..HealthCheck::new("/health".parse().unwrap()) };
    let settings = ProxySettings { health: Some(check), ..over_http2(Http2ToOrigin::Always, &site.roots) };
    let front = Front::before_all(&[site.url()], settings);
    wait_until("it was asked", DEADLINE, || site.counts.get(|counts| &counts.http2) > 5);
    assert_eq!(front.origins.view().healthy, 1);
}

#[test]
fn an_answer_of_http2_to_an_http1_client_has_its_trailers_only_if_it_wants_them() {
    let site = Site::start(Offers::Clear);
    let front = Front::before_all(&[site.url()], over_http2(Http2ToOrigin::Always, &site.roots));
    let ask =
        |te: &str| front.exchange(format!("GET / HTTP/1.1\r\nHost: a\r\n{te}Connection: close\r\n\r\n"));
    assert!(ask("TE: trailers\r\n").ends_with("0\r\nx-trailer: after\r\n\r\n"));
    assert!(ask("").ends_with("0\r\n\r\n"));
}

/// A header field as HPACK's plainest form: literal, without indexing.
fn literal(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).unwrap();
    [&[0, length(name)], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    [&[0, length[0], length[1], kind, flags, 0, 0, 0, stream], payload].concat()
}

/// Sends a request of bare frames; a good one follows, so that it is known when the first was dealt with.
fn bare_http2(front: &Front, fields: &[(&str, &str)], data: Option<&[u8]>) {
    let block: Vec<u8> = fields.iter().flat_map(|(name, value)| literal(name, value)).collect();
    let end = if data.is_some() { 4 } else { 5 };
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    bytes.extend(frame(1, end, 1, &block));
    if let Some(data) = data {
        bytes.extend(frame(0, 1, 1, data));
    }
    let good = [(":method", "GET"), (":scheme", "http"), (":path", "/good"), (":authority", "a")];
    let block: Vec<u8> = good.iter().flat_map(|(name, value)| literal(name, value)).collect();
    bytes.extend(frame(1, 5, 3, &block));
    let mut stream = front.connect();
    stream.write_all(&bytes).unwrap();
    // Until the good one is answered, or the connection is closed because of the bad one.
    let mut read = vec![];
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        read.extend_from_slice(&buffer[..count]);
        if is_answered(&read, 3) {
            break;
        }
    }
    drop(stream);
    front.comes_to_rest();
}

/// Whether a frame of headers for this stream is among these bytes.
fn is_answered(mut frames: &[u8], stream: u8) -> bool {
    while let [0, high, low, kind, _, _, _, _, on, rest @ ..] = frames {
        if (*kind, *on) == (1, stream) {
            return true;
        }
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        frames = rest.get(length..).unwrap_or_default();
    }
    false
}

#[test]
fn what_would_be_two_requests_in_http1_is_not_even_one_in_http2() {
    let usual = [(":method", "POST"), (":scheme", "http"), (":path", "/bad"), (":authority", "a")];
    let with = |more: &[(&'static str, &'static str)]| [&usual[..], more].concat();
    let instead = |name: &str, value: &'static str| {
        let replaced = usual.map(|(other, was)| if other == name { (other, value) } else { (other, was) });
        replaced.to_vec()
    };
    let smuggled = &b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"[..];
    for (fields, data) in [
        (with(&[("transfer-encoding", "chunked")]), Some(&b"0\r\n\r\n"[..])),
        (with(&[("content-length", "0")]), Some(smuggled)),
        (with(&[("content-length", "10")]), None),
        (with(&[("content-length", "3"), ("content-length", "4")]), Some(&b"abc"[..])),
        (with(&[("connection", "upgrade"), ("upgrade", "websocket")]), None),
        (with(&[("x", "a\r\nContent-Length: 5")]), None),
        (with(&[("x\r\ny", "a")]), None),
        (with(&[("x", "a\0b")]), None),
        (with(&[("X-Upper", "a")]), None),
        (with(&[("x y", "a")]), None),
        (with(&[("host", "b")]), None),
        (with(&[("host", "a"), ("host", "a")]), None),
        (instead(":path", "/bad HTTP/1.1\r\nX: y"), None),
        (instead(":path", "bad"), None),
        (instead(":path", ""), None),
        (instead(":path", "*"), None),
        (instead(":authority", "a/b"), None),
        (instead(":authority", "user@a"), None),
        (instead(":authority", "a b"), None),
        (instead(":method", "GET /x HTTP/1.1\r\nA:"), None),
        (instead(":method", "CONNECT"), None),
        (instead(":scheme", "ftp"), None),
    ] {
        let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let front = Front::before(origin.address(), ProxySettings::default());
        bare_http2(&front, &fields, data);
        let targets: Vec<String> = origin.requests().into_iter().map(|request| request.target).collect();
        assert!(targets.is_empty() || targets == ["/good"], "{fields:?}: {targets:?}");
        assert_eq!(origin.faults(), Vec::<String>::new(), "{fields:?}");
    }
    // The same in good form passes: what was refused above was refused for its fault.
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let front = Front::before(origin.address(), ProxySettings::default());
    bare_http2(&front, &with(&[("content-length", "3"), ("host", "a")]), Some(b"abc"));
    let requests = origin.requests();
    assert!(
        requests.iter().any(|request| request.target == "/bad" && request.body == b"abc"),
        "{requests:?}"
    );
}
