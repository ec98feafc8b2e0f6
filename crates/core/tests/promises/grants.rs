//! Logins at clients of the OpenID provider: each code and each refresh token is good once.

use anteroom_core::session::GRANTS_MAX;
use anteroom_core::{Answer, Grant, Refusal, Session, SessionKey, UnixMillis};

use super::play::Play;

/// For how long a code cannot be used again, however many come after it.
const KEPT_MILLIS: u64 = 120_000;
/// For how long the refresh token that was exchanged last may come again.
const GRACE_MILLIS: u64 = 10_000;

/// Two clients take turns.
pub(crate) fn client_of(grant: u64) -> u64 {
    77 + grant % 2
}

impl Play {
    /// As many logins as a visit remembers, of codes that were made then.
    pub(crate) fn fill_grants(&mut self, key: SessionKey, issued_at: UnixMillis) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let missing = GRANTS_MAX - session.grants.len();
        session.grants.extend((100..).take(missing).map(|id| Grant::new(id, client_of(id), issued_at)));
        self.stays.grants.insert(key, session.grants.clone());
    }

    pub(crate) fn check_grant(
        &mut self,
        wanted: Grant,
        session: Option<&Session>,
        answer: &Result<Answer, Refusal>,
    ) {
        let Some(session) = self.check_alive(session, answer) else { return };
        let clock = self.model.clock;
        let grants = self.stays.grants.entry(session.key).or_default();
        if let Some(known) = grants.iter_mut().find(|known| known.id == wanted.id) {
            known.is_revoked = true;
            assert_eq!(answer, &Ok(Answer::GrantReused));
            return;
        }
        if grants.len() == GRANTS_MAX {
            // Whose code is worth nothing any more goes, the revoked ones first, then the oldest of the client, then the oldest.
            let mut order: Vec<Grant> = grants.clone();
            order.retain(|known| known.issued_at.0 + KEPT_MILLIS <= clock.0);
            order.sort_by_key(|known| (known.client != wanted.client, known.issued_at));
            let first = order.iter().find(|known| known.is_revoked).or(order.first());
            let Some(first) = first.copied() else {
                assert_eq!(answer, &Err(Refusal::TooManyGrants));
                return;
            };
            grants.retain(|known| known.id != first.id);
        }
        grants.push(wanted);
        let with_it = Session { grants: grants.clone(), ..session };
        assert_eq!(answer, &Ok(Answer::Session(with_it)), "nothing but the login changes");
    }

    pub(crate) fn check_refresh(
        &mut self,
        id: u64,
        sequence: u32,
        session: Option<&Session>,
        answer: &Result<Answer, Refusal>,
    ) {
        let Some(session) = self.check_alive(session, answer) else { return };
        let grants = self.stays.grants.entry(session.key).or_default();
        let Some(known) = grants.iter_mut().find(|known| known.id == id && !known.is_revoked) else {
            assert_eq!(answer, &Err(Refusal::UnknownGrant));
            return;
        };
        let clock = self.model.clock;
        if sequence < known.refresh_sequence {
            if sequence + 1 == known.refresh_sequence && clock.0 < known.refreshed_at.0 + GRACE_MILLIS {
                assert_eq!(answer, &Err(Refusal::JustRefreshed));
                return;
            }
            known.is_revoked = true;
            assert_eq!(answer, &Ok(Answer::GrantReused));
            if self.note_end(&session) <= clock {
                self.model.session_ended(session.key);
            }
            return;
        }
        known.refresh_sequence = sequence + 1;
        known.refreshed_at = clock;
        let refreshed = Session { grants: grants.clone(), ..session };
        assert_eq!(answer, &Ok(Answer::Session(refreshed)), "nothing but the login changes");
    }

    /// The session, if its visit goes on; otherwise the answer says so.
    fn check_alive(&self, session: Option<&Session>, answer: &Result<Answer, Refusal>) -> Option<Session> {
        let Some(session) = session else {
            assert_eq!(answer, &Err(Refusal::UnknownSession));
            return None;
        };
        if !self.model.inside.contains(&session.key)
            || session.stay.is_some_and(|stay| stay.ending.is_some())
            || session.ends_at() <= self.model.clock
        {
            assert_eq!(answer, &Err(Refusal::AlreadyEnded));
            return None;
        }
        Some(session.clone())
    }
}
