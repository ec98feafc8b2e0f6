//! What these tests write into the documents, compared on every run so that it cannot go stale.

use std::path::PathBuf;

const ASK: &str = "run this test with ANTEROOM_WRITE_REFERENCES=1 to write it anew";

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

fn is_writing() -> bool {
    std::env::var_os("ANTEROOM_WRITE_REFERENCES").is_some()
}

/// A file that is wholly generated.
pub(crate) fn compare_file(name: &str, expected: &str) {
    if is_writing() {
        std::fs::write(path(name), expected).unwrap();
    }
    let written = std::fs::read_to_string(path(name)).unwrap_or_default();
    assert!(written == expected, "docs/{name} differs: {ASK}");
}

/// A row of a table in a document: the one that begins like it. Rows are written by several tests, so when they are written anew,
/// let the tests run one after the other (`--test-threads=1`).
pub(crate) fn compare_row(name: &str, row: &str) {
    let document = std::fs::read_to_string(path(name)).unwrap();
    let first_cell = row.split_inclusive('|').take(2).collect::<String>();
    let written = document.lines().find(|line| line.starts_with(&first_cell));
    let written = written.unwrap_or_else(|| panic!("docs/{name} has no row {first_cell}"));
    if is_writing() {
        std::fs::write(path(name), document.replace(written, row)).unwrap();
        return;
    }
    assert_eq!(written, row, "docs/{name}: {ASK}");
}
