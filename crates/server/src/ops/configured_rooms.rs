//! Rooms of the configuration file: how a `[[room]]` becomes settings, and when it is applied.
//!
//! The file is applied to a room when it says something else than the file last applied (which is kept for that). So a setting
//! changed in the evening survives a restart, and a room deleted by an operator stays deleted, until the file itself is edited.

use std::sync::Arc;

use anteroom_admission::openid::clients::OpenIdClients;
use anteroom_core::settings::{FIELDS, PLANNED};
use anteroom_core::{InletKind, Operation, RoomId, RoomState, Settings, Value};
use anteroom_engine::{Actor, Engine};
use anteroom_store::Store;
use anteroom_tokens::random;
use anyhow::Context;

use crate::config::{ConfigError, Hint, Origin, Place, Problem, RoomTable, displayed, nearest};

/// The room that exists when nothing is configured.
const SAMPLE_ROOM: &str = "Sample";
/// The room that a capacity alone makes.
const SITE_ROOM: &str = "site";
/// Who makes the changes of the file, as the audit calls it.
const FILE_ACTOR: &str = "configuration file";
const STATE: &str = "state";
const ID: &str = "id";

/// A room as the file wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredRoom {
    /// Its name.
    pub id: RoomId,
    /// Its settings.
    pub settings: Settings,
    /// Its state.
    pub state: RoomState,
}

impl ConfiguredRoom {
    /// The rooms of a file. Without any, the room `site` where there is a capacity, or the room `Sample`.
    pub fn all(tables: &[RoomTable], capacity: Option<u64>) -> Result<Vec<Self>, ConfigError> {
        let mut rooms = vec![];
        let mut problems = vec![];
        for table in tables {
            match Self::read(table) {
                Ok(room) => rooms.push(room),
                Err(found) => problems.extend(found),
            }
        }
        if !problems.is_empty() {
            return Err(ConfigError::new(problems));
        }
        if tables.is_empty() {
            let name = if capacity.is_some() { SITE_ROOM } else { SAMPLE_ROOM };
            let id = RoomId::parse(name).expect("our own names are room ids");
            let inlet = if capacity.is_some() { InletKind::MaxSize } else { InletKind::Manual };
            let mut settings = Settings { inlet, total_active_users: capacity, ..Settings::default() };
            if capacity.is_some() {
                // So that it stands before the site also where other rooms exist.
                let everything = Value::List(vec!["/".into()]);
                settings.set("paths", &everything).expect("a slash is the beginning of every path");
            }
            rooms.push(Self { id, settings, state: RoomState::Open });
        }
        Ok(rooms)
    }

    /// A room as its table wants it, or everything that is wrong with the table.
    pub(crate) fn read(table: &RoomTable) -> Result<Self, Vec<Problem>> {
        let (settings, state) = read_settings(&table.table, |key| table.place_of(key))?;
        if let Err(contradiction) = settings.check() {
            let origin = Origin::Key { place: table.place.clone(), name: ID.into() };
            let value = displayed(table.id.as_str());
            return Err(vec![Problem::Value { origin, value, explanation: contradiction.to_string() }]);
        }
        Ok(Self { id: table.id.clone(), settings, state })
    }

    /// What the file says beyond the defaults, as text, so that two files can be compared. A setting that a later version
    /// adds is at its default in older files, and changes nothing here.
    fn fingerprint(&self) -> Vec<u8> {
        let defaults = Settings::default();
        let mut lines = vec![format!("{STATE} = {}", self.state.as_str())];
        for field in FIELDS {
            let value = (field.get)(&self.settings);
            if value != (field.get)(&defaults) {
                lines.push(format!("{} = {value}", field.name));
            }
        }
        lines.join("\n").into_bytes()
    }

    fn value_name(&self) -> String {
        format!("file-room/{}", self.id)
    }

    /// Creates the room, or changes it if the file is not the one last applied. Whether an operator has deleted it is a question to the
    /// store: another node may have created it a moment ago, and this node's own view lags.
    pub(crate) async fn apply(
        &self,
        engine: &Arc<Engine>,
        openid_clients: &OpenIdClients,
    ) -> anyhow::Result<Applied> {
        let store = engine.store();
        let name = self.value_name();
        let applied = store.value(&name).await?;
        let wanted = self.fingerprint();
        let unchanged = applied.as_deref() == Some(wanted.as_slice());
        if unchanged {
            if engine.find_room(&self.id).await?.is_some() {
                return Ok(Applied::Exists);
            }
            // A deleted room leaves a trace. One without a trace was lost with its store, and is created again.
            if store.trace(&self.id).await?.is_some() {
                tracing::info!(room = %self.id, "room was deleted by an operator, not created again until the file changes");
                return Ok(Applied::Deleted);
            }
        }
        let [incarnation] = random::bytes::<1>();
        openid_clients.clear_for_new_room(engine, &self.id, FILE_ACTOR).await?;
        let actor = Actor::System(FILE_ACTOR);
        let (room, created) = engine
            .create_room(self.id.clone(), self.settings.clone(), self.state, incarnation, actor.clone())
            .await
            .with_context(|| format!("cannot create the room {}", self.id))?;
        if !created && !unchanged {
            room.operate(Operation::reconfigure(self.settings.clone(), Some(self.state)), actor).await?;
            tracing::info!(room = %self.id, "settings changed by the configuration file");
        }
        if !unchanged {
            store.replace_value(&name, applied.as_deref(), &wanted, None).await?;
        }
        Ok(Applied::Exists)
    }

