//! `anteroom destination …`, and the destinations of the configuration file.

use anteroom_testkit::Server;
use serde_json::{Value, json};

use crate::support::BINARY;
use crate::support::operator::{Operator, finish_with_input};

const SETTINGS: &str = "events_directory = \"events\"\ndestinations_private_allowed = [\"127.0.0.0/8\"]\n";
const HOOK: [&str; 2] = ["--to", "https://shop.example/hooks"];
const OWN_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx";

fn server() -> (Server, Operator) {
    let server = Server::builder(BINARY).config(SETTINGS).start().expect("the server starts");
    let operator = Operator::of(&server);
    (server, operator)
}

fn create<'a>(kind: &'a str, name: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["destination", "create", kind, name][..], more].concat()
}

#[test]
fn stdout_holds_the_key_and_nothing_else() {
    let (server, operator) = server();
    let made = operator.run(&create("webhook", "shop", &HOOK));
    assert_eq!(made.code, Some(0), "{made:?}");
    assert_eq!(made.stderr, "destination shop; its secret is shown only now\n");
    let secret = made.stdout.trim_end().to_owned();
    assert!(secret.starts_with("whsec_") && !secret.contains(char::is_whitespace), "{made:?}");

    let pair = operator.run(&create("webhook", "pair", &[&HOOK[..], &["--algorithm", "ed25519"]].concat()));
    assert_eq!(pair.stderr, "destination pair; this is the public key of its key pair\n");
    assert!(pair.stdout.starts_with("whpk_"), "{pair:?}");

    std::fs::write(server.directory().join("own"), format!("{OWN_SECRET}\n")).expect("written");
    let own = operator.run(&create("webhook", "own", &[&HOOK[..], &["--secret-file", "own"]].concat()));
    assert_eq!((own.code, own.stdout.as_str(), own.stderr.as_str()), (Some(0), "", "destination own\n"));
    let bus = ["--region", "eu-central-1", "--key-id", "AKIDEXAMPLEEXAMPLE00", "--secret-file", "-"];
    let bus = finish_with_input(&mut operator.command(&create("eventbridge", "bus", &bus)), "aws-secret\n");
    assert_eq!((bus.code, bus.stdout.as_str()), (Some(0), ""), "{bus:?}");
    operator.run(&create("nats", "stream", &["--to", "nats://127.0.0.1:4222", "--room", "Hall"]));
    operator.run(&create("file", "log", &["--type", "*", "--files-max", "3"]));

    let rotated = operator.run(&["destination", "rotate-secret", "shop", "--previous-for", "7d"]);
    assert!(rotated.stdout.starts_with("whsec_") && rotated.stdout.trim_end() != secret, "{rotated:?}");
    let shop = operator.json(&["destination", "show", "shop"]);
    assert_eq!(shop["secrets"].as_array().map(Vec::len), Some(2));
    let said = operator.done(&["destination", "rotate-secret", "shop", "--end-previous"]);
    assert_eq!(said, "previous secret of destination shop revoked\n");

    let text = operator.done(&["destination", "list"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("DESTINATION  KIND         STATE   WAITING  DELIVERED  DEAD  FROM  TO"),
        "{text}"
    );
    assert!(
        lines[1].starts_with("shop         webhook      active") && lines[1].ends_with(HOOK[1]),
        "{text}"
    );
    assert!(lines[4].ends_with("default in eu-central-1"), "{text}");
    assert!(lines[6].starts_with("log          file "), "{text}");
    assert!(!text.contains(&secret));
    let shown = operator.done(&["destination", "show", "stream"]);
    assert!(shown.contains("subject_prefix") && shown.contains("Hall"), "{shown}");
    assert!(shown.contains("status.dead_letters"), "{shown}");
}

#[test]
fn destinations_are_run_from_the_command_line() {
    let (_server, operator) = server();
    operator.run(&create("webhook", "shop", &HOOK));
    let set = [
        "destination",
        "set",
        "shop",
        "--type",
        "room.*",
        "--type",
        "aws",
        "--room",
        "Hall",
        "--batch-max",
        "7",
    ];
    assert_eq!(operator.done(&set), "destination shop changed\n");
    let shop = operator.json(&["destination", "show", "shop"]);
    assert_eq!((&shop["types"], &shop["rooms"]), (&json!(["room.*", "aws"]), &json!(["Hall"])));
    assert_eq!((&shop["batch_max"], &shop["url"]), (&json!(7), &json!(HOOK[1])), "what was not said stays");
    operator.done(&[
        "destination",
        "set",
        "shop",
        "--all-rooms",
        "--schedule",
        "standard",
        "--with-request-ids",
    ]);
    let shop = operator.json(&["destination", "show", "shop"]);
    assert_eq!(
        (&shop["rooms"], &shop["schedule"], &shop["with_request_ids"]),
        (&json!([]), &json!("standard"), &json!(true))
    );
    assert_eq!(operator.done(&["destination", "pause", "shop"]), "destination shop is paused\n");
    assert_eq!(operator.done(&["destination", "resume", "shop"]), "destination shop is active\n");
    let replayed = operator.done(&["destination", "replay", "shop", "--after", "0"]);
    assert_eq!(replayed, "destination shop gets the events after 0 once more\n");
    let letters = operator.done(&["destination", "dead-letters", "shop"]);
    assert_eq!(letters, "NUMBER  TYPE  GIVEN UP  ATTEMPTS  ID  REASON\n");
    let replayed = operator.done(&["destination", "dead-letters", "shop", "--replay"]);
    assert_eq!(replayed, "the dead letters of destination shop are sent again\n");
    let unsure = operator.failed(2, &["destination", "dead-letters", "shop", "--drop"]);
    assert!(unsure.contains("hint: add --yes if you mean it"), "{unsure}");
    operator.done(&["destination", "dead-letters", "shop", "--drop", "--yes"]);
    let tested = operator.failed(1, &["destination", "test", "shop"]);
    assert!(tested.starts_with("error: destination shop did not take the test: "), "{tested}");
    operator.failed(2, &["destination", "delete", "shop"]);
    let deleted = operator.json(&["destination", "delete", "shop", "--yes"]);
    assert_eq!(deleted, json!({"deleted": "shop"}));
    assert_eq!(operator.json(&["destination", "list"]), json!({"destinations": []}));
}

#[test]
fn what_is_wrong_is_said_with_what_helps() {
    let (_server, operator) = server();
    let json = [&create("webhook", "shop", &HOOK)[..], &["--format", "json"]].concat();
    let made: Value = serde_json::from_str(&operator.run(&json).stdout).expect("JSON");
    assert!(made["secret"].as_str().is_some_and(|secret| secret.starts_with("whsec_")), "{made}");
    let said = operator.failed(3, &["destination", "pause", "shoo"]);
    assert_eq!(said, "error: there is no destination shoo\nhint: did you mean `shop`?\n");
    let said = operator.failed(5, &create("webhook", "shop", &HOOK));
    assert_eq!(said, "error: There is a destination of that name; delete it first, or choose another name\n");
    let said = operator.failed(1, &create("webhook", "x", &["--to", "http://1.1.1.1/"]));
    assert!(said.contains("`url` is not encrypted: use https://"), "{said}");
    let said =
        operator.failed(1, &create("webhook", "x", &[&HOOK[..], &["--type", "session.began"]].concat()));
    assert!(said.contains("did you mean session.begun?"), "{said}");
    let said =
        operator.failed(2, &create("webhook", "x", &[&HOOK[..], &["--secret-file", "not-there"]].concat()));
    assert!(said.contains("cannot read the secret from not-there"), "{said}");
    operator.failed(2, &create("webhook", "x", &[]));
    operator.failed(2, &["destination", "replay", "shop"]);
    operator.failed(2, &["destination", "replay", "shop", "--after", "1", "--event-id", "x"]);
    operator.failed(3, &["destination", "delete", "../keys/x", "--yes"]);
}

fn destination(name: &str, more: &str) -> String {
    format!(
        "[[destination]]\nname = \"{name}\"\nkind = \"webhook\"\nurl = \"https://shop.example/hooks\"\n{more}\n"
    )
}

fn names(operator: &Operator) -> Vec<(String, bool)> {
    let listed = operator.json(&["destination", "list"]);
    let destinations = listed["destinations"].as_array().expect("a list").clone();
    let of = |one: &Value| (one["name"].as_str().expect("a name").to_owned(), one["from_file"] == true);
    destinations.iter().map(of).collect()
}

#[test]
fn destinations_of_the_file_are_as_the_file_says() {
    let directory = tempfile::tempdir().expect("a directory");
    let secret = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, format!("{text}\n")).expect("written");
        path.display().to_string()
    };
    let (own, other) = (secret("own", OWN_SECRET), secret("other", OTHER_SECRET));
    let pair = destination("pair", "algorithm = \"ed25519\"\ntypes = [\"*\"]");
    let shop = destination("shop", &format!("secret_file = \"{own}\"\nrooms = [\"Hall\"]"));
    let file = |tables: &str| format!("{SETTINGS}{tables}");
    let mut server = Server::builder(BINARY)
        .config(file(&(shop + &pair)))
        .env("ANTEROOM_LOG", "trace")
        .start()
        .expect("the server starts");
    let operator = Operator::of(&server);
    operator.run(&create("webhook", "mine", &HOOK));
    let (made, by_hand) = (|name: &str| (name.to_owned(), true), ("mine".to_owned(), false));
    assert_eq!(names(&operator), [made("shop"), made("pair"), by_hand.clone()]);
    for command in [
        &["destination", "set", "shop", "--batch-max", "5"][..],
        &["destination", "rotate-secret", "shop"],
        &["destination", "rotate-secret", "shop", "--end-previous"],
        &["destination", "delete", "shop", "--yes"],
    ] {
        let said = operator.failed(5, command);
        assert!(said.contains("from the configuration file; change it there"), "{said}");
    }
    let public = operator.json(&["destination", "show", "pair"])["secrets"][0]["public_key"].clone();
    assert!(public.as_str().is_some_and(|key| key.starts_with("whpk_")), "{public}");
    operator.done(&["destination", "pause", "shop"]);

    // A restart with the same file changes nothing.
    server.restart().expect("the server starts again");
    let operator = Operator::of(&server);
    assert_eq!(names(&operator), [made("shop"), made("pair"), by_hand.clone()]);
    let audit = operator.json(&["audit"]).to_string();
    assert_eq!(audit.matches("set destinations of the file").count(), 1, "{audit}");
    assert_eq!(operator.json(&["destination", "show", "pair"])["secrets"][0]["public_key"], public);

    // A new secret with the one before it; `pair` is gone.
    let more = format!("secret_file = \"{other}\"\nprevious_secret_file = \"{own}\"\nbatch_max = 9");
    server.set_config(file(&destination("shop", &more)));
    server.restart().expect("the server starts again");
    let operator = Operator::of(&server);
    assert_eq!(names(&operator), [made("shop"), by_hand.clone()]);
    let shop = operator.json(&["destination", "show", "shop"]);
    assert_eq!((&shop["batch_max"], &shop["rooms"]), (&json!(9), &json!([])));
    assert_eq!((&shop["state"], shop["secrets"].as_array().map(Vec::len)), (&json!("paused"), Some(2)));

    server.set_config(file(""));
    server.restart().expect("the server starts again");
    assert_eq!(names(&Operator::of(&server)), [by_hand], "what was made by hand stays");
    server.terminate().expect("the server ends");
    let log = server.stderr() + &server.stdout();
    assert!(log.contains("can be read by every user of this machine"), "the mode of the files is 644");
    for secret in [OWN_SECRET, OTHER_SECRET] {
        assert!(!log.contains(&secret["whsec_".len()..]), "{log}");
    }
}

