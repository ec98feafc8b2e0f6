//! Where the token buckets of limits are kept: in this process ([`MemoryBuckets`]) or in a Redis that several nodes share
//! ([`RedisBuckets`]). The rule is [`anteroom_core::bucket::take`], the same in both; here is only whose bucket it is, and where.

mod memory;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use anteroom_core::AddressPrefix;
use anteroom_core::address_prefix::{IPV4_CLIENT_BITS, IPV6_CLIENT_BITS, IPV6_SITE_BITS};
use anteroom_core::bucket::{Limit, TakeResult};
use async_trait::async_trait;

pub use self::memory::{ENTRIES_MAX_DEFAULT, MemoryBuckets};

use crate::contract::StoreError;
pub use crate::redis::RedisBuckets;

/// The longest name of a policy, in characters (all of them ASCII).
pub const POLICY_NAME_MAX_LENGTH: usize = 64;

/// Keeps buckets, and takes tokens out of them.
#[async_trait]
pub trait Buckets: Send + Sync + 'static {
    /// Takes tokens out of all of these buckets, if each of them has enough, else out of none; a result for each, in their
    /// order, as [`anteroom_core::bucket::take_all`] has it. The keys must differ. It waits for nothing but the store, at
    /// most two seconds; a caller with a shorter timeout drops the future, and then the tokens may be gone all the same.
    async fn take_all(&self, charges: &[BucketCharge]) -> Result<Vec<TakeResult>, BucketsError>;

    /// The same without waiting, where nobody has to be asked for it; `None` where only [`Self::take_all`] can say.
    fn take_all_at_once(&self, charges: &[BucketCharge]) -> Option<Vec<TakeResult>>;

    /// Takes `cost` tokens out of one bucket.
    async fn take(&self, key: &BucketKey, limit: &Limit, cost: u64) -> Result<TakeResult, BucketsError> {
        let results = self.take_all(&[BucketCharge { key: key.clone(), limit: *limit, cost }]).await?;
        results.first().copied().ok_or_else(|| BucketsError::Refused("there is no result".into()))
    }

    /// The same without waiting.
    fn take_at_once(&self, key: &BucketKey, limit: &Limit, cost: u64) -> Option<TakeResult> {
        let results = self.take_all_at_once(&[BucketCharge { key: key.clone(), limit: *limit, cost }])?;
        results.first().copied()
    }

    /// Whether buckets can be reached. It mends what can be mended: connects, finds out who the primaries are. So it is
    /// to be asked again and again while [`Self::take`] fails, and once before the first one. It must be awaited to its
    /// end: only its own timeout finds a server that accepts requests and never answers.
    async fn probe(&self) -> Result<(), BucketsError>;

    /// How many requests had to share a bucket with other clients, because there was no place for one of their own.
    fn overflowed(&self) -> u64 {
        0
    }
}

/// Why nobody knows whether a client is within its limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BucketsError {
    /// The store is away, or not ready. Nothing was taken.
    #[error("the store of the limits is not available: {0}")]
    Unavailable(String),
    /// There was no answer. Tokens may have been taken.
    #[error("the store of the limits has not answered: {0}")]
    Unanswered(String),
    /// The store refuses, and will go on refusing until an operator changes something: a permission, a password, an
    /// address.
    #[error("the store of the limits refuses: {0}")]
    Refused(String),
}

impl From<StoreError> for BucketsError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Transient(why) => Self::Unavailable(why),
            StoreError::Ambiguous(why) => Self::Unanswered(why),
            StoreError::Permanent(why) => Self::Refused(why),
        }
    }
}

/// The name of a policy: `[A-Za-z0-9_.-]{1,64}`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PolicyName(Arc<str>);

/// Why a text is not the name of a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name of a limit is 1 to {POLICY_NAME_MAX_LENGTH} characters out of A-Z, a-z, 0-9, '_', '.' and '-'"
)]
pub struct InvalidPolicyName;

impl PolicyName {
    /// Checks `text` against the pattern above.
    pub fn parse(text: &str) -> Result<Self, InvalidPolicyName> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        if text.is_empty() || text.len() > POLICY_NAME_MAX_LENGTH || !text.bytes().all(allowed) {
            return Err(InvalidPolicyName);
        }
        Ok(Self(text.into()))
    }

    /// The name as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the same, found out quickly where it is the very same value.
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl fmt::Debug for PolicyName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PolicyName({})", self.0)
    }
}

/// Whose bucket it is: an address, a network, or the digest of an API key. Small, because there may be a million of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Who(Kind);

/// How much of an IPv6 address counts. The holder of one address holds its /64; many hold the /56 or the /48 around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ipv6Prefix {
    /// What one household or one telephone has at least.
    Bits64,
    /// What many providers give to a household.
    Bits56,
    /// What providers give to a company, and tunnel brokers to anybody.
    Bits48,
}

impl Ipv6Prefix {
    /// From the narrowest to the widest.
    pub const ALL: [Self; 3] = [Self::Bits64, Self::Bits56, Self::Bits48];

