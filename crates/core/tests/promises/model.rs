//! The slow, obvious room: one list of visitors in order of precedence, each with a story, moved by loops that spell the rules
//! out. It knows nothing of segments, steps or bits.
//!
//! It asks the room for no figure: the slots that reports leave free are counted in `reports.rs`, the capacity that follows the
//! origin in `adaptive.rs`; the rounds of an auction are in `rounds.rs`, and what a store has lost is in `losses.rs`.

use std::collections::{BTreeMap, BTreeSet};

use anteroom_core::{
    Generation, InletKind, Report, ReportOutcome, RoomState, SessionKey, Settings, UnixMillis,
};

use super::adaptive::AdaptiveModel;
use super::losses::LossesModel;
use super::reports::ReportsModel;
use super::rounds::Rounds;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Story {
    Waiting,
    Offered(UnixMillis),
    Won(UnixMillis),
    Claimed,
    Left,
    Lapsed,
}

impl Story {
    /// Whether the visitor still waits for something.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Offered(_) | Self::Won(_))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    pub(crate) key: SessionKey,
    pub(crate) story: Story,
}

/// A generation that tickets are honoured of.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) generation: Generation,
    /// The number before its first.
    pub(crate) base: u64,
    /// The last number.
    pub(crate) joined: u64,
    /// The last number that the counter has passed; beyond the last one, if it ran ahead.
    pub(crate) serving: u64,
    /// The highest winner.
    pub(crate) won: u64,
    /// How many claims are known of, or count as lost, since the last interruption.
    pub(crate) claims_known: u64,
}

impl Line {
    pub(crate) fn open(generation: Generation, base: u64) -> Self {
        Self { generation, base, joined: base, serving: base, won: 0, claims_known: 0 }
    }
}

#[derive(Clone)]
pub(crate) struct Model {
    pub(crate) clock: UnixMillis,
    pub(crate) lines: Vec<Line>,
    pub(crate) visitors: Vec<Visitor>,
    /// The newest copies of tickets whose places have moved to another device.
    pub(crate) copies: BTreeMap<SessionKey, u8>,
    /// Whose visits have begun and not ended.
    pub(crate) inside: BTreeSet<SessionKey>,
    pub(crate) credits: u64,
    pub(crate) losses: LossesModel,
    pub(crate) settings: Settings,
    pub(crate) state: RoomState,
    pub(crate) halted_since: Option<UnixMillis>,
    pub(crate) rests: bool,
    pub(crate) firing: Vec<String>,
    /// The timetable: any slot of it, and the last one that was looked at.
    pub(crate) timetable: Option<UnixMillis>,
    pub(crate) slots_taken: BTreeSet<UnixMillis>,
    pub(crate) slots_missed: u64,
    pub(crate) windows: Vec<UnixMillis>,
    pub(crate) budget: u64,
    pub(crate) rounds: Option<Rounds>,
    pub(crate) reports: ReportsModel,
    pub(crate) adaptive: Option<AdaptiveModel>,
}

impl Model {
    pub(crate) fn new(settings: Settings, clock: UnixMillis, generation: Generation) -> Self {
        let mut model = Self {
            clock,
            lines: vec![Line::open(generation, 0)],
            visitors: vec![],
            copies: BTreeMap::new(),
            inside: BTreeSet::new(),
            credits: 0,
            losses: LossesModel::default(),
            settings,
            state: RoomState::Open,
            halted_since: None,
            rests: false,
            firing: vec![],
            timetable: None,
            slots_taken: BTreeSet::new(),
            slots_missed: 0,
            windows: vec![],
            budget: 0,
            rounds: None,
            reports: ReportsModel::default(),
            adaptive: None,
        };
        model.begin_timetable();
        model.begin_adaptive();
        model
    }

    pub(crate) fn count(&self, wanted: impl Fn(&Story) -> bool) -> u64 {
        self.visitors.iter().filter(|visitor| wanted(&visitor.story)).count() as u64
    }

    pub(crate) fn offers(&self) -> u64 {
        self.count(|story| matches!(story, Story::Offered(_) | Story::Won(_)))
    }

    pub(crate) fn waiting(&self) -> u64 {
        self.count(|story| story.is_open())
    }

    /// Visitors inside: those with a session, less the exits without a name, and those whose sessions were lost.
    pub(crate) fn active(&self) -> u64 {
        self.inside.len() as u64 - self.credits + self.losses.phantoms
    }

    pub(crate) fn held(&self) -> u64 {
        self.active() + self.offers()
    }

    pub(crate) fn find(&mut self, key: SessionKey) -> Option<&mut Visitor> {
        self.visitors.iter_mut().find(|visitor| visitor.key == key)
    }

