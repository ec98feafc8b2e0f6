//! The binary `anteroom`. `main` prints and exits, `run` is the story; each command is a module that tells its own.
//!
//! stdout is data, stderr is talk. What the exit codes mean stands in [`failure`].
#![expect(clippy::print_stdout, reason = "this is the binary: stdout is its data")]

mod alarm;
mod audit;
mod backup;
mod check_config;
mod client;
mod completions;
mod connection;
mod demo;
mod destination;
mod duration;
mod events;
mod failure;
mod http_client;
mod key;
mod load;
mod logging;
#[cfg(feature = "otlp")]
mod otlp;
mod output;
mod room;
mod serve;
mod session;
mod ticket;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anteroom_server::config::{Config, Loaded, variable_name};
use clap::{CommandFactory, Parser, Subcommand};

/// A virtual waiting room and admission gateway: lets in as many visitors as your site can serve, and gives everybody
/// else a fair, durable place in line.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, after_help = failure::EXIT_CODES)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server until SIGTERM or SIGINT
    #[command(
        after_help = "Examples:\n  anteroom serve --origin http://127.0.0.1:3000 --capacity 500\n  anteroom serve\n  anteroom serve --config anteroom.toml"
    )]
    Serve {
        #[command(flatten)]
        configuration: Configuration,
        /// The site to stand before, as this machine reaches it; several with commas between them
        #[arg(long, value_name = "URL")]
        origin: Option<String>,
        /// How many visitors the site takes at once
        #[arg(long, value_name = "N")]
        capacity: Option<String>,
    },
    /// Check the configuration and show how stored rooms differ from it (with the server stopped); changes no room
    #[command(
        after_help = "Examples:\n  anteroom check-config\n  anteroom check-config --config anteroom.toml"
    )]
    CheckConfig {
        #[command(flatten)]
        configuration: Configuration,
    },
    Demo(demo::Arguments),
    Load(Box<load::Arguments>),
    Room(room::RoomArguments),
    Alarm(alarm::AlarmArguments),
    Key(key::KeyArguments),
    Client(client::ClientArguments),
    Destination(Box<destination::DestinationArguments>),
    Ticket(ticket::TicketArguments),
    Session(session::SessionArguments),
    Backup(backup::BackupArguments),
    Restore(backup::RestoreArguments),
    Audit(audit::AuditArguments),
    Events(events::EventsArguments),
    Completions(completions::CompletionsArguments),
}

/// Where the configuration comes from.
#[derive(clap::Args)]
struct Configuration {
    /// The configuration file [default: anteroom.toml in the working directory, if there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Configuration {
    fn load(&self) -> anyhow::Result<Loaded> {
        self.load_with(&[])
    }

    /// With settings from the command line, which win over the environment as that does over the file.
    fn load_with(&self, given: &[(&str, Option<&String>)]) -> anyhow::Result<Loaded> {
        let directory = std::env::current_dir()?;
        let given: Vec<(OsString, OsString)> = given
            .iter()
            .filter_map(|(name, value)| Some((variable_name(name).into(), value.as_ref()?.into())))
            .collect();
        let is_given = |name: &OsString| given.iter().any(|(given, _)| given == name);
        let mut environment: Vec<(OsString, OsString)> =
            std::env::vars_os().filter(|(name, _)| !is_given(name)).collect();
        environment.extend(given.iter().cloned());
        Ok(Config::load(self.config.as_deref(), &directory, environment)?)
    }
}

fn main() -> ExitCode {
    match run(CommandLine::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve { configuration, origin, capacity } => {
            let given = [("origin", origin.as_ref()), ("capacity", capacity.as_ref())];
            serve::serve(configuration.load_with(&given)?)
        }
        Command::CheckConfig { configuration } => check_config::check(&configuration.load()?),
        Command::Demo(arguments) => demo::demo(&arguments),
        Command::Load(arguments) => load::load(&arguments),
        Command::Room(arguments) => room::run(arguments),
        Command::Alarm(arguments) => alarm::run(arguments),
        Command::Key(arguments) => key::run(arguments),
        Command::Client(arguments) => client::run(arguments),
        Command::Destination(arguments) => destination::run(*arguments),
        Command::Ticket(arguments) => ticket::run(arguments),
        Command::Session(arguments) => session::run(arguments),
        Command::Backup(arguments) => backup::backup(arguments),
        Command::Restore(arguments) => backup::restore(arguments),
        Command::Audit(arguments) => audit::run(arguments),
        Command::Events(arguments) => events::run(arguments),
        Command::Completions(arguments) => completions::print(&arguments, CommandLine::command()),
    }
}
