//! **limit**: keeps each client within its budgets of requests.
//!
//! A [`Policy`] says how much of what is allowed to whom; a token bucket for each client says how much of that is left. Buckets
//! live on this node or in a Redis that all nodes share (`anteroom_store::buckets`). A request asks all its budgets in one
//! call with one deadline. If one of them is used up, the request is refused and charged to none.
//!
//! **It fails open, except for joins.** It protects the site from a few who ask too much; if it cannot tell, requests are let through
//! and a metric says so. Joins are then limited by buckets of this node ([`OnFailure`]). A shared store that fails, or does not answer
//! within the budget of time, never keeps a visitor waiting: `breaker` takes it out of the way, [`Limiter::keep_probing`]
//! brings it back.
//!
//! *Invariant:* every policy that a request is charged to counts one decision: allowed, or made without the store. Of a refused
//! request only the policies that refused it count one: dropped.
//! *Invariant:* nobody is refused by what this node remembers of a store that is lost: while the breaker is open the memory of
//! refusals is not read, and it is emptied before the breaker closes.

mod breaker;
mod counts;
mod policy;
mod quota;
mod refusals;
#[cfg(test)]
mod tests;
mod untrusted_proxies;

use std::fmt;
use std::sync::{Arc, Once};
use std::time::Duration;

use anteroom_core::bucket::TakeResult;
use anteroom_store::buckets::{BucketCharge, Buckets, MemoryBuckets};
use anteroom_store::clock::Stopwatch;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::sync::Notify;

pub use policy::{
    Budget, By, CHARGE_LIST_MAX, CHARGES_MAX, COST_MAX, Charge, Class, IPV6_FACTORS, POLICIES_MAX, Policy,
    PolicyError, RequestDescriptor,
};
pub use quota::Quota;

use crate::identify::{Client, Networks};
use breaker::Breaker;
use counts::{Counts, PolicyCounts};
use refusals::Refusals;
use untrusted_proxies::UntrustedProxies;

/// How long after a failed probe the next one follows.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);
/// How often the store is probed while requests are refused by memory alone.
const CONFIRM_INTERVAL: Duration = Duration::from_millis(250);
/// A store that has not answered such a probe after this time is lost.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(1);

/// What happens to requests while the shared store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// All are let through.
    Open,
    /// This node decides joins alone, by buckets of its own that begin full. Everything else is let through.
    LocalJoins,
    /// This node decides alone, by buckets of its own that begin full.
    Local,
}

impl OnFailure {
    /// Whether this node decides requests of a class alone.
    fn is_local(self, class: Class) -> bool {
        match self {
            Self::Open => false,
            Self::LocalJoins => class == Class::Join,
            Self::Local => true,
        }
    }
}

/// What a limiter goes by.
#[derive(Debug)]
pub struct LimiterSettings {
    /// The budgets.
    pub policies: Vec<Policy>,
    /// Clients that are never limited.
    pub exempt: Networks,
    /// How long a request waits for a shared store at most.
    pub budget: Duration,
    /// What happens when it does not answer.
    pub on_failure: OnFailure,
    /// How many buckets a node keeps for itself while it does not answer.
    pub local_keys_max: usize,
    /// Whether the older `X-RateLimit-*` fields are written too.
    pub legacy_fields: bool,
}

/// What becomes of a request.
#[derive(Debug, Clone)]
pub enum Decision {
    /// No budget is concerned.
    Unlimited,
    /// Within its budgets.
    Allowed(Quota),
    /// Beyond one of them.
    Refused(Quota),
    /// Let through because no decision was possible.
    FailedOpen,
}

/// Decides.
pub struct Limiter {
    /// Those per node first, if buckets are shared; then those by address before those by key.
    rows: Vec<Row>,
    /// Which classes any policy concerns, by their index: the others cost nothing.
    concerned: [bool; Class::ALL.len()],
    exempt: Networks,
    buckets: Arc<dyn Buckets>,
    /// Whether the buckets are those of several nodes.
    is_shared: bool,
    /// Buckets of this node alone beside shared ones: for policies that are per node, and for when the shared ones fail.
    local: MemoryBuckets,
    on_failure: OnFailure,
    budget: Duration,
    has_legacy_fields: bool,
    breaker: Breaker,
    refusals: Refusals,
    /// Notified when a request is refused without asking the store.
    refused_by_memory: Notify,
    counts: Counts,
    /// The warning about a proxy on an exempt address that nobody trusts is written once.
    untrusted_forward: Once,
    untrusted_proxies: UntrustedProxies,
    running: Stopwatch,
}

