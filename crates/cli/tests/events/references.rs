//! The schemas of events in `docs/api/events/` are what the code says, and events of a real server keep to them.

use std::fs;

use anteroom_core::EventKind;
use anteroom_testkit::workspace_root;
use serde_json::Value;

/// The documents are compared with the code, or written if `ANTEROOM_WRITE_REFERENCES` is set.
#[test]
fn the_schemas_of_the_reference_are_those_of_the_code() {
    let directory = workspace_root().join("docs/api/events");
    let is_writing = std::env::var_os("ANTEROOM_WRITE_REFERENCES").is_some();
    if is_writing {
        fs::create_dir_all(&directory).unwrap();
    }
    let mut expected: Vec<String> = vec![];
    for kind in EventKind::ALL {
        let name = format!("{kind}.json");
        let text = format!("{:#}\n", anteroom_events::schemas::schema_of(*kind));
        let path = directory.join(&name);
        if is_writing {
            fs::write(&path, &text).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(found, text, "{name} is not what the code says; see CONTRIBUTING.md");
        expected.push(name);
    }
    expected.sort();
    let mut found: Vec<String> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| std::path::Path::new(name).extension().is_some_and(|extension| extension == "json"))
        .collect();
    found.sort();
    assert_eq!(found, expected, "there is a schema of every kind, and of nothing else");
    let schema: Value =
        serde_json::from_str(&fs::read_to_string(directory.join("room.paused.json")).unwrap()).unwrap();
    assert_eq!(schema["properties"]["type"]["const"], "room.paused");
}
