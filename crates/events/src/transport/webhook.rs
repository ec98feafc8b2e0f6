//! Webhooks: CloudEvents in structured mode, signed by [Standard Webhooks](https://www.standardwebhooks.com).
//!
//! Structured mode, because a signature covers the body and not the headers: everything that an event says is in the body.

use std::sync::Arc;
use std::time::Duration;

use anteroom_core::UnixMillis;
use anteroom_tokens::{WebhookKey, signature_header};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::client::{HttpAddress, HttpClient};
use super::policy::OutboundPolicy;
use super::{SendFailure, Transport, TransportError};
use crate::destination::WebhookTarget;
use crate::message::EventMessage;

/// How large the body of a batch becomes at most.
pub(super) const BATCH_BODY_MAX_BYTES: usize = 256 * 1024;
/// How large an event may be that is sent alone: what every receiver of CloudEvents takes.
pub(super) const SINGLE_BODY_MAX_BYTES: usize = 64 * 1024;
/// The longest time that a receiver can ask to be left alone.
pub(super) const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const SINGLE: HeaderValue = HeaderValue::from_static("application/cloudevents+json");
const BATCH: HeaderValue = HeaderValue::from_static("application/cloudevents-batch+json");

/// The way to a webhook.
pub(super) struct WebhookTransport {
    client: HttpClient,
    keys: Vec<WebhookKey>,
    batch_max: usize,
    with_request_ids: bool,
    policy: Arc<OutboundPolicy>,
}

/// One request.
struct Delivery {
    /// The same in every attempt.
    id: String,
    content_type: HeaderValue,
    body: Bytes,
    /// How many messages it has.
    count: usize,
}

impl WebhookTransport {
    pub(super) fn new(
        target: &WebhookTarget,
        keys: Vec<WebhookKey>,
        with_request_ids: bool,
        policy: Arc<OutboundPolicy>,
    ) -> Result<Self, TransportError> {
        if keys.is_empty() {
            return Err(TransportError::NoKey);
        }
        let address = HttpAddress::parse(&target.url)?;
        let client = HttpClient::new(address, target.timeout, Arc::clone(&policy));
        let batch_max = usize::try_from(target.batch_max).unwrap_or(usize::MAX).max(1);
        Ok(Self { client, keys, batch_max, with_request_ids, policy })
    }

    async fn deliver(&self, delivery: Delivery) -> Result<(), SendFailure> {
        let seconds = self.policy.now().0 / 1000;
        let signature = signature_header(&self.keys, &delivery.id, seconds, &delivery.body);
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, delivery.content_type);
        headers.insert(ID, header_value(&delivery.id)?);
        headers.insert(TIMESTAMP, seconds.into());
        headers.insert(SIGNATURE, header_value(&signature)?);
        let (status, headers) = self.client.post(headers, delivery.body).await.map_err(SendFailure::new)?;
        judge(status, &headers, self.policy.now())
    }
}

#[async_trait]
impl Transport for WebhookTransport {
    fn batch_max(&self) -> usize {
        self.batch_max
    }

    async fn send(&self, messages: &[EventMessage]) -> Result<(), SendFailure> {
        let mut delivered = 0;
        while delivered < messages.len() {
            let rest = &messages[delivered..];
            let sent = match next_delivery(rest, self.batch_max, self.with_request_ids) {
                Ok(delivery) => {
                    let count = delivery.count;
                    self.deliver(delivery).await.map(|()| count)
                }
                Err(failure) => Err(failure),
            };
            delivered += sent.map_err(|failure| SendFailure { delivered, ..failure })?;
        }
        Ok(())
    }
}

/// As many messages, from the first on, as one request may have.
fn next_delivery(
    messages: &[EventMessage],
    batch_max: usize,
    with_request_ids: bool,
) -> Result<Delivery, SendFailure> {
    let (is_batch, body_max) =
        if batch_max == 1 { (false, SINGLE_BODY_MAX_BYTES) } else { (true, BATCH_BODY_MAX_BYTES) };
    let (mut body, mut count) = (Vec::new(), 0);
    for message in &messages[..messages.len().min(batch_max)] {
        let end = body.len();
        if is_batch {
            body.push(if count == 0 { b'[' } else { b',' });
        }
        message.write_json(with_request_ids, &mut body);
        // The closing bracket is still to come.
        if body.len() + usize::from(is_batch) > body_max {
            body.truncate(end);
            break;
        }
        count += 1;
    }
    let [first, ..] = messages else { return Err(SendFailure::new("there is nothing to send")) };
    if count == 0 {
        let reason = format!("the event is larger than {} KiB", body_max / 1024);
        return Err(SendFailure { is_too_large: true, ..SendFailure::new(reason) });
    }
    Ok(if is_batch {
        body.push(b']');
        Delivery {
            id: format!("batch-{count}-{}-{}", first.id, messages[count - 1].id),
            content_type: BATCH,
            body: body.into(),
            count,
        }
    } else {
        Delivery { id: first.id.to_string(), content_type: SINGLE, body: body.into(), count }
    })
}

