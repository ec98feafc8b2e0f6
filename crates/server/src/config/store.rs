//! Where state lives: what `store_url` and the settings around it may be.
//!
//! The URL of a Redis holds a password, so it is checked here to the last character, kept in a type that cannot be printed with
//! it, and refused in the file, as every secret is.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use secrecy::zeroize::Zeroizing;
use toml::de::DeValue;

use super::kinds::{Kind, Raw, Refusal};
use super::variable_name;

/// The most addresses of Sentinels or of a Cluster that a URL names.
pub const ADDRESSES_MAX: usize = 16;
/// The highest number of a database that a URL names.
const DATABASE_MAX: u32 = 9_999;
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

/// How the servers behind a URL work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedisTopology {
    /// One server.
    Single,
    /// Sentinels that know which server is the primary.
    Sentinel,
    /// A Cluster.
    Cluster,
}

/// The URL of a Redis, found to be right. Neither `Debug` nor `Display` shows its password.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    text: Zeroizing<String>,
    shown: String,
    hosts: Vec<String>,
    topology: RedisTopology,
    is_encrypted: bool,
    has_password: bool,
    /// Whether anything in it must not be read by others.
    has_secret: bool,
}

impl RedisUrl {
    /// Reads one, or says in a clause what is wrong with it, without repeating any of it that may be secret.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or("a URL of Redis has `://` after its scheme")?;
        let (topology, is_encrypted) = scheme_of(scheme)?;
        if text.chars().any(|character| character.is_whitespace() || character.is_control()) {
            return Err("a URL holds no white space; write it as %20".into());
        }
        let (rest, query) =
            rest.split_once('?').map_or((rest, None), |(before, query)| (before, Some(query)));
        let has_its_place = |query| topology == RedisTopology::Sentinel && is_sentinel_login(query);
        if rest.contains('#') || !query.is_none_or(has_its_place) {
            return Err(
                "a URL of Redis has no fragment, and no query but sentinel_user and sentinel_password, where there are Sentinels; \
                 in a password write %3F for ? and %23 for #"
                    .into(),
            );
        }
        let (authority, path) =
            rest.split_once('/').map_or((rest, None), |(before, path)| (before, Some(path)));
        if path.is_some_and(|path| path.contains('@')) {
            return Err("the path holds an @; in a password write %2F for / and %40 for @".into());
        }
        let (credentials, addresses) = match authority.rsplit_once('@') {
            Some((credentials, addresses)) => (Some(credentials), addresses),
            None => (None, authority),
        };
        let user = credentials.map(user_of).transpose()?;
        let hosts = hosts_of(addresses, topology)?;
        check_path(path.unwrap_or_default(), topology)?;
        let shown_user = user.map_or(String::new(), |user| format!("{user}:***@"));
        let shown_path = path.map_or(String::new(), |path| format!("/{path}"));
        let shown_query = if query.is_some() { "?***" } else { "" };
        Ok(Self {
            text: Zeroizing::new(text.to_owned()),
            shown: format!("{scheme}://{shown_user}{addresses}{shown_path}{shown_query}"),
            hosts,
            topology,
            is_encrypted,
            has_password: user.is_some(),
            has_secret: user.is_some() || query.is_some(),
        })
    }

    /// The whole URL with its password, for connecting.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// How the servers behind it work together.
    pub const fn topology(&self) -> RedisTopology {
        self.topology
    }

    /// What is dangerous about this way to the store, in one sentence without any secret. On loopback nothing is.
    pub fn danger(&self) -> Option<&'static str> {
        let is_local = self.hosts.iter().all(|host| is_loopback(host));
        match (is_local, self.has_password, self.is_encrypted) {
            (true, _, _) | (false, true, true) => None,
            (false, false, true) => Some(
                "the Redis is off loopback and store_url has no password: whoever reaches it can change everything",
            ),
            (false, true, false) => Some(
                "the Redis is off loopback without TLS: its password can be read on the network; use rediss://",
            ),
            (false, false, false) => Some(
                "the Redis is off loopback without password and without TLS: whoever reaches it can change everything; \
                 give it a password and use rediss://",
            ),
        }
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.shown)
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RedisUrl({})", self.shown)
    }
}

/// The servers behind a scheme, and whether it means TLS.
fn scheme_of(scheme: &str) -> Result<(RedisTopology, bool), String> {
    let (protocol, topology) = match scheme.split_once('+') {
        None => (scheme, RedisTopology::Single),
        Some((protocol, "sentinel")) => (protocol, RedisTopology::Sentinel),
        Some((protocol, "cluster")) => (protocol, RedisTopology::Cluster),
        Some(_) => return Err(format!("there is no such way to a Redis; expected {SCHEMES}")),
    };
    match protocol {
        "redis" => Ok((topology, false)),
        "rediss" => Ok((topology, true)),
        _ => Err(format!("there is no such way to a Redis; expected {SCHEMES}")),
    }
}

