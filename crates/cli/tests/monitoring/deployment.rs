//! The files of `deploy`, and the programs that they are for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anteroom_testkit::{monitoring_program, require, workspace_root};

use crate::support::operator::{Ran, finish};

/// A program, or why its test does not run.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let found = monitoring_program(name);
    require(name, found.is_some()).then_some(found).flatten()
}

/// A file below `deploy`.
pub(crate) fn path(file: &str) -> PathBuf {
    workspace_root().join("deploy").join(file)
}

/// Its text.
#[track_caller]
pub(crate) fn read(file: &str) -> String {
    fs::read_to_string(path(file)).unwrap_or_else(|error| panic!("deploy/{file}: {error}"))
}

/// A text in which each of these was replaced, wherever it stands.
#[track_caller]
pub(crate) fn replaced(text: &str, replacements: &[(&str, &str)]) -> String {
    replacements.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "no {from:?} in\n{text}");
        text.replace(from, to)
    })
}

/// Runs a program to its end in a directory.
#[track_caller]
pub(crate) fn run(program: &Path, directory: &Path, arguments: &[&str]) -> Ran {
    finish(
        Command::new(program)
            .args(arguments)
            .current_dir(directory)
            .env("HOME", directory)
            .stdin(Stdio::null()),
    )
}

/// Runs a checker, which must be content; returns what it says of it.
#[track_caller]
pub(crate) fn check(program: &Path, directory: &Path, arguments: &[&str]) -> String {
    let ran = run(program, directory, arguments);
    assert_eq!(ran.code, Some(0), "{arguments:?}: {}{}", ran.stdout, ran.stderr);
    ran.stdout
}
