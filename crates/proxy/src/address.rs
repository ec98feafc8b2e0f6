//! Where an origin is: `http://host[:port]` or `https://host[:port]`, parsed once.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::HeaderValue;
use http::uri::{Authority, Scheme, Uri};

/// Where an origin is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OriginAddress {
    is_tls: bool,
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
    /// `host` or `host:port`, as it stands in a `Host` header field.
    authority: Authority,
}

/// Why something is not the address of an origin. Each sentence ends in what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginAddressError {
    /// Not a URL.
    #[error("{0:?} is not a URL; write http://host:port or https://host:port")]
    NotAUrl(String),
    /// Another scheme, or none.
    #[error("{0:?} does not begin with http:// or https://; write http://host:port or https://host:port")]
    Scheme(String),
    /// A name or password before the host.
    #[error("an origin's address has no user name or password; write http://host:port")]
    UserInformation,
    /// More than scheme, host and port.
    #[error("{0:?} has a path or query, but visitors choose those; write only http://host:port")]
    Path(String),
    /// A port that is none.
    #[error("{0:?} has no valid port; ports go from 1 to 65535")]
    Port(String),
}

impl OriginAddress {
    /// Whether it is spoken to over TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The name or address of its machine.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its host as an address, where it was given as one.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// What a `Host` header field calls it.
    pub(super) fn host_value(&self) -> HeaderValue {
        HeaderValue::from_str(self.authority.as_str())
            .expect("an authority is made of characters of a header value")
    }
}

impl FromStr for OriginAddress {
    type Err = OriginAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains('#') {
            return Err(OriginAddressError::Path(text.to_owned()));
        }
        let uri: Uri = text.parse().map_err(|_| OriginAddressError::NotAUrl(text.to_owned()))?;
        let is_tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(OriginAddressError::Scheme(text.to_owned())),
        };
        let authority = uri.authority().ok_or_else(|| OriginAddressError::NotAUrl(text.to_owned()))?;
        if authority.as_str().contains('@') {
            return Err(OriginAddressError::UserInformation);
        }
        // A URL without a path is given one by the parser.
        if uri.query().is_some() || !matches!(uri.path(), "" | "/") {
            return Err(OriginAddressError::Path(text.to_owned()));
        }
        let host = authority.host();
        if host.is_empty() {
            return Err(OriginAddressError::NotAUrl(text.to_owned()));
        }
        let written_port = authority.as_str()[host.len()..].strip_prefix(':');
        let port = match written_port {
            None if is_tls => 443,
            None => 80,
            Some(digits) => match digits.parse() {
                Ok(port) if port != 0 => port,
                _ => return Err(OriginAddressError::Port(text.to_owned())),
            },
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { is_tls, host, port, authority: authority.clone() })
    }
}

impl fmt::Display for OriginAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(formatter, "{scheme}://{}", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (bool, String, u16) {
        let address: OriginAddress = text.parse().unwrap();
        (address.is_tls(), address.host().to_owned(), address.port())
    }

    #[test]
    fn addresses_have_a_scheme_a_host_and_a_port() {
        assert_eq!(parse("http://shop.example"), (false, "shop.example".into(), 80));
        assert_eq!(parse("https://shop.example/"), (true, "shop.example".into(), 443));
        assert_eq!(parse("http://127.0.0.1:3000"), (false, "127.0.0.1".into(), 3000));
        assert_eq!(parse("http://[::1]:3000"), (false, "::1".into(), 3000));
        let address: OriginAddress = "http://[::1]:3000".parse().unwrap();
        assert_eq!(
            (address.to_string(), address.host_value()),
            ("http://[::1]:3000".into(), "[::1]:3000".parse().unwrap())
        );
        assert!(address.ip().is_some());
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_hint() {
        for text in [
            "",
            "shop.example",
            "shop.example:80",
            "/path",
            "ftp://shop.example",
            "http://",
            "http://user@shop.example",
            "http://shop.example/path",
            "http://shop.example?query",
            "http://shop.example#part",
            "http://shop.example:0",
            "http://shop.example:70000",
            "http://shop.example:port",
            "http://shop.example:",
        ] {
            let error = text.parse::<OriginAddress>().expect_err(text);
            assert!(
                error.to_string().contains("http://host") || matches!(error, OriginAddressError::Port(_)),
                "{error}"
            );
        }
        assert_eq!("http://a:b@c".parse::<OriginAddress>(), Err(OriginAddressError::UserInformation));
    }
}