const SCHEMES: &str =
    "redis:// or rediss:// (TLS), or the same with +sentinel or +cluster, as in redis+sentinel://";

/// The user of `user:password`; empty for the default user.
fn user_of(credentials: &str) -> Result<&str, String> {
    let (user, password) = credentials
        .split_once(':')
        .ok_or("what stands before @ is USER:PASSWORD, or :PASSWORD for the default user")?;
    if password.is_empty() {
        return Err("the password is empty; without one, leave out everything up to the @".into());
    }
    if credentials.contains(',') && credentials.contains('@') {
        return Err("user and password stand once, before the first address".into());
    }
    for part in [user, password] {
        if !has_whole_escapes(part) {
            return Err(
                "in user and password % begins an escape of two hexadecimal digits; write %25 for %".into()
            );
        }
        if part.contains(['@', ':']) {
            return Err("in user and password write %40 for @ and %3A for :".into());
        }
    }
    Ok(user)
}

/// Whether every % is followed by two hexadecimal digits.
fn has_whole_escapes(text: &str) -> bool {
    text.split('%')
        .skip(1)
        .all(|after| after.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)))
}

/// Whether a query is a password for the Sentinels themselves.
fn is_sentinel_login(query: &str) -> bool {
    query.split('&').all(|pair| {
        let pair = pair.split_once('=').filter(|(_, value)| !value.is_empty() && has_whole_escapes(value));
        matches!(pair, Some(("sentinel_user" | "sentinel_password", _)))
    })
}

/// The hosts of a list of addresses.
fn hosts_of(addresses: &str, topology: RedisTopology) -> Result<Vec<String>, String> {
    let hosts: Vec<String> = addresses
        .split(',')
        .map(|address| {
            host_of(address)
                .ok_or_else(|| format!("{address:?} is no address; expected HOST, HOST:PORT or [IPV6]:PORT"))
        })
        .collect::<Result<_, _>>()?;
    match (topology, hosts.len()) {
        (RedisTopology::Single, 2..) => {
            Err("redis:// names one server; several are those of redis+sentinel:// or \
             redis+cluster://"
                .into())
        }
        (_, count) if count > ADDRESSES_MAX => Err(format!("at most {ADDRESSES_MAX} addresses are taken")),
        _ => Ok(hosts),
    }
}

