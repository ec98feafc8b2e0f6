//! A room with its store and its clock, played by hand.

use std::collections::BTreeMap;

use anteroom_core::{
    Answer, Board, Claim, Event, InletKind, MAX_POSITION, Operation, Outcome, Position, Reads, Refusal,
    RequestId, Room, RoomState, Session, SessionKey, SessionStatus, Settings, Standing, Ticket, UnixMillis,
    apply,
};

pub(crate) const START: UnixMillis = UnixMillis(1_800_000_000_000);
pub(crate) const SECOND: u64 = 1_000;

/// A room with its store and its clock, played by hand.
pub(crate) struct Story {
    pub(crate) room: Room,
    pub(crate) now: UnixMillis,
    pub(crate) sessions: BTreeMap<SessionKey, Session>,
    pub(crate) events: Vec<Event>,
    /// How long a board takes to all nodes.
    pub(crate) spread_millis: u64,
}

impl Story {
    pub(crate) fn with(settings: Settings) -> Self {
        settings.check().unwrap();
        Self {
            room: Room::open(settings, START, 1),
            now: START,
            sessions: BTreeMap::new(),
            events: vec![],
            spread_millis: 0,
        }
    }

    /// The operator alone moves the frontier; offers lapse after 900 seconds.
    pub(crate) fn manual() -> Self {
        Self::with(Settings::default())
    }

    /// So many may be inside; offers lapse after 120 seconds.
    pub(crate) fn max_size(capacity: u64) -> Self {
        Self::with(Settings {
            inlet: InletKind::MaxSize,
            total_active_users: Some(capacity),
            ..Settings::default()
        })
    }

    pub(crate) fn attempt(&mut self, operation: &Operation) -> Result<Answer, Refusal> {
        let ended = self.sessions.values().filter(|session| {
            session.status == SessionStatus::Active && session.ends_at() <= self.now.max(self.room.clock)
        });
        let ended: Vec<Session> = ended.cloned().collect();
        let key = operation.session_key();
        // The operation sees its session as the tick before it leaves it.
        let mut session = key.and_then(|key| self.sessions.get(&key).cloned());
        if let Some(session) = &mut session
            && ended.iter().any(|ended| ended.key == session.key)
        {
            session.status = session.outcome().map_or(SessionStatus::Expired, SessionStatus::Ended);
        }
        let reads = Reads { session, ended, spread_millis: self.spread_millis, ..Reads::default() };
        let applied = apply(self.room.clone(), self.now, operation, reads);
        self.room = applied.room;
        for session in applied.effects.sessions {
            self.sessions.insert(session.key, session);
        }
        self.sessions.retain(|key, _| !applied.effects.closed_generations.contains(&key.generation));
        self.events.extend(applied.effects.events);
        applied.answer
    }

    #[expect(clippy::needless_pass_by_value, reason = "a story reads better without references")]
    pub(crate) fn does(&mut self, operation: Operation) -> Answer {
        self.attempt(&operation).unwrap()
    }

    pub(crate) fn join(&mut self) -> Ticket {
        self.join_many(1)[0]
    }

    pub(crate) fn join_many(&mut self, count: u64) -> Vec<Ticket> {
        let answer = self.does(Operation::Join { count });
        let Answer::Joined { generation, first, count, entered } = answer else { panic!("{answer:?}") };
        let ticket = |position| Ticket {
            lane: 0,
            generation,
            position: Position::new(position).unwrap(),
            entered,
            copy: 0,
        };
        (first.get()..first.get() + count).map(ticket).collect()
    }

    pub(crate) fn try_claim(&mut self, ticket: Ticket) -> Result<Session, Refusal> {
        self.try_claim_for(ticket, None)
    }

    /// With a stay of so many milliseconds, if a cookie goes with it.
    pub(crate) fn try_claim_for(
        &mut self,
        ticket: Ticket,
        stay_millis: Option<u64>,
    ) -> Result<Session, Refusal> {
        let claim = Claim {
            ticket,
            request_id: RequestId(u128::from(ticket.position.get()).to_be_bytes()),
            issuer: "https://issuer.example".into(),
            validity_seconds: None,
            key_id: "key".into(),
            stay_millis,
            prefix: None,
        };
        self.attempt(&Operation::Claim(claim)).map(|answer| match answer {
            Answer::Claimed { session, .. } => session,
            other => panic!("{other:?}"),
        })
    }

    pub(crate) fn claim(&mut self, ticket: Ticket) -> Session {
        self.try_claim(ticket).unwrap()
    }

    pub(crate) fn close(&mut self, session: &Session) -> Result<Answer, Refusal> {
        self.attempt(&Operation::Close { key: session.key, outcome: Outcome::Completed })
    }

    pub(crate) fn advance(&mut self, by: i64) -> u64 {
        match self.does(Operation::Advance { by }) {
            Answer::Advanced { serving } => serving,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Settings)) {
        let mut settings = (*self.room.settings).clone();
        change(&mut settings);
        self.does(Operation::reconfigure(settings, None));
    }

    pub(crate) fn set(&mut self, state: RoomState) {
        self.does(Operation::reconfigure((*self.room.settings).clone(), Some(state)));
    }

    pub(crate) fn later(&mut self, seconds: u64) {
        self.now = self.now.plus(seconds * SECOND);
        self.does(Operation::Tick);
    }

    pub(crate) fn board(&self) -> Board {
        Board::of(&self.room)
    }

    /// Seconds until the offer of a ticket lapses.
    pub(crate) fn remaining_seconds(&self, ticket: &Ticket) -> Option<u64> {
        match self.board().standing(ticket, self.now) {
            Standing::Offered { remaining_millis } => remaining_millis.map(|millis| millis / SECOND),
            other => panic!("{other:?}"),
        }
    }
}

/// A room whose line has so many places left.
pub(crate) fn near_the_end(mut story: Story, places: u64) -> Story {
    let end = MAX_POSITION - places;
    let segment = story.room.segments.back_mut().unwrap();
    (segment.base, segment.joined, segment.serving, segment.floor) = (end, end, end, end);
    story
}
