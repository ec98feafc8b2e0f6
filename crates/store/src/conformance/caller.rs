//! A caller of the bare store: it keeps a room and its numbers as an owner would, but one call at a time and in plain sight.

use std::sync::Arc;

use anteroom_core::{
    Answer, Claim, Effects, Generation, MAX_POSITION, Operation, Outcome, Position, Reads, Refusal, Report,
    RequestId, Room, RoomId, Session, SessionKey, Settings, Ticket, UnixMillis, apply,
};

use crate::clock::{Clock, SystemClock};
use crate::contract::{
    AuditRecord, Commit, CommitOutcome, JoinBatch, JoinOutcome, Lineage, NodeId, Snapshot, Store, StoreError,
};

/// The node of a caller.
pub const NODE: NodeId = NodeId(1);
/// Another node.
pub const OTHER_NODE: NodeId = NodeId(2);
/// How often a write is asked for that a busy store did not answer in time.
const ATTEMPTS_MAX: usize = 10;
/// One hour.
pub const HOUR_MILLIS: u64 = 3_600_000;

/// A caller of the bare store.
#[derive(Clone)]
pub struct Caller {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Its room.
    pub id: RoomId,
    /// Its node.
    pub node: NodeId,
    /// The number of its last write.
    pub number: u64,
    /// The time it goes by.
    pub now: UnixMillis,
    /// The room as of its last commit.
    pub room: Room,
    /// The store's lineage when it began.
    pub lineage: Lineage,
    /// How long a board takes to all nodes.
    pub spread_millis: u64,
}

impl Caller {
    /// Makes a room as of now.
    pub async fn open(store: &Arc<dyn Store>, name: &str) -> Self {
        Self::open_at(store, name, SystemClock.now()).await
    }

    /// Makes a room as of `now`.
    pub async fn open_at(store: &Arc<dyn Store>, name: &str, now: UnixMillis) -> Self {
        Self::open_room(store, name, Room::open(Settings::default(), now, 1)).await
    }

    /// Makes a room whose line has only `places` left.
    pub async fn open_near_the_end(store: &Arc<dyn Store>, name: &str, places: u64) -> Self {
        let mut room = Room::open(Settings::default(), SystemClock.now(), 1);
        let end = MAX_POSITION - places;
        let segment = room.segments.back_mut().unwrap();
        (segment.base, segment.joined, segment.serving, segment.floor) = (end, end, end, end);
        Self::open_room(store, name, room).await
    }

    async fn open_room(store: &Arc<dyn Store>, name: &str, mut room: Room) -> Self {
        room.version = 1;
        let mut caller = Self {
            store: store.clone(),
            id: RoomId::parse(name).unwrap(),
            node: NODE,
            number: 0,
            now: room.clock,
            room,
            lineage: Lineage::default(),
            spread_millis: 0,
        };
        let creation = caller.creation();
        let outcome = caller.outcome_of(&creation).await;
        assert!(matches!(outcome, CommitOutcome::Done { .. }), "{outcome:?}");
        caller.lineage = caller.snapshot().await.lineage;
        caller
    }

    /// The commit that makes the room as this caller has it.
    pub fn creation(&mut self) -> Commit {
        self.number += 1;
        Commit {
            room: self.id.clone(),
            node: self.node,
            number: self.number,
            expected: None,
            lineage: self.lineage,
            mends: false,
            opens_line: true,
            joined_before: self.room.newest().joined,
            next: self.room.clone(),
            effects: Effects::default(),
            audit: vec![],
        }
    }

    /// Another node that has seen the same.
    #[must_use]
    pub fn on_another_node(&self) -> Self {
        Self { node: OTHER_NODE, number: 0, ..self.clone() }
    }

    /// The commit of these operations, and their answers; the caller's own room does not change.
    pub async fn prepare(&mut self, operations: &[Operation]) -> (Commit, Vec<Result<Answer, Refusal>>) {
        self.number += 1;
        let (mut next, mut effects, mut answers) = (self.room.clone(), Effects::default(), vec![]);
        for operation in operations {
            let session = match operation.session_key() {
                Some(key) => self.store.session(&self.id, key).await.unwrap(),
                None => None,
            };
            let reads = Reads { session, spread_millis: self.spread_millis, ..Reads::default() };
            let applied = apply(next, self.now, operation, reads);
            next = applied.room;
            effects.absorb(applied.effects);
            answers.push(applied.answer);
        }
        (self.commit_of(next, effects), answers)
    }

