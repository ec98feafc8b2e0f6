//! Claims: from a request id to the signed pass, the same bytes every time.

use std::sync::Arc;

use anteroom_core::{Answer, Claim, Operation, RequestId, Session, SessionKey, Ticket};
use anteroom_store::engine::Actor;
use anteroom_tokens::pass::{self, PassClaims, Signatures, TokenSet};
use anteroom_tokens::signer::SignError;
use anteroom_tokens::ticket_token;
use http::StatusCode;

use crate::app::{App, RoomView};
use crate::error::ApiError;
use crate::problem::Problem;
use crate::tickets::Proof;

/// What a private caller may set otherwise than the room does, for a pass that does not exist yet.
#[derive(Debug, Default)]
pub(crate) struct Overrides {
    pub(crate) issuer: Option<String>,
    pub(crate) validity_seconds: Option<u64>,
}

/// A pass as it is answered.
pub(crate) struct Pass {
    pub(crate) tokens: TokenSet,
    pub(crate) expires_in: u64,
}

/// Claims a place, or finds the session of an earlier claim, and signs its pass.
pub(crate) async fn claim(
    app: &App,
    room: &RoomView,
    ticket: Ticket,
    request_id: RequestId,
    overrides: Overrides,
    actor: Actor,
) -> Result<Pass, ApiError> {
    let begun = begin(app, room, ticket, request_id, overrides, actor).await?;
    sign_begun(app, room, begun).await
}

/// A session that lives, and whose pass is not signed yet.
pub(crate) struct Begun {
    session: Session,
    /// For how many seconds its pass is good from now.
    pub(crate) expires_in: u64,
}

/// The first half of a claim: a session, durable when this is answered.
pub(crate) async fn begin(
    app: &App,
    room: &RoomView,
    ticket: Ticket,
    request_id: RequestId,
    overrides: Overrides,
    actor: Actor,
) -> Result<Begun, ApiError> {
    let now = app.now();
    let issuer = overrides.issuer.unwrap_or_else(|| {
        let configured = room.handle.with_board(|board| board.settings.issuer.clone());
        configured.unwrap_or_else(|| app.public_url.clone())
    });
    let claim = Claim {
        ticket,
        request_id,
        issuer,
        validity_seconds: overrides.validity_seconds,
        key_id: app.keys.current(now).kid().to_owned(),
        stay_millis: None,
    };
    let answer = room.handle.operate(Operation::Claim(claim), actor).await?;
    let Answer::Claimed { session, begun } = answer else {
        return Err(ApiError::unavailable("The claim was not answered"));
    };
    // A visit by cookie may have ended before its pass would.
    let has_run_out = session.stay.is_some() && !session.is_alive(now);
    if session.outcome().is_some() || has_run_out {
        return Err(token_expired());
    }
    let validity_left = session.expires_at_seconds.saturating_sub(app.now().seconds());
    let expires_in =
        if begun { session.expires_at_seconds - session.issued_at_seconds } else { validity_left };
    Ok(Begun { session, expires_in })
}

/// The second half: its pass.
pub(crate) async fn sign_begun(app: &App, room: &RoomView, begun: Begun) -> Result<Pass, ApiError> {
    let tokens = sign(app, room, begun.session).await?;
    Ok(Pass { tokens, expires_in: begun.expires_in })
}

/// A new access token, as long as the session.
pub(crate) struct Refreshed {
    pub(crate) access_token: String,
    pub(crate) expires_in: u64,
}

/// Exchanges a refresh token of ours for a new access token while its session lives.
pub(crate) async fn refresh(app: &App, token: &str) -> Result<Refreshed, ApiError> {
    let unknown = || ApiError::problem(Problem::UnknownTicket, "The refresh token is not one of ours");
    let room = ticket_token::audience(token).and_then(|room| app.room(&room)).ok_or_else(unknown)?;
    let key = pass::key_id(token).and_then(|kid| app.keys.by_kid(&kid)).ok_or_else(unknown)?;
    let request_id = pass::open_refresh_token(&key, room.handle.id(), token).ok_or_else(unknown)?;
    let (ticket, board) = room.open(request_id, Proof::Signed, app.now()).await?.ok_or_else(unknown)?;
    if board.settings.disable_session_renewal {
        let text = "This room renews no passes: the visit ends with the first one";
        return Err(ApiError::problem(Problem::Conflict, text));
    }
    let session_key = SessionKey { generation: ticket.generation, position: ticket.position };
    let session = app.engine.store().session(room.handle.id(), session_key).await?;
    let now_seconds = app.now().seconds();
    let alive = |session: &Session| session.is_alive(app.now()) && session.expires_at_seconds > now_seconds;
    let over = || ApiError::problem(Problem::SessionEnded, "The visit is over");
    let session = session.filter(alive).ok_or_else(over)?;
    let claims = PassClaims {
        audience: room.handle.id().clone(),
        subject: session.request_id,
        issuer: session.issuer,
        queue_position: session.key.position,
        issued_at_seconds: now_seconds,
        expires_at_seconds: session.expires_at_seconds,
        enter_by_seconds: session.enter_by_seconds,
    };
    let signed = app.signer.sign(app.keys.current(app.now()), claims).await.map_err(not_signed)?;
    let access_token = signed.tokens.access_token.clone();
    Ok(Refreshed { access_token, expires_in: session.expires_at_seconds - now_seconds })
}

fn not_signed(error: SignError) -> ApiError {
    ApiError::unavailable(match error {
        SignError::Overloaded => "Too many passes are being signed; try again shortly",
        SignError::Failed => "The pass could not be signed; try again",
    })
}

fn token_expired() -> ApiError {
    let error = ApiError::problem(Problem::SessionEnded, "The visit is over");
    error.with_aws(StatusCode::GONE, "Token corresponding to request id has expired")
}

/// The tokens of a session: signed again where that gives the same bytes, put together from what is kept where not.
async fn sign(app: &App, room: &RoomView, session: Session) -> Result<TokenSet, ApiError> {
    let key = app.keys.by_kid(&session.key_id).ok_or_else(token_expired)?;
    let claims = PassClaims {
        audience: room.handle.id().clone(),
        subject: session.request_id,
        issuer: session.issuer.clone(),
        queue_position: session.key.position,
        issued_at_seconds: session.issued_at_seconds,
        expires_at_seconds: session.expires_at_seconds,
        enter_by_seconds: session.enter_by_seconds,
    };
    if let Some(kept) = Signatures::from_bytes(&session.signatures) {
        return Ok(TokenSet::assemble(&key, &claims, &kept));
    }
    let signed = app.signer.sign(Arc::clone(&key), claims.clone()).await.map_err(not_signed)?;
    if key.algorithm().is_deterministic() {
        return Ok(signed.tokens.clone());
    }
    // Whoever is first to keep his signatures decides which tokens everybody gets, on every node.
    let kept = keep(room, session.key, signed.signatures.to_bytes()).await?;
    let kept = Signatures::from_bytes(&kept).unwrap_or_else(|| signed.signatures.clone());
    Ok(TokenSet::assemble(&key, &claims, &kept))
}

async fn keep(room: &RoomView, key: SessionKey, signatures: Vec<u8>) -> Result<Vec<u8>, ApiError> {
    let operation = Operation::KeepSignatures { key, signatures };
    match room.handle.operate(operation, Actor::Visitor).await? {
        Answer::Session(session) => Ok(session.signatures),
        _ => Err(ApiError::unavailable("The pass could not be kept")),
    }
}
