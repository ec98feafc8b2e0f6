//! What keeps events going beside the rooms: which events of visitors are asked for, how long events are kept, and that the store was
//! lost for a while.

use std::sync::Arc;
use std::time::Duration;

use anteroom_core::{Event, EventClass, EventKind, UnixMillis};
use anteroom_engine::{Engine, EventInterest};
use anteroom_events::delivery::{Delivery, DeliveryParts, TransportFactory};
use anteroom_events::{DestinationState, Destinations};
use anteroom_store::{Clock, Store, StoreError, StoredEvent};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use tokio::sync::watch;

use crate::app::App;
use crate::http::staleness::Freshness;
use crate::ops::metrics::gauge;
use crate::ops::shutdown::Shutdown;

/// How often old events are looked for.
const RETENTION_PERIOD: Duration = Duration::from_mins(1);
/// How long a node has that work.
const RETENTION_LEASE: Duration = Duration::from_secs(150);
const RETENTION_WORK: &str = "outbox-retention";
/// How many events are read at a time to find the old ones.
const RETENTION_PAGE: usize = 2_000;
/// How many events about the store wait for it at most.
const UNWRITTEN_EVENTS_MAX: usize = 100;
/// How often it is looked whether the store can be reached.
const LOOK_PERIOD: Duration = Duration::from_millis(500);

/// The clock of the engine.
pub(crate) struct EngineClock(pub(crate) Arc<Engine>);

impl Clock for EngineClock {
    fn now(&self) -> UnixMillis {
        self.0.now()
    }
}

/// The delivery of events to destinations.
pub(crate) fn delivery(
    engine: &Arc<Engine>,
    destinations: &Arc<Destinations>,
    transports: Box<TransportFactory>,
    kept: Duration,
) -> Delivery {
    let factory = engine.clone();
    Delivery::new(DeliveryParts {
        store: engine.store().clone(),
        clock: Arc::new(EngineClock(engine.clone())),
        node: engine.node(),
        destinations: destinations.clone(),
        transports,
        events: Box::new(move |event| {
            factory.outbox().note_kind(event.kind());
            factory.event_now(None, event)
        }),
        kept,
    })
}

/// From now on the events of visitors are written that destinations ask for.
pub(crate) fn follow_destinations(engine: &Engine, destinations: &Destinations) {
    let interest = |destination: Arc<anteroom_events::Destination>| EventInterest {
        rooms: destination.rooms.iter().cloned().collect(),
        kinds: destination.kinds(),
    };
    engine.outbox().set_interests(destinations.list().into_iter().map(interest).collect());
}

/// Runs until the server closes.
pub(crate) async fn run(app: Arc<App>, shutdown: Shutdown) {
    let (stop, stopped) = watch::channel(false);
    let following = async {
        let mut changes = app.destinations.subscribe();
        while changes.changed().await.is_ok() {
            follow_destinations(&app.engine, &app.destinations);
        }
        std::future::pending::<()>().await;
    };
    let delivering = app.deliveries.run(app.engine.outbox().growth(), stopped);
    let working = async {
        tokio::select! {
            () = shutdown.requested() => {}
            () = following => {}
            () = drop_old_events(&app) => {}
            () = watch_store(&app) => {}
        }
        stop.send_replace(true);
    };
    tokio::join!(delivering, working);
}

/// Drops events that are older than they are kept for.
async fn drop_old_events(app: &App) {
    let mut clock = tokio::time::interval(RETENTION_PERIOD);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        clock.tick().await;
        let store = app.engine.store();
        if let Ok(outbox) = store.outbox().await {
            app.outbox_state.store(Arc::new(outbox));
        }
        let held = store.hold_work(RETENTION_WORK, app.engine.node(), RETENTION_LEASE).await;
        if !matches!(held, Ok(true)) {
            continue;
        }
        let kept = u64::try_from(app.events_kept.as_millis()).unwrap_or(u64::MAX);
        let oldest = UnixMillis(app.now().0.saturating_sub(kept));
        match last_before(&**store, oldest).await {
            Ok(None) => {}
            Ok(Some(number)) => {
                if let Err(error) = drop_in_steps(&**store, number).await {
                    tracing::warn!(%error, "dropping old events failed, retrying later");
                }
            }
            Err(error) => tracing::debug!(%error, "looking for old events failed, retrying later"),
        }
    }
}

/// Drops the events up to a number, some at a time, so that other writes have their turn.
async fn drop_in_steps(store: &dyn Store, number: u64) -> Result<(), StoreError> {
    while store.events(0, 1).await?.first().is_some_and(|(first, _)| *first <= number) {
        store.drop_events(number).await?;
    }
    Ok(())
}

