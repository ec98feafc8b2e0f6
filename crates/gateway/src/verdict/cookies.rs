//! Cookies of the gateway as they travel: their names, reading them from requests, and writing them into answers.
//!
//! A request's cookies are bytes and need not be text: sites set all kinds of them, and one that is not ours must not keep ours from
//! being read.

use anteroom_core::RoomId;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// What the name of each of our cookies begins with.
const PREFIX: &str = "anteroom-";
/// Browsers take such a cookie only over TLS, for this very host and all its paths: no other host can set or see it.
const HOST_PREFIX: &str = "__Host-anteroom-";
/// The cookie of a visitor let in while the store was lost stands beside that of their place.
const LOSS_SUFFIX: &str = "~loss";
/// So does the cookie that identifies a browser that has asked to take a place over.
const MOVE_SUFFIX: &str = "~move";
/// How long a browser keeps a place in line: longer than any wait, because only the server knows when it is over, and
/// pages that stay open do not renew it.
pub(crate) const WAITING_MAX_AGE_SECONDS: u64 = 7 * 24 * 3600;
/// How long an arrival is good for a place: as long as it is remembered which place it got.
pub(crate) const ARRIVED_MAX_AGE_SECONDS: u64 =
    anteroom_admission::idempotent_joins::REMEMBERED_MILLIS / 1000;
/// Directions to caches other than `Cache-Control`, which they obey in its place.
const TARGETED: [HeaderName; 2] =
    [HeaderName::from_static("cdn-cache-control"), HeaderName::from_static("surrogate-control")];

/// The names of a room's cookies.
#[derive(Debug)]
pub(crate) struct CookieNames {
    clear: [String; 3],
    over_tls: [String; 3],
}

/// Which of a room's cookies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CookieKind {
    /// The place or the visit.
    Place,
    /// The visit of a visitor let in while the store was lost.
    Loss,
    /// Who has opened a link to another device's place.
    Move,
}

impl CookieNames {
    pub(crate) fn of(room: &RoomId) -> Self {
        let names =
            |prefix: &str| ["", LOSS_SUFFIX, MOVE_SUFFIX].map(|suffix| format!("{prefix}{room}{suffix}"));
        Self { clear: names(PREFIX), over_tls: names(HOST_PREFIX) }
    }

    /// The name by which it travels.
    pub(crate) fn name(&self, kind: CookieKind, is_tls: bool) -> &str {
        let names = if is_tls { &self.over_tls } else { &self.clear };
        &names[match kind {
            CookieKind::Place => 0,
            CookieKind::Loss => 1,
            CookieKind::Move => 2,
        }]
    }

    /// A cookie for the browser to keep. Over TLS it also comes with what other sites send here, such as the way back from a
    /// payment; what concerns the line itself is refused from there.
    pub(crate) fn set(
        &self,
        kind: CookieKind,
        is_tls: bool,
        value: &str,
        max_age_seconds: u64,
    ) -> HeaderValue {
        let same_site = if is_tls { "None; Secure" } else { "Lax" };
        let name = self.name(kind, is_tls);
        let text =
            format!("{name}={value}; Path=/; Max-Age={max_age_seconds}; HttpOnly; SameSite={same_site}");
        HeaderValue::try_from(text).expect("names of rooms and sealed values are plain text")
    }

    /// Has the browser forget it.
    pub(crate) fn clear(&self, kind: CookieKind, is_tls: bool) -> HeaderValue {
        self.set(kind, is_tls, "", 0)
    }
}

/// The values of all cookies of a name that a request shows.
pub(crate) fn all<'request>(
    headers: &'request HeaderMap,
    name: &'request str,
) -> impl Iterator<Item = &'request str> {
    pairs(headers).filter_map(move |pair| value_of(pair, name))
}

/// The value of a pair of this name.
pub(crate) fn value_of<'pair>(pair: &'pair [u8], name: &str) -> Option<&'pair str> {
    let value = pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
    std::str::from_utf8(value).ok()
}

/// All cookies of a request, each with its name.
pub(crate) fn pairs(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = headers.get_all(header::COOKIE).iter();
    lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';')).map(<[u8]>::trim_ascii)
}

fn is_ours(pair: &[u8]) -> bool {
    pair.starts_with(PREFIX.as_bytes()) || pair.starts_with(HOST_PREFIX.as_bytes())
}

