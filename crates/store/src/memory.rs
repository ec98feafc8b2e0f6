//! The store that forgets: everything in maps under one lock. For trials and tests, and the plainest reading of the contract.

mod backup;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anteroom_core::{
    EventClass, Generation, RequestId, Room, RoomId, Session, SessionKey, SessionStatus, UnixMillis,
};
use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::answers::Answers;
use crate::backup::BackupStream;
use crate::backup::restore::{Restore, RestoreError};
use crate::contract::{
    AUDIT_MAX, AnswerKey, AuditRecord, Commit, CommitOutcome, Cursor, Deletion, DeletionOutcome, JoinBatch,
    JoinOutcome, Lineage, NOTIFICATIONS_MAX, NodeId, Notification, OutboxState, PollAnswer, RoomPoll,
    SESSION_RETENTION_MILLIS, Snapshot, Store, StoreError, StoredEvent, TRACES_MAX, Trace, events_max,
};
use crate::lease::Leases;

#[derive(Clone)]
struct StoredRoom {
    room: Room,
    /// Under which it was last committed.
    lineage: Lineage,
    sessions: BTreeMap<SessionKey, Session>,
    /// Active sessions by end.
    ending: BTreeSet<(UnixMillis, SessionKey)>,
    /// All retained sessions by end.
    by_end: BTreeMap<(UnixMillis, SessionKey), RequestId>,
    /// Last number of each node, and the answer to it.
    last: HashMap<NodeId, (u64, u64)>,
}

#[derive(Default, Clone)]
struct State {
    lineage: Lineage,
    rooms: BTreeMap<RoomId, StoredRoom>,
    /// Traces of deleted rooms.
    traces: BTreeMap<RoomId, Trace>,
    /// One for all names that have none of their own any more.
    shared_trace: Option<Trace>,
    values: BTreeMap<String, Vec<u8>>,
    events: BTreeMap<u64, StoredEvent>,
    /// The numbers of those that are kept, by class.
    kept_numbers: [VecDeque<u64>; 2],
    outbox: OutboxState,
    audit: VecDeque<(u64, AuditRecord)>,
    next_audit: u64,
    values_replaced: u64,
    names_changed: u64,
}

/// A store without disk.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
    leases: Leases<RoomId>,
    works: Leases<String>,
    answers: Answers,
    subscribers: Mutex<Vec<mpsc::Sender<Notification>>>,
    shared: bool,
}

impl MemoryStore {
    /// One that several engines in this process share.
    pub fn shared() -> Self {
        Self { shared: true, ..Self::default() }
    }

    /// What a replica of it would have, were it promoted now: the same, under another lineage.
    #[must_use]
    pub fn promoted_replica(&self) -> Self {
        let mut state = self.state().clone();
        state.lineage = Lineage(state.lineage.0 + 1);
        state.outbox.history += 1;
        Self { state: Mutex::new(state), shared: self.shared, ..Self::default() }
    }

