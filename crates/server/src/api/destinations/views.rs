//! Destinations as our answers show them.

use std::time::Duration;

use anteroom_events::destinations::DestinationSecret;
use anteroom_events::{DeadLetter, Destination, DestinationState, DestinationStatus, SendFailure, Target};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::http::timestamp::rfc3339;
use crate::openapi::schemas::{
    CloudEvent, DestinationKindName, DestinationName, DestinationStateName, EventTypePattern, Moment,
    RetryScheduleName, RoomName, WebhookAlgorithmName,
};

/// Every destination.
#[derive(Serialize, ToSchema)]
#[schema(as = Destinations)]
pub(crate) struct DestinationsView {
    /// In the order in which they were made.
    pub(crate) destinations: Vec<DestinationView>,
}

/// A destination, without its secrets. What its kind does not have is missing.
#[derive(Serialize, ToSchema)]
#[schema(as = Destination)]
pub(crate) struct DestinationView {
    /// Its name.
    #[schema(value_type = DestinationName)]
    pub(crate) name: String,
    /// What takes the events.
    #[schema(value_type = DestinationKindName)]
    pub(crate) kind: &'static str,
    /// Whether it gets events now.
    #[schema(value_type = DestinationStateName)]
    pub(crate) state: &'static str,
    /// Why it is disabled.
    #[schema(required)]
    pub(crate) disabled_because: Option<String>,
    /// Where a webhook or a NATS server is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) url: Option<String>,
    /// How many events one request to a webhook has at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) batch_max: Option<u32>,
    /// The region of an event bus.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) region: Option<String>,
    /// Its name or ARN.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) bus: Option<String>,
    /// Where it is asked, if not at AWS's address of the region.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) endpoint: Option<String>,
    /// The id of the access key that requests to it are signed with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) access_key_id: Option<String>,
    /// What subjects of NATS begin with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) subject_prefix: Option<String>,
    /// How large a file becomes before it is rotated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) size_max_bytes: Option<u64>,
    /// How many rotated files are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) files_max: Option<u32>,
    /// How long an attempt may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) timeout_seconds: Option<u64>,
    /// The rooms whose events it gets; none: all, and what concerns no room.
    #[schema(value_type = Vec<RoomName>)]
    pub(crate) rooms: Vec<String>,
    /// The kinds of events that it gets, as patterns.
    #[schema(value_type = Vec<EventTypePattern>)]
    pub(crate) types: Vec<String>,
    /// Whether it gets the request ids of visitors.
    pub(crate) with_request_ids: bool,
    /// How long it is left alone after an attempt that failed.
    #[schema(value_type = RetryScheduleName)]
    pub(crate) schedule: &'static str,
    /// The longest pause between two attempts; of `exponential` only.
    pub(crate) backoff_max_seconds: u64,
    /// How long after an event it is tried again.
    pub(crate) give_up_after_seconds: u64,
    /// When it was made.
    #[schema(value_type = Moment)]
    pub(crate) created_at: String,
    /// The number of the outbox behind which it began.
    pub(crate) begins_after: u64,
    /// Whether the configuration file has it; then it is changed there.
    pub(crate) from_file: bool,
    /// The secrets that work, without what they are; the newest first.
    pub(crate) secrets: Vec<DestinationSecretView>,
    /// How it fares.
    pub(crate) status: DestinationStatusView,
}

/// A secret of a destination, without what it is.
#[derive(Serialize, ToSchema)]
#[schema(as = DestinationSecret)]
pub(crate) struct DestinationSecretView {
    /// How it signs; null of what is shown to be let in.
    #[schema(value_type = Option<WebhookAlgorithmName>, required)]
    pub(crate) algorithm: Option<&'static str>,
    /// The public half of a key pair, `whpk_…`, by which receivers check signatures.
    #[schema(required)]
    pub(crate) public_key: Option<String>,
    /// When it was made or given.
    #[schema(value_type = Moment)]
    pub(crate) created_at: String,
    /// When it stops working; null if that is not set.
    #[schema(value_type = Option<Moment>, required)]
    pub(crate) expires_at: Option<String>,
}

/// How a destination fares.
#[derive(Serialize, ToSchema)]
#[schema(as = DestinationStatus)]
pub(crate) struct DestinationStatusView {
    /// How many events wait for it.
    pub(crate) lag_events: u64,
    /// How long the oldest of them has waited.
    pub(crate) lag_seconds: u64,
    /// How many it has got.
    pub(crate) delivered: u64,
    /// When it last got one.
    #[schema(value_type = Option<Moment>, required)]
    pub(crate) last_delivered_at: Option<String>,
    /// Since when no attempt has succeeded; null where the last one did.
    #[schema(value_type = Option<Moment>, required)]
    pub(crate) failing_since: Option<String>,
    /// What went wrong with the last attempt, if it failed.
    #[schema(required)]
    pub(crate) last_error: Option<String>,
    /// When it is tried again.
    #[schema(value_type = Option<Moment>, required)]
    pub(crate) next_attempt_at: Option<String>,
    /// How many dead letters it has: events that were given up.
    pub(crate) dead_letters: u64,
    /// How many events were dropped from the outbox before it had them.
    pub(crate) missed: u64,
    /// The node that delivers to it.
    #[schema(required)]
    pub(crate) node: Option<String>,
    /// The number of the outbox up to which it has everything.
    pub(crate) position: u64,
}

