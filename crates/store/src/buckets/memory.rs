//! Buckets in this process: exact for one node, gone when it ends.
//!
//! *Bounded.* Only so many buckets are kept. Full ones are forgotten when new clients come; one that is not full never is, for that
//! would give its client a burst. Where there is no place, new clients of a policy share an overflow bucket (one in each of the
//! parts that clients are divided among by chance), and each of these requests is counted. So a flood of addresses can crowd out those
//! who come after it, but neither buy memory nor a budget.
//!
//! *Invariant:* a client that gets a bucket of its own while the overflow bucket is not full begins with what is left in
//! that. So what it took out of the overflow bucket is not forgotten, and burst + rate x t holds across the change.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::binary_heap::{BinaryHeap, PeekMut};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anteroom_core::bucket::{Bucket, Limit, TakeResult, take};
use async_trait::async_trait;

use super::{BucketCharge, BucketKey, Buckets, BucketsError, PolicyName, Who};
use crate::clock::{Clock, Stopwatch, SystemClock};

/// How many buckets are kept by default; up to some 130 bytes each.
pub const ENTRIES_MAX_DEFAULT: usize = 1_000_000;
/// How many parts there are at most, so that those who ask at once rarely wait for each other.
const SHARDS_MAX: usize = 64;
/// How many buckets make a part worth having.
const SHARD_ENTRIES_MIN: usize = 4_096;
/// How many full buckets are forgotten for each new one, so that there is place before it is needed.
const FORGOTTEN_AT_ONCE: usize = 2;
/// A map so much larger than what is in it gives memory back.
const SPARE_MAX: usize = 8;
/// Shrinking a map of this size is not worth its cost.
const SHRUNK_MIN: usize = 1_024;

/// Buckets in this process.
pub struct MemoryBuckets {
    shards: Box<[Mutex<Shard>]>,
    shard_entries_max: usize,
    hasher: RandomState,
    overflowed: AtomicU64,
    started_at_micros: u64,
    since_start: Stopwatch,
}

/// The buckets of some of all clients.
#[derive(Default)]
struct Shard {
    policies: Vec<Policy>,
    entries: usize,
    /// For each bucket one item: not later than when it is full.
    due: BinaryHeap<Reverse<Due>>,
}

struct Policy {
    name: PolicyName,
    /// Of which kind of client: networks of different sizes have different limits.
    kind: u8,
    /// The limit of the last request. Buckets keep the one they were last used under, which mostly is this one.
    limit: Arc<Limit>,
    buckets: HashMap<Who, Entry>,
    /// What those share for whom there is no place.
    overflow: Option<Bucket>,
}

/// A bucket that shares its limit with others.
struct Entry {
    tokens: u64,
    last_refill_micros: u64,
    limit: Arc<Limit>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    full_at_micros: u64,
    policy: u32,
    who: Who,
}

