//! All destinations, as one value of the store: made, changed, paused, replayed and deleted by operators or by the configuration
//! file, disabled by the delivery. Their secrets lie in it sealed; one that we make is shown once.
//!
//! A webhook has up to two keys at a time: a new one signs from the moment it is made, and the one before goes on beside it for as long as
//! the receiver needs to change over.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use anteroom_core::{EventKinds, RoomId, UnixMillis};
use anteroom_store::stored_value::{StoredContent, StoredValue, StoredValueError};
use anteroom_store::{AuditRecord, Store, StoredEvent};
use anteroom_tokens::{MasterSecrets, WebhookAlgorithm, WebhookKey, open_destination_secret};
use arc_swap::ArcSwap;
use secrecy::SecretString;
use tokio::sync::watch;

use crate::addresses::AllowedNetworks;
use crate::destination::{
    DESTINATIONS_MAX, DeadLetterCommand, Destination, DestinationKind, DestinationState, Replay, Target,
};

mod backup;
mod file;
mod rotation;
mod stored;
pub mod terms;
#[cfg(test)]
mod tests;

pub use self::backup::accept;
pub use self::file::{FileDestination, FileSecrets};
pub use self::rotation::SecretRotation;
use self::terms::{CheckedTerms, check_name, check_name_of};
pub use self::terms::{DestinationTerms, FieldProblem};

/// How large the value may become in which all destinations lie, in bytes.
pub const DESTINATIONS_VALUE_MAX_BYTES: usize = 1024 * 1024;
/// How many keys of a webhook sign at a time: the present one, and the one before while the receiver changes over.
pub const KEYS_MAX: usize = 2;
/// How long the key before goes on after a rotation, unless said otherwise.
pub const OVERLAP_SECONDS: u64 = 24 * 3600;
/// Longest reason for which a destination is disabled, in characters.
const REASON_MAX_CHARACTERS: usize = 500;
/// Who disables destinations, as the audit calls it.
const DELIVERY_ACTOR: &str = "delivery";

/// What the server's settings say about destinations.
#[derive(Debug, Clone, Default)]
pub struct DestinationRules {
    /// The private networks that may be reached.
    pub networks: AllowedNetworks,
    /// Whether there is a directory for files.
    pub has_events_directory: bool,
}

/// A secret of a destination, without what it is.
#[derive(Debug, Clone)]
pub struct DestinationSecret {
    /// How it signs; none of what is shown to be let in.
    pub algorithm: Option<WebhookAlgorithm>,
    /// The public half of a key pair.
    pub public_key: Option<String>,
    /// When it was made or given.
    pub created_at: UnixMillis,
    /// When it stops working, if that is known.
    pub ends_at: Option<UnixMillis>,
    sealed: Sealed,
}

/// Sealed bytes, which say nothing and are not printed.
#[derive(Clone)]
struct Sealed(Vec<u8>);

impl fmt::Debug for Sealed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Sealed(hidden)")
    }
}

impl DestinationSecret {
    fn works(&self, now: UnixMillis) -> bool {
        self.ends_at.is_none_or(|end| now < end)
    }
}

/// A key that was made just now, as the receiver needs it.
#[derive(Debug)]
pub enum ShownKey {
    /// The shared secret, `whsec_…`, in clear for the only time.
    Shared(SecretString),
    /// The public half of a key pair, `whpk_…`; it is shown later, too.
    Public(String),
}