/// What an answer means.
fn judge(status: StatusCode, headers: &HeaderMap, now: UnixMillis) -> Result<(), SendFailure> {
    let answered = format!("answered {}", status.as_u16());
    Err(match status {
        _ if status.is_success() => return Ok(()),
        _ if status.is_redirection() => {
            SendFailure::new(format!("{answered}, and redirects are not followed"))
        }
        StatusCode::GONE => SendFailure {
            is_gone: true,
            ..SendFailure::new(format!("{answered}: the receiver wants no more events"))
        },
        StatusCode::PAYLOAD_TOO_LARGE => SendFailure {
            is_too_large: true,
            ..SendFailure::new(format!("{answered}: the request is too large for the receiver"))
        },
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            SendFailure { retry_after: retry_after(headers, now), ..SendFailure::new(answered) }
        }
        _ => SendFailure::new(answered),
    })
}

/// How long the receiver asks to be left alone: seconds, or until a date.
fn retry_after(headers: &HeaderMap, now: UnixMillis) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let asked = if let Ok(seconds) = text.parse() {
        Duration::from_secs(seconds)
    } else {
        let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
        let at = u64::try_from(date.as_millisecond()).unwrap_or(0);
        Duration::from_millis(at.saturating_sub(now.0))
    };
    Some(asked.min(RETRY_AFTER_MAX))
}

fn header_value(text: &str) -> Result<HeaderValue, SendFailure> {
    HeaderValue::from_str(text).map_err(|_| SendFailure::new("the event's id does not fit into a header"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(number: u64, bytes: usize) -> EventMessage {
        EventMessage {
            id: format!("id-{number}").into(),
            number,
            kind: anteroom_core::EventKind::RoomOpened,
            room: None,
            at: UnixMillis(1_700_000_000_000),
            subject: None,
            data: json!({ "text": "a".repeat(bytes) }),
            request_id: None,
        }
    }

    #[test]
    fn a_batch_is_cut_below_the_limit_and_its_id_depends_on_what_it_has() {
        let messages: Vec<_> = (1..=10).map(|number| message(number, 50_000)).collect();
        let first = next_delivery(&messages, 100, false).ok().unwrap();
        assert_eq!((first.count, first.id.as_str()), (5, "batch-5-id-1-id-5"));
        assert!(first.body.len() <= BATCH_BODY_MAX_BYTES);
        let read: serde_json::Value = serde_json::from_slice(&first.body).unwrap();
        assert_eq!(read.as_array().unwrap().len(), 5);
        let again = next_delivery(&messages, 100, false).ok().unwrap();
        assert_eq!((&again.id, &again.body), (&first.id, &first.body));
        let fewer = next_delivery(&messages[..3], 100, false).ok().unwrap();
        assert_eq!(fewer.id, "batch-3-id-1-id-3");
        let one = next_delivery(&messages[..1], 100, false).ok().unwrap();
        assert!(one.body.starts_with(b"["), "always an array");
        assert_eq!(one.content_type, BATCH);
    }

    #[test]
    fn an_event_that_no_request_can_take_is_said_to_be_too_large() {
        for (batch_max, bytes, limit) in [(1, 70_000, "64 KiB"), (100, 300_000, "256 KiB")] {
            let failure = next_delivery(&[message(1, bytes)], batch_max, false).err().unwrap();
            assert!(failure.is_too_large);
            assert_eq!(failure.reason, format!("the event is larger than {limit}"));
        }
        let single = next_delivery(&[message(1, 60_000), message(2, 1)], 1, false).ok().unwrap();
        assert_eq!((single.count, single.id.as_str()), (1, "id-1"));
        assert!(single.body.starts_with(b"{"));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_never_more_than_an_hour() {
        let now = UnixMillis(1_445_412_480_000);
        for (value, seconds) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("86400", Some(3600)),
            ("Wed, 21 Oct 2015 07:28:30 GMT", Some(30)),
            ("Wed, 21 Oct 2015 07:27:00 GMT", Some(0)),
            ("Wed, 21 Oct 2065 07:27:00 GMT", Some(3600)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(value));
            assert_eq!(retry_after(&headers, now), seconds.map(Duration::from_secs), "{value}");
        }
    }
}
