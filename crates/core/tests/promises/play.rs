//! A room, its sessions as a store would keep them, and the model, driven by the same operations.

use std::collections::{BTreeMap, HashMap};

use anteroom_core::ids::COPY_MAX;
use anteroom_core::settings::{Bounded, People, Seconds};
use anteroom_core::{
    Answer, Board, Claim, InletKind, Mover, Operation, Outcome, Position, Reads, Reconfigure, Refusal,
    RequestId, Room, RoomState, Session, SessionKey, SessionStatus, Settings, Ticket, UnixMillis, apply,
};

use super::model::{GivenFigures, Model, Story, Visitor};
use super::stays::Stays;
use super::steps::{Change, Round, Step, alarm_names, reporter_name};

const START: UnixMillis = UnixMillis(1_800_000_000_000);

pub(crate) struct Play {
    pub(crate) room: Room,
    pub(crate) sessions: HashMap<SessionKey, Session>,
    /// In order of their joins, of lines that are still open.
    pub(crate) tickets: Vec<Ticket>,
    pub(crate) model: Model,
    pub(crate) now: UnixMillis,
    /// The best place that each ticket was ever shown since the operator's last word.
    pub(crate) shown: BTreeMap<SessionKey, u64>,
    /// Every place that was ever handed out, resets included.
    pub(crate) handed_out: Vec<SessionKey>,
    pub(crate) stays: Stays,
}

pub(crate) fn key_of(ticket: &Ticket) -> SessionKey {
    SessionKey { generation: ticket.generation, position: ticket.position }
}

fn given_figures(room: &Room, now: UnixMillis) -> GivenFigures {
    let free = room.reports.free(&room.settings, now);
    GivenFigures { free, adaptive: room.adaptive.map(|adaptive| adaptive.capacity) }
}

impl Play {
    pub(crate) fn new() -> Self {
        let settings = Settings {
            validity_period: Seconds::new(30).unwrap(),
            session_duration: Seconds::new(10).unwrap(),
            total_active_users: Some(4),
            window_size: People::new(3),
            interval_seconds: Seconds::new(7).unwrap(),
            increment_by: Bounded::new(3).unwrap(),
            ..Settings::default()
        };
        let room = Room::open(settings.clone(), START, 7);
        let model = Model::new(settings, START, room.newest().generation);
        Self {
            room,
            sessions: HashMap::new(),
            tickets: vec![],
            model,
            now: START,
            shown: BTreeMap::new(),
            handed_out: vec![],
            stays: Stays::default(),
        }
    }

    fn ticket(&self, index: usize) -> Ticket {
        self.tickets.get(index % self.tickets.len().max(1)).copied().unwrap_or(Ticket {
            lane: 0,
            generation: self.room.newest().generation,
            position: Position::new(1 + index as u64).unwrap(),
            entered: 0,
            copy: 0,
        })
    }

    fn changed_settings(&self, change: &Change) -> Settings {
        let mut settings = (*self.room.settings).clone();
        change.make(&mut settings, START.seconds());
        settings
    }

