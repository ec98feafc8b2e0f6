//! Which addresses events may be sent to. Who may make a destination could otherwise reach what only this machine reaches: its own
//! services, those of its network, the metadata of a cloud.
//!
//! Here is judged what a URL itself says, so that an operator hears of a mistake at once. What a name leads to is judged when it is
//! connected to, each time anew, by [`crate::transport::policy`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::Uri;
use ipnet::IpNet;

use crate::transport::policy::kind_if_not_public;

/// The longest URL of a destination, in bytes.
pub const URL_MAX_BYTES: usize = 2048;

/// The networks that operators have listed in `destinations_private_allowed`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedNetworks(Vec<IpNet>);

impl AllowedNetworks {
    /// Of these.
    pub const fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    /// Whether events may be sent there; in clear text only if it is listed.
    pub fn allows(&self, address: IpAddr, is_encrypted: bool) -> bool {
        let address = address.to_canonical();
        self.lists(address) || (is_encrypted && is_public(address))
    }

    /// Whether the operator listed it.
    pub fn lists(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Whether nothing is listed.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How the schemes of a URL are called: the one over TLS, and the one in clear text.
#[derive(Debug, Clone, Copy)]
pub struct Schemes {
    /// Over TLS.
    pub encrypted: &'static str,
    /// In clear text.
    pub clear: &'static str,
}

/// Of HTTP.
pub const HTTP: Schemes = Schemes { encrypted: "https", clear: "http" };
/// Of NATS.
pub const NATS: Schemes = Schemes { encrypted: "tls", clear: "nats" };

/// What is wrong with a URL, as a clause whose subject it is.
pub fn check_url(url: &str, schemes: Schemes, networks: &AllowedNetworks) -> Result<(), String> {
    let Schemes { encrypted, clear } = schemes;
    if url.is_empty() || url.len() > URL_MAX_BYTES {
        return Err(format!("must have 1 to {URL_MAX_BYTES} bytes"));
    }
    if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("has a character that URLs do not have; write it as %XX".to_owned());
    }
    // The parser drops a fragment silently, so it is looked for in the text.
    if url.contains('#') {
        return Err("has a fragment (\"#…\"), which is never sent".to_owned());
    }
    let uri: Uri = url.parse().map_err(|_| format!("must be a URL such as {encrypted}://example.com/"))?;
    let is_encrypted = match uri.scheme_str() {
        Some(scheme) if scheme == encrypted => true,
        Some(scheme) if scheme == clear => false,
        _ => return Err(format!("must begin with {encrypted}:// (or {clear}://, where that is allowed)")),
    };
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    if authority.contains('@') {
        return Err("has a user name before \"@\"; secrets are given apart from the URL".to_owned());
    }
    let host = uri.host().unwrap_or_default();
    let port = authority.strip_prefix(host).unwrap_or_default();
    if !is_host(host) || (!port.is_empty() && uri.port_u16().is_none_or(|port| port == 0)) {
        return Err("has no host, or a port that there is not".to_owned());
    }
    check_host(host, is_encrypted, schemes, networks)
}

fn check_host(
    host: &str,
    is_encrypted: bool,
    Schemes { encrypted, clear }: Schemes,
    networks: &AllowedNetworks,
) -> Result<(), String> {
    let setting = "destinations_private_allowed";
    let in_clear = format!("is not encrypted: use {encrypted}://, or list its network in {setting}");
    if let Some(address) = literal(host) {
        if networks.allows(address, is_encrypted) {
            return Ok(());
        }
        if let Some(kind) = kind_if_not_public(address.to_canonical()) {
            return Err(format!("is at an address that is {kind}, and {setting} does not list {address}"));
        }
        return Err(in_clear);
    }
    let lower = host.trim_end_matches('.').to_ascii_lowercase();
    if lower == "localhost" || lower.ends_with(".localhost") {
        let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
        if !loopback.into_iter().any(|address| networks.lists(address)) {
            return Err(format!("is this machine itself, and {setting} lists no address of it"));
        }
        return Ok(());
    }
    // A name in clear text can only lead to a listed network; where none is listed it leads nowhere.
    if !is_encrypted && networks.is_empty() {
        return Err(format!("begins with {clear}:// and {in_clear}"));
    }
    Ok(())
}

/// Whether an address is one of the public Internet.
fn is_public(address: IpAddr) -> bool {
    kind_if_not_public(address.to_canonical()).is_none()
}

/// An address written as such.
fn literal(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok()
}

fn is_host(host: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    literal(host).is_some() || (!host.is_empty() && host.len() <= 253 && host.bytes().all(allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(networks: &[&str]) -> AllowedNetworks {
        AllowedNetworks::new(networks.iter().map(|text| text.parse().unwrap()).collect())
    }

    #[test]
    fn addresses_that_only_this_machine_or_its_network_reaches_are_not_public() {
        for private in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.8.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "fe80::1",
            "fd00::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
        ] {
            let address: IpAddr = private.parse().unwrap();
            assert!(!is_public(address), "{private}");
            assert!(!AllowedNetworks::default().allows(address, true), "{private}");
        }
        for public in ["1.1.1.1", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "64:ff9b::101:101"] {
            let address: IpAddr = public.parse().unwrap();
            assert!(is_public(address), "{public}");
            assert!(AllowedNetworks::default().allows(address, true), "{public}");
            assert!(!AllowedNetworks::default().allows(address, false), "{public} in clear text");
        }
        let listed = listing(&["10.1.0.0/16", "::1/128"]);
        assert!(listed.allows("10.1.2.3".parse().unwrap(), false));
        assert!(listed.allows("::ffff:10.1.2.3".parse().unwrap(), true));
        assert!(!listed.allows("10.2.0.1".parse().unwrap(), true));
    }

    #[test]
    fn a_url_says_where_events_go_and_nothing_else() {
        let none = AllowedNetworks::default();
        for good in [
            "https://shop.example/hooks?shop=1",
            "https://shop.example:8443/",
            "https://1.1.1.1/",
            "https://[2606:4700::1111]/",
        ] {
            assert_eq!(check_url(good, HTTP, &none), Ok(()), "{good}");
        }
        let long = format!("https://shop.example/{}", "a".repeat(URL_MAX_BYTES));
        for (bad, about) in [
            ("", "1 to"),
            (long.as_str(), "1 to"),
            ("shop.example", "must begin"),
            ("/hooks", "must begin"),
            ("ftp://shop.example/", "must begin"),
            ("nats://shop.example", "must begin"),
            ("javascript:alert(1)", "must be"),
            ("https://shop.example/a b", "character"),
            ("https://shöp.example/", "character"),
            ("https://shop.example/\r\nA: b", "character"),
            ("https://shop.example/#top", "fragment"),
            ("https://ann:secret@shop.example/", "user name"),
            ("https://shop.example:0/", "port"),
            ("https://shop.example:99999/", "port"),
            ("https://*.shop.example/", "host"),
            ("http://shop.example/", "not encrypted"),
            ("http://1.1.1.1/", "not encrypted"),
            ("https://10.0.0.1/", "does not list"),
            ("https://[::1]/", "does not list"),
            ("https://[::ffff:127.0.0.1]/", "does not list"),
            ("http://169.254.169.254/latest/meta-data", "does not list"),
            ("https://localhost/", "this machine itself"),
            ("https://db.LocalHost./", "this machine itself"),
        ] {
            let why = check_url(bad, HTTP, &none).unwrap_err();
            assert!(why.contains(about), "{bad}: {why}");
        }
    }

    #[test]
    fn what_is_listed_may_be_reached_in_clear_text() {
        let listed = listing(&["127.0.0.0/8", "10.0.0.0/8"]);
        for good in
            ["http://127.0.0.1:3000/", "http://localhost:3000/", "http://10.2.3.4/", "http://shop/hook"]
        {
            assert_eq!(check_url(good, HTTP, &listed), Ok(()), "{good}");
        }
        for bad in ["http://192.168.0.1/", "http://1.1.1.1/", "https://[::1]/"] {
            assert!(check_url(bad, HTTP, &listed).is_err(), "{bad}");
        }
        assert_eq!(check_url("nats://127.0.0.1:4222", NATS, &listed), Ok(()));
        assert_eq!(check_url("tls://nats.example:4222", NATS, &AllowedNetworks::default()), Ok(()));
        assert!(check_url("nats://nats.example:4222", NATS, &AllowedNetworks::default()).is_err());
    }
}
