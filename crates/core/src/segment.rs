//! One generation of a room's line: who joined, how far the frontier has come, and which offers are open.
//!
//! *Invariant:* the steps cover the positions above `floor` up to `min(joined, serving)` without gap or overlap, and a step's
//! `open` is the number of untaken positions in it. Everything at or below the floor is settled: claimed, left or lapsed.

use std::collections::VecDeque;

use crate::effects::Effects;
use crate::events::Event;
use crate::ids::{Generation, UnixMillis};
use crate::session::Outcome;
use crate::shared::Shared;
use crate::taken_positions::{TakenPositions, chunk_of};

/// How many stretches of offers a segment tells apart. When there are more, neighbours merge (see [`Segment::offer`]).
pub const STEPS_MAX: usize = 256;

/// A stretch of offers made together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The last position of the stretch; the first is the one after the previous step's.
    pub up_to: u64,
    /// When the offers were made: the claim clock of these positions.
    pub at: UnixMillis,
    /// How many of them are still unclaimed.
    pub open: u64,
}

/// What happened to the positions of a segment; each count only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Offers exchanged for a session.
    pub claimed: u64,
    /// Sessions that ended as completed.
    pub completed: u64,
    /// Sessions that ended as abandoned.
    pub abandoned: u64,
    /// Sessions that ran out (falls by one when such a session is relabelled).
    pub expired: u64,
    /// Offers not claimed within the claim window.
    pub lapsed: u64,
    /// Places given up before a claim.
    pub left: u64,
}

impl Counts {
    /// Sessions begun and not yet ended by name or by time.
    pub const fn live_sessions(&self) -> u64 {
        self.claimed - self.completed - self.abandoned - self.expired
    }

    pub(crate) fn end_by_name(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Completed => self.completed += 1,
            Outcome::Abandoned => self.abandoned += 1,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.claimed += other.claimed;
        self.completed += other.completed;
        self.abandoned += other.abandoned;
        self.expired += other.expired;
        self.lapsed += other.lapsed;
        self.left += other.left;
    }
}

/// One generation of tickets of a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Which tickets stand in it.
    pub generation: Generation,
    /// The position before its first.
    pub base: u64,
    /// J: the last position handed out.
    pub joined: u64,
    /// S: the frontier. A position up to it is an offer once it is joined. It may run ahead of `joined` by an operator's word.
    pub serving: u64,
    /// L: everything up to it is settled.
    pub floor: u64,
    /// The highest winner of an auction here; 0 if there was none.
    pub won: u64,
    /// Open stretches of offers, oldest first.
    pub steps: Shared<VecDeque<Step>>,
    /// Positions above the floor whose holder claimed or left.
    pub taken: TakenPositions,
    /// What happened here so far.
    pub counts: Counts,
    /// How many claims are accounted for after an interruption, see [`crate::losses`].
    pub recalled: u64,
}

impl Segment {
    /// An empty line whose first position is `base + 1`.
    pub fn open(generation: Generation, base: u64) -> Self {
        Self {
            generation,
            base,
            joined: base,
            serving: base,
            floor: base,
            won: 0,
            steps: Shared::default(),
            taken: TakenPositions::default(),
            counts: Counts::default(),
            recalled: 0,
        }
    }

    /// Unclaimed offers.
    pub fn offers(&self) -> u64 {
        self.steps.iter().map(|step| step.open).sum()
    }

    /// People in this segment who neither claimed, nor left, nor let their offer lapse.
    pub const fn waiting(&self) -> u64 {
        (self.joined - self.base) - self.counts.claimed - self.counts.lapsed - self.counts.left
    }

    /// The last position that counts as passed: served, settled, or that of the highest winner.
    pub fn frontier(&self) -> u64 {
        self.serving.max(self.floor).max(self.won)
    }

    /// How many have joined beyond that.
    pub fn beyond_frontier(&self) -> u64 {
        self.joined.saturating_sub(self.frontier())
    }

    /// The last position that is settled or offered.
    pub fn covered(&self) -> u64 {
        self.steps.back().map_or(self.floor, |step| step.up_to)
    }

