//! `anteroom events`: what happens, read from the outbox of a server.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anteroom_core::RoomId;
use anteroom_server::Permission;
use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::io::AsyncWrite;

use crate::connection::{Connection, Operator};
use crate::output::{self, Format, cell};
use crate::room;

/// How long to wait before a stream that broke off is asked for again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// How often in a row that is tried without a single byte.
const RETRIES_MAX: u32 = 30;
/// How long a line of a stream may become, in bytes.
const LINE_MAX_BYTES: usize = 1024 * 1024;

/// Show what happens: rooms opened and paused, inlets held, alarms, keys, visits
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  anteroom events\n  anteroom events --follow --room Hall\n  anteroom events --follow --types 'alarm.*,inlet.*' --format json\n  anteroom events --since 2026-11-19T20:00:00Z"
)]
pub(crate) struct EventsArguments {
    /// Wait for what is to come instead of ending with what there is
    #[arg(long)]
    follow: bool,
    /// Only events of this room
    #[arg(long, value_name = "ROOM", value_parser = room::room_id)]
    room: Option<RoomId>,
    /// Only these kinds, with commas between them: a name, `alarm.*` and the like, `aws`, or `*`
    #[arg(long, value_name = "TYPES")]
    types: Option<String>,
    /// Only events behind the one of this number
    #[arg(long, value_name = "NUMBER", conflicts_with = "since")]
    after: Option<u64>,
    /// Only events from this moment on, such as 2026-11-19T20:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

/// Prints events, one a line.
pub(crate) fn run(arguments: EventsArguments) -> anyhow::Result<()> {
    let EventsArguments { follow, room, types, after, since, connection } = arguments;
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let mut filters = room.map_or_else(String::new, |room| format!("&room={room}"));
    filters.extend(types.map(|types| format!("&types={}", encoded(&types))));
    let begin = match (after, since) {
        (Some(after), _) => format!("&after={after}"),
        (None, Some(since)) => format!("&since={}", encoded(&since)),
        (None, None) => String::new(),
    };
    connection.run(async |operator| {
        let mut printer = Printer::new(operator.format);
        let mut tries = 0;
        loop {
            printer.forget_partial();
            let begin = printer.last.as_ref().map_or_else(|| begin.clone(), |last| format!("&after={last}"));
            let path = format!("/events?follow={follow}{filters}{begin}");
            let read = read(&operator, &path, &mut printer).await;
            if !follow {
                return read.map(drop);
            }
            let has_begun = printer.last.is_some() || tries > 0 || read.is_ok();
            tries = if matches!(read, Ok(bytes) if bytes > 0) { 1 } else { tries + 1 };
            match read {
                Err(error) if !has_begun || tries > RETRIES_MAX => return Err(error),
                _ => output::talk("the stream of events broke off, asking for it again"),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    })
}

async fn read(operator: &Operator, path: &str, printer: &mut Printer) -> anyhow::Result<u64> {
    operator.download(path, Permission::Read, printer).await
}

/// Reads server-sent events as they come, and prints each.
struct Printer {
    format: Format,
    line: Vec<u8>,
    data: String,
    /// The id of the event whose data are to come.
    id: Option<String>,
    /// The id of the last event that was printed.
    last: Option<String>,
}

impl Printer {
    const fn new(format: Format) -> Self {
        Self { format, line: Vec::new(), data: String::new(), id: None, last: None }
    }

    /// Forgets an event that did not come to its end.
    fn forget_partial(&mut self) {
        self.line.clear();
        self.data.clear();
        self.id = None;
    }

    fn take(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        for &byte in bytes {
            if byte != b'\n' {
                anyhow::ensure!(self.line.len() < LINE_MAX_BYTES, "a line of the stream is too long");
                self.line.push(byte);
                continue;
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
            self.take_line(&line)?;
        }
        Ok(())
    }

    fn take_line(&mut self, line: &str) -> anyhow::Result<()> {
        if let Some(id) = line.strip_prefix("id: ") {
            self.id = Some(id.to_owned());
        } else if let Some(data) = line.strip_prefix("data: ") {
            data.clone_into(&mut self.data);
        } else if line.is_empty() && !self.data.is_empty() {
            let data = std::mem::take(&mut self.data);
            self.print(&data)?;
            self.last = self.id.take().or(self.last.take());
        }
        Ok(())
    }

    fn print(&self, data: &str) -> anyhow::Result<()> {
        let event: Value = serde_json::from_str(data)?;
        if let Some(through) = event["dropped_through"].as_u64() {
            output::talk(&format!("events up to number {through} are not kept any more"));
            return Ok(());
        }
        match self.format {
            Format::Json => output::data(data),
            Format::Text => output::data(&readable(&event)),
        }
    }
}

/// An event as one line: when, where, what, and its data as words.
fn readable(event: &Value) -> String {
    let source = cell(&event["source"]);
    let place = source.strip_prefix("/rooms/").unwrap_or("-");
    let mut line = format!("{}  {place}  {}", cell(&event["time"]), cell(&event["type"]));
    for (name, value) in event["data"].as_object().into_iter().flatten() {
        if name != "event_id" {
            line.extend(["  ", name, "=", &cell(value)]);
        }
    }
    line
}

impl AsyncWrite for Printer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, io::Error>> {
        Poll::Ready(self.take(bytes).map(|()| bytes.len()).map_err(io::Error::other))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line_that_can_be_read_and_its_number_is_kept() {
        let mut printer = Printer::new(Format::Json);
        printer.take(b": hello\nretry: 1000\n\nid: 7\nevent: room.paused\n").unwrap();
        assert_eq!((printer.id.as_deref(), printer.last.as_deref()), (Some("7"), None));
        printer.forget_partial();
        assert_eq!(printer.id, None, "it was not whole");
        let event: Value = serde_json::json!({
            "time": "2026-11-19T20:00:00Z", "source": "/rooms/Hall", "type": "room.paused",
            "data": {"state": "paused", "by": "night shift"},
        });
        assert_eq!(readable(&event), "2026-11-19T20:00:00Z  Hall  room.paused  by=night shift  state=paused");
        let of_server =
            serde_json::json!({"time": "t", "source": "/server", "type": "alarm.fired", "data": {}});
        assert_eq!(readable(&of_server), "t  -  alarm.fired");
    }
}
