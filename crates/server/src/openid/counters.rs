//! What OpenID clients asked for, counted by endpoint and by what became of it.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// An endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Authorize,
    Token,
    UserInfo,
}

impl Endpoint {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Authorize => "authorize",
            Self::Token => "token",
            Self::UserInfo => "userinfo",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    endpoint: &'static str,
    outcome: &'static str,
}

/// What is counted when nothing went wrong.
pub(crate) const SERVED: &str = "served";
/// A request that was refused by a page, because nobody could be told of it in safety.
pub(crate) const REFUSED_BY_PAGE: &str = "refused_by_page";

/// The counters. An outcome is one of the constants here or an error of `error_code`, so there are few.
#[derive(Debug, Default)]
pub(crate) struct OpenIdCounters(Family<Labels, Counter>);

impl OpenIdCounters {
    pub(crate) fn count(&self, endpoint: Endpoint, outcome: &'static str) {
        self.0.get_or_create(&Labels { endpoint: endpoint.as_str(), outcome }).inc();
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "openid_requests",
            "Answers to OpenID clients, by endpoint and outcome; at authorize those that send a visitor back, and refusals",
            self.0.clone(),
        );
    }
}
