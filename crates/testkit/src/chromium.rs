//! A real browser: Debian's Chromium without a screen, driven through chromedriver by the `WebDriver` client fantoccini.
//!
//! fantoccini is asynchronous and the rest of this kit is not, so each browser brings a small runtime of its own. What a test
//! reads, it reads as a visitor does: what is shown, what is spoken, where the focus is. A browser ends with its value, also by
//! a panic, and a failed test says what its page looked like. At its end a browser must have nothing to complain about: a script that
//! failed or a policy that blocked something fails the test, unless [that was to come](ChromiumBuilder::expecting_faults).

mod accessibility;
mod driver;
mod emulation;
mod keys;
mod log;
mod options;
mod page;
mod tabs;

use std::fs;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::components::require;
use crate::http;
use driver::Driver;

pub use accessibility::axe_core;
pub use emulation::Scheme;
pub use fantoccini::key::Key;
pub use log::{LoadedResource, LogEntry};
pub use options::ChromiumBuilder;
pub use tabs::Tab;

/// How long one command may take. Generous, because the browser may share two cores with a build.
const COMMAND_DEADLINE: Duration = Duration::from_mins(1);
/// How long the browser may take to end by itself; then it is ended.
const END_DEADLINE: Duration = Duration::from_secs(10);

/// Whether a test that needs a browser can go on; see [`require`].
pub fn require_chromium() -> bool {
    let answers = |program: &str| {
        let mut command = Command::new(program);
        let asked = command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        asked.status().is_ok_and(|status| status.success())
    };
    let browser = options::browser().map_or_else(|| answers("chromium"), |path| path.exists());
    require("chromium", browser) && require("chromedriver", answers(&driver::program()))
}

/// A browser with a profile of its own. Fields end in this order: the browser, its driver, its profile.
#[derive(Debug)]
pub struct Chromium {
    client: Option<Client>,
    session: String,
    /// For the commands that only chromedriver has.
    wire: Mutex<http::Client>,
    runtime: Runtime,
    browser_process: Option<u64>,
    expects_faults: bool,
    driver: Driver,
    profile: tempfile::TempDir,
}

impl Chromium {
    /// A browser as a visitor in England has it.
    #[track_caller]
    pub fn open() -> Self {
        Self::builder().open()
    }

    /// A browser with other settings.
    pub fn builder() -> ChromiumBuilder {
        ChromiumBuilder::default()
    }

    #[track_caller]
    fn start(builder: &ChromiumBuilder) -> Self {
        let profile = tempfile::tempdir().expect("a temporary directory can be made");
        let driver = Driver::start(profile.path());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        let mut connecting = ClientBuilder::new(HttpConnector::new());
        connecting.capabilities(builder.capabilities(profile.path()));
        let url = format!("http://{}", driver.address());
        let client = runtime.block_on(within_deadline(connecting.connect(&url)));
        let client =
            client.unwrap_or_else(|error| panic!("Chromium does not start: {error}\n{}", driver.log()));
        let session = runtime.block_on(client.session_id()).ok().flatten().expect("a session has an id");
        let process = client.capabilities().and_then(|found| found.get("goog:processID")?.as_u64());
        let wire = http::Client::new(driver.address()).with_read_timeout(COMMAND_DEADLINE);
        let wire = Mutex::new(wire);
        Self {
            client: Some(client),
            session,
            wire,
            runtime,
            browser_process: process,
            expects_faults: builder.expects_faults(),
            driver,
            profile,
        }
    }

    /// A command of the `DevTools` protocol, in the current tab.
    #[track_caller]
    pub fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.vendor("goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// A command that `WebDriver` does not have and chromedriver does.
    #[track_caller]
    fn vendor(&self, command: &str, body: &Value) -> Value {
        self.attempt_vendor(command, body).unwrap_or_else(|error| panic!("{error}"))
    }

    fn attempt_vendor(&self, command: &str, body: &Value) -> Result<Value, String> {
        let request = http::Request::post_json(&format!("/session/{}/{command}", self.session), body);
        let answer = self.wire.lock().unwrap_or_else(PoisonError::into_inner).send(&request);
        let answer = answer.map_err(|error| format!("{command} is not answered: {error:#}"))?;
        if answer.status != 200 {
            return Err(format!("{command} {body}: {answer:?}"));
        }
        Ok(answer.json()["value"].take())
    }

    fn client(&self) -> &Client {
        self.client.as_ref().expect("a browser has its client until it ends")
    }

    /// Waits for a command, and says which one it was that failed.
    #[track_caller]
    fn wait<T, E: std::fmt::Display>(&self, what: &str, command: impl Future<Output = Result<T, E>>) -> T {
        self.attempt(command).unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    fn attempt<T, E: std::fmt::Display>(
        &self,
        command: impl Future<Output = Result<T, E>>,
    ) -> Result<T, String> {
        self.runtime.block_on(within_deadline(command))
    }

    /// What a person who looks into a failure wants to know first.
    fn describe(&self) -> String {
        let script = "return document.title + '\\n' + (document.body ? document.body.innerText : '')";
        let address = self.attempt(self.client().current_url()).map(|url| url.to_string());
        let text = self.attempt(self.client().execute(script, vec![]));
        format!(
            "{address:?}\n{}",
            text.map_or_else(|error| error, |text| text.as_str().unwrap_or_default().to_owned())
        )
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let is_panicking = std::thread::panicking();
        if is_panicking {
            eprintln!("--- the browser showed: {}", self.describe());
        }
        // Asked before the browser ends, judged after it has: nothing may be left over by a test that fails here.
        let complaint = if is_panicking || self.expects_faults { None } else { self.complaint() };
        if let Some(client) = self.client.take() {
            let closing = async { tokio::time::timeout(END_DEADLINE, client.close()).await };
            // A browser that does not close is ended below.
            let _closed = self.runtime.block_on(closing);
        }
        if let Some(process) = self.browser_process {
            end_browser(process, &self.profile.path().display().to_string());
        }
        self.driver.end();
        if let Some(complaint) = complaint {
            panic!("{complaint}");
        }
    }
}

/// Ends a browser that has not ended by itself. The driver started it, so its id could belong to another process by now:
/// it is ours if it works in our profile.
fn end_browser(process: u64, profile: &str) {
    let is_ours = || {
        fs::read(format!("/proc/{process}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(profile))
    };
    if is_ours() {
        let _killed = Command::new("sh").args(["-c", "kill -s KILL \"$0\"", &process.to_string()]).status();
    }
}

/// The same command, which must be done within [`COMMAND_DEADLINE`].
async fn within_deadline<T, E: std::fmt::Display>(
    command: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(COMMAND_DEADLINE, command).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err(format!("not done within {COMMAND_DEADLINE:?}")),
    }
}

#[cfg(test)]
mod tests;
