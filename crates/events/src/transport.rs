//! The way to a destination: a webhook, EventBridge, NATS, or a file. All are used in the same way.

mod client;
mod event_bridge;
mod file;
#[cfg(feature = "nats")]
mod nats;
pub mod policy;
mod webhook;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anteroom_tokens::WebhookKey;
use async_trait::async_trait;
use secrecy::SecretString;

use crate::destination::{Destination, Target};
use crate::message::EventMessage;
use event_bridge::EventBridgeTransport;
use file::FileTransport;
use policy::OutboundPolicy;
use webhook::WebhookTransport;

pub use client::{HttpAddress, UrlError};

/// Why messages did not arrive, or may not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SendFailure {
    /// What went wrong, for operators: short, without secrets, without bodies.
    pub reason: String,
    /// How many of the messages have arrived for certain, counted from the first.
    pub delivered: usize,
    /// How long the receiver asked to be left alone.
    pub retry_after: Option<Duration>,
    /// Whether the receiver wants no more events at all (410).
    pub is_gone: bool,
    /// Whether it was too much at once. Fewer messages may arrive; if it was one, it never will.
    pub is_too_large: bool,
}

impl SendFailure {
    /// Nothing arrived, for all one knows.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), delivered: 0, retry_after: None, is_gone: false, is_too_large: false }
    }
}

/// The way to one destination.
#[async_trait]
pub trait Transport: Send + Sync {
    /// How many messages one call takes at most; at least 1.
    fn batch_max(&self) -> usize;

    /// Sends messages, at least one, all of one room, in their order. `Ok`: the receiver has all of them. Within a time limit of its own;
    /// dropping the future abandons the attempt.
    async fn send(&self, messages: &[EventMessage]) -> Result<(), SendFailure>;
}

/// What a destination's secrets are once they are opened.
#[derive(Debug, Default)]
pub struct OpenedSecrets {
    /// What a webhook is signed with, the newest first; two during a rotation.
    pub webhook_keys: Vec<WebhookKey>,
    /// The secret access key of EventBridge; for NATS a token, `USER:PASSWORD` or the content of a credentials file.
    pub text: Option<SecretString>,
}

/// Why there is no way to a destination: an operator has to change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// Its address.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// A webhook without a key.
    #[error("a webhook needs a key to be signed with")]
    NoKey,
    /// A secret that is missing, or has a form that it cannot have.
    #[error("the secret access key is missing, or is none of AWS")]
    Secret,
    /// The id of an access key.
    #[error("the access key id is none of AWS")]
    AccessKeyId,
    /// A region.
    #[error("the region is none of AWS")]
    Region,
    /// A subject of NATS.
    #[error("the subject prefix is none of NATS")]
    SubjectPrefix,
    /// This program was built without the feature `nats`.
    #[error("this server was built without NATS")]
    NoNats,
    /// A file without a directory to be in.
    #[error("there is no events_directory for files of events")]
    NoDirectory,
    /// A name that two files could have.
    #[error("a destination that is a file cannot have a name that ends with a dot and a number")]
    FileName,
}

/// The way to a destination. It connects to nothing yet.
pub fn transport_of(
    destination: &Destination,
    secrets: OpenedSecrets,
    policy: Arc<OutboundPolicy>,
    events_directory: Option<PathBuf>,
) -> Result<Arc<dyn Transport>, TransportError> {
    let with_request_ids = destination.with_request_ids;
    Ok(match &destination.target {
        Target::Webhook(target) => {
            Arc::new(WebhookTransport::new(target, secrets.webhook_keys, with_request_ids, policy)?)
        }
        Target::EventBridge(target) => {
            let secret = secrets.text.ok_or(TransportError::Secret)?;
            Arc::new(EventBridgeTransport::new(target, &secret, with_request_ids, policy)?)
        }
        #[cfg(feature = "nats")]
        Target::Nats(target) => {
            Arc::new(nats::NatsTransport::new(target, secrets.text, with_request_ids, policy)?)
        }
        #[cfg(not(feature = "nats"))]
        Target::Nats(_) => return Err(TransportError::NoNats),
        Target::File(target) => {
            let directory = events_directory.ok_or(TransportError::NoDirectory)?;
            Arc::new(FileTransport::new(&destination.name, target, directory, with_request_ids)?)
        }
    })
}
