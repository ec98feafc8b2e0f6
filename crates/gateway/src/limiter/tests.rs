//! The limiter over buckets of this node, and over a store that works, fails or hangs on command: its failures are what
//! is tested.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anteroom_store::buckets::BucketsError;
use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use prometheus_client::collector::Collector;
use prometheus_client::registry::Registry;

use super::*;
use crate::identify::{Identification, Peer, identify};

/// Long enough for what is only a moment, and still an end.
const DEADLINE: Duration = Duration::from_secs(20);

fn budget(requests: u64, per_seconds: u64) -> Budget {
    Budget { requests, per_seconds, burst: requests }
}

fn policy(name: &str, by: By, budget: Budget, class: Option<Class>) -> Policy {
    Policy::new(name, by, budget, vec![Charge { class, paths: vec![], methods: vec![], cost: 1 }]).unwrap()
}

fn settings(policies: Vec<Policy>) -> LimiterSettings {
    LimiterSettings {
        policies,
        exempt: Networks::default(),
        budget: Duration::from_millis(5),
        on_failure: OnFailure::Open,
        local_keys_max: 1_000,
        legacy_fields: false,
    }
}

fn client(address: &str) -> Client {
    Client { address: address.parse::<IpAddr>().unwrap(), key: None }
}

fn client_with_key(address: &str, key: &str) -> Client {
    let header = HeaderName::from_static("x-client-key");
    let identification = Identification { key_header: Some(header.clone()), ..Identification::default() };
    let headers = HeaderMap::from_iter([(header, HeaderValue::from_str(key).unwrap())]);
    let peer = Peer { address: (address.parse::<IpAddr>().unwrap(), 1).into(), is_tls: false };
    identify(&peer, &headers, &identification)
}

fn join() -> RequestDescriptor<'static> {
    RequestDescriptor { class: Class::Join, method: &Method::POST, path: "/join" }
}

/// The result of a decision, and the budgets that were asked.
fn describe(decision: &Decision) -> String {
    let fields = |quota: &Quota| {
        let mut headers = HeaderMap::new();
        quota.write(&mut headers);
        headers["ratelimit"].to_str().unwrap().split(";t=").next().unwrap().to_owned()
    };
    match decision {
        Decision::Unlimited => "unlimited".into(),
        Decision::Allowed(quota) => format!("allowed {}", fields(quota)),
        Decision::Refused(quota) => {
            let violated: Vec<&str> = quota.violated_policies().collect();
            format!("refused by {}", violated.join(","))
        }
        Decision::FailedOpen => "failed open".into(),
    }
}

/// All figures of a limiter, as Prometheus would read them.
fn figures(limiter: &Arc<Limiter>) -> String {
    #[derive(Debug)]
    struct Figures(Arc<Limiter>);
    impl Collector for Figures {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            self.0.encode(&mut encoder)
        }
    }
    let mut registry = Registry::with_prefix("anteroom");
    registry.register_collector(Box::new(Figures(Arc::clone(limiter))));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    text
}

fn decisions(limiter: &Arc<Limiter>, policy: &str, decision: &str) -> u64 {
    let series = format!("anteroom_limiter_decisions_total{{policy=\"{policy}\",decision=\"{decision}\"}} ");
    let figures = figures(limiter);
    let line = figures.lines().find_map(|line| line.strip_prefix(&series));
    line.unwrap_or_else(|| panic!("no {series} in\n{figures}")).parse().unwrap()
}

/// A store that several nodes share, in whatever state it is put.
struct Shared {
    inner: MemoryBuckets,
    state: AtomicUsize,
    calls: AtomicU64,
    probes: AtomicU64,
}

const WORKS: usize = 0;
const FAILS: usize = 1;
const HANGS: usize = 2;

impl Shared {
    fn new(state: usize) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryBuckets::new(1_000),
            state: AtomicUsize::new(state),
            calls: AtomicU64::new(0),
            probes: AtomicU64::new(0),
        })
    }

    fn put(&self, state: usize) {
        self.state.store(state, Ordering::SeqCst);
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    async fn reached(&self) -> Result<(), BucketsError> {
        match self.state.load(Ordering::SeqCst) {
            WORKS => Ok(()),
            FAILS => Err(BucketsError::Unavailable("it is gone".into())),
            _ => std::future::pending().await,
        }
    }
}