/// The number of the last event before the first that is not older than a moment.
pub(crate) async fn last_before(store: &dyn Store, moment: UnixMillis) -> Result<Option<u64>, StoreError> {
    let mut found = None;
    loop {
        let events = store.events(found.unwrap_or(0), RETENTION_PAGE).await?;
        let old = events.iter().take_while(|(_, stored)| stored.at < moment);
        let last_old = old.last().map(|(number, _)| *number);
        found = last_old.or(found);
        if last_old.is_none() || last_old != events.last().map(|(number, _)| *number) {
            return Ok(found);
        }
        // An embedded store reads without waiting: others have their turn.
        tokio::task::yield_now().await;
    }
}

/// Tells, when the store can be reached again, that it could not.
async fn watch_store(app: &App) {
    let mut clock = tokio::time::interval(LOOK_PERIOD);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut lost_at = None;
    // Kept until they are written, so that what may have been written has the same ids again.
    let mut unwritten: Vec<StoredEvent> = vec![];
    loop {
        clock.tick().await;
        let store = app.engine.store();
        let is_lost = app.freshness() != Freshness::Fresh || !store.is_ready();
        match (lost_at, is_lost) {
            (None, true) => {
                let since = u64::try_from(app.engine.staleness().as_millis()).unwrap_or(0);
                lost_at = Some(UnixMillis(app.now().0.saturating_sub(since)));
            }
            (Some(moment), false) => {
                let node = app.engine.node().0;
                let mut lost = app.engine.event_now(None, Event::StoreLost { node });
                lost.at = moment;
                let recovered = Event::StoreRecovered { node, lost_at: moment };
                unwritten.extend([lost, app.engine.event_now(None, recovered)]);
                unwritten.truncate(UNWRITTEN_EVENTS_MAX);
                lost_at = None;
            }
            _ => {}
        }
        if !is_lost && app.engine.append_events(&unwritten).await.is_ok() {
            unwritten.clear();
        }
    }
}

/// Figures of events and destinations.
pub(crate) fn encode(encoder: &mut DescriptorEncoder<'_>, app: &App) -> Result<(), std::fmt::Error> {
    let help = "Events written to the outbox by this node";
    let mut metric = encoder.encode_descriptor("events", help, None, MetricType::Counter)?;
    for kind in EventKind::ALL {
        let written = ConstCounter::new(app.engine.outbox().written(*kind));
        written.encode(metric.encode_family(&[("type", kind.as_str())])?)?;
    }
    let outbox = app.outbox_state.load();
    let help = "Events dropped from the outbox because there were too many or they were too old";
    let mut metric = encoder.encode_descriptor("events_dropped", help, None, MetricType::Counter)?;
    for class in EventClass::ALL {
        let dropped = ConstCounter::new(outbox.dropped(class).count);
        dropped.encode(metric.encode_family(&[("class", class.as_str())])?)?;
    }
    let help = "Streams of events that are read";
    let metric = encoder.encode_descriptor("event_streams", help, None, MetricType::Gauge)?;
    gauge(app.event_streams.open()).encode(metric)?;
    encode_destinations(encoder, app)
}

/// A figure of a destination.
type Figure = fn(&anteroom_events::DestinationStatus) -> u64;

fn encode_destinations(encoder: &mut DescriptorEncoder<'_>, app: &App) -> Result<(), std::fmt::Error> {
    let figures = app.deliveries.figures();
    let help = "1 for the state that the destination is in";
    let mut metric = encoder.encode_descriptor("destination_state", help, None, MetricType::Gauge)?;
    for one in &figures {
        let is_blocked = one.status.as_ref().is_some_and(|status| status.is_blocked);
        let state = match &one.destination.state {
            DestinationState::Active if is_blocked => "blocked",
            DestinationState::Active => "active",
            DestinationState::Paused => "paused",
            DestinationState::Disabled { .. } => "disabled",
        };
        for known in ["active", "paused", "disabled", "blocked"] {
            let labels = [("destination", one.destination.name.as_str()), ("state", known)];
            gauge(u64::from(known == state)).encode(metric.encode_family(&labels)?)?;
        }
    }
    let help = "Events delivered to the destination by this node, and attempts that failed";
    let mut metric = encoder.encode_descriptor("destination_deliveries", help, None, MetricType::Counter)?;
    for one in &figures {
        for (outcome, count) in [("delivered", one.delivered), ("failed", one.failed)] {
            let labels = [("destination", one.destination.name.as_str()), ("outcome", outcome)];
            ConstCounter::new(count).encode(metric.encode_family(&labels)?)?;
        }
    }
    let of_status: [(&str, &str, Figure); 4] = [
        (
            "destination_lag_events",
            "Events that wait for the destination, on the node that delivers",
            |status| status.lag_events,
        ),
        ("destination_lag_seconds", "How long the oldest of them has waited", |status| status.lag_seconds),
        ("destination_dead_letters", "Events that were given up and are kept for an operator", |status| {
            status.dead_letters
        }),
        (
            "destination_missed_events",
            "Events dropped from the outbox before the destination had them, at most",
            |status| status.missed,
        ),
    ];
    for (name, help, figure) in of_status {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for one in &figures {
            let Some(status) = &one.status else { continue };
            let labels = [("destination", one.destination.name.as_str())];
            gauge(figure(status)).encode(metric.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
