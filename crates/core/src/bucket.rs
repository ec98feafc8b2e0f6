//! The token bucket: how many requests a client has left.
//!
//! A bucket holds at most [`Limit::burst`] tokens; each request takes its cost out of it, and time puts tokens back at the limit's rate.
//! [`take`] is the whole rule (and [`take_all`] the same for several buckets at once: all or none), in whole numbers only: the script that keeps buckets in Redis computes the same, bit for bit, though
//! Lua knows nothing but doubles. So every product here stays below 2^53; [`Limit::new`] refuses limits for which it would not.
//!
//! *Invariant:* in no interval of length t are more than burst + rate x t tokens taken, however often the clock goes back in between.
//! *Invariant:* a full bucket is the same as none. A keeper of buckets may forget one from [`Bucket::full_at_micros`] on.
//!
//! *Rounding:* `last_refill` is advanced by the time of the tokens put back, rounded up to the next microsecond. So a client that
//! always empties its bucket loses up to a microsecond for each request that is let through, and never gets more than the rate.

use std::fmt;

const MICROS_PER_SECOND: u64 = 1_000_000;
/// The largest number up to which doubles hold every whole one.
const EXACT_MAX: u64 = 1 << 53;
/// The longest period of a limit, in seconds: a leap year.
pub const PERIOD_MAX_SECONDS: u64 = 366 * 86_400;
/// The longest time that an empty bucket may take to be full again: a hundred years.
pub const FILL_MAX_MICROS: u64 = 36_525 * 86_400 * MICROS_PER_SECOND;
/// The latest moment that is told from later ones, in microseconds since 1970: in 2155. Whatever is added to it stays exact.
pub const MOMENT_MAX_MICROS: u64 = EXACT_MAX - 1 - FILL_MAX_MICROS;

/// How many requests are allowed: a rate, and how many of them may come at once.
///
/// The rate is kept in lowest terms, so 1,200 a minute and 20 a second are the same limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limit {
    /// So many tokens are put back …
    tokens: u64,
    /// … in so many microseconds.
    micros: u64,
    burst: u64,
}

/// Why numbers are not a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// A rate of nothing.
    #[error("at least one request must be allowed in a period")]
    NoRate,
    /// A period without an end.
    #[error("the period must be 1 to {PERIOD_MAX_SECONDS} seconds")]
    BadPeriod,
    /// A bucket that holds nothing.
    #[error("the burst must be at least 1")]
    NoBurst,
    /// More than one token a microsecond.
    #[error("more than 1,000,000 requests a second cannot be told from no limit")]
    TooFast,
    /// A bucket that never fills.
    #[error("an empty bucket of this burst would take more than a hundred years to be full again")]
    TooSlow,
    /// Rate and period that cannot be computed with exactly.
    #[error(
        "rate and period have too little in common to be computed with exactly; take a rounder rate or a shorter period"
    )]
    Inexact,
}

impl Limit {
    /// `rate` requests in each `period_seconds`, and `burst` at once.
    pub const fn new(rate: u64, period_seconds: u64, burst: u64) -> Result<Self, LimitError> {
        if rate == 0 {
            return Err(LimitError::NoRate);
        }
        if period_seconds == 0 || period_seconds > PERIOD_MAX_SECONDS {
            return Err(LimitError::BadPeriod);
        }
        if burst == 0 {
            return Err(LimitError::NoBurst);
        }
        let period_micros = period_seconds * MICROS_PER_SECOND;
        if rate > period_micros {
            return Err(LimitError::TooFast);
        }
        let common = greatest_common_divisor(rate, period_micros);
        let limit = Self { tokens: rate / common, micros: period_micros / common, burst };
        // The largest product there is; see `micros_for` and `tokens_in`.
        if limit.tokens > EXACT_MAX / limit.micros {
            return Err(LimitError::Inexact);
        }
        // Wider than the rest, because a burst may be any number until it is found to be too large.
        if burst as u128 * limit.micros as u128 > FILL_MAX_MICROS as u128 * limit.tokens as u128 {
            return Err(LimitError::TooSlow);
        }
        Ok(limit)
    }

    /// How many tokens come back in [`Self::micros`], in lowest terms.
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// In how many microseconds [`Self::tokens`] come back, in lowest terms.
    pub const fn micros(&self) -> u64 {
        self.micros
    }

    /// How many requests may come at once.
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// After how many microseconds so many tokens have come back: the first at which they all have.
    pub const fn micros_for(&self, tokens: u64) -> u64 {
        // Whole turns apart from the rest, so that no product exceeds tokens x micros.
        tokens / self.tokens * self.micros + (tokens % self.tokens * self.micros).div_ceil(self.tokens)
    }

