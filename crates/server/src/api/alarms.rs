//! Alarms over HTTP: Alertmanager tells what fires, operators look.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anteroom_core::UnixMillis;
use anteroom_core::alarms::{Alert, FINGERPRINT_MAX_BYTES, OutsideAlarm, OwnAlarm};
use anteroom_tokens::api_key::ApiKeyDigest;
use axum::body::Body;
use axum::extract::State;
use http::{Request, StatusCode};
use serde_json::{Map, Value as Json, json};

use crate::access::Principal;
use crate::app::App;
use crate::http::error::ApiError;
use crate::http::problem::Problem;
use crate::http::request::read_json;
use crate::http::response::{self, ApiResponse, Caching};
use crate::http::timestamp::rfc3339;
use crate::ops::alarms::{HearError, rooms_by_name};

type Shared = State<Arc<App>>;
type Outcome = Result<ApiResponse, ApiError>;

impl From<HearError> for ApiError {
    fn from(error: HearError) -> Self {
        match error {
            HearError::Full(full) => {
                let text = format!("The notification was not taken in: {full}");
                Self::problem(Problem::Conflict, text)
            }
            HearError::Store(error) => error.into(),
        }
    }
}

/// POST `/alarms`: Alertmanager's webhook.
pub(crate) async fn notify(State(app): Shared, principal: Principal, request: Request<Body>) -> Outcome {
    let body: Map<String, Json> = read_json(request).await?;
    let notification = Notification::read(&body)?;
    if notification.truncated > 0 {
        let truncated = notification.truncated;
        tracing::warn!(
            truncated,
            "alertmanager truncated the notification, set max_alerts to 0 in its webhook_config"
        );
    }
    let outcome = app.alarms.receive(notification.alerts, &principal.name, app.now()).await?;
    for alarm in &outcome.began {
        tracing::warn!(alarm, "alarm firing");
    }
    for alarm in &outcome.ended {
        tracing::info!(alarm, "alarm resolved");
    }
    app.alarms.tell_rooms(&app.engine).await;
    let told = json!({
        "received": outcome.alerts_received(),
        "firing": outcome.firing,
        "resolved": outcome.resolved,
        "ignored": outcome.ignored,
    });
    Ok(response::json(StatusCode::OK, Caching::Never, &told))
}

/// GET `/alarms`: every alarm, own and reported from outside, and the names that rooms mention but that were never
/// reported.
pub(crate) async fn list(State(app): Shared) -> ApiResponse {
    let now = app.now();
    let rooms = rooms_by_name(&app.engine);
    let rooms_naming = |name: &str| rooms.get(name).cloned().unwrap_or_default();
    let mut alarms: BTreeMap<String, Json> =
        rooms.iter().map(|(name, rooms)| (name.clone(), described_unknown(name, rooms))).collect();
    app.alarms.with_book(|book| {
        for alarm in book.outside.iter() {
            let stale = app.alarms.is_stale(alarm, now);
            let told = described_outside(alarm, now, stale, &rooms_naming(&alarm.name));
            alarms.insert(alarm.name.clone(), told);
        }
        for alarm in book.own.iter() {
            let fires = app.alarms.own_fires(alarm, now);
            alarms.insert(alarm.name.clone(), described_own(alarm, fires, &rooms_naming(&alarm.name)));
        }
    });
    let alarms: Vec<Json> = alarms.into_values().collect();
    response::json(StatusCode::OK, Caching::Never, &json!({"alarms": alarms}))
}

fn state(fires: bool) -> &'static str {
    if fires { "firing" } else { "ok" }
}

fn described_own(alarm: &OwnAlarm, fires: bool, rooms: &BTreeSet<String>) -> Json {
    json!({
        "name": alarm.name,
        "state": state(fires),
        "source": "own",
        "since": alarm.since.map(rfc3339),
        "last_heard": null,
        "stale": false,
        "threshold": alarm.threshold,
        "count": alarm.count(),
        "summary": null,
        "labels": null,
        "fingerprints": [],
        "rooms": rooms,
    })
}

fn described_outside(alarm: &OutsideAlarm, now: UnixMillis, stale: bool, rooms: &BTreeSet<String>) -> Json {
    let fingerprints: Vec<&str> = alarm.firing_alerts(now).collect();
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "name": alarm.name,
        "state": state(alarm.fires(now)),
        "source": "outside",
        "since": rfc3339(alarm.since(now)),
        "last_heard": rfc3339(alarm.last_heard),
        "stale": stale,
        "threshold": null,
        "count": null,
        "summary": text(&alarm.summary),
        "labels": text(&alarm.labels),
        "fingerprints": fingerprints,
        "rooms": rooms,
    })
}

