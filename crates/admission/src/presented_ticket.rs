//! A ticket as a client presents it, in either of its written forms: the ticket token, which names its room, or the request id.

use std::sync::Arc;

use anteroom_core::{Board, Recognition, Refusal, RequestId, RoomId, Ticket};
use anteroom_tokens::ticket_token::{self, TicketTokens};
use anteroom_tokens::{RequestIds, request_id};

use crate::tickets::{Proof, is_recent};
use crate::{Admission, AdmissionError, RoomView};

/// A ticket that was presented, opened.
pub struct PresentedTicket {
    /// Its room.
    pub room: Arc<RoomView>,
    /// The ticket.
    pub ticket: Ticket,
    /// Its short form.
    pub request_id: RequestId,
    /// The board that knows it.
    pub board: Arc<Board>,
    /// The ticket token, if that was the form it was presented in.
    token: Option<String>,
}

impl PresentedTicket {
    /// A ticket that was just issued.
    pub fn of_new(room: Arc<RoomView>, ticket: Ticket) -> Self {
        let request_id = room.request_ids.seal(&ticket);
        let board = room.handle.board();
        Self { room, ticket, request_id, board, token: None }
    }

    /// A request id that was opened by other means.
    pub fn of_opened(room: Arc<RoomView>, ticket: Ticket, request_id: RequestId, board: Arc<Board>) -> Self {
        Self { room, ticket, request_id, board, token: None }
    }

    /// The ticket token.
    pub fn token(&self) -> String {
        let sealed = || self.room.ticket_tokens.seal(&self.ticket, self.request_id);
        self.token.clone().unwrap_or_else(sealed)
    }

    /// Reads the board again, after something was done.
    pub fn refresh_board(&mut self) {
        self.board = self.room.handle.board();
    }
}

impl Admission {
    /// A presented ticket that its room's present board knows, and whose place has not moved; without waiting.
    pub fn open_known_ticket(&self, room: Option<&str>, text: &str) -> Option<PresentedTicket> {
        self.find_known_ticket(room, text).filter(|presented| !presented.board.is_moved(&presented.ticket))
    }

    /// A presented ticket, also one that is newer than this node's board. One whose place has moved to another device is refused.
    pub async fn open_ticket(
        &self,
        room: Option<&str>,
        text: &str,
    ) -> Result<PresentedTicket, AdmissionError> {
        let presented = self.find_ticket(room, text).await?;
        if presented.board.is_moved(&presented.ticket) {
            return Err(Refusal::Moved.into());
        }
        Ok(presented)
    }

    /// The same, wherever its place has moved to.
    pub async fn find_ticket(
        &self,
        room: Option<&str>,
        text: &str,
    ) -> Result<PresentedTicket, AdmissionError> {
        if let Some(presented) = self.find_known_ticket(room, text) {
            return Ok(presented);
        }
        let unknown = || AdmissionError::UnknownTicket;
        let (room, request_id, token) = if is_token(text) {
            let named = ticket_token::audience(text).filter(|named| room.is_none_or(|room| room == named));
            let named = named.ok_or_else(unknown)?;
            let Some(room) = self.room(&named) else {
                return Err(self.unknown_room_error(&named, text, unknown()).await);
            };
            let claims = room.ticket_tokens.open(text).ok_or_else(unknown)?;
            (room, claims.request_id, Some(text.to_owned()))
        } else {
            let room = match (self.named_room(room), room) {
                (Err(error @ AdmissionError::UnknownRoom), Some(named)) => {
                    return Err(self.unknown_room_error(named, text, error).await);
                }
                (found, _) => found?,
            };
            (room, request_id::parse(text).ok_or_else(unknown)?, None)
        };
        let proof = if token.is_some() { Proof::Signed } else { Proof::Deciphered };
        let (ticket, board) = room.find(request_id, proof, self.now()).await?.ok_or_else(unknown)?;
        Ok(PresentedTicket { room, ticket, request_id, board, token })
    }

    /// Why the room of a ticket is not there: `unknown`, unless the ticket is genuine and recent, and the store that several nodes share
    /// has no trace of its room. Then it was lost, and the ticket counts again when the room is made again.
    async fn unknown_room_error(&self, room: &str, text: &str, unknown: AdmissionError) -> AdmissionError {
        let store = self.engine.store();
        let Ok(room) = RoomId::parse(room) else { return unknown };
        if !store.is_shared() || !self.is_recent_ticket_of(&room, text) {
            return unknown;
        }
        match store.trace(&room).await {
            Ok(None) => AdmissionError::RoomLost,
            Ok(Some(_)) => unknown,
            Err(error) => error.into(),
        }
    }

    /// Whether a text is a ticket of a room of this name, by our own secrets, from the last day.
    fn is_recent_ticket_of(&self, room: &RoomId, text: &str) -> bool {
        let (ids, now) = (RequestIds::new(&self.secrets, room), self.now());
        if is_token(text) {
            let tokens = TicketTokens::new(&self.secrets, room);
            return tokens.open_ticket(text, &ids, |ticket| is_recent(ticket, now)).is_some();
        }
        request_id::parse(text).is_some_and(|id| ids.open(id, |ticket| is_recent(ticket, now)).is_some())
    }

    /// The room of that name, or the default room.
    pub fn named_room(&self, name: Option<&str>) -> Result<Arc<RoomView>, AdmissionError> {
        self.room_or_default(name).ok_or(match name {
            Some(_) => AdmissionError::UnknownRoom,
            None => AdmissionError::NoDefaultRoom,
        })
    }

    fn find_known_ticket(&self, room: Option<&str>, text: &str) -> Option<PresentedTicket> {
        let now = self.now();
        if is_token(text) {
            let named = ticket_token::audience(text)?;
            let room = self.room(&named).filter(|_| room.is_none_or(|room| room == named))?;
            let board = room.handle.board();
            let is_ours = |ticket: &Ticket| board.recognise(ticket, now) == Recognition::Ours;
            let (request_id, ticket) = room.ticket_tokens.open_ticket(text, &room.request_ids, is_ours)?;
            return Some(PresentedTicket { room, ticket, request_id, board, token: Some(text.to_owned()) });
        }
        let room = self.room_or_default(room)?;
        let request_id = request_id::parse(text)?;
        let board = room.handle.board();
        let is_ours = |ticket: &Ticket| board.recognise(ticket, now) == Recognition::Ours;
        let ticket = room.request_ids.open(request_id, is_ours)?;
        Some(PresentedTicket { room, ticket, request_id, board, token: None })
    }
}

/// A request id has no dots, a token has two.
fn is_token(text: &str) -> bool {
    text.contains('.')
}
