//! How a store in Redis is opened.

use std::fmt;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretSlice};

use super::address::RedisUrl;
use crate::contract::StoreError;
use crate::seal::{Plain, Seal};

/// What every key begins with by default.
pub const DEFAULT_PREFIX: &str = "anteroom";
/// The longest prefix, in bytes.
const PREFIX_MAX_BYTES: usize = 64;

/// What is demanded where the server does not let us ask for its replication id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ordering {
    /// Go on with what each node has seen; see [`Guarantee::Downgraded`].
    #[default]
    Lenient,
    /// Refuse to open.
    Strict,
}

/// What uniqueness of positions across a failover rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarantee {
    /// The server tells which unbroken history it continues: positions are unique across a failover.
    Full,
    /// The server does not: positions are unique across a failover only as far as some node had seen them.
    Downgraded,
}

impl fmt::Display for Guarantee {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Full => "full",
            Self::Downgraded => "downgraded",
        })
    }
}

/// How many replicas must have a write before it counts as confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Replicas {
    /// One, if there are any or ever were.
    #[default]
    Auto,
    /// So many; none of them means that a confirmation waits for nothing.
    Exactly(u32),
}

/// Certificates for a connection over TLS, as PEM. Without them, those of the system.
#[derive(Clone, Default)]
pub struct RedisCertificates {
    /// Who is trusted to vouch for the server.
    pub authorities: Option<Vec<u8>>,
    /// Our own certificate and its key, where the server asks for one.
    pub client: Option<(Vec<u8>, SecretSlice<u8>)>,
}

impl RedisCertificates {
    pub(super) fn material(&self) -> redis::TlsCertificates {
        let client = self.client.as_ref().map(|(certificate, key)| redis::ClientTlsConfig {
            client_cert: certificate.clone(),
            client_key: key.expose_secret().to_vec(),
        });
        redis::TlsCertificates { client_tls: client, root_cert: self.authorities.clone() }
    }
}

/// Where a Redis is, what of it is ours, and what is demanded of it.
#[derive(Clone)]
pub struct RedisOptions {
    /// Where it is.
    pub url: RedisUrl,
    /// What every key begins with.
    pub prefix: String,
    /// What records are sealed with.
    pub seal: Arc<dyn Seal>,
    /// Whether to do without the server's replication id.
    pub ordering: Ordering,
    /// How many replicas confirm a write.
    pub replicas: Replicas,
    /// For connections over TLS.
    pub certificates: RedisCertificates,
}

impl RedisOptions {
    /// A store at this URL, with everything else as usual, and records not sealed.
    pub fn new(url: RedisUrl) -> Self {
        Self {
            url,
            prefix: DEFAULT_PREFIX.to_owned(),
            seal: Arc::new(Plain),
            ordering: Ordering::default(),
            replicas: Replicas::default(),
            certificates: RedisCertificates::default(),
        }
    }

    /// Whether the prefix can be part of a key without changing which server the key is on.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let is_fine = (1..=PREFIX_MAX_BYTES).contains(&self.prefix.len())
            && self.prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte));
        if is_fine {
            return Ok(());
        }
        Err(StoreError::Permanent(format!(
            "the prefix of the Redis store must be 1 to {PREFIX_MAX_BYTES} letters, digits or any of -_.:/"
        )))
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, prefix, ordering, replicas, .. } = self;
        write!(formatter, "RedisOptions {{ {url}, prefix {prefix}, {ordering:?}, {replicas:?} }}")
    }
}
