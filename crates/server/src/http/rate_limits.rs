//! **limit**, for our own API: which budgets a call is charged to, and what is answered beyond them.

use std::sync::Arc;
use std::time::Duration;

use anteroom_gateway::limiter::{Limiter, LimiterSettings, Policy, Quota};
use anteroom_store::buckets::{Buckets, MemoryBuckets, RedisBuckets};
use axum::body::Body;
use http::header::{self, HeaderValue};
use http::{Request, Response};
use serde_json::json;

use crate::app::App;
use crate::config::limits::LimitsStore;
use crate::config::{Config, StoreUrl};
use crate::http::error::{ApiError, Style};
use crate::http::problem::Problem;
use crate::http::response::{ApiResponse, EXPOSED_WITH_LIMITS, unmark_cross_origin};
use crate::http::router::PathRoutes;
use crate::http::routes::Listener;
use crate::openid::authorize::guarded;
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

/// What a client beyond its budget is answered, in the style of the path.
pub(crate) fn refused<B>(app: &App, routes: &PathRoutes, request: &Request<B>, quota: &Quota) -> ApiResponse {
    let style = routes.any_row().map_or(Style::Problem, |row| row.errors);
    let is_for_other_sites = routes.any_row().is_none_or(|row| row.is_for_other_sites);
    if style == Style::Page
        && let Some(page) = app.gateway.limited_page(request, quota)
    {
        app.metrics.count_expected_refusal(Listener::Public.name(), routes.path, page.status().as_u16());
        let page = page.map(Body::new);
        return if is_for_other_sites { page } else { guarded(page) };
    }
    let seconds = quota.retry_after_seconds().unwrap_or(1);
    let violated: Vec<&str> = quota.violated_policies().collect();
    let text = format!(
        "Too many requests: the budget {} is used up; try again in {seconds} seconds",
        violated.join(", ")
    );
    let error =
        ApiError::problem(Problem::QuotaExceeded, text).with_member("violated-policies", json!(violated));
    let mut answered = with_rate_limit_headers(error.render(style, &app.public_url), quota);
    if !is_for_other_sites {
        unmark_cross_origin(answered.headers_mut());
    }
    // Not counted as a failure: an alarm that counted it would let a flood of requests hold the line for all visitors.
    app.metrics.count_expected_refusal(Listener::Public.name(), routes.path, answered.status().as_u16());
    answered
}

/// Adds the rate limit headers. Not where a cache may keep the response and serve it to another client.
pub(crate) fn with_rate_limit_headers<B>(mut answered: Response<B>, quota: &Quota) -> Response<B> {
    let headers = answered.headers_mut();
    let is_shared = |value: &HeaderValue| value.as_bytes().starts_with(b"public");
    if !headers.get(header::CACHE_CONTROL).is_some_and(is_shared) {
        quota.write(headers);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_WITH_LIMITS);
    }
    answered
}
