//! Certificates of a listener: read from PEM files, checked against each other, and exchanged while running.
//!
//! A renewal writes two files, one after the other, and the process may look in between. So a pair that does not fit is
//! refused, the old one stays in use, and the next change of either file tries again.
//!
//! *Boundary:* errors name a file and a reason, never what the file contains.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::zeroize::Zeroizing;
use tracing::{info, warn};

use crate::ops::shutdown::Shutdown;

/// HTTP/2 as ALPN spells it.
pub const ALPN_HTTP2: &[u8] = b"h2";
/// HTTP/1.1 as ALPN spells it.
pub const ALPN_HTTP1: &[u8] = b"http/1.1";
/// How often the files are looked at for a change.
pub const CERTIFICATE_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// The largest certificate or key file that is read.
pub const CERTIFICATE_FILE_MAX_BYTES: u64 = 1024 * 1024;

/// A listener's certificate chain and key, and the files they come from.
#[derive(Debug)]
pub struct Certificates {
    certificate_path: PathBuf,
    key_path: PathBuf,
    server_config: Arc<ServerConfig>,
    current: Arc<Current>,
    /// What the files looked like when they were last read, whether or not that went well.
    last_read: Mutex<Fingerprint>,
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{} {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Continues the sentence that the path begins.
        reason: &'static str,
    },
    /// Each file is fine, but they do not belong together.
    #[error("the key in {} does not belong to the certificate in {}", key.display(), certificate.display())]
    Mismatch {
        /// The certificate file.
        certificate: PathBuf,
        /// The key file.
        key: PathBuf,
    },
    /// rustls refused the pair for another reason.
    #[error("{} and {} cannot be used for TLS: {source}", certificate.display(), key.display())]
    Unusable {
        /// The certificate file.
        certificate: PathBuf,
        /// The key file.
        key: PathBuf,
        /// What rustls said.
        source: rustls::Error,
    },
}

impl Certificates {
    /// Reads a PEM chain (the server's certificate first) and its PEM key.
    pub fn load(certificate_path: &Path, key_path: &Path) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let fingerprint = Fingerprint::take(certificate_path, key_path);
        let certified_key = read_pair(certificate_path, key_path, &provider)?;
        let current = Arc::new(Current { key: ArcSwap::from_pointee(certified_key), provider });
        let server_config = server_config(&current).map_err(|source| TlsError::Unusable {
            certificate: certificate_path.to_owned(),
            key: key_path.to_owned(),
            source,
        })?;
        Ok(Self {
            certificate_path: certificate_path.to_owned(),
            key_path: key_path.to_owned(),
            server_config: Arc::new(server_config),
            current,
            last_read: Mutex::new(fingerprint),
        })
    }

    /// What a handshake needs. The certificate inside is the current one at the time of each handshake.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.server_config)
    }

    /// When the first certificate of the present chain ends, in seconds since 1970; `None` where that cannot be read.
    pub fn expires_at_seconds(&self) -> Option<i64> {
        self.current.key.load().cert.iter().filter_map(not_after).min()
    }

    /// Reads the files again, changed or not. New connections get what they contain; if that cannot be used, the old
    /// certificate stays and a warning is logged. Blocks on the file system.
    pub fn reload(&self) -> Result<(), TlsError> {
        // Taken before reading: a change in between is then seen as a change the next time.
        let fingerprint = Fingerprint::take(&self.certificate_path, &self.key_path);
        *self.last_read.lock().unwrap_or_else(PoisonError::into_inner) = fingerprint;
        match read_pair(&self.certificate_path, &self.key_path, &self.current.provider) {
            Ok(certified_key) => {
                self.current.key.store(Arc::new(certified_key));
                info!(certificate = %self.certificate_path.display(), "certificate reloaded");
                Ok(())
            }
            Err(error) => {
                warn!(%error, "certificate cannot be reloaded, keeping the old one");
                Err(error)
            }
        }
    }

    /// Reloads whenever a file changes, until a shutdown is asked for.
    pub async fn watch(self: Arc<Self>, shutdown: Shutdown) {
        self.watch_every(CERTIFICATE_POLL_INTERVAL, shutdown).await;
    }

    async fn watch_every(self: Arc<Self>, interval: Duration, shutdown: Shutdown) {
        loop {
            tokio::select! {
                biased;
                () = shutdown.requested() => return,
                () = tokio::time::sleep(interval) => {}
            }
            let certificates = Arc::clone(&self);
            // A panic in there would be ours to fix, but is no reason to stop looking.
            let _ = tokio::task::spawn_blocking(move || certificates.reload_if_changed()).await;
        }
    }

    fn reload_if_changed(&self) {
        let now = Fingerprint::take(&self.certificate_path, &self.key_path);
        let changed = *self.last_read.lock().unwrap_or_else(PoisonError::into_inner) != now;
        if changed {
            // The warning is already logged, and there is no caller to return it to.
            let _ = self.reload();
        }
    }
}

/// Time of change and length of both files; `None` for one that cannot be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fingerprint([Option<(SystemTime, u64)>; 2]);

