//! The client against a scripted peer, so that a failing product test is never the client's fault.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{Client, Request, Wire};

/// A peer that takes one connection per script and, for each text in it, waits for a request head and answers with the text.
fn peer(scripts: Vec<Vec<&'static str>>) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = thread::spawn(move || {
        let mut requests = String::new();
        for script in scripts {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in script {
                let mut request = Vec::new();
                let mut byte = [0];
                while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                    request.push(byte[0]);
                }
                requests.push_str(&String::from_utf8_lossy(&request));
                stream.write_all(answer.as_bytes()).unwrap();
            }
        }
        requests
    });
    (address, served)
}

#[test]
fn one_connection_carries_several_answers() {
    let counted = "HTTP/1.1 200 OK\r\ncontent-LENGTH: 2\r\nX-Case: Kept\r\n\r\nab";
    let chunked =
        "HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n";
    let unchanged = "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n";
    let (address, served) = peer(vec![vec![counted, chunked, head, unchanged]]);
    let mut client = Client::new(address).with_bearer("key");
    let first = client.get("/one").unwrap();
    assert_eq!((first.status, first.text().as_str()), (200, "ab"));
    assert_eq!(first.header("x-case"), Some("Kept"));
    let second = client.get("/two").unwrap();
    assert_eq!((second.status, second.text().as_str()), (202, "abcde"));
    assert_eq!(client.send(&Request::new("HEAD", "/three")).unwrap().body, b"");
    assert_eq!(client.get("/four").unwrap().status, 304);
    drop(client);
    let requests = served.join().unwrap();
    assert!(
        requests.starts_with(&format!(
            "GET /one HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer key\r\n\r\n"
        ))
    );
    assert_eq!(requests.matches("HTTP/1.1\r\n").count(), 4);
}

#[test]
fn after_a_close_the_next_request_gets_a_new_connection() {
    let closing = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let (address, served) = peer(vec![vec![closing], vec!["HTTP/1.0 200 OK\r\n\r\nto the end"]]);
    let mut client = Client::new(address);
    assert_eq!(client.get("/").unwrap().status, 400);
    assert_eq!(client.get("/").unwrap().text(), "to the end");
    served.join().unwrap();
}

#[test]
fn raw_bytes_tell_answered_closed_and_silent_apart() {
    let refused = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    let (address, served) = peer(vec![vec![refused], vec![""]]);
    let client = Client::new(address).with_read_timeout(Duration::from_millis(100));
    assert_eq!(client.send_raw(b"\r\n\r\n").unwrap().unwrap().status, 400);
    assert_eq!(client.send_raw(b"\r\n\r\n").unwrap(), None);
    served.join().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Client::new(silent.local_addr().unwrap()).with_read_timeout(Duration::from_millis(50));
    let error = client.send_raw(b"hello").unwrap_err().to_string();
    assert!(error.contains("neither answered nor closed"), "{error}");
}

#[test]
fn a_closed_connection_differs_from_an_open_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut wire = Wire::connect(listener.local_addr().unwrap(), Duration::from_secs(5)).unwrap();
    let (stream, _) = listener.accept().unwrap();
    assert!(!wire.closed_within(Duration::from_millis(50)));
    drop(stream);
    assert!(wire.closed_within(Duration::from_secs(5)));
}

#[test]
fn error_bodies_and_lists_are_read() {
    let answer = super::Answer {
        status: 404,
        headers: vec![("Allow".into(), "GET, HEAD".into()), ("allow".into(), "OPTIONS".into())],
        body: br#"{"error": "no such path"}"#.to_vec(),
    };
    assert_eq!(answer.error(), "no such path");
    assert!(answer.header_lists("ALLOW", "head") && answer.header_lists("allow", "OPTIONS"));
    assert!(!answer.header_lists("Allow", "HE"));
}