    pub(crate) fn session_ended(&mut self, key: SessionKey) {
        assert!(self.inside.remove(&key), "a slot is freed once");
        self.credits = self.credits.saturating_sub(1);
    }

    pub(crate) fn line(&self, key: SessionKey) -> &Line {
        self.lines.iter().find(|line| line.generation == key.generation).unwrap()
    }

    /// How far the frontier is in each line, as everybody sees it.
    pub(crate) fn frontiers(&self) -> Vec<u64> {
        self.lines.iter().map(|line| line.serving.max(line.won)).collect()
    }

    /// The serving counter: the frontier of the newest line it has reached.
    pub(crate) fn serving(&self) -> u64 {
        let reached = self.lines.iter().rev().find(|line| line.serving.max(line.won) > line.base);
        let line = reached.unwrap_or(&self.lines[0]);
        line.serving.max(line.won)
    }

    /// The counter passes the next number that somebody has, oldest line first; `false` if there is none.
    pub(crate) fn pass_next(&mut self) -> bool {
        let next = self.lines.iter_mut().find(|line| line.serving < line.joined);
        next.map(|line| line.serving += 1).is_some()
    }

    /// Time passes.
    pub(crate) fn tick(&mut self, now: UnixMillis) {
        self.clock = self.clock.max(now);
        self.let_offers_lapse();
        self.adapt();
        self.take_due_step();
        self.look_at_rounds();
        self.tick_losses();
        self.offer_what_is_served();
    }

    fn let_offers_lapse(&mut self) {
        let Some(window) = self.settings.claim_window_millis().filter(|_| self.state.admits()) else {
            return;
        };
        let clock = self.clock;
        let lapsed = self.lapse(|at| at.plus(window) <= clock);
        let moves_on = self.settings.incr_svc_on_queue_position_expiry
            && !self.settings.inlet.is_capped()
            && !self.settings.is_auction();
        // What holds an automatic inlet holds this too; one that is moved by hand alone knows nothing of that.
        let is_held =
            self.settings.queue_all || self.settings.inlet != InletKind::Manual && self.is_held(clock);
        if moves_on && !is_held {
            for _ in 0..lapsed {
                self.pass_next();
            }
        }
    }

    fn lapse(&mut self, is_over: impl Fn(UnixMillis) -> bool) -> u64 {
        let mut lapsed = 0;
        for visitor in &mut self.visitors {
            if let Story::Offered(at) = visitor.story
                && is_over(at)
            {
                visitor.story = Story::Lapsed;
                lapsed += 1;
            }
        }
        lapsed
    }

    /// Whether something keeps an automatic inlet from doing what it would at a moment.
    fn is_held(&self, at: UnixMillis) -> bool {
        let settings = &self.settings;
        !self.state.admits()
            || settings.queue_all
            || self.rests
            || at < self.losses.learning_until
            || settings.alarms.as_slice().iter().any(|name| self.firing.contains(name))
            || at.seconds() < settings.start_time
            || settings.end_time != 0 && at.seconds() >= settings.end_time
    }

    /// An adaptive room has a capacity of its own, any other has none.
    fn begin_adaptive(&mut self) {
        if self.settings.inlet != InletKind::Adaptive {
            self.adaptive = None;
            return;
        }
        let fresh = || AdaptiveModel::begin(&self.settings, self.clock);
        self.adaptive.get_or_insert_with(fresh).keep_within_bounds(&self.settings);
    }

    fn adapt(&mut self) {
        let held = self.held();
        if let Some(adaptive) = self.adaptive.as_mut().filter(|_| self.halted_since.is_none()) {
            adaptive.tick(self.clock, &self.settings, held);
        }
    }

    pub(crate) fn hear(&mut self, report: &Report) -> ReportOutcome {
        let outcome = self.reports.hear(report, self.clock, &self.settings);
        if let Some(adaptive) = self.adaptive.as_mut().filter(|_| outcome == ReportOutcome::Accepted) {
            adaptive.hear(report);
        }
        outcome
    }

    /// The clock goes back to what the machine's shows, and everything is as long ago, or as far away, as it was.
    pub(crate) fn set_clock(&mut self, machine_now: UnixMillis) {
        let millis = self.clock.since(machine_now);
        if millis == 0 {
            return;
        }
        let earlier = |moment: UnixMillis| UnixMillis(moment.0 - millis);
        self.clock = machine_now;
        self.halted_since = self.halted_since.map(earlier);
        self.timetable = self.timetable.map(earlier);
        self.slots_taken.clear();
        self.windows.iter_mut().for_each(|at| *at = earlier(*at));
        for visitor in &mut self.visitors {
            visitor.story = match visitor.story {
                Story::Offered(at) => Story::Offered(earlier(at)),
                Story::Won(at) => Story::Won(earlier(at)),
                other => other,
            };
        }
        self.losses.shift_back(millis);
        self.reports.shift_back(millis);
        self.adaptive.iter_mut().for_each(|adaptive| adaptive.shift_back(millis));
        self.rounds.iter_mut().for_each(|rounds| rounds.shift_back(millis));
        // A start time is one of the clock on the wall.
        if self.settings.start_time > 0 {
            self.begin_timetable();
        }
    }

