//! Where values come from: the parsed file, with line numbers, and our part of the environment.
//!
//! Reading a value takes it out; what is left in the end is unknown and refused.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use secrecy::zeroize::Zeroizing;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::kinds::{Kind, Presence, Raw, Refusal};
use super::problems::{ConfigError, Hint, Origin, Place, Problem, displayed, nearest};
use super::{
    CLIENT_VARIABLES, DEFAULT_FILE_NAME, FILE_MAX_BYTES, SECRET_SETTINGS, SETTINGS, SecretSetting,
    VARIABLE_PREFIX, variable_name,
};

/// The table whose keys are settings with its name before them.
const LIMITS: &str = "limits";

/// The values that were given and not yet taken, and what was wrong with those that were.
pub(super) struct Source<'a> {
    path: &'a Path,
    text: &'a str,
    file: DeTable<'a>,
    variables: BTreeMap<String, Zeroizing<String>>,
    /// Variables that hold secrets of clients: several clients may name the same.
    client_variables: BTreeSet<String>,
    pub(super) problems: Vec<Problem>,
}

/// The file to read: the named one, whether it exists or not, or the one in the working directory if it does.
pub(super) fn find_file(
    explicit_path: Option<&Path>,
    working_directory: &Path,
) -> Result<Option<PathBuf>, ConfigError> {
    if let Some(path) = explicit_path {
        return Ok(Some(path.to_owned()));
    }
    let path = working_directory.join(DEFAULT_FILE_NAME);
    match path.try_exists() {
        Ok(exists) => Ok(exists.then_some(path)),
        Err(source) => Err(Problem::Unreadable { path, source }.into()),
    }
}

