//! Where a request wants to go, normalised so that two spellings of one target are one. Origins decode and resolve
//! paths, so a comparison of raw paths can be bypassed (`/%74ickets`, `//tickets`, `/static/../checkout`,
//! `shop.example.`).

use std::borrow::Cow;

use http::{Request, header};

use crate::classify::plain_path::plain;

/// The host that a request is for, without its port and without the dot that names may end in; empty if it names none.
pub(crate) fn host_of<B>(request: &Request<B>) -> &str {
    let authority = match request.uri().authority() {
        Some(authority) => authority.as_str(),
        None => request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or(""),
    };
    let authority = authority.rsplit('@').next().unwrap_or(authority);
    let host = match authority.rsplit_once(':') {
        // The last colon of an address in brackets is not one before a port.
        Some((host, port)) if !port.ends_with(']') => host,
        _ => authority,
    };
    host.strip_suffix('.').unwrap_or(host)
}

/// A path as sent, and as an origin may read it.
pub(crate) struct Path<'request> {
    raw: &'request str,
    /// `None` where it reads the same.
    resolved: Option<String>,
}

impl<'request> Path<'request> {
    pub(crate) fn of(raw: &'request str) -> Self {
        let resolved = match plain(raw) {
            Cow::Borrowed(_) => None,
            // Twice, because some origins decode twice.
            Cow::Owned(once) => {
                let once = String::from_utf8_lossy(&once);
                Some(String::from_utf8_lossy(&plain(&once)).into_owned())
            }
        };
        Self { raw, resolved }
    }

    /// Whether it may be read as one that fits: for what protects.
    pub(crate) fn may_be(&self, fits: impl Fn(&str) -> bool) -> bool {
        fits(self.raw) || self.resolved.as_deref().is_some_and(&fits)
    }

    /// Whether it can only be read as one that fits: for what lets by.
    pub(crate) fn can_only_be(&self, fits: impl Fn(&str) -> bool) -> bool {
        fits(self.raw) && self.resolved.as_deref().is_none_or(&fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_path_are_one() {
        for path in [
            "/%74ickets",
            "//tickets",
            "/./tickets",
            "/x/../tickets",
            "/x/%2e%2e/tickets",
            "/%2574ickets",
            "/tickets;a=1",
            "/x\\..\\tickets",
        ] {
            assert!(Path::of(path).may_be(|path| path == "/tickets"), "{path}");
        }
        assert!(!Path::of("/ticket").may_be(|path| path == "/tickets"));
        assert!(Path::of("/../..").may_be(|path| path == "/"));
        assert!(Path::of("/a%2").may_be(|path| path == "/a%2"));
    }

    #[test]
    fn an_ambiguous_path_bypasses_nothing() {
        let is_static = |path: &str| path.starts_with("/static/");
        assert!(Path::of("/static/a.css").can_only_be(is_static));
        assert!(Path::of("/static//a%20b.css").can_only_be(is_static));
        for path in ["/static/../checkout", "/static/%2e%2e/checkout", "/static/..;/checkout", "/%73tatic/a"]
        {
            assert!(!Path::of(path).can_only_be(is_static), "{path}");
        }
    }

    #[test]
    fn the_host_is_named_without_port_and_last_dot() {
        let host = |value: &str| {
            let request = Request::builder().header("host", value).body(()).unwrap();
            host_of(&request).to_owned()
        };
        assert_eq!(host("shop.example:8080"), "shop.example");
        assert_eq!(host("shop.example.:80"), "shop.example");
        assert_eq!(host("[::1]:80"), "[::1]");
        assert_eq!(host("[::1]"), "[::1]");
        assert_eq!(host("shop.example"), "shop.example");
    }
}
