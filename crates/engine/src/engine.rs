//! All rooms of this node: started, made, found, deleted and stopped.

pub(crate) mod peer_watch;
pub(crate) mod restore;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anteroom_core::losses::{HONOURED_SECONDS, LEARNING_MILLIS};
use anteroom_core::{
    Effects, Event, Generation, Losses, Operation, Reads, Refusal, Room, RoomId, RoomState, Segment,
    Settings, UnixMillis, apply,
};
use anteroom_store::clock::{Clock, Stopwatch};
use anteroom_store::contract::{Commit, CommitOutcome, Lineage, NodeId, Store, StoreError, Trace};
use tokio::sync::{mpsc, watch};

use crate::handle::RoomMap;
use crate::owner::{self, Owner};
use crate::{
    Actor, CONFLICTS_MAX, EngineCounters, EngineError, ROOM_QUEUE_MAX, RoomHandle, SettingsAndState, audit,
    backoff, local_history, outbox::Outbox,
};

/// The value under which a shared store keeps when it was first used.
const FIRST_USE: &str = "first-use";
/// How long the end of the engine may take.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// All rooms of this node.
pub struct Engine {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    node: NodeId,
    rooms: Arc<RoomMap>,
    owners: Mutex<Vec<OwnedRoom>>,
    /// Held while a room is made or deleted, so that it gets one owner, and its name is either taken or free.
    changing_rooms: tokio::sync::Mutex<()>,
    /// Owners of an era that is over end after what has queued up for them.
    era: watch::Sender<u64>,
    /// Whether a restore runs, from its beginning.
    restore_running: AtomicBool,
    /// Whether everything is being replaced, and no room has an owner.
    restoring: AtomicBool,
    counters: Arc<EngineCounters>,
    pub(crate) outbox: Arc<Outbox>,
    /// When the store was last heard of.
    contact: Contact,
    /// Raised whenever another node may have replaced a value.
    values: watch::Sender<u64>,
    peer_watch: Mutex<Option<tokio::task::JoinHandle<()>>>,
    /// How long rooms of a new shared store let nobody in.
    recovery_hold_millis: AtomicU64,
}

/// When a shared store was last heard of.
struct Contact(Mutex<Stopwatch>);

impl Contact {
    fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Stopwatch::start();
    }
}

/// The era in which nothing is owned any more.
pub(crate) const ENDED_ERA: u64 = u64::MAX;

