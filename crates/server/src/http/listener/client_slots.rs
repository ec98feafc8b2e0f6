//! How many of a listener's slots one client holds: an IPv4 address, or an IPv6 network of /64; a /48 holds twice as many. So nobody
//! takes all of them alone.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anteroom_gateway::identify::Networks;
use anteroom_proxy::ClientCounts;

/// The slots of each client.
#[derive(Debug)]
pub struct ClientSlots {
    max: usize,
    /// Whose number is not limited: proxies, which carry the connections of many, and clients that have no limits at all.
    exempt: Vec<Networks>,
    counts: Mutex<ClientCounts>,
}

impl ClientSlots {
    /// So many for each client outside these networks.
    pub fn new(max: usize, exempt: Vec<Networks>) -> Arc<Self> {
        Arc::new(Self { max, exempt, counts: Mutex::default() })
    }

    /// A slot for a client, unless it holds as many as it may.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<ClientSlot> {
        if self.exempt.iter().any(|networks| networks.contains(address.to_canonical())) {
            return Some(ClientSlot(None));
        }
        let is_taken = self.counts().take(address, self.max);
        is_taken.then(|| ClientSlot(Some((Arc::clone(self), address))))
    }

    fn counts(&self) -> MutexGuard<'_, ClientCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One slot of a client, given back when dropped.
#[derive(Debug)]
pub struct ClientSlot(Option<(Arc<ClientSlots>, IpAddr)>);

impl Drop for ClientSlot {
    fn drop(&mut self) {
        if let Some((slots, address)) = &self.0 {
            slots.counts().give_back(*address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_slots_of_its_own_and_gets_them_back() {
        let exempt = "10.0.0.0/8".parse().unwrap();
        let slots = ClientSlots::new(2, vec![Networks::default(), exempt]);
        let take = |text: &str| slots.take(text.parse().unwrap());
        let held = [take("192.0.2.1").unwrap(), take("::ffff:192.0.2.1").unwrap()];
        assert!(take("192.0.2.1").is_none() && take("192.0.2.2").is_some());
        let network = [take("2001:db8::1").unwrap(), take("2001:db8::2").unwrap()];
        assert!(take("2001:db8::3").is_none() && take("2001:db8:0:1::1").is_some());
        let wide = [take("2001:db8:0:1::1").unwrap(), take("2001:db8:0:2::1").unwrap()];
        assert!(take("2001:db8:0:3::1").is_none() && take("2001:db8:1::1").is_some());
        let proxy: Vec<_> = (0..9).map(|_| take("10.1.2.3").unwrap()).collect();
        drop((held, network, wide, proxy));
        assert!(slots.counts().is_empty(), "nothing is kept of those who are gone");
        assert!(take("192.0.2.1").is_some());
    }
}
