//! A room, its sessions as a store would keep them, and the model, driven by the same operations.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anteroom_core::settings::{Bounded, People, Seconds};
use anteroom_core::{
    Answer, Board, Claim, Grant, MovedPlaces, Mover, Operation, Outcome, Position, Reads, Reconfigure,
    Refusal, RequestId, Room, Session, SessionKey, SessionStatus, Settings, Ticket, UnixMillis, apply,
};

use super::grants::client_of;
use super::interruptions::{Memory, Moment};
use super::model::Model;
use super::stays::Stays;
use super::steps::{Change, Round, Step, alarm_names, reporter_name};

pub(crate) const START: UnixMillis = UnixMillis(1_800_000_000_000);

pub(crate) struct Play {
    pub(crate) room: Room,
    pub(crate) sessions: HashMap<SessionKey, Session>,
    /// In order of their places, of lines that were not closed.
    pub(crate) tickets: Vec<Ticket>,
    pub(crate) model: Model,
    pub(crate) now: UnixMillis,
    /// The best place that each ticket was ever shown since the operator's last word.
    pub(crate) shown: BTreeMap<SessionKey, u64>,
    /// Every place that was ever handed out, resets included.
    pub(crate) handed_out: Vec<SessionKey>,
    /// From which of them on each is behind the one before: a line that nobody remembers cannot be gone on behind.
    pub(crate) ordered_from: usize,
    pub(crate) stays: Stays,
    /// The last moments, oldest first: what a store may go back to.
    pub(crate) moments: Vec<Moment>,
    /// What another node remembers from before the last loss.
    pub(crate) memory: Memory,
    /// What the node that mends the room has seen of it.
    pub(crate) remembered: Option<Board>,
    /// Lines that were opened so far.
    pub(crate) incarnation: u8,
    /// The operations that were played.
    pub(crate) played: BTreeSet<&'static str>,
}

