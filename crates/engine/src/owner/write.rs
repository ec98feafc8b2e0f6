//! How a turn is written: one commit, or one batch of joins, and what to do when nobody knows whether it happened.

use std::time::Duration;

use anteroom_core::{Room, Settings, UnixMillis};
use anteroom_store::clock::Stopwatch;
use anteroom_store::contract::{Commit, CommitOutcome, JoinBatch, JoinOutcome, Snapshot, StoreError};

use super::adoption::Duty;
use super::turn::TurnResult;
use super::{Owner, WRITE_TIMEOUT};
use crate::counters::count;

/// How long a shared store is asked again whether a write happened.
const ASKED_AGAIN_MAX: Duration = Duration::from_secs(4);

/// What became of a turn that the store answered.
pub(super) enum WriteOutcome {
    /// It is written, or there was nothing to write.
    Written,
    /// Nothing was written: the store has this newer room, or none.
    Conflict(Option<Box<Snapshot>>),
}

impl Owner {
    /// Writes what was computed.
    pub(super) async fn write(&mut self, computed: &mut TurnResult) -> Result<WriteOutcome, StoreError> {
        let joined: u64 = computed.answers.joins.iter().map(|range| range.count).sum();
        if !computed.effects.changed && computed.audit.is_empty() && joined == 0 {
            return Ok(WriteOutcome::Written);
        }
        self.has_begun_write = true;
        let number = self.next_number;
        self.next_number += 1;
        let stopwatch = Stopwatch::start();
        self.last_commit = Some(stopwatch);
        let outcome = if computed.effects.changed || !computed.audit.is_empty() {
            self.commit(computed, number).await?
        } else {
            self.join(computed, number, joined).await?
        };
        let micros = u64::try_from(stopwatch.elapsed().as_micros()).unwrap_or(u64::MAX);
        count(&self.counters.commit_micros, micros);
        if matches!(outcome, WriteOutcome::Written) {
            count(&self.counters.commits, 1);
            count(&self.counters.joins, joined);
        }
        Ok(outcome)
    }

    async fn commit(&mut self, computed: &mut TurnResult, number: u64) -> Result<WriteOutcome, StoreError> {
        if !computed.effects.changed {
            computed.room.version += 1;
        }
        let placeholder = Room::open(Settings::default(), UnixMillis(0), 0);
        let commit = Commit {
            room: self.id.clone(),
            node: self.node,
            number,
            expected: Some(computed.expected),
            lineage: self.lineage,
            mends: self.duty == Duty::Mend,
            opens_line: computed.opens_line,
            joined_before: computed.joined_before,
            next: std::mem::replace(&mut computed.room, placeholder),
            effects: std::mem::take(&mut computed.effects),
            audit: std::mem::take(&mut computed.audit),
        };
        let store = self.store.clone();
        let outcome = self.retry_if_ambiguous(|| store.commit(&commit)).await;
        computed.room = commit.next;
        computed.effects = commit.effects;
        match outcome? {
            CommitOutcome::Done { joined } => {
                self.outbox.note_written(&computed.effects.events);
                computed.shift_joins(joined);
                Ok(WriteOutcome::Written)
            }
            CommitOutcome::Conflict(newer) => Ok(WriteOutcome::Conflict(newer)),
        }
    }

    async fn join(
        &mut self,
        computed: &mut TurnResult,
        number: u64,
        joined: u64,
    ) -> Result<WriteOutcome, StoreError> {
        let batch = JoinBatch {
            room: self.id.clone(),
            node: self.node,
            number,
            epoch: computed.room.epoch,
            lineage: self.lineage,
            count: joined,
        };
        let store = self.store.clone();
        match self.retry_if_ambiguous(|| store.join(&batch)).await? {
            JoinOutcome::Joined { first } => {
                computed.shift_joins(first + joined - 1);
                Ok(WriteOutcome::Written)
            }
            JoinOutcome::Conflict(newer) => Ok(WriteOutcome::Conflict(newer)),
        }
    }

    /// Writes, and if the answer was lost, asks a shared store again. The number makes that harmless: what happened is answered as
    /// the first time, and what did not happen is done now.
    async fn retry_if_ambiguous<T, Writing>(&mut self, write: impl Fn() -> Writing) -> Result<T, StoreError>
    where
        Writing: Future<Output = Result<T, StoreError>>,
    {
        let asking = Stopwatch::start();
        let mut tries = 0;
        let mut unknown = None;
        loop {
            let error = match (in_time(write()).await, unknown) {
                (Ok(outcome), _) => return Ok(outcome),
                (Err(error @ StoreError::Ambiguous(_)), _) | (Err(_), Some(error)) => error,
                (Err(error), None) => return Err(error),
            };
            if !self.store.is_shared() || asking.elapsed() >= ASKED_AGAIN_MAX {
                return Err(error);
            }
            unknown = Some(error);
            tries += 1;
            tokio::time::sleep(self.backoff.pause_after_conflicts(tries + 4)).await;
        }
    }
}

/// A store that does not answer is as good as one that lost the answer.
pub(super) async fn in_time<T>(write: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let late = |_| Err(StoreError::Ambiguous(format!("no answer within {WRITE_TIMEOUT:?}")));
    tokio::time::timeout(WRITE_TIMEOUT, write).await.unwrap_or_else(late)
}
