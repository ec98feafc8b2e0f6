//! The promise of the limiter, over random schedules: never more than burst + rate x t in any interval.

use anteroom_core::bucket::{Bucket, FILL_MAX_MICROS, Limit, PERIOD_MAX_SECONDS, TakeResult, take};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000;
/// A moment so early that what takes a hundred years is still over before the end of time.
const NOW: u64 = 1_000 * SECOND;
/// Later than this no schedule goes.
const LATEST: u64 = NOW + FILL_MAX_MICROS / 2;

/// Limits of every size that [`Limit::new`] accepts, those of daily use more often than others.
fn any_limit() -> impl Strategy<Value = Limit> {
    let rate = prop_oneof![Just(1), 1..10u64, 1..2_000u64, 1..1_000_000u64, Just(1_000_000)];
    let period = prop_oneof![
        Just(1),
        1..100u64,
        Just(60),
        Just(3_600),
        Just(86_400),
        Just(31_536_000),
        1..=PERIOD_MAX_SECONDS
    ];
    let burst = prop_oneof![Just(1), 1..10u64, 1..2_000u64, 1..1_000_000u64, 1..FILL_MAX_MICROS];
    (rate, period, burst)
        .prop_filter_map("a limit", |(rate, period, burst)| Limit::new(rate, period, burst).ok())
}

/// Limits so much alike that one of them does not drown the others.
fn like_limit() -> impl Strategy<Value = Limit> {
    (1..20u64, 1..4u64, 1..30u64)
        .prop_map(|(rate, period, burst)| Limit::new(rate, period, burst).expect("a limit"))
}

/// One request: how far the clock has moved since the last, in shares of what one token takes (negative: back), and its cost.
#[derive(Debug, Clone)]
struct Step {
    gap: Gap,
    cost: Cost,
}

#[derive(Debug, Clone)]
enum Gap {
    None,
    Micros(u64),
    /// In thousandths of the time of a token.
    Tokens(u64),
    /// In thousandths of the time of a whole bucket.
    Bursts(u64),
    Back(u64),
}

#[derive(Debug, Clone)]
enum Cost {
    Tokens(u64),
    /// In hundredths of a burst.
    Share(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    let gap = prop_oneof![
        3 => Just(Gap::None),
        2 => (0..5u64).prop_map(Gap::Micros),
        4 => (0..3_000u64).prop_map(Gap::Tokens),
        2 => (0..1_500u64).prop_map(Gap::Bursts),
        1 => (0..3_000u64).prop_map(Gap::Back),
    ];
    let cost = prop_oneof![4 => (0..4u64).prop_map(Cost::Tokens), 2 => (0..120u64).prop_map(Cost::Share)];
    (gap, cost).prop_map(|(gap, cost)| Step { gap, cost })
}

impl Step {
    fn moved(&self, now: u64, limit: Limit) -> u64 {
        let share = |of: u64, thousandths: u64| {
            u64::try_from(u128::from(of) * u128::from(thousandths) / 1_000).expect("a moment")
        };
        let moved = match self.gap {
            Gap::None => now,
            Gap::Micros(micros) => now + micros,
            Gap::Tokens(thousandths) => now + share(limit.micros_for(1), thousandths),
            Gap::Bursts(thousandths) => now + share(limit.micros_for(limit.burst()), thousandths),
            Gap::Back(thousandths) => now.saturating_sub(share(limit.micros_for(1), thousandths)),
        };
        moved.min(LATEST)
    }

