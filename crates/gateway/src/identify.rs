//! **identify**: who asks. The address of a client, and its key.
//!
//! A socket's other end is believed, what a client says about itself is not: `X-Forwarded-For` is read only where a trusted
//! proxy wrote it, from the right, so that what a client put there beforehand is never reached.
//!
//! *Invariant:* two spellings of one address are one client. (That a /64 of IPv6 addresses is one client too, because
//! the holder of one of them holds all, is a rule of budgets: `anteroom_store::buckets::Who`.)

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use anteroom_tokens::api_key::ApiKeyDigest;
use http::{HeaderMap, HeaderName, HeaderValue};
use ipnet::{IpNet, Ipv4Net};

/// Where proxies write whom they speak for.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The same, and where CDNs write it, beside that or in its place: Cloudflare, Akamai, Fastly, `CloudFront`, Azure.
static CLIENT_FIELDS: [HeaderName; 6] = [
    FORWARDED_FOR,
    HeaderName::from_static("cf-connecting-ip"),
    HeaderName::from_static("true-client-ip"),
    HeaderName::from_static("fastly-client-ip"),
    HeaderName::from_static("cloudfront-viewer-address"),
    HeaderName::from_static("x-azure-clientip"),
];
/// How many proxies in a row are followed back to a client. More than this is a loop or a joke.
const PROXIES_FOLLOWED_MAX: usize = 32;
/// How many networks a list may name: every request may be compared with each.
pub const NETWORKS_MAX: usize = 1_024;
/// The size of a key's digest, which is a SHA-256.
const DIGEST_BYTES: usize = 32;

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Where the connection comes from.
    pub address: SocketAddr,
    /// Whether it is encrypted.
    pub is_tls: bool,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// Its address, as far back as trusted proxies vouch for it. An IPv4-mapped IPv6 address is written as IPv4.
    pub address: IpAddr,
    /// The digest of the key it showed.
    pub key: Option<KeyDigest>,
    /// Whom a proxy that is not trusted says it speaks for; with that it may be anybody behind its address.
    pub forwarded_for: Option<ForwardedFor>,
}

/// Whom a stranger says it speaks for. Not believed, only told apart from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForwardedFor(u64);

impl ForwardedFor {
    /// What a request says, if it comes from a proxy that is not trusted.
    fn said_by_stranger(headers: &HeaderMap) -> Option<Self> {
        // Most requests have none of these fields. One pass over the names they have costs less than a lookup of each of ours.
        if !headers.keys().any(|name| CLIENT_FIELDS.contains(name)) {
            return None;
        }
        let mut fields = CLIENT_FIELDS.iter().map(|name| headers.get_all(name));
        let said = fields.find(|values| values.iter().next().is_some())?;
        let mut hasher = DefaultHasher::new();
        said.iter().for_each(|value| value.as_bytes().hash(&mut hasher));
        Some(Self(hasher.finish()))
    }

    #[cfg(test)]
    pub(crate) fn of_text(text: &str) -> Self {
        let value = HeaderValue::from_str(text).expect("a header's value");
        Self::said_by_stranger(&[(FORWARDED_FOR, value)].into_iter().collect()).expect("something was said")
    }
}

/// How clients are identified.
#[derive(Debug, Clone, Default)]
pub struct Identification {
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Networks,
    /// The header that holds a client's key, where keys are looked at.
    pub key_header: Option<HeaderName>,
}

/// The client that sent a request on this connection.
pub fn identify(peer: &Peer, headers: &HeaderMap, identification: &Identification) -> Client {
    let trusted = &identification.trusted_proxies;
    Client {
        address: address(peer.address.ip(), headers, trusted),
        forwarded_for: if trusted.contains(peer.address.ip().to_canonical()) {
            None
        } else {
            ForwardedFor::said_by_stranger(headers)
        },
        key: identification.key_header.as_ref().and_then(|name| KeyDigest::from_headers(headers, name)),
    }
}

/// The client on whose behalf a proxy asks that is known to be one, whatever its address.
pub(crate) fn identify_behind(peer: &Peer, headers: &HeaderMap, identification: &Identification) -> Client {
    Client {
        address: address_behind(peer.address.ip().to_canonical(), headers, &identification.trusted_proxies),
        forwarded_for: None,
        key: identification.key_header.as_ref().and_then(|name| KeyDigest::from_headers(headers, name)),
    }
}

