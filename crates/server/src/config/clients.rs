//! `[[room.client]]` tables: the `OpenID` clients of a room. A secret is named by its variable or its file, and never stands here.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anteroom_admission::openid::clients::{
    CLIENT_SECRET_MAX_CHARACTERS, CLIENT_SECRET_MIN_CHARACTERS, CLIENTS_PER_ROOM_MAX, ClientTerms,
    FileClient, FileRoom,
};
use anteroom_core::RoomId;
use anteroom_core::settings::FIELDS;
use anteroom_tokens::api_key::ApiKeyDigest;
use secrecy::{ExposeSecret, SecretString};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::problems::{ConfigError, Hint, Origin, Place, Problem, displayed, nearest};
use super::rooms::RoomTable;
use super::source::{Source, shown_toml};
use super::{SETTINGS, VARIABLE_PREFIX};

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
    let mut reader = Reader::new(source, place, table);
    reader.refuse_unknown_keys();
    let terms = ClientTerms {
        id: reader.text("id"),
        name: reader.text("name"),
        redirect_addresses: reader.texts("redirect_addresses"),
        is_public: reader.flag("public"),
        access_token_seconds: reader.seconds("access_token_seconds"),
        id_token_seconds: reader.seconds("id_token_seconds"),
        login_address: reader.text("login_address"),
    };
    let secrets = reader.secrets(terms.is_public);
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

/// Takes a client's table apart.
struct Reader<'r, 's, 'a> {
    source: &'r mut Source<'s>,
    table: &'r DeTable<'a>,
    /// Where the table begins.
    place: Place,
    lines: BTreeMap<String, usize>,
    problems: Vec<Problem>,
}

impl<'r, 's, 'a> Reader<'r, 's, 'a> {
    fn new(source: &'r mut Source<'s>, place: Place, table: &'r DeTable<'a>) -> Self {
        let line = |key: &Spanned<DeString<'_>>| source.place(&key.span()).line;
        let lines = table.iter().map(|(key, _)| (key.get_ref().to_string(), line(key))).collect();
        Self { source, table, place, lines, problems: vec![] }
    }

    fn place_of(&self, key: &str) -> Place {
        let line = self.lines.get(key).copied().unwrap_or(self.place.line);
        Place { line, ..self.place.clone() }
    }

    fn origin(&self, key: &str) -> Origin {
        Origin::Key { place: self.place_of(key), name: key.to_owned() }
    }

    fn refuse(&mut self, key: &str, explanation: String) {
        let value = self.table.get(key).map_or_else(
            || "(not given)".to_owned(),
            |value| shown_toml(value.get_ref(), self.source.text(), &value.span()),
        );
        self.problems.push(Problem::Value { origin: self.origin(key), value, explanation });
    }

    fn refuse_unknown_keys(&mut self) {
        let keys: Vec<String> = self.lines.keys().cloned().collect();
        for key in keys.iter().filter(|key| !KEYS.contains(&key.as_str())) {
            let place = self.place_of(key);
            if ["secret", "previous_secret", "client_secret"].contains(&key.as_str()) {
                let explanation = "a secret does not belong in this file; name the variable that holds it as `secret_env`, or its file as `secret_file`";
                self.problems.push(Problem::Value {
                    origin: self.origin(key),
                    value: "(not repeated)".to_owned(),
                    explanation: explanation.to_owned(),
                });
            } else if FIELDS.iter().any(|field| field.name == key) {
                self.refuse(key, "is a setting of the room; move it above the [[room.client]]".to_owned());
            } else if SETTINGS.iter().any(|setting| setting.name == key) {
                self.problems.push(Problem::InsideARoom { place, key: key.clone() });
            } else {
                let hint = Hint(nearest(key, KEYS).map(str::to_owned));
                self.problems.push(Problem::UnknownKey { place, key: key.clone(), hint });
            }
        }
    }

    fn text(&mut self, key: &str) -> Option<String> {
        let text = self.table.get(key)?.get_ref().as_str().map(str::to_owned);
        if text.is_none() {
            self.refuse(key, "must be a text".to_owned());
        }
        text
    }

    fn texts(&mut self, key: &str) -> Vec<String> {
        let texts = self.table.get(key).map(|value| match value.get_ref() {
            DeValue::Array(items) => {
                items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect()
            }
            _ => None,
        });
        match texts {
            None => vec![],
            Some(Some(texts)) => texts,
            Some(None) => {
                self.refuse(key, "must be a list of texts".to_owned());
                vec![]
            }
        }
    }

    fn flag(&mut self, key: &str) -> bool {
        match self.table.get(key).map(Spanned::get_ref) {
            None => false,
            Some(DeValue::Boolean(flag)) => *flag,
            Some(_) => {
                self.refuse(key, "must be true or false".to_owned());
                false
            }
        }
    }

    fn seconds(&mut self, key: &str) -> Option<u64> {
        let value = self.table.get(key)?;
        let seconds = match value.get_ref() {
            DeValue::Integer(number) => {
                u64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
            }
            _ => None,
        };
        if seconds.is_none() {
            self.refuse(key, "must be a whole number of seconds".to_owned());
        }
        seconds
    }

    /// Where the secrets come from: one at least, unless the client is public.
    fn secrets(&mut self, is_public: bool) -> Vec<SecretSource> {
        let mut secrets = vec![];
        for (variable, file) in SECRET_KEYS {
            match (self.text(variable), self.text(file)) {
                (Some(name), Some(_)) => {
                    // Named, so not unknown.
                    self.source.variable_of_client(&name);
                    self.refuse(file, format!("`{variable}` is given too; a secret has one place"));
                }
                (Some(name), None) => secrets.extend(self.variable(variable, name)),
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

    fn variable(&mut self, key: &str, name: String) -> Option<SecretSource> {
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
