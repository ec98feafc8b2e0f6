//! The operator's command line as a script uses it: the real binary, arguments in, exit code and both streams out.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anteroom_testkit::Server;

use crate::support::binary;

/// An operator with a shell, a URL and a key.
#[derive(Debug, Clone)]
pub(crate) struct Operator {
    url: String,
    key: Option<String>,
    directory: PathBuf,
}

impl Operator {
    /// With the admin key of this server, in its directory.
    pub(crate) fn of(server: &Server) -> Self {
        Self::at(&format!("http://{}", server.private()))
            .with_key(server.admin_key())
            .in_directory(server.directory())
    }

    /// Without a key.
    pub(crate) fn at(url: &str) -> Self {
        Self { url: url.to_owned(), key: None, directory: std::env::temp_dir() }
    }

    pub(crate) fn with_key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    pub(crate) fn in_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = directory.into();
        self
    }

    /// The command, ready to be changed further.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        self.surround(&mut command);
        command.args(arguments);
        command
    }

    /// Gives any program this operator's environment, and nothing of ours that the machine has beside it.
    pub(crate) fn surround(&self, command: &mut Command) {
        let inherited = std::env::vars_os().map(|(name, _)| name);
        for name in inherited.filter(|name| name.to_string_lossy().starts_with("ANTEROOM_")) {
            command.env_remove(name);
        }
        command.env("ANTEROOM_URL", &self.url).current_dir(&self.directory);
        if let Some(key) = &self.key {
            command.env("ANTEROOM_ADMIN_KEY", key);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    }

    /// Runs a command to its end.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        finish(&mut self.command(arguments))
    }

    /// Runs a command that must do what it was told, without a word on stderr; returns its data.
    #[track_caller]
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{arguments:?}: {}", ran.stdout);
        ran.stdout
    }

    /// The same, as JSON.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let text = self.done(&[arguments, &["--format", "json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("not JSON ({error}): {text}"))
    }

    /// Runs a command that must fail with this code, without data; returns what it said.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(code), ""), "{arguments:?}: {}", ran.stderr);
        ran.stderr
    }
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a command to its end.
#[track_caller]
pub(crate) fn finish(command: &mut Command) -> Ran {
    let output = command.output().expect("the command can be run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("what commands print is text");
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Runs a command to its end with this text on its standard input.
#[track_caller]
pub(crate) fn finish_with_input(command: &mut Command, input: &str) -> Ran {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the command can be run");
    child.stdin.take().expect("it is piped").write_all(input.as_bytes()).expect("it is read");
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}
