//! What can be wrong with a configuration, in words for the person who wrote it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use anteroom_core::RoomId;
use anteroom_events::destination::DESTINATIONS_MAX;
use anteroom_gateway::limiter::POLICIES_MAX;

use super::{FILE_MAX_BYTES, SAMPLE_FILE_NAME, SECRET, SecretSetting, variable_name};

/// How alike two names must be, from 0 to 1, for one to be offered in place of the other.
const SIMILARITY_MIN: f64 = 0.75;
/// How much of a refused value is repeated.
const SHOWN_VALUE_MAX_CHARACTERS: usize = 80;

/// Everything that is wrong with a configuration: never empty, one line each, in the order of the file.
#[derive(Debug)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

impl ConfigError {
    /// Of one problem or many. Also for callers that find more, such as in the rooms' own settings.
    pub fn new(mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| problem.line().unwrap_or(usize::MAX));
        Self { problems }
    }

    /// Each of them.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self::new(vec![problem])
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            problem.fmt(formatter)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// A line of a file; prints as `anteroom.toml:7`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// Counted from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.path.display(), self.line)
    }
}

/// Who gave a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A key in the file.
    Key {
        /// Where it stands.
        place: Place,
        /// Its name.
        name: String,
    },
    /// An environment variable.
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { place, name } => write!(formatter, "{place}: {name}"),
            Self::Variable(name) => formatter.write_str(name),
        }
    }
}

/// A valid name like the one that was written, if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint(pub Option<String>);

impl fmt::Display for Hint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(name) => write!(formatter, "did you mean `{name}`?"),
            None => write!(formatter, "{SAMPLE_FILE_NAME} has every valid one"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Nothing says how many visitors may come in.
    #[error(
        "origin is set, but nothing says how many visitors it takes: give a capacity (`--capacity N`), or a [[room]]"
    )]
    OriginWithoutRoom,
    /// Two places say how many visitors may come in.
    #[error("capacity is for a server without [[room]] tables; in a room it is called `total_active_users`")]
    CapacityBesideRooms,
    /// Nothing says who may ask for verdicts.
    #[error("ext_authz_addr is set, but nobody may ask there: name check_proxies, or a check_secret_file")]
    ExtAuthzWithoutProxies,
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file is absurdly large.
    #[error("{} is larger than {FILE_MAX_BYTES} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file is not TOML. The reason does not quote it: the line may hold a secret in the wrong place.
    #[error("{place}: not valid TOML: {reason}")]
    Syntax {
        /// Where.
        place: Place,
        /// What the parser expected.
        reason: String,
    },
    /// A key that means nothing.
    #[error("{place}: unknown key `{key}`; {hint}")]
    UnknownKey {
        /// Where.
        place: Place,
        /// The key.
        key: String,
        /// What may have been meant.
        hint: Hint,
    },
    /// A table that means nothing.
    #[error(
        "{place}: unknown table `{key}`; server settings are keys at the top of the file, and the only tables are [limits], [[limit]], [[room]] and [[destination]]"
    )]
    UnknownTable {
        /// Where.
        place: Place,
        /// The table.
        key: String,
    },
    /// A variable that means nothing.
    #[error("unknown environment variable {name}; {hint}")]
    UnknownVariable {
        /// The variable.
        name: String,
        /// What may have been meant.
        hint: Hint,
    },
    /// A variable whose value is no text. It is not repeated.
    #[error("the environment variable {name} is not valid UTF-8")]
    NotUnicode {
        /// The variable.
        name: String,
    },
    /// A server setting that TOML takes for a room's.
    #[error(
        "{place}: `{key}` is a server setting, but stands in a [[room]]; move it above the first [[room]]"
    )]
    InsideARoom {
        /// Where.
        place: Place,
        /// The setting.
        key: String,
    },
    /// The same, taken for a limit's.
    #[error(
        "{place}: `{key}` is a server setting, but stands in a [[limit]]; move it above the first [[limit]]"
    )]
    InsideALimit {
        /// Where.
        place: Place,
        /// The setting.
        key: String,
    },
    /// The same, taken for a destination's.
    #[error(
        "{place}: `{key}` is a server setting, but stands in a [[destination]]; move it above the first table"
    )]
    InsideADestination {
        /// Where.
        place: Place,
        /// The setting.
        key: String,
    },
    /// `destination` is not an array of tables.
    #[error("{place}: `destination` must be an array of tables, each written as [[destination]]")]
    DestinationsAreNotTables {
        /// Where.
        place: Place,
    },
    /// A destination without a name.
    #[error("{place}: this [[destination]] has no `name`")]
    DestinationWithoutName {
        /// Where.
        place: Place,
    },
    /// Two destinations with one name.
    #[error("{place}: the destination `{name}` was already defined on line {first_line}")]
    DestinationTwice {
        /// Where.
        place: Place,
        /// The name.
        name: String,
        /// Where the other one stands.
        first_line: usize,
    },
    /// More destinations than there may be.
    #[error("{place}: at most {DESTINATIONS_MAX} destinations are taken")]
    TooManyDestinations {
        /// Where.
        place: Place,
    },
    /// A setting under two names.
    #[error("{place}: `{key}` was already given on line {first_line}")]
    SettingTwice {
        /// Where.
        place: Place,
        /// The setting.
        key: String,
        /// Where the other one stands.
        first_line: usize,
    },
    /// `limit` is not an array of tables.
    #[error("{place}: `limit` must be an array of tables, each written as [[limit]]")]
    LimitsAreNotTables {
        /// Where.
        place: Place,
    },
    /// A limit without what every limit needs.
    #[error("{place}: this [[limit]] has no `{key}`")]
    LimitLacks {
        /// Where.
        place: Place,
        /// What it needs.
        key: &'static str,
    },
    /// A limit that says again, or otherwise, how large its budget is.
    #[error(
        "{place}: `{key}` of the limit `{name}` is said on line {first_line}; a further [[limit]] of that name only says class, paths, methods and cost"
    )]
    LimitTwice {
        /// Where.
        place: Place,
        /// The key.
        key: String,
        /// The limit.
        name: String,
        /// Where the limit begins.
        first_line: usize,
    },
    /// Limits by key, and no header that has it.
    #[error(
        "{place}: the limit `{name}` counts by key, but `limits_key_header` names no header that holds one"
    )]
    NoKeyHeader {
        /// Where.
        place: Place,
        /// The limit.
        name: String,
    },
    /// The CDN's secret taken for a key of a client.
    #[error(
        "`limits_key_header` and `origin_secret_header` are both `{header}`; what the CDN sends says nothing about its clients"
    )]
    OneHeaderTwice {
        /// The header.
        header: String,
    },
    /// More limits than a request can be compared with.
    #[error("{place}: at most {POLICIES_MAX} limits are taken")]
    TooManyLimits {
        /// Where.
        place: Place,
    },
    /// A secret in the file. Its value is not repeated.
    #[error("{place}: {}", secret_in_file(*.setting))]
    SecretInFile {
        /// Where.
        place: Place,
        /// Which.
        setting: SecretSetting,
    },
    /// A value that is not valid.
    #[error("{origin} = {value}: {explanation}")]
    Value {
        /// Who gave it.
        origin: Origin,
        /// What was written, as [`shown`] shows it.
        value: String,
        /// What is wrong with it, or what was expected.
        explanation: String,
    },
    /// `room` is not an array of tables.
    #[error("{place}: `room` must be an array of tables, each written as [[room]]")]
    RoomsAreNotTables {
        /// Where.
        place: Place,
    },
    /// A room without a name.
    #[error("{place}: this [[room]] has no `id`")]
    RoomWithoutId {
        /// Where.
        place: Place,
    },
    /// Two rooms with one name.
    #[error("{place}: the room `{id}` was already defined on line {first_line}")]
    RoomTwice {
        /// Where.
        place: Place,
        /// The name.
        id: RoomId,
        /// Where the other one stands.
        first_line: usize,
    },
    /// Two settings that need each other.
    #[error("`{given}` is set and `{missing}` is not; TLS needs both")]
    HalfAPair {
        /// The one.
        given: &'static str,
        /// The other.
        missing: &'static str,
    },
    /// Both listeners on one address.
    #[error("public_addr and private_addr are both {address}; each listener needs its own")]
    OneAddressTwice {
        /// The address.
        address: SocketAddr,
    },
}

