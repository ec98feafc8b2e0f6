//! A true origin behind the room: processes with a capacity each, passes that take their time, reports that are late, overtaken or
//! lost. Whatever happens, more visitors than the origin can take are never inside; and in the end no slot is lost.
//!
//! What is assumed is what `reports.rs` says: a report is no older than `REPORT_AGE_MAX_MILLIS` when it arrives, a first use
//! after `enter_by` (in whole seconds, as clocks of origins compare them) is refused, and `free` and `entered` are counted
//! together.

use std::collections::BTreeMap;

use anteroom_core::reports::REPORT_AGE_MAX_MILLIS;
use anteroom_core::settings::{Seconds, ShortSeconds};
use anteroom_core::{
    Answer, Claim, Discipline, InletKind, Operation, Outcome, Position, Reads, Report, RequestId, Room,
    Session, SessionKey, Settings, Ticket, UnixMillis, apply,
};
use proptest::prelude::*;

use super::cases;

const START: UnixMillis = UnixMillis(1_800_000_000_000);

#[derive(Debug, Clone)]
enum Happening {
    Join(u64),
    /// A waiting visitor claims a pass.
    Claim(usize),
    /// The round ends with those present whose bit is set.
    SettleRound(u64),
    /// A visitor uses a pass for the first time, at a process.
    Enter(usize, usize),
    /// A visitor inside goes; the room is told, by name or without, or not.
    Go(usize, u8),
    /// A process counts and sends; the report arrives so much later, or never.
    Report {
        process: usize,
        delay_millis: u64,
        lost: bool,
    },
    /// A process counts from nothing; its visitors stay, or are gone.
    Restart {
        process: usize,
        empty: bool,
    },
    Forget(usize),
    Rounds(u64),
    EnterBy(u64),
    Reset,
    OpenSegment,
    Later(u64),
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let index = || any::<prop::sample::Index>().prop_map(|index| index.index(1_000));
    let happening = prop_oneof![
        4 => (1u64..5).prop_map(Happening::Join),
        10 => index().prop_map(Happening::Claim),
        4 => any::<u64>().prop_map(Happening::SettleRound),
        9 => (index(), index()).prop_map(|(pass, process)| Happening::Enter(pass, process)),
        5 => (index(), 0u8..3).prop_map(|(inside, told)| Happening::Go(inside, told)),
        12 => (index(), 0..=REPORT_AGE_MAX_MILLIS, prop::bool::weighted(0.15))
            .prop_map(|(process, delay_millis, lost)| Happening::Report { process, delay_millis, lost }),
        1 => (index(), any::<bool>()).prop_map(|(process, empty)| Happening::Restart { process, empty }),
        1 => index().prop_map(Happening::Forget),
        1 => (1u64..12).prop_map(Happening::Rounds),
        1 => (1u64..30).prop_map(Happening::EnterBy),
        1 => Just(Happening::Reset),
        1 => Just(Happening::OpenSegment),
        8 => (0u64..2_500).prop_map(Happening::Later),
        2 => (2_500u64..40_000).prop_map(Happening::Later),
    ];
    prop::collection::vec(happening, 1..250)
}

/// One process of the origin.
#[derive(Debug, Clone)]
struct Process {
    capacity: u64,
    inside: u64,
    entered: u64,
    sequence: u64,
    /// Whether it tells how many passes it has seen, and whether it numbers its reports.
    counts: bool,
    numbers: bool,
}

fn processes() -> impl Strategy<Value = Vec<Process>> {
    let process = (1u64..6, any::<bool>(), any::<bool>()).prop_map(|(capacity, counts, numbers)| Process {
        capacity,
        inside: 0,
        entered: 0,
        sequence: 0,
        counts,
        numbers,
    });
    // All of them count, none does, or some do.
    (prop::collection::vec(process, 1..4), prop::option::of(any::<bool>())).prop_map(
        |(mut processes, all)| {
            if let Some(all) = all {
                for process in &mut processes {
                    process.counts = all;
                }
            }
            processes
        },
    )
}

