//! A program that a test starts and that tells in lines of JSON what it has received.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anteroom_testkit::wait_for;
use serde_json::Value;

/// How long a program may take for anything; generous, because it may share a core with a build.
pub(crate) const DEADLINE: Duration = Duration::from_secs(40);

/// A running program. It is killed when it is dropped, and no other is.
pub(crate) struct Program {
    child: Child,
    lines: Arc<Mutex<Vec<Value>>>,
}

impl Program {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let lines = Arc::new(Mutex::new(vec![]));
        let output = BufReader::new(child.stdout.take().unwrap());
        thread::spawn({
            let lines = Arc::clone(&lines);
            move || {
                for line in output.lines().map_while(Result::ok) {
                    if let Ok(value) = serde_json::from_str(&line) {
                        lines.lock().unwrap().push(value);
                    }
                }
            }
        });
        Self { child, lines }
    }

    /// What it has said so far.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits until it has said something of that kind.
    #[track_caller]
    pub(crate) fn wait_for_line<T>(&self, what: &str, wanted: impl Fn(&Value) -> Option<T>) -> T {
        wait_for(what, DEADLINE, || self.lines().iter().find_map(&wanted))
    }

    /// Says a line to it, and returns what it says next.
    #[track_caller]
    pub(crate) fn ask(&mut self) -> Value {
        let before = self.lines().len();
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        wait_for("the program has answered", DEADLINE, || self.lines().get(before).cloned())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
