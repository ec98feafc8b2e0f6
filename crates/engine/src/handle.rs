//! A room as everybody but its owner sees it: its board, and the bounded way to its owner.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anteroom_core::{
    Answer, Board, Operation, PlaceStatus, Room, RoomId, RoomState, Settings, Standing, Ticket, UnixMillis,
};
use anteroom_store::codec;
use anteroom_store::contract::{AnswerKey, Lineage, RoomPoll, Store};
use arc_swap::ArcSwap;
use tokio::sync::{mpsc, oneshot, watch};

use crate::counters::count;
use crate::place_status_cache::{Invalidation, Lookup, PlaceStatusCache};
use crate::{Actor, EngineCounters, EngineError, OPERATORS_RESERVE};

/// What a join is called, as `Operation::name` has it.
const JOIN: &str = Operation::Join { count: 1 }.name();

/// Settings and state as a caller has read them.
pub type SettingsAndState = (Settings, RoomState);

pub(super) enum Request {
    Join {
        answer: oneshot::Sender<Result<Ticket, EngineError>>,
    },
    Operate {
        operation: Operation,
        actor: Actor,
        answer: oneshot::Sender<Result<Answer, EngineError>>,
    },
    Delete {
        expected: Option<Box<SettingsAndState>>,
        actor: Actor,
        answer: oneshot::Sender<Result<bool, EngineError>>,
    },
    /// Another node may have done something: this was seen of it, or the store is to be asked.
    Poll {
        poll: Option<RoomPoll>,
        answer: Option<oneshot::Sender<Result<(), EngineError>>>,
    },
}

impl Request {
    /// Whether a few milliseconds more make no difference to the caller.
    pub(super) const fn can_wait(&self) -> bool {
        matches!(self, Self::Operate { operation: Operation::Claim(_), actor: Actor::Visitor, .. })
    }

    const fn is_of_a_visitor(&self) -> bool {
        matches!(self, Self::Join { .. } | Self::Poll { .. } | Self::Operate { actor: Actor::Visitor, .. })
    }

    pub(super) fn refuse(self, error: EngineError) {
        match self {
            Self::Join { answer } => drop(answer.send(Err(error))),
            Self::Operate { answer, .. } => drop(answer.send(Err(error))),
            Self::Delete { answer, .. } => drop(answer.send(Err(error))),
            Self::Poll { answer, .. } => drop(answer.map(|answer| answer.send(Err(error)))),
        }
    }
}

/// A room as everybody but its owner sees it.
pub struct RoomHandle {
    id: RoomId,
    board: ArcSwap<Board>,
    changes: watch::Receiver<u64>,
    queue: mpsc::Sender<Request>,
    deleted: AtomicBool,
    replaced: AtomicBool,
    /// Whether this node runs the room's clockwork.
    lease: AtomicBool,
    /// That of the store when the board was made.
    lineage: Mutex<Lineage>,
    place_statuses: PlaceStatusCache,
    counters: Arc<EngineCounters>,
    store: Arc<dyn Store>,
}

impl RoomHandle {
    pub(super) fn new(
        id: RoomId,
        (room, lineage): (&Room, Lineage),
        store: Arc<dyn Store>,
        changes: watch::Receiver<u64>,
        queue: mpsc::Sender<Request>,
        counters: Arc<EngineCounters>,
    ) -> Self {
        let board = ArcSwap::from_pointee(Board::of(room));
        let (deleted, replaced) = (AtomicBool::new(false), AtomicBool::new(false));
        let (lease, lineage) = (AtomicBool::new(!store.is_shared()), Mutex::new(lineage));
        let place_statuses = PlaceStatusCache::default();
        Self { id, board, changes, queue, deleted, replaced, lease, lineage, place_statuses, counters, store }
    }

    /// Its name.
    pub fn id(&self) -> &RoomId {
        &self.id
    }

    /// Its figures as of the last commit.
    pub fn board(&self) -> Arc<Board> {
        self.board.load_full()
    }

    /// Its figures, for a look that is over at once.
    pub fn with_board<T>(&self, look: impl FnOnce(&Arc<Board>) -> T) -> T {
        look(&self.board.load())
    }

    /// Tells of every board that shows something new, by a number that rises with each. It is closed when the room has no owner
    /// any more: it was deleted ([`RoomHandle::is_deleted`]), everything was replaced ([`RoomHandle::is_replaced`]), or the engine
    /// has stopped.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// Whether the room was deleted. Another one of the same name is another room, with a handle of its own.
    pub fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    pub(super) fn mark_deleted(&self) {
        self.deleted.store(true, Ordering::Release);
    }

