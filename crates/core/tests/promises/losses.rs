//! The model's reading of a store that lost something: lines are given back by those who remember them, the newest goes on
//! beyond everything that was seen, and visitors without a record count as inside until they have surely left.

use anteroom_core::board::CLOCK_SKEW_MAX_SECONDS;
use anteroom_core::losses::{
    HONOURED_SECONDS, LEARNING_MILLIS, LOST_TICKET_AGE_MAX_SECONDS, MARGIN_MAX, Mend, SHOWN_GROWTH_MAX,
};
use anteroom_core::room::SEGMENTS_MAX;
use anteroom_core::{
    Answer, Generation, MovedPlaces, Position, Refusal, Room, SessionKey, Ticket, UnixMillis,
};

use super::model::{Line, Model, Story, Visitor};
use super::play::key_of;

/// A visit without a cookie may be as long as a pass is valid, one with a cookie as a stay without a touch and its grace.
const STAY_GRACE_MILLIS: u64 = 5_000;

/// What a room owes to what was lost.
#[derive(Debug, Clone, Default)]
pub(crate) struct LossesModel {
    pub(crate) phantoms: u64,
    phantoms_end_at: UnixMillis,
    /// Tickets of lost lines that were opened after this one are honoured.
    pub(crate) honours_after: Option<Generation>,
    pub(crate) learning_until: UnixMillis,
}

impl LossesModel {
    /// The clock went back by so much.
    pub(crate) fn shift_back(&mut self, millis: u64) {
        for moment in [&mut self.phantoms_end_at, &mut self.learning_until] {
            *moment = UnixMillis(moment.0.saturating_sub(millis));
        }
    }
}

impl Model {
    pub(crate) fn tick_losses(&mut self) {
        if self.losses.phantoms_end_at <= self.clock {
            self.losses.phantoms = 0;
        }
        if self.losses.learning_until <= self.clock {
            self.losses.learning_until = UnixMillis(0);
        }
    }

    /// Lost visitors stay lost over a reset; no longer than a visit of now could last.
    pub(crate) fn losses_after_reset(&self, now: UnixMillis) -> LossesModel {
        let LossesModel { phantoms, phantoms_end_at, .. } = self.losses;
        let phantoms_end_at = phantoms_end_at.min(self.latest_unseen_end(now));
        LossesModel { phantoms, phantoms_end_at, ..LossesModel::default() }
    }

    fn latest_unseen_end(&self, now: UnixMillis) -> UnixMillis {
        let by_pass = self.settings.validity_period.get() * 1000;
        let by_cookie = self.settings.session_duration.get() * 1000 + STAY_GRACE_MILLIS;
        now.plus(by_pass.max(by_cookie))
    }

    fn add_phantoms(&mut self, count: u64) {
        if count > 0 {
            self.losses.phantoms += count;
            self.losses.phantoms_end_at = self.losses.phantoms_end_at.max(self.latest_unseen_end(self.clock));
        }
    }

    fn newest(&self) -> Generation {
        self.lines.last().unwrap().generation
    }

    fn index_of(&self, generation: Generation) -> Option<usize> {
        self.lines.iter().position(|line| line.generation == generation)
    }

    fn inside_of(&self, generation: Generation) -> u64 {
        self.inside.iter().filter(|key| key.generation == generation).count() as u64
    }

    fn is_over(&self, line: &Line) -> bool {
        let here = |visitor: &&Visitor| visitor.key.generation == line.generation;
        !self.visitors.iter().filter(here).any(|visitor| visitor.story.is_open())
            && self.inside_of(line.generation) == 0
    }

    /// For an hour after the newest line was opened.
    fn honours(&self, generation: Generation) -> bool {
        self.losses.honours_after.is_some_and(|after| after < generation)
            && generation < self.newest()
            && self.clock.seconds() < self.newest().opened_unix_seconds() + HONOURED_SECONDS
    }

    /// The places of a line from one number to another are a visitor's.
    fn add_places(&mut self, generation: Generation, places: std::ops::RangeInclusive<u64>, story: Story) {
        for position in places {
            let key = SessionKey { generation, position: Position::new(position).unwrap() };
            self.visitors.push(Visitor { key, story });
        }
        self.visitors.sort_by_key(|visitor| visitor.key);
    }

    /// A line is gone for good, and its tickets with it.
    pub(crate) fn drop_line(&mut self, generation: Generation) {
        self.visitors.retain(|visitor| visitor.key.generation != generation);
        self.lines.retain(|line| line.generation != generation);
        self.inside.retain(|key| key.generation != generation);
        self.copies.retain(|key, _| key.generation != generation);
    }

    fn close_before(&mut self, oldest: Option<Generation>) {
        while self.lines.len() > 1 && oldest.is_some_and(|oldest| self.lines[0].generation < oldest) {
            let closed = self.lines[0].generation;
            let inside = self.inside_of(closed);
            let credits = self.credits.min(inside);
            self.drop_line(closed);
            self.credits -= credits;
            self.add_phantoms(inside - credits);
        }
    }

