//! The node's hold on its rooms: one owner task per room takes what has queued up, applies the rules, commits once, publishes
//! the board, and only then answers.
//!
//! # The path of an operation
//! queue → `Owner::turn` in `owner` (tick, joins, operations, by `anteroom_core::apply`) → one [`Store::commit`] or [`Store::join`] →
//! board published → answers. On a conflict the same operations are applied to the newer room. On an ambiguous failure
//! nothing is tried again: the room is loaded anew and whoever asked is told that the outcome is unknown.

mod owner;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anteroom_core::{
    Answer, Board, Effects, Operation, Reads, Refusal, Room, RoomId, RoomState, Settings, Ticket, UnixMillis,
    apply,
};
use arc_swap::ArcSwap;
use tokio::sync::{mpsc, oneshot, watch};

use self::owner::Owner;
use crate::clock::Clock;
use crate::contract::{AuditRecord, Commit, CommitOutcome, NodeId, Store, StoreError};

/// How many operations may wait for a room. Beyond it callers are refused at once.
pub const ROOM_QUEUE_MAX: usize = 16_384;
/// How many places of that queue visitors cannot fill, so that operators and the origin can always act.
pub const OPERATORS_RESERVE: usize = 1_024;
/// How long the end of the engine may take.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How many operations share one commit.
pub const TURN_OPERATIONS_MAX: usize = 4_096;
/// How many ended sessions one turn sweeps. The rest still counts as active, which is safe.
pub const SWEEP_MAX: usize = 1_024;
/// How often a turn is computed anew after a conflict before its callers are told to come back.
pub const CONFLICTS_MAX: u32 = 16;

/// Why an operation was not done.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// The rules refuse it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Too many are waiting.
    #[error("too many operations are waiting")]
    Overloaded,
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The server is going down.
    #[error("the server is shutting down")]
    Stopped,
}

/// Who asks for a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// A visitor, about his own place: not audited.
    Visitor,
    /// Somebody with a key: audited under its name.
    Operator(String),
    /// The program itself, e.g. for its configuration file: audited under that name.
    System(&'static str),
}

/// What the engine has done so far; read by metrics.
#[derive(Debug, Default)]
pub struct EngineCounters {
    /// Commits and joins written.
    pub commits: AtomicU64,
    /// Microseconds spent waiting for them.
    pub commit_micros: AtomicU64,
    /// Visitors joined.
    pub joins: AtomicU64,
    /// Sessions begun.
    pub sessions_begun: AtomicU64,
    /// Conflicts met.
    pub conflicts: AtomicU64,
    /// Commits that failed or whose outcome is unknown.
    pub failures: AtomicU64,
    /// Rooms whose last turn failed.
    pub rooms_failing: AtomicU64,
    /// Operations refused because the queue was full.
    pub overloads: AtomicU64,
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

enum Request {
    Join { answer: oneshot::Sender<Result<Ticket, EngineError>> },
    Operate { operation: Operation, actor: Actor, answer: oneshot::Sender<Result<Answer, EngineError>> },
}

impl Request {
    /// Whether a few milliseconds more make no difference to whoever asks.
    const fn can_wait(&self) -> bool {
        matches!(self, Self::Operate { operation: Operation::Claim(_), actor: Actor::Visitor, .. })
    }

    const fn is_of_a_visitor(&self) -> bool {
        matches!(self, Self::Join { .. } | Self::Operate { actor: Actor::Visitor, .. })
    }
}

/// A room as everybody but its owner sees it.
pub struct RoomHandle {
    id: RoomId,
    board: ArcSwap<Board>,
    queue: mpsc::Sender<Request>,
    counters: Arc<EngineCounters>,
}

impl RoomHandle {
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

    /// How many operations wait for the room.
    pub fn queued(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    /// Takes a place in line; answered when it is durable.
    pub async fn join(&self) -> Result<Ticket, EngineError> {
        let (answer, answered) = oneshot::channel();
        self.send(Request::Join { answer })?;
        answered.await.unwrap_or(Err(EngineError::Stopped))
    }

    /// Does something to the room; answered when it is durable.
    pub async fn operate(&self, operation: Operation, actor: Actor) -> Result<Answer, EngineError> {
        let (answer, answered) = oneshot::channel();
        self.send(Request::Operate { operation, actor, answer })?;
        answered.await.unwrap_or(Err(EngineError::Stopped))
    }

    fn send(&self, request: Request) -> Result<(), EngineError> {
        if request.is_of_a_visitor() && self.queue.capacity() <= OPERATORS_RESERVE && !self.queue.is_closed()
        {
            count(&self.counters.overloads, 1);
            return Err(EngineError::Overloaded);
        }
        self.queue.try_send(request).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => {
                count(&self.counters.overloads, 1);
                EngineError::Overloaded
            }
            mpsc::error::TrySendError::Closed(_) => EngineError::Stopped,
        })
    }
}

/// All rooms of this node.
pub struct Engine {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    node: NodeId,
    rooms: ArcSwap<HashMap<RoomId, Arc<RoomHandle>>>,
    owners: Mutex<Vec<tokio::task::JoinHandle<()>>>,
    /// Held while a room is made, so that it gets one owner.
    creating: tokio::sync::Mutex<()>,
    stopping: watch::Sender<bool>,
    counters: Arc<EngineCounters>,
}

