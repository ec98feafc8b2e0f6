//! Events and audit records: each is written with its commit, beside the room, and gets its number later, in one place for all.
//!
//! Numbers must rise for a reader that continues behind the last one it has seen. Were they handed out before the
//! commits, a slow commit would come in behind a faster one with a later number, and its events would never be read. So
//! a commit only adds its records as pending, with the time in microseconds; every reader of the outbox or the audit
//! first collects the pending ones, in that order. Each record is collected once, or, where a failover lost the memory
//! of it, twice.

use std::time::Duration;

use anteroom_core::{EventClass, RoomId};
use redis::Value;

use super::command::{
    APPEND_EVENTS, COLLECT, Command, CommandTimeout, DROP_EVENTS, HOLD_WORK, Intent, RECORDS, SAVE_CURSOR,
};
use super::keys::{KeyScope, Keys};
use super::poll::fold;
use super::reply::{Parts, read, strange};
use super::rooms::kind_of;
use super::values::StoreState;
use super::{ContentResult, Inner};
use crate::codec;
use crate::contract::{
    AUDIT_MAX, AuditRecord, Cursor, DroppedEvents, NodeId, OutboxState, ROOM_EVENTS_MAX, StoreError,
    StoredEvent, VISITOR_EVENTS_MAX,
};

/// How many records are read, or numbered, at a time; from all scopes together.
const PAGE: usize = 5_000;
/// How many are read from one scope at least.
const PAGE_MIN: usize = 50;
/// How many pending records a poll tolerates.
pub(super) const PENDING_RECORDS_MAX: u64 = 1_000;

/// When a record was written: microseconds, and a number within one.
type RecordId = (u64, u64);

/// A pending record.
struct PendingRecord {
    id: RecordId,
    /// Index of the scope it comes from.
    from: usize,
    kind: String,
    bytes: Vec<u8>,
}

/// The pending records of one room, or of the store.
struct PendingPage {
    lineage: String,
    /// Whether there is more than one page of it.
    has_more: bool,
}

impl Inner {
    /// Gives all pending records their numbers.
    pub(super) async fn collect(&self, keys: &Keys) -> ContentResult<()> {
        let _one_at_a_time = self.collecting.lock().await;
        let mut scopes = vec![KeyScope::Store];
        scopes.extend(self.names(keys).await?.into_iter().map(KeyScope::Room));
        while !scopes.is_empty() {
            let (found, mut pending) = self.read_pending(keys, &scopes).await?;
            // Beyond the last one of a page that was cut there may be earlier ones.
            let cut = pending.iter().filter(|record| found[record.from].has_more);
            let mut last_of_page: Vec<Option<RecordId>> = vec![None; scopes.len()];
            for record in cut {
                last_of_page[record.from] = last_of_page[record.from].max(Some(record.id));
            }
            if let Some(limit) = last_of_page.into_iter().flatten().min() {
                pending.retain(|record| record.id <= limit);
            }
            pending.sort_by_key(|record| (record.id, record.from));
            if self.number_them(keys, &scopes, &found, &pending).await?.is_none() {
                return Ok(None);
            }
            // Those that the server's clock has not come to yet are left for the next time.
            if pending.is_empty() || !found.iter().any(|found| found.has_more) {
                break;
            }
        }
        Ok(Some(()))
    }

