//! `anteroom key …` and `audit`: secrets that go to stdout alone, roles that are kept, and the way back in with the server stopped.

use anteroom_testkit::{Client, Server};
use serde_json::{Value, json};

use crate::support::BINARY;
use crate::support::operator::{Operator, finish};

fn server() -> (Server, Operator) {
    let server =
        Server::builder(BINARY).memory().config("[[room]]\nid = \"Hall\"\n").start().expect("a server");
    let operator = Operator::of(&server);
    (server, operator)
}

/// The same person with another key.
fn with_key(server: &Server, key: &str) -> Operator {
    Operator::of(server).with_key(key)
}

#[test]
fn a_new_key_is_all_of_stdout_and_works_until_it_is_revoked() {
    let (server, operator) = server();
    let made = operator.run(&["key", "create", "dashboard", "--role", "viewer"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert_eq!(made.stderr, "key dashboard (viewer); its secret is shown only now\n");
    let key = made.stdout.strip_suffix('\n').unwrap();
    assert!(key.len() >= 32 && !key.contains(char::is_whitespace), "{key:?}");

    let dashboard = with_key(&server, key);
    assert!(dashboard.done(&["room", "list"]).contains("Hall"));
    assert_eq!(operator.done(&["key", "revoke", "dashboard"]), "key dashboard revoked\n");
    dashboard.failed(4, &["room", "list"]);
}

#[test]
fn a_pair_is_two_lines_that_a_shell_can_read() {
    let (_server, operator) = server();
    let made = operator.run(&[
        "key",
        "create",
        "shop",
        "--role",
        "origin",
        "--kind",
        "sigv4",
        "--expires-in",
        "30d",
    ]);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(made.stderr.starts_with("key shop (origin) until 2"), "{}", made.stderr);
    let lines: Vec<&str> = made.stdout.lines().collect();
    let [id, secret] = lines[..] else { panic!("{lines:?}") };
    let id = id.strip_prefix("AWS_ACCESS_KEY_ID=").unwrap();
    assert!(
        secret.strip_prefix("AWS_SECRET_ACCESS_KEY=").is_some_and(|secret| secret.len() >= 32),
        "{secret}"
    );

    let listed = &operator.json(&["key", "list"])["keys"];
    let shop = listed.as_array().unwrap().iter().find(|key| key["name"] == "shop").unwrap();
    assert_eq!(
        (&shop["kind"], &shop["access_key_id"], &shop["expired"]),
        (&json!("sigv4"), &json!(id), &json!(false))
    );
    let text = operator.done(&["key", "list"]);
    let head = text.lines().next().unwrap();
    assert_eq!(
        head.split_whitespace().collect::<Vec<_>>().join(" "),
        "NAME ROLE KIND ACCESS KEY ID CREATED EXPIRES"
    );
    let row = text.lines().find(|line| line.starts_with("shop")).unwrap();
    let expected = [
        "shop",
        "origin",
        "sigv4",
        id,
        shop["created_at"].as_str().unwrap(),
        shop["expires_at"].as_str().unwrap(),
    ];
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), expected);
    assert!(!text.contains(secret.strip_prefix("AWS_SECRET_ACCESS_KEY=").unwrap()));
}

#[test]
fn json_has_the_secret_and_everything_else() {
    let (server, operator) = server();
    let made = operator.run(&["key", "create", "robot", "--role", "operator", "--format", "json"]);
    let made: Value = serde_json::from_str(&made.stdout).unwrap();
    assert_eq!(
        (&made["name"], &made["role"], &made["kind"]),
        (&json!("robot"), &json!("operator"), &json!("bearer"))
    );
    with_key(&server, made["key"].as_str().unwrap()).done(&["room", "advance", "Hall", "1"]);
    assert_eq!(operator.json(&["key", "revoke", "robot"]), json!({ "revoked": "robot" }));
}

