//! What a client gets for a code or a refresh token.

use anteroom_core::{Answer, Operation, Session};
use anteroom_engine::Actor;
use anteroom_tokens::{OpenIdClaims, OpenIdRefreshToken};

use super::{LOGIN_OVER, OpenIdClient, OpenIdError, VISIT_OVER, expiry, key_of};
use crate::{Admission, RoomView};

/// The answer to a client.
#[derive(Clone, PartialEq, Eq)]
pub struct OpenIdTokens {
    /// For userInfo, and for sites that verify passes.
    pub access_token: String,
    /// Who has logged in.
    pub id_token: String,
    /// Good once, for the next tokens.
    pub refresh_token: Option<String>,
    /// For how many seconds the access token is good.
    pub expires_in: u64,
    /// What was granted.
    pub scope: String,
}

impl std::fmt::Debug for OpenIdTokens {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "OpenIdTokens(hidden, expires in {} s)", self.expires_in)
    }
}

/// What tokens are made from, beside the session.
pub(super) struct Login {
    /// The refresh token that goes with them, with all that it says of the login.
    pub(super) token: OpenIdRefreshToken,
    /// Whether it goes with them.
    pub(super) is_refreshable: bool,
    /// `nonce` of the ID token.
    pub(super) nonce: Option<String>,
    /// `enter_by` of the access token.
    pub(super) enter_by_seconds: Option<u64>,
}

impl Admission {
    /// New tokens for a refresh token, which is used up: the next one goes with them. One that was used before ends the visit; the last
    /// of them is refused for a moment instead, because two tabs may have sent it.
    pub async fn refresh_openid(
        &self,
        room: &RoomView,
        client: &OpenIdClient,
        refresh_token: &str,
    ) -> Result<OpenIdTokens, OpenIdError> {
        let unknown = OpenIdError::InvalidGrant("the refresh token is not one of this client");
        let id = room.handle.id();
        let is_its = |token: &OpenIdRefreshToken| {
            token.room == *id && client.room == *id && token.client_id == client.id
        };
        let token = self.openid_seals.open_refresh_token(refresh_token).filter(is_its).ok_or(unknown)?;
        if room.handle.with_board(|board| board.settings.disable_session_renewal) {
            return Err(OpenIdError::InvalidGrant("this room renews no passes"));
        }
        let session = self.live_session(room, &token.ticket).await?;
        let session = session.ok_or(OpenIdError::InvalidGrant(VISIT_OVER))?;
        let grant = session.grant(token.grant).filter(|grant| client.is_own_grant(grant));
        let grant = grant.ok_or(OpenIdError::InvalidGrant(LOGIN_OVER))?;
        let (sequence, is_used) = (token.sequence, token.sequence < grant.refresh_sequence);
        let use_up = Operation::Refresh { key: key_of(&token.ticket), grant: token.grant, sequence };
        if is_used {
            let refused = self.use_up_refresh_token(room, client, use_up).await;
            return Err(refused.err().unwrap_or(OpenIdError::InvalidGrant(TOKEN_USED)));
        }
        let login = Login {
            token: OpenIdRefreshToken { sequence: sequence.saturating_add(1), ..token },
            is_refreshable: true,
            nonce: None,
            enter_by_seconds: session.enter_by_seconds,
        };
        let tokens = self.sign_login(room, client, &session, &login).await?;
        // Last, as with a code: while tokens cannot be signed, this one stays good.
        self.use_up_refresh_token(room, client, use_up).await?;
        Ok(tokens)
    }

    async fn use_up_refresh_token(
        &self,
        room: &RoomView,
        client: &OpenIdClient,
        use_up: Operation,
    ) -> Result<(), OpenIdError> {
        if let Answer::Session(_) = room.handle.operate(use_up, Actor::Visitor).await? {
            return Ok(());
        }
        tracing::warn!(room = %room.handle.id(), client = %client.id, "used refresh token came again, visit ended");
        Err(OpenIdError::InvalidGrant(TOKEN_USED))
    }

    pub(super) async fn sign_login(
        &self,
        room: &RoomView,
        client: &OpenIdClient,
        session: &Session,
        login: &Login,
    ) -> Result<OpenIdTokens, OpenIdError> {
        let now = self.now();
        let access_expires_at_seconds = expiry(session, now, client.access_token_seconds);
        let claims = OpenIdClaims {
            room: room.handle.id().clone(),
            client_id: client.id.clone(),
            subject: login.token.subject,
            issuer: self.openid_issuer(room),
            queue_position: session.key.position,
            grant: login.token.grant,
            issued_at_seconds: now.seconds(),
            access_expires_at_seconds,
            id_expires_at_seconds: expiry(session, now, client.id_token_seconds),
            auth_time_seconds: login.token.auth_time_seconds,
            nonce: login.nonce.clone(),
            enter_by_seconds: login.enter_by_seconds,
        };
        let pair = self.signer.sign_openid(self.signing_key(room), claims).await?;
        let scope = if login.token.offline_access { "openid offline_access" } else { "openid" };
        let next = || self.openid_seals.seal_refresh_token(&login.token);
        Ok(OpenIdTokens {
            access_token: pair.access_token,
            id_token: pair.id_token,
            refresh_token: login.is_refreshable.then(next),
            expires_in: access_expires_at_seconds.saturating_sub(now.seconds()),
            scope: scope.to_owned(),
        })
    }
}

const TOKEN_USED: &str = "the refresh token had been used before: the visit is over";
