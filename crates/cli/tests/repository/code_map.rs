//! The code map of `ARCHITECTURE.md` names every source file of our crates, or the folder or module that it is below.

use std::fs;
use std::path::{Path, PathBuf};

use anteroom_testkit::workspace_root;

/// What the first columns of a section's tables name. A name may begin with its crate: `engine/src/engine/restore.rs`.
fn names(section: &str) -> Vec<String> {
    let cells =
        section.lines().filter(|line| line.starts_with('|')).filter_map(|line| line.split('|').nth(1));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned)).collect()
}

/// The sections of the code map: the crates in the heading, and the text.
fn sections(architecture: &str) -> Vec<(Vec<String>, &str)> {
    let (_, map) = architecture.split_once("\n## Code map\n").expect("there is a code map");
    let map = map.split("\n## ").next().unwrap_or(map);
    let section = |text| {
        let heading = str::lines(text).next().unwrap_or_default();
        let crates = heading.split('`').filter_map(|word| word.strip_prefix("crates/"));
        (crates.map(str::to_owned).collect(), text)
    };
    map.split("\n### ").skip(1).map(section).collect()
}

/// Whether names have a row for a file below `src`: its own, or one of a folder or module that it is below or that it begins.
fn has_row(names: &[String], file: &Path) -> bool {
    let module = file.with_extension("");
    let begins_named_files = names.iter().any(|name| name.starts_with(&format!("{}/", module.display())));
    let is_named = |path: &Path| {
        let path = path.to_string_lossy();
        names.iter().any(|name| *name == format!("{path}.rs") || *name == format!("{path}/"))
    };
    begins_named_files || module.ancestors().take_while(|path| !path.as_os_str().is_empty()).any(is_named)
}

/// Source files below a folder. The first file of a crate tells its own story in its header, and tests belong to what they test.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![folder.to_owned()], vec![]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path.strip_prefix(folder).expect("it is below").to_owned());
            }
        }
    }
    let is_exempt =
        |path: &PathBuf| ["lib.rs", "main.rs", "tests.rs"].map(Path::new).contains(&path.as_path());
    files.retain(|path| !is_exempt(path));
    files.sort();
    files
}

/// The files of a crate without a row.
fn unmapped(names: &[String], name: &str, files: &[PathBuf]) -> Vec<String> {
    let prefix = format!("{name}/src/");
    let names: Vec<String> =
        names.iter().map(|name| name.strip_prefix(&prefix).unwrap_or(name).to_owned()).collect();
    let missing = files.iter().filter(|file| !has_row(&names, file));
    missing.map(|file| format!("{prefix}{}", file.display())).collect()
}

#[test]
fn every_source_file_has_a_row_in_the_code_map() {
    let root = workspace_root();
    let architecture = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (mut missing, mut mapped) = (vec![], vec![]);
    for (crates, text) in sections(&architecture) {
        for name in crates {
            let files = sources(&root.join("crates").join(&name).join("src"));
            missing.extend(unmapped(&names(text), &name, &files));
            mapped.push(name);
        }
    }
    assert_eq!(missing, Vec::<String>::new(), "without a row in the code map");
    let entries = fs::read_dir(root.join("crates")).unwrap();
    let mut crates: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    crates.sort();
    mapped.sort();
    assert_eq!(mapped, crates, "each crate is in one section of the code map");
}

#[test]
fn a_file_without_a_row_is_found() {
    let map = "\n## Code map\n\n### `crates/one`, `crates/two`\n\n| file | |\n|---|---|\n\
        | `owner.rs`, `one/src/one/watch.rs` | `gone.rs` |\n| `ops/` | |\n\n## Next\n\n### `crates/three`\n";
    let found = sections(map);
    let [(crates, text)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(*crates, ["one", "two"]);
    let files =
        ["gone.rs", "one.rs", "one/watch.rs", "ops.rs", "ops/a/b.rs", "owner.rs", "owner/turn.rs", "turn.rs"];
    let missing = unmapped(&names(text), "one", &files.map(PathBuf::from));
    assert_eq!(missing, ["one/src/gone.rs", "one/src/turn.rs"]);
}
