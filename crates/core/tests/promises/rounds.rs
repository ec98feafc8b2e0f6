//! The model's reading of the auction: who came to a round, who won, and what is left for the next.

use std::collections::BTreeSet;

use anteroom_core::{Answer, SessionKey, UnixMillis};

use super::model::{Model, Story, Visitor};

/// The most winners of a round.
const WINNERS_MAX: u64 = 65_536;
/// How long after the end of a round several nodes have told who came to it.
const COLLECTING_MILLIS: u64 = 500;

#[derive(Debug, Clone)]
pub(crate) struct Rounds {
    pub(crate) round: UnixMillis,
    pub(crate) free: u64,
    pub(crate) spare: u64,
    pub(crate) settled: UnixMillis,
    /// Who came to it by what several nodes have told, and whether there were others.
    collected: Option<(BTreeSet<SessionKey>, bool)>,
}

impl Rounds {
    /// The clock went back by so much; who came to a round by the old one is not known any more.
    pub(crate) fn shift_back(&mut self, millis: u64) {
        self.collected = None;
        for moment in [&mut self.round, &mut self.settled] {
            *moment = UnixMillis(moment.0.saturating_sub(millis));
        }
    }
}

impl Model {
    /// An auction begins, ends, or goes on to the next round that somebody could settle.
    pub(crate) fn look_at_rounds(&mut self) {
        if !self.settings.is_auction() {
            self.return_wins();
            self.rounds = None;
            self.lines.iter_mut().for_each(|line| line.won = 0);
            return;
        }
        if let Some(rounds) = &mut self.rounds
            && rounds.round.0 + COLLECTING_MILLIS <= self.clock.0
            && let Some((present, turned_away)) = rounds.collected.take()
        {
            let (round, present) = (rounds.round, Vec::from_iter(present));
            self.settle_round(round, &present, turned_away).expect("it is over");
            return;
        }
        let nobody_waits = self.waiting() == self.offers();
        match &self.rounds {
            None => self.open_round(nobody_waits),
            Some(rounds) if self.clock.0 >= rounds.round.0 + self.settings.round_millis() => {
                // Nobody settled it: whether those who wait were present, nobody knows.
                let immediately = nobody_waits || rounds.spare > 0;
                self.return_wins();
                self.open_round(immediately);
            }
            Some(_) => {}
        }
    }

    pub(crate) fn return_wins(&mut self) {
        for visitor in &mut self.visitors {
            if matches!(visitor.story, Story::Won(_)) {
                visitor.story = Story::Waiting;
            }
        }
    }

    fn open_round(&mut self, immediately: bool) {
        let length = self.settings.round_millis();
        let free = self.free_slots().min(WINNERS_MAX);
        let settled = self.rounds.as_ref().map_or(UnixMillis(0), |rounds| rounds.settled);
        let round = UnixMillis((self.clock.0 / length + 1) * length);
        let spare = if immediately { free } else { 0 };
        self.rounds = Some(Rounds { round, free, spare, settled, collected: None });
    }

    /// One of several nodes tells who came to a round that is over; `None` if it is not the one to settle.
    pub(crate) fn collect(
        &mut self,
        round: UnixMillis,
        present: &[SessionKey],
        turned_away: bool,
    ) -> Option<Answer> {
        let rounds = self.rounds.clone()?;
        if round == rounds.settled {
            return self.settle_round(round, present, turned_away).map(|winners| Answer::Won { winners });
        }
        if round != rounds.round || self.clock < round {
            return None;
        }
        let can_win = |visitor: &&Visitor| {
            matches!(visitor.story, Story::Waiting | Story::Won(_)) && present.contains(&visitor.key)
        };
        let (mut all, mut others) = rounds.collected.unwrap_or_default();
        all.extend(self.visitors.iter().filter(can_win).map(|visitor| visitor.key));
        others |= turned_away;
        while all.len() as u64 > rounds.free {
            all.pop_last();
            others = true;
        }
        self.rounds.as_mut().unwrap().collected = Some((all, others));
        Some(Answer::Collected)
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
}
