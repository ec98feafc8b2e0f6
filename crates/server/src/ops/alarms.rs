//! The alarms of this server: those that Alertmanager reports, kept in the store, and those that this server counts
//! itself. Rooms that name an alarm are notified when it changes.
//!
//! The rules are `anteroom_core::alarms`. Here a clock ticks once a second, counters are read, and each room's board is
//! compared with the alarms that fire. A room whose board differs is updated. Because it is a comparison, it does not
//! matter what was missed: a restart, a restored backup, changed settings and a room that could not be reached all end
//! the same way.
//!
//! On a shared store every node goes by what fires on any of them ([`nodes`]), and only the node that has a room's lease tells it:
//! two that see something a moment apart would contradict each other.

mod nodes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anteroom_core::alarms::{
    AlarmBook, AlarmsFull, Alert, NotificationOutcome, OPERATIONS, OutsideAlarm, OutsideAlarms, OwnAlarm,
    OwnAlarms, RESOURCES, Totals,
};
use anteroom_core::{Board, Event, Operation, UnixMillis};
use anteroom_engine::{Actor, Engine, OperationFailures, RoomHandle};
use anteroom_store::{AuditRecord, StoreError, StoredEvent};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use self::nodes::Nodes;
use crate::app::App;
use crate::config::Config;
use crate::ops::metrics::{Metrics, gauge};
use crate::ops::shutdown::Shutdown;

const ALARMS_VALUE: &str = "alarms";
/// How often own alarms are evaluated and rooms compared with what fires.
const EVALUATION_PERIOD: Duration = Duration::from_secs(1);
/// How many events of own alarms wait for the store at most.
const UNWRITTEN_EVENTS_MAX: usize = 1_000;
/// How many rooms are updated at a time.
const TOLD_AT_ONCE_MAX: usize = 256;
/// How often the value is tried again when another node changed it in between.
const ATTEMPTS_MAX: u32 = 8;

