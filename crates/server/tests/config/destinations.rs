//! `[[destination]]` tables: what they become, and the message for each mistake.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the way to fail")]

use std::path::Path;

use anteroom_server::config::{Config, ConfigError, Loaded, file_destinations};
use secrecy::ExposeSecret;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const PREVIOUS: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx";

fn load_in(directory: &Path, text: &str) -> Result<Loaded, ConfigError> {
    std::fs::write(directory.join("anteroom.toml"), text).unwrap();
    Config::load(None, directory, [])
}

/// The messages, each from its line on.
fn messages(text: &str) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let error = load_in(directory.path(), text).map(|loaded| loaded.config).expect_err(text);
    let strip = |message: String| message.split_once("anteroom.toml:").map(|(_, rest)| rest.to_owned());
    error.problems().iter().map(|problem| strip(problem.to_string()).unwrap()).collect()
}

#[test]
fn tables_become_destinations() {
    let directory = tempfile::tempdir().unwrap();
    let secret = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, format!("{text}\n")).unwrap();
        path.display().to_string()
    };
    let (new, old, aws) = (secret("new", SECRET), secret("old", PREVIOUS), secret("aws", "the-secret"));
    let text = format!(
        "events_directory = \"events\"
        [[destination]]
        name = \"shop\"
        kind = \"webhook\"
        url = \"https://shop.example/hooks\"
        batch_max = 1_00
        rooms = [\"Hall\"]
        types = [\"default\", \"session.*\"]
        schedule = \"standard\"
        secret_file = \"{new}\"
        previous_secret_file = \"{old}\"
        [[destination]]
        name = \"bus\"
        kind = \"eventbridge\"
        region = \"eu-central-1\"
        access_key_id = \"AKIDEXAMPLEEXAMPLE00\"
        with_request_ids = false
        secret_file = \"{aws}\"
        [[room]]
        id = \"Hall\"
        [[destination]]
        name = \"log\"
        kind = \"file\"
        "
    );
    let loaded = load_in(directory.path(), &text).unwrap();
    let destinations = file_destinations(&loaded.destinations).unwrap();
    assert!(!format!("{destinations:?}").contains(SECRET), "secrets are not printed");
    let [shop, bus, log] = &destinations[..] else { panic!("three destinations") };
    assert_eq!((shop.name.as_str(), bus.name.as_str(), log.name.as_str()), ("shop", "bus", "log"));
    assert_eq!((shop.terms.batch_max, shop.terms.schedule.as_deref()), (Some(100), Some("standard")));
    assert_eq!(shop.terms.rooms.as_deref().unwrap(), ["Hall"]);
    assert_eq!(shop.secrets.present.as_ref().unwrap().expose_secret(), SECRET);
    assert_eq!(shop.secrets.previous.as_ref().unwrap().expose_secret(), PREVIOUS);
    assert_eq!(bus.terms.with_request_ids, Some(false));
    assert_eq!(bus.secrets.present.as_ref().unwrap().expose_secret(), "the-secret");
    assert!(log.secrets.present.is_none());
}

#[test]
fn each_mistake_is_told_with_its_line() {
    let good =
        "name = \"shop\"\nkind = \"webhook\"\nurl = \"https://shop.example/\"\nalgorithm = \"ed25519\"\n";
    let with = |more: &str| format!("[[destination]]\n{good}{more}");
    for (text, expected) in [
        (with("type = [\"*\"]"), "6: unknown key `type`; did you mean `types`?"),
        (
            with("public_addr = \"127.0.0.1:1\""),
            "6: `public_addr` is a server setting, but stands in a [[destination]]; move it above the first table",
        ),
        (with("batch_max = \"5\""), "6: batch_max = \"5\": must be a whole number of events"),
        (with("batch_max = 0"), "6: batch_max = 0: must be 1 to 100"),
        (with("timeout_seconds = -5"), "6: timeout_seconds = -5: must be a whole number of seconds"),
        (with("with_request_ids = \"yes\""), "6: with_request_ids = \"yes\": must be true or false"),
        (with("rooms = \"Hall\""), "6: rooms = \"Hall\": must be a list of texts"),
        (
            with("types = [\"room.opend\"]"),
            "6: types = (a TOML array): has \"room.opend\", which names no kind of event; did you mean room.opened?",
        ),
        (
            with("password = \"x\""),
            "6: password = (not repeated): a secret does not belong in this file; put it into a file of its own, and name that as `secret_file`",
        ),
        (
            with("secret_file = \"x\""),
            "6: secret_file = \"x\": is not given with ed25519: the key pair is made by the server",
        ),
        (
            with(&format!("[[destination]]\n{good}")),
            "7: the destination `shop` was already defined on line 2",
        ),
        (
            "destination = 5".to_owned(),
            "1: `destination` must be an array of tables, each written as [[destination]]",
        ),
        ("[[destination]]\nkind = \"file\"".to_owned(), "1: this [[destination]] has no `name`"),
        (
            "[[destination]]\nname = \"log\"\nkind = \"file\"".to_owned(),
            "3: kind = \"file\": file needs the server setting events_directory, which says where",
        ),
        (
            with("").replace("https://shop.example/", "https://127.0.0.1/"),
            "4: url = \"https://127.0.0.1/\": is at an address that is loopback, and destinations_private_allowed does not list 127.0.0.1",
        ),
    ] {
        assert_eq!(messages(&text), [expected], "{text}");
    }
}

#[test]
fn mistakes_in_settings_rooms_and_destinations_are_told_together() {
    let text = "events_kept_seconds = 5\n[[room]]\nid = \"Hall\"\nvalidity = 5\n[[destination]]\nname = \"a b\"\n\
        kind = \"webhook\"\nurl = \"http://shop.example/\"\nbatch_max = 0\nsecret_file = \"x\"\n[[destination]]\n";
    let messages = messages(text);
    let expected =
        ["1: events_kept_seconds", "4: unknown key", "6: name", "9: batch_max", "11: this [[destination]]"];
    assert_eq!(messages.len(), expected.len(), "{messages:#?}");
    for (message, expected) in messages.iter().zip(expected) {
        assert!(message.starts_with(expected), "{messages:#?}");
    }
}
