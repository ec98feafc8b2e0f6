//! Which address prefix a visitor comes from, as far as a room has to know: a tag of ten bits, by a keyed digest. All nodes
//! with the same secrets compute the same one, and no address can be computed from it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anteroom_core::ids::RoomId;
use anteroom_core::{AddressPrefix, PrefixTag};
use aws_lc_rs::hmac;

use crate::secret::{Label, MasterSecrets};

/// The tags of one room.
pub struct PrefixTags {
    key: hmac::Key,
}

impl PrefixTags {
    /// Those of `room` under the first of `secrets`.
    pub fn new(secrets: &MasterSecrets, room: &RoomId) -> Self {
        let mut keys = secrets.opening_keys(Label::AddressPrefix(room));
        let key = keys.next().expect("there is a secret");
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, &key[..]) }
    }

    /// The tag of the client at this address. None for one that nobody comes from over the Internet: it is that of a proxy, or of a
    /// network of the operator's own, and says nothing about who shares it.
    pub fn tag(&self, address: IpAddr) -> Option<PrefixTag> {
        let address = address.to_canonical();
        if !is_of_the_internet(address) {
            return None;
        }
        let prefix = AddressPrefix::of_client(address);
        // Tags are stored: what is digested stays as it is, the octets of an IPv4 address, or the bits of an IPv6 prefix as a number.
        let prefix = match prefix.address() {
            IpAddr::V4(address) => hmac::sign(&self.key, &address.octets()),
            IpAddr::V6(address) => {
                let bits = address.to_bits() >> (Ipv6Addr::BITS - prefix.bits());
                hmac::sign(&self.key, &bits.to_be_bytes())
            }
        };
        let digest = prefix.as_ref().first_chunk().copied().unwrap_or_default();
        Some(PrefixTag::of_digest(u64::from_be_bytes(digest)))
    }
}

impl fmt::Debug for PrefixTags {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PrefixTags(key hidden)")
    }
}

fn is_of_the_internet(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            // What carriers number their customers with before they translate the address (RFC 6598).
            let is_of_carrier = u32::from(address) >> 22 == u32::from(Ipv4Addr::new(100, 64, 0, 0)) >> 22;
            let is_special =
                address.is_loopback() || address.is_link_local() || address.is_unspecified() || is_of_carrier;
            !address.is_private() && !is_special
        }
        IpAddr::V6(address) => {
            let is_local = address.is_unique_local() || address.is_unicast_link_local();
            !address.is_loopback() && !address.is_unspecified() && !is_local
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(secret: &str, room: &str) -> PrefixTags {
        PrefixTags::new(&MasterSecrets::parse(secret).unwrap(), &RoomId::parse(room).unwrap())
    }

    const SECRET: &str = "a-secret-of-this-test-0123456789abcdef";

    #[test]
    fn an_ipv4_address_and_a_64_of_ipv6_are_prefixes() {
        let tags = tags(SECRET, "Hall");
        let tag = |address: &str| tags.tag(address.parse().unwrap());
        assert!(tag("203.0.113.7").is_some());
        assert_eq!(tag("203.0.113.7"), tag("::ffff:203.0.113.7"), "two spellings of one address");
        assert_eq!(tag("2001:db8:0:1::1"), tag("2001:db8:0:1:ffff::9"));
        let differ = |addresses: &mut dyn Iterator<Item = String>| {
            addresses.map(|address| tag(&address)).collect::<std::collections::HashSet<_>>().len()
        };
        assert!(differ(&mut (0..200).map(|last| format!("203.0.113.{last}"))) > 150);
        assert!(differ(&mut (0..200).map(|part| format!("2001:db8:0:{part:x}::1"))) > 150);
    }

    #[test]
    fn what_is_digested_stays_as_it_was_stored() {
        let tags = tags(SECRET, "Hall");
        let digested = |bytes: &[u8]| {
            let digest = hmac::sign(&tags.key, bytes);
            PrefixTag::of_digest(u64::from_be_bytes(*digest.as_ref().first_chunk().unwrap()))
        };
        let tag = |address: &str| tags.tag(address.parse().unwrap()).unwrap();
        assert_eq!(tag("203.0.113.7"), digested(&[203, 0, 113, 7]));
        let prefix = [0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2];
        assert_eq!(tag("2001:db8:1:2:3:4:5:6"), digested(&prefix));
    }

    #[test]
    fn tags_are_those_of_a_room_and_a_secret() {
        let spread = |tags: &PrefixTags| {
            (0..32).map(|last| tags.tag(IpAddr::from([203, 0, 113, last]))).collect::<Vec<_>>()
        };
        let one = spread(&tags(SECRET, "Hall"));
        assert_eq!(one, spread(&tags(&format!("{SECRET},an-older-secret-0123456789abcdefghijk"), "Hall")));
        assert_ne!(one, spread(&tags(SECRET, "Yard")));
        assert_ne!(one, spread(&tags("another-secret-of-this-test-0123456789", "Hall")));
    }

    #[test]
    fn addresses_of_no_visitor_from_the_internet_have_no_tag() {
        let tags = tags(SECRET, "Hall");
        for address in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "0.0.0.0",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "::ffff:10.0.0.1",
        ] {
            assert_eq!(tags.tag(address.parse().unwrap()), None, "{address}");
        }
        for address in ["100.63.255.255", "100.128.0.1", "8.8.8.8", "2001:db8::1"] {
            assert!(tags.tag(address.parse().unwrap()).is_some(), "{address}");
        }
    }
}
