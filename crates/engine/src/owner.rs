//! The owner of a room: the one task on this node that changes it.
//!
//! A *turn* takes everything that has queued up, applies the rules to it, writes once, publishes, and answers.

pub(super) mod adoption;
pub(super) mod confirmation;
mod deletion;
mod panics;
mod turn;
mod write;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anteroom_core::{
    Answer, Board, Effects, Generation, Operation, Position, Reads, Refusal, Room, RoomId, Session,
    SessionKey, Ticket, UnixMillis,
};
use anteroom_store::clock::{Clock, Stopwatch};
use anteroom_store::contract::{Lineage, NodeId, Store, StoreError};
use tokio::sync::{mpsc, watch};

use self::adoption::Duty;
use self::confirmation::PendingClaims;
use self::panics::{Panicked, catch_panic};
use self::turn::{Answers, Turn, TurnResult};
use self::write::{WriteOutcome, in_time};
use crate::backoff::Backoff;
use crate::counters::count;
use crate::engine::ENDED_ERA;
use crate::handle::{Request, RoomHandle, RoomMap};
use crate::local_history::LocalHistory;
use crate::outbox::Outbox;
use crate::{CONFLICTS_MAX, EngineCounters, EngineError, SWEEP_MAX, TURN_OPERATIONS_MAX, audit};

/// How often a busy owner lets others run before it closes a batch.
const GATHER_ROUNDS_MAX: u32 = 16;
/// How long a batch of claims waits after the last commit, at most.
const CLAIM_PACE: Duration = Duration::from_millis(10);
/// How long a store may take to write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may take until every node that reaches a shared store shows a change: eight polls.
const BOARD_SPREAD_MILLIS: u64 = 2_000;
/// How long an owner waits after a failure before it looks at the store again by itself.
const RETRY_PAUSE: Duration = Duration::from_millis(RETRY_PAUSE_MILLIS);
const RETRY_PAUSE_MILLIS: u64 = 250;

/// The only one that changes a room on this node.
pub(super) struct Owner {
    pub(super) id: RoomId,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) node: NodeId,
    pub(super) next_number: u64,
    /// The room as of the last commit; `None` after a failure, until it is loaded again.
    pub(super) room: Option<Room>,
    /// The store's lineage as of then.
    pub(super) lineage: Lineage,
    /// On a shared store: the room as it was before the last turn, to make it again where the store was emptied. It shares its parts
    /// with `room`, so a turn copies only what it changes.
    pub(super) fallback: Option<Room>,
    pub(super) duty: Duty,
    pub(super) history: LocalHistory,
    pub(super) backoff: Backoff,
    pub(super) pending_claims: PendingClaims,
    pub(super) next_session_end: Option<UnixMillis>,
    /// Whether that is still so: another node may have begun sessions since.
    pub(super) next_end_is_known: bool,
    /// Runs since the last commit.
    pub(super) last_commit: Option<Stopwatch>,
    /// Whether the last turn failed.
    pub(super) failing: bool,
    /// Whether a write of what is being done has begun.
    pub(super) has_begun_write: bool,
    pub(super) handle: std::sync::Weak<RoomHandle>,
    pub(super) rooms: Arc<RoomMap>,
    /// Closed with the owner's end, which watchers of the room notice.
    pub(super) changes: watch::Sender<u64>,
    pub(super) counters: Arc<EngineCounters>,
    pub(super) outbox: Arc<Outbox>,
}

/// There is nothing to own any more: the room was deleted, here or by another node.
struct RoomGone;

/// What an owner does after it has applied the polls of a batch.
enum AfterPoll {
    /// Nothing: it was only that.
    Nothing,
    /// There is something to do.
    Turn,
}

/// Why a turn did not come about.
enum TurnError {
    Gone,
    Store(StoreError),
}

