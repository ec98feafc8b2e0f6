//! Amazon EventBridge: `PutEvents`, signed by Signature Version 4.
//!
//! The four kinds of Virtual Waiting Room on AWS come as it sends them, under its source and with its details, so that rules written for it go
//! on matching. All other kinds come under a source of our own.

use std::sync::Arc;

use anteroom_tokens::sigv4::{AccessKeyId, Credentials, OutgoingRequest, SecretAccessKey, sign_outgoing};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::client::{HttpAddress, HttpClient};
use super::policy::OutboundPolicy;
use super::{SendFailure, Transport, TransportError};
use crate::destination::EventBridgeTarget;
use crate::message::EventMessage;

/// How many entries one call takes.
pub(super) const ENTRIES_MAX: usize = 10;
/// How large the entries of one call may be together, by AWS's own way of counting.
pub(super) const ENTRIES_MAX_BYTES: usize = 256 * 1024;
/// What AWS counts for the time of an entry.
const TIME_BYTES: usize = 14;
/// The source of what Virtual Waiting Room on AWS sends.
const SOURCE_OF_AWS: &str = "custom.waitingroom";
/// The source of all else.
const SOURCE: &str = "anteroom";
const SERVICE: &str = "events";
const OPERATION: &str = "AWSEvents.PutEvents";
const CONTENT_TYPE: &str = "application/x-amz-json-1.1";
const TARGET: HeaderName = HeaderName::from_static("x-amz-target");
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
/// The longest name of an error of AWS that is told.
const ERROR_CODE_MAX_LENGTH: usize = 64;

/// The way to an event bus.
pub(super) struct EventBridgeTransport {
    client: HttpClient,
    region: String,
    bus: String,
    access_key_id: AccessKeyId,
    secret: SecretAccessKey,
    with_request_ids: bool,
    policy: Arc<OutboundPolicy>,
}

#[derive(Serialize)]
struct Call<'a> {
    #[serde(rename = "Entries")]
    entries: &'a [Entry<'a>],
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Entry<'a> {
    time: f64,
    source: &'static str,
    detail_type: &'static str,
    detail: String,
    /// The room, which some of AWS's details do not name.
    resources: [String; 1],
    event_bus_name: &'a str,
}

/// What came of a call.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CallResult {
    entries: Vec<EntryResult>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EntryResult {
    error_code: Option<String>,
}

/// An error of the whole call.
#[derive(Deserialize)]
struct CallError {
    #[serde(rename = "__type", default)]
    name: String,
}

impl EventBridgeTransport {
    pub(super) fn new(
        target: &EventBridgeTarget,
        secret: &SecretString,
        with_request_ids: bool,
        policy: Arc<OutboundPolicy>,
    ) -> Result<Self, TransportError> {
        let is_region = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if target.region.is_empty() || !target.region.bytes().all(is_region) {
            return Err(TransportError::Region);
        }
        let endpoint = target.endpoint.clone().unwrap_or_else(|| endpoint_of(&target.region));
        let address = HttpAddress::parse(&endpoint)?;
        Ok(Self {
            client: HttpClient::new(address, target.timeout, Arc::clone(&policy)),
            region: target.region.clone(),
            bus: target.bus.clone(),
            access_key_id: AccessKeyId::parse(&target.access_key_id)
                .map_err(|_| TransportError::AccessKeyId)?,
            secret: SecretAccessKey::parse(secret.expose_secret()).map_err(|_| TransportError::Secret)?,
            with_request_ids,
            policy,
        })
    }

