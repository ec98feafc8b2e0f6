//! `anteroom alarm …`: what fires, and which rooms it holds.

use anteroom_server::Permission;
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::connection::{Call, Connection, Operator};
use crate::output::{self, Format, cell, table};

/// Show the alarms: what this server counts itself, and what it was told of
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  anteroom alarm list")]
pub(crate) struct AlarmArguments {
    #[command(subcommand)]
    command: AlarmCommand,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Subcommand)]
enum AlarmCommand {
    /// List the alarms, whether they fire, and which rooms name them
    #[command(after_help = "Examples:\n  anteroom alarm list\n  anteroom alarm list --firing --format json")]
    List {
        /// Only those that fire
        #[arg(long)]
        firing: bool,
    },
}

/// Runs an alarm command.
pub(crate) fn run(arguments: AlarmArguments) -> anyhow::Result<()> {
    let AlarmArguments { command: AlarmCommand::List { firing }, connection } = arguments;
    connection.run(async |operator| list(operator, firing).await)
}

async fn list(operator: Operator, firing: bool) -> anyhow::Result<()> {
    let answer = operator.call(Call::get("/alarms", Permission::Read)).await?;
    let Some(alarms) = answer.json["alarms"].as_array() else {
        return Err(operator.not_our_server("it answered without a list of alarms").into());
    };
    let alarms: Vec<&Value> = alarms.iter().filter(|alarm| !firing || alarm["state"] == "firing").collect();
    if operator.format == Format::Json {
        return output::data(&serde_json::json!({ "alarms": alarms }).to_string());
    }
    let rows: Vec<Vec<String>> = alarms.into_iter().map(row).collect();
    let head = ["NAME", "STATE", "SOURCE", "COUNT", "THRESHOLD", "SINCE", "LAST HEARD", "ROOMS"];
    output::data(&table(&head, &rows))
}

fn row(alarm: &Value) -> Vec<String> {
    let columns = ["name", "state", "source", "count", "threshold", "since", "last_heard"];
    let mut row = columns.map(|name| cell(&alarm[name])).to_vec();
    if alarm["stale"] == true {
        row[1].push_str(" (stale)");
    }
    let rooms = alarm["rooms"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let rooms = rooms.collect::<Vec<_>>().join(", ");
    row.push(if rooms.is_empty() { "-".to_owned() } else { rooms });
    row
}
