//! A room's settings as one table: name, kind, default and meaning of each, spelt once.
//!
//! Configuration files, the API, stores and the reference all read [`FIELDS`]; so a setting added here exists everywhere.

use std::fmt;
use std::str::FromStr;

/// Longest time a setting may name: one year.
pub const DURATION_MAX_SECONDS: u64 = 365 * 24 * 3600;
/// Longest issuer, in bytes.
pub const ISSUER_MAX_LENGTH: usize = 512;
/// Claim window of a room without capacity, unless set.
pub const CLAIM_WINDOW_SECONDS: u64 = 900;
/// Claim window of a room with a capacity, unless set: an unclaimed offer holds a slot.
pub const CLAIM_WINDOW_CAPPED_SECONDS: u64 = 120;

/// A setting's value as configuration files and APIs write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Not set.
    None,
    /// true or false.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// A text.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("(not set)"),
            Self::Flag(flag) => flag.fmt(formatter),
            Self::Number(number) => number.fmt(formatter),
            Self::Text(text) => write!(formatter, "{text:?}"),
        }
    }
}

/// Why a setting, or the settings together, are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The name is not in the table.
    #[error("unknown setting `{0}`")]
    Unknown(String),
    /// The value does not fit the setting.
    #[error("`{name}` must be {expected}, not {found}")]
    Invalid {
        /// The setting.
        name: &'static str,
        /// What it takes.
        expected: String,
        /// What was given.
        found: String,
    },
    /// The values contradict each other.
    #[error("{0}")]
    Contradiction(&'static str),
}

/// What moves the frontier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InletKind {
    /// The operator alone.
    #[default]
    Manual,
    /// The number of visitors inside, kept at `total_active_users`.
    MaxSize,
}

impl InletKind {
    /// Every inlet, for messages and references.
    pub const ALL: [Self; 2] = [Self::Manual, Self::MaxSize];

    /// The name used everywhere.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::MaxSize => "max-size",
        }
    }

    /// Whether it keeps a capacity.
    pub const fn is_capped(self) -> bool {
        matches!(self, Self::MaxSize)
    }
}

impl FromStr for InletKind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|inlet| inlet.as_str() == text).ok_or(())
    }
}

/// A duration of 1 second to [`DURATION_MAX_SECONDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(u64);

impl Seconds {
    /// A duration, if `seconds` is within 1 and a year.
    pub const fn new(seconds: u64) -> Option<Self> {
        if seconds >= 1 && seconds <= DURATION_MAX_SECONDS { Some(Self(seconds)) } else { None }
    }

    /// The number of seconds.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A kind of setting: how it is read and written.
trait Kind: Sized {
    const EXPECTED: &'static str;
    fn to_value(&self) -> Value;
    fn from_value(value: &Value) -> Option<Self>;
}

impl Kind for bool {
    const EXPECTED: &'static str = "true or false";
    fn to_value(&self) -> Value {
        Value::Flag(*self)
    }
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Flag(flag) = value { Some(*flag) } else { None }
    }
}

impl Kind for Seconds {
    const EXPECTED: &'static str = "a whole number of seconds from 1 to 31536000";
    fn to_value(&self) -> Value {
        Value::Number(i64::try_from(self.0).unwrap_or(i64::MAX))
    }
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Number(number) = value { Self::new(u64::try_from(*number).ok()?) } else { None }
    }
}

impl Kind for u64 {
    const EXPECTED: &'static str = "a whole number from 0 to 9223372036854775807";
    fn to_value(&self) -> Value {
        Value::Number(i64::try_from(*self).unwrap_or(i64::MAX))
    }
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Number(number) = value { Self::try_from(*number).ok() } else { None }
    }
}

impl Kind for String {
    const EXPECTED: &'static str = "a text of 1 to 512 visible characters without spaces";
    fn to_value(&self) -> Value {
        Value::Text(self.clone())
    }
    fn from_value(value: &Value) -> Option<Self> {
        let Value::Text(text) = value else { return None };
        is_issuer(text).then(|| text.clone())
    }
}

