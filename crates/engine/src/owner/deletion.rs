//! The end of a room: deleted here by an operator's word, or found to be gone because another node has deleted it.

use anteroom_core::{Event, Refusal};
use anteroom_store::contract::{Deletion, DeletionOutcome, EventId, StoredEvent};
use tokio::sync::{mpsc, oneshot};

use super::{Owner, RoomGone, TurnError, in_time, too_many_conflicts};
use crate::counters::count;
use crate::handle::{Request, SettingsAndState};
use crate::{Actor, CONFLICTS_MAX, EngineError, TURN_OPERATIONS_MAX, audit};

/// What became of a deletion that the store answered.
enum RoomDeletion {
    /// The room is gone.
    Deleted,
    /// It is not what the caller expects: nothing was deleted.
    Changed,
}

impl Owner {
    /// Deletes the room and says so. Where the outcome is not known, the store is asked whether the room is still there.
    pub(super) async fn delete(
        &mut self,
        expected: Option<&SettingsAndState>,
        actor: &Actor,
        answer: oneshot::Sender<Result<bool, EngineError>>,
    ) -> Result<(), RoomGone> {
        let existed = match self.try_to_delete(expected, actor).await {
            Ok(RoomDeletion::Deleted) => true,
            Err(TurnError::Gone) => false,
            Ok(RoomDeletion::Changed) => {
                drop(answer.send(Err(Refusal::Changed.into())));
                return Ok(());
            }
            Err(TurnError::Store(error)) => {
                self.note_failure(&error);
                drop(answer.send(Err(error.into())));
                return self.load_again().await;
            }
        };
        // First, so that the caller finds the name free.
        self.mark_deleted();
        drop(answer.send(Ok(existed)));
        Err(RoomGone)
    }

    async fn try_to_delete(
        &mut self,
        expected: Option<&SettingsAndState>,
        actor: &Actor,
    ) -> Result<RoomDeletion, TurnError> {
        for _ in 0..CONFLICTS_MAX {
            if self.room.is_none() {
                self.load().await?;
            }
            let room = self.room.as_ref().ok_or(TurnError::Gone)?;
            if expected.is_some_and(|(settings, state)| !room.is_configured(settings, *state)) {
                return Ok(RoomDeletion::Changed);
            }
            let audit = audit::record(actor, &self.id, "delete room", self.clock.now());
            let event = Event::RoomDeleted { by: actor.name().unwrap_or_default().to_owned() };
            let id =
                EventId { node: self.node.0, version: room.version + 1, number: self.next_number, index: 0 };
            let deleted = StoredEvent { id, at: self.clock.now(), room: Some(self.id.clone()), event };
            let events = vec![deleted];
            let deletion = Deletion { room: self.id.clone(), expected: room.version, audit, events };
            self.has_begun_write = true;
            match in_time(self.store.delete_room(&deletion)).await? {
                DeletionOutcome::Done => {
                    self.outbox.note_written(deletion.events.iter().map(|stored| &stored.event));
                    return Ok(RoomDeletion::Deleted);
                }
                DeletionOutcome::Conflict => {
                    count(&self.counters.conflicts, 1);
                    self.room = None;
                }
            }
        }
        Err(too_many_conflicts().into())
    }

    fn mark_deleted(&mut self) {
        self.note_health(None);
        if let Some(handle) = self.handle.upgrade() {
            handle.mark_deleted();
            self.rooms.remove(&handle);
        }
    }

    /// Refuses what is left. Nothing can be put into a closed queue, so nobody waits in vain.
    pub(super) async fn end_as_deleted(
        mut self,
        mut requests: mpsc::Receiver<Request>,
        mut batch: Vec<Request>,
    ) {
        self.mark_deleted();
        requests.close();
        while requests.recv_many(&mut batch, TURN_OPERATIONS_MAX).await > 0 {}
        for request in batch {
            request.refuse(EngineError::RoomDeleted);
        }
    }
}
