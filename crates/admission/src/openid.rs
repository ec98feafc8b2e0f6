//! The OpenID provider, as far as it is not HTTP: an admitted visitor's code ([`codes`]), what a client gets for it and how it goes on
//! ([`tokens`]), and by which name the client knows the visitor ([`subjects`]).
//!
//! # The path of a login
//! the visitor's place is claimed → [`Admission::openid_code`] seals a code → the client exchanges it
//! ([`Admission::redeem_openid_code`]): the tokens are signed, then the session remembers the grant, and the tokens leave →
//! [`Admission::refresh_openid`] and [`Admission::openid_user_info`] ask the session whether the grant is still good.

pub mod clients;
mod codes;
pub mod redirect;
mod scopes;
mod subjects;
#[cfg(test)]
mod tests;
mod tokens;
mod user_info;

use anteroom_core::{Refusal, RoomId, Session, SessionKey, Ticket, UnixMillis};
use anteroom_engine::EngineError;
use anteroom_store::StoreError;
use anteroom_tokens::signer::SignError;

pub use crate::openid::clients::{OpenIdClient, OpenIdClients};
pub use crate::openid::codes::CodeRequest;
pub use crate::openid::tokens::OpenIdTokens;
pub use crate::openid::user_info::UserInfo;
pub use anteroom_tokens::openid::sealed::{NONCE_MAX_BYTES, OPENID_CODE_SECONDS};

use crate::{Admission, AdmissionError, RoomView};

/// Why a client gets nothing. The texts may be shown to it (`error_description`).
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenIdError {
    /// `invalid_grant`.
    #[error("{0}")]
    InvalidGrant(&'static str),
    /// `invalid_request`.
    #[error("{0}")]
    InvalidRequest(&'static str),
    /// `invalid_token`.
    #[error("{0}")]
    InvalidToken(&'static str),
    /// It is not the client's fault.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
}

impl From<SignError> for OpenIdError {
    fn from(error: SignError) -> Self {
        Self::Admission(error.into())
    }
}

impl From<StoreError> for OpenIdError {
    fn from(error: StoreError) -> Self {
        Self::Admission(error.into())
    }
}

impl From<EngineError> for OpenIdError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Refused(Refusal::UnknownSession | Refusal::AlreadyEnded) => {
                Self::InvalidGrant(VISIT_OVER)
            }
            EngineError::Refused(Refusal::UnknownGrant) => Self::InvalidGrant(LOGIN_OVER),
            EngineError::Refused(Refusal::TooManyGrants) => Self::InvalidGrant(TOO_MANY_LOGINS),
            EngineError::Refused(Refusal::JustRefreshed) => Self::InvalidGrant(JUST_REFRESHED),
            other => Self::Admission(other.into()),
        }
    }
}

const VISIT_OVER: &str = "the visit is over";
const LOGIN_OVER: &str = "the login was revoked, or is forgotten";
const TOO_MANY_LOGINS: &str = "the visitor has logged in too often in the last two minutes";
const JUST_REFRESHED: &str = "the refresh token was used a moment ago; the newer one is good";

impl Admission {
    /// `iss` of the room's OpenID tokens: its own setting, else the public URL for the default room and the address below it for any
    /// other.
    pub fn openid_issuer(&self, room: &RoomView) -> String {
        let setting = room.handle.with_board(|board| board.settings.issuer.clone());
        let id = room.handle.id();
        let is_default = self.room_or_default(None).is_some_and(|default| default.handle.id() == id);
        issuer_of(id, setting.as_deref(), is_default, &self.default_issuer)
    }

    /// The session of a ticket, if the visit goes on.
    async fn live_session(&self, room: &RoomView, ticket: &Ticket) -> Result<Option<Session>, StoreError> {
        let key = key_of(ticket);
        let session = self.engine.store().session(room.handle.id(), key).await?;
        let now = self.now();
        Ok(session.filter(|session| session.is_alive(now) && end_seconds(session) > now.seconds()))
    }
}

/// `iss` of a room's OpenID tokens, by its setting and the public URL.
pub fn issuer_of(room: &RoomId, setting: Option<&str>, is_default: bool, public_url: &str) -> String {
    let public_url = public_url.trim_end_matches('/');
    match setting {
        Some(issuer) => issuer.to_owned(),
        None if is_default => public_url.to_owned(),
        None => format!("{public_url}/rooms/{room}"),
    }
}

fn key_of(ticket: &Ticket) -> SessionKey {
    SessionKey { generation: ticket.generation, position: ticket.position }
}

/// Until when tokens of a session may be good: no longer than its pass, and never longer than its slot is held.
fn end_seconds(session: &Session) -> u64 {
    session.expires_at_seconds.min(session.ends_at().seconds())
}

/// When a token ends that begins now.
fn expiry(session: &Session, now: UnixMillis, lifetime_seconds: Option<u64>) -> u64 {
    let by_client = lifetime_seconds.map_or(u64::MAX, |seconds| now.seconds().saturating_add(seconds));
    end_seconds(session).min(by_client)
}
