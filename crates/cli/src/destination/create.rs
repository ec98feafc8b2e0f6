//! `anteroom destination create` and `set`: what a destination is like.

use std::time::Duration;

use anteroom_core::RoomId;
use anteroom_server::Permission;
use clap::{Args, Subcommand, ValueEnum};
use hyper::Method;
use serde_json::{Map, Value};

use super::{Algorithm, DESTINATIONS, GivenSecret, call_for, path, print_key};
use crate::connection::{Call, Operator};
use crate::duration;
use crate::output::{self, Format, cell};
use crate::room;

/// A destination to be made, by its kind.
#[derive(Debug, Subcommand)]
pub(super) enum NewDestination {
    /// An address that takes webhooks by Standard Webhooks; its key goes to stdout
    #[command(after_help = "Examples:
  anteroom destination create webhook shop --to https://shop.example/hooks > shop.secret
  anteroom destination create webhook shop --to https://shop.example/in --algorithm ed25519")]
    Webhook {
        #[command(flatten)]
        name: NewName,
        /// Where it is: https://…
        #[arg(long, value_name = "URL")]
        to: String,
        /// How it is signed
        #[arg(long, value_name = "ALGORITHM", value_enum, default_value = "hmac-sha256")]
        algorithm: Algorithm,
        /// How many events one request has at most
        #[arg(long, value_name = "N")]
        batch_max: Option<u64>,
        #[command(flatten)]
        given: GivenSecret,
        #[command(flatten)]
        common: Common,
    },
    /// An event bus of AWS
    #[command(after_help = "Examples:
  anteroom destination create eventbridge bus --region eu-west-1 --key-id $KEY_ID --secret-file aws")]
    Eventbridge {
        #[command(flatten)]
        name: NewName,
        #[command(flatten)]
        bus: Bus,
        #[command(flatten)]
        given: GivenSecret,
        #[command(flatten)]
        common: Common,
    },
    /// A stream of NATS `JetStream`
    #[command(after_help = "Examples:
  anteroom destination create nats stream --to tls://nats.example:4222 --subject-prefix queue")]
    Nats {
        #[command(flatten)]
        name: NewName,
        /// Where it is: tls://…
        #[arg(long, value_name = "URL")]
        to: String,
        /// What subjects begin with
        #[arg(long, value_name = "PREFIX")]
        subject_prefix: Option<String>,
        #[command(flatten)]
        given: GivenSecret,
        #[command(flatten)]
        common: Common,
    },
    /// A file of JSON lines on the server's machine, in its `events_directory`
    #[command(after_help = "Examples:
  anteroom destination create file log --type '*'")]
    File {
        #[command(flatten)]
        name: NewName,
        #[command(flatten)]
        file: FileSize,
        #[command(flatten)]
        common: Common,
    },
}

/// The name of a new destination.
#[derive(Debug, Args)]
pub(super) struct NewName {
    /// The destination's name
    #[arg(value_name = "DESTINATION")]
    name: String,
}

/// An event bus.
#[derive(Debug, Args)]
#[expect(clippy::struct_field_names, reason = "fields are the names of options")]
pub(super) struct Bus {
    /// Its region, such as eu-central-1
    #[arg(long, value_name = "REGION")]
    region: String,
    /// Its name or ARN [default: the account's]
    #[arg(long, value_name = "BUS")]
    bus: Option<String>,
    /// The id of the access key
    #[arg(long = "key-id", value_name = "ID")]
    access_key_id: String,
    /// Where it is asked [default: AWS's address of the region]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
}

/// How large files become.
#[derive(Debug, Args)]
pub(super) struct FileSize {
    /// How large the file becomes before it is rotated, in bytes
    #[arg(long, value_name = "BYTES")]
    size_max_bytes: Option<u64>,
    /// How many rotated files are kept
    #[arg(long, value_name = "N")]
    files_max: Option<u64>,
}

/// What destinations of every kind have.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// A room whose events it gets; may be repeated [default: all, and what concerns no room]
    #[arg(long = "room", value_name = "ROOM", value_parser = room::room_id)]
    rooms: Vec<RoomId>,
    /// A kind of events that it gets, or a group such as room.*; may be repeated
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Whether it gets the request ids of visitors, each of which is as good as the place
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    with_request_ids: Option<bool>,
    /// How long an attempt may take: 5s
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    timeout_for: Option<Duration>,
    /// How long it is left alone after an attempt that failed
    #[arg(long, value_name = "SCHEDULE", value_enum)]
    schedule: Option<Schedule>,
    /// The longest pause between two attempts, of the schedule exponential: 60s
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    backoff_max: Option<Duration>,
    /// How long after an event it is tried again: 3d
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    give_up_after: Option<Duration>,
}