/// The first address from the right that is not a trusted proxy's. Where what a trusted proxy wrote is no address, the
/// proxy itself is the last one known.
fn address(peer: IpAddr, headers: &HeaderMap, trusted: &Networks) -> IpAddr {
    let known = peer.to_canonical();
    if trusted.is_empty() || !trusted.contains(known) {
        return known;
    }
    address_behind(known, headers, trusted)
}

fn address_behind(proxy: IpAddr, headers: &HeaderMap, trusted: &Networks) -> IpAddr {
    let mut known = proxy;
    // Several fields are one list, in their order.
    let fields = headers.get_all(FORWARDED_FOR).iter().rev();
    let entries = fields.flat_map(|field| field.as_bytes().rsplit(|byte| *byte == b','));
    for entry in entries.take(PROXIES_FOLLOWED_MAX) {
        let entry = entry.trim_ascii();
        if entry.is_empty() {
            continue;
        }
        let Some(address) = parse_entry(entry) else { break };
        known = address;
        if !trusted.contains(known) {
            break;
        }
    }
    known
}

/// An address as proxies write it: bare, with a port, or in brackets.
fn parse_entry(entry: &[u8]) -> Option<IpAddr> {
    let entry = std::str::from_utf8(entry).ok()?;
    let address = entry.parse().ok().or_else(|| entry.parse().ok().map(|address: SocketAddr| address.ip()));
    let bracketed = || entry.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    address.or_else(bracketed).map(|address| address.to_canonical())
}

/// The digest of a key that a client showed. The key itself is kept nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyDigest([u8; DIGEST_BYTES]);

impl KeyDigest {
    /// What all requests that show several keys share: it is unknown which one was meant, and a made-up second one must
    /// not be a way out of the budget of the first.
    const SEVERAL: Self = Self([0; DIGEST_BYTES]);

    /// Of the key that a request shows.
    fn from_headers(headers: &HeaderMap, name: &HeaderName) -> Option<Self> {
        let mut values = headers.get_all(name).iter().filter(|value| !value.is_empty());
        let value = values.next()?;
        Some(if values.next().is_some() { Self::SEVERAL } else { Self::of(value) })
    }

    fn of(value: &HeaderValue) -> Self {
        let digest = match value.to_str() {
            Ok(text) => ApiKeyDigest::of(text),
            // A header may hold any byte; each as a character of its own, so that no two keys become one.
            Err(_) => {
                ApiKeyDigest::of(&value.as_bytes().iter().map(|byte| char::from(*byte)).collect::<String>())
            }
        };
        Self(digest.to_bytes())
    }

    /// Its bytes, for the names of buckets.
    pub const fn as_bytes(&self) -> &[u8; DIGEST_BYTES] {
        &self.0
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KeyDigest(hidden)")
    }
}

/// A list of networks, such as those of trusted proxies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Vec<IpNet>);

impl Networks {
    /// Of these.
    pub fn new(networks: Vec<IpNet>) -> Result<Self, NetworksError> {
        if networks.len() > NETWORKS_MAX {
            return Err(NetworksError::TooMany);
        }
        Ok(Self(networks.into_iter().map(canonical).collect()))
    }