    /// How many tokens come back in this time, which must not be longer than that of a burst.
    const fn tokens_in(&self, micros: u64) -> u64 {
        micros / self.micros * self.tokens + micros % self.micros * self.tokens / self.micros
    }
}

/// As it is written beside a bucket in Redis: `tokens/micros/burst`.
impl fmt::Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}/{}", self.tokens, self.micros, self.burst)
    }
}

const fn greatest_common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// What is remembered of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    tokens: u64,
    last_refill_micros: u64,
    limit: Limit,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakeResult {
    /// Whether it is let through.
    pub allowed: bool,
    /// Tokens that are left.
    pub remaining: u64,
    /// After how many microseconds the same cost would be allowed, if nobody takes anything meanwhile: none if allowed now, `None` if
    /// it costs more than a full bucket holds.
    pub retry_after_micros: Option<u64>,
    /// When the bucket is full again, in microseconds since 1970 by the clock of its keeper; never before `now_micros`.
    pub full_at_micros: u64,
    /// When this was decided, by the same clock.
    pub now_micros: u64,
}

impl Bucket {
    /// A bucket as it was remembered. More tokens than it can hold are no more than a full one.
    pub const fn new(tokens: u64, last_refill_micros: u64, limit: Limit) -> Self {
        let tokens = if tokens < limit.burst { tokens } else { limit.burst };
        let last_refill_micros =
            if last_refill_micros < MOMENT_MAX_MICROS { last_refill_micros } else { MOMENT_MAX_MICROS };
        Self { tokens, last_refill_micros, limit }
    }

    /// How many tokens were in it at [`Self::last_refill_micros`].
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Up to when tokens have been put back, in microseconds since 1970.
    pub const fn last_refill_micros(&self) -> u64 {
        self.last_refill_micros
    }

    /// The limit it was last used under.
    pub const fn limit(&self) -> Limit {
        self.limit
    }

    /// When it is full, in microseconds since 1970: from then on it may be forgotten.
    pub const fn full_at_micros(&self) -> u64 {
        self.last_refill_micros + self.limit.micros_for(self.limit.burst - self.tokens)
    }

    /// With the tokens that have come back until now. A clock that went back brings none, and nothing is ever brought twice.
    fn refill(self, now: u64) -> Self {
        let elapsed = now.saturating_sub(self.last_refill_micros);
        if elapsed >= self.limit.micros_for(self.limit.burst - self.tokens) {
            return Self {
                tokens: self.limit.burst,
                last_refill_micros: now.max(self.last_refill_micros),
                ..self
            };
        }
        let whole = self.limit.tokens_in(elapsed);
        Self {
            tokens: self.tokens + whole,
            last_refill_micros: self.last_refill_micros + self.limit.micros_for(whole),
            ..self
        }
    }

    /// Goes on under another limit. What was taken stays taken, and a higher burst is not given but fills by and by; only a bucket that
    /// was full is full again, as one that was forgotten would be. (So a burst that is lowered and raised again before a bucket has
    /// filled gives one burst away: under the lower one the bucket was full.)
    fn with_limit(self, limit: Limit, now: u64) -> Self {
        if self.limit == limit {
            return self;
        }
        let flowed = self.refill(now);
        let was_full = flowed.tokens == self.limit.burst;
        let tokens = if was_full { limit.burst } else { flowed.tokens.min(limit.burst) };
        Self { tokens, last_refill_micros: now.max(self.last_refill_micros), limit }
    }
}

/// Takes `cost` tokens out of a bucket, if it has them. `None` is a full bucket.
///
/// A refusal takes nothing and leaves the bucket as it was; so does a cost of nothing. In both cases a changed limit is taken over.
pub fn take(bucket: Option<Bucket>, limit: Limit, now_micros: u64, cost: u64) -> (Bucket, TakeResult) {
    let now_micros = now_micros.min(MOMENT_MAX_MICROS);
    let kept = match bucket {
        None => Bucket { tokens: limit.burst, last_refill_micros: now_micros, limit },
        Some(bucket) => bucket.with_limit(limit, now_micros),
    };
    let flowed = kept.refill(now_micros);
    let allowed = cost <= flowed.tokens;
    let next = if allowed && cost > 0 { Bucket { tokens: flowed.tokens - cost, ..flowed } } else { kept };
    let retry_after_micros = if allowed {
        Some(0)
    } else if cost > limit.burst {
        None
    } else {
        // From what was kept, not from what has flowed in since: that may have been rounded once already.
        Some(kept.last_refill_micros + limit.micros_for(cost - kept.tokens) - now_micros)
    };
    let taken = TakeResult {
        allowed,
        remaining: if allowed { flowed.tokens - cost } else { flowed.tokens },
        retry_after_micros,
        full_at_micros: next.full_at_micros().max(now_micros),
        now_micros,
    };
    (next, taken)
}

