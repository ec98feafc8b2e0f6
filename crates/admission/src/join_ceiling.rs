//! The ceiling of joins a second (`join_rate_max`), and who has a share of it when more want to join than may.
//!
//! A second is a window. Within it so many may join, and no network more than its share: what max-min fairness gives it by what
//! each network asked for in the window before. So in the first second of a rush the first ones get in, and from the next one on a
//! network that asks a thousand times as often as the others gets no more than they do.
//!
//! Nodes that share a store share the ceiling: what others joined is seen on the board, and a slow mean of it is subtracted. So the
//! ceiling holds over all nodes within some seconds, not within each.
//!
//! *Bounded:* only so many networks are told apart in a window. Those beyond share one share.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use anteroom_core::address_prefix::IPV6_SITE_BITS;
use anteroom_core::{AddressPrefix, UnixMillis};

use crate::error::AdmissionError;

/// The length of a window, in milliseconds.
const WINDOW_MILLIS: u64 = 1_000;
/// Networks of IPv4 have so many bits: the smallest that is announced on its own.
const IPV4_NETWORK_BITS: u32 = 24;
/// How many networks are told apart in a window.
const NETWORKS_MAX: usize = 4_096;
/// The mean of what other nodes join is over about so many windows.
const OTHERS_WINDOWS: i64 = 4;
/// A node may always use this part of the ceiling, whatever others do.
const OWN_PART: u64 = 16;
/// The longest time after which a refused client is asked to try again.
const RETRY_AFTER_MAX_SECONDS: u64 = 30;

/// The ceiling of one room on this node.
#[derive(Debug, Default)]
pub struct JoinCeiling {
    window: Mutex<Window>,
}

/// A network: IPv4 by /24, IPv6 by /48. `None` stands for all beyond those that are told apart.
type Network = Option<AddressPrefix>;

#[derive(Debug, Default)]
struct Window {
    /// Which window it is, since 1970.
    number: u64,
    /// How many may join in it, and how many have.
    budget: u64,
    joined: u64,
    /// The most that one network may join in it; none while there is enough for all.
    share: Option<u64>,
    networks: HashMap<Network, Demand>,
    /// How many the room had in all when the window began, by the board.
    room_joined: u64,
    /// The mean of what other nodes join in a window, times [`OTHERS_WINDOWS`].
    others: i64,
}

/// What a network wanted in a window, and got.
#[derive(Debug, Default, Clone, Copy)]
struct Demand {
    asked: u64,
    joined: u64,
}

impl JoinCeiling {
    /// Whether a client may join now. `room_joined` is how many have joined the room in all, by its board.
    pub fn try_join(
        &self,
        joins_per_second: u64,
        client: IpAddr,
        room_joined: u64,
        now: UnixMillis,
    ) -> Result<(), AdmissionError> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        window.advance(joins_per_second, room_joined, now);
        let joined = window.join(Some(network_of(client)));
        joined.map_err(|retry_after_seconds| AdmissionError::ManyArriving { retry_after_seconds })
    }
}

impl Window {
    /// Begins the window of this moment, unless it has begun.
    fn advance(&mut self, joins_per_second: u64, room_joined: u64, now: UnixMillis) {
        let number = now.0 / WINDOW_MILLIS;
        // A clock that went back a little stays in its window; one that was corrected begins another.
        if number <= self.number && self.number - number <= 1 {
            return;
        }
        let is_next = self.number != 0 && number == self.number + 1;
        let elsewhere = i64::try_from(room_joined.saturating_sub(self.room_joined)).unwrap_or(i64::MAX)
            - i64::try_from(self.joined).unwrap_or(i64::MAX);
        self.others = if is_next { self.others - self.others / OTHERS_WINDOWS + elsewhere } else { 0 };
        let others = u64::try_from(self.others / OTHERS_WINDOWS).unwrap_or(0);
        let least = (joins_per_second / OWN_PART).max(1);
        self.budget = joins_per_second.saturating_sub(others).max(least);
        self.share = if is_next {
            fair_share(self.networks.values().map(|demand| demand.asked), self.budget)
        } else {
            None
        };
        self.networks.clear();
        (self.number, self.joined, self.room_joined) = (number, 0, room_joined);
    }

    fn join(&mut self, network: Network) -> Result<(), u64> {
        let is_told_apart = self.networks.len() < NETWORKS_MAX || self.networks.contains_key(&network);
        let demand = self.networks.entry(network.filter(|_| is_told_apart)).or_default();
        demand.asked += 1;
        if self.joined < self.budget && self.share.is_none_or(|share| demand.joined < share) {
            demand.joined += 1;
            self.joined += 1;
            return Ok(());
        }
        // By how many windows' worth this network is ahead of what it gets.
        let gets = self.share.unwrap_or(self.budget).min(self.budget).max(1);
        Err((demand.asked / gets).clamp(1, RETRY_AFTER_MAX_SECONDS))
    }
}

/// The most that one network may have, so that all together have the budget and none has less than another that wanted no more. `None`
/// if there is enough for all.
fn fair_share(asked: impl Iterator<Item = u64>, budget: u64) -> Option<u64> {
    let mut asked: Vec<u64> = asked.collect();
    asked.sort_unstable();
    let (mut rest, mut left) = (budget, asked.len() as u64);
    for wanted in asked {
        let share = rest / left;
        if wanted > share {
            return Some(share.max(1));
        }
        rest -= wanted;
        left -= 1;
    }
    None
}