/// Why something was not done to a destination.
#[derive(Debug, thiserror::Error)]
pub enum DestinationError {
    /// One of its fields.
    #[error(transparent)]
    Field(#[from] FieldProblem),
    /// There is one of that name.
    #[error("there is a destination of that name; delete it first, or choose another name")]
    NameTaken,
    /// There is none.
    #[error("there is no destination of that name")]
    Unknown,
    /// See [`DESTINATIONS_MAX`].
    #[error("there are {DESTINATIONS_MAX} destinations; delete some first")]
    TooMany,
    /// See [`DESTINATIONS_VALUE_MAX_BYTES`].
    #[error("all destinations together take {DESTINATIONS_VALUE_MAX_BYTES} bytes; delete some first")]
    TooMuch,
    /// It is changed where it was made.
    #[error("the destination is from the configuration file; change it there and restart")]
    FromFile,
    /// It cannot be paused.
    #[error("the destination is disabled; resume it when what disabled it is mended")]
    Disabled,
    /// It has none to replace.
    #[error("a file has no secret")]
    NoSecret,
    /// There is only one.
    #[error("the destination has no secret beside its present one")]
    NoPreviousSecret,
    /// The library would not encrypt it.
    #[error("the secret of the destination could not be sealed")]
    Sealing,
    /// The value was not read or replaced.
    #[error(transparent)]
    Value(#[from] StoredValueError),
}

/// All destinations, in memory as in the store.
pub struct Destinations {
    value: StoredValue<Table>,
    secrets: Arc<MasterSecrets>,
    rules: DestinationRules,
    /// Those of this node's configuration file, which alone changes what they are.
    file_names: ArcSwap<BTreeSet<String>>,
    /// How often they were read or replaced.
    changes: watch::Sender<u64>,
}

/// Destinations in the order in which they were made.
#[derive(Default)]
pub(crate) struct Table(Vec<Entry>);

/// A destination with its secrets.
#[derive(Clone)]
pub(crate) struct Entry {
    destination: Arc<Destination>,
    /// The newest first.
    secrets: Vec<DestinationSecret>,
}

type Outcome<T> = Result<T, DestinationError>;

impl Destinations {
    /// Reads them.
    pub async fn open(
        store: Arc<dyn Store>,
        secrets: Arc<MasterSecrets>,
        rules: DestinationRules,
    ) -> Result<Self, StoredValueError> {
        let value = StoredValue::open(store).await?;
        Ok(Self { value, secrets, rules, file_names: ArcSwap::default(), changes: watch::Sender::new(0) })
    }

    /// Reads them again, for a store that was restored or changed by another node.
    pub async fn reload(&self) -> Result<(), StoredValueError> {
        self.value.reload().await?;
        self.notify();
        Ok(())
    }

    /// Changes whenever they were read again or replaced.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// What the server's settings say about them.
    pub const fn rules(&self) -> &DestinationRules {
        &self.rules
    }

    /// All of them, in the order in which they were made.
    pub fn list(&self) -> Vec<Arc<Destination>> {
        self.value.get().0.iter().map(|entry| Arc::clone(&entry.destination)).collect()
    }

    /// The one of that name.
    pub fn find(&self, name: &str) -> Option<Arc<Destination>> {
        self.value.get().find(name).map(|entry| Arc::clone(&entry.destination))
    }

    /// The kinds of events of a room that some destination wants. Those of paused and disabled ones count: their events wait.
    pub fn wanted(&self, room: &RoomId) -> EventKinds {
        let table = self.value.get();
        let covering = table.0.iter().filter(|entry| entry.destination.covers(Some(room)));
        covering.fold(EventKinds::NONE, |kinds, entry| kinds.union(entry.destination.kinds()))
    }

    /// The secrets of a destination that work, without what they are; the newest first.
    pub fn secrets(&self, name: &str, now: UnixMillis) -> Vec<DestinationSecret> {
        let table = self.value.get();
        let secrets = table.find(name).map_or(&[][..], |entry| &entry.secrets);
        secrets.iter().filter(|secret| secret.works(now)).cloned().collect()
    }

    /// The keys that a webhook is signed with now, the newest first.
    pub fn keys_of(&self, name: &str, now: UnixMillis) -> Vec<WebhookKey> {
        let secrets = self.secrets(name, now);
        let keys = secrets.iter().filter(|secret| secret.algorithm.is_some());
        keys.filter_map(|secret| self.open_key(name, secret)).collect()
    }

    /// What is shown to an event bus or to NATS to be let in.
    pub fn secret_of(&self, name: &str) -> Option<SecretString> {
        let table = self.value.get();
        let secret = table.find(name)?.secrets.iter().find(|secret| secret.algorithm.is_none())?;
        let opened = open_destination_secret(&self.secrets, name, &secret.sealed.0);
        opened
            .inspect_err(|error| tracing::error!(destination = name, %error, "secret cannot be opened"))
            .ok()
    }

    /// Makes a destination, which gets the events from now on. A webhook gets a key, unless one is given; the key is shown this once.
    pub async fn create(
        &self,
        name: &str,
        terms: &DestinationTerms,
        secret: Option<&SecretString>,
        actor: &str,
        now: UnixMillis,
    ) -> Outcome<(Arc<Destination>, Option<ShownKey>)> {
        check_name(name)?;
        let checked = terms.check(None, &self.rules).map_err(first)?;
        check_name_of(name, checked.target.kind())?;
        let (secret, shown) = self.first_secret(name, &checked, secret, now)?;
        let begins_after = self.value.store().outbox().await.map_err(StoredValueError::from)?.last;
        let destination = Arc::new(checked.into_destination(name, now, begins_after));
        let entry = Entry { destination: Arc::clone(&destination), secrets: secret.into_iter().collect() };
        let kind = destination.target.kind().as_str();
        let audit = record(now, actor, &format!("create {kind} destination {name}"))
            .with_detail(&summary(&destination));
        self.replace(&audit, |table| {
            if table.find(name).is_some() {
                return Err(DestinationError::NameTaken);
            }
            table.0.push(entry.clone());
            Ok(())
        })
        .await?;
        Ok((destination, shown))
    }

    /// Changes what a destination is like; what the terms do not say stays.
    pub async fn change(
        &self,
        name: &str,
        terms: &DestinationTerms,
        actor: &str,
        now: UnixMillis,
    ) -> Outcome<Arc<Destination>> {
        let said = format!("change destination {name}");
        // The record needs what it will be; what it was meanwhile made is checked again below.
        let before = self.find(name).ok_or(DestinationError::Unknown)?;
        let checked = terms.check(Some(&before), &self.rules).map_err(first)?;
        let audit = record(now, actor, &said).with_detail(&summary(&checked.clone().onto(&before)));
        self.replace(&audit, |table| {
            let entry = self.changeable(table, name)?;
            let checked = terms.check(Some(&entry.destination), &self.rules).map_err(first)?;
            entry.destination = Arc::new(checked.onto(&entry.destination));
            Ok(Arc::clone(&entry.destination))
        })
        .await
    }

    /// Deletes a destination. What waits for it is nobody's any more.
    pub async fn delete(&self, name: &str, actor: &str, now: UnixMillis) -> Outcome<()> {
        let audit = record(now, actor, &format!("delete destination {name}"));
        self.replace(&audit, |table| {
            self.changeable(table, name)?;
            table.0.retain(|entry| entry.destination.name != name);
            Ok(())
        })
        .await
    }

    /// Has a destination get nothing until it is resumed; its events wait.
    pub async fn pause(&self, name: &str, actor: &str, now: UnixMillis) -> Outcome<Arc<Destination>> {
        let audit = record(now, actor, &format!("pause destination {name}"));
        self.edit(&audit, name, |destination| match destination.state {
            DestinationState::Disabled { .. } => Err(DestinationError::Disabled),
            DestinationState::Active | DestinationState::Paused => {
                destination.state = DestinationState::Paused;
                Ok(())
            }
        })
        .await
    }

    /// Has a destination get events again, also one that was disabled.
    pub async fn resume(&self, name: &str, actor: &str, now: UnixMillis) -> Outcome<Arc<Destination>> {
        let audit = record(now, actor, &format!("resume destination {name}"));
        self.edit(&audit, name, |destination| {
            destination.state = DestinationState::Active;
            Ok(())
        })
        .await
    }

    /// Disables a destination that wants no more events or cannot take any, and writes events with that; for the delivery.
    pub async fn disable(
        &self,
        name: &str,
        reason: &str,
        events: &[StoredEvent],
        now: UnixMillis,
    ) -> Outcome<Arc<Destination>> {
        let reason: String = reason.chars().take(REASON_MAX_CHARACTERS).collect();
        let audit = record(now, DELIVERY_ACTOR, &format!("disable destination {name}")).with_detail(&reason);
        self.edit_and_tell(&audit, events, name, |destination| {
            if !matches!(destination.state, DestinationState::Disabled { .. }) {
                destination.state = DestinationState::Disabled { reason: reason.clone() };
            }
            Ok(())
        })
        .await
    }

    /// Has the events behind a number of the outbox sent again.
    pub async fn replay(&self, name: &str, after: u64, actor: &str, now: UnixMillis) -> Outcome<Replay> {
        let audit = record(now, actor, &format!("replay to destination {name}"))
            .with_detail(&format!("events after {after}"));
        let changed = self.edit(&audit, name, |destination| {
            let number = destination.replay.as_ref().map_or(1, |last| last.number + 1);
            destination.replay = Some(Replay { number, after });
            Ok(())
        });
        Ok(changed.await?.replay.clone().expect("it was set a moment ago"))
    }

    /// Has all dead letters sent again, before anything else.
    pub async fn replay_dead_letters(
        &self,
        name: &str,
        actor: &str,
        now: UnixMillis,
    ) -> Outcome<DeadLetterCommand> {
        let audit = record(now, actor, &format!("replay dead letters of destination {name}"));
        self.command(&audit, name, true).await
    }

    /// Has all dead letters dropped.
    pub async fn drop_dead_letters(
        &self,
        name: &str,
        actor: &str,
        now: UnixMillis,
    ) -> Outcome<DeadLetterCommand> {
        let audit = record(now, actor, &format!("drop dead letters of destination {name}"));
        self.command(&audit, name, false).await
    }

    async fn command(&self, audit: &AuditRecord, name: &str, is_replay: bool) -> Outcome<DeadLetterCommand> {
        let changed = self.edit(audit, name, |destination| {
            let number = destination.dead_letters.as_ref().map_or(1, |last| last.number + 1);
            destination.dead_letters = Some(DeadLetterCommand { number, is_replay });
            Ok(())
        });
        Ok(changed.await?.dead_letters.clone().expect("it was set a moment ago"))
    }

    /// Changes what operators may change also of a destination of the file.
    async fn edit(
        &self,
        audit: &AuditRecord,
        name: &str,
        change: impl Fn(&mut Destination) -> Outcome<()>,
    ) -> Outcome<Arc<Destination>> {
        self.edit_and_tell(audit, &[], name, change).await
    }

    async fn edit_and_tell(
        &self,
        audit: &AuditRecord,
        events: &[StoredEvent],
        name: &str,
        change: impl Fn(&mut Destination) -> Outcome<()>,
    ) -> Outcome<Arc<Destination>> {
        self.replace_and_tell(audit, events, |table| {
            let entry = table.find_mut(name).ok_or(DestinationError::Unknown)?;
            change(Arc::make_mut(&mut entry.destination))?;
            Ok(Arc::clone(&entry.destination))
        })
        .await
    }

    async fn replace<T>(&self, audit: &AuditRecord, change: impl Fn(&mut Table) -> Outcome<T>) -> Outcome<T> {
        self.replace_and_tell(audit, &[], change).await
    }

    async fn replace_and_tell<T>(
        &self,
        audit: &AuditRecord,
        events: &[StoredEvent],
        change: impl Fn(&mut Table) -> Outcome<T>,
    ) -> Outcome<T> {
        let outcome = self
            .value
            .replace_and_tell(audit, events, |table| {
                let outcome = change(table)?;
                table.check_bounds()?;
                Ok::<_, DestinationError>(outcome)
            })
            .await?;
        self.notify();
        Ok(outcome)
    }

    fn notify(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// A destination that may be changed other than by the file.
    fn changeable<'a>(&self, table: &'a mut Table, name: &str) -> Outcome<&'a mut Entry> {
        let entry = table.find_mut(name).ok_or(DestinationError::Unknown)?;
        if entry.destination.is_from_file && self.file_names.load().contains(name) {
            return Err(DestinationError::FromFile);
        }
        Ok(entry)
    }
}

impl CheckedTerms {
    fn into_destination(self, name: &str, now: UnixMillis, begins_after: u64) -> Destination {
        Destination {
            name: name.to_owned(),
            target: self.target,
            rooms: self.rooms,
            types: self.types,
            with_request_ids: self.with_request_ids,
            schedule: self.schedule,
            backoff_max: self.backoff_max,
            give_up_after: self.give_up_after,
            state: DestinationState::Active,
            is_from_file: false,
            created_at: now,
            begins_after,
            replay: None,
            dead_letters: None,
        }
    }

