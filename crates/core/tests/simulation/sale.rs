//! A sale, event by event: visitors, the room (the very rules that run in production) and the origin behind it.
//!
//! *A visitor* joins, is told how long it will take, and from then on polls as often as told. An *absent* visitor never polls
//! again, and tells nobody. At their turn visitors claim a pass, are at the origin within a second and a half, stay for an
//! exponential time, and the origin tells the room within half a second that they have left, unless it only reports how many slots
//! are free. In an auction visitors check in instead: the server holds on to as many as there are slots, the earliest first, and
//! sends the others away until the next poll.
//!
//! There is no clock and no chance but the seed, so a sale is the same each time.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use anteroom_core::estimate::next_poll_seconds;
use anteroom_core::{
    Answer, Board, Claim, Generation, Operation, Outcome, Position, Reads, Refusal, Report, RequestId, Room,
    Session, SessionKey, Settings, Standing, Ticket, UnixMillis, Wait, apply,
};

use super::origin::Origin;
use super::random::Random;

pub(crate) const SECOND: u64 = 1_000;
pub(crate) const MINUTE: u64 = 60 * SECOND;
/// When the room opens.
pub(crate) const START: UnixMillis = UnixMillis(1_800_000_000_000);
/// A visit, on average.
pub(crate) const VISIT_MEAN_MILLIS: u64 = 5 * MINUTE;
/// The crowd at the door comes within this time.
const CROWD_MILLIS: u64 = MINUTE;
/// Readers see a board that is at most this old.
const BOARD_AGE_MILLIS: u64 = 250;
/// Time between two reports of the origin.
const REPORT_SPACING_MILLIS: u64 = 2 * SECOND;
/// Time between two points of a plot.
const POINT_SPACING_MILLIS: u64 = 10 * SECOND;

/// What the origin tells the room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OriginReports {
    /// Each visit that is over, by name.
    Names,
    /// How many slots are free and how many passes have entered.
    Slots,
    /// Names, and latency and errors.
    Health,
}

/// What happens to the origin or the room while the sale runs.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Capacity(u64),
    Strength(u64),
    Failing(u32),
    Silence(bool),
}

/// A sale to be played.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) settings: Settings,
    pub(crate) origin: Origin,
    pub(crate) origin_reports: OriginReports,
    /// How many come within the first minute.
    pub(crate) crowd: u64,
    /// Average time between two later ones.
    pub(crate) arrival_spacing_millis: u64,
    pub(crate) absent_percent: u64,
    /// What is measured begins here; before, the room is still filling.
    pub(crate) warm_up_millis: u64,
    /// Nobody comes any more.
    pub(crate) doors_close_millis: u64,
    /// Whether it is over when the doors close, even if visitors still wait.
    pub(crate) stops: bool,
    /// After the opening.
    pub(crate) changes: Vec<(u64, Change)>,
    pub(crate) seed: u64,
}

/// A visitor, by position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visitor {
    pub(crate) joined_at: UnixMillis,
    /// The estimate at the join.
    pub(crate) told: Option<Wait>,
    /// When the pass was issued.
    pub(crate) admitted_at: Option<UnixMillis>,
}

/// The state of affairs, for plots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    /// Since the opening.
    pub(crate) at_millis: u64,
    pub(crate) capacity: u64,
    pub(crate) inside: u64,
    pub(crate) latency_millis: u64,
    pub(crate) errors_per_million: u32,
}

/// What came of a sale.
pub(crate) struct Played {
    pub(crate) visitors: Vec<Visitor>,
    pub(crate) points: Vec<Point>,
    /// Of the slots' time between warm-up and closing, in thousandths.
    pub(crate) used_thousandths: u64,
    pub(crate) most_inside: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive,
    Poll(u64),
    Deliver(u64),
    Enter(u64),
    Depart(u64),
    Close(u64),
    Sample,
    ReportArrives { sequence: u64, free: u64, entered: u64, latency_millis: u64, errors_per_million: u32 },
    Round,
    Change(usize),
    Point,
}

/// A sale that runs.
struct Sale {
    scenario: Scenario,
    random: Random,
    now: UnixMillis,
    /// Always there, but while an operation has it.
    room: Option<Room>,
    generation: Generation,
    board: Board,
    board_at: UnixMillis,
    events: BinaryHeap<Reverse<(UnixMillis, u64, Event)>>,
    scheduled: u64,
    visitors: Vec<Visitor>,
    sessions: Vec<Option<Session>>,
    ends: BTreeSet<(UnixMillis, u64)>,
    checked_in: BTreeSet<u64>,
    turned_away: bool,
    is_silent: bool,
    /// Who is present and has no pass yet.
    still_waiting: u64,
    used_since: UnixMillis,
    used: u128,
    points: Vec<Point>,
}

