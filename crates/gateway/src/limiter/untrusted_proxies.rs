//! A proxy before this server that `trusted_proxies` does not name: all its visitors are one client, and share one budget. It is recognised
//! by what it does, and one warning tells of it.
//!
//! Evidence is an address that says of its requests that they are many visitors'. Anybody can write that, so nothing but the warning
//! depends on it. One visitor whose own proxy adds `X-Forwarded-For` is no evidence.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::identify::ForwardedFor;

/// How many visitors an address must have spoken for before it is taken for a proxy.
const VISITORS_OF_A_PROXY: usize = 16;
/// How many addresses are watched at once. With more, the watch begins anew.
const ADDRESSES_WATCHED_MAX: usize = 256;

/// Whom untrusted addresses speak for, until one of them is known to be a proxy.
#[derive(Default)]
pub(super) struct UntrustedProxies {
    visitors: Mutex<HashMap<IpAddr, Vec<ForwardedFor>>>,
    is_found: AtomicBool,
}

impl UntrustedProxies {
    /// Notes for whom an address speaks.
    pub(super) fn note(&self, address: IpAddr, visitor: ForwardedFor) {
        if !self.is_found.load(Ordering::Relaxed) && self.is_proxy(address, visitor) {
            self.is_found.store(true, Ordering::Relaxed);
            tracing::warn!(
                %address,
                visitors = VISITORS_OF_A_PROXY,
                "an address forwards requests of many visitors, who share the budgets of one client; \
                 if it is your CDN or load balancer, name its networks in trusted_proxies"
            );
        }
    }

    /// Whether this is the visitor by which an address is found to be a proxy. That happens once.
    fn is_proxy(&self, address: IpAddr, visitor: ForwardedFor) -> bool {
        let mut watched = self.visitors.lock().unwrap_or_else(PoisonError::into_inner);
        if watched.len() >= ADDRESSES_WATCHED_MAX && !watched.contains_key(&address) {
            watched.clear();
        }
        let visitors = watched.entry(address).or_default();
        if visitors.len() >= VISITORS_OF_A_PROXY || visitors.contains(&visitor) {
            return false;
        }
        visitors.push(visitor);
        let is_found = visitors.len() == VISITORS_OF_A_PROXY;
        if is_found {
            watched.retain(|other, _| *other == address);
        }
        is_found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([198, 51, 100, last])
    }

    #[test]
    fn an_address_is_a_proxy_when_it_has_spoken_for_many_different_visitors() {
        let proxies = UntrustedProxies::default();
        let visitor = |number: usize| ForwardedFor::of_text(&format!("203.0.113.{number}"));
        assert!(!(0..1_000).any(|_| proxies.is_proxy(address(1), visitor(1))), "one visitor's own proxy");
        assert!(!(1..VISITORS_OF_A_PROXY).any(|number| proxies.is_proxy(address(2), visitor(number))));
        assert!(!proxies.is_proxy(address(3), visitor(VISITORS_OF_A_PROXY)), "each address for itself");
        assert!(proxies.is_proxy(address(2), visitor(VISITORS_OF_A_PROXY)));
        assert!(!(0..100).any(|number| proxies.is_proxy(address(2), visitor(number))), "it is found once");
    }

    #[test]
    fn the_watch_over_addresses_is_bounded() {
        let proxies = UntrustedProxies::default();
        for number in 0..10 * u32::try_from(ADDRESSES_WATCHED_MAX).unwrap() {
            proxies.note(IpAddr::from(number.to_be_bytes()), ForwardedFor::of_text("203.0.113.7"));
            assert!(proxies.visitors.lock().unwrap().len() <= ADDRESSES_WATCHED_MAX);
        }
    }
}
