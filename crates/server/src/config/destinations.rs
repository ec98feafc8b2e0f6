//! `[[destination]]` tables: where events go. A secret is in a file of its own, and never stands here.

use std::path::{Path, PathBuf};

use anteroom_events::destination::DESTINATIONS_MAX;
use anteroom_events::destinations::{FileDestination, FileSecrets};
use anteroom_events::{AllowedNetworks, DestinationRules, DestinationTerms};
use anteroom_tokens::WebhookKey;
use anteroom_tokens::destination_secret::DESTINATION_SECRET_MAX_BYTES;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use secrecy::SecretString;
use secrecy::zeroize::Zeroizing;
use toml::de::{DeTable, DeValue};

use super::Config;
use super::problems::{ConfigError, Origin, Place, Problem, displayed};
use super::source::Source;
use super::table_reader::TableReader;

/// The key of the array of tables.
const DESTINATION: &str = "destination";
/// The one key every destination must have.
const NAME: &str = "name";
/// Which file holds the present secret.
const SECRET_FILE: &str = "secret_file";
/// Which file holds the one before it.
const PREVIOUS_SECRET_FILE: &str = "previous_secret_file";
/// Every key that a destination may have.
const KEYS: [&str; 21] = [
    NAME,
    "kind",
    "url",
    "batch_max",
    "algorithm",
    "region",
    "bus",
    "endpoint",
    "access_key_id",
    "subject_prefix",
    "size_max_bytes",
    "files_max",
    "timeout_seconds",
    "rooms",
    "types",
    "with_request_ids",
    "schedule",
    "backoff_max_seconds",
    "give_up_after_seconds",
    SECRET_FILE,
    PREVIOUS_SECRET_FILE,
];
/// Names under which somebody might put a secret.
const SECRET_KEYS: [&str; 7] =
    ["secret", "previous_secret", "secret_access_key", "password", "token", "credentials", "key"];

/// One `[[destination]]`.
#[derive(Debug, Clone)]
pub struct ConfiguredDestination {
    name: String,
    terms: DestinationTerms,
    present: Option<SecretFile>,
    previous: Option<SecretFile>,
    /// Where its name stands.
    place: Place,
}

#[derive(Debug, Clone)]
struct SecretFile {
    origin: Origin,
    path: PathBuf,
}

/// The destinations of the file with their secrets, or what is wrong with the secrets.
pub fn file_destinations(
    destinations: &[ConfiguredDestination],
) -> Result<Vec<FileDestination>, ConfigError> {
    let mut problems = vec![];
    let mut read = |file: &Option<SecretFile>, is_key: bool| {
        let secret = file.as_ref()?.read(is_key);
        secret.map_err(|problem| problems.push(problem)).ok()
    };
    let resolved = destinations
        .iter()
        .map(|destination| {
            let is_key = destination.terms.kind.as_deref() == Some("webhook");
            FileDestination {
                name: destination.name.clone(),
                terms: destination.terms.clone(),
                secrets: FileSecrets {
                    present: read(&destination.present, is_key),
                    previous: read(&destination.previous, is_key),
                },
            }
        })
        .collect();
    if problems.is_empty() { Ok(resolved) } else { Err(ConfigError::new(problems)) }
}

impl SecretFile {
    fn read(&self, is_key: bool) -> Result<SecretString, Problem> {
        let problem = |explanation| Problem::Value {
            origin: self.origin.clone(),
            value: displayed(&self.path.display().to_string()),
            explanation,
        };
        let text = std::fs::read_to_string(&self.path).map(Zeroizing::new);
        let text = text.map_err(|error| problem(format!("cannot be read: {error}")))?;
        let secret = text.trim();
        if !(1..=DESTINATION_SECRET_MAX_BYTES).contains(&secret.len()) {
            return Err(problem(format!("must hold 1 to {DESTINATION_SECRET_MAX_BYTES} bytes")));
        }
        if is_key && let Err(error) = WebhookKey::from_shared_secret(secret) {
            return Err(problem(format!(
                "cannot be used: {error}; make one with `echo whsec_$(openssl rand -base64 32)`"
            )));
        }
        if is_readable_by_others(&self.path) {
            tracing::warn!(
                file = %self.path.display(),
                "secret of a destination can be read by every user of this machine; give the file mode 600"
            );
        }
        Ok(SecretString::from(secret))
    }
}

