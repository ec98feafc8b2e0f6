//! Where transports connect to: nowhere private, unless it is listed.

use std::sync::Arc;
use std::time::Duration;

use anteroom_events::destination::{EventBridgeTarget, NatsTarget};
use anteroom_events::{OpenedSecrets, OutboundPolicy, Target, transport_of};
use anteroom_testkit::Origin;
use secrecy::SecretString;

use crate::messages::messages;
use crate::receivers::{SECRET, destination, shared_secrets, webhook_target};

const LONG: Duration = Duration::from_secs(30);

/// Nothing is listed.
fn strict() -> Arc<OutboundPolicy> {
    Arc::new(OutboundPolicy::new(vec![], None).unwrap())
}

async fn told(target: Target, secrets: OpenedSecrets, policy: Arc<OutboundPolicy>) -> String {
    let transport = transport_of(&destination(target, false), secrets, policy, None).unwrap();
    transport.send(&messages(1, 1)).await.unwrap_err().reason
}

async fn told_at(url: &str) -> String {
    told(webhook_target(url, 1, LONG), shared_secrets(&[SECRET]), strict()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_private_address_is_connected_to_in_any_notation() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let port = origin.address().port();
    for host in [
        "localhost",
        "LOCALHOST",
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "017700000001",
        "0177.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:0:0:1]",
        "[64:ff9b::7f00:1]",
    ] {
        for scheme in ["https", "http"] {
            let reason = told_at(&format!("{scheme}://{host}:{port}/")).await;
            let is_loopback = reason.starts_with("address ")
                && reason.ends_with(" is loopback and not listed in destinations_private_allowed");
            // Some notations are no names for TLS, which says so before anything is connected to.
            let is_no_name =
                scheme == "https" && reason == "the host name is none that a certificate can have";
            assert!(is_loopback || is_no_name, "{scheme}://{host}: {reason}");
        }
    }
    assert_eq!(origin.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_address_that_is_not_public_is_named() {
    for (url, reason) in [
        ("https://10.0.0.5/", "address 10.0.0.5 is private"),
        ("https://[::ffff:10.0.0.5]/", "address 10.0.0.5 is private"),
        ("https://192.168.1.1/", "address 192.168.1.1 is private"),
        ("https://169.254.169.254/latest/meta-data", "address 169.254.169.254 is link-local"),
        ("https://100.64.0.1/", "address 100.64.0.1 is shared (CGNAT)"),
        ("https://0.0.0.0/", "address 0.0.0.0 is unspecified"),
        ("https://[::]/", "address :: is unspecified"),
        ("https://224.0.0.1/", "address 224.0.0.1 is multicast"),
        ("https://192.0.2.1/", "address 192.0.2.1 is for documentation"),
        ("https://[fd00::1]/", "address fd00::1 is private"),
        ("https://[fe80::1]/", "address fe80::1 is link-local"),
    ] {
        let expected = format!("{reason} and not listed in destinations_private_allowed");
        assert_eq!(told_at(url).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clear_text_goes_to_listed_addresses_only() {
    let expected =
        "address 93.184.215.14 is not listed in destinations_private_allowed, so it is used with TLS only";
    assert_eq!(told_at("http://93.184.215.14/").await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_allows_what_it_lists_and_nothing_beside_it() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let port = origin.address().port();
    let policy = Arc::new(OutboundPolicy::new(vec!["127.0.0.1/32".parse().unwrap()], None).unwrap());
    let told = async |url: String| {
        told(webhook_target(&url, 1, LONG), shared_secrets(&[SECRET]), Arc::clone(&policy)).await
    };
    let beside = told(format!("http://127.0.0.2:{port}/")).await;
    assert_eq!(beside, "address 127.0.0.2 is loopback and not listed in destinations_private_allowed");
    assert_eq!(origin.connections(), 0);
    let target = webhook_target(&format!("http://2130706433:{port}/"), 1, LONG);
    let transport =
        transport_of(&destination(target, false), shared_secrets(&[SECRET]), Arc::clone(&policy), None)
            .unwrap();
    transport.send(&messages(1, 1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_nobody_has_is_told_without_its_path() {
    let reason = told_at("https://no-such-host.invalid/hook?key=secret").await;
    assert_eq!(reason, "host name no-such-host.invalid not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn event_buses_and_streams_keep_the_same_rule() {
    let text = || OpenedSecrets { webhook_keys: vec![], text: Some(SecretString::from("secret")) };
    let bus = Target::EventBridge(EventBridgeTarget {
        region: "eu-central-1".into(),
        bus: "default".into(),
        endpoint: Some("https://127.0.0.1:1/".into()),
        access_key_id: "AKIDEXAMPLE".into(),
        timeout: LONG,
    });
    let expected = "address 127.0.0.1 is loopback and not listed in destinations_private_allowed";
    assert_eq!(told(bus, text(), strict()).await, expected);
    for url in ["nats://127.0.0.1:1", "tls://2130706433:1"] {
        let stream =
            Target::Nats(NatsTarget { url: url.into(), subject_prefix: "events".into(), timeout: LONG });
        assert_eq!(told(stream, text(), strict()).await, expected);
    }
    let public = Target::Nats(NatsTarget {
        url: "nats://93.184.215.14".into(),
        subject_prefix: "events".into(),
        timeout: LONG,
    });
    let reason = told(public, text(), strict()).await;
    assert!(reason.ends_with("so it is used with TLS only"), "{reason}");
}
