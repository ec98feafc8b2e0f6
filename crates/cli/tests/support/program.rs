//! A program that is not ours, in the foreground, with a log of its own. It ends when it is dropped.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anteroom_testkit::{now, pause};

/// How long it may take to end when it is asked to; then it is ended.
const END_DEADLINE: Duration = Duration::from_secs(5);

/// A running program.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts it in a directory.
    #[track_caller]
    pub(crate) fn start(
        path: &Path,
        arguments: &[&str],
        directory: &Path,
        environment: &[(&str, &str)],
    ) -> Self {
        let log = directory.join("program.log");
        let file = File::create(&log).expect("a file can be made in a temporary directory");
        let child = Command::new(path)
            .args(arguments)
            .current_dir(directory)
            // Where programs keep what they make for themselves.
            .env("HOME", directory)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a file can be opened twice"))
            .stderr(file)
            .spawn();
        let child = child.unwrap_or_else(|error| panic!("{} does not start: {error}", path.display()));
        Self { child, log }
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// What it has written.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Asked first, because a program with workers ends them only when it is told politely.
        let _asked = Command::new("kill").arg(self.child.id().to_string()).stderr(Stdio::null()).status();
        let asked = now();
        while !self.has_ended() && asked.elapsed() < END_DEADLINE {
            pause();
        }
        // Both fail only when the process has already been reaped, and then there is nothing left to end.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}
