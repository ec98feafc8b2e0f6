//! The process that drives a browser: Debian's chromedriver.

use std::env;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::http::Client;
use crate::ports::ReservedPort;
use crate::wait::wait_until;

/// How long the driver may take to answer after its start. Generous, because it may share two cores with a build.
const START_DEADLINE: Duration = Duration::from_mins(1);
/// The driver's log in the profile's directory.
const LOG_FILE: &str = "chromedriver.log";
/// Where chromedriver is, if it is not on the path.
const PROGRAM_VARIABLE: &str = "ANTEROOM_TEST_CHROMEDRIVER";

/// The program that tests run as driver.
pub(super) fn program() -> String {
    env::var(PROGRAM_VARIABLE).unwrap_or_else(|_| "chromedriver".to_owned())
}

/// One driver on a port of its own.
#[derive(Debug)]
pub(super) struct Driver {
    child: Child,
    port: ReservedPort,
    log: PathBuf,
}

impl Driver {
    /// Starts it, and waits until it takes commands.
    #[track_caller]
    pub(super) fn start(directory: &Path) -> Self {
        let (port, log) = (ReservedPort::take(), directory.join(LOG_FILE));
        let file = File::create(&log).expect("a file can be made in a temporary directory");
        // In the group of the test's processes, so that ending a test that hangs ends its browser too.
        let child = Command::new(program())
            .arg(format!("--port={}", port.number()))
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a file can be opened twice"))
            .stderr(file)
            .spawn();
        let child = child.unwrap_or_else(|error| panic!("{} does not start: {error}", program()));
        let driver = Self { child, port, log };
        wait_until("chromedriver answers", START_DEADLINE, || {
            Client::new(driver.address()).get("/status").is_ok_and(|answer| answer.status == 200)
        });
        driver
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.number()))
    }

    /// What it has written.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Ends it.
    pub(super) fn end(&mut self) {
        // Both fail only when the process has already been reaped, and then there is nothing left to end.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.end();
    }
}
