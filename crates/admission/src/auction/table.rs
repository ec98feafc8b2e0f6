//! Those present at a room's open round, on this node: never more than can win.
//!
//! Kept in the order of the line. So the last of them is found at once when an earlier ticket comes, and any of them
//! when its connection ends. Each seat has a number, which distinguishes the connection that holds it from an earlier
//! one of the same ticket.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anteroom_core::{Board, Refusal, RoomState, SessionKey};
use anteroom_engine::RoomHandle;
use tokio::sync::oneshot;

use crate::AdmissionError;

/// How a round ended for one ticket.
#[derive(Debug)]
pub enum RoundOutcome {
    /// A slot is the visitor's, for a round.
    Won,
    /// Others were earlier; the visitor keeps their place in line.
    OthersWereEarlier,
    /// The round lasts longer than a connection is held.
    NotOverYet,
    /// Another connection has taken over, with the same ticket.
    TakenOver,
    /// The room can hold no round, or not with this ticket.
    NotPossible(AdmissionError),
}

/// The table of one room.
#[derive(Default)]
pub struct RoundTable(Mutex<Seats>);

#[derive(Default)]
struct Seats {
    taken: BTreeMap<SessionKey, Seat>,
    /// Those of the round that is being settled: no later check-in can displace them.
    settling: BTreeMap<SessionKey, Seat>,
    /// Seats taken so far: the next one's number.
    numbers: u64,
    /// Whether a check-in to the open round found no seat.
    turned_away: bool,
    /// Whether a task closes the rounds.
    has_task: bool,
}

struct Seat {
    number: u64,
    /// None where the client does not wait, but comes back and asks.
    outcome: Option<oneshot::Sender<RoundOutcome>>,
}

/// How a visitor checks in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Waits for its end; a client that hangs up is not present.
    Waits,
    /// Counts as present until its end, and asks again.
    ComesBack,
}

/// The result of a check-in.
pub enum CheckIn {
    /// A seat, and the channel over which its outcome comes.
    Seated(Presence, oneshot::Receiver<RoundOutcome>),
    /// Counted as present; no connection waits.
    Counted,
    /// No seat.
    NoSeat(RoundOutcome),
}

/// The tickets checked in to a round when it closes.
pub(crate) struct Attendance {
    pub(crate) keys: Vec<SessionKey>,
    pub(crate) turned_away: bool,
}

impl RoundTable {
    /// Checks a ticket in. Also says whether a task must be started to close the round.
    pub(crate) fn check_in(
        self: &Arc<Self>,
        room: &RoomHandle,
        key: SessionKey,
        manner: Manner,
    ) -> (CheckIn, bool) {
        let mut seats = self.seats();
        // Looked at under the lock: a later board is reviewed by the task, which finds this seat then.
        let board = room.board();
        let (None, Some(auction)) = (refusal(&board, key), &board.auction) else {
            let error = refusal(&board, key).unwrap_or(AdmissionError::NoAuction);
            return (CheckIn::NoSeat(RoundOutcome::NotPossible(error)), false);
        };
        let must_start = !std::mem::replace(&mut seats.has_task, true);
        let check_in = match seats.seat(key, manner, auction.free) {
            Ok(Some((number, outcome))) => {
                CheckIn::Seated(Presence { table: Arc::clone(self), key, number }, outcome)
            }
            Ok(None) => CheckIn::Counted,
            Err(outcome) => CheckIn::NoSeat(outcome),
        };
        (check_in, must_start)
    }

    /// How many are present.
    pub fn present_count(&self) -> u64 {
        let seats = self.seats();
        (seats.taken.len() + seats.settling.len()) as u64
    }

    /// Ends the wait of those whom a change of the room concerns.
    pub(crate) fn review(&self, board: &Board) {
        let mut seats = self.seats();
        if let Some(error) = whole_room_refusal(board) {
            seats.refuse_all(&error);
            return;
        }
        let Some(last) = seats.taken.last_key_value().map(|(key, _)| *key) else { return };
        let known =
            |key: &SessionKey| board.segments.iter().any(|segment| segment.generation == key.generation);
        if !known(&last) || seats.taken.first_key_value().is_some_and(|(first, _)| !known(first)) {
            let gone: Vec<SessionKey> = seats.taken.keys().copied().filter(|key| !known(key)).collect();
            for key in gone {
                seats.dismiss(key, RoundOutcome::NotPossible(Refusal::UnknownTicket.into()));
            }
        }
        if let Some(auction) = &board.auction {
            while seats.taken.len() as u64 > auction.free {
                seats.displace_last();
            }
        }
    }

    /// Whether there was no check-in, in which case the task must end: it is not counted as running any more.
    pub(crate) fn stop_if_idle(&self) -> bool {
        let mut seats = self.seats();
        seats.has_task = !seats.taken.is_empty() || seats.turned_away;
        !seats.has_task
    }

    /// Closes the round and returns its check-ins. Every later check-in is to the next round.
    pub(crate) fn close_round(&self) -> Attendance {
        let mut seats = self.seats();
        let turned_away = std::mem::take(&mut seats.turned_away);
        seats.settling = std::mem::take(&mut seats.taken);
        Attendance { keys: seats.settling.keys().copied().collect(), turned_away }
    }

