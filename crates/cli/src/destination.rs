//! `anteroom destination …`: where events go.
//!
//! As with API keys, a secret is data: one that the server makes goes to stdout and nothing else does; one that is given comes from a file
//! or from stdin, never from an argument.

mod create;
mod show;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anteroom_server::Permission;
use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use hyper::Method;
use secrecy::zeroize::Zeroizing;
use serde_json::{Value, json};

use crate::connection::{Answer, Call, Connection, Operator, nearest};
use crate::duration;
use crate::failure::{self, Exit, Failure};
use crate::http_client::percent_encode;
use crate::output::{self, Format, cell, confirm, table, talk};

/// The largest secret that is read, in bytes.
const SECRET_MAX_BYTES: u64 = 16 * 1024;

/// The command.
#[derive(Debug, Args)]
#[command(about = "Say where events go: webhooks, an event bus of AWS, NATS, files")]
#[command(after_help = "Examples:\n  anteroom destination list")]
pub(crate) struct DestinationArguments {
    #[command(subcommand)]
    command: DestinationCommand,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Subcommand)]
enum DestinationCommand {
    /// Make a destination; the key that it signs with is printed now and never again
    #[command(after_help = "Examples:
  anteroom destination create webhook shop --to https://shop.example/hooks > shop.secret")]
    Create {
        #[command(subcommand)]
        kind: create::NewDestination,
    },
    /// List destinations and how they fare
    #[command(
        after_help = "Examples:\n  anteroom destination list\n  anteroom destination list --format json"
    )]
    List,
    /// Show everything about a destination but its secrets
    #[command(after_help = "Examples:\n  anteroom destination show shop")]
    Show(DestinationName),
    /// Change what a destination is like; what you do not say stays
    #[command(after_help = "Examples:
  anteroom destination set shop --type default --type 'session.*' --room Hall
  anteroom destination set shop --batch-max 100 --timeout-for 5s")]
    Set(Box<create::Change>),
    /// Send a destination one event that says it is a test
    #[command(after_help = "Examples:\n  anteroom destination test shop")]
    Test(DestinationName),
    /// Have a destination's events wait
    #[command(after_help = "Examples:\n  anteroom destination pause shop")]
    Pause(DestinationName),
    /// Let a destination have its events again, also one that was disabled
    #[command(after_help = "Examples:\n  anteroom destination resume shop")]
    Resume(DestinationName),
    /// Send a destination events once more, as far as they are kept
    #[command(after_help = "Examples:
  anteroom destination replay shop --after 1
  anteroom destination replay shop --since 2026-11-16T20:00:00Z")]
    Replay {
        #[command(flatten)]
        destination: DestinationName,
        #[command(flatten)]
        from: ReplayFrom,
    },
    /// List the events that a destination did not take, send them again, or drop them
    #[command(after_help = "Examples:
  anteroom destination dead-letters shop
  anteroom destination dead-letters shop --replay
  anteroom destination dead-letters shop --drop --yes")]
    DeadLetters(DeadLetters),
    /// Give a destination a new secret; the key before of a webhook goes on for a day, or as long as you say
    #[command(after_help = "Examples:
  anteroom destination rotate-secret shop > shop.secret
  anteroom destination rotate-secret shop --previous-for 7d
  anteroom destination rotate-secret shop --end-previous")]
    RotateSecret(Rotation),
    /// Delete a destination at once
    #[command(after_help = "Examples:\n  anteroom destination delete shop --yes")]
    Delete {
        #[command(flatten)]
        destination: DestinationName,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// Which destination.
#[derive(Debug, Args)]
struct DestinationName {
    /// The destination's name
    #[arg(value_name = "DESTINATION")]
    name: String,
}

/// From where a replay goes.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct ReplayFrom {
    /// The events behind this number of the outbox
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,
    /// The events from this moment on: RFC 3339, or seconds since 1970
    #[arg(long, value_name = "MOMENT")]
    since: Option<String>,
    /// This event, and those behind it
    #[arg(long, value_name = "ID")]
    event_id: Option<String>,
}