/// Takes our cookies out of a request: they are nothing to the origin.
pub(crate) fn hide(headers: &mut HeaderMap) {
    if !pairs(headers).any(is_ours) {
        return;
    }
    let kept: Vec<&[u8]> = pairs(headers).filter(|pair| !pair.is_empty() && !is_ours(pair)).collect();
    let kept = kept.join(&b"; "[..]);
    headers.remove(header::COOKIE);
    if let Ok(kept) = HeaderValue::from_bytes(&kept)
        && !kept.is_empty()
    {
        headers.insert(header::COOKIE, kept);
    }
}

/// Sets a cookie on a response, which makes the response private: a shared cache that kept it would give the visit away.
/// The visitor's own browser may keep it for as long as the origin says.
pub(crate) fn attach(headers: &mut HeaderMap, cookie: HeaderValue) {
    headers.append(header::SET_COOKIE, cookie);
    for name in TARGETED {
        headers.remove(name);
    }
    let mut directives: Vec<String> = vec![];
    for value in headers.get_all(header::CACHE_CONTROL) {
        let Ok(value) = value.to_str() else { continue };
        directives.extend(value.split(',').map(|directive| directive.trim().to_owned()));
    }
    let name_of =
        |directive: &str| directive.split('=').next().unwrap_or_default().trim().to_ascii_lowercase();
    if directives.iter().any(|directive| name_of(directive) == "no-store") {
        return;
    }
    directives.retain(|directive| {
        !matches!(name_of(directive).as_str(), "" | "public" | "s-maxage" | "private" | "proxy-revalidate")
    });
    directives.insert(0, "private".into());
    if directives.len() == 1 {
        // Where the origin says nothing, a browser would guess how long to keep it.
        directives.push("no-cache".into());
    }
    if let Ok(value) = HeaderValue::try_from(directives.join(", ")) {
        headers.insert(header::CACHE_CONTROL, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_cookies_are_read_and_hidden_and_others_left_alone() {
        let mut headers = HeaderMap::new();
        headers.append("cookie", HeaderValue::from_static("a=1; anteroom-Hall=x.y; b=2"));
        headers.append("cookie", HeaderValue::from_static("__Host-anteroom-Hall=z"));
        assert_eq!(all(&headers, "anteroom-Hall").collect::<Vec<_>>(), ["x.y"]);
        assert_eq!(all(&headers, "__Host-anteroom-Hall").collect::<Vec<_>>(), ["z"]);
        assert_eq!(all(&headers, "anteroom-Ha").count(), 0);
        hide(&mut headers);
        let left: Vec<_> = headers.get_all("cookie").iter().collect();
        assert_eq!(left, ["a=1; b=2"]);
    }

    #[test]
    fn a_cookie_of_the_site_that_is_no_text_does_not_hide_ours() {
        let mut headers = HeaderMap::new();
        let line = HeaderValue::from_bytes("name=J\u{f6}rg; anteroom-Hall=x; b=2".as_bytes()).unwrap();
        headers.insert("cookie", line);
        assert_eq!(all(&headers, "anteroom-Hall").collect::<Vec<_>>(), ["x"]);
        hide(&mut headers);
        assert_eq!(headers["cookie"].as_bytes(), "name=J\u{f6}rg; b=2".as_bytes());
        headers.insert("cookie", HeaderValue::from_static("anteroom-Hall=x"));
        hide(&mut headers);
        assert!(!headers.contains_key("cookie"));
    }

    #[test]
    fn an_answer_with_a_cookie_is_for_one_person() {
        let control = |given: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(given) = given {
                headers.insert("cache-control", HeaderValue::from_static(given));
            }
            headers.insert("cdn-cache-control", HeaderValue::from_static("max-age=600"));
            attach(&mut headers, HeaderValue::from_static("a=1"));
            assert!(!headers.contains_key("cdn-cache-control"));
            headers["cache-control"].to_str().unwrap().to_owned()
        };
        assert_eq!(control(Some("public, max-age=600, s-maxage=9")), "private, max-age=600");
        assert_eq!(control(Some("private, max-age=5")), "private, max-age=5");
        assert_eq!(control(Some("No-Store")), "No-Store");
        assert_eq!(control(Some("private=\"x-foo\", max-age=5")), "private, max-age=5");
        assert_eq!(control(None), "private, no-cache");
    }
}
