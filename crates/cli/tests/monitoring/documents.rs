//! Documents that rules and dashboards send operators to.

use std::fs;

use anteroom_testkit::workspace_root;

/// The text of a document of the repository.
#[track_caller]
pub(crate) fn read(document: &str) -> String {
    fs::read_to_string(workspace_root().join(document)).unwrap_or_else(|error| panic!("{document}: {error}"))
}

/// Whether there is such a document, and in it a heading that leads to the anchor.
#[track_caller]
pub(crate) fn assert_has_section(address: &str) {
    let (document, anchor) = address.split_once('#').unwrap_or_else(|| panic!("no section: {address}"));
    let text = read(document);
    let mut headings = text.lines().filter(|line| line.starts_with('#'));
    assert!(headings.any(|heading| slug(heading) == anchor), "{document} has no section {anchor}");
}

/// The anchor of a heading, as GitHub makes it.
fn slug(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    words
        .chars()
        .filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            letter if letter.is_alphanumeric() => Some(letter),
            _ => None,
        })
        .collect()
}

#[test]
fn a_section_that_is_not_there_is_found() {
    assert_has_section("docs/operating/alarms.md#what-a-firing-alarm-does");
    let missing = std::panic::catch_unwind(|| assert_has_section("docs/operating/alarms.md#nothing"));
    assert!(missing.is_err());
}
