//! `[[room.client]]` tables: the `OpenID` clients of a room. A secret is named by its variable or its file, and never stands here.

use std::path::PathBuf;

use anteroom_admission::openid::clients::{
    CLIENT_SECRET_MAX_CHARACTERS, CLIENT_SECRET_MIN_CHARACTERS, CLIENTS_PER_ROOM_MAX, ClientTerms,
    FileClient, FileRoom,
};
use anteroom_core::RoomId;
use anteroom_core::settings::FIELDS;
use anteroom_tokens::api_key::ApiKeyDigest;
use secrecy::{ExposeSecret, SecretString};
use toml::de::{DeTable, DeValue};

use super::VARIABLE_PREFIX;
use super::problems::{ConfigError, Origin, Place, Problem, displayed};
use super::rooms::RoomTable;
use super::source::Source;
use super::table_reader::TableReader;

/// The key of the array of tables.
pub(super) const CLIENT: &str = "client";
/// Where a secret may come from: the present one, and the one before it while the site changes over.
const SECRET_KEYS: [(&str, &str); 2] =
    [("secret_env", "secret_file"), ("previous_secret_env", "previous_secret_file")];
/// Every key that a client may have.
const KEYS: [&str; 11] = [
    "id",
    "name",
    "redirect_addresses",
    "public",
    "access_token_seconds",
    "id_token_seconds",
    "login_address",
    "secret_env",
    "secret_file",
    "previous_secret_env",
    "previous_secret_file",
];

/// One `[[room.client]]`.
#[derive(Debug, Clone)]
pub struct ConfiguredClient {
    terms: ClientTerms,
    /// The present secret first.
    secrets: Vec<SecretSource>,
    /// Where its id stands, or the table begins.
    place: Place,
}

#[derive(Debug, Clone)]
struct SecretSource {
    origin: Origin,
    secret: Secret,
}

#[derive(Debug, Clone)]
enum Secret {
    /// What the variable of that name holds.
    Variable(String, SecretString),
    /// What the file has, read when it is needed.
    File(PathBuf),
}

/// The clients of all rooms of the file, their secrets as digests; or what is wrong with the secrets.
pub fn file_rooms(rooms: &[RoomTable]) -> Result<Vec<FileRoom>, ConfigError> {
    let mut problems = vec![];
    let mut resolved = vec![];
    for room in rooms {
        let mut clients = vec![];
        for client in &room.clients {
            let digests = client.secrets.iter().map(SecretSource::digest);
            match digests.collect::<Result<Vec<_>, _>>() {
                Ok(secrets) => clients.push(FileClient { terms: client.terms.clone(), secrets }),
                Err(problem) => problems.push(problem),
            }
        }
        resolved.push(FileRoom { room: room.id.clone(), clients });
    }
    if problems.is_empty() { Ok(resolved) } else { Err(ConfigError::new(problems)) }
}

impl SecretSource {
    fn digest(&self) -> Result<ApiKeyDigest, Problem> {
        let (source, read) = match &self.secret {
            Secret::Variable(name, secret) => (name.clone(), Ok(secret.clone())),
            Secret::File(path) => {
                let text = std::fs::read_to_string(path).map(|text| SecretString::from(text.trim()));
                (path.display().to_string(), text)
            }
        };
        let problem = |explanation| Problem::Value {
            origin: self.origin.clone(),
            value: displayed(&source),
            explanation,
        };
        let secret = read.map_err(|error| problem(format!("cannot be read: {error}")))?;
        let secret = secret.expose_secret();
        let lengths = CLIENT_SECRET_MIN_CHARACTERS..=CLIENT_SECRET_MAX_CHARACTERS;
        if !lengths.contains(&secret.len()) || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(problem(format!(
                "the secret in it must have {CLIENT_SECRET_MIN_CHARACTERS} to {CLIENT_SECRET_MAX_CHARACTERS} visible ASCII characters; make one with `openssl rand -hex 32`"
            )));
        }
        Ok(ApiKeyDigest::of(secret))
    }
}

