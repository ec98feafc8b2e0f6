//! What was promised to cookies, kept beside the room: until when each may be used, and since when it is known to be worth
//! nothing. No slot may be freed before.

use std::collections::HashMap;

use anteroom_core::session::DEPARTED_MAX;
use anteroom_core::{
    Answer, Claim, Departed, Grant, Outcome, Position, Refusal, Session, SessionKey, SessionStatus, Stay,
    UnixMillis,
};

use super::play::Play;

const GRACE_MILLIS: u64 = 5_000;
const SHOWN_MILLIS: u64 = 10_000;

#[derive(Default, Clone)]
pub(crate) struct Stays {
    /// How long a board takes to all nodes.
    pub(crate) spread_millis: u64,
    /// Ended visits that the board shows, oldest first.
    pub(crate) departed: Vec<(SessionKey, UnixMillis)>,
    /// The latest end that anybody was answered with.
    promised: HashMap<SessionKey, UnixMillis>,
    /// From when on an ended visit may be without its slot.
    ended: HashMap<SessionKey, UnixMillis>,
    /// The newest code that was exchanged, and the signatures that were kept.
    redeemed: HashMap<SessionKey, UnixMillis>,
    signatures: HashMap<SessionKey, Vec<u8>>,
    /// The logins of each visit, as it must remember them.
    pub(crate) grants: HashMap<SessionKey, Vec<Grant>>,
}

impl Stays {
    pub(crate) fn tick(&mut self, clock: UnixMillis) {
        self.departed.retain(|(_, at)| at.0 + SHOWN_MILLIS > clock.0);
    }

    fn promise(&mut self, session: &Session) {
        let promised = self.promised.entry(session.key).or_default();
        assert!(session.ends_at() >= *promised, "what was promised to a cookie is taken back");
        *promised = session.ends_at();
    }

    /// A pass holds the slot of a visit for as long as it is valid.
    pub(crate) fn give_pass(&mut self, session: &mut Session, clock: UnixMillis) {
        let pass_ends_at = UnixMillis(session.expires_at_seconds * 1000);
        let Some(stay) = session.stay else { return };
        let is_inside =
            session.status == SessionStatus::Active && stay.ending.is_none() && stay.until > clock;
        if is_inside && stay.until < pass_ends_at {
            session.stay = Some(Stay { until: pass_ends_at, ending: None });
            self.promise(session);
        }
    }

    /// A cookie goes with a session that had a pass alone; it ends when the pass does.
    pub(crate) fn give_cookie(&mut self, session: &mut Session, clock: UnixMillis) {
        if session.stay.is_none() && session.status == SessionStatus::Active && session.ends_at() > clock {
            session.stay = Some(Stay { until: session.ends_at(), ending: None });
            self.promise(session);
        }
    }

    /// Looks at every record that is written, and so at every slot that is freed.
    pub(crate) fn check_written(&self, before: Option<&Session>, after: &Session, clock: UnixMillis) {
        let was_inside = before.is_none_or(|before| before.status == SessionStatus::Active);
        if !was_inside || after.status == SessionStatus::Active {
            return;
        }
        let promised = self.promised.get(&after.key).copied().unwrap_or_default();
        let named = self.ended.get(&after.key).copied();
        let not_before = named.unwrap_or(promised);
        assert!(clock >= not_before, "{after:?} lost its slot at {clock:?}, promised until {not_before:?}");
        let is_named = matches!(after.status, SessionStatus::Ended(_));
        assert_eq!(is_named, named.is_some(), "it counts as what it was ended as");
    }
}

impl Play {
    /// The board is full of others whose visits were ended now.
    pub(crate) fn show_as_many_as_fit(&mut self) {
        let key =
            SessionKey { generation: self.room.newest().generation, position: Position::new(9_999).unwrap() };
        while self.room.departed.len() < DEPARTED_MAX {
            self.room.departed.push_back(Departed { key, at: self.room.clock });
            self.stays.departed.push((key, self.room.clock));
        }
    }

    fn latest_end(&self, issued_at_seconds: u64) -> u64 {
        (issued_at_seconds + 1 + self.model.settings.session_max.get()) * 1000 + GRACE_MILLIS
    }

    pub(crate) fn check_begun_stay(&mut self, claim: &Claim, session: &Session) {
        let clock = self.model.clock;
        let until = claim.stay_millis.map(|millis| (clock.0 + millis).min(self.latest_end(clock.seconds())));
        assert_eq!(session.stay, until.map(|until| Stay { until: UnixMillis(until), ending: None }));
        self.stays.promise(session);
    }

