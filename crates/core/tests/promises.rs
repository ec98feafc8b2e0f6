//! The promises of the design, after every operation of random interleavings.
//!
//! Beside the room runs a model that knows nothing of segments, steps or bits: a plain list of visitors, each with his own
//! story, moved by loops that spell out the rules the slow way. Room and model must agree on every figure and every answer.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::too_many_lines,
    reason = "a test may fail loudly, its numbers are small, and the model reads best in one piece"
)]

use std::collections::HashMap;

use anteroom_core::{
    Answer, Board, Claim, InletKind, Operation, Outcome, Place, Position, Reads, Reconfigure, Refusal,
    RequestId, Room, RoomState, Session, SessionKey, SessionStatus, Settings, Standing, Ticket, UnixMillis,
    apply, settings::Seconds,
};
use proptest::prelude::*;

const START: UnixMillis = UnixMillis(1_800_000_000_000);

#[derive(Debug, Clone)]
enum Step {
    Join(u64),
    Claim(usize),
    Leave(usize),
    Close(usize, bool),
    Exits(u64),
    Advance(i64),
    Capacity(u64),
    Inlet(bool),
    Expiry(bool),
    Window(u64),
    MoveOn(bool),
    State(RoomState),
    /// Settings and state at once, by somebody who has seen the room as it is, or as it never was.
    Both {
        capacity: u64,
        capped: bool,
        state: RoomState,
        stale: bool,
    },
    Reset,
    /// The clock moves by so many milliseconds, also backwards.
    Clock(i64),
    /// The same, but nobody ticks: the next operation meets all that has become due.
    Silence(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (1u64..6).prop_map(Step::Join),
        8 => any::<prop::sample::Index>().prop_map(|index| Step::Claim(index.index(60))),
        3 => any::<prop::sample::Index>().prop_map(|index| Step::Leave(index.index(60))),
        4 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(index, done)| Step::Close(index.index(60), done)),
        1 => (0u64..4).prop_map(Step::Exits),
        3 => (-6i64..12).prop_map(Step::Advance),
        2 => (0u64..8).prop_map(Step::Capacity),
        2 => any::<bool>().prop_map(Step::Inlet),
        1 => any::<bool>().prop_map(Step::Expiry),
        1 => (1u64..20).prop_map(Step::Window),
        1 => any::<bool>().prop_map(Step::MoveOn),
        2 => prop::sample::select(RoomState::ALL.to_vec()).prop_map(Step::State),
        2 => (0u64..8, any::<bool>(), prop::sample::select(RoomState::ALL.to_vec()), prop::bool::weighted(0.3))
            .prop_map(|(capacity, capped, state, stale)| Step::Both { capacity, capped, state, stale }),
        1 => Just(Step::Reset),
        3 => (-3_000i64..15_000).prop_map(Step::Clock),
        4 => (-3_000i64..15_000).prop_map(Step::Silence),
    ];
    prop::collection::vec(step, 1..120)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Story {
    Waiting,
    Offered(UnixMillis),
    Claimed,
    Left,
    Lapsed,
}

/// The slow, obvious room.
struct Model {
    clock: UnixMillis,
    visitors: Vec<Story>,
    serving: u64,
    active: u64,
    credits: u64,
    settings: Settings,
    state: RoomState,
    halted_since: Option<UnixMillis>,
    rests: bool,
}

impl Model {
    fn new(settings: Settings) -> Self {
        Self {
            clock: START,
            visitors: vec![],
            serving: 0,
            active: 0,
            credits: 0,
            settings,
            state: RoomState::Open,
            halted_since: None,
            rests: false,
        }
    }

    fn count(&self, wanted: impl Fn(&Story) -> bool) -> u64 {
        self.visitors.iter().filter(|story| wanted(story)).count() as u64
    }

    fn offers(&self) -> u64 {
        self.count(|story| matches!(story, Story::Offered(_)))
    }

    fn waiting(&self) -> u64 {
        self.count(|story| matches!(story, Story::Waiting | Story::Offered(_)))
    }

    fn held(&self) -> u64 {
        self.active - self.credits + self.offers()
    }

    fn session_ended(&mut self) {
        self.active -= 1;
        self.credits = self.credits.saturating_sub(1);
    }

