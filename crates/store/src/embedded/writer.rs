//! The one thread that writes. It owns the queue's receiving end and every write transaction.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use anteroom_core::UnixMillis;
use redb::{Database, WriteTransaction};
use tokio::sync::{mpsc, oneshot, watch};

use super::outbox::{self, OutboxChange};
use super::transaction::{self, EncodedCommit, EncodedEvent};
use super::{Failure, FirstOpen, Opener, SharedDatabase, open_database, restore};
use crate::backup::restore::{Restore, RestoreError};
use crate::clock::Clock;
use crate::contract::{
    AuditRecord, CommitOutcome, Deletion, DeletionOutcome, JoinBatch, JoinOutcome, StoreError,
};

/// How many requests share one transaction at most.
const GROUP_MAX: usize = 512;
/// How often records nobody can ask for any more are looked for.
const HOUSEKEEPING_INTERVAL_MILLIS: u64 = 1_000;
/// The same while there are known to be more of them than one round deletes.
const HOUSEKEEPING_BACKLOG_INTERVAL_MILLIS: u64 = 50;

/// How long to leave it alone after it failed.
const HOUSEKEEPING_RETRY_MILLIS: u64 = 60_000;
/// How often a database that could not be opened is tried again.
const REOPENING_INTERVAL_MILLIS: u64 = 1_000;

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// What is written with a value.
pub(super) struct ValueNotes {
    pub(super) audit: Option<AuditRecord>,
    pub(super) events: Vec<EncodedEvent>,
}

/// Something to write.
pub(super) enum Request {
    Commit {
        encoded: Box<EncodedCommit>,
        answer: Answer<CommitOutcome>,
    },
    Delete {
        deletion: Box<Deletion>,
        answer: Answer<DeletionOutcome>,
    },
    Join {
        batch: JoinBatch,
        answer: Answer<JoinOutcome>,
    },
    ReplaceValue {
        name: String,
        expected: Option<Vec<u8>>,
        new: Vec<u8>,
        notes: Box<ValueNotes>,
        answer: Answer<bool>,
    },
    Outbox {
        change: Box<OutboxChange>,
        answer: Answer<()>,
    },
    Restore {
        restore: Box<Restore>,
        answer: oneshot::Sender<Result<(), RestoreError>>,
    },
    /// A reader found the database missing: try to open it, nobody waits for an answer.
    Reopen,
}

/// An answer that waits for the transaction to be durable.
enum Pending {
    Commit(Answer<CommitOutcome>, CommitOutcome),
    Delete(Answer<DeletionOutcome>, DeletionOutcome),
    Join(Answer<JoinOutcome>, JoinOutcome),
    ReplaceValue(Answer<bool>, bool),
    Outbox(Answer<()>),
    Restore(oneshot::Sender<Result<(), RestoreError>>),
}

impl Pending {
    fn send(self) {
        // The caller may have gone away; what was written stays written.
        match self {
            Self::Commit(answer, outcome) => drop(answer.send(Ok(outcome))),
            Self::Delete(answer, outcome) => drop(answer.send(Ok(outcome))),
            Self::Join(answer, outcome) => drop(answer.send(Ok(outcome))),
            Self::ReplaceValue(answer, outcome) => drop(answer.send(Ok(outcome))),
            Self::Outbox(answer) => drop(answer.send(Ok(()))),
            Self::Restore(answer) => drop(answer.send(Ok(()))),
        }
    }

    fn refuse(self, error: StoreError) {
        match self {
            Self::Commit(answer, _) => drop(answer.send(Err(error))),
            Self::Delete(answer, _) => drop(answer.send(Err(error))),
            Self::Join(answer, _) => drop(answer.send(Err(error))),
            Self::ReplaceValue(answer, _) => drop(answer.send(Err(error))),
            Self::Outbox(answer) => drop(answer.send(Err(error))),
            Self::Restore(answer) => drop(answer.send(Err(error.into()))),
        }
    }
}

impl Request {
    fn refuse(self, error: StoreError) {
        match self {
            Self::Commit { answer, .. } => drop(answer.send(Err(error))),
            Self::Delete { answer, .. } => drop(answer.send(Err(error))),
            Self::Join { answer, .. } => drop(answer.send(Err(error))),
            Self::ReplaceValue { answer, .. } => drop(answer.send(Err(error))),
            Self::Outbox { answer, .. } => drop(answer.send(Err(error))),
            Self::Restore { answer, .. } => drop(answer.send(Err(error.into()))),
            Self::Reopen => {}
        }
    }
}

