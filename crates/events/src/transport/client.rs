//! The HTTP client of transports: one POST to one address, with every read bounded and no redirect followed.
//!
//! Each destination has a client, and so a pool of connections, of its own: one that is slow holds up nobody else. Proxies that the
//! environment names are not used, because they would resolve names where the policy does not see it.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::CertificateError;
use rustls_pki_types::InvalidDnsNameError;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::policy::{ConnectFailure, OutboundPolicy, Wire, connection_reason};

/// How much of an answer's body is read.
const ANSWER_BODY_MAX_BYTES: usize = 64 * 1024;
/// How large an answer's headers may be together.
const ANSWER_HEADERS_MAX_BYTES: usize = 64 * 1024;
/// How many headers an answer may have.
const ANSWER_HEADERS_MAX: usize = 100;
/// How long the rest of an answer is waited for when its status has said all, so that the connection can be used again.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a connection is kept for the next request.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
/// How many connections are kept for the next request.
const IDLE_CONNECTIONS_MAX: usize = 8;
/// The longest URL of a destination.
pub(super) const URL_MAX_LENGTH: usize = 2048;

const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("anteroom/", env!("CARGO_PKG_VERSION")));

/// Why a URL is no address of a destination. Never quotes it: it may hold a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Not a URL, or too long.
    #[error("not a URL of at most {URL_MAX_LENGTH} characters")]
    Syntax,
    /// Of another scheme.
    #[error("the URL must begin with {0}")]
    Scheme(&'static str),
    /// With a name and password before the host.
    #[error("the URL has a user name or password in it, which would end up in logs")]
    UserInfo,
    /// Without a host.
    #[error("the URL names no host")]
    Host,
}

/// An address of HTTP.
#[derive(Clone)]
pub struct HttpAddress(Uri);

impl HttpAddress {
    /// Reads `https://…` or `http://…`.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        let uri: Uri = url.parse().map_err(|_| UrlError::Syntax)?;
        if url.len() > URL_MAX_LENGTH || url.contains('#') {
            return Err(UrlError::Syntax);
        }
        if uri.scheme() != Some(&Scheme::HTTPS) && uri.scheme() != Some(&Scheme::HTTP) {
            return Err(UrlError::Scheme("https:// or http://"));
        }
        match uri.authority() {
            Some(authority) if authority.as_str().contains('@') => Err(UrlError::UserInfo),
            Some(authority) if !authority.host().is_empty() => Ok(Self(uri)),
            _ => Err(UrlError::Host),
        }
    }

    /// The host, with the port if it is not the scheme's own: what goes into `host`.
    pub(crate) fn host(&self) -> String {
        let host = self.0.host().unwrap_or_default();
        let own_port = if self.0.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
        match self.0.port_u16() {
            Some(port) if port != own_port => format!("{host}:{port}"),
            _ => host.to_owned(),
        }
    }

    pub(crate) fn path(&self) -> &str {
        self.0.path()
    }

    pub(crate) fn query(&self) -> &str {
        self.0.query().unwrap_or_default()
    }
}

/// An answer.
pub(crate) struct HttpAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
}

/// A client of one address.
pub(crate) struct HttpClient {
    address: HttpAddress,
    client: Client<HttpsConnector<CheckedConnector>, Full<Bytes>>,
    timeout: Duration,
}

impl HttpClient {
    /// Connects to nothing yet.
    pub(crate) fn new(address: HttpAddress, timeout: Duration, policy: Arc<OutboundPolicy>) -> Self {
        let tls = policy.tls();
        let connector = HttpsConnector::from((CheckedConnector(policy), tls));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .http1_max_buf_size(ANSWER_HEADERS_MAX_BYTES)
            .http1_max_headers(ANSWER_HEADERS_MAX)
            .build(connector);
        Self { address, client, timeout }
    }

    pub(crate) fn address(&self) -> &HttpAddress {
        &self.address
    }

    /// Sends a request once; the status is what counts. An error is a reason that operators read: there was no answer.
    pub(crate) async fn post(
        &self,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(StatusCode, HeaderMap), String> {
        let answer = self.within_timeout(self.request(headers, body)).await?;
        let HttpAnswer { status, headers, body } = answer;
        // What the body says, and whether it ends, changes nothing.
        let _ = timeout(DRAIN_TIMEOUT, read(body)).await;
        Ok((status, headers))
    }

    /// Sends a request once and reads the body of its answer, which the caller cannot do without.
    pub(crate) async fn post_and_read(
        &self,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), String> {
        let exchange = async {
            let answer = self.request(headers, body).await?;
            Ok((answer.status, read(answer.body).await?))
        };
        self.within_timeout(exchange).await
    }

    async fn within_timeout<T>(
        &self,
        exchange: impl Future<Output = Result<T, String>>,
    ) -> Result<T, String> {
        let in_vain = || Err(format!("no answer within {}", in_words(self.timeout)));
        timeout(self.timeout, exchange).await.unwrap_or_else(|_| in_vain())
    }

    async fn request(&self, headers: HeaderMap, body: Bytes) -> Result<HttpAnswer, String> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.address.0.clone();
        *request.headers_mut() = headers;
        request.headers_mut().insert(header::USER_AGENT, USER_AGENT);
        let response = self.client.request(request).await.map_err(|error| reason(&error))?;
        let (head, body) = response.into_parts();
        Ok(HttpAnswer { status: head.status, headers: head.headers, body })
    }
}

