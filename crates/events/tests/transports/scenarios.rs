//! What holds of every destination, whatever it is.

use anteroom_events::EventMessage;
use anteroom_tokens::WebhookAlgorithm::{Ed25519, HmacSha256};
use serde_json::Value;

use crate::messages::messages;
use crate::receivers::Language::{Node, Python};
use crate::receivers::{
    Bus, DocumentedReceiver, EventFile, Receiver, RustReceiver, Stream, received, send_all, transport,
    transport_with,
};

fn expected(receiver: &dyn Receiver, messages: &[EventMessage], with_request_ids: bool) -> Vec<Value> {
    messages.iter().map(|message| receiver.expected(message, with_request_ids)).collect()
}

async fn messages_arrive_in_order_with_all_their_fields(mut receiver: impl Receiver) {
    let (without, with) = (messages(1, 25), messages(26, 5));
    send_all(&*transport(&receiver, false), &without).await.unwrap();
    send_all(&*transport(&receiver, true), &with).await.unwrap();
    let mut all = expected(&receiver, &without, false);
    all.extend(expected(&receiver, &with, true));
    assert_eq!(received(&mut receiver, &all).await, all);
}

async fn a_message_that_is_sent_again_is_the_same_message(mut receiver: impl Receiver) {
    let transport = transport(&receiver, false);
    let sent = messages(1, 2);
    send_all(&*transport, &sent).await.unwrap();
    send_all(&*transport, &sent).await.unwrap();
    let once = expected(&receiver, &sent, false);
    let twice = [once.clone(), once.clone()].concat();
    let expected = if receiver.drops_repetitions() { once } else { twice };
    assert_eq!(received(&mut receiver, &expected).await, expected);
}

async fn a_receiver_that_is_away_is_named_and_gets_events_when_it_is_back(mut receiver: impl Receiver) {
    let transport_before = transport(&receiver, false);
    send_all(&*transport_before, &messages(1, 1)).await.unwrap();
    let reason = receiver.stop();
    // A connection that is still open may be what is lost first.
    let mut told = vec![];
    for _ in 0..2 {
        let failure = transport_before.send(&messages(2, 1)).await.unwrap_err();
        assert_eq!((failure.delivered, failure.is_gone, failure.is_too_large), (0, false, false));
        told.push(failure.reason);
    }
    assert_eq!(told[1], reason, "{told:?}");
    receiver.start_again();
    let transport = transport(&receiver, false);
    send_all(&*transport, &messages(2, 2)).await.unwrap();
    let expected = expected(&receiver, &messages(2, 2), false);
    received(&mut receiver, &expected).await;
}

async fn wrong_credentials_are_refused_and_not_told(mut receiver: impl Receiver) {
    let (secrets, reason) = receiver.refusal();
    let transport = transport_with(&receiver, secrets, false);
    let failure = transport.send(&messages(1, 1)).await.unwrap_err();
    assert_eq!(failure.reason, reason);
    assert_eq!((failure.delivered, failure.is_gone), (0, false));
}

/// One module of tests for a receiver. An expression that gives `None` has said what is missing.
macro_rules! scenarios {
    ($receiver:ident = $start:expr; $($scenario:ident),+ $(,)?) => {
        mod $receiver {
            use super::*;

            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $scenario() {
                    if let Some(receiver) = $start {
                        super::$scenario(receiver).await;
                    }
                }
            )+
        }
    };
    ($receiver:ident = $start:expr) => {
        scenarios! {
            $receiver = $start;
            messages_arrive_in_order_with_all_their_fields,
            a_message_that_is_sent_again_is_the_same_message,
            a_receiver_that_is_away_is_named_and_gets_events_when_it_is_back,
            wrong_credentials_are_refused_and_not_told,
        }
    };
}

scenarios!(webhook_python = DocumentedReceiver::start(Python, HmacSha256, 1));
scenarios!(webhook_python_batch = DocumentedReceiver::start(Python, HmacSha256, 10));
scenarios!(webhook_python_ed25519 = DocumentedReceiver::start(Python, Ed25519, 10));
scenarios!(webhook_node = DocumentedReceiver::start(Node, HmacSha256, 1));
scenarios!(webhook_node_batch = DocumentedReceiver::start(Node, HmacSha256, 10));
scenarios! {
    webhook_rust = Some(RustReceiver::start());
    messages_arrive_in_order_with_all_their_fields,
    a_message_that_is_sent_again_is_the_same_message,
    wrong_credentials_are_refused_and_not_told,
}
scenarios!(event_bridge = Bus::start());
scenarios!(nats = Stream::start().await);
scenarios!(file = Some(EventFile::start()));
