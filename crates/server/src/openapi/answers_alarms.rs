//! Alarms in the documents: what Alertmanager sends, and what is answered.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::schemas::{
    AlarmSource, AlarmState, AlertCount, AlertFingerprint, AlertMoment, AlertStatus, Moment, RoomName,
};

/// A notification, as Alertmanager's webhook sends it.
#[expect(
    dead_code,
    reason = "it is read by hand, so that a mistake can be told with its place; see `alarm_api`"
)]
#[derive(ToSchema)]
pub(super) struct Notification {
    /// Whether anything in the group fires; what an alert without a status of its own does.
    #[schema(value_type = AlertStatus)]
    status: String,
    /// The alerts of the group.
    alerts: Vec<NotifiedAlert>,
    /// How many alerts Alertmanager left out, if it was told to send only so many.
    #[schema(value_type = Option<AlertCount>)]
    #[schema(rename = "truncatedAlerts")]
    truncated_alerts: Option<u64>,
}

/// One alert.
#[expect(dead_code, reason = "likewise")]
#[derive(ToSchema)]
pub(super) struct NotifiedAlert {
    /// Whether it fires.
    #[schema(value_type = Option<AlertStatus>)]
    status: Option<String>,
    /// What it is about; `alertname` is the alarm.
    labels: BTreeMap<String, String>,
    /// What it means, for people: `summary`, else `description` or `message`, is shown.
    annotations: Option<BTreeMap<String, String>>,
    /// When it began.
    #[schema(value_type = Option<AlertMoment>)]
    #[schema(rename = "startsAt")]
    starts_at: Option<String>,
    /// When it ended or will end. An alert whose end is past does not fire; a moment before 1970 says nothing.
    #[schema(value_type = Option<AlertMoment>)]
    #[schema(rename = "endsAt")]
    ends_at: Option<String>,
    /// Tells it from other alerts of its name.
    #[schema(value_type = Option<AlertFingerprint>)]
    fingerprint: Option<String>,
}

/// What became of a notification, counted in alerts.
#[derive(Serialize, ToSchema)]
pub(super) struct HeardOfAlarms {
    /// All of them.
    pub(super) received: u64,
    /// Those that fire.
    pub(super) firing: u64,
    /// Those that do not.
    pub(super) resolved: u64,
    /// Those without a name that a room could use, or with the name of an own alarm.
    pub(super) ignored: u64,
}

/// Every alarm.
#[derive(Serialize, ToSchema)]
pub(super) struct Alarms {
    /// By name.
    pub(super) alarms: Vec<Alarm>,
}

/// An alarm.
#[derive(Serialize, ToSchema)]
pub(super) struct Alarm {
    /// Its name, as rooms use it.
    pub(super) name: &'static str,
    /// Whether it fires.
    #[schema(value_type = AlarmState)]
    pub(super) state: &'static str,
    /// Who says so; null while nobody does.
    #[schema(value_type = Option<AlarmSource>, required)]
    pub(super) source: Option<&'static str>,
    /// Since when it has been so; null for an own alarm that was OK since the start.
    #[schema(value_type = Option<Moment>, required)]
    pub(super) since: Option<&'static str>,
    /// When it was last told of; null if it is not told from outside.
    #[schema(value_type = Option<Moment>, required)]
    pub(super) last_heard: Option<&'static str>,
    /// Whether that is too long ago (`alarm_stale_seconds`). A stale alarm that fires goes on firing.
    pub(super) stale: bool,
    /// An own alarm fires above this.
    #[schema(required)]
    pub(super) threshold: Option<u64>,
    /// What an own alarm counted within the last minute.
    #[schema(required)]
    pub(super) count: Option<u64>,
    /// What it means, as it was told.
    #[schema(required)]
    pub(super) summary: Option<&'static str>,
    /// The labels of the alert last told of.
    #[schema(required)]
    pub(super) labels: Option<&'static str>,
    /// The alerts of this name that fire.
    pub(super) fingerprints: Vec<&'static str>,
    /// The rooms that name it.
    #[schema(value_type = Vec<RoomName>)]
    pub(super) rooms: Vec<&'static str>,
}
