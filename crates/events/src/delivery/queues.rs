//! What waits for a destination, in memory: one queue for each room, one for the server, one for alarms, one for dead letters that
//! are sent again. Queues do not wait for each other; within one, messages keep their order.
//!
//! *Invariant:* [`Queues::cursor`] never says that something has been dealt with that was neither delivered nor given up.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use anteroom_core::UnixMillis;

use crate::message::EventMessage;

/// How many messages one queue keeps in memory; what comes behind is read again when it is its turn.
pub(super) const QUEUE_MAX: usize = 2_000;
/// How many messages all queues keep together, beyond one for each.
pub(super) const MESSAGES_MAX: usize = 10_000;
/// As long as so many messages can be sent, no more are read.
pub(super) const READ_AHEAD_MIN: usize = 1_000;

/// The queue of what concerns no room.
const SERVER_QUEUE: &str = "server";
/// The queue of alarms, which wait for nothing else.
const ALARM_QUEUE: &str = "alarms";
/// The queue of dead letters that are sent again.
pub(super) const DEAD_LETTER_QUEUE: &str = "dead-letters";

/// The queue that a message belongs to. No room's begins like one of the others.
pub(super) fn queue_of(message: &EventMessage) -> String {
    match &message.room {
        _ if message.kind.is_alarm() => ALARM_QUEUE.to_owned(),
        Some(room) => format!("room/{}", room.as_str()),
        None => SERVER_QUEUE.to_owned(),
    }
}

#[derive(Default)]
struct Queue {
    /// The first messages, shared with the attempt that sends them.
    in_flight: Arc<Vec<EventMessage>>,
    /// Those behind.
    waiting: VecDeque<EventMessage>,
    /// Attempts for the first message that have failed.
    attempts: u32,
    /// When the next attempt may be made, counted from the start of the task.
    retry_at: Duration,
    /// How many messages one attempt has at most, where the receiver found more too large.
    batch_max: Option<usize>,
    /// The first number that did not fit into memory.
    overflow: Option<u64>,
}

impl Queue {
    /// How many messages it has in memory.
    fn len(&self) -> usize {
        self.in_flight.len() + self.waiting.len()
    }

    /// The first message in memory.
    fn first(&self) -> Option<&EventMessage> {
        self.in_flight.first().or_else(|| self.waiting.front())
    }

    /// The first number that has not been dealt with.
    fn first_open(&self) -> Option<u64> {
        self.first().map(|message| message.number).or(self.overflow)
    }

    /// Nothing is in flight any more, and the first messages have been dealt with; returns how many those were.
    fn land(&mut self, settled: usize) -> usize {
        let in_flight = std::mem::take(&mut self.in_flight);
        let of_attempt = settled.min(in_flight.len());
        for message in in_flight[of_attempt..].iter().rev() {
            self.waiting.push_front(message.clone());
        }
        let of_waiting = (settled - of_attempt).min(self.waiting.len());
        self.waiting.drain(..of_waiting);
        of_attempt + of_waiting
    }
}

/// A batch to be sent.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) queue: String,
    pub(super) messages: Arc<Vec<EventMessage>>,
    /// Attempts for the first of them that have failed.
    pub(super) attempts: u32,
}

/// All queues of a destination.
#[derive(Default)]
#[expect(clippy::struct_field_names, reason = "it is what it is called")]
pub(super) struct Queues {
    queues: BTreeMap<String, Queue>,
    /// Everything up to this number has been read.
    read: u64,
    /// What the cursor said when this began.
    position: u64,
    behind: BTreeMap<String, u64>,
    messages: usize,
}

impl Queues {
    /// Goes on where a cursor was.
    pub(super) fn begin(position: u64, behind: BTreeMap<String, u64>) -> Self {
        let read = behind.values().copied().min().unwrap_or(position).min(position);
        Self { read, position, behind, ..Self::default() }
    }

