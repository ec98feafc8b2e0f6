//! Destinations as they are written in the store.

use std::sync::Arc;
use std::time::Duration;

use anteroom_core::{RoomId, UnixMillis};
use anteroom_store::stored_value::StoredContent;
use anteroom_tokens::WebhookAlgorithm;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::{DestinationSecret, Entry, Sealed, Table};
use crate::destination::{
    DeadLetterCommand, Destination, DestinationState, EventBridgeTarget, FileTarget, NatsTarget, Replay,
    RetrySchedule, Target, WebhookTarget,
};

#[derive(Serialize, Deserialize)]
struct StoredDestination {
    name: String,
    target: StoredTarget,
    rooms: Vec<String>,
    types: Vec<String>,
    with_request_ids: bool,
    schedule: String,
    backoff_max_seconds: u64,
    give_up_after_seconds: u64,
    state: StoredState,
    is_from_file: bool,
    created_at: u64,
    begins_after: u64,
    replay: Option<StoredReplay>,
    dead_letters: Option<StoredCommand>,
    secrets: Vec<StoredSecret>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum StoredTarget {
    Webhook {
        url: String,
        batch_max: u32,
        timeout_seconds: u64,
    },
    EventBridge {
        region: String,
        bus: String,
        endpoint: Option<String>,
        access_key_id: String,
        timeout_seconds: u64,
    },
    Nats {
        url: String,
        subject_prefix: String,
        timeout_seconds: u64,
    },
    File {
        size_max_bytes: u64,
        files_max: u32,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredState {
    Active,
    Paused,
    Disabled(String),
}

#[derive(Serialize, Deserialize)]
struct StoredReplay {
    number: u64,
    after: u64,
}

#[derive(Serialize, Deserialize)]
struct StoredCommand {
    number: u64,
    is_replay: bool,
}

#[derive(Serialize, Deserialize)]
struct StoredSecret {
    algorithm: Option<String>,
    public_key: Option<String>,
    created_at: u64,
    ends_at: Option<u64>,
    sealed: String,
}

impl StoredTarget {
    fn of(target: &Target) -> Self {
        match target.clone() {
            Target::Webhook(WebhookTarget { url, batch_max, timeout }) => {
                Self::Webhook { url, batch_max, timeout_seconds: timeout.as_secs() }
            }
            Target::EventBridge(EventBridgeTarget { region, bus, endpoint, access_key_id, timeout }) => {
                Self::EventBridge { region, bus, endpoint, access_key_id, timeout_seconds: timeout.as_secs() }
            }
            Target::Nats(NatsTarget { url, subject_prefix, timeout }) => {
                Self::Nats { url, subject_prefix, timeout_seconds: timeout.as_secs() }
            }
            Target::File(FileTarget { size_max_bytes, files_max }) => {
                Self::File { size_max_bytes, files_max }
            }
        }
    }

    fn read(self) -> Target {
        match self {
            Self::Webhook { url, batch_max, timeout_seconds } => Target::Webhook(WebhookTarget {
                url,
                batch_max,
                timeout: Duration::from_secs(timeout_seconds),
            }),
            Self::EventBridge { region, bus, endpoint, access_key_id, timeout_seconds } => {
                let timeout = Duration::from_secs(timeout_seconds);
                Target::EventBridge(EventBridgeTarget { region, bus, endpoint, access_key_id, timeout })
            }
            Self::Nats { url, subject_prefix, timeout_seconds } => Target::Nats(NatsTarget {
                url,
                subject_prefix,
                timeout: Duration::from_secs(timeout_seconds),
            }),
            Self::File { size_max_bytes, files_max } => {
                Target::File(FileTarget { size_max_bytes, files_max })
            }
        }
    }
}

impl StoredSecret {
    fn of(secret: &DestinationSecret) -> Self {
        Self {
            algorithm: secret.algorithm.map(|algorithm| algorithm.as_str().to_owned()),
            public_key: secret.public_key.clone(),
            created_at: secret.created_at.0,
            ends_at: secret.ends_at.map(|end| end.0),
            sealed: STANDARD.encode(&secret.sealed.0),
        }
    }

    fn read(self) -> Option<DestinationSecret> {
        let algorithm = match self.algorithm {
            Some(name) => Some(WebhookAlgorithm::parse(&name)?),
            None => None,
        };
        Some(DestinationSecret {
            algorithm,
            public_key: self.public_key,
            created_at: UnixMillis(self.created_at),
            ends_at: self.ends_at.map(UnixMillis),
            sealed: Sealed(STANDARD.decode(self.sealed).ok()?),
        })
    }
}

impl StoredDestination {
    fn of(Entry { destination, secrets }: &Entry) -> Self {
        Self {
            name: destination.name.clone(),
            target: StoredTarget::of(&destination.target),
            rooms: destination.rooms.iter().map(|room| room.as_str().to_owned()).collect(),
            types: destination.types.clone(),
            with_request_ids: destination.with_request_ids,
            schedule: destination.schedule.as_str().to_owned(),
            backoff_max_seconds: destination.backoff_max.as_secs(),
            give_up_after_seconds: destination.give_up_after.as_secs(),
            state: match &destination.state {
                DestinationState::Active => StoredState::Active,
                DestinationState::Paused => StoredState::Paused,
                DestinationState::Disabled { reason } => StoredState::Disabled(reason.clone()),
            },
            is_from_file: destination.is_from_file,
            created_at: destination.created_at.0,
            begins_after: destination.begins_after,
            replay: destination
                .replay
                .as_ref()
                .map(|replay| StoredReplay { number: replay.number, after: replay.after }),
            dead_letters: destination
                .dead_letters
                .as_ref()
                .map(|command| StoredCommand { number: command.number, is_replay: command.is_replay }),
            secrets: secrets.iter().map(StoredSecret::of).collect(),
        }
    }

    fn read(self) -> Option<Entry> {
        let secrets = self.secrets.into_iter().map(StoredSecret::read).collect::<Option<_>>()?;
        let destination = Destination {
            name: self.name,
            target: self.target.read(),
            rooms: self.rooms.iter().map(|room| RoomId::parse(room).ok()).collect::<Option<_>>()?,
            types: self.types,
            with_request_ids: self.with_request_ids,
            schedule: RetrySchedule::parse(&self.schedule)?,
            backoff_max: Duration::from_secs(self.backoff_max_seconds),
            give_up_after: Duration::from_secs(self.give_up_after_seconds),
            state: match self.state {
                StoredState::Active => DestinationState::Active,
                StoredState::Paused => DestinationState::Paused,
                StoredState::Disabled(reason) => DestinationState::Disabled { reason },
            },
            is_from_file: self.is_from_file,
            created_at: UnixMillis(self.created_at),
            begins_after: self.begins_after,
            replay: self.replay.map(|replay| Replay { number: replay.number, after: replay.after }),
            dead_letters: self
                .dead_letters
                .map(|command| DeadLetterCommand { number: command.number, is_replay: command.is_replay }),
        };
        Some(Entry { destination: Arc::new(destination), secrets })
    }
}

impl StoredContent for Table {
    const NAME: &'static str = "destinations";

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let stored: Vec<StoredDestination> = serde_json::from_slice(bytes).ok()?;
        Some(Self(stored.into_iter().map(StoredDestination::read).collect::<Option<_>>()?))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let stored: Vec<StoredDestination> = self.0.iter().map(StoredDestination::of).collect();
        serde_json::to_vec(&stored).expect("our own structures can be written as JSON")
    }
}