#[async_trait]
impl Buckets for Shared {
    async fn take(&self, key: &BucketKey, limit: &Limit, cost: u64) -> Result<TakeResult, BucketsError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.reached().await?;
        Ok(self.inner.take_at_once(key, limit, cost).unwrap())
    }

    fn take_at_once(&self, _: &BucketKey, _: &Limit, _: u64) -> Option<TakeResult> {
        None
    }

    async fn probe(&self) -> Result<(), BucketsError> {
        self.probes.fetch_add(1, Ordering::SeqCst);
        // A real store gives a probe up after a while.
        match tokio::time::timeout(Duration::from_millis(50), self.reached()).await {
            Ok(reached) => reached,
            Err(_) => Err(BucketsError::Unanswered("it hangs".into())),
        }
    }
}

fn over(shared: &Arc<Shared>, settings: LimiterSettings) -> Arc<Limiter> {
    Arc::new(Limiter::new(settings, Arc::clone(shared) as Arc<dyn Buckets>))
}

fn in_memory(settings: LimiterSettings) -> Arc<Limiter> {
    Arc::new(Limiter::new(settings, Arc::new(MemoryBuckets::new(1_000))))
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(DEADLINE, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{what} did not come about"));
}

#[test]
fn each_client_has_a_budget_of_its_own_and_the_others_know_nothing_of_it() {
    let limiter = in_memory(settings(vec![policy("join", By::Ip, budget(2, 3_600), Some(Class::Join))]));
    let ask = |client: &Client| describe(&limiter.decide_at_once(&join(), client).unwrap());
    let (one, other) = (client("203.0.113.7"), client("2001:db8::1"));
    assert_eq!(ask(&one), "allowed \"join\";r=1");
    assert_eq!(ask(&one), "allowed \"join\";r=0");
    assert_eq!(ask(&one), "refused by join");
    assert_eq!(ask(&other), "allowed \"join\";r=1");
    assert_eq!(ask(&client("2001:db8::2")), "allowed \"join\";r=0", "of the same /64");
    assert_eq!(ask(&client("2001:db8:0:1::")), "allowed \"join\";r=1", "of the next one");
    let look = RequestDescriptor { class: Class::Read, method: &Method::GET, path: "/status" };
    assert_eq!(describe(&limiter.decide_at_once(&look, &one).unwrap()), "unlimited");
    assert!(limiter.concerns(Class::Join) && !limiter.concerns(Class::Read));
    assert_eq!(decisions(&limiter, "join", "allowed"), 5);
    assert_eq!(decisions(&limiter, "join", "dropped"), 1);
}

#[test]
fn budgets_by_address_come_first_and_keep_what_they_took() {
    let keys = policy("keys", By::Key, budget(1, 3_600), None);
    let addresses = policy("addresses", By::Ip, budget(3, 3_600), None);
    // In the order of the file keys stand first.
    let limiter = in_memory(settings(vec![keys, addresses]));
    let ask = |client: &Client| describe(&limiter.decide_at_once(&join(), client).unwrap());
    let (one, other) = (client_with_key("203.0.113.7", "one"), client_with_key("203.0.113.7", "other"));
    assert_eq!(ask(&one), "allowed \"addresses\";r=2");
    assert_eq!(ask(&one), "refused by keys");
    assert_eq!(ask(&other), "allowed \"addresses\";r=0", "the refused one was charged to the address");
    assert_eq!(ask(&other), "refused by addresses", "which is asked first");
    assert_eq!(ask(&client("203.0.113.8")), "allowed \"addresses\";r=2", "without a key");
    assert_eq!(decisions(&limiter, "keys", "dropped"), 1);
    assert_eq!(decisions(&limiter, "addresses", "dropped"), 1);
}

#[test]
fn an_exempt_client_has_no_budget() {
    let exempt = "127.0.0.0/8".parse().unwrap();
    let limiter =
        in_memory(LimiterSettings { exempt, ..settings(vec![policy("all", By::Ip, budget(1, 60), None)]) });
    for _ in 0..3 {
        let decision = limiter.decide_at_once(&join(), &client("127.9.9.9")).unwrap();
        assert_eq!(describe(&decision), "unlimited");
    }
    assert_eq!(decisions(&limiter, "all", "allowed"), 0);
}

#[tokio::test]
async fn a_shared_store_is_asked_and_remembered_where_it_refused() {
    let shared = Shared::new(WORKS);
    let limiter = over(&shared, settings(vec![policy("join", By::Ip, budget(2, 3_600), None)]));
    let one = client("203.0.113.7");
    assert!(limiter.decide_at_once(&join(), &one).is_none(), "it must be asked");
    assert_eq!(describe(&limiter.decide(&join(), &one).await), "allowed \"join\";r=1");
    assert_eq!(describe(&limiter.decide(&join(), &one).await), "allowed \"join\";r=0");
    assert_eq!(describe(&limiter.decide(&join(), &one).await), "refused by join");
    let calls = shared.calls();
    for _ in 0..100 {
        let decision = limiter.decide_at_once(&join(), &one).expect("known without asking");
        assert_eq!(describe(&decision), "refused by join");
    }
    assert_eq!(shared.calls(), calls, "an attacker costs no round trip");
    assert_eq!(decisions(&limiter, "join", "dropped"), 101);
    assert_eq!(describe(&limiter.decide(&join(), &client("203.0.113.8")).await), "allowed \"join\";r=1");
}

#[tokio::test]
async fn what_is_remembered_ends_with_the_refusal() {
    let shared = Shared::new(WORKS);
    // A token comes back every 50 milliseconds.
    let quick = Budget { requests: 20, per_seconds: 1, burst: 1 };
    let limiter = over(&shared, settings(vec![policy("join", By::Ip, quick, None)]));
    let one = client("203.0.113.7");
    for _ in 0..3 {
        until("a refusal", async || matches!(limiter.decide(&join(), &one).await, Decision::Refused(_)))
            .await;
        until("the next token", async || matches!(limiter.decide(&join(), &one).await, Decision::Allowed(_)))
            .await;
    }
}

#[tokio::test]
async fn a_failing_store_lets_every_request_through_and_is_not_asked_until_it_is_back() {
    let shared = Shared::new(FAILS);
    let limiter = over(&shared, settings(vec![policy("join", By::Ip, budget(1, 3_600), None)]));
    let one = client("203.0.113.7");
    assert_eq!(describe(&limiter.decide(&join(), &one).await), "failed open");
    for _ in 0..100 {
        let decision = limiter.decide_at_once(&join(), &one).expect("no wait");
        assert_eq!(describe(&decision), "failed open");
    }
    assert_eq!(shared.calls(), 1);
    assert_eq!(decisions(&limiter, "join", "failed_open"), 101);
    assert!(figures(&limiter).contains("anteroom_limiter_breaker_open 1\n"));

    let probing = Arc::clone(&limiter).keep_probing();
    let back = async {
        until("a probe", async || shared.probes.load(Ordering::SeqCst) > 1).await;
        shared.put(WORKS);
        until("the store", async || matches!(limiter.decide(&join(), &one).await, Decision::Allowed(_)))
            .await;
        assert_eq!(describe(&limiter.decide(&join(), &one).await), "refused by join");
        assert!(figures(&limiter).contains("anteroom_limiter_breaker_open 0\n"));
        // And once more, with the same probing.
        shared.put(FAILS);
        let other = client("203.0.113.8");
        assert_eq!(describe(&limiter.decide(&join(), &other).await), "failed open");
        shared.put(WORKS);
        until("the store", async || matches!(limiter.decide(&join(), &other).await, Decision::Allowed(_)))
            .await;
    };
    tokio::select! {
        () = probing => unreachable!("it goes on"),
        () = back => {}
    }
}

#[tokio::test]
async fn a_store_that_hangs_is_waited_for_within_the_budget_and_after_many_times_not_at_all() {
    let shared = Shared::new(HANGS);
    let limiter = over(&shared, settings(vec![policy("join", By::Ip, budget(1, 3_600), None)]));
    let one = client("203.0.113.7");
    let mut waited = 0;
    until("the breaker", async || {
        if let Some(decision) = limiter.decide_at_once(&join(), &one) {
            assert_eq!(describe(&decision), "failed open");
            return true;
        }
        waited += 1;
        assert_eq!(describe(&limiter.decide(&join(), &one).await), "failed open");
        false
    })
    .await;
    assert!(waited > 1, "one late answer is no reason");
    assert_eq!(shared.calls(), waited);
    assert_eq!(decisions(&limiter, "join", "failed_open"), waited + 1);

    // A probe that hangs does not close it; one that is answered does.
    let probing = Arc::clone(&limiter).keep_probing();
    let back = async {
        until("probes", async || shared.probes.load(Ordering::SeqCst) > 2).await;
        assert!(limiter.decide_at_once(&join(), &one).is_some());
        shared.put(WORKS);
        until("the store", async || limiter.decide_at_once(&join(), &one).is_none()).await;
    };
    tokio::select! {
        () = probing => unreachable!("it goes on"),
        () = back => {}
    }
}

#[tokio::test]
async fn a_moment_of_slowness_costs_one_decision_and_no_more() {
    let shared = Shared::new(HANGS);
    let limiter = over(&shared, settings(vec![policy("join", By::Ip, budget(9, 3_600), None)]));
    let one = client("203.0.113.7");
    assert_eq!(describe(&limiter.decide(&join(), &one).await), "failed open");
    shared.put(WORKS);
    assert_eq!(describe(&limiter.decide(&join(), &one).await), "allowed \"join\";r=8");
}

#[tokio::test]
async fn a_node_that_decides_alone_keeps_to_the_limit_and_counts_it_apart() {
    let shared = Shared::new(FAILS);
    let alone = LimiterSettings {
        on_failure: OnFailure::Local,
        ..settings(vec![
            policy("addresses", By::Ip, budget(2, 3_600), None),
            policy("keys", By::Key, budget(9, 3_600), None),
        ])
    };
    let limiter = over(&shared, alone);
    let one = client_with_key("203.0.113.7", "one");
    assert_eq!(describe(&limiter.decide(&join(), &one).await), "allowed \"addresses\";r=1");
    assert_eq!(describe(&limiter.decide_at_once(&join(), &one).unwrap()), "allowed \"addresses\";r=0");
    assert_eq!(describe(&limiter.decide_at_once(&join(), &one).unwrap()), "refused by addresses");
    assert_eq!(shared.calls(), 1);
    let counts = |policy: &str| {
        ["allowed", "dropped", "failed_open", "local_allowed", "local_dropped"]
            .map(|decision| decisions(&limiter, policy, decision))
    };
    assert_eq!((counts("addresses"), counts("keys")), ([0, 0, 0, 2, 1], [0, 0, 0, 2, 0]));
}

#[tokio::test]
async fn what_was_decided_before_the_store_failed_is_reported() {
    // Works for the first question of a request and fails at the second.
    struct Once(Shared);
    #[async_trait]
    impl Buckets for Once {
        async fn take(&self, key: &BucketKey, limit: &Limit, cost: u64) -> Result<TakeResult, BucketsError> {
            let taken = self.0.take(key, limit, cost).await;
            self.0.put(FAILS);
            taken
        }
        fn take_at_once(&self, _: &BucketKey, _: &Limit, _: u64) -> Option<TakeResult> {
            None
        }
        async fn probe(&self) -> Result<(), BucketsError> {
            self.0.probe().await
        }
    }
    let policies =
        vec![policy("addresses", By::Ip, budget(2, 60), None), policy("keys", By::Key, budget(2, 60), None)];
    let once = Once(Arc::into_inner(Shared::new(WORKS)).unwrap());
    let limiter = Arc::new(Limiter::new(settings(policies), Arc::new(once)));
    let decision = limiter.decide(&join(), &client_with_key("203.0.113.7", "one")).await;
    assert_eq!(describe(&decision), "allowed \"addresses\";r=1");
    assert_eq!(decisions(&limiter, "keys", "failed_open"), 1);
}

#[tokio::test]
async fn every_figure_has_the_name_that_the_documents_give_it() {
    let limiter = in_memory(settings(vec![policy("join", By::Ip, budget(1, 3_600), None)]));
    for _ in 0..3 {
        limiter.decide(&join(), &client("203.0.113.7")).await;
    }
    let figures = figures(&limiter);
    for line in [
        "anteroom_limiter_decisions_total{policy=\"join\",decision=\"allowed\"} 1",
        "anteroom_limiter_decisions_total{policy=\"join\",decision=\"dropped\"} 2",
        "anteroom_limiter_decisions_total{policy=\"join\",decision=\"failed_open\"} 0",
        "anteroom_limiter_decision_seconds_count 3",
        "anteroom_limiter_decision_seconds_bucket{le=\"+Inf\"} 3",
        "anteroom_limiter_breaker_open 0",
        "anteroom_limiter_overflow_total 0",
    ] {
        assert!(figures.lines().any(|found| found == line), "no {line} in\n{figures}");
    }
}
