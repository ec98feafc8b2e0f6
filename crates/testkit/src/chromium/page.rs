//! A page in the current tab: opening it, reading what it shows, pressing what it offers.

use std::fs;
use std::path::Path;

use fantoccini::Locator;
use serde_json::{Value, json};

use crate::chromium::Chromium;

/// Looks for an element and gives its text as it is shown, or null if it is not there or not shown.
const SHOWN_TEXT: &str = "const found = [...document.querySelectorAll(arguments[0])].find(element => \
    element.checkVisibility({ visibilityProperty: true })); return found ? (found.innerText ?? found.textContent).trim() : null";

impl Chromium {
    /// Opens an address, and returns when it is loaded.
    #[track_caller]
    pub fn go(&self, url: &str) {
        self.wait(&format!("opening {url}"), self.client().goto(url));
    }

    /// Loads the page again.
    #[track_caller]
    pub fn reload(&self) {
        self.wait("reloading", self.client().refresh());
    }

    /// The address of the page.
    #[track_caller]
    pub fn address(&self) -> String {
        self.wait("reading the address", self.client().current_url()).to_string()
    }

    /// Its title.
    #[track_caller]
    pub fn title(&self) -> String {
        self.wait("reading the title", self.client().title())
    }

    /// The document as it is now.
    #[track_caller]
    pub fn source(&self) -> String {
        self.wait("reading the source", self.client().source())
    }

    /// Runs a script in the page, also where the page itself may not run any; `arguments` are its arguments, and it returns
    /// its value. A page that is replaced meanwhile makes it null.
    #[track_caller]
    pub fn run(&self, script: &str, arguments: &[Value]) -> Value {
        match self.attempt(self.client().execute(script, arguments.to_vec())) {
            Ok(value) => value,
            Err(error) if is_navigation(&error) => Value::Null,
            Err(error) => panic!("running {script}: {error}"),
        }
    }

    /// Runs a script that calls its last argument with its value, whenever that is.
    #[track_caller]
    pub fn run_until_called_back(&self, script: &str, arguments: &[Value]) -> Value {
        self.wait(&format!("running {script}"), self.client().execute_async(script, arguments.to_vec()))
    }

    /// The text of the first element of this selector that is shown; nothing if none is.
    #[track_caller]
    pub fn text(&self, selector: &str) -> Option<String> {
        self.run(SHOWN_TEXT, &[json!(selector)]).as_str().map(str::to_owned)
    }

    /// Whether an element of this selector is shown.
    #[track_caller]
    pub fn shows(&self, selector: &str) -> bool {
        self.text(selector).is_some()
    }

    /// All text that is shown.
    #[track_caller]
    pub fn whole_text(&self) -> String {
        self.text("body").unwrap_or_default()
    }

    /// An attribute of the first element of this selector.
    #[track_caller]
    pub fn attribute(&self, selector: &str, name: &str) -> Option<String> {
        let script = "return document.querySelector(arguments[0])?.getAttribute(arguments[1]) ?? null";
        self.run(script, &[json!(selector), json!(name)]).as_str().map(str::to_owned)
    }

    /// What the browser computes for a property of the first element of this selector.
    #[track_caller]
    pub fn style(&self, selector: &str, property: &str) -> String {
        let script = "const found = document.querySelector(arguments[0]); \
            return found ? getComputedStyle(found).getPropertyValue(arguments[1]) : null";
        let found = self.run(script, &[json!(selector), json!(property)]);
        found.as_str().unwrap_or_else(|| panic!("no element {selector}")).to_owned()
    }

    /// Presses an element as a finger does: it must be in view and not covered.
    #[track_caller]
    pub fn press(&self, selector: &str) {
        let pressing = async { self.client().find(Locator::Css(selector)).await?.click().await };
        self.wait(&format!("pressing {selector}"), pressing);
    }

    /// The width of the page beyond that of the window: what one would have to scroll sideways for, in pixels.
    #[track_caller]
    pub fn sideways_pixels(&self) -> i64 {
        let script = "const root = document.scrollingElement; return root.scrollWidth - root.clientWidth";
        self.run(script, &[]).as_i64().expect("a document has a width")
    }

    /// Writes a picture of the window to a file, as PNG.
    #[track_caller]
    pub fn picture(&self, path: &Path) {
        let picture = self.wait("taking a picture", self.client().screenshot());
        fs::write(path, picture).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// The value of a cookie that the page's address is sent, also one that scripts cannot read.
    #[track_caller]
    pub fn cookie(&self, name: &str) -> Option<String> {
        let cookies = self.devtools("Network.getCookies", &json!({}));
        let cookies = cookies["cookies"].as_array().expect("cookies are listed").clone();
        let named = cookies.into_iter().find(|cookie| cookie["name"] == name)?;
        named["value"].as_str().map(str::to_owned)
    }
}

/// Whether a script ended because its page went away under it.
fn is_navigation(error: &str) -> bool {
    ["aborted by navigation", "context was destroyed", "Cannot find context", "document unloaded", "detached"]
        .iter()
        .any(|said| error.contains(said))
}