/// A policy with its counters.
struct Row {
    number: usize,
    policy: Arc<Policy>,
    counts: PolicyCounts,
}

/// The buckets that a request is charged to.
struct Dues<'a> {
    class: Class,
    /// The policy of each charge.
    rows: Vec<&'a Row>,
    charges: Vec<BucketCharge>,
    /// How many of them, the first ones, are of buckets on this node beside a shared store.
    node_charges: usize,
}

impl Dues<'_> {
    fn on_node(&self) -> &[BucketCharge] {
        &self.charges[..self.node_charges]
    }

    fn in_store(&self) -> &[BucketCharge] {
        &self.charges[self.node_charges..]
    }
}

impl Limiter {
    /// A limiter over these buckets. Where they are shared, the caller must run [`Self::keep_probing`].
    pub fn new(settings: LimiterSettings, buckets: Arc<dyn Buckets>) -> Self {
        let LimiterSettings { mut policies, exempt, budget, on_failure, local_keys_max, legacy_fields } =
            settings;
        let is_shared = buckets.take_all_at_once(&[]).is_none();
        policies.sort_by_key(|policy| (is_shared && !policy.is_per_node(), policy.by() == By::Key));
        let concerned = Class::ALL.map(|class| policies.iter().any(|policy| policy.concerns(class)));
        let counts = Counts::default();
        let rows = policies.into_iter().enumerate().map(|(number, policy)| Row {
            number,
            counts: counts.of(policy.name()),
            policy: Arc::new(policy),
        });
        Self {
            rows: rows.collect(),
            concerned,
            exempt,
            buckets,
            is_shared,
            local: MemoryBuckets::new(local_keys_max),
            on_failure,
            budget,
            has_legacy_fields: legacy_fields,
            breaker: Breaker::default(),
            refusals: Refusals::new(),
            refused_by_memory: Notify::new(),
            counts,
            untrusted_forward: Once::new(),
            untrusted_proxies: UntrustedProxies::default(),
            running: Stopwatch::start(),
        }
    }

    /// Whether any budget concerns requests of this class. If not, there is no need to ask, nor to know who the client is.
    pub fn concerns(&self, class: Class) -> bool {
        self.concerned[class.index()]
    }

    /// What becomes of a request, if that is known without waiting: where buckets are on this node, where the client
    /// is known to be refused for a while yet, and where the shared store is out of the way.
    pub fn decide_at_once(&self, descriptor: &RequestDescriptor<'_>, client: &Client) -> Option<Decision> {
        self.decide_dues_at_once(&self.dues(descriptor, client))
    }

    /// What becomes of a request. Waits for a shared store, but never longer than the budget.
    pub async fn decide(&self, descriptor: &RequestDescriptor<'_>, client: &Client) -> Decision {
        let dues = self.dues(descriptor, client);
        match self.decide_dues_at_once(&dues) {
            Some(decision) => decision,
            None => self.ask(&dues).await,
        }
    }

    /// The buckets that a request is charged to, in the order of the policies.
    fn dues<'a>(&'a self, descriptor: &RequestDescriptor<'_>, client: &Client) -> Dues<'a> {
        let (rows, charges) = (Vec::new(), Vec::new());
        let mut dues = Dues { class: descriptor.class, rows, charges, node_charges: 0 };
        if !self.concerns(descriptor.class) || self.is_exempt(client) {
            return dues;
        }
        for row in &self.rows {
            if let Some(cost) = row.policy.cost_of(descriptor) {
                row.policy.add_charges(client, cost, &mut dues.charges);
                dues.rows.resize(dues.charges.len(), row);
                if self.is_shared && row.policy.is_per_node() {
                    dues.node_charges = dues.charges.len();
                }
            }
        }
        dues
    }