/// A destination with its new key, which is shown this once.
#[derive(Serialize, ToSchema)]
#[schema(as = NewDestination)]
pub(crate) struct NewDestinationView {
    #[serde(flatten)]
    pub(crate) destination: DestinationView,
    /// The shared secret of a webhook, `whsec_…`, if it was made here: in clear for the only time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) secret: Option<String>,
    /// The public half of its key pair, `whpk_…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) public_key: Option<String>,
}

/// What came of a test.
#[derive(Serialize, ToSchema)]
#[schema(as = DestinationTest)]
pub(crate) struct DestinationTestView {
    /// Whether the destination took the event.
    pub(crate) delivered: bool,
    /// How long that took; null if it did not.
    #[schema(required)]
    pub(crate) milliseconds: Option<u64>,
    /// Why it did not; null if it did.
    #[schema(required)]
    pub(crate) reason: Option<String>,
}

/// A replay that was asked for.
#[derive(Serialize, ToSchema)]
#[schema(as = Replay)]
pub(crate) struct ReplayView {
    /// Which replay of the destination it is.
    pub(crate) number: u64,
    /// The events behind this number of the outbox are sent again.
    pub(crate) after: u64,
}

/// Something that was asked for.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadLetterCommand)]
pub(crate) struct CommandView {
    /// How many times something was asked for with the dead letters of this destination.
    pub(crate) number: u64,
}

/// Events that were given up.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadLetters)]
pub(crate) struct DeadLettersView {
    /// The oldest first.
    pub(crate) dead_letters: Vec<DeadLetterView>,
}

/// An event that was given up.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadLetter)]
pub(crate) struct DeadLetterView {
    /// As the destination would have got it.
    #[schema(value_type = CloudEvent)]
    pub(crate) event: Value,
    /// Its number in the outbox.
    pub(crate) number: u64,
    /// When it was given up.
    #[schema(value_type = Moment)]
    pub(crate) failed_at: String,
    /// How often it was tried.
    pub(crate) attempts: u32,
    /// What went wrong last.
    pub(crate) reason: String,
}

impl DestinationView {
    pub(crate) fn of(
        destination: &Destination,
        secrets: &[DestinationSecret],
        status: &DestinationStatus,
    ) -> Self {
        let (state, disabled_because) = match &destination.state {
            DestinationState::Active => ("active", None),
            DestinationState::Paused => ("paused", None),
            DestinationState::Disabled { reason } => ("disabled", Some(reason.clone())),
        };
        let target = &destination.target;
        let mut view = Self {
            name: destination.name.clone(),
            kind: target.kind().as_str(),
            state,
            disabled_because,
            url: None,
            batch_max: None,
            region: None,
            bus: None,
            endpoint: None,
            access_key_id: None,
            subject_prefix: None,
            size_max_bytes: None,
            files_max: None,
            timeout_seconds: target.timeout().map(|timeout| timeout.as_secs()),
            rooms: destination.rooms.iter().map(|room| room.as_str().to_owned()).collect(),
            types: destination.types.clone(),
            with_request_ids: destination.with_request_ids,
            schedule: destination.schedule.as_str(),
            backoff_max_seconds: destination.backoff_max.as_secs(),
            give_up_after_seconds: destination.give_up_after.as_secs(),
            created_at: rfc3339(destination.created_at),
            begins_after: destination.begins_after,
            from_file: destination.is_from_file,
            secrets: secrets.iter().map(DestinationSecretView::of).collect(),
            status: DestinationStatusView::of(status),
        };
        match target.clone() {
            Target::Webhook(webhook) => {
                (view.url, view.batch_max) = (Some(webhook.url), Some(webhook.batch_max));
            }
            Target::EventBridge(bus) => {
                (view.region, view.bus, view.endpoint) = (Some(bus.region), Some(bus.bus), bus.endpoint);
                view.access_key_id = Some(bus.access_key_id);
            }
            Target::Nats(nats) => {
                (view.url, view.subject_prefix) = (Some(nats.url), Some(nats.subject_prefix));
            }
            Target::File(file) => {
                (view.size_max_bytes, view.files_max) = (Some(file.size_max_bytes), Some(file.files_max));
            }
        }
        view
    }
}

impl DestinationSecretView {
    fn of(secret: &DestinationSecret) -> Self {
        Self {
            algorithm: secret.algorithm.map(anteroom_tokens::WebhookAlgorithm::as_str),
            public_key: secret.public_key.clone(),
            created_at: rfc3339(secret.created_at),
            expires_at: secret.ends_at.map(rfc3339),
        }
    }
}

impl DestinationStatusView {
    pub(crate) fn of(status: &DestinationStatus) -> Self {
        Self {
            lag_events: status.lag_events,
            lag_seconds: status.lag_seconds,
            delivered: status.delivered,
            last_delivered_at: status.last_delivered_at.map(rfc3339),
            failing_since: status.failing_since.map(rfc3339),
            last_error: status.last_error.clone(),
            next_attempt_at: status.next_attempt_at.map(rfc3339),
            dead_letters: status.dead_letters,
            missed: status.missed,
            node: status.node.clone(),
            position: status.position,
        }
    }
}

impl DestinationTestView {
    pub(crate) fn of(outcome: &Result<Duration, SendFailure>) -> Self {
        match outcome {
            Ok(time) => Self {
                delivered: true,
                milliseconds: Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
                reason: None,
            },
            Err(failure) => {
                Self { delivered: false, milliseconds: None, reason: Some(failure.reason.clone()) }
            }
        }
    }
}

impl DeadLetterView {
    pub(crate) fn of(letter: DeadLetter) -> Self {
        Self {
            event: letter.event,
            number: letter.number,
            failed_at: rfc3339(letter.failed_at),
            attempts: letter.attempts,
            reason: letter.reason,
        }
    }
}
