//! The limiter with budgets in a Redis: shared by nodes exactly; a Redis that fails or hangs delays nobody.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{Builder, Server, now, require_redis, wait_until};

use crate::limiter_support::{LONG_SECONDS, TIMEOUT, decided, join, joins, remaining};
use crate::support::metrics::metric;

/// How long a join may take while the Redis hangs, on a busy machine; without a bound it would take until the Redis answers.
const DELAY_MAX: Duration = Duration::from_secs(1);
/// How long a hundred of them may take together.
const ALL_DELAYS_MAX: Duration = Duration::from_secs(5);

/// A server whose budgets are in this Redis, and nothing else; without it all are let through, unless the configuration says otherwise.
fn server(redis: &RedisProcess, config: &str) -> Builder {
    let open = if config.contains("limits_on_failure") { "" } else { "limits_on_failure = \"open\"\n" };
    crate::limiter_support::server(&format!("{open}{config}"))
        .memory()
        .env("ANTEROOM_LIMITS_STORE_URL", redis.url())
}

/// The same, waiting as long as it takes: where exactness is shown, a busy machine must not be a reason to let somebody through.
fn server_with_long_timeout(redis: &RedisProcess, config: &str) -> Builder {
    server(redis, config).env("ANTEROOM_LIMITS_BUDGET_MILLISECONDS", "1000")
}

#[test]
fn two_nodes_share_a_budget_to_the_last_request() {
    const BUDGET: u64 = 150;
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    // As it usually is: everything in one Redis, which both nodes have.
    let node = |_| {
        let node = crate::limiter_support::server(&joins("join", "ip", BUDGET));
        let node =
            node.env("ANTEROOM_STORE_URL", redis.url()).env("ANTEROOM_LIMITS_BUDGET_MILLISECONDS", "1000");
        node.start().unwrap()
    };
    let nodes = [0, 1].map(node);
    let (allowed, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for worker in 0..6 {
            let (mut client, allowed, refused) = (nodes[worker % 2].visitor(), &allowed, &refused);
            scope.spawn(move || {
                for _ in 0..50 {
                    match join(&mut client, "203.0.113.7").status {
                        200 => allowed.fetch_add(1, Ordering::Relaxed),
                        429 => refused.fetch_add(1, Ordering::Relaxed),
                        other => panic!("status {other}"),
                    };
                }
            });
        }
    });
    let figures = nodes.each_ref().map(|node| {
        assert_eq!(decided(node, "join", "failed_open"), 0);
        (decided(node, "join", "allowed"), decided(node, "join", "dropped"))
    });
    assert_eq!((allowed.into_inner(), refused.into_inner()), (150, 150), "{figures:?}");
    assert_eq!(figures[0].0 + figures[1].0, 150);
    assert!(figures.iter().all(|(allowed, _)| *allowed > 0), "both had a part of it: {figures:?}");
    // As the seed has it: a hash with whole tokens and the last refill, for as long as it is not full.
    let key = "rate_limit:join:203.0.113.7";
    assert_eq!(redis.command(&["HGET", key, "tokens"]).text(), "0");
    assert!(
        redis.command(&["HGET", key, "last_refill"]).text().parse::<u64>().unwrap() > 1_600_000_000_000_000
    );
    assert!(redis.command(&["PTTL", key]).integer() > 0);
}

#[test]
fn somebody_who_goes_on_asking_costs_the_redis_nothing() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let server = server_with_long_timeout(&redis, &joins("join", "ip", 1)).start().unwrap();
    let mut client = server.visitor();
    assert_eq!([(); 2].map(|()| join(&mut client, "203.0.113.7").status), [200, 429]);
    let calls = || {
        let statistics = redis.information("commandstats");
        statistics.iter().filter(|(name, _)| name.starts_with("cmdstat_eval")).fold(0, |sum, (_, value)| {
            sum + value["calls=".len()..].split(',').next().unwrap().parse::<u64>().unwrap()
        })
    };
    let (before, started) = (calls(), now());
    assert!(before > 0);
    for _ in 0..200 {
        let refused = join(&mut client, "203.0.113.7");
        assert_eq!((refused.status, remaining(&refused, "join")), (429, 0));
    }
    // Whether the Redis is still there is asked four times a second at most, and about a client every ten seconds.
    let seconds = started.elapsed().as_secs_f64();
    let asked = calls() - before;
    assert!(f64::from(u32::try_from(asked).unwrap()) <= 2.0 + 5.0 * seconds, "{asked} in {seconds} seconds");
    assert_eq!(decided(&server, "join", "dropped"), 201);
}

#[test]
fn a_redis_that_is_killed_lets_everybody_through_and_says_so() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let server = server(&redis, &joins("join", "ip", 1)).start().unwrap();
    let mut client = server.visitor();
    wait_until("the limit", TIMEOUT, || join(&mut client, "203.0.113.7").status == 429);

    redis.kill();
    for number in 0..100 {
        let joined = join(&mut client, &format!("198.51.100.{}", number % 2));
        assert_eq!((joined.status, joined.header("RateLimit")), (200, None), "request {number}");
    }
    assert_eq!(metric(&server, "anteroom_limiter_breaker_open"), 1);
    assert!(decided(&server, "join", "failed_open") >= 100);
    assert!(server.stderr().contains("rate limit store failed"), "{}", server.stderr());
    assert_eq!(server.operator().get("/readyz").unwrap().status, 200, "nothing else depends on it");

    // It comes back empty, and is used again without an operator's help.
    redis.start_again();
    wait_until("the limit", TIMEOUT, || join(&mut client, "198.51.100.1").status == 429);
    assert_eq!(metric(&server, "anteroom_limiter_breaker_open"), 0);
}

