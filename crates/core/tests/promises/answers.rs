//! What a visitor's or an operator's operation does to the model, and what the room must answer.

use anteroom_core::ids::COPY_MAX;
use anteroom_core::{
    Answer, Claim, InletKind, Outcome, Position, Refusal, RoomState, Session, SessionKey, Ticket,
};

use super::model::{Model, Story, Visitor};
use super::play::{Play, key_of};

impl Play {
    /// Promises 1 and 2.
    pub(crate) fn check_join(&mut self, count: u64, answer: &Result<Answer, Refusal>) {
        let model = &mut self.model;
        assert_eq!(answer.is_ok(), model.state.takes_joins());
        let Ok(Answer::Joined { generation, first, .. }) = *answer else { return };
        let line = model.lines.last_mut().unwrap();
        let next = (line.generation, line.joined + 1);
        assert_eq!((generation, first.get()), next, "positions follow each other");
        line.joined += count;
        for offset in 0..count {
            let position = Position::new(first.get() + offset).unwrap();
            let key = SessionKey { generation, position };
            model.visitors.push(Visitor { key, story: Story::Waiting });
        }
    }

    /// What is outside the line goes on: the origin and its passes, alarms, and visitors whose sessions were lost.
    pub(crate) fn check_reset(&mut self, answer: &Result<Answer, Refusal>) {
        let (model, machine_now) = (&mut self.model, self.now);
        let Ok(Answer::LineOpened(generation)) = *answer else { panic!("{answer:?}") };
        let mut fresh = Model::new(model.settings.clone(), machine_now, generation);
        let went_back = model.clock.since(machine_now);
        fresh.losses = model.losses_after_reset(machine_now);
        fresh.reports = std::mem::take(&mut model.reports);
        fresh.reports.shift_back(went_back);
        fresh.adaptive = model.adaptive.take();
        fresh.adaptive.iter_mut().for_each(|adaptive| adaptive.shift_back(went_back));
        fresh.state = model.state;
        fresh.halted_since = model.halted_since.map(|_| machine_now);
        fresh.firing = std::mem::take(&mut model.firing);
        fresh.slots_missed = model.slots_missed;
        *model = fresh;
        self.stays.departed.clear();
    }

    /// A place that waits moves, keeps its position, and takes nothing from anybody.
    pub(crate) fn check_move(
        &mut self,
        ticket: &Ticket,
        session: Option<&Session>,
        answer: &Result<Answer, Refusal>,
    ) {
        let story = self.model.find(key_of(ticket)).map(|visitor| visitor.story);
        let expected = match story {
            None => Err(Refusal::UnknownTicket),
            Some(_) if session.is_some() => Err(Refusal::NotMovable),
            Some(Story::Left | Story::Lapsed | Story::Claimed) => Err(Refusal::Gone),
            Some(_) if ticket.copy == COPY_MAX => Err(Refusal::NotMovable),
            Some(_) => {
                let ticket = Ticket { copy: ticket.copy + 1, ..*ticket };
                Ok(Answer::Moved { ticket, is_repeated: false })
            }
        };
        assert_eq!(answer, &expected);
        if expected.is_ok() {
            self.model.copies.insert(key_of(ticket), ticket.copy + 1);
        }
    }