    /// Reads a page from each scope, up to one moment.
    async fn read_pending(
        &self,
        keys: &Keys,
        scopes: &[KeyScope],
    ) -> Result<(Vec<PendingPage>, Vec<PendingRecord>), StoreError> {
        // What is written after this moment may be seen in one scope while something before it was not yet seen in another.
        let time = |scope: &KeyScope| Command::plain(scope, "TIME");
        let topology = self.connections.topology();
        let page = (PAGE / scopes.len()).max(PAGE_MIN);
        let mut shards: Vec<Option<usize>> = vec![];
        let mut commands: Vec<Command> = vec![];
        for scope in scopes {
            let shard = topology.index_of(scope.slot());
            if !shards.contains(&shard) {
                shards.push(shard);
                commands.push(time(scope));
            }
        }
        for scope in scopes {
            let command = Command::script(scope, &RECORDS).key(keys.records(scope));
            commands.push(command.arg(self.may_ask()).arg(page));
        }
        let mut answers =
            self.connections.all(&commands, Intent::Read, CommandTimeout::Long).await?.into_iter();
        let mut moments = vec![];
        for answer in answers.by_ref().take(shards.len()) {
            let (seconds, micros): (u64, u64) = read(answer)?;
            moments.push(seconds * 1_000_000 + micros);
        }
        let (mut found, mut pending) = (vec![], vec![]);
        for ((from, scope), answer) in scopes.iter().enumerate().zip(answers) {
            let shard = topology.index_of(scope.slot());
            let moment =
                shards.iter().position(|known| *known == shard).map_or(u64::MAX, |index| moments[index]);
            let mut parts = Parts::of(answer)?;
            let lineage = parts.next()?;
            let entries = parts.rest();
            found.push(PendingPage { lineage, has_more: entries.len() == page });
            for entry in entries {
                let record = pending_record_of(from, entry)?;
                if record.id.0 <= moment {
                    pending.push(record);
                }
            }
        }
        Ok((found, pending))
    }

    /// Puts records into the outbox and the audit, in this order, and deletes the pending ones.
    async fn number_them(
        &self,
        keys: &Keys,
        scopes: &[KeyScope],
        found: &[PendingPage],
        pending: &[PendingRecord],
    ) -> ContentResult<()> {
        for page in pending.chunks(PAGE) {
            let command =
                Command::script(&KeyScope::Store, &COLLECT).key(keys.content_number()).key(keys.events());
            let command = command.key(keys.audit()).key(keys.collected()).key(keys.numbers());
            let command = command.key(keys.visitor_events()).arg(keys.content()).arg(ROOM_EVENTS_MAX);
            let mut command = command.arg(AUDIT_MAX).arg(VISITOR_EVENTS_MAX);
            let mut last = vec![None; scopes.len()];
            for record in page {
                last[record.from] = Some(record.id);
                command.push(scopes[record.from].name());
                command.push(&found[record.from].lineage);
                command.push(format!("{}-{}", record.id.0, record.id.1));
                command.push(&record.kind);
                command.push(&record.bytes);
            }
            let mut answers = self.connections.all(&[command], Intent::Read, CommandTimeout::Long).await?;
            let mut parts = Parts::of(answers.pop().ok_or_else(strange)?)?;
            if parts.next::<i64>()? != 1 {
                return Ok(None);
            }
            let last = scopes.iter().zip(last).filter_map(|(scope, last)| Some((scope, last?)));
            let trim = |(scope, (time, sequence)): (&KeyScope, RecordId)| {
                let command = Command::plain(scope, "XTRIM").arg(keys.records(scope)).arg("MINID").arg("=");
                command.arg(format!("{time}-{}", sequence + 1))
            };
            let commands: Vec<Command> = last.map(trim).collect();
            self.connections.all(&commands, Intent::Read, CommandTimeout::Long).await?;
        }
        Ok(Some(()))
    }

    pub(super) async fn events(
        &self,
        keys: &Keys,
        after: u64,
        limit: usize,
    ) -> ContentResult<Vec<(u64, StoredEvent)>> {
        if self.collect(keys).await?.is_none() {
            return Ok(None);
        }
        // Another node may number more between the two reads: what is behind this number is left for the next time.
        let last = Command::plain(&KeyScope::Store, "HGET").arg(keys.numbers()).arg("events");
        let last: u64 = read::<Option<u64>>(self.connections.one(last, Intent::Read).await?)?.unwrap_or(0);
        let mut events = vec![];
        let mut after = after;
        while events.len() < limit {
            let count = PAGE.min(limit - events.len());
            let page = |class| {
                let command = Command::plain(&KeyScope::Store, "XRANGE").arg(keys.events_of(class));
                command.arg(format!("({after}-0")).arg("+").arg("COUNT").arg(count)
            };
            let mut merged = vec![];
            for class in EventClass::ALL {
                merged.extend(self.read_numbered(page(class)).await?);
            }
            merged.retain(|(number, _)| *number <= last);
            // Each page has the first of its class, so the first of both are among them.
            merged.sort_by_key(|(number, _)| *number);
            let is_last = merged.len() < count;
            merged.truncate(count);
            for (number, bytes) in merged {
                let event = codec::decode_event(number, &self.open_record(&bytes, "event")?);
                events.push((number, event.map_err(|error| StoreError::Permanent(error.to_string()))?));
                after = number;
            }
            if is_last {
                break;
            }
        }
        Ok(self.is_up_to_date(keys).await?.then_some(events))
    }

