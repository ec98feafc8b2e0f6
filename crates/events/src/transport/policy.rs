//! Where we connect to: public addresses, and those private ones that the operator listed.
//!
//! Whoever may set a destination could otherwise make the server send requests into its own network: to the metadata service of a cloud,
//! to a database, to our own private listener. *Invariant:* the address that was checked is the one that is connected to. A name is
//! resolved once, so a name server that gives another address the second time gains nothing; and an address in another notation
//! (`2130706433`, `0177.0.0.1`, `::ffff:127.0.0.1`) is checked as what it means.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anteroom_core::UnixMillis;
use anteroom_store::clock::{Clock, SystemClock};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long resolving a name and connecting may take together.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The setting that lists private addresses, as reasons name it.
const SETTING: &str = "destinations_private_allowed";

/// Networks of IPv4 that are not public, and what they are. The first that matches counts.
const NOT_PUBLIC_V4: &[([u8; 4], u8, &str)] = &[
    ([0, 0, 0, 0], 32, "unspecified"),
    ([0, 0, 0, 0], 8, "reserved"),
    ([10, 0, 0, 0], 8, "private"),
    ([100, 64, 0, 0], 10, "shared (CGNAT)"),
    ([127, 0, 0, 0], 8, "loopback"),
    ([169, 254, 0, 0], 16, "link-local"),
    ([172, 16, 0, 0], 12, "private"),
    ([192, 0, 0, 0], 24, "reserved"),
    ([192, 0, 2, 0], 24, "for documentation"),
    ([192, 88, 99, 0], 24, "reserved"),
    ([192, 168, 0, 0], 16, "private"),
    ([198, 18, 0, 0], 15, "for benchmarks"),
    ([198, 51, 100, 0], 24, "for documentation"),
    ([203, 0, 113, 0], 24, "for documentation"),
    ([224, 0, 0, 0], 4, "multicast"),
    ([255, 255, 255, 255], 32, "broadcast"),
    ([240, 0, 0, 0], 4, "reserved"),
];

/// The same of IPv6. What is in none of them and not in [`PUBLIC_V6`] is reserved.
const NOT_PUBLIC_V6: &[(Ipv6Addr, u8, &str)] = &[
    (Ipv6Addr::UNSPECIFIED, 128, "unspecified"),
    (Ipv6Addr::LOCALHOST, 128, "loopback"),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, "private"),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "reserved"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "for documentation"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "for documentation"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "private"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "link-local"),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, "private"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "multicast"),
];

/// Global unicast addresses: all of IPv6 that is given out.
const PUBLIC_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// The rules and what all connections to destinations have in common.
pub struct OutboundPolicy {
    private_allowed: Vec<IpNet>,
    roots: Arc<RootCertStore>,
    tls: Arc<ClientConfig>,
    clock: Arc<dyn Clock>,
}

/// Why there is no policy.
#[derive(Debug, thiserror::Error)]
#[error("the certificates in {path} cannot be read: {reason}", path = .path.display())]
pub struct CaFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// Whether what is sent can be read on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// By nobody.
    Tls,
    /// By everybody between here and there.
    ClearText,
}

/// Why an address is not connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RefusedAddress {
    /// It is not public.
    #[error("address {address} is {kind} and not listed in {SETTING}")]
    NotPublic {
        /// The address, as it is connected to.
        address: IpAddr,
        /// What it is.
        kind: &'static str,
    },
    /// It is public, and what is sent could be read on the way.
    #[error("address {0} is not listed in {SETTING}, so it is used with TLS only")]
    ClearText(IpAddr),
}

/// Why there is no connection. Its text is a reason that operators read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectFailure {
    #[error("host name {0} not found")]
    NotFound(String),
    #[error(transparent)]
    Refused(#[from] RefusedAddress),
    #[error("no connection within {} s", CONNECT_TIMEOUT.as_secs())]
    Timeout,
    #[error("{}", connection_reason(.0))]
    Io(io::Error),
}