/// How attempts follow each other.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Schedule {
    /// Twice as long after each, up to a longest pause
    Exponential,
    /// What Standard Webhooks recommends, from 5 seconds to a day
    Standard,
}

/// What is to be changed.
#[derive(Debug, Args)]
pub(super) struct Change {
    /// The destination's name
    #[arg(value_name = "DESTINATION")]
    name: String,
    /// Where a webhook or a NATS server is
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// How many events one request to a webhook has at most
    #[arg(long, value_name = "N")]
    batch_max: Option<u64>,
    /// The region of an event bus
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// Its name or ARN
    #[arg(long, value_name = "BUS")]
    bus: Option<String>,
    /// Where it is asked
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// What subjects of NATS begin with
    #[arg(long, value_name = "PREFIX")]
    subject_prefix: Option<String>,
    #[command(flatten)]
    file: FileSize,
    /// All rooms, and what concerns no room
    #[arg(long, conflicts_with = "rooms")]
    all_rooms: bool,
    #[command(flatten)]
    common: Common,
}

/// A body to which only what was said is added.
#[derive(Default)]
struct Body(Map<String, Value>);

impl Body {
    fn say(&mut self, key: &str, value: Option<impl Into<Value>>) -> &mut Self {
        if let Some(value) = value {
            self.0.insert(key.to_owned(), value.into());
        }
        self
    }

    fn common(&mut self, common: &Common) -> &mut Self {
        let rooms: Vec<Value> = common.rooms.iter().map(|room| room.as_str().into()).collect();
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs());
        let schedule = common.schedule.map(|schedule| match schedule {
            Schedule::Exponential => "exponential",
            Schedule::Standard => "standard",
        });
        self.say("rooms", (!rooms.is_empty()).then_some(rooms))
            .say("types", (!common.types.is_empty()).then(|| common.types.clone()))
            .say("with_request_ids", common.with_request_ids)
            .say("timeout_seconds", seconds(common.timeout_for))
            .say("schedule", schedule)
            .say("backoff_max_seconds", seconds(common.backoff_max))
            .say("give_up_after_seconds", seconds(common.give_up_after))
    }

    fn file(&mut self, file: &FileSize) -> &mut Self {
        self.say("size_max_bytes", file.size_max_bytes).say("files_max", file.files_max)
    }
}

/// Makes a destination.
pub(super) async fn create(operator: Operator, kind: &NewDestination) -> anyhow::Result<()> {
    let mut body = Body::default();
    let (kind_name, name, given) = match kind {
        NewDestination::Webhook { name, to, algorithm, batch_max, given, common } => {
            body.say("url", Some(to.as_str())).say("batch_max", *batch_max).common(common);
            body.say("algorithm", Some(algorithm.as_str()));
            ("webhook", name, Some(given))
        }
        NewDestination::Eventbridge { name, bus, given, common } => {
            body.say("region", Some(bus.region.as_str()))
                .say("bus", bus.bus.as_deref())
                .say("access_key_id", Some(bus.access_key_id.as_str()))
                .say("endpoint", bus.endpoint.as_deref())
                .common(common);
            ("eventbridge", name, Some(given))
        }
        NewDestination::Nats { name, to, subject_prefix, given, common } => {
            body.say("url", Some(to.as_str()))
                .say("subject_prefix", subject_prefix.as_deref())
                .common(common);
            ("nats", name, Some(given))
        }
        NewDestination::File { name, file, common } => {
            body.file(file).common(common);
            ("file", name, None)
        }
    };
    let secret = given.map(GivenSecret::read).transpose()?.flatten();
    body.say("kind", Some(kind_name))
        .say("name", Some(name.name.as_str()))
        .say("secret", secret.as_ref().map(|secret| secret.as_str()));
    let call = Call::post(DESTINATIONS, Permission::Administer, Value::Object(body.0));
    let answer = operator.call(call).await?;
    print_key(&operator, &answer)
}

/// Changes a destination.
pub(super) async fn change(operator: Operator, change: &Change) -> anyhow::Result<()> {
    let mut body = Body::default();
    body.say("url", change.to.as_deref())
        .say("batch_max", change.batch_max)
        .say("region", change.region.as_deref())
        .say("bus", change.bus.as_deref())
        .say("endpoint", change.endpoint.as_deref())
        .say("subject_prefix", change.subject_prefix.as_deref())
        .file(&change.file)
        .common(&change.common)
        .say("rooms", change.all_rooms.then(Vec::<Value>::new));
    let call = Call::new(Method::PATCH, path(&change.name), Permission::Administer);
    let answer = call_for(&operator, &change.name, call.body(Value::Object(body.0))).await?;
    match operator.format {
        Format::Json => output::data(&answer.text),
        Format::Text => output::data(&format!("destination {} changed", cell(&answer.json["name"]))),
    }
}
