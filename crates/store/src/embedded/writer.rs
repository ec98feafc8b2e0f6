//! The one thread that writes. It owns the queue's receiving end and every write transaction.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use anteroom_core::UnixMillis;
use redb::{Database, WriteTransaction};
use tokio::sync::{mpsc, oneshot};

use super::transaction::{self, EncodedCommit};
use super::{Failure, FirstOpen, Opener, SharedDatabase, open_database};
use crate::clock::Clock;
use crate::contract::{CommitOutcome, JoinBatch, JoinOutcome, StoreError};

/// How many requests share one transaction at most.
const GROUP_MAX: usize = 512;
/// How often records nobody can ask for any more are looked for.
const HOUSEKEEPING_INTERVAL_MILLIS: u64 = 1_000;
/// The same while there are known to be more of them than one round deletes.
const HOUSEKEEPING_BACKLOG_INTERVAL_MILLIS: u64 = 50;

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// Something to write.
pub(super) enum Request {
    Commit { encoded: Box<EncodedCommit>, answer: Answer<CommitOutcome> },
    Join { batch: JoinBatch, answer: Answer<JoinOutcome> },
    ReplaceValue { name: String, expected: Option<Vec<u8>>, new: Vec<u8>, answer: Answer<bool> },
}

/// An answer that waits for the transaction to be durable.
enum Pending {
    Commit(Answer<CommitOutcome>, CommitOutcome),
    Join(Answer<JoinOutcome>, JoinOutcome),
    ReplaceValue(Answer<bool>, bool),
}

impl Pending {
    fn send(self) {
        // Whoever asked may have gone away; what was written stays written.
        match self {
            Self::Commit(answer, outcome) => drop(answer.send(Ok(outcome))),
            Self::Join(answer, outcome) => drop(answer.send(Ok(outcome))),
            Self::ReplaceValue(answer, outcome) => drop(answer.send(Ok(outcome))),
        }
    }

    fn refuse(self, error: StoreError) {
        match self {
            Self::Commit(answer, _) => drop(answer.send(Err(error))),
            Self::Join(answer, _) => drop(answer.send(Err(error))),
            Self::ReplaceValue(answer, _) => drop(answer.send(Err(error))),
        }
    }
}

impl Request {
    fn refuse(self, error: StoreError) {
        match self {
            Self::Commit { answer, .. } => drop(answer.send(Err(error))),
            Self::Join { answer, .. } => drop(answer.send(Err(error))),
            Self::ReplaceValue { answer, .. } => drop(answer.send(Err(error))),
        }
    }
}

pub(super) struct Writer {
    pub(super) database: SharedDatabase,
    pub(super) opener: Box<Opener>,
    pub(super) queue: mpsc::Receiver<Request>,
    pub(super) ready: Arc<AtomicBool>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Writer {
    pub(super) fn run(mut self) {
        let mut housekeeping_due = UnixMillis(0);
        let mut group = Vec::new();
        while self.queue.blocking_recv_many(&mut group, GROUP_MAX) > 0 {
            let now = self.clock.now();
            let housekeep = now >= housekeeping_due;
            match self.write_group(&mut group, housekeep.then_some(now)) {
                Ok(Some(backlog)) => {
                    housekeeping_due = now.plus(if backlog {
                        HOUSEKEEPING_BACKLOG_INTERVAL_MILLIS
                    } else {
                        HOUSEKEEPING_INTERVAL_MILLIS
                    });
                }
                Ok(None) => {}
                Err((pending, failure)) => self.handle_failure(pending, &mut group, &failure),
            }
        }
    }

    /// One transaction for the whole group: everybody is answered after its sync, or nobody. Returns whether housekeeping, if
    /// it was due, left something for the next time.
    fn write_group(
        &self,
        group: &mut Vec<Request>,
        housekeep_at: Option<UnixMillis>,
    ) -> Result<Option<bool>, (Vec<Pending>, Failure)> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(database) = database else {
            for request in group.drain(..) {
                request.refuse(StoreError::Permanent("the database could not be reopened".into()));
            }
            return Ok(None);
        };
        let transaction = database.begin_write().map_err(|error| (vec![], error.into()))?;
        let mut pending = Vec::with_capacity(group.len());
        let mut requests = std::mem::take(group).into_iter();
        while let Some(request) = requests.next() {
            match perform(&transaction, request) {
                Ok(answer) => pending.push(answer),
                Err((request_answer, failure)) => {
                    pending.extend(request_answer);
                    group.extend(requests);
                    return Err((pending, failure));
                }
            }
        }
        let backlog = match housekeep_at.map(|now| transaction::housekeep(&transaction, now)) {
            None => None,
            Some(Ok(backlog)) => Some(backlog),
            Some(Err(failure)) => return Err((pending, failure)),
        };
        if let Err(error) = transaction.commit() {
            return Err((pending, error.into()));
        }
        pending.into_iter().for_each(Pending::send);
        Ok(backlog)
    }

    fn handle_failure(&self, pending: Vec<Pending>, unwritten: &mut Vec<Request>, failure: &Failure) {
        tracing::error!(%failure, "a commit failed; opening the database again");
        match self.reopen() {
            Ok(()) => tracing::warn!("the database is open again"),
            Err(reason) => {
                self.ready.store(false, Ordering::Relaxed);
                tracing::error!(reason, "the database could not be opened again; not ready from now on");
            }
        }
        // Whoever is told now looks at the room again, and must see what is on disk.
        for answer in pending {
            answer.refuse(StoreError::Ambiguous(failure.to_string()));
        }
        for request in unwritten.drain(..) {
            request.refuse(StoreError::Transient(failure.to_string()));
        }
    }

    fn reopen(&self) -> Result<(), String> {
        let mut shared = self.database.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut old) = shared.take() {
            // Readers hold the database only for one look-up; the file can be opened again once they are gone.
            loop {
                match Arc::try_unwrap(old) {
                    Ok(database) => {
                        drop::<Database>(database);
                        break;
                    }
                    Err(still_read) => {
                        old = still_read;
                        std::thread::yield_now();
                    }
                }
            }
        }
        let database = open_database(&*self.opener, FirstOpen::No).map_err(|error| error.to_string())?;
        *shared = Some(Arc::new(database));
        Ok(())
    }
}

fn perform(transaction: &WriteTransaction, request: Request) -> Result<Pending, (Option<Pending>, Failure)> {
    match request {
        Request::Commit { encoded, answer } => match transaction::commit(transaction, &encoded) {
            Ok(outcome) => Ok(Pending::Commit(answer, outcome)),
            Err(failure) => Err((Some(Pending::Commit(answer, CommitOutcome::Conflict(None))), failure)),
        },
        Request::Join { batch, answer } => match transaction::join(transaction, &batch) {
            Ok(outcome) => Ok(Pending::Join(answer, outcome)),
            Err(failure) => Err((Some(Pending::Join(answer, JoinOutcome::Conflict(None))), failure)),
        },
        Request::ReplaceValue { name, expected, new, answer } => {
            match transaction::replace_value(transaction, &name, expected.as_deref(), &new) {
                Ok(replaced) => Ok(Pending::ReplaceValue(answer, replaced)),
                Err(failure) => Err((Some(Pending::ReplaceValue(answer, false)), failure)),
            }
        }
    }
}
