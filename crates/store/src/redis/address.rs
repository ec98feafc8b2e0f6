//! Where a Redis is, written as a URL, and the only parser of one. A URL holds a password, so neither the parsed URL nor an error
//! prints it.
//!
//! ```text
//! redis://[[user]:password@]host[:port][/database]
//! redis+sentinel://[[user]:password@]host[:port],host[:port].../master[/database]?sentinel_user=...&sentinel_password=...
//! redis+cluster://[[user]:password@]host[:port],host[:port]...
//! ```
//!
//! With `rediss` in place of `redis`: over TLS. User and password may be percent-encoded.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use secrecy::{ExposeSecret, SecretString};
use thiserror::Error;

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
/// The most addresses of Sentinels or of a Cluster that a URL names.
const ADDRESSES_MAX: usize = 16;
/// The highest number of a database that a URL names.
const DATABASE_MAX: u32 = 9_999;

/// What is wrong with a URL, in a clause. Nothing of the URL that may be secret is repeated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RedisUrlError {
    /// No `://`.
    #[error("a URL of Redis has `://` after its scheme")]
    NoScheme,
    /// A scheme of something else.
    #[error(
        "there is no such way to a Redis; expected redis:// or rediss:// (TLS), or the same with +sentinel or +cluster, \
         as in redis+sentinel://"
    )]
    UnknownScheme,
    /// White space or a control character.
    #[error("a URL holds no white space; write it as %20")]
    WhiteSpace,
    /// A fragment, or a query other than the login of Sentinels.
    #[error(
        "a URL of Redis has no fragment, and no query but sentinel_user and sentinel_password, where there are Sentinels; \
         in a password write %3F for ? and %23 for #"
    )]
    FragmentOrQuery,
    /// An `@` after the first `/`: a password with a `/` in it.
    #[error("the path holds an @; in a password write %2F for / and %40 for @")]
    AtInPath,
    /// A user without a password.
    #[error("what stands before @ is USER:PASSWORD, or :PASSWORD for the default user")]
    NoPassword,
    /// Nothing between `:` and `@`.
    #[error("the password is empty; without one, leave out everything up to the @")]
    EmptyPassword,
    /// A login before each address.
    #[error("user and password stand once, before the first address")]
    RepeatedLogin,
    /// A `%` without two hexadecimal digits.
    #[error("in user and password % begins an escape of two hexadecimal digits; write %25 for %")]
    BrokenEscape,
    /// Escapes that are no text.
    #[error("the escapes in a user or a password are not those of a text in UTF-8")]
    NotUtf8,
    /// An `@` or `:` in user or password.
    #[error("in user and password write %40 for @ and %3A for :")]
    UnescapedSeparator,
    /// An address that is none.
    #[error("{0:?} is no address; expected HOST, HOST:PORT or [IPV6]:PORT")]
    BadAddress(String),
    /// Several addresses of one server.
    #[error("redis:// names one server; several are those of redis+sentinel:// or redis+cluster://")]
    SeveralServers,
    /// More than [`ADDRESSES_MAX`] addresses.
    #[error("at most {ADDRESSES_MAX} addresses are taken")]
    TooManyAddresses,
    /// Not the number of a database.
    #[error("after the address stands the number of a database, 0 to {DATABASE_MAX}, or nothing")]
    BadDatabase,
    /// The number of a database in a Cluster.
    #[error("a Cluster has no databases; nothing follows the addresses")]
    DatabaseOfCluster,
    /// No name of a primary after the Sentinels, or something else after it than a database.
    #[error(
        "after the Sentinels stands the name of the primary they watch, as in \
         redis+sentinel://one:26379,two:26379/mymaster, and then perhaps the number of a database"
    )]
    BadPrimary,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Address {
    fn is_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
            || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

/// How its servers belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// One server.
    Single,
    /// A primary of that name, which Sentinels know.
    Sentinel { master: String },
    /// A cluster.
    Cluster,
}

/// Who logs in.
#[derive(Clone, Default)]
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password: Option<SecretString>,
}

impl Login {
    pub(super) fn password(&self) -> Option<&str> {
        self.password.as_ref().map(ExposeSecret::expose_secret)
    }
}

impl PartialEq for Login {
    fn eq(&self, other: &Self) -> bool {
        self.user == other.user && self.password() == other.password()
    }
}

impl Eq for Login {}

