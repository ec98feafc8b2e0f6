//! `anteroom ticket open`: what a request id says, and what became of it.

use anteroom_core::RoomId;
use anteroom_server::Permission;
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::connection::{Answer, Call, Connection, Operator};
use crate::failure::{self, Exit, Failure};
use crate::http_client::percent_encode;
use crate::output::{self, Format, aligned, cell};
use crate::room;

/// What is shown of a ticket, in this order.
const FIELDS: [&str; 9] =
    ["request_id", "room", "generation", "position", "lane", "copy", "entered_at", "status", "people_ahead"];
/// What is shown of its session.
const SESSION_FIELDS: [&str; 5] = ["status", "issued_at", "expires_at", "issuer", "key_id"];

/// Look into a visitor's ticket
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  anteroom ticket open \"$ID\"")]
pub(crate) struct TicketArguments {
    #[command(subcommand)]
    command: TicketCommand,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Subcommand)]
enum TicketCommand {
    /// Show what a request id says, and what became of it
    #[command(
        after_help = "Examples:\n  anteroom ticket open \"$ID\"\n  anteroom ticket open \"$ID\" --room Hall"
    )]
    Open {
        /// The request id
        #[arg(value_name = "ID")]
        request_id: String,
        /// Its room [default: each room is asked]
        #[arg(long, value_name = "ROOM", value_parser = room::room_id)]
        room: Option<RoomId>,
    },
}

/// Runs a ticket command.
pub(crate) fn run(arguments: TicketArguments) -> anyhow::Result<()> {
    let TicketCommand::Open { request_id, room } = arguments.command;
    arguments.connection.run(async |operator| {
        let answer = match room {
            Some(room) => find_in_room(&operator, &room, &request_id).await?,
            None => find_in_any_room(&operator, &request_id).await?,
        };
        match operator.format {
            Format::Json => output::data(&answer.text),
            Format::Text => output::data(&to_text(&answer.json)),
        }
    })
}

async fn ask(operator: &Operator, room: &str, request_id: &str) -> anyhow::Result<Answer> {
    let path = format!("/rooms/{room}/tickets/{}", percent_encode(request_id));
    operator.call(Call::get(path, Permission::Read)).await
}

async fn find_in_room(operator: &Operator, room: &RoomId, request_id: &str) -> anyhow::Result<Answer> {
    match ask(operator, room.as_str(), request_id).await {
        Err(error) if failure::kind(&error) == Some(Exit::NotFound) => {
            // Either the room is not there, which has a better hint, or the ticket is not the room's.
            room::fetch(operator, room).await?;
            let what = format!("{request_id} is not a ticket of the present line of {room}");
            let hint =
                "without --room every room is asked; tickets from before a reset are not known any more";
            Err(Failure::new(Exit::NotFound, what).hint(hint).into())
        }
        other => other,
    }
}

/// A ticket is enciphered under its room's key, so only its own room can read it.
async fn find_in_any_room(operator: &Operator, request_id: &str) -> anyhow::Result<Answer> {
    for room in room::names(operator).await? {
        match ask(operator, &room, request_id).await {
            Err(error) if failure::kind(&error) == Some(Exit::NotFound) => {}
            other => return other,
        }
    }
    let what = format!("{request_id} is not a ticket of the present line of any room");
    let hint = "is the server the one that gave it? tickets from before a reset are not known any more";
    Err(Failure::new(Exit::NotFound, what).hint(hint).into())
}

fn to_text(ticket: &Value) -> String {
    let mut lines: Vec<(String, String)> =
        FIELDS.iter().map(|name| ((*name).to_owned(), cell(&ticket[name]))).collect();
    if ticket["session"].is_object() {
        let session =
            SESSION_FIELDS.iter().map(|name| (format!("session {name}"), cell(&ticket["session"][name])));
        lines.extend(session);
    } else {
        lines.push(("session".to_owned(), "-".to_owned()));
    }
    aligned(&lines)
}