/// Why a notification was not taken in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HearError {
    /// There is no place left.
    #[error(transparent)]
    Full(#[from] AlarmsFull),
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// All alarms, as this server knows them.
pub(crate) struct Alarms {
    engine: Arc<Engine>,
    book: Mutex<AlarmBook>,
    /// What fires on the other nodes of a shared store.
    nodes: Nodes,
    /// Held from reading the stored alarms until those in memory are the same.
    changing: tokio::sync::Mutex<()>,
    notifications: AtomicU64,
    stale_millis: u64,
    /// Wakes the task that updates the rooms.
    change: Notify,
    /// Names that rooms mention but that were never reported, so that each is warned of once.
    unknown: Mutex<BTreeSet<String>>,
}

impl Alarms {
    /// Own alarms as configured, and those that the store remembers.
    pub(crate) async fn open(engine: Arc<Engine>, config: &Config) -> Result<Self, StoreError> {
        let thresholds = config.alarm_thresholds.clone().unwrap_or_default();
        let threshold = |resource: &str| thresholds.get(resource).copied().unwrap_or(0);
        let own = OwnAlarms::new(&config.alarm_prefix, threshold);
        let alarms = Self {
            nodes: Nodes::new(engine.node()),
            engine,
            book: Mutex::new(AlarmBook { outside: OutsideAlarms::default(), own }),
            changing: tokio::sync::Mutex::default(),
            notifications: AtomicU64::new(0),
            stale_millis: u64::try_from(config.alarm_stale_seconds.as_millis()).unwrap_or(u64::MAX),
            change: Notify::new(),
            unknown: Mutex::default(),
        };
        alarms.reload().await?;
        Ok(alarms)
    }

    /// Reads the stored alarms again, for a store that was restored or changed by another node.
    pub(crate) async fn reload(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.changing.lock().await;
        let (outside, _) = self.load().await?;
        self.book().outside = outside;
        if self.engine.store().is_shared() {
            self.nodes.reload(&**self.engine.store()).await?;
        }
        self.change.notify_one();
        Ok(())
    }

    /// Takes a notification in: durable when this returns, with an audit record if anything begins or ends to fire.
    pub(crate) async fn receive(
        &self,
        alerts: Vec<Alert>,
        actor: &str,
        now: UnixMillis,
    ) -> Result<NotificationOutcome, HearError> {
        let own: BTreeSet<String> = self.book().own.iter().map(|alarm| alarm.name.clone()).collect();
        let _one_at_a_time = self.changing.lock().await;
        for _ in 0..ATTEMPTS_MAX {
            let (mut outside, before) = self.load().await?;
            let outcome = outside.receive(now, alerts.clone(), |name| own.contains(name))?;
            let audit = audit(&outcome, actor, now);
            let after = to_bytes(&outside);
            let events = self.events_of(&outcome, &outside);
            let store = self.engine.store();
            let (before, audit) = (before.as_deref(), audit.as_ref());
            if store.replace_value_and_tell(ALARMS_VALUE, before, &after, audit, &events).await? {
                self.engine.note_events(&events);
                self.book().outside = outside;
                self.notifications.fetch_add(1, Ordering::Relaxed);
                self.change.notify_one();
                return Ok(outcome);
            }
        }
        Err(StoreError::Transient("the alarms keep changing".into()).into())
    }

    /// What to tell of a notification.
    fn events_of(&self, outcome: &NotificationOutcome, outside: &OutsideAlarms) -> Vec<StoredEvent> {
        let summary = |name: &str| {
            outside
                .iter()
                .find(|alarm| alarm.name == name)
                .map_or(String::new(), |alarm| alarm.summary.clone())
        };
        let event = |(name, fires): (&String, bool)| {
            let changed = Event::AlarmChanged { name: name.clone(), fires, summary: summary(name) };
            self.engine.event_now(None, changed)
        };
        let began = outcome.began.iter().map(|name| (name, true));
        began.chain(outcome.ended.iter().map(|name| (name, false))).map(event).collect()
    }

    /// Looks at all alarms, for a moment.
    pub(crate) fn with_book<T>(&self, look: impl FnOnce(&AlarmBook) -> T) -> T {
        look(&self.book())
    }

    /// Whether an alarm of our own fires, here or on another node.
    pub(crate) fn own_fires(&self, alarm: &OwnAlarm, now: UnixMillis) -> bool {
        alarm.fires() || self.nodes.fires_on_another_node(&alarm.name, now)
    }

    /// Whether an alarm has not been reported for too long.
    pub(crate) fn is_stale(&self, alarm: &OutsideAlarm, now: UnixMillis) -> bool {
        alarm.is_stale(now, self.stale_millis)
    }

    pub(crate) fn notifications(&self) -> u64 {
        self.notifications.load(Ordering::Relaxed)
    }

    /// Figures for `/metrics`.
    pub(crate) fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        now: UnixMillis,
    ) -> Result<(), std::fmt::Error> {
        let book = self.book();
        let outside = || book.outside.iter().map(|alarm| (alarm, alarm.name.as_str()));
        let own = book.own.iter().map(|alarm| (alarm.name.as_str(), self.own_fires(alarm, now)));
        let firing = own.chain(outside().map(|(alarm, name)| (name, alarm.fires(now))));
        let mut metric =
            encoder.encode_descriptor("alarm_firing", "1 while the alarm fires", None, MetricType::Gauge)?;
        for (name, fires) in firing {
            gauge(u64::from(fires)).encode(metric.encode_family(&[("alarm", name)])?)?;
        }
        let help = "1 while nobody has told of the alarm for too long";
        let mut metric = encoder.encode_descriptor("alarm_stale", help, None, MetricType::Gauge)?;
        for (alarm, name) in outside() {
            let stale = u64::from(self.is_stale(alarm, now));
            gauge(stale).encode(metric.encode_family(&[("alarm", name)])?)?;
        }
        Ok(())
    }

    /// Warns of names that rooms mention but that were never reported, once each.
    fn warn_of_unknown(&self, engine: &Engine, now: UnixMillis) {
        let mut mentioned = rooms_by_name(engine);
        self.with_book(|book| {
            mentioned.retain(|name, _| {
                book.fires(name, now).is_none() && !self.nodes.fires_on_another_node(name, now)
            });
        });
        let mut unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        for (alarm, rooms) in mentioned.iter().filter(|(alarm, _)| !unknown.contains(*alarm)) {
            tracing::warn!(alarm, ?rooms, "alarm named by rooms was never reported, treating it as ok");
        }
        *unknown = mentioned.into_keys().collect();
    }

    /// Tells every room of which this node has the lease what fires of that which it names, where its board shows something else.
    pub(crate) async fn tell_rooms(&self, engine: &Engine) {
        // All at once: one that cannot be reached keeps no other waiting, and the store writes them together.
        let mut telling = JoinSet::new();
        for room in engine.rooms().into_iter().filter(|room| room.holds_lease()) {
            if let Some(firing) = room.with_board(|board| self.news_for(board, engine.now())) {
                telling.spawn(async move { tell_what_fires(&room, firing).await });
                if telling.len() >= TOLD_AT_ONCE_MAX {
                    telling.join_next().await;
                }
            }
        }
        while telling.join_next().await.is_some() {}
    }

    /// Tells one room, if need be. To be called when its settings have changed, so that it does not take one more step.
    pub(crate) async fn tell(&self, room: &RoomHandle, now: UnixMillis) {
        if let Some(firing) = room.with_board(|board| self.news_for(board, now)) {
            tell_what_fires(room, firing).await;
        }
    }

    /// Tells a room what fires of that which it is about to name, so that the change itself lets nobody in.
    pub(crate) async fn tell_beforehand(&self, room: &RoomHandle, wanted: &[String], now: UnixMillis) {
        let mut firing = self.firing_of(wanted, now);
        let named = room.with_board(|board| named_by(board).to_vec());
        if firing.iter().all(|name| named.contains(name)) {
            return;
        }
        // What it names until the change still counts until then.
        firing.extend(self.firing_of(&named, now));
        firing.sort();
        firing.dedup();
        tell_what_fires(room, firing).await;
    }

    /// What fires of that which a room names, if its board shows something else.
    fn news_for(&self, board: &Board, now: UnixMillis) -> Option<Vec<String>> {
        let fires = self.firing_of(named_by(board), now);
        (fires != board.firing).then_some(fires)
    }

    fn firing_of(&self, names: &[String], now: UnixMillis) -> Vec<String> {
        let fires = |book: &AlarmBook, name: &str| {
            book.fires(name, now) == Some(true) || self.nodes.fires_on_another_node(name, now)
        };
        self.with_book(|book| names.iter().filter(|name| fires(book, name)).cloned().collect())
    }

    /// Evaluates own alarms; returns what to tell of those that began and ended to fire.
    fn evaluate(&self, now: UnixMillis, totals: &Totals) -> Vec<StoredEvent> {
        let mut book = self.book();
        let before: Vec<bool> = book.own.iter().map(OwnAlarm::fires).collect();
        book.own.evaluate(now, totals);
        let mut events = vec![];
        for (alarm, fired) in book.own.iter().zip(before) {
            if alarm.fires() != fired {
                let (name, count) = (&alarm.name, alarm.count());
                let summary =
                    if fired { String::new() } else { format!("{count} counted within the last minute") };
                let changed = Event::AlarmChanged { name: name.clone(), fires: !fired, summary };
                events.push(self.engine.event_now(None, changed));
                if fired {
                    tracing::info!(alarm = name, "own alarm resolved");
                } else {
                    tracing::warn!(alarm = name, count, "own alarm firing");
                }
            }
        }
        if !events.is_empty() {
            self.change.notify_one();
        }
        events
    }

    /// Has the other nodes of a shared store know which own alarms fire here.
    async fn tell_nodes(&self, now: UnixMillis) {
        let firing: Vec<String> = self.with_book(|book| {
            book.own.iter().filter(|alarm| alarm.fires()).map(|alarm| alarm.name.clone()).collect()
        });
        // It is tried again in a second.
        if let Err(error) = self.nodes.tell(&**self.engine.store(), &firing, now).await {
            tracing::debug!(%error, "publishing own alarms to other nodes failed");
        }
    }

    /// No invariant spans two statements, so a panic elsewhere leaves nothing half done.
    fn book(&self) -> MutexGuard<'_, AlarmBook> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn load(&self) -> Result<(OutsideAlarms, Option<Vec<u8>>), StoreError> {
        let bytes = self.engine.store().value(ALARMS_VALUE).await?;
        let outside = bytes.as_deref().map(from_bytes);
        Ok((outside.unwrap_or_default(), bytes))
    }
}