/// Reads the file, up to the largest size.
pub(super) fn read_file(path: &Path) -> Result<String, ConfigError> {
    let read = || -> io::Result<String> {
        let mut text = String::new();
        File::open(path)?.take(FILE_MAX_BYTES + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read().map_err(|source| Problem::Unreadable { path: path.to_owned(), source })?;
    if text.len() as u64 > FILE_MAX_BYTES {
        return Err(Problem::TooLarge { path: path.to_owned() }.into());
    }
    Ok(text)
}

impl<'a> Source<'a> {
    /// Parses the file's text (empty without a file) and picks our variables out of the environment.
    pub(super) fn new(
        path: Option<&'a Path>,
        text: &'a str,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let path = path.unwrap_or(Path::new(DEFAULT_FILE_NAME));
        let file = DeTable::parse(text)
            .map_err(|error| Problem::Syntax {
                place: place(path, text, &error.span().unwrap_or(0..0)),
                reason: error.message().to_owned(),
            })?
            .into_inner();
        let mut source = Self {
            path,
            text,
            file,
            variables: BTreeMap::new(),
            client_variables: BTreeSet::new(),
            problems: Vec::new(),
        };
        source.flatten(LIMITS);
        for (name, value) in environment {
            source.add_variable(name, value);
        }
        Ok(source)
    }

    /// `[limits] store_url` is `limits_store_url`, so that settings which belong together can stand together.
    fn flatten(&mut self, table_name: &str) {
        let Some((key, value)) = self.take_key(table_name) else { return };
        let DeValue::Table(settings) = value.into_inner() else {
            // No table: then it is a key like others, and means nothing.
            let place = self.place(&key.span());
            let hint = Hint(Some(format!("[{table_name}]")));
            self.problems.push(Problem::UnknownKey { place, key: table_name.to_owned(), hint });
            return;
        };
        for (key, value) in settings {
            let name = format!("{table_name}_{}", key.get_ref());
            if let Some((other, _)) = self.file.get_key_value(name.as_str()) {
                let first_line = self.place(&other.span()).line;
                let place = self.place(&key.span());
                self.problems.push(Problem::SettingTwice { place, key: name, first_line });
                continue;
            }
            self.file.insert(Spanned::new(key.span(), DeString::Owned(name)), value);
        }
    }

    fn add_variable(&mut self, name: OsString, value: OsString) {
        // A name that is not text cannot be one of ours.
        let Ok(name) = name.into_string() else { return };
        if !name.starts_with(VARIABLE_PREFIX) || value.is_empty() {
            return;
        }
        match value.into_string() {
            Ok(value) => {
                self.variables.insert(name, Zeroizing::new(value));
            }
            Err(_) => self.problems.push(Problem::NotUnicode { name }),
        }
    }

    /// Takes a server setting: from the environment, else from the file, else its default. `None` if it is not valid,
    /// which is then noted.
    pub(super) fn setting<P: Presence>(&mut self, name: &'static str, sample: &str) -> Option<P::Value> {
        let entry = self.take_key(name);
        let variable = variable_name(name);
        if let Some(text) = self.variables.remove(&variable) {
            let read = P::Kind::read(Raw::Text(&text));
            return self.checked::<P>(read, Origin::Variable(variable), || displayed(&text));
        }
        let Some((key, value)) = entry else {
            return Some(P::absent(sample));
        };
        let origin = Origin::Key { place: self.place(&key.span()), name: name.to_owned() };
        let read = P::Kind::read(Raw::Toml(value.get_ref()));
        let text = self.text;
        self.checked::<P>(read, origin, || shown_toml(value.get_ref(), text, &value.span()))
    }

    fn checked<P: Presence>(
        &mut self,
        read: Result<<P::Kind as Kind>::Value, Refusal>,
        origin: Origin,
        shown: impl FnOnce() -> String,
    ) -> Option<P::Value> {
        match read {
            Ok(value) => Some(P::from_value(value)),
            Err(refusal) => {
                let explanation = match refusal {
                    Refusal::Unexpected => format!("expected {}", P::expected()),
                    Refusal::Because(reason) => reason,
                };
                self.problems.push(Problem::Value { origin, value: shown(), explanation });
                None
            }
        }
    }

    /// Takes a secret from the environment, and refuses it in the file.
    pub(super) fn secret(&mut self, setting: SecretSetting) -> Option<SecretString> {
        if let Some((key, _)) = self.take_key(setting.name) {
            self.problems.push(Problem::SecretInFile { place: self.place(&key.span()), setting });
        }
        let value = self.variables.remove(&variable_name(setting.name))?;
        Some(SecretString::from(value.as_str()))
    }

    /// The secret that a client of the file names by its variable.
    pub(super) fn variable_of_client(&mut self, name: &str) -> Option<SecretString> {
        let value = self.variables.get(name)?;
        self.client_variables.insert(name.to_owned());
        Some(SecretString::from(value.as_str()))
    }

    /// Takes a key of the file.
    pub(super) fn take_key(&mut self, name: &str) -> Option<(Spanned<DeString<'a>>, Spanned<DeValue<'a>>)> {
        self.file.remove_entry(name)
    }

    /// Reports every value that was not taken.
    pub(super) fn refuse_what_is_left(&mut self) {
        for (key, value) in std::mem::take(&mut self.file) {
            let place = self.place(&key.span());
            let key = key.into_inner().into_owned();
            self.problems.push(if value.get_ref().is_table() {
                Problem::UnknownTable { place, key }
            } else {
                let hint = nearest(&key, SETTINGS.iter().map(|setting| setting.name));
                Problem::UnknownKey { place, hint: Hint(hint.map(str::to_owned)), key }
            });
        }
        for (name, value) in std::mem::take(&mut self.variables) {
            if self.client_variables.contains(&name)
                || CLIENT_VARIABLES.contains(&name.as_str())
                || is_kubernetes_service_link(&name, &value)
            {
                continue;
            }
            let settings = SETTINGS.iter().map(|setting| setting.name);
            let secrets = SECRET_SETTINGS.iter().map(|setting| setting.name);
            let hint = nearest(&name[VARIABLE_PREFIX.len()..], settings.chain(secrets));
            self.problems.push(Problem::UnknownVariable { hint: Hint(hint.map(variable_name)), name });
        }
    }

    /// The file as it was written.
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// The line of a stretch of the file.
    pub(super) fn place(&self, span: &Range<usize>) -> Place {
        place(self.path, self.text, span)
    }
}

fn place(path: &Path, text: &str, span: &Range<usize>) -> Place {
    let before = text.get(..span.start).unwrap_or(text);
    Place { path: path.to_owned(), line: 1 + before.matches('\n').count() }
}

/// A refused value of the file: texts like variables, everything else as it was written.
pub(super) fn shown_toml(value: &DeValue<'_>, text: &str, span: &Range<usize>) -> String {
    match value {
        DeValue::String(text) => displayed(text),
        DeValue::Table(_) | DeValue::Array(_) => format!("(a TOML {})", value.type_str()),
        _ => text.get(span.clone()).unwrap_or(value.type_str()).to_owned(),
    }
}

/// Whether Kubernetes made this variable. For a service whose name begins with "anteroom" it tells every pod of the
/// namespace about it in variables that look like ours, which must not keep the server from starting.
fn is_kubernetes_service_link(name: &str, value: &str) -> bool {
    let is_link =
        |value: &str| ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    let names_a_port = ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| {
        name.split_once("_PORT_").is_some_and(|(_, port)| {
            let digits = port.trim_start_matches(|character: char| character.is_ascii_digit());
            digits.len() < port.len() && digits.starts_with(protocol)
        })
    });
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || names_a_port
        || (name.ends_with("_PORT") && is_link(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_kubernetes_makes_are_told_from_ours() {
        for (name, value) in [
            ("ANTEROOM_SERVICE_HOST", "10.0.0.1"),
            ("ANTEROOM_SERVICE_PORT", "8080"),
            ("ANTEROOM_SERVICE_PORT_HTTP", "8080"),
            ("ANTEROOM_PORT", "tcp://10.0.0.1:8080"),
            ("ANTEROOM_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
            ("ANTEROOM_PUBLIC_PORT_8080_TCP_ADDR", "10.0.0.1"),
            ("ANTEROOM_PUBLIC_PORT_53_UDP_PROTO", "udp"),
        ] {
            assert!(is_kubernetes_service_link(name, value), "{name}");
        }
        for (name, value) in [
            ("ANTEROOM_PORT", "8080"),
            ("ANTEROOM_PUBLIC_PORT", "8080"),
            ("ANTEROOM_PUBLIC_ADDRESS", "127.0.0.1:8080"),
            ("ANTEROOM_PORT_NUMBER_TCP", "8080"),
        ] {
            assert!(!is_kubernetes_service_link(name, value), "{name}");
        }
    }
}
