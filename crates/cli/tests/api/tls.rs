//! TLS on both listeners: HTTP/2 and HTTP/1.1 by ALPN, and certificates that are replaced while the server runs.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anteroom_testkit::{Answer, Client, Server, now};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Version};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;

use crate::support::BINARY;
use crate::support::tls::{Identity, connect, exchange, trusting};

/// How long a replaced certificate may take to be noticed.
const RELOADED_WITHIN: Duration = Duration::from_mins(1);

/// A server with TLS on both listeners.
fn start(directory: &Path) -> Server {
    let config = format!(
        "{}{}[[room]]\nid = \"Sealed\"\n",
        Identity::settings(directory, "public"),
        Identity::settings(directory, "private"),
    );
    Server::builder(BINARY).config(config).memory().start().expect("the server starts")
}

/// What one call over TLS showed.
struct Response {
    answer: Answer,
    version: Version,
    certificate: CertificateDer<'static>,
}

/// One GET over a TLS connection of its own, by whatever protocol was agreed on.
async fn get(
    address: SocketAddr,
    config: Arc<ClientConfig>,
    target: &str,
    bearer: &str,
) -> anyhow::Result<Response> {
    let request = Request::get(format!("https://localhost:{}{target}", address.port()))
        .header("Host", format!("localhost:{}", address.port()))
        .header("Authorization", format!("Bearer {bearer}"))
        .body(Full::default())?;
    send(address, config, request).await
}

/// The same for any request.
async fn send(
    address: SocketAddr,
    config: Arc<ClientConfig>,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<Response> {
    let stream = connect(address, &config).await?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).cloned();
    let certificate = certificate.ok_or_else(|| anyhow::anyhow!("the server showed no certificate"))?;
    let (answer, version) = exchange(stream, request).await?;
    Ok(Response { answer, version, certificate })
}

#[tokio::test]
async fn both_listeners_speak_h2_and_http_1_1_over_tls() {
    let directory = tempfile::tempdir().unwrap();
    let (public, private) = (Identity::new(), Identity::new());
    public.install(directory.path(), "public");
    private.install(directory.path(), "private");
    let server = start(directory.path());
    let stdout = server.stdout();
    assert!(stdout.contains(&format!("public listening on https://{}\n", server.public())), "{stdout}");
    assert!(stdout.contains(&format!("private listening on https://{}\n", server.private())), "{stdout}");
    let listeners = [
        (server.public(), &public, "/serving_num?event_id=Sealed", "{\"serving_counter\":0}"),
        (server.private(), &private, "/num_active_tokens?event_id=Sealed", "{\"active_tokens\":0}"),
    ];
    let offers: [(&[&str], Version); 4] = [
        (&["h2", "http/1.1"], Version::HTTP_2),
        (&["h2"], Version::HTTP_2),
        (&["http/1.1"], Version::HTTP_11),
        (&[], Version::HTTP_11),
    ];
    for (address, identity, target, body) in listeners {
        for (protocols, version) in offers {
            let response =
                get(address, trusting(&[identity], protocols), target, server.admin_key()).await.unwrap();
            assert_eq!(
                (response.answer.status, response.version),
                (200, version),
                "{target} {protocols:?}: {:?}",
                response.answer
            );
            assert_eq!(response.answer.json().to_string(), body);
            assert_eq!(response.answer.header("Access-Control-Allow-Origin"), Some("*"));
            assert_eq!(response.certificate, identity.certificate);
        }
        // A client that does not know the certificate is not talked to.
        let stranger = Identity::new();
        assert!(get(address, trusting(&[&stranger], &[]), target, server.admin_key()).await.is_err());
    }
    let refused =
        get(server.private(), trusting(&[&private], &["h2"]), "/num_active_tokens?event_id=Sealed", "wrong");
    assert_eq!(refused.await.unwrap().answer.status, 401);
}

#[tokio::test]
async fn clear_text_and_garbage_on_a_tls_port_harm_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let identity = Identity::new();
    identity.install(directory.path(), "public");
    identity.install(directory.path(), "private");
    let server = start(directory.path());
    for garbage in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], &[0; 64], b"\x16\x03\x01\xff\xff"] {
        let client = Client::new(server.public());
        let mut wire = anteroom_testkit::Wire::connect(client.address(), Duration::from_secs(30)).unwrap();
        wire.write(garbage).unwrap();
        wire.finish_writing().unwrap();
        assert!(wire.closed_within(Duration::from_secs(30)), "{garbage:?}");
    }
    let response = get(server.public(), trusting(&[&identity], &["h2"]), "/waiting_num?event_id=Sealed", "")
        .await
        .unwrap();
    assert_eq!(response.answer.status, 200);
}