    /// Sends winners and losers of a settled round their outcome. Returns how many of the winners were present here.
    pub(crate) fn announce(&self, winners: &[SessionKey]) -> u64 {
        let winners: std::collections::BTreeSet<&SessionKey> = winners.iter().collect();
        let mut own = 0;
        for (key, seat) in std::mem::take(&mut self.seats().settling) {
            let has_won = winners.contains(&key);
            own += u64::from(has_won);
            seat.dismiss(if has_won { RoundOutcome::Won } else { RoundOutcome::OthersWereEarlier });
        }
        own
    }

    /// Whether any connection waits for the winners.
    pub(crate) fn awaits_winners(&self) -> bool {
        !self.seats().settling.is_empty()
    }

    /// Keeps the check-ins of a round that was settled without them for the next round, except those that have won on
    /// another node.
    pub(crate) fn carry_over(&self, attendance: &Attendance, winners: &[SessionKey]) {
        let mut seats = self.seats();
        seats.turned_away |= attendance.turned_away;
        for (key, seat) in std::mem::take(&mut seats.settling) {
            if winners.contains(&key) {
                seat.dismiss(RoundOutcome::Won);
                continue;
            }
            // A newer connection of the same ticket takes precedence.
            match seats.taken.entry(key) {
                Entry::Vacant(free) => drop(free.insert(seat)),
                Entry::Occupied(_) => seat.dismiss(RoundOutcome::TakenOver),
            }
        }
    }

    /// The task is over, however it ended: the next check-in starts another one.
    pub(crate) fn abandon(&self, error: &AdmissionError) {
        let mut seats = self.seats();
        seats.has_task = false;
        seats.refuse_all(error);
    }

    /// Sends all the same error and empties the table.
    pub(crate) fn refuse_all(&self, error: &AdmissionError) {
        self.seats().refuse_all(error);
    }

    fn withdraw(&self, key: SessionKey, number: u64) {
        let mut seats = self.seats();
        if seats.taken.get(&key).is_some_and(|seat| seat.number == number) {
            seats.taken.remove(&key);
        }
        if seats.settling.get(&key).is_some_and(|seat| seat.number == number) {
            seats.settling.remove(&key);
        }
    }

    /// Seats are taken and left as a whole, so a panic elsewhere leaves nothing half done.
    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seats {
    /// A seat, if there are fewer than `free` or a later ticket has one. `None`: present, and no connection waits.
    fn seat(
        &mut self,
        key: SessionKey,
        manner: Manner,
        free: u64,
    ) -> Result<Option<(u64, oneshot::Receiver<RoundOutcome>)>, RoundOutcome> {
        if let Some(seat) = self.taken.get(&key) {
            let is_awaited = seat.outcome.as_ref().is_some_and(|sender| !sender.is_closed());
            if manner == Manner::ComesBack && is_awaited {
                return Ok(None);
            }
            self.dismiss(key, RoundOutcome::TakenOver);
        }
        if self.taken.len() as u64 >= free {
            self.turned_away = true;
            if free == 0 || self.taken.last_key_value().is_none_or(|(last, _)| *last < key) {
                return Err(RoundOutcome::OthersWereEarlier);
            }
            self.displace_last();
        }
        let number = self.numbers;
        self.numbers += 1;
        let (sender, outcome) = oneshot::channel();
        let waits = manner == Manner::Waits;
        self.taken.insert(key, Seat { number, outcome: waits.then_some(sender) });
        Ok(waits.then_some((number, outcome)))
    }

    fn displace_last(&mut self) {
        self.turned_away = true;
        if let Some((_, seat)) = self.taken.pop_last() {
            seat.dismiss(RoundOutcome::OthersWereEarlier);
        }
    }

    fn dismiss(&mut self, key: SessionKey, outcome: RoundOutcome) {
        if let Some(seat) = self.taken.remove(&key) {
            seat.dismiss(outcome);
        }
    }

    fn refuse_all(&mut self, error: &AdmissionError) {
        self.turned_away = false;
        let settling = std::mem::take(&mut self.settling).into_values();
        for seat in std::mem::take(&mut self.taken).into_values().chain(settling) {
            seat.dismiss(RoundOutcome::NotPossible(error.clone()));
        }
    }
}

impl Seat {
    fn dismiss(self, outcome: RoundOutcome) {
        if let Some(sender) = self.outcome {
            // The connection may have ended at this moment.
            let _ = sender.send(outcome);
        }
    }
}

/// A visitor who waits at the table. Closing the connection drops this, and frees the seat.
pub struct Presence {
    table: Arc<RoundTable>,
    key: SessionKey,
    number: u64,
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.table.withdraw(self.key, self.number);
    }
}

/// Why a ticket cannot win a round of this room.
fn refusal(board: &Board, key: SessionKey) -> Option<AdmissionError> {
    whole_room_refusal(board).or_else(|| {
        let known = board.segments.iter().any(|segment| segment.generation == key.generation);
        (!known).then(|| Refusal::UnknownTicket.into())
    })
}

