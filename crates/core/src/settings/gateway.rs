//! The kinds of settings that only the gateway uses: which requests are a room's, what becomes of those that wait, and which
//! pass by.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use super::kinds::{Kind, Value};

/// How many entries a list may have.
pub const LISTED_MAX: usize = 64;
/// Longest entry of a list, in bytes.
pub const LISTED_MAX_LENGTH: usize = 256;

/// One entry of a list.
pub(super) trait ListEntry: Sized + PartialEq + fmt::Display {
    const EXPECTED: &'static str;
    fn parse(text: &str) -> Option<Self>;
}

/// Several entries in the order they were written, none of them twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<Entry>(Vec<Entry>);

impl<Entry> Default for List<Entry> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<Entry> List<Entry> {
    /// The entries.
    pub fn as_slice(&self) -> &[Entry] {
        &self.0
    }
}

impl<Entry: ListEntry> Kind for List<Entry> {
    const EXPECTED: &'static str = Entry::EXPECTED;
    fn to_value(&self) -> Value {
        Value::List(self.0.iter().map(ToString::to_string).collect())
    }
    fn from_value(value: &Value) -> Option<Self> {
        let Value::List(texts) = value else { return None };
        if texts.len() > LISTED_MAX {
            return None;
        }
        let mut entries: Vec<Entry> = Vec::with_capacity(texts.len());
        for text in texts {
            let entry = Entry::parse(text).filter(|_| text.len() <= LISTED_MAX_LENGTH)?;
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
        Some(Self(entries))
    }
}

/// The name of a host without a port, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName(String);

impl HostName {
    /// As requests should be compared with it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl ListEntry for HostName {
    const EXPECTED: &'static str = "a list of up to 64 hosts such as \"shop.example\", without a port";
    fn parse(text: &str) -> Option<Self> {
        is_host(text).then(|| Self(text.to_ascii_lowercase()))
    }
}

/// A name, an IPv4 address, or an IPv6 address in brackets.
pub(super) fn is_host(text: &str) -> bool {
    const NAME_MAX_LENGTH: usize = 253;
    const LABEL_MAX_LENGTH: usize = 63;
    if let Some(bracketed) = text.strip_prefix('[') {
        return bracketed.strip_suffix(']').is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
    }
    let is_label = |label: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=LABEL_MAX_LENGTH).contains(&label.len())
            && label.bytes().all(allowed)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= NAME_MAX_LENGTH && text.split('.').all(is_label)
}

/// The beginning of a path, in whole segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPrefix(String);

impl PathPrefix {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A prefix in a spelling that no operator could write, because it has other characters.
    pub const fn of_decoded(text: String) -> Self {
        Self(text)
    }

    /// Whether a path is this one or lies below it: `/shop` covers `/shop` and `/shop/cart`, not `/shopping`.
    pub fn covers(&self, path: &str) -> bool {
        let rest = path.strip_prefix(&self.0);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || self.0.ends_with('/'))
    }
}

impl fmt::Display for PathPrefix {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl ListEntry for PathPrefix {
    const EXPECTED: &'static str =
        "a list of up to 64 beginnings of paths such as \"/shop\", without \"?\" and \"#\"";
    fn parse(text: &str) -> Option<Self> {
        let allowed = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#');
        (text.starts_with('/') && text.bytes().all(allowed)).then(|| Self(text.to_owned()))
    }
}

/// Where an origin is: scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginUrl(String);

impl OriginUrl {
    /// In lower case, without a slash at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OriginUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl ListEntry for OriginUrl {
    const EXPECTED: &'static str =
        "a list of up to 64 addresses such as \"https://shop.example:8443\", without a path";
    fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let text = text.strip_suffix('/').unwrap_or(&text);
        let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
        let (host, port) = match authority.rsplit_once(':') {
            // The last colon of an address in brackets is not one before a port.
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let is_port = |port: &str| {
            port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
        };
        (is_host(host) && port.is_none_or(is_port)).then(|| Self(text.to_owned()))
    }
}

/// Which requests pass by the room: no place in line, no session, straight to the origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BypassRule {
    /// `path:/health`: those to this path and below.
    Path(PathPrefix),
    /// `cidr:10.0.0.0/8`: those from these addresses.
    Cidr(Cidr),
    /// `header:x-probe` or `header:x-probe=yes`: those with this header.
    Header(NameAndValue),
    /// `cookie:staff` or `cookie:staff=yes`: those with this cookie.
    Cookie(NameAndValue),
    /// `method:OPTIONS`: those of this method.
    Method(String),
}

