//! `anteroom key …`: API keys of operators and origins, and the keys that sign passes.
//!
//! A secret is data: it goes to stdout and nothing else does, so that `KEY=$(anteroom key create …)` holds it and no more.

use std::path::PathBuf;
use std::time::Duration;

use anteroom_server::config::StoreUrl;
use anteroom_server::{CreatedKey, KeyKind, NewKey, Permission, Role, STORE_FILE_NAME, offline};
use anteroom_store::Clock;
use anteroom_store::clock::SystemClock;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};

use crate::Configuration;
use crate::connection::{Answer, Call, Connection, Operator, nearest};
use crate::duration;
use crate::failure::{self, Exit, Failure};
use crate::http_client::percent_encode;
use crate::output::{self, Format, cell, table, talk};

/// Make, list and revoke API keys; rotate the key that signs passes
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  anteroom key list")]
pub(crate) struct KeyArguments {
    #[command(subcommand)]
    command: KeyCommand,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Make a key; its secret is printed now and never again
    #[command(after_help = "Examples:
  KEY=$(anteroom key create dashboard --role viewer)
  anteroom key create shop --role origin --kind sigv4 --expires-in 30d
  anteroom key create rescue --role admin --offline")]
    Create(KeyRequest),
    /// List the keys, without their secrets
    #[command(after_help = "Examples:\n  anteroom key list\n  anteroom key list --signing")]
    List {
        /// The keys that sign passes, in place of API keys
        #[arg(long)]
        signing: bool,
    },
    /// Revoke a key at once
    #[command(after_help = "Examples:\n  anteroom key revoke dashboard")]
    Revoke {
        /// The key's name
        name: String,
    },
    /// Announce a new key for signing passes; it signs once verifiers had time to learn of it
    #[command(after_help = "Examples:\n  anteroom key rotate-signing")]
    RotateSigning,
}

/// A key to be made.
#[derive(Debug, Args)]
struct KeyRequest {
    /// A name, to revoke it by
    name: String,
    /// What it may do: viewer (read), origin (close sessions), operator (also change rooms) or admin (everything)
    #[arg(long, value_name = "ROLE", value_parser = roles(), hide_possible_values = true)]
    role: Role,
    /// bearer (one secret) or sigv4 (a pair for clients that sign as AWS's do)
    #[arg(long, value_name = "KIND", value_parser = kinds(), default_value = "bearer", hide_possible_values = true)]
    kind: KeyKind,
    /// When it stops working: 12h, 30d [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    expires_in: Option<Duration>,
    /// Write it into the store of a stopped server, for when no key is left
    #[arg(long)]
    offline: bool,
    /// With --offline: the configuration file [default: anteroom.toml in the working directory, if there is one]
    #[arg(long, value_name = "FILE", requires = "offline")]
    config: Option<PathBuf>,
}

/// Reads a role by its name.
fn roles() -> impl TypedValueParser<Value = Role> {
    let names = Role::ALL.map(Role::as_str);
    PossibleValuesParser::new(names).try_map(|name| Role::parse(&name).ok_or("not a role"))
}

/// Reads a kind of key by its name.
fn kinds() -> impl TypedValueParser<Value = KeyKind> {
    let names = [KeyKind::Bearer, KeyKind::SigV4].map(KeyKind::as_str);
    PossibleValuesParser::new(names).try_map(|name| KeyKind::parse(&name).ok_or("not a kind of key"))
}

/// Runs a key command.
pub(crate) fn run(arguments: KeyArguments) -> anyhow::Result<()> {
    let KeyArguments { command, connection } = arguments;
    match command {
        KeyCommand::Create(key) if key.offline => create_offline(key, connection.format),
        KeyCommand::Create(key) => connection.run(async |operator| create(operator, key).await),
        KeyCommand::List { signing: false } => connection.run(list),
        KeyCommand::List { signing: true } => connection.run(list_signing),
        KeyCommand::Revoke { name } => connection.run(async |operator| revoke(operator, &name).await),
        KeyCommand::RotateSigning => connection.run(rotate_signing),
    }
}

async fn create(operator: Operator, key: KeyRequest) -> anyhow::Result<()> {
    let mut body = json!({ "name": key.name, "role": key.role.as_str(), "kind": key.kind.as_str() });
    if let Some(expires_in) = key.expires_in {
        body["expires_in_seconds"] = expires_in.as_secs().into();
    }
    let answer = operator.call(Call::post("/keys", Permission::Administer, body)).await?;
    print_created(operator.format, &answer.text, &answer.json)
}

