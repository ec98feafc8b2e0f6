//! What the server says of itself: liveness, readiness, its figures, and what its problems mean.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use serde_json::json;

use crate::app::App;
use crate::http::error::ApiError;
use crate::http::html_frame;
use crate::http::problem;
use crate::http::response::{self, ApiResponse, Caching, mark_json};
use crate::http::staleness::{Freshness, store_is_lost};
use crate::ops::metrics;

/// GET `/livez`.
pub(crate) async fn live() -> ApiResponse {
    response::json(StatusCode::OK, Caching::Never, &json!({"status": "live"}))
}

/// GET `/readyz`.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Result<ApiResponse, ApiError> {
    if app.engine.is_ready() && app.freshness() == Freshness::Fresh {
        return Ok(response::json(StatusCode::OK, Caching::Never, &json!({"status": "ready"})));
    }
    Err(ApiError::unavailable(match app.freshness().stale_seconds() {
        Some(seconds) => store_is_lost(seconds),
        None => "The store, or one of the rooms, does not work".to_owned(),
    }))
}

/// GET `/metrics`.
pub(crate) async fn metrics_text(State(app): State<Arc<App>>) -> Result<ApiResponse, ApiError> {
    let text =
        metrics::render(&app).map_err(|_| ApiError::unavailable("The metrics could not be written"))?;
    let mut response = Response::new(Body::from(text));
    mark_json(response.headers_mut(), Caching::Never);
    let text = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    Ok(response)
}

/// GET `/problems`.
pub(crate) async fn problems() -> ApiResponse {
    html_frame::answer(problem::page())
}
