//! What clients are told apart by: a network of so many bits.
//!
//! The holder of one IPv6 address holds the whole /64 around it, so that is one client, as one IPv4 address is. An IPv4 address that
//! is written as an IPv6 one is an IPv4 address. Everything that counts clients, limits them or shares something among them goes by
//! this type.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 address is one client.
pub const IPV4_CLIENT_BITS: u32 = 32;
/// How many bits of an IPv6 address a subscriber does not choose.
pub const IPV6_CLIENT_BITS: u32 = 64;
/// The network of a subscriber with the largest IPv6 network that providers hand out.
pub const IPV6_SITE_BITS: u32 = 48;

/// The addresses that have their first bits in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressPrefix {
    network: IpAddr,
    bits: u8,
}

impl AddressPrefix {
    /// The addresses of the client at this one.
    pub fn of_client(address: IpAddr) -> Self {
        Self::of(address, IPV4_CLIENT_BITS, IPV6_CLIENT_BITS)
    }

    /// Those that have so many bits in common with this one, by what kind of address it is. More than it has count as all.
    pub fn of(address: IpAddr, ipv4_bits: u32, ipv6_bits: u32) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let bits = ipv4_bits.min(Ipv4Addr::BITS);
                let mask = u32::MAX.checked_shl(Ipv4Addr::BITS - bits).unwrap_or(0);
                Self::new(IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask)), bits)
            }
            IpAddr::V6(address) => {
                let bits = ipv6_bits.min(Ipv6Addr::BITS);
                let mask = u128::MAX.checked_shl(Ipv6Addr::BITS - bits).unwrap_or(0);
                Self::new(IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask)), bits)
            }
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "no address has more than 128 bits")]
    const fn new(network: IpAddr, bits: u32) -> Self {
        Self { network, bits: bits as u8 }
    }

    /// Its first address.
    pub const fn address(self) -> IpAddr {
        self.network
    }

    /// How many bits its addresses have in common.
    pub const fn bits(self) -> u32 {
        self.bits as u32
    }
}

impl fmt::Display for AddressPrefix {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.network, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(address: &str, ipv4_bits: u32, ipv6_bits: u32) -> String {
        AddressPrefix::of(address.parse().unwrap(), ipv4_bits, ipv6_bits).to_string()
    }

    #[test]
    fn a_client_is_an_ipv4_address_or_a_64_of_ipv6() {
        let client = |address: &str| AddressPrefix::of_client(address.parse().unwrap());
        assert_eq!(client("203.0.113.7").to_string(), "203.0.113.7/32");
        assert_eq!(client("203.0.113.7"), client("::ffff:203.0.113.7"), "two spellings of one address");
        assert_ne!(client("203.0.113.7"), client("203.0.113.8"));
        assert_eq!(client("2001:db8:1:2:3:4:5:6").to_string(), "2001:db8:1:2::/64");
        assert_eq!(client("2001:db8:1:2::1"), client("2001:db8:1:2:ffff::9"));
        assert_ne!(client("2001:db8:1:2::1"), client("2001:db8:1:3::1"));
    }

    #[test]
    fn a_network_has_the_first_bits_of_its_addresses() {
        assert_eq!(prefix("203.0.113.7", 24, 48), "203.0.113.0/24");
        assert_eq!(prefix("2001:db8:1:2ff:3:4:5:6", 24, 56), "2001:db8:1:200::/56");
        assert_eq!(prefix("2001:db8:1:2:3:4:5:6", 24, IPV6_SITE_BITS), "2001:db8:1::/48");
        assert_eq!((prefix("203.0.113.7", 0, 0), prefix("::1", 0, 0)), ("0.0.0.0/0".into(), "::/0".into()));
        assert_eq!(prefix("203.0.113.7", 99, 0), "203.0.113.7/32");
        assert_eq!(prefix("2001:db8::1", 0, 999), "2001:db8::1/128");
        assert_ne!(
            AddressPrefix::of("::1".parse().unwrap(), 32, 64),
            AddressPrefix::of("::1".parse().unwrap(), 32, 48),
            "networks of different sizes are different"
        );
    }
}