impl OutboundPolicy {
    /// Lets connections go to public addresses and those listed. Over TLS it trusts what the system trusts, and the certificates in
    /// `ca_file` (PEM).
    pub fn new(private_allowed: Vec<IpNet>, ca_file: Option<&Path>) -> Result<Self, CaFileError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(path) = ca_file {
            add_file(&mut roots, path).map_err(|reason| CaFileError { path: path.to_owned(), reason })?;
        }
        let roots = Arc::new(roots);
        let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider knows the default versions of TLS")
            .with_root_certificates(Arc::clone(&roots))
            .with_no_client_auth();
        Ok(Self { private_allowed, roots, tls: Arc::new(tls), clock: Arc::new(SystemClock) })
    }

    /// With another clock than the machine's.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Whether that address may be connected to.
    pub fn check(&self, address: IpAddr, wire: Wire) -> Result<(), RefusedAddress> {
        let meant = address.to_canonical();
        if self.private_allowed.iter().any(|network| network.contains(&meant) || network.contains(&address)) {
            return Ok(());
        }
        match (kind_if_not_public(meant), wire) {
            (Some(kind), _) => Err(RefusedAddress::NotPublic { address: meant, kind }),
            (None, Wire::ClearText) => Err(RefusedAddress::ClearText(meant)),
            (None, Wire::Tls) => Ok(()),
        }
    }

    pub(crate) fn now(&self) -> UnixMillis {
        self.clock.now()
    }

    pub(crate) fn tls(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.tls)
    }

    #[cfg_attr(not(feature = "nats"), expect(dead_code, reason = "NATS is given its own verifier"))]
    pub(crate) fn roots(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.roots)
    }

    /// The addresses of a host that may be connected to: at least one.
    pub(crate) async fn addresses(
        &self,
        host: &str,
        port: u16,
        wire: Wire,
    ) -> Result<Vec<SocketAddr>, ConnectFailure> {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let found =
            tokio::net::lookup_host((bare, port)).await.map_err(|_| ConnectFailure::NotFound(bare.into()))?;
        let (mut allowed, mut refused) = (vec![], None);
        for address in found {
            match self.check(address.ip(), wire) {
                Ok(()) => allowed.push(address),
                Err(reason) => refused = refused.or(Some(reason)),
            }
        }
        match (allowed.is_empty(), refused) {
            (false, _) => Ok(allowed),
            (true, Some(reason)) => Err(reason.into()),
            (true, None) => Err(ConnectFailure::NotFound(bare.into())),
        }
    }

    /// A connection to the first address that answers.
    pub(crate) async fn connect(
        &self,
        host: &str,
        port: u16,
        wire: Wire,
    ) -> Result<TcpStream, ConnectFailure> {
        let connecting = async {
            let mut last = None;
            for address in self.addresses(host, port, wire).await? {
                match TcpStream::connect(address).await {
                    Ok(stream) => {
                        stream.set_nodelay(true).map_err(ConnectFailure::Io)?;
                        return Ok(stream);
                    }
                    Err(error) => last = Some(error),
                }
            }
            Err(ConnectFailure::Io(last.unwrap_or_else(|| io::ErrorKind::NotFound.into())))
        };
        timeout(CONNECT_TIMEOUT, connecting).await.unwrap_or(Err(ConnectFailure::Timeout))
    }
}

impl fmt::Debug for OutboundPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OutboundPolicy")
            .field("private_allowed", &self.private_allowed)
            .finish_non_exhaustive()
    }
}

/// What went wrong with a connection, in words of ours: those of the system come with numbers that differ between systems.
pub(crate) fn connection_reason(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => {
            "connection reset"
        }
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "host not reachable",
        io::ErrorKind::TimedOut => "connection timed out",
        io::ErrorKind::UnexpectedEof => "connection closed",
        _ => "connection failed",
    }
}

/// What a network is, if it is not public.
pub(crate) fn kind_if_not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => kind_v6(address),
    }
}

fn kind_v4(address: Ipv4Addr) -> Option<&'static str> {
    let named = NOT_PUBLIC_V4
        .iter()
        .find(|(first, length, _)| Ipv4Net::new_assert((*first).into(), *length).contains(&address));
    named.map(|(_, _, kind)| *kind)
}

fn kind_v6(address: Ipv6Addr) -> Option<&'static str> {
    if let Some(inside) = address_inside(address) {
        return kind_v4(inside);
    }
    let named = NOT_PUBLIC_V6
        .iter()
        .find(|(first, length, _)| Ipv6Net::new_assert(*first, *length).contains(&address));
    if let Some((_, _, kind)) = named {
        return Some(kind);
    }
    let is_given_out = Ipv6Net::new_assert(PUBLIC_V6.0, PUBLIC_V6.1).contains(&address);
    (!is_given_out).then_some("reserved")
}