#[test]
fn check_config_names_the_line_of_what_is_wrong_with_a_destination() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("own"), OWN_SECRET).expect("written");
    std::fs::write(directory.path().join("short"), "short").expect("written");
    let own = format!("secret_file = \"{}\"\n", directory.path().join("own").display());
    let check = |text: &str| {
        let check = Server::builder(BINARY).command("check-config").memory().config(text);
        let ended = check.directory(directory.path()).run_to_end().expect("the check ends by itself");
        (ended.status.code(), ended.stdout + &ended.stderr)
    };
    let good = check(&destination("shop", &own));
    assert!(good.0 == Some(0) && good.1.contains("1 destination(s) of events"), "{good:?}");
    let short = format!("secret_file = \"{}\"", directory.path().join("short").display());
    for (text, about) in [
        (destination("shop", ""), "secret_file = (not given): must name a file that holds the secret"),
        (destination("shop", "secret_file = \"not-there\""), "cannot be read"),
        (destination("shop", &short), "cannot be used: a webhook secret begins with whsec_"),
        (destination("shop", "secret = \"do-not-repeat-me\""), "a secret does not belong in this file"),
        (destination("shop", &format!("{own}typ = [\"*\"]")), "unknown key `typ`; did you mean `types`?"),
        (
            destination("shop", &format!("{own}[[destination]]\nname = \"log\"\nkind = \"file\"")),
            "file needs the server setting events_directory",
        ),
    ] {
        let (code, said) = check(&text);
        assert_eq!(code, Some(2), "{text}: {said}");
        assert!(said.contains(".toml:") && said.contains(about), "{text}: {said}");
        assert!(!said.contains("do-not-repeat-me"), "{said}");
    }
}