    pub(super) async fn outbox(&self, keys: &Keys) -> ContentResult<OutboxState> {
        if self.collect(keys).await?.is_none() {
            return Ok(None);
        }
        let fields = ["events", "dropped:e", "count:e", "dropped:v", "count:v"];
        let numbers = Command::plain(&KeyScope::Store, "HMGET").arg(keys.numbers()).arg(&fields);
        let commands = [numbers, self.store_command(keys)];
        let mut answers =
            self.connections.all(&commands, Intent::Read, CommandTimeout::Short).await?.into_iter();
        let [Some(numbers), Some(state)] = [answers.next(), answers.next()] else { return Ok(None) };
        let state = Self::store_state(state)?;
        if !self.take_note(keys, &state).await? {
            return Ok(None);
        }
        let mut parts = Parts::of(numbers)?;
        let mut number = || Ok::<u64, StoreError>(parts.next::<Option<u64>>()?.unwrap_or(0));
        let last = number()?;
        let room = DroppedEvents { through: number()?, count: number()? };
        let visitor = DroppedEvents { through: number()?, count: number()? };
        let (incarnation, history) = (fold(&[state.mark.as_bytes()]), history_of(&state));
        Ok(Some(OutboxState { last, room, visitor, incarnation, history }))
    }

    /// What [`OutboxState::history`] is now.
    pub(super) async fn outbox_history(&self, keys: &Keys) -> ContentResult<u64> {
        let state = Self::store_state(self.connections.one(self.store_command(keys), Intent::Read).await?)?;
        Ok(self.take_note(keys, &state).await?.then(|| history_of(&state)))
    }

    /// A cursor that was sealed, because dead letters may name tickets.
    pub(super) fn open_cursor(&self, sealed: &[u8]) -> Result<Cursor, StoreError> {
        let bytes = self.open_record(sealed, "cursor")?;
        Cursor::from_bytes(&bytes).map_err(|error| StoreError::Permanent(error.to_string()))
    }

    pub(super) async fn append_events(&self, keys: &Keys, events: &[StoredEvent]) -> ContentResult<()> {
        let store = KeyScope::Store;
        let command =
            Command::script(&store, &APPEND_EVENTS).key(keys.content_number()).key(keys.restoring());
        let command = command.key(keys.records(&store)).arg(keys.content());
        let command = self.with_events(command, events);
        done(self.connections.one(command, Intent::Write).await?)
    }

    pub(super) async fn drop_events(&self, keys: &Keys, through: u64) -> ContentResult<()> {
        let command = Command::script(&KeyScope::Store, &DROP_EVENTS).key(keys.content_number());
        let command = command.key(keys.events()).key(keys.visitor_events()).key(keys.numbers());
        let command = command.arg(keys.content()).arg(through.saturating_add(1));
        done(self.connections.one(command, Intent::Read).await?)
    }

    pub(super) async fn hold_work(
        &self,
        keys: &Keys,
        work: &str,
        node: NodeId,
        lease: Duration,
    ) -> Result<bool, StoreError> {
        let command = Command::script(&KeyScope::Store, &HOLD_WORK).key(keys.work(work));
        let millis = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        let command = command.arg(format!("{:x}", node.0)).arg(millis);
        Ok(read::<i64>(self.connections.one(command, Intent::Read).await?)? == 1)
    }