    fn tick(&mut self, now: UnixMillis) {
        self.clock = self.clock.max(now);
        self.let_offers_lapse();
        self.offer_what_is_served();
    }

    fn let_offers_lapse(&mut self) {
        let Some(window) = self.settings.claim_window_millis().filter(|_| self.state.admits()) else {
            return;
        };
        let mut lapsed = 0;
        for story in &mut self.visitors {
            if let Story::Offered(at) = *story
                && at.plus(window) <= self.clock
            {
                *story = Story::Lapsed;
                lapsed += 1;
            }
        }
        if self.settings.incr_svc_on_queue_position_expiry && !self.settings.inlet.is_capped() {
            let tail = self.visitors.len() as u64;
            self.serving = self.serving.max((self.serving + lapsed).min(tail));
        }
    }

    fn offer_what_is_served(&mut self) {
        let clock = self.clock;
        for (index, story) in self.visitors.iter_mut().enumerate() {
            if *story == Story::Waiting && (index as u64) < self.serving {
                *story = Story::Offered(clock);
            }
        }
    }

    fn settle(&mut self) {
        self.offer_what_is_served();
        let Some(capacity) = self.settings.capacity() else {
            return;
        };
        while self.state.admits() && !self.rests && self.held() < capacity {
            let next = (self.serving as usize..self.visitors.len())
                .find(|&index| self.visitors[index] == Story::Waiting);
            let Some(next) = next else { break };
            self.serving = next as u64 + 1;
            self.offer_what_is_served();
        }
    }

    fn restart_clocks(&mut self, clock: impl Fn(UnixMillis) -> UnixMillis) {
        for story in &mut self.visitors {
            if let Story::Offered(at) = story {
                *at = clock(*at);
            }
        }
    }

    fn configure(&mut self, settings: &Settings) {
        let before = self.settings.claim_window_millis();
        let now = self.halted_since.unwrap_or(self.clock);
        let clock = self.clock;
        self.settings = settings.clone();
        match (before, settings.claim_window_millis()) {
            (None, Some(_)) => self.restart_clocks(|_| clock),
            (Some(old), Some(new)) if new < old => self.restart_clocks(|at| {
                let left = (at.0 + old).saturating_sub(now.0);
                UnixMillis((now.0 + left.min(new)).saturating_sub(new).max(at.0))
            }),
            _ => {}
        }
        if settings.inlet.is_capped() {
            self.serving = self.serving.min(self.visitors.len() as u64);
        }
    }
}

impl Model {
    fn set_state(&mut self, state: RoomState) {
        self.state = state;
        self.rests &= state != RoomState::Open;
        match (self.halted_since, state.admits()) {
            (None, false) => self.halted_since = Some(self.clock),
            (Some(since), true) => {
                let clock = self.clock;
                self.restart_clocks(|at| UnixMillis(at.0 + (clock.0 - at.max(since).0)));
                self.halted_since = None;
            }
            _ => {}
        }
    }
}

/// The room, its sessions as a store would keep them, and the model.
struct Play {
    room: Room,
    sessions: HashMap<SessionKey, Session>,
    tickets: Vec<Ticket>,
    model: Model,
    now: UnixMillis,
}