    /// Whether one of them holds the address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// These and those.
    #[must_use]
    pub fn with(mut self, others: &Self) -> Self {
        self.0.extend_from_slice(&others.0);
        self
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = IpNet> {
        self.0.iter().copied()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Why a text is no list of networks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworksError {
    /// One entry is neither a network nor an address.
    #[error("`{0}` is no network; expected one such as 10.0.0.0/8 or 2001:db8::/32, or an address")]
    NotANetwork(String),
    /// Too many.
    #[error("at most {NETWORKS_MAX} networks are taken")]
    TooMany,
}

/// Networks and addresses, separated by commas. An empty text is an empty list.
impl FromStr for Networks {
    type Err = NetworksError;

    fn from_str(text: &str) -> Result<Self, NetworksError> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        Self::new(entries.map(parse_network).collect::<Result<_, _>>()?)
    }
}

/// One network, or one address, which is the smallest of networks.
pub fn parse_network(text: &str) -> Result<IpNet, NetworksError> {
    let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
    let network = text.parse().ok().or_else(address);
    network.ok_or_else(|| NetworksError::NotANetwork(text.chars().take(64).collect()))
}

/// A network of IPv4 addresses written as IPv6 ones is a network of IPv4 addresses, as the addresses are.
fn canonical(network: IpNet) -> IpNet {
    let IpNet::V6(mapped) = network else { return network.trunc() };
    let address = mapped.addr().to_ipv4_mapped();
    let prefix_bits =
        mapped.prefix_len().checked_sub((Ipv6Addr::BITS - Ipv4Addr::BITS).try_into().unwrap_or(u8::MAX));
    match address.zip(prefix_bits).and_then(|(address, bits)| Ipv4Net::new(address, bits).ok()) {
        Some(network) => IpNet::V4(network.trunc()),
        None => network.trunc(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(text: &str) -> Networks {
        text.parse().unwrap()
    }

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    fn address_of(peer: &str, trusted: &str, forwarded_for: &[&str]) -> String {
        let fields: Vec<_> = forwarded_for.iter().map(|value| ("x-forwarded-for", *value)).collect();
        let identification = Identification { trusted_proxies: networks(trusted), key_header: None };
        let peer = Peer { address: SocketAddr::new(peer.parse().unwrap(), 4_711), is_tls: false };
        identify(&peer, &headers(&fields), &identification).address.to_string()
    }

    #[test]
    fn what_a_client_says_about_its_address_is_not_believed() {
        for said in [&["10.9.9.9"][..], &["127.0.0.1", "1.1.1.1"], &["rubbish"], &[]] {
            assert_eq!(address_of("203.0.113.7", "", said), "203.0.113.7");
            assert_eq!(address_of("203.0.113.7", "10.0.0.0/8", said), "203.0.113.7");
        }
    }

    #[test]
    fn a_trusted_proxy_is_believed_from_the_right_and_no_further_than_the_trust_goes() {
        let trusted = "10.0.0.0/8, 2001:db8:1::/48";
        for (forwarded_for, expected) in [
            (&["203.0.113.7"][..], "203.0.113.7"),
            // What the client wrote itself stands further left and is never reached.
            (&["1.1.1.1, 203.0.113.7"], "203.0.113.7"),
            (&["10.0.0.9, 1.1.1.1, 203.0.113.7, 10.0.0.2"], "203.0.113.7"),
            (&["1.1.1.1", "203.0.113.7"], "203.0.113.7"),
            (&["1.1.1.1, 203.0.113.7", "10.0.0.2", "2001:db8:1::5"], "203.0.113.7"),
            // A list split over fields is one list; blanks and empty entries mean nothing.
            (&["  203.0.113.7 ,\t10.0.0.2 ,, "], "203.0.113.7"),
            // With a port, in brackets, as a mapped address.
            (&["203.0.113.7:4711"], "203.0.113.7"),
            (&["[2001:db8::7]:4711"], "2001:db8::7"),
            (&["[2001:db8::7]"], "2001:db8::7"),
            (&["::ffff:203.0.113.7"], "203.0.113.7"),
            (&["::ffff:10.0.0.2, ::ffff:203.0.113.7, ::ffff:10.0.0.3"], "203.0.113.7"),
            // Nothing but proxies: the furthest. Nothing at all: the proxy itself.
            (&["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            (&[], "10.0.0.1"),
            (&[""], "10.0.0.1"),
            // What is no address ends the search at the last proxy known, and makes no client of its own.
            (&["unknown"], "10.0.0.1"),
            (&["203.0.113.7, _hidden"], "10.0.0.1"),
            (&["203.0.113.7, rubbish, 10.0.0.2"], "10.0.0.2"),
            (&["203.0.113.7, \u{e9}"], "10.0.0.1"),
            (&["203.0.113.7.8"], "10.0.0.1"),
            (&["\"203.0.113.7\""], "10.0.0.1"),
        ] {
            assert_eq!(address_of("10.0.0.1", trusted, forwarded_for), expected, "{forwarded_for:?}");
            assert_eq!(
                address_of("::ffff:10.0.0.1", trusted, forwarded_for),
                expected,
                "{forwarded_for:?}, mapped"
            );
        }
    }

    #[test]
    fn whom_a_stranger_speaks_for_is_told_apart_by_the_fields_of_proxies_and_cdns_only() {
        let said = |peer: &str, fields: &[(&'static str, &str)]| {
            let identification = Identification { trusted_proxies: networks("10.0.0.0/8"), key_header: None };
            let peer = Peer { address: SocketAddr::new(peer.parse().unwrap(), 4_711), is_tls: false };
            identify(&peer, &headers(fields), &identification).forwarded_for
        };
        for name in &CLIENT_FIELDS {
            let name: &'static str = name.as_str().to_owned().leak();
            let one = said("203.0.113.7", &[("host", "a"), (name, "192.0.2.1"), ("accept", "*/*")]);
            assert!(one.is_some() && one == said("203.0.113.7", &[(name, "192.0.2.1")]), "{name}");
            assert_ne!(one, said("203.0.113.7", &[(name, "192.0.2.2")]), "{name}");
            assert_eq!(said("10.0.0.1", &[(name, "192.0.2.1")]), None, "a trusted proxy is believed");
        }
        assert_eq!(said("203.0.113.7", &[]), None);
        assert_eq!(said("203.0.113.7", &[("host", "a"), ("x-forwarded-proto", "https")]), None);
        // What a proxy wrote counts before what a CDN did.
        let both = [("cf-connecting-ip", "192.0.2.1"), ("x-forwarded-for", "192.0.2.2")];
        assert_eq!(said("203.0.113.7", &both), said("203.0.113.7", &both[1..]));
    }

    #[test]
    fn a_chain_that_never_ends_is_not_followed_forever() {
        let chain = vec!["10.0.0.2"; 5_000].join(", ");
        assert_eq!(address_of("10.0.0.1", "10.0.0.0/8", &[&format!("203.0.113.7, {chain}")]), "10.0.0.2");
    }

    #[test]
    fn networks_are_read_and_compared_in_one_form() {
        let list = networks("10.1.2.3/8, 192.0.2.1, 2001:db8::/32,::1, ::ffff:172.16.0.0/108");
        for inside in ["10.255.0.1", "192.0.2.1", "2001:db8:ffff::1", "::1", "172.16.9.9", "172.31.0.1"] {
            assert!(list.contains(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["11.0.0.1", "192.0.2.2", "2001:db9::1", "::2", "172.32.0.1"] {
            assert!(!list.contains(outside.parse().unwrap()), "{outside}");
        }
        assert!(networks("").is_empty() && networks(" , ").is_empty());
        assert!(networks("0.0.0.0/0").contains("203.0.113.7".parse().unwrap()));
        for wrong in ["10.0.0.0/33", "localhost", "10.0.0", "2001:db8::/129", "10.0.0.0/8 192.0.2.1"] {
            let error = wrong.parse::<Networks>().unwrap_err();
            assert_eq!(error, NetworksError::NotANetwork(wrong.to_owned()));
        }
        let many = vec!["10.0.0.1"; NETWORKS_MAX + 1].join(",");
        assert_eq!(many.parse::<Networks>(), Err(NetworksError::TooMany));
    }

    #[test]
    fn keys_are_distinguished_by_digests_that_do_not_reveal_them() {
        let name = HeaderName::from_static("x-client-key");
        let of = |values: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(&name, HeaderValue::from_bytes(value).unwrap());
            }
            let identification =
                Identification { key_header: Some(name.clone()), ..Identification::default() };
            let peer = Peer { address: "203.0.113.7:1".parse().unwrap(), is_tls: true };
            identify(&peer, &headers, &identification).key
        };
        let [one, other] = [of(&[b"one"]), of(&[b"other"])];
        assert!(one.is_some() && one != other && one == of(&[b"one"]) && one == of(&[b"", b"one"]));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[b""]), None);
        // Bytes that are no text, and their spelling in text, are different keys.
        assert!(of(&[b"\xe9"]).is_some() && of(&[b"\xe9"]) != of(&["\u{e9}".as_bytes()]));
        // A second key is no way to a fresh budget.
        assert_eq!(of(&[b"one", b"made-up-1"]), of(&[b"made-up-2", b"one"]));
        assert_ne!(of(&[b"one", b"two"]), one);
        assert_eq!(format!("{:?}", one.unwrap()), "KeyDigest(hidden)");
    }

    #[test]
    fn no_key_is_looked_for_where_no_header_is_named() {
        let peer = Peer { address: "203.0.113.7:1".parse().unwrap(), is_tls: true };
        let client = identify(&peer, &headers(&[("x-client-key", "one")]), &Identification::default());
        assert_eq!(client.key, None);
    }
}
