//! Events on their way to destinations: a task for each destination, on one node at a time.
//!
//! At least once, and in order for each room and destination: [`task`]. Rooms do not wait for each other: [`queues`]. What a
//! destination has got is in its cursor, in the store: so another node goes on when this one ends.

mod note;
mod queues;
mod schedule;
mod task;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anteroom_core::{Event, UnixMillis};
use anteroom_store::clock::{Clock, Stopwatch};
use anteroom_store::{EventId, NodeId, Store, StoreError, StoredEvent};
use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::note::Note;
use self::task::DestinationTask;
use crate::destination::Destination;
use crate::destinations::Destinations;
use crate::message::{EventMessage, id_of};
use crate::status::{DeadLetter, DeliveryControl, DestinationStatus, ReplayFrom};
use crate::transport::{SendFailure, Transport};

/// Of the events that are kept, or of the time for which they are, so much may be behind before that is told.
const LAGGING_PERCENT: u64 = 80;
/// How many events are read at a time to find where a replay begins.
const SEARCH_PAGE: usize = 2_000;

/// Makes the way to a destination; an error says why there is none.
pub type TransportFactory = dyn Fn(&Destination) -> Result<Arc<dyn Transport>, String> + Send + Sync;
/// Makes an event of the server, to be written now.
pub type EventFactory = dyn Fn(Event) -> StoredEvent + Send + Sync;

/// What delivery is made of.
pub struct DeliveryParts {
    /// Where outbox and cursors are.
    pub store: Arc<dyn Store>,
    /// The clock of the rooms.
    pub clock: Arc<dyn Clock>,
    /// This node.
    pub node: NodeId,
    /// Which destinations there are.
    pub destinations: Arc<Destinations>,
    /// The ways to them.
    pub transports: Box<TransportFactory>,
    /// Makes events that tell of deliveries.
    pub events: Box<EventFactory>,
    /// How long events are kept.
    pub kept: Duration,
}

/// What all tasks share.
struct Common {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    node: NodeId,
    destinations: Arc<Destinations>,
    transports: Box<TransportFactory>,
    events: Box<EventFactory>,
    kept_millis: u64,
}

impl Common {
    fn now(&self) -> UnixMillis {
        self.clock.now()
    }

    fn node_text(&self) -> String {
        uuid::Uuid::from_u128(self.node.0).hyphenated().to_string()
    }

    fn transport_of(&self, destination: &Destination) -> Result<Arc<dyn Transport>, String> {
        (self.transports)(destination)
    }

    /// When the first of the secrets ends that a destination has now.
    fn secrets_end_at(&self, name: &str) -> Option<UnixMillis> {
        let now = self.now();
        self.destinations.secrets(name, now).iter().filter_map(|secret| secret.ends_at).min()
    }

    /// Writes an event of the server.
    async fn tell(&self, event: Event) {
        let stored = (self.events)(event);
        if let Err(error) = self.store.append_events(std::slice::from_ref(&stored)).await {
            tracing::warn!(%error, kind = %stored.event.kind(), "writing an event failed");
        }
    }

    /// Disables a destination, and tells of it.
    async fn disable(&self, name: &str, reason: &str) {
        tracing::error!(destination = name, reason, "destination disabled by its receiver");
        let event = Event::DestinationDisabled { name: name.to_owned(), reason: reason.to_owned() };
        let stored = (self.events)(event);
        if let Err(error) = self.destinations.disable(name, reason, &[stored], self.now()).await {
            tracing::warn!(destination = name, %error, "disabling the destination failed");
        }
    }
}

/// How a destination fares on this node.
#[derive(Default)]
struct Live {
    status: Mutex<DestinationStatus>,
    is_holding: std::sync::atomic::AtomicBool,
    delivered: AtomicU64,
    failed: AtomicU64,
}

impl Live {
    fn set(&self, status: DestinationStatus) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    fn set_holding(&self, is_holding: bool) {
        self.is_holding.store(is_holding, Ordering::Relaxed);
    }