    /// The settings of the stored room that differ from the file, as "name: stored, file says …".
    pub async fn drift(&self, store: &dyn Store) -> anyhow::Result<Drift> {
        let node = anteroom_store::NodeId(0);
        let applied = store.value(&self.value_name()).await?;
        let will_be_applied = applied.as_deref() != Some(self.fingerprint().as_slice());
        let Some(snapshot) = store.load(&self.id, node).await? else {
            return Ok(if will_be_applied { Drift::NotCreated } else { Drift::Deleted });
        };
        let mut differences = vec![];
        for field in FIELDS {
            let (stored, file) = ((field.get)(&snapshot.room.settings), (field.get)(&self.settings));
            if stored != file {
                differences.push(format!("{}: {stored} in the store, {file} in the file", field.name));
            }
        }
        if snapshot.room.state != self.state {
            let (stored, file) = (snapshot.room.state.as_str(), self.state.as_str());
            differences.push(format!("{STATE}: \"{stored}\" in the store, \"{file}\" in the file"));
        }
        Ok(Drift::Known { differences, will_be_applied })
    }
}

/// What a `[[room]]` says beside its id, each setting on its own; whether they fit together is not asked yet.
pub(crate) fn read_settings(
    table: &toml::Table,
    place_of: impl Fn(&str) -> Place,
) -> Result<(Settings, RoomState), Vec<Problem>> {
    let mut settings = Settings::default();
    let mut state = RoomState::Open;
    let mut problems = vec![];
    for (key, value) in table.iter().filter(|(key, _)| *key != ID) {
        let written = displayed(&value.to_string());
        let problem = |explanation: String| Problem::Value {
            origin: Origin::Key { place: place_of(key), name: key.clone() },
            value: written.clone(),
            explanation,
        };
        if key == STATE {
            match value.as_str().and_then(RoomState::parse) {
                Some(parsed) => state = parsed,
                None => {
                    problems.push(problem("must be \"open\", \"paused\", \"draining\" or \"closed\"".into()));
                }
            }
            continue;
        }
        if PLANNED.iter().any(|planned| planned.name == key) {
            problems.push(problem("is planned, but this version does not have it yet".into()));
            continue;
        }
        let Some(field) = FIELDS.iter().find(|field| field.name == key) else {
            let valid = FIELDS.iter().map(|field| field.name).chain([ID, STATE]);
            let hint = Hint(nearest(key, valid).map(str::to_owned));
            problems.push(Problem::UnknownKey { place: place_of(key), key: key.clone(), hint });
            continue;
        };
        let converted = match value {
            toml::Value::Boolean(flag) => Some(Value::Flag(*flag)),
            toml::Value::Integer(number) => Some(Value::Number(*number)),
            toml::Value::String(text) => Some(Value::Text(text.clone())),
            toml::Value::Array(items) => items
                .iter()
                .map(|item| item.as_str().map(str::to_owned))
                .collect::<Option<_>>()
                .map(Value::List),
            _ => None,
        };
        let set = converted.map(|value| settings.set(key, &value));
        if !matches!(set, Some(Ok(()))) {
            problems.push(problem(format!("must be {}", field.expected)));
        }
    }
    if problems.is_empty() { Ok((settings, state)) } else { Err(problems) }
}

/// What became of a configured room at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Applied {
    /// This node has it.
    Exists,
    /// An operator deleted it since the file was last changed.
    Deleted,
}

/// How far a stored room is from the file.
#[derive(Debug, PartialEq, Eq)]
pub enum Drift {
    /// The room will be made at the next start.
    NotCreated,
    /// An operator deleted it since the file was applied; it stays so until the file is edited.
    Deleted,
    /// It exists.
    Known {
        /// What differs.
        differences: Vec<String>,
        /// Whether the next start applies the file.
        will_be_applied: bool,
    },
}