/// Where a Redis is and who logs in. Neither `Debug` nor `Display` shows a password.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    pub(super) kind: Kind,
    pub(super) with_tls: bool,
    pub(super) login: Login,
    pub(super) sentinel_login: Login,
    /// Servers, Sentinels, or some of the nodes of a cluster.
    pub(super) addresses: Vec<Address>,
    pub(super) database: u32,
    /// The URL as it was written, with `***` for what is secret.
    redacted: String,
}

impl RedisUrl {
    /// Reads a URL. What is said about a bad one does not repeat what may be secret.
    pub fn parse(text: &str) -> Result<Self, RedisUrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(RedisUrlError::NoScheme)?;
        let (servers, with_tls) = parse_scheme(scheme)?;
        if text.chars().any(|character| character.is_whitespace() || character.is_control()) {
            return Err(RedisUrlError::WhiteSpace);
        }
        let (rest, query) = split_optional(rest, '?');
        let may_have_query = servers == Servers::Sentinel;
        if rest.contains('#') || query.is_some_and(|query| !may_have_query || !is_sentinel_login(query)) {
            return Err(RedisUrlError::FragmentOrQuery);
        }
        let (authority, path) = split_optional(rest, '/');
        if path.is_some_and(|path| path.contains('@')) {
            return Err(RedisUrlError::AtInPath);
        }
        let (credentials, addresses) = match authority.rsplit_once('@') {
            Some((credentials, addresses)) => (Some(credentials), addresses),
            None => (None, authority),
        };
        let (login, redacted_login) = match credentials.map(split_credentials).transpose()? {
            Some((user, password)) => (parse_login(user, password)?, format!("{user}:***@")),
            None => (Login::default(), String::new()),
        };
        let redacted_path = path.map_or(String::new(), |path| format!("/{path}"));
        let redacted_query = if query.is_some() { "?***" } else { "" };
        let redacted = format!("{scheme}://{redacted_login}{addresses}{redacted_path}{redacted_query}");
        let addresses = parse_addresses(addresses, servers)?;
        let (kind, database) = parse_path(path.unwrap_or_default(), servers)?;
        let sentinel_login = parse_query(query.unwrap_or_default())?;
        Ok(Self { kind, with_tls, login, sentinel_login, addresses, database, redacted })
    }

    /// Whether every address is one of this machine.
    pub fn is_loopback(&self) -> bool {
        self.addresses.iter().all(Address::is_loopback)
    }

    /// Whether connections are over TLS.
    pub const fn is_encrypted(&self) -> bool {
        self.with_tls
    }

    /// Whether the servers are given a password.
    pub const fn has_password(&self) -> bool {
        self.login.password.is_some()
    }

    /// Whether anything in it must not be read by others.
    pub const fn has_secret(&self) -> bool {
        self.login.password.is_some()
            || self.sentinel_login.user.is_some()
            || self.sentinel_login.password.is_some()
    }
}

/// What a scheme says about the servers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Servers {
    Single,
    Sentinel,
    Cluster,
}

/// The servers behind a scheme, and whether it means TLS.
fn parse_scheme(scheme: &str) -> Result<(Servers, bool), RedisUrlError> {
    let (protocol, servers) = match scheme.split_once('+') {
        None => (scheme, Servers::Single),
        Some((protocol, "sentinel")) => (protocol, Servers::Sentinel),
        Some((protocol, "cluster")) => (protocol, Servers::Cluster),
        Some(_) => return Err(RedisUrlError::UnknownScheme),
    };
    match protocol {
        "redis" => Ok((servers, false)),
        "rediss" => Ok((servers, true)),
        _ => Err(RedisUrlError::UnknownScheme),
    }
}

/// What stands before the first `separator`, and what stands behind it if there is one.
fn split_optional(text: &str, separator: char) -> (&str, Option<&str>) {
    text.split_once(separator).map_or((text, None), |(before, behind)| (before, Some(behind)))
}

/// User and password, both still escaped; the user is empty for the default one.
fn split_credentials(credentials: &str) -> Result<(&str, &str), RedisUrlError> {
    let (user, password) = credentials.split_once(':').ok_or(RedisUrlError::NoPassword)?;
    if password.is_empty() {
        return Err(RedisUrlError::EmptyPassword);
    }
    if credentials.contains(',') && credentials.contains('@') {
        return Err(RedisUrlError::RepeatedLogin);
    }
    for part in [user, password] {
        if !has_whole_escapes(part) {
            return Err(RedisUrlError::BrokenEscape);
        }
        if part.contains(['@', ':']) {
            return Err(RedisUrlError::UnescapedSeparator);
        }
    }
    Ok((user, password))
}

