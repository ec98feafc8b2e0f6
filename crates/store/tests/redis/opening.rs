//! Servers that are not fit for a store are refused with a sentence that says what to do; passwords are never repeated.

use std::sync::Arc;

use anteroom_store::contract::{Store, StoreError};
use anteroom_store::redis::{Guarantee, Ordering, RedisCertificates, RedisOptions, RedisStore};
use anteroom_store::seal::{Plain, Seal};
use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::require_redis;

use crate::support::{NODE, Writer, open, options};

/// What is said when a store cannot be opened; it must be for good.
async fn refused(options: RedisOptions) -> String {
    match RedisStore::open(&options).await.map(|_| ()) {
        Err(StoreError::Permanent(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_throws_data_away_is_refused() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::builder()
        .setting("maxmemory", "100mb")
        .setting("maxmemory-policy", "allkeys-lru")
        .start();
    let why = refused(options(&redis.url())).await;
    assert!(why.contains("allkeys-lru") && why.ends_with("set maxmemory-policy noeviction"), "{why}");
    redis.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).no_error();
    open(&redis.url()).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "allkeys-lru"]).no_error();
    open(&redis.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_refused_and_never_repeated() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::builder().password("rightpassword").start();
    let store = open(&redis.url()).await;
    assert_eq!(store.guarantee(), Guarantee::Full);
    let wrong = options(&redis.url().replace("rightpassword", "hunter2"));
    assert!(!format!("{wrong:?}").contains("hunter2"), "{wrong:?}");
    let why = refused(wrong).await;
    assert!(why.contains("WRONGPASS") && !why.contains("hunter2"), "{why}");
    let without = options(&format!("redis://127.0.0.1:{}", redis.port()));
    let why = refused(without).await;
    assert!(why.contains("NOAUTH"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_info_in_scripts_strict_ordering_is_refused() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::builder().user("node", "secret", "~* &* +@all -info").start();
    let lenient = options(&redis.url_as("node"));
    let store = RedisStore::open(&lenient).await.unwrap();
    assert_eq!(store.guarantee(), Guarantee::Downgraded);
    let mut writer = Writer::make(Arc::new(store), "room").await;
    assert_eq!((writer.join(3).await, writer.join(1).await), (1, 4));
    let why = refused(RedisOptions { ordering: Ordering::Strict, ..lenient }).await;
    assert!(why.contains("+info"), "{why}");
    let full = RedisStore::open(&RedisOptions { ordering: Ordering::Strict, ..options(&redis.url()) })
        .await
        .unwrap();
    assert_eq!(full.guarantee(), Guarantee::Full);
}

/// What the store calls, and nothing more.
const RIGHTS: &str = "~anteroom:* &anteroom:* -@all +eval +evalsha +info +time +ping +wait +hello \
    +get +set +del +exists +unlink +expire +pexpire +pttl \
    +hget +hset +hmget +hsetnx +hgetall +hvals +hkeys +hdel +hexists +hincrby \
    +zadd +zrem +zscore +zcard +zrange +zrangebyscore \
    +xadd +xlen +xrange +xrevrange +xtrim +ssubscribe +spublish";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_user_with_these_rights_and_no_others_is_enough() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::builder().user("node", "secret", RIGHTS).start();
    for (name, scenario) in anteroom_store::conformance::SCENARIOS {
        println!("{name}");
        let store = RedisStore::open(&options(&redis.url_as("node"))).await.unwrap();
        assert_eq!(store.guarantee(), Guarantee::Full);
        scenario(Arc::new(store)).await;
        redis.command(&["FLUSHALL"]).no_error();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_reached_over_tls_by_its_certificate_only() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::builder().tls().start();
    let authorities = Some(std::fs::read(redis.certificate_file()).unwrap());
    let certificates = RedisCertificates { authorities, ..RedisCertificates::default() };
    let trusting = RedisOptions { certificates, ..options(&redis.url()) };
    let mut writer = Writer::make(Arc::new(RedisStore::open(&trusting).await.unwrap()), "room").await;
    assert_eq!(writer.join(2).await, 1);
    let stranger = RedisStore::open(&options(&redis.url())).await.map(|_| ());
    assert!(matches!(stranger, Err(StoreError::Transient(_) | StoreError::Permanent(_))), "{stranger:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_with_another_prefix_or_database_see_nothing_of_each_other() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let another_prefix = RedisOptions { prefix: "another".into(), ..options(&redis.url()) };
    for options in [options(&redis.url()), options(&format!("{}/3", redis.url())), another_prefix] {
        let store = Arc::new(RedisStore::open(&options).await.unwrap());
        assert_eq!(store.rooms().await.unwrap(), []);
        let mut writer = Writer::make(store.clone(), "room").await;
        assert_eq!(writer.join(1).await, 1);
    }
    for bad in ["", "brace{", "star*", &"long".repeat(20)] {
        let why = refused(RedisOptions { prefix: bad.into(), ..options(&redis.url()) }).await;
        assert!(why.starts_with("the prefix of the Redis store must be"), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sealed_by_others_is_not_read() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let mut writer = Writer::make(Arc::new(open(&redis.url()).await), "room").await;
    writer.join(2).await;
    let stranger = RedisOptions { seal: Arc::new(Plain), ..options(&redis.url()) };
    let stranger = RedisStore::open(&stranger).await.unwrap();
    // A store without the seal reads bytes that are no room.
    let read = stranger.load(&writer.id, NODE).await.map(|_| ());
    assert!(matches!(read, Err(StoreError::Permanent(_))), "{read:?}");
    let picky = RedisOptions { seal: Arc::new(Picky), ..options(&redis.url()) };
    let why = RedisStore::open(&picky).await.unwrap().load(&writer.id, NODE).await.unwrap_err().to_string();
    assert!(why.contains("a stored room was sealed with other secrets"), "{why}");
    // Nothing of a room, and no request id, stands in clear.
    let stored = redis.command(&["HGET", "anteroom:0:{r/room}:room", "s"]);
    assert!(!stored.text().is_empty() && !stored.text().contains("validity_period"));
}

/// A seal that opens nothing.
struct Picky;

impl Seal for Picky {
    fn seal(&self, plain: &[u8]) -> Vec<u8> {
        plain.to_vec()
    }

    fn open(&self, _sealed: &[u8]) -> Option<Vec<u8>> {
        None
    }
}
