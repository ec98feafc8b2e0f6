//! "A test reads `cargo metadata` and fails on a dependency that points upwards between our crates."

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// Our crates from the top to the bottom: each may depend on those after it.
const ORDER: [&str; 12] = [
    "anteroom",
    "anteroom-server",
    "anteroom-gateway",
    "anteroom-proxy",
    "anteroom-admission",
    "anteroom-engine",
    "anteroom-events",
    "anteroom-pages",
    "anteroom-store",
    "anteroom-tokens",
    "anteroom-guard",
    "anteroom-core",
];
/// Tools beside the product: nothing that ships may be built on them.
const TOOLS: [&str; 2] = ["anteroom-testkit", "anteroom-bench"];
/// Downward in the order, and forbidden all the same: the store remembers and compares, and knows no cryptography;
/// pages are told everything and look nothing up.
const FORBIDDEN: [(&str, &str); 2] =
    [("anteroom-store", "anteroom-tokens"), ("anteroom-pages", "anteroom-store")];

/// One sentence for each dependency that the layering forbids.
fn violations(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().expect("cargo lists packages");
    let ours: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut found = Vec::new();
    for package in packages {
        let name = package["name"].as_str().expect("a package has a name");
        if !ORDER.contains(&name) && !TOOLS.contains(&name) {
            found.push(format!("{name} has no place in the order"));
        }
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let target = dependency["name"].as_str().expect("a dependency has a name");
            if ours.contains(&target) {
                let only_for_tests = dependency["kind"] == "dev";
                found.extend(judge(name, target, only_for_tests));
            }
        }
    }
    found
}

/// What is wrong with `from` depending on `to`, if anything.
fn judge(from: &str, to: &str, only_for_tests: bool) -> Option<String> {
    // A crate's tests may switch on a feature of the crate itself.
    if from == to && only_for_tests {
        return None;
    }
    let rank = |name: &str| ORDER.iter().position(|other| *other == name);
    let wrong = match (rank(from), rank(to)) {
        (Some(upper), Some(lower)) if upper >= lower => Some("points upwards"),
        (Some(_), Some(_)) if FORBIDDEN.contains(&(from, to)) => Some("is forbidden"),
        (Some(_), None) if !only_for_tests => Some("makes a tool part of the product"),
        (None, Some(_)) if from == "anteroom-testkit" => {
            Some("lets the testkit know more than a client on the wire")
        }
        (None, None) if (from, to) != ("anteroom-bench", "anteroom-testkit") => {
            Some("ties two tools together")
        }
        _ => None,
    };
    wrong.map(|reason| format!("{from} -> {to} {reason}"))
}

#[test]
fn no_dependency_between_our_crates_points_upwards() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&str> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|package| package["name"].as_str())
        .collect();
    assert!(names.contains(&"anteroom") && names.contains(&"anteroom-core"), "{names:?}");
    assert_eq!(violations(&metadata), Vec::<String>::new());
}

/// The proxy forwards requests and knows no rooms: of the store it takes the clock, which is there for all crates.
#[test]
fn the_proxy_uses_only_the_clock_of_the_store() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proxy/src");
    let (mut directories, mut found, mut files) = (vec![sources], vec![], 0);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let source = fs::read_to_string(&path).unwrap();
            files += 1;
            let uses = source.match_indices("anteroom_store").map(|(at, _)| &source[at..]);
            let others = uses.filter(|rest| !rest.starts_with("anteroom_store::clock::"));
            found.extend(others.map(|rest| format!("{}: {}", path.display(), rest.lines().next().unwrap())));
        }
    }
    assert!(files > 3, "the sources of the proxy are elsewhere");
    assert_eq!(found, Vec::<String>::new());
}

/// Metadata of a made-up workspace: (crate, its dependencies with their kind).
fn made_up(crates: &[(&str, &[(&str, Value)])]) -> Value {
    let dependency = |(name, kind): &(&str, Value)| json!({ "name": name, "kind": kind });
    let package = |(name, dependencies): &(&str, &[(&str, Value)])| json!({ "name": name, "dependencies": dependencies.iter().map(dependency).collect::<Vec<_>>() });
    json!({ "packages": crates.iter().map(package).collect::<Vec<_>>() })
}

#[test]
fn the_checker_finds_made_up_violations() {
    let workspace = made_up(&[
        (
            "anteroom",
            &[("anteroom-server", json!(null)), ("anteroom-testkit", json!("dev")), ("serde", json!(null))],
        ),
        ("anteroom-server", &[("anteroom-testkit", json!(null)), ("anteroom-store", json!(null))]),
        ("anteroom-store", &[("anteroom-tokens", json!(null)), ("anteroom-core", json!(null))]),
        ("anteroom-tokens", &[]),
        ("anteroom-core", &[("anteroom-store", json!("dev")), ("anteroom-core", json!(null))]),
        ("anteroom-testkit", &[("anteroom-core", json!(null))]),
        ("anteroom-bench", &[("anteroom-store", json!(null)), ("anteroom-testkit", json!(null))]),
        ("anteroom-surprise", &[]),
    ]);
    let expected = [
        "anteroom-server -> anteroom-testkit makes a tool part of the product",
        "anteroom-store -> anteroom-tokens is forbidden",
        "anteroom-core -> anteroom-store points upwards",
        "anteroom-core -> anteroom-core points upwards",
        "anteroom-testkit -> anteroom-core lets the testkit know more than a client on the wire",
        "anteroom-surprise has no place in the order",
    ];
    assert_eq!(violations(&workspace), expected);
}

#[test]
fn the_checker_is_content_with_a_made_up_workspace_in_order() {
    let workspace = made_up(&[
        (
            "anteroom",
            &[
                ("anteroom-server", json!(null)),
                ("anteroom-core", json!("dev")),
                ("anteroom-testkit", json!("dev")),
            ],
        ),
        ("anteroom-server", &[("anteroom-store", json!(null)), ("anteroom-tokens", json!(null))]),
        ("anteroom-store", &[("anteroom-core", json!(null)), ("anteroom-store", json!("dev"))]),
        ("anteroom-tokens", &[("anteroom-core", json!(null))]),
        ("anteroom-core", &[]),
        ("anteroom-testkit", &[]),
        ("anteroom-bench", &[("anteroom-core", json!(null)), ("anteroom-testkit", json!(null))]),
    ]);
    assert_eq!(violations(&workspace), Vec::<String>::new());
}