/// Makes the key in the store of a server that does not run.
fn create_offline(key: KeyRequest, format: Format) -> anyhow::Result<()> {
    let loaded = Configuration { config: key.config }.load()?;
    match &loaded.config.store_url {
        StoreUrl::Memory => {
            let failure = Failure::new(
                Exit::CommandLine,
                "store_url is memory:, and a stopped server keeps nothing there",
            );
            return Err(failure
                .hint("with ANTEROOM_ADMIN_KEY set, the server accepts that key as an admin's")
                .into());
        }
        StoreUrl::File(directory) if !directory.join(STORE_FILE_NAME).exists() => {
            talk(&format!("note: there is no store in {} yet; it will be made", directory.display()));
        }
        StoreUrl::File(_) | StoreUrl::Redis(_) => {}
    }
    let expires_at = key.expires_in.map(|time| SystemClock.now().plus(time.as_secs().saturating_mul(1000)));
    let new = NewKey { name: key.name.clone(), role: key.role, kind: key.kind, expires_at };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let created = runtime.block_on(offline::create_key(&loaded, new))?;
    let mut told = json!({ "name": key.name, "role": key.role.as_str(), "kind": key.kind.as_str() });
    match created {
        CreatedKey::Bearer(key) => told["key"] = key.into(),
        CreatedKey::Pair { access_key_id, secret_access_key } => {
            told["access_key_id"] = access_key_id.into();
            told["secret_access_key"] = secret_access_key.into();
        }
    }
    print_created(format, &told.to_string(), &told)
}

/// The secret to stdout, the rest to stderr.
fn print_created(format: Format, text: &str, created: &Value) -> anyhow::Result<()> {
    let until = created["expires_at"].as_str().map_or_else(String::new, |at| format!(" until {at}"));
    let (name, role) = (cell(&created["name"]), cell(&created["role"]));
    talk(&format!("key {name} ({role}){until}; its secret is shown only now"));
    if format == Format::Json {
        return output::data(text);
    }
    if let Some(key) = created["key"].as_str() {
        return output::data(key);
    }
    let (id, secret) = (cell(&created["access_key_id"]), cell(&created["secret_access_key"]));
    output::data(&format!("AWS_ACCESS_KEY_ID={id}\nAWS_SECRET_ACCESS_KEY={secret}"))
}

async fn list(operator: Operator) -> anyhow::Result<()> {
    let answer = operator.call(Call::get("/keys", Permission::Administer)).await?;
    let columns = ["name", "role", "kind", "access_key_id", "created_at", "expires_at"];
    let head = ["NAME", "ROLE", "KIND", "ACCESS KEY ID", "CREATED", "EXPIRES"];
    print_keys(&operator, &answer, &head, |key| {
        let mut row = columns.map(|name| cell(&key[name])).to_vec();
        if key["expired"] == true {
            row[5].push_str(" (over)");
        }
        row
    })
}

async fn list_signing(operator: Operator) -> anyhow::Result<()> {
    let answer = operator.call(Call::get("/signing_keys", Permission::Read)).await?;
    let columns = ["kid", "algorithm", "status", "active_from"];
    let head = ["KID", "ALGORITHM", "STATUS", "SIGNS FROM"];
    print_keys(&operator, &answer, &head, |key| columns.map(|name| cell(&key[name])).to_vec())
}

fn print_keys(
    operator: &Operator,
    answer: &Answer,
    head: &[&str],
    row: impl Fn(&Value) -> Vec<String>,
) -> anyhow::Result<()> {
    if operator.format == Format::Json {
        return output::data(&answer.text);
    }
    let Some(keys) = answer.json["keys"].as_array() else {
        return Err(operator.not_our_server("it answered without a list of keys").into());
    };
    output::data(&table(head, &keys.iter().map(row).collect::<Vec<_>>()))
}

async fn revoke(operator: Operator, name: &str) -> anyhow::Result<()> {
    let call = Call::new(Method::DELETE, format!("/keys/{}", percent_encode(name)), Permission::Administer);
    if let Err(error) = operator.call(call).await {
        if failure::kind(&error) != Some(Exit::NotFound) {
            return Err(error);
        }
        let keys = operator.call(Call::get("/keys", Permission::Administer)).await?;
        let keys = keys.json["keys"].as_array().cloned().unwrap_or_default();
        let names: Vec<&str> = keys.iter().filter_map(|key| key["name"].as_str()).collect();
        let failure = Failure::new(Exit::NotFound, format!("there is no key {name}"));
        return Err(failure.maybe_hint(nearest(name, &names)).into());
    }
    match operator.format {
        Format::Json => output::data(&json!({ "revoked": name }).to_string()),
        Format::Text => output::data(&format!("key {name} revoked")),
    }
}

async fn rotate_signing(operator: Operator) -> anyhow::Result<()> {
    let call = Call::new(Method::POST, "/signing_keys", Permission::Administer);
    let answer = operator.call(call).await?;
    if operator.format == Format::Json {
        return output::data(&answer.text);
    }
    let key = &answer.json;
    let (kid, algorithm, from) = (cell(&key["kid"]), cell(&key["algorithm"]), cell(&key["active_from"]));
    output::data(&format!("signing key {kid} ({algorithm}) signs from {from}"))?;
    for (room, from) in key["later_in_rooms"].as_object().into_iter().flatten() {
        output::data(&format!("room {room}: from {}", cell(from)))?;
    }
    if let Some(warning) = key["warning"].as_str() {
        talk(&format!("warning: {warning}"));
    }
    Ok(())
}
