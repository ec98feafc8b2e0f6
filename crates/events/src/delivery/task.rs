//! The task of one destination: it holds the work on one node at a time, reads the outbox behind the cursor, sends, and saves how far
//! it has come.
//!
//! *At least once:* the cursor is saved after a delivery, so what was delivered since is delivered again when this node ends in
//! between, under the same ids. *In order:* a queue has one attempt in flight at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anteroom_core::{Event, EventClass, UnixMillis};
use anteroom_store::clock::Stopwatch;
use anteroom_store::contract::events_max;
use anteroom_store::{Cursor, OutboxState, StoreError};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::note::{DEAD_LETTERS_MAX, Note, StoredDeadLetter};
use super::queues::{Batch, DEAD_LETTER_QUEUE, Queues, queue_of};
use super::schedule::pause_after;
use super::{Common, LAGGING_PERCENT, Live};
use crate::destination::{Destination, DestinationState};
use crate::message::EventMessage;
use crate::status::DestinationStatus;
use crate::transport::{SendFailure, Transport};

/// How long a node has the work of a destination unless it goes on with it.
pub(super) const LEASE: Duration = Duration::from_secs(6);
/// How often it goes on with it.
const LEASE_RENEWAL: Duration = Duration::from_secs(2);
/// How often a node asks that does not have it.
const LEASE_WAIT: Duration = Duration::from_secs(1);
/// How often a cursor is saved at most.
const SAVE_INTERVAL: Duration = Duration::from_millis(200);
/// How often the outbox is looked at although nobody said that there is more.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often it is looked at at most: what comes meanwhile is read, and sent, together.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// How many pages are read before everything else has its turn.
const PAGES_PER_TURN: usize = 4;
/// How many events are read at a time.
const PAGE: usize = 500;
/// How many attempts of one destination are in flight, each of another queue.
const IN_FLIGHT_MAX: usize = 16;
/// How long attempts in flight are waited for when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a task stopped holding the work.
enum Release {
    /// Another node has it.
    Lost,
    /// The outbox is another one, or numbers were taken back: the cursor has to be read again.
    Reload,
    /// The destination is deleted.
    Deleted,
    /// The server stops.
    Over,
}

/// What a holder waited for.
enum Wake {
    Finished(Attempt),
    Growth,
    Redefined,
    Release(Release),
    Time,
}

/// What became of an attempt.
struct Attempt {
    batch: Batch,
    outcome: Result<(), SendFailure>,
}

/// The task of one destination.
pub(super) struct DestinationTask {
    pub(super) common: Arc<Common>,
    /// What operators say of it; closed when it is deleted.
    pub(super) definition: watch::Receiver<Arc<Destination>>,
    pub(super) growth: watch::Receiver<u64>,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) live: Arc<Live>,
}

/// What a holder of the work has.
struct Holder {
    destination: Arc<Destination>,
    transport: Result<Arc<dyn Transport>, String>,
    outbox: OutboxState,
    queues: Queues,
    note: Note,
    /// What was saved last.
    saved: (Cursor, Note),
    attempts: JoinSet<Attempt>,
    since_start: Stopwatch,
    renewed_at: Duration,
    saved_at: Duration,
    /// When the outbox is looked at next.
    look_at: Duration,
    looked_at: Duration,
    /// Whether there is more to read at once.
    has_more: bool,
    /// When the oldest event happened that waits and is not in memory.
    oldest_unread: Option<UnixMillis>,
    /// A command about dead letters that is being carried out.
    dead_letter_command: Option<u64>,
    /// When a secret ends that the transport has.
    secrets_end_at: Option<UnixMillis>,
    /// Whether there is no space for another dead letter.
    blocked: bool,
}

impl DestinationTask {
    pub(super) async fn run(mut self) {
        loop {
            let destination = self.definition.borrow().clone();
            let held = self.common.store.hold_work(&destination.key(), self.common.node, LEASE).await;
            if matches!(held, Ok(true)) {
                match self.hold(destination).await {
                    Ok(Release::Over | Release::Deleted) => return,
                    Ok(Release::Lost | Release::Reload) => {}
                    Err(error) => {
                        let name = &self.definition.borrow().name;
                        tracing::debug!(destination = name, %error, "delivery of events interrupted, retrying");
                    }
                }
                self.live.set_holding(false);
            }
            tokio::select! {
                () = tokio::time::sleep(LEASE_WAIT) => {}
                () = self.is_over() => return,
            }
        }
    }

