//! What counts as one client by its address, and how much each holds: an IPv4 address, or the /64 network that one subscriber of IPv6
//! has at least. Providers hand out /56 and /48 networks too, so a /48 holds no more than a few of its /64 networks do.

use std::collections::HashMap;
use std::net::IpAddr;

use anteroom_core::AddressPrefix;
use anteroom_core::address_prefix::{IPV4_CLIENT_BITS, IPV6_SITE_BITS};

/// How many times as much as one client a wide network holds.
const WIDE_PREFIX_FACTOR: usize = 2;

/// Those of an address, the narrowest first, with how much each holds at most where one client holds `max`.
fn all_of(address: IpAddr, max: usize) -> impl Iterator<Item = (AddressPrefix, usize)> {
    let narrow = AddressPrefix::of_client(address);
    let wide = AddressPrefix::of(address, IPV4_CLIENT_BITS, IPV6_SITE_BITS);
    let wide = (wide != narrow).then_some((wide, max.saturating_mul(WIDE_PREFIX_FACTOR)));
    [Some((narrow, max)), wide].into_iter().flatten()
}

/// How much each client holds of something. Nothing is kept of a client that holds nothing.
#[derive(Debug, Default)]
pub struct ClientCounts(HashMap<AddressPrefix, usize>);

impl ClientCounts {
    /// Counts one more for this address, unless its client holds `max` already, or its wide network twice that.
    #[must_use]
    pub fn take(&mut self, address: IpAddr, max: usize) -> bool {
        let has_room =
            |(prefix, most): (AddressPrefix, usize)| self.0.get(&prefix).is_none_or(|count| *count < most);
        if !all_of(address, max).all(has_room) {
            return false;
        }
        for (prefix, _) in all_of(address, max) {
            *self.0.entry(prefix).or_insert(0) += 1;
        }
        true
    }

    /// Counts one less for this address, for which one was taken.
    pub fn give_back(&mut self, address: IpAddr) {
        for (prefix, _) in all_of(address, 0) {
            if let Some(count) = self.0.get_mut(&prefix) {
                *count -= 1;
                if *count == 0 {
                    self.0.remove(&prefix);
                }
            }
        }
    }

    /// Whether nobody holds anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(addresses: &[&str], max: usize) -> usize {
        let mut counts = ClientCounts::default();
        addresses.iter().filter(|text| counts.take(text.parse().unwrap(), max)).count()
    }

    #[test]
    fn an_ipv6_network_is_one_client_and_each_ipv4_address_is_one() {
        assert_eq!(taken(&["2001:db8:1:2::1", "2001:db8:1:2:ffff::9"], 1), 1);
        assert_eq!(taken(&["2001:db8:1:2::1", "2001:db8:1:3::1"], 1), 2);
        assert_eq!(taken(&["192.0.2.1", "192.0.2.2"], 1), 2);
        assert_eq!(taken(&["192.0.2.1", "::ffff:192.0.2.1"], 1), 1);
    }

    #[test]
    fn the_networks_of_one_large_ipv6_network_hold_twice_as_much_together() {
        let many: Vec<String> = (0..100).map(|number| format!("2001:db8:1:{number:x}::1")).collect();
        let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(taken(&many, 3), 6);
        many.push("2001:db8:2::1");
        assert_eq!(taken(&many, 3), 7, "another large network has its own");
    }

    #[test]
    fn nothing_is_kept_of_those_who_are_gone() {
        let mut counts = ClientCounts::default();
        let addresses = ["192.0.2.1", "2001:db8::1", "2001:db8::2"].map(|text| text.parse().unwrap());
        for address in addresses {
            assert!(counts.take(address, 2));
        }
        for address in addresses {
            counts.give_back(address);
        }
        assert!(counts.is_empty());
    }
}
