//! Claims: from a ticket to the signed pass, the same bytes every time.

use std::sync::Arc;

use anteroom_core::{
    Answer, Claim, Operation, PlaceStatus, PrefixTag, Refusal, RequestId, Session, SessionKey, Ticket,
    UnixMillis,
};
use anteroom_engine::{Actor, EngineError};
use anteroom_tokens::codes::Code;
use anteroom_tokens::pass::{self, PassClaims, Signatures, TokenSet};
use anteroom_tokens::signing_key::SigningKey;
use anteroom_tokens::ticket_token;

use crate::tickets::Proof;
use crate::{Admission, AdmissionError, PresentedTicket, RoomView};

/// What a claim says beyond its ticket, for a session that does not exist yet.
#[derive(Debug, Default)]
pub struct ClaimTerms {
    /// Another issuer than the room's.
    pub issuer: Option<String>,
    /// Another validity than the room's.
    pub validity_seconds: Option<u64>,
    /// How long the visit lasts without a touch, where a cookie lets its holder in.
    pub stay_millis: Option<u64>,
    /// The address prefix that the visitor comes from, where it counts.
    pub prefix: Option<PrefixTag>,
}

/// A claim as a front door makes it.
pub struct ClaimRequest {
    /// The ticket that claims.
    pub ticket: Ticket,
    /// Its short form.
    pub request_id: RequestId,
    /// What else it says.
    pub terms: ClaimTerms,
    /// By whom, for the audit.
    pub actor: Actor,
}

impl ClaimRequest {
    /// A visitor's own claim, on the room's terms.
    pub fn of_visitor(ticket: Ticket, request_id: RequestId) -> Self {
        Self { ticket, request_id, terms: ClaimTerms::default(), actor: Actor::Visitor }
    }
}

/// A pass.
pub struct Pass {
    /// Its three tokens.
    pub tokens: TokenSet,
    /// For how many seconds it is good from now.
    pub expires_in: u64,
}

/// A session that lives, and whose pass is not signed yet.
pub struct UnsignedSession {
    session: Session,
    /// For how many seconds its pass is good from now.
    pub expires_in: u64,
    /// Whether the session began by this claim.
    is_new: bool,
}

impl UnsignedSession {
    /// Whether the visit began by this claim.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// When the visit began.
    pub fn began_at_seconds(&self) -> u64 {
        self.session.issued_at_seconds
    }
}

/// A new access token, as long as the session.
pub struct RefreshedToken {
    /// The token.
    pub access_token: String,
    /// For how many seconds it is good from now.
    pub expires_in: u64,
}

impl Admission {
    /// Claims a place, or finds the session of an earlier claim, and signs its pass.
    pub async fn claim(&self, room: &RoomView, request: ClaimRequest) -> Result<Pass, AdmissionError> {
        let unsigned = self.begin(room, request).await?;
        self.sign(room, unsigned).await
    }

    /// The first half of a claim: a session, durable when this is answered.
    pub async fn begin(
        &self,
        room: &RoomView,
        request: ClaimRequest,
    ) -> Result<UnsignedSession, AdmissionError> {
        let now = self.now();
        let (session, is_new) = self.claim_session(room, request).await?;
        // A visit by cookie may have ended before its pass would.
        let has_run_out = session.stay.is_some() && !session.is_alive(now);
        if session.outcome().is_some() || has_run_out {
            return Err(AdmissionError::VisitOver);
        }
        let validity_left = session.expires_at_seconds.saturating_sub(self.now().seconds());
        let expires_in =
            if is_new { session.expires_at_seconds - session.issued_at_seconds } else { validity_left };
        Ok(UnsignedSession { session, expires_in, is_new })
    }

    /// The key that signs the passes of a room now: that of the store, or for `key_overlap_seconds` longer the one before.
    pub fn signing_key(&self, room: &RoomView) -> Arc<SigningKey> {
        self.keys.current(self.now().minus(key_overlap_millis(room)))
    }

    /// When another key signs the passes of a room, if one is announced that does not yet.
    pub fn next_signing_key_from(&self, room: &RoomView) -> Option<UnixMillis> {
        let overlap = key_overlap_millis(room);
        self.keys.next_takeover(self.now().minus(overlap)).map(|from| from.plus(overlap))
    }