pub(crate) fn key_of(ticket: &Ticket) -> SessionKey {
    SessionKey { generation: ticket.generation, position: ticket.position }
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
            ordered_from: 0,
            stays: Stays::default(),
            moments: vec![],
            memory: Memory::default(),
            remembered: None,
            incarnation: 7,
            played: BTreeSet::new(),
        }
    }

    pub(crate) fn ticket_of(&self, key: SessionKey) -> Option<Ticket> {
        let index = self.tickets.binary_search_by_key(&key, key_of).ok()?;
        Some(self.tickets[index])
    }

    fn next_incarnation(&mut self) -> u8 {
        self.incarnation += 1;
        self.incarnation
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
                prefix: None,
            }),
            Step::Touch(index, stay_millis) => {
                Operation::Touch { key: key_of(&self.ticket(*index)), stay_millis: *stay_millis }
            }
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
            Step::Redeem(index, made) => {
                Operation::Redeem { key: key_of(&self.ticket(*index)), issued_at: START.plus(*made) }
            }
            Step::Grant(index, grant) => Operation::Grant {
                key: key_of(&self.ticket(*index)),
                grant: *grant,
                client: client_of(*grant),
                issued_at: START.plus(*grant * 20_000),
            },
            Step::Refresh(index, grant, sequence) => {
                Operation::Refresh { key: key_of(&self.ticket(*index)), grant: *grant, sequence: *sequence }
            }
            Step::ManyGrants(index, made) => {
                self.fill_grants(key_of(&self.ticket(*index)), START.plus(*made));
                return None;
            }
            Step::KeepSignatures(index, byte) => {
                Operation::KeepSignatures { key: key_of(&self.ticket(*index)), signatures: vec![*byte] }
            }
            Step::Inspect(index) => Operation::Inspect { ticket: self.ticket(*index) },
            Step::Lose { steps, forgotten } => self.lose(*steps, *forgotten),
            Step::Empty => self.empty_store(),
            Step::MakeAnew => {
                self.make_anew();
                return None;
            }
            Step::Recall => Operation::Recall {
                lines: self.memory.lines.clone(),
                moved: MovedPlaces::clone(&self.memory.moved),
            },
            Step::Show(index) => Operation::Show { ticket: self.ticket(*index) },
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
            Step::Reset => Operation::Reset { incarnation: self.next_incarnation() },
            Step::SetClock => Operation::SetClock,
            Step::OpenSegment => Operation::OpenSegment { incarnation: self.next_incarnation() },
            Step::Report(report) => Operation::Report(report.clone()),
            Step::ForgetReporter(name) => Operation::ForgetReporter { reporter: reporter_name(*name) },
            Step::Alarms(bits) => Operation::Alarms { firing: alarm_names(*bits) },
            Step::SettleRound { present, wait, which, alone } => {
                self.settle_round(*present, *wait, *which, *alone)
            }
            Step::Clock(_) => Operation::Tick,
            Step::Silence(_) => return None,
        })
    }

    fn settle_round(&mut self, present: u64, wait: bool, which: Round, alone: bool) -> Operation {
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
        Operation::SettleRound { round, present: keys, turned_away: present >> 63 == 1, alone }
    }

    /// Plays a step; `false` if it was nothing but time that nobody noticed.
    pub(crate) fn run(&mut self, step: &Step) {
        if let Step::Clock(by) | Step::Silence(by) = step {
            self.now = UnixMillis(self.now.0.saturating_add_signed(*by));
        }
        let Some(operation) = self.operation(step) else { return };
        self.played.insert(kind_of(&operation));
        // A store hands out a bounded number of ended sessions; the rest waits for the next tick.
        let clock = self.now.max(self.room.clock);
        let over = |session: &&Session| session.status == SessionStatus::Active && session.ends_at() <= clock;
        let mut ended: Vec<Session> = self.sessions.values().filter(over).cloned().collect();
        ended.sort_by_key(|session| session.key);
        ended.truncate(2);
        let mut session = operation.session_key().and_then(|key| self.sessions.get(&key).cloned());
        for swept in &ended {
            self.model.session_ended(swept.key);
            if let Some(session) = session.as_mut().filter(|session| session.key == swept.key) {
                session.status = session.outcome().map_or(SessionStatus::Expired, SessionStatus::Ended);
            }
        }
        let before = Board::of(&self.room);
        let spread_millis = self.stays.spread_millis;
        let reads = Reads { session: session.clone(), ended, spread_millis, ..Reads::default() };
        let applied = apply(self.room.clone(), self.now, &operation, reads);
        self.model.tick(self.now);
        self.stays.tick(clock);
        self.check_answer(&operation, session.as_ref(), &applied.answer, &applied.room);
        self.model.settle();
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
            self.tickets.sort_by_key(key_of);
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
        self.remember_moment();
    }

    /// Moves the model by the same operation and compares the answers.
    fn check_answer(
        &mut self,
        operation: &Operation,
        session: Option<&Session>,
        answer: &Result<Answer, Refusal>,
        after: &Room,
    ) {
        let model = &mut self.model;
        match operation {
            Operation::Join { count } => self.check_join(*count, answer),
            Operation::Claim(claim) => self.check_claim(claim, session, answer),
            Operation::Touch { key, stay_millis } => {
                self.check_touch(*key, *stay_millis, session, answer);
            }
            Operation::Leave { ticket } => self.check_leave(ticket, session, answer),
            Operation::Move { ticket, .. } => self.check_move(ticket, session, answer),
            Operation::Close { outcome, .. } => self.check_end(*outcome, session, answer),
            Operation::Exits { count } => {
                let counted = (*count).min(model.inside.len() as u64 - model.credits);
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
                    model.configure(&change.settings);
                    change.state.into_iter().for_each(|state| model.set_state(state));
                }
            }
            Operation::Reset { .. } => self.check_reset(answer),
            Operation::SetClock => {
                let (before, went_back) = (model.clock, model.clock.since(self.now));
                model.set_clock(self.now);
                assert_eq!(answer, &Ok(Answer::ClockSet { before, clock: model.clock }));
                for (_, at) in &mut self.stays.departed {
                    *at = UnixMillis(at.0 - went_back);
                }
            }
            Operation::OpenSegment { .. } => self.check_opened_segment(answer),
            Operation::Alarms { firing } => {
                assert_eq!(answer, &Ok(Answer::Done));
                model.firing.clone_from(firing);
            }
            Operation::SettleRound { round, present, turned_away, alone } => {
                let has_rounds = model.rounds.is_some();
                let settled = if *alone {
                    model.settle_round(*round, present, *turned_away).map(|winners| Answer::Won { winners })
                } else {
                    model.collect(*round, present, *turned_away)
                };
                let refusal = if has_rounds { Refusal::NotThisRound } else { Refusal::NoAuction };
                assert_eq!(answer, &settled.ok_or(refusal), "exactly the earliest of those present");
            }
            Operation::Tick => assert_eq!(answer, &Ok(Answer::Done)),
            Operation::Report(report) => {
                assert_eq!(answer, &Ok(Answer::Reported(model.hear(report))));
            }
            Operation::ForgetReporter { reporter } => {
                let is_known = model.reports.forget(reporter);
                let expected = if is_known { Ok(Answer::Done) } else { Err(Refusal::UnknownReporter) };
                assert_eq!(answer, &expected);
            }
            Operation::Inspect { ticket } => match model.find(key_of(ticket)).map(|visitor| visitor.story) {
                None => assert_eq!(answer, &Err(Refusal::UnknownTicket)),
                Some(story) => {
                    let Ok(Answer::Place(place)) = answer else { panic!("{answer:?}") };
                    self.check_told(story, place, session.is_some());
                }
            },
            Operation::KeepSignatures { signatures, .. } => {
                self.check_signatures(signatures, session, answer);
            }
            Operation::Redeem { issued_at, .. } => self.check_redeem(*issued_at, session, answer),
            Operation::Grant { grant, client, issued_at, .. } => {
                self.check_grant(Grant::new(*grant, *client, *issued_at), session, answer);
            }
            Operation::Refresh { grant, sequence, .. } => {
                self.check_refresh(*grant, *sequence, session, answer);
            }
            Operation::Mend(mend) => model.mend(mend, answer, after),
            Operation::Recall { lines, moved } => {
                assert_eq!(answer, &Ok(Answer::Done));
                model.recall(lines, moved, after);
            }
            Operation::Show { ticket } => assert_eq!(answer, &model.show(ticket, after)),
        }
    }
}

