//! Where events go, over the private API: destinations made, shown, changed, paused, replayed and deleted, each secret shown once.

use anteroom_testkit::{Answer, Client, Request, Server};
use serde_json::{Value, json};

use crate::support::BINARY;

const HOOK: &str = "https://shop.example/hooks";
const OWN_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const AWS_SECRET: &str = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY";
const NATS_SECRET: &str = "credentials-of-a-nats-user";
const ACCESS_KEY_ID: &str = "AKIDEXAMPLEEXAMPLE00";
const SETTINGS: &str = "events_directory = \"events\"\ndestinations_private_allowed = \"127.0.0.0/8\"\n";

fn start() -> Server {
    Server::builder(BINARY).config(SETTINGS).env("ANTEROOM_LOG", "trace").start().expect("the server starts")
}

fn send(client: &mut Client, method: &str, path: &str) -> Answer {
    client.send(&Request::new(method, path)).expect("an answer as it should be")
}

fn send_body(client: &mut Client, method: &str, path: &str, body: &Value) -> Answer {
    client.send(&Request::new(method, path).body(body.to_string())).expect("an answer as it should be")
}

fn create(admin: &mut Client, body: &Value) -> Answer {
    send_body(admin, "POST", "/destinations", body)
}

fn webhook(name: &str) -> Value {
    json!({"name": name, "kind": "webhook", "url": HOOK})
}

/// Makes one, and returns the secret that it shows.
fn created(admin: &mut Client, body: &Value) -> String {
    let answer = create(admin, body);
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["secret"].as_str().unwrap_or_default().to_owned()
}

fn names(admin: &mut Client) -> Vec<String> {
    let listed = send(admin, "GET", "/destinations").json();
    let destinations = listed["destinations"].as_array().expect("a list").clone();
    destinations.iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
}

fn actions(admin: &mut Client) -> Vec<String> {
    let records = send(admin, "GET", "/audit?limit=100").json();
    let records = records["records"].as_array().expect("records").clone();
    let actions = records.iter().rev().map(|record| record["action"].as_str().expect("an action").to_owned());
    actions.filter(|action| action.contains("destination")).collect()
}

