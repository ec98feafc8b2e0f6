//! What a setting's value may be: one type for each kind, which reads it from the file and from a variable alike and
//! says in words what it expects.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anteroom_core::RoomId;
use anteroom_core::alarms::{self, PREFIX_MAX_LENGTH};
use anteroom_gateway::identify::{Networks, NetworksError, parse_network};
use anteroom_tokens::signing_key::SigningAlgorithm;
use http::Uri;
use toml::de::DeValue;

use super::problems::{displayed, nearest};

/// A value as it was written.
#[derive(Debug, Clone, Copy)]
pub enum Raw<'a> {
    /// In a variable, or as a default in the table: text whatever the kind.
    Text(&'a str),
    /// In the file, where a number is a number and a text is in quotes.
    Toml(&'a DeValue<'a>),
}

/// Why a value is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Not what [`Kind::expected`] says.
    Unexpected,
    /// Understood, but not possible; the reason is a clause of its own.
    Because(String),
}

/// A kind of value.
pub trait Kind {
    /// What it is read into.
    type Value;
    /// Whether the file has it in quotes.
    const QUOTED: bool = true;
    /// What a valid value is, as in "expected …".
    fn expected() -> String;
    /// Reads it.
    fn read(raw: Raw<'_>) -> Result<Self::Value, Refusal>;
}

/// Whether a setting has a default.
pub trait Presence {
    /// The field's type.
    type Value;
    /// The kind of what may be written.
    type Kind: Kind;
    /// Whether the setting may be left unset.
    const OPTIONAL: bool;
    /// Whether the file has it in quotes.
    const QUOTED: bool = <Self::Kind as Kind>::QUOTED;
    /// What a valid value is.
    fn expected() -> String {
        Self::Kind::expected()
    }
    /// The field for a value that was written.
    fn from_value(value: <Self::Kind as Kind>::Value) -> Self::Value;
    /// The field when nothing was written; `sample` is the table's.
    fn absent(sample: &str) -> Self::Value;
}

/// A setting with a default.
pub struct Required<K>(PhantomData<K>);

impl<K: Kind> Presence for Required<K> {
    type Value = K::Value;
    type Kind = K;
    const OPTIONAL: bool = false;
    fn from_value(value: K::Value) -> K::Value {
        value
    }
    fn absent(sample: &str) -> K::Value {
        K::read(Raw::Text(sample))
            .unwrap_or_else(|_| panic!("the default {sample:?} in the table is not valid"))
    }
}

/// A setting that may be left unset.
pub struct Optional<K>(PhantomData<K>);

impl<K: Kind> Presence for Optional<K> {
    type Value = Option<K::Value>;
    type Kind = K;
    const OPTIONAL: bool = true;
    fn from_value(value: K::Value) -> Option<K::Value> {
        Some(value)
    }
    fn absent(_example: &str) -> Option<K::Value> {
        None
    }
}

impl Raw<'_> {
    /// The text of a kind that is written in quotes.
    pub(super) fn text(&self) -> Result<&str, Refusal> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Toml(DeValue::String(text)) => Ok(text),
            Self::Toml(_) => Err(Refusal::Unexpected),
        }
    }

    /// The text of a kind that is written in quotes, by the type's own parser.
    fn parse<T: FromStr>(&self) -> Result<T, Refusal> {
        self.text()?.parse().map_err(|_| Refusal::Unexpected)
    }

    pub(super) fn whole_number(&self, minimum: u64, maximum: u64) -> Result<u64, Refusal> {
        let number = match self {
            Self::Text(text) => text.parse().ok(),
            Self::Toml(DeValue::Integer(integer)) => {
                u64::from_str_radix(integer.as_str(), integer.radix()).ok()
            }
            Self::Toml(_) => None,
        };
        number.filter(|number| (minimum..=maximum).contains(number)).ok_or(Refusal::Unexpected)
    }
}

/// An address to bind.
pub struct Address;

impl Kind for Address {
    type Value = SocketAddr;
    fn expected() -> String {
        "an IP address and a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\"".to_owned()
    }
    fn read(raw: Raw<'_>) -> Result<SocketAddr, Refusal> {
        raw.parse()
    }
}

/// A whole number within a range, both ends included.
pub struct Integer<const MINIMUM: u64, const MAXIMUM: u64>;

