//! The kinds of settings: what each takes, and how it is read and written.

use std::fmt;
use std::str::FromStr;

/// Longest time a setting may name: one year.
pub const DURATION_MAX_SECONDS: u64 = 365 * 24 * 3600;
/// Longest issuer, in bytes.
pub const ISSUER_MAX_LENGTH: usize = 512;

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
pub struct Seconds(pub(super) u64);

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
pub(super) trait Kind: Sized {
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
pub struct Bounded<const LEAST: u64, const MOST: u64>(pub(super) u64);

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
/// A share in hundredths, not nothing.
pub type Percent = Bounded<1, 100>;
/// A share in thousandths.
pub type Thousandths = Bounded<0, 1000>;
/// A duration of a second to an hour.
pub type ShortSeconds = Bounded<1, 3600>;
/// The longest that a room stays with the signing key before the newest, in seconds: thirty days.
pub const KEY_OVERLAP_MAX_SECONDS: u64 = 2_592_000;
/// How long a room stays with the signing key before the newest.
pub type KeyOverlap = Bounded<0, KEY_OVERLAP_MAX_SECONDS>;

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
bounded_kind!(Percent, "a whole number from 1 to 100");
bounded_kind!(Thousandths, "a whole number from 0 to 1000");
bounded_kind!(ShortSeconds, "a whole number of seconds from 1 to 3600");
bounded_kind!(KeyOverlap, "a whole number of seconds from 0 to 2592000");

/// How many alarms a room may name.
pub const ALARMS_MAX: usize = 16;
/// Longest name of an alarm, in bytes.
pub const ALARM_NAME_MAX_LENGTH: usize = 128;

/// Whether a text can name an alarm: of bounded length, without control characters and without a space at either end.
pub fn is_alarm_name(text: &str) -> bool {
    let fits = !text.is_empty() && text.len() <= ALARM_NAME_MAX_LENGTH && text.trim() == text;
    fits && text.chars().all(|character| !character.is_control())
}

/// Names of alarms, none of them twice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AlarmNames(pub(super) Vec<String>);

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

/// An address that a browser can go to, of bounded length. Anything else (such as `javascript:`) would attack the visitor who
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
