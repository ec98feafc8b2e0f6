//! Idempotent joins: the same key within two minutes gets the same place, so that a client whose connection broke, or a
//! browser that opens five tabs with one cookie, does not stand in line twice.
//!
//! The table is bounded, so a flood of keys cannot buy memory: when it is full, joins with a new key are refused until older ones are
//! two minutes old. So no key is forgotten early, least of all one whose join is in flight. It is in memory; after a restart a repeated key joins anew. Nodes that share a store share the keys too: a join repeated on another
//! node finds its place there.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anteroom_core::{Operation, Recognition, Refusal, Ticket, UnixMillis};
use anteroom_engine::{Actor, EngineError, RoomHandle};
use tokio::sync::watch;

use crate::error::AdmissionError;

/// How long a key is remembered.
pub const REMEMBERED_MILLIS: u64 = 120_000;
/// How many keys are remembered for a room: 8,738 joins a second for two minutes, in up to 200 MB.
pub const REMEMBERED_MAX: usize = 1_048_576;

/// The key as it is kept: something that cannot be long, and cannot be made to collide.
pub type JoinKey = [u8; 32];

type Outcome = Option<Result<Ticket, EngineError>>;

/// The keys a room remembers.
pub struct IdempotentJoins {
    table: Mutex<Table>,
    remembered_max: usize,
}

impl Default for IdempotentJoins {
    fn default() -> Self {
        Self { table: Mutex::default(), remembered_max: REMEMBERED_MAX }
    }
}

#[derive(Default)]
struct Table {
    entries: HashMap<JoinKey, Entry>,
    /// Oldest first; the mark of an entry that is gone because its join failed may still stand here.
    order: VecDeque<(UnixMillis, JoinKey)>,
}

struct Entry {
    at: UnixMillis,
    join: Join,
}

enum Join {
    /// A join of this key is in flight.
    InFlight(watch::Receiver<Outcome>),
    /// The key has this place.
    Done(Ticket),
}

impl IdempotentJoins {
    /// The place of this key: the one it got before, or a new one. Once begun, a join is finished even if its client goes
    /// away in the middle, so that the client finds its place when it asks again. A place that is not `known` any more, because the
    /// line was reset, is forgotten. One that has moved to another device since is refused: its ticket is void, and the
    /// visitor who moved it has not asked for a second place. `may_join` is asked before a new place is taken.
    pub async fn join(
        self: &Arc<Self>,
        room: &Arc<RoomHandle>,
        key: JoinKey,
        now: UnixMillis,
        known: impl Fn(&Ticket) -> bool,
        may_join: impl FnOnce() -> Result<(), AdmissionError>,
    ) -> Result<Ticket, AdmissionError> {
        let ticket = self.place_of(room, key, now, known, may_join).await?;
        if room.with_board(|board| board.is_moved(&ticket)) {
            return Err(Refusal::Moved.into());
        }
        Ok(ticket)
    }

    async fn place_of(
        self: &Arc<Self>,
        room: &Arc<RoomHandle>,
        key: JoinKey,
        now: UnixMillis,
        known: impl Fn(&Ticket) -> bool,
        may_join: impl FnOnce() -> Result<(), AdmissionError>,
    ) -> Result<Ticket, AdmissionError> {
        let mut outcome = match self.begin(key, now, known, may_join) {
            JoinStart::Known(ticket) => return Ok(ticket),
            JoinStart::Follow(outcome) => outcome,
            JoinStart::Refused(error) => return Err(error),
            JoinStart::Lead(sender, outcome) => {
                let (joins, room) = (Arc::clone(self), Arc::clone(room));
                spawn_join(async move {
                    let result = join_for_all_nodes(&room, key, now).await;
                    joins.finish(key, result.as_ref().ok().copied());
                    // Every client may have gone away; the place is remembered all the same.
                    let _ = sender.send(Some(result));
                });
                outcome
            }
        };
        match outcome.wait_for(Option::is_some).await {
            Ok(outcome) => Ok(outcome.clone().unwrap_or(Err(EngineError::Stopped))?),
            Err(_) => Err(EngineError::Stopped.into()),
        }
    }

    fn begin(
        &self,
        key: JoinKey,
        now: UnixMillis,
        known: impl Fn(&Ticket) -> bool,
        may_join: impl FnOnce() -> Result<(), AdmissionError>,
    ) -> JoinStart {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.forget(now);
        match table.entries.get(&key).map(|entry| &entry.join) {
            Some(Join::Done(ticket)) if known(ticket) => JoinStart::Known(*ticket),
            Some(Join::InFlight(outcome)) => JoinStart::Follow(outcome.clone()),
            None if table.entries.len() >= self.remembered_max => {
                JoinStart::Refused(EngineError::Overloaded.into())
            }
            Some(Join::Done(_)) | None => {
                if let Err(error) = may_join() {
                    return JoinStart::Refused(error);
                }
                table.forget_marks(self.remembered_max);
                let (sender, outcome) = watch::channel(None);
                table.entries.insert(key, Entry { at: now, join: Join::InFlight(outcome.clone()) });
                table.order.push_back((now, key));
                JoinStart::Lead(sender, outcome)
            }
        }
    }