/// Whether a text can stand as an issuer: visible, without spaces, of bounded length.
pub fn is_issuer(text: &str) -> bool {
    !text.is_empty() && text.len() <= ISSUER_MAX_LENGTH && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// An address that a browser can go to, of bounded length. Anything else (such as `javascript:`) would be a trap for whoever
/// follows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebAddress(String);

impl WebAddress {
    /// The address, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
        let named = host.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric() || first == b'[');
        (named && is_issuer(text)).then(|| Self(text.to_owned()))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Kind for WebAddress {
    const EXPECTED: &'static str =
        "an address that begins with https:// or http://, of up to 512 visible characters";
    fn to_value(&self) -> Value {
        Value::Text(self.0.clone())
    }
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Text(text) = value { Self::parse(text) } else { None }
    }
}

impl Kind for InletKind {
    const EXPECTED: &'static str = "\"manual\" or \"max-size\"";
    fn to_value(&self) -> Value {
        Value::Text(self.as_str().to_owned())
    }
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Text(text) = value { text.parse().ok() } else { None }
    }
}

impl<K: Kind> Kind for Option<K> {
    const EXPECTED: &'static str = K::EXPECTED;
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::None, Kind::to_value)
    }
    fn from_value(value: &Value) -> Option<Self> {
        if *value == Value::None { Some(None) } else { K::from_value(value).map(Some) }
    }
}

/// One row of the table of settings.
pub struct Field {
    /// Its name in files, APIs and documents.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What values it takes.
    pub expected: &'static str,
    /// Reads it.
    pub get: fn(&Settings) -> Value,
    set: fn(&mut Settings, &Value) -> bool,
}

