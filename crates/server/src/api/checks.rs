//! `/check/…`: the verdict on a request that another proxy passes on. Its proxies are answered before the routes are looked at
//! (`Service::call`), because a check has any method and the host of any site; a call that comes as far as a route may not ask.

use anteroom_gateway::check::{CHECK_PREFIX, is_check};
use anteroom_gateway::identify::{Networks, Peer};
use anteroom_tokens::api_key::ApiKeyDigest;
use http::Request;
use http::header::{HeaderMap, HeaderName};

use crate::http::error::ApiError;
use crate::http::problem::Problem;
use crate::http::response::ApiResponse;

/// Where a proxy shows the secret of checks.
const CHECK_SECRET: HeaderName = HeaderName::from_static("anteroom-check-secret");

/// Which proxies may ask. Where both addresses and a secret are configured, both must be right.
#[derive(Debug, Default)]
pub(crate) struct CheckProxies {
    pub(crate) networks: Option<Networks>,
    pub(crate) secret: Option<ApiKeyDigest>,
}

impl CheckProxies {
    /// Whether any proxy may ask.
    pub(crate) const fn is_configured(&self) -> bool {
        self.networks.is_some() || self.secret.is_some()
    }

    /// Whether a request asks for a verdict, and, if checks are configured, whether its sender may. A proxy that asks from
    /// an address that may not must never be answered by a site, whose 200 it would take for permission.
    pub(crate) fn admit<B>(&self, request: &Request<B>, peer: &Peer) -> Asked {
        let path = request.uri().path();
        if !self.is_configured() || !path.starts_with(CHECK_PREFIX) || !is_check(path) {
            return Asked::NoVerdict;
        }
        if self.trusts(request.headers(), peer) { Asked::Verdict } else { Asked::WithoutPermission }
    }

    /// Whether what a proxy shows, and where it comes from, is right.
    pub(crate) fn trusts(&self, headers: &HeaderMap, peer: &Peer) -> bool {
        let address = peer.address.ip().to_canonical();
        let shows_secret = |expected: &ApiKeyDigest| {
            let shown = headers.get(&CHECK_SECRET).and_then(|value| value.to_str().ok());
            shown.is_some_and(|shown| expected.matches(shown))
        };
        self.is_configured()
            && self.networks.as_ref().is_none_or(|networks| networks.contains(address))
            && self.secret.as_ref().is_none_or(shows_secret)
    }
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Something else.
    NoVerdict,
    /// A verdict, from a proxy that may ask.
    Verdict,
    /// A verdict, from somebody who may not ask.
    WithoutPermission,
}

/// Who may not ask is told so.
pub(crate) fn not_for_you() -> ApiError {
    let text = "Checks are for the proxies that `check_proxies` lists, or that show the secret of checks in \
                Anteroom-Check-Secret, and for no other address";
    ApiError::problem(Problem::Forbidden, text)
}

/// The same, where no checks are configured.
pub(crate) async fn refuse() -> Result<ApiResponse, ApiError> {
    Err(not_for_you())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn admits(proxies: &CheckProxies, peer: &str, path: &str, secret: Option<&str>) -> bool {
        asked(proxies, peer, path, secret) == Asked::Verdict
    }

    fn asked(proxies: &CheckProxies, peer: &str, path: &str, secret: Option<&str>) -> Asked {
        let mut check = Request::get(path);
        if let Some(secret) = secret {
            check = check.header(CHECK_SECRET, secret);
        }
        let peer = Peer { address: SocketAddr::new(peer.parse().unwrap(), 4_711), is_tls: false };
        proxies.admit(&check.body(()).unwrap(), &peer)
    }

    #[test]
    fn only_configured_proxies_may_ask_and_where_both_are_configured_address_and_secret_must_be_right() {
        const PATH: &str = "/check/forward/shop";
        let networks = || Some("10.0.0.0/8".parse::<Networks>().unwrap());
        let secret = || Some(ApiKeyDigest::of("a-long-shared-secret"));
        let right = Some("a-long-shared-secret");
        let nobody = CheckProxies::default();
        assert!(!nobody.is_configured() && !admits(&nobody, "10.0.0.1", PATH, right));
        let by_address = CheckProxies { networks: networks(), secret: None };
        assert!(admits(&by_address, "10.0.0.1", PATH, None));
        assert!(admits(&by_address, "::ffff:10.0.0.1", PATH, None));
        assert!(!admits(&by_address, "192.0.2.1", PATH, right));
        let by_secret = CheckProxies { networks: None, secret: secret() };
        assert!(admits(&by_secret, "192.0.2.1", PATH, right));
        assert!(!admits(&by_secret, "192.0.2.1", PATH, None));
        assert!(!admits(&by_secret, "192.0.2.1", PATH, Some("another-secret")));
        let by_both = CheckProxies { networks: networks(), secret: secret() };
        assert!(admits(&by_both, "10.0.0.1", PATH, right));
        assert!(!admits(&by_both, "10.0.0.1", PATH, None));
        assert!(!admits(&by_both, "192.0.2.1", PATH, right));
        for other in ["/check/nobody/shop", "/.anteroom/check/forward/shop", "/join"] {
            assert_eq!(asked(&by_address, "10.0.0.1", other, None), Asked::NoVerdict, "{other}");
        }
        assert_eq!(asked(&by_address, "192.0.2.1", PATH, None), Asked::WithoutPermission);
        assert_eq!(asked(&nobody, "192.0.2.1", PATH, None), Asked::NoVerdict, "a site may have such a path");
    }
}
