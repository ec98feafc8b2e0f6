//! Checks: another proxy stands before the site, and asks for the verdict on each request before it passes it on.
//!
//! Proxies describe the request in different ways (*dialects*). Each dialect reads only those header fields that its
//! proxy overwrites, because a client may send all others itself: nginx passes a client's `X-Forwarded-Uri` on as it
//! came, Caddy and Traefik its `X-Original-URL`. The room stands in the path; the query is not read.
//!
//! What the verdict is, and on whose code it rests, is in `gateway/check.rs`.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Uri};

/// Where checks are asked for. Not below the prefix of our own paths: clients reach everything there through their proxy.
pub const CHECK_PREFIX: &str = "/check/";

const ORIGINAL_URL: HeaderName = HeaderName::from_static("x-original-url");
const ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");
const FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");

/// How a proxy describes a request, and what it understands of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// nginx's `auth_request`: 200, or 401 without a body.
    Nginx,
    /// The page that nginx shows after that 401.
    NginxPage,
    /// `X-Forwarded-*`, as Caddy, Traefik and our script for `HAProxy` write them.
    Forward,
    /// Envoy's `ext_authz` over HTTP: the request's own method, and its target behind ours.
    Envoy,
    /// Envoy's `ext_authz` over gRPC, which describes the request as a message.
    Grpc,
}

impl Dialect {
    pub(crate) const ALL: [Self; 5] = [Self::Nginx, Self::NginxPage, Self::Forward, Self::Envoy, Self::Grpc];

    /// Its name in metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::NginxPage => "nginx-page",
            Self::Forward => "forward",
            Self::Envoy => "envoy",
            Self::Grpc => "grpc",
        }
    }
}

/// What a path asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CheckPath<'path> {
    pub(crate) dialect: Dialect,
    pub(crate) room: &'path str,
    /// What stands behind the room: to Envoy, the path of the request.
    rest: &'path str,
}

impl<'path> CheckPath<'path> {
    /// A path that asks for a verdict; nothing if it does not.
    pub(crate) fn parse(path: &'path str) -> Option<Self> {
        let (dialect, rest) = path.strip_prefix(CHECK_PREFIX)?.split_once('/')?;
        let (room, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let dialect = match (dialect, rest) {
            ("nginx", "") => Dialect::Nginx,
            ("nginx", "/page") => Dialect::NginxPage,
            ("forward", "") => Dialect::Forward,
            ("envoy", _) => Dialect::Envoy,
            _ => return None,
        };
        (!room.is_empty()).then_some(Self { dialect, room, rest })
    }
}

/// Whether a path asks for a verdict.
pub fn is_check(path: &str) -> bool {
    CheckPath::parse(path).is_some()
}

/// Why a check cannot be understood. It is the operator's mistake, never the client's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckFault {
    /// What describes the request is not there.
    #[error("The check lacks the header field {0}: see the recipe of your proxy")]
    Missing(HeaderName),
    /// It is there more than once, so the proxy adds to what the client sends.
    #[error("The check has the header field {0} more than once: have your proxy overwrite it")]
    Repeated(HeaderName),
}

/// A request as a proxy describes it; none if no server could read what its client has sent.
#[derive(Debug)]
pub struct Described(Option<Request<()>>);

impl Described {
    /// A request with this method and target, and with the header fields of the check.
    pub fn of(method: &[u8], target: &[u8], headers: HeaderMap) -> Self {
        // What stands behind a `#` would be read by no rule, and passed on to the site.
        if target.contains(&b'#') {
            return Self(None);
        }
        let method = Method::from_bytes(method);
        let target = PathAndQuery::try_from(if target.is_empty() { b"/" } else { target });
        let (Ok(method), Ok(target)) = (method, target) else { return Self(None) };
        if !target.as_str().starts_with('/') {
            return Self(None);
        }
        let mut request = Request::new(());
        *request.method_mut() = method;
        *request.uri_mut() = Uri::from(target);
        *request.headers_mut() = headers;
        Self(Some(request))
    }

    pub(crate) fn into_request(self) -> Option<Request<()>> {
        self.0
    }
}

/// The request that a check is about.
pub(crate) fn described(path: CheckPath<'_>, check: &mut Request<()>) -> Result<Described, CheckFault> {
    let (method, target) = match path.dialect {
        Dialect::Nginx | Dialect::NginxPage => {
            let url = only(check.headers(), &ORIGINAL_URL)?;
            (only(check.headers(), &ORIGINAL_METHOD)?, url)
        }
        Dialect::Forward => {
            let target = only(check.headers(), &FORWARDED_URI)?;
            (only(check.headers(), &FORWARDED_METHOD)?, target)
        }
        Dialect::Envoy | Dialect::Grpc => {
            let mut target = path.rest.to_owned();
            if let Some(query) = check.uri().query() {
                target.push('?');
                target.push_str(query);
            }
            let headers = std::mem::take(check.headers_mut());
            return Ok(Described::of(check.method().as_str().as_bytes(), target.as_bytes(), headers));
        }
    };
    let headers = std::mem::take(check.headers_mut());
    Ok(Described::of(method.as_bytes(), target_of(target.as_bytes()), headers))
}

