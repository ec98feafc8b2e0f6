//! The slow, obvious room: one list of visitors in order of precedence, each with a story, moved by loops that spell the rules
//! out. It knows nothing of segments, steps or bits.
//!
//! Two things are given to it, because other tests prove them: how many slots the reports leave free (`origin.rs` shows that
//! this never is too many), and the capacity that the adaptive law has come to (`rules/adaptive.rs` has its rows).

use std::collections::BTreeSet;

use anteroom_core::{Generation, InletKind, RoomState, SessionKey, Settings, UnixMillis};

/// The most winners of a round.
const WINNERS_MAX: u64 = 65_536;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Story {
    Waiting,
    Offered(UnixMillis),
    Won(UnixMillis),
    Claimed,
    Left,
    Lapsed,
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
    /// The highest winner.
    pub(crate) won: u64,
}

/// What is given to the model: free slots by the reports, and the capacity of an adaptive room.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GivenFigures {
    pub(crate) free: Option<u64>,
    pub(crate) adaptive: Option<u64>,
}

#[derive(Debug, Clone)]
pub(crate) struct Rounds {
    pub(crate) round: UnixMillis,
    pub(crate) free: u64,
    pub(crate) spare: u64,
    pub(crate) settled: UnixMillis,
}

pub(crate) struct Model {
    pub(crate) clock: UnixMillis,
    pub(crate) lines: Vec<Line>,
    pub(crate) visitors: Vec<Visitor>,
    /// How many of all visitors the counter has passed; more than there are, if it ran ahead.
    pub(crate) served: u64,
    pub(crate) active: u64,
    pub(crate) credits: u64,
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
    pub(crate) given: GivenFigures,
}

impl Model {
    pub(crate) fn new(settings: Settings, clock: UnixMillis, generation: Generation) -> Self {
        let mut model = Self {
            clock,
            lines: vec![Line { generation, won: 0 }],
            visitors: vec![],
            served: 0,
            active: 0,
            credits: 0,
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
            given: GivenFigures::default(),
        };
        model.begin_timetable();
        model
    }

    pub(crate) fn count(&self, wanted: impl Fn(&Story) -> bool) -> u64 {
        self.visitors.iter().filter(|visitor| wanted(&visitor.story)).count() as u64
    }

    pub(crate) fn offers(&self) -> u64 {
        self.count(|story| matches!(story, Story::Offered(_) | Story::Won(_)))
    }

    pub(crate) fn waiting(&self) -> u64 {
        self.count(|story| matches!(story, Story::Waiting | Story::Offered(_) | Story::Won(_)))
    }

    pub(crate) fn held(&self) -> u64 {
        self.active - self.credits + self.offers()
    }

    pub(crate) fn joined(&self) -> u64 {
        self.visitors.len() as u64
    }

    pub(crate) fn find(&mut self, key: SessionKey) -> Option<&mut Visitor> {
        self.visitors.iter_mut().find(|visitor| visitor.key == key)
    }

    pub(crate) fn session_ended(&mut self) {
        self.active -= 1;
        self.credits = self.credits.saturating_sub(1);
    }

    fn people_of(&self, line: &Line) -> u64 {
        self.visitors.iter().filter(|visitor| visitor.key.generation == line.generation).count() as u64
    }

    /// How far the frontier is in each line, as everybody sees it.
    pub(crate) fn frontiers(&self) -> Vec<u64> {
        let mut left = self.served;
        let mut frontiers = vec![];
        for (index, line) in self.lines.iter().enumerate() {
            let last = index + 1 == self.lines.len();
            let here = if last { left } else { left.min(self.people_of(line)) };
            left -= here;
            frontiers.push(here.max(line.won));
        }
        frontiers
    }

    /// The serving counter: the frontier of the newest line it has reached.
    pub(crate) fn serving(&self) -> u64 {
        let frontiers = self.frontiers();
        frontiers.iter().rev().find(|&&frontier| frontier > 0).copied().unwrap_or(0)
    }

