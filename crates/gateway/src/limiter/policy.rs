//! What is allowed: budgets with names, and the requests that are charged to them.

use std::net::IpAddr;

use anteroom_core::bucket::{Limit, LimitError};
use anteroom_store::buckets::{BucketCharge, BucketKey, InvalidPolicyName, Ipv6Prefix, PolicyName, Who};
use http::{HeaderValue, Method};

use crate::classify::plain_path::plain;
use crate::identify::Client;

/// How many budgets there may be: every request may be compared with each.
pub const POLICIES_MAX: usize = 64;
/// How many charges one budget may have.
pub const CHARGES_MAX: usize = 64;
/// How many prefixes or methods one charge may name.
pub const CHARGE_LIST_MAX: usize = 64;
/// The most one request may cost.
pub const COST_MAX: u64 = 1_000_000;

/// How many times the budget of a /64 the networks of IPv6 have, in the order of [`Ipv6Prefix::ALL`]. The holder of a /48 has 65,536
/// networks of /64; a company has a /48 of many people, and a carrier gives a /64 to each telephone.
pub const IPV6_FACTORS: [u64; 3] = [1, 8, 64];

/// What a request is for, as far as budgets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Takes a place in line.
    Join,
    /// Turns a place into a pass, renews it, or gives it up.
    Claim,
    /// Takes a place to another device.
    Move,
    /// Everything else of our own API: it reads, and changes nothing.
    Read,
    /// For the protected site.
    Gateway,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 5] = [Self::Join, Self::Claim, Self::Move, Self::Read, Self::Gateway];

    /// Its name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Claim => "claim",
            Self::Move => "move",
            Self::Read => "read",
            Self::Gateway => "gateway",
        }
    }

    /// The class of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == name)
    }

    pub(super) const fn index(self) -> usize {
        self as usize
    }
}

/// A request, as far as budgets go.
#[derive(Debug, Clone, Copy)]
pub struct RequestDescriptor<'a> {
    /// What it is for.
    pub class: Class,
    /// Its method.
    pub method: &'a Method,
    /// Its path, as sent, without `/.anteroom`.
    pub path: &'a str,
}

/// What a budget is kept for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Each address has one; of IPv6 each /64, and the /56 and /48 around it have [several times](IPV6_FACTORS) as much.
    Ip,
    /// Each key has one. A client that shows none is not charged.
    Key,
}

/// Which requests are charged, and how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// Only those of this class; of any, where there is none.
    pub class: Option<Class>,
    /// Only those under one of these paths; under any, where there is none. `/a` is the path of `/a` and `/a/b`, not of `/ab`.
    pub paths: Vec<String>,
    /// Only those of these methods; of any, where there is none.
    pub methods: Vec<Method>,
    /// How many tokens each takes.
    pub cost: u64,
}

impl Charge {
    fn fits(&self, descriptor: &RequestDescriptor<'_>) -> bool {
        self.class.is_none_or(|class| class == descriptor.class)
            && (self.methods.is_empty() || self.methods.contains(descriptor.method))
            && (self.paths.is_empty() || self.is_under_a_path(descriptor.path))
    }

    fn is_under_a_path(&self, path: &str) -> bool {
        let path = plain(path);
        self.paths.iter().any(|prefix| is_under(&path, prefix.as_bytes()))
    }
}

/// Whether a path is a prefix or below it.
fn is_under(path: &[u8], prefix: &[u8]) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| matches!(rest, [] | [b'/', ..]) || prefix.ends_with(b"/"))
}

/// How much of what is allowed, in the words of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// So many tokens come back …
    pub requests: u64,
    /// … in so many seconds,
    pub per_seconds: u64,
    /// and so many may be taken at once.
    pub burst: u64,
}

/// A budget with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    name: PolicyName,
    by: By,
    budget: Budget,
    /// Of an address, then of wider networks of IPv6 addresses.
    limits: [Limit; IPV6_FACTORS.len()],
    charges: Vec<Charge>,
    is_per_node: bool,
    /// The whole of its `RateLimit-Policy`.
    header: HeaderValue,
}

