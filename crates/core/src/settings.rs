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
    /// Several texts.
    List(Vec<String>),
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("(not set)"),
            Self::Flag(flag) => flag.fmt(formatter),
            Self::Number(number) => number.fmt(formatter),
            Self::Text(text) => write!(formatter, "{text:?}"),
            Self::List(texts) => write!(formatter, "{texts:?}"),
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
    /// The clock: `increment_by` positions every `interval_seconds`.
    Periodic,
    /// The number of visitors inside, kept at `total_active_users`.
    MaxSize,
    /// The clock: a window of `window_size` people every `interval_seconds`, the last `active_windows` of which may claim.
    Window,
    /// The number of visitors inside, kept at a capacity that follows how the origin fares.
    Adaptive,
}

impl InletKind {
    /// Every inlet, for messages and references.
    pub const ALL: [Self; 5] = [Self::Manual, Self::Periodic, Self::MaxSize, Self::Window, Self::Adaptive];

    /// The name used everywhere.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Periodic => "periodic",
            Self::MaxSize => "max-size",
            Self::Window => "window",
            Self::Adaptive => "adaptive",
        }
    }

    /// Whether it keeps a capacity.
    pub const fn is_capped(self) -> bool {
        matches!(self, Self::MaxSize | Self::Adaptive)
    }
}

/// Who among the waiting may claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Discipline {
    /// Everybody up to the frontier.
    #[default]
    Counter,
    /// Each round, as many of those present as there are free slots, the earliest first.
    Auction,
}

impl Discipline {
    /// Both, for messages and references.
    pub const ALL: [Self; 2] = [Self::Counter, Self::Auction];

    /// The name used everywhere.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Auction => "auction",
        }
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

/// A number that `LEAST` and `MOST` bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bounded<const LEAST: u64, const MOST: u64>(u64);

