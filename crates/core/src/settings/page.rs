//! The kinds of settings that the waiting page uses: how it looks, what happens at the turn, and where it may hand visitors on to.

use std::fmt;
use std::net::Ipv4Addr;

use super::Settings;
use super::gateway::{HostName, ListEntry, PathPrefix, words};
use super::kinds::{Kind, Value, WebAddress};

/// Longest heading of a page, in bytes.
pub const HEADING_MAX_LENGTH: usize = 120;
/// Longest logo, in bytes: it travels in the first answer.
pub const LOGO_MAX_LENGTH: usize = 8_192;
/// The one name without a dot that a cookie can be shared under.
const THIS_MACHINE: &str = "localhost";
/// Longest name of a template, in bytes.
pub const TEMPLATE_NAME_MAX_LENGTH: usize = 64;

words! {
    /// How `/wait/{room}` hands the pass to a site on another host.
    HandOff, "\"query\", \"cookie\" or \"post\"":
    /// A one-time code in the address, which the site exchanges at `/claim`.
    Query = "query",
    /// A cookie of the domain that both hosts share.
    Cookie = "cookie",
    /// A form that the browser posts.
    Post = "post",
}

/// Where visitors may be sent on to: a scheme, a host, perhaps a port, and the beginning of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnAddress {
    /// Scheme, host and port, in lower case.
    site: String,
    path: PathPrefix,
}

impl ReturnAddress {
    /// The address, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        <Self as ListEntry>::parse(text)
    }

    /// Whether an address is this one or lies below it. One that browsers could read in more than one way is not.
    pub fn covers(&self, address: &str) -> bool {
        split(address).is_some_and(|(site, path)| site == self.site && self.path.covers(path))
    }
}

impl fmt::Display for ReturnAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.site, self.path)
    }
}

impl ListEntry for ReturnAddress {
    const EXPECTED: &'static str = "a list of up to 64 addresses such as \"https://shop.example\" or \"https://shop.example/tickets\", without \"?\", \"#\" and dots between slashes";
    fn parse(text: &str) -> Option<Self> {
        if text.contains(['?', '#']) {
            return None;
        }
        let (site, path) = split(text)?;
        Some(Self { site, path: PathPrefix::parse(path)? })
    }
}

/// Scheme, host and port of an address in lower case, and its path; `None` if it is no such address, or browsers could read it as
/// another.
fn split(address: &str) -> Option<(String, &str)> {
    let scheme = ["https://", "http://"]
        .into_iter()
        .find(|scheme| address.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme)))?;
    let is_plain = address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let rest = address.get(scheme.len()..).filter(|_| is_plain)?;
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    if !super::gateway::is_host(host) || !port.is_none_or(is_port) {
        return None;
    }
    let path = &rest[..rest.find(['?', '#']).unwrap_or(rest.len())];
    let is_dots = |segment: &str| {
        let segment = segment.to_ascii_lowercase().replace("%2e", ".");
        segment == "." || segment == ".."
    };
    if path.split('/').any(is_dots) {
        return None;
    }
    let site = format!("{scheme}{authority}").to_ascii_lowercase();
    Some((site, if path.is_empty() { "/" } else { path }))
}

/// Why a browser would not take a cookie of that domain, or not show it to the site that it is meant for.
pub(super) fn handoff_contradiction(settings: &Settings) -> Option<&'static str> {
    if settings.handoff != HandOff::Cookie {
        return None;
    }
    let Some(domain) = &settings.handoff_domain else {
        return Some("`handoff` \"cookie\" needs `handoff_domain`, the domain that both sites share");
    };
    let domain = domain.as_str();
    let is_address = domain.starts_with('[') || domain.parse::<Ipv4Addr>().is_ok();
    // Browsers keep a cookie of a name without a dot for that very host alone: good for trying things out on one machine.
    let is_this_machine = domain == THIS_MACHINE;
    if is_address || !domain.contains('.') && !is_this_machine {
        return Some(
            "`handoff_domain` must be a domain such as \"example.com\": browsers take no cookie for an IP address or a name without a dot, except \"localhost\"",
        );
    }
    let is_below = |address: &str| {
        let host = host_of(address).to_ascii_lowercase();
        let above = host.strip_suffix(domain);
        above.is_some_and(|above| above.is_empty() || above.ends_with('.') && !is_this_machine)
    };
    let listed = settings.return_addresses.as_slice().iter().map(|address| &*address.site);
    let backend = settings.backend_uri.as_ref().map(WebAddress::as_str);
    if !listed.chain(backend).all(is_below) {
        return Some(
            "with `handoff` \"cookie\" the hosts of `return_addresses` and of `backend_uri` must be `handoff_domain` or below it: others would not get the cookie",
        );
    }
    None
}