    fn operation(&mut self, step: &Step) -> Option<Operation> {
        Some(match step {
            Step::Join(count) => Operation::Join { count: *count },
            Step::Claim(index, stay_millis) => Operation::Claim(Claim {
                ticket: self.ticket(*index),
                request_id: RequestId([u8::try_from(*index).unwrap(); 16]),
                issuer: "issuer".into(),
                validity_seconds: None,
                key_id: "key".into(),
                stay_millis: *stay_millis,
            }),
            Step::Touch(index, stay_millis, confirms) => Operation::Touch {
                key: key_of(&self.ticket(*index)),
                stay_millis: *stay_millis,
                confirms: *confirms,
            },
            Step::SeveralNodes(several) => {
                self.stays.spread_millis = if *several { 2_000 } else { 0 };
                return None;
            }
            Step::ShownFully => {
                self.show_as_many_as_fit();
                return None;
            }
            Step::Move(index) => Operation::Move { ticket: self.ticket(*index), by: Mover(7) },
            Step::Leave(index) => Operation::Leave { ticket: self.ticket(*index) },
            Step::Close(index, completed) => Operation::Close {
                key: key_of(&self.ticket(*index)),
                outcome: if *completed { Outcome::Completed } else { Outcome::Abandoned },
            },
            Step::Exits(count) => Operation::Exits { count: *count },
            Step::Advance(by) => Operation::Advance { by: *by },
            Step::Set(change) => Operation::reconfigure(self.changed_settings(change), None),
            Step::State(state) => Operation::reconfigure((*self.room.settings).clone(), Some(*state)),
            Step::Both { change, state, stale } => {
                let mut seen = (*self.room.settings).clone();
                if *stale {
                    seen.issuer = Some("https://never.example".into());
                }
                let (expected, settings) = (Some((seen, self.room.state)), self.changed_settings(change));
                Operation::Reconfigure(Box::new(Reconfigure { expected, settings, state: Some(*state) }))
            }
            Step::Reset => Operation::Reset { incarnation: 9 },
            Step::OpenSegment => Operation::OpenSegment { incarnation: 5 },
            Step::Report(report) => Operation::Report(report.clone()),
            Step::ForgetReporter(name) => Operation::ForgetReporter { reporter: reporter_name(*name) },
            Step::Alarms(bits) => Operation::Alarms { firing: alarm_names(*bits) },
            Step::SettleRound { present, wait, which } => self.settle_round(*present, *wait, *which),
            Step::Clock(_) => Operation::Tick,
            Step::Silence(_) => return None,
        })
    }

    fn settle_round(&mut self, present: u64, wait: bool, which: Round) -> Operation {
        let (open, settled) = match &self.room.auction {
            Some(auction) => (auction.round, auction.settled),
            None => (self.now, UnixMillis(1)),
        };
        if wait {
            self.now = self.now.max(open);
        }
        let round = match which {
            Round::Open => open,
            Round::SettledLast => settled,
            Round::NeverHeard => open.plus(1),
        };
        // One of those present is in no line, and one is named twice.
        let bit = |index: usize| present >> (index % 61) & 1 == 1;
        let mut keys: Vec<SessionKey> = self
            .tickets
            .iter()
            .map(key_of)
            .enumerate()
            .filter(|(i, _)| bit(*i))
            .map(|(_, key)| key)
            .collect();
        keys.reverse();
        keys.extend(keys.first().copied());
        keys.push(SessionKey {
            generation: self.room.newest().generation,
            position: Position::new(9_999).unwrap(),
        });
        Operation::SettleRound { round, present: keys, turned_away: present >> 63 == 1, alone: true }
    }

    /// Plays a step; `false` if it was nothing but time that nobody noticed.
    pub(crate) fn run(&mut self, step: &Step) {
        if let Step::Clock(by) | Step::Silence(by) = step {
            self.now = UnixMillis(self.now.0.saturating_add_signed(*by));
        }
        let Some(operation) = self.operation(step) else { return };
        // A store hands out a bounded number of ended sessions; the rest waits for the next tick.
        let clock = self.now.max(self.room.clock);
        let over = |session: &&Session| session.status == SessionStatus::Active && session.ends_at() <= clock;
        let mut ended: Vec<Session> = self.sessions.values().filter(over).cloned().collect();
        ended.sort_by_key(|session| session.key);
        ended.truncate(2);
        let mut session = operation.session_key().and_then(|key| self.sessions.get(&key).cloned());
        for swept in &ended {
            self.model.session_ended();
            if let Some(session) = session.as_mut().filter(|session| session.key == swept.key) {
                session.status = session.outcome().map_or(SessionStatus::Expired, SessionStatus::Ended);
            }
        }
        let before = Board::of(&self.room);
        let spread_millis = self.stays.spread_millis;
        let reads =
            Reads { session: session.clone(), ended: ended.clone(), spread_millis, ..Reads::default() };
        let applied = apply(self.room.clone(), self.now, &operation, reads);
        // What time alone did, to tell the model what it is to be told while the operation happens.
        let only_time = Reads { ended, ..Reads::default() };
        let ticked = apply(self.room.clone(), self.now, &Operation::Tick, only_time).room;
        self.model.tick(self.now, given_figures(&ticked, clock));
        self.stays.tick(clock);
        self.check_answer(&operation, session.as_ref(), &applied.answer, &applied.room);
        self.model.settle(given_figures(&applied.room, applied.room.clock));
        self.room = applied.room;
        for session in applied.effects.sessions {
            self.stays.check_written(self.sessions.get(&session.key), &session, clock);
            self.sessions.insert(session.key, session);
        }
        let closed = applied.effects.closed_generations;
        self.sessions.retain(|key, _| !closed.contains(&key.generation));
        self.tickets.retain(|ticket| !closed.contains(&ticket.generation));
        if let Ok(Answer::Joined { generation, first, count, entered }) = applied.answer {
            for offset in 0..count {
                let position = Position::new(first.get() + offset).unwrap();
                self.tickets.push(Ticket { lane: 0, generation, position, entered, copy: 0 });
                self.handed_out.push(SessionKey { generation, position });
            }
        }
        if let (Operation::Move { ticket: old, .. }, Ok(Answer::Moved { ticket: new, .. })) =
            (&operation, &applied.answer)
        {
            // An answer that was lost on the way can be had again, and changes nothing but what time changes: moves of lines that
            // have just closed are forgotten by the next operation.
            let again = apply(self.room.clone(), self.now, &operation, Reads::default());
            let later = apply(self.room.clone(), self.now, &Operation::Tick, Reads::default());
            let repeated = Answer::Moved { ticket: *new, is_repeated: true };
            assert_eq!((again.answer, again.room.moved), (Ok(repeated), later.room.moved));
            let place = self.tickets.iter_mut().find(|ticket| *ticket == old).unwrap();
            *place = *new;
        }
        self.check_everything(&operation, &before);
    }