#[test]
fn code_4_says_which_role_would_do() {
    let (server, operator) = server();
    let key = |role: &str| operator.run(&["key", "create", role, "--role", role]).stdout.trim().to_owned();
    let [viewer, origin, changer] =
        ["viewer", "origin", "operator"].map(|role| with_key(&server, &key(role)));
    for (who, arguments, roles) in [
        (&viewer, &["room", "pause", "Hall"][..], "operator or admin"),
        (&viewer, &["room", "advance", "Hall", "1"], "operator or admin"),
        (
            &viewer,
            &["session", "close", "x", "--room", "Hall", "--status", "completed"],
            "origin or operator or admin",
        ),
        (&origin, &["room", "list"], "viewer or operator or admin"),
        (&origin, &["key", "list", "--signing"], "viewer or operator or admin"),
        (&changer, &["key", "list"], "admin"),
        (&changer, &["key", "create", "x", "--role", "admin"], "admin"),
        (&changer, &["key", "rotate-signing"], "admin"),
        (&changer, &["audit"], "admin"),
    ] {
        let said = who.failed(4, arguments);
        assert!(said.starts_with("error: this key may not do that: "), "{arguments:?}: {said}");
        assert!(
            said.contains(&format!("\nhint: it needs a key with the role {roles};")),
            "{arguments:?}: {said}"
        );
    }
    assert_eq!(server.line("Hall").serving(), 0);
}

#[test]
fn code_5_is_a_name_that_is_taken_and_code_3_one_that_is_not_there() {
    let (_server, operator) = server();
    operator.run(&["key", "create", "dashboard", "--role", "viewer"]);
    let said = operator.failed(5, &["key", "create", "dashboard", "--role", "viewer"]);
    assert_eq!(said, "error: there is a key of that name; revoke it first, or choose another name\n");
    let said = operator.failed(3, &["key", "revoke", "dashbord"]);
    assert_eq!(said, "error: there is no key dashbord\nhint: did you mean `dashboard`?\n");
    // Names go into a path, and must not get out of it.
    operator.failed(3, &["key", "revoke", "../rooms/Hall"]);
    let said = operator.failed(1, &["key", "create", "a b", "--role", "viewer"]);
    assert!(said.contains("a key's name has 1 to 64 letters"), "{said}");
}

#[test]
fn signing_keys_are_listed_and_rotated() {
    let (_server, operator) = server();
    let before = operator.json(&["key", "list", "--signing"]);
    assert_eq!(before["keys"].as_array().map(Vec::len), Some(1), "{before}");
    let rotated = operator.run(&["key", "rotate-signing"]);
    let warning = "warning: a verifier that keeps one key";
    assert!(rotated.code == Some(0) && rotated.stderr.starts_with(warning), "{rotated:?}");
    let said = rotated.stdout;
    let after = operator.json(&["key", "list", "--signing"]);
    let keys = after["keys"].as_array().unwrap();
    let new = keys
        .iter()
        .find(|key| **key != before["keys"][0] && key["status"] == "announced")
        .expect("a new key");
    let text = |name: &str| new[name].as_str().unwrap();
    assert_eq!(said, format!("signing key {} (RS256) signs from {}\n", text("kid"), text("active_from")));
    let table = operator.done(&["key", "list", "--signing"]);
    assert!(
        table.starts_with("KID ") && table.contains(text("kid")) && table.contains("announced"),
        "{table}"
    );
}

#[test]
fn the_audit_says_who_did_what_newest_first_page_by_page() {
    let (server, operator) = server();
    let key = operator.run(&["key", "create", "ann", "--role", "operator"]).stdout;
    let ann = with_key(&server, key.trim());
    for _ in 0..3 {
        ann.done(&["room", "advance", "Hall", "1"]);
    }
    ann.done(&["room", "pause", "Hall"]);
    let all = operator.json(&["audit"]);
    let records = all["records"].as_array().unwrap();
    assert!(records.len() >= 5 && all["next_before"].is_null(), "{all}");
    let numbers: Vec<u64> = records.iter().map(|record| record["number"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] > pair[1]), "{numbers:?}");

    let newest = operator.json(&["audit", "--limit", "2", "--room", "Hall"]);
    let newest = newest["records"].as_array().unwrap();
    assert_eq!(newest.len(), 2);
    assert!(newest.iter().all(|record| record["actor"] == "ann" && record["room"] == "Hall"), "{newest:?}");
    let older = operator.json(&[
        "audit",
        "--limit",
        "1",
        "--room",
        "Hall",
        "--before",
        &newest[1]["number"].to_string(),
    ]);
    assert!(older["records"][0]["number"].as_u64() < newest[1]["number"].as_u64(), "{older}");

    let text = operator.done(&["audit", "--limit", "1"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0].split_whitespace().collect::<Vec<_>>(),
        ["NUMBER", "AT", "ACTOR", "ACTION", "ROOM", "DETAIL"]
    );
    assert!(lines.len() == 2 && lines[1].contains(" ann ") && lines[1].contains("Hall"), "{text}");
}

