//! What every request handler shares: the rooms, their doors, the figures.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anteroom_admission::{Admission, AdmissionError, RoomLayer, RoomMap, RoomView};
use anteroom_core::{InletKind, RoomId, UnixMillis};
use anteroom_engine::Engine;
use anteroom_events::Destinations;
use anteroom_events::delivery::Delivery;
use anteroom_gateway::Gateway;
use anteroom_gateway::identify::{Identification, Peer, identify};
use anteroom_gateway::limiter::Limiter;
use anteroom_pages::Pages;
use anteroom_store::{OutboxState, RedisStore};
use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::access::{Authenticator, OriginSecret};
use crate::api::checks::CheckProxies;
use crate::api::events::EventStreams;
use crate::api::watch::{Feed, Watch};
use crate::http::error::ApiError;
use crate::http::prepared::Prepared;
use crate::ops::alarms::Alarms;
use crate::ops::metrics::Metrics;

/// How many keys of one room are warned of that move its frontier beside an automatic inlet.
const KEYS_WARNED_OF_MAX: usize = 16;

/// The state behind both listeners.
pub(crate) struct App {
    pub(crate) engine: Arc<Engine>,
    /// What every front door does with a room.
    pub(crate) admission: Arc<Admission>,
    /// The rooms as handlers see them, following those of the admission.
    pub(crate) rooms: RoomMap<ServedRoom>,
    pub(crate) metrics: Metrics,
    pub(crate) access: Authenticator,
    /// What the CDN in front of the public listener sends, if only the CDN may come in.
    pub(crate) origin_secret: Option<OriginSecret>,
    /// Which proxies may ask for verdicts.
    pub(crate) check_proxies: CheckProxies,
    /// Keeps clients within their budgets of requests.
    pub(crate) limiter: Arc<Limiter>,
    /// How clients are identified.
    pub(crate) identification: Arc<Identification>,
    pub(crate) watch: Watch,
    /// The store, where it is one that several nodes share.
    pub(crate) redis: Option<Arc<RedisStore>>,
    pub(crate) alarms: Alarms,
    /// Where events go.
    pub(crate) destinations: Arc<Destinations>,
    /// The delivery of events there.
    pub(crate) deliveries: Arc<Delivery>,
    /// How long events are kept.
    pub(crate) events_kept: Duration,
    /// Who reads events as they come.
    pub(crate) event_streams: EventStreams,
    /// True once the server closes.
    pub(crate) closing: watch::Sender<bool>,
    /// How far the outbox has come, as last looked at.
    pub(crate) outbox_state: ArcSwap<OutboxState>,
    /// Stands before the sites of rooms that have origins.
    pub(crate) gateway: Arc<Gateway>,
    /// What visitors see.
    pub(crate) pages: Arc<Pages>,
    /// Held by the one restore that runs, from its first byte on.
    pub(crate) restoring: tokio::sync::Mutex<()>,
    /// Where visitors reach us.
    pub(crate) public_url: String,
    pub(crate) request_body_max_bytes: usize,
    pub(crate) metrics_open: bool,
    /// The stage of API Gateway that AWS's calls may have before them.
    pub(crate) aws_stage: Option<String>,
    /// How long reads are answered while a shared store is lost.
    pub(crate) stale_reads_max: Duration,
}

impl App {
    /// Where a request comes from, as far back as trusted proxies vouch for it.
    pub(crate) fn client_address(&self, peer: &Peer, headers: &http::HeaderMap) -> std::net::IpAddr {
        identify(peer, headers, &self.identification).address
    }

    /// The room of a name, exactly as it was written.
    pub(crate) fn room(&self, name: &str) -> Option<Arc<ServedRoom>> {
        self.rooms
            .get(name)
            .or_else(|| Some(self.rooms.get_or_add(&self.admission.room(name)?, ServedRoom::new)))
    }

    /// The room of a name; without a name the default room, which is the configured one, or the only one there is.
    pub(crate) fn room_or_default(&self, name: Option<&str>) -> Option<Arc<ServedRoom>> {
        match name {
            Some(name) => self.room(name),
            None => Some(self.rooms.get_or_add(&self.admission.room_or_default(None)?, ServedRoom::new)),
        }
    }