impl MemoryBuckets {
    /// Keeps so many buckets at most; at least one.
    pub fn new(entries_max: usize) -> Self {
        let shards = (entries_max / SHARD_ENTRIES_MIN).clamp(1, SHARDS_MAX);
        Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            shard_entries_max: (entries_max / shards).max(1),
            hasher: RandomState::new(),
            overflowed: AtomicU64::new(0),
            started_at_micros: SystemClock.now().0.saturating_mul(1_000),
            since_start: Stopwatch::start(),
        }
    }

    /// How many buckets are kept at the moment, full ones that nobody has forgotten yet included.
    pub fn kept(&self) -> usize {
        self.shards.iter().map(|shard| locked(shard).entries).sum()
    }

    /// Microseconds since 1970, as the machine's clock had it at the start; it never goes back.
    fn now_micros(&self) -> u64 {
        let elapsed = u64::try_from(self.since_start.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.started_at_micros.saturating_add(elapsed)
    }

    /// Takes at a moment that the caller names, for tests and simulations.
    pub fn take_at(&self, key: &BucketKey, limit: &Limit, cost: u64, now_micros: u64) -> TakeResult {
        self.take_from(&mut locked(&self.shards[self.shard_of(key)]), key, limit, cost, now_micros)
    }

    /// The same for several buckets: out of all, or out of none.
    pub fn take_all_at(&self, charges: &[BucketCharge], now_micros: u64) -> Vec<TakeResult> {
        if let [BucketCharge { key, limit, cost }] = charges {
            return vec![self.take_at(key, limit, *cost, now_micros)];
        }
        // All are held until all are decided; in order of their numbers, so that nobody waits in a circle.
        let shard_indexes: Vec<usize> = charges.iter().map(|charge| self.shard_of(&charge.key)).collect();
        let mut order = shard_indexes.clone();
        order.sort_unstable();
        order.dedup();
        let mut shards: Vec<_> = order.iter().map(|index| locked(&self.shards[*index])).collect();
        let held_at = |index: &usize| order.binary_search(index).unwrap_or_default();
        let tested = charges
            .iter()
            .zip(&shard_indexes)
            .map(|(charge, index)| shards[held_at(index)].test(charge, now_micros));
        let tested: Vec<bool> = tested.collect();
        let is_allowed = tested.iter().all(|allowed| *allowed);
        let taken = charges.iter().zip(&shard_indexes).zip(tested).map(|((charge, index), allowed)| {
            let cost = if allowed && !is_allowed { 0 } else { charge.cost };
            self.take_from(&mut shards[held_at(index)], &charge.key, &charge.limit, cost, now_micros)
        });
        taken.collect()
    }

    /// The same at this moment.
    pub fn take_all_now(&self, charges: &[BucketCharge]) -> Vec<TakeResult> {
        self.take_all_at(charges, self.now_micros())
    }

    /// Puts back what was just taken for a request that is not let through after all.
    pub fn put_back(&self, charges: &[BucketCharge]) {
        for BucketCharge { key, limit, cost } in charges {
            let mut shard = locked(&self.shards[self.shard_of(key)]);
            let policy = shard.policy(key, limit);
            let Policy { buckets, overflow, .. } = &mut shard.policies[policy];
            if let Some(entry) = buckets.get_mut(&key.who) {
                entry.tokens = entry.tokens.saturating_add(*cost).min(entry.limit.burst());
            } else if let Some(bucket) = overflow {
                let tokens = bucket.tokens().saturating_add(*cost);
                *bucket = Bucket::new(tokens, bucket.last_refill_micros(), bucket.limit());
            }
        }
    }

    fn shard_of(&self, key: &BucketKey) -> usize {
        usize::try_from(self.hasher.hash_one(key.who) >> 32).unwrap_or_default() % self.shards.len()
    }

    fn take_from(
        &self,
        shard: &mut Shard,
        key: &BucketKey,
        limit: &Limit,
        cost: u64,
        now_micros: u64,
    ) -> TakeResult {
        let policy = shard.policy(key, limit);
        let Policy { limit: present, buckets, .. } = &mut shard.policies[policy];
        if let Some(entry) = buckets.get_mut(&key.who) {
            let (next, taken) = take(Some(entry.bucket()), *limit, now_micros, cost);
            entry.remember(next, present);
            return taken;
        }
        let has_place = shard.make_place(self.shard_entries_max, now_micros);
        let overflow = &mut shard.policies[policy].overflow;
        let (next, taken) = take(*overflow, *limit, now_micros, cost);
        if !has_place {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
            *overflow = Some(next);
        } else if taken.allowed && cost > 0 {
            shard.keep(policy, key.who, next);
        }
        taken
    }
}

impl Default for MemoryBuckets {
    fn default() -> Self {
        Self::new(ENTRIES_MAX_DEFAULT)
    }
}

impl Shard {
    /// Whether a bucket has enough. Nothing is changed.
    ///
    /// A client without a bucket of its own is tested against the overflow bucket, whether or not there is a place: that is what it would
    /// begin with. No two charges of one request share an overflow bucket, since they differ in policy or kind.
    fn test(&self, charge: &BucketCharge, now_micros: u64) -> bool {
        let BucketCharge { key, limit, cost } = charge;
        let bucket = self.find(key).and_then(|index| {
            let Policy { buckets, overflow, .. } = &self.policies[index];
            buckets.get(&key.who).map(Entry::bucket).or(*overflow)
        });
        take(bucket, *limit, now_micros, *cost).1.allowed
    }