pub(super) struct Writer {
    pub(super) database: SharedDatabase,
    pub(super) opener: Box<Opener>,
    pub(super) queue: mpsc::Receiver<Request>,
    pub(super) ready: Arc<AtomicBool>,
    pub(super) clock: Arc<dyn Clock>,
    /// Counts how often everything was replaced.
    pub(super) restores: Arc<AtomicU64>,
    /// Counts how often the database was closed to open it again: a long-running reader must close it too.
    pub(super) reopened: watch::Sender<u64>,
}

impl Writer {
    pub(super) fn run(mut self) {
        let mut housekeeping_due = UnixMillis(0);
        let mut health = Health::default();
        let mut group = Vec::new();
        while self.queue.blocking_recv_many(&mut group, GROUP_MAX) > 0 {
            let now = self.clock.now();
            let Some(database) = self.open(&mut health, now) else {
                for request in group.drain(..) {
                    request.refuse(StoreError::Transient("the database could not be opened again".into()));
                }
                continue;
            };
            group.retain(|request| !matches!(request, Request::Reopen));
            if group.is_empty() {
                continue;
            }
            let written = write_in_turn(&database, &mut group, &self.restores);
            match written {
                Ok(written) => {
                    // First, so that a caller finds the store as ready as its answer says.
                    self.note_success(&mut health);
                    written.into_iter().for_each(Pending::send);
                }
                Err((pending, failure)) => {
                    drop(database);
                    self.handle_failure(pending, &mut group, &failure, &mut health, now);
                    continue;
                }
            }
            if now >= housekeeping_due {
                let interval = housekeep(&database, now);
                housekeeping_due = now.plus(interval);
            }
        }
    }

    /// The database, opened again if it was lost and a moment has passed since the last try.
    fn open(&self, health: &mut Health, now: UnixMillis) -> Option<Arc<Database>> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner).clone();
        if database.is_some() || now < health.reopening_due {
            return database;
        }
        self.reopen(health, now);
        self.database.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_success(&self, health: &mut Health) {
        if health.failures_in_a_row > 0 {
            tracing::warn!(failures = health.failures_in_a_row, "commits succeed again");
            health.failures_in_a_row = 0;
            self.ready.store(true, Ordering::Relaxed);
        }
    }

    /// Opens the database again, then tells everybody. One failure may be an accident; from the second in a row on the store is
    /// not ready, until a commit works again. Logged when it begins and when it ends, not at every failure in between.
    fn handle_failure(
        &self,
        pending: Vec<Pending>,
        unwritten: &mut Vec<Request>,
        failure: &Failure,
        health: &mut Health,
        now: UnixMillis,
    ) {
        health.failures_in_a_row += 1;
        if health.failures_in_a_row == 1 {
            tracing::error!(%failure, "commit failed, reopening the database");
        } else {
            if health.failures_in_a_row == 2 {
                tracing::error!(%failure, "commits keep failing, not ready until one succeeds");
            }
            self.ready.store(false, Ordering::Relaxed);
        }
        self.reopen(health, now);
        // A caller that gets an error reads the room again, and must see what is on disk.
        for answer in pending {
            answer.refuse(StoreError::Ambiguous(failure.to_string()));
        }
        for request in unwritten.drain(..) {
            request.refuse(StoreError::Transient(failure.to_string()));
        }
    }

    fn reopen(&self, health: &mut Health, now: UnixMillis) {
        health.reopening_due = now.plus(REOPENING_INTERVAL_MILLIS);
        self.reopened.send_modify(|reopened| *reopened += 1);
        // The lock is held only to take the old one out and to put the new one in: meanwhile readers get a transient
        // error.
        let old = self.database.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut old) = old {
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
        match open_database(&*self.opener, FirstOpen::No) {
            Ok(database) => {
                *self.database.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(database));
            }
            Err(error) => {
                health.failures_in_a_row = health.failures_in_a_row.max(1);
                if self.ready.swap(false, Ordering::Relaxed) {
                    tracing::error!(%error, "reopening the database failed, not ready until it succeeds");
                }
            }
        }
    }
}

/// How writing has gone lately.
#[derive(Default)]
struct Health {
    failures_in_a_row: u64,
    /// When a lost database may be tried again.
    reopening_due: UnixMillis,
}