    /// The same, or why there is none.
    pub(crate) fn named_room(&self, name: Option<&str>) -> Result<Arc<ServedRoom>, ApiError> {
        let unknown =
            if name.is_some() { AdmissionError::UnknownRoom } else { AdmissionError::NoDefaultRoom };
        self.room_or_default(name).ok_or_else(|| unknown.into())
    }

    /// Takes in rooms the engine has gained, and lets go of those it has lost.
    pub(crate) fn follow_rooms(&self) {
        self.admission.rooms.follow(&self.engine);
        self.rooms.follow(|| self.admission.rooms.all(), ServedRoom::new);
    }

    pub(crate) fn now(&self) -> UnixMillis {
        self.engine.now()
    }
}

/// Work that must not stop half-way because the client who asked for it goes away: it goes on to its end in a task of its own.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the named helper for changes: each ends with the store's answer, which is bounded in time"
)]
pub(crate) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    let broken =
        |_| Err(ApiError::unavailable("It is not known whether this was done; look before you ask again"));
    tokio::spawn(work).await.unwrap_or_else(broken)
}

/// A room with what only this server's API adds to it: responses prepared from its board, and its live stream.
pub(crate) struct ServedRoom {
    pub(crate) view: Arc<RoomView>,
    /// Held while an operator's change is computed and applied, so that those of this node do not get into each other's way.
    pub(crate) changing: tokio::sync::Mutex<()>,
    prepared: ArcSwap<Prepared>,
    /// Keys that have moved the frontier by hand beside an automatic inlet, each of which is warned of once.
    advanced_by_hand: Mutex<BTreeSet<String>>,
    /// Its live stream, from the first watcher on.
    pub(crate) feed: OnceLock<Arc<Feed>>,
}

impl Deref for ServedRoom {
    type Target = RoomView;

    fn deref(&self) -> &RoomView {
        &self.view
    }
}

impl RoomLayer for ServedRoom {
    type Inner = RoomView;

    fn inner(&self) -> &Arc<RoomView> {
        &self.view
    }

    fn id_of(view: &RoomView) -> &RoomId {
        view.handle.id()
    }
}

impl ServedRoom {
    pub(crate) fn new(view: Arc<RoomView>) -> Self {
        let prepared = ArcSwap::from_pointee(Prepared::of(view.handle.id(), &view.handle.board()));
        let (changing, advanced_by_hand) = (tokio::sync::Mutex::default(), Mutex::default());
        Self { view, changing, prepared, advanced_by_hand, feed: OnceLock::new() }
    }

    /// Warns, once for each key, of a frontier that is moved by hand while an inlet moves it too: an inlet of another installation that was
    /// left running does that, and lets in beside ours.
    pub(crate) fn note_advance_by_hand(&self, key: &str) {
        let inlet = self.handle.with_board(|board| board.settings.inlet);
        if inlet == InletKind::Manual {
            return;
        }
        let mut warned_of = self.advanced_by_hand.lock().unwrap_or_else(PoisonError::into_inner);
        if warned_of.len() < KEYS_WARNED_OF_MAX && warned_of.insert(key.to_owned()) {
            tracing::warn!(
                room = %self.handle.id(),
                key,
                inlet = inlet.as_str(),
                "serving counter moved by a key while an automatic inlet runs, both let visitors in; \
                 stop the old inlet if one was left running"
            );
        }
    }

    /// The prepared answers of the present board; made anew by the first who asks after a change.
    pub(crate) fn prepared(&self) -> Arc<Prepared> {
        let prepared = self.prepared.load();
        let fresh = self.handle.with_board(|board| {
            if prepared.is_of(board) { None } else { Some(Arc::new(Prepared::of(self.handle.id(), board))) }
        });
        match fresh {
            None => Arc::clone(&prepared),
            Some(fresh) => {
                self.prepared.store(Arc::clone(&fresh));
                fresh
            }
        }
    }
}
