//! Which passes the shop takes, and why it refuses one. The guard verifies them, as it would in any Rust site.

use anteroom_guard::{BuildError, Guard, Refusal, TokenPlace};

use super::super::ROOM;

/// Why a caller is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum PassRefusal {
    #[error(
        "No pass. Join the room `{ROOM}`, wait, claim a pass, and show it: Authorization: Bearer ACCESS_TOKEN"
    )]
    Missing,
    #[error("This is no pass that was signed for the room `{ROOM}`")]
    NotOurs,
    #[error("This pass has run out; join the line again")]
    Expired,
    #[error("The visit of this pass is over; join the line again")]
    Used,
    #[error("The keys of passes are not known")]
    KeysUnknown,
}

impl From<Refusal> for PassRefusal {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Missing => Self::Missing,
            Refusal::Expired => Self::Expired,
            Refusal::KeysUnavailable => Self::KeysUnknown,
            _ => Self::NotOurs,
        }
    }
}

/// A guard for passes of one room, which visitors bring in one place.
pub(super) fn guard_of(public_url: &str, room: &str, place: TokenPlace) -> Result<Guard, BuildError> {
    Guard::builder(public_url).room(room).tokens_in([place]).build()
}