    fn begin_timetable(&mut self) {
        let Some(interval) = self.settings.step_interval_millis() else {
            self.timetable = None;
            return;
        };
        let (clock, start) = (self.clock.0, self.settings.start_time * 1000);
        // The slots of a timetable with a start time are those of its grid, whenever it is set.
        let mut slot = if start > 0 { start } else { clock + interval };
        while slot <= clock {
            slot += interval;
        }
        self.timetable = Some(UnixMillis(slot));
        self.budget = if start > clock { 0 } else { self.share(self.clock) };
    }

    /// Looks at every slot up to now, oldest first; only the last of them can still be taken.
    fn take_due_step(&mut self) {
        let Some(interval) = self.settings.step_interval_millis() else { return };
        while let Some(slot) = self.timetable.filter(|&slot| slot <= self.clock) {
            self.timetable = Some(slot.plus(interval));
            let in_time = self.clock.0 - slot.0 <= (interval / 2).max(1_000);
            let is_last = slot.plus(interval) > self.clock;
            if !in_time || !is_last || self.is_held(slot) {
                self.slots_missed += 1;
                continue;
            }
            assert!(self.slots_taken.insert(slot), "each slot once");
            let frontiers: Vec<u64> = self.lines.iter().map(|line| line.serving).collect();
            match self.settings.inlet {
                InletKind::Periodic => self.step_by_increment(),
                InletKind::Window => self.step_by_window(),
                _ => self.budget = self.share(slot),
            }
            if !self.lines.iter().map(|line| line.serving).eq(frontiers) {
                // Whatever the timetable says, the frontier moves again after a whole interval.
                self.timetable = Some(self.clock.plus(interval));
            }
        }
    }

    fn step_by_increment(&mut self) {
        let increment = self.settings.increment_by.get();
        for _ in 0..increment {
            let passed = self.pass_next();
            let newest = self.lines.last_mut().unwrap();
            if !passed && (self.settings.run_ahead || newest.serving < newest.joined + increment) {
                newest.serving += 1;
            }
        }
    }

    fn step_by_window(&mut self) {
        let size = self.settings.window_size.unwrap().get();
        if self.next_waiting().is_none() {
            return;
        }
        for _ in 0..size {
            self.pass_next();
        }
        self.windows.push(self.clock);
        let active = usize::try_from(self.settings.active_windows.get()).unwrap();
        if let Some(surplus) = self.windows.len().checked_sub(active) {
            self.windows.drain(..surplus);
            let oldest = self.windows[0];
            self.lapse_all_but_the_last(active as u64 * size, oldest);
        }
    }

    /// Of all numbers that the counter has passed, held by anybody, the last so many may claim; and nobody loses an offer
    /// that was made with the oldest window or later.
    fn lapse_all_but_the_last(&mut self, kept: u64, oldest: UnixMillis) {
        let passed = self.lines.iter().rev().flat_map(|line| {
            let last = line.serving.min(line.joined);
            (line.base + 1..=last).rev().map(|number| (line.generation, number))
        });
        let kept: BTreeSet<(Generation, u64)> = passed.take(usize::try_from(kept).unwrap()).collect();
        for visitor in &mut self.visitors {
            let number = (visitor.key.generation, visitor.key.position.get());
            if matches!(visitor.story, Story::Offered(at) if at < oldest) && !kept.contains(&number) {
                visitor.story = Story::Lapsed;
            }
        }
    }

    /// The part of a minute's new users that belongs to a slot.
    fn share(&self, slot: UnixMillis) -> u64 {
        let rate = self.settings.new_users_per_minute.map_or(0, anteroom_core::settings::People::get);
        let interval = self.settings.interval_seconds.get();
        let number = slot.0 / (interval * 1000);
        rate * (number + 1) * interval / 60 - rate * number * interval / 60
    }

    pub(crate) fn capacity(&self) -> Option<u64> {
        match self.settings.inlet {
            InletKind::MaxSize => self.settings.total_active_users,
            InletKind::Adaptive => self.adaptive.as_ref().map(|adaptive| adaptive.capacity),
            _ => None,
        }
    }

