//! What every request handler shares: the rooms, the keys, the signer, the figures.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use anteroom_core::{Board, Recognition, RequestId, RoomId, Ticket, UnixMillis};
use anteroom_store::engine::Actor;
use anteroom_store::{Engine, EngineError, RoomHandle};
use anteroom_tokens::api_key::ApiKeyDigest;
use anteroom_tokens::request_id::RequestIds;
use anteroom_tokens::secret::MasterSecrets;
use anteroom_tokens::signer::Signer;
use arc_swap::ArcSwap;

use crate::keys::Keys;
use crate::metrics::Metrics;
use crate::prepared::Prepared;
use crate::watch::{Feed, Watch};

/// The state behind both listeners.
pub(crate) struct App {
    pub(crate) engine: Arc<Engine>,
    pub(crate) rooms: HashMap<RoomId, Arc<RoomView>>,
    pub(crate) keys: Keys,
    pub(crate) signer: Signer,
    pub(crate) metrics: Metrics,
    pub(crate) watch: Watch,
    pub(crate) admin_keys: Vec<ApiKeyDigest>,
    /// The issuer of rooms that have none of their own.
    pub(crate) public_url: String,
    pub(crate) request_body_max_bytes: usize,
    pub(crate) metrics_open: bool,
}

impl App {
    /// The room of an event id, exactly as it was written.
    pub(crate) fn room(&self, event_id: &str) -> Option<&Arc<RoomView>> {
        self.rooms.get(event_id)
    }

    pub(crate) fn now(&self) -> UnixMillis {
        self.engine.now()
    }
}

/// A room with what only this server adds to it: the cipher of its tickets, and answers prepared from its board.
pub(crate) struct RoomView {
    pub(crate) handle: Arc<RoomHandle>,
    pub(crate) request_ids: RequestIds,
    prepared: ArcSwap<Prepared>,
    /// Its live stream, once somebody watches.
    pub(crate) feed: OnceLock<Arc<Feed>>,
}

impl RoomView {
    pub(crate) fn new(handle: Arc<RoomHandle>, secrets: &MasterSecrets) -> Self {
        let request_ids = RequestIds::new(secrets, handle.id());
        let prepared = ArcSwap::from_pointee(Prepared::of(handle.id(), &handle.board()));
        Self { handle, request_ids, prepared, feed: OnceLock::new() }
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
            self.request_ids.open(id, |ticket| board.recognise(ticket, now) == Recognition::Ours)
        })
    }

    /// The ticket behind a request id, if it is of this room's line, and the board that says so.
    pub(crate) async fn open(
        &self,
        id: RequestId,
        now: UnixMillis,
    ) -> Result<Option<(Ticket, Arc<Board>)>, EngineError> {
        let board = self.handle.board();
        let newer_or_ours = |ticket: &Ticket| board.recognise(ticket, now) != Recognition::Foreign;
        let Some(ticket) = self.request_ids.open(id, newer_or_ours) else { return Ok(None) };
        if board.recognise(&ticket, now) == Recognition::Ours {
            return Ok(Some((ticket, board)));
        }
        // Newer than the board: boards may lag behind the store, so ask there before calling it a forgery.
        self.handle.operate(anteroom_core::Operation::Tick, Actor::Visitor).await?;
        let board = self.handle.board();
        Ok((board.recognise(&ticket, now) == Recognition::Ours).then_some((ticket, board)))
    }
}