/// The one value of a header field.
fn only(headers: &HeaderMap, name: &HeaderName) -> Result<HeaderValue, CheckFault> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().ok_or_else(|| CheckFault::Missing(name.clone()))?;
    if values.next().is_some() {
        return Err(CheckFault::Repeated(name.clone()));
    }
    Ok(value.clone())
}

/// The path and query of a URL, or of what is one already.
fn target_of(url: &[u8]) -> &[u8] {
    let after_scheme = [&b"http://"[..], b"https://"].into_iter().find_map(|scheme| url.strip_prefix(scheme));
    match after_scheme {
        Some(rest) => {
            let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
            &rest[end..]
        }
        None => url,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described_by(
        path: &str,
        method: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<String, CheckFault> {
        let mut check = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            check = check.header(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let mut check = check.body(()).unwrap();
        let uri = check.uri().clone();
        let request = described(CheckPath::parse(uri.path()).unwrap(), &mut check)?.into_request();
        Ok(request.map_or_else(
            || "malformed".to_owned(),
            |request| format!("{} {}", request.method(), request.uri()),
        ))
    }

    #[test]
    fn the_room_stands_in_the_path() {
        let parsed = |path| CheckPath::parse(path).map(|path| (path.dialect, path.room, path.rest));
        assert_eq!(parsed("/check/nginx/shop"), Some((Dialect::Nginx, "shop", "")));
        assert_eq!(parsed("/check/nginx/shop/page"), Some((Dialect::NginxPage, "shop", "/page")));
        assert_eq!(parsed("/check/forward/shop"), Some((Dialect::Forward, "shop", "")));
        assert_eq!(parsed("/check/envoy/shop/a/b"), Some((Dialect::Envoy, "shop", "/a/b")));
        assert_eq!(parsed("/check/envoy/shop"), Some((Dialect::Envoy, "shop", "")));
        for other in [
            "/check/",
            "/check/nginx",
            "/check/nginx/",
            "/check/nginx/shop/x",
            "/check/forward/a/b",
            "/check/grpc/a",
            "/checkout/nginx/a",
            "/.anteroom/check/nginx/a",
        ] {
            assert_eq!(parsed(other), None, "{other}");
        }
    }

    #[test]
    fn each_dialect_reads_the_fields_that_its_proxy_overwrites_and_no_others() {
        let nginx = [("x-original-method", "POST"), ("x-original-url", "https://shop.example/cart?a=1")];
        let forward = [("x-forwarded-method", "PUT"), ("x-forwarded-uri", "/pay?b=2")];
        let all: Vec<_> = nginx.into_iter().chain(forward).collect();
        assert_eq!(described_by("/check/nginx/a?x=y", "GET", &all).unwrap(), "POST /cart?a=1");
        assert_eq!(described_by("/check/nginx/a/page", "GET", &all).unwrap(), "POST /cart?a=1");
        assert_eq!(described_by("/check/forward/a?x=y", "GET", &all).unwrap(), "PUT /pay?b=2");
        assert_eq!(
            described_by("/check/envoy/a/buy/now?c=3", "DELETE", &all).unwrap(),
            "DELETE /buy/now?c=3"
        );
        assert_eq!(described_by("/check/envoy/a", "GET", &all).unwrap(), "GET /");
        let missing = |name| Err(CheckFault::Missing(name));
        assert_eq!(described_by("/check/nginx/a", "GET", &forward), missing(ORIGINAL_URL));
        assert_eq!(described_by("/check/forward/a", "GET", &nginx), missing(FORWARDED_URI));
        let twice = [forward[0], forward[1], ("x-forwarded-uri", "/other")];
        assert_eq!(described_by("/check/forward/a", "GET", &twice), Err(CheckFault::Repeated(FORWARDED_URI)));
    }

    #[test]
    fn a_target_is_a_path_of_the_site_or_malformed() {
        let target = |url: &str| {
            let headers = [("x-original-method", "GET"), ("x-original-url", url)];
            described_by("/check/nginx/a", "GET", &headers).unwrap()
        };
        assert_eq!(target("http://shop.example"), "GET /");
        assert_eq!(target("http://shop.example?a=1"), "malformed");
        assert_eq!(target("https://shop.example//x/../y"), "GET //x/../y");
        assert_eq!(target("/only/a/path?q"), "GET /only/a/path?q");
        for evil in ["*", "shop.example:443", "ftp://a/b", "/a b", "/x#/../buy/", "http://a/b#c", "#"] {
            assert_eq!(target(evil), "malformed", "{evil}");
        }
        let headers = [("x-original-method", "G T"), ("x-original-url", "/")];
        assert_eq!(described_by("/check/nginx/a", "GET", &headers).unwrap(), "malformed");
    }
}