    /// Returns when the destination is deleted or the server stops.
    async fn is_over(&mut self) {
        loop {
            tokio::select! {
                changed = self.definition.changed() => if changed.is_err() { return },
                stopped = self.stop.wait_for(|stopped| *stopped) => { drop(stopped); return }
            }
        }
    }

    /// Delivers for as long as this node has the work.
    async fn hold(&mut self, destination: Arc<Destination>) -> Result<Release, StoreError> {
        let mut holder = self.begin(destination).await?;
        let release = self.deliver(&mut holder).await;
        if matches!(release, Ok(Release::Over)) {
            self.finish(&mut holder).await;
        }
        release
    }

    async fn begin(&self, destination: Arc<Destination>) -> Result<Holder, StoreError> {
        let outbox = self.common.store.outbox().await?;
        let stored = self.common.store.cursor(&destination.key()).await?;
        let cursor = stored.clone().unwrap_or_default();
        let mut note = Note::from_bytes(&cursor.note);
        let is_restored = cursor.incarnation == Cursor::RESTORED;
        let is_of_this_outbox = cursor.incarnation == outbox.incarnation || is_restored;
        let (position, behind) = match &stored {
            Some(_) if is_of_this_outbox => (cursor.position, cursor.behind.clone()),
            None if destination.begins_after <= outbox.last => (destination.begins_after, BTreeMap::new()),
            // The store has been emptied since: whatever is there now is new.
            _ => (0, BTreeMap::new()),
        };
        if stored.is_none() || !is_of_this_outbox || is_restored {
            note.dropped = EventClass::ALL.map(|class| outbox.dropped(class).count);
        }
        note.node = self.common.node_text();
        let transport = self.common.transport_of(&destination);
        let secrets_end_at = self.common.secrets_end_at(&destination.name);
        let since_start = Stopwatch::start();
        Ok(Holder {
            transport,
            outbox,
            queues: Queues::begin(position, behind),
            saved: (cursor, Note::default()),
            note,
            destination,
            attempts: JoinSet::new(),
            since_start,
            renewed_at: Duration::ZERO,
            saved_at: Duration::ZERO,
            look_at: Duration::ZERO,
            looked_at: Duration::ZERO,
            has_more: false,
            oldest_unread: None,
            dead_letter_command: None,
            secrets_end_at,
            blocked: false,
        })
    }

    async fn deliver(&mut self, holder: &mut Holder) -> Result<Release, StoreError> {
        self.live.set_holding(true);
        loop {
            if let Some(release) = self.keep_up(holder).await? {
                return Ok(release);
            }
            Self::carry_out_commands(holder);
            let is_active = holder.destination.state == DestinationState::Active;
            holder.has_more = false;
            if is_active {
                self.read_more(holder).await?;
                self.start_attempts(holder);
            }
            self.live.set(self.status_of(holder));
            if !self.save_if_due(holder).await? {
                return Ok(Release::Lost);
            }
            match self.wait(holder, is_active).await {
                Wake::Finished(attempt) => self.finish_attempt(holder, attempt).await,
                Wake::Growth => holder.look_at = holder.look_at.min(holder.looked_at + LOOK_PAUSE),
                Wake::Redefined => self.redefine(holder),
                Wake::Release(release) => return Ok(release),
                Wake::Time => {}
            }
        }
    }

    /// Waits until there is something to do.
    async fn wait(&mut self, holder: &mut Holder, is_active: bool) -> Wake {
        let pause = holder.pause(is_active);
        let awaits_growth = is_active && holder.look_at > holder.looked_at + LOOK_PAUSE;
        tokio::select! {
            Some(finished) = holder.attempts.join_next() => finished.map_or(Wake::Time, Wake::Finished),
            // The sender is gone with the server.
            grown = self.growth.changed(), if awaits_growth => {
                grown.map_or(Wake::Release(Release::Over), |()| Wake::Growth)
            }
            changed = self.definition.changed() => {
                changed.map_or(Wake::Release(Release::Deleted), |()| Wake::Redefined)
            }
            stopped = self.stop.wait_for(|stopped| *stopped) => {
                drop(stopped);
                Wake::Release(Release::Over)
            }
            () = tokio::time::sleep(pause) => Wake::Time,
        }
    }

