//! `[[room.client]]` tables: what they become, and the message for each mistake.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the way to fail")]

use std::ffi::OsString;

use anteroom_server::config::{Config, ConfigError, Loaded, file_rooms};
use anteroom_tokens::api_key::ApiKeyDigest;

const SECRET: &str = "a-secret-that-is-long-enough";

fn load(text: &str) -> Result<Loaded, ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("anteroom.toml"), text).unwrap();
    let environment = [("ANTEROOM_NEW", SECRET), ("ANTEROOM_OLD", "another-secret-of-that-kind")];
    let used = environment.iter().filter(|(name, _)| text.contains(name));
    Config::load(
        None,
        directory.path(),
        used.map(|(name, value)| (OsString::from(name), OsString::from(value))),
    )
}

/// The messages, each from its line on.
fn messages(text: &str) -> Vec<String> {
    let error = load(text).map(|loaded| loaded.config).expect_err(text);
    let strip = |message: String| message.split_once("anteroom.toml:").map(|(_, rest)| rest.to_owned());
    error.problems().iter().map(|problem| strip(problem.to_string()).unwrap()).collect()
}

#[test]
fn tables_become_clients_of_their_room() {
    let text = "
        [[room]]
        id = \"Hall\"
        validity_period = 600
        [[room.client]]
        redirect_addresses = [\"https://shop.example/callback\", \"http://127.0.0.1/cb\"]
        secret_env = \"ANTEROOM_NEW\"
        previous_secret_env = \"ANTEROOM_OLD\"
        access_token_seconds = 9_00
        [[room.client]]
        id = \"app\"
        name = \"The app\"
        redirect_addresses = [\"com.example.app:/cb\"]
        public = true
        login_address = \"https://shop.example/login\"
        [[room]]
        id = \"Yard\"
        [[room.client]]
        id = \"app\"
        redirect_addresses = [\"https://yard.example/callback\"]
        secret_env = \"ANTEROOM_NEW\"
    ";
    let loaded = load(text).unwrap();
    assert!(!format!("{:?}", loaded.rooms).contains(SECRET), "secrets are not printed");
    let [hall, yard] = &file_rooms(&loaded.rooms).unwrap()[..] else { panic!("two rooms") };
    assert_eq!((hall.room.as_str(), yard.room.as_str()), ("Hall", "Yard"));
    let [first, app] = &hall.clients[..] else { panic!("two clients") };
    assert_eq!((&first.terms.id, first.terms.access_token_seconds), (&None, Some(900)));
    assert_eq!(first.terms.redirect_addresses.len(), 2);
    let [new, old] = &first.secrets[..] else { panic!("two secrets") };
    assert!(new.equals(&ApiKeyDigest::of(SECRET)) && !old.equals(new));
    assert_eq!((app.terms.name.as_deref(), app.terms.is_public), (Some("The app"), true));
    assert_eq!(app.terms.login_address.as_deref(), Some("https://shop.example/login"));
    assert!(app.secrets.is_empty());
    assert_eq!(yard.clients[0].terms.redirect_addresses, ["https://yard.example/callback"]);
}

#[test]
fn each_mistake_is_told_with_its_line() {
    let good = "redirect_addresses = [\"https://shop.example/callback\"]\npublic = true\n";
    let with = |more: &str| format!("[[room]]\nid = \"Hall\"\n[[room.client]]\n{good}{more}");
    for (text, expected) in [
        (with("nam = \"x\""), "6: unknown key `nam`; did you mean `name`?"),
        (
            with("validity_period = 5"),
            "6: validity_period = 5: is a setting of the room; move it above the [[room.client]]",
        ),
        (
            with("public_addr = \"127.0.0.1:1\""),
            "6: `public_addr` is a server setting, but stands in a [[room]]; move it above the first [[room]]",
        ),
        (with("name = 5"), "6: name = 5: must be a text"),
        (
            with("access_token_seconds = \"5\""),
            "6: access_token_seconds = \"5\": must be a whole number of seconds",
        ),
        (
            with("access_token_seconds = -5"),
            "6: access_token_seconds = -5: must be a whole number of seconds",
        ),
        (with("id_token_seconds = 0"), "6: id_token_seconds = 0: must be 1 to 31536000"),
        (
            with("secret_env = \"ANTEROOM_NEW\""),
            "6: secret_env = \"ANTEROOM_NEW\": the client is public and has no secret",
        ),
        (
            with(&format!("[[room.client]]\nid = \"Hall\"\n{good}")),
            "7: id = \"Hall\": the room has a client of this id on line 3; a client without `id` has the room's",
        ),
        (
            "[[room]]\nid = \"Hall\"\nclient = 5".to_owned(),
            "3: client = (not a list of tables): must be written as [[room.client]]",
        ),
        (
            "[[room]]\nid = \"Hall\"\n[[room.client]]\npublic = true\nredirect_addresses = [1]".to_owned(),
            "5: redirect_addresses = (a TOML array): must be a list of texts",
        ),
        (
            "[[room]]\nid = \"Hall\"\n[[room.client]]\npublic = true".to_owned(),
            "3: redirect_addresses = (not given): must be a list of 1 to 20 addresses",
        ),
        (
            format!(
                "[[room]]\nid = \"Hall\"\n[[room.client]]\n{}\nsecret_env = \"ANTEROOM_NEW\"\nsecret_file = \"x\"",
                good.replace("public = true\n", "")
            ),
            "7: secret_file = \"x\": `secret_env` is given too; a secret has one place",
        ),
    ] {
        assert_eq!(messages(&text), [expected], "{text}");
    }
}

#[test]
fn mistakes_in_rooms_and_clients_are_told_together() {
    let text = "[[room]]\nid = \"Hall\"\nvalidity = 5\n[[room.client]]\nid = \"a b\"\npublic = true\n\
        redirect_addresses = [\"http://a.example/\", \"https://b.example/#x\"]\n[[room.client]]\nid = \"c\"\nsecret = \"x\"\n";
    let messages = messages(text);
    let lines: Vec<&str> = messages.iter().map(|message| message.split(" = ").next().unwrap()).collect();
    let expected = [
        "3: unknown key",
        "5: id",
        "7: redirect_addresses",
        "7: redirect_addresses",
        "8: secret_env",
        "10: secret",
    ];
    assert_eq!(lines.len(), expected.len(), "{messages:#?}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{messages:#?}");
    }
}

#[test]
fn there_is_an_end_to_the_number_of_clients() {
    let client = |number: u32| {
        format!(
            "[[room.client]]\nid = \"c{number}\"\npublic = true\nredirect_addresses = [\"https://shop.example/\"]\n"
        )
    };
    let clients: String = (0..65).map(client).collect::<Vec<_>>().concat();
    let text = format!("[[room]]\nid = \"Hall\"\n{clients}");
    assert_eq!(messages(&text), ["3: client = (65 tables): a room has at most 64 clients"]);
}