impl<const LEAST: u64, const MOST: u64> Bounded<LEAST, MOST> {
    /// The number, if it is within the bounds.
    pub const fn new(number: u64) -> Option<Self> {
        if number >= LEAST && number <= MOST { Some(Self(number)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// How many people an inlet moves at a time.
pub type People = Bounded<1, 1_000_000_000>;
/// How many windows may claim at once.
pub type Windows = Bounded<1, 64>;
/// A latency in milliseconds, up to ten minutes.
pub type Latency = Bounded<1, 600_000>;
/// A share in thousandths.
pub type Thousandths = Bounded<0, 1000>;
/// A duration of a second to an hour.
pub type ShortSeconds = Bounded<1, 3600>;

macro_rules! bounded_kind {
    ($kind:ty, $expected:literal) => {
        impl Kind for $kind {
            const EXPECTED: &'static str = $expected;
            fn to_value(&self) -> Value {
                Value::Number(i64::try_from(self.0).unwrap_or(i64::MAX))
            }
            fn from_value(value: &Value) -> Option<Self> {
                if let Value::Number(number) = value { Self::new(u64::try_from(*number).ok()?) } else { None }
            }
        }
    };
}

bounded_kind!(People, "a whole number from 1 to 1000000000");
bounded_kind!(Windows, "a whole number from 1 to 64");
bounded_kind!(Latency, "a whole number of milliseconds from 1 to 600000");
bounded_kind!(Thousandths, "a whole number from 0 to 1000");
bounded_kind!(ShortSeconds, "a whole number of seconds from 1 to 3600");

/// How many alarms a room may name.
pub const ALARMS_MAX: usize = 16;
/// Longest name of an alarm, in bytes.
pub const ALARM_NAME_MAX_LENGTH: usize = 128;

/// Whether a text can name an alarm: visible characters and single spaces, of bounded length.
pub fn is_alarm_name(text: &str) -> bool {
    let fits = !text.is_empty() && text.len() <= ALARM_NAME_MAX_LENGTH && text.trim() == text;
    fits && text.chars().all(|character| !character.is_control())
}

/// Names of alarms, none of them twice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AlarmNames(Vec<String>);

impl AlarmNames {
    /// The names, if each is one and there are not too many.
    pub fn new(mut names: Vec<String>) -> Option<Self> {
        names.sort();
        names.dedup();
        (names.len() <= ALARMS_MAX && names.iter().all(|name| is_alarm_name(name))).then_some(Self(names))
    }

    /// In order.
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }
}

impl Kind for AlarmNames {
    const EXPECTED: &'static str = "a list of up to 16 names of alarms, each of 1 to 128 characters";
    fn to_value(&self) -> Value {
        Value::List(self.0.clone())
    }
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::List(names) = value { Self::new(names.clone()) } else { None }
    }
}

/// Longest notice, in bytes.
pub const NOTICE_MAX_LENGTH: usize = 1000;

/// What an operator tells those who wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice(String);

impl Notice {
    /// The text, if it is neither empty nor too long, and has no control characters but line ends.
    pub fn new(text: &str) -> Option<Self> {
        let visible = text.chars().all(|character| character == '\n' || !character.is_control());
        (visible && !text.trim().is_empty() && text.len() <= NOTICE_MAX_LENGTH).then(|| Self(text.to_owned()))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Kind for Notice {
    const EXPECTED: &'static str = "a text of 1 to 1000 bytes, without control characters";
    fn to_value(&self) -> Value {
        Value::Text(self.0.clone())
    }
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Text(text) = value { Self::new(text) } else { None }
    }
}

impl Kind for Discipline {
    const EXPECTED: &'static str = "\"counter\" or \"auction\"";
    fn to_value(&self) -> Value {
        Value::Text(self.as_str().to_owned())
    }
    fn from_value(value: &Value) -> Option<Self> {
        let Value::Text(text) = value else { return None };
        Self::ALL.into_iter().find(|discipline| discipline.as_str() == text)
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
    const EXPECTED: &'static str = "\"manual\", \"periodic\", \"max-size\", \"window\" or \"adaptive\"";
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
    /// The capacity of a `max-size` room: visitors inside plus open offers. The most that an `adaptive` room may let in.
    total_active_users: Option<u64> = None,
    /// How many more people a room with a capacity offers a place to within a minute, spread over steps of `interval_seconds`.
    new_users_per_minute: Option<People> = None,
    /// How many positions a `periodic` step moves the frontier.
    increment_by: People = Bounded(10),
    /// Time between two steps of a `periodic` or `window` inlet, and of `new_users_per_minute`.
    interval_seconds: Seconds = Seconds(60),
    /// When an automatic inlet begins to move the frontier, in seconds since 1970; 0 means at once.
    start_time: u64 = 0,
    /// When it ends, in seconds since 1970; 0 means never.
    end_time: u64 = 0,
    /// Alarms that hold an automatic inlet while one of them fires.
    alarms: AlarmNames = AlarmNames(Vec::new()),
    /// Whether `periodic` steps go on while nobody waits, so that a quiet time saves up places for whoever comes next.
    run_ahead: bool = false,
    /// How many people a `window` holds.
    window_size: Option<People> = None,
    /// How many windows may claim at once: older offers lapse. At least 2 is advised.
    active_windows: Windows = Bounded(2),
    /// The least that an `adaptive` room lets in, however the origin fares.
    adaptive_floor: u64 = 1,
    /// The latency, as the origin's 95th percentile in milliseconds, that an `adaptive` room aims at.
    target_latency_ms: Latency = Bounded(500),
    /// The share of failed requests, in thousandths, that an `adaptive` room tolerates.
    target_errors_per_thousand: Thousandths = Bounded(20),
    /// Who among the waiting may claim: everybody up to the frontier, or each round's winners.
    discipline: Discipline = Discipline::Counter,
    /// Time between two rounds of an auction, and between two adjustments of an `adaptive` inlet. A reporter silent for three
    /// of them counts as full.
    round_seconds: ShortSeconds = Bounded(10),
    /// How long after it was issued a pass may be used for the first time, where the origin reports its capacity.
    enter_by_seconds: ShortSeconds = Bounded(30),
    /// What the operator tells those who wait.
    notice: Option<Notice> = None,
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
        let contradictions: [(bool, &'static str); 9] = [
            (
                self.inlet.is_capped() && self.total_active_users.is_none(),
                "an inlet with a capacity (\"max-size\", \"adaptive\") needs `total_active_users`",
            ),
            (
                self.inlet.is_capped() && !self.enable_queue_position_expiry,
                "an inlet with a capacity needs `enable_queue_position_expiry`: an offer that never lapses would hold its slot for ever",
            ),
            (
                self.inlet == InletKind::Window && self.window_size.is_none(),
                "inlet \"window\" needs `window_size`",
            ),
            (
                self.inlet == InletKind::Window && !self.enable_queue_position_expiry,
                "inlet \"window\" needs `enable_queue_position_expiry`: what is older than `active_windows` lapses",
            ),
            (
                self.end_time != 0 && self.end_time <= self.start_time,
                "`end_time` must be later than `start_time`, or 0",
            ),
            (
                self.inlet == InletKind::Adaptive
                    && self.total_active_users.is_some_and(|most| most < self.adaptive_floor),
                "`adaptive_floor` must not be above `total_active_users`",
            ),
            (
                self.new_users_per_minute.is_some() && !self.inlet.is_capped(),
                "`new_users_per_minute` goes with `total_active_users`, in a room whose inlet has a capacity",
            ),
            (
                self.new_users_per_minute.is_some() && self.interval_seconds.get() > 60,
                "with `new_users_per_minute`, `interval_seconds` must be at most 60",
            ),
            (
                self.discipline == Discipline::Auction
                    && matches!(self.inlet, InletKind::Periodic | InletKind::Window),
                "an auction gives away free slots: its inlet is \"max-size\", \"adaptive\", or \"manual\" with capacity reports alone",
            ),
        ];
        match contradictions.into_iter().find(|(contradicts, _)| *contradicts) {
            Some((_, text)) => Err(SettingsError::Contradiction(text)),
            None => Ok(()),
        }
    }

    /// The capacity as it was set, for an inlet that keeps one.
    pub fn capacity(&self) -> Option<u64> {
        if self.inlet.is_capped() { self.total_active_users } else { None }
    }

    /// Whether it holds auctions.
    pub fn is_auction(&self) -> bool {
        self.discipline == Discipline::Auction
    }

    /// How long an offer stands, in milliseconds; `None` if no clock ends it. In a `window` room newer windows do, and a clock
    /// only if one is set.
    pub fn claim_window_millis(&self) -> Option<u64> {
        let by_inlet = match self.inlet {
            InletKind::MaxSize | InletKind::Adaptive => Some(CLAIM_WINDOW_CAPPED_SECONDS),
            InletKind::Manual | InletKind::Periodic => Some(CLAIM_WINDOW_SECONDS),
            InletKind::Window => None,
        };
        let seconds = self.queue_position_expiry_period.map(Seconds::get).or(by_inlet);
        seconds.filter(|_| self.enable_queue_position_expiry).map(|seconds| seconds * 1000)
    }

    /// Time between two steps of the timetable, in milliseconds, for an inlet that has one.
    pub fn step_interval_millis(&self) -> Option<u64> {
        let stepped = match self.inlet {
            InletKind::Periodic | InletKind::Window => true,
            InletKind::MaxSize | InletKind::Adaptive => self.new_users_per_minute.is_some(),
            InletKind::Manual => false,
        };
        stepped.then_some(self.interval_seconds.get() * 1000)
    }

    /// Time between two rounds, in milliseconds.
    pub const fn round_millis(&self) -> u64 {
        self.round_seconds.get() * 1000
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
        assert_eq!(
            refused,
            "`inlet` must be \"manual\", \"periodic\", \"max-size\", \"window\" or \"adaptive\", not \"fast\""
        );
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
