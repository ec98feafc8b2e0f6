//! The script of the waiting page over time: hours, hidden tabs, streams that die without a word, crowds of a hundred thousand. The
//! script is the real one, and so is the language's engine; the tab around it is `script/world.cjs`, with a clock that can be put
//! forward. What a whole browser makes of the page is in the other files of this folder.

use std::process::Command;

use anteroom_testkit::require;

#[test]
fn the_script_keeps_its_promises_over_time() {
    let has_node = Command::new("node").arg("--version").output().is_ok_and(|output| output.status.success());
    if !require("node", has_node) {
        return;
    }
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pages/script/stories.cjs");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../pages/assets/page.js");
    let output = Command::new("node").arg("--test").arg(tests).env("ANTEROOM_PAGE_SCRIPT", script).output();
    let output = output.expect("node can be run");
    let message = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{message}{}", String::from_utf8_lossy(&output.stderr));
    assert!(message.contains("# fail 0") || message.contains("ℹ fail 0"), "{message}");
}
