//! The record of an admitted visitor: what the pass promised, and how the visit ended.
//!
//! A visitor who holds a pass is inside until it ends. One whom the gateway let in carries a cookie instead, which is good for a
//! short time and renewed on every return: that is the *stay*.
//!
//! *Why no slot is free while a cookie still works:* a cookie ends [`STAY_GRACE_MILLIS`] before the stay that was durable when it was
//! sealed. A command that ends a visit earlier is shown to all nodes first ([`Departed`]), and the slot is freed when every node
//! has had the time to see it.

use std::fmt;
use std::str::FromStr;

use crate::ids::{Generation, Position, RequestId, UnixMillis};
use crate::prefixes::PrefixTag;

/// How much longer a stay is than the cookie that goes with it: time for a touch to be written, and for clocks to differ.
pub const STAY_GRACE_MILLIS: u64 = 5_000;

/// Names a session within its room. One ticket has at most one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    /// The line of the ticket.
    pub generation: Generation,
    /// Its place there.
    pub position: Position,
}

/// How origins are told of a visit: the generation and the position, with a hyphen between them.
impl fmt::Display for SessionKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.generation.number(), self.position)
    }
}

/// A text that names no visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a visit is named by two numbers with a hyphen between them")]
pub struct NotAVisit;

impl FromStr for SessionKey {
    type Err = NotAVisit;

    fn from_str(text: &str) -> Result<Self, NotAVisit> {
        let number = |text: &str| {
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u64>().ok().filter(|_| is_plain).ok_or(NotAVisit)
        };
        let (generation, position) = text.split_once('-').ok_or(NotAVisit)?;
        let generation = Generation::from_number(number(generation)?).ok_or(NotAVisit)?;
        let position = Position::new(number(position)?).ok_or(NotAVisit)?;
        Ok(Self { generation, position })
    }
}

/// How a visit was ended by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The visitor did what they came for.
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
    /// End of the pass, whole seconds; and of the session, where it has no stay.
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
    /// How long the visitor stays, where a cookie says so and not the pass.
    pub stay: Option<Stay>,
    /// How often its place had moved to another device when it was claimed.
    pub copy: u8,
    /// When the newest code was made by which its pass was handed over: neither that one nor an older one is good again.
    pub redeemed_at: UnixMillis,
    /// The address prefix that the visitor came from, where it is known.
    pub prefix: Option<PrefixTag>,
    /// Where the visitor has logged in with this visit, in the order in which the codes came: at most [`GRANTS_MAX`].
    pub grants: Vec<Grant>,
}

/// How many logins a session remembers. One that is forgotten cannot be refreshed, and its tokens are refused.
pub const GRANTS_MAX: usize = 16;
/// How long a grant is kept at least, from when its code was made: longer than any node takes the code for good, so that the code
/// cannot be used again.
pub const GRANT_KEPT_MILLIS: u64 = 120_000;
/// For how long after a refresh the token that was exchanged is taken for a repetition: two tabs of one visitor, or a response that
/// was lost. It gives nothing, and ends nothing.
pub const REFRESH_GRACE_MILLIS: u64 = 10_000;

/// A login at a client of the OpenID provider: what became of one code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Random; the code said it.
    pub id: u64,
    /// The client, by a tag of its id.
    pub client: u64,
    /// When the code was made.
    pub issued_at: UnixMillis,
    /// The refresh token that is good next: each is used once.
    pub refresh_sequence: u32,
    /// When a refresh token was exchanged last; 0 if none was.
    pub refreshed_at: UnixMillis,
    /// The code came twice: nothing that was given for it is good any more.
    pub is_revoked: bool,
}

/// A visit that lasts as long as a cookie is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stay {
    /// When the slot is freed. The cookie ends [`STAY_GRACE_MILLIS`] before, or earlier.
    pub until: UnixMillis,
    /// The visit was ended by name, and still holds its slot: a node that does not know yet may let the visitor in.
    pub ending: Option<Outcome>,
}

impl Grant {
    /// One that was never refreshed.
    pub const fn new(id: u64, client: u64, issued_at: UnixMillis) -> Self {
        Self { id, client, issued_at, refresh_sequence: 0, refreshed_at: UnixMillis(0), is_revoked: false }
    }

    /// Whether a used refresh token is the one before the present one, and was used a moment ago.
    pub fn was_just_refreshed(&self, sequence: u32, now: UnixMillis) -> bool {
        sequence.checked_add(1) == Some(self.refresh_sequence)
            && now < self.refreshed_at.plus(REFRESH_GRACE_MILLIS)
    }
}

impl Session {
    /// The grant of that number, if it is remembered and good.
    pub fn grant(&self, id: u64) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.id == id && !grant.is_revoked)
    }

    /// The moment from which it counts as ended.
    pub const fn ends_at(&self) -> UnixMillis {
        match self.stay {
            Some(stay) => stay.until,
            None => UnixMillis(self.expires_at_seconds.saturating_mul(1000)),
        }
    }

    /// How its visit was ended by name, if it was, whether or not its slot is free yet.
    pub const fn outcome(&self) -> Option<Outcome> {
        match (self.status, self.stay) {
            (SessionStatus::Ended(outcome), _) => Some(outcome),
            (SessionStatus::Active, Some(stay)) => stay.ending,
            _ => None,
        }
    }

    /// Whether the visitor is inside at `now`, and may stay.
    pub fn is_alive(&self, now: UnixMillis) -> bool {
        self.status == SessionStatus::Active && self.outcome().is_none() && self.ends_at() > now
    }
}

/// How many ended visits a room shows at once.
pub const DEPARTED_MAX: usize = 4_096;
/// How long each of them is shown: much longer than any node takes to look.
pub const DEPARTED_SHOWN_MILLIS: u64 = 10_000;

/// A visit that was ended by name while its cookie would still work: every node turns that cookie away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departed {
    /// Whose.
    pub key: SessionKey,
    /// When it was ended.
    pub at: UnixMillis,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_is_read_as_it_is_written_and_nothing_else_is_one() {
        for (opened, incarnation, position) in [(0, 0, 1), (91_000_000, 7, 4_211), (u32::MAX, u8::MAX, 9)] {
            let key = SessionKey {
                generation: Generation { opened, incarnation },
                position: Position::new(position).unwrap(),
            };
            assert_eq!(key.to_string().parse(), Ok(key));
        }
        for text in ["", "-", "1", "1-", "-1", "1-0", "1-+2", " 1-2", "1-2-3", "1099511627776-1", "1-2\n"] {
            assert_eq!(text.parse::<SessionKey>(), Err(NotAVisit), "{text:?}");
        }
    }
}