macro_rules! settings {
    ($( $(#[doc = $meaning:literal])+ $name:ident: $kind:ty = $default:expr, )+) => {
        /// What an operator may set on a room; everything can change while it runs.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Settings { $( $(#[doc = $meaning])+ pub $name: $kind, )+ }

        impl Default for Settings {
            fn default() -> Self {
                Self { $( $name: $default, )+ }
            }
        }

        /// Every setting, in the order of the reference.
        pub const FIELDS: &[Field] = &[ $( Field {
            name: stringify!($name),
            meaning: concat!($($meaning),+),
            expected: <$kind as Kind>::EXPECTED,
            get: |settings| settings.$name.to_value(),
            set: |settings, value| {
                let parsed = <$kind as Kind>::from_value(value);
                parsed.map(|parsed| settings.$name = parsed).is_some()
            },
        }, )+ ];
    };
}

settings! {
    /// What moves the frontier.
    inlet: InletKind = InletKind::Manual,
    /// The capacity of a `max-size` room: visitors inside plus open offers.
    total_active_users: Option<u64> = None,
    /// How long a pass, and the session that goes with it, is valid.
    validity_period: Seconds = Seconds(3600),
    /// Whether an offer that is not claimed in time lapses.
    enable_queue_position_expiry: bool = true,
    /// The claim window; 900 when not set, 120 in a room with a capacity.
    queue_position_expiry_period: Option<Seconds> = None,
    /// Whether the frontier moves on by as many positions as lapsed (inherent in a room with a capacity).
    incr_svc_on_queue_position_expiry: bool = false,
    /// `iss` of the passes; the server's public URL when not set.
    issuer: Option<String> = None,
    /// Where an admitted visitor goes, told together with the pass.
    backend_uri: Option<WebAddress> = None,
    /// Whether `/refresh` gives no new access token, so that a visit ends with its first pass.
    disable_session_renewal: bool = false,
}

/// A setting of the design that a later version brings: not taken for a typing error, and not taken at all.
pub struct PlannedSetting {
    /// Its name.
    pub name: &'static str,
    /// Its default, as the reference will write it.
    pub default: &'static str,
    /// The issue that builds what it sets.
    pub issue: u8,
}

const fn planned(name: &'static str, default: &'static str, issue: u8) -> PlannedSetting {
    PlannedSetting { name, default, issue }
}

/// Settings that do nothing yet, so that nobody relies on them.
pub const PLANNED: &[PlannedSetting] = &[
    planned("enable_events_generation", "false", 8),
    planned("increment_by", "10", 4),
    planned("interval_seconds", "60", 4),
    planned("start_time", "0", 4),
    planned("end_time", "0", 4),
    planned("alarms", "[]", 4),
    planned("run_ahead", "false", 4),
    planned("window_size", "", 4),
    planned("active_windows", "2", 4),
    planned("discipline", "counter", 4),
    planned("round_seconds", "10", 4),
    planned("new_users_per_minute", "", 4),
    planned("session_duration", "", 6),
    planned("queueing_method", "", 6),
    planned("queueing_status_code", "", 6),
    planned("queue_all", "", 6),
];

impl Settings {
    /// Sets one setting by its name.
    pub fn set(&mut self, name: &str, value: &Value) -> Result<(), SettingsError> {
        let field = FIELDS.iter().find(|field| field.name == name);
        let field = field.ok_or_else(|| SettingsError::Unknown(name.to_owned()))?;
        if (field.set)(self, value) {
            return Ok(());
        }
        Err(SettingsError::Invalid {
            name: field.name,
            expected: field.expected.to_owned(),
            found: value.to_string(),
        })
    }

    /// Checks that the settings make sense together.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.inlet.is_capped() && self.total_active_users.is_none() {
            return Err(SettingsError::Contradiction(
                "inlet \"max-size\" needs `total_active_users`, its capacity",
            ));
        }
        if self.inlet.is_capped() && !self.enable_queue_position_expiry {
            return Err(SettingsError::Contradiction(
                "inlet \"max-size\" needs `enable_queue_position_expiry`: an offer that never lapses would hold its slot for ever",
            ));
        }
        Ok(())
    }

    /// The capacity, for an inlet that keeps one.
    pub fn capacity(&self) -> Option<u64> {
        if self.inlet.is_capped() { self.total_active_users } else { None }
    }

    /// How long an offer stands, in milliseconds; `None` if for ever.
    pub fn claim_window_millis(&self) -> Option<u64> {
        let by_inlet =
            if self.inlet.is_capped() { CLAIM_WINDOW_CAPPED_SECONDS } else { CLAIM_WINDOW_SECONDS };
        let seconds = self.queue_position_expiry_period.map_or(by_inlet, Seconds::get);
        self.enable_queue_position_expiry.then_some(seconds * 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_reads_back_what_was_set() {
        let defaults = Settings::default();
        for field in FIELDS {
            let mut settings = Settings::default();
            settings.set(field.name, &(field.get)(&defaults)).unwrap();
            assert_eq!(settings, defaults, "{}", field.name);
            assert!(!field.meaning.trim().is_empty());
        }
    }

    #[test]
    fn refusals_name_the_setting_and_what_it_takes() {
        let mut settings = Settings::default();
        let refused = settings.set("validity_period", &Value::Number(0)).unwrap_err().to_string();
        assert_eq!(refused, "`validity_period` must be a whole number of seconds from 1 to 31536000, not 0");
        let refused = settings.set("inlet", &Value::Text("fast".into())).unwrap_err().to_string();
        assert_eq!(refused, "`inlet` must be \"manual\" or \"max-size\", not \"fast\"");
        assert_eq!(settings.set("nope", &Value::None), Err(SettingsError::Unknown("nope".into())));
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn a_capped_inlet_needs_a_capacity_and_a_claim_window() {
        let mut settings = Settings { inlet: InletKind::MaxSize, ..Settings::default() };
        assert!(settings.check().is_err());
        settings.total_active_users = Some(5);
        settings.check().unwrap();
        assert_eq!(settings.claim_window_millis(), Some(120_000));
        settings.enable_queue_position_expiry = false;
        assert!(settings.check().is_err());
    }
}
