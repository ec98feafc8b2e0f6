//! The same over HTTP/2, which the server speaks over TLS only.

use std::fs;
use std::sync::Arc;

use anteroom_testkit::Server;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::raw::RawRequest;

/// Restarts the server with TLS on its private listener, and returns what makes a client trust it.
pub(crate) fn restart_with_tls(server: &mut Server) -> Arc<ClientConfig> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let (certificate, key) = (server.directory().join("cert.pem"), server.directory().join("key.pem"));
    fs::write(&certificate, made.cert.pem()).expect("the certificate can be written");
    fs::write(&key, made.signing_key.serialize_pem()).expect("the key can be written");
    server.set_config(format!(
        "private_tls_cert = \"{}\"\nprivate_tls_key = \"{}\"\n[[room]]\nid = \"Sample\"\n",
        certificate.display(),
        key.display()
    ));
    server.restart().expect("the server starts with TLS");

    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root can be added");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider knows TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

/// Sends a request over a connection of its own. Its host goes as the authority of its address, not as a header.
pub(crate) async fn send(server: &Server, trust: &Arc<ClientConfig>, request: &RawRequest) -> (u16, Value) {
    let stream = TcpStream::connect(server.private()).await.expect("a connection");
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = TlsConnector::from(Arc::clone(trust)).connect(name, stream).await.expect("TLS");
    let is_host = |(name, _): &&(String, String)| name == "Host";
    let (_, authority) = request.headers.iter().find(is_host).expect("a request has a host");
    let mut builder = hyper::Request::builder()
        .method(request.method.as_str())
        .uri(format!("https://{authority}{}", request.target()));
    for (name, value) in request.headers.iter().filter(|header| !is_host(header)) {
        builder = builder.header(name, value);
    }
    let sent = builder.body(Full::<Bytes>::from(request.body.clone())).expect("a request");
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("HTTP/2");
    // Dropping the set at the end of the call ends the connection with it.
    let mut connections = JoinSet::new();
    connections.spawn(async move { connection.await.ok() });
    let response = sender.send_request(sent).await.expect("an answer");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (status, serde_json::from_slice(&body).expect("JSON"))
}