impl fmt::Display for BypassRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(prefix) => write!(formatter, "path:{prefix}"),
            Self::Cidr(cidr) => write!(formatter, "cidr:{cidr}"),
            Self::Header(named) => write!(formatter, "header:{named}"),
            Self::Cookie(named) => write!(formatter, "cookie:{named}"),
            Self::Method(method) => write!(formatter, "method:{method}"),
        }
    }
}

impl ListEntry for BypassRule {
    const EXPECTED: &'static str = "a list of up to 64 rules such as \"path:/health\", \"cidr:10.0.0.0/8\", \
         \"header:name=value\", \"cookie:name\" or \"method:OPTIONS\"";
    fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "path" => PathPrefix::parse(rest).map(Self::Path),
            "cidr" => Cidr::parse(rest).map(Self::Cidr),
            // The names of headers have no case, those of cookies do.
            "header" => NameAndValue::parse(rest).map(NameAndValue::in_lower_case).map(Self::Header),
            "cookie" => NameAndValue::parse(rest).map(Self::Cookie),
            "method" => {
                let is_method = !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_uppercase());
                is_method.then(|| Self::Method(rest.to_owned()))
            }
            _ => None,
        }
    }
}

/// A name, and perhaps the value that must go with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameAndValue {
    /// In lower case, if it is a header's.
    pub name: String,
    /// `None`: whatever it is.
    pub value: Option<String>,
}

impl NameAndValue {
    fn parse(text: &str) -> Option<Self> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let is_value = |value: &str| {
            !value.is_empty() && value.trim() == value && value.bytes().all(is_visible_or_space)
        };
        let fits = !name.is_empty() && name.bytes().all(is_token) && value.is_none_or(is_value);
        fits.then(|| Self { name: name.to_owned(), value: value.map(str::to_owned) })
    }

    fn in_lower_case(self) -> Self {
        Self { name: self.name.to_ascii_lowercase(), ..self }
    }

    /// Whether a value that goes by this name is the one.
    pub fn accepts(&self, value: &str) -> bool {
        self.value.as_deref().is_none_or(|wanted| wanted == value)
    }
}

const fn is_visible_or_space(byte: u8) -> bool {
    byte.is_ascii_graphic() || byte == b' '
}

impl fmt::Display for NameAndValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)?;
        match &self.value {
            Some(value) => write!(formatter, "={value}"),
            None => Ok(()),
        }
    }
}

/// The addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    /// One of them; an IPv4 address is always written as one.
    network: IpAddr,
    /// How many bits they share.
    bits: u8,
}

impl Cidr {
    /// `10.0.0.0/8`, `2001:db8::/32`, or one address.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let network: IpAddr = address.parse().ok()?;
        let most = if network.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => bits.parse().ok()?,
            Some(_) => return None,
            None => most,
        };
        (bits <= most).then_some(Self { network, bits })
    }

    /// Whether an address is one of them. An IPv4 address written as an IPv6 one is an IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let shared = |one: u128, other: u128, width: u8| {
            // All bits may differ: a shift by the whole width is none.
            let shift = u32::from(width - self.bits);
            (one ^ other).checked_shr(shift).is_none_or(|different| different == 0)
        };
        match (self.network, address.to_canonical()) {
            (IpAddr::V4(one), IpAddr::V4(other)) => {
                shared(u128::from(one.to_bits()), u128::from(other.to_bits()), 32)
            }
            (IpAddr::V6(one), IpAddr::V6(other)) => shared(one.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.network, self.bits)
    }
}

