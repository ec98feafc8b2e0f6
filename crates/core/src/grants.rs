//! Logins at clients of the OpenID provider: each is a grant of the visitor's session.
//!
//! *Invariant:* a code becomes a grant once, and of each grant one refresh token is good at a time. Who presents a used one, or
//! another who presented it before, is a thief; nobody can tell which, so what was given for it is worth nothing from then on. Only
//! the refresh token that was used a moment ago is believed to be a repetition, and refused.

use crate::effects::Effects;
use crate::ids::UnixMillis;
use crate::operation::{Answer, Refusal};
use crate::room::Room;
use crate::session::{GRANT_KEPT_MILLIS, GRANTS_MAX, Grant, Outcome, Session};
use crate::visits;

/// What a refresh token says.
#[derive(Clone, Copy)]
pub(crate) struct RefreshToken {
    pub(crate) grant: u64,
    pub(crate) sequence: u32,
}

/// A code is exchanged: a new grant, or a known one that is revoked because its code came again.
pub(crate) fn grant(
    now: UnixMillis,
    wanted: Grant,
    session: Option<Session>,
    effects: &mut Effects,
) -> Result<Answer, Refusal> {
    let mut session = alive(session, now)?;
    if let Some(known) = session.grants.iter_mut().find(|grant| grant.id == wanted.id) {
        if !known.is_revoked {
            known.is_revoked = true;
            write(session, effects);
        }
        return Ok(Answer::GrantReused);
    }
    if let Some(forgotten) = forgotten_for(wanted.client, &session.grants, now)? {
        session.grants.remove(forgotten);
    }
    session.grants.push(wanted);
    Ok(Answer::Session(write(session, effects)))
}

/// A refresh token is exchanged for the next one.
pub(crate) fn refresh(
    room: &mut Room,
    now: UnixMillis,
    token: RefreshToken,
    session: Option<Session>,
    spread_millis: u64,
    effects: &mut Effects,
) -> Result<Answer, Refusal> {
    let mut session = alive(session, now)?;
    let is_its = |grant: &&mut Grant| grant.id == token.grant && !grant.is_revoked;
    let known = session.grants.iter_mut().find(is_its).ok_or(Refusal::UnknownGrant)?;
    if token.sequence < known.refresh_sequence {
        if known.was_just_refreshed(token.sequence, now) {
            return Err(Refusal::JustRefreshed);
        }
        known.is_revoked = true;
        visits::end(room, now, Outcome::Abandoned, Some(session), spread_millis, effects)?;
        return Ok(Answer::GrantReused);
    }
    // A token is sealed, so one from the future is genuine: a store that lost something goes on from there.
    known.refresh_sequence = token.sequence.checked_add(1).ok_or(Refusal::UnknownGrant)?;
    known.refreshed_at = now;
    Ok(Answer::Session(write(session, effects)))
}

fn alive(session: Option<Session>, now: UnixMillis) -> Result<Session, Refusal> {
    let session = session.ok_or(Refusal::UnknownSession)?;
    if session.is_alive(now) { Ok(session) } else { Err(Refusal::AlreadyEnded) }
}

impl Session {
    /// Whether one more login fits in: the rule of [`Operation::Grant`](crate::Operation::Grant), for a caller that pays for tokens
    /// before it asks the room.
    pub fn check_space_for_grant(&self, client: u64, now: UnixMillis) -> Result<(), Refusal> {
        forgotten_for(client, &self.grants, now).map(|_| ())
    }
}

/// Which login is forgotten for a new one of that client, if one must be. It is one whose code is worth nothing any more by itself: a
/// revoked one first, then the oldest of the same client, so that no client ends the logins of another while it has one of its own to
/// give, then the oldest.
fn forgotten_for(client: u64, grants: &[Grant], now: UnixMillis) -> Result<Option<usize>, Refusal> {
    if grants.len() < GRANTS_MAX {
        return Ok(None);
    }
    let can_go = |grant: &Grant| grant.issued_at.plus(GRANT_KEPT_MILLIS) <= now;
    let candidates = grants.iter().enumerate().filter(|(_, grant)| can_go(grant));
    let chosen =
        candidates.min_by_key(|(_, grant)| (!grant.is_revoked, grant.client != client, grant.issued_at));
    let (index, _) = chosen.ok_or(Refusal::TooManyGrants)?;
    Ok(Some(index))
}

fn write(session: Session, effects: &mut Effects) -> Session {
    effects.changed = true;
    effects.sessions.push(session.clone());
    session
}