async fn tell_what_fires(room: &RoomHandle, firing: Vec<String>) {
    let told = room.operate(Operation::Alarms { firing: firing.clone() }, Actor::System("alarms")).await;
    match told {
        Ok(_) => {
            tracing::info!(room = %room.id(), ?firing, "room alarms updated");
        }
        // It is compared again in a second.
        Err(error) => {
            tracing::debug!(room = %room.id(), %error, "updating room alarms failed");
        }
    }
}

/// The rooms that mention each name.
pub(crate) fn rooms_by_name(engine: &Engine) -> BTreeMap<String, BTreeSet<String>> {
    let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for room in engine.rooms() {
        room.with_board(|board| {
            for name in named_by(board) {
                rooms.entry(name.clone()).or_default().insert(room.id().as_str().to_owned());
            }
        });
    }
    rooms
}

/// The alarms that a room mentions.
fn named_by(board: &Board) -> &[String] {
    board.settings.alarms.as_slice()
}

/// The record of what began and ended to fire; a mere repetition is not worth one.
fn audit(outcome: &NotificationOutcome, actor: &str, now: UnixMillis) -> Option<AuditRecord> {
    let mut changes = vec![];
    for (names, what) in [(&outcome.began, "fires"), (&outcome.ended, "is OK")] {
        changes.extend(names.iter().map(|name| format!("{name} {what}")));
    }
    let action = format!("alarms: {}", changes.join(", "));
    (!changes.is_empty()).then(|| AuditRecord::new(now, None, actor, &action))
}

