//! The listener over TLS: both protocols, certificates exchanged while running, and clients that stall.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the way to fail")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anteroom_server::listener::Limits;
use anteroom_server::tls::{ALPN_HTTP1, ALPN_HTTP2, Certificates};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::{Client, Server, eventually, spawn, within_deadline};

const SHORT: Duration = Duration::from_millis(300);

const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// GET https / as three indexes of the static table.
const GET_ROOT: [u8; 3] = [0x82, 0x87, 0x84];
/// The same for /slow, whose path is spelt out.
const GET_SLOW: [u8; 9] = [0x82, 0x87, 0x04, 5, b'/', b's', b'l', b'o', b'w'];
/// The same for /big.
const GET_BIG: [u8; 8] = [0x82, 0x87, 0x04, 4, b'/', b'b', b'i', b'g'];

/// A certificate and its key, made for this test.
struct Pair {
    certificate_pem: String,
    key_pem: String,
    certificate: CertificateDer<'static>,
}

fn pair() -> Pair {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    Pair {
        certificate_pem: made.cert.pem(),
        key_pem: made.signing_key.serialize_pem(),
        certificate: made.cert.der().clone(),
    }
}

/// The files an operator would have.
struct Files {
    _directory: TempDir,
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    fn of(pair: &Pair) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let files = Self {
            certificate: directory.path().join("server.crt"),
            key: directory.path().join("server.key"),
            _directory: directory,
        };
        files.write(&pair.certificate_pem, &pair.key_pem);
        files
    }

    fn write(&self, certificate: &str, key: &str) {
        std::fs::write(&self.certificate, certificate).unwrap();
        std::fs::write(&self.key, key).unwrap();
    }

    fn load(&self) -> Arc<Certificates> {
        Arc::new(Certificates::load(&self.certificate, &self.key).unwrap())
    }
}

/// A handshake by a client that trusts exactly `trusted`.
async fn connect(server: &Server, trusted: &[&Pair], alpn: &[&[u8]]) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    for pair in trusted {
        roots.add(pair.certificate.clone()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    within_deadline(TlsConnector::from(Arc::new(config)).connect(name, stream)).await.unwrap()
}

fn presented(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    stream.get_ref().1.peer_certificates().unwrap()[0].clone()
}

async fn http2_client(server: &Server, pair: &Pair) -> SendRequest<Empty<Bytes>> {
    let stream = connect(server, &[pair], &[ALPN_HTTP2]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(ALPN_HTTP2));
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    spawn(connection);
    sender
}

async fn http2_get(sender: &mut SendRequest<Empty<Bytes>>, path: &str) -> hyper::Result<(u16, String)> {
    let request = Request::get(format!("https://localhost{path}")).body(Empty::new()).unwrap();
    let response = within_deadline(sender.send_request(request)).await?;
    let status = response.status().as_u16();
    let body = within_deadline(response.into_body().collect()).await?.to_bytes();
    Ok((status, String::from_utf8(body.to_vec()).unwrap()))
}

fn frame(kind: u8, flags: u8, stream_id: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream_id.to_be_bytes());
    frame.extend(payload);
    frame
}

/// An HTTP/2 client that opens no window it is not told to open, and answers every ping.
struct Stingy(TlsStream<TcpStream>);

impl Stingy {
    async fn connect(server: &Server, pair: &Pair) -> Self {
        let mut client = Self(connect(server, &[pair], &[ALPN_HTTP2]).await);
        client.0.write_all(HTTP2_PREFACE).await.unwrap();
        // SETTINGS_INITIAL_WINDOW_SIZE is 0.
        assert!(client.send(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]).await);
        client
    }

    /// Whether the server still listens.
    async fn send(&mut self, kind: u8, flags: u8, stream_id: u32, payload: &[u8]) -> bool {
        within_deadline(self.0.write_all(&frame(kind, flags, stream_id, payload))).await.is_ok()
    }

    async fn ask(&mut self, stream_id: u32, fields: &[u8]) -> bool {
        self.send(HEADERS, 0x5, stream_id, fields).await
    }

    async fn open_window(&mut self, stream_id: u32, bytes: u32) -> bool {
        self.send(WINDOW_UPDATE, 0, stream_id, &bytes.to_be_bytes()).await
    }

    /// The next frame: kind, stream and payload; `None` once the server has closed.
    async fn next(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        within_deadline(self.0.read_exact(&mut head)).await.ok()?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        within_deadline(self.0.read_exact(&mut payload)).await.ok()?;
        if head[3] == PING && head[4] == 0 {
            self.send(PING, 1, 0, &payload).await;
        }
        Some((head[3], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload))
    }

    /// The payload of the next frame of this kind.
    async fn next_of(&mut self, kind: u8) -> Vec<u8> {
        loop {
            let (found, _, payload) = self.next().await.expect("still open");
            if found == kind {
                return payload;
            }
        }
    }

    /// The kinds of all frames until the server closes.
    async fn kinds_to_close(&mut self) -> Vec<u8> {
        let mut kinds = Vec::new();
        while let Some((kind, ..)) = self.next().await {
            kinds.push(kind);
        }
        kinds
    }
}

