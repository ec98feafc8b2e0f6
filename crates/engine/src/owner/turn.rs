//! A turn as values: what was computed from a room and a batch, before and after it is written.

use std::collections::HashMap;

use anteroom_core::{
    Answer, Effects, Generation, Operation, Reads, Refusal, Room, Session, SessionKey, UnixMillis, apply,
};
use anteroom_store::contract::AuditRecord;

/// What to tell everybody who asked.
pub(super) struct Answers {
    pub(super) joins: Vec<JoinedRange>,
    pub(super) join_refusal: Option<Refusal>,
    pub(super) operations: Vec<Result<Answer, Refusal>>,
}

/// A turn's result: the next room, what to write, and the answers.
pub(super) struct TurnResult {
    pub(super) room: Room,
    pub(super) effects: Effects,
    pub(super) answers: Answers,
    pub(super) audit: Vec<AuditRecord>,
    pub(super) joined_before: u64,
    pub(super) opens_line: bool,
    pub(super) expected: u64,
}

#[derive(Clone, Copy)]
pub(super) struct JoinedRange {
    pub(super) generation: Generation,
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) entered: u32,
}

impl TurnResult {
    /// Whether a request is refused although no commit will show whether the room is still as it was: another node may
    /// have served its ticket since.
    pub(super) fn refuses_unwritten(&self) -> bool {
        let compares = self.effects.changed || !self.audit.is_empty();
        let Answers { join_refusal, operations, .. } = &self.answers;
        !compares && (join_refusal.is_some() || operations.iter().any(Result::is_err))
    }

    /// Other nodes may have joined visitors in between: this node's then stand behind them.
    pub(super) fn shift_joins(&mut self, joined: u64) {
        let before = self.room.newest().joined;
        let newest = self.room.newest().generation;
        for range in self.answers.joins.iter_mut().filter(|range| range.generation == newest) {
            // The store's word counts, also where it has fallen behind what was seen.
            range.first = (range.first + joined).saturating_sub(before);
        }
        if let Some(segment) = self.room.segments.back_mut() {
            segment.joined = joined;
        }
    }
}

/// The effects of a turn so far, and the sessions as they would be after it.
pub(super) struct Turn {
    pub(super) effects: Effects,
    pub(super) sessions: HashMap<SessionKey, Session>,
    pub(super) now: UnixMillis,
}

impl Turn {
    pub(super) fn apply(
        &mut self,
        room: Room,
        operation: &Operation,
        reads: Reads,
    ) -> (Room, Result<Answer, Refusal>) {
        let applied = apply(room, self.now, operation, reads);
        for session in &applied.effects.sessions {
            self.sessions.insert(session.key, session.clone());
        }
        self.effects.absorb(applied.effects);
        (applied.room, applied.answer)
    }

    /// Joins `wanted` visitors, opening a new generation where the positions run out.
    pub(super) fn join(
        &mut self,
        mut room: Room,
        wanted: u64,
        joins: &mut Vec<JoinedRange>,
    ) -> (Room, Option<Refusal>) {
        let mut left = wanted;
        while left > 0 {
            let fitting = left.min(room.places_left());
            let operation = if fitting == 0 && room.state.takes_joins() {
                // Nobody can know this number beforehand, but nothing depends on that: the generation itself is new.
                Operation::OpenSegment { incarnation: room.newest().generation.incarnation.wrapping_add(1) }
            } else {
                Operation::Join { count: fitting }
            };
            let answer;
            (room, answer) = self.apply(room, &operation, Reads::default());
            match answer {
                Ok(Answer::Joined { generation, first, count, entered }) => {
                    joins.push(JoinedRange { generation, first: first.get(), count, entered });
                    left -= count;
                }
                Ok(_) => {}
                Err(refusal) => return (room, Some(refusal)),
            }
        }
        (room, None)
    }
}
