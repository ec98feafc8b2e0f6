//! What a login was granted: `openid`, and `offline_access` where it was asked for.

use anteroom_tokens::OpenIdRefreshToken;

use super::OpenIdClient;
use crate::{Admission, RoomView};

impl Admission {
    /// The scopes of a refresh token of this client, parted by spaces; nothing if it is none.
    pub fn openid_scope_of(
        &self,
        room: &RoomView,
        client: &OpenIdClient,
        refresh_token: &str,
    ) -> Option<&'static str> {
        let is_its =
            |token: &OpenIdRefreshToken| token.room == *room.handle.id() && token.client_id == client.id;
        let token = self.openid_seals.open_refresh_token(refresh_token).filter(is_its)?;
        Some(if token.offline_access { "openid offline_access" } else { "openid" })
    }
}