    /// Whether a client is never limited. A proxy on an exempt address that nobody has named as trusted speaks for everybody, so what it
    /// forwards is not exempt. On any other address it makes one client of all its visitors.
    fn is_exempt(&self, client: &Client) -> bool {
        if let Some(visitor) = client.forwarded_for {
            self.counts.untrusted_forwards.inc();
            if !self.exempt.contains(client.address) {
                self.untrusted_proxies.note(client.address, visitor);
                return false;
            }
            self.untrusted_forward.call_once(|| {
                tracing::warn!(
                    address = %client.address,
                    "requests from an exempt address carry x-forwarded-for and are rate limited as one client; \
                     name the proxy in trusted_proxies"
                );
            });
            return false;
        }
        self.exempt.contains(client.address)
    }

    fn decide_dues_at_once(&self, dues: &Dues<'_>) -> Option<Decision> {
        if dues.charges.is_empty() {
            return Some(Decision::Unlimited);
        }
        let watch = Stopwatch::start();
        if !self.is_shared {
            let results = self.buckets.take_all_at_once(&dues.charges)?;
            return Some(self.finish(dues, &results, Source::Buckets, &watch));
        }
        if dues.in_store().is_empty() {
            let results = self.local.take_all_now(dues.on_node());
            return Some(self.finish(dues, &results, Source::Buckets, &watch));
        }
        if self.breaker.is_open() {
            return Some(self.decide_without_store(dues, &watch));
        }
        let now = self.now_micros();
        let found = dues.rows.iter().zip(&dues.charges).find_map(|(row, charge)| {
            let taken = self.refusals.find(row.number, charge.key.who, now)?;
            Some((*row, taken))
        });
        let (row, taken) = found?;
        self.refused_by_memory.notify_one();
        let refused = Dues { class: dues.class, rows: vec![row], charges: Vec::new(), node_charges: 0 };
        Some(self.finish(&refused, &[taken], Source::Buckets, &watch))
    }

    /// Asks the shared store for all its buckets at once, if those of this node allow the request.
    async fn ask(&self, dues: &Dues<'_>) -> Decision {
        let watch = Stopwatch::start();
        let mut results = self.local.take_all_now(dues.on_node());
        if results.iter().any(|taken| !taken.allowed) {
            let (rows, charges) = (dues.rows[..dues.node_charges].to_vec(), Vec::new());
            let refused = Dues { class: dues.class, rows, charges, node_charges: dues.node_charges };
            return self.finish(&refused, &results, Source::Buckets, &watch);
        }
        let asked_micros = self.now_micros();
        match tokio::time::timeout(self.budget, self.buckets.take_all(dues.in_store())).await {
            Ok(Ok(shared)) => {
                self.breaker.note_answer();
                let rows = &dues.rows[dues.node_charges..];
                for ((row, charge), taken) in rows.iter().zip(dues.in_store()).zip(&shared) {
                    if !taken.allowed {
                        self.refusals.note(row.number, charge.key.who, asked_micros, taken);
                    }
                }
                if shared.iter().any(|taken| !taken.allowed) {
                    self.local.put_back(dues.on_node());
                }
                results.extend(shared);
                return self.finish(dues, &results, Source::Buckets, &watch);
            }
            Ok(Err(error)) => self.breaker.note_failure(&error),
            Err(_elapsed) => self.breaker.note_late(),
        }
        self.local.put_back(dues.on_node());
        self.decide_without_store(dues, &watch)
    }

    /// Decides without the store.
    fn decide_without_store(&self, dues: &Dues<'_>, watch: &Stopwatch) -> Decision {
        let is_local = self.on_failure.is_local(dues.class);
        let charges = if is_local { &dues.charges[..] } else { dues.on_node() };
        let results = self.local.take_all_now(charges);
        self.finish(dues, &results, Source::Local, watch)
    }

