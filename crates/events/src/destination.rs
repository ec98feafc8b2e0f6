//! Where events go: what operators say of a destination.

use std::time::Duration;

use anteroom_core::{EventClass, EventKind, EventKinds, RoomId, UnixMillis};

/// The longest name of a destination.
pub const DESTINATION_NAME_MAX_LENGTH: usize = 64;
/// How many destinations there may be.
pub const DESTINATIONS_MAX: usize = 64;
/// The longest pause between two attempts, unless set.
pub const BACKOFF_MAX_SECONDS: u64 = 60;
/// How long after an event happened it is tried again, unless set; then it is a dead letter.
pub const GIVE_UP_AFTER_SECONDS: u64 = 3 * 86_400;
/// How long an attempt may take, unless set.
pub const TIMEOUT_SECONDS: u64 = 15;
/// How many events one request takes at most, where the receiver takes batches.
pub const BATCH_MAX: u32 = 100;

/// A destination.
#[derive(Debug, Clone, PartialEq)]
pub struct Destination {
    /// Its name; of the same form as a room's.
    pub name: String,
    /// Where it is.
    pub target: Target,
    /// The rooms whose events it gets; none means all, and what concerns no room.
    pub rooms: Vec<RoomId>,
    /// The kinds that it gets, as patterns: a kind's name, `room.*` and the like, `aws` (the four of AWS), `default` (those of rooms and
    /// of the server, without AWS's), or `*`.
    pub types: Vec<String>,
    /// Whether it gets the request ids of visitors, each of which is as good as the place.
    pub with_request_ids: bool,
    /// How long it waits from one attempt to the next.
    pub schedule: RetrySchedule,
    /// How long it waits between two attempts at most; of [`RetrySchedule::Exponential`] only.
    pub backoff_max: Duration,
    /// How long after an event happened it is tried again.
    pub give_up_after: Duration,
    /// Whether it gets events now.
    pub state: DestinationState,
    /// Whether the configuration file names it; then only the file changes what it is, and operators pause, resume, test and replay.
    pub is_from_file: bool,
    /// When it was made.
    pub created_at: UnixMillis,
    /// The number of the outbox behind which it begins.
    pub begins_after: u64,
    /// The last replay that was asked for.
    pub replay: Option<Replay>,
    /// What was last asked for with its dead letters.
    pub dead_letters: Option<DeadLetterCommand>,
}

/// Whether a destination gets events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DestinationState {
    /// It does.
    Active,
    /// An operator paused it: events wait in the outbox.
    Paused,
    /// It wants no more events, or cannot take any: an operator has to look. Events wait in the outbox.
    Disabled {
        /// Why.
        reason: String,
    },
}

/// How long a destination is left alone after an attempt that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetrySchedule {
    /// Twice as long after each, with jitter, up to `backoff_max`.
    #[default]
    Exponential,
    /// What Standard Webhooks recommends: 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h, each with jitter.
    Standard,
}

impl RetrySchedule {
    /// Both, the default first.
    pub const ALL: [Self; 2] = [Self::Exponential, Self::Standard];

    /// Its name in settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exponential => "exponential",
            Self::Standard => "standard",
        }
    }

    /// The schedule of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|schedule| schedule.as_str() == text)
    }
}

/// What takes the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DestinationKind {
    /// See [`Target::Webhook`].
    Webhook,
    /// See [`Target::EventBridge`].
    EventBridge,
    /// See [`Target::Nats`].
    Nats,
    /// See [`Target::File`].
    File,
}

impl DestinationKind {
    /// Every kind, in the order of the reference.
    pub const ALL: [Self; 4] = [Self::Webhook, Self::EventBridge, Self::Nats, Self::File];

    /// Its name everywhere.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::EventBridge => "eventbridge",
            Self::Nats => "nats",
            Self::File => "file",
        }
    }

    /// The kind of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Where a destination is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// An address that takes webhooks by Standard Webhooks.
    Webhook(WebhookTarget),
    /// An event bus of AWS.
    EventBridge(EventBridgeTarget),
    /// A stream of NATS `JetStream`.
    Nats(NatsTarget),
    /// A file of JSON lines on this machine.
    File(FileTarget),
}

/// A webhook. Its secrets are kept beside it, sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookTarget {
    /// `https://…`, or `http://…` at an address that is listed.
    pub url: String,
    /// How many events one request has at most. With 1 a request is one `CloudEvent`; with more it is always a batch.
    pub batch_max: u32,
    /// How long an attempt may take.
    pub timeout: Duration,
}

