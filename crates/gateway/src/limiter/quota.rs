//! The rate limit headers: the fields of draft-ietf-httpapi-ratelimit-headers, `Retry-After`, and the older
//! `X-RateLimit-*` where they are wanted.
//!
//! `t` is within how many seconds more comes back, as the draft has it since its tenth version, not when the bucket is full.

use std::fmt::Write;
use std::sync::Arc;

use anteroom_core::bucket::TakeResult;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::policy::Policy;

const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const LEGACY_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const LEGACY_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const LEGACY_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

const MICROS_PER_SECOND: u64 = 1_000_000;

/// How a client stands with one budget.
#[derive(Debug, Clone)]
struct Standing {
    policy: Arc<Policy>,
    /// Tokens left.
    remaining: u64,
    /// Within how many seconds there are more; where refused, enough for the same request.
    more_in_seconds: u64,
    is_refused: bool,
}

/// How a client stands with every budget that its request was charged to.
#[derive(Debug, Clone)]
pub struct Quota {
    first: Standing,
    /// Usually none, which then takes no memory.
    further: Vec<Standing>,
    has_legacy_fields: bool,
}

impl Quota {
    pub(super) fn new(policy: &Arc<Policy>, taken: &TakeResult, has_legacy_fields: bool) -> Self {
        Self { first: Standing::new(policy, taken), further: Vec::new(), has_legacy_fields }
    }

    pub(super) fn add(&mut self, policy: &Arc<Policy>, taken: &TakeResult) {
        self.further.push(Standing::new(policy, taken));
    }

    fn standings(&self) -> impl Iterator<Item = &Standing> {
        std::iter::once(&self.first).chain(&self.further)
    }

    /// The names of the budgets that are used up; none if the request is let through.
    pub fn violated_policies(&self) -> impl Iterator<Item = &str> {
        self.standings().filter(|standing| standing.is_refused).map(|standing| standing.policy.name())
    }

    /// After how many seconds the same request would be let through, if it is not.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.standings().filter(|standing| standing.is_refused).map(|standing| standing.more_in_seconds).max()
    }

    /// Adds the fields. Both lists may already have members, an origin's own for example: theirs stay.
    pub fn write(&self, headers: &mut HeaderMap) {
        if self.further.is_empty() {
            headers.append(RATE_LIMIT_POLICY, self.first.policy.header().clone());
        } else {
            let policies: Vec<&str> =
                self.standings().filter_map(|standing| standing.policy.header().to_str().ok()).collect();
            headers.append(RATE_LIMIT_POLICY, text(policies.join(", ")));
        }
        let mut field = String::with_capacity(48);
        for standing in self.standings() {
            if !field.is_empty() {
                field.push_str(", ");
            }
            let Standing { policy, remaining, more_in_seconds, .. } = standing;
            write!(field, "\"{}\";r={remaining};t={more_in_seconds}", policy.name())
                .expect("a String takes everything");
        }
        headers.append(RATE_LIMIT, text(field));
        if self.has_legacy_fields {
            self.write_legacy(headers);
        }
        if let Some(seconds) = self.retry_after_seconds() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
    }

    /// The older fields have room for one budget: the one that is used up, or nearest to it.
    fn write_legacy(&self, headers: &mut HeaderMap) {
        let tightest = self.standings().min_by_key(|standing| (!standing.is_refused, standing.remaining));
        let Some(Standing { policy, remaining, more_in_seconds, .. }) = tightest else { return };
        headers.insert(LEGACY_LIMIT, policy.budget().requests.into());
        headers.insert(LEGACY_REMAINING, (*remaining).into());
        headers.insert(LEGACY_RESET, (*more_in_seconds).into());
    }
}

impl Standing {
    fn new(policy: &Arc<Policy>, taken: &TakeResult) -> Self {
        let more_in_seconds = if taken.allowed {
            policy.next_token_seconds()
        } else {
            // A policy whose requests cost more than its burst cannot be made, so there always is such a moment.
            let micros = taken.retry_after_micros.unwrap_or_default();
            micros.div_ceil(MICROS_PER_SECOND).max(1)
        };
        Self {
            policy: Arc::clone(policy),
            remaining: taken.remaining,
            more_in_seconds,
            is_refused: !taken.allowed,
        }
    }
}

fn text(value: String) -> HeaderValue {
    HeaderValue::try_from(value).expect("names are plain, and the rest is digits")
}

#[cfg(test)]
mod tests {
    use super::super::policy::{Budget, By, Charge};
    use super::*;

    fn policy(name: &str, requests: u64, per_seconds: u64) -> Arc<Policy> {
        let budget = Budget { requests, per_seconds, burst: requests };
        let charge = Charge { class: None, paths: vec![], methods: vec![], cost: 1 };
        Arc::new(Policy::new(name, By::Ip, budget, vec![charge]).unwrap())
    }

    fn take_result(remaining: u64, retry_after_micros: u64) -> TakeResult {
        let allowed = retry_after_micros == 0;
        let retry_after_micros = Some(retry_after_micros);
        TakeResult { allowed, remaining, retry_after_micros, full_at_micros: 0, now_micros: 0 }
    }

    fn header_lines(quota: &Quota) -> Vec<String> {
        let mut headers = HeaderMap::new();
        quota.write(&mut headers);
        let mut lines: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        lines
    }

    #[test]
    fn an_allowed_response_says_what_is_left() {
        let quota = Quota::new(&policy("join", 1_200, 60), &take_result(1_199, 0), false);
        assert_eq!(
            header_lines(&quota),
            ["ratelimit-policy: \"join\";q=1200;w=60", "ratelimit: \"join\";r=1199;t=1"]
        );
        assert_eq!(quota.retry_after_seconds(), None);
        assert_eq!(quota.violated_policies().count(), 0);
        let slow = Quota::new(&policy("rare", 7, 60), &take_result(6, 0), false);
        assert!(header_lines(&slow).contains(&"ratelimit: \"rare\";r=6;t=9".to_owned()));
    }

    #[test]
    fn a_refusal_names_its_policy_and_when_to_retry_never_too_early() {
        let mut quota = Quota::new(&policy("ip", 10, 60), &take_result(3, 0), true);
        quota.add(&policy("key", 5, 60), &take_result(0, 11_000_001));
        assert_eq!(
            header_lines(&quota),
            [
                "ratelimit-policy: \"ip\";q=10;w=60, \"key\";q=5;w=60",
                "ratelimit: \"ip\";r=3;t=6, \"key\";r=0;t=12",
                "retry-after: 12",
                "x-ratelimit-limit: 5",
                "x-ratelimit-remaining: 0",
                "x-ratelimit-reset: 12",
            ]
        );
        assert_eq!(quota.violated_policies().collect::<Vec<_>>(), ["key"]);
        let soon = Quota::new(&policy("key", 5, 60), &take_result(0, 1), false);
        assert_eq!(soon.retry_after_seconds(), Some(1));
    }

    #[test]
    fn an_origins_own_fields_stay() {
        let mut headers = HeaderMap::new();
        headers.insert(RATE_LIMIT, HeaderValue::from_static("\"origin\";r=1"));
        Quota::new(&policy("ip", 10, 60), &take_result(3, 0), false).write(&mut headers);
        let members: Vec<_> = headers.get_all(RATE_LIMIT).iter().collect();
        assert_eq!(members, ["\"origin\";r=1", "\"ip\";r=3;t=6"]);
    }
}
