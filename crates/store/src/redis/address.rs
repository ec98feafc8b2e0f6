//! Where a Redis is, written as a URL. A password is in it, so what is parsed from it cannot be printed by accident.
//!
//! ```text
//! redis://[user[:password]@]host[:port][/database]
//! redis+sentinel://[user[:password]@]host[:port],host[:port].../master[/database]?sentinel_user=...&sentinel_password=...
//! redis+cluster://[user[:password]@]host[:port],host[:port]...
//! ```
//!
//! With `rediss` in place of `redis`: over TLS. User and password may be percent-encoded.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

use crate::contract::StoreError;

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
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

/// Where a Redis is and who logs in.
#[derive(Clone)]
pub struct RedisUrl {
    pub(super) kind: Kind,
    pub(super) with_tls: bool,
    pub(super) login: Login,
    pub(super) sentinel_login: Login,
    /// Servers, Sentinels, or some of the nodes of a cluster.
    pub(super) addresses: Vec<Address>,
    pub(super) database: u32,
}

impl RedisUrl {
    /// Reads a URL. What is said about a bad one does not repeat it.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let wrong =
            |what: &str| StoreError::Permanent(format!("the URL of the Redis store is wrong: {what}"));
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        let (with_tls, kind) = match scheme {
            "redis" => (false, "single"),
            "rediss" => (true, "single"),
            "redis+sentinel" => (false, "sentinel"),
            "rediss+sentinel" => (true, "sentinel"),
            "redis+cluster" => (false, "cluster"),
            "rediss+cluster" => (true, "cluster"),
            _ => {
                return Err(wrong(
                    "its scheme is none of redis, rediss, redis+sentinel, rediss+sentinel, redis+cluster, rediss+cluster",
                ));
            }
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        // A password may have anything but an `@` in it; so the last one counts.
        let (login, servers) =
            rest.rsplit_once('@').map_or((None, rest), |(login, servers)| (Some(login), servers));
        let login = login.map_or(Ok(Login::default()), |login| {
            parse_login(login).ok_or_else(|| wrong("its user or password"))
        })?;
        let (hosts, path) = servers.split_once('/').unwrap_or((servers, ""));
        let default_port = if kind == "sentinel" { SENTINEL_PORT } else { REDIS_PORT };
        let addresses =
            hosts.split(',').map(|host| parse_address(host, default_port)).collect::<Option<Vec<_>>>();
        let addresses = addresses.ok_or_else(|| wrong("a host or port in it"))?;
        let mut path = path.split('/').filter(|part| !part.is_empty());
        let kind = match kind {
            "sentinel" => {
                let master =
                    path.next().ok_or_else(|| wrong("it does not name the master behind the Sentinels"))?;
                Kind::Sentinel {
                    master: percent_decode(master).ok_or_else(|| wrong("the name of the master"))?,
                }
            }
            "cluster" => Kind::Cluster,
            _ if addresses.len() > 1 => {
                return Err(wrong("several hosts; did you mean redis+sentinel or redis+cluster?"));
            }
            _ => Kind::Single,
        };
        let database = path.next().map_or(Some(0), |number| number.parse().ok());
        let database = database.ok_or_else(|| wrong("the database is not a number"))?;
        if path.next().is_some() || (kind == Kind::Cluster && database != 0) {
            return Err(wrong("something follows behind the hosts that does not belong there"));
        }
        let sentinel_login = parse_query(query).ok_or_else(|| wrong("an option in it is not known"))?;
        Ok(Self { kind, with_tls, login, sentinel_login, addresses, database })
    }
}

fn parse_login(login: &str) -> Option<Login> {
    let (user, password) =
        login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
    let user = Some(percent_decode(user)?).filter(|user| !user.is_empty());
    let password = match password {
        Some(password) => Some(SecretString::from(percent_decode(password)?)),
        None => None,
    };
    Some(Login { user, password })
}

fn parse_address(text: &str, default_port: u16) -> Option<Address> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, port.strip_prefix(':').or(port.is_empty().then_some("")))
        }
        None => text.split_once(':').map_or((text, Some("")), |(host, port)| (host, Some(port))),
    };
    let port = match port? {
        "" => default_port,
        port => port.parse().ok().filter(|&port| port != 0)?,
    };
    let is_host =
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && !b"@/?#[]".contains(&byte));
    is_host.then(|| Address { host: host.to_owned(), port })
}

fn parse_query(query: &str) -> Option<Login> {
    let mut login = Login::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=')?;
        match name {
            "sentinel_user" => login.user = Some(percent_decode(value)?),
            "sentinel_password" => login.password = Some(SecretString::from(percent_decode(value)?)),
            _ => return None,
        }
    }
    Some(login)
}

/// Without percent-encoding.
fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte == b'%' {
            let (digits, behind) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = behind;
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.with_tls { "rediss" } else { "redis" };
        let hosts: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let hosts = hosts.join(",");
        match &self.kind {
            Kind::Single => write!(formatter, "{scheme}://{hosts}/{}", self.database),
            Kind::Sentinel { master } => {
                write!(formatter, "{scheme}+sentinel://{hosts}/{master}/{}", self.database)
            }
            Kind::Cluster => write!(formatter, "{scheme}+cluster://{hosts}"),
        }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Login {
    pub(super) fn password(&self) -> Option<&str> {
        self.password.as_ref().map(ExposeSecret::expose_secret)
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
        assert!(url.login.password.is_none());
        let url = RedisUrl::parse("rediss://some%20body:p%40ss:w@ord@redis.example:7000/3").unwrap();
        assert_eq!(
            (url.login.user.as_deref(), url.login.password()),
            (Some("some body"), Some("p@ss:w@ord"))
        );
        assert_eq!((url.to_string().as_str(), url.with_tls), ("rediss://redis.example:7000/3", true));
        let url =
            RedisUrl::parse("redis+sentinel://:secret@[::1]:1,localhost/main/2?sentinel_password=other")
                .unwrap();
        assert_eq!(url.kind, Kind::Sentinel { master: "main".into() });
        assert_eq!((url.login.user.as_deref(), url.login.password()), (None, Some("secret")));
        assert_eq!(url.sentinel_login.password(), Some("other"));
        assert_eq!(format!("{url:?}"), "redis+sentinel://[::1]:1,localhost:26379/main/2");
        let url = RedisUrl::parse("rediss+cluster://10.0.0.1:7001,10.0.0.2:7001").unwrap();
        assert_eq!((url.kind.clone(), url.addresses.len()), (Kind::Cluster, 2));
    }

    #[test]
    fn a_bad_url_is_refused_without_being_repeated() {
        for bad in [
            "127.0.0.1:6379",
            "http://:hunter2@127.0.0.1",
            "redis://:hunter2@",
            "redis://:hunter2@host:notaport",
            "redis://:hunter2@host:0",
            "redis://:hunter2@one,two",
            "redis://:hunter2@host/database",
            "redis://:hunter2@host/0/more",
            "redis://:hunter2%4@host",
            "redis+sentinel://:hunter2@host",
            "redis+cluster://:hunter2@host/1",
            "redis+cluster://host?hunter2=1",
        ] {
            let said = RedisUrl::parse(bad).unwrap_err().to_string();
            assert!(
                said.contains("URL of the Redis store is wrong") && !said.contains("hunter2"),
                "{bad}: {said}"
            );
        }
    }
}
