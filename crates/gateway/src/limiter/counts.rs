//! Counts of the limiter's decisions, for `/metrics`.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;

/// Upper ends of the buckets of a decision's time, in microseconds. Finest around the 5 ms that a decision may take.
const TIMES_MICROS: [u64; 12] = [10, 25, 50, 100, 250, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    policy: String,
    decision: &'static str,
}

/// The counters of one policy, found beforehand: raising one is a single atomic.
#[derive(Debug)]
pub(super) struct PolicyCounts {
    allowed: Counter,
    dropped: Counter,
    pub(super) failed_open: Counter,
    local_allowed: Counter,
    local_dropped: Counter,
}

impl PolicyCounts {
    /// The counter of a decision by buckets, or by those of this node in their place.
    pub(super) const fn of(&self, is_allowed: bool, is_local: bool) -> &Counter {
        match (is_allowed, is_local) {
            (true, false) => &self.allowed,
            (false, false) => &self.dropped,
            (true, true) => &self.local_allowed,
            (false, true) => &self.local_dropped,
        }
    }
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Requests that came through a proxy nobody trusts.
    pub(super) untrusted_forwards: Counter,
    decisions: Family<DecisionLabels, Counter>,
    pub(super) seconds: DecisionTimes,
}

impl Counts {
    /// The counters of a policy, which are shown from the start.
    pub(super) fn of(&self, policy: &str) -> PolicyCounts {
        let counter = |decision: &'static str| {
            self.decisions.get_or_create(&DecisionLabels { policy: policy.to_owned(), decision }).clone()
        };
        PolicyCounts {
            allowed: counter("allowed"),
            dropped: counter("dropped"),
            failed_open: counter("failed_open"),
            local_allowed: counter("local_allowed"),
            local_dropped: counter("local_dropped"),
        }
    }

    /// Writes all figures.
    pub(super) fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        is_breaker_open: bool,
        overflowed: u64,
    ) -> fmt::Result {
        let help =
            "Decisions of the limiter, by budget; local_ where a node decided alone because the store failed";
        let metric = encoder.encode_descriptor("limiter_decisions", help, None, MetricType::Counter)?;
        self.decisions.encode(metric)?;
        let help = "Time a decision of the limiter took";
        let metric =
            encoder.encode_descriptor("limiter_decision_seconds", help, None, MetricType::Histogram)?;
        self.seconds.encode(metric)?;
        let help = "1 while the limiter's store fails and is not waited for";
        let metric = encoder.encode_descriptor("limiter_breaker_open", help, None, MetricType::Gauge)?;
        ConstGauge::new(i64::from(is_breaker_open)).encode(metric)?;
        let help =
            "Requests charged to a bucket that clients share because there is no room for one of their own";
        let metric = encoder.encode_descriptor("limiter_overflow", help, None, MetricType::Counter)?;
        ConstCounter::new(overflowed).encode(metric)?;
        let help = "Requests that say they are forwarded by a proxy that trusted_proxies does not name";
        let metric =
            encoder.encode_descriptor("limiter_untrusted_forwards", help, None, MetricType::Counter)?;
        self.untrusted_forwards.encode(metric)
    }
}

/// How long decisions took. Atomics only, because every limited request is counted here.
#[derive(Debug, Default)]
pub(super) struct DecisionTimes {
    buckets: [AtomicU64; TIMES_MICROS.len() + 1],
    total_nanos: AtomicU64,
}

impl DecisionTimes {
    pub(super) fn observe(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let index = TIMES_MICROS.iter().position(|end| nanos <= end * 1_000).unwrap_or(TIMES_MICROS.len());
        self.buckets[index].fetch_add(1, Ordering::Relaxed);
        self.total_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    fn encode(&self, mut metric: prometheus_client::encoding::MetricEncoder<'_>) -> fmt::Result {
        let ends = TIMES_MICROS.iter().map(|micros| Duration::from_micros(*micros).as_secs_f64());
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = ends.chain([f64::INFINITY]).zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = Duration::from_nanos(self.total_nanos.load(Ordering::Relaxed)).as_secs_f64();
        let no_examples: Option<
            &HashMap<usize, prometheus_client::metrics::exemplar::Exemplar<NoLabelSet, f64>>,
        > = None;
        metric.encode_histogram(sum, count, &buckets, no_examples)
    }
}
