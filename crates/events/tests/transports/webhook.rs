//! Webhooks: what a request looks like, rotation, old requests, and everything that a receiver may answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anteroom_core::UnixMillis;
use anteroom_events::{OpenedSecrets, OutboundPolicy, SendFailure, Transport, TransportError, transport_of};
use anteroom_store::clock::{Clock, ManualClock, SystemClock};
use anteroom_testkit::{Origin, OriginConnection, ReceivedRequest, wait_until};
use anteroom_tokens::{WebhookAlgorithm, WebhookKey};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use crate::documented;
use crate::messages::{cloud_event, message, message_of_server, messages};
use crate::program::DEADLINE;
use crate::receivers::{
    DocumentedReceiver, Language, Receiver as _, SECRET, destination, loopback_policy, received,
    shared_secrets, transport_with, webhook_secrets, webhook_target,
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
/// Long enough for everything that is to succeed.
const LONG: Duration = Duration::from_secs(30);

fn transport_to(url: &str, batch_max: u32, timeout: Duration) -> Arc<dyn Transport> {
    with_policy(url, batch_max, timeout, loopback_policy(), shared_secrets(&[SECRET])).unwrap()
}

fn with_policy(
    url: &str,
    batch_max: u32,
    timeout: Duration,
    policy: Arc<OutboundPolicy>,
    secrets: OpenedSecrets,
) -> Result<Arc<dyn Transport>, TransportError> {
    transport_of(&destination(webhook_target(url, batch_max, timeout), false), secrets, policy, None)
}

fn policy_at(clock: Arc<dyn Clock>) -> Arc<OutboundPolicy> {
    let allowed = vec!["127.0.0.0/8".parse().unwrap()];
    Arc::new(OutboundPolicy::new(allowed, None).unwrap().with_clock(clock))
}

fn headers_of(request: &ReceivedRequest) -> HeaderMap {
    let headers = request.headers.iter();
    headers
        .map(|(name, value)| {
            (HeaderName::try_from(name.to_lowercase()).unwrap(), HeaderValue::try_from(value).unwrap())
        })
        .collect()
}

/// What a sender is told when a receiver answers so.
async fn told(answer: &str) -> SendFailure {
    let origin = Origin::answering(answer);
    transport_to(&origin.url(), 1, LONG).send(&messages(1, 1)).await.unwrap_err()
}

/// The same of a receiver that plays a part.
async fn told_by<P>(timeout: Duration, part: P) -> Result<(), SendFailure>
where
    P: Fn(&mut OriginConnection) -> std::io::Result<()> + Send + Sync + 'static,
{
    let origin = Origin::playing(part);
    transport_to(&origin.url(), 1, timeout).send(&messages(1, 1)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_has_the_headers_of_standard_webhooks_and_one_event_in_structured_mode() {
    let origin = Origin::answering(OK);
    let before = SystemClock.now().0 / 1000;
    let url = format!("{}/hook?key=1", origin.url());
    transport_to(&url, 1, LONG).send(&[message_of_server(7)]).await.unwrap();
    let requests = origin.requests();
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/hook?key=1"));
    assert_eq!(request.header("content-type"), Some("application/cloudevents+json"));
    assert_eq!(request.header("user-agent"), Some(concat!("anteroom/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(request.header("webhook-id"), Some(&*message_of_server(7).id));
    let timestamp: u64 = request.header("webhook-timestamp").unwrap().parse().unwrap();
    assert!((before..=SystemClock.now().0 / 1000).contains(&timestamp));
    assert!(request.header("webhook-signature").unwrap().starts_with("v1,"));
    let event: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(event, message_of_server(7).to_json(false));
    assert_eq!((&event["source"], &event["type"]), (&json!("/server"), &json!("key.created")));
    assert_eq!(origin.faults(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_always_an_array_and_keeps_its_id_when_it_is_tried_again() {
    let origin = Origin::answering("HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n");
    let clock = Arc::new(ManualClock::at(UnixMillis(1_700_000_000_000)));
    let policy = policy_at(Arc::<ManualClock>::clone(&clock));
    let transport = with_policy(&origin.url(), 10, LONG, policy, shared_secrets(&[SECRET])).unwrap();
    assert_eq!(transport.batch_max(), 10);
    for sent in [messages(1, 3), messages(1, 3), messages(1, 1)] {
        transport.send(&sent).await.unwrap_err();
        clock.advance(60_000);
    }
    let requests = origin.requests();
    let header = |name| requests.iter().map(|request| request.header(name).unwrap()).collect::<Vec<_>>();
    assert_eq!(header("content-type"), ["application/cloudevents-batch+json"; 3]);
    assert_eq!(header("webhook-timestamp"), ["1700000000", "1700000060", "1700000120"]);
    let ids = header("webhook-id");
    assert!(ids[0] == ids[1] && ids[0] != ids[2], "{ids:?}");
    assert_eq!(requests[0].body, requests[1].body);
    let one: Value = serde_json::from_slice(&requests[2].body).unwrap();
    assert_eq!(one, json!([message(1).to_json(false)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_used_again() {
    let origin = Origin::answering(OK);
    let transport = transport_to(&origin.url(), 1, LONG);
    // It is kept a moment after the answer was read, which the next request may be too early for.
    for _ in 0..100 {
        transport.send(&messages(1, 1)).await.unwrap();
        if origin.connections() < origin.requests().len() {
            return;
        }
    }
    panic!("100 requests took 100 connections");
}

#[tokio::test(flavor = "multi_thread")]
async fn during_a_rotation_receivers_with_the_old_and_with_the_new_key_accept() {
    const OLD: &str = "whsec_b2xkLW9sZC1vbGQtb2xkLW9sZC1vbGQtb2xk";
    let origin = Origin::answering(OK);
    let transport =
        with_policy(&origin.url(), 1, LONG, loopback_policy(), shared_secrets(&[SECRET, OLD])).unwrap();
    transport.send(&messages(1, 1)).await.unwrap();
    let request = &origin.requests()[0];
    assert_eq!(request.header("webhook-signature").unwrap().split(' ').count(), 2);
    for secret in [SECRET, OLD] {
        assert!(documented::events_of(secret, &headers_of(request), &request.body).is_ok());
    }
    let other = "whsec_b3RoZXItb3RoZXItb3RoZXItb3RoZXI=";
    assert!(documented::events_of(other, &headers_of(request), &request.body).is_err());

    // From a shared secret to a key pair.
    for language in [Language::Python, Language::Node] {
        let Some(mut receiver) = DocumentedReceiver::start(language, WebhookAlgorithm::HmacSha256, 1) else {
            return;
        };
        let mut secrets = receiver.secrets();
        secrets.webhook_keys.insert(0, WebhookKey::generate(WebhookAlgorithm::Ed25519));
        transport_with(&receiver, secrets, false).send(&messages(1, 1)).await.unwrap();
        received(&mut receiver, &[cloud_event(&message(1), false)]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_request_that_somebody_sends_again_is_refused_by_its_timestamp() {
    for (language, algorithm) in [
        (Language::Python, WebhookAlgorithm::HmacSha256),
        (Language::Python, WebhookAlgorithm::Ed25519),
        (Language::Node, WebhookAlgorithm::HmacSha256),
    ] {
        let Some(mut receiver) = DocumentedReceiver::start(language, algorithm, 1) else { return };
        // The request as it was ten minutes ago, byte by byte.
        let ten_minutes_ago = UnixMillis(SystemClock.now().0 - 600_000);
        let policy = policy_at(Arc::new(ManualClock::at(ten_minutes_ago)));
        let transport = with_policy(&receiver.url(), 1, LONG, policy, receiver.secrets()).unwrap();
        let failure = transport.send(&messages(1, 1)).await.unwrap_err();
        assert_eq!(failure.reason, "answered 401");
        assert_eq!(receiver.received().await, Vec::<Value>::new());
        wait_until("it said why", DEADLINE, || !receiver.refusals().is_empty());
        assert!(receiver.refusals()[0].contains("too old"), "{:?}", receiver.refusals());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_means_what_it_says() {
    let answer = |status: &str| format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
    for status in ["400 Bad", "401 No", "404 No", "500 No", "502 No"] {
        let failure = told(&answer(status)).await;
        assert_eq!(failure, SendFailure::new(format!("answered {}", &status[..3])));
    }
    let gone = told(&answer("410 Gone")).await;
    assert_eq!(
        (gone.is_gone, gone.reason.as_str()),
        (true, "answered 410: the receiver wants no more events")
    );
    let too_large = told(&answer("413 Large")).await;
    assert!(too_large.is_too_large, "{too_large:?}");
    for (status, value, seconds) in [
        ("503 Busy", "7", Some(7)),
        ("429 Many", "100000", Some(3600)),
        ("503 Busy", "Wed, 21 Oct 2015 07:28:00 GMT", Some(0)),
        ("503 Busy", "soon", None),
        ("500 No", "7", None),
    ] {
        let failure = told(&answer(&format!("{status}\r\nretry-after: {value}"))).await;
        assert_eq!(failure.retry_after, seconds.map(Duration::from_secs), "{status} {value}");
        assert_eq!(failure.reason, format!("answered {}", &status[..3]));
    }
    for status in ["200 OK", "201 Made", "202 Later"] {
        let origin = Origin::answering(answer(status));
        transport_to(&origin.url(), 1, LONG).send(&messages(1, 1)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_redirect_is_followed() {
    let private = Origin::answering(OK);
    for status in [300, 301, 302, 303, 304, 307, 308] {
        for location in [private.url(), "https://93.184.215.14/".to_owned()] {
            let answer =
                format!("HTTP/1.1 {status} There\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
            let failure = told(&answer).await;
            assert_eq!(failure.reason, format!("answered {status}, and redirects are not followed"));
        }
    }
    assert_eq!(private.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_does_not_answer_is_given_up_after_the_time_limit() {
    let short = Duration::from_millis(300);
    let hang = |connection: &mut OriginConnection| {
        connection.read_request()?;
        connection.read_some().map(|_| ())
    };
    assert_eq!(told_by(short, hang).await.unwrap_err().reason, "no answer within 300 ms");
    let second = Duration::from_secs(1);
    let in_the_middle = |connection: &mut OriginConnection| {
        connection.read_request()?;
        connection.write(b"HTTP/1.1 200 OK\r\ncontent-")?;
        connection.read_some().map(|_| ())
    };
    assert_eq!(told_by(second, in_the_middle).await.unwrap_err().reason, "no answer within 1 s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_answer_is_an_answer() {
    let slowly = |connection: &mut OriginConnection| {
        while connection.read_request()?.is_some() {
            connection.write_slowly(OK.as_bytes())?;
        }
        Ok(())
    };
    told_by(LONG, slowly).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_early_is_named() {
    let closes = |connection: &mut OriginConnection| connection.read_request().map(|_| ());
    assert_eq!(told_by(LONG, closes).await.unwrap_err().reason, "connection closed before an answer");
    let closes_in_the_head = |connection: &mut OriginConnection| {
        connection.read_request()?;
        connection.write(b"HTTP/1.1 200 OK\r\ncontent-")
    };
    let failure = told_by(LONG, closes_in_the_head).await.unwrap_err();
    assert_eq!(failure.reason, "connection closed before an answer");
    let resets = |connection: &mut OriginConnection| {
        connection.read_request()?;
        connection.reset()
    };
    let reason = told_by(LONG, resets).await.unwrap_err().reason;
    assert!(["connection reset", "connection closed before an answer"].contains(&&*reason), "{reason}");
    // Its status says that it has the event.
    let closes_in_the_body = |connection: &mut OriginConnection| {
        connection.read_request()?;
        connection.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
    };
    told_by(LONG, closes_in_the_body).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_or_headers_without_end_are_not_read() {
    let written = Arc::new(AtomicUsize::new(0));
    let floods = {
        let written = Arc::clone(&written);
        move |connection: &mut OriginConnection| {
            connection.read_request()?;
            connection.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n")?;
            loop {
                connection.write(&vec![b'a'; 64 * 1024])?;
                written.fetch_add(64 * 1024, Ordering::SeqCst);
            }
        }
    };
    told_by(LONG, floods).await.unwrap();
    let taken = written.load(Ordering::SeqCst);
    assert!(taken < 64 * 1024 * 1024, "{taken} bytes were taken");

    let too_large = "answered with headers that are too large";
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(200));
    assert_eq!(told(&many).await.reason, too_large);
    let long = format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "b".repeat(200_000));
    assert_eq!(told(&long).await.reason, too_large);
    assert_eq!(told("SSH-2.0-OpenSSH\r\n\r\n").await.reason, "answered with something that is not HTTP");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_batch_that_needs_several_requests_it_is_said_what_arrived() {
    let origin = Origin::playing(|connection| {
        for answer in [OK, "HTTP/1.1 413 Large\r\ncontent-length: 0\r\n\r\n"] {
            connection.read_request()?;
            connection.write(answer.as_bytes())?;
        }
        Ok(())
    });
    let mut sent = messages(1, 10);
    for message in &mut sent {
        message.data = json!({ "text": "a".repeat(60_000) });
    }
    let failure = transport_to(&origin.url(), 100, LONG).send(&sent).await.unwrap_err();
    assert_eq!((failure.delivered, failure.is_too_large), (4, true), "{failure:?}");
    let requests = origin.requests();
    let counts: Vec<usize> = requests
        .iter()
        .map(|request| serde_json::from_slice::<Vec<Value>>(&request.body).unwrap().len())
        .collect();
    assert_eq!(counts, [4, 4]);
    assert!(requests.iter().all(|request| request.body.len() < 256 * 1024));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_without_a_key_or_with_a_secret_in_its_url_is_none() {
    let refused = |url: &str, secrets| with_policy(url, 1, LONG, loopback_policy(), secrets).err().unwrap();
    assert_eq!(refused("https://shop.example/", webhook_secrets(vec![])), TransportError::NoKey);
    let error = refused("https://user:very-secret@shop.example/", shared_secrets(&[SECRET])).to_string();
    assert_eq!(error, "the URL has a user name or password in it, which would end up in logs");
}