    /// Goes on with the work, and looks how far the outbox has come.
    async fn keep_up(&self, holder: &mut Holder) -> Result<Option<Release>, StoreError> {
        let now = holder.since_start.elapsed();
        if now >= holder.renewed_at + LEASE_RENEWAL {
            if !self.common.store.hold_work(&holder.destination.key(), self.common.node, LEASE).await? {
                return Ok(Some(Release::Lost));
            }
            holder.renewed_at = now;
        }
        if holder.secrets_end_at.is_some_and(|end| end <= self.common.now()) {
            self.renew_transport(holder);
        }
        if now >= holder.look_at {
            let outbox = self.common.store.outbox().await?;
            (holder.looked_at, holder.look_at) = (now, now + LOOK_INTERVAL);
            let identity = |outbox: &OutboxState| (outbox.incarnation, outbox.history);
            let is_another = identity(&outbox) != identity(&holder.outbox);
            holder.outbox = outbox;
            if is_another {
                return Ok(Some(Release::Reload));
            }
            holder.oldest_unread = None;
            let read = holder.queues.read();
            if holder.queues.waiting() == 0 && read < outbox.last {
                let next = self.common.store.events(read, 1).await?;
                holder.oldest_unread = next.first().map(|(_, stored)| stored.at);
            }
            Self::note_dropped(holder);
            self.warn_if_lagging(holder).await;
        }
        Ok(None)
    }

    /// Counts what was dropped from the outbox before it was delivered.
    fn note_dropped(holder: &mut Holder) {
        let kinds = holder.destination.kinds();
        for (index, class) in EventClass::ALL.into_iter().enumerate() {
            let dropped = holder.outbox.dropped(class);
            let new = dropped.count.saturating_sub(holder.note.dropped[index]);
            holder.note.dropped[index] = dropped.count;
            let is_wanted = kinds.iter().any(|kind| kind.class() == class);
            let unread = dropped.through.saturating_sub(holder.queues.settled());
            if is_wanted && new > 0 && unread > 0 {
                let missed = new.min(unread);
                holder.note.missed += missed;
                let name = &holder.destination.name;
                tracing::error!(destination = name, missed, "events dropped before they were delivered");
            }
        }
    }

    /// Tells, once, that events may be dropped before they are delivered.
    async fn warn_if_lagging(&self, holder: &mut Holder) {
        let behind = holder.outbox.last.saturating_sub(holder.queues.settled());
        let kinds = holder.destination.kinds();
        let kept =
            EventClass::ALL.into_iter().filter(|&class| kinds.iter().any(|kind| kind.class() == class));
        let kept = kept.map(events_max).min().unwrap_or(u64::MAX);
        let by_number = behind > kept / 100 * LAGGING_PERCENT;
        let age = holder.oldest().map_or(0, |oldest| self.common.now().since(oldest));
        let by_age = age > self.common.kept_millis / 100 * LAGGING_PERCENT;
        let is_lagging = by_number || by_age;
        if is_lagging && !holder.note.is_lagging {
            let name = holder.destination.name.clone();
            tracing::warn!(
                destination = name,
                behind,
                "destination lagging, events may be dropped before delivery"
            );
            self.common.tell(Event::DestinationLagging { name, behind }).await;
        }
        holder.note.is_lagging = is_lagging;
    }

