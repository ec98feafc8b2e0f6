//! `anteroom audit`: who changed what, newest first.

use anteroom_core::RoomId;
use anteroom_server::Permission;
use clap::Args;
use serde_json::{Value, json};

use crate::connection::{Call, Connection, Operator};
use crate::output::{self, Format, cell, table};
use crate::room;

/// How many records are asked for in one call.
const PAGE_MAX: u64 = 100;

/// Show who changed what, newest first
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  anteroom audit\n  anteroom audit --room Hall --limit 10")]
pub(crate) struct AuditArguments {
    /// Only changes of this room
    #[arg(long, value_name = "ROOM", value_parser = room::room_id)]
    room: Option<RoomId>,
    /// How many records at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Only records older than the one of this number
    #[arg(long, value_name = "NUMBER")]
    before: Option<u64>,
    #[command(flatten)]
    connection: Connection,
}

/// Prints the audit.
pub(crate) fn run(arguments: AuditArguments) -> anyhow::Result<()> {
    let AuditArguments { room, limit, before, connection } = arguments;
    connection.run(async |operator| {
        let (records, next_before) = records(&operator, room.as_ref(), limit, before).await?;
        if operator.format == Format::Json {
            return output::data(&json!({ "records": records, "next_before": next_before }).to_string());
        }
        let columns = ["number", "at", "actor", "action", "room", "detail"];
        let rows: Vec<Vec<String>> =
            records.iter().map(|record| columns.map(|name| cell(&record[name])).to_vec()).collect();
        output::data(&table(&["NUMBER", "AT", "ACTOR", "ACTION", "ROOM", "DETAIL"], &rows))
    })
}

/// So many records, page by page, and where the next ones begin.
async fn records(
    operator: &Operator,
    room: Option<&RoomId>,
    limit: u64,
    mut before: Option<u64>,
) -> anyhow::Result<(Vec<Value>, Option<u64>)> {
    let mut records: Vec<Value> = Vec::new();
    loop {
        let wanted = limit - records.len() as u64;
        let room = room.map_or_else(String::new, |room| format!("&room={room}"));
        let older = before.map_or_else(String::new, |before| format!("&before={before}"));
        let path = format!("/audit?limit={}{room}{older}", wanted.min(PAGE_MAX));
        let answer = operator.call(Call::get(path, Permission::Administer)).await?;
        let Some(page) = answer.json["records"].as_array() else {
            return Err(operator.not_our_server("it answered without a list of records").into());
        };
        records.extend(page.iter().cloned());
        before = answer.json["next_before"].as_u64();
        if before.is_none() || page.is_empty() || records.len() as u64 >= limit {
            return Ok((records, before));
        }
    }
}