    /// Counts what each policy said, and puts it together. Policies without a result failed open.
    fn finish(&self, dues: &Dues<'_>, results: &[TakeResult], source: Source, watch: &Stopwatch) -> Decision {
        let is_refused = results.iter().any(|taken| !taken.allowed);
        let mut quota: Option<Quota> = None;
        let mut rest = results;
        for policy in dues.rows.chunk_by(|one, other| one.number == other.number) {
            let Row { policy: of, counts, .. } = policy[0];
            let (its_own, further) = rest.split_at(policy.len().min(rest.len()));
            rest = further;
            let Some(taken) = its_own.iter().min_by_key(|taken| nearness_to_refusal(taken)) else {
                counts.failed_open.inc();
                continue;
            };
            // What would have allowed a request that another policy refused was not charged.
            if !taken.allowed || !is_refused {
                let is_local = matches!(source, Source::Local) && !of.is_per_node();
                counts.of(taken.allowed, is_local).inc();
            }
            match &mut quota {
                Some(quota) => quota.add(of, taken),
                None => quota = Some(Quota::new(of, taken, self.has_legacy_fields)),
            }
        }
        self.counts.seconds.observe(watch.elapsed());
        match quota {
            Some(quota) if is_refused => Decision::Refused(quota),
            Some(quota) => Decision::Allowed(quota),
            None => Decision::FailedOpen,
        }
    }

    /// By a clock that never goes back, and says nothing about the time of day.
    fn now_micros(&self) -> u64 {
        u64::try_from(self.running.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Makes the connection to a shared store. To be waited for before the first decision; without it that one fails open.
    pub async fn connect(&self) {
        if let Err(error) = self.buckets.probe().await {
            self.breaker.note_failure(&error);
        }
    }

    /// Closes the breaker whenever the shared store answers again, and in time; opens it if requests are refused by memory and the store
    /// is gone, which nobody would notice otherwise. Runs until it is dropped.
    pub async fn keep_probing(self: Arc<Self>) {
        loop {
            if self.breaker.is_open() {
                let watch = Stopwatch::start();
                match self.buckets.probe().await {
                    Ok(()) if watch.elapsed() <= self.budget => {
                        // What was refused before the loss counts no more: the store may have lost it.
                        self.refusals.clear();
                        self.breaker.close();
                    }
                    // Connecting takes its time; whether the store is fast is seen from the next one.
                    Ok(()) | Err(_) => tokio::time::sleep(PROBE_INTERVAL).await,
                }
                continue;
            }
            tokio::select! {
                () = self.breaker.wait_until_open() => {}
                () = self.refused_by_memory.notified() => self.confirm_store().await,
            }
        }
    }

    /// Finds out whether the store is still there.
    async fn confirm_store(&self) {
        // A probe is awaited to its end, also one that is late.
        let mut probe = self.buckets.probe();
        let probed = match tokio::time::timeout(CONFIRM_TIMEOUT, &mut probe).await {
            Ok(probed) => probed,
            Err(_elapsed) => {
                self.breaker.note_failure(&"it does not answer");
                probe.await
            }
        };
        match probed {
            Err(error) => self.breaker.note_failure(&error),
            Ok(()) => tokio::time::sleep(CONFIRM_INTERVAL).await,
        }
    }

    /// Writes the limiter's figures.
    pub fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let overflowed = self.buckets.overflowed() + self.local.overflowed();
        self.counts.encode(encoder, self.breaker.is_open(), overflowed)
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.rows.iter().map(|row| row.policy.name()).collect();
        formatter.debug_struct("Limiter").field("policies", &names).finish_non_exhaustive()
    }
}

/// Which buckets decided.
#[derive(Clone, Copy)]
enum Source {
    /// The buckets that are meant to.
    Buckets,
    /// Those of this node, in their place.
    Local,
}

/// Of the buckets of one policy the one that stands for it: one that refuses, the longest, or else the one with the least left.
fn nearness_to_refusal(taken: &TakeResult) -> (bool, std::cmp::Reverse<u64>, u64) {
    let retry_after_micros = taken.retry_after_micros.unwrap_or(u64::MAX);
    (taken.allowed, std::cmp::Reverse(retry_after_micros), taken.remaining)
}