    /// Everything up to this number has been read.
    pub(super) const fn read(&self) -> u64 {
        self.read
    }

    /// How many messages wait in memory.
    pub(super) const fn waiting(&self) -> usize {
        self.messages
    }

    /// When the oldest message happened that waits.
    pub(super) fn oldest(&self) -> Option<UnixMillis> {
        self.queues.values().filter_map(Queue::first).map(|message| message.at).min()
    }

    /// Whether more is to be read: not while there is enough that can be sent.
    pub(super) fn wants_more(&self, now: Duration) -> bool {
        let ready = self.queues.values().filter(|queue| queue.attempts == 0 || queue.retry_at <= now);
        self.messages < MESSAGES_MAX && ready.map(Queue::len).sum::<usize>() < READ_AHEAD_MIN
    }

    /// Takes in what was read up to a number; messages that were dealt with before are left out.
    pub(super) fn take_in(&mut self, messages: impl IntoIterator<Item = EventMessage>, through: u64) {
        for message in messages {
            let queue = queue_of(&message);
            let settled = match self.behind.get(&queue) {
                Some(settled) => *settled,
                None => self.position,
            };
            if message.number > settled {
                self.push(queue, message);
            }
        }
        self.read = self.read.max(through);
    }

    /// Puts dead letters at the end of their own queue.
    pub(super) fn push_dead_letters(&mut self, messages: impl IntoIterator<Item = EventMessage>) {
        for message in messages {
            let queue = self.queues.entry(DEAD_LETTER_QUEUE.to_owned()).or_default();
            queue.waiting.push_back(message);
            self.messages += 1;
        }
    }

    fn push(&mut self, name: String, message: EventMessage) {
        let is_full = self.messages >= MESSAGES_MAX;
        let queue = self.queues.entry(name).or_default();
        let does_not_fit = queue.len() >= QUEUE_MAX || is_full && queue.len() > 0;
        if queue.overflow.is_some() || does_not_fit {
            queue.overflow = queue.overflow.or(Some(message.number));
        } else {
            queue.waiting.push_back(message);
            self.messages += 1;
        }
    }

    /// A queue that has room for what did not fit into memory, and the number behind which to read that. It is then to be given to
    /// [`Self::refill`].
    pub(super) fn to_refill(&self) -> Option<(String, u64)> {
        // With memory full, only a queue that has nothing at all.
        let room = if self.messages >= MESSAGES_MAX { 0 } else { QUEUE_MAX / 4 };
        let mut wanting = self.queues.iter().filter(|(_, queue)| queue.len() <= room);
        wanting.find_map(|(name, queue)| Some((name.clone(), queue.overflow? - 1)))
    }

    /// Takes in messages of one queue again, read up to a number; says whether there is room for more of it.
    pub(super) fn refill(
        &mut self,
        name: &str,
        messages: impl IntoIterator<Item = EventMessage>,
        through: u64,
    ) -> bool {
        if let Some(queue) = self.queues.get_mut(name) {
            queue.overflow = None;
        }
        let read = self.read;
        for message in messages.into_iter().filter(|message| message.number <= read) {
            self.push(name.to_owned(), message);
        }
        let Some(queue) = self.queues.get_mut(name) else { return false };
        if queue.overflow.is_none() && through < self.read {
            queue.overflow = Some(through + 1);
            return queue.len() < QUEUE_MAX && self.messages < MESSAGES_MAX;
        }
        if queue.first_open().is_none() {
            self.queues.remove(name);
        }
        false
    }

