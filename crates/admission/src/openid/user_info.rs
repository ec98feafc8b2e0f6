//! What an access token of the OpenID provider says, for as long as its visit and its grant are good.

use anteroom_core::{Recognition, Ticket};
use anteroom_tokens::openid::token_pair::open_access_token;
use anteroom_tokens::{OpenIdSubjects, pass};
use serde::Serialize;

use super::OpenIdError;
use crate::tickets::{Proof, recognise};
use crate::{Admission, RoomView};

/// The answer of userInfo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UserInfo {
    /// The visitor, as the client knows them: as in its ID token.
    pub sub: String,
    /// The client that the token was given to.
    pub client_id: String,
    /// The room.
    pub room: String,
    /// The visitor's place.
    pub queue_position: u64,
    /// When the token was signed, in seconds since 1970.
    pub iat: u64,
    /// Until when it is good, in seconds since 1970.
    pub exp: u64,
    /// `active`: the visitor is inside.
    pub status: &'static str,
}

impl Admission {
    /// What an access token says. It must be signed by the key that it names, with that key's algorithm, for this room and its issuer;
    /// its client must exist, its visit go on, and its grant be of that very client and not revoked.
    pub async fn openid_user_info(
        &self,
        room: &RoomView,
        access_token: &str,
    ) -> Result<UserInfo, OpenIdError> {
        let (id, now) = (room.handle.id(), self.now());
        let unknown = || OpenIdError::InvalidToken("the token is not an access token of this room");
        let key = pass::key_id(access_token).and_then(|kid| self.keys.by_kid(&kid));
        let key = key.filter(|key| key.is_published(now)).ok_or_else(unknown)?;
        let access =
            open_access_token(&key, id, &self.openid_issuer(room), access_token).ok_or_else(unknown)?;
        if access.expires_at_seconds <= now.seconds() {
            return Err(OpenIdError::InvalidToken("the token has expired"));
        }
        let client = self.openid_clients.find(id, &access.client_id).ok_or_else(unknown)?;
        let board = room.handle.board();
        let is_plausible = |ticket: &Ticket| board.recognise(ticket, now) != Recognition::Foreign;
        let subjects = OpenIdSubjects::new(&self.secrets, id, &access.client_id);
        let over = || OpenIdError::InvalidToken("the visit is over, or the login was revoked");
        let ticket = subjects.open(access.subject, is_plausible).ok_or_else(over)?;
        recognise(&room.handle, &room.refreshes, ticket, Proof::Signed, now).await?.ok_or_else(over)?;
        let session = self.live_session(room, &ticket).await?.ok_or_else(over)?;
        let grant = session.grant(access.grant).ok_or_else(over)?;
        if !client.is_own_grant(grant) {
            return Err(over());
        }
        Ok(UserInfo {
            sub: access.subject.to_string(),
            client_id: access.client_id,
            room: id.to_string(),
            queue_position: access.queue_position,
            iat: access.issued_at_seconds,
            exp: access.expires_at_seconds,
            status: "active",
        })
    }
}