impl From<StoreError> for TurnError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Owner {
    pub(super) async fn run(
        mut self,
        mut requests: mpsc::Receiver<Request>,
        mut era: watch::Receiver<u64>,
        own_era: u64,
    ) {
        let mut batch = Vec::new();
        let mut busy = false;
        loop {
            batch.clear();
            let pause = self.time_until_due();
            tokio::select! {
                // An engine that is gone altogether counts as another era.
                _ = era.wait_for(|&era| era != own_era || era == ENDED_ERA), if !requests.is_closed() => {
                    requests.close();
                    continue;
                }
                received = requests.recv_many(&mut batch, TURN_OPERATIONS_MAX) => if received == 0 { break },
                () = tokio::time::sleep(pause) => {}
            }
            if busy {
                gather(&mut requests, &mut batch).await;
            }
            busy = batch.len() > 1;
            self.pace_claims(&mut requests, &mut batch).await;
            let turned = match catch_panic(self.work(&mut batch)).await {
                Ok(turned) => turned,
                Err(Panicked) => self.recover(&mut batch).await,
            };
            if turned.is_err() {
                self.end_as_deleted(requests, batch).await;
                return;
            }
        }
        self.pending_claims.end().await;
    }

    /// What a batch asks for.
    async fn work(&mut self, batch: &mut Vec<Request>) -> Result<(), RoomGone> {
        self.has_begun_write = false;
        match self.apply_polls(batch).await? {
            AfterPoll::Nothing => Ok(()),
            AfterPoll::Turn => self.turns(batch).await,
        }
    }

    /// A claim is followed by milliseconds of signing, so it loses nothing by sharing its commit with the next ones: a batch of
    /// nothing but visitors' claims waits until [`CLAIM_PACE`] after the last commit. A join or an operator ends the wait.
    async fn pace_claims(&self, requests: &mut mpsc::Receiver<Request>, batch: &mut Vec<Request>) {
        while !batch.is_empty() && batch.len() < TURN_OPERATIONS_MAX && batch.iter().all(Request::can_wait) {
            let since = self.last_commit.as_ref().map_or(CLAIM_PACE, Stopwatch::elapsed);
            let Some(left) = CLAIM_PACE.checked_sub(since).filter(|left| !left.is_zero()) else { return };
            tokio::select! {
                received = requests.recv_many(batch, TURN_OPERATIONS_MAX) => if received == 0 { return },
                () = tokio::time::sleep(left) => return,
            }
        }
    }

    fn time_until_due(&self) -> Duration {
        let Some(room) = &self.room else {
            return RETRY_PAUSE;
        };
        if self.failing {
            // It can be read but not written: no reason to try as fast as it answers. Every node tries, also one that leaves the
            // clockwork to another: without requests it would not find out that the room works again, and stay unready.
            return RETRY_PAUSE;
        }
        let far = Duration::from_hours(1);
        if !self.acts_by_itself() {
            return far;
        }
        if self.duty != Duty::None || !self.next_end_is_known {
            return Duration::ZERO;
        }
        let due = [room.next_due(), self.next_session_end].into_iter().flatten().min();
        due.map_or(far, |due| Duration::from_millis(due.since(self.clock.now())).min(far))
    }

    /// Whether it runs the room's clockwork.
    fn acts_by_itself(&self) -> bool {
        self.duty != Duty::None || self.handle.upgrade().is_some_and(|handle| handle.holds_lease())
    }

    /// Applies what polls showed of other nodes, and publishes it.
    async fn apply_polls(&mut self, batch: &mut Vec<Request>) -> Result<AfterPoll, RoomGone> {
        let mut answers = vec![];
        let mut must_load = false;
        let mut looked = false;
        batch.retain_mut(|request| {
            let Request::Poll { poll, answer } = request else { return true };
            must_load |= self.must_load_after(poll.as_ref());
            answers.extend(answer.take());
            looked = true;
            false
        });
        if !looked {
            return Ok(AfterPoll::Turn);
        }
        let mut done = if must_load { self.load().await } else { Ok(()) };
        if done.is_ok() && self.duty != Duty::None {
            // Until it is whole again nobody is shown the room: its frontier may be behind what everybody has seen.
            done = self.carry_out(&[]).await.map(drop);
        }
        let result = match done {
            Ok(()) => Ok(()),
            Err(TurnError::Gone) => return Err(RoomGone),
            Err(TurnError::Store(error)) => Err(error.into()),
        };
        self.publish();
        for answer in answers {
            drop(answer.send(result.clone()));
        }
        let only = batch.is_empty() && (self.room.is_none() || !self.acts_by_itself());
        Ok(if only { AfterPoll::Nothing } else { AfterPoll::Turn })
    }

