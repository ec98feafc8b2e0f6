//! What must hold of an auction, whatever the load: the earliest present win, and nobody is let in beyond the slots.
//!
//! Like every check, these are red only where what was seen cannot have come about rightly. Rounds close on a grid of the clock, and
//! the server settles one at its closing moment or later. So a visitor who was told to return *before* that moment, and asked after
//! another had the answer of the round before, was turned away in that very round: nobody later in line may have won it.

use std::time::Duration;

use super::checks::{Check, Offences};
use super::moment::Moment;
use super::record::Record;

pub(super) const EARLIEST_WIN: (&str, &str) =
    ("earliest present win", "nobody won a round in which somebody earlier in line was turned away");
pub(super) const NO_OVERSHOOT: (&str, &str) =
    ("no overshoot", "never more people inside than there are slots");

/// What the operator's key lets a run know about the room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Auction {
    /// The first closing moment of a round in the run.
    pub(super) first_closing: Moment,
    /// Time from one to the next.
    pub(super) round: Duration,
    /// How many may be inside; none where reports alone decide.
    pub(super) slots: Option<u64>,
}

/// The checks of an auction; `None` where its settings are not known.
pub(super) fn checks(records: &[Record], auction: Option<&Auction>) -> Vec<Check> {
    let Some(auction) = auction else {
        let why = "needs a key, for the room's settings (--let-out or --create-room), and a server on this machine, for its clock";
        return vec![Check::not_judged(EARLIEST_WIN, why), Check::not_judged(NO_OVERSHOOT, why)];
    };
    vec![earliest_present_win(records, auction), no_overshoot(records, auction)]
}

impl Auction {
    /// The number of the round that was open at a moment.
    fn round_at(&self, moment: Moment) -> u64 {
        let round = u64::try_from(self.round.as_micros()).unwrap_or(u64::MAX).max(1);
        match moment.microseconds_since(self.first_closing) {
            0 if moment < self.first_closing => 0,
            since => since / round + 1,
        }
    }
}

fn earliest_present_win(records: &[Record], auction: &Auction) -> Check {
    // Who won which round: held over its closing moment, and answered before the next one.
    let mut winners: Vec<(u64, Moment, &Record)> = Vec::new();
    // Who was told to return within a round.
    let mut turned_away: Vec<(u64, Moment, &Record)> = Vec::new();
    for record in records {
        for check_in in &record.check_ins {
            let (sent, answered) = (auction.round_at(check_in.sent), auction.round_at(check_in.answered));
            match (check_in.won, answered.checked_sub(sent)) {
                (true, Some(1)) => winners.push((sent, check_in.answered, record)),
                (false, Some(0)) => turned_away.push((sent, check_in.sent, record)),
                _ => {}
            }
        }
    }
    let mut offences = Offences::default();
    let mut judged = 0;
    for (round, _, winner) in &winners {
        // The round before had been settled when the first of its winners had an answer.
        let settled = round.checked_sub(1).and_then(|before| {
            winners.iter().filter(|(won, ..)| *won == before).map(|(_, answered, _)| *answered).min()
        });
        let Some(settled) = settled else { continue };
        judged += 1;
        let earlier = turned_away
            .iter()
            .find(|(away, sent, record)| away == round && *sent >= settled && record.place < winner.place);
        if let Some((_, _, loser)) = earlier {
            offences.add(|| {
                format!(
                    "visitor {} won round {round}, and visitor {} ahead of them was turned away",
                    winner.index, loser.index
                )
            });
        }
    }
    Check::new(EARLIEST_WIN, judged, offences)
}

fn no_overshoot(records: &[Record], auction: &Auction) -> Check {
    let Some(slots) = auction.slots else {
        return Check::not_judged(NO_OVERSHOOT, "the room has no fixed number of slots");
    };
    let mut changes: Vec<(Moment, bool)> = Vec::new();
    for record in records {
        let (Some(from), Some(until)) = (record.admitted, record.inside_until) else { continue };
        if from < until {
            changes.extend([(from, true), (until, false)]);
        }
    }
    let judged = changes.len() / 2;
    // Of two at the same moment, who leaves goes first.
    changes.sort_unstable();
    let (mut inside, mut offences) = (0_u64, Offences::default());
    for (at, comes) in changes {
        inside = if comes { inside + 1 } else { inside.saturating_sub(1) };
        if comes && inside > slots {
            offences.add(|| format!("{inside} inside at {:.3} s, of {slots} slots", at.seconds()));
        }
    }
    Check::new(NO_OVERSHOOT, judged, offences)
}

#[cfg(test)]
mod tests {
    use super::super::checks::Verdict;
    use super::super::record::{CheckIn, PlaceInLine};
    use super::*;

    fn at(milliseconds: u64) -> Moment {
        Moment::from_microseconds(milliseconds * 1000)
    }

    const AUCTION: Auction =
        Auction { first_closing: Moment::at_start(), round: Duration::from_secs(1), slots: Some(1) };

    fn visitor(position: u64, sent: u64, answered: u64, won: bool) -> Record {
        let mut record = Record::new(position, at(0));
        record.place = Some(PlaceInLine { generation: 0, position });
        record.check_ins.push(CheckIn { sent: at(sent), answered: at(answered), won });
        record
    }

    #[test]
    fn a_winner_later_in_line_than_somebody_turned_away_is_found() {
        let before = visitor(1, 100, 1_010, true);
        let loser = visitor(2, 1_100, 1_110, false);
        let winner = visitor(3, 1_200, 2_010, true);
        let judged = earliest_present_win(&[before.clone(), loser, winner.clone()], &AUCTION);
        assert_eq!((judged.verdict, judged.offences), (Verdict::Red, 1));
        // Turned away later in line, or in another round, or nobody knows in which: all is well.
        for other in [
            visitor(4, 1_100, 1_110, false),
            visitor(2, 2_100, 2_110, false),
            visitor(2, 1_000, 1_110, false),
        ] {
            let judged = earliest_present_win(&[before.clone(), other, winner.clone()], &AUCTION);
            assert_eq!((judged.verdict, judged.judged), (Verdict::Green, 1));
        }
    }

    #[test]
    fn one_more_inside_than_slots_is_found() {
        let inside = |position, from, until| {
            let mut record = visitor(position, from, from, true);
            (record.admitted, record.inside_until) = (Some(at(from)), Some(at(until)));
            record
        };
        assert_eq!(no_overshoot(&[inside(1, 0, 10), inside(2, 10, 20)], &AUCTION).verdict, Verdict::Green);
        assert_eq!(no_overshoot(&[inside(1, 0, 11), inside(2, 10, 20)], &AUCTION).verdict, Verdict::Red);
    }
}
