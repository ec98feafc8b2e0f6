//! The promises, after every operation.

use std::collections::BTreeSet;

use anteroom_core::{Answer, Board, MovedBy, Operation, PlaceStatus, Reads, SessionKey, Standing, apply};

use super::model::Story;
use super::play::{Play, key_of};

/// Whether an operation makes up for what a store has lost: offers that the lost side had made are made again.
fn makes_up_for_a_loss(operation: &Operation) -> bool {
    matches!(operation, Operation::Mend(_) | Operation::Recall { .. } | Operation::Show { .. })
}

/// Whether an operation is an operator's word, which may take back what was promised before.
fn is_operators_word(operation: &Operation) -> bool {
    matches!(operation, Operation::Advance { .. } | Operation::Reconfigure(_) | Operation::Reset { .. })
}

/// Promises 1 and 3 across a loss: no line and no frontier is behind what the node that mended the room remembers.
fn check_that_nothing_remembered_is_lost(remembered: &Board, after: &Board) {
    for was in &remembered.segments {
        if let Some(line) = after.segments.iter().find(|line| line.generation == was.generation) {
            assert!(line.joined >= was.joined, "places that were handed out are unknown");
            assert!(line.serving >= was.serving.min(was.joined), "the frontier moved back by a loss");
        }
    }
}

impl Play {
    pub(crate) fn check_everything(&mut self, operation: &Operation, before: &Board) {
        let after = Board::of(&self.room);
        self.check_order_of_joins();
        self.check_figures();
        self.check_timetable(before, &after);
        self.check_frontier_and_capacity(operation, before, &after);
        if let Some(remembered) = self.remembered.take() {
            check_that_nothing_remembered_is_lost(&remembered, &after);
            let newest = remembered.segments.last().map(|line| line.generation);
            if !after.segments.iter().any(|line| Some(line.generation) == newest) {
                self.ordered_from = self.handed_out.len();
            }
        }
        self.check_places(operation, &after);
        self.check_one_place_by_asking(&after);
        self.check_that_nothing_happens_before_it_is_due(&after);
    }

    /// Promises 1 and 2.
    fn check_order_of_joins(&self) {
        let strictly_rising = |pair: &[SessionKey]| pair[0] < pair[1];
        let tail = self.handed_out.len().saturating_sub(8).max(self.ordered_from);
        assert!(self.handed_out[tail..].windows(2).all(strictly_rising), "each place once, in order");
    }

    fn check_figures(&self) {
        let (room, model) = (&self.room, &self.model);
        assert_eq!(room.clock, model.clock);
        assert_eq!(room.serving(), model.serving(), "frontier");
        let shown: Vec<u64> = Board::of(room).segments.iter().map(|line| line.serving).collect();
        assert_eq!(shown, model.frontiers(), "the frontier of each line");
        assert_eq!(room.waiting(), model.waiting(), "waiting");
        assert_eq!(room.offers(), model.offers(), "offers");
        assert_eq!(room.active(), model.active(), "active");
        assert_eq!(room.capacity(), model.capacity(), "capacity");
        assert_eq!(room.reports.free(&room.settings, room.clock), model.reported_free(), "free slots");
        assert_eq!(room.losses.phantoms, model.losses.phantoms, "visitors whose sessions were lost");
        assert_eq!(room.losses.learning_until, model.losses.learning_until, "recovery");
        let lines: Vec<_> =
            room.segments.iter().map(|line| (line.generation, line.base, line.joined)).collect();
        let expected: Vec<_> =
            model.lines.iter().map(|line| (line.generation, line.base, line.joined)).collect();
        assert_eq!(lines, expected, "the numbers of each line");
        assert_eq!(room.rate_budget, model.budget, "budget");
        assert_eq!((&*room.settings, room.state), (&model.settings, model.state), "both or neither");
        let rounds = room
            .auction
            .as_ref()
            .map(|auction| (auction.round, auction.free, auction.spare, auction.settled));
        let expected =
            model.rounds.as_ref().map(|rounds| (rounds.round, rounds.free, rounds.spare, rounds.settled));
        assert_eq!(rounds, expected, "the round");
        for visitor in model.visitors.iter().filter(|visitor| visitor.story.is_open()) {
            let copy = room.moved.get(&visitor.key).map_or(0, |moved| moved.copy);
            let expected = model.copies.get(&visitor.key).copied().unwrap_or(0);
            assert_eq!(copy, expected, "which device holds {:?}", visitor.key);
        }
        let departed: Vec<_> = room.departed.iter().map(|departed| (departed.key, departed.at)).collect();
        assert_eq!(departed, self.stays.departed, "ended visits that are shown");
    }

