//! How long a destination is left alone after an attempt that failed.

use std::time::Duration;

use anteroom_tokens::random;

use crate::destination::{Destination, RetrySchedule};

/// The pause after the first failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause that a receiver can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);
/// The pauses that Standard Webhooks recommends; the last one is repeated.
const STANDARD_PAUSES_SECONDS: [u64; 9] = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];

/// The pause after so many failures, before jitter.
fn pause(schedule: RetrySchedule, backoff_max: Duration, failures: u32) -> Duration {
    match schedule {
        RetrySchedule::Exponential => {
            let doubled =
                FIRST_PAUSE.saturating_mul(1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
            doubled.min(backoff_max)
        }
        RetrySchedule::Standard => {
            let index = usize::try_from(failures.saturating_sub(1)).unwrap_or(usize::MAX);
            Duration::from_secs(STANDARD_PAUSES_SECONDS[index.min(STANDARD_PAUSES_SECONDS.len() - 1)])
        }
    }
}

/// The pause after so many failures: with jitter, so that what failed together is not tried together, and never shorter than what the
/// receiver asked for.
pub(super) fn pause_after(
    destination: &Destination,
    failures: u32,
    retry_after: Option<Duration>,
) -> Duration {
    let longest = pause(destination.schedule, destination.backoff_max, failures);
    let [jitter] = random::bytes::<1>();
    let jittered = longest / 2 + longest / 2 * u32::from(jitter) / u32::from(u8::MAX);
    jittered.max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_limit_and_those_of_the_standard_are_its_own() {
        let minute = Duration::from_mins(1);
        let pauses = |schedule| {
            [1, 2, 3, 6, 7, 40, u32::MAX].map(|failures| pause(schedule, minute, failures).as_secs())
        };
        assert_eq!(pauses(RetrySchedule::Exponential), [1, 2, 4, 32, 60, 60, 60]);
        assert_eq!(pauses(RetrySchedule::Standard), [5, 300, 1_800, 36_000, 50_400, 86_400, 86_400]);
    }
}