#[derive(Debug, Args)]
struct DeadLetters {
    #[command(flatten)]
    destination: DestinationName,
    /// How many to list at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
    /// Send them all again, before anything else
    #[arg(long, conflicts_with = "drop")]
    replay: bool,
    /// Drop them all, for good
    #[arg(long)]
    drop: bool,
    /// Do not ask before dropping
    #[arg(long, requires = "drop")]
    yes: bool,
}

#[derive(Debug, Args)]
struct Rotation {
    #[command(flatten)]
    destination: DestinationName,
    #[command(flatten)]
    given: GivenSecret,
    /// How the new key of a webhook signs [default: as the one before]
    #[arg(long, value_name = "ALGORITHM", value_enum)]
    algorithm: Option<Algorithm>,
    /// The id that belongs to the new secret of an event bus [default: as before]
    #[arg(long = "key-id", value_name = "ID")]
    access_key_id: Option<String>,
    /// How long the key before goes on: 12h, 7d [default: a day]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    previous_for: Option<Duration>,
    /// Make no new key, but end the one before at once
    #[arg(long, conflicts_with_all = ["previous_for", "algorithm", "access_key_id", "secret_file"])]
    end_previous: bool,
}

/// A secret that the operator brings.
#[derive(Debug, Args)]
struct GivenSecret {
    /// A file with the secret, or - for stdin. No option takes the secret itself, because arguments show up in lists of
    /// processes
    #[arg(long = "secret-file", value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

impl GivenSecret {
    fn read(&self) -> anyhow::Result<Option<Zeroizing<String>>> {
        let Some(path) = &self.secret_file else { return Ok(None) };
        let unreadable =
            || Failure::new(Exit::CommandLine, format!("cannot read the secret from {}", path.display()));
        let mut text = Zeroizing::new(String::new());
        if path == Path::new("-") {
            std::io::stdin().take(SECRET_MAX_BYTES).read_to_string(&mut text).with_context(unreadable)?;
        } else {
            let file = std::fs::File::open(path).with_context(unreadable)?;
            file.take(SECRET_MAX_BYTES).read_to_string(&mut text).with_context(unreadable)?;
        }
        let secret = text.trim();
        if secret.is_empty() {
            let what = format!("there is no secret in {}", path.display());
            return Err(Failure::new(Exit::CommandLine, what).into());
        }
        Ok(Some(Zeroizing::new(secret.to_owned())))
    }
}

/// How webhooks are signed.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Algorithm {
    /// A secret that both sides know
    HmacSha256,
    /// A key pair, of which the receiver knows the public half
    Ed25519,
}

impl Algorithm {
    const fn as_str(self) -> &'static str {
        match self {
            Self::HmacSha256 => "hmac-sha256",
            Self::Ed25519 => "ed25519",
        }
    }
}

const DESTINATIONS: &str = "/destinations";

fn path(name: &str) -> String {
    format!("{DESTINATIONS}/{}", percent_encode(name))
}

/// Runs a destination command.
pub(crate) fn run(arguments: DestinationArguments) -> anyhow::Result<()> {
    let DestinationArguments { command, connection } = arguments;
    match command {
        DestinationCommand::Create { kind } => {
            connection.run(async |operator| create::create(operator, &kind).await)
        }
        DestinationCommand::List => connection.run(async |operator| list(operator).await),
        DestinationCommand::Show(named) => {
            connection.run(async |operator| show::show(operator, &named.name).await)
        }
        DestinationCommand::Set(change) => {
            connection.run(async |operator| create::change(operator, &change).await)
        }
        DestinationCommand::Test(named) => connection.run(async |operator| test(operator, &named.name).await),
        DestinationCommand::Pause(named) => {
            connection.run(async |operator| set_state(operator, &named.name, "pause").await)
        }
        DestinationCommand::Resume(named) => {
            connection.run(async |operator| set_state(operator, &named.name, "resume").await)
        }
        DestinationCommand::Replay { destination, from } => {
            connection.run(async |operator| replay(operator, &destination.name, &from).await)
        }
        DestinationCommand::DeadLetters(arguments) => {
            connection.run(async |operator| dead_letters(operator, &arguments).await)
        }
        DestinationCommand::RotateSecret(rotation) => {
            connection.run(async |operator| rotate(operator, &rotation).await)
        }
        DestinationCommand::Delete { destination, yes } => {
            connection.run(async |operator| delete(operator, &destination.name, yes).await)
        }
    }
}

