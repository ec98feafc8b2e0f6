//! The outbox in the embedded store: two tables, numbered together, each with a limit of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anteroom_core::EventClass;
use redb::{ReadTransaction, ReadableTable, ReadableTableMetadata, Table, TableDefinition, WriteTransaction};

use super::Failure;
use super::tables::{OUTBOX, OUTBOX_NUMBERS, VISITOR_EVENTS};
use super::transaction::{EncodedEvent, set_cursor};
use crate::contract::{OutboxState, events_max};

/// How many events of a class one request drops, so that it holds nobody up.
const DROPPED_ROWS_MAX: usize = 5_000;
/// The last number that was given to an event.
const LAST: &str = "last";

/// Events of one class, while they are written.
type EventTable<'a> = Table<'a, u64, &'static [u8]>;
/// How far the outbox has come, while that is written.
type NumberTable<'a> = Table<'a, &'static str, u64>;

/// A change of the outbox that comes with no other write.
pub(super) enum OutboxChange {
    Append(Vec<EncodedEvent>),
    Drop {
        through: u64,
    },
    /// With a guard, only as long as nothing was replaced since.
    SetCursor {
        name: String,
        bytes: Option<Vec<u8>>,
        guard: Option<(Arc<AtomicU64>, u64)>,
    },
}

const fn table_of(class: EventClass) -> TableDefinition<'static, u64, &'static [u8]> {
    match class {
        EventClass::Room => OUTBOX,
        EventClass::Visitor => VISITOR_EVENTS,
    }
}

/// The names under which it is kept what is gone of a class: through which number, and how many.
const fn names_of(class: EventClass) -> (&'static str, &'static str) {
    match class {
        EventClass::Room => ("room_through", "room_count"),
        EventClass::Visitor => ("visitor_through", "visitor_count"),
    }
}

/// Begins to number where a program ended that had one table.
pub(super) fn prepare(transaction: &WriteTransaction) -> Result<(), Failure> {
    let mut numbers = transaction.open_table(OUTBOX_NUMBERS)?;
    let is_new = numbers.get(LAST)?.is_none();
    if is_new {
        let outbox = transaction.open_table(OUTBOX)?;
        let last = outbox.last()?.map_or(0, |(number, _)| number.value());
        numbers.insert(LAST, last)?;
        if let Some(first) = outbox.first()?.map(|(number, _)| number.value()).filter(|&first| first > 1) {
            let (through, count) = names_of(EventClass::Room);
            numbers.insert(through, first - 1)?;
            numbers.insert(count, first - 1)?;
        }
    }
    Ok(())
}

fn read_state(numbers: &impl ReadableTable<&'static str, u64>) -> Result<OutboxState, Failure> {
    let number = |name| -> Result<u64, Failure> { Ok(numbers.get(name)?.map_or(0, |number| number.value())) };
    let mut state = OutboxState { last: number(LAST)?, ..OutboxState::default() };
    for class in EventClass::ALL {
        let (through, count) = names_of(class);
        let dropped = state.dropped_mut(class);
        (dropped.through, dropped.count) = (number(through)?, number(count)?);
    }
    Ok(state)
}

pub(super) fn state(transaction: &ReadTransaction) -> Result<OutboxState, Failure> {
    read_state(&transaction.open_table(OUTBOX_NUMBERS)?)
}

pub(super) fn state_in(transaction: &WriteTransaction) -> Result<OutboxState, Failure> {
    read_state(&transaction.open_table(OUTBOX_NUMBERS)?)
}

/// The events behind a number, of both classes, in their order.
pub(super) fn read(
    transaction: &ReadTransaction,
    after: u64,
) -> Result<impl Iterator<Item = Result<(u64, Vec<u8>), Failure>>, Failure> {
    let behind = after.saturating_add(1)..;
    let mut room = transaction.open_table(OUTBOX)?.range(behind.clone())?.peekable();
    let mut visitor = transaction.open_table(VISITOR_EVENTS)?.range(behind)?.peekable();
    let is_above = move |number: u64| number > after;
    Ok(std::iter::from_fn(move || {
        let number = |entry: Option<&Result<(redb::AccessGuard<'_, u64>, _), _>>| match entry {
            Some(Ok((number, _))) => number.value(),
            Some(Err(_)) => 0,
            None => u64::MAX,
        };
        let is_of_room = number(room.peek()) <= number(visitor.peek());
        let entry = if is_of_room { room.next() } else { visitor.next() }?;
        Some(match entry {
            Ok((number, bytes)) => Ok((number.value(), bytes.value().to_vec())),
            Err(error) => Err(error.into()),
        })
    })
    .filter(move |entry| entry.as_ref().map_or(true, |(number, _)| is_above(*number))))
}

