//! Where in a request the token is.

use http::header::{self, HeaderMap};
use http::{HeaderName, Uri};

/// A place where a token is looked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TokenPlace {
    /// `Authorization: Bearer TOKEN`.
    Bearer,
    /// A header that is nothing but the token, also after `Bearer`. Clients of the AWS authorizer send
    /// `Authorization: TOKEN`.
    Header(HeaderName),
    /// A cookie of this name.
    Cookie(String),
    /// A parameter of the query. Addresses get into logs, histories and the `Referer` of other requests: only for links that
    /// have no other way, and followed by a redirect to the address without it.
    Query(String),
}

impl TokenPlace {
    /// The cookie that a room with `handoff = "cookie"` sets.
    pub fn cookie_of_room(room: &str) -> Self {
        Self::Cookie(format!("anteroom_pass_{room}"))
    }

    /// What is found there. A header that is there twice names no token; of cookies each is tried, because a browser sends
    /// those of the host and those of the domain under one name.
    pub(crate) fn find<'request>(
        &'request self,
        headers: &'request HeaderMap,
        uri: &'request Uri,
    ) -> Box<dyn Iterator<Item = &'request str> + Send + 'request> {
        match self {
            Self::Bearer => {
                Box::new(only(headers, &header::AUTHORIZATION).and_then(after_bearer).into_iter())
            }
            Self::Header(name) => {
                Box::new(only(headers, name).map(|value| after_bearer(value).unwrap_or(value)).into_iter())
            }
            Self::Cookie(name) => {
                let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
                let pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.split_once('='));
                Box::new(pairs.filter(move |(found, _)| found.trim() == name).map(|(_, value)| value.trim()))
            }
            Self::Query(name) => {
                let pairs = uri.query().unwrap_or_default().split('&');
                let pairs = pairs.filter_map(|pair| pair.split_once('='));
                Box::new(pairs.filter(move |(found, _)| found == name).map(|(_, value)| value))
            }
        }
    }
}

/// The value of a header that is there once.
fn only<'headers>(headers: &'headers HeaderMap, name: &HeaderName) -> Option<&'headers str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value.trim())
}

fn after_bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}
