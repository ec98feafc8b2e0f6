//! Against real sockets on loopback that answer as told.

use std::path::PathBuf;
use std::sync::Arc;

use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{TcpListener, TcpStream};

use super::error::ConnectKind;
use super::*;

/// A server for one connection: reads a whole request, then answers with these bytes and closes.
struct OneAnswer {
    listener: TcpListener,
}

impl OneAnswer {
    async fn bind() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    fn url(&self) -> String {
        format!("http://{}", self.listener.local_addr().unwrap())
    }

    async fn answer(&self, with: &[u8]) -> String {
        let (mut socket, _) = self.listener.accept().await.unwrap();
        let request = read_request(&mut socket).await;
        socket.write_all(with).await.unwrap();
        request
    }
}

/// Head and body of a request that states its length.
async fn read_request(socket: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return String::from_utf8(bytes).unwrap();
            }
        }
        let mut piece = [0; 4096];
        let read = socket.read(&mut piece).await.unwrap();
        assert!(read > 0, "the client closed in the middle of {text}");
        bytes.extend_from_slice(&piece[..read]);
    }
}

fn client(url: &str) -> HttpClient {
    HttpClient::new(&ClientOptions::new(url)).unwrap()
}

async fn get(client: &HttpClient, path: &str) -> Result<Reply, ClientError> {
    client.request(Method::GET, path, HeaderMap::new(), None).await
}

fn error_of<T>(outcome: Result<T, ClientError>) -> ClientError {
    outcome.err().expect("this cannot succeed")
}

#[tokio::test]
async fn a_request_carries_key_prefix_and_body_and_any_status_is_an_answer() {
    let server = OneAnswer::bind().await;
    let mut options = ClientOptions::new(format!("{}/prefix/", server.url()));
    options.key = Some("the-key".into());
    let client = HttpClient::new(&options).unwrap();
    let body = Some(Bytes::from_static(b"{}"));
    let (request, reply) = tokio::join!(
        server.answer(b"HTTP/1.1 409 Conflict\r\nContent-Length: 3\r\nX-Told: yes\r\n\r\nno!"),
        client.request(Method::PUT, "/rooms/a?b=c", HeaderMap::new(), body),
    );
    assert!(request.starts_with("PUT /prefix/rooms/a?b=c HTTP/1.1\r\n"), "{request}");
    assert!(
        request.contains("authorization: Bearer the-key\r\n") && request.ends_with("\r\n\r\n{}"),
        "{request}"
    );
    let reply = reply.unwrap();
    assert_eq!(
        (reply.status.as_u16(), &reply.headers["x-told"], &*reply.body),
        (409, &HeaderValue::from_static("yes"), &b"no!"[..])
    );
}

#[tokio::test]
async fn a_refused_connection_reads_like_a_sentence_and_has_a_hint() {
    let server = OneAnswer::bind().await;
    let url = server.url();
    drop(server);
    let error = error_of(get(&client(&url), "/livez").await);
    assert_eq!(error.to_string(), format!("cannot connect to {url}: connection refused"));
    assert!(error.hint().unwrap().contains("anteroom serve"));
    assert!(!error.is_usage());
}

#[tokio::test]
async fn an_answer_that_is_too_large_or_cut_or_never_comes_is_an_error() {
    let server = OneAnswer::bind().await;
    let mut options = ClientOptions::new(server.url());
    options.body_max_bytes = 4;
    options.request_timeout = Duration::from_millis(200);
    let client = HttpClient::new(&options).unwrap();

    let large = server.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde");
    let (_, outcome) = tokio::join!(large, get(&client, "/"));
    assert!(matches!(error_of(outcome), ClientError::TooLarge { max_bytes: 4, .. }));

    let cut = server.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
    let (_, outcome) = tokio::join!(cut, get(&client, "/"));
    let error = error_of(outcome);
    assert!(matches!(error, ClientError::Lost { .. }), "{error}");

    // Accepted by the operating system, answered by nobody.
    let error = error_of(get(&client, "/").await);
    assert_eq!(error.to_string(), format!("{} did not answer within 0.2 s", server.url()));
}

#[tokio::test]
async fn a_download_is_written_as_it_comes_and_a_refusal_is_kept() {
    let server = OneAnswer::bind().await;
    let client = client(&server.url());
    let mut file = Vec::new();
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let (_, outcome) =
        tokio::join!(server.answer(chunked), client.download("/backup", HeaderMap::new(), &mut file));
    let (reply, written_bytes) = outcome.unwrap();
    assert_eq!((reply.status.as_u16(), written_bytes, &*file), (200, 5, &b"abcde"[..]));

    file.clear();
    let cut = server.answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    let (_, outcome) = tokio::join!(cut, client.download("/backup", HeaderMap::new(), &mut file));
    assert!(matches!(error_of(outcome), ClientError::Lost { .. }));

    file.clear();
    let refused = server.answer(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nnope");
    let (_, outcome) = tokio::join!(refused, client.download("/backup", HeaderMap::new(), &mut file));
    let (reply, written_bytes) = outcome.unwrap();
    assert_eq!((reply.status.as_u16(), &*reply.body, written_bytes, file.len()), (403, &b"nope"[..], 0, 0));
}

#[tokio::test]
async fn an_upload_states_its_length_and_sends_the_file() {
    let server = OneAnswer::bind().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("backup");
    let content = "0123456789".repeat(20_000);
    std::fs::write(&path, &content).unwrap();
    let client = client(&server.url());
    let (request, reply) = tokio::join!(
        server.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        client.upload(Method::POST, "/restore", HeaderMap::new(), &path),
    );
    assert_eq!(reply.unwrap().status, StatusCode::OK);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.to_lowercase().contains("content-length: 200000"), "{head}");
    assert!(body == content, "the file arrived changed");

    let missing = directory.path().join("missing");
    let error = error_of(client.upload(Method::POST, "/restore", HeaderMap::new(), &missing).await);
    assert!(error.is_usage() && error.to_string().contains("missing"), "{error}");
}

