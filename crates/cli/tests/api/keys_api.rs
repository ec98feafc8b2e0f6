//! API keys: named, with a role, expiring, revocable; signing keys; and the record of who changed what.

use std::time::Duration;

use anteroom_testkit::{Answer, Client, Request, Server, wait_until};
use serde_json::{Value, json};

use crate::support::BINARY;

fn start() -> Server {
    Server::builder(BINARY).start().expect("the server starts")
}

fn create(admin: &mut Client, body: &Value) -> Answer {
    admin.post("/keys", body).expect("an answer as it should be")
}

fn key_of(answer: &Answer) -> String {
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["key"].as_str().expect("the key, once").to_owned()
}

fn delete(client: &mut Client, path: &str) -> Answer {
    client.send(&Request::new("DELETE", path)).expect("an answer as it should be")
}

#[test]
fn a_key_is_shown_once_works_and_ends_when_it_is_revoked() {
    let mut server = start();
    let mut admin = server.operator();
    let made = create(&mut admin, &json!({"name": "night-shift", "role": "operator"}));
    let key = key_of(&made);
    assert!(key.starts_with("ar_operator_"), "recognisable to scanners");
    let listed = admin.get("/keys").expect("an answer as it should be");
    assert!(!listed.text().contains(&key), "shown only once");
    let first = listed.json()["keys"][0].clone();
    let expected = json!({
        "name": "night-shift", "role": "operator", "kind": "bearer", "access_key_id": null,
        "created_at": first["created_at"], "expires_at": null, "expired": false,
    });
    assert_eq!(first, expected);
    let holder = || Client::new(server.private()).with_bearer(&key);
    let paused = json!({"state": "paused"}).to_string();
    let pause = Request::new("PATCH", "/rooms/Sample").body(paused);
    assert_eq!(holder().send(&pause).expect("an answer as it should be").status, 200);
    // It is in the record under the key's name.
    let record = admin.get("/audit?limit=1").expect("an answer as it should be").json()["records"][0].clone();
    assert_eq!((&record["actor"], &record["room"]), (&json!("night-shift"), &json!("Sample")));
    assert!(
        record["action"].as_str().expect("an answer as it should be").contains("state open -> paused"),
        "{record}"
    );
    server.terminate().expect("an answer as it should be");
    server.restart().expect("an answer as it should be");
    let mut holder = Client::new(server.private()).with_bearer(&key);
    let mut admin = server.operator();
    assert_eq!(
        holder.get("/rooms").expect("an answer as it should be").status,
        200,
        "keys survive a restart"
    );
    assert_eq!(delete(&mut admin, "/keys/night-shift").status, 204);
    assert_eq!(holder.get("/rooms").expect("an answer as it should be").status, 401);
    assert_eq!(delete(&mut admin, "/keys/night-shift").problem(), "unknown-name");
    let text = server.stderr();
    assert!(!text.contains(&key), "no key in the log");
}

#[test]
fn a_key_that_expires_stops_by_itself() {
    let server = start();
    let mut admin = server.operator();
    let made = create(&mut admin, &json!({"name": "brief", "role": "viewer", "expires_in_seconds": 1}));
    let mut holder = Client::new(server.private()).with_bearer(&key_of(&made));
    wait_until("the key expires", Duration::from_secs(20), || {
        holder.get("/rooms").expect("an answer as it should be").status == 401
    });
    let listed = admin.get("/keys").expect("an answer as it should be").json();
    assert_eq!(listed["keys"][0]["expired"], true, "still listed, so that it can be found and revoked");
}