fn described_unknown(name: &str, rooms: &BTreeSet<String>) -> Json {
    json!({
        "name": name,
        "state": "unknown",
        "source": null,
        "since": null,
        "last_heard": null,
        "stale": false,
        "threshold": null,
        "count": null,
        "summary": null,
        "labels": null,
        "fingerprints": [],
        "rooms": rooms,
    })
}

/// The content of a webhook body. It is parsed by hand, so that an error names the field it is in.
#[derive(Debug, PartialEq, Eq)]
struct Notification {
    alerts: Vec<Alert>,
    /// How many alerts the sender left out.
    truncated: u64,
}

impl Notification {
    fn read(body: &Map<String, Json>) -> Result<Self, ApiError> {
        let fires = fires("status", body.get("status").ok_or_else(|| missing("status"))?)?;
        let truncated = match body.get("truncatedAlerts").filter(|value| !value.is_null()) {
            None => 0,
            Some(number) => {
                number.as_u64().ok_or_else(|| must_be("truncatedAlerts", "a whole number from 0 on"))?
            }
        };
        let alerts = body.get("alerts").ok_or_else(|| missing("alerts"))?;
        let alerts = alerts.as_array().ok_or_else(|| must_be("alerts", "a list"))?;
        let alerts = alerts
            .iter()
            .enumerate()
            .map(|(index, alert)| read_alert(&format!("alerts[{index}]"), alert, fires));
        Ok(Self { alerts: alerts.collect::<Result<_, _>>()?, truncated })
    }
}

fn read_alert(place: &str, alert: &Json, group_fires: bool) -> Result<Alert, ApiError> {
    let alert = alert.as_object().ok_or_else(|| must_be(place, "an object"))?;
    let at = |name: &str| format!("{place}.{name}");
    let given = |name: &str| alert.get(name).filter(|value| !value.is_null());
    let fires = match given("status") {
        Some(status) => fires(&at("status"), status)?,
        None => group_fires,
    };
    let mut labels = texts(&at("labels"), given("labels").ok_or_else(|| missing(&at("labels")))?)?;
    let annotations = given("annotations").map(|value| texts(&at("annotations"), value)).transpose()?;
    let annotations = annotations.unwrap_or_default();
    // Looked at only to be refused if it is none: a sender that writes moments wrongly should hear of it.
    given("startsAt").map(|value| moment(&at("startsAt"), value)).transpose()?;
    let ends_at = given("endsAt").map(|value| moment(&at("endsAt"), value)).transpose()?;
    let fingerprint = match given("fingerprint") {
        None => String::new(),
        Some(value) => fingerprint(&at("fingerprint"), value)?,
    };
    let summary = ["summary", "description", "message"].iter().find_map(|name| annotations.get(*name));
    let whole = label_text(&labels);
    let name = labels.remove("alertname").unwrap_or_default();
    Ok(Alert {
        name,
        // Senders without fingerprints tell alerts apart by their labels, as fingerprints do.
        fingerprint: if fingerprint.is_empty() { digest(&whole) } else { fingerprint },
        fires,
        ends_at: ends_at.flatten(),
        summary: summary.cloned().unwrap_or_default(),
        labels: label_text(&labels),
    })
}

fn missing(place: &str) -> ApiError {
    ApiError::bad_request(format!("`{place}` is missing"))
}

fn must_be(place: &str, what: &str) -> ApiError {
    ApiError::bad_request(format!("`{place}` must be {what}"))
}

fn fires(place: &str, status: &Json) -> Result<bool, ApiError> {
    match status.as_str() {
        Some("firing") => Ok(true),
        Some("resolved") => Ok(false),
        _ => Err(must_be(place, "\"firing\" or \"resolved\"")),
    }
}

fn texts(place: &str, value: &Json) -> Result<BTreeMap<String, String>, ApiError> {
    let object = value.as_object().ok_or_else(|| must_be(place, "an object of texts"))?;
    let entry = |(name, value): (&String, &Json)| match value.as_str() {
        Some(text) => Ok((name.clone(), text.to_owned())),
        None => Err(must_be(&format!("{place}.{}", crate::config::displayed(name)), "a text")),
    };
    object.iter().map(entry).collect()
}

/// A moment; `None` for one before 1970, with which Alertmanager says that there is none.
fn moment(place: &str, value: &Json) -> Result<Option<UnixMillis>, ApiError> {
    let parsed = value.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
    let parsed = parsed.ok_or_else(|| must_be(place, "a moment as in \"2026-11-16T20:00:00Z\""))?;
    Ok(u64::try_from(parsed.as_millisecond()).ok().filter(|millis| *millis > 0).map(UnixMillis))
}