    fn commit_of(&self, mut next: Room, effects: Effects) -> Commit {
        next.version = self.room.version + 1;
        Commit {
            room: self.id.clone(),
            node: self.node,
            number: self.number,
            expected: Some(self.room.version),
            lineage: self.lineage,
            mends: false,
            opens_line: next.newest().generation != self.room.newest().generation,
            joined_before: self.room.newest().joined,
            next,
            effects,
            audit: vec![],
        }
    }

    /// Whether a write is asked for once more, as owners do: a shared store does it at most once under its number.
    fn asks_again<T>(&self, attempt: usize, result: &Result<T, StoreError>) -> bool {
        attempt < ATTEMPTS_MAX && self.store.is_shared() && matches!(result, Err(StoreError::Ambiguous(_)))
    }

    /// What becomes of a commit, also on a machine so busy that the store answers late.
    async fn outcome_of(&self, commit: &Commit) -> CommitOutcome {
        let (mut attempt, mut result) = (1, self.store.commit(commit).await);
        while self.asks_again(attempt, &result) {
            (attempt, result) = (attempt + 1, self.store.commit(commit).await);
        }
        result.unwrap()
    }

    /// Commits and goes on from what was committed; returns the last position handed out.
    pub async fn commit(&mut self, commit: &Commit) -> u64 {
        match self.outcome_of(commit).await {
            CommitOutcome::Done { joined } => {
                self.room = commit.next.clone();
                self.room.segments.back_mut().unwrap().joined = joined;
                joined
            }
            CommitOutcome::Conflict(newer) => panic!("unexpected conflict with {newer:?}"),
        }
    }

    /// Commits something that must conflict; returns the newer snapshot.
    pub async fn commit_in_vain(&self, commit: &Commit) -> Option<Snapshot> {
        match self.outcome_of(commit).await {
            CommitOutcome::Done { joined } => panic!("no conflict, joined {joined}"),
            CommitOutcome::Conflict(newer) => newer.map(|newer| *newer),
        }
    }

    /// Carries out one operation that the rules allow.
    pub async fn perform(&mut self, operation: Operation) -> Answer {
        let (commit, mut answers) = self.prepare(&[operation]).await;
        self.commit(&commit).await;
        answers.remove(0).unwrap()
    }

    /// Lets the sessions end that the store says are over.
    pub async fn sweep(&mut self) {
        self.number += 1;
        let ended = self.ended(self.now, usize::MAX).await;
        let reads = Reads { ended, ..Reads::default() };
        let applied = apply(self.room.clone(), self.now, &Operation::Tick, reads);
        let commit = self.commit_of(applied.room, applied.effects);
        self.commit(&commit).await;
    }

    /// Joins, lets the frontier pass and claims; returns the session.
    pub async fn admit(&mut self, validity_seconds: u64) -> Session {
        self.admit_by(|ticket| claim(ticket, Some(validity_seconds))).await
    }

    /// The same, with a stay of so many milliseconds.
    pub async fn admit_for(&mut self, stay_millis: u64) -> Session {
        self.admit_by(|ticket| match claim(ticket, None) {
            Operation::Claim(claim) => Operation::Claim(Claim { stay_millis: Some(stay_millis), ..claim }),
            other => other,
        })
        .await
    }

    async fn admit_by(&mut self, claim: impl FnOnce(Ticket) -> Operation) -> Session {
        self.perform(Operation::Join { count: 1 }).await;
        let newest = self.room.newest();
        let (ticket, missing) = (self.ticket(newest.joined), newest.joined.saturating_sub(newest.serving));
        if missing > 0 {
            let by = i64::try_from(missing).unwrap();
            self.perform(Operation::Advance { by }).await;
        }
        let claim = self.perform(claim(ticket)).await;
        let Answer::Claimed { session, begun: true } = claim else { panic!("{claim:?}") };
        session
    }

