//! Every test that a document cites exists. Documents cite by path below `crates/`, or below the root, and by name:
//! `cli/tests/api/claims.rs::name`; `…::name` is another test of the file cited last; `*` stands for any file.

use std::fs;
use std::path::{Path, PathBuf};

use anteroom_testkit::workspace_root;

/// Documents that say what is shown by which test.
const DOCUMENTS: [&str; 4] = ["README.md", "ARCHITECTURE.md", "docs/promises.md", "docs/seeds.md"];
/// Fewer citations than this in all documents together mean that they are not found any more.
const CITATIONS_MIN: usize = 500;

/// What a document cites: a file, or the function of this name in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Citation {
    line: usize,
    file: String,
    /// Modules between the file and the function.
    modules: Vec<String>,
    function: Option<String>,
}

/// Every citation of a document, in order. What is in backticks and neither below a folder that holds sources nor `…::name` is none.
fn citations(root: &Path, document: &str) -> Vec<Citation> {
    let mut found: Vec<Citation> = Vec::new();
    for (index, text) in document.lines().enumerate() {
        for span in text.split('`').skip(1).step_by(2) {
            let mut parts = span.split("::").map(str::to_owned);
            let first = parts.next().unwrap_or_default();
            let file = if first == "…" {
                found.last().map_or(first, |last| last.file.clone())
            } else if is_source(root, &first) {
                first
            } else {
                continue;
            };
            let mut modules: Vec<String> = parts.collect();
            let function = modules.pop();
            found.push(Citation { line: index + 1, file, modules, function });
        }
    }
    found
}

/// Whether this is written like the path of a source file of ours.
fn is_source(root: &Path, path: &str) -> bool {
    let Some((folder, rest)) = path.split_once('/') else { return false };
    let is_plain = path.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._*-".contains(letter));
    let is_ours = ["crates", "bench"].contains(&folder) || root.join("crates").join(folder).is_dir();
    is_plain
        && is_ours
        && Path::new(path).extension().is_some_and(|extension| extension == "rs")
        && !rest.is_empty()
}

/// One sentence for each citation of something that is not there.
fn missing(root: &Path, name: &str, document: &str) -> Vec<String> {
    let complaint = |citation: &Citation| {
        let Citation { line, file, modules, function } = citation;
        let files = files(root, file);
        if files.is_empty() {
            return Some(format!("{name}:{line}: there is no {file}"));
        }
        let function = function.as_ref()?;
        let places = files.iter().flat_map(|path| places(path, modules));
        let is_there =
            places.filter_map(|path| fs::read_to_string(path).ok()).any(|text| defines(&text, function));
        (!is_there).then(|| format!("{name}:{line}: {file} has no {function}"))
    };
    citations(root, document).iter().filter_map(complaint).collect()
}

/// The files that a path names.
fn files(root: &Path, path: &str) -> Vec<PathBuf> {
    let below = [root.join("crates").join(path), root.join(path)];
    below.iter().flat_map(|path| matching(path)).collect()
}

/// The file of this path, or those of its folder whose names fit one `*`.
fn matching(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let Some((start, end)) = name.split_once('*') else {
        return path.is_file().then(|| path.to_owned()).into_iter().collect();
    };
    let entries = path.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let fits = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
    };
    entries.map(|entry| entry.path()).filter(fits).collect()
}

/// Where a function of these modules of a file may be: in the file itself, or in a file of the last module.
fn places(file: &Path, modules: &[String]) -> Vec<PathBuf> {
    let mut places = vec![file.to_owned()];
    if let Some(module) = modules.last() {
        let own_folder = file.with_extension("");
        let folders = [Some(own_folder.as_path()), file.parent()];
        places.extend(folders.into_iter().flatten().map(|folder| folder.join(format!("{module}.rs"))));
    }
    places
}

/// Whether a source file defines a function of this name.
fn defines(text: &str, function: &str) -> bool {
    text.match_indices(&format!("fn {function}"))
        .any(|(start, found)| text[start + found.len()..].starts_with(['(', '<']))
}

#[test]
fn every_test_that_a_document_cites_exists() {
    let root = workspace_root();
    let (mut complaints, mut count) = (Vec::new(), 0);
    for name in DOCUMENTS {
        let document = fs::read_to_string(root.join(name)).unwrap();
        count += citations(&root, &document).len();
        complaints.extend(missing(&root, name, &document));
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(count >= CITATIONS_MIN, "only {count} citations were found");
}

#[test]
fn made_up_citations_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let write = |path: &str, text: &str| {
        let path = root.join("crates").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("cli/tests/api/claims.rs", "#[test]\nfn claims_are_idempotent() {}\nfn helper<T>() {}\n");
    write("store/tests/redis/main.rs", "mod contract;\n");
    write("store/tests/redis/contract.rs", "#[test]\nfn one_redis_keeps_it() {}\n");
    let document = "`cli/tests/api/claims.rs`, `cli/tests/api/claims.rs::claims_are_idempotent`, `…::helper`\n\
        `cli/tests/api/c*.rs`, `store/tests/redis/main.rs::contract::one_redis_keeps_it`\n\
        `alarms.rs`, `file::name`, `GET /rooms/{id}`, `redis/scripts/take.rs`, `cli/tests/api/`\n";
    assert_eq!(missing(root, "good.md", document), Vec::<String>::new());
    assert_eq!(citations(root, document).len(), 5);

    let document = "| `cli/tests/gone.rs` |\n\
        | `cli/tests/api/claims.rs::claims_are`, `…::never_written` |\n\
        | `cli/tests/x*.rs`, `store/tests/redis/main.rs::contract::claims_are_idempotent` |\n";
    let expected = [
        "bad.md:1: there is no cli/tests/gone.rs",
        "bad.md:2: cli/tests/api/claims.rs has no claims_are",
        "bad.md:2: cli/tests/api/claims.rs has no never_written",
        "bad.md:3: there is no cli/tests/x*.rs",
        "bad.md:3: store/tests/redis/main.rs has no claims_are_idempotent",
    ];
    assert_eq!(missing(root, "bad.md", document), expected);
}