    pub(crate) fn free_slots(&self) -> u64 {
        if self.is_held(self.clock) {
            return 0;
        }
        let by_capacity = self.capacity().map(|capacity| capacity.saturating_sub(self.held()));
        let by_reports = self.reported_free().map(|free| free.saturating_sub(self.offers()));
        let by_rate = self.settings.new_users_per_minute.map(|_| self.budget);
        if by_capacity.is_none() && by_reports.is_none() {
            return 0;
        }
        [by_capacity, by_reports, by_rate].into_iter().flatten().min().unwrap_or(0)
    }

    /// What the origin reports as free, less the passes in flight.
    pub(crate) fn reported_free(&self) -> Option<u64> {
        self.reports.free(self.clock, &self.settings)
    }

    pub(crate) fn spend(&mut self, offers: u64) {
        if self.settings.new_users_per_minute.is_some() {
            self.budget = self.budget.saturating_sub(offers);
        }
    }

    pub(crate) fn offer_what_is_served(&mut self) {
        let clock = self.clock;
        for line in &self.lines {
            let here = |visitor: &&mut Visitor| visitor.key.generation == line.generation;
            for visitor in self.visitors.iter_mut().filter(here) {
                if visitor.story == Story::Waiting && visitor.key.position.get() <= line.serving {
                    visitor.story = Story::Offered(clock);
                }
            }
        }
    }

    /// The first visitor whom the counter has not passed and who waits.
    fn next_waiting(&self) -> Option<SessionKey> {
        let is_next = |visitor: &&Visitor| {
            visitor.story == Story::Waiting && visitor.key.position.get() > self.line(visitor.key).serving
        };
        self.visitors.iter().find(is_next).map(|visitor| visitor.key)
    }

    /// Free capacity becomes offers, one by one.
    pub(crate) fn settle(&mut self) {
        self.offer_what_is_served();
        self.look_at_rounds();
        if self.settings.is_auction() || !self.settings.inlet.is_capped() {
            return;
        }
        while self.free_slots() > 0 {
            let Some(next) = self.next_waiting() else { break };
            for line in &mut self.lines {
                if line.generation < next.generation {
                    line.serving = line.serving.max(line.joined);
                } else if line.generation == next.generation {
                    line.serving = next.position.get();
                }
            }
            self.spend(1);
            self.offer_what_is_served();
        }
    }

    fn restart_clocks(&mut self, clock: impl Fn(UnixMillis) -> UnixMillis) {
        for visitor in &mut self.visitors {
            if let Story::Offered(at) = &mut visitor.story {
                *at = clock(*at);
            }
        }
        self.windows.iter_mut().for_each(|at| *at = clock(*at));
    }

    pub(crate) fn configure(&mut self, settings: &Settings) {
        let before = std::mem::replace(&mut self.settings, settings.clone());
        let (clock, now) = (self.clock, self.halted_since.unwrap_or(self.clock));
        match (before.claim_window_millis(), settings.claim_window_millis()) {
            (None, Some(_)) => self.restart_clocks(|_| clock),
            (Some(old), Some(new)) if new < old => self.restart_clocks(|at| {
                let left = (at.0 + old).saturating_sub(now.0);
                UnixMillis((now.0 + left.min(new)).saturating_sub(new).max(at.0))
            }),
            _ => {}
        }
        self.reports.configure(clock, &before, settings);
        let timetable =
            |settings: &Settings| (settings.inlet, settings.step_interval_millis(), settings.start_time);
        if timetable(&before) != timetable(settings) {
            self.begin_timetable();
        } else if before.new_users_per_minute != settings.new_users_per_minute {
            self.budget = self.budget.min(self.share(clock));
        }
        if settings.inlet != InletKind::Window {
            self.windows.clear();
        }
        self.begin_adaptive();
        if let Some(rounds) = &mut self.rounds {
            // A round is not longer than one that would open now.
            let length = settings.round_millis();
            rounds.round = rounds.round.min(UnixMillis((clock.0 / length + 1) * length));
        }
        self.look_at_rounds();
        if settings.inlet.is_capped() || settings.is_auction() || settings.queue_all {
            for line in &mut self.lines {
                line.serving = line.serving.min(line.joined);
            }
        }
    }

    pub(crate) fn set_state(&mut self, state: RoomState) {
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

    /// A new generation behind the others; one that nobody is left in goes, if there are too many.
    pub(crate) fn open_line(&mut self, generation: Generation, base: u64, dropped: Option<Generation>) {
        if let Some(dropped) = dropped {
            self.drop_line(dropped);
            self.losses.honours_after = self.losses.honours_after.map(|after| after.max(dropped));
        }
        let newest = self.lines.last_mut().unwrap();
        let ahead = newest.serving.saturating_sub(newest.joined);
        newest.serving -= ahead;
        let line = Line::open(generation, base);
        self.lines.push(Line { serving: base + ahead, ..line });
    }
}
