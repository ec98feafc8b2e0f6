//! `anteroom client …`: the `OpenID` clients of a room, the sites that let their visitors log in by waiting.
//!
//! As with API keys, a secret is data: it goes to stdout and nothing else does.

use std::time::Duration;

use anteroom_core::RoomId;
use anteroom_server::Permission;
use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};

use crate::connection::{Answer, Call, Connection, Operator, nearest};
use crate::duration;
use crate::failure::{self, Exit, Failure};
use crate::http_client::percent_encode;
use crate::output::{self, Format, cell, table, talk};
use crate::room;

/// The command.
#[derive(Debug, Args)]
#[command(about = "Make, list and delete OpenID clients of a room; replace their secrets")]
#[command(after_help = "Examples:\n  anteroom client list --room Hall")]
pub(crate) struct ClientArguments {
    #[command(subcommand)]
    command: ClientCommand,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Subcommand)]
enum ClientCommand {
    /// Make a client; its secret is printed now and never again
    #[command(after_help = "Examples:
  SECRET=$(anteroom client create --room Hall --redirect https://shop.example/callback)
  anteroom client create web --room Hall --redirect https://shop.example/callback --name \"The shop\"
  anteroom client create app --room Hall --redirect http://127.0.0.1/callback --public")]
    Create(ClientRequest),
    /// List the clients of a room, without their secrets
    #[command(after_help = "Examples:\n  anteroom client list --room Hall")]
    List {
        /// The room
        #[arg(long, value_name = "ROOM", value_parser = room::room_id)]
        room: RoomId,
    },
    /// Give a client a new secret; the one before goes on until the next rotation, or as long as you say
    #[command(after_help = "Examples:
  SECRET=$(anteroom client rotate web --room Hall)
  anteroom client rotate web --room Hall --previous-for 7d")]
    Rotate {
        #[command(flatten)]
        client: ClientName,
        /// How long the secret before goes on: 12h, 7d [default: until the next rotation]
        #[arg(long, value_name = "TIME", value_parser = duration::parse)]
        previous_for: Option<Duration>,
    },
    /// End the secret before the newest one at once
    #[command(after_help = "Examples:\n  anteroom client revoke-previous web --room Hall")]
    RevokePrevious {
        #[command(flatten)]
        client: ClientName,
    },
    /// Delete a client at once
    #[command(after_help = "Examples:\n  anteroom client delete web --room Hall")]
    Delete {
        #[command(flatten)]
        client: ClientName,
    },
}

/// Which client.
#[derive(Debug, Args)]
struct ClientName {
    /// The client's id
    #[arg(value_name = "CLIENT")]
    id: String,
    /// Its room
    #[arg(long, value_name = "ROOM", value_parser = room::room_id)]
    room: RoomId,
}

impl ClientName {
    fn path(&self) -> String {
        format!("{}/{}", clients_of(&self.room), percent_encode(&self.id))
    }
}

/// A client to be made.
#[derive(Debug, Args)]
struct ClientRequest {
    /// Its `client_id` [default: the room's name]
    #[arg(value_name = "CLIENT")]
    id: Option<String>,
    /// The room in whose line its visitors wait
    #[arg(long, value_name = "ROOM", value_parser = room::room_id)]
    room: RoomId,
    /// Where it gets visitors back, exactly as it sends it; may be repeated
    #[arg(long = "redirect", value_name = "URL", required = true)]
    redirect_addresses: Vec<String>,
    /// What visitors are shown [default: its id]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// It runs where no secret can be kept: no secret, PKCE instead
    #[arg(long)]
    public: bool,
    /// How long its access tokens live at most: 15m, 1h [default: as long as the visit]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    access_token_for: Option<Duration>,
    /// How long its ID tokens live at most: 15m, 1h [default: as long as the visit]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    id_token_for: Option<Duration>,
    /// The page of the site at which a login begins
    #[arg(long, value_name = "URL")]
    login_address: Option<String>,
}

fn clients_of(room: &RoomId) -> String {
    format!("/rooms/{}/clients", percent_encode(room.as_str()))
}

/// Runs a client command.
pub(crate) fn run(arguments: ClientArguments) -> anyhow::Result<()> {
    let ClientArguments { command, connection } = arguments;
    match command {
        ClientCommand::Create(request) => connection.run(async |operator| create(operator, request).await),
        ClientCommand::List { room } => connection.run(async |operator| list(operator, &room).await),
        ClientCommand::Rotate { client, previous_for } => {
            connection.run(async |operator| rotate(operator, &client, previous_for).await)
        }
        ClientCommand::RevokePrevious { client } => {
            connection.run(async |operator| revoke_previous(operator, &client).await)
        }
        ClientCommand::Delete { client } => connection.run(async |operator| delete(operator, &client).await),
    }
}

async fn create(operator: Operator, request: ClientRequest) -> anyhow::Result<()> {
    let body = json!({
        "id": request.id,
        "name": request.name,
        "redirect_addresses": request.redirect_addresses,
        "public": request.public,
        "access_token_seconds": request.access_token_for.map(|time| time.as_secs()),
        "id_token_seconds": request.id_token_for.map(|time| time.as_secs()),
        "login_address": request.login_address,
    });
    let call = Call::post(clients_of(&request.room), Permission::Administer, body);
    let answer = operator.call(call).await?;
    print_secret(&operator, &answer, &request.room)
}

async fn rotate(
    operator: Operator,
    client: &ClientName,
    previous_for: Option<Duration>,
) -> anyhow::Result<()> {
    let mut body = json!({});
    if let Some(time) = previous_for {
        body["previous_expires_in_seconds"] = time.as_secs().into();
    }
    let call = Call::post(format!("{}/secrets", client.path()), Permission::Administer, body);
    let answer = call_for(&operator, client, call).await?;
    print_secret(&operator, &answer, &client.room)
}

/// The secret to stdout, the rest to stderr.
fn print_secret(operator: &Operator, answer: &Answer, room: &RoomId) -> anyhow::Result<()> {
    let id = cell(&answer.json["id"]);
    match answer.json["secret"].as_str() {
        Some(_) => talk(&format!("client {id} of the room {room}; its secret is shown only now")),
        None => talk(&format!("client {id} of the room {room}; it is public and has no secret")),
    }
    if operator.format == Format::Json {
        return output::data(&answer.text);
    }
    match answer.json["secret"].as_str() {
        Some(secret) => output::data(secret),
        None => Ok(()),
    }
}

async fn list(operator: Operator, room: &RoomId) -> anyhow::Result<()> {
    let answer = operator.call(Call::get(clients_of(room), Permission::Administer)).await?;
    if operator.format == Format::Json {
        return output::data(&answer.text);
    }
    let Some(clients) = answer.json["clients"].as_array() else {
        return Err(operator.not_our_server("it answered without a list of clients").into());
    };
    let head = ["CLIENT", "KIND", "SECRETS", "CREATED", "FROM", "NAME", "REDIRECTS"];
    let row = |client: &Value| {
        let addresses = client["redirect_addresses"].as_array().map_or(&[][..], Vec::as_slice);
        vec![
            cell(&client["id"]),
            if client["public"] == true { "public" } else { "confidential" }.to_owned(),
            client["secrets"].as_array().map_or(0, Vec::len).to_string(),
            cell(&client["created_at"]),
            if client["from_file"] == true { "file" } else { "API" }.to_owned(),
            cell(&client["name"]),
            addresses.iter().map(cell).collect::<Vec<_>>().join(" "),
        ]
    };
    output::data(&table(&head, &clients.iter().map(row).collect::<Vec<_>>()))
}

async fn revoke_previous(operator: Operator, client: &ClientName) -> anyhow::Result<()> {
    let path = format!("{}/secrets/previous", client.path());
    call_for(&operator, client, Call::new(Method::DELETE, path, Permission::Administer)).await?;
    match operator.format {
        Format::Json => output::data(&json!({ "client": client.id, "revoked": "previous" }).to_string()),
        Format::Text => output::data(&format!("previous secret of client {} revoked", client.id)),
    }
}

async fn delete(operator: Operator, client: &ClientName) -> anyhow::Result<()> {
    let call = Call::new(Method::DELETE, client.path(), Permission::Administer);
    call_for(&operator, client, call).await?;
    match operator.format {
        Format::Json => output::data(&json!({ "deleted": client.id }).to_string()),
        Format::Text => output::data(&format!("client {} deleted", client.id)),
    }
}

/// Makes a call about a client; where there is none, the hint names the nearest one.
async fn call_for(operator: &Operator, client: &ClientName, call: Call) -> anyhow::Result<Answer> {
    let error = match operator.call(call).await {
        Err(error) if failure::kind(&error) == Some(Exit::NotFound) => error,
        other => return other,
    };
    // Without the room, that is what is wrong.
    let listed = Call::get(clients_of(&client.room), Permission::Administer);
    let Ok(listed) = operator.call(listed).await else { return Err(error) };
    let clients = listed.json["clients"].as_array().cloned().unwrap_or_default();
    let ids: Vec<&str> = clients.iter().filter_map(|client| client["id"].as_str()).collect();
    let what = format!("the room {} has no client {}", client.room, client.id);
    Err(Failure::new(Exit::NotFound, what).maybe_hint(nearest(&client.id, &ids)).into())
}
