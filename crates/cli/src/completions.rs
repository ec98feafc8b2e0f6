//! `anteroom completions`: what a shell needs to complete our commands.

use std::io;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::output;

/// Print a script that makes a shell complete these commands
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anteroom completions bash > anteroom.bash
  source <(anteroom completions bash)")]
pub(crate) struct CompletionsArguments {
    /// bash, elvish, fish, powershell or zsh
    #[arg(value_name = "SHELL", hide_possible_values = true)]
    shell: Shell,
}

/// Prints the script for all of `command`.
pub(crate) fn print(arguments: &CompletionsArguments, mut command: Command) -> anyhow::Result<()> {
    let mut script = io::Cursor::new(Vec::new());
    clap_complete::generate(arguments.shell, &mut command, "anteroom", &mut script);
    output::data(&String::from_utf8(script.into_inner())?)
}
