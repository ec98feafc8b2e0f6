//! Events and audit records: each is written with its commit, beside the room, and gets its number later, in one place for all.
//!
//! Numbers must rise for whoever reads behind the last one he has seen. Were they handed out before the commits, a slow
//! commit would come in behind a faster one with a later number, and its events would never be read. So a commit only
//! puts its records on their way, with the time in microseconds; whoever reads the outbox or the audit first collects what is on its
//! way, in that order. Each record is collected once, or, where a failover lost the memory of it, twice.

use anteroom_core::RoomId;
use redis::Value;

use super::command::{COLLECT, Command, Intent, Patience, RECORDS};
use super::keys::{Keys, Place};
use super::reply::{Parts, read, strange};
use super::{Answered, Inner};
use crate::codec;
use crate::contract::{AUDIT_MAX, AuditRecord, OUTBOX_MAX, StoreError, StoredEvent};

/// How many records are read, or numbered, at a time; from all places together.
const PAGE: usize = 5_000;
/// How many are read from one place at least.
const PAGE_MIN: usize = 50;
/// How many records on their way a glance lets pass.
pub(super) const ON_THEIR_WAY_MAX: u64 = 1_000;

/// When a record was written: microseconds, and a number within one.
type RecordId = (u64, u64);

/// A record on its way.
struct Moving {
    id: RecordId,
    /// Index of the place it comes from.
    from: usize,
    kind: String,
    bytes: Vec<u8>,
}

/// What was found on its way at one place.
struct Found {
    lineage: String,
    /// Whether there is more than one page of it.
    has_more: bool,
}

impl Inner {
    /// Gives everything that is on its way its number.
    pub(super) async fn collect(&self, keys: &Keys) -> Answered<()> {
        let _one_at_a_time = self.collecting.lock().await;
        let mut places = vec![Place::Store];
        places.extend(self.names(keys).await?.into_iter().map(Place::Room));
        while !places.is_empty() {
            let (found, mut moving) = self.on_their_way(keys, &places).await?;
            // Beyond the last one of a page that was cut there may be earlier ones.
            let cut = moving.iter().filter(|record| found[record.from].has_more);
            let mut last_of_page: Vec<Option<RecordId>> = vec![None; places.len()];
            for record in cut {
                last_of_page[record.from] = last_of_page[record.from].max(Some(record.id));
            }
            if let Some(limit) = last_of_page.into_iter().flatten().min() {
                moving.retain(|record| record.id <= limit);
            }
            moving.sort_by_key(|record| (record.id, record.from));
            if self.number_them(keys, &places, &found, &moving).await?.is_none() {
                return Ok(None);
            }
            // Those that the server's clock has not come to yet are left for the next time.
            if moving.is_empty() || !found.iter().any(|found| found.has_more) {
                break;
            }
        }
        Ok(Some(()))
    }

    /// Reads a page from each place, up to one moment.
    async fn on_their_way(
        &self,
        keys: &Keys,
        places: &[Place],
    ) -> Result<(Vec<Found>, Vec<Moving>), StoreError> {
        // What is written after this moment may be seen at one place while something before it was not yet seen at another.
        let time = |place: &Place| Command::plain(place, "TIME");
        let topology = self.connections.topology();
        let page = (PAGE / places.len()).max(PAGE_MIN);
        let mut shards: Vec<Option<usize>> = vec![];
        let mut commands: Vec<Command> = vec![];
        for place in places {
            let shard = topology.index_of(place.slot());
            if !shards.contains(&shard) {
                shards.push(shard);
                commands.push(time(place));
            }
        }
        for place in places {
            let command = Command::script(place, &RECORDS).key(keys.records(place));
            commands.push(command.arg(self.may_ask()).arg(page));
        }
        let mut answers = self.connections.all(&commands, Intent::Read, Patience::Long).await?.into_iter();
        let mut moments = vec![];
        for answer in answers.by_ref().take(shards.len()) {
            let (seconds, micros): (u64, u64) = read(answer)?;
            moments.push(seconds * 1_000_000 + micros);
        }
        let (mut found, mut moving) = (vec![], vec![]);
        for ((from, place), answer) in places.iter().enumerate().zip(answers) {
            let shard = topology.index_of(place.slot());
            let moment =
                shards.iter().position(|known| *known == shard).map_or(u64::MAX, |index| moments[index]);
            let mut parts = Parts::of(answer)?;
            let lineage = parts.next()?;
            let entries = parts.rest();
            found.push(Found { lineage, has_more: entries.len() == page });
            for entry in entries {
                let record = moving_of(from, entry)?;
                if record.id.0 <= moment {
                    moving.push(record);
                }
            }
        }
        Ok((found, moving))
    }

