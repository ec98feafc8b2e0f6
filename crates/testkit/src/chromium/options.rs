//! What a browser is started with.

use std::env;
use std::path::{Path, PathBuf};

use fantoccini::wd::Capabilities;
use serde_json::{Value, json};

use crate::chromium::Chromium;

/// Where Chromium is, if chromedriver does not find it.
const PROGRAM_VARIABLE: &str = "ANTEROOM_TEST_CHROMIUM";
/// What a content setting is that blocks.
const BLOCK: u8 = 2;
/// What it does not need in a test: no screen, no sandbox (tests may run as root), and nothing of its own on the network.
const ARGUMENTS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    // Names under .test and .localhost are hosts of loopback, so that a test can have several; no other name means anything.
    "--host-resolver-rules=MAP *.test 127.0.0.1, MAP *.localhost 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
];

/// The browser that is named by the environment.
pub(super) fn browser() -> Option<PathBuf> {
    env::var_os(PROGRAM_VARIABLE).map(PathBuf::from)
}

/// The settings of a browser.
#[derive(Debug, Clone)]
pub struct ChromiumBuilder {
    language: String,
    /// The content settings that are blocked.
    blocked: Vec<&'static str>,
    records_network: bool,
    expects_faults: bool,
    window: (u32, u32),
}

impl Default for ChromiumBuilder {
    fn default() -> Self {
        Self {
            language: "en-GB".to_owned(),
            blocked: Vec::new(),
            records_network: false,
            expects_faults: false,
            window: (1280, 800),
        }
    }
}

impl ChromiumBuilder {
    /// The language that it asks sites for, as in `de` or `pt-BR`.
    #[must_use]
    pub fn language(mut self, language: &str) -> Self {
        language.clone_into(&mut self.language);
        self
    }

    /// Pages run no scripts. What a test asks of the page works all the same.
    #[must_use]
    pub fn without_scripts(mut self) -> Self {
        self.blocked.push("javascript");
        self
    }

    /// It keeps no cookies.
    #[must_use]
    pub fn without_cookies(mut self) -> Self {
        self.blocked.push("cookies");
        self
    }

    /// It remembers what it loads; see [`Chromium::loaded`].
    #[must_use]
    pub fn recording_network(mut self) -> Self {
        self.records_network = true;
        self
    }

    /// Scripts of its pages may fail and policies may block something: for tests that do it on purpose. Any other browser fails its
    /// test when it ends and has something of the kind in its log.
    #[must_use]
    pub fn expecting_faults(mut self) -> Self {
        self.expects_faults = true;
        self
    }

    /// The size of its window.
    #[must_use]
    pub fn window(mut self, width: u32, height: u32) -> Self {
        self.window = (width, height);
        self
    }

    /// Starts it.
    #[track_caller]
    pub fn open(self) -> Chromium {
        Chromium::start(&self)
    }

    pub(super) fn expects_faults(&self) -> bool {
        self.expects_faults
    }

    pub(super) fn capabilities(&self, profile: &Path) -> Capabilities {
        let mut arguments: Vec<String> = ARGUMENTS.iter().map(|&argument| argument.to_owned()).collect();
        arguments.push(format!("--user-data-dir={}", profile.join("profile").display()));
        arguments.push(format!("--lang={}", self.language));
        arguments.push(format!("--window-size={},{}", self.window.0, self.window.1));
        let mut preferences = json!({ "intl.accept_languages": self.language });
        for blocked in &self.blocked {
            preferences[format!("profile.managed_default_content_settings.{blocked}")] = json!(BLOCK);
        }
        let mut options = json!({ "args": arguments, "prefs": preferences });
        if let Some(browser) = browser() {
            options["binary"] = json!(browser);
        }
        let mut logs = json!({ "browser": "ALL" });
        if self.records_network {
            logs["performance"] = json!("ALL");
        }
        let asked = json!({
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": logs,
        });
        match asked {
            Value::Object(asked) => asked,
            _ => Capabilities::new(),
        }
    }
}