/// Why the room can hold no round.
fn whole_room_refusal(board: &Board) -> Option<AdmissionError> {
    match board.state {
        RoomState::Closed => Some(Refusal::RoomClosed.into()),
        _ if board.auction.is_none() => Some(AdmissionError::NoAuction),
        RoomState::Paused => Some(AdmissionError::RoomPaused),
        RoomState::Open | RoomState::Draining => None,
    }
}

#[cfg(test)]
mod tests {
    use anteroom_core::{Generation, Position};

    use super::*;

    fn key(position: u64) -> SessionKey {
        let generation = Generation { opened: 1, incarnation: 0 };
        SessionKey { generation, position: Position::new(position).unwrap() }
    }

    /// Takes a seat, and keeps the connection open.
    fn sit(seats: &mut Seats, position: u64, free: u64) -> Option<oneshot::Receiver<RoundOutcome>> {
        seats.seat(key(position), Manner::Waits, free).ok().flatten().map(|(_, outcome)| outcome)
    }

    fn positions(seats: &Seats) -> Vec<u64> {
        seats.taken.keys().map(|key| key.position.get()).collect()
    }

    #[test]
    fn the_earliest_keep_their_seats_and_the_last_is_dismissed_at_once() {
        let mut seats = Seats::default();
        let mut outcomes: Vec<_> =
            [5, 3, 9].into_iter().map(|position| sit(&mut seats, position, 3).unwrap()).collect();
        assert!(!seats.turned_away);
        assert!(sit(&mut seats, 12, 3).is_none(), "later than all others");
        assert!(seats.turned_away);
        let _fourth = sit(&mut seats, 4, 3).unwrap();
        assert_eq!(positions(&seats), [3, 4, 5]);
        assert!(matches!(outcomes.pop().unwrap().try_recv(), Ok(RoundOutcome::OthersWereEarlier)));
        assert!(outcomes.iter_mut().all(|outcome| outcome.try_recv().is_err()), "the others still wait");
    }

    #[test]
    fn no_seat_is_given_where_no_slot_is_free() {
        let mut seats = Seats::default();
        assert!(sit(&mut seats, 1, 0).is_none());
        assert!(seats.turned_away && seats.taken.is_empty());
    }

    #[test]
    fn a_second_connection_of_a_ticket_takes_over_from_the_first() {
        let mut seats = Seats::default();
        let mut first = sit(&mut seats, 7, 1).unwrap();
        let _second = sit(&mut seats, 7, 1).unwrap();
        assert!(matches!(first.try_recv(), Ok(RoundOutcome::TakenOver)));
        assert_eq!(positions(&seats), [7]);
        assert!(!seats.turned_away, "no other ticket came");
        // A check-in that does not wait does not end the wait of one that does.
        assert!(matches!(seats.seat(key(7), Manner::ComesBack, 1), Ok(None)));
        assert_eq!(seats.taken[&key(7)].number, 1);
    }

    #[test]
    fn a_closed_connection_frees_its_seat_but_not_that_of_a_later_one() {
        let table = Arc::new(RoundTable::default());
        let (number, _outcome) = table.seats().seat(key(7), Manner::Waits, 1).ok().flatten().unwrap();
        let first = Presence { table: Arc::clone(&table), key: key(7), number };
        let (number, _outcome) = table.seats().seat(key(7), Manner::Waits, 1).ok().flatten().unwrap();
        drop(first);
        assert_eq!(table.present_count(), 1);
        drop(Presence { table: Arc::clone(&table), key: key(7), number });
        assert_eq!(table.present_count(), 0);
    }

    #[test]
    fn a_check_in_during_settlement_belongs_to_the_next_round() {
        let table = RoundTable::default();
        let mut early = sit(&mut table.seats(), 1, 5).unwrap();
        let mut absent = sit(&mut table.seats(), 2, 5).unwrap();
        let attendance = table.close_round();
        let mut late = sit(&mut table.seats(), 3, 5).unwrap();
        assert_eq!(attendance.keys, [key(1), key(2)]);
        let _earlier = sit(&mut table.seats(), 0x0A, 2).unwrap();
        assert_eq!(table.announce(&[key(1), key(99)]), 1, "one of them was not present here");
        assert!(matches!(early.try_recv(), Ok(RoundOutcome::Won)));
        assert!(matches!(absent.try_recv(), Ok(RoundOutcome::OthersWereEarlier)));
        assert!(late.try_recv().is_err(), "still waits");
        assert!(!table.stop_if_idle());
    }

    #[test]
    fn a_missed_round_keeps_its_check_ins_except_winners_on_other_nodes() {
        let table = RoundTable::default();
        let mut winner = sit(&mut table.seats(), 1, 5).unwrap();
        let mut loser = sit(&mut table.seats(), 2, 5).unwrap();
        let attendance = table.close_round();
        assert!(table.awaits_winners());
        table.carry_over(&attendance, &[key(1)]);
        assert!(!table.awaits_winners());
        assert!(matches!(winner.try_recv(), Ok(RoundOutcome::Won)));
        assert!(loser.try_recv().is_err(), "still waits");
        assert_eq!(positions(&table.seats()), [2]);
    }
}
