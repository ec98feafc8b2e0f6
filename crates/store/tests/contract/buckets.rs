//! Buckets in memory: bounded, and never more than the limit all the same.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anteroom_core::bucket::{Bucket, Limit, Take, take, take_all};
use anteroom_store::buckets::{BucketCharge, BucketKey, Buckets, MemoryBuckets, PolicyName, Who};
use anteroom_testkit::Prng;

const SECOND: u64 = 1_000_000;
const NOW: u64 = 1_800_000_000 * SECOND;

fn policy(name: &str) -> PolicyName {
    PolicyName::parse(name).unwrap()
}

fn key(policy: &PolicyName, number: u32) -> BucketKey {
    BucketKey { policy: policy.clone(), who: Who::address(IpAddr::V4(Ipv4Addr::from_bits(number))) }
}

fn limit(rate: u64, period_seconds: u64, burst: u64) -> Limit {
    Limit::new(rate, period_seconds, burst).unwrap()
}

#[test]
fn a_kept_bucket_answers_as_the_rule_does() {
    let buckets = MemoryBuckets::new(10);
    let (policy, limits) = (policy("join"), [limit(3, 1, 5), limit(7, 2, 9)]);
    let mut prng = Prng::from_seed(1);
    let (mut now, mut bucket) = (NOW, None);
    for _ in 0..5_000 {
        now += prng.next_u64() % SECOND;
        let (limit, cost) = (limits[usize::from(prng.one_in(40))], prng.next_u64() % 4);
        let (next, said) = take(bucket, limit, now, cost);
        bucket = Some(next);
        assert_eq!(buckets.take_at(&key(&policy, 1), &limit, cost, now), said);
    }
    assert_eq!((buckets.kept(), buckets.overflowed()), (1, 0));
}

#[test]
fn several_buckets_are_taken_from_together_or_not_at_all_as_the_rule_says() {
    let buckets = MemoryBuckets::default();
    let policy = policy("join");
    let mut prng = Prng::from_seed(3);
    let (mut now, mut refused) = (NOW, 0);
    let mut kept: Vec<(Limit, Option<Bucket>)> =
        (0..6).map(|number| (limit(1 + number, 1, 2 + number), None)).collect();
    for _ in 0..5_000 {
        now += prng.next_u64() % (SECOND / 3);
        let chosen: Vec<usize> = (0..6).filter(|_| prng.one_in(2)).collect();
        let charges: Vec<BucketCharge> = chosen
            .iter()
            .map(|index| BucketCharge {
                key: key(&policy, u32::try_from(*index).unwrap()),
                limit: kept[*index].0,
                cost: prng.next_u64() % 4,
            })
            .collect();
        let takes: Vec<Take> = chosen
            .iter()
            .zip(&charges)
            .map(|(index, charge)| Take { bucket: kept[*index].1, limit: charge.limit, cost: charge.cost })
            .collect();
        let expected = take_all(&takes, now);
        let said = buckets.take_all_at(&charges, now);
        assert_eq!(said, expected.iter().map(|(_, result)| *result).collect::<Vec<_>>());
        for (index, (next, _)) in chosen.iter().zip(expected) {
            kept[*index].1 = Some(next);
        }
        refused += usize::from(said.iter().any(|result| !result.allowed));
    }
    assert!((500..4_500).contains(&refused), "{refused}");
}

#[test]
fn what_is_put_back_was_not_taken() {
    let (buckets, policy) = (MemoryBuckets::default(), policy("join"));
    let charges =
        [1, 2].map(|number| BucketCharge { key: key(&policy, number), limit: limit(1, 3_600, 3), cost: 2 });
    for _ in 0..5 {
        assert!(buckets.take_all_now(&charges).iter().all(|taken| taken.allowed && taken.remaining == 1));
        buckets.put_back(&charges);
    }
}