#[test]
fn with_the_server_stopped_a_key_is_made_in_its_store() {
    let mut server = Server::builder(BINARY)
        .config("[[room]]\nid = \"Hall\"\n")
        .without_env("ANTEROOM_ADMIN_KEY")
        .start()
        .unwrap();
    let store = format!("file:{}", server.data_directory().display());
    let secret = server.secret().to_owned();
    let directory = server.directory().to_owned();
    let offline = move |arguments: &[&str]| {
        let operator = Operator::at("http://127.0.0.1:1").in_directory(&directory);
        let mut command = operator.command(&[&["key", "create"], arguments, &["--offline"]].concat());
        finish(command.env("ANTEROOM_STORE_URL", &store).env("ANTEROOM_SECRET", &secret))
    };
    let running = offline(&["rescue", "--role", "admin"]);
    assert_eq!((running.code, running.stdout.as_str()), (Some(1), ""), "{running:?}");
    assert!(
        running.stderr.contains("in use by another process") && running.stderr.contains("\nhint: "),
        "{running:?}"
    );

    server.terminate().unwrap();
    let made = offline(&["rescue", "--role", "admin", "--config", "under-test.toml"]);
    assert_eq!(
        (made.code, made.stderr.as_str()),
        (Some(0), "key rescue (admin); its secret is shown only now\n"),
        "{made:?}"
    );
    let pair =
        offline(&["signer", "--role", "viewer", "--kind", "sigv4", "--expires-in", "1h", "--format", "json"]);
    let pair: Value = serde_json::from_str(&pair.stdout).unwrap();
    assert!(pair["access_key_id"].is_string() && pair["secret_access_key"].is_string(), "{pair}");
    let twice = offline(&["rescue", "--role", "admin"]);
    assert!(twice.code != Some(0) && twice.stderr.contains("there is a key of that name"), "{twice:?}");

    server.restart().unwrap();
    let operator = with_key(&server, made.stdout.trim());
    let listed = operator.json(&["key", "list"]);
    let names: Vec<&str> =
        listed["keys"].as_array().unwrap().iter().filter_map(|key| key["name"].as_str()).collect();
    assert!(names.contains(&"rescue") && names.contains(&"signer"), "{names:?}");
}

#[test]
fn offline_needs_a_store_that_remembers() {
    let operator = Operator::at("http://127.0.0.1:1");
    let mut command = operator.command(&["key", "create", "x", "--role", "admin", "--offline"]);
    let ran = finish(command.env("ANTEROOM_STORE_URL", "memory:"));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.stderr.starts_with("error: store_url is memory:"), "{ran:?}");
}

#[test]
fn an_expired_key_is_shown_as_over_and_no_longer_accepted() {
    let (server, operator) = server();
    let key = operator.run(&["key", "create", "brief", "--role", "viewer", "--expires-in", "1s"]).stdout;
    let mut client = Client::new(server.private()).with_bearer(key.trim());
    anteroom_testkit::wait_until("the key is over", std::time::Duration::from_secs(15), || {
        client.get("/rooms").expect("an answer").status == 401
    });
    with_key(&server, key.trim()).failed(4, &["room", "list"]);
    let row = operator.done(&["key", "list"]);
    let row = row.lines().find(|line| line.starts_with("brief ")).unwrap();
    assert!(row.ends_with(" (over)"), "{row}");
}