#[test]
fn bad_keys_are_refused_and_change_nothing() {
    let server = start();
    let mut admin = server.operator();
    key_of(&create(&mut admin, &json!({"name": "taken", "role": "viewer"})));
    let bad = [
        (json!({"name": "taken", "role": "viewer"}), 409, "name-taken"),
        (json!({"name": "environment", "role": "viewer"}), 409, "name-taken"),
        (json!({"name": "", "role": "viewer"}), 400, "bad-request"),
        (json!({"name": "a b", "role": "viewer"}), 400, "bad-request"),
        (json!({"name": "x".repeat(65), "role": "viewer"}), 400, "bad-request"),
        (json!({"name": "x", "role": "owner"}), 400, "bad-request"),
        (json!({"name": "x"}), 400, "bad-request"),
        (json!({"name": "x", "role": "viewer", "kind": "password"}), 400, "bad-request"),
        (json!({"name": "x", "role": "viewer", "expires_in_seconds": 0}), 400, "bad-request"),
        (json!({"name": "x", "role": "viewer", "expires_in_seconds": -5}), 400, "bad-request"),
        (json!({"name": "x", "role": "viewer", "expires": 5}), 400, "bad-request"),
    ];
    for (body, status, expected) in bad {
        let answer = create(&mut admin, &body);
        assert_eq!((answer.status, answer.problem().as_str()), (status, expected), "{body}: {answer:?}");
    }
    assert_eq!(
        admin.get("/keys").expect("an answer as it should be").json()["keys"]
            .as_array()
            .expect("an answer as it should be")
            .len(),
        1
    );
    for query in ["limit=0", "limit=1001", "limit=x", "before=x", "room=a%20b", "limit=1&limit=2"] {
        assert_eq!(
            admin.get(&format!("/audit?{query}")).expect("an answer as it should be").status,
            400,
            "{query}"
        );
    }
}

#[test]
fn the_first_start_prints_a_key_and_the_last_admin_key_cannot_be_revoked() {
    let server =
        Server::builder(BINARY).without_env("ANTEROOM_ADMIN_KEY").start().expect("the server starts");
    let talk = server.stderr();
    let key = talk.split_whitespace().find(|word| word.starts_with("ar_admin_")).expect("a key").to_owned();
    let mut admin = Client::new(server.private()).with_bearer(&key);
    assert_eq!(admin.get("/keys").expect("an answer as it should be").json()["keys"][0]["name"], "admin");
    let refused = delete(&mut admin, "/keys/admin");
    assert_eq!((refused.status, refused.problem().as_str()), (409, "conflict"), "{refused:?}");
    let brief = json!({"name": "brief", "role": "admin", "expires_in_seconds": 100});
    key_of(&create(&mut admin, &brief));
    assert_eq!(delete(&mut admin, "/keys/admin").status, 409, "one that expires is not enough");
    let second = key_of(&create(&mut admin, &json!({"name": "second", "role": "admin"})));
    assert_eq!(delete(&mut admin, "/keys/admin").status, 204);
    assert_eq!(admin.get("/keys").expect("an answer as it should be").status, 401);
    assert_eq!(
        Client::new(server.private())
            .with_bearer(&second)
            .get("/keys")
            .expect("an answer as it should be")
            .status,
        200
    );
}

#[test]
fn a_new_signing_key_is_announced_before_it_signs() {
    let server = start();
    let (mut admin, mut visitor) = (server.operator(), server.visitor());
    let before = admin.get("/signing_keys").expect("an answer as it should be").json();
    assert_eq!(before["keys"].as_array().expect("an answer as it should be").len(), 1);
    assert_eq!(before["keys"][0]["status"], "current");
    let rotated = admin.send(&Request::new("POST", "/signing_keys")).expect("an answer as it should be");
    assert_eq!(rotated.status, 201, "{rotated:?}");
    assert_eq!(rotated.json()["status"], "announced");
    let after = admin.get("/signing_keys").expect("an answer as it should be").json();
    let kids: Vec<&str> = after["keys"]
        .as_array()
        .expect("an answer as it should be")
        .iter()
        .map(|key| key["kid"].as_str().expect("an answer as it should be"))
        .collect();
    assert_eq!(
        kids,
        [
            before["keys"][0]["kid"].as_str().expect("an answer as it should be"),
            rotated.json()["kid"].as_str().expect("an answer as it should be")
        ]
    );
    let published = visitor.get("/.well-known/jwks.json").expect("an answer as it should be").json();
    assert_eq!(
        published["keys"].as_array().expect("an answer as it should be").len(),
        2,
        "verifiers can fetch it before it is used"
    );
    let signing = visitor.get("/public_key?event_id=Sample").expect("an answer as it should be").json();
    assert_eq!(signing["kid"], before["keys"][0]["kid"], "the old one still signs");
}