#[test]
fn threads_that_take_from_several_buckets_neither_wait_in_a_circle_nor_take_too_much() {
    let buckets = MemoryBuckets::default();
    let (policy, limit) = (policy("join"), limit(1, 2_592_000, 500));
    let charge = |number| BucketCharge { key: key(&policy, number), limit, cost: 1 };
    let allowed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for turn in 0..4usize {
            let (buckets, allowed, charge) = (&buckets, &allowed, &charge);
            scope.spawn(move || {
                let mut charges: Vec<BucketCharge> = (0..8).map(charge).collect();
                charges.rotate_left(turn * 2);
                for _ in 0..1_000 {
                    let taken = buckets.take_all_now(&charges);
                    allowed.fetch_add(u64::from(taken.iter().all(|taken| taken.allowed)), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(allowed.load(Ordering::Relaxed), 500);
}

#[test]
fn clients_and_policies_do_not_share_a_bucket() {
    let buckets = MemoryBuckets::default();
    let limit = limit(1, 3_600, 2);
    let (join, claim) = (policy("join"), policy("claim"));
    for key in [key(&join, 1), key(&join, 2), key(&claim, 1)] {
        let allowed = (0..3).map(|_| buckets.take_at_once(&key, &limit, 1).unwrap().allowed);
        assert_eq!(allowed.collect::<Vec<_>>(), [true, true, false], "{key}");
    }
}

#[test]
fn full_buckets_make_place_and_others_never_do() {
    let (buckets, policy, limit) = (MemoryBuckets::new(100), policy("join"), limit(1, 10, 2));
    for number in 0..100 {
        assert_eq!(buckets.take_at(&key(&policy, number), &limit, 1, NOW).remaining, 1);
    }
    assert_eq!((buckets.kept(), buckets.overflowed()), (100, 0));
    // Nothing is full yet: the next ones share two tokens.
    let before = NOW + 10 * SECOND - 1;
    let shared = (100..105).map(|number| buckets.take_at(&key(&policy, number), &limit, 1, before).allowed);
    assert_eq!(shared.collect::<Vec<_>>(), [true, true, false, false, false]);
    assert_eq!((buckets.kept(), buckets.overflowed()), (100, 5));
    // Those who were there before are none the worse for it.
    assert!(buckets.take_at(&key(&policy, 7), &limit, 1, before).allowed);
    // Now all but one are full.
    let after = before + 1;
    let used = buckets.take_at(&key(&policy, 200), &limit, 1, after);
    assert!(!used.allowed, "what was taken out of the shared bucket may have been this client's");
    let later = before + 20 * SECOND;
    for number in 300..399 {
        assert_eq!(buckets.take_at(&key(&policy, number), &limit, 1, later).remaining, 1);
    }
    assert_eq!((buckets.kept(), buckets.overflowed()), (99, 5));
}

#[test]
fn what_changes_nothing_needs_no_place() {
    let (buckets, policy, limit) = (MemoryBuckets::new(100), policy("join"), limit(1, 10, 2));
    for number in 0..50 {
        assert!(buckets.take_at(&key(&policy, number), &limit, 0, NOW).allowed);
        assert_eq!(buckets.take_at(&key(&policy, number), &limit, 3, NOW).retry_after_micros, None);
    }
    assert_eq!(buckets.kept(), 0);
}

/// Few places, many clients, several policies and limits: no client ever gets more than its limit in any interval.
#[test]
fn no_client_gets_more_than_its_limit_however_few_places_there_are() {
    for seed in 0..200 {
        let mut prng = Prng::from_seed(seed);
        let buckets = MemoryBuckets::new(1 + prng.below(6));
        let policies = ["one", "two"].map(policy);
        let limits = [
            limit(1 + prng.next_u64() % 5, 1 + prng.next_u64() % 3, 1 + prng.next_u64() % 6),
            limit(1, 2, 3),
        ];
        let mut now = NOW;
        let mut allowed: HashMap<(usize, u32), Vec<(u64, u64)>> = HashMap::new();
        for _ in 0..400 {
            now += prng.next_u64() % (SECOND / 2);
            let index = prng.below(2);
            let client = u32::try_from(prng.below(12)).unwrap();
            let cost = prng.next_u64() % 3;
            let taken = buckets.take_at(&key(&policies[index], client), &limits[index], cost, now);
            if taken.allowed {
                allowed.entry((index, client)).or_default().push((now, cost));
            }
        }
        assert!(buckets.overflowed() > 0 || buckets.kept() > 0);
        for ((index, client), taken) in allowed {
            let limit = limits[index];
            for first in 0..taken.len() {
                let mut sum = 0;
                for (moment, cost) in &taken[first..] {
                    sum += cost;
                    let brought = (moment - taken[first].0) * limit.tokens() / limit.micros();
                    assert!(sum <= limit.burst() + brought, "seed {seed}, client {client}: {taken:?}");
                }
            }
        }
    }
}

#[test]
fn a_flood_of_addresses_buys_no_memory() {
    const PLACES: usize = 20_000;
    let (buckets, policy, limit) = (MemoryBuckets::new(PLACES), policy("join"), limit(1, 60, 10));
    let regular = key(&policy, u32::MAX);
    buckets.take_at(&regular, &limit, 4, NOW);
    for number in 0..200_000u32 {
        buckets.take_at(&key(&policy, number), &limit, 1, NOW + u64::from(number));
    }
    assert!(buckets.kept() <= PLACES, "{}", buckets.kept());
    assert!((180_000..190_000).contains(&buckets.overflowed()), "{}", buckets.overflowed());
    assert_eq!(buckets.take_at(&regular, &limit, 1, NOW + SECOND).remaining, 5, "it was not forgotten");
    // A minute later everybody's bucket is full: two of them go for each that comes.
    let later = NOW + 600 * SECOND;
    for number in 0..15_000u32 {
        buckets.take_at(&key(&policy, 1_000_000 + number), &limit, 1, later);
    }
    assert!(buckets.kept() < 17_000, "{}", buckets.kept());
}

#[test]
fn threads_share_one_budget_exactly() {
    let buckets = Arc::new(MemoryBuckets::default());
    let (policy, limit) = (policy("join"), limit(1, 31_536_000, 90));
    let allowed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    let taken = buckets.take_at_once(&key(&policy, 1), &limit, 1).unwrap();
                    allowed.fetch_add(u64::from(taken.allowed), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(allowed.load(Ordering::Relaxed), 90);
}

#[test]
fn a_changed_limit_goes_on_with_what_was_left() {
    let (buckets, policy) = (MemoryBuckets::new(10), policy("join"));
    let (small, large) = (limit(1, 1, 10), limit(1, 1, 1_000));
    buckets.take_at(&key(&policy, 1), &small, 10, NOW);
    let taken = buckets.take_at(&key(&policy, 1), &large, 1, NOW + 3 * SECOND);
    assert_eq!((taken.allowed, taken.remaining), (true, 2));
    // Another node still goes by the old limit, as while a configuration is being changed.
    assert_eq!(buckets.take_at(&key(&policy, 2), &small, 1, NOW).remaining, 9);
    assert_eq!(buckets.take_at(&key(&policy, 1), &large, 1, NOW + 3 * SECOND).remaining, 1);
}

#[tokio::test]
async fn the_clock_of_memory_goes_forward() {
    let (buckets, policy, limit) = (MemoryBuckets::new(10), policy("join"), limit(1_000, 1, 5));
    let buckets: Arc<dyn Buckets> = Arc::new(buckets);
    buckets.probe().await.unwrap();
    let first = buckets.take(&key(&policy, 1), &limit, 1).await.unwrap();
    assert!(first.full_at_micros == first.now_micros + 1_000 && first.now_micros > NOW / 2);
    let second = buckets.take_at_once(&key(&policy, 1), &limit, 1).unwrap();
    assert!(second.now_micros >= first.now_micros);
}
