//! Those present at a room's open round, on this node: never more than can win.
//!
//! Kept in the order of the line. So the last of them is found at once when an earlier ticket comes, and any of them
//! when its connection ends. Each seat has a number, which distinguishes the connection that holds it from an earlier
//! one of the same ticket.
//!
//! A check-in after the end of the round that the board shows is to the next one. How many slots that gives away is known when it
//! opens, so until then nobody is refused because of the old figure; the board of the new round is reviewed, and those beyond it are
//! dismissed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anteroom_core::auction::{Auction, ROUND_WINNERS_MAX};
use anteroom_core::{Board, Refusal, RoomState, SessionKey, UnixMillis};
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
    /// Those who came after the end of the round that `taken` is of, which this node has not closed yet.
    next: BTreeMap<SessionKey, Seat>,
    /// The round after whose end they came.
    next_after: UnixMillis,
    /// Whether a check-in to the round after that one found no seat.
    next_turned_away: bool,
    /// The round that this node closed last. Those in `taken` came after it.
    closed: UnixMillis,
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
        now: UnixMillis,
    ) -> (CheckIn, bool) {
        let mut seats = self.seats();
        // Looked at under the lock: a later board is reviewed by the task, which finds this seat then.
        let board = room.board();
        let (None, Some(auction)) = (refusal(&board, key), &board.auction) else {
            let error = refusal(&board, key).unwrap_or(AdmissionError::NoAuction);
            return (CheckIn::NoSeat(RoundOutcome::NotPossible(error)), false);
        };
        let must_start = !std::mem::replace(&mut seats.has_task, true);
        // The room's own clock never goes back, whatever the machine's does.
        let check_in = match seats.seat_at(key, manner, auction, now.max(board.clock)) {
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
        (seats.taken.len() + seats.next.len() + seats.settling.len()) as u64
    }

    /// Ends the wait of those whom a change of the room concerns.
    pub(crate) fn review(&self, board: &Board) {
        let mut seats = self.seats();
        if let Some(error) = whole_room_refusal(board) {
            seats.refuse_all(&error);
            return;
        }
        let known =
            |key: &SessionKey| board.segments.iter().any(|segment| segment.generation == key.generation);
        let ends = |seated: &BTreeMap<SessionKey, Seat>| {
            seated.first_key_value().into_iter().chain(seated.last_key_value()).any(|(key, _)| !known(key))
        };
        if ends(&seats.taken) || ends(&seats.next) {
            let seated = seats.taken.keys().chain(seats.next.keys());
            let gone: Vec<SessionKey> = seated.copied().filter(|key| !known(key)).collect();
            for key in gone {
                seats.dismiss(key, || RoundOutcome::NotPossible(Refusal::UnknownTicket.into()));
            }
        }
        if let Some(auction) = &board.auction {
            seats.follow(auction.round);
        }
        // The figure of a round that is closed says nothing about those who came after it.
        if let Some(auction) = board.auction.as_ref().filter(|auction| auction.round != seats.closed) {
            seats.limit_to(auction.free);
            seats.give_spare(auction.spare);
        }
    }

    /// Whether there was no check-in, in which case the task must end: it is not counted as running any more.
    pub(crate) fn stop_if_idle(&self) -> bool {
        let mut seats = self.seats();
        seats.has_task = seats.has_check_ins();
        !seats.has_task
    }

    /// Whether there was a check-in to a round that is not being settled yet.
    pub(crate) fn has_check_ins(&self) -> bool {
        self.seats().has_check_ins()
    }

    /// Closes a round and returns its check-ins. Every later check-in is to the next round; where there is one already, nothing is
    /// spare in that.
    pub(crate) fn close_round(&self, round: UnixMillis) -> Attendance {
        let mut seats = self.seats();
        let seats = &mut *seats;
        seats.follow(round);
        // Those who came after the round's end are none of its losers.
        let came_later = std::mem::take(&mut seats.next);
        let came_before =
            if seats.closed == round { BTreeMap::new() } else { std::mem::take(&mut seats.taken) };
        seats.taken.extend(came_later);
        let turned_away =
            std::mem::replace(&mut seats.turned_away, std::mem::take(&mut seats.next_turned_away));
        seats.closed = round;
        seats.settling.extend(came_before);
        let turned_away = turned_away || !seats.taken.is_empty() || seats.turned_away;
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
        // They are to the round that the board shows from now on, like those who came after them.
        seats.closed = UnixMillis::default();
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
        let Seats { taken, next, settling, .. } = &mut *seats;
        for seated in [taken, next, settling] {
            if seated.get(&key).is_some_and(|seat| seat.number == number) {
                seated.remove(&key);
            }
        }
    }

    /// Seats are taken and left as a whole, so a panic elsewhere leaves nothing half done.
    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seats {
    fn has_check_ins(&self) -> bool {
        !self.taken.is_empty() || !self.next.is_empty() || self.turned_away || self.next_turned_away
    }

    /// A seat at the round that is open at `now`. The board may still show the one before it: then how many slots there are is not
    /// known yet, and the most that a round can have are seated. `None`: present, and no connection waits.
    fn seat_at(
        &mut self,
        key: SessionKey,
        manner: Manner,
        shown: &Auction,
        now: UnixMillis,
    ) -> Result<Option<(u64, oneshot::Receiver<RoundOutcome>)>, RoundOutcome> {
        self.follow(shown.round);
        if shown.round == self.closed {
            return self.seat(key, manner, ROUND_WINNERS_MAX);
        }
        if now < shown.round {
            return self.seat(key, manner, shown.free);
        }
        // Of one ticket one connection waits, whichever round the other was for.
        if let Some(earlier) = self.taken.remove(&key) {
            if manner == Manner::ComesBack && earlier.is_awaited() {
                self.taken.insert(key, earlier);
                return Ok(None);
            }
            earlier.dismiss(RoundOutcome::TakenOver);
        }
        self.next_after = shown.round;
        let number = self.next_number();
        seat_in(&mut self.next, &mut self.next_turned_away, key, (manner, number), ROUND_WINNERS_MAX)
    }

    /// A seat, if there are fewer than `free` or a later ticket has one.
    fn seat(
        &mut self,
        key: SessionKey,
        manner: Manner,
        free: u64,
    ) -> Result<Option<(u64, oneshot::Receiver<RoundOutcome>)>, RoundOutcome> {
        let number = self.next_number();
        seat_in(&mut self.taken, &mut self.turned_away, key, (manner, number), free)
    }

    /// The board shows another round than the one after which some have come: they are to that one.
    fn follow(&mut self, round: UnixMillis) {
        if round != self.next_after {
            self.taken.append(&mut self.next);
            self.turned_away |= std::mem::take(&mut self.next_turned_away);
        }
    }

    const fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Dismisses the last of those beyond so many.
    fn limit_to(&mut self, free: u64) {
        while self.taken.len() as u64 > free {
            displace_last(&mut self.taken, &mut self.turned_away);
        }
    }

    /// Spare slots go to those who ask next, and these have asked already: they claim one each.
    fn give_spare(&mut self, spare: u64) {
        let first = self.taken.iter().take(usize::try_from(spare).unwrap_or(usize::MAX));
        let waiting = first.filter(|(_, seat)| seat.is_awaited());
        for key in waiting.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.dismiss(key, || RoundOutcome::Won);
        }
    }

    fn dismiss(&mut self, key: SessionKey, outcome: impl Fn() -> RoundOutcome) {
        for seat in [self.taken.remove(&key), self.next.remove(&key)].into_iter().flatten() {
            seat.dismiss(outcome());
        }
    }

    fn refuse_all(&mut self, error: &AdmissionError) {
        (self.turned_away, self.next_turned_away) = (false, false);
        for seated in [&mut self.taken, &mut self.next, &mut self.settling] {
            for seat in std::mem::take(seated).into_values() {
                seat.dismiss(RoundOutcome::NotPossible(error.clone()));
            }
        }
    }
}

