//! Cookies of the gateway as they travel: their names, reading them from requests, and writing them into answers.

use anteroom_core::RoomId;
use http::header::{self, HeaderMap, HeaderValue};

/// What the name of each of our cookies begins with.
const PREFIX: &str = "anteroom-";
/// Browsers take such a cookie only over TLS, for this very host and all its paths: no other host can set or see it.
const HOST_PREFIX: &str = "__Host-anteroom-";
/// How long a place in line is remembered by a browser.
pub(crate) const WAITING_MAX_AGE_SECONDS: u64 = 24 * 3600;
/// How long an arrival is good for a place.
pub(crate) const ARRIVED_MAX_AGE_SECONDS: u64 = 600;

/// The names of a room's cookie.
#[derive(Debug)]
pub(crate) struct CookieNames {
    clear: String,
    over_tls: String,
}

impl CookieNames {
    pub(crate) fn of(room: &RoomId) -> Self {
        Self { clear: format!("{PREFIX}{room}"), over_tls: format!("{HOST_PREFIX}{room}") }
    }

    /// The name by which it travels.
    pub(crate) fn name(&self, is_tls: bool) -> &str {
        if is_tls { &self.over_tls } else { &self.clear }
    }

    /// A cookie for the browser to keep.
    pub(crate) fn set(&self, is_tls: bool, value: &str, max_age_seconds: u64) -> HeaderValue {
        let secure = if is_tls { "; Secure" } else { "" };
        let name = self.name(is_tls);
        let text =
            format!("{name}={value}; Path=/; Max-Age={max_age_seconds}; HttpOnly; SameSite=Lax{secure}");
        HeaderValue::try_from(text).expect("names of rooms and sealed values are plain text")
    }

    /// Has the browser forget it.
    pub(crate) fn clear(&self, is_tls: bool) -> HeaderValue {
        self.set(is_tls, "", 0)
    }
}

/// The values of all cookies of a name that a request shows.
pub(crate) fn all<'request>(
    headers: &'request HeaderMap,
    name: &'request str,
) -> impl Iterator<Item = &'request str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    lines
        .flat_map(|line| line.split(';'))
        .filter_map(move |pair| pair.trim_start().strip_prefix(name)?.strip_prefix('='))
}

/// Takes our cookies out of a request: they are nothing to the origin.
pub(crate) fn hide(headers: &mut HeaderMap) {
    let is_ours = |pair: &str| {
        let pair = pair.trim_start();
        pair.starts_with(PREFIX) || pair.starts_with(HOST_PREFIX)
    };
    let shows_ours = headers
        .get_all(header::COOKIE)
        .iter()
        .any(|line| line.to_str().is_ok_and(|line| line.split(';').any(is_ours)));
    if !shows_ours {
        return;
    }
    let lines: Vec<HeaderValue> = headers.get_all(header::COOKIE).iter().cloned().collect();
    headers.remove(header::COOKIE);
    for line in lines {
        let Ok(text) = line.to_str() else {
            headers.append(header::COOKIE, line);
            continue;
        };
        let kept: Vec<&str> = text.split(';').filter(|pair| !is_ours(pair)).map(str::trim).collect();
        if !kept.is_empty()
            && let Ok(kept) = HeaderValue::try_from(kept.join("; "))
        {
            headers.append(header::COOKIE, kept);
        }
    }
}

/// Puts a cookie into an answer, which from then on is one person's: a shared cache that kept it would give his visit away.
pub(crate) fn attach(headers: &mut HeaderMap, cookie: HeaderValue) {
    headers.append(header::SET_COOKIE, cookie);
    let is_private = headers
        .get_all(header::CACHE_CONTROL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.contains("private") || value.contains("no-store"));
    if !is_private {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
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
    fn an_answer_with_a_cookie_is_for_one_person() {
        let mut headers = HeaderMap::new();
        headers.insert("cache-control", HeaderValue::from_static("public, max-age=600"));
        attach(&mut headers, HeaderValue::from_static("a=1"));
        assert_eq!(headers["cache-control"], "private, no-cache");
        headers.insert("cache-control", HeaderValue::from_static("private, max-age=5"));
        attach(&mut headers, HeaderValue::from_static("b=1"));
        assert_eq!(headers["cache-control"], "private, max-age=5");
    }
}