fn assert_has(shown: &Value, expected: &Value) {
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(&shown[name], value, "{name} of {shown}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one walk through every kind")]
fn destinations_of_every_kind_are_made_shown_and_kept() {
    let mut server = start();
    let mut admin = server.operator();
    let made = create(&mut admin, &webhook("shop"));
    assert_eq!(made.status, 201, "{made:?}");
    assert!(made.json()["secret"].as_str().is_some_and(|secret| secret.starts_with("whsec_")), "{made:?}");
    assert_has(
        &made.json(),
        &json!({
            "name": "shop", "kind": "webhook", "state": "active", "disabled_because": null, "url": HOOK,
            "batch_max": 1, "timeout_seconds": 15, "rooms": [], "types": ["default"],
            "with_request_ids": false, "schedule": "exponential", "backoff_max_seconds": 60,
            "give_up_after_seconds": 259_200, "from_file": false, "public_key": null,
        }),
    );
    assert_has(
        &made.json()["secrets"][0],
        &json!({"algorithm": "hmac-sha256", "public_key": null, "expires_at": null}),
    );
    assert_has(&made.json()["status"], &json!({"last_error": null, "dead_letters": 0, "missed": 0}));

    let pair = json!({
        "name": "pair", "kind": "webhook", "url": "http://127.0.0.1:9/hooks", "algorithm": "ed25519",
        "batch_max": 100, "rooms": ["Hall", "Sample"], "types": ["*"], "with_request_ids": true,
        "schedule": "standard", "timeout_seconds": 30, "give_up_after_seconds": 60,
    });
    let made = create(&mut admin, &pair);
    assert_eq!((made.status, &made.json()["secret"]), (201, &Value::Null), "{made:?}");
    assert_has(&made.json(), &pair_without_algorithm(&pair));
    let public = made.json()["public_key"].as_str().expect("a public key").to_owned();
    assert!(public.starts_with("whpk_"), "{public}");

    let bus = json!({
        "name": "bus", "kind": "eventbridge", "region": "eu-central-1", "access_key_id": ACCESS_KEY_ID,
        "secret": AWS_SECRET,
    });
    let made = create(&mut admin, &bus);
    assert_has(
        &made.json(),
        &json!({
            "kind": "eventbridge", "region": "eu-central-1", "bus": "default", "endpoint": null,
            "access_key_id": ACCESS_KEY_ID, "types": ["aws"], "with_request_ids": true, "secret": null,
        }),
    );
    let nats = json!({
        "name": "stream", "kind": "nats", "url": "tls://nats.example:4222", "secret": NATS_SECRET,
    });
    let made = create(&mut admin, &nats);
    assert_has(&made.json(), &json!({"subject_prefix": "anteroom", "types": ["default"], "secret": null}));
    let made = create(&mut admin, &json!({"name": "log", "kind": "file"}));
    assert_has(
        &made.json(),
        &json!({"size_max_bytes": 104_857_600, "files_max": 10, "secrets": [], "timeout_seconds": null}),
    );
    assert_eq!(create(&mut admin, &webhook("shop")).problem(), "name-taken");

    let shown = send(&mut admin, "GET", "/destinations/pair");
    assert_eq!(shown.status, 200);
    assert_eq!(shown.json()["secrets"][0]["public_key"], json!(public), "a public key is no secret");
    let before = send(&mut admin, "GET", "/destinations").json();
    server.terminate().expect("the server ends");
    server.restart().expect("the server starts again");
    let mut admin = server.operator();
    assert_eq!(names(&mut admin), ["shop", "pair", "bus", "stream", "log"]);
    let after = send(&mut admin, "GET", "/destinations").json();
    for (before, after) in before["destinations"]
        .as_array()
        .expect("a list")
        .iter()
        .zip(after["destinations"].as_array().expect("a list"))
    {
        let mut expected = before.clone();
        expected["status"] = after["status"].clone();
        assert_eq!(after, &expected);
    }
    for name in ["shop", "bus"] {
        assert_eq!(send(&mut admin, "DELETE", &format!("/destinations/{name}")).status, 204);
    }
    assert_eq!(names(&mut admin), ["pair", "stream", "log"]);
    for (method, path) in [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/test"),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("POST", "/secret"),
        ("DELETE", "/secrets/previous"),
        ("GET", "/dead-letters"),
        ("POST", "/dead-letters"),
        ("DELETE", "/dead-letters"),
    ] {
        let answer = send(&mut admin, method, &format!("/destinations/shop{path}"));
        assert_eq!((answer.status, answer.problem().as_str()), (404, "unknown-name"), "{method} {path}");
    }
    let replay = send_body(&mut admin, "POST", "/destinations/shop/replay", &json!({"after": 0}));
    assert_eq!(replay.problem(), "unknown-name");
    let change = send_body(&mut admin, "PATCH", "/destinations/shop", &json!({}));
    assert_eq!(change.problem(), "unknown-name");
    assert_eq!(
        actions(&mut admin),
        [
            "create webhook destination shop",
            "create webhook destination pair",
            "create eventbridge destination bus",
            "create nats destination stream",
            "create file destination log",
            "delete destination shop",
            "delete destination bus",
        ]
    );
}

/// What an answer shows of a body: the algorithm is with the secrets.
fn pair_without_algorithm(body: &Value) -> Value {
    let mut shown = body.clone();
    shown.as_object_mut().expect("an object").remove("algorithm");
    shown
}

