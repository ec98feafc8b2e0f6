//! A program of a page as a child process. It ends, by its own process id, when it is dropped.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anteroom_testkit::{Client, wait_for};

/// How long a program may take until it listens. Generous, because it may share two cores with a build.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// A running program.
pub(crate) struct Program {
    child: Child,
    output: Arc<Mutex<String>>,
}

impl Program {
    /// Starts it, and goes on reading what it writes.
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        // What the machine has configured for an Anteroom of its own is not for the program.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ANTEROOM_") {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let output = Arc::new(Mutex::new(String::new()));
        read_along(child.stdout.take().expect("it is piped"), &output);
        read_along(child.stderr.take().expect("it is piped"), &output);
        Self { child, output }
    }

    /// All that it has written.
    pub(crate) fn output(&self) -> String {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until it says where it listens, as `http://127.0.0.1:PORT`.
    #[track_caller]
    pub(crate) fn wait_for_address(&mut self) -> SocketAddr {
        self.wait_until_started(|program| {
            let output = program.output();
            let (_, rest) = output.split_once("http://127.0.0.1:")?;
            let digits = rest.find(|character: char| !character.is_ascii_digit())?;
            Some(SocketAddr::from(([127, 0, 0, 1], rest[..digits].parse().ok()?)))
        })
    }

    /// Waits until somebody answers HTTP at this port.
    #[track_caller]
    pub(crate) fn wait_for_answer(&mut self, port: u16) -> SocketAddr {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        self.wait_until_started(|_| Client::new(address).get("/").ok().map(|_| address))
    }

    #[track_caller]
    fn wait_until_started<T>(&mut self, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        wait_for("the program listens", START_TIMEOUT, || {
            let ended = self.child.try_wait().expect("a child can be asked");
            assert!(ended.is_none(), "it has ended ({ended:?}): {}", self.output());
            look(self)
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
        if thread::panicking() {
            eprintln!("the program wrote:\n{}", self.output());
        }
    }
}

fn read_along(stream: impl Read + Send + 'static, output: &Arc<Mutex<String>>) {
    let output = Arc::clone(output);
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
            output.push_str(&line);
            output.push('\n');
        }
    });
}

/// Whether this command runs to a good end.
pub(crate) fn runs(program: impl AsRef<Path>, arguments: &[&str]) -> bool {
    let mut command = Command::new(program.as_ref());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
