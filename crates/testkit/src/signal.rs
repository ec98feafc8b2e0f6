//! Signals to a child process, and whether one that was stopped stands still.

use std::fs;
use std::process::{Child, Command};

use anyhow::{Context, ensure};

/// Sends a signal (`TERM`, `STOP`, …) to this one child. It must not have been waited for yet: until then its id
/// cannot belong to another process.
pub(crate) fn send(child: &Child, name: &str) -> anyhow::Result<()> {
    let process_id = child.id();
    // The shell's own `kill` is on every system.
    let sent = Command::new("sh")
        .args(["-c", "kill -s \"$0\" \"$1\"", name, &process_id.to_string()])
        .status()
        .context("running sh")?;
    ensure!(sent.success(), "signal {name} could not be sent to process {process_id}");
    Ok(())
}

/// Whether the child stands still after a `STOP`, which is not so at once when `kill` returns.
pub(crate) fn is_stopped(child: &Child) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", child.id())) else {
        return false;
    };
    // The state follows the name of the program, which stands in parentheses and may itself contain some.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}
