//! Upgrades: a `WebSocket` that echoes, and everything that can go wrong around one.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc;

use crate::support::{DEADLINE, Front, SHORT, read_until};
use anteroom_proxy::ProxySettings;
use anteroom_testkit::{Client, Origin, OriginConnection, wait_until};

const ASK: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// A frame of text as a client sends it, masked.
fn client_frame(text: &[u8]) -> Vec<u8> {
    let mask = [1, 2, 3, 4];
    let length = u8::try_from(text.len()).unwrap();
    assert!(length < 126);
    let masked = text.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
    [0x81, 0x80 | length].into_iter().chain(mask).chain(masked).collect()
}

/// A frame of text as a server sends it.
fn server_frame(text: &[u8]) -> Vec<u8> {
    [0x81, u8::try_from(text.len()).unwrap()].into_iter().chain(text.iter().copied()).collect()
}

/// Answers the handshake, says hello in the same breath, and then echoes frames until the client ends.
fn echo(connection: &mut OriginConnection) -> io::Result<()> {
    let request = connection.read_request()?.ok_or(io::ErrorKind::UnexpectedEof)?;
    assert_eq!(request.header("upgrade"), Some("websocket"));
    assert_eq!(request.header("connection"), Some("upgrade"));
    assert_eq!(request.header("sec-websocket-key"), Some("dGhlIHNhbXBsZSBub25jZQ=="));
    connection.write(&[SWITCHED.as_bytes(), &server_frame(b"hello")].concat())?;
    loop {
        let head = connection.read_bytes(2)?;
        let mask = connection.read_bytes(4)?;
        let masked = connection.read_bytes(usize::from(head[1] & 0x7f))?;
        let text: Vec<u8> = masked.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        connection.write(&server_frame(&text))?;
    }
}

fn read_exactly(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut read = vec![0; count];
    stream.read_exact(&mut read).unwrap();
    read
}

/// A `WebSocket` through the front, after its handshake and the origin's first frame.
fn connected(front: &Front) -> TcpStream {
    let mut stream = front.connect();
    stream.write_all(ASK.as_bytes()).unwrap();
    let head = read_until_head_ends(&mut stream);
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let lower = head.to_ascii_lowercase();
    for field in
        ["upgrade: websocket", "connection: upgrade", "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="]
    {
        assert!(lower.contains(field), "{field} not in {head}");
    }
    assert_eq!(read_exactly(&mut stream, 7), server_frame(b"hello"));
    stream
}

fn read_until_head_ends(stream: &mut TcpStream) -> String {
    let mut head = vec![];
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(read_exactly(stream, 1));
    }
    String::from_utf8(head).unwrap()
}

#[test]
fn a_websocket_echoes_and_counts_as_in_flight_until_it_ends() {
    let origin = Origin::playing(echo);
    let front = Front::before(origin.address(), ProxySettings::default());
    let mut stream = connected(&front);
    for number in 0..100 {
        let text = format!("message {number}");
        stream.write_all(&client_frame(text.as_bytes())).unwrap();
        assert_eq!(read_exactly(&mut stream, text.len() + 2), server_frame(text.as_bytes()));
    }
    assert_eq!(front.origins.view().in_flight, 1);
    drop(stream);
    front.comes_to_rest();
    wait_until("the origin's end is closed", DEADLINE, || origin.open() == 0);
}

#[test]
fn frames_sent_with_the_handshake_wait_for_its_answer() {
    let origin = Origin::playing(echo);
    let front = Front::before(origin.address(), ProxySettings::default());
    let mut stream = front.connect();
    stream.write_all(&[ASK.as_bytes(), &client_frame(b"eager")].concat()).unwrap();
    read_until_head_ends(&mut stream);
    assert_eq!(read_exactly(&mut stream, 7), server_frame(b"hello"));
    assert_eq!(read_exactly(&mut stream, 7), server_frame(b"eager"));
}