/// The host that an address names, without its port.
fn host_of(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit_once('@').map_or(authority, |(_, authority)| authority);
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => host,
        _ => authority,
    }
}

/// A few words, without line ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading(String);

impl Heading {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Kind for Heading {
    const EXPECTED: &'static str = "a text of 1 to 120 bytes, without control characters";
    fn to_value(&self) -> Value {
        Value::Text(self.0.clone())
    }
    fn from_value(value: &Value) -> Option<Self> {
        let Value::Text(text) = value else { return None };
        let fits = text.len() <= HEADING_MAX_LENGTH && !text.chars().any(char::is_control);
        (fits && !text.trim().is_empty()).then(|| Self(text.clone()))
    }
}

/// A colour: red, green and blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour(pub [u8; 3]);

impl Kind for Colour {
    const EXPECTED: &'static str = "a colour such as \"#2456d6\"";
    fn to_value(&self) -> Value {
        let [red, green, blue] = self.0;
        Value::Text(format!("#{red:02x}{green:02x}{blue:02x}"))
    }
    fn from_value(value: &Value) -> Option<Self> {
        let Value::Text(text) = value else { return None };
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6)?;
        let number = digits
            .bytes()
            .all(|digit| digit.is_ascii_hexdigit())
            .then(|| u32::from_str_radix(digits, 16).ok())??;
        let [_, red, green, blue] = number.to_be_bytes();
        Some(Self([red, green, blue]))
    }
}

/// A picture: a path of the host that shows the page, or the picture itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logo(String);

impl Logo {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Kind for Logo {
    const EXPECTED: &'static str = "a path of the site such as \"/logo.svg\", or a picture as \"data:image/…;base64,…\" of up to 8192 bytes";
    fn to_value(&self) -> Value {
        Value::Text(self.0.clone())
    }
    fn from_value(value: &Value) -> Option<Self> {
        const TYPES: [&str; 5] = ["svg+xml", "png", "jpeg", "webp", "gif"];
        let Value::Text(text) = value else { return None };
        let is_picture = text
            .strip_prefix("data:image/")
            .and_then(|rest| rest.split_once(";base64,"))
            .is_some_and(|(kind, data)| {
                let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
                TYPES.contains(&kind) && !data.is_empty() && data.bytes().all(allowed)
            });
        let is_path = text.starts_with('/')
            && !text.starts_with("//")
            && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\\"'<>".contains(&byte));
        ((is_picture || is_path) && text.len() <= LOGO_MAX_LENGTH).then(|| Self(text.clone()))
    }
}

/// The name of a page that the operator supplies: a file of the server's `page_templates`, without its ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateName(String);

impl TemplateName {
    /// The name, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let fits = (1..=TEMPLATE_NAME_MAX_LENGTH).contains(&text.len());
        (fits && text.bytes().all(allowed)).then(|| Self(text.to_owned()))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Kind for TemplateName {
    const EXPECTED: &'static str =
        "a name such as \"spring-sale\", of up to 64 letters, digits, \"-\" and \"_\"";
    fn to_value(&self) -> Value {
        Value::Text(self.0.clone())
    }
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Text(text) = value { Self::parse(text) } else { None }
    }
}