    /// Whether a restore has ended this handle. The engine has another one for the room, if it is still there.
    pub fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Acquire)
    }

    pub(super) fn mark_replaced(&self) {
        self.replaced.store(true, Ordering::Release);
    }

    /// Shows a board; returns whether it says anything new.
    pub(super) fn show(&self, mut board: Board, lineage: Lineage) -> bool {
        *self.lineage.lock().unwrap_or_else(PoisonError::into_inner) = lineage;
        let before = self.board.load();
        let clock = std::mem::replace(&mut board.clock, before.clock);
        let is_different = board != **before;
        board.clock = clock;
        self.board.store(Arc::new(board));
        is_different
    }

    /// Whether this node runs the room's clockwork, as far as it knows.
    pub fn holds_lease(&self) -> bool {
        self.lease.load(Ordering::Acquire)
    }

    /// Notes whether it does; returns whether it did before.
    pub(super) fn note_lease(&self, holds: bool) -> bool {
        self.lease.swap(holds, Ordering::AcqRel)
    }

    /// Whether a poll shows more than the board does.
    pub(super) fn is_behind(&self, poll: &RoomPoll) -> bool {
        let lineage = *self.lineage.lock().unwrap_or_else(PoisonError::into_inner);
        if poll.lineage != lineage || !poll.is_continuous {
            return true;
        }
        self.with_board(|board| {
            let newest = board.segments.last();
            let joined = newest.map_or(0, |newest| newest.joined);
            let same_line = newest.is_some_and(|newest| newest.generation == poll.generation);
            let later_line = newest.is_some_and(|newest| poll.generation > newest.generation);
            poll.version > board.version
                || later_line
                || poll.version == board.version && (!same_line || poll.joined > joined)
        })
    }

    pub(super) fn tell(&self, request: Request) -> Result<(), EngineError> {
        self.queue.try_send(request).map_err(|refused| self.queue_error(&refused))
    }

    /// Has the board show what the store has now.
    pub async fn refresh(&self) -> Result<(), EngineError> {
        let (answer, answered) = oneshot::channel();
        self.send(Request::Poll { poll: None, answer: Some(answer) })?;
        answered.await.unwrap_or_else(|_| Err(self.no_owner_error()))
    }

    /// Tells the room of a genuine ticket that its board does not know; refused if the room cannot have handed it out.
    pub async fn recall(&self, ticket: Ticket) -> Result<(), EngineError> {
        self.operate(Operation::Show { ticket }, Actor::Visitor).await.map(|_| ())
    }

    /// The place that a repeatable join got on any node; `None` too where nobody but this node takes joins.
    pub async fn kept_place(&self, key: &AnswerKey) -> Result<Option<Ticket>, EngineError> {
        if !self.store.is_shared() {
            return Ok(None);
        }
        let kept = self.store.kept_answer(&self.id, key).await?;
        Ok(kept.as_deref().and_then(codec::decode_ticket))
    }

    /// Keeps the place that a repeatable join got, for other nodes; returns the one that another node was faster with.
    pub async fn keep_place(
        &self,
        key: AnswerKey,
        ticket: &Ticket,
        kept: Duration,
    ) -> Result<Option<Ticket>, EngineError> {
        if !self.store.is_shared() {
            return Ok(None);
        }
        let before = self.store.keep_answer(&self.id, key, &codec::encode_ticket(ticket), kept).await?;
        Ok(before.as_deref().and_then(codec::decode_ticket))
    }

    /// How many operations wait for the room.
    pub fn queue_length(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    /// Takes a place in line; answered when it is durable.
    pub async fn join(&self) -> Result<Ticket, EngineError> {
        let (answer, answered) = oneshot::channel();
        let joined = match self.send(Request::Join { answer }) {
            Ok(()) => answered.await.unwrap_or_else(|_| Err(self.no_owner_error())),
            Err(refused) => Err(refused),
        };
        joined.inspect_err(|error| self.counters.operation_failures.note(JOIN, error))
    }

    /// Where a served ticket stands, as the room itself knows it; asked at most once a second for each ticket. What this node has
    /// done to the place is seen at once.
    pub async fn place_status(&self, ticket: Ticket, now: UnixMillis) -> Result<PlaceStatus, EngineError> {
        let is_offered =
            self.with_board(|board| matches!(board.standing(&ticket, now), Standing::Offered { .. }));
        loop {
            match self.place_statuses.look_up(&ticket, is_offered, now) {
                Lookup::Hit(result) => return result.map_err(EngineError::Refused),
                Lookup::UnderWay(mut outcome) => {
                    // Without an outcome its caller has given up, and somebody else asks.
                    if let Ok(outcome) = outcome.wait_for(Option::is_some).await
                        && let Some(result) = outcome.clone()
                    {
                        return result;
                    }
                }
                Lookup::Miss(inspection, waiting) => {
                    let result = self.inspect(ticket).await;
                    match &result {
                        Ok(place) => self.place_statuses.insert(&ticket, inspection, &Ok(place.clone())),
                        Err(EngineError::Refused(refusal)) => {
                            self.place_statuses.insert(&ticket, inspection, &Err(refusal.clone()));
                        }
                        Err(_) => {}
                    }
                    waiting.send_replace(Some(result.clone()));
                    return result;
                }
            }
        }
    }

    async fn inspect(&self, ticket: Ticket) -> Result<PlaceStatus, EngineError> {
        count(&self.counters.place_looks, 1);
        match self.operate(Operation::Inspect { ticket }, Actor::Visitor).await? {
            Answer::Place(place) => Ok(place),
            other => unreachable!("an inspection was answered by {other:?}"),
        }
    }

    /// Does something to the room; answered when it is durable.
    pub async fn operate(&self, operation: Operation, actor: Actor) -> Result<Answer, EngineError> {
        let _invalidate = self.place_statuses.invalidate_on_drop(Invalidation::of(&operation));
        let (answer, answered) = oneshot::channel();
        let name = operation.name();
        let done = match self.send(Request::Operate { operation, actor, answer }) {
            Ok(()) => answered.await.unwrap_or_else(|_| Err(self.no_owner_error())),
            Err(refused) => Err(refused),
        };
        done.inspect_err(|error| self.counters.operation_failures.note(name, error))
    }

    /// Does several things to the room, in this order and, as far as one turn takes them, in one commit. Either all of them are
    /// queued or none is.
    pub async fn operate_all(
        &self,
        operations: Vec<Operation>,
        actor: &Actor,
    ) -> Result<Vec<Result<Answer, EngineError>>, EngineError> {
        let permits =
            self.queue.try_reserve_many(operations.len()).map_err(|refused| self.queue_error(&refused))?;
        let _invalidate: Vec<_> = operations
            .iter()
            .map(|operation| self.place_statuses.invalidate_on_drop(Invalidation::of(operation)))
            .collect();
        let answers: Vec<_> = permits
            .zip(operations)
            .map(|(permit, operation)| {
                let (name, (answer, answered)) = (operation.name(), oneshot::channel());
                permit.send(Request::Operate { operation, actor: actor.clone(), answer });
                (name, answered)
            })
            .collect();
        let mut results = Vec::with_capacity(answers.len());
        for (name, answered) in answers {
            let result = answered.await.unwrap_or_else(|_| Err(self.no_owner_error()));
            results.push(result.inspect_err(|error| self.counters.operation_failures.note(name, error)));
        }
        Ok(results)
    }

    /// Deletes the room after what has queued up; returns whether it was there.
    pub(super) async fn delete(
        &self,
        expected: Option<SettingsAndState>,
        actor: Actor,
    ) -> Result<bool, EngineError> {
        let (answer, answered) = oneshot::channel();
        self.send(Request::Delete { expected: expected.map(Box::new), actor, answer })?;
        answered.await.unwrap_or_else(|_| Err(self.no_owner_error()))
    }

    /// Why there is no owner any more.
    fn no_owner_error(&self) -> EngineError {
        match (self.is_deleted(), self.is_replaced()) {
            (true, _) => EngineError::RoomDeleted,
            (false, true) => EngineError::Restoring,
            // The owner is there, and has dropped the request: it was part of a turn that panicked.
            (false, false) if !self.queue.is_closed() => EngineError::Panicked,
            (false, false) => EngineError::Stopped,
        }
    }

    fn send(&self, request: Request) -> Result<(), EngineError> {
        if request.is_of_a_visitor() && self.queue.capacity() <= OPERATORS_RESERVE && !self.queue.is_closed()
        {
            count(&self.counters.overloads, 1);
            return Err(EngineError::Overloaded);
        }
        self.queue.try_send(request).map_err(|refused| self.queue_error(&refused))
    }

    fn queue_error<T>(&self, refused: &mpsc::error::TrySendError<T>) -> EngineError {
        match refused {
            mpsc::error::TrySendError::Full(_) => {
                count(&self.counters.overloads, 1);
                EngineError::Overloaded
            }
            mpsc::error::TrySendError::Closed(_) => self.no_owner_error(),
        }
    }
}

/// All rooms of a node, by name: read by everybody at any time, changed seldom.
#[derive(Default)]
pub(super) struct RoomMap(ArcSwap<HashMap<RoomId, Arc<RoomHandle>>>);

impl RoomMap {
    pub(super) fn get(&self, id: &str) -> Option<Arc<RoomHandle>> {
        self.0.load().get(id).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<RoomHandle>> {
        self.0.load().values().cloned().collect()
    }

    pub(super) fn insert(&self, handle: &Arc<RoomHandle>) {
        self.0.rcu(|rooms| {
            let mut rooms = HashMap::clone(rooms);
            rooms.insert(handle.id.clone(), handle.clone());
            rooms
        });
    }

    /// Takes this very handle out; one that has taken its name meanwhile stays.
    pub(super) fn remove(&self, handle: &Arc<RoomHandle>) {
        self.0.rcu(|rooms| {
            let mut rooms = HashMap::clone(rooms);
            if rooms.get(&handle.id).is_some_and(|found| Arc::ptr_eq(found, handle)) {
                rooms.remove(&handle.id);
            }
            rooms
        });
    }

    pub(super) fn clear(&self) {
        self.0.store(Arc::default());
    }
}