    fn entry(&self, message: &EventMessage) -> Entry<'_> {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 have less than 53 bits")]
        let time = message.at.0 as f64 / 1000.0;
        let (source, detail) = if message.kind.is_of_aws() {
            (SOURCE_OF_AWS, message.data(self.with_request_ids))
        } else {
            (SOURCE, own_detail(message, self.with_request_ids))
        };
        let (detail_type, detail) = (message.kind.as_str(), detail.to_string());
        let resources = [message.source()];
        Entry { time, source, detail_type, detail, resources, event_bus_name: &self.bus }
    }

    /// Puts entries; of those before the first one that failed it is certain that they arrived.
    async fn put(&self, entries: &[Entry<'_>]) -> Result<(), SendFailure> {
        let body = serde_json::to_vec(&Call { entries }).expect("entries can be written as JSON");
        let headers = self.headers(&body).ok_or_else(|| SendFailure::new("the request cannot be signed"))?;
        let (status, answer) =
            self.client.post_and_read(headers, Bytes::from(body)).await.map_err(SendFailure::new)?;
        if !status.is_success() {
            let answered = format!("answered {}", status.as_u16());
            let name = serde_json::from_slice::<CallError>(&answer).map(|error| error.name);
            // `prefix#Name`, as some services of AWS write it.
            let code = name.ok().and_then(|name| name.rsplit('#').next().and_then(error_code));
            return Err(SendFailure::new(
                code.map_or(answered.clone(), |code| format!("{answered}, {code}")),
            ));
        }
        let Ok(CallResult { entries: results }) = serde_json::from_slice(&answer) else {
            return Err(SendFailure::new("the answer is not one of EventBridge"));
        };
        if results.len() != entries.len() {
            return Err(SendFailure::new("the answer is not one of EventBridge"));
        }
        let failed = results
            .iter()
            .enumerate()
            .find_map(|(place, result)| Some((place, result.error_code.as_deref()?)));
        match failed {
            None => Ok(()),
            Some((delivered, code)) => {
                let code = error_code(code).unwrap_or_else(|| "an error".into());
                Err(SendFailure { delivered, ..SendFailure::new(format!("an event was refused: {code}")) })
            }
        }
    }

    fn headers(&self, body: &[u8]) -> Option<HeaderMap> {
        let address = self.client.address();
        let host = address.host();
        let signed = sign_outgoing(
            &OutgoingRequest {
                method: "POST",
                host: &host,
                path: address.path(),
                query: address.query(),
                headers: &[
                    (header::CONTENT_TYPE.as_str(), CONTENT_TYPE.as_bytes()),
                    (TARGET.as_str(), OPERATION.as_bytes()),
                ],
                body,
            },
            &Credentials {
                access_key_id: &self.access_key_id,
                secret: &self.secret,
                region: &self.region,
                service: SERVICE,
            },
            None,
            self.policy.now(),
        )
        .ok()?;
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::try_from(host).ok()?);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        headers.insert(TARGET, HeaderValue::from_static(OPERATION));
        headers.insert(DATE, HeaderValue::try_from(signed.date).ok()?);
        headers.insert(header::AUTHORIZATION, HeaderValue::try_from(signed.authorization).ok()?);
        Some(headers)
    }
}

#[async_trait]
impl Transport for EventBridgeTransport {
    fn batch_max(&self) -> usize {
        ENTRIES_MAX
    }

    async fn send(&self, messages: &[EventMessage]) -> Result<(), SendFailure> {
        let entries: Vec<_> = messages.iter().map(|message| self.entry(message)).collect();
        let mut delivered = 0;
        while delivered < entries.len() {
            let rest = &entries[delivered..];
            let count = fitting(rest);
            if count == 0 {
                let reason = format!("the event is larger than {} KiB", ENTRIES_MAX_BYTES / 1024);
                return Err(SendFailure { delivered, is_too_large: true, ..SendFailure::new(reason) });
            }
            self.put(&rest[..count])
                .await
                .map_err(|failure| SendFailure { delivered: delivered + failure.delivered, ..failure })?;
            delivered += count;
        }
        Ok(())
    }
}

/// AWS's address of a region.
fn endpoint_of(region: &str) -> String {
    let suffix = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    format!("https://{SERVICE}.{region}.{suffix}/")
}

