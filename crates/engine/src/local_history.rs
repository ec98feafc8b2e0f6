//! What this node remembers of a room, so that it can tell a store that has forgotten it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use anteroom_core::losses::{Line, Mend, margin};
use anteroom_core::{Generation, MovedPlaces, Room, UnixMillis, moves};

/// How far back joins are counted for the margin, in milliseconds.
const RECENT_MILLIS: u64 = 30_000;
/// Time between two counts.
const COUNT_SPACING_MILLIS: u64 = 1_000;

/// How many claims of each line are confirmed: their passes may have left. Updated by the tasks that wait for
/// confirmations.
pub(super) type ConfirmedClaims = Arc<Mutex<Vec<(Generation, u64)>>>;

/// Claims so far, by line.
pub(super) fn claims_of(room: &Room) -> Vec<(Generation, u64)> {
    room.segments.iter().map(|segment| (segment.generation, segment.counts.claimed)).collect()
}

/// Notes that these claims are confirmed.
pub(super) fn note_confirmed(confirmed: &ConfirmedClaims, claims: &[(Generation, u64)]) {
    let mut confirmed = confirmed.lock().unwrap_or_else(PoisonError::into_inner);
    for &(generation, claimed) in claims {
        match confirmed.iter_mut().find(|known| known.0 == generation) {
            Some(known) => known.1 = known.1.max(claimed),
            None => confirmed.push((generation, claimed)),
        }
    }
}

/// What a node has seen of a room.
#[derive(Default)]
pub(super) struct LocalHistory {
    lines: Vec<Line>,
    pub(super) confirmed: ConfirmedClaims,
    /// The places that have moved to another device.
    moved: MovedPlaces,
    /// When, and how many had joined the newest line by then; oldest first.
    joins: VecDeque<(UnixMillis, u64)>,
}

impl LocalHistory {
    /// Takes in a room as the store has it under an unbroken lineage.
    pub(super) fn note(&mut self, room: &Room) {
        let generations = |generation| room.segments.iter().any(|segment| segment.generation == generation);
        if self.lines.len() != room.segments.len()
            || !self.lines.iter().all(|line| generations(line.generation))
        {
            self.lines.retain(|line| generations(line.generation));
            let mut confirmed = self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
            confirmed.retain(|&(generation, _)| generations(generation));
            drop(confirmed);
            self.joins.clear();
        }
        for segment in &room.segments {
            let serving = segment.serving.max(segment.won);
            let seen = Line {
                generation: segment.generation,
                base: segment.base,
                joined: segment.joined,
                serving,
                floor: segment.floor,
                claimed: 0,
                inside: segment.counts.live_sessions(),
            };
            match self.lines.iter_mut().find(|line| line.generation == segment.generation) {
                Some(line) => *line = seen,
                None => self.lines.push(seen),
            }
        }
        self.moved = Arc::clone(&room.moved);
        self.count_joins(room);
    }

    fn count_joins(&mut self, room: &Room) {
        let (now, joined) = (room.clock, room.newest().joined);
        if self.joins.back().is_none_or(|&(at, _)| now.since(at) >= COUNT_SPACING_MILLIS) {
            self.joins.push_back((now, joined));
        }
        while self.joins.len() > 1 && self.joins.get(1).is_some_and(|&(at, _)| now.since(at) >= RECENT_MILLIS)
        {
            self.joins.pop_front();
        }
    }

    /// Everything it remembers.
    fn lines(&self) -> Vec<Line> {
        let confirmed = self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        let claimed = |generation| {
            confirmed.iter().find(|known| known.0 == generation).map_or(0, |&(_, claimed)| claimed)
        };
        let mut lines: Vec<Line> =
            self.lines.iter().map(|line| Line { claimed: claimed(line.generation), ..*line }).collect();
        lines.sort_by_key(|line| line.generation);
        lines
    }

    /// The newest line it has seen.
    pub(super) fn newest(&self) -> Option<Generation> {
        self.lines.iter().map(|line| line.generation).max()
    }

    /// What it remembers of lines that the room has not come as far in, or does not have.
    pub(super) fn lines_beyond(&self, room: &Room) -> Vec<Line> {
        let newest = room.newest().generation;
        let mut lines = self.lines();
        lines.retain(|line| {
            let segment = room.segments.iter().find(|segment| segment.generation == line.generation);
            line.generation < newest
                && segment.is_none_or(|segment| {
                    line.joined > segment.joined
                        || line.serving > segment.serving.max(segment.won)
                        || line.claimed > segment.recalled
                })
        });
        lines
    }

