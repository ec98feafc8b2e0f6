//! What every request handler shares: the rooms, the keys, the signer, the figures.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anteroom_core::{Recognition, RequestId, RoomId, Ticket, UnixMillis};
use anteroom_gateway::Gateway;
use anteroom_gateway::client::Identification;
use anteroom_gateway::limiter::Limiter;
use anteroom_pages::Pages;
use anteroom_store::{Engine, EngineError, RedisStore, RoomHandle};
use anteroom_tokens::codes::Codes;
use anteroom_tokens::request_id::RequestIds;
use anteroom_tokens::secret::MasterSecrets;
use anteroom_tokens::signer::Signer;
use anteroom_tokens::ticket_token::TicketTokens;
use arc_swap::ArcSwap;

use crate::access::{Doorkeeper, OriginSecret};
use crate::alarms::Alarms;
use crate::auction::{Auctions, RoundTable};
use crate::error::ApiError;
use crate::idempotency::{KeyDigest, RepeatableJoins};
use crate::keys::Keys;
use crate::metrics::Metrics;
use crate::prepared::Prepared;
use crate::tickets::Refreshes;
use crate::watch::{Feed, Watch};

/// The state behind both listeners.
pub(crate) struct App {
    pub(crate) engine: Arc<Engine>,
    pub(crate) rooms: Rooms,
    pub(crate) keys: Arc<Keys>,
    pub(crate) signer: Signer,
    /// What travels in addresses.
    pub(crate) codes: Codes,
    pub(crate) metrics: Metrics,
    pub(crate) access: Doorkeeper,
    /// What the CDN in front of the public listener sends, if only the CDN may come in.
    pub(crate) origin_secret: Option<OriginSecret>,
    /// Keeps clients within their budgets of requests.
    pub(crate) limiter: Arc<Limiter>,
    /// How clients are told apart.
    pub(crate) identification: Arc<Identification>,
    pub(crate) watch: Watch,
    /// The store, where it is one that several nodes share.
    pub(crate) redis: Option<Arc<RedisStore>>,
    pub(crate) alarms: Alarms,
    pub(crate) auctions: Auctions,
    /// Stands before the sites of rooms that have origins.
    pub(crate) gateway: Arc<Gateway>,
    /// What visitors see.
    pub(crate) pages: Arc<Pages>,
    /// Held by the one restore that runs, from its first byte on.
    pub(crate) restoring: tokio::sync::Mutex<()>,
    /// The issuer of rooms that have none of their own.
    pub(crate) public_url: String,
    /// The room of calls of our own API that name none.
    pub(crate) default_room: Option<RoomId>,
    pub(crate) request_body_max_bytes: usize,
    pub(crate) metrics_open: bool,
    /// How long reads are answered while a shared store is lost.
    pub(crate) stale_reads_max: Duration,
}

impl App {
    /// The room of a name, exactly as it was written.
    pub(crate) fn room(&self, name: &str) -> Option<Arc<RoomView>> {
        self.rooms.get(name).or_else(|| {
            // Another node may have made it a moment ago.
            self.engine.room(name)?;
            self.rooms.follow(&self.engine);
            self.rooms.get(name)
        })
    }