    /// The one place where a claim is built: the session of a ticket whose turn has come, and whether it began by this call.
    pub async fn claim_session(
        &self,
        room: &RoomView,
        request: ClaimRequest,
    ) -> Result<(Session, bool), AdmissionError> {
        let ClaimRequest { ticket, request_id, terms, actor } = request;
        let issuer = terms.issuer.unwrap_or_else(|| {
            let configured = room.handle.with_board(|board| board.settings.issuer.clone());
            configured.unwrap_or_else(|| self.default_issuer.clone())
        });
        let claim = Claim {
            ticket,
            request_id,
            issuer,
            validity_seconds: terms.validity_seconds,
            key_id: self.signing_key(room).kid().to_owned(),
            stay_millis: terms.stay_millis,
            prefix: terms.prefix,
        };
        match room.handle.operate(Operation::Claim(claim), actor).await? {
            Answer::Claimed { session, begun } => Ok((session, begun)),
            // To its visitor it is as if the turn had not come.
            Answer::Deferred => Err(EngineError::Refused(Refusal::NotServed).into()),
            _ => Err(AdmissionError::NotAnswered),
        }
    }

    /// The second half of a claim: the tokens of a session. They are signed at the claim that began it, and at most once more: what a
    /// repeated claim had to sign is kept with the session. A pass that has run out is not signed at all.
    pub async fn sign(&self, room: &RoomView, unsigned: UnsignedSession) -> Result<Pass, AdmissionError> {
        let UnsignedSession { session, expires_in, is_new } = unsigned;
        let key = self.keys.by_kid(&session.key_id).ok_or(AdmissionError::VisitOver)?;
        let claims = claims_of(room, &session, session.issued_at_seconds);
        if let Some(kept) = Signatures::from_bytes(&session.signatures) {
            return Ok(Pass { tokens: TokenSet::assemble(&key, &claims, &kept), expires_in });
        }
        let is_deterministic = key.algorithm().is_deterministic();
        if is_deterministic && let Some(signed) = self.signer.remembered(&key, &claims) {
            return Ok(Pass { tokens: signed.tokens.clone(), expires_in });
        }
        if session.expires_at_seconds <= self.now().seconds() {
            return Err(AdmissionError::VisitOver);
        }
        let signed = self.signer.sign(Arc::clone(&key), claims.clone()).await?;
        if is_deterministic && is_new {
            return Ok(Pass { tokens: signed.tokens.clone(), expires_in });
        }
        // The first signatures that are kept decide which tokens every caller gets, on every node.
        let kept = keep_signatures(room, session.key, signed.signatures.to_bytes()).await?;
        let kept = Signatures::from_bytes(&kept).unwrap_or_else(|| signed.signatures.clone());
        Ok(Pass { tokens: TokenSet::assemble(&key, &claims, &kept), expires_in })
    }

    /// Exchanges a refresh token of ours for a new access token while its session lives.
    pub async fn refresh(&self, token: &str) -> Result<RefreshedToken, AdmissionError> {
        let unknown = || AdmissionError::UnknownRefreshToken;
        let room = ticket_token::audience(token).and_then(|room| self.room(&room)).ok_or_else(unknown)?;
        let key = pass::key_id(token).and_then(|kid| self.keys.by_kid(&kid)).ok_or_else(unknown)?;
        let request_id = pass::open_refresh_token(&key, room.handle.id(), token).ok_or_else(unknown)?;
        let (ticket, board) = room.open(request_id, Proof::Signed, self.now()).await?.ok_or_else(unknown)?;
        if board.settings.disable_session_renewal {
            return Err(AdmissionError::RenewalDisabled);
        }
        let session_key = SessionKey { generation: ticket.generation, position: ticket.position };
        let session = self.engine.store().session(room.handle.id(), session_key).await?;
        let now_seconds = self.now().seconds();
        let is_alive =
            |session: &Session| session.is_alive(self.now()) && session.expires_at_seconds > now_seconds;
        let session = session.filter(is_alive).ok_or(AdmissionError::VisitOver)?;
        let claims = claims_of(&room, &session, now_seconds);
        let access_token = self.signer.sign_access(self.signing_key(&room), claims).await?;
        Ok(RefreshedToken { access_token, expires_in: session.expires_at_seconds - now_seconds })
    }