/// A setting that is one of a few words.
macro_rules! words {
    ($(#[doc = $about:literal])+ $name:ident, $expected:literal: $( $(#[doc = $meaning:literal])+ $variant:ident = $word:literal, )+) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $( $(#[doc = $meaning])+ $variant, )+ }

        impl $name {
            /// Every one, for messages and references.
            pub const ALL: &[Self] = &[ $( Self::$variant, )+ ];

            /// The word used everywhere.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }
        }

        impl Kind for $name {
            const EXPECTED: &'static str = $expected;
            fn to_value(&self) -> Value {
                Value::Text(self.as_str().to_owned())
            }
            fn from_value(value: &Value) -> Option<Self> {
                let Value::Text(text) = value else { return None };
                Self::ALL.iter().copied().find(|one| one.as_str() == text)
            }
        }
    };
}

pub(super) use words;

words! {
    /// Which events of visitors are kept.
    VisitorEvents, "\"auto\", \"always\" or \"never\"":
    /// Those that a destination asks for.
    Auto = "auto",
    /// All of them.
    Always = "always",
    /// None.
    Never = "never",
}

words! {
    /// What becomes of a visitor for whom no slot is free.
    QueueingMethod, "\"fifo\", \"passthrough\" or \"reject\"":
    /// The visitor gets a place in line.
    Fifo = "fifo",
    /// Everybody goes straight to the origin, with nothing counted.
    Passthrough = "passthrough",
    /// The visitor is turned away.
    Reject = "reject",
}

words! {
    /// Who may take a place in line.
    JoinMode, "\"page\" or \"open\"":
    /// Visitors who open a page, once their cookie has come back.
    Page = "page",
    /// Also programs, by the API.
    Open = "open",
}

words! {
    /// What becomes of new visitors while the store cannot be reached.
    OnStoreLoss, "\"hold\", \"steady\" or \"open\"":
    /// They wait.
    Hold = "hold",
    /// They are let in at the last known rate, which decays.
    Steady = "steady",
    /// They are let in.
    Open = "open",
}

/// The status with which the waiting page is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueingStatus(u16);

impl QueueingStatus {
    /// Unless set otherwise.
    pub const OK: Self = Self(200);
    /// Those there are, for messages and references.
    pub const ALL: [Self; 3] = [Self::OK, Self(202), Self(429)];

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl Kind for QueueingStatus {
    const EXPECTED: &'static str = "200, 202 or 429";
    fn to_value(&self) -> Value {
        Value::Number(self.0.into())
    }
    fn from_value(value: &Value) -> Option<Self> {
        let Value::Number(number) = value else { return None };
        Self::ALL.into_iter().find(|status| i64::from(status.0) == *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    fn list(texts: &[&str]) -> Value {
        Value::List(texts.iter().map(|&text| text.to_owned()).collect())
    }

    /// What a list reads back as after it was set; `None` if it is refused.
    fn set(name: &str, texts: &[&str]) -> Option<Value> {
        let mut settings = Settings::default();
        settings.set(name, &list(texts)).ok()?;
        let field = crate::settings::FIELDS.iter().find(|field| field.name == name).unwrap();
        Some((field.get)(&settings))
    }

    #[test]
    fn hosts_are_names_or_addresses_without_a_port_in_lower_case() {
        let good =
            ["Shop.Example", "localhost", "127.0.0.1", "[::1]", "xn--bcher-kva.example", "a_b.example"];
        let lower: Vec<String> = good.iter().map(|host| host.to_ascii_lowercase()).collect();
        assert_eq!(set("hosts", &good), Some(Value::List(lower)));
        for bad in
            ["", "shop.example:80", "shop..example", "-a.example", "a b", "ä.example", "::1", "*.a", "a."]
        {
            assert_eq!(set("hosts", &[bad]), None, "{bad:?}");
        }
        assert_eq!(set("hosts", &["a", "A", "a"]), Some(list(&["a"])), "none of them twice");
        assert_eq!(set("hosts", &[&"x".repeat(64)]), None, "a label of 64 characters");
        let many: Vec<String> = (0..=LISTED_MAX).map(|number| format!("host{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(set("hosts", &many[1..]).is_some());
        assert_eq!(set("hosts", &many), None, "one too many");
    }

    #[test]
    fn a_path_covers_itself_and_what_lies_below() {
        for bad in ["", "shop", "/a?b", "/a#b", "/a b", "/ä", &format!("/{}", "a".repeat(LISTED_MAX_LENGTH))]
        {
            assert_eq!(set("paths", &[bad]), None, "{bad:?}");
        }
        let shop = PathPrefix::parse("/shop").unwrap();
        assert!(shop.covers("/shop") && shop.covers("/shop/") && shop.covers("/shop/cart"));
        assert!(!shop.covers("/shopping") && !shop.covers("/") && !shop.covers("/Shop"));
        let below = PathPrefix::parse("/shop/").unwrap();
        assert!(below.covers("/shop/") && below.covers("/shop/cart") && !below.covers("/shop"));
        assert!(PathPrefix::parse("/").unwrap().covers("/anything"));
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let good = ["http://127.0.0.1:8000", "https://shop.example", "https://[::1]:8443", "http://[::1]"];
        assert_eq!(set("origins", &good), Some(list(&good)));
        assert_eq!(set("origins", &["HTTP://Shop.Example/"]), Some(list(&["http://shop.example"])));
        let bad = [
            "",
            "shop.example",
            "ftp://shop.example",
            "http://",
            "http://a/b",
            "http://a?b",
            "http://user@a",
            "http://a:0",
            "http://a:65536",
            "http://a:",
            "http://a:+1",
            "http://a//",
        ];
        for bad in bad {
            assert_eq!(set("origins", &[bad]), None, "{bad:?}");
        }
    }

    #[test]
    fn each_rule_of_bypass_is_read_back_as_it_was_written() {
        let good = [
            "path:/health",
            "cidr:10.0.0.0/8",
            "cidr:2001:db8::/32",
            "header:x-probe",
            "header:x-probe=a=b c",
            "cookie:Staff",
            "cookie:Staff=yes",
            "method:OPTIONS",
        ];
        assert_eq!(set("bypass", &good), Some(list(&good)));
        assert_eq!(set("bypass", &["cidr:10.1.2.3"]), Some(list(&["cidr:10.1.2.3/32"])));
        assert_eq!(set("bypass", &["header:X-Probe=Yes"]), Some(list(&["header:x-probe=Yes"])));
        let bad = [
            "",
            "path",
            "path:health",
            "cidr:10.0.0.0/33",
            "cidr:10.0.0.0/",
            "cidr:10.0.0.0/+8",
            "cidr:ten",
            "header:",
            "header:a b",
            "header:=x",
            "header:a=",
            "header:a=\n",
            "cookie:a= x",
            "method:options",
            "method:",
            "host:a",
        ];
        for bad in bad {
            assert_eq!(set("bypass", &[bad]), None, "{bad:?}");
        }
    }

    #[test]
    fn a_network_contains_the_addresses_that_begin_with_its_bits() {
        let contains =
            |cidr: &str, address: &str| Cidr::parse(cidr).unwrap().contains(address.parse().unwrap());
        assert!(contains("10.0.0.0/8", "10.255.0.1") && !contains("10.0.0.0/8", "11.0.0.0"));
        assert!(contains("10.1.2.3/8", "10.9.9.9"), "bits beyond the prefix do not count");
        assert!(contains("0.0.0.0/0", "203.0.113.9") && !contains("0.0.0.0/0", "::1"));
        assert!(contains("::/0", "2001:db8::1") && !contains("::/0", "10.0.0.1"));
        assert!(contains("192.0.2.7", "192.0.2.7") && !contains("192.0.2.7", "192.0.2.6"));
        assert!(
            contains("2001:db8::/33", "2001:db8:7fff::1") && !contains("2001:db8::/33", "2001:db8:8000::1")
        );
        assert!(contains("10.0.0.0/8", "::ffff:10.0.0.1"), "an IPv4 address in the clothes of an IPv6 one");
    }

    #[test]
    fn words_and_statuses_are_those_of_their_lists() {
        let mut settings = Settings::default();
        for (name, values) in [
            ("queueing_method", QueueingMethod::ALL.iter().map(|one| one.as_str()).collect::<Vec<_>>()),
            ("visitor_events", VisitorEvents::ALL.iter().map(|one| one.as_str()).collect()),
            ("join", JoinMode::ALL.iter().map(|one| one.as_str()).collect()),
            ("on_store_loss", OnStoreLoss::ALL.iter().map(|one| one.as_str()).collect()),
        ] {
            for value in values {
                settings.set(name, &Value::Text(value.to_owned())).unwrap();
            }
            assert!(settings.set(name, &Value::Text("other".into())).is_err());
        }
        for status in [200, 202, 429] {
            settings.set("queueing_status_code", &Value::Number(status)).unwrap();
        }
        assert!(settings.set("queueing_status_code", &Value::Number(503)).is_err());
        assert_eq!(settings.queueing_status_code.get(), 429);
    }
}