/// An event bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventBridgeTarget {
    /// The region, such as `eu-central-1`.
    pub region: String,
    /// The name or ARN of the bus; `default` is the account's.
    pub bus: String,
    /// Where it is asked, if not at AWS's address of the region.
    pub endpoint: Option<String>,
    /// The key that requests are signed with; its secret is kept beside it, sealed.
    pub access_key_id: String,
    /// How long an attempt may take.
    pub timeout: Duration,
}

/// A stream of NATS. Its credentials are kept beside it, sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsTarget {
    /// `nats://…` or `tls://…`.
    pub url: String,
    /// What subjects begin with: `PREFIX.ROOM.TYPE`.
    pub subject_prefix: String,
    /// How long an attempt may take.
    pub timeout: Duration,
}

/// A file below the server's `events_directory`, named like the destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileTarget {
    /// How large it may become before it is rotated.
    pub size_max_bytes: u64,
    /// How many rotated files are kept.
    pub files_max: u32,
}

/// From where events are sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// Rises with every replay, so that each is done once.
    pub number: u64,
    /// The events behind this number of the outbox.
    pub after: u64,
}

/// What to do with dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterCommand {
    /// Rises with every command, so that each is done once.
    pub number: u64,
    /// Whether they are sent again, before anything else; otherwise they are dropped.
    pub is_replay: bool,
}

impl Target {
    /// What takes the events there.
    pub const fn kind(&self) -> DestinationKind {
        match self {
            Self::Webhook(_) => DestinationKind::Webhook,
            Self::EventBridge(_) => DestinationKind::EventBridge,
            Self::Nats(_) => DestinationKind::Nats,
            Self::File(_) => DestinationKind::File,
        }
    }

    /// How long an attempt may take; a file takes what it takes.
    pub const fn timeout(&self) -> Option<Duration> {
        match self {
            Self::Webhook(WebhookTarget { timeout, .. })
            | Self::EventBridge(EventBridgeTarget { timeout, .. })
            | Self::Nats(NatsTarget { timeout, .. }) => Some(*timeout),
            Self::File(_) => None,
        }
    }
}

/// Whether a pattern names that kind.
fn names(pattern: &str, kind: EventKind) -> bool {
    match pattern {
        "*" => true,
        "aws" => kind.is_of_aws(),
        "default" => kind.class() == EventClass::Room && !kind.is_of_aws(),
        _ => match pattern.strip_suffix(".*") {
            Some(group) => kind.as_str().strip_prefix(group).is_some_and(|rest| rest.starts_with('.')),
            None => kind.as_str() == pattern,
        },
    }
}

/// The kinds that patterns name, or the first pattern that names none.
pub fn kinds_of<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<EventKinds, &'a str> {
    let mut all = EventKinds::NONE;
    for pattern in patterns {
        let named: EventKinds = EventKind::ALL.iter().copied().filter(|&kind| names(pattern, kind)).collect();
        if named == EventKinds::NONE {
            return Err(pattern);
        }
        all = all.union(named);
    }
    Ok(all)
}

impl Destination {
    /// The kinds that it gets.
    pub fn kinds(&self) -> EventKinds {
        kinds_of(self.types.iter().map(String::as_str)).unwrap_or(EventKinds::NONE)
    }

    /// What its cursor is kept under: another destination that gets its name later has another.
    pub fn key(&self) -> String {
        format!("{}@{}", self.name, self.created_at.0)
    }

    /// Whether it gets events of that room, or of none.
    pub fn covers(&self, room: Option<&RoomId>) -> bool {
        self.rooms.is_empty() || room.is_some_and(|room| self.rooms.contains(room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_kinds_groups_and_what_aws_has() {
        let kinds = |patterns: &[&'static str]| kinds_of(patterns.iter().copied());
        assert_eq!(kinds(&["*"]), Ok(EventKinds::all()));
        assert_eq!(kinds(&["aws"]).map(|kinds| kinds.iter().count()), Ok(4));
        let alarms = kinds(&["alarm.*"]).unwrap();
        assert!(alarms.contains(EventKind::AlarmFired) && alarms.contains(EventKind::AlarmResolved));
        assert_eq!(alarms.iter().count(), 2);
        let usual = kinds(&["default"]).unwrap();
        assert!(usual.iter().all(|kind| kind.class() == EventClass::Room && !kind.is_of_aws()));
        assert!(usual.contains(EventKind::KeyCreated) && !usual.contains(EventKind::WaitingRoomMetrics));
        assert!(kinds(&["room.opened", "alarm.fired"]).unwrap().contains(EventKind::RoomOpened));
        for unknown in ["", "room", "room*", "room.open", "alarm.fired.*", ".*"] {
            assert_eq!(kinds(&["room.opened", unknown]), Err(unknown));
        }
    }
}