#[tokio::test]
async fn the_client_chooses_the_protocol() {
    let pair = pair();
    let files = Files::of(&pair);
    let server = Server::start(Limits::default(), Some(files.load())).await;

    let mut http2 = http2_client(&server, &pair).await;
    assert_eq!(http2_get(&mut http2, "/").await.unwrap(), (200, "hello".to_owned()));
    assert_eq!(http2_get(&mut http2, "/other").await.unwrap(), (200, "another".to_owned()));

    for (offered, chosen) in [
        (&[ALPN_HTTP1][..], Some(ALPN_HTTP1)),
        (&[ALPN_HTTP1, ALPN_HTTP2][..], Some(ALPN_HTTP2)),
        (&[][..], None),
    ] {
        let stream = connect(&server, &[&pair], offered).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), chosen);
        if chosen != Some(ALPN_HTTP2) {
            let mut client = Client(stream);
            assert_eq!(client.get("/").await.body, "hello");
            assert_eq!(client.get("/").await.body, "hello", "kept alive");
        }
    }
    assert_eq!(server.counters.handshake_failures(), 0);
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections() {
    let (old, new) = (pair(), pair());
    let files = Files::of(&old);
    let certificates = files.load();
    let server = Server::start(Limits::default(), Some(Arc::clone(&certificates))).await;
    let first = connect(&server, &[&old, &new], &[ALPN_HTTP1]).await;
    assert_eq!(presented(&first), old.certificate);

    files.write(&new.certificate_pem, &new.key_pem);
    certificates.reload().unwrap();
    let second = connect(&server, &[&old, &new], &[ALPN_HTTP1]).await;
    assert_eq!(presented(&second), new.certificate);
    assert_eq!(Client(first).get("/").await.body, "hello", "the old connection goes on");
    assert_eq!(Client(second).get("/").await.body, "hello");
}

#[tokio::test]
async fn a_bad_new_certificate_keeps_the_old_one() {
    let (old, other) = (pair(), pair());
    let files = Files::of(&old);
    let certificates = files.load();
    let server = Server::start(Limits::default(), Some(Arc::clone(&certificates))).await;
    for (certificate, key) in [
        ("garbage", old.key_pem.as_str()),
        (old.certificate_pem.as_str(), "garbage"),
        // Half of a renewal: the certificate is new, the key not yet.
        (other.certificate_pem.as_str(), old.key_pem.as_str()),
    ] {
        files.write(certificate, key);
        certificates.reload().unwrap_err();
        let stream = connect(&server, &[&old], &[ALPN_HTTP1]).await;
        assert_eq!(presented(&stream), old.certificate);
    }
    files.write(&other.certificate_pem, &other.key_pem);
    certificates.reload().expect("the second half of the renewal");
    let stream = connect(&server, &[&other], &[ALPN_HTTP1]).await;
    assert_eq!(presented(&stream), other.certificate);
}