#[test]
fn each_side_may_end_first_and_what_is_under_way_still_arrives() {
    let (told, heard) = mpsc::sync_channel(1);
    let origin = Origin::playing(move |connection| {
        connection.read_request()?;
        connection.write(SWITCHED.as_bytes())?;
        // Reads to the client's end, and then still says something.
        let mut all = vec![];
        loop {
            let some = connection.read_some()?;
            if some.is_empty() {
                break;
            }
            all.extend(some);
        }
        told.send(all).unwrap();
        connection.write(b"goodbye")
    });
    let front = Front::before(origin.address(), ProxySettings::default());
    let mut stream = front.connect();
    stream.write_all(ASK.as_bytes()).unwrap();
    read_until_head_ends(&mut stream);
    let sent = vec![b'x'; 1_000_000];
    stream.write_all(&sent).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(heard.recv_timeout(DEADLINE).unwrap(), sent);
    let mut rest = vec![];
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"goodbye");
    front.comes_to_rest();
}

#[test]
fn other_protocols_pass_and_the_origin_may_choose() {
    let origin = Origin::playing(|connection| {
        connection.read_request()?;
        connection
            .write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: bar/2\r\nConnection: Upgrade\r\n\r\n")?;
        let four = connection.read_bytes(4)?;
        connection.write(&four)
    });
    let front = Front::before(origin.address(), ProxySettings::default());
    let mut stream = front.connect();
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: foo, bar/2\r\n\r\n")
        .unwrap();
    assert!(read_until_head_ends(&mut stream).contains("upgrade: bar/2"));
    stream.write_all(b"ping").unwrap();
    read_until(&mut stream, "ping");
}

#[test]
fn a_wish_to_upgrade_that_is_not_granted_is_an_ordinary_request() {
    let origin = Origin::answering("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno");
    let front = Front::before(origin.address(), ProxySettings::default());
    let mut stream = front.connect();
    for _ in 0..3 {
        stream.write_all(ASK.as_bytes()).unwrap();
        assert!(read_until_head_ends(&mut stream).starts_with("HTTP/1.1 426"));
        assert_eq!(read_exactly(&mut stream, 2), b"no");
    }
    front.comes_to_rest();
    // Each began with a connection of its own, so that nothing could stand before it.
    assert_eq!(origin.connections(), 3);
}

#[test]
fn a_tunnel_in_which_nothing_moves_is_closed() {
    let origin = Origin::playing(echo);
    let settings = ProxySettings { tunnel_idle_timeout: SHORT, ..ProxySettings::default() };
    let front = Front::before(origin.address(), settings);
    let mut stream = connected(&front);
    // As long as something moves, it lives longer than the time-out.
    let rounds = 2 * SHORT.as_millis() / 20;
    for _ in 0..rounds {
        stream.write_all(&client_frame(b"tick")).unwrap();
        assert_eq!(read_exactly(&mut stream, 6), server_frame(b"tick"));
        anteroom_testkit::pause();
    }
    let mut rest = vec![];
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
    front.comes_to_rest();
}

#[test]
fn tunnels_take_no_connection_away_from_requests() {
    let origin = Origin::playing(|connection| {
        while let Some(request) = connection.read_head()? {
            if request.header("upgrade").is_some() {
                connection.write(SWITCHED.as_bytes())?;
                connection.read_some()?;
                return Ok(());
            }
            connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
        }
        Ok(())
    });
    let settings = ProxySettings { connections_max: 1, connection_wait: SHORT, ..ProxySettings::default() };
    let front = Front::before(origin.address(), settings);
    let tunnels: Vec<TcpStream> = (0..5)
        .map(|_| {
            let mut stream = front.connect();
            stream.write_all(ASK.as_bytes()).unwrap();
            assert!(read_until_head_ends(&mut stream).starts_with("HTTP/1.1 101"));
            stream
        })
        .collect();
    assert_eq!(Client::new(front.address).get("/").unwrap().status, 200);
    let view = front.origins.view();
    assert_eq!((view.in_flight, view.connections), (5, 1));
    drop(tunnels);
    front.comes_to_rest();
}
