//! Asks origins for their health, over connections of their own: a busy origin is not an unhealthy one.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::{Request, StatusCode, Uri};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tracing::{info, warn};

use super::connect::{self, Connected, spawn_connection};
use super::headers::apply_http2_framing;
use super::outgoing::Outgoing;
use super::pool::Origin;
use super::settings::HealthCheck;

/// How often unused connections are looked at.
const OUTDATED_INTERVAL: Duration = Duration::from_secs(1);
/// Who asks.
const USER_AGENT: HeaderValue = HeaderValue::from_static("anteroom-health-check");

/// Watches origins until it is dropped.
pub(super) async fn watch(origins: &[Arc<Origin>], check: Option<&HealthCheck>) {
    // Dropping the set ends its tasks.
    let mut checks = JoinSet::new();
    if let Some(check) = check {
        for origin in origins {
            checks.spawn(watch_one(Arc::clone(origin), check.clone()));
        }
    }
    let mut ticks = tokio::time::interval(OUTDATED_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for origin in origins {
            origin.close_outdated();
        }
    }
}

async fn watch_one(origin: Arc<Origin>, check: HealthCheck) {
    let mut ticks = tokio::time::interval(check.interval.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut in_a_row = 0_u32;
    loop {
        ticks.tick().await;
        let answered = tokio::time::timeout(check.timeout, ask(&origin, &check)).await;
        let is_good = matches!(answered, Ok(Ok(status)) if status.is_success() || status.is_redirection());
        let was_healthy = origin.is_healthy.load(Ordering::Relaxed);
        in_a_row = if is_good == was_healthy { 0 } else { in_a_row.saturating_add(1) };
        let needed = if was_healthy { check.failures } else { check.successes };
        if in_a_row >= needed.max(1) {
            in_a_row = 0;
            origin.is_healthy.store(is_good, Ordering::Relaxed);
            if is_good {
                info!(origin = %origin.address, "origin is healthy again");
            } else {
                let reason = match answered {
                    Err(_) => "it did not answer in time".to_owned(),
                    Ok(Ok(status)) => format!("it answered {status}"),
                    Ok(Err(reason)) => reason,
                };
                warn!(origin = %origin.address, reason, "origin is unhealthy, sending it no more requests");
            }
        }
    }
}

/// Asks one origin once.
async fn ask(origin: &Origin, check: &HealthCheck) -> Result<StatusCode, String> {
    let mut request = Request::new(Outgoing::Empty);
    *request.uri_mut() = Uri::from(check.path.clone());
    request.headers_mut().insert(header::HOST, origin.address.host_value());
    request.headers_mut().insert(header::USER_AGENT, USER_AGENT);
    match connect::open(origin, false).await.map_err(|error| error.to_string())? {
        Connected::Http1(mut http1) => {
            request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            let mut answer = pin!(http1.send(request));
            let answered =
                poll_fn(|context| http1.drive_for(context, |context| answer.as_mut().poll(context)));
            answered.await.map(|response| response.status()).map_err(|error| error.into_error().to_string())
        }
        Connected::Http2 { mut sender, driver } => {
            // Ends when the sender is dropped.
            spawn_connection(driver);
            let (mut parts, body) = request.into_parts();
            apply_http2_framing(&mut parts, origin.address.is_tls());
            let answered = sender.send_request(Request::from_parts(parts, body)).await;
            answered.map(|response| response.status()).map_err(|error| error.to_string())
        }
    }
}