    /// The room of a name; without a name the default room, which is the configured one, or the only one there is.
    pub(crate) fn room_or_default(&self, name: Option<&str>) -> Option<Arc<RoomView>> {
        match (name, &self.default_room) {
            (Some(name), _) => self.room(name),
            (None, Some(default)) => self.room(default.as_str()),
            (None, None) => self.rooms.only_one(),
        }
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

/// The rooms as handlers see them, following those of the engine.
pub(crate) struct Rooms {
    views: ArcSwap<HashMap<RoomId, Arc<RoomView>>>,
    secrets: Arc<MasterSecrets>,
    /// Held while the map is replaced, so that no change is lost.
    replacing: Mutex<()>,
}

impl Rooms {
    pub(crate) fn new(secrets: Arc<MasterSecrets>) -> Self {
        Self { views: ArcSwap::default(), secrets, replacing: Mutex::default() }
    }

    fn get(&self, name: &str) -> Option<Arc<RoomView>> {
        self.views.load().get(name).cloned()
    }

    /// All of them, in any order.
    pub(crate) fn all(&self) -> Vec<Arc<RoomView>> {
        self.views.load().values().cloned().collect()
    }

    fn only_one(&self) -> Option<Arc<RoomView>> {
        let views = self.views.load();
        let mut all = views.values();
        all.next().filter(|_| all.next().is_none()).cloned()
    }

    /// Takes in rooms the engine has gained, and lets go of those it has lost.
    pub(crate) fn follow(&self, engine: &Engine) {
        let _one_at_a_time = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.views.load();
        let rooms = engine.rooms();
        let is_known = |handle: &Arc<RoomHandle>| {
            before.get(handle.id().as_str()).is_some_and(|view| Arc::ptr_eq(&view.handle, handle))
        };
        if rooms.len() == before.len() && rooms.iter().all(is_known) {
            return;
        }
        let view = |handle: Arc<RoomHandle>| {
            let known = before.get(handle.id().as_str()).filter(|view| Arc::ptr_eq(&view.handle, &handle));
            let view = known.cloned().unwrap_or_else(|| Arc::new(RoomView::new(handle, &self.secrets)));
            (view.handle.id().clone(), view)
        };
        self.views.store(Arc::new(rooms.into_iter().map(view).collect()));
    }
}

/// A room with what only this server adds to it: the ciphers of its tickets, and answers prepared from its board.
pub(crate) struct RoomView {
    pub(crate) handle: Arc<RoomHandle>,
    pub(crate) request_ids: RequestIds,
    pub(crate) ticket_tokens: TicketTokens,
    /// Looks at the store for tickets that its board does not know.
    pub(crate) refreshes: Refreshes,
    /// Held while an operator's change is computed and applied, so that those of this node do not get into each other's way.
    pub(crate) changing: tokio::sync::Mutex<()>,
    repeatable_joins: Arc<RepeatableJoins>,
    prepared: ArcSwap<Prepared>,
    /// Its live stream, once somebody watches.
    pub(crate) feed: OnceLock<Arc<Feed>>,
    /// Those present at its open round, where it holds auctions.
    pub(crate) round_table: Arc<RoundTable>,
}

impl RoomView {
    pub(crate) fn new(handle: Arc<RoomHandle>, secrets: &MasterSecrets) -> Self {
        let request_ids = RequestIds::new(secrets, handle.id());
        let ticket_tokens = TicketTokens::new(secrets, handle.id());
        let prepared = ArcSwap::from_pointee(Prepared::of(handle.id(), &handle.board()));
        Self {
            handle,
            request_ids,
            ticket_tokens,
            refreshes: Refreshes::default(),
            changing: tokio::sync::Mutex::default(),
            repeatable_joins: Arc::default(),
            prepared,
            feed: OnceLock::new(),
            round_table: Arc::default(),
        }
    }

    /// A place in line; with a key, the one that key got before.
    pub(crate) async fn join(&self, key: Option<KeyDigest>, now: UnixMillis) -> Result<Ticket, EngineError> {
        match key {
            None => self.handle.join().await,
            Some(key) => {
                let board = self.handle.board();
                let known = |ticket: &Ticket| board.recognise(ticket, now) != Recognition::Foreign;
                self.repeatable_joins.join(&self.handle, key, now, known).await
            }
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

    /// The ticket behind a request id, if the present board knows it.
    pub(crate) fn open_known(&self, id: RequestId, now: UnixMillis) -> Option<Ticket> {
        self.handle.with_board(|board| {
            self.request_ids
                .open(id, |ticket| board.recognise(ticket, now) == Recognition::Ours)
                .filter(|ticket| !board.is_moved(ticket))
        })
    }
}
