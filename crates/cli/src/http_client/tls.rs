//! Whom to trust: the system's certificate authorities, and those of `--ca-file`.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::error::ClientError;

/// The TLS side of a client. The system's certificates are read only when they are `needed`: for http they are not.
pub(super) fn configuration(needed: bool, ca_file: Option<&Path>) -> Result<ClientConfig, ClientError> {
    let mut roots = RootCertStore::empty();
    if needed {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if let Some(path) = ca_file {
        add_file(&mut roots, path)
            .map_err(|reason| ClientError::CaFile { path: path.to_path_buf(), reason })?;
    }
    if needed && roots.is_empty() {
        return Err(ClientError::NoRoots);
    }
    let configuration = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider knows the default versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(configuration)
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
    let mut found = 0;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
        found += 1;
    }
    if found == 0 { Err("it holds no certificate in PEM form".to_owned()) } else { Ok(()) }
}