async fn list(operator: Operator) -> anyhow::Result<()> {
    let answer = operator.call(Call::get(DESTINATIONS, Permission::Read)).await?;
    if operator.format == Format::Json {
        return output::data(&answer.text);
    }
    let Some(destinations) = answer.json["destinations"].as_array() else {
        return Err(operator.not_our_server("it answered without a list of destinations").into());
    };
    let head = ["DESTINATION", "KIND", "STATE", "WAITING", "DELIVERED", "DEAD", "FROM", "TO"];
    let row = |destination: &Value| {
        let status = &destination["status"];
        vec![
            cell(&destination["name"]),
            cell(&destination["kind"]),
            show::state(destination),
            cell(&status["lag_events"]),
            cell(&status["delivered"]),
            cell(&status["dead_letters"]),
            if destination["from_file"] == true { "file" } else { "API" }.to_owned(),
            show::place(destination),
        ]
    };
    output::data(&table(&head, &destinations.iter().map(row).collect::<Vec<_>>()))
}

async fn test(operator: Operator, name: &str) -> anyhow::Result<()> {
    let call = Call::new(Method::POST, format!("{}/test", path(name)), Permission::Operate);
    let answer = call_for(&operator, name, call).await?;
    if operator.format == Format::Json {
        output::data(&answer.text)?;
    }
    if answer.json["delivered"] != true {
        let what = format!("destination {name} did not take the test: {}", cell(&answer.json["reason"]));
        return Err(Failure::new(Exit::Failed, what).into());
    }
    match operator.format {
        Format::Json => Ok(()),
        Format::Text => {
            let time = cell(&answer.json["milliseconds"]);
            output::data(&format!("destination {name} took the test in {time} ms"))
        }
    }
}

async fn set_state(operator: Operator, name: &str, verb: &str) -> anyhow::Result<()> {
    let call = Call::new(Method::POST, format!("{}/{verb}", path(name)), Permission::Operate);
    let answer = call_for(&operator, name, call).await?;
    match operator.format {
        Format::Json => output::data(&answer.text),
        Format::Text => output::data(&format!("destination {name} is {}", cell(&answer.json["state"]))),
    }
}

async fn replay(operator: Operator, name: &str, from: &ReplayFrom) -> anyhow::Result<()> {
    let body = match (from.after, &from.since, &from.event_id) {
        (Some(after), _, _) => json!({ "after": after }),
        (None, Some(since), _) => match since.parse::<u64>() {
            Ok(seconds) => json!({ "since": seconds }),
            Err(_) => json!({ "since": since }),
        },
        (None, None, id) => json!({ "event_id": id }),
    };
    let call = Call::post(format!("{}/replay", path(name)), Permission::Operate, body);
    let answer = call_for(&operator, name, call).await?;
    match operator.format {
        Format::Json => output::data(&answer.text),
        Format::Text => {
            let after = cell(&answer.json["after"]);
            output::data(&format!("destination {name} gets the events after {after} once more"))
        }
    }
}