/// A time limit as reasons say it.
pub(crate) fn in_words(limit: Duration) -> String {
    if limit.subsec_millis() == 0 {
        format!("{} s", limit.as_secs())
    } else {
        format!("{} ms", limit.as_millis())
    }
}

/// The body as far as it is read at all.
async fn read(mut body: Incoming) -> Result<Bytes, String> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| "connection closed in the middle of the answer".to_owned())?;
        if let Ok(data) = frame.into_data() {
            let room = ANSWER_BODY_MAX_BYTES - whole.len();
            whole.extend_from_slice(&data[..data.len().min(room)]);
            if whole.len() == ANSWER_BODY_MAX_BYTES {
                break;
            }
        }
    }
    Ok(whole.freeze())
}

/// Connects to what the policy allows.
#[derive(Clone)]
struct CheckedConnector(Arc<OutboundPolicy>);

impl tower::Service<Uri> for CheckedConnector {
    type Response = TokioIo<TcpStream>;
    type Error = ConnectFailure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let policy = Arc::clone(&self.0);
        Box::pin(async move {
            let is_https = uri.scheme() == Some(&Scheme::HTTPS);
            let (wire, own_port) = if is_https { (Wire::Tls, 443) } else { (Wire::ClearText, 80) };
            let host = uri.host().unwrap_or_default();
            let stream = policy.connect(host, uri.port_u16().unwrap_or(own_port), wire).await?;
            Ok(TokioIo::new(stream))
        })
    }
}

/// Why there was no answer, in words for operators: from the innermost cause that we have words for.
pub(crate) fn reason(error: &(dyn Error + 'static)) -> String {
    let mut found = "no answer".to_owned();
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(failure) = error.downcast_ref::<ConnectFailure>() {
            return failure.to_string();
        }
        if let Some(failure) = error.downcast_ref::<rustls::Error>() {
            return tls_reason(failure).to_owned();
        }
        if error.is::<InvalidDnsNameError>() {
            return "the host name is none that a certificate can have".to_owned();
        }
        if let Some(words) = error.downcast_ref::<hyper::Error>().and_then(hyper_reason) {
            words.clone_into(&mut found);
        }
        if let Some(failure) = error.downcast_ref::<io::Error>() {
            // The source of an error of IO is the source of what is inside it; the inner one would be left out.
            if let Some(inner) = failure.get_ref() {
                next = Some(inner);
                continue;
            }
            return connection_reason(failure).to_owned();
        }
        next = error.source();
    }
    found
}

fn hyper_reason(error: &hyper::Error) -> Option<&'static str> {
    if error.is_parse_too_large() {
        Some("answered with headers that are too large")
    } else if error.is_parse() {
        Some("answered with something that is not HTTP")
    } else if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        Some("connection closed before an answer")
    } else {
        None
    }
}

fn tls_reason(error: &rustls::Error) -> &'static str {
    let rustls::Error::InvalidCertificate(error) = error else { return "TLS handshake failed" };
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "certificate has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "certificate is not valid yet"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "certificate is for another host name"
        }
        _ => "certificate not trusted",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_their_secrets_never_told() {
        for url in ["https://shop.example/hook?key=1", "http://127.0.0.1:8080", "https://[::1]:8443/a"] {
            assert!(HttpAddress::parse(url).is_ok(), "{url}");
        }
        let long = format!("https://shop.example/{}", "a".repeat(URL_MAX_LENGTH));
        for (url, expected) in [
            ("", UrlError::Syntax),
            ("shop.example", UrlError::Scheme("https:// or http://")),
            ("/hook", UrlError::Scheme("https:// or http://")),
            ("ftp://shop.example", UrlError::Scheme("https:// or http://")),
            ("https://user:secret@shop.example/", UrlError::UserInfo),
            ("https://user@shop.example/", UrlError::UserInfo),
            ("https://public.example@127.0.0.1/", UrlError::UserInfo),
            ("https://shop.example/a b", UrlError::Syntax),
            ("https://shop.example/#a", UrlError::Syntax),
            (&long, UrlError::Syntax),
        ] {
            let error = HttpAddress::parse(url).err();
            assert_eq!(error, Some(expected), "{url}");
            assert!(!expected.to_string().contains("secret"));
        }
    }

    #[test]
    fn the_host_names_a_port_only_if_it_is_not_the_schemes_own() {
        for (url, host) in [
            ("https://shop.example/", "shop.example"),
            ("https://shop.example:443/", "shop.example"),
            ("https://shop.example:80/", "shop.example:80"),
            ("http://shop.example:80/", "shop.example"),
            ("http://[::1]:8080/", "[::1]:8080"),
        ] {
            assert_eq!(HttpAddress::parse(url).ok().unwrap().host(), host);
        }
    }

    #[test]
    fn a_time_limit_is_said_in_seconds_where_it_has_whole_ones() {
        assert_eq!(in_words(Duration::from_secs(15)), "15 s");
        assert_eq!(in_words(Duration::from_millis(1500)), "1500 ms");
    }
}