    /// Promise 8: room and timetable agree on the next slot, and on how many were missed, so none was taken twice.
    fn check_timetable(&self, before: &Board, after: &Board) {
        assert_eq!(self.room.next_step_at, self.model.timetable, "the next slot");
        assert_eq!(self.room.steps_missed, self.model.slots_missed, "slots that are gone");
        let steps =
            |board: &Board| board.moves[MovedBy::Periodic as usize] + board.moves[MovedBy::Window as usize];
        assert!(steps(after) - steps(before) <= 1, "one step at a time");
    }

    /// Promises 3 and 5.
    fn check_frontier_and_capacity(&self, operation: &Operation, before: &Board, after: &Board) {
        if is_operators_word(operation) {
            return;
        }
        for line in &after.segments {
            let was = before.segments.iter().find(|other| other.generation == line.generation);
            // Where nobody was served, a line may turn out to begin earlier.
            let was = was.filter(|was| was.serving > was.base);
            let went_back =
                was.is_some_and(|was| line.serving.min(line.joined) < was.serving.min(was.joined));
            assert!(!went_back, "the frontier moved back by itself");
        }
        if makes_up_for_a_loss(operation) {
            return;
        }
        let (held_before, held) = (before.active + before.offers, after.active + after.offers);
        if let Some(capacity) = self.room.capacity() {
            assert!(held <= capacity.max(held_before), "{held} held of {capacity} after {operation:?}");
        }
        if before.settings.queue_all {
            assert!(
                after.offers <= before.offers && held <= held_before,
                "somebody was let in by {operation:?}"
            );
        }
        let gives_slots = after.settings.inlet.is_capped() || after.settings.is_auction();
        let free_by = |board: &Board| board.reports.free(&after.settings, after.clock);
        // What was due before a report goes by what was reported before it.
        let free = if matches!(operation, Operation::Report(_)) {
            free_by(before).zip(free_by(after)).map(|(earlier, now)| earlier.max(now))
        } else {
            free_by(after)
        };
        if let Some(free) = free.filter(|_| gives_slots) {
            let passes = after.reports.issued - before.reports.issued;
            let offered = (after.offers + passes).saturating_sub(before.offers);
            assert!(offered == 0 || after.offers <= free.max(before.offers), "offered more than is free");
        }
    }