/// A pass that was given out.
#[derive(Debug, Clone)]
struct Pass {
    key: SessionKey,
    /// The last whole second in which it may be used for the first time.
    enter_by_seconds: u64,
}

struct World {
    room: Room,
    now: UnixMillis,
    tickets: Vec<Ticket>,
    sessions: BTreeMap<SessionKey, Session>,
    processes: Vec<Process>,
    passes_in_flight: Vec<Pass>,
    inside: Vec<(Pass, usize)>,
    /// By arrival; of two at the same moment, the one sent last comes first.
    travelling: Vec<(UnixMillis, Report)>,
}

fn name_of(process: usize) -> String {
    format!("origin-{process}")
}

impl World {
    fn new(processes: Vec<Process>, auction: bool) -> Self {
        let settings = Settings {
            inlet: if auction { InletKind::Manual } else { InletKind::MaxSize },
            discipline: if auction { Discipline::Auction } else { Discipline::Counter },
            // More than the origin can take: only its reports hold the room back.
            total_active_users: Some(1_000),
            queue_position_expiry_period: Seconds::new(20),
            ..Settings::default()
        };
        let mut world = Self {
            room: Room::open(settings, START, 1),
            now: START,
            tickets: vec![],
            sessions: BTreeMap::new(),
            processes,
            passes_in_flight: vec![],
            inside: vec![],
            travelling: vec![],
        };
        // Passes given out before the first report know no `enter_by`.
        let first = world.count(0);
        world.does(&Operation::Report(first));
        world
    }

    fn does(&mut self, operation: &Operation) -> Option<Answer> {
        let session = operation.session_key().and_then(|key| self.sessions.get(&key).cloned());
        let reads = Reads { session, ..Reads::default() };
        let applied = apply(self.room.clone(), self.now, operation, reads);
        self.room = applied.room;
        for session in applied.effects.sessions {
            self.sessions.insert(session.key, session);
        }
        let closed = applied.effects.closed_generations;
        self.tickets.retain(|ticket| !closed.contains(&ticket.generation));
        self.sessions.retain(|key, _| !closed.contains(&key.generation));
        applied.answer.ok()
    }

    /// A process counts what is free and what has entered, together.
    fn count(&mut self, process: usize) -> Report {
        let reporter = name_of(process);
        let process = &mut self.processes[process];
        process.sequence += 1;
        Report {
            reporter,
            sequence: process.numbers.then_some(process.sequence),
            free: Some(process.capacity.saturating_sub(process.inside)),
            entered: process.counts.then_some(process.entered),
            ..Report::default()
        }
    }

    fn true_capacity(&self) -> u64 {
        self.processes.iter().map(|process| process.capacity).sum()
    }

    fn true_inside(&self) -> u64 {
        self.processes.iter().map(|process| process.inside).sum()
    }

    /// Time passes, and on the way reports arrive.
    fn later(&mut self, millis: u64) {
        let then = self.now.plus(millis);
        while let Some(next) = self.travelling.iter().map(|(at, _)| *at).filter(|at| *at <= then).min() {
            let index = self.travelling.iter().rposition(|(at, _)| *at == next).unwrap();
            let (at, report) = self.travelling.remove(index);
            self.now = at;
            self.does(&Operation::Report(report));
        }
        self.now = then;
        self.does(&Operation::Tick);
        let seconds = self.now.seconds();
        self.passes_in_flight.retain(|pass| pass.enter_by_seconds >= seconds);
    }

    fn claim(&mut self, ticket: Ticket) {
        let claim = Claim {
            ticket,
            request_id: RequestId([0; 16]),
            issuer: "issuer".into(),
            validity_seconds: None,
            key_id: "key".into(),
            stay_millis: None,
            prefix: None,
        };
        if let Some(Answer::Claimed { session, begun: true }) = self.does(&Operation::Claim(claim)) {
            let enter_by_seconds =
                session.enter_by_seconds.expect("the origin reports, so the pass is limited");
            self.passes_in_flight.push(Pass { key: session.key, enter_by_seconds });
        }
    }

