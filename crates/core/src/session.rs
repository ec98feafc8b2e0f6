//! The record of an admitted visitor: what was promised in his pass, and how his visit ended.

use crate::ids::{Generation, Position, RequestId, UnixMillis};

/// Names a session within its room. One ticket has at most one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    /// The line of the ticket.
    pub generation: Generation,
    /// Its place there.
    pub position: Position,
}

/// How a visit was ended by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The visitor did what he came for.
    Completed,
    /// The visitor went away.
    Abandoned,
}

impl Outcome {
    /// The word used on every API and in every event.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Abandoned => "abandoned",
        }
    }
}

/// Where a session stands. It leaves `Active` once; `Expired` may still be relabelled, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionStatus {
    /// Counts against the capacity.
    Active,
    /// Ended by name.
    Ended(Outcome),
    /// Ran out.
    Expired,
}

/// An admitted visitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Whose.
    pub key: SessionKey,
    /// The ticket's public form as it was first claimed: the subject of the pass.
    pub request_id: RequestId,
    /// When the place was offered; the position's own claim clock.
    pub offered_at: UnixMillis,
    /// Start of the pass, whole seconds.
    pub issued_at_seconds: u64,
    /// End of the pass and of the session, whole seconds.
    pub expires_at_seconds: u64,
    /// `iss` of the pass.
    pub issuer: String,
    /// The signing key of the pass.
    pub key_id: String,
    /// Where it stands.
    pub status: SessionStatus,
    /// The signatures that left with the pass, where signing again would give others (ES256); empty otherwise.
    pub signatures: Vec<u8>,
    /// Until when, in whole seconds, the pass may be used for the first time, where the origin reports its capacity.
    pub enter_by_seconds: Option<u64>,
}

impl Session {
    /// The moment from which it counts as expired.
    pub const fn ends_at(&self) -> UnixMillis {
        UnixMillis(self.expires_at_seconds.saturating_mul(1000))
    }
}