    /// Moves the model by the same operation and compares the answers.
    fn check_answer(
        &mut self,
        operation: &Operation,
        session: Option<&Session>,
        answer: &Result<Answer, Refusal>,
        after: &Room,
    ) {
        let machine_now = self.now;
        let model = &mut self.model;
        match operation {
            Operation::Join { count } => {
                assert_eq!(answer.is_ok(), model.state.takes_joins());
                let Ok(Answer::Joined { generation, first, .. }) = *answer else { return };
                let line = model.lines.last().unwrap().generation;
                let before =
                    model.visitors.iter().filter(|visitor| visitor.key.generation == line).count() as u64;
                assert_eq!((generation, first.get()), (line, before + 1), "positions follow each other");
                for offset in 0..*count {
                    let position = Position::new(first.get() + offset).unwrap();
                    let key = SessionKey { generation, position };
                    model.visitors.push(Visitor { key, story: Story::Waiting });
                }
            }
            Operation::Claim(claim) => self.check_claim(claim, session, answer),
            Operation::Touch { key, stay_millis, confirms } => {
                self.check_touch(*key, *stay_millis, *confirms, session, answer);
            }
            Operation::Leave { ticket } => self.check_leave(ticket, session, answer),
            Operation::Move { ticket, .. } => self.check_move(ticket, session, answer),
            Operation::Close { outcome, .. } => self.check_end(*outcome, session, answer),
            Operation::Exits { count } => {
                let counted = (*count).min(model.active - model.credits);
                model.credits += counted;
                assert_eq!(answer, &Ok(Answer::Exited { counted }));
            }
            Operation::Advance { by } => self.check_advance(*by, answer),
            Operation::Reconfigure(change) => {
                let seen = change.expected.as_ref();
                let stale = seen
                    .is_some_and(|(settings, state)| (settings, *state) != (&model.settings, model.state));
                let refusal = change.settings.check().err().map(Refusal::from);
                if let Some(refusal) = Some(Refusal::Changed).filter(|_| stale).or(refusal) {
                    assert_eq!(answer, &Err(refusal), "all or nothing");
                } else {
                    assert_eq!(answer, &Ok(Answer::Done));
                    model.configure(&change.settings, given_figures(after, model.clock));
                    change.state.into_iter().for_each(|state| model.set_state(state));
                }
            }
            Operation::Reset { .. } => {
                let Ok(Answer::LineOpened(generation)) = *answer else { panic!("{answer:?}") };
                let mut fresh = Model::new(model.settings.clone(), machine_now, generation);
                fresh.state = model.state;
                fresh.halted_since = model.halted_since.map(|_| machine_now);
                fresh.firing = std::mem::take(&mut model.firing);
                fresh.slots_missed = model.slots_missed;
                *model = fresh;
                self.stays.departed.clear();
            }
            Operation::OpenSegment { .. } => self.check_opened_segment(answer),
            Operation::Alarms { firing } => {
                assert_eq!(answer, &Ok(Answer::Done));
                model.firing.clone_from(firing);
            }
            Operation::SettleRound { round, present, turned_away, alone: _ } => {
                let expected =
                    match (model.rounds.is_some(), model.settle_round(*round, present, *turned_away)) {
                        (false, _) => Err(Refusal::NoAuction),
                        (true, None) => Err(Refusal::NotThisRound),
                        (true, Some(winners)) => Ok(Answer::Won { winners }),
                    };
                assert_eq!(answer, &expected, "exactly the earliest of those present");
            }
            Operation::Tick
            | Operation::Report(_)
            | Operation::ForgetReporter { .. }
            | Operation::Inspect { .. }
            | Operation::KeepSignatures { .. } => {}
            // What a store loses is played in tests of its own.
            Operation::Mend(_)
            | Operation::Recall { .. }
            | Operation::Show { .. }
            | Operation::Redeem { .. } => {
                unreachable!("no such step is played")
            }
        }
    }