    /// Promises 4 and 6.
    pub(crate) fn check_claim(
        &mut self,
        claim: &Claim,
        session: Option<&Session>,
        answer: &Result<Answer, Refusal>,
    ) {
        let key = key_of(&claim.ticket);
        let limited = self.model.settings.is_auction() || self.model.reported_free().is_some();
        let model = &mut self.model;
        let (clock, state) = (model.clock, model.state);
        if let Some(session) = session {
            let mut same = session.clone();
            if claim.stay_millis.is_some() {
                self.stays.give_cookie(&mut same, clock);
            } else {
                self.stays.give_pass(&mut same, clock);
            }
            let same = Answer::Claimed { session: same, begun: false };
            assert_eq!(answer, &Ok(same), "a second claim finds the first one's session");
            return;
        }
        let Some(story) = model.find(key).map(|visitor| visitor.story) else {
            assert_eq!(answer, &Err(Refusal::UnknownTicket));
            return;
        };
        let offered_at = match story {
            Story::Left | Story::Lapsed | Story::Claimed => {
                assert_eq!(answer, &Err(Refusal::Gone));
                return;
            }
            _ if state == RoomState::Closed => {
                assert_eq!(answer, &Err(Refusal::RoomClosed));
                return;
            }
            Story::Offered(at) | Story::Won(at) if state.admits() => at,
            Story::Waiting if state.admits() && model.take_immediately(key) => clock,
            _ => {
                assert_eq!(answer, &Err(Refusal::NotServed), "no pass before the turn");
                return;
            }
        };
        let Ok(Answer::Claimed { session, begun: true }) = answer else { panic!("{answer:?}") };
        assert_eq!((session.offered_at, session.issued_at_seconds), (offered_at, clock.seconds()));
        assert_eq!(session.expires_at_seconds, clock.seconds() + model.settings.validity_period.get());
        let enter_by = clock.seconds() + model.settings.enter_by_seconds.get();
        assert_eq!(session.enter_by_seconds, limited.then_some(enter_by));
        model.find(key).unwrap().story = Story::Claimed;
        model.inside.insert(key);
        model.copies.remove(&key);
        model.reports.issue(clock, &model.settings);
        self.check_begun_stay(claim, session);
    }

    pub(crate) fn check_leave(
        &mut self,
        ticket: &Ticket,
        session: Option<&Session>,
        answer: &Result<Answer, Refusal>,
    ) {
        if session.is_some() {
            self.check_end(Outcome::Abandoned, session, answer);
            return;
        }
        match self.model.find(key_of(ticket)) {
            None => assert_eq!(answer, &Err(Refusal::UnknownTicket)),
            Some(visitor) => match visitor.story {
                Story::Waiting | Story::Offered(_) | Story::Won(_) => {
                    assert_eq!(answer, &Ok(Answer::Done));
                    visitor.story = Story::Left;
                }
                _ => assert_eq!(answer, &Err(Refusal::Gone)),
            },
        }
    }

    pub(crate) fn check_advance(&mut self, by: i64, answer: &Result<Answer, Refusal>) {
        let model = &mut self.model;
        if model.settings.is_auction() {
            assert_eq!(answer, &Err(Refusal::MovedByRounds));
            return;
        }
        for _ in 0..by.unsigned_abs() {
            if by < 0 {
                let last = model.lines.iter_mut().rev().find(|line| line.serving > line.base);
                if let Some(line) = last {
                    line.serving -= 1;
                }
            } else if !model.pass_next() && !model.settings.inlet.is_capped() && !model.settings.queue_all {
                model.lines.last_mut().unwrap().serving += 1;
            }
        }
        model.rests |= by < 0 && model.settings.inlet != InletKind::Manual;
        for visitor in &mut model.visitors {
            let line = model.lines.iter().find(|line| line.generation == visitor.key.generation).unwrap();
            if matches!(visitor.story, Story::Offered(_)) && visitor.key.position.get() > line.serving {
                visitor.story = Story::Waiting;
            }
        }
        assert_eq!(answer, &Ok(Answer::Advanced { serving: model.serving() }));
    }

    pub(crate) fn check_opened_segment(&mut self, answer: &Result<Answer, Refusal>) {
        let oldest = self.model.lines[0].generation;
        let full = self.model.lines.len() == anteroom_core::room::SEGMENTS_MAX;
        let here = |key: &SessionKey| key.generation == oldest;
        let waits = |visitor: &Visitor| here(&visitor.key) && visitor.story.is_open();
        let somebody = self.model.visitors.iter().any(waits) || self.model.inside.iter().any(here);
        match answer {
            Ok(Answer::LineOpened(generation)) => {
                assert!(!full || !somebody, "nobody is left in the oldest");
                self.model.open_line(*generation, 0, full.then_some(oldest));
            }
            Err(Refusal::SegmentsFull) => assert!(full && somebody),
            other => panic!("{other:?}"),
        }
    }
}