    /// Those of the places it has seen to move of which the room does not know that.
    pub(super) fn moves_beyond(&self, room: &Room) -> MovedPlaces {
        Arc::new(moves::forgotten(room, &self.moved).into_iter().collect())
    }

    /// What mends a room that may have lost something.
    pub(super) fn mend(&self, incarnation: u8, sessions_lost: bool) -> Mend {
        let lines = self.lines();
        let (first, last) = (self.joins.front(), lines.last());
        let recent = match (first, last) {
            (Some(&(_, before)), Some(line)) => line.joined.saturating_sub(before),
            _ => 0,
        };
        let oldest = lines.first().map(|line| line.generation);
        let moved = Arc::clone(&self.moved);
        Mend { incarnation, margin: margin(recent), lines, oldest, sessions_lost, moved }
    }
}

#[cfg(test)]
mod tests {
    use anteroom_core::losses::{MARGIN_MAX, MARGIN_MIN};
    use anteroom_core::{Mover, Operation, Position, Reads, Settings, Ticket, apply};

    use super::*;

    fn joined(room: Room, now: UnixMillis, count: u64) -> Room {
        apply(room, now, &Operation::Join { count }, Reads::default()).room
    }

    #[test]
    fn the_margin_is_four_times_the_joins_of_the_last_half_minute() {
        let mut now = UnixMillis(1_800_000_000_000);
        let mut history = LocalHistory::default();
        let mut room = Room::open(Settings::default(), now, 1);
        history.note(&room);
        assert_eq!(history.mend(1, false).margin, MARGIN_MIN);
        for _ in 0..120 {
            now = now.plus(1_000);
            room = joined(room, now, 100);
            history.note(&room);
        }
        let margin = history.mend(1, false).margin;
        assert!((4 * 3_000..=4 * 3_100).contains(&margin), "{margin}");
        room = joined(room, now.plus(1), 1_000_000);
        history.note(&room);
        assert_eq!(history.mend(1, false).margin, MARGIN_MAX);
    }

    #[test]
    fn a_node_remembers_which_places_have_moved_until_the_room_knows_it_again() {
        let now = UnixMillis(1_800_000_000_000);
        let early = joined(Room::open(Settings::default(), now, 1), now, 5);
        let generation = early.newest().generation;
        let position = Position::new(3).unwrap();
        let ticket = Ticket { lane: 0, generation, position, entered: 0, copy: 0 };
        let operation = Operation::Move { ticket, by: Mover(7) };
        let late = apply(early.clone(), now, &operation, Reads::default()).room;
        let mut history = LocalHistory::default();
        history.note(&late);
        assert!(history.moves_beyond(&late).is_empty());
        let mended =
            apply(early.clone(), now, &Operation::Mend(history.mend(9, false)), Reads::default()).room;
        assert_eq!(mended.moved, late.moved);
        // Where another node has mended it, the rest is added.
        let others = LocalHistory::default().mend(9, false);
        let mended = apply(early, now, &Operation::Mend(others), Reads::default()).room;
        let moved = history.moves_beyond(&mended);
        assert_eq!(moved.len(), 1);
        let recall = Operation::Recall { lines: history.lines_beyond(&mended), moved };
        let recalled = apply(mended, now, &recall, Reads::default());
        assert!(recalled.effects.changed && history.moves_beyond(&recalled.room).is_empty());
    }

    #[test]
    fn what_the_room_forgot_is_beyond_it_and_what_it_closed_is_not_remembered() {
        let now = UnixMillis(1_800_000_000_000);
        let early = joined(Room::open(Settings::default(), now, 1), now, 5);
        let late = joined(early.clone(), now, 7);
        let mut history = LocalHistory::default();
        history.note(&late);
        assert!(history.lines_beyond(&late).is_empty());
        let mended = apply(early, now, &Operation::Mend(history.mend(9, false)), Reads::default()).room;
        assert_eq!((mended.segments[0].joined, mended.newest().base), (12, 12 + MARGIN_MIN));
        assert!(history.lines_beyond(&mended).is_empty());
        let reset = apply(late, now, &Operation::Reset { incarnation: 3 }, Reads::default()).room;
        history.note(&reset);
        assert_eq!(history.mend(1, false).lines.len(), 1);
    }
}