/// A seat among those of one round, if there are fewer than `free` or a later ticket has one.
fn seat_in(
    seated: &mut BTreeMap<SessionKey, Seat>,
    turned_away: &mut bool,
    key: SessionKey,
    (manner, number): (Manner, u64),
    free: u64,
) -> Result<Option<(u64, oneshot::Receiver<RoundOutcome>)>, RoundOutcome> {
    if let Some(seat) = seated.get(&key) {
        if manner == Manner::ComesBack && seat.is_awaited() {
            return Ok(None);
        }
        if let Some(earlier) = seated.remove(&key) {
            earlier.dismiss(RoundOutcome::TakenOver);
        }
    }
    if seated.len() as u64 >= free {
        *turned_away = true;
        if free == 0 || seated.last_key_value().is_none_or(|(last, _)| *last < key) {
            return Err(RoundOutcome::OthersWereEarlier);
        }
        displace_last(seated, turned_away);
    }
    let (sender, outcome) = oneshot::channel();
    let waits = manner == Manner::Waits;
    seated.insert(key, Seat { number, outcome: waits.then_some(sender) });
    Ok(waits.then_some((number, outcome)))
}

fn displace_last(seated: &mut BTreeMap<SessionKey, Seat>, turned_away: &mut bool) {
    *turned_away = true;
    if let Some((_, seat)) = seated.pop_last() {
        seat.dismiss(RoundOutcome::OthersWereEarlier);
    }
}

