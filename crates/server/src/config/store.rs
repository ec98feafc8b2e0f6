//! Where state lives: what `store_url` and the settings around it may be.
//!
//! The URL of a Redis may hold a password: then it is refused in the file, as every secret is.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;

pub use anteroom_store::redis::RedisUrl;
use toml::de::DeValue;

use super::kinds::{Kind, Raw, Refusal};
use super::variable_name;

/// The longest prefix of keys, in characters.
const PREFIX_MAX_CHARACTERS: usize = 32;
/// How many replicas can be asked for.
const REPLICAS: RangeInclusive<u64> = 0..=8;

/// Where state lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// Embedded, in this directory.
    File(PathBuf),
    /// In the memory of the process.
    Memory,
    /// In a Redis or Valkey that several nodes share.
    Redis(RedisUrl),
}

/// As it may be printed: without the password.
impl fmt::Display for StoreUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(directory) => write!(formatter, "file:{}", directory.display()),
            Self::Memory => formatter.write_str("memory:"),
            Self::Redis(url) => url.fmt(formatter),
        }
    }
}

/// What is dangerous about this way to a store, in one sentence without any secret. On loopback nothing is.
pub fn redis_danger(url: &RedisUrl) -> Option<&'static str> {
    match (url.is_loopback(), url.has_password(), url.is_encrypted()) {
        (true, _, _) | (false, true, true) => None,
        (false, false, true) => Some(
            "the Redis is off loopback and store_url has no password: any client that reaches it can change everything",
        ),
        (false, true, false) => Some(
            "the Redis is off loopback without TLS: its password can be read on the network; use rediss://",
        ),
        (false, false, false) => Some(
            "the Redis is off loopback without password and without TLS: any client that reaches it can change everything; \
             give it a password and use rediss://",
        ),
    }
}

/// [`StoreUrl`] as a kind.
pub struct StoreLocation;

impl Kind for StoreLocation {
    type Value = StoreUrl;
    fn expected() -> String {
        "\"file:PATH\", \"memory:\", or the URL of a Redis such as \"redis://127.0.0.1:6379\"".to_owned()
    }
    fn read(raw: Raw<'_>) -> Result<StoreUrl, Refusal> {
        read_location(raw, "store_url")
    }
}

/// Where something lives, as `setting` has it.
pub(super) fn read_location(raw: Raw<'_>, setting: &str) -> Result<StoreUrl, Refusal> {
    let text = raw.text()?;
    let (scheme, rest) = text.split_once(':').ok_or(Refusal::Unexpected)?;
    match scheme {
        "file" => {
            // `file:///var/lib` is the long form of `file:/var/lib`; `file://host/…` names another machine.
            let path = match rest.strip_prefix("//") {
                Some(absolute) if absolute.starts_with('/') => absolute,
                Some(_) => return Err(Refusal::Unexpected),
                None => rest,
            };
            if path.is_empty() { Err(Refusal::Unexpected) } else { Ok(StoreUrl::File(PathBuf::from(path))) }
        }
        "memory" if rest.is_empty() => Ok(StoreUrl::Memory),
        "valkey" | "valkeys" => Err(Refusal::Because(
            "a Valkey is named by the same URLs as a Redis: redis:// or rediss://".into(),
        )),
        "redis+unix" | "unix" => {
            Err(Refusal::Because("a Redis is reached over TCP; Unix sockets are not supported".into()))
        }
        _ if scheme == "redis" || scheme.starts_with("redis+") || scheme.starts_with("rediss") => {
            let url = RedisUrl::parse(text).map_err(|error| Refusal::Because(error.to_string()))?;
            if url.has_secret() && matches!(raw, Raw::Toml(_)) {
                return Err(Refusal::Because(format!(
                    "a password does not belong in this file; give the whole URL as {} in the environment",
                    variable_name(setting)
                )));
            }
            Ok(StoreUrl::Redis(url))
        }
        _ => Err(Refusal::Unexpected),
    }
}

/// What every key of ours in a Redis begins with.
pub struct KeyPrefix;

impl Kind for KeyPrefix {
    type Value = String;
    fn expected() -> String {
        format!("1 to {PREFIX_MAX_CHARACTERS} characters out of A-Z, a-z, 0-9, '_', '.' and '-'")
    }
    fn read(raw: Raw<'_>) -> Result<String, Refusal> {
        let prefix = raw.text()?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if (1..=PREFIX_MAX_CHARACTERS).contains(&prefix.len()) && prefix.bytes().all(is_plain) {
            Ok(prefix.to_owned())
        } else {
            Err(Refusal::Unexpected)
        }
    }
}

/// How many replicas must have a pass before it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreReplicas {
    /// One, where there are replicas.
    Auto,
    /// So many; none: a pass never waits.
    Exactly(u64),
}

/// [`StoreReplicas`] as a kind.
pub struct ReplicaCount;

impl Kind for ReplicaCount {
    type Value = StoreReplicas;
    fn expected() -> String {
        format!("\"auto\" or a whole number from {} to {}", REPLICAS.start(), REPLICAS.end())
    }
    fn read(raw: Raw<'_>) -> Result<StoreReplicas, Refusal> {
        match raw {
            Raw::Text("auto") => Ok(StoreReplicas::Auto),
            Raw::Toml(DeValue::String(text)) if text == "auto" => Ok(StoreReplicas::Auto),
            number => number.whole_number(*REPLICAS.start(), *REPLICAS.end()).map(StoreReplicas::Exactly),
        }
    }
}

/// What must hold of the order of places after a failover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreOrdering {
    /// Every failover is noticed inside the scripts; a Redis that does not permit that is refused.
    Strict,
    /// Numbers never go below the highest that a node has seen; such a Redis is taken, with a warning.
    HighestSeen,
}

/// [`StoreOrdering`] as a kind.
pub struct Ordering;

impl Kind for Ordering {
    type Value = StoreOrdering;
    fn expected() -> String {
        "\"strict\" or \"highest-seen\"".to_owned()
    }
    fn read(raw: Raw<'_>) -> Result<StoreOrdering, Refusal> {
        match raw.text()? {
            "strict" => Ok(StoreOrdering::Strict),
            "highest-seen" => Ok(StoreOrdering::HighestSeen),
            _ => Err(Refusal::Unexpected),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_redis_that_other_machines_reach_or_overhear_is_dangerous() {
        let danger = |text: &str| redis_danger(&RedisUrl::parse(text).expect(text));
        for safe in [
            "redis://127.0.0.1",
            "redis://127.9.9.9:6379",
            "redis://LOCALHOST",
            "redis://[::1]",
            "rediss://:hunter2@redis.example",
            "redis+sentinel://localhost:1,127.0.0.1:2/main",
        ] {
            assert_eq!(danger(safe), None, "{safe}");
        }
        for (text, expected) in [
            ("redis://10.0.0.1", "without password and without TLS"),
            ("redis://redis.example", "without password and without TLS"),
            ("redis://:hunter2@redis.example", "without TLS"),
            ("rediss://redis.example", "no password"),
            ("redis+cluster://127.0.0.1,10.0.0.1", "without password"),
            ("redis://[::2]", "without password"),
        ] {
            let sentence = danger(text).expect(text);
            assert!(sentence.contains(expected) && !sentence.contains("hunter2"), "{text}: {sentence}");
        }
    }
}
