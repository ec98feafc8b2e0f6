//! EventBridge: parts of a call that fail, and answers that are none.

use std::sync::Arc;
use std::time::Duration;

use anteroom_events::destination::EventBridgeTarget;
use anteroom_events::{OpenedSecrets, SendFailure, Target, Transport, TransportError, transport_of};
use anteroom_testkit::Origin;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::messages::messages;
use crate::receivers::{destination, loopback_policy};

fn target(endpoint: Option<String>) -> EventBridgeTarget {
    EventBridgeTarget {
        region: "eu-central-1".into(),
        bus: "rooms".into(),
        endpoint,
        access_key_id: "AKIDEXAMPLE".into(),
        timeout: Duration::from_secs(30),
    }
}

fn bus(target: EventBridgeTarget, secret: Option<&str>) -> Result<Arc<dyn Transport>, TransportError> {
    let secrets = OpenedSecrets { webhook_keys: vec![], text: secret.map(SecretString::from) };
    transport_of(&destination(Target::EventBridge(target), false), secrets, loopback_policy(), None)
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// What a sender of that many messages is told when a bus answers so, each time.
async fn told(count: u64, status: &str, body: &str) -> SendFailure {
    let origin = Origin::answering(answer(status, body));
    bus(target(Some(origin.url())), Some("secret")).unwrap().send(&messages(1, count)).await.unwrap_err()
}

fn entries(codes: &[Option<&str>]) -> String {
    let entries: Vec<Value> = codes
        .iter()
        .map(|code| match code {
            Some(code) => json!({ "ErrorCode": code, "ErrorMessage": "not to be told" }),
            None => json!({ "EventId": "1" }),
        })
        .collect();
    json!({ "FailedEntryCount": codes.iter().flatten().count(), "Entries": entries }).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_call_that_fails_in_parts_what_is_before_the_first_failure_has_arrived() {
    let body = entries(&[None, None, Some("ThrottlingException"), None]);
    let failure = told(4, "200 OK", &body).await;
    assert_eq!(
        (failure.delivered, failure.reason.as_str()),
        (2, "an event was refused: ThrottlingException")
    );
    let body = entries(&[Some("<not a name>")]);
    assert_eq!(told(1, "200 OK", &body).await, SendFailure::new("an event was refused: an error"));
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_one_call_takes_is_sent_in_several() {
    let origin = Origin::playing(|connection| {
        for result in [entries(&[None; 10]), entries(&[None, Some("InternalFailure")])] {
            connection.read_request()?;
            connection.write(answer("200 OK", &result).as_bytes())?;
        }
        Ok(())
    });
    let transport = bus(target(Some(origin.url())), Some("secret")).unwrap();
    assert_eq!(transport.batch_max(), 10);
    let failure = transport.send(&messages(1, 12)).await.unwrap_err();
    assert_eq!(failure.delivered, 11);
    let requests = origin.requests();
    let first: Value = serde_json::from_slice(&requests[0].body).unwrap();
    assert_eq!(first["Entries"].as_array().unwrap().len(), 10);
    assert_eq!(first["Entries"][0]["EventBusName"], "rooms");
    assert_eq!(requests[0].header("x-amz-target"), Some("AWSEvents.PutEvents"));
    assert_eq!(requests[0].header("content-type"), Some("application/x-amz-json-1.1"));
    let authorization = requests[0].header("authorization").unwrap();
    assert!(authorization.contains("/eu-central-1/events/aws4_request"), "{authorization}");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_told_by_their_names_and_nothing_else() {
    for (status, body, reason) in [
        (
            "400 Bad",
            r#"{"__type":"com.amazon#AccessDeniedException","message":"secret"}"#,
            "answered 400, AccessDeniedException",
        ),
        ("400 Bad", r#"{"__type":"ThrottlingException"}"#, "answered 400, ThrottlingException"),
        ("403 No", r#"{"message":"secret"}"#, "answered 403"),
        ("500 No", "<html>", "answered 500"),
        ("302 There", "", "answered 302"),
        ("200 OK", "<html>", "the answer is not one of EventBridge"),
        ("200 OK", "{}", "the answer is not one of EventBridge"),
        ("200 OK", r#"{"Entries":[]}"#, "the answer is not one of EventBridge"),
    ] {
        assert_eq!(told(1, status, body).await, SendFailure::new(reason), "{body}");
    }
    let endless = format!("{{\"a\":\"{}\"}}", "a".repeat(100_000));
    assert_eq!(told(1, "200 OK", &endless).await.reason, "the answer is not one of EventBridge");
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{";
    let origin = Origin::playing(move |connection| {
        connection.read_request()?;
        connection.write(cut.as_bytes())
    });
    let transport = bus(target(Some(origin.url())), Some("secret")).unwrap();
    let failure = transport.send(&messages(1, 1)).await.unwrap_err();
    assert_eq!(failure.reason, "connection closed in the middle of the answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_too_large_for_a_call_is_said_to_be() {
    let origin = Origin::answering(answer("200 OK", &entries(&[None])));
    let mut sent = messages(4, 2);
    sent[1].data = json!({ "text": "a".repeat(300_000) });
    let failure = bus(target(Some(origin.url())), Some("secret")).unwrap().send(&sent).await.unwrap_err();
    assert_eq!((failure.delivered, failure.is_too_large), (1, true));
    assert_eq!(failure.reason, "the event is larger than 256 KiB");
}

#[test]
fn a_bus_that_cannot_be_one_is_refused_before_anything_is_sent() {
    assert!(bus(target(None), Some("secret")).is_ok());
    assert_eq!(bus(target(None), None).err(), Some(TransportError::Secret));
    let refused = |change: fn(&mut EventBridgeTarget)| {
        let mut changed = target(None);
        change(&mut changed);
        bus(changed, Some("secret")).err()
    };
    assert_eq!(refused(|target| target.region = "eu/../central".into()), Some(TransportError::Region));
    assert_eq!(refused(|target| target.access_key_id = "a b".into()), Some(TransportError::AccessKeyId));
    assert!(refused(|target| target.endpoint = Some("ftp://aws".into())).is_some());
}