#[test]
fn messages_name_the_file_and_never_its_content() {
    let (one, two) = (pair(), pair());
    let truncated = one.key_pem.replace("-----END", "");
    let broken_base64 = one.key_pem.replace("\nM", "\n!M");
    let cases = [
        (
            one.certificate_pem.as_str(),
            two.key_pem.as_str(),
            "the key in KEY does not belong to the certificate in CERT",
        ),
        ("", one.key_pem.as_str(), "CERT contains no PEM certificate"),
        (one.key_pem.as_str(), one.key_pem.as_str(), "CERT contains no PEM certificate"),
        (one.certificate_pem.as_str(), "", "KEY contains no unencrypted PEM private key"),
        (one.certificate_pem.as_str(), truncated.as_str(), "KEY ends within a PEM section"),
        (
            one.certificate_pem.as_str(),
            broken_base64.as_str(),
            "KEY contains a PEM section that is not valid base64",
        ),
    ];
    for (certificate, key, expected) in cases {
        let files = Files::of(&one);
        files.write(certificate, key);
        let error = Certificates::load(&files.certificate, &files.key).unwrap_err();
        let shorten = |text: String| {
            text.replace(files.certificate.to_str().unwrap(), "CERT")
                .replace(files.key.to_str().unwrap(), "KEY")
        };
        assert_eq!(shorten(error.to_string()), expected);
        let key_line = one.key_pem.lines().nth(1).unwrap();
        assert!(!format!("{error:?}").contains(key_line));
    }
    let files = Files::of(&one);
    std::fs::remove_file(&files.key).unwrap();
    let error = Certificates::load(&files.certificate, &files.key).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot read {}: ", files.key.display())), "{error}");
}

#[tokio::test]
async fn a_handshake_that_stalls_or_fails_is_closed_and_counted() {
    let pair = pair();
    let files = Files::of(&pair);
    let limits = Limits { tls_handshake_timeout: SHORT, ..Limits::default() };
    let server = Server::start(limits, Some(files.load())).await;

    let mut silent = server.connect().await;
    assert!(silent.read_to_close().await.is_empty());
    assert_eq!(server.counters.handshake_failures(), 1);

    let mut clear_text = server.connect().await;
    clear_text.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    clear_text.read_to_close().await;
    eventually("both are counted and gone", || {
        server.counters.handshake_failures() == 2 && server.counters.open() == 0
    })
    .await;
    assert_eq!(server.calls.started(), 0);
}

#[tokio::test]
async fn over_the_cap_a_tls_client_is_closed() {
    let pair = pair();
    let files = Files::of(&pair);
    let limits = Limits { max_connections: 1, ..Limits::default() };
    let server = Server::start(limits, Some(files.load())).await;
    let mut inside = Client(connect(&server, &[&pair], &[ALPN_HTTP1]).await);
    assert_eq!(inside.get("/").await.status(), "200");
    let mut refused = server.connect().await;
    assert!(refused.read_to_close().await.is_empty());
    assert_eq!((server.counters.refused(), server.counters.open()), (1, 1));
}

#[tokio::test]
async fn an_http2_client_without_a_request_is_closed() {
    let pair = pair();
    let files = Files::of(&pair);
    let limits = Limits { header_read_timeout: SHORT, ..Limits::default() };
    let server = Server::start(limits, Some(files.load())).await;
    // One says nothing after the handshake, the other speaks HTTP/2 and asks for nothing.
    let mut silent = connect(&server, &[&pair], &[ALPN_HTTP2]).await;
    let polite = http2_client(&server, &pair).await;
    eventually("both are open", || server.counters.accepted() == 2).await;
    eventually("both are closed", || server.counters.open() == 0).await;
    let _ = within_deadline(silent.read_to_end(&mut Vec::new())).await;
    drop(polite);
}

#[tokio::test]
async fn rapid_resets_are_sent_away() {
    const RESETS: u32 = 2000;
    let pair = pair();
    let files = Files::of(&pair);
    let server = Server::start(Limits::default(), Some(files.load())).await;
    let mut stream = connect(&server, &[&pair], &[ALPN_HTTP2]).await;

    let mut attack = HTTP2_PREFACE.to_vec();
    attack.extend(frame(SETTINGS, 0, 0, &[]));
    for index in 0..RESETS {
        let stream_id = 2 * index + 1;
        // End of headers, end of stream. Then CANCEL.
        attack.extend(frame(HEADERS, 0x5, stream_id, &GET_ROOT));
        attack.extend(frame(3, 0, stream_id, &8u32.to_be_bytes()));
    }
    // The server may close while we are still sending.
    let _ = within_deadline(stream.write_all(&attack)).await;
    let mut answer = Vec::new();
    let _ = within_deadline(stream.read_to_end(&mut answer)).await;
    let mut kinds = Vec::new();
    let mut rest = answer.as_slice();
    while rest.len() >= 9 {
        kinds.push(rest[3]);
        let length = u32::from_be_bytes([0, rest[0], rest[1], rest[2]]) as usize;
        rest = rest.get(9 + length..).unwrap_or_default();
    }
    assert!(kinds.contains(&GOAWAY), "{kinds:?}");
    eventually("the slot is free", || server.counters.open() == 0).await;
    assert!(server.calls.started() < u64::from(RESETS) / 2, "{} reached the service", server.calls.started());
}

