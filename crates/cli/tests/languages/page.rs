//! Code blocks of the documents, to be run as they stand there.

use std::fs;

use anteroom_testkit::workspace_root;

/// The only code block of this kind in a page of `docs/integrating`.
#[track_caller]
pub(crate) fn code_block(page: &str, kind: &str) -> String {
    let path = workspace_root().join("docs/integrating").join(page);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let begin = format!("\n```{kind}\n");
    let blocks: Vec<&str> = text.split(begin.as_str()).skip(1).collect();
    let [block] = blocks[..] else { panic!("{} blocks of {kind} in {page}", blocks.len()) };
    let (code, _) = block.split_once("\n```").expect("a block ends");
    format!("{code}\n")
}

/// Replaces a text that must be there.
#[track_caller]
pub(crate) fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "no {from:?} in:\n{text}");
    text.replace(from, to)
}
