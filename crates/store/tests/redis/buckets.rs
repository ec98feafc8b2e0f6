//! Buckets in Redis: the script against the rule, bit for bit, and budgets that nodes share.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anteroom_core::bucket::{Bucket, FILL_MAX_MICROS, Limit, MOMENT_MAX_MICROS, Take, take, take_all};
use anteroom_store::buckets::{
    BucketCharge, BucketKey, Buckets, BucketsError, PolicyName, RedisBuckets, Who,
};
use anteroom_store::redis::{RedisOptions, RedisUrl};
use anteroom_store::{Clock, SystemClock};
use anteroom_testkit::redis::{RedisCluster, RedisProcess, Sentinels};
use anteroom_testkit::{ChaosProxy, Direction, Fault, Mode, Prng, now, require_redis};

use crate::support::{TIMEOUT, wait_until};

const SECOND: u64 = 1_000_000;

fn key(policy: &str, number: u32) -> BucketKey {
    let who = Who::address(IpAddr::V4(Ipv4Addr::from_bits(number)));
    BucketKey { policy: PolicyName::parse(policy).unwrap(), who }
}

fn limit(rate: u64, period_seconds: u64, burst: u64) -> Limit {
    Limit::new(rate, period_seconds, burst).unwrap()
}

async fn open(url: &str) -> RedisBuckets {
    let buckets = RedisBuckets::new(&RedisOptions::new(RedisUrl::parse(url).unwrap()));
    buckets.probe().await.unwrap();
    buckets
}

/// Some limit out of all that are accepted, of every size.
fn any_limit(prng: &mut Prng) -> Limit {
    let periods = [1, 1, 7, 60, 3_600, 86_400, 31_536_000];
    loop {
        let rate = 1 + prng.next_u64() % [3, 100, 1_200, 1_000_000][prng.below(4)];
        let period = periods[prng.below(periods.len())];
        let burst = 1 + prng.next_u64() % [5, 100, 10_000, FILL_MAX_MICROS][prng.below(4)];
        if let Ok(limit) = Limit::new(rate, period, burst) {
            return limit;
        }
    }
}

/// Where the clock goes from here: mostly a little further, at times far, at times back.
fn moved(prng: &mut Prng, now: u64, limit: Limit) -> u64 {
    let share = |prng: &mut Prng, of: u64| {
        let share = u128::from(of) * u128::from(prng.next_u64() % 2_500) / 1_000;
        u64::try_from(share).unwrap()
    };
    match prng.below(8) {
        0 | 1 => now,
        2 => now + prng.next_u64() % 4,
        3..=5 => now + share(prng, limit.micros_for(1)),
        6 => now + share(prng, limit.micros_for(limit.burst())),
        _ => now - (share(prng, limit.micros_for(1)) % SECOND),
    }
}