/// How many entries, from the first on, one call takes.
fn fitting(entries: &[Entry<'_>]) -> usize {
    let sizes = entries.iter().map(|entry| {
        let names = entry.source.len() + entry.detail_type.len() + entry.resources[0].len();
        TIME_BYTES + names + entry.detail.len()
    });
    let together = sizes.scan(0, |sum, size| {
        *sum += size;
        Some(*sum)
    });
    together.take(ENTRIES_MAX).take_while(|sum| *sum <= ENTRIES_MAX_BYTES).count()
}

/// The detail of one of our own kinds: its data, and of the envelope what EventBridge has no place for.
fn own_detail(message: &EventMessage, with_request_ids: bool) -> Value {
    let mut detail = message.data(with_request_ids);
    if let Value::Object(fields) = &mut detail {
        fields.insert("id".into(), Value::from(&*message.id));
        fields.insert("sequence".into(), message.sequence().into());
        if let Some(room) = &message.room {
            fields.insert("room".into(), room.as_str().into());
        }
    }
    detail
}

/// The name of an error, if it is one: never text that somebody else wrote.
fn error_code(text: &str) -> Option<String> {
    let is_name =
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte));
    (is_name && text.len() <= ERROR_CODE_MAX_LENGTH).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn entries(details: &[usize]) -> Vec<Entry<'static>> {
        let entry = |bytes: &usize| Entry {
            time: 0.0,
            source: SOURCE,
            detail_type: "room.opened",
            detail: "a".repeat(*bytes),
            resources: ["/server".to_owned()],
            event_bus_name: "default",
        };
        details.iter().map(entry).collect()
    }

    #[test]
    fn a_call_takes_ten_entries_and_a_quarter_of_a_mebibyte() {
        assert_eq!(fitting(&entries(&[1; 11])), 10);
        assert_eq!(fitting(&entries(&[100_000, 100_000, 100_000])), 2);
        assert_eq!(fitting(&entries(&[ENTRIES_MAX_BYTES])), 0);
        let rest = TIME_BYTES + SOURCE.len() + "room.opened".len() + "/server".len();
        assert_eq!(fitting(&entries(&[ENTRIES_MAX_BYTES - rest])), 1);
        assert_eq!(fitting(&entries(&[ENTRIES_MAX_BYTES - rest + 1])), 0);
    }

    /// A ticket is as good as the place: a bus gets it only if its operator said so, also in AWS's own details.
    #[test]
    fn request_ids_go_only_where_they_are_asked_for() {
        use anteroom_core::{Event, Generation, Position, RequestId, RoomId, SessionKey, UnixMillis};
        use anteroom_store::{EventId, StoredEvent};

        let generation = Generation { opened: 9, incarnation: 1 };
        let visit = SessionKey { generation, position: Position::new(3).unwrap() };
        let message = EventMessage::of(
            1,
            &StoredEvent {
                id: EventId { node: 1, version: 1, number: 1, index: 0 },
                at: UnixMillis(0),
                room: Some(RoomId::parse("Hall").unwrap()),
                event: Event::TokenGenerated { request_id: RequestId([7; 16]), visit },
            },
        );
        let target = EventBridgeTarget {
            region: "eu-central-1".into(),
            bus: "default".into(),
            endpoint: None,
            access_key_id: "AKABCDEFGHIJKLMNOP12".into(),
            timeout: Duration::from_secs(1),
        };
        let policy = Arc::new(OutboundPolicy::new(vec![], None).unwrap());
        let secret = SecretString::from("a-secret-access-key");
        for asks in [true, false] {
            let transport = EventBridgeTransport::new(&target, &secret, asks, policy.clone()).unwrap();
            let entry = transport.entry(&message);
            assert_eq!((entry.source, entry.detail_type), (SOURCE_OF_AWS, "token_generated"));
            assert_eq!(entry.detail.contains("07070707-0707"), asks);
            assert_eq!(entry.resources, ["/rooms/Hall"]);
        }
    }

    #[test]
    fn only_names_of_errors_are_told() {
        assert_eq!(error_code("AccessDeniedException").as_deref(), Some("AccessDeniedException"));
        for text in ["", "a name", "<script>", "key=secret", &"a".repeat(65)] {
            assert_eq!(error_code(text), None, "{text}");
        }
    }

    #[test]
    fn a_region_has_its_endpoint() {
        assert_eq!(endpoint_of("eu-central-1"), "https://events.eu-central-1.amazonaws.com/");
        assert_eq!(endpoint_of("cn-north-1"), "https://events.cn-north-1.amazonaws.com.cn/");
    }
}
