//! The files of a recipe, with the ports and the key of a test in the place of the written ones.

use std::fs;
use std::path::Path;

use anteroom_testkit::workspace_root;

/// The port at which the recipes expect visitors.
const VISITORS: u16 = 8000;
/// The port at which they expect the site.
const SITE: u16 = 3000;
/// The ports at which they expect Anteroom: public, private, gRPC.
const PUBLIC: u16 = 8080;
const PRIVATE: u16 = 8081;
const EXT_AUTHZ: u16 = 9001;
/// What stands in the place of a key.
const KEY: &str = "PUT-THE-KEY-HERE";

/// The ports of a test.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) visitors: u16,
    pub(crate) site: u16,
    pub(crate) public: u16,
    pub(crate) private: u16,
    pub(crate) ext_authz: u16,
}

/// A file of a recipe as it stands.
#[track_caller]
pub(crate) fn read(recipe: &str, file: &str) -> String {
    let path = workspace_root().join("deploy/recipes").join(recipe).join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The same for the ports of a test.
#[track_caller]
pub(crate) fn read_for(recipe: &str, file: &str, ports: &Ports) -> String {
    let replaced = [
        (VISITORS, ports.visitors),
        (SITE, ports.site),
        (PUBLIC, ports.public),
        (PRIVATE, ports.private),
        (EXT_AUTHZ, ports.ext_authz),
    ];
    replace_numbers(&read(recipe, file), &replaced)
}

/// Copies all files of a recipe into a directory. `edits` are texts that must occur in one of them, and what takes their place.
#[track_caller]
pub(crate) fn copy(recipe: &str, directory: &Path, ports: &Ports, key: &str, edits: &[(&str, &str)]) {
    let folder = workspace_root().join("deploy/recipes").join(recipe);
    let mut made = vec![false; edits.len()];
    for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("a file").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name in letters");
        // A reader who has run the recipe has left directories here.
        if path.is_dir() || name.starts_with('.') {
            continue;
        }
        let mut text = read_for(recipe, name, ports).replace(KEY, key);
        for ((from, to), made) in edits.iter().zip(&mut made) {
            *made |= text.contains(from);
            text = text.replace(from, to);
        }
        fs::write(directory.join(name), text).expect("a file can be written in a temporary directory");
    }
    assert!(made.iter().all(|made| *made), "{recipe} has not all of {edits:?}");
}

/// Replaces whole numbers, each in one pass, so that no new one is replaced again.
fn replace_numbers(text: &str, replaced: &[(u16, u16)]) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let end = rest[start..]
            .find(|letter: char| !letter.is_ascii_digit())
            .map_or(rest.len(), |length| start + length);
        let number = &rest[start..end];
        let new = replaced.iter().find(|(from, _)| number == from.to_string());
        result.push_str(&rest[..start]);
        result.push_str(&new.map_or_else(|| number.to_owned(), |(_, to)| to.to_string()));
        rest = &rest[end..];
    }
    result + rest
}

#[test]
fn only_whole_numbers_are_replaced() {
    let replaced = [(8000, 18_080), (8080, 3000), (3000, 1)];
    let text = "a 127.0.0.1:8000, 8080; 18000 80800 port: 3000";
    assert_eq!(replace_numbers(text, &replaced), "a 127.0.0.1:18080, 3000; 18000 80800 port: 1");
}
