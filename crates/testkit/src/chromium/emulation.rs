//! What a page can learn about its visitor's device: colours, motion, size, language, network. Each is for the current tab, and
//! stays over navigation.

use serde_json::json;

use crate::chromium::Chromium;

/// The colours that a visitor prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

impl Scheme {
    /// Its name in style sheets.
    pub fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

impl Chromium {
    /// Prefers these colours, and motion or none.
    #[track_caller]
    pub fn prefer(&self, scheme: Scheme, reduced_motion: bool) {
        let motion = if reduced_motion { "reduce" } else { "no-preference" };
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme.name() },
            { "name": "prefers-reduced-motion", "value": motion },
        ]);
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Shows pages in a window of this size in pixels of the style sheet.
    #[track_caller]
    pub fn resize(&self, width: u32, height: u32, is_phone: bool) {
        let metrics = json!({
            "width": width,
            "height": height,
            "deviceScaleFactor": if is_phone { 2 } else { 1 },
            "mobile": is_phone,
        });
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// Asks sites for another language from the next page on, as a value of `Accept-Language`.
    #[track_caller]
    pub fn speak(&self, languages: &str) {
        let agent = self.run("return navigator.userAgent", &[]);
        let asked = json!({ "userAgent": agent, "acceptLanguage": languages });
        self.devtools("Emulation.setUserAgentOverride", &asked);
    }

    /// Lets pages run scripts or not, from the next page on.
    #[track_caller]
    pub fn set_scripts(&self, run: bool) {
        self.devtools("Emulation.setScriptExecutionDisabled", &json!({ "value": !run }));
    }

    /// Takes the network away, or gives it back. Streams that are open stay so, as they do in a browser that does not know yet.
    #[track_caller]
    pub fn set_offline(&self, is_offline: bool) {
        self.devtools("Network.enable", &json!({}));
        let conditions = json!({
            "offline": is_offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1,
        });
        self.devtools("Network.emulateNetworkConditions", &conditions);
    }
}