    /// Does what operators asked for since.
    fn carry_out_commands(holder: &mut Holder) {
        let replay = holder.destination.replay.clone();
        if let Some(replay) = replay.filter(|replay| replay.number > holder.note.replay) {
            holder.attempts = JoinSet::new();
            let (position, mut behind) = holder.queues.cursor();
            // What still waits from before that number goes on waiting.
            behind.retain(|_, settled| *settled < replay.after);
            holder.queues = Queues::begin(replay.after.min(position), behind);
            holder.note.replay = replay.number;
            holder.dead_letter_command = None;
            tracing::info!(destination = holder.destination.name, after = replay.after, "replaying events");
        }
        let command = holder.destination.dead_letters.clone();
        let command = command.filter(|command| command.number > holder.note.dead_letter_command);
        if let Some(command) = command.filter(|command| holder.dead_letter_command != Some(command.number)) {
            if command.is_replay {
                if holder.dead_letter_command.is_none() {
                    let letters = holder.note.dead_letters.iter().filter_map(StoredDeadLetter::message);
                    holder.queues.push_dead_letters(letters.collect::<Vec<_>>());
                }
                holder.dead_letter_command = Some(command.number);
            } else {
                holder.note.dead_letters.clear();
                holder.note.dead_letter_command = command.number;
            }
            holder.queues.forget_failures();
        }
        if holder.queues.is_empty(DEAD_LETTER_QUEUE)
            && let Some(number) = holder.dead_letter_command.take()
        {
            holder.note.dead_letter_command = number;
        }
        holder.blocked &= holder.note.dead_letters.len() >= DEAD_LETTERS_MAX;
    }

    /// Takes note of what operators have changed, secrets among it. Attempts in flight go on.
    fn redefine(&mut self, holder: &mut Holder) {
        let before = std::mem::replace(&mut holder.destination, self.definition.borrow_and_update().clone());
        self.renew_transport(holder);
        let after = &holder.destination;
        if before.rooms != after.rooms || before.types != after.types {
            // What is in memory was chosen by other filters.
            holder.attempts = JoinSet::new();
            let (position, behind) = holder.queues.cursor();
            holder.queues = Queues::begin(position, behind);
            holder.dead_letter_command = None;
        }
        if before != *after {
            holder.queues.forget_failures();
        }
    }

    fn renew_transport(&self, holder: &mut Holder) {
        holder.transport = self.common.transport_of(&holder.destination);
        holder.secrets_end_at = self.common.secrets_end_at(&holder.destination.name);
    }

    async fn read_more(&self, holder: &mut Holder) -> Result<(), StoreError> {
        let mut pages = 0;
        while let Some((queue, after)) = holder.queues.to_refill() {
            if pages == PAGES_PER_TURN {
                holder.has_more = true;
                return Ok(());
            }
            pages += 1;
            let events = self.common.store.events(after, PAGE).await?;
            let through = if events.len() < PAGE { holder.queues.read() } else { last_of(&events, after) };
            let of_queue =
                holder.wanted(&events).filter(|message| queue_of(message) == queue).collect::<Vec<_>>();
            holder.queues.refill(&queue, of_queue, through);
        }
        let now = holder.since_start.elapsed();
        while holder.queues.read() < holder.outbox.last && holder.queues.wants_more(now) {
            if pages == PAGES_PER_TURN {
                holder.has_more = true;
                return Ok(());
            }
            pages += 1;
            let after = holder.queues.read();
            let events = self.common.store.events(after, PAGE).await?;
            // What is behind the last one that was looked up may not be there yet for every reader.
            let through = if events.len() < PAGE {
                holder.outbox.last.max(last_of(&events, after))
            } else {
                last_of(&events, after)
            };
            let wanted: Vec<EventMessage> = holder.wanted(&events).collect();
            holder.queues.take_in(wanted, through);
        }
        Ok(())
    }

    fn start_attempts(&self, holder: &mut Holder) {
        let now = holder.since_start.elapsed();
        let transport = match &holder.transport {
            Ok(transport) => transport.clone(),
            Err(reason) => {
                if holder.queues.waiting() > 0 {
                    holder.note.last_error = Some(reason.clone());
                    holder.note.failing_since.get_or_insert(self.common.now().0);
                }
                return;
            }
        };
        // One place beyond the limit is for alarms.
        while holder.attempts.len() <= IN_FLIGHT_MAX {
            let alarms_only = holder.attempts.len() == IN_FLIGHT_MAX;
            let batch = holder.queues.next_batch(now, transport.batch_max(), alarms_only);
            let Some(batch) = batch else { return };
            let transport = transport.clone();
            holder.attempts.spawn(async move {
                let outcome = transport.send(&batch.messages).await;
                Attempt { batch, outcome }
            });
        }
    }