#[tokio::test]
async fn a_stream_gives_what_has_come_before_it_ends() {
    let server = OneAnswer::bind().await;
    let client = client(&server.url());
    let serve = async {
        let (mut socket, _) = server.listener.accept().await.unwrap();
        read_request(&mut socket).await;
        socket.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n").await.unwrap();
        socket
    };
    let (socket, stream) = tokio::join!(serve, client.stream(Method::GET, "/watch", HeaderMap::new()));
    let mut stream = stream.unwrap();
    assert_eq!(stream.status, StatusCode::OK);
    assert_eq!(stream.next().await.unwrap().unwrap(), "abc");
    drop(socket);
    assert!(matches!(error_of(stream.next().await), ClientError::Lost { .. }));
}

#[test]
fn urls_and_keys_that_cannot_be_meant_are_refused() {
    for url in [
        "",
        "127.0.0.1:8081",
        "ftp://host",
        "/path",
        "http://",
        "http://host?query",
        "http://me:hunter2@host",
    ] {
        let error = error_of(HttpClient::new(&ClientOptions::new(url)));
        assert!(matches!(error, ClientError::BadUrl { .. }) && error.is_usage(), "{url}: {error}");
        assert!(error.hint().is_some() && !error.to_string().contains("hunter2"), "{error}");
    }
    let mut options = ClientOptions::new("http://127.0.0.1:1");
    options.key = Some("two\nlines".into());
    assert!(matches!(error_of(HttpClient::new(&options)), ClientError::BadKey));
    options.key = None;
    options.ca_file = Some(PathBuf::from("no-such-file.pem"));
    assert!(error_of(HttpClient::new(&options)).to_string().contains("no-such-file.pem"));
}

/// A listener with a certificate of its own for `localhost`, and that certificate in PEM form.
async fn tls_listener() -> (TcpListener, tokio_rustls::TlsAcceptor, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let certificate = CertificateDer::from(made.cert.der().to_vec());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let configuration = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    (listener, tokio_rustls::TlsAcceptor::from(Arc::new(configuration)), made.cert.pem())
}

#[tokio::test]
async fn https_trusts_the_ca_file_and_nobody_unknown() {
    let (listener, acceptor, pem) = tls_listener().await;
    let directory = tempfile::tempdir().unwrap();
    let ca_file = directory.path().join("ca.pem");
    std::fs::write(&ca_file, pem).unwrap();
    let mut options =
        ClientOptions::new(format!("https://localhost:{}", listener.local_addr().unwrap().port()));
    options.ca_file = Some(ca_file);
    let trusting = HttpClient::new(&options).unwrap();
    let serve = async {
        let (socket, _) = listener.accept().await.unwrap();
        let mut socket = acceptor.accept(socket).await.unwrap();
        read_request(&mut socket).await;
        socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
    };
    let ((), reply) = tokio::join!(serve, get(&trusting, "/"));
    assert_eq!(reply.unwrap().status, StatusCode::OK);

    // Another authority in the file: this server is a stranger.
    let (_, _, other_pem) = tls_listener().await;
    let other_file = directory.path().join("other.pem");
    std::fs::write(&other_file, other_pem).unwrap();
    options.ca_file = Some(other_file);
    let distrusting = HttpClient::new(&options).unwrap();
    let serve = async {
        let (socket, _) = listener.accept().await.unwrap();
        let _refused = acceptor.accept(socket).await;
    };
    let ((), outcome) = tokio::join!(serve, get(&distrusting, "/"));
    let error = error_of(outcome);
    assert!(matches!(error, ClientError::Connect { kind: ConnectKind::Untrusted, .. }), "{error:?}");
    assert!(error.hint().unwrap().contains("--ca-file"));

    // Plain http on the other side.
    let serve = async {
        let (mut socket, _): (TcpStream, _) = listener.accept().await.unwrap();
        let _written = socket.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
    };
    let ((), outcome) = tokio::join!(serve, get(&trusting, "/"));
    let error = error_of(outcome);
    assert!(matches!(error, ClientError::Connect { kind: ConnectKind::NotTls, .. }), "{error:?}");
}

#[test]
fn text_in_paths_and_queries_is_encoded() {
    assert_eq!(percent_encode("a b/é&-._~"), "a%20b%2F%C3%A9%26-._~");
}