fn fingerprint(place: &str, value: &Json) -> Result<String, ApiError> {
    let fits =
        |text: &&str| text.len() <= FINGERPRINT_MAX_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic());
    let text = value.as_str().filter(fits);
    let what = format!("a text of up to {FINGERPRINT_MAX_BYTES} visible ASCII characters");
    text.map(str::to_owned).ok_or_else(|| must_be(place, &what))
}

/// Labels as Prometheus writes them.
fn label_text(labels: &BTreeMap<String, String>) -> String {
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    labels.join(", ")
}

fn digest(text: &str) -> String {
    let [first, ..] = *ApiKeyDigest::of(text).to_bytes().as_chunks::<8>().0 else { return String::new() };
    format!("{:016x}", u64::from_be_bytes(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &Json) -> Result<Notification, String> {
        Notification::read(body.as_object().unwrap()).map_err(|error| format!("{error:?}"))
    }

    /// As Alertmanager 0.27 sends it.
    fn body() -> Json {
        json!({
            "version": "4", "groupKey": "{}:{alertname=\"HighLoad\"}", "truncatedAlerts": 0, "status": "firing", "receiver": "anteroom",
            "groupLabels": {"alertname": "HighLoad"}, "commonLabels": {"alertname": "HighLoad"}, "commonAnnotations": {},
            "externalURL": "http://alertmanager.example.com:9093",
            "alerts": [
                {"status": "firing", "labels": {"alertname": "HighLoad", "instance": "a"}, "annotations": {"summary": "Load is high"},
                 "startsAt": "2026-11-16T20:00:00.123456789Z", "endsAt": "0001-01-01T00:00:00Z", "generatorURL": "", "fingerprint": "1a30ba71cca2921f"},
                {"status": "resolved", "labels": {"alertname": "HighLoad", "instance": "b"}, "annotations": {},
                 "startsAt": "2026-11-16T20:00:00Z", "endsAt": "2026-11-16T22:00:00+02:00", "generatorURL": "", "fingerprint": "2b41cb82ddb3a320"},
            ],
        })
    }

    #[test]
    fn alertmanagers_own_body_is_read() {
        let read = read(&body()).unwrap();
        assert_eq!((read.alerts.len(), read.truncated), (2, 0));
        let first = &read.alerts[0];
        assert_eq!((first.name.as_str(), first.fires, first.ends_at), ("HighLoad", true, None));
        assert_eq!(
            (first.fingerprint.as_str(), first.summary.as_str()),
            ("1a30ba71cca2921f", "Load is high")
        );
        assert_eq!(first.labels, "instance=\"a\"");
        let second = &read.alerts[1];
        assert_eq!((second.fires, second.ends_at), (false, Some(UnixMillis(1_794_859_200_000))));
    }

    #[test]
    fn senders_without_fingerprints_and_statuses_are_understood() {
        let body = json!({"status": "firing", "alerts": [
            {"labels": {"alertname": "A", "instance": "a"}}, {"labels": {"alertname": "A", "instance": "b"}, "fingerprint": ""},
            {"labels": {}, "annotations": null}
        ]});
        let read = read(&body).unwrap();
        assert!(read.alerts.iter().all(|alert| alert.fires && alert.fingerprint.len() == 16));
        assert_ne!(read.alerts[0].fingerprint, read.alerts[1].fingerprint);
        assert_eq!(read.alerts[2].name, "");
    }

    #[test]
    fn a_mistake_is_told_with_its_place() {
        let spoilt = |pointer: &str, value: Json| {
            let mut body = body();
            *body.pointer_mut(pointer).unwrap() = value;
            body
        };
        for (body, place) in [
            (json!({"status": "firing", "alerts": {}}), "alerts"),
            (json!({"status": "firing", "alerts": [5]}), "alerts[0]"),
            (json!({"status": "firing"}), "alerts"),
            (json!({"alerts": []}), "status"),
            (spoilt("/status", json!("on fire")), "status"),
            (spoilt("/alerts/1/status", json!(1)), "alerts[1].status"),
            (spoilt("/alerts/0/labels", json!(null)), "alerts[0].labels"),
            (spoilt("/alerts/0/labels/instance", json!(7)), "alerts[0].labels.\\\"instance\\\""),
            (spoilt("/alerts/0/annotations", json!([])), "alerts[0].annotations"),
            (spoilt("/alerts/0/startsAt", json!("yesterday")), "alerts[0].startsAt"),
            (spoilt("/alerts/1/endsAt", json!(0)), "alerts[1].endsAt"),
            (spoilt("/alerts/1/fingerprint", json!("x".repeat(65))), "alerts[1].fingerprint"),
            (spoilt("/truncatedAlerts", json!(-1)), "truncatedAlerts"),
        ] {
            let refused = read(&body).unwrap_err();
            assert!(refused.contains(&format!("`{place}`")), "{place}: {refused}");
        }
    }
}
