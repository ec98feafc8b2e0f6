//! The binary `anteroom`. `main` prints and exits; each command is a module that tells its own story.
//!
//! stdout is data, stderr is talk. Exit codes: 0 done, 1 it did not work, 2 the command line or the configuration is wrong.
#![expect(clippy::print_stdout, reason = "this is the binary: stdout is its data")]

mod check_config;
mod demo;
#[allow(dead_code, reason = "its users, the commands over the private API, are being merged")]
mod http_client;
mod logging;
mod serve;

use std::path::PathBuf;
use std::process::ExitCode;

use anteroom_server::Hinted;
use anteroom_server::config::{Config, ConfigError, Loaded};
use clap::{Parser, Subcommand};
use http_client::ClientError;

/// A virtual waiting room and admission gateway: lets in as many visitors as your site can serve, and gives everybody
/// else a fair, durable place in line.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server until SIGTERM or SIGINT.
    Serve {
        #[command(flatten)]
        configuration: Configuration,
    },
    /// Check the configuration and show how stored rooms differ from it (with the server stopped); changes no room.
    CheckConfig {
        #[command(flatten)]
        configuration: Configuration,
    },
    /// Start a server on a temporary directory and show what to try.
    Demo,
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
        let directory = std::env::current_dir()?;
        Ok(Config::load(self.config.as_deref(), &directory, std::env::vars_os())?)
    }
}

fn main() -> ExitCode {
    let outcome = match CommandLine::parse().command {
        Command::Serve { configuration } => configuration.load().and_then(serve::serve),
        Command::CheckConfig { configuration } => {
            configuration.load().and_then(|loaded| check_config::check(&loaded))
        }
        Command::Demo => demo::demo(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            if let Some(hint) = hint(&error) {
                eprintln!("hint: {hint}");
            }
            if is_usage(&error) { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// Whether the command line or the configuration is wrong, rather than the world.
fn is_usage(error: &anyhow::Error) -> bool {
    error.is::<ConfigError>() || error.downcast_ref::<ClientError>().is_some_and(ClientError::is_usage)
}

/// What may help.
fn hint(error: &anyhow::Error) -> Option<&str> {
    if error.is::<ConfigError>() {
        return Some(
            "anteroom.sample.toml explains every setting; `anteroom check-config` checks without starting",
        );
    }
    let of_client = error.downcast_ref::<ClientError>().and_then(ClientError::hint);
    of_client.or_else(|| error.downcast_ref::<Hinted>().map(|hinted| hinted.hint.as_str()))
}
