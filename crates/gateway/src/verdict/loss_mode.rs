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

/// With `steady`, the rate halves in this time: the longer it is unknown how full the site is, the fewer are let in.
const STEADY_HALF_LIFE_SECONDS: f64 = 60.0;

/// What a room does about a lost store.
#[derive(Debug, Default)]
pub(crate) struct LossMode(Mutex<Option<Loss>>);

#[derive(Debug, Clone, Copy)]
struct Loss {
    since: UnixMillis,
    /// Offers a minute before the loss.
    offers_per_minute: f64,
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
            offers_per_minute: offers_per_minute(board),
            newcomers: 0,
        });
        let before = people_ahead.unwrap_or(board.waiting + loss.newcomers);
        let lets_in = match board.settings.on_store_loss {
            OnStoreLoss::Hold => false,
            OnStoreLoss::Open => true,
            OnStoreLoss::Steady => before < steady_allowance(loss.offers_per_minute, now.since(loss.since)),
        };
        loss.newcomers += u64::from(lets_in && people_ahead.is_none());
        lets_in
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate of a rate")]
fn offers_per_minute(board: &Board) -> f64 {
    board.pace.offers_per_minute_tenths(board.clock).map_or(0.0, |tenths| tenths as f64 / 10.0)
}

/// How many may have been let in so long after the loss: the rate, decaying, summed up.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bounded by rate times half-life, and never negative"
)]
fn steady_allowance(offers_per_minute: f64, lost_for_millis: u64) -> u64 {
    let lost_for = lost_for_millis as f64 / 1000.0 / STEADY_HALF_LIFE_SECONDS;
    let per_half_life = offers_per_minute * STEADY_HALF_LIFE_SECONDS / 60.0;
    (per_half_life / std::f64::consts::LN_2 * (1.0 - (-lost_for * std::f64::consts::LN_2).exp())).floor()
        as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_decays_and_sums_up_to_a_bound() {
        assert_eq!(steady_allowance(60.0, 0), 0);
        let first_second = steady_allowance(6_000.0, 1_000);
        assert!((98..=100).contains(&first_second), "{first_second}");
        let first = steady_allowance(600.0, 60_000);
        let second = steady_allowance(600.0, 120_000) - first;
        assert!(second * 2 >= first - 2 && second * 2 <= first + 2, "{first} {second}");
        assert!(steady_allowance(600.0, u64::MAX / 2) <= 866, "600 / ln 2");
        assert_eq!(steady_allowance(0.0, 1_000_000), 0);
    }
}
