//! TLS from the client's side, and certificates for servers under test.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anteroom_testkit::Answer;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A self-signed certificate for loopback and its key.
pub(crate) struct Identity {
    pub(crate) certificate: CertificateDer<'static>,
    certificate_pem: String,
    key_pem: String,
}

impl Identity {
    pub(crate) fn new() -> Self {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate can be made");
        Self {
            certificate: made.cert.der().clone(),
            certificate_pem: made.cert.pem(),
            key_pem: made.signing_key.serialize_pem(),
        }
    }

    /// Puts certificate and key in place, each in one step, as certificate managers do.
    pub(crate) fn install(&self, directory: &Path, name: &str) {
        for (suffix, text) in [("cert.pem", &self.certificate_pem), ("key.pem", &self.key_pem)] {
            let temporary = directory.join(format!("{name}-{suffix}.new"));
            fs::write(&temporary, text).expect("a file can be written");
            fs::rename(temporary, directory.join(format!("{name}-{suffix}"))).expect("a file can be renamed");
        }
    }

    /// The settings of a listener (`public` or `private`) with the installed files of that name.
    pub(crate) fn settings(directory: &Path, listener: &str) -> String {
        let path = |suffix: &str| directory.join(format!("{listener}-{suffix}")).display().to_string();
        format!(
            "{listener}_tls_cert = \"{}\"\n{listener}_tls_key = \"{}\"\n",
            path("cert.pem"),
            path("key.pem")
        )
    }

    /// A client that trusts this certificate alone and offers one protocol.
    pub(crate) fn trusted(&self, protocol: &str) -> Arc<ClientConfig> {
        trusting(&[self], &[protocol])
    }
}

/// A client that trusts these certificates and offers these protocols.
pub(crate) fn trusting(identities: &[&Identity], protocols: &[&str]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for identity in identities {
        roots.add(identity.certificate.clone()).expect("a root can be added");
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider knows TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    // A resumed session shows the certificate of the first handshake, whatever the server has by now.
    config.resumption = rustls::client::Resumption::disabled();
    Arc::new(config)
}

/// A connection of its own, after the handshake.
pub(crate) async fn connect(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::clone(config)).connect(name, stream).await
}

/// One request over a connection, which ends with it, by whatever protocol was agreed on.
pub(crate) async fn exchange(
    stream: TlsStream<TcpStream>,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<(Answer, Version)> {
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    // Dropping the set at the end of the call ends the connection with it.
    let mut connections = JoinSet::new();
    let response = if is_http2 {
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        connections.spawn(async move { connection.await.ok() });
        sender.send_request(request).await?
    } else {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        connections.spawn(async move { connection.await.ok() });
        sender.send_request(request).await?
    };
    let version = response.version();
    let (head, body) = response.into_parts();
    let text = |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let answer = Answer {
        status: head.status.as_u16(),
        headers: head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        body: body.collect().await?.to_bytes().to_vec(),
    };
    Ok((answer, version))
}