    fn notify(&self, notification: &Notification) {
        let mut subscribers = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        subscribers.retain(|subscriber| match subscriber.try_send(notification.clone()) {
            Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => true,
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn snapshot(stored: Option<&StoredRoom>, lineage: Lineage, node: NodeId) -> Option<Snapshot> {
    let stored = stored?;
    let last_number = stored.last.get(&node).map(|&(number, _)| number);
    let is_continuous = stored.lineage == lineage;
    Some(Snapshot { room: stored.room.clone(), last_number, lineage, is_continuous })
}

impl State {
    fn trace(&self, room: &RoomId) -> Option<Trace> {
        [self.traces.get(room).copied(), self.shared_trace].into_iter().flatten().reduce(Trace::merge)
    }

    fn leave_trace(&mut self, room: RoomId, trace: Trace) {
        self.traces.insert(room, trace);
        if self.traces.len() as u64 > TRACES_MAX
            && let Some((_, surplus)) = self.traces.pop_first()
        {
            let shared = self.shared_trace.map_or(surplus, |shared| shared.merge(surplus));
            self.shared_trace = Some(shared);
        }
    }

    fn note_events(&mut self, events: impl IntoIterator<Item = StoredEvent>) {
        for event in events {
            self.outbox.last += 1;
            self.keep_event(self.outbox.last, event);
        }
    }

    /// Keeps an event, and drops the oldest of its class beyond the limit.
    fn keep_event(&mut self, number: u64, event: StoredEvent) {
        let class = event.event.kind().class();
        self.events.insert(number, event);
        let kept = &mut self.kept_numbers[usize::from(class == EventClass::Visitor)];
        kept.push_back(number);
        if kept.len() as u64 > events_max(class)
            && let Some(oldest) = kept.pop_front()
        {
            self.events.remove(&oldest);
            let dropped = self.outbox.dropped_mut(class);
            (dropped.through, dropped.count) = (oldest, dropped.count + 1);
        }
    }

    /// An event was taken out because it is old.
    fn note_dropped(&mut self, number: u64, class: EventClass) {
        // The oldest of its class goes first.
        let kept = &mut self.kept_numbers[usize::from(class == EventClass::Visitor)];
        if kept.front() == Some(&number) {
            kept.pop_front();
        }
        let dropped = self.outbox.dropped_mut(class);
        (dropped.through, dropped.count) = (number, dropped.count + 1);
    }

    fn note_audit(&mut self, records: impl IntoIterator<Item = AuditRecord>) {
        for record in records {
            self.next_audit += 1;
            self.audit.push_back((self.next_audit, record));
        }
        self.audit.drain(..surplus(self.audit.len(), AUDIT_MAX));
    }
}

fn surplus(length: usize, limit: u64) -> usize {
    length.saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX))
}

impl StoredRoom {
    fn new(room: Room, lineage: Lineage) -> Self {
        Self {
            room,
            lineage,
            sessions: BTreeMap::new(),
            ending: BTreeSet::new(),
            by_end: BTreeMap::new(),
            last: HashMap::new(),
        }
    }

    fn write_session(&mut self, session: &Session) {
        let place = (session.ends_at(), session.key);
        if let Some(before) = self.sessions.insert(session.key, session.clone()) {
            let before = (before.ends_at(), before.key);
            self.ending.remove(&before);
            self.by_end.remove(&before);
        }
        if session.status == SessionStatus::Active {
            self.ending.insert(place);
        }
        self.by_end.insert(place, session.request_id);
    }

    fn forget_generations(&mut self, closed: &[Generation]) {
        self.sessions.retain(|key, _| !closed.contains(&key.generation));
        self.ending.retain(|(_, key)| !closed.contains(&key.generation));
        self.by_end.retain(|(_, key), _| !closed.contains(&key.generation));
    }

    fn forget_ended_before(&mut self, limit: UnixMillis) {
        let old = self.by_end.keys().take_while(|(end, _)| *end < limit).copied();
        // One that still counts as active is left to the tick.
        let old: Vec<_> = old.filter(|place| !self.ending.contains(place)).collect();
        for place in old {
            self.by_end.remove(&place);
            self.sessions.remove(&place.1);
        }
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn rooms(&self) -> Result<Vec<RoomId>, StoreError> {
        Ok(self.state().rooms.keys().cloned().collect())
    }

    async fn load(&self, room: &RoomId, node: NodeId) -> Result<Option<Snapshot>, StoreError> {
        let state = self.state();
        Ok(snapshot(state.rooms.get(room), state.lineage, node))
    }

    async fn commit(&self, commit: &Commit) -> Result<CommitOutcome, StoreError> {
        let mut state = self.state();
        let state = &mut *state;
        let trace = state.trace(&commit.room);
        let stored = state.rooms.get(&commit.room);
        let last = stored.and_then(|stored| stored.last.get(&commit.node).copied());
        if let Some((_, joined)) = last.filter(|&(number, _)| number == commit.number) {
            return Ok(CommitOutcome::Done { joined });
        }
        let lineage = state.lineage;
        let fits = stored
            .is_none_or(|stored| commit.lineage == lineage && (stored.lineage == lineage || commit.mends));
        let in_turn = fits
            && last.is_none_or(|(number, _)| number < commit.number)
            && stored.map(|stored| stored.room.version) == commit.expected
            && (stored.is_some() || trace.is_none_or(|trace| trace.precedes(&Trace::of(&commit.next))));
        let joined = commit.own_joins().joined_after(stored.map(|stored| stored.room.newest().joined));
        let Some(joined) = joined.filter(|_| in_turn) else {
            return Ok(CommitOutcome::Conflict(snapshot(stored, lineage, commit.node).map(Box::new)));
        };
        let mut next = commit.next.clone();
        next.segments.back_mut().expect("a room always has a segment").joined = joined;
        let at = next.clock;
        state.names_changed += u64::from(stored.is_none());
        let is_new = stored.is_none();
        let new = || StoredRoom::new(next.clone(), lineage);
        let stored = state.rooms.entry(commit.room.clone()).or_insert_with(new);
        stored.room = next;
        stored.lineage = lineage;
        for session in &commit.effects.sessions {
            stored.write_session(session);
        }
        stored.forget_generations(&commit.effects.closed_generations);
        stored.forget_ended_before(UnixMillis(at.0.saturating_sub(SESSION_RETENTION_MILLIS)));
        stored.last.insert(commit.node, (commit.number, joined));
        state.traces.remove(&commit.room);
        state.note_events(commit.events());
        state.note_audit(commit.audit.iter().cloned());
        self.notify(&if is_new { Notification::Names } else { Notification::Room(commit.room.clone()) });
        Ok(CommitOutcome::Done { joined })
    }

    async fn delete_room(&self, deletion: &Deletion) -> Result<DeletionOutcome, StoreError> {
        let mut state = self.state();
        let stored = state.rooms.get(&deletion.room);
        let Some(stored) = stored.filter(|stored| stored.room.version == deletion.expected) else {
            return Ok(DeletionOutcome::Conflict);
        };
        let trace = Trace::of(&stored.room);
        state.rooms.remove(&deletion.room);
        state.leave_trace(deletion.room.clone(), trace);
        state.note_audit(deletion.audit.iter().cloned());
        state.note_events(deletion.events.iter().cloned());
        state.names_changed += 1;
        self.notify(&Notification::Names);
        Ok(DeletionOutcome::Done)
    }

    async fn trace(&self, room: &RoomId) -> Result<Option<Trace>, StoreError> {
        Ok(self.state().trace(room))
    }

    async fn join(&self, batch: &JoinBatch) -> Result<JoinOutcome, StoreError> {
        let mut state = self.state();
        let lineage = state.lineage;
        let Some(stored) = state.rooms.get_mut(&batch.room) else {
            return Ok(JoinOutcome::Conflict(None));
        };
        let last = stored.last.get(&batch.node).copied();
        if let Some((_, joined)) = last.filter(|&(number, _)| number == batch.number) {
            return Ok(JoinOutcome::Joined { first: joined + 1 - batch.count });
        }
        let in_turn = last.is_none_or(|(number, _)| number < batch.number);
        let room = &stored.room;
        let fits = batch.lineage == lineage && stored.lineage == lineage && room.epoch == batch.epoch;
        if !in_turn || !fits || room.places_left() < batch.count {
            return Ok(JoinOutcome::Conflict(snapshot(Some(stored), lineage, batch.node).map(Box::new)));
        }
        let segment = stored.room.segments.back_mut().expect("a room always has a segment");
        let first = segment.joined + 1;
        segment.joined += batch.count;
        stored.last.insert(batch.node, (batch.number, segment.joined));
        Ok(JoinOutcome::Joined { first })
    }

    async fn session(&self, room: &RoomId, key: SessionKey) -> Result<Option<Session>, StoreError> {
        Ok(self.state().rooms.get(room).and_then(|stored| stored.sessions.get(&key).cloned()))
    }

    async fn sessions_ended(
        &self,
        room: &RoomId,
        generations: &[Generation],
        until: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError> {
        let state = self.state();
        let Some(stored) = state.rooms.get(room) else {
            return Ok(vec![]);
        };
        let due = stored.ending.iter().take_while(|(end, _)| *end <= until);
        let due = due.filter(|(_, key)| generations.contains(&key.generation)).take(limit);
        Ok(due.filter_map(|(_, key)| stored.sessions.get(key).cloned()).collect())
    }

    async fn next_session_end(
        &self,
        room: &RoomId,
        generations: &[Generation],
    ) -> Result<Option<UnixMillis>, StoreError> {
        let state = self.state();
        let Some(stored) = state.rooms.get(room) else {
            return Ok(None);
        };
        let mut ends = stored.ending.iter().filter(|(_, key)| generations.contains(&key.generation));
        Ok(ends.next().map(|&(end, _)| end))
    }

    async fn expired_passes(
        &self,
        room: &RoomId,
        generations: &[Generation],
        before: UnixMillis,
    ) -> Result<Vec<RequestId>, StoreError> {
        let state = self.state();
        let Some(stored) = state.rooms.get(room) else {
            return Ok(vec![]);
        };
        let expired = stored.by_end.iter().take_while(|((end, _), _)| *end < before);
        let expired = expired.filter(|((_, key), _)| generations.contains(&key.generation));
        Ok(expired.map(|(_, &request_id)| request_id).collect())
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<(u64, StoredEvent)>, StoreError> {
        let state = self.state();
        let behind = state.events.range(after.saturating_add(1)..).filter(|_| after < u64::MAX);
        Ok(behind.take(limit).map(|(number, event)| (*number, event.clone())).collect())
    }

    async fn outbox(&self) -> Result<OutboxState, StoreError> {
        Ok(self.state().outbox)
    }

    async fn append_events(&self, events: &[StoredEvent]) -> Result<(), StoreError> {
        self.state().note_events(events.iter().cloned());
        Ok(())
    }

    async fn drop_events(&self, through: u64) -> Result<(), StoreError> {
        let mut state = self.state();
        let state = &mut *state;
        let kept = state.events.split_off(&through.saturating_add(1));
        for (number, event) in std::mem::replace(&mut state.events, kept) {
            state.note_dropped(number, event.event.kind().class());
        }
        Ok(())
    }

    async fn hold_work(&self, work: &str, node: NodeId, lease: Duration) -> Result<bool, StoreError> {
        Ok(self.works.take(&work.to_owned(), node, lease))
    }

    async fn save_cursor(
        &self,
        name: &str,
        node: NodeId,
        history: u64,
        cursor: &Cursor,
    ) -> Result<bool, StoreError> {
        let mut state = self.state();
        let is_held = self.works.is_held(&name.to_owned(), node) && state.outbox.history == history;
        if is_held {
            state.values.insert(Cursor::value_name(name), cursor.to_bytes());
        }
        Ok(is_held)
    }

    async fn delete_cursor(&self, name: &str) -> Result<(), StoreError> {
        self.state().values.remove(&Cursor::value_name(name));
        Ok(())
    }

    async fn audit(
        &self,
        before: Option<u64>,
        room: Option<&RoomId>,
        limit: usize,
    ) -> Result<Vec<(u64, AuditRecord)>, StoreError> {
        let state = self.state();
        let newest_first = state.audit.iter().rev();
        let earlier = newest_first.filter(|(number, _)| before.is_none_or(|before| *number < before));
        let wanted = earlier.filter(|(_, record)| room.is_none() || record.room.as_ref() == room);
        Ok(wanted.take(limit).cloned().collect())
    }

    async fn value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.state().values.get(name).cloned())
    }

    async fn replace_value_and_tell(
        &self,
        name: &str,
        expected: Option<&[u8]>,
        new: &[u8],
        audit: Option<&AuditRecord>,
        events: &[StoredEvent],
    ) -> Result<bool, StoreError> {
        let mut state = self.state();
        if state.values.get(name).map(Vec::as_slice) != expected {
            return Ok(false);
        }
        state.values.insert(name.to_owned(), new.to_vec());
        state.note_audit(audit.cloned());
        state.note_events(events.iter().cloned());
        state.values_replaced += 1;
        self.notify(&Notification::Values);
        Ok(true)
    }

    async fn backup(&self, taken_at: UnixMillis) -> Result<BackupStream, StoreError> {
        let written = backup::write(&self.state(), taken_at)?;
        Ok(BackupStream::of(written))
    }

    async fn restore(&self, restore: Restore) -> Result<(), RestoreError> {
        let mut state = self.state();
        *state = backup::restore_state(&state, restore)?;
        self.notify(&Notification::Names);
        self.notify(&Notification::Values);
        Ok(())
    }

    async fn poll(&self, rooms: &[RoomId], node: NodeId, lease: Duration) -> Result<PollAnswer, StoreError> {
        let state = self.state();
        let poll = |id: &RoomId| {
            let stored = state.rooms.get(id)?;
            let newest = stored.room.newest();
            Some(RoomPoll {
                generation: newest.generation,
                version: stored.room.version,
                joined: newest.joined,
                lineage: state.lineage,
                is_continuous: stored.lineage == state.lineage,
                holds_lease: self.leases.take(id, node, lease),
            })
        };
        let rooms = rooms.iter().map(poll).collect();
        Ok(PollAnswer { rooms, values: state.values_replaced, names: state.names_changed })
    }

    async fn keep_answer(
        &self,
        room: &RoomId,
        key: AnswerKey,
        answer: &[u8],
        kept: Duration,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.answers.keep(room, key, answer, kept))
    }

    async fn kept_answer(&self, room: &RoomId, key: &AnswerKey) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.answers.find(room, key))
    }

    fn subscribe(&self) -> mpsc::Receiver<Notification> {
        let (subscriber, notifications) = mpsc::channel(NOTIFICATIONS_MAX);
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner).push(subscriber);
        notifications
    }

    fn is_shared(&self) -> bool {
        self.shared
    }

    fn is_ready(&self) -> bool {
        true
    }
}
