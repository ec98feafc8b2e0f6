//! What can happen to a connection, and when it does.

use std::time::Duration;

use crate::prng::Prng;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
    /// Either way.
    Both,
}

impl Direction {
    pub(super) fn covers(self, one: Self) -> bool {
        self == Self::Both || self == one
    }
}

/// What can happen to a request, to its answer or to the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Each piece is held for so long; what comes meanwhile waits behind it and is then a piece of its own. A request is
    /// delivered late even if its client has given up and closed.
    Delay(Direction, Duration),
    /// Bytes are taken and never delivered, and neither is the end of the connection. New connections are accepted.
    BlackHole(Direction),
    /// The connection is reset towards both sides, the request undelivered; new connections are reset at once.
    Reset,
    /// The request is delivered; when the server answers, the connection is reset towards the client instead. So it was
    /// carried out, and the client got no answer.
    CutAfterSending,
}

/// What a proxy does.
#[derive(Debug, Clone)]
pub enum Mode {
    /// Everything goes through.
    Pass,
    /// Every request, connection or piece meets the fault.
    Always(Fault),
    /// The next request meets the fault, whichever connection it comes over; then everything goes through. A black hole
    /// is its connection from then on, until it is closed or the mode is set.
    Once(Fault),
    /// Requests meet faults by chance; a black hole is its connection from then on.
    Random(Odds),
    /// Nothing listens, and nothing is connected: as if there were no process.
    Refuse,
}

/// How likely which fault is. The same seed gives the n-th connection the same fate for the same requests.
#[derive(Debug, Clone)]
pub struct Odds {
    pub(super) seed: u64,
    chances: Vec<(u32, Fault)>,
}

impl Odds {
    /// Nothing happens yet. Tests print the seed when they fail.
    pub fn seeded(seed: u64) -> Self {
        Self { seed, chances: Vec::new() }
    }

    /// What breaks connections of a store while a list of scenarios runs. A large request has many pieces, and each can meet a
    /// fault: more faults would let none through. A response that never comes costs seconds, so there are fewer of them.
    pub fn of_broken_connections(seed: u64, is_full: bool) -> Self {
        let (often, seldom) = if is_full { (100, 1_500) } else { (150, 3_000) };
        Self::seeded(seed)
            .one_in(often, Fault::CutAfterSending)
            .one_in(often, Fault::Reset)
            .one_in(often, Fault::Delay(Direction::Both, Duration::from_millis(30)))
            .one_in(seldom, Fault::BlackHole(Direction::ToServer))
            .one_in(seldom, Fault::BlackHole(Direction::ToClient))
    }

    /// One request in so many meets this fault. The faults are tried in the order in which they were added, and a request
    /// meets one at most.
    #[must_use]
    #[track_caller]
    pub fn one_in(mut self, requests: u32, fault: Fault) -> Self {
        assert!(requests > 0, "one request in none cannot meet {fault:?}");
        self.chances.push((requests, fault));
        self
    }

    pub(super) fn roll(&self, random: &mut Prng) -> Option<Fault> {
        let met = self.chances.iter().find(|(requests, _)| random.one_in(u64::from(*requests)));
        met.map(|(_, fault)| *fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(seed: u64, connection: u64) -> Vec<Option<Fault>> {
        let odds = Odds::seeded(seed).one_in(4, Fault::Reset).one_in(2, Fault::CutAfterSending);
        let mut random = Prng::from_seed_and_stream(seed, connection);
        (0..4_000).map(|_| odds.roll(&mut random)).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_fate_and_another_gives_another() {
        assert_eq!(fates(7, 1), fates(7, 1));
        assert_ne!(fates(7, 1), fates(7, 2));
        assert_ne!(fates(7, 1), fates(8, 1));
    }

    #[test]
    fn faults_are_as_frequent_as_asked() {
        let fates = fates(1, 1);
        let share = |fault: Option<Fault>| fates.iter().filter(|met| **met == fault).count();
        // A quarter are reset; half of the others are cut; the rest goes through.
        for (fault, expected) in
            [(Some(Fault::Reset), 1_000), (Some(Fault::CutAfterSending), 1_500), (None, 1_500)]
        {
            let met = share(fault);
            assert!(met.abs_diff(expected) < 200, "{fault:?}: {met}");
        }
    }
}
