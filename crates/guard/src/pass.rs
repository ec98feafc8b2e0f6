//! What a verified pass says.

use std::sync::Arc;

/// A pass that was verified. The layer puts it into the extensions of the request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Pass {
    /// `aud`: the room.
    pub room: Arc<str>,
    /// `iss`: who issued it.
    pub issuer: Arc<str>,
    /// `sub`: the request id of the visitor; names the visit in calls to the waiting room (`update_session`).
    pub subject: String,
    /// `queue_position`: the visitor's place in line.
    pub queue_position: u64,
    /// `iat`, in seconds since 1970.
    pub issued_at_seconds: u64,
    /// `exp`, in seconds since 1970: from this second on the pass is refused.
    pub expires_at_seconds: u64,
    /// `enter_by`, in seconds since 1970: until when the visit had to begin. Only rooms whose site reports its capacity have it.
    pub enter_by_seconds: Option<u64>,
}
