//! What a test may need that is not part of the workspace, and at which scale tests run.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Whether the full sizes are asked for (`ANTEROOM_TEST_FULL=1`); otherwise tests take reduced ones.
pub fn full() -> bool {
    env::var_os("ANTEROOM_TEST_FULL").is_some_and(|value| value == "1")
}

/// Whether a test can go on: true when its component is `present`. A missing one is said in one line and the test is
/// skipped, except in CI (`CI=true`), where a skipped test would be a test nobody misses.
pub fn require(component: &str, present: bool) -> bool {
    if present {
        return true;
    }
    assert!(env::var_os("CI").is_none_or(|value| value != "true"), "CI lacks a component: {component}");
    eprintln!("skipped: no {component}");
    false
}

/// The directory of the workspace's Cargo.toml.
pub fn workspace_root() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().and_then(Path::parent);
    crates.expect("this crate lives two directories below the workspace").to_path_buf()
}

/// A Python that can `import module`: the one named by `ANTEROOM_TEST_PYTHON`, else the one in `target/test-venv`.
pub fn python_with(module: &str) -> Option<PathBuf> {
    let python = env::var_os("ANTEROOM_TEST_PYTHON")
        .map_or_else(|| workspace_root().join("target/test-venv/bin/python"), PathBuf::from);
    let imported = Command::new(&python)
        .args(["-c", &format!("import {module}")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    imported.is_ok_and(|status| status.success()).then_some(python)
}

/// A program of Debian's packages `prometheus` and `prometheus-alertmanager`: in the folder that `ANTEROOM_TEST_MONITORING` names,
/// else in the one where `./test` unpacks them, else installed.
pub fn monitoring_program(name: &str) -> Option<PathBuf> {
    let unpacked = env::var_os("ANTEROOM_TEST_MONITORING")
        .map_or_else(|| workspace_root().join("target/test-monitoring/usr/bin"), PathBuf::from);
    [unpacked, PathBuf::from("/usr/bin")]
        .into_iter()
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// Whether a test that needs Redis can go on; see [`require`].
pub fn require_redis() -> bool {
    let asked =
        Command::new(redis_server()).arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).status();
    require("redis-server", asked.is_ok_and(|status| status.success()))
}

/// The program that tests run as Redis: the one named by `ANTEROOM_TEST_REDIS_SERVER`, else `redis-server`.
pub(crate) fn redis_server() -> OsString {
    env::var_os("ANTEROOM_TEST_REDIS_SERVER").unwrap_or_else(|| "redis-server".into())
}
