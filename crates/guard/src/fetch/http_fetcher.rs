//! The built-in client: one GET over HTTP/1.1, in clear text or TLS. Redirects are not followed, and no connection is kept,
//! because it is used every five minutes.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::uri::Scheme;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};

use super::{BoxError, FetchError, FetchKeys, KEY_SET_MAX_BYTES};
use crate::guard::BuildError;

const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("anteroom-guard/", env!("CARGO_PKG_VERSION")));

/// Fetches the key set from an address.
pub struct HttpFetcher {
    address: Uri,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

impl HttpFetcher {
    /// A client that trusts what the system trusts.
    ///
    /// With `http://` a machine between the site and the waiting room could send keys of its own: only for networks that
    /// nobody else is in.
    pub fn new(address: &str) -> Result<Self, BuildError> {
        let mut roots = RootCertStore::empty();
        if parse(address)?.scheme() == Some(&Scheme::HTTPS) {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(BuildError::NoCertificateAuthorities);
            }
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider knows the default versions of TLS")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self::with_tls(address, tls)
    }

    /// A client that trusts what this configuration says, for a private certificate authority.
    pub fn with_tls(address: &str, tls: ClientConfig) -> Result<Self, BuildError> {
        let address = parse(address)?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        let connector = HttpsConnector::from((tcp, tls));
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Ok(Self { address, client })
    }

    async fn get(&self) -> Result<Bytes, BoxError> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = self.address.clone();
        request.headers_mut().insert(header::USER_AGENT, USER_AGENT);
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let response = self.client.request(request).await?;
        if response.status() != StatusCode::OK {
            return Err(format!("the answer was {}", response.status()).into());
        }
        match Limited::new(response.into_body(), KEY_SET_MAX_BYTES).collect().await {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(FetchError::TooLarge.into()),
            Err(error) => Err(error),
        }
    }
}

impl FetchKeys for HttpFetcher {
    fn fetch(&self) -> Pin<Box<dyn Future<Output = Result<Bytes, BoxError>> + Send + '_>> {
        Box::pin(self.get())
    }
}

impl std::fmt::Debug for HttpFetcher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HttpFetcher").field("address", &self.address).finish_non_exhaustive()
    }
}

fn parse(address: &str) -> Result<Uri, BuildError> {
    let uri: Uri = address.parse().map_err(|_| BuildError::InvalidAddress(address.to_owned()))?;
    let is_known = uri.scheme() == Some(&Scheme::HTTP) || uri.scheme() == Some(&Scheme::HTTPS);
    let names_a_host = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    if is_known && names_a_host { Ok(uri) } else { Err(BuildError::InvalidAddress(address.to_owned())) }
}