    /// Whether nobody of a line was served since it was lost. Whether a frontier that an operator moved back had settled places
    /// is more than a list of visitors knows; there the room's word counts.
    fn is_untouched(&self, line: &Line, after: &Room) -> bool {
        let settled =
            |visitor: &&Visitor| visitor.key.generation == line.generation && !visitor.story.is_open();
        if line.serving == line.base && self.visitors.iter().any(|visitor| settled(&visitor)) {
            let now = after.segments.iter().find(|segment| segment.generation == line.generation);
            return now.is_some_and(|segment| segment.base < line.base);
        }
        line.serving == line.base
    }

    /// Takes in what a node remembers of a line that is there.
    fn recall_line(&mut self, seen: &anteroom_core::Line, after: &Room) {
        let is_auction = self.settings.is_auction();
        let may_run_ahead = !self.settings.inlet.is_capped() && !is_auction && !self.settings.queue_all;
        let is_newest = seen.generation == self.newest();
        let is_honoured = self.honours(seen.generation);
        let index = self.index_of(seen.generation).unwrap();
        let joined = self.lines[index].joined;
        if seen.joined > joined {
            self.add_places(seen.generation, joined + 1..=seen.joined, Story::Waiting);
            self.lines[index].joined = seen.joined;
        }
        let line = self.lines[index].clone();
        if is_honoured && seen.base < line.base && self.is_untouched(&line, after) {
            self.add_places(seen.generation, seen.base + 1..=line.base, Story::Waiting);
            let floor = seen.floor.max(seen.base).min(line.joined);
            for visitor in &mut self.visitors {
                let is_settled =
                    visitor.key.generation == seen.generation && visitor.key.position.get() <= floor;
                if is_settled && visitor.story.is_open() {
                    visitor.story = Story::Lapsed;
                }
            }
            self.lines[index].base = seen.base;
            self.lines[index].serving = floor;
        }
        let claims_max = self.lines[index].joined - self.lines[index].base;
        let line = &mut self.lines[index];
        let within = if is_newest && may_run_ahead { seen.serving } else { seen.serving.min(line.joined) };
        let frontier = if is_auction { &mut line.won } else { &mut line.serving };
        *frontier = within.max(*frontier);
        let lost_claims = seen.claimed.min(claims_max).saturating_sub(line.claims_known);
        line.claims_known += lost_claims;
        let ahead = seen.serving.saturating_sub(line.joined);
        if may_run_ahead && !is_newest && ahead > 0 {
            let newest = self.lines.last_mut().unwrap();
            newest.serving = newest.serving.max(newest.base + ahead);
        }
        self.add_phantoms(lost_claims);
    }

    /// Gives a line back that was lost altogether. Who of those behind its floor had claimed or left, nobody knows.
    fn restore_line(&mut self, seen: &anteroom_core::Line, after: &Room) {
        if self.lines.len() == SEGMENTS_MAX {
            return;
        }
        let people = seen.joined - seen.base;
        self.lines.push(Line {
            joined: seen.joined,
            serving: seen.floor,
            claims_known: seen.claimed.min(people),
            ..Line::open(seen.generation, seen.base)
        });
        self.lines.sort_by_key(|line| line.generation);
        self.add_places(seen.generation, seen.base + 1..=seen.floor, Story::Lapsed);
        self.add_places(seen.generation, seen.floor + 1..=seen.joined, Story::Waiting);
        self.recall_line(seen, after);
        self.add_phantoms(seen.inside.min(people));
    }

    fn honour_lost_lines(&mut self, mend: &Mend) {
        let (oldest, newest) = (self.lines[0].generation, self.newest());
        let honoured = self.losses.honours_after;
        self.losses.honours_after = Some(if mend.sessions_lost {
            honoured.map_or(oldest, |after| after.min(oldest))
        } else {
            let after = honoured.unwrap_or(newest);
            let closed =
                mend.oldest.map(|oldest| Generation { opened: oldest.opened - 1, incarnation: u8::MAX });
            closed.map_or(after, |closed| closed.max(after))
        });
    }

