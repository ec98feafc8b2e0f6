//! `anteroom backup` and `anteroom restore`: the whole store of a running server, as one file.
//!
//! A backup is written under a temporary name beside its own and renamed when it is complete and on disk. So under its name
//! there is a whole backup or none, whatever happens meanwhile.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anteroom_server::Permission;
use anyhow::Context;
use clap::Args;
use serde_json::json;
use tempfile::NamedTempFile;

use crate::connection::{Connection, Operator};
use crate::failure::{Exit, Failure};
use crate::output::{self, Format, cell, confirm, count, talk};
use crate::room;

/// Where a backup goes that is not to become a file.
const STANDARD_OUTPUT: &str = "-";

/// Save everything a running server keeps into one file
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anteroom backup anteroom.backup
  anteroom backup - | gzip > anteroom.backup.gz")]
pub(crate) struct BackupArguments {
    /// The file to write, or - for standard output. It holds what the data directory holds: keep it as safe, and keep
    /// the master secret elsewhere
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace a file that is there already
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Replace everything a running server keeps by a backup, API keys included
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  anteroom restore anteroom.backup --yes")]
pub(crate) struct RestoreArguments {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Do not ask; needed where no terminal is there to ask on
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Saves the store.
pub(crate) fn backup(arguments: BackupArguments) -> anyhow::Result<()> {
    let BackupArguments { file, force, connection } = arguments;
    if file.as_os_str() == STANDARD_OUTPUT {
        if io::stdout().is_terminal() {
            let failure =
                Failure::new(Exit::CommandLine, "a backup is bytes, and standard output is a terminal");
            return Err(failure.hint("name a file, or pipe it into one").into());
        }
        return connection.run(async |operator| to_standard_output(&operator).await);
    }
    if !force && file.try_exists()? {
        return Err(already_exists(&file).into());
    }
    connection.run(async |operator| to_file(&operator, &file, force).await)
}

fn already_exists(file: &Path) -> Failure {
    Failure::new(Exit::Conflict, format!("{} is there already", file.display()))
        .hint("take another name, or replace it with --force")
}

async fn to_standard_output(operator: &Operator) -> anyhow::Result<()> {
    let bytes = operator.download("/backup", Permission::Administer, &mut tokio::io::stdout()).await?;
    talk(&format!("backup: {}", count(bytes, "byte")));
    Ok(())
}

async fn to_file(operator: &Operator, file: &Path, force: bool) -> anyhow::Result<()> {
    let rooms = room::names(operator).await?.len() as u64;
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let unwritable = || Failure::new(Exit::CommandLine, format!("cannot write {}", file.display()));
    let name = file.file_name().with_context(unwritable)?.to_string_lossy();
    let temporary = tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .suffix(".partial")
        .tempfile_in(directory)
        .with_context(unwritable)?;
    let mut writer = tokio::fs::File::from_std(temporary.reopen()?);
    let bytes = operator.download("/backup", Permission::Administer, &mut writer).await?;
    writer.sync_all().await.with_context(unwritable)?;
    keep(temporary, file, force)?;
    // The new name is durable once its directory is.
    File::open(directory)?.sync_all()?;
    match operator.format {
        Format::Json => {
            let report = json!({ "file": file.to_string_lossy(), "rooms": rooms, "bytes": bytes });
            output::data(&report.to_string())
        }
        Format::Text => {
            output::data(&format!("{}: {}, {}", file.display(), count(rooms, "room"), count(bytes, "byte")))
        }
    }
}

/// Gives a complete file its name.
fn keep(temporary: NamedTempFile, file: &Path, force: bool) -> anyhow::Result<()> {
    if force {
        temporary.persist(file)?;
        return Ok(());
    }
    match temporary.persist_noclobber(file) {
        Ok(_) => Ok(()),
        // Another process made it meanwhile.
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(already_exists(file).into()),
        Err(error) => Err(error.into()),
    }
}

/// Replaces the store.
pub(crate) fn restore(arguments: RestoreArguments) -> anyhow::Result<()> {
    let RestoreArguments { file, yes, connection } = arguments;
    confirm(&format!("{} will replace every room, session and key of the server", file.display()), yes)?;
    connection.for_long_work().run(async |operator| {
        let answer = operator.upload("/restore", Permission::Administer, &file).await?;
        if operator.format == Format::Json {
            return output::data(&answer.text);
        }
        let number = |name: &str| answer.json[name].as_u64().unwrap_or(0);
        let (rooms, sessions) = (count(number("rooms"), "room"), count(number("sessions"), "session"));
        let taken_at = cell(&answer.json["taken_at"]);
        output::data(&format!("restored as of {taken_at}: {rooms}, {sessions}"))
    })
}