    fn count(&self, delivered: u64, failed: u64) {
        self.delivered.fetch_add(delivered, Ordering::Relaxed);
        self.failed.fetch_add(failed, Ordering::Relaxed);
    }

    /// The status, where this node delivers.
    fn status(&self) -> Option<DestinationStatus> {
        let is_holding = self.is_holding.load(Ordering::Relaxed);
        is_holding.then(|| self.status.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// What this node knows of a destination, for metrics.
#[derive(Debug, Clone)]
pub struct DeliveryFigures {
    /// The destination.
    pub destination: Arc<Destination>,
    /// How it fares, where this node delivers.
    pub status: Option<DestinationStatus>,
    /// Events that this node has delivered.
    pub delivered: u64,
    /// Attempts of this node that have failed.
    pub failed: u64,
}

/// A task that runs, and what it is told.
struct Running {
    definition: watch::Sender<Arc<Destination>>,
    live: Arc<Live>,
}

/// The delivery of events on this node.
pub struct Delivery {
    common: Arc<Common>,
    running: Mutex<HashMap<String, Running>>,
}

impl Delivery {
    /// Delivers nothing before [`Self::run`] does.
    pub fn new(parts: DeliveryParts) -> Self {
        let DeliveryParts { store, clock, node, destinations, transports, events, kept } = parts;
        let kept_millis = u64::try_from(kept.as_millis()).unwrap_or(u64::MAX);

        let common = Common { store, clock, node, destinations, transports, events, kept_millis };
        Self { common: Arc::new(common), running: Mutex::default() }
    }

    /// Delivers until `stop` is true; then waits a moment for what is in flight.
    pub async fn run(&self, growth: watch::Receiver<u64>, stop: watch::Receiver<bool>) {
        let mut changes = self.common.destinations.subscribe();
        let mut tasks = JoinSet::new();
        let mut stopping = stop.clone();
        loop {
            changes.mark_unchanged();
            for key in self.reconcile(&mut tasks, &growth, &stop) {
                if let Err(error) = self.common.store.delete_cursor(&key).await {
                    tracing::debug!(destination = key, %error, "deleting the cursor of a destination failed");
                }
            }
            tokio::select! {
                announced = changes.changed() => if announced.is_err() { break },
                stopped = stopping.wait_for(|stopped| *stopped) => { drop(stopped); break }
                Some(_) = tasks.join_next() => {}
            }
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Starts the tasks of new destinations, tells the others what has changed, and ends those of deleted ones, which it returns.
    fn reconcile(
        &self,
        tasks: &mut JoinSet<()>,
        growth: &watch::Receiver<u64>,
        stop: &watch::Receiver<bool>,
    ) -> Vec<String> {
        let wanted: BTreeMap<String, Arc<Destination>> =
            self.common.destinations.list().into_iter().map(|one| (one.name.clone(), one)).collect();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let is_gone = |name: &str, running: &Running| {
            wanted.get(name).is_none_or(|now| now.created_at != running.definition.borrow().created_at)
        };
        let names: Vec<String> =
            running.iter().filter(|(name, one)| is_gone(name, one)).map(|(name, _)| name.clone()).collect();
        let gone = names.iter().filter_map(|name| running.remove(name));
        let gone: Vec<String> = gone.map(|one| one.definition.borrow().key()).collect();
        for (name, destination) in wanted {
            if let Some(running) = running.get(&name) {
                // Secrets may have changed although nothing else has.
                running.definition.send_replace(destination);
                continue;
            }
            let (definition, receiver) = watch::channel(destination);
            let live = Arc::new(Live::default());
            let task = DestinationTask {
                common: self.common.clone(),
                definition: receiver,
                growth: growth.clone(),
                stop: stop.clone(),
                live: live.clone(),
            };
            tasks.spawn(task.run());
            running.insert(name, Running { definition, live });
        }
        gone
    }

    /// What this node knows of every destination.
    pub fn figures(&self) -> Vec<DeliveryFigures> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |destination: Arc<Destination>| {
            let live = running.get(&destination.name).map(|running| running.live.clone());
            DeliveryFigures {
                status: live.as_ref().and_then(|live| live.status()),
                delivered: live.as_ref().map_or(0, |live| live.delivered.load(Ordering::Relaxed)),
                failed: live.as_ref().map_or(0, |live| live.failed.load(Ordering::Relaxed)),
                destination,
            }
        };
        self.common.destinations.list().into_iter().map(of).collect()
    }

    fn live_status(&self, name: &str) -> Option<DestinationStatus> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.get(name)?.live.status()
    }

    async fn note_of(&self, name: &str) -> Result<Option<(u64, Note)>, StoreError> {
        let Some(destination) = self.common.destinations.find(name) else { return Ok(None) };
        let cursor = self.common.store.cursor(&destination.key()).await?;
        Ok(cursor.map(|cursor| {
            let oldest = cursor.behind.values().copied().min().unwrap_or(cursor.position);
            (oldest.min(cursor.position), Note::from_bytes(&cursor.note))
        }))
    }
}

#[async_trait]
impl DeliveryControl for Delivery {
    async fn status(&self, name: &str) -> Result<DestinationStatus, StoreError> {
        if let Some(status) = self.live_status(name) {
            return Ok(status);
        }
        // Another node delivers, or nobody does: then what was saved last is known.
        let Some((position, note)) = self.note_of(name).await? else {
            return Ok(DestinationStatus::default());
        };
        let last = self.common.store.outbox().await?.last;
        let oldest = note.oldest_at.map(UnixMillis);
        Ok(DestinationStatus {
            lag_events: last.saturating_sub(position),
            lag_seconds: oldest.map_or(0, |oldest| self.common.now().since(oldest) / 1000),
            delivered: note.delivered,
            last_delivered_at: note.last_delivered_at.map(UnixMillis),
            failing_since: note.failing_since.map(UnixMillis),
            last_error: note.last_error,
            next_attempt_at: note.next_attempt_at.map(UnixMillis),
            dead_letters: note.dead_letters.len() as u64,
            missed: note.missed,
            is_blocked: note.dead_letters.len() >= note::DEAD_LETTERS_MAX && note.failing_since.is_some(),
            node: Some(note.node),
            position,
        })
    }

    async fn test(&self, name: &str) -> Result<Duration, SendFailure> {
        let destination = self
            .common
            .destinations
            .find(name)
            .ok_or_else(|| SendFailure::new("there is no such destination"))?;
        let transport = self.common.transport_of(&destination).map_err(SendFailure::new)?;
        let event = (self.common.events)(Event::DestinationTest { name: name.to_owned() });
        let id = EventId { version: 0, ..event.id };
        let message = EventMessage::of(0, &StoredEvent { id, ..event });
        let stopwatch = Stopwatch::start();
        transport.send(&[message]).await?;
        Ok(stopwatch.elapsed())
    }

    async fn dead_letters(&self, name: &str, limit: usize) -> Result<Vec<DeadLetter>, StoreError> {
        let note = self.note_of(name).await?.map(|(_, note)| note).unwrap_or_default();
        Ok(note.dead_letters.iter().filter_map(note::StoredDeadLetter::shown).take(limit).collect())
    }

    async fn resolve_replay(&self, from: ReplayFrom) -> Result<Option<u64>, StoreError> {
        let is_first = |stored: &StoredEvent| match &from {
            ReplayFrom::After(_) => false,
            ReplayFrom::Since(moment) => stored.at >= *moment,
            ReplayFrom::EventId(id) => id_of(stored) == *id,
        };
        if let ReplayFrom::After(number) = from {
            let last = self.common.store.outbox().await?.last;
            return Ok((number <= last).then_some(number));
        }
        let mut after = 0;
        loop {
            let events = self.common.store.events(after, SEARCH_PAGE).await?;
            if let Some((number, _)) = events.iter().find(|(_, stored)| is_first(stored)) {
                return Ok(Some(number - 1));
            }
            match events.last() {
                Some((number, _)) => after = *number,
                None => return Ok(None),
            }
            // An embedded store reads without waiting: others have their turn.
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests;