/// Plays a sale until nobody waits any more.
pub(crate) fn play(scenario: &Scenario) -> Played {
    scenario.settings.check().unwrap();
    let room = Room::open(scenario.settings.clone(), START, 1);
    let mut sale = Sale {
        scenario: scenario.clone(),
        random: Random::seeded(scenario.seed),
        now: START,
        generation: room.newest().generation,
        board: Board::of(&room),
        board_at: START,
        room: Some(room),
        events: BinaryHeap::new(),
        scheduled: 0,
        visitors: Vec::new(),
        sessions: Vec::new(),
        ends: BTreeSet::new(),
        checked_in: BTreeSet::new(),
        turned_away: false,
        is_silent: false,
        still_waiting: 0,
        used_since: START.plus(scenario.warm_up_millis),
        used: 0,
        points: Vec::new(),
    };
    sale.begin();
    sale.run();
    sale.account(START.plus(scenario.doors_close_millis));
    let slot_time = u128::from(scenario.doors_close_millis - scenario.warm_up_millis)
        * u128::from(sale.scenario.origin.slots);
    Played {
        used_thousandths: u64::try_from(sale.used * 1000 / slot_time).unwrap(),
        most_inside: sale.scenario.origin.most_inside,
        visitors: sale.visitors,
        points: sale.points,
    }
}

impl Sale {
    fn begin(&mut self) {
        for _ in 0..self.scenario.crowd {
            let after = self.random.below(CROWD_MILLIS);
            self.schedule(after, Event::Arrive);
        }
        let mut after = CROWD_MILLIS;
        while after < self.scenario.doors_close_millis {
            self.schedule(after, Event::Arrive);
            after += self.random.exponential(self.scenario.arrival_spacing_millis);
        }
        if self.scenario.origin_reports != OriginReports::Names {
            self.schedule(0, Event::Sample);
        }
        if let Some(auction) = self.room().auction.as_ref() {
            let round = auction.round;
            self.schedule(round.since(self.now), Event::Round);
        } else if self.scenario.settings.is_auction() {
            self.schedule(0, Event::Round);
        }
        for index in 0..self.scenario.changes.len() {
            self.schedule(self.scenario.changes[index].0, Event::Change(index));
        }
        self.schedule(0, Event::Point);
    }

