//! The visitor's cookie over TLS: its name, its attributes, over HTTP/1.1 and HTTP/2, and where somebody else ends TLS before us.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anteroom_testkit::{Answer, CookieJar, NAVIGATION, Server, SetCookie, Site};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Version};
use rustls::ClientConfig;

use crate::stand::{COOKIE, hall};
use crate::support::BINARY;
use crate::support::tls::{Identity, connect, exchange};

const SECURE_COOKIE: &str = "__Host-anteroom-Hall";

/// A server with TLS on its public listener, and who trusts it.
fn start(directory: &Path, site: &Site, protocol: &str) -> (Server, Arc<ClientConfig>) {
    let identity = Identity::new();
    identity.install(directory, "public");
    let config = format!("{}{}", Identity::settings(directory, "public"), hall(&site.url(), 1, ""));
    let server = Server::builder(BINARY).memory().config(config).start().expect("the server starts");
    (server, identity.trusted(protocol))
}

/// A visitor opens a page over TLS, and follows redirects through the door. The answer has the cookies of all of them.
async fn open(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    jar: &mut CookieJar,
    target: &str,
) -> (Answer, Version) {
    let (mut target, mut set) = (target.to_owned(), vec![]);
    loop {
        let (mut answer, version) = open_once(address, config, jar, &target).await;
        set.extend(
            answer.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("Set-Cookie")).cloned(),
        );
        match answer.header("Location") {
            Some(location) if answer.status == 303 => location.clone_into(&mut target),
            _ => {
                answer.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("Set-Cookie"));
                answer.headers.extend(set);
                return (answer, version);
            }
        }
    }
}

/// A visitor opens a page over TLS; their cookies go along and are kept.
async fn open_once(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    jar: &mut CookieJar,
    target: &str,
) -> (Answer, Version) {
    let stream = connect(address, config).await.expect("TLS works");
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
    let (answer, version) = exchange(stream, request).await.expect("TLS works");
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
        assert_eq!(admitted.set_cookies().len(), 2, "the arrival and the visit: {admitted:?}");
        admitted.set_cookies().iter().for_each(assert_secure);
        let (confirmed, _) = open(server.public(), &config, &mut jar, "/confirmed").await;
        assert!(confirmed.is_from_site(), "{confirmed:?}");
        assert_eq!(site.last_seen("/confirmed").visit(), site.last_seen("/").visit());
        assert_eq!(site.last_seen("/confirmed").header("Cookie"), Some("basket=full"));
        assert_eq!(site.last_seen("/confirmed").header("X-Forwarded-Proto"), Some("https"));
        // Anybody between client and server could have set the cookie of clear text.
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
    let arrived = browser.open_once("/");
    assert_secure(arrived.set_cookies().first().expect("a cookie"));
    assert!(browser.open("/").is_from_site());
    assert!(browser.open("/again").is_from_site());
    assert_eq!(site.last_seen("/again").visit(), site.last_seen("/").visit());
}
