//! Idempotent joins: the same key within two minutes gets the same place, so that a client whose connection broke, or a
//! browser that opens five tabs with one cookie, does not stand in line twice.
//!
//! The table is bounded, so a flood of keys cannot buy memory: the oldest make room for the newest. It is in memory;
//! after a restart a repeated key joins anew. Nodes that share a store share the keys too: a join repeated on another
//! node finds its place there.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anteroom_core::{Operation, Recognition, Refusal, Ticket, UnixMillis};
use anteroom_engine::{Actor, EngineError, RoomHandle};
use tokio::sync::watch;

/// How long a key is remembered.
pub const REMEMBERED_MILLIS: u64 = 120_000;
/// How many keys are remembered for a room.
pub const REMEMBERED_MAX: usize = 65_536;

/// The key as it is kept: something that cannot be long, and cannot be made to collide.
pub type JoinKey = [u8; 32];

type Outcome = Option<Result<Ticket, EngineError>>;

/// The keys a room remembers.
#[derive(Default)]
pub struct IdempotentJoins {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    entries: HashMap<JoinKey, Entry>,
    /// Oldest first; an entry that was forgotten early may still stand here.
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
    /// visitor who moved it has not asked for a second place.
    pub async fn join(
        self: &Arc<Self>,
        room: &Arc<RoomHandle>,
        key: JoinKey,
        now: UnixMillis,
        known: impl Fn(&Ticket) -> bool,
    ) -> Result<Ticket, EngineError> {
        let ticket = self.place_of(room, key, now, known).await?;
        if room.with_board(|board| board.is_moved(&ticket)) {
            return Err(EngineError::Refused(Refusal::Moved));
        }
        Ok(ticket)
    }

    async fn place_of(
        self: &Arc<Self>,
        room: &Arc<RoomHandle>,
        key: JoinKey,
        now: UnixMillis,
        known: impl Fn(&Ticket) -> bool,
    ) -> Result<Ticket, EngineError> {
        let mut outcome = match self.begin(key, now, known) {
            JoinStart::Known(ticket) => return Ok(ticket),
            JoinStart::Follow(outcome) => outcome,
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
            Ok(outcome) => outcome.clone().unwrap_or(Err(EngineError::Stopped)),
            Err(_) => Err(EngineError::Stopped),
        }
    }

    fn begin(&self, key: JoinKey, now: UnixMillis, known: impl Fn(&Ticket) -> bool) -> JoinStart {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.forget(now);
        match table.entries.get(&key).map(|entry| &entry.join) {
            Some(Join::Done(ticket)) if known(ticket) => JoinStart::Known(*ticket),
            Some(Join::InFlight(outcome)) => JoinStart::Follow(outcome.clone()),
            Some(Join::Done(_)) | None => {
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
    fn forget(&mut self, now: UnixMillis) {
        while let Some(&(at, key)) = self.order.front()
            && (now.since(at) >= REMEMBERED_MILLIS || self.order.len() >= REMEMBERED_MAX)
        {
            self.order.pop_front();
            // A key that failed and was repeated stands in the order twice, and its entry belongs to the younger mark.
            if self.entries.get(&key).is_some_and(|entry| entry.at == at) {
                self.entries.remove(&key);
            }
        }
    }
}

enum JoinStart {
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