    /// Time passes.
    pub(crate) fn tick(&mut self, now: UnixMillis, given: GivenFigures) {
        self.clock = self.clock.max(now);
        self.given = given;
        self.let_offers_lapse();
        self.take_due_step();
        self.look_at_rounds();
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
            self.served = self.served.max((self.served + lapsed).min(self.joined()));
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
            || settings.alarms.as_slice().iter().any(|name| self.firing.contains(name))
            || at.seconds() < settings.start_time
            || settings.end_time != 0 && at.seconds() >= settings.end_time
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
            match self.settings.inlet {
                InletKind::Periodic => self.step_by_increment(),
                InletKind::Window => self.step_by_window(),
                _ => self.budget = self.share(slot),
            }
        }
    }

    fn step_by_increment(&mut self) {
        let increment = self.settings.increment_by.get();
        for _ in 0..increment {
            if self.settings.run_ahead || self.served < self.joined() + increment {
                self.served += 1;
            }
        }
    }

    fn step_by_window(&mut self) {
        let size = self.settings.window_size.unwrap().get();
        let beyond = self.visitors.iter().skip(usize::try_from(self.served).unwrap());
        if !beyond.into_iter().any(|visitor| visitor.story == Story::Waiting) {
            return;
        }
        self.served = (self.served + size).min(self.joined());
        self.windows.push(self.clock);
        let active = usize::try_from(self.settings.active_windows.get()).unwrap();
        if let Some(surplus) = self.windows.len().checked_sub(active) {
            self.windows.drain(..surplus);
            let oldest = self.windows[0];
            self.lapse(|at| at < oldest);
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
            InletKind::Adaptive => self.given.adaptive,
            _ => None,
        }
    }

    pub(crate) fn free_slots(&self) -> u64 {
        if self.is_held(self.clock) {
            return 0;
        }
        let by_capacity = self.capacity().map(|capacity| capacity.saturating_sub(self.held()));
        let by_reports = self.given.free.map(|free| free.saturating_sub(self.offers()));
        let by_rate = self.settings.new_users_per_minute.map(|_| self.budget);
        if by_capacity.is_none() && by_reports.is_none() {
            return 0;
        }
        [by_capacity, by_reports, by_rate].into_iter().flatten().min().unwrap_or(0)
    }

    fn spend(&mut self, offers: u64) {
        if self.settings.new_users_per_minute.is_some() {
            self.budget = self.budget.saturating_sub(offers);
        }
    }

    pub(crate) fn offer_what_is_served(&mut self) {
        let (clock, served) = (self.clock, usize::try_from(self.served).unwrap());
        for visitor in self.visitors.iter_mut().take(served) {
            if visitor.story == Story::Waiting {
                visitor.story = Story::Offered(clock);
            }
        }
    }

    /// Free capacity becomes offers, one by one.
    pub(crate) fn settle(&mut self, given: GivenFigures) {
        self.given = given;
        self.offer_what_is_served();
        self.look_at_rounds();
        if self.settings.is_auction() || !self.settings.inlet.is_capped() {
            return;
        }
        while self.free_slots() > 0 {
            let served = usize::try_from(self.served).unwrap();
            let next =
                (served..self.visitors.len()).find(|&index| self.visitors[index].story == Story::Waiting);
            let Some(next) = next else { break };
            self.served = next as u64 + 1;
            self.spend(1);
            self.offer_what_is_served();
        }
    }

    /// An auction begins, ends, or goes on to the next round that somebody could settle.
    fn look_at_rounds(&mut self) {
        if !self.settings.is_auction() {
            self.return_wins();
            self.rounds = None;
            self.lines.iter_mut().for_each(|line| line.won = 0);
            return;
        }
        let nobody_waits = self.waiting() == self.offers();
        match &self.rounds {
            None => self.open_round(nobody_waits),
            Some(rounds) if self.clock.0 >= rounds.round.0 + self.settings.round_millis() => {
                // Nobody settled it: whether those who wait were present, nobody knows.
                let on_the_spot = nobody_waits || rounds.spare > 0;
                self.return_wins();
                self.open_round(on_the_spot);
            }
            Some(_) => {}
        }
    }

    fn return_wins(&mut self) {
        for visitor in &mut self.visitors {
            if matches!(visitor.story, Story::Won(_)) {
                visitor.story = Story::Waiting;
            }
        }
    }

    fn open_round(&mut self, on_the_spot: bool) {
        let length = self.settings.round_millis();
        let free = self.free_slots().min(WINNERS_MAX);
        let settled = self.rounds.as_ref().map_or(UnixMillis(0), |rounds| rounds.settled);
        let round = UnixMillis((self.clock.0 / length + 1) * length);
        self.rounds = Some(Rounds { round, free, spare: if on_the_spot { free } else { 0 }, settled });
    }

    /// The winners of a round that is settled now; `None` if it is not the one to settle.
    pub(crate) fn settle_round(
        &mut self,
        round: UnixMillis,
        present: &[SessionKey],
        turned_away: bool,
    ) -> Option<Vec<SessionKey>> {
        let rounds = self.rounds.clone()?;
        if round == rounds.settled {
            let won = self.visitors.iter().filter(|visitor| matches!(visitor.story, Story::Won(_)));
            return Some(won.map(|visitor| visitor.key).collect());
        }
        if round != rounds.round || self.clock < round {
            return None;
        }
        self.return_wins();
        let free = rounds.free.min(self.free_slots());
        let clock = self.clock;
        let mut winners = vec![];
        let mut losers = 0;
        for visitor in &mut self.visitors {
            if visitor.story != Story::Waiting || !present.contains(&visitor.key) {
                continue;
            }
            if (winners.len() as u64) < free {
                visitor.story = Story::Won(clock);
                winners.push(visitor.key);
            } else {
                losers += 1;
            }
        }
        for &winner in &winners {
            self.reach(winner);
        }
        self.spend(winners.len() as u64);
        self.open_round(losers == 0 && !turned_away);
        self.rounds.as_mut().unwrap().settled = round;
        Some(winners)
    }

    pub(crate) fn reach(&mut self, winner: SessionKey) {
        let line = self.lines.iter_mut().find(|line| line.generation == winner.generation).unwrap();
        line.won = line.won.max(winner.position.get());
    }

    /// Takes a spare slot of an auction immediately; returns whether there was one.
    pub(crate) fn take_immediately(&mut self, key: SessionKey) -> bool {
        let free = self.free_slots();
        let Some(rounds) = self.rounds.as_mut().filter(|rounds| rounds.spare > 0 && free > 0) else {
            return false;
        };
        rounds.spare -= 1;
        rounds.free = rounds.free.saturating_sub(1);
        self.spend(1);
        self.reach(key);
        true
    }

    fn restart_clocks(&mut self, clock: impl Fn(UnixMillis) -> UnixMillis) {
        for visitor in &mut self.visitors {
            if let Story::Offered(at) = &mut visitor.story {
                *at = clock(*at);
            }
        }
        self.windows.iter_mut().for_each(|at| *at = clock(*at));
    }

    pub(crate) fn configure(&mut self, settings: &Settings, given: GivenFigures) {
        let before = std::mem::replace(&mut self.settings, settings.clone());
        self.given = given;
        let (clock, now) = (self.clock, self.halted_since.unwrap_or(self.clock));
        match (before.claim_window_millis(), settings.claim_window_millis()) {
            (None, Some(_)) => self.restart_clocks(|_| clock),
            (Some(old), Some(new)) if new < old => self.restart_clocks(|at| {
                let left = (at.0 + old).saturating_sub(now.0);
                UnixMillis((now.0 + left.min(new)).saturating_sub(new).max(at.0))
            }),
            _ => {}
        }
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
        if let Some(rounds) = &mut self.rounds {
            // A round is not longer than one that would open now.
            let length = settings.round_millis();
            rounds.round = rounds.round.min(UnixMillis((clock.0 / length + 1) * length));
        }
        self.look_at_rounds();
        if settings.inlet.is_capped() || settings.is_auction() || settings.queue_all {
            self.served = self.served.min(self.joined());
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

    /// A new generation behind the others; the oldest goes, if there are too many and nobody is left in it.
    pub(crate) fn open_line(&mut self, generation: Generation, dropped: Option<Generation>) {
        if let Some(dropped) = dropped {
            let gone =
                self.visitors.iter().filter(|visitor| visitor.key.generation == dropped).count() as u64;
            self.served = self.served.saturating_sub(gone);
            self.visitors.retain(|visitor| visitor.key.generation != dropped);
            self.lines.retain(|line| line.generation != dropped);
        }
        self.lines.push(Line { generation, won: 0 });
    }
}