    /// Goes on after an interruption, in the line that the room names.
    pub(crate) fn mend(&mut self, mend: &Mend, answer: &Result<Answer, Refusal>, after: &Room) {
        let Ok(Answer::LineOpened(generation)) = *answer else { panic!("{answer:?}") };
        if mend.sessions_lost {
            let inside = self.inside.len() as u64 - std::mem::take(&mut self.credits);
            self.inside.clear();
            self.add_phantoms(inside);
        }
        self.close_before(mend.oldest);
        for index in 0..self.lines.len() {
            let generation = self.lines[index].generation;
            let claimed =
                |visitor: &&Visitor| visitor.key.generation == generation && visitor.story == Story::Claimed;
            self.lines[index].claims_known = self.visitors.iter().filter(claimed).count() as u64;
        }
        let stored = self.newest();
        self.honour_lost_lines(mend);
        for seen in &mend.lines {
            let is_plausible =
                seen.generation.opened_unix_seconds() <= self.clock.seconds() + CLOCK_SKEW_MAX_SECONDS;
            if self.index_of(seen.generation).is_some() {
                self.recall_line(seen, after);
            } else if self.honours(seen.generation) || seen.generation > stored && is_plausible {
                self.restore_line(seen, after);
            }
        }
        self.recall_moves(&mend.moved);
        self.offer_what_is_served();
        self.close_before(mend.oldest);
        let highest = self.lines.iter().map(|line| line.joined).max().unwrap();
        let dropped = if self.lines.len() < SEGMENTS_MAX {
            None
        } else {
            let before_newest = &self.lines[..SEGMENTS_MAX - 1];
            let over = before_newest.iter().find(|line| self.is_over(line));
            Some(over.map(|line| line.generation))
        };
        match dropped {
            Some(None) => {
                assert_eq!(generation, self.newest(), "the newest line goes on");
                let margins = mend.margin * (1 + u64::from(mend.incarnation));
                self.leave_numbers_out(margins.min(MARGIN_MAX));
            }
            over => {
                assert!(generation > self.newest(), "a new line is behind all others");
                self.open_line(generation, highest + mend.margin, over.flatten());
            }
        }
    }

    /// Numbers that nobody gets count as given up; in a line without people they lie before its beginning.
    fn leave_numbers_out(&mut self, count: u64) {
        let line = self.lines.last_mut().unwrap();
        let (generation, before) = (line.generation, line.joined);
        if line.serving >= line.joined {
            line.serving += count;
        }
        line.joined += count;
        if line.base == before {
            line.base = line.joined;
        } else {
            self.add_places(generation, before + 1..=before + count, Story::Left);
        }
    }

    /// Another node tells what it remembers of lines that are closed to joins.
    pub(crate) fn recall(&mut self, lines: &[anteroom_core::Line], moved: &MovedPlaces, after: &Room) {
        let newest = self.newest();
        for seen in lines.iter().filter(|seen| seen.generation < newest) {
            if self.index_of(seen.generation).is_some() {
                self.recall_line(seen, after);
            } else if self.honours(seen.generation) {
                self.restore_line(seen, after);
            }
        }
        self.recall_moves(moved);
        self.offer_what_is_served();
    }

    /// Of several copies of a ticket the highest counts.
    fn recall_moves(&mut self, moved: &MovedPlaces) {
        for (&key, record) in moved.iter() {
            if self.find(key).is_some_and(|visitor| visitor.story.is_open()) {
                let known = self.copies.entry(key).or_default();
                *known = record.copy.max(*known);
            }
        }
    }

    /// A ticket proves that its place and all before it, as far as the line is known, were handed out.
    pub(crate) fn show(&mut self, ticket: &Ticket, after: &Room) -> Result<Answer, Refusal> {
        let is_known = self.find(key_of(ticket)).is_some();
        let shown = self.show_place(ticket, after);
        if shown.is_ok() && !is_known && ticket.copy > 0 {
            self.copies.insert(key_of(ticket), ticket.copy);
        }
        shown
    }

    fn show_place(&mut self, ticket: &Ticket, after: &Room) -> Result<Answer, Refusal> {
        let (generation, position) = (ticket.generation, ticket.position.get());
        let is_newest = generation == self.newest();
        let is_recent = ticket.entry_time() + LOST_TICKET_AGE_MAX_SECONDS >= self.clock.seconds();
        let is_honoured = self.honours(generation) && is_recent;
        let Some(index) = self.index_of(generation) else {
            if !is_honoured {
                return Err(Refusal::UnknownTicket);
            }
            if self.lines.len() == SEGMENTS_MAX {
                return Err(Refusal::SegmentsFull);
            }
            let is_first_lost_line = self.lines.len() == 1;
            self.lines.push(Line { joined: position, ..Line::open(generation, position - 1) });
            self.lines.sort_by_key(|line| line.generation);
            self.add_places(generation, position..=position, Story::Waiting);
            if self.losses.learning_until == UnixMillis(0) || is_first_lost_line {
                self.losses.learning_until = self.clock.plus(LEARNING_MILLIS);
            }
            return Ok(Answer::Done);
        };
        let line = self.lines[index].clone();
        if line.base < position && position <= line.joined {
            return Ok(Answer::Done);
        }
        if is_newest {
            return Err(Refusal::UnknownTicket);
        }
        // One ticket adds so many places at most.
        let added = position.abs_diff(if position > line.joined { line.joined } else { line.base + 1 });
        let is_too_far = added > SHOWN_GROWTH_MAX;
        if position > line.joined {
            if is_too_far {
                return Err(Refusal::LineNotLearned);
            }
            self.add_places(generation, line.joined + 1..=position, Story::Waiting);
            self.lines[index].joined = position;
        } else if is_honoured && self.is_untouched(&line, after) {
            if is_too_far {
                return Err(Refusal::LineNotLearned);
            }
            self.add_places(generation, position..=line.base, Story::Waiting);
            self.lines[index].base = position - 1;
            self.lines[index].serving = position - 1;
        } else {
            return Err(Refusal::UnknownTicket);
        }
        Ok(Answer::Done)
    }
}