fn parse_login(user: &str, password: &str) -> Result<Login, RedisUrlError> {
    let user = Some(percent_decode(user)?).filter(|user| !user.is_empty());
    Ok(Login { user, password: Some(SecretString::from(percent_decode(password)?)) })
}

/// Whether every % is followed by two hexadecimal digits.
fn has_whole_escapes(text: &str) -> bool {
    text.split('%')
        .skip(1)
        .all(|after| after.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)))
}

/// Whether a query is a login for the Sentinels themselves.
fn is_sentinel_login(query: &str) -> bool {
    query.split('&').all(|pair| {
        let pair = pair.split_once('=').filter(|(_, value)| !value.is_empty() && has_whole_escapes(value));
        matches!(pair, Some(("sentinel_user" | "sentinel_password", _)))
    })
}

fn parse_query(query: &str) -> Result<Login, RedisUrlError> {
    let mut login = Login::default();
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        let value = percent_decode(value)?;
        match name {
            "sentinel_user" => login.user = Some(value),
            _ => login.password = Some(SecretString::from(value)),
        }
    }
    Ok(login)
}

fn parse_addresses(text: &str, servers: Servers) -> Result<Vec<Address>, RedisUrlError> {
    let default_port = if servers == Servers::Sentinel { SENTINEL_PORT } else { REDIS_PORT };
    let addresses: Vec<Address> = text
        .split(',')
        .map(|address| {
            parse_address(address, default_port).ok_or_else(|| RedisUrlError::BadAddress(address.to_owned()))
        })
        .collect::<Result<_, _>>()?;
    match (servers, addresses.len()) {
        (Servers::Single, 2..) => Err(RedisUrlError::SeveralServers),
        (_, count) if count > ADDRESSES_MAX => Err(RedisUrlError::TooManyAddresses),
        _ => Ok(addresses),
    }
}

fn parse_address(text: &str, default_port: u16) -> Option<Address> {
    let (host, port) = if let Some(bracketed) = text.strip_prefix('[') {
        let (host, port) = bracketed.split_once(']')?;
        host.parse::<Ipv6Addr>().ok()?;
        (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
    } else {
        let (host, port) = split_optional(text, ':');
        is_plain(host).then_some((host, port))?
    };
    let port = match port {
        Some(port) => port.parse().ok().filter(|&port| port != 0)?,
        None => default_port,
    };
    Some(Address { host: host.to_owned(), port })
}

/// What follows the addresses: the primary behind Sentinels, and the database.
fn parse_path(path: &str, servers: Servers) -> Result<(Kind, u32), RedisUrlError> {
    match servers {
        Servers::Single => {
            let database = parse_database(path).ok_or(RedisUrlError::BadDatabase)?;
            Ok((Kind::Single, database))
        }
        Servers::Cluster if path.is_empty() => Ok((Kind::Cluster, 0)),
        Servers::Cluster => Err(RedisUrlError::DatabaseOfCluster),
        Servers::Sentinel => {
            let (master, database) = path.split_once('/').unwrap_or((path, ""));
            let database = parse_database(database).filter(|_| is_plain(master));
            let database = database.ok_or(RedisUrlError::BadPrimary)?;
            Ok((Kind::Sentinel { master: master.to_owned() }, database))
        }
    }
}

/// The number of a database; the first where none is named.
fn parse_database(text: &str) -> Option<u32> {
    if text.is_empty() { Some(0) } else { text.parse().ok().filter(|&number| number <= DATABASE_MAX) }
}

/// Whether it is a name that needs no escape anywhere.
fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    !name.is_empty() && name.bytes().all(is_plain)
}