/// Writes a group, what replaces everything after the rest of it and in transactions of its own; returns the answers, to be sent
/// now that everything is durable.
fn write_in_turn(
    database: &Database,
    group: &mut Vec<Request>,
    restores: &AtomicU64,
) -> Result<Vec<Pending>, (Vec<Pending>, Failure)> {
    let replacements: Vec<Request> =
        group.extract_if(.., |request| matches!(request, Request::Restore { .. })).collect();
    let mut pending = if group.is_empty() { vec![] } else { write_group(database, group)? };
    for request in replacements {
        let Request::Restore { restore, answer } = request else { continue };
        match restore_alone(database, *restore) {
            Ok(()) => {
                restores.fetch_add(1, Ordering::Release);
                pending.push(Pending::Restore(answer));
            }
            Err(RestoreFailure::Refused(error)) => drop(answer.send(Err(error))),
            Err(RestoreFailure::Database(failure)) => {
                pending.push(Pending::Restore(answer));
                return Err((pending, failure));
            }
        }
    }
    Ok(pending)
}

/// Why a backup was not restored: nothing was changed, or the database failed.
enum RestoreFailure {
    Refused(RestoreError),
    Database(Failure),
}

fn restore_alone(database: &Database, restore: Restore) -> Result<(), RestoreFailure> {
    let failed = |failure: Failure| RestoreFailure::Database(failure);
    let transaction = database.begin_write().map_err(|error| failed(error.into()))?;
    match restore::restore(&transaction, restore) {
        Ok(()) => transaction.commit().map_err(|error| failed(error.into())),
        Err(RestoreError::Store(error)) => Err(failed(error.into())),
        Err(refused) => {
            transaction.abort().map_err(|error| failed(error.into()))?;
            Err(RestoreFailure::Refused(refused))
        }
    }
}

/// One transaction for the whole group: returns the answers, to be sent now that it is durable.
fn write_group(
    database: &Database,
    group: &mut Vec<Request>,
) -> Result<Vec<Pending>, (Vec<Pending>, Failure)> {
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
    if let Err(error) = transaction.commit() {
        return Err((pending, error.into()));
    }
    Ok(pending)
}

/// Deletes what nobody can ask for any more, in a transaction of its own, so that its failure is nobody else's. Returns when
/// to look again, in milliseconds.
fn housekeep(database: &Database, now: UnixMillis) -> u64 {
    let kept = || -> Result<usize, Failure> {
        let transaction = database.begin_write()?;
        let deleted = transaction::housekeep(&transaction, now)?;
        if deleted > 0 {
            transaction.commit()?;
        } else {
            transaction.abort()?;
        }
        Ok(deleted)
    };
    match kept() {
        Ok(deleted) if deleted >= transaction::HOUSEKEEPING_ROWS_MAX => HOUSEKEEPING_BACKLOG_INTERVAL_MILLIS,
        Ok(_) => HOUSEKEEPING_INTERVAL_MILLIS,
        Err(failure) => {
            tracing::warn!(%failure, "deleting old records failed, retrying in a minute");
            HOUSEKEEPING_RETRY_MILLIS
        }
    }
}

fn perform(transaction: &WriteTransaction, request: Request) -> Result<Pending, (Option<Pending>, Failure)> {
    match request {
        Request::Reopen | Request::Restore { .. } => {
            unreachable!("taken out before the transaction began")
        }
        Request::Commit { encoded, answer } => match transaction::commit(transaction, &encoded) {
            Ok(outcome) => Ok(Pending::Commit(answer, outcome)),
            Err(failure) => Err((Some(Pending::Commit(answer, CommitOutcome::Conflict(None))), failure)),
        },
        Request::Delete { deletion, answer } => match transaction::delete_room(transaction, &deletion) {
            Ok(outcome) => Ok(Pending::Delete(answer, outcome)),
            Err(failure) => Err((Some(Pending::Delete(answer, DeletionOutcome::Conflict)), failure)),
        },
        Request::Join { batch, answer } => match transaction::join(transaction, &batch) {
            Ok(outcome) => Ok(Pending::Join(answer, outcome)),
            Err(failure) => Err((Some(Pending::Join(answer, JoinOutcome::Conflict(None))), failure)),
        },
        Request::Outbox { change, answer } => match outbox::change(transaction, &change) {
            Ok(()) => Ok(Pending::Outbox(answer)),
            Err(failure) => Err((Some(Pending::Outbox(answer)), failure)),
        },
        Request::ReplaceValue { name, expected, new, notes, answer } => {
            let ValueNotes { audit, events } = *notes;
            let (expected, audit) = (expected.as_deref(), audit.as_ref());
            match transaction::replace_value(transaction, &name, expected, &new, audit, &events) {
                Ok(replaced) => Ok(Pending::ReplaceValue(answer, replaced)),
                Err(failure) => Err((Some(Pending::ReplaceValue(answer, false)), failure)),
            }
        }
    }
}
