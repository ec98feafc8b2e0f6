//! A turn that panics: the rules, or a store, stopped at a mistake. The owner goes on from what the store has.
//!
//! The batch is tried again in halves, so that the request which cannot be done is refused and the others are done. Nothing is tried
//! again once its write has begun: whether that happened is not known, and its callers are told so.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use anteroom_store::contract::StoreError;

use super::{Owner, RoomGone};
use crate::EngineError;
use crate::counters::count;
use crate::handle::Request;

/// A future panicked.
pub(super) struct Panicked;

/// Drives a future to its end, or to its panic, with which it is over. The panic itself was reported by the process's hook.
pub(super) async fn catch_panic<F: Future>(future: F) -> Result<F::Output, Panicked> {
    let mut future = pin!(future);
    std::future::poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        polled.map_or(Poll::Ready(Err(Panicked)), |polled| polled.map(Ok))
    })
    .await
}

impl Owner {
    /// After a turn that panicked: the room is read from the store, and what was asked is done or refused.
    pub(super) async fn recover(&mut self, batch: &mut Vec<Request>) -> Result<(), RoomGone> {
        let mut parts = vec![];
        self.divide(std::mem::take(batch), &mut parts);
        while let Some(mut part) = parts.pop() {
            match catch_panic(self.work(&mut part)).await {
                Ok(Ok(())) => {}
                Ok(Err(gone)) => {
                    for request in parts.into_iter().flatten() {
                        request.refuse(EngineError::RoomDeleted);
                    }
                    return Err(gone);
                }
                Err(Panicked) => self.divide(part, &mut parts),
            }
        }
        if self.room.is_some() {
            return Ok(());
        }
        // The mistake may be in what was asked, or in the room itself. A turn that nobody asked for shows which: a room that works is
        // not counted as one that fails.
        if let Ok(turned) = catch_panic(self.work(&mut vec![])).await {
            return turned;
        }
        count(&self.counters.panics, 1);
        self.note_failure(&StoreError::Transient("the room stopped without a request".into()));
        Ok(())
    }

    /// Of a batch that panicked: both halves, the earlier one last; or its only request refused.
    fn divide(&mut self, mut batch: Vec<Request>, parts: &mut Vec<Vec<Request>>) {
        tracing::error!(room = %self.id, requests = batch.len(), "room owner panicked, reloading room");
        count(&self.counters.panics, 1);
        self.let_go_of_room();
        if self.has_begun_write {
            let error = StoreError::Ambiguous("the room stopped in the middle of a write".into());
            for request in batch {
                request.refuse(error.clone().into());
            }
        } else if batch.len() > 1 {
            let later = batch.split_off(batch.len() / 2);
            parts.extend([later, batch]);
        } else {
            for request in batch {
                request.refuse(EngineError::Panicked);
            }
        }
    }
}