    /// How many bits of an address it has.
    const fn bits(self) -> u32 {
        match self {
            Self::Bits64 => IPV6_CLIENT_BITS,
            Self::Bits56 => 56,
            Self::Bits48 => IPV6_SITE_BITS,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    Ipv4([u8; 4]),
    /// The first half of an address, as far as it counts; the rest is zero.
    Ipv6Network(Ipv6Prefix, [u8; 8]),
    /// The first half of a SHA-256. Two keys with the same one are not to be found.
    Digest([u8; 16]),
}

impl Who {
    /// Any client at this address. IPv6 counts by its /64, and IPv4 that is written as IPv6 as IPv4.
    pub fn address(address: IpAddr) -> Self {
        Self::network(address, Ipv6Prefix::Bits64)
    }

    /// Any client at this IPv4 address, or in this network of IPv6.
    pub fn network(address: IpAddr, prefix: Ipv6Prefix) -> Self {
        match AddressPrefix::of(address, IPV4_CLIENT_BITS, prefix.bits()).address() {
            IpAddr::V4(address) => Self(Kind::Ipv4(address.octets())),
            IpAddr::V6(network) => {
                let mut first_half = [0; 8];
                first_half.copy_from_slice(&network.octets()[..8]);
                Self(Kind::Ipv6Network(prefix, first_half))
            }
        }
    }

    /// What kind of client it is: buckets of different kinds have different limits under one name.
    const fn kind(&self) -> u8 {
        match self.0 {
            Kind::Ipv4(_) => 0,
            Kind::Ipv6Network(prefix, _) => 1 + prefix as u8,
            Kind::Digest(_) => u8::MAX,
        }
    }

    /// The holder of the API key of this digest.
    pub fn digest(sha256: &[u8; 32]) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&sha256[..16]);
        Self(Kind::Digest(half))
    }
}

/// As it is written in a key of Redis: never with a brace or a control character.
impl fmt::Display for Who {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Ipv4(octets) => fmt::Display::fmt(&Ipv4Addr::from(octets), formatter),
            Kind::Ipv6Network(prefix, network) => {
                let mut octets = [0; 16];
                octets[..8].copy_from_slice(&network);
                write!(formatter, "{}/{}", Ipv6Addr::from(octets), prefix.bits())
            }
            Kind::Digest(half) => half.iter().try_for_each(|byte| write!(formatter, "{byte:02x}")),
        }
    }
}

/// Names one bucket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BucketKey {
    /// Of which limit.
    pub policy: PolicyName,
    /// Of whom.
    pub who: Who,
}

/// One bucket that a request is charged to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketCharge {
    /// Which bucket.
    pub key: BucketKey,
    /// Its limit.
    pub limit: Limit,
    /// How many tokens the request takes.
    pub cost: u64,
}

/// Its key in Redis: `rate_limit:<policy>:<who>`. There is no hash tag in it, so buckets are spread over a whole cluster.
impl fmt::Display for BucketKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "rate_limit:{}:{}", self.policy.as_str(), self.who)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(policy: &str, address: &str) -> String {
        let policy = PolicyName::parse(policy).unwrap();
        BucketKey { policy, who: Who::address(address.parse().unwrap()) }.to_string()
    }

    #[test]
    fn keys_are_written_as_documented() {
        assert_eq!(key("join", "203.0.113.7"), "rate_limit:join:203.0.113.7");
        assert_eq!(key("join", "::ffff:203.0.113.7"), "rate_limit:join:203.0.113.7");
        assert_eq!(key("a.b_c-d", "2001:db8:1:2:3:4:5:6"), "rate_limit:a.b_c-d:2001:db8:1:2::/64");
        assert_eq!(key("join", "::1"), "rate_limit:join:::/64");
        let digest = std::array::from_fn(|index| u8::try_from(index).unwrap());
        assert_eq!(Who::digest(&digest).to_string(), "000102030405060708090a0b0c0d0e0f");
        assert_eq!(size_of::<Who>(), 17);
    }

    #[test]
    fn networks_around_an_address_have_keys_of_their_own() {
        let address: IpAddr = "2001:db8:1:2ff:3:4:5:6".parse().unwrap();
        let written = Ipv6Prefix::ALL.map(|prefix| Who::network(address, prefix).to_string());
        assert_eq!(written, ["2001:db8:1:2ff::/64", "2001:db8:1:200::/56", "2001:db8:1::/48"]);
        let of_zero = Ipv6Prefix::ALL.map(|prefix| Who::network(Ipv6Addr::UNSPECIFIED.into(), prefix));
        assert!(of_zero[0] != of_zero[1] && of_zero[1] != of_zero[2]);
        assert_eq!(of_zero[0], Who::address("::1".parse().unwrap()));
    }

    #[test]
    fn only_the_same_client_has_the_same_bucket() {
        let who = |address: &str| Who::address(address.parse().unwrap());
        assert_eq!(who("2001:db8::1"), who("2001:db8::ffff:ffff:ffff:ffff"));
        assert_ne!(who("2001:db8::1"), who("2001:db8:0:1::1"));
        assert_ne!(who("203.0.113.7"), who("203.0.113.8"));
        // The same bytes, once as an address and once as a key, are not the same client.
        assert_ne!(who("::"), Who::digest(&[0; 32]));
    }

    #[test]
    fn names_that_would_break_a_key_are_refused() {
        let long = "x".repeat(POLICY_NAME_MAX_LENGTH + 1);
        for bad in ["", "a b", "a:b", "{a}", "a\n", "ä", long.as_str()] {
            assert_eq!(PolicyName::parse(bad).unwrap_err(), InvalidPolicyName, "{bad}");
        }
        assert!(PolicyName::parse(&"x".repeat(POLICY_NAME_MAX_LENGTH)).is_ok());
    }
}