#[test]
fn a_client_refused_before_is_let_through_when_the_redis_is_gone_though_nobody_else_asks() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let server = server(&redis, &joins("join", "ip", 1)).start().unwrap();
    let mut client = server.visitor();
    wait_until("the limit", TIMEOUT, || join(&mut client, "203.0.113.7").status == 429);
    redis.kill();
    wait_until("failing open", TIMEOUT, || join(&mut client, "203.0.113.7").status == 200);
    assert_eq!(metric(&server, "anteroom_limiter_breaker_open"), 1);
    // It comes back empty: nothing is left of the refusal.
    redis.start_again();
    wait_until("the Redis", TIMEOUT, || metric(&server, "anteroom_limiter_breaker_open") == 0);
    assert_eq!(join(&mut client, "203.0.113.9").status, 200);
    wait_until("the limit", TIMEOUT, || join(&mut client, "203.0.113.7").status == 429);
}

#[test]
fn a_redis_that_hangs_keeps_nobody_waiting() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let server = server(&redis, &joins("join", "ip", 1)).start().unwrap();
    let mut client = server.visitor();
    wait_until("the limit", TIMEOUT, || join(&mut client, "203.0.113.7").status == 429);

    redis.pause();
    let (mut slowest, paused) = (Duration::ZERO, now());
    for number in 0..100 {
        let asked = now();
        assert_eq!(join(&mut client, &format!("198.51.100.{number}")).status, 200);
        slowest = slowest.max(asked.elapsed());
    }
    // Each decision may take 5 ms, and after a few failures none is asked for.
    assert!(slowest < DELAY_MAX, "a join took {slowest:?}");
    assert!(paused.elapsed() < ALL_DELAYS_MAX, "a hundred joins took {:?}", paused.elapsed());
    assert_eq!(metric(&server, "anteroom_limiter_breaker_open"), 1);
    assert!(decided(&server, "join", "failed_open") >= 100);
    redis.resume();
    wait_until("the limit", TIMEOUT, || join(&mut client, "198.51.100.1").status == 429);
}

#[test]
fn without_a_word_joins_are_limited_by_each_node_while_it_is_away_and_reads_are_not() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let config = format!(
        "{}[[limit]]\nname = \"look\"\nclass = \"read\"\nrequests = 2\nper_seconds = {LONG_SECONDS}\n",
        joins("join", "ip", 3)
    );
    let server = crate::limiter_support::server(&config)
        .memory()
        .env("ANTEROOM_LIMITS_STORE_URL", redis.url())
        .start()
        .unwrap();
    redis.kill();
    let mut client = server.visitor();
    assert_eq!([(); 5].map(|()| join(&mut client, "203.0.113.7").status), [200, 200, 200, 429, 429]);
    for _ in 0..5 {
        assert_eq!(client.get("/serving_num?event_id=Hall").unwrap().status, 200);
    }
    assert_eq!(decided(&server, "join", "local_dropped"), 2);
    assert_eq!(decided(&server, "look", "failed_open"), 5);
    assert_eq!(decided(&server, "read", "allowed"), 5, "each node has this one for itself");
}

#[test]
fn nodes_may_decide_alone_while_it_is_away() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let config = format!("limits_on_failure = \"local\"\n{}", joins("join", "ip", 5));
    let server = server(&redis, &config).start().unwrap();
    redis.kill();
    let mut client = server.visitor();
    let statuses = [(); 7].map(|()| join(&mut client, "203.0.113.7").status);
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429]);
    let figures = ["allowed", "dropped", "failed_open", "local_allowed", "local_dropped"]
        .map(|decision| decided(&server, "join", decision));
    assert_eq!(figures, [0, 0, 0, 5, 2]);
}

#[test]
fn a_server_starts_without_it_and_takes_it_when_it_comes() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    redis.kill();
    let server = server(&redis, &joins("join", "ip", 1)).start().unwrap();
    assert_eq!(metric(&server, "anteroom_limiter_breaker_open"), 1);
    let mut client = server.visitor();
    assert_eq!([(); 3].map(|()| join(&mut client, "203.0.113.7").status), [200, 200, 200]);
    redis.start_again();
    wait_until("the limit", TIMEOUT, || join(&mut client, "203.0.113.7").status == 429);
}

#[test]
fn a_changed_limit_neither_forgets_what_was_taken_nor_gives_a_burst() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let mut server = server_with_long_timeout(&redis, &joins("join", "ip", 10)).start().unwrap();
    let taken = |server: &Server, count: usize| {
        let mut client = server.visitor();
        (0..count).map(|_| join(&mut client, "203.0.113.7").status).collect::<Vec<_>>()
    };
    assert_eq!(taken(&server, 7), [200; 7]);
    let change = |server: &mut Server, requests: u64| {
        server.terminate().unwrap();
        let settings = "limits_exempt = \"none\"\ntrusted_proxies = \"127.0.0.1\"\n";
        server.set_config(format!("{settings}{}[[room]]\nid = \"Hall\"\n", joins("join", "ip", requests)));
        server.restart().unwrap();
    };
    change(&mut server, 1_000);
    assert_eq!(taken(&server, 2), [200; 2], "three were left, and a thousand are not given");
    change(&mut server, 5);
    assert_eq!(taken(&server, 3), [200, 429, 429]);
    change(&mut server, 1_000);
    assert_eq!(taken(&server, 1), [429]);
}
