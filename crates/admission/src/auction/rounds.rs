//! The task that closes a room's rounds, as long as there are check-ins.
//!
//! On a store of one node a round is settled by the very call that closes it. Where several nodes share the store, each
//! node reports its check-ins at the round's end; a moment later the rules settle it, and every node reads the winners
//! on the board.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anteroom_core::auction::COLLECTING_MILLIS;
use anteroom_core::{Answer, Auction, Operation, Refusal, SessionKey, UnixMillis};
use anteroom_engine::{Actor, Engine, EngineError, RoomHandle};
use tokio::sync::watch;

use super::table::{Attendance, RoundTable};
use super::{AuctionCounts, SETTLE_TIMEOUT};
use crate::AdmissionError;

/// A pause after a round that could not be settled, because the rules had gone on to the next one.
const MISSED_ROUND_PAUSE: Duration = Duration::from_millis(50);

/// How long a node waits, after all nodes have had time to report their check-ins, for the holder of the room's lease to
/// settle the round. Then it asks the room itself.
const LEASE_HOLDER_TIMEOUT_MILLIS: u64 = 400;
/// How long after a round's end its winners are waited for: as long as a connection is held for them.
const SETTLE_TIMEOUT_MILLIS: u64 = SETTLE_TIMEOUT.as_secs() * 1000;

/// What a task needs.
pub(super) struct Rounds {
    pub(super) engine: Arc<Engine>,
    pub(super) room: Arc<RoomHandle>,
    pub(super) table: Arc<RoundTable>,
    pub(super) counts: Arc<AuctionCounts>,
}

/// What comes next in a round.
enum Next {
    /// The room has changed.
    Look,
    /// The round is over.
    Settle,
    /// The round should have been settled by now.
    Ask,
    /// There are no more rounds.
    End(EngineError),
}

impl Rounds {
    /// Closes one round after the other, until a round has no check-in, the room is gone, or the server closes.
    pub(super) async fn run(self, mut closing: watch::Receiver<bool>) {
        let _guard = AbandonOnPanic(Arc::clone(&self.table));
        let mut changes = self.room.changes();
        let mut unsettled: Option<UnsettledRound> = None;
        loop {
            changes.borrow_and_update();
            let board = self.room.board();
            self.table.review(&board);
            unsettled = unsettled.and_then(|round| self.look_for_winners(round, board.auction.as_deref()));
            if unsettled.is_none() && self.table.stop_if_idle() {
                return;
            }
            let Some(auction) = &board.auction else { continue };
            let (due, then) = match &unsettled {
                None => (auction.round, Next::Settle),
                Some(unsettled) => (unsettled.ask_at, Next::Ask),
            };
            let left = Duration::from_millis(due.since(self.engine.now()));
            let next = tokio::select! {
                change = changes.changed() => match change {
                    Ok(()) => Next::Look,
                    Err(_) => Next::End(self.why_the_room_is_gone()),
                },
                () = tokio::time::sleep(left) => then,
                // A server that is gone altogether counts as closing.
                _ = closing.wait_for(|closing| *closing) => Next::End(EngineError::Stopped),
            };
            match next {
                Next::Look => {}
                Next::Settle => unsettled = self.settle(auction.round).await,
                Next::Ask => unsettled = self.ask(unsettled).await,
                // A later check-in starts a task of its own, which finds the same.
                Next::End(why) => {
                    unsettled = None;
                    self.table.refuse_all(&why.into());
                }
            }
        }
    }

    /// Closes the round; what is left is to wait for its winners, where other nodes have to be heard.
    async fn settle(&self, round: UnixMillis) -> Option<UnsettledRound> {
        let attendance = self.table.close_round(round);
        let settle = Operation::SettleRound {
            round,
            present: attendance.keys.clone(),
            turned_away: attendance.turned_away,
            alone: !self.engine.store().is_shared(),
        };
        match self.room.operate(settle, Actor::Clockwork).await {
            Ok(Answer::Won { winners }) if self.engine.store().is_shared() => {
                // Settled before these check-ins were reported: they are none of the losers.
                self.table.carry_over(&attendance, &winners);
            }
            Ok(Answer::Won { winners }) => {
                self.table.announce(&winners);
                self.count(winners.len() as u64);
            }
            Ok(Answer::Collected) => {
                let ask_at = round.plus(COLLECTING_MILLIS).plus(LEASE_HOLDER_TIMEOUT_MILLIS);
                return Some(UnsettledRound { round, attendance, ask_at });
            }
            Err(EngineError::Refused(Refusal::NotThisRound | Refusal::NoAuction)) => {
                self.table.carry_over(&attendance, &[]);
                tokio::time::sleep(MISSED_ROUND_PAUSE).await;
            }
            Ok(_) => self.table.refuse_all(&AdmissionError::RoundNotSettled),
            Err(error) => self.table.refuse_all(&error.into()),
        }
        None
    }

    /// Reads on the board who has won, if the round is settled; otherwise it is still to be waited for, or was missed.
    fn look_for_winners(
        &self,
        unsettled: UnsettledRound,
        auction: Option<&Auction>,
    ) -> Option<UnsettledRound> {
        // No winners are waited for where every connection is closed, or all were refused because the room was paused. But those who
        // came after its end wait for the next round, and this one must not be settled a second time for them.
        let auction = auction.filter(|_| self.table.awaits_winners() || self.table.has_check_ins())?;
        if auction.settled == unsettled.round {
            let winners: Vec<SessionKey> = auction.wins.iter().copied().collect();
            // Those of other nodes are counted there.
            let own = self.table.announce(&winners);
            self.count(own);
            None
        } else if auction.round != unsettled.round {
            self.table.carry_over(&unsettled.attendance, &[]);
            None
        } else {
            Some(unsettled)
        }
    }

    /// Has the room settle the round itself, because no other node did. If it cannot, those who wait get the error.
    async fn ask(&self, unsettled: Option<UnsettledRound>) -> Option<UnsettledRound> {
        let mut unsettled = unsettled?;
        let result = self.room.operate(Operation::Tick, Actor::Clockwork).await;
        let is_hopeless = self.engine.now().since(unsettled.round) >= SETTLE_TIMEOUT_MILLIS;
        let why = match result {
            Err(error) => error.into(),
            Ok(_) if is_hopeless => AdmissionError::RoundNotSettled,
            Ok(_) => {
                unsettled.ask_at = self.engine.now().plus(LEASE_HOLDER_TIMEOUT_MILLIS);
                return Some(unsettled);
            }
        };
        self.table.refuse_all(&why);
        None
    }

    fn count(&self, winners: u64) {
        self.counts.rounds.fetch_add(1, Ordering::Relaxed);
        self.counts.winners.fetch_add(winners, Ordering::Relaxed);
    }

    fn why_the_room_is_gone(&self) -> EngineError {
        match (self.room.is_deleted(), self.room.is_replaced()) {
            (true, _) => EngineError::RoomDeleted,
            (false, true) => EngineError::Restoring,
            (false, false) => EngineError::Stopped,
        }
    }
}

/// A round that may have check-ins on other nodes, and that is not settled yet.
struct UnsettledRound {
    round: UnixMillis,
    /// The check-ins of this node.
    attendance: Attendance,
    /// When to ask for the settlement, unless it has come.
    ask_at: UnixMillis,
}

/// Dropped with the task, also where that panics: no visitor waits for a task that has ended.
struct AbandonOnPanic(Arc<RoundTable>);

impl Drop for AbandonOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abandon(&AdmissionError::RoundNotSettled);
        }
    }
}