    /// A place that waits moves, keeps its position, and takes nothing from anybody.
    fn check_move(&mut self, ticket: &Ticket, session: Option<&Session>, answer: &Result<Answer, Refusal>) {
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
    }

    /// Promises 4 and 6.
    fn check_claim(&mut self, claim: &Claim, session: Option<&Session>, answer: &Result<Answer, Refusal>) {
        let key = key_of(&claim.ticket);
        let limited = self.model.settings.is_auction() || self.model.given.free.is_some();
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
        let enter_by = clock.seconds() + model.settings.enter_by_seconds.get();
        assert_eq!(session.enter_by_seconds, limited.then_some(enter_by));
        model.find(key).unwrap().story = Story::Claimed;
        model.active += 1;
        self.check_begun_stay(claim, session);
    }

    fn check_leave(&mut self, ticket: &Ticket, session: Option<&Session>, answer: &Result<Answer, Refusal>) {
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

    fn check_advance(&mut self, by: i64, answer: &Result<Answer, Refusal>) {
        let model = &mut self.model;
        if model.settings.is_auction() {
            assert_eq!(answer, &Err(Refusal::MovedByRounds));
            return;
        }
        let forward = model.served.saturating_add_signed(by);
        let capped = model.settings.inlet.is_capped() || model.settings.queue_all;
        model.served = if by > 0 && capped { forward.min(model.joined().max(model.served)) } else { forward };
        model.rests |= by < 0 && model.settings.inlet != InletKind::Manual;
        let served = usize::try_from(model.served).unwrap();
        for visitor in model.visitors.iter_mut().skip(served) {
            if matches!(visitor.story, Story::Offered(_)) {
                visitor.story = Story::Waiting;
            }
        }
        assert_eq!(answer, &Ok(Answer::Advanced { serving: model.serving() }));
    }

    fn check_opened_segment(&mut self, answer: &Result<Answer, Refusal>) {
        let oldest = self.model.lines[0].generation;
        let full = self.model.lines.len() == anteroom_core::room::SEGMENTS_MAX;
        let here = |key: &SessionKey| key.generation == oldest;
        let waits = |visitor: &Visitor| {
            here(&visitor.key) && matches!(visitor.story, Story::Waiting | Story::Offered(_) | Story::Won(_))
        };
        let inside = |session: &Session| here(&session.key) && session.status == SessionStatus::Active;
        // Sessions that this very operation let expire have not reached the store yet.
        let clock = self.model.clock;
        let somebody = self.model.visitors.iter().any(waits);
        let somebody_inside = self.sessions.values().any(inside);
        let all_over = self
            .sessions
            .values()
            .filter(|session| inside(session))
            .all(|session| session.ends_at() <= clock);
        match answer {
            Ok(Answer::LineOpened(generation)) => {
                assert!(!full || !somebody && (!somebody_inside || all_over), "nobody is left in the oldest");
                self.model.open_line(*generation, full.then_some(oldest));
            }
            Err(Refusal::SegmentsFull) => assert!(full && (somebody || somebody_inside)),
            other => panic!("{other:?}"),
        }
    }
}