impl Play {
    fn new() -> Self {
        let settings = Settings { validity_period: Seconds::new(30).unwrap(), ..Settings::default() };
        let room = Room::open(settings.clone(), START, 7);
        Self { room, sessions: HashMap::new(), tickets: vec![], model: Model::new(settings), now: START }
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

    fn operation(&self, step: &Step) -> Option<Operation> {
        let settings = |change: &dyn Fn(&mut Settings)| {
            let mut settings = self.room.settings.clone();
            change(&mut settings);
            Some(Operation::reconfigure(settings, None))
        };
        let key = |ticket: Ticket| SessionKey { generation: ticket.generation, position: ticket.position };
        match *step {
            Step::Join(count) => Some(Operation::Join { count }),
            Step::Claim(index) => Some(Operation::Claim(Claim {
                ticket: self.ticket(index),
                request_id: RequestId([index as u8; 16]),
                issuer: "issuer".into(),
                validity_seconds: None,
                key_id: "key".into(),
            })),
            Step::Leave(index) => Some(Operation::Leave { ticket: self.ticket(index) }),
            Step::Close(index, completed) => Some(Operation::Close {
                key: key(self.ticket(index)),
                outcome: if completed { Outcome::Completed } else { Outcome::Abandoned },
            }),
            Step::Exits(count) => Some(Operation::Exits { count }),
            Step::Advance(by) => Some(Operation::Advance { by }),
            Step::Capacity(capacity) => settings(&|settings| settings.total_active_users = Some(capacity)),
            Step::Inlet(capped) => settings(&|settings| {
                settings.inlet = if capped { InletKind::MaxSize } else { InletKind::Manual };
            }),
            Step::Expiry(on) => settings(&|settings| settings.enable_queue_position_expiry = on),
            Step::Window(seconds) => {
                settings(&|settings| settings.queue_position_expiry_period = Seconds::new(seconds))
            }
            Step::MoveOn(on) => settings(&|settings| settings.incr_svc_on_queue_position_expiry = on),
            Step::State(state) => Some(Operation::reconfigure(self.room.settings.clone(), Some(state))),
            Step::Both { capacity, capped, state, stale } => {
                let (mut seen, mut settings) = (self.room.settings.clone(), self.room.settings.clone());
                if stale {
                    seen.issuer = Some("https://never.example".into());
                }
                settings.total_active_users = Some(capacity);
                settings.inlet = if capped { InletKind::MaxSize } else { InletKind::Manual };
                let expected = Some((seen, self.room.state));
                Some(Operation::Reconfigure(Box::new(Reconfigure { expected, settings, state: Some(state) })))
            }
            Step::Reset => Some(Operation::Reset { incarnation: 9 }),
            Step::Clock(_) => Some(Operation::Tick),
            Step::Silence(_) => None,
        }
    }

    fn run(&mut self, step: &Step) {
        if let Step::Clock(by) | Step::Silence(by) = step {
            self.now = UnixMillis(self.now.0.saturating_add_signed(*by));
        }
        let Some(operation) = self.operation(step) else {
            return;
        };
        // A store hands out a bounded number of ended sessions; the rest waits for the next tick.
        let clock = self.now.max(self.room.clock);
        let mut ended: Vec<Session> = self
            .sessions
            .values()
            .filter(|session| session.status == SessionStatus::Active && session.ends_at() <= clock)
            .cloned()
            .collect();
        ended.sort_by_key(|session| session.key);
        ended.truncate(2);
        let mut session = operation.session_key().and_then(|key| self.sessions.get(&key).cloned());
        for swept in &ended {
            self.model.session_ended();
            if let Some(session) = session.as_mut().filter(|session| session.key == swept.key) {
                session.status = SessionStatus::Expired;
            }
        }
        let before = Board::of(&self.room);
        let applied = apply(
            self.room.clone(),
            self.now,
            &operation,
            Reads { session: session.clone(), ended, actor: None },
        );
        let after = Board::of(&applied.room);
        self.model.tick(self.now);
        self.check_answer(&operation, session.as_ref(), &applied.answer);
        self.model.settle();
        self.room = applied.room;
        if matches!(operation, Operation::Reset { .. }) {
            self.sessions.clear();
            self.tickets.clear();
        } else {
            for session in applied.effects.sessions {
                self.sessions.insert(session.key, session);
            }
        }
        if let Ok(Answer::Joined { generation, first, count, entered }) = applied.answer {
            for offset in 0..count {
                let position = Position::new(first.get() + offset).unwrap();
                self.tickets.push(Ticket { lane: 0, generation, position, entered, copy: 0 });
            }
        }
        self.check_figures(&operation, &before, &after);
        self.check_places(&operation, &before, &after);
    }

    /// Moves the model by the same operation and compares the answers.
    fn check_answer(
        &mut self,
        operation: &Operation,
        session: Option<&Session>,
        answer: &Result<Answer, Refusal>,
    ) {
        let machine_now = self.now;
        let model = &mut self.model;
        match operation {
            Operation::Join { count } => {
                assert_eq!(answer.is_ok(), model.state.takes_joins());
                if answer.is_ok() {
                    let Ok(Answer::Joined { first, .. }) = answer else { panic!("{answer:?}") };
                    assert_eq!(first.get(), model.visitors.len() as u64 + 1, "positions follow each other");
                    model.visitors.extend((0..*count).map(|_| Story::Waiting));
                }
            }
            Operation::Claim(claim) => {
                let index = claim.ticket.position.get() as usize - 1;
                let story = model.visitors.get(index).copied();
                match (session, story) {
                    (Some(session), _) => {
                        let same = Answer::Claimed { session: session.clone(), begun: false };
                        assert_eq!(answer, &Ok(same), "a second claim finds the first one's session");
                    }
                    (None, None) => assert_eq!(answer, &Err(Refusal::UnknownTicket)),
                    (None, Some(Story::Left | Story::Lapsed | Story::Claimed)) => {
                        assert_eq!(answer, &Err(Refusal::Gone));
                    }
                    (None, Some(_)) if model.state == RoomState::Closed => {
                        assert_eq!(answer, &Err(Refusal::RoomClosed));
                    }
                    (None, Some(Story::Offered(at))) if model.state.admits() => {
                        let Ok(Answer::Claimed { session, begun: true }) = answer else {
                            panic!("{answer:?}")
                        };
                        assert_eq!(
                            (session.offered_at, session.issued_at_seconds),
                            (at, model.clock.seconds())
                        );
                        model.visitors[index] = Story::Claimed;
                        model.active += 1;
                    }
                    (None, Some(_)) => {
                        assert_eq!(answer, &Err(Refusal::NotServed), "no pass before the turn");
                    }
                }
            }
            Operation::Leave { ticket } => {
                let index = ticket.position.get() as usize - 1;
                match (session, model.visitors.get(index)) {
                    (Some(session), _) => {
                        let ended = matches!(session.status, SessionStatus::Ended(_));
                        assert_eq!(answer.is_err(), ended);
                        if session.status == SessionStatus::Active {
                            model.session_ended();
                        }
                    }
                    (None, Some(Story::Waiting | Story::Offered(_))) => {
                        assert_eq!(answer, &Ok(Answer::Done));
                        model.visitors[index] = Story::Left;
                    }
                    (None, Some(_)) => assert_eq!(answer, &Err(Refusal::Gone)),
                    (None, None) => assert_eq!(answer, &Err(Refusal::UnknownTicket)),
                }
            }
            Operation::Close { outcome, .. } => match session.map(|session| session.status) {
                None => assert_eq!(answer, &Err(Refusal::UnknownSession)),
                Some(SessionStatus::Ended(_)) => assert_eq!(answer, &Err(Refusal::AlreadyEnded)),
                Some(status) => {
                    let Ok(Answer::Session(session)) = answer else { panic!("{answer:?}") };
                    assert_eq!(session.status, SessionStatus::Ended(*outcome));
                    if status == SessionStatus::Active {
                        model.session_ended();
                    }
                }
            },
            Operation::Exits { count } => {
                let counted = (*count).min(model.active - model.credits);
                model.credits += counted;
                assert_eq!(answer, &Ok(Answer::Exited { counted }));
            }
            Operation::Advance { by } => {
                let tail = model.visitors.len() as u64;
                let forward = model.serving.saturating_add_signed(*by);
                let capped = model.settings.inlet.is_capped();
                model.serving =
                    if *by > 0 && capped { forward.min(tail.max(model.serving)) } else { forward };
                model.rests |= *by < 0 && model.settings.inlet != InletKind::Manual;
                let serving = model.serving;
                for story in model.visitors.iter_mut().skip(serving as usize) {
                    if matches!(story, Story::Offered(_)) {
                        *story = Story::Waiting;
                    }
                }
                assert_eq!(answer, &Ok(Answer::Advanced { serving }));
            }
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
            Operation::Reset { .. } => {
                let mut fresh = Model::new(model.settings.clone());
                fresh.clock = machine_now;
                fresh.state = model.state;
                fresh.halted_since = model.halted_since.map(|_| machine_now);
                *model = fresh;
            }
            Operation::Tick
            | Operation::OpenSegment { .. }
            | Operation::Report(_)
            | Operation::ForgetReporter { .. }
            | Operation::Alarms { .. }
            | Operation::SettleRound { .. }
            | Operation::Inspect { .. }
            | Operation::KeepSignatures { .. } => {}
        }
    }

    /// Figures of room and model agree; promises 3 and 5.
    fn check_figures(&self, operation: &Operation, before: &Board, after: &Board) {
        let (room, model) = (&self.room, &self.model);
        assert_eq!(room.serving(), model.serving, "frontier");
        assert_eq!(room.waiting(), model.waiting(), "waiting");
        assert_eq!(room.offers(), model.offers(), "offers");
        assert_eq!(room.active(), model.active - model.credits, "active");
        let operators_word = matches!(
            operation,
            Operation::Advance { .. } | Operation::Reconfigure(_) | Operation::Reset { .. }
        );
        assert!(after.serving >= before.serving || operators_word, "the frontier moved back by itself");
        if let Some(capacity) = room.settings.capacity() {
            let held_before = before.active + before.offers;
            assert!(
                room.held() <= capacity.max(held_before) || operators_word,
                "{} held of {capacity} after {operation:?}",
                room.held()
            );
        }
        assert_eq!((&room.settings, room.state), (&model.settings, model.state), "both or neither");
        assert!(
            matches!(operation, Operation::Reset { .. })
                || before.segments.last().unwrap().generation == after.segments.last().unwrap().generation
        );
    }

    /// Promise 12, and that the board tells each visitor what the rules would.
    fn check_places(&self, operation: &Operation, before: &Board, after: &Board) {
        for (ticket, story) in self.tickets.iter().zip(&self.model.visitors) {
            let standing = after.standing(ticket, self.room.clock);
            match (story, standing) {
                (Story::Waiting, Standing::Waiting { people_ahead }) => {
                    let was = before.standing(ticket, self.room.clock);
                    if let Standing::Waiting { people_ahead: ahead_before } = was {
                        let by_hand = matches!(operation, Operation::Advance { .. })
                            || after.settings != before.settings;
                        assert!(people_ahead <= ahead_before || by_hand, "a place got worse");
                    }
                }
                (Story::Offered(at), Standing::Offered { remaining_millis }) => {
                    let window = self.model.settings.claim_window_millis();
                    let clock = self.model.halted_since.unwrap_or(self.model.clock).max(*at);
                    assert_eq!(remaining_millis, window.map(|window| at.0 + window - clock.0));
                }
                (Story::Claimed | Story::Left | Story::Lapsed, _) => {}
                other => panic!("{other:?}"),
            }
        }
        self.check_one_place_by_asking(after);
    }

    /// The room itself tells one visitor, another one after each step, what his story says.
    fn check_one_place_by_asking(&self, after: &Board) {
        let stories: Vec<_> = self.tickets.iter().zip(&self.model.visitors).collect();
        let chosen = usize::try_from(after.version).unwrap() % stories.len().max(1);
        let Some(&(&ticket, story)) = stories.get(chosen) else { return };
        let key = SessionKey { generation: ticket.generation, position: ticket.position };
        let reads = Reads { session: self.sessions.get(&key).cloned(), ..Reads::default() };
        let asked = apply(self.room.clone(), self.room.clock, &Operation::Inspect { ticket }, reads);
        assert!(!asked.effects.changed, "asking changes nothing");
        let Ok(Answer::Place(place)) = asked.answer else { panic!("{:?}", asked.answer) };
        let fits = match story {
            Story::Offered(_) if self.room.state.admits() => place == Place::Offered,
            Story::Waiting | Story::Offered(_) => place == Place::Waiting,
            Story::Claimed => matches!(place, Place::Claimed(_)),
            Story::Left | Story::Lapsed => place == Place::Gone,
        };
        assert!(fits, "{story:?} is told {place:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2_000),
        ..ProptestConfig::default()
    })]

    /// Random interleavings of joins, claims, no-shows, leaves, closes, anonymous exits, hand advances both ways, capacity
    /// raised and lowered, inlet switched, expiry switched, states, resets and clock steps.
    #[test]
    fn promises_3_to_6_and_12_hold_after_every_operation(steps in steps()) {
        let mut play = Play::new();
        for step in &steps {
            play.run(step);
        }
    }
}
