//! Programs in Node, with what npm has installed for the tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, fs};

use anteroom_testkit::{require, workspace_root};

use crate::support::program::Program;

/// Where the programs of these tests are.
pub(crate) fn programs() -> PathBuf {
    workspace_root().join("crates/cli/tests/openid/programs")
}

/// Whether a command runs to a good end.
pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Whether Node and a package are there; see [`require`].
pub(crate) fn has_modules(package: &str) -> bool {
    let is_there = node_modules().join(package).is_dir() && succeeds("node", &["--version"]);
    require(&format!("Node with {package}"), is_there)
}

/// Starts one of the programs in a directory of its own.
#[track_caller]
pub(crate) fn node_program(file: &str, directory: &Path, environment: &[(&str, &str)]) -> Program {
    lay_out(file, directory);
    Program::start(Path::new("node"), &[file], directory, environment)
}

/// Runs one of the programs to its end.
#[track_caller]
pub(crate) fn node_output(file: &str, environment: &[(&str, &str)]) -> Output {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    lay_out(file, directory.path());
    let mut command = Command::new("node");
    command.arg(file).current_dir(directory.path()).envs(environment.iter().copied()).stdin(Stdio::null());
    command.output().unwrap_or_else(|error| panic!("Node does not start: {error}"))
}

/// Node looks for packages beside the program and above it.
fn lay_out(file: &str, directory: &Path) {
    fs::copy(programs().join(file), directory.join(file)).expect("a program can be copied");
    std::os::unix::fs::symlink(node_modules(), directory.join("node_modules")).expect("linked");
}

fn node_modules() -> PathBuf {
    env::var_os("ANTEROOM_TEST_NODE_MODULES")
        .map_or_else(|| workspace_root().join("target/test-node/node_modules"), PathBuf::from)
}