macro_rules! kinds {
    ($($kind:pat => $name:literal,)*) => {
        /// Every operation there is.
        pub(crate) const KINDS: &[&str] = &[$($name),*];

        /// Without a default: an operation that is added must be named here, and so be played.
        fn kind_of(operation: &Operation) -> &'static str {
            match operation {
                $($kind => $name,)*
            }
        }
    };
}

kinds! {
    Operation::Tick => "tick",
    Operation::Join { .. } => "join",
    Operation::Claim(_) => "claim",
    Operation::Leave { .. } => "leave",
    Operation::Move { .. } => "move",
    Operation::Redeem { .. } => "redeem",
    Operation::Grant { .. } => "grant",
    Operation::Refresh { .. } => "refresh",
    Operation::Close { .. } => "close",
    Operation::Touch { .. } => "touch",
    Operation::Exits { .. } => "exits",
    Operation::Advance { .. } => "advance",
    Operation::Reconfigure(_) => "reconfigure",
    Operation::Reset { .. } => "reset",
    Operation::SetClock => "set clock",
    Operation::OpenSegment { .. } => "open segment",
    Operation::Mend(_) => "mend",
    Operation::Recall { .. } => "recall",
    Operation::Show { .. } => "show",
    Operation::Report(_) => "report",
    Operation::ForgetReporter { .. } => "forget reporter",
    Operation::Alarms { .. } => "alarms",
    Operation::SettleRound { alone: true, .. } => "settle round",
    Operation::SettleRound { alone: false, .. } => "collect round",
    Operation::Inspect { .. } => "inspect",
    Operation::KeepSignatures { .. } => "keep signatures",
}
