//! What other nodes do to a shared store, as far as handlers have to know of it: rooms they make and delete, keys they rotate and
//! revoke, `OpenID` clients, destinations of events, alarms they hear of.
//!
//! The engine says when values may have changed; they are then read again. Now and then they are read again anyway, so that
//! nothing that was missed stays missed.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use crate::app::App;
use crate::ops::shutdown::Shutdown;

/// How often the views of rooms are compared with the engine's. A room that is asked for is looked for at once.
const ROOMS_PERIOD: Duration = Duration::from_millis(250);
/// How long values stay unread without a notification of a change.
const VALUES_PERIOD: Duration = Duration::from_secs(30);
/// When values are read again that could not be read; and after the start, for what changed between the first look at them
/// and the engine's.
const VALUES_RETRY: Duration = Duration::from_secs(1);

/// Keeps up with other nodes until the server closes; on a store that no other node changes there is nothing to do.
pub(crate) async fn keep_up(app: Arc<App>, shutdown: Shutdown) {
    if !app.engine.store().is_shared() {
        return;
    }
    tokio::select! {
        () = shutdown.requested() => {}
        () = follow_rooms(&app) => {}
        () = follow_values(&app) => {}
    }
}

async fn follow_rooms(app: &App) {
    let mut clock = tokio::time::interval(ROOMS_PERIOD);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        clock.tick().await;
        app.follow_rooms();
    }
}

async fn follow_values(app: &App) {
    let mut changed = app.engine.values_changed();
    let mut pause = VALUES_RETRY;
    let mut was_told = false;
    loop {
        if let Ok(Err(_)) = tokio::time::timeout(pause, changed.changed()).await {
            return;
        }
        pause = match reload(app).await {
            Ok(()) => {
                was_told = false;
                VALUES_PERIOD
            }
            Err(error) => {
                if !std::mem::replace(&mut was_told, true) {
                    tracing::warn!(%error, "reloading values changed by other nodes failed, retrying every second");
                }
                VALUES_RETRY
            }
        };
    }
}

/// Reads all values again, each also where another one cannot be read.
async fn reload(app: &App) -> anyhow::Result<()> {
    let signing_keys = app.admission.keys.reload(&**app.engine.store()).await;
    let api_keys = app.access.keys.reload().await;
    let openid_clients = app.admission.openid_clients.reload().await;
    let destinations = app.destinations.reload().await;
    let alarms = app.alarms.reload().await;
    signing_keys?;
    api_keys?;
    openid_clients?;
    destinations?;
    Ok(alarms?)
}