    /// Puts records into the outbox and the audit, in this order, and forgets that they were on their way.
    async fn number_them(
        &self,
        keys: &Keys,
        places: &[Place],
        found: &[Found],
        moving: &[Moving],
    ) -> Answered<()> {
        for page in moving.chunks(PAGE) {
            let command =
                Command::script(&Place::Store, &COLLECT).key(keys.content_number()).key(keys.events());
            let command = command.key(keys.audit()).key(keys.collected()).key(keys.numbers());
            let mut command = command.arg(keys.content()).arg(OUTBOX_MAX).arg(AUDIT_MAX);
            let mut last = vec![None; places.len()];
            for record in page {
                last[record.from] = Some(record.id);
                command.push(places[record.from].name());
                command.push(&found[record.from].lineage);
                command.push(format!("{}-{}", record.id.0, record.id.1));
                command.push(&record.kind);
                command.push(&record.bytes);
            }
            let mut answers = self.connections.all(&[command], Intent::Read, Patience::Long).await?;
            let mut parts = Parts::of(answers.pop().ok_or_else(strange)?)?;
            if parts.next::<i64>()? != 1 {
                return Ok(None);
            }
            let last = places.iter().zip(last).filter_map(|(place, last)| Some((place, last?)));
            let trim = |(place, (time, sequence)): (&Place, RecordId)| {
                let command = Command::plain(place, "XTRIM").arg(keys.records(place)).arg("MINID").arg("=");
                command.arg(format!("{time}-{}", sequence + 1))
            };
            let commands: Vec<Command> = last.map(trim).collect();
            self.connections.all(&commands, Intent::Read, Patience::Long).await?;
        }
        Ok(Some(()))
    }

    pub(super) async fn events(
        &self,
        keys: &Keys,
        after: u64,
        limit: usize,
    ) -> Answered<Vec<(u64, StoredEvent)>> {
        if self.collect(keys).await?.is_none() {
            return Ok(None);
        }
        let mut events = vec![];
        let mut after = after;
        while events.len() < limit {
            let count = PAGE.min(limit - events.len());
            let command = Command::plain(&Place::Store, "XRANGE").arg(keys.events());
            let command = command.arg(format!("({after}-0")).arg("+").arg("COUNT").arg(count);
            let page = self.numbered(command).await?;
            let is_last = page.len() < count;
            for (number, bytes) in page {
                let event = codec::decode_event(&self.opened(&bytes, "event")?);
                events.push((number, event.map_err(|error| StoreError::Permanent(error.to_string()))?));
                after = number;
            }
            if is_last {
                break;
            }
        }
        Ok(self.is_up_to_date(keys).await?.then_some(events))
    }

    pub(super) async fn audit(
        &self,
        keys: &Keys,
        before: Option<u64>,
        room: Option<&RoomId>,
        limit: usize,
    ) -> Answered<Vec<(u64, AuditRecord)>> {
        if self.collect(keys).await?.is_none() {
            return Ok(None);
        }
        let mut records = vec![];
        if before == Some(0) {
            return Ok(Some(records));
        }
        let mut before = before.map_or_else(|| "+".to_owned(), |before| format!("({before}-0"));
        while records.len() < limit {
            let command = Command::plain(&Place::Store, "XREVRANGE").arg(keys.audit()).arg(&before).arg("-");
            let page = self.numbered(command.arg("COUNT").arg(PAGE)).await?;
            let is_last = page.len() < PAGE;
            for (number, bytes) in page {
                before = format!("({number}-0");
                let record = codec::decode_audit(&self.opened(&bytes, "audit record")?);
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
    async fn numbered(&self, command: Command) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let mut answers = self.connections.all(&[command], Intent::Read, Patience::Long).await?;
        let entries: Vec<Value> = read(answers.pop().ok_or_else(strange)?)?;
        let numbered = |entry: Value| {
            let record = moving_of(0, entry)?;
            Ok((record.id.0, record.bytes))
        };
        entries.into_iter().map(numbered).collect()
    }
}

/// An entry of a stream: its id, and one field with its value.
fn moving_of(from: usize, entry: Value) -> Result<Moving, StoreError> {
    let mut parts = Parts::of(entry)?;
    let id: String = parts.next()?;
    let mut fields = Parts::of(parts.next_value()?)?;
    let (kind, bytes) = (fields.next()?, fields.next()?);
    let (time, sequence) = id.split_once('-').ok_or_else(strange)?;
    let id = (time.parse().map_err(|_| strange())?, sequence.parse().map_err(|_| strange())?);
    Ok(Moving { id, from, kind, bytes })
}
