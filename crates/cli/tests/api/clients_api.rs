//! `OpenID` clients of a room over the private API: made, shown, rotated and deleted, each secret shown once.

use anteroom_testkit::{Answer, Client, Request, Server};
use serde_json::{Value, json};

use crate::support::BINARY;

const CALLBACK: &str = "https://shop.example/callback";

fn start() -> Server {
    Server::builder(BINARY).start().expect("the server starts")
}

fn send(client: &mut Client, method: &str, path: &str) -> Answer {
    client.send(&Request::new(method, path)).expect("an answer as it should be")
}

fn create(admin: &mut Client, body: &Value) -> Answer {
    admin.post("/rooms/Sample/clients", body).expect("an answer as it should be")
}

fn secret_of(answer: &Answer) -> String {
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["secret"].as_str().expect("the secret, once").to_owned()
}

fn ids(admin: &mut Client, room: &str) -> Vec<String> {
    let listed = send(admin, "GET", &format!("/rooms/{room}/clients")).json();
    let clients = listed["clients"].as_array().expect("a list").clone();
    clients.iter().map(|client| client["id"].as_str().expect("an id").to_owned()).collect()
}

#[test]
fn a_client_is_made_shown_and_deleted_and_its_secret_is_shown_once() {
    let mut server = start();
    let mut admin = server.operator();
    let made = create(&mut admin, &json!({"redirect_addresses": [CALLBACK]}));
    let secret = secret_of(&made);
    assert!(secret.starts_with("ar_client_") && secret.len() > 50, "recognisable to scanners: {secret}");
    let mut expected = made.json();
    expected.as_object_mut().expect("an object").remove("secret");
    assert_eq!(
        expected,
        json!({
            "id": "Sample", "name": "Sample", "redirect_addresses": [CALLBACK], "public": false,
            "access_token_seconds": null, "id_token_seconds": null, "login_address": null,
            "created_at": expected["created_at"], "from_file": false,
            "secrets": [{"created_at": expected["created_at"], "expires_at": null}],
        })
    );
    let app = json!({
        "id": "app", "name": "Die Äpp", "redirect_addresses": ["com.example.app:/cb", "http://127.0.0.1/cb"],
        "public": true, "access_token_seconds": 900, "id_token_seconds": 600,
        "login_address": "https://shop.example/login",
    });
    let made = create(&mut admin, &app);
    assert_eq!(
        (made.status, &made.json()["secret"], &made.json()["secrets"]),
        (201, &Value::Null, &json!([]))
    );
    for (name, value) in app.as_object().expect("an object") {
        assert_eq!(&made.json()[name], value, "{name}");
    }
    assert_eq!(create(&mut admin, &app).problem(), "name-taken");
    let shown = send(&mut admin, "GET", "/rooms/Sample/clients/Sample");
    assert_eq!((shown.status, shown.json()), (200, expected.clone()));

    server.terminate().expect("the server ends");
    server.restart().expect("the server starts again");
    let mut admin = server.operator();
    assert_eq!(send(&mut admin, "GET", "/rooms/Sample/clients/Sample").json(), expected);
    assert_eq!(ids(&mut admin, "Sample"), ["Sample", "app"]);
    assert_eq!(send(&mut admin, "DELETE", "/rooms/Sample/clients/Sample").status, 204);
    for (method, path) in [
        ("DELETE", "/rooms/Sample/clients/Sample"),
        ("GET", "/rooms/Sample/clients/Sample"),
        ("POST", "/rooms/Sample/clients/Sample/secrets"),
        ("DELETE", "/rooms/Sample/clients/Sample/secrets/previous"),
    ] {
        let answer = send(&mut admin, method, path);
        assert_eq!((answer.status, answer.problem().as_str()), (404, "unknown-name"), "{method} {path}");
        let answer = send(&mut admin, method, &path.replace("Sample", "nothing"));
        assert_eq!((answer.status, answer.problem().as_str()), (404, "unknown-room"), "{method} {path}");
    }
    assert_eq!(ids(&mut admin, "Sample"), ["app"]);

    let records = send(&mut admin, "GET", "/audit?room=Sample&limit=3").json();
    let actions: Vec<&Value> =
        records["records"].as_array().expect("records").iter().map(|record| &record["action"]).collect();
    assert_eq!(actions, ["delete client Sample", "create public client app", "create client Sample"]);
    assert_eq!(records["records"][2]["detail"], CALLBACK);
}