/// The host of one address with or without a port.
fn host_of(address: &str) -> Option<String> {
    let (host, port) = if let Some(bracketed) = address.strip_prefix('[') {
        let (host, port) = bracketed.split_once(']')?;
        host.parse::<Ipv6Addr>().ok()?;
        (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
    } else {
        let (host, port) = address.split_once(':').map_or((address, None), |(host, port)| (host, Some(port)));
        is_plain(host).then_some((host, port))?
    };
    let is_port = |text: &str| text.parse::<u16>().is_ok_and(|port| port > 0);
    port.is_none_or(is_port).then(|| host.to_owned())
}

/// Whether what follows the addresses fits.
fn check_path(path: &str, topology: RedisTopology) -> Result<(), String> {
    let is_database =
        |text: &str| text.is_empty() || text.parse::<u32>().is_ok_and(|number| number <= DATABASE_MAX);
    match topology {
        RedisTopology::Single if is_database(path) => Ok(()),
        RedisTopology::Single => {
            Err(format!("after the address stands the number of a database, 0 to {DATABASE_MAX}, or nothing"))
        }
        RedisTopology::Cluster if path.is_empty() => Ok(()),
        RedisTopology::Cluster => Err("a Cluster has no databases; nothing follows the addresses".into()),
        RedisTopology::Sentinel => {
            let (master, database) = path.split_once('/').unwrap_or((path, ""));
            if !is_plain(master) || !is_database(database) {
                return Err("after the Sentinels stands the name of the primary they watch, as in \
                     redis+sentinel://one:26379,two:26379/mymaster, and then perhaps the number of a database"
                    .into());
            }
            Ok(())
        }
    }
}

/// Whether it is a name that needs no escape anywhere.
fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    !name.is_empty() && name.bytes().all(is_plain)
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
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
            let url = RedisUrl::parse(text).map_err(Refusal::Because)?;
            if url.has_secret && matches!(raw, Raw::Toml(_)) {
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
        if is_plain(prefix) && prefix.len() <= PREFIX_MAX_CHARACTERS {
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
    fn a_url_is_taken_as_it_is_and_shown_without_its_password() {
        for (text, shown, topology) in [
            ("redis://127.0.0.1", "redis://127.0.0.1", RedisTopology::Single),
            ("redis://localhost:6380/3", "redis://localhost:6380/3", RedisTopology::Single),
            ("rediss://:hunter2@[::1]:6379/", "rediss://:***@[::1]:6379/", RedisTopology::Single),
            (
                "redis://anteroom:hunter2%40x@db_1.example:6379",
                "redis://anteroom:***@db_1.example:6379",
                RedisTopology::Single,
            ),
            (
                "redis+sentinel://u:hunter2@a:1,b:2,c/mymaster/2",
                "redis+sentinel://u:***@a:1,b:2,c/mymaster/2",
                RedisTopology::Sentinel,
            ),
            (
                "redis+sentinel://a/main?sentinel_user=u&sentinel_password=hunter2",
                "redis+sentinel://a/main?***",
                RedisTopology::Sentinel,
            ),
            ("rediss+sentinel://a/main", "rediss+sentinel://a/main", RedisTopology::Sentinel),
            ("redis+cluster://a:1,b:2", "redis+cluster://a:1,b:2", RedisTopology::Cluster),
            ("rediss+cluster://:hunter2@a", "rediss+cluster://:***@a", RedisTopology::Cluster),
        ] {
            let url = RedisUrl::parse(text).expect(text);
            assert_eq!((url.expose(), url.to_string().as_str(), url.topology()), (text, shown, topology));
            assert_eq!(StoreUrl::Redis(url.clone()).to_string(), shown);
            assert!(!format!("{url:?} {:?}", StoreUrl::Redis(url.clone())).contains("hunter2"));
        }
    }

    #[test]
    fn each_mistake_is_told_without_the_password() {
        for (text, told) in [
            ("redis:127.0.0.1", "://"),
            ("redis+tls://h", "+sentinel or +cluster"),
            ("redisss://h", "+sentinel or +cluster"),
            ("redis://", "is no address"),
            ("redis://h:0", "is no address"),
            ("redis://h:65536", "is no address"),
            ("redis://h:x", "is no address"),
            ("redis://::1:6379", "is no address"),
            ("redis://[::1:6379", "is no address"),
            ("redis://a b", "white space"),
            ("redis://a,b", "names one server"),
            ("redis://h/x", "number of a database"),
            ("redis://h/10000", "number of a database"),
            ("redis://h?password=hunter2", "no query"),
            ("redis://:hunter2?x@h", "no query"),
            ("redis+sentinel://h/main?password=hunter2", "no query"),
            ("redis+sentinel://h/main?sentinel_password=hunter2%", "no query"),
            ("redis+cluster://h?sentinel_password=hunter2", "no query"),
            ("redis://:hun/ter2@h", "%2F"),
            ("redis://user@h", "USER:PASSWORD"),
            ("redis://user:@h", "is empty"),
            ("redis://u:hunter2%4@h", "%25"),
            ("redis://u:hunter2%zz@h", "%25"),
            ("redis://u:hunter2@x@h", "%40"),
            ("redis://u:hunter2:x@h", "%3A"),
            ("redis+cluster://u:hunter2@a,u:hunter2@b", "once"),
            ("redis+cluster://a/0", "no databases"),
            ("redis+sentinel://a", "name of the primary"),
            ("redis+sentinel://a/my master", "white space"),
            ("redis+sentinel://a/mymaster/x", "name of the primary"),
            ("redis+cluster://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "at most 16"),
        ] {
            let problem = RedisUrl::parse(text).expect_err(text);
            assert!(problem.contains(told), "{text}: {problem}");
            assert!(!problem.contains("hunter2"), "{text}: {problem}");
        }
    }

    #[test]
    fn only_what_can_be_read_or_reached_from_elsewhere_is_dangerous() {
        let danger = |text: &str| RedisUrl::parse(text).expect(text).danger();
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
        for (text, told) in [
            ("redis://10.0.0.1", "without password and without TLS"),
            ("redis://redis.example", "without password and without TLS"),
            ("redis://:hunter2@redis.example", "without TLS"),
            ("rediss://redis.example", "no password"),
            ("redis+cluster://127.0.0.1,10.0.0.1", "without password"),
            ("redis://[::2]", "without password"),
        ] {
            let sentence = danger(text).expect(text);
            assert!(sentence.contains(told) && !sentence.contains("hunter2"), "{text}: {sentence}");
        }
    }
}
