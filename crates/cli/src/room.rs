//! `anteroom room …`: rooms of a running server, seen and changed by an operator.

mod arrivals;
mod assignment;
mod capacity;
mod change;
mod frontier;
mod view;

use anteroom_core::{RoomId, RoomState};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};

use crate::connection::Connection;
use crate::output::confirm;
use assignment::Assignment;
use change::Change;
pub(crate) use view::{fetch, names};

/// Look at rooms, and change them while they run
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  anteroom room list")]
pub(crate) struct RoomArguments {
    #[command(subcommand)]
    command: RoomCommand,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Subcommand)]
enum RoomCommand {
    /// List all rooms with their figures
    #[command(after_help = "Examples:\n  anteroom room list\n  anteroom room list --format json")]
    List,
    /// Show a room: its settings, those that differ from the default marked, and its figures
    #[command(after_help = "Examples:\n  anteroom room show Hall\n  ETAG=$(anteroom room show Hall --etag)")]
    Show {
        #[command(flatten)]
        room: RoomName,
        /// Print the entity tag alone, for --if-match; it changes with settings and state, not with figures
        #[arg(long)]
        etag: bool,
    },
    /// Make a room; what is not set has its default
    #[command(
        after_help = "Examples:\n  anteroom room create Hall\n  anteroom room create Hall --set inlet=max-size --set total_active_users=500"
    )]
    Create {
        #[command(flatten)]
        room: RoomName,
        /// A setting, such as `validity_period=600`; can be repeated
        #[arg(long, value_name = "NAME=VALUE", value_parser = Assignment::parse)]
        set: Vec<Assignment>,
        /// Its state [default: open]
        #[arg(long, value_name = "STATE", value_parser = states(), hide_possible_values = true, help = STATE_HELP)]
        state: Option<RoomState>,
    },
    /// Change settings; prints what changed, old -> new
    #[command(
        after_help = "Examples:\n  anteroom room set Hall validity_period=600 issuer=https://wait.example.com\n  anteroom room set Hall issuer=null\n  anteroom room set Hall inlet=max-size total_active_users=500 --if-match \"$ETAG\""
    )]
    Set {
        #[command(flatten)]
        room: RoomName,
        /// Settings: values are JSON (500, true, "text"), anything else is a text as it stands; null is back to default
        #[arg(value_name = "NAME=VALUE", value_parser = Assignment::parse, required_unless_present = "state")]
        assignments: Vec<Assignment>,
        /// A new state
        #[arg(long, value_name = "STATE", value_parser = states(), hide_possible_values = true, help = STATE_HELP)]
        state: Option<RoomState>,
        #[command(flatten)]
        condition: Condition,
    },
    /// Move the serving counter by hand: +10 or 10 lets ten more in, -5 takes five offers back
    #[command(
        after_help = "Examples:\n  anteroom room advance Hall 100\n  anteroom room advance Hall +10\n  anteroom room advance Hall -5\n  anteroom room advance Hall --by=-5"
    )]
    Advance {
        #[command(flatten)]
        room: RoomName,
        /// By how many places
        #[arg(value_name = "N", allow_negative_numbers = true, required_unless_present = "by")]
        places: Option<i64>,
        /// The same, as an option
        #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "places")]
        by: Option<i64>,
    },
    /// Admit nobody for now: joins go on, claim clocks stand still
    #[command(after_help = "Examples:\n  anteroom room pause Hall")]
    Pause(RoomName),
    /// Open a room again; wakes an inlet that rests since somebody moved its line back
    #[command(after_help = "Examples:\n  anteroom room resume Hall")]
    Resume(RoomName),
    /// Take nobody in any more, and go on admitting those who wait
    #[command(after_help = "Examples:\n  anteroom room drain Hall")]
    Drain(RoomName),
    /// Neither take in nor admit; those who wait are told
    #[command(after_help = "Examples:\n  anteroom room close Hall")]
    Close(RoomName),
    /// Show who reports capacity, and what that leaves; or forget a reporter
    #[command(
        after_help = "Examples:\n  anteroom room capacity Hall\n  anteroom room capacity Hall --format json\n  anteroom room report Hall --free 5 --reporter web-1 && anteroom room capacity Hall --forget web-1"
    )]
    Capacity {
        #[command(flatten)]
        room: RoomName,
        /// Forget this reporter: what it said last counts no more
        #[arg(long, value_name = "REPORTER")]
        forget: Option<String>,
    },
    /// Report capacity as the protected site does: how many more it can take, or that visits are over
    #[command(
        after_help = "Examples:\n  anteroom room report Hall --free 40\n  anteroom room report Hall --reporter web-1 --sequence 7 --free 40 --entered 1200\n  anteroom room report Hall --latency-p95-ms 180 --error-rate 0.002\n  anteroom room report Hall --exited 3\n  anteroom room report Hall --completed \"$ID\""
    )]
    Report {
        #[command(flatten)]
        room: RoomName,
        #[command(flatten)]
        said: Box<capacity::ReportArguments>,
    },
    /// Show who joins: the address prefixes with the most joins, and why others were refused
    #[command(after_help = "Examples:\n  anteroom room arrivals Hall")]
    Arrivals(RoomName),
    /// Take the room's clock back to the server's, after that was ahead; nobody loses a place
    #[command(after_help = "Examples:\n  anteroom room set-clock Hall")]
    SetClock(RoomName),
    /// Begin the line anew: every place and every session of the room is gone
    #[command(after_help = "Examples:\n  anteroom room reset Hall --yes")]
    Reset {
        #[command(flatten)]
        room: RoomName,
        #[command(flatten)]
        sure: Confirmation,
    },
    /// Delete a room and everything in it
    #[command(after_help = "Examples:\n  anteroom room delete Hall --yes")]
    Delete {
        #[command(flatten)]
        room: RoomName,
        #[command(flatten)]
        sure: Confirmation,
        #[command(flatten)]
        condition: Condition,
    },
}