#[tokio::test]
async fn a_drain_lets_http2_requests_finish() {
    let pair = pair();
    let files = Files::of(&pair);
    let server = Server::start(Limits::default(), Some(files.load())).await;
    let mut client = http2_client(&server, &pair).await;
    let slow = spawn({
        let mut client = client.clone();
        async move { http2_get(&mut client, "/slow").await }
    });
    eventually("the request arrived", || server.calls.started() == 1).await;
    server.trigger.pull();
    // From its GOAWAY on, the client itself refuses to send more.
    within_deadline(async { while http2_get(&mut client, "/").await.is_ok() {} }).await;
    server.calls.finish_one();
    assert_eq!(within_deadline(slow).await.unwrap().unwrap(), (200, "finished".to_owned()));
    drop(client);
    let report = within_deadline(server.task).await.unwrap();
    assert_eq!((report.open_at_shutdown, report.cut), (1, 0));
}

#[tokio::test]
async fn http2_requests_that_outlast_the_drain_are_cut() {
    let pair = pair();
    let files = Files::of(&pair);
    let limits = Limits { drain_timeout: SHORT, ..Limits::default() };
    let server = Server::start(limits, Some(files.load())).await;
    let mut client = http2_client(&server, &pair).await;
    let slow = spawn(async move { http2_get(&mut client, "/slow").await });
    eventually("the request arrived", || server.calls.started() == 1).await;
    let counters = Arc::clone(&server.counters);
    assert_eq!(server.stop().await.cut, 1);
    within_deadline(slow).await.unwrap().unwrap_err();
    assert_eq!((counters.cut(), counters.open()), (1, 0));
}

#[tokio::test]
async fn an_http2_client_that_takes_nothing_is_asked_to_go_and_then_closed() {
    let pair = pair();
    let files = Files::of(&pair);
    let limits = Limits { idle_timeout: SHORT, write_stall_timeout: SHORT, ..Limits::default() };
    let server = Server::start(limits, Some(files.load())).await;
    let mut client = Stingy::connect(&server, &pair).await;
    assert!(client.ask(1, &GET_ROOT).await);
    let kinds = client.kinds_to_close().await;
    assert!(kinds.contains(&HEADERS) && kinds.contains(&GOAWAY) && !kinds.contains(&DATA), "{kinds:?}");
    eventually("the slot is free", || server.counters.open() == 0).await;
}

#[tokio::test]
async fn one_response_that_stands_still_closes_a_busy_http2_connection() {
    let pair = pair();
    let files = Files::of(&pair);
    let limits = Limits { response_stall_timeout: SHORT, ..Limits::default() };
    let server = Server::start(limits, Some(files.load())).await;
    let mut client = Stingy::connect(&server, &pair).await;
    // The first response is never taken, every other one at once.
    assert!(client.ask(1, &GET_ROOT).await);
    let mut taken = 0;
    let mut stream_id = 3;
    within_deadline(async {
        while client.ask(stream_id, &GET_ROOT).await && client.open_window(stream_id, 1024).await {
            loop {
                match client.next().await {
                    None => return,
                    Some((DATA, found, payload)) if found == stream_id && !payload.is_empty() => break,
                    Some(_) => {}
                }
            }
            taken += 1;
            stream_id += 2;
        }
    })
    .await;
    assert!(taken > 0, "the connection served others meanwhile");
    eventually("the slot is free", || server.counters.open() == 0).await;
}

