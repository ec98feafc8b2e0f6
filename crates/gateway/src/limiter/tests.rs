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
use crate::identify::{ForwardedFor, Identification, Peer, identify};

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
    Client { address: address.parse::<IpAddr>().unwrap(), key: None, forwarded_for: None }
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
    async fn take_all(&self, charges: &[BucketCharge]) -> Result<Vec<TakeResult>, BucketsError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.reached().await?;
        Ok(self.inner.take_all_now(charges))
    }

    fn take_all_at_once(&self, _: &[BucketCharge]) -> Option<Vec<TakeResult>> {
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
fn budgets_by_address_come_first_and_a_refusal_by_key_takes_nothing_from_them() {
    let keys = policy("keys", By::Key, budget(1, 3_600), None);
    let addresses = policy("addresses", By::Ip, budget(2, 3_600), None);
    // In the order of the file keys stand first.
    let limiter = in_memory(settings(vec![keys, addresses]));
    let ask = |client: &Client| describe(&limiter.decide_at_once(&join(), client).unwrap());
    let (one, other) = (client_with_key("203.0.113.7", "one"), client_with_key("203.0.113.7", "other"));
    assert_eq!(ask(&one), "allowed \"addresses\";r=1");
    assert_eq!(ask(&one), "refused by keys");
    assert_eq!(ask(&other), "allowed \"addresses\";r=0", "the refused one was not charged to the address");
    assert_eq!(ask(&other), "refused by addresses,keys");
    assert_eq!(ask(&client("203.0.113.8")), "allowed \"addresses\";r=1", "without a key");
    assert_eq!(decisions(&limiter, "keys", "dropped"), 2);
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

#[test]
fn what_an_untrusted_proxy_forwards_from_an_exempt_address_is_limited_and_counted() {
    let exempt = "127.0.0.0/8".parse().unwrap();
    let limiter = in_memory(LimiterSettings {
        exempt,
        ..settings(vec![policy("all", By::Ip, budget(1, 3_600), None)])
    });
    let forwarded_for = Some(ForwardedFor::of_text("203.0.113.7"));
    let forwarded = Client { forwarded_for, ..client("127.0.0.1") };
    let decided = [(); 3].map(|()| describe(&limiter.decide_at_once(&join(), &forwarded).unwrap()));
    assert_eq!(decided, ["allowed \"all\";r=0", "refused by all", "refused by all"]);
    assert!(figures(&limiter).contains("anteroom_limiter_untrusted_forwards_total 3\n"));
    let direct = limiter.decide_at_once(&join(), &client("127.0.0.1")).unwrap();
    assert_eq!(describe(&direct), "unlimited");
}

#[tokio::test]
async fn a_budget_per_node_asks_no_store_and_is_whole_again_after_a_refusal_by_one() {
    let reads = policy("read", By::Ip, budget(2, 3_600), Some(Class::Read)).per_node();
    let both = policy("both", By::Ip, budget(5, 3_600), None).per_node();
    let joins = policy("join", By::Ip, budget(1, 3_600), Some(Class::Join));
    let shared = Shared::new(WORKS);
    let limiter = over(&shared, settings(vec![joins, reads, both]));
    let (one, look) = (client("203.0.113.7"), RequestDescriptor { class: Class::Read, ..join() });
    let ask = |descriptor| describe(&limiter.decide_at_once(descriptor, &one).unwrap());
    assert_eq!([ask(&look), ask(&look)], ["allowed \"read\";r=1", "allowed \"read\";r=0"]);
    assert_eq!((ask(&look), shared.calls()), ("refused by read".into(), 0));
    assert_eq!(describe(&limiter.decide(&join(), &one).await), "allowed \"both\";r=2");
    assert_eq!(describe(&limiter.decide(&join(), &one).await), "refused by join");
    shared.put(FAILS);
    let other = client("203.0.113.8");
    assert_eq!(describe(&limiter.decide(&join(), &other).await), "allowed \"both\";r=4");
    assert_eq!(decisions(&limiter, "join", "failed_open"), 1);
    assert_eq!(ask(&join()), "allowed \"both\";r=1", "the refused join was charged to nothing");
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
async fn joins_are_limited_by_this_node_when_the_store_is_lost_and_other_requests_are_not() {
    let shared = Shared::new(FAILS);
    let all = policy("all", By::Ip, budget(2, 3_600), None);
    let limiter = over(&shared, LimiterSettings { on_failure: OnFailure::LocalJoins, ..settings(vec![all]) });
    let one = client("203.0.113.7");
    let look = RequestDescriptor { class: Class::Read, method: &Method::GET, path: "/status" };
    assert_eq!(describe(&limiter.decide(&join(), &one).await), "allowed \"all\";r=1");
    for _ in 0..5 {
        assert_eq!(describe(&limiter.decide_at_once(&look, &one).unwrap()), "failed open");
    }
    assert_eq!(describe(&limiter.decide_at_once(&join(), &one).unwrap()), "allowed \"all\";r=0");
    assert_eq!(describe(&limiter.decide_at_once(&join(), &one).unwrap()), "refused by all");
    let counts =
        ["failed_open", "local_allowed", "local_dropped"].map(|kind| decisions(&limiter, "all", kind));
    assert_eq!(counts, [5, 2, 1]);
}

#[tokio::test]
async fn a_client_refused_before_is_let_through_when_the_store_is_lost_though_nobody_else_asks() {
    for loss in [FAILS, HANGS] {
        let shared = Shared::new(WORKS);
        let limiter = over(&shared, settings(vec![policy("join", By::Ip, budget(1, 3_600), None)]));
        let one = client("203.0.113.7");
        assert_eq!(describe(&limiter.decide(&join(), &one).await), "allowed \"join\";r=0");
        assert_eq!(describe(&limiter.decide(&join(), &one).await), "refused by join");
        shared.put(loss);
        let story = async {
            until("the store is lost", async || {
                limiter.decide(&join(), &one).await;
                figures(&limiter).contains("anteroom_limiter_breaker_open 1\n")
            })
            .await;
            // From then on, and not only when the memory of the refusal is over.
            assert!(matches!(limiter.decide_at_once(&join(), &one), Some(Decision::FailedOpen)));
            // The store is asked again when it is back, at once, also by a client that it had refused.
            shared.put(WORKS);
            until("the store is back", async || {
                figures(&limiter).contains("anteroom_limiter_breaker_open 0\n")
            })
            .await;
            let calls = shared.calls();
            limiter.decide(&join(), &one).await;
            assert_eq!(shared.calls(), calls + 1, "nothing of what was refused before the loss counts");
        };
        tokio::select! {
            () = Arc::clone(&limiter).keep_probing() => unreachable!("it goes on"),
            () = story => {}
        }
    }
}

#[tokio::test]
async fn forty_budgets_of_one_request_are_one_call_with_one_deadline() {
    let policies = || (0..40).map(|number| policy(&format!("p{number}"), By::Ip, budget(9, 3_600), None));
    let shared = Shared::new(WORKS);
    let limiter = over(&shared, settings(policies().collect()));
    assert!(matches!(limiter.decide(&join(), &client("203.0.113.7")).await, Decision::Allowed(_)));
    assert_eq!(shared.calls(), 1);
    shared.put(HANGS);
    assert_eq!(describe(&limiter.decide(&join(), &client("203.0.113.7")).await), "failed open");
    assert_eq!(shared.calls(), 2);
    assert_eq!(decisions(&limiter, "p39", "failed_open"), 1);
}

#[tokio::test]
async fn a_request_that_one_budget_refuses_is_charged_to_none() {
    let policies = || {
        vec![policy("wide", By::Ip, budget(9, 3_600), None), policy("narrow", By::Ip, budget(1, 3_600), None)]
    };
    let shared = Shared::new(WORKS);
    for limiter in [in_memory(settings(policies())), over(&shared, settings(policies()))] {
        let one = client("203.0.113.7");
        assert_eq!(describe(&limiter.decide(&join(), &one).await), "allowed \"wide\";r=8");
        for _ in 0..5 {
            assert_eq!(describe(&limiter.decide(&join(), &one).await), "refused by narrow");
        }
        assert_eq!(decisions(&limiter, "wide", "allowed"), 1);
        assert_eq!(decisions(&limiter, "narrow", "dropped"), 5);
        let look = limiter.decide(&join(), &one).await;
        let Decision::Refused(quota) = look else { panic!("{look:?}") };
        let mut headers = HeaderMap::new();
        quota.write(&mut headers);
        let told = headers["ratelimit"].to_str().unwrap();
        assert!(told.contains("\"narrow\";r=0") && !told.contains("\"wide\";r=3"), "{told}");
    }
}

#[test]
fn a_56_of_ipv6_addresses_has_8_times_and_a_48_has_64_times_the_budget_of_a_64() {
    let limiter = in_memory(settings(vec![policy("join", By::Ip, budget(2, 3_600), None)]));
    let allowed = |networks: &mut dyn Iterator<Item = u32>| {
        let mut count = 0;
        for network in networks {
            // Each /64 has two; three are asked for, so that what is refused could be charged to the wider ones.
            for host in 1..=3 {
                let client = client(&format!("2001:db8:1:{network:x}::{host}"));
                let decision = limiter.decide_at_once(&join(), &client).unwrap();
                count += u32::from(matches!(decision, Decision::Allowed(_)));
            }
        }
        count
    };
    assert_eq!(allowed(&mut (0..1)), 2, "a /64");
    assert_eq!(allowed(&mut (1..0x100)), 14, "the rest of its /56");
    assert_eq!(allowed(&mut (0x100..0x1_0000).step_by(0x10)), 112, "the rest of its /48");
    let next = client("2001:db8:2::1");
    assert!(matches!(limiter.decide_at_once(&join(), &next).unwrap(), Decision::Allowed(_)));
    assert_eq!(decisions(&limiter, "join", "allowed"), 129);
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
        "anteroom_limiter_untrusted_forwards_total 0",
    ] {
        assert!(figures.lines().any(|found| found == line), "no {line} in\n{figures}");
    }
}
