//! Certificates: trusted ones, and everything that is wrong with others. The same for webhooks and for NATS.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anteroom_events::destination::NatsTarget;
use anteroom_events::{OpenedSecrets, OutboundPolicy, Target, Transport, transport_of};
use anteroom_testkit::{ReservedPort, wait_for};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::crypto::aws_lc_rs;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

use crate::messages::messages;
use crate::program::{DEADLINE, Program};
use crate::receivers::{SECRET, destination, nats_server, shared_secrets, webhook_target};

const LONG: Duration = Duration::from_secs(30);
/// What is wrong with a certificate, and what a sender is told.
const CASES: [(&str, Result<(), &str>); 4] = [
    ("good", Ok(())),
    ("unknown", Err("certificate not trusted")),
    ("expired", Err("certificate has expired")),
    ("elsewhere", Err("certificate is for another host name")),
];

/// An authority and certificates by it, as PEM files.
struct Certificates(TempDir);

impl Certificates {
    fn make() -> Self {
        let certificates = Self(tempfile::tempdir().unwrap());
        let authority = || {
            let mut parameters = CertificateParams::new(vec![]).unwrap();
            parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            let certificate = parameters.self_signed(&key).unwrap();
            (certificate.pem(), Issuer::new(parameters, key))
        };
        let (trusted_pem, trusted) = authority();
        let (_, unknown) = authority();
        fs::write(certificates.path("ca.pem"), trusted_pem).unwrap();
        for (name, host, issuer, is_expired) in [
            ("good", "localhost", &trusted, false),
            ("unknown", "localhost", &unknown, false),
            ("expired", "localhost", &trusted, true),
            ("elsewhere", "other.example", &trusted, false),
        ] {
            let mut parameters = CertificateParams::new([host.to_owned()]).unwrap();
            if is_expired {
                parameters.not_before = date_time_ymd(2020, 1, 1);
                parameters.not_after = date_time_ymd(2021, 1, 1);
            }
            let key = KeyPair::generate().unwrap();
            let certificate = parameters.signed_by(&key, issuer).unwrap();
            fs::write(certificates.path(&format!("{name}.pem")), certificate.pem()).unwrap();
            fs::write(certificates.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        certificates
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Trusts the one authority beside the system's, and connects to this machine.
    fn policy(&self) -> Arc<OutboundPolicy> {
        let allowed = vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        Arc::new(OutboundPolicy::new(allowed, Some(&self.path("ca.pem"))).unwrap())
    }

    fn server_config(&self, name: &str) -> Arc<ServerConfig> {
        use rustls_pki_types::pem::PemObject as _;
        let chain = rustls_pki_types::CertificateDer::pem_file_iter(self.path(&format!("{name}.pem")))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let key = rustls_pki_types::PrivateKeyDer::from_pem_file(self.path(&format!("{name}.key"))).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        Arc::new(config)
    }
}

/// A receiver that takes one request; its port.
fn receiver(config: Arc<ServerConfig>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), socket);
        let mut head = vec![];
        let mut buffer = [0; 4096];
        while !head.ends_with(b"}") {
            match stream.read(&mut buffer) {
                Ok(read) if read > 0 => head.extend_from_slice(&buffer[..read]),
                _ => return,
            }
        }
        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
        let _ = stream.flush();
        let _ = stream.read(&mut buffer);
    });
    port
}

async fn outcome(transport: Arc<dyn Transport>) -> Result<(), String> {
    transport.send(&messages(4, 1)).await.map_err(|failure| failure.reason)
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_go_to_receivers_with_a_good_certificate_only() {
    let certificates = Certificates::make();
    for (name, expected) in CASES {
        let port = receiver(certificates.server_config(name));
        let target = webhook_target(&format!("https://localhost:{port}/"), 1, LONG);
        let secrets = shared_secrets(&[SECRET]);
        let transport =
            transport_of(&destination(target, false), secrets, certificates.policy(), None).unwrap();
        assert_eq!(outcome(transport).await, expected.map_err(str::to_owned), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_was_not_given_is_not_trusted() {
    let certificates = Certificates::make();
    let port = receiver(certificates.server_config("good"));
    let target = webhook_target(&format!("https://localhost:{port}/"), 1, LONG);
    let policy = OutboundPolicy::new(vec!["127.0.0.0/8".parse().unwrap()], None).unwrap();
    let secrets = shared_secrets(&[SECRET]);
    let transport = transport_of(&destination(target, false), secrets, Arc::new(policy), None).unwrap();
    assert_eq!(outcome(transport).await.unwrap_err(), "certificate not trusted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_speaks_no_tls_is_named() {
    let origin = anteroom_testkit::Origin::playing(|connection| connection.write(b"SSH-2.0-OpenSSH\r\n"));
    let target = webhook_target(&format!("https://localhost:{}/", origin.address().port()), 1, LONG);
    let policy = OutboundPolicy::new(vec!["127.0.0.0/8".parse().unwrap()], None).unwrap();
    let secrets = shared_secrets(&[SECRET]);
    let transport = transport_of(&destination(target, false), secrets, Arc::new(policy), None).unwrap();
    let reason = outcome(transport).await.unwrap_err();
    assert!(
        ["TLS handshake failed", "connection closed", "connection reset"].contains(&&*reason),
        "{reason}"
    );
}

/// A NATS server with TLS.
struct TlsStream {
    _server: Program,
    port: ReservedPort,
    _directory: TempDir,
}

impl TlsStream {
    fn start(program: &Path, certificates: &Certificates, name: &str) -> Self {
        let (port, directory) = (ReservedPort::take(), tempfile::tempdir().unwrap());
        let mut command = Command::new(program);
        command
            .args(["--addr", "127.0.0.1", "--port", &port.number().to_string(), "--jetstream", "--store_dir"])
            .arg(directory.path())
            .args(["--tls", "--tlscert"])
            .arg(certificates.path(&format!("{name}.pem")))
            .arg("--tlskey")
            .arg(certificates.path(&format!("{name}.key")));
        let server = Program::start(&mut command);
        wait_for("the server listens", DEADLINE, || {
            std::net::TcpStream::connect(("127.0.0.1", port.number())).ok()
        });
        Self { _server: server, port, _directory: directory }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_go_to_streams_with_a_good_certificate_only() {
    let Some(program) = nats_server() else { return };
    let certificates = Certificates::make();
    for (name, expected) in CASES {
        let stream = TlsStream::start(&program, &certificates, name);
        let port = stream.port.number();
        for scheme in ["tls", "nats"] {
            let target = Target::Nats(NatsTarget {
                url: format!("{scheme}://localhost:{port}"),
                subject_prefix: "events".into(),
                timeout: LONG,
            });
            let transport = transport_of(
                &destination(target, false),
                OpenedSecrets::default(),
                certificates.policy(),
                None,
            )
            .unwrap();
            // There is no stream; to be told so takes a connection.
            let expected = expected.err().unwrap_or("no stream takes the subject of the event");
            assert_eq!(outcome(transport).await.unwrap_err(), expected, "{name} {scheme}");
        }
    }
}
