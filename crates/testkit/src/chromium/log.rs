//! What a browser complains about in its console: scripts that failed, things that a policy has blocked, addresses that did not
//! load; and what it has loaded.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::chromium::Chromium;

/// One line of the console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// `SEVERE`, `WARNING`, `INFO` or `DEBUG`.
    pub level: String,
    /// What kind of thing wrote it: `security`, `javascript`, `network`, `console-api`, …
    pub source: String,
    /// What it says.
    pub message: String,
}

impl LogEntry {
    /// Whether a script failed or a policy blocked something: nothing of the kind may happen on any page of ours. That an address
    /// did not answer is not of the kind.
    pub fn is_fault_of_page(&self) -> bool {
        let is_about_policy = self.source == "security" || self.message.contains("Content Security Policy");
        let is_loud = self.level == "SEVERE" || self.level == "WARNING";
        is_loud && (is_about_policy || self.source != "network")
    }
}

/// What was received for one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedResource {
    /// The address.
    pub url: String,
    /// Head and body as received, compressed as they were.
    pub bytes: usize,
}

impl Chromium {
    /// What was loaded wholly since this was last asked, by a browser that [records it](super::ChromiumBuilder::recording_network).
    /// What has not ended, such as a live stream, is not among it.
    #[track_caller]
    pub fn loaded(&self) -> Vec<LoadedResource> {
        let entries = self.vendor("se/log", &json!({ "type": "performance" }));
        let (mut addresses, mut loaded) = (BTreeMap::new(), vec![]);
        for entry in entries.as_array().expect("a log is a list") {
            let text = entry["message"].as_str().unwrap_or_default();
            let event: Value = serde_json::from_str(text).unwrap_or_default();
            let (event, about) = (&event["message"]["method"], &event["message"]["params"]);
            let request = about["requestId"].as_str().unwrap_or_default().to_owned();
            if event == "Network.responseReceived" {
                let url = about["response"]["url"].as_str().unwrap_or_default().to_owned();
                addresses.insert(request, url);
            } else if event == "Network.loadingFinished" {
                let bytes = about["encodedDataLength"].as_u64().and_then(|bytes| bytes.try_into().ok());
                let url = addresses.remove(&request).unwrap_or_default();
                loaded.push(LoadedResource { url, bytes: bytes.unwrap_or(0) });
            }
        }
        loaded
    }

    /// What was written since this was last asked, over all tabs.
    #[track_caller]
    pub fn log(&self) -> Vec<LogEntry> {
        self.attempt_log().unwrap_or_else(|error| panic!("{error}"))
    }

    fn attempt_log(&self) -> Result<Vec<LogEntry>, String> {
        let entries = self.attempt_vendor("se/log", &json!({ "type": "browser" }))?;
        let entries = entries.as_array().ok_or_else(|| format!("a log is a list: {entries}"))?;
        let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let entry = |entry: &Value| LogEntry {
            level: text(entry, "level"),
            source: text(entry, "source"),
            message: text(entry, "message"),
        };
        Ok(entries.iter().map(entry).collect())
    }

    /// What the browser complains about since the log was last read; nothing if a script has not failed, no policy has blocked
    /// anything, and the log can be read.
    pub(super) fn complaint(&self) -> Option<String> {
        let log = match self.attempt_log() {
            Ok(log) => log,
            Err(error) => return Some(format!("the browser's log cannot be read: {error}")),
        };
        let faults: Vec<LogEntry> = log.into_iter().filter(LogEntry::is_fault_of_page).collect();
        let address = || self.attempt(self.client().current_url()).map(|url| url.to_string());
        (!faults.is_empty()).then(|| format!("the browser complains about {:?}: {faults:#?}", address()))
    }

    /// Fails if a script has failed or a policy has blocked something since the log was last read. The same happens at the end of
    /// every browser; this is for tests that want to know which of their steps it was.
    #[track_caller]
    pub fn assert_no_faults(&self) {
        if let Some(complaint) = self.complaint() {
            panic!("{complaint}");
        }
    }
}