/// Why something is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A name that cannot stand in header fields, metrics and keys alike.
    #[error(transparent)]
    BadName(#[from] InvalidPolicyName),
    /// Numbers that are not a limit.
    #[error(transparent)]
    BadLimit(#[from] LimitError),
    /// A request that is never let through.
    #[error("a request that costs {cost} is never allowed with a burst of {burst}")]
    NeverAllowed {
        /// What it costs.
        cost: u64,
        /// What can be taken at once.
        burst: u64,
    },
    /// Free of charge, or absurdly dear.
    #[error("a request costs 1 to {COST_MAX}")]
    BadCost,
    /// No charges, or too many.
    #[error("a budget has 1 to {CHARGES_MAX} charges, each with at most {CHARGE_LIST_MAX} paths and methods")]
    BadCharges,
    /// A path that no request has.
    #[error("`{0}` is no path; it begins with /, and its escapes are text")]
    BadPath(String),
}

impl Policy {
    /// A budget. The first of its charges that fits a request says what that costs.
    pub fn new(name: &str, by: By, budget: Budget, mut charges: Vec<Charge>) -> Result<Self, PolicyError> {
        let name = PolicyName::parse(name)?;
        let limit = Limit::new(budget.requests, budget.per_seconds, budget.burst)?;
        let is_short = |charge: &Charge| charge.paths.len().max(charge.methods.len()) <= CHARGE_LIST_MAX;
        if charges.is_empty() || charges.len() > CHARGES_MAX || !charges.iter().all(is_short) {
            return Err(PolicyError::BadCharges);
        }
        for charge in &mut charges {
            check(charge, budget.burst)?;
            for path in &mut charge.paths {
                let Ok(plain) = String::from_utf8(plain(path).into_owned()) else {
                    return Err(PolicyError::BadPath(path.clone()));
                };
                *path = plain;
            }
        }
        let header = format!("\"{}\";q={};w={}", name.as_str(), budget.requests, budget.per_seconds);
        let header = HeaderValue::try_from(header).expect("letters and digits");
        let limits = IPV6_FACTORS.map(|factor| wider(budget, factor).unwrap_or(limit));
        Ok(Self { name, by, budget, limits, charges, is_per_node: false, header })
    }

    /// The same budget on each node for itself, also where budgets are in a Redis: what it costs is a look at memory.
    #[must_use]
    pub fn per_node(self) -> Self {
        Self { is_per_node: true, ..self }
    }

    /// Whether each node has it for itself.
    pub const fn is_per_node(&self) -> bool {
        self.is_per_node
    }

    /// Its name, in metrics, header fields and problems.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Whose it is.
    pub const fn by(&self) -> By {
        self.by
    }

    /// What it allows.
    pub const fn budget(&self) -> Budget {
        self.budget
    }

    /// Its `RateLimit-Policy`.
    pub(super) const fn header(&self) -> &HeaderValue {
        &self.header
    }

    /// Whether any request of a class can be charged to it.
    pub(super) fn concerns(&self, class: Class) -> bool {
        self.charges.iter().any(|charge| charge.class.is_none_or(|only| only == class))
    }

    /// What a request costs. `None` if it is not charged to this budget.
    pub(super) fn cost_of(&self, descriptor: &RequestDescriptor<'_>) -> Option<u64> {
        self.charges.iter().find(|charge| charge.fits(descriptor)).map(|charge| charge.cost)
    }

    /// Adds the buckets that are charged. None if this client has none.
    pub(super) fn add_charges(&self, client: &Client, cost: u64, charges: &mut Vec<BucketCharge>) {
        let mut add = |who: Who, limit: Limit| {
            charges.push(BucketCharge { key: BucketKey { policy: self.name.clone(), who }, limit, cost });
        };
        match (self.by, client.address.to_canonical(), client.key) {
            (By::Ip, address @ IpAddr::V6(_), _) => {
                for (prefix, limit) in Ipv6Prefix::ALL.into_iter().zip(self.limits) {
                    add(Who::network(address, prefix), limit);
                }
            }
            (By::Ip, address @ IpAddr::V4(_), _) => add(Who::address(address), self.limits[0]),
            (By::Key, _, Some(key)) => add(Who::digest(key.as_bytes()), self.limits[0]),
            (By::Key, _, None) => {}
        }
    }

    /// Within how many seconds the next token comes back, at most.
    pub(super) fn next_token_seconds(&self) -> u64 {
        self.budget.per_seconds.div_ceil(self.budget.requests)
    }
}

/// So many times a budget, or as many times of it as can be computed with: half as many, and again.
fn wider(budget: Budget, factor: u64) -> Option<Limit> {
    let Budget { requests, per_seconds, burst } = budget;
    let halves = std::iter::successors(Some(factor), |factor| (*factor > 1).then_some(factor / 2));
    let mut limits = halves.filter_map(|factor| {
        Limit::new(requests.checked_mul(factor)?, per_seconds, burst.checked_mul(factor)?).ok()
    });
    limits.next()
}

fn check(charge: &Charge, burst: u64) -> Result<(), PolicyError> {
    if !(1..=COST_MAX).contains(&charge.cost) {
        return Err(PolicyError::BadCost);
    }
    if charge.cost > burst {
        return Err(PolicyError::NeverAllowed { cost: charge.cost, burst });
    }
    match charge.paths.iter().find(|path| !path.starts_with('/')) {
        Some(path) => Err(PolicyError::BadPath(path.clone())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Budget = Budget { requests: 10, per_seconds: 60, burst: 20 };

    fn charge() -> Charge {
        Charge { class: None, paths: vec![], methods: vec![], cost: 1 }
    }

    fn descriptor<'a>(class: Class, method: &'a Method, path: &'a str) -> RequestDescriptor<'a> {
        RequestDescriptor { class, method, path }
    }

    #[test]
    fn a_prefix_ends_where_a_part_of_the_path_ends() {
        let is_under = |path: &str, prefix: &str| is_under(path.as_bytes(), prefix.as_bytes());
        for path in ["/a", "/a/", "/a/b", "/a//"] {
            assert!(is_under(path, "/a"), "{path}");
        }
        for path in ["/ab", "/", "/A", "/b/a", "a"] {
            assert!(!is_under(path, "/a"), "{path}");
        }
        assert!(is_under("/anything", "/") && is_under("/", "/"));
        assert!(is_under("/a/b", "/a/") && !is_under("/a", "/a/"));
    }

    #[test]
    fn the_first_charge_that_fits_says_what_a_request_costs() {
        let charges = vec![
            Charge { paths: vec!["/search".into()], methods: vec![Method::GET], cost: 10, ..charge() },
            Charge {
                class: Some(Class::Gateway),
                methods: vec![Method::GET, Method::POST],
                cost: 2,
                ..charge()
            },
            Charge { class: Some(Class::Join), ..charge() },
        ];
        let policy = Policy::new("shop", By::Ip, BUDGET, charges).unwrap();
        for (class, method, path, cost) in [
            (Class::Gateway, Method::GET, "/search/x", Some(10)),
            (Class::Read, Method::GET, "/search", Some(10)),
            (Class::Read, Method::GET, "/x/..//%73earch/y", Some(10)),
            (Class::Gateway, Method::POST, "/search", Some(2)),
            (Class::Gateway, Method::PUT, "/search", None),
            (Class::Join, Method::PUT, "/join", Some(1)),
            (Class::Read, Method::GET, "/status", None),
        ] {
            assert_eq!(policy.cost_of(&descriptor(class, &method, path)), cost, "{class:?} {method} {path}");
        }
        assert_eq!(Class::ALL.map(|class| policy.concerns(class)), [true; 5]);
        let joins = Charge { class: Some(Class::Join), ..charge() };
        let policy = Policy::new("joins", By::Ip, BUDGET, vec![joins]).unwrap();
        assert_eq!(Class::ALL.map(|class| policy.concerns(class)), [true, false, false, false, false]);
    }

    #[test]
    fn wider_networks_have_a_multiple_of_the_budget_as_far_as_it_can_be_computed_with() {
        let limits = |budget| Policy::new("a", By::Ip, budget, vec![charge()]).unwrap().limits;
        let limit = |requests, burst| Limit::new(requests, 60, burst).unwrap();
        assert_eq!(limits(BUDGET), [limit(10, 20), limit(80, 160), limit(640, 1_280)]);
        // A million a second is the fastest there is.
        let fast = Budget { requests: 200_000, per_seconds: 1, burst: 1 };
        let expected = [(200_000, 1), (800_000, 4), (800_000, 4)];
        assert_eq!(limits(fast), expected.map(|(requests, burst)| Limit::new(requests, 1, burst).unwrap()));
    }

    #[test]
    fn what_cannot_be_kept_is_no_policy() {
        let make = |name: &str, budget, charges| Policy::new(name, By::Ip, budget, charges).map(|_| ());
        for name in ["", "a b", "a\"", "a:b", "é"] {
            assert_eq!(
                make(name, BUDGET, vec![charge()]),
                Err(PolicyError::BadName(InvalidPolicyName)),
                "{name}"
            );
        }
        let none = Budget { requests: 0, ..BUDGET };
        assert_eq!(make("a", none, vec![charge()]), Err(PolicyError::BadLimit(LimitError::NoRate)));
        assert_eq!(make("a", BUDGET, vec![]), Err(PolicyError::BadCharges));
        assert_eq!(make("a", BUDGET, vec![charge(); CHARGES_MAX + 1]), Err(PolicyError::BadCharges));
        let many = Charge { paths: vec!["/".into(); CHARGE_LIST_MAX + 1], ..charge() };
        assert_eq!(make("a", BUDGET, vec![many]), Err(PolicyError::BadCharges));
        assert_eq!(make("a", BUDGET, vec![Charge { cost: 0, ..charge() }]), Err(PolicyError::BadCost));
        let dear = Charge { cost: 21, ..charge() };
        assert_eq!(
            make("a", BUDGET, vec![charge(), dear]),
            Err(PolicyError::NeverAllowed { cost: 21, burst: 20 })
        );
        let relative = Charge { paths: vec!["/a".into(), "b".into()], ..charge() };
        assert_eq!(make("a", BUDGET, vec![relative]), Err(PolicyError::BadPath("b".into())));
    }
}