/// Without percent-encoding.
fn percent_decode(text: &str) -> Result<String, RedisUrlError> {
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte == b'%' {
            let (digits, behind) = rest.split_at_checked(2).ok_or(RedisUrlError::BrokenEscape)?;
            let digits = std::str::from_utf8(digits).ok();
            let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            bytes.push(byte.ok_or(RedisUrlError::BrokenEscape)?);
            rest = behind;
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).map_err(|_| RedisUrlError::NotUtf8)
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.redacted)
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RedisUrl({})", self.redacted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_url_is_read() {
        let url = RedisUrl::parse("redis://127.0.0.1").unwrap();
        assert_eq!((url.kind.clone(), url.with_tls, url.database), (Kind::Single, false, 0));
        assert_eq!(url.addresses, [Address { host: "127.0.0.1".into(), port: 6379 }]);
        assert!(url.login.password.is_none() && !url.has_secret());
        let url = RedisUrl::parse("rediss://some%20body:p%40ss%3Aw%40ord@redis.example:7000/3").unwrap();
        assert_eq!(
            (url.login.user.as_deref(), url.login.password()),
            (Some("some body"), Some("p@ss:w@ord"))
        );
        assert_eq!((url.with_tls, url.database), (true, 3));
        let url =
            RedisUrl::parse("redis+sentinel://:secret@[::1]:1,localhost/main/2?sentinel_password=other")
                .unwrap();
        assert_eq!((url.kind.clone(), url.database), (Kind::Sentinel { master: "main".into() }, 2));
        assert_eq!((url.login.user.as_deref(), url.login.password()), (None, Some("secret")));
        assert_eq!(url.sentinel_login.password(), Some("other"));
        let addresses: Vec<String> = url.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["[::1]:1", "localhost:26379"]);
        let url = RedisUrl::parse("rediss+cluster://10.0.0.1:7001,10.0.0.2:7001").unwrap();
        assert_eq!((url.kind.clone(), url.addresses.len()), (Kind::Cluster, 2));
    }

    #[test]
    fn a_url_is_printed_as_written_without_its_password() {
        for (text, printed) in [
            ("redis://127.0.0.1", "redis://127.0.0.1"),
            ("redis://localhost:6380/3", "redis://localhost:6380/3"),
            ("rediss://:hunter2@[::1]:6379/", "rediss://:***@[::1]:6379/"),
            ("redis://anteroom:hunter2%40x@db_1.example:6379", "redis://anteroom:***@db_1.example:6379"),
            (
                "redis+sentinel://u:hunter2@a:1,b:2,c/mymaster/2",
                "redis+sentinel://u:***@a:1,b:2,c/mymaster/2",
            ),
            (
                "redis+sentinel://a/main?sentinel_user=u&sentinel_password=hunter2",
                "redis+sentinel://a/main?***",
            ),
            ("rediss+sentinel://a/main", "rediss+sentinel://a/main"),
            ("redis+cluster://a:1,b:2", "redis+cluster://a:1,b:2"),
            ("rediss+cluster://:hunter2@a", "rediss+cluster://:***@a"),
        ] {
            let url = RedisUrl::parse(text).expect(text);
            assert_eq!(url.to_string(), printed);
            assert_eq!(format!("{url:?}"), format!("RedisUrl({printed})"));
            assert_eq!(url.has_secret(), printed.contains("***"), "{text}");
        }
    }

    #[test]
    fn each_mistake_is_described_without_the_password() {
        for (text, expected) in [
            ("redis:127.0.0.1", "://"),
            ("127.0.0.1:6379", "://"),
            ("http://:hunter2@127.0.0.1", "+sentinel or +cluster"),
            ("redis://:hunter2@", "is no address"),
            ("redis://:hunter2@host:notaport", "is no address"),
            ("redis://:hunter2@one,two", "names one server"),
            ("redis://:hunter2@host/database", "number of a database"),
            ("redis://:hunter2@host/0/more", "number of a database"),
            ("redis+sentinel://:hunter2@host", "name of the primary"),
            ("redis+cluster://:hunter2@host/1", "no databases"),
            ("redis+cluster://host?hunter2=1", "no query"),
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
            ("redis://u:hunter2%ff@h", "UTF-8"),
            ("redis://u:hunter2@x@h", "%40"),
            ("redis://u:hunter2:x@h", "%3A"),
            ("redis+cluster://u:hunter2@a,u:hunter2@b", "once"),
            ("redis+cluster://a/0", "no databases"),
            ("redis+sentinel://a", "name of the primary"),
            ("redis+sentinel://a/my master", "white space"),
            ("redis+sentinel://a/mymaster/x", "name of the primary"),
            ("redis+cluster://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "at most 16"),
        ] {
            let problem = RedisUrl::parse(text).expect_err(text).to_string();
            assert!(problem.contains(expected), "{text}: {problem}");
            assert!(!problem.contains("hunter2"), "{text}: {problem}");
        }
    }
}
