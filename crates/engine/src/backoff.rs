//! Pauses that differ from node to node, so that those who met once do not meet again and again.

use std::time::Duration;

use anteroom_store::contract::NodeId;

/// The longest pause after the first conflict.
const FIRST_PAUSE: Duration = Duration::from_micros(500);
/// The longest pause at all.
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// A source of pauses. They need not be secret, only different.
pub(super) struct Backoff(u64);

impl Backoff {
    pub(super) fn new(node: NodeId) -> Self {
        let bytes = node.0.to_le_bytes();
        Self(
            bytes
                .chunks(8)
                .fold(0, |mixed, half| mixed ^ u64::from_le_bytes(half.try_into().unwrap_or_default())),
        )
    }

    /// The next number of a well-known sequence in which neighbours look unrelated (splitmix64).
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// How long to wait after so many conflicts in a row: anything up to a bound that doubles with each.
    pub(super) fn pause_after_conflicts(&mut self, conflicts: u32) -> Duration {
        let bound = FIRST_PAUSE.saturating_mul(1 << conflicts.min(16)).min(LONGEST_PAUSE);
        let micros = u64::try_from(bound.as_micros()).unwrap_or(u64::MAX).max(1);
        Duration::from_micros(self.next() % micros)
    }

    /// A byte that another node is unlikely to choose too.
    pub(super) const fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_differ_between_nodes() {
        let mut one = Backoff::new(NodeId(1));
        let mut other = Backoff::new(NodeId(2));
        let pauses = |backoff: &mut Backoff| -> Vec<Duration> {
            (0..16).map(|conflicts| backoff.pause_after_conflicts(conflicts)).collect()
        };
        let (one, other) = (pauses(&mut one), pauses(&mut other));
        assert_ne!(one, other);
        assert!(one[0] < FIRST_PAUSE && one.iter().all(|pause| *pause < LONGEST_PAUSE));
        assert!(one.iter().max() > one.first());
    }
}