    /// The next batch that may be sent: of alarms first, then of queues that do not fail, the oldest first message first. With
    /// `alarms_only`, of alarms or none. Dead letters go one by one.
    pub(super) fn next_batch(&mut self, now: Duration, batch_max: usize, alarms_only: bool) -> Option<Batch> {
        let is_ready = |queue: &Queue| {
            let may_try = queue.attempts == 0 || queue.retry_at <= now;
            queue.in_flight.is_empty() && may_try && !queue.waiting.is_empty()
        };
        let may_go = |name: &str| !alarms_only || name == ALARM_QUEUE;
        let ready = self.queues.iter_mut().filter(|(name, queue)| may_go(name) && is_ready(queue));
        let (name, queue) = ready.min_by_key(|(name, queue)| {
            (*name != ALARM_QUEUE, queue.attempts > 0, queue.waiting.front().map(|one| one.number))
        })?;
        let batch_max = if *name == DEAD_LETTER_QUEUE { 1 } else { batch_max.max(1) };
        let count = queue.batch_max.unwrap_or(batch_max).clamp(1, batch_max).min(queue.waiting.len());
        queue.in_flight = Arc::new(queue.waiting.drain(..count).collect());
        Some(Batch { queue: name.clone(), messages: queue.in_flight.clone(), attempts: queue.attempts })
    }

    /// When a queue that failed may be tried again.
    pub(super) fn next_retry(&self) -> Option<Duration> {
        let failed = self.queues.values().filter(|queue| queue.in_flight.is_empty() && queue.attempts > 0);
        failed.filter(|queue| !queue.waiting.is_empty()).map(|queue| queue.retry_at).min()
    }

    /// The first messages of a batch have been dealt with, for good.
    pub(super) fn settle(&mut self, name: &str, count: usize) {
        let Some(queue) = self.queues.get_mut(name) else { return };
        self.messages -= queue.land(count);
        if count > 0 {
            (queue.attempts, queue.retry_at) = (0, Duration::ZERO);
        }
        if queue.waiting.is_empty() && queue.overflow.is_none() {
            self.queues.remove(name);
        }
    }

    /// The rest of a batch was not delivered: it is tried again at that time.
    pub(super) fn retry(&mut self, name: &str, at: Duration) {
        if let Some(queue) = self.queues.get_mut(name) {
            queue.land(0);
            queue.attempts = queue.attempts.saturating_add(1);
            queue.retry_at = at;
        }
    }

    /// The receiver found a batch of that many too large.
    pub(super) fn halve_batches(&mut self, name: &str, count: usize) {
        if let Some(queue) = self.queues.get_mut(name) {
            queue.batch_max = Some((count / 2).max(1));
        }
    }

    /// Whether something has failed and was not delivered since.
    pub(super) fn is_failing(&self) -> bool {
        self.queues.values().any(|queue| queue.attempts > 0)
    }

    /// Whether a queue has nothing any more.
    pub(super) fn is_empty(&self, name: &str) -> bool {
        self.queues.get(name).is_none_or(|queue| queue.first_open().is_none())
    }

    /// Everything up to this number has been dealt with, in all queues.
    pub(super) fn settled(&self) -> u64 {
        let (position, behind) = self.cursor();
        behind.values().copied().min().unwrap_or(position).min(position)
    }

    /// Everything is tried at once, as if nothing had failed before.
    pub(super) fn forget_failures(&mut self) {
        for queue in self.queues.values_mut() {
            (queue.attempts, queue.retry_at) = (0, Duration::ZERO);
        }
    }

    /// Up to where everything has been dealt with, and which queues are behind that.
    pub(super) fn cursor(&self) -> (u64, BTreeMap<String, u64>) {
        let position = self.read.max(self.position);
        let mut behind = BTreeMap::new();
        for (name, queue) in self.queues.iter().filter(|(name, _)| *name != DEAD_LETTER_QUEUE) {
            if let Some(first) = queue.first_open() {
                behind.insert(name.clone(), first - 1);
            }
        }
        // What has not been read again yet is as the cursor said it before.
        for (name, settled) in &self.behind {
            if self.read < self.position && !behind.contains_key(name) && *settled < self.position {
                let read_again = self.read.max(*settled);
                behind.insert(name.clone(), read_again);
            }
        }
        (position, behind)
    }
}

#[cfg(test)]
mod tests;
