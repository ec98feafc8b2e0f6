//! What must hold, whatever the load. Each check says how many cases it looked at, how many offend, and shows the first.
//!
//! No check may cry wolf: it is red only when what was seen cannot have come about rightly. That is why everything is
//! judged by intervals (sent to answered) and not by points in time.

use std::time::Duration;

use super::ledger::ClosedLedger;
use super::moment::Moment;
use super::operator::FrontierSteps;
use super::record::{Outcome, Record, Repetition};

/// The names of the checks, in the order of the report, with what each says.
pub(super) const NO_DUPLICATE: (&str, &str) =
    ("no duplicate position", "no two visitors were told the same place");
pub(super) const ORDER_KEPT: (&str, &str) =
    ("order kept", "a join answered before another was sent has the smaller position");
pub(super) const NOBODY_EARLY: (&str, &str) =
    ("nobody admitted early", "no pass was handed out before the frontier had reached its place");
pub(super) const FRONTIER_FORWARD: (&str, &str) =
    ("frontier never back", "nobody was told a lower serving number than somebody before");
pub(super) const PLACE_STAYS: (&str, &str) =
    ("place never changed", "asked again, and in the pass itself, the place is the one first told");
pub(super) const PASS_STAYS: (&str, &str) =
    ("repeated claims identical", "a claim repeated gives the same tokens, byte for byte");
pub(super) const NO_SURPRISE: (&str, &str) =
    ("no unexpected answer", "every answer is one the API's contract has for that question");
pub(super) const ALL_ENDED: (&str, &str) =
    ("everybody ended", "every visitor was admitted, left, or was refused by name");

/// What a check came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Holds.
    Green,
    /// Does not hold.
    Red,
    /// Could not be judged, and why.
    NotJudged(String),
}

/// One check with its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    pub(super) verdict: Verdict,
    /// How many cases were looked at.
    pub(super) judged: u64,
    pub(super) offences: u64,
    pub(super) first_offender: Option<String>,
}

impl Check {
    pub(super) fn new(
        (name, meaning): (&'static str, &'static str),
        judged: usize,
        offences: Offences,
    ) -> Self {
        let verdict = if offences.count == 0 { Verdict::Green } else { Verdict::Red };
        let Offences { count, first } = offences;
        Self { name, meaning, verdict, judged: judged as u64, offences: count, first_offender: first }
    }

    pub(super) fn not_judged((name, meaning): (&'static str, &'static str), why: &str) -> Self {
        let verdict = Verdict::NotJudged(why.to_owned());
        Self { name, meaning, verdict, judged: 0, offences: 0, first_offender: None }
    }
}

/// How many, and the first in words.
#[derive(Debug, Default)]
pub(super) struct Offences {
    count: u64,
    first: Option<String>,
}

impl Offences {
    pub(super) fn add(&mut self, describe: impl FnOnce() -> String) {
        self.count += 1;
        self.first.get_or_insert_with(describe);
    }
}

/// All checks over a finished run. `figures_lag` is how old a figure may be when it is told.
pub(super) fn all(
    records: &[Record],
    closed: &ClosedLedger,
    let_out: Option<&FrontierSteps>,
    figures_lag: Duration,
) -> Vec<Check> {
    vec![
        no_duplicate_position(records),
        order_kept(records),
        nobody_admitted_early(records, closed, let_out, figures_lag),
        frontier_never_back(closed, figures_lag),
        same_answer_twice(PLACE_STAYS, records, |record| &record.place_again),
        same_answer_twice(PASS_STAYS, records, |record| &record.pass_again),
        no_unexpected_answer(closed),
        everybody_ended(records),
    ]
}

/// Whether nothing is red.
pub(super) fn is_green(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.verdict != Verdict::Red)
}

fn no_duplicate_position(records: &[Record]) -> Check {
    let mut placed: Vec<&Record> = records.iter().filter(|record| record.place.is_some()).collect();
    placed.sort_unstable_by_key(|record| (record.place, record.index));
    let mut offences = Offences::default();
    for pair in placed.windows(2) {
        if pair[0].place == pair[1].place {
            offences.add(|| {
                format!("visitors {} and {} both hold {}", pair[0].index, pair[1].index, position(pair[0]))
            });
        }
    }
    Check::new(NO_DUPLICATE, placed.len(), offences)
}

