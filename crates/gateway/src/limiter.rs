//! **limit**: keeps each client within its budgets of requests.
//!
//! A [`Policy`] says how much of what is allowed to whom; a token bucket for each client says how much of that is left. Buckets
//! live on this node or in a Redis that all nodes share (`anteroom_store::buckets`). Budgets by address come first, then those
//! by key; the first that is used up refuses the request, and what was taken from those before it stays taken.
//!
//! **It fails open.** It protects the site from a few who ask too much; if it cannot tell, every request is let through and a metric
//! says so. A shared store that fails, or does not answer within the budget of time, never keeps a visitor waiting: `breaker`
//! takes it out of the way, [`Limiter::keep_probing`] brings it back.
//!
//! *Invariant:* every policy that a request is charged to counts one decision: allowed, dropped, or made without the store.

mod breaker;
mod counts;
mod policy;
mod quota;
mod refusals;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anteroom_core::bucket::{Limit, TakeResult};
use anteroom_store::buckets::{BucketKey, Buckets, MemoryBuckets};
use anteroom_store::clock::Stopwatch;
use prometheus_client::encoding::DescriptorEncoder;

pub use policy::{
    Budget, By, CHARGE_LIST_MAX, CHARGES_MAX, COST_MAX, Charge, Class, POLICIES_MAX, Policy, PolicyError,
    RequestDescriptor,
};
pub use quota::Quota;

use crate::identify::{Client, Networks};
use breaker::Breaker;
use counts::{Counts, PolicyCounts};
use refusals::Refusals;

/// How long after a failed probe the next one follows.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// What happens to requests while the shared store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// All are let through.
    Open,
    /// This node decides alone, by buckets of its own that begin full.
    Local,
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
    /// Those by address before those by key.
    rows: Vec<Row>,
    /// Which classes any policy concerns, by their index: the others cost nothing.
    concerned: [bool; Class::ALL.len()],
    exempt: Networks,
    buckets: Arc<dyn Buckets>,
    /// Buckets of this node alone, for when the shared ones fail.
    local: Option<MemoryBuckets>,
    budget: Duration,
    has_legacy_fields: bool,
    breaker: Breaker,
    refusals: Refusals,
    counts: Counts,
    running: Stopwatch,
}

/// A policy with its counters.
struct Row {
    number: usize,
    policy: Arc<Policy>,
    counts: PolicyCounts,
}

/// A bucket that a request is charged to.
struct DueCharge<'a> {
    row: &'a Row,
    bucket: BucketKey,
    cost: u64,
}

impl DueCharge<'_> {
    fn limit(&self) -> &Limit {
        self.row.policy.limit()
    }
}

impl Limiter {
    /// A limiter over these buckets. Where they are shared, the caller must run [`Self::keep_probing`].
    pub fn new(settings: LimiterSettings, buckets: Arc<dyn Buckets>) -> Self {
        let LimiterSettings { mut policies, exempt, budget, on_failure, local_keys_max, legacy_fields } =
            settings;
        policies.sort_by_key(|policy| policy.by() == By::Key);
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
            local: (on_failure == OnFailure::Local).then(|| MemoryBuckets::new(local_keys_max)),
            budget,
            has_legacy_fields: legacy_fields,
            breaker: Breaker::default(),
            refusals: Refusals::new(),
            counts,
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
        let mut dues = self.dues(descriptor, client);
        let Some(mut due) = dues.next() else { return Some(Decision::Unlimited) };
        let watch = Stopwatch::start();
        let mut outcome = PolicyResults::new(self.has_legacy_fields);
        loop {
            // Buckets that decide at once always do, so nothing has been taken when they do not.
            let Some(taken) = self.buckets.take_at_once(&due.bucket, due.limit(), due.cost) else {
                return self.decide_without_asking(descriptor, client, &watch);
            };
            outcome.note(&due, &taken, Source::Buckets);
            match dues.next().filter(|_| taken.allowed) {
                Some(next) => due = next,
                None => break,
            }
        }
        Some(self.finish(outcome, &watch))
    }

    /// What becomes of a request. Waits for a shared store, but never longer than the budget.
    pub async fn decide(&self, descriptor: &RequestDescriptor<'_>, client: &Client) -> Decision {
        match self.decide_at_once(descriptor, client) {
            Some(decision) => decision,
            None => self.ask(descriptor, client).await,
        }
    }