    /// One turn, unless the batch contains a deletion: then earlier requests come first, and later ones only if the room
    /// is still there.
    async fn turns(&mut self, batch: &mut Vec<Request>) -> Result<(), RoomGone> {
        while let Some(place) = batch.iter().position(|request| matches!(request, Request::Delete { .. })) {
            let mut later = batch.split_off(place);
            if !batch.is_empty() {
                self.turn(batch).await?;
            }
            *batch = later.split_off(1);
            if let Some(Request::Delete { expected, actor, answer }) = later.pop() {
                self.delete(expected.as_deref(), &actor, answer).await?;
            }
        }
        self.turn(batch).await
    }

    /// Everything that has queued up, in one commit.
    async fn turn(&mut self, batch: &mut Vec<Request>) -> Result<(), RoomGone> {
        let error = match self.carry_out(batch).await {
            Ok(answers) => {
                self.note_health(None);
                self.publish();
                self.answer(batch, answers);
                return Ok(());
            }
            Err(TurnError::Gone) => return Err(RoomGone),
            Err(TurnError::Store(error)) => error,
        };
        self.note_failure(&error);
        batch.drain(..).for_each(|request| request.refuse(error.clone().into()));
        self.load_again().await
    }

    fn note_failure(&mut self, error: &StoreError) {
        count(&self.counters.failures, 1);
        self.let_go_of_room();
        self.note_health(Some(error));
    }

    /// The next turn reads it from the store.
    fn let_go_of_room(&mut self) {
        self.fallback = self.room.take().or(self.fallback.take());
    }

    /// Where that fails, the next turn loads it: on the next request, or after a pause.
    async fn load_again(&mut self) -> Result<(), RoomGone> {
        match self.load().await {
            Ok(()) => self.publish(),
            Err(TurnError::Gone) => return Err(RoomGone),
            Err(TurnError::Store(_)) => {}
        }
        Ok(())
    }

    /// Logs when failures begin and when they end, not at every turn in between.
    fn note_health(&mut self, failure: Option<&StoreError>) {
        match (self.failing, failure) {
            (false, Some(error)) => {
                self.counters.rooms_failing.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(room = %self.id, %error, "commit failed, reloading room");
            }
            (true, None) => {
                self.counters.rooms_failing.fetch_sub(1, Ordering::Relaxed);
                tracing::warn!(room = %self.id, "commits of room succeed again");
            }
            _ => {}
        }
        self.failing = failure.is_some();
    }