/// Takes the clients out of a room's table.
pub(super) fn read(source: &mut Source<'_>, room: &RoomId, table: &DeTable<'_>) -> Vec<ConfiguredClient> {
    let Some((key, value)) = table.get_key_value(CLIENT) else { return vec![] };
    let place = source.place(&key.span());
    let not_tables = |place: Place| Problem::Value {
        origin: Origin::Key { place, name: CLIENT.to_owned() },
        value: "(not a list of tables)".to_owned(),
        explanation: "must be written as [[room.client]]".to_owned(),
    };
    let DeValue::Array(entries) = value.get_ref() else {
        source.problems.push(not_tables(place));
        return vec![];
    };
    let mut clients: Vec<ConfiguredClient> = vec![];
    for entry in entries {
        let entry_place = source.place(&entry.span());
        let DeValue::Table(table) = entry.get_ref() else {
            source.problems.push(not_tables(entry_place));
            continue;
        };
        let Some(client) = read_one(source, entry_place, table) else { continue };
        let id_of =
            |client: &ConfiguredClient| client.terms.id.clone().unwrap_or_else(|| room.as_str().to_owned());
        match clients.iter().find(|other| id_of(other) == id_of(&client)) {
            Some(first) => source.problems.push(Problem::Value {
                origin: Origin::Key { place: client.place.clone(), name: "id".to_owned() },
                value: displayed(&id_of(&client)),
                explanation: format!(
                    "the room has a client of this id on line {}; a client without `id` has the room's",
                    first.place.line
                ),
            }),
            None => clients.push(client),
        }
    }
    if clients.len() > CLIENTS_PER_ROOM_MAX {
        source.problems.push(Problem::Value {
            origin: Origin::Key { place, name: CLIENT.to_owned() },
            value: format!("({} tables)", clients.len()),
            explanation: format!("a room has at most {CLIENTS_PER_ROOM_MAX} clients"),
        });
    }
    clients
}

fn read_one(source: &mut Source<'_>, place: Place, table: &DeTable<'_>) -> Option<ConfiguredClient> {
    let mut reader = TableReader::new(source, place, table);
    let instead = "a secret does not belong in this file; name the variable that holds it as `secret_env`, or its file as `secret_file`";
    let of_the_room = |key: &str| {
        let is_setting = FIELDS.iter().any(|field| field.name == key);
        is_setting.then(|| "is a setting of the room; move it above the [[room.client]]".to_owned())
    };
    reader.refuse_unknown_keys(
        &KEYS,
        (&["secret", "previous_secret", "client_secret"], instead),
        of_the_room,
        |place, key| Problem::InsideARoom { place, key },
    );
    let seconds = "a whole number of seconds";
    let terms = ClientTerms {
        id: reader.text("id"),
        name: reader.text("name"),
        redirect_addresses: reader.texts("redirect_addresses").unwrap_or_default(),
        is_public: reader.flag("public").unwrap_or_default(),
        access_token_seconds: reader.number("access_token_seconds", seconds),
        id_token_seconds: reader.number("id_token_seconds", seconds),
        login_address: reader.text("login_address"),
    };
    let secrets = reader.client_secrets(terms.is_public);
    if reader.problems.is_empty() {
        for problem in terms.problems() {
            let explanation = problem.why;
            reader.refuse(problem.field, explanation);
        }
    }
    let (place, problems) = (reader.place_of("id"), reader.problems);
    let is_good = problems.is_empty();
    source.problems.extend(problems);
    is_good.then_some(ConfiguredClient { terms, secrets, place })
}

impl TableReader<'_, '_, '_> {
    /// Where the secrets come from: one at least, unless the client is public.
    fn client_secrets(&mut self, is_public: bool) -> Vec<SecretSource> {
        let mut secrets = vec![];
        for (variable, file) in SECRET_KEYS {
            match (self.text(variable), self.text(file)) {
                (Some(name), Some(_)) => {
                    // Named, so not unknown.
                    self.source.variable_of_client(&name);
                    self.refuse(file, format!("`{variable}` is given too; a secret has one place"));
                }
                (Some(name), None) => secrets.extend(self.client_variable(variable, name)),
                (None, Some(path)) => {
                    let origin = self.origin(file);
                    secrets.push(SecretSource { origin, secret: Secret::File(path.into()) });
                }
                (None, None) => {}
            }
        }
        let given = |keys: (&'static str, &'static str)| {
            [keys.0, keys.1].into_iter().find(|key| self.table.contains_key(*key))
        };
        match (is_public, given(SECRET_KEYS[0]), given(SECRET_KEYS[1])) {
            (true, Some(key), _) | (true, None, Some(key)) => {
                self.refuse(key, "the client is public and has no secret".to_owned());
            }
            (false, None, _) => self.refuse(
                "secret_env",
                "name the variable that holds the client's secret here, or its file as `secret_file`; a client without a secret is `public = true`"
                    .to_owned(),
            ),
            _ => {}
        }
        secrets
    }

    fn client_variable(&mut self, key: &str, name: String) -> Option<SecretSource> {
        if !name.starts_with(VARIABLE_PREFIX) {
            self.refuse(key, format!("must name a variable that begins with {VARIABLE_PREFIX}"));
            return None;
        }
        let Some(secret) = self.source.variable_of_client(&name) else {
            self.refuse(key, "there is no such variable in the environment".to_owned());
            return None;
        };
        Some(SecretSource { origin: self.origin(key), secret: Secret::Variable(name, secret) })
    }
}