    fn cost(&self, limit: Limit) -> u64 {
        match self.cost {
            Cost::Tokens(tokens) => tokens,
            Cost::Share(hundredths) => limit.burst() * hundredths / 100,
        }
    }
}

/// Tokens that were let through at a moment; moments only go forward, as far as the clock ever was when some were.
type Allowed = Vec<(u64, u64)>;

/// Whether no stretch of it holds more than the limit allows.
fn is_within(allowed: &Allowed, limit: Limit) -> bool {
    (0..allowed.len()).all(|first| {
        let mut sum = 0u128;
        allowed[first..].iter().all(|(moment, tokens)| {
            sum += u128::from(*tokens);
            let elapsed = u128::from(moment - allowed[first].0);
            let scaled = sum * u128::from(limit.micros());
            scaled
                <= u128::from(limit.burst()) * u128::from(limit.micros())
                    + elapsed * u128::from(limit.tokens())
        })
    })
}

/// When the tokens were taken, the bucket afterwards, the cost, and the result.
type Call = (u64, Option<Bucket>, u64, TakeResult);

/// Asks as the steps say; returns what was let through, and the result of each call.
fn play(limit: Limit, steps: &[Step]) -> (Allowed, Vec<Call>) {
    let (mut bucket, mut now, mut latest) = (None, NOW, 0);
    let (mut allowed, mut calls) = (vec![], vec![]);
    for step in steps {
        now = step.moved(now, limit);
        let cost = step.cost(limit);
        let (next, taken) = take(bucket, limit, now, cost);
        if taken.allowed && cost > 0 {
            latest = latest.max(now);
            allowed.push((latest, cost));
        }
        bucket = Some(next);
        calls.push((now, bucket, cost, taken));
    }
    (allowed, calls)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn never_more_than_the_burst_and_the_rate_in_any_interval(
        limit in any_limit(),
        steps in prop::collection::vec(any_step(), 1..60),
    ) {
        let (allowed, _) = play(limit, &steps);
        prop_assert!(is_within(&allowed, limit), "{limit:?} let through {allowed:?}");
    }

    #[test]
    fn a_refused_client_who_waits_as_told_is_allowed_and_not_a_moment_before(
        limit in any_limit(),
        steps in prop::collection::vec(any_step(), 1..60),
    ) {
        for (now, bucket, cost, taken) in play(limit, &steps).1 {
            let Some(wait) = taken.retry_after_micros else {
                prop_assert!(cost > limit.burst());
                prop_assert!(!take(bucket, limit, taken.full_at_micros, cost).1.allowed);
                continue;
            };
            prop_assert_eq!(wait == 0, taken.allowed);
            if wait > 0 {
                prop_assert!(take(bucket, limit, now + wait, cost).1.allowed);
                prop_assert!(!take(bucket, limit, now + wait - 1, cost).1.allowed);
            }
        }
    }

    #[test]
    fn a_full_bucket_is_the_same_as_none(
        limit in any_limit(),
        other in any_limit(),
        steps in prop::collection::vec(any_step(), 1..20),
        later in 0..SECOND,
        cost in 0..4u64,
    ) {
        for (_, bucket, _, taken) in play(limit, &steps).1 {
            let then = taken.full_at_micros + later;
            prop_assert_eq!(bucket.map(|bucket| bucket.full_at_micros().max(taken.now_micros)), Some(taken.full_at_micros));
            for limit in [limit, other] {
                let (forgotten, result_if_forgotten) = take(None, limit, then, cost);
                let (kept, result) = take(bucket, limit, then, cost);
                prop_assert_eq!(result, result_if_forgotten);
                if result.allowed && cost > 0 {
                    prop_assert_eq!(kept, forgotten);
                }
            }
        }
        // And not a moment before: one token less than a full bucket is missing until then.
        for (_, bucket, _, taken) in play(limit, &steps).1 {
            let is_full = bucket.is_none_or(|bucket| bucket.tokens() == limit.burst());
            if taken.full_at_micros > taken.now_micros && !is_full {
                prop_assert!(!take(bucket, limit, taken.full_at_micros - 1, limit.burst()).1.allowed);
                prop_assert!(take(bucket, limit, taken.full_at_micros, limit.burst()).1.allowed);
            }
        }
    }

    #[test]
    fn nobody_who_keeps_to_the_pace_is_ever_refused(
        limit in any_limit(),
        gaps in prop::collection::vec(0..100u64, 1..200),
    ) {
        // An empty bucket to begin with, so that no burst hides a loss.
        let (mut bucket, _) = take(None, limit, NOW, limit.burst());
        let mut now = NOW;
        for gap in gaps {
            now += limit.micros_for(1) + gap;
            if now > LATEST {
                break;
            }
            let (next, taken) = take(Some(bucket), limit, now, 1);
            prop_assert!(taken.allowed);
            bucket = next;
        }
    }

    #[test]
    fn a_changed_limit_neither_forgets_what_was_taken_nor_gives_a_burst(
        limits in [like_limit(), like_limit()],
        before in prop::collection::vec(any_step(), 1..30),
        after in prop::collection::vec(any_step(), 1..30),
    ) {
        let burst = limits.iter().map(Limit::burst).max().unwrap_or_default();
        let (mut bucket, mut now, mut present) = (None, NOW, limits[0]);
        let steps = before.iter().map(|step| (step, limits[0])).chain(after.iter().map(|step| (step, limits[1])));
        // For each request let through: what has been let through since, and what the limits of each moment have brought meanwhile.
        // Both in parts of a token so small that every rate is a whole number of them.
        let parts: u128 = limits.iter().map(|limit| u128::from(limit.micros())).product();
        let mut since: Vec<(u128, u128)> = vec![];
        for (step, limit) in steps {
            // Clocks that go back have a test of their own.
            let then = now.max(step.moved(now, present));
            for (_, allowance) in &mut since {
                let brought = u128::from(then - now) * u128::from(present.tokens());
                *allowance += brought * (parts / u128::from(present.micros()));
            }
            now = then;
            present = limit;
            let cost = step.cost(present);
            let (next, taken) = take(bucket, present, now, cost);
            bucket = Some(next);
            if taken.allowed {
                since.push((0, u128::from(burst) * parts));
                for (sum, allowance) in &mut since {
                    *sum += u128::from(cost) * parts;
                    prop_assert!(*sum <= *allowance, "{} of {}", sum, allowance);
                }
            }
        }
    }
}

#[test]
fn a_higher_burst_is_not_given_to_a_client_that_has_used_the_old_one_up() {
    let [small, large] = [10, 1_000].map(|burst| Limit::new(1, 1, burst).expect("a limit"));
    let (empty, _) = take(None, small, NOW, 10);
    let (bucket, taken) = take(Some(empty), large, NOW + 3 * SECOND, 1);
    assert_eq!((taken.allowed, taken.remaining), (true, 2), "three seconds have brought three");
    // And back again: what was taken under either stays taken.
    let (_, taken) = take(Some(bucket), small, NOW + 3 * SECOND, 1);
    assert_eq!((taken.allowed, taken.remaining), (true, 1));
}

#[test]
fn a_lower_burst_holds_at_once() {
    let [large, small] = [1_000, 10].map(|burst| Limit::new(1, 1, burst).expect("a limit"));
    let (bucket, _) = take(None, large, NOW, 500);
    let (_, taken) = take(Some(bucket), small, NOW, 11);
    assert!(!taken.allowed);
    let (_, taken) = take(Some(bucket), small, NOW, 10);
    assert_eq!((taken.allowed, taken.remaining), (true, 0));
}

#[test]
fn a_new_rate_begins_with_the_change_even_if_every_request_is_refused() {
    let slow = Limit::new(1, 3_600, 5).expect("a limit");
    let quick = Limit::new(1, 1, 5).expect("a limit");
    let (mut bucket, _) = take(None, slow, NOW, 5);
    for tenths in 1..10 {
        let (next, taken) = take(Some(bucket), quick, NOW + tenths * SECOND / 10, 1);
        assert!(!taken.allowed, "{tenths}");
        bucket = next;
    }
    assert!(take(Some(bucket), quick, NOW + 11 * SECOND / 10, 1).1.allowed);
}

#[test]
fn one_a_year_and_a_million_a_second_are_exact() {
    let yearly = Limit::new(1, 31_536_000, 100).expect("a limit");
    let (bucket, _) = take(None, yearly, NOW, 100);
    let (_, taken) = take(Some(bucket), yearly, NOW + 31_536_000 * SECOND - 1, 1);
    assert_eq!((taken.allowed, taken.retry_after_micros), (false, Some(1)));
    assert_eq!(taken.full_at_micros, NOW + FILL_MAX_MICROS / 36_525 * 36_500);
    assert!(take(Some(bucket), yearly, NOW + 31_536_000 * SECOND, 1).1.allowed);
    let quick = Limit::new(1_000_000, 1, 1_000_000).expect("a limit");
    let (bucket, _) = take(None, quick, NOW, 1_000_000);
    let (bucket, taken) = take(Some(bucket), quick, NOW + 3, 3);
    assert_eq!((taken.allowed, bucket.last_refill_micros()), (true, NOW + 3));
    assert!(!take(Some(bucket), quick, NOW + 3, 1).1.allowed);
}