/// Whether every user of the machine can read a file.
fn is_readable_by_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o004 != 0)
}

/// Takes the destinations out of the file. Without `config`, because something is wrong with it, they are not compared with it.
pub(super) fn read(source: &mut Source<'_>, config: Option<&Config>) -> Vec<ConfiguredDestination> {
    let Some((key, value)) = source.take_key(DESTINATION) else { return vec![] };
    let place = source.place(&key.span());
    let DeValue::Array(entries) = value.into_inner() else {
        source.problems.push(Problem::DestinationsAreNotTables { place });
        return vec![];
    };
    let rules = config.map_or_else(everything_allowed, Config::destination_rules);
    let mut destinations: Vec<ConfiguredDestination> = vec![];
    for entry in entries {
        let entry_place = source.place(&entry.span());
        let DeValue::Table(table) = entry.get_ref() else {
            source.problems.push(Problem::DestinationsAreNotTables { place: entry_place });
            continue;
        };
        let Some(destination) = read_one(source, entry_place, table, &rules) else { continue };
        match destinations.iter().find(|other| other.name == destination.name) {
            Some(first) => source.problems.push(Problem::DestinationTwice {
                place: destination.place,
                name: destination.name,
                first_line: first.place.line,
            }),
            None => destinations.push(destination),
        }
    }
    if destinations.len() > DESTINATIONS_MAX {
        source.problems.push(Problem::TooManyDestinations { place });
    }
    destinations
}

fn read_one(
    source: &mut Source<'_>,
    place: Place,
    table: &DeTable<'_>,
    rules: &DestinationRules,
) -> Option<ConfiguredDestination> {
    let mut reader = TableReader::new(source, place, table);
    let instead = "a secret does not belong in this file; put it into a file of its own, and name that as `secret_file`";
    reader.refuse_unknown_keys(
        &KEYS,
        (&SECRET_KEYS, instead),
        |_| None,
        |place, key| Problem::InsideADestination { place, key },
    );
    let seconds = "a whole number of seconds";
    let terms = DestinationTerms {
        kind: reader.text("kind"),
        url: reader.text("url"),
        batch_max: reader.number("batch_max", "a whole number of events"),
        algorithm: reader.text("algorithm"),
        region: reader.text("region"),
        bus: reader.text("bus"),
        endpoint: reader.text("endpoint"),
        access_key_id: reader.text("access_key_id"),
        subject_prefix: reader.text("subject_prefix"),
        size_max_bytes: reader.number("size_max_bytes", "a whole number of bytes"),
        files_max: reader.number("files_max", "a whole number of files"),
        timeout_seconds: reader.number("timeout_seconds", seconds),
        rooms: reader.texts("rooms"),
        types: reader.texts("types"),
        with_request_ids: reader.flag("with_request_ids"),
        schedule: reader.text("schedule"),
        backoff_max_seconds: reader.number("backoff_max_seconds", seconds),
        give_up_after_seconds: reader.number("give_up_after_seconds", seconds),
    };
    let name = reader.text(NAME);
    if !table.contains_key(NAME) {
        reader.problems.push(Problem::DestinationWithoutName { place: reader.place.clone() });
    }
    let mut secret_file = |key: &str| {
        let path = reader.text(key)?;
        Some(SecretFile { origin: reader.origin(key), path: path.into() })
    };
    let (present, previous) = (secret_file(SECRET_FILE), secret_file(PREVIOUS_SECRET_FILE));
    if reader.problems.is_empty()
        && let Some(name) = &name
    {
        let given = (present.is_some(), previous.is_some());
        for problem in FileDestination::problems(name, &terms, given, rules) {
            reader.refuse(problem.field, problem.why);
        }
    }
    let (place, problems) = (reader.place_of(NAME), reader.problems);
    let is_good = problems.is_empty();
    source.problems.extend(problems);
    is_good.then_some(ConfiguredDestination { name: name?, terms, present, previous, place })
}

fn everything_allowed() -> DestinationRules {
    let everything = [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
    DestinationRules { networks: AllowedNetworks::new(everything.into()), has_events_directory: true }
}
