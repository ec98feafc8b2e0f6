//! Why a command did not work: one line, what may help, and an exit code that says which kind of failure it was.

use std::fmt;
use std::process::ExitCode;

use anteroom_server::Hinted;
use anteroom_server::config::ConfigError;

use crate::http_client::ClientError;
use crate::output;

/// What `--help` and `docs/cli.md` say about exit codes.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    it did not work: the server refused, or could not be reached
  2    the command line or the configuration is wrong
  3    there is no such room, key, client, destination, ticket or session
  4    the key is not accepted, or may not do this
  5    conflict: somebody changed it meanwhile, or it is there already
  130  interrupted";

/// The kinds of failure a script may want to tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The server refused, or could not be reached.
    Failed,
    /// The command line or the configuration is wrong.
    CommandLine,
    /// What was named does not exist.
    NotFound,
    /// The key is not accepted (401), or may not do this (403).
    Access,
    /// Another client changed it meanwhile (412), or it is there already (409).
    Conflict,
    /// Ctrl-C, or another signal that ends processes.
    Interrupted,
}

impl Exit {
    const fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::CommandLine => 2,
            Self::NotFound => 3,
            Self::Access => 4,
            Self::Conflict => 5,
            Self::Interrupted => 130,
        }
    }
}

/// A failure whose kind is known.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    what: String,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), hint: None }
    }

    /// With what may help.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With what may help, where anything is known.
    pub(crate) fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }

    /// Of which kind it is.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.what)
    }
}

impl std::error::Error for Failure {}

/// Of which kind an error is, if it is one of the command line's own.
pub(crate) fn kind(error: &anyhow::Error) -> Option<Exit> {
    error.downcast_ref::<Failure>().map(Failure::exit)
}

/// Says what went wrong and what may help, and chooses the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let (exit, hint) = if let Some(failure) = error.downcast_ref::<Failure>() {
        (failure.exit, failure.hint.as_deref())
    } else if error.is::<ConfigError>() {
        let hint =
            "anteroom.sample.toml explains every setting; `anteroom check-config` checks without starting";
        (Exit::CommandLine, Some(hint))
    } else if let Some(client) = error.downcast_ref::<ClientError>() {
        (if client.is_usage() { Exit::CommandLine } else { Exit::Failed }, client.hint())
    } else {
        (Exit::Failed, error.downcast_ref::<Hinted>().map(|hinted| hinted.hint.as_str()))
    };
    output::talk(&format!("error: {error:#}"));
    if let Some(hint) = hint {
        output::talk(&format!("hint: {hint}"));
    }
    ExitCode::from(exit.code())
}
