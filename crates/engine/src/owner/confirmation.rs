//! Claims on a shared store: a pass leaves when its session would survive the loss of the machine that took it.

use std::sync::Arc;

use anteroom_core::{Answer, Room, RoomId};
use anteroom_store::contract::{Lineage, Store, StoreError};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::EngineError;
use crate::local_history::{ConfirmedClaims, claims_of, note_confirmed};

/// A claim that is done but not answered yet.
type UnansweredClaim = (oneshot::Sender<Result<Answer, EngineError>>, Answer);

/// Claims that wait for their confirmation. The room's owner goes on meanwhile.
#[derive(Default)]
pub(crate) struct PendingClaims(JoinSet<()>);

impl PendingClaims {
    /// Answers these claims, which `room` contains and which were written under this lineage, when the store has confirmed them.
    pub(super) fn answer(
        &mut self,
        store: Arc<dyn Store>,
        (id, lineage): (RoomId, Lineage),
        room: &Room,
        confirmed: ConfirmedClaims,
        claims: Vec<UnansweredClaim>,
    ) {
        while self.0.try_join_next().is_some() {}
        let claimed = claims_of(room);
        self.0.spawn(async move {
            let outcome = store.confirm(&id, lineage).await;
            if outcome.is_ok() {
                note_confirmed(&confirmed, &claimed);
            }
            for (answer, claim) in claims {
                drop(answer.send(match &outcome {
                    Ok(()) => Ok(claim),
                    Err(error) => Err(EngineError::Store(unconfirmed(error))),
                }));
            }
        });
    }

    /// Waits for those that are under way.
    pub(super) async fn end(&mut self) {
        while self.0.join_next().await.is_some() {}
    }
}

/// The session is there, and asking again finds it: so nothing is unknown, it only takes longer.
fn unconfirmed(error: &StoreError) -> StoreError {
    match error {
        StoreError::Permanent(_) => error.clone(),
        StoreError::Transient(reason) | StoreError::Ambiguous(reason) => {
            StoreError::Transient(format!("the pass is not safe yet: {reason}"))
        }
    }
}