    /// Promise 12, and that the board tells each visitor what the rules would.
    fn check_places(&mut self, operation: &Operation, after: &Board) {
        // Those who had left on the side that was lost are in front again.
        if is_operators_word(operation) || makes_up_for_a_loss(operation) {
            self.shown.clear();
        }
        let frontiers = self.model.frontiers();
        let mut beyond_before = 0;
        let mut live_before = 0;
        for visitor in &self.model.visitors {
            let key = visitor.key;
            let line = self.model.lines.iter().position(|line| line.generation == key.generation).unwrap();
            let beyond = key.position.get() > frontiers[line];
            if !visitor.story.is_open() {
                beyond_before += u64::from(beyond);
                continue;
            }
            let Some(ticket) = self.ticket_of(key) else {
                // Once left out, and given back by a node that does not know who had left.
                beyond_before += u64::from(beyond);
                live_before += u64::from(beyond && visitor.story == Story::Waiting);
                continue;
            };
            let standing = after.standing(&ticket, self.room.clock);
            let place = match (visitor.story, standing) {
                (Story::Waiting, Standing::Waiting { people_ahead }) => {
                    assert!(beyond, "the frontier has passed it");
                    assert!((live_before..=beyond_before).contains(&people_ahead), "{people_ahead} ahead");
                    people_ahead + 1
                }
                (Story::Waiting, Standing::Passed) => {
                    assert!(!beyond && after.settings.is_auction());
                    0
                }
                (Story::Offered(at), Standing::Offered { remaining_millis }) => {
                    let window = self.model.settings.claim_window_millis();
                    let clock = self.model.halted_since.unwrap_or(self.model.clock).max(at);
                    assert_eq!(remaining_millis, window.map(|window| at.0 + window - clock.0));
                    0
                }
                (Story::Won(_), Standing::Offered { remaining_millis: Some(1..) }) => 0,
                other => panic!("{other:?}"),
            };
            let best = self.shown.entry(key).or_insert(place);
            assert!(place <= *best, "the place of {key:?} got worse: {place}, was {best}");
            *best = place;
            beyond_before += u64::from(beyond);
            live_before += u64::from(beyond && visitor.story == Story::Waiting);
        }
    }

    /// The room itself tells one visitor, another one after each step, what the model's story says.
    fn check_one_place_by_asking(&self, after: &Board) {
        let visitors = &self.model.visitors;
        let chosen = usize::try_from(after.clock.0 / 7 + after.waiting).unwrap() % visitors.len().max(1);
        let Some(visitor) = visitors.get(chosen) else { return };
        // Numbers that were left out are nobody's.
        let Some(ticket) = self.ticket_of(visitor.key) else { return };
        let reads = Reads { session: self.sessions.get(&key_of(&ticket)).cloned(), ..Reads::default() };
        let asked = apply(self.room.clone(), self.room.clock, &Operation::Inspect { ticket }, reads);
        let nothing_due = self.room.next_due().is_none_or(|due| due > self.room.clock);
        assert!(!asked.effects.changed || !nothing_due, "asking changes nothing");
        let Ok(Answer::Place(place)) = asked.answer else { panic!("{:?}", asked.answer) };
        self.check_told(visitor.story, &place, self.sessions.contains_key(&visitor.key));
    }

    pub(crate) fn check_told(&self, story: Story, place: &PlaceStatus, has_session: bool) {
        let fits = match story {
            Story::Offered(_) | Story::Won(_) if self.model.state.admits() => *place == PlaceStatus::Offered,
            Story::Waiting | Story::Offered(_) | Story::Won(_) => *place == PlaceStatus::Waiting,
            Story::Claimed if has_session => matches!(place, PlaceStatus::Claimed(_)),
            // Of one whose session was lost only that it is over is known.
            Story::Claimed | Story::Left | Story::Lapsed => *place == PlaceStatus::Gone,
        };
        assert!(fits, "{story:?} is told {place:?}");
    }

    /// A server sleeps until the room says that something is due: nothing that anybody can see may happen before.
    fn check_that_nothing_happens_before_it_is_due(&self, after: &Board) {
        let due = self.room.next_due().map_or(self.room.clock.0 + 600_000, |due| due.0 - 1);
        if due <= self.room.clock.0 {
            return;
        }
        let early = anteroom_core::UnixMillis(due);
        let slept = Board::of(&apply(self.room.clone(), early, &Operation::Tick, Reads::default()).room);
        let figures =
            |board: &Board| (board.serving, board.offers, board.waiting, board.active, board.counts);
        assert_eq!(figures(&slept), figures(after), "something happened before it was due");
    }

    /// Promise 1, once at the end: over everything that was ever handed out.
    pub(crate) fn check_that_places_were_unique(&self) {
        let unique: BTreeSet<_> = self.handed_out.iter().collect();
        assert_eq!(unique.len(), self.handed_out.len(), "no two tickets share a place");
    }
}