/// The IPv4 address that a gateway reads out of an address of IPv6: NAT64, 6to4, and the deprecated compatible form.
fn address_inside(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let octets = address.octets();
    let at =
        |start: usize| Ipv4Addr::new(octets[start], octets[start + 1], octets[start + 2], octets[start + 3]);
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(at(12)),
        [0x2002, ..] => Some(at(2)),
        [0, 0, 0, 0, 0, 0, high, low] if (high, low) > (0, 1) => Some(at(12)),
        _ => None,
    }
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let mut found = 0;
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())? {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
        found += 1;
    }
    if found == 0 { Err("it holds no certificate in PEM form".to_owned()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(allowed: &[&str]) -> OutboundPolicy {
        let allowed = allowed.iter().map(|network| network.parse().unwrap()).collect();
        OutboundPolicy::new(allowed, None).unwrap()
    }

    fn refusal(policy: &OutboundPolicy, address: &str) -> Option<String> {
        policy.check(address.parse().unwrap(), Wire::Tls).err().map(|reason| reason.to_string())
    }

    #[test]
    fn what_is_not_public_is_refused_and_named() {
        let policy = policy(&[]);
        for (address, kind) in [
            ("0.0.0.0", "unspecified"),
            ("0.1.2.3", "reserved"),
            ("10.0.0.5", "private"),
            ("100.64.0.1", "shared (CGNAT)"),
            ("100.127.255.255", "shared (CGNAT)"),
            ("127.0.0.1", "loopback"),
            ("127.255.0.1", "loopback"),
            ("169.254.169.254", "link-local"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.0.0.8", "reserved"),
            ("192.0.2.1", "for documentation"),
            ("192.88.99.1", "reserved"),
            ("192.168.1.1", "private"),
            ("198.18.0.1", "for benchmarks"),
            ("198.19.255.255", "for benchmarks"),
            ("198.51.100.1", "for documentation"),
            ("203.0.113.1", "for documentation"),
            ("224.0.0.1", "multicast"),
            ("239.255.255.255", "multicast"),
            ("240.0.0.1", "reserved"),
            ("255.255.255.255", "broadcast"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("64:ff9b:1::a", "private"),
            ("100::1", "reserved"),
            ("2001::1", "reserved"),
            ("2001:db8::1", "for documentation"),
            ("3fff::1", "for documentation"),
            ("4000::1", "reserved"),
            ("5f00::1", "reserved"),
            ("fc00::1", "private"),
            ("fd12:3456::1", "private"),
            ("fe80::1", "link-local"),
            ("fec0::1", "private"),
            ("ff02::1", "multicast"),
        ] {
            let expected =
                format!("address {address} is {kind} and not listed in destinations_private_allowed");
            assert_eq!(refusal(&policy, address), Some(expected));
        }
    }

    #[test]
    fn an_ipv4_address_within_one_of_ipv6_is_judged_as_what_it_is() {
        let policy = policy(&[]);
        for (address, kind) in [
            ("::ffff:10.0.0.5", "private"),
            ("::ffff:169.254.169.254", "link-local"),
            ("64:ff9b::127.0.0.1", "loopback"),
            ("64:ff9b::a00:5", "private"),
            ("2002:7f00:1::", "loopback"),
            ("2002:a00:5::1", "private"),
            ("::127.0.0.1", "loopback"),
        ] {
            let refused = refusal(&policy, address).unwrap_or_else(|| panic!("{address} was let through"));
            assert!(refused.contains(&format!(" is {kind} ")), "{address}: {refused}");
        }
        for public in ["::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"] {
            assert_eq!(refusal(&policy, public), None, "{public}");
        }
    }

    #[test]
    fn public_addresses_are_used_over_tls_and_listed_ones_in_clear_text_too() {
        let policy = policy(&["10.1.0.0/16", "127.0.0.1/32", "fd00::/8"]);
        for public in ["8.8.8.8", "1.1.1.1", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "2a00::1"] {
            let address = public.parse().unwrap();
            assert_eq!(policy.check(address, Wire::Tls), Ok(()), "{public}");
            let refused = policy.check(address, Wire::ClearText).unwrap_err().to_string();
            assert!(refused.ends_with("so it is used with TLS only"), "{refused}");
        }
        for listed in ["10.1.2.3", "127.0.0.1", "fd00::1", "::ffff:10.1.2.3"] {
            let address = listed.parse().unwrap();
            assert_eq!(policy.check(address, Wire::ClearText), Ok(()), "{listed}");
        }
        for other in ["10.2.0.1", "127.0.0.2", "fc00::1"] {
            assert!(refusal(&policy, other).is_some(), "{other}");
        }
    }

    #[tokio::test]
    async fn a_name_and_every_notation_of_an_address_are_judged_by_what_they_resolve_to() {
        let policy = policy(&[]);
        for host in [
            "localhost",
            "127.0.0.1",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "127.1",
            "[::1]",
            "[::ffff:7f00:1]",
        ] {
            let refused = policy.addresses(host, 443, Wire::Tls).await.unwrap_err().to_string();
            assert!(refused.contains("is loopback and not listed"), "{host}: {refused}");
        }
        let unknown = policy.addresses("no-such-host.invalid", 443, Wire::Tls).await.unwrap_err();
        assert_eq!(unknown.to_string(), "host name no-such-host.invalid not found");
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.pem");
        assert!(OutboundPolicy::new(vec![], Some(&path)).is_err());
        std::fs::write(&path, "nothing").unwrap();
        let error = OutboundPolicy::new(vec![], Some(&path)).unwrap_err();
        assert!(error.to_string().ends_with("it holds no certificate in PEM form"), "{error}");
    }
}