/// What is stored, as the rule would have it.
fn stored(redis: &RedisProcess, key: &BucketKey, limit: Limit) -> Option<Bucket> {
    let fields = redis.command(&["HMGET", &key.to_string(), "tokens", "last_refill", "limit"]);
    let number = |index: usize| fields.array()[index].text().parse().unwrap();
    if redis.command(&["EXISTS", &key.to_string()]).integer() == 0 {
        return None;
    }
    assert_eq!(fields.array()[2].text(), limit.to_string());
    Some(Bucket::new(number(0), number(1), limit))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_script_computes_as_the_rule_does_bit_for_bit() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let buckets = open(&redis.url()).await;
    let (mut allowed, mut refused) = (0, 0);
    for seed in 0..150 {
        let mut prng = Prng::from_seed(seed);
        let key = key("play", u32::try_from(seed).unwrap());
        let mut limit = any_limit(&mut prng);
        // So far ahead of the server's clock that nothing goes while the test looks at it.
        let start = SystemClock.now().0 * 1_000 + 86_400 * SECOND;
        let (mut now, mut bucket) = (start, None);
        for step in 0..60 {
            // Some change the limit: to one of another size, or to one much like it.
            limit = match prng.below(30) {
                0 => any_limit(&mut prng),
                1 => Limit::new(limit.tokens(), 1, 1 + limit.burst() / 2).unwrap_or(limit),
                2 => Limit::new(1, 1, limit.burst().min(1_000) + 3).unwrap_or(limit),
                _ => limit,
            };
            now = moved(&mut prng, now, limit).max(start);
            if prng.one_in(200) {
                now = MOMENT_MAX_MICROS - SECOND;
            }
            let cost = match prng.below(8) {
                0 => 0,
                1 => prng.next_u64() % (limit.burst() + 3),
                2 => limit.burst(),
                3 => limit.burst() / 2,
                _ => 1 + prng.next_u64() % 3,
            };
            let (next, expected) = take(bucket, limit, now, cost);
            let said = buckets.take_at(&key, &limit, cost, now).await.unwrap();
            assert_eq!(said, expected, "seed {seed}, step {step}: {bucket:?}, {limit:?}, {now}, {cost}");
            // A full bucket is the same as none, and Redis keeps none.
            bucket = Some(next).filter(|bucket| bucket.tokens() < limit.burst());
            assert_eq!(stored(&redis, &key, limit), bucket, "seed {seed}, step {step}");
            *(if said.allowed { &mut allowed } else { &mut refused }) += 1;
        }
    }
    assert!(allowed > 1_000 && refused > 1_000, "{allowed} allowed, {refused} refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_buckets_the_script_takes_from_all_or_none_as_the_rule_does() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let buckets = open(&redis.url()).await;
    let (mut allowed, mut refused) = (0, 0);
    for seed in 0..60 {
        let mut prng = Prng::from_seed(seed);
        let start = SystemClock.now().0 * 1_000 + 86_400 * SECOND;
        let mut now = start;
        let mut kept: Vec<(BucketKey, Limit, Option<Bucket>)> = (0..5)
            .map(|number| (key("all", u32::try_from(seed).unwrap() * 8 + number), any_limit(&mut prng), None))
            .collect();
        for step in 0..40 {
            now = moved(&mut prng, now, kept[0].1).max(start);
            let mut chosen: Vec<usize> = (0..5).filter(|_| prng.one_in(2)).collect();
            if chosen.is_empty() {
                chosen.push(0);
            }
            if prng.one_in(20) {
                kept[chosen[0]].1 = any_limit(&mut prng);
            }
            let charges: Vec<BucketCharge> = chosen
                .iter()
                .map(|index| {
                    let (key, limit, _) = &kept[*index];
                    let cost = prng.next_u64() % [2, 3, limit.burst() + 2][prng.below(3)];
                    BucketCharge { key: key.clone(), limit: *limit, cost }
                })
                .collect();
            let takes: Vec<Take> = chosen
                .iter()
                .zip(&charges)
                .map(|(index, charge)| Take {
                    bucket: kept[*index].2,
                    limit: charge.limit,
                    cost: charge.cost,
                })
                .collect();
            let expected = take_all(&takes, now);
            let said = buckets.take_all_at(&charges, now).await.unwrap();
            let results: Vec<_> = expected.iter().map(|(_, result)| *result).collect();
            assert_eq!(said, results, "seed {seed}, step {step}");
            for (index, (next, _)) in chosen.iter().zip(expected) {
                let (key, limit, bucket) = &mut kept[*index];
                *bucket = Some(next).filter(|bucket| bucket.tokens() < limit.burst());
                assert_eq!(stored(&redis, key, *limit), *bucket, "seed {seed}, step {step}, {key}");
            }
            *(if said.iter().all(|result| result.allowed) { &mut allowed } else { &mut refused }) += 1;
        }
    }
    assert!(allowed > 300 && refused > 300, "{allowed} allowed, {refused} refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_a_cluster_what_some_slots_gave_is_put_back_when_another_refuses() {
    if !require_redis() {
        return;
    }
    let cluster = RedisCluster::start();
    let buckets = open(&cluster.url()).await;
    let charge = |number: u32, burst: u64| BucketCharge {
        key: key("slots", number),
        limit: limit(1, 31_536_000, burst),
        cost: 2,
    };
    let charges: Vec<BucketCharge> =
        (0..12).map(|number| charge(number, 10)).chain([charge(12, 5)]).collect();
    let remaining = async || {
        let results = buckets.take_all(&charges).await.unwrap();
        let allowed = results.iter().all(|result| result.allowed);
        (allowed, results[0].remaining, results[11].remaining, results[12].remaining)
    };
    assert_eq!(remaining().await, (true, 8, 8, 3));
    assert_eq!(remaining().await, (true, 6, 6, 1));
    for _ in 0..5 {
        assert_eq!(remaining().await, (false, 6, 6, 1), "nothing is taken where one refuses");
    }
    for charge in &charges[..12] {
        assert_eq!(buckets.take(&charge.key, &charge.limit, 0).await.unwrap().remaining, 6, "{}", charge.key);
    }
    // A bucket that was full before is full after it, and so is not kept.
    let fresh = [charge(13, 10), charge(12, 5)];
    assert!(!buckets.take_all(&fresh).await.unwrap()[1].allowed);
    let name = fresh[0].key.to_string();
    assert_eq!(cluster.primary_of(&name).command(&["EXISTS", &name]).integer(), 0);
}

/// Numbers next to each limit that [`Limit::new`] has: where doubles would go wrong first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_script_is_exact_at_the_edges() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let buckets = open(&redis.url()).await;
    let largest = |period: u64| {
        let rates = (1..2_000_000u64).rev();
        rates.filter_map(|rate| Limit::new(rate, period, 10).ok()).max_by_key(Limit::tokens).unwrap()
    };
    let limits = [
        limit(1, 31_536_000, 100),
        limit(1_000_000, 1, FILL_MAX_MICROS),
        limit(999_999, 1, 999_999),
        limit(1, 366 * 86_400, 1),
        largest(9_007),
        largest(8_926_859),
        largest(366 * 86_400),
    ];
    let start = SystemClock.now().0 * 1_000 + 86_400 * SECOND;
    let mut prng = Prng::from_seed(7);
    for (number, limit) in (0u32..).zip(limits) {
        let key = key("edge", number);
        let fill = limit.micros_for(limit.burst());
        for elapsed in [
            0,
            1,
            limit.micros_for(1) - 1,
            limit.micros_for(1),
            fill / 2,
            fill - 1,
            fill,
            prng.next_u64() % fill,
        ] {
            redis.command(&["DEL", &key.to_string()]).no_error();
            let (mut bucket, mut now) = (None, start);
            for cost in [limit.burst(), 1, limit.burst(), limit.burst() + 1, u64::MAX] {
                let (next, expected) = take(bucket, limit, now, cost);
                let said = buckets.take_at(&key, &limit, cost, now).await.unwrap();
                assert_eq!(said, expected, "{limit:?} after {elapsed}, cost {cost}");
                bucket = Some(next);
                now = now.max(start + elapsed);
            }
        }
    }
    let end = limit(1, 1, 2);
    for now in [MOMENT_MAX_MICROS - 1, MOMENT_MAX_MICROS, MOMENT_MAX_MICROS + 5, u64::MAX] {
        let expected = take(None, end, now, 1).1;
        redis.command(&["DEL", &key("end", 1).to_string()]).no_error();
        assert_eq!(buckets.take_at(&key("end", 1), &end, 1, now).await.unwrap(), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_share_a_budget_exactly() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let nodes = [Arc::new(open(&redis.url()).await), Arc::new(open(&redis.url()).await)];
    let limit = limit(1, 31_536_000, 100);
    let allowed = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..40 {
        let (node, allowed) = (nodes[number % 2].clone(), allowed.clone());
        tasks.spawn(async move {
            for _ in 0..25 {
                let taken = node.take(&key("join", 1), &limit, 1).await.unwrap();
                allowed.fetch_add(u64::from(taken.allowed), Ordering::Relaxed);
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(allowed.load(Ordering::Relaxed), 100);
    assert!(nodes.iter().all(|node| node.calls() >= 500), "each of them asked");
    assert!(nodes[0].take_at_once(&key("join", 1), &limit, 1).is_none(), "only Redis knows");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_goes_when_it_is_full_and_refusals_write_nothing() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let buckets = open(&redis.url()).await;
    let (key, limit) = (key("join", 1), limit(10, 1, 5));
    let before = SystemClock.now().0 * 1_000;
    let taken = buckets.take(&key, &limit, 3).await.unwrap();
    let after = SystemClock.now().0 * 1_000 + 999;
    assert!((before..=after).contains(&taken.now_micros), "it goes by the server's clock: {taken:?}");
    assert_eq!((taken.remaining, taken.full_at_micros), (2, taken.now_micros + 300_000));
    let goes_at = redis.command(&["PEXPIRETIME", &key.to_string()]).integer();
    assert_eq!(u64::try_from(goes_at).unwrap(), taken.full_at_micros.div_ceil(1_000));
    wait_until("it is gone", || async { redis.command(&["EXISTS", &key.to_string()]).integer() == 0 }).await;
    // Neither what is refused nor a look leaves anything, and an empty bucket is not written again.
    assert!(!buckets.take(&key, &limit, 6).await.unwrap().allowed);
    assert!(buckets.take(&key, &limit, 0).await.unwrap().allowed);
    assert_eq!(redis.command(&["EXISTS", &key.to_string()]).integer(), 0);
    let slow = Limit::new(1, 3_600, 5).unwrap();
    buckets.take(&key, &slow, 5).await.unwrap();
    let changes = || redis.information("persistence")["rdb_changes_since_last_save"].clone();
    let so_far = changes();
    for _ in 0..20 {
        assert!(!buckets.take(&key, &slow, 1).await.unwrap().allowed);
    }
    assert_eq!(changes(), so_far);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_key_counts_as_a_full_bucket_and_is_no_error() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let buckets = open(&redis.url()).await;
    let (key, limit) = (key("join", 1), limit(1, 3_600, 5));
    let name = key.to_string();
    let now = (SystemClock.now().0 * 1_000).to_string();
    let fine = limit.to_string();
    let hash = |tokens: &str, last: &str, limit: &str| {
        ["HSET", &name, "tokens", tokens, "last_refill", last, "limit", limit].map(str::to_owned).to_vec()
    };
    let plain = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let damages = [
        plain(&["SET", &name, "0"]),
        plain(&["RPUSH", &name, "0"]),
        plain(&["ZADD", &name, "0", "tokens"]),
        plain(&["HSET", &name, "tokens", "0"]),
        plain(&["HSET", &name, "last_refill", &now, "limit", &fine]),
        plain(&["HSET", &name, "something", "else"]),
        hash("", &now, &fine),
        hash("-1", &now, &fine),
        hash("1.5", &now, &fine),
        hash("0x0", &now, &fine),
        hash("nan", &now, &fine),
        hash("6", &now, &fine),
        hash("0", "", &fine),
        hash("0", "inf", &fine),
        hash("0", "99999999999999999999", &fine),
        hash("0", "9007199254740993", &fine),
        hash("0", &now, ""),
        hash("0", &now, "1/2"),
        hash("0", &now, "0/1/1"),
        hash("0", &now, "1/0/1"),
        hash("0", &now, "1/1/0"),
        hash("0", &now, "2/1/5"),
        hash("0", &now, "9007199254740991/9007199254740992/5"),
        hash("0", &now, "1/9007199254740992/5"),
        hash("0", &now, "a/b/c"),
    ];
    for damage in damages {
        for cost in [1, 0, 6] {
            redis.command(&["DEL", &name]).no_error();
            redis.command(&damage.iter().map(String::as_str).collect::<Vec<_>>()).no_error();
            let taken = buckets.take(&key, &limit, cost).await.unwrap();
            assert_eq!((taken.allowed, taken.remaining), (cost < 6, 5 - cost % 6), "{damage:?}");
        }
        let taken = buckets.take(&key, &limit, 2).await.unwrap();
        assert_eq!(taken.remaining, 3, "{damage:?}");
        assert!(redis.command(&["PTTL", &name]).integer() > 0, "{damage:?}");
    }
    // A field written by a third party does no harm.
    redis.command(&["HSET", &name, "note", "x"]).no_error();
    assert_eq!(buckets.take(&key, &limit, 1).await.unwrap().remaining, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_has_forgotten_the_script_is_told_it_again() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let buckets = open(&redis.url()).await;
    let limit = limit(1, 3_600, 10);
    for left in (0..10).rev() {
        redis.command(&["SCRIPT", "FLUSH"]).no_error();
        assert_eq!(buckets.take(&key("join", 1), &limit, 1).await.unwrap().remaining, left, "taken once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn buckets_are_spread_over_a_cluster_and_found_wherever_they_are() {
    if !require_redis() {
        return;
    }
    let cluster = RedisCluster::start();
    let nodes = [open(&cluster.url()).await, open(&cluster.url()).await];
    let limit = limit(1, 31_536_000, 3);
    for number in 0..60 {
        let key = key("join", number);
        for expected in [true, true, true, false] {
            let node = &nodes[usize::from(expected)];
            assert_eq!(node.take(&key, &limit, 1).await.unwrap().allowed, expected, "{key}");
        }
        let holder = cluster.primary_of(&key.to_string());
        assert_eq!(holder.command(&["EXISTS", &key.to_string()]).integer(), 1, "{key}");
    }
    let holds = |server: &&RedisProcess| server.is_primary() && server.command(&["DBSIZE"]).integer() > 5;
    assert!(cluster.nodes().iter().filter(holds).count() >= 3);
    // A primary that is lost: what it had is answered by its replica, once that has taken over.
    let key = key("join", 7);
    cluster.kill_primary_of(&key.to_string());
    wait_until("the replica answers", || async {
        let _ = nodes[0].probe().await;
        nodes[0].take(&key, &limit, 0).await.is_ok()
    })
    .await;
    nodes[0].probe().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_primary_that_sentinels_name_is_followed() {
    if !require_redis() {
        return;
    }
    let sentinels = Sentinels::start();
    let buckets = open(&sentinels.url()).await;
    let limit = limit(1, 31_536_000, 3);
    assert_eq!(buckets.take(&key("join", 1), &limit, 1).await.unwrap().remaining, 2);
    sentinels.replica().wait_until_in_sync(sentinels.primary());
    sentinels.fail_over();
    wait_until("the new primary is asked", || async {
        buckets.probe().await.is_ok() && buckets.take(&key("join", 1), &limit, 1).await.is_ok()
    })
    .await;
    let holder = sentinels.primary();
    assert_eq!(holder.command(&["EXISTS", &key("join", 1).to_string()]).integer(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_is_away_is_an_error_at_once_and_back_after_a_probe() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let limit = limit(1, 1, 1_000_000);
    redis.kill();
    // One that begins while nobody is there.
    let buckets = RedisBuckets::new(&RedisOptions::new(RedisUrl::parse(&redis.url()).unwrap()));
    let early = buckets.take(&key("join", 1), &limit, 1).await;
    assert!(matches!(early, Err(BucketsError::Unavailable(_))), "{early:?}");
    let probed = buckets.probe().await;
    assert!(matches!(probed, Err(BucketsError::Unavailable(_))), "{probed:?}");
    redis.start_again();
    wait_until("it is there", || async { buckets.probe().await.is_ok() }).await;
    assert!(buckets.take(&key("join", 1), &limit, 1).await.unwrap().allowed);

    let proxy = ChaosProxy::before(redis.port());
    let buckets = open(&redis.url_through(proxy.port())).await;
    for mode in [Mode::Refuse, Mode::Always(Fault::BlackHole(Direction::Both)), Mode::Always(Fault::Reset)] {
        proxy.set(mode);
        wait_until("it is noticed", || async { buckets.probe().await.is_err() }).await;
        let started = now();
        for _ in 0..300 {
            assert!(buckets.take(&key("join", 1), &limit, 1).await.is_err());
        }
        assert!(started.elapsed() < TIMEOUT * 2, "{:?}", started.elapsed());
        proxy.set(Mode::Pass);
        wait_until("it is back", || async {
            buckets.probe().await.is_ok() && buckets.take(&key("join", 1), &limit, 1).await.is_ok()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_finds_a_server_that_may_not_write_or_not_run_scripts() {
    if !require_redis() {
        return;
    }
    let (primary, redis) =
        (RedisProcess::start(), RedisProcess::builder().user("weak", "secret", "~* +ping +hello").start());
    let weak = RedisBuckets::new(&RedisOptions::new(RedisUrl::parse(&redis.url_as("weak")).unwrap()));
    let probed = weak.probe().await;
    assert!(matches!(probed, Err(BucketsError::Refused(_))), "{probed:?}");
    let buckets = open(&redis.url()).await;
    redis.replica_of(primary.port());
    wait_until("it is noticed", || async { buckets.probe().await.is_err() }).await;
    redis.promote();
    wait_until("it is noticed", || async { buckets.probe().await.is_ok() }).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]).no_error();
    let full = buckets.take(&key("join", 1), &limit(1, 1, 1), 1).await;
    assert!(matches!(&full, Err(BucketsError::Unavailable(why)) if why.starts_with("OOM")), "{full:?}");
}

/// What buckets need in a Redis of their own, and nothing more.
const RIGHTS: &str = "~rate_limit:* -@all +eval +evalsha +time +ping +hello +hmget +hset +del +pexpireat";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_rights_of_buckets_is_enough() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::builder().user("node", "secret", RIGHTS).start();
    let buckets = open(&redis.url_as("node")).await;
    let (key, limit) = (key("join", 1), limit(1, 3_600, 5));
    redis.command(&["SET", &key.to_string(), "damaged"]).no_error();
    assert_eq!(buckets.take(&key, &limit, 1).await.unwrap().remaining, 4);
    assert_eq!(buckets.take(&key, &limit, 1).await.unwrap().remaining, 3);
}
