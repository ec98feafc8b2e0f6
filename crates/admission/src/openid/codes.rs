//! Codes of the OpenID provider: sealed for an admitted visitor, exchanged once by their client.

use anteroom_core::{Answer, Operation, Session, Ticket};
use anteroom_engine::{Actor, EngineError};
use anteroom_tokens::openid::sha256;
use anteroom_tokens::{OpenIdCode, OpenIdRefreshToken, OpenIdSeals, OpenIdSubjects};

use super::tokens::Login;
use super::{OpenIdClient, OpenIdError, OpenIdTokens, VISIT_OVER, key_of};
use crate::{Admission, RoomView};

/// How long a code verifier is, in characters (RFC 7636, 4.1).
const VERIFIER_LENGTHS: std::ops::RangeInclusive<usize> = 43..=128;

/// What a code will say, checked by the caller: the client may be sent to the address, and the place is claimed.
#[derive(Clone, Copy)]
pub struct CodeRequest<'a> {
    /// Who may exchange it.
    pub client: &'a OpenIdClient,
    /// Whose it is.
    pub ticket: Ticket,
    /// Where it is sent.
    pub redirect_uri: &'a str,
    /// SHA-256 of the verifier that the client must show, if it gave one.
    pub code_challenge: Option<[u8; 32]>,
    /// What the client wants in the ID token: at most [`NONCE_MAX_BYTES`](super::NONCE_MAX_BYTES), or the code is not good.
    pub nonce: Option<&'a str>,
    /// When the visitor was let in, in seconds since 1970.
    pub auth_time_seconds: u64,
    /// Whether the client asked for the scope `offline_access`.
    pub offline_access: bool,
}

impl Admission {
    /// A code for a visitor whose place is claimed. It is good once, for [`OPENID_CODE_SECONDS`](super::OPENID_CODE_SECONDS).
    pub fn openid_code(&self, room: &RoomView, request: CodeRequest<'_>) -> String {
        self.openid_seals.seal_code(&OpenIdCode {
            room: room.handle.id().clone(),
            client_id: request.client.id.clone(),
            ticket: request.ticket,
            issued_at: self.now(),
            grant: OpenIdSeals::new_grant(),
            auth_time_seconds: request.auth_time_seconds,
            redirect_digest: sha256(request.redirect_uri),
            code_challenge: request.code_challenge,
            nonce: request.nonce.map(str::to_owned),
            offline_access: request.offline_access,
        })
    }

    /// The tokens for a code, for the client that it was made for and that proved who it is. A code of another room or client, or one
    /// that is shown with the wrong address or verifier, is refused and stays good.
    ///
    /// The code is used up last, when the tokens are there: while they cannot be signed it stays good. The second time it is used, what
    /// was given for it is revoked.
    pub async fn redeem_openid_code(
        &self,
        room: &RoomView,
        client: &OpenIdClient,
        code: &str,
        redirect_uri: &str,
        code_verifier: Option<&str>,
    ) -> Result<OpenIdTokens, OpenIdError> {
        let unknown = OpenIdError::InvalidGrant("the code is too old, or not one of this client");
        let id = room.handle.id();
        let is_its = |code: &OpenIdCode| {
            code.room == *id
                && client.room == *id
                && code.client_id == client.id
                && client.may_have_issued_at(code.issued_at)
        };
        let code = self.openid_seals.open_code(code, self.now()).filter(is_its).ok_or(unknown)?;
        if code.redirect_digest != sha256(redirect_uri) {
            return Err(OpenIdError::InvalidGrant("redirect_uri is not the one that the code was sent to"));
        }
        check_verifier(code.code_challenge, code_verifier)?;
        let session = self.live_session(room, &code.ticket).await?;
        let session = session.ok_or(OpenIdError::InvalidGrant(VISIT_OVER))?;
        if session.grants.iter().any(|grant| grant.id == code.grant) {
            self.use_up(room, client, &code).await?;
            return Err(OpenIdError::InvalidGrant(CODE_USED));
        }
        // The room decides when the code is used up; asked here, a login that it will refuse costs no signature.
        session.check_space_for_grant(client.tag(), self.now()).map_err(EngineError::from)?;
        let login = self.login_of(room, client, &code, &session);
        let signed = self.sign_login(room, client, &session, &login).await?;
        self.use_up(room, client, &code).await?;
        Ok(signed)
    }

    /// The grant of a code becomes part of the session; it is safe when this is answered.
    async fn use_up(
        &self,
        room: &RoomView,
        client: &OpenIdClient,
        code: &OpenIdCode,
    ) -> Result<(), OpenIdError> {
        let key = key_of(&code.ticket);
        let grant =
            Operation::Grant { key, grant: code.grant, client: client.tag(), issued_at: code.issued_at };
        match room.handle.operate(grant, Actor::Visitor).await? {
            Answer::Session(_) => Ok(()),
            _ => Err(OpenIdError::InvalidGrant(CODE_USED)),
        }
    }

    fn login_of(
        &self,
        room: &RoomView,
        client: &OpenIdClient,
        code: &OpenIdCode,
        session: &Session,
    ) -> Login {
        let subjects = OpenIdSubjects::new(&self.secrets, room.handle.id(), &client.id);
        let renews = !room.handle.with_board(|board| board.settings.disable_session_renewal);
        let subject = subjects.seal(&code.ticket);
        let next_refresh_token = OpenIdRefreshToken {
            room: code.room.clone(),
            client_id: client.id.clone(),
            ticket: code.ticket,
            grant: code.grant,
            sequence: 0,
            subject,
            auth_time_seconds: code.auth_time_seconds,
            offline_access: code.offline_access,
        };
        // AWS's adapter gave a refresh token always; a client that can keep no secret must ask for it.
        let wants_one = code.offline_access || !client.is_public;
        Login {
            token: next_refresh_token,
            is_refreshable: renews && wants_one,
            nonce: code.nonce.clone(),
            enter_by_seconds: session.enter_by_seconds,
        }
    }
}

const CODE_USED: &str = "the code has been used; what was given for it is revoked";

/// PKCE with `S256` alone. A verifier that no challenge asked for means that somebody took the challenge away (RFC 9700, 2.1.1).
fn check_verifier(challenge: Option<[u8; 32]>, verifier: Option<&str>) -> Result<(), OpenIdError> {
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    match (challenge, verifier) {
        (None, None) => Ok(()),
        (_, Some(verifier))
            if !VERIFIER_LENGTHS.contains(&verifier.len()) || !verifier.bytes().all(is_unreserved) =>
        {
            Err(OpenIdError::InvalidRequest(
                "a code_verifier has 43 to 128 characters out of A-Z, a-z, 0-9, '-', '.', '_' and '~'",
            ))
        }
        (Some(challenge), Some(verifier)) if sha256(verifier) == challenge => Ok(()),
        (Some(_), Some(_)) => {
            Err(OpenIdError::InvalidGrant("the code_verifier is not that of the code_challenge"))
        }
        (Some(_), None) => {
            Err(OpenIdError::InvalidGrant("the code has a code_challenge: a code_verifier is needed"))
        }
        (None, Some(_)) => {
            Err(OpenIdError::InvalidGrant("the code has no code_challenge for this code_verifier"))
        }
    }
}