    async fn carry_out(&mut self, batch: &[Request]) -> Result<Answers, TurnError> {
        // Whether the room was read from the store since the batch began.
        let mut is_fresh = !self.store.is_shared();
        for conflicts in 0..CONFLICTS_MAX {
            if self.room.is_none() {
                self.load().await?;
                is_fresh = true;
            }
            let Some(mut computed) = self.compute(batch).await? else {
                count(&self.counters.conflicts, 1);
                self.load().await?;
                is_fresh = true;
                continue;
            };
            if !is_fresh && computed.refuses_unwritten() {
                self.load().await?;
                is_fresh = true;
                continue;
            }
            let written = self.write(&mut computed).await;
            match written {
                Ok(WriteOutcome::Written) => {
                    self.note_session_ends(&computed).await;
                    self.duty = Duty::None;
                    self.room = Some(computed.room);
                    return Ok(computed.answers);
                }
                Ok(WriteOutcome::Conflict(newer)) => {
                    count(&self.counters.conflicts, 1);
                    if let Some(newer) = newer {
                        self.refuse_stale_history(&newer)?;
                        self.adopt(*newer);
                        is_fresh = true;
                    }
                    tokio::time::sleep(self.backoff.pause_after_conflicts(conflicts)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(too_many_conflicts().into())
    }

    /// Applies the batch to the room: first the joins, which commute, then the rest in order.
    ///
    /// Everything is read beforehand, so that the room is there again if a read fails. `None`: what was read is newer than the room,
    /// because another node has written in between; the rules only hold for what belongs together.
    async fn compute(&mut self, batch: &[Request]) -> Result<Option<TurnResult>, TurnError> {
        let now = self.clock.now();
        if !self.next_end_is_known && self.acts_by_itself() {
            self.refresh_next_session_end().await?;
        }
        let ended = match &self.room {
            Some(room) => self.sessions_ended(room, now).await?,
            None => return Err(TurnError::Gone),
        };
        let stored = self.sessions_of(batch).await?;
        let is_behind = |room: &Room| room.is_behind(ended.iter().chain(stored.values()));
        if self.store.is_shared() && self.room.as_ref().is_some_and(is_behind) {
            return Ok(None);
        }
        let first = self.first_operation();
        if self.store.is_shared() {
            // As it was before anything was done that may never be written; a copy of a few numbers, the rest is shared.
            self.fallback.clone_from(&self.room);
        }
        let mut room = self.room.take().ok_or(TurnError::Gone)?;
        let before = (room.newest().generation, room.newest().joined, room.version);
        let mut turn = Turn { effects: Effects::default(), sessions: HashMap::new(), now };
        if let Some(first) = first {
            room = turn.apply(room, &first, Reads::default()).0;
        }
        room = turn.apply(room, &Operation::Tick, Reads { ended, ..Reads::default() }).0;
        let mut joins = vec![];
        let wanted = batch.iter().filter(|request| matches!(request, Request::Join { .. })).count() as u64;
        let join_refusal;
        (room, join_refusal) = turn.join(room, wanted, &mut joins);
        let mut operations = vec![];
        let mut audit = vec![];
        for request in batch {
            let Request::Operate { operation, actor, .. } = request else {
                continue;
            };
            let session = match operation.session_key() {
                None => None,
                Some(key) => turn.sessions.get(&key).or_else(|| stored.get(&key)).cloned(),
            };
            let record = audit::record_of(actor, operation, &self.id, &room, now);
            let answer;
            (room, answer) = turn.apply(
                room,
                operation,
                Reads {
                    session,
                    ended: vec![],
                    actor: actor.name().map(str::to_owned),
                    spread_millis: self.spread_millis(),
                },
            );
            if answer.is_ok() {
                audit.extend(record);
            }
            operations.push(answer);
        }
        let opens_line = room.newest().generation != before.0;
        if turn.effects.changed {
            room.version += 1;
        }
        let answers = Answers { joins, join_refusal, operations };
        let (mut effects, expected) = (turn.effects, before.2);
        if !effects.events.is_empty() {
            let wanted = self.outbox.wanted(&self.id);
            effects.events.retain(|event| event.is_kept(room.settings.visitor_events, wanted));
        }
        let joined_before = before.1;
        Ok(Some(TurnResult { room, effects, answers, audit, joined_before, opens_line, expected }))
    }

    /// How long it may take until every node shows what is written now.
    fn spread_millis(&self) -> u64 {
        if self.store.is_shared() { BOARD_SPREAD_MILLIS } else { 0 }
    }

    /// What the store has of the sessions that a batch is about.
    async fn sessions_of(&self, batch: &[Request]) -> Result<HashMap<SessionKey, Session>, StoreError> {
        let key_of = |request: &Request| match request {
            Request::Operate { operation, .. } => operation.session_key(),
            _ => None,
        };
        let keys: BTreeSet<SessionKey> = batch.iter().filter_map(key_of).collect();
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        let keys: Vec<SessionKey> = keys.into_iter().collect();
        let sessions = self.store.sessions(&self.id, &keys).await?;
        Ok(keys.into_iter().zip(sessions).filter_map(|(key, session)| Some((key, session?))).collect())
    }

    async fn sessions_ended(&self, room: &Room, now: UnixMillis) -> Result<Vec<Session>, StoreError> {
        if self.next_session_end.is_none_or(|end| end > now) {
            return Ok(vec![]);
        }
        self.store.sessions_ended(&self.id, &generations(room), now, SWEEP_MAX).await
    }

    /// Keeps the time of the next end of a session without asking the store, except once that time has come: then there was
    /// a sweep, or the session had ended by name and there was nothing to sweep.
    async fn note_session_ends(&mut self, computed: &TurnResult) {
        let passed_or_reset = self.next_session_end.is_some_and(|end| end <= computed.room.clock)
            || !computed.effects.closed_generations.is_empty();
        if passed_or_reset {
            let generations = generations(&computed.room);
            match self.store.next_session_end(&self.id, &generations).await {
                Ok(next) => self.next_session_end = next,
                // What was written is written and will be answered so; the next turn asks again.
                Err(error) => {
                    tracing::warn!(room = %self.id, %error, "reading the next session end failed");
                    self.next_session_end = Some(self.clock.now().plus(RETRY_PAUSE_MILLIS));
                }
            }
            return;
        }
        for session in &computed.effects.sessions {
            if session.status == anteroom_core::SessionStatus::Active {
                let end = session.ends_at();
                self.next_session_end = Some(self.next_session_end.map_or(end, |next| next.min(end)));
            }
        }
    }

    async fn refresh_next_session_end(&mut self) -> Result<(), StoreError> {
        if let Some(room) = &self.room {
            self.next_session_end = self.store.next_session_end(&self.id, &generations(room)).await?;
            self.next_end_is_known = true;
        }
        Ok(())
    }

    fn publish(&mut self) {
        let Some(room) = self.room.as_ref().filter(|_| self.duty == Duty::None) else { return };
        if self.store.is_shared() {
            self.history.note(room);
        }
        if let Some(handle) = self.handle.upgrade()
            && handle.show(Board::of(room), self.lineage)
        {
            self.changes.send_modify(|number| *number += 1);
        }
    }

    /// Answers every request of a batch. A caller that has gone away meanwhile keeps what it got. On a shared store a
    /// pass leaves when its session is confirmed, not before; so it is with a code, or a refresh token, that is exchanged for one.
    fn answer(&mut self, batch: &mut Vec<Request>, answers: Answers) {
        let mut places = answers.joins.iter().flat_map(|range| {
            (0..range.count).filter_map(|offset| {
                let position = Position::new(range.first + offset)?;
                let (generation, entered) = (range.generation, range.entered);
                Some(Ticket { lane: 0, generation, position, entered, copy: 0 })
            })
        });
        let refusal = answers.join_refusal.unwrap_or(Refusal::LineFull(0));
        let mut operations = answers.operations.into_iter();
        let mut claims = vec![];
        for request in batch.drain(..) {
            match request {
                Request::Join { answer } => {
                    let place = places.next().ok_or_else(|| refusal.clone().into());
                    drop(answer.send(place));
                }
                Request::Operate { operation, answer, .. } => {
                    let is_single_use = matches!(
                        operation,
                        Operation::Redeem { .. } | Operation::Grant { .. } | Operation::Refresh { .. }
                    );
                    let result = operations.next().expect("every operation of the batch was answered");
                    if matches!(result, Ok(Answer::Claimed { begun: true, .. })) {
                        count(&self.counters.sessions_begun, 1);
                    }
                    match result {
                        Ok(claimed @ Answer::Claimed { .. }) if self.store.is_shared() => {
                            claims.push((answer, claimed));
                        }
                        // A code, or a refresh token, that a lost machine alone knew as used could be used again.
                        Ok(used_up) if is_single_use && self.store.is_shared() => {
                            claims.push((answer, used_up));
                        }
                        result => drop(answer.send(result.map_err(EngineError::from))),
                    }
                }
                Request::Delete { .. } | Request::Poll { .. } => unreachable!("taken out before the turn"),
            }
        }
        if let Some(room) = self.room.as_ref().filter(|_| !claims.is_empty()) {
            let confirmed = self.history.confirmed.clone();
            let written = (self.id.clone(), self.lineage);
            self.pending_claims.answer(self.store.clone(), written, room, confirmed, claims);
        }
    }
}

/// In a rush, lets every task that is ready add its request before the batch is closed: fewer and larger commits. It
/// does not wait for the clock, and a room that is not busy does not come here.
async fn gather(requests: &mut mpsc::Receiver<Request>, batch: &mut Vec<Request>) {
    for _ in 0..GATHER_ROUNDS_MAX {
        tokio::task::yield_now().await;
        let before = batch.len();
        while batch.len() < TURN_OPERATIONS_MAX
            && let Ok(request) = requests.try_recv()
        {
            batch.push(request);
        }
        if batch.len() == before {
            return;
        }
    }
}

fn too_many_conflicts() -> StoreError {
    StoreError::Transient("too many conflicts with other nodes".into())
}

fn generations(room: &Room) -> Vec<Generation> {
    room.segments.iter().map(|segment| segment.generation).collect()
}
