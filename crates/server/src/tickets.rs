//! Tickets as they are shown to our own API: a request id is opened by the board, or by what a look at the store says (see
//! `anteroom_gateway::tickets`).

use std::sync::Arc;

use anteroom_core::{Board, Recognition, Refusal, RequestId, Ticket, UnixMillis};
use anteroom_gateway::tickets::recognise;
pub(crate) use anteroom_gateway::tickets::{Proof, Refreshes};
use anteroom_store::EngineError;

use crate::app::RoomView;

impl RoomView {
    /// The ticket behind a request id, if it is of this room's line, and the board that says so. One whose place has moved to
    /// another device is refused.
    pub(crate) async fn open(
        &self,
        id: RequestId,
        proof: Proof,
        now: UnixMillis,
    ) -> Result<Option<(Ticket, Arc<Board>)>, EngineError> {
        match self.find(id, proof, now).await? {
            Some((ticket, board)) if board.is_moved(&ticket) => Err(EngineError::Refused(Refusal::Moved)),
            found => Ok(found),
        }
    }

    /// The same, wherever its place has moved to.
    pub(crate) async fn find(
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