/// A sweep in the order of sending. Behind it come the joins that were answered before: the highest place among them must
/// be below the place of the join just sent.
fn order_kept(records: &[Record]) -> Check {
    let joined: Vec<(Moment, Moment, &Record)> = records
        .iter()
        .filter(|record| record.place.is_some())
        .filter_map(|record| Some((record.sent?, record.answered?, record)))
        .collect();
    let mut by_sent = joined.clone();
    by_sent.sort_unstable_by_key(|(sent, _, record)| (*sent, record.index));
    let mut by_answered = joined;
    by_answered.sort_unstable_by_key(|(_, answered, record)| (*answered, record.index));
    let mut earlier = by_answered.into_iter().peekable();
    let mut highest: Option<&Record> = None;
    let mut offences = Offences::default();
    for (sent, _, record) in &by_sent {
        while let Some((_, _, before)) = earlier.next_if(|(_, answered, _)| answered < sent) {
            if highest.is_none_or(|highest| before.place > highest.place) {
                highest = Some(before);
            }
        }
        if let Some(before) = highest.filter(|before| before.place > record.place) {
            offences.add(|| {
                format!(
                    "visitor {} was answered {} before visitor {} asked, who got {}",
                    before.index,
                    position(before),
                    record.index,
                    position(record)
                )
            });
        }
    }
    Check::new(ORDER_KEPT, by_sent.len(), offences)
}

/// Two proofs that a pass came too early: the only operator had not yet sent the step that serves its place; or a visitor
/// asked for the frontier after the pass was there, and was told a lower number.
fn nobody_admitted_early(
    records: &[Record],
    closed: &ClosedLedger,
    let_out: Option<&FrontierSteps>,
    figures_lag: Duration,
) -> Check {
    if !closed.frontier.steps_back(figures_lag).is_empty() {
        return Check::not_judged(NOBODY_EARLY, "the frontier went back, so it proves nothing");
    }
    let mut generations: Vec<u64> =
        records.iter().filter_map(|record| record.place).map(|place| place.generation).collect();
    generations.sort_unstable();
    generations.dedup();
    if generations.len() > 1 {
        return Check::not_judged(NOBODY_EARLY, "the line began anew during the run");
    }
    let highest_set = let_out.map(|done| done.start + done.total());
    let alone = let_out.filter(|done| done.alone && closed.frontier.highest() <= highest_set);
    let bounds = closed.frontier.still_at_most();
    let mut judged = 0;
    let mut offences = Offences::default();
    for record in records {
        let (Some(place), Some(admitted)) = (record.place, record.admitted) else { continue };
        judged += 1;
        let sent_later = alone.is_some_and(|done| place.position > done.at_most_at(admitted));
        let below = bounds.partition_point(|(serving, _)| *serving < place.position);
        let read_later =
            below.checked_sub(1).is_some_and(|last| bounds[last].1 > admitted.after(figures_lag));
        if sent_later || read_later {
            offences.add(|| {
                let proof = if sent_later {
                    "the line had not been moved there"
                } else {
                    "a later reading was lower"
                };
                format!(
                    "visitor {} with {} was admitted at {:.3} s: {proof}",
                    record.index,
                    position(record),
                    admitted.seconds()
                )
            });
        }
    }
    Check::new(NOBODY_EARLY, judged, offences)
}

fn frontier_never_back(closed: &ClosedLedger, figures_lag: Duration) -> Check {
    let mut offences = Offences::default();
    for (higher, lower) in closed.frontier.steps_back(figures_lag) {
        offences.add(|| format!("somebody was told {lower} after somebody else had been told {higher}"));
    }
    let judged = usize::try_from(closed.frontier.values()).unwrap_or(usize::MAX);
    Check::new(FRONTIER_FORWARD, judged, offences)
}

fn same_answer_twice(
    names: (&'static str, &'static str),
    records: &[Record],
    again: impl Fn(&Record) -> &Repetition,
) -> Check {
    let mut judged = 0;
    let mut offences = Offences::default();
    for record in records {
        match again(record) {
            Repetition::NotAsked => {}
            Repetition::Same => judged += 1,
            Repetition::Different(how) => {
                judged += 1;
                offences.add(|| format!("visitor {}: {how}", record.index));
            }
        }
    }
    Check::new(names, judged, offences)
}

fn no_unexpected_answer(closed: &ClosedLedger) -> Check {
    let answers: u64 = closed.tallies.iter().map(|(_, tally)| tally.latencies.len() + tally.busy).sum();
    let offences = Offences { count: closed.surprises.count, first: closed.surprises.first.clone() };
    Check::new(NO_SURPRISE, usize::try_from(answers).unwrap_or(usize::MAX), offences)
}

fn everybody_ended(records: &[Record]) -> Check {
    let mut offences = Offences::default();
    for record in records {
        match &record.outcome {
            Outcome::Admitted | Outcome::Left | Outcome::Refused(_) => {}
            Outcome::GaveUp(why) => offences.add(|| format!("visitor {} gave up: {why}", record.index)),
            Outcome::Unfinished => offences.add(|| {
                let place = if record.place.is_some() { position(record) } else { "no place yet".to_owned() };
                format!("visitor {} was still waiting, with {place}", record.index)
            }),
        }
    }
    Check::new(ALL_ENDED, records.len(), offences)
}

fn position(record: &Record) -> String {
    record.place.map_or_else(|| "no place".to_owned(), |place| format!("place {}", place.position))
}

#[cfg(test)]
mod tests;
