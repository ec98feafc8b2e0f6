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

/// What came for one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The address.
    pub url: String,
    /// Head and body as they came over the network, compressed as they were.
    pub bytes: usize,
}

impl Chromium {
    /// What was loaded wholly since this was last asked, by a browser that [records it](super::ChromiumBuilder::recording_network).
    /// What has not ended, such as a live stream, is not among it.
    #[track_caller]
    pub fn loaded(&self) -> Vec<Loaded> {
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
                loaded.push(Loaded { url, bytes: bytes.unwrap_or(0) });
            }
        }
        loaded
    }

    /// What was written since this was last asked, over all tabs.
    #[track_caller]
    pub fn log(&self) -> Vec<LogEntry> {
        let entries = self.vendor("se/log", &json!({ "type": "browser" }));
        let entries = entries.as_array().expect("a log is a list").clone();
        let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let entry = |entry: Value| LogEntry {
            level: text(&entry, "level"),
            source: text(&entry, "source"),
            message: text(&entry, "message"),
        };
        entries.into_iter().map(entry).collect()
    }

    /// Fails if a script has failed or a policy has blocked something since the log was last read.
    #[track_caller]
    pub fn assert_no_faults(&self) {
        let faults: Vec<LogEntry> = self.log().into_iter().filter(LogEntry::is_fault_of_page).collect();
        assert!(faults.is_empty(), "the browser complains about {}: {faults:#?}", self.address());
    }
}
