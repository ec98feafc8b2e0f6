//! Two nodes on one Redis: what is done through one of them is so on the other; and what each of them demands before it starts.

use anteroom_testkit::redis::RedisProcess;
use anteroom_testkit::{Client, Request, Server, require_redis, wait_until};
use serde_json::{Value, json};

use crate::pair::{TIMEOUT, call, eventually, node, two_nodes};
use crate::support::operator::{Operator, finish};

const OTHER_SECRET: &str = "another-master-secret-of-more-than-32-characters";
const PASSWORD: &str = "hunter2hunter2";

#[test]
fn a_room_made_and_deleted_on_one_node_is_so_on_the_other() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let [one, other] = two_nodes(&redis, "");
    let settings = json!({"settings": {"notice": "Doors open at eight."}});
    call(&mut one.operator(), "PUT", "/rooms/Hall", &settings, 201);
    let mut visitor = other.visitor();
    eventually("the other node has the room", &mut visitor, "/rooms/Hall", |answer| {
        answer.status == 200 && answer.json()["notice"] == "Doors open at eight."
    });
    call(&mut other.operator(), "PATCH", "/rooms/Hall", &json!({"state": "paused"}), 200);
    eventually("the first node knows of the change", &mut one.visitor(), "/rooms/Hall", |answer| {
        answer.json()["state"] == "paused"
    });
    call(&mut other.operator(), "DELETE", "/rooms/Hall", &json!({}), 204);
    eventually("the first node lets go of it", &mut one.visitor(), "/rooms/Hall", |answer| {
        answer.status == 404
    });
    // Made again under its name it is another room, everywhere.
    call(&mut one.operator(), "PUT", "/rooms/Hall", &json!({}), 201);
    eventually("the other node has the new one", &mut visitor, "/rooms/Hall", |answer| {
        answer.status == 200 && answer.json()["notice"].is_null()
    });
}

#[test]
fn a_line_is_one_line_whichever_node_is_asked() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let nodes = two_nodes(&redis, "");
    let mut lines = [nodes[0].line("Sample"), nodes[1].line("Sample")];
    let mut ids = vec![];
    for round in 0..40 {
        let id = lines[round % 2].join();
        // A ticket is known on the other node at once, although its board may not show it yet.
        let position = i64::try_from(round).expect("a small number") + 1;
        assert_eq!(lines[(round + 1) % 2].position(&id), position, "no gap, nobody twice, in order");
        ids.push(id);
    }
    lines[0].advance(10);
    let claimed = ids[..10].iter().enumerate().map(|(index, id)| {
        // The pass of one node is the other node's, byte for byte.
        let [here, there] = [index % 2, (index + 1) % 2].map(|node| lines[node].claim(id));
        assert_eq!((here.status, there.status), (200, 200), "{here:?} {there:?}");
        let tokens = |answer: &anteroom_testkit::Answer| answer.json()["access_token"].clone();
        assert_eq!(tokens(&here), tokens(&there));
        id
    });
    assert_eq!(claimed.count(), 10);
    for line in &mut lines {
        wait_until("all boards agree", TIMEOUT, || {
            (line.serving(), line.waiting(), line.active()) == (10, 30, 10)
        });
    }
    let shown = Request::new("GET", "/status").header("Authorization", &ids[30]);
    let statuses = nodes.each_ref().map(|node| node.visitor().send(&shown).expect("an answer").json());
    assert_eq!(statuses[0]["people_ahead"], statuses[1]["people_ahead"]);
}

#[test]
fn a_join_repeated_on_another_node_is_the_same_place() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let nodes = two_nodes(&redis, "");
    let join = Request::new("POST", "/join").header("Idempotency-Key", "0123456789abcdef0123456789abcdef");
    let [first, again] = nodes.each_ref().map(|node| node.visitor().send(&join).expect("an answer").json());
    assert_eq!((&first["position"], &first["request_id"]), (&json!(1), &again["request_id"]), "{again}");
}

#[test]
fn a_move_repeated_on_another_node_is_answered_the_same() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let nodes = two_nodes(&redis, "");
    let joined = nodes[0].visitor().send(&Request::new("POST", "/join")).expect("an answer").json();
    let ticket = joined["ticket"].as_str().expect("a ticket");
    let key = "0123456789abcdef0123456789abcdef";
    let moves = Request::new("POST", "/move").header("Authorization", ticket).header("Idempotency-Key", key);
    let [first, again] = nodes.each_ref().map(|node| node.visitor().send(&moves).expect("an answer"));
    assert_eq!((first.status, again.status), (200, 200), "{first:?} {again:?}");
    assert_eq!(first.json()["request_id"], again.json()["request_id"]);
}