#[test]
fn every_change_is_in_the_record_newest_first_and_in_pages() {
    let server = start();
    let mut admin = server.operator();
    let put = |path: &str| Request::new("PUT", path).body("{}");
    assert_eq!(admin.send(&put("/rooms/one")).expect("an answer as it should be").status, 201);
    assert_eq!(admin.send(&put("/rooms/two")).expect("an answer as it should be").status, 201);
    server.line("one").advance(3);
    server.line("one").reset();
    key_of(&create(&mut admin, &json!({"name": "k", "role": "viewer"})));
    assert_eq!(delete(&mut admin, "/keys/k").status, 204);
    assert_eq!(delete(&mut admin, "/rooms/two").status, 204);
    let all = admin.get("/audit?limit=1000").expect("an answer as it should be").json();
    assert_eq!(all["next_before"], Value::Null);
    let records = all["records"].as_array().expect("an answer as it should be");
    let actions: Vec<String> = records
        .iter()
        .take(7)
        .map(|record| {
            assert_eq!(record["actor"], "environment");
            format!(
                "{}: {}",
                record["room"].as_str().unwrap_or("-"),
                record["action"].as_str().expect("an answer as it should be")
            )
        })
        .collect();
    let begins = [
        "two: delete",
        "-: revoke key k",
        "-: create key k",
        "one: reset",
        "one: advance by 3",
        "two: create",
        "one: create",
    ];
    for (action, begin) in actions.iter().zip(begins) {
        assert!(action.starts_with(begin), "{action} does not begin with {begin}");
    }
    // Page by page it is the same.
    let (mut paged, mut before) = (vec![], String::new());
    loop {
        let page = admin.get(&format!("/audit?limit=2{before}")).expect("an answer as it should be").json();
        paged.extend(page["records"].as_array().expect("an answer as it should be").iter().cloned());
        match page["next_before"].as_u64() {
            Some(number) => before = format!("&before={number}"),
            None => break,
        }
    }
    assert_eq!(&paged, records);
    let of_one = admin.get("/audit?room=one").expect("an answer as it should be").json();
    assert!(
        of_one["records"]
            .as_array()
            .expect("an answer as it should be")
            .iter()
            .all(|record| record["room"] == "one")
    );
    assert_eq!(of_one["records"].as_array().expect("an answer as it should be").len(), 3);
}

#[test]
fn a_key_of_a_lesser_role_can_always_be_revoked() {
    let server =
        Server::builder(BINARY).without_env("ANTEROOM_ADMIN_KEY").start().expect("the server starts");
    let talk = server.stderr();
    let key = talk.split_whitespace().find(|word| word.starts_with("ar_admin_")).expect("a key").to_owned();
    let mut admin = Client::new(server.private()).with_bearer(&key);
    // From now on the only admin key that is left without an end is the first one.
    let brief = json!({"name": "brief", "role": "admin", "expires_in_seconds": 100});
    key_of(&create(&mut admin, &brief));
    key_of(&create(&mut admin, &json!({"name": "viewer", "role": "viewer"})));
    assert_eq!(delete(&mut admin, "/keys/viewer").status, 204);
    assert_eq!(delete(&mut admin, "/keys/brief").status, 204);
    for reserved in ["anteroom", "offline", "environment"] {
        let answer = create(&mut admin, &json!({"name": reserved, "role": "viewer"}));
        assert_eq!(answer.problem(), "name-taken", "{reserved}");
    }
}