#[tokio::test]
async fn a_replaced_certificate_is_served_without_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = (Identity::new(), Identity::new());
    old.install(directory.path(), "public");
    old.install(directory.path(), "private");
    let server = start(directory.path());
    let process_id = server.process_id();
    let both = trusting(&[&old, &new], &["h2", "http/1.1"]);
    let key = server.admin_key();
    let listeners = [
        (server.public(), "public", "/serving_num?event_id=Sealed"),
        (server.private(), "private", "/num_active_tokens?event_id=Sealed"),
    ];
    for (address, name, target) in listeners {
        let response = get(address, Arc::clone(&both), target, key).await.unwrap();
        assert_eq!(response.certificate, old.certificate);
        // A certificate that cannot be used must not take the place of one that can.
        fs::write(directory.path().join(format!("{name}-cert.pem")), "not a certificate").unwrap();
        let response = get(address, Arc::clone(&both), target, key).await.unwrap();
        assert_eq!((response.answer.status, response.certificate), (200, old.certificate.clone()));
        new.install(directory.path(), name);
        let replaced = now();
        loop {
            let response = get(address, Arc::clone(&both), target, key).await.unwrap();
            assert_eq!(response.answer.status, 200);
            if response.certificate == new.certificate {
                break;
            }
            assert!(replaced.elapsed() < RELOADED_WITHIN, "{name}: still the old certificate");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    assert_eq!(server.process_id(), process_id);
}

#[tokio::test]
async fn sighup_rereads_certificates_whose_files_look_unchanged() {
    /// Longer than any certificate or key here.
    const FILE_BYTES: usize = 4096;
    let directory = tempfile::tempdir().unwrap();
    let changed_at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    // One length and one time of change for all: who only looks whether a file has changed sees nothing.
    let install = |identity: &Identity| {
        for name in ["public", "private"] {
            identity.install(directory.path(), name);
            for suffix in ["cert.pem", "key.pem"] {
                let path = directory.path().join(format!("{name}-{suffix}"));
                let mut text = fs::read(&path).unwrap();
                assert!(text.len() < FILE_BYTES);
                text.resize(FILE_BYTES, b'\n');
                // Completed beside its place, so that no half of it can be read.
                let temporary = path.with_extension("padded");
                fs::write(&temporary, text).unwrap();
                let file = fs::File::options().write(true).open(&temporary).unwrap();
                file.set_modified(changed_at).unwrap();
                fs::rename(temporary, path).unwrap();
            }
        }
    };
    let (old, new) = (Identity::new(), Identity::new());
    install(&old);
    let server = start(directory.path());
    let both = trusting(&[&old, &new], &["h2", "http/1.1"]);
    let key = server.admin_key();
    let listeners = [
        (server.public(), "/serving_num?event_id=Sealed"),
        (server.private(), "/num_active_tokens?event_id=Sealed"),
    ];
    for (address, target) in listeners {
        let response = get(address, Arc::clone(&both), target, key).await.unwrap();
        assert_eq!(response.certificate, old.certificate);
    }
    install(&new);
    server.signal("HUP").unwrap();
    for (address, target) in listeners {
        let asked = now();
        loop {
            let response = get(address, Arc::clone(&both), target, key).await.unwrap();
            assert_eq!(response.answer.status, 200);
            if response.certificate == new.certificate {
                break;
            }
            assert!(asked.elapsed() < RELOADED_WITHIN, "still the old certificate:\n{}", server.stderr());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn a_page_below_our_prefix_knows_its_host_by_both_protocols() {
    let directory = tempfile::tempdir().unwrap();
    let identity = Identity::new();
    identity.install(directory.path(), "public");
    identity.install(directory.path(), "private");
    let server = start(directory.path());
    let (address, site) = (server.public(), format!("https://localhost:{}", server.public().port()));
    for protocol in ["h2", "http/1.1"] {
        let config = trusting(&[&identity], &[protocol]);
        // Over HTTP/2 there is no `Host`: what a browser names is in the address alone.
        let call = async |method: &str, target: &str, headers: &[(&str, &str)]| {
            let mut request = Request::builder().method(method).uri(format!("{site}/.anteroom{target}"));
            if protocol != "h2" {
                request = request.header("Host", format!("localhost:{}", address.port()));
            }
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            send(address, Arc::clone(&config), request.body(Full::default()).unwrap()).await.unwrap().answer
        };
        let json = ("Accept", "application/json");
        let joined = call("POST", "/line/join?room=Sealed", &[json, ("Origin", &site)]).await;
        assert_eq!((joined.status, joined.json()["status"].as_str()), (200, Some("waiting")), "{joined:?}");
        let cookie = joined.header("Set-Cookie").expect("a cookie").split(';').next().unwrap().to_owned();
        let cookie = ("Cookie", cookie.as_str());
        let link = call("GET", "/line/move?room=Sealed", &[json, cookie]).await;
        assert_eq!(link.status, 200, "{protocol}: {link:?}");
        let url = link.json()["url"].as_str().unwrap().to_owned();
        assert!(url.starts_with(&format!("{site}/.anteroom/line/take?")), "{protocol}: {url}");
        // A button of this very host works also in browsers that say no more than `Origin`; one of another does not.
        let evil = ("Origin", "https://evil.example");
        assert_eq!(call("POST", "/line/leave?room=Sealed", &[json, cookie, evil]).await.status, 403);
        let left = call("POST", "/line/leave?room=Sealed", &[json, cookie, ("Origin", &site)]).await;
        assert_eq!(
            (left.status, left.json()["status"].as_str()),
            (200, Some("left")),
            "{protocol}: {left:?}"
        );
    }
}