    /// The pass that a code stands for, for the first caller that presents it. A caller that names its room gets nothing for a code of
    /// another.
    ///
    /// The code is used up last, when the pass is there: while passes cannot be signed it stays good, and its visitor is not lost. A used
    /// code costs a read, and no signature.
    pub async fn redeem(
        &self,
        code: &str,
        wanted_room: Option<&str>,
    ) -> Result<(PresentedTicket, Pass), AdmissionError> {
        let unknown = || AdmissionError::UnknownCode;
        let code = self.codes.open_hand_off(code, self.now());
        let code = code.filter(|code| wanted_room.is_none_or(|wanted| wanted == code.room.as_str()));
        let Code { room, ticket, issued_at } = code.ok_or_else(unknown)?;
        let room = self.room(room.as_str()).ok_or_else(unknown)?;
        let is_used = |session: &Session| issued_at <= session.redeemed_at;
        if matches!(room.handle.place_status(ticket, self.now()).await?, PlaceStatus::Claimed(session) if is_used(&session))
        {
            return Err(Refusal::CodeUsed.into());
        }
        let key = SessionKey { generation: ticket.generation, position: ticket.position };
        let mut presented = PresentedTicket::of_new(Arc::clone(&room), ticket);
        let claim = self.claim(&room, ClaimRequest::of_visitor(ticket, presented.request_id));
        let pass = redeem_when_done(claim, async {
            room.handle.operate(Operation::Redeem { key, issued_at }, Actor::Visitor).await?;
            Ok(())
        });
        match pass.await {
            Ok(pass) => {
                presented.refresh_board();
                Ok((presented, pass))
            }
            Err(error) if error.is_not_served() => Err(unknown()),
            Err(error) => Err(error),
        }
    }
}

/// What is made, once it is there and the code for it could be used up.
async fn redeem_when_done<Made>(
    make: impl Future<Output = Result<Made, AdmissionError>>,
    use_up: impl Future<Output = Result<(), AdmissionError>>,
) -> Result<Made, AdmissionError> {
    let result = make.await?;
    use_up.await?;
    Ok(result)
}

fn key_overlap_millis(room: &RoomView) -> u64 {
    room.handle.with_board(|board| board.settings.key_overlap_seconds.get()) * 1000
}

fn claims_of(room: &RoomView, session: &Session, issued_at_seconds: u64) -> PassClaims {
    PassClaims {
        audience: room.handle.id().clone(),
        subject: session.request_id,
        issuer: session.issuer.clone(),
        queue_position: session.key.position,
        issued_at_seconds,
        expires_at_seconds: session.expires_at_seconds,
        enter_by_seconds: session.enter_by_seconds,
    }
}

async fn keep_signatures(
    room: &RoomView,
    key: SessionKey,
    signatures: Vec<u8>,
) -> Result<Vec<u8>, AdmissionError> {
    match room.handle.operate(Operation::KeepSignatures { key, signatures }, Actor::Visitor).await? {
        Answer::Session(session) => Ok(session.signatures),
        _ => Err(AdmissionError::PassNotKept),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use anteroom_tokens::signer::SignError;

    use super::*;

    #[tokio::test]
    async fn a_code_is_used_up_when_its_pass_is_there_and_not_before() {
        let is_used_up = Cell::new(false);
        let use_up = async || {
            is_used_up.set(true);
            Ok(())
        };
        let overloaded = async { Err::<(), _>(SignError::Overloaded.into()) };
        assert!(redeem_when_done(overloaded, use_up()).await.is_err_and(|error| error.is_unavailable()));
        assert!(!is_used_up.get(), "it can be brought again");
        assert!(
            redeem_when_done(async { Ok(7) }, use_up()).await.is_ok_and(|made| made == 7) && is_used_up.get()
        );
        let used_before = async { Err(Refusal::CodeUsed.into()) };
        let refused = redeem_when_done(async { Ok(7) }, used_before).await;
        assert!(refused.is_err(), "no pass leaves for it");
    }
}