    fn enter(&mut self, pass: usize, process: usize) {
        if self.passes_in_flight.is_empty() {
            return;
        }
        let pass = self.passes_in_flight.swap_remove(pass % self.passes_in_flight.len());
        let (inside, capacity) = (self.true_inside(), self.true_capacity());
        assert!(inside < capacity, "one more than {capacity} came in");
        // The load balancer sends nobody to a process that is full.
        let count = self.processes.len();
        let mut in_turn = (0..count).map(|offset| (process + offset) % count);
        let process = in_turn.find(|&at| self.processes[at].inside < self.processes[at].capacity);
        let process = process.expect("one has room, because all together have");
        self.processes[process].inside += 1;
        self.processes[process].entered += 1;
        self.inside.push((pass, process));
    }

    fn go(&mut self, visitor: usize, told: u8) {
        if self.inside.is_empty() {
            return;
        }
        let (pass, process) = self.inside.swap_remove(visitor % self.inside.len());
        self.processes[process].inside -= 1;
        match told {
            0 => self.does(&Operation::Close { key: pass.key, outcome: Outcome::Completed }),
            1 => self.does(&Operation::Exits { count: 1 }),
            _ => None,
        };
    }

    fn settle_round(&mut self, present: u64) {
        let Some(round) = self.room.auction.as_ref().map(|auction| auction.round) else { return };
        self.later(round.since(self.now));
        let here = self.tickets.iter().enumerate().filter(|(index, _)| present >> (index % 64) & 1 == 1);
        let present: Vec<SessionKey> = here
            .map(|(_, ticket)| SessionKey { generation: ticket.generation, position: ticket.position })
            .collect();
        let Some(Answer::Won { winners }) =
            self.does(&Operation::SettleRound { round, present, turned_away: false, alone: true })
        else {
            return;
        };
        // Most winners are there when they are told.
        let tickets: Vec<Ticket> = self
            .tickets
            .iter()
            .filter(|ticket| {
                winners.contains(&SessionKey { generation: ticket.generation, position: ticket.position })
            })
            .copied()
            .collect();
        tickets.into_iter().skip(usize::from(winners.len() > 2)).for_each(|ticket| self.claim(ticket));
    }

    fn set(&mut self, change: impl FnOnce(&mut Settings)) {
        let mut settings = (*self.room.settings).clone();
        change(&mut settings);
        self.does(&Operation::reconfigure(settings, None));
    }

    fn happens(&mut self, happening: &Happening) {
        match *happening {
            Happening::Join(count) => {
                let Some(Answer::Joined { generation, first, count, entered }) =
                    self.does(&Operation::Join { count })
                else {
                    return;
                };
                for offset in 0..count {
                    let position = Position::new(first.get() + offset).unwrap();
                    self.tickets.push(Ticket { lane: 0, generation, position, entered, copy: 0 });
                }
            }
            Happening::Claim(index) if !self.tickets.is_empty() => {
                self.claim(self.tickets[index % self.tickets.len()]);
            }
            Happening::Claim(_) => {}
            Happening::SettleRound(present) => self.settle_round(present),
            Happening::Enter(pass, process) => self.enter(pass, process),
            Happening::Go(visitor, told) => self.go(visitor, told),
            Happening::Report { process, delay_millis, lost } => {
                let report = self.count(process % self.processes.len());
                if !lost {
                    self.travelling.push((self.now.plus(delay_millis), report));
                }
            }
            Happening::Restart { process, empty } => {
                let process = process % self.processes.len();
                self.processes[process].entered = 0;
                // Without numbers nobody could tell a report from before from one from after it.
                let name = name_of(process);
                let numbers = self.processes[process].numbers;
                self.travelling.retain(|(_, report)| numbers || report.reporter != name);
                if empty {
                    self.inside.retain(|(_, at)| *at != process);
                    self.processes[process].inside = 0;
                }
            }
            Happening::Forget(process) => {
                // With the last of them the bound goes too, in a room that has a capacity: that is the operator's word.
                let spared = self.room.settings.is_auction() || self.room.reports.reporters.len() > 1;
                let reporter = name_of(process % self.processes.len());
                // Nobody forgets one that still sends.
                if spared && !self.travelling.iter().any(|(_, report)| report.reporter == reporter) {
                    self.does(&Operation::ForgetReporter { reporter });
                }
            }
            Happening::Rounds(seconds) => {
                self.set(|settings| settings.round_seconds = ShortSeconds::new(seconds).unwrap());
            }
            Happening::EnterBy(seconds) => {
                self.set(|settings| settings.enter_by_seconds = ShortSeconds::new(seconds).unwrap());
            }
            Happening::Reset => {
                self.does(&Operation::Reset { incarnation: 3 });
            }
            Happening::OpenSegment => {
                self.does(&Operation::OpenSegment { incarnation: 4 });
            }
            Happening::Later(millis) => self.later(millis),
        }
    }