/// What one request takes out of one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Take {
    /// The bucket; `None` is a full one.
    pub bucket: Option<Bucket>,
    /// Its limit.
    pub limit: Limit,
    /// How many tokens.
    pub cost: u64,
}

/// Takes out of several buckets, if each of them has enough, else out of none. The buckets must be different ones.
///
/// Each result says what its own bucket would have allowed. Where another bucket refused, `remaining` is what is left because nothing
/// was taken.
pub fn take_all(takes: &[Take], now_micros: u64) -> Vec<(Bucket, TakeResult)> {
    let tested: Vec<_> =
        takes.iter().map(|asked| take(asked.bucket, asked.limit, now_micros, asked.cost)).collect();
    if tested.iter().all(|(_, result)| result.allowed) {
        return tested;
    }
    let untouched = |(asked, tested): (&Take, (Bucket, TakeResult))| {
        if tested.1.allowed { take(asked.bucket, asked.limit, now_micros, 0) } else { tested }
    };
    takes.iter().zip(tested).map(untouched).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = MICROS_PER_SECOND;
    /// Some moment.
    const NOW: u64 = 1_800_000_000 * SECOND;

    fn limit(rate: u64, period_seconds: u64, burst: u64) -> Limit {
        Limit::new(rate, period_seconds, burst).unwrap()
    }

    #[test]
    fn a_burst_is_allowed_then_the_rate() {
        let limit = limit(2, 1, 3);
        let mut bucket = None;
        let mut ask = |now| {
            let (next, taken) = take(bucket, limit, now, 1);
            bucket = Some(next);
            taken
        };
        let first = TakeResult {
            allowed: true,
            remaining: 2,
            retry_after_micros: Some(0),
            full_at_micros: NOW + SECOND / 2,
            now_micros: NOW,
        };
        assert_eq!(ask(NOW), first);
        assert_eq!([ask(NOW).remaining, ask(NOW).remaining], [1, 0]);
        let refused = ask(NOW + SECOND / 4);
        assert_eq!((refused.allowed, refused.remaining), (false, 0));
        assert_eq!(refused.retry_after_micros, Some(SECOND / 4));
        assert_eq!(refused.full_at_micros, NOW + SECOND * 3 / 2);
        assert!(!ask(NOW + SECOND / 2 - 1).allowed);
        assert!(ask(NOW + SECOND / 2).allowed);
    }

    #[test]
    fn a_cost_is_taken_as_a_whole_or_not_at_all() {
        let limit = limit(1, 1, 5);
        let (bucket, taken) = take(None, limit, NOW, 3);
        assert_eq!((taken.allowed, taken.remaining), (true, 2));
        let (same, refused) = take(Some(bucket), limit, NOW, 4);
        assert_eq!(
            (refused.allowed, refused.remaining, refused.retry_after_micros),
            (false, 2, Some(2 * SECOND))
        );
        assert_eq!(same, bucket, "a refusal changes nothing");
        let (same, never) = take(Some(bucket), limit, NOW, 6);
        assert_eq!((never.allowed, never.retry_after_micros), (false, None), "more than it ever holds");
        assert_eq!(same, bucket);
        let (same, looked) = take(Some(bucket), limit, NOW + SECOND, 0);
        assert_eq!((looked.allowed, looked.remaining), (true, 3), "a look is free");
        assert_eq!(same, bucket);
        let (_, never) = take(None, limit, NOW, u64::MAX);
        assert_eq!((never.allowed, never.remaining, never.full_at_micros), (false, 5, NOW));
    }

    #[test]
    fn of_several_buckets_all_are_taken_from_or_none() {
        let (small, large) = (limit(1, 60, 1), limit(1, 60, 5));
        let asked = |bucket, limit, cost| Take { bucket, limit, cost };
        let first = take_all(&[asked(None, small, 1), asked(None, large, 2)], NOW);
        let remaining: Vec<_> = first.iter().map(|(_, result)| (result.allowed, result.remaining)).collect();
        assert_eq!(remaining, [(true, 0), (true, 3)]);
        let again = [asked(Some(first[0].0), small, 1), asked(Some(first[1].0), large, 2)];
        let second = take_all(&again, NOW);
        let remaining: Vec<_> = second.iter().map(|(_, result)| (result.allowed, result.remaining)).collect();
        assert_eq!(remaining, [(false, 0), (true, 3)], "nothing is taken where another bucket refuses");
        assert_eq!((second[0].0, second[1].0), (first[0].0, first[1].0));
        assert_eq!(second[1].1.retry_after_micros, Some(0));
    }

    #[test]
    fn what_was_put_back_is_rounded_down_and_the_rest_is_not_lost() {
        // A token each 333,333 1/3 microseconds.
        let limit = limit(3, 1, 3);
        let (empty, _) = take(None, limit, NOW, 3);
        let (bucket, taken) = take(Some(empty), limit, NOW + 500_000, 1);
        assert!(taken.allowed);
        assert_eq!((bucket.tokens(), bucket.last_refill_micros()), (0, NOW + 333_334));
        assert_eq!(taken.full_at_micros, NOW + 333_334 + SECOND);
    }

    #[test]
    fn a_clock_that_goes_back_brings_nothing_and_takes_nothing() {
        let limit = limit(1, 1, 2);
        let (empty, _) = take(None, limit, NOW, 2);
        let (same, refused) = take(Some(empty), limit, NOW - 10 * SECOND, 1);
        assert_eq!((same, refused.retry_after_micros), (empty, Some(11 * SECOND)));
        assert!(take(Some(empty), limit, NOW + SECOND, 1).1.allowed);
        // Not even a full bucket forgets how far time had come.
        let (bucket, _) = take(Some(empty), limit, NOW + 10 * SECOND, 1);
        let (bucket, _) = take(Some(bucket), limit, NOW - 10 * SECOND, 1);
        assert!(!take(Some(bucket), limit, NOW + 10 * SECOND, 1).1.allowed);
    }

    #[test]
    fn limits_are_the_same_however_they_are_written() {
        assert_eq!(limit(1_200, 60, 7), limit(20, 1, 7));
        assert_eq!(limit(1_200, 60, 7).to_string(), "1/50000/7");
        assert_ne!(limit(20, 1, 7), limit(20, 1, 8));
    }

    #[test]
    fn numbers_that_cannot_be_computed_with_are_refused() {
        let year = 365 * 86_400;
        for (rate, period, burst, error) in [
            (0, 1, 1, LimitError::NoRate),
            (1, 0, 1, LimitError::BadPeriod),
            (1, PERIOD_MAX_SECONDS + 1, 1, LimitError::BadPeriod),
            (1, u64::MAX, 1, LimitError::BadPeriod),
            (1, 1, 0, LimitError::NoBurst),
            (1_000_001, 1, 1, LimitError::TooFast),
            (u64::MAX, PERIOD_MAX_SECONDS, 1, LimitError::TooFast),
            (1_001, year, 1, LimitError::Inexact),
            (1, year, 101, LimitError::TooSlow),
            (1, 1, u64::MAX, LimitError::TooSlow),
            (1_000_000, 1, u64::MAX, LimitError::TooSlow),
            (1_000_000, 1, FILL_MAX_MICROS + 1, LimitError::TooSlow),
        ] {
            assert_eq!(Limit::new(rate, period, burst), Err(error), "{rate} per {period}, burst {burst}");
        }
        assert!(Limit::new(1, year, 100).is_ok());
        assert!(Limit::new(1, PERIOD_MAX_SECONDS, 1).is_ok());
        assert!(Limit::new(1_000_000, 1, FILL_MAX_MICROS).is_ok());
        assert!(Limit::new(PERIOD_MAX_SECONDS * SECOND, PERIOD_MAX_SECONDS, 1).is_ok());
        // Nothing that is accepted can exceed what doubles hold.
        let largest = (1..=1_100).rev().find_map(|rate| Limit::new(rate, 8_926_859, 1).ok()).unwrap();
        assert!(largest.tokens * largest.micros <= EXACT_MAX);
    }

    #[test]
    fn moments_at_the_end_of_time_are_no_reason_to_panic() {
        for limit in [limit(1, 365 * 86_400, 100), limit(1_000_000, 1, 1 << 50), limit(7, 3, 5)] {
            for now in [0, 1, MOMENT_MAX_MICROS, u64::MAX] {
                for last in [0, 1, MOMENT_MAX_MICROS, u64::MAX] {
                    for tokens in [0, 1, u64::MAX] {
                        let bucket = Bucket::new(tokens, last, limit);
                        let (next, taken) = take(Some(bucket), limit, now, 1);
                        assert!(taken.full_at_micros < EXACT_MAX && next.tokens() <= limit.burst());
                    }
                }
            }
        }
    }
}