    /// The buckets that a request is charged to, in their order.
    fn dues<'a>(
        &'a self,
        descriptor: &'a RequestDescriptor<'_>,
        client: &'a Client,
    ) -> impl Iterator<Item = DueCharge<'a>> {
        let is_concerned = self.concerns(descriptor.class) && !self.exempt.contains(client.address);
        let rows = if is_concerned { &self.rows[..] } else { &[] };
        rows.iter().filter_map(|row| {
            let cost = row.policy.cost_of(descriptor)?;
            Some(DueCharge { row, bucket: row.policy.bucket_of(client)?, cost })
        })
    }

    /// The same for a shared store, as far as it need not be asked.
    fn decide_without_asking(
        &self,
        descriptor: &RequestDescriptor<'_>,
        client: &Client,
        watch: &Stopwatch,
    ) -> Option<Decision> {
        let mut outcome = PolicyResults::new(self.has_legacy_fields);
        if self.breaker.is_open() {
            for due in self.dues(descriptor, client) {
                if !self.decide_without_store(&due, &mut outcome) {
                    break;
                }
            }
            return Some(self.finish(outcome, watch));
        }
        let now = self.now_micros();
        let refused = self.dues(descriptor, client).find_map(|due| {
            let taken = self.refusals.find(due.row.number, due.bucket.who, now)?;
            Some((due, taken))
        });
        let (due, taken) = refused?;
        outcome.note(&due, &taken, Source::Buckets);
        Some(self.finish(outcome, watch))
    }

    /// Asks the shared store.
    async fn ask(&self, descriptor: &RequestDescriptor<'_>, client: &Client) -> Decision {
        let watch = Stopwatch::start();
        let mut outcome = PolicyResults::new(self.has_legacy_fields);
        for due in self.dues(descriptor, client) {
            let goes_on = match self.take(&due, &watch).await {
                Some(taken) => {
                    outcome.note(&due, &taken, Source::Buckets);
                    taken.allowed
                }
                None => self.decide_without_store(&due, &mut outcome),
            };
            if !goes_on {
                break;
            }
        }
        self.finish(outcome, &watch)
    }

    /// What the shared store says within what is left of the budget.
    async fn take(&self, due: &DueCharge<'_>, watch: &Stopwatch) -> Option<TakeResult> {
        if self.breaker.is_open() {
            return None;
        }
        let asked_micros = self.now_micros();
        let rest = self.budget.saturating_sub(watch.elapsed());
        match tokio::time::timeout(rest, self.buckets.take(&due.bucket, due.limit(), due.cost)).await {
            Ok(Ok(taken)) => {
                self.breaker.note_answer();
                if !taken.allowed {
                    self.refusals.note(due.row.number, due.bucket.who, asked_micros, &taken);
                }
                Some(taken)
            }
            Ok(Err(error)) => {
                self.breaker.note_failure(&error);
                None
            }
            Err(_elapsed) => {
                self.breaker.note_late();
                None
            }
        }
    }

    /// Decides without the store. Whether the request may go on.
    fn decide_without_store(&self, due: &DueCharge<'_>, outcome: &mut PolicyResults) -> bool {
        let local = self.local.as_ref();
        if let Some(taken) = local.and_then(|local| local.take_at_once(&due.bucket, due.limit(), due.cost)) {
            outcome.note(due, &taken, Source::Local);
            return taken.allowed;
        }
        due.row.counts.failed_open.inc();
        true
    }

    fn finish(&self, outcome: PolicyResults, watch: &Stopwatch) -> Decision {
        self.counts.seconds.observe(watch.elapsed());
        outcome.decision()
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

    /// Closes the breaker whenever the shared store answers again, and in time. Runs until it is dropped.
    pub async fn keep_probing(self: Arc<Self>) {
        loop {
            self.breaker.wait_until_open().await;
            let watch = Stopwatch::start();
            match self.buckets.probe().await {
                Ok(()) if watch.elapsed() <= self.budget => self.breaker.close(),
                // Connecting takes its time; whether the store is fast is seen from the next one.
                Ok(()) | Err(_) => tokio::time::sleep(PROBE_INTERVAL).await,
            }
        }
    }

    /// Writes the limiter's figures.
    pub fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let local = self.local.as_ref().map_or(0, Buckets::overflowed);
        self.counts.encode(encoder, self.breaker.is_open(), self.buckets.overflowed() + local)
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

/// What the policies of one request said so far.
struct PolicyResults {
    quota: Option<Quota>,
    is_refused: bool,
    has_legacy_fields: bool,
}

impl PolicyResults {
    const fn new(has_legacy_fields: bool) -> Self {
        Self { quota: None, is_refused: false, has_legacy_fields }
    }

    fn note(&mut self, due: &DueCharge<'_>, taken: &TakeResult, source: Source) {
        let Row { policy, counts, .. } = due.row;
        let counter = match (source, taken.allowed) {
            (Source::Buckets, true) => &counts.allowed,
            (Source::Buckets, false) => &counts.dropped,
            (Source::Local, true) => &counts.local_allowed,
            (Source::Local, false) => &counts.local_dropped,
        };
        counter.inc();
        self.is_refused |= !taken.allowed;
        match &mut self.quota {
            Some(quota) => quota.add(policy, taken),
            None => self.quota = Some(Quota::new(policy, taken, self.has_legacy_fields)),
        }
    }

    fn decision(self) -> Decision {
        match self.quota {
            Some(quota) if self.is_refused => Decision::Refused(quota),
            Some(quota) => Decision::Allowed(quota),
            None => Decision::FailedOpen,
        }
    }
}