const STATE_HELP: &str =
    "open, paused (joins, admits nobody), draining (admits, no joins) or closed (neither)";

/// A room by its name.
#[derive(Debug, Args)]
struct RoomName {
    /// The room
    #[arg(value_name = "ROOM", value_parser = room_id)]
    id: RoomId,
}

/// Whether to ask.
#[derive(Debug, Args)]
struct Confirmation {
    /// Do not ask; needed where no terminal is there to ask on
    #[arg(long)]
    yes: bool,
}

/// Only if nobody changed it meanwhile.
#[derive(Debug, Args)]
struct Condition {
    /// Only if the room still has this entity tag (see `room show --etag`)
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
}

/// Reads a state by its name.
fn states() -> impl TypedValueParser<Value = RoomState> {
    let names = RoomState::ALL.map(RoomState::as_str);
    PossibleValuesParser::new(names).try_map(|name| RoomState::parse(&name).ok_or("not a state"))
}

/// A room id as the server takes it, so that nothing else gets into a path.
pub(crate) fn room_id(text: &str) -> Result<RoomId, String> {
    RoomId::parse(text)
        .map_err(|_| "a room id is 1 to 64 characters out of A-Z, a-z, 0-9, '_', '.' and '-'".into())
}

/// Runs a room command.
pub(crate) fn run(arguments: RoomArguments) -> anyhow::Result<()> {
    let RoomArguments { command, connection } = arguments;
    match command {
        RoomCommand::List => connection.run(view::list),
        RoomCommand::Show { room, etag } => {
            connection.run(async |operator| view::show(operator, &room.id, etag).await)
        }
        RoomCommand::Create { room, set, state } => {
            let change = Change { assignments: set, state, if_match: None };
            connection.run(async |operator| change::create(operator, &room.id, change).await)
        }
        RoomCommand::Set { room, assignments, state, condition } => {
            let change = Change { assignments, state, if_match: condition.if_match };
            connection.run(async |operator| change::change(operator, &room.id, change).await)
        }
        RoomCommand::Advance { room, places, by } => {
            let by = places.or(by).unwrap_or_default();
            connection.run(async |operator| change::advance(operator, &room.id, by).await)
        }
        RoomCommand::Pause(room) => set_state(connection, &room, RoomState::Paused),
        RoomCommand::Resume(room) => set_state(connection, &room, RoomState::Open),
        RoomCommand::Drain(room) => set_state(connection, &room, RoomState::Draining),
        RoomCommand::Close(room) => set_state(connection, &room, RoomState::Closed),
        RoomCommand::Capacity { room, forget: None } => {
            connection.run(async |operator| capacity::show(operator, &room.id).await)
        }
        RoomCommand::Capacity { room, forget: Some(reporter) } => {
            connection.run(async |operator| capacity::forget(operator, &room.id, &reporter).await)
        }
        RoomCommand::Report { room, said } => {
            connection.run(async |operator| capacity::report(operator, &room.id, &said).await)
        }
        RoomCommand::Arrivals(room) => {
            connection.run(async |operator| arrivals::show(operator, &room.id).await)
        }
        RoomCommand::SetClock(room) => {
            connection.run(async |operator| change::set_clock(operator, &room.id).await)
        }
        RoomCommand::Reset { room, sure } => {
            confirm(
                &format!("everybody in the room {} loses their place and their session", room.id),
                sure.yes,
            )?;
            connection.run(async |operator| change::reset(operator, &room.id).await)
        }
        RoomCommand::Delete { room, sure, condition } => {
            confirm(&format!("the room {} and everything in it will be deleted", room.id), sure.yes)?;
            connection.run(async |operator| change::delete(operator, &room.id, condition.if_match).await)
        }
    }
}

fn set_state(connection: Connection, room: &RoomName, state: RoomState) -> anyhow::Result<()> {
    let change = Change { state: Some(state), ..Change::default() };
    connection.run(async |operator| change::change(operator, &room.id, change).await)
}