/// How an alarm is written in the store.
#[derive(Serialize, Deserialize)]
struct StoredAlarm {
    name: String,
    alerts: BTreeMap<String, Option<u64>>,
    since: u64,
    last_heard: u64,
    summary: String,
    labels: String,
}

fn to_bytes(outside: &OutsideAlarms) -> Vec<u8> {
    let stored = |alarm: &OutsideAlarm| StoredAlarm {
        name: alarm.name.clone(),
        alerts: alarm.alerts.iter().map(|(key, end)| (key.clone(), end.map(|end| end.0))).collect(),
        since: alarm.since.0,
        last_heard: alarm.last_heard.0,
        summary: alarm.summary.clone(),
        labels: alarm.labels.clone(),
    };
    let stored: Vec<StoredAlarm> = outside.iter().map(stored).collect();
    serde_json::to_vec(&stored).expect("our own structures can be written as JSON")
}

/// Stored alarms that cannot be read are dropped with an error in the log. Alertmanager repeats what fires, and refusing
/// to start would be worse.
fn from_bytes(bytes: &[u8]) -> OutsideAlarms {
    let stored: Vec<StoredAlarm> = serde_json::from_slice(bytes).unwrap_or_else(|error| {
        tracing::error!(%error, "stored alarms unreadable, dropping alarms reported from outside");
        vec![]
    });
    OutsideAlarms::of(stored.into_iter().map(|alarm| OutsideAlarm {
        name: alarm.name,
        alerts: alarm.alerts.into_iter().map(|(key, end)| (key, end.map(UnixMillis))).collect(),
        since: UnixMillis(alarm.since),
        last_heard: UnixMillis(alarm.last_heard),
        summary: alarm.summary,
        labels: alarm.labels,
    }))
}

/// What has been counted so far, in the order of the own alarms.
fn totals(metrics: &Metrics, failures: &OperationFailures, clock_held_seconds: u64) -> Totals {
    let answers = metrics.response_errors();
    let operations = failures.totals();
    debug_assert_eq!(RESOURCES, answers.len() + 2 * OPERATIONS.len() + 1);
    let operations = operations.into_iter().flat_map(|(errors, refusals)| [errors, refusals]);
    let mut counted = answers.into_iter().chain(operations).chain([clock_held_seconds]);
    std::array::from_fn(|_| counted.next().unwrap_or(0))
}

/// Evaluates own alarms and tells rooms what fires, until the server closes.
pub(crate) async fn run(app: Arc<App>, shutdown: Shutdown) {
    let evaluating = async {
        let mut clock = tokio::time::interval(EVALUATION_PERIOD);
        // A second that was missed is no reason to hurry.
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut clock_held_seconds = 0;
        let mut unwritten: Vec<StoredEvent> = vec![];
        loop {
            clock.tick().await;
            let now = app.now();
            clock_held_seconds += u64::from(app.engine.clock_off_by_millis() != 0);
            let failures = &app.engine.counters().operation_failures;
            unwritten.extend(app.alarms.evaluate(now, &totals(&app.metrics, failures, clock_held_seconds)));
            unwritten.truncate(UNWRITTEN_EVENTS_MAX);
            // The store may be what the alarm is about: then they are written when it can be reached again.
            let writing = app.engine.append_events(&unwritten);
            if matches!(tokio::time::timeout(EVALUATION_PERIOD, writing).await, Ok(Ok(()))) {
                unwritten.clear();
            }
        }
    };
    let sharing = async {
        let mut clock = tokio::time::interval(EVALUATION_PERIOD);
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while app.engine.store().is_shared() {
            clock.tick().await;
            app.alarms.tell_nodes(app.now()).await;
        }
        std::future::pending::<()>().await;
    };
    let telling = async {
        loop {
            // Runs on a notification, or after the period: settings change, and a room may not have been reachable.
            let _ = tokio::time::timeout(EVALUATION_PERIOD, app.alarms.change.notified()).await;
            app.alarms.warn_of_unknown(&app.engine, app.now());
            app.alarms.tell_rooms(&app.engine).await;
        }
    };
    tokio::select! {
        () = shutdown.requested() => {}
        () = evaluating => {}
        () = sharing => {}
        () = telling => {}
    }
}
