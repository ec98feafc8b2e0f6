//! What axe-core, which is not ours, finds wrong with a page for people who see, hear or point differently.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

use serde_json::{Value, json};

use crate::chromium::Chromium;
use crate::components::{require, workspace_root};

/// Runs the checks of the Web Content Accessibility Guidelines 2.2 up to AA, and of good practice.
const CHECK: &str = "const [tags, done] = arguments; \
    axe.run(document, { runOnly: { type: 'tag', values: tags }, resultTypes: ['violations'] }) \
    .then(found => done({ violations: found.violations, passes: found.passes.length }), error => done(String(error)))";
/// What is checked.
const TAGS: [&str; 6] = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/// The text of axe-core, which `./test` installs beside other packages of npm; see [`require`] for what happens without.
pub fn axe_core() -> Option<String> {
    let modules = env::var_os("ANTEROOM_TEST_NODE_MODULES")
        .map_or_else(|| workspace_root().join("target/test-node/node_modules"), PathBuf::from);
    let text = fs::read_to_string(modules.join("axe-core/axe.min.js")).ok();
    require("axe-core", text.is_some()).then_some(text).flatten()
}

impl Chromium {
    /// What is wrong with the page as it is shown now, each with the elements it is about; empty if nothing is.
    #[track_caller]
    pub fn violations(&self, axe_core: &str) -> String {
        self.run(axe_core, &[]);
        let found = self.run_until_called_back(CHECK, &[json!(TAGS)]);
        let violations = found["violations"].as_array().unwrap_or_else(|| panic!("axe-core failed: {found}"));
        assert!(found["passes"].as_u64() > Some(0), "axe-core has found nothing to check");
        violations.iter().map(describe).collect()
    }
}

/// One violation as a person reads it.
fn describe(violation: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut lines = format!("{}: {}\n", text(&violation["id"]), text(&violation["help"]));
    for node in violation["nodes"].as_array().into_iter().flatten() {
        let summary = text(&node["failureSummary"]).replace('\n', " ");
        writeln!(lines, "  {}: {summary}", text(&node["html"])).expect("a String takes everything");
    }
    lines
}
