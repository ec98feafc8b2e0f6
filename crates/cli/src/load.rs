//! `anteroom load`: visitors as real clients, in numbers, and a verdict on what they saw.
//!
//! The path of a run: [`arguments`] become a plan; [`drive`] sends visitors out by the clock, each a [`visitor`] walking through
//! one of the [`scenarios`] over the [`wire`], while the [`operator`] lets people out; everything is counted in the [`ledger`] and, a
//! visitor at a time, in a [`record`]; [`checks`] judge, [`report`] tells.

mod arguments;
mod checks;
mod drive;
mod frontier;
mod kendall;
mod ledger;
mod moment;
mod operator;
mod progress;
pub(crate) mod random;
mod rate;
mod record;
mod report;
mod rounds;
mod scenarios;
mod server_sent_events;
mod visitor;
mod wire;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anteroom_store::clock::{Clock, SystemClock};
use anyhow::Context;
use serde_json::json;

use crate::connection;
use crate::failure::{Exit, Failure};
use crate::http_client::{ClientOptions, HttpClient};
use crate::output::{self, Format, talk};

pub(crate) use arguments::Arguments;

use arguments::{Plan, Scenario};
use drive::End;
use ledger::Ledger;
use operator::Operator;
use progress::Progress;
use report::Report;

/// How long a visitor waits for an answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The rounds of an auction that `--create-room` makes.
const ROUND_SECONDS: u64 = 2;
/// How long a visitor waits for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest answer a visitor reads, in bytes; a pass has three tokens of about 800.
const BODY_MAX_BYTES: usize = 256 * 1024;

/// Runs the load and tells about it; an error when anything is red.
pub(crate) fn load(arguments: &Arguments) -> anyhow::Result<()> {
    let file_limit = rlimit::increase_nofile_limit(u64::MAX).context("asking for the limit of open files")?;
    let plan = arguments.plan(file_limit)?;
    for path in [&arguments.json, &arguments.html].into_iter().flatten() {
        check_writable(path)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(run(arguments, &plan))?;
    if let Some(path) = &arguments.json {
        write_file(path, &report.to_json())?;
    }
    if let Some(path) = &arguments.html {
        write_file(path, &report::html::render(&report))?;
    }
    let outcome = judge(&report);
    match arguments.format {
        Format::Text => output::data(&report::text::render(&report))?,
        Format::Json => output::data(&report.without_series().to_json())?,
    }
    outcome
}

/// Green, or a failure that says what is not.
fn judge(report: &Report) -> anyhow::Result<()> {
    if report.is_green() {
        return Ok(());
    }
    let exit = if report.ended_by == End::Interrupted.as_str() { Exit::Interrupted } else { Exit::Failed };
    Err(Failure::new(exit, format!("the run is red: {}", report.red_checks())).into())
}

async fn run(arguments: &Arguments, plan: &Plan) -> anyhow::Result<Report> {
    let operator = operator(arguments, plan)?;
    let target = operator.public.target().to_owned();
    if arguments.create_room {
        operator.create_room().await?;
    }
    operator.serving().await?;
    if operator.has_key {
        operator.check_key().await?;
    }
    let ledger = Arc::new(Ledger::new());
    let progress = Progress::new(plan, arguments.quiet);
    let started_at = SystemClock.now();
    let driven = drive::drive(plan, operator, &ledger, &progress).await;
    progress.finish();
    Ok(Report::new(plan, &target, started_at, &driven?, &ledger.close()))
}

/// The clients of both listeners.
fn operator(arguments: &Arguments, plan: &Plan) -> anyhow::Result<Operator> {
    let options = |url: &str| {
        let mut options = ClientOptions::new(url);
        options.ca_file.clone_from(&arguments.ca_file);
        options.connect_timeout = CONNECT_TIMEOUT;
        // A round may take an hour; the run's own deadline ends what hangs.
        let is_auction = plan.scenario == Scenario::Auction;
        options.request_timeout = if is_auction { plan.deadline } else { REQUEST_TIMEOUT };
        options.body_max_bytes = BODY_MAX_BYTES;
        options
    };
    let mut public = options(&arguments.public);
    public.idle_connections_max = usize::try_from(plan.connections).unwrap_or(usize::MAX);
    let mut private = options(&arguments.private);
    if arguments.needs_operator() {
        private.key = Some(connection::key(arguments.key_file.as_deref())?);
        if connection::leaves_in_clear(&arguments.private) {
            talk("warning: the key travels in clear text; use https, or a tunnel to the server's loopback");
        }
    }
    Ok(Operator {
        public: HttpClient::new(&public)?,
        private: HttpClient::new(&private)?,
        room: plan.room.clone(),
        settings: room_settings(plan),
        has_key: arguments.needs_operator(),
    })
}

/// What `--create-room` makes.
fn room_settings(plan: &Plan) -> serde_json::Value {
    if plan.scenario != Scenario::Auction {
        return json!({ "inlet": "manual" });
    }
    json!({
        "inlet": "max-size",
        "total_active_users": plan.slots,
        "discipline": "auction",
        "round_seconds": ROUND_SECONDS,
    })
}

/// Before the load, not after it: a report that cannot be written is found now.
fn check_writable(path: &Path) -> Result<(), Failure> {
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).map_err(|error| {
        let what = format!("the report {} cannot be written: {error}", path.display());
        Failure::new(Exit::CommandLine, what).hint("does its directory exist, and may you write there?")
    })
}

fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("writing the report {}", path.display()))
}