impl Problem {
    /// The line of the file it is about.
    fn line(&self) -> Option<usize> {
        match self {
            Self::Syntax { place, .. }
            | Self::UnknownKey { place, .. }
            | Self::UnknownTable { place, .. }
            | Self::InsideARoom { place, .. }
            | Self::SecretInFile { place, .. }
            | Self::RoomsAreNotTables { place }
            | Self::RoomWithoutId { place }
            | Self::RoomTwice { place, .. }
            | Self::InsideALimit { place, .. }
            | Self::InsideADestination { place, .. }
            | Self::DestinationsAreNotTables { place }
            | Self::DestinationWithoutName { place }
            | Self::DestinationTwice { place, .. }
            | Self::TooManyDestinations { place }
            | Self::SettingTwice { place, .. }
            | Self::LimitsAreNotTables { place }
            | Self::LimitLacks { place, .. }
            | Self::LimitTwice { place, .. }
            | Self::NoKeyHeader { place, .. }
            | Self::TooManyLimits { place }
            | Self::Value { origin: Origin::Key { place, .. }, .. } => Some(place.line),
            Self::Unreadable { .. }
            | Self::TooLarge { .. }
            | Self::UnknownVariable { .. }
            | Self::NotUnicode { .. }
            | Self::Value { origin: Origin::Variable(_), .. }
            | Self::HalfAPair { .. }
            | Self::OneHeaderTwice { .. }
            | Self::OneAddressTwice { .. }
            | Self::OriginWithoutRoom
            | Self::ExtAuthzWithoutProxies
            | Self::CapacityBesideRooms => None,
        }
    }
}

fn secret_in_file(setting: SecretSetting) -> String {
    let variable = variable_name(setting.name);
    let other_way = if setting == SECRET {
        ", or put it into a file of its own and name that as `secret_file`"
    } else {
        ""
    };
    format!(
        "`{}` is a secret and does not belong in this file; give it as {variable} in the environment{other_way}",
        setting.name
    )
}

/// The valid name most like `name`, if any is like it at all.
pub fn nearest<'a>(name: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_ascii_lowercase();
    valid
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&lower, candidate), candidate))
        .filter(|(similarity, _)| *similarity >= SIMILARITY_MIN)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}

/// A refused value as it may be repeated: shortened, and without the password that a URL may hold, also one in its query.
pub fn displayed(value: &str) -> String {
    let mut shown = value.to_owned();
    if let Some((before, host)) = value.rsplit_once('@') {
        let scheme = before.split_once("://").map_or(String::new(), |(scheme, _)| format!("{scheme}://"));
        shown = format!("{scheme}***@{host}");
    }
    if let Some((before, _query)) = shown.split_once('?').filter(|(before, _)| before.contains("://")) {
        shown = format!("{before}?***");
    }
    if shown.chars().count() > SHOWN_VALUE_MAX_CHARACTERS {
        shown = shown.chars().take(SHOWN_VALUE_MAX_CHARACTERS).chain(['…']).collect();
    }
    format!("{shown:?}")
}