    /// Turns the positions that are joined and served but not yet covered into offers made at `now`; returns how many.
    ///
    /// When the steps are full, the neighbours that lie closest together become one, with the later of the two clocks.
    /// So nobody's offer gets shorter, and because the pair is chosen by the gap that results, and the first step never
    /// moves, no offer gets longer by more than 2/255 of the claim window.
    pub(crate) fn offer(&mut self, now: UnixMillis, effects: &mut Effects) -> u64 {
        let frontier = self.joined.min(self.serving);
        let covered = self.covered();
        if frontier <= covered {
            return 0;
        }
        effects.changed = true;
        let open = self.taken.live_between(covered, frontier);
        match self.steps.back_mut() {
            Some(last) if last.at == now || open == 0 => {
                last.up_to = frontier;
                last.open += open;
            }
            _ => self.steps.push_back(Step { up_to: frontier, at: now, open }),
        }
        if self.steps.len() > STEPS_MAX {
            self.merge_closest_steps();
        }
        self.settle_front(effects);
        open
    }

    fn merge_closest_steps(&mut self) {
        let resulting_gap = |index: usize| self.steps[index + 1].at.since(self.steps[index - 1].at);
        let Some(left) = (1..self.steps.len() - 1).min_by_key(|&index| resulting_gap(index)) else {
            return;
        };
        let merged_open = self.steps[left].open;
        self.steps[left + 1].open += merged_open;
        self.steps.remove(left);
    }

    /// Moves the frontier back to `serving`: offers above it are withdrawn, and what is claimed stays claimed.
    pub(crate) fn withdraw_to(&mut self, serving: u64, effects: &mut Effects) {
        effects.changed = true;
        self.serving = serving;
        let frontier = self.joined.min(serving);
        while let Some(last) = self.steps.pop_back() {
            if last.up_to <= frontier {
                self.steps.push_back(last);
                break;
            }
            let start = self.covered();
            if start < frontier {
                let open = self.taken.live_between(start, frontier);
                self.steps.push_back(Step { up_to: frontier, at: last.at, open });
                break;
            }
        }
        self.settle_front(effects);
    }

    /// Marks a position that nobody has and that is not offered.
    pub(crate) fn take_unoffered(&mut self, position: u64, effects: &mut Effects) {
        self.taken.insert(position);
        effects.touched_chunks.insert((self.generation, chunk_of(position)));
    }

    /// Marks an offered or waiting `position` as claimed or left; returns when it was offered, if it was.
    ///
    /// The caller has made sure that it is above the floor and not taken.
    pub(crate) fn take(&mut self, position: u64, effects: &mut Effects) -> Option<UnixMillis> {
        assert!(position > self.floor && position <= self.joined, "only a live position can be taken");
        assert!(self.taken.insert(position), "a position is taken once");
        effects.changed = true;
        effects.touched_chunks.insert((self.generation, chunk_of(position)));
        let index = step_index(&self.steps, self.floor, position);
        let offered_at = index.map(|index| {
            let step = &mut self.steps[index];
            step.open -= 1;
            step.at
        });
        self.settle_front(effects);
        offered_at
    }

    /// Lets the oldest offers lapse whose claim window of `window` milliseconds is over; returns how many people that cost.
    pub(crate) fn lapse(&mut self, now: UnixMillis, window: u64, effects: &mut Effects) -> u64 {
        self.lapse_while(|step| step.at.plus(window) <= now, effects)
    }

    /// Lets the offers up to a position lapse that were made before a moment; returns how many people that cost.
    pub(crate) fn lapse_through(
        &mut self,
        position: u64,
        made_before: UnixMillis,
        effects: &mut Effects,
    ) -> u64 {
        let lapsed = self.lapse_while(|step| step.up_to <= position && step.at < made_before, effects);
        let floor = self.floor;
        let Some(front) = self
            .steps
            .front_mut()
            .filter(|front| floor < position && position < front.up_to && front.at < made_before)
        else {
            return lapsed;
        };
        // The position lies within a step: the rest of it stays.
        let ended = self.taken.live_between(floor, position);
        front.open -= ended;
        self.floor = position;
        self.counts.lapsed += ended;
        effects.changed = true;
        self.tell_lapsed(position, ended, effects);
        self.settle_front(effects);
        lapsed + ended
    }

