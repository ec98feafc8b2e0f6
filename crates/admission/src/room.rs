//! A room with what only this node adds to it. Every front door works on the same one, and wraps it in what is only its own.

use std::net::IpAddr;
use std::sync::Arc;

use anteroom_core::{Board, Recognition, RequestId, Ticket, UnixMillis};
use anteroom_engine::{EngineError, RoomHandle};
use anteroom_tokens::prefix_tag::PrefixTags;
use anteroom_tokens::request_id::RequestIds;
use anteroom_tokens::secret::MasterSecrets;
use anteroom_tokens::ticket_token::TicketTokens;

use crate::arrivals::Arrivals;
use crate::auction::RoundTable;
use crate::error::AdmissionError;
use crate::idempotent_joins::{IdempotentJoins, JoinKey};
use crate::join_ceiling::JoinCeiling;
use crate::tickets::{Proof, StoreRefreshes, recognise};

/// The room's handle, the ciphers of its tickets, and what this node remembers of calls about it.
pub struct RoomView {
    /// The way to the room's owner.
    pub handle: Arc<RoomHandle>,
    /// Tickets as request ids.
    pub request_ids: RequestIds,
    /// Tickets as tokens.
    pub ticket_tokens: TicketTokens,
    /// Which address prefix a visitor comes from, as the room knows it.
    pub prefix_tags: PrefixTags,
    /// Reads of the store for tickets that the board does not know.
    pub refreshes: StoreRefreshes,
    /// Those present at its open round, where it holds auctions.
    pub round_table: Arc<RoundTable>,
    /// Who may join while more want to than the room takes.
    pub join_ceiling: JoinCeiling,
    /// Who has joined on this node, and why others could not.
    pub arrivals: Arrivals,
    joins: Arc<IdempotentJoins>,
}

impl RoomView {
    /// The view of a room that this node owns.
    pub fn new(handle: Arc<RoomHandle>, secrets: &MasterSecrets) -> Self {
        Self {
            request_ids: RequestIds::new(secrets, handle.id()),
            ticket_tokens: TicketTokens::new(secrets, handle.id()),
            prefix_tags: PrefixTags::new(secrets, handle.id()),
            refreshes: StoreRefreshes::default(),
            round_table: Arc::default(),
            join_ceiling: JoinCeiling::default(),
            arrivals: Arrivals::default(),
            joins: Arc::default(),
            handle,
        }
    }

    /// A place in line for a client at this address; with a key, the one that key got before. New places are held to the room's
    /// `join_rate_max`.
    pub async fn join(
        &self,
        key: Option<JoinKey>,
        client: IpAddr,
        now: UnixMillis,
    ) -> Result<Ticket, AdmissionError> {
        let result = self.place(key, client, now).await;
        self.arrivals.note(client, now, &result);
        result
    }

    async fn place(
        &self,
        key: Option<JoinKey>,
        client: IpAddr,
        now: UnixMillis,
    ) -> Result<Ticket, AdmissionError> {
        let board = self.handle.board();
        let may_join = || match board.settings.join_rate_max {
            Some(max) => {
                let joined = board.segments.iter().map(|segment| segment.joined).sum();
                self.join_ceiling.try_join(max.get(), client, joined, now)
            }
            None => Ok(()),
        };
        match key {
            None => {
                may_join()?;
                Ok(self.handle.join().await?)
            }
            Some(key) => {
                let is_known = |ticket: &Ticket| board.recognise(ticket, now) != Recognition::Foreign;
                self.joins.join(&self.handle, key, now, is_known, may_join).await
            }
        }
    }

    /// The ticket behind a request id, if the present board knows it and its place has not moved.
    pub fn open_known(&self, id: RequestId, now: UnixMillis) -> Option<Ticket> {
        self.handle.with_board(|board| {
            self.request_ids
                .open(id, |ticket| board.recognise(ticket, now) == Recognition::Ours)
                .filter(|ticket| !board.is_moved(ticket))
        })
    }

    /// The ticket behind a request id, if it is of this room's line, and the board that says so. A place that has moved to another
    /// device is refused.
    pub async fn open(
        &self,
        id: RequestId,
        proof: Proof,
        now: UnixMillis,
    ) -> Result<Option<(Ticket, Arc<Board>)>, EngineError> {
        match self.find(id, proof, now).await? {
            Some((ticket, board)) if board.is_moved(&ticket) => {
                Err(EngineError::Refused(anteroom_core::Refusal::Moved))
            }
            found => Ok(found),
        }
    }

    /// The same, wherever its place has moved to.
    pub async fn find(
        &self,
        id: RequestId,
        proof: Proof,
        now: UnixMillis,
    ) -> Result<Option<(Ticket, Arc<Board>)>, EngineError> {
        let board = self.handle.board();
        let newer_or_ours = |ticket: &Ticket| board.recognise(ticket, now) != Recognition::Foreign;
        let Some(ticket) = self.request_ids.open(id, newer_or_ours) else { return Ok(None) };
        let board = recognise(&self.handle, &self.refreshes, ticket, proof, now).await?;
        Ok(board.map(|board| (ticket, board)))
    }
}