#[test]
fn keys_are_made_and_revoked_for_all_nodes() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let [one, other] = two_nodes(&redis, "");
    let wanted = json!({"name": "night-shift", "role": "viewer"});
    let key = call(&mut one.operator(), "POST", "/keys", &wanted, 201).json()["key"]
        .as_str()
        .expect("the key, once")
        .to_owned();
    let holder = |node: &Server| Client::new(node.private()).with_bearer(&key);
    eventually("the other node takes the key", &mut holder(&other), "/rooms", |answer| answer.status == 200);
    call(&mut other.operator(), "DELETE", "/keys/night-shift", &json!({}), 204);
    eventually("the first node refuses it", &mut holder(&one), "/rooms", |answer| answer.status == 401);

    let keys = |node: &Server| {
        let answer = node.visitor().get("/.well-known/jwks.json").expect("an answer").json();
        answer["keys"].as_array().map_or(0, Vec::len)
    };
    assert_eq!((keys(&one), keys(&other)), (1, 1), "one ring for both");
    call(&mut one.operator(), "POST", "/signing_keys", &json!({}), 201);
    wait_until("the other node announces the new signing key", TIMEOUT, || keys(&other) == 2);
}

#[test]
fn a_client_made_on_one_node_is_known_on_the_other() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let [one, other] = two_nodes(&redis, "");
    let wanted = json!({"id": "shop", "redirect_addresses": ["https://shop.example/callback"]});
    call(&mut one.operator(), "POST", "/rooms/Sample/clients", &wanted, 201);
    let path = "/rooms/Sample/clients/shop";
    eventually("the other node has the client", &mut other.operator(), path, |answer| answer.status == 200);
    // Each node changes what the other has made of it.
    call(&mut other.operator(), "POST", "/rooms/Sample/clients/shop/secrets", &json!({}), 201);
    eventually("the first node has both secrets", &mut one.operator(), path, |answer| {
        answer.json()["secrets"].as_array().is_some_and(|secrets| secrets.len() == 2)
    });
    call(&mut one.operator(), "DELETE", path, &json!({}), 204);
    eventually("the other node has it no more", &mut other.operator(), path, |answer| answer.status == 404);
}

/// A notification of Alertmanager's about one alert.
fn notification(name: &str, status: &str) -> Value {
    json!({"status": status, "alerts": [{"status": status, "labels": {"alertname": name}, "fingerprint": "1"}]})
}

/// The state of an alarm on a node.
fn alarm_state(node: &Server, name: &str) -> Value {
    let listed = node.operator().get("/alarms").expect("an answer").json();
    let alarms = listed["alarms"].as_array().cloned().unwrap_or_default();
    alarms.into_iter().find(|alarm| alarm["name"] == name).map_or(Value::Null, |alarm| alarm["state"].clone())
}

#[test]
fn an_alarm_told_to_one_node_holds_the_line_everywhere() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let nodes = two_nodes(&redis, "");
    let room = json!({"settings": {"inlet": "max-size", "total_active_users": 5, "alarms": ["HighLoad"]}});
    call(&mut nodes[0].operator(), "PUT", "/rooms/Hall", &room, 201);
    for (teller, status, standstill) in [
        (0, "firing", json!("alarm")),
        (1, "resolved", json!("nobody-waiting")),
        (1, "firing", json!("alarm")),
    ] {
        call(&mut nodes[teller].operator(), "POST", "/alarms", &notification("HighLoad", status), 200);
        for node in &nodes {
            eventually("the line is held, or not", &mut node.visitor(), "/rooms/Hall", |answer| {
                answer.json()["standstill"] == standstill
            });
        }
    }
}

#[test]
fn an_own_alarm_of_one_node_fires_on_all_until_that_node_is_gone() {
    const NAME: &str = "Anteroom-Public-4xx-Alarm";
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let [mut one, other] = two_nodes(&redis, "");
    let room = json!({"settings": {"inlet": "max-size", "total_active_users": 5, "alarms": [NAME]}});
    call(&mut one.operator(), "PUT", "/rooms/Hall", &room, 201);
    assert_eq!(one.visitor().get("/rooms/Nowhere").expect("an answer").status, 404);
    wait_until("the other node knows", TIMEOUT, || alarm_state(&other, NAME) == "firing");
    eventually("the line is held", &mut other.visitor(), "/rooms/Hall", |answer| {
        answer.json()["standstill"] == "alarm"
    });
    one.kill_nine().expect("it can be killed");
    wait_until("the word of a node that is gone runs out", TIMEOUT, || alarm_state(&other, NAME) == "ok");
    eventually("the line is free", &mut other.visitor(), "/rooms/Hall", |answer| {
        answer.json()["standstill"] == "nobody-waiting"
    });
}

