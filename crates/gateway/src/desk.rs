//! What the gateway needs of the server around it: passes, which are signed there, and the rounds of auctions, which are held there.

use anteroom_core::{RoomId, Ticket};
use async_trait::async_trait;

/// Where passes are made, and where those are noted who come to an auction.
#[async_trait]
pub trait PassDesk: Send + Sync {
    /// Claims a place that is served. Its pass is the same on every call, and only signed where it is wanted.
    async fn claim(&self, room: &RoomId, ticket: Ticket, wants_pass: bool) -> Claimed;

    /// Somebody who waits in this room has shown up. In an auction he counts as present until the round's end.
    fn note_presence(&self, room: &RoomId, ticket: &Ticket);
}

/// What became of a claim.
#[derive(Debug)]
pub enum Claimed {
    /// He is inside, with this pass.
    Pass(Box<HandedPass>),
    /// He is inside; no pass was wanted.
    Begun,
    /// It is not his turn, or not any more.
    NotServed,
    /// The place is gone, or the visit is over.
    Over,
    /// The place is on another device.
    Moved,
    /// The room is closed.
    Closed,
    /// Not now.
    Unavailable,
}

/// A pass on its way to a site. There is no way to print it.
pub struct HandedPass {
    /// What the site checks.
    pub access_token: String,
    /// What renews it.
    pub refresh_token: String,
    /// Who it is.
    pub id_token: String,
    /// For how many seconds it is good.
    pub expires_in: u64,
}

impl std::fmt::Debug for HandedPass {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "HandedPass(good for {} seconds, hidden)", self.expires_in)
    }
}