    /// Nobody new comes; every pass enters or dies, every process reports, and the room knows the truth again.
    fn come_to_rest(&mut self) {
        for ticket in std::mem::take(&mut self.tickets) {
            self.does(&Operation::Leave { ticket });
        }
        // Long enough for passes that were issued under a longer `enter_by`, too.
        self.later(3_600_000);
        assert!(self.passes_in_flight.is_empty());
        for process in 0..self.processes.len() {
            let report = self.count(process);
            self.does(&Operation::Report(report));
        }
        let free = self.room.reports.free(&self.room.settings, self.now);
        assert_eq!(free, Some(self.true_capacity() - self.true_inside()), "a slot is lost");
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn the_origin_is_never_over_its_capacity_and_no_slot_is_lost(
        happenings in happenings(), processes in processes(), auction in any::<bool>(),
    ) {
        let mut world = World::new(processes, auction);
        for happening in &happenings {
            world.happens(happening);
        }
        world.come_to_rest();
    }
}

/// While a report travels, passes are in flight that it does not know of.
#[test]
fn free_reported_while_passes_are_in_flight_admits_nobody_twice() {
    for (auction, counts) in [(false, true), (false, false), (true, true), (true, false)] {
        let process = Process { capacity: 5, inside: 0, entered: 0, sequence: 0, counts, numbers: true };
        let mut world = World::new(vec![process], auction);
        world.happens(&Happening::Join(20));
        world.later(10_000);
        for _ in 0..3 {
            // Each time the origin says that five are free, because nobody has arrived yet.
            let report = world.count(0);
            assert_eq!(report.free, Some(5));
            world.does(&Operation::Report(report));
            world.settle_round(u64::MAX);
            for ticket in world.tickets.clone() {
                world.claim(ticket);
            }
            world.later(1_000);
        }
        assert!(world.passes_in_flight.len() <= 5, "{} for five slots", world.passes_in_flight.len());
        assert!(world.passes_in_flight.len() >= 4, "and the slots are given");
        while !world.passes_in_flight.is_empty() {
            world.enter(0, 0);
        }
        world.come_to_rest();
    }
}

/// A pass that was issued for a longer time was forgotten by the next change of settings, whatever that changed.
#[test]
fn a_pass_that_may_still_enter_is_counted_after_any_number_of_changes_of_settings() {
    let process = Process { capacity: 1, inside: 0, entered: 0, sequence: 0, counts: false, numbers: false };
    let mut world = World::new(vec![process], false);
    for happening in [
        Happening::Join(3),
        Happening::Later(17_817),
        Happening::Report { process: 0, delay_millis: 2_183, lost: false },
        Happening::Later(22_183),
        Happening::Claim(47),
        Happening::EnterBy(1),
        Happening::Rounds(1),
        Happening::Later(6_661),
        Happening::Report { process: 0, delay_millis: 2_339, lost: false },
        Happening::Later(2_339),
    ] {
        world.happens(&happening);
    }
    let Room { reports, settings, .. } = &world.room;
    assert_eq!((world.passes_in_flight.len(), reports.passes_in_flight(settings, world.now)), (1, 1));
    assert_eq!(reports.free(settings, world.now), Some(0));
}
