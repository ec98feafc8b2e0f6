//! Which clients are refused until when, remembered on this node: a client that goes on asking costs the shared store
//! nothing.
//!
//! *Invariant:* it never refuses what the store would allow. A bucket that has too little now has enough at a known moment, and
//! whatever others take meanwhile only makes that later. The moment is counted from before the store was asked. A store may
//! be emptied or get another limit, so nothing is remembered for longer than [`MEMORY_MAX_MICROS`], and nothing counts beyond the loss
//! of the store: it is not read meanwhile, and empty when the store is back ([`Refusals::clear`]).
//!
//! Bounded. When it is full, further refusals are not remembered and ask the store again, which is slower and just as right.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use anteroom_core::bucket::TakeResult;
use anteroom_store::buckets::Who;

/// Parts with a lock each.
const SHARDS: usize = 16;
/// How many refusals are remembered: those of an attack from as many addresses, in about 8 MB.
const REFUSALS_MAX: usize = 65_536;
/// After this time the store is asked again: ten seconds.
const MEMORY_MAX_MICROS: u64 = 10_000_000;

/// Which bucket: the policy's number, and whose.
type Key = (usize, Who);

#[derive(Debug, Clone, Copy)]
struct Refusal {
    /// When the same request would be allowed.
    until_micros: u64,
    /// When the store is asked again; not later than that.
    asked_again_micros: u64,
    remaining: u64,
}

#[derive(Debug, Default)]
struct Shard {
    refusals: HashMap<Key, Refusal>,
    /// Nothing in a full shard is over before this, so there is nothing to look for.
    full_until_micros: u64,
}

/// The memory. Times are microseconds by a clock that never goes back.
#[derive(Debug)]
pub(super) struct Refusals {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    shard_max: usize,
}

impl Refusals {
    pub(super) fn new() -> Self {
        Self::with_room_for(REFUSALS_MAX)
    }

    fn with_room_for(refusals: usize) -> Self {
        Self { shards: Default::default(), hasher: RandomState::new(), shard_max: refusals / SHARDS }
    }

    /// How a refused client stands, if it still is refused.
    pub(super) fn find(&self, policy: usize, who: Who, now_micros: u64) -> Option<TakeResult> {
        let key = (policy, who);
        let mut shard = self.shard(&key);
        let Refusal { until_micros, asked_again_micros, remaining } = *shard.refusals.get(&key)?;
        if asked_again_micros <= now_micros {
            shard.refusals.remove(&key);
            return None;
        }
        Some(TakeResult {
            allowed: false,
            remaining,
            retry_after_micros: Some(until_micros - now_micros),
            full_at_micros: until_micros,
            now_micros,
        })
    }

    /// Remembers a refusal. `asked_micros` is when the store was asked.
    pub(super) fn note(&self, policy: usize, who: Who, asked_micros: u64, taken: &TakeResult) {
        let Some(retry_after_micros) = taken.retry_after_micros.filter(|micros| *micros > 0) else { return };
        let refusal = Refusal {
            until_micros: asked_micros.saturating_add(retry_after_micros),
            asked_again_micros: asked_micros.saturating_add(retry_after_micros.min(MEMORY_MAX_MICROS)),
            remaining: taken.remaining,
        };
        let key = (policy, who);
        let mut shard = self.shard(&key);
        if shard.refusals.len() >= self.shard_max && !shard.refusals.contains_key(&key) {
            shard.make_room(asked_micros);
            if shard.refusals.len() >= self.shard_max {
                return;
            }
        }
        shard.refusals.insert(key, refusal);
    }

    /// Forgets everything: the store that said so was lost.
    pub(super) fn clear(&self) {
        for shard in &self.shards {
            *shard.lock().unwrap_or_else(PoisonError::into_inner) = Shard::default();
        }
    }

    /// No invariant spans two statements, so a panic elsewhere leaves nothing half done.
    fn shard(&self, key: &Key) -> std::sync::MutexGuard<'_, Shard> {
        let index = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or_default();
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    /// Forgets what is over. It reads every entry, so only when there is something to find.
    fn make_room(&mut self, now_micros: u64) {
        if now_micros < self.full_until_micros {
            return;
        }
        self.refusals.retain(|_, refusal| refusal.asked_again_micros > now_micros);
        let earliest = self.refusals.values().map(|refusal| refusal.asked_again_micros).min();
        self.full_until_micros = earliest.unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn who(number: u32) -> Who {
        Who::address(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    fn refused_for(micros: u64) -> TakeResult {
        let retry_after_micros = Some(micros);
        TakeResult { allowed: false, remaining: 3, retry_after_micros, full_at_micros: 0, now_micros: 0 }
    }

    #[test]
    fn a_refusal_holds_until_its_moment_and_for_no_other_client() {
        let refusals = Refusals::new();
        refusals.note(1, who(7), 100, &refused_for(50));
        let found = refusals.find(1, who(7), 149).unwrap();
        assert_eq!((found.allowed, found.remaining, found.retry_after_micros), (false, 3, Some(1)));
        assert_eq!(refusals.find(2, who(7), 149), None, "another budget");
        assert_eq!(refusals.find(1, who(8), 149), None, "another client");
        assert_eq!(refusals.find(1, who(7), 150), None, "over");
        assert_eq!(refusals.find(1, who(7), 149), None, "and forgotten");
        refusals.note(1, who(7), 100, &TakeResult { retry_after_micros: None, ..refused_for(1) });
        refusals.note(1, who(7), 100, &TakeResult { allowed: true, ..refused_for(0) });
        assert_eq!(refusals.find(1, who(7), 100), None, "nothing to wait for");
    }

    #[test]
    fn a_long_refusal_is_asked_about_again_and_all_end_with_the_store() {
        let refusals = Refusals::new();
        refusals.note(1, who(7), 100, &refused_for(3_600_000_000));
        let found = refusals.find(1, who(7), 99 + MEMORY_MAX_MICROS).unwrap();
        assert_eq!(found.retry_after_micros, Some(3_590_000_001));
        assert_eq!(refusals.find(1, who(7), 100 + MEMORY_MAX_MICROS), None);
        refusals.note(1, who(7), 100, &refused_for(3_600_000_000));
        refusals.clear();
        assert_eq!(refusals.find(1, who(7), 101), None);
    }

    #[test]
    fn a_flood_of_refused_clients_takes_no_more_than_the_room_there_is() {
        let refusals = Refusals::with_room_for(SHARDS * 8);
        let count =
            || refusals.shards.iter().map(|shard| shard.lock().unwrap().refusals.len()).sum::<usize>();
        for number in 0..10_000 {
            refusals.note(0, who(number), 0, &refused_for(1_000));
        }
        assert_eq!(count(), SHARDS * 8);
        // A remembered refusal may be updated, without room for another.
        let remembered = (0..10_000).find(|number| refusals.find(0, who(*number), 1).is_some()).unwrap();
        refusals.note(0, who(remembered), 500, &refused_for(1_000));
        assert!(refusals.find(0, who(remembered), 1_400).is_some());
        // When the first ones are over, there is room again.
        for number in 20_000..30_000 {
            refusals.note(0, who(number), 1_000, &refused_for(1_000));
        }
        assert_eq!(count(), SHARDS * 8);
        assert!((20_000..30_000).any(|number| refusals.find(0, who(number), 1_001).is_some()));
    }
}