#[test]
fn two_secrets_work_at_a_time_and_the_older_one_can_be_ended() {
    let server = start();
    let mut admin = server.operator();
    let first = secret_of(&create(&mut admin, &json!({"id": "shop", "redirect_addresses": [CALLBACK]})));
    let rotate = |admin: &mut Client, body: &str| {
        let request = Request::new("POST", "/rooms/Sample/clients/shop/secrets").body(body);
        admin.send(&request).expect("an answer as it should be")
    };
    let previous = "/rooms/Sample/clients/shop/secrets/previous";
    assert_eq!(send(&mut admin, "DELETE", previous).problem(), "conflict", "there is only one");
    let rotated = rotate(&mut admin, "");
    let second = secret_of(&rotated);
    assert_ne!(first, second);
    let ends = |answer: &Answer| -> Vec<bool> {
        let secrets = answer.json()["secrets"].as_array().expect("a list").clone();
        secrets.iter().map(|secret| !secret["expires_at"].is_null()).collect()
    };
    assert_eq!(ends(&rotated), [false, false], "the one before goes on until the next rotation");
    let rotated = rotate(&mut admin, r#"{"previous_expires_in_seconds": 3600}"#);
    assert_eq!(ends(&rotated), [false, true]);
    assert_eq!(send(&mut admin, "DELETE", previous).status, 204);
    assert_eq!(ends(&send(&mut admin, "GET", "/rooms/Sample/clients/shop")), [false]);
    let rotated = rotate(&mut admin, r#"{"previous_expires_in_seconds": 0}"#);
    assert_eq!(ends(&rotated), [false], "or it ends at once");

    for bad in [
        r#"{"previous_expires_in_seconds": -1}"#,
        r#"{"previous_expires_in_seconds": 31536001}"#,
        r#"{"previous_expires_in_seconds": "1"}"#,
        r#"{"previous": 1}"#,
        "[]",
    ] {
        assert_eq!(rotate(&mut admin, bad).problem(), "bad-request", "{bad}");
    }
    let app = json!({"id": "app", "redirect_addresses": [CALLBACK], "public": true});
    assert_eq!(create(&mut admin, &app).status, 201);
    let refused = send(&mut admin, "POST", "/rooms/Sample/clients/app/secrets");
    assert_eq!((refused.status, refused.problem().as_str()), (409, "conflict"), "{refused:?}");

    let everything = [
        send(&mut admin, "GET", "/rooms/Sample/clients").text(),
        send(&mut admin, "GET", "/audit?limit=1000").text(),
        server.stderr(),
    ];
    for text in everything {
        assert!(![&first, &second].iter().any(|secret| text.contains(secret.as_str())), "{text}");
    }
}

#[test]
fn a_bad_client_is_refused_with_the_name_of_the_field_and_changes_nothing() {
    let server = start();
    let mut admin = server.operator();
    let good = json!({"id": "shop", "redirect_addresses": [CALLBACK]});
    let with = |name: &str, value: Value| {
        let mut body = good.clone();
        body[name] = value;
        body
    };
    let addresses = |list: &[&str]| with("redirect_addresses", json!(list));
    let long = format!("https://shop.example/{}", "a".repeat(500));
    let many: Vec<String> = (0..21).map(|number| format!("{CALLBACK}{number}")).collect();
    for (field, body) in [
        ("id", with("id", json!("a b"))),
        ("id", with("id", json!("x".repeat(65)))),
        ("name", with("name", json!(""))),
        ("name", with("name", json!("a\u{1b}[1mb"))),
        ("name", with("name", json!("x".repeat(101)))),
        ("redirect_addresses", json!({"id": "shop"})),
        ("redirect_addresses", addresses(&[])),
        ("redirect_addresses", addresses(&[CALLBACK, CALLBACK])),
        ("redirect_addresses", with("redirect_addresses", json!(many))),
        ("redirect_addresses", addresses(&["http://shop.example/callback"])),
        ("redirect_addresses", addresses(&["https://shop.example/callback#top"])),
        ("redirect_addresses", addresses(&["https://user@shop.example/callback"])),
        ("redirect_addresses", addresses(&["https://*.shop.example/callback"])),
        ("redirect_addresses", addresses(&["javascript:alert(1)"])),
        ("redirect_addresses", addresses(&["/callback"])),
        ("redirect_addresses", addresses(&["https://shop.example/\r\nSet-Cookie: a=b"])),
        ("redirect_addresses", addresses(&[long.as_str()])),
        ("access_token_seconds", with("access_token_seconds", json!(0))),
        ("access_token_seconds", with("access_token_seconds", json!(-1))),
        ("id_token_seconds", with("id_token_seconds", json!(31_536_001))),
        ("login_address", with("login_address", json!("shop"))),
        ("secret", with("secret", json!("chosen-by-somebody"))),
    ] {
        let answer = create(&mut admin, &body);
        assert_eq!((answer.status, answer.problem().as_str()), (400, "bad-request"), "{body}: {answer:?}");
        let detail = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert!(detail.contains(&format!("`{field}`")), "{body}: {detail}");
    }
    assert_eq!(ids(&mut admin, "Sample"), [""; 0]);
    let nowhere = admin.post("/rooms/nothing/clients", &good).expect("an answer as it should be");
    assert_eq!(nowhere.problem(), "unknown-room");
    for number in 0..64 {
        secret_of(&create(&mut admin, &with("id", json!(format!("c{number}")))));
    }
    assert_eq!(create(&mut admin, &good).problem(), "conflict", "a room has at most 64");
}

#[test]
fn clients_go_with_their_room() {
    let server = start();
    let mut admin = server.operator();
    let put = Request::new("PUT", "/rooms/sale").body("{}");
    assert_eq!(admin.send(&put).expect("an answer as it should be").status, 201);
    for room in ["sale", "Sample"] {
        let body = json!({"id": "shop", "redirect_addresses": [CALLBACK]});
        let path = format!("/rooms/{room}/clients");
        assert_eq!(admin.post(&path, &body).expect("an answer as it should be").status, 201);
    }
    assert_eq!(send(&mut admin, "DELETE", "/rooms/sale").status, 204);
    assert_eq!(send(&mut admin, "GET", "/rooms/sale/clients").problem(), "unknown-room");
    assert_eq!(admin.send(&put).expect("an answer as it should be").status, 201);
    assert_eq!(ids(&mut admin, "sale"), [""; 0], "another room under the same name");
    assert_eq!(ids(&mut admin, "Sample"), ["shop"], "that of another room stays");
    let records = send(&mut admin, "GET", "/audit?room=sale").text();
    assert!(records.contains("delete clients of the deleted room"), "{records}");
}

#[test]
fn a_backup_has_the_clients() {
    let old = start();
    let mut admin = old.operator();
    let secret = secret_of(&create(&mut admin, &json!({"id": "shop", "redirect_addresses": [CALLBACK]})));
    send(&mut admin, "POST", "/rooms/Sample/clients/shop/secrets");
    let shop = send(&mut admin, "GET", "/rooms/Sample/clients/shop").json();
    let backup = send(&mut admin, "GET", "/backup");
    assert_eq!(backup.status, 200);
    assert!(!backup.body.windows(secret.len()).any(|window| window == secret.as_bytes()));

    let new = Server::builder(BINARY)
        .env("ANTEROOM_SECRET", old.secret())
        .start()
        .expect("another server with the same master secret");
    let mut admin = new.operator();
    create(&mut admin, &json!({"id": "other", "redirect_addresses": [CALLBACK]}));
    let restore = Request::new("POST", "/restore").body(backup.body);
    let restored = admin.send(&restore).expect("an answer as it should be");
    assert_eq!(restored.status, 200, "{restored:?}");
    assert_eq!(ids(&mut admin, "Sample"), ["shop"], "those of the backup and no others");
    assert_eq!(send(&mut admin, "GET", "/rooms/Sample/clients/shop").json(), shop, "with both secrets");
}
