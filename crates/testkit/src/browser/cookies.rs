//! Cookies by the rules of a browser, as far as one host needs them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::http::Answer;
use crate::wait::now;

/// A cookie that an answer sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetCookie {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// What follows, as it is written.
    pub attributes: Vec<String>,
}

impl SetCookie {
    pub(super) fn parse(text: &str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let (name, value) = parts.next().and_then(|pair| pair.split_once('=')).unwrap_or_default();
        let attributes = parts.map(str::to_owned).collect();
        Self { name: name.to_owned(), value: value.to_owned(), attributes }
    }

    /// Whether it has an attribute, in any case of letters.
    pub fn has(&self, attribute: &str) -> bool {
        self.attributes.iter().any(|other| other.eq_ignore_ascii_case(attribute))
    }

    /// How many seconds it is kept.
    pub fn max_age_seconds(&self) -> Option<u64> {
        let named = self.attributes.iter().filter_map(|attribute| attribute.split_once('='));
        let mut ages = named.filter(|(name, _)| name.eq_ignore_ascii_case("Max-Age"));
        ages.next()?.1.parse().ok()
    }

    /// Whether a browser takes it, over TLS or in clear.
    fn is_taken(&self, is_tls: bool) -> bool {
        let has_domain =
            self.attributes.iter().any(|other| other.to_ascii_lowercase().starts_with("domain="));
        let fits_prefix =
            !self.name.starts_with("__Host-") || (self.has("Secure") && self.has("Path=/") && !has_domain);
        fits_prefix && (is_tls || !self.has("Secure"))
    }
}

/// What a browser remembers of one host.
#[derive(Debug, Clone)]
pub struct CookieJar {
    is_tls: bool,
    /// Values, and when they are forgotten.
    kept: BTreeMap<String, (String, Option<Instant>)>,
}

impl CookieJar {
    /// Of a host that is reached in clear.
    pub fn in_clear() -> Self {
        Self { is_tls: false, kept: BTreeMap::new() }
    }

    /// Of a host that is reached over TLS.
    pub fn over_tls() -> Self {
        Self { is_tls: true, kept: BTreeMap::new() }
    }

    /// Takes in what an answer sets.
    pub fn take(&mut self, answer: &Answer) {
        for cookie in answer.set_cookies() {
            if !cookie.is_taken(self.is_tls) {
                continue;
            }
            match cookie.max_age_seconds() {
                Some(0) => {
                    self.kept.remove(&cookie.name);
                }
                age => {
                    let until = age.map(|seconds| now() + Duration::from_secs(seconds));
                    self.kept.insert(cookie.name, (cookie.value, until));
                }
            }
        }
    }

    /// Puts a cookie in by hand.
    pub fn put(&mut self, name: &str, value: &str) {
        self.kept.insert(name.to_owned(), (value.to_owned(), None));
    }

    /// The value of a cookie that has not been forgotten.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut known = self.known();
        known.find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.kept.clear();
    }

    /// What a request shows of it.
    pub fn header(&self) -> Option<String> {
        let pairs: Vec<String> = self.known().map(|(name, value)| format!("{name}={value}")).collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }

    fn known(&self) -> impl Iterator<Item = (&str, &str)> {
        let moment = now();
        let known = self.kept.iter().filter(move |(_, (_, until))| until.is_none_or(|until| until > moment));
        known.map(|(name, (value, _))| (name.as_str(), value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(cookies: &[&str]) -> Answer {
        let headers = cookies.iter().map(|text| ("Set-Cookie".to_owned(), (*text).to_owned())).collect();
        Answer { status: 200, headers, body: vec![] }
    }

    #[test]
    fn cookies_are_kept_replaced_and_forgotten() {
        let mut jar = CookieJar::in_clear();
        jar.take(&answer(&["a=1; Path=/", "b=2; Max-Age=60", "c=3; Max-Age=0"]));
        assert_eq!(jar.header().as_deref(), Some("a=1; b=2"));
        jar.take(&answer(&["a=; Max-Age=0", "b=4"]));
        assert_eq!((jar.get("a"), jar.get("b")), (None, Some("4")));
        jar.clear();
        assert_eq!(jar.header(), None);
    }

    #[test]
    fn what_a_browser_would_refuse_is_refused() {
        let secure = "__Host-a=1; Path=/; Secure";
        let (mut clear, mut tls) = (CookieJar::in_clear(), CookieJar::over_tls());
        clear.take(&answer(&[secure, "b=1; Secure"]));
        assert_eq!(clear.header(), None, "only over TLS");
        tls.take(&answer(&[
            "__Host-a=1; Path=/",
            "__Host-b=1; Secure; Path=/; Domain=example.com",
            "__Host-c=1; Secure",
        ]));
        assert_eq!(tls.header(), None, "not by the rules of the prefix");
        tls.take(&answer(&[secure]));
        assert_eq!(tls.get("__Host-a"), Some("1"));
    }
}