    /// Takes note of what became of an attempt.
    async fn finish_attempt(&self, holder: &mut Holder, attempt: Attempt) {
        let Attempt { batch, outcome } = attempt;
        let count = batch.messages.len();
        let delivered = outcome.as_ref().map_or_else(|failure| failure.delivered.min(count), |()| count);
        let now = self.common.now();
        self.live.count(delivered as u64, u64::from(outcome.is_err()));
        if delivered > 0 {
            holder.note.delivered += delivered as u64;
            holder.note.last_delivered_at = Some(now.0);
            holder.queues.settle(&batch.queue, delivered);
            if batch.queue == DEAD_LETTER_QUEUE {
                let sent = &batch.messages[..delivered];
                holder.note.dead_letters.retain(|letter| !sent.iter().any(|message| letter.is_of(message)));
            }
        }
        let Err(failure) = outcome else {
            if !holder.queues.is_failing() {
                (holder.note.failing_since, holder.note.last_error) = (None, None);
            }
            return;
        };
        let name = holder.destination.name.clone();
        if holder.note.failing_since.is_none() {
            tracing::warn!(destination = name, reason = failure.reason, "delivery failed, retrying");
            holder.note.failing_since = Some(now.0);
        }
        holder.note.last_error = Some(failure.reason.clone());
        if failure.is_gone {
            self.common.disable(&name, &failure.reason).await;
        }
        if failure.is_too_large && count > 1 {
            holder.queues.halve_batches(&batch.queue, count);
            holder.queues.retry(&batch.queue, Duration::ZERO);
            return;
        }
        let attempts = if delivered > 0 { 1 } else { batch.attempts + 1 };
        let first = &batch.messages[delivered];
        let is_over = first.at.plus(millis(holder.destination.give_up_after)) <= now;
        if is_over && !failure.is_gone && self.give_up(holder, &batch, delivered, attempts, &failure) {
            return;
        }
        let pause = pause_after(&holder.destination, attempts, failure.retry_after);
        holder.queues.retry(&batch.queue, holder.since_start.elapsed() + pause);
    }

    /// Makes dead letters of the messages of a batch whose time is over; says whether there was space for all of them.
    fn give_up(
        &self,
        holder: &mut Holder,
        batch: &Batch,
        delivered: usize,
        attempts: u32,
        failure: &SendFailure,
    ) -> bool {
        let now = self.common.now();
        let oldest = now.0.saturating_sub(millis(holder.destination.give_up_after));
        let over = batch.messages[delivered..].iter().take_while(|message| message.at.0 <= oldest);
        let mut given_up = 0;
        for message in over {
            let with_request_id = holder.destination.with_request_ids;
            let letter = StoredDeadLetter::of(message, (now, attempts), &failure.reason, with_request_id);
            let letters = &mut holder.note.dead_letters;
            if let Some(known) = letters.iter_mut().find(|known| known.is_of(message)) {
                *known = letter;
            } else if letters.len() < DEAD_LETTERS_MAX {
                letters.push(letter);
            } else {
                if !holder.blocked {
                    let name = &holder.destination.name;
                    tracing::error!(
                        destination = name,
                        "too many dead letters, what fails is retried without end"
                    );
                }
                holder.blocked = true;
                break;
            }
            given_up += 1;
        }
        holder.queues.settle(&batch.queue, given_up);
        given_up == batch.messages.len() - delivered
    }

    fn status_of(&self, holder: &Holder) -> DestinationStatus {
        let (position, behind) = holder.queues.cursor();
        let unread = holder.outbox.last.saturating_sub(holder.queues.read());
        let note = &holder.note;
        let oldest = holder.oldest();
        DestinationStatus {
            lag_events: holder.queues.waiting() as u64 + unread,
            lag_seconds: oldest.map_or(0, |oldest| self.common.now().since(oldest) / 1000),
            delivered: note.delivered,
            last_delivered_at: note.last_delivered_at.map(UnixMillis),
            failing_since: note.failing_since.map(UnixMillis),
            last_error: note.last_error.clone(),
            next_attempt_at: note.next_attempt_at.map(UnixMillis),
            dead_letters: note.dead_letters.len() as u64,
            missed: note.missed,
            is_blocked: holder.blocked,
            node: Some(note.node.clone()),
            position: behind.values().copied().min().unwrap_or(position).min(position),
        }
    }

