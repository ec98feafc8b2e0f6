//! **limit**, for our own API: which budgets a call is charged to, and what is answered beyond them.

use std::sync::Arc;
use std::time::Duration;

use anteroom_gateway::limiter::{Class, Limiter, LimiterSettings, Policy, Quota};
use anteroom_store::buckets::{Buckets, MemoryBuckets, RedisBuckets};
use axum::body::Body;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response};
use serde_json::json;

use crate::app::App;
use crate::config::limits::LimitsStore;
use crate::config::{Config, StoreUrl};
use crate::http::error::{ApiError, Style};
use crate::http::problem::Problem;
use crate::http::response::{Answered, EXPOSED_WITH_LIMITS};
use crate::http::routes::{Listener, PUBLIC_ROUTES};
use crate::ops::stores;

/// The limiter that the configuration describes, connected if its Redis answers. If not, the server starts all the same: a limiter
/// that fails lets everybody through.
pub(crate) async fn open(config: &Config, policies: Vec<Policy>) -> anyhow::Result<Arc<Limiter>> {
    let keys_max = usize::try_from(config.limits_keys_max)?;
    let settings = LimiterSettings {
        policies,
        exempt: config.limits_exempt.clone(),
        budget: Duration::from_millis(config.limits_budget_milliseconds),
        on_failure: config.limits_on_failure,
        local_keys_max: keys_max,
        legacy_fields: config.limits_legacy_fields,
    };
    if let Some(LimitsStore::Redis(url)) = &config.limits_store_url {
        stores::warn_of_danger(url);
    }
    let url = match (&config.limits_store_url, &config.store_url) {
        (Some(LimitsStore::Redis(url)), _) | (None, StoreUrl::Redis(url)) => Some(url),
        (Some(LimitsStore::Memory), _) | (None, StoreUrl::Memory | StoreUrl::File(_)) => None,
    };
    let buckets: Arc<dyn Buckets> = match url {
        Some(url) => Arc::new(RedisBuckets::new(&stores::redis_options(url, config)?)),
        None => Arc::new(MemoryBuckets::new(keys_max)),
    };
    let limiter = Limiter::new(settings, buckets);
    limiter.connect().await;
    Ok(Arc::new(limiter))
}

/// What a call of the public API is for. Whatever has no route of its own is answered without touching anything, like a read.
pub(crate) fn class_of(method: &Method, path: &str) -> Class {
    if method != Method::POST {
        return Class::Read;
    }
    match path {
        "/join" | "/assign_queue_num" | "/auction" | "/line/join" => Class::Join,
        "/generate_token" | "/claim" | "/refresh" | "/leave" | "/line/enter" | "/line/leave" => Class::Claim,
        "/move" | "/line/take" => Class::Move,
        path if is_wait(path) && path.ends_with("/enter") => Class::Claim,
        _ => Class::Read,
    }
}

/// The waiting page for a site without a gateway, and its button.
fn is_wait(path: &str) -> bool {
    path.starts_with("/wait/")
}

/// The response to a client beyond its quota, in the style of the path.
pub(crate) fn refused<B>(app: &App, request: &Request<B>, quota: &Quota) -> Answered {
    let path = request.uri().path();
    let is_named = |route: &str| match route {
        "/rooms/{id}" => path.starts_with("/rooms/"),
        "/wait/{room}" => is_wait(path) && !path.ends_with("/enter"),
        "/wait/{room}/enter" => is_wait(path) && path.ends_with("/enter"),
        _ => false,
    };
    let row = PUBLIC_ROUTES.iter().find(|row| row.path == path || is_named(row.path));
    let (route, style) =
        row.map_or((crate::http::service::UNKNOWN, Style::Problem), |row| (row.path, row.errors));
    let is_page = is_wait(path) || path == "/line" || path.starts_with("/line/");
    if is_page && let Some(page) = app.gateway.limited_page(request, quota) {
        app.metrics.count_expected_refusal(Listener::Public.name(), route, page.status().as_u16());
        return page.map(Body::new);
    }
    let seconds = quota.retry_after_seconds().unwrap_or(1);
    let violated: Vec<&str> = quota.violated_policies().collect();
    let text = format!(
        "Too many requests: the budget {} is used up; try again in {seconds} seconds",
        violated.join(", ")
    );
    let error =
        ApiError::problem(Problem::QuotaExceeded, text).with_member("violated-policies", json!(violated));
    let answered = marked(error.render(style, &app.public_url), quota);
    // Not counted as a failure: an alarm that counted it would let a flood of requests hold the line for all visitors.
    app.metrics.count_expected_refusal(Listener::Public.name(), route, answered.status().as_u16());
    answered
}

/// Adds the rate limit headers. Not where a cache may keep the response and serve it to another client.
pub(crate) fn marked<B>(mut answered: Response<B>, quota: &Quota) -> Response<B> {
    let headers = answered.headers_mut();
    let is_shared = |value: &HeaderValue| value.as_bytes().starts_with(b"public");
    if !headers.get(header::CACHE_CONTROL).is_some_and(is_shared) {
        quota.write(headers);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_WITH_LIMITS);
    }
    answered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_that_changes_something_has_a_class_of_its_own() {
        for route in PUBLIC_ROUTES {
            let method: Method = route.method.as_str().parse().unwrap();
            let class = class_of(&method, route.path);
            assert_eq!(class != Class::Read, method == Method::POST, "{} is a {class:?}", route.path);
        }
        assert_eq!(class_of(&Method::OPTIONS, "/join"), Class::Read, "a browser's question costs no join");
    }
}
