//! The task that closes a room's rounds, as long as somebody comes to them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anteroom_core::{Answer, Operation, Refusal, UnixMillis};
use anteroom_store::engine::Actor;
use anteroom_store::{Engine, EngineError, RoomHandle};
use tokio::sync::watch;

use super::Counts;
use super::table::RoundTable;
use crate::error::ApiError;

/// A pause after a round that could not be settled, because the rules had gone on to the next one.
const MISSED_ROUND_PAUSE: Duration = Duration::from_millis(50);

/// What a task needs.
pub(super) struct Rounds {
    pub(super) engine: Arc<Engine>,
    pub(super) room: Arc<RoomHandle>,
    pub(super) table: Arc<RoundTable>,
    pub(super) counts: Arc<Counts>,
}

/// What comes next in a round.
enum Next {
    /// The room has changed.
    Look,
    /// The round is over.
    Settle,
    /// There are no more rounds.
    End(EngineError),
}

impl Rounds {
    /// Closes one round after the other, until one comes to which nobody does, the room is gone, or the server closes.
    pub(super) async fn run(self, mut closing: watch::Receiver<bool>) {
        let _whatever_happens = Abandon(Arc::clone(&self.table));
        let mut changes = self.room.changes();
        loop {
            changes.borrow_and_update();
            let board = self.room.board();
            self.table.review(&board);
            if self.table.rests() {
                return;
            }
            let Some(auction) = &board.auction else { continue };
            let left = Duration::from_millis(auction.round.since(self.engine.now()));
            let next = tokio::select! {
                news = changes.changed() => match news {
                    Ok(()) => Next::Look,
                    Err(_) => Next::End(self.why_the_room_is_gone()),
                },
                () = tokio::time::sleep(left) => Next::Settle,
                // A server that is gone altogether counts as closing.
                _ = closing.wait_for(|closing| *closing) => Next::End(EngineError::Stopped),
            };
            match next {
                Next::Look => {}
                Next::Settle => self.settle(auction.round).await,
                // Whoever comes after this look at the table starts a task of his own, which finds the same.
                Next::End(why) => self.table.tell_all(&why.into()),
            }
        }
    }

    async fn settle(&self, round: UnixMillis) {
        let present = self.table.present();
        let settle = Operation::SettleRound {
            round,
            present: present.keys.clone(),
            turned_away: present.turned_away,
            alone: true,
        };
        match self.room.operate(settle, Actor::Clockwork).await {
            Ok(Answer::Won { winners }) => {
                self.counts.rounds.fetch_add(1, Ordering::Relaxed);
                self.counts.winners.fetch_add(winners.len() as u64, Ordering::Relaxed);
                self.table.settled(&winners);
            }
            Err(EngineError::Refused(Refusal::NotThisRound | Refusal::NoAuction)) => {
                self.table.not_settled(&present);
                tokio::time::sleep(MISSED_ROUND_PAUSE).await;
            }
            Ok(_) => self.table.tell_all(&ApiError::unavailable("The round was not settled; ask again")),
            Err(error) => self.table.tell_all(&error.into()),
        }
    }

    fn why_the_room_is_gone(&self) -> EngineError {
        match (self.room.is_deleted(), self.room.is_replaced()) {
            (true, _) => EngineError::RoomDeleted,
            (false, true) => EngineError::Restoring,
            (false, false) => EngineError::Stopped,
        }
    }
}

/// Dropped with the task, also where that panics: nobody is left waiting for a task that is not there.
struct Abandon(Arc<RoundTable>);

impl Drop for Abandon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.is_abandoned(&ApiError::unavailable("The round was not settled; ask again"));
        }
    }
}
