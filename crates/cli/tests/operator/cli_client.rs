//! `anteroom client …`, and the clients of the configuration file.

use anteroom_testkit::Server;
use serde_json::{Value, json};

use crate::support::BINARY;
use crate::support::operator::Operator;

const REDIRECT: [&str; 2] = ["--redirect", "https://shop.example/callback"];

fn server() -> (Server, Operator) {
    let server =
        Server::builder(BINARY).config("[[room]]\nid = \"Hall\"\n").start().expect("the server starts");
    let operator = Operator::of(&server);
    (server, operator)
}

#[test]
fn stdout_holds_the_secret_and_nothing_else() {
    let (_server, operator) = server();
    let in_hall = ["--room", "Hall"];
    let made = operator.run(&[&["client", "create"][..], &in_hall, &REDIRECT].concat());
    assert_eq!(made.code, Some(0), "{made:?}");
    assert_eq!(made.stderr, "client Hall of the room Hall; its secret is shown only now\n");
    let secret = made.stdout.trim_end().to_owned();
    assert!(secret.starts_with("ar_client_") && !secret.contains(char::is_whitespace), "{made:?}");

    let public = ["client", "create", "app", "--public", "--name", "The app", "--access-token-for", "15m"];
    let public =
        operator.run(&[&public[..], &in_hall, &REDIRECT, &["--redirect", "http://[::1]/cb"]].concat());
    assert_eq!((public.code, public.stdout.as_str()), (Some(0), ""), "{public:?}");
    assert_eq!(public.stderr, "client app of the room Hall; it is public and has no secret\n");

    let rotated = operator.run(&["client", "rotate", "Hall", "--room", "Hall", "--previous-for", "7d"]);
    assert_eq!(rotated.code, Some(0), "{rotated:?}");
    assert!(rotated.stdout.starts_with("ar_client_") && rotated.stdout.trim_end() != secret);

    let listed = operator.json(&["client", "list", "--room", "Hall"]);
    let [hall, app] = [0, 1].map(|index| listed["clients"][index].clone());
    assert_eq!(hall["secrets"].as_array().map(Vec::len), Some(2));
    assert!(hall["secrets"][0]["expires_at"].is_null() && hall["secrets"][1]["expires_at"].is_string());
    assert_eq!((&app["name"], &app["access_token_seconds"]), (&json!("The app"), &json!(900)));
    let text = operator.done(&["client", "list", "--room", "Hall"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("CLIENT  KIND "), "{text}");
    assert!(lines[1].starts_with("Hall    confidential        2  "), "{text}");
    assert!(lines[2].starts_with("app     public              0  "), "{text}");
    assert!(lines[2].ends_with("The app  https://shop.example/callback http://[::1]/cb"), "{text}");
    assert!(!text.contains(&secret));

    let said = operator.done(&["client", "revoke-previous", "Hall", "--room", "Hall"]);
    assert_eq!(said, "previous secret of client Hall revoked\n");
    assert_eq!(operator.done(&["client", "delete", "app", "--room", "Hall"]), "client app deleted\n");
    let deleted = operator.json(&["client", "delete", "Hall", "--room", "Hall"]);
    assert_eq!(deleted, json!({"deleted": "Hall"}));
    assert_eq!(operator.json(&["client", "list", "--room", "Hall"]), json!({"clients": []}));
}

#[test]
fn json_has_the_secret_and_everything_else() {
    let (_server, operator) = server();
    let create = [&["client", "create", "web", "--room", "Hall", "--format", "json"][..], &REDIRECT].concat();
    let made: Value = serde_json::from_str(&operator.run(&create).stdout).expect("JSON");
    assert_eq!((&made["id"], &made["public"]), (&json!("web"), &json!(false)));
    assert!(made["secret"].as_str().is_some_and(|secret| secret.starts_with("ar_client_")), "{made}");
    let said = operator.failed(5, &create);
    assert_eq!(said, "error: The room has a client of that id; delete it first, or choose another id\n");
    let said = operator.failed(3, &["client", "rotate", "wep", "--room", "Hall"]);
    assert_eq!(said, "error: the room Hall has no client wep\nhint: did you mean `web`?\n");
    let said = operator.failed(3, &["client", "delete", "web", "--room", "Halle"]);
    assert!(said.starts_with("error: "), "{said}");
    operator.failed(3, &["client", "delete", "../../keys/x", "--room", "Hall"]);
    operator.failed(5, &["client", "revoke-previous", "web", "--room", "Hall"]);
    let bad = ["client", "create", "x", "--room", "Hall", "--redirect", "http://shop.example/"];
    let said = operator.failed(1, &bad);
    assert!(said.contains("`redirect_addresses` has an address that cannot be used"), "{said}");
    operator.failed(2, &["client", "create", "x", "--room", "Hall"]);
}

const FIRST: &str = "a-secret-of-the-shop-that-is-long-enough";

fn file(clients: &str) -> String {
    format!("[[room]]\nid = \"Hall\"\n{clients}[[room]]\nid = \"Yard\"\n")
}

fn client(more: &str) -> String {
    format!("[[room.client]]\nredirect_addresses = [\"https://shop.example/callback\"]\n{more}\n")
}

#[test]
fn clients_of_the_file_are_as_the_file_says() {
    let shop = "id = \"shop\"\nname = \"The shop\"\nsecret_env = \"ANTEROOM_SHOP_SECRET\"";
    let mut server = Server::builder(BINARY)
        .config(file(&(client(shop) + &client("id = \"app\"\npublic = true"))))
        .env("ANTEROOM_SHOP_SECRET", FIRST)
        .env("ANTEROOM_LOG", "trace")
        .start()
        .expect("the server starts");
    let clients = |server: &Server| {
        let listed = Operator::of(server).json(&["client", "list", "--room", "Hall"]);
        let clients = listed["clients"].as_array().expect("a list").clone();
        clients
            .iter()
            .map(|client| {
                let secrets = client["secrets"].as_array().expect("a list").len();
                (client["id"].as_str().expect("an id").to_owned(), client["from_file"] == true, secrets)
            })
            .collect::<Vec<_>>()
    };
    let operator = Operator::of(&server);
    operator.run(&[&["client", "create", "mine", "--room", "Hall"][..], &REDIRECT].concat());
    let expected = [("shop".to_owned(), true, 1), ("app".to_owned(), true, 0), ("mine".to_owned(), false, 1)];
    assert_eq!(clients(&server), expected);
    for command in ["rotate", "delete", "revoke-previous"] {
        let said = operator.failed(5, &["client", command, "shop", "--room", "Hall"]);
        assert!(said.contains("from the configuration file; change it there"), "{said}");
    }
    let made_at = operator.json(&["client", "list", "--room", "Hall"])["clients"][0]["created_at"].clone();
    let audit = operator.json(&["audit", "--room", "Hall"]).to_string();
    assert!(audit.contains("set clients of the file"), "{audit}");

    // A restart with the same file changes nothing.
    server.restart().expect("the server starts again");
    assert_eq!(clients(&server), expected);
    let operator = Operator::of(&server);
    let again = operator.json(&["audit", "--room", "Hall"]).to_string();
    assert_eq!(again.matches("set clients of the file").count(), 1, "{again}");

    // A new secret from a file, with the one before; `app` is gone.
    let path = server.directory().join("shop-secret");
    std::fs::write(&path, "another-secret-of-the-shop-from-a-file\n").expect("written");
    let shop = format!(
        "id = \"shop\"\nsecret_file = \"{}\"\nprevious_secret_env = \"ANTEROOM_SHOP_SECRET\"",
        path.display()
    );
    server.set_config(file(&client(&shop)));
    server.restart().expect("the server starts again");
    assert_eq!(clients(&server), [("shop".to_owned(), true, 2), ("mine".to_owned(), false, 1)]);
    let operator = Operator::of(&server);
    let shop = operator.json(&["client", "list", "--room", "Hall"])["clients"][0].clone();
    assert_eq!((&shop["created_at"], &shop["secrets"][1]["created_at"]), (&made_at, &made_at), "{shop}");

    // A room deleted by an operator stays deleted, and its clients with it.
    operator.done(&["room", "delete", "Hall", "--yes"]);
    server.restart().expect("the server starts again");
    let operator = Operator::of(&server);
    operator.failed(3, &["room", "show", "Hall"]);
    operator.done(&["room", "create", "Hall"]);
    assert_eq!(operator.json(&["client", "list", "--room", "Hall"]), json!({"clients": []}));
    server.restart().expect("the server starts again");
    assert_eq!(
        clients(&server),
        [("shop".to_owned(), true, 2)],
        "they come back with the room at the next start"
    );
    server.terminate().expect("the server ends");
    let log = server.stderr() + &server.stdout();
    assert!(!log.contains(FIRST) && !log.contains("another-secret-of-the-shop"), "{log}");
}

#[test]
fn check_config_names_the_line_of_what_is_wrong_with_a_client() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("short"), "short").expect("written");
    let check = |clients: &str| {
        let mut check = Server::builder(BINARY).command("check-config").memory().config(file(clients));
        check = check.directory(directory.path());
        // One that no client names is refused like any other unknown variable.
        if clients.contains("ANTEROOM_SHOP_SECRET") {
            check = check.env("ANTEROOM_SHOP_SECRET", FIRST);
        }
        let ended = check.run_to_end().expect("the check ends by itself");
        (ended.status.code(), ended.stdout + &ended.stderr)
    };
    let good = check(&client("secret_env = \"ANTEROOM_SHOP_SECRET\""));
    assert!(good.0 == Some(0) && good.1.contains("is valid: 2 room(s)"), "{good:?}");
    let short = directory.path().join("short");
    let missing = directory.path().join("missing");
    for (more, line, about) in [
        ("id = \"a b\"\npublic = true".to_owned(), 5, "id = \"a b\": must be 1 to 64 letters"),
        ("public = 1".to_owned(), 5, "public = 1: must be true or false"),
        ("secret = \"do-not-repeat-me-anywhere\"".to_owned(), 5, "a secret does not belong in this file"),
        (String::new(), 3, "name the variable that holds the client's secret"),
        ("secret_env = \"SHOP_SECRET\"".to_owned(), 5, "must name a variable that begins with ANTEROOM_"),
        ("secret_env = \"ANTEROOM_NOT_THERE\"".to_owned(), 5, "there is no such variable"),
        (format!("secret_file = \"{}\"", missing.display()), 5, "cannot be read"),
        (format!("secret_file = \"{}\"", short.display()), 5, "must have 16 to 256 visible ASCII characters"),
    ] {
        let (code, said) = check(&client(&more));
        assert_eq!(code, Some(2), "{more}: {said}");
        assert!(said.contains(&format!(".toml:{line}: ")) && said.contains(about), "{more}: {said}");
        assert!(!said.contains("do-not-repeat-me"), "{said}");
    }
}