    /// A destination with these terms, and otherwise as it was.
    fn onto(self, before: &Destination) -> Destination {
        Destination {
            state: before.state.clone(),
            is_from_file: before.is_from_file,
            replay: before.replay.clone(),
            dead_letters: before.dead_letters.clone(),
            ..self.into_destination(&before.name, before.created_at, before.begins_after)
        }
    }
}

impl Table {
    fn find(&self, name: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.destination.name == name)
    }

    fn find_mut(&mut self, name: &str) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| entry.destination.name == name)
    }

    fn check_bounds(&self) -> Outcome<()> {
        if self.0.len() > DESTINATIONS_MAX {
            return Err(DestinationError::TooMany);
        }
        if self.to_bytes().len() > DESTINATIONS_VALUE_MAX_BYTES {
            return Err(DestinationError::TooMuch);
        }
        Ok(())
    }
}

/// What a destination is, in a line.
fn summary(destination: &Destination) -> String {
    let place = match &destination.target {
        Target::Webhook(webhook) => webhook.url.clone(),
        Target::EventBridge(bus) => format!("{} in {}", bus.bus, bus.region),
        Target::Nats(nats) => nats.url.clone(),
        Target::File(_) => "file".to_owned(),
    };
    let rooms: Vec<&str> = destination.rooms.iter().map(RoomId::as_str).collect();
    let rooms = if rooms.is_empty() { "all".to_owned() } else { rooms.join(" ") };
    let types = destination.types.join(" ");
    let request_ids = if destination.with_request_ids { ", with request ids" } else { "" };
    format!("{place}; rooms: {rooms}; types: {types}{request_ids}")
}

fn record(now: UnixMillis, actor: &str, action: &str) -> AuditRecord {
    AuditRecord::new(now, None, actor, action)
}

fn first(problems: Vec<FieldProblem>) -> DestinationError {
    let problem = problems.into_iter().next();
    problem.expect("terms that were refused have a problem").into()
}