    pub(super) async fn save_cursor(
        &self,
        keys: &Keys,
        name: &str,
        node: NodeId,
        cursor: &Cursor,
    ) -> ContentResult<bool> {
        let command = Command::script(&KeyScope::Store, &SAVE_CURSOR).key(keys.content_number());
        let command = command.key(keys.restoring()).key(keys.values()).key(keys.work(name));
        let command = command.arg(keys.content()).arg(format!("{:x}", node.0));
        let command = command.arg(Cursor::value_name(name)).arg(self.seal_record(&cursor.to_bytes()));
        let mut parts = Parts::of(self.connections.one(command, Intent::Read).await?)?;
        Ok(match parts.next::<i64>()? {
            2 => None,
            saved => Some(saved == 1),
        })
    }

    pub(super) async fn delete_cursor(&self, keys: &Keys, name: &str) -> Result<(), StoreError> {
        let command =
            Command::plain(&KeyScope::Store, "HDEL").arg(keys.values()).arg(Cursor::value_name(name));
        self.connections.one(command, Intent::Read).await.map(drop)
    }

    /// Adds events to a script that ends in records.
    pub(super) fn with_events(&self, mut command: Command, events: &[StoredEvent]) -> Command {
        for event in events {
            command = command.arg(kind_of(event)).arg(self.seal_record(&codec::encode_event(event)));
        }
        command
    }

    pub(super) async fn audit(
        &self,
        keys: &Keys,
        before: Option<u64>,
        room: Option<&RoomId>,
        limit: usize,
    ) -> ContentResult<Vec<(u64, AuditRecord)>> {
        if self.collect(keys).await?.is_none() {
            return Ok(None);
        }
        let mut records = vec![];
        if before == Some(0) {
            return Ok(Some(records));
        }
        let mut before = before.map_or_else(|| "+".to_owned(), |before| format!("({before}-0"));
        while records.len() < limit {
            let command =
                Command::plain(&KeyScope::Store, "XREVRANGE").arg(keys.audit()).arg(&before).arg("-");
            let page = self.read_numbered(command.arg("COUNT").arg(PAGE)).await?;
            let is_last = page.len() < PAGE;
            for (number, bytes) in page {
                before = format!("({number}-0");
                let record = codec::decode_audit(&self.open_record(&bytes, "audit record")?);
                let record = record.map_err(|error| StoreError::Permanent(error.to_string()))?;
                if records.len() < limit && (room.is_none() || record.room.as_ref() == room) {
                    records.push((number, record));
                }
            }
            if is_last {
                break;
            }
        }
        Ok(self.is_up_to_date(keys).await?.then_some(records))
    }

    /// Numbered records as a server lists them.
    async fn read_numbered(&self, command: Command) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let mut answers = self.connections.all(&[command], Intent::Read, CommandTimeout::Long).await?;
        let entries: Vec<Value> = read(answers.pop().ok_or_else(strange)?)?;
        let numbered = |entry: Value| {
            let record = pending_record_of(0, entry)?;
            Ok((record.id.0, record.bytes))
        };
        entries.into_iter().map(numbered).collect()
    }
}

fn history_of(state: &StoreState) -> u64 {
    fold(&[&state.lineage.0.to_be_bytes()[..], &state.content.to_be_bytes()[..]])
}

/// What a script answers that did it, unless the content is another.
fn done(answer: Value) -> ContentResult<()> {
    Ok((Parts::of(answer)?.next::<i64>()? == 1).then_some(()))
}

/// An entry of a stream: its id, and one field with its value.
fn pending_record_of(from: usize, entry: Value) -> Result<PendingRecord, StoreError> {
    let mut parts = Parts::of(entry)?;
    let id: String = parts.next()?;
    let mut fields = Parts::of(parts.next_value()?)?;
    let (kind, bytes) = (fields.next()?, fields.next()?);
    let (time, sequence) = id.split_once('-').ok_or_else(strange)?;
    let id = (time.parse().map_err(|_| strange())?, sequence.parse().map_err(|_| strange())?);
    Ok(PendingRecord { id, from, kind, bytes })
}