    /// Saves how far it has come, if it has; says whether this node still has the work.
    async fn save_if_due(&self, holder: &mut Holder) -> Result<bool, StoreError> {
        let now = holder.since_start.elapsed();
        holder.note.oldest_at = holder.oldest().map(|oldest| oldest.0);
        holder.note.next_attempt_at = holder
            .queues
            .next_retry()
            .map(|at| self.common.now().plus(millis(at.saturating_sub(now))).0)
            .filter(|_| holder.note.failing_since.is_some());
        let is_first = holder.saved_at == Duration::ZERO;
        if !is_first && now < holder.saved_at + SAVE_INTERVAL {
            return Ok(true);
        }
        self.save(holder).await
    }

    async fn save(&self, holder: &mut Holder) -> Result<bool, StoreError> {
        let (position, behind) = holder.queues.cursor();
        let is_same = (position, &behind) == (holder.saved.0.position, &holder.saved.0.behind);
        // When the next attempt is made is no reason to write.
        let unsaid = Note { next_attempt_at: None, oldest_at: None, ..holder.note.clone() };
        if is_same && unsaid == holder.saved.1 {
            return Ok(true);
        }
        let incarnation = holder.outbox.incarnation;
        let cursor = Cursor { position, behind, incarnation, note: holder.note.to_bytes() };
        let (key, history) = (holder.destination.key(), holder.outbox.history);
        if !self.common.store.save_cursor(&key, self.common.node, history, &cursor).await? {
            return Ok(false);
        }
        holder.saved = (cursor, unsaid);
        holder.saved_at = holder.since_start.elapsed().max(Duration::from_nanos(1));
        Ok(true)
    }

    /// Waits a moment for what is in flight, saves, and lets another node go on at once.
    async fn finish(&self, holder: &mut Holder) {
        let settling = async {
            while let Some(finished) = holder.attempts.join_next().await {
                if let Ok(Attempt { batch, outcome }) = finished {
                    let count = batch.messages.len();
                    let delivered = outcome.map_or_else(|failure| failure.delivered.min(count), |()| count);
                    holder.note.delivered += delivered as u64;
                    holder.queues.settle(&batch.queue, delivered);
                }
            }
        };
        let _ = tokio::time::timeout(STOP_TIMEOUT, settling).await;
        let key = holder.destination.key();
        let saved = self.save(holder).await;
        if matches!(saved, Ok(true)) {
            let _ = self.common.store.hold_work(&key, self.common.node, Duration::from_millis(1)).await;
        }
    }
}

impl Holder {
    /// Those of these events that the destination gets.
    fn wanted<'a>(
        &self,
        events: &'a [(u64, anteroom_store::StoredEvent)],
    ) -> impl Iterator<Item = EventMessage> + use<'a> {
        let (kinds, destination) = (self.destination.kinds(), self.destination.clone());
        let is_wanted = move |stored: &anteroom_store::StoredEvent| {
            kinds.contains(stored.event.kind()) && destination.covers(stored.room.as_ref())
        };
        let wanted = events.iter().filter(move |(_, stored)| is_wanted(stored));
        wanted.map(|(number, stored)| EventMessage::of(*number, stored))
    }

    /// When the oldest event happened that waits.
    fn oldest(&self) -> Option<UnixMillis> {
        self.queues.oldest().into_iter().chain(self.oldest_unread).min()
    }

    /// How long nothing has to be done by itself.
    fn pause(&self, is_active: bool) -> Duration {
        if self.has_more {
            return Duration::ZERO;
        }
        let now = self.since_start.elapsed();
        let renewal = self.renewed_at + LEASE_RENEWAL;
        let can_start = is_active && self.transport.is_ok() && self.attempts.len() < IN_FLIGHT_MAX;
        let retry = self.queues.next_retry().filter(|_| can_start);
        let is_unsaved = self.queues.cursor() != (self.saved.0.position, self.saved.0.behind.clone());
        let save = is_unsaved.then_some(self.saved_at + SAVE_INTERVAL);
        let next = [Some(renewal), Some(self.look_at), retry, save].into_iter().flatten().min();
        next.unwrap_or(renewal).saturating_sub(now).max(Duration::from_millis(1))
    }
}

fn last_of(events: &[(u64, anteroom_store::StoredEvent)], otherwise: u64) -> u64 {
    events.last().map_or(otherwise, |(number, _)| *number)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