impl Engine {
    /// Takes hold of every room the store has.
    pub async fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        node: NodeId,
    ) -> Result<Arc<Self>, StoreError> {
        let engine = Arc::new(Self {
            store,
            clock,
            node,
            rooms: ArcSwap::default(),
            owners: Mutex::default(),
            creating: tokio::sync::Mutex::default(),
            stopping: watch::Sender::default(),
            counters: Arc::default(),
        });
        for room in engine.store.rooms().await? {
            if let Some(snapshot) = engine.store.load(&room, node).await? {
                engine.own(room, snapshot.room).await?;
            }
        }
        Ok(engine)
    }

    /// The store, for reads that no board has.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The clock everything here goes by.
    pub fn now(&self) -> UnixMillis {
        self.clock.now()
    }

    /// What the engine has done so far.
    pub fn counters(&self) -> &EngineCounters {
        &self.counters
    }

    /// A room by its name, as it came in a request.
    pub fn room(&self, id: &str) -> Option<Arc<RoomHandle>> {
        self.rooms.load().get(id).cloned()
    }

    /// All rooms, ordered by name.
    pub fn rooms(&self) -> Vec<Arc<RoomHandle>> {
        let mut rooms: Vec<_> = self.rooms.load().values().cloned().collect();
        rooms.sort_by(|one, other| one.id.cmp(&other.id));
        rooms
    }

    /// Makes a room with an empty line, unless there is one of that name.
    pub async fn create_room(
        &self,
        id: RoomId,
        settings: Settings,
        state: RoomState,
        incarnation: u8,
    ) -> Result<Arc<RoomHandle>, EngineError> {
        let _one_at_a_time = self.creating.lock().await;
        if let Some(existing) = self.room(id.as_str()) {
            return Ok(existing);
        }
        settings.check().map_err(Refusal::from)?;
        let now = self.clock.now();
        let room = Room::open(settings, now, incarnation);
        let mut room = apply(room, now, &Operation::SetState(state), Reads::default()).room;
        room.version = 1;
        let commit = Commit {
            room: id.clone(),
            node: self.node,
            number: 1,
            expected: None,
            opens_line: true,
            joined_before: room.newest().joined,
            next: room,
            effects: Effects::default(),
            audit: vec![AuditRecord {
                at: now,
                room: id.clone(),
                actor: "configuration".into(),
                action: "create room".into(),
            }],
        };
        let room = match self.store.commit(&commit).await? {
            CommitOutcome::Done { .. } => commit.next,
            CommitOutcome::Conflict(Some(snapshot)) => snapshot.room,
            CommitOutcome::Conflict(None) => {
                return Err(StoreError::Transient("the room could not be created".into()).into());
            }
        };
        Ok(self.own(id, room).await?)
    }

    /// Ends every owner after what has queued up for it, and waits for it. What comes later is refused.
    pub async fn stop(&self) {
        self.stopping.send_replace(true);
        self.rooms.store(Arc::default());
        let owners = std::mem::take(&mut *self.owners.lock().unwrap_or_else(PoisonError::into_inner));
        let ended = tokio::time::timeout(STOP_TIMEOUT, async {
            for owner in owners {
                let _ = owner.await;
            }
        });
        if ended.await.is_err() {
            tracing::error!("a room's last commit did not end in time; leaving it");
        }
    }

    /// Whether every room can be changed: the store works, and every owner is there and not failing.
    pub fn is_ready(&self) -> bool {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        self.store.is_ready()
            && !owners.iter().any(tokio::task::JoinHandle::is_finished)
            && self.counters.rooms_failing.load(Ordering::Relaxed) == 0
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the engine's named helper: `stop` knows every owner"
    )]
    async fn own(&self, id: RoomId, room: Room) -> Result<Arc<RoomHandle>, StoreError> {
        let (queue, requests) = mpsc::channel(ROOM_QUEUE_MAX);
        let handle = Arc::new(RoomHandle {
            id: id.clone(),
            board: ArcSwap::from_pointee(Board::of(&room)),
            queue,
            counters: self.counters.clone(),
        });
        let last_number = self.store.load(&id, self.node).await?.and_then(|snapshot| snapshot.last_number);
        let mut owner = Owner {
            id: id.clone(),
            store: self.store.clone(),
            clock: self.clock.clone(),
            node: self.node,
            next_number: last_number.unwrap_or(0) + 1,
            room: Some(room),
            next_session_end: None,
            last_commit: None,
            failing: false,
            handle: Arc::downgrade(&handle),
            counters: self.counters.clone(),
        };
        owner.refresh_next_session_end().await?;
        let task = tokio::spawn(owner.run(requests, self.stopping.subscribe()));
        self.owners.lock().unwrap_or_else(PoisonError::into_inner).push(task);
        let mut rooms = HashMap::clone(&self.rooms.load());
        rooms.insert(id, handle.clone());
        self.rooms.store(Arc::new(rooms));
        Ok(handle)
    }
}