#[tokio::test]
async fn responses_for_which_an_http2_client_opens_no_window_are_few_and_end_soon() {
    let pair = pair();
    let files = Files::of(&pair);
    let limits = Limits { untaken_timeout: SHORT, ..Limits::default() };
    let server = Server::start(limits, Some(files.load())).await;
    let mut client = Stingy::connect(&server, &pair).await;
    let many: Vec<u8> = (0..60).flat_map(|number| frame(HEADERS, 0x5, 1 + 2 * number, &GET_ROOT)).collect();
    within_deadline(client.0.write_all(&many)).await.unwrap();
    let kinds = client.kinds_to_close().await;
    assert!(!kinds.contains(&DATA), "{kinds:?}");
    let responses = kinds.into_iter().filter(|kind| *kind == HEADERS).count();
    assert_eq!(responses, 16, "the others wait until something is taken");
    eventually("the slot is free", || server.counters.open() == 0).await;
}

#[tokio::test]
async fn an_http2_client_that_takes_its_responses_may_ask_for_more_at_once() {
    let pair = pair();
    let files = Files::of(&pair);
    let server = Server::start(Limits::default(), Some(files.load())).await;
    let mut client = Stingy::connect(&server, &pair).await;
    let ask = |first: u32, count: u32| -> Vec<u8> {
        (0..count).flat_map(|number| frame(HEADERS, 0x5, first + 2 * number, &GET_ROOT)).collect()
    };
    within_deadline(client.0.write_all(&ask(1, 16))).await.unwrap();
    for number in 0..16 {
        assert!(client.open_window(1 + 2 * number, 1024).await);
    }
    for _ in 0..16 {
        client.next_of(DATA).await;
    }
    within_deadline(client.0.write_all(&ask(33, 40))).await.unwrap();
    eventually("twice as many are worked on", || server.calls.started() == 16 + 32).await;
    for number in 0..8 {
        assert!(client.open_window(33 + 2 * number, 1024).await);
    }
    eventually("all are worked on", || server.calls.started() == 16 + 40).await;
}

#[tokio::test]
async fn an_answer_that_never_comes_ends_its_http2_connection() {
    let pair = pair();
    let files = Files::of(&pair);
    let limits = Limits { response_stall_timeout: SHORT, ..Limits::default() };
    let server = Server::start(limits, Some(files.load())).await;
    let mut client = http2_client(&server, &pair).await;
    http2_get(&mut client, "/slow").await.unwrap_err();
    eventually("the slot is free", || server.counters.open() == 0).await;
}

#[tokio::test]
async fn a_client_asked_to_go_still_gets_what_it_waits_for() {
    let pair = pair();
    let files = Files::of(&pair);
    let limits = Limits { idle_timeout: SHORT, write_stall_timeout: SHORT, ..Limits::default() };
    let server = Server::start(limits, Some(files.load())).await;
    let mut client = Stingy::connect(&server, &pair).await;
    assert!(client.ask(1, &GET_SLOW).await && client.open_window(1, 1024).await);
    client.next_of(GOAWAY).await;
    // Past the deadline of a client that takes nothing: this one waits for us, so nothing may come, not even the end.
    let meanwhile = tokio::time::timeout(SHORT * 2, client.next_of(HEADERS)).await;
    assert!(meanwhile.is_err(), "answered before it was let go");
    server.calls.finish_one();
    assert_eq!(client.next_of(DATA).await, b"finished");
    eventually("the slot is free", || server.counters.open() == 0).await;
}

#[tokio::test]
async fn a_slow_download_outlasts_the_last_deadline_while_it_moves() {
    const STEP_BYTES: u32 = 48 * 1024;
    let pair = pair();
    let files = Files::of(&pair);
    let limits = Limits { idle_timeout: SHORT, write_stall_timeout: SHORT * 4, ..Limits::default() };
    let server = Server::start(limits, Some(files.load())).await;
    let mut client = Stingy::connect(&server, &pair).await;
    assert!(client.open_window(0, 16 * 1024 * 1024).await);
    assert!(client.ask(1, &GET_BIG).await);
    client.next_of(GOAWAY).await;
    // Six steps, each after as long as made it idle: together longer than the last deadline.
    for _ in 0..6 {
        let quiet = tokio::time::timeout(SHORT, client.next_of(DATA)).await;
        assert!(quiet.is_err(), "data without a window");
        assert!(client.open_window(1, STEP_BYTES).await);
        let mut taken = 0;
        while taken < STEP_BYTES {
            taken += u32::try_from(client.next_of(DATA).await.len()).unwrap();
        }
    }
    let kinds = client.kinds_to_close().await;
    assert!(!kinds.contains(&DATA), "{kinds:?}");
    eventually("the slot is free", || server.counters.open() == 0).await;
}