impl<const MINIMUM: u64, const MAXIMUM: u64> Kind for Integer<MINIMUM, MAXIMUM> {
    type Value = u64;
    const QUOTED: bool = false;
    fn expected() -> String {
        format!("a whole number from {MINIMUM} to {MAXIMUM}")
    }
    fn read(raw: Raw<'_>) -> Result<u64, Refusal> {
        raw.whole_number(MINIMUM, MAXIMUM)
    }
}

/// A number of seconds within a range, both ends included.
pub struct Seconds<const MINIMUM: u64, const MAXIMUM: u64>;

impl<const MINIMUM: u64, const MAXIMUM: u64> Kind for Seconds<MINIMUM, MAXIMUM> {
    type Value = Duration;
    const QUOTED: bool = false;
    fn expected() -> String {
        format!("a whole number of seconds from {MINIMUM} to {MAXIMUM}")
    }
    fn read(raw: Raw<'_>) -> Result<Duration, Refusal> {
        raw.whole_number(MINIMUM, MAXIMUM).map(Duration::from_secs)
    }
}

/// Yes or no.
pub struct Flag;

impl Kind for Flag {
    type Value = bool;
    const QUOTED: bool = false;
    fn expected() -> String {
        "true or false".to_owned()
    }
    fn read(raw: Raw<'_>) -> Result<bool, Refusal> {
        match raw {
            Raw::Text("true") | Raw::Toml(DeValue::Boolean(true)) => Ok(true),
            Raw::Text("false") | Raw::Toml(DeValue::Boolean(false)) => Ok(false),
            _ => Err(Refusal::Unexpected),
        }
    }
}

/// A path.
pub struct FilePath;

impl Kind for FilePath {
    type Value = PathBuf;
    fn expected() -> String {
        "a path".to_owned()
    }
    fn read(raw: Raw<'_>) -> Result<PathBuf, Refusal> {
        match raw.text()? {
            "" => Err(Refusal::Unexpected),
            path => Ok(PathBuf::from(path)),
        }
    }
}

/// Log directives. The code that sets up the log finds out whether they parse.
pub struct LogFilter;

impl Kind for LogFilter {
    type Value = String;
    fn expected() -> String {
        "a level or a list of module=level, such as \"info\" or \"info,anteroom_server=debug\"".to_owned()
    }
    fn read(raw: Raw<'_>) -> Result<String, Refusal> {
        match raw.text()? {
            "" => Err(Refusal::Unexpected),
            directives => Ok(directives.to_owned()),
        }
    }
}

/// A room's id.
pub struct Room;

impl Kind for Room {
    type Value = RoomId;
    fn expected() -> String {
        "a room id, 1 to 64 characters out of A-Z, a-z, 0-9, '_', '.' and '-'".to_owned()
    }
    fn read(raw: Raw<'_>) -> Result<RoomId, Refusal> {
        RoomId::parse(raw.text()?).map_err(|_| Refusal::Unexpected)
    }
}

/// A stage of API Gateway, as its own rules have it.
pub struct StageName;

/// The longest name of a stage.
const STAGE_MAX_CHARACTERS: usize = 128;

impl Kind for StageName {
    type Value = String;
    fn expected() -> String {
        format!(
            "a stage's name without slashes, 1 to {STAGE_MAX_CHARACTERS} characters out of A-Z, a-z, 0-9, '_' and '-'"
        )
    }
    fn read(raw: Raw<'_>) -> Result<String, Refusal> {
        let name = raw.text()?;
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        if (1..=STAGE_MAX_CHARACTERS).contains(&name.len()) && name.bytes().all(is_allowed) {
            Ok(name.to_owned())
        } else {
            Err(Refusal::Unexpected)
        }
    }
}

/// The name of a header field.
pub struct HeaderField;

impl Kind for HeaderField {
    type Value = http::HeaderName;
    fn expected() -> String {
        "the name of a header, such as \"x-api-key\"".to_owned()
    }
    fn read(raw: Raw<'_>) -> Result<http::HeaderName, Refusal> {
        let name: http::HeaderName = raw.parse()?;
        // These have a meaning of their own, or are changed by proxies.
        let taken = ["authorization", "host", "cookie", "connection", "content-length", "transfer-encoding"];
        if taken.contains(&name.as_str()) {
            return Err(Refusal::Because(format!("`{name}` has another use; choose a name of your own")));
        }
        Ok(name)
    }
}

/// A list of networks: as one text, or in the file also as a list.
pub struct NetworkList;