impl Kind for HostName {
    const EXPECTED: &'static str = "a domain such as \"shop.example\"";
    fn to_value(&self) -> Value {
        Value::Text(self.as_str().to_owned())
    }
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Text(text) = value { Self::parse(text) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    fn set(name: &str, text: &str) -> Option<Value> {
        let mut settings = Settings::default();
        settings.set(name, &Value::Text(text.to_owned())).ok()?;
        let field = crate::settings::FIELDS.iter().find(|field| field.name == name).unwrap();
        Some((field.get)(&settings))
    }

    #[test]
    fn visitors_are_sent_on_to_listed_addresses_only() {
        let shop = ReturnAddress::parse("https://Shop.example/tickets").unwrap();
        assert_eq!(shop.to_string(), "https://shop.example/tickets");
        for good in [
            "https://shop.example/tickets",
            "https://shop.example/tickets/7?seat=2#top",
            "HTTPS://SHOP.EXAMPLE/tickets",
        ] {
            assert!(shop.covers(good), "{good}");
        }
        for evil in [
            "https://shop.example",
            "https://shop.example/ticketsales",
            "https://shop.example/tickets/../admin",
            "https://shop.example/tickets/%2e%2E/admin",
            "http://shop.example/tickets",
            "https://shop.example:8443/tickets",
            "https://shop.example.evil.example/tickets",
            "https://shop.example@evil.example/tickets",
            "https://evil.example/https://shop.example/tickets",
            "https://evil.example\\@shop.example/tickets",
            "//shop.example/tickets",
            "/tickets",
            "javascript:alert(1)//shop.example/tickets",
            "https:///shop.example/tickets",
            "https://shop.example/tickets\n",
            "",
        ] {
            assert!(!shop.covers(evil), "{evil}");
        }
        let site = ReturnAddress::parse("http://127.0.0.1:9000").unwrap();
        assert!(site.covers("http://127.0.0.1:9000") && site.covers("http://127.0.0.1:9000/a?b"));
        assert!(
            !site.covers("http://127.0.0.1:90001") && !site.covers("http://127.0.0.1:9000@evil.example/")
        );
        for bad in ["shop.example", "ftp://a", "https://", "https://a?b", "https://a/../b", "https://a b"] {
            assert!(ReturnAddress::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn colours_logos_and_names_are_plain() {
        assert_eq!(set("page_color", "#0A1b2C"), Some(Value::Text("#0a1b2c".into())));
        for bad in ["0a1b2c", "#0a1b2", "#0a1b2cd", "#0a1b2g", "red", "#+a1b2c"] {
            assert_eq!(set("page_color", bad), None, "{bad}");
        }
        for good in ["/logo.svg", "data:image/png;base64,iVBORw0KGgo="] {
            assert_eq!(set("page_logo", good), Some(Value::Text(good.into())), "{good}");
        }
        for bad in [
            "logo.svg",
            "//evil.example/logo.svg",
            "https://a/logo.svg",
            "data:text/html;base64,AAAA",
            "/a\"b",
            "data:image/png,x",
        ] {
            assert_eq!(set("page_logo", bad), None, "{bad}");
        }
        assert_eq!(set("page_logo", &format!("/{}", "a".repeat(LOGO_MAX_LENGTH))), None);
        assert!(set("page_template", "spring-sale_1").is_some());
        for bad in ["", "a.html", "../a", "a/b"] {
            assert_eq!(set("page_template", bad), None, "{bad}");
        }
        assert!(set("page_heading", "Spring sale").is_some());
        for bad in ["", "  ", "a\nb", &"a".repeat(HEADING_MAX_LENGTH + 1)] {
            assert_eq!(set("page_heading", bad), None, "{bad}");
        }
        assert_eq!(set("handoff", "post"), Some(Value::Text("post".into())));
        assert_eq!(set("handoff", "mail"), None);
        assert_eq!(set("handoff_domain", "Example.com"), Some(Value::Text("example.com".into())));
    }

    #[test]
    fn a_cookie_is_shared_by_hosts_of_its_domain_alone() {
        let check = |domain: &str, listed: &[&str], backend: Option<&str>| {
            let mut settings = Settings::default();
            settings.set("handoff", &Value::Text("cookie".into())).unwrap();
            settings.set("handoff_domain", &Value::Text(domain.into())).unwrap();
            let listed = listed.iter().map(|&address| address.into()).collect();
            settings.set("return_addresses", &Value::List(listed)).unwrap();
            if let Some(backend) = backend {
                settings.set("backend_uri", &Value::Text(backend.into())).unwrap();
            }
            settings.check().map_err(|error| error.to_string())
        };
        for (domain, listed, backend) in [
            ("example.com", &["https://example.com", "https://Shop.Example.com:8443/a"][..], None),
            ("Example.com", &[], Some("https://shop.EXAMPLE.com/enter?a=1")),
            ("example.com", &[], None),
            ("localhost", &["http://localhost:3000"], Some("http://localhost:3000/")),
        ] {
            assert_eq!(check(domain, listed, backend), Ok(()), "{domain} {listed:?} {backend:?}");
        }
        for (domain, listed, backend, about) in [
            ("127.0.0.1", &["http://127.0.0.1:3000"][..], None, "IP address"),
            ("[::1]", &["http://[::1]:3000"], None, "IP address"),
            ("com", &["https://example.com"], None, "dot"),
            ("example.com", &["https://shop.example.com", "https://shop.example.org"], None, "below it"),
            ("example.com", &["https://badexample.com"], None, "below it"),
            ("example.com", &["https://example.com.evil.test"], None, "below it"),
            ("shop.example.com", &["https://example.com"], None, "below it"),
            ("example.com", &["http://127.0.0.1:3000"], None, "below it"),
            ("example.com", &["https://example.com"], Some("https://site.example.org/"), "below it"),
            ("localhost", &["http://shop.localhost:3000"], None, "below it"),
        ] {
            let refused = check(domain, listed, backend).unwrap_err();
            assert!(refused.contains(about), "{domain} {listed:?} {backend:?}: {refused}");
        }
        // What is not used is not checked.
        let mut settings = Settings::default();
        settings.set("handoff_domain", &Value::Text("localhost".into())).unwrap();
        settings.check().unwrap();
        settings.set("handoff", &Value::Text("cookie".into())).unwrap();
        settings.set("handoff_domain", &Value::None).unwrap();
        assert!(settings.check().is_err());
    }
}
