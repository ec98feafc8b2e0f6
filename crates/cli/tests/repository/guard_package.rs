//! The guard builds from its own archive: sites take it from there, without the rest of this workspace.

use std::path::Path;
use std::process::Command;

use anteroom_testkit::{full, workspace_root};
use serde_json::Value;

fn cargo(directory: &Path, arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO")).args(arguments).current_dir(directory).output().expect("cargo starts");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Its dependencies are built anew, so the build itself is for the full size; else what the archive says is looked at.
#[test]
fn the_archive_of_the_guard_stands_alone_and_builds() {
    let target = tempfile::tempdir().unwrap();
    let target_directory = target.path().display().to_string();
    let mut package = vec![
        "package",
        "-p",
        "anteroom-guard",
        "--allow-dirty",
        "--offline",
        "--target-dir",
        &target_directory,
    ];
    if !full() {
        package.push("--no-verify");
    }
    cargo(&workspace_root(), &package);
    let archives = target.path().join("package");
    let name = concat!("anteroom-guard-", env!("CARGO_PKG_VERSION"));
    let unpacked =
        Command::new("tar").args(["-xzf", &format!("{name}.crate")]).current_dir(&archives).status();
    assert!(unpacked.unwrap().success());
    let metadata =
        cargo(&archives.join(name), &["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let package = &metadata["packages"][0];
    assert_eq!(metadata["packages"].as_array().unwrap().len(), 1);
    for dependency in package["dependencies"].as_array().unwrap() {
        let name = dependency["name"].as_str().unwrap();
        assert!(dependency["path"].is_null() && !name.starts_with("anteroom"), "{dependency}");
    }
    for field in ["description", "license", "readme", "rust_version"] {
        assert!(package[field].is_string(), "{field}: {}", package[field]);
    }
    assert!(package["publish"].is_null(), "it may be published: {}", package["publish"]);
}