    fn schedule(&mut self, after_millis: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((self.now.plus(after_millis), self.scheduled, event)));
    }

    fn room(&self) -> &Room {
        self.room.as_ref().unwrap()
    }

    fn run(&mut self) {
        let doors_close = START.plus(self.scenario.doors_close_millis);
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            // The owner of a room runs when its rules have something to do.
            while let Some(due) = self.room().next_due().filter(|&due| due > self.room().clock && due < at) {
                self.now = due;
                self.apply(&Operation::Tick).unwrap();
            }
            self.now = at;
            if at >= doors_close && (self.scenario.stops || self.still_waiting == 0) {
                return;
            }
            assert!(at < doors_close.plus(1000 * MINUTE), "somebody waits for ever");
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive => self.arrive(),
            Event::Poll(position) => self.poll(position),
            Event::Deliver(position) => self.claim(position),
            Event::Enter(position) => self.enter(position),
            Event::Depart(position) => self.depart(position),
            Event::Close(position) => {
                let key = self.ticket(position).into_key();
                // A visitor who stayed until the pass ran out is gone already.
                let _ = self.apply(&Operation::Close { key, outcome: Outcome::Completed });
            }
            Event::Sample => self.sample(),
            Event::ReportArrives { sequence, free, entered, latency_millis, errors_per_million } => {
                let by_slots = self.scenario.origin_reports == OriginReports::Slots;
                let report = Report {
                    reporter: "origin".into(),
                    sequence: Some(sequence),
                    free: by_slots.then_some(free),
                    entered: by_slots.then_some(entered),
                    latency_p95_millis: (!by_slots).then_some(latency_millis),
                    errors_per_million: (!by_slots).then_some(errors_per_million),
                    in_flight: None,
                };
                self.apply(&Operation::Report(report)).unwrap();
            }
            Event::Round => self.settle_round(),
            Event::Change(index) => self.change(index),
            Event::Point => self.point(),
        }
    }

    fn apply(&mut self, operation: &Operation) -> Result<Answer, Refusal> {
        let room = self.room.take().unwrap();
        let held_before = room.held();
        let over = self.ends.range(..=(self.now, u64::MAX)).map(|&(_, position)| position);
        let ended: Vec<Session> =
            over.filter_map(|position| self.sessions[index_of(position)].clone()).collect();
        self.ends = self.ends.split_off(&(self.now, u64::MAX));
        let session = operation.session_key().and_then(|key| {
            let session = self.sessions[index_of(key.position.get())].clone();
            session.filter(|session| ended.iter().all(|one| one.key != session.key))
        });
        let applied = apply(room, self.now, operation, Reads { session, ended, ..Reads::default() });
        for session in applied.effects.sessions {
            let position = session.key.position.get();
            if session.status == anteroom_core::SessionStatus::Active {
                self.ends.insert((session.ends_at(), position));
            }
            self.sessions[index_of(position)] = Some(session);
        }
        let room = applied.room;
        if let Some(capacity) = room.capacity() {
            assert!(room.held() <= capacity.max(held_before), "overshoot: {} of {capacity}", room.held());
        }
        self.room = Some(room);
        applied.answer
    }

    fn ticket(&self, position: u64) -> PlainTicket {
        PlainTicket { generation: self.generation, position: Position::new(position).unwrap() }
    }

    fn arrive(&mut self) {
        let answer = self.apply(&Operation::Join { count: 1 }).unwrap();
        let Answer::Joined { first, .. } = answer else { panic!("{answer:?}") };
        let position = first.get();
        assert_eq!(index_of(position), self.visitors.len());
        let is_absent = self.random.percent(self.scenario.absent_percent);
        let told = if is_absent { None } else { self.tell(position) };
        self.visitors.push(Visitor { joined_at: self.now, told, admitted_at: None });
        self.sessions.push(None);
        if !is_absent {
            self.still_waiting += 1;
            self.poll(position);
        }
    }

    /// The estimate that a visitor reads at the join; none if admitted immediately.
    fn tell(&self, position: u64) -> Option<Wait> {
        let (board, ticket) = (Board::of(self.room()), self.ticket(position).into_ticket());
        match board.standing(&ticket, self.now) {
            Standing::Waiting { people_ahead } => board.wait(&ticket, people_ahead, self.now),
            _ => None,
        }
    }

    fn read_board(&mut self) -> &Board {
        if self.now.since(self.board_at) >= BOARD_AGE_MILLIS {
            self.board = Board::of(self.room());
            self.board_at = self.now;
        }
        &self.board
    }

    fn poll(&mut self, position: u64) {
        let (now, ticket) = (self.now, self.ticket(position).into_ticket());
        let board = self.read_board();
        let standing = board.standing(&ticket, now);
        let (wait, ahead) = match standing {
            Standing::Waiting { people_ahead } => (board.wait(&ticket, people_ahead, now), people_ahead),
            _ => (None, 0),
        };
        if matches!(standing, Standing::Offered { .. }) {
            self.claim(position);
        } else if !self.scenario.settings.is_auction() || !self.checks_in(position) {
            let again = next_poll_seconds(ahead, wait.map(|wait| wait.p50_seconds), position);
            self.schedule(again * SECOND, Event::Poll(position));
        }
    }

    /// Whether the server holds on to the visitor until the end of the round.
    fn checks_in(&mut self, position: u64) -> bool {
        let Some(auction) = self.room().auction.as_ref() else { return false };
        let (free, spare) = (auction.free, auction.spare);
        if spare > 0 && self.try_claim(position) {
            return true;
        }
        self.checked_in.insert(position);
        if self.checked_in.len() as u64 > free {
            self.turned_away = true;
            let displaced = self.checked_in.pop_last().unwrap();
            if displaced == position {
                return false;
            }
            let again = next_poll_seconds(0, Some(0), displaced);
            self.schedule(again * SECOND, Event::Poll(displaced));
        }
        true
    }

    fn settle_round(&mut self) {
        // An auction opens with its first operation.
        self.apply(&Operation::Tick).unwrap();
        let round = self.room().auction.as_ref().unwrap().round;
        if self.now >= round {
            let checked_in = std::mem::take(&mut self.checked_in);
            let turned_away = std::mem::take(&mut self.turned_away);
            let present = checked_in.iter().map(|&position| self.ticket(position).into_key()).collect();
            let answer =
                self.apply(&Operation::SettleRound { round, present, turned_away, alone: true }).unwrap();
            let Answer::Won { winners } = answer else { panic!("{answer:?}") };
            let earliest: Vec<u64> = checked_in.iter().copied().take(winners.len()).collect();
            let won: Vec<u64> = winners.iter().map(|key| key.position.get()).collect();
            assert_eq!(won, earliest, "the earliest of those present win");
            for position in checked_in {
                if won.contains(&position) {
                    let delivery = self.random.between(20, 200);
                    self.schedule(delivery, Event::Deliver(position));
                } else {
                    self.schedule(next_poll_seconds(0, Some(0), position) * SECOND, Event::Poll(position));
                }
            }
        }
        let next = self.room().auction.as_ref().unwrap().round;
        self.schedule(next.since(self.now), Event::Round);
    }

    fn claim(&mut self, position: u64) {
        // A board may have shown an offer that is gone; a visitor who is absent for so long is not let in.
        assert!(self.try_claim(position), "an offer is good for a visitor who polled in time");
    }

    fn try_claim(&mut self, position: u64) -> bool {
        let claim = Claim {
            ticket: self.ticket(position).into_ticket(),
            request_id: RequestId(u128::from(position).to_be_bytes()),
            issuer: String::new(),
            validity_seconds: None,
            key_id: String::new(),
            stay_millis: None,
            prefix: None,
        };
        if self.apply(&Operation::Claim(claim)).is_err() {
            return false;
        }
        self.visitors[index_of(position)].admitted_at = Some(self.now);
        self.still_waiting -= 1;
        let way = self.random.between(300, 1500);
        self.schedule(way, Event::Enter(position));
        true
    }

    fn enter(&mut self, position: u64) {
        self.account(self.now);
        self.scenario.origin.enter();
        let session = self.sessions[index_of(position)].as_ref().unwrap();
        assert!(
            session.enter_by_seconds.is_none_or(|by| self.now.seconds() <= by),
            "the visitor came in time"
        );
        let pass_ends_in = session.ends_at().since(self.now);
        let stay = self.random.exponential(VISIT_MEAN_MILLIS).min(pass_ends_in);
        self.schedule(stay, Event::Depart(position));
    }

    fn depart(&mut self, position: u64) {
        self.account(self.now);
        self.scenario.origin.depart();
        if self.scenario.origin_reports != OriginReports::Slots {
            let delay = self.random.between(50, 500);
            self.schedule(delay, Event::Close(position));
        }
    }

    /// Adds up the time of slots in use, up to a moment before the doors close.
    fn account(&mut self, until: UnixMillis) {
        let until = until.min(START.plus(self.scenario.doors_close_millis));
        let time = until.since(self.used_since);
        self.used += u128::from(time) * u128::from(self.scenario.origin.inside);
        self.used_since = self.used_since.max(until);
    }

    /// The origin counts; what it counted arrives a little later.
    fn sample(&mut self) {
        let origin = &self.scenario.origin;
        let arrival = Event::ReportArrives {
            sequence: self.now.since(START),
            free: origin.slots.saturating_sub(origin.inside),
            entered: origin.entered,
            latency_millis: origin.measured_latency_millis(&mut self.random),
            errors_per_million: origin.errors_per_million(),
        };
        if !self.is_silent {
            let way = self.random.between(20, 400);
            self.schedule(way, arrival);
        }
        self.schedule(REPORT_SPACING_MILLIS, Event::Sample);
    }

    fn change(&mut self, index: usize) {
        match self.scenario.changes[index].1.clone() {
            Change::Capacity(capacity) => {
                self.scenario.settings.total_active_users = Some(capacity);
                let settings = self.scenario.settings.clone();
                self.apply(&Operation::reconfigure(settings, None)).unwrap();
            }
            Change::Strength(strength) => self.scenario.origin.strength = strength,
            Change::Failing(per_million) => self.scenario.origin.failing_per_million = per_million,
            Change::Silence(is_silent) => self.is_silent = is_silent,
        }
    }

    fn point(&mut self) {
        let origin = &self.scenario.origin;
        self.points.push(Point {
            at_millis: self.now.since(START),
            capacity: self.room().capacity().unwrap_or(origin.slots),
            inside: origin.inside,
            latency_millis: origin.latency_millis(),
            errors_per_million: origin.errors_per_million(),
        });
        self.schedule(POINT_SPACING_MILLIS, Event::Point);
    }
}

/// What a ticket says that matters here.
#[derive(Clone, Copy)]
struct PlainTicket {
    generation: Generation,
    position: Position,
}

impl PlainTicket {
    const fn into_ticket(self) -> Ticket {
        Ticket { lane: 0, generation: self.generation, position: self.position, entered: 0, copy: 0 }
    }

    const fn into_key(self) -> SessionKey {
        SessionKey { generation: self.generation, position: self.position }
    }
}

fn index_of(position: u64) -> usize {
    usize::try_from(position - 1).unwrap()
}
