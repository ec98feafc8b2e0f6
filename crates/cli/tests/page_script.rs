//! The script of the waiting page over time: hours, hidden tabs, streams that die without a word, crowds of a hundred thousand. The
//! script is the real one, and so is the language's engine; the tab around it is `page_script/world.cjs`, with a clock that can be put
//! forward. What a whole browser makes of the page is in the other `page_*.rs`.

use std::process::Command;

use anteroom_testkit::require;

#[test]
fn the_script_keeps_its_promises_over_time() {
    let has_node = Command::new("node").arg("--version").output().is_ok_and(|output| output.status.success());
    if !require("node", has_node) {
        return;
    }
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/page_script/stories.cjs");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../pages/assets/page.js");
    let output = Command::new("node").arg("--test").arg(tests).env("ANTEROOM_PAGE_SCRIPT", script).output();
    let output = output.expect("node can be run");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("# fail 0") || told.contains("ℹ fail 0"), "{told}");
}
