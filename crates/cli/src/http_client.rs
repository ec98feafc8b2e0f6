//! A small HTTP client for the commands that talk to a running server: one base URL, one key, a limit on everything.
//!
//! A status is an answer, also 404 or 503: [`HttpClient::request`] fails only when there was none. Large bodies are never
//! held in memory: [`HttpClient::download`] writes as it reads, [`HttpClient::upload`] reads as it writes.

mod body;
mod error;
mod tls;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, USER_AGENT};
use hyper::http::uri::{Authority, Scheme};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use body::{FileBody, RequestBody};
pub(crate) use error::ClientError;

/// How long a connection may take to be made, unless told otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a whole request may take, unless told otherwise. For large bodies: how long nothing may move.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest answer kept in memory, unless told otherwise, in bytes.
const BODY_MAX_BYTES: usize = 64 * 1024 * 1024;
/// How many unused connections are kept, unless told otherwise.
const IDLE_CONNECTIONS_MAX: usize = 4;
/// How long an unused connection is kept: shorter than servers usually do, so that we close first.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// What a client is made from. [`ClientOptions::new`] has defaults for an operator's command.
#[derive(Debug)]
pub(crate) struct ClientOptions {
    /// `http://HOST[:PORT][/PREFIX]` or the same with https.
    pub(crate) base_url: String,
    /// Sent as `Authorization: Bearer`.
    pub(crate) key: Option<SecretString>,
    /// Certificates (PEM) to trust beside the system's.
    pub(crate) ca_file: Option<PathBuf>,
    /// How long a connection may take to be made.
    pub(crate) connect_timeout: Duration,
    /// How long a whole request may take. For large bodies: how long nothing may move.
    pub(crate) request_timeout: Duration,
    /// The largest answer kept in memory, in bytes.
    pub(crate) body_max_bytes: usize,
    /// How many unused connections are kept.
    pub(crate) idle_connections_max: usize,
}

impl ClientOptions {
    /// The defaults, for the server at `base_url`.
    pub(crate) fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            key: None,
            ca_file: None,
            connect_timeout: CONNECT_TIMEOUT,
            request_timeout: REQUEST_TIMEOUT,
            body_max_bytes: BODY_MAX_BYTES,
            idle_connections_max: IDLE_CONNECTIONS_MAX,
        }
    }
}

/// An answer, whole in memory.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The status code, whichever.
    pub(crate) status: StatusCode,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The body; empty after a [`HttpClient::download`] that succeeded, because it has been written to its destination.
    pub(crate) body: Bytes,
}

/// An answer whose body is still coming.
#[derive(Debug)]
pub(crate) struct ReplyStream {
    /// The status code, whichever.
    pub(crate) status: StatusCode,
    /// The headers.
    pub(crate) headers: HeaderMap,
    body: Incoming,
    target: Arc<str>,
}

impl ReplyStream {
    /// The next bytes; none when the body is complete.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| ClientError::from_hyper(&self.target, &error))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

/// A client of one server. Cloning shares its connections.
#[derive(Clone)]
pub(crate) struct HttpClient {
    inner: Client<HttpsConnector<HttpConnector>, RequestBody>,
    scheme: Scheme,
    authority: Authority,
    prefix: Arc<str>,
    /// Scheme and authority, for error messages.
    target: Arc<str>,
    authorization: Option<HeaderValue>,
    request_timeout: Duration,
    body_max_bytes: usize,
}

impl HttpClient {
    /// A client; connects to nothing yet.
    pub(crate) fn new(options: &ClientOptions) -> Result<Self, ClientError> {
        let base = BaseUrl::parse(&options.base_url)?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(options.connect_timeout));
        let tls = tls::configuration(base.scheme == Scheme::HTTPS, options.ca_file.as_deref())?;
        let connector = HttpsConnector::from((tcp, tls));
        let inner = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(options.idle_connections_max)
            .build(connector);
        let authorization = options.key.as_ref().map(bearer).transpose()?;
        Ok(Self {
            inner,
            target: Arc::from(format!("{}://{}", base.scheme, base.authority)),
            scheme: base.scheme,
            authority: base.authority,
            prefix: Arc::from(base.prefix),
            authorization,
            request_timeout: options.request_timeout,
            body_max_bytes: options.body_max_bytes,
        })
    }

    /// Scheme, host and port of the server.
    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    /// Sends a request once and reads its answer. An error says that there was no answer, not that nothing happened.
    pub(crate) async fn request(
        &self,
        method: Method,
        path_and_query: &str,
        headers: HeaderMap,
        body: Option<Bytes>,
    ) -> Result<Reply, ClientError> {
        let request = self.build(method, path_and_query, headers, RequestBody::whole(body))?;
        let exchange = async {
            let response = self.send(request).await?;
            self.collect(response).await
        };
        self.within_timeout(exchange).await
    }

    /// Sends a request and returns as soon as the head of the answer is here; the body comes as the caller takes it.
    pub(crate) async fn stream(
        &self,
        method: Method,
        path_and_query: &str,
        headers: HeaderMap,
    ) -> Result<ReplyStream, ClientError> {
        let request = self.build(method, path_and_query, headers, RequestBody::whole(None))?;
        let (head, body) = self.within_timeout(self.send(request)).await?.into_parts();
        Ok(ReplyStream { status: head.status, headers: head.headers, body, target: Arc::clone(&self.target) })
    }

