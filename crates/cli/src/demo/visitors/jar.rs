//! A simulated visitor's cookies: names and values, and what is taken back. Paths and domains do not matter where there is one site.

use hyper::header::{HeaderMap, HeaderValue, SET_COOKIE};

/// The most cookies that a visitor keeps.
const COOKIES_MAX: usize = 8;

/// What one browser remembers.
#[derive(Debug, Default)]
pub(super) struct CookieJar(Vec<(String, String)>);

impl CookieJar {
    /// Remembers and forgets what an answer says.
    pub(super) fn take(&mut self, headers: &HeaderMap) {
        for text in headers.get_all(SET_COOKIE).iter().filter_map(|value| value.to_str().ok()) {
            let mut parts = text.split(';').map(str::trim);
            let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else { continue };
            self.0.retain(|(known, _)| known != name);
            let is_taken_back = parts.any(|attribute| attribute.eq_ignore_ascii_case("Max-Age=0"));
            if !is_taken_back && self.0.len() < COOKIES_MAX {
                self.0.push((name.to_owned(), value.to_owned()));
            }
        }
    }

    /// What is sent along; nothing without cookies.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        let pairs: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if pairs.is_empty() { None } else { HeaderValue::try_from(pairs.join("; ")).ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_value_is_kept_and_what_is_taken_back_is_gone() {
        let mut jar = CookieJar::default();
        assert_eq!(jar.header(), None);
        let answer = |cookies: &[&'static str]| -> HeaderMap {
            cookies.iter().map(|cookie| (SET_COOKIE, HeaderValue::from_static(cookie))).collect()
        };
        jar.take(&answer(&["a=1; Path=/; HttpOnly", "b=2"]));
        jar.take(&answer(&["a=3; Max-Age=60"]));
        assert_eq!(jar.header().unwrap(), "b=2; a=3");
        jar.take(&answer(&["b=; Path=/; max-age=0", "nonsense"]));
        assert_eq!(jar.header().unwrap(), "a=3");
    }
}
