//! From a subject back to the visit: for a site that knows its visitors by what its client was told, and says that one has finished.

use anteroom_core::{Recognition, Ticket};
use anteroom_engine::EngineError;
use anteroom_tokens::{OpenIdSubject, OpenIdSubjects};

use crate::tickets::{Proof, recognise};
use crate::{Admission, RoomView};

impl Admission {
    /// The ticket of a subject of any of the room's clients, if the present board knows it. Its copy is not known.
    pub fn ticket_of_subject(&self, room: &RoomView, subject: &str) -> Option<Ticket> {
        let now = self.now();
        let board = room.handle.board();
        self.open_subject(room, subject, |ticket| board.recognise(ticket, now) == Recognition::Ours)
    }

    /// The same, also where it is newer than this node's board.
    pub async fn find_subject(&self, room: &RoomView, subject: &str) -> Result<Option<Ticket>, EngineError> {
        let now = self.now();
        let board = room.handle.board();
        let is_plausible = |ticket: &Ticket| board.recognise(ticket, now) != Recognition::Foreign;
        let Some(ticket) = self.open_subject(room, subject, is_plausible) else { return Ok(None) };
        let known = recognise(&room.handle, &room.refreshes, ticket, Proof::Deciphered, now).await?;
        Ok(known.map(|_| ticket))
    }

    fn open_subject(
        &self,
        room: &RoomView,
        subject: &str,
        accept: impl Fn(&Ticket) -> bool,
    ) -> Option<Ticket> {
        let subject = OpenIdSubject::parse(subject)?;
        let id = room.handle.id();
        self.openid_clients
            .of_room(id)
            .iter()
            .find_map(|client| OpenIdSubjects::new(&self.secrets, id, &client.id).open(subject, &accept))
    }
}