impl Kind for NetworkList {
    type Value = Networks;
    fn expected() -> String {
        "a list of networks and addresses, such as \"10.0.0.0/8, 2001:db8::1\", or \"none\"".to_owned()
    }
    fn read(raw: Raw<'_>) -> Result<Networks, Refusal> {
        let because = |error: NetworksError| Refusal::Because(error.to_string());
        if let Raw::Toml(DeValue::Array(entries)) = raw {
            let entries = entries.iter().map(|entry| match entry.get_ref() {
                DeValue::String(text) => parse_network(text).map_err(because),
                _ => Err(Refusal::Unexpected),
            });
            let entries: Vec<_> = entries.collect::<Result<_, _>>()?;
            return Networks::new(entries).map_err(because);
        }
        match raw.text()? {
            "none" => Ok(Networks::default()),
            // Whether nothing means nobody or everybody is too important to be guessed.
            "" => Err(Refusal::Unexpected),
            text => text.parse().map_err(because),
        }
    }
}

/// What the names of own alarms begin with.
pub struct AlarmPrefix;

impl Kind for AlarmPrefix {
    type Value = String;
    fn expected() -> String {
        format!("1 to {PREFIX_MAX_LENGTH} characters out of A-Z, a-z, 0-9, '_', '.' and '-'")
    }
    fn read(raw: Raw<'_>) -> Result<String, Refusal> {
        match raw.text()? {
            prefix if alarms::is_prefix(prefix) => Ok(prefix.to_owned()),
            _ => Err(Refusal::Unexpected),
        }
    }
}

/// Thresholds of own alarms, each by the middle of its alarm's name: as one text, or in the file also as a table.
pub struct Thresholds;

impl Kind for Thresholds {
    type Value = BTreeMap<String, u64>;
    fn expected() -> String {
        "a list of NAME=NUMBER, such as \"Public-4xx=100, join-Refusals=20\"".to_owned()
    }
    fn read(raw: Raw<'_>) -> Result<BTreeMap<String, u64>, Refusal> {
        let mut thresholds = BTreeMap::new();
        let mut add = |name: &str, threshold: Result<u64, Refusal>| {
            if !alarms::resource_names().any(|known| known == name) {
                let names: Vec<String> = alarms::resource_names().collect();
                let hint = match nearest(name, names.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("there are {}", names.join(", ")),
                };
                return Err(Refusal::Because(format!("there is no alarm {}; {hint}", displayed(name))));
            }
            if thresholds.insert(name.to_owned(), threshold?).is_some() {
                return Err(Refusal::Because(format!("the threshold of {name} is given twice")));
            }
            Ok(())
        };
        if let Raw::Toml(DeValue::Table(table)) = raw {
            for (name, value) in table {
                add(name.get_ref(), Raw::Toml(value.get_ref()).whole_number(0, u64::MAX))?;
            }
            return Ok(thresholds);
        }
        for entry in raw.text()?.split(',') {
            let (name, threshold) = entry.split_once('=').ok_or(Refusal::Unexpected)?;
            add(name.trim(), Raw::Text(threshold.trim()).whole_number(0, u64::MAX))?;
        }
        Ok(thresholds)
    }
}

/// [`SigningAlgorithm`] as a kind.
pub struct Algorithm;

impl Kind for Algorithm {
    type Value = SigningAlgorithm;
    fn expected() -> String {
        let names = SigningAlgorithm::ALL.map(|algorithm| format!("\"{}\"", algorithm.name()));
        format!("one of {}", names.join(", "))
    }
    fn read(raw: Raw<'_>) -> Result<SigningAlgorithm, Refusal> {
        let name = raw.text()?;
        let found = SigningAlgorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name);
        found.ok_or(Refusal::Unexpected)
    }
}

/// A URL that others reach us by, without a slash at its end.
pub struct PublicUrl;

impl Kind for PublicUrl {
    type Value = String;
    fn expected() -> String {
        "an http or https URL without user, query and fragment, such as \"https://wait.example.com\""
            .to_owned()
    }
    fn read(raw: Raw<'_>) -> Result<String, Refusal> {
        let text = raw.text()?;
        let uri: Uri = text.parse().map_err(|_| Refusal::Unexpected)?;
        let scheme_fits = matches!(uri.scheme_str(), Some("http" | "https"));
        let host_fits = uri.host().is_some_and(|host| !host.is_empty());
        let has_user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
        // The parser drops a fragment silently, so it has to be looked for in the text.
        if !scheme_fits || !host_fits || has_user || uri.query().is_some() || text.contains('#') {
            return Err(Refusal::Unexpected);
        }
        Ok(text.trim_end_matches('/').to_owned())
    }
}