    pub(crate) fn check_touch(
        &mut self,
        key: SessionKey,
        stay_millis: u64,
        session: Option<&Session>,
        answer: &Result<Answer, Refusal>,
    ) {
        let clock = self.model.clock;
        let Some(session) = session else {
            assert_eq!(answer, &Err(Refusal::UnknownSession));
            return;
        };
        let is_ending = session.stay.is_some_and(|stay| stay.ending.is_some());
        if session.status != SessionStatus::Active || is_ending || session.ends_at() <= clock {
            assert_eq!(answer, &Err(Refusal::AlreadyEnded));
            return;
        }
        let mut until = session.ends_at().0;
        if !self.model.settings.disable_session_renewal {
            until = until.max((clock.0 + stay_millis).min(self.latest_end(session.issued_at_seconds)));
        }
        let stay = Some(Stay { until: UnixMillis(until), ending: None });
        let touched = Session { stay, ..session.clone() };
        assert_eq!((answer, key), (&Ok(Answer::Session(touched.clone())), touched.key));
        self.stays.promise(&touched);
    }

    /// A code is good once, and none that is older than one that was exchanged.
    pub(crate) fn check_redeem(
        &mut self,
        issued_at: UnixMillis,
        session: Option<&Session>,
        answer: &Result<Answer, Refusal>,
    ) {
        let Some(session) = session else {
            assert_eq!(answer, &Err(Refusal::UnknownSession));
            return;
        };
        if !self.model.inside.contains(&session.key)
            || session.stay.is_some_and(|stay| stay.ending.is_some())
            || session.ends_at() <= self.model.clock
        {
            assert_eq!(answer, &Err(Refusal::AlreadyEnded));
            return;
        }
        if self.stays.redeemed.get(&session.key).is_some_and(|newest| issued_at <= *newest) {
            assert_eq!(answer, &Err(Refusal::CodeUsed));
            return;
        }
        self.stays.redeemed.insert(session.key, issued_at);
        let redeemed = Session { redeemed_at: issued_at, ..session.clone() };
        assert_eq!(answer, &Ok(Answer::Session(redeemed)), "nothing but the code changes");
    }

    /// The first signatures stay.
    pub(crate) fn check_signatures(
        &mut self,
        signatures: &[u8],
        session: Option<&Session>,
        answer: &Result<Answer, Refusal>,
    ) {
        let Some(session) = session else {
            assert_eq!(answer, &Err(Refusal::UnknownSession));
            return;
        };
        let kept = self.stays.signatures.entry(session.key).or_insert_with(|| signatures.to_vec());
        let kept = Session { signatures: kept.clone(), ..session.clone() };
        assert_eq!(answer, &Ok(Answer::Session(kept)));
    }

    /// A visit is ended by name: by the origin, by an operator, or by the visitor.
    pub(crate) fn check_end(
        &mut self,
        outcome: Outcome,
        session: Option<&Session>,
        answer: &Result<Answer, Refusal>,
    ) {
        let clock = self.model.clock;
        let Some(session) = session else {
            assert_eq!(answer, &Err(Refusal::UnknownSession));
            return;
        };
        let is_ending = session.stay.is_some_and(|stay| stay.ending.is_some());
        if matches!(session.status, SessionStatus::Ended(_)) || is_ending {
            assert_eq!(answer, &Err(Refusal::AlreadyEnded));
            return;
        }
        let Ok(Answer::Session(ended)) = answer else { panic!("{answer:?}") };
        assert_eq!(ended.outcome(), Some(outcome));
        if session.status == SessionStatus::Expired {
            assert_eq!(ended.status, SessionStatus::Ended(outcome), "only the label changes");
            return;
        }
        let free_at = self.note_end(session);
        if free_at > clock {
            assert_eq!(
                (ended.status, ended.ends_at()),
                (SessionStatus::Active, free_at),
                "it holds its slot"
            );
        } else {
            assert_eq!(ended.status, SessionStatus::Ended(outcome));
            self.model.session_ended(session.key);
        }
    }

    /// An active visit is ended by name: from when on it may be without its slot.
    pub(crate) fn note_end(&mut self, session: &Session) -> UnixMillis {
        let clock = self.model.clock;
        let mut free_at = clock;
        if session.stay.is_some() && session.ends_at() > clock {
            free_at = session.ends_at();
            let seen_millis = self.stays.spread_millis;
            let is_seen = |(_, at): &(SessionKey, UnixMillis)| at.plus(seen_millis) <= clock;
            if self.stays.departed.len() >= DEPARTED_MAX && self.stays.departed.first().is_some_and(is_seen) {
                self.stays.departed.remove(0);
            }
            if self.stays.departed.len() < DEPARTED_MAX {
                self.stays.departed.push((session.key, clock));
                free_at = free_at.min(clock.plus(self.stays.spread_millis));
            }
        }
        self.stays.ended.insert(session.key, free_at);
        free_at
    }
}