    fn lapse_while(&mut self, is_over: impl Fn(&Step) -> bool, effects: &mut Effects) -> u64 {
        let mut lapsed = 0;
        while let Some(front) = self.steps.front().filter(|front| is_over(front)) {
            let (count, up_to) = (front.open, front.up_to);
            lapsed += count;
            self.floor = up_to;
            self.steps.pop_front();
            effects.changed = true;
            self.tell_lapsed(up_to, count, effects);
        }
        self.counts.lapsed += lapsed;
        self.settle_front(effects);
        lapsed
    }

    fn tell_lapsed(&self, up_to: u64, count: u64, effects: &mut Effects) {
        if count > 0 {
            effects.events.push(Event::OffersLapsed { generation: self.generation, up_to, count });
        }
    }

    /// Raises the floor over what is wholly taken and forgets bits that nobody can ask for any more.
    fn settle_front(&mut self, effects: &mut Effects) {
        while let Some(front) = self.steps.front().filter(|front| front.open == 0) {
            self.floor = front.up_to;
            self.steps.pop_front();
        }
        for chunk in self.taken.forget_through(self.floor) {
            effects.touched_chunks.insert((self.generation, chunk));
        }
    }
}

/// The step that holds `position`, given the `floor` below the first one.
pub fn step_of(steps: &VecDeque<Step>, floor: u64, position: u64) -> Option<&Step> {
    step_index(steps, floor, position).map(|index| &steps[index])
}

fn step_index(steps: &VecDeque<Step>, floor: u64, position: u64) -> Option<usize> {
    if position <= floor {
        return None;
    }
    let index = steps.partition_point(|step| step.up_to < position);
    (index < steps.len()).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(joined: u64) -> Segment {
        let mut segment = Segment::open(Generation { opened: 1, incarnation: 1 }, 0);
        segment.joined = joined;
        segment
    }

    #[test]
    fn steps_stay_bounded_and_no_offer_is_lengthened_by_a_hundredth_of_its_window() {
        const WINDOW: u64 = 900_000;
        let mut segment = line_of(1_000_000);
        let mut effects = Effects::default();
        let mut offered_at = std::collections::HashMap::new();
        let mut now = UnixMillis(1_000_000_000);
        for round in 0..20_000u64 {
            // Bursts a millisecond apart, then a pause: the pattern that makes greedy merging creep.
            now = now.plus(if round % 50 == 49 { 4_000 } else { 1 });
            segment.lapse(now, WINDOW, &mut effects);
            segment.serving += 1;
            segment.offer(now, &mut effects);
            offered_at.insert(segment.serving, now);
            assert!(segment.steps.len() <= STEPS_MAX);
            let probe = segment.floor + 1 + (round * 7919) % (segment.serving - segment.floor);
            let step = step_of(&segment.steps, segment.floor, probe).unwrap();
            let true_start = offered_at[&probe];
            assert!(step.at >= true_start, "an offer is never shortened");
            assert!(
                step.at.since(true_start) <= WINDOW / 100,
                "lengthened by {} ms",
                step.at.since(true_start)
            );
        }
        assert!(segment.counts.lapsed > 0);
    }

    #[test]
    fn withdrawing_cuts_a_step_in_the_middle_and_keeps_claims() {
        let mut segment = line_of(10);
        let mut effects = Effects::default();
        segment.serving = 6;
        segment.offer(UnixMillis(5), &mut effects);
        segment.take(5, &mut effects);
        segment.withdraw_to(3, &mut effects);
        assert_eq!((segment.offers(), segment.covered()), (3, 3));
        segment.serving = 6;
        segment.offer(UnixMillis(9), &mut effects);
        assert_eq!(segment.offers(), 5, "position 5 stays taken");
        segment.withdraw_to(0, &mut effects);
        assert_eq!(segment.offers(), 0);
    }
}