impl Seat {
    /// Whether a connection waits for its outcome.
    fn is_awaited(&self) -> bool {
        self.outcome.as_ref().is_some_and(|sender| !sender.is_closed())
    }

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
    use anteroom_core::settings::Value;
    use anteroom_core::{
        Answer, Claim, Generation, Operation, Position, RequestId, RoomId, RoomState, Ticket,
    };
    use anteroom_engine::{Actor, Engine, EngineError};
    use anteroom_store::{Clock, ManualClock, MemoryStore, NodeId};

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
        assert_eq!(seats.taken[&key(7)].number, 2);
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
        let attendance = table.close_round(UnixMillis(10));
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
        let attendance = table.close_round(UnixMillis(10));
        assert!(table.awaits_winners());
        table.carry_over(&attendance, &[key(1)]);
        assert!(!table.awaits_winners());
        assert!(matches!(winner.try_recv(), Ok(RoundOutcome::Won)));
        assert!(loser.try_recv().is_err(), "still waits");
        assert_eq!(positions(&table.seats()), [2]);
    }

    /// What a board shows of a round that closes at a moment.
    fn shown(round: u64, free: u64, spare: u64) -> Auction {
        let settings = anteroom_core::Settings {
            inlet: anteroom_core::InletKind::MaxSize,
            discipline: anteroom_core::Discipline::Auction,
            total_active_users: Some(1),
            ..Default::default()
        };
        let room = anteroom_core::Room::open(settings, UnixMillis(1), 1);
        let tick = Operation::Tick;
        let room = anteroom_core::apply(room, UnixMillis(1), &tick, anteroom_core::Reads::default()).room;
        let auction = room.auction.as_deref().expect("it holds auctions").clone();
        Auction { round: UnixMillis(round), free, spare, ..auction }
    }

    fn sit_at(
        seats: &mut Seats,
        position: u64,
        shown: &Auction,
        now: u64,
    ) -> Option<oneshot::Receiver<RoundOutcome>> {
        let seat = seats.seat_at(key(position), Manner::Waits, shown, UnixMillis(now));
        seat.ok().flatten().map(|(_, outcome)| outcome)
    }

    #[test]
    fn the_earliest_after_a_round_that_nobody_came_to_is_not_refused_by_its_old_figure() {
        let table = RoundTable::default();
        let old = shown(10, 0, 0);
        // The round is over, and nobody has settled it: a slot became free meanwhile.
        let mut second = sit_at(&mut table.seats(), 2, &old, 11).expect("a seat at the next round");
        let attendance = table.close_round(UnixMillis(10));
        assert!(
            attendance.keys.is_empty() && attendance.turned_away,
            "present at the next, so nothing is spare"
        );
        // Also while it is being settled.
        let mut third = sit_at(&mut table.seats(), 3, &old, 12).expect("a seat at the next round");
        table.announce(&[]);
        let new = shown(20, 1, 0);
        table.seats().follow(new.round);
        table.seats().limit_to(new.free);
        assert!(matches!(third.try_recv(), Ok(RoundOutcome::OthersWereEarlier)));
        assert!(second.try_recv().is_err(), "still waits");
        assert!(sit_at(&mut table.seats(), 3, &new, 13).is_none(), "now the figure is known");
        assert_eq!(table.close_round(UnixMillis(20)).keys, [key(2)]);
    }

    /// A room on an engine, with a clock of the test's own. The test closes the rounds, when it wants.
    struct Hall {
        clock: Arc<ManualClock>,
        engine: Arc<Engine>,
        room: Arc<RoomHandle>,
        table: Arc<RoundTable>,
    }

    /// A check-in that waits, or what it was told at once.
    type Seated = Result<(Presence, oneshot::Receiver<RoundOutcome>), RoundOutcome>;

    impl Hall {
        /// For one visitor, in rounds of two seconds.
        async fn open() -> Self {
            let clock = Arc::new(ManualClock::at(UnixMillis(1_700_000_000_000)));
            let store = Arc::new(MemoryStore::default());
            let engine = Engine::start(store, Arc::clone(&clock) as Arc<dyn Clock>, NodeId(1)).await.unwrap();
            let mut settings = anteroom_core::Settings::default();
            for (name, value) in [
                ("inlet", Value::Text("max-size".into())),
                ("discipline", Value::Text("auction".into())),
                ("total_active_users", Value::Number(1)),
                ("round_seconds", Value::Number(2)),
            ] {
                settings.set(name, &value).unwrap();
            }
            let id = RoomId::parse("Hall").unwrap();
            let made = engine.create_room(id, settings, RoomState::Open, 1, Actor::Clockwork).await.unwrap();
            Self { clock, engine, room: made.0, table: Arc::default() }
        }

        async fn does(&self, operation: Operation) -> Answer {
            self.room.operate(operation, Actor::Clockwork).await.unwrap()
        }

        async fn join(&self) -> Ticket {
            self.room.join().await.unwrap()
        }

        async fn claim(&self, ticket: Ticket) -> Result<Answer, EngineError> {
            let claim = Claim {
                ticket,
                request_id: RequestId(u128::from(ticket.position.get()).to_be_bytes()),
                issuer: "https://shop.example".into(),
                validity_seconds: None,
                key_id: "key".into(),
                stay_millis: None,
                prefix: None,
            };
            self.room.operate(Operation::Claim(claim), Actor::Visitor).await
        }

        fn check_in(&self, ticket: &Ticket) -> Seated {
            let key = SessionKey { generation: ticket.generation, position: ticket.position };
            match self.table.check_in(&self.room, key, Manner::Waits, self.clock.now()).0 {
                CheckIn::Seated(presence, outcome) => Ok((presence, outcome)),
                CheckIn::NoSeat(outcome) => Err(outcome),
                CheckIn::Counted => panic!("it waits"),
            }
        }

        fn open_round(&self) -> UnixMillis {
            self.room.with_board(|board| board.auction.as_ref().map(|auction| auction.round)).unwrap()
        }

        /// To the end of the round that the board shows.
        fn round_ends(&self) {
            self.clock.advance(self.open_round().since(self.clock.now()));
        }

        /// What the task does at the end of a round: it closes, settles, announces and reviews.
        async fn close_round(&self) -> Vec<SessionKey> {
            let round = self.open_round();
            let Attendance { keys: present, turned_away } = self.table.close_round(round);
            let settle = Operation::SettleRound { round, present, turned_away, alone: true };
            let Answer::Won { winners } = self.does(settle).await else { panic!("it is settled") };
            self.table.announce(&winners);
            self.table.review(&self.room.board());
            winners
        }
    }

    /// Ticket 2 was refused at once with the figure of a round that was over, and ticket 3, which came later, won.
    #[tokio::test]
    async fn of_two_who_come_after_an_empty_round_the_earlier_ticket_wins() {
        let hall = Hall::open().await;
        let [first, second, third] = [hall.join().await, hall.join().await, hall.join().await];
        assert!(matches!(hall.claim(first).await, Ok(Answer::Claimed { begun: true, .. })), "a free slot");
        assert_eq!([second, third].map(|ticket| ticket.position.get()), [2, 3]);
        // Both check in for two rounds in vain.
        for _ in 0..2 {
            for ticket in [&second, &third] {
                assert!(matches!(hall.check_in(ticket), Err(RoundOutcome::OthersWereEarlier)));
            }
            hall.round_ends();
            assert_eq!(hall.close_round().await, []);
        }
        // In the next nobody does, so no task closes it, and the slot becomes free.
        hall.does(Operation::Exits { count: 1 }).await;
        hall.round_ends();
        hall.clock.advance(1);
        // In the round after it ticket 2 checks in first, and ticket 3 later.
        let (_present, mut outcome) = hall.check_in(&second).expect("a seat: it is the earliest");
        hall.close_round().await;
        let later = hall.check_in(&third);
        assert!(matches!(later, Err(RoundOutcome::OthersWereEarlier)), "one slot, and an earlier ticket");
        assert!(outcome.try_recv().is_err(), "still waits");
        hall.round_ends();
        let winners = hall.close_round().await;
        assert_eq!(winners, [SessionKey { generation: second.generation, position: second.position }]);
        assert!(matches!(outcome.try_recv(), Ok(RoundOutcome::Won)));
        assert!(matches!(hall.claim(third).await, Err(EngineError::Refused(Refusal::NotServed))));
        assert!(matches!(hall.claim(second).await, Ok(Answer::Claimed { begun: true, .. })));
        hall.engine.stop().await;
    }

    #[test]
    fn those_who_come_between_the_end_of_a_round_and_its_closing_are_to_the_next() {
        let table = RoundTable::default();
        let (old, new) = (shown(10, 1, 0), shown(20, 1, 0));
        let _first = sit_at(&mut table.seats(), 5, &old, 9).expect("a seat");
        let mut late = sit_at(&mut table.seats(), 4, &old, 10).expect("a seat at the next round");
        assert_eq!(table.present_count(), 2);
        assert_eq!(table.close_round(UnixMillis(10)).keys, [key(5)], "the later one is none of its winners");
        table.announce(&[key(5)]);
        assert!(late.try_recv().is_err(), "still waits");
        assert_eq!(table.close_round(UnixMillis(20)).keys, [key(4)]);
        // The rules went on without this node: those who came after the round before are present at the one that is shown.
        table.announce(&[]);
        let _later = sit_at(&mut table.seats(), 6, &new, 21).expect("a seat");
        let _latest = sit_at(&mut table.seats(), 7, &shown(40, 5, 0), 31).expect("a seat");
        assert_eq!(positions(&table.seats()), [6, 7]);
    }

    #[test]
    fn slots_that_are_spare_go_to_those_who_wait_already() {
        let table = RoundTable::default();
        let mut first = sit_at(&mut table.seats(), 2, &shown(10, 0, 0), 11).expect("a seat");
        table.seats().give_spare(1);
        assert!(first.try_recv().is_err(), "before the board shows the round there is nothing to give");
        table.seats().follow(UnixMillis(20));
        table.seats().give_spare(1);
        assert!(matches!(first.try_recv(), Ok(RoundOutcome::Won)));
        assert_eq!(table.present_count(), 0);
    }
}
