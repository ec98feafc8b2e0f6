//! The visitor's cookie over TLS: its name, its attributes, over HTTP/1.1 and HTTP/2, and where somebody else ends TLS before us.

mod gateway_support;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anteroom_testkit::{Answer, CookieJar, NAVIGATION, Server, SetCookie, Site};
use bytes::Bytes;
use gateway_support::{BINARY, COOKIE, hall};
use http_body_util::{BodyExt, Full};
use hyper::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

const SECURE_COOKIE: &str = "__Host-anteroom-Hall";

/// A server with TLS on its public listener, and who trusts it.
fn start(directory: &Path, site: &Site, protocol: &str) -> (Server, Arc<ClientConfig>) {
    let made =
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate can be made");
    let path = |name: &str| directory.join(name).display().to_string();
    fs::write(path("cert.pem"), made.cert.pem()).expect("a file can be written");
    fs::write(path("key.pem"), made.signing_key.serialize_pem()).expect("a file can be written");
    let config = format!(
        "public_tls_cert = \"{}\"\npublic_tls_key = \"{}\"\n{}",
        path("cert.pem"),
        path("key.pem"),
        hall(&site.url(), 1, "")
    );
    let server = Server::builder(BINARY).memory().config(config).start().expect("the server starts");
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root can be added");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider knows TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    (server, Arc::new(config))
}

/// Somebody opens a page over TLS; his cookies go along and are kept.
async fn open(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    jar: &mut CookieJar,
    target: &str,
) -> (Answer, Version) {
    let name = ServerName::try_from("localhost").expect("TLS works");
    let stream = TcpStream::connect(address).await.expect("TLS works");
    let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await.expect("TLS works");
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let authority = format!("localhost:{}", address.port());
    let mut request = Request::get(format!("https://{authority}{target}"));
    if !is_http2 {
        request = Request::get(target).header("Host", authority);
    }
    for (name, value) in NAVIGATION {
        request = request.header(name, value);
    }
    // Over HTTP/2 a browser sends each cookie in a field of its own.
    for cookie in jar.header().unwrap_or_default().split("; ").filter(|cookie| !cookie.is_empty()) {
        request = request.header("Cookie", cookie);
    }
    let request = request.body(Full::<Bytes>::default()).expect("TLS works");
    let mut connections = JoinSet::new();
    let response = if is_http2 {
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.expect("TLS works");
        connections.spawn(async move { connection.await.ok() });
        sender.send_request(request).await.expect("TLS works")
    } else {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("TLS works");
        connections.spawn(async move { connection.await.ok() });
        sender.send_request(request).await.expect("TLS works")
    };
    let version = response.version();
    let (head, body) = response.into_parts();
    let text = |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let answer = Answer {
        status: head.status.as_u16(),
        headers: head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        body: body.collect().await.expect("TLS works").to_bytes().to_vec(),
    };
    jar.take(&answer);
    (answer, version)
}

/// A cookie that only TLS carries, of this host and no other, out of reach of scripts.
#[track_caller]
fn assert_secure(cookie: &SetCookie) {
    assert_eq!(cookie.name, SECURE_COOKIE);
    for attribute in ["Secure", "HttpOnly", "Path=/", "SameSite=None"] {
        assert!(cookie.has(attribute), "{attribute}: {cookie:?}");
    }
    assert!(
        cookie.attributes.iter().all(|other| !other.to_ascii_lowercase().starts_with("domain")),
        "{cookie:?}"
    );
    assert!(cookie.max_age_seconds().is_some(), "{cookie:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls_the_cookie_is_bound_to_the_host_and_works_by_that_name_only() {
    for (protocol, version) in [("http/1.1", Version::HTTP_11), ("h2", Version::HTTP_2)] {
        let (directory, site) = (tempfile::tempdir().unwrap(), Site::open());
        let (server, config) = start(directory.path(), &site, protocol);
        let mut jar = CookieJar::over_tls();
        jar.put("basket", "full");
        let (admitted, spoken) = open(server.public(), &config, &mut jar, "/").await;
        assert_eq!((admitted.is_from_site(), spoken), (true, version), "{admitted:?}");
        assert_secure(admitted.set_cookies().first().expect("a cookie"));
        let (confirmed, _) = open(server.public(), &config, &mut jar, "/confirmed").await;
        assert_secure(confirmed.set_cookies().first().expect("a cookie, renewed"));
        assert_eq!(site.last_seen("/confirmed").visit(), site.last_seen("/").visit());
        assert_eq!(site.last_seen("/confirmed").header("Cookie"), Some("basket=full"));
        assert_eq!(site.last_seen("/confirmed").header("X-Forwarded-Proto"), Some("https"));
        // Anybody on the way could have set the cookie of clear text.
        let mut injected = CookieJar::over_tls();
        injected.put(COOKIE, jar.get(SECURE_COOKIE).expect("a cookie"));
        let (waits, _) = open(server.public(), &config, &mut injected, "/injected").await;
        assert!(!waits.is_from_site(), "{waits:?}");
        assert_secure(waits.set_cookies().first().expect("a cookie"));
        let (in_line, _) = open(server.public(), &config, &mut injected, "/injected").await;
        assert!(in_line.shown_position().is_some(), "{in_line:?}");
        let (done, _) = open(server.public(), &config, &mut jar, "/complete").await;
        assert!(done.is_from_site() && jar.get(SECURE_COOKIE).is_none(), "{done:?}");
    }
}

#[test]
fn where_tls_ends_before_us_the_public_url_says_so() {
    let site = Site::open();
    let config = format!("public_url = \"https://shop.example.com\"\n{}", hall(&site.url(), 1, ""));
    let server = Server::builder(BINARY).memory().config(config).start().expect("the server starts");
    let mut browser = anteroom_testkit::Browser::new(server.public());
    browser.cookies = CookieJar::over_tls();
    let admitted = browser.open("/");
    assert!(admitted.is_from_site(), "{admitted:?}");
    assert_secure(admitted.set_cookies().first().expect("a cookie"));
    assert!(browser.open("/again").is_from_site());
    assert_eq!(site.last_seen("/again").visit(), site.last_seen("/").visit());
}