#[test]
fn a_node_without_the_right_secret_does_not_start_and_says_why() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let first = node(&redis.url()).start().expect("the node starts");
    let ended = node(&redis.url()).env("ANTEROOM_SECRET", OTHER_SECRET).run_to_end().expect("it ends");
    assert_ne!(ended.status.code(), Some(0));
    assert!(
        ended.stderr.contains("error: the master secret is not the one this store was made with")
            && ended.stderr.contains("hint: give that one too"),
        "{}",
        ended.stderr
    );
    let ended = node(&redis.url()).without_env("ANTEROOM_SECRET").run_to_end().expect("it ends");
    assert_ne!(ended.status.code(), Some(0));
    assert!(
        ended.stderr.contains("store_url names a Redis, but no master secret is given")
            && ended.stderr.contains("ANTEROOM_SECRET or in the file that `secret_file` names"),
        "{}",
        ended.stderr
    );
    // Both secrets do, and the first one seals from then on.
    let both = format!("{OTHER_SECRET},{}", first.secret());
    node(&redis.url()).env("ANTEROOM_SECRET", both).start().expect("the node starts");
    // Nobody can read in the Redis what visitors hold.
    let id = first.line("Sample").join();
    let mut line = first.line("Sample");
    line.advance(1);
    assert_eq!(line.claim(&id).status, 200);
    let compact = id.replace('-', "");
    for key in redis.command(&["KEYS", "*"]).array() {
        let dump = format!("{:?} {:?}", key, redis.command(&["DUMP", &key.text()]));
        assert!(!dump.contains(&id) && !dump.contains(&compact), "{}", key.text());
    }
}

#[test]
fn the_password_is_printed_nowhere() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::builder().password(PASSWORD).start();
    let server = node(&redis.url()).env("ANTEROOM_LOG", "trace").start().expect("the node starts");
    let id = server.line("Sample").join();
    assert_eq!(server.line("Sample").position(&id), 1);
    let wrong = redis.url().replace(PASSWORD, "hunter3hunter3");
    let refused = node(&wrong).env("ANTEROOM_LOG", "trace").run_to_end().expect("it ends");
    assert_ne!(refused.status.code(), Some(0));
    let shown = format!("redis://:***@127.0.0.1:{}", redis.port());
    assert!(refused.stderr.contains(&shown), "{}", refused.stderr);
    let checked = node(&redis.url()).command("check-config").run_to_end().expect("it ends");
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    assert!(checked.stdout.contains("room Sample: as in the file"), "{checked:?}");
    let file = format!("store_url = \"{}\"\n", redis.url());
    let in_file = node("").config(file).run_to_end().expect("it ends");
    assert_eq!(in_file.status.code(), Some(2), "{in_file:?}");
    for said in [
        server.stdout(),
        server.stderr(),
        refused.stdout,
        refused.stderr,
        checked.stdout,
        checked.stderr,
        in_file.stdout,
        in_file.stderr,
    ] {
        assert!(!said.contains("hunter"), "{said}");
    }
}

#[test]
fn a_key_made_beside_running_nodes_opens_them() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::start();
    let [one, other] = two_nodes(&redis, "");
    let operator = Operator::of(&one);
    let mut command = operator.command(&["key", "create", "rescue", "--role", "admin", "--offline"]);
    command.env("ANTEROOM_STORE_URL", redis.url()).env("ANTEROOM_SECRET", one.secret());
    let made = finish(&mut command);
    assert_eq!(
        (made.code, made.stderr.as_str()),
        (Some(0), "key rescue (admin); its secret is shown only now\n"),
        "{made:?}"
    );
    let mut holder = Client::new(other.private()).with_bearer(made.stdout.trim());
    eventually("the nodes take the key", &mut holder, "/keys", |answer| answer.status == 200);
    let mut command = operator.command(&["key", "create", "more", "--role", "admin", "--offline"]);
    command.env("ANTEROOM_STORE_URL", redis.url()).env("ANTEROOM_SECRET", OTHER_SECRET);
    let refused = finish(&mut command);
    assert!(refused.stderr.contains("the master secret is not the one"), "{refused:?}");
}

#[test]
fn nodes_speak_tls_with_a_redis_that_their_authority_vouches_for() {
    if !require_redis() {
        return;
    }
    let redis = RedisProcess::builder().password(PASSWORD).tls().start();
    let url = format!("rediss://:{PASSWORD}@127.0.0.1:{}", redis.tls_port());
    let certificate = redis.certificate_file().display().to_string();
    let server = node(&url).env("ANTEROOM_STORE_TLS_CA", certificate).start().expect("the node starts");
    assert_eq!(server.line("Sample").join().len(), 36);
    let refused = node(&url).run_to_end().expect("it ends");
    assert_ne!(refused.status.code(), Some(0), "whom the system trusts did not vouch for it");
    assert!(!refused.stderr.contains(PASSWORD), "{}", refused.stderr);
}
