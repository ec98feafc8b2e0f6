//! Notifications of what other nodes do, by sharded channels: one for each room, one for the whole store. Notifications
//! get lost, come late or twice; only a poll is reliable.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anteroom_core::RoomId;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::{mpsc, watch};

use super::Inner;
use super::connection::Open;
use super::keys::KeyScope;
use crate::contract::{NOTIFICATIONS_MAX, Notification, StoreError};

/// How often the subscriptions are checked.
const LOOK_PAUSE: Duration = Duration::from_secs(2);
/// How long to rest after a failure.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// Who subscribes to notifications, and of which rooms.
pub(super) struct Subscriptions {
    subscribers: Mutex<Vec<mpsc::Sender<Notification>>>,
    rooms: watch::Sender<Arc<[RoomId]>>,
    /// Changes with the first subscriber.
    is_wanted: watch::Sender<bool>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self {
            subscribers: Mutex::default(),
            rooms: watch::channel(Arc::from([])).0,
            is_wanted: watch::channel(false).0,
        }
    }
}

impl Subscriptions {
    pub(super) fn subscribe(&self) -> mpsc::Receiver<Notification> {
        let (subscriber, notifications) = mpsc::channel(NOTIFICATIONS_MAX);
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner).push(subscriber);
        self.is_wanted.send_replace(true);
        notifications
    }

    /// Sets the rooms to subscribe to.
    pub(super) fn follow(&self, rooms: &[RoomId]) {
        self.rooms.send_if_modified(|known| {
            let is_new = **known != *rooms;
            if is_new {
                *known = Arc::from(rooms);
            }
            is_new
        });
    }

    fn notify(&self, notification: &Notification) {
        let mut subscribers = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        subscribers.retain(|subscriber| match subscriber.try_send(notification.clone()) {
            Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => true,
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        });
    }
}

/// Subscribes wherever it has to, and again whenever a server is lost or another one has the keys.
pub(super) async fn listen(inner: Arc<Inner>) {
    let mut is_wanted = inner.subscriptions.is_wanted.subscribe();
    loop {
        if is_wanted.wait_for(|is_wanted| *is_wanted).await.is_err() {
            return;
        }
        if let Err(error) = listen_until_it_breaks(&inner).await {
            tracing::debug!(%error, "subscribing to notifications failed, relying on polls");
        }
        tokio::time::sleep(FAILURE_PAUSE).await;
    }
}

async fn listen_until_it_breaks(inner: &Inner) -> Result<(), StoreError> {
    let topology = inner.connections.topology();
    let mut rooms = inner.subscriptions.rooms.subscribe();
    let mut servers: HashMap<usize, Open> = HashMap::new();
    let mut subscribed: BTreeSet<RoomId> = BTreeSet::new();
    subscribe_to(inner, &mut servers, &KeyScope::Store).await?;
    loop {
        let wanted = rooms.borrow_and_update().clone();
        for room in wanted.iter() {
            if subscribed.insert(room.clone()) {
                subscribe_to(inner, &mut servers, &KeyScope::from(room)).await?;
            }
        }
        let changed = tokio::time::timeout(LOOK_PAUSE, rooms.changed()).await;
        if changed.is_err() {
            for server in servers.values_mut() {
                ask(server, &redis::cmd("PING")).await?;
            }
        }
        let is_another = !Arc::ptr_eq(&topology, &inner.connections.topology())
            && addresses(&topology) != addresses(&inner.connections.topology());
        if is_another || servers.values().any(Open::is_broken) {
            return Err(StoreError::Transient("a subscription was lost".into()));
        }
    }
}

fn addresses(topology: &super::connection::Topology) -> Vec<String> {
    topology.shards.iter().map(|shard| shard.address().to_string()).collect()
}

async fn subscribe_to(
    inner: &Inner,
    servers: &mut HashMap<usize, Open>,
    scope: &KeyScope,
) -> Result<(), StoreError> {
    let topology = inner.connections.topology();
    let nobody = || StoreError::Transient("no server has this channel".into());
    let index = topology.index_of(scope.slot()).ok_or_else(nobody)?;
    let shard = topology.shards.get(index).ok_or_else(nobody)?;
    let server = match servers.entry(index) {
        std::collections::hash_map::Entry::Occupied(server) => server.into_mut(),
        std::collections::hash_map::Entry::Vacant(vacant) => {
            let subscriptions = inner.subscriptions.clone();
            let pushed = move |info: PushInfo| {
                if let Some(notification) = notification_of(&info) {
                    subscriptions.notify(&notification);
                }
            };
            let connected = inner.connections.connector().connect(shard.address(), pushed).await;
            vacant.insert(connected.map_err(|error| StoreError::Transient(error.to_string()))?)
        }
    };
    let mut command = redis::cmd("SSUBSCRIBE");
    command.arg(inner.keys.load().notifications(scope));
    ask(server, &command).await
}

async fn ask(server: &mut Open, command: &redis::Cmd) -> Result<(), StoreError> {
    match server.connection.send_packed_command(command).await {
        Ok(Value::ServerError(error)) => Err(StoreError::Transient(error.to_string())),
        Ok(_) => Ok(()),
        Err(error) => Err(StoreError::Transient(error.to_string())),
    }
}

/// What a message on one of our channels says; the name of the room is in that of the channel.
fn notification_of(info: &PushInfo) -> Option<Notification> {
    if info.kind != PushKind::SMessage {
        return None;
    }
    let [channel, message] = &info.data[..] else { return None };
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    };
    match text(message)?.as_str() {
        "names" => Some(Notification::Names),
        "values" => Some(Notification::Values),
        "room" => {
            let channel = text(channel)?;
            let name = channel.split_once("{r/")?.1.split_once('}')?.0;
            RoomId::parse(name).ok().map(Notification::Room)
        }
        _ => None,
    }
}
