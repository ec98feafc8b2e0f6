//! `anteroom session close`: a visit is over, so its slot is free.

use anteroom_core::RoomId;
use anteroom_server::Permission;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use crate::connection::{Call, Connection};
use crate::failure::{self, Exit, Failure};
use crate::output::{self, Format};
use crate::room;

/// End visits
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  anteroom session close \"$ID\" --room Hall --status completed")]
pub(crate) struct SessionArguments {
    #[command(subcommand)]
    command: SessionCommand,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Subcommand)]
enum SessionCommand {
    /// Say that a visit is over; a capped room admits the next visitor at once
    #[command(after_help = "Examples:\n  anteroom session close \"$ID\" --room Hall --status completed")]
    Close {
        /// The request id with which the pass was claimed
        #[arg(value_name = "ID")]
        request_id: String,
        /// Its room
        #[arg(long, value_name = "ROOM", value_parser = room::room_id)]
        room: RoomId,
        /// How it ended: completed or abandoned
        #[arg(long, value_enum, hide_possible_values = true)]
        status: Status,
    },
}

/// How a visit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Status {
    /// The visitor did what they came for
    Completed,
    /// They did not
    Abandoned,
}

impl Status {
    /// The name, and the number that the call takes.
    const fn name_and_number(self) -> (&'static str, i64) {
        match self {
            Self::Completed => ("completed", 1),
            Self::Abandoned => ("abandoned", -1),
        }
    }
}

/// Runs a session command.
pub(crate) fn run(arguments: SessionArguments) -> anyhow::Result<()> {
    let SessionCommand::Close { request_id, room, status } = arguments.command;
    arguments.connection.run(async |operator| {
        let (name, number) = status.name_and_number();
        let body = json!({ "event_id": room.as_str(), "request_id": request_id, "status": number });
        let called = operator.call(Call::post("/update_session", Permission::ReportVisits, body)).await;
        let answer = called.map_err(|error| {
            if failure::kind(&error) != Some(Exit::NotFound) {
                return error;
            }
            let hint =
                format!("`anteroom ticket open {request_id}` says what became of it; sessions end once");
            Failure::new(Exit::NotFound, format!("no session of {room} to close: {error}")).hint(hint).into()
        })?;
        match operator.format {
            Format::Json => output::data(&answer.text),
            Format::Text => output::data(&format!("session {request_id}: {name}")),
        }
    })
}