    /// A place that was taken is remembered; a failure is not, so that the next attempt may do better.
    fn finish(&self, key: JoinKey, ticket: Option<Ticket>) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        match ticket {
            Some(ticket) => {
                if let Some(entry) = table.entries.get_mut(&key) {
                    entry.join = Join::Done(ticket);
                }
            }
            None => drop(table.entries.remove(&key)),
        }
    }
}

/// Takes a place unless another node has taken one for this key. Where both did so at once, the later one gives its own up again.
async fn join_for_all_nodes(room: &RoomHandle, key: JoinKey, now: UnixMillis) -> Result<Ticket, EngineError> {
    // A place of a line that was reset meanwhile is worth nothing.
    let is_known =
        |ticket: &Ticket| room.with_board(|board| board.recognise(ticket, now) != Recognition::Foreign);
    if let Some(ticket) = room.kept_place(&key).await?.filter(is_known) {
        return Ok(ticket);
    }
    let ticket = room.join().await?;
    // The place is taken: not being able to tell other nodes is no reason to lose it.
    let kept = room.keep_place(key, &ticket, Duration::from_millis(REMEMBERED_MILLIS)).await.unwrap_or_else(
        |error| {
            tracing::warn!(room = %room.id(), %error, "sharing a join key failed, a repeated join on another node gets a second place");
            None
        },
    );
    match kept {
        Some(earlier) if earlier != ticket && is_known(&earlier) => {
            // No client knows of it; if it cannot be given up it lapses.
            let _ = room.operate(Operation::Leave { ticket }, Actor::Visitor).await;
            Ok(earlier)
        }
        _ => Ok(ticket),
    }
}

impl Table {
    /// Forgets what is two minutes old, except a key whose join is in flight.
    fn forget(&mut self, now: UnixMillis) {
        while let Some(&(at, key)) = self.order.front()
            && now.since(at) >= REMEMBERED_MILLIS
        {
            self.order.pop_front();
            // A key that failed and was repeated stands in the order twice, and its entry belongs to the younger mark.
            let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.at == at) else { continue };
            if matches!(entry.join, Join::InFlight(_)) {
                entry.at = now;
                self.order.push_back((now, key));
            } else {
                self.entries.remove(&key);
            }
        }
    }

    /// Forgets the marks of failed joins when they are as many as the keys may be, so that failures buy no memory either.
    fn forget_marks(&mut self, remembered_max: usize) {
        if self.order.len() >= remembered_max.saturating_mul(2) {
            let entries = &self.entries;
            self.order.retain(|(at, key)| entries.get(key).is_some_and(|entry| entry.at == *at));
        }
    }
}

enum JoinStart {
    Refused(AdmissionError),
    Known(Ticket),
    Follow(watch::Receiver<Outcome>),
    Lead(watch::Sender<Outcome>, watch::Receiver<Outcome>),
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the named helper for joins: each ends with its room's answer, which the engine bounds in time"
)]
fn spawn_join(join: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(join);
}

#[cfg(test)]
mod tests {
    use super::*;
    use anteroom_core::{Generation, Position};

    const MAX: usize = 4;

    fn table() -> IdempotentJoins {
        IdempotentJoins { remembered_max: MAX, ..IdempotentJoins::default() }
    }

    fn key(number: usize) -> JoinKey {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_be_bytes());
        key
    }

    fn ticket() -> Ticket {
        let generation = Generation::following(None, UnixMillis(0), 0);
        let position = Position::new(1).unwrap();
        Ticket { lane: 0, generation, position, entered: 0, copy: 0 }
    }

    fn begin(joins: &IdempotentJoins, number: usize, now: u64) -> &'static str {
        match joins.begin(key(number), UnixMillis(now), |_| true, || Ok(())) {
            JoinStart::Refused(_) => "full",
            JoinStart::Known(_) => "known",
            JoinStart::Follow(_) => "follow",
            JoinStart::Lead(..) => "lead",
        }
    }

    #[test]
    fn a_key_in_flight_is_never_forgotten_and_no_other_before_its_time() {
        let joins = table();
        for number in 0..MAX {
            assert_eq!(begin(&joins, number, 0), "lead");
        }
        assert_eq!(begin(&joins, MAX, 1), "full", "nothing is forgotten early");
        for number in 1..MAX {
            joins.finish(key(number), Some(ticket()));
        }
        assert_eq!(begin(&joins, MAX, REMEMBERED_MILLIS - 1), "full");
        assert_eq!(begin(&joins, 1, REMEMBERED_MILLIS - 1), "known");
        // Two minutes later there is room again, and the one in flight is still there.
        assert_eq!(begin(&joins, MAX, REMEMBERED_MILLIS), "lead");
        assert_eq!(begin(&joins, 0, REMEMBERED_MILLIS), "follow");
        assert_eq!(begin(&joins, 1, REMEMBERED_MILLIS), "lead", "forgotten after its time");
        joins.finish(key(0), Some(ticket()));
        assert_eq!(begin(&joins, 0, 2 * REMEMBERED_MILLIS - 1), "known");
        assert_eq!(begin(&joins, 0, 2 * REMEMBERED_MILLIS), "lead");
    }

    #[test]
    fn failed_joins_leave_room_and_take_no_memory() {
        let joins = table();
        for number in 0..1_000 {
            assert_eq!(begin(&joins, number, 5), "lead");
            joins.finish(key(number), None);
        }
        let table = joins.table.lock().unwrap();
        assert!(table.entries.is_empty() && table.order.len() <= 2 * MAX, "{}", table.order.len());
    }
}