    fn find(&self, key: &BucketKey) -> Option<usize> {
        let kind = key.who.kind();
        self.policies.iter().position(|policy| policy.kind == kind && policy.name.is(&key.policy))
    }

    /// Where the buckets of this policy, for clients of this kind, are.
    fn policy(&mut self, key: &BucketKey, limit: &Limit) -> usize {
        if let Some(index) = self.find(key) {
            if *self.policies[index].limit != *limit {
                self.policies[index].limit = Arc::new(*limit);
            }
            return index;
        }
        self.policies.push(Policy {
            name: key.policy.clone(),
            kind: key.who.kind(),
            limit: Arc::new(*limit),
            buckets: HashMap::new(),
            overflow: None,
        });
        self.policies.len() - 1
    }

    /// Whether there is place for another bucket, after forgetting full ones: a few in any case, and as many as it takes.
    fn make_place(&mut self, entries_max: usize, now_micros: u64) -> bool {
        let mut forgotten = 0;
        while forgotten < FORGOTTEN_AT_ONCE || self.entries >= entries_max {
            let Some(due) = self.due.peek_mut().filter(|due| due.0.full_at_micros <= now_micros) else {
                break;
            };
            let Reverse(due) = PeekMut::pop(due);
            forgotten += usize::from(self.forget_if_full(due, now_micros));
        }
        self.entries < entries_max
    }

    /// Forgets a bucket, unless something was taken out of it since it was said to be full at this time.
    fn forget_if_full(&mut self, due: Due, now_micros: u64) -> bool {
        let buckets = &mut self.policies[due.policy as usize].buckets;
        let Some(entry) = buckets.get(&due.who) else { return false };
        let full_at_micros = entry.bucket().full_at_micros();
        if full_at_micros > now_micros {
            self.due.push(Reverse(Due { full_at_micros, ..due }));
            return false;
        }
        buckets.remove(&due.who);
        self.entries -= 1;
        if buckets.capacity() > SHRUNK_MIN && buckets.len() < buckets.capacity() / SPARE_MAX {
            buckets.shrink_to(buckets.len() * 2);
            self.due.shrink_to(self.entries * 2);
        }
        true
    }

    fn keep(&mut self, policy: usize, who: Who, bucket: Bucket) {
        let number = u32::try_from(policy).unwrap_or(u32::MAX);
        self.due.push(Reverse(Due { full_at_micros: bucket.full_at_micros(), policy: number, who }));
        let Policy { limit, buckets, .. } = &mut self.policies[policy];
        let entry = Entry {
            tokens: bucket.tokens(),
            last_refill_micros: bucket.last_refill_micros(),
            limit: Arc::clone(limit),
        };
        buckets.insert(who, entry);
        self.entries += 1;
    }
}

impl Entry {
    fn bucket(&self) -> Bucket {
        Bucket::new(self.tokens, self.last_refill_micros, *self.limit)
    }

    /// Takes a bucket over, whose limit is the shared one.
    fn remember(&mut self, bucket: Bucket, limit: &Arc<Limit>) {
        self.tokens = bucket.tokens();
        self.last_refill_micros = bucket.last_refill_micros();
        if !Arc::ptr_eq(&self.limit, limit) {
            self.limit = Arc::clone(limit);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Buckets for MemoryBuckets {
    async fn take_all(&self, charges: &[BucketCharge]) -> Result<Vec<TakeResult>, BucketsError> {
        Ok(self.take_all_now(charges))
    }

    fn take_all_at_once(&self, charges: &[BucketCharge]) -> Option<Vec<TakeResult>> {
        Some(self.take_all_now(charges))
    }

    async fn probe(&self) -> Result<(), BucketsError> {
        Ok(())
    }

    fn overflowed(&self) -> u64 {
        self.overflowed.load(Ordering::Relaxed)
    }
}