/// A room and the task that owns it.
struct OwnedRoom {
    handle: Arc<RoomHandle>,
    task: tokio::task::JoinHandle<()>,
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
            rooms: Arc::default(),
            owners: Mutex::default(),
            changing_rooms: tokio::sync::Mutex::default(),
            era: watch::Sender::default(),
            restore_running: AtomicBool::new(false),
            restoring: AtomicBool::new(false),
            counters: Arc::default(),
            outbox: Arc::default(),
            contact: Contact(Mutex::new(Stopwatch::start())),
            values: watch::Sender::default(),
            peer_watch: Mutex::default(),
            recovery_hold_millis: AtomicU64::new(0),
        });
        let notifications = engine.store.subscribe();
        if engine.store.is_shared() {
            engine.first_use_of_the_store(engine.clock.now()).await?;
        }
        engine.own_all().await?;
        if engine.store.is_shared() {
            let peer_watch = spawn(peer_watch::run(Arc::downgrade(&engine), notifications));
            *engine.peer_watch.lock().unwrap_or_else(PoisonError::into_inner) = Some(peer_watch);
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

    /// How far the machine's clock (or the shared store's) has jumped ahead of or behind [`Self::now`], in milliseconds; 0 while it is
    /// followed.
    pub fn clock_off_by_millis(&self) -> i64 {
        self.clock.off_by_millis()
    }

    /// What the engine has done so far.
    pub fn counters(&self) -> &EngineCounters {
        &self.counters
    }

    /// How old boards may be: the time since a shared store was last heard of. Zero where nobody else changes anything.
    pub fn staleness(&self) -> Duration {
        if self.store.is_shared() {
            self.contact.0.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
        } else {
            Duration::ZERO
        }
    }

    /// Tells, by a rising number, that values of the store may have been replaced by another node.
    pub fn values_changed(&self) -> watch::Receiver<u64> {
        self.values.subscribe()
    }

    /// This node's name.
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// A room by its name, as a request has it.
    pub fn room(&self, id: &str) -> Option<Arc<RoomHandle>> {
        self.rooms.get(id)
    }

    /// All rooms, ordered by name.
    pub fn rooms(&self) -> Vec<Arc<RoomHandle>> {
        let mut rooms = self.rooms.all();
        rooms.sort_by(|one, other| one.id().cmp(other.id()));
        rooms
    }

    /// Makes a room with an empty line, unless there is one of that name; returns it, and whether it was made. It runs
    /// to its end also if the caller is cancelled, so that no room is left without an owner.
    pub async fn create_room(
        self: &Arc<Self>,
        id: RoomId,
        settings: Settings,
        state: RoomState,
        incarnation: u8,
        actor: Actor,
    ) -> Result<(Arc<RoomHandle>, bool), EngineError> {
        let engine = self.clone();
        let creation =
            spawn(async move { engine.create_to_the_end(id, settings, state, incarnation, actor).await });
        let lost =
            |_| Err(StoreError::Ambiguous("the room's creation did not come to its end".into()).into());
        creation.await.unwrap_or_else(lost)
    }

    async fn create_to_the_end(
        &self,
        id: RoomId,
        settings: Settings,
        state: RoomState,
        incarnation: u8,
        actor: Actor,
    ) -> Result<(Arc<RoomHandle>, bool), EngineError> {
        let _one_at_a_time = self.change_rooms().await?;
        if let Some(existing) = self.room(id.as_str()) {
            return Ok((existing, false));
        }
        settings.check().map_err(Refusal::from)?;
        for _ in 0..CONFLICTS_MAX {
            let now = self.clock.now();
            let trace = self.store.trace(&id).await?;
            let mut room = room_behind(trace.as_ref(), settings.clone(), state, now, incarnation);
            if trace.is_none()
                && self.store.is_shared()
                && let Some(heard_at) = self.hold_of_a_new_store(now).await?
            {
                // A shared store can have lost a room of this name, and people may still hold its tickets.
                room.losses = Losses::of_a_room_that_may_have_been_lost(heard_at);
            }
            let commit = Commit {
                room: id.clone(),
                node: self.node,
                number: 1,
                expected: None,
                lineage: Lineage::default(),
                mends: false,
                opens_line: true,
                joined_before: room.newest().joined,
                next: room,
                effects: Effects { events: vec![Event::RoomCreated], ..Effects::default() },
                audit: audit::record(&actor, &id, "create room", now).into_iter().collect(),
            };
            match self.store.commit(&commit).await? {
                CommitOutcome::Done { .. } => {
                    self.outbox.note_written(&commit.effects.events);
                    return Ok((self.own(id).await?, true));
                }
                CommitOutcome::Conflict(Some(_)) => return Ok((self.own(id).await?, false)),
                // Another node has made and deleted one meanwhile: ours must be later than that.
                CommitOutcome::Conflict(None) => {}
            }
        }
        Err(StoreError::Transient("the room could not be created".into()).into())
    }

    /// The room of a name as the store has it, also where another node has made it and this one does not know it yet. `None`: the store
    /// has no such room.
    pub async fn find_room(&self, id: &RoomId) -> Result<Option<Arc<RoomHandle>>, EngineError> {
        let _one_at_a_time = self.change_rooms().await?;
        if let Some(known) = self.room(id.as_str()).filter(|known| !known.is_deleted()) {
            return Ok(Some(known));
        }
        match self.own(id.clone()).await {
            Ok(found) => Ok(Some(found)),
            Err(EngineError::RoomDeleted) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Deletes a room with everything of it, after what has queued up for it; returns whether there was one. With `expected`,
    /// only if settings and state are still those.
    pub async fn delete_room(
        &self,
        id: &RoomId,
        actor: Actor,
        expected: Option<SettingsAndState>,
    ) -> Result<bool, EngineError> {
        let _one_at_a_time = self.change_rooms().await?;
        let Some(room) = self.room(id.as_str()) else {
            return Ok(false);
        };
        let deleted = match room.delete(expected, actor).await {
            Err(EngineError::RoomDeleted) => Ok(false),
            other => other,
        };
        self.dismiss_owners_of_deleted_rooms().await;
        deleted
    }

    /// Ends every owner after what has queued up for it, and waits for it. What comes later is refused.
    pub async fn stop(&self) {
        self.era.send_replace(ENDED_ERA);
        if let Some(peer_watch) = self.peer_watch.lock().unwrap_or_else(PoisonError::into_inner).take() {
            peer_watch.abort();
        }
        self.rooms.clear();
        let aborts = Mutex::new(vec![]);
        let ended = tokio::time::timeout(STOP_TIMEOUT, async {
            // What makes rooms, or restores them, comes to its end first.
            let _nothing_is_begun = self.changing_rooms.lock().await;
            self.rooms.clear();
            let owners = std::mem::take(&mut *self.owners.lock().unwrap_or_else(PoisonError::into_inner));
            let handles = owners.iter().map(|owned| owned.task.abort_handle());
            aborts.lock().unwrap_or_else(PoisonError::into_inner).extend(handles);
            for owned in owners {
                let _ = owned.task.await;
            }
        });
        if ended.await.is_err() {
            tracing::error!("last commit of a room timed out, aborting it");
            // Callers that still wait for such a room get an error.
            for owner in aborts.into_inner().unwrap_or_else(PoisonError::into_inner) {
                owner.abort();
            }
        }
    }

    /// Whether rooms can be changed: the store works, and not every room fails. One room that cannot be changed is no reason to take
    /// the others away from their visitors.
    pub fn is_ready(&self) -> bool {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let (ended, present): (Vec<_>, Vec<_>) = owners
            .iter()
            .filter(|owned| !owned.handle.is_deleted())
            .partition(|owned| owned.task.is_finished());
        let failing = self.counters.rooms_failing.load(Ordering::Relaxed);
        let has_failures = failing > 0 || !ended.is_empty();
        self.store.is_ready()
            && *self.era.borrow() != ENDED_ERA
            && !self.restoring.load(Ordering::Acquire)
            && !(has_failures && failing >= present.len() as u64)
    }

    /// How long a room that is made in a new shared store lets nobody in: a store that was emptied looks like a new one, and those who
    /// hold tickets from before show them first.
    pub fn set_recovery_hold(&self, hold: Duration) {
        let millis = u64::try_from(hold.as_millis()).unwrap_or(u64::MAX);
        self.recovery_hold_millis.store(millis.min(LEARNING_MILLIS), Ordering::Relaxed);
    }

    /// Until when a room made now lets nobody in, where the store is so new that it may be one that was emptied; the beginning of time:
    /// it need not wait. `None`: the store has been there for longer, so it has lost nothing without a trace.
    async fn hold_of_a_new_store(&self, now: UnixMillis) -> Result<Option<UnixMillis>, StoreError> {
        let first_used_at = self.first_use_of_the_store(now).await?;
        if now.since(first_used_at) >= HONOURED_SECONDS * 1000 {
            return Ok(None);
        }
        let heard_at = first_used_at.plus(self.recovery_hold_millis.load(Ordering::Relaxed));
        Ok(Some(if heard_at > now { heard_at } else { UnixMillis(0) }))
    }

    /// When a shared store was first used. The store keeps it, so a store that was emptied has forgotten it with everything else; one
    /// with rooms in it was used before.
    async fn first_use_of_the_store(&self, now: UnixMillis) -> Result<UnixMillis, StoreError> {
        let read = |value: &[u8]| std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        if let Some(value) = self.store.value(FIRST_USE).await? {
            return Ok(UnixMillis(read(&value).unwrap_or(0)));
        }
        let is_in_use = !self.store.rooms().await?.is_empty();
        let first_use = if is_in_use { 0 } else { now.0 };
        if self.store.replace_value(FIRST_USE, None, first_use.to_string().as_bytes(), None).await? {
            return Ok(UnixMillis(first_use));
        }
        // Another node was faster.
        let value = self.store.value(FIRST_USE).await?;
        Ok(UnixMillis(value.and_then(|value| read(&value)).unwrap_or(first_use)))
    }

    /// The right to make or delete a room, unless the engine has stopped or restores.
    async fn change_rooms(&self) -> Result<tokio::sync::MutexGuard<'_, ()>, EngineError> {
        if self.restoring.load(Ordering::Acquire) {
            return Err(EngineError::Restoring);
        }
        let right = self.changing_rooms.lock().await;
        if *self.era.borrow() == ENDED_ERA {
            return Err(EngineError::Stopped);
        }
        // A restore that failed for good leaves nothing to change.
        if self.restoring.load(Ordering::Acquire) { Err(EngineError::Restoring) } else { Ok(right) }
    }

    /// Takes hold of every room that has no owner yet.
    async fn own_all(&self) -> Result<(), StoreError> {
        for id in self.store.rooms().await? {
            if self.room(id.as_str()).is_none_or(|handle| handle.is_replaced()) {
                match self.own(id).await {
                    // Deleted in this moment.
                    Ok(_) | Err(EngineError::RoomDeleted) => {}
                    Err(EngineError::Store(error)) => return Err(error),
                    Err(other) => return Err(StoreError::Transient(other.to_string())),
                }
            }
        }
        Ok(())
    }

    /// Waits for owners that have nothing left to do but to refuse what has queued up.
    async fn dismiss_owners_of_deleted_rooms(&self) {
        let deleted: Vec<OwnedRoom> = {
            let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
            owners.extract_if(.., |owned| owned.handle.is_deleted()).collect()
        };
        for owned in deleted {
            let _ = owned.task.await;
        }
    }

    async fn own(&self, id: RoomId) -> Result<Arc<RoomHandle>, EngineError> {
        self.dismiss_owners_of_deleted_rooms().await;
        let snapshot = self.store.load(&id, self.node).await?.ok_or(EngineError::RoomDeleted)?;
        let (queue, requests) = mpsc::channel(ROOM_QUEUE_MAX);
        let (changes, watched) = watch::channel(0);
        let counters = self.counters.clone();
        let seen = (&snapshot.room, snapshot.lineage);
        let store = self.store.clone();
        let handle = RoomHandle::new(id.clone(), seen, store, watched, queue, counters);
        let handle = Arc::new(handle);
        let mut owner = Owner {
            id,
            store: self.store.clone(),
            clock: self.clock.clone(),
            node: self.node,
            next_number: 1,
            outbox: self.outbox.clone(),
            room: None,
            lineage: snapshot.lineage,
            fallback: None,
            duty: owner::adoption::Duty::None,
            history: local_history::LocalHistory::default(),
            backoff: backoff::Backoff::new(self.node),
            pending_claims: owner::confirmation::PendingClaims::default(),
            next_session_end: None,
            next_end_is_known: false,
            last_commit: None,
            failing: false,
            has_begun_write: false,
            handle: Arc::downgrade(&handle),
            rooms: self.rooms.clone(),
            changes,
            counters: self.counters.clone(),
        };
        owner.adopt(snapshot);
        let era = self.era.subscribe();
        let own_era = *era.borrow();
        let task = spawn(owner.run(requests, era, own_era));
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.push(OwnedRoom { handle: handle.clone(), task });
        drop(owners);
        self.rooms.insert(&handle);
        Ok(handle)
    }
}

/// The one function by which the engine starts a task: `stop` waits for every owner, and for tasks that may make one.
#[expect(clippy::disallowed_methods, reason = "this is the engine's named helper")]
fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
    tokio::spawn(task)
}

/// A new room that nobody can take for the deleted one of that name: its generation, version and epoch are later.
fn room_behind(
    trace: Option<&Trace>,
    settings: Settings,
    state: RoomState,
    now: UnixMillis,
    incarnation: u8,
) -> Room {
    let mut room = Room::open(Settings::default(), now, incarnation);
    if let Some(trace) = trace {
        let generation = Generation::following(Some(trace.generation), now, incarnation);
        room.segments[0] = Segment::open(generation, 0);
        (room.version, room.epoch) = (trace.version, trace.epoch + 1);
    }
    let change = Operation::reconfigure(settings, Some(state));
    let mut room = apply(room, now, &change, Reads::default()).room;
    room.version += 1;
    room
}