#[test]
fn a_secret_is_shown_once_and_nowhere_later() {
    let server = start();
    let mut admin = server.operator();
    let first = created(&mut admin, &webhook("shop"));
    let mut own = webhook("own");
    own["secret"] = json!(OWN_SECRET);
    assert_eq!(created(&mut admin, &own), "", "what was given is not repeated");
    let bus = json!({
        "name": "bus", "kind": "eventbridge", "region": "eu-central-1", "access_key_id": ACCESS_KEY_ID,
        "secret": AWS_SECRET,
    });
    assert_eq!(created(&mut admin, &bus), "");
    let nats = json!({"name": "stream", "kind": "nats", "url": "nats://127.0.0.1:1", "secret": NATS_SECRET});
    assert_eq!(created(&mut admin, &nats), "");
    let rotated = send(&mut admin, "POST", "/destinations/shop/secret");
    assert_eq!(rotated.status, 201, "{rotated:?}");
    let second = rotated.json()["secret"].as_str().expect("the new secret, once").to_owned();
    assert_ne!(first, second);
    // Refusals do not repeat what they refuse.
    let bad = json!({"name": "bad", "kind": "webhook", "url": HOOK, "secret": "hunter2-hunter2"});
    let bad = create(&mut admin, &bad);
    assert_eq!(bad.problem(), "bad-request");

    let backup = send(&mut admin, "GET", "/backup");
    assert_eq!(backup.status, 200);
    let mut texts = vec![
        bad.text(),
        send(&mut admin, "GET", "/destinations").text(),
        send(&mut admin, "GET", "/destinations/shop").text(),
        send(&mut admin, "GET", "/destinations/shop/dead-letters").text(),
        send(&mut admin, "POST", "/destinations/shop/test").text(),
        send(&mut admin, "POST", "/destinations/shop/pause").text(),
        send_body(&mut admin, "PATCH", "/destinations/shop", &json!({"batch_max": 2})).text(),
        send(&mut admin, "GET", "/audit?limit=1000").text(),
        send(&mut admin, "GET", "/metrics").text(),
        String::from_utf8_lossy(&backup.body).into_owned(),
    ];
    texts.push(server.stderr() + &server.stdout());
    for text in texts {
        for secret in [
            &first["whsec_".len()..],
            &second["whsec_".len()..],
            OWN_SECRET,
            AWS_SECRET,
            NATS_SECRET,
            "hunter2",
        ] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}

#[test]
fn two_keys_sign_for_a_while_and_the_older_one_can_be_ended() {
    let server = start();
    let mut admin = server.operator();
    created(&mut admin, &webhook("shop"));
    let previous = "/destinations/shop/secrets/previous";
    assert_eq!(send(&mut admin, "DELETE", previous).problem(), "conflict", "there is only one");
    let rotate =
        |admin: &mut Client, body: &Value| send_body(admin, "POST", "/destinations/shop/secret", body);
    let ends = |answer: &Answer| -> Vec<bool> {
        let secrets = answer.json()["secrets"].as_array().expect("a list").clone();
        secrets.iter().map(|secret| !secret["expires_at"].is_null()).collect()
    };
    assert_eq!(ends(&rotate(&mut admin, &json!({}))), [false, true], "the one before goes on for a day");
    assert_eq!(send(&mut admin, "DELETE", previous).status, 204);
    assert_eq!(ends(&send(&mut admin, "GET", "/destinations/shop")), [false]);
    let at_once = rotate(&mut admin, &json!({"previous_expires_in_seconds": 0}));
    assert_eq!(ends(&at_once), [false]);
    let pair = rotate(&mut admin, &json!({"algorithm": "ed25519"}));
    assert!(pair.json()["public_key"].as_str().is_some_and(|key| key.starts_with("whpk_")), "{pair:?}");
    assert_eq!(
        pair.json()["secrets"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|one| &one["algorithm"])
            .collect::<Vec<_>>(),
        ["ed25519", "hmac-sha256"]
    );
    for bad in [
        json!({"previous_expires_in_seconds": -1}),
        json!({"previous_expires_in_seconds": 31_536_001}),
        json!({"algorithm": "rsa"}),
        json!({"access_key_id": ACCESS_KEY_ID}),
        json!({"secret": "hunter2"}),
        json!({"secret": 5}),
        json!({"secret": OWN_SECRET, "algorithm": "ed25519"}),
        json!({"previous": 1}),
        json!([]),
    ] {
        assert_eq!(rotate(&mut admin, &bad).problem(), "bad-request", "{bad}");
    }
    created(&mut admin, &json!({"name": "log", "kind": "file"}));
    assert_eq!(send(&mut admin, "POST", "/destinations/log/secret").problem(), "conflict");
    let bus = json!({
        "name": "bus", "kind": "eventbridge", "region": "eu-central-1", "access_key_id": ACCESS_KEY_ID,
        "secret": AWS_SECRET,
    });
    created(&mut admin, &bus);
    assert_eq!(
        send(&mut admin, "POST", "/destinations/bus/secret").problem(),
        "bad-request",
        "it must be given"
    );
    let next = json!({"secret": "another-secret", "access_key_id": "AKIDEXAMPLEEXAMPLE01"});
    let next = send_body(&mut admin, "POST", "/destinations/bus/secret", &next);
    assert_eq!((next.status, &next.json()["access_key_id"]), (201, &json!("AKIDEXAMPLEEXAMPLE01")));
}

#[test]
fn a_destination_is_changed_paused_resumed_and_replayed() {
    let server = start();
    let mut admin = server.operator();
    created(&mut admin, &webhook("shop"));
    let change = json!({"url": "https://shop.example/other", "rooms": ["Hall"], "types": ["session.*", "alarm.fired"]});
    let changed = send_body(&mut admin, "PATCH", "/destinations/shop", &change);
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_has(&changed.json(), &change);
    let all = send_body(&mut admin, "PATCH", "/destinations/shop", &json!({"rooms": []}));
    assert_has(&all.json(), &json!({"rooms": [], "types": ["session.*", "alarm.fired"]}));
    for (verb, state) in
        [("pause", "paused"), ("pause", "paused"), ("resume", "active"), ("resume", "active")]
    {
        let answer = send(&mut admin, "POST", &format!("/destinations/shop/{verb}"));
        assert_eq!((answer.status, &answer.json()["state"]), (200, &json!(state)), "{answer:?}");
    }
    for number in 1..=2 {
        let replay = send_body(&mut admin, "POST", "/destinations/shop/replay", &json!({"after": 0}));
        assert_eq!((replay.status, replay.json()), (202, json!({"number": number, "after": 0})));
    }
    for bad in [
        json!({}),
        json!({"after": -1}),
        json!({"after": "1"}),
        json!({"after": 1, "event_id": "x"}),
        json!({"since": "yesterday"}),
        json!({"since": -1}),
        json!({"before": 1}),
    ] {
        let answer = send_body(&mut admin, "POST", "/destinations/shop/replay", &bad);
        assert_eq!(answer.problem(), "bad-request", "{bad}: {answer:?}");
    }
    let unknown = json!({"event_id": "there-is-no-such-event"});
    let unknown = send_body(&mut admin, "POST", "/destinations/shop/replay", &unknown);
    assert_eq!(unknown.problem(), "bad-request");
    let letters = send(&mut admin, "GET", "/destinations/shop/dead-letters?limit=5");
    assert_eq!((letters.status, letters.json()), (200, json!({"dead_letters": []})));
    for bad in ["0", "1001", "x"] {
        let answer = send(&mut admin, "GET", &format!("/destinations/shop/dead-letters?limit={bad}"));
        assert_eq!(answer.problem(), "bad-request", "{bad}");
    }
    assert_eq!(send(&mut admin, "POST", "/destinations/shop/dead-letters").json(), json!({"number": 1}));
    assert_eq!(send(&mut admin, "DELETE", "/destinations/shop/dead-letters").json(), json!({"number": 2}));
    let tested = send(&mut admin, "POST", "/destinations/shop/test");
    assert_eq!((tested.status, &tested.json()["delivered"]), (200, &json!(false)), "{tested:?}");
    assert_eq!(
        actions(&mut admin)[1..],
        [
            "change destination shop",
            "change destination shop",
            "pause destination shop",
            "resume destination shop",
            "replay to destination shop",
            "replay to destination shop",
            "replay dead letters of destination shop",
            "drop dead letters of destination shop",
        ],
        "what changes nothing leaves no record"
    );
}

#[test]
fn a_bad_destination_is_refused_with_the_name_of_the_field_and_changes_nothing() {
    let server = Server::builder(BINARY).start().expect("the server starts");
    let mut admin = server.operator();
    let with = |name: &str, value: Value| {
        let mut body = webhook("shop");
        body[name] = value;
        body
    };
    let bus = |name: &str, value: Value| {
        let mut body = json!({
            "name": "bus", "kind": "eventbridge", "region": "eu-central-1", "access_key_id": ACCESS_KEY_ID,
            "secret": AWS_SECRET,
        });
        body[name] = value;
        body
    };
    let many: Vec<String> = (0..257).map(|number| format!("r{number}")).collect();
    for (field, body) in [
        ("name", json!({"kind": "webhook", "url": HOOK})),
        ("name", with("name", json!("a b"))),
        ("name", with("name", json!(".hidden"))),
        ("name", with("name", json!("x".repeat(65)))),
        ("kind", json!({"name": "shop", "url": HOOK})),
        ("kind", with("kind", json!("kafka"))),
        ("kind", json!({"name": "log", "kind": "file"})),
        ("url", json!({"name": "shop", "kind": "webhook"})),
        ("url", with("url", json!("http://shop.example/hooks"))),
        ("url", with("url", json!("https://127.0.0.1/hooks"))),
        ("url", with("url", json!("https://localhost/hooks"))),
        ("url", with("url", json!("http://169.254.169.254/latest"))),
        ("url", with("url", json!("https://[::ffff:10.0.0.1]/"))),
        ("url", with("url", json!("https://user:password@shop.example/"))),
        ("url", with("url", json!("https://shop.example/#top"))),
        ("url", with("url", json!("https://shop.example/\r\nA: b"))),
        ("url", with("url", json!("file:///etc/passwd"))),
        ("url", with("url", json!(format!("{HOOK}/{}", "a".repeat(2048))))),
        ("batch_max", with("batch_max", json!(101))),
        ("batch_max", with("batch_max", json!(-1))),
        ("algorithm", with("algorithm", json!("none"))),
        ("secret", with("secret", json!("too-short"))),
        ("region", with("region", json!("eu-central-1"))),
        ("region", bus("region", json!(""))),
        ("bus", bus("bus", json!("a bus"))),
        ("endpoint", bus("endpoint", json!("http://10.0.0.1/"))),
        ("access_key_id", bus("access_key_id", json!("short"))),
        ("secret", bus("secret", Value::Null)),
        (
            "subject_prefix",
            json!({"name": "n", "kind": "nats", "url": "tls://a.example", "subject_prefix": "a.*"}),
        ),
        ("timeout_seconds", with("timeout_seconds", json!(0))),
        ("timeout_seconds", with("timeout_seconds", json!(31))),
        ("rooms", with("rooms", json!(["a/b"]))),
        ("rooms", with("rooms", json!(["a", "a"]))),
        ("rooms", with("rooms", json!(many))),
        ("types", with("types", json!([]))),
        ("types", with("types", json!(["room.opend"]))),
        ("schedule", with("schedule", json!("never"))),
        ("backoff_max_seconds", with("backoff_max_seconds", json!(86_401))),
        ("give_up_after_seconds", with("give_up_after_seconds", json!(2_592_001))),
        ("whatever", with("whatever", json!(1))),
    ] {
        let answer = create(&mut admin, &body);
        assert_eq!((answer.status, answer.problem().as_str()), (400, "bad-request"), "{body}: {answer:?}");
        let detail = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert!(detail.contains(&format!("`{field}`")), "{body}: {detail}");
        assert!(!detail.contains(AWS_SECRET) && !detail.contains("too-short"), "{detail}");
    }
    let hint = create(&mut admin, &with("types", json!(["room.opend"]))).json()["detail"].clone();
    assert!(hint.as_str().is_some_and(|detail| detail.ends_with("did you mean room.opened?")), "{hint}");
    assert_eq!(names(&mut admin), [""; 0]);
    assert_eq!(actions(&mut admin), [""; 0]);

    created(&mut admin, &webhook("shop"));
    let before = send(&mut admin, "GET", "/destinations/shop").json();
    for (field, change) in [
        ("name", json!({"name": "other"})),
        ("kind", json!({"kind": "file"})),
        ("secret", json!({"secret": OWN_SECRET})),
        ("algorithm", json!({"algorithm": "ed25519"})),
        ("region", json!({"region": "eu-central-1"})),
        ("url", json!({"url": "http://10.0.0.1/", "batch_max": 2})),
        ("backoff_max_seconds", json!({"schedule": "standard", "backoff_max_seconds": 5})),
    ] {
        let answer = send_body(&mut admin, "PATCH", "/destinations/shop", &change);
        assert_eq!(answer.problem(), "bad-request", "{change}");
        let detail = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert!(detail.contains(&format!("`{field}`")), "{change}: {detail}");
    }
    let mut after = send(&mut admin, "GET", "/destinations/shop").json();
    after["status"] = before["status"].clone();
    assert_eq!(after, before);
    for number in 1..64 {
        created(&mut admin, &webhook(&format!("d{number}")));
    }
    assert_eq!(create(&mut admin, &webhook("one-too-many")).problem(), "conflict", "there are at most 64");
}

#[test]
fn a_backup_has_the_destinations() {
    let old = start();
    let mut admin = old.operator();
    created(&mut admin, &webhook("shop"));
    send(&mut admin, "POST", "/destinations/shop/secret");
    send(&mut admin, "POST", "/destinations/shop/pause");
    let backup = send(&mut admin, "GET", "/backup");
    let shop = send(&mut admin, "GET", "/destinations/shop").json();

    let new = Server::builder(BINARY)
        .env("ANTEROOM_SECRET", old.secret())
        .start()
        .expect("another server with the same master secret");
    let mut admin = new.operator();
    created(&mut admin, &webhook("other"));
    let restore = Request::new("POST", "/restore").body(backup.body);
    let restored = admin.send(&restore).expect("an answer as it should be");
    assert_eq!(restored.status, 200, "{restored:?}");
    assert_eq!(names(&mut admin), ["shop"], "those of the backup and no others");
    let mut expected = shop;
    let after = send(&mut admin, "GET", "/destinations/shop").json();
    expected["status"] = after["status"].clone();
    assert_eq!(after, expected, "with both keys, and paused");
}