pub(super) fn append(transaction: &WriteTransaction, events: &[EncodedEvent]) -> Result<(), Failure> {
    if events.is_empty() {
        return Ok(());
    }
    let mut numbers = transaction.open_table(OUTBOX_NUMBERS)?;
    let last = numbers.get(LAST)?.map_or(0, |number| number.value());
    for class in EventClass::ALL {
        if !events.iter().any(|event| event.class == class) {
            continue;
        }
        let mut table = transaction.open_table(table_of(class))?;
        for (place, event) in (1..).zip(events).filter(|(_, event)| event.class == class) {
            table.insert(last + place, event.bytes.as_slice())?;
        }
        trim(&mut table, &mut numbers, class)?;
    }
    numbers.insert(LAST, last + events.len() as u64)?;
    Ok(())
}

/// Drops the oldest of a class beyond its limit.
fn trim(
    events: &mut EventTable<'_>,
    numbers: &mut NumberTable<'_>,
    class: EventClass,
) -> Result<(), Failure> {
    let surplus = events.len()?.saturating_sub(events_max(class));
    let mut through = 0;
    for _ in 0..surplus {
        through = events.pop_first()?.map_or(through, |(number, _)| number.value());
    }
    note_dropped(numbers, class, through, surplus)
}

fn note_dropped(
    numbers: &mut NumberTable<'_>,
    class: EventClass,
    through: u64,
    count: u64,
) -> Result<(), Failure> {
    if count == 0 {
        return Ok(());
    }
    let (through_name, count_name) = names_of(class);
    let before = numbers.get(count_name)?.map_or(0, |count| count.value());
    numbers.insert(through_name, through)?;
    numbers.insert(count_name, before + count)?;
    Ok(())
}

pub(super) fn change(transaction: &WriteTransaction, change: &OutboxChange) -> Result<(), Failure> {
    match change {
        OutboxChange::Append(events) => append(transaction, events),
        OutboxChange::SetCursor { name, bytes, guard } => {
            let is_outdated =
                |(restores, history): &(Arc<AtomicU64>, u64)| restores.load(Ordering::Acquire) != *history;
            if guard.as_ref().is_some_and(is_outdated) {
                return Ok(());
            }
            set_cursor(transaction, name, bytes.as_deref())
        }
        OutboxChange::Drop { through } => {
            let mut numbers = transaction.open_table(OUTBOX_NUMBERS)?;
            for class in EventClass::ALL {
                let mut table = transaction.open_table(table_of(class))?;
                let (mut last, mut count) = (0, 0);
                for entry in table.extract_from_if(..=*through, |_, _| true)?.take(DROPPED_ROWS_MAX) {
                    last = entry?.0.value();
                    count += 1;
                }
                note_dropped(&mut numbers, class, last, count)?;
            }
            Ok(())
        }
    }
}

/// The outbox while the content is replaced.
pub(super) struct Outbox<'a> {
    room: EventTable<'a>,
    visitor: EventTable<'a>,
    numbers: NumberTable<'a>,
    last: u64,
}

impl<'a> Outbox<'a> {
    pub(super) fn open(transaction: &'a WriteTransaction) -> Result<Self, Failure> {
        Ok(Self {
            room: transaction.open_table(OUTBOX)?,
            visitor: transaction.open_table(VISITOR_EVENTS)?,
            numbers: transaction.open_table(OUTBOX_NUMBERS)?,
            last: 0,
        })
    }

    /// Goes on at least behind that number.
    pub(super) fn begin_behind(&mut self, last: u64) {
        self.last = self.last.max(last);
    }

    pub(super) fn insert(&mut self, number: u64, event: &EncodedEvent) -> Result<(), Failure> {
        let table = match event.class {
            EventClass::Room => &mut self.room,
            EventClass::Visitor => &mut self.visitor,
        };
        table.insert(number, event.bytes.as_slice())?;
        self.last = self.last.max(number);
        Ok(())
    }

    /// Drops what is more than is kept, and says how far it has come.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.numbers.insert(LAST, self.last)?;
        trim(&mut self.room, &mut self.numbers, EventClass::Room)?;
        trim(&mut self.visitor, &mut self.numbers, EventClass::Visitor)
    }
}