    /// GETs a body of any size into `writer`; returns the answer and how many bytes were written. The body of an answer
    /// that is no success is kept in the reply instead. The time limit is for each piece, not for the whole.
    pub(crate) async fn download(
        &self,
        path_and_query: &str,
        headers: HeaderMap,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(Reply, u64), ClientError> {
        let request = self.build(Method::GET, path_and_query, headers, RequestBody::whole(None))?;
        let response = self.within_timeout(self.send(request)).await?;
        if !response.status().is_success() {
            let refused = self.within_timeout(self.collect(response)).await?;
            return Ok((refused, 0));
        }
        let (head, body) = response.into_parts();
        let target = Arc::clone(&self.target);
        let mut stream = ReplyStream { status: head.status, headers: head.headers, body, target };
        let mut written_bytes = 0;
        while let Some(piece) = self.within_timeout(stream.next()).await? {
            writer.write_all(&piece).await.map_err(ClientError::Write)?;
            written_bytes += piece.len() as u64;
        }
        writer.flush().await.map_err(ClientError::Write)?;
        Ok((Reply { status: stream.status, headers: stream.headers, body: Bytes::new() }, written_bytes))
    }

    /// Sends a file of any size. The time limit is how long nothing may move, not for the whole.
    pub(crate) async fn upload(
        &self,
        method: Method,
        path_and_query: &str,
        headers: HeaderMap,
        file: &Path,
    ) -> Result<Reply, ClientError> {
        let moved = Arc::new(AtomicU64::new(0));
        let body = FileBody::open(file, Arc::clone(&moved))
            .await
            .map_err(|source| ClientError::Read { path: file.to_path_buf(), source })?;
        let request = self.build(method, path_and_query, headers, RequestBody::File(body))?;
        let exchange = async {
            let response = self.send(request).await?;
            self.collect(response).await
        };
        let mut exchange = std::pin::pin!(exchange);
        let mut moved_before = 0;
        loop {
            match tokio::time::timeout(self.request_timeout, &mut exchange).await {
                Ok(reply) => return reply,
                Err(_) if moved.load(Ordering::Relaxed) > moved_before => {
                    moved_before = moved.load(Ordering::Relaxed);
                }
                Err(_) => return Err(self.timed_out()),
            }
        }
    }

    fn build(
        &self,
        method: Method,
        path_and_query: &str,
        mut headers: HeaderMap,
        body: RequestBody,
    ) -> Result<Request<RequestBody>, ClientError> {
        let uri = Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(format!("{}{path_and_query}", self.prefix))
            .build()
            .map_err(|error| ClientError::BadPath {
                path: path_and_query.to_owned(),
                reason: error.to_string(),
            })?;
        if let Some(authorization) = &self.authorization {
            headers.entry(AUTHORIZATION).or_insert_with(|| authorization.clone());
        }
        headers
            .entry(USER_AGENT)
            .or_insert(HeaderValue::from_static(concat!("anteroom/", env!("CARGO_PKG_VERSION"))));
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok(request)
    }

    async fn send(&self, request: Request<RequestBody>) -> Result<Response<Incoming>, ClientError> {
        self.inner.request(request).await.map_err(|error| ClientError::from_client(&self.target, &error))
    }

    async fn collect(&self, response: Response<Incoming>) -> Result<Reply, ClientError> {
        let (head, body) = response.into_parts();
        let collected = Limited::new(body, self.body_max_bytes).collect().await.map_err(|error| {
            match error.downcast_ref::<hyper::Error>() {
                Some(error) => ClientError::from_hyper(&self.target, error),
                None if error.is::<LengthLimitError>() => {
                    ClientError::TooLarge { target: self.target.to_string(), max_bytes: self.body_max_bytes }
                }
                None => ClientError::Lost { target: self.target.to_string(), reason: error.to_string() },
            }
        })?;
        Ok(Reply { status: head.status, headers: head.headers, body: collected.to_bytes() })
    }

    async fn within_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        match tokio::time::timeout(self.request_timeout, work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.timed_out()),
        }
    }

    fn timed_out(&self) -> ClientError {
        ClientError::TooSlow { target: self.target.to_string(), limit: self.request_timeout }
    }
}

/// Percent-encodes everything but RFC 3986's unreserved characters: for a room id in a path, or a value in a query.
pub(crate) fn percent_encode(text: &str) -> String {
    let encode = |byte: u8| {
        let unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if unreserved { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(encode).collect()
}

/// Where a server is.
#[derive(Debug)]
struct BaseUrl {
    scheme: Scheme,
    authority: Authority,
    /// What precedes every path, without a slash at its end.
    prefix: String,
}

impl BaseUrl {
    fn parse(url: &str) -> Result<Self, ClientError> {
        let bad =
            |reason: &str| ClientError::BadUrl { url: without_password(url), reason: reason.to_owned() };
        let uri: Uri = url.trim().parse().map_err(|_| bad("it cannot be read"))?;
        let parts = uri.into_parts();
        let scheme = parts.scheme.ok_or_else(|| bad("it does not begin with http:// or https://"))?;
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(bad("only http and https are known"));
        }
        let authority = parts.authority.ok_or_else(|| bad("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("a user name or password does not belong into it"));
        }
        let path = parts.path_and_query;
        if path.as_ref().is_some_and(|path| path.query().is_some()) {
            return Err(bad("a query does not belong into it"));
        }
        let prefix = path.map(|path| path.path().trim_end_matches('/').to_owned()).unwrap_or_default();
        Ok(Self { scheme, authority, prefix })
    }
}

/// A URL as it may be shown: whatever stands before an `@` could be a password.
fn without_password(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => url.to_owned(),
    }
}

fn bearer(key: &SecretString) -> Result<HeaderValue, ClientError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret().trim()))
        .map_err(|_| ClientError::BadKey)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests;
