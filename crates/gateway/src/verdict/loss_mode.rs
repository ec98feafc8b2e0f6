//! Visitors while the store is lost: held, let in at the last known rate, or let in.
//!
//! A visitor let in by a loss mode has no slot, so they are counted by cause (`let_in_by_loss_mode`) and the visit is
//! not renewed. A place that they have stays theirs: the cookie of the visit stands beside that of the place.
//!
//! With `steady` the line moves on as if the store were there: those in front are let in, in order, as far as the allowance
//! reaches, and newcomers behind them.

use std::sync::{Mutex, PoisonError};

use anteroom_core::settings::OnStoreLoss;
use anteroom_core::{Board, UnixMillis};

/// With `steady`, the rate halves each minute: the longer it is unknown how full the site is, the fewer are let in.
const STEADY_HALF_LIFE_MILLIS: u64 = 60_000;
/// After so many minutes nobody is let in any more.
const STEADY_HALVINGS_MAX: u64 = 63;

/// What a room does about a lost store.
#[derive(Debug, Default)]
pub(crate) struct LossMode(Mutex<Option<Loss>>);

#[derive(Debug, Clone, Copy)]
struct Loss {
    since: UnixMillis,
    /// Offers a minute before the loss, in tenths.
    offers_per_minute_tenths: u64,
    /// Newcomers let in since.
    newcomers: u64,
}

impl LossMode {
    /// The store answers.
    pub(crate) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether to let a visitor in: one with so many people ahead, or, as a newcomer, behind all others.
    pub(crate) fn lets_in(&self, board: &Board, people_ahead: Option<u64>, now: UnixMillis) -> bool {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let loss = guard.get_or_insert_with(|| Loss {
            since: now,
            // The board's clock stands still where the store was lost.
            offers_per_minute_tenths: board.pace.recent_per_minute_tenths(board.clock),
            newcomers: 0,
        });
        let before = people_ahead.unwrap_or(board.waiting + loss.newcomers);
        let lets_in = match board.settings.on_store_loss {
            OnStoreLoss::Hold => false,
            OnStoreLoss::Open => true,
            OnStoreLoss::Steady => {
                before < steady_allowance(loss.offers_per_minute_tenths, now.since(loss.since))
            }
        };
        loss.newcomers += u64::from(lets_in && people_ahead.is_none());
        lets_in
    }
}

/// How many may have been let in so long after the loss: in the first minute as many as in a minute before it, in each further one half
/// as many, evenly within each.
fn steady_allowance(offers_per_minute_tenths: u64, lost_for_millis: u64) -> u64 {
    let minutes = (lost_for_millis / STEADY_HALF_LIFE_MILLIS).min(STEADY_HALVINGS_MAX);
    let into_minute = u128::from(lost_for_millis % STEADY_HALF_LIFE_MILLIS);
    let (rate, half_life) = (u128::from(offers_per_minute_tenths), u128::from(STEADY_HALF_LIFE_MILLIS));
    // In tenths times milliseconds times 2^minutes, so that nothing is rounded before the end.
    let whole_minutes = ((1_u128 << (minutes + 1)) - 2) * half_life;
    let allowance = rate.saturating_mul(whole_minutes + into_minute) / (half_life * 10 * (1_u128 << minutes));
    u64::try_from(allowance).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_minute_gives_what_a_minute_gave_before_and_each_further_one_half() {
        assert_eq!(steady_allowance(600, 0), 0);
        assert_eq!(steady_allowance(60_000, 1_000), 100, "6,000 a minute");
        assert_eq!(steady_allowance(120, 5_000), 1, "twelve a minute");
        let after = |minutes: u64| steady_allowance(6_000, minutes * 60_000);
        assert_eq!([after(1), after(2), after(3), after(4)], [600, 900, 1_050, 1_125]);
        assert_eq!(steady_allowance(6_000, 90_000), 750);
        assert!(steady_allowance(6_000, u64::MAX) <= 1_200);
        assert_eq!(steady_allowance(0, 1_000_000), 0);
        assert!(steady_allowance(u64::MAX, u64::MAX) > 0, "and no number is too large");
    }
}