    /// Prolongs a stay.
    pub async fn touch(&mut self, key: SessionKey, stay_millis: u64) -> Session {
        match self.perform(Operation::Touch { key, stay_millis }).await {
            Answer::Session(session) => session,
            other => panic!("{other:?}"),
        }
    }

    /// Ends a session by name.
    pub async fn close(&mut self, key: SessionKey, outcome: Outcome) -> Session {
        match self.perform(Operation::Close { key, outcome }).await {
            Answer::Session(session) => session,
            other => panic!("{other:?}"),
        }
    }

    /// A ticket of the newest generation.
    pub fn ticket(&self, position: u64) -> Ticket {
        Ticket {
            lane: 0,
            generation: self.room.newest().generation,
            position: Position::new(position).unwrap(),
            entered: 0,
            copy: 0,
        }
    }

    /// The next batch of joins.
    pub fn batch(&mut self, count: u64) -> JoinBatch {
        self.number += 1;
        JoinBatch {
            room: self.id.clone(),
            node: self.node,
            number: self.number,
            epoch: self.room.epoch,
            lineage: self.lineage,
            count,
        }
    }

    /// Joins on the side, as a node does that has nothing else to write; the caller's own room does not change.
    pub async fn join(&mut self, count: u64) -> u64 {
        let batch = self.batch(count);
        let (mut attempt, mut result) = (1, self.store.join(&batch).await);
        while self.asks_again(attempt, &result) {
            (attempt, result) = (attempt + 1, self.store.join(&batch).await);
        }
        match result.unwrap() {
            JoinOutcome::Joined { first } => first,
            JoinOutcome::Conflict(newer) => panic!("unexpected conflict with {newer:?}"),
        }
    }

    /// The room as the store has it.
    pub async fn snapshot(&self) -> Snapshot {
        self.store.load(&self.id, self.node).await.unwrap().unwrap()
    }

    /// A session as the store has it.
    pub async fn session(&self, key: SessionKey) -> Option<Session> {
        self.store.session(&self.id, key).await.unwrap()
    }

    /// The generations that count.
    pub fn generations(&self) -> Vec<Generation> {
        self.room.segments.iter().map(|segment| segment.generation).collect()
    }

    /// The sessions that have ended by then.
    pub async fn ended(&self, until: UnixMillis, limit: usize) -> Vec<Session> {
        let generations = self.generations();
        self.store.sessions_ended(&self.id, &generations, until, limit).await.unwrap()
    }

    /// When the next session ends.
    pub async fn next_end(&self) -> Option<UnixMillis> {
        let generations = self.generations();
        self.store.next_session_end(&self.id, &generations).await.unwrap()
    }

    /// Whose passes ended before that, sorted.
    pub async fn expired(&self, before: UnixMillis) -> Vec<RequestId> {
        let generations = self.generations();
        let mut expired = self.store.expired_passes(&self.id, &generations, before).await.unwrap();
        expired.sort();
        expired
    }

    /// A record of something done to the room.
    pub fn audit_record(&self, action: &str) -> AuditRecord {
        AuditRecord::new(self.now, Some(self.id.clone()), "somebody", action)
    }
}

/// A request id that tells the generation and the position apart.
pub fn request_id(ticket: &Ticket) -> RequestId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&ticket.position.get().to_be_bytes());
    bytes[8..12].copy_from_slice(&ticket.generation.opened.to_be_bytes());
    bytes[12] = ticket.generation.incarnation;
    RequestId(bytes)
}

/// The claim of a ticket.
pub fn claim(ticket: Ticket, validity_seconds: Option<u64>) -> Operation {
    Operation::Claim(Claim {
        ticket,
        request_id: request_id(&ticket),
        issuer: "https://issuer.example".into(),
        validity_seconds,
        key_id: "key-1".into(),
        stay_millis: None,
        prefix: None,
    })
}

/// The report of an origin with so many free places.
pub fn report(sequence: u64, free: u64) -> Operation {
    Operation::Report(Report {
        reporter: "web-1".into(),
        sequence: Some(sequence),
        free: Some(free),
        entered: Some(sequence * 2),
        latency_p95_millis: Some(180),
        errors_per_million: Some(2_000),
        in_flight: Some(9),
    })
}