async fn dead_letters(operator: Operator, arguments: &DeadLetters) -> anyhow::Result<()> {
    let name = arguments.destination.name.as_str();
    let path = format!("{}/dead-letters", path(name));
    if !arguments.replay && !arguments.drop {
        let call = Call::get(format!("{path}?limit={}", arguments.limit), Permission::Operate);
        let answer = call_for(&operator, name, call).await?;
        return show::dead_letters(&operator, &answer);
    }
    let (method, done) = if arguments.replay {
        (Method::POST, "are sent again")
    } else {
        confirm(&format!("the dead letters of destination {name} will be gone for good"), arguments.yes)?;
        (Method::DELETE, "are dropped")
    };
    let answer = call_for(&operator, name, Call::new(method, path, Permission::Operate)).await?;
    match operator.format {
        Format::Json => output::data(&answer.text),
        Format::Text => output::data(&format!("the dead letters of destination {name} {done}")),
    }
}

async fn rotate(operator: Operator, rotation: &Rotation) -> anyhow::Result<()> {
    let name = rotation.destination.name.as_str();
    if rotation.end_previous {
        let path = format!("{}/secrets/previous", path(name));
        call_for(&operator, name, Call::new(Method::DELETE, path, Permission::Administer)).await?;
        return match operator.format {
            Format::Json => output::data(&json!({ "destination": name, "revoked": "previous" }).to_string()),
            Format::Text => output::data(&format!("previous secret of destination {name} revoked")),
        };
    }
    let mut body = json!({});
    if let Some(secret) = rotation.given.read()? {
        body["secret"] = secret.as_str().into();
    }
    if let Some(algorithm) = rotation.algorithm {
        body["algorithm"] = algorithm.as_str().into();
    }
    if let Some(id) = &rotation.access_key_id {
        body["access_key_id"] = id.as_str().into();
    }
    if let Some(time) = rotation.previous_for {
        body["previous_expires_in_seconds"] = time.as_secs().into();
    }
    let call = Call::post(format!("{}/secret", path(name)), Permission::Administer, body);
    let answer = call_for(&operator, name, call).await?;
    print_key(&operator, &answer)
}

/// The key to stdout, the rest to stderr.
fn print_key(operator: &Operator, answer: &Answer) -> anyhow::Result<()> {
    let name = cell(&answer.json["name"]);
    let key = answer.json["secret"].as_str().or(answer.json["public_key"].as_str());
    match (answer.json["secret"].as_str(), key) {
        (Some(_), _) => talk(&format!("destination {name}; its secret is shown only now")),
        (None, Some(_)) => talk(&format!("destination {name}; this is the public key of its key pair")),
        (None, None) => talk(&format!("destination {name}")),
    }
    if operator.format == Format::Json {
        return output::data(&answer.text);
    }
    match key {
        Some(key) => output::data(key),
        None => Ok(()),
    }
}

async fn delete(operator: Operator, name: &str, yes: bool) -> anyhow::Result<()> {
    confirm(&format!("destination {name} will be deleted, with what waits for it"), yes)?;
    call_for(&operator, name, Call::new(Method::DELETE, path(name), Permission::Administer)).await?;
    match operator.format {
        Format::Json => output::data(&json!({ "deleted": name }).to_string()),
        Format::Text => output::data(&format!("destination {name} deleted")),
    }
}

/// Makes a call about a destination; where there is none, the hint names the nearest one.
async fn call_for(operator: &Operator, name: &str, call: Call) -> anyhow::Result<Answer> {
    let error = match operator.call(call).await {
        Err(error) if failure::kind(&error) == Some(Exit::NotFound) => error,
        other => return other,
    };
    let listed = Call::get(DESTINATIONS, Permission::Read);
    let Ok(listed) = operator.call(listed).await else { return Err(error) };
    let destinations = listed.json["destinations"].as_array().cloned().unwrap_or_default();
    let names: Vec<&str> = destinations.iter().filter_map(|one| one["name"].as_str()).collect();
    let what = format!("there is no destination {name}");
    Err(Failure::new(Exit::NotFound, what).maybe_hint(nearest(name, &names)).into())
}
