//! Values of the whole store, and whether it still is the store that this process knows.
//!
//! A store that lost its memory comes back empty and says so by nothing but its emptiness. So it has a mark, made once.
//! A node that finds another mark, or none, writes back what it remembers of the values (rooms are written back by the
//! engine); what another node has written meanwhile stays.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::PoisonError;

use super::command::{Command, CommandTimeout, Intent, REPLACE_VALUE, STORE};
use super::keys::{KeyScope, Keys};
use super::reply::{Parts, lineage_of, read};
use super::rooms::AUDIT;
use super::{ContentResult, Inner};
use crate::codec;
use crate::contract::{AuditRecord, Cursor, Lineage, StoreError, StoredEvent};

/// The store as a whole, as of one moment.
pub(super) struct StoreState {
    pub(super) lineage: Lineage,
    pub(super) content: u64,
    pub(super) mark: String,
    /// How often values and names have changed.
    pub(super) values: u64,
    pub(super) names: u64,
    /// The token of a restore that runs; empty without one.
    pub(super) restoring: String,
    /// The server's time in milliseconds since 1970.
    pub(super) now_millis: u64,
}

/// A mark that no other store has.
pub(super) fn random_mark() -> String {
    // Fresh hashers have random keys; a mark needs no better randomness.
    let random = || RandomState::new().hash_one(0);
    format!("{:016x}{:016x}", random(), random())
}

impl Inner {
    pub(super) fn store_command(&self, keys: &Keys) -> Command {
        let command = Command::script(&KeyScope::Store, &STORE).key(keys.content_number()).key(keys.mark());
        command.key(keys.numbers()).key(keys.restoring()).arg(self.may_ask())
    }

    pub(super) fn store_state(answer: redis::Value) -> Result<StoreState, StoreError> {
        let mut parts = Parts::of(answer)?;
        let lineage: String = parts.next()?;
        Ok(StoreState {
            lineage: lineage_of(&lineage)?,
            content: parts.next()?,
            mark: parts.next()?,
            values: parts.next()?,
            names: parts.next()?,
            restoring: parts.next()?,
            now_millis: parts.next::<u64>()? * 1_000 + parts.next::<u64>()? / 1_000,
        })
    }

    /// Takes note of the store as it is: another content, or none of what it had. Returns whether everything is as it was.
    pub(super) async fn take_note(&self, keys: &Keys, state: &StoreState) -> Result<bool, StoreError> {
        if state.mark != self.mark() {
            self.write_back(keys).await?;
            return Ok(false);
        }
        if state.content != keys.content() {
            self.move_to(state.content);
            return Ok(false);
        }
        Ok(true)
    }

    /// Marks a store that has no mark; returns the mark it has then.
    pub(super) async fn mark_it(&self, keys: &Keys, mark: &str) -> Result<String, StoreError> {
        let store = KeyScope::Store;
        let commands = [
            Command::plain(&store, "SET").arg(keys.mark()).arg(mark).arg("NX"),
            Command::plain(&store, "GET").arg(keys.mark()),
        ];
        let mut answers = self.connections.all(&commands, Intent::Read, CommandTimeout::Short).await?;
        answers.pop().map_or(Ok(String::new()), read)
    }

    /// The store has been emptied: it gets back what this process remembers, where nobody has put something else.
    async fn write_back(&self, keys: &Keys) -> Result<(), StoreError> {
        let store = KeyScope::Store;
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner).clone();
        tracing::warn!(values = remembered.len(), "store was emptied, writing back what this node remembers");
        let mut commands =
            vec![Command::plain(&store, "SET").arg(keys.content_number()).arg(keys.content()).arg("NX")];
        for (name, value) in &remembered {
            commands.push(Command::plain(&store, "HSETNX").arg(keys.values()).arg(name).arg(value));
        }
        for number in ["values", "names"] {
            commands.push(Command::plain(&store, "HINCRBY").arg(keys.numbers()).arg(number).arg(1));
        }
        self.connections.all(&commands, Intent::Read, CommandTimeout::Short).await?;
        // The mark comes last: after a failure half-way everything is repeated. It is a new one, so that numbers of
        // before are not taken for those of now.
        let mark = self.mark_it(keys, &random_mark()).await?;
        *self.mark.lock().unwrap_or_else(PoisonError::into_inner) = mark;
        Ok(())
    }

    fn remember(&self, name: &str, value: &[u8]) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.insert(name.to_owned(), value.to_vec());
    }

    /// What it remembers is what a restore brought.
    pub(super) fn remember_only(&self, values: BTreeMap<String, Vec<u8>>) {
        *self.remembered.lock().unwrap_or_else(PoisonError::into_inner) = values;
    }

    pub(super) async fn value(&self, keys: &Keys, name: &str) -> ContentResult<Option<Vec<u8>>> {
        let command = Command::plain(&KeyScope::Store, "HGET").arg(keys.values()).arg(name);
        let commands = [command, self.store_command(keys)];
        let mut answers =
            self.connections.all(&commands, Intent::Read, CommandTimeout::Short).await?.into_iter();
        let [Some(value), Some(state)] = [answers.next(), answers.next()] else { return Ok(None) };
        if !self.take_note(keys, &Self::store_state(state)?).await? {
            return Ok(None);
        }
        let value: Option<Vec<u8>> = read(value)?;
        // A cursor is worth nothing in a store that was emptied.
        if let Some(value) = value.as_ref().filter(|_| !Cursor::is_value_name(name)) {
            self.remember(name, value);
        }
        Ok(Some(value))
    }

    pub(super) async fn replace_value(
        &self,
        keys: &Keys,
        name: &str,
        (expected, new): (Option<&[u8]>, &[u8]),
        audit: Option<&AuditRecord>,
        events: &[StoredEvent],
    ) -> ContentResult<bool> {
        let store = KeyScope::Store;
        let command =
            Command::script(&store, &REPLACE_VALUE).key(keys.content_number()).key(keys.restoring());
        let command =
            command.key(keys.values()).key(keys.records(&store)).key(keys.numbers()).arg(keys.content());
        let command =
            command.arg(name).arg(u8::from(expected.is_some())).arg(expected.unwrap_or_default()).arg(new);
        let mut command = command.arg(keys.notifications(&store));
        if let Some(record) = audit {
            command = command.arg(AUDIT).arg(self.seal_record(&codec::encode_audit(record)));
        }
        let command = self.with_events(command, events);
        let mut parts = Parts::of(self.connections.one(command, Intent::Write).await?)?;
        match parts.next::<i64>()? {
            1 => {
                self.remember(name, new);
                // Keys that a failover forgets are missed by everybody, so a replica should have them; but it is done already.
                if let Err(error) = self.confirm_scope(&store, None).await {
                    tracing::warn!(name, %error, "value is not replicated yet");
                }
                Ok(Some(true))
            }
            0 => Ok(Some(false)),
            _ => Ok(None),
        }
    }
}
