//! What is known about one visitor when the visit is over.

use super::moment::Moment;

/// A place in line. Generations come first: an older line ranks before a newer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PlaceInLine {
    /// The line's incarnation; 0 where the API does not tell it.
    pub(super) generation: u64,
    /// The number in line, from 1.
    pub(super) position: u64,
}

/// How a visit ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Holds a pass.
    Admitted,
    /// Gave the place up, as planned.
    Left,
    /// The server refused by name: the place has lapsed, the room is closed.
    Refused(String),
    /// Too many failures in a row, or an answer nobody should get.
    GaveUp(String),
    /// The run ended first.
    Unfinished,
}

/// The same question asked twice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Repetition {
    /// Not asked a second time.
    #[default]
    NotAsked,
    /// The same answer.
    Same,
    /// Another answer, in words.
    Different(String),
}

/// A check-in to a round of an auction.
#[derive(Debug, Clone, Copy)]
pub(super) struct CheckIn {
    pub(super) sent: Moment,
    pub(super) answered: Moment,
    /// Answered with the pass; else told to come back.
    pub(super) won: bool,
}

/// One visit.
#[derive(Debug, Clone)]
pub(super) struct Record {
    /// The visitor's number in order of arrival, from 0.
    pub(super) index: u64,
    /// When the visitor was to arrive.
    pub(super) due: Moment,
    /// When the visitor in fact set out: before the first attempt to join.
    pub(super) set_out: Option<Moment>,
    /// When the join that was answered with a ticket was sent.
    pub(super) sent: Option<Moment>,
    /// When that answer was complete.
    pub(super) answered: Option<Moment>,
    /// The place, as first told.
    pub(super) place: Option<PlaceInLine>,
    /// When the visitor first saw that the place is served.
    pub(super) seen_served: Option<Moment>,
    /// When the pass was there.
    pub(super) admitted: Option<Moment>,
    /// Whether a claim was tried before the place was known to be served, and refused as it should be.
    pub(super) early_claims_refused: u32,
    /// The place asked for once more, or read from the pass.
    pub(super) place_again: Repetition,
    /// The pass asked for once more.
    pub(super) pass_again: Repetition,
    /// Check-ins to an auction, in order.
    pub(super) check_ins: Vec<CheckIn>,
    /// Until when the visitor was certainly inside, where that is known.
    pub(super) inside_until: Option<Moment>,
    /// How it ended.
    pub(super) outcome: Outcome,
}

impl Record {
    /// A visitor who has not arrived yet.
    pub(super) fn new(index: u64, due: Moment) -> Self {
        Self {
            index,
            due,
            set_out: None,
            sent: None,
            answered: None,
            place: None,
            seen_served: None,
            admitted: None,
            early_claims_refused: 0,
            place_again: Repetition::NotAsked,
            pass_again: Repetition::NotAsked,
            check_ins: Vec::new(),
            inside_until: None,
            outcome: Outcome::Unfinished,
        }
    }
}
