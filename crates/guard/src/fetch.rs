//! How the key set gets here: by the built-in client, or by a function of the site.

#[cfg(feature = "fetch")]
mod http_fetcher;

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;

#[cfg(feature = "fetch")]
pub use http_fetcher::HttpFetcher;

/// The largest key set that is read, in bytes. Anteroom publishes at most 16 keys of half a KiB.
pub const KEY_SET_MAX_BYTES: usize = 65_536;

/// Any error of a client.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Fetches the key set as JSON. Every function that returns a future of bytes is one:
///
/// ```
/// # use anteroom_guard::{BoxError, Guard};
/// # async fn get(_: &str) -> Result<Vec<u8>, BoxError> { Ok(b"{}".to_vec()) }
/// let fetch = || async { get("https://wait.example.com/.well-known/jwks.json").await };
/// let guard = Guard::builder("https://wait.example.com").room("Sale").fetcher(fetch).build();
/// ```
///
/// What it returns is refused above [`KEY_SET_MAX_BYTES`], and it is given up after
/// [`GuardBuilder::fetch_timeout`](crate::GuardBuilder::fetch_timeout).
pub trait FetchKeys: Send + Sync + 'static {
    /// The bytes of the key set.
    fn fetch(&self) -> Pin<Box<dyn Future<Output = Result<Bytes, BoxError>> + Send + '_>>;
}

impl<Function, Fetching, Body> FetchKeys for Function
where
    Function: Fn() -> Fetching + Send + Sync + 'static,
    Fetching: Future<Output = Result<Body, BoxError>> + Send + 'static,
    Body: Into<Bytes>,
{
    fn fetch(&self) -> Pin<Box<dyn Future<Output = Result<Bytes, BoxError>> + Send + '_>> {
        let fetching = self();
        Box::pin(async move { Ok(fetching.await?.into()) })
    }
}

/// Why there is no new key set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The client failed.
    #[error("the key set could not be fetched: {0}")]
    Failed(String),
    /// It took too long.
    #[error("the key set did not come within {0:?}")]
    TimedOut(Duration),
    /// The answer is larger than [`KEY_SET_MAX_BYTES`].
    #[error("the key set is larger than {KEY_SET_MAX_BYTES} bytes")]
    TooLarge,
    /// The answer is not `{"keys": […]}`.
    #[error("the answer is not a JWK set")]
    NotAKeySet,
    /// The set has no key that could verify a pass.
    #[error("the key set has no RS256, ES256 or EdDSA key with a kid")]
    NoUsableKey,
    /// The set was fetched a moment ago, or too many requests wait for it.
    #[error("the key set is not fetched again so soon")]
    TooSoon,
    /// The function was called outside a tokio runtime, or the runtime ended.
    #[error("there is no tokio runtime to fetch the key set on")]
    NoRuntime,
}