fn network_of(client: IpAddr) -> AddressPrefix {
    AddressPrefix::of(client, IPV4_NETWORK_BITS, IPV6_SITE_BITS)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn client(network: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + network * 256 + 7))
    }

    /// How many of so many requests a second of each network join, in the given second; `room` is what the board says.
    fn joined(ceiling: &JoinCeiling, second: u64, demands: &[(u32, u64)], room: &mut u64) -> Vec<u64> {
        let mut joined = vec![0; demands.len()];
        let most = demands.iter().map(|(_, asked)| *asked).max().unwrap_or_default();
        let at_the_beginning = *room;
        for turn in 0..most {
            for (index, (network, asked)) in demands.iter().enumerate() {
                if turn < *asked {
                    let now = UnixMillis(second * 1_000 + turn % 1_000);
                    joined[index] +=
                        u64::from(ceiling.try_join(100, client(*network), at_the_beginning, now).is_ok());
                }
            }
        }
        *room += joined.iter().sum::<u64>();
        joined
    }

    #[test]
    fn no_more_than_the_ceiling_join_in_a_second_and_the_rest_is_told_when_to_come_back() {
        let (ceiling, mut room) = (JoinCeiling::default(), 0);
        assert_eq!(joined(&ceiling, 1_000, &[(1, 80)], &mut room), [80], "there is no pressure");
        assert_eq!(joined(&ceiling, 1_001, &[(1, 250)], &mut room), [100]);
        let refused = ceiling.try_join(100, client(1), room, UnixMillis(1_001_999));
        assert!(
            matches!(refused, Err(AdmissionError::ManyArriving { retry_after_seconds: 2 })),
            "{refused:?}"
        );
        assert_eq!(joined(&ceiling, 1_002, &[(1, 100)], &mut room), [100]);
        assert_eq!(joined(&ceiling, 2_000, &[(1, 100)], &mut room), [100]);
    }

    #[test]
    fn under_pressure_a_network_gets_no_more_than_others_that_want_as_much() {
        let (ceiling, mut room) = (JoinCeiling::default(), 0);
        let demands = [(1, 10_000), (2, 30), (3, 30), (4, 5)];
        let first = joined(&ceiling, 1_000, &demands, &mut room);
        assert_eq!(first.iter().sum::<u64>(), 100);
        for second in 1_001..1_010 {
            assert_eq!(joined(&ceiling, second, &demands, &mut room), [35, 30, 30, 5], "in second {second}");
        }
        // The flood is over, and a network may have all again.
        joined(&ceiling, 1_010, &[(1, 10)], &mut room);
        assert_eq!(joined(&ceiling, 1_011, &[(1, 100)], &mut room), [100]);
    }

    #[test]
    fn nodes_share_the_ceiling_by_what_the_board_shows() {
        let (nodes, mut room) = ([JoinCeiling::default(), JoinCeiling::default()], 0_u64);
        let mut last = 0;
        for second in 1_000..1_040 {
            let seen = room;
            let mut all = 0;
            for node in &nodes {
                let mut mine = seen;
                all += joined(node, second, &[(1, 500), (2, 500)], &mut mine).iter().sum::<u64>();
            }
            room += all;
            last = all;
        }
        assert!((80..=120).contains(&last), "{last} in the last second");
    }

    #[test]
    fn a_flood_of_networks_takes_no_memory_and_everybody_beyond_shares_one_share() {
        let (ceiling, now) = (JoinCeiling::default(), UnixMillis(5_000_000));
        let allowed =
            (0..20_000).filter(|network| ceiling.try_join(1_000_000, client(*network), 0, now).is_ok());
        assert_eq!(allowed.count(), 20_000);
        assert!(ceiling.window.lock().unwrap().networks.len() <= NETWORKS_MAX + 1);
        assert_eq!(fair_share([5, 5, 5].into_iter(), 3), Some(1));
        assert_eq!(fair_share([5; 10].into_iter(), 3), Some(1), "never nothing");
        assert_eq!(fair_share([1, 2, 3].into_iter(), 6), None);
        assert_eq!(fair_share(std::iter::empty(), 6), None);
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing() {
        let ceiling = JoinCeiling::default();
        let ask = |now| ceiling.try_join(1, client(1), 0, UnixMillis(now)).is_ok();
        assert!(ask(10_000));
        assert!(!ask(10_500) && !ask(9_000) && !ask(10_999));
        assert!(ask(11_000));
        // One that was corrected by a minute does not stop the joins until that minute is over.
        assert!(ask(1_000) && !ask(1_500) && ask(2_000));
    }

    #[test]
    fn networks_are_a_24_and_a_48() {
        let network = |text: &str| network_of(text.parse().unwrap()).to_string();
        assert_eq!(network("203.0.113.7"), "203.0.113.0/24");
        assert_eq!(network("::ffff:203.0.113.9"), "203.0.113.0/24");
        assert_eq!(network("2001:db8:1:2:3::4"), "2001:db8:1::/48");
    }
}
