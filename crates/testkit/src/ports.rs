//! Loopback ports that stay a test's own, also while nothing listens on them.
//!
//! A test that ends a server and starts it again on the same port must find that port free. So ports are taken below the
//! range from which the system serves everybody who asks for any port, and each is marked as taken by a UDP socket of the
//! same number: TCP listeners are not hindered by it, other tests see it, and it goes away with the process that holds it.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

/// The lowest port that is given away.
const FIRST_PORT: u16 = 10_000;
/// How many ports there are to give away; together with a companion they stay below 32,768.
const PORT_COUNT: u16 = 12_000;
/// How far a Redis Cluster node's bus port is from its port.
pub(crate) const CLUSTER_BUS_OFFSET: u16 = 10_000;

/// A port of 127.0.0.1 that no other user of this kit gets while this value lives.
#[derive(Debug)]
pub struct ReservedPort {
    number: u16,
    _marks: Vec<UdpSocket>,
}

impl ReservedPort {
    /// A free port.
    #[track_caller]
    pub fn take() -> Self {
        Self::take_with(&[0])
    }

    /// A free port whose cluster bus port is free too.
    #[track_caller]
    pub(crate) fn take_with_cluster_bus() -> Self {
        Self::take_with(&[0, CLUSTER_BUS_OFFSET])
    }

    /// The number of the port.
    pub fn number(&self) -> u16 {
        self.number
    }

    #[track_caller]
    fn take_with(offsets: &[u16]) -> Self {
        // The keys of a new hasher are the randomness that the standard library has. It spreads parallel tests; that
        // nobody gets the same port twice is ensured by the marks.
        let random = RandomState::new().build_hasher().finish();
        let start = u16::try_from(random % u64::from(PORT_COUNT)).expect("a remainder of a 16 bit number");
        let candidates = (0..PORT_COUNT).map(|step| FIRST_PORT + (start + step) % PORT_COUNT);
        let mut free = candidates.filter_map(|number| {
            let marks = offsets.iter().map(|offset| mark(number + offset)).collect::<Option<Vec<_>>>()?;
            Some(Self { number, _marks: marks })
        });
        free.next().expect("one of the ports of the kit is free")
    }
}

/// Marks a port as taken, if nobody has marked it and nobody listens there.
fn mark(number: u16) -> Option<UdpSocket> {
    let mark = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
    TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
    Some(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_is_given_to_nobody_else_and_can_be_listened_on() {
        let held: Vec<ReservedPort> = (0..50).map(|_| ReservedPort::take_with_cluster_bus()).collect();
        let mut numbers: Vec<u16> =
            held.iter().flat_map(|port| [port.number(), port.number() + CLUSTER_BUS_OFFSET]).collect();
        assert!(numbers.iter().all(|number| mark(*number).is_none()));
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 100);
        TcpListener::bind((Ipv4Addr::LOCALHOST, held[0].number())).unwrap();
    }

    #[test]
    fn a_port_on_which_somebody_listens_is_not_taken() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(mark(listener.local_addr().unwrap().port()).is_none());
    }
}