impl Fingerprint {
    fn take(certificate_path: &Path, key_path: &Path) -> Self {
        Self([certificate_path, key_path].map(|path| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        }))
    }
}

/// The certificate that the next handshake gets, whatever name the client asks for.
#[derive(Debug)]
struct Current {
    key: ArcSwap<CertifiedKey>,
    provider: Arc<CryptoProvider>,
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.key.load_full())
    }
}

fn server_config(current: &Arc<Current>) -> Result<ServerConfig, rustls::Error> {
    let resolver: Arc<dyn ResolvesServerCert> = Arc::clone(current) as _;
    let mut config = ServerConfig::builder_with_provider(Arc::clone(&current.provider))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(resolver);
    config.alpn_protocols = vec![ALPN_HTTP2.to_vec(), ALPN_HTTP1.to_vec()];
    Ok(config)
}

fn read_pair(
    certificate_path: &Path,
    key_path: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let chain = read_chain(certificate_path)?;
    let key = read_key(key_path)?;
    CertifiedKey::from_der(chain, key, provider).map_err(|source| match source {
        rustls::Error::InconsistentKeys(_) => {
            TlsError::Mismatch { certificate: certificate_path.to_owned(), key: key_path.to_owned() }
        }
        source => {
            TlsError::Unusable { certificate: certificate_path.to_owned(), key: key_path.to_owned(), source }
        }
    })
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read_file(path)?;
    let chain = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| invalid(path, pem_reason(&error)))?;
    if chain.is_empty() {
        return Err(invalid(path, "contains no PEM certificate"));
    }
    Ok(chain)
}

/// Until when a certificate is valid, in seconds since 1970.
fn not_after(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read_file(path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound => invalid(path, "contains no unencrypted PEM private key"),
        error => invalid(path, pem_reason(&error)),
    })
}

/// Says what is wrong in our own words, because the library's quote the file.
fn pem_reason(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => "ends within a PEM section",
        pem::Error::IllegalSectionStart { .. } => "contains a malformed PEM section start",
        pem::Error::Base64Decode(_) => "contains a PEM section that is not valid base64",
        _ => "is not a valid PEM file",
    }
}

fn read_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    let unreadable = |source| TlsError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let mut text = Zeroizing::new(Vec::new());
    file.take(CERTIFICATE_FILE_MAX_BYTES + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > CERTIFICATE_FILE_MAX_BYTES {
        return Err(invalid(path, "is larger than a megabyte, so it is no certificate or key"));
    }
    Ok(text)
}

fn invalid(path: &Path, reason: &'static str) -> TlsError {
    TlsError::Invalid { path: path.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::shutdown;

    fn write_new_pair(directory: &Path) -> (PathBuf, PathBuf) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (directory.join("crt"), directory.join("key"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        (certificate, key)
    }

    #[test]
    fn the_chain_ends_with_its_first_certificate() {
        let directory = tempfile::tempdir().unwrap();
        let certificate_until = |year| {
            let key = rcgen::KeyPair::generate().unwrap();
            let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
            parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
            (parameters.self_signed(&key).unwrap().pem(), key.serialize_pem())
        };
        let ((own, key), (authority, _)) = (certificate_until(2040), certificate_until(2035));
        let (certificate_path, key_path) = (directory.path().join("crt"), directory.path().join("key"));
        std::fs::write(&key_path, key).unwrap();
        std::fs::write(&certificate_path, &own).unwrap();
        let certificates = Certificates::load(&certificate_path, &key_path).unwrap();
        assert_eq!(certificates.expires_at_seconds(), Some(2_208_988_800), "2040");
        std::fs::write(&certificate_path, own + &authority).unwrap();
        certificates.reload().unwrap();
        assert_eq!(
            certificates.expires_at_seconds(),
            Some(2_051_222_400),
            "2035, that of who vouches for it"
        );
    }

    #[tokio::test]
    async fn a_change_of_the_files_is_noticed_even_after_a_bad_one() {
        let directory = tempfile::tempdir().unwrap();
        let (certificate, key) = write_new_pair(directory.path());
        let certificates = Arc::new(Certificates::load(&certificate, &key).unwrap());
        let (trigger, shutdown) = shutdown::channel();
        let watching = Arc::clone(&certificates).watch_every(Duration::from_millis(1), shutdown);

        let first = certificates.current.key.load_full();
        let story = async {
            let mut ticks = tokio::time::interval(Duration::from_millis(1));
            std::fs::write(&certificate, "garbage").unwrap();
            let seen = Fingerprint::take(&certificate, &key);
            while *certificates.last_read.lock().unwrap() != seen {
                ticks.tick().await;
            }
            assert!(Arc::ptr_eq(&first, &certificates.current.key.load_full()), "the old one stays");
            write_new_pair(directory.path());
            while first.cert == certificates.current.key.load().cert {
                ticks.tick().await;
            }
            trigger.pull();
        };
        let both = async { tokio::join!(watching, story) };
        tokio::time::timeout(Duration::from_secs(20), both).await.expect("within the deadline");
    }
}
